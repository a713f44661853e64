/* SPDX-License-Identifier: MIT */
/* norm.cu - layer, RMS and group norm.
 *
 * Layer and RMS norm: some threads of a warp share a pixel and keep it in registers, up to 1024 channels.  As many
 * blocks are started as the GPU holds, and each fetches its next pixels while it computes.  Longer rows, unaligned ones
 * and adaptive norms are read again for each pass.
 * Group norm, where group_norm.cu does not apply: each block sums a chunk of the pixels, channel by channel, as
 * differences from the chunk's first pixel, so that nothing cancels; one block per group merges the chunks in double
 * precision; a last pass applies the result.  Chunks depend on the shape alone, and so does every rounding. */
#include "typed.cuh"

enum { THREADS = 256 };

/* ---- rows -------------------------------------------------------------------------------------------------- */

/* The pixels of a team of threads, P at a time, as K vectors of 8 in each thread; zeros outside the tensor. */
template <int K, int P> struct rows {
    raw<8> r[P][K]; /* not yet converted to float */
    float v[P][K][8];
    size_t first; /* pixel */
    int lane;

    /* Teams are numbered through the grid. */
    __device__ __forceinline__ rows(const zn_args_rows &g)
    {
        lane = (int)threadIdx.x & (g.lanes - 1);
        first = ((size_t)blockIdx.x * THREADS + threadIdx.x) / (unsigned)g.lanes * P;
    }

    __device__ __forceinline__ int channel(const zn_args_rows &g, int k) const { return (lane + k * g.lanes) * 8; }

    __device__ __forceinline__ bool holds(const zn_args_rows &g, int p, int k) const
    {
        return first + p < g.pixels && channel(g, k) < g.x.c;
    }

    __device__ __forceinline__ void fetch_all(raw<8> (&to)[P][K], const zn_args_rows &g, const zn_tensor &x) const
    {
#pragma unroll
        for (int p = 0; p < P; p++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                to[p][k].lo = to[p][k].hi = make_uint4(0, 0, 0, 0);
                if (holds(g, p, k))
                    fetch(to[p][k], x, (first + p) * x.ld + channel(g, k));
            }
    }

    __device__ __forceinline__ void widen_all(const zn_args_rows &g)
    {
#pragma unroll
        for (int p = 0; p < P; p++)
#pragma unroll
            for (int k = 0; k < K; k++)
                widen(v[p][k], r[p][k], g.x.type);
    }
};

/* gamma and beta of V channels from c on */
template <int V> struct affine {
    float scale[V], shift[V];

    __device__ __forceinline__ affine(const zn_args_rows &g, int c)
    {
#pragma unroll
        for (int i = 0; i < V; i++)
            scale[i] = 1, shift[i] = 0;
        if constexpr (V == 8) {
            if (g.gamma)
                read8(scale, g.gamma + c);
            if (g.beta)
                read8(shift, g.beta + c);
        } else {
            if (g.gamma)
                scale[0] = g.gamma[c];
            if (g.beta)
                shift[0] = g.beta[c];
        }
    }

    __device__ __forceinline__ void apply(float (&v)[V], float mean, float inv) const
    {
#pragma unroll
        for (int i = 0; i < V; i++)
            v[i] = (v[i] - mean) * inv * scale[i] + shift[i];
    }
};

/* v = (v * (1 + scale) + shift) * gate, for V channels from c on of an image */
template <int V> __device__ __forceinline__ void modulate(float (&v)[V], const zn_modulation &m, size_t image, int c)
{
    float s[V], b[V], gate[V];
    raw<V> r;

#pragma unroll
    for (int i = 0; i < V; i++)
        s[i] = b[i] = 0, gate[i] = 1;
    if (m.scale.data) {
        fetch(r, m.scale, image * m.scale.ld + c);
        widen(s, r, m.scale.type);
    }
    if (m.shift.data) {
        fetch(r, m.shift, image * m.shift.ld + c);
        widen(b, r, m.shift.type);
    }
    if (m.gate.data) {
        fetch(r, m.gate, image * m.gate.ld + c);
        widen(gate, r, m.gate.type);
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        v[i] = (v[i] * (1 + s[i]) + b[i]) * gate[i];
}

/* mean[p] and inv[p] = 1 / deviation of x's pixels */
template <int K, int P>
__device__ __forceinline__ void moments(float (&mean)[P], float (&inv)[P], const rows<K, P> &x, const zn_args_rows &g)
{
    float of_c = 1.f / g.x.c;

#pragma unroll
    for (int p = 0; p < P; p++) {
        mean[p] = inv[p] = 0;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                mean[p] += x.v[p][k][i];
    }
    if (!g.rms)
        sum_lanes_all(mean, g.lanes);
#pragma unroll
    for (int p = 0; p < P; p++) {
        mean[p] = g.rms ? 0 : mean[p] * of_c;
#pragma unroll
        for (int k = 0; k < K; k++)
            if (x.channel(g, k) < g.x.c)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float d = x.v[p][k][i] - mean[p];

                    inv[p] += d * d;
                }
    }
    sum_lanes_all(inv, g.lanes);
#pragma unroll
    for (int p = 0; p < P; p++)
        inv[p] = rsqrtf(inv[p] * of_c + g.eps);
}

