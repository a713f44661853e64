/* SPDX-License-Identifier: MIT
 *
 * zenith-apply.c - the node graph, its progress, and what it says afterwards.
 *
 * GEGL has no errors: an operation of ours that cannot work hands its input
 * through and leaves a message in its property 'status'.  Here that message becomes a GError again.
 * A message in 'note' is not a failure: the result is valid, but differs from the request.
 *
 * GEGL has no cancellation either.  Between chunks the processor is simply not
 * asked for more; inside a chunk the object data CANCEL_KEY on the operation's
 * node tells it to stop at its next tile.  (GIMP's own Cancel ends the process.)
 */
#include <string.h>

#include <gegl.h>
#include <glib/gi18n-lib.h>

#include "zenith-apply.h"
#include "zenith-pixels.h"
#include "zenith_number.h"

#define CANCEL_KEY "zenith-cancel"
#define TILE_KEY "zenith-tile"
#define COMPUTED_BY_KEY "zenith-computed-by"
#define MEASURE_KEY "zenith-measure"
#define ESTIMATE_KEY "zenith-estimate"
#define MASK_KEY "zenith-mask"
#define SELECTED_KEY "zenith-selected"
#define PIECE_KEY "zenith-piece"
#define PLACE_KEY "zenith-place"
#define SECOND_KEY "zenith-second"
#define MEASURE_MIN 128 /* pixels a side whose noise is measured, if there are so many */

typedef struct
{
  GeglNode  *graph;
  GeglNode  *crop; /* of the source */
  GeglNode  *op;
  GeglNode  *result; /* the operation, or what puts it in its place */
  ZnProgress progress;
  gpointer   data;
  gdouble    done;  /* of the work, before the present chunk        */
  gdouble    share; /* of the work, in the present chunk            */
  gdouble    shown; /* the bar never goes back                      */
  gboolean   cancelled;

  GeglRectangle noisy; /* the part whose noise is measured */
} Run;

static void
report (Run *run, gdouble fraction)
{
  run->shown = CLAMP (fraction, run->shown, 1.0);

  if (! run->cancelled && run->progress && ! run->progress (run->shown, run->data))
    {
      run->cancelled = TRUE;
      g_object_set_data (G_OBJECT (run->op), CANCEL_KEY, GINT_TO_POINTER (TRUE));
    }
}

static void
on_progress (GeglNode *node, gdouble fraction, Run *run)
{
  report (run, run->done + run->share * CLAMP (fraction, 0.0, 1.0));
}

/* The whole result of a node, scaled to a place.  Without the abyss policy the pixels at the
 * edges would become transparent. */
static GeglNode *
fit (GeglNode *graph, GeglNode *node, const GeglRectangle *place)
{
  GeglNode *scale = gegl_node_new_child (graph, "operation", "gegl:scale-size", "x",
                                         (gdouble) place->width, "y", (gdouble) place->height,
                                         "abyss-policy", GEGL_ABYSS_CLAMP, NULL);
  GeglNode *move  = gegl_node_new_child (graph, "operation", "gegl:translate", "x",
                                         (gdouble) place->x, "y", (gdouble) place->y, NULL);

  gegl_node_link_many (node, scale, move, NULL);

  return move;
}

/* The noise of a selection is measured in it, or a little around it if it is small. */
static GeglRectangle
noisy_part (GeglBuffer *source, const GeglRectangle *selected)
{
  GeglRectangle part   = *selected;
  gint          more_x = MAX (0, MEASURE_MIN - part.width + 1) / 2;
  gint          more_y = MAX (0, MEASURE_MIN - part.height + 1) / 2;

  part.x -= more_x;
  part.y -= more_y;
  part.width += 2 * more_x;
  part.height += 2 * more_y;
  gegl_rectangle_intersect (&part, &part, gegl_buffer_get_extent (source));

  return part;
}

/* The mask on the second input, where the source has its pixels. */
static void
link_mask (Run *run, GeglBuffer *source)
{
  const ZnMask *mask = g_object_get_data (G_OBJECT (source), MASK_KEY);
  GeglNode     *input, *move;

  if (! mask)
    return;
  input = gegl_node_new_child (run->graph, "operation", "gegl:buffer-source", "buffer",
                               mask->selection, NULL);
  move  = gegl_node_new_child (run->graph, "operation", "gegl:translate", "x",
                               (gdouble) -mask->offset_x, "y", (gdouble) -mask->offset_y, NULL);
  gegl_node_link (input, move);
  gegl_node_connect_to (move, "output", run->op, "aux");
}

