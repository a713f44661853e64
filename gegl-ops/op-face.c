/* SPDX-License-Identifier: MIT */
/* op-face.c - the work of the operations on faces; see the header. */

#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include <glib/gstdio.h>

#include "op-cache.h"
#include "op-engine.h"
#include "op-face.h"

#define OWN_MODEL "zenith-face"
#define MIN_FRAME 16  /* pixels */
#define FEATHER 0.12  /* of the frame's side */
#define STRONG 0.1f   /* a change of this size replaces all fine structure at detail 0 */
#define FIELDS 8      /* see Field */
#define MAX_SIDE 4096 /* of the model's picture */

enum /* places in task->model */
{
  ENCODE,
  REVERSE,
  SAMPLE
};

enum
{
  LATENT,
  LATENT_SAMPLE,
  LATENT_ENCODE
};

/* ---- the frame ------------------------------------------------------------ */

typedef struct
{
  gdouble x, y, size, cos, sin;
} Square;

/* The frame in a picture of this size, or a sentence. */
static gboolean
get_square (Square *square, const ZnOpFrame *frame, gint width, gint height, zn_error *err)
{
  const gdouble angle = frame->angle * G_PI / 180.0;

  *square = (Square){ frame->x, frame->y, frame->size, cos (angle), sin (angle) };
  if (frame->size <= 0.0)
    *square = (Square){ width / 2.0, height / 2.0, MIN (width, height), cos (angle), sin (angle) };

  if (! (square->size >= MIN_FRAME))
    g_snprintf (err->text, sizeof (err->text),
                "A frame of %g x %g pixels is too small: a face needs at least %d.", square->size,
                square->size, MIN_FRAME);
  else if (! (square->x >= 0.0 && square->x <= width && square->y >= 0.0 && square->y <= height))
    g_snprintf (err->text, sizeof (err->text),
                "The frame's centre at %g, %g is outside the picture of %d x %d.", square->x,
                square->y, width, height);
  else
    return TRUE;

  return FALSE;
}

/* The pixels of the picture that the frame touches. */
static GeglRectangle
square_bounds (const Square *square, gint width, gint height)
{
  const gdouble half = square->size * (fabs (square->cos) + fabs (square->sin)) / 2.0;
  const gint    x0   = (gint) floor (MAX (square->x - half, 0.0));
  const gint    y0   = (gint) floor (MAX (square->y - half, 0.0));
  const gint    x1   = (gint) ceil (MIN (square->x + half, width));
  const gint    y1   = (gint) ceil (MIN (square->y + half, height));

  return (GeglRectangle){ x0, y0, MAX (x1 - x0, 1), MAX (y1 - y0, 1) };
}

/* ---- describe ------------------------------------------------------------- */

void
zn_op_face_add_setting (ZnOpWhole *task, const gchar *format, ...)
{
  gchar  *all, *more;
  va_list args;

  va_start (args, format);
  more = g_strdup_vprintf (format, args);
  va_end (args);
  all = g_strconcat (task->settings ? task->settings : "", " ", more, NULL);
  g_free (more);
  g_free (task->settings);
  task->settings = all;
}

/* The file of a name that is not the engine's own. */
static void
set_weights (ZnOpWhole *task, const gchar *model)
{
  gchar path[4096];

  if (! model || ! *model || ! strcmp (model, OWN_MODEL))
    return;
  if (strchr (model, G_DIR_SEPARATOR))
    task->weights = g_intern_string (model);
  else if (! zn_weights_find (path, sizeof (path), model, &task->refusal))
    task->weights = g_intern_string (path);
}

/* What attribute files call the model: the stem of its file. */
static gchar *
model_stem (const gchar *model)
{
  gchar *base = g_path_get_basename (model && *model ? model : OWN_MODEL);
  gchar *dot  = strrchr (base, '.');

  if (dot && strchr (model, G_DIR_SEPARATOR))
    *dot = '\0';

  return base;
}

void
zn_op_face_describe (ZnOpWhole *task, const ZnOpFace *face)
{
  const GeglRectangle box = task->result;
  Square              square;
  zn_error            err;

  task->model[ENCODE]  = "diffae-encode";
  task->model[REVERSE] = "diffae-reverse";
  task->model[SAMPLE]  = "diffae-sample";
  set_weights (task, face->model);
  zn_op_face_add_setting (task, "%.17g %.17g %.17g %.17g %d %d", face->frame.x, face->frame.y,
                          face->frame.size, face->frame.angle, face->steps, face->stochastic_steps);

  if (! zn_op_check_box (&box, &err))
    return; /* the family says so */
  if (! get_square (&square, &face->frame, box.width, box.height, &err))
    {
      task->refusal = err;
      return;
    }
  task->change = square_bounds (&square, box.width, box.height);
  task->change.x += box.x;
  task->change.y += box.y;
}

