/* SPDX-License-Identifier: MIT */
/* conv_tile.cuh - what the convolutions on mma.sync share (conv_mma.cu, conv_thin.cu): the types of products, the
 * products of a warp, and the epilogue for 4 or 8 outputs of a pixel.
 *     f16, bf16   m16n8k16
 *     e4m3        m16n8k32, sums multiplied by the scales of output and pixel
 *     tf32        m16n8k8, operands rounded to 10 bits of mantissa
 *     f32         each operand is split into a sum of two tf32 values, three products: float32 accuracy (to 2^-21) */
#ifndef ZN_CONV_TILE_CUH
#define ZN_CONV_TILE_CUH

#include "common.cuh"

enum kind { F16, BF16, TF32, F32, E4M3 };
enum { THREADS = 256 }; /* of a block */
template <kind K> struct kind_of {
    typedef float type;
};
template <> struct kind_of<F16> {
    typedef f16 type;
};
template <> struct kind_of<BF16> {
    typedef bf16 type;
};
template <> struct kind_of<E4M3> {
    typedef unsigned char type;
};

#if __CUDA_ARCH__ >= 800

/* 32 bytes of k: MT x NT tiles of 16x8. */
template <kind K, int MT, int NT>
__device__ __forceinline__ void multiply(float (&acc)[MT][NT][4], unsigned (&a)[MT][4], unsigned (&b)[NT][2])
{
    if (K == E4M3) {
#if __CUDA_ARCH__ >= 890
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < NT; j++)
                asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                    "{%0, %1, %2, %3};"
                    : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                    : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
#endif
    } else if (K == F16 || K == BF16) {
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

/* Do pixels begin at multiples of V elements, 16 bytes at most? */
template <int V> __device__ __forceinline__ bool aligned(const zn_tensor &t)
{
    const unsigned size = t.type == ZN_F32 ? 4 : 2, bytes = V * size < 16 ? V * size : 16;

    return ((size_t)t.data | (size_t)t.ld * size) % bytes == 0;
}

/* Are V outputs stored at once? */
template <int V> __device__ __forceinline__ bool in_vectors(const zn_cuda_conv &a)
{
    return a.cout % V == 0 && aligned<V>(a.y) && (!a.tail.residual.data || aligned<V>(a.tail.residual));
}

/* sum += V floats, 16-byte aligned */
template <int V> __device__ __forceinline__ void add_vector(float (&sum)[V], const float *from)
{
#pragma unroll
    for (int i = 0; i < V; i += 4) {
        const float4 q = *(const float4 *)(from + i);

        sum[i] += q.x, sum[i + 1] += q.y, sum[i + 2] += q.z, sum[i + 3] += q.w;
    }
}

/* V elements of t from element i on, in one load. */
__device__ __forceinline__ void load_vector(float (&v)[8], const zn_tensor &t, size_t i)
{
    raw<8> r;

    fetch(r, t, i);
    widen(v, r, t.type);
}

__device__ __forceinline__ void load_vector(float (&v)[4], const zn_tensor &t, size_t i)
{
    if (t.type == ZN_F32) {
        const float4 q = *(const float4 *)(t.data + i);

        v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
    } else {
        const uint2 q = *(const uint2 *)((const f16 *)(const void *)t.data + i);
        const float2 lo = t.type == ZN_F16 ? unpack2<f16>(q.x) : unpack2<bf16>(q.x);
        const float2 hi = t.type == ZN_F16 ? unpack2<f16>(q.y) : unpack2<bf16>(q.y);

        v[0] = lo.x, v[1] = lo.y, v[2] = hi.x, v[3] = hi.y;
    }
}

__device__ __forceinline__ void put(const zn_tensor &t, size_t i, const float (&v)[4])
{
    if (t.type == ZN_F32)
        *(float4 *)(t.data + i) = make_float4(v[0], v[1], v[2], v[3]);
    else
        *(uint2 *)((f16 *)(void *)t.data + i) = t.type == ZN_F16
            ? make_uint2(pack2<f16>(v[0], v[1]), pack2<f16>(v[2], v[3]))
            : make_uint2(pack2<bf16>(v[0], v[1]), pack2<bf16>(v[2], v[3]));
}

/* The residual of V outputs from o on of pixel p; zeros if there is none. */
template <int V>
__device__ __forceinline__ void residual_of(float (&r)[V], const zn_cuda_conv &a, size_t p, int o, bool at_once)
{
    const zn_tensor &residual = a.tail.residual;

#pragma unroll
    for (int i = 0; i < V; i++)
        r[i] = 0;
    if (residual.data && at_once) {
        load_vector(r, residual, p * residual.ld + o);
    } else if (residual.data) {
#pragma unroll
        for (int i = 0; i < V; i++)
            if (o + i < a.cout)
                r[i] = load_any(residual, p * residual.ld + o + i);
    }
}

/* Stores V outputs of pixel p, from output o on.  What is beyond cout is dropped. */
template <int V>
__device__ __forceinline__ void store_results(const zn_cuda_conv &a, const float (&v)[V], size_t p, int o, bool at_once)
{
    if (at_once) {
        put(a.y, p * a.y.ld + o, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        if (o + i < a.cout)
            store_any(a.y, p * a.y.ld + o + i, v[i]);
}

/* V sums of pixel p, from output o: bias, tail, store. */
template <int V>
__device__ __forceinline__ void finish(const zn_cuda_conv &a, float (&v)[V], size_t p, int o, bool at_once)
{
    float r[V];

    residual_of(r, a, p, o, at_once);
    add_vector(v, a.bias + o); /* padded to a multiple of 64 */
    activate_all(a.tail.pre, v);
#pragma unroll
    for (int i = 0; i < V; i++)
        v[i] = r[i] + a.tail.gain * v[i];
    activate_all(a.tail.post, v);
    store_results(a, v, p, o, at_once);
}

/* Sums in registers: a thread's elements of NT tiles of D are 2 NT neighbouring outputs of a pixel, if row r of the
 * 8 NT rows of weights of a warp is output straight<NT>(r). */
template <int NT> __device__ __forceinline__ int straight(int r) { return r % 8 / 2 * (2 * NT) + r / 8 * 2 + r % 2; }

/* e4m3: a thread's sums times the scales of their outputs, from o on, and pixels, from `first` on. */
template <int MT, int NT>
__device__ __forceinline__ void scale_sums(const zn_cuda_conv &a, float (&acc)[MT][NT][4], size_t first, size_t pixels,
                                           int o)
{
    enum { V = 2 * NT };
    const int lane = threadIdx.x % 32, mine = o + lane % 4 * V;

#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const size_t p = first + 8 * i + lane / 4;
        const float x = a.scale_x && p < pixels ? a.scale_x[p] : 1.f;

#pragma unroll
        for (int k = 0; k < V; k++)
            acc[i / 2][k / 2][i % 2 * 2 + k % 2] *= a.scale8[mine + k] * x;
    }
}

/* The epilogue from registers (zn_cuda_conv.direct): pixels from `first` on, outputs from o on. */
template <int MT, int NT>
__device__ __forceinline__ void finish_direct(const zn_cuda_conv &a, float (&acc)[MT][NT][4], size_t first,
                                              size_t pixels, int o)
{
    enum { V = 2 * NT };
    const int lane = threadIdx.x % 32, mine = o + lane % 4 * V;
    const bool pre = a.tail.pre == ZN_RELU, post = a.tail.post == ZN_RELU;
    float bias[V] = {};

    if (mine >= a.cout)
        return;
    add_vector(bias, a.bias + mine);
#pragma unroll
    for (int i = 0; i < 2 * MT; i++)
#pragma unroll
        for (int k = 0; k < V; k++) {
            float &sum = acc[i / 2][k / 2][i % 2 * 2 + k % 2];

            sum += bias[k];
            sum = a.tail.gain * (!pre || sum > 0 ? sum : 0);
        }
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        size_t p = first + 8 * i + lane / 4;
        float v[V];

        asm volatile("" : "+l"(p)); /* no addresses are computed before here: there are no registers for them */
        if (p >= pixels)
            return;
        residual_of(v, a, p, mine, true);
#pragma unroll
        for (int k = 0; k < V; k++) {
            v[k] += acc[i / 2][k / 2][i % 2 * 2 + k % 2];
            v[k] = !post || v[k] > 0 ? v[k] : 0;
        }
        put(a.y, p * a.y.ld + mine, v);
    }
}

/* Stores MT x NT products of a warp at (row, col) of a tile of floats in shared memory, `pitch` floats a row.  The
 * weights' rows are in the order of straight<NT>, or unchanged. */
template <bool STRAIGHT, int MT, int NT>
__device__ __forceinline__ void spill(float *out, int pitch, int row, int col, const float (&acc)[MT][NT][4])
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            const int at = STRAIGHT ? lane % 4 * (2 * NT) + 2 * j : 8 * j + lane % 4 * 2;
            float *to = out + (row + 16 * i + lane / 4) * pitch + col + at;

            *(float2 *)to = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)(to + 8 * pitch) = make_float2(acc[i][j][2], acc[i][j][3]);
        }
}

/* The epilogue from shared memory: sums the tiles that KS groups of warps have spilled, one after another; a thread stores
 * 8 outputs of a pixel.  Pixels from `first` on, outputs from o on. */
template <int BM, int BN, int KS>
__device__ __forceinline__ void finish_spilled(const zn_cuda_conv &a, const float *out, int pitch, size_t first,
                                               size_t pixels, int o, bool at_once)
{
    for (int i = (int)threadIdx.x; i < BM * (BN / 8); i += THREADS) {
        const int row = i / (BN / 8), col = i % (BN / 8) * 8;
        float sum[8] = {};

        if (first + row >= pixels || o + col >= a.cout)
            continue;
#pragma unroll
        for (int g = 0; g < KS; g++)
            add_vector(sum, out + (g * BM + row) * pitch + col);
        finish(a, sum, first + row, o + col, at_once);
    }
}

/* The fragments of 32 bytes of k: MT x 16 rows of x, NT x 8 of w; at_x and at_w give the addresses of a row's 16 bytes. */
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
