/* SPDX-License-Identifier: MIT */
/* face_open.c - opens and shuts the mouth of a face whose pixels move, with its own lips.
 *
 *   ---.___.---   shut: the darkest way across the mouth     upper lip
 *                                                           (   gap   )   opened it is dark; shut nothing of it is left, or it is lower
 *                                                            lower lip */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL = 128, /* side of a face; distances are for it */
    NEAR = 5,    /* radius of a mean along the line, taken twice */
    AT_TEETH = 3 /* the same along teeth */
};

/* Parts of the frame: where lines are looked for, and where they usually are. */
static const float left = 0.27f, right = 0.73f, above = 0.58f, below = 0.86f, usual_y = 0.7f, usual_x = 0.5f;
static const float unusual = 0.08f, off = 0.07f; /* from there; the middle of a mouth is nearer */
static const float step_cost = 0.03f;            /* of a line that rises or falls */
/* Of the gap, in parts of the frame: its height, the part of it above the line, half its width, how far the lips move with it. */
static const float height = 0.065f, upper = 0.35f, half = 0.125f, least_half = 0.07f, moves_up = 0.13f,
                   moves_down = 0.2f;
static const float outside = 0.05f;            /* distances are not larger */
static const float faint[2] = { 0.08f, 0.2f }; /* contrast of a line: none, and enough */
static const float opened[2] = { 3, 6 };       /* pixels of teeth or dark around it: closed, and open already */
/* Lightness of a mouth's inside, of teeth, and their colour, of the face's. */
static const float dark = 0.4f, white = 0.6f, pale = 0.5f;
static const float grey = 0.06f;    /* a face with less colour has none */
static const float changed = 0.05f; /* lightness that an edit adds or takes where it shuts a mouth */
/* Where teeth are seen below the line: of a mouth's width, at least; pixels from their edge to the lip; the part of the gap's height that is
 * left, rows of teeth from which on it is less, and at which there is none; where there is skin above the mouth, of the frame. */
static const float least_wide = 0.45f, lip = 0.5f, less_high = 0.45f, wide_open[2] = { 6, 12 },
                   skin_above[2] = { 0.11f, 0.06f };
static const float narrowest = 0.06f, widest = 0.25f,
                   highest = 0.14f; /* half widths and height of an open mouth, of the frame */
static const float rough = 1.6f;    /* pixels; lips that jump by more are none */
static const float enough = 0.15f;  /* part of it that is teeth, and that changes; from twice of this on it is shut */
static const float rim = 2;         /* pixels of the lips that go with what is between them */
static const float nearly = 0.8f;   /* a gap of which so much is shut is shut */
static const float edge = 0.0025f;  /* half the width of a lip's edge, of the frame */
static const float inside[2] = { 0.075f, 0.2f }; /* lightness of the gap, above and below */

typedef struct mouth {
    int side;
    float light, colour, red; /* of the face */
    float x, wide;            /* the middle of the gap, and half its width; in pixels */
    float *contrast;          /* [side]: how well the line is seen, or how high the gap is */
    float *top, *bottom;      /* [side]: y of the lips in the picture; a line if it is shut */
    float height, upper;      /* of the gap that is opened, and the part of it above the line */
    float shut;               /* part of the gap that is shut */
} mouth;

static float rise(float t)
{
    const float d = fminf(fmaxf(t, 0), 1);

    return d * d * (3 - 2 * d);
}

static float lightness(const float *rgb)
{
    return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
}

static float colour_of(const float *rgb)
{
    const float most = fmaxf(rgb[0], fmaxf(rgb[1], rgb[2]));

    return (most - fminf(rgb[0], fminf(rgb[1], rgb[2]))) / fmaxf(most, 1e-3f);
}

static int clamped(int y, int side)
{
    return zn_imin(zn_imax(y, 0), side - 1);
}

/* Means over the face, by how much of it may change. */
static void measure(mouth *m, const float *face, const float *change)
{
    float light = 0, colour = 0, red = 0, n = 0;

    for (int i = 0; i < m->side * m->side; i++) {
        const float part = change ? change[i] : 1;

        light += part * lightness(face + i * 3);
        colour += part * colour_of(face + i * 3);
        red += part * zn_redness(face + i * 3);
        n += part;
    }
    m->light = light / fmaxf(n, 1e-3f);
    m->colour = colour / fmaxf(n, 1e-3f);
    m->red = red / fmaxf(n, 1e-3f);
}

