/* SPDX-License-Identifier: MIT */
/* spectral.cu - Walsh-Hadamard transforms along channels, rows and columns.
 *
 * A transform of 2^b elements is b butterfly steps, one for each bit of the index, in any order.  A thread computes the
 * steps of the bits that distinguish its own elements in registers; then the threads exchange elements through shared
 * memory, so that other bits distinguish a thread's elements. */
#include "typed.cuh"

enum { THREADS = 256 };

extern __shared__ __align__(16) float shared_row[];

/* A register of a thread holds one element of a column, or those of two neighbouring channels. */
struct __align__(8) two { float a, b; };
__device__ __forceinline__ two operator+(two x, two y) { return { x.a + y.a, x.b + y.b }; }
__device__ __forceinline__ two operator-(two x, two y) { return { x.a - y.a, x.b - y.b }; }
__device__ __forceinline__ two operator*(two x, two y) { return { x.a * y.a, x.b * y.b }; }

/* The steps of the register index's bits 0 .. to-1. */
template <class N, int E> __device__ __forceinline__ void butterflies(N (&v)[E], int to)
{
#pragma unroll
    for (int len = 1, bit = 0; len < E; len *= 2, bit++)
        if (bit < to)
#pragma unroll
            for (int i = 0; i < E; i++)
                if (!(i & len)) {
                    N a = v[i], b = v[i | len];

                    v[i] = a + b;
                    v[i | len] = a - b;
                }
}