/* ---- to the model's size and back ----------------------------------------- */

/* Weights of Catmull-Rom's kernel for the four values around a place between the second
 * and the third. */
static inline void
cubic_weights (gfloat w[4], gfloat t)
{
  w[0] = ((-0.5f * t + 1.0f) * t - 0.5f) * t;
  w[1] = (1.5f * t - 2.5f) * t * t + 1.0f;
  w[2] = ((-1.5f * t + 2.0f) * t + 0.5f) * t;
  w[3] = (0.5f * t - 0.5f) * t * t;
}

/* The picture at a place, 0,0 being the first value's centre; n channels; beyond its
 * edges they go on. */
static void
sample_cubic (gfloat *dst, const gfloat *src, gint width, gint height, gint n, gdouble x, gdouble y)
{
  const gdouble fx = floor (x), fy = floor (y);
  gfloat        wx[4], wy[4];
  gint          cx[4];

  cubic_weights (wx, (gfloat) (x - fx));
  cubic_weights (wy, (gfloat) (y - fy));
  for (gint i = 0; i < 4; i++)
    cx[i] = CLAMP ((gint) fx + i - 1, 0, width - 1);
  for (gint c = 0; c < n; c++)
    dst[c] = 0.0f;
  for (gint j = 0; j < 4; j++)
    {
      const gfloat *row = src + (gsize) CLAMP ((gint) fy + j - 1, 0, height - 1) * width * n;

      for (gint i = 0; i < 4; i++)
        {
          const gfloat  w = wx[i] * wy[j];
          const gfloat *p = row + (gsize) cx[i] * n;

          for (gint c = 0; c < n; c++)
            dst[c] += w * p[c];
        }
    }
}

/* Part of a picture, [rect.h][rect.w][3]. */
typedef struct
{
  zn_rect rect;
  gfloat *pixels;
} Part;

static Part
part_read (const ZnOpPicture *picture, const GeglRectangle *rect)
{
  Part part = { { rect->x, rect->y, rect->width, rect->height }, NULL };

  part.pixels = g_try_malloc ((gsize) rect->width * rect->height * 3 * sizeof (gfloat));
  if (part.pixels)
    zn_op_picture_read ((ZnOpPicture *) picture, part.rect, part.pixels);

  return part;
}

typedef struct
{
  gfloat       *low; /* [side][side][3], 0..1 */
  gint          side;
  const Square *square;
  const Part   *part;
} Shrink;

/* Each value is the mean of about as many places as it covers pixels. */
static void
shrink_rows (gsize start, gsize count, gpointer data)
{
  const Shrink *s    = data;
  const Square *q    = s->square;
  const zn_rect rect = s->part->rect;
  const gint    n    = MAX (1, (gint) ceil (q->size / s->side));

  for (gint v = (gint) start; v < (gint) (start + count); v++)
    for (gint u = 0; u < s->side; u++)
      {
        gfloat *dst    = s->low + ((gsize) v * s->side + u) * 3;
        gdouble sum[3] = { 0.0, 0.0, 0.0 };

        for (gint k = 0; k < n * n; k++)
          {
            const gdouble a = ((u + (k % n + 0.5) / n) / s->side - 0.5) * q->size;
            const gdouble b = ((v + (k / n + 0.5) / n) / s->side - 0.5) * q->size;
            gfloat        value[3];

            sample_cubic (value, s->part->pixels, rect.w, rect.h, 3,
                          q->x + q->cos * a - q->sin * b - rect.x - 0.5,
                          q->y + q->sin * a + q->cos * b - rect.y - 0.5);
            for (gint c = 0; c < 3; c++)
              sum[c] += value[c];
          }
        for (gint c = 0; c < 3; c++)
          dst[c] = zn_op_clean ((gfloat) (sum[c] / (n * n)));
      }
}

static void
shrink (gfloat *low, gint side, const Square *square, const Part *part)
{
  Shrink data = { low, side, square, part };

  gegl_parallel_distribute_range (side, 4, shrink_rows, &data);
}