/* The part of the source that the operation gets. */
static void
run_offer (Run *run, const GeglRectangle *piece)
{
  gegl_node_set (run->crop, "x", (gdouble) piece->x, "y", (gdouble) piece->y, "width",
                 (gdouble) piece->width, "height", (gdouble) piece->height, NULL);
}

/* The second picture on the second input, if it is a layer. */
static void
link_second (Run *run, GeglBuffer *source)
{
  const ZnSecond *second = g_object_get_data (G_OBJECT (source), SECOND_KEY);
  gchar          *path   = NULL;
  GeglBuffer     *buffer = NULL;

  if (! second || ! gegl_node_find_property (run->op, "path"))
    return;
  gegl_node_get (run->op, "path", &path, NULL);
  if (path && *path)
    buffer = second->layer (second->data, path);
  if (buffer)
    {
      GeglNode *input = gegl_node_new_child (run->graph, "operation", "gegl:buffer-source",
                                             "buffer", buffer, NULL);

      gegl_node_connect_to (input, "output", run->op, "aux");
      gegl_node_set (run->op, "path", "", NULL);
      g_object_unref (buffer);
    }
  g_free (path);
}

static void
run_begin (Run                 *run,
           const ZnSettings    *settings,
           GeglBuffer          *source,
           const GeglRectangle *piece,
           const GeglRectangle *selected,
           ZnProgress           progress,
           gpointer             data)
{
  GeglNode *input;

  *run = (Run){ .progress = progress, .data = data, .share = 1.0 };

  run->graph = gegl_node_new ();
  input      = gegl_node_new_child (run->graph, "operation", "gegl:buffer-source", "buffer", source,
                                    NULL);
  run->crop  = gegl_node_new_child (run->graph, "operation", "gegl:crop", NULL);
  run_offer (run, piece);
  run->op = gegl_node_new_child (run->graph, "operation", settings->filter->operation, NULL);

  for (guint i = 0; i < settings->n; i++)
    if (g_strcmp0 (settings->property[i].spec->name, ZN_STRIP) &&
        g_strcmp0 (settings->property[i].spec->name, ZN_LOOP)) /* one picture here */
      gegl_node_set_property (run->op, settings->property[i].spec->name,
                              &settings->property[i].value);

  if (settings->filter->planes)
    gegl_node_set (run->op, "planes", TRUE, NULL);

  g_object_set_data (G_OBJECT (run->op), TILE_KEY, g_object_get_data (G_OBJECT (source), TILE_KEY));
  run->noisy = noisy_part (source, selected);
  g_object_set_data (G_OBJECT (run->op), MEASURE_KEY, &run->noisy);
  if (! gegl_rectangle_equal (selected, gegl_buffer_get_extent (source)))
    g_object_set_data (G_OBJECT (run->op), SELECTED_KEY, GINT_TO_POINTER (TRUE));
  run->result = run->op;
  if (gegl_node_has_pad (run->op, "input"))
    {
      if (! zn_apply_is_new (settings, source))
        gegl_node_link_many (input, run->crop, run->op, NULL);
      if (settings->filter->makes_layer)
        link_mask (run, source);
      link_second (run, source);
      g_object_set_data (G_OBJECT (run->op), ESTIMATE_KEY,
                         g_object_get_data (G_OBJECT (source), ESTIMATE_KEY));
    }
  else
    run->result = fit (run->graph, run->op, piece);
  g_signal_connect (run->op, "progress", G_CALLBACK (on_progress), run);

  /* Messages from before it had all properties and its input do not count. */
  if (gegl_node_find_property (run->op, "status"))
    gegl_node_set (run->op, "status", "", NULL);
}

/* Checks the operation's status; call after each piece of work.  TRUE: go on. */
static gboolean
run_check (Run *run, const ZnSettings *settings, GError **error)
{
  gchar *status = NULL;

  if (run->cancelled)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_CANCELLED, _ ("%s was cancelled"),
                   _ (settings->filter->title));
      return FALSE;
    }

  if (gegl_node_find_property (run->op, "status"))
    gegl_node_get (run->op, "status", &status, NULL);

  if (status && *status)
    {
      /* Translators: the name of a filter, and what it says. */
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("%s: %s"), _ (settings->filter->title),
                   status);
      g_free (status);
      return FALSE;
    }

  g_free (status);

  return TRUE;
}

