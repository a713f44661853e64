/* SPDX-License-Identifier: MIT */
/* generate.h - hostile files of each format: valid ones with a few errors, so that a reader gets far enough to reach
 * them. */
#ifndef ZN_ATTACK_GENERATE_H
#define ZN_ATTACK_GENERATE_H

#include "bytes.h"

/* weights.c */
void make_safetensors(bytes *b, rnd *r);
void make_torch(bytes *b, rnd *r); /* an archive with a pickle */
void make_gguf(bytes *b, rnd *r);
void make_mlx(bytes *b, rnd *r);
void make_fp8(bytes *b, rnd *r);
void put_string(bytes *b, rnd *r, const char *text); /* of JSON, with its quotes */
void put_value(bytes *b, rnd *r, int depth);         /* any value of JSON */
void put_space(bytes *b, rnd *r);
int64_t maybe_odd(rnd *r, int64_t n, int percent); /* n, or odd_number() */

/* pictures.c */
void make_png(bytes *b, rnd *r);
void make_jpeg(bytes *b, rnd *r);
void make_tiff(bytes *b, rnd *r);
void make_webp(bytes *b, rnd *r);

#endif
