/* SPDX-License-Identifier: MIT */
/* text.h - from a text to the token ids that a text encoder takes.
 *
 *   text ── special tokens cut out ── normalised (unicode.c) ── words (split.c) ── tokens (bpe.c)
 *
 * tokenizer.c reads the vocabulary from a tokenizer.json and does these steps; its calls are in zenith.h. */
#ifndef ZN_TEXT_H
#define ZN_TEXT_H

#include "../core/status.h"

/* zn_tokenizer_open on a file in memory; label is for messages. */
zn_status zn_tokenizer_read(zn_tokenizer **out, const char *text, size_t size, const char *label, zn_error *err);

/* The end of the word that begins at x[at], at < n, by the split rules of Qwen2 and Qwen3:
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * Every code point belongs to a word. */
size_t zn_split(const uint32_t *x, size_t n, size_t at);

extern const char zn_split_rules[]; /* that expression, as a tokenizer.json spells it */

typedef struct zn_merge { /* of two tokens into one; those of low rank are done first */
    int32_t left, right, rank, id;
} zn_merge;

/* Sorts them for zn_bpe; false: a pair is there twice. */
bool zn_merge_sort(zn_merge *merge, size_t n);

/* Byte-pair encoding of a word: ids[0 .. n-1] is a token per byte at first; returns how many are left.  Takes
 * O(n log n); work has zn_bpe_size(n) bytes. */
size_t zn_bpe(int32_t *ids, size_t n, const zn_merge *merge, size_t n_merges, void *work);
size_t zn_bpe_size(size_t n);

#endif
