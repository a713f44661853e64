/* SPDX-License-Identifier: MIT */
/* module.c - one shared object with all operations: a new one is a line here. */

#include "config.h"
#include "locale-dir.h"

#include <glib/gi18n-lib.h>

#include <gegl-plugin.h>

#include "zenith.h"

#ifdef ZN_TEMPLATES /* the module of the tests */
#define TEMPLATES                                                                                  \
  X (zenith_identity)                                                                              \
  X (zenith_identity_pair)                                                                         \
  X (zenith_identity_source)
#else
#define TEMPLATES
#endif

#define OPERATIONS                                                                                 \
  X (zenith_denoise)                                                                               \
  X (zenith_diffae_interpolate)                                                                    \
  X (zenith_diffae_manipulate)                                                                     \
  X (zenith_diffae_reconstruct)                                                                    \
  X (zenith_diffae_sample)                                                                         \
  X (zenith_latent_decode)                                                                         \
  X (zenith_latent_encode)                                                                         \
  X (zenith_latent_preview)                                                                        \
  X (zenith_restore)                                                                               \
  X (zenith_upscale)                                                                               \
  X (zenith_wan_video)                                                                             \
  X (zenith_z_image)                                                                               \
  TEMPLATES

#define X(name) void gegl_op_##name##_register_type (GTypeModule *module);
OPERATIONS
#undef X

G_MODULE_EXPORT const GeglModuleInfo *gegl_module_query (GTypeModule *module);
G_MODULE_EXPORT gboolean              gegl_module_register (GTypeModule *module);

const GeglModuleInfo *
gegl_module_query (GTypeModule *module)
{
  static const GeglModuleInfo info = { GEGL_MODULE_ABI_VERSION };

  return &info;
}

/* Translates the engine's messages, from its threads too. */
static const char *
translate (const char *english)
{
  return dgettext (GETTEXT_PACKAGE, english);
}

gboolean
gegl_module_register (GTypeModule *module)
{
  const gchar *locale = g_getenv ("ZENITH_LOCALE");

  bindtextdomain (GETTEXT_PACKAGE, locale && *locale ? locale : ZENITH_LOCALEDIR);
  bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
  zn_set_translator (translate);

#define X(name) gegl_op_##name##_register_type (module);
  OPERATIONS
#undef X

  return TRUE;
}
