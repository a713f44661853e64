/* SPDX-License-Identifier: MIT */
/* conv_mma.cu - dense convolutions as an implicit matrix product on tensor cores (mma.sync; compute capability 8.0
 * and later).
 *
 * A block computes BM pixels x BN outputs.  Step by step, 64 bytes of k (k = tap and channel) of each pixel and of each
 * weight row are copied to shared memory, STAGES - 1 steps ahead.  A row there is 4 pieces of 16 bytes, piece i at
 * place i ^ (row/2 % 4), so that ldmatrix meets no bank twice.  Three kinds of product:
 *     f16, bf16   m16n8k16
 *     tf32        m16n8k8, numbers rounded to 10 bits
 *     f32         each number as the sum of two tf32 numbers, three products: float32's accuracy (to 2^-21)
 * Needs: groups 1, cin a multiple of the numbers in 16 bytes, x aligned likewise. */
#include "common.cuh"

namespace {

enum { STAGES = 4, ROW = 64 /* bytes */, THREADS = 256 };

enum kind { F16, BF16, TF32, F32 };
template <kind K> struct kind_of { typedef float type; };
template <> struct kind_of<F16> { typedef f16 type; };
template <> struct kind_of<BF16> { typedef bf16 type; };

#if __CUDA_ARCH__ >= 800

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* 16 bytes, or zeros */
__device__ __forceinline__ void copy16(unsigned dst, const void *src, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(there ? 16 : 0));
}

__device__ __forceinline__ void load4(unsigned (&r)[4], unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

__device__ __forceinline__ void product_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void product_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void product_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned round_tf32(unsigned x)
{
    unsigned y;

    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
}

/* x = big + small, both tf32 */
__device__ __forceinline__ void split_tf32(unsigned x, unsigned &big, unsigned &small)
{
    big = round_tf32(x);
    small = round_tf32(__float_as_uint(__uint_as_float(x) - __uint_as_float(big)));
}

/* 32 bytes of k: MT x NT tiles of 16x8. */
template <kind K, int MT, int NT>
__device__ __forceinline__ void multiply(float (&acc)[MT][NT][4], unsigned (&a)[MT][4], unsigned (&b)[NT][2])
{
    if (K == F16 || K == BF16) {
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < NT; j++)
                if (K == F16)
                    product_f16(acc[i][j], a[i], b[j][0], b[j][1]);
                else
                    product_bf16(acc[i][j], a[i], b[j][0], b[j][1]);
    } else if (K == TF32) {
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                a[i][q] = round_tf32(a[i][q]);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            unsigned b0 = round_tf32(b[j][0]), b1 = round_tf32(b[j][1]);

#pragma unroll
            for (int i = 0; i < MT; i++)
                product_tf32(acc[i][j], a[i], b0, b1);
        }
    } else {
        unsigned small[MT][4];

#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                split_tf32(a[i][q], a[i][q], small[i][q]);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            unsigned b0, b1, s0, s1;

            split_tf32(b[j][0], b0, s0);
            split_tf32(b[j][1], b1, s1);
#pragma unroll
            for (int i = 0; i < MT; i++) {
                product_tf32(acc[i][j], small[i], b0, b1);
                product_tf32(acc[i][j], a[i], s0, s1);
                product_tf32(acc[i][j], a[i], b0, b1);
            }
        }
    }
}

