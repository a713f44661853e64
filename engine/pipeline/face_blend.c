/* SPDX-License-Identifier: MIT */
/* face_blend.c - from a change at the model's size to one at the picture's: masked, bicubic, feathered, with or without the structure
 * that the model cannot see. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 16, /* rows that a thread takes */
    RADIUS = 2,
    NEAR = 3 /* radius in which structure is compared */
};

static const double feather = 0.12;   /* of the frame's side */
static const double colourful = 0.06; /* the mean range of the channels in a face with usual colours is larger */
static const float strong = 0.1f;     /* a change of this size replaces all fine structure at detail 0 */
/* Of large faces: the square of structure that does not count; a change of tone that is too small to be one of material, and one that
 * is; detail at which all goes that is replaced; how far a result may be beyond the picture and the drawn face. */
static const float flat = 1e-4f, tone = 0.08f, material = 0.3f, usual_keep = 0.7f, beyond = 0.04f;

static const float dim = 0.02f; /* a median is at least so far from black and white */

static const double still = 1.0 / 256; /* pixels; a shorter way is none */
static const float slight = 0.002f;    /* a gain that is none */

typedef struct paste {
    zn_array *out; /* its place is the patch's */
    const zn_face_field *field;
    int side;
    const zn_square *square;
    const zn_patch *patch;
    const zn_texture *texture; /* NULL: none */
    bool moves;                /* the field is one of zn_field_move() */
    const zn_relief *relief;   /* NULL, or that of such a field's picture */
    const zn_lips *lips;       /* likewise */
    const zn_eyes *eyes;       /* likewise */
} paste;

double zn_frame_edge(double t)
{
    const double near = t < 1 - t ? t : 1 - t, d = fmin(fmax(near / feather, 0), 1);

    return d * d * (3 - 2 * d);
}

/* The change of a large face at a pixel of the picture.  What replaces fine structure, of which 1 + gain stays, varies as much together
 * with it as it did. */
static void change_large(float *change, const zn_texture *t, const float *f, const float *pixel, int x, int y)
{
    const float stays = fminf(fmaxf(1 + f[6], 0), 1), part = sqrtf(1 - stays * stays);
    const float drawn[3] = { f[0] + f[3], f[1] + f[4], f[2] + f[5] };
    float grain[3] = { 0, 0, 0 };

    if (part > 1e-3f)
        zn_texture_at(grain, t, x, y, zn_lightness(drawn));
    for (int c = 0; c < 3; c++) {
        const float least = fminf(pixel[c], drawn[c]) - beyond, most = fmaxf(pixel[c], drawn[c]) + beyond;
        const float made = pixel[c] + f[c] + f[6] * (pixel[c] - f[3 + c]);

        change[c] = fminf(fmaxf(made, least), most) + part * grain[c] - pixel[c];
    }
}

static void sample_frame(float rgb[3], const void *cookie, double u, double v)
{
    const paste *p = cookie;
    const zn_square *q = p->square;
    const double a = q->size * (u - 0.5), b = q->size * (v - 0.5);

    zn_sample_patch(rgb, p->patch, q->x + q->cos * a - q->sin * b, q->y + q->sin * a + q->cos * b);
}

/* The change of a picture that moves, at a pixel, which is at u, v of the frame. */
static void change_moved(float *change, const paste *p, const float *f, const float *pixel, double u, double v)
{
    const double a = (double)f[3], b = (double)f[4];
    const zn_moved_view view = { u + a, v + b, { u, v }, sample_frame, p };
    float moved[3] = { pixel[0], pixel[1], pixel[2] }, inside = 0;

    if (p->lips && p->lips->moves)
        inside = zn_lips_show(moved, p->lips, &view);
    else if (p->square->size * (fabs(a) + fabs(b)) > still)
        sample_frame(moved, p, view.x, view.y);
    for (int c = 0; c < 3; c++)
        moved[c] += (1 - inside) * f[c];
    if (p->relief && fabsf(f[6]) > slight)
        zn_relief_add(moved, p->relief, view.x, view.y, (1 - inside) * f[6]);
    if (p->eyes)
        zn_eyes_show(moved, p->eyes, &view);
    for (int c = 0; c < 3; c++)
        change[c] = moved[c] - pixel[c];
}

