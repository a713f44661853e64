/* SPDX-License-Identifier: MIT */
/* op-face.h - the operations of the diffusion autoencoder: a square of the picture, the
 * frame, is brought to the model's size, changed there, and only the change returns.
 *
 *   picture --frame, averaged--> x [side][side][3] --diffae-encode--> cond [code]
 *                                 x, cond --diffae-reverse--> xT, the noise it comes from
 *   xT, cond --diffae-sample--> the reconstruction
 *   xT, cond + shift --diffae-sample, guided--> the edit
 *   (edit - x) --bicubic, feathered--> added to the picture
 *
 * An edit has as many sampling steps as inversion steps, and sampling uses the corrections
 * that the inversion stored (path=1 of diffae-sample): with cond it leads back to x.  Otherwise the change is edit - reconstruction.
 *
 * cond and xT are kept (op-cache.c), found by a hash of x, and so is the reconstruction:
 * another amount or attribute only samples the edit. */

#ifndef __ZENITH_OP_FACE_H__
#define __ZENITH_OP_FACE_H__

#include "op-common.h"
#include "op-face-frame.h"

/* What all operations on a face have. */
typedef struct
{
  const gchar *model; /* a weight file, or its stem */
  ZnOpFrame    frame;
  gint         steps, stochastic_steps;
  gboolean     find;     /* where the frame has no size, a face is looked for */
  gchar      **shown;    /* the field of the property "frame" */
  gdouble     *taken[4]; /* ... of taken-x, -y, -size, -angle: the same as numbers */
  gchar      **memory;   /* the field of the property */
} ZnOpFace;

#define ZN_OP_FACE(o)                                                                              \
  ((ZnOpFace){ (o)->model,                                                                         \
               { (o)->frame_x, (o)->frame_y, (o)->frame_size, (o)->frame_angle },                  \
               (o)->steps,                                                                         \
               (o)->stochastic_steps,                                                              \
               (o)->find,                                                                          \
               &(o)->frame,                                                                        \
               { &(o)->taken_x, &(o)->taken_y, &(o)->taken_size, &(o)->taken_angle },              \
               &(o)->memory })

/* The properties of a ZnOpFace; an operation lists them where its users expect them.  An
 * edit needs fewer steps than a reconstruction: their error cancels in the change. */
#define zenith_property_face_model                                                                 \
  property_string (model, _ ("Model"), "zenith-face")                                              \
      description (_ ("Name or path of the weight file of a diffusion autoencoder"))

#define zenith_property_face_steps(initial)                                                        \
  property_int (steps, _ ("Steps"), initial)                                                       \
      description (_ ("Steps from noise to the picture: more are slower and more exact"))          \
          value_range (2, 1000) ui_range (4, 100)

#define zenith_property_face_stochastic_steps(initial)                                             \
  property_int (stochastic_steps, _ ("Stochastic steps"), initial)                                 \
      description (_ ("Steps from the picture to its noise, done once for a picture"))             \
          value_range (2, 1000) ui_range (4, 250)

#define zenith_property_face_frame                                                                 \
  property_double (frame_x, _ ("Frame X"), 0.0) description (                                      \
      _ ("Center of the face's frame, from the left edge")) value_range (-1e6, 1e6)                \
      ui_range (0.0, 4096.0) ui_meta ("unit", "pixel-coordinate") ui_meta ("axis", "x")            \
                                                                                                   \
          property_double (frame_y, _ ("Frame Y"), 0.0) description (                              \
              _ ("Center of the face's frame, from the upper edge")) value_range (-1e6, 1e6)       \
              ui_range (0.0, 4096.0) ui_meta ("unit", "pixel-coordinate") ui_meta ("axis", "y")    \
                                                                                                   \
                  property_double (frame_size, _ ("Frame size"), 0.0)                              \
                      description (_ ("Side of the frame; 0: that of the face that is found"))     \
                          value_range (0.0, 65536.0) ui_range (0.0, 4096.0)                        \
                              ui_meta ("unit", "pixel-distance")                                   \
                                                                                                   \
                                  property_double (frame_angle, _ ("Frame angle"), 0.0)            \
                                      description (_ ("Rotation of the frame, clockwise: that of " \
                                                      "the line through the eyes"))                \
                                          value_range (-180.0, 180.0) ui_meta ("unit", "degree")

/* "frame" is written by the operation, never read. */
#define zenith_property_face_find                                                                  \
  property_boolean (find, _ ("Find the face"), TRUE) description (                                 \
      _ ("Whether the largest face is looked for where no frame is given; off for a picture "      \
         "that is a face already: the frame is the largest square in the middle"))                 \
                                                                                                   \
      property_string (frame, _ ("Frame"), "")                                                     \
          description (_ ("The frame that was taken: its center, its side and its turn"))          \
              ui_meta ("sensitive", "0")