/* plain: the tail is at most a SiLU. */
template <int T, int K, int P, bool plain> __device__ __forceinline__ void norm_rows(const zn_args_rows &g)
{
    rows<K, P> x(g);
    size_t step = (size_t)gridDim.x * (THREADS / (unsigned)g.lanes) * P;
    size_t warp_first =
        x.first - (threadIdx.x & 31) / (unsigned)g.lanes * P; /* the teams of a warp take the same number of steps */
    raw<8> res[P][K];
    float mean[P], inv[P];

    x.fetch_all(x.r, g, g.x);
#pragma unroll 1
    for (; warp_first < g.pixels; warp_first += step, x.first += step) {
        x.widen_all(g);
        x.first += step;
        x.fetch_all(x.r, g, g.x); /* the next pixels, which only this team writes */
        x.first -= step;
        if (!plain && g.tail.residual.data)
            x.fetch_all(res, g, g.tail.residual);
        moments(mean, inv, x, g);
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (x.channel(g, k) >= g.x.c)
                continue;
            affine<8> w(g, x.channel(g, k));

#pragma unroll
            for (int p = 0; p < P; p++)
                if (x.first + p < g.pixels) {
                    w.apply(x.v[p][k], mean[p], inv[p]);
                    if constexpr (plain) {
                        if (g.tail.pre == ZN_SILU)
                            activate_short(ZN_SILU, x.v[p][k]);
                        put(g.y, (x.first + p) * g.y.ld + x.channel(g, k), x.v[p][k]);
                    } else {
                        put_tail_of<T>(g.y, (x.first + p) * g.y.ld + x.channel(g, k), g.tail, x.v[p][k], res[p][k]);
                    }
                }
        }
    }
}

/* The same with the row read three times, and with run-time scale, shift and gate. */
template <int V> __device__ __forceinline__ void norm_long_rows(const zn_args_rows &g)
{
    int lane = (int)threadIdx.x & (g.lanes - 1), step = g.lanes * V;
    size_t p = ((size_t)blockIdx.x * THREADS + threadIdx.x) / (unsigned)g.lanes;
    int end = p < g.pixels ? g.x.c : 0; /* a thread without a pixel still takes part in the sums */
    const zn_tensor &res = g.tail.residual;
    float mean = 0, var = 0, inv, v[V];
    raw<V> r, q;

    for (int c = lane * V; c < end && !g.rms; c += step) {
        fetch(r, g.x, p * g.x.ld + c);
        widen(v, r, g.x.type);
#pragma unroll
        for (int i = 0; i < V; i++)
            mean += v[i];
    }
    mean = g.rms ? 0 : sum_lanes(mean, g.lanes) / g.x.c;
    for (int c = lane * V; c < end; c += step) {
        fetch(r, g.x, p * g.x.ld + c);
        widen(v, r, g.x.type);
#pragma unroll
        for (int i = 0; i < V; i++)
            var += (v[i] - mean) * (v[i] - mean);
    }
    inv = rsqrtf(sum_lanes(var, g.lanes) / g.x.c + g.eps);
    for (int c = lane * V; c < end; c += step) {
        fetch(r, g.x, p * g.x.ld + c);
        if (res.data)
            fetch(q, res, p * res.ld + c);
        widen(v, r, g.x.type);
        affine<V>(g, c).apply(v, mean, inv);
        modulate(v, g.m, quotient(p, g.image), c);
        put_tail(g.y, p * g.y.ld + c, g.tail, v, q);
    }
}

