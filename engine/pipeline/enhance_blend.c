/* SPDX-License-Identifier: MIT */
/* enhance_blend.c - the network's change of a cell as it is kept; strength, luma, chroma, detail and sharpen.  See zenith_composite.h. */
#include "../core/ints.h"
#include "enhance.h"
#include "sharpen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 32767 }; /* of a kept change, either way */

typedef struct kept {
    float step;
    int16_t change[];
} kept;

/* ---- cells ------------------------------------------------------------------------------------------------------ */

static float *plane_at(const zn_plane *p, int x, int y)
{
    return p->rgb + ((size_t)(y - p->at.y) * (size_t)p->at.w + (size_t)(x - p->at.x)) * 3;
}

static size_t cell_len(const zn_grid *g, zn_rect cell)
{
    return (size_t)(cell.w * g->scale) * (size_t)(cell.h * g->scale) * 3;
}

size_t zn_cell_size(const zn_grid *g, zn_rect cell)
{
    return sizeof(kept) + cell_len(g, cell) * sizeof(int16_t);
}

/* What the network made less what it saw; NaN is no change.  The largest change. */
static float subtract(float *change, const zn_grid *g, zn_rect cell, const zn_plane *made, const float *seen)
{
    const zn_rect r = zn_grid_result(g, cell);
    float most = 0;

    for (int y = 0; y < r.h; y++) {
        const float *row = plane_at(made, r.x, r.y + y), *from = seen + (size_t)(y / g->scale) * (size_t)cell.w * 3;

        for (int x = 0; x < r.w; x++)
            for (int c = 0; c < 3; c++, change++) {
                *change = *row++ - from[x / g->scale * 3 + c];
                if (!isfinite(*change))
                    *change = 0;
                most = fmaxf(most, fabsf(*change));
            }
    }
    return most;
}

bool zn_cell_pack(void *dst, const zn_grid *g, zn_rect cell, const zn_plane *made, const zn_source *in)
{
    const size_t len = cell_len(g, cell);
    kept *k = dst;
    float *change = malloc(len * sizeof *change), *seen = malloc((size_t)cell.w * (size_t)cell.h * 3 * sizeof *seen);
    const bool ok = change && seen && in->read(in->cookie, cell, seen);

    if (ok) {
        float scale;

        k->step = subtract(change, g, cell, made, seen) / STEPS;
        scale = k->step > 0 ? 1 / k->step : 0;
        for (size_t i = 0; i < len; i++)
            k->change[i] = (int16_t)fminf(fmaxf(rintf(change[i] * scale), -STEPS), STEPS);
    }
    free(seen);
    free(change);
    return ok;
}

void zn_cell_unpack(const zn_plane *change, const zn_grid *g, zn_rect cell, const void *src)
{
    const kept *k = src;
    const zn_rect r = zn_grid_result(g, cell), both = zn_rect_meet(change->at, r);

    for (int y = both.y; y < both.y + both.h; y++) {
        const int16_t *from = k->change + ((size_t)(y - r.y) * (size_t)r.w + (size_t)(both.x - r.x)) * 3;
        float *dst = plane_at(change, both.x, y);

        for (int i = 0; i < both.w * 3; i++)
            dst[i] = k->step * from[i];
    }
}

/* ---- blending --------------------------------------------------------------------------------------------------- */

/* The binomial mean of five values: above and below, then left and right.  Beyond the ends the last ones are repeated.  row: w + 4
 * values. */
static void smooth(float *dst, const float *src, int w, int h, float *row)
{
    for (int y = 0; y < h; y++, dst += w) {
        const float *a = src + (size_t)zn_imax(y - 2, 0) * (size_t)w;
        const float *b = src + (size_t)zn_imax(y - 1, 0) * (size_t)w;
        const float *c = src + (size_t)y * (size_t)w;
        const float *d = src + (size_t)zn_imin(y + 1, h - 1) * (size_t)w;
        const float *e = src + (size_t)zn_imin(y + 2, h - 1) * (size_t)w;

        for (int x = 0; x < w; x++)
            row[x + 2] = (a[x] + e[x]) / 16 + (b[x] + d[x]) / 4 + c[x] * 3 / 8;
        row[0] = row[1] = row[2];
        row[w + 2] = row[w + 3] = row[w + 1];
        for (int x = 0; x < w; x++)
            dst[x] = (row[x] + row[x + 4]) / 16 + (row[x + 1] + row[x + 3]) / 4 + row[x + 2] * 3 / 8;
    }
}

