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

#ifdef HAVE_HISTORY
#include "history.h"
#endif
#include "zenith-apply.h"
#include "zenith-dialog.h"
#include "zenith-filters.h"
#include "zenith-preset.h"
#ifdef HAVE_PICTURES
#include "picture.h"
#endif
#include "zenith-settings.h"
#include "zenith-teach.h"

#define ZENITH_TYPE_PLUG_IN (zenith_plug_in_get_type ())
G_DECLARE_FINAL_TYPE (ZenithPlugIn, zenith_plug_in, ZENITH, PLUG_IN, GimpPlugIn)

struct _ZenithPlugIn
{
  GimpPlugIn parent_instance;
};

G_DEFINE_TYPE (ZenithPlugIn, zenith_plug_in, GIMP_TYPE_PLUG_IN)
GIMP_MAIN (ZENITH_TYPE_PLUG_IN)

/*  the drawables  */

static gboolean
usable (GimpDrawable **drawables, GimpRunMode mode, GError **error)
{
  gboolean selected = mode == GIMP_RUN_NONINTERACTIVE; /* a script then has nothing to do */
  gint     x, y, w, h;

  if (! drawables || ! drawables[0])
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("No layer is chosen"));
      return FALSE;
    }

  for (guint i = 0; drawables[i]; i++)
    if (gimp_item_is_group (GIMP_ITEM (drawables[i])))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                     _ ("A layer group has no pixels of its own; choose one of its "
                        "layers, or add the filter itself from Filters > Zenith"));
        return FALSE;
      }

  for (guint i = 0; ! selected && drawables[i]; i++)
    selected = gimp_drawable_mask_intersect (drawables[i], &x, &y, &w, &h);
  if (! selected)
    g_set_error (
        error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
        _ ("Nothing of this layer is selected; change the selection, or choose another layer"));

  return selected;
}

/* GIMP drops what is written to locked pixels.  item: the drawable, or NULL; a locked group locks
 * all in it. */
static gboolean
check_lock (GimpItem *item, GError **error)
{
  if (item && gimp_item_is_layer_mask (item))
    item = GIMP_ITEM (gimp_layer_from_mask (GIMP_LAYER_MASK (item)));
  for (; item; item = gimp_item_get_parent (item))
    if (gimp_item_get_lock_content (item))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                     _ ("The pixels are locked; unlock them in the Layers or Channels dialog"));
        return FALSE;
      }

  return TRUE;
}

/* A copy of the layer above `below`, to be written. */
static GimpLayer *
copy_layer (GimpImage *image, GimpLayer *layer, GimpItem *below)
{
  GimpLayer *copy = gimp_layer_copy (layer);

  gimp_item_set_lock_content (GIMP_ITEM (copy), FALSE);
  gimp_image_insert_layer (image, copy, (GimpLayer *) gimp_item_get_parent (GIMP_ITEM (layer)),
                           gimp_image_get_item_position (image, below));

  return copy;
}

/* In an indexed image a weak change may be none. */
static void
note_palette (GimpDrawable *drawable)
{
  if (gimp_drawable_is_indexed (drawable))
    g_message ("%s", _ ("The image is indexed, so the result has only the colors of its palette; "
                        "Image > Mode > RGB allows all colors"));
}

/* Progress over all the drawables, to GIMP's bar and to the dialog if any. */
typedef struct
{
  ZnProgress progress;
  gpointer   data;
  guint      done;
  guint      n;
} Bars;

static gboolean
show_progress (gdouble fraction, gpointer data)
{
  Bars *bars = data;

  fraction = (bars->done + fraction) / bars->n;
  gimp_progress_update (fraction);

  return ! bars->progress || bars->progress (fraction, bars->data);
}

/* Reads the whole drawable, writes its shadow buffer where it is selected. */
static gboolean
compute (const ZnSettings *settings, GimpDrawable *drawable, Bars *bars, GError **error)
{
  GeglRectangle roi;
  GeglBuffer   *source;
  GeglBuffer   *shadow;
  gboolean      done;

  if (! gimp_drawable_mask_intersect (drawable, &roi.x, &roi.y, &roi.width, &roi.height))
    return TRUE; /* nothing is selected here: nothing to do */

  source = gimp_drawable_get_buffer (drawable);
  shadow = gimp_drawable_get_shadow_buffer (drawable);
  done   = zn_apply_to_buffer (settings, source, &roi, shadow, show_progress, bars, error);
  g_object_unref (source);
  g_object_unref (shadow);

  return done;
}