/* Shows the note, if there is one: GIMP has its own place for messages. */
static void
run_note (Run *run, const ZnSettings *settings)
{
  gchar *note = NULL;

  if (gegl_node_find_property (run->op, "note"))
    gegl_node_get (run->op, "note", &note, NULL);
  if (note && *note)
    g_message (_ ("%s: %s"), _ (settings->filter->title), note);
  g_free (note);
}

void
zn_apply_set_tile (GeglBuffer *source, gint side)
{
  g_object_set_data (G_OBJECT (source), TILE_KEY, GINT_TO_POINTER (side));
}

void
zn_apply_set_estimate (GeglBuffer *source, ZnEstimate *estimate)
{
  g_object_set_data (G_OBJECT (source), ESTIMATE_KEY, estimate);
}

void
zn_apply_set_place (GeglBuffer *source, const GeglRectangle *selected)
{
  g_object_set_data (G_OBJECT (source), PLACE_KEY, (gpointer) selected);
}

void
zn_apply_set_second (GeglBuffer *source, const ZnSecond *second)
{
  g_object_set_data (G_OBJECT (source), SECOND_KEY, (gpointer) second);
}

void
zn_apply_set_mask (GeglBuffer *source, ZnMask *mask)
{
  g_object_set_data (G_OBJECT (source), MASK_KEY, mask);
}

gboolean
zn_apply_is_new (const ZnSettings *settings, GeglBuffer *source)
{
  return settings->filter->from_nothing ||
         (settings->filter->makes_layer && ! g_object_get_data (G_OBJECT (source), MASK_KEY) &&
          ! zn_settings_begins_with_layer (settings));
}

const gchar *
zn_apply_computed_by (GeglBuffer *result)
{
  const gchar *text = g_object_get_data (G_OBJECT (result), COMPUTED_BY_KEY);

  return text ? text : "";
}

static void
run_keep_maker (const Run *run, GeglBuffer *dest)
{
  gchar *text = NULL;

  if (gegl_node_find_property (run->op, "computed-by"))
    gegl_node_get (run->op, "computed-by", &text, NULL);
  g_object_set_data_full (G_OBJECT (dest), COMPUTED_BY_KEY, text, g_free);
}

/* Computes the region roi into dest and ends the run. */
static gboolean
run_process (Run                 *run,
             const ZnSettings    *settings,
             const GeglRectangle *roi,
             GeglBuffer          *dest,
             GError             **error)
{
  const ZnFilter *filter = settings->filter;
  GeglNode       *output = zn_pixels_sink (run->graph, dest);
  GeglProcessor  *processor;
  gint            chunk;
  gboolean        more;
  gboolean        ok = TRUE;

  gegl_node_link (run->result, output);
  processor = gegl_node_new_processor (output, roi);

  /* An operation that computes the whole picture does so in the first chunk. */
  g_object_get (gegl_config (), "chunk-size", &chunk, NULL);
  if (! filter->preview_margin && ! filter->takes_selection && ! filter->makes_layer)
    run->share = MIN (1.0, chunk / ((gdouble) roi->width * roi->height));

  report (run, 0.0);

  for (more = TRUE; ok && more;)
    {
      gdouble done = run->done;

      if (! run->cancelled)
        {
          more      = gegl_processor_work (processor, &done);
          run->done = done;
          report (run, done);
        }

      ok = run_check (run, settings, error);
    }
  if (ok)
    {
      run_note (run, settings);
      run_keep_maker (run, dest);
    }

  g_object_unref (processor);
  g_object_unref (run->graph);

  return ok;
}

gboolean
zn_apply_to_buffer (const ZnSettings    *settings,
                    GeglBuffer          *source,
                    const GeglRectangle *roi,
                    GeglBuffer          *dest,
                    ZnProgress           progress,
                    gpointer             data,
                    GError             **error)
{
  gboolean ok;
  Run      run;

  run_begin (&run, settings, source,
             settings->filter->takes_selection ? roi : gegl_buffer_get_extent (source), roi,
             progress, data);
  ok = run_process (&run, settings, roi, dest, error);
  gegl_buffer_flush (dest);

  return ok;
}

