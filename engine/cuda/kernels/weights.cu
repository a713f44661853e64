/* SPDX-License-Identifier: MIT */
/* weights.cu - weights to the type in which they are stored, and from it to the type that a kernel multiplies.
 *
 * pack_FROM_TO     a row a block; FROM: f32, f16, bf16; TO: e4m3, s8 (a scale a row), i8, i4 (core/quantise.h), with the
 *                  bits that conv_pack.c makes
 * expand_FROM_TO   8 elements a thread; FROM: f32, f16, bf16, e4m3, s8 (int8 with a scale a row), elementwise; i8, i4, from the file's order to the packed */
#include "common.cuh"

namespace
{

/* 8 stored weights from element i on, as floats. */
__device__ __forceinline__ void load8(float (&v)[8], const float *p, const void *, size_t i) { read8(v, p + i); }

template <class T> __device__ __forceinline__ void load8_typed(float (&v)[8], const T *p, size_t i)
{
    raw<8> r;

    r.lo = *(const uint4 *)(p + i);
    widen(v, r, type_of<T>::value);
}

__device__ __forceinline__ void load8(float (&v)[8], const f16 *p, const void *, size_t i) { load8_typed(v, p, i); }
__device__ __forceinline__ void load8(float (&v)[8], const bf16 *p, const void *, size_t i) { load8_typed(v, p, i); }

struct e4m3 {
    unsigned char bits;
};

/* The bits of e4m3, moved to where fp16 has exponent and mantissa, are 2^-8 times the value: the biases are 7 and 15. */
__device__ __forceinline__ void load8(float (&v)[8], const e4m3 *p, const void *scale, size_t i)
{
    const uint2 w = *(const uint2 *)(p + i);
    const float s = *(const float *)scale;

#pragma unroll
    for (int j = 0; j < 8; j++) {
        const unsigned b = ((j < 4 ? w.x : w.y) >> j % 4 * 8) & 0xff;
        const unsigned short h = (unsigned short)((b & 0x80) << 8 | (b & 0x7f) << 7);

        v[j] = (b & 0x7f) == 0x7f ? __uint_as_float(0x7fffffff) : __half2float(__ushort_as_half(h)) * 256.f * s;
    }
}

/* Integers with a scale for each ZN_W_GROUP elements (core/quantise.h).  one: element i; eight: 8 of them, i % 8 == 0. */
struct int8 {
    static __device__ __forceinline__ int one(const void *q, size_t i) { return ((const signed char *)q)[i]; }

    static __device__ __forceinline__ void eight(int (&v)[8], const void *q, size_t i)
    {
        const uint2 w = *(const uint2 *)((const char *)q + i);

#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = (signed char)((j < 4 ? w.x : w.y) >> j % 4 * 8);
    }
};

struct int4x2 { /* two to a byte, the first in the low nibble */
    static __device__ __forceinline__ int one(const void *q, size_t i)
    {
        return (((const unsigned char *)q)[i / 2] >> i % 2 * 4 & 15) - 8;
    }

    static __device__ __forceinline__ void eight(int (&v)[8], const void *q, size_t i)
    {
        const unsigned w = *(const unsigned *)((const char *)q + i / 2);

#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = (int)(w >> j * 4 & 15) - 8;
    }
};

/* Integers with a scale for each row. */
struct s8 {
    signed char bits;
};

__device__ __forceinline__ void load8(float (&v)[8], const s8 *p, const void *scale, size_t i)
{
    int q[8];

    int8::eight(q, p, i);
#pragma unroll
    for (int j = 0; j < 8; j++)
        v[j] = (float)q[j] * *(const float *)scale;
}

template <class Q, class T> __device__ __forceinline__ void expand_groups(const zn_args_expand &g)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, o = quotient(8 * i, (unsigned)g.k_pad);
    const int k = (int)(8 * i - o * (unsigned)g.k_pad), tap = k / g.cin_pad, c = k - tap * g.cin_pad;
    const size_t row = o * (unsigned)g.k_row;
    const f16 *scale = (const f16 *)g.scale;
    zn_tensor to = { (float *)g.to };
    float v[8] = {};

