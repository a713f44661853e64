/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096, LINE = 512 };

static bool read_line(char line[LINE], const char *path)
{
    FILE *f = fopen(path, "r");
    const bool ok = f && fgets(line, LINE, f);

    if (f)
        fclose(f);
    return ok;
}

/* Thousandths of a CPU; 0: no limit. */
static long share(long long quota, long long period)
{
    const double cpus = quota > 0 && period > 0 ? (double)quota / (double)period : 0;

    return cpus < 65536 ? (long)(1000 * cpus + 0.5) : 0; /* more is no limit for anyone */
}

/* The limit of one folder: version 2 has "max" or "QUOTA PERIOD" in one file, version 1 a file for each. */
static long limit_of(const char *folder, bool second)
{
    char path[PATH + 32], line[LINE];
    long long quota;
    char *rest;

    snprintf(path, sizeof path, "%s/%s", folder, second ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_line(line, path))
        return 0;
    quota = strtoll(line, &rest, 10);
    if (second)
        return rest == line ? 0 : share(quota, strtoll(rest, NULL, 10));
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return read_line(line, path) ? share(quota, strtoll(line, NULL, 10)) : 0;
}

static long smaller(long a, long b)
{
    return !a ? b : !b || a < b ? a : b;
}

/* The smallest limit of root/group and the folders above it, up to root. */
static long limit_up(const char *root, const char *group, bool second)
{
    char folder[PATH];
    const size_t top = strlen(root);
    long least = 0;

    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder)
        return 0;
    for (char *end;; *end = '\0') {
        least = smaller(least, limit_of(folder, second));
        end = strrchr(folder, '/');
        if (!end || (size_t)(end - folder) < top)
            return least;
    }
}

/* Whether `name` is in a list with commas. */
static bool listed(const char *list, size_t len, const char *name)
{
    const size_t n = strlen(name);

    for (size_t i = 0; i + n <= len; i++)
        if ((i == 0 || list[i - 1] == ',') && !strncmp(list + i, name, n) && (i + n == len || list[i + n] == ','))
            return true;
    return false;
}

long zn_cpu_quota(const char *root, const char *groups)
{
    FILE *f = fopen(groups, "r");
    char line[LINE], v1[PATH];
    long least = 0;

    snprintf(v1, sizeof v1, "%s/cpu", root);
    while (f && fgets(line, sizeof line, f)) { /* NUMBER:CONTROLLERS:/GROUP */
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group)
            continue;
        group[strcspn(group, "\n")] = '\0';
        if (group == controllers + 1)
            least = smaller(least, limit_up(root, group + 1, true));
        else if (listed(controllers + 1, (size_t)(group - controllers - 1), "cpu"))
            least = smaller(least, limit_up(v1, group + 1, false));
    }
    if (f)
        fclose(f);
    /* In a container the group's name may be that outside, of which there is no folder. */
    return smaller(least, smaller(limit_of(root, true), limit_of(v1, false)));
}

int zn_quota_threads(int cpus, long quota)
{
    return quota && (quota + 999) / 1000 < cpus ? (int)((quota + 999) / 1000) : cpus;
}