/* What is done to the picture, at the model's size: value 0..2 is added, value 3..5 is
 * what the model saw, value 6 is the gain of the structure that it did not see. */
typedef gfloat Field[FIELDS];

typedef struct
{
  zn_array     *out; /* its place is the part's */
  const Field  *field;
  gint          side;
  const Square *square;
  const Part   *part;
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
  const Paste  *p    = data;
  const Square *q    = p->square;
  const zn_rect rect = p->part->rect;

  for (gint y = (gint) start; y < (gint) (start + count); y++)
    for (gint x = 0; x < rect.w; x++)
      {
        const gdouble a    = rect.x + x + 0.5 - q->x;
        const gdouble b    = rect.y + y + 0.5 - q->y;
        const gdouble u    = (q->cos * a + q->sin * b) / q->size + 0.5;
        const gdouble v    = (q->cos * b - q->sin * a) / q->size + 0.5;
        const gfloat  mask = (gfloat) (feather (u) * feather (v));
        const gsize   at   = ((gsize) y * rect.w + x) * 3;
        gfloat        f[FIELDS];

        if (mask <= 0.0f)
          continue;
        sample_cubic (f, (const gfloat *) p->field, p->side, p->side, FIELDS, u * p->side - 0.5,
                      v * p->side - 0.5);
        for (gint c = 0; c < 3; c++)
          p->out->data[at + c] += mask * (f[c] + f[6] * (p->part->pixels[at + c] - f[3 + c]));
      }
}

static void
paste (zn_array *out, const Field *field, gint side, const Square *square, const Part *part)
{
  Paste data = { out, field, side, square, part };

  gegl_parallel_distribute_range (out->h, 16, paste_rows, &data);
}

/* ---- the networks --------------------------------------------------------- */

/* One run of an operation. */
typedef struct
{
  const ZnOpFaceRun *run;
  Square             square;
  gint               side, code;
  gsize              len;         /* side * side * 3 */
  gdouble            done, total; /* evaluations of the U-Net */
} Work;

/* A picture of the work, in memory of its own. */
typedef struct
{
  Part    part;
  gfloat *low;   /* [side][side][3], 0..1: what the model sees */
  GBytes *codes; /* cond [code], then xT [side][side][3] */
} Face;

static void
face_clear (Face *face)
{
  g_free (face->part.pixels);
  g_free (face->low);
  g_clear_pointer (&face->codes, g_bytes_unref);
}

static const gfloat *
face_cond (const Face *face)
{
  return g_bytes_get_data (face->codes, NULL);
}

static const gfloat *
face_noise (const Face *face, const Work *work)
{
  return face_cond (face) + work->code;
}

static zn_status
no_memory (const Work *work)
{
  return zn_op_request_refuse (work->run->request, ZN_E_MEMORY,
                               "There is not enough memory for a frame of this size.");
}

/* The next job is so many evaluations. */
static void
work_part (Work *work, gint evaluations)
{
  const gdouble total = MAX (work->total, work->done + evaluations);

  zn_op_request_part (work->run->request, work->done / total, evaluations / total);
  work->done += evaluations;
}

static zn_status
work_begin (Work *work, const ZnOpFaceRun *run)
{
  const zn_geometry *geometry = zn_op_model_geometry (run->model[ENCODE]);
  const ZnOpPicture *picture  = run->in;

  *work = (Work){ .run = run, .side = geometry->side, .code = geometry->out_c };
  if (work->side < 1 || work->side > MAX_SIDE || work->code < 1)
    return zn_op_request_refuse (run->request, ZN_E_FILE,
                                 "The model does not say how large its pictures are.");
  work->len = (gsize) work->side * work->side * 3;
  if (! get_square (&work->square, &run->face->frame, picture->box.width, picture->box.height,
                    &run->request->err))
    return ZN_E_USAGE;
  memset (run->out->data, 0, zn_array_len (run->out) * sizeof (gfloat));

  return ZN_OK;
}

/* The picture in the frame, as the model sees it. */
static zn_status
face_read (Face *face, Work *work, const ZnOpPicture *picture)
{
  const GeglRectangle rect = square_bounds (&work->square, picture->box.width, picture->box.height);

  *face = (Face){ .part = part_read (picture, &rect), .low = g_new (gfloat, work->len) };
  if (! face->part.pixels)
    return no_memory (work);
  shrink (face->low, work->side, &work->square, &face->part);

  return ZN_OK;
}

