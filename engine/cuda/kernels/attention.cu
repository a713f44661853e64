/* SPDX-License-Identifier: MIT */
/* attention.cu - softmax(scale * q k^T) v, streaming over the keys (Dao et al. 2022).
 *
 *   plain        any types, any sizes: float32 throughout; a block has 64 queries of a head and up to 128 of its outputs
 *   attention_D  on tensor cores (mma.sync, from compute capability 8.0 on): heads of a multiple of 8 channels (float32:
 *                of 4), padded with zeros to D.  In float32 each factor is the sum of two tf32 values, and a product
 *                three (to 2^-21)
 *   wide         the same for longer heads: a block has 64 queries and 128 outputs, and reads q and k in parts of 128
 * hopper_attention.cu has another, for compute capability 9.0.
 * All keep S = q k^T and the outputs in registers, and for each query the running maximum of the scores and the sum of
 * the weights; outputs and sum are rescaled when the maximum grows.
 * causal: query i reads the keys 0 .. i + n_k - n_q.  Blocks of keys after that are skipped, scores after it are
 * -infinity.  Key 0 is visible to every query, so that no maximum stays at -infinity. */
#include "common.cuh"

extern __shared__ __align__(16) char shared_bytes[];

/* ---- plain ------------------------------------------------------------------------------------------------- */

enum { BQ = 64, BK = 64, STEP = 32, CUT = 128, PITCH = BQ + 4 };

/* rows x STEP elements of a tensor, transposed: to[d][row]; zeros outside n and dim. */
__device__ __forceinline__ void stage_transposed(float *to, const zn_tensor &t, size_t first, int n, int c, int dim)
{
    for (int i = threadIdx.x; i < BQ * STEP; i += 256) {
        int row = i / STEP, d = i % STEP;

        to[d * PITCH + row] = row < n && d < dim ? load_any(t, (first + row) * t.ld + c + d) : 0;
    }
}

