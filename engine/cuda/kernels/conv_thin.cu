/* SPDX-License-Identifier: MIT */
/* conv_thin.cu - convolutions with few channels, on tensor cores (mma.sync; compute capability 8.0 and later).
 *
 * conv_thin_*  any number of inputs, x at any address, groups 1.  k has no padding: tap * cin + c, 27 elements for
 *              3x3 of 3 channels, not 72 as in the packed weights.  So most of these layers are one chunk of k: a
 *              block keeps its weights and computes several tiles of BM pixels x BN outputs, and the blocks of a
 *              multiprocessor hide each other's latency.
 * conv_few_*   3x3, stride 1, padding 1, at most 3 outputs; cin a multiple of 8, x aligned to 16 bytes.  The 9 taps of
 *              every output are columns of one product over the pixels of a tile and its halo, so that each element
 *              of x is loaded once; then the taps of a pixel are summed.
 * conv_point_* 1x1, at most 16 outputs; cin a multiple of 8, at most 128, x aligned to 16 bytes.  Memory bound: FMAs, a
 *              pixel a thread.
 * conv_fan_*   1x1, at most 4 inputs, at any address: likewise, 8 outputs a thread. */
#include "conv_tile.cuh"
#include "../conv_thin.h"

namespace
{

#if __CUDA_ARCH__ >= 800

/* Elements as they are stored. */
template <class S> struct lying {
    typedef unsigned short type;
};
template <> struct lying<float> {
    typedef float type;
};

/* 16 bytes of k: of floats, of floats converted to f16, of 16-bit elements. */
__device__ __forceinline__ uint4 piece_of(const float (&v)[4])
{
    return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
}

__device__ __forceinline__ uint4 piece_of(const float (&v)[8])
{
    return make_uint4(pack_pair<f16>(v[0], v[1]), pack_pair<f16>(v[2], v[3]), pack_pair<f16>(v[4], v[5]),
                      pack_pair<f16>(v[6], v[7]));
}

__device__ __forceinline__ uint4 piece_of(const unsigned short (&v)[8])
{
    return make_uint4(v[0] | (unsigned)v[1] << 16, v[2] | (unsigned)v[3] << 16, v[4] | (unsigned)v[5] << 16,
                      v[6] | (unsigned)v[7] << 16);
}

/* Tables for the elements of a chunk of k. */
struct table {
    int *x;   /* offset from the first tap's first channel, without up2 */
    int *w;   /* offset in a row of weights */
    int *tap; /* row and column, 16 bits each */
    int *channel;
};

/* A pixel of y, in x. */
template <class N> struct pixel {
    const N *picture;
    int y, x;   /* of its first tap */
    bool there; /* false beyond the last pixel */
    bool whole; /* all taps are inside, and there is no up2 */
};

template <class N> __device__ __forceinline__ pixel<N> pixel_at(const zn_cuda_conv &a, size_t p, size_t pixels)
{
    pixel<N> q;
    const size_t row = quotient(p, a.y.w), picture = quotient(row, a.y.h);

    q.there = p < pixels;
    q.picture = (const N *)a.x.data + (q.there ? picture : 0) * a.x.h * a.x.w * a.x.ld;
    q.y = (int)(row - picture * a.y.h) * a.stride - a.pad_t;
    q.x = (int)(p - row * a.y.w) * a.stride - a.pad_l;
    q.whole = q.there && !a.up2 && q.y >= 0 && q.x >= 0 && q.y + a.kh <= a.x.h && q.x + a.kw <= a.x.w;
    return q;
}

/* EACH elements of a pixel from element k of the chunk on, which has `left`.  Beyond those the weights are 0, so that the
 * window's first element may be used where that is cheaper than a 0. */
template <class N, int EACH>
__device__ __forceinline__ uint4 piece_at(const zn_cuda_conv &a, const pixel<N> &p, const table &table, int k, int left)
{
    N v[EACH];

#pragma unroll
    for (int i = 0; i < EACH; i++)
        v[i] = 0;
    if (p.whole) {
        const N *from = p.picture + (p.y * a.x.w + p.x) * a.x.ld;

#pragma unroll
        for (int i = 0; i < EACH; i += 4) {
            const int4 at = *(const int4 *)(table.x + k + i);

            v[i] = __ldg(from + at.x), v[i + 1] = __ldg(from + at.y);
            v[i + 2] = __ldg(from + at.z), v[i + 3] = __ldg(from + at.w);
        }
    } else if (p.there) {
        const int half = a.up2 ? 1 : 0;

#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (k + i < left) {
                const int y = p.y + (table.tap[k + i] >> 16), x = p.x + (table.tap[k + i] & 0xffff);

                if (y >= 0 && x >= 0 && y < a.x.h << half && x < a.x.w << half)
                    v[i] = __ldg(p.picture + ((y >> half) * a.x.w + (x >> half)) * a.x.ld + table.channel[k + i]);
            }
    }
    return piece_of(v);
}