static ZnOpKey
codes_key (const Face *face, const Work *work)
{
  ZnOpKey key = { 0, 0 };

  zn_op_key_add_string (&key, "diffae codes");
  zn_op_key_add_string (&key, zn_op_model_name (work->run->model[ENCODE]));
  zn_op_key_add_string (&key, zn_op_model_name (work->run->model[REVERSE]));
  zn_op_key_add (&key, &work->run->face->stochastic_steps, sizeof (gint));
  zn_op_key_add (&key, face->low, work->len * sizeof (gfloat));

  return key;
}

static ZnOpKey
reconstruction_key (const Face *face, const Work *work)
{
  ZnOpKey key = codes_key (face, work);

  zn_op_key_add (&key, &work->run->face->steps, sizeof (gint));

  return key;
}

static gboolean
is_kept (ZnOpKey key)
{
  GBytes        *bytes = zn_op_cache_get (&key);
  const gboolean kept  = bytes != NULL;

  g_clear_pointer (&bytes, g_bytes_unref);

  return kept;
}

/* Evaluations that encoding will take. */
static gint
codes_cost (const Face *face, const Work *work)
{
  return is_kept (codes_key (face, work)) ? 0 : 1 + work->run->face->stochastic_steps;
}

/* cond and xT, kept or made now. */
static zn_status
face_encode (Face *face, Work *work)
{
  ZnOpModel *const *model   = work->run->model;
  ZnOpRequest      *request = work->run->request;
  const ZnOpKey     key     = codes_key (face, work);
  const gsize       size    = (work->code + work->len) * sizeof (gfloat);
  gchar             steps[32];
  const gchar      *set[] = { steps };
  const ZnOpJob     job   = { .set = set, .n_set = 1 };
  zn_array          in[2] = { { NULL, work->side, work->side, 3 }, { NULL, 1, 1, work->code } };
  zn_array          cond  = { NULL, 1, 1, work->code };
  zn_array          noise = in[0];
  gfloat           *codes;
  zn_status         status;

  face->codes = zn_op_cache_get (&key);
  if (face->codes)
    return ZN_OK;

  codes      = g_malloc (size);
  in[0].data = g_new (gfloat, work->len);
  in[1].data = cond.data = codes;
  noise.data             = codes + work->code;
  for (gsize i = 0; i < work->len; i++)
    in[0].data[i] = 2.0f * face->low[i] - 1.0f;

  g_snprintf (steps, sizeof (steps), "steps=%d", work->run->face->stochastic_steps);
  work_part (work, 1);
  status = zn_op_model_run_arrays (model[ENCODE], &cond, in, 1, NULL, request);
  if (! status)
    {
      work_part (work, work->run->face->stochastic_steps);
      status = zn_op_model_run_arrays (model[REVERSE], &noise, in, 2, &job, request);
    }
  g_free (in[0].data);

  if (status)
    {
      g_free (codes);
      return status;
    }
  face->codes = g_bytes_new_take (codes, size);
  zn_op_cache_put (&key, face->codes);

  return ZN_OK;
}

/* dst [side][side][3], 0..1 but not cut; cond0: NULL, or what the edit is guided away from. */
static zn_status
sample (gfloat       *dst,
        Work         *work,
        ZnOpModel    *model,
        const gfloat *noise,
        const gfloat *cond,
        const gfloat *cond0,
        gdouble       guide)
{
  const gint     steps = work->run->face->steps;
  gchar          step_text[32], guide_text[64], number[G_ASCII_DTOSTR_BUF_SIZE];
  const gchar   *set[] = { step_text, guide_text };
  const ZnOpJob  job   = { .set = set, .n_set = cond0 ? 2 : 1 };
  const zn_array in[3] = { { (gfloat *) noise, work->side, work->side, 3 },
                           { (gfloat *) cond, 1, 1, work->code },
                           { (gfloat *) cond0, 1, 1, work->code } };
  zn_array       out   = { dst, work->side, work->side, 3 };
  zn_status      status;

  g_snprintf (step_text, sizeof (step_text), "steps=%d", steps);
  g_snprintf (guide_text, sizeof (guide_text), "guide=%s",
              g_ascii_formatd (number, sizeof (number), "%.6f", guide));
  work_part (work, cond0 ? 2 * steps : steps);
  status = zn_op_model_run_arrays (model, &out, in, cond0 ? 3 : 2, &job, work->run->request);
  for (gsize i = 0; ! status && i < work->len; i++)
    {
      if (! isfinite (dst[i]))
        return zn_op_request_refuse (work->run->request, ZN_E_USAGE,
                                     "The network made numbers that are none.");
      dst[i] = 0.5f * dst[i] + 0.5f;
    }

  return status;
}

