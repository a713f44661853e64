/* SPDX-License-Identifier: MIT */
#include "bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bytes_free(bytes *b)
{
    free(b->at);
    *b = (bytes){ 0 };
}

static uint8_t *more(bytes *b, size_t size)
{
    if (b->len + size > b->room) {
        b->room = 2 * (b->len + size) + 64;
        b->at = realloc(b->at, b->room);
        if (!b->at)
            abort();
    }
    b->len += size;
    return b->at + b->len - size;
}

void put(bytes *b, const void *src, size_t size)
{
    if (size)
        memcpy(more(b, size), src, size);
}

void put_number(bytes *b, int size, uint64_t n)
{
    for (int i = 0; i < size; i++)
        *more(b, 1) = i < 8 ? (uint8_t)(n >> 8 * i) : 0;
}

void put_big(bytes *b, int size, uint64_t n)
{
    for (int i = size; i-- > 0;)
        *more(b, 1) = (uint8_t)(n >> 8 * i);
}

void put_fill(bytes *b, uint8_t value, size_t size)
{
    if (size)
        memset(more(b, size), value, size);
}

void put_text(bytes *b, const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(b, text, strlen(text));
}

void bytes_replace(bytes *b, size_t at, size_t size, const void *src, size_t n)
{
    uint8_t *copy = malloc(n + 1); /* src may lie in b */

    if (!copy)
        abort();
    if (n)
        memcpy(copy, src, n);
    if (n > size)
        more(b, n - size);
    else
        b->len -= size - n;
    if (b->len > at + n)
        memmove(b->at + at + n, b->at + at + size, b->len - at - n);
    if (n)
        memcpy(b->at + at, copy, n);
    free(copy);
}

bool bytes_load(bytes *b, const char *path)
{
    FILE *f = fopen(path, "rb");
    char part[4096];
    size_t n;

    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        put(b, part, n);
    return f && !fclose(f);
}

bool bytes_save(const bytes *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(b->at, 1, b->len, f) == b->len;

    return f && !fclose(f) && ok;
}

/* ---- random numbers ------------------------------------------------------------------------------------------------- */

