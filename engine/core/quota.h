/* SPDX-License-Identifier: MIT */
/* quota.h - how much of its CPUs a container may use (Linux control groups, versions 1 and 2). */
#ifndef ZN_QUOTA_H
#define ZN_QUOTA_H

#include <stdbool.h>

/* Thousandths of a CPU; 0: no limit.  root: /sys/fs/cgroup; groups: /proc/self/cgroup. */
long zn_cpu_quota(const char *root, const char *groups);

/* Threads for so many CPUs and such a quota: a part of a CPU is one more, since two threads with a quota of 1.1 CPUs are
 * faster than one. */
int zn_quota_threads(int cpus, long quota);

#endif
