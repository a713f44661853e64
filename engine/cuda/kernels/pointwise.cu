/* SPDX-License-Identifier: MIT */
/* pointwise.cu - map, binary, step, fill, rope, lookup, resize, unshuffle and shuffle: bound by memory, for any mixture
 * of types.
 *
 * Each has a form for vectors of 8 elements (16 bytes, or 32 of float) and one for single elements, for views at
 * unaligned addresses.  Where y may be an input, a thread reads all its elements before it writes. */
#include "typed.cuh"

enum { THREADS = 256 };

/* ---- map, binary, step --------------------------------------------------------------------------------------- */

enum kind { PLAIN, BROADCAST, STEP };

/* b of a broadcast: a vector of the pixel's image, or one element. */
template <int V>
__device__ __forceinline__ void fetch_spread(float (&w)[V], const zn_args_pointwise &g, size_t p, size_t c)
{
    raw<V> r;

    if (g.spread == ZN_SPREAD_VECTOR) {
        fetch(r, g.b, quotient(p, g.image) * g.b.ld + c);
        widen(w, r, g.b.type);
    } else {
        const float x = load_any(g.b, g.spread == ZN_SPREAD_PIXEL ? p * g.b.ld : 0);

#pragma unroll
        for (int k = 0; k < V; k++)
            w[k] = x;
    }
}

/* ZN_STEP_COEFS in backend.h */
__device__ __forceinline__ float sampler_step(const float *c, float clip, float x, float p)
{
    const float x0 = fminf(fmaxf(c[0] * x + c[1] * p, -clip), clip);

    return c[4] * x0 + c[5] * (c[2] * x + c[3] * x0);
}

/* Vectors at channel c of pixel p, for N places. */
template <int T, int V, int K, int N>
__device__ __forceinline__ void combine(const zn_args_pointwise &g, const size_t (&p)[N], const size_t (&c)[N],
                                        const bool (&ok)[N])
{
    const zn_tensor &res = g.tail.residual;
    raw<V> a[N], b[N], r[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        if (ok[i])
            fetch(a[i], g.a, p[i] * g.a.ld + c[i]);
        if (K != BROADCAST && ok[i] && g.b.data)
            fetch(b[i], g.b, p[i] * g.b.ld + c[i]);
        if (K != STEP && ok[i] && res.data)
            fetch(r[i], res, p[i] * res.ld + c[i]);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float v[V], w[V];

        if (!ok[i])
            continue;
        widen(v, a[i], g.a.type);
        if (K == BROADCAST)
            fetch_spread(w, g, p[i], c[i]);
        else if (g.b.data)
            widen(w, b[i], g.b.type);
        if (K == STEP) {
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] = sampler_step(g.coefs, g.clip, v[k], w[k]);
            put(g.y, p[i] * g.y.ld + c[i], v);
            continue;
        }
        if (g.b.data)
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] = g.op == ZN_MUL ? v[k] * w[k] : v[k] + w[k];
        put_tail_of<T>(g.y, p[i] * g.y.ld + c[i], g.tail, v, r[i]);
    }
}

/* N vectors of each thread. */
template <int T, int V, int N, int K = PLAIN> __device__ __forceinline__ void pointwise(const zn_args_pointwise &g)
{
    size_t first = (size_t)blockIdx.x * (THREADS * N) + threadIdx.x, p[N], c[N];
    bool ok[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        size_t at = first + i * THREADS;

        ok[i] = at < g.n;
        p[i] = g.per_pixel ? quotient(at, g.per_pixel) : 0;
        c[i] = (at - p[i] * g.per_pixel) * V;
    }
    combine<T, V, K>(g, p, c, ok);
    if (V > 1 && !blockIdx.x && threadIdx.x < g.rest) {
        const size_t zero[1] = { 0 }, last[1] = { g.n * V + threadIdx.x };
        const bool yes[1] = { true };

        combine<T, 1, K>(g, zero, last, yes);
    }
}

