/* SPDX-License-Identifier: MIT */
/* face_eyeball.c - what is seen in the eyes of a large face when lids move over eyeballs that keep their shape.
 *
 *   moved picture: lids, lashes ──────────────────────────┐
 *   eyeball, seen ──┬── eyeball ── light under the lid ───┴── opening ? eyeball less what lashes take : moved picture
 *   rings of iris ──┘
 *
 * Lengths of an eye are in radii of its iris: x and y from the centre. */
#include "face.h"

#include <math.h>

static const double reach = 4; /* what is further away does not move with an eye */
/* How far from lids and from the iris an eyeball is seen, and how softly it ends; the shade of an upper lid. */
static const float inset = 0.15f, ramp = 0.3f, wide[2] = { 1.35f, 2.1f }, shade = 0.45f, shades = 0.4f;
/* The same below a lid that has risen; what is lighter than its iris, a highlight, is seen nearer to the lid, but not at its edge. */
static const float risen_inset = 0.1f, risen_ramp = 0.25f, glint_inset = -0.05f, glint_ramp = 0.15f;
static const float glint_ends[2] = { 0.8f, 1 };
static const float farthest = 1.7f, blends = 0.3f, brighter = 1.1f; /* of what is behind a lid */
static const float limbus[2] = { 1.1f, 1.25f };                     /* where an iris becomes white behind it, ... */
static const float tall = 0.88f;                                    /* ... being that much higher than wide */
static const float ring_depth = 0.6f;                               /* what depth rings have the light of */
static const float fibres = 0.12f;                                  /* the distance of places that a mean is taken of */
static const float inner[2] = { 0.7f, 0.9f }; /* the inner part of an iris, where its circle need not be exact */
static const float coarse = 0.05f;            /* the deviation of what may be fibres; of twice as much nothing is */
/* Over how much of the skin's edge a lid ends; from how far above the edge of lashes dark does not stay dark, and over how much. */
static const float skin_ramp = 0.12f, lash_end = 0.06f, lash_ramp = 0.2f;
static const float falls_below = 0.05f; /* where a lid that has fallen ends, below the edge of its lashes */
/* Skin that a lid stretches by so much keeps its grain: what is finer than a mean of places so far apart, in parts of the frame, if it is
 * not as strong as hairs, and has no direction, like folds. */
static const float stretched[2] = { 1.12f, 1.35f }, grain_step = 0.002f, hairs = 0.08f, folds[2] = { 0.6f, 0.9f };
static const float black = 0.03f; /* does not become darker */
/* Light beside which nothing is taken for a shade, so far away, from so far below the skin of the lid on. */
static const float glint = 0.08f, glint_near = 0.12f, glint_below[2] = { 0.1f, 0.2f };

static float clamp(float v, float low, float high)
{
    return v > high ? high : v > low ? v : low;
}

/* 1 inside of the opening that begins so far below the curve of the upper lid, and over so much; 0 beyond lids. */
static float open_at(const zn_eye *eye, float x, float y, float begins, float over)
{
    const float above = y - zn_lid_at(eye->upper, x) - begins, below = zn_lid_at(eye->lower, x) - y - inset;

    return zn_rise(above / over) * zn_rise(below / ramp) * (1 - zn_rise((fabsf(x) - wide[0]) / (wide[1] - wide[0])));
}

static void sample_eye(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y)
{
    view->sample(rgb, view->cookie, eye->x + eye->radius * (double)x, eye->y + eye->radius * (double)y);
}

/* ---- behind a lid ------------------------------------------------------------------------------------------------ */

/* The colour of the iris so far from its centre. */
static void ring_at(float rgb[3], const zn_eye *eye, float away)
{
    const float t = clamp(away / ZN_RING_STEP, 0, ZN_RINGS - 1.001f);
    const int i = (int)t;

    for (int c = 0; c < 3; c++)
        rgb[c] = eye->ring[i][c] + (t - (float)i) * (eye->ring[i + 1][c] - eye->ring[i][c]);
}

/* The photograph less rings; the square of its lightness. */
static float sample_fibres(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y)
{
    float plain[3], light;

    sample_eye(rgb, eye, view, x, y);
    ring_at(plain, eye, hypotf(x, y));
    for (int c = 0; c < 3; c++)
        rgb[c] -= plain[c];
    light = zn_lightness(rgb);
    return light * light;
}

