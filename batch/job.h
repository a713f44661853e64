/* SPDX-License-Identifier: MIT */
/* job.h - one picture, from its file to its result.
 *
 *   open --> decode --> filter --> encode into memory --> metadata
 *     --> temporary file --> journal --> rename
 */

#ifndef __ZENITH_JOB_H__
#define __ZENITH_JOB_H__

#include "budget.h"
#include "journal.h"
#include "scan.h"
#include "writer.h"
#include "zenith-settings.h"

/* What all jobs have in common. */
typedef struct
{
  const ZnSettings *settings;
  gchar            *words;  /* the settings as text: "zenith:denoise model=fast ..." */
  gchar            *engine; /* the one that was asked for, or NULL: any */
  ZnScan            scan;
  ZnFolder          folder;
  ZnJournal        *journal; /* NULL: one picture with a name for its result */
  ZnBudget          budget;
  gboolean          prompts;   /* inputs are texts, results are new */
  gboolean          overwrite; /* also files that zenith-batch did not write */
  gboolean          in_place;
  gint              part;    /* of the picture that is in the filter, of 1000: atomic */
  GRWLock           writing; /* read: by who writes a result, write: by who must not cut one */
} ZnBatch;

/* Whether the result exists, and what computed it ("": unknown).  FALSE and an error message if it cannot be made, for a reason that is
 * known without reading the picture. */
gboolean zn_job_look (ZnBatch       *batch,
                      const ZnInput *input,
                      ZnResult      *state,
                      const gchar  **computed_by,
                      GError       **error);

/* *computed_by: what made the result, "" where no network ran; free it. */
gboolean zn_job_run (ZnBatch *batch, const ZnInput *input, gchar **computed_by, GError **error);

/* Whether the filter works at all; if not, why. */
gboolean zn_job_try (const ZnBatch *batch, GError **error);

#endif