/* WM x WN: the pixels and outputs of a warp.  S: the type of x. */
template <kind K, class S, int BM, int BN, int WM, int WN> __device__ void conv_thin(const zn_cuda_conv &a)
{
    typedef typename kind_of<K>::type T;
    typedef typename lying<T>::type W;
    typedef typename lying<S>::type N;
    const int EACH = 16 / sizeof(T), STEP = 2 * EACH, CHUNK = ZN_THIN_CHUNK(BM) / sizeof(T);
    const int MT = WM / 16, NT = WN / 8, WARPS = BM / WM * (BN / WN), LD = BN + 4;
    static_assert(WARPS <= THREADS / 32 && THREADS % BM == 0 && BM % 32 == 0 && NT % 2 == 0, "shape");
    extern __shared__ __align__(128) char memory[];
    const int t = threadIdx.x, warp = t / 32, o0 = blockIdx.y * BN;
    const int wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w;
    const int all = a.kh * a.kw * a.cin, longest = all < CHUNK ? (all + STEP - 1) / STEP * STEP : CHUNK;
    const int pitch = ZN_THIN_PITCH(longest * (int)sizeof(T));
    const table table = { (int *)memory, (int *)memory + ZN_THIN_TABLE(BM) / 16, (int *)memory + ZN_THIN_TABLE(BM) / 8,
                          (int *)memory + ZN_THIN_TABLE(BM) / 16 * 3 };
    char *ws = memory + ZN_THIN_TABLE(BM), *xs = ws + BN * pitch;
    const bool twice = a.direct && ZN_THIN_TWICE(longest * (int)sizeof(T)), eight = in_vectors<8>(a);
    float *out = (float *)xs;
    int odd = 0;        /* which of the two buffers of x */
    bool ready = false; /* the table and the weights of the only chunk */

    auto fill_table = [&](int k0, int left) {
        for (int i = t; i < CHUNK; i += THREADS) {
            const int k = i < left ? k0 + i : 0, tap = k / a.cin, c = k - tap * a.cin;
            const int u = tap / a.kw, v = tap - u * a.kw;

            table.x[i] = (u * a.x.w + v) * a.x.ld + c;
            table.w[i] = tap * a.cin_pad + c;
            table.tap[i] = u << 16 | v;
            table.channel[i] = c;
        }
    };
    auto fetch_weights = [&](int left, int pieces) {
        for (int i = t; i < BN * pieces; i += THREADS) {
            const int row = i / pieces, piece = i - row * pieces;
            const int o = o0 + row / WN * WN + straight<NT>(row % WN);
            const W *from = (const W *)a.weight + (size_t)o * a.k_pad;
            W v[EACH];

#pragma unroll
            for (int e = 0; e < EACH; e++) {
                v[e] = 0;
                if (piece * EACH + e < left)
                    v[e] = __ldg(from + table.w[piece * EACH + e]);
            }
            *(uint4 *)(ws + row * pitch + piece * 16) = piece_of(v);
        }
    };

    for (size_t first = (size_t)blockIdx.x * BM; first < pixels; first += (size_t)gridDim.x * BM) {
        const pixel<N> mine = pixel_at<N>(a, first + t % BM, pixels);
        float acc[MT][NT][4] = {};

        for (int k0 = 0; k0 < all; k0 += CHUNK) {
            const int left = min(all - k0, CHUNK), steps = (left + STEP - 1) / STEP;

            if (!ready) {
                fill_table(k0, left);
                __syncthreads();
                fetch_weights(left, 2 * steps);
                ready = all <= CHUNK;
            }
            char *here = xs + odd * BM * pitch;

#pragma unroll 1
            for (int piece = t / BM; piece < 2 * steps; piece += THREADS / BM)
                *(uint4 *)(here + t % BM * pitch + piece * 16) = piece_at<N, EACH>(a, mine, table, piece * EACH, left);
            __syncthreads();
            if (warp < WARPS)
                for (int s = 0; s < steps; s++) {
                    unsigned fa[MT][4], fb[NT][2];

                    fragments<MT, NT>(
                        fa, fb, [&](int row, int i) { return here + (wm + row) * pitch + s * 32 + i * 16; },
                        [&](int row, int i) { return ws + (wn + row) * pitch + s * 32 + i * 16; });
                    multiply<K, MT, NT>(acc, fa, fb);
                }
            if (twice)
                odd ^= 1; /* this buffer is written again after the next tile's barrier */
            else
                __syncthreads();
        }
        if (a.direct) {
            if (warp < WARPS)
                finish_direct(a, acc, first + wm, pixels, o0 + wn);
            continue;
        }
        if (warp < WARPS)
            spill<true>(out, LD, wm, wn, acc);
        __syncthreads();
        finish_spilled<BM, BN, 1>(a, out, LD, first, pixels, o0, eight);
        __syncthreads();
    }
}