extern "C" __global__ void __launch_bounds__(256) attention_plain(const zn_args_attention g)
{
    __shared__ __align__(16) float stage[2 * STEP * PITCH], weights[BQ * PITCH]; /* weights[query][key] */
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    int head = (int)blockIdx.y / g.cuts, cut = (int)blockIdx.y % g.cuts * CUT, width = min(g.dim_v - cut, (int)CUT);
    int kv = head / g.shared, c = head * g.dim, ck = kv * g.dim, cv = kv * g.dim_v + cut,
        q0 = (g.from_tile + (int)blockIdx.x) * BQ;
    int end = end_of_keys(g, q0 + BQ);
    size_t q_image = (size_t)blockIdx.z * g.n_q, k_image = (size_t)blockIdx.z * g.n_k;
    float *qs = stage, *ks = stage + STEP * PITCH, *vs = stage; /* vs: [key][CUT], 32 keys */
    float o[4][8], top[4], sum[4];

#pragma unroll
    for (int r = 0; r < 4; r++) {
        top[r] = -INFINITY;
        sum[r] = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
            o[r][i] = 0;
    }
    for (int k0 = 0; k0 < end; k0 += BK) {
        float s[4][4];

#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[r][i] = 0;
        for (int d = 0; d < g.dim; d += STEP) {
            __syncthreads();
            stage_transposed(qs, g.q, q_image + q0, g.n_q - q0, c + d, g.dim - d);
            stage_transposed(ks, g.k, k_image + k0, g.n_k - k0, ck + d, g.dim - d);
            __syncthreads();
#pragma unroll 8
            for (int i = 0; i < STEP; i++) {
                float4 a = *(const float4 *)(qs + i * PITCH + ty * 4), b = *(const float4 *)(ks + i * PITCH + tx * 4);
                float qa[4] = { a.x, a.y, a.z, a.w }, kb[4] = { b.x, b.y, b.z, b.w };

#pragma unroll
                for (int r = 0; r < 4; r++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        s[r][j] += qa[r] * kb[j];
            }
        }
#pragma unroll
        for (int r = 0; r < 4; r++) { /* 16 neighbouring threads have the 64 scores of a query */
            float most = top[r], shrink, part = 0;

#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[r][j] = k0 + tx * 4 + j < end_of_keys(g, q0 + ty * 4 + r + 1) ? s[r][j] * g.scale : -INFINITY;
                most = fmaxf(most, s[r][j]);
            }
            most = max_lanes(most, 16);
            shrink = expf(top[r] - most);
            top[r] = most;
#pragma unroll
            for (int j = 0; j < 4; j++)
                part += s[r][j] = expf(s[r][j] - most);
            sum[r] = sum[r] * shrink + sum_lanes(part, 16);
#pragma unroll
            for (int i = 0; i < 8; i++)
                o[r][i] *= shrink;
            *(float4 *)(weights + (ty * 4 + r) * PITCH + tx * 4) = make_float4(s[r][0], s[r][1], s[r][2], s[r][3]);
        }
        for (int k1 = 0; k1 < BK && k0 + k1 < end; k1 += STEP) {
            __syncthreads();
            for (int i = threadIdx.x; i < STEP * CUT; i += 256) {
                int key = k0 + k1 + i / CUT, d = i % CUT;

                vs[i] = key < g.n_k && d < width ? load_any(g.v, (k_image + key) * g.v.ld + cv + d) : 0;
            }
            __syncthreads();
#pragma unroll 4
            for (int i = 0; i < STEP; i++) {
                float v[8], p;

#pragma unroll
                for (int j = 0; j < 8; j++)
                    v[j] = vs[i * CUT + tx + 16 * j];
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    p = weights[(ty * 4 + r) * PITCH + k1 + i];
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        o[r][j] += p * v[j];
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        int q = q0 + ty * 4 + r;

#pragma unroll
        for (int j = 0; j < 8; j++)
            if (q < g.n_q && tx + 16 * j < width)
                store_any(g.y, (q_image + q) * g.y.ld + head * g.dim_v + cut + tx + 16 * j, o[r][j] / sum[r]);
    }
}

/* ---- instructions -------------------------------------------------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ZN_TENSOR_CORES 1

__device__ __forceinline__ void copies_done() /* those of this thread */
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* ldmatrix4, each matrix transposed. */
__device__ __forceinline__ void ldmatrix4_transposed(unsigned (&m)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}
#endif

/* ---- tensor cores ---------------------------------------------------------------------------------------------
 *
 * A warp has M x 16 queries.  Of a 16x8 product, thread t has rows t/4 and t/4 + 8, columns 2 (t%4) and the next:
 * c[0], c[1] and c[2], c[3].  A left factor has the same layout, so that the weights go from the first product to the
 * second in registers.
 *
 *   shared memory: Q [M * 64], K [KEYS], V [KEYS] rows of D; 16 bytes more to a row: no bank conflicts
 *   K is copied while the last values are summed, V while scores are computed. */
#ifdef ZN_TENSOR_CORES
enum { KEYS = 64, WARPS = 4 };

template <class T> constexpr int per_16_bytes = 16 / (int)sizeof(T);

/* Rows first .. first + ROWS - 1 of n, which begin at t; elements d < D of each, zeros from dim on. */
template <class T, int D, int ROWS>
__device__ __forceinline__ void stage_rows(T *to, const T *t, int ld, int first, int n, int dim,
                                           int pitch = D + per_16_bytes<T>)
{
    enum { PER = per_16_bytes<T>, CHUNKS = D / PER };

    t += (size_t)first * ld;
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS; i += WARPS * 32) {
        int at = i + (int)threadIdx.x, row = at / CHUNKS, d = at % CHUNKS * PER;
        bool in = first + row < n && d < dim;

        if (ROWS * CHUNKS % (WARPS * 32) == 0 || at < ROWS * CHUNKS)
            copy_async16(to + row * pitch + d, in ? t + (row * ld + d) : t, in);
    }
}

/* s += q k^T for this warp's queries, over D elements */
template <class T, int D, int M>
__device__ __forceinline__ void add_scores(float (&s)[M][KEYS / 8][4], const T *q, int pitch, const T *k, int lane)
{
    const T *q_row = q + (lane % 16) * pitch + lane / 16 * 8;
    const T *k_row = k + (lane % 8 + lane / 16 * 8) * (D + 8) + lane / 8 % 2 * 8;

#pragma unroll
    for (int d = 0; d < D; d += 16) {
        unsigned a[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            ldmatrix4(a[m], q_row + m * 16 * pitch + d);
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            unsigned b[4];

            ldmatrix4(b, k_row + j * 16 * (D + 8) + d);
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma16<T>(s[m][2 * j], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
                mma16<T>(s[m][2 * j + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
            }
        }
    }
}

/* In float32: three products for each. */
__device__ __forceinline__ void mma8_f32(float (&d)[4], const unsigned (&a)[2][4], const unsigned (&b)[2][2])
{
    mma8_tf32(d, a[1], b[0]);
    mma8_tf32(d, a[0], b[1]);
    mma8_tf32(d, a[0], b[0]);
}

template <class T, int D, int M>
__device__ __forceinline__ void add_scores(float (&s)[M][KEYS / 8][4], const float *q, int pitch, const float *k,
                                           int lane)
{
    const float *q_row = q + lane / 4 * pitch + lane % 4, *k_row = k + lane / 4 * (D + 4) + lane % 4;

#pragma unroll 2
    for (int d = 0; d < D; d += 8) {
        unsigned a[M][2][4];

#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                split_tf32(__float_as_uint(q_row[(m * 16 + i % 2 * 8) * pitch + d + i / 2 * 4]), a[m][0][i],
                           a[m][1][i]);
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            unsigned b[2][2];

#pragma unroll
            for (int i = 0; i < 2; i++)
                split_tf32(__float_as_uint(k_row[j * 8 * (D + 4) + d + i * 4]), b[0][i], b[1][i]);
#pragma unroll
            for (int m = 0; m < M; m++)
                mma8_f32(s[m][j], a[m], b);
        }
    }
}

template <int M, int N> __device__ __forceinline__ void clear(float (&s)[M][N][4])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][j][i] = 0;
}

