/* SPDX-License-Identifier: MIT */
/* selftest.h - the self-test at the level of a backend, for zn_selftest and for tests of the test. */
#ifndef ZN_SELFTEST_H
#define ZN_SELFTEST_H

#include "../backend.h"

typedef void zn_report(void *cookie, const char *name, bool ok, const char *detail);

/* Like zn_selftest.  Opens the backend twice: with one thread and with n_threads (0: one per core). */
int zn_selftest_backend(const zn_backend *backend, int n_threads, const char *only, zn_report *report, void *cookie);

/* Only the operations of one group: "conv", "norm", "attention", "move", "elementwise", ...
 * (the list is in selftest.c), until a case fails.  A name that is not in the list runs nothing. */
int zn_selftest_fails(const zn_backend *backend, int n_threads, const char *group, zn_report *report, void *cookie);

/* Of convolutions, gated blocks, norms, attention and transforms only every n-th case, all of the others: for emulators. */
int zn_selftest_sample(const zn_backend *backend, int n_threads, int every, zn_report *report, void *cookie);

/* Whether a precision has cases of its own.  One that stores weights in another type and changes nothing else is covered
 * by cases of fp32 (check_stored). */
bool zn_selftest_has(const zn_backend *b, void *dev, zn_precision p);

/* Is this case to run?  only: see zn_selftest. */
bool zn_selftest_wants(const char *only, zn_precision precision, const char *name);

#endif
