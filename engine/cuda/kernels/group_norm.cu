/* SPDX-License-Identifier: MIT */
/* group_norm.cu - group norm in one kernel, for 16-bit numbers (compute capability 8.0 and later; norm.cu has the rest).
 *
 *   tiles of an image ──> a ring in a block's shared memory: summed up, channel by channel
 *                         all blocks of the image meet, and each joins the sums of all
 *   last tiles first  <── applied: what the ring still holds, then what is still in the cache, then the rest
 *
 * As many blocks as the GPU has multiprocessors, or fewer, share an image, tile after tile in turn.  A thread copies,
 * sums up and applies the same 8 channels of some pixels of a tile, so that the ring needs no barrier.  Sums are of
 * differences from the block's first pixel, so that nothing cancels, and every block joins them in the same order.
 * Multiprocessors are not equally near to the memory: tiles that are in nobody's ring are applied by who comes first. */
#include "typed.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

namespace {

enum { V = 8, THREADS = ZN_GROUP_THREADS, UNIT = ZN_GROUP_UNIT, AHEAD = ZN_GROUP_AHEAD };

/* Where the blocks of an image wait for each other, and how many of the tiles in nobody's ring have been taken. */
struct meeting {
    unsigned here, apart[31], round, taken, apart_again[30]; /* cache lines of their own */
};

__device__ meeting meetings[ZN_GROUP_IMAGES];

__device__ __forceinline__ void meet(meeting &m)
{
    __syncthreads();
    if (!threadIdx.x) {
        const unsigned round = *(volatile unsigned *)&m.round;

        __threadfence();
        if (atomicAdd(&m.here, 1) == gridDim.x - 1) {
            m.here = m.taken = 0;
            __threadfence();
            atomicAdd(&m.round, 1);
        } else {
            while (*(volatile unsigned *)&m.round == round)
                ;
        }
        __threadfence();
    }
    __syncthreads();
}

/* The tiles of an image, as a thread sees them: rows of `cols` threads to a pixel, UNIT such rows of pixels. */
template <int T> struct tiling {
    const zn_args_group &g;
    char *ring;             /* this thread's part of it */
    const char *x;          /* its channels of its first pixel */
    size_t first;           /* that pixel */
    size_t apart;           /* bytes between two of its pixels */
    int cols, rows, row, c; /* c: its first channel */
    int step, tiles;        /* pixels of a tile; tiles of the image */
    int each, more, missing; /* tiles of a block; how many blocks have one more; pixels that the last tile lacks */
    int last;               /* of the last tile: how many of its pixels are there */

    __device__ __forceinline__ tiling(const zn_args_group &g, char *memory) : g(g)
    {
        const int t = (int)threadIdx.x;

        cols = g.x.c / V;
        rows = THREADS / cols;
        row = t / cols;
        c = (t - row * cols) * V;
        step = rows * UNIT;
        tiles = (int)((g.pixels + step - 1) / step);
        each = tiles / (int)gridDim.x;
        more = tiles - each * (int)gridDim.x;
        missing = (int)((size_t)tiles * step - g.pixels);
        ring = memory + t * 16;
        first = (size_t)(g.first + (int)blockIdx.y) * g.pixels + row;
        apart = (size_t)rows * g.x.ld * 2;
        x = (const char *)g.x.data + (first * g.x.ld + c) * 2;
        last = 0;
        for (int u = 0; u < UNIT; u++)
            last += in() && u * rows + row < step - missing;
    }

    __device__ __forceinline__ bool in() const { return row < rows; }

    /* Of a tile's first pixel: its first number in x. */
    __device__ __forceinline__ size_t begin(int tile) const { return (first - row + (size_t)tile * step) * g.x.ld; }

    /* Of a group, block by block: the mean, and the sum of squared differences from it. */
    __device__ __forceinline__ float2 *partial(int group) const
    {
        return (float2 *)g.partial + ((size_t)blockIdx.y * g.groups + group) * gridDim.x;
    }

    /* Of this thread, in that tile: pixels. */
    __device__ __forceinline__ int count(int tile) const { return tile + 1 == tiles ? last : in() ? UNIT : 0; }

    __device__ __forceinline__ int tiles_of(int block) const { return each + (block < more); }

    __device__ __forceinline__ float pixels_of(int block) const
    {
        const int owner = (more ? more : (int)gridDim.x) - 1; /* of the last tile */

        return (float)tiles_of(block) * (float)step - (block == owner ? (float)missing : 0);
    }

    __device__ __forceinline__ char *place(int stage, int u) const { return ring + (stage * UNIT + u) * (THREADS * 16); }

    __device__ __forceinline__ void copy(int stage, int tile) const
    {
        const int n = count(tile);
        const char *from = x + (size_t)tile * UNIT * apart;

#pragma unroll
        for (int u = 0; u < UNIT; u++)
            if (u < n)
                copy_async16(place(stage, u), from + u * apart);
    }

    __device__ __forceinline__ void read(float (&v)[V], int stage, int u) const
    {
        raw<V> r;

        r.lo = *(const uint4 *)place(stage, u);
        widen(v, r, (zn_type)T);
    }
};

/* What the blocks have in shared memory behind the ring, one after the other. */
union joint {
    float sums[2 * V][THREADS];                   /* of each thread */
    struct { float scale[V * THREADS], shift[V * THREADS]; } channel;
};
static_assert(sizeof(joint) == ZN_GROUP_JOINT, "as the host knows it");

/* The sums of the block's threads, s (of differences from the block's first pixel) and q (of their squares), become
 * each group's mean and sum of squared differences from it. */
template <int T>
__device__ __forceinline__ void join_threads(const tiling<T> &at, joint &j, const float (&s)[V], const float (&q)[V])
{
    const zn_args_group &g = at.g;
    const int t = (int)threadIdx.x, size = g.x.c / g.groups, lane = t % V;
    const float pixels = at.pixels_of((int)blockIdx.x);
    const unsigned mates = 0xffu << (t & 24);

#pragma unroll
    for (int i = 0; i < V; i++) {
        j.sums[i][t] = s[i];
        j.sums[V + i][t] = q[i];
    }
    __syncthreads();
    for (int i = t; i < g.x.c && pixels > 0; i += THREADS) { /* number k of column col: no other thread uses its places */
        const int k = i / at.cols, col = i - k * at.cols;
        const float zero = load_any(g.x, at.begin((int)blockIdx.x) + col * V + k);
        float a = 0, b = 0, d;

        for (int r = col; r < at.rows * at.cols; r += at.cols) {
            a += j.sums[k][r];
            b += j.sums[V + k][r];
        }
        d = a / pixels;
        j.sums[k][col] = zero + d;
        j.sums[V + k][col] = fmaxf(b - a * d, 0);
    }
    __syncthreads();
    for (int group = t / V; group < g.groups; group += THREADS / V) { /* V threads a group */
        float mean = 0, var = 0;

        for (int c = group * size + lane; c < (group + 1) * size; c += V)
            mean += j.sums[c % V][c / V];
        for (int o = V / 2; o; o /= 2)
            mean += __shfl_xor_sync(mates, mean, o);
        mean /= size;
        for (int c = group * size + lane; c < (group + 1) * size; c += V) {
            const float d = j.sums[c % V][c / V] - mean;

            var += j.sums[V + c % V][c / V] + pixels * d * d;
        }
        for (int o = V / 2; o; o /= 2)
            var += __shfl_xor_sync(mates, var, o);
        if (!lane)
            at.partial(group)[blockIdx.x] = make_float2(mean, var);
    }
}

/* Each channel's scale and shift, from the groups' sums of all blocks: LANES threads a group. */
template <int T> __device__ __forceinline__ void join_blocks(const tiling<T> &at, joint &j)
{
    enum { LANES = 16, EACH = ZN_GROUP_BLOCKS / LANES };
    const zn_args_group &g = at.g;
    const int t = (int)threadIdx.x, lane = t % LANES, blocks = (int)gridDim.x, size = g.x.c / g.groups;
    const unsigned mates = 0xffffu << (t & LANES);
    const float per_pixel = 1 / (float)g.pixels, per_number = per_pixel / size;

    for (int group = t / LANES; group < g.groups; group += THREADS / LANES) {
        float mean = 0, var = 0, near, inv;
        float2 v[EACH];

#pragma unroll
        for (int i = 0; i < EACH; i++)
            v[i] = lane + i * LANES < blocks ? __ldcg(at.partial(group) + lane + i * LANES) : make_float2(0, 0);
        near = __shfl_sync(mates, v[0].x, 0, LANES);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (lane + i * LANES < blocks)
                mean += at.pixels_of(lane + i * LANES) * (v[i].x - near);
        for (int o = LANES / 2; o; o /= 2)
            mean += __shfl_xor_sync(mates, mean, o);
        mean = near + mean * per_pixel;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (lane + i * LANES < blocks) {
                const float d = v[i].x - mean;

                var += v[i].y * per_number + at.pixels_of(lane + i * LANES) * per_pixel * d * d;
            }
        for (int o = LANES / 2; o; o /= 2)
            var += __shfl_xor_sync(mates, var, o);
        inv = 1 / sqrtf(var + g.eps);
        for (int c = group * size + lane; c < (group + 1) * size; c += LANES) {
            const float scale = inv * (g.gamma ? g.gamma[c] : 1);

            j.channel.scale[c] = scale;
            j.channel.shift[c] = (g.beta ? g.beta[c] : 0) - mean * scale;
        }
    }
}

/* y = tail(x * scale + shift) for what of a tile is in the ring. */
template <int T>
__device__ __forceinline__ void apply(const tiling<T> &at, int stage, int tile, const float (&scale)[V],
                                      const float (&shift)[V])
{
    const zn_args_group &g = at.g;
    const zn_tensor &res = g.tail.residual;
    const int count = at.count(tile);
    const size_t p = at.first + (size_t)tile * at.step;
    raw<V> r[UNIT];

    if (res.data)
#pragma unroll
        for (int u = 0; u < UNIT; u++)
            if (u < count)
                fetch(r[u], res, (p + u * at.rows) * res.ld + at.c);
#pragma unroll
    for (int u = 0; u < UNIT; u++)
        if (u < count) {
            float v[V];

            at.read(v, stage, u);
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] = v[k] * scale[k] + shift[k];
            put_tail_of<T>(g.y, (p + u * at.rows) * g.y.ld + at.c, g.tail, v, r[u]);
        }
}

