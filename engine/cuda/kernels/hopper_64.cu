/* SPDX-License-Identifier: MIT */
/* hopper_64.cu - 3x3 convolutions of 64 to 64 channels with wgmma and TMA (sm_90a); taps that are merged.  See hopper.cu. */
#include "hopper_tail.cuh"

/* ---- 3x3, 64 to 64 channels, weights stay in shared memory -------------------------------------------------------- */

/* With up2, the nine taps of an output fall on four pixels of x, and its parity decides on which:
 * slot [row parity][column parity][a][b] is the sum of the taps that fall on pixel (a, b) of those.  Here: 8 inputs of a slot;
 * weight is their first tap, taps are `pitch` elements apart. */
template <class T> __device__ __forceinline__ uint4 sum_taps(const T *weight, int pitch, int slot)
{
    const int py = slot >> 3, px = slot >> 2 & 1, a = slot >> 1 & 1, b = slot & 1;
    const int u0 = a ? 1 + py : 0, u1 = a ? 2 : py, v0 = b ? 1 + px : 0, v1 = b ? 2 : px;
    float sum[8] = { 0 };

    for (int u = u0; u <= u1; u++)
        for (int v = v0; v <= v1; v++) {
            const uint4 q = *(const uint4 *)(weight + (u * 3 + v) * pitch);
            const uint32_t word[4] = { q.x, q.y, q.z, q.w };

#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 f = unpack2<T>(word[j]);

                sum[2 * j] += f.x;
                sum[2 * j + 1] += f.y;
            }
        }
    return make_uint4(pack_pair<T>(sum[0], sum[1]), pack_pair<T>(sum[2], sum[3]), pack_pair<T>(sum[4], sum[5]),
                      pack_pair<T>(sum[6], sum[7]));
}

template <class T> __device__ __forceinline__ void sum_weights(uint32_t to, const void *weight)
{
    for (int i = threadIdx.x; i < 16 * 64 * 8; i += blockDim.x) {
        const int piece = i & 7, o = i >> 3 & 63, slot = i >> 9;
        const uint4 sum = sum_taps((const T *)weight + o * 576 + piece * 8, 64, slot);

        asm volatile(
            "st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + slot * 8192 + o * 128 + ((piece ^ o & 7) << 4)),
            "r"(sum.x), "r"(sum.y), "r"(sum.z), "r"(sum.w)
            : "memory");
    }
    fence_async();
}