/* Hides x from the compiler, which then recomputes addresses instead of keeping dozens of them in registers. */
__device__ __forceinline__ int again(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* ---- along c ----------------------------------------------------------------------------------------------
 *
 * A team of n/E threads computes a pixel in a row of n elements of shared memory, in natural order; thread t holds the
 * elements t, t + team, t + 2 team ...: neighbouring threads load neighbouring elements of x and of the weights.  For
 * the low bits of a transform it holds t E .. t E + E - 1 instead. */

/* One element of padding for each 32: both access patterns are free of bank conflicts. */
__device__ __forceinline__ int padded(int j) { return j + (j >> 5); }

/* v[i] = x[t + i * team], zeros from c on */
template <class T, int E> __device__ __forceinline__ void read_row(float (&v)[E], const T *x, int c, int t, int team)
{
#pragma unroll
    for (int i = 0; i < E; i++)
        v[i] = t + i * team < c ? to_float(x[t + i * team]) : 0;
}

template <class T, int E> __device__ __forceinline__ void write_row(const float (&v)[E], T *y, int c, int t, int team)
{
#pragma unroll
    for (int i = 0; i < E; i++)
        if (t + i * team < c)
            y[t + i * team] = from_float<T>(v[i]);
}

/* A team's view of its pixel. */
template <int E> struct channels {
    float v[E];
    float *row;
    int n, t, team, log_team;

    __device__ __forceinline__ void sync() const
    {
        if (team > 32)
            __syncthreads();
        else
            __syncwarp();
    }

    __device__ __forceinline__ float at(int j) const { return row[padded(j)]; }

    /* An element of the row; 0 outside. */
    __device__ __forceinline__ float near(int j) const { return (unsigned)j < (unsigned)n ? row[padded(j)] : 0; }

    /* Stores v to the row. */
    __device__ __forceinline__ void write()
    {
#pragma unroll
        for (int i = 0; i < E; i++)
            row[padded(t + i * team)] = v[i];
        sync();
    }

    /* row = H v.  Afterwards all threads may read the row; before the call none may still be reading it but its owners. */
    __device__ __forceinline__ void transform()
    {
        butterflies(v, 31);
        write();
        if (team == 1)
            return;
#pragma unroll
        for (int i = 0; i < E; i++)
            v[i] = at(t * E + i);
        butterflies(v, log_team);
        for (int mask = 1; mask * E < team; mask *= 2) { /* bits that are neither in E nor above the team */
            float sign = t & mask ? -1.f : 1.f;

#pragma unroll
            for (int i = 0; i < E; i++)
                v[i] = fmaf(v[i], sign, __shfl_xor_sync(0xffffffffu, v[i], mask));
        }
#pragma unroll
        for (int i = 0; i < E; i++)
            row[padded(t * E + i)] = v[i];
        sync();
    }

    /* One round of the SLM gate on |row|: the factor of element j. */
    __device__ __forceinline__ float slm_factor(const float *slm, int j) const
    {
        float sum = 0, dot = 0, mag, cosine;

#pragma unroll
        for (int k = 0; k < 5; k++) {
            float e = fabsf(near(j - 2 + k));

            sum += e * e;
            dot += slm[(size_t)k * n + j] * e;
        }
        mag = sqrtf(sum / 5 + 1e-10f);
        cosine = dot / (mag * slm[(size_t)5 * n + j] + 1e-6f);
        return sigmoid(fmaxf(cosine * sqrtf(mag + 1e-10f) + slm[(size_t)6 * n + j], 0));
    }

    /* row -> row * gate, through v, which always holds the row's elements.  The factors are positive, so
     * that |v| times a factor is |v times the factor|. */
    __device__ __forceinline__ void slm_gate(const float *slm)
    {
#pragma unroll
        for (int i = 0; i < E; i++)
            v[i] = at(t + i * team);
#pragma unroll 1
        for (int round = 0; round < 3; round++) {
            int first = again(t);
            float f[E];

#pragma unroll
            for (int i = 0; i < E; i++) {
                f[i] = v[i] * slm_factor(slm, first + i * team);
                if (i % 2)
                    asm volatile("" ::: "memory"); /* keeps the compiler from loading weights early */
            }
            sync(); /* all threads have read their neighbours */
#pragma unroll
            for (int i = 0; i < E; i++)
                row[padded(t + i * team)] = f[i];
            sync();
        }
    }
};

template <int E> __device__ __forceinline__ void fwht_channels(const zn_args_fwht_c &g)
{
    const zn_fwht &w = g.w;
    channels<E> s;
    int team = 1 << g.log_team, mine = (int)threadIdx.x >> g.log_team;
    size_t p = (size_t)blockIdx.x * (THREADS >> g.log_team) + mine;
    bool in = p < g.pixels; /* a thread without a pixel still takes part in the exchange */
    int rounds = w.rounds ? w.rounds : 1;

    s.n = w.n;
    s.team = team;
    s.log_team = g.log_team;
    s.t = (int)threadIdx.x & (team - 1);
    s.row = shared_row + mine * (w.n + (w.n >> 5) + 1);
    if (g.x.type == ZN_F16)
        read_row(s.v, (const f16 *)g.x.data + p * g.x.ld, in ? g.x.c : 0, s.t, team);
    else if (g.x.type == ZN_BF16)
        read_row(s.v, (const bf16 *)g.x.data + p * g.x.ld, in ? g.x.c : 0, s.t, team);
    else
        read_row(s.v, g.x.data + p * g.x.ld, in ? g.x.c : 0, s.t, team);
    if (w.perm)
        s.write();
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        if (w.perm || r)
#pragma unroll
            for (int i = 0; i < E; i++)
                s.v[i] = s.at(w.perm ? w.perm[(size_t)r * w.n + s.t + i * team] : s.t + i * team);
        if (w.pre)
#pragma unroll
            for (int i = 0; i < E; i++)
                s.v[i] *= w.pre[(size_t)r * w.n + s.t + i * team];
        if (w.perm)
            s.sync(); /* all threads have read */
        s.transform();
    }
    if (w.slm)
        s.slm_gate(w.slm);
    if (w.slm || w.gate || w.mix) {
#pragma unroll
        for (int i = 0; i < E; i++) {
            int j = s.t + i * team;

            s.v[i] = s.at(j);
            if (w.gate)
                s.v[i] *= w.gate[j];
            if (w.mix) {
                float before = s.near(j - 1), after = s.near(j + 1);

                if (w.gate) {
                    before *= w.gate[j ? j - 1 : 0];
                    after *= w.gate[j + 1 < w.n ? j + 1 : j];
                }
                s.v[i] = w.mix[j] * before + w.mix[w.n + j] * s.v[i] + w.mix[2 * w.n + j] * after;
            }
        }
        if (w.mix)
            s.sync();
        s.transform();
    }
    if (!in)
        return;
#pragma unroll
    for (int i = 0; i < E; i++) {
        int j = s.t + i * team;

        s.v[i] = s.at(j);
        if (w.bias && j < g.y.c)
            s.v[i] += w.bias[j];
    }
    activate_all(w.act, s.v);
    if (g.y.type == ZN_F16)
        write_row(s.v, (f16 *)g.y.data + p * g.y.ld, g.y.c, s.t, team);
    else if (g.y.type == ZN_BF16)
        write_row(s.v, (bf16 *)g.y.data + p * g.y.ld, g.y.c, s.t, team);
    else
        write_row(s.v, g.y.data + p * g.y.ld, g.y.c, s.t, team);
}