gboolean
zn_apply_check (const ZnSettings *settings, GeglBuffer *source, GError **error)
{
  const GeglRectangle *all = gegl_buffer_get_extent (source);
  Run                  run;
  gboolean             ok;

  run_begin (&run, settings, source, all, all, NULL, NULL);
  gegl_node_set (run.op, "prompt", "x", "status", "", NULL);
  gegl_node_get_bounding_box (run.op); /* prepares it */
  ok = run_check (&run, settings, error);
  g_object_unref (run.graph);

  return ok;
}

/* The largest square in the middle. */
static GeglRectangle
square_in (const GeglRectangle *r)
{
  const gint side = MIN (r->width, r->height);

  return (GeglRectangle){ r->x + (r->width - side) / 2, r->y + (r->height - side) / 2, side, side };
}

static gboolean
is_float (GeglBuffer *buffer)
{
  const Babl *type = babl_format_get_type (gegl_buffer_get_format (buffer), 0);

  return type == babl_type ("float") || type == babl_type ("half") || type == babl_type ("double");
}

GeglBuffer *
zn_apply_to_layer (const ZnSettings *settings,
                   GeglBuffer       *source,
                   ZnProgress        progress,
                   gpointer          data,
                   GError          **error)
{
  const GeglRectangle *all    = gegl_buffer_get_extent (source);
  const GeglRectangle *place  = g_object_get_data (G_OBJECT (source), PLACE_KEY);
  const gboolean       placed = settings->filter->from_nothing && place;
  GeglRectangle        box    = placed ? square_in (place) : *all;
  GeglBuffer          *dest;
  Run                  run;

  if (settings->filter->planes && ! is_float (source))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                   _ ("%s: A latent has values below 0 and above 1: choose 32-bit floating point "
                      "in Image > Precision"),
                   _ (settings->filter->title));
      return NULL;
    }
  run_begin (&run, settings, source, &box, all, progress, data);
  if (! placed && (settings->filter->makes_layer || settings->filter->enlarges))
    {
      box        = gegl_node_get_bounding_box (run.op);
      run.result = run.op;
    }
  dest = gegl_buffer_new (&box, settings->filter->makes_layer && ! gegl_rectangle_equal (&box, all)
                                    ? babl_format ("R'G'B'A float")
                                    : gegl_buffer_get_format (source));
  if (! run_process (&run, settings, &box, dest, error))
    g_clear_object (&dest);

  return dest;
}

/* Progress of one of several runs. */
typedef struct
{
  ZnProgress progress;
  gpointer   data;
  gint       done, n;
} Share;

static gboolean
show_share (gdouble fraction, gpointer data)
{
  const Share *share = data;

  return ! share->progress || share->progress ((share->done + fraction) / share->n, share->data);
}

gboolean
zn_apply_strip (const ZnSettings    *settings,
                gint                 n,
                GeglBuffer          *source,
                const GeglRectangle *roi,
                GeglBuffer         **dest,
                ZnProgress           progress,
                gpointer             data,
                GError             **error)
{
  ZnSettings *one   = zn_settings_new (settings->filter, error);
  Share       share = { progress, data, 0, n - 1 };
  gboolean    done  = one != NULL;

  for (; done && share.done < n - 1; share.done++)
    {
      zn_settings_copy (one, settings);
      dest[share.done] = gegl_buffer_new (roi, gegl_buffer_get_format (source));
      done = zn_settings_set_named (one, "position", (share.done + 1.0) / (n - 1), error) &&
             zn_apply_to_buffer (one, source, roi, dest[share.done], show_share, &share, error);
      if (! done)
        share.done++; /* the one that failed goes too */
    }
  while (! done && share.done > 0)
    g_clear_object (&dest[--share.done]);
  zn_settings_free (one);

  return done;
}

/* Offers what the operation takes for a region, with at most `margin` pixels around it: the engine
 * knows where pieces may begin. */
static GeglRectangle
run_cut (Run *run, const GeglRectangle *roi, gint margin)
{
  struct
  {
    GeglRectangle part, piece;
    gint          margin;
  } asked = { *roi, *roi, margin };

  g_object_set_data (G_OBJECT (run->op), PIECE_KEY, &asked);
  gegl_node_get_bounding_box (run->op); /* prepares it */
  g_object_set_data (G_OBJECT (run->op), PIECE_KEY, NULL);
  run_offer (run, &asked.piece);

  return asked.piece;
}

