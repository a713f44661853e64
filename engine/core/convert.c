/* SPDX-License-Identifier: MIT */
/* convert.c - element types of weight files, and copying entries out as floats. */
#include "weightfile.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[ZN_N_TYPES] = {
    [ZN_BOOL] = { "BOOL", 1 }, [ZN_U8] = { "U8", 1 },           [ZN_I8] = { "I8", 1 },
    [ZN_I16] = { "I16", 2 },   [ZN_U16] = { "U16", 2 },         [ZN_I32] = { "I32", 4 },
    [ZN_U32] = { "U32", 4 },   [ZN_I64] = { "I64", 8 },         [ZN_U64] = { "U64", 8 },
    [ZN_F16] = { "F16", 2 },   [ZN_BF16] = { "BF16", 2 },       [ZN_F32] = { "F32", 4 },
    [ZN_F64] = { "F64", 8 },   [ZN_F8_E4M3] = { "F8_E4M3", 1 }, [ZN_F8_E5M2] = { "F8_E5M2", 1 },
};

size_t zn_dtype_size(zn_type t)
{
    return zn_block_of(t) ? 0 : dtypes[t].size;
}

const char *zn_dtype_name(zn_type t)
{
    return zn_block_of(t) ? zn_block_of(t)->name : dtypes[t].name;
}

bool zn_shape_ok(const int64_t *shape, int n_dims, zn_type t)
{
    int64_t product = (int64_t)zn_dtype_size(t);

    for (int i = 0; i < n_dims; i++)
        if (shape[i] < 0 || (shape[i] && __builtin_mul_overflow(product, shape[i], &product)))
            return false;
    return true;
}

size_t zn_entry_len(const zn_entry *e)
{
    size_t len = 1;

    for (int i = 0; i < e->n_dims; i++)
        len *= (size_t)e->shape[i];
    return len;
}

size_t zn_entry_span(const zn_entry *e)
{
    const zn_block *b = zn_block_of(e->dtype);
    size_t last = 0;

    if (!zn_entry_len(e))
        return 0;
    if (b)
        return zn_entry_len(e) / b->len * b->size;
    for (int i = 0; i < e->n_dims; i++)
        last += ((size_t)e->shape[i] - 1) * (size_t)e->stride[i];
    return (last + 1) * zn_dtype_size(e->dtype);
}

/* ---- one element -------------------------------------------------------------------------------- */

static float from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Without a branch, so that compilers can make vector code.
 * A subnormal is a whole multiple of the smallest one, which a float holds exactly. */
static float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff, rebias = 112u << 23; /* from 15 to 127 */
    const uint32_t special = 0u - (uint32_t)(rest >= 0x7c00); /* infinite, or not a number: the exponent is 255 */
    const uint32_t tiny = 0u - (uint32_t)(rest < 0x0400);
    const uint32_t normal = (rest << 13) + rebias + (special & rebias);
    const uint32_t small = to_bits((float)(int32_t)rest * 0x1p-24f);

    return from_bits(sign | (small & tiny) | (normal & ~tiny));
}

float zn_from_f16(uint16_t x)
{
    return from_f16(x);
}

float zn_from_bf16(uint16_t x)
{
    return from_bits((uint32_t)x << 16);
}

