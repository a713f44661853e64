/* SPDX-License-Identifier: MIT */
/* status.c - see status.h; and the version of the library. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void zn_cut(char *text, size_t max)
{
    if (strlen(text) <= max)
        return;
    while (max && ((unsigned char)text[max] & 0xc0) == 0x80) /* the first byte that goes continues a character */
        max--;
    text[max] = 0;
}

zn_status zn_fail(zn_error *err, zn_status status, const char *fmt, ...)
{
    if (err) {
        char whole[sizeof err->text + 4]; /* a character more than fits: the cut is seen */
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(whole, sizeof whole, fmt, ap);
        va_end(ap);
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