template <int T> __device__ __forceinline__ zn_args_pointwise typed_pointwise(zn_args_pointwise g, bool alone)
{
    set_type<T>(g.y);
    set_type<T>(g.a);
    set_type<T>(g.b);
    set_type<T>(g.tail.residual);
    if (alone) /* nothing but a is read */
        g.b.data = g.tail.residual.data = nullptr;
    return g;
}

/* map_v8: without b and a residual there are registers for twice as many loads in flight. */
#define POINTWISE(name, T, V)                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) pointwise_##name(const zn_args_pointwise g)                  \
    {                                                                                                                  \
        pointwise<T, V, 2>(typed_pointwise<T>(g, false));                                                              \
    }
#define MAP(name, T)                                                                                                   \
    POINTWISE(v8_##name, T, 8)                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS) map_v8_##name(const zn_args_pointwise g)                     \
    {                                                                                                                  \
        pointwise<T, 8, 4>(typed_pointwise<T>(g, true));                                                               \
    }
POINTWISE(v1, ANY_TYPE, 1)
POINTWISE(v8_any, ANY_TYPE, 8)
MAP(f32, ZN_F32)
MAP(f16, ZN_F16)
MAP(bf16, ZN_BF16)

#define POINTWISE_ANY(name, V, K)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) name(const zn_args_pointwise g)                              \
    {                                                                                                                  \
        pointwise<ANY_TYPE, V, 2, K>(g);                                                                               \
    }
POINTWISE_ANY(broadcast_v8, 8, BROADCAST)
POINTWISE_ANY(broadcast_v1, 1, BROADCAST)
POINTWISE_ANY(step_v8, 8, STEP)
POINTWISE_ANY(step_v1, 1, STEP)

/* ---- fill -------------------------------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(THREADS) fill_any(const zn_args_fill g)
{
    __shared__ float value[ZN_CUDA_FILL];
    size_t n = (size_t)g.y.n * g.y.h * g.y.w * g.n;

    for (unsigned i = threadIdx.x; i < g.n; i += THREADS)
        value[i] = g.value[i];
    __syncthreads();
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (size_t)gridDim.x * THREADS) {
        size_t p = quotient(i, g.n);
        unsigned c = (unsigned)(i - p * g.n);

        store_any(g.y, p * g.y.ld + g.first + c, value[c]);
    }
}

/* ---- rope, lookup ------------------------------------------------------------------------------------------- */

template <int V> __device__ __forceinline__ void read_floats(float (&v)[V], const float *p)
{
    if constexpr (V == 8)
        read8(v, p);
    else
        v[0] = *p;
}

/* V pairs of a head. */
template <int V> __device__ __forceinline__ void rope(const zn_args_rope &g)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, p = quotient(at, g.per_pixel);
    const unsigned rest = (unsigned)(at - p * g.per_pixel), head = rest / g.per_head,
                   i = (rest - head * g.per_head) * V;
    const size_t position = p - quotient(p, g.image) * g.image;
    /* interleaved: pairs i .. i+V-1 are 2V neighbouring elements, in two vectors */
    const size_t c = (size_t)head * (2 * g.half) + (g.interleaved ? 2 * i : i), next = c + (g.interleaved ? V : g.half);
    float a[V], b[V], u[V], v[V];
    raw<V> ra, rb;

    if (at >= g.n)
        return;
    fetch(ra, g.x, p * g.x.ld + c);
    fetch(rb, g.x, p * g.x.ld + next);
    read_floats(u, g.cos + position * g.cos_ld + i);
    read_floats(v, g.sin + position * g.sin_ld + i);
    widen(a, ra, g.x.type);
    widen(b, rb, g.x.type);
    if (V > 1 && g.interleaved) {
        float y[2 * V];

#pragma unroll
        for (int k = 0; k < V; k++) {
            const float x0 = 2 * k < V ? a[(2 * k) % V] : b[(2 * k) % V];
            const float x1 = 2 * k + 1 < V ? a[(2 * k + 1) % V] : b[(2 * k + 1) % V];

            y[2 * k] = x0 * u[k] - x1 * v[k];
            y[2 * k + 1] = x0 * v[k] + x1 * u[k];
        }
#pragma unroll
        for (int k = 0; k < V; k++)
            a[k] = y[k], b[k] = y[V + k];
    } else {
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float x0 = a[k], x1 = b[k];

            a[k] = x0 * u[k] - x1 * v[k];
            b[k] = x0 * v[k] + x1 * u[k];
        }
    }
    put(g.y, p * g.y.ld + c, a);
    put(g.y, p * g.y.ld + next, b);
}