#define CHANNELS(E)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) fwht_c_##E(const zn_args_fwht_c g) { fwht_channels<E>(g); }
CHANNELS(2)
CHANNELS(8)
CHANNELS(16)
CHANNELS(32)

/* ---- along c, in vectors ------------------------------------------------------------------------------------
 *
 * y = act(H gate H pre x + bias) of up to 1024 channels: thread l of a pixel's n / 8K has the vectors of 8 channels
 * l, l + lanes, ...; K of them.  The lowest 3 bits and the highest ones of an index distinguish the elements in its
 * registers, the others the threads, which are neighbours in a warp. */

/* v *= the n elements at w, if there are any */
template <int K> __device__ __forceinline__ void scale_vectors(float (&v)[8 * K], const float *w, int lane, int lanes)
{
    if (w)
#pragma unroll
        for (int k = 0; k < K; k++) {
            const float4 *q = (const float4 *)(w + (lane + k * lanes) * 8);
            const float4 lo = q[0], hi = q[1];

            v[8 * k] *= lo.x, v[8 * k + 1] *= lo.y, v[8 * k + 2] *= lo.z, v[8 * k + 3] *= lo.w;
            v[8 * k + 4] *= hi.x, v[8 * k + 5] *= hi.y, v[8 * k + 6] *= hi.z, v[8 * k + 7] *= hi.w;
        }
}

template <int E> __device__ __forceinline__ void transform_lanes(float (&v)[E], int lane, int lanes)
{
    butterflies(v, 31);
#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2)
        if (mask < lanes) {
            float sign = lane & mask ? -1.f : 1.f;

#pragma unroll
            for (int i = 0; i < E; i++)
                v[i] = fmaf(v[i], sign, __shfl_xor_sync(0xffffffffu, v[i], mask));
        }
}

template <int T, int K> __device__ __forceinline__ void fwht_vectors(const zn_args_fwht_c &g)
{
    const int lanes = 1 << g.log_team, lane = (int)threadIdx.x & (lanes - 1);
    const size_t p = ((size_t)blockIdx.x * THREADS + threadIdx.x) >> g.log_team;
    const bool in = p < g.pixels; /* a thread without a pixel still takes part in the exchange */
    raw<8> r[K];
    float v[8 * K];

#pragma unroll
    for (int k = 0; k < K; k++) {
        const int c = (lane + k * lanes) * 8;

        r[k].lo = r[k].hi = make_uint4(0, 0, 0, 0);
        if (in && c < g.x.c)
            fetch(r[k], g.x, p * g.x.ld + c);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        float w[8];

        widen(w, r[k], (zn_type)T);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[8 * k + i] = w[i];
    }
    scale_vectors<K>(v, g.w.pre, lane, lanes);
    transform_lanes(v, lane, lanes);
    if (g.w.gate) {
        scale_vectors<K>(v, g.w.gate, lane, lanes);
        transform_lanes(v, lane, lanes);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int c = (lane + k * lanes) * 8;
        float w[8];

        if (!in || c >= g.y.c)
            continue;
#pragma unroll
        for (int i = 0; i < 8; i++)
            w[i] = v[8 * k + i];
        if (g.w.bias)
#pragma unroll
            for (int i = 0; i < 8; i++)
                w[i] += g.w.bias[c + i];
        if (T == ZN_F32)
            activate_all(g.w.act, w);
        else
            activate_short(g.w.act, w);
        put(g.y, p * g.y.ld + c, w);
    }
}

/* As typed(): tensors of one known type. */
template <int T, class G> __device__ __forceinline__ G typed_ends(G g)
{
    set_type<T>(g.x);
    set_type<T>(g.y);
    return g;
}

#define VECTORS(K, name, T)                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 3) fwht_v8_##K##_##name(const zn_args_fwht_c g)              \
    {                                                                                                                  \
        fwht_vectors<T, K>(typed_ends<T>(g));                                                                          \
    }
