/* SPDX-License-Identifier: MIT */
/* face_gap.c - parts or closes the lips that face_lips.c found.
 *
 *   upper lip, and all above    moves, less with the distance    the foreground: pixels come from q, where the flow and the lips say
 *   ----------- to_top
 *   teeth, dark of the mouth    stays                            the background: pixels come from their own place
 *   ----------- to_bottom
 *   lower lip, and chin         moves, less with the distance
 *
 * So lips that close cover teeth, and those that open uncover none: what nobody saw is dark, below the edge of the upper teeth if the
 * mouth was shut. */
#include "face.h"

#include "../core/ints.h"
#include "../core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = ZN_LIPS, PLACES = 20, STEP = 3, RUN = 24 /* pixels */ };

/* Lips that part, in parts of the frame. */
static const float height = 0.088f;                /* of the gap of a shut mouth, ... */
static const float usual_half = 0.13f;             /* ... half of whose width is this */
static const float upper_part = 0.2f;              /* of the gap, that the upper lip opens */
static const float open_height = 0.036f;           /* by which an open mouth opens, ... */
static const float wide_open[2] = { 0.05f, 0.1f }; /* ... less from the first height on, not from the second */
static const float ends = 0.88f,
                   open_ends = 0.85f; /* of a gap, of the way to the corners: of a shut and an open mouth */
/* Lips that close. */
static const float meets = 0.42f;                   /* the part of the way that the upper lip goes */
static const float rim = 0.009f, rim_open = 0.002f; /* of their edges, that goes with what is between; if they part */
static const float goes[2] = { 0.15f, 0.05f }; /* the part of what is between that an edit changes, and by how much */
/* Motions: all up to the first distance, none from the second on. */
static const float moves_up[2] = { 0.012f, 0.13f }, moves_down[2] = { 0.03f, 0.22f };
static const float edge = 0.0025f; /* half the width of an edge */
/* The line between lips that have closed: its width and darkness, how far from the corners it fades, and the height of an opening that leaves
 * one; less than a part of that leaves none. */
static const float line_width = 0.0035f, line_dark = 0.3f, line_fades = 0.3f, line_high[2] = { 0.025f, 0.4f };
static const float shadow_width = 0.01f, shadow_dark = 0.5f; /* of the upper lip on teeth */
static const float new_gap = 0.006f;                         /* what an open mouth opens is dark where it is higher */
static const float slides = 0.03f;                           /* teeth with the upper lip, at most */
/* The invented inside: lightness at the top and the bottom, of the skin's, and its colour; how much lighter a tongue is, and its width. */
static const float inside[2] = { 0.05f, 0.2f }, inner[3] = { 1.63f, 0.77f, 0.69f }, tongue = 0.07f, tongue_wide = 0.8f;
/* Teeth: how far below the line they end, their lightness, of the skin's, how much of its colour they have, how far from the middle
 * they are seen, of half the mouth; the ends of each, from the middle on, its lightness and how much shorter it is than the first, how much
 * darker its sides are; the width and the depth of what is between them, how much shorter they are there, and half the width of their
 * lower edge. */
static const float teeth_end = 0.012f, teeth_light = 0.84f, teeth_colour = 0.6f, teeth_wide = 0.66f;
enum { TEETH = 4 };
static const float tooth[TEETH + 1] = { 0, 0.046f, 0.08f, 0.113f, 0.14f },
                                 tooth_light[TEETH] = { 1, 0.95f, 0.9f, 0.85f },
                                 tooth_shorter[TEETH] = { 0, 0.0022f, 0.001f, 0.003f }, tooth_sides = 0.12f;
static const float tooth_width = 0.0024f, tooth_dark = 0.16f, tooth_round = 0.0022f, tooth_edge = 0.0016f;

/* Grain is measured in a square around the middle of what is seen of a mouth: half of its side; how many places count, the calmest ones; and
 * the most grain that is added. */
static const double around_half = 0.16;
static const int calmest = PLACES * PLACES / 5;
static const float most_grain = 0.03f;

/* Of a column in the frame, and the other way. */
static float x_of(int i)
{
    return 0.5f + (((float)i + 0.5f) / N - 0.5f) * ZN_LIPS_PART;
}

static float line_at(const float *line, float x)
{
    const float at = fminf(fmaxf(((x - 0.5f) / ZN_LIPS_PART + 0.5f) * N - 0.5f, 0), N - 1);
    const int i = zn_imin((int)at, N - 2);

    return line[i] + (at - (float)i) * (line[i + 1] - line[i]);
}

