/* SPDX-License-Identifier: MIT
 *
 * host-gimp2.c - the plug-in's side towards GIMP 2.10.
 *
 * Procedures are made from the table of filters and from what their operations
 * say of themselves.  An operation that is not installed gets no procedure; if
 * none is, nothing is registered at all, and GIMP asks again at its next start.
 */
#include <string.h>

#include <gegl.h>
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
#include "zenith-settings.h"
#include "zenith-teach.h"

#define N_FIXED 3 /* run-mode, image, drawable */

static const GimpParamDef fixed_args[N_FIXED] = {
  { GIMP_PDB_INT32, "run-mode",
    "The run mode { RUN-INTERACTIVE (0), RUN-NONINTERACTIVE (1), RUN-WITH-LAST-VALS (2) }" },
  { GIMP_PDB_IMAGE, "image", "Input image" },
  { GIMP_PDB_DRAWABLE, "drawable", "Input drawable" },
};

/*  registration with GIMP  */

static GimpPDBArgType
argument_type (const ZnProperty *p)
{
  switch (p->kind)
    {
    case ZN_KIND_DOUBLE:
      return GIMP_PDB_FLOAT;

    case ZN_KIND_INT:
    case ZN_KIND_BOOLEAN:
      return GIMP_PDB_INT32;

    default:
      return GIMP_PDB_STRING;
    }
}

static void
install (const gchar        *procedure,
         const gchar        *blurb,
         const gchar        *help,
         const gchar        *label,
         const gchar        *menu,
         const GimpParamDef *args,
         gint                n_args)
{
  gimp_install_procedure (procedure, blurb, help, ZN_AUTHOR, ZN_AUTHOR, ZN_YEAR, label,
                          "RGB*, GRAY*, INDEXED*", GIMP_PLUGIN, n_args, 0, args, NULL);
  if (label)
    gimp_plugin_menu_register (procedure, menu);
}

#ifdef HAVE_PICTURES
static const GimpParamDef check_arg = { GIMP_PDB_STRING, (gchar *) "filename",
                                        (gchar *) "The file" };
#endif

/* How many properties are arguments of this procedure. */
static guint
n_arguments (const gchar *procedure, const ZnSettings *settings)
{
  const ZnFilter *filter = settings->filter;

  return filter->n_arguments && ! strcmp (procedure, filter->procedure) ? filter->n_arguments
                                                                        : settings->n;
}

static void
install_filter (const ZnSettings *settings)
{
  const ZnFilter *filter = settings->filter;
  GimpParamDef    args[N_FIXED + ZN_PROPERTIES_MAX];
  gchar          *texts[ZN_PROPERTIES_MAX];

  memcpy (args, fixed_args, sizeof fixed_args);

  for (guint i = 0; i < settings->n; i++)
    {
      const ZnProperty *p       = &settings->property[i];
      gchar            *allowed = zn_property_allowed (p);

      texts[i] = g_strdup_printf (
          allowed ? "%s { %s }" : "%s",
          g_param_spec_get_blurb (p->spec) ? g_param_spec_get_blurb (p->spec) : "", allowed);
      g_free (allowed);

      args[N_FIXED + i].type        = argument_type (p);
      args[N_FIXED + i].name        = (gchar *) p->spec->name;
      args[N_FIXED + i].description = texts[i];
    }

  install (filter->procedure, filter->blurb, filter->help, filter->label, zn_filter_menu (filter),
           args, N_FIXED + n_arguments (filter->procedure, settings));
  if (filter->n_arguments)
    {
      gchar *more = g_strconcat (filter->procedure, ZN_MORE, NULL);

      install (more, filter->blurb, filter->help, NULL, NULL, args, N_FIXED + settings->n);
      g_free (more);
    }

  for (guint i = 0; i < settings->n; i++)
    g_free (texts[i]);
}