#define ALL_VECTORS(name, T) VECTORS(1, name, T) VECTORS(2, name, T) VECTORS(4, name, T)
ALL_VECTORS(f32, ZN_F32)
ALL_VECTORS(f16, ZN_F16)
ALL_VECTORS(bf16, ZN_BF16)

/* ---- along w and h ------------------------------------------------------------------------------------------
 *
 * A column is one channel of one line of pixels, or two neighbouring ones (type N: float or two); neighbouring threads
 * have neighbouring columns, so that accesses are coalesced whatever the step along the column.
 * A block processes a span of each of its columns: one window, or, if that is shorter, as many elements as a thread holds,
 * OWN = 2^L.  t is the thread's index among the span/OWN of a column.  It holds the elements k of a span:
 *     far   k = t + i * span/OWN                  the upper L bits are in registers
 *     mid   k = t / 8 * 256 + i * 8 + t % 8       bits 3 to 7; only if span > 1024, L = 5
 *     near  k = t * OWN + i                       the lower L bits
 * It loads far and ends near; a gate is applied there, and the second transform goes in the opposite direction. */

enum { LINE_THREADS = 512, PAIR_THREADS = 256 };

template <class N> struct line {
    N *col;        /* shared memory */
    size_t x, y;   /* element 0 of the column in x and y */
    size_t dx, dy; /* from one element to the next */
    int len;       /* elements of the column */
    int c;         /* its channel, the first of two */
    int t, log_cols, log_span;
};

/* Which elements of the span a thread holds: first + i * step. */
struct positions {
    int first, step;

    __device__ __forceinline__ int operator()(int i) const { return first + i * step; }
};

template <int L, class N> __device__ __forceinline__ positions far_of(const line<N> &s)
{
    return { again(s.t), 1 << (s.log_span - L) };
}
template <class N> __device__ __forceinline__ positions mid_of(const line<N> &s)
{
    return { again((s.t >> 3 << 8) + (s.t & 7)), 8 };
}
template <int L, class N> __device__ __forceinline__ positions near_of(const line<N> &s)
{
    return { again(s.t << L), 1 };
}

/* N as it is stored, in elements of type T. */
template <class N, class T> struct memory {
    typedef T type;
    static __device__ __forceinline__ float wide(T x) { return to_float(x); }
    static __device__ __forceinline__ T narrow(float x) { return from_float<T>(x); }
};
template <class T> struct memory<two, T> {
    typedef unsigned type;
    static __device__ __forceinline__ unsigned narrow(two x) { return pack_pair<T>(x.a, x.b); }
    static __device__ __forceinline__ two wide(unsigned x)
    {
        const raw<8> r = { { x, 0, 0, 0 }, { 0, 0, 0, 0 } };
        float v[8];

        widen(v, r, type_of<T>::value);
        return { v[0], v[1] };
    }
};
template <> struct memory<two, float> {
    typedef two type;
    static __device__ __forceinline__ two wide(two x) { return x; }
    static __device__ __forceinline__ two narrow(two x) { return x; }
};

/* Is all of a span in the image? */
template <class N> __device__ __forceinline__ bool whole(const line<N> &s, int from)
{
    return from >= 0 && from + (1 << s.log_span) <= s.len;
}

/* Loads or stores the elements from + at(i) of a column that are inside the image. */
template <class T, class N, int OWN>
__device__ __forceinline__ void read_as(N (&v)[OWN], const T *x, const line<N> &s, int from, positions at)
{
    typedef memory<N, T> mem;
    size_t next = (size_t)at.step * s.dx;
    int k = from + at.first;
    typename mem::type r[OWN];

    x += s.x + (ptrdiff_t)k * (ptrdiff_t)s.dx;
    if (whole(s, from)) {
#pragma unroll
        for (int i = 0; i < OWN; i++, x += next)
            r[i] = *(const typename mem::type *)x;
    } else {
#pragma unroll
        for (int i = 0; i < OWN; i++, k += at.step, x += next) {
            r[i] = typename mem::type();
            if ((unsigned)k < (unsigned)s.len)
                r[i] = *(const typename mem::type *)x;
        }
    }
#pragma unroll
    for (int i = 0; i < OWN; i++)
        v[i] = mem::wide(r[i]);
}