/* What the model makes of the codes as they are, kept or made now. */
static zn_status
face_reconstruct (GBytes **made, const Face *face, Work *work)
{
  const ZnOpKey key  = reconstruction_key (face, work);
  const gsize   size = work->len * sizeof (gfloat);
  gfloat       *dst;
  zn_status     status;

  *made = zn_op_cache_get (&key);
  if (*made)
    return ZN_OK;

  dst    = g_malloc (size);
  status = sample (dst, work, work->run->model[SAMPLE], face_noise (face, work), face_cond (face),
                   NULL, 1.0);
  if (status)
    {
      g_free (dst);
      return status;
    }
  *made = g_bytes_new_take (dst, size);
  zn_op_cache_put (&key, *made);

  return ZN_OK;
}

static gint
reconstruction_cost (const Face *face, const Work *work)
{
  return is_kept (reconstruction_key (face, work)) ? 0 : work->run->face->steps;
}

/* ---- what the operations do ----------------------------------------------- */

/* to - from is added; the fine structure is multiplied by 1 + gain. */
static Field *
field_new (const Work *work, const gfloat *to, const gfloat *from, const gfloat *low, gfloat gain)
{
  Field *field = g_new0 (Field, (gsize) work->side * work->side);

  for (gsize i = 0; i < work->len; i++)
    {
      field[i / 3][i % 3]     = to[i] - from[i];
      field[i / 3][3 + i % 3] = low[i];
      field[i / 3][6]         = gain;
    }

  return field;
}

/* The gain is 0 where nothing is added and -cut where much is: the mean, over 5 x 5
 * values, of the largest channel. */
static void
field_cut_fine (Field *field, gint side, gfloat cut)
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

zn_status
zn_op_face_reconstruct (const ZnOpFaceRun *run)
{
  Face      face;
  Work      work;
  GBytes   *made = NULL;
  zn_status status;

  status = work_begin (&work, run);
  if (status)
    return status;

  status = face_read (&face, &work, run->in);
  if (! status)
    {
      work.total = codes_cost (&face, &work) + reconstruction_cost (&face, &work);
      status     = face_encode (&face, &work);
    }
  if (! status)
    status = face_reconstruct (&made, &face, &work);
  if (! status)
    {
      Field *field = field_new (&work, g_bytes_get_data (made, NULL), face.low, face.low, -1.0f);

      paste (run->out, (const Field *) field, work.side, &work.square, &face.part);
      g_free (field);
    }
  g_clear_pointer (&made, g_bytes_unref);
  face_clear (&face);

  return status;
}

/* dst [side][side][3]: the face with another code. */
static zn_status
face_edit (gfloat              *dst,
           const Face          *face,
           Work                *work,
           const ZnOpAttribute *attribute,
           gdouble              amount)
{
  const gfloat *cond0 = face_cond (face);
  gfloat       *cond  = g_new (gfloat, work->code);
  zn_status     status;

  for (gint i = 0; i < work->code; i++)
    cond[i] = cond0[i] + (gfloat) amount * attribute->shift[i];
  status = sample (dst, work, work->run->model[SAMPLE], face_noise (face, work), cond, cond0,
                   1.0 + (attribute->guide - 1.0) * fabs (amount));
  g_free (cond);

  return status;
}

