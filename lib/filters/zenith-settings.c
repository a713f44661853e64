/* SPDX-License-Identifier: MIT
 *
 * zenith-settings.c - property values found by asking the GEGL operation.
 */
#include <math.h>
#include <string.h>

#include <gegl.h>
#include <glib/gi18n-lib.h>
#include <gegl-paramspecs.h>

#include "zenith-operations.h"
#include "zenith-settings.h"
#include "zenith_number.h"

#define TEXT_MAX 4096 /* bytes of a string or path, far above any real one */

GQuark
zn_error_quark (void)
{
  return g_quark_from_static_string ("zenith-error-quark");
}

/* What kind of widget and argument a property needs; FALSE for a type that
 * no filter of ours has.
 */
static gboolean
classify (ZnProperty *p)
{
  GParamSpec *spec = p->spec;

  p->digits = 0;

  if (G_IS_PARAM_SPEC_ENUM (spec))
    {
      p->kind = ZN_KIND_ENUM;
    }
  else if (G_IS_PARAM_SPEC_BOOLEAN (spec))
    {
      p->kind = ZN_KIND_BOOLEAN;
      p->max  = 1.0;
    }
  else if (G_IS_PARAM_SPEC_STRING (spec))
    {
      p->kind = GEGL_IS_PARAM_SPEC_FILE_PATH (spec) ? ZN_KIND_FILE : ZN_KIND_STRING;
    }
  else if (G_IS_PARAM_SPEC_DOUBLE (spec))
    {
      p->kind   = ZN_KIND_DOUBLE;
      p->min    = G_PARAM_SPEC_DOUBLE (spec)->minimum;
      p->max    = G_PARAM_SPEC_DOUBLE (spec)->maximum;
      p->digits = 2;
    }
  else if (G_IS_PARAM_SPEC_INT (spec))
    {
      p->kind = ZN_KIND_INT;
      p->min  = G_PARAM_SPEC_INT (spec)->minimum;
      p->max  = G_PARAM_SPEC_INT (spec)->maximum;
    }
  else if (G_IS_PARAM_SPEC_UINT (spec)) /* GEGL's seeds; a PDB integer is signed */
    {
      p->kind = ZN_KIND_INT;
      p->min  = G_PARAM_SPEC_UINT (spec)->minimum;
      p->max  = MIN (G_PARAM_SPEC_UINT (spec)->maximum, (guint) G_MAXINT);
    }
  else
    {
      return FALSE;
    }

  p->ui_min = p->min;
  p->ui_max = p->max;

  if (GEGL_IS_PARAM_SPEC_DOUBLE (spec))
    {
      p->ui_min = GEGL_PARAM_SPEC_DOUBLE (spec)->ui_minimum;
      p->ui_max = GEGL_PARAM_SPEC_DOUBLE (spec)->ui_maximum;
      p->digits = CLAMP (GEGL_PARAM_SPEC_DOUBLE (spec)->ui_digits, 1, 2);
    }
  else if (GEGL_IS_PARAM_SPEC_INT (spec))
    {
      p->ui_min = GEGL_PARAM_SPEC_INT (spec)->ui_minimum;
      p->ui_max = GEGL_PARAM_SPEC_INT (spec)->ui_maximum;
    }

  return TRUE;
}

ZnSettings *
zn_settings_new (const ZnFilter *filter, GError **error)
{
  ZnSettings  *settings;
  GParamSpec **specs;
  guint        n_specs = 0;

  if (! zn_operations_load () || ! gegl_has_operation (filter->operation))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   _ ("The GEGL operation '%s' is not installed; put Zenith's GEGL "
                      "module where GEGL finds it and start this program again"),
                   filter->operation);
      return NULL;
    }

  settings         = g_new0 (ZnSettings, 1);
  settings->filter = filter;
  specs            = gegl_operation_list_properties (filter->operation, &n_specs);

  for (guint i = 0; filter->properties[i]; i++)
    {
      ZnProperty *p = &settings->property[i];

      for (guint j = 0; j < n_specs; j++)
        if (! strcmp (specs[j]->name, filter->properties[i]))
          p->spec = specs[j];

      if (! p->spec || ! classify (p))
        {
          g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                       _ ("The GEGL operation '%s' has no usable property '%s': the "
                          "program and the GEGL module are of different versions"),
                       filter->operation, filter->properties[i]);
          zn_settings_free (settings);
          g_free (specs);
          return NULL;
        }

      g_value_init (&p->value, p->spec->value_type);
      g_param_value_set_default (p->spec, &p->value);
      settings->n++;
    }

  g_free (specs);

  return settings;
}

