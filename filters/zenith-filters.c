/* SPDX-License-Identifier: MIT
 *
 * zenith-filters.c - the table of filters; see the header for how to add one.
 */
#include <gegl.h>

#include "zenith-filters.h"
#include "zenith-settings.h"

const ZnFilter zn_filters[] = {
  {
      .procedure  = "plug-in-zenith-denoise",
      .operation  = "zenith:denoise",
      .title      = "Denoise",
      .blurb      = "Remove noise with a neural network",
      .help       = "Removes camera, film and compression noise.  'strength' says how "
                    "much of it goes (0 leaves the picture as it is), 'luma' and "
                    "'chroma' weigh brightness and colour noise, 'detail' gives fine "
                    "texture back.  'sigma' is the noise level in steps of 255; 0 "
                    "measures it.",
      .properties = { "model", "strength", "luma", "chroma", "detail", "sigma", "engine" },
  },
  {
      .procedure      = "plug-in-zenith-latent-preview",
      .operation      = "zenith:latent-preview",
      .title          = "Latent Preview",
      .blurb          = "Show what an autoencoder keeps of the picture",
      .help           = "Sends the picture through a small autoencoder and shows what comes "
                        "back ('reconstruct'), the latent itself ('latent') or what was lost "
                        "('difference').  'weights' is a weight file; an empty string looks "
                        "for one by the model's name.",
      .preview_margin = 128,
      .properties     = { "model", "mode", "weights", "engine" },
  },
};

const guint zn_n_filters = G_N_ELEMENTS (zn_filters);

const ZnFilter *
zn_filter_by_procedure (const gchar *procedure)
{
  for (guint i = 0; i < zn_n_filters; i++)
    if (! g_strcmp0 (zn_filters[i].procedure, procedure))
      return &zn_filters[i];

  return NULL;
}

const ZnFilter *
zn_filter_by_operation (const gchar *operation)
{
  for (guint i = 0; i < zn_n_filters; i++)
    if (! g_strcmp0 (zn_filters[i].operation, operation))
      return &zn_filters[i];

  return NULL;
}

gboolean
zn_filter_is_installed (const ZnFilter *filter)
{
  ZnSettings *settings = zn_settings_new (filter, NULL);

  zn_settings_free (settings);

  return settings != NULL;
}
