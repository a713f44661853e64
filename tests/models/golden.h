/* SPDX-License-Identifier: MIT */
/* golden.h - tensors of one golden file, and how far a result is from them. */
#ifndef ZN_TEST_GOLDEN_H
#define ZN_TEST_GOLDEN_H

#include "../unit/test.h"

#include "core/weights.h"

#include <math.h>
#include <stdlib.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

static zn_weights *golden; /* opened by main */

static zn_array load(const char *name)
{
    const zn_entry *e = zn_weights_get(golden, name);
    zn_array a = { 0 };

    if (!e || e->n_dims != 3) {
        test_note(false, "no golden '%s'", name);
    } else {
        a = (zn_array){ malloc(zn_entry_len(e) * sizeof(float)), (int32_t)e->shape[0], (int32_t)e->shape[1],
                        (int32_t)e->shape[2] };
        zn_entry_read(e, a.data, NULL);
    }
    return a;
}

/* |got - want| / |want|; NaN and other sizes are far. */
static double relative(const float *got, size_t ld, const zn_array *want)
{
    double errors = 0, all = 0;

    for (size_t i = 0; i < (size_t)want->h * (size_t)want->w; i++)
        for (int c = 0; c < want->c; c++) {
            const double w = (double)want->data[i * (size_t)want->c + (size_t)c];

            errors += pow((double)got[i * ld + (size_t)c] - w, 2);
            all += w * w;
        }
    return errors >= 0 ? sqrt(errors / all) : 1;
}

#endif