void
zn_settings_free (ZnSettings *settings)
{
  if (! settings)
    return;

  for (guint i = 0; i < settings->n; i++)
    g_value_unset (&settings->property[i].value);

  g_free (settings);
}

void
zn_settings_reset (ZnSettings *settings)
{
  for (guint i = 0; i < settings->n; i++)
    g_param_value_set_default (settings->property[i].spec, &settings->property[i].value);
}

void
zn_settings_copy (ZnSettings *dest, const ZnSettings *src)
{
  g_return_if_fail (dest->filter == src->filter);

  for (guint i = 0; i < src->n; i++)
    g_value_copy (&src->property[i].value, &dest->property[i].value);
}

gchar *
zn_property_allowed (const ZnProperty *p)
{
  switch (p->kind)
    {
    case ZN_KIND_ENUM:
      {
        GEnumClass *klass = G_PARAM_SPEC_ENUM (p->spec)->enum_class;
        GString    *list  = g_string_new (NULL);

        for (guint i = 0; i < klass->n_values; i++)
          g_string_append_printf (list, "%s%s", i ? ", " : "", klass->values[i].value_nick);

        return g_string_free (list, FALSE);
      }

    case ZN_KIND_BOOLEAN:
      return g_strdup ("yes, no");

    case ZN_KIND_DOUBLE:
    case ZN_KIND_INT:
      {
        gchar min[ZN_NUMBER_SIZE];
        gchar max[ZN_NUMBER_SIZE];

        return g_strdup_printf (_ ("%s to %s"), zn_number_print (min, p->min),
                                zn_number_print (max, p->max));
      }

    default:
      return NULL;
    }
}

/* Always FALSE, so that callers can return it. */
static gboolean
refuse (const ZnSettings *settings, const ZnProperty *p, const gchar *text, GError **error)
{
  gchar *allowed = zn_property_allowed (p);
  gchar *shown   = g_utf8_make_valid (text, strnlen (text, 80));

  g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("%s: '%s' cannot be '%s'; allowed: %s"),
               _ (settings->filter->title), p->spec->name, shown,
               allowed ? allowed : _ ("a shorter text in UTF-8"));
  g_free (shown);
  g_free (allowed);

  return FALSE;
}

static gboolean
no_property (const ZnSettings *settings, const gchar *name, GError **error)
{
  gchar *shown = g_utf8_make_valid (name, strnlen (name, 80));
  gchar *list  = g_strjoinv (", ", (gchar **) settings->filter->properties);

  g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("%s has no property '%s'; it has: %s"),
               _ (settings->filter->title), shown, list);
  g_free (shown);
  g_free (list);

  return FALSE;
}

gboolean
zn_settings_set_number (ZnSettings *settings, guint index, gdouble number, GError **error)
{
  ZnProperty *p = &settings->property[index];

  /* Written so that NaN is refused too. */
  if (! (number >= p->min && number <= p->max) ||
      (p->kind != ZN_KIND_DOUBLE && number != floor (number)))
    {
      gchar text[ZN_NUMBER_SIZE];

      return refuse (settings, p, zn_number_print (text, number), error);
    }

  if (p->kind == ZN_KIND_DOUBLE)
    g_value_set_double (&p->value, number);
  else if (p->kind == ZN_KIND_BOOLEAN)
    g_value_set_boolean (&p->value, number != 0.0);
  else if (G_VALUE_HOLDS_UINT (&p->value))
    g_value_set_uint (&p->value, (guint) number);
  else
    g_value_set_int (&p->value, (gint) number);

  return TRUE;
}

gboolean
zn_settings_set_named (ZnSettings *settings, const gchar *name, gdouble number, GError **error)
{
  for (guint i = 0; i < settings->n; i++)
    if (! strcmp (settings->property[i].spec->name, name))
      return zn_settings_set_number (settings, i, number, error);

  return no_property (settings, name, error);
}