static void
be_silent (const gchar *text)
{
}

static gboolean
set_nick (GeglNode *op, const gchar *property, const gchar *nick)
{
  GParamSpec *spec  = gegl_node_find_property (op, property);
  GEnumValue *value = spec ? g_enum_get_value_by_nick (G_PARAM_SPEC_ENUM (spec)->enum_class, nick)
                           : NULL;

  if (value)
    gegl_node_set (op, property, value->value, NULL);

  return value != NULL;
}

/* The operation starts the engine when it is asked for its size, and makes no picture: it has no prompt. */
void
zn_apply_start (const ZnSettings *settings, gboolean wait)
{
  GeglNode  *graph = gegl_node_new ();
  GeglNode  *op    = gegl_node_new_child (graph, "operation", "zenith:z-image", NULL);
  GPrintFunc print = g_set_printerr_handler (be_silent);

  for (guint i = 0; settings && i < settings->n; i++)
    if (! strcmp (settings->property[i].spec->name, "engine"))
      gegl_node_set_property (op, "engine", &settings->property[i].value);
  g_object_set_data (G_OBJECT (op), "zenith-start", GINT_TO_POINTER (wait ? 2 : 1));
  gegl_node_get_bounding_box (op);
  g_object_unref (graph);
  g_set_printerr_handler (print);
}

/* The smallest shipped network says whether an engine works. */
gchar *
zn_engine_missing (const gchar *nick)
{
  GPrintFunc  print  = g_set_printerr_handler (be_silent);
  GeglBuffer *buffer = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 8, 8), babl_format ("R'G'B' float"));
  GeglNode   *graph  = gegl_node_new ();
  GeglNode *input = gegl_node_new_child (graph, "operation", "gegl:buffer-source", "buffer", buffer,
                                         NULL);
  GeglNode *op    = gegl_node_new_child (graph, "operation", "zenith:denoise", "sigma", 1.0, NULL);
  gchar    *status = NULL;
  guchar    rgba[4];

  if (set_nick (op, "model", "fast") && set_nick (op, "engine", nick))
    {
      gegl_node_link (input, op);
      gegl_node_blit (op, 1.0, GEGL_RECTANGLE (0, 0, 1, 1), babl_format ("R'G'B'A u8"), rgba,
                      GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
      gegl_node_get (op, "status", &status, NULL);
    }
  if (status && ! *status)
    g_clear_pointer (&status, g_free);

  g_object_unref (graph);
  g_object_unref (buffer);
  g_set_printerr_handler (print);

  return status;
}

gchar **
zn_attributes (const ZnSettings *settings)
{
  GeglBuffer *buffer = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 8, 8), babl_format ("R'G'B' float"));
  GeglNode   *graph  = gegl_node_new ();
  GeglNode *input = gegl_node_new_child (graph, "operation", "gegl:buffer-source", "buffer", buffer,
                                         NULL);
  GeglNode *op    = gegl_node_new_child (graph, "operation", settings->filter->operation, NULL);
  gchar    *text  = NULL;
  gchar   **names;
  guchar    rgba[4];

  if (gegl_node_find_property (op, "attributes"))
    {
      for (guint i = 0; i < settings->n; i++)
        if (! strcmp (settings->property[i].spec->name, "model"))
          gegl_node_set_property (op, "model", &settings->property[i].value);
      gegl_node_link (input, op); /* amount 0: nothing is computed */
      gegl_node_blit (op, 1.0, GEGL_RECTANGLE (0, 0, 1, 1), babl_format ("R'G'B'A u8"), rgba,
                      GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
      gegl_node_get (op, "attributes", &text, NULL);
    }
  names = text ? g_strsplit (text, ",", -1) : NULL;
  g_free (text);
  g_object_unref (graph);
  g_object_unref (buffer);

  return names;
}

/* What the operation measured, if it measures any. */
static ZnNoise
run_noise (const Run *run)
{
  ZnNoise noise = { -1.0, NULL };
  gdouble red, green, blue;

  if (gegl_node_find_property (run->op, "measured-blur"))
    gegl_node_get (run->op, "measured", &noise.text, NULL);

  if (gegl_node_find_property (run->op, "measured-red"))
    {
      gegl_node_get (run->op, "measured-red", &red, "measured-green", &green, "measured-blue",
                     &blue, "measured", &noise.text, NULL);
      noise.mean = (red + green + blue) / 3.0;
    }

  return noise;
}

