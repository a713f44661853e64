/* SPDX-License-Identifier: MIT */
/* face_lips.c - finds the edges of the lips of a face: the line between them, or the opening that shows teeth or dark.
 *
 *   ---.___.---   shut: the darkest way across the mouth     __.---.__  top      in each column all that is teeth or dark,
 *                 (dynamic programming)                        '---'    bottom   smooth from column to column (likewise)
 *
 * Where nothing is found for certain, nothing is opened or shut.  face_gap.c moves what is found. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = ZN_LIPS };

/* The part of the frame that is looked at; its pixel; where lines are looked for there, and where they usually are. */
static const float middle_x = 0.5f, middle_y = 0.72f, part = ZN_LIPS_PART;
static const float left = 0.25f, right = 0.75f, above = 0.57f, below = 0.88f, usual_x = 0.5f, usual_y = 0.7f;
static const float usual_wide = 0.26f, usual_high = 0.15f; /* half of the part where mouths are */
static const float unusual = 0.08f;                        /* from there */
static const float off = 0.09f;                            /* the middle of a mouth is nearer to the usual one */
static const float valley[2] = { 0.01f, 0.027f };          /* how far above and below a line it is lighter */
static const float step_cost = 0.05f;                      /* of a line that rises or falls by a pixel */
static const float faint[2] = { 0.07f, 0.16f };            /* contrast of a line: none, and enough */
static const float steep[2] = { 0.7f, 0.95f };             /* a line that lips may have, and one that jumps */
static const float least_half = 0.06f, most_half = 0.19f;  /* half the width of a mouth */
/* Redness of teeth, of the skin's, at most, and the range in which it is not certain; the same of lightness, and of what is dark. */
static const float teeth_red[2] = { 0.68f, 0.2f }, teeth_light[2] = { 0.45f, 0.15f }, dark[2] = { 0.27f, 0.1f };
/* The part of lips' redness that is compared, and the most of it, of the skin's; skin that has less redness has none. */
static const float lips_red[2] = { 0.6f, 1.12f }, grey = 0.06f;
static const float bend_cost = 0.2f; /* of a step of an edge */
/* Of an opening, in parts of the frame: the least height that is one; widths and heights that mouths have; columns without it inside;
 * how sure all of it is, and how much its middle jumps. */
static const float least_open = 0.008f, wide[2] = { 0.1f, 0.5f }, high[2] = { 0.02f, 0.105f }, hole = 0.02f,
                   sure[2] = { 0.58f, 0.72f }, rough = 0.006f;
/* How far the middle of an opening is from the line, its edges from there, and refined edges from the first ones, above and below. */
static const float around = 0.04f, furthest = 0.06f, nearer[2] = { 0.014f, 0.02f };
static const float lip_high = 0.025f; /* of lips, at least */
/* Colours of teeth and lips: how far they are apart, the weight of lightness, how much nearer to lips is one of theirs; what is inside and
 * dark, of the lightness of lips. */
static const float own_least = 0.08f, light_counts = 0.3f, towards_lips = 2.5f, shaded = 0.58f;
/* Strips beside a line; how much their redness differs if both are lips, and if one is not; and how dark one is then, of the other. */
static const float strip[2] = { 0.008f, 0.02f }, unlike[2] = { 0.3f, 0.45f }, darker = 0.4f;
static const float reddish[2] = { 1.05f, 1.2f }; /* redness, of the skin's, that may be skin's, and that of lips */
/* Painted lips: half of a part of them; redness above their edge, at most, and below it, of the skin's; lightness below, of that above; how
 * far below it they meet; what a place costs that has no paint above or below. */
static const float painted = 0.08f, paint_red[2] = { 1.45f, 2 }, paint_dark = 0.65f, paint_high[2] = { 0.014f, 0.055f },
                   unpainted = 0.2f;
static const float beside = 0.007f,
                   differs[2] = { 0.05f, 0.09f }; /* of an edge; how different it is there: not, and enough */
static const float gums =
    0.045f; /* an opening of this mean height is no lower lip, but may show gums, which are red, too */
/* Gums above teeth: their height at most, the part of the columns that has some, at least, how far below the line they begin, and the
 * part of those columns that has a lip above, whose colour is a median of columns that are as near. */