static gboolean
set_enum (ZnSettings *settings, ZnProperty *p, const gchar *text, GError **error)
{
  GEnumValue *value = g_enum_get_value_by_nick (G_PARAM_SPEC_ENUM (p->spec)->enum_class, text);

  if (! value || strcmp (value->value_nick, text)) /* newer GLib ignores the case of letters */
    return refuse (settings, p, text, error);

  g_value_set_enum (&p->value, value->value);

  return TRUE;
}

static gboolean
set_boolean (ZnSettings *settings, ZnProperty *p, const gchar *text, GError **error)
{
  static const gchar *const words[][2] = { { "no", "yes" }, { "false", "true" }, { "0", "1" } };

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    for (guint on = 0; on < 2; on++)
      if (! g_ascii_strcasecmp (text, words[i][on]))
        {
          g_value_set_boolean (&p->value, on);
          return TRUE;
        }

  return refuse (settings, p, text, error);
}

gboolean
zn_settings_set_text (ZnSettings *settings, const gchar *name, const gchar *text, GError **error)
{
  for (guint i = 0; i < settings->n; i++)
    {
      ZnProperty *p = &settings->property[i];

      if (strcmp (p->spec->name, name))
        continue;

      switch (p->kind)
        {
        case ZN_KIND_ENUM:
          return set_enum (settings, p, text, error);

        case ZN_KIND_BOOLEAN:
          return set_boolean (settings, p, text, error);

        case ZN_KIND_STRING:
        case ZN_KIND_FILE:
          if (strnlen (text, TEXT_MAX) == TEXT_MAX || ! g_utf8_validate (text, -1, NULL))
            return refuse (settings, p, text, error);

          g_value_set_string (&p->value, text);
          return TRUE;

        default:
          {
            gdouble number;

            if (! zn_number_parse (&number, text, NULL))
              return refuse (settings, p, text, error);

            return zn_settings_set_number (settings, i, number, error);
          }
        }
    }

  return no_property (settings, name, error);
}

gdouble
zn_settings_get_number (const ZnSettings *settings, guint index)
{
  const GValue *value = &settings->property[index].value;

  if (G_VALUE_HOLDS_DOUBLE (value))
    return g_value_get_double (value);
  if (G_VALUE_HOLDS_UINT (value))
    return g_value_get_uint (value);
  if (G_VALUE_HOLDS_INT (value))
    return g_value_get_int (value);

  return g_value_get_boolean (value) ? 1.0 : 0.0;
}

gchar *
zn_settings_get_text (const ZnSettings *settings, guint index)
{
  const ZnProperty *p = &settings->property[index];

  switch (p->kind)
    {
    case ZN_KIND_ENUM:
      {
        GEnumValue *value = g_enum_get_value (G_PARAM_SPEC_ENUM (p->spec)->enum_class,
                                              g_value_get_enum (&p->value));

        return g_strdup (value ? value->value_nick : "");
      }

    case ZN_KIND_BOOLEAN:
      return g_strdup (g_value_get_boolean (&p->value) ? "yes" : "no");

    case ZN_KIND_STRING:
    case ZN_KIND_FILE:
      return g_strdup (g_value_get_string (&p->value) ? g_value_get_string (&p->value) : "");

    default:
      {
        gchar text[ZN_NUMBER_SIZE];

        return g_strdup (zn_number_print (text, zn_settings_get_number (settings, index)));
      }
    }
}

gdouble
zn_settings_find_number (const ZnSettings *settings, const gchar *name, gdouble missing)
{
  for (guint i = 0; i < settings->n; i++)
    if (! g_strcmp0 (settings->property[i].spec->name, name))
      return zn_settings_get_number (settings, i);

  return missing;
}

/* "Smile +50, Age -20": what the sliders say, or NULL. */
static gchar *
slider_name (const ZnSettings *settings)
{
  GString *name = g_string_new (NULL);

  for (guint i = 0; i < settings->n; i++)
    {
      const gint percent = zn_settings_is_slider (settings, i)
                               ? (gint) lrint (zn_settings_get_number (settings, i) * 100.0)
                               : 0;

      if (percent)
        g_string_append_printf (name, "%s%s %+d", name->len ? ", " : "",
                                g_param_spec_get_nick (settings->property[i].spec), percent);
    }
  if (name->len)
    return g_string_free (name, FALSE);
  g_string_free (name, TRUE);

  return NULL;
}