uint16_t zn_to_f16(float x)
{
    uint32_t u = to_bits(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff, m, shift;

    if (mag > 0x7f800000) /* not a number */
        return (uint16_t)(sign | 0x7e00);
    if (mag >= 0x477ff000)
        return (uint16_t)(sign | 0x7bff);
    if (mag < 0x33000000) /* less than half of the smallest, 2^-24 */
        return (uint16_t)sign;
    if (mag < 0x38800000) { /* subnormal: counted in units of 2^-24 */
        m = (mag & 0x7fffff) | 0x800000;
        shift = 126 - (mag >> 23);
        return (uint16_t)(sign | (m + (1u << (shift - 1)) - 1 + (m >> shift & 1)) >> shift);
    }
    mag += 0xfff + (mag >> 13 & 1);
    return (uint16_t)(sign | (mag - 0x38000000) >> 13);
}

uint16_t zn_to_bf16(float x)
{
    uint32_t u = to_bits(x);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, all ones is not a number. */
static float from_e4m3(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, rest = b & 0x7f;
    uint32_t normal = (rest << 20) + (120u << 23);
    uint32_t small = to_bits((float)(int32_t)rest * 0x1p-9f);

    return from_bits(sign | (rest < 0x08 ? small : rest < 0x7f ? normal : 0x7fc00000));
}

/* ---- rows --------------------------------------------------------------------------------------- */

/* dst[i] = convert(the element at src + i * step), i < n.  Dense rows get a loop of their own, which
 * compilers turn into vector code. */
#define ROW(type, value)                                                                                               \
    do {                                                                                                               \
        type v;                                                                                                        \
        if (step == sizeof v)                                                                                          \
            for (size_t i = 0; i < n; i++) {                                                                           \
                memcpy(&v, src + i * sizeof v, sizeof v);                                                              \
                dst[i] = (value);                                                                                      \
            }                                                                                                          \
        else                                                                                                           \
            for (size_t i = 0; i < n; i++) {                                                                           \
                memcpy(&v, src + i * step, sizeof v);                                                                  \
                dst[i] = (value);                                                                                      \
            }                                                                                                          \
    } while (0)

static void read_row(float *dst, const unsigned char *src, size_t n, size_t step, zn_type t)
{
    /* clang-format off */
    switch (t) {
    case ZN_BOOL: ROW(uint8_t, v ? 1.0f : 0.0f); break;
    case ZN_U8: ROW(uint8_t, v); break;
    case ZN_I8: ROW(int8_t, v); break;
    case ZN_I16: ROW(int16_t, v); break;
    case ZN_U16: ROW(uint16_t, v); break;
    case ZN_I32: ROW(int32_t, (float)v); break;
    case ZN_U32: ROW(uint32_t, (float)v); break;
    case ZN_I64: ROW(int64_t, (float)v); break;
    case ZN_U64: ROW(uint64_t, (float)v); break;
    case ZN_F16: ROW(uint16_t, from_f16(v)); break;
    case ZN_BF16: ROW(uint16_t, from_bits((uint32_t)v << 16)); break;
    case ZN_F32: ROW(float, v); break;
    case ZN_F64: ROW(double, (float)v); break;
    case ZN_F8_E4M3: ROW(uint8_t, from_e4m3(v)); break;
    case ZN_F8_E5M2: ROW(uint8_t, from_f16((uint16_t)(v << 8))); break; /* the upper half of an f16 */
    default: break; /* no type, or one that comes in blocks */
    }
    /* clang-format on */
}

/* Merges dimensions that are dense in each other, so that rows are as long as they can be. */
static int merge_dims(const zn_entry *e, size_t *shape, size_t *step)
{
    size_t size = zn_dtype_size(e->dtype);
    int n = 0;

    for (int i = 0; i < e->n_dims; i++) {
        size_t len = (size_t)e->shape[i], bytes = (size_t)e->stride[i] * size;

        if (len == 1)
            continue; /* its stride means nothing, and may be anything */
        if (n && step[n - 1] == len * bytes) {
            shape[n - 1] *= len;
            step[n - 1] = bytes;
        } else {
            shape[n] = len;
            step[n++] = bytes;
        }
    }
    if (!n) {
        shape[0] = 1;
        step[n++] = size;
    }
    return n;
}

bool zn_entry_is_dense(const zn_entry *e)
{
    int64_t stride = 1;

    if (zn_block_of(e->dtype))
        return true;
    for (int d = e->n_dims - 1; d >= 0; d--) {
        if (e->shape[d] != 1 && e->stride[d] != stride)
            return false;
        stride *= e->shape[d];
    }
    return true;
}

/* Elements that lie one after the other: piece by piece. */
zn_status zn_entry_read_part(const zn_entry *e, float *dst, size_t first, size_t left, zn_error *err)
{
    const size_t size = zn_dtype_size(e->dtype), all = left;
    unsigned char piece[1 << 14];
    float *to = dst;
    size_t n;

    if (zn_block_of(e->dtype))
        return zn_blocks_read(e, dst, first, left, err);
    for (uint64_t at = e->at + first * size; left; left -= n, to += n, at += n * size) {
        zn_status s;

        n = left < sizeof piece / size ? left : sizeof piece / size;
        if ((s = zn_file_read(e->file, at, piece, n * size, err)))
            return s;
        read_row(to, piece, n, size, e->dtype);
    }
    return e->scales ? zn_rows_scale(e, dst, first, all, err) : ZN_OK;
}

zn_status zn_entry_read_as(const zn_entry *e, zn_type t, void *dst, size_t first, size_t n, zn_error *err)
{
    enum { PIECE = 8 * ZN_WHOLE_BLOCKS };
    const size_t size = zn_dtype_size(t);
    uint16_t *to = dst;
    float x[PIECE];
    zn_status s = ZN_OK;

    if (t == ZN_F32)
        return zn_entry_read_part(e, dst, first, n, err);
    if (e->dtype == t && !e->scales)
        return zn_file_read(e->file, e->at + first * size, dst, n * size, err);
    for (size_t some; n && !s; n -= some, first += some, to += some) {
        some = n < PIECE ? n : PIECE;
        s = zn_entry_read_part(e, x, first, some, err);
        for (size_t i = 0; i < some && !s; i++)
            to[i] = t == ZN_F16 ? zn_to_f16(x[i]) : zn_to_bf16(x[i]);
    }
    return s;
}

/* src: the bytes of the first element and those after it. */
static void read_rows(float *dst, const unsigned char *src, const size_t *shape, const size_t *step, int n, zn_type t)
{
    size_t index[ZN_MAX_DIMS] = { 0 };
    const int last = n - 1;

    for (;;) {
        int d = last - 1;

        read_row(dst, src, shape[last], step[last], t);
        dst += shape[last];
        for (; d >= 0; d--) { /* the next row, as an odometer counts */
            src += step[d];
            if (++index[d] < shape[d])
                break;
            src -= step[d] * shape[d];
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

zn_status zn_entry_read(const zn_entry *e, float *dst, zn_error *err)
{
    size_t shape[ZN_MAX_DIMS], step[ZN_MAX_DIMS];
    unsigned char *bytes;
    zn_status s;
    int n;

    if (!zn_entry_len(e))
        return ZN_OK;
    if (zn_block_of(e->dtype))
        return zn_blocks_read(e, dst, 0, zn_entry_len(e), err);
    n = merge_dims(e, shape, step);
    if (n == 1 && step[0] == zn_dtype_size(e->dtype))
        return zn_entry_read_part(e, dst, 0, zn_entry_len(e), err);
    if ((s = zn_file_copy(&bytes, e->file, e->at, zn_entry_span(e), err)))
        return s;
    read_rows(dst, bytes, shape, step, n, e->dtype);
    free(bytes);
    return e->scales ? zn_rows_scale(e, dst, 0, zn_entry_len(e), err) : ZN_OK;
}
