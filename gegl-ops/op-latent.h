/* SPDX-License-Identifier: MIT */
/* op-latent.h - latents: made of pictures, made into pictures, and shown. */

#ifndef __ZENITH_OP_LATENT_H__
#define __ZENITH_OP_LATENT_H__

#include "op-cache.h"
#include "op-common.h"
#include "op-engine.h"

typedef struct
{
  gint        w, h, c;
  GBytes     *bytes;  /* w * h * c floats, or NULL: they are in the buffer */
  GeglBuffer *buffer; /* at 0,0: of a large one, that GEGL may swap out */
  zn_key      key;    /* of what made them */
} ZnOpLatent;

void zn_op_latent_clear (ZnOpLatent *latent);

/* Opens the halves that the task needs. */
gboolean zn_op_latent_open (zn_autoencoder       *ae,
                            const ZnOpLatentTask *task,
                            zn_note              *note,
                            zn_error             *err);

/* Where a picture goes. */
typedef struct
{
  const ZnOpPicture *input; /* whose alpha is kept; NULL: there is none */
  GeglBuffer        *output;
  GeglRectangle      box;    /* in the output, and of the input */
  const Babl        *format; /* of the output; not used with an input */
  gfloat             scale;  /* > 0: so many times the difference to the input instead */

  /* with a scale: of the differences, of all values */
  gdouble sum, squares;
  gfloat  worst;

  /* used inside */
  gfloat       *keep; /* the whole picture, for the cache, or NULL */
  zn_rect       rect; /* being written */
  const gfloat *rgb;
} ZnOpTarget;

/* From a picture, kept or by running the encoder. */
zn_status zn_op_latent_encode (ZnOpLatent     *latent,
                               zn_autoencoder *ae,
                               ZnOpPicture    *picture,
                               ZnOpRequest    *request);

/* What a latent of these channels is in a buffer: with 3, a picture. */
const Babl *zn_op_latent_format (gint channels, const Babl *space);

/* From a buffer that holds one.  Its values are never converted as colours, but
 * another type (half, double) is made float. */
zn_status zn_op_latent_get (ZnOpLatent          *latent,
                            GeglBuffer          *buffer,
                            const GeglRectangle *box,
                            const zn_latents    *latents,
                            ZnOpRequest         *request);

/* Writes it to a buffer of its size. */
void zn_op_latent_put (const ZnOpLatent    *latent,
                       GeglBuffer          *buffer,
                       const GeglRectangle *box,
                       const Babl          *format);

/* The same as grey pictures, which every operation takes: the channels one below the other, each with
 * ZN_OP_PLANE_MARGIN rows above and below that repeat its first and last one, so that what a blur
 * brings from the neighbours is ignored. */
#define ZN_OP_PLANE_MARGIN 8

zn_status zn_op_latent_get_planes (ZnOpLatent          *latent,
                                   GeglBuffer          *buffer,
                                   const GeglRectangle *box,
                                   const zn_latents    *latents,
                                   ZnOpRequest         *request);
void      zn_op_latent_put_planes (const ZnOpLatent    *latent,
                                   GeglBuffer          *buffer,
                                   const GeglRectangle *box,
                                   const Babl          *format);

/* Into a picture, kept or by running the decoder. */
zn_status zn_op_latent_decode (ZnOpTarget  *target,
                               zn_use      *decoder,
                               ZnOpLatent  *latent,
                               ZnOpRequest *request);

/* The frames of the target's input, one below the other, to their latents and back. */
zn_status zn_op_latent_video (ZnOpTarget           *target,
                              const zn_autoencoder *ae,
                              gint                  frames,
                              ZnOpRequest          *request);

/* Writes a picture of the target's size, which is in memory. */
void zn_op_target_write (ZnOpTarget *target, const gfloat *rgb);

/* Its first three channels as colours, z / 6 + 0.5, each value as large as the
 * pixels that it stands for. */
void zn_op_latent_show (ZnOpTarget *target, const ZnOpLatent *latent, gint factor);

#endif
