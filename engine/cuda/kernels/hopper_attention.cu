/* SPDX-License-Identifier: MIT */
/* hopper_attention.cu - attention.cu's attention with wgmma and TMA (sm_90a), warp specialised (Shah et al. 2024).
 *
 *   producer warp:  q once, then for each block of keys k in parts and v ──TMA loads──> rings in shared memory
 *   two consumer warpgroups, 64 queries each:
 *       S = q k^T of block j ──┐ in flight together
 *       O += P v of block j-1 ─┘
 *       P = weights of S, while O is still being summed
 *
 * S, P and O are in registers; P is the left factor of the second product in the layout that S has.
 * Shared memory: q, k as rows of 128 bytes, a query's or a key's 64 channels; v likewise, read transposed: rows are what is
 * summed over. */
#include "hopper.cuh"

/* ---- the second product ------------------------------------------------------------------------------------------ */

/* The descriptor of values [16 keys][64 channels each], parts of 64 channels `part` bytes apart. */
__device__ __forceinline__ uint64_t describe_values(uint32_t address, int part)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(part >> 4) << 16 | address >> 4;
}

/* d[64][n] += a[64][16] b[16][n], a in registers. */
#define WEIGHTED(type, name, n, list, d_all, a_at, b_at)                                                               \
    __device__ __forceinline__ void weighted(type, float(&d)[n / 2], const uint32_t *a, uint64_t b)                    \
    {                                                                                                                  \
        asm volatile("{\n.reg .pred on;\nsetp.eq.b32 on, 0, 0;\n"                                                      \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #name "." #name " {" list "}, {" a_at           \
                     "}, " b_at ", on, 1, 1, 1;\n}"                                                                    \
                     : d_all                                                                                           \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                              \
                     : "memory");                                                                                      \
    }
#define WEIGHTED_SUMS(type, name)                                                                                      \
    WEIGHTED(type, name, 64, LIST_32, D16(0) COMMA D16(16), "%32, %33, %34, %35", "%36")                               \
    WEIGHTED(type, name, 128, LIST_64, D64(0), "%64, %65, %66, %67", "%68")                                            \
    WEIGHTED(type, name, 256, LIST_128, D64(0) COMMA D64(64), "%128, %129, %130, %131", "%132")
WEIGHTED_SUMS(f16, f16)
WEIGHTED_SUMS(bf16, bf16)

/* Waits for the first of two groups of products: d is its result. */
template <int N> __device__ __forceinline__ void first_wait(float (&d)[N])
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* ---- scores to weights --------------------------------------------------------------------------------------------
 * Thread t of a warp has rows t/4 and t/4 + 8 (h = 0, 1) of its warp's 16 queries, and keys 8j + 2 (t%4) and the next: elements
 * 4j + 2h and 4j + 2h + 1. */

/* -infinity for what queries `first` and after may not read of the keys from k0 on. */
template <int N>
__device__ __forceinline__ void hide(float (&s)[N], const zn_args_attention &g, int first, int k0, int lane)
{
    if (end_of_keys(g, first + 1) >= k0 + 2 * N)
        return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int left = end_of_keys(g, first + h * 8 + lane / 4 + 1) - k0 - lane % 4 * 2;

#pragma unroll
        for (int j = 0; j < N / 4; j++) {
            s[4 * j + 2 * h] = j * 8 < left ? s[4 * j + 2 * h] : -INFINITY;
            s[4 * j + 2 * h + 1] = j * 8 + 1 < left ? s[4 * j + 2 * h + 1] : -INFINITY;
        }
    }
}

/* s = 2^(scale (s - top)); scale includes log2 e.  As in attention.cu top is raised only when the maximum is 2^8 times more.
 * True if it was, for some lane: then what was summed before is to be multiplied by shrink. */
template <int N>
__device__ __forceinline__ bool soften(float (&s)[N], float (&top)[2], float (&sum)[2], float (&shrink)[2], float scale)
{
    float most[2];
    bool more = false;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h] = top[h];
#pragma unroll
        for (int j = 0; j < N / 4; j++)
            most[h] = fmaxf(most[h], fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 2));
        more = more || (most[h] - top[h]) * scale > 8;
    }
    more = __any_sync(~0u, more);
    if (more) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            shrink[h] = exp2_short((top[h] - most[h]) * scale);
            top[h] = most[h];
            sum[h] *= shrink[h];
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float base = top[h] * scale;

#pragma unroll
        for (int j = 0; j < N / 4; j++) {
            s[4 * j + 2 * h] = exp2_short(s[4 * j + 2 * h] * scale - base);
            s[4 * j + 2 * h + 1] = exp2_short(s[4 * j + 2 * h + 1] * scale - base);
            sum[h] += s[4 * j + 2 * h] + s[4 * j + 2 * h + 1]; /* of this thread's columns, until the end */
        }
    }
    return more;
}