static void
install_teach (void)
{
  static const GimpParamDef result = { GIMP_PDB_STRING, (gchar *) "report",
                                       (gchar *) ZN_TEACH_REPORT_HELP };
  GimpParamDef              args[N_FIXED + ZN_TEACH_TEXTS];

  memcpy (args, fixed_args, sizeof fixed_args);
  args[N_FIXED + ZN_TEACH_NAME]    = (GimpParamDef){ GIMP_PDB_STRING, "name", ZN_TEACH_NAME_HELP };
  args[N_FIXED + ZN_TEACH_WITH]    = (GimpParamDef){ GIMP_PDB_STRING, "with", ZN_TEACH_WITH_HELP };
  args[N_FIXED + ZN_TEACH_WITHOUT] = (GimpParamDef){ GIMP_PDB_STRING, "without",
                                                     ZN_TEACH_WITHOUT_HELP };
  gimp_install_procedure (ZN_TEACH_PROCEDURE, ZN_TEACH_BLURB, ZN_TEACH_HELP, ZN_AUTHOR, ZN_AUTHOR,
                          ZN_YEAR, ZN_TEACH_LABEL, "*", GIMP_PLUGIN, G_N_ELEMENTS (args), 1, args,
                          &result);
  gimp_plugin_menu_register (ZN_TEACH_PROCEDURE, ZN_EXPERT_PATH);
}

static void
install_help (void)
{
  gimp_install_procedure (ZN_HELP_PROCEDURE, ZN_HELP_BLURB, ZN_HELP_BLURB, ZN_AUTHOR, ZN_AUTHOR,
                          ZN_YEAR, ZN_HELP_LABEL, NULL, GIMP_PLUGIN, 1, 0, fixed_args, NULL);
  gimp_plugin_menu_register (ZN_HELP_PROCEDURE, ZN_HELP_PATH);
}

static void
query (void)
{
  gboolean any = FALSE;

  /* GIMP translates labels and blurbs when it shows them. */
  gimp_plugin_domain_register (GETTEXT_PACKAGE, zn_locale_folder ());
  gegl_init (NULL, NULL);

  for (guint i = 0; i < zn_n_filters; i++)
    {
      ZnSettings *settings = zn_settings_new (&zn_filters[i], NULL);

      if (settings)
        {
          install_filter (settings);
          zn_settings_free (settings);
          any = TRUE;
        }
    }

  if (any)
    {
      GimpParamDef args[N_FIXED + 1];

      memcpy (args, fixed_args, sizeof fixed_args);
      args[N_FIXED].type        = GIMP_PDB_STRING;
      args[N_FIXED].name        = "preset";
      args[N_FIXED].description = "The preset's name";

      install_teach ();
      install_help ();
      install (ZN_PRESET_PROCEDURE, ZN_PRESET_BLURB, ZN_PRESET_HELP, ZN_PRESET_LABEL, ZN_MENU_PATH,
               args, N_FIXED + 1);
#ifdef HAVE_PICTURES
      gimp_install_procedure (ZN_CHECK_PROCEDURE, "Fail if a picture file is cut or damaged",
                              ZN_CHECK_HELP, ZN_AUTHOR, ZN_AUTHOR, ZN_YEAR, NULL, NULL, GIMP_PLUGIN,
                              1, 0, &check_arg, NULL);
#endif
      zn_presets_offer (gimp_directory ());
    }

  gegl_exit ();
}

/*  running  */

/* The values used last, if there are any. */
static void
recall (ZnSettings *settings)
{
  const gchar *key  = settings->filter->procedure;
  gint         size = gimp_get_data_size (key);

  if (size > 0)
    {
      gchar *lines = g_malloc0 (size + 1);

      gimp_get_data (key, lines);
      zn_settings_from_lines (settings, lines);
      g_free (lines);
    }
}

static void
remember (const ZnSettings *settings)
{
  gchar *lines = zn_settings_to_lines (settings);

  gimp_set_data (settings->filter->procedure, lines, strlen (lines));
  g_free (lines);
}

/* The arguments after the drawable into settings. */
static gboolean
read_arguments (ZnSettings      *settings,
                const gchar     *procedure,
                const GimpParam *param,
                gint             n_params,
                GError         **error)
{
  const guint n = n_arguments (procedure, settings);

  if (n_params != N_FIXED + (gint) n)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("%s takes %u arguments, not %d"), procedure,
                   N_FIXED + n, n_params);
      return FALSE;
    }

  for (guint i = 0; i < n; i++)
    {
      const ZnProperty *p   = &settings->property[i];
      const GimpParam  *arg = &param[N_FIXED + i];
      gboolean          ok;

      switch (argument_type (p))
        {
        case GIMP_PDB_FLOAT:
          ok = zn_settings_set_number (settings, i, arg->data.d_float, error);
          break;

        case GIMP_PDB_INT32:
          ok = zn_settings_set_number (settings, i, arg->data.d_int32, error);
          break;

        default:
          ok = zn_settings_set_text (settings, p->spec->name,
                                     arg->data.d_string ? arg->data.d_string : "", error);
        }

      if (! ok)
        return FALSE;
    }

  return TRUE;
}

