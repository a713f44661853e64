/* SPDX-License-Identifier: MIT */
/* op-common.h - what all Zenith operations share.
 *
 * An operation's file says what the user sees (properties, keys) and, in one
 * function, which task these properties ask for.  Everything else is done once:
 *
 *   op-types.c    the lists that a user chooses from; op-properties.h: properties
 *   op-picture.c  the pixels of buffers: formats, alpha, bad values
 *   op-request.c  progress, cancelling, status and note
 *   op-engine.c   the process's session of the engine
 *   op-cache.c    results kept for the whole process
 *
 * There are three families of operations, each with a small task of its own:
 *
 *   op-tiled.c    ZnOpTiled: any region, computed in tiles (denoise, restore, upscale);
 *                 op-enlarge.c: buffers of a larger result
 *   op-latent-ops.c   ZnOpLatentTask: whole pictures through a latent, streamed
 *                 (latent-*); op-latent.c is the work
 *   op-whole.c    ZnOpWhole: one result held in memory, made of one picture, of
 *                 two or of none, of any size and place; op-face.c: the face
 *                 operations (diffae-*), which change a part of the input
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
#include "op-picture.h"
#include "op-properties.h"
#include "op-request.h"
#include "op-types.h"

/* ---- tasks: what an operation's properties ask for ------------------------- */

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
  gdouble        *fault[3]; /* ... of measured-blur, -artefacts, -noise: `measured` says these */
} ZnOpTiled;

typedef struct
{
  ZnOpBase          base;
  gboolean          encodes, decodes; /* both: a preview, of the picture's size */
  ZenithAutoencoder autoencoder;
  const gchar      *weights; /* "" or NULL: found by name */
  ZenithLatentMode  mode;    /* of a preview */
  gboolean          planes;  /* a latent is grey pictures, one below the other */
  gint              frames;  /* > 0: the picture is so many, one below the other: a video */
  gdouble           scale;   /* what a difference is multiplied by */
  gchar           **loss;    /* the field of the property, or NULL */
} ZnOpLatentTask;

enum
{
  ZN_OP_WHOLE_INPUTS = 2 /* "input" and "aux" */
};

typedef struct _ZnOpWhole ZnOpWhole;

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
  gint          copies;   /* more than 1: the result is so many pictures side by side, and run()
                           * makes them, or the changes of the input, one below the other */
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

/* What the run of a composite of zenith_composite.h is watched with: progress and estimates of
 * the request, `memory`, the field of the property, and what is kept. */
typedef struct
{
  ZnOpRequest *request;
  gchar      **memory;
} ZnOpWatched;

zn_watcher zn_op_watcher (const ZnOpWatched *watched);

#endif
