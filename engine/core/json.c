/* SPDX-License-Identifier: MIT */
/* json.c - a strict JSON reader (RFC 8259); see json.h. */
#include "json.h"
#include "status.h"

#include <string.h>

enum { MAX_DEPTH = 64 }; /* of values that are skipped */

zn_json zn_json_begin(const void *text, size_t size, char *pool)
{
    const unsigned char *p = text;

    return (zn_json){ .start = p, .p = p, .end = p + size, .pool = pool };
}

void zn_json_fail(zn_json *j, const char *wrong)
{
    if (!j->wrong)
        j->wrong = wrong;
}

size_t zn_json_at(const zn_json *j)
{
    return (size_t)(j->p - j->start);
}

/* The next byte that is not white space, not consumed; 0 at the end or after an error. */
static int peek(zn_json *j)
{
    if (j->wrong)
        return 0;
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
        j->p++;
    return j->p < j->end ? *j->p : 0;
}

static bool accept(zn_json *j, int c)
{
    if (!c || peek(j) != c)
        return false;
    j->p++;
    return true;
}

void zn_json_enter(zn_json *j, char open)
{
    if (!accept(j, open))
        zn_json_fail(j, open == '{' ? ZN_TR("'{' is missing") : ZN_TR("'[' is missing"));
}

bool zn_json_more(zn_json *j, char close, size_t n)
{
    if (j->wrong || accept(j, close))
        return false;
    if (n && !accept(j, ','))
        zn_json_fail(j, "',' is missing");
    return !j->wrong;
}

/* ---- strings ---------------------------------------------------------------------------------- */

/* The length of the UTF-8 sequence at p, or 0 if it is not well-formed. */
static size_t utf8_len(const unsigned char *p, const unsigned char *end)
{
    unsigned c = p[0], low = 0x80, high = 0xbf; /* what the second byte may be */
    size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

    if (len < 2 || (size_t)(end - p) < len)
        return len == 1;
    if (c == 0xe0)
        low = 0xa0; /* shorter forms exist */
    if (c == 0xed)
        high = 0x9f; /* surrogates */
    if (c == 0xf0)
        low = 0x90;
    if (c == 0xf4)
        high = 0x8f; /* beyond U+10FFFF */
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool zn_utf8_ok(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s, *end = p + len;

    while (p < end) {
        size_t n = *p ? utf8_len(p, end) : 0;

        if (!n)
            return false;
        p += n;
    }
    return true;
}

/* Four hexadecimal digits. */
static uint32_t hex4(zn_json *j)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++) {
        int c = j->p < j->end ? *j->p : 0;
        int digit = c >= '0' && c <= '9' ? c - '0'
            : c >= 'a' && c <= 'f'       ? c - 'a' + 10
            : c >= 'A' && c <= 'F'       ? c - 'A' + 10
                                         : -1;
        if (digit < 0) {
            zn_json_fail(j, "a \\u escape is not four hexadecimal digits");
            return 0;
        }
        v = v << 4 | (uint32_t)digit;
        j->p++;
    }
    return v;
}