/* -1..1 between the corners. */
static float across(const zn_lips *m, float x)
{
    return (2 * x - m->x[0] - m->x[1]) / fmaxf(m->x[1] - m->x[0], 1e-3f);
}

/* ---- how the lips move --------------------------------------------------------------------------------------------- */

/* How much of what is between the lips the edit changes. */
static float changes(const zn_lips *m, const zn_face_field *field, int side)
{
    float all = 0, changed = 0;

    for (int i = 0; i < side * side; i++) {
        const float x = ((float)(i % side) + 0.5f) / (float)side, y = ((float)(i / side) + 0.5f) / (float)side;

        if (fabsf(across(m, x)) < 1 && y > line_at(m->top, x) && y < line_at(m->bottom, x)) {
            all++;
            changed += fabsf(zn_lightness(field[i])) > goes[1];
        }
    }
    return zn_rise(changed / fmaxf(all, 1) / goes[0] - 1);
}

static void part_lips(zn_lips *m, float amount)
{
    const float half = (m->x[1] - m->x[0]) / 2;
    float most = 0, high;

    for (int i = 0; i < N; i++) {
        most = fmaxf(most, m->bottom[i] - m->top[i]);
        m->bottom[i] += zn_rise((m->bottom[i] - m->top[i]) / (2 * rim_open)) * rim_open;
    }
    high = m->open ? open_height * (1 - zn_rise((most - wide_open[0]) / (wide_open[1] - wide_open[0]))) : height;
    high *= amount * m->sure * fminf(half / usual_half, 1.2f);
    for (int i = 0; i < N; i++) {
        const float t = across(m, x_of(i)) / (m->open ? open_ends : ends);
        const float now = fabsf(t) < 1 ? high * powf(1 - t * t, 1.5f) : 0;

        m->to_top[i] = m->top[i] - (m->open ? 0 : upper_part * now);
        m->to_bottom[i] = m->bottom[i] + (m->open ? 1 : 1 - upper_part) * now;
    }
    m->moves = high > 0;
}

/* A line becomes the nearest one through its ends at the corners that bends one way only, more to one side if it does. */
static void smooth_line(float line[N], const zn_lips *m)
{
    const float end[2] = { line_at(line, m->x[0]), line_at(line, m->x[1]) };
    float sum[5] = { 1e-6f, 0, 1e-6f, 0, 0 }, a, b, d;

    for (int i = 0; i < N; i++) {
        const float t = across(m, x_of(i)), p = 1 - t * t;
        const float lacks = line[i] - end[0] - (t + 1) / 2 * (end[1] - end[0]);

        if (p <= 0)
            continue;
        sum[0] += p * p;
        sum[1] += p * p * t;
        sum[2] += p * p * t * t;
        sum[3] += p * lacks;
        sum[4] += p * t * lacks;
    }
    d = sum[0] * sum[2] - sum[1] * sum[1];
    a = d > 0 ? (sum[2] * sum[3] - sum[1] * sum[4]) / d : 0;
    b = d > 0 ? (sum[0] * sum[4] - sum[1] * sum[3]) / d : 0;
    for (int i = 0; i < N; i++) {
        const float t = across(m, x_of(i));

        if (t * t < 1)
            line[i] = end[0] + (t + 1) / 2 * (end[1] - end[0]) + (1 - t * t) * (a + b * t);
    }
}

static void close_lips(zn_lips *m, float amount)
{
    const float part = amount * m->sure;
    float line[N];

    for (int i = 0; i < N; i++) {
        const float now = zn_rise((m->bottom[i] - m->top[i]) / (2 * rim)) * rim * zn_rise(part * 4);

        m->top[i] -= now;
        m->bottom[i] += now;
        line[i] = m->top[i] + meets * (m->bottom[i] - m->top[i]);
    }
    smooth_line(line, m); /* lower edges of teeth are not even, but lips are */
    for (int i = 0; i < N; i++) {
        m->to_top[i] = m->top[i] + part * (line[i] - m->top[i]);
        m->to_bottom[i] = fmaxf(m->bottom[i] + part * (line[i] - m->bottom[i]), m->to_top[i]);
    }
    m->moves = m->closes = part > 0;
}

