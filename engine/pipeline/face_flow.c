/* SPDX-License-Identifier: MIT */
/* face_flow.c - how the shapes of one face have moved in another: a smooth field, found from coarse to fine.
 *
 *   to(x) = from(x + flow(x))
 *
 * At each size of a pyramid, some times: the equations of this, linear around the flow so far, where both hardly fit with less weight; as
 * means over a neighbourhood (Lucas and Kanade), and stiff where they say nothing (Horn and Schunck). */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVELS = 8,
    LEAST = 16, /* side of the smallest */
    TIMES = 4,
    ITERATIONS = 30, /* even */
    USUAL = 128,     /* side of a face; distances are for it */
    AROUND = 7,      /* radius of a mean, taken twice: what is coarser is shading */
    SUMS = 5
};

static const float stiff = 4 * 0.04f * 0.04f, misfit = 0.02f; /* of values of 0..1 */
static const float far = 8;                                   /* pixels */

typedef struct level {
    int side;
    float *from, *to; /* [side][side][3], without what is coarse */
} level;

typedef struct rooms {
    float *flow, *next; /* [side][side][2] */
    float *sums, *room; /* [side][side][SUMS] */
} rooms;

/* Linear; beyond the edges it goes on.  No number of x, y makes it read elsewhere. */
static void sample(float dst[3], const float *src, int side, float x, float y)
{
    const float cx = fminf(fmaxf(x, 0), (float)(side - 1)), cy = fminf(fmaxf(y, 0), (float)(side - 1));
    const int x0 = (int)cx, y0 = (int)cy, right = x0 + 1 < side ? 3 : 0, below = y0 + 1 < side ? side * 3 : 0;
    const float *p = src + (y0 * side + x0) * 3;
    const float u = cx - (float)x0, v = cy - (float)y0;

    for (int c = 0; c < 3; c++)
        dst[c] =
            (1 - v) * ((1 - u) * p[c] + u * p[right + c]) + v * ((1 - u) * p[below + c] + u * p[below + right + c]);
}

/* The normal equations at a pixel: xx, xy, yy, and the right side for x and y. */
static void equations(float sums[SUMS], const level *l, const float *flow, int i)
{
    const float x = (float)(i % l->side) + flow[0], y = (float)(i / l->side) + flow[1];
    float at[3], left[3], right[3], above[3], below[3], squares = 0, weight;

    sample(at, l->from, l->side, x, y);
    sample(left, l->from, l->side, x - 0.5f, y);
    sample(right, l->from, l->side, x + 0.5f, y);
    sample(above, l->from, l->side, x, y - 0.5f);
    sample(below, l->from, l->side, x, y + 0.5f);
    memset(sums, 0, SUMS * sizeof *sums);
    for (int c = 0; c < 3; c++) {
        const float gx = right[c] - left[c], gy = below[c] - above[c], lacks = l->to[i * 3 + c] - at[c];

        squares += lacks * lacks;
        sums[0] += gx * gx;
        sums[1] += gx * gy;
        sums[2] += gy * gy;
        sums[3] += gx * lacks;
        sums[4] += gy * lacks;
    }
    weight = misfit / sqrtf(squares + misfit * misfit);
    for (int k = 0; k < SUMS; k++)
        sums[k] *= weight;
}

/* Of the equations with the stiffness: their inverse, and the flow without any neighbours; in the place of the sums. */
static void invert(float s[SUMS], const float *flow)
{
    const float xx = s[0] + stiff, yy = s[2] + stiff, part = 1 / (xx * yy - s[1] * s[1]);
    const float x = s[3] + s[0] * flow[0] + s[1] * flow[1], y = s[4] + s[1] * flow[0] + s[2] * flow[1];
    const float inverse[SUMS] = { part * yy, -part * s[1], part * xx, part * (yy * x - s[1] * y),
                                  part * (xx * y - s[1] * x) };

    memcpy(s, inverse, sizeof inverse);
}

/* next: the flow that is between the equations and the mean of its neighbours. */
static void relax(float *next, const float *flow, const float *sums, int side)
{
    for (int y = 0; y < side; y++) {
        const float *above = flow + zn_imax(y - 1, 0) * side * 2, *below = flow + zn_imin(y + 1, side - 1) * side * 2;
        const float *row = flow + y * side * 2;

        for (int x = 0; x < side; x++) {
            const int left = zn_imax(x - 1, 0) * 2, right = zn_imin(x + 1, side - 1) * 2;
            const float *s = sums + (y * side + x) * SUMS;
            const float a = stiff / 4 * (above[x * 2] + below[x * 2] + row[left] + row[right]);
            const float b = stiff / 4 * (above[x * 2 + 1] + below[x * 2 + 1] + row[left + 1] + row[right + 1]);

            next[(y * side + x) * 2] = s[3] + s[0] * a + s[1] * b;
            next[(y * side + x) * 2 + 1] = s[4] + s[1] * a + s[2] * b;
        }
    }
}

