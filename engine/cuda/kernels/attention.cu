/* SPDX-License-Identifier: MIT */
/* attention.cu - softmax(scale * q k^T) v, streaming over the keys (Dao et al. 2022).
 *
 *   plain       any types, any sizes: float32 throughout; a block has 64 queries of a head and up to 128 of its outputs
 *   attention_  fp16 and bf16 on tensor cores (mma.sync, from compute capability 8.0 on): heads of a multiple of 8
 *               channels, filled up with zeros to D
 * Both keep S = q k^T and the outputs in registers, and hold for each query the largest score so far and the sum of
 * the weights; when a larger score turns up, what was summed shrinks. */
#include "common.cuh"

extern __shared__ __align__(16) char shared_bytes[];

/* ---- plain ------------------------------------------------------------------------------------------------- */

enum { BQ = 64, BK = 64, STEP = 32, CUT = 128, PITCH = BQ + 4 };

/* rows x STEP numbers of a tensor, turned over: to[d][row]; zeros outside n and dim. */
__device__ __forceinline__ void stage_turned(float *to, const zn_tensor &t, size_t first, int n, int c, int dim)
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
    int c = head * g.dim, cv = head * g.dim_v + cut, q0 = (int)blockIdx.x * BQ;
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
    for (int k0 = 0; k0 < g.n_k; k0 += BK) {
        float s[4][4];

#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[r][i] = 0;
        for (int d = 0; d < g.dim; d += STEP) {
            __syncthreads();
            stage_turned(qs, g.q, q_image + q0, g.n_q - q0, c + d, g.dim - d);
            stage_turned(ks, g.k, k_image + k0, g.n_k - k0, c + d, g.dim - d);
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
        for (int r = 0; r < 4; r++) { /* a query's 64 scores lie in 16 neighbouring threads */
            float most = top[r], shrink, part = 0;

#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[r][j] = k0 + tx * 4 + j < g.n_k ? s[r][j] * g.scale : -INFINITY;
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
        for (int k1 = 0; k1 < BK && k0 + k1 < g.n_k; k1 += STEP) {
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
                store_any(g.y, (q_image + q) * g.y.ld + cv + tx + 16 * j, o[r][j] / sum[r]);
    }
}

/* ---- instructions -------------------------------------------------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ZN_TENSOR_CORES 1

__device__ __forceinline__ void copies_done() /* those of this thread */
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* ldmatrix4 of matrices turned over. */
__device__ __forceinline__ void ldmatrix4_turned(unsigned (&m)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}
#endif

/* ---- tensor cores ---------------------------------------------------------------------------------------------
 *
 * A warp has M x 16 queries.  In a product of 16x8 numbers thread t holds those of rows t/4 and t/4 + 8, columns
 * 2 (t%4) and the next: c[0], c[1] and c[2], c[3].  That is also how a left factor wants them, so that the weights go
 * from the first product to the second without leaving the registers.
 *
 *   shared memory: Q [M * 64][D + 8], K [KEYS][D + 8], V [KEYS][D + 8]; 16 bytes more to a row: no bank conflicts
 *   K comes in while the last values are summed, V while scores are computed. */
#ifdef ZN_TENSOR_CORES
enum { KEYS = 64, WARPS = 4 };

/* Rows first .. first + ROWS - 1 of n, which begin at t. */
template <class T, int D, int ROWS>
__device__ __forceinline__ void stage_rows(T *to, const T *t, int ld, int first, int n, int dim)
{
    enum { CHUNKS = D / 8 };

    t += (size_t)first * ld;
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS; i += WARPS * 32) {
        int at = i + (int)threadIdx.x, row = at / CHUNKS, d = at % CHUNKS * 8;
        bool in = first + row < n && d < dim;

        if (ROWS * CHUNKS % (WARPS * 32) == 0 || at < ROWS * CHUNKS)
            copy_async16(to + row * (D + 8) + d, in ? t + (row * ld + d) : t, in);
    }
}

/* s = q k^T for this warp's queries */
template <class T, int D, int M>
__device__ __forceinline__ void scores(float (&s)[M][KEYS / 8][4], const T *q, const T *k, int lane)
{
    const T *q_row = q + (lane % 16) * (D + 8) + lane / 16 * 8;
    const T *k_row = k + (lane % 8 + lane / 16 * 8) * (D + 8) + lane / 8 % 2 * 8;

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][j][i] = 0;
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        unsigned a[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            ldmatrix4(a[m], q_row + m * 16 * (D + 8) + d);
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

/* Scores to weights 2^(scale (s - top)); scale has log2 e in it.  top follows the largest score only when that is 2^8
 * times more: a weight may be that large, and o and sum rarely have to shrink. */
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

/* pack2 for weights, which are never too large */
template <class T> __device__ __forceinline__ unsigned pack_weights(float a, float b)
{
    if constexpr (type_of<T>::value == ZN_F16) {
        __half2 pair = __floats2half2_rn(a, b);

        return *(const unsigned *)&pair;
    } else {
        return pack2<T>(a, b);
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

            ldmatrix4_turned(b, v_row + k * 16 * (D + 8) + j * 16);
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma16<T>(o[m][2 * j], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
                mma16<T>(o[m][2 * j + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
            }
        }
    }
}

template <class T, int D, int M>
__device__ __forceinline__ void write_outputs(const zn_args_attention &g, float (&o)[M][D / 8][4], float (&sum)[M][2],
                                              int first, int lane)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int q = first + m * 16 + h * 8 + lane / 4;
            size_t at = ((size_t)blockIdx.z * g.n_q + q) * g.y.ld + blockIdx.y * g.dim + lane % 4 * 2;
            float total = sum[m][h];

            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            total = 1.f / total;
            if (q < g.n_q)
#pragma unroll
                for (int j = 0; j < D / 8; j++)
                    if (j * 8 < g.dim)
                        *(unsigned *)((T *)g.y.data + at + j * 8) =
                            pack2<T>(o[m][j][2 * h] * total, o[m][j][2 * h + 1] * total);
        }
}

template <class T, int D, int M> __device__ __forceinline__ void attend(const zn_args_attention &g)
{
    enum { ROWS = M * 16 * WARPS };
    T *q = (T *)shared_bytes, *k = q + ROWS * (D + 8), *v = k + KEYS * (D + 8);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int c = (int)blockIdx.y * g.dim, first = (int)blockIdx.x * ROWS;
    const T *queries = (const T *)g.q.data + (size_t)blockIdx.z * g.n_q * g.q.ld + c;
    const T *keys = (const T *)g.k.data + (size_t)blockIdx.z * g.n_k * g.k.ld + c;
    const T *values = (const T *)g.v.data + (size_t)blockIdx.z * g.n_k * g.v.ld + c;
    float scale = g.scale * 1.44269504f;
    float s[M][KEYS / 8][4], o[M][D / 8][4], top[M][2], sum[M][2];

    stage_rows<T, D, ROWS>(q, queries, g.q.ld, first, g.n_q, g.dim);
    stage_rows<T, D, KEYS>(k, keys, g.k.ld, 0, g.n_k, g.dim);
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int h = 0; h < 2; h++)
            top[m][h] = -INFINITY, sum[m][h] = 0;
#pragma unroll
        for (int j = 0; j < D / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                o[m][j][i] = 0;
    }
    for (int k0 = 0; k0 < g.n_k; k0 += KEYS) {
        copies_done();
        __syncthreads(); /* K is there, and nobody needs the last V */
        stage_rows<T, D, KEYS>(v, values, g.v.ld, k0, g.n_k, g.dim);
        scores<T, D, M>(s, q + warp * M * 16 * (D + 8), k, lane);
        if (k0 + KEYS > g.n_k)
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (k0 + j * 8 + lane % 4 * 2 + i % 2 >= g.n_k)
                            s[m][j][i] = -INFINITY;
        soften<D, M>(s, o, top, sum, scale);
        copies_done();
        __syncthreads(); /* V is there, and nobody needs this K */
        if (k0 + KEYS < g.n_k)
            stage_rows<T, D, KEYS>(k, keys, g.k.ld, k0 + KEYS, g.n_k, g.dim);
        add_values<T, D, M>(o, s, v, lane);
    }
    write_outputs<T, D, M>(g, o, sum, first + warp * M * 16, lane);
}
#endif

/* Without tensor cores of this kind the kernels are there, but empty: the host does not start them. */
#ifdef ZN_TENSOR_CORES
#define BODY(T, D, M) attend<T, D, M>(g)
#else
#define BODY(T, D, M) (void)g
#endif
#define ATTENTION(D, M)                                                                                                \
    extern "C" __global__ void __launch_bounds__(128) attention_##D##_f16(const zn_args_attention g)                   \
    {                                                                                                                  \
        BODY(f16, D, M);                                                                                               \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128) attention_##D##_bf16(const zn_args_attention g)                  \
    {                                                                                                                  \
        BODY(bf16, D, M);                                                                                              \
    }
ATTENTION(32, 2)
ATTENTION(48, 2)
ATTENTION(64, 2)
ATTENTION(80, 2)
ATTENTION(96, 2)
ATTENTION(128, 2)
ATTENTION(160, 1)
