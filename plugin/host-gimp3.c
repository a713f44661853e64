/* SPDX-License-Identifier: MIT
 *
 * host-gimp3.c - the plug-in's side towards GIMP 3.
 *
 * GIMP 3 also shows the operations themselves in Filters > Zenith, as filters
 * that stay editable on the layer.  The plug-in does not add such filters
 * (gimp_drawable_append_new_filter) but works on buffers, for two reasons:
 *   1. with a selection GIMP hands a filter the selection's box only, cut out
 *      and moved to the origin; a network then lacks the surroundings;
 *   2. a filter runs inside GIMP and blocks it until done; a plug-in is a
 *      process of its own, has a progress bar and can be cancelled.
 * There is one menu entry for each filter.  Where the operation has its own (key
 * gimp:menu-path), that is the one; the procedure is then for scripts.
 */
#include <glib/gi18n-lib.h>
#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "layers.h"
#include "zenith-dialog.h"
#include "zenith-filters.h"
#include "zenith-preset-gimp.h"
#include "zenith-preset.h"
#ifdef HAVE_PICTURES
#include "picture.h"
#endif
#include "zenith-operations.h"
#include "zenith-settings.h"
#include "zenith-setup.h"
#include "zenith-teach.h"

#define ZENITH_TYPE_PLUG_IN (zenith_plug_in_get_type ())
G_DECLARE_FINAL_TYPE (ZenithPlugIn, zenith_plug_in, ZENITH, PLUG_IN, GimpPlugIn)

struct _ZenithPlugIn
{
  GimpPlugIn parent_instance;
};

G_DEFINE_TYPE (ZenithPlugIn, zenith_plug_in, GIMP_TYPE_PLUG_IN)
GIMP_MAIN (ZENITH_TYPE_PLUG_IN)

/*  running  */

/* The drawables of a procedure; free with g_free. */
static ZnItem *
items_of (GimpDrawable **drawables, ZnLayers *layers)
{
  ZnItem *item;
  guint   n = 0;

  while (drawables && drawables[n])
    n++;
  item = g_new (ZnItem, n + 1);
  for (guint i = 0; i < n; i++)
    item[i] = GIMP_ITEM (drawables[i]);
  *layers = (ZnLayers){ .item = item, .n = n };

  return item;
}

/*  settings and GIMP's own record of them, which it remembers  */

static gboolean
settings_from_config (ZnSettings *settings, GimpProcedureConfig *config, GError **error)
{
  for (guint i = 0; i < settings->n; i++)
    {
      const ZnProperty *p      = &settings->property[i];
      const gchar      *name   = p->spec->name;
      gchar            *text   = NULL;
      gdouble           number = 0.0;
      gint              whole  = 0;
      gboolean          ok;

      switch (p->kind)
        {
        case ZN_KIND_DOUBLE:
          g_object_get (config, name, &number, NULL);
          ok = zn_settings_set_number (settings, i, number, error);
          break;

        case ZN_KIND_INT:
        case ZN_KIND_BOOLEAN:
          g_object_get (config, name, &whole, NULL);
          ok = zn_settings_set_number (settings, i, whole, error);
          break;

        default:
          g_object_get (config, name, &text, NULL);
          ok = zn_settings_set_text (settings, name, text ? text : "", error);
          g_free (text);
        }

      if (! ok)
        return FALSE;
    }

  return TRUE;
}

static void
settings_to_config (const ZnSettings *settings, GimpProcedureConfig *config)
{
  for (guint i = 0; i < settings->n; i++)
    {
      const ZnProperty *p    = &settings->property[i];
      const gchar      *name = p->spec->name;
      gchar            *text;

      switch (p->kind)
        {
        case ZN_KIND_DOUBLE:
          g_object_set (config, name, zn_settings_get_number (settings, i), NULL);
          break;

        case ZN_KIND_INT:
        case ZN_KIND_BOOLEAN:
          g_object_set (config, name, (gint) zn_settings_get_number (settings, i), NULL);
          break;

        default:
          text = zn_settings_get_text (settings, i);
          g_object_set (config, name, text, NULL);
          g_free (text);
        }
    }
}

/*  running  */

