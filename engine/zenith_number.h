/* SPDX-License-Identifier: MIT */
/* zenith_number.h - numbers in text that a program reads: options, settings, files.
 *
 * The one pair of functions for it, in the engine and in all front ends.  They know no locale: the decimal separator
 * is a point, wherever the program runs.  What zn_number_print wrote, zn_number_parse reads as the same double. */
#ifndef ZENITH_NUMBER_H
#define ZENITH_NUMBER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ZN_NUMBER_SIZE = 32 };

/* Reads [+-]digits[.digits][e[+-]digits], correctly rounded.  end: NULL, if nothing may follow, or gets where the number
 * ends.  False, and *value is unchanged: there is no number, or it is beyond the range of a double.  White space, "inf",
 * "nan" and hexadecimal digits are no numbers; one that is too small to be told from 0 is 0. */
bool zn_number_parse(double *value, const char *text, const char **end);

/* The fewest digits that give the same double: "25", "0.1", "1e-07".  Returns text. */
char *zn_number_print(char text[ZN_NUMBER_SIZE], double value);

#ifdef __cplusplus
}
#endif
#endif
