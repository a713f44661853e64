/* SPDX-License-Identifier: MIT */
/* ahead.h - sets of tensors that a thread of its own reads from their files before they are needed.
 *
 *     zn_ahead_new, then for each set: zn_ahead_next_set, zn_ahead_add ...      what there is to read
 *     zn_ahead_open                                                             a buffer for one set, and the thread
 *     zn_ahead_start(a, 3)        begins to read set 3, while the caller does something else
 *     zn_ahead_wait(a, 3, ...)    until it is in the buffer
 *     zn_ahead_entry(a, e)        a tensor of that set as it lies in the buffer, up to the next start of another set
 *
 * One caller at a time.  The weights must be open as long as the reader. */
#ifndef ZN_AHEAD_H
#define ZN_AHEAD_H

#include "threads.h"
#include "weights.h"

typedef struct zn_ahead zn_ahead;

/* Bytes that a tensor takes in a buffer, with its scales and offsets. */
size_t zn_ahead_room(const zn_entry *e);

zn_ahead *zn_ahead_new(void); /* NULL: no memory */
/* False: no memory. */
bool zn_ahead_next_set(zn_ahead *a);
bool zn_ahead_add(zn_ahead *a, const zn_entry *e); /* to the last set */
zn_status zn_ahead_open(zn_ahead *a, zn_error *err);
void zn_ahead_close(zn_ahead **a); /* stops the thread */

/* Nothing happens if the set is in the buffer or on its way there.  Another one that is being read is given up. */
void zn_ahead_start(zn_ahead *a, int set);

/* Starts the set if need be, and waits for it.  poll, which may be NULL, is called every ZN_POLL_MS; false ends the wait with
 * ZN_E_CANCELLED and no message, and the thread continues to read. */
zn_status zn_ahead_wait(zn_ahead *a, int set, zn_poll *poll, void *cookie, zn_error *err);

/* NULL: not a tensor of the set that was waited for. */
const zn_entry *zn_ahead_entry(const zn_ahead *a, const zn_entry *e);

#endif