/* The fibres and grain of an iris at x, y, without what is slow, like shades, and not near what is strong: highlights and lashes. */
static void add_fibres(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y)
{
    const float room = zn_rise((zn_lid_at(eye->lower, x) - inset - y) / ramp);
    float fine[3], other[3], mean[3] = { 0, 0, 0 }, square = 0, part;

    if (room <= 0)
        return;
    for (int k = 0; k < 16; k++) {
        const float dx = fibres * ((float)(k % 4) - 1.5f), dy = fibres * ((float)(k / 4) - 1.5f);

        square += sample_fibres(other, eye, view, x + dx, y + dy) / 16;
        for (int c = 0; c < 3; c++)
            mean[c] += other[c] / 16;
    }
    sample_fibres(fine, eye, view, x, y);
    square -= zn_lightness(mean) * zn_lightness(mean);
    part = room * (1 - zn_rise((hypotf(x, y) - inner[0]) / (inner[1] - inner[0])));
    part *= 1 - zn_rise(sqrtf(fmaxf(square, 0)) / coarse - 1);
    for (int c = 0; c < 3; c++)
        rgb[c] += part * (fine[c] - mean[c]);
}

/* White is like what is as far from the centre at both sides of it, just below the lid.  The depth of what is taken. */
static float sample_white(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y, float away)
{
    const float right = zn_rise(0.5f + x / (2 * blends)), lowest = zn_lid_at(eye->lower, x) - inset - ramp;
    float depth = 0, both[2][3];

    for (int k = 0; k < 2; k++) {
        float at_y = zn_lid_at(eye->upper, x) + inset + ramp, at_x = x;

        for (int n = 0; n < 3 && away > fabsf(at_y); n++) {
            at_x = (k ? 1.0f : -1.0f) * sqrtf(away * away - at_y * at_y);
            at_y = fmaxf(y, zn_lid_at(eye->upper, at_x) + inset + ramp);
        }
        at_y = fminf(at_y, fmaxf(lowest, y));
        sample_eye(both[k], eye, view, at_x, at_y);
        depth += (k ? right : 1 - right) * (at_y - zn_lid_at(eye->upper, at_x));
    }
    for (int c = 0; c < 3; c++)
        rgb[c] = both[0][c] + right * (both[1][c] - both[0][c]);
    return depth;
}

/* How much of what is so far from the centre is white behind a lid. */
static float whiteness(float away)
{
    return zn_rise((away - limbus[0]) / (limbus[1] - limbus[0]));
}

/* What lies under the upper lid: rings, with fibres of the other side of the iris if it is `fine`, and white around them.  The depth
 * below the lid of what is taken. */
static float sample_hidden(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y, bool fine)
{
    const float away = fminf(hypotf(x, y < 0 ? tall * y : y), farthest), white = whiteness(away);
    float depth = 0, iris[3];

    ring_at(iris, eye, away);
    if (fine && white < 1)
        add_fibres(iris, eye, view, -x, -y);
    depth = sample_white(rgb, eye, view, x, y, away);
    for (int c = 0; c < 3; c++)
        rgb[c] = iris[c] + white * (rgb[c] - iris[c]);
    return ring_depth + white * (depth - ring_depth);
}

/* ---- eyeballs ---------------------------------------------------------------------------------------------------- */

/* The eyeball at a place, as it was there, or behind lids as it may be; the depth below the lid of what is taken.  from: that of
 * what the moved picture has there; where the lid has risen, its fringe is hidden, too, but for highlights. */
static float sample_eyeball(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y, float from)
{
    const float top = zn_lid_at(eye->upper, x), depth = y - top, lowest = fmaxf(zn_lid_at(eye->lower, x) - inset, top);
    const float risen = fminf(fmaxf(3 * (from - depth), 0), 1);
    const float begins = risen * risen_inset, ends = inset + risen * (risen_inset + risen_ramp - inset);
    const float seen = zn_rise((depth - begins) / (ends - begins));
    const float iris = 1 - zn_rise((hypotf(x, y) - glint_ends[0]) / (glint_ends[1] - glint_ends[0]));
    const float lights = fmaxf(iris * zn_rise((depth - risen * glint_inset) / glint_ramp), seen);
    float hidden[3], other;

    sample_eye(rgb, eye, view, x, fminf(y, lowest));
    if (seen >= 1)
        return depth;
    other = sample_hidden(hidden, eye, view, x, y, true);
    for (int c = 0; c < 3; c++)
        rgb[c] = hidden[c] + (rgb[c] > hidden[c] ? lights : seen) * (rgb[c] - hidden[c]);
    return other + seen * (depth - other);
}

