/* SPDX-License-Identifier: MIT */
/* op-face-blend.c - see the header. */

#include "config.h"

#include <math.h>

#include "op-face-blend.h"

#define FEATHER 0.12 /* of the frame's side */
#define STRONG 0.1f  /* a change of this size replaces all fine structure at detail 0 */

typedef struct
{
  zn_array         *out; /* its place is the part's */
  const ZnOpField  *field;
  gint              side;
  const ZnOpSquare *square;
  const ZnOpPart   *part;
} Paste;

static gdouble
feather (gdouble t)
{
  const gdouble d = CLAMP (MIN (t, 1.0 - t) / FEATHER, 0.0, 1.0);

  return d * d * (3.0 - 2.0 * d);
}

/* out += mask (up(added) + up(gain) (picture - up(seen))) */
static void
paste_rows (gsize start, gsize count, gpointer data)
{
  const Paste      *p    = data;
  const ZnOpSquare *q    = p->square;
  const zn_rect     rect = p->part->rect;

  for (gint y = (gint) start; y < (gint) (start + count); y++)
    for (gint x = 0; x < rect.w; x++)
      {
        const gdouble a    = rect.x + x + 0.5 - q->x;
        const gdouble b    = rect.y + y + 0.5 - q->y;
        const gdouble u    = (q->cos * a + q->sin * b) / q->size + 0.5;
        const gdouble v    = (q->cos * b - q->sin * a) / q->size + 0.5;
        const gfloat  mask = (gfloat) (feather (u) * feather (v));
        const gsize   at   = ((gsize) y * rect.w + x) * 3;
        gfloat        f[ZN_OP_FIELDS];

        if (mask <= 0.0f)
          continue;
        zn_op_sample_cubic (f, (const gfloat *) p->field, p->side, p->side, ZN_OP_FIELDS,
                            u * p->side - 0.5, v * p->side - 0.5);
        for (gint c = 0; c < 3; c++)
          p->out->data[at + c] += mask * (f[c] + f[6] * (p->part->pixels[at + c] - f[3 + c]));
      }
}

void
zn_op_field_paste (zn_array         *out,
                   const ZnOpField  *field,
                   gint              side,
                   const ZnOpSquare *square,
                   const ZnOpPart   *part)
{
  Paste data = { out, field, side, square, part };

  gegl_parallel_distribute_range (out->h, 16, paste_rows, &data);
}

ZnOpField *
zn_op_field_new (const ZnOpFaceWork *work,
                 const gfloat       *to,
                 const gfloat       *from,
                 const gfloat       *low,
                 gfloat              gain)
{
  ZnOpField *field = g_new0 (ZnOpField, (gsize) work->side * work->side);

  for (gsize i = 0; i < work->len; i++)
    {
      field[i / 3][i % 3]     = to[i] - from[i];
      field[i / 3][3 + i % 3] = low[i];
      field[i / 3][6]         = gain;
    }

  return field;
}

void
zn_op_field_cut_fine (ZnOpField *field, gint side, gfloat cut)
{
  const gint radius = 2;

  for (gint y = 0; y < side; y++)
    for (gint x = 0; x < side; x++)
      {
        gfloat sum = 0.0f;
        gint   n   = 0;

        for (gint j = MAX (y - radius, 0); j <= MIN (y + radius, side - 1); j++)
          for (gint i = MAX (x - radius, 0); i <= MIN (x + radius, side - 1); i++, n++)
            {
              const gfloat *f = field[(gsize) j * side + i];

              sum += MAX (fabsf (f[0]), MAX (fabsf (f[1]), fabsf (f[2])));
            }
        field[(gsize) y * side + x][6] = -cut * MIN (sum / n / STRONG, 1.0f);
      }
}
