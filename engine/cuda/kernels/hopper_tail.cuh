/* SPDX-License-Identifier: MIT */
/* hopper_tail.cuh - what hopper.cu and hopper_64.cu share: the epilogue, and the layout of a block's shared memory. */
#ifndef ZN_HOPPER_TAIL_CUH
#define ZN_HOPPER_TAIL_CUH

#include "hopper.cuh"

/* ---- the epilogue: bias, activations, residual, store ----------------------------------------------------------- */

/* v[from .. from+15] = act(v).  All smooth activations but GELU are one formula,
 *     (x or 1) * (rise / (1 + exp(-x (slope + cube x^2))) + foot);
 * GELU's erf is Abramowitz and Stegun 7.1.26, off by at most 1.5e-7. */
template <int N> __device__ __forceinline__ void activate_16(float (&v)[N], int from, int act)
{
    if (act == ZN_NONE)
        return;
    if (act == ZN_RELU) {
#pragma unroll
        for (int i = from; i < from + 16; i++)
            v[i] = fmaxf(v[i], 0.f);
    } else if (act == ZN_LRELU) {
#pragma unroll
        for (int i = from; i < from + 16; i++)
            v[i] = fmaxf(v[i], 0.2f * v[i]);
    } else if (act == ZN_CLAMP) {
#pragma unroll
        for (int i = from; i < from + 16; i++)
            v[i] = fminf(fmaxf(v[i], -1.f), 1.f);
    } else if (act == ZN_GELU) {
#pragma unroll
        for (int i = from; i < from + 16; i++) {
            const float x = v[i], z = fabsf(x) * 0.70710678f, t = __fdividef(1.f, 1.f + 0.3275911f * z);
            const float poly =
                ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;

            v[i] = 0.5f * x * (1.f + copysignf(1.f - poly * __expf(-z * z), x));
        }
    } else {
        const float slope = act == ZN_TANH ? 2.f
            : act == ZN_SOFTCLAMP          ? 2.f / 3
            : act == ZN_GELU_TANH          ? 1.59576912f
                                           : 1.f;
        const float cube = act == ZN_GELU_TANH ? 1.59576912f * 0.044715f : 0.f;
        const float rise = act == ZN_TANH ? 2.f : act == ZN_SOFTCLAMP ? 6.f : 1.f;
        const float foot = act == ZN_TANH ? -1.f : act == ZN_SOFTCLAMP ? -3.f : 0.f;
        const bool times = act == ZN_SILU || act == ZN_GELU_TANH;

#pragma unroll
        for (int i = from; i < from + 16; i++) {
            const float x = v[i], s = __fdividef(rise, 1.f + __expf(-x * (slope + cube * x * x))) + foot;

            v[i] = times ? x * s : s;
        }
    }
}

/* Where a warpgroup's pixels are in y: pixel i at (x + i % tw, y + i / tw) of image n, channels c .. c+63. */
struct place {
    int c, x, y, n, tw;
};

/* A warpgroup's two output buffers of up to 64 pixels; chunk `count` is in buffer count % 2. */
struct outlet {
    uint32_t buffer, barrier, count;
    int wg, size; /* size: bytes of a buffer */
};

__device__ __forceinline__ void load_residual(const outlet &o, uint32_t count, const zn_hopper_map *map, place p,
                                              int first)
{
    const uint32_t bar = o.barrier + (count & 1) * 8;

    barrier_expect(bar, o.size);
    load_4d(o.buffer + (count & 1) * o.size, map, bar, p.c, p.x + first % p.tw, p.y + first / p.tw, p.n);
}

/* Before the products: loads the first two chunks of the residual. */
template <int N> __device__ __forceinline__ void residual_begin(const outlet &o, const zn_hopper_map *residual, place p)
{
    const int chunk = N < 64 ? N : 64;

    if (threadIdx.x % 128 == 0) {
        stores_read<1>();
        load_residual(o, o.count, residual, p, 0);
        if (N > chunk) {
            stores_read<0>();
            load_residual(o, o.count + 1, residual, p, chunk);
        }
    }
    __syncwarp();
}

/* t.also = ReLU(y) for a chunk of y that is complete in shared memory, 16 bytes at a time. */
template <class T>
__device__ __forceinline__ void put_also(uint32_t buffer, const zn_hopper_tail &t, place p, int first, int chunk)
{
#pragma unroll 1
    for (int k = threadIdx.x % 128; k < chunk * 8; k += 128) {
        const int i = k / 8, piece = k % 8;
        const int x = p.x + (first + i) % p.tw, y = p.y + (first + i) / p.tw, c = p.c + piece * 8;
        uint32_t r[4];

        if (x >= t.w || y >= t.h || c >= t.c)
            continue;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(buffer + i * 128 + ((piece ^ i % 8) << 4))
                     : "memory");
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 f = unpack2<T>(r[j]);

            r[j] = pack_pair<T>(f.x > 0 ? f.x : 0, f.y > 0 ? f.y : 0);
        }
        *(uint4 *)(t.also + (((size_t)p.n * t.h + y) * t.w + x) * t.also_ld + c) = make_uint4(r[0], r[1], r[2], r[3]);
    }
}

