/* SPDX-License-Identifier: MIT */
/* threads.h - a pool that runs the items of one loop at a time.
 *
 * Items are handed out in order, one by one, to whichever worker is free; an item's result must not
 * depend on who computes it, so that results are the same bits for every number of threads. */
#ifndef ZN_THREADS_H
#define ZN_THREADS_H

#include <stdbool.h>

typedef struct zn_pool zn_pool;

/* worker is 0 .. zn_pool_size-1, for per-thread scratch memory. */
typedef void zn_task(void *cookie, int item, int worker);

zn_pool *zn_pool_open(int n_threads); /* >= 1, the caller counts as one; NULL: no memory */
void zn_pool_close(zn_pool **pool);
int zn_pool_size(const zn_pool *pool);
void zn_pool_run(zn_pool *pool, zn_task *task, void *cookie, int n_items); /* returns when all are done */

/* From now on, while this thread runs a loop, it calls poll between two of its own items, every ZN_POLL_MS at most.
 * False: items that have not started are dropped, and the result of the loop must not be used.  poll NULL ends it. */
enum { ZN_POLL_MS = 40 };
typedef bool zn_poll(void *cookie);
void zn_pool_watch(zn_poll *poll, void *cookie);

int zn_cpu_count(void);
double zn_now_ms(void); /* a clock that only goes forward */

#endif
