/* SPDX-License-Identifier: MIT */
/* op-request.c - progress, cancelling, status and note; see the header. */

#include "config.h"

#include <math.h>

#include <glib/gi18n-lib.h>

#include "op-common.h"

#define PROGRESS_STEP 0.02   /* of the bar that is shown at once, */
#define PROGRESS_PAUSE 50000 /* or after so many microseconds */

/* ---- progress ------------------------------------------------------------- */

/* A host cannot stop an operation through GEGL.  One that runs the graph itself
 * (our plug-in) sets this on the operation's node, for instance while it serves
 * the node's "progress" signal:
 *
 *   g_object_set_data (G_OBJECT (node), "zenith-cancel", GINT_TO_POINTER (1));
 */
static gboolean
is_cancelled (GeglOperation *operation)
{
  return operation->node && g_object_get_data (G_OBJECT (operation->node), "zenith-cancel");
}

/* A host that shows estimates puts this struct on the node; it must stay there
 * while the graph is processed:
 *
 *   struct { void (*show) (gpointer data, GeglBuffer *estimate); gpointer data; } hook;
 *   g_object_set_data (G_OBJECT (node), "zenith-estimate", &hook);
 *
 * show() is called in the main thread, with the whole result as it would be by now; the
 * buffer is gone afterwards; its data "zenith-changed" is NULL, or the GeglRectangle outside
 * of which it is the input.  Such a host also gets an estimate of few steps first. */
ZnOpShowEstimate
zn_op_request_host (const ZnOpRequest *request, gpointer *data)
{
  const struct
  {
    ZnOpShowEstimate show;
    gpointer         data;
  } *hook = NULL;

  if (request->operation->node && gegl_is_main_thread ())
    hook = g_object_get_data (G_OBJECT (request->operation->node), "zenith-estimate");
  if (! hook)
    return NULL;
  *data = hook->data;

  return hook->show;
}

/* Hosts open their bar at exactly 0.0 and close it at 1.0; main thread only. */
static void
show (ZnOpRequest *request, gdouble value)
{
  request->shown    = value;
  request->shown_at = g_get_monotonic_time ();
  if (gegl_is_main_thread ())
    gegl_operation_progress (request->operation, value, (gchar *) "");
}

gboolean
zn_op_request_init (ZnOpRequest *request, GeglOperation *operation, const ZnOpBase *base)
{
  *request = (ZnOpRequest){ .operation = operation, .base = base, .span = 1.0, .shown = -1.0 };

  return zn_op_cache_check (&request->err);
}

void
zn_op_request_part (ZnOpRequest *request, gdouble start, gdouble span)
{
  request->start = start;
  request->span  = span;
}

/* Progress that is as it was. */
static bool
tick (ZnOpRequest *request)
{
  const gint64 pause = g_get_monotonic_time () - request->shown_at;

  if (request->shown < 0.0)
    show (request, 0.0);
  else if (pause >= PROGRESS_PAUSE)
    show (request, request->shown);

  return ! is_cancelled (request->operation);
}

bool
zn_op_request_progress (void *cookie, double done)
{
  ZnOpRequest  *request = cookie;
  const gdouble value   = request->start + request->span * done;
  const gint64  pause   = g_get_monotonic_time () - request->shown_at;

  if (request->shown >= 0.0 && value > request->shown && value < 1.0 &&
      (value >= request->shown + PROGRESS_STEP || pause >= PROGRESS_PAUSE))
    show (request, value);

  return tick (request);
}

zn_status
zn_op_request_refuse (ZnOpRequest *request, zn_status status, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  g_vsnprintf (request->err.text, sizeof (request->err.text), _ (format), args);
  va_end (args);

  return status;
}

/* ---- status and note ------------------------------------------------------ */

typedef struct
{
  GWeakRef     operation;
  const gchar *property;
} Notice;

static gboolean
notify (gpointer data)
{
  Notice  *notice    = data;
  GObject *operation = g_weak_ref_get (&notice->operation);

  if (operation)
    {
      g_object_notify (operation, notice->property);
      g_object_unref (operation);
    }

  return G_SOURCE_REMOVE;
}

static void
notice_free (gpointer data)
{
  Notice *notice = data;

  g_weak_ref_clear (&notice->operation);
  g_free (notice);
}

/* A message can contain a file name with any bytes: it is made one line of UTF-8. */
static gchar *
as_line (const gchar *sentence)
{
  gchar *line = g_utf8_make_valid (sentence, -1);

  for (gchar *p = line; *p; p++)
    if (g_ascii_iscntrl (*p))
      *p = ' ';

  return line;
}

