/* SPDX-License-Identifier: MIT */
/* run.h - all pictures: which are to be done, threads, the report.
 *
 * A thread takes one picture from its file to its result.  The networks run one at a
 * time, on all cores, so that the other threads read and write meanwhile. */

#ifndef __ZENITH_RUN_H__
#define __ZENITH_RUN_H__

#include "job.h"

typedef struct
{
  guint    jobs;
  guint    shard, n_shards; /* 1 of 1: all */
  gboolean dry_run;
  gboolean verbose; /* a line for each picture */
} ZnRun;

/* The exit status; usage errors and failures are printed. */
gint zn_run (ZnBatch *batch, const ZnRun *options);

#endif
