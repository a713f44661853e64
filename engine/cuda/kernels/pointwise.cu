/* SPDX-License-Identifier: MIT */
/* pointwise.cu - map, binary, fill, resize, unshuffle and shuffle: bound by memory, for any mixture of types.
 *
 * Each has a form for vectors of 8 numbers (16 bytes, or 32 of float) and one for single numbers, for views that
 * begin or continue at odd addresses.  Where y may be an input, a thread reads all its numbers before it writes. */
#include "typed.cuh"

enum { THREADS = 256 };

/* ---- map and binary ---------------------------------------------------------------------------------------- */

/* Vectors at channel c of pixel p, for N places. */
template <int T, int V, int N>
__device__ __forceinline__ void combine(const zn_args_pointwise &g, const size_t (&p)[N], const size_t (&c)[N],
                                        const bool (&ok)[N])
{
    const zn_tensor &res = g.tail.residual;
    raw<V> a[N], b[N], r[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        if (ok[i])
            fetch(a[i], g.a, p[i] * g.a.ld + c[i]);
        if (ok[i] && g.b.data)
            fetch(b[i], g.b, p[i] * g.b.ld + c[i]);
        if (ok[i] && res.data)
            fetch(r[i], res, p[i] * res.ld + c[i]);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float v[V], w[V];

        if (!ok[i])
            continue;
        widen(v, a[i], g.a.type);
        if (g.b.data) {
            widen(w, b[i], g.b.type);
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] = g.op == ZN_MUL ? v[k] * w[k] : v[k] + w[k];
        }
        put_tail_of<T>(g.y, p[i] * g.y.ld + c[i], g.tail, v, r[i]);
    }
}

/* N vectors of each thread. */
template <int T, int V, int N> __device__ __forceinline__ void pointwise(const zn_args_pointwise &g)
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
    combine<T, V>(g, p, c, ok);
    if (V > 1 && !blockIdx.x && threadIdx.x < g.rest) {
        const size_t zero[1] = { 0 }, last[1] = { g.n * V + threadIdx.x };
        const bool yes[1] = { true };

        combine<T, 1>(g, zero, last, yes);
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

/* map_v8: without b and a residual there are registers for twice as many vectors under way. */
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

/* ---- resize ------------------------------------------------------------------------------------------------ */

/* The two pixels of n_x around the centre of pixel i of n_y, and the weight of the second: in whole numbers, the
 * place is ((2 i + 1) n_x - n_y) / (2 n_y). */
__device__ __forceinline__ float between(int &a, int &b, int i, int n_y, int n_x)
{
    long long at = (2ll * i + 1) * n_x - n_y, whole;

    at = at < 0 ? 0 : at;
    whole = at >> 31 ? at / (2ll * n_y) : (unsigned)at / (2u * (unsigned)n_y);
    a = whole < n_x - 1 ? (int)whole : n_x - 1;
    b = a + 1 < n_x ? a + 1 : a;
    return (float)(at - a * (2ll * n_y)) / (2.f * n_y);
}

__device__ __forceinline__ int nearest(int i, int n_y, int n_x)
{
    long long at = (2ll * i + 1) * n_x;

    return at >> 31 ? (int)(at / (2ll * n_y)) : (int)((unsigned)at / (2u * (unsigned)n_y));
}

/* A thread keeps its column j and walks down the rows, DOWN of them at a time. */
enum { DOWN = 4 };

template <int V> __device__ __forceinline__ void resize_nearest(const zn_args_resize &g, int j, size_t c)
{
    const zn_tensor &y = g.y, &x = g.x;
    size_t rows = (size_t)y.n * y.h;
    int from = nearest(j, y.w, x.w);

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

template <int V> __device__ __forceinline__ void resize_bilinear(const zn_args_resize &g, int j, size_t c)
{
    const zn_tensor &y = g.y, &x = g.x;
    size_t rows = (size_t)y.n * y.h;
    int j0, j1, i0, i1;
    float u = between(j0, j1, j, y.w, x.w);

    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        size_t image = quotient(row, y.h);
        float d = between(i0, i1, (int)(row - image * y.h), y.h, x.h), w[4][V], v[V];
        size_t above = (image * x.h + i0) * x.w, below = (image * x.h + i1) * x.w;
        raw<V> p[4];

        fetch(p[0], x, (above + j0) * x.ld + c);
        fetch(p[1], x, (above + j1) * x.ld + c);
        fetch(p[2], x, (below + j0) * x.ld + c);
        fetch(p[3], x, (below + j1) * x.ld + c);
#pragma unroll
        for (int k = 0; k < 4; k++)
            widen(w[k], p[k], x.type);
#pragma unroll
        for (int k = 0; k < V; k++) {
            float a = w[0][k] + u * (w[1][k] - w[0][k]), b = w[2][k] + u * (w[3][k] - w[2][k]);

            v[k] = a + d * (b - a);
        }
        put(y, (row * y.w + j) * y.ld + c, v);
    }
}

template <int V> __device__ __forceinline__ void resize(const zn_args_resize &g)
{
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, j = quotient(at, g.per_pixel);
    size_t c = (at - j * g.per_pixel) * V;

    if (j >= (size_t)g.y.w)
        return;
    if (g.filter == ZN_BILINEAR)
        resize_bilinear<V>(g, (int)j, c);
    else
        resize_nearest<V>(g, (int)j, c);
}

extern "C" __global__ void __launch_bounds__(THREADS) resize_v8(const zn_args_resize g) { resize<8>(g); }
extern "C" __global__ void __launch_bounds__(THREADS) resize_v1(const zn_args_resize g) { resize<1>(g); }

/* ---- pixels to channels and back ----------------------------------------------------------------------------
 *
 * Both ways go through shared memory, so that on either side neighbouring threads have neighbouring numbers. */

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

/* One number of padding for each 32: a thread's 8 numbers follow each other, and a warp's 8s do not collide. */
__device__ __forceinline__ unsigned padded(unsigned i) { return i + (i >> 5); }

/* Where V numbers of the tile lie in big. */
struct in_big {
    size_t p; /* pixel */
    int c;
    unsigned at; /* in the tile */
    bool in;
};

/* The V numbers from q * V on in the order of big: rows u, then pixels, then channels. */
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

/* The V numbers from q * V on, in the order of small: pixels, then channels. */
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

/* Numbers, or vectors of them, of a thread that are under way together. */
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

/* Few channels: the numbers are gathered one by one, from lines of small that neighbouring threads share, and leave in
 * vectors.  All of big's row is one line of numbers. */
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