/* dst: how much darker each pixel is than those above and below it. */
static void find_valleys(float *dst, const mouth *m, const float *face)
{
    const int side = m->side, near = zn_imax(3 * side / USUAL, 1), far = zn_imax(4 * side / USUAL, 1);
    float *light = dst + side * side;

    for (int i = 0; i < side * side; i++) {
        const int x = i % side, row = i - x;

        light[i] = (lightness(face + (row + clamped(x - 1, side)) * 3) + 2 * lightness(face + i * 3) +
                    lightness(face + (row + clamped(x + 1, side)) * 3)) /
            (4 * fmaxf(m->light, 1e-3f));
    }
    for (int i = 0; i < side * side; i++) {
        const int x = i % side, y = i / side;

        dst[i] = (light[clamped(y - near, side) * side + x] + light[clamped(y - far, side) * side + x] +
                  light[clamped(y + near, side) * side + x] + light[clamped(y + far, side) * side + x]) /
                4 -
            light[i];
    }
}

/* The way from left to right with the deepest valleys.  sum: as large as valley. */
static void find_line(const mouth *m, const float *valley, float *sum)
{
    const int side = m->side, x0 = (int)(left * (float)side), x1 = (int)(right * (float)side);
    const int y0 = (int)(above * (float)side), y1 = (int)(below * (float)side);
    int best = y0;

    for (int x = x0; x < x1; x++)
        for (int y = y0; y < y1; y++) {
            const float far = (((float)y + 0.5f) / (float)side - usual_y) / unusual;
            float before = 0;

            if (x > x0) {
                before = sum[y * side + x - 1];
                if (y > y0)
                    before = fmaxf(before, sum[(y - 1) * side + x - 1] - step_cost);
                if (y < y1 - 1)
                    before = fmaxf(before, sum[(y + 1) * side + x - 1] - step_cost);
            }
            sum[y * side + x] = before + valley[y * side + x] - step_cost * 2 * far * far;
        }
    for (int y = y0; y < y1; y++)
        if (sum[y * side + x1 - 1] > sum[best * side + x1 - 1])
            best = y;
    for (int x = x1 - 1; x >= x0; x--) {
        m->top[x] = (float)best + 0.5f;
        m->contrast[x] = fmaxf(valley[best * side + x], 0);
        if (x > x0) {
            const float *before = sum + x - 1;
            float most = before[best * side];

            for (int y = zn_imax(best - 1, y0), last = zn_imin(best + 1, y1 - 1); y <= last; y++)
                if (before[y * side] - step_cost > most) {
                    most = before[y * side] - step_cost;
                    best = y;
                }
        }
    }
    for (int x = 0; x < side; x++) {
        m->top[x] = m->top[zn_imin(zn_imax(x, x0), x1 - 1)];
        if (x < x0 || x >= x1)
            m->contrast[x] = 0;
    }
}

/* The mean of a line over its neighbours, by their contrast; room: [side]. */
static void smooth_line(float *line, const mouth *m, int usual, float *room)
{
    const int near = zn_imax(usual * m->side / USUAL, 1);

    for (int k = 0; k < 2; k++) {
        for (int x = 0; x < m->side; x++) {
            float sum = 0, n = 0;

            for (int i = zn_imax(x - near, 0); i <= zn_imin(x + near, m->side - 1); i++) {
                sum += (m->contrast[i] + 1e-3f) * line[i];
                n += m->contrast[i] + 1e-3f;
            }
            room[x] = sum / n;
        }
        memcpy(line, room, (size_t)m->side * sizeof *room);
    }
}

static bool is_teeth(const mouth *m, const float *rgb)
{
    return m->colour > 2 * grey && lightness(rgb) > white * m->light && colour_of(rgb) < pale * m->colour;
}

static bool is_inside(const mouth *m, const float *rgb)
{
    return lightness(rgb) < dark * m->light || is_teeth(m, rgb);
}

