/* SPDX-License-Identifier: MIT */
/* gated_tile.cuh - a tile of a gated residual block, fused from x to y, on tensor cores; for gated.cu.
 *
 * A block computes TH x 16 pixels of y; x is read from and y written to global memory once.
 *
 *   xn     the pixels with their halo, normalised; later N v
 *   z      pw1(xn), for 16 channels and their 16 partners at a time:
 *          pw1 -> z -> dw, halves multiplied -> g, which is an operand of pw2
 *   stage  the weights of such a step: 32 rows of pw1 (pw3), 16 columns of pw2 (pw4), the taps of dw.  There are two, so
 *          that the next step's weights are loaded while this one's are used.  With STAY there is one for each step, loaded
 *          once, and the block computes several tiles.
 *
 * An output row of the tile is a matrix of 16 pixels.  A warp has MT rows throughout, and 1/NS of the channels of v, which
 * stays in its registers in float32.  With NS == 2 two warps share their rows: each computes 8 of the 16 channels of g, which
 * they exchange through shared memory (gate), like the statistics of v. */
#ifndef ZN_GATED_TILE_CUH
#define ZN_GATED_TILE_CUH

#include "gated_operands.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

template <class T_, int KC, int TH, int MT, int NS, bool STAY> struct gated_tile {
    typedef operands<T_> N;
    typedef typename N::type T;
    static constexpr int TW = ZN_GATED_TW, HW = TW + 2, HALO = (TH + 2) * HW;
    static constexpr int STEP = ZN_GATED_STEP, LD_Z = ZN_GATED_LD_Z, LD_G = ZN_GATED_LD_G;
    static constexpr int ROWS = TH / MT, WARPS = ROWS * NS, THREADS = 32 * WARPS; /* ROWS: groups of rows */
    static constexpr int HM = (HALO + 15) / 16, MH = (HM + 3) / 4; /* matrices of 16 pixels of xn; of a warp */
    static constexpr int NW = 16 / WARPS;                          /* eights of pw1's 32 outputs that a warp computes */
    static constexpr int NT = 2 * KC / NS;                         /* eights of v's channels that a warp has, at most */
    static constexpr int NG = 2 / NS;                              /* eights of g that a warp computes */
    static constexpr int K = N::K, V = N::V;
    static constexpr bool KEEP = NS == 1 && K == 16; /* N v in registers, not in xn */
    static constexpr int NV = KEEP ? NT : 2;
    static constexpr int LANES = 16 * KC / V % 4 ? 2 : 4;          /* lanes that load one pixel */
    static constexpr int EACH = (16 * KC / V + LANES - 1) / LANES; /* vectors of 16 bytes of each of them */
    static constexpr bool TIMES_OVER = HM * 16 % (THREADS / LANES) != 0;
    static constexpr int LD = 16 * KC + 8; /* of xn and the rows of pw1, pw3 */
    static constexpr int AT_Z = HM * 16 * LD * (int)sizeof(T), AT_STAGE = AT_Z + HM * 16 * LD_Z * (int)sizeof(T);
    static constexpr int AT_COLUMNS = 2 * STEP * LD * (int)sizeof(T); /* from the start of a stage */
    static constexpr int AT_TAPS = AT_COLUMNS + STEP * 16 * KC * (int)sizeof(T);
    static constexpr int STAGE = AT_TAPS + 11 * 2 * STEP * 4, STAGES = STAY ? 2 * KC : 2;
    static constexpr int AT_GATE = AT_STAGE + STAGES * STAGE;
    static constexpr int AT_STATS = AT_GATE + (NS > 1 ? TH * TW * LD_G * (int)sizeof(T) : 0);
    static constexpr int SHARED = AT_STATS + (NS > 1 ? TH * TW * 16 : 0);
    static_assert(SHARED == ZN_GATED_SHARED(16 * KC, TH, NS, STAGES, (int)sizeof(T)), "");
    static_assert(!STAY || KEEP, "");                                         /* no barriers between the steps of pw3 */
    static constexpr int UNROLL = K == 8 ? 1 : KC == 3 ? 2 : KC == 6 ? 1 : 4; /* of the loops over channels */

    const zn_cuda_gated_tile &a;
    int c, nt;
    int tid, warp, lane, g, t;
    int n, i0, j0;
    unsigned inside; /* bit 2m + h: pixel g + 8h of matrix m is inside the image */
    T *xn, *z, *gate;
    char *shared;
    float acc[MT][NT][4]; /* v */

    /* Which rows of the tile, and which channels of NS, are this warp's. */
    __device__ __forceinline__ int rows() const { return warp % ROWS; }
    __device__ __forceinline__ int half() const { return warp / ROWS; }

    __device__ __forceinline__ bool in_image(int i, int j) const { return i >= 0 && i < a.x.h && j >= 0 && j < a.x.w; }

    __device__ __forceinline__ size_t pixel(const zn_tensor &x, int i, int j) const
    {
        return (((size_t)n * (size_t)x.h + (size_t)i) * (size_t)x.w + (size_t)j) * (size_t)x.ld;
    }

    __device__ __forceinline__ bool halo_inside(int p) const
    {
        return p < HALO && in_image(i0 - 1 + p / HW, j0 - 1 + p % HW);
    }

    __device__ __forceinline__ void begin(char *memory)
    {
        c = a.x.c, nt = c / 8 / NS;
        tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32, g = lane / 4, t = lane % 4;
        shared = memory;
        xn = (T *)shared, z = (T *)(shared + AT_Z), gate = (T *)(shared + AT_GATE);
    }

    __device__ __forceinline__ void locate(unsigned tile)
    {
        j0 = (int)(tile % (unsigned)a.across) * TW;
        i0 = (int)(tile / (unsigned)a.across % (unsigned)a.down) * TH;
        n = (int)(tile / (unsigned)a.across / (unsigned)a.down);
        inside = 0;
#pragma unroll
        for (int m = 0; m < 2 * MH; m++)
            if (halo_inside((warp % 4 + m / 2 * 4) * 16 + g + m % 2 * 8))
                inside |= 1u << m;
    }

    /* The weights of step s in shared memory: all, the rows of pw1 (pw3), the columns of pw2 (pw4), the taps. */
    __device__ __forceinline__ char *stage(int s) const { return shared + AT_STAGE + s % STAGES * STAGE; }
    __device__ __forceinline__ T *wide(int s) const { return (T *)stage(s); }
    __device__ __forceinline__ T *columns(int s) const { return (T *)(stage(s) + AT_COLUMNS); }
    __device__ __forceinline__ float *taps(int s) const { return (float *)(stage(s) + AT_TAPS); }

    /* The weights of step s: first of pw1, dw, pw2, then, from step c / 16 on, of pw3, pw4.  After the 9 taps come the
     * biases of dw and of pw1 (pw3).  Loops are not unrolled: the sums need the registers. */
    __device__ __forceinline__ void fetch_weights(int s) const
    {
        constexpr int E = STEP / V;
        const int c0 = s * STEP < c ? s * STEP : s * STEP - c;
        const bool first = s * STEP < c;
        const T *w = (const T *)(first ? a.w1 : a.w3), *w2 = (const T *)(first ? a.w2 : a.w4);
        T *to = wide(s);

#pragma unroll 1
        for (int r = tid / 8; r < 2 * STEP; r += THREADS / 8) {
            const T *from = w + (c0 + r % STEP + (r < STEP ? 0 : c)) * a.k_pad;

#pragma unroll 1
            for (int e = tid % 8 * V; e < c; e += 8 * V)
                copy_async16(to + r * LD + e, from + e);
        }
        to = columns(s);
#pragma unroll 1
        for (int i = tid; i < E * c; i += THREADS) {
            const int r = i / E, k = i % E * V;

            copy_async16(to + r * STEP + (r & N::SWAP ? k ^ 8 : k), w2 + r * a.k_pad + c0 + k);
        }
#pragma unroll 1
        for (int i = tid + (first ? 0 : 10 * 8); i < 11 * 8; i += THREADS) {
            const float *from = i < 9 * 8 ? a.dw + i / 8 * a.dw_pad : i < 10 * 8 ? a.bd : first ? a.b1 : a.b3;

            copy_async16(taps(s) + i * 4, from + c0 + i % 4 * 4 + (i & 4 ? c : 0));
        }
        copy_async_commit();
    }

    /* Loads xn; LANES lanes a pixel, 16 bytes each at a time, PX pixels in flight. */
    __device__ __forceinline__ void fetch_pixels() const
    {
        constexpr int AT_ONCE = THREADS / LANES, TIMES = (HM * 16 + AT_ONCE - 1) / AT_ONCE, PX = TIMES < 3 ? TIMES : 3;

#pragma unroll 1
        for (int p0 = tid / LANES; p0 < HM * 16; p0 += PX * AT_ONCE) {
            uint4 word[PX][EACH];

#pragma unroll
            for (int i = 0; i < PX; i++) {
                const int p = p0 + i * AT_ONCE;
                const bool there = halo_inside(p);
                const T *from = (const T *)a.x.data + (there ? pixel(a.x, i0 - 1 + p / HW, j0 - 1 + p % HW) : 0);

#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    const bool mine = part(e) < c;

                    word[i][e] = *(const uint4 *)(from + (mine ? part(e) : 0));
                    if (!there || !mine)
                        word[i][e] = make_uint4(0, 0, 0, 0);
                }
            }
#pragma unroll
            for (int i = 0; i < PX; i++)
                normalise_pixel(word[i], p0 + i * AT_ONCE);
        }
    }

    /* The first channel of vector e of a lane. */
    __device__ __forceinline__ int part(int e) const { return (e * LANES + lane % LANES) * V; }

    __device__ __forceinline__ void normalise_pixel(const uint4 (&word)[EACH], int p) const
    {
        float v[EACH][V], sum = 0, square = 0, mean, inv, shift;

#pragma unroll
        for (int e = 0; e < EACH; e++) {
            N::widen(v[e], word[e]);
#pragma unroll
            for (int i = 0; i < V; i++)
                sum += v[e][i];
        }
        mean = sum_lanes(sum, LANES) * a.per_c;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            float part_square = 0;

#pragma unroll
            for (int i = 0; i < V; i++)
                part_square += (v[e][i] - mean) * (v[e][i] - mean);
            square += part(e) < c ? part_square : 0;
        }
        inv = rsqrtf(sum_lanes(square, LANES) * a.per_c + a.eps);
        shift = -mean * inv;
        if (TIMES_OVER && p >= HM * 16)
            return;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