/* Setting the property here would deadlock: GEGL holds the node's mutex, and
 * the node invalidates itself when it hears of a change. */
static void
notify_later (GeglOperation *operation, const gchar *property)
{
  Notice *notice = g_new0 (Notice, 1);

  notice->property = property;
  g_weak_ref_init (&notice->operation, operation);
  g_idle_add_full (G_PRIORITY_DEFAULT_IDLE, notify, notice, notice_free);
}

void
zn_op_set_text (GeglOperation *operation,
                const gchar   *property,
                gchar        **field,
                const gchar   *sentence)
{
  gchar *text = as_line (sentence);

  if (! field || ! g_strcmp0 (*field, text) || (! *field && ! *text))
    {
      g_free (text);
      return;
    }

  g_free (*field);
  *field = text;
  notify_later (operation, property);
}

static void
set_flag (GeglOperation *operation, const gchar *property, gboolean *field, gboolean value)
{
  if (! field || *field == value)
    return;

  *field = value;
  notify_later (operation, property);
}

void
zn_op_set_number (GeglOperation *operation, const gchar *property, gdouble *field, gdouble value)
{
  if (! field || *field == value)
    return;

  *field = value;
  notify_later (operation, property);
}

void
zn_op_set_status (GeglOperation *operation, const ZnOpBase *base, const gchar *sentence)
{
  zn_op_set_text (operation, "status", base->status, sentence);
  set_flag (operation, "failed", base->failed, *sentence != '\0');
}

/* stderr gets each sentence of an operation once. */
static void
print_once (GeglOperation *operation, const gchar *sentence)
{
  static GMutex      lock;
  static GHashTable *said;
  gchar             *text = as_line (sentence), *line;

  line = g_strdup_printf ("%s: %s\n", gegl_operation_get_name (operation), text);
  g_free (text);

  g_mutex_lock (&lock);
  if (! said)
    said = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  if (! g_hash_table_contains (said, line))
    {
      g_printerr ("%s", line);
      g_hash_table_add (said, line);
      line = NULL;
    }
  g_mutex_unlock (&lock);

  g_free (line);
}

void
zn_op_verbose (GeglOperation *operation, const gchar *format, ...)
{
  va_list args;
  gchar  *line;

  if (! g_getenv ("ZENITH_VERBOSE"))
    return;
  va_start (args, format);
  line = g_strdup_vprintf (format, args);
  va_end (args);
  print_once (operation, line);
  g_free (line);
}

void
zn_op_tenths (gchar text[ZN_OP_TENTHS], gdouble value)
{
  const gint64 n = llrint (10.0 * fabs (value));

  g_snprintf (text, ZN_OP_TENTHS, "%s%" G_GINT64_FORMAT ".%d", value < 0.0 && n ? "-" : "", n / 10,
              (gint) (n % 10));
}

static void
fail (ZnOpRequest *request, GeglOperationContext *context, zn_status status)
{
  GObject     *input    = gegl_operation_context_get_object (context, "input");
  const gchar *sentence = request->err.text;

  if (! *sentence)
    sentence = status == ZN_E_CANCELLED ? _ ("Cancelled.") : _ ("The engine failed.");

  zn_op_set_status (request->operation, request->base, sentence);
  if (status != ZN_E_CANCELLED)
    print_once (request->operation, sentence);

  if (request->replaced)
    return;
  if (input)
    gegl_operation_context_set_object (context, "output", input);
  else
    gegl_buffer_clear (gegl_operation_context_get_target (context, "output"), NULL);
}

gboolean
zn_op_request_end (ZnOpRequest *request, GeglOperationContext *context, zn_status status)
{
  if (request->shown >= 0.0)
    show (request, 1.0);

  if (status)
    {
      fail (request, context, status);
      return TRUE;
    }

  zn_op_set_status (request->operation, request->base, "");
  /* a kept result says nothing about how it was made, but its input may have a note */
  if (request->ran || *request->note.text)
    {
      zn_op_set_text (request->operation, "note", request->base->note, request->note.text);
      set_flag (request->operation, "noted", request->base->noted, *request->note.text != '\0');
    }
  if (*request->computed_by.text)
    zn_op_set_text (request->operation, "computed-by", request->base->computed_by,
                    request->computed_by.text);
  if (*request->note.text)
    print_once (request->operation, request->note.text);

  return TRUE;
}
