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

static const char *(*translator)(const char *english);

void zn_set_translator(const char *(*translate)(const char *english))
{
    translator = translate;
}

const char *zn_tr(const char *english)
{
    const char *text = translator && *english ? translator(english) : NULL;

    return text && *text ? text : english;
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
