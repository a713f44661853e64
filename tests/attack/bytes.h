/* SPDX-License-Identifier: MIT */
/* bytes.h - hostile files are made of these: a growing array of bytes, random numbers from a counter, and the containers
 * (zip archive, safetensors) that wrap generated contents. */
#ifndef ZN_ATTACK_BYTES_H
#define ZN_ATTACK_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bytes {
    uint8_t *at;
    size_t len, room;
} bytes;

void bytes_free(bytes *b);
void put(bytes *b, const void *src, size_t size);
void put_number(bytes *b, int size, uint64_t n); /* little-endian */
void put_big(bytes *b, int size, uint64_t n);    /* big-endian */
void put_fill(bytes *b, uint8_t value, size_t size);
__attribute__((format(printf, 2, 3))) void put_text(bytes *b, const char *fmt, ...);
/* Replaces `size` bytes from `at` on by n others; at + size is at most b->len. */
void bytes_replace(bytes *b, size_t at, size_t size, const void *src, size_t n);
bool bytes_load(bytes *b, const char *path); /* appends a file */
bool bytes_save(const bytes *b, const char *path);

/* ---- random numbers: the same seed gives the same file ------------------------------------------------------------ */

typedef struct rnd {
    uint64_t state;
} rnd;

uint64_t rnd_next(rnd *r);
size_t below(rnd *r, size_t n); /* 0 .. n-1; 0 for n = 0 */
bool chance(rnd *r, int percent);
int64_t odd_number(rnd *r); /* a number at which programs break: 0, -1, 2^31, ... */
#define ONE_OF(r, list) ((list)[below((r), sizeof(list) / sizeof *(list))])

/* Flips, inserts, deletes, repeats, cuts: 1 to `most` times. */
void mutate(bytes *b, rnd *r, int most);

/* ---- containers ---------------------------------------------------------------------------------------------------- */

typedef struct member {
    const char *name;
    bytes data;
} member;

typedef struct zip_mistakes { /* all 0: a good archive */
    bool zip64;
    int64_t size, place, count, directory; /* added to these fields */
    uint16_t method, flags;
    int pad; /* bytes in the local extra field */
} zip_mistakes;

/* An archive as PyTorch writes it: stored, sizes in the directory. */
void put_zip(bytes *b, const member *list, int n, const zip_mistakes *wrong);

/* Length of the header, header, data. */
void put_safetensors(bytes *b, const bytes *header, const bytes *data);

#endif
