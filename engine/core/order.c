/* SPDX-License-Identifier: MIT */
/* order.c - see order.h. */
#include "order.h"

#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT, TOP = 2 * DIGIT }; /* bits of a digit; where the first of three begins */

/* In the order of the values. */
static uint32_t key_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float value_of(uint32_t key)
{
    const uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Digit by digit, the first one first: each counts the values that have the digits found so far. */
float zn_nth(const float *v, size_t n, size_t k)
{
    uint32_t found = 0, known = 0; /* the digits, and the bits that they are */

    for (int at = TOP; at >= 0; at -= DIGIT) {
        size_t count[DIGITS] = { 0 };
        uint32_t digit = 0;

        for (size_t i = 0; i < n; i++) {
            const uint32_t key = key_of(v[i]);

            if ((key & known) == found)
                count[key >> at & (DIGITS - 1)]++;
        }
        for (; k >= count[digit]; digit++)
            k -= count[digit];
        found |= digit << at;
        known |= (uint32_t)(DIGITS - 1) << at;
    }
    return value_of(found);
}

void zn_order(uint32_t *place, uint32_t *room, const float *v, size_t n)
{
    uint32_t *from = room, *to = place; /* three digits: the last one ends in place */

    for (size_t i = 0; i < n; i++)
        from[i] = (uint32_t)i;
    for (int at = 0; at <= TOP; at += DIGIT) {
        size_t first[DIGITS] = { 0 }, sum = 0;
        uint32_t *const were = from;

        for (size_t i = 0; i < n; i++)
            first[key_of(v[i]) >> at & (DIGITS - 1)]++;
        for (int digit = 0; digit < DIGITS; digit++) {
            const size_t count = first[digit];

            first[digit] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            to[first[key_of(v[from[i]]) >> at & (DIGITS - 1)]++] = from[i];
        from = to, to = were;
    }
}
