/* SPDX-License-Identifier: MIT */
/* op-face.h - the operations on faces: the engine's composite `face` (zenith_face.h) on buffers. */

#ifndef __ZENITH_OP_FACE_H__
#define __ZENITH_OP_FACE_H__

#include "op-common.h"
#include "zenith_face.h"

/* What all operations on a face have. */
typedef struct
{
  zn_face_how how;
  gchar     **shown;    /* the field of the property "frame" */
  gdouble    *taken[4]; /* ... of taken-x, -y, -size, -angle: the same as numbers */
  gchar     **memory;   /* the field of the property */
  gchar     **faces;    /* likewise; NULL: it has none */

  const gchar *second; /* of an interpolation: a file, if nothing is on the pad "aux" */
} ZnOpFace;

#define ZN_OP_FACE(o, name)                                                                        \
  ((ZnOpFace){                                                                                     \
      .how    = { .task   = name,                                                                  \
                  .model  = (o)->model,                                                            \
                  .frame  = { (o)->frame_x, (o)->frame_y, (o)->frame_size, (o)->frame_angle },     \
                  .search = (o)->find ? ZN_SEARCH_FACE : ZN_SEARCH_NONE,                           \
                  .steps  = (o)->steps,                                                            \
                  .stochastic_steps = (o)->stochastic_steps,                                       \
                  .latent_steps     = 1 },                                                             \
      .shown  = &(o)->frame,                                                                       \
      .taken  = { &(o)->taken_x, &(o)->taken_y, &(o)->taken_size, &(o)->taken_angle },             \
      .memory = &(o)->memory })

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

#define zenith_property_face_slider(name, label, text)                                             \
  property_double (name, label, 0.0) description (text) value_range (-1.0, 1.0)

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

/* "faces" is written by the operation, for programs. */
#define zenith_property_face_choice                                                                \
  property_int (face, _ ("Face"), 1)                                                               \
      description (_ ("Which of the faces that are found, the largest first; 0: all of them"))     \
          value_range (0, ZN_FACES)                                                                \
                                                                                                   \
              property_string (faces, _ ("Faces"), "") description (                               \
                  _ ("The frames of the faces, four numbers each: center, side and turn"))         \
                  ui_meta ("sensitive", "0") ui_meta ("visible", "0")

/* Written by the operation, never read; for programs, so an automatic dialog does not show them. */
#define zenith_property_taken(name, initial)                                                       \
  property_double (name, _ ("Frame"), initial)                                                     \
      description (_ ("The frame that was taken, as numbers; a side of 0: none"))                  \
          value_range (-1e6, 1e6) ui_meta ("visible", "0")
#define zenith_property_face_taken                                                                 \
  zenith_property_taken (taken_x, 0.0) zenith_property_taken (taken_y, 0.0)                        \
      zenith_property_taken (taken_size, 0.0) zenith_property_taken (taken_angle, 0.0)

/* For describe(); FALSE: there is nothing to run. */
gboolean zn_op_face_describe (ZnOpWhole *task, const ZnOpFace *face);

/* For locate(): the frame of in[0], given or found. */
zn_status zn_op_face_locate (ZnOpWhole         *task,
                             const ZnOpFace    *face,
                             const ZnOpPicture *in,
                             ZnOpRequest       *request);

zn_status zn_op_face_run (const ZnOpWhole   *task,
                          const ZnOpFace    *face,
                          const ZnOpPicture *in,
                          gint               n_in,
                          zn_array          *out,
                          ZnOpRequest       *request);

/* locate() and run() of an operation, and what its describe() does; asked: a function that makes a ZnOpFace of the
 * properties. */
#define ZN_OP_FACE_CALLS(asked)                                                                    \
  static zn_status locate (ZnOpWhole *task, const ZnOpPicture *in, ZnOpRequest *request)           \
  {                                                                                                \
    const ZnOpFace face = asked (GEGL_PROPERTIES (request->operation));                            \
                                                                                                   \
    return zn_op_face_locate (task, &face, in, request);                                           \
  }                                                                                                \
                                                                                                   \
  static zn_status run (const ZnOpWhole *task, const ZnOpPicture *in, gint n_in, zn_array *out,    \
                        ZnOpRequest *request)                                                      \
  {                                                                                                \
    const ZnOpFace face = asked (GEGL_PROPERTIES (request->operation));                            \
                                                                                                   \
    return zn_op_face_run (task, &face, in, n_in, out, request);                                   \
  }                                                                                                \
                                                                                                   \
  static void describe (GeglOperation *operation, gpointer data)                                   \
  {                                                                                                \
    GeglProperties *o    = GEGL_PROPERTIES (operation);                                            \
    ZnOpWhole      *task = data;                                                                   \
    const ZnOpFace  face = asked (o);                                                              \
                                                                                                   \
    task->base   = ZN_OP_BASE (o);                                                                 \
    task->locate = face.shown ? locate : NULL;                                                     \
    if (zn_op_face_describe (task, &face))                                                         \
      task->run = run;                                                                             \
  }

/* Shows the names of the model's attributes in `field`, the property "attributes". */
void zn_op_face_show_attributes (GeglOperation *operation, gchar **field, const gchar *model);

#endif