static const float gums_high = 0.035f, gums_wide = 0.3f, gums_edge = 0.005f, gums_lips = 0.75f, gums_near = 0.02f;
static const float most_laugh = 0.21f;           /* half the width of a mouth, from the middle of its opening */
static const float redder = 0.65f;               /* teeth have less of the redness of the lip below */
static const float bay = 0.012f;                 /* of the lower lip, that is filled */
static const float grows[2] = { 2, 0.03f };      /* an opening hardly gets higher again, away from its highest column */
static const float ends_at[2] = { 0.2f, 0.35f }; /* contrast at the corners, of an open mouth and of a shut one */
static const float whole[2] = { 0.25f, 0.3f }; /* width of a line that may be a part of one of lips, and of all of it */
static const float short_line[2] = { 0.19f, 0.23f }; /* width of a line that is not one of lips, and of one that is */
static const float narrow[2] = { 0.48f, 0.62f };     /* an opening so narrow, of the line, is not all of it */
static const float unclear = 0.022f; /* mean height of an opening in which a mouth is not shut for certain */
/* From the ends of an opening to the corners of the mouth: at least, also of the height there, and at most. */
static const float corners[2] = { 0.012f, 0.1f }, blunt = 0.7f;

typedef struct work {
    float *face;            /* [N][N][3] */
    float *light;           /* [N][N], of the skin's */
    float *score;           /* [N][N]: 1 is inside of a mouth, -1 outside */
    float *sum;             /* [N][N] */
    float *room;            /* [N][N] */
    float line[N], seen[N]; /* y of a line in pixels, and how well it is seen */
    float contrast;         /* of the line, in its middle */
    float skin[3], red;     /* medians */
    int x0, x1, y0, y1;     /* where lines are looked for */
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
    for (int c = 0; c < 4; c++) {
        int n = 0;

        for (int y = (int)pixels(0.1f); y < N - (int)pixels(0.1f); y += 2)
            for (int x = (int)pixels(0.1f); x < N - (int)pixels(0.1f); x += 2) {
                const float *p = w->face + (y * N + x) * 3;

                w->room[n++] = c < 3 ? p[c] : zn_redness(p);
            }
        *(c < 3 ? &w->skin[c] : &w->red) = median(w->room, n);
    }
    for (int i = 0; i < N * N; i++)
        w->light[i] = zn_lightness(w->face + i * 3) / fmaxf(zn_lightness(w->skin), 0.02f);
}

static float ramp(float value, const float at[2])
{
    return fminf(fmaxf((value - at[0]) / at[1], -1), 1);
}

/* 1 where mouths usually are, -1 far from there. */
static float usual_at(int i)
{
    const float x = (frame_x((float)(i % N) + 0.5f) - usual_x) / usual_wide;
    const float y = (frame_y((float)(i / N) + 0.5f) - usual_y - 0.01f) / usual_high;

    return fminf(fmaxf(5 * (1 - sqrtf(x * x + y * y)), -1), 1);
}

