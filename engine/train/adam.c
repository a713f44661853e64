/* SPDX-License-Identifier: MIT */
#include "adam.h"

#include <math.h>

enum { CHUNK = 1 << 15 };

typedef struct adam_job {
    const zn_adam *a;
    zn_net *net;
    real rate, root, keep; /* rate / (1 - b1^t), 1 / sqrt(1 - b2^t), 1 - rate * decay */
} adam_job;

static void adam_item(void *cookie, int item, int worker)
{
    const adam_job *job = cookie;
    const real b1 = (real)0.9, b2 = (real)0.999, eps = (real)1e-8;
    const real rate = job->rate, scale = job->root, keep = job->keep;
    size_t first = (size_t)item * CHUNK, n = job->net->len - first < CHUNK ? job->net->len - first : CHUNK;
    real *restrict w = job->net->w + first, *restrict m = job->a->m + first, *restrict v = job->a->v + first;
    const real *restrict g = job->net->g + first;

    (void)worker;
    for (size_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + (1 - b1) * g[i];
        v[i] = b2 * v[i] + (1 - b2) * (g[i] * g[i]);
#ifdef ZN_TRAIN_DOUBLE
        w[i] = keep * w[i] - rate * m[i] / (sqrt(v[i]) * scale + eps);
#else
        w[i] = keep * w[i] - rate * m[i] / (sqrtf(v[i]) * scale + eps);
#endif
    }
}

void zn_adam_update(zn_adam *a, zn_net *net)
{
    adam_job job = { .a = a, .net = net };
    double t = (double)++a->step;

    job.rate = (real)(a->rate / (1 - pow(0.9, t)));
    job.root = (real)(1 / sqrt(1 - pow(0.999, t)));
    job.keep = (real)(1 - a->rate * a->decay);
    zn_pool_run(net->dev->pool, adam_item, &job, zn_items(net->len, CHUNK));
}