zn_status
zn_op_face_manipulate (const ZnOpFaceRun *run, const gchar *name, gdouble amount, gdouble detail)
{
  gchar        *stem      = model_stem (run->face->model);
  ZnOpAttribute attribute = { NULL, 1.0 };
  GBytes       *made      = NULL;
  gfloat       *edit      = NULL;
  Face          face      = { 0 };
  Work          work;
  zn_status     status;

  status = work_begin (&work, run);
  if (! status &&
      ! zn_op_attribute_find (&attribute, name ? name : "", stem, work.code, &run->request->err))
    status = ZN_E_USAGE;
  if (! status)
    status = face_read (&face, &work, run->in);
  if (! status)
    {
      work.total = codes_cost (&face, &work) + reconstruction_cost (&face, &work) +
                   2 * run->face->steps;
      status = face_encode (&face, &work);
    }
  if (! status)
    status = face_reconstruct (&made, &face, &work);
  if (! status)
    {
      edit   = g_new (gfloat, work.len);
      status = face_edit (edit, &face, &work, &attribute, amount);
    }
  if (! status)
    {
      Field *field = field_new (&work, edit, g_bytes_get_data (made, NULL), face.low, 0.0f);

      field_cut_fine (field, work.side, (gfloat) (1.0 - detail));
      paste (run->out, (const Field *) field, work.side, &work.square, &face.part);
      g_free (field);
    }
  g_free (edit);
  g_free (stem);
  gegl_free (attribute.shift);
  g_clear_pointer (&made, g_bytes_unref);
  face_clear (&face);

  return status;
}

/* a becomes (sin((1 - t) theta) a + sin(t theta) b) / sin(theta), theta being the angle
 * between them: noise between two noises is as strong as they are. */
static void
slerp (gfloat *a, const gfloat *b, gsize n, gdouble t)
{
  gdouble ab = 0.0, aa = 0.0, bb = 0.0;
  gdouble theta, p = 1.0 - t, q = t;

  for (gsize i = 0; i < n; i++)
    {
      ab += (gdouble) a[i] * b[i];
      aa += (gdouble) a[i] * a[i];
      bb += (gdouble) b[i] * b[i];
    }
  theta = aa > 0.0 && bb > 0.0 ? acos (CLAMP (ab / sqrt (aa * bb), -1.0, 1.0)) : 0.0;
  if (sin (theta) > 1e-6)
    {
      p = sin ((1.0 - t) * theta) / sin (theta);
      q = sin (t * theta) / sin (theta);
    }
  for (gsize i = 0; i < n; i++)
    a[i] = (gfloat) (p * a[i] + q * b[i]);
}

/* dst [side][side][3]: the face between two. */
static zn_status
faces_between (gfloat *dst, Work *work, const Face face[2], gdouble position)
{
  const gfloat *a     = face_cond (&face[0]);
  const gfloat *b     = face_cond (&face[1]);
  gfloat       *codes = g_new (gfloat, work->code + work->len);
  zn_status     status;

  for (gint i = 0; i < work->code; i++)
    codes[i] = (gfloat) ((1.0 - position) * a[i] + position * b[i]);
  memcpy (codes + work->code, a + work->code, work->len * sizeof (gfloat));
  slerp (codes + work->code, b + work->code, work->len, position);
  status = sample (dst, work, work->run->model[SAMPLE], codes + work->code, codes, NULL, 1.0);
  g_free (codes);

  return status;
}

zn_status
zn_op_face_interpolate (const ZnOpFaceRun *run, const ZnOpPicture *second, gdouble position)
{
  const ZnOpPicture *picture[2] = { run->in, second };
  gfloat            *between    = NULL;
  Face               face[2]    = { { { { 0 } } } };
  Work               work;
  zn_status          status;

  if (second->box.width != run->in->box.width || second->box.height != run->in->box.height)
    return zn_op_request_refuse (run->request, ZN_E_USAGE,
                                 "The pictures have different sizes, %d x %d and %d x %d: crop or "
                                 "scale one of them.",
                                 run->in->box.width, run->in->box.height, second->box.width,
                                 second->box.height);

  status = work_begin (&work, run);
  for (gint i = 0; ! status && i < 2; i++)
    status = face_read (&face[i], &work, picture[i]);
  if (! status)
    work.total = codes_cost (&face[0], &work) + codes_cost (&face[1], &work) + run->face->steps;
  for (gint i = 0; ! status && i < 2; i++)
    status = face_encode (&face[i], &work);
  if (! status)
    {
      between = g_new (gfloat, work.len);
      status  = faces_between (between, &work, face, position);
    }
  if (! status)
    {
      Field *field = field_new (&work, between, face[0].low, face[0].low, (gfloat) -position);

      paste (run->out, (const Field *) field, work.side, &work.square, &face[0].part);
      g_free (field);
      field = field_new (&work, face[1].low, face[1].low, face[1].low, (gfloat) position);
      paste (run->out, (const Field *) field, work.side, &work.square, &face[1].part);
      g_free (field);
    }
  g_free (between);
  face_clear (&face[0]);
  face_clear (&face[1]);

  return status;
}

