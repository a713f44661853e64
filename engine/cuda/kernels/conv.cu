/* SPDX-License-Identifier: MIT */
/* conv.cu - convolutions without tensor cores: float32 products of tensors of any type.
 *
 * conv_simt_*       dense (groups 1): an implicit matrix product, 128 pixels x 64 outputs a block
 * conv_depthwise3_* groups == cin == cout: 3x3, stride 1, in vectors of 4 channels
 * conv_depthwise8_* any other, in vectors of 8 channels
 * conv_depthwise_*  at any address, any number of channels, from one type to another
 * conv_grouped_*    any groups; one output a thread */
#include "typed.cuh"

namespace
{

enum { BM = 128, BN = 64, BK = 8, THREADS = 256, TM = 8, TN = 4 };

struct place { /* of an output pixel in the input, before a tap is added */
    int n, y, x;
};

__device__ __forceinline__ place place_of(const zn_cuda_conv &a, size_t p)
{
    int j = (int)(p % a.y.w);
    size_t r = p / a.y.w;

    return { (int)(r / a.y.h), (int)(r % a.y.h) * a.stride - a.pad_t, j * a.stride - a.pad_l };
}

/* The pixel of x that tap (u, v) reads; -1: in the padding. */
__device__ __forceinline__ long long pixel_of(const zn_cuda_conv &a, place p, int u, int v)
{
    int y = p.y + u, x = p.x + v;

    if (a.up2) {
        if (y < 0 || x < 0 || y >= 2 * a.x.h || x >= 2 * a.x.w)
            return -1;
        y >>= 1;
        x >>= 1;
    } else if (y < 0 || x < 0 || y >= a.x.h || x >= a.x.w) {
        return -1;
    }
    return ((long long)p.n * a.x.h + y) * a.x.w + x;
}

template <class T> __device__ void conv_simt(const zn_cuda_conv &a)
{
    __shared__ __align__(16) float xs[2][BK][BM + 4], ws[2][BK][BN + 4];
    const int t = threadIdx.x;
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w, first = ((size_t)a.from_tile + blockIdx.x) * BM;
    const int o0 = blockIdx.y * BN;
    const T *x = (const T *)a.x.data;
    const float *w = (const float *)a.weight;
    /* this thread loads 4 channels of a pixel and 2 elements of a weight row */
    const size_t my = first + t / 2;
    const bool mine = my < pixels;
    const place at = place_of(a, mine ? my : 0);
    const int xk = t % 2 * 4, wo = t / 4, wk = t % 4 * 2;
    /* and computes 8 pixels x 4 outputs */
    const int tm = t / 16 * TM, tn = t % 16 * TN;
    float acc[TM][TN] = {}, fx[4], fw[2];
    int u = 0, v = 0, c = 0, k = 0;
    const int steps = a.kh * a.kw * a.cin_pad / BK;

    auto fetch = [&] {
        long long q = mine ? pixel_of(a, at, u, v) : -1;

#pragma unroll
        for (int i = 0; i < 4; i++) {
            int cc = c + xk + i;

            fx[i] = q >= 0 && cc < a.cin ? to_float(x[q * a.x.ld + cc]) : 0.f;
        }
        const float *row = w + (size_t)(o0 + wo) * a.k_pad + k + wk;
        fw[0] = row[0];
        fw[1] = row[1];
        k += BK;
        c += BK;
        if (c >= a.cin_pad) {
            c = 0;
            if (++v == a.kw) {
                v = 0;
                u++;
            }
        }
    };
    auto put = [&](int b) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            xs[b][xk + i][t / 2] = fx[i];
        ws[b][wk][wo] = fw[0];
        ws[b][wk + 1][wo] = fw[1];
    };

    fetch();
    put(0);
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        const int b = s & 1;

