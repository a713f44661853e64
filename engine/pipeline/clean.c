/* SPDX-License-Identifier: MIT */
/* clean.c - see clean.h. */
#include "clean.h"

#include "../core/ints.h"
#include "noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8 }; /* pixels a side, of a JPEG file */

/* Between the two of a pair it is not certain whether there is noise.  Measured on 24 clean pictures and 48 with noise of simulated
 * cameras (training/README.md): film grain of 2.5 counts as clean, a camera's noise of 3 does not. */
static const float CALM[2] = { 1.35f, 1.5f }, SMOOTH[2] = { 2.6f, 3.05f }, BLOCKS[2] = { 0.2f, 0.4f };

/* Below CERTAIN a cell is clean whatever the rest is.  Steps beyond EDGE are the picture's own. */
static const float CERTAIN = 0.45f, EDGE = 6.0f / 255;

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float middle(const float v[3])
{
    return fmaxf(fminf(v[0], v[1]), fminf(fmaxf(v[0], v[1]), v[2]));
}

bool zn_signs_calm(zn_signs *s, const zn_cell *cells, size_t n)
{
    float *level = malloc((n ? n : 1) * sizeof *level), calm[3] = { 0 };

    for (int c = 0; level && c < 3; c++) {
        size_t len = 0;

        for (size_t i = 0; i < n; i++)
            if (!cells[3 * i + (size_t)c].plain && cells[3 * i + (size_t)c].level >= CERTAIN)
                level[len++] = cells[3 * i + (size_t)c].level;
        qsort(level, len, sizeof *level, ascending);
        calm[c] = len ? level[len / 20] : 0;
    }
    s->calm = middle(calm);
    free(level);
    return level != NULL;
}

/* ---- steps between blocks ----------------------------------------------------------------------------------- */

typedef struct lattice { /* along one direction, for each place in a block */
    double sum[BLOCK], n[BLOCK];
} lattice;

static float step_of(const float *v, ptrdiff_t apart)
{
    return fabsf(v[apart] - *v);
}

/* Adds by how much each step of green exceeds those before and after it, where none is an edge and not all are flat. */
static void add_steps(lattice *l, const float *rgb, int w, int h, bool down)
{
    const ptrdiff_t apart = down ? 3 * (ptrdiff_t)w : 3;
    const int x1 = down ? w : w - 2, y1 = down ? h - 2 : h;

    for (int y = down; y < y1; y++)
        for (int x = !down; x < x1; x++) {
            const float *v = rgb + ((size_t)y * (size_t)w + (size_t)x) * 3 + 1;
            const float before = step_of(v - apart, apart), here = step_of(v, apart), after = step_of(v + apart, apart);
            const int at = (down ? y : x) % BLOCK;

            if (before < EDGE && here < EDGE && after < EDGE && before + here + after > 0) { /* not NaN */
                l->sum[at] += (double)(here - (before + after) / 2);
                l->n[at]++;
            }
        }
}

/* By how much the place with the largest mean exceeds the next. */
static double steepest(const lattice *l)
{
    double most = -INFINITY, next = -INFINITY;

    for (int i = 0; i < BLOCK; i++) {
        const double mean = l->n[i] > 0 ? l->sum[i] / l->n[i] : 0;

        next = fmax(next, fmin(most, mean));
        most = fmax(most, mean);
    }
    return most - next;
}

/* ---- looking at the picture ------------------------------------------------------------------------------------ */

typedef struct mosaic { /* of the squares */
    float *rgb;
    int w, h;
} mosaic;

static bool read_mosaic(void *cookie, zn_rect r, float *dst)
{
    const mosaic *m = cookie;

    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)y * (size_t)r.w * 3, m->rgb + ((size_t)(r.y + y) * (size_t)m->w + (size_t)r.x) * 3,
               (size_t)r.w * 3 * sizeof *dst);
    return true;
}

static void put(const mosaic *m, const float *rgb, int x, int y, int w, int h)
{
    for (int i = 0; i < h; i++)
        memcpy(m->rgb + ((size_t)(y + i) * (size_t)m->w + (size_t)x) * 3, rgb + (size_t)i * (size_t)w * 3,
               (size_t)w * 3 * sizeof *rgb);
}

zn_status zn_signs_look(zn_signs *s, const zn_source *in, const zn_rect *squares, int n, int nx, zn_error *err)
{
    const int w = squares->w, h = squares->h;
    mosaic m = { .w = nx * w, .h = zn_ceil_div(n, nx) * h };
    const zn_source all = { m.w, m.h, 3, read_mosaic, &m };
    float *rgb = malloc((size_t)w * (size_t)h * 3 * sizeof *rgb), sigma[3] = { 0 };
    lattice along = { { 0 }, { 0 } }, down = along;
    zn_status status = ZN_OK;

    m.rgb = calloc((size_t)m.w * (size_t)m.h, 3 * sizeof *m.rgb);
    if (!rgb || !m.rgb)
        status = zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    for (int i = 0; !status && i < n; i++) {
        if (!in->read(in->cookie, squares[i], rgb)) {
            status = zn_fail(err, ZN_E_FILE, "the picture could not be read");
            break;
        }
        add_steps(&along, rgb, w, h, false);
        add_steps(&down, rgb, w, h, true);
        put(&m, rgb, i % nx * w, i / nx * h, w, h);
    }
    if (!status)
        status = zn_noise_measure(sigma, &all, NULL, err);
    s->smooth = middle(sigma);
    s->blocks = (float)(255 * (steepest(&along) + steepest(&down)) / 2);
    free(rgb);
    free(m.rgb);
    return status;
}

/* How far v is from the first to the second: 0 to 1. */
static float between(float v, const float pair[2])
{
    return fminf(fmaxf((v - pair[0]) / (pair[1] - pair[0]), 0), 1);
}

float zn_signs_clean(const zn_signs *s)
{
    const float noise = fmaxf(fmaxf(between(s->calm, CALM), between(s->smooth, SMOOTH)), between(s->blocks, BLOCKS));

    return 1 - rintf(8 * noise) / 8;
}
