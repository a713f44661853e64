/* SPDX-License-Identifier: MIT */
/* hopper_pixels.cu - 3x3 convolutions of 96 to 96 channels with wgmma and TMA (sm_90a), and the RMS norm of their result.
 *
 *   producer thread:  weights, once ──TMA loads──> shared memory
 *                     tiles of x, 64 and 32 channels ──TMA loads──> a buffer each ──full──┐
 *                                        └────────────────empty───────────────────────────┤
 *   two consumer warpgroups, each with every second tile: wgmma <─────────────────────────┘
 *                     └── epilogue in registers ── y, act(norm(y))
 *
 * hopper.cu has outputs as the 64 rows of a wgmma: 96 outputs would fill only three quarters of two such tiles.  Here the rows are
 * pixels and the 96 columns are the outputs of a pixel, so that one warpgroup has all that its norm needs.
 * There is one buffer for each part of x.  It is filled for one warpgroup after the other has read it, so the two alternate: one
 * multiplies while the other runs its epilogue. */
#include "hopper.cuh"
#include "typed.cuh"

enum {
    N = ZN_PIXELS_CHANNELS,
    ROWS = ZN_PIXELS_ROWS, /* of a warpgroup's tile, 8 pixels wide */
    BLOCKS = ROWS / 8,     /* 8x8 pixels of it: one wgmma each */
    PITCH = ZN_HOPPER_PITCH(8),
    VECTORS = N / 32 /* of 8 channels: four lanes share a pixel, and each has so many of it */
};

/* The descriptor of rows of 64 bytes with TMA's 64-byte swizzle, in groups of 8 rows. */
__device__ __forceinline__ uint64_t describe_64(uint32_t address)
{
    return (uint64_t)2 << 62 | (uint64_t)(512 >> 4) << 32 | (uint64_t)1 << 16 | address >> 4;
}

/* Transposes 4x4 words between the four lanes of a pixel: lane q has row q before and column q afterwards. */
__device__ __forceinline__ void transpose_4(uint32_t (&w)[4], int q)
{
#pragma unroll
    for (int by = 1; by <= 2; by *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & by)
                continue;
            const uint32_t got = __shfl_xor_sync(0xffffffffu, q & by ? w[i] : w[i + by], by);

            if (q & by)
                w[i] = got;
            else
                w[i + by] = got;
        }
}

/* 1 / the root mean square of a pixel; lane q has vectors q, q + 4 and q + 8.  The order of the sum is that of norm.cu: the same bits. */
template <class T> __device__ __forceinline__ float inverse_rms(const uint32_t (&w)[VECTORS][4], float eps)
{
    float sum[4] = { 0 };

#pragma unroll
    for (int m = 0; m < VECTORS; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 f = unpack2<T>(w[m][i]);

            sum[m] += f.x * f.x;
            sum[m] += f.y * f.y;
        }
    const float all = sum_lanes((sum[0] + sum[2]) + (sum[1] + sum[3]), 4);

    return rsqrtf(all * (1.f / N) + eps);
}

/* What a lane needs of the vectors that all pixels share: the bias of channels 8 j + 2 q and 8 j + 2 q + 1, where the products
 * leave their sums, and gamma of vectors q, q + 4 and q + 8. */
struct shared_by_pixels {
    float bias[N / 4], gamma[VECTORS][8];

    __device__ __forceinline__ shared_by_pixels(const zn_hopper_pixels &a, int q)
    {
#pragma unroll
        for (int j = 0; j < N / 8; j++) {
            bias[2 * j] = a.bias[8 * j + 2 * q];
            bias[2 * j + 1] = a.bias[8 * j + 2 * q + 1];
        }
#pragma unroll
        for (int m = 0; m < VECTORS; m++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                gamma[m][i] = a.gamma ? a.gamma[(4 * m + q) * 8 + i] : 1.f;
    }
};

/* Where a pixel is in y, and whether it is there at all. */
struct pixel {
    size_t at;
    bool in;

