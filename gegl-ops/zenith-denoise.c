/* SPDX-License-Identifier: MIT */
/* zenith-denoise.c - removes noise from photos. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_enum (model, _("Model"),
               ZenithDenoiseModel, zenith_denoise_model,
               ZENITH_DENOISE_MODEL_BALANCED)
  description (_("A larger network takes longer and keeps more detail"))

property_double (strength, _("Strength"), 1.0)
  description (_("How much of the noise is removed; above 1 also texture that is as weak"))
  value_range (0.0, 1.5)
  ui_range    (0.0, 1.5)

property_double (luma, _("Lightness"), 1.0)
  description (_("How much of the noise in lightness is removed"))
  value_range (0.0, 1.0)

property_double (chroma, _("Color"), 1.0)
  description (_("How much of the noise in color is removed"))
  value_range (0.0, 1.0)

property_double (detail, _("Detail"), 0.0)
  description (_("How much of the finest texture in lightness is given back"))
  value_range (0.0, 1.0)

property_double (sigma, _("Noise level"), 0.0)
  description (_("Standard deviation of the noise, of 255; 0 measures it in the picture"))
  value_range (0.0, 100.0)
  ui_range    (0.0, 75.0)
  ui_gamma    (2.0)
  ui_digits   (1)

property_double (sigma_scale, _("Of the measured level"), 1.0)
  description (_("Factor of the measured noise level: more if noise is left, less if texture is lost"))
  value_range (0.1, 10.0)
  ui_range    (0.25, 4.0)
  ui_gamma    (2.0)

property_double (sharpen, _("Sharpen"), 0.0)
  description (_("How much the denoised picture is sharpened, without halos"))
  value_range (0.0, 2.0)

zenith_property_engine
zenith_property_status
zenith_property_measured
zenith_property_precision
zenith_property_note
zenith_property_failed
zenith_property_levels

zenith_property_computed_by

property_file_path (weights, _("Weights"), "")
  description (_("Weight file of a denoiser that zenith train made; empty: that of the model"))

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_denoise
#define GEGL_OP_C_SOURCE zenith-denoise.c

/* clang-format on */
#include "gegl-op.h"

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties  *o      = GEGL_PROPERTIES (operation);
  ZnOpTiled       *task   = data;
  const zn_choice  choice = zn_op_choice (&ZN_OP_BASE (o));
  const zn_denoise how    = {
       .model       = zn_op_nick (zenith_denoise_model_get_type (), o->model),
       .strength    = o->strength,
       .luma        = o->luma,
       .chroma      = o->chroma,
       .detail      = o->detail,
       .sharpen     = o->sharpen,
       .sigma       = o->sigma,
       .sigma_scale = o->sigma_scale,
       .weights     = o->weights,
  };

  task->base     = ZN_OP_BASE (o);
  task->measured = &o->measured;
  task->level[0] = &o->measured_red;
  task->level[1] = &o->measured_green;
  task->level[2] = &o->measured_blue;
  task->status   = zn_denoise_describe (&task->plan, zn_op_session (), &choice, &how, task->width,
                                        task->height, task->side, &task->refusal);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_tiled_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:denoise", "title", _ ("Denoise"),
                                 "categories", "enhance:noise-reduction", "description",
                                 _ ("Removes noise with a neural network and keeps detail"),
                                 "gimp:menu-path", "<Image>/Filters/Zenith/", "gimp:menu-label",
                                 _ ("_Denoise..."), NULL);
}

#endif
