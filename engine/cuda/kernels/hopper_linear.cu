/* SPDX-License-Identifier: MIT */
/* hopper_linear.cu - wide linear layers with wgmma and TMA (sm_90a): hopper.cu's product of a pair of blocks without taps,
 * activations and residuals.
 *
 * A cluster of two blocks has 256 or 192 pixels (P) and 2 x 128 rows of weights; each block loads half of the pixels, by
 * multicast, for both.  Rows are outputs; with `glu` 8 rows of a first layer alternate with 8 of a second one, so that a thread has both in
 * its registers: y = SiLU(first) * second. */
#include "hopper.cuh"

enum { ROWS = 128, CHUNK = 8192 };

struct spot {
    int row, pixel;
};

/* `group` tiles of pixels side by side, with all rows, then the next group. */
__device__ __forceinline__ spot find_spot(const zn_hopper_linear &a, int tile, int pixels)
{
    const int per_group = a.group * a.tiles_o, group = tile / per_group, inside = tile % per_group;
    const int width = min(a.group, a.tiles_p - group * a.group);
    spot s;

    s.row = inside / width * 2 * ROWS;
    s.pixel = (group * a.group + inside % width) * pixels;
    return s;
}

/* A chunk of a warpgroup's output: 64 pixels of 64 channels; with glu P / 2 of 32, 64 bytes a pixel. */
template <class In, class T, bool glu, int P>
__device__ __forceinline__ void put_chunk(const typename sums_of<In>::type (&d)[P / 2], int first, uint32_t buffer,
                                          float s0, float s1, float b0, float b1, const float *scale_x, bool swapped)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;

    if (glu) {
#pragma unroll
        for (int from = first / 2; from < first / 2 + P / 4; from += 16) { /* 32 pixels */
            const int row = from * 2 - first + lane;
            uint32_t r[4];

#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int j = from + 4 * i;
                float a0 = (float)d[j], a1 = (float)d[j + 1], c0 = (float)d[j + 2], c1 = (float)d[j + 3];

                if (sizeof(In) == 1) {
                    const float2 x = *(const float2 *)(scale_x + 2 * j + lane % 4 * 2);

                    a0 *= s0 * x.x, a1 *= s0 * x.y, c0 *= s1 * x.x, c1 *= s1 * x.y;
                }
                const float g0 = swapped ? c0 : a0, g1 = swapped ? c1 : a1;

                r[i] = pack_pair<T>(__fdividef(a0 * c0, 1.f + __expf(-g0)), __fdividef(a1 * c1, 1.f + __expf(-g1)));
            }
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             buffer + row * 64 + ((warp ^ row >> 1 & 3) << 4)),
                         "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                         : "memory");
        }
    } else {
        const int row = lane % 8 + lane / 16 * 8, piece = warp * 2 + lane / 8 % 2;

#pragma unroll
        for (int from = first / 2; from < first / 2 + 32; from += 8) { /* 16 pixels */
            uint32_t r[4];

#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int j = from + 4 * i;
                float a0 = (float)d[j], a1 = (float)d[j + 1], c0 = (float)d[j + 2], c1 = (float)d[j + 3];

                if (sizeof(In) == 1) {
                    const float2 x = *(const float2 *)(scale_x + 2 * j + lane % 4 * 2);

                    a0 *= s0 * x.x, a1 *= s0 * x.y, c0 *= s1 * x.x, c1 *= s1 * x.y;
                }
                r[2 * i] = pack_pair<T>(a0 + b0, a1 + b0);
                r[2 * i + 1] = pack_pair<T>(c0 + b1, c1 + b1);
            }
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             buffer + (from * 2 - first + row) * 128 + ((piece ^ lane % 8) << 4)),
                         "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                         : "memory");
        }
    }
}