    __device__ __forceinline__ pixel(const zn_hopper_pixels &a, int n, int y, int x)
        : at(((size_t)n * a.height + y) * a.width + x), in(y < a.height && x < a.width)
    {
    }
};

__device__ __forceinline__ void load_residual(uint32_t (&r)[VECTORS][4], const zn_hopper_pixels &a, pixel p, int q)
{
#pragma unroll
    for (int m = 0; m < VECTORS; m++) {
        uint4 v = make_uint4(0, 0, 0, 0);

        if (a.residual && p.in)
            v = *(const uint4 *)(a.residual + p.at * a.residual_ld + (4 * m + q) * 8);
        r[m][0] = v.x, r[m][1] = v.y, r[m][2] = v.z, r[m][3] = v.w;
    }
}

/* Finishes and stores a pixel, the first or second (h) of two whose sums d has: channel 8 j + 2 q is in d[4 j + 2 h], the next one
 * in the next element. */
template <class T>
__device__ __forceinline__ void put_pixel(const zn_hopper_pixels &a, const float (&d)[N / 2], int h,
                                          const shared_by_pixels &c, uint32_t (&r)[VECTORS][4], pixel p, int q)
{
    uint32_t w[VECTORS][4];

#pragma unroll
    for (int m = 0; m < VECTORS; m++) {
        if (a.residual)
            transpose_4(r[m], q);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int j = 4 * m + i;
            const float2 f = unpack2<T>(r[m][i]);

            w[m][i] =
                pack_pair<T>(d[4 * j + 2 * h] + c.bias[2 * j] + f.x, d[4 * j + 2 * h + 1] + c.bias[2 * j + 1] + f.y);
        }
        transpose_4(w[m], q);
        if (p.in && a.y)
            *(uint4 *)(a.y + p.at * a.y_ld + (4 * m + q) * 8) = make_uint4(w[m][0], w[m][1], w[m][2], w[m][3]);
    }
    if (!a.also)
        return;
    const float inv = inverse_rms<T>(w, a.eps);

#pragma unroll
    for (int m = 0; m < VECTORS; m++) {
        float v[8];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 f = unpack2<T>(w[m][i]);

            v[2 * i] = f.x * inv * c.gamma[m][2 * i];
            v[2 * i + 1] = f.y * inv * c.gamma[m][2 * i + 1];
        }
        activate_short((zn_act)a.also_act, v);
        if (p.in)
            *(uint4 *)(a.also + p.at * a.also_ld + (4 * m + q) * 8) = make_uint4(
                pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]), pack_pair<T>(v[4], v[5]), pack_pair<T>(v[6], v[7]));
    }
}

/* Shared memory: weights of all taps, first 64 then 32 inputs; two buffers of x; barriers. */
struct places {
    uint32_t w0, w1, x, full, empty, once;
};

enum { W0 = N * 128, W1 = N * 64, X = ZN_HOPPER_HALO(8, ROWS) };

__device__ __forceinline__ places find_places()
{
    extern __shared__ char memory[];
    const uint32_t begin = (shared_address(memory) + 1023) & ~1023u, x = begin + 9 * (W0 + W1), bars = x + 2 * X;

    return { begin, begin + 9 * W0, x, bars, bars + 4 * 8, bars + 6 * 8 };
}

/* 64 pixels for each of BLOCKS products of one tap, with `parts` times 16 channels. */
template <class T, int parts>
__device__ __forceinline__ void multiply(float (&d)[BLOCKS][N / 2], uint64_t weights, uint64_t pixels, int on)
{
#pragma unroll
    for (int k = 0; k < parts; k++)
#pragma unroll
        for (int p = 0; p < BLOCKS; p++)
            product(T(), d[p], pixels + p * (8 * PITCH * 8) + k * 2, weights + k * 2, on + k > 0);
}

