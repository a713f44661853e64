/* SPDX-License-Identifier: MIT */
/* generate_mask.c - between a picture with its mask and the arrays of the networks. */
#include "generate.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FACTOR = ZN_GENERATE_FACTOR,
    MULTIPLE = ZN_GENERATE_MULTIPLE,
    MAX_SIDE = 8192,
    MIN_CONTEXT = 64 /* pixels around a mask that the networks see */
};

/* ---- sizes -------------------------------------------------------------------------------------------------- */

zn_rect zn_rect_grow(zn_rect r, int32_t by, int32_t w, int32_t h)
{
    const int64_t x0 = (int64_t)r.x - by, y0 = (int64_t)r.y - by;
    const int64_t x1 = (int64_t)r.x + r.w + by, y1 = (int64_t)r.y + r.h + by;
    zn_rect more = { (int32_t)(x0 > 0 ? x0 : 0), (int32_t)(y0 > 0 ? y0 : 0), 0, 0 };

    more.w = (int32_t)(x1 < w ? x1 : w) - more.x;
    more.h = (int32_t)(y1 < h ? y1 : h) - more.y;
    return more;
}

int32_t zn_generate_context(int32_t w, int32_t h)
{
    return zn_imax(MIN_CONTEXT, zn_imax(w, h) / 4);
}

static int32_t scaled_side(double side)
{
    const int32_t whole = (int32_t)side / MULTIPLE * MULTIPLE;

    return zn_imin(zn_imax(whole, MULTIPLE), MAX_SIDE);
}

void zn_canvas_set_size(zn_canvas *v, const zn_generate *how)
{
    const double most = (double)zn_round_up(how->width, MULTIPLE) * zn_round_up(how->height, MULTIPLE);
    const double w = v->part.w, h = v->part.h;

    v->w = zn_round_up(v->part.w, MULTIPLE);
    v->h = zn_round_up(v->part.h, MULTIPLE);
    v->scaled = (double)v->w * v->h > most || zn_imax(v->w, v->h) > MAX_SIDE;
    if (v->scaled) {
        const double area = sqrt(most / (w * h)), side = MAX_SIDE / (w > h ? w : h);
        const double scale = area < side ? area : side;

        v->w = scaled_side(w * scale);
        v->h = scaled_side(h * scale);
    }
}

/* ---- resampling --------------------------------------------------------------------------------------------- */

/* One line of n values, `stride` apart, to m values: a triangle filter as wide as the larger distance of two pixels, so that it
 * invents neither detail nor edges. */
static void resample_line(float *dst, int m, size_t dst_stride, const float *src, int n, size_t src_stride)
{
    const double scale = (double)n / m, reach = scale > 1 ? scale : 1;

    for (int i = 0; i < m; i++) {
        const double centre = (i + 0.5) * scale - 0.5;
        double sum = 0, total = 0;

        for (int j = (int)ceil(centre - reach); j <= (int)floor(centre + reach); j++) {
            const double weight = 1 - fabs(j - centre) / reach;

            sum += weight * (double)src[(size_t)zn_imin(zn_imax(j, 0), n - 1) * src_stride];
            total += weight;
        }
        dst[(size_t)i * dst_stride] = (float)(sum / total);
    }
}

static bool resample(float *dst, int dw, int dh, const float *src, int sw, int sh, int channels)
{
    const size_t c = (size_t)channels, row = (size_t)dw * c;
    float *wide = malloc((size_t)sh * row * sizeof *wide);

    if (!wide)
        return false;
    for (size_t y = 0; y < (size_t)sh; y++)
        for (size_t k = 0; k < c; k++)
            resample_line(wide + y * row + k, dw, c, src + y * (size_t)sw * c + k, sw, c);
    for (size_t i = 0; i < row; i++)
        resample_line(dst + i, dh, row, wide + i, sh, row);
    free(wide);
    return true;
}

bool zn_canvas_to_network(float *dst, const zn_canvas *v, const float *src, int channels)
{
    const zn_rect *part = &v->part;
    const size_t c = (size_t)channels;

    if (v->scaled)
        return resample(dst, v->w, v->h, src, part->w, part->h, channels);
    for (int y = 0; y < v->h; y++)
        for (int x = 0; x < v->w; x++, dst += c)
            memcpy(dst, src + ((size_t)zn_imin(y, part->h - 1) * (size_t)part->w + (size_t)zn_imin(x, part->w - 1)) * c,
                   c * sizeof *dst);
    return true;
}

