/* SPDX-License-Identifier: MIT */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

zn_status zn_fail(zn_error *err, zn_status status, const char *fmt, ...)
{
    if (err) {
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        for (char *p = err->text; *p; p++) /* names out of files may hold anything */
            if ((unsigned char)*p < ' ')
                *p = '?';
    }
    return status;
}