/* y = post(residual + gain * pre(s * v + b)) for N pixels of 64 channels, s0 and b0, s1 and b1 of this thread's two. */
template <class T, int N>
__device__ __forceinline__ void finish(float (&v)[N / 2], outlet &o, const zn_hopper_map *y,
                                       const zn_hopper_map *residual, const zn_hopper_tail &t, float s0, float s1,
                                       float b0, float b1, place p)
{
    const int chunk = N < 64 ? N : 64;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool leader = threadIdx.x % 128 == 0;
    /* Lane l gives the address of row l % 8 of 8x8 matrix l / 8 of four: two of channels, then the next 8 pixels. */
    const int row = lane % 8 + lane / 16 * 8, piece = warp * 2 + lane / 8 % 2;

#pragma unroll
    for (int first = 0; first < N; first += chunk) {
        const uint32_t buffer = o.buffer + (o.count & 1) * o.size;

        if (t.residual) {
            barrier_wait(o.barrier + (o.count & 1) * 8, o.count >> 1 & 1);
        } else {
            if (leader)
                stores_read<1>();
            __syncwarp();
            warpgroup_sync(o.wg);
        }
#pragma unroll
        for (int from = first / 2; from < (first + chunk) / 2; from += 16) { /* 32 pixels: fewer registers */
            const uint32_t at = buffer + (from * 2 - first + row) * 128 + ((piece ^ lane % 8) << 4);
            uint32_t r[8];

            if (t.residual) {
#pragma unroll
                for (int i = 0; i < 8; i += 4)
                    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(r[i]), "=r"(r[i + 1]), "=r"(r[i + 2]), "=r"(r[i + 3])
                                 : "r"(at + i * 512)
                                 : "memory");
            }
#pragma unroll
            for (int i = from; i < from + 16; i += 4) {
                float2 x = make_float2(1.f, 1.f);

                if (t.scale_x)
                    x = *(const float2 *)(t.scale_x + p.x + 2 * i + lane % 4 * 2);
                v[i] = v[i] * (s0 * x.x) + b0, v[i + 1] = v[i + 1] * (s0 * x.y) + b0;
                v[i + 2] = v[i + 2] * (s1 * x.x) + b1, v[i + 3] = v[i + 3] * (s1 * x.y) + b1;
            }
#pragma unroll 1
            for (int again = 0; again < 2; again++) { /* a loop, so that the long code of the activations exists once */
                activate_16(v, from, again ? t.post : t.pre);
                if (again)
                    break;
                if (t.gain != 1.f) {
#pragma unroll
                    for (int i = from; i < from + 16; i++)
                        v[i] *= t.gain;
                }
                if (t.residual) {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        const float2 f = unpack2<T>(r[i]);

                        v[from + 2 * i] += f.x;
                        v[from + 2 * i + 1] += f.y;
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                r[i] = pack_pair<T>(v[from + 2 * i], v[from + 2 * i + 1]);
#pragma unroll
            for (int i = 0; i < 8; i += 4)
                asm volatile(
                    "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at + i * 512),
                    "r"(r[i]), "r"(r[i + 1]), "r"(r[i + 2]), "r"(r[i + 3])
                    : "memory");
        }
        if (t.residual && first > 0 && first + chunk < N && leader) { /* of the next chunk */
            stores_read<0>();
            load_residual(o, o.count + 1, residual, p, first + chunk);
        }
        fence_async();
        __syncwarp();
        warpgroup_sync(o.wg);
        if (leader)
            store_4d(y, buffer, p.c, p.x + first % p.tw, p.y + first / p.tw, p.n);
        __syncwarp();
        if (t.also) {
            put_also<T>(buffer, t, p, first, chunk);
            warpgroup_sync(o.wg); /* all have read the buffer before a residual is loaded into it */
        }
        o.count++;
    }
}

__device__ __forceinline__ void ring_skip(ring &r, int by)
{
    for (r.stage += by; r.stage >= r.stages; r.phase ^= 1)
        r.stage -= r.stages;
}

/* The layout of a block's shared memory: a fixed part, up to two rings, output buffers, mbarriers.  A buffer of the first ring
 * is full after `fillers` arrivals; the fixed part may be a ring of two buffers for the fillers. */
struct layout {
    uint32_t fixed, once;
    ring ring[2];
    outlet out;
};

__device__ __forceinline__ layout lay_out(int fixed, int fillers, int stages0, int size0, int stages1, int size1,
                                          int releases0, int releases1, int n)
{
    extern __shared__ char memory[];
    const int out = (n < 64 ? n : 64) * 128, wg = __shfl_sync(~0u, threadIdx.x / 128, 0);
    const uint32_t begin = (shared_address(memory) + 1023) & ~1023u, data0 = begin + fixed,
                   data1 = data0 + stages0 * size0;
    const uint32_t outs = data1 + stages1 * size1, bars = outs + ZN_HOPPER_WARPGROUPS * 2 * out;
    const uint32_t bars1 = bars + 16 * ZN_HOPPER_MAX_STAGES, residual = bars1 + 16 * ZN_HOPPER_MAX_STAGES;
    const uint32_t once = residual + ZN_HOPPER_WARPGROUPS * 16;

    if (threadIdx.x == 0) {
        for (int i = 0; i < ZN_HOPPER_MAX_STAGES; i++) {
            barrier_init(bars + 8 * i, fillers);
            barrier_init(bars + 8 * (ZN_HOPPER_MAX_STAGES + i), releases0);
            barrier_init(bars1 + 8 * i, 1);
            barrier_init(bars1 + 8 * (ZN_HOPPER_MAX_STAGES + i), releases1);
        }
        for (int i = 0; i < ZN_HOPPER_WARPGROUPS * 2; i++)
            barrier_init(residual + 8 * i, 1);
        for (int i = 0; i < 9; i++)
            barrier_init(once + 8 * i, i / 2 == 1 ? fillers : 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_async();
    }
    after_previous();
    return { begin,
             once,
             { { data0, bars, bars + 8 * ZN_HOPPER_MAX_STAGES, stages0, size0, 0, 0 },
               { data1, bars1, bars1 + 8 * ZN_HOPPER_MAX_STAGES, stages1, size1, 0, 0 } },
             { outs + wg * 2 * out, residual + wg * 16, 0, wg, out } };
}

#endif