        if (s + 1 < steps)
            fetch();
#pragma unroll
        for (int i = 0; i < BK; i++) {
            float xa[TM], wa[TN];

            *(float4 *)&xa[0] = *(const float4 *)&xs[b][i][tm];
            *(float4 *)&xa[4] = *(const float4 *)&xs[b][i][tm + 4];
            *(float4 *)&wa[0] = *(const float4 *)&ws[b][i][tn];
#pragma unroll
            for (int m = 0; m < TM; m++)
#pragma unroll
                for (int n = 0; n < TN; n++)
                    acc[m][n] = fmaf(xa[m], wa[n], acc[m][n]);
        }
        if (s + 1 < steps)
            put(b ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < TM; m++) {
        size_t p = first + tm + m;

        if (p >= pixels)
            break;
#pragma unroll
        for (int n = 0; n < TN; n++) {
            int o = o0 + tn + n;

            if (o < a.cout)
                store_any(a.y, p * a.y.ld + o, apply_tail(a.tail, acc[m][n] + a.bias[o], p, o));
        }
    }
}

template <class T> __device__ void conv_depthwise(const zn_cuda_conv &a)
{
    const size_t n = (size_t)a.y.n * a.y.h * a.y.w * a.cout;
    const float *w = (const float *)a.weight;
    const T *x = (const T *)a.x.data;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        const int c = (int)(i % a.cout);
        const size_t p = i / a.cout;
        const place at = place_of(a, p);
        float sum = a.bias[c];

        for (int u = 0; u < a.kh; u++)
            for (int v = 0; v < a.kw; v++) {
                long long q = pixel_of(a, at, u, v);

                if (q >= 0)
                    sum = fmaf(to_float(x[q * a.x.ld + c]), w[(size_t)(u * a.kw + v) * a.cout_pad + c], sum);
            }
        store_any(a.y, p * a.y.ld + c, apply_tail(a.tail, sum, p, c));
    }
}

/* ---- depthwise, in vectors -------------------------------------------------------------------------------------- */

/* Four elements as they are stored. */
template <class T> struct quad {
    uint2 bits;

    __device__ __forceinline__ void widen(float (&v)[4]) const
    {
        raw<8> r;
        float all[8];

        r.lo = make_uint4(bits.x, bits.y, 0, 0);
        ::widen(all, r, type_of<T>::value);
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = all[i];
    }
    static __device__ __forceinline__ quad of(const float (&v)[4])
    {
        return { make_uint2(pack2<T>(v[0], v[1]), pack2<T>(v[2], v[3])) };
    }
};
template <> struct quad<float> {
    float4 bits;

    __device__ __forceinline__ void widen(float (&v)[4]) const
    {
        v[0] = bits.x, v[1] = bits.y, v[2] = bits.z, v[3] = bits.w;
    }
    static __device__ __forceinline__ quad of(const float (&v)[4]) { return { make_float4(v[0], v[1], v[2], v[3]) }; }
};

/* The tail of 4 channels from c on of pixel p. */
template <class T> __device__ __forceinline__ void put4(const zn_cuda_conv &a, size_t p, int c, float (&v)[4])
{
    const zn_tensor &res = a.tail.residual;

    if constexpr (sizeof(T) == 4)
        activate_all(a.tail.pre, v);
    else
        activate_short(a.tail.pre, v);
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] *= a.tail.gain;
    if (res.data) {
        float r[4];

        (*(const quad<T> *)((const T *)(const void *)res.data + p * res.ld + c)).widen(r);
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] += r[i];
    }
    if constexpr (sizeof(T) == 4)
        activate_all(a.tail.post, v);
    else
        activate_short(a.tail.post, v);
    *(quad<T> *)((T *)(void *)a.y.data + p * a.y.ld + c) = quad<T>::of(v);
}

/* 3x3, stride 1.  A thread has 4 channels of two neighbouring columns and goes down a strip of rows: each row of x is
 * loaded once and added to three rows of y, the first of which is then complete.  An image has gridDim.y strips. */