template <class T, class N, int OWN>
__device__ __forceinline__ void write_as(const N (&v)[OWN], T *y, const line<N> &s, int from, positions at)
{
    typedef memory<N, T> mem;
    size_t next = (size_t)at.step * s.dy;
    int k = from + at.first;
    bool all = whole(s, from);

    y += s.y + (ptrdiff_t)k * (ptrdiff_t)s.dy;
#pragma unroll
    for (int i = 0; i < OWN; i++, k += at.step, y += next)
        if (all || (unsigned)k < (unsigned)s.len)
            *(typename mem::type *)y = mem::narrow(v[i]);
}

template <class N, int OWN>
__device__ __forceinline__ void read_line(N (&v)[OWN], const zn_tensor &x, const line<N> &s, int from, positions at)
{
    if (x.type == ZN_F16)
        read_as(v, (const f16 *)x.data, s, from, at);
    else if (x.type == ZN_BF16)
        read_as(v, (const bf16 *)x.data, s, from, at);
    else
        read_as(v, (const float *)x.data, s, from, at);
}

template <class N, int OWN>
__device__ __forceinline__ void write_line(const N (&v)[OWN], const zn_tensor &y, const line<N> &s, int from,
                                           positions at)
{
    if (y.type == ZN_F16)
        write_as(v, (f16 *)y.data, s, from, at);
    else if (y.type == ZN_BF16)
        write_as(v, (bf16 *)y.data, s, from, at);
    else
        write_as(v, (float *)y.data, s, from, at);
}

/* One element of padding for each OWN. */
template <int L> __device__ __forceinline__ int padded_by(int j) { return j + (j >> L); }

/* Exchanges elements.  Each thread writes where it read last, so it overwrites nothing that another still needs.  In all three
 * arrangements padded(first + i * step) is padded(first) + padded(i * step): no sum carries into bit L. */
template <int L, class N>
__device__ __forceinline__ void exchange(N (&v)[1 << L], const line<N> &s, positions from, positions to)
{
    N *p = s.col + (padded_by<L>(from.first) << s.log_cols);
    const N *q = s.col + (padded_by<L>(to.first) << s.log_cols);

#pragma unroll
    for (int i = 0; i < 1 << L; i++)
        p[padded_by<L>(i * from.step) << s.log_cols] = v[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 1 << L; i++)
        v[i] = q[padded_by<L>(i * to.step) << s.log_cols];
}

/* v *= gate; v[i] is element at(i) & mask of a window */
template <int OWN>
__device__ __forceinline__ void gate_line(float (&v)[OWN], const zn_args_fwht_line &g, const line<float> &s, int mask,
                                          positions at)
{
    const float *gate = g.gate + (g.per_channel ? s.c : 0);
    unsigned each = g.per_channel ? (unsigned)g.x.c : 1;

#pragma unroll
    for (int i = 0; i < OWN; i++) {
        v[i] *= gate[(unsigned)(at(i) & mask) * each];
        if (i % 8 == 7)
            asm volatile(
                "" ::
                    : "memory"); /* without it the compiler loads all elements first, which doubles the registers */
    }
}

