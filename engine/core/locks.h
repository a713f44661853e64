/* SPDX-License-Identifier: MIT */
/* locks.h - who waits for whom: turns, locks, and the order of both.
 *
 * A turn is the right to do something that takes long, such as computing on an engine: one thread has it, others wait, and
 * nothing is locked meanwhile.  A lock guards a few fields for a few instructions.
 *
 * The order, in which a thread takes what it needs:
 *
 *   1 ZN_TURN_SESSION    of a session: one task after the other
 *   2 ZN_TURN_STAND_IN   of a model: opening its stand-in
 *   3 ZN_TURN_ENGINE     of an engine: a run, or moving weights.  A host's functions (progress, preview, read, write) are
 *                        called under it
 *   4 ZN_LOCK_SESSION    of a session: its lists.  Nothing is taken, opened, closed or called while it is held
 *
 * The locks inside of core/ (a pool's, a reader's) are last: nothing else is taken under them, and a pool belongs to the
 * thread that has the engine's turn.
 *
 * A turn that is out of order, or that the thread already has, is not waited for: zn_turn_take() says that the engine is busy.  Engines have no order among themselves.  A lock out of order, or a turn that is taken under
 * a lock, is an error of ours: it aborts, unless NDEBUG is defined. */
#ifndef ZN_LOCKS_H
#define ZN_LOCKS_H

#include <pthread.h>

#include "../zenith.h"

typedef enum zn_rank { ZN_TURN_SESSION = 1, ZN_TURN_STAND_IN, ZN_TURN_ENGINE, ZN_LOCK_SESSION } zn_rank;

typedef struct zn_lock {
    pthread_mutex_t mutex;
    zn_rank rank;
} zn_lock;

void zn_lock_init(zn_lock *l, zn_rank rank);
void zn_lock_end(zn_lock *l);
void zn_lock_take(zn_lock *l);
void zn_lock_give(zn_lock *l);
void zn_lock_wait(zn_lock *l, pthread_cond_t *changed); /* as pthread_cond_wait */

typedef struct zn_turn {
    pthread_mutex_t mutex; /* guards the next two */
    bool taken;
    pthread_t owner;
    pthread_cond_t given;
    zn_rank rank;
} zn_turn;

void zn_turn_init(zn_turn *t, zn_rank rank);
void zn_turn_end(zn_turn *t);
zn_status zn_turn_take(zn_turn *t, zn_error *err); /* zn_busy(): this thread has it, or one of a later rank */
void zn_turn_give(zn_turn *t);
bool zn_turn_is_mine(zn_turn *t);
zn_status zn_busy(zn_error *err);

/* Whether this thread has a turn of that rank: in a host's function that a run calls, an engine's. */
bool zn_turn_held(zn_rank rank);

#endif
