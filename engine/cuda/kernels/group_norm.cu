/* SPDX-License-Identifier: MIT */
/* group_norm.cu - group norm in one kernel, for 16-bit tensors (compute capability 8.0 and later; norm.cu has the rest).
 *
 *   x, tile by tile ──> sums; a block's first tiles stay on the chip: HELD in registers, then `kept` in shared
 *                       memory; the others pass through a ring buffer there
 *                       grid-wide barrier; each block merges the sums of all blocks
 *   y               <── the last tiles, still in the ring, the tiles before them, still in L2, then those that are
 *                       in no cache, and at the end the tiles on the chip
 *
 * At most as many blocks as the GPU has multiprocessors share an image, in a cooperative launch; tile i belongs to
 * block i % blocks.  A thread copies, sums and writes the same 8 channels of some pixels of a tile, so that tiles need
 * no barrier.  Sums are of differences from the block's first element of the group, so that nothing cancels, and every
 * block merges them in the same order.  Multiprocessors differ in their distance to memory, so most tiles of the second
 * pass are taken from a shared counter.
 *
 * Run-time scale, shift and gate are folded into a thread's scale and shift of its 8 channels. */
#include "../group_norm.h"
#include "typed.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

namespace
{

enum {
    V = 8,
    THREADS = ZN_GROUP_THREADS,
    UNIT = ZN_GROUP_UNIT,
    RING = ZN_GROUP_RING,
    LOST = ZN_GROUP_LOST,
    AHEAD = RING - 1, /* copies in flight, in tiles */
    OWN = 12,         /* tiles of a block that are in L2 after the barrier: the block applies them itself */
};

/* The barrier of the blocks of an image, and the counter of tiles taken in the second pass. */
struct meeting {
    unsigned here, apart[31], taken, apart_again[31]; /* each in its own cache line */
};

__device__ meeting meetings[ZN_GROUP_IMAGES];

/* The highest bit of `here` flips when all blocks have arrived; the other bits are 0 again then. */
__device__ __forceinline__ unsigned arrive(meeting &m)
{
    const unsigned more = blockIdx.x ? 1 : 0x80000000u - (gridDim.x - 1);
    unsigned before;

    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(&m.here), "r"(more) : "memory");
    return before;
}

__device__ __forceinline__ void wait_for_all(meeting &m, unsigned before)
{
    unsigned now;

    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(&m.here) : "memory");
    while (!((now ^ before) & 0x80000000u));
}

/* A thread's view of the tiles of an image.  `cols` threads share a pixel; a tile has UNIT times g.rows pixels. */
template <int T> struct tiling {
    const zn_args_group &g;
    char *places;    /* this thread's part of the places for tiles in shared memory */
    const char *x;   /* its channels of its first pixel */
    size_t first;    /* that pixel */
    size_t apart;    /* bytes between two of its pixels */
    int row, col, c; /* c: its first channel */
    int last;        /* pixels of this thread in the last tile, which may be partial */

    __device__ __forceinline__ tiling(const zn_args_group &g, char *memory) : g(g)
    {
        const int t = (int)threadIdx.x;

        row = t / g.cols;
        col = t - row * g.cols;
        c = col * V;
        places = memory + t * 16;
        first = (size_t)(g.first + (int)blockIdx.y) * g.pixels + row;
        apart = (size_t)g.rows * g.x.ld * 2;
        x = (const char *)g.x.data + (first * g.x.ld + c) * 2;
        last = 0;
        for (int u = 0; u < UNIT; u++)
            last += in() && u * g.rows + row < g.rows * UNIT - g.missing;
    }

    __device__ __forceinline__ bool in() const { return row < g.rows; }

    /* [block] of a group: the mean, and the sum of squared differences from it. */
    __device__ __forceinline__ float2 *partial(int group) const
    {
        return (float2 *)g.partial + ((size_t)blockIdx.y * g.groups + group) * gridDim.x;
    }

    /* Pixels of this thread in that tile. */
    __device__ __forceinline__ int count(int tile) const { return tile + 1 == g.tiles ? last : in() ? UNIT : 0; }

    __device__ __forceinline__ int tiles_of(int block) const { return g.each + (block < g.more); }

    __device__ __forceinline__ float pixels_of(int block) const
    {
        const int owner = (g.more ? g.more : (int)gridDim.x) - 1; /* of the last tile */

        return (float)(tiles_of(block) * (g.rows * UNIT) - (block == owner ? g.missing : 0));
    }

    /* v[k] = of[group of channel c + k] */
    __device__ __forceinline__ void of_groups(float (&v)[V], const float *of) const
    {
        int group = c / g.size, within = c - group * g.size;

#pragma unroll
        for (int k = 0; k < V; k++) {
            v[k] = of[group];
            if (++within == g.size)
                within = 0, group++;
        }
    }

    __device__ __forceinline__ char *place(int stage, int u) const
    {
        return places + (stage * UNIT + u) * (THREADS * 16);
    }

    __device__ __forceinline__ void copy(int stage, int tile) const
    {
        const int n = count(tile);
        const char *from = x + (size_t)tile * UNIT * apart;

#pragma unroll
        for (int u = 0; u < UNIT; u++)
            if (u < n)
                copy_async16(place(stage, u), from + u * apart);
    }

    /* All elements of this thread in a tile; in a partial tile some are undefined. */
    __device__ __forceinline__ void read(uint4 (&packed)[UNIT], int stage) const
    {
#pragma unroll
        for (int u = 0; u < UNIT; u++)
            packed[u] = *(const uint4 *)place(stage, u);
    }
};

