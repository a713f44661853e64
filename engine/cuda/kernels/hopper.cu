/* SPDX-License-Identifier: MIT */
/* hopper.cu - convolutions and matrix products with wgmma and TMA (sm_90a), warp specialised.
 *
 *   producer warp:  image, weights ──TMA loads──> ring in shared memory ──full──┐
 *                                        └──────────────empty───────────────────┤
 *   two consumer warpgroups: wgmma, accumulators in registers <─────────────────┘
 *                   └── epilogue ── 64 pixels x 64 channels in shared memory ──TMA store──> y
 *
 * With e4m3 products x may be quantised in the kernel: three more producer warps read fp16 from a ring of their own.
 * Everything in shared memory is rows of 128 bytes (64 channels of a pixel, or of an output's weights), with TMA's
 * 128-byte swizzle: 16-byte piece i of the row at address a is at piece i ^ (a / 128 % 8). */
#include "hopper_tail.cuh"

/* ---- any convolution without groups -------------------------------------------------------------------------------- */

struct tile_at {
    int o, x, y, n, parity; /* the first output and pixel; parity: up2 */
};

/* Tiles in the order they are computed: `group` of pixels side by side, with all outputs, then the next group. */
__device__ __forceinline__ tile_at find_tile(const zn_hopper_conv &a, int tile, int outputs)
{
    const int pictures = a.tiles_x * a.tiles_y * a.tiles_n, per_group = a.group * a.tiles_o, group = tile / per_group;
    const int inside = tile % per_group, width = min(a.group, pictures - group * a.group);
    const int pixels = group * a.group + inside % width, row = pixels / a.tiles_x, n = row / a.tiles_y;
    tile_at t;

    t.o = inside / width * outputs;
    t.x = pixels % a.tiles_x * a.tw;
    t.y = row % a.tiles_y * a.th;
    t.n = a.up2 ? n >> 2 : n;
    t.parity = a.up2 ? n & 3 : 0;
    return t;
}

/* N pixels for each warpgroup; `split`: the two share 64 outputs and have their own pixels, else the reverse.
 * `pair`: a cluster of two blocks has the same pixels; each loads half of them, by multicast, for both. */
template <class In, class T, int N, bool split, bool pair> __device__ __forceinline__ void conv(const zn_hopper_conv &a)
{
    const int outputs = split ? 64 : 128, pixels = split ? 2 * N : N, size = (outputs + pixels) * 128;
    const int channels = 128 / sizeof(In), blocks = pair ? 2 : 1, rank = pair ? pair_rank() : 0;
    layout s = lay_out(0, 1, a.stages, size, 0, 0, 8 * blocks, 8, N);
    ring &r = s.ring[0];
    const int wg = s.out.wg, half = rank * (pixels / 2);

    if (pair)
        pair_sync();
    else
        __syncthreads();
    if (wg == ZN_HOPPER_WARPGROUPS) {
        give_registers<N>();
        r.phase = 1;
        if (threadIdx.x % 128 == 0)
            for (int tile = blockIdx.x / blocks; tile < a.tiles; tile += gridDim.x / blocks) {
                const tile_at t = find_tile(a, tile, outputs * blocks);
                int u = 0, v = 0;

                for (int tap = 0; tap < a.taps; tap++) {
                    const int dy = u - a.pad_t, dx = v - a.pad_l;
                    const int y = a.up2 ? t.y + (((t.parity >> 1) + dy) >> 1) : t.y * a.stride + dy;
                    const int x = a.up2 ? t.x + (((t.parity & 1) + dx) >> 1) : t.x * a.stride + dx;

                    for (int c = 0; c < a.chunks; c++, ring_next(r)) {
                        const uint32_t to = ring_data(r) + outputs * 128, bar = ring_full(r);

                        barrier_wait(ring_empty(r), r.phase);
                        barrier_expect(bar, size);
                        load_2d(ring_data(r), &a.w, bar, tap * a.cin_pad + c * channels, t.o + rank * outputs);
                        if (pair)
                            load_4d_both(to + half * 128, &a.x, bar, c * channels, x + half % a.tw * a.stride,
                                         y + half / a.tw * a.stride, t.n);
                        else
                            load_4d(to, &a.x, bar, c * channels, x, y, t.n);
                    }
                    if (++v == a.kw)
                        v = 0, u++;
                }
            }
        if (pair)
            pair_sync(); /* the other block may still arrive at a barrier here */
        return;
    }

    take_registers<N>();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float d[N / 2];

    for (int tile = blockIdx.x / blocks; tile < a.tiles; tile += gridDim.x / blocks) {
        const tile_at t = find_tile(a, tile, outputs * blocks);
        const int first = split ? wg * N : 0, o = t.o + rank * outputs + (split ? 0 : wg * 64);
        const place p = { o, t.x + first % a.tw, t.y + first / a.tw, t.n, a.tw };
        const float b0 = o < a.outputs ? a.tail.bias[o + warp * 16 + lane / 4] : 0.f;
        const float b1 = o < a.outputs ? a.tail.bias[o + warp * 16 + lane / 4 + 8] : 0.f;
        const float s0 = sizeof(In) == 1 && o < a.outputs ? a.tail.scale[o + warp * 16 + lane / 4] : 1.f;
        const float s1 = sizeof(In) == 1 && o < a.outputs ? a.tail.scale[o + warp * 16 + lane / 4 + 8] : 1.f;

        if (a.tail.residual)
            residual_begin<N>(s.out, &a.residual, p);
        multiply_ring<In, pair, 4>(d, r, a.taps * a.chunks, split ? 0 : wg * 8192, (outputs + first) * 128, lane);
        finish<T, N>(d, s.out, &a.y[t.parity], &a.residual, a.tail, s0, s1, b0, b1, p);
    }
    if (threadIdx.x % 128 == 0)
        stores_done();
    if (pair)
        pair_sync();
}

