/* SPDX-License-Identifier: MIT */
/* split.c - words of a text; see zn_split in text.h.  Each alternative of the expression is one function that returns the end
 * of its match, or `at` where it has none. */
#include "text.h"

#include "unicode.h"

const char zn_split_rules[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                              "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static bool is_newline(uint32_t c)
{
    return c == '\r' || c == '\n';
}

/* In any case; U+017F is a long s. */
static uint32_t folded(uint32_t c)
{
    return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c == 0x17f ? 's' : c;
}

static size_t contraction(const uint32_t *x, size_t n, size_t at)
{
    static const char ending[][3] = { "s", "t", "re", "ve", "m", "ll", "d" };

    if (x[at] != '\'')
        return at;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        size_t len = 0;

        while (ending[i][len] && at + 1 + len < n && folded(x[at + 1 + len]) == (unsigned char)ending[i][len])
            len++;
        if (!ending[i][len])
            return at + 1 + len;
    }
    return at;
}

static size_t letters(const uint32_t *x, size_t n, size_t at)
{
    size_t p = at;

    if (!zn_is_letter(x[p]) && !is_newline(x[p]) && !zn_is_number(x[p]))
        p++;
    if (p == n || !zn_is_letter(x[p]))
        return at;
    while (p < n && zn_is_letter(x[p]))
        p++;
    return p;
}

static size_t symbols(const uint32_t *x, size_t n, size_t at)
{
    size_t p = at + (x[at] == ' '), begin = p;

    while (p < n && !zn_is_space(x[p]) && !zn_is_letter(x[p]) && !zn_is_number(x[p]))
        p++;
    if (p == begin)
        return at;
    while (p < n && is_newline(x[p]))
        p++;
    return p;
}

/* Of white space: up to the last line end; else all but the last character if a word follows, which takes it; else all. */
static size_t spaces(const uint32_t *x, size_t n, size_t at)
{
    size_t p = at, line = at;

    while (p < n && zn_is_space(x[p]))
        if (is_newline(x[p++]))
            line = p;
    return line > at ? line : p < n && p > at + 1 ? p - 1 : p;
}

size_t zn_split(const uint32_t *x, size_t n, size_t at)
{
    size_t end;

    if ((end = contraction(x, n, at)) > at || (end = letters(x, n, at)) > at)
        return end;
    if (zn_is_number(x[at]))
        return at + 1;
    return (end = symbols(x, n, at)) > at ? end : spaces(x, n, at);
}