extern "C" __global__ void __launch_bounds__(THREADS) rope_v8(const zn_args_rope g) { rope<8>(g); }
extern "C" __global__ void __launch_bounds__(THREADS) rope_v1(const zn_args_rope g) { rope<1>(g); }

template <int V> __device__ __forceinline__ void lookup(const zn_args_lookup &g)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, p = quotient(at, g.per_pixel);
    const size_t c = (at - p * g.per_pixel) * V;
    float v[V], index;
    raw<V> r;

    if (at >= g.n)
        return;
    index = load_any(g.index, p * g.index.ld);
#pragma unroll
    for (int k = 0; k < V; k++)
        v[k] = 0;
    if (index >= 0 && index < (float)g.table.w) {
        fetch(r, g.table, (size_t)index * g.table.ld + c);
        widen(v, r, g.table.type);
    }
    put(g.y, p * g.y.ld + c, v);
}

extern "C" __global__ void __launch_bounds__(THREADS) lookup_v8(const zn_args_lookup g) { lookup<8>(g); }
extern "C" __global__ void __launch_bounds__(THREADS) lookup_v1(const zn_args_lookup g) { lookup<1>(g); }

/* ---- resize ------------------------------------------------------------------------------------------------ */

__device__ __forceinline__ int nearest(int i, int n_y, int n_x)
{
    long long at = (2ll * i + 1) * n_x;

    return at >> 31 ? (int)(at / (2ll * n_y)) : (int)((unsigned)at / (2u * (unsigned)n_y));
}

/* A thread has one column j and goes down the rows, DOWN of them at a time. */
enum { DOWN = 4 };

