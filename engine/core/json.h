/* SPDX-License-Identifier: MIT */
/* json.h - a strict JSON reader; the caller states what it expects.
 *
 *     zn_json j = zn_json_begin(text, size, pool);
 *
 *     zn_json_enter(&j, '{');
 *     for (size_t n = 0; zn_json_more(&j, '}', n); n++) {
 *         const char *key = zn_json_key(&j);
 *         int64_t value = zn_json_int(&j);
 *         ...
 *     }
 *     if (!zn_json_end(&j))
 *         complain(j.wrong, zn_json_at(&j));
 *
 * The first error is kept; after it strings read "", numbers 0, and zn_json_more ends every loop, so
 * callers look once, at the end.  A string with a zero byte in it is refused: strings here are C's.
 * Nothing recurses. */
#ifndef ZN_JSON_H
#define ZN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zn_json {
    const unsigned char *start, *p, *end;
    char *pool;        /* where the next decoded string goes */
    const char *wrong; /* the first error, a phrase; NULL: none */
} zn_json;

/* pool: as many bytes as the text; strings point into it.  Both stay the caller's. */
zn_json zn_json_begin(const void *text, size_t size, char *pool);

void zn_json_enter(zn_json *j, char open);           /* '{' or '[' */
bool zn_json_more(zn_json *j, char close, size_t n); /* is there an n-th member? */
const char *zn_json_key(zn_json *j);                 /* with its colon */
const char *zn_json_string(zn_json *j);
int64_t zn_json_int(zn_json *j);                 /* a fraction, an exponent or an overflow is an error */
void zn_json_skip(zn_json *j);                   /* any value */
bool zn_json_word(zn_json *j, const char *word); /* is the next value this: true, false, null?  It is then consumed */
bool zn_json_begins(zn_json *j, char c);         /* does the next value begin so: '"', '[', '{'?  Nothing is consumed */
bool zn_json_end(zn_json *j);                    /* true: no error, and nothing but white space is left */

void zn_json_fail(zn_json *j, const char *wrong); /* for the caller's own rules */
size_t zn_json_at(const zn_json *j);              /* the byte where reading stopped */

/* Is this well-formed UTF-8 without a zero byte? */
bool zn_utf8_ok(const char *s, size_t len);

#endif