/* -infinity for what queries `first` and after may not read of the keys from k0 on. */
template <int M>
__device__ __forceinline__ void hide(float (&s)[M][KEYS / 8][4], const zn_args_attention &g, int first, int k0,
                                     int lane)
{
    if (end_of_keys(g, first + 1) >= k0 + KEYS)
        return;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int left = end_of_keys(g, first + m * 16 + h * 8 + lane / 4 + 1) - k0 - lane % 4 * 2;

#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
                s[m][j][2 * h] = j * 8 < left ? s[m][j][2 * h] : -INFINITY;
                s[m][j][2 * h + 1] = j * 8 + 1 < left ? s[m][j][2 * h + 1] : -INFINITY;
            }
        }
}

/* Scores to weights 2^(scale (s - top)); scale includes log2 e.  top is raised to the maximum only when that is 2^8
 * times more: a weight may be that large, and o and sum are rarely rescaled. */
template <int D, int M>
__device__ __forceinline__ void soften(float (&s)[M][KEYS / 8][4], float (&o)[M][D / 8][4], float (&top)[M][2],
                                       float (&sum)[M][2], float scale)
{
    float most[M][2];
    bool more = false;

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            most[m][h] = top[m][h];
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
                most[m][h] = fmaxf(most[m][h], fmaxf(s[m][j][2 * h], s[m][j][2 * h + 1]));
            most[m][h] = fmaxf(most[m][h], __shfl_xor_sync(0xffffffffu, most[m][h], 1));
            most[m][h] = fmaxf(most[m][h], __shfl_xor_sync(0xffffffffu, most[m][h], 2));
            more = more || (most[m][h] - top[m][h]) * scale > 8;
        }
    if (__any_sync(0xffffffffu, more)) {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float shrink = exp2_short((top[m][h] - most[m][h]) * scale);

                top[m][h] = most[m][h];
                sum[m][h] *= shrink;
#pragma unroll
                for (int j = 0; j < D / 8; j++) {
                    o[m][j][2 * h] *= shrink;
                    o[m][j][2 * h + 1] *= shrink;
                }
            }
    }
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float base = top[m][h] * scale;

#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
                s[m][j][2 * h] = exp2_short(s[m][j][2 * h] * scale - base);
                s[m][j][2 * h + 1] = exp2_short(s[m][j][2 * h + 1] * scale - base);
                sum[m][h] += s[m][j][2 * h] + s[m][j][2 * h + 1]; /* of this thread's columns, until the end */
            }
        }
}

/* o += s v */
template <class T, int D, int M>
__device__ __forceinline__ void add_values(float (&o)[M][D / 8][4], const float (&s)[M][KEYS / 8][4], const T *v,
                                           int lane)
{
    const T *v_row = v + (lane % 16) * (D + 8) + lane / 16 * 8;

#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        unsigned a[M][4];

#pragma unroll
        for (int m = 0; m < M; m++) {
            a[m][0] = pack_weights<T>(s[m][2 * k][0], s[m][2 * k][1]);
            a[m][1] = pack_weights<T>(s[m][2 * k][2], s[m][2 * k][3]);
            a[m][2] = pack_weights<T>(s[m][2 * k + 1][0], s[m][2 * k + 1][1]);
            a[m][3] = pack_weights<T>(s[m][2 * k + 1][2], s[m][2 * k + 1][3]);
        }
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            unsigned b[4];

            ldmatrix4_transposed(b, v_row + k * 16 * (D + 8) + j * 16);
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma16<T>(o[m][2 * j], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
                mma16<T>(o[m][2 * j + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
            }
        }
    }
}