template <int T> __device__ __forceinline__ void widen_of(float (&v)[V], const uint4 &packed)
{
    raw<V> r;

    r.lo = packed;
    widen(v, r, (zn_type)T);
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */

struct groups {
    float zero[ZN_GROUP_GROUPS]; /* the reference of differences */
    float mean[ZN_GROUP_GROUPS], scale[ZN_GROUP_GROUPS];
};

struct sums {
    float zero[V], s[V], q[V]; /* s, q: sums of differences from zero, and of their squares */

    template <int T> __device__ __forceinline__ void add(const uint4 &packed)
    {
        float v[V];

        widen_of<T>(v, packed);
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float d = v[k] - zero[k];

            s[k] += d;
            q[k] += d * d;
        }
    }

    /* The first `count` pixels; most tiles are whole. */
    template <int T> __device__ __forceinline__ void add_first(const uint4 (&packed)[UNIT], int count)
    {
        if (count == UNIT) {
#pragma unroll
            for (int u = 0; u < UNIT; u++)
                add<T>(packed[u]);
        } else {
#pragma unroll
            for (int u = 0; u + 1 < UNIT; u++)
                if (u < count)
                    add<T>(packed[u]);
        }
    }
};

/* The sums of all threads, in the last places of the ring: s of the lower and upper 4 channels, then q likewise. */
struct joint {
    float4 sums[4][THREADS];
};
static_assert(sizeof(joint) <= LOST * ZN_GROUP_STAGE, "it fits into the places that are free by then");

/* Reduces the sums of the block's threads to the mean of each group and the sum of squared differences from it: first
 * over rows of threads, with 4 * `teams` rows working on one quarter of the sums each, then over the channels of a
 * group, with `lanes` threads. */
template <int T>
__device__ __forceinline__ void join_threads(const tiling<T> &at, joint &j, const sums &of, const groups &all)
{
    const zn_args_group &g = at.g;
    const int t = (int)threadIdx.x, teams = max(g.rows / 4, 1), lane = t & (g.lanes - 1);
    const unsigned mates = (unsigned)((1ull << g.lanes) - 1) << (t & 31 & -g.lanes);
    const float count = at.pixels_of((int)blockIdx.x) * g.size;

    __syncthreads(); /* all tiles of the ring have been read */
#pragma unroll
    for (int i = 0; i < 2; i++) {
        j.sums[i][t] = make_float4(of.s[4 * i], of.s[4 * i + 1], of.s[4 * i + 2], of.s[4 * i + 3]);
        j.sums[2 + i][t] = make_float4(of.q[4 * i], of.q[4 * i + 1], of.q[4 * i + 2], of.q[4 * i + 3]);
    }
    __syncthreads();
#pragma unroll 1
    for (int i = at.row; i < 4 * teams && at.in(); i += g.rows) { /* no other thread uses these elements */
        float4 *p = &j.sums[i % 4][i / 4 * g.cols + at.col], a = *p;

#pragma unroll 4
        for (int r = teams; r < g.rows - i / 4; r += teams) {
            const float4 b = p[r * g.cols];

            a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
        }
        *p = a;
    }
    __syncthreads();
#pragma unroll 1
    for (int group = t / g.lanes; group < g.groups; group += THREADS / g.lanes) {
        float s = 0, q = 0;

#pragma unroll 1
        for (int c = group * g.size + lane; c < (group + 1) * g.size; c += g.lanes) {
            const float4 *p = &j.sums[c / 4 % 2][c / V];

#pragma unroll 4
            for (int r = 0; r < teams; r++) {
                s += ((const float *)(p + r * g.cols))[c % 4];
                q += ((const float *)(p + r * g.cols + 2 * THREADS))[c % 4];
            }
        }
        for (int o = g.lanes / 2; o; o /= 2) {
            s += __shfl_xor_sync(mates, s, o);
            q += __shfl_xor_sync(mates, q, o);
        }
        if (!lane) {
            const float d = s / count;

            at.partial(group)[blockIdx.x] = make_float2(all.zero[group] + d, fmaxf(q - s * d, 0));
        }
    }
}

