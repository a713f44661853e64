/* SPDX-License-Identifier: MIT */
/* quota.h - how much of its CPUs a container may use (Linux control groups, versions 1 and 2). */
#ifndef ZN_QUOTA_H
#define ZN_QUOTA_H

#include <stdbool.h>

/* Thousandths of a CPU; 0: no limit.  root: /sys/fs/cgroup; groups: /proc/self/cgroup. */
long zn_cpu_quota(const char *root, const char *groups);

#endif
