/* SPDX-License-Identifier: MIT */
/* face_frame.c - the frame of a face: a square in the picture, and its pixels at the model's size. */
#include "face.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_FRAME = 16, MAX_FRAME = 1024 /* pixels */, MAX_OUTSIDE = 4 /* sides of a smaller picture */ };
enum { BLOCK = 16 /* rows that a thread takes */, LOW_BLOCK = 4 };

static const double pi = 3.14159265358979323846;

/* ---- the frame ----------------------------------------------------------------------------------------------- */

zn_status zn_square_get(zn_square *square, const zn_frame *frame, int32_t w, int32_t h, zn_error *err)
{
    const double angle = frame->angle * pi / 180;

    *square = (zn_square){ frame->x, frame->y, frame->size, cos(angle), sin(angle) };
    if (frame->size <= 0)
        *square = (zn_square){ w / 2.0, h / 2.0, zn_imin(w, h), square->cos, square->sin };
    if (!(square->size >= MIN_FRAME))
        return zn_fail(err, ZN_E_USAGE, "A frame of %g x %g pixels is too small: a face needs at least %d.",
                       square->size, square->size, MIN_FRAME);
    if (square->size > MAX_FRAME && square->size > MAX_OUTSIDE * zn_imax(w, h)) /* all of it is sampled */
        return zn_fail(err, ZN_E_USAGE, "A frame of %g x %g pixels is too large for a picture of %d x %d.",
                       square->size, square->size, w, h);
    if (!(square->x >= 0 && square->x <= w && square->y >= 0 && square->y <= h))
        return zn_fail(err, ZN_E_USAGE, "The frame's center at %g, %g is outside the picture of %d x %d.", square->x,
                       square->y, w, h);
    return ZN_OK;
}

zn_rect zn_square_bounds(const zn_square *square, int32_t w, int32_t h)
{
    const double half = square->size * (fabs(square->cos) + fabs(square->sin)) / 2;
    const int32_t x0 = (int32_t)floor(fmax(square->x - half, 0)), y0 = (int32_t)floor(fmax(square->y - half, 0));
    const int32_t x1 = (int32_t)ceil(fmin(square->x + half, w)), y1 = (int32_t)ceil(fmin(square->y + half, h));

    return (zn_rect){ x0, y0, zn_imax(x1 - x0, 1), zn_imax(y1 - y0, 1) };
}

/* ---- sampling ------------------------------------------------------------------------------------------------ */

/* Weights of Catmull-Rom's kernel for the four values around a place between the second and the third. */
static inline void cubic_weights(float w[4], float t)
{
    w[0] = ((-0.5f * t + 1.0f) * t - 0.5f) * t;
    w[1] = (1.5f * t - 2.5f) * t * t + 1.0f;
    w[2] = ((-1.5f * t + 2.0f) * t + 0.5f) * t;
    w[3] = (0.5f * t - 0.5f) * t * t;
}

static inline int within(int i, int n)
{
    return i > n - 1 ? n - 1 : i < 0 ? 0 : i;
}

/* n is a constant where it is called: the sums are in registers then. */
static inline void sample_cubic(float *dst, const float *src, int w, int h, int n, double x, double y)
{
    const double fx = floor(x), fy = floor(y);
    float wx[4], wy[4], sum[ZN_FACE_FIELDS] = { 0 };
    int cx[4];

    cubic_weights(wx, (float)(x - fx));
    cubic_weights(wy, (float)(y - fy));
    for (int i = 0; i < 4; i++)
        cx[i] = within((int)fx + i - 1, w) * n;
    for (int j = 0; j < 4; j++) {
        const float *row = src + (size_t)within((int)fy + j - 1, h) * (size_t)w * (size_t)n;

        for (int i = 0; i < 4; i++) {
            const float weight = wx[i] * wy[j];
            const float *p = row + cx[i];

            for (int c = 0; c < n; c++)
                sum[c] += weight * p[c];
        }
    }
    for (int c = 0; c < n; c++)
        dst[c] = sum[c];
}

void zn_sample_field(zn_face_field dst, const zn_face_field *field, int side, double u, double v)
{
    sample_cubic(dst, (const float *)field, side, side, ZN_FACE_FIELDS, u * side - 0.5, v * side - 0.5);
}

void zn_sample_patch(float dst[3], const zn_patch *patch, double x, double y)
{
    sample_cubic(dst, patch->pixels, patch->rect.w, patch->rect.h, 3, x - patch->rect.x - 0.5, y - patch->rect.y - 0.5);
}