/* After "\u": one character, of two escapes if it is a surrogate pair, as UTF-8. */
static char *unicode_escape(zn_json *j, char *out)
{
    uint32_t c = hex4(j);

    if (c >= 0xd800 && c < 0xdc00 && j->end - j->p > 2 && j->p[0] == '\\' && j->p[1] == 'u') {
        j->p += 2;
        uint32_t low = hex4(j);

        if (low < 0xdc00 || low > 0xdfff)
            zn_json_fail(j, "half of a surrogate pair is missing");
        c = 0x10000 + ((c - 0xd800) << 10) + (low & 0x3ff);
    } else if (c >= 0xd800 && c < 0xe000) {
        zn_json_fail(j, "half of a surrogate pair is missing");
    }
    if (!c)
        zn_json_fail(j, "a string holds a zero byte");
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* After "\". */
static char *escape(zn_json *j, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = j->p < j->end ? *j->p++ : 0;
    const char *at = c ? strchr(from, c) : NULL;

    if (c == 'u')
        return unicode_escape(j, out);
    if (!at) {
        zn_json_fail(j, "an escape is unknown");
        return out;
    }
    *out++ = to[at - from];
    return out;
}

/* No escape is shorter than what it stands for, and the quotes are two bytes to the terminator's
 * one: decoded strings always fit in a pool of the text's size. */
const char *zn_json_string(zn_json *j)
{
    char *begin = j->pool, *out = begin;

    if (!accept(j, '"')) {
        zn_json_fail(j, "a string is missing");
        return "";
    }
    for (;;) {
        int c = j->p < j->end ? *j->p : 0;

        if (j->wrong)
            return "";
        if (c == '"')
            break;
        if (c < ' ') {
            zn_json_fail(j, j->p < j->end ? ZN_TR("a string holds a control character") : ZN_TR("a string has no end"));
        } else if (c == '\\') {
            j->p++;
            out = escape(j, out);
        } else {
            size_t len = utf8_len(j->p, j->end);

            if (!len)
                zn_json_fail(j, "a string is not UTF-8");
            memcpy(out, j->p, len);
            out += len;
            j->p += len;
        }
    }
    j->p++;
    *out++ = 0;
    j->pool = out;
    return begin;
}

const char *zn_json_key(zn_json *j)
{
    const char *key = zn_json_string(j);

    if (!accept(j, ':'))
        zn_json_fail(j, "':' is missing");
    return key;
}

/* ---- other values ----------------------------------------------------------------------------- */

static bool digits(zn_json *j)
{
    const unsigned char *begin = j->p;

    while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
        j->p++;
    return j->p > begin;
}

static bool at(const zn_json *j, const char *any)
{
    return j->p < j->end && *j->p && strchr(any, *j->p);
}

int64_t zn_json_int(zn_json *j)
{
    bool negative = accept(j, '-');
    int64_t v = 0;

    if (j->wrong)
        return 0;
    const unsigned char *begin = j->p;

    if (!digits(j) || (*begin == '0' && j->p - begin > 1))
        zn_json_fail(j, "a whole number is missing");
    else if (at(j, ".eE"))
        zn_json_fail(j, "a number is not whole");
    for (const unsigned char *p = begin; p < j->p && !j->wrong; p++) /* downwards: INT64_MIN fits */
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v))
            zn_json_fail(j, "a number is too large");
    if (!negative && v == INT64_MIN)
        zn_json_fail(j, "a number is too large");
    return j->wrong ? 0 : negative ? v : -v;
}

/* Any number, by JSON's grammar; the value is not wanted. */
static void skip_number(zn_json *j)
{
    accept(j, '-');
    const unsigned char *begin = j->p;
    bool ok = digits(j) && (*begin != '0' || j->p - begin == 1);

    if (ok && at(j, ".")) {
        j->p++;
        ok = digits(j);
    }
    if (ok && at(j, "eE")) {
        j->p++;
        if (at(j, "+-"))
            j->p++;
        ok = digits(j);
    }
    if (!ok)
        zn_json_fail(j, "a value is missing");
}

bool zn_json_word(zn_json *j, const char *word)
{
    size_t len = strlen(word);

    if (!peek(j) || (size_t)(j->end - j->p) < len || memcmp(j->p, word, len) != 0)
        return false;
    j->p += len;
    return true;
}

bool zn_json_begins(zn_json *j, char c)
{
    return peek(j) == c;
}

static void skip_scalar(zn_json *j)
{
    if (peek(j) == '"')
        zn_json_string(j);
    else if (!zn_json_word(j, "true") && !zn_json_word(j, "false") && !zn_json_word(j, "null"))
        skip_number(j);
}

void zn_json_skip(zn_json *j)
{
    char close[MAX_DEPTH];
    size_t count[MAX_DEPTH];
    int depth = 0;

    do {
        int c = peek(j);

        if (c != '{' && c != '[') {
            skip_scalar(j);
        } else if (depth == MAX_DEPTH) {
            zn_json_fail(j, "values are nested too deep");
        } else {
            close[depth] = c == '{' ? '}' : ']';
            count[depth++] = 0;
            j->p++;
        }
        while (depth && !zn_json_more(j, close[depth - 1], count[depth - 1]++))
            depth--;
        if (depth && close[depth - 1] == '}')
            zn_json_key(j);
    } while (depth);
}

bool zn_json_end(zn_json *j)
{
    peek(j);
    if (j->p < j->end)
        zn_json_fail(j, "something follows the end");
    return !j->wrong;
}
