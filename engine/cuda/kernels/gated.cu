/* SPDX-License-Identifier: MIT */
/* gated.cu - gated residual blocks: in steps, for any type and number of channels, with FMAs; and fused
 * (gated_tile.cuh), for up to 384 channels, on tensor cores.
 *
 *   x, with a halo of one pixel --norm--> --pw1--> wide --dw, halves multiplied--> g --pw2--(+x)--> v
 *   v --norm--> --pw3, halves multiplied--> g --pw4--(+v)--> y */
#include "gated_tile.cuh"

/* ---- in steps ------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ size_t at_pixel(const zn_cuda_rect &r, int p)
{
    return (size_t)(p / r.w) * (size_t)r.row + (size_t)(p % r.w) * (size_t)r.ld;
}

__device__ __forceinline__ float load_rect(const zn_cuda_rect &r, size_t i)
{
    switch (r.type) {
    case ZN_F16: return to_float(((const f16 *)r.data)[i]);
    case ZN_BF16: return to_float(((const bf16 *)r.data)[i]);
    default: return ((const float *)r.data)[i];
    }
}

__device__ __forceinline__ void store_rect(const zn_cuda_rect &r, size_t i, float x)
{
    switch (r.type) {
    case ZN_F16: ((f16 *)r.data)[i] = from_float<f16>(x); break;
    case ZN_BF16: ((bf16 *)r.data)[i] = from_float<bf16>(x); break;
    default: ((float *)r.data)[i] = x;
    }
}

/* A block of 128 threads computes 128 pixels x BN outputs, each thread 8 x TN of them, from slices of 16 channels in
 * shared memory; the next slice is loaded while this one is multiplied.  With a gate, the lower half of the BN
 * columns are outputs and the upper half their partners, so that a thread has both. */
template <int TN> struct product {
    static constexpr int BM = 128, BN = 8 * TN, BK = 16, LD_A = BM + 4, LD_B = BN + 4;

    const zn_cuda_gated_mm &a;
    int tid, tx, ty, p0, n0;
    float mean[4], inv[4]; /* of the pixels that this thread loads */
    float4 next_a[4];
    float2 next_b[TN / 2];
    float acc[8][TN];

    /* Column j of a thread: vectors of 4 if TN is 8, else every eighth. */
    __device__ __forceinline__ int column(int j) const { return TN == 8 ? j / 4 * 32 + tx * 4 + j % 4 : tx + 8 * j; }

    __device__ __forceinline__ int row(int i) const { return i / 4 * 64 + ty * 4 + i % 4; }

    __device__ __forceinline__ size_t source(int r) const { return at_pixel(a.x, min(p0 + r, a.pixels - 1)); }

    /* Mean and 1 / standard deviation of the 128 pixels, 8 threads for each, into stats. */
    __device__ __forceinline__ void statistics(float2 *stats) const
    {
        for (int r = tid / 8; r < BM; r += 16) {
            const size_t from = source(r);
            float sum = 0, square = 0, m;

            if (a.vec_x)
                for (int k = tid % 8 * 4; k < a.c; k += 32) {
                    float4 x = *(const float4 *)((const float *)a.x.data + from + k);

                    sum += (x.x + x.y) + (x.z + x.w);
                }
            else
                for (int k = tid % 8; k < a.c; k += 8)
                    sum += load_rect(a.x, from + k);
            m = sum_lanes(sum, 8) / (float)a.c;
            if (a.vec_x)
                for (int k = tid % 8 * 4; k < a.c; k += 32) {
                    float4 x = *(const float4 *)((const float *)a.x.data + from + k);

                    square += ((x.x - m) * (x.x - m) + (x.y - m) * (x.y - m)) +
                        ((x.z - m) * (x.z - m) + (x.w - m) * (x.w - m));
                }
            else
                for (int k = tid % 8; k < a.c; k += 8) {
                    float x = load_rect(a.x, from + k) - m;

                    square += x * x;
                }
            square = sum_lanes(square, 8);
            if (tid % 8 == 0)
                stats[r] = make_float2(m, 1.f / sqrtf(square / (float)a.c + a.eps));
        }
    }

    /* Channels k0 .. k0+15 into registers: this thread's 4 of 4 pixels, its 2 of TN / 2 outputs. */
    __device__ __forceinline__ void fetch_slice(const size_t (&from)[4], int k0)
    {
        const int k = k0 + tid % 4 * 4;

#pragma unroll
        for (int i = 0; i < 4; i++) {
            float v[4] = { 0, 0, 0, 0 };

            if (a.vec_x) {
                if (k < a.c) {
                    float4 x = *(const float4 *)((const float *)a.x.data + from[i] + k);

                    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
                }
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (k + j < a.c)
                        v[j] = load_rect(a.x, from[i] + k + j);
            }
            next_a[i] = make_float4(v[0], v[1], v[2], v[3]);
        }
#pragma unroll
        for (int i = 0; i < TN / 2; i++) {
            int n = tid / 8 + 16 * i, o = n0 + n;

            if (a.gate && n >= BN / 2)
                o += a.gate - BN / 2;
            o = min(o, a.rows - 1);
            next_b[i] = *(const float2 *)(a.weight + (size_t)o * (size_t)a.k_pad + k0 + tid % 8 * 2);
        }
    }

    /* Stores what was loaded to shared memory, normalised; beyond the last channel the weights are 0. */
    __device__ __forceinline__ void put_slice(float (*as)[LD_A], float (*bs)[LD_B]) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = tid / 4 + 32 * i, k = tid % 4 * 4;

            as[k][r] = (next_a[i].x - mean[i]) * inv[i];
            as[k + 1][r] = (next_a[i].y - mean[i]) * inv[i];
            as[k + 2][r] = (next_a[i].z - mean[i]) * inv[i];
            as[k + 3][r] = (next_a[i].w - mean[i]) * inv[i];
        }
