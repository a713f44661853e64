/* SPDX-License-Identifier: MIT */
/* face_teeth.c - teeth that a mouth shows, by this face's own colours: less red than its skin, as light, and a redder lip follows.
 *
 *   ------- line   upper lip
 *   | | | |        gum, then teeth
 *   ~~~~~~~ ends   lower lip */
#include "face.h"

#include "../core/ints.h"

#include <math.h>

enum {
    USUAL = 128, /* side of a face; distances are for it */
    GUM = 6,     /* rows between the line and teeth, at most */
    SHADE = 3,   /* and between teeth and what is red */
    APART = 5,   /* columns between teeth */
    MOST = 12    /* rows of teeth; more are something else */
};

static const float least = 1.5f; /* rows of teeth */
/* Redness of teeth and how much more lips have, of the skin's; lightness of teeth, of the face's. */
static const float less_red = 0.7f, more_red = 0.35f, light_enough = 0.75f;

float zn_redness(const float *rgb)
{
    return (rgb[0] - rgb[1]) / fmaxf(fmaxf(rgb[0], fmaxf(rgb[1], rgb[2])), 1e-3f);
}

typedef struct column {
    const float *pixels;
    int side;
    float light, red;
} column;

static const float *at(const column *c, int y)
{
    return c->pixels + y * c->side * 3;
}

static bool is_tooth(const column *c, int y)
{
    const float *p = at(c, y);

    return zn_redness(p) < less_red * c->red && 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2] > light_enough * c->light;
}

/* Rows of teeth below the line of a column, 0: none, and where between pixels they end. */
static int rows_of_teeth(float *end, const column *c, int line)
{
    const float unit = (float)c->side / USUAL;
    const int bottom = c->side - 1;
    int from = line, to, last;
    float red = 0, before, middle;

    while (from <= zn_imin(line + (int)(GUM * unit), bottom - 1) && !is_tooth(c, from))
        from++;
    for (to = from; to < bottom && is_tooth(c, to); to++)
        red += zn_redness(at(c, to));
    if ((float)(to - from) < least * unit || (float)(to - from) > MOST * unit)
        return 0;
    middle = red / (float)(to - from) + more_red * c->red;
    before = zn_redness(at(c, to - 1));
    last = zn_imin(to + (int)(SHADE * unit), bottom);
    for (int y = to; y <= last; y++) {
        const float now = zn_redness(at(c, y));

        if (now >= middle) {
            *end = (float)y + 0.5f - (now - middle) / fmaxf(now - before, 1e-3f);
            return to - from;
        }
        before = now;
    }
    return 0;
}

zn_teeth zn_teeth_below(float *ends, const float *face, int side, const float *line, int x0, int x1,
                        const float tone[2])
{
    const int apart = zn_imax(APART * side / USUAL, 1);
    zn_teeth widest = { 0, -1, 0 };
    int first = x0, last = x0 - apart - 1, n = 0, sum = 0;

    for (int x = x0; x < x1; x++) {
        const column c = { face + x * 3, side, tone[0], tone[1] };
        const int rows = rows_of_teeth(ends + x, &c, (int)line[x]);

        if (!rows) {
            ends[x] = 0;
            continue;
        }
        if (x - last > apart) {
            first = x;
            n = sum = 0;
        }
        last = x;
        sum += rows;
        n++;
        if (last - first > widest.last - widest.first)
            widest = (zn_teeth){ first, last, (float)sum / (float)n };
    }
    return widest;
}
