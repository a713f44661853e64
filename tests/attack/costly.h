/* SPDX-License-Identifier: MIT */
/* costly.h - small pictures that make a reader work: each valid, or nearly, and much in few bytes. */
#ifndef ZN_ATTACK_COSTLY_H
#define ZN_ATTACK_COSTLY_H

#include "bytes.h"

/* A grey JPEG: zeros in its quantisation table, comments before the pixels, passes (0: not progressive).  Each pass but
 * the first takes some 30 bytes for a million pixels. */
void costly_jpeg(bytes *b, size_t w, size_t h, int zeros, int comments, int passes);

/* A PNG in one colour with n chunks of text that inflate to `each` bytes. */
void costly_png(bytes *b, size_t w, size_t h, int n, size_t each);

/* A PNG of one pixel in a colour space of its own. */
void costly_space(bytes *b, unsigned gamma);

/* A WebP in one colour: always 38 bytes. */
void costly_webp(bytes *b, size_t w, size_t h);

/* TIFF files of one pixel: n directories whose m entries each lead to a directory; n entries of the same `size` bytes;
 * tiles of w x h pixels of four floats. */
void costly_pointers(bytes *b, rnd *r, int n, int m);
void costly_values(bytes *b, int n, size_t size);
void costly_tile(bytes *b, size_t w, size_t h);

/* PNG, WebP or TIFF ('p', 'w', 't') of one pixel with an XMP packet of n properties, each in a namespace of its own if
 * asked. */
void costly_packet(bytes *b, char format, int n, bool spaces);

/* JPEG of 8 x 8 pixels with n entries of IPTC. */
void costly_iptc(bytes *b, int n);

/* Any of these. */
void make_costly(bytes *b, rnd *r);

#endif