template <class T, int rows, bool up> __device__ __forceinline__ void conv64(const zn_hopper_conv64 &a)
{
    const int N = rows * 8, taps = up ? 4 : 9, parities = up ? 4 : 1;
    const int pitch = ZN_HOPPER_PITCH(8), copy = ZN_HOPPER_COPY(8, rows);
    layout s = lay_out(parities * taps * 8192, 1, a.stages, ZN_HOPPER_HALO(8, rows), 0, 0, 4, 4, N);
    ring &x = s.ring[0];
    const int wg = s.out.wg;

    if (up)
        sum_weights<T>(s.fixed, a.weight);
    __syncthreads();

    if (wg == ZN_HOPPER_WARPGROUPS) {
        if (threadIdx.x % 128 != 0)
            return;
        if (!up)
            for (int t = 0; t < 9; t++) {
                barrier_expect(s.once + 8 * t, 8192);
                load_2d(s.fixed + t * 8192, &a.w, s.once + 8 * t, t * 64, 0);
            }
        x.phase = 1;
        for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x, ring_next(x)) {
            const int row = tile / a.tiles_x, x0 = tile % a.tiles_x * 8 - 1;
            const int y0 = row % a.tiles_y * rows - 1, n = row / a.tiles_y;

            barrier_wait(ring_empty(x), x.phase);
            barrier_expect(ring_full(x), copy);
            load_4d(ring_data(x), &a.x, ring_full(x), 0, x0, y0, n);
        }
        return;
    }

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const float b0 = a.tail.bias[warp * 16 + lane / 4], b1 = a.tail.bias[warp * 16 + lane / 4 + 8];
    const uint64_t weights = describe(s.fixed, 1024);
    float d[N / 2];
    bool first = !up;

    x.stage = wg;
    for (int tile = blockIdx.x + wg * gridDim.x; tile < a.tiles; tile += ZN_HOPPER_WARPGROUPS * gridDim.x) {
        const int row = tile / a.tiles_x;
        const place p = { 0, tile % a.tiles_x * 8, row % a.tiles_y * rows, row / a.tiles_y, 8 };
        const uint64_t pixels = describe(ring_data(x), pitch * 128);

#pragma unroll 1
        for (int parity = 0; parity < parities; parity++) {
            const int py = parity >> 1, px = parity & 1;

            if (a.tail.residual)
                residual_begin<N>(s.out, &a.residual, p);
            if (parity == 0)
                barrier_wait(ring_full(x), x.phase);
            if (rows > 8 && first)
                for (int t = 0; t < taps; t++)
                    barrier_wait(s.once + 8 * t, 0);
            products_begin();
#pragma unroll
            for (int t = 0; t < taps; t++) {
                const uint64_t pixel = up ? tap_at(py + t / 2, px + t % 2, pitch) : tap_at(t / 3, t % 3, pitch);
                const uint64_t slot = weights + (parity * taps + t) * (8192 >> 4);

                if (!up && rows <= 8) { /* few tiles: start before all weights are there */
                    barrier_wait(s.once + 8 * t, 0);
                    products_begin();
                }
#pragma unroll
                for (int k = 0; k < 4; k++)
                    product(T(), d, slot + k * 2, pixels + pixel + k * 2, t + k > 0);
            }
            products_commit();
            products_wait<0>(d);
            if (parity == parities - 1 && lane == 0)
                barrier_arrive(ring_empty(x));
            finish<T, N>(d, s.out, &a.y[parity], &a.residual, a.tail, 1.f, 1.f, b0, b1, p);
        }
        first = false;
        ring_next(x, ZN_HOPPER_WARPGROUPS);
    }
    if (threadIdx.x % 128 == 0)
        stores_done();
}

#define CONV64(type, rows, suffix, up)                                                                                 \
    extern "C" __global__ void __launch_bounds__(ZN_HOPPER_THREADS(0), 1)                                              \
        hopper_conv64_##type##_##rows##suffix(const __grid_constant__ zn_hopper_conv64 a)                              \
    {                                                                                                                  \
        conv64<type, rows, up>(a);                                                                                     \
    }
#define CONV64S(rows)                                                                                                  \
    CONV64(f16, rows, , false)                                                                                         \
    CONV64(f16, rows, _up, true)                                                                                       \
    CONV64(bf16, rows, , false)                                                                                        \
    CONV64(bf16, rows, _up, true)
CONV64S(4)
CONV64S(8)
CONV64S(16)

/* ---- weights of hopper_conv3 with up2 ---------------------------------------------------------------------------------- */

template <class T> __device__ __forceinline__ void merge(const zn_hopper_merge &a)
{
    const uint32_t i = blockIdx.x * 256 + threadIdx.x, per_slot = a.cin_pad / 8, row = i / per_slot;
    const uint32_t piece = i - row * per_slot, o = row / 16, slot = row % 16;

    after_previous();
    if (i < a.n)
        ((uint4 *)a.to)[i] = sum_taps((const T *)a.from + (size_t)o * a.k_pad + piece * 8, a.cin_pad, slot);
}

extern "C" __global__ void __launch_bounds__(256) hopper_merge_f16(const zn_hopper_merge a) { merge<f16>(a); }
extern "C" __global__ void __launch_bounds__(256) hopper_merge_bf16(const zn_hopper_merge a) { merge<bf16>(a); }