/* The mean and scale of each group from the sums of all blocks, with LANES threads per group.  Differences are from the
 * mean of the first block, which has at least a 160th of the elements: close enough for the sum of squares. */
template <int T> __device__ __forceinline__ void join_blocks(const tiling<T> &at, groups &all)
{
    enum { LANES = 16, EACH = ZN_GROUP_BLOCKS / LANES };
    const zn_args_group &g = at.g;
    const int t = (int)threadIdx.x, lane = t % LANES, blocks = (int)gridDim.x;
    const unsigned mates = 0xffffu << (t & LANES);
    const float per_pixel = g.per_element * (float)g.size;

#pragma unroll 1
    for (int group = t / LANES; group < g.groups; group += THREADS / LANES) {
        float s = 0, q = 0, near;
        float2 v[EACH];

#pragma unroll
        for (int i = 0; i < EACH; i++)
            v[i] = lane + i * LANES < blocks ? __ldcg(at.partial(group) + lane + i * LANES) : make_float2(0, 0);
        near = __shfl_sync(mates, v[0].x, 0, LANES);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const float share = lane + i * LANES < blocks ? at.pixels_of(lane + i * LANES) * per_pixel : 0;
            const float d = v[i].x - near;

            s += share * d;
            q += v[i].y * g.per_element + share * d * d;
        }
#pragma unroll
        for (int o = LANES / 2; o; o /= 2) {
            s += __shfl_xor_sync(mates, s, o);
            q += __shfl_xor_sync(mates, q, o);
        }
        if (!lane) {
            all.mean[group] = near + s;
            all.scale[group] = 1 / sqrtf(fmaxf(q - s * s, 0) + g.eps);
        }
    }
}

/* ---- y -------------------------------------------------------------------------------------------------------- */

template <int T> struct number;
template <> struct number<ZN_F16> {
    typedef f16 type;
    typedef __half2 pair;
};
template <> struct number<ZN_BF16> {
    typedef bf16 type;
    typedef __nv_bfloat162 pair;
};

/* A thread's part of y = tail(x * scale + shift).  A is the tail if it is a gain, folded into scale and shift, and an
 * activation; otherwise ANY. */
enum { ANY = -1 };