/* For two channels; neighbouring elements (at.step is 1), and a gate aligned to 16 bytes. */
template <int OWN>
__device__ __forceinline__ void gate_line(two (&v)[OWN], const zn_args_fwht_line &g, const line<two> &s, int mask,
                                          positions at)
{
    if (!g.per_channel && (mask & (OWN - 1)) == OWN - 1) { /* in fours */
        const float4 *gate = (const float4 *)(g.gate + (at.first & mask));

#pragma unroll
        for (int i = 0; i < OWN; i += 4) {
            const float4 q = gate[i / 4];

            v[i] = v[i] * two{ q.x, q.x };
            v[i + 1] = v[i + 1] * two{ q.y, q.y };
            v[i + 2] = v[i + 2] * two{ q.z, q.z };
            v[i + 3] = v[i + 3] * two{ q.w, q.w };
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        unsigned k = (unsigned)(at(i) & mask);
        const float *gate = g.gate + (g.per_channel ? k * (unsigned)g.x.c + s.c : k);
        float first = *gate;

        v[i] = v[i] * two{ first, g.per_channel ? gate[1] : first };
        if (i % 8 == 7)
            asm volatile("" ::: "memory");
    }
}

/* Column `col` of block `block`. */
template <class N> __device__ __forceinline__ line<N> line_of(const zn_args_fwht_line &g, size_t block, int col)
{
    enum { EACH = sizeof(N) / sizeof(float) };
    size_t q = (block << g.log_cols) + col, l, first, step;
    unsigned per_line = (unsigned)g.x.c / EACH;
    line<N> s;

    s.t = (int)threadIdx.x >> g.log_cols;
    s.log_cols = g.log_cols;
    s.log_span = g.log_span;
    s.col = (N *)shared_row + col;
    s.len = q < g.n_cols ? g.axis == ZN_ALONG_W ? g.x.w : g.x.h : 0;
    q = q < g.n_cols ? q : 0;
    l = quotient(q, per_line);
    s.c = (int)(q - l * per_line) * EACH;
    if (g.axis == ZN_ALONG_W) {
        first = l * g.x.w;
        step = 1;
    } else {
        size_t image = quotient(l, g.x.w);

        first = image * g.x.h * g.x.w + (l - image * g.x.w);
        step = g.x.w;
    }
    s.x = first * g.x.ld + s.c;
    s.y = first * g.y.ld + s.c;
    s.dx = step * g.x.ld;
    s.dy = step * g.y.ld;
    return s;
}

/* What follows the loads, far. */
template <class N, int L>
__device__ __forceinline__ void transform_line(N (&v)[1 << L], const zn_args_fwht_line &g, const line<N> &s, int from)
{
    bool longest = L == 5 && sizeof(N) == 4 && g.log_span > 2 * L;
    int low = longest ? 3 : g.log_span - L; /* bits left for near */

    if (g.log_span == L) { /* a thread has the whole span */
        butterflies(v, g.log_n);
        if (g.gate) {
            gate_line(v, g, s, (1 << g.log_n) - 1, near_of<L>(s));
            butterflies(v, g.log_n);
        }
        write_line(v, g.y, s, from, far_of<L>(s));
        return;
    }
    butterflies(v, L);
    if (longest) {
        exchange<L>(v, s, far_of<L>(s), mid_of(s));
        butterflies(v, g.log_span - 8);
        exchange<L>(v, s, mid_of(s), near_of<L>(s));
    } else {
        exchange<L>(v, s, far_of<L>(s), near_of<L>(s));
    }
    butterflies(v, low);
    if (!g.gate) {
        write_line(v, g.y, s, from, near_of<L>(s));
        return;
    }
    gate_line(v, g, s, -1, near_of<L>(s));
    butterflies(v, low);
    if (longest) {
        exchange<L>(v, s, near_of<L>(s), mid_of(s));
        butterflies(v, g.log_span - 8);
        exchange<L>(v, s, mid_of(s), far_of<L>(s));
    } else {
        exchange<L>(v, s, near_of<L>(s), far_of<L>(s));
    }
    butterflies(v, L);
    write_line(v, g.y, s, from, far_of<L>(s));
}

template <class N, int L> __device__ __forceinline__ void fwht_line_of(const zn_args_fwht_line &g)
{
    line<N> s = line_of<N>(g, blockIdx.x, (int)threadIdx.x & ((1 << g.log_cols) - 1));
    int from = ((int)blockIdx.y << g.log_span) - g.shift;
    N v[1 << L];

    read_line(v, g.x, s, from, far_of<L>(s));
    transform_line<N, L>(v, g, s, from);
}

extern "C" __global__ void __launch_bounds__(LINE_THREADS, 2) fwht_line(const zn_args_fwht_line g)
{
    fwht_line_of<float, 5>(g);
}

/* Two channels to a thread, for tensors of one type: the span and the columns of a block are known as well, and
 * with them each address in shared memory. */
template <int T, int LOG_SPAN, int LOG_COLS> __device__ __forceinline__ zn_args_fwht_line sized(zn_args_fwht_line g)
{
    g.log_span = LOG_SPAN;
    g.log_cols = LOG_COLS;
    return typed_ends<T>(g);
}

/* n: elements of a span; per_sm: blocks per multiprocessor; columns as in spectral.c */
#define PAIRS(n, log_n, L, log_cols, per_sm, name, T)                                                                  \
    extern "C" __global__ void __launch_bounds__(PAIR_THREADS, per_sm)                                                 \
        fwht_pairs_##n##_##name(const zn_args_fwht_line g)                                                             \
    {                                                                                                                  \
        fwht_line_of<two, L>(sized<T, log_n, log_cols>(g));                                                            \
    }
#define ALL_PAIRS(name, T)                                                                                             \
    PAIRS(16, 4, 4, 8, 3, name, T)                                                                                     \
    PAIRS(32, 5, 5, 8, 2, name, T)                                                                                     \
    PAIRS(64, 6, 4, 4, 3, name, T)                                                                                     \
    PAIRS(128, 7, 4, 4, 3, name, T)                                                                                    \
    PAIRS(256, 8, 4, 4, 3, name, T)                                                                                    \
    PAIRS(512, 9, 5, 4, 2, name, T)                                                                                    \
    PAIRS(1024, 10, 5, 3, 2, name, T)
ALL_PAIRS(f32, ZN_F32)
ALL_PAIRS(f16, ZN_F16)
ALL_PAIRS(bf16, ZN_BF16)

/* The same for long windows of 16-bit elements, where the block's columns are neighbours in each pixel: a persistent grid
 * computes one group of columns after another, and copies the next group to shared memory at the same time. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

template <class T, int LOG_SPAN, int LOG_COLS> __device__ __forceinline__ void fwht_ahead(const zn_args_fwht_line &g)
{
    enum { L = 5, SPAN = 1 << LOG_SPAN, COLS = 1 << LOG_COLS, PIECES = COLS / 4 /* 16 bytes of a row */ };
    enum { ALL = COLS << (LOG_SPAN - L) }; /* threads: each has 32 elements */
    unsigned *ahead = (unsigned *)(shared_row + 2 * COLS * (SPAN + (SPAN >> L)));
    const int col = (int)threadIdx.x % COLS, len = g.axis == ZN_ALONG_W ? g.x.w : g.x.h;
    const unsigned spans = (unsigned)(len + g.shift + SPAN - 1) >> LOG_SPAN;
    const size_t tiles = (g.n_cols >> LOG_COLS) * spans;

    auto fetch = [&](size_t tile) {
        const size_t block = quotient(tile, spans);
        const int from = ((int)(tile - block * spans) << LOG_SPAN) - g.shift;
        const line<two> s = line_of<two>(g, block, 0);
        const T *x = (const T *)(const void *)g.x.data;

#pragma unroll
        for (int i = (int)threadIdx.x; i < SPAN * PIECES; i += ALL) {
            const int row = from + i / PIECES;
            const bool in = (unsigned)row < (unsigned)len;

            copy_async16_of_128(ahead + i * 4, in ? x + s.x + (size_t)row * s.dx + i % PIECES * 8 : x, in);
        }
        copy_async_commit();
    };

    fetch(blockIdx.x);
