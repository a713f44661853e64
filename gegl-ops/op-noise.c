/* SPDX-License-Identifier: MIT */
/* op-noise.c - see op-noise.h */

#include "config.h"

#include <string.h>

#include "op-cache.h"
#include "op-engine.h"
#include "op-noise.h"

#define SAMPLE 64 /* side of the blocks that tell whether a picture is the same */
#define MOST 12   /* ... of which there are so many a side, at most */

typedef struct
{
  ZnOpRequest  *request;
  ZnOpPicture  *picture;
  GeglRectangle part; /* of the picture, from its corner: what is measured */
} Part;

/* Where block i of n lies along a side. */
static void
sample_place (gint *start, gint *length, gint side, gint i, gint n)
{
  *length = MIN (side, SAMPLE);
  *start  = n > 1 ? (gint) ((gint64) (side - *length) * i / (n - 1)) : 0;
}

const GeglRectangle *
zn_op_noise_asked (GeglOperation *operation)
{
  return operation->node ? g_object_get_data (G_OBJECT (operation->node), "zenith-measure") : NULL;
}

/* What the host asked for, or all of the picture. */
static GeglRectangle
part_of (ZnOpRequest *request, const GeglRectangle *box)
{
  const GeglRectangle *asked = zn_op_noise_asked (request->operation);
  GeglRectangle        part  = *box;

  if (! asked || ! gegl_rectangle_intersect (&part, asked, box))
    part = *box;
  part.x -= box->x;
  part.y -= box->y;

  return part;
}

/* Reads the picture; the host handles its events before each part. */
static bool
part_read (void *data, zn_rect rect, float *dst)
{
  Part *from = data;

  rect.x += from->part.x;
  rect.y += from->part.y;

  return zn_op_request_tick (from->request) && zn_op_picture_read (from->picture, rect, dst);
}

static void
part_key (zn_key *key, const Part *from)
{
  const GeglRectangle *box    = &from->picture->box;
  const gint           size[] = { from->part.width, from->part.height };
  const gint           nx     = MIN (MOST, (size[0] - 1) / SAMPLE + 1);
  const gint           ny     = MIN (MOST, (size[1] - 1) / SAMPLE + 1);

  zn_key_add_text (key, "noise");
  zn_key_add_text (key, babl_get_name (from->picture->format));
  zn_key_add (key, size, sizeof (size));
  for (gint i = 0; i < nx * ny; i++)
    {
      GeglRectangle r;

      sample_place (&r.x, &r.width, size[0], i % nx, nx);
      sample_place (&r.y, &r.height, size[1], i / nx, ny);
      r.x += box->x + from->part.x;
      r.y += box->y + from->part.y;
      zn_op_key_add_buffer (key, from->picture->buffer, &r, box);
    }
}

zn_status
zn_op_noise_measure (ZnOpRequest           *request,
                     const zn_enhance_plan *plan,
                     ZnOpPicture           *picture,
                     zn_noise_table        *noise)
{
  Part            from   = { request, picture, part_of (request, &picture->box) };
  const zn_source source = { from.part.width, from.part.height, 3, part_read, &from };
  zn_key          key    = plan->network;
  GBytes         *kept;
  zn_status       status;

  part_key (&key, &from);
  kept = zn_op_cache_get (&key);
  if (kept)
    {
      memcpy (noise, g_bytes_get_data (kept, NULL), sizeof (*noise));
      g_bytes_unref (kept);
      return ZN_OK;
    }

  status = zn_enhance_measure (noise, plan, &source, &request->err);
  if (status && ! zn_op_request_tick (request))
    return zn_op_request_refuse (request, ZN_E_CANCELLED, "Cancelled.");
  if (status == ZN_OK)
    {
      kept = g_bytes_new (noise, sizeof (*noise));
      zn_op_cache_put (&key, kept);
      g_bytes_unref (kept);
    }

  return status;
}