/* ---- x quantised in the kernel -------------------------------------------------------------------------------------
 *
 * 128 channels of an input tile with its halo come as fp16 in four parts: the first and last 64 channels of the upper rows, then
 * of the lower.  Warps 1 to 3 beside the producer quantise them to where wgmma reads them.  For the first tile, when there is
 * nothing to multiply yet, all warps do. */

/* Four elements, rounded to nearest, saturated at 448. */
__device__ __forceinline__ uint32_t to_e4m3x4(uint32_t lo, uint32_t hi)
{
    uint32_t r;

    asm("{\n"
        ".reg .b16 a, b;\n"
        "cvt.rn.satfinite.e4m3x2.f16x2 a, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f16x2 b, %2;\n"
        "mov.b32 %0, {a, b};\n"
        "}"
        : "=r"(r)
        : "r"(lo), "r"(hi));
    return r;
}

enum { FILLERS = 3, FILLING = FILLERS * 32, ALL_FILLING = FILLING + ZN_HOPPER_WARPGROUPS * 128 };

__device__ __forceinline__ void all_filling_sync()
{
    asm volatile("bar.sync 3, %0;" ::"n"((int)ALL_FILLING) : "memory");
}

__device__ __forceinline__ void load_part(const zn_hopper_conv &a, uint32_t to, uint32_t full, int part, int rows)
{
    const int c = part / 4 % a.chunks;
    const tile_at t = find_tile(a, blockIdx.x + part / 4 / a.chunks * gridDim.x, 128);

    barrier_expect(full, rows * ZN_HOPPER_PITCH(8) * 128);
    load_4d(to, &a.x, full, c * 128 + part % 2 * 64, t.x - 1, t.y - a.pad_t + part / 2 % 2 * rows, t.n);
}

/* Thread t of `team` quantises its share of a part's pixels, 16 channels at a time: piece j (of 16 bytes) of a pixel comes from
 * pieces 2j and 2j + 1. */
template <int pixels, int team>
__device__ __forceinline__ void quantise_part(uint32_t to, uint32_t from, int part, int t)
{
    enum { ROUNDS = (pixels * 4 + team - 1) / team, AT_ONCE = ROUNDS < 4 ? ROUNDS : 4 };
    const int first = part / 2 % 2 * pixels;

#pragma unroll 1
    for (int round = 0; round < ROUNDS; round += AT_ONCE) {
        uint32_t x[AT_ONCE][8];

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int k = min(t + (round + i) * team, pixels * 4 - 1), p = k >> 2, j = k & 3;

#pragma unroll
            for (int e = 0; e < 2; e++)
                asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x[i][4 * e]), "=r"(x[i][4 * e + 1]), "=r"(x[i][4 * e + 2]), "=r"(x[i][4 * e + 3])
                             : "r"(from + p * 128 + ((2 * j + e ^ p & 7) << 4))
                             : "memory");
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int k = t + (round + i) * team, p = first + (k >> 2), j = part % 2 * 4 + (k & 3);

            if (k < pixels * 4)
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + p * 128 + ((j ^ p & 7) << 4)),
                             "r"(to_e4m3x4(x[i][0], x[i][1])), "r"(to_e4m3x4(x[i][2], x[i][3])),
                             "r"(to_e4m3x4(x[i][4], x[i][5])), "r"(to_e4m3x4(x[i][6], x[i][7]))
                             : "memory");
        }
    }
}

