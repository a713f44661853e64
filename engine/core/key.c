/* SPDX-License-Identifier: MIT */
/* key.c - a hash of what a result depends on.
 *
 * Two independent chains of xor, multiply, shift.  Each step is a bijection of the state, so two inputs that differ in one
 * word never collide; with 128 bits other collisions are negligible. */
#include "../zenith_composite.h"

#include <string.h>
#include <sys/stat.h>

enum { LANES_FROM = 256 }; /* bytes that are worth hashing side by side */

static inline void mix(zn_key *key, uint64_t word)
{
    key->a = (key->a ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    key->a ^= key->a >> 32;
    key->b = (key->b + word) * UINT64_C(0xd6e8feb86659fd93);
    key->b ^= key->b >> 29;
}

/* Most of p, in four pairs of chains that do not wait for each other; how much that was.  Not arrays and loops: these would
 * stay in memory. */
static size_t mix_lanes(zn_key *key, const unsigned char *p, size_t size)
{
    zn_key lane0 = *key, lane1 = *key, lane2 = *key, lane3 = *key;
    uint64_t word[4];
    size_t i;

    for (i = 0; i + sizeof word <= size; i += sizeof word) {
        memcpy(word, p + i, sizeof word);
        mix(&lane0, word[0]);
        mix(&lane1, word[1]);
        mix(&lane2, word[2]);
        mix(&lane3, word[3]);
    }
    mix(key, lane0.a), mix(key, lane0.b);
    mix(key, lane1.a), mix(key, lane1.b);
    mix(key, lane2.a), mix(key, lane2.b);
    mix(key, lane3.a), mix(key, lane3.b);
    return i;
}

void zn_key_add(zn_key *key, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t word = 0;
    size_t i = 0;

    mix(key, size);
    if (size >= LANES_FROM)
        i = mix_lanes(key, p, size);
    for (; i + 8 <= size; i += 8) {
        memcpy(&word, p + i, 8);
        mix(key, word);
    }
    if (i < size) {
        word = 0;
        memcpy(&word, p + i, size - i);
        mix(key, word);
    }
}

void zn_key_add_text(zn_key *key, const char *text)
{
    zn_key_add(key, text ? text : "", text ? strlen(text) : 0);
}

void zn_key_add_file(zn_key *key, const char *path)
{
    struct stat st = { 0 };
    int64_t words[2];

    if (stat(path, &st))
        st = (struct stat){ 0 };
    words[0] = st.st_mtime;
    words[1] = st.st_size;
    zn_key_add_text(key, path);
    zn_key_add(key, words, sizeof words);
}
