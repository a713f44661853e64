/* SPDX-License-Identifier: MIT */
/* face_move.c - what attributes do to a code, and where the face is that they may change.
 *
 *   code ── z = (code - mean) / deviation ──┬── moves of the attributes ── cond
 *                                           └── mask: logits of cells ── side x side values of 0..1 */
#include "face.h"

#include <math.h>
#include <stdlib.h>

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;

    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void normalise(float *z, const float *code, const zn_attribute *a, int n)
{
    for (int i = 0; i < n; i++)
        z[i] = (code[i] - a->mean[i]) / a->deviation[i];
}

bool zn_attribute_move(float *cond, const float *code, const zn_attribute *a, int n)
{
    float *z = a->hidden ? malloc((size_t)(n + a->hidden) * sizeof *z) : NULL, *t = z + (z ? n : 0);

    if (a->hidden && !z)
        return false;
    if (z)
        normalise(z, code, a, n);
    for (int h = 0; h < a->hidden; h++)
        t[h] = tanhf(a->bias[h] + dot(a->inner + (size_t)h * (size_t)n, z, n));
    for (int i = 0; i < n; i++)
        cond[i] +=
            (float)a->gain * (a->shift[i] + (z ? dot(a->outer + (size_t)i * (size_t)a->hidden, t, a->hidden) : 0.0f));
    free(z);
    return true;
}

/* ---- the mask --------------------------------------------------------------------------------------------------- */

/* map [cells][cells] at a pixel of side x side: linear between the centres of cells, beyond them as at the edge. */
static float between(const float *map, int cells, int side, int px, int py)
{
    const double x = fmin(fmax((px + 0.5) * cells / side - 0.5, 0), cells - 1);
    const double y = fmin(fmax((py + 0.5) * cells / side - 0.5, 0), cells - 1);
    const int x0 = (int)x, y0 = (int)y, right = x0 + 1 < cells, below = y0 + 1 < cells ? cells : 0;
    const float *m = map + (size_t)y0 * (size_t)cells + x0;
    const double u = x - x0, v = y - y0;

    return (float)((1 - v) * ((1 - u) * (double)m[0] + u * (double)m[right]) +
                   v * ((1 - u) * (double)m[below] + u * (double)m[below + right]));
}

/* logit = the larger of logit and what the mask says of this code. */
static void raise_logits(float *logit, const float *z, const zn_attribute *a, int n)
{
    for (int i = 0; i < a->cells * a->cells; i++)
        logit[i] = fmaxf(logit[i], a->mask_bias[i] + dot(a->mask_weight + (size_t)i * (size_t)n, z, n));
}

void zn_face_mask_clear(zn_face_mask *m)
{
    free(m->face);
    free(m->change);
    *m = (zn_face_mask){ NULL, NULL };
}

bool zn_face_mask_make(zn_face_mask *m, int side, const zn_attribute *a, int n_attributes, const float *code,
                       const float *cond, int n)
{
    const size_t cells = (size_t)a->cells * (size_t)a->cells, pixels = (size_t)side * (size_t)side;
    float *logit, *region, *z;

    zn_face_mask_clear(m);
    for (int j = 0; j < n_attributes; j++)
        if (!a[j].cells || a[j].cells != a->cells)
            return true;
    m->face = malloc(pixels * sizeof *m->face);
    m->change = malloc(pixels * sizeof *m->change);
    logit = malloc((2 * cells + (size_t)n) * sizeof *logit);
    if (!m->face || !m->change || !logit) {
        free(logit);
        zn_face_mask_clear(m);
        return false;
    }
    region = logit + cells;
    z = region + cells;
    for (size_t i = 0; i < cells; i++) {
        logit[i] = -INFINITY;
        region[i] = 0;
        for (int j = 0; j < n_attributes; j++)
            region[i] = fmaxf(region[i], a[j].region[i]);
    }
    normalise(z, code, a, n);
    raise_logits(logit, z, a, n);
    normalise(z, cond, a, n);
    raise_logits(logit, z, a, n);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const size_t i = (size_t)y * (size_t)side + (size_t)x;

            m->face[i] = 1.0f / (1.0f + expf(-between(logit, a->cells, side, x, y)));
            m->change[i] = m->face[i] * between(region, a->cells, side, x, y);
        }
    free(logit);
    return true;
}