template <int T> __device__ __forceinline__ void group_norm(const zn_args_group &g)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ int list[2 * ZN_GROUP_RING]; /* of tiles to be applied: those in the ring, then those that follow them */
    const tiling<T> at(g, memory);
    const int t = (int)threadIdx.x, blocks = (int)gridDim.x, b = (int)blockIdx.x, n = at.tiles_of(b);
    const int stages = g.stages, rest = at.tiles - stages * blocks;
    joint &j = *(joint *)(memory + stages * ZN_GROUP_STAGE);
    meeting &m = meetings[blockIdx.y];
    float zero[V] = { 0 }, s[V] = { 0 }, q[V] = { 0 }, scale[V], shift[V];
    int put = 0, get = stages - 1, taken = 0;

    for (int i = 0; i < AHEAD; i++) { /* the block's tiles: b, b + blocks, ... */
        if (i < n)
            at.copy(put++, b + i * blocks);
        copy_async_commit();
    }
    if (n && at.in()) {
        raw<V> r;

        fetch(r, g.x, at.begin(b) + at.c);
        widen(zero, r, (zn_type)T);
    }
    for (int i = 0; i < n; i++) {
        const int count = at.count(b + i * blocks);

        put = put == stages ? 0 : put;
        if (i + AHEAD < n)
            at.copy(put++, b + (i + AHEAD) * blocks);
        copy_async_commit();
        copy_async_wait<AHEAD>();
        get = get + 1 == stages ? 0 : get + 1;
#pragma unroll
        for (int u = 0; u < UNIT; u++)
            if (u < count) {
                float v[V];

                at.read(v, get, u);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    const float d = v[k] - zero[k];

                    s[k] += d;
                    q[k] += d * d;
                }
            }
    }
    copy_async_wait<0>();
    join_threads(at, j, s, q);
    if (t < stages)
        list[t] = t < n ? b + (n - 1 - t) * blocks : -1;
    meet(m);
    join_blocks(at, j);
    if (!t)
        taken = (int)atomicAdd(&m.taken, 1);
    __syncthreads();
    if (at.in()) {
        read8(scale, j.channel.scale + at.c);
        read8(shift, j.channel.shift + at.c);
    }
    get = n ? get : 0;
    for (int now = 0, later = stages, tile; (tile = list[now]) >= 0;) {
        if (!t) {
            list[later] = rest - 1 - taken; /* none left: below 0 */
            if (taken < rest)
                taken = (int)atomicAdd(&m.taken, 1);
        }
        copy_async_wait<AHEAD - 1>();
        apply(at, get, tile, scale, shift);
        __syncthreads(); /* all have read the list, and it has grown */
        if (list[later] >= 0)
            at.copy(get, list[later]);
        copy_async_commit();
        get = get ? get - 1 : stages - 1;
        now = now + 1 == 2 * stages ? 0 : now + 1;
        later = later + 1 == 2 * stages ? 0 : later + 1;
    }
    copy_async_wait<0>();
}

} // namespace

#define GROUP_NORM(name, T)                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) group_norm_##name(const zn_args_group g)                  \
    {                                                                                                                  \
        group_norm<T>(typed<T>(g));                                                                                    \
    }
GROUP_NORM(f16, ZN_F16)
GROUP_NORM(bf16, ZN_BF16)

#endif