template <int V> __device__ __forceinline__ void resize(const zn_args_resize &g)
{
    const zn_tensor &y = g.y, &x = g.x;
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, j = quotient(at, g.per_pixel);
    const size_t c = (at - j * g.per_pixel) * V, rows = (size_t)y.n * y.h;

    if (j >= (size_t)y.w)
        return;
    const int from = nearest((int)j, y.w, x.w);

    for (size_t row = blockIdx.y; row < rows; row += (size_t)DOWN * gridDim.y) {
        raw<V> p[DOWN];

#pragma unroll
        for (int k = 0; k < DOWN; k++) {
            size_t r = row + (size_t)k * gridDim.y, image = quotient(r, y.h);

            if (r < rows)
                fetch(p[k], x, ((image * x.h + nearest((int)(r - image * y.h), y.h, x.h)) * x.w + from) * x.ld + c);
        }
#pragma unroll
        for (int k = 0; k < DOWN; k++) {
            size_t r = row + (size_t)k * gridDim.y;
            float v[V];

            widen(v, p[k], x.type);
            if (r < rows)
                put(y, (r * y.w + j) * y.ld + c, v);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) resize_v8(const zn_args_resize g) { resize<8>(g); }
extern "C" __global__ void __launch_bounds__(THREADS) resize_v1(const zn_args_resize g) { resize<1>(g); }

/* The first pixel of x in the window of pixel p of y. */
__device__ __forceinline__ size_t window_at(const zn_args_average &g, size_t p)
{
    const size_t row = quotient(p, g.y.w), j = p - row * g.y.w; /* rows of x are g.h times those of y */

    return row * g.h * g.x.w + j * g.w;
}

/* sum += V channels of a pixel of x */
template <int V> __device__ __forceinline__ void add_pixel(float (&sum)[V], const zn_tensor &x, size_t i)
{
    float v[V];
    raw<V> r;

    fetch(r, x, i);
    widen(v, r, x.type);
#pragma unroll
    for (int k = 0; k < V; k++)
        sum[k] += v[k];
}

template <int V> __device__ __forceinline__ void put_mean(const zn_args_average &g, size_t i, float (&sum)[V])
{
#pragma unroll
    for (int k = 0; k < V; k++)
        sum[k] /= (float)g.h * (float)g.w;
    put(g.y, i, sum);
}

/* A thread has one vector of y. */
template <int V> __device__ __forceinline__ void average(const zn_args_average &g)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, p = quotient(at, g.per_pixel);
    const size_t c = (at - p * g.per_pixel) * V, first = window_at(g, p);
    float sum[V];

    if (at >= g.n)
        return;
#pragma unroll
    for (int k = 0; k < V; k++)
        sum[k] = 0;
    for (int i = 0; i < g.h; i++)
#pragma unroll 2
        for (int j = 0; j < g.w; j++)
            add_pixel(sum, g.x, (first + (size_t)i * g.x.w + j) * g.x.ld + c);
    put_mean(g, p * g.y.ld + c, sum);
}

/* A block has `cols` vectors of a pixel of y; its rows of threads share the window. */
template <int V> __device__ __forceinline__ void average_long(const zn_args_average &g)
{
    __shared__ float sums[V][THREADS];
    const size_t p = blockIdx.x, first = window_at(g, p);
    const int t = (int)threadIdx.x, row = t / g.cols, col = t - row * g.cols, n_rows = THREADS / g.cols;
    const size_t vector = (size_t)blockIdx.y * g.cols + col, c = vector * V;
    const bool in = row < n_rows && vector < g.per_pixel;
    float sum[V];

#pragma unroll
    for (int k = 0; k < V; k++)
        sum[k] = 0;
    if (in)
#pragma unroll 4
        for (int i = row; i < g.h * g.w; i += n_rows)
            add_pixel(sum, g.x, (first + (size_t)(i / g.w) * g.x.w + i % g.w) * g.x.ld + c);
#pragma unroll
    for (int k = 0; k < V; k++)
        sums[k][t] = sum[k];
    __syncthreads();
    if (!in || row)
        return;
    for (int i = 1; i < n_rows; i++)
#pragma unroll
        for (int k = 0; k < V; k++)
            sum[k] += sums[k][t + i * g.cols];
    put_mean(g, p * g.y.ld + c, sum);
}

#define AVERAGE(name, call)                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS) name(const zn_args_average g) { call; }
AVERAGE(average_v8, average<8>(g))
AVERAGE(average_v1, average<1>(g))
AVERAGE(average_long_v8, average_long<8>(g))
AVERAGE(average_long_v1, average_long<1>(g))

/* ---- pixels to channels and back ----------------------------------------------------------------------------
 *
 * Both directions go through shared memory, so that global loads and stores are coalesced. */

extern __shared__ __align__(16) float tile[];

struct shuffle_tile {
    int np, nc; /* pixels of small, channels of big */
    int j0, c0; /* the first ones */
    size_t row; /* of small, counted through all images */
};

__device__ __forceinline__ shuffle_tile tile_here(const zn_args_shuffle &g)
{
    shuffle_tile t;

    t.row = blockIdx.x / g.n_tiles;
    t.j0 = (int)(blockIdx.x % g.n_tiles) * g.pixels;
    t.c0 = (int)blockIdx.y * g.channels;
    t.np = min(g.pixels, g.small.w - t.j0);
    t.nc = min(g.channels, g.big.c - t.c0);
    return t;
}

__device__ __forceinline__ unsigned divide(unsigned n, unsigned magic) { return magic ? __umulhi(n, magic) : n; }

/* One element of padding for each 32: no bank conflicts between the vectors of a warp. */
__device__ __forceinline__ unsigned padded(unsigned i) { return i + (i >> 5); }

/* The place of V elements of the tile in big. */
struct in_big {
    size_t p; /* pixel */
    int c;
    unsigned at; /* in the tile */
    bool in;
};

/* Elements q * V and after, in the order of big: rows u, then pixels, then channels. */
template <int V> __device__ __forceinline__ in_big big_at(const zn_args_shuffle &g, const shuffle_tile &t, unsigned q)
{
    unsigned r = (unsigned)g.r, per_pixel = (unsigned)g.channels / V, row = (unsigned)g.pixels * r * per_pixel;
    unsigned u = divide(q, g.magic_row), rest = q - u * row;
    unsigned pixel = divide(rest, g.magic_channels), c = (rest - pixel * per_pixel) * V;
    unsigned j = divide(pixel, g.magic_r), v = pixel - j * r;
    in_big b;

    /* rows of big, counted through all images, are r times those of small */
    b.p = (t.row * r + u) * (size_t)g.big.w + (size_t)t.j0 * r + pixel;
    b.c = t.c0 + (int)c;
    b.at = (u * r + v) * (unsigned)g.pitch + padded(j * (unsigned)g.channels + c);
    b.in = u < r && j < (unsigned)t.np && c < (unsigned)t.nc;
    return b;
}

/* Elements q * V and after, in the order of small: pixels, then channels. */
template <int V> struct in_small {
    size_t p, c;
    unsigned at[V];
    bool in;
};

template <int V>
__device__ __forceinline__ in_small<V> small_at(const zn_args_shuffle &g, const shuffle_tile &t, unsigned q)
{
    unsigned rr = (unsigned)(g.r * g.r), per_pixel = (unsigned)t.nc * rr / V;
    /* full tiles divide by the magic number, the last ones plainly */
    unsigned j = t.nc == g.channels ? divide(q, g.magic_vectors) : q / per_pixel, k = (q - j * per_pixel) * V;
    unsigned c = divide(k, g.magic_rr), uv = k - c * rr;
    in_small<V> s;

    s.p = t.row * g.small.w + t.j0 + j;
    s.c = (size_t)t.c0 * rr + k;
    s.in = j < (unsigned)t.np;
    c += j * (unsigned)g.channels;
#pragma unroll
    for (int i = 0; i < V; i++) {
        s.at[i] = uv * (unsigned)g.pitch + padded(c);
        if (++uv == rr)
            uv = 0, c++;
    }
    return s;
}

/* Loads of a thread in flight. */
template <int V> struct batch {
    enum { N = V == 8 ? 4 : 8 };
};

template <int V> __device__ __forceinline__ void read_big(const zn_args_shuffle &g, const shuffle_tile &t)
{
    enum { N = batch<V>::N };
    unsigned n = (unsigned)(g.r * g.r) * (unsigned)(g.pixels * g.channels) / V;

    for (unsigned q = threadIdx.x; q < n; q += N * THREADS) {
        raw<V> r[N];

#pragma unroll
        for (int i = 0; i < N; i++) {
            in_big b = big_at<V>(g, t, q + i * THREADS);

            if (b.in)
                fetch(r[i], g.big, b.p * g.big.ld + b.c);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            in_big b = big_at<V>(g, t, q + i * THREADS);
            float v[V];

            widen(v, r[i], g.big.type);
            if (b.in)
#pragma unroll
                for (int k = 0; k < V; k++)
                    tile[b.at + k] = v[k];
        }
    }
}

template <int V> __device__ __forceinline__ void write_big(const zn_args_shuffle &g, const shuffle_tile &t)
{
    enum { N = batch<V>::N };
    unsigned n = (unsigned)(g.r * g.r) * (unsigned)(g.pixels * g.channels) / V;
    const zn_tensor &res = g.tail.residual;

    for (unsigned q = threadIdx.x; q < n; q += N * THREADS) {
        raw<V> r[N];

        if (res.data)
#pragma unroll
            for (int i = 0; i < N; i++) {
                in_big b = big_at<V>(g, t, q + i * THREADS);

                if (b.in)
                    fetch(r[i], res, b.p * res.ld + b.c);
            }
#pragma unroll
        for (int i = 0; i < N; i++) {
            in_big b = big_at<V>(g, t, q + i * THREADS);
            float v[V];

            if (!b.in)
                continue;
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] = tile[b.at + k];
            put_tail(g.big, b.p * g.big.ld + b.c, g.tail, v, r[i]);
        }
    }
}