/* Column n of the product is tap n / cout of output n % cout; its contribution to a pixel is at sums[n][neighbour]. */
template <class T> __device__ void conv_few(const zn_cuda_conv &a)
{
    const int SIDE = ZN_FEW_SIDE, WIDE = SIDE + 2, NEAR = WIDE * WIDE, TILES = ZN_FEW_TILES;
    const int MT = (TILES + 7) / 8, NT = 4, PITCH = TILES * 16 + 4; /* 2 * PITCH % 32 == 8: no bank conflicts */
    static_assert(PITCH % 16 == 4 && PITCH * ZN_FEW_MAX * 9 * 4 <= ZN_FEW_SHARED, "the sums fit where x was");
    extern __shared__ __align__(128) char memory[];
    char *xs = memory, *ws = memory + TILES * 16 * 128; /* rows of 128 bytes, piece i at position i ^ (row % 8) */
    float *sums = (float *)memory;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int j0 = blockIdx.x * SIDE - 1, i0 = blockIdx.y * SIDE - 1, columns = 9 * a.cout;
    const T *picture = (const T *)a.x.data + (size_t)blockIdx.z * a.x.h * a.x.w * a.x.ld;
    float acc[MT][NT][4] = {};

    auto place = [](char *rows, int row, int i) { return rows + row * 128 + ((i ^ (row & 7)) << 4); };

    for (int c0 = 0; c0 < a.cin; c0 += 64) {
#pragma unroll 1
        for (int i = t; i < NEAR * 8; i += THREADS) {
            const int p = i / 8, c = c0 + i % 8 * 8, y = i0 + p / WIDE, x = j0 + p % WIDE;
            const bool there = c < a.cin && y >= 0 && x >= 0 && y < a.x.h && x < a.x.w;

            copy_async16(place(xs, p, i % 8), there ? picture + ((size_t)y * a.x.w + x) * a.x.ld + c : picture, there);
        }
        for (int i = t; i < 32 * 8; i += THREADS) {
            const int n = i / 8, c = c0 + i % 8 * 8, tap = n / a.cout, o = n - tap * a.cout;
            const bool there = n < columns && c < a.cin;
            const T *w = (const T *)a.weight;

            copy_async16(place(ws, n, i % 8), there ? w + (size_t)o * a.k_pad + tap * a.cin_pad + c : w, there);
        }
        copy_async_commit();
        copy_async_wait<0>();
        __syncthreads();
        const int steps = (min(a.cin - c0, 64) + 15) / 16;
#pragma unroll 1
        for (int s = 0; s < steps; s++) {
            unsigned fb[2][4];

#pragma unroll
            for (int j = 0; j < 2; j++) /* 16 columns: the first 8, both halves of k, then the others */
                ldmatrix4(fb[j], place(ws, 16 * j + lane % 8 + lane / 16 * 8, 2 * s + lane / 8 % 2));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                const int tile = warp + 8 * m;
                unsigned fa[4];

                if (tile >= TILES)
                    continue;
                ldmatrix4(fa, place(xs, 16 * tile + lane % 16, 2 * s + lane / 16));
#pragma unroll
                for (int j = 0; j < NT; j++)
                    mma16<T>(acc[m][j], fa[0], fa[1], fa[2], fa[3], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int n = 8 * j + lane % 4 * 2 + q % 2, p = 16 * (warp + 8 * m) + lane / 4 + q / 2 * 8;

                if (warp + 8 * m < TILES && n < columns)
                    sums[n * PITCH + p] = acc[m][j][q];
            }
    __syncthreads();
    const int i = t / SIDE, j = t % SIDE, y = i0 + 1 + i, x = j0 + 1 + j;
    if (y >= a.y.h || x >= a.y.w)
        return;
    const size_t p = ((size_t)blockIdx.z * a.y.h + y) * a.y.w + x;
#pragma unroll 1
    for (int o = 0; o < a.cout; o++) {
        float sum = a.bias[o];

#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            sum += sums[(tap * a.cout + o) * PITCH + (i + tap / 3) * WIDE + j + tap % 3];
        store_any(a.y, p * a.y.ld + o, apply_tail(a.tail, sum, p, o));
    }
}

/* A thread has a pixel.  OUT: outputs, rounded up; the weights are floats in shared memory, [channel][OUT]. */
template <class T, int OUT> __device__ void conv_point(const zn_cuda_conv &a)
{
    enum { PIECES = ZN_POINT_CHUNK / 8 };
    extern __shared__ __align__(128) char memory[];
    float *ws = (float *)memory;
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w, p = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const bool in = p < pixels, four = in_vectors<4>(a);
    zn_tensor x = a.x;
    raw<8> piece[PIECES];
    float sum[OUT] = {}, residual[OUT / 4][4] = {};

    x.type = type_of<T>::value;
    auto read = [&](int c0) {
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (in && c0 + 8 * i < a.cin)
                fetch(piece[i], x, p * x.ld + c0 + 8 * i);
    };

    read(0);
#pragma unroll
    for (int o = 0; o < OUT; o += 4)
        if (in && o < a.cout)
            residual_of(residual[o / 4], a, p, o, four);
    for (int i = threadIdx.x; i < a.cin * OUT; i += THREADS) /* rows beyond cout exist and are 0 */
        ws[i] = to_float(((const T *)a.weight)[(size_t)(i % OUT) * a.k_pad + i / OUT]);
    __syncthreads();
    if (!in)
        return;
#pragma unroll 1
    for (int c0 = 0; c0 < a.cin; c0 += ZN_POINT_CHUNK) {
        if (c0)
            read(c0);
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const float4 *w = (const float4 *)(ws + (c0 + 8 * i) * OUT);
            float v[8];

            if (c0 + 8 * i >= a.cin)
                break;
            widen(v, piece[i], type_of<T>::value);
#pragma unroll
            for (int k = 0; k < 8; k++)
#pragma unroll
                for (int o = 0; o < OUT; o += 4) {
                    const float4 q = w[(k * OUT + o) / 4];

                    sum[o] = fmaf(v[k], q.x, sum[o]), sum[o + 1] = fmaf(v[k], q.y, sum[o + 1]);
                    sum[o + 2] = fmaf(v[k], q.z, sum[o + 2]), sum[o + 3] = fmaf(v[k], q.w, sum[o + 3]);
                }
        }
    }
    add_vector(sum, a.bias);
    activate_all(a.tail.pre, sum);
#pragma unroll
    for (int o = 0; o < OUT; o++)
        sum[o] = residual[o / 4][o % 4] + a.tail.gain * sum[o];
    activate_all(a.tail.post, sum);
#pragma unroll
    for (int o = 0; o < OUT; o += 4) {
        const float v[4] = { sum[o], sum[o + 1], sum[o + 2], sum[o + 3] };

        if (o < a.cout)
            store_results(a, v, p, o, four);
    }
}

/* A thread has 8 outputs, whose weights are in its registers, of ZN_FAN_PIXELS pixels far apart: neighbouring threads
 * store neighbouring elements.  S: the type of x. */
template <class S, class T> __device__ void conv_fan(const zn_cuda_conv &a)
{
    enum { IN = ZN_FAN_IN };
    const unsigned vectors = ((unsigned)a.cout + 7) / 8;
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w, step = (pixels + ZN_FAN_PIXELS - 1) / ZN_FAN_PIXELS;
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, first = quotient(at, vectors);
    const int o = (int)(at - first * vectors) * 8;
    const bool eight = in_vectors<8>(a);
    zn_tensor weight = { (float *)a.weight };
    float w[8][IN], next[IN];

    if (first >= step)
        return;
    auto read = [&](size_t p) {
#pragma unroll
        for (int c = 0; c < IN; c++)
            next[c] = p < pixels && c < a.cin ? to_float(((const S *)a.x.data)[p * a.x.ld + c]) : 0.f;
    };
    read(first);
    weight.type = type_of<T>::value;
#pragma unroll
    for (int i = 0; i < 8; i++)
        load_vector(w[i], weight, (size_t)(o + i) * a.k_pad); /* a row has at least 8 elements; beyond cin they are 0 */
#pragma unroll 1
    for (size_t p = first; p < pixels; p += step) {
        float v[8] = {};

#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int c = 0; c < IN; c++)
                v[i] = fmaf(w[i][c], next[c], v[i]);
        read(p + step);
        finish(a, v, p, o, eight);
    }
}

#else

template <kind K, class S, int BM, int BN, int WM, int WN> __device__ void conv_thin(const zn_cuda_conv &) {}
template <class T> __device__ void conv_few(const zn_cuda_conv &) {}
template <class T, int OUT> __device__ void conv_point(const zn_cuda_conv &) {}
template <class S, class T> __device__ void conv_fan(const zn_cuda_conv &) {}

#endif

} // namespace

