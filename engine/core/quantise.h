/* SPDX-License-Identifier: MIT */
/* quantise.h - storage types of weights: the definition for memory and for files.
 *
 * A weight matrix is [out][k], k being all inputs of an output in the order of the file ([cin][kh][kw] of a convolution).
 *   f32, f16, bf16   one element per weight, rounded to the nearest, ties to even; too large for f16: its largest
 *   i8               q[out][k], one byte each, and scale[out][(k + 31) / 32], f16:  weight = q * scale
 *   i4               the same, two weights per byte, the even k in the low nibble:  weight = (nibble - 8) * scale
 *                    (of an odd k, the last high nibble is 8)
 * i8 and i4 are symmetric and have one scale per group of 32 consecutive k: max |w| of the group / 127 or / 7, rounded to
 * f16; q is w / scale, rounded to the nearest and clamped to -127 .. 127 or -7 .. 7.  A NaN becomes 0.
 * Quantising dequantised weights gives the same bytes again for scales from 2^-17 on; below, f16 is too coarse.
 *
 * e4m3 (fp8) is no storage type of this list, but one of files and of GPUs: q[out][k], one byte each, and a factor for the row,
 * weight = q * scale[out].  Scales that we write are powers of two, which round nothing: the smallest for which max |w| of the
 * row is at most 448.  So dequantised weights are exact in bf16, and give the same bytes again.
 *
 * In a file: P.weight, F8_E4M3, in its own shape, beside P.weight_scale, F32, [out], and the metadata "fp8": "row scales".  Read
 * are also other positive scales, one number for the whole tensor, and the name P.scale_weight. */
#ifndef ZN_QUANTISE_H
#define ZN_QUANTISE_H

#include <stddef.h>
#include <stdint.h>

typedef enum zn_wtype { ZN_W_F32, ZN_W_F16, ZN_W_BF16, ZN_W_I8, ZN_W_I4, ZN_N_WTYPES } zn_wtype;

enum { ZN_W_GROUP = 32 };

#define ZN_FP8_ROWS "row scales" /* the metadata of a file of e4m3 */

/* Bytes of n elements, without scales. */
static inline size_t zn_wtype_size(zn_wtype t, size_t n)
{
    return t == ZN_W_F32 ? 4 * n : t == ZN_W_I8 ? n : t == ZN_W_I4 ? (n + 1) / 2 : 2 * n;
}

/* Whether groups of elements have a scale. */
static inline int zn_wtype_scaled(zn_wtype t)
{
    return t >= ZN_W_I8;
}

/* Stores a group of n <= ZN_W_GROUP weights; q has zn_wtype_size(t, n) bytes, of any alignment.  Returns the scale, an
 * f16; 0 for the types that have none. */
uint16_t zn_quantise(zn_wtype t, void *q, const float *w, int n);

/* The inverse. */
void zn_dequantise(zn_wtype t, float *w, const void *q, uint16_t scale, int n);

/* e4m3, rounded to nearest, ties to even: 4 bits of exponent (bias 7), 3 of mantissa; beyond 448, 448; a NaN is 0x7f. */
uint8_t zn_to_e4m3(float x);

/* The e of the scale 2^e of n weights: 0 where they are 0, not finite, or below 2^-100. */
int zn_e4m3_exponent(const float *w, size_t n);

/* Inputs of a product of int8 (zn_conv.quantised_x), a group of n <= ZN_W_GROUP of them: x = q * scale.  The scale, which is
 * returned, is max |x| / 127, a float; q is x * (127 / max |x|), rounded to the nearest, ties to even, or 0 where that maximum
 * is at most 1e-30.  If an x is not finite, neither is the scale. */
float zn_quantise_input(int8_t *q, const float *x, int n);

#endif
