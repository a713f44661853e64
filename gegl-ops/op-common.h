/* SPDX-License-Identifier: MIT */
/* op-common.h - what all Zenith operations share.
 *
 * An operation's file says what the user sees (properties, keys) and, in one
 * function, which task these properties ask for.  Everything else is done once:
 *
 *   op-common.c   formats, alpha, bad values, status text, progress, cancelling
 *   op-engine.c   engines and models, one of each for the whole process
 *   op-cache.c    results kept for the whole process
 *   op-curve.c    sRGB's curve, for linear pictures
 *   op-tiled.c    operations that answer any region from tiles (denoise)
 *   op-blend.c    strength, luma, chroma, detail
 *   op-latent.c, op-latent-ops.c   whole pictures through a latent (latent-*)
 *
 * Life of a request:
 *
 *   GEGL --roi--> process() --> describe(): ZnOpTask --> model (op-engine)
 *     --> hash of the input --> kept result? (op-cache) --no--> the network
 *     --> blend, alpha --> output
 *
 * Whatever fails, the output is the input buffer itself, the "status" property
 * holds one sentence, and stderr gets it once.
 */

#ifndef __ZENITH_OP_COMMON_H__
#define __ZENITH_OP_COMMON_H__

#include <gegl.h>
#include <gegl-plugin.h>

#include "zenith.h"

/* The names of these types and their nicks are in users' files: only add. */

typedef enum
{
  ZENITH_ENGINE_AUTO,
  ZENITH_ENGINE_SCALAR,
  ZENITH_ENGINE_AVX2,
  ZENITH_ENGINE_AVX512,
  ZENITH_ENGINE_NEON,
  ZENITH_ENGINE_CUDA
} ZenithEngine;

typedef enum
{
  ZENITH_AUTOENCODER_ZENITH,
  ZENITH_AUTOENCODER_TAESD,
  ZENITH_AUTOENCODER_TAESDXL,
  ZENITH_AUTOENCODER_TAESD3,
  ZENITH_AUTOENCODER_TAEF1,
  ZENITH_AUTOENCODER_TAEF2,
  ZENITH_AUTOENCODER_TAESANA
} ZenithAutoencoder;

typedef enum
{
  ZENITH_LATENT_MODE_RECONSTRUCT,
  ZENITH_LATENT_MODE_LATENT,
  ZENITH_LATENT_MODE_DIFFERENCE
} ZenithLatentMode;

typedef enum
{
  ZENITH_DENOISE_MODEL_FAST,
  ZENITH_DENOISE_MODEL_BALANCED,
  ZENITH_DENOISE_MODEL_BEST
} ZenithDenoiseModel;

GType zenith_engine_get_type (void);
GType zenith_autoencoder_get_type (void);
GType zenith_latent_mode_get_type (void);
GType zenith_denoise_model_get_type (void);

/* The nick of a value of one of these types: "avx2". */
const gchar *zn_op_nick (GType type, gint value);

/* Properties that several operations have; used in the GEGL_PROPERTIES part of
 * an operation's file.  The last two end every list. */

#define zenith_property_autoencoder                                                                \
  property_enum (model, _ ("Model"), ZenithAutoencoder, zenith_autoencoder,                        \
                 ZENITH_AUTOENCODER_ZENITH)                                                        \
      description (_ ("Autoencoder whose latent space is used"))

#define zenith_property_weights                                                                    \
  property_file_path (weights, _ ("Weights"), "")                                                  \
      description (_ ("Weight file or folder; empty: found by the model's name"))

#define zenith_property_engine                                                                     \
  property_enum (engine, _ ("Engine"), ZenithEngine, zenith_engine, ZENITH_ENGINE_AUTO)            \
      description (_ ("What computes: the fastest that works, or a given one"))

#define zenith_property_status                                                                     \
  property_string (status, _ ("Status"), "")                                                       \
      description (_ ("Why the picture is unchanged; empty when all is well"))                     \
          ui_meta ("error", "true")

/* Written by the operation, never read: hosts show it, greyed. */
#define zenith_property_measured                                                                   \
  property_string (measured, _ ("Measured noise"), "")                                             \
      description (_ ("The noise that was found, of 255; empty when it was given"))                \
          ui_meta ("sensitive", "0")