static void
merge (GimpDrawable *drawable)
{
  GeglRectangle roi;

  if (gimp_drawable_mask_intersect (drawable, &roi.x, &roi.y, &roi.width, &roi.height))
    {
      gimp_drawable_merge_shadow (drawable, TRUE);
      gimp_drawable_update (drawable, roi.x, roi.y, roi.width, roi.height);
    }
}

/* A result that must be called edited is marked: in its layer's name (name NULL: the layer's
 * own name and the mark), and in the picture's XMP history.
 */
static void
mark_layer (const ZnSettings *settings, GimpDrawable *drawable, const gchar *name)
{
  gchar *now    = gimp_item_get_name (GIMP_ITEM (drawable));
  gchar *marked = zn_filter_mark_name (settings->filter, name ? name : now);

  if (marked)
    gimp_item_set_name (GIMP_ITEM (drawable), marked);
  g_free (marked);
  g_free (now);
}

static void
mark_image (const ZnSettings *settings, GimpImage *image)
{
#ifdef HAVE_HISTORY
  GimpMetadata *metadata = gimp_image_get_metadata (image);
  gchar        *words    = zn_settings_words (settings);

  if (! metadata)
    metadata = gimp_metadata_new ();
  if (metadata && zn_history_add (GEXIV2_METADATA (metadata), words, NULL))
    gimp_image_set_metadata (image, metadata);
  g_clear_object (&metadata);
  g_free (words);
#endif
}

/* First all are computed, then all are merged, as one undo step: if one fails,
 * none changes.
 */
static gboolean
apply_to (const ZnSettings *settings,
          ZnProgress        progress,
          gpointer          progress_data,
          gpointer          data,
          GError          **error)
{
  GimpDrawable **drawables = data;
  Bars           bars      = { progress, progress_data, 0, 0 };
  GimpImage     *image     = gimp_item_get_image (GIMP_ITEM (drawables[0]));
  gboolean       marked    = zn_settings_mark (settings);
  gboolean       done      = TRUE;
  gint           x, y, w, h;

  while (drawables[bars.n])
    bars.n++;
  marked = marked && gimp_drawable_mask_intersect (drawables[0], &x, &y, &w, &h);

  gimp_progress_init (_ (settings->filter->title));

  for (guint i = 0; done && i < bars.n; i++)
    done = check_lock (GIMP_ITEM (drawables[i]), error);
  for (; done && bars.done < bars.n; bars.done++)
    done = compute (settings, drawables[bars.done], &bars, error);

  if (done && (bars.n > 1 || marked))
    gimp_image_undo_group_start (image);

  for (guint i = 0; i < bars.n; i++)
    {
      if (done)
        merge (drawables[i]);
      if (done && marked)
        mark_layer (settings, drawables[i], NULL);
      if (! done)
        gimp_drawable_free_shadow (drawables[i]);
    }

  if (done && marked)
    mark_image (settings, image);
  if (done && (bars.n > 1 || marked))
    gimp_image_undo_group_end (image);

  gimp_progress_end ();

  return done;
}

/* Copies of the layer above it, the last one on top, with the faces from the first position
 * after 0 to 1.  They are computed before anything changes.
 */