#define THIN(K, S, name, BM, BN, WM, WN, MIN)                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, MIN) conv_thin_##name##_##BM##x##BN(const zn_cuda_conv a)    \
    {                                                                                                                  \
        conv_thin<K, S, BM, BN, WM, WN>(a);                                                                            \
    }

#define SHAPES(K, S, name)                                                                                             \
    THIN(K, S, name, 128, 64, 32, 32, sizeof(kind_of<K>::type) == 4 ? 2 : 3)                                           \
    THIN(K, S, name, 64, 64, 16, 32, sizeof(kind_of<K>::type) == 4 ? 3 : 4)                                            \
    THIN(K, S, name, 32, 64, 16, 16, 4)                                                                                \
    THIN(K, S, name, 256, 16, 32, 16, 3)                                                                               \
    THIN(K, S, name, 32, 16, 16, 16, 4)

SHAPES(F16, f16, f16)
SHAPES(F16, float, f32_to_f16)
SHAPES(BF16, bf16, bf16)
SHAPES(TF32, float, tf32)
SHAPES(F32, float, f32)

#define FEW(T, name)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, 3) conv_few_##name(const zn_cuda_conv a) { conv_few<T>(a); }

FEW(f16, f16)
FEW(bf16, bf16)

#define POINT(T, name)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_point_##name##_4(const zn_cuda_conv a)                  \
    {                                                                                                                  \
        conv_point<T, 4>(a);                                                                                           \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_point_##name##_16(const zn_cuda_conv a)                 \
    {                                                                                                                  \
        conv_point<T, 16>(a);                                                                                          \
    }

POINT(f16, f16)
POINT(bf16, bf16)
POINT(float, f32)

#define FAN(S, T, name)                                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_fan_##name(const zn_cuda_conv a) { conv_fan<S, T>(a); }

FAN(f16, f16, f16)
FAN(bf16, bf16, bf16)
FAN(float, f16, f32_to_f16)
FAN(float, float, f32)
