/* SPDX-License-Identifier: MIT */
/* face_warp.c - the change of a large face as a motion of the picture, which keeps all that is fine in it, and soft light and colour.
 *
 *   seen ──┬─ flow ── bounded, nowhere steep ──────────────────── where the picture's pixels come from
 *   drawn ─┘    └── drawn - moved(seen) ── less what is shape ── what is added to them
 *
 * What the model draws anew (teeth, a closed lid) cannot be as sharp as the picture: it stays away.  Lips part and close in face_gap.c. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>

enum { USUAL = 128 /* side of a face; distances are for it */, CALMER = 20 /* times */ };

/* The longest that a flow may become, in pixels. */
static const float longest = 8;
/* Pixels of the picture are at most 1 / (1 - stretched) times as wide, or it shows, and at least 1 / (1 + squeezed) times. */
static const float stretched = 0.4f, squeezed = 2;
/* Structure that does not count; the part of it that goes, and the size of what is added, from which on, and at which all of it is shape. */
static const float flat = 0.05f, goes[2] = { 0.2f, 0.5f }, size[2] = { 0.1f, 0.25f };
static const float most = 0.15f, tint = 0.03f; /* what is added, and its colour, are less */
/* Places whose surroundings are darker than this part of the face's usual lightness are in the shade: less light is added to them. */
static const float shade = 0.6f;
static const float bright = 0.4f; /* what is darker, such as brows, is coloured less */
/* Parts of a change, of which all moves, and all is added. */
static const float moves = 0.25f, adds = 0.05f;

typedef struct work {
    int side, n;
    float *seen, *drawn; /* [side][side][3]; drawn becomes what the moved picture lacks */
    float *flow;         /* [side][side][2] */
    float *shape;        /* [side][side] */
    float *gain;         /* [side][side], of the relief */
    float *relief;       /* [side][side][4] */
    float *a, *b, *room; /* [side][side][3] */
} work;

/* Radius of a mean, taken twice. */
static int radius(const work *w, int usual)
{
    return zn_imax(usual * w->side / USUAL, 1);
}

static void smooth(float *values, const work *w, size_t n, int usual)
{
    zn_mean_twice(values, w->room, values, w->side, n, radius(w, usual), NULL);
}

/* dst: seen, moved. */
static void move(float *dst, const work *w, const zn_face_field *field)
{
    for (int i = 0; i < w->n; i++) {
        const double x = i % w->side + 0.5 + (double)w->flow[i * 2], y = i / w->side + 0.5 + (double)w->flow[i * 2 + 1];
        zn_face_field f;

        zn_sample_field(f, field, w->side, x / w->side, y / w->side);
        for (int c = 0; c < 3; c++)
            dst[i * 3 + c] = f[3 + c];
    }
}

static void lengthen(const work *w, float times)
{
    const float end = longest * (float)w->side / USUAL;

    for (int i = 0; i < w->n; i++) {
        float *f = w->flow + i * 2;
        const float x = times * f[0], y = times * f[1], part = 1 / sqrtf(1 + (x * x + y * y) / (end * end));

        f[0] = x * part;
        f[1] = y * part;
    }
    smooth(w->flow, w, 2, 1);
}

/* How steep the flow is at a pixel, by its neighbours; 1 is the most that is good.  least and largest: the singular values of the
 * derivative of where pixels come from. */
static float steepness(const work *w, int i)
{
    const int side = w->side, x = i % side, y = i / side;
    const float *left = w->flow + (i - (x > 0)) * 2, *right = w->flow + (i + (x < side - 1)) * 2;
    const float *above = w->flow + (i - (y > 0 ? side : 0)) * 2, *below = w->flow + (i + (y < side - 1 ? side : 0)) * 2;
    const float xx = 1 + (right[0] - left[0]) / 2, xy = (below[0] - above[0]) / 2;
    const float yx = (right[1] - left[1]) / 2, yy = 1 + (below[1] - above[1]) / 2;
    const float sum = hypotf(xx + yy, xy - yx) / 2, difference = hypotf(xx - yy, xy + yx) / 2;
    const float least = sum - difference, largest = sum + difference; /* least is negative where the flow folds */

    return fmaxf((1 - least) / stretched, (largest - 1) / squeezed);
}