static gboolean
apply_strip (const ZnSettings *settings,
             gint              n,
             ZnProgress        progress,
             gpointer          progress_data,
             GimpLayer        *layer,
             GError          **error)
{
  Bars          bars   = { progress, progress_data, 0, 1 };
  GimpImage    *image  = gimp_item_get_image (GIMP_ITEM (layer));
  GeglBuffer   *source = gimp_drawable_get_buffer (GIMP_DRAWABLE (layer));
  GeglBuffer  **made   = g_new0 (GeglBuffer *, n);
  gchar        *name   = gimp_item_get_name (GIMP_ITEM (layer));
  GimpItem     *below  = GIMP_ITEM (layer);
  GeglRectangle roi;
  gboolean      done;

  gimp_drawable_mask_intersect (GIMP_DRAWABLE (layer), &roi.x, &roi.y, &roi.width, &roi.height);
  gimp_progress_init (_ (settings->filter->title));
  done = zn_apply_strip (settings, n, source, &roi, made, show_progress, &bars, error);
  if (done)
    gimp_image_undo_group_start (image);
  for (gint k = 1; done && k < n; k++)
    {
      GimpLayer    *copy     = copy_layer (image, layer, below);
      GimpDrawable *drawable = GIMP_DRAWABLE (copy);
      gchar        *title    = g_strdup_printf ("%s %d/%d", name, k + 1, n);
      GeglBuffer   *shadow;

      shadow = gimp_drawable_get_shadow_buffer (drawable);
      gegl_buffer_copy (made[k - 1], &roi, GEGL_ABYSS_NONE, shadow, &roi);
      g_object_unref (shadow);
      g_object_unref (made[k - 1]);
      merge (drawable);
      mark_layer (settings, drawable, title);
      g_free (title);
      below = GIMP_ITEM (copy);
    }
  if (done)
    {
      mark_image (settings, image);
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  g_object_unref (source);
  g_free (made);
  g_free (name);

  return done;
}

/* The dialog's buffer of the drawable, to which its estimates are attached; NULL: no dialog. */
static GeglBuffer *host_source;

/* A new layer above this one: see zn_apply_to_layer().  It is computed before anything
 * changes.
 */
static gboolean
apply_layer (const ZnSettings *settings,
             ZnProgress        progress,
             gpointer          progress_data,
             GimpLayer        *layer,
             GeglBuffer       *source,
             GError          **error)
{
  static const GimpImageType types[] = { GIMP_RGBA_IMAGE, GIMP_GRAYA_IMAGE, GIMP_INDEXEDA_IMAGE };
  Bars                       bars    = { progress, progress_data, 0, 1 };
  GimpImage                 *image   = gimp_item_get_image (GIMP_ITEM (layer));
  ZnMask                     mask    = { NULL, 0, 0 };
  gchar                     *name    = zn_settings_layer_name (settings);
  GeglBuffer                *made, *pixels;
  GimpLayer                 *result;
  gboolean                   is_new;

  gimp_drawable_get_offsets (GIMP_DRAWABLE (layer), &mask.offset_x, &mask.offset_y);
  if (! gimp_selection_is_empty (image))
    {
      mask.selection = gimp_drawable_get_buffer (GIMP_DRAWABLE (gimp_image_get_selection (image)));
      zn_apply_set_mask (source, &mask);
    }
  is_new = zn_apply_is_new (settings, source);
  gimp_progress_init (_ (settings->filter->title));
  made = zn_apply_to_layer (settings, source, show_progress, &bars, error);
  zn_apply_set_mask (source, NULL);
  if (made)
    {
      const GeglRectangle *box = gegl_buffer_get_extent (made);

      gimp_image_undo_group_start (image);
      if (is_new)
        {
          result = gimp_layer_new (image, name, box->width, box->height,
                                   types[gimp_image_get_base_type (image)], 100.0,
                                   GIMP_LAYER_MODE_NORMAL);
          gimp_image_insert_layer (image, result,
                                   (GimpLayer *) gimp_item_get_parent (GIMP_ITEM (layer)),
                                   gimp_image_get_item_position (image, GIMP_ITEM (layer)));
          gimp_layer_set_offsets (result, mask.offset_x, mask.offset_y);
        }
      else
        {
          result = copy_layer (image, layer, GIMP_ITEM (layer));
        }
      pixels = gimp_drawable_get_buffer (GIMP_DRAWABLE (result));
      gegl_buffer_copy (made, NULL, GEGL_ABYSS_NONE, pixels, NULL);
      g_object_unref (pixels);
      gimp_drawable_update (GIMP_DRAWABLE (result), 0, 0, box->width, box->height);
      if (zn_settings_mark (settings))
        {
          mark_layer (settings, GIMP_DRAWABLE (result), name);
          mark_image (settings, image);
        }
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  g_clear_object (&mask.selection);
  g_free (name);
  if (! made)
    return FALSE;
  g_object_unref (made);

  return TRUE;
}

/* The filter as the user knows it. */
static gboolean
apply (const ZnSettings *settings,
       ZnProgress        progress,
       gpointer          progress_data,
       gpointer          data,
       GError          **error)
{
  GimpDrawable **drawables = data;
  const gint     strip     = zn_settings_strip (settings);
  gint           x, y, w, h;

  if (settings->filter->makes_layer)
    {
      GeglBuffer *source;
      gboolean    done;

      if (drawables[1] || ! GIMP_IS_LAYER (drawables[0]))
        {
          g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                       _ ("A picture is generated above a layer: choose one."));
          return FALSE;
        }
      if (! gimp_drawable_mask_intersect (drawables[0], &x, &y, &w, &h))
        return TRUE; /* nothing is selected here: nothing to do */
      if (! check_lock (gimp_item_get_parent (GIMP_ITEM (drawables[0])), error))
        return FALSE;
      source = host_source ? g_object_ref (host_source) : gimp_drawable_get_buffer (drawables[0]);
      done   = apply_layer (settings, progress, progress_data, GIMP_LAYER (drawables[0]), source,
                            error);
      g_object_unref (source);
      return done;
    }

  if (! strip || ! gimp_drawable_mask_intersect (drawables[0], &x, &y, &w, &h))
    return apply_to (settings, progress, progress_data, data, error);

  if (! drawables[1] && GIMP_IS_LAYER (drawables[0]))
    return check_lock (gimp_item_get_parent (GIMP_ITEM (drawables[0])), error) &&
           apply_strip (settings, strip, progress, progress_data, GIMP_LAYER (drawables[0]), error);

  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
               _ ("A strip is made of one layer: choose one."));

  return FALSE;
}