gchar *
zn_settings_layer_name (const ZnSettings *settings)
{
  gchar *prompt = slider_name (settings);
  gchar *name;

  if (prompt)
    return prompt;

  for (guint i = 0; i < settings->n && ! prompt; i++)
    if (! strcmp (settings->property[i].spec->name, "prompt"))
      prompt = zn_settings_get_text (settings, i);
  if (! prompt || g_utf8_strlen (prompt, -1) <= 40)
    return prompt ? prompt : g_strdup (_ (settings->filter->title));

  *g_utf8_offset_to_pointer (prompt, 40) = '\0';
  name                                   = g_strconcat (prompt, "...", NULL);
  g_free (prompt);

  return name;
}

gboolean
zn_settings_begins_with_layer (const ZnSettings *settings)
{
  return zn_settings_find_number (settings, "change", 1.0) < 1.0 ||
         zn_settings_find_number (settings, "left", 0.0) > 0.0 ||
         zn_settings_find_number (settings, "top", 0.0) > 0.0 ||
         zn_settings_find_number (settings, "right", 0.0) > 0.0 ||
         zn_settings_find_number (settings, "bottom", 0.0) > 0.0;
}

gint
zn_settings_scale (const ZnSettings *settings)
{
  return settings->filter->enlarges ? (gint) zn_settings_find_number (settings, "scale", 1.0) : 1;
}

gint
zn_settings_strip (const ZnSettings *settings)
{
  const gint strip = (gint) zn_settings_find_number (settings, ZN_STRIP, 0.0);

  return strip > 1 ? strip : 0;
}

gboolean
zn_settings_loop (const ZnSettings *settings)
{
  return zn_settings_find_number (settings, ZN_LOOP, 0.0) != 0.0;
}

gboolean
zn_settings_is_slider (const ZnSettings *settings, guint index)
{
  const ZnFilter *filter = settings->filter;

  return index >= filter->first_slider && index < filter->first_slider + filter->n_sliders;
}

gboolean
zn_settings_is_found (const ZnSettings *settings, guint index)
{
  const GParamSpec *spec = index < settings->n ? settings->property[index].spec : NULL;

  return spec && G_IS_PARAM_SPEC_DOUBLE (spec) && G_PARAM_SPEC_DOUBLE (spec)->minimum == -1.0 &&
         G_PARAM_SPEC_DOUBLE (spec)->maximum > 1.0;
}

gboolean
zn_settings_mark (const ZnSettings *settings)
{
  if (! settings->filter->mark)
    return FALSE;

  for (guint i = 0; i < settings->n; i++)
    if (zn_settings_is_slider (settings, i) && zn_settings_get_number (settings, i) != 0.0)
      return TRUE;
  if (zn_settings_find_number (settings, "amount", 1.0) == 0.0 ||
      zn_settings_find_number (settings, "position", 1.0) == 0.0 ||
      zn_settings_find_number (settings, "change", 1.0) == 0.0)
    return zn_settings_strip (settings) > 0;

  return TRUE;
}

gchar *
zn_settings_words (const ZnSettings *settings)
{
  GString *words = g_string_new (settings->filter->operation);

  for (guint i = 0; i < settings->n; i++)
    if (settings->property[i].kind != ZN_KIND_FILE)
      {
        gchar *text = zn_settings_get_text (settings, i);

        g_string_append_printf (words, " %s=%s", settings->property[i].spec->name, text);
        g_free (text);
      }

  return g_string_free (words, FALSE);
}

gchar *
zn_settings_to_lines (const ZnSettings *settings)
{
  GString *lines = g_string_new (NULL);

  for (guint i = 0; i < settings->n; i++)
    {
      gchar *text = zn_settings_get_text (settings, i);

      if (! strchr (text, '\n'))
        g_string_append_printf (lines, "%s=%s\n", settings->property[i].spec->name, text);
      g_free (text);
    }

  return g_string_free (lines, FALSE);
}

void
zn_settings_from_lines (ZnSettings *settings, const gchar *lines)
{
  gchar **line = g_strsplit (lines, "\n", -1);

  for (guint i = 0; line[i]; i++)
    {
      gchar *equals = strchr (line[i], '=');

      if (equals)
        {
          *equals = '\0';
          zn_settings_set_text (settings, line[i], equals + 1, NULL);
        }
    }

  g_strfreev (line);
}
