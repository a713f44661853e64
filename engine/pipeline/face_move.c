/* SPDX-License-Identifier: MIT */
/* face_move.c - what attributes do to a code, and where the face is that they may change.
 *
 *   code ── z = (code - mean) / deviation ──┬── moves of the attributes ── cond
 *                                           └── mask: logits of cells ── side x side values of 0..1 */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ellipses around the eyes of a frame: centres, half axes, and how fast they end, of its side; and the logit inside. */
static const double eye_x[] = { 0.32, 0.68 }, eye_y = 0.28, eye_w = 0.133, eye_h = 0.1, eye_edge = 0.06, eye_logit = 3;

enum { AROUND = 10 /* pixels of the model around a change */ };
static const float visible = 1.0f / 256; /* part of a change */

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

float zn_map_between(const float *map, int cells, int side, int px, int py)
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

/* Eyes are face, though they look like dark hair. */
static void raise_eyes(float *logit, int cells)
{
    for (int i = 0; i < cells * cells; i++)
        for (int k = 0; k < 2; k++) {
            const double x = ((i % cells + 0.5) / cells - eye_x[k]) / eye_w;
            const double y = ((i / cells + 0.5) / cells - eye_y) / eye_h;

            logit[i] = fmaxf(logit[i], (float)fmin((1 - sqrt(x * x + y * y)) / eye_edge, eye_logit));
        }
}

/* Holes of the face are closed: a cell gets at least the largest value that must be passed on any way from it to the
 * edge.  filled: as large as logit. */
static void fill_holes(float *logit, float *filled, int cells)
{
    const int n = cells * cells;
    bool falls = true;

    for (int i = 0; i < n; i++) {
        const int x = i % cells, y = i / cells;

        filled[i] = x && y && x < cells - 1 && y < cells - 1 ? INFINITY : logit[i];
    }
    while (falls) {
        falls = false;
        for (int i = cells; i < n - cells; i++) {
            const float *f = filled + i;
            const float least = fminf(fminf(f[-1], f[1]), fminf(f[-cells], f[cells]));

            if (i % cells && i % cells < cells - 1 && fmaxf(least, logit[i]) < filled[i]) {
                filled[i] = fmaxf(least, logit[i]);
                falls = true;
            }
        }
    }
    memcpy(logit, filled, (size_t)n * sizeof *logit);
}

void zn_face_mask_clear(zn_face_mask *m)
{
    free(m->face);
    free(m->change);
    *m = (zn_face_mask){ 0 };
}

zn_rect zn_face_mask_bounds(const zn_face_mask *m, int side)
{
    int x0 = side, y0 = side, x1 = 0, y1 = 0;

    for (int i = 0; i < side * side; i++)
        if (!m->change || m->change[i] > visible) {
            const int x = i % side, y = i / side;

            x0 = zn_imin(x0, x);
            y0 = zn_imin(y0, y);
            x1 = zn_imax(x1, x + 1);
            y1 = zn_imax(y1, y + 1);
        }
    x0 = zn_imax(x0 - AROUND, 0);
    y0 = zn_imax(y0 - AROUND, 0);
    return (zn_rect){ x0, y0, zn_imax(zn_imin(x1 + AROUND, side) - x0, 1),
                      zn_imax(zn_imin(y1 + AROUND, side) - y0, 1) };
}

bool zn_face_mask_make(zn_face_mask *m, int side, const zn_attribute *a, int n_attributes, const float *code,
                       const float *cond, int n)
{
    const size_t cells = (size_t)a->cells * (size_t)a->cells, pixels = (size_t)side * (size_t)side;
    float *logit, *region, *filled, *z;

    zn_face_mask_clear(m);
    for (int j = 0; j < n_attributes; j++)
        if (!a[j].cells || a[j].cells != a->cells)
            return true;
    m->side = side;
    m->face = malloc(pixels * sizeof *m->face);
    m->change = malloc(pixels * sizeof *m->change);
    logit = malloc((3 * cells + (size_t)n) * sizeof *logit);
    if (!m->face || !m->change || !logit) {
        free(logit);
        zn_face_mask_clear(m);
        return false;
    }
    region = logit + cells;
    filled = region + cells;
    z = filled + cells;
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
    raise_eyes(logit, a->cells);
    fill_holes(logit, filled, a->cells);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const size_t i = (size_t)y * (size_t)side + (size_t)x;

            m->face[i] = 1.0f / (1.0f + expf(-zn_map_between(logit, a->cells, side, x, y)));
            m->change[i] = m->face[i] * zn_map_between(region, a->cells, side, x, y);
        }
    free(logit);
    return true;
}