static gboolean
run_dialog (ZnSettings   **settings,
            gchar        **preset,
            const gchar   *procedure,
            const gchar   *title,
            GimpImage     *image,
            GimpDrawable **drawables,
            GError       **error)
{
  ZnDialogHost   host    = { .help_id = procedure, .apply = apply, .data = drawables };
  ZnViewPicture *picture = &host.picture;
  gboolean       done;

  gimp_ui_init ("zenith");

  picture->source = gimp_drawable_get_buffer (drawables[0]);
  gimp_drawable_get_offsets (drawables[0], &picture->offset_x, &picture->offset_y);
  gimp_drawable_mask_intersect (drawables[0], &picture->selected.x, &picture->selected.y,
                                &picture->selected.width, &picture->selected.height);

  if (! gimp_selection_is_empty (image))
    picture->selection = gimp_drawable_get_buffer (
        GIMP_DRAWABLE (gimp_image_get_selection (image)));

  host_source = picture->source;
  done        = zn_dialog_run (settings, preset, title, &host);
  host_source = NULL;

  if (! done)
    g_set_error (error, ZN_ERROR, ZN_ERROR_CANCELLED, _ ("%s was cancelled"), title);

  g_clear_object (&picture->selection);
  g_object_unref (picture->source);

  return done;
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
  const ZnFilter *filter   = data;
  ZnSettings     *settings = NULL;
  GError         *error    = NULL;
  gboolean        done     = FALSE;

  gegl_init (NULL, NULL);

  if (usable (drawables, mode, &error))
    settings = zn_settings_new (filter, &error);

  if (settings && settings_from_config (settings, config, &error))
    {
      if (mode == GIMP_RUN_INTERACTIVE)
        done = run_dialog (&settings, NULL, filter->procedure, _ (filter->title), image, drawables,
                           &error);
      else
        done = apply (settings, NULL, NULL, drawables, &error);
    }

  if (done)
    {
      settings_to_config (settings, config);
      note_palette (drawables[0]);
    }

  zn_settings_free (settings);

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
  ZnSettings *settings = NULL;
  GError     *error    = NULL;
  gboolean    done     = FALSE;

  gegl_init (NULL, NULL);

  if (! usable (drawables, mode, &error))
    {
      /* the message is set */
    }
  else if (mode == GIMP_RUN_INTERACTIVE)
    {
      gchar *name = NULL;

      done = run_dialog (&settings, &name, ZN_PRESET_PROCEDURE, _ ("Apply Preset"), image,
                         drawables, &error);
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
      preset = zn_presets_find (presets, name ? name : "", &error);

      if (preset)
        settings = zn_preset_settings (preset, &error);
      if (settings)
        done = apply (settings, NULL, NULL, drawables, &error);

      g_ptr_array_unref (presets);
      g_free (name);
    }

  if (done)
    note_palette (drawables[0]);
  zn_settings_free (settings);

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
      gimp_procedure_add_menu_path (procedure, ZN_MENU_PATH);
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
      procedure = procedure_new (plug_in, name, run_teach, NULL, _ (ZN_TEACH_LABEL),
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

  if (! filter)
    {
      procedure = procedure_new (plug_in, name, run_preset, NULL, _ (ZN_PRESET_LABEL),
                                 _ (ZN_PRESET_BLURB), ZN_PRESET_HELP);
      gimp_procedure_add_string_argument (procedure, "preset", "_Preset", "The preset's name", "",
                                          G_PARAM_READWRITE);
      return procedure;
    }

  settings = zn_settings_new (filter, NULL);
  if (! settings)
    return NULL;

  procedure = procedure_new (
      plug_in, name, run_filter, filter,
      gegl_operation_get_key (filter->operation, "gimp:menu-path") ? NULL : _ (filter->label),
      _ (filter->blurb), filter->help);

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