void zn_lips_move(zn_lips *m, const zn_face_field *field, int side, double opens, double relaxes)
{
    m->moves = m->closes = false;
    m->slides = 0;
    if (!(m->sure > 0))
        return;
    if (opens > 0)
        part_lips(m, (float)fmin(opens, 1));
    else if (m->open)
        close_lips(m, fminf((float)-opens + (float)relaxes * changes(m, field, side), 1));
}

void zn_lips_slide(zn_lips *m, const zn_face_field *field, int side)
{
    for (int i = 0; i < N; i++) {
        const float x = x_of(i);
        zn_face_field f;

        if (!m->open || fabsf(across(m, x)) > 0.6f)
            continue;
        zn_sample_field(f, field, side, (double)x, (double)m->to_top[i]);
        m->slides = fmaxf(m->slides, fminf(m->top[i] - m->to_top[i] + f[4], slides));
    }
}

/* ---- grain --------------------------------------------------------------------------------------------------------- */

/* Mean squares of second differences along a row, over a pixel and over STEP, which no gradient changes. */
static void differences(float sum[2], const zn_patch *patch, int x, int y)
{
    float light[RUN];

    sum[0] = sum[1] = 0;
    for (int i = 0; i < RUN; i++)
        light[i] = zn_lightness(patch->pixels + ((size_t)y * (size_t)patch->rect.w + (size_t)(x + i)) * 3);
    for (int k = 0; k < 2; k++)
        for (int d = k ? STEP : 1, i = STEP; i < RUN - STEP; i++) {
            const float v = light[i - d] - 2 * light[i] + light[i + d];

            sum[k] += v * v / (RUN - 2 * STEP);
        }
}

static int by_far(const void *a, const void *b)
{
    const float x = ((const float *)a)[1], y = ((const float *)b)[1];

    return (x > y) - (x < y);
}

void zn_lips_look(zn_lips *m, const zn_square *frame, const zn_patch *patch)
{
    float all[PLACES * PLACES][2], near = 0, far = 0, alike;
    int n = 0;

    m->pixels = frame->size;
    m->grain = m->soft = 0;
    for (int i = 0; i < PLACES * PLACES; i++) {
        const double a =
            frame->size * ((double)ZN_LIPS_X - 0.5 + around_half * (2.0 * (i % PLACES) / (PLACES - 1) - 1));
        const double b =
            frame->size * ((double)ZN_LIPS_Y - 0.5 + around_half * (2.0 * (i / PLACES) / (PLACES - 1) - 1));
        const int x = (int)(frame->x + frame->cos * a - frame->sin * b) - patch->rect.x - RUN / 2;
        const int y = (int)(frame->y + frame->sin * a + frame->cos * b) - patch->rect.y;

        if (x >= 0 && x + RUN <= patch->rect.w && y >= 0 && y < patch->rect.h) {
            differences(all[n], patch, x, y);
            n += isfinite(all[n][0] + all[n][1]) != 0;
        }
    }
    qsort(all, (size_t)n, sizeof *all, by_far);
    for (int i = 0; i < n && i < calmest; i++) {
        near += all[i][0] / calmest;
        far += all[i][1] / calmest;
    }
    if (n < PLACES * PLACES / 2 || !(far > 0))
        return;
    m->grain = fminf(sqrtf(far / 6), most_grain);    /* the variance of v1 - 2 v2 + v3 is six times that of v */
    alike = 2 - sqrtf(fmaxf(1 + 3 * near / far, 1)); /* of neighbours: near / far = (6 - 8 a + 2 a a) / 6 */
    alike = fminf(fmaxf(alike, 0), 0.7f);
    m->soft = alike > 0.01f ? (1 - sqrtf(1 - 2 * alike * alike)) / (2 * alike) : 0;
}

/* Such grain at a place of the frame. */
static float grain_at(const zn_lips *m, const double at[2])
{
    const float w[3] = { m->soft, 1, m->soft };
    const int64_t x = (int64_t)floor(at[0] * m->pixels), y = (int64_t)floor(at[1] * m->pixels);
    float sum = 0;

    for (int i = 0; i < 9; i++)
        if (w[i % 3] * w[i / 3] > 0)
            sum += w[i % 3] * w[i / 3] * (float)zn_normal(7, (uint64_t)(y + i / 3), (uint64_t)(x + i % 3));
    return m->grain * sum / (1 + 2 * m->soft * m->soft);
}

