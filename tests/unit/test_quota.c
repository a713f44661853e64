/* SPDX-License-Identifier: MIT */
/* test_quota.c - the CPU quota of a container, read from made-up control groups. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "core/quota.h"
#include "core/threads.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64], groups[96];

static void put(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}

static void second_version(void)
{
    CHECK(zn_cpu_quota(root, groups) == 0, "no groups: %ld", zn_cpu_quota(root, groups));
    put("self", "0::/a/b\n");
    CHECK(zn_cpu_quota(root, groups) == 0, "no files: %ld", zn_cpu_quota(root, groups));
    put("a/b/cpu.max", "max 100000\n");
    CHECK(zn_cpu_quota(root, groups) == 0, "no limit: %ld", zn_cpu_quota(root, groups));
    put("a/cpu.max", "150000 100000\n");
    CHECK(zn_cpu_quota(root, groups) == 1500, "of the folder above: %ld", zn_cpu_quota(root, groups));
    put("a/b/cpu.max", "50000 100000\n");
    CHECK(zn_cpu_quota(root, groups) == 500, "the smaller: %ld", zn_cpu_quota(root, groups));
    put("self", "0::/elsewhere\n");
    put("cpu.max", "400000 100000\n");
    CHECK(zn_cpu_quota(root, groups) == 4000, "of the root: %ld", zn_cpu_quota(root, groups));
}

static void first_version(void)
{
    put("cpu.max", "max\n");
    put("self", "12:cpuset:/x\n4:cpuacct,cpu:/c\n1:name=systemd:/\n");
    put("cpu/c/cpu.cfs_quota_us", "-1\n");
    put("cpu/c/cpu.cfs_period_us", "100000\n");
    CHECK(zn_cpu_quota(root, groups) == 0, "no limit: %ld", zn_cpu_quota(root, groups));
    put("cpu/c/cpu.cfs_quota_us", "250000\n");
    CHECK(zn_cpu_quota(root, groups) == 2500, "%ld", zn_cpu_quota(root, groups));
}

static void threads(void)
{
    static const struct {
        long quota;
        int cpus, want;
    } of[] = { { 0, 2, 2 },    { 1, 2, 1 },    { 500, 2, 1 },  { 1000, 2, 1 }, { 1001, 2, 2 },
               { 1500, 2, 2 }, { 5000, 2, 2 }, { 2500, 8, 3 }, { 500, 1, 1 } };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        CHECK(zn_quota_threads(of[i].cpus, of[i].quota) == of[i].want, "%ld of %d CPUs: %d threads", of[i].quota,
              of[i].cpus, zn_quota_threads(of[i].cpus, of[i].quota));
}

static void nonsense(void)
{
    static const char *const lines[] = { "", "\n", ":", "::", "0::", "4:cpu", "4:cpu:", "cpu:cpu:cpu", "0::\n/\n" };
    static const char *const limits[] = { "", "x y", "1e300 1", "100 0", "-5 -5", "nan nan", "100000 1e-300" };

    put("self", "0::/a/b\n");
    put("a/cpu.max", "max\n");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        put("a/b/cpu.max", limits[i]);
        CHECK(zn_cpu_quota(root, groups) == 0, "'%s': %ld", limits[i], zn_cpu_quota(root, groups));
    }
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put("self", lines[i]);
        CHECK(zn_cpu_quota(root, groups) >= 0, "'%s'", lines[i]);
    }
    CHECK(zn_cpu_count() >= 1, "%d CPUs", zn_cpu_count());
}

int main(void)
{
    char command[128];

    snprintf(root, sizeof root, "/tmp/zenith-quota-XXXXXX");
    if (!mkdtemp(root))
        return 1;
    snprintf(groups, sizeof groups, "%s/self", root);
    RUN(second_version);
    RUN(first_version);
    RUN(threads);
    RUN(nonsense);
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command) ? 1 : test_end();
}