template <class T> struct depthwise3 {
    enum { AHEAD = sizeof(T) == 2 ? 2 : 1 /* rows in flight */ };
    const zn_cuda_conv &a;
    const T *x; /* row 0, leftmost column that is read */
    size_t row_step;
    bool in[4];   /* the columns that are in the image */
    int top, end; /* rows of x: of step 0; after the last one that is read */
    int c;        /* channel */
    float w[9][4], bias[4], sum[3][2][4];

    __device__ __forceinline__ void fetch(quad<T> (&q)[AHEAD][4], int step) const
    {
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            int row = top + step + s;
            const T *p = x + (ptrdiff_t)row * (ptrdiff_t)row_step;

#pragma unroll
            for (int k = 0; k < 4; k++) {
                q[s][k] = {};
                if (in[k] && row >= 0 && row < end)
                    q[s][k] = *(const quad<T> *)(p + (size_t)k * a.x.ld);
            }
        }
    }

    /* One more row of x. */
    __device__ __forceinline__ void add(const quad<T> (&q)[4])
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float v[4];

            q[k].widen(v);
#pragma unroll
            for (int u = 0; u < 3; u++)
#pragma unroll
                for (int d = 0; d < 2; d++)
                    if (k - d >= 0 && k - d < 3)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            sum[2 - u][d][i] = fmaf(v[i], w[u * 3 + k - d][i], sum[2 - u][d][i]);
        }
    }

    __device__ __forceinline__ void next_row()
    {
#pragma unroll
        for (int d = 0; d < 2; d++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum[0][d][i] = sum[1][d][i];
                sum[1][d][i] = sum[2][d][i];
                sum[2][d][i] = bias[i];
            }
    }

    __device__ __forceinline__ void load_weights()
    {
        const float *from = (const float *)a.weight + c;
        float4 b = *(const float4 *)(a.bias + c);

#pragma unroll
        for (int t = 0; t < 9; t++) {
            float4 f = *(const float4 *)(from + (size_t)t * a.cout_pad);

            w[t][0] = f.x, w[t][1] = f.y, w[t][2] = f.z, w[t][3] = f.w;
        }
        bias[0] = b.x, bias[1] = b.y, bias[2] = b.z, bias[3] = b.w;
#pragma unroll
        for (int r = 0; r < 3; r++)
            next_row();
    }

    __device__ __forceinline__ depthwise3(const zn_cuda_conv &conv) : a(conv), sum()
    {
        const unsigned quads = (unsigned)a.cout / 4, pairs = ((unsigned)a.y.w + 1) / 2;
        const unsigned at = blockIdx.x * THREADS + threadIdx.x, pair = at / quads;
        const int rows = (a.y.h + (int)gridDim.y - 1) / (int)gridDim.y, first = (int)blockIdx.y * rows;
        const int last = min(first + rows, a.y.h), j = (int)pair * 2;

        if (pair >= pairs || first >= last)
            return;
        c = (int)(at - pair * quads) * 4;
        top = first - a.pad_t;
        end = min(last + 2 - a.pad_t, a.x.h);
        row_step = (size_t)a.x.w * a.x.ld;
#pragma unroll
        for (int k = 0; k < 4; k++)
            in[k] = (unsigned)(j - a.pad_l + k) < (unsigned)a.x.w;
        load_weights();
#pragma unroll 1
        for (unsigned image = blockIdx.z; image < (unsigned)a.y.n; image += gridDim.z) {
            quad<T> q[AHEAD][4];

            x = (const T *)(const void *)a.x.data + image * a.x.h * row_step + (ptrdiff_t)(j - a.pad_l) * a.x.ld + c;
            fetch(q, 0);
#pragma unroll 1
            for (int step = 0; step < last - first + 2; step += AHEAD) {
                quad<T> now[AHEAD][4];

#pragma unroll
                for (int s = 0; s < AHEAD; s++)
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        now[s][k] = q[s][k];
                fetch(q, step + AHEAD);
#pragma unroll
                for (int s = 0; s < AHEAD; s++) {
                    int i = first + step + s - 2; /* the row that is complete now */

                    add(now[s]);
                    if (i >= first && i < last) {
                        size_t p = ((size_t)image * a.y.h + i) * a.y.w + j;

                        put4<T>(a, p, c, sum[0][0]);
                        if (j + 1 < a.y.w)
                            put4<T>(a, p + 1, c, sum[0][1]);
                    }
                    next_row();
                }
            }
#pragma unroll
            for (int r = 0; r < 3; r++)
                next_row();
        }
    }
};