/* What an operation's properties ask for. */
typedef struct
{
  ZenithEngine engine;
  gchar      **status;   /* the field of the property */
  gchar      **measured; /* the same, or NULL */

  const gchar *model;    /* tiled: the engine's model id */
  gdouble      sigma;    /* noise of 255; 0: estimated; < 0: unused */
  gdouble      strength; /* how much of the network's change is used */
  gdouble      luma;     /* ... of its lightness part */
  gdouble      chroma;   /* ... of its colour part */
  gdouble      detail;   /* how much fine texture is given back */

  ZenithAutoencoder autoencoder; /* latent */
  const gchar      *weights;     /* "" or NULL: found by name */
  ZenithLatentMode  mode;
} ZnOpTask;

typedef void (*ZnOpDescribe) (GeglOperation *operation, ZnOpTask *task);

/* Called from gegl_op_class_init(); they set every method of the operation. */
void zn_op_tiled_class_init (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_latent_preview_class_init (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_latent_encode_class_init (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_latent_decode_class_init (GeglOperationClass *klass, ZnOpDescribe describe);

/* ---- the rest is for the op-*.c files only ------------------------------- */

void zn_op_set_describe (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_describe (GeglOperation *operation, ZnOpTask *task);

/* FALSE, and a sentence, if nothing is connected or the input has no end or is
 * too large; *box is then what it is. */
gboolean zn_op_input_box (GeglOperation *operation, GeglRectangle *box, zn_error *err);

/* R'G'B'A float or, for an input without alpha, R'G'B' float, in its space.  RGBA
 * float and RGB float instead, to which the functions below apply sRGB's curve
 * themselves, if the input is linear and that is its space's curve, or has none. */
const Babl *zn_op_picture_format (GeglOperation *operation);

/* Part of a buffer seen as a picture that starts at 0,0. */
typedef struct
{
  GeglBuffer   *buffer;
  const Babl   *format; /* as zn_op_picture_format() gives */
  GeglRectangle box;
} ZnOpPicture;

/* The pixels as a network may see them: three values in 0..1 each, NaN read as
 * 0, fully transparent ones mid-grey.  A zn_source's read function. */
bool zn_op_picture_read (void *picture, zn_rect rect, float *dst);

/* The pixels with the format's own components (3 or 4 of them) and a curve, whether
 * the format has one or not. */
void zn_op_picture_get (const ZnOpPicture *picture, zn_rect rect, gfloat *pixels);

/* Calls func for strips that cover rect, with pixels to change in place and write
 * to output, which may have another place but not another size.  Fully transparent
 * pixels are never changed.
 *
 * Around a strip func also gets the pixels up to `apron` away, as far as there are
 * any: they lie in `all`, and only those of the strip are written.  Strips are
 * worked on by several threads at once. */
typedef void (
    *ZnOpStripFunc) (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components);
void zn_op_picture_write (const ZnOpPicture *picture,
                          GeglBuffer        *output,
                          zn_rect            rect,
                          gint               apron,
                          ZnOpStripFunc      func,
                          gpointer           data);

/* Whether nobody sees the colour of a pixel. */
static inline gboolean
zn_op_is_hidden (const gfloat *pixel, gint components)
{
  return components == 4 && ! (pixel[3] > 0.0f);
}

/* NaN is 0; below 0 and above 1 are cut. */
static inline gfloat
zn_op_clean (gfloat value)
{
  return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
}

/* Hosts open their bar at exactly 0.0 and close it at 1.0. */
void zn_op_show_progress (GeglOperation *operation, gdouble value);

/* A zn_job's progress function, which shows what lies between, never falling;
 * its cookie maps 0..1 to start..start + span, and a span of 0 keeps silent. */
typedef struct
{
  GeglOperation *operation;
  gdouble        start, span;
  gdouble        shown;
} ZnOpProgress;

bool zn_op_progress (void *progress, double done);

/* Shows the sentence in the status property only.  May be called in prepare(),
 * which never clears it: a status that came and went would make GIMP render
 * for ever. */
void zn_op_set_status (GeglOperation *operation, const ZnOpTask *task, const gchar *sentence);

/* Shows the noise that was measured, of 255 for each channel, or NULL: it was
 * not.  With $ZENITH_VERBOSE stderr gets it too. */
void zn_op_set_measured (GeglOperation *operation, const ZnOpTask *task, const gfloat sigma[3]);

/* How process() ends: both return TRUE.  After a failure the output is the
 * input, whatever was written before. */
gboolean zn_op_succeed (GeglOperation *operation, const ZnOpTask *task);
gboolean zn_op_fail (GeglOperation        *operation,
                     const ZnOpTask       *task,
                     GeglOperationContext *context,
                     zn_status             status,
                     const zn_error       *err);

#endif
