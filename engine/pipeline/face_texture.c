/* SPDX-License-Identifier: MIT */
/* face_texture.c - fine structure for places of a large face where the picture's own no longer fits: pieces of it from elsewhere in
 * the face.
 *
 *   +---+---+---+      A piece begins at each corner of a lattice and covers four of its cells, so that four pieces meet in
 *   |   |   |   |      every cell.  Which pieces, and how they are mirrored, depends on the place alone. */
#include "face.h"

#include "../core/ints.h"
#include "../core/random.h"

#include <math.h>
#include <stdlib.h>

enum {
    PIECES = 12,
    SMALLEST = 8,
    LARGEST = 64,
    MIRRORED = 8 /* ways */,
    APART = 2 /* pixels that are looked at first */
};

static const double share = 1.0 / 20;             /* side of a piece, of the frame */
static const double border = 0.12;                /* of the frame, has none */
static const float stays = 0.05f, is_face = 0.9f; /* the most that may be gone there; the least that may be face */
static const double calmest = 0.3, busiest = 0.6; /* share of the pieces, in the order of their energy */

typedef struct place {
    int x, y; /* of its upper left pixel in the patch */
    double energy;
} place;

typedef struct search {
    const zn_face_field *field;
    int side;
    const zn_square *square;
    const zn_patch *patch;
    const float *face;
    int face_side;
} search;

/* A pixel of the patch in the frame, 0..1. */
static void to_frame(double *u, double *v, const search *s, int x, int y)
{
    const zn_square *q = s->square;
    const double a = s->patch->rect.x + x + 0.5 - q->x, b = s->patch->rect.y + y + 0.5 - q->y;

    *u = (q->cos * a + q->sin * b) / q->size + 0.5;
    *v = (q->cos * b - q->sin * a) / q->size + 0.5;
}

/* picture - up(seen) at a pixel of the patch; the lightness of the second. */
static float fine_at(float dst[3], const search *s, int x, int y)
{
    const float *pixel = s->patch->pixels + ((size_t)y * (size_t)s->patch->rect.w + (size_t)x) * 3;
    zn_face_field f;
    double u, v;

    to_frame(&u, &v, s, x, y);
    zn_sample_field(f, s->field, s->side, u, v);
    for (int c = 0; c < 3; c++)
        dst[c] = pixel[c] - f[3 + c];
    return zn_lightness(f + 3);
}

/* Whether a pixel is one of the face that stays. */
static bool is_usual(const search *s, int x, int y)
{
    double u, v;
    int i, j;

    to_frame(&u, &v, s, x, y);
    if (u < border || u > 1 - border || v < border || v > 1 - border)
        return false;
    i = (int)(u * s->side);
    j = (int)(v * s->side);
    return -s->field[j * s->side + i][6] < stays && s->field[j * s->side + i][7] == 0 &&
        (!s->face || zn_map_between(s->face, s->face_side, s->side, i, j) > is_face);
}

/* Whether all of a piece is; its energy. */
static bool measure(place *p, const search *s, int piece)
{
    double sum = 0;
    int n = 0;

    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            if (!is_usual(s, p->x + i * (piece - 1) / 2, p->y + j * (piece - 1) / 2))
                return false;
    for (int j = 0; j < piece; j += APART)
        for (int i = 0; i < piece; i += APART, n++) {
            float fine[3];

            fine_at(fine, s, p->x + i, p->y + j);
            sum += (double)(zn_lightness(fine) * zn_lightness(fine));
        }
    p->energy = sum / n;
    return true;
}

static int by_energy(const void *a, const void *b)
{
    const place *x = a, *y = b;

    return (x->energy > y->energy) - (x->energy < y->energy);
}

/* The fine structure of a piece, less its mean. */
static void take(zn_texture *t, int k, const search *s, const place *at)
{
    const size_t n = (size_t)t->side * (size_t)t->side;
    float *piece = t->piece + (size_t)k * n * 3, light = 0;
    double sum[3] = { 0, 0, 0 };

    for (size_t i = 0; i < n; i++) {
        light += fine_at(piece + i * 3, s, at->x + (int)i % t->side, at->y + (int)i / t->side);
        for (int c = 0; c < 3; c++)
            sum[c] += (double)piece[i * 3 + (size_t)c];
    }
    for (size_t i = 0; i < n * 3; i++)
        piece[i] -= (float)(sum[i % 3] / (double)n);
    t->light[k] = light / (float)n;
}

bool zn_texture_make(zn_texture *t, const zn_face_field *field, int side, const zn_square *square,
                     const zn_patch *patch, const float *face, int face_side)
{
    const search s = { field, side, square, patch, face, face_side };
    const int piece = (int)fmin(fmax(square->size * share, SMALLEST), LARGEST) / 2 * 2;
    const int across = patch->rect.w / piece, down = patch->rect.h / piece;
    place *places = malloc(((size_t)across * (size_t)down + 1) * sizeof *places);
    int n = 0, first, last, count;

    *t = (zn_texture){ .side = piece };
    if (!places)
        return false;
    for (int i = 0; i < across * down; i++) {
        places[n] = (place){ i % across * piece, i / across * piece, 0 };
        n += measure(&places[n], &s, piece);
    }
    qsort(places, (size_t)n, sizeof *places, by_energy);
    first = (int)(calmest * n);
    last = (int)ceil(busiest * n);
    t->piece = malloc((size_t)PIECES * (size_t)piece * (size_t)piece * 3 * sizeof *t->piece);
    t->light = malloc(PIECES * sizeof *t->light);
    count = zn_imin(last - first, PIECES);
    for (int k = 0; t->piece && t->light && k < count; k++)
        take(t, t->n++, &s, &places[first + (last - first) * k / count]);
    free(places);
    return t->piece && t->light;
}

void zn_texture_clear(zn_texture *t)
{
    free(t->piece);
    free(t->light);
    *t = (zn_texture){ 0 };
}

/* A pixel of the piece at a corner of the lattice. */
static const float *look(float *light, const zn_texture *t, int a, int b, int x, int y)
{
    const int which =
        (int)(zn_uniform((uint64_t)t->side, (uint64_t)(int64_t)a, (uint64_t)(int64_t)b) * t->n * MIRRORED);
    const int k = which / MIRRORED, last = t->side - 1;
    const int i = which & 1 ? last - x : x, j = which & 2 ? last - y : y;
    const int at = which & 4 ? i * t->side + j : j * t->side + i;

    *light = t->light[k];
    return t->piece + ((size_t)k * (size_t)t->side * (size_t)t->side + (size_t)at) * 3;
}

void zn_texture_at(float dst[3], const zn_texture *t, int x, int y, float light)
{
    const int half = t->side / 2, a = x / half, b = y / half;
    const float u = ((float)(x % half) + 0.5f) / (float)half, v = ((float)(y % half) + 0.5f) / (float)half;
    float sum[3] = { 0, 0, 0 }, squares = 0;

    for (int k = 0; t->n && k < 4; k++) { /* those that begin here, and one to the left, above, or both */
        const int left = k & 1, above = k >> 1;
        const float weight = (left ? 1 - u : u) * (above ? 1 - v : v);
        float there;
        const float *p = look(&there, t, a - left, b - above, x % half + left * half, y % half + above * half);
        const float less = fminf(fmaxf(light, 0) / fmaxf(there, 1e-3f), 1);

        for (int c = 0; c < 3; c++)
            sum[c] += weight * less * p[c];
        squares += weight * weight;
    }
    for (int c = 0; c < 3; c++)
        dst[c] = squares > 0 ? sum[c] / sqrtf(squares) : 0;
}