bool zn_canvas_put(float *out, const zn_canvas *v, const float *picture)
{
    const zn_rect *part = &v->part;
    const size_t len = (size_t)part->w * 3;
    const float *from = picture;
    size_t row = (size_t)v->w * 3;
    float *fit = NULL;

    if (v->scaled) {
        fit = malloc((size_t)part->h * len * sizeof *fit);
        if (!fit || !resample(fit, part->w, part->h, picture, v->w, v->h, 3)) {
            free(fit);
            return false;
        }
        from = fit;
        row = len;
    }
    memset(out, 0, (size_t)v->out_w * (size_t)v->out_h * 3 * sizeof *out);
    for (size_t y = 0; y < (size_t)part->h; y++) {
        const size_t at = ((size_t)part->y + y) * (size_t)v->out_w + (size_t)part->x;
        const float *src = from + y * row, *old = v->old ? v->old + y * len : NULL;
        const float *mask = v->mask ? v->mask + at : NULL;

        for (size_t i = 0; i < len; i++) {
            const float value = zn_clean(src[i]);

            out[at * 3 + i] = old ? (mask ? mask[i / 3] : 1) * (value - old[i]) : value;
        }
    }
    free(fit);
    return true;
}

/* ---- a larger canvas ------------------------------------------------------------------------------------------ */

static int32_t inside(int32_t x, int32_t n)
{
    return x < 0 ? 0 : x < n ? x : n - 1;
}

bool zn_extended_read(void *cookie, zn_rect r, float *dst)
{
    const zn_extended *e = cookie;
    const int32_t x0 = inside(r.x - e->place.x, e->place.w), x1 = inside(r.x + r.w - 1 - e->place.x, e->place.w);
    float *line = malloc((size_t)(x1 - x0 + 1) * 3 * sizeof *line);
    bool ok = line;

    for (int32_t y = 0; ok && y < r.h; y++) {
        ok =
            e->in->read(e->in->cookie, (zn_rect){ x0, inside(r.y + y - e->place.y, e->place.h), x1 - x0 + 1, 1 }, line);
        for (int32_t x = 0; x < r.w; x++, dst += 3)
            memcpy(dst, line + 3 * (inside(r.x + x - e->place.x, e->place.w) - x0), 3 * sizeof *dst);
    }
    free(line);
    return ok;
}

bool zn_extended_around(void *cookie, zn_rect r, float *dst)
{
    const zn_extended *e = cookie;
    const zn_rect p = e->place;
    bool ok = true;

    for (int32_t y = r.y; y < r.y + r.h; y++, dst += r.w) {
        const int32_t from = r.x > p.x ? r.x : p.x, to = r.x + r.w < p.x + p.w ? r.x + r.w : p.x + p.w;

        for (int32_t x = 0; x < r.w; x++)
            dst[x] = 1;
        if (y < p.y || y >= p.y + p.h || from >= to)
            continue;
        memset(dst + (from - r.x), 0, (size_t)(to - from) * sizeof *dst);
        if (e->mask)
            ok &= e->mask->read(e->mask->cookie, (zn_rect){ from - p.x, y - p.y, to - from, 1 }, dst + (from - r.x));
    }
    return ok;
}

/* ---- the mask ----------------------------------------------------------------------------------------------- */

/* The pixels of the mask that are not 0; empty: there are none. */
static zn_rect bounds_of(const zn_canvas *v)
{
    int32_t x0 = v->out_w, y0 = v->out_h, x1 = -1, y1 = -1;
    const float *m = v->mask;

    for (int32_t y = 0; y < v->out_h; y++)
        for (int32_t x = 0; x < v->out_w; x++)
            if (*m++ > 0) {
                x0 = zn_imin(x0, x);
                x1 = zn_imax(x1, x);
                y0 = zn_imin(y0, y);
                y1 = zn_imax(y1, y);
            }
    return (zn_rect){ x0, y0, x1 < 0 ? 0 : x1 - x0 + 1, x1 < 0 ? 0 : y1 - y0 + 1 };
}

static float least(float a, float b)
{
    return a < b ? a : b;
}