/* Where the first four parts are loaded, all at once: the ring of parts, and the second buffer of x. */
__device__ __forceinline__ uint32_t first_data(const ring &x, const ring &parts, int part)
{
    return (part < 2 ? parts.data : x.data + x.size) + part % 2 * parts.size;
}

__device__ __forceinline__ uint32_t first_full(const ring &parts, int part)
{
    return parts.full + part / 2 * 32 + part % 2 * 8;
}

/* Quantises two of them with all threads; t is this one. */
template <int pixels> __device__ __forceinline__ void quantise_two(const ring &x, const ring &parts, int first, int t)
{
    for (int part = first; part < first + 2; part++) {
        barrier_wait(first_full(parts, part), 0);
        quantise_part<pixels, ALL_FILLING>(x.data, first_data(x, parts, part), part, t);
    }
    fence_async();
    all_filling_sync();
}

/* The loop of thread t of the quantising warps, over all tiles of this block. */
template <int pixels> __device__ __forceinline__ void quantise_all(const zn_hopper_conv &a, ring x, ring from, int t)
{
    const int rows = pixels / ZN_HOPPER_PITCH(8),
              tiles = (a.tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    const int parts = tiles * a.chunks * 4, lane = t % 32;

    if (t == 0)
        for (int part = 0; part < 4; part++)
            load_part(a, first_data(x, from, part), first_full(from, part), part, rows);
    __syncwarp();
    quantise_two<pixels>(x, from, 0, t);
    if (t == 0 && parts > 4)
        for (int part = 4; part < 6; part++)
            load_part(a, first_data(x, from, part - 4), first_full(from, part - 4), part, rows);
    __syncwarp();
    quantise_two<pixels>(x, from, 2, t);
    if (lane == 0)
        barrier_arrive(ring_full(x));
    x.phase = from.phase = 1;
    ring_next(x);
    for (int part = 4; part < parts; part++, ring_next(from)) {
        if (part % 4 == 0)
            barrier_wait(ring_empty(x), x.phase);
        barrier_wait(ring_full(from), from.phase);
        quantise_part<pixels, FILLING>(ring_data(x), ring_data(from), part, t);
        if (part % 4 == 3)
            fence_async();
        __syncwarp();
        if (lane == 0)
            barrier_arrive(ring_empty(from));
        if (part % 4 == 3) {
            if (lane == 0)
                barrier_arrive(ring_full(x));
            ring_next(x);
        }
        if (t == 0 && part + 2 < parts) {
            barrier_wait(ring_empty(from), from.phase ^ 1);
            load_part(a, ring_data(from), ring_full(from), part + 2, rows);
        }
        __syncwarp();
    }
}

/* Ping-pong: the warpgroups alternate every nine taps, so that one multiplies while the other runs its epilogue.  e4m3 products are
 * so fast that the epilogue counts. */
__device__ __forceinline__ void await_warpgroup(int wg) { asm volatile("bar.sync %0, 256;" ::"r"(wg + 4) : "memory"); }
__device__ __forceinline__ void release_warpgroup(int wg)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(wg + 4) : "memory");
}

template <int n> struct constant {
    __device__ constexpr operator int() const { return n; }
};

/* 3x3, stride 1, padding 1 (above: 1 or 0): a tile of 8 (split: 16) x N / 8 pixels is read once for all taps: nine, or with up2
 * four, the sums of hopper_merge for an output's parity.  `quantise`: x is fp16, In is e4m3, and a buffer of weights belongs to one warpgroup, in the order in which they alternate: a warpgroup that
 * waits for a buffer knows that all before it have been filled, so it cannot mistake the phase. */
