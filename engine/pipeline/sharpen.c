/* SPDX-License-Identifier: MIT */
/* sharpen.c - see sharpen.h. */
#include "sharpen.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>

enum { EDGE = ZN_SHARPEN_REACH };

typedef struct columns { /* of five rows; each has EDGE values more at both ends */
    float *mean;         /* binomial, of five */
    float *least, *most; /* of three */
} columns;

/* The last values at both ends are repeated. */
static void extend(float *v, int w)
{
    for (int i = 0; i < EDGE; i++) {
        v[i] = v[EDGE];
        v[EDGE + w + i] = v[EDGE + w - 1];
    }
}

static void along_columns(const columns *c, const float *light, int w, int h, int y)
{
    const float *row[5];

    for (int i = 0; i < 5; i++)
        row[i] = light + (size_t)zn_imin(zn_imax(y + i - 2, 0), h - 1) * (size_t)w;
    for (int x = 0; x < w; x++) {
        const float above = row[1][x], here = row[2][x], below = row[3][x];

        c->mean[EDGE + x] = (row[0][x] + row[4][x]) / 16 + (above + below) / 4 + here * 3 / 8;
        c->least[EDGE + x] = fminf(fminf(above, below), here);
        c->most[EDGE + x] = fmaxf(fmaxf(above, below), here);
    }
    extend(c->mean, w);
    extend(c->least, w);
    extend(c->most, w);
}

static void along_row(float *add, const columns *c, const float *light, int w, float amount)
{
    for (int x = 0; x < w; x++) {
        const float *m = c->mean + x, *lo = c->least + x, *hi = c->most + x;
        const float mean = (m[0] + m[4]) / 16 + (m[1] + m[3]) / 4 + m[2] * 3 / 8;
        const float least = fminf(fminf(lo[1], lo[2]), lo[3]), most = fmaxf(fmaxf(hi[1], hi[2]), hi[3]);
        const float beyond = fminf((most - least) / 2, ZN_SHARPEN_BEYOND);
        const float more = amount * (light[x] - mean);

        add[x] = isfinite(more) ? fminf(fmaxf(more, least - beyond - light[x]), most + beyond - light[x]) : 0;
    }
}

bool zn_sharpen(float *add, const float *light, int w, int h, float amount)
{
    const size_t n = (size_t)w + 2 * EDGE;
    float *rows = malloc(3 * n * sizeof *rows);
    const columns c = { rows, rows + n, rows + 2 * n };

    if (!rows)
        return false;
    for (int y = 0; y < h; y++) {
        along_columns(&c, light, w, h, y);
        along_row(add + (size_t)y * (size_t)w, &c, light + (size_t)y * (size_t)w, w, amount);
    }
    free(rows);
    return true;
}