/* per_sm: resident blocks per multiprocessor, as in norm.c */
#define NORM(K, P, per_sm, name, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, per_sm) norm_rows_##K##_##name(const zn_args_rows g)         \
    {                                                                                                                  \
        norm_rows<T, K, P, false>(typed<T>(g));                                                                        \
    }
#define NORMS(per_sm, name, T) NORM(1, 2, per_sm, name, T) NORM(2, 1, per_sm, name, T) NORM(4, 1, 2, name, T)
NORMS(3, f16, ZN_F16)
NORMS(3, bf16, ZN_BF16)
NORMS(2, f32, ZN_F32)
NORMS(2, any, ANY_TYPE)

/* Without a residual there are registers for more pixels in flight. */
#define PLAIN(name, T)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS, 3) norm_plain_##name(const zn_args_rows g)                   \
    {                                                                                                                  \
        norm_rows<T, 1, 3, true>(typed<T>(g));                                                                         \
    }
PLAIN(f16, ZN_F16)
PLAIN(bf16, ZN_BF16)

/* A block has one row of up to 4096 channels, a thread 8 of them; all tensors have type T, and the tail is a residual. */
template <class T> __device__ __forceinline__ uint4 get8(const zn_tensor &t, size_t at)
{
    return *(const uint4 *)((const T *)t.data + at);
}

template <class T> __device__ __forceinline__ void widen8(float (&v)[8], const uint4 &q)
{
    const unsigned word[4] = { q.x, q.y, q.z, q.w };

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 f = unpack2<T>(word[i]);

        v[2 * i] = f.x, v[2 * i + 1] = f.y;
    }
}

template <class T> __device__ __forceinline__ void put8(const zn_tensor &t, size_t at, const float (&v)[8])
{
    *(uint4 *)((T *)t.data + at) = make_uint4(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]),
                                              pack_pair<T>(v[4], v[5]), pack_pair<T>(v[6], v[7]));
}

/* The sum over a block, for all its threads; `once` has room for a number of each warp. */
__device__ __forceinline__ float sum_block(float x, float *once)
{
    float sum = 0;

    x = sum_lanes(x, 32);
    if (threadIdx.x % 32 == 0)
        once[threadIdx.x / 32] = x;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        sum += once[i];
    return sum;
}

/* v: 8 channels from c on of pixel p. */
template <class T>
__device__ __forceinline__ void wide_row(float (&v)[8], const zn_args_rows &g, size_t p, size_t image, int c, bool in)
{
    __shared__ float sums[2][16];
    const zn_tensor &scale = g.m.scale, &shift = g.m.shift, &gate = g.m.gate, &rest = g.tail.residual;
    float u[8], mean = 0, var = 0, inv;
    uint4 by, plus, times, more;

    const uint4 x = get8<T>(g.x, p * g.x.ld + c); /* all loads are in flight at once */
    if (scale.data)
        by = get8<T>(scale, image * scale.ld + c);
    if (shift.data)
        plus = get8<T>(shift, image * shift.ld + c);
    if (gate.data)
        times = get8<T>(gate, image * gate.ld + c);
    if (rest.data)
        more = get8<T>(rest, p * rest.ld + c);
    widen8<T>(v, x);
    if (!g.rms) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            mean += in ? v[i] : 0.f;
        mean = sum_block(mean, sums[0]) / g.x.c;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        var += in ? (v[i] - mean) * (v[i] - mean) : 0.f;
    inv = rsqrtf(sum_block(var, sums[1]) / g.x.c + g.eps);
    affine<8>(g, c).apply(v, mean, inv);
    if (scale.data) {
        widen8<T>(u, by);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] *= 1 + u[i];
    }
    if (shift.data) {
        widen8<T>(u, plus);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] += u[i];
    }
    if (gate.data) {
        widen8<T>(u, times);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] *= u[i];
    }
    if (rest.data) {
        widen8<T>(u, more);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] += u[i];
    }
}

template <class T> __device__ __forceinline__ void norm_wide(const zn_args_rows &g)
{
    const size_t p = blockIdx.x;
    const bool in = (int)threadIdx.x * 8 < g.x.c;
    const int c = in ? (int)threadIdx.x * 8 : 0;
    float v[8];

    wide_row<T>(v, g, p, quotient(p, g.image), c, in);
    if (in)
        put8<T>(g.y, p * g.y.ld + c, v);
}