typedef struct blend {
    const zn_enhance *how;
    const zn_plane *change;
    zn_rect all;
    size_t len;          /* pixels of all */
    const float *pixels; /* of all */
    int components;
    float *light;  /* [len]: the change of lightness, less what detail gives back; NULL: as it is */
    float *beyond; /* [3][len]: what a strength above 1 removes in addition; NULL: nothing */
    float *sharp;  /* [len]: what sharpening adds to each channel; NULL: nothing */
    float *plane, *mean, *limit, *spare, *row; /* [len] each, and a row of smooth() */
} blend;

/* The network's change of lightness, for all pixels. */
static void find_light(const blend *b)
{
    float *light = b->light;

    for (int y = 0; y < b->all.h; y++) {
        const float *rgb = plane_at(b->change, b->all.x, b->all.y + y);

        for (int x = 0; x < b->all.w; x++, rgb += 3)
            *light++ = zn_luma(rgb);
    }
}

/* Channel c of what the network made. */
static void find_made(const blend *b, int c)
{
    for (int y = 0; y < b->all.h; y++) {
        const float *rgb = plane_at(b->change, b->all.x, b->all.y + y);

        for (int x = 0; x < b->all.w; x++) {
            const size_t at = (size_t)y * (size_t)b->all.w + (size_t)x;
            const float *p = b->pixels + at * (size_t)b->components;

            b->plane[at] = rgb[3 * x + c] + (zn_is_hidden(p, b->components) ? 0.5f : zn_clean(p[c]));
        }
    }
}

/* mean: the lightness of what the network made. */
static void find_made_light(const blend *b)
{
    static const float share[3] = { 0.2126f, 0.7152f, 0.0722f };

    memset(b->mean, 0, b->len * sizeof *b->mean);
    for (int c = 0; c < 3; c++) {
        find_made(b, c);
        for (size_t i = 0; i < b->len; i++)
            b->mean[i] += share[c] * b->plane[i];
    }
}

/* dst: the mean square around each pixel of what is fine in v, its difference from its 5 x 5 binomial mean, which replaces v. */
static void find_energy(float *dst, float *v, const blend *b)
{
    smooth(dst, v, b->all.w, b->all.h, b->row);
    for (size_t i = 0; i < b->len; i++) {
        v[i] -= dst[i];
        dst[i] = v[i] * v[i];
    }
    smooth(b->spare, dst, b->all.w, b->all.h, b->row);
    smooth(dst, b->spare, b->all.w, b->all.h, b->row);
}

/* light less a share of what is fine in it: detail, where the network left texture that is not much weaker than what it removed there.
 * What is smooth stays so. */
static void give_detail_back(const blend *b)
{
    const float detail = (float)b->how->detail;

    find_made_light(b);
    find_energy(b->limit, b->mean, b);
    memcpy(b->mean, b->light, b->len * sizeof *b->mean);
    find_energy(b->plane, b->mean, b);
    for (size_t i = 0; i < b->len; i++) {
        const float sum = b->limit[i] + b->plane[i] / 4;

        b->light[i] -= sum > 0 ? detail * b->limit[i] / sum * b->mean[i] : 0;
    }
}

/* What a strength above 1 removes beyond the network's change.  Extrapolating that change would bring the noise back with the other sign.
 * Instead fine differences in its output shrink, by as much as 2 (strength - 1) times the mean change of lightness around them:
 * texture as weak as the noise disappears, edges stay.  light is the network's own change. */
static void find_beyond(const blend *b)
{
    const float share = (float)(2.0 * (b->how->strength - 1.0));

    for (size_t i = 0; i < b->len; i++)
        b->plane[i] = share * fabsf(b->light[i]);
    smooth(b->limit, b->plane, b->all.w, b->all.h, b->row);
    for (int c = 0; c < 3; c++) {
        float *change = b->beyond + (size_t)c * b->len;

        find_made(b, c);
        smooth(b->mean, b->plane, b->all.w, b->all.h, b->row);
        for (size_t i = 0; i < b->len; i++) {
            const float v = b->mean[i] - b->plane[i];

            change[i] = v > b->limit[i] ? b->limit[i] : v < -b->limit[i] ? -b->limit[i] : v;
        }
    }
}

