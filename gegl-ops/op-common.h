/* SPDX-License-Identifier: MIT */
/* op-common.h - what all Zenith operations share.
 *
 * An operation's file says what the user sees (properties, keys) and, in one
 * function, which task these properties ask for.  Everything else is done once:
 *
 *   op-common.c   formats, alpha, bad values, progress, cancelling, status and note
 *   op-engine.c   the process's session of the engine
 *   op-cache.c    results kept for the whole process
 *   op-curve.c    sRGB's curve, for linear pictures
 *
 * There are three families of operations, each with a small task of its own:
 *
 *   op-tiled.c    ZnOpTiled: any region, computed in tiles (denoise, restore, upscale);
 *                 op-noise.c: the noise of a picture, measured once; op-enlarge.c: buffers of
 *                 a larger result
 *   op-latent-ops.c   ZnOpLatentTask: whole pictures through a latent, streamed
 *                 (latent-*); op-latent.c is the work
 *   op-whole.c    ZnOpWhole: one result held in memory, made of one picture, of
 *                 two or of none, of any size and place; op-face.c: the face
 *                 operations (diffae-*), which change a part of the input; op-zimage.c:
 *                 a picture from a prompt
 *
 * Life of a request:
 *
 *   GEGL --roi--> process() --> describe(): the task --> model (op-engine)
 *     --> hash of the input --> kept result? (op-cache) --no--> the network
 *     --> blend, alpha --> output
 *
 * After any failure the output is the input buffer itself, the "status" property holds one
 * sentence, and stderr gets it once.  If a result differs from the request (the CPU replaced a lost
 * GPU), "status" is empty and "note" has a sentence.
 */

#ifndef __ZENITH_OP_COMMON_H__
#define __ZENITH_OP_COMMON_H__

#include <gegl.h>
#include <gegl-plugin.h>

#include "op-cache.h"
#include "zenith_composite.h"

/* The names of these types and their nicks are in users' files: only add. */

typedef enum
{
  ZENITH_ENGINE_AUTO,
  ZENITH_ENGINE_SCALAR,
  ZENITH_ENGINE_AVX2,
  ZENITH_ENGINE_AVX512,
  ZENITH_ENGINE_NEON,
  ZENITH_ENGINE_CUDA,
  ZENITH_ENGINE_VULKAN
} ZenithEngine;