static GimpValueArray *
finish (GimpProcedure *procedure, GimpRunMode mode, gboolean done, GError *error)
{
  GimpPDBStatusType status = GIMP_PDB_SUCCESS;

  if (! done)
    status = g_error_matches (error, ZN_ERROR, ZN_ERROR_CANCELLED) ? GIMP_PDB_CANCEL
             : g_error_matches (error, ZN_ERROR, ZN_ERROR_USAGE)   ? GIMP_PDB_CALLING_ERROR
                                                                   : GIMP_PDB_EXECUTION_ERROR;
  if (status == GIMP_PDB_CANCEL)
    g_clear_error (&error);

  if (mode != GIMP_RUN_NONINTERACTIVE)
    gimp_displays_flush ();

  return gimp_procedure_new_return_values (procedure, status, error);
}

static GimpValueArray *
run_filter (GimpProcedure       *procedure,
            GimpRunMode          mode,
            GimpImage           *image,
            GimpDrawable       **drawables,
            GimpProcedureConfig *config,
            gpointer             data)
{
  const ZnFilter *filter = data;
  ZnLayers        layers;
  ZnItem         *items    = items_of (drawables, &layers);
  ZnSettings     *settings = NULL;
  GError         *error    = NULL;
  gboolean        done     = FALSE;

  gegl_init (NULL, NULL);

  if (zn_layers_usable (&layers, filter, mode, &error))
    settings = zn_settings_new (filter, &error);

  if (settings && settings_from_config (settings, config, &error))
    {
      if (mode == GIMP_RUN_INTERACTIVE)
        {
          gimp_ui_init ("zenith");
          zn_setup_ask ();
          done = zn_layers_dialog (&settings, NULL, filter->procedure, _ (filter->title), &layers,
                                   &error);
        }
      else
        {
          if (mode == GIMP_RUN_WITH_LAST_VALS)
            zn_layers_recall (&layers, filter->procedure);
          done = zn_layers_apply (settings, NULL, NULL, &layers, &error);
        }
    }

  if (done)
    {
      settings_to_config (settings, config);
      zn_layers_note_palette (&layers);
    }

  zn_settings_free (settings);
  g_free (items);

  return finish (procedure, mode, done, error);
}

static GimpValueArray *
run_preset (GimpProcedure       *procedure,
            GimpRunMode          mode,
            GimpImage           *image,
            GimpDrawable       **drawables,
            GimpProcedureConfig *config,
            gpointer             data)
{
  ZnLayers    layers;
  ZnItem     *items    = items_of (drawables, &layers);
  ZnSettings *settings = NULL;
  GError     *error    = NULL;
  gboolean    done     = FALSE;

  gegl_init (NULL, NULL);

  if (! zn_layers_usable (&layers, NULL, mode, &error))
    {
      /* the message is set */
    }
  else if (mode == GIMP_RUN_INTERACTIVE)
    {
      gchar *name = NULL;

      gimp_ui_init ("zenith");
      zn_setup_ask ();
      done = zn_layers_dialog (&settings, &name, ZN_PRESET_PROCEDURE, _ ("Apply Preset"), &layers,
                               &error);
      if (done && name) /* GIMP remembers it for Repeat */
        g_object_set (config, "preset", name, NULL);
      g_free (name);
    }
  else
    {
      gchar          *name    = NULL;
      GPtrArray      *presets = zn_presets_load ();
      const ZnPreset *preset;

      g_object_get (config, "preset", &name, NULL);
      if (mode == GIMP_RUN_WITH_LAST_VALS)
        zn_layers_recall (&layers, ZN_PRESET_PROCEDURE);
      if (mode == GIMP_RUN_WITH_LAST_VALS && ! (name && *name))
        preset = zn_presets_none (&error);
      else
        preset = zn_presets_find (presets, name ? name : "", &error);

      if (preset)
        settings = zn_preset_settings (preset, &error);
      if (settings)
        done = zn_layers_apply (settings, NULL, NULL, &layers, &error);

      g_ptr_array_unref (presets);
      g_free (name);
    }

  if (done)
    zn_layers_note_palette (&layers);
  zn_settings_free (settings);
  g_free (items);

  return finish (procedure, mode, done, error);
}