/* out += mask (up(added) + up(gain) (picture - up(seen))), or what change_moved() or change_large() say */
static void paste_rows(void *cookie, int item, int worker)
{
    const paste *p = cookie;
    const zn_square *q = p->square;
    const zn_rect rect = p->patch->rect;

    (void)worker;
    for (int y = item * BLOCK; y < zn_imin(rect.h, (item + 1) * BLOCK); y++)
        for (int x = 0; x < rect.w; x++) {
            const double a = rect.x + x + 0.5 - q->x, b = rect.y + y + 0.5 - q->y;
            const double u = (q->cos * a + q->sin * b) / q->size + 0.5;
            const double v = (q->cos * b - q->sin * a) / q->size + 0.5;
            const float mask = (float)(zn_frame_edge(u) * zn_frame_edge(v));
            const size_t at = ((size_t)y * (size_t)rect.w + (size_t)x) * 3;
            zn_face_field f;

            if (mask <= 0)
                continue;
            zn_sample_field(f, p->field, p->side, u, v);
            if (p->eyes)
                zn_eyes_move(f, p->eyes, u, v);
            if (p->moves)
                change_moved(f, p, f, p->patch->pixels + at, u, v);
            else if (p->texture)
                change_large(f, p->texture, f, p->patch->pixels + at, rect.x + x, rect.y + y);
            for (size_t c = 0; c < 3; c++)
                p->out->data[at + c] +=
                    mask * (p->texture || p->moves ? f[c] : f[c] + f[6] * (p->patch->pixels[at + c] - f[3 + c]));
        }
}

static void paste_all(const paste *p, const zn_face_work *k)
{
    paste own = *p;

    zn_workers_loop(&k->workers, paste_rows, &own, zn_ceil_div(p->patch->rect.h, BLOCK));
}

bool zn_field_paste(zn_array *out, zn_face_field *field, int side, const zn_face_work *k, const zn_patch *patch)
{
    if (field)
        paste_all(
            &(paste){
                .out = out, .field = (const zn_face_field *)field, .side = side, .square = &k->square, .patch = patch },
            k);
    free(field);
    return field != NULL;
}

bool zn_moved_paste(zn_array *out, zn_face_field *field, int side, const zn_face_work *k, const zn_patch *patch,
                    const zn_relief *relief, const zn_lips *lips, const zn_eyes *eyes)
{
    if (field)
        paste_all(&(paste){ .out = out,
                            .field = (const zn_face_field *)field,
                            .side = side,
                            .square = &k->square,
                            .patch = patch,
                            .moves = true,
                            .relief = relief,
                            .lips = lips,
                            .eyes = eyes },
                  k);
    free(field);
    return field != NULL;
}

zn_face_field *zn_field_new(int side, const float *to, const float *from, const float *low, float gain)
{
    const size_t len = (size_t)side * (size_t)side * 3;
    zn_face_field *field = calloc((size_t)side * (size_t)side, sizeof *field);

    for (size_t i = 0; field && i < len; i++) {
        field[i / 3][i % 3] = to[i] - from[i];
        field[i / 3][3 + i % 3] = low[i];
        field[i / 3][6] = gain;
    }
    return field;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The median of value c in the face, 0 without a face; memory: [n]. */
static float median_of(const zn_face_field *field, size_t n, const float *face, size_t c, float *memory)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (face[i] > 0.5f)
            memory[count++] = field[i][c];
    if (!count)
        return 0;
    qsort(memory, count, sizeof *memory, by_value);
    return memory[(count - 1) / 2];
}

/* 0 of a grey face, 1 of one with usual colours. */
static float colours_of(const zn_face_field *field, size_t n, const float *face)
{
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (face[i] > 0.5f) {
            const float *seen = field[i] + 3;

            sum += (double)(fmaxf(seen[0], fmaxf(seen[1], seen[2])) - fminf(seen[0], fminf(seen[1], seen[2])));
            count++;
        }
    return count ? (float)fmin(sum / (double)count / colourful, 1) : 1;
}

typedef struct tint { /* what a face would get that its picture has not */
    float cast[3], colours;
} tint;

/* False: out of memory. */
static bool tint_of(tint *t, const zn_face_field *field, int side, const float *face)
{
    const size_t n = (size_t)side * (size_t)side;
    float *memory = malloc(n * sizeof *memory);

    if (!memory)
        return false;
    t->colours = colours_of(field, n, face);
    for (size_t c = 0; c < 3; c++)
        t->cast[c] = median_of(field, n, face, c, memory);
    free(memory);
    return true;
}

