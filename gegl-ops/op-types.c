/* SPDX-License-Identifier: MIT */
/* op-types.c - see the header. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include "op-types.h"

/* The names of the values are what a user sees. */
static GType
enum_register (gsize *type, const gchar *name, GEnumValue *values)
{
  if (g_once_init_enter (type))
    {
      for (GEnumValue *v = values; v->value_name; v++)
        v->value_name = _ (v->value_name);
      g_once_init_leave (type, g_enum_register_static (name, values));
    }

  return *type;
}

#define ENTRY(value, name, nick) { value, name, nick },
#define TYPE(function, Name, VALUES)                                                               \
  GType function##_get_type (void)                                                                 \
  {                                                                                                \
    static gsize      type;                                                                        \
    static GEnumValue values[] = { VALUES (ENTRY){ 0, NULL, NULL } };                              \
                                                                                                   \
    return enum_register (&type, #Name, values);                                                   \
  }

TYPE (zenith_engine, ZenithEngine, ZENITH_ENGINES)
TYPE (zenith_precision, ZenithPrecision, ZENITH_PRECISIONS)
TYPE (zenith_autoencoder, ZenithAutoencoder, ZENITH_AUTOENCODERS)
TYPE (zenith_latent_mode, ZenithLatentMode, ZENITH_LATENT_MODES)
TYPE (zenith_denoise_model, ZenithDenoiseModel, ZENITH_DENOISE_MODELS)
TYPE (zenith_upscale_model, ZenithUpscaleModel, ZENITH_UPSCALE_MODELS)

const gchar *
zn_op_nick (GType type, gint value)
{
  GEnumClass *klass = g_type_class_ref (type);
  GEnumValue *found = g_enum_get_value (klass, value);

  g_type_class_unref (klass);

  return found ? found->value_nick : "";
}