/* Of the lightness of what the network made: noise that a low strength leaves is not sharpened. */
static bool find_sharp(const blend *b)
{
    find_made_light(b);
    return zn_sharpen(b->sharp, b->mean, b->all.w, b->all.h, (float)b->how->sharpen);
}

static void add_to(float *pixels, const blend *b, zn_rect strip)
{
    const float strength = (float)fmin(b->how->strength, 1.0);
    const float luma = (float)(strength * b->how->luma), chroma = (float)(strength * b->how->chroma);
    const size_t len = b->len;

    for (int y = strip.y; y < strip.y + strip.h; y++) {
        const size_t at = (size_t)(y - b->all.y) * (size_t)b->all.w + (size_t)(strip.x - b->all.x);
        const float *rgb = plane_at(b->change, strip.x, y);
        float *p = pixels + at * (size_t)b->components;

        for (int x = 0; x < strip.w; x++, rgb += 3, p += b->components) {
            const float l = zn_luma(rgb);
            const float both = luma * (b->light ? b->light[at + (size_t)x] : l) - chroma * l;

            for (int c = 0; c < 3; c++) /* NaN was seen as 0 */
                p[c] = (p[c] == p[c] ? p[c] : 0.0f) + both + chroma * rgb[c];

            if (b->beyond) {
                const float *more = b->beyond + at + x;
                const float each[3] = { more[0], more[len], more[2 * len] };
                const float grey = zn_luma(each);

                for (int c = 0; c < 3; c++)
                    p[c] += luma * grey + chroma * (each[c] - grey);
            }
            for (int c = 0; b->sharp && c < 3; c++)
                p[c] += b->sharp[at + (size_t)x];
        }
    }
}

bool zn_enhance_blend(const zn_enhance_plan *p, zn_rect strip, zn_rect all, float *pixels, int components,
                      const zn_plane *change)
{
    blend b = { .how = &p->how,
                .change = change,
                .all = all,
                .len = (size_t)all.w * (size_t)all.h,
                .pixels = pixels,
                .components = components };
    float *memory = NULL;
    bool ok = true;

    if (p->reach) {
        if (!(memory = malloc((9 * b.len + (size_t)all.w + 4) * sizeof *memory)))
            return false;
        b.light = memory;
        b.plane = memory + b.len;
        b.mean = memory + 2 * b.len;
        b.limit = memory + 3 * b.len;
        b.spare = memory + 8 * b.len;
        b.row = memory + 9 * b.len;
        if (p->how.sharpen > 0) {
            b.sharp = memory + 7 * b.len;
            ok = find_sharp(&b);
        }
        find_light(&b);
        if (p->how.strength > 1.0) {
            b.beyond = memory + 4 * b.len;
            find_beyond(&b);
        }
        if (p->how.detail > 0.0)
            give_detail_back(&b);
    }
    if (ok)
        add_to(pixels, &b, strip);
    free(memory);
    return ok;
}

/* ---- a larger result -------------------------------------------------------------------------------------------- */

/* Catmull and Rom's cubic through four values: weights of those before, at, after and beyond a place `t` behind the second. */
static void cubic(float weight[4], float t)
{
    weight[0] = ((2 - t) * t - 1) * t / 2;
    weight[1] = ((3 * t - 5) * t * t + 2) / 2;
    weight[2] = ((4 - 3 * t) * t + 1) * t / 2;
    weight[3] = (t - 1) * t * t / 2;
}

typedef struct tap { /* where a pixel of the result lies along an axis of the picture */
    int near;        /* the pixel it is in, */
    int at[4];       /* ... those it is interpolated from, from the part's first on */
    float weight[4];
} tap;

/* i: of the result; from, n: the part of the picture. */
static tap tap_of(int i, int scale, int from, int n)
{
    const int twice = 2 * (i % scale) + 1 - scale; /* from the pixel's centre, in halves of 1/scale */
    const int first = i / scale - from - (twice < 0 ? 2 : 1);
    tap t = { .near = i / scale - from };

    for (int k = 0; k < 4; k++)
        t.at[k] = zn_imin(zn_imax(first + k, 0), n - 1);
    cubic(t.weight, (float)(twice < 0 ? twice + 2 * scale : twice) / (float)(2 * scale));
    return t;
}