#pragma unroll
        for (int i = 0; i < TN / 2; i++) {
            bs[tid % 8 * 2][tid / 8 + 16 * i] = next_b[i].x;
            bs[tid % 8 * 2 + 1][tid / 8 + 16 * i] = next_b[i].y;
        }
    }

    __device__ __forceinline__ void multiply(const float (*as)[LD_A], const float (*bs)[LD_B])
    {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            const float4 lo = *(const float4 *)&as[k][ty * 4], hi = *(const float4 *)&as[k][64 + ty * 4];
            const float x[8] = { lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w };
            float w[TN];

            if (TN == 8) {
                const float4 u = *(const float4 *)&bs[k][tx * 4], v = *(const float4 *)&bs[k][32 + tx * 4];

                w[0] = u.x, w[1] = u.y, w[2] = u.z, w[3] = u.w;
                w[TN - 4] = v.x, w[TN - 3] = v.y, w[TN - 2] = v.z, w[TN - 1] = v.w;
            } else {
#pragma unroll
                for (int j = 0; j < TN; j++)
                    w[j] = bs[k][column(j)];
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    acc[i][j] = fmaf(x[i], w[j], acc[i][j]);
        }
    }

    /* V neighbouring outputs of a pixel. */
    template <int V> __device__ __forceinline__ void store(size_t to, size_t residual, int o, float (&v)[V]) const
    {
        if (V == 4 && a.vec_y) {
            if (o < a.outputs) { /* a multiple of 4 */
                float4 r = make_float4(v[0], v[V - 3], v[V - 2], v[V - 1]);

                if (a.residual.data) {
                    const float4 x = *(const float4 *)((const float *)a.residual.data + residual + o);

                    r.x += x.x, r.y += x.y, r.z += x.z, r.w += x.w;
                }
                *(float4 *)((float *)a.y.data + to + o) = r;
            }
            return;
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            if (o + j < a.outputs)
                store_rect(a.y, to + o + j, v[j] + (a.residual.data ? load_rect(a.residual, residual + o + j) : 0));
    }

    __device__ __forceinline__ void finish() const
    {
        constexpr int V = TN == 8 ? 4 : 1;
        float bias[TN];

#pragma unroll
        for (int j = 0; j < TN; j++) {
            int o = n0 + column(j) + (a.gate && j >= TN / 2 ? a.gate - BN / 2 : 0);

            bias[j] = a.bias[min(o, a.rows - 1)];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int p = p0 + row(i);
            size_t to, residual = 0;

            if (p >= a.pixels)
                continue;
            to = at_pixel(a.y, p);
            if (a.residual.data)
                residual = at_pixel(a.residual, p);
#pragma unroll
            for (int j = 0; j < TN; j += V) {
                float v[V];

                if (a.gate && j >= TN / 2)
                    continue;
#pragma unroll
                for (int e = 0; e < V; e++) {
                    v[e] = acc[i][j + e] + bias[j + e];
                    if (a.gate)
                        v[e] *= acc[i][(j + e + TN / 2) % TN] + bias[(j + e + TN / 2) % TN];
                }
                store<V>(to, residual, n0 + column(j), v);
            }
        }
    }

    __device__ __forceinline__ void run(float (*as)[BK][LD_A], float (*bs)[BK][LD_B], float2 *stats)
    {
        const int across = a.gate ? BN / 2 : BN, tiles = (a.outputs + across - 1) / across;
        size_t from[4];

        tid = (int)threadIdx.x, tx = tid % 8, ty = tid / 8;
        p0 = (int)(blockIdx.x / (unsigned)tiles) * BM, n0 = (int)(blockIdx.x % (unsigned)tiles) * across;
        if (a.norm) {
            statistics(stats);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            from[i] = source(tid / 4 + 32 * i);
            mean[i] = a.norm ? stats[tid / 4 + 32 * i].x : 0;
            inv[i] = a.norm ? stats[tid / 4 + 32 * i].y : 1;
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
                acc[i][j] = 0;
        fetch_slice(from, 0);
        put_slice(as[0], bs[0]);
        __syncthreads();
        for (int k = 0, now = 0; k < a.c; k += BK, now ^= 1) {
            if (k + BK < a.c)
                fetch_slice(from, k + BK);
            multiply(as[now], bs[now]);
            if (k + BK < a.c)
                put_slice(as[now ^ 1], bs[now ^ 1]);
            __syncthreads();
        }
        finish();
    }
};

template <int TN> __device__ __forceinline__ void run_product(const zn_cuda_gated_mm &a)
{
    typedef product<TN> P;
    __shared__ __align__(16) float as[2][P::BK][P::LD_A], bs[2][P::BK][P::LD_B];
    __shared__ float2 stats[P::BM];
    P p = { a };

    p.run(as, bs, stats);
}

extern "C" __global__ void __launch_bounds__(128, 3) gated_mm64_f32(const __grid_constant__ zn_cuda_gated_mm a)
{
    run_product<8>(a);
}

extern "C" __global__ void __launch_bounds__(128, 3) gated_mm48_f32(const __grid_constant__ zn_cuda_gated_mm a)
{
    run_product<6>(a);
}

/* A thread computes a channel of up to 8 pixels of a row; the last three columns stay in registers. */
extern "C" __global__ void __launch_bounds__(256) gated_dw_f32(const __grid_constant__ zn_cuda_gated_dw a)
{
    enum { RUN = 8 };
    const unsigned runs = (unsigned)(a.w + RUN - 1) / RUN;
    const size_t item = (size_t)blockIdx.x * 256 + threadIdx.x;
    const size_t at = quotient(item, (unsigned)a.c), i = quotient(at, runs);
    const int o = (int)(item - at * (unsigned)a.c), j0 = (int)(at - i * runs) * RUN, j1 = min(j0 + RUN, a.w);
    float w[2][9], bias[2], x[2][3][3] = {}; /* half, row, column */

    if (i >= (size_t)a.h)
        return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bias[h] = a.bias[h * a.c + o];
#pragma unroll
        for (int t = 0; t < 9; t++)
            w[h][t] = a.weight[(size_t)t * (size_t)a.pad + h * a.c + o];
    }
    for (int j = j0 - 2; j < j1; j++) { /* loads the column to the right of pixel j */
        const int xj = j + 1 + a.oj;

#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int u = 0; u < 3; u++) {
                const int xi = (int)i + u - 1 + a.oi;

                x[h][u][0] = x[h][u][1];
                x[h][u][1] = x[h][u][2];
                x[h][u][2] = 0;
                if (xi >= 0 && xi < a.xh && xj >= 0 && xj < a.xw)
                    x[h][u][2] = a.x[((size_t)xi * (size_t)a.xw + xj) * 2 * (size_t)a.c + h * a.c + o];
            }
        if (j >= j0) {
            float v[2] = { bias[0], bias[1] };

#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int t = 0; t < 9; t++)
                    v[h] = fmaf(w[h][t], x[h][t / 3][t % 3], v[h]);
            a.y[(i * (size_t)a.w + j) * (size_t)a.c + o] = v[0] * v[1];
        }
    }
}