#pragma unroll
            for (int i = 0; i < V; i++) /* 16-bit values: the mean cannot be large against the deviation */
                v[e][i] = K == 16 ? fmaf(v[e][i], inv, shift) : (v[e][i] - mean) * inv;
            if (part(e) < c)
                *(uint4 *)(xn + p * LD + part(e)) = N::to_memory(v[e]);
        }
    }

    /* The first of the two channels that a lane has of the warp's eight i. */
    __device__ __forceinline__ int channel(int i) const { return (half() * nt + i) * 8 + 2 * t; }

    /* acc = x + bias of pw2; any value for pixels outside the image.  There are no branches, so that all loads are in
     * flight before the first is used. */
    __device__ __forceinline__ void start_sums()
    {
        const T *from[MT][2];

#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int i = i0 + rows() * MT + m, j = j0 + g + 8 * h;

                from[m][h] = (const T *)a.x.data + (in_image(i, j) ? pixel(a.x, i, j) : 0);
            }
#pragma unroll
        for (int k = 0; k < NT; k++) {
            const int at = k < nt ? channel(k) : 0;
            const float2 b = __ldg((const float2 *)(a.b2 + at));

#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 x = N::pair(from[m][h] + at);

                    acc[m][k][2 * h] = x.x + b.x;
                    acc[m][k][2 * h + 1] = x.y + b.y;
                }
        }
    }

    /* d += the product of K channels; the first time d = bias + it */
    template <bool begin>
    __device__ __forceinline__ void add_points(float (&d)[MH][NW][4], const T *from_a, const T *from_b,
                                               const float *bias) const
    {
        typename N::b_matrix fb[NW];

#pragma unroll
        for (int i = 0; i < NW; i += 2)
            N::load(fb[i], fb[i + 1], from_b + i * 8 * LD, 8 * LD);
#pragma unroll
        for (int m = 0; m < MH; m++)
            if (HM % 4 == 0 || warp % 4 + 4 * m < HM) {
                typename N::a_matrix fa;

                N::load(fa, from_a + m * 64 * LD, LD);
#pragma unroll
                for (int i = 0; i < NW; i++)
                    if (begin)
                        N::start(d[m][i], *(const float2 *)(bias + i * 8), fa, fb[i]);
                    else
                        N::add(d[m][i], fa, fb[i]);
            }
    }

    /* z = pw1(xn) for 16 channels and their partners, and 0 outside the image. */
    __device__ __forceinline__ void widen_pixels(const T *w, const float *bias) const
    {
        const int first = warp % 4, n0 = warp / 4 * NW;
        const T *from_b = w + n0 * 8 * LD + N::b_at(lane, LD, 8 * LD);
        const T *from_a = xn + first * 16 * LD + N::a_at(lane, LD);
        float d[MH][NW][4];

        add_points<true>(d, from_a, from_b, bias + n0 * 8 + 2 * t);
#pragma unroll UNROLL
        for (int k = K; k < c; k += K)
            add_points<false>(d, from_a + k, from_b + k, bias);
#pragma unroll
        for (int m = 0; m < MH; m++)
            if (HM % 4 == 0 || first + 4 * m < HM)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int i = 0; i < NW; i++)
                        N::put_pair(z + ((first + 4 * m) * 16 + g + 8 * h) * LD_Z + (n0 + i) * 8 + 2 * t,
                                    d[m][i][2 * h], d[m][i][2 * h + 1], inside >> (2 * m + h) & 1);
    }

    /* da = dw(z) for eight channels of z from q on, and db for their partners; w: the taps, and the bias.  16-bit
     * types use products with diagonal matrices, where two taps are one product with k = 16. */
    __device__ __forceinline__ void depthwise(float (&da)[MT][4], float (&db)[MT][4], const float *w, int q) const
    {
        const float *bias = w + 9 * 2 * STEP + q + 2 * t;
        const float2 ba = *(const float2 *)bias, bb = *(const float2 *)(bias + STEP);

        if constexpr (K == 16) {
            const unsigned keep = g / 2 != t ? 0 : g % 2 ? 0xffff0000u : 0xffffu; /* what a lane has of a diagonal */
            const T *from = z + (rows() * MT * HW + lane % 16) * LD_Z + q + lane / 16 * STEP;

#pragma unroll
            for (int v = 0; v < 3; v++) {
                unsigned f[MT + 2][4], wa[3], wb[3]; /* f: two registers of a half, two of its partners */

#pragma unroll
                for (int u = 0; u < MT + 2; u++)
                    ldmatrix4(f[u], from + (u * HW + v) * LD_Z);
#pragma unroll
                for (int u = 0; u < 3; u++) {
                    const float *tap = w + (u * 3 + v) * 2 * STEP + q + g;

                    wa[u] = pack_pair<T>(tap[0], tap[0]) & keep;
                    wb[u] = pack_pair<T>(tap[STEP], tap[STEP]) & keep;
                }
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    if (v == 0) {
                        mma16<T>(da[m], ba.x, ba.y, f[m][0], f[m][1], f[m + 1][0], f[m + 1][1], wa[0], wa[1]);
                        mma16<T>(db[m], bb.x, bb.y, f[m][2], f[m][3], f[m + 1][2], f[m + 1][3], wb[0], wb[1]);
                    } else {
                        mma16<T>(da[m], f[m][0], f[m][1], f[m + 1][0], f[m + 1][1], wa[0], wa[1]);
                        mma16<T>(db[m], f[m][2], f[m][3], f[m + 1][2], f[m + 1][3], wb[0], wb[1]);
                    }
                    mma8<T>(da[m], f[m + 2][0], f[m + 2][1], wa[2]);
                    mma8<T>(db[m], f[m + 2][2], f[m + 2][3], wb[2]);
                }
            }
        } else {
            add_taps(da, ba, w + q + 2 * t, z + (rows() * MT * HW + g) * LD_Z + q + 2 * t);
            add_taps(db, bb, w + STEP + q + 2 * t, z + (rows() * MT * HW + g) * LD_Z + STEP + q + 2 * t);
        }
    }

    /* d = bias + the taps at w of the elements at `from`, with FMAs; d is laid out as by mma. */
    __device__ __forceinline__ void add_taps(float (&d)[MT][4], float2 bias, const float *w, const T *from) const
    {
#pragma unroll
        for (int m = 0; m < MT; m++)
            d[m][0] = d[m][2] = bias.x, d[m][1] = d[m][3] = bias.y;
#pragma unroll
        for (int v = 0; v < 3; v++) {
            float2 tap[3];

#pragma unroll
            for (int u = 0; u < 3; u++)
                tap[u] = *(const float2 *)(w + (u * 3 + v) * 2 * STEP);
#pragma unroll
            for (int i = 0; i < MT + 2; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 x = N::pair(from + (i * HW + v + 8 * h) * LD_Z);

#pragma unroll
                    for (int m = i > 2 ? i - 2 : 0; m < MT && m <= i; m++) {
                        d[m][2 * h] = fmaf(tap[i - m].x, x.x, d[m][2 * h]);
                        d[m][2 * h + 1] = fmaf(tap[i - m].y, x.y, d[m][2 * h + 1]);
                    }
                }
        }
    }

    /* gated: dw(z), the halves multiplied */
    __device__ __forceinline__ void gate_taps(typename N::eight (&gated)[MT][NG], const float *w) const
    {
#pragma unroll
        for (int e = 0; e < NG; e++) {
            float da[MT][4], db[MT][4];

            depthwise(da, db, w, (NS == 1 ? e : half()) * 8);
#pragma unroll
            for (int m = 0; m < MT; m++)
                multiply_halves(gated[m][e], da[m], db[m]);
        }
    }

    __device__ __forceinline__ void multiply_halves(typename N::eight &to, const float (&x)[4],
                                                    const float (&y)[4]) const
    {
        N::pack(to, x[0] * y[0], x[1] * y[1], x[2] * y[2], x[3] * y[3]);
    }

    /* d += the product of K channels of N v, from k on; the first time d = bias + it */
    template <bool begin>
    __device__ __forceinline__ void add_gates(float (&d)[MT][NG][2][4], const typename N::eight (&nv)[MT][NV],
                                              const T *from_a, const T *from_b, int k, const float *bias) const
    {
        typename N::b_matrix fb[NG][2];

#pragma unroll
        for (int e = 0; e < NG; e++)
            N::load(fb[e][0], fb[e][1], from_b + e * 8 * LD + k, STEP * LD);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            typename N::a_matrix fa;

            if (KEEP)
                N::operand(fa, &nv[m][k / 8 % NV]);
            else
                N::load(fa, from_a + m * 16 * LD + k, LD);
#pragma unroll
            for (int e = 0; e < NG; e++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (begin)
                        N::start(d[m][e][i], *(const float2 *)(bias + i * STEP + e * 8), fa, fb[e][i]);
                    else
                        N::add(d[m][e][i], fa, fb[e][i]);
        }
    }

    /* gated: pw3(N v), the halves multiplied; N v is in xn or nv */
    __device__ __forceinline__ void gate_points(typename N::eight (&gated)[MT][NG],
                                                const typename N::eight (&nv)[MT][NV], const T *w,
                                                const float *bias) const
    {
        const int q = NS == 1 ? 0 : half() * 8;
        const T *from_b = w + q * LD + N::b_at(lane, LD, STEP * LD);
        const T *from_a = xn + rows() * MT * 16 * LD + N::a_at(lane, LD);
        float d[MT][NG][2][4];

        add_gates<true>(d, nv, from_a, from_b, 0, bias + q + 2 * t);
        if constexpr (KEEP) {
#pragma unroll
            for (int k = K; k < 16 * KC; k += K)
                if (k < c)
                    add_gates<false>(d, nv, from_a, from_b, k, bias);
        } else {
#pragma unroll UNROLL
            for (int k = K; k < c; k += K)
                add_gates<false>(d, nv, from_a, from_b, k, bias);
        }
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < NG; e++)
                multiply_halves(gated[m][e], d[m][e][0], d[m][e][1]);
    }

    /* A barrier for the warps that have the same rows. */
    __device__ __forceinline__ void meet() const
    {
        if (NS == 1)
            __syncwarp();
        else
            barrier_some(1 + rows(), 32 * NS);
    }

    /* gated as the STEP / K matrices of each row of pixels */
    __device__ __forceinline__ void operands(typename N::a_matrix (&fa)[MT][STEP / K],
                                             const typename N::eight (&gated)[MT][NG]) const
    {
        if constexpr (NS > 1) {
#pragma unroll
            for (int m = 0; m < MT; m++)
                N::store(gated[m][0], gate + ((rows() * MT + m) * 16 + g) * LD_G + half() * 8 + 2 * t, LD_G);
            meet();
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int k = 0; k < STEP / K; k++)
                    N::load(fa[m][k], gate + (rows() * MT + m) * 16 * LD_G + k * K + N::a_at(lane, LD_G), LD_G);
        } else {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int k = 0; k < STEP / K; k++)
                    N::operand(fa[m][k], &gated[m][k * K / 8]);
        }
    }

    /* acc += pw2 or pw4 of gated, without the bias */
    __device__ __forceinline__ void add_product(const typename N::eight (&gated)[MT][NG], const T *w)
    {
        typename N::a_matrix fa[MT][STEP / K];

        operands(fa, gated);
        w += half() * nt * 8 * STEP;
#pragma unroll
        for (int s = 0; s < STEP / K; s++) {
            const int at = N::b_at(lane, STEP, 8 * STEP) + s * K, swap = at / STEP & N::SWAP ? 8 : 0;
            const T *from = w + (at ^ swap);

#pragma unroll
            for (int k = 0; k < NT; k += 2)
                if (k < nt) {
                    typename N::b_matrix fb[2];

                    N::load(fb[0], fb[1], from + k * 8 * STEP, 8 * STEP); /* if nt is odd, 8 rows too many */
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        N::add(acc[m][k], fa[m][s], fb[0]);
                        if (k + 1 < nt)
                            N::add(acc[m][k + 1], fa[m][s], fb[1]);
                    }
                }
        }
    }

    /* Mean, and sum of squared deviations from it, of this warp's channels of pixel g + 8h of row m of v. */
    __device__ __forceinline__ float2 statistics(int m, int h) const
    {
        float sum = 0, square = 0, mean;

#pragma unroll
        for (int k = 0; k < NT; k++)
            if (k < nt)
                sum += acc[m][k][2 * h] + acc[m][k][2 * h + 1];
        mean = sum_lanes(sum, 4) * ((float)NS * a.per_c);
#pragma unroll
        for (int k = 0; k < NT; k++)
            if (k < nt) {
                const float x = acc[m][k][2 * h] - mean, y = acc[m][k][2 * h + 1] - mean;

                square += x * x + y * y;
            }
        return make_float2(mean, sum_lanes(square, 4));
    }

    /* xn or nv = N v */
    __device__ __forceinline__ void normalise_sums(typename N::eight (&nv)[MT][NV]) const
    {
        float2 *stats = (float2 *)(shared + AT_STATS), stat[MT][2];

#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                stat[m][h] = statistics(m, h);
                if (NS > 1 && t == 0)
                    stats[((rows() * MT + m) * 16 + g + 8 * h) * 2 + half()] = stat[m][h];
            }
        if (NS > 1)
            meet();
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const int p = (rows() * MT + m) * 16 + g;
            float mean[2], inv[2];

