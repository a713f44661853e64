/* SPDX-License-Identifier: MIT */
/* conv.cu - convolutions without tensor cores: float32 products of any type of tensor.
 *
 * conv_simt_*       dense (groups 1): an implicit matrix product, 128 pixels x 64 outputs a block
 * conv_depthwise_*  groups == cin == cout
 * conv_grouped_*    any groups, plainly */
#include "common.cuh"

namespace {

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
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w, first = (size_t)blockIdx.x * BM;
    const int o0 = blockIdx.y * BN;
    const T *x = (const T *)a.x.data;
    const float *w = (const float *)a.weight;
    /* what this thread fetches: 4 channels of a pixel, 2 numbers of a weight row */
    const size_t my = first + t / 2;
    const bool mine = my < pixels;
    const place at = place_of(a, mine ? my : 0);
    const int xk = t % 2 * 4, wo = t / 4, wk = t % 4 * 2;
    /* what it computes: 8 pixels x 4 outputs */
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

#define CONV(T, name)                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_simt_##name(const zn_cuda_conv a)             \
    {                                                                                                        \
        conv_simt<T>(a);                                                                                     \
    }                                                                                                        \
    extern "C" __global__ void conv_depthwise_##name(const zn_cuda_conv a) { conv_depthwise<T>(a); }         \
    extern "C" __global__ void conv_grouped_##name(const zn_cuda_conv a) { conv_grouped<T>(a); }

CONV(float, f32)
CONV(f16, f16)
CONV(bf16, bf16)
