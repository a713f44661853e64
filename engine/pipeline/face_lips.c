/* SPDX-License-Identifier: MIT */
/* face_lips.c - the edges of the lips of a face, near the marks of a network: the line between them, or the opening that shows teeth or dark.
 *
 *   ---.___.---   shut: the darkest way across the mouth     __.---.__  top      between them all is nearer to teeth or dark
 *                 (dynamic programming)                        '---'    bottom   than to lips, smooth from column to column (likewise)
 *
 * face_gap.c moves what is found. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = ZN_LIPS,
    ROWS = 32 /* of an opening, however high it is */,
    UPPER = ZN_MARKS_LIPS / 2 /* the mark at the right corner */
};

/* The part of the frame that is looked at, and its pixel. */
static const float middle_x = ZN_LIPS_X, middle_y = ZN_LIPS_Y, part = ZN_LIPS_PART;
static const float valley[2] = { 0.01f, 0.027f }; /* how far above and below a line it is lighter */
static const float step_cost = 0.05f;             /* of a line that rises or falls by a pixel */
static const float faint[2] = { 0.03f, 0.07f };   /* contrast of a line: none, and enough */
static const float bend_cost = 0.2f;              /* of a step of an edge */
/* Of a line and of an edge that is a pixel from its marks, squared. */
static const float line_cost = 0.0005f, edge_cost = 0.12f;
/* Lips whose marks are apart by less, in parts of the frame, are shut; how far from the marks a line and edges are. */
static const float shut = 0.013f, near_line = 0.014f, near_edge = 0.012f;
static const float least_open = 0.004f; /* the least height of an opening that is one */
/* Half of the width of a mouth, and how far its middle is from that of the face. */
static const float half_width[2] = { 0.04f, 0.3f }, off = 0.15f;
/* Lightness of teeth, of the skin's, and the range in which it is not certain; the same of what is dark. */
static const float teeth_light[2] = { 0.45f, 0.15f }, dark[2] = { 0.27f, 0.1f };
static const float lip_high = 0.025f; /* of lips, at least */
/* Colours of teeth and lips: how far they are apart, the weight of lightness, how much nearer to lips is one of theirs; what is inside and
 * dark, of the lightness of lips. */
static const float own_least = 0.08f, light_counts = 0.3f, towards_lips = 2.5f, shaded = 0.58f;
/* Rows where a jaw may begin, and how much darker it is there than above and below, of the skin's lightness. */
static const int jaw_rows[2] = { 5, 29 };
static const float lighter = 0.12f;
static const float bay = 0.012f;                   /* of the lower lip, that is filled */
static const float beyond[2] = { 0.012f, 0.022f }; /* how far corners are from the marks of inner edges: shut, open */

typedef struct work {
    float *face;            /* [N][N][3] */
    float *light;           /* [N][N], of the skin's */
    float *score;           /* [N][N]: 1 is inside of a mouth, -1 outside */
    float *sum;             /* [N][N] */
    float *room;            /* [N][N] */
    float line[N], seen[N]; /* y of a line in pixels, and how well it is seen */
    float skin[3];          /* medians */
    int x0, x1;             /* columns between the corners */
    float corner[2];        /* of the marks, in pixels */
    float mark[2][N];       /* likewise, y of the edges */
} work;

float zn_redness(const float *rgb)
{
    return (rgb[0] - rgb[1]) / fmaxf(fmaxf(rgb[0], fmaxf(rgb[1], rgb[2])), 0.05f);
}

static int clamped(int y)
{
    return zn_imin(zn_imax(y, 0), N - 1);
}

/* Pixels of a length in the frame. */
static float pixels(float length)
{
    return length * N / part;
}

static float frame_x(float x)
{
    return middle_x + (x / N - 0.5f) * part;
}

