/* SPDX-License-Identifier: MIT */
/* faces.c - finding faces: a pyramid, a detector on each of its levels, and a second network that corrects its results.
 *
 *   picture ── at most a megapixel ── halves ── face-detect ── peaks ── the best of neighbours
 *                                       └── crop of each ── face-points, twice ── the best of neighbours ── frames
 *
 * The networks know faces that are upright, more or less.  Where there is none, the picture is turned by 90 degrees, three times.
 *
 * Coordinates are continuous: the middle of the first pixel is at 0.5. */
#include "../core/ints.h"
#include "../core/status.h"
#include "../models/face_find.h"
#include "../zenith_bench.h"
#include "engines.h"
#include "model.h"
#include "request.h"
#include "shrink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PIXELS = 1 << 20, /* of the largest level */
    MAX_LEVELS = 16,
    MAX_PEAKS = 256,  /* of the whole pyramid */
    MAX_CHECKED = 64, /* of them, that the second network sees */
    PASSES = 2,
    STRIP = 1 << 20,  /* floats that are read at once, or one row */
    MAX_SAMPLES = 16, /* of a pixel that is cut out, in x and in y */
    TURNS = 4,        /* of the picture: none, and by 90, 180 and 270 degrees if no face is upright */
};

#define MIN_PEAK 0.1f /* of the detector's score: the second network decides */

static const double PI = 3.14159265358979323846;

/* Eyes and mouth from the middle of a frame of side 1: the picture's left eye first. */
static const double mark[3][2] = { { -24 / 128., -25 / 128. }, { 24 / 128., -25 / 128. }, { 0, 24 / 128. } };

struct zn_finder {
    zn_model *detect, *points;
};

typedef struct level {
    float *data; /* [h][w][3] in -1..1; h and w are multiples of a cell, the rest is 0: mid-grey */
    int h, w;
    int rows, columns; /* of the picture */
} level;

typedef struct pyramid {
    level level[MAX_LEVELS];
    int n;
    double scale_x, scale_y; /* pixels of the picture in one of level 0 */
} pyramid;

typedef struct frame { /* in pixels of level 0 */
    double x, y, side, angle;
    float score;
} frame;

/* ---- the pyramid ----------------------------------------------------------------------------------------- */

static bool new_level(level *l, int rows, int columns)
{
    *l = (level){
        .h = zn_round_up(rows, ZN_FIND_CELL), .w = zn_round_up(columns, ZN_FIND_CELL), .rows = rows, .columns = columns
    };
    l->data = calloc((size_t)l->h * (size_t)l->w * 3, sizeof *l->data);
    return l->data != NULL;
}

static void free_pyramid(pyramid *p)
{
    for (int i = 0; i < p->n; i++)
        free(p->level[i].data);
}

/* Level 0: the picture, or its area means where it is larger than a megapixel.  Read in strips. */
static zn_status read_picture(level *l, const zn_source *in, zn_engine *e, zn_error *err)
{
    const int strip = zn_imax(1, STRIP / 3 / in->w);
    zn_status s = zn_turn_take(&e->turn, err);
    zn_shrink *shrink;
    zn_pool *pool;
    float *buffer;

    if (s)
        return s;
    pool = zn_engine_helpers(e);
    zn_turn_give(&e->turn);
    buffer = malloc((size_t)zn_imin(strip, in->h) * (size_t)in->w * 3 * sizeof *buffer);
    shrink = zn_shrink_new(l->rows, l->columns, in->h, in->w, pool);
    if (!buffer || !shrink)
        s = zn_fail(err, ZN_E_MEMORY, "there is not enough memory to look for faces");
    for (int top = 0; !s && top < in->h; top += strip) {
        const zn_rect r = { 0, top, in->w, zn_imin(strip, in->h - top) };

        if (!in->read(in->cookie, r, buffer)) {
            s = zn_fail(err, ZN_E_FILE, "the picture cannot be read");
        } else if (!(s = zn_turn_take(&e->turn, err))) { /* of the pool, too */
            zn_shrink_rows(shrink, l->data, (size_t)l->w * 3, buffer, r.h, pool);
            zn_turn_give(&e->turn);
        }
    }
    zn_shrink_free(&shrink);
    free(buffer);
    return s;
}