/* Any kernel size and stride, with or without up2: a thread has 8 channels of 4 neighbouring pixels of a row. */
template <class T> __device__ __forceinline__ void conv_depthwise8(const zn_cuda_conv &a)
{
    enum { SIDE = 4 };
    const unsigned vectors = (unsigned)a.cout / 8, groups = ((unsigned)a.y.w + SIDE - 1) / SIDE;
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, group = quotient(at, vectors);
    const size_t row = quotient(group, groups);
    const int c = (int)(at - group * vectors) * 8, j = (int)(group - row * groups) * SIDE;
    const size_t p = row * a.y.w + j;
    const float *w = (const float *)a.weight + c;
    place to;
    float sum[SIDE][8];

    if (row >= (size_t)a.y.n * a.y.h)
        return;
    to = place_of(a, p);
#pragma unroll
    for (int s = 0; s < SIDE; s++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum[s][i] = a.bias[c + i];
    for (int u = 0; u < a.kh; u++)
        for (int v = 0; v < a.kw; v++, w += a.cout_pad) {
            const float4 lo = *(const float4 *)w, hi = *(const float4 *)(w + 4);
            const float tap[8] = { lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w };
            raw<8> r[SIDE];

#pragma unroll
            for (int s = 0; s < SIDE; s++) {
                const place here = { to.n, to.y, to.x + s * a.stride };
                const long long q = pixel_of(a, here, u, v);

                r[s].lo = r[s].hi = make_uint4(0, 0, 0, 0);
                if (q >= 0)
                    fetch(r[s], a.x, (size_t)q * a.x.ld + c);
            }
#pragma unroll
            for (int s = 0; s < SIDE; s++) {
                float x[8];

                widen(x, r[s], type_of<T>::value);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    sum[s][i] = fmaf(x[i], tap[i], sum[s][i]);
            }
        }
#pragma unroll
    for (int s = 0; s < SIDE; s++)
        if (j + s < a.y.w) {
            raw<8> r;

            if (a.tail.residual.data)
                fetch(r, a.tail.residual, (p + s) * a.tail.residual.ld + c);
            put_tail_of<type_of<T>::value>(a.y, (p + s) * a.y.ld + c, a.tail, sum[s], r);
        }
}

template <class T> __device__ void conv_grouped(const zn_cuda_conv &a)
{
    const size_t n = (size_t)a.y.n * a.y.h * a.y.w * a.cout;
    const float *w = (const float *)a.weight;
    const T *x = (const T *)a.x.data;
    const int in = a.cin / a.groups, out = a.cout / a.groups;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        const int o = (int)(i % a.cout), from = o / out * in;
        const size_t p = i / a.cout;
        const place at = place_of(a, p);
        float sum = 0;

        for (int u = 0; u < a.kh; u++)
            for (int v = 0; v < a.kw; v++) {
                long long q = pixel_of(a, at, u, v);
                const float *row = w + (size_t)o * a.k_pad + (size_t)(u * a.kw + v) * a.cin_pad;

                if (q >= 0)
                    for (int c = 0; c < in; c++)
                        sum = fmaf(to_float(x[q * a.x.ld + from + c]), row[c], sum);
            }
        store_any(a.y, p * a.y.ld + o, apply_tail(a.tail, sum + a.bias[o], p, o));
    }
}

} // namespace

#define CONV(T, name)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_simt_##name(const zn_cuda_conv a) { conv_simt<T>(a); }  \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) conv_depthwise3_##name(const zn_cuda_conv a)              \
    {                                                                                                                  \
        depthwise3<T> walk(a);                                                                                         \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) conv_depthwise8_##name(const zn_cuda_conv a)              \
    {                                                                                                                  \
        conv_depthwise8<T>(typed<type_of<T>::value>(a));                                                               \
    }                                                                                                                  \
    extern "C" __global__ void conv_depthwise_##name(const zn_cuda_conv a) { conv_depthwise<T>(a); }                   \
    extern "C" __global__ void conv_grouped_##name(const zn_cuda_conv a) { conv_grouped<T>(a); }

CONV(float, f32)
CONV(f16, f16)
CONV(bf16, bf16)