template <int T, int A> struct output {
    const tiling<T> &at;
    const zn_args_group &g;
    char *y;
    size_t apart;
    float scale[V], shift[V];

    __device__ __forceinline__ output(const tiling<T> &at, const groups &all) : at(at), g(at.g)
    {
        float of[V];

        y = (char *)g.y.data + (at.first * g.y.ld + at.c) * 2;
        apart = (size_t)g.rows * g.y.ld * 2;
        if (!at.in())
            return;
#pragma unroll
        for (int k = 0; k < V; k++)
            scale[k] = 1, shift[k] = 0;
        if (g.gamma)
            read8(scale, g.gamma + at.c);
        if (g.beta)
            read8(shift, g.beta + at.c);
        at.of_groups(of, all.scale);
#pragma unroll
        for (int k = 0; k < V; k++)
            scale[k] *= of[k];
        at.of_groups(of, all.mean);
#pragma unroll
        for (int k = 0; k < V; k++)
            shift[k] -= of[k] * scale[k];
        modulate();
        if (A != ANY)
#pragma unroll
            for (int k = 0; k < V; k++)
                scale[k] *= g.tail.gain, shift[k] *= g.tail.gain;
    }

    /* x * scale + shift becomes ((x * scale + shift) * (1 + m.scale) + m.shift) * m.gate. */
    __device__ __forceinline__ void modulate()
    {
        const size_t image = (size_t)g.first + blockIdx.y;
        float of[V];
        raw<V> r;

        if (g.m.scale.data) {
            fetch(r, g.m.scale, image * g.m.scale.ld + at.c);
            widen(of, r, g.m.scale.type);
#pragma unroll
            for (int k = 0; k < V; k++)
                scale[k] *= 1 + of[k], shift[k] *= 1 + of[k];
        }
        if (g.m.shift.data) {
            fetch(r, g.m.shift, image * g.m.shift.ld + at.c);
            widen(of, r, g.m.shift.type);
#pragma unroll
            for (int k = 0; k < V; k++)
                shift[k] += of[k];
        }
        if (g.m.gate.data) {
            fetch(r, g.m.gate, image * g.m.gate.ld + at.c);
            widen(of, r, g.m.gate.type);
#pragma unroll
            for (int k = 0; k < V; k++)
                scale[k] *= of[k], shift[k] *= of[k];
        }
    }

    __device__ __forceinline__ uint4 known(float (&v)[V]) const
    {
        typedef typename number<T>::pair pair;
        unsigned w[V / 2];

        if (A == ZN_SILU)
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] *= sigmoid_short(v[k]);
#pragma unroll
        for (int k = 0; k < V / 2; k++) {
            w[k] = pack_pair<typename number<T>::type>(v[2 * k], v[2 * k + 1]);
            if (A == ZN_RELU) { /* NaN becomes 0 */
                const pair p = __hmax2(*(const pair *)&w[k], pair(0.f, 0.f));

                w[k] = *(const unsigned *)&p;
            }
        }
        return make_uint4(w[0], w[1], w[2], w[3]);
    }

    /* Writes a thread's pixel u of a tile, if the tile has it. */
    __device__ __forceinline__ void put(int tile, int u, const uint4 &packed, bool there) const
    {
        const size_t step = (size_t)tile * UNIT + u;
        float v[V];

        widen_of<T>(v, packed);
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = v[k] * scale[k] + shift[k];
        if constexpr (A == ANY) {
            const size_t p = at.first + step * g.rows;
            raw<V> r;

            if (there && g.tail.residual.data)
                fetch(r, g.tail.residual, p * g.tail.residual.ld + at.c);
            if (there)
                put_tail_of<T>(g.y, p * g.y.ld + at.c, g.tail, v, r);
        } else {
            const uint4 words = known(v);

            if (there)
                *(uint4 *)(y + step * apart) = words;
        }
    }

    __device__ __forceinline__ void put_all(int tile, const uint4 (&packed)[UNIT]) const
    {
        const int count = at.count(tile);

#pragma unroll
        for (int u = 0; u < UNIT; u++)
            put(tile, u, packed[u], u < count);
    }

    __device__ __forceinline__ void put_place(int tile, int stage) const
    {
        if constexpr (A == ANY) { /* not unrolled: the code is long */
#pragma unroll 1
            for (int u = 0; u < UNIT; u++)
                put(tile, u, *(const uint4 *)at.place(stage, u), u < at.count(tile));
        } else {
            uint4 packed[UNIT];

            at.read(packed, stage);
            put_all(tile, packed);
        }
    }
};

/* ---- both ----------------------------------------------------------------------------------------------------- */

/* A block and its n tiles b, b + blocks, ... of the image: the first HELD stay in registers, the next, up to `stay`, in
 * shared memory, and the others pass through the ring. */
