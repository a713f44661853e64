/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <math.h>

enum { MAX_WAVELETS = 8, MIN_WAVELETS = 3, DRAWS = 8 /* random numbers of a wavelet */ };

static const double pi = 3.14159265358979323846;

/* ---- wavelets ------------------------------------------------------------------------------------------ */

typedef struct wavelet {
    int type;
    float x, y, spread, wave, cosine, sine, amp;
} wavelet;

static float between(double a, double b, double u)
{
    return (float)(a + (b - a) * u);
}

static wavelet draw(const zn_wavelets *s, int size, uint64_t seed, uint64_t stream, uint64_t i)
{
    double u[DRAWS], theta;
    wavelet w;

    for (uint64_t k = 0; k < DRAWS; k++)
        u[k] = zn_uniform(seed, stream, 1 + i * DRAWS + k);
    theta = pi * u[5];
    w.type = (int)(4 * u[0]);
    w.x = between(0.1 * size, 0.9 * size, u[1]);
    w.y = between(0.1 * size, 0.9 * size, u[2]);
    w.spread = between(s->spread[0], s->spread[1], u[3]);
    w.wave = between(s->wave[0], s->wave[1], u[4]);
    w.cosine = (float)cos(theta);
    w.sine = (float)sin(theta);
    w.amp = between(0.3, 0.8, u[6]);
    return w;
}

static float value(const wavelet *w, int i, int j)
{
    float x = (float)j - w->x, y = (float)i - w->y, r = x * w->cosine + y * w->sine;
    float q = (x * x + y * y) / (w->spread * w->spread);

    switch (w->type) {
    case 0:
        return w->amp * cosf(w->wave * r) * expf(-q / 2);
    case 1:
        return w->amp * (1 - q) * expf(-q / 2);
    case 2:
        return w->amp * expf(-q / 2);
    default:
        return w->amp * (expf(-q / 2) - 0.5f * expf(-q / 8));
    }
}

typedef struct wavelet_job {
    real *y;
    int size;
    const zn_wavelets *s;
    uint64_t seed, number;
    int n;
} wavelet_job;

/* One row of one picture. */
static void wavelet_item(void *cookie, int item, int worker)
{
    const wavelet_job *job = cookie;
    int image = item / job->size, i = item % job->size, n;
    uint64_t stream = job->number * (uint64_t)job->n + (uint64_t)image;
    wavelet list[MAX_WAVELETS];
    real *row = job->y + (size_t)item * (size_t)job->size * 3;

    (void)worker;
    n = MIN_WAVELETS + (int)((MAX_WAVELETS - MIN_WAVELETS + 1) * zn_uniform(job->seed, stream, 0));
    for (int k = 0; k < n; k++)
        list[k] = draw(job->s, job->size, job->seed, stream, (uint64_t)k);
    for (int j = 0; j < job->size; j++) {
        float sum = 0;

        for (int k = 0; k < n; k++)
            sum += value(&list[k], i, j);
        row[3 * j] = row[3 * j + 1] = row[3 * j + 2] = sum;
    }
}

void zn_draw_wavelets(zn_pool *pool, real *y, int n, int size, const zn_wavelets *s, uint64_t seed, uint64_t number)
{
    wavelet_job job = { y, size, s, seed, number, n };

    zn_pool_run(pool, wavelet_item, &job, n * size);
}

/* ---- damage -------------------------------------------------------------------------------------------- */

static void blur(real *y, const real *x, int size)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            for (int c = 0; c < 3; c++) {
                real sum = 0;
                int n = 0;

                for (int u = i > 0 ? i - 1 : 0; u <= i + 1 && u < size; u++)
                    for (int v = j > 0 ? j - 1 : 0; v <= j + 1 && v < size; v++, n++)
                        sum += x[((size_t)u * (size_t)size + (size_t)v) * 3 + (size_t)c];
                y[((size_t)i * (size_t)size + (size_t)j) * 3 + (size_t)c] = sum / (real)n;
            }
}

void zn_damage(real *y, const real *x, int size, int kind, double sigma, uint64_t seed, uint64_t stream)
{
    size_t len = (size_t)size * (size_t)size * 3;

    if (kind == ZN_BLUR) {
        blur(y, x, size);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (kind == ZN_GAUSSIAN) {
            y[i] = x[i] + (real)(sigma * zn_normal(seed, stream, i));
        } else {
            double u = zn_uniform(seed, stream, i);

            y[i] = x[i] + (u < 0.025 ? 2 : u < 0.05 ? -2 : 0);
        }
    }
}

/* ---- pictures ------------------------------------------------------------------------------------------ */

void zn_cut_pictures(real *y, int n, int size, const zn_picture *pictures, int n_pictures, uint64_t seed,
                     uint64_t number)
{
    for (int k = 0; k < n; k++) {
        uint64_t stream = number * (uint64_t)n + (uint64_t)k;
        const zn_picture *p = &pictures[(int)(zn_uniform(seed, stream, 0) * n_pictures)];
        int x0 = (int)(zn_uniform(seed, stream, 1) * (p->w - size + 1));
        int y0 = (int)(zn_uniform(seed, stream, 2) * (p->h - size + 1));
        int way = (int)(8 * zn_uniform(seed, stream, 3));
        real *to = y + (size_t)k * (size_t)size * (size_t)size * 3;

        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++, to += 3) {
                int a = way & 1 ? size - 1 - i : i, b = way & 2 ? size - 1 - j : j;
                int row = y0 + (way & 4 ? b : a), col = x0 + (way & 4 ? a : b);

                for (int c = 0; c < 3; c++)
                    to[c] = (real)p->data[((size_t)row * (size_t)p->w + (size_t)col) * 3 + (size_t)c] / 255;
            }
    }
}
