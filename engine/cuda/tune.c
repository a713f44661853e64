/* SPDX-License-Identifier: MIT */
/* tune.c - the fastest of several ways to compute a layer: measured once, then remembered.
 *
 * The memory is a text file in the user's cache folder, a line a layer: "KEY<tab>WAY<newline>", with the GPU's name
 * and this version in the file's name.  It is read as any file from outside: a line that makes no sense is passed over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda.h"

enum { MAX_CHOICES = 1024, KEY_SIZE = 160, TRIES = 3 };

typedef struct choice {
    char key[KEY_SIZE];
    int way;
} choice;

struct zn_cuda_choices {
    int n;
    char path[1024]; /* "": not kept */
    choice at[MAX_CHOICES];
};

static const choice *find(const struct zn_cuda_choices *c, const char *key)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->at[i].key, key))
            return &c->at[i];
    return NULL;
}

static void add(struct zn_cuda_choices *c, const char *key, int way)
{
    if (c->n == MAX_CHOICES || strlen(key) >= KEY_SIZE || find(c, key))
        return;
    memcpy(c->at[c->n].key, key, strlen(key) + 1);
    c->at[c->n++].way = way;
}

static void read_file(struct zn_cuda_choices *c)
{
    char line[KEY_SIZE + 32], *tab, *end;
    FILE *f = c->path[0] ? fopen(c->path, "r") : NULL;

    while (f && fgets(line, sizeof line, f)) {
        long way;

        tab = strchr(line, '\t');
        if (!tab)
            continue;
        *tab = 0;
        way = strtol(tab + 1, &end, 10);
        if (end != tab + 1 && *end == '\n' && way >= 0 && way < 64)
            add(c, line, (int)way);
    }
    if (f)
        fclose(f);
}

/* $XDG_CACHE_HOME/zenith/cuda-NAME-VERSION, the folder made if need be. */
static void set_path(struct zn_cuda_choices *c, const char *gpu)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[800];
    size_t n;

    if (cache && *cache)
        snprintf(folder, sizeof folder, "%.700s", cache);
    else if (home && *home)
        snprintf(folder, sizeof folder, "%.700s/.cache", home);
    else
        return;
    mkdir(folder, 0777);
    n = strlen(folder);
    snprintf(folder + n, sizeof folder - n, "/zenith");
    if (mkdir(folder, 0777) && errno != EEXIST)
        return;
    snprintf(c->path, sizeof c->path, "%.760s/cuda-%.80s-%s.txt", folder, gpu, zn_version());
    for (char *p = c->path + strlen(folder) + 1; *p; p++)
        if (*p == ' ' || *p == '/')
            *p = '_';
}

struct zn_cuda_choices *zn_cuda_choices_open(const char *gpu)
{
    struct zn_cuda_choices *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    set_path(c, gpu);
    read_file(c);
    return c;
}

void zn_cuda_choices_close(struct zn_cuda_choices **c)
{
    free(*c);
    *c = NULL;
}

/* Writes the choices from the given one on: each line in one piece, so that two processes do not mix theirs. */
static void write_file(const struct zn_cuda_choices *c, int from, const char *how)
{
    FILE *f = c->path[0] ? fopen(c->path, how) : NULL;

    if (!f)
        return; /* measured again next time */
    for (int i = from; i < c->n; i++) {
        fprintf(f, "%s\t%d\n", c->at[i].key, c->at[i].way);
        fflush(f);
    }
    fclose(f);
}

static void keep(struct zn_cuda_choices *c, const char *key, int way)
{
    bool full = c->n == MAX_CHOICES;

    if (strlen(key) >= KEY_SIZE)
        return;
    if (full) { /* the older half is forgotten, in the file too */
        c->n = MAX_CHOICES / 2;
        memmove(c->at, c->at + MAX_CHOICES - c->n, (size_t)c->n * sizeof *c->at);
    }
    add(c, key, way);
    write_file(c, full ? 0 : c->n - 1, full ? "w" : "a");
}

typedef struct one {
    void (*try_way)(void *cookie, int i);
    void *cookie;
    int way;
} one;

static void try_one(void *cookie)
{
    one *o = cookie;

    o->try_way(o->cookie, o->way);
}

int zn_cuda_tune(zn_cuda *d, const char *key, int n, void (*try_way)(void *cookie, int i), void *cookie)
{
    const choice *known = d->choices ? find(d->choices, key) : NULL;
    double best_ms = 0;
    int best = 0;

    if (!known && d->choices) { /* another device or program may have measured it meanwhile: then the same way here */
        read_file(d->choices);
        known = find(d->choices, key);
    }
    if (known)
        return known->way < n ? known->way : 0;
    if (!d->choices || zn_cuda_recording(d))
        return 0;
    for (int i = 0; i < n; i++) {
        one o = { try_way, cookie, i };

        try_one(&o); /* warm: the kernel is loaded at its first start */
        for (int j = 0; j < TRIES; j++) {
            double ms = zn_cuda_time(d, try_one, &o);

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