/* Then the RMS norm of what was stored, with the bits of a second call. */
template <class T> __device__ __forceinline__ void norm_twice(const zn_args_twice &g)
{
    __shared__ float sums[16];
    const size_t p = blockIdx.x, image = quotient(p, g.first.image);
    const bool in = (int)threadIdx.x * 8 < g.y.c;
    const int c = in ? (int)threadIdx.x * 8 : 0;
    float v[8], u[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, var = 0, inv;
    uint4 by, q;

    if (g.scale.data)
        by = get8<T>(g.scale, image * g.scale.ld + c);
    wide_row<T>(v, g.first, p, image, c, in);
    q = make_uint4(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]), pack_pair<T>(v[4], v[5]),
                   pack_pair<T>(v[6], v[7]));
    if (in)
        *(uint4 *)((T *)g.first.y.data + p * g.first.y.ld + c) = q;
    widen8<T>(v, q);
#pragma unroll
    for (int i = 0; i < 8; i++)
        var += in ? v[i] * v[i] : 0.f;
    inv = rsqrtf(sum_block(var, sums) / g.y.c + g.eps);
    if (g.gamma)
        read8(u, g.gamma + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = v[i] * inv * u[i];
    if (g.scale.data) {
        widen8<T>(u, by);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] *= 1 + u[i];
    }
    if (in)
        put8<T>(g.y, p * g.y.ld + c, v);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { WIDE_BLOCKS = 2 }; /* of 512 threads per multiprocessor */
#else
enum { WIDE_BLOCKS = 3 };
#endif
extern "C" __global__ void __launch_bounds__(512, WIDE_BLOCKS) norm_wide_f16(const zn_args_rows g)
{
    norm_wide<f16>(g);
}
extern "C" __global__ void __launch_bounds__(512, WIDE_BLOCKS) norm_wide_bf16(const zn_args_rows g)
{
    norm_wide<bf16>(g);
}

extern "C" __global__ void __launch_bounds__(512, 2) norm_twice_f16(const zn_args_twice g) { norm_twice<f16>(g); }
extern "C" __global__ void __launch_bounds__(512, 2) norm_twice_bf16(const zn_args_twice g) { norm_twice<bf16>(g); }

/* The RMS norm of each head of dim channels, then its rotation.  A block has a pixel, dim / 8 threads a head. */
template <class T> __device__ __forceinline__ void norm_rope(const zn_args_norm_rope &g)
{
    const int lanes = g.dim / 8, lane = (int)threadIdx.x % lanes, c = lane * 8, half = g.dim / 2;
    const size_t p = blockIdx.x, position = p - quotient(p, g.image) * g.image;
    const int pair = g.interleaved ? c / 2 : c % half; /* the first that this thread has */
    const float *cos = g.cos + position * g.cos_ld + pair, *sin = g.sin + position * g.sin_ld + pair;
    float u[8], w[8], gamma[8];

    if (g.interleaved) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            u[i] = cos[i], w[i] = sin[i];
    } else {
        read8(u, cos);
        read8(w, sin);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        gamma[i] = g.gamma ? g.gamma[c + i] : 1.f;
#pragma unroll 2
    for (int first = 0; first < g.heads; first += THREADS / lanes) {
        const int head = first + (int)threadIdx.x / lanes;
        const size_t at = (size_t)head * g.dim + c;
        float v[8] = { 0 }, y[8], sum = 0, inv;

        if (head < g.heads)
            widen8<T>(v, get8<T>(g.x, p * g.x.ld + at));
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum += v[i] * v[i];
        inv = rsqrtf(sum_lanes(sum, lanes) / g.dim + g.eps);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] *= inv * gamma[i];
        if (g.interleaved) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                y[2 * i] = v[2 * i] * u[i] - v[2 * i + 1] * w[i];
                y[2 * i + 1] = v[2 * i] * w[i] + v[2 * i + 1] * u[i];
            }
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float other = __shfl_xor_sync(~0u, v[i], lanes / 2);

                y[i] = v[i] * u[i] + (c < half ? -other : other) * w[i];
            }
        }
        if (head < g.heads)
            put8<T>(g.y, p * g.y.ld + at, y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) norm_rope_f16(const zn_args_norm_rope g) { norm_rope<f16>(g); }