/* The groups of the image, wherever they are. */
static GList *
group_names (GList *names, GimpItem **item)
{
  for (guint i = 0; item && item[i]; i++)
    if (gimp_item_is_group (item[i]))
      {
        GimpItem **children = gimp_item_get_children (item[i]);

        names = group_names (g_list_append (names, gimp_item_get_name (item[i])), children);
        g_free (children);
      }

  return names;
}

static GeglBuffer *
group_layer (gpointer data, const gchar *group, guint index)
{
  GimpLayer  *layer  = gimp_image_get_layer_by_name (data, group);
  GeglBuffer *buffer = NULL;

  if (layer && gimp_item_is_group (GIMP_ITEM (layer)))
    {
      GimpItem **children = gimp_item_get_children (GIMP_ITEM (layer));
      guint      n        = 0;

      while (children && children[n])
        n++;
      if (index < n)
        buffer = gimp_drawable_get_buffer (GIMP_DRAWABLE (children[index]));
      g_free (children);
    }

  return buffer;
}

static GimpValueArray *
run_teach (GimpProcedure       *procedure,
           GimpRunMode          mode,
           GimpImage           *image,
           GimpDrawable       **drawables,
           GimpProcedureConfig *config,
           gpointer             data)
{
  ZnTeachHost     host   = { group_layer, image, NULL };
  GError         *error  = NULL;
  gchar          *report = NULL;
  gboolean        done   = FALSE;
  GimpValueArray *values;

  gegl_init (NULL, NULL);
  gimp_progress_init (_ ("Teach an Attribute"));
  if (mode != GIMP_RUN_NONINTERACTIVE)
    {
      GimpLayer **layers = gimp_image_get_layers (image);

      gimp_ui_init ("zenith");
      host.groups = group_names (NULL, (GimpItem **) layers);
      done        = zn_teach_dialog (&host, &report, &error);
      if (done)
        g_message ("%s", report);
      else if (! error)
        g_set_error (&error, ZN_ERROR, ZN_ERROR_CANCELLED, _ ("%s was cancelled"),
                     _ ("Teach an Attribute"));
      g_list_free_full (host.groups, g_free);
      g_free (layers);
    }
  else
    {
      gchar *text[ZN_TEACH_TEXTS] = { NULL };

      g_object_get (config, "name", &text[ZN_TEACH_NAME], "with", &text[ZN_TEACH_WITH], "without",
                    &text[ZN_TEACH_WITHOUT], NULL);
      for (gint i = 0; i < ZN_TEACH_TEXTS; i++)
        if (! text[i])
          text[i] = g_strdup ("");
      done = zn_teach ((const gchar *const *) text, &host, &report, &error);
      for (gint i = 0; i < ZN_TEACH_TEXTS; i++)
        g_free (text[i]);
    }
  gimp_progress_end ();

  values = finish (procedure, mode, done, error);
  if (done)
    GIMP_VALUES_SET_STRING (values, 1, report);
  g_free (report);

  return values;
}

static GimpValueArray *
run_help (GimpProcedure       *procedure,
          GimpRunMode          mode,
          GimpImage           *image,
          GimpDrawable       **drawables,
          GimpProcedureConfig *config,
          gpointer             data)
{
  GError  *error = NULL;
  gboolean done  = zn_help (ZN_HELP_PAGE, &error);

  return finish (procedure, mode, done, error);
}

#ifdef HAVE_PICTURES
static GimpValueArray *
run_check (GimpProcedure *procedure, GimpProcedureConfig *config, gpointer data)
{
  GError  *error = NULL;
  gchar   *name  = NULL;
  gboolean done;

  gegl_init (NULL, NULL);
  g_object_get (config, "filename", &name, NULL);
  done = zn_picture_check (name ? name : "", &error);
  g_free (name);

  return finish (procedure, GIMP_RUN_NONINTERACTIVE, done, error);
}
#endif

/*  registration with GIMP  */

/* Enumerations are strings, not GIMP's choice arguments: given a choice that
 * does not exist, Script-Fu of GIMP 3.0 prints a warning and goes on with the
 * default.  Ours refuse, and list the valid names.
 */
