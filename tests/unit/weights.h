/* SPDX-License-Identifier: MIT */
/* weights.h - what the two tests of weight files share. */
#ifndef ZN_TEST_WEIGHTS_H
#define ZN_TEST_WEIGHTS_H

#include "../../engine/core/weightfile.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

#ifndef ZN_SOURCE_ROOT
#define ZN_SOURCE_ROOT "."
#endif
#define ZN_TEST_DATA ZN_SOURCE_ROOT "/tests/data/weights"

static inline const char *join(const char *folder, const char *name)
{
    static char path[2][1024];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* The bytes of a file in a block of exactly its size, so that the sanitizer sees its end. */
static inline unsigned char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    unsigned char *p = n < 0 ? NULL : malloc((size_t)n + !n);

    if (p && (fseek(f, 0, SEEK_SET) || fread(p, 1, (size_t)n, f) != (size_t)n)) {
        free(p);
        p = NULL;
    }
    if (f)
        fclose(f);
    *size = p ? (size_t)n : 0;
    return p;
}

static inline zn_weights *open_one(const char *path, zn_error *err)
{
    zn_weights *w;

    zn_weights_open(&w, &path, 1, err);
    return w;
}

/* Do the n elements of a tensor have these values?  NAN is equal to itself here. */
static inline bool holds(const zn_weights *w, const char *name, size_t n, const float *want)
{
    const zn_entry *e = zn_weights_get(w, name);
    float got[64];

    if (!e || zn_entry_len(e) != n || n > 64)
        return false;
    zn_entry_read(e, got, NULL);
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i])))
            return false;
    return true;
}

#endif