extern "C" __global__ void __launch_bounds__(THREADS) norm_rope_bf16(const zn_args_norm_rope g) { norm_rope<bf16>(g); }

/* For any types. */
#define ROWS(name, body)                                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) name(const zn_args_rows g) { body; }
ROWS(norm_long_rows_v8, norm_long_rows<8>(g))
ROWS(norm_long_rows_v1, norm_long_rows<1>(g))

/* ---- group norm -------------------------------------------------------------------------------------------- */

/* The place of a thread in its block: `cols` vectors side by side, THREADS / cols rows of pixels. */
struct place {
    int row, n_rows, c;
    bool in;
};

template <int V> __device__ __forceinline__ place place_of(const zn_args_group &g)
{
    place at;
    int col = (int)threadIdx.x % g.cols;

    at.row = (int)threadIdx.x / g.cols;
    at.n_rows = THREADS / g.cols;
    at.c = ((int)blockIdx.z * g.cols + col) * V;
    at.in = at.row < at.n_rows && at.c < g.x.c;
    return at;
}

/* Of the chunk blockIdx.x of an image, for each channel: the mean, and the sum of squared differences from it. */
template <int V> __device__ __forceinline__ void group_sums(const zn_args_group &g)
{
    enum { AHEAD = 4 };
    __shared__ float sums[2][V][THREADS];
    place at = place_of<V>(g);
    size_t image = (size_t)(g.first + (int)blockIdx.y) * g.pixels;
    size_t first = blockIdx.x * g.chunk, end = min(first + g.chunk, g.pixels);
    float zero[V], s[V], q[V];
    raw<V> r[AHEAD];

#pragma unroll
    for (int i = 0; i < V; i++)
        s[i] = q[i] = 0;
    if (at.in) {
        fetch(r[0], g.x, (image + first) * g.x.ld + at.c);
        widen(zero, r[0], g.x.type);
        for (size_t p = first + at.row; p < end; p += (size_t)AHEAD * at.n_rows) {
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (p + k * at.n_rows < end)
                    fetch(r[k], g.x, (image + p + k * at.n_rows) * g.x.ld + at.c);
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (p + k * at.n_rows < end) {
                    float v[V];

                    widen(v, r[k], g.x.type);
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        float d = v[i] - zero[i];

                        s[i] += d;
                        q[i] += d * d;
                    }
                }
        }
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        sums[0][i][threadIdx.x] = s[i];
        sums[1][i][threadIdx.x] = q[i];
    }
    for (int n = at.n_rows; n > 1;) { /* row r adds row r + half */
        int half = (n + 1) / 2;

        __syncthreads();
        if (at.in && at.row + half < n)
#pragma unroll
            for (int i = 0; i < V; i++) {
                sums[0][i][threadIdx.x] += sums[0][i][threadIdx.x + half * g.cols];
                sums[1][i][threadIdx.x] += sums[1][i][threadIdx.x + half * g.cols];
            }
        n = half;
    }
    /* a thread of row 0 reads what it wrote itself */
    if (at.in && !at.row) {
        float *mean = g.partial + ((size_t)blockIdx.y * g.n_chunks + blockIdx.x) * 2 * g.x.c + at.c;
        float count = (float)(end - first);

#pragma unroll
        for (int i = 0; i < V; i++) {
            float d = sums[0][i][threadIdx.x] / count;

            mean[i] = zero[i] + d;
            mean[g.x.c + i] = fmaxf(sums[1][i][threadIdx.x] - sums[0][i][threadIdx.x] * d, 0);
        }
    }
}

enum { FINISH_THREADS = 1024 };