#pragma unroll
            for (int h = 0; h < 2; h++) {
                float square = stat[m][h].y;

                mean[h] = stat[m][h].x;
                if (NS > 1) { /* combines two halves: their squared deviations, and that of their means */
                    const float2 o = stats[(p + 8 * h) * 2 + 1 - half()];

                    square = (square + o.y) + (mean[h] - o.x) * (mean[h] - o.x) * (float)(c / 4);
                    mean[h] = 0.5f * (mean[h] + o.x);
                }
                inv[h] = rsqrtf(square * a.per_c + a.eps);
            }
#pragma unroll
            for (int k = 0; k < NT; k++) {
                const float(&v)[4] = acc[m][k];
                typename N::eight e;

                N::pack(e, (v[0] - mean[0]) * inv[0], (v[1] - mean[0]) * inv[0], (v[2] - mean[1]) * inv[1],
                        (v[3] - mean[1]) * inv[1]);
                if (KEEP)
                    nv[m][k % NV] = e;
                else if (k < nt)
                    N::store(e, xn + p * LD + channel(k), LD);
            }
        }
    }

    /* y = acc + bias of pw4, through xn: no other warp reads this warp's rows of it any more. */
    __device__ __forceinline__ void store() const
    {
        if (NS == 1)
            __syncwarp();
#pragma unroll
        for (int k = 0; k < NT; k++) {
            const float2 b = __ldg((const float2 *)(a.b4 + (k < nt ? channel(k) : 0)));

            if (k < nt)
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        N::put_pair(xn + ((rows() * MT + m) * 16 + g + 8 * h) * LD + channel(k), acc[m][k][2 * h] + b.x,
                                    acc[m][k][2 * h + 1] + b.y);
        }
        meet();
        for (int m = half(); m < 2 * MT; m += NS) {
            const int i = i0 + rows() * MT + m / 2, j = j0 + m % 2 * 8 + g;

            if (in_image(i, j)) {
                const T *from = xn + (rows() * MT * 16 + m * 8 + g) * LD;
                T *to = (T *)a.y.data + pixel(a.y, i, j);

                for (int e = t * V; e < c; e += 4 * V)
                    *(uint4 *)(to + e) = *(const uint4 *)(from + e);
            }
        }
    }

    __device__ __forceinline__ void make_tile()
    {
        typename N::eight gated[MT][NG], nv[MT][NV];

        fetch_pixels();
        start_sums();
        for (int s = 0; s * STEP < c; s++) {
            copy_async_wait<0>();
            __syncthreads(); /* all warps are done with step s - 1: its weights and z may be overwritten */
            if (!STAY)
                fetch_weights(s + 1);
            widen_pixels(wide(s), taps(s) + 10 * 2 * STEP);
            __syncthreads();
            gate_taps(gated, taps(s));
            add_product(gated, columns(s));
        }
        normalise_sums(nv); /* no warp reads xn after the last barrier */
        for (int s = c / STEP; s * STEP < 2 * c; s++) {
            if (!STAY) {
                copy_async_wait<0>();
                __syncthreads();
                if ((s + 1) * STEP < 2 * c)
                    fetch_weights(s + 1);
            }
            gate_points(gated, nv, wide(s), taps(s) + 10 * 2 * STEP);
            add_product(gated, columns(s));
        }
        store();
    }

    __device__ __forceinline__ void run(char *memory)
    {
        begin(memory);
        if (STAY) {
            for (int s = 0; s * STEP < 2 * c; s++)
                fetch_weights(s);
            for (unsigned tile = blockIdx.x; tile < (unsigned)a.tiles; tile += gridDim.x) {
                locate(tile);
                make_tile();
                __syncthreads(); /* the next tile's pixels overwrite y */
            }
        } else {
            locate(blockIdx.x);
            fetch_weights(0);
            make_tile();
        }
    }
};

#endif

#endif
