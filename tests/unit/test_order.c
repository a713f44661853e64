/* SPDX-License-Identifier: MIT */
/* test_order.c - zn_nth() beside sorting. */
#include "test.h"

#include "core/order.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST = 3000 };

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* All places of n values; kinds: of many sizes and both signs, few different ones, all equal. */
static bool as_sorted(size_t n, int kind)
{
    static float v[MOST], sorted[MOST];
    uint32_t state = (uint32_t)n;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        v[i] = kind == 2 ? 2.5f
            : kind       ? (float)(state >> 29) - 3
                         : ldexpf((float)(state >> 8) - 8388608, (int)(state % 60) - 40);
        sorted[i] = v[i];
    }
    if (n > 9 && !kind)
        v[3] = sorted[3] = INFINITY, v[9] = sorted[9] = -INFINITY;
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

int main(void)
{
    RUN(test_places);
    return test_end();
}