template <class In, class T, bool glu, int P> __device__ __forceinline__ void linear(const zn_hopper_linear &a)
{
    extern __shared__ char memory[];
    enum { STAGE = (ROWS + P) * 128 };
    const int channels = 128 / sizeof(In), rank = pair_rank(), clusters = gridDim.x / 2, first = blockIdx.x / 2;
    const uint32_t data = (shared_address(memory) + 1023) & ~1023u, outs = data + a.stages * STAGE,
                   bars = outs + ZN_HOPPER_WARPGROUPS * 2 * CHUNK;
    const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    ring r = { data, bars, bars + 8 * ZN_HOPPER_MAX_STAGES, a.stages, STAGE, 0, 0 };

    if (threadIdx.x == 0) {
        for (int i = 0; i < a.stages; i++) {
            barrier_init(r.full + 8 * i, 1);
            barrier_init(r.empty + 8 * i, 2 * 4 * ZN_HOPPER_WARPGROUPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_async();
    }
    after_previous();
    pair_sync();
    if (wg == ZN_HOPPER_WARPGROUPS) {
        give_registers<256>();
        r.phase = 1;
        if (threadIdx.x % 128 == 0)
            for (int tile = first; tile < a.tiles; tile += clusters) {
                const spot s = find_spot(a, tile, P);
                const int row = (s.row + rank * ROWS) / (glu ? 16 : 8), pixel = s.pixel + rank * (P / 2);

                for (int c = 0; c < a.chunks; c++, ring_next(r)) {
                    const uint32_t to = ring_data(r), bar = ring_full(r);

                    barrier_wait(ring_empty(r), r.phase);
                    barrier_expect(bar, STAGE);
                    load_4d(to, &a.w, bar, c * channels, 0, 0, row);
                    load_4d_both(to + (ROWS + rank * (P / 2)) * 128, &a.x, bar, c * channels, pixel, 0, 0);
                }
            }
        pair_sync(); /* the other block may still arrive at a barrier here */
        return;
    }

    take_registers<256>();
    const uint32_t out = outs + wg * 2 * CHUNK;
    const bool leader = threadIdx.x % 128 == 0;
    typename sums_of<In>::type d[P / 2];

    for (int tile = first; tile < a.tiles; tile += clusters) {
        const spot s = find_spot(a, tile, P);
        const int row = s.row + rank * ROWS + wg * 64;
        const int o0 = min(glu ? row / 2 + warp * 8 + lane / 4 : row + warp * 16 + lane / 4, a.outputs - 1);
        const int o1 = glu ? o0 : min(o0 + 8, a.outputs - 1);
        const float s0 = sizeof(In) == 1 ? a.scale_w[o0] : 1.f, s1 = sizeof(In) == 1 ? a.scale_w2[o1] : 1.f;
        const float b0 = glu ? 0.f : a.bias[o0], b1 = glu ? 0.f : a.bias[o1];
        const int wide = glu ? P / 2 : 64;

        multiply_ring<In, true, 1>(d, r, a.chunks, wg * 8192, ROWS * 128, lane);

#pragma unroll
        for (int p = 0; p < P; p += wide) {
            const uint32_t buffer = out + p / wide % 2 * CHUNK;

            if (leader)
                stores_read<1>();
            __syncwarp();
            warpgroup_sync(wg);
            put_chunk<In, T, glu, P>(d, p, buffer, s0, s1, b0, b1, a.scale_x + s.pixel, a.swapped);
            fence_async();
            __syncwarp();
            warpgroup_sync(wg);
            if (leader)
                store_4d(&a.y, buffer, glu ? row / 2 : row, s.pixel + p, 0, 0);
            __syncwarp();
        }
    }
    if (leader)
        stores_done();
    pair_sync();
}

#define LINEAR(name, in, type, glu, pixels)                                                                            \
    extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(ZN_HOPPER_THREADS(256), 1)                        \
        hopper_linear_##name##_##pixels(const __grid_constant__ zn_hopper_linear a)                                    \
    {                                                                                                                  \
        linear<in, type, glu, pixels>(a);                                                                              \
    }
#define LINEARS(name, in, type)                                                                                        \
    LINEAR(name, in, type, false, 256)                                                                                 \
    LINEAR(name, in, type, false, 192)                                                                                 \
    LINEAR(name##_glu, in, type, true, 256)                                                                            \
    LINEAR(name##_glu, in, type, true, 192)
LINEARS(f16, f16, f16)
LINEARS(bf16, bf16, bf16)
LINEARS(e4m3, e4m3, f16)
LINEARS(s8, s8, f16)

/* ---- x of 8 bits, with a scale for each pixel ------------------------------------------------------------------- */

/* The scale of a pixel whose largest element is `most`.  e4m3: a power of two, which rounds nothing. */
__device__ __forceinline__ float scale_for(e4m3, float most)
{
    const float s = most > 0.f ? __uint_as_float((__float_as_uint(most) & 0x7f800000u) - (8u << 23)) : 1.f;

    return most > 448.f * s ? 2.f * s : s;
}

__device__ __forceinline__ float scale_for(s8, float most) { return most > 1e-30f ? most / 127.f : 1.f; }

__device__ __forceinline__ uint32_t four(e4m3, float2 a, float2 b)
{
    uint16_t lo, hi;

    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(lo) : "f"(a.y), "f"(a.x));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(hi) : "f"(b.y), "f"(b.x));
    return (uint32_t)lo | (uint32_t)hi << 16;
}

/* The lowest byte of 1.5 * 2^23 + v is v, rounded. */
__device__ __forceinline__ uint32_t four(s8, float2 a, float2 b)
{
    const float big = 12582912.f;
    const uint32_t lo = __byte_perm(__float_as_uint(a.x + big), __float_as_uint(a.y + big), 0x0040);
    const uint32_t hi = __byte_perm(__float_as_uint(b.x + big), __float_as_uint(b.y + big), 0x0040);

    return __byte_perm(lo, hi, 0x5410);
}

/* 256 threads, up to 8 vectors each. */
template <class Out> __device__ __forceinline__ void quantise_rows(const zn_hopper_quantise_rows &a)
{
    enum { EACH = ZN_HOPPER_ROW / 8 / 256 };
    __shared__ float tops[8];
    const f16 *x = (const f16 *)a.x + (size_t)blockIdx.x * a.ld;
    uint2 *y = (uint2 *)((uint8_t *)a.y + (size_t)blockIdx.x * a.c);
    const uint32_t n = a.c / 8;
    __half2 top = __float2half2_rn(0.f);
    uint4 v[EACH];
    float most;

    after_previous();
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const uint32_t i = threadIdx.x + 256 * k;

        v[k] = i < n ? ((const uint4 *)x)[i] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const uint32_t word[4] = { v[k].x, v[k].y, v[k].z, v[k].w };

#pragma unroll
        for (int j = 0; j < 4; j++)
            top = __hmax2(top, __habs2(*(const __half2 *)&word[j]));
    }
    most = fmaxf(__low2float(top), __high2float(top));
#pragma unroll
    for (int k = 1; k < 32; k *= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, k));
    if (threadIdx.x % 32 == 0)
        tops[threadIdx.x / 32] = most;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; k++)
        most = fmaxf(most, tops[k]);
    const float scale = scale_for(Out(), most), inverse = 1.f / scale;

    if (threadIdx.x == 0)
        a.scale[blockIdx.x] = scale;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const uint32_t i = threadIdx.x + 256 * k, word[4] = { v[k].x, v[k].y, v[k].z, v[k].w };
        float2 f[4];

#pragma unroll
        for (int j = 0; j < 4; j++) {
            f[j] = unpack2<f16>(word[j]);
            f[j].x *= inverse, f[j].y *= inverse;
        }
        if (i < n)
            y[i] = make_uint2(four(Out(), f[0], f[1]), four(Out(), f[2], f[3]));
    }
}

extern "C" __global__ void __launch_bounds__(256)
    hopper_rows_quantise_f16(const __grid_constant__ zn_hopper_quantise_rows a)
{
    quantise_rows<e4m3>(a);
}

extern "C" __global__ void __launch_bounds__(256) hopper_rows_s8_f16(const __grid_constant__ zn_hopper_quantise_rows a)
{
    quantise_rows<s8>(a);
}
