/* SPDX-License-Identifier: MIT */
/* pruned.cu - the pruned depthwise convolution: the mask of blocks of channels, and the convolution that leaves some out. */
#include "common.cuh"

enum { THREADS = 256, PRUNED_THREADS = 128, STRIP = 8 /* pixels of a thread */ };

template <int V> __device__ __forceinline__ void read_block(float (&v)[8], const zn_tensor &x, size_t i)
{
    if constexpr (V == 8) {
        raw<8> r;

        fetch(r, x, i);
        widen(v, r, x.type);
    } else {
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = load_any(x, i + k);
    }
}

/* Rounded in the same order as on the CPU: a mask has no tolerance. */
template <int V> __device__ __forceinline__ void pruned_mask(const zn_args_pruned &g)
{
    unsigned blocks = (unsigned)g.x.c / 8;
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, p = quotient(at, blocks);
    unsigned b = (unsigned)(at - p * blocks);
    float v[8], sum = 0;

    if (p >= (size_t)g.x.n * g.x.h * g.x.w)
        return;
    read_block<V>(v, g.x, p * g.x.ld + 8 * b);
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum = __fadd_rn(sum, fabsf(v[i]));
    store_any(g.mask, p * g.mask.ld + b, __fadd_rn(__fmul_rn(g.scale[b], sum), g.bias[b]) > 0 ? 1.f : 0.f);
}

extern "C" __global__ void __launch_bounds__(THREADS) pruned_mask_v8(const zn_args_pruned g) { pruned_mask<8>(g); }
extern "C" __global__ void __launch_bounds__(THREADS) pruned_mask_v1(const zn_args_pruned g) { pruned_mask<1>(g); }

/* Which of the three blocks of channels in a column of pixels are not pruned, from the row above to the row below. */
__device__ __forceinline__ unsigned open_blocks(const zn_args_pruned &g, size_t p, int i, int j, int b)
{
    unsigned open = 0;

    if (j < 0 || j >= g.x.w)
        return 0;
#pragma unroll
    for (int u = 0; u < 3; u++)
        if (i + u >= 1 && i + u <= g.x.h)
            open |= (unsigned)(load_any(g.mask, (p + (size_t)u * g.x.w - g.x.w) * g.mask.ld + b) != 0) << u;
    return open;
}

/* A thread computes one block of channels of STRIP pixels in a row. */
template <int V> __device__ __forceinline__ void pruned_conv(const zn_args_pruned &g)
{
    unsigned blocks = (unsigned)g.x.c / 8, strips = ((unsigned)g.x.w + STRIP - 1) / STRIP;
    size_t at = (size_t)blockIdx.x * PRUNED_THREADS + threadIdx.x, strip = quotient(at, blocks);
    int b = (int)(at - strip * blocks);
    size_t row = quotient(strip, strips), first = row * g.x.w;
    int j0 = (int)(strip - row * strips) * STRIP, i = (int)(row - quotient(row, g.x.h) * g.x.h);
    unsigned left, here, right;
    float w[9][8];

    if (row >= (size_t)g.x.n * g.x.h)
        return;
#pragma unroll
    for (int t = 0; t < 9; t++)
#pragma unroll
        for (int k = 0; k < 8; k += 4) {
            float4 q = *(const float4 *)(g.weight + (size_t)t * g.x.c + 8 * b + k);

            w[t][k] = q.x, w[t][k + 1] = q.y, w[t][k + 2] = q.z, w[t][k + 3] = q.w;
        }
    left = open_blocks(g, first + j0 - 1, i, j0 - 1, b);
    here = open_blocks(g, first + j0, i, j0, b);
#pragma unroll 1
    for (int j = j0; j < g.x.w && j < j0 + STRIP; j++, left = here, here = right) {
        float sum[8] = { 0 }, v[8];
        unsigned open;

        right = open_blocks(g, first + j + 1, i, j + 1, b);
        open = here & 2 ? (left | here << 3 | right << 6) : 0; /* bit 3 v + u */
#pragma unroll
        for (int t = 0; t < 9; t++)
            if (open >> (t % 3 * 3 + t / 3) & 1) {
                size_t q = first + j + (size_t)(t / 3) * g.x.w - g.x.w + t % 3 - 1;

                read_block<V>(v, g.x, q * g.x.ld + 8 * b);
#pragma unroll
                for (int k = 0; k < 8; k++)
                    sum[k] += w[t][k] * v[k];
            }
        if constexpr (V == 8) {
            put(g.y, (first + j) * g.y.ld + 8 * b, sum);
        } else {
#pragma unroll
            for (int k = 0; k < 8; k++)
                store_any(g.y, (first + j) * g.y.ld + 8 * b + k, sum[k]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(PRUNED_THREADS) pruned_conv_v8(const zn_args_pruned g)
{
    pruned_conv<8>(g);
}
extern "C" __global__ void __launch_bounds__(PRUNED_THREADS) pruned_conv_v1(const zn_args_pruned g)
{
    pruned_conv<1>(g);
}