/* Of lips, where they are red, and else of the skin. */
static float usual_red(const work *w)
{
    const int reach = (int)pixels(around);
    int n = 0;

    for (int x = N / 2 - (int)pixels(0.1f); x < N / 2 + (int)pixels(0.1f); x += 2)
        for (int y = (int)w->line[x] - reach; y < (int)w->line[x] + reach; y += 2)
            w->room[n++] = zn_redness(w->face + (clamped(y) * N + x) * 3);
    qsort(w->room, (size_t)n, sizeof *w->room, by_value);
    return fminf(fmaxf(lips_red[0] * w->room[n * 4 / 5], w->red), lips_red[1] * w->red);
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

static void find_scores(work *w)
{
    const float red = usual_red(w);

    for (int i = 0; i < N * N; i++) {
        const float is_dark = -ramp(w->light[i], dark);
        const float is_light = ramp(w->light[i], teeth_light);
        const float is_pale = w->red > grey ? -ramp(zn_redness(w->face + i * 3) / red, teeth_red) : -1;

        w->score[i] = fminf(fmaxf(is_dark, fminf(is_light, is_pale)), usual_at(i));
    }
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

/* What it costs to be far from the usual place. */
static float cost_at(int y)
{
    const float far = (frame_y((float)y + 0.5f) - usual_y) / unusual;

    return 2 * step_cost * far * far;
}

static void everywhere(int rows[N][2], const work *w)
{
    for (int x = 0; x < N; x++) {
        rows[x][0] = w->y0;
        rows[x][1] = w->y1 - 1;
    }
}

/* How much darker each place is than what is above and below. */
static void find_valleys(work *w)
{
    const int near = (int)(pixels(valley[0]) + 0.5f), far = (int)(pixels(valley[1]) + 0.5f);

    zn_mean_twice(w->room, w->sum, w->light, N, 1, 1);
    for (int i = 0; i < N * N; i++) {
        const int x = i % N, y = i / N;
        const float *l = w->room + x;

        w->score[i] =
            (l[clamped(y - near) * N] + l[clamped(y - far) * N] + l[clamped(y + near) * N] + l[clamped(y + far) * N]) /
                4 -
            l[y * N] - cost_at(y);
    }
}

/* The way from left to right that is darkest compared with what is above and below, between these rows. */
static void find_line(work *w, int rows[N][2])
{
    find_way(w->line, w, w->score, rows, step_cost);
    for (int x = 0; x < N; x++) {
        const int y = (int)w->line[x];

        w->seen[x] = x < w->x0 || x >= w->x1 ? 0 : fmaxf(w->score[y * N + x] + cost_at(y), 0);
    }
    smooth(w->line, w->seen, 6);
    smooth(w->seen, NULL, 3);
}

/* Of an opening, in the middle of the face, in parts of the frame. */
static float mean_height(const float *top, const float *bottom)
{
    const int from = N / 2 - (int)pixels(0.08f), to = N / 2 + (int)pixels(0.08f);
    float sum = 0;

    for (int x = from; x < to; x++)
        sum += (bottom[x] - top[x]) * part / N;
    return sum / (float)(to - from);
}

/* ---- a shut mouth ------------------------------------------------------------------------------------------------ */

/* From the middle outwards: where the line is hardly seen any more, and not further than its spread lets it be. */
static float end_of(const work *w, float from, int step, float most, float enough)
{
    int x = (int)from, unseen = 0, last = x;

    for (; x > w->x0 && x < w->x1 - 1 && fabsf((float)x - from) < most && unseen < (int)pixels(hole); x += step) {
        unseen = w->seen[x] < enough ? unseen + 1 : 0;
        last = unseen ? last : x;
    }
    return (float)last + 0.5f;
}

/* Median redness (k 0) and lightness (k 1) along the middle of the line, so far below it. */
static float beside_line(const work *w, float from, float to, int k)
{
    int n = 0;

    for (int x = (int)from; x < (int)to; x++)
        for (int d = 0; d < (int)pixels(strip[1] - strip[0]); d++) {
            const int y = clamped((int)(w->line[clamped(x)] + (k < 2 ? 1.0f : -1.0f) * (pixels(strip[0]) + (float)d)));
            const int i = y * N + clamped(x);

            w->room[n++] = k % 2 ? w->light[i] : zn_redness(w->face + i * 3);
        }
    return n ? median(w->room, n) : 0;
}

/* The line between the lips.  Where painted lips are darker than skin, the first one may be the upper edge of the upper lip: the next one
 * below is that between them. */
static void find_lip_line(work *w)
{
    const float from = N / 2 - pixels(painted), to = N / 2 + pixels(painted);
    const int thick = (int)pixels(strip[1]);
    int rows[N][2];

    find_valleys(w);
    everywhere(rows, w);
    find_line(w, rows);
    if (w->red <= grey || beside_line(w, from, to, 2) > paint_red[0] * w->red ||
        beside_line(w, from, to, 0) < paint_red[1] * w->red ||
        beside_line(w, from, to, 1) > paint_dark * beside_line(w, from, to, 3))
        return;
    for (int x = 0; x < N; x++) {
        for (int k = 0; k < 2; k++)
            rows[x][k] = zn_imin((int)(w->line[x] + pixels(paint_high[k])), w->y1 - 1);
        for (int y = rows[x][0]; y <= rows[x][1]; y++) /* both lips are painted */
            for (int k = -1; k <= 1; k += 2)
                if (zn_redness(w->face + (clamped(y + k * thick) * N + x) * 3) < paint_red[1] * w->red)
                    w->score[y * N + x] -= unpainted;
    }
    find_line(w, rows);
}

/* How likely there are lips on both sides of the line: they are as red as each other, and none is dark.  certain: how likely they are
 * nothing else, being redder than skin. */
static float alike(float *certain, const work *w, float from, float to)
{
    float v[4], red = 0;

    for (int k = 0; k < 4; k++)
        v[k] = beside_line(w, from, to, k);
    if (w->red > grey)
        red = fabsf(v[0] - v[2]) / fmaxf(fmaxf(v[0], v[2]), grey);
    *certain = w->red > grey ? zn_rise((fminf(v[0], v[2]) / w->red - reddish[0]) / (reddish[1] - reddish[0])) : 0;
    return (1 - zn_rise((red - unlike[0]) / (unlike[1] - unlike[0]))) *
        zn_rise((fminf(v[1], v[3]) / fmaxf(fmaxf(v[1], v[3]), 0.05f) - darker) / 0.1f);
}

/* How steep the line is at most: it is not that of shut lips where it jumps between teeth and a lip. */
static float steepest(const work *w, float from, float to)
{
    const int near = (int)pixels(0.01f);
    float most = 0;

    for (int x = (int)from; x < (int)to; x++)
        most = fmaxf(most, fabsf(w->line[clamped(x + near)] - w->line[clamped(x - near)]) / (float)(2 * near));
    return most;
}

/* ends: of the line, in pixels.  between: mean height of what may be inside, in the middle of the mouth: then it is not shut for certain. */
static void put_shut(zn_lips *lips, float ends[2], work *w, float between)
{
    float sum = 1e-6f, at = 0, spread = 0, contrast = 0, lips_here, same, width;
    const float usual = (usual_x - middle_x) * N / part + (float)N / 2;

    for (int x = 0; x < N; x++) {
        sum += w->seen[x];
        at += w->seen[x] * ((float)x + 0.5f);
    }
    at = fminf(fmaxf(at / sum, usual - pixels(off)), usual + pixels(off));
    for (int x = 0; x < N; x++)
        spread += w->seen[x] * ((float)x + 0.5f - at) * ((float)x + 0.5f - at);
    spread = 1.73f * sqrtf(spread / sum); /* of a line that is seen equally well everywhere, half of its width */
    for (int x = (int)(at - spread / 2); x < (int)(at + spread / 2); x++)
        contrast += w->seen[clamped(x)] / fmaxf(spread, 1);
    w->contrast = contrast;
    for (int k = 0; k < 2; k++)
        ends[k] = end_of(w, at, k ? 1 : -1, fminf(1.2f * spread, pixels(most_half)), ends_at[0] * contrast);
    for (int k = 0; k < 2; k++) {
        const float end = end_of(w, at, k ? 1 : -1, fminf(1.2f * spread, pixels(most_half)), ends_at[1] * contrast);

        lips->x[k] = k ? fmaxf(frame_x(end), frame_x(at) + least_half) : fminf(frame_x(end), frame_x(at) - least_half);
    }
    for (int x = 0; x < N; x++)
        lips->top[x] = lips->bottom[x] = frame_y(w->line[x]);
    width = lips->x[1] - lips->x[0];
    same = alike(&lips_here, w, at - spread / 2, at + spread / 2);
    lips->sure = zn_rise((contrast - faint[0]) / (faint[1] - faint[0])) * same *
        fmaxf(1 - zn_rise(2 * between / unclear - 1), lips_here * zn_rise((width - whole[0]) / (whole[1] - whole[0]))) *
        (1 - zn_rise((steepest(w, at - spread * 0.7f, at + spread * 0.7f) - steep[0]) / (steep[1] - steep[0]))) *
        zn_rise((width - short_line[0]) / (short_line[1] - short_line[0]));
}

/* ---- an open one ------------------------------------------------------------------------------------------------- */

/* A way through the middle of the most that is inside, near the line. */
static void find_seed(float *seed, work *w)
{
    int rows[N][2];

    zn_mean_twice(w->room, w->sum, w->score, N, 1, 4);
    for (int x = 0; x < N; x++) {
        rows[x][0] = zn_imax((int)(w->line[x] - pixels(around)), w->y0);
        rows[x][1] = zn_imin((int)(w->line[x] + pixels(around)), w->y1 - 1);
    }
    find_way(seed, w, w->room, rows, bend_cost);
}

/* The edges of what is inside, around a way through it, between rows of each column; top and bottom [N], in pixels. */
static void find_edges(float *top, float *bottom, work *w, const float *seed, int within[N][2])
{
    int rows[N][2];

    for (int x = 0; x < N; x++) {
        float sum = 0;

        for (int y = 0; y < N; y++) {
            w->room[y * N + x] = sum; /* of the rows above */
            sum += w->score[y * N + x];
        }
        rows[x][0] = (int)seed[x];
        rows[x][1] = zn_imax(within[x][1], (int)seed[x]);
    }
    find_way(bottom, w, w->room, rows, 2 * bend_cost);
    for (int i = 0; i < N * N; i++)
        w->room[i] = -w->room[i];
    for (int x = 0; x < N; x++) {
        rows[x][0] = zn_imin(within[x][0], (int)seed[x]);
        rows[x][1] = (int)seed[x];
    }
    find_way(top, w, w->room, rows, 2 * bend_cost);
    for (int x = 0; x < N; x++) { /* between pixels */
        top[x] -= 0.5f;
        bottom[x] -= 0.5f;
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

/* Scores by this mouth's own colours: whether a pixel is nearer to teeth or to lips and skin. */
static void refine_scores(work *w, const float *top, const float *bottom, const int ends[2])
{
    float rgb[2][3], teeth[4], outside[3][4], light = 0, shade[2];

    for (int k = 0; k < 2; k++) {
        if (!measure_lip(rgb[0], rgb[1], w, top, bottom, ends, k))
            return;
        features(teeth, rgb[0], w);
        features(outside[k], rgb[1], w);
        light += zn_lightness(rgb[1]) / (2 * fmaxf(zn_lightness(w->skin), 0.02f));
    }
    shade[0] = fmaxf(shaded * light, dark[0]);
    shade[1] = shade[0] / 3;
    features(outside[2], w->skin, w);
    if (fminf(distance(teeth, outside[0]), distance(teeth, outside[1])) < own_least)
        return;
    for (int i = 0; i < N * N; i++) {
        float f[4], near = INFINITY, own;

        features(f, w->face + i * 3, w);
        for (int k = 0; k < 3; k++)
            near = fminf(near, (k < 2 ? towards_lips : 1) * distance(f, outside[k]));
        own = distance(f, teeth);
        own = fminf(fmaxf(3 * (near - own) / fmaxf(near + own, 1e-3f), -1), 1);
        w->score[i] =
            fminf(fmaxf(fminf(own, ramp(w->light[i], teeth_light) + 1), -ramp(w->light[i], shade)), usual_at(i));
    }
}

/* Rows near edges that were found; beyond the ends, near theirs. */
static void near_edges(int rows[N][2], const work *w, const float *top, const float *bottom, const int ends[2])
{
    for (int x = 0; x < N; x++) {
        const int at = zn_imin(zn_imax(x, ends[0]), ends[1]);

        rows[x][0] = zn_imax((int)(top[at] - pixels(nearer[0])), w->y0);
        rows[x][1] = zn_imin((int)(bottom[at] + pixels(nearer[1])), w->y1 - 1);
    }
}

/* Columns of the opening around its highest one, which is near the middle.  alone: something else beside it is left out. */
static void find_ends(int ends[2], const work *w, const float *top, const float *bottom, bool alone)
{
    int highest = N / 2;

    for (int x = N / 2 - (int)pixels(off); x <= N / 2 + (int)pixels(off); x++)
        if (bottom[x] - top[x] - 0.3f * fabsf((float)x - N / 2.0f) >
            bottom[highest] - top[highest] - 0.3f * fabsf((float)highest - N / 2.0f))
            highest = x;
    for (int k = 0; k < 2; k++) {
        float least = bottom[highest] - top[highest];
        int missing = 0, lowest = highest;

        ends[k] = highest;
        for (int x = highest; x >= w->x0 && x < w->x1 && missing < (int)pixels(hole); x += k ? 1 : -1) {
            const float high_here = bottom[x] - top[x];

            if (alone && high_here > grows[0] * least + pixels(grows[1])) { /* something else begins */
                ends[k] = k ? zn_imin(ends[k], lowest) : zn_imax(ends[k], lowest);
                break;
            }
            if (high_here < least) {
                least = high_here;
                lowest = x;
            }
            missing = high_here < pixels(least_open) ? missing + 1 : 0;
            ends[k] = missing ? ends[k] : x;
        }
    }
}

/* How different it is on both sides of the edges of an opening: the least of both edges' thirds. */
static float distinct(const work *w, const float *top, const float *bottom, const int ends[2])
{
    const int near = (int)pixels(beside), columns = (ends[1] + 1 - ends[0]) / 3;
    float least = INFINITY;

    for (int k = 0; k < 6; k++) {
        float sum = 0;

        for (int x = ends[0] + k / 2 * columns; x < ends[0] + (k / 2 + 1) * columns; x++) {
            const int y = (int)(k % 2 ? bottom[x] : top[x]);
            float a[4], b[4];

            features(a, w->face + (clamped(y - near) * N + x) * 3, w);
            features(b, w->face + (clamped(y + near) * N + x) * 3, w);
            sum += distance(a, b);
        }
        least = fminf(least, sum / (float)zn_imax(columns, 1));
    }
    return least;
}

/* How sure it is that this is the opening of a mouth. */
static float sureness(const work *w, const float *top, const float *bottom, const int ends[2])
{
    float most = 0, jumps = 0, score = 0, area = 1e-6f;
    const float width = (float)(ends[1] + 1 - ends[0]) * part / N, at = frame_x((float)(ends[0] + ends[1] + 1) / 2);

    for (int x = ends[0]; x <= ends[1]; x++) {
        most = fmaxf(most, bottom[x] - top[x]);
        if (x > ends[0])
            jumps += powf((top[x] + bottom[x] - top[x - 1] - bottom[x - 1]) / 2, 2);
        for (int y = (int)top[x]; y < (int)bottom[x]; y++) {
            score += w->score[y * N + x];
            area++;
        }
    }
    most *= part / N;
    jumps = sqrtf(jumps / fmaxf((float)(ends[1] - ends[0]), 1)) * part / N;
    if (width < wide[0] || width > wide[1] || most < high[0] || most > high[1] || fabsf(at - usual_x) > off)
        return 0;
    return zn_rise((score / area - sure[0]) / (sure[1] - sure[0])) * zn_rise(2 - jumps / rough);
}

/* Whether what was taken for teeth is the lower lip: along its lower edge it is nearly as red as what follows. */
static bool is_lip(work *w, const float *bottom, const int ends[2])
{
    const int reach = (int)pixels(lip_high / 2), margin = (ends[1] - ends[0]) / 6;
    float red[2];

    for (int k = 0; k < 2; k++) {
        int n = 0;

        for (int x = ends[0] + margin; x <= ends[1] - margin; x++)
            for (int d = 2; d < reach; d++) {
                const int i = clamped((int)bottom[x] + (k ? d : -d)) * N + x;

                if (w->light[i] > teeth_light[0])
                    w->room[n++] = zn_redness(w->face + i * 3);
            }
        if (n < 30)
            return false;
        red[k] = median(w->room, n);
    }
    return w->red > grey && red[0] > redder * red[1];
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

/* Gums above teeth are as red as lips, so that an opening without them was found.  Where the line is near above, with a lip above it, the
 * opening begins there. */
static void add_gums(float *top, work *w, const int ends[2])
{
    const float near = pixels(gums_near);
    float higher[N] = { 0 };
    int columns = 0, red = 0;

    for (int x = ends[0]; x <= ends[1]; x++) {
        const float up = top[x] - w->line[x] - pixels(gums_edge);

        higher[x] = fminf(fmaxf(up, 0), pixels(gums_high));
        columns += up > 0;
        red += up > 0 && beside_line(w, (float)x - near, (float)x + near, 2) > reddish[1] * w->red;
    }
    if (w->red <= grey || (float)columns < gums_wide * (float)(ends[1] + 1 - ends[0]) ||
        (float)red < gums_lips * (float)columns)
        return;
    for (int x = 0; x < N; x++)
        higher[x] = higher[zn_imin(zn_imax(x, ends[0]), ends[1])];
    smooth(higher, NULL, 2);
    for (int x = 0; x < N; x++)
        top[x] -= higher[x];
}

/* The corners of an open mouth are as far from the middle of its opening as the line is seen, or further.  at: of the line's ends. */
static void widen(float at[2], const work *w, const int ends[2])
{
    const float middle = (float)(ends[0] + ends[1]) / 2;

    for (int k = 0; k < 2; k++) {
        const float end = end_of(w, middle, k ? 1 : -1, pixels(most_laugh), ends_at[0] * w->contrast);

        at[k] = k ? fmaxf(at[k], end) : fminf(at[k], end);
    }
}

/* Between the ends as it is, and from there narrower to the corners, which are on the line.  at: of the line's ends, in pixels. */
static void put_open(zn_lips *lips, work *w, float *top, float *bottom, const int ends[2], const float at[2])
{
    int corner[2];

    smooth_edge(top, -1, ends);
    add_gums(top, w, ends);
    smooth_edge(bottom, 1, ends);
    for (int k = 0; k < 2; k++) {
        const int step = k ? 1 : -1, most = (int)pixels(corners[1]);
        const float between = (top[ends[k]] + bottom[ends[k]]) / 2, half = (bottom[ends[k]] - top[ends[k]]) / 2;
        const int least = (int)(pixels(corners[0]) + 2 * half * blunt);
        float slope, y;

        corner[k] = clamped(ends[k] + step * zn_imin(zn_imax(step * ((int)at[k] - ends[k]), least), most));
        slope = (w->line[corner[k]] - between) / (float)zn_imax(abs(corner[k] - ends[k]), 1);
        y = between + fminf(fmaxf(slope, -1), 1) * (float)abs(corner[k] - ends[k]);
        for (int x = ends[k] + step; x >= 0 && x < N; x += step) {
            const float t = fminf((float)(x - ends[k]) / (float)(corner[k] - ends[k] ? corner[k] - ends[k] : step), 1);

            top[x] = between + t * (y - between) - half * (1 - t);
            bottom[x] = between + t * (y - between) + half * (1 - t);
        }
        lips->x[k] = frame_x((float)corner[k] + 0.5f);
    }
    fill_bays(bottom, zn_imin(corner[0], corner[1]), zn_imax(corner[0], corner[1]));
    smooth(bottom, NULL, 5);
    for (int x = 0; x < N; x++) {
        lips->top[x] = frame_y(top[x]);
        lips->bottom[x] = frame_y(fmaxf(bottom[x], top[x]));
    }
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

bool zn_lips_find(zn_lips *lips, const float *mouth)
{
    const size_t n = (size_t)N * N;
    float *memory = malloc(n * 7 * sizeof *memory), top[N], bottom[N], seed[N], first[2][N];
    work w = { .x0 = (int)(pixels(left - middle_x) + N / 2),
               .x1 = (int)(pixels(right - middle_x) + N / 2),
               .y0 = (int)(pixels(above - middle_y) + N / 2),
               .y1 = (int)(pixels(below - middle_y) + N / 2) };
    float at[2], certain, between;
    int ends[2], rows[N][2];

    *lips = (zn_lips){ 0 };
    if (!memory)
        return false;
    w.face = memory;
    w.light = memory + 3 * n;
    w.score = w.light + n;
    w.sum = w.score + n;
    w.room = w.sum + n;
    for (size_t i = 0; i < 3 * n; i++)
        w.face[i] = zn_clean(mouth[i]);
    measure(&w);
    find_lip_line(&w);
    find_scores(&w);
    find_seed(seed, &w);
    for (int x = 0; x < N; x++) {
        rows[x][0] = zn_imax((int)(seed[x] - pixels(furthest)), w.y0);
        rows[x][1] = zn_imin((int)(seed[x] + pixels(furthest)), w.y1 - 1);
    }
    find_edges(top, bottom, &w, seed, rows);
    find_ends(ends, &w, top, bottom, false);
    memcpy(first[0], top, sizeof top);
    memcpy(first[1], bottom, sizeof bottom);
    if (sureness(&w, top, bottom, ends) > 0) {
        near_edges(rows, &w, top, bottom, ends);
        refine_scores(&w, top, bottom, ends);
        find_edges(top, bottom, &w, seed, rows);
        find_ends(ends, &w, top, bottom, true);
        if (sureness(&w, top, bottom, ends) <= 0) {
            memcpy(top, first[0], sizeof top);
            memcpy(bottom, first[1], sizeof bottom);
            find_ends(ends, &w, top, bottom, true);
        }
    }
    memcpy(lips->skin, w.skin, sizeof lips->skin);
    certain = sureness(&w, top, bottom, ends);
    between = mean_height(first[0], first[1]);
    if (certain > 0 && is_lip(&w, bottom, ends)) {
        certain = 0;
        between = between < gums ? 0 : between;
    }
    put_shut(lips, at, &w, between);
    if (certain > 0) {
        lips->open = true;
        lips->sure = certain * zn_rise((distinct(&w, top, bottom, ends) - differs[0]) / (differs[1] - differs[0])) *
            zn_rise(((float)(ends[1] + 1 - ends[0]) / (at[1] - at[0]) - narrow[0]) / (narrow[1] - narrow[0]));
        widen(at, &w, ends);
        put_open(lips, &w, top, bottom, ends, at);
    }
    free(memory);
    return true;
}
