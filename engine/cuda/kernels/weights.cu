/* SPDX-License-Identifier: MIT */
/* weights.cu - packed weights to the type that a kernel multiplies.
 *
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

} // namespace

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