/* added = change ((added - cast), less colourful) */
static void suppress(float *f, const tint *t, float change)
{
    float grey;

    for (size_t c = 0; c < 3; c++)
        f[c] -= t->cast[c];
    grey = zn_lightness(f);
    for (size_t c = 0; c < 3; c++)
        f[c] = change * (grey + t->colours * (f[c] - grey));
}

static void suppress_all(zn_face_field *field, int side, const tint *t, const zn_face_mask *mask)
{
    for (int i = 0; i < side * side; i++) {
        const float change = zn_map_between(mask->change, mask->side, side, i % side, i / side);

        suppress(field[i], t, change);
        field[i][6] *= change;
    }
}

/* dst [cells][cells]: the field in the middles of cells. */
static void pick(zn_face_field *dst, int cells, const zn_face_field *field, int side)
{
    const int step = side / cells;

    for (int i = 0; i < cells * cells; i++)
        memcpy(dst[i], field[(i / cells * step + step / 2) * side + i % cells * step + step / 2], sizeof *dst);
}

/* The values of a field of any multiple of the mask's size at the mask's, to be freed; NULL: out of memory. */
static zn_face_field *seen_by(const zn_face_mask *mask, const zn_face_field *field, int side)
{
    zn_face_field *seen = malloc((size_t)mask->side * (size_t)mask->side * sizeof *seen);

    if (seen)
        pick(seen, mask->side, field, side);
    return seen;
}

/* The lightness v with another tone, see zn_field_tone(). */
static float toned(float v, float factor)
{
    return v > 0 && v < 1 ? v * sqrtf(factor / (1 + (factor - 1) * v * v)) : v;
}

/* The factor that brings one lightness to another. */
static float factor_between(float from, float to)
{
    const float a = fminf(fmaxf(from, dim), 1 - dim), b = fminf(fmaxf(to, dim), 1 - dim);

    return b * b * (1 - a * a) / (a * a * (1 - b * b));
}

/* The lightness of what is drawn: seen + added. */
static float drawn_lightness(const float *f)
{
    return zn_lightness(f) + zn_lightness(f + 3);
}

bool zn_field_tone(zn_face_field *field, int side, const zn_face_mask *mask)
{
    const size_t n = (size_t)mask->side * (size_t)mask->side;
    zn_face_field *seen = mask->face ? seen_by(mask, (const zn_face_field *)field, side) : NULL;
    float *memory = seen ? malloc(n * sizeof *memory) : NULL;
    const bool ok = memory || !mask->face;

    if (memory) {
        float factor;

        for (size_t i = 0; i < n; i++) {
            seen[i][0] = drawn_lightness(seen[i]);
            seen[i][3] = zn_lightness(seen[i] + 3);
        }
        factor = factor_between(median_of((const zn_face_field *)seen, n, mask->face, 0, memory),
                                median_of((const zn_face_field *)seen, n, mask->face, 3, memory));
        for (int i = 0; i < side * side; i++) {
            const float was = drawn_lightness(field[i]), more = toned(was, factor) - was;

            for (int c = 0; c < 3; c++)
                field[i][c] += more;
        }
    }
    free(memory);
    free(seen);
    return ok;
}

bool zn_field_mask(zn_face_field *field, int side, const zn_face_mask *mask)
{
    zn_face_field *seen = mask->face ? seen_by(mask, (const zn_face_field *)field, side) : NULL;
    tint t;
    const bool ok = seen && tint_of(&t, (const zn_face_field *)seen, mask->side, mask->face);

    if (ok)
        suppress_all(field, side, &t, mask);
    free(seen);
    return ok || !mask->face;
}

/* The mean size of what is added around x, y. */
static float added_near(const zn_face_field *field, int side, int x, int y)
{
    float sum = 0;
    int n = 0;

    for (int j = zn_imax(y - RADIUS, 0); j <= zn_imin(y + RADIUS, side - 1); j++)
        for (int i = zn_imax(x - RADIUS, 0); i <= zn_imin(x + RADIUS, side - 1); i++, n++) {
            const float *f = field[j * side + i];

            sum += fmaxf(fabsf(f[0]), fmaxf(fabsf(f[1]), fabsf(f[2])));
        }
    return sum / (float)n;
}

void zn_field_cut_fine(zn_face_field *field, int side, float cut)
{
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            field[y * side + x][6] = -cut * fminf(added_near((const zn_face_field *)field, side, x, y) / strong, 1);
}

/* ---- large faces ------------------------------------------------------------------------------------------------- */

