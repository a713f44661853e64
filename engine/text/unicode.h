/* SPDX-License-Identifier: MIT */
/* unicode.h - code points: UTF-8, the classes that split rules name, normalisation form C. */
#ifndef ZN_UNICODE_H
#define ZN_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code points of a text that is well-formed UTF-8 (zn_utf8_ok); out has room for size.  Returns their number. */
size_t zn_utf8_decode(uint32_t *out, const char *text, size_t size);

/* General categories L and N, and the property White_Space. */
bool zn_is_letter(uint32_t c);
bool zn_is_number(uint32_t c);
bool zn_is_space(uint32_t c);

/* No code point decomposes into more. */
enum { ZN_NFC_GROWTH = 4 };

/* Normalisation form C (Unicode, UAX #15) of n code points, in place: decomposes, orders marks, composes.  x and scratch have
 * room for ZN_NFC_GROWTH * n.  Returns the number of code points left. */
size_t zn_nfc(uint32_t *x, size_t n, uint32_t *scratch);

#endif