/* 8 results of a pixel: bias, tail, store. */
template <class T>
__device__ __forceinline__ void finish8(const zn_cuda_conv &a, const float *acc, size_t p, int o, bool quick)
{
    float v[8];

#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = acc[i] + a.bias[o + i]; /* padded to a multiple of 64 */
    if (!quick) {
        for (int i = 0; i < 8 && o + i < a.cout; i++)
            store_any(a.y, p * a.y.ld + o + i, apply_tail(a.tail, v[i], p, o + i));
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = a.tail.gain * activate(a.tail.pre, v[i]);
    if (a.tail.residual.data) {
        const T *r = (const T *)a.tail.residual.data + p * a.tail.residual.ld + o;

        if (sizeof(T) == 4) {
            float4 r0 = ((const float4 *)r)[0], r1 = ((const float4 *)r)[1];

            v[0] += r0.x, v[1] += r0.y, v[2] += r0.z, v[3] += r0.w;
            v[4] += r1.x, v[5] += r1.y, v[6] += r1.z, v[7] += r1.w;
        } else {
            uint4 raw = *(const uint4 *)r;
            const T *e = (const T *)&raw;

#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] += to_float(e[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = activate(a.tail.post, v[i]);
    T *y = (T *)a.y.data + p * a.y.ld + o;
    if (sizeof(T) == 4) {
        ((float4 *)y)[0] = make_float4(v[0], v[1], v[2], v[3]);
        ((float4 *)y)[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else {
        uint4 raw;
        T *e = (T *)&raw;

#pragma unroll
        for (int i = 0; i < 8; i++)
            e[i] = from_float<T>(v[i]);
        *(uint4 *)y = raw;
    }
}

/* Is a tensor of T with pixels that begin at multiples of 16 bytes? */
template <class T> __device__ __forceinline__ bool aligned(const zn_tensor &t)
{
    return t.type == type_of<T>::value && !((size_t)t.data & 15) && t.ld % (16 / sizeof(T)) == 0;
}

template <kind K, int BM, int BN, int WM, int WN> /* WM x WN: the pixels and outputs of a warp */
__device__ void conv_mma(const zn_cuda_conv &a)
{
    typedef typename kind_of<K>::type T;
    const int EACH = 16 / sizeof(T);       /* numbers of a piece */
    const int MT = WM / 16, NT = WN / 8;
    const int STAGE = (BM + BN) * ROW;
    const int XROWS = BM * 4 / THREADS, WROWS = (BN * 4 + THREADS - 1) / THREADS;
    static_assert(BM / WM * (BN / WN) == THREADS / 32, "8 warps");
    static_assert(NT % 2 == 0, "two tiles of B a load");
    extern __shared__ __align__(128) char memory[];
    const unsigned base = shared_address(memory);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
    const size_t pixels = (size_t)a.y.n * a.y.h * a.y.w, first = (size_t)blockIdx.x * BM;
    const int o0 = blockIdx.y * BN;

    /* The rows this thread fetches: row = t/4 + 64 i, always piece t%4. */
    const int piece = t % 4;
    int py[XROWS], px[XROWS];
    size_t pn[XROWS]; /* first pixel of the image */
#pragma unroll
    for (int i = 0; i < XROWS; i++) {
        size_t p = first + t / 4 + 64 * i, r = p / a.y.w;

        py[i] = (int)(r % a.y.h) * a.stride - a.pad_t;
        px[i] = (int)(p % a.y.w) * a.stride - a.pad_l;
        pn[i] = r / a.y.h * ((size_t)a.x.h * a.x.w);
        if (p >= pixels)
            py[i] = -(1 << 28);
    }
    const int xh = a.up2 ? 2 * a.x.h : a.x.h, xw = a.up2 ? 2 * a.x.w : a.x.w, half = a.up2 ? 1 : 0;
    const T *x = (const T *)a.x.data, *w = (const T *)a.weight + (size_t)o0 * a.k_pad;
    const int k_all = a.kh * a.kw * a.cin_pad, steps = (k_all + 4 * EACH - 1) / (4 * EACH);
    int k = piece * EACH, c = k, u = 0, v = 0;
    while (c >= a.cin_pad) {
        c -= a.cin_pad;
        if (++v == a.kw)
            v = 0, u++;
    }

    auto fetch = [&](int stage) {
        const unsigned xs = base + stage * STAGE, ws = xs + BM * ROW;
        const bool inside = k < k_all && c < a.cin;

#pragma unroll
        for (int i = 0; i < XROWS; i++) {
            const int row = t / 4 + 64 * i, yy = py[i] + u, xx = px[i] + v;
            const bool there = inside && yy >= 0 && xx >= 0 && yy < xh && xx < xw;
            const T *src = there ? x + (pn[i] + (size_t)(yy >> half) * a.x.w + (xx >> half)) * a.x.ld + c : x;

            copy16(xs + row * ROW + ((piece ^ (row >> 1 & 3)) << 4), src, there);
        }
#pragma unroll
        for (int i = 0; i < WROWS; i++) {
            const int row = t / 4 + 64 * i;

            if (BN % 64 == 0 || row < BN)
                copy16(ws + row * ROW + ((piece ^ (row >> 1 & 3)) << 4), w + (size_t)row * a.k_pad + k, k < a.k_pad);
        }
        k += 4 * EACH;
        c += 4 * EACH;
        while (c >= a.cin_pad) {
            c -= a.cin_pad;
            if (++v == a.kw)
                v = 0, u++;
        }
    };

    float acc[MT][NT][4] = {};

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            fetch(s);
        asm volatile("cp.async.commit_group;\n");
    }
    for (int s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2));
        __syncthreads();
        if (s + STAGES - 1 < steps)
            fetch((s + STAGES - 1) % STAGES);
        asm volatile("cp.async.commit_group;\n");

        const unsigned xs = base + s % STAGES * STAGE, ws = xs + BM * ROW;
#pragma unroll
        for (int h = 0; h < 2; h++) { /* 32 bytes of k at a time */
            unsigned fa[MT][4], fb[NT][2];

#pragma unroll
            for (int i = 0; i < MT; i++) { /* rows 0-7, 8-15 of the first 16 bytes, then of the second */
                const int row = wm + 16 * i + lane % 16, at = 2 * h + lane / 16;

                load4(fa[i], xs + row * ROW + ((at ^ (row >> 1 & 3)) << 4));
            }
#pragma unroll
            for (int j = 0; j < NT; j += 2) { /* outputs 0-7: both halves, then 8-15 */
                const int row = wn + 8 * j + lane % 8 + lane / 16 * 8, at = 2 * h + lane / 8 % 2;
                unsigned r[4];

                load4(r, ws + row * ROW + ((at ^ (row >> 1 & 3)) << 4));
                fb[j][0] = r[0], fb[j][1] = r[1], fb[j + 1][0] = r[2], fb[j + 1][1] = r[3];
            }
            multiply<K, MT, NT>(acc, fa, fb);
        }
    }
    asm volatile("cp.async.wait_group 0;\n");
    __syncthreads();

    /* Through shared memory as floats, so that 8 outputs of a pixel meet in a thread. */
    float *out = (float *)memory;
    const int LD = BN + 4;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            const int row = wm + 16 * i + lane / 4, col = wn + 8 * j + lane % 4 * 2;

            *(float2 *)&out[row * LD + col] = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)&out[(row + 8) * LD + col] = make_float2(acc[i][j][2], acc[i][j][3]);
        }
    __syncthreads();
    const bool quick = a.cout % 8 == 0 && aligned<T>(a.y) && (!a.tail.residual.data || aligned<T>(a.tail.residual));
    for (int i = t; i < BM * (BN / 8); i += THREADS) {
        const int row = i / (BN / 8), col = i % (BN / 8) * 8;
        float v[8];

        if (first + row >= pixels || o0 + col >= a.cout)
            continue;
        *(float4 *)&v[0] = *(const float4 *)&out[row * LD + col];
        *(float4 *)&v[4] = *(const float4 *)&out[row * LD + col + 4];
        finish8<T>(a, v, first + row, o0 + col, quick);
    }
}

#else

template <kind K, int BM, int BN, int WM, int WN> __device__ void conv_mma(const zn_cuda_conv &) {}

#endif

} // namespace

#define CONV(K, name, BM, BN, WM, WN)                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) conv_mma_##name##_##BM##x##BN(const zn_cuda_conv a) \
    {                                                                                                        \
        conv_mma<K, BM, BN, WM, WN>(a);                                                                      \
    }

#define SHAPES(K, name)                                                                                      \
    CONV(K, name, 64, 64, 16, 32)                                                                            \
    CONV(K, name, 128, 64, 32, 32)                                                                           \
    CONV(K, name, 128, 128, 64, 32)                                                                          \
    CONV(K, name, 256, 16, 32, 16)

SHAPES(F16, f16)
SHAPES(BF16, bf16)
SHAPES(TF32, tf32)
SHAPES(F32, f32)
CONV(F16, f16, 256, 64, 64, 32)
CONV(BF16, bf16, 256, 64, 64, 32)