/* ---- what is seen -------------------------------------------------------------------------------------------------- */

typedef struct lips { /* at an x: in the picture, and where they go */
    float from[2], to[2];
} lips;

static lips lips_at(const zn_lips *m, float x)
{
    return (lips){ { line_at(m->top, x), line_at(m->bottom, x) }, { line_at(m->to_top, x), line_at(m->to_bottom, x) } };
}

/* How far below a place the one is that comes there with the upper or lower lip. */
static float way(const lips *l, int lower, float y)
{
    const float beyond = lower ? y - l->to[1] : l->to[0] - y, *range = lower ? moves_down : moves_up;

    return (l->from[lower] - l->to[lower]) * (1 - zn_rise((beyond - range[0]) / (range[1] - range[0])));
}

/* Teeth do not follow lips, but an arch through the corners and the middle of the line between them. */
static float arch(const zn_lips *m, float x)
{
    const float t = across(m, x), left = line_at(m->top, m->x[0]), right = line_at(m->top, m->x[1]);
    const float middle = line_at(m->top, (m->x[0] + m->x[1]) / 2);

    return (left + right) / 2 + t * (right - left) / 2 + (1 - t * t) * (middle - (left + right) / 2);
}

/* The upper teeth of a mouth that was shut: how much of them is seen, and their colour. */
static float teeth_at(float rgb[3], const zn_lips *m, const lips *l, float x, float y)
{
    const float t = across(m, x) / teeth_wide, beside = fabsf(x - (m->x[0] + m->x[1]) / 2);
    const float grey = zn_lightness(m->skin), fades = fmaxf(1 - t * t, 0);
    float between = 0, light = tooth_light[0], shorter = tooth_shorter[0], sides = 0, end, shade;

    for (int i = 0; i <= TEETH; i++) {
        const float d = (beside - tooth[i]) / tooth_width;

        between = fmaxf(between, expf(-d * d / 2));
        if (i > 0 && i < TEETH) {
            light += zn_rise((d + 1) / 2) * (tooth_light[i] - tooth_light[i - 1]);
            shorter += zn_rise((d + 1) / 2) * (tooth_shorter[i] - tooth_shorter[i - 1]);
        }
        if (i < TEETH && beside >= tooth[i] && beside < tooth[i + 1])
            sides = fabsf(2 * (beside - tooth[i]) / (tooth[i + 1] - tooth[i]) - 1);
    }
    end = arch(m, x) + teeth_end * sqrtf(fades) - shorter - tooth_round * between;
    shade = teeth_light * light * (1 - tooth_sides * sides * sides) * (0.2f + 0.8f * fades) *
        (1 - tooth_dark * between) * (0.3f + 0.7f * zn_rise((y - l->to[0]) / (1.6f * teeth_end)));
    for (int c = 0; c < 3; c++)
        rgb[c] = shade * (grey + teeth_colour * (m->skin[c] - grey));
    return zn_rise((end - y + tooth_edge) / (2 * tooth_edge)) * zn_rise(2 * fades);
}

/* What nobody saw: dark, a tongue, and teeth. */
static void invent(float rgb[3], const zn_lips *m, const lips *l, float x, float y)
{
    const float t = across(m, x) / tongue_wide;
    const float down = zn_rise((y - l->to[0]) / fmaxf(l->to[1] - l->to[0], 1e-3f)), grey = zn_lightness(m->skin);
    const float red = zn_rise((m->skin[0] - m->skin[1]) / fmaxf(0.06f * m->skin[0], 1e-3f));
    const float light =
        inside[0] + down * (inside[1] - inside[0]) + tongue * zn_rise(2 * down - 1) * zn_rise(1 - t * t);
    float teeth[3];

    for (int c = 0; c < 3; c++)
        rgb[c] = grey * light * (1 + red * (inner[c] - 1));
    if (!m->open) {
        const float part = teeth_at(teeth, m, l, x, y);

        for (int c = 0; c < 3; c++)
            rgb[c] += part * (teeth[c] - rgb[c]);
    }
}

/* Where lips close and the flow moves them over what was no opening: the nearest part of the opening in this column, or, where it has none, the
 * part that is there of the opening that moves. */
