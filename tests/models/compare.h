/* SPDX-License-Identifier: MIT */
/* compare.h - runs of models on golden inputs against golden outputs, for the tests of networks of several inputs. */
#ifndef ZN_COMPARE_H
#define ZN_COMPARE_H

#include "golden.h"

#include <string.h>

static zn_engine *engine; /* opened by main */

/* One run of a model on golden inputs, against a golden output.  set: NULL, or settings; one without a key ends them. */
static void compare(const char *file, const char *id, const char *const *inputs, const zn_value *set,
                    const char *output, double most)
{
    zn_array in[ZN_MAX_PORTS] = { { 0 } }, want = load(output), out = { 0 };
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_job job = { .set = set };
    zn_error err = { "" };
    zn_model *m = NULL;
    int n = 0;

    while (set && set[job.n_set].key)
        job.n_set++;
    for (; inputs[n]; n++)
        in[n] = load(inputs[n]);
    CHECK(!zn_model_open(&m, engine, id, &open, &err), "%s", err.text);
    if (m && !zn_model_shape(m, in, n, &out, &err) && out.h == want.h && out.w == want.w && out.c == want.c) {
        double d;

        out.data = malloc(zn_array_len(&out) * sizeof(float));
        CHECK(!zn_model_run(m, in, n, &out, &job, &err), "%s", err.text);
        d = relative(out.data, (size_t)out.c, &want);
        CHECK(d <= most, "%s is off by %g, not %g", output, d, most);
    } else {
        CHECK(0, "%s: another shape, or %s", id, err.text);
    }
    for (int i = 0; i < n; i++)
        free(in[i].data);
    free(out.data);
    free(want.data);
    zn_model_close(&m);
}

#endif