static gboolean
run_filter (const ZnFilter  *filter,
            const gchar     *procedure,
            ZnLayers        *layers,
            const GimpParam *param,
            gint             n_params,
            GError         **error)
{
  GimpRunMode mode     = param[0].data.d_int32;
  ZnSettings *settings = zn_settings_new (filter, error);
  gboolean    done;

  if (! settings)
    return FALSE;

  switch (mode)
    {
    case GIMP_RUN_INTERACTIVE:
      recall (settings);
      gimp_ui_init ("zenith", FALSE);
      done = zn_layers_dialog (&settings, NULL, filter->procedure, _ (filter->title), layers,
                               error);
      break;

    case GIMP_RUN_WITH_LAST_VALS:
      recall (settings);
      zn_layers_recall (layers, filter->procedure);
      done = zn_layers_apply (settings, NULL, NULL, layers, error);
      break;

    default:
      done = read_arguments (settings, procedure, param, n_params, error) &&
             zn_layers_apply (settings, NULL, NULL, layers, error);
    }

  if (done && mode == GIMP_RUN_INTERACTIVE)
    remember (settings);

  zn_settings_free (settings);

  return done;
}

static gboolean
run_preset (ZnLayers *layers, const GimpParam *param, gint n_params, GError **error)
{
  GimpRunMode mode     = param[0].data.d_int32;
  ZnSettings *settings = NULL;
  gchar      *name     = NULL;
  gboolean    done     = FALSE;

  if (mode == GIMP_RUN_INTERACTIVE)
    {
      gimp_ui_init ("zenith", FALSE);
      done = zn_layers_dialog (&settings, &name, ZN_PRESET_PROCEDURE, _ ("Apply Preset"), layers,
                               error);
      if (done && name)
        gimp_set_data (ZN_PRESET_PROCEDURE, name, strlen (name));
    }
  else if (mode == GIMP_RUN_NONINTERACTIVE && n_params != N_FIXED + 1)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("%s takes %u arguments, not %d"),
                   ZN_PRESET_PROCEDURE, N_FIXED + 1, n_params);
    }
  else
    {
      GPtrArray      *presets = zn_presets_load ();
      const ZnPreset *preset;

      /* Repeat passes no name: the last one of the dialog is used. */
      if (mode == GIMP_RUN_WITH_LAST_VALS)
        {
          name = g_malloc0 (gimp_get_data_size (ZN_PRESET_PROCEDURE) + 1);
          gimp_get_data (ZN_PRESET_PROCEDURE, name);
          zn_layers_recall (layers, ZN_PRESET_PROCEDURE);
        }
      else
        {
          name = g_strdup (param[N_FIXED].data.d_string ? param[N_FIXED].data.d_string : "");
        }
      if (! *name && mode == GIMP_RUN_WITH_LAST_VALS)
        preset = zn_presets_none (error);
      else
        preset = zn_presets_find (presets, name, error);

      if (preset)
        settings = zn_preset_settings (preset, error);
      if (settings)
        done = zn_layers_apply (settings, NULL, NULL, layers, error);

      g_ptr_array_unref (presets);
    }

  zn_settings_free (settings);
  g_free (name);

  return done;
}

/* The groups of the image, wherever they are. */
static GList *
group_names (GList *names, const gint *item, gint n)
{
  for (gint i = 0; i < n; i++)
    if (gimp_item_is_group (item[i]))
      {
        gint  n_children;
        gint *children = gimp_item_get_children (item[i], &n_children);

        names = group_names (g_list_append (names, gimp_item_get_name (item[i])), children,
                             n_children);
        g_free (children);
      }

  return names;
}

static GeglBuffer *
group_layer (gpointer data, const gchar *group, guint index)
{
  const gint32 item   = gimp_image_get_layer_by_name (GPOINTER_TO_INT (data), group);
  GeglBuffer  *buffer = NULL;

  if (item >= 0 && gimp_item_is_group (item))
    {
      gint  n;
      gint *children = gimp_item_get_children (item, &n);

      if (index < (guint) n)
        buffer = gimp_drawable_get_buffer (children[index]);
      g_free (children);
    }

  return buffer;
}