/* The light that an upper lid leaves so far below its edge. */
static float shade_at(float below)
{
    return 1 - shade * expf(-fmaxf(below, 0) / shades);
}

static float light_between(float depth, float from)
{
    return fminf(shade_at(from) / shade_at(depth), brighter);
}

static float part_of(float v, float of)
{
    return clamp((v + black) / (fmaxf(of, 0) + black), 0, 1);
}

/* How much of a place of the picture is near a highlight: lighter than the iris, or at its edge and beyond than white, would be. */
static float light_near(const zn_eye *eye, const zn_moved_view *view, float x, float y, float plain)
{
    static const float around[8][2] = { { 1, 0 },  { 0.7f, 0.7f },   { 0, 1 },  { -0.7f, 0.7f },
                                        { -1, 0 }, { -0.7f, -0.7f }, { 0, -1 }, { 0.7f, -0.7f } };
    const float beside = zn_rise((hypotf(x, y) - inner[0]) / (inner[1] - inner[0]));
    const float usual = plain + beside * fmaxf(zn_lightness(eye->ring[ZN_RINGS - 1]) - plain, 0);
    float most = 0;

    for (int k = 0; k < 16; k++) {
        const float away = k < 8 ? glint_near : glint_near / 2;
        float other[3];

        sample_eye(other, eye, view, x + away * around[k % 8][0], y + away * around[k % 8][1]);
        most = fmaxf(most, zn_lightness(other) - usual);
    }
    return zn_rise(most / glint - 1);
}

/* What a lid and its lashes leave of the light at a place that moves with them, 0..1; rgb: what is there.  Of an iris they leave the
 * same of each colour; a highlight moves with the eyeball, and so does the dark edge that sharpened ones have.  The lightness there
 * without it. */
static float find_part(float part[3], const float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x,
                       float y)
{
    const float from = y - zn_lid_at(eye->upper, x), white = whiteness(hypotf(x, y));
    const float below = (from + eye->lash - glint_below[0]) / (glint_below[1] - glint_below[0]);
    float plain[3], all, light, lit;

    light = light_between(sample_hidden(plain, eye, view, x, y, false), from);
    all = part_of(zn_lightness(rgb), light * zn_lightness(plain));
    lit = light_near(eye, view, x, y, zn_lightness(plain)) * zn_rise(below);
    for (int c = 0; c < 3; c++) {
        part[c] = all + white * (part_of(rgb[c], light * plain[c]) - all);
        part[c] += lit * (1 - part[c]);
    }
    return zn_lightness(rgb) + lit * (light * zn_lightness(plain) - zn_lightness(rgb));
}

/* ---- lids -------------------------------------------------------------------------------------------------------- */

/* 0 of values [4][4] that change in all directions, 1 of lines: the coherence of the covariance of their slopes. */
static float lines_of(const float v[16])
{
    float x = 0, y = 0, xx = 0, yy = 0, xy = 0;

    for (int k = 0; k < 9; k++) {
        const float *p = v + k / 3 * 4 + k % 3, dx = p[1] + p[5] - p[0] - p[4], dy = p[4] + p[5] - p[0] - p[1];

        x += dx / 9;
        y += dy / 9;
        xx += dx * dx / 9;
        yy += dy * dy / 9;
        xy += dx * dy / 9;
    }
    xx -= x * x;
    yy -= y * y;
    xy -= x * y;
    return hypotf(xx - yy, 2 * xy) / fmaxf(xx + yy, 1e-6f);
}

/* What is finer than the mean around a place; how much of it is grain, not hairs or folds. */
static float sample_grain(float grain[3], const zn_eye *eye, const zn_moved_view *view, float x, float y)
{
    const float step = grain_step / (float)eye->radius;
    float most = 0, mean[3] = { 0, 0, 0 }, light[16];

    for (int k = 0; k < 16; k++) {
        float other[3];

        sample_eye(other, eye, view, x + step * ((float)(k % 4) - 1.5f), y + step * ((float)(k / 4) - 1.5f));
        light[k] = zn_lightness(other);
        for (int c = 0; c < 3; c++)
            mean[c] += other[c] / 16;
    }
    for (int k = 0; k < 16; k++)
        most = fmaxf(most, fabsf(light[k] - zn_lightness(mean)));
    sample_eye(grain, eye, view, x, y);
    for (int c = 0; c < 3; c++)
        grain[c] -= mean[c];
    return (1 - zn_rise(most / hairs - 1)) * (1 - zn_rise((lines_of(light) - folds[0]) / (folds[1] - folds[0])));
}