typedef enum
{
  ZENITH_AUTOENCODER_ZENITH,
  ZENITH_AUTOENCODER_TAESD,
  ZENITH_AUTOENCODER_TAESDXL,
  ZENITH_AUTOENCODER_TAESD3,
  ZENITH_AUTOENCODER_TAEF1,
  ZENITH_AUTOENCODER_TAEF2,
  ZENITH_AUTOENCODER_TAESANA,
  ZENITH_AUTOENCODER_FLUX,
  ZENITH_AUTOENCODER_WAN,
  ZENITH_AUTOENCODER_WAN2D,
  ZENITH_AUTOENCODER_LITE,
  ZENITH_AUTOENCODER_TAE,
  ZENITH_AUTOENCODER_F2,
  ZENITH_AUTOENCODER_DOC_TAESD,
  ZENITH_AUTOENCODER_DOC_LITE,
  ZENITH_AUTOENCODER_DOC_SPECTRAL,
  ZENITH_AUTOENCODER_DOC_VANILLA,
  ZENITH_AUTOENCODER_AE,
  ZENITH_AUTOENCODER_PRUNE,
  ZENITH_AUTOENCODER_BASELINE
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

typedef enum
{
  ZENITH_UPSCALE_MODEL_FAITHFUL,
  ZENITH_UPSCALE_MODEL_SMALL
} ZenithUpscaleModel;

typedef enum
{
  ZENITH_PRECISION_AUTO,
  ZENITH_PRECISION_FP32,
  ZENITH_PRECISION_TF32,
  ZENITH_PRECISION_BF16,
  ZENITH_PRECISION_FP16,
  ZENITH_PRECISION_FP8,
  ZENITH_PRECISION_INT8,
  ZENITH_PRECISION_INT4
} ZenithPrecision;

GType zenith_engine_get_type (void);
GType zenith_precision_get_type (void);
GType zenith_autoencoder_get_type (void);
GType zenith_latent_mode_get_type (void);
GType zenith_denoise_model_get_type (void);
GType zenith_upscale_model_get_type (void);

/* The nick of a value of one of these types: "avx2". */
const gchar *zn_op_nick (GType type, gint value);

/* Properties that several operations have; used in the GEGL_PROPERTIES part of
 * an operation's file.  The order of a list is in users' files: add to
 * its end only. */

#define zenith_property_autoencoder                                                                \
  property_enum (model, _ ("Model"), ZenithAutoencoder, zenith_autoencoder,                        \
                 ZENITH_AUTOENCODER_ZENITH)                                                        \
      description (_ ("Autoencoder whose latent space is used"))

#define zenith_property_planes                                                                     \
  property_boolean (planes, _ ("Planes"), FALSE)                                                   \
      description (_ ("The latent is grey pictures, one below the other: any operation and any "   \
                      "file of floats takes them"))

#define zenith_property_weights                                                                    \
  property_file_path (weights, _ ("Weights"), "")                                                  \
      description (_ ("Weight file or folder; empty: found by the model's name. TAESD's are "      \
                      "published at https://github.com/madebyollin/taesd"))

#define zenith_property_engine                                                                     \
  property_enum (engine, _ ("Engine"), ZenithEngine, zenith_engine, ZENITH_ENGINE_AUTO)            \
      description (_ ("What computes: the fastest that works, or a given one"))

#define zenith_property_status                                                                     \
  property_string (status, _ ("Status"), "")                                                       \
      description (_ ("Why the picture is unchanged; empty when all is well"))                     \
          ui_meta ("error", "true") ui_meta ("visible", "failed")

/* Written by the operation, never read: hosts show the status and the note only where there is one. */
#define zenith_property_failed                                                                     \
  property_boolean (failed, _ ("Failed"), FALSE)                                                   \
      description (_ ("Whether the picture is unchanged; the status says why"))                    \
          ui_meta ("visible", "0") property_boolean (noted, _ ("Noted"), FALSE)                    \
              description (_ ("Whether there is a note")) ui_meta ("visible", "0")

/* Written by the operation, never read.  Not greyed, so that it can be read. */
#define zenith_property_measured                                                                   \
  property_string (measured, _ ("Measured noise"), "")                                             \
      description (_ ("The noise that was found, of 255; empty when it was given"))

/* The same as numbers, for programs, so an automatic dialog does not show them. */
#define zenith_property_level(name)                                                                \
  property_double (name, _ ("Measured noise"), -1.0)                                               \
      description (_ ("The noise that was found, of 255, as a number; -1: none was measured"))     \
          value_range (-1.0, 255.0) ui_meta ("visible", "0")
#define zenith_property_levels                                                                     \
  zenith_property_level (measured_red) zenith_property_level (measured_green)                      \
      zenith_property_level (measured_blue)

#define zenith_property_precision                                                                  \
  zenith_property_precision_as (                                                                   \
      _ ("Number format that a GPU computes in, and a CPU stores weights in; automatic: fp16 on "  \
         "a GPU where the result differs by at most one 8-bit level, else fp32"))

#define zenith_property_precision_as(text)                                                         \
  property_enum (precision, _ ("Precision"), ZenithPrecision, zenith_precision,                    \
                 ZENITH_PRECISION_AUTO) description (text)

/* Written by the operation, never read. */
#define zenith_property_note                                                                       \
  property_string (note, _ ("Note"), "")                                                           \
      description (_ ("What was done differently from what was asked; the result is still good"))  \
          ui_meta ("visible", "noted")

/* Written by the operation, never read; for programs, so an automatic dialog does not show it. */
#define zenith_property_computed_by                                                                \
  property_string (computed_by, _ ("Computed by"), "")                                             \
      description (_ ("The engine and the precision of the result, such as avx2 fp32"))            \
          ui_meta ("visible", "0")

/* The same for what a run takes. */
#define zenith_property_memory                                                                     \
  property_string (memory, _ ("Memory"), "")                                                       \
      description (_ ("What the run takes, known before it starts")) ui_meta ("visible", "0")

/* ---- tasks: what an operation's properties ask for ------------------------- */

/* Every task begins with this one. */
typedef struct
{
  ZenithEngine    engine;
  ZenithPrecision precision;
  gchar         **status; /* the fields of the properties */
  gchar         **note;
  gboolean       *failed;
  gboolean       *noted;
  gchar         **computed_by;
} ZnOpBase;

/* Every operation has these properties under these names. */
#define ZN_OP_BASE(o)                                                                              \
  ((ZnOpBase){ (o)->engine, (o)->precision, &(o)->status, &(o)->note, &(o)->failed, &(o)->noted,   \
               &(o)->computed_by })

typedef struct
{
  ZnOpBase        base;
  gint            width, height; /* of the input, and the least side of a tile: */
  gint            side;          /* describe() finds them here */
  zn_enhance_plan plan;          /* ... and sets this with a describe() of zenith_composite.h, */
  zn_status       status;        /* ... what that returned */
  zn_error        refusal;       /* ... and its message */
  gchar         **measured;      /* the field of the property, or NULL */
  gdouble        *level[3];      /* ... of measured-red, -green, -blue */
} ZnOpTiled;

typedef struct
{
  ZnOpBase          base;
  gboolean          encodes, decodes; /* both: a preview, of the picture's size */
  ZenithAutoencoder autoencoder;
  const gchar      *weights; /* "" or NULL: found by name */
  ZenithLatentMode  mode;    /* of a preview */
  gboolean          planes;  /* a latent is grey pictures, one below the other */
  gdouble           scale;   /* what a difference is multiplied by */
  gchar           **loss;    /* the field of the property, or NULL */
} ZnOpLatentTask;

enum
{
  ZN_OP_WHOLE_INPUTS = 2 /* "input" and "aux" */
};

typedef struct _ZnOpWhole   ZnOpWhole;
typedef struct _ZnOpPicture ZnOpPicture;
typedef struct _ZnOpRequest ZnOpRequest;

/* Makes the result: out has its size, 3 channels of R'G'B' in 0..1, and memory; for a
 * task with a change, out is that.  in: the pictures on the pads, in the order of the
 * pads, n_in of them (an aux pad may be empty).  Calls a composite of the engine, or runs a
 * network with zn_op_use_run(). */
typedef zn_status (*ZnOpWholeRun) (const ZnOpWhole   *task,
                                   const ZnOpPicture *in,
                                   gint               n_in,
                                   zn_array          *out,
                                   ZnOpRequest       *request);

/* Says which part of the input changes, where that depends on its pixels: sets change,
 * place and what of them is a setting. */
typedef zn_status (*ZnOpWholeLocate) (ZnOpWhole *task, const ZnOpPicture *in, ZnOpRequest *request);

struct _ZnOpWhole
{
  ZnOpBase      base;
  zn_key        settings; /* a hash of all else that the result depends on: seed, steps, ... */
  GeglRectangle result;   /* its place and size; describe() finds the input's here, or 0 x 0
                           * where there is no input, and changes it */
  GeglRectangle change;   /* not empty: part of the input; run() makes what is added to its
                           * pixels.  All others, and those where that is 0, stay as they
                           * are, to the bit */
  gint          copies;   /* more than 1: the result is so many copies of the input side by side,
                           * and run() makes the changes of all of them, one below the other */
  gdouble       place[4]; /* numbers for run(): the frame of a face, of what changes */
  gboolean      found;    /* locate() looked for it */

  ZnOpWholeLocate locate;  /* NULL: describe() has set change */
  ZnOpWholeRun    run;     /* NULL: the result is the input itself */
  zn_error        refusal; /* describe()'s error message if the properties are invalid, or "" */
};

/* Sets a task of the operation's family: what the properties say.  The defaults are
 * there already. */
typedef void (*ZnOpDescribe) (GeglOperation *operation, gpointer task);

/* Called from gegl_op_class_init(); they set every method of the operation.  A whole
 * picture's operation may be a GEGL_OP_FILTER, GEGL_OP_COMPOSER or GEGL_OP_SOURCE. */
void zn_op_tiled_class_init (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_latent_class_init (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_whole_class_init (GeglOperationClass *klass, ZnOpDescribe describe);

/* After zn_op_tiled_class_init(): the result may be larger than the input. */
void zn_op_tiled_enlarges (GeglOperationClass *klass);

/* After zn_op_whole_class_init(): a composer that is a source where it has no input. */
void zn_op_whole_input_optional (GeglOperationClass *klass);

/* ---- the rest is for the op-*.c files and for ZnOpWholeRun ------------------ */

void zn_op_set_describe (GeglOperationClass *klass, ZnOpDescribe describe);
void zn_op_describe (GeglOperation *operation, gpointer task);

/* Memory of the operation under this key: zeroed by the first call, freed with the operation. */
gpointer zn_op_data (GeglOperation *operation, const gchar *key, gsize size);

/* FALSE, and an error message, if nothing is connected or the input is infinite or too large; *box
 * is its bounding box then. */
gboolean zn_op_input_box (GeglOperation *operation, GeglRectangle *box, zn_error *err);

/* The same for a known box, of an input or of a result. */
gboolean zn_op_check_box (const GeglRectangle *box, zn_error *err);

/* R'G'B'A float or, for an input without alpha, R'G'B' float, in its space.  RGBA
 * float and RGB float instead, to which the functions below apply sRGB's curve
 * themselves, if the input is linear and that is its space's curve, or has none. */
const Babl *zn_op_picture_format (GeglOperation *operation, const gchar *pad);
gboolean    zn_op_is_linear (const Babl *format);

/* Part of a buffer seen as a picture that starts at 0,0. */
struct _ZnOpPicture
{
  GeglBuffer   *buffer;
  const Babl   *format; /* as zn_op_picture_format() gives */
  GeglRectangle box;
};

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

/* Adds change, [rect.h][rect.w][3], to the pixels of rect and writes them to output, dx
 * to the right of the picture's place.  A value may leave 0..1 only where it was outside before.  Pixels
 * whose change is 0 and fully transparent ones are written as they are, to the bit. */
void zn_op_picture_add (const ZnOpPicture *picture,
                        GeglBuffer        *output,
                        gint               dx,
                        zn_rect            rect,
                        const gfloat      *change);

/* ---- requests -------------------------------------------------------------- */

/* One call of process(): what it reports while it works, and how it ended. */
struct _ZnOpRequest
{
  GeglOperation  *operation;
  const ZnOpBase *base;
  zn_error        err;         /* why it failed */
  zn_note         note;        /* how the result differs from the request, or "" */
  gboolean        ran;         /* a network did, */
  zn_makers       computed_by; /* ... on this engine, in this precision */

  /* the part of the current job in the whole: its 0..1 is shown as start..start + span */
  gdouble start, span;
  gdouble shown;    /* < 0: nothing yet */
  gint64  shown_at; /* microseconds */

  /* Shows what run() would make so far; NULL: the host shows no estimates (see op-common.c) */
  void (*estimate) (ZnOpRequest *request, const gfloat *made);
  gpointer estimate_data;

  gboolean replaced; /* the output has what there is to show after a failure */
};

/* What the run of a composite of zenith_composite.h is watched with: progress and estimates of
 * the request, `memory`, the field of the property, and what is kept. */
typedef struct
{
  ZnOpRequest *request;
  gchar      **memory;
} ZnOpWatched;

zn_watcher zn_op_watcher (const ZnOpWatched *watched);

void zn_op_request_init (ZnOpRequest *request, GeglOperation *operation, const ZnOpBase *base);

/* The next job is this part of the whole. */
void zn_op_request_part (ZnOpRequest *request, gdouble start, gdouble span);

/* A zn_job's progress function; its cookie is the request.  FALSE: cancelled.
 *
 * Nothing is shown before a network runs, because cached results are immediate.  From then
 * on hosts are called at least every 50 ms, even if the bar does not move: a dialog that
 * runs the graph iterates its main loop then. */
bool zn_op_request_progress (void *request, double done);

/* The same with unchanged progress, for work that is not a job's. */
bool zn_op_request_tick (ZnOpRequest *request);

/* The function of a host that shows estimates; *data is for it.  NULL: there is none,
 * or this is not the main thread. */
typedef void (*ZnOpShowEstimate) (gpointer data, GeglBuffer *estimate);
ZnOpShowEstimate zn_op_request_host (const ZnOpRequest *request, gpointer *data);

/* Fails with this message. */
zn_status zn_op_request_refuse (ZnOpRequest *request, zn_status status, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* Shows the message in the status property only.  May be called in prepare(),
 * which never clears it: a status that came and went would make GIMP render
 * endlessly. */
void zn_op_set_status (GeglOperation *operation, const ZnOpBase *base, const gchar *sentence);

/* Shows the noise that was measured, of 255 for each channel, or that there is none, as
 * text and as numbers.  NULL: it was not measured.  With $ZENITH_VERBOSE stderr gets it too. */
void zn_op_set_measured (GeglOperation        *operation,
                         const ZnOpTiled      *task,
                         const zn_noise_table *noise);

/* Says how far a picture differs from its original: sum and sum of squares of the
 * differences of n values, and the largest. */
void zn_op_set_loss (GeglOperation        *operation,
                     const ZnOpLatentTask *task,
                     gdouble               sum,
                     gdouble               squares,
                     gdouble               worst,
                     gdouble               n);

/* Writes a property that is never read, and tells hosts if it changed. */
void zn_op_set_text (GeglOperation *operation,
                     const gchar   *property,
                     gchar        **field,
                     const gchar   *sentence);

/* Shows where a face is, its centre from the corner of the input, its side and its angle: in `field`, the
 * property "frame", and as numbers in the fields of taken-x, -y, -size and -angle. */
void zn_op_set_frame (GeglOperation *operation,
                      gchar        **field,
                      gdouble *const taken[4],
                      const gdouble  place[4]);

/* Whether the input is a selection (see op-common.c). */
gboolean zn_op_is_selected (GeglOperation *operation);

/* Shows what a run takes in `field`, the property "memory".  With $ZENITH_VERBOSE stderr gets it too. */
void zn_op_set_memory (GeglOperation *operation, gchar **field, const zn_footprint *need);

/* How process() ends: returns TRUE.  After a failure the output is the input, whatever
 * was written before; where there is none, it is empty. */
gboolean zn_op_request_end (ZnOpRequest *request, GeglOperationContext *context, zn_status status);

#endif
