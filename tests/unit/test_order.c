/* SPDX-License-Identifier: MIT */
/* test_order.c - zn_nth() and zn_order() beside sorting. */
#include "test.h"

#include "core/order.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3000 };

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* n values; kinds: of many sizes and both signs, few different ones, all equal. */
static void draw(float *v, size_t n, int kind)
{
    uint32_t state = (uint32_t)n;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        v[i] = kind == 2 ? 2.5f
            : kind       ? (float)(state >> 29) - 3
                         : ldexpf((float)(state >> 8) - 8388608, (int)(state % 60) - 40);
    }
    if (n > 9 && !kind)
        v[3] = INFINITY, v[9] = -INFINITY;
}

/* All places. */
static bool as_sorted(size_t n, int kind)
{
    static float v[MOST], sorted[MOST];

    draw(v, n, kind);
    memcpy(sorted, v, sizeof v);
    qsort(sorted, n, sizeof *sorted, ascending);
    for (size_t k = 0; k<n; k += n> 100 ? 37 : 1)
        if (zn_nth(v, n, k) != sorted[k])
            return false;
    return true;
}

static void test_places(void)
{
    static const size_t sizes[] = { 1, 2, 7, 64, 1001, MOST };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 3; kind++)
            CHECK(as_sorted(sizes[i], kind), "%zu values, kind %d", sizes[i], kind);
}

/* Every place once, ascending values, and equal ones as they were. */
static bool in_order(const uint32_t *place, const float *v, size_t n)
{
    static bool seen[MOST];

    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < n; i++) {
        if (place[i] >= n || seen[place[i]])
            return false;
        seen[place[i]] = true;
        if (i && (v[place[i - 1]] > v[place[i]] || (v[place[i - 1]] == v[place[i]] && place[i - 1] > place[i])))
            return false;
    }
    return true;
}

static void test_order(void)
{
    static const size_t sizes[] = { 0, 1, 2, 7, 64, 1001, MOST };
    static uint32_t place[MOST + 1], room[MOST];
    static float v[MOST];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 3; kind++) {
            draw(v, sizes[i], kind);
            place[sizes[i]] = 12345;
            zn_order(place, room, v, sizes[i]);
            CHECK(in_order(place, v, sizes[i]), "%zu values, kind %d", sizes[i], kind);
            CHECK(place[sizes[i]] == 12345, "%zu values, kind %d: one place more", sizes[i], kind);
        }
}

static void test_what_is_no_number(void)
{
    const float v[] = { NAN, 0.0f, INFINITY, -0.0f, -NAN, -INFINITY, 1e-42f, -1e-42f };
    static const uint32_t right[] = { 4, 5, 7, 3, 1, 6, 2, 0 };
    uint32_t place[8], room[8];

    zn_order(place, room, v, 8);
    CHECK(!memcmp(place, right, sizeof right), "the first is %u, the last %u", place[0], place[7]);
}

int main(void)
{
    RUN(test_places);
    RUN(test_order);
    RUN(test_what_is_no_number);
    return test_end();
}