gboolean
zn_apply_measure (const ZnSettings    *settings,
                  GeglBuffer          *source,
                  const GeglRectangle *selected,
                  ZnNoise             *noise,
                  ZnProgress           progress,
                  gpointer             data)
{
  const GeglRectangle pixel = { selected->x, selected->y, 1, 1 };
  guchar              rgba[4];
  Run                 run;
  gboolean            ok = FALSE;

  *noise = (ZnNoise){ -1.0, NULL };
  run_begin (&run, settings, source, gegl_buffer_get_extent (source), selected, progress, data);
  if (gegl_node_find_property (run.op, "measured-red"))
    {
      gegl_node_set (run.op, "strength", 0.0, "sigma", 0.0, NULL);
      gegl_node_blit (run.op, 1.0, &pixel, babl_format ("R'G'B'A u8"), rgba, GEGL_AUTO_ROWSTRIDE,
                      GEGL_BLIT_DEFAULT);
      ok = run_check (&run, settings, NULL);
      if (ok)
        *noise = run_noise (&run);
    }
  g_object_unref (run.graph);

  return ok;
}

/* The frame that the operation took, in pixels of the source; FALSE: it has none. */
static gboolean
run_frame (const Run *run, const GeglRectangle *piece, ZnFrame *frame)
{
  ZnFrame taken;

  if (! gegl_node_find_property (run->op, "taken-size"))
    return FALSE;

  gegl_node_get (run->op, "taken-x", &taken.x, "taken-y", &taken.y, "taken-size", &taken.size,
                 "taken-angle", &taken.angle, NULL);
  *frame = (ZnFrame){ piece->x + taken.x, piece->y + taken.y, taken.size, taken.angle };

  return taken.size > 0.0;
}

/* The frames of all faces that the operation found, four numbers each. */
static guint
run_faces (const Run *run, const GeglRectangle *piece, ZnFrame face[ZN_FACES_MAX])
{
  gchar  *text = NULL;
  gchar **word;
  gdouble number[4];
  guint   n = 0;

  if (! gegl_node_find_property (run->op, "faces"))
    return 0;

  gegl_node_get (run->op, "faces", &text, NULL);
  word = g_strsplit (text ? text : "", " ", -1);
  for (guint i = 0; word[i] && n < ZN_FACES_MAX; i++)
    {
      if (! zn_number_parse (&number[i % 4], word[i], NULL))
        break;
      if (i % 4 == 3)
        face[n++] = (ZnFrame){ piece->x + number[0], piece->y + number[1], number[2], number[3] };
    }
  g_strfreev (word);
  g_free (text);

  return n;
}

gboolean
zn_apply_to_pixels (const ZnSettings    *settings,
                    GeglBuffer          *source,
                    const GeglRectangle *selected,
                    const GeglRectangle *roi,
                    guchar              *rgba,
                    ZnFound             *found,
                    ZnProgress           progress,
                    gpointer             data,
                    GError             **error)
{
  const gint          margin = settings->filter->preview_margin;
  GeglRectangle       piece  = settings->filter->takes_selection ? *selected
                                                                 : *gegl_buffer_get_extent (source);
  const gint          scale  = zn_settings_scale (settings);
  const GeglRectangle part   = { roi->x * scale, roi->y * scale, roi->width * scale,
                                 roi->height * scale };
  Run                 run;
  gboolean            ok;

  run_begin (&run, settings, source, &piece, selected, progress, data);
  if (margin > 0)
    piece = run_cut (&run, roi, margin);
  gegl_node_blit (run.result, 1.0, &part, babl_format ("R'G'B'A u8"), rgba, GEGL_AUTO_ROWSTRIDE,
                  GEGL_BLIT_DEFAULT);
  ok = run_check (&run, settings, error);

  *found = (ZnFound){ .noise = { -1.0, NULL } };
  if (ok)
    found->noise = run_noise (&run);
  found->has_frame = run_frame (&run, &piece, &found->frame);
  found->n_faces   = run_faces (&run, &piece, found->face);
  if (ok && gegl_node_find_property (run.op, "note"))
    gegl_node_get (run.op, "note", &found->note, NULL);
  g_object_unref (run.graph);

  return ok;
}
