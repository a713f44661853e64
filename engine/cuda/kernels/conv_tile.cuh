/* SPDX-License-Identifier: MIT */
/* conv_tile.cuh - what the convolutions on mma.sync share (conv_mma.cu, conv_thin.cu): the kinds of product, the
 * products of a warp, and the way out of 8 results.
 *     f16, bf16   m16n8k16
 *     tf32        m16n8k8, numbers rounded to 10 bits
 *     f32         each number as the sum of two tf32 numbers, three products: float32's accuracy (to 2^-21) */
#ifndef ZN_CONV_TILE_CUH
#define ZN_CONV_TILE_CUH

#include "common.cuh"

enum kind { F16, BF16, TF32, F32 };
template <kind K> struct kind_of { typedef float type; };
template <> struct kind_of<F16> { typedef f16 type; };
template <> struct kind_of<BF16> { typedef bf16 type; };

#if __CUDA_ARCH__ >= 800

/* x = big + small, both tf32 */
__device__ __forceinline__ void split_tf32(unsigned x, unsigned &big, unsigned &small)
{
    big = to_tf32(__uint_as_float(x));
    small = to_tf32(__uint_as_float(x) - __uint_as_float(big));
}

/* 32 bytes of k: MT x NT tiles of 16x8. */
template <kind K, int MT, int NT>
__device__ __forceinline__ void multiply(float (&acc)[MT][NT][4], unsigned (&a)[MT][4], unsigned (&b)[NT][2])
{
    if (K == F16 || K == BF16) {
        typedef typename kind_of<K == BF16 ? BF16 : F16>::type T;

#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < NT; j++)
                mma16<T>(acc[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j][0], b[j][1]);
    } else if (K == TF32) {
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                a[i][q] = to_tf32(__uint_as_float(a[i][q]));
#pragma unroll
        for (int j = 0; j < NT; j++) {
            const unsigned big[2] = { to_tf32(__uint_as_float(b[j][0])), to_tf32(__uint_as_float(b[j][1])) };

#pragma unroll
            for (int i = 0; i < MT; i++)
                mma8_tf32(acc[i][j], a[i], big);
        }
    } else {
        unsigned small[MT][4];

#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                split_tf32(a[i][q], a[i][q], small[i][q]);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            unsigned big[2], rest[2];

            split_tf32(b[j][0], big[0], rest[0]);
            split_tf32(b[j][1], big[1], rest[1]);
#pragma unroll
            for (int i = 0; i < MT; i++) {
                mma8_tf32(acc[i][j], small[i], big);
                mma8_tf32(acc[i][j], a[i], rest);
                mma8_tf32(acc[i][j], a[i], big);
            }
        }
    }
}

/* Do pixels begin at multiples of 16 bytes? */
__device__ __forceinline__ bool aligned(const zn_tensor &t)
{
    return !((size_t)t.data & 15) && t.ld % (t.type == ZN_F32 ? 4 : 8) == 0;
}

/* Whether 8 results leave at once. */
__device__ __forceinline__ bool in_eights(const zn_cuda_conv &a)
{
    return a.cout % 8 == 0 && aligned(a.y) && (!a.tail.residual.data || aligned(a.tail.residual));
}

/* sum += 8 numbers at a multiple of 16 bytes */
__device__ __forceinline__ void add8(float (&sum)[8], const float *from)
{
    const float4 lo = *(const float4 *)from, hi = *(const float4 *)(from + 4);

    sum[0] += lo.x, sum[1] += lo.y, sum[2] += lo.z, sum[3] += lo.w;
    sum[4] += hi.x, sum[5] += hi.y, sum[6] += hi.z, sum[7] += hi.w;
}

/* 8 results of pixel p, from output o: bias, tail, store.  What is beyond cout is dropped. */
__device__ __forceinline__ void finish8(const zn_cuda_conv &a, float (&v)[8], size_t p, int o, bool eight)
{
    const zn_tensor &residual = a.tail.residual;
    float r[8] = {};

    if (residual.data && eight) {
        raw<8> lying;

        fetch(lying, residual, p * residual.ld + o);
        widen(r, lying, residual.type);
    } else if (residual.data) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (o + i < a.cout)
                r[i] = load_any(residual, p * residual.ld + o + i);
    }
    add8(v, a.bias + o); /* padded to a multiple of 64 */
    activate_all(a.tail.pre, v);
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = r[i] + a.tail.gain * v[i];
    activate_all(a.tail.post, v);
    if (eight) {
        put(a.y, p * a.y.ld + o, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (o + i < a.cout)
            store_any(a.y, p * a.y.ld + o + i, v[i]);
}

/* MT x NT products of a warp, at (row, col) of a tile of floats in shared memory with `pitch` numbers a row. */
template <int MT, int NT>
__device__ __forceinline__ void spill(float *out, int pitch, int row, int col, const float (&acc)[MT][NT][4])
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float *to = out + (row + 16 * i + lane / 4) * pitch + col + 8 * j + lane % 4 * 2;

            *(float2 *)to = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)(to + 8 * pitch) = make_float2(acc[i][j][2], acc[i][j][3]);
        }
}

/* The fragments of 32 bytes of k: MT x 16 rows of x, NT x 8 of w; at_x and at_w give the places of a row's 16 bytes. */
template <int MT, int NT, class AtX, class AtW>
__device__ __forceinline__ void fragments(unsigned (&a)[MT][4], unsigned (&b)[NT][2], AtX at_x, AtW at_w)
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < MT; i++) /* rows 0-7, 8-15 of the first 16 bytes, then of the second */
        ldmatrix4(a[i], at_x(16 * i + lane % 16, lane / 16));
#pragma unroll
    for (int j = 0; j < NT; j += 2) { /* outputs 0-7: both halves, then 8-15 */
        unsigned r[4];

        ldmatrix4(r, at_w(8 * j + lane % 8 + lane / 16 * 8, lane / 8 % 2));
        b[j][0] = r[0], b[j][1] = r[1], b[j + 1][0] = r[2], b[j + 1][1] = r[3];
    }
}

#endif

#endif
