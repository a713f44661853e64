/* SPDX-License-Identifier: MIT */
/* zenith_number.h - numbers in text that a program reads (options, settings, files), and in pixels.
 *
 * The one pair of functions for each, in the engine and in all front ends.  Those for text know no locale: the decimal
 * separator is a point, wherever the program runs.  What zn_number_print wrote, zn_number_parse reads as the same double.
 * Those for pixels round everywhere alike. */
#ifndef ZENITH_NUMBER_H
#define ZENITH_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ZN_NUMBER_SIZE = 32 };

/* Reads [+-]digits[.digits][e[+-]digits], correctly rounded.  end: NULL, if nothing may follow, or gets where the number
 * ends.  False, and *value is unchanged: there is no number, or it is beyond the range of a double.  White space, "inf",
 * "nan" and hexadecimal digits are no numbers; one that is too small to be told from 0 is 0. */
bool zn_number_parse(double *value, const char *text, const char **end);

/* A size in mebibytes, as variables of the environment have it: "512", "512M" or "4G"; at most 1e9.  False, and *mib is unchanged: it
 * is none. */
bool zn_mebibytes_parse(double *mib, const char *text);

/* The fewest digits that give the same double: "25", "0.1", "1e-07".  Returns text. */
char *zn_number_print(char text[ZN_NUMBER_SIZE], double value);

/* Samples of 1 or 2 bytes, whose largest value stands for 1, to floats and back: the nearest one, of two the larger.  What
 * is beyond 0..1 becomes its end, NaN 0.  n pixels of `from` samples each become n of `to`: as many, or grey thrice. */
void zn_samples_read(float *dst, int to, const void *src, int from, size_t n, int bytes);
void zn_samples_write(void *dst, const float *src, size_t n, int bytes);

/* The format of floats for such samples, both by babl's names: "R'G'B' float" for "R'G'B' u8" and for "Y' u16".  NULL: these
 * functions are not for that one. */
const char *zn_samples_full(const char *format);

#ifdef __cplusplus
}
#endif
#endif