    if (i >= g.n)
        return;
    to.type = type_of<T>::value;
    if (g.taps == 1 && !tap && c + 8 <= g.cin) { /* the same order: 8 neighbours of one group */
        int q[8];

        Q::eight(q, g.from, row + c);
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = (float)q[j] * __half2float(scale[(row + c) / ZN_W_GROUP]);
    } else if (tap < g.taps) {
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (c + j < g.cin) {
                const size_t at = row + (unsigned)((c + j) * g.taps + tap);

                v[j] = (float)Q::one(g.from, at) * __half2float(scale[at / ZN_W_GROUP]);
            }
    }
    put(to, 8 * i, v);
}

template <class S, class T> __device__ __forceinline__ void expand(const zn_args_expand &g)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    zn_tensor to = { (float *)g.to };
    float v[8];

    if (i >= g.n)
        return;
    to.type = type_of<T>::value;
    load8(v, (const S *)g.from, (const float *)g.scale + 8 * i / g.k_pad,
          8 * i); /* the scale of a row, of 8 bits alone */
    put(to, 8 * i, v);
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

enum { PACK_THREADS = 256 };

/* The largest magnitude of a row, but for NaN. */
template <class T> __device__ __forceinline__ float row_top(const T *row, int k)
{
    __shared__ float tops[PACK_THREADS / 32];
    float top = 0, v[8];

    for (int i = 8 * (int)threadIdx.x; i < k; i += 8 * PACK_THREADS) {
        load8(v, row, nullptr, (size_t)i);
#pragma unroll
        for (int j = 0; j < 8; j++)
            top = fmaxf(top, fabsf(v[j]));
    }
    top = max_lanes(top, 32);
    if (threadIdx.x % 32 == 0)
        tops[threadIdx.x / 32] = top;
    __syncthreads();
    return max_lanes(tops[threadIdx.x % (PACK_THREADS / 32)], PACK_THREADS / 32);
}

/* 8 values of a byte, as they lie in memory. */
__device__ __forceinline__ uint2 bytes8(const unsigned (&b)[8])
{
    return make_uint2(b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24, b[4] | b[5] << 8 | b[6] << 16 | b[7] << 24);
}

/* A row's scale, and a value times its inverse; as pack_s8 and pack_e4m3 of conv_pack.c. */
struct to_s8 {
    float factor, scale;

    __device__ __forceinline__ to_s8(float top)
    {
        top = top > 1e-30f ? top : 127;
        factor = __fdiv_rn(127, top);
        scale = __fdiv_rn(top, 127);
    }
    __device__ __forceinline__ unsigned operator()(float x) const
    {
        return __float_as_uint(__fadd_rn(__fmul_rn(x, factor), 12582912.f)) & 0xff;
    }
};

struct to_e4m3 {
    float factor, scale;