/* ---- the kernel ----------------------------------------------------------------------------------------------------- */

/* Where a block works: queries from q0 on of a head of image n, its outputs from channel cut on. */
struct work {
    int head, cut, q0, n, blocks; /* blocks: of keys */
};

template <int OUTPUTS, int KEYS> __device__ __forceinline__ work find_work(const zn_hopper_attention &a)
{
    const int tile = (int)blockIdx.x % a.tiles, rest = (int)blockIdx.x / a.tiles, part = rest % (a.heads * a.g.cuts);
    work w;

    w.head = part / a.g.cuts;
    w.cut = part % a.g.cuts * OUTPUTS;
    w.n = rest / (a.heads * a.g.cuts);
    w.q0 = tile * ZN_HOPPER_QUERIES;
    w.blocks = (end_of_keys(a.g, w.q0 + ZN_HOPPER_QUERIES) + KEYS - 1) / KEYS;
    return w;
}

/* The producer's loop. */
template <int OUTPUTS, int KEYS>
__device__ __forceinline__ void produce(const zn_hopper_attention &a, const work &w, uint32_t q, uint32_t q_full,
                                        ring k, ring v)
{
    const int kv = w.head / a.g.shared;

    k.phase = v.phase = 1;
    barrier_expect(q_full, a.parts * ZN_HOPPER_QUERIES * 128);
    for (int i = 0; i < a.parts; i++)
        load_4d(q + i * ZN_HOPPER_QUERIES * 128, &a.q, q_full, w.head * a.g.dim + i * 64, w.q0, 0, w.n);
    for (int block = 0; block < w.blocks; block++) {
        for (int i = 0; i < a.parts; i++, ring_next(k)) {
            barrier_wait(ring_empty(k), k.phase);
            barrier_expect(ring_full(k), KEYS * 128);
            load_4d(ring_data(k), &a.k, ring_full(k), kv * a.g.dim + i * 64, block * KEYS, 0, w.n);
        }
        barrier_wait(ring_empty(v), v.phase);
        barrier_expect(ring_full(v), v.size);
        for (int i = 0; i < OUTPUTS / 64; i++)
            load_4d(ring_data(v) + i * KEYS * 128, &a.v, ring_full(v), kv * a.g.dim_v + w.cut + i * 64, block * KEYS, 0,
                    w.n);
        ring_next(v);
    }
}

/* All warps of both warpgroups have to arrive. */
__device__ __forceinline__ void release_next(ring &r, int buffers, int lane)
{
    for (int i = 0; i < buffers; i++, ring_next(r))
        if (lane == 0)
            barrier_arrive(ring_empty(r));
}

/* Starts s (+)= q k^T for the next part of keys.  `add` is known when it is compiled: else s would be read, and the products
 * would wait for each other. */
template <class T, int KEYS, bool add>
__device__ __forceinline__ void start_part(float (&s)[KEYS / 2], uint64_t queries, ring &k)
{
    const uint64_t keys = describe(ring_data(k), 1024);

    barrier_wait(ring_full(k), k.phase);
    products_begin();
#pragma unroll
    for (int d = 0; d < 4; d++)
        product(T(), s, queries + d * 2, keys + d * 2, add || d > 0);
    ring_next(k);
}

/* Starts s = q k^T of the next block of keys.  Where the ring has no room for two of them, parts are released as they are used;
 * else, and the last one, when s is complete. */
template <class T, int KEYS>
__device__ __forceinline__ void start_scores(float (&s)[KEYS / 2], uint64_t queries, ring &k, ring &used, int parts,
                                             int lane)
{
    const bool few = k.stages < 2 * parts;

    start_part<T, KEYS, false>(s, queries, k);
#pragma unroll 1
    for (int i = 1; i < parts; i++) {
        if (few)
            products_commit();
        start_part<T, KEYS, true>(s, queries + i * (ZN_HOPPER_QUERIES * 128 >> 4), k);
        if (few && i > 1) { /* all but the last two parts are done */
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            release_next(used, 1, lane);
        }
    }
    products_commit();
}

/* Starts o += p v of the next block of values. */
template <class T, int OUTPUTS, int KEYS>
__device__ __forceinline__ void start_sums(float (&o)[OUTPUTS / 2], const uint32_t (&p)[KEYS / 4], const ring &v)
{
    barrier_wait(ring_full(v), v.phase);
    products_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        weighted(T(), o, p + 4 * i, describe_values(ring_data(v) + i * 2048, KEYS * 128));
    products_commit();
}

template <class T, int N> __device__ __forceinline__ void pack_all(uint32_t (&p)[N / 2], const float (&s)[N])
{
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        p[i] = pack_weights<T>(s[2 * i], s[2 * i + 1]);
}

