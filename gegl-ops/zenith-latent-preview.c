/* SPDX-License-Identifier: MIT */
/* zenith-latent-preview.c - shows what an autoencoder keeps of a picture. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-latent.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

zenith_property_autoencoder

property_enum (mode, _("Mode"),
               ZenithLatentMode, zenith_latent_mode,
               ZENITH_LATENT_MODE_RECONSTRUCT)
  description (_("The picture after encoding and decoding, the latent as colors, "
                 "or the difference to the picture times the scale"))

zenith_property_weights
zenith_properties_of_a_run

property_double (scale, _("Scale"), 4.0)
  description (_("Factor of the difference: with 4, a difference of 64 of 255 is white"))
  value_range (1.0, 64.0)
  ui_gamma (2.0)

/* Written by the operation, never read. */
property_string (loss, _("Loss"), "")
  description (_("With the mode Difference: how far the decoded picture is from the picture"))

zenith_property_computed_by

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_latent_preview
#define GEGL_OP_C_SOURCE zenith-latent-preview.c

/* clang-format on */
#include "gegl-op.h"

/* A host that shows a part of the result asks what of the picture that takes, by object data of the
 * node while it prepares it:
 *
 *   struct { GeglRectangle part, piece; gint margin; } asked;
 *   g_object_set_data (G_OBJECT (node), "zenith-piece", &asked);
 *
 * piece becomes the whole cells of the engine's grid that part, which is shown, and a halo of at most
 * margin pixels lie in. */
static void
answer_piece (GeglOperation *operation, const ZnOpLatentTask *task)
{
  struct
  {
    GeglRectangle part, piece;
    gint          margin;
  } *asked = operation->node ? g_object_get_data (G_OBJECT (operation->node), "zenith-piece")
                             : NULL;
  zn_autoencoder autoencoder;
  GeglRectangle  box, part;
  zn_error       err;
  zn_grid        grid;
  zn_rect        r;

  if (! asked || ! zn_op_input_box (operation, &box, &err) ||
      ! gegl_rectangle_intersect (&part, &asked->part, &box) ||
      ! zn_op_latent_open (&autoencoder, task, NULL, &err))
    return;
  zn_autoencoder_grid (&grid, &autoencoder, box.width, box.height);
  zn_autoencoder_close (&autoencoder);
  grid.halo = MIN (grid.halo, asked->margin);
  r = zn_grid_around (&grid, (zn_rect){ part.x - box.x, part.y - box.y, part.width, part.height });
  asked->piece = (GeglRectangle){ box.x + r.x, box.y + r.y, r.w, r.h };
}

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties *o    = GEGL_PROPERTIES (operation);
  ZnOpLatentTask *task = data;

  task->base        = ZN_OP_BASE (o);
  task->autoencoder = o->model;
  task->mode        = o->mode;
  task->weights     = o->weights;
  task->scale       = o->scale;
  task->loss        = &o->loss;
  task->encodes     = TRUE;
  task->decodes     = TRUE;
  answer_piece (operation, task);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_latent_class_init (operation_class, describe);

  gegl_operation_class_set_keys (
      operation_class, "name", "zenith:latent-preview", "title", _ ("Latent Preview"), "categories",
      "artistic", "description",
      _ ("Shows what an image generator's autoencoder keeps of the picture: "
         "whether faces and small print would survive there"),
      "gimp:menu-path", "<Image>/Filters/Zenith/Expert", "gimp:menu-label",
      _ ("_Latent Preview..."), NULL);
}

#endif
