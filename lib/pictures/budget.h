/* SPDX-License-Identifier: MIT */
/* budget.h - what pictures may cost.
 *
 * ZnBudget limits the memory of all pictures in flight: a picture waits while others use too much.
 * One that is larger than the limit is processed alone.
 *
 * ZnShare limits what one file may cost, so that a small file cannot ask for much.  Whatever a file
 * makes a reader do is charged before it is done.  A file of N bytes may cost
 *
 *   memory   512 MiB + 512 N bytes; the 512 MiB are half of $ZENITH_MEMORY where that is more
 *   work     twice as many bytes, gone over once
 *
 * A byte of a picture is charged ZN_COPIES times as memory and once per pass as work: 128 MiB + 128 N
 * of them, eight times over.  A byte of metadata is charged ZN_NOTES times as memory and once as
 * work: nobody needs to pack text as tightly as a white page. */

#ifndef __ZENITH_BUDGET_H__
#define __ZENITH_BUDGET_H__

#include <glib.h>

#define ZN_COPIES 4 /* of a picture: before and after the filter, a decoder's, the encoded file */
#define ZN_NOTES 16 /* of a byte of metadata */
#define ZN_ITEM                                                                                    \
  1024 /* bytes of work for a chunk, marker or entry of a directory, whatever is in it */

typedef struct
{
  GMutex lock;
  GCond  freed;
  gsize  limit; /* bytes */
  gsize  used;
  gint   stop; /* atomic */
} ZnBudget;

typedef struct
{
  ZnBudget *budget; /* NULL: none is asked */
  guint64   size;   /* of the file */
  guint64   memory, memory_max;
  guint64   work, work_max;
  gsize     held; /* of the budget */
} ZnShare;

/* The limit is $ZENITH_MEMORY, or 1 GiB if that is not set. */
void zn_budget_init (ZnBudget *budget);

/* From now on every charge fails with ZN_ERROR_CANCELLED, and nobody waits. */
void     zn_budget_stop (ZnBudget *budget);
gboolean zn_budget_stopped (ZnBudget *budget);

/* What a file of that size may cost; G_MAXUINT64: anything, for what we make ourselves. */
void zn_share_begin (ZnShare *share, ZnBudget *budget, guint64 size);
void zn_share_end (ZnShare *share);

/* FALSE and an error message if it is too much: then do not spend it. */
gboolean zn_share_memory (ZnShare *share, guint64 bytes, GError **error);
gboolean zn_share_work (ZnShare *share, guint64 bytes, GError **error);

/* Takes the memory charged so far from the budget, and waits for it.  What is charged later is taken
 * at once: who waits while he holds some could wait for ever. */
gboolean zn_share_wait (ZnShare *share, GError **error);

#endif