typedef struct sampled { /* the values that are interpolated: of a channel of pixels */
    const float *pixels;
    int w, components, channel;
    bool excess; /* what is beyond 0..1 of them */
} sampled;

static float sample_at(const sampled *s, int x, int y)
{
    const float v = s->pixels[((size_t)y * (size_t)s->w + (size_t)x) * (size_t)s->components + (size_t)s->channel];

    if (!isfinite(v))
        return 0;
    return s->excess ? v - zn_clean(v) : v;
}

/* Equal values stay what they are, to the bit. */
static float interpolated(const sampled *s, const tap *x, const tap *y)
{
    const float own = sample_at(s, x->near, y->near);
    float sum = 0;

    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++)
            sum += y->weight[j] * x->weight[i] * (sample_at(s, x->at[i], y->at[j]) - own);
    return own + sum;
}

/* Whether a value of the part is beyond 0..1. */
static bool exceeds(const float *pixels, size_t n, int components)
{
    for (size_t i = 0; i < n; i++, pixels += components)
        for (int c = 0; c < 3; c++)
            if (pixels[c] < 0 || pixels[c] > 1)
                return true;
    return false;
}

void zn_enhance_enlarge(float *dst, const zn_grid *g, zn_rect strip, zn_rect all, const float *pixels, int components,
                        const float *seen, const zn_plane *change)
{
    const bool beyond = exceeds(pixels, (size_t)all.w * (size_t)all.h, components);
    sampled from = { pixels, all.w, components, 0, change != NULL };

    for (int j = 0; j < strip.h; j++) {
        const tap y = tap_of(strip.y + j, g->scale, all.y, all.h);

        for (int i = 0; i < strip.w; i++, dst += components) {
            const tap x = tap_of(strip.x + i, g->scale, all.x, all.w);
            const size_t near = (size_t)y.near * (size_t)all.w + (size_t)x.near;

            for (int c = 0; c < components; c++) {
                from.channel = c;
                from.excess = change && c < 3;
                dst[c] = c < 3 && change && !beyond ? 0 : interpolated(&from, &x, &y);
            }
            if (components == 4)
                dst[3] = zn_clean(dst[3]);
            for (int c = 0; c < 3; c++)
                if (components == 4 && dst[3] == 0) /* hidden */
                    dst[c] = pixels[near * 4 + (size_t)c];
                else if (change)
                    dst[c] += seen[3 * near + (size_t)c] + plane_at(change, strip.x + i, strip.y + j)[c];
        }
    }
}

/* The mean of the visible pixels around x, y of `all`; or mid-grey. */
static void fill_hidden(float rgb[3], const float *pixels, zn_rect all, int x, int y)
{
    float sum[4] = { 0, 0, 0, 0 };

    for (int j = zn_imax(y - ZN_ENLARGE_REACH, all.y); j <= zn_imin(y + ZN_ENLARGE_REACH, all.y + all.h - 1); j++)
        for (int i = zn_imax(x - ZN_ENLARGE_REACH, all.x); i <= zn_imin(x + ZN_ENLARGE_REACH, all.x + all.w - 1); i++) {
            const float *p = pixels + ((size_t)(j - all.y) * (size_t)all.w + (size_t)(i - all.x)) * 4;
            const float alpha = zn_clean(p[3]);

            for (int c = 0; c < 3; c++)
                sum[c] += alpha * zn_clean(p[c]);
            sum[3] += alpha;
        }
    for (int c = 0; c < 3; c++)
        rgb[c] = sum[3] > 0 ? zn_clean(sum[c] / sum[3]) : 0.5f;
}

void zn_enlarge_see(float *dst, zn_rect rect, const float *pixels, zn_rect all, int components)
{
    for (int y = rect.y; y < rect.y + rect.h; y++)
        for (int x = rect.x; x < rect.x + rect.w; x++, dst += 3) {
            const size_t at = (size_t)(y - all.y) * (size_t)all.w + (size_t)(x - all.x);
            const float *p = pixels + at * (size_t)components;

            if (zn_is_hidden(p, components))
                fill_hidden(dst, pixels, all, x, y);
            else
                for (int c = 0; c < 3; c++)
                    dst[c] = zn_clean(p[c]);
        }
}