template <int V> __device__ __forceinline__ void read_small(const zn_args_shuffle &g, const shuffle_tile &t)
{
    enum { N = batch<V>::N };
    unsigned n = (unsigned)t.np * (unsigned)(t.nc * g.r * g.r) / V;

    for (unsigned q = threadIdx.x; q < n; q += N * THREADS) {
        raw<V> r[N];

#pragma unroll
        for (int i = 0; i < N; i++) {
            in_small<V> s = small_at<V>(g, t, q + i * THREADS);

            if (s.in)
                fetch(r[i], g.small, s.p * g.small.ld + s.c);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            in_small<V> s = small_at<V>(g, t, q + i * THREADS);
            float v[V];

            widen(v, r[i], g.small.type);
            if (s.in)
#pragma unroll
                for (int k = 0; k < V; k++)
                    tile[s.at[k]] = v[k];
        }
    }
}

template <int V> __device__ __forceinline__ void write_small(const zn_args_shuffle &g, const shuffle_tile &t)
{
    unsigned n = (unsigned)t.np * (unsigned)(t.nc * g.r * g.r) / V;

#pragma unroll 2
    for (unsigned q = threadIdx.x; q < n; q += THREADS) {
        in_small<V> s = small_at<V>(g, t, q);
        float v[V];

#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = tile[s.at[k]];
        put(g.small, s.p * g.small.ld + s.c, v);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) unshuffle_any(const zn_args_shuffle g)
{
    shuffle_tile t = tile_here(g);

    if (g.big_vectors)
        read_big<8>(g, t);
    else
        read_big<1>(g, t);
    __syncthreads();
    if (g.small_vectors)
        write_small<8>(g, t);
    else
        write_small<1>(g, t);
}

extern "C" __global__ void __launch_bounds__(THREADS) shuffle_any(const zn_args_shuffle g)
{
    shuffle_tile t = tile_here(g);

    if (g.small_vectors)
        read_small<8>(g, t);
    else
        read_small<1>(g, t);
    __syncthreads();
    if (g.big_vectors)
        write_big<8>(g, t);
    else
        write_big<1>(g, t);
}

/* Few channels: elements are gathered one by one, from cache lines of small that neighbouring threads share, and are
 * stored as vectors.  A row of big has no gaps. */
template <int R> __device__ __forceinline__ void shuffle_rows(const zn_args_shuffle_rows &g)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, row = quotient(at, g.vectors);
    const unsigned first = (unsigned)(at - row * g.vectors) * 8, c0 = (unsigned)g.big.c;
    const unsigned r = R ? R : (unsigned)g.r, from = (unsigned)quotient(row, r), u = (unsigned)(row - (size_t)from * r);
    const zn_tensor &res = g.tail.residual;
    unsigned pixel = first / c0, c = first - pixel * c0, j = pixel / r, v = pixel - j * r;
    float x[8];
    raw<8> residual;

    if (at >= g.n)
        return;
    if (res.data)
        fetch(residual, res, at * 8);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] = load_any(g.small, ((size_t)from * g.small.w + j) * g.small.ld + (c * r + u) * r + v);
        if (++c == c0) {
            c = 0;
            if (++v == r)
                v = 0, j++;
        }
    }
    put_tail(g.big, at * 8, g.tail, x, residual);
}

#define SHUFFLE_ROWS(name, T, R)                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) shuffle_rows_##name(zn_args_shuffle_rows g)                  \
    {                                                                                                                  \
        set_type<T>(g.small);                                                                                          \
        shuffle_rows<R>(g);                                                                                            \
    }
SHUFFLE_ROWS(2_f32, ZN_F32, 2)
SHUFFLE_ROWS(2_f16, ZN_F16, 2)
SHUFFLE_ROWS(2_bf16, ZN_BF16, 2)
SHUFFLE_ROWS(any, ANY_TYPE, 0)
