/* SPDX-License-Identifier: MIT */
/* number.c - numbers from and to text, exactly, without a locale.
 *
 * A number is an array of decimal digits, which is multiplied or divided by powers of two until its binary digits are an
 * integer (the "simple decimal conversion" that fast parsers fall back to).  Microseconds a number: this reads settings,
 * not tables. */
#include "../zenith_number.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    DIGITS = 800, /* kept; a double, or the middle between two, has at most 768 */
    SHIFT = 58,   /* bits at once: 10 << SHIFT fits 64 bits */
    MANTISSA = 53,
    LEAST = -1074, /* 2^LEAST is the smallest double */
};

typedef struct decimal { /* 0.d[0]d[1]... * 10^point; d[0] is not 0; n 0: zero */
    int n, point;
    bool more; /* digits other than 0 follow, which are not kept */
    unsigned char d[DIGITS];
} decimal;

/* The next digit; leading zeros move the point. */
static void push(decimal *a, unsigned digit)
{
    if (!a->n && !digit)
        a->point--;
    else if (a->n < DIGITS)
        a->d[a->n++] = (unsigned char)digit;
    else
        a->more = a->more || digit;
}

static void trim(decimal *a)
{
    while (a->n && !a->d[a->n - 1])
        a->n--;
}

/* a *= 2^bits, 0 <= bits <= SHIFT. */
static void multiply(decimal *a, int bits)
{
    unsigned char product[DIGITS + 20];
    decimal b = { .point = a->point - a->n, .more = a->more };
    uint64_t carry = 0;
    int at = sizeof product;

    for (int i = a->n; i-- > 0; carry /= 10) {
        carry += (uint64_t)a->d[i] << bits;
        product[--at] = carry % 10;
    }
    for (; carry; carry /= 10)
        product[--at] = carry % 10;
    b.point += (int)sizeof product - at;
    for (; at < (int)sizeof product; at++)
        push(&b, product[at]);
    trim(&b);
    *a = b;
}

/* a /= 2^bits, 0 <= bits <= SHIFT. */
static void divide(decimal *a, int bits)
{
    decimal b = { .point = a->point, .more = a->more };
    uint64_t rest = 0;

    for (int i = 0; i < a->n || rest; i++) {
        rest = rest * 10 + (i < a->n ? a->d[i] : 0);
        push(&b, (unsigned)(rest >> bits));
        rest &= ((uint64_t)1 << bits) - 1;
    }
    trim(&b);
    *a = b;
}

/* Whether the first n digits become one more when the others are rounded away: to the nearest, a half to the even one. */
static bool rounds_up(const decimal *a, int n)
{
    if (n < 0 || n >= a->n)
        return false;
    if (a->d[n] == 5 && n + 1 == a->n && !a->more)
        return n && a->d[n - 1] % 2;
    return a->d[n] >= 5;
}

static uint64_t nearest_integer(const decimal *a)
{
    uint64_t v = 0;

    for (int i = 0; i < a->point; i++)
        v = v * 10 + (i < a->n ? a->d[i] : 0);
    return v + rounds_up(a, a->point);
}