static void
add_argument (GimpProcedure *procedure, const ZnSettings *settings, guint index)
{
  const ZnProperty *p       = &settings->property[index];
  const gchar      *name    = p->spec->name;
  const gchar      *nick    = g_param_spec_get_nick (p->spec);
  const gchar      *blurb   = g_param_spec_get_blurb (p->spec);
  gchar            *allowed = zn_property_allowed (p);
  gchar *help = g_strdup_printf (allowed ? "%s { %s }" : "%s", blurb ? blurb : nick, allowed);
  gchar *text = zn_settings_get_text (settings, index);

  switch (p->kind)
    {
    case ZN_KIND_DOUBLE:
      gimp_procedure_add_double_argument (procedure, name, nick, help, p->min, p->max,
                                          zn_settings_get_number (settings, index),
                                          G_PARAM_READWRITE);
      break;

    case ZN_KIND_INT:
      gimp_procedure_add_int_argument (procedure, name, nick, help, (gint) p->min, (gint) p->max,
                                       (gint) zn_settings_get_number (settings, index),
                                       G_PARAM_READWRITE);
      break;

    case ZN_KIND_BOOLEAN:
      gimp_procedure_add_boolean_argument (procedure, name, nick, help,
                                           g_value_get_boolean (&p->value), G_PARAM_READWRITE);
      break;

    default:
      gimp_procedure_add_string_argument (procedure, name, nick, help, text, G_PARAM_READWRITE);
    }

  g_free (text);
  g_free (help);
  g_free (allowed);
}

static GimpProcedure *
procedure_new (GimpPlugIn      *plug_in,
               const gchar     *name,
               GimpRunImageFunc run,
               gconstpointer    data,
               const gchar     *label,
               const gchar     *menu,
               const gchar     *blurb,
               const gchar     *help)
{
  GimpProcedure *procedure;

  procedure = gimp_image_procedure_new (plug_in, name, GIMP_PDB_PROC_TYPE_PLUGIN, run,
                                        (gpointer) data, NULL);
  gimp_procedure_set_image_types (procedure, "*");
  gimp_procedure_set_sensitivity_mask (procedure, GIMP_PROCEDURE_SENSITIVE_DRAWABLE |
                                                      GIMP_PROCEDURE_SENSITIVE_DRAWABLES);
  if (label)
    {
      gimp_procedure_set_menu_label (procedure, label);
      gimp_procedure_add_menu_path (procedure, menu);
    }
  gimp_procedure_set_documentation (procedure, blurb, help, name);
  gimp_procedure_set_attribution (procedure, ZN_AUTHOR, ZN_AUTHOR, ZN_YEAR);

  return procedure;
}