static gboolean
run_teach (const GimpParam *param, gint n_params, gchar **report, GError **error)
{
  const gint32 image = param[1].data.d_image;
  ZnTeachHost  host  = { group_layer, GINT_TO_POINTER (image), NULL };
  gboolean     done  = FALSE;

  *report = NULL;
  gimp_progress_init (_ ("Teach an Attribute"));
  if (param[0].data.d_int32 != GIMP_RUN_NONINTERACTIVE)
    {
      gint  n;
      gint *layers = gimp_image_get_layers (image, &n);

      gimp_ui_init ("zenith", FALSE);
      host.groups = group_names (NULL, layers, n);
      done        = zn_teach_dialog (&host, report, error);
      if (done)
        g_message ("%s", *report);
      else if (! *error)
        g_set_error (error, ZN_ERROR, ZN_ERROR_CANCELLED, _ ("%s was cancelled"),
                     _ ("Teach an Attribute"));
      g_list_free_full (host.groups, g_free);
      g_free (layers);
    }
  else if (n_params != N_FIXED + ZN_TEACH_TEXTS)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("%s takes %u arguments, not %d"),
                   ZN_TEACH_PROCEDURE, N_FIXED + ZN_TEACH_TEXTS, n_params);
    }
  else
    {
      const gchar *text[ZN_TEACH_TEXTS];

      for (gint i = 0; i < ZN_TEACH_TEXTS; i++)
        text[i] = param[N_FIXED + i].data.d_string ? param[N_FIXED + i].data.d_string : "";
      done = zn_teach (text, &host, report, error);
    }
  gimp_progress_end ();

  return done;
}

static GimpPDBStatusType
error_status (const GError *error)
{
  if (g_error_matches (error, ZN_ERROR, ZN_ERROR_CANCELLED))
    return GIMP_PDB_CANCEL;
  if (g_error_matches (error, ZN_ERROR, ZN_ERROR_USAGE))
    return GIMP_PDB_CALLING_ERROR;

  return GIMP_PDB_EXECUTION_ERROR;
}

static void
run (const gchar     *name,
     gint             n_params,
     const GimpParam *param,
     gint            *n_return,
     GimpParam      **return_vals)
{
  static GimpParam values[2];
  const ZnFilter  *filter = zn_filter_by_procedure (name);
  GError          *error  = NULL;
  gchar           *report = NULL;
  gboolean         done   = FALSE;

  *n_return    = 1;
  *return_vals = values;

  /* Buffers in the image's own precision, not 8 bits. */
  gimp_plugin_enable_precision ();
  zn_translate ();
  gegl_init (NULL, NULL);

#ifdef HAVE_PICTURES
  if (! strcmp (name, ZN_CHECK_PROCEDURE))
    done = zn_picture_check (n_params == 1 && param[0].data.d_string ? param[0].data.d_string : "",
                             &error);
  else
#endif
      if (! strcmp (name, ZN_HELP_PROCEDURE))
    done = zn_help (ZN_HELP_PAGE, &error);
  else if (n_params < N_FIXED)
    g_set_error (&error, ZN_ERROR, ZN_ERROR_USAGE, _ ("%s needs an image and a drawable"), name);
  else if (! strcmp (name, ZN_TEACH_PROCEDURE))
    done = run_teach (param, n_params, &report, &error);
  else
    {
      const ZnItem drawable = param[2].data.d_drawable;
      ZnLayers     layers   = { .item = &drawable, .n = 1 };

      if (zn_layers_usable (&layers, filter, param[0].data.d_int32, &error))
        done = filter ? run_filter (filter, name, &layers, param, n_params, &error)
                      : run_preset (&layers, param, n_params, &error);
      if (done)
        zn_layers_note_palette (&layers);
    }

  values[0].type          = GIMP_PDB_STATUS;
  values[0].data.d_status = done ? GIMP_PDB_SUCCESS : error_status (error);

  /* The text must outlive this call; the process ends soon after it. */
  if (! done && values[0].data.d_status != GIMP_PDB_CANCEL)
    {
      *n_return               = 2;
      values[1].type          = GIMP_PDB_STRING;
      values[1].data.d_string = g_strdup (error->message);
    }
  else if (report)
    {
      *n_return               = 2;
      values[1].type          = GIMP_PDB_STRING;
      values[1].data.d_string = report;
    }

  if (n_params >= N_FIXED && param[0].data.d_int32 != GIMP_RUN_NONINTERACTIVE)
    gimp_displays_flush ();

  g_clear_error (&error);
  gegl_exit ();
}

const GimpPlugInInfo PLUG_IN_INFO = {
  NULL,  /* init_proc  */
  NULL,  /* quit_proc  */
  query, /* query_proc */
  run,   /* run_proc   */
};

MAIN ()