template <class T, int OUTPUTS, int KEYS> __device__ __forceinline__ void attend(const zn_hopper_attention &a)
{
    extern __shared__ char memory[];
    enum { VALUES = OUTPUTS / 64 * KEYS * 128 };
    const zn_args_attention &g = a.g;
    const uint32_t q = (shared_address(memory) + 1023) & ~1023u, k_data = q + a.parts * ZN_HOPPER_QUERIES * 128;
    const uint32_t v_data = k_data + a.stages * KEYS * 128, bars = v_data + ZN_HOPPER_VALUES * VALUES;
    const uint32_t q_full = bars + 32 * ZN_HOPPER_MAX_STAGES;
    ring k = { k_data, bars, bars + 8 * ZN_HOPPER_MAX_STAGES, a.stages, KEYS * 128, 0, 0 };
    ring v = { v_data, bars + 16 * ZN_HOPPER_MAX_STAGES, bars + 24 * ZN_HOPPER_MAX_STAGES, ZN_HOPPER_VALUES, VALUES, 0,
               0 };
    const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const work w = find_work<OUTPUTS, KEYS>(a);

    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * ZN_HOPPER_MAX_STAGES; i++) {
            barrier_init(k.full + 8 * i, i < ZN_HOPPER_MAX_STAGES ? 1 : 4 * ZN_HOPPER_WARPGROUPS);
            barrier_init(v.full + 8 * i, i < ZN_HOPPER_MAX_STAGES ? 1 : 4 * ZN_HOPPER_WARPGROUPS);
        }
        barrier_init(q_full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_async();
    }
    after_previous();
    __syncthreads();
    if (wg == ZN_HOPPER_WARPGROUPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0)
            produce<OUTPUTS, KEYS>(a, w, q, q_full, k, v);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");

    const int mine = w.q0 + wg * 64 + warp * 16, cut = w.cut, width = min(g.dim_v - cut, OUTPUTS);
    const uint64_t queries = describe(q + wg * 8192, 1024);
    const float scale = g.scale * 1.44269504f;
    float o[OUTPUTS / 2] = { 0 }, top[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 }, shrink[2] = { 1, 1 };
    uint32_t p[KEYS / 4];
    ring used_k = k, used_v = v;
    const int left =
        k.stages < 2 * a.parts ? min(a.parts, 2) : a.parts; /* parts of k that are released when s is complete */

    barrier_wait(q_full, 0);
    {
        float s[KEYS / 2];

        start_scores<T, KEYS>(s, queries, k, used_k, a.parts, lane);
        products_wait<0>(s);
        release_next(used_k, left, lane);
        hide(s, g, mine, 0, lane);
        soften(s, top, sum, shrink, scale);
        pack_all<T>(p, s);
    }
#pragma unroll 1
    for (int block = 1; block < w.blocks; block++) {
        float s[KEYS / 2];
        bool more;

        start_scores<T, KEYS>(s, queries, k, used_k, a.parts, lane);
        start_sums<T, OUTPUTS, KEYS>(o, p, v);
        first_wait(s);
        release_next(used_k, left, lane);
        hide(s, g, mine, block * KEYS, lane);
        more = soften(s, top, sum, shrink, scale);
        products_wait<0>(o);
        release_next(used_v, 1, lane);
        ring_next(v);
        if (more) {
#pragma unroll
            for (int i = 0; i < OUTPUTS / 2; i++)
                o[i] *= shrink[i / 2 % 2];
        }
        pack_all<T>(p, s);
    }
    start_sums<T, OUTPUTS, KEYS>(o, p, v);
    products_wait<0>(o);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int query = mine + h * 8 + lane / 4;
        const size_t at = ((size_t)w.n * g.n_q + query) * g.y.ld + w.head * g.dim_v + cut + lane % 4 * 2;
        float total = sum[h];

        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        total = 1.f / total;
        if (query < g.n_q)
#pragma unroll
            for (int j = 0; j < OUTPUTS / 8; j++)
                if (j * 8 < width)
                    *(uint32_t *)((T *)g.y.data + at + j * 8) =
                        pack2<T>(o[4 * j + 2 * h] * total, o[4 * j + 2 * h + 1] * total);
    }
}

#define ATTENTION(type, outputs, keys)                                                                                 \
    extern "C" __global__ void __launch_bounds__(384, 1)                                                               \
        hopper_attention_##type##_##outputs(const __grid_constant__ zn_hopper_attention a)                             \
    {                                                                                                                  \
        attend<type, outputs, keys>(a);                                                                                \
    }
#define ATTENTIONS(outputs, keys)                                                                                      \
    ATTENTION(f16, outputs, keys)                                                                                      \
    ATTENTION(bf16, outputs, keys)
ATTENTIONS(64, 128)
ATTENTIONS(128, 128)
ATTENTIONS(256, 64)