static GimpProcedure *
zenith_plug_in_create_procedure (GimpPlugIn *plug_in, const gchar *name)
{
  const ZnFilter *filter = zn_filter_by_procedure (name);
  ZnSettings     *settings;
  gboolean        in_menu;
  GimpProcedure  *procedure;

  gegl_init (NULL, NULL);

#ifdef HAVE_PICTURES
  if (! strcmp (name, ZN_CHECK_PROCEDURE))
    {
      procedure = gimp_procedure_new (plug_in, name, GIMP_PDB_PROC_TYPE_PLUGIN, run_check, NULL,
                                      NULL);
      gimp_procedure_set_documentation (procedure, "Fail if a picture file is cut or damaged",
                                        ZN_CHECK_HELP, name);
      gimp_procedure_set_attribution (procedure, ZN_AUTHOR, ZN_AUTHOR, ZN_YEAR);
      gimp_procedure_add_string_argument (procedure, "filename", "_File", "The file", "",
                                          G_PARAM_READWRITE);
      return procedure;
    }
#endif

  if (! strcmp (name, ZN_TEACH_PROCEDURE))
    {
      procedure = procedure_new (plug_in, name, run_teach, NULL, _ (ZN_TEACH_LABEL), ZN_EXPERT_PATH,
                                 _ (ZN_TEACH_BLURB), ZN_TEACH_HELP);
      gimp_procedure_set_sensitivity_mask (procedure, GIMP_PROCEDURE_SENSITIVE_DRAWABLE |
                                                          GIMP_PROCEDURE_SENSITIVE_DRAWABLES |
                                                          GIMP_PROCEDURE_SENSITIVE_NO_DRAWABLES);
      gimp_procedure_add_string_argument (procedure, "name", "_Name", ZN_TEACH_NAME_HELP, "",
                                          G_PARAM_READWRITE);
      gimp_procedure_add_string_argument (procedure, "with", "_With", ZN_TEACH_WITH_HELP, "",
                                          G_PARAM_READWRITE);
      gimp_procedure_add_string_argument (procedure, "without", "With_out", ZN_TEACH_WITHOUT_HELP,
                                          "", G_PARAM_READWRITE);
      gimp_procedure_add_string_return_value (procedure, "report", "Report", ZN_TEACH_REPORT_HELP,
                                              "", G_PARAM_READWRITE);
      return procedure;
    }

  if (! strcmp (name, ZN_HELP_PROCEDURE))
    {
      procedure = procedure_new (plug_in, name, run_help, NULL, _ (ZN_HELP_LABEL), ZN_HELP_PATH,
                                 _ (ZN_HELP_BLURB), ZN_HELP_BLURB);
      gimp_procedure_set_sensitivity_mask (procedure, GIMP_PROCEDURE_SENSITIVE_ALWAYS);
      return procedure;
    }

  if (! filter)
    {
      procedure = procedure_new (plug_in, name, run_preset, NULL, _ (ZN_PRESET_LABEL), ZN_MENU_PATH,
                                 _ (ZN_PRESET_BLURB), ZN_PRESET_HELP);
      gimp_procedure_add_string_argument (procedure, "preset", "_Preset", "The preset's name", "",
                                          G_PARAM_READWRITE);
      return procedure;
    }

  settings = zn_settings_new (filter, NULL);
  if (! settings)
    return NULL;

  in_menu = gegl_operation_get_key (filter->operation, "gimp:menu-path") &&
            ! zn_operations_are_apart (); /* the operation itself */
  procedure = procedure_new (plug_in, name, run_filter, filter, in_menu ? NULL : _ (filter->label),
                             zn_filter_menu (filter), _ (filter->blurb), filter->help);

  for (guint i = 0; i < settings->n; i++)
    add_argument (procedure, settings, i);

  zn_settings_free (settings);

  return procedure;
}

/* As in 2.10: nothing installed, nothing registered, and GIMP asks again. */
static GList *
zenith_plug_in_query_procedures (GimpPlugIn *plug_in)
{
  GList *names = NULL;

  gegl_init (NULL, NULL);

  for (guint i = 0; i < zn_n_filters; i++)
    if (zn_filter_is_installed (&zn_filters[i]))
      names = g_list_append (names, g_strdup (zn_filters[i].procedure));

  if (names)
    names = g_list_append (names, g_strdup (ZN_PRESET_PROCEDURE));
  if (names)
    names = g_list_append (names, g_strdup (ZN_TEACH_PROCEDURE));
  if (names)
    names = g_list_append (names, g_strdup (ZN_HELP_PROCEDURE));
#ifdef HAVE_PICTURES
  if (names)
    names = g_list_append (names, g_strdup (ZN_CHECK_PROCEDURE));
#endif
  if (names)
    zn_presets_offer (gimp_directory ());

  return names;
}

/* GIMP 3 looks for translations in the plug-in's own folder; ours are where all are. */
static gboolean
zenith_plug_in_set_i18n (GimpPlugIn  *plug_in,
                         const gchar *procedure,
                         gchar      **domain,
                         gchar      **folder)
{
  return FALSE;
}

static void
zenith_plug_in_class_init (ZenithPlugInClass *klass)
{
  GimpPlugInClass *plug_in_class = GIMP_PLUG_IN_CLASS (klass);

  plug_in_class->query_procedures = zenith_plug_in_query_procedures;
  plug_in_class->create_procedure = zenith_plug_in_create_procedure;
  plug_in_class->set_i18n         = zenith_plug_in_set_i18n;
}

static void
zenith_plug_in_init (ZenithPlugIn *plug_in)
{
  zn_translate ();
}