/* Where the flow is steep it becomes shorter, around it, too. */
static void calm(const work *w)
{
    for (int t = 0; t < CALMER; t++) {
        float worst = 0;

        for (int i = 0; i < w->n; i++) {
            const float s = steepness(w, i);

            worst = fmaxf(worst, s);
            w->a[i] = s > 1 ? 1 / s : 1;
        }
        if (worst <= 1)
            return;
        smooth(w->a, w, 1, 4);
        for (int i = 0; i < w->n * 2; i++)
            w->flow[i] *= w->a[i / 2];
    }
}

/* dst: src less its mean around each place. */
static void structure(float *dst, const float *src, const work *w)
{
    zn_mean_twice(dst, w->room, src, w->side, 3, radius(w, 3), NULL);
    for (int i = 0; i < w->n * 3; i++)
        dst[i] = src[i] - dst[i];
}

static float product(const float *a, const float *b)
{
    return (a[0] * b[0] + a[1] * b[1] + a[2] * b[2]) / 3;
}

/* Where what is lacking is shape: it takes structure of the moved picture away, or is large.  And what becomes of the relief. */
static void find_shapes(const work *w, const zn_face_field *field, const zn_lips *lips)
{
    float *was = w->a, *is = w->b, *sums = w->seen; /* which is not needed again */

    move(sums, w, field);
    structure(was, sums, w);
    structure(is, w->drawn, w);
    zn_relief_gain(w->gain, w->relief, was, is, w->side, lips);
    for (int i = 0; i < w->n; i++) {
        sums[i * 3] = product(was + i * 3, was + i * 3);
        sums[i * 3 + 1] = -product(was + i * 3, is + i * 3);
        sums[i * 3 + 2] = product(w->drawn + i * 3, w->drawn + i * 3);
    }
    smooth(sums, w, 3, 1);
    for (int i = 0; i < w->n; i++) {
        const float gone = sums[i * 3 + 1] / (sums[i * 3] + flat * flat), large = sqrtf(fmaxf(sums[i * 3 + 2], 0));

        w->shape[i] =
            fmaxf(zn_rise((gone - goes[0]) / (goes[1] - goes[0])), zn_rise((large - size[0]) / (size[1] - size[0])));
    }
    smooth(w->shape, w, 1, 1);
}

/* around [side][side]: the lightness around each place.  Its mean in the middle of the frame. */
static float usual_lightness(float *around, const work *w, const zn_face_field *field)
{
    const int from = w->side / 4, to = w->side - from;
    float sum = 0;

    for (int i = 0; i < w->n; i++)
        around[i] = zn_lightness(field[i] + 3);
    smooth(around, w, 1, 3);
    for (int y = from; y < to; y++)
        for (int x = from; x < to; x++)
            sum += around[y * w->side + x] / (float)((to - from) * (to - from));
    return fmaxf(sum, 0.01f);
}

/* What is lacking, but for shapes, soft, its colour more so, and never much. */
static void soften(const work *w, const zn_face_field *field)
{
    float *grey = w->a, *around = w->b, *added = w->drawn;
    const float usual = usual_lightness(around, w, field);

    for (int i = 0; i < w->n * 3; i++)
        added[i] *= 1 - w->shape[i / 3];
    smooth(added, w, 3, 1);
    for (int i = 0; i < w->n; i++) {
        float *p = added + i * 3;
        const float light = zn_lightness(p), lit = fminf(fmaxf(around[i] / (shade * usual), 0.1f), 1);
        const float part = 1 / (1 + fabsf(light) / (light > 0 ? most * lit * lit : most));
        const float colour = fmaxf(fabsf(p[0] - light), fmaxf(fabsf(p[1] - light), fabsf(p[2] - light)));
        const float colours = part * zn_rise(zn_lightness(field[i] + 3) / bright) / (1 + colour / tint);

        grey[i] = light * part;
        for (int c = 0; c < 3; c++)
            p[c] = colours * (p[c] - light);
    }
    smooth(added, w, 3, 3);
    for (int i = 0; i < w->n * 3; i++)
        added[i] += grey[i / 3];
}