/* ---- the second picture from a file --------------------------------------- */

void
zn_op_face_add_file (ZnOpWhole *task, const gchar *path)
{
  GStatBuf info = {
    0,
  };

  if (path && *path && ! g_stat (path, &info))
    zn_op_face_add_setting (task, "%s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, path,
                            (gint64) info.st_mtime, (gint64) info.st_size);
}

zn_status
zn_op_face_load (ZnOpPicture *picture, const gchar *path, ZnOpRequest *request)
{
  GeglNode   *graph, *load, *sink;
  zn_error    err;
  const Babl *format;

  if (! path || ! *path)
    return zn_op_request_refuse (
        request, ZN_E_USAGE, "There is no second picture: connect one to 'aux' or name a file.");
  if (! g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return zn_op_request_refuse (request, ZN_E_FILE, "There is no file '%s'.", path);

  graph = gegl_node_new ();
  load  = gegl_node_new_child (graph, "operation", "gegl:load", "path", path, NULL);
  sink  = gegl_node_new_child (graph, "operation", "gegl:buffer-sink", "buffer", &picture->buffer,
                               NULL);
  gegl_node_link (load, sink);
  gegl_node_process (sink);
  g_object_unref (graph);

  if (! picture->buffer || ! zn_op_check_box (gegl_buffer_get_extent (picture->buffer), &err))
    return zn_op_request_refuse (request, ZN_E_FILE, "'%s' is no picture that can be read.", path);

  format          = gegl_buffer_get_format (picture->buffer);
  picture->box    = *gegl_buffer_get_extent (picture->buffer);
  picture->format = babl_format_with_space (babl_format_has_alpha (format) ? "R'G'B'A float"
                                                                           : "R'G'B' float",
                                            babl_format_get_space (format));

  return ZN_OK;
}

/* ---- a face out of nothing ------------------------------------------------ */

void
zn_op_face_describe_sample (ZnOpWhole   *task,
                            const gchar *model,
                            guint        seed,
                            gint         steps,
                            gint         latent_steps)
{
  ZnOpModel *encoder;

  task->model[LATENT]        = "diffae-latent-sample";
  task->model[LATENT_SAMPLE] = "diffae-sample";
  task->model[LATENT_ENCODE] = "diffae-encode";
  set_weights (task, model);
  zn_op_face_add_setting (task, "%u %d %d", seed, steps, latent_steps);
  if (*task->refusal.text)
    return;

  /* it knows the size of the pictures */
  encoder = zn_op_model_acquire (task->model[LATENT_ENCODE], task->weights, &task->base,
                                 &task->refusal);
  if (encoder)
    {
      const gint side = zn_op_model_geometry (encoder)->side;

      task->result = *GEGL_RECTANGLE (0, 0, side, side);
    }
  zn_op_model_release (encoder);
}

zn_status
zn_op_face_sample (const ZnOpFaceRun *run, guint seed, gint latent_steps)
{
  const zn_geometry *geometry = zn_op_model_geometry (run->model[LATENT_ENCODE]);
  Work               work     = {
                      .run = run, .side = geometry->side, .code = geometry->out_c, .len = zn_array_len (run->out)
  };
  gchar         steps[32];
  const gchar  *set[] = { steps };
  const ZnOpJob job   = { .set = set, .n_set = 1 };
  zn_array      z     = { g_new (gfloat, work.code), 1, 1, work.code };
  zn_array      cond  = { g_new (gfloat, work.code), 1, 1, work.code };
  gfloat       *noise = g_new (gfloat, work.len);
  zn_status     status;

  /* streams of the seed: 0 the picture's noise, 1 the code's */
  zn_noise_fill (noise, work.len, seed, 0);
  zn_noise_fill (z.data, work.code, seed, 1);

  g_snprintf (steps, sizeof (steps), "steps=%d", latent_steps);
  work.total = 1 + run->face->steps;
  work_part (&work, 1);
  status = zn_op_model_run_arrays (run->model[LATENT], &cond, &z, 1, &job, run->request);
  if (! status)
    status = sample (run->out->data, &work, run->model[LATENT_SAMPLE], noise, cond.data, NULL, 1.0);
  for (gsize i = 0; ! status && i < work.len; i++)
    run->out->data[i] = zn_op_clean (run->out->data[i]);
  g_free (noise);
  g_free (cond.data);
  g_free (z.data);

  return status;
}