template <int T, int HELD> struct block {
    const tiling<T> at;
    const zn_args_group &g;
    meeting &m;
    const int t, b, blocks, n;
    const int keep, stay;     /* places before the ring; tiles that stay on the chip, at most */
    const int kept, resident; /* tiles kept; tiles still in the ring after the reduction */
    const int low;            /* tiles from here on are the block's own; those below are taken from the counter */
    uint4 held[HELD + 1][UNIT];

    __device__ __forceinline__ block(const zn_args_group &g, char *memory)
        : at(g, memory), g(g), m(meetings[blockIdx.y]), t((int)threadIdx.x), b((int)blockIdx.x), blocks((int)gridDim.x),
          n(at.tiles_of(b)), keep(g.stages - RING), stay(HELD + keep), kept(max(min(keep, n - HELD), 0)),
          resident(max(min(RING - LOST, n - stay), 0)), low(max(stay, g.each - (RING - LOST) - OWN))
    {
    }

    __device__ __forceinline__ int tile(int i) const { return b + i * blocks; }

    /* The place of tile i; r: the next place of the ring.  The last tile gets the first place of the ring. */
    __device__ __forceinline__ int place_of(int i, int &r) const
    {
        const int here = keep + r;

        if (i >= HELD && i < stay)
            return i - HELD;
        r = r ? r - 1 : RING - 1;
        return here;
    }

    __device__ __forceinline__ void copy_next(int i, int &r) const
    {
        if (i < n)
            at.copy(place_of(i, r), tile(i));
        copy_async_commit();
    }

    __device__ __forceinline__ void sum_up(sums &of, groups &all)
    {
        int put = (n - kept - 1) % RING, get = put;

        for (int i = 0; i < AHEAD; i++)
            copy_next(i, put);
        if (t < g.groups)
            all.zero[t] = load_any(g.x, ((at.first - at.row) + (size_t)b * UNIT * g.rows) * g.x.ld + t * g.size);
        __syncthreads();
        if (at.in())
            at.of_groups(of.zero, all.zero);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (i < n) {
                copy_next(i + AHEAD, put);
                copy_async_wait<AHEAD>();
                at.read(held[i], place_of(i, get));
                of.template add_first<T>(held[i], at.count(tile(i)));
            }
        for (int i = HELD; i < n; i++) {
            uint4 packed[UNIT];

            copy_next(i + AHEAD, put);
            copy_async_wait<AHEAD>();
            at.read(packed, place_of(i, get));
            of.template add_first<T>(packed, at.count(tile(i)));
        }
        copy_async_wait<0>();
    }

    /* Writes the tiles in the ring, then others through it; list: the tiles in the ring or being copied to it. */
    template <int A> __device__ __forceinline__ void apply(const groups &all, int *list) const
    {
        const output<T, A> y(at, all);
        const int rest = (low - stay) * blocks; /* tiles to be taken from the counter */
        int own = n - 1 - RING, taken = t ? 0 : (int)atomicAdd(&m.taken, 1);
        int stage = 0, now = 0, later = RING, tile_now;

        for (int done = 0; (tile_now = list[now]) >= 0; done++) {
            if (!t) {
                list[later] = own >= low ? tile(own) : taken < rest ? low * blocks - 1 - taken : -1;
                if (own >= low)
                    own--;
                else if (taken < rest)
                    taken = (int)atomicAdd(&m.taken, 1);
            }
            if (done >= RING - LOST) /* the others were in the ring */
                copy_async_wait<AHEAD>();
            y.put_place(tile_now, keep + stage);
            __syncthreads(); /* all have read the list, and thread 0 has extended it */
            if (list[later] >= 0)
                at.copy(keep + stage, list[later]);
            copy_async_commit();
            stage = stage + 1 == RING ? 0 : stage + 1;
            now = now + 1 == 2 * RING ? 0 : now + 1;
            later = later + 1 == 2 * RING ? 0 : later + 1;
        }
        for (int i = 0; i < kept; i++)
            y.put_place(tile(HELD + i), i);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (i < n)
                y.put_all(tile(i), held[i]);
        copy_async_wait<0>();
    }
};

template <int T, int HELD> __device__ __forceinline__ void group_norm(const zn_args_group &g)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ int list[2 * RING];
    __shared__ groups all;
    block<T, HELD> a(g, memory);
    const int t = a.t;
    unsigned before = 0;
    sums of = {};

    if (!t && !a.b)
        a.m.taken = 0;
    a.sum_up(of, all);
    join_threads(a.at, *(joint *)(memory + (g.stages - LOST) * ZN_GROUP_STAGE), of, all);
    if (a.at.in()) { /* prefetch, while other blocks arrive */
        if (g.gamma)
            touch(g.gamma + a.at.c);
        if (g.beta)
            touch(g.beta + a.at.c);
    }
    if (t < RING)
        list[t] = a.n - 1 - t >= (t < a.resident ? a.stay : a.low) ? a.tile(a.n - 1 - t) : -1;
    __syncthreads();
    if (!t)
        before = arrive(a.m);
#pragma unroll
    for (int i = RING - LOST; i < RING; i++) {
        if (list[i] >= 0)
            a.at.copy(a.keep + i, list[i]);
        copy_async_commit();
    }
    if (!t)
        wait_for_all(a.m, before);
    __syncthreads();
    join_blocks(a.at, all);
    __syncthreads();
    if constexpr (!HELD)
        a.template apply<ANY>(all, list);
    else if (g.tail.post == ZN_RELU)
        a.template apply<ZN_RELU>(all, list);
    else if (g.tail.post == ZN_SILU)
        a.template apply<ZN_SILU>(all, list);
    else
        a.template apply<ZN_NONE>(all, list);
}

} // namespace

/* For an activation alone, NONE, RELU or SILU; and for any tail, which leaves no registers for tiles. */
#define GROUP_NORM(name, T, HELD)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) group_norm_##name(const zn_args_group g)                  \
    {                                                                                                                  \
        group_norm<T, HELD>(typed<T>(g));                                                                              \
    }
GROUP_NORM(f16, ZN_F16, ZN_GROUP_HELD)
GROUP_NORM(bf16, ZN_BF16, ZN_GROUP_HELD)
GROUP_NORM(any_f16, ZN_F16, 0)
GROUP_NORM(any_bf16, ZN_BF16, 0)

#endif