/* Written by the operation, never read; for programs, so an automatic dialog does not show them. */
#define zenith_property_taken(name, initial)                                                       \
  property_double (name, _ ("Frame"), initial)                                                     \
      description (_ ("The frame that was taken, as numbers; a side of 0: none"))                  \
          value_range (-1e6, 1e6) ui_meta ("visible", "0")
#define zenith_property_face_taken                                                                 \
  zenith_property_taken (taken_x, 0.0) zenith_property_taken (taken_y, 0.0)                        \
      zenith_property_taken (taken_size, 0.0) zenith_property_taken (taken_angle, 0.0)

/* For describe(): models, weights, the pixels that change, settings and refusals.  After
 * it the caller adds to task->settings what else counts. */
void zn_op_face_describe (ZnOpWhole *task, const ZnOpFace *face);
void zn_op_face_add_number (ZnOpWhole *task, gdouble number);

/* For locate(): the frame of in[0], given or found. */
zn_status zn_op_face_locate (ZnOpWhole         *task,
                             const ZnOpFace    *face,
                             ZnOpModel *const  *model,
                             const ZnOpPicture *in,
                             ZnOpRequest       *request);

/* The same as a function of an operation with the properties of a ZnOpFace. */
#define ZN_OP_FACE_LOCATE(name)                                                                    \
  static zn_status name (ZnOpWhole *task, ZnOpModel *const *model, const ZnOpPicture *in,          \
                         ZnOpRequest *request)                                                     \
  {                                                                                                \
    const ZnOpFace face = ZN_OP_FACE (GEGL_PROPERTIES (request->operation));                       \
                                                                                                   \
    return zn_op_face_locate (task, &face, model, in, request);                                    \
  }

/* What run() has to give. */
typedef struct
{
  const ZnOpWhole   *task;
  ZnOpModel *const  *model;
  const ZnOpPicture *in;
  zn_array          *out;
  ZnOpRequest       *request;
  const ZnOpFace    *face;

  /* set by the functions below */
  gdouble  bar_start, bar_span; /* its part of the progress bar */
  gint     all_steps;           /* stochastic ones, of the run that is not quick */
  gboolean edits;               /* a change of the input's own code */
  gboolean path;                /* ... with the corrections of the inversion */
  gboolean quick;               /* a first estimate of it */
  gboolean quick_shown;         /* an estimate of few steps was */
} ZnOpFaceRun;

zn_status zn_op_face_reconstruct (const ZnOpFaceRun *run);

/* detail: how much of the structure that the model cannot see stays where it changes
 * the picture. */
zn_status zn_op_face_manipulate (const ZnOpFaceRun *run,
                                 const gchar       *attribute,
                                 gdouble            amount,
                                 gdouble            detail);

/* Both pictures have one size, unless their faces are found; position 0: the first, 1: the
 * second.  strip: 0, or, with zn_op_face_describe_strip() called too, the number of
 * pictures side by side, from the first one to the second. */
zn_status zn_op_face_interpolate (const ZnOpFaceRun *run,
                                  const ZnOpPicture *second,
                                  gdouble            position,
                                  gint               strip);
void      zn_op_face_describe_strip (ZnOpWhole *task, gint strip);

/* The second picture of a file, for describe() and run(); its buffer is the caller's. */
zn_status zn_op_face_load (ZnOpPicture *picture, const gchar *path, ZnOpRequest *request);

/* For describe() and run() of a face from noise. */
void      zn_op_face_describe_sample (ZnOpWhole   *task,
                                      const gchar *model,
                                      guint        seed,
                                      gint         steps,
                                      gint         latent_steps);
zn_status zn_op_face_sample (const ZnOpFaceRun *run, guint seed, gint latent_steps);

/* ---- attributes ------------------------------------------------------------ */

/* Of an attribute file (docs/scripting.md). */
typedef struct
{
  gfloat *shift; /* [code]: what amount 1 adds to a code; freed with gegl_free() */
  gdouble guide; /* guidance at amount 1 */
} ZnOpAttribute;

/* Looks in all *.attributes.safetensors of the model folders for one whose codes have
 * this length and that is for this model.  FALSE: an error message that lists the existing ones. */
gboolean zn_op_attribute_find (ZnOpAttribute *attribute,
                               const gchar   *name,
                               const gchar   *model,
                               gint           code,
                               zn_error      *err);

/* The names of those there are for this model, with commas between them; to be freed. */
gchar *zn_op_attributes_list (const gchar *model);

/* Shows them in the field of the property "attributes"; model: as in ZnOpFace. */
void zn_op_face_show_attributes (GeglOperation *operation, gchar **field, const gchar *model);

/* Changes when an attribute file does. */
guint zn_op_attributes_stamp (void);

#endif
