/* SPDX-License-Identifier: MIT */
/* level.c - see level.h. */
#include "level.h"

#include "../core/ints.h"
#include "request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHOLE = 1500000, /* pixels: of a picture of more, the median is that of */
    SQUARES = 4,     /* ... so many squares a side, */
    SQUARE = 192,    /* ... of so many pixels a side, on the tiles' lattice */
};

/* A number h of the network is a level of sqrt((SCALE h)^2 + LEAST^2), of 255, at most MOST: never 0, and smooth. */
static const float SCALE = 16, LEAST = 0.35f, MOST = 255;

static float level_of(float h)
{
    const float v = SCALE * h;

    return v * v < MOST * MOST ? sqrtf(v * v + LEAST * LEAST) : isnan(v) ? LEAST : MOST;
}

/* ---- measuring ------------------------------------------------------------------------------------------ */

/* Other networks' channels are dropped. */
static bool write_levels(void *cookie, zn_rect r, const float *src)
{
    const zn_levels *l = cookie;

    for (int y = 0; y < r.h; y++) {
        float *dst = l->data + ((size_t)(r.y + y - l->at.y) * (size_t)l->at.w + (size_t)(r.x - l->at.x)) * 3;

        for (int x = 0; x < r.w; x++, src += l->c)
            for (int i = 0; i < 3; i++)
                *dst++ = level_of(src[l->first + i]) / 255 * l->scale;
    }
    return true;
}

/* The levels are a small part of the work: only cancellation is passed on. */
static bool only_cancel(void *cookie, double done)
{
    const zn_job *job = cookie;

    (void)done;
    return job->progress(job->cookie, 0);
}

zn_status zn_levels_measure(zn_levels *out, zn_model *m, const zn_source *picture, zn_rect region, float scale,
                            const zn_job *job, zn_error *err)
{
    const zn_geometry *g = &m->level->geometry;
    const zn_sink sink = { write_levels, out };
    const zn_job mine = { .max_memory = job ? job->max_memory : 0,
                          .progress = job && job->progress ? only_cancel : NULL,
                          .cookie = (void *)job };
    zn_request q = { .sources = picture, .n_in = 1, .sink = &sink, .job = &mine };
    int x0, y0, x1, y1;
    zn_status s;

    *out = (zn_levels){
        .picture = *picture, .step = g->shrink, .first = 3 * m->arch->level, .c = g->out_c, .scale = scale
    };
    /* A pixel lies between two levels in each direction: of its own cell and of a neighbour. */
    x0 = zn_imax(region.x / g->shrink - 1, 0);
    y0 = zn_imax(region.y / g->shrink - 1, 0);
    x1 = zn_imin(zn_ceil_div(region.x + region.w, g->shrink) + 1, zn_ceil_div(picture->w, g->shrink));
    y1 = zn_imin(zn_ceil_div(region.y + region.h, g->shrink) + 1, zn_ceil_div(picture->h, g->shrink));
    q.roi = out->at = (zn_rect){ x0, y0, x1 - x0, y1 - y0 };
    out->data = calloc((size_t)out->at.w * (size_t)out->at.h, 3 * sizeof *out->data);
    if (!out->data)
        return zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    s = zn_request_run(m->level, &q, err);
    if (s)
        zn_levels_free(out);
    return s;
}

void zn_levels_free(zn_levels *l)
{
    free(l->data);
    l->data = NULL;
}

/* ---- the map -------------------------------------------------------------------------------------------- */

/* Between which two of n levels, from `from` on, pixel i lies, and how near to the second.  Centres are at .5 of their cells; beyond
 * the first and the last centre of the picture the level is constant. */
static float between(int i, int step, int from, int n, int *a, int *b)
{
    float p = ((float)i + 0.5f) / (float)step - 0.5f;
    int k = (int)floorf(p);

    *a = zn_imin(zn_imax(k - from, 0), n - 1);
    *b = zn_imin(zn_imax(k + 1 - from, 0), n - 1);
    return p - (float)k;
}

static bool read_map(void *cookie, zn_rect r, float *dst)
{
    const zn_levels *l = cookie;

    for (int y = 0; y < r.h; y++) {
        int top, bottom;
        const float down = between(r.y + y, l->step, l->at.y, l->at.h, &top, &bottom);
        const float *above = l->data + (size_t)top * (size_t)l->at.w * 3;
        const float *below = l->data + (size_t)bottom * (size_t)l->at.w * 3;

        for (int x = 0; x < r.w; x++) {
            int a, b;
            const float right = between(r.x + x, l->step, l->at.x, l->at.w, &a, &b);

            for (int i = 0; i < 3; i++) {
                const float p = above[3 * a + i] + right * (above[3 * b + i] - above[3 * a + i]);
                const float q = below[3 * a + i] + right * (below[3 * b + i] - below[3 * a + i]);

                *dst++ = p + down * (q - p);
            }
        }
    }
    return true;
}

zn_source zn_levels_source(const zn_levels *l)
{
    return (zn_source){ l->picture.w, l->picture.h, 3, read_map, (void *)l };
}

/* ---- the median ----------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Where square i of n begins along a side: on a multiple of SQUARE. */
static int square_at(int side, int i, int n)
{
    const int last = zn_imax(0, (side - SQUARE) / SQUARE);

    return n > 1 ? (int)((int64_t)last * i / (n - 1)) * SQUARE : 0;
}

int32_t zn_model_level_reach(const zn_model *m)
{
    m = *m->failed.text ? m->stand_in : m;
    return m->level ? zn_round_up(m->level->geometry.halo + m->level->geometry.shrink, m->level->geometry.multiple) : 0;
}

zn_status zn_noise_levels(float sigma[3], zn_model *m, const zn_source *in, zn_error *err)
{
    const bool whole = (int64_t)in->w * in->h <= WHOLE;
    const int nx = whole ? 1 : zn_imin(SQUARES, zn_ceil_div(in->w, SQUARE));
    const int ny = whole ? 1 : zn_imin(SQUARES, zn_ceil_div(in->h, SQUARE));
    float *all[3] = { NULL, NULL, NULL };
    size_t n = 0, room = 0;
    zn_status s = ZN_OK;

    sigma[0] = sigma[1] = sigma[2] = 0;
    m = *m->failed.text ? m->stand_in : m;
    if (!m->level)
        return zn_noise_estimate(sigma, in, err);
    for (int k = 0; !s && k < nx * ny; k++) {
        zn_rect r = { 0, 0, in->w, in->h };
        zn_levels l;
        size_t more;

        if (!whole) {
            r.x = square_at(in->w, k % nx, nx);
            r.y = square_at(in->h, k / nx, ny);
            r.w = zn_imin(SQUARE, in->w - r.x);
            r.h = zn_imin(SQUARE, in->h - r.y);
        }
        if ((s = zn_levels_measure(&l, m, in, r, 1, NULL, err)))
            break;
        more = (size_t)l.at.w * (size_t)l.at.h;
        for (int i = 0; i < 3 && !s; i++) {
            float *p = n + more > room ? realloc(all[i], (n + more) * sizeof *p) : all[i];

            if (!p)
                s = zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
            else
                all[i] = p;
            for (size_t j = 0; !s && j < more; j++)
                p[n + j] = l.data[3 * j + (size_t)i];
        }
        n += more;
        zn_levels_free(&l);
    }
    for (int i = 0; i < 3; i++) {
        if (!s && n) {
            qsort(all[i], n, sizeof *all[i], by_value);
            sigma[i] = all[i][n / 2] * 255;
        }
        free(all[i]);
    }
    return s;
}