/* The nearest double; infinity beyond the largest. */
static double to_double(decimal a)
{
    int bits, e = 0; /* the number is a * 2^e */

    if (!a.n || a.point < -330)
        return 0;
    if (a.point > 310)
        return INFINITY;
    while (a.point > 0) { /* to less than 1: 8 < 10 */
        bits = a.point * 3 < SHIFT ? a.point * 3 : SHIFT;
        divide(&a, bits);
        e += bits;
    }
    while (a.point < 0 || a.d[0] < 5) { /* to at least 1/2 */
        bits = !a.point ? 1 : -a.point * 3 < SHIFT ? -a.point * 3 : SHIFT;
        multiply(&a, bits);
        e -= bits;
    }
    bits = e - LEAST < MANTISSA ? e - LEAST : MANTISSA;
    if (bits < 0)
        return 0;
    multiply(&a, bits);
    return ldexp((double)nearest_integer(&a), e - bits);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "e-12" at *text, if it is there. */
static int read_exponent(const char **text)
{
    const char *p = *text;
    int e = 0;
    bool negative;

    if (*p != 'e' && *p != 'E')
        return 0;
    p++;
    negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (!is_digit(*p))
        return 0;
    for (; is_digit(*p); p++)
        e = e < 100000000 ? e * 10 + (*p - '0') : e;
    *text = p;
    return negative ? -e : e;
}

bool zn_number_parse(double *value, const char *text, const char **end)
{
    const bool negative = *text == '-';
    decimal a = { .n = 0 };
    ptrdiff_t whole = 0, n = 0; /* digits before the point, and all */
    double v;

    text += *text == '-' || *text == '+';
    for (bool after = false; is_digit(*text) || (*text == '.' && !after); text++) {
        if (*text == '.') {
            after = true;
            continue;
        }
        push(&a, (unsigned)(*text - '0'));
        whole += !after;
        n++;
    }
    if (!n || n > 100000000) /* no point can be so far that the sum below overflows */
        return false;
    a.point += (int)whole + read_exponent(&text);
    trim(&a);
    v = to_double(a);
    if (isinf(v) || (!end && *text))
        return false;
    if (end)
        *end = text;
    *value = negative ? -v : v;
    return true;
}

bool zn_mebibytes_parse(double *mib, const char *text)
{
    const char *end;
    double value;

    if (!zn_number_parse(&value, text, &end))
        return false;
    if (*end == 'G' || *end == 'g')
        value *= 1024;
    end += *end == 'G' || *end == 'g' || *end == 'M' || *end == 'm';
    if (*end || !(value >= 0 && value <= 1e9))
        return false;
    *mib = value;
    return true;
}

/* The exact digits of a positive double. */
static decimal digits_of(double value)
{
    decimal a = { .n = 0 };
    int e;
    uint64_t m = (uint64_t)ldexp(frexp(value, &e), MANTISSA), scale = 10000000000000000; /* 10^16: 2^53 has 16 digits */

    e -= MANTISSA;
    for (a.point = 17; scale; scale /= 10)
        push(&a, (unsigned)(m / scale % 10));
    trim(&a);
    for (; e > 0; e -= e < SHIFT ? e : SHIFT)
        multiply(&a, e < SHIFT ? e : SHIFT);
    for (; e < 0; e += -e < SHIFT ? -e : SHIFT)
        divide(&a, -e < SHIFT ? -e : SHIFT);
    return a;
}

/* The first n digits, rounded. */
static decimal rounded(const decimal *a, int n)
{
    decimal b = { .n = n < a->n ? n : a->n, .point = a->point };
    int i = b.n;

    memcpy(b.d, a->d, (size_t)b.n);
    if (!rounds_up(a, n))
        return b;
    while (i > 0 && b.d[i - 1] == 9)
        i--;
    if (i)
        b.d[i - 1]++;
    else {
        b.d[i++] = 1;
        b.point++;
    }
    b.n = i;
    return b;
}

char *zn_number_print(char text[ZN_NUMBER_SIZE], double value)
{
    decimal exact, a;
    char *p = text;

    if (!isfinite(value) || value == 0) {
        strcpy(text, isnan(value) ? "nan" : value > 0 ? "inf" : value < 0 ? "-inf" : signbit(value) ? "-0" : "0");
        return text;
    }
    exact = a = digits_of(fabs(value));
    for (int n = 1; n <= 17; n++) {
        a = rounded(&exact, n);
        if (to_double(a) == fabs(value))
            break;
    }
    trim(&a);
    if (value < 0)
        *p++ = '-';
    if (a.point < -3 || a.point > 16) { /* 1.25e-07 */
        for (int i = 0; i < a.n; i++) {
            *p++ = (char)('0' + a.d[i]);
            if (!i && a.n > 1)
                *p++ = '.';
        }
        snprintf(p, (size_t)(text + ZN_NUMBER_SIZE - p), "e%+03d", a.point - 1);
        return text;
    }
    for (int i = a.point < 1 ? a.point - 1 : 0; i < a.n || i < a.point; i++) { /* 0.00125, 1.25, 125000 */
        if (i == a.point)
            *p++ = '.';
        *p++ = (char)('0' + (i >= 0 && i < a.n ? a.d[i] : 0));
    }
    *p = 0;
    return text;
}