template <class In, class T, int N, bool split, bool quantise>
__device__ __forceinline__ void conv3(const zn_hopper_conv &a)
{
    const int outputs = split ? 64 : 128, width = split ? 16 : 8, rows = N / 8, channels = 128 / sizeof(In);
    const int pitch = ZN_HOPPER_PITCH(width), copy = ZN_HOPPER_COPY(width, rows);
    const int part = (rows + 2) / 2 * pitch; /* pixels of a part */
    const int owners = quantise ? ZN_HOPPER_WARPGROUPS : 1, weights_size = outputs / owners * 128;
    layout s = lay_out(quantise ? 2 * ZN_HOPPER_PART(rows) : 0, quantise ? FILLERS : 1, a.stages,
                       quantise ? 2 * ZN_HOPPER_PART(rows) : ZN_HOPPER_HALO(width, rows), a.weight_stages, weights_size,
                       8, 8 / owners, N);
    ring &x = s.ring[0], &w = s.ring[1];
    const ring parts = { s.fixed, s.once, s.once + 16, 2, ZN_HOPPER_PART(rows), 0, 0 };
    const int wg = s.out.wg;

    __syncthreads();
    if (wg == ZN_HOPPER_WARPGROUPS) {
        give_registers<N, quantise>();
        if (quantise && threadIdx.x % 128 >= 32)
            quantise_all<part>(a, x, parts, threadIdx.x % 128 - 32);
        if (threadIdx.x % 128 != 0)
            return;
        const int taps = a.taps;

        x.phase = w.phase = 1;
        for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
            const tile_at t = find_tile(a, tile, outputs);

            for (int c = 0; c < a.chunks; c++, ring_next(x)) {
                if (!quantise) {
                    barrier_wait(ring_empty(x), x.phase);
                    barrier_expect(ring_full(x), copy);
                    load_4d(ring_data(x), &a.x, ring_full(x), c * channels, t.x - 1, t.y - a.pad_t, t.n);
                }
                for (int i = 0; i < taps * owners; i++, ring_next(w)) {
                    const int slot = (taps == 4 ? t.parity * 4 : 0) + i % taps;

                    barrier_wait(ring_empty(w), w.phase);
                    barrier_expect(ring_full(w), weights_size);
                    load_2d(ring_data(w), &a.w, ring_full(w), slot * a.cin_pad + c * channels, t.o + i / taps * 64);
                }
            }
        }
        return;
    }

    take_registers<N, quantise>();
    if (quantise)
        for (int i = 0; i < 4; i += 2)
            quantise_two<part>(x, parts, i, FILLING + threadIdx.x);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float d[N / 2];

    if (quantise && wg == 1)
        ring_skip(w, 9);
    for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        const tile_at t = find_tile(a, tile, outputs);
        const int o = split ? t.o : t.o + wg * 64, up = a.up2, py = t.parity >> 1, px = t.parity & 1;
        const place p = { o, split ? t.x + wg * 8 : t.x, t.y, t.n, 8 };
        const float b0 = o < a.outputs ? a.tail.bias[o + warp * 16 + lane / 4] : 0.f;
        const float b1 = o < a.outputs ? a.tail.bias[o + warp * 16 + lane / 4 + 8] : 0.f;
        const float s0 = sizeof(In) == 1 && o < a.outputs ? a.tail.scale[o + warp * 16 + lane / 4] : 1.f;
        const float s1 = sizeof(In) == 1 && o < a.outputs ? a.tail.scale[o + warp * 16 + lane / 4 + 8] : 1.f;
        uint32_t used = 0, used_x = 0;
        const auto release = [&] {
            if (lane == 0) {
                barrier_arrive(used);
                barrier_arrive(used_x);
            }
        };

        if (a.tail.residual)
            residual_begin<N>(s.out, &a.residual, p);
        for (int c = 0; c < a.chunks; c++) {
            const uint64_t pixels = describe(ring_data(x), pitch * 128);

            barrier_wait(ring_full(x), x.phase);
            if (quantise && (wg == 1 || c > 0 || tile != blockIdx.x))
                await_warpgroup(wg);
            const auto all_taps = [&](auto parts, auto merged) {
#pragma unroll
                for (int tap = 0; tap < (merged ? 4 : 9); tap++) {
                    const int i = tap / (merged ? 2 : 3), j = tap % (merged ? 2 : 3);
                    const int u = merged ? py + i : up ? (py + i + 1) >> 1 : i;
                    const int v = merged ? px + j : up ? (px + j + 1) >> 1 : j;
                    const uint64_t weights = describe(ring_data(w) + (split || quantise ? 0 : wg * 8192), 1024);
                    const uint64_t pixel = pixels + tap_at(u, v + (split ? wg * 8 : 0), pitch);

                    barrier_wait(ring_full(w), w.phase);
                    products_begin();
#pragma unroll
                    for (int k = 0; k < parts; k++)
                        product(In(), d, weights + k * 2, pixel + k * 2, c + tap + k > 0);
                    products_commit();
                    products_wait<1>(d);
                    if (lane == 0) {
                        if (tap > 0 || (c > 0 && !quantise))
                            barrier_arrive(used);
                        if (tap == 0 && c > 0 && !quantise)
                            barrier_arrive(used_x);
                    }
                    used = ring_empty(w);
                    ring_next(w);
                }
            };

            if (sizeof(In) == 2 && a.taps == 4)
                all_taps(constant<4>(), constant<true>());
            else if (!quantise && sizeof(In) == 2 && a.last == 2 && c + 1 == a.chunks)
                all_taps(constant<2>(), constant<false>());
            else
                all_taps(constant<4>(), constant<false>());
            used_x = ring_empty(x);
            ring_next(x);
            if (quantise) {
                if (wg == 0 || c + 1 < a.chunks || tile + gridDim.x < a.tiles)
                    release_warpgroup(1 - wg);
                ring_skip(w, 9);
                products_wait<0>(d);
                release();
            }
        }
        if (!quantise) {
            products_wait<0>(d);
            release();
        }
        finish<T, N>(d, s.out, &a.y[t.parity], &a.residual, a.tail, s0, s1, b0, b1, p);
    }
    if (threadIdx.x % 128 == 0)
        stores_done();
}