/* Not further than `most`. */
static void bound(float *flow, int n, float most)
{
    for (int i = 0; i < n; i++) {
        const float size = sqrtf(flow[i * 2] * flow[i * 2] + flow[i * 2 + 1] * flow[i * 2 + 1]);
        const float part = size <= most ? 1 : size < INFINITY ? most / size : 0;

        for (int k = 0; k < 2; k++)
            flow[i * 2 + k] = part > 0 ? flow[i * 2 + k] * part : 0;
    }
}

static void improve(const level *l, const rooms *r, float most)
{
    const int n = l->side * l->side;

    for (int i = 0; i < n; i++)
        equations(r->sums + i * SUMS, l, r->flow + i * 2, i);
    zn_mean_twice(r->sums, r->room, r->sums, l->side, SUMS, 1, NULL);
    for (int i = 0; i < n; i++)
        invert(r->sums + i * SUMS, r->flow + i * 2);
    for (int k = 0; k < ITERATIONS; k++)
        relax(k % 2 ? r->flow : r->next, k % 2 ? r->next : r->flow, r->sums, l->side);
    zn_mean_twice(r->flow, r->room, r->flow, l->side, 2, 1, NULL);
    bound(r->flow, n, most);
}

/* The flow of a level from that of one half as large. */
static void refine(const rooms *r, int side)
{
    const int half = side / 2;

    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < half * half; i++)
            r->room[i] = r->flow[i * 2 + k];
        for (int i = 0; i < side * side; i++)
            r->next[i * 2 + k] = 2 * zn_map_between(r->room, half, side, i % side, i / side);
    }
    memcpy(r->flow, r->next, (size_t)side * (size_t)side * 2 * sizeof *r->flow);
}

/* dst [side / 2][side / 2][3] */
static void halve(float *dst, const float *src, int side, const rooms *r)
{
    const int half = side / 2;

    zn_mean_twice(r->sums, r->room, src, side, 3, 1, NULL);
    for (int i = 0; i < half * half; i++)
        for (int c = 0; c < 3; c++) {
            const float *p = r->sums + (i / half * 2 * side + i % half * 2) * 3 + c;

            dst[i * 3 + c] = (p[0] + p[3] + p[side * 3] + p[side * 3 + 3]) / 4;
        }
}

/* dst: src without what is coarse. */
static void structure(float *dst, const float *src, int side, const rooms *r)
{
    zn_mean_twice(dst, r->room, src, side, 3, zn_imax(AROUND * side / USUAL, 1), NULL);
    for (int i = 0; i < side * side * 3; i++)
        dst[i] = src[i] - dst[i];
}

bool zn_face_flow(float *flow, const float *from, const float *to, int side)
{
    const size_t n = (size_t)side * (size_t)side;
    float *memory = malloc(n * (6 + 3 + 2 + 2 * SUMS) * sizeof *memory), *free_place = memory;
    level l[LEVELS] = { { .side = side } };
    rooms r;
    int last = 0;

    if (!memory)
        return false;
    r.flow = flow;
    r.next = memory + n * 9;
    r.sums = r.next + n * 2;
    r.room = r.sums + n * SUMS;
    for (int k = 0; k == 0 || (k < LEVELS && l[k - 1].side % 2 == 0 && l[k - 1].side / 2 >= LEAST); k++) {
        l[k].side = k ? l[k - 1].side / 2 : side;
        l[k].from = free_place;
        l[k].to = free_place + l[k].side * l[k].side * 3;
        free_place = l[k].to + l[k].side * l[k].side * 3;
        if (k) {
            halve(l[k].from, l[k - 1].from, l[k - 1].side, &r);
            halve(l[k].to, l[k - 1].to, l[k - 1].side, &r);
        } else {
            structure(l[k].from, from, side, &r);
            structure(l[k].to, to, side, &r);
        }
        last = k;
    }
    memset(flow, 0, n * 2 * sizeof *flow);
    for (int k = last; k >= 0; k--) {
        if (k < last)
            refine(&r, l[k].side);
        for (int t = 0; t < TIMES; t++)
            improve(&l[k], &r, far * (float)l[k].side / USUAL);
    }
    free(memory);
    return true;
}
