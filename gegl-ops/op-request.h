/* SPDX-License-Identifier: MIT */
/* op-request.h - one call of process(): progress, cancelling, status and note. */

#ifndef __ZENITH_OP_REQUEST_H__
#define __ZENITH_OP_REQUEST_H__

#include <gegl.h>
#include <gegl-plugin.h>

#include "op-types.h"
#include "zenith_composite.h"

/* What every operation has; every task begins with it. */
typedef struct
{
  ZenithEngine    engine;
  ZenithPrecision precision;
  gchar         **status; /* the fields of the properties */
  gchar         **note;
  gboolean       *failed;
  gboolean       *noted;
  gchar         **computed_by;
} ZnOpBase;

/* Every operation has these properties under these names. */
#define ZN_OP_BASE(o)                                                                              \
  ((ZnOpBase){ (o)->engine, (o)->precision, &(o)->status, &(o)->note, &(o)->failed, &(o)->noted,   \
               &(o)->computed_by })

/* What a call reports while it works, and how it ended. */
typedef struct _ZnOpRequest ZnOpRequest;
struct _ZnOpRequest
{
  GeglOperation  *operation;
  const ZnOpBase *base;
  zn_error        err;         /* why it failed */
  zn_note         note;        /* how the result differs from the request, or "" */
  gboolean        ran;         /* a network did, */
  zn_makers       computed_by; /* ... on this engine, in this precision */

  /* the part of the current job in the whole: its 0..1 is shown as start..start + span */
  gdouble start, span;
  gdouble shown;    /* < 0: nothing yet */
  gint64  shown_at; /* microseconds */

  /* Shows what run() would make so far; NULL: the host shows no estimates (see op-request.c) */
  void (*estimate) (ZnOpRequest *request, const gfloat *made);
  gpointer estimate_data;

  gboolean replaced; /* the output has what there is to show after a failure */
};

/* FALSE, and why: the environment makes no sense. */
gboolean zn_op_request_init (ZnOpRequest *request, GeglOperation *operation, const ZnOpBase *base);

/* The next job is this part of the whole. */
void zn_op_request_part (ZnOpRequest *request, gdouble start, gdouble span);

/* A zn_job's progress function; its cookie is the request.  FALSE: cancelled.
 *
 * Nothing is shown before a network runs, because cached results are immediate.  From then
 * on hosts are called at least every 50 ms, even if the bar does not move: a dialog that
 * runs the graph iterates its main loop then. */
bool zn_op_request_progress (void *request, double done);

/* The function of a host that shows estimates; *data is for it.  NULL: there is none,
 * or this is not the main thread. */
typedef void (*ZnOpShowEstimate) (gpointer data, GeglBuffer *estimate);
ZnOpShowEstimate zn_op_request_host (const ZnOpRequest *request, gpointer *data);

/* Fails with this message. */
zn_status zn_op_request_refuse (ZnOpRequest *request, zn_status status, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* Shows the message in the status property only.  May be called in prepare(),
 * which never clears it: a status that came and went would make GIMP render
 * endlessly. */
void zn_op_set_status (GeglOperation *operation, const ZnOpBase *base, const gchar *sentence);

/* Write a property that is never read, and tell hosts if it changed. */
void zn_op_set_text (GeglOperation *operation,
                     const gchar   *property,
                     gchar        **field,
                     const gchar   *sentence);
void zn_op_set_number (GeglOperation *operation,
                       const gchar   *property,
                       gdouble       *field,
                       gdouble        value);

/* A number in a text for people, with one digit after the point in every language. */
#define ZN_OP_TENTHS 32 /* bytes */
void zn_op_tenths (gchar text[ZN_OP_TENTHS], gdouble value);

/* With $ZENITH_VERBOSE stderr gets the line, once. */
void zn_op_verbose (GeglOperation *operation, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* How process() ends: returns TRUE.  After a failure the output is the input, whatever
 * was written before; where there is none, it is empty. */
gboolean zn_op_request_end (ZnOpRequest *request, GeglOperationContext *context, zn_status status);

#endif
