/* SPDX-License-Identifier: MIT */
/* options.c - what all commands use: messages, clocks, and the settings among the options. */
#include "cli.h"

#include "../zenith_number.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void complain(const char *fmt, va_list ap)
{
    fputs("zenith: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

static double ms_of(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return 1e3 * (double)ts.tv_sec + 1e-6 * (double)ts.tv_nsec;
}

double now_ms(void)
{
    return ms_of(CLOCK_MONOTONIC);
}

double cpu_ms(void)
{
    return ms_of(CLOCK_PROCESS_CPUTIME_ID);
}

int fail(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    complain(fmt, ap);
    va_end(ap);
    return EXIT_FAILED;
}

int usage(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    complain(fmt, ap);
    va_end(ap);
    return EXIT_USAGE;
}

bool show_progress(void *cookie, double done)
{
    (void)cookie;
    fprintf(stderr, "\r%3.0f %%%s", 100 * done, done >= 1 ? "\n" : "");
    return true;
}

const char *precision_of(const options *o)
{
    const char *precision = NULL;

    for (int i = 0; i < o->n_set; i++)
        if (!strncmp(o->set[i], "precision=", 10))
            precision = o->set[i] + 10;
    return precision;
}

int job_settings(job_set *set, const options *o, zn_error *err)
{
    int n = 0;

    for (int i = 0; i < o->n_set; i++) {
        const char *value = strchr(o->set[i], '=');

        if (!strncmp(o->set[i], "precision=", 10))
            continue;
        if (!value || !zn_number_parse(&set->value[n].value, value + 1, NULL)) {
            snprintf(err->text, sizeof err->text,
                     "--set takes KEY=NUMBER, such as steps=20 or sigma=12.5, not '%.200s'", o->set[i]);
            return -1;
        }
        snprintf(set->key[n], sizeof set->key[n], "%.*s", (int)(value - o->set[i]), o->set[i]);
        set->value[n].key = set->key[n];
        n++;
    }
    return n;
}
