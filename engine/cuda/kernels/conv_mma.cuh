/* SPDX-License-Identifier: MIT */
/* conv_mma.cuh - dense convolutions as an implicit matrix product on tensor cores (mma.sync; compute capability 8.0
 * and later, e4m3: 8.9).
 *
 * A block computes BM pixels x BN outputs.  In each step, KS x 64 bytes of k (k = tap and channel) of each pixel and
 * of each weight row are copied to shared memory, STAGES - 1 steps ahead.  With KS > 1 warps split k: each 64 bytes are a
 * separate row for other warps, whose sums are added at the end.  A row is 4 pieces of 16 bytes, piece i at position
 * i ^ (row/2 % 4), so that ldmatrix has no bank conflicts.  A short k does not use all stages, and those need no memory.
 * The types of products are in conv_tile.cuh.  All tiles with KS 1 sum a pixel's products in the same order: the same bits.
 * Requires: groups 1, cin a multiple of 16 bytes, x aligned to 16 bytes; conv_thin.cu computes the others. */
#ifndef ZN_CONV_MMA_CUH
#define ZN_CONV_MMA_CUH

#include "conv_tile.cuh"

namespace
{

enum { STAGES = 4, ROW = 64 /* bytes */ };

#if __CUDA_ARCH__ >= 800

/* Piece i of a row. */
__device__ __forceinline__ char *place(char *rows, int row, int i)
{
    return rows + row * ROW + ((i ^ (row >> 1 & 3)) << 4);
}

template <kind K, int BM, int BN, int WM, int WN, int KS> /* WM x WN: the pixels and outputs of a warp */
__device__ void conv_mma(const zn_cuda_conv &a)
{
    typedef typename kind_of<K>::type T;
    const int EACH = 16 / sizeof(T); /* elements of a piece */
    const int MT = WM / 16, NT = WN / 8, WARPS = BM / WM * (BN / WN);
    const int XPART = BM * ROW, WPART = BN * ROW, STAGE = (XPART + WPART) * KS;
    const int COLS = 4 * KS, APART = THREADS / COLS; /* a thread loads a column of pieces, every APART-th row */
    const int XROWS = BM / APART, WROWS = (BN + APART - 1) / APART;
    static_assert(WARPS * KS == THREADS / 32, "8 warps");
    static_assert(NT % 2 == 0, "two tiles of B a load");
    static_assert(KS > 1 || NT == 2 || NT == 4, "4 or 8 neighbouring results");
    extern __shared__ __align__(128) char memory[];
    const int t = threadIdx.x, warp = t / 32 % WARPS, part = t / 32 / WARPS;
    const int wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w, first = ((size_t)a.from_tile + blockIdx.x) * BM;
    const int o0 = blockIdx.y * BN;

    const int piece = t % 4, column = t % COLS, sub = column / 4, row0 = t / COLS;
    int py[XROWS], px[XROWS];
    size_t pn[XROWS]; /* first pixel of the image */
#pragma unroll
    for (int i = 0; i < XROWS; i++) {
        const size_t p = first + row0 + APART * i, r = quotient(p, a.y.w), picture = quotient(r, a.y.h);

        py[i] = (int)(r - picture * a.y.h) * a.stride - a.pad_t;
        px[i] = (int)(p - r * a.y.w) * a.stride - a.pad_l;
        pn[i] = picture * ((size_t)a.x.h * a.x.w);
        if (p >= pixels)
            py[i] = -(1 << 28);
    }
    const int xh = a.up2 ? 2 * a.x.h : a.x.h, xw = a.up2 ? 2 * a.x.w : a.x.w, half = a.up2 ? 1 : 0;
    const T *x = (const T *)a.x.data, *w = (const T *)a.weight + (size_t)o0 * a.k_pad;
    const int k_all = a.kh * a.kw * a.cin_pad, steps = (k_all + COLS * EACH - 1) / (COLS * EACH);
    int k = column * EACH, c = k, u = 0, v = 0;
    while (c >= a.cin_pad) {
        c -= a.cin_pad;
        if (++v == a.kw)
            v = 0, u++;
    }

    auto fetch = [&](int stage) {
        char *at = memory + stage * STAGE, *xs = at + sub * XPART, *ws = at + KS * XPART + sub * WPART;
        const bool inside = k < k_all && c < a.cin;

#pragma unroll
        for (int i = 0; i < XROWS; i++) {
            const int yy = py[i] + u, xx = px[i] + v;
            const bool there = inside && yy >= 0 && xx >= 0 && yy < xh && xx < xw;
            const T *src = there ? x + (pn[i] + (size_t)(yy >> half) * a.x.w + (xx >> half)) * a.x.ld + c : x;

            copy_async16(place(xs, row0 + APART * i, piece), src, there);
        }
#pragma unroll
        for (int i = 0; i < WROWS; i++) {
            const int row = row0 + APART * i;

            if (BN % APART == 0 || row < BN) {
                const int o = KS == 1 ? row / WN * WN + straight<NT>(row % WN) : row;

                copy_async16(place(ws, row, piece), w + (size_t)o * a.k_pad + k, k < a.k_pad);
            }
        }
        k += COLS * EACH;
        c += COLS * EACH;
        while (c >= a.cin_pad) {
            c -= a.cin_pad;
            if (++v == a.kw)
                v = 0, u++;
        }
    };

    float acc[MT][NT][4] = {};

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            fetch(s);
        copy_async_commit();
    }
    for (int s = 0; s < steps; s++) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        if (s + STAGES - 1 < steps)
            fetch((s + STAGES - 1) % STAGES);
        copy_async_commit();

        char *at = memory + s % STAGES * STAGE, *xs = at + part * XPART, *ws = at + KS * XPART + part * WPART;
#pragma unroll
        for (int h = 0; h < 2; h++) { /* 32 bytes of k at a time */
            unsigned fa[MT][4], fb[NT][2];

            fragments<MT, NT>(
                fa, fb, [&](int row, int i) { return place(xs, wm + row, 2 * h + i); },
                [&](int row, int i) { return place(ws, wn + row, 2 * h + i); });
            multiply<K, MT, NT>(acc, fa, fb);
        }
    }
    copy_async_wait<0>();
    if (K == E4M3)
        scale_sums(a, acc, first + wm, pixels, o0 + wn);

    if (KS == 1 && a.direct) {
        finish_direct(a, acc, first + wm, pixels, o0 + wn);
        return;
    }
    float *out = (float *)memory;
    const int LD = BN + 4;
    const bool eight = in_vectors<8>(a);
    __syncthreads();
    spill<KS == 1>(out + part * BM * LD, LD, wm, wn, acc);
    __syncthreads();
    finish_spilled<BM, BN, KS>(a, out, LD, first, pixels, o0, eight);
}

#else

template <kind K, int BM, int BN, int WM, int WN, int KS> __device__ void conv_mma(const zn_cuda_conv &) {}

#endif

} // namespace

#define CONV(K, name, BM, BN, WM, WN, KS)                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_mma_##name##_##BM##x##BN(const zn_cuda_conv a)          \
    {                                                                                                                  \
        conv_mma<K, BM, BN, WM, WN, KS>(a);                                                                            \
    }

#endif