/* The sum over a block, in all threads. */
__device__ __forceinline__ double sum_block(double x, double *sums)
{
    sums[threadIdx.x] = x;
    for (int half = FINISH_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    x = sums[0];
    __syncthreads();
    return x;
}

/* Group blockIdx.x of an image: from the chunks' means and squares to each channel's scale and shift. */
extern "C" __global__ void __launch_bounds__(FINISH_THREADS) group_finish(const zn_args_group g)
{
    __shared__ double sums[FINISH_THREADS];
    int size = g.x.c / g.groups, c0 = (int)blockIdx.x * size;
    const float *partial = g.partial + (size_t)blockIdx.y * g.n_chunks * 2 * g.x.c + c0;
    double n = (double)g.pixels * size, mean = 0, var = 0;
    float m, inv;

#pragma unroll 4
    for (unsigned i = threadIdx.x; i < (unsigned)g.n_chunks * size; i += FINISH_THREADS) {
        unsigned k = i / size, c = i - k * size;
        size_t count = min(g.chunk, g.pixels - k * g.chunk);

        mean += (double)count * partial[(size_t)k * 2 * g.x.c + c];
    }
    mean = sum_block(mean, sums) / n;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < (unsigned)g.n_chunks * size; i += FINISH_THREADS) {
        unsigned k = i / size, c = i - k * size;
        size_t count = min(g.chunk, g.pixels - k * g.chunk);
        double d = partial[(size_t)k * 2 * g.x.c + c] - mean;

        var += partial[((size_t)k * 2 + 1) * g.x.c + c] + (double)count * d * d;
    }
    var = sum_block(var, sums) / n;
    m = (float)mean;
    inv = (float)(1 / sqrt(var + g.eps));
    for (int c = c0 + (int)threadIdx.x; c < c0 + size; c += FINISH_THREADS) {
        const size_t image = (size_t)g.first + blockIdx.y;
        float scale = inv * (g.gamma ? g.gamma[c] : 1), shift = (g.beta ? g.beta[c] : 0) - m * scale;
        float more = g.m.scale.data ? 1 + load_any(g.m.scale, image * g.m.scale.ld + c) : 1;
        float gate = g.m.gate.data ? load_any(g.m.gate, image * g.m.gate.ld + c) : 1;
        float plus = g.m.shift.data ? load_any(g.m.shift, image * g.m.shift.ld + c) : 0;

        g.scale[(size_t)blockIdx.y * g.x.c + c] = scale * more * gate;
        g.shift[(size_t)blockIdx.y * g.x.c + c] = (shift * more + plus) * gate;
    }
}

/* y = tail(x * scale + shift): a thread has the same channels of some pixels of the chunk. */
template <int T, int V> __device__ __forceinline__ void group_apply(const zn_args_group &g)
{
    enum { AHEAD = 2 };
    place at = place_of<V>(g);
    size_t image = (size_t)(g.first + (int)blockIdx.y) * g.pixels;
    /* last chunks first: they are still in L2 from the sums */
    size_t first = (gridDim.x - 1 - blockIdx.x) * g.chunk, end = min(first + g.chunk, g.pixels);
    const zn_tensor &res = g.tail.residual;
    float scale[V], shift[V];
    raw<V> r[AHEAD], q[AHEAD];

    if (!at.in)
        return;
#pragma unroll
    for (int i = 0; i < V; i++) {
        scale[i] = g.scale[(size_t)blockIdx.y * g.x.c + at.c + i];
        shift[i] = g.shift[(size_t)blockIdx.y * g.x.c + at.c + i];
    }
    for (size_t p = first + at.row; p < end; p += (size_t)AHEAD * at.n_rows) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (p + k * at.n_rows < end) {
                fetch(r[k], g.x, (image + p + k * at.n_rows) * g.x.ld + at.c);
                if (res.data)
                    fetch(q[k], res, (image + p + k * at.n_rows) * res.ld + at.c);
            }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (p + k * at.n_rows < end) {
                float v[V];

                widen(v, r[k], g.x.type);
#pragma unroll
                for (int i = 0; i < V; i++)
                    v[i] = v[i] * scale[i] + shift[i];
                put_tail_of<T>(g.y, (image + p + k * at.n_rows) * g.y.ld + at.c, g.tail, v, q[k]);
            }
    }
}

#define GROUP(name, T, V, per_sm)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 3) group_sums_##name(const zn_args_group g)                  \
    {                                                                                                                  \
        group_sums<V>(typed<T>(g));                                                                                    \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, per_sm) group_apply_##name(const zn_args_group g)            \
    {                                                                                                                  \
        group_apply<T, V>(typed<T>(g));                                                                                \
    }
GROUP(v1, ANY_TYPE, 1, 4)
GROUP(v8_any, ANY_TYPE, 8, 3)
GROUP(v8_f16, ZN_F16, 8, 3)
GROUP(v8_bf16, ZN_BF16, 8, 3)
GROUP(v8_f32, ZN_F32, 8, 2)