/* ---- fused ---------------------------------------------------------------------------------------------------- */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

template <class T, int KC, int TH, int MT, int NS, bool STAY>
__device__ __forceinline__ void run_tile(const zn_cuda_gated_tile &a)
{
    extern __shared__ uint4 shared_memory[];
    gated_tile<T, KC, TH, MT, NS, STAY> k = { a };

    k.run((char *)shared_memory);
}

#endif

/* Empty below 8.0, where the host does not launch them. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define ZN_FROM_80(x)
#else
#define ZN_FROM_80(x) x
#endif

/* Up to 16 KC channels, tiles of TH rows, MT rows a warp, NS warps for the same rows, whether weights stay: as in the
 * tables of gated.c. */
#define ZN_GATED(name, T, KC, TH, MT, NS, STAY, blocks)                                                                \
    extern "C" __global__ void __launch_bounds__(32 * TH / MT * NS, blocks)                                            \
        gated_##name(const __grid_constant__ zn_cuda_gated_tile a)                                                     \
    {                                                                                                                  \
        ZN_FROM_80((run_tile<T, KC, TH, MT, NS, STAY>(a)));                                                            \
    }

ZN_GATED(f16_48x8_stay, f16, 3, 8, 2, 1, true, 3)
ZN_GATED(f16_48x8, f16, 3, 8, 2, 1, false, 2)
ZN_GATED(f16_96x8, f16, 6, 8, 2, 2, false, 2)
ZN_GATED(f16_192x8, f16, 12, 8, 2, 2, false, 1)
ZN_GATED(f16_192x4, f16, 12, 4, 1, 2, false, 1)
ZN_GATED(f16_384x4, f16, 24, 4, 1, 2, false, 1)
ZN_GATED(bf16_48x8_stay, bf16, 3, 8, 2, 1, true, 3)
ZN_GATED(bf16_48x8, bf16, 3, 8, 2, 1, false, 2)
ZN_GATED(bf16_96x8, bf16, 6, 8, 2, 2, false, 2)
ZN_GATED(bf16_192x8, bf16, 12, 8, 2, 2, false, 1)
ZN_GATED(bf16_192x4, bf16, 12, 4, 1, 2, false, 1)
ZN_GATED(bf16_384x4, bf16, 24, 4, 1, 2, false, 1)
ZN_GATED(f32_48x8, float, 3, 8, 2, 1, false, 2)
ZN_GATED(f32_96x8, float, 6, 8, 2, 2, false, 1)
ZN_GATED(f32_192x4, float, 12, 4, 1, 2, false, 1)
ZN_GATED(tf32_48x8, tf32, 3, 8, 2, 1, false, 2)
ZN_GATED(tf32_96x8, tf32, 6, 8, 2, 2, false, 1)
ZN_GATED(tf32_192x4, tf32, 12, 4, 1, 2, false, 1)
