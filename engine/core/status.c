/* SPDX-License-Identifier: MIT */
/* status.c - see status.h; and the version of the library. */
#include "status.h"

#include <stdio.h>
#include <string.h>

void zn_cut(char *text, size_t max)
{
    if (strlen(text) <= max)
        return;
    while (max && ((unsigned char)text[max] & 0xc0) == 0x80) /* the first byte to be cut is a continuation byte */
        max--;
    text[max] = 0;
}

/* ---- translations ---------------------------------------------------------------------------------------------------- */

enum { MAX_CONVERSIONS = 16 };

/* A conversion of a format, without its position: "%s", "%.40s", "%zu". */
typedef struct conversion {
    const char *begin;
    size_t len;
} conversion;

/* The conversions of the format by the arguments that they take: how many, or -1 if they are too many, some are named by
 * position and some not, or a position has none. */
static int conversions(conversion list[MAX_CONVERSIONS], const char *fmt)
{
    int n = 0, n_placed = 0, n_plain = 0;

    memset(list, 0, MAX_CONVERSIONS * sizeof *list);
    for (const char *p = fmt; *p; p++) {
        int at = 0;

        if (*p != '%')
            continue;
        if (*++p == '%')
            continue;
        const size_t digits = strspn(p, "0123456789");

        if (digits && digits < 3 && p[digits] == '$') {
            at = p[0] - '0';
            if (digits == 2)
                at = at * 10 + p[1] - '0';
            p += digits + 1;
            n_placed++;
        } else {
            at = ++n_plain;
        }
        const size_t len = strcspn(p, "diouxXeEfFgGaAcspn%");

        if (!p[len] || at < 1 || at > MAX_CONVERSIONS || (memchr(p, '*', len) && n_placed))
            return -1;
        list[at - 1] = (conversion){ p, len + 1 };
        n = at > n ? at : n;
        p += len;
    }
    for (int i = 0; i < n; i++)
        if (!list[i].begin)
            return -1;
    return n_placed && n_plain ? -1 : n;
}

static bool same_conversions(const char *a, const char *b)
{
    conversion of_a[MAX_CONVERSIONS], of_b[MAX_CONVERSIONS];
    int n = conversions(of_a, a);

    if (n < 0 || conversions(of_b, b) != n)
        return false;
    for (int i = 0; i < n; i++)
        if (of_a[i].len != of_b[i].len || memcmp(of_a[i].begin, of_b[i].begin, of_a[i].len) != 0)
            return false;
    return true;
}

static const char *(*translator)(const char *english);

void zn_set_translator(const char *(*translate)(const char *english))
{
    translator = translate;
}

const char *zn_tr(const char *english)
{
    const char *text = translator && *english ? translator(english) : NULL;

    return text && same_conversions(english, text) ? text : english;
}

/* ---- messages -------------------------------------------------------------------------------------------------------- */

zn_status zn_fail(zn_error *err, zn_status status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zn_vfail(err, status, fmt, ap);
    va_end(ap);
    return status;
}

zn_status zn_vfail(zn_error *err, zn_status status, const char *fmt, va_list ap)
{
    if (err) {
        char
            whole[sizeof err->text + 4]; /* one character more than fits, so that zn_cut sees a text that is too long */

        vsnprintf(whole, sizeof whole, zn_tr(fmt), ap);
        zn_cut(whole, sizeof err->text - 1);
        strcpy(err->text, whole);
        for (char *p = err->text; *p; p++) /* names out of files may hold anything */
            if ((unsigned char)*p < ' ')
                *p = '?';
    }
    return status;
}

#ifndef ZN_VERSION
#define ZN_VERSION "0"
#endif

const char *zn_version(void)
{
    return ZN_VERSION;
}
