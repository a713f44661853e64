/* SPDX-License-Identifier: MIT */
/* status.h - errors: a status to branch on and a message for users. */
#ifndef ZN_STATUS_H
#define ZN_STATUS_H

#include <stdarg.h>

#include "../zenith.h"

#if defined(__GNUC__)
#define ZN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ZN_FORMAT_ARG(arg) __attribute__((format_arg(arg)))
#else
#define ZN_PRINTF(fmt, args)
#define ZN_FORMAT_ARG(arg)
#endif

/* name, an array, = the text that the variadic arguments after fmt make; needs <stdarg.h> and <stdio.h>. */
#define ZN_FORMAT(name, fmt)                                                                                           \
    do {                                                                                                               \
        va_list ap_;                                                                                                   \
        va_start(ap_, fmt);                                                                                            \
        vsnprintf(name, sizeof name, fmt, ap_);                                                                        \
        va_end(ap_);                                                                                                   \
    } while (0)

/* Writes the message, translated, into err (which may be NULL) and returns the status: `return zn_fail(...);` */
zn_status zn_fail(zn_error *err, zn_status status, const char *fmt, ...) ZN_PRINTF(3, 4);
zn_status zn_vfail(zn_error *err, zn_status status, const char *fmt, va_list ap) ZN_PRINTF(3, 0);

/* A phrase that becomes a part of a message, translated; see zn_set_translator(). */
const char *zn_tr(const char *english) ZN_FORMAT_ARG(1);

/* A phrase in a table that is translated later, by zn_tr(): po/ finds it by this. */
#define ZN_TR(english) english

/* Cuts the text to at most max bytes, not inside a UTF-8 character. */
void zn_cut(char *text, size_t max);

/* *out = a * b; false if it does not fit.  Every size that comes from a file goes through this. */
static inline bool zn_mul_size(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