/* The mean of n x n places around x, y, `step` apart in the directions of cosine and sine. */
static void sample_mean(float dst[3], const zn_patch *patch, int n, double step, double x, double y, double cosine,
                        double sine)
{
    double sum[3] = { 0, 0, 0 };

    for (int k = 0; k < n * n; k++) {
        const double a = (k % n + 0.5 - 0.5 * n) * step, b = (k / n + 0.5 - 0.5 * n) * step;
        float value[3];

        zn_sample_patch(value, patch, x + cosine * a - sine * b, y + sine * a + cosine * b);
        for (int c = 0; c < 3; c++)
            sum[c] += (double)value[c];
    }
    for (int c = 0; c < 3; c++)
        dst[c] = zn_clean((float)(sum[c] / (n * n)));
}

/* ---- patches ------------------------------------------------------------------------------------------------- */

static float *new_pixels(zn_rect rect)
{
    return malloc((size_t)rect.w * (size_t)rect.h * 3 * sizeof(float));
}

zn_status zn_patch_read(zn_patch *patch, const zn_source *in, zn_rect rect, zn_error *err)
{
    *patch = (zn_patch){ rect, new_pixels(rect) };
    if (!patch->pixels)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory for a frame of this size.");
    return in->read(in->cookie, rect, patch->pixels) ? ZN_OK : zn_fail(err, ZN_E_FILE, "the picture cannot be read");
}

void zn_workers_loop(const zn_workers *w, zn_task *task, void *cookie, int n_items)
{
    if (w)
        zn_session_loop(w->session, w->choice, task, cookie, n_items);
    for (int i = 0; !w && i < n_items; i++)
        task(cookie, i, 0);
}

typedef struct warp {
    zn_patch to;
    const zn_patch *patch;
    const zn_square *from, *square;
} warp;

static void warp_rows(void *cookie, int item, int worker)
{
    const warp *w = cookie;
    const zn_square *f = w->from, *q = w->square;
    const zn_rect rect = w->to.rect;
    const double zoom = f->size / q->size;
    const double cosine = f->cos * q->cos + f->sin * q->sin; /* of the angle between them */
    const double sine = f->sin * q->cos - f->cos * q->sin;
    const int n = zn_imax(1, (int)ceil(zoom));

    (void)worker;
    for (int y = item * BLOCK; y < zn_imin(rect.h, (item + 1) * BLOCK); y++)
        for (int x = 0; x < rect.w; x++) {
            const double a = (rect.x + x + 0.5 - q->x) * zoom, b = (rect.y + y + 0.5 - q->y) * zoom;

            sample_mean(w->to.pixels + ((size_t)y * (size_t)rect.w + (size_t)x) * 3, w->patch, n, zoom / n,
                        f->x + cosine * a - sine * b, f->y + sine * a + cosine * b, cosine, sine);
        }
}

zn_patch zn_patch_warp(const zn_patch *patch, const zn_square *from, const zn_square *to, zn_rect rect,
                       const zn_workers *workers)
{
    warp w = { { rect, new_pixels(rect) }, patch, from, to };

    if (w.to.pixels)
        zn_workers_loop(workers, warp_rows, &w, zn_ceil_div(rect.h, BLOCK));
    return w.to;
}

typedef struct shrink {
    float *low; /* [side][side][3], 0..1 */
    int side;
    const zn_square *square;
    const zn_patch *patch;
} shrink;

/* Each value is the mean of about as many places as it covers pixels. */
static void shrink_rows(void *cookie, int item, int worker)
{
    const shrink *s = cookie;
    const zn_square *q = s->square;
    const double step = q->size / s->side;
    const int n = zn_imax(1, (int)ceil(step));

    (void)worker;
    for (int v = item * LOW_BLOCK; v < zn_imin(s->side, (item + 1) * LOW_BLOCK); v++)
        for (int u = 0; u < s->side; u++) {
            const double a = (u + 0.5 - 0.5 * s->side) * step, b = (v + 0.5 - 0.5 * s->side) * step;

            sample_mean(s->low + ((size_t)v * (size_t)s->side + (size_t)u) * 3, s->patch, n, step / n,
                        q->x + q->cos * a - q->sin * b, q->y + q->sin * a + q->cos * b, q->cos, q->sin);
        }
}

void zn_square_shrink(float *low, int side, const zn_square *square, const zn_patch *patch, const zn_workers *workers)
{
    shrink data = { low, side, square, patch };

    zn_workers_loop(workers, shrink_rows, &data, zn_ceil_div(side, LOW_BLOCK));
}
