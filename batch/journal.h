/* SPDX-License-Identifier: MIT */
/* journal.h - which settings made which result.
 *
 * A text file in the result folder, .zenith-batch, or .zenith-batch.I-of-N for a shard,
 * so that no two machines write to one.  One line for each result, fields separated by
 * tabs:
 *
 *   name  input's size and time  result's size, time and SHA-256  version  settings  check
 *
 * The settings end with what computed the result: " computed-by=avx2 fp32".
 * Times are in nanoseconds; names and settings have %XX for what is not printable; the
 * check is the start of a SHA-256 of the line before it.  A line is written, and is on
 * the disk, before its result gets its name: after any interruption, a line is valid if the result
 * is what the line says.  Truncated or invalid lines are ignored. */

#ifndef __ZENITH_JOURNAL_H__
#define __ZENITH_JOURNAL_H__

#include "writer.h"

typedef enum
{
  ZN_RESULT_NONE,   /* there is none                                          */
  ZN_RESULT_DONE,   /* made of this input with these settings                 */
  ZN_RESULT_OLD,    /* ours, but of other settings or an older input          */
  ZN_RESULT_FOREIGN /* not ours, or changed since                             */
} ZnResult;

typedef struct _ZnJournal ZnJournal;

/* Reads all journals of the folder, which may not be there yet. */
ZnJournal *zn_journal_read (ZnFolder *folder, const gchar *shard);
void       zn_journal_free (ZnJournal *journal);

/* Makes it ready for zn_journal_add(). */
gboolean zn_journal_open (ZnJournal *journal, GError **error);

/* result is as zn_folder_look() found it.  engine: NULL, or a result of another one is OLD.
 * *computed_by: what made a result that is DONE; "": unknown. */
ZnResult zn_journal_state (ZnJournal         *journal,
                           const gchar       *name,
                           const struct stat *input,
                           const struct stat *result,
                           const gchar       *settings,
                           const gchar       *engine,
                           const gchar      **computed_by);

/* The settings as they are written; free them. */
gchar *zn_journal_words (const gchar *settings, const gchar *computed_by);

/* Any thread may call. */
gboolean zn_journal_add (ZnJournal         *journal,
                         const gchar       *name,
                         const struct stat *input,
                         const ZnPart      *part,
                         const gchar       *settings,
                         GError           **error);

#endif