static void halve(level *to, const level *from)
{
    zn_shrink_half(to->data, (size_t)to->w * 3, from->data, (size_t)from->w * 3, to->rows, to->columns);
}

static zn_status build(pyramid *p, const zn_source *in, zn_engine *e, zn_error *err)
{
    const double pixels = (double)in->w * in->h, by = pixels > MAX_PIXELS ? sqrt(MAX_PIXELS / pixels) : 1;
    int rows = zn_imax(1, (int)(in->h * by)), columns = zn_imax(1, (int)(in->w * by));
    zn_status s = ZN_OK;

    /* A picture that is one line: level 0 keeps its bound. */
    rows = zn_imin(rows, MAX_PIXELS);
    columns = zn_imin(columns, MAX_PIXELS / rows);
    *p = (pyramid){ .scale_x = (double)in->w / columns, .scale_y = (double)in->h / rows };
    while (!s && p->n < MAX_LEVELS && zn_imin(rows, columns) >= ZN_FIND_SMALLEST / 2) {
        if (!new_level(&p->level[p->n], rows, columns))
            return zn_fail(err, ZN_E_MEMORY, "there is not enough memory to look for faces");
        p->n++;
        if (p->n == 1)
            s = read_picture(&p->level[0], in, e, err);
        else
            halve(&p->level[p->n - 1], &p->level[p->n - 2]);
        rows /= 2;
        columns /= 2;
    }
    return s;
}

/* ---- frames ---------------------------------------------------------------------------------------------- */

