/* SPDX-License-Identifier: MIT */
/* status.h - how things fail: a status to branch on and a sentence for a person. */
#ifndef ZN_STATUS_H
#define ZN_STATUS_H

#include "../zenith.h"

#if defined(__GNUC__)
#define ZN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ZN_PRINTF(fmt, args)
#endif

/* name, an array, = the text that the variadic arguments after fmt make; needs <stdarg.h> and <stdio.h>. */
#define ZN_FORMAT(name, fmt)                                                                                           \
    do {                                                                                                               \
        va_list ap_;                                                                                                   \
        va_start(ap_, fmt);                                                                                            \
        vsnprintf(name, sizeof name, fmt, ap_);                                                                        \
        va_end(ap_);                                                                                                   \
    } while (0)

/* Writes the sentence into err (which may be NULL) and returns the status: `return zn_fail(...);` */
zn_status zn_fail(zn_error *err, zn_status status, const char *fmt, ...) ZN_PRINTF(3, 4);

/* Cuts the text to at most max bytes, not inside a UTF-8 character. */
void zn_cut(char *text, size_t max);

/* *out = a * b; false if it does not fit.  Every size that comes from a file goes through these. */
static inline bool zn_mul_size(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool zn_add_size(size_t *out, size_t a, size_t b)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
