/* SPDX-License-Identifier: MIT */
/* face_blend.c - from a change at the model's size to one at the picture's: masked, bicubic, feathered, with or without the structure
 * that the model cannot see. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 16 /* rows that a thread takes */, RADIUS = 2 };

static const double feather = 0.12;   /* of the frame's side */
static const double colourful = 0.06; /* the mean range of the channels in a face with usual colours is larger */
static const float strong = 0.1f;     /* a change of this size replaces all fine structure at detail 0 */

typedef struct paste {
    zn_array *out; /* its place is the patch's */
    const zn_face_field *field;
    int side;
    const zn_square *square;
    const zn_patch *patch;
} paste;

static double mask_at(double t)
{
    const double near = t < 1 - t ? t : 1 - t, d = fmin(fmax(near / feather, 0), 1);

    return d * d * (3 - 2 * d);
}

/* out += mask (up(added) + up(gain) (picture - up(seen))) */
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
            const float mask = (float)(mask_at(u) * mask_at(v));
            const size_t at = ((size_t)y * (size_t)rect.w + (size_t)x) * 3;
            zn_face_field f;

            if (mask <= 0)
                continue;
            zn_sample_cubic(f, (const float *)p->field, p->side, p->side, ZN_FACE_FIELDS, u * p->side - 0.5,
                            v * p->side - 0.5);
            for (size_t c = 0; c < 3; c++)
                p->out->data[at + c] += mask * (f[c] + f[6] * (p->patch->pixels[at + c] - f[3 + c]));
        }
}

bool zn_field_paste(zn_array *out, zn_face_field *field, const zn_face_work *k, const zn_patch *patch)
{
    paste p = { out, (const zn_face_field *)field, k->side, &k->square, patch };

    if (field)
        zn_session_loop(k->workers.session, k->workers.choice, paste_rows, &p, zn_ceil_div(patch->rect.h, BLOCK));
    free(field);
    return field != NULL;
}

zn_face_field *zn_field_new(const zn_face_work *k, const float *to, const float *from, const float *low, float gain)
{
    zn_face_field *field = calloc((size_t)k->side * (size_t)k->side, sizeof *field);

    for (size_t i = 0; field && i < k->len; i++) {
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

/* The median of channel c in the face; memory: [n]. */
static float cast_of(const zn_face_field *field, size_t n, const float *face, size_t c, float *memory)
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

bool zn_field_mask(zn_face_field *field, int side, const zn_face_mask *mask)
{
    const size_t n = (size_t)side * (size_t)side;
    float *memory = mask->face ? malloc(n * sizeof *memory) : NULL, cast[3], colours;

    if (!memory)
        return !mask->face;
    colours = colours_of((const zn_face_field *)field, n, mask->face);
    for (size_t c = 0; c < 3; c++)
        cast[c] = cast_of((const zn_face_field *)field, n, mask->face, c, memory);
    for (size_t i = 0; i < n; i++) {
        float *f = field[i], grey;

        for (size_t c = 0; c < 3; c++)
            f[c] -= cast[c];
        grey = 0.299f * f[0] + 0.587f * f[1] + 0.114f * f[2];
        for (size_t c = 0; c < 3; c++)
            f[c] = mask->change[i] * (grey + colours * (f[c] - grey));
    }
    free(memory);
    return true;
}

void zn_field_cut_fine(zn_face_field *field, int side, float cut)
{
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            float sum = 0, share;
            int n = 0;

            for (int j = zn_imax(y - RADIUS, 0); j <= zn_imin(y + RADIUS, side - 1); j++)
                for (int i = zn_imax(x - RADIUS, 0); i <= zn_imin(x + RADIUS, side - 1); i++, n++) {
                    const float *f = field[j * side + i];

                    sum += fmaxf(fabsf(f[0]), fmaxf(fabsf(f[1]), fabsf(f[2])));
                }
            share = sum / (float)n / strong;
            field[y * side + x][6] = -cut * fminf(share, 1);
        }
}