    __device__ __forceinline__ to_e4m3(float top)
    {
        const unsigned bits = __float_as_uint(top);
        const int e =
            top > 0x1p-100f && bits < 0x7f800000 ? (int)(bits >> 23) - 135 + ((bits & 0x7fffff) > 0x600000) : 0;

        factor = __uint_as_float((unsigned)(127 - e) << 23);
        scale = __uint_as_float((unsigned)(127 + e) << 23);
    }
    __device__ __forceinline__ unsigned operator()(float x) const /* zn_to_e4m3 */
    {
        const float v = __fmul_rn(x, factor);
        const unsigned bits = __float_as_uint(v) & 0x7fffffff, sign = __float_as_uint(v) >> 24 & 0x80;

        if (bits >= 0x43e00000)
            return sign | (bits > 0x7f800000 ? 0x7f : 0x7e);
        if (bits < 0x3c800000)
            return sign | (unsigned)__float2int_rn(__fmul_rn(fabsf(v), 512));
        return sign | ((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120 << 3);
    }
};

template <class Q, class T> __device__ __forceinline__ void pack_row(const zn_args_pack &g)
{
    const size_t row = blockIdx.x;
    const bool padding = row >= (unsigned)g.rows;
    const T *from = (const T *)g.from + row * (unsigned)g.k;
    const Q q(padding ? 0 : row_top(from, g.k));
    float v[8];
    unsigned b[8] = {};

    for (int i = 8 * (int)threadIdx.x; i < g.k; i += 8 * PACK_THREADS) {
        if (!padding) {
            load8(v, from, nullptr, (size_t)i);
#pragma unroll
            for (int j = 0; j < 8; j++)
                b[j] = q(v[j]);
        }
        *(uint2 *)((char *)g.to + row * (unsigned)g.k + i) = bytes8(b);
    }
    if (threadIdx.x == 0) {
        g.bias[row] = 0;
        ((float *)g.scale)[row] = padding ? 0 : q.scale;
    }
}

/* Groups of ZN_W_GROUP weights, four threads each; as round_group of quantise.c. */
template <int TOP, class T> __device__ __forceinline__ void pack_groups(const zn_args_pack &g)
{
    const size_t row = blockIdx.x, first = row * (unsigned)g.k;
    const bool padding = row >= (unsigned)g.rows;
    const float limit = TOP;

    for (int i = 8 * (int)threadIdx.x; i < 8 * PACK_THREADS * ((g.k + 8 * PACK_THREADS - 1) / (8 * PACK_THREADS));
         i += 8 * PACK_THREADS) {
        float v[8] = {}, top = 0, s;
        f16 scale;
        unsigned b[8];

        if (i < g.k && !padding)
            load8(v, (const T *)g.from, nullptr, first + i);
#pragma unroll
        for (int j = 0; j < 8; j++)
            top = fmaxf(top, fabsf(v[j]));
        scale = __float2half_rn(__fdiv_rn(max_lanes(top, ZN_W_GROUP / 8), limit));
        s = __half2float(scale);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float x = s > 0 ? __fdiv_rn(v[j], s) : 0;

            b[j] = (unsigned)__float2int_rn(fminf(fmaxf(x == x ? x : 0, -limit), limit));
            b[j] = TOP == 7 ? (padding ? 0 : b[j] + 8) : b[j] & 0xff;
        }
        if (i >= g.k)
            continue;
        if (TOP == 7)
            *(unsigned *)((char *)g.to + (first + i) / 2) =
                b[0] | b[1] << 4 | b[2] << 8 | b[3] << 12 | b[4] << 16 | b[5] << 20 | b[6] << 24 | b[7] << 28;
        else
            *(uint2 *)((char *)g.to + first + i) = bytes8(b);
        if (i % ZN_W_GROUP == 0)
            ((f16 *)g.scale)[(first + i) / ZN_W_GROUP] = scale;
    }
    if (threadIdx.x == 0)
        g.bias[row] = 0;
}

} // namespace

#define PACK(T, from)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) pack_##from##_e4m3(const zn_args_pack g)                         \
    {                                                                                                                  \
        pack_row<to_e4m3, T>(g);                                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) pack_##from##_s8(const zn_args_pack g)                           \
    {                                                                                                                  \
        pack_row<to_s8, T>(g);                                                                                         \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) pack_##from##_i8(const zn_args_pack g)                           \
    {                                                                                                                  \
        pack_groups<127, T>(g);                                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) pack_##from##_i4(const zn_args_pack g) { pack_groups<7, T>(g); }

PACK(float, f32)
PACK(f16, f16)
PACK(bf16, bf16)

#define EXPAND(S, from, T, to)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256) expand_##from##_##to(const zn_args_expand g) { expand<S, T>(g); }

#define EXPAND_GROUPS(Q, from, T, to)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) expand_##from##_##to(const zn_args_expand g)                     \
    {                                                                                                                  \
        expand_groups<Q, T>(g);                                                                                        \
    }

EXPAND(float, f32, f16, f16)
EXPAND(float, f32, bf16, bf16)
EXPAND(f16, f16, float, f32)
EXPAND(bf16, bf16, float, f32)
EXPAND(e4m3, e4m3, f16, f16)
EXPAND(e4m3, e4m3, float, f32)
EXPAND(s8, s8, f16, f16)
EXPAND(s8, s8, float, f32)
EXPAND_GROUPS(int8, i8, f16, f16)
EXPAND_GROUPS(int8, i8, float, f32)
EXPAND_GROUPS(int4x2, i4, f16, f16)
EXPAND_GROUPS(int4x2, i4, float, f32)
