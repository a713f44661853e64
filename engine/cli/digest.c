/* SPDX-License-Identifier: MIT */
/* digest.c - SHA-256 (FIPS 180-4) and MD5 (RFC 1321) of files, to compare with what a manifest says. */
#include "digest.h"

#include "../zenith_file.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct state {
    uint32_t h[8], k[64];
    bool sha;
} state;

static uint32_t left(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void sha_block(state *s, const unsigned char *p)
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 64; i++) {
        if (i < 16) {
            w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
            continue;
        }
        const uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + w[i - 7] + (left(a, 25) ^ left(a, 14) ^ a >> 3) + (left(b, 15) ^ left(b, 13) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t one = v[7] + (left(v[4], 26) ^ left(v[4], 21) ^ left(v[4], 7)) +
            ((v[4] & v[5]) ^ (~v[4] & v[6])) + s->k[i] + w[i];
        const uint32_t two =
            (left(v[0], 30) ^ left(v[0], 19) ^ left(v[0], 10)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        s->h[i] += v[i];
}

static void md5_block(state *s, const unsigned char *p)
{
    static const int shifts[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } };
    uint32_t a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3];

    for (int i = 0; i < 64; i++) {
        const int round = i / 16,
                  at = 4 *
            ((round == 0       ? i
                  : round == 1 ? 5 * i + 1
                  : round == 2 ? 3 * i + 5
                               : 7 * i) %
             16);
        const uint32_t f = round == 0 ? (b & c) | (~b & d)
            : round == 1              ? (d & b) | (~d & c)
            : round == 2              ? b ^ c ^ d
                                      : c ^ (b | ~d);
        const uint32_t word = p[at] | (uint32_t)p[at + 1] << 8 | (uint32_t)p[at + 2] << 16 | (uint32_t)p[at + 3] << 24;
        const uint32_t next = b + left(a + f + s->k[i] + word, shifts[round][i % 4]);

        a = d;
        d = c;
        c = b;
        b = next;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
}

/* The constants are bits of roots of the first primes, and of sines. */
static void begin(state *s, bool sha)
{
    static const uint32_t md5[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
    int n = 0;

    s->sha = sha;
    memcpy(s->h, md5, sizeof md5);
    for (int i = 0; !sha && i < 64; i++)
        s->k[i] = (uint32_t)(int64_t)floor(fabs(sin(i + 1.0)) * 4294967296.0);
    for (uint64_t p = 2; sha && n < 64; p++) {
        bool prime = true;

        for (uint64_t q = 2; q * q <= p; q++)
            prime = prime && p % q;
        if (!prime)
            continue;
        /* floor(root * 2^32), corrected with integers: the root is a double */
        __extension__ typedef unsigned __int128 wide;
        uint64_t cube = (uint64_t)(cbrt((double)p) * 4294967296.0), square = (uint64_t)(sqrt((double)p) * 4294967296.0);

        while ((wide)cube * cube * cube > (wide)p << 96)
            cube--;
        while ((wide)(cube + 1) * (cube + 1) * (cube + 1) <= (wide)p << 96)
            cube++;
        while ((wide)square * square > (wide)p << 64)
            square--;
        if (n < 8)
            s->h[n] = (uint32_t)square;
        s->k[n++] = (uint32_t)cube;
    }
}

bool digest_file(char hex[DIGEST_HEX], const char *path, bool sha, zn_error *err)
{
    static const char digits[] = "0123456789abcdef";
    FILE *f = zn_input_open(path, err);
    unsigned char piece[1 << 16];
    uint64_t size = 0;
    size_t n = 0, kept = 0;
    bool bad;
    state s;

    if (!f)
        return false;
    begin(&s, sha);
    while ((n = fread(piece + kept, 1, sizeof piece - 128 - kept, f)) > 0) {
        size_t at = 0;

        size += n;
        for (kept += n; kept - at >= 64; at += 64)
            (sha ? sha_block : md5_block)(&s, piece + at);
        memmove(piece, piece + at, kept -= at);
    }
    bad = ferror(f);
    fclose(f);
    if (bad) {
        snprintf(err->text, sizeof err->text, "%.400s: cannot be read", path);
        return false;
    }
    n = kept < 56 ? 64 : 128;
    memset(piece + kept, 0, n - kept);
    piece[kept] = 0x80;
    for (int i = 0; i < 8; i++)
        piece[n - 8 + (size_t)i] = (unsigned char)(size * 8 >> (sha ? 56 - 8 * i : 8 * i));
    for (size_t at = 0; at < n; at += 64)
        (sha ? sha_block : md5_block)(&s, piece + at);
    for (int i = 0; i < (sha ? 32 : 16); i++) {
        const unsigned byte = s.h[i / 4] >> 8 * (sha ? 3 - i % 4 : i % 4) & 255;

        hex[2 * i] = digits[byte >> 4];
        hex[2 * i + 1] = digits[byte & 15];
        hex[2 * i + 2] = 0;
    }
    return true;
}