/* SplitMix64 */
uint64_t rnd_next(rnd *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

size_t below(rnd *r, size_t n)
{
    return n ? (size_t)(rnd_next(r) % n) : 0;
}

bool chance(rnd *r, int percent)
{
    return below(r, 100) < (size_t)percent;
}

int64_t odd_number(rnd *r)
{
    static const int64_t list[] = { 0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    9,
                                    127,
                                    128,
                                    255,
                                    256,
                                    -128,
                                    32767,
                                    65535,
                                    65536,
                                    1 << 20,
                                    1 << 24,
                                    INT32_MAX,
                                    INT32_MIN,
                                    1LL << 31,
                                    UINT32_MAX,
                                    1LL << 32,
                                    1LL << 40,
                                    1LL << 53,
                                    1LL << 61,
                                    1LL << 62,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX - 7,
                                    INT64_MIN + 1,
                                    1000003 };
    int64_t n = ONE_OF(r, list);

    return chance(r, 20) ? (int64_t)((uint64_t)n + (uint64_t)below(r, 9) - 4)
        : chance(r, 50)  ? (int64_t)below(r, 20)
                         : n;
}

static void mutate_once(bytes *b, rnd *r)
{
    size_t at = below(r, b->len), n = 1 + below(r, chance(r, 80) ? 8 : 200), from = below(r, b->len);
    uint8_t value[8];
    int64_t odd = odd_number(r);

    for (int i = 0; i < 8; i++)
        value[i] = (uint8_t)((uint64_t)odd >> 8 * i);
    if (!b->len) {
        put(b, value, 1 + below(r, 8));
        return;
    }
    n = n > b->len - at ? b->len - at : n;
    switch (below(r, 9)) {
    case 0:
        b->at[at] ^= (uint8_t)(1 << below(r, 8));
        break;
    case 1:
        b->at[at] = (uint8_t)rnd_next(r);
        break;
    case 2: /* an odd number of 1, 2, 4 or 8 bytes */
        n = (size_t)1 << below(r, 4);
        if (at + n <= b->len)
            memcpy(b->at + at, value, n);
        break;
    case 3:
        bytes_replace(b, at, n, NULL, 0);
        break;
    case 4:
        bytes_replace(b, at, 0, value, 1 + below(r, 8));
        break;
    case 5: /* a part of the file a second time, here */
        bytes_replace(b, at, 0, b->at + from, n > b->len - from ? b->len - from : n);
        break;
    case 6: /* or in place of another */
        bytes_replace(b, at, n, b->at + from, n > b->len - from ? b->len - from : n);
        break;
    case 7:
        if (chance(r, 20))
            b->len = at;
        break;
    default: /* a text number becomes another */
        while (at < b->len && (b->at[at] < '0' || b->at[at] > '9'))
            at++;
        for (n = 0; at + n < b->len && b->at[at + n] >= '0' && b->at[at + n] <= '9';)
            n++;
        if (n) {
            char text[24];

            snprintf(text, sizeof text, "%lld", (long long)odd);
            bytes_replace(b, at, n, text, strlen(text));
        }
    }
}

void mutate(bytes *b, rnd *r, int most)
{
    for (size_t i = 1 + below(r, (size_t)most); i; i--)
        mutate_once(b, r);
}

/* ---- containers ------------------------------------------------------------------------------------------------------ */

void put_zip(bytes *b, const member *list, int n, const zip_mistakes *wrong)
{
    static const zip_mistakes none = { 0 };
    const zip_mistakes *m = wrong ? wrong : &none;
    const size_t begin = b->len;
    size_t *place = calloc((size_t)n + 1, sizeof *place), directory, end;

    if (!place)
        abort();
    for (int i = 0; i < n; i++) {
        const size_t len = strlen(list[i].name);

        place[i] = b->len - begin;
        put(b, "PK\3\4", 4);
        put_number(b, 2, 0);
        put_number(b, 2, m->flags);
        put_number(b, 2, m->method);
        put_number(b, 16, 0);
        put_number(b, 2, len);
        put_number(b, 2, (uint64_t)m->pad);
        put(b, list[i].name, len);
        put_fill(b, 'Z', (size_t)m->pad);
        put(b, list[i].data.at, list[i].data.len);
    }
    directory = b->len - begin;
    for (int i = 0; i < n; i++) {
        const bool odd = i == n / 2; /* one member has the mistakes */
        const size_t len = strlen(list[i].name);
        const uint64_t size = list[i].data.len + (odd ? (uint64_t)m->size : 0);
        const uint64_t at = place[i] + (odd ? (uint64_t)m->place : 0);

        put(b, "PK\1\2", 4);
        put_number(b, 4, 0);
        put_number(b, 2, m->flags);
        put_number(b, 2, m->method);
        put_number(b, 8, 0);
        put_number(b, 4, m->zip64 ? UINT32_MAX : size);
        put_number(b, 4, m->zip64 ? UINT32_MAX : size);
        put_number(b, 2, len);
        put_number(b, 2, m->zip64 ? 28 : 0);
        put_number(b, 10, 0);
        put_number(b, 4, m->zip64 ? UINT32_MAX : at);
        put(b, list[i].name, len);
        if (m->zip64) {
            put_number(b, 2, 1);
            put_number(b, 2, 24);
            put_number(b, 8, size);
            put_number(b, 8, size);
            put_number(b, 8, at);
        }
    }
    end = b->len - begin;
    if (m->zip64) {
        put(b, "PK\6\6", 4);
        put_number(b, 8, 44);
        put_number(b, 4, 45 | 45 << 16);
        put_number(b, 8, 0);
        put_number(b, 8, (uint64_t)n + (uint64_t)m->count);
        put_number(b, 8, (uint64_t)n + (uint64_t)m->count);
        put_number(b, 8, end - directory);
        put_number(b, 8, directory + (uint64_t)m->directory);
        put(b, "PK\6\7", 4);
        put_number(b, 4, 0);
        put_number(b, 8, end);
        put_number(b, 4, 1);
    }
    put(b, "PK\5\6", 4);
    put_number(b, 4, 0);
    put_number(b, 2, m->zip64 ? UINT16_MAX : (uint64_t)n + (uint64_t)m->count);
    put_number(b, 2, m->zip64 ? UINT16_MAX : (uint64_t)n + (uint64_t)m->count);
    put_number(b, 4, m->zip64 ? UINT32_MAX : end - directory);
    put_number(b, 4, m->zip64 ? UINT32_MAX : directory + (uint64_t)m->directory);
    put_number(b, 2, 0);
    free(place);
}

void put_safetensors(bytes *b, const bytes *header, const bytes *data)
{
    put_number(b, 8, header->len);
    put(b, header->at, header->len);
    put(b, data->at, data->len);
}