/* Relaxes the distances of a line's pixels by those of the one before and of the line before; step 1 or -1. */
static void chamfer_line(float *line, const float *before, int w, int step)
{
    const float straight = 1, diagonal = 1.41421356f;

    for (int i = 0, x = step > 0 ? 0 : w - 1; i < w; i++, x += step) {
        float d = line[x];

        if (i > 0)
            d = least(d, line[x - step] + straight);
        if (before) {
            d = least(d, before[x] + straight);
            if (x > 0)
                d = least(d, before[x - 1] + diagonal);
            if (x + 1 < w)
                d = least(d, before[x + 1] + diagonal);
        }
        line[x] = d;
    }
}

/* The distance of each pixel to the next one that is in the mask, or is not. */
static void distances(float *far, const zn_canvas *v, bool to_mask)
{
    const size_t w = (size_t)v->out_w, h = (size_t)v->out_h;

    for (size_t i = 0; i < w * h; i++)
        far[i] = (v->mask[i] > 0) == to_mask ? 0 : FLT_MAX;
    for (size_t y = 0; y < h; y++)
        chamfer_line(far + y * w, y ? far + (y - 1) * w : NULL, v->out_w, 1);
    for (size_t y = h; y--;)
        chamfer_line(far + y * w, y + 1 < h ? far + (y + 1) * w : NULL, v->out_w, -1);
}

/* Inside, the mask rises from 0 over as many pixels; outside it stays 0.  grows: it has become so much larger before. */
static bool feather_mask(zn_canvas *v, double feather, bool grows)
{
    const size_t len = (size_t)v->out_w * (size_t)v->out_h;
    const float width = (float)feather + 1;
    float *far;

    if (feather <= 0)
        return true;
    if (!(far = malloc(len * sizeof *far)))
        return false;
    if (grows)
        distances(far, v, true);
    for (size_t i = 0; grows && i < len; i++)
        if (far[i] < width)
            v->mask[i] = 1;
    distances(far, v, false);
    for (size_t i = 0; i < len; i++)
        if (far[i] < width) {
            const float t = far[i] / width;

            v->mask[i] *= t * t * (3 - 2 * t);
        }
    free(far);
    return true;
}

zn_status zn_canvas_read_mask(zn_canvas *v, bool *empty, const zn_source *mask, zn_rect change, double feather,
                              bool grows, zn_error *err)
{
    const size_t len = (size_t)v->out_w * (size_t)v->out_h;
    zn_rect bounds;

    if (!(v->mask = malloc(len * sizeof *v->mask)))
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    if (!mask->read(mask->cookie, change, v->mask))
        return zn_fail(err, ZN_E_FILE, "the picture cannot be read");
    for (size_t i = 0; i < len; i++)
        v->mask[i] = zn_clean(v->mask[i]);
    bounds = bounds_of(v);
    *empty = bounds.w == 0;
    v->part = zn_rect_grow(bounds, zn_generate_context(bounds.w, bounds.h), v->out_w, v->out_h);
    return feather_mask(v, feather, grows) ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory");
}

bool zn_canvas_latent_mask(float *dst, const zn_canvas *v)
{
    const zn_rect *part = &v->part;
    const size_t row = (size_t)part->w, w = (size_t)v->w / FACTOR;
    float *cut = malloc((size_t)part->h * row * sizeof *cut);
    float *fit = malloc((size_t)v->w * (size_t)v->h * sizeof *fit);
    bool ok = cut && fit;

    for (size_t y = 0; ok && y < (size_t)part->h; y++)
        memcpy(cut + y * row, v->mask + ((size_t)part->y + y) * (size_t)v->out_w + (size_t)part->x, row * sizeof *cut);
    ok = ok && zn_canvas_to_network(fit, v, cut, 1);
    if (ok)
        memset(dst, 0, w * ((size_t)v->h / FACTOR) * sizeof *dst);
    for (size_t y = 0; ok && y < (size_t)v->h; y++)
        for (size_t x = 0; x < (size_t)v->w; x++)
            dst[y / FACTOR * w + x / FACTOR] += fit[y * (size_t)v->w + x] / (FACTOR * FACTOR);
    free(fit);
    free(cut);
    return ok;
}

void zn_canvas_free(zn_canvas *v)
{
    free(v->mask);
    free(v->old);
}