/* Pixels of a column near the line that are dark or teeth. */
static int open_at(const mouth *m, const float *face, int x)
{
    const int reach = (int)(0.08f * (float)m->side), y = (int)m->top[x];
    int n = 0;

    for (int j = clamped(y - reach, m->side); j <= clamped(y + reach, m->side); j++)
        n += is_inside(m, face + (j * m->side + x) * 3);
    return n;
}

/* The mean of x, by contrast. */
static float middle(const mouth *m)
{
    float sum = 0, n = 1e-6f;

    for (int x = 0; x < m->side; x++) {
        sum += m->contrast[x] * ((float)x + 0.5f);
        n += m->contrast[x];
    }
    return (float)m->side * fminf(fmaxf(sum / n / (float)m->side, usual_x - off), usual_x + off);
}

/* The standard deviation of x, by contrast. */
static float spread(const mouth *m)
{
    float sum = 0, n = 1e-6f;

    for (int x = 0; x < m->side; x++) {
        const float d = (float)x + 0.5f - m->x;

        sum += m->contrast[x] * d * d;
        n += m->contrast[x];
    }
    return sqrtf(sum / n);
}

/* Where a gap is opened, and how high: not in a mouth that is open, or that is not seen. */
static void place_gap(mouth *m, const float *face, float amount)
{
    const float side = (float)m->side;
    float contrast = 0, around = 0;
    int columns = 0;

    m->x = middle(m);
    m->wide = side * fminf(fmaxf(1.45f * spread(m) / side, least_half), half);
    for (int x = (int)(m->x - m->wide); x < (int)(m->x + m->wide); x++, columns++) {
        contrast += m->contrast[x];
        around += (float)open_at(m, face, x) * USUAL / side;
    }
    contrast /= (float)zn_imax(columns, 1);
    around /= (float)zn_imax(columns, 1);
    m->height = amount * height * (m->wide / half) * rise((contrast - faint[0]) / (faint[1] - faint[0])) *
        (1 - rise((around - opened[0]) / (opened[1] - opened[0])));
}

/* Redness of the skin above the mouth, and not more than of the face. */
static float skin_red(const mouth *m, const float *face)
{
    float sum = 0, n = 0;

    for (int x = (int)(m->x - m->wide / 2); x < (int)(m->x + m->wide / 2); x++)
        for (int y = (int)(m->top[x] - skin_above[0] * (float)m->side);
             y < (int)(m->top[x] - skin_above[1] * (float)m->side); y++) {
            sum += zn_redness(face + (clamped(y, m->side) * m->side + x) * 3);
            n++;
        }
    return fminf(m->red, sum / fmaxf(n, 1));
}

/* Straight from a line at x to it at the corner of the mouth. */
static void bend(float *line, int x, int corner)
{
    const int step = corner < x ? -1 : 1;

    for (int k = step; k != corner - x; k += step)
        line[x + k] = line[x] + (line[corner] - line[x]) * (float)k / (float)(corner - x);
}

/* A mouth that shows teeth opens below them: they and the upper lip stay.  room: [2 side] */
static void leave_teeth(mouth *m, const float *face, float amount, float *room)
{
    const int corner[2] = { (int)(m->x - m->wide), (int)(m->x + m->wide) };
    float *ends = room + m->side;
    const float tone[2] = { m->light, skin_red(m, face) };
    const zn_teeth t =
        zn_teeth_below(ends, face, m->side, m->top, (int)(left * (float)m->side), (int)(right * (float)m->side), tone);
    const float unit = (float)m->side / USUAL;

    if (m->colour <= 2 * grey || (float)(t.last + 1 - t.first) < least_wide * 2 * m->wide)
        return;
    for (int x = t.first; x <= t.last; x++) {
        m->contrast[x] = ends[x] > 0;
        if (ends[x] > 0)
            m->top[x] = ends[x] + lip * unit;
    }
    smooth_line(m->top, m, AT_TEETH, room);
    if (corner[0] < t.first)
        bend(m->top, t.first, corner[0]);
    if (corner[1] > t.last)
        bend(m->top, t.last, corner[1]);
    m->wide = fmaxf(m->wide, fmaxf(m->x - (float)t.first, (float)(t.last + 1) - m->x));
    m->upper = 0;
    m->height = amount * less_high * height * (float)m->side *
        (1 - rise((t.rows / unit - wide_open[0]) / (wide_open[1] - wide_open[0])));
}