#pragma unroll 1
    for (size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const size_t block = quotient(tile, spans);
        const line<two> s = line_of<two>(g, block, col);
        two v[1 << L];

        copy_async_wait<0>();
        __syncthreads(); /* all threads have loaded their part, and have read what they exchanged last */
#pragma unroll
        for (int i = 0; i < 1 << L; i++)
            v[i] = memory<two, T>::wide(ahead[(s.t + i * (SPAN >> L)) * COLS + col]);
        __syncthreads();
        if (tile + gridDim.x < tiles)
            fetch(tile + gridDim.x);
        transform_line<two, L>(v, g, s, ((int)(tile - block * spans) << LOG_SPAN) - g.shift);
    }
}

#else

template <class T, int LOG_SPAN, int LOG_COLS> __device__ __forceinline__ void fwht_ahead(const zn_args_fwht_line &) {}

#endif

/* 16 columns, 64 bytes of a row: with 32 bytes it took 1.3 times as long. */
#define AHEAD(n, log_n, per_sm, name, T, type)                                                                         \
    extern "C" __global__ void __launch_bounds__(n / 2, per_sm) fwht_ahead_##n##_##name(const zn_args_fwht_line g)     \
    {                                                                                                                  \
        fwht_ahead<T, log_n, 4>(sized<type, log_n, 4>(g));                                                             \
    }
AHEAD(512, 9, 2, f16, f16, ZN_F16)
AHEAD(1024, 10, 1, f16, f16, ZN_F16)
AHEAD(512, 9, 2, bf16, bf16, ZN_BF16)
AHEAD(1024, 10, 1, bf16, bf16, ZN_BF16)
