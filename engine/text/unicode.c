/* SPDX-License-Identifier: MIT */
/* unicode.c - see unicode.h. */
#include "unicode.h"

#include <string.h>

typedef struct zn_range {
    uint32_t first, last, value;
} zn_range;

#include "unicode_tbl.h"

#define LEN(table) (sizeof(table) / sizeof *(table))

/* Hangul syllables: 19 leading consonants, 21 vowels, 27 trailing consonants or none. */
enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, N_L = 19, N_V = 21, N_T = 28 };
enum { N_S = N_L * N_V * N_T };

size_t zn_utf8_decode(uint32_t *out, const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + size;
    size_t n = 0;

    while (p < end) {
        const int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
        uint32_t c = more ? *p & (0x3fu >> more) : *p;

        p++;
        for (int i = 0; i < more; i++)
            c = c << 6 | (*p++ & 0x3f);
        out[n++] = c;
    }
    return n;
}

/* ---- classes ------------------------------------------------------------------------------------------- */

/* The range of a sorted table that holds c, or NULL. */
static const zn_range *find_range(const zn_range *table, size_t n, uint32_t c)
{
    size_t low = 0, high = n;

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (table[mid].last < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && table[low].first <= c ? &table[low] : NULL;
}

bool zn_is_letter(uint32_t c)
{
    return find_range(letters, LEN(letters), c);
}

bool zn_is_number(uint32_t c)
{
    return find_range(numbers, LEN(numbers), c);
}

bool zn_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
        c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static unsigned class_of(uint32_t c)
{
    const zn_range *r = c < 0x300 ? NULL : find_range(classes, LEN(classes), c);

    return r ? r->value : 0;
}

/* ---- normalisation form C ------------------------------------------------------------------------------ */

/* The whole canonical decomposition of c.  A step's second code point is final; its first may go on. */
static size_t decompose(uint32_t *out, uint32_t c)
{
    uint32_t tail[ZN_NFC_GROWTH];
    size_t n = 0, n_tail = 0;

    if (c - S_BASE < N_S) {
        const uint32_t s = c - S_BASE;

        out[n++] = L_BASE + s / (N_V * N_T);
        out[n++] = V_BASE + s % (N_V * N_T) / N_T;
        if (s % N_T)
            out[n++] = T_BASE + s % N_T;
        return n;
    }
    for (;;) {
        size_t low = 0, high = c < 0xc0 ? 0 : LEN(steps);

        while (low < high) {
            const size_t mid = (low + high) / 2;

            if (steps[mid][0] < c)
                low = mid + 1;
            else
                high = mid;
        }
        if (c < 0xc0 || low == LEN(steps) || steps[low][0] != c || n_tail == ZN_NFC_GROWTH - 1)
            break;
        if (steps[low][2])
            tail[n_tail++] = steps[low][2];
        c = steps[low][1];
    }
    out[n++] = c;
    while (n_tail)
        out[n++] = tail[--n_tail];
    return n;
}

/* Sorts a run of marks by combining class; those of one class keep their order. */
static void order_run(uint32_t *x, size_t n, uint32_t *scratch)
{
    size_t place[256] = { 0 }, at = 0;

    for (size_t i = 0; i < n; i++)
        place[class_of(x[i])]++;
    for (int c = 0; c < 256; c++) {
        const size_t of_class = place[c];

        place[c] = at;
        at += of_class;
    }
    for (size_t i = 0; i < n; i++)
        scratch[place[class_of(x[i])]++] = x[i];
    memcpy(x, scratch, n * sizeof *x);
}

static void order_marks(uint32_t *x, size_t n, uint32_t *scratch)
{
    for (size_t begin = 0, end; begin < n; begin = end + 1) {
        for (end = begin; end < n && class_of(x[end]); end++)
            ;
        if (end - begin > 1)
            order_run(x + begin, end - begin, scratch);
    }
}

/* The code point that a and b make, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    size_t low = 0, high = LEN(composed);

    if (a - L_BASE < N_L && b - V_BASE < N_V)
        return S_BASE + ((a - L_BASE) * N_V + (b - V_BASE)) * N_T;
    if (a - S_BASE < N_S && (a - S_BASE) % N_T == 0 && b - T_BASE - 1 < N_T - 1)
        return a + (b - T_BASE);
    while (low < high) {
        const size_t mid = (low + high) / 2;
        const uint32_t *s = steps[composed[mid]];

        if (s[1] < a || (s[1] == a && s[2] < b))
            low = mid + 1;
        else
            high = mid;
    }
    if (low == LEN(composed) || steps[composed[low]][1] != a || steps[composed[low]][2] != b)
        return 0;
    return steps[composed[low]][0];
}

/* A mark is blocked from its starter by a code point between them whose class is 0 or not lower. */
static size_t compose_all(uint32_t *x, size_t n)
{
    size_t starter = SIZE_MAX, len = 0;
    unsigned before = 0; /* the class of the last code point kept after the starter */

    for (size_t i = 0; i < n; i++) {
        const unsigned class = class_of(x[i]);
        const bool next = starter != SIZE_MAX && starter + 1 == len;
        const uint32_t both =
            starter != SIZE_MAX && (next || (before && before < class)) ? compose(x[starter], x[i]) : 0;

        if (both) {
            x[starter] = both;
            continue;
        }
        if (!class)
            starter = len;
        before = class;
        x[len++] = x[i];
    }
    return len;
}

size_t zn_nfc(uint32_t *x, size_t n, uint32_t *scratch)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++)
        len += decompose(scratch + len, x[i]);
    memcpy(x, scratch, len * sizeof *x);
    order_marks(x, len, scratch);
    return compose_all(x, len);
}