/* The skin of a lid that closes is stretched, but not its grain, which is that at the same distance from the lid's edge.  own: the place;
 * x, y: where it is moved from, and rgb what is there. */
static void keep_grain(float rgb[3], const zn_eye *eye, const zn_moved_view *view, const float own[2], float x, float y)
{
    float along, part, grain[3], other[3];

    part = zn_rise((zn_eye_stretch(&along, eye, own[0], own[1]) - stretched[0]) / (stretched[1] - stretched[0]));
    if (part <= 0)
        return;
    part *= sample_grain(other, eye, view, x, y);
    part *= sample_grain(grain, eye, view, own[0], along);
    for (int c = 0; c < 3; c++) /* the variance stays */
        rgb[c] += sqrtf(part) * grain[c] + (sqrtf(1 - part) - 1) * other[c];
}

/* Where a lid has moved: what is below its skin, or below its lashes if it has fallen, is the eyeball, less what lashes take of its
 * light; what they hide is not lighter than they are.  rgb: the moved picture, of x, y; opens: how much of the eyeball is far from
 * lashes; edge: how much is not the lid. */
static void show_below(float rgb[3], const float eyeball[3], float opens, float edge, const zn_eye *eye,
                       const zn_moved_view *view, float x, float y)
{
    const float lash = 1 - zn_rise((y - zn_lid_at(eye->upper, x) + lash_end) / lash_ramp);
    float part[3], shown[3], dark;
    const float there = find_part(part, rgb, eye, view, x, y);

    for (int c = 0; c < 3; c++)
        shown[c] = eyeball[c] * (part[c] + opens * (1 - part[c]));
    dark = 1 + lash * (part_of(there, zn_lightness(shown)) - 1);
    for (int c = 0; c < 3; c++)
        rgb[c] += edge * (dark * shown[c] - rgb[c]);
}

/* As much of it as the lid has moved relative to the eyeball, which is at bx, by of the picture. */
static void show_eyeball(float rgb[3], const zn_eye *eye, const zn_moved_view *view, float x, float y, float bx,
                         float by)
{
    const float opens = open_at(eye, x, y, inset, ramp), moves = clamp(3 * fabsf(y - by), 0, 1);
    const float edge = opens < 1 && moves > 0 ? open_at(eye, x, y, y > by ? -eye->lash : falls_below, skin_ramp) : 0;
    const float from = y - zn_lid_at(eye->upper, x);
    float light, eyeball[3], below[3] = { rgb[0], rgb[1], rgb[2] };

    if (opens <= 0 && edge <= 0)
        return;
    light = light_between(sample_eyeball(eyeball, eye, view, bx, by, from), from);
    for (int c = 0; c < 3; c++)
        eyeball[c] *= light;
    if (edge > 0)
        show_below(below, eyeball, opens, edge, eye, view, x, y);
    for (int c = 0; c < 3; c++) {
        rgb[c] += opens * (eyeball[c] - rgb[c]);
        if (edge > 0)
            rgb[c] += moves * (below[c] - rgb[c]);
    }
}

void zn_eyes_show(float rgb[3], const zn_eyes *eyes, const zn_moved_view *view)
{
    const zn_eye *eye = eyes->eye + (view->own[0] > 0.5);
    const double dx = (view->own[0] - eye->x) / eye->radius, dy = (view->own[1] - eye->y) / eye->radius;
    const float x = (float)((view->x - eye->x) / eye->radius), y = (float)((view->y - eye->y) / eye->radius);
    const float own[2] = { (float)dx, (float)dy };

    if (!eyes->found || !(fabs(dx) < reach && fabs(dy) < reach))
        return;
    if (eyes->opens < 0)
        keep_grain(rgb, eye, view, own, x, y);
    show_eyeball(rgb, eye, view, x, y, (float)(dx * eye->scale + eye->way[0] / eye->radius),
                 (float)(dy * eye->scale + eye->way[1] / eye->radius));
}