/* The similarity that takes the marks to these points with the least squared error. */
static frame fit(const double point[3][2])
{
    double mx = 0, my = 0, px = 0, py = 0, re = 0, im = 0, square = 0;

    for (int k = 0; k < 3; k++) {
        mx += mark[k][0] / 3;
        my += mark[k][1] / 3;
        px += point[k][0] / 3;
        py += point[k][1] / 3;
    }
    for (int k = 0; k < 3; k++) {
        const double ax = mark[k][0] - mx, ay = mark[k][1] - my, bx = point[k][0] - px, by = point[k][1] - py;

        re += ax * bx + ay * by;
        im += ax * by - ay * bx;
        square += ax * ax + ay * ay;
    }
    re /= square;
    im /= square;
    return (frame){ px - (re * mx - im * my), py - (im * mx + re * my), hypot(re, im), atan2(im, re), 0 };
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static int by_score(const void *a, const void *b)
{
    const frame *one = a, *other = b;

    if (one->score != other->score)
        return one->score > other->score ? -1 : 1;
    return one->y != other->y ? (one->y < other->y ? -1 : 1) : (one->x > other->x) - (one->x < other->x);
}

static int by_size(const void *a, const void *b)
{
    const frame *one = a, *other = b;

    return one->side != other->side ? (one->side > other->side ? -1 : 1) : by_score(a, b);
}

/* Of frames whose middles are near each other the best stays; returns how many do, best first. */
static int suppress(frame *f, int n)
{
    int kept = 0;

    qsort(f, (size_t)n, sizeof *f, by_score);
    for (int i = 0; i < n; i++) {
        bool alone = true;

        for (int k = 0; k < kept; k++)
            alone = alone && hypot(f[i].x - f[k].x, f[i].y - f[k].y) > 0.5 * fmin(f[i].side, f[k].side) &&
                hypot(f[i].x - f[k].x, f[i].y - f[k].y) > 0.3 * fmax(f[i].side, f[k].side);
        if (alone)
            f[kept++] = f[i];
    }
    return kept;
}

/* The cells that score more than their neighbours; keeps the best MAX_PEAKS. */
static int add_peaks(frame *peak, int n, const zn_array *cells, int at)
{
    const double scale = ldexp(1, at);

    for (int i = 0; i < cells->h; i++)
        for (int j = 0; j < cells->w; j++) {
            const float *cell = cells->data + ((size_t)i * (size_t)cells->w + (size_t)j) * 7;
            bool highest = sigmoid(cell[0]) >= MIN_PEAK;
            double point[3][2];
            frame f;

            for (int row = zn_imax(0, i - 1); highest && row <= zn_imin(cells->h - 1, i + 1); row++)
                for (int column = zn_imax(0, j - 1); column <= zn_imin(cells->w - 1, j + 1); column++) {
                    const float other = cells->data[((size_t)row * (size_t)cells->w + (size_t)column) * 7];
                    const bool before = row < i || (row == i && column < j);

                    if (other > cell[0] || (before && other == cell[0]))
                        highest = false;
                }
            if (!highest)
                continue;
            for (int k = 0; k < 3; k++) {
                point[k][0] = (j + 0.5) * ZN_FIND_CELL + (double)cell[1 + 2 * k] * ZN_FIND_REACH;
                point[k][1] = (i + 0.5) * ZN_FIND_CELL + (double)cell[2 + 2 * k] * ZN_FIND_REACH;
            }
            f = fit(point);
            if (!(f.side >= 0.6 * ZN_FIND_SMALLEST && f.side <= 1.5 * ZN_FIND_LARGEST))
                continue;
            f = (frame){ f.x * scale, f.y * scale, f.side * scale, f.angle, sigmoid(cell[0]) };
            if (n == MAX_PEAKS) { /* full: the worst one is replaced */
                qsort(peak, (size_t)n, sizeof *peak, by_score);
                if (by_score(&f, &peak[n - 1]) >= 0)
                    continue;
                n--;
            }
            peak[n++] = f;
        }
    return n;
}

/* ---- crops ----------------------------------------------------------------------------------------------- */

/* One pixel between four; outside, the nearest one inside. */
static void sample(float out[3], const float *data, int rows, int columns, int w, double x, double y)
{
    const double cx = fmin(fmax(x - 0.5, 0), columns - 1), cy = fmin(fmax(y - 0.5, 0), rows - 1);
    const int j = (int)cx, i = (int)cy, right = zn_imin(j + 1, columns - 1) - j, below = zn_imin(i + 1, rows - 1) - i;
    const float right_share = (float)(cx - j), lower_share = (float)(cy - i);
    const float *upper = data + ((size_t)i * (size_t)w + (size_t)j) * 3, *lower = upper + (size_t)below * (size_t)w * 3;

    for (int c = 0; c < 3; c++)
        out[c] = (1 - lower_share) * ((1 - right_share) * upper[c] + right_share * upper[3 * right + c]) +
            lower_share * ((1 - right_share) * lower[c] + right_share * lower[3 * right + c]);
}

/* The neighbourhood of a frame, from the level where it has about the detail of the crop. */
static void cut(float *crop, const pyramid *p, const frame *f)
{
    const double usual = ZN_FIND_CROP / ZN_FIND_ROOM;
    int at = 0;
    double scale, step, cosine, sine;

    while (at + 1 < p->n && ldexp(f->side, -at) >= 2 * usual)
        at++;
    scale = ldexp(1, -at);
    step = f->side * scale * ZN_FIND_ROOM / ZN_FIND_CROP;
    cosine = cos(f->angle) * step;
    sine = sin(f->angle) * step;
    for (int i = 0; i < ZN_FIND_CROP; i++)
        for (int j = 0; j < ZN_FIND_CROP; j++) {
            const double u = j + 0.5 - ZN_FIND_CROP / 2., v = i + 0.5 - ZN_FIND_CROP / 2.;
            const level *l = &p->level[at];

            sample(crop + 3 * (size_t)(i * ZN_FIND_CROP + j), l->data, l->rows, l->columns, l->w,
                   f->x * scale + cosine * u - sine * v, f->y * scale + sine * u + cosine * v);
        }
}

/* Moves the frame to where the second network sees the marks; its score becomes that of both networks. */
static zn_status correct(frame *f, zn_finder *finder, const pyramid *p, float *crop, zn_error *err)
{
    const zn_array in = { crop, ZN_FIND_CROP, ZN_FIND_CROP, 3 };
    const float first = f->score;

    for (int pass = 0; pass < PASSES; pass++) {
        float out[7];
        zn_array result = { out, 1, 1, 7 };
        const zn_request q = { .arrays = &in, .results = &result, .n_in = 1 };
        const double cosine = cos(f->angle), sine = sin(f->angle), unit = f->side * ZN_FIND_ROOM / 4;
        double at[3][2];
        zn_status s;
        frame next;

        cut(crop, p, f);
        if ((s = zn_request_run(finder->points, &q, err)))
            return s;
        for (int k = 0; k < 3; k++) {
            const double u = mark[k][0] * f->side + (double)out[1 + 2 * k] * unit;
            const double v = mark[k][1] * f->side + (double)out[2 + 2 * k] * unit;

            at[k][0] = f->x + cosine * u - sine * v;
            at[k][1] = f->y + sine * u + cosine * v;
        }
        next = fit(at);
        next.score = sqrtf(first * sigmoid(out[0]));
        if (!(next.side > 0.3 * f->side && next.side < 3 * f->side) || !isfinite(next.x + next.y)) {
            f->score = 0;
            return ZN_OK;
        }
        *f = next;
    }
    return ZN_OK;
}

/* ---- calls of zenith.h ------------------------------------------------------------------------------------- */

zn_status zn_finder_open(zn_finder **out, zn_engine *engine, const zn_open *open, zn_error *err)
{
    static const zn_open none;
    zn_finder *finder = calloc(1, sizeof *finder);
    zn_status s = finder ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory");

    *out = NULL;
    if (err && finder)
        err->text[0] = 0;
    if (!s)
        s = zn_standin_open(&finder->detect, engine, &zn_arch_face_detect, open ? open : &none, err);
    if (!s)
        s = zn_standin_open(&finder->points, engine, &zn_arch_face_points, open ? open : &none, err);
    if (s)
        zn_finder_close(&finder);
    *out = finder;
    return s;
}

void zn_finder_close(zn_finder **finder)
{
    if (!finder || !*finder)
        return;
    zn_model_free(&(*finder)->detect);
    zn_model_free(&(*finder)->points);
    free(*finder);
    *finder = NULL;
}

/* Runs the detector on every level. */
static zn_status detect(frame *peak, int *n, zn_finder *finder, const pyramid *p, zn_error *err)
{
    zn_status s = ZN_OK;

    *n = 0;
    for (int i = 0; !s && i < p->n; i++) {
        const level *l = &p->level[i];
        const zn_array in = { l->data, l->h, l->w, 3 };
        zn_array cells = { NULL, l->h / ZN_FIND_CELL, l->w / ZN_FIND_CELL, 7 };
        const zn_request q = { .arrays = &in, .results = &cells, .n_in = 1 };

        cells.data = malloc(zn_array_len(&cells) * sizeof(float));
        s = cells.data ? zn_request_run(finder->detect, &q, err)
                       : zn_fail(err, ZN_E_MEMORY, "there is not enough memory to look for faces");
        if (!s)
            *n = add_peaks(peak, *n, &cells, i);
        free(cells.data);
    }
    return s;
}

/* The frames that both networks believe in, in pixels of level 0. */
static zn_status look(frame *peak, int *n, zn_finder *finder, const pyramid *p, float threshold, float *crop,
                      zn_error *err)
{
    int n_peaks = 0, kept = 0;
    zn_status s = detect(peak, &n_peaks, finder, p, err);

    if (!s)
        n_peaks = zn_imin(suppress(peak, n_peaks), MAX_CHECKED);
    for (int i = 0; !s && i < n_peaks; i++) {
        s = correct(&peak[i], finder, p, crop, err);
        if (!s && peak[i].score >= threshold)
            peak[kept++] = peak[i];
    }
    *n = s ? 0 : kept;
    return s;
}

/* Turns the picture by 90 degrees, clockwise. */
static zn_status turn(pyramid *p, zn_error *err)
{
    pyramid turned = { .scale_x = p->scale_x, .scale_y = p->scale_y };
    const level *from = &p->level[0];

    for (int i = 0; i < p->n; i++) {
        level *to = &turned.level[i];

        if (!new_level(to, p->level[i].columns, p->level[i].rows)) {
            free_pyramid(&turned);
            return zn_fail(err, ZN_E_MEMORY, "there is not enough memory to look for faces");
        }
        turned.n++;
        for (int y = 0; !i && y < to->rows; y++)
            for (int x = 0; x < to->columns; x++)
                memcpy(to->data + ((size_t)y * (size_t)to->w + (size_t)x) * 3,
                       from->data + ((size_t)(from->rows - 1 - x) * (size_t)from->w + (size_t)y) * 3,
                       3 * sizeof(float));
        if (i)
            halve(to, to - 1);
    }
    free_pyramid(p);
    *p = turned;
    return ZN_OK;
}

/* The frame in the picture before it was turned n times; p: now. */
static frame turn_back(frame f, const pyramid *p, int n)
{
    double height = p->level[0].columns, width = p->level[0].rows;

    for (; n > 0; n--) {
        const double swapped = height;

        f = (frame){ f.y, height - f.x, f.side, f.angle - PI / 2, f.score };
        height = width;
        width = swapped;
    }
    f.angle = remainder(f.angle, 2 * PI);
    return f;
}

/* Looks at the picture, and if it has no face, at what it is when turned. */
static zn_status look_around(frame *all, int *n, zn_finder *finder, pyramid *p, float threshold, float *crop,
                             zn_error *err)
{
    frame *more = malloc(MAX_PEAKS * sizeof *more);
    zn_status s = more ? look(all, n, finder, p, threshold, crop, err)
                       : zn_fail(err, ZN_E_MEMORY, "there is not enough memory to look for faces");

    threshold = 0.5f * (1 + threshold); /* something that looks like a face is more frequent than a face that lies */
    for (int k = 1, turns = *n ? 1 : TURNS; !s && k < turns; k++) {
        int n_more = 0;

        s = turn(p, err);
        if (!s)
            s = look(more, &n_more, finder, p, threshold, crop, err);
        for (int i = 0; i < n_more && *n < MAX_PEAKS; i++)
            all[(*n)++] = turn_back(more[i], p, k);
    }
    free(more);
    return s;
}

zn_status zn_find_faces(zn_face *list, int max, int *n, zn_finder *finder, const zn_source *in, zn_error *err)
{
    const zn_model *m = *finder->detect->failed.text ? finder->detect->stand_in : finder->detect;
    const float threshold = zn_find_threshold(m->net);
    frame *peak = malloc(MAX_PEAKS * sizeof *peak);
    float *crop = malloc((size_t)ZN_FIND_CROP * ZN_FIND_CROP * 3 * sizeof *crop);
    pyramid p = { 0 };
    int kept = 0;
    zn_status s = ZN_OK;

    *n = 0;
    if (err)
        err->text[0] = 0;
    if (!peak || !crop)
        s = zn_fail(err, ZN_E_MEMORY, "there is not enough memory to look for faces");
    else if (in->c != 3 || in->w < 1 || in->h < 1)
        s = zn_fail(err, ZN_E_USAGE, "faces are looked for in pictures of three channels, not in %dx%dx%d", in->w,
                    in->h, in->c);
    if (!s)
        s = build(&p, in, finder->detect->engine, err);
    if (!s)
        s = look_around(peak, &kept, finder, &p, threshold, crop, err);
    if (!s) {
        kept = suppress(peak, kept);
        qsort(peak, (size_t)kept, sizeof *peak, by_size);
        for (int i = 0; i < kept && i < max; i++)
            list[i] = (zn_face){ (float)(peak[i].x * p.scale_x), (float)(peak[i].y * p.scale_y),
                                 (float)(peak[i].side * sqrt(p.scale_x * p.scale_y)), (float)(peak[i].angle * 180 / PI),
                                 peak[i].score };
        *n = zn_imin(kept, max);
    }
    free_pyramid(&p);
    free(peak);
    free(crop);
    return s;
}

void zn_face_cut(zn_array *out, const zn_array *picture, const zn_face *face)
{
    const int side = out->h, more = zn_imin(MAX_SAMPLES, zn_imax(1, (int)ceil((double)face->size / side)));
    const double angle = (double)face->angle * PI / 180, step = (double)face->size / side;
    const double cosine = cos(angle) * step, sine = sin(angle) * step;
    double within[MAX_SAMPLES]; /* a pixel of out, where its samples lie */

    for (int k = 0; k < more; k++)
        within[k] = (k + 0.5) / more - side / 2.;
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            float sum[3] = { 0, 0, 0 }, one[3];

            for (int down = 0; down < more; down++)
                for (int right = 0; right < more; right++) {
                    const double u = j + within[right], v = i + within[down];

                    sample(one, picture->data, picture->h, picture->w, picture->w,
                           (double)face->x + cosine * u - sine * v, (double)face->y + sine * u + cosine * v);
                    for (int c = 0; c < 3; c++)
                        sum[c] += one[c];
                }
            for (int c = 0; c < 3; c++)
                out->data[3 * (size_t)(i * side + j) + (size_t)c] = sum[c] / (float)(more * more);
        }
}