/* The root mean square by which the middle between the lips jumps from column to column, where they are apart. */
static float roughness(const mouth *m, int x0, int x1)
{
    float sum = 0, n = 1e-6f;

    for (int x = x0; x < x1 - 1; x++) {
        const float high = fminf(m->contrast[x], m->contrast[x + 1]);
        const float jump = (m->top[x + 1] + m->bottom[x + 1] - m->top[x] - m->bottom[x]) / 2;

        sum += high * jump * jump;
        n += high;
    }
    return sqrtf(sum / n);
}

/* The lips of an open mouth with teeth: in each column the part with the most that is inside of a mouth and goes. */
static void find_lips(mouth *m, const float *face, const float *added, float amount)
{
    const int side = m->side, x0 = (int)(left * (float)side), x1 = (int)(right * (float)side);
    const int y0 = (int)(above * (float)side), y1 = (int)(below * (float)side);
    float teeth = 0, goes = 0, all_of = 0, high;

    for (int x = x0; x < x1; x++) {
        float most = 0, sum = 0;
        int from = y0;

        m->top[x] = m->bottom[x] = usual_y * (float)side;
        for (int y = y0; y < y1; y++) {
            const float *p = face + (y * side + x) * 3;

            sum += is_inside(m, p) ? 0.5f : -0.5f;
            if (sum <= 0) {
                sum = 0;
                from = y + 1;
            } else if (sum > most) {
                most = sum;
                m->top[x] = (float)from;
                m->bottom[x] = (float)y + 1;
            }
        }
        m->contrast[x] = m->bottom[x] - m->top[x];
        all_of += m->contrast[x];
        for (int y = (int)m->top[x]; y < (int)m->bottom[x]; y++) {
            teeth += is_teeth(m, face + (y * side + x) * 3);
            goes += added[y * side + x] > changed;
        }
        m->top[x] -= rim * (float)side / USUAL;
        m->bottom[x] += rim * (float)side / USUAL;
    }
    for (int x = 0; x < side; x++) {
        const int at = zn_imin(zn_imax(x, x0), x1 - 1);

        if (x < x0 || x >= x1)
            m->contrast[x] = 0;
        m->top[x] = m->top[at];
        m->bottom[x] = m->bottom[at];
    }
    m->x = middle(m);
    m->wide = fminf(2.4f * spread(m), widest * (float)side);
    high = all_of / fmaxf(2 * m->wide, 1);
    if (roughness(m, x0, x1) < rough * (float)side / USUAL && m->wide > narrowest * (float)side &&
        high > 2 * (float)side / USUAL && high < highest * (float)side)
        m->shut = amount * rise(teeth / all_of / enough - 1) * rise(goes / all_of / enough - 1);
}

typedef struct lips { /* at an x: in the picture, and where they go */
    float from[2], to[2];
    float seen; /* 0..1, of the line between them */
} lips;

/* Of a line at an x, linear between the middles of columns. */
static float line_at(const float *line, float x, int side)
{
    const float at = fminf(fmaxf(x - 0.5f, 0), (float)(side - 1));
    const int i = (int)at;

    return line[i] + (at - (float)i) * (line[clamped(i + 1, side)] - line[i]);
}

static lips lips_at(const mouth *m, float x)
{
    const float off_middle = (x - m->x) / m->wide, t = fmaxf(1 - off_middle * off_middle, 0);
    const float within = fminf(fmaxf(x, m->x - m->wide), m->x + m->wide),
                h = m->height * sqrtf(t) * (0.35f + 0.65f * t);
    const float top = line_at(m->top, within, m->side), bottom = line_at(m->bottom, within, m->side);
    const float high = line_at(m->contrast, within, m->side) * USUAL / (float)m->side;
    const float was = m->shut > 0 ? (bottom - top) * rise(4 * t) * rise(high / (2 * rim)) : 0,
                now = was * (1 - m->shut) + h;
    const float from = (top + bottom - was) / 2;
    const float to = from + m->upper * (was - now);

    return (lips){ { from, from + was }, { to, to + now }, rise(t) };
}

/* How far below a pixel the one is that comes there with the upper or lower lip. */
static float way(const lips *l, int lower, float y, float side)
{
    const float beyond = lower ? (y - l->to[1]) / (moves_down * side) : (l->to[0] - y) / (moves_up * side);

    return (l->from[lower] - l->to[lower]) * (1 - rise(beyond));
}