#define CONV(kind, name, cluster, in, type, n, split, more)                                                            \
    extern "C" __global__ void cluster __launch_bounds__(ZN_HOPPER_THREADS(n), 1)                                      \
        hopper_##kind##_##name(const __grid_constant__ zn_hopper_conv a)                                               \
    {                                                                                                                  \
        kind<in, type, n, split, more>(a);                                                                             \
    }
#define CONVS(kind, n, suffix, split)                                                                                  \
    CONV(kind, f16_##n##suffix, , f16, f16, n, split, false)                                                           \
    CONV(kind, bf16_##n##suffix, , bf16, bf16, n, split, false)                                                        \
    CONV(kind, e4m3_##n##suffix, , e4m3, f16, n, split, false)
CONVS(conv, 256, , false)
CONVS(conv, 128, , false)
CONVS(conv, 128, _split, true)
CONVS(conv, 64, _split, true)
CONVS(conv, 32, _split, true)
CONVS(conv3, 256, , false)
CONVS(conv3, 128, , false)
CONVS(conv3, 128, _split, true)
CONVS(conv3, 64, _split, true)
CONVS(conv3, 32, _split, true)
CONV(conv, f16_256_pair, __cluster_dims__(2), f16, f16, 256, false, true)
CONV(conv, bf16_256_pair, __cluster_dims__(2), bf16, bf16, 256, false, true)
CONV(conv, e4m3_256_pair, __cluster_dims__(2), e4m3, f16, 256, false, true)
CONV(conv3, e4m3_256_quantise, , e4m3, f16, 256, false, true)

/* ---- x quantised beforehand, for the other e4m3 convolutions ------------------------------------------------------- */

/* Neighbouring threads have neighbouring vectors, and all loads of a thread are in flight at once. */
extern "C" __global__ void __launch_bounds__(256) hopper_quantise_f16(const __grid_constant__ zn_hopper_quantise a)
{
    const uint32_t first = blockIdx.x * (256 * ZN_HOPPER_QUANTISED) + threadIdx.x;
    const bool dense = a.ld == a.per_pixel * 8;
    uint4 x[ZN_HOPPER_QUANTISED];

    after_previous();
#pragma unroll
    for (int k = 0; k < ZN_HOPPER_QUANTISED; k++) {
        const uint32_t i = first + 256 * k;

        if (i < a.n) {
            const uint32_t pixel = dense ? 0 : i / a.per_pixel;

            x[k] = *(const uint4 *)((const f16 *)a.x + (size_t)pixel * a.ld + (size_t)(i - pixel * a.per_pixel) * 8);
        }
    }
#pragma unroll
    for (int k = 0; k < ZN_HOPPER_QUANTISED; k++) {
        const uint32_t i = first + 256 * k;

        if (i < a.n)
            ((uint2 *)a.y)[i] = make_uint2(to_e4m3x4(x[k].x, x[k].y), to_e4m3x4(x[k].z, x[k].w));
    }
}