/* dst [side][side]: the mean of src over a square. */
static void mean_square(float *dst, const float *src, int side, int radius)
{
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            float sum = 0;
            int n = 0;

            for (int j = zn_imax(y - radius, 0); j <= zn_imin(y + radius, side - 1); j++)
                for (int i = zn_imax(x - radius, 0); i <= zn_imin(x + radius, side - 1); i++, n++)
                    sum += src[j * side + i];
            dst[y * side + x] = sum / (float)n;
        }
}

/* dst [side][side][3]: value `at` and the next two of a field less their means around each place. */
static void structure(float *dst, const zn_face_field *field, int side, int at, float *room)
{
    const int n = side * side;

    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < n; i++)
            room[i] = field[i][at + c];
        mean_square(room + n, room, side, RADIUS);
        for (int i = 0; i < n; i++)
            dst[i * 3 + c] = room[i] - room[n + i];
    }
}

/* The gain is -cut where the structure that the model saw is gone, s + a = 0, and 0 where it is as it was: the regression of what is
 * added on what was seen, -sum(s a) / sum(s s), s and a being the structure of both.  It is also -cut where the tone changes so much
 * that the material does. */
static bool cut_gone(zn_face_field *field, int side, float cut)
{
    const zn_face_field *f = (const zn_face_field *)field;
    const int n = side * side;
    float *memory = malloc((size_t)n * 10 * sizeof *memory), *s = memory, *a = s + 3 * n, *ss = a + 3 * n, *sa = ss + n;
    float *room = sa + n;

    if (!memory)
        return false;
    structure(s, f, side, 3, room);
    structure(a, f, side, 0, room);
    for (int i = 0; i < n; i++) {
        const float *p = s + i * 3, *q = a + i * 3;

        room[i] = (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) / 3;
        room[n + i] = -(p[0] * q[0] + p[1] * q[1] + p[2] * q[2]) / 3;
    }
    mean_square(ss, room, side, NEAR);
    mean_square(sa, room + n, side, NEAR);
    for (int i = 0; i < n; i++) {
        const float change = (added_near(f, side, i % side, i / side) - tone) / (material - tone);

        room[i] = fminf(fmaxf(sa[i] / (ss[i] + flat), fmaxf(change, 0)), 1);
    }
    mean_square(ss, room, side, 1);
    for (int i = 0; i < n; i++)
        field[i][6] = -fminf(cut * ss[i], 1);
    free(memory);
    return true;
}

/* The field of what is enlarged; the gain is that of `small`. */
static zn_face_field *enlarged(const zn_face_large *l, const zn_face_field *small, int side, const tint *t,
                               const zn_face_mask *mask)
{
    const int scale = l->side / side;
    const zn_rect p = l->part;
    zn_face_field *field = zn_field_new(l->side, l->to, l->from, l->from, 0);

    if (field && mask->face)
        suppress_all(field, l->side, t, mask);
    for (int i = 0; field && i < l->side * l->side; i++) {
        const int x = i % l->side, y = i / l->side;
        zn_face_field f;

        zn_sample_field(f, small, side, (x + 0.5) / l->side, (y + 0.5) / l->side);
        field[i][6] = fminf(fmaxf(f[6], -1), 0);
        field[i][7] = x / scale < p.x || x / scale >= p.x + p.w || y / scale < p.y || y / scale >= p.y + p.h;
    }
    return field;
}

bool zn_large_paste(zn_array *out, zn_face_field *small, const zn_face_work *k, const zn_patch *patch,
                    const zn_face_large *l, const zn_face_mask *mask)
{
    const float cut = (1 - (float)k->plan->how.detail) / (1 - usual_keep);
    const zn_face_field *seen = (const zn_face_field *)small;
    zn_texture texture = { 0 };
    zn_face_field *field = NULL;
    tint t = { { 0, 0, 0 }, 1 };
    bool ok = small && (!mask->face || tint_of(&t, seen, k->side, mask->face));

    if (ok && mask->face)
        suppress_all(small, k->side, &t, mask);
    if (ok && cut_gone(small, k->side, cut))
        field = enlarged(l, seen, k->side, &t, mask);
    ok = field &&
        zn_texture_make(&texture, (const zn_face_field *)field, l->side, &k->square, patch, mask->face, k->side);
    if (ok)
        paste_all(&(paste){ .out = out,
                            .field = (const zn_face_field *)field,
                            .side = l->side,
                            .square = &k->square,
                            .patch = patch,
                            .texture = &texture },
                  k);
    zn_texture_clear(&texture);
    free(field);
    free(small);
    return ok;
}