/* In float32.  Column t of a left factor is key 2t, and column t + 4 key 2t + 1: so weights need not move between threads.
 * A block of keys is summed on its own, because tensor cores do not round sums to the nearest. */
template <class T, int D, int M>
__device__ __forceinline__ void add_values(float (&o)[M][D / 8][4], const float (&s)[M][KEYS / 8][4], const float *v,
                                           int lane)
{
    const float *v_row = v + lane % 4 * 2 * (D + 4) + lane / 4;
    unsigned a[M][KEYS / 8][2][4];

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int k = 0; k < KEYS / 8; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                split_tf32(__float_as_uint(s[m][k][i % 2 * 2 + i / 2]), a[m][k][0][i], a[m][k][1][i]);
#pragma unroll
    for (int j = 0; j < D / 8; j += 2) {
        float part[M][2][4];

        clear(part);
#pragma unroll
        for (int k = 0; k < KEYS / 8; k++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                unsigned b[2][2];

#pragma unroll
                for (int i = 0; i < 2; i++)
                    split_tf32(__float_as_uint(v_row[(k * 8 + i) * (D + 4) + (j + n) * 8]), b[0][i], b[1][i]);
#pragma unroll
                for (int m = 0; m < M; m++)
                    mma8_f32(part[m][n], a[m][k], b);
            }
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    o[m][j + n][i] += part[m][n][i];
    }
}

__device__ __forceinline__ void store_pair(float *to, float a, float b) { *(float2 *)to = make_float2(a, b); }
template <class T> __device__ __forceinline__ void store_pair(T *to, float a, float b)
{
    *(unsigned *)to = pack2<T>(a, b);
}

/* y = o / sum, to `width` channels from c on */
template <class T, int D, int M>
__device__ __forceinline__ void write_outputs(const zn_args_attention &g, float (&o)[M][D / 8][4], float (&sum)[M][2],
                                              int first, int c, int width, int lane)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int q = first + m * 16 + h * 8 + lane / 4;
            size_t at = ((size_t)blockIdx.z * g.n_q + q) * g.y.ld + c + lane % 4 * 2;
            float total = sum[m][h];

            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            total = 1.f / total;
            if (q < g.n_q)
#pragma unroll
                for (int j = 0; j < D / 8; j++)
                    if (j * 8 < width)
                        store_pair((T *)g.y.data + at + j * 8, o[m][j][2 * h] * total, o[m][j][2 * h + 1] * total);
        }
}

template <int M> __device__ __forceinline__ void begin(float (&top)[M][2], float (&sum)[M][2])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            top[m][h] = -INFINITY, sum[m][h] = 0;
}

template <class T, int D, int M> __device__ __forceinline__ void attend(const zn_args_attention &g)
{
    enum { ROWS = M * 16 * WARPS, PITCH = D + per_16_bytes<T> };
    T *q = (T *)shared_bytes, *k = q + ROWS * PITCH, *v = k + KEYS * PITCH;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int c = (int)blockIdx.y * g.dim, ck = (int)blockIdx.y / g.shared * g.dim,
        first = (g.from_tile + (int)blockIdx.x) * ROWS;
    int mine = first + warp * M * 16, end = end_of_keys(g, first + ROWS);
    const T *queries = (const T *)g.q.data + (size_t)blockIdx.z * g.n_q * g.q.ld + c;
    const T *keys = (const T *)g.k.data + (size_t)blockIdx.z * g.n_k * g.k.ld + ck;
    const T *values = (const T *)g.v.data + (size_t)blockIdx.z * g.n_k * g.v.ld + ck;
    float scale = g.scale * 1.44269504f;
    float s[M][KEYS / 8][4], o[M][D / 8][4], top[M][2], sum[M][2];

    stage_rows<T, D, ROWS>(q, queries, g.q.ld, first, g.n_q, g.dim);
    stage_rows<T, D, KEYS>(k, keys, g.k.ld, 0, g.n_k, g.dim);
    begin(top, sum);
    clear(o);
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        copies_done();
        __syncthreads(); /* K has arrived, and no warp reads the last V any more */
        stage_rows<T, D, KEYS>(v, values, g.v.ld, k0, g.n_k, g.dim);
        clear(s);
        add_scores<T, D, M>(s, q + warp * M * 16 * PITCH, PITCH, k, lane);
        hide(s, g, mine, k0, lane);
        soften<D, M>(s, o, top, sum, scale);
        copies_done();
        __syncthreads(); /* V has arrived, and no warp reads this K any more */
        if (k0 + KEYS < end)
            stage_rows<T, D, KEYS>(k, keys, g.k.ld, k0 + KEYS, g.n_k, g.dim);
        add_values<T, D, M>(o, s, v, lane);
    }
    write_outputs<T, D, M>(g, o, sum, mine, c, g.dim, lane);
}