static void show_nearest(float rgb[3], const lips *l, const lips *was, const zn_moved_view *v, double y)
{
    const float at = ((float)v->y - l->to[0]) / fmaxf(l->to[1] - l->to[0], 1e-3f), e = 2 * edge;

    if (was->from[1] - was->from[0] > 2 * e)
        v->sample(rgb, v->cookie, v->own[0], fmin(fmax(y, (double)(was->from[0] + e)), (double)(was->from[1] - e)));
    else
        v->sample(rgb, v->cookie, v->x, (double)(l->from[0] + fminf(fmaxf(at, 0), 1) * (l->from[1] - l->from[0])));
}

/* The y of what is seen at a y between lips that part: the lower jaw goes down with its lip, and what is between it and the upper teeth
 * is stretched. */
static float seen_at(const zn_lips *m, const lips *was, float y)
{
    const float at = was->from[0] + m->jaw * (was->from[1] - was->from[0]), down = was->to[1] - was->from[1];

    return m->closes || m->jaw >= 1 || down <= 0 || y < at ? y : fmaxf(y - down, at);
}

/* The nearest y of an opening, so far from its edges where it is high enough. */
static float within_opening(const lips *was, float y, float from_top, float from_bottom)
{
    const float middle = (was->from[0] + was->from[1]) / 2;

    return fmaxf(fminf(y, fmaxf(was->from[1] - from_bottom, middle)), fminf(was->from[0] + from_top, middle));
}

/* What is between the lips. */
static void show_inside(float rgb[3], const zn_lips *m, const lips *l, const zn_moved_view *v)
{
    const float x = (float)v->own[0], e = 2 * edge;
    const lips was = lips_at(m, x);
    const float y = seen_at(m, &was, (float)v->own[1] + m->slides);
    const float grows = (l->to[1] - l->to[0] - l->from[1] + l->from[0]) / new_gap, less = m->closes ? 0 : 2 * rim_open;
    const float open = zn_rise((y - was.from[0] + e) / e) *
        (!m->closes && m->jaw < 1 ? 1 : zn_rise((was.from[1] - y - less + edge) / e));
    const float seen = m->open ? fmaxf(open, m->closes ? 0 : 1 - zn_rise(grows)) : 0;
    const float covers = zn_rise((l->to[0] - l->from[0]) / shadow_width),
                below = ((float)v->y - l->to[0]) / shadow_width;
    const float stays = 1 - shadow_dark * covers * zn_rise(1 - below);
    float made[3], own[3] = { 0, 0, 0 };

    if (m->closes)
        show_nearest(made, l, &was, v, (double)y);
    else
        invent(made, m, l, (float)v->x, (float)v->y);
    if (!m->closes && m->grain > 0 && seen < 1)
        for (float grain = grain_at(m, v->own), *c = made; c < made + 3; c++)
            *c = fmaxf(*c + grain, 0);
    if (seen > 0)
        v->sample(own, v->cookie, v->own[0], (double)(m->closes ? y : within_opening(&was, y, e, e + less)));
    for (int c = 0; c < 3; c++)
        rgb[c] = (m->closes ? stays : 1) * (1 - seen) * made[c] + seen * stays * own[c];
}

float zn_lips_show(float rgb[3], const zn_lips *m, const zn_moved_view *v)
{
    const float x = (float)v->x, y = (float)v->y;
    const lips l = lips_at(m, x);
    float part[3] = { 1 - zn_rise((y - l.to[0] + edge) / (2 * edge)), zn_rise((y - l.to[1] + edge) / (2 * edge)), 0 },
          dark;
    const float all = part[0] + part[1], now = l.to[1] - l.to[0], was = l.from[1] - l.from[0];
    const float from_line = (y - (l.to[0] + l.to[1]) / 2) / line_width;

    part[2] = fmaxf(1 - all, 0);
    dark = line_dark * zn_rise(was / line_high[0] - line_high[1]) * zn_rise(1 - now / edge) *
        expf(-from_line * from_line) * zn_rise((1 - fabsf(across(m, x))) / line_fades);
    rgb[0] = rgb[1] = rgb[2] = 0;
    for (int k = 0; k < 3; k++) {
        float one[3];

        if (part[k] <= 0)
            continue;
        if (k < 2)
            v->sample(one, v->cookie, v->x, (double)(y + way(&l, k, y)));
        else
            show_inside(one, m, &l, v);
        for (int c = 0; c < 3; c++)
            rgb[c] += part[k] / fmaxf(all, 1) * one[c] * (k < 2 ? 1 - dark : 1);
    }
    return part[2];
}