/* The picture is opened or shut where it is, and then moves. */
static void put(zn_face_field *field, const mouth *m)
{
    const float side = (float)m->side, colour = rise(m->colour / (2 * grey));

    for (int i = 0; i < m->side * m->side; i++) {
        float *f = field[i];
        const float x = (float)(i % m->side) + 0.5f + f[3] * side, y = (float)(i / m->side) + 0.5f + f[4] * side;
        const lips l = lips_at(m, x);
        const float at = fminf(fmaxf((y - l.to[0]) / fmaxf(l.to[1] - l.to[0], 1e-3f), 0), 1);
        const float beside = fmaxf(fabsf(x - m->x) - m->wide, 0);

        if (m->shut >= 1) {
            f[5] = (y - l.to[0]) / side;
            f[6] = f[4] + way(&l, 1, y, side) / side;
            f[7] = -1 - l.seen;
            f[4] += way(&l, 0, y, side) / side;
        } else {
            f[4] += (y < l.to[0]       ? way(&l, 0, y, side)
                         : y > l.to[1] ? way(&l, 1, y, side)
                                       : l.from[0] + at * (l.from[1] - l.from[0]) - y) /
                side;
            if (m->height > 0) {
                const float high = (l.to[1] - l.to[0]) / side;

                f[5] = (fminf(y - l.to[0], l.to[1] - y) - beside) / side - fmaxf(2 * edge - high, 0);
                f[5] = fmaxf(f[5], -outside);
                f[6] = m->light * (inside[0] + (inside[1] - inside[0]) * rise(at));
                f[7] = colour;
            }
        }
    }
}

bool zn_field_open(zn_face_field *field, const float *face, const float *added, int side, const float *change,
                   float amount)
{
    const size_t n = (size_t)side * (size_t)side;
    float *memory = calloc(2 * n + 5 * (size_t)side, sizeof *memory), *room;
    mouth m = { .side = side, .upper = upper };

    if (!memory)
        return false;
    m.top = memory + 2 * n;
    m.bottom = m.top + side;
    m.contrast = m.bottom + side;
    room = m.contrast + side;
    measure(&m, face, change);
    if (!(m.light > 0 && m.light < INFINITY))
        amount = 0;
    if (amount > 0) {
        find_valleys(memory, &m, face);
        find_line(&m, memory, memory + n);
        smooth_line(m.top, &m, NEAR, room);
        place_gap(&m, face, amount);
        leave_teeth(&m, face, amount, room);
        memcpy(m.bottom, m.top, (size_t)side * sizeof *m.top);
    } else if (amount < 0) {
        find_lips(&m, face, added, -amount);
        smooth_line(m.top, &m, NEAR, room);
        smooth_line(m.bottom, &m, NEAR, room);
        smooth_line(m.contrast, &m, NEAR, room);
    }
    if (m.shut > nearly)
        m.shut = 1;
    if (m.height > 0 || m.shut > 0)
        put(field, &m);
    free(memory);
    return true;
}

/* ---- pasted ------------------------------------------------------------------------------------------------------ */

static const float inner[3] = { 1.63f, 0.77f, 0.69f };                                       /* colour of a gap */
static const float line_width = 0.0035f, line_dark = 0.55f, roll = 0.004f, roll_dark = 0.5f; /* of lips beside a gap */

float zn_lips_way(const float *f)
{
    return f[7] < -0.5f && f[5] > 0 ? f[6] : f[4];
}

void zn_lips_show(float rgb[3], const float *f)
{
    if (f[7] < -0.5f) {
        const float at = f[5] / line_width, stays = 1 - line_dark * fminf(fmaxf(-1 - f[7], 0), 1) * expf(-at * at);

        for (int c = 0; c < 3; c++)
            rgb[c] *= stays;
    } else {
        const float part = rise((f[5] + edge) / (2 * edge));

        const float stays = 1 - roll_dark * expf(fminf(f[5], 0) / roll) * rise(f[6] / inside[0]);

        for (int c = 0; c < 3; c++)
            rgb[c] = stays * rgb[c] + part * (f[6] * (1 + f[7] * (inner[c] - 1)) - stays * rgb[c]);
    }
}
