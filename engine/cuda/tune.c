/* SPDX-License-Identifier: MIT */
/* tune.c - autotuning: finds the fastest of several kernels for a layer once, and saves the choice.
 *
 * Choices are kept in a text file in the user's cache folder, one line per layer: "KEY<tab>CHOICE<newline>".  The GPU and
 * this version are in the file's name.  It is read like any file from outside: only a regular file, no link, of at most
 * MAX_SIZE bytes; an invalid line is skipped.  It is replaced by rename, so readers never see half a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/cachefile.h"
#include "../zenith_file.h"
#include "cuda.h"

enum { MAX_CHOICES = 1024, KEY_SIZE = 160, TRIES = 3, MAX_SIZE = 1 << 20 };

typedef struct choice {
    char key[KEY_SIZE];
    int candidate;
} choice;

struct zn_cuda_choices {
    int n;
    char path[ZN_CACHE_PATH]; /* "": not kept */
    choice at[MAX_CHOICES];
};

static const choice *find(const struct zn_cuda_choices *c, const char *key)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->at[i].key, key))
            return &c->at[i];
    return NULL;
}

static void add(struct zn_cuda_choices *c, const char *key, int candidate)
{
    if (c->n == MAX_CHOICES || strlen(key) >= KEY_SIZE || find(c, key))
        return;
    memcpy(c->at[c->n].key, key, strlen(key) + 1);
    c->at[c->n++].candidate = candidate;
}

/* Adds the choices of the file that c lacks. */
static void read_file(struct zn_cuda_choices *c)
{
    char line[KEY_SIZE + 32], *tab, *end;
    FILE *f = c->path[0] ? zn_cache_open(c->path, MAX_SIZE) : NULL;

    for (long size = 0; f && size <= MAX_SIZE && fgets(line, sizeof line, f); size += (long)strlen(line)) {
        long candidate;

        tab = strchr(line, '\t');
        if (!tab)
            continue;
        *tab = 0;
        candidate = strtol(tab + 1, &end, 10);
        if (end != tab + 1 && *end == '\n' && candidate >= 0 && candidate < 64)
            add(c, line, (int)candidate);
    }
    if (f)
        fclose(f);
}

struct zn_cuda_choices *zn_cuda_choices_open(const char *gpu)
{
    struct zn_cuda_choices *c = calloc(1, sizeof *c);
    char name[200];

    if (!c)
        return NULL;
    snprintf(name, sizeof name, "cuda-%.80s-%s.txt", gpu, zn_version());
    zn_cache_path(c->path, name);
    read_file(c);
    return c;
}

void zn_cuda_choices_close(struct zn_cuda_choices **c)
{
    free(*c);
    *c = NULL;
}

/* Writes all choices.  On failure the layer is measured again next time. */
static void write_file(const struct zn_cuda_choices *c)
{
    zn_output out;

    if (!c->path[0] || zn_cache_taken(c->path) || zn_output_begin(&out, c->path, NULL))
        return;
    for (int i = 0; i < c->n; i++)
        fprintf(out.f, "%s\t%d\n", c->at[i].key, c->at[i].candidate);
    zn_output_end(&out, ZN_OK, NULL);
}

/* The caller has just read the file, so what other processes have measured is kept. */
static void keep(struct zn_cuda_choices *c, const char *key, int candidate)
{
    if (strlen(key) >= KEY_SIZE)
        return;
    if (c->n == MAX_CHOICES) { /* forget the older half */
        c->n = MAX_CHOICES / 2;
        memmove(c->at, c->at + MAX_CHOICES - c->n, (size_t)c->n * sizeof *c->at);
    }
    add(c, key, candidate);
    write_file(c);
}

typedef struct one {
    void (*try_one)(void *cookie, int i);
    void *cookie;
    int candidate;
} one;

static void launch_one(void *cookie)
{
    one *o = cookie;

    o->try_one(o->cookie, o->candidate);
}

int zn_cuda_tune(zn_cuda *d, const char *key, int n, void (*try_one)(void *cookie, int i), void *cookie)
{
    const choice *known = d->choices ? find(d->choices, key) : NULL;
    double best_ms = 0;
    int best = 0;

    if (!known && d->choices) { /* another process may have measured it: then the same choice here */
        read_file(d->choices);
        known = find(d->choices, key);
    }
    if (known)
        return known->candidate < n ? known->candidate : 0;
    if (!d->choices || zn_cuda_recording(d))
        return 0;
    for (int i = 0; i < n; i++) {
        one o = { try_one, cookie, i };

        launch_one(&o); /* not timed: the first launch loads the kernel */
        for (int j = 0; j < TRIES; j++) {
            double ms = zn_cuda_time(d, launch_one, &o);

            if (ms > 0 && (best_ms == 0 || ms < best_ms)) {
                best_ms = ms;
                best = i;
            }
        }
    }
    if (!d->status)
        keep(d->choices, key, best);
    return best;
}