template <class T> __device__ __forceinline__ void conv96(const zn_hopper_pixels &a)
{
    const places s = find_places();
    const int wg = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;

    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) /* of both buffers, for one warpgroup and for the other */
            barrier_init(s.full + 8 * i, 1);
        for (int i = 0; i < 2; i++)
            barrier_init(s.empty + 8 * i, 4);
        for (int tap = 0; tap < 9; tap++)
            barrier_init(s.once + 8 * tap, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_async();
    }
    __syncthreads();
    if (wg == ZN_HOPPER_WARPGROUPS) {
        give_registers<256>();
        if (threadIdx.x % 128 != 0)
            return;
        if (!a.early)
            after_previous();
        for (int tap = 0; tap < 9; tap++) {
            barrier_expect(s.once + 8 * tap, W0 + W1);
            load_2d(s.w0 + tap * W0, &a.w, s.once + 8 * tap, tap * N, 0);
            load_2d(s.w1 + tap * W1, &a.w_rest, s.once + 8 * tap, tap * N + 64, 0);
        }
        if (a.early) /* until now only weights are loaded, which the previous kernel does not write */
            after_previous();
        for (int tile = blockIdx.x, i = 0; tile < a.tiles; tile += gridDim.x, i++) {
            const int row = tile / a.tiles_x, x = tile % a.tiles_x * 8 - 1;
            const int y = row % a.tiles_y * ROWS - a.pad_t, n = row / a.tiles_y;

            for (int c = 0; c < 2; c++) {
                const uint32_t full = s.full + 8 * (2 * (i & 1) + c);

                if (i > 0)
                    barrier_wait(s.empty + 8 * c, i - 1 & 1);
                barrier_expect(full, ZN_HOPPER_COPY(8, ROWS));
                load_4d(s.x + c * X, &a.x, full, c * 64, x, y, n);
            }
        }
        return;
    }

    take_registers<256>();
    const int q = lane % 4;
    const shared_by_pixels c(a, q);
    float d[BLOCKS][N / 2];
    /* Residuals of a pixel and the next one: y may be the residual, so the compiler moves no load before a store. */
    uint32_t r[2][VECTORS][4];

    after_previous();
    for (int tile = blockIdx.x + wg * gridDim.x, i = 0; tile < a.tiles; tile += 2 * gridDim.x, i++) {
        const int row = tile / a.tiles_x, n = row / a.tiles_y;
        const int x = tile % a.tiles_x * 8 + lane / 4, y = row % a.tiles_y * ROWS + warp * 2;
        const uint32_t full = s.full + 8 * (2 * wg);
        const uint64_t pixels = describe(s.x, PITCH * 128), rest = describe(s.x + X, PITCH * 128);

        barrier_wait(full, i & 1);
        if (i == 0)
            for (int tap = 0; tap < 9; tap++)
                barrier_wait(s.once + 8 * tap, 0);
        products_begin();
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            multiply<T, 4>(d, describe(s.w0 + tap * W0, 1024), pixels + tap_at(tap / 3, tap % 3, PITCH), tap);
        products_commit();
        barrier_wait(full + 8, i & 1);
        products_begin();
        multiply<T, 2>(d, describe_64(s.w1), rest + tap_at(0, 0, PITCH), 1);
        products_commit();
        products_wait<1>(d[0]);
        if (lane == 0)
            barrier_arrive(s.empty);
        products_begin();
#pragma unroll
        for (int tap = 1; tap < 9; tap++)
            multiply<T, 2>(d, describe_64(s.w1 + tap * W1), rest + tap_at(tap / 3, tap % 3, PITCH), 1);
        products_commit();
        load_residual(r[0], a, pixel(a, n, y, x), q);
#pragma unroll
        for (int p = 0; p < BLOCKS; p++)
            products_wait<0>(d[p]);
        if (lane == 0)
            barrier_arrive(s.empty + 8);
#pragma unroll
        for (int k = 0; k < 2 * BLOCKS; k++) { /* 8 rows a block, of which the warp has two */
            if (k + 1 < 2 * BLOCKS)
                load_residual(r[(k + 1) % 2], a, pixel(a, n, y + (k + 1) / 2 * 8 + (k + 1) % 2, x), q);
            put_pixel<T>(a, d[k / 2], k % 2, c, r[k % 2], pixel(a, n, y + k / 2 * 8 + k % 2, x), q);
        }
    }
}

extern "C" __global__ void __launch_bounds__(ZN_HOPPER_THREADS(256), 1)
    hopper_pixels_f16(const __grid_constant__ zn_hopper_pixels a)
{
    conv96<f16>(a);
}

extern "C" __global__ void __launch_bounds__(ZN_HOPPER_THREADS(256), 1)
    hopper_pixels_bf16(const __grid_constant__ zn_hopper_pixels a)
{
    conv96<bf16>(a);
}