static float frame_y(float y)
{
    return middle_y + (y / N - 0.5f) * part;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float median(float *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* The usual colour around the mouth: medians. */
static void measure(work *w)
{
    for (int c = 0; c < 3; c++) {
        int n = 0;

        for (int y = (int)pixels(0.1f); y < N - (int)pixels(0.1f); y += 2)
            for (int x = (int)pixels(0.1f); x < N - (int)pixels(0.1f); x += 2)
                w->room[n++] = w->face[(y * N + x) * 3 + c];
        w->skin[c] = median(w->room, n);
    }
    for (int i = 0; i < N * N; i++)
        w->light[i] = zn_lightness(w->face + i * 3) / fmaxf(zn_lightness(w->skin), 0.02f);
}

static float ramp(float value, const float at[2])
{
    return fminf(fmaxf((value - at[0]) / at[1], -1), 1);
}

/* Colours without their lightness, and a little of it. */
static void features(float dst[4], const float *rgb, const work *w)
{
    const float light = fmaxf(zn_lightness(rgb), 0.05f);

    for (int c = 0; c < 3; c++)
        dst[c] = rgb[c] / light;
    dst[3] = light_counts * light / fmaxf(zn_lightness(w->skin), 0.02f);
}

static float distance(const float *a, const float *b)
{
    float sum = 0;

    for (int c = 0; c < 4; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sqrtf(sum);
}

/* The best row of a column, -1 without any, of those that are at most 2 from `from`: sums less costs of steps. */
static int best_before(float *most, const float *sum, int x, int from, const int rows[2], float cost)
{
    int best = -1;

    for (int y = zn_imax(from - 2, rows[0]); y <= zn_imin(from + 2, rows[1]); y++) {
        const float value = sum[y * N + x] - cost * (float)abs(y - from);

        if (best < 0 || value > *most) {
            *most = value;
            best = y;
        }
    }
    return best;
}

/* dst [N]: y of the way from x0 to x1 with the largest sum of values, between rows[x][0] and rows[x][1]. */
static void find_way(float *dst, const work *w, const float *values, int rows[N][2], float cost)
{
    int best = rows[w->x1 - 1][0];

    for (int x = w->x0; x < w->x1; x++)
        for (int y = rows[x][0]; y <= rows[x][1]; y++) {
            float before = 0;

            if (x > w->x0 && best_before(&before, w->sum, x - 1, y, rows[x - 1], cost) < 0)
                before = -1e6f;
            w->sum[y * N + x] = before + values[y * N + x];
        }
    for (int y = best; y <= rows[w->x1 - 1][1]; y++)
        if (w->sum[y * N + w->x1 - 1] > w->sum[best * N + w->x1 - 1])
            best = y;
    for (int x = w->x1 - 1; x >= w->x0; x--) {
        float most;

        dst[x] = (float)best + 0.5f;
        if (x > w->x0) {
            const int before = best_before(&most, w->sum, x - 1, best, rows[x - 1], cost);

            best = before < 0 ? zn_imin(zn_imax(best, rows[x - 1][0]), rows[x - 1][1]) : before;
        }
    }
    for (int x = 0; x < N; x++)
        dst[x] = dst[zn_imin(zn_imax(x, w->x0), w->x1 - 1)];
}

/* A mean over neighbours, by a weight; weight NULL: the same for all. */
static void smooth(float *line, const float *weight, int radius)
{
    float room[N];

    for (int k = 0; k < 2; k++) {
        for (int x = 0; x < N; x++) {
            float sum = 0, n = 0;

            for (int i = zn_imax(x - radius, 0); i <= zn_imin(x + radius, N - 1); i++) {
                const float part_of = weight ? weight[i] + 1e-3f : 1;

                sum += part_of * line[i];
                n += part_of;
            }
            room[x] = sum / n;
        }
        memcpy(line, room, sizeof room);
    }
}

/* ---- marks -------------------------------------------------------------------------------------------------------- */

/* The y of a chain of marks, from left to right, at a column; beyond its ends it goes on. */
static float chain_at(const float chain[UPPER + 1][2], float x)
{
    int i = 0;

    while (i + 2 <= UPPER && chain[i + 1][0] < x)
        i++;
    return chain[i][1] +
        fminf(fmaxf((x - chain[i][0]) / fmaxf(chain[i + 1][0] - chain[i][0], 0.5f), 0), 1) *
        (chain[i + 1][1] - chain[i][1]);
}

/* The marks in pixels.  False: they are not those of a mouth. */
static bool read_marks(work *w, const zn_marks *marks)
{
    const float *left = marks->lips[0], *right = marks->lips[UPPER];
    float p[ZN_MARKS_LIPS][2], chain[UPPER + 1][2];

    if (!marks->found || !(right[0] - left[0] > 2 * half_width[0] && right[0] - left[0] < 2 * half_width[1]) ||
        !(fabsf((left[0] + right[0]) / 2 - middle_x) < off))
        return false;
    for (int i = 0; i < ZN_MARKS_LIPS; i++)
        for (int k = 0; k < 2; k++)
            p[i][k] = (zn_clean(marks->lips[i][k]) - (k ? middle_y : middle_x)) * N / part + (float)N / 2;
    for (int k = 0; k < 2; k++) {
        w->corner[k] = p[k * UPPER][0];
        for (int i = 0; i <= UPPER; i++)
            memcpy(chain[i], p[k && i ? ZN_MARKS_LIPS - i : i], sizeof chain[i]);
        for (int x = 0; x < N; x++)
            w->mark[k][x] = fminf(fmaxf(chain_at((const float(*)[2])chain, (float)x + 0.5f), 0), N - 1);
    }
    for (int x = 0; x < N; x++)
        w->mark[1][x] = fmaxf(w->mark[1][x], w->mark[0][x]);
    w->x0 = zn_imax((int)ceilf(w->corner[0]), 0);
    w->x1 = zn_imin((int)floorf(w->corner[1]), N);
    return w->x1 - w->x0 > 8;
}

/* The marks of the upper (k 0) or the lower edge, or of the line between them (k 2). */
static float mark_at(const work *w, int k, int x)
{
    return k < 2 ? w->mark[k][x] : (w->mark[0][x] + w->mark[1][x]) / 2;
}

/* Rows that are so near to marks. */
static void near_marks(int rows[N][2], const work *w, int k, float near)
{
    for (int x = 0; x < N; x++) {
        rows[x][0] = clamped((int)(mark_at(w, k, x) - pixels(near)));
        rows[x][1] = clamped((int)(mark_at(w, k, x) + pixels(near)));
    }
}

/* ---- a shut mouth ------------------------------------------------------------------------------------------------ */

/* How much darker each place is than what is above and below, and how near to the marks. */
static void find_valleys(work *w)
{
    const int near = (int)(pixels(valley[0]) + 0.5f), far = (int)(pixels(valley[1]) + 0.5f);

    zn_mean_twice(w->room, w->sum, w->light, N, 1, 1, NULL);
    for (int i = 0; i < N * N; i++) {
        const int y = i / N;
        const float *l = w->room + i % N, off_mark = (float)y + 0.5f - mark_at(w, 2, i % N);

        w->score[i] =
            (l[clamped(y - near) * N] + l[clamped(y - far) * N] + l[clamped(y + near) * N] + l[clamped(y + far) * N]) /
                4 -
            l[y * N] - line_cost * off_mark * off_mark;
    }
}

/* The way between the corners that is darkest compared with what is above and below; and how sure it is that it is one. */
static void put_shut(zn_lips *lips, work *w)
{
    float contrast = 0;
    int rows[N][2];

    find_valleys(w);
    near_marks(rows, w, 2, near_line);
    find_way(w->line, w, w->score, rows, step_cost);
    for (int x = 0; x < N; x++) {
        w->seen[x] = x < w->x0 || x >= w->x1 ? 0 : fmaxf(w->score[(int)w->line[x] * N + x], 0);
        contrast += w->seen[x] / (float)(w->x1 - w->x0);
    }
    smooth(w->line, w->seen, 6);
    lips->sure = zn_rise((contrast - faint[0]) / (faint[1] - faint[0]));
    for (int x = 0; x < N; x++)
        lips->top[x] = lips->bottom[x] = frame_y(w->line[x]);
}

/* ---- an open one ------------------------------------------------------------------------------------------------- */

/* The edges of what is inside, around the middle of the marks; top and bottom [N], in pixels. */
static void find_edges(float *top, float *bottom, work *w)
{
    int rows[N][2];

    for (int x = 0; x < N; x++) {
        float sum = 0;

        for (int y = 0; y < N; y++) {
            w->room[y * N + x] = sum; /* of the rows above */
            sum += w->score[y * N + x];
        }
    }
    for (int i = 0; i < N * N;
         i++) { /* both edges are unlikely far from their marks; that of the other one is beyond its rows */
        const int x = i % N;
        const float y = (float)(i / N) + 0.5f;
        const int k = y > mark_at(w, 2, x);

        w->room[i] -= (k ? edge_cost : -edge_cost) * (y - w->mark[k][x]) * (y - w->mark[k][x]);
    }
    near_marks(rows, w, 1, near_edge);
    for (int x = 0; x < N; x++)
        rows[x][0] = zn_imax(rows[x][0], zn_imin((int)mark_at(w, 2, x), rows[x][1]));
    find_way(bottom, w, w->room, rows, 2 * bend_cost);
    for (int i = 0; i < N * N; i++)
        w->room[i] = -w->room[i];
    near_marks(rows, w, 0, near_edge);
    for (int x = 0; x < N; x++)
        rows[x][1] = zn_imin(rows[x][1], zn_imax((int)mark_at(w, 2, x), rows[x][0]));
    find_way(top, w, w->room, rows, 2 * bend_cost);
    for (int x = 0; x < N; x++) { /* between pixels */
        top[x] -= 0.5f;
        bottom[x] = fmaxf(bottom[x] - 0.5f, top[x]);
    }
}

/* Median colours of the light part of what is inside, and of the lip below (k 1) or above it (k 0).  False: there are too few pixels. */
static bool measure_lip(float teeth[3], float lip[3], work *w, const float *top, const float *bottom, const int ends[2],
                        int k)
{
    const int thick = (int)pixels(lip_high);

    for (int c = 0; c < 3; c++) {
        int n = 0, m = 0;

        for (int x = ends[0]; x <= ends[1]; x++) {
            for (int y = (int)top[x]; y < (int)bottom[x]; y++)
                if (w->light[y * N + x] > teeth_light[0])
                    w->room[n++] = w->face[(y * N + x) * 3 + c];
            for (int y = 2; y < thick; y++)
                w->sum[m++] =
                    w->face[(clamped((int)(k ? bottom[x] + (float)y : top[x] - (float)y - 1)) * N + x) * 3 + c];
        }
        if (n < 30 || m < 30)
            return false;
        teeth[c] = median(w->room, n);
        lip[c] = median(w->sum, m);
    }
    return true;
}

/* Scores by this mouth's own colours: whether a pixel is nearer to teeth or to lips and skin.  False: they are alike. */
static bool find_scores(work *w, const float *top, const float *bottom, const int ends[2])
{
    float rgb[2][3], teeth[4], outside[3][4], light = 0, shade[2];

    for (int k = 0; k < 2; k++) {
        if (!measure_lip(rgb[0], rgb[1], w, top, bottom, ends, k))
            return false;
        features(teeth, rgb[0], w);
        features(outside[k], rgb[1], w);
        light += zn_lightness(rgb[1]) / (2 * fmaxf(zn_lightness(w->skin), 0.02f));
    }
    shade[0] = fmaxf(shaded * light, dark[0]);
    shade[1] = shade[0] / 3;
    features(outside[2], w->skin, w);
    if (fminf(distance(teeth, outside[0]), distance(teeth, outside[1])) < own_least)
        return false;
    for (int i = 0; i < N * N; i++) {
        float f[4], near = INFINITY, own;

        features(f, w->face + i * 3, w);
        for (int k = 0; k < 3; k++)
            near = fminf(near, (k < 2 ? towards_lips : 1) * distance(f, outside[k]));
        own = distance(f, teeth);
        own = fminf(fmaxf(3 * (near - own) / fmaxf(near + own, 1e-3f), -1), 1);
        w->score[i] = fmaxf(fminf(own, ramp(w->light[i], teeth_light) + 1), -ramp(w->light[i], shade));
    }
    return true;
}

/* An edge without its small bays, between teeth or in shade, which are inside, too.  side: 1 if inside is above it, -1 if it is below. */
static void smooth_edge(float *edge, float side, const int ends[2])
{
    float even[N];

    for (int x = 0; x < N; x++)
        even[x] = edge[zn_imin(zn_imax(x, ends[0]), ends[1])];
    memcpy(edge, even, sizeof even);
    smooth(edge, NULL, 3);
    smooth(even, NULL, 8);
    for (int x = 0; x < N; x++)
        edge[x] = side * fmaxf(side * edge[x], side * even[x]);
    smooth(edge, NULL, 2);
}

/* A lower lip has no bay between two of its places: the least line above all of it that bends one way only, if it is near. */
static void fill_bays(float *bottom, int first, int last)
{
    int hull[N], n = 0;

    for (int x = first; x <= last; x++) {
        while (n > 1 &&
               (bottom[hull[n - 1]] - bottom[hull[n - 2]]) * (float)(x - hull[n - 2]) <=
                   (bottom[x] - bottom[hull[n - 2]]) * (float)(hull[n - 1] - hull[n - 2]))
            n--;
        hull[n++] = x;
    }
    for (int k = 0; k + 1 < n; k++)
        for (int x = hull[k] + 1; x < hull[k + 1]; x++) {
            const float t = (float)(x - hull[k]) / (float)(hull[k + 1] - hull[k]);
            const float y = bottom[hull[k]] + t * (bottom[hull[k + 1]] - bottom[hull[k]]);

            bottom[x] += fminf(y - bottom[x], pixels(bay));
        }
}

/* The part of the height of an opening that is darkest, if it is lighter above, where upper teeth are, and
 * below, where lower ones or a tongue are. */
static float find_jaw(const work *w, const float *top, const float *bottom)
{
    const int margin = (w->x1 - w->x0) / 4;
    float light[ROWS] = { 0 }, lightest[2] = { 0, 0 };
    int darkest = ROWS - 1;

    for (int x = w->x0 + margin; x < w->x1 - margin; x++)
        for (int i = 0; i < ROWS; i++) {
            const float y = top[x] + (bottom[x] - top[x]) * ((float)i + 0.5f) / ROWS;

            light[i] += w->light[clamped((int)y) * N + x] / (float)(w->x1 - w->x0 - 2 * margin);
        }
    for (int i = jaw_rows[0]; i < jaw_rows[1]; i++)
        if (light[i] < light[darkest])
            darkest = i;
    for (int i = jaw_rows[0]; i < jaw_rows[1]; i++)
        lightest[i > darkest] = fmaxf(lightest[i > darkest], light[i]);
    return fminf(lightest[0], lightest[1]) - light[darkest] > lighter ? ((float)darkest + 0.5f) / ROWS : 1;
}

/* Between the ends as it is found, and from there narrower to the corners, which are marks. */
static void put_open(zn_lips *lips, work *w)
{
    float top[N], bottom[N];
    int ends[2] = { w->x0, w->x1 - 1 };

    memcpy(top, w->mark[0], sizeof top);
    memcpy(bottom, w->mark[1], sizeof bottom);
    if (find_scores(w, top, bottom, ends))
        find_edges(top, bottom, w);
    while (ends[0] < ends[1] && bottom[ends[0]] - top[ends[0]] < pixels(least_open))
        ends[0]++;
    while (ends[1] > ends[0] && bottom[ends[1]] - top[ends[1]] < pixels(least_open))
        ends[1]--;
    smooth_edge(top, -1, ends);
    smooth_edge(bottom, 1, ends);
    for (int k = 0; k < 2; k++) {
        const int step = k ? 1 : -1, corner = clamped((int)(w->corner[k] + (float)step * pixels(beyond[1])));
        const float half = (bottom[ends[k]] - top[ends[k]]) / 2, between = (top[ends[k]] + bottom[ends[k]]) / 2;
        const float y = (w->mark[0][corner] + w->mark[1][corner]) / 2;

        for (int x = ends[k] + step; x >= 0 && x < N; x += step) {
            const float t = fminf((float)(x - ends[k]) / (float)(corner != ends[k] ? corner - ends[k] : step), 1);

            top[x] = between + t * (y - between) - half * (1 - t);
            bottom[x] = between + t * (y - between) + half * (1 - t);
        }
    }
    fill_bays(bottom, w->x0, w->x1 - 1);
    smooth(bottom, NULL, 5);
    for (int x = 0; x < N; x++) {
        lips->top[x] = frame_y(top[x]);
        lips->bottom[x] = frame_y(fmaxf(bottom[x], top[x]));
    }
    lips->jaw = find_jaw(w, top, bottom);
    lips->sure = 1;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

void zn_lips_square(zn_square *part_of, const zn_square *frame)
{
    const double a = (double)(middle_x - 0.5f) * frame->size, b = (double)(middle_y - 0.5f) * frame->size;

    *part_of = *frame;
    part_of->x += frame->cos * a - frame->sin * b;
    part_of->y += frame->sin * a + frame->cos * b;
    part_of->size *= (double)part;
}

bool zn_lips_find(zn_lips *lips, const float *mouth, const zn_marks *marks)
{
    const size_t n = (size_t)N * N;
    float *memory = malloc(n * 7 * sizeof *memory), high = 0;
    work w = { .face = memory };

    *lips = (zn_lips){ .jaw = 1 };
    if (!memory)
        return false;
    w.light = memory + 3 * n;
    w.score = w.light + n;
    w.sum = w.score + n;
    w.room = w.sum + n;
    for (size_t i = 0; i < 3 * n; i++)
        w.face[i] = zn_clean(mouth[i]);
    measure(&w);
    memcpy(lips->skin, w.skin, sizeof lips->skin);
    if (read_marks(&w, marks)) {
        for (int x = w.x0; x < w.x1; x++)
            high = fmaxf(high, (w.mark[1][x] - w.mark[0][x]) * part / N);
        lips->open = high > shut;
        for (int k = 0; k < 2; k++)
            lips->x[k] = frame_x(w.corner[k]) + (k ? 1.0f : -1.0f) * beyond[lips->open];
        (lips->open ? put_open : put_shut)(lips, &w);
    }
    free(memory);
    return true;
}