/* field: what is added, the flow in parts of the frame, and the gain; all end softly with the change and towards the edges. */
static void put(zn_face_field *field, const work *w, const float *change)
{
    for (int i = 0; i < w->n; i++) {
        const double edge = zn_frame_edge((i % w->side + 0.5) / w->side) * zn_frame_edge((i / w->side + 0.5) / w->side);
        const float wanted = change ? change[i] : 1;

        for (int c = 0; c < 3; c++)
            field[i][c] = (float)edge * zn_rise(wanted / adds) * w->drawn[i * 3 + c];
        for (int k = 0; k < 2; k++)
            field[i][3 + k] = (float)edge * zn_rise(wanted / moves) * w->flow[i * 2 + k] / (float)w->side;
        field[i][6] = (float)edge * zn_rise(wanted / moves) * w->gain[i];
    }
}

typedef struct seen_face {
    const zn_face_field *field;
    int side;
} seen_face;

static void sample_seen(float rgb[3], const void *cookie, double x, double y)
{
    const seen_face *s = cookie;
    zn_face_field f;

    zn_sample_field(f, s->field, s->side, x, y);
    for (int c = 0; c < 3; c++)
        rgb[c] = f[3 + c];
}

/* What was seen gets the moved lips; what is drawn stays.  room: [side][side][3] */
static void move_lips(zn_face_field *field, int side, const zn_lips *lips, float *room)
{
    const seen_face seen = { (const zn_face_field *)field, side };

    for (int i = 0; i < side * side; i++) {
        const double x = (i % side + 0.5) / side, y = (i / side + 0.5) / side;

        zn_lips_show(room + i * 3, lips, &(zn_moved_view){ x, y, { x, y }, sample_seen, &seen });
    }
    for (int i = 0; i < side * side * 3; i++) {
        float *f = field[i / 3] + i % 3;

        f[0] += f[3] - room[i];
        f[3] = room[i];
    }
}

bool zn_field_move(zn_face_field *field, int side, const zn_face_mask *mask, zn_lips *lips, double longer)
{
    const zn_face_field *f = (const zn_face_field *)field;
    const size_t n = (size_t)side * (size_t)side;
    float *memory = calloc(n * (5 * 3 + 2 + 1 + 1 + 4), sizeof *memory);
    work w = { .side = side, .n = side * side };
    bool ok;

    if (!memory)
        return false;
    w.seen = memory;
    w.drawn = w.seen + 3 * n;
    w.a = w.drawn + 3 * n;
    w.b = w.a + 3 * n;
    w.room = w.b + 3 * n;
    w.flow = w.room + 3 * n;
    w.shape = w.flow + 2 * n;
    w.gain = w.shape + n;
    w.relief = w.gain + n;
    if (lips && lips->moves)
        move_lips(field, side, lips, w.room);
    for (size_t i = 0; i < n * 3; i++) {
        w.seen[i] = field[i / 3][3 + i % 3];
        w.drawn[i] = w.seen[i] + field[i / 3][i % 3];
    }
    ok = zn_face_flow(w.flow, w.seen, w.drawn, side);
    if (ok) {
        move(w.a, &w, f);
        for (size_t i = 0; i < n * 3; i++)
            w.drawn[i] -= w.a[i];
        lengthen(&w, (float)longer);
        calm(&w);
        find_shapes(&w, f, lips);
        soften(&w, f);
        put(field, &w, mask->change);
        if (lips && lips->moves)
            zn_lips_slide(lips, f, side);
    }
    free(memory);
    return ok;
}