/* Heads longer than attend() has registers for.  Scores are summed over parts of D elements; each block computes them
 * for its D outputs of the head.
 *   shared memory: Q [64][dim padded to parts, + 8], K [2][KEYS][D + 8]: a part is copied while the one before it is
 *   used, V [KEYS][D + 8] */
template <class T> __device__ __forceinline__ void attend_wide(const zn_args_attention &g)
{
    enum { D = 128, M = 1, ROWS = M * 16 * WARPS, PART = KEYS * (D + 8) };
    const int parts = (g.dim + D - 1) / D, pitch = parts * D + 8;
    T *q = (T *)shared_bytes, *k = q + ROWS * pitch, *v = k + 2 * PART;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int head = (int)blockIdx.y / g.cuts, cut = (int)blockIdx.y % g.cuts * D, kv = head / g.shared;
    int first = (g.from_tile + (int)blockIdx.x) * ROWS, mine = first + warp * M * 16,
        end = end_of_keys(g, first + ROWS);
    const T *queries = (const T *)g.q.data + (size_t)blockIdx.z * g.n_q * g.q.ld + head * g.dim;
    const T *keys = (const T *)g.k.data + (size_t)blockIdx.z * g.n_k * g.k.ld + kv * g.dim;
    const T *values = (const T *)g.v.data + (size_t)blockIdx.z * g.n_k * g.v.ld + kv * g.dim_v + cut;
    float scale = g.scale * 1.44269504f;
    float s[M][KEYS / 8][4], o[M][D / 8][4], top[M][2], sum[M][2];
    int now = 0; /* the half of k with the current part */

    for (int i = 0; i < parts; i++)
        stage_rows<T, D, ROWS>(q + i * D, queries + i * D, g.q.ld, first, g.n_q, g.dim - i * D, pitch);
    stage_rows<T, D, KEYS>(k, keys, g.k.ld, 0, g.n_k, g.dim);
    begin(top, sum);
    clear(o);
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        clear(s);
        for (int i = 0; i < parts; i++, now ^= 1) {
            copies_done();
            __syncthreads(); /* the part has arrived; no warp reads the other half, or the last V, any more */
            if (!i)
                stage_rows<T, D, KEYS>(v, values, g.v.ld, k0, g.n_k, g.dim_v - cut);
            if (i + 1 < parts)
                stage_rows<T, D, KEYS>(k + (now ^ 1) * PART, keys + (i + 1) * D, g.k.ld, k0, g.n_k,
                                       g.dim - (i + 1) * D);
            else if (k0 + KEYS < end)
                stage_rows<T, D, KEYS>(k + (now ^ 1) * PART, keys, g.k.ld, k0 + KEYS, g.n_k, g.dim);
            add_scores<T, D, M>(s, q + warp * M * 16 * pitch + i * D, pitch, k + now * PART, lane);
        }
        hide(s, g, mine, k0, lane);
        soften<D, M>(s, o, top, sum, scale);
        copies_done();
        __syncthreads(); /* V has arrived */
        add_values<T, D, M>(o, s, v, lane);
    }
    write_outputs<T, D, M>(g, o, sum, mine, head * g.dim_v + cut, min(g.dim_v - cut, (int)D), lane);
}
#endif

/* Below compute capability 8.0 the kernels are empty, and the host does not start them. */
#ifdef ZN_TENSOR_CORES
#define BODY(call) call
#else
#define BODY(call) (void)g
#endif
#define KERNEL(name, call)                                                                                             \
    extern "C" __global__ void __launch_bounds__(128) attention_##name(const zn_args_attention g) { BODY(call); }
#define ATTENTION(D, M)                                                                                                \
    KERNEL(D##_f16, (attend<f16, D, M>(g)))                                                                            \
    KERNEL(D##_bf16, (attend<bf16, D, M>(g)))
#define ATTENTION_F32(D) KERNEL(D##_f32, (attend<float, D, 1>(g)))
ATTENTION(32, 2)
ATTENTION(48, 2)
ATTENTION(64, 2)
ATTENTION(80, 2)
ATTENTION(96, 2)
ATTENTION(128, 2)
ATTENTION(160, 1)
ATTENTION_F32(32)
ATTENTION_F32(64)
ATTENTION_F32(128)
KERNEL(wide_f16, attend_wide<f16>(g))
KERNEL(wide_bf16, attend_wide<bf16>(g))
