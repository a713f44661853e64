/* SPDX-License-Identifier: MIT */
/* common.cuh - loads and stores of elements of any type, activations and tails; for all kernels. */
#ifndef ZN_COMMON_CUH
#define ZN_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../args.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;

template <class T> struct type_of;
template <> struct type_of<float> {
    static const zn_type value = ZN_F32;
};
template <> struct type_of<f16> {
    static const zn_type value = ZN_F16;
};
template <> struct type_of<bf16> {
    static const zn_type value = ZN_BF16;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(f16 x) { return __half2float(x); }
__device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
template <class T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ f16 from_float<f16>(float x)
{
    return __float2half_rn(fminf(fmaxf(x, -65504.f), 65504.f)); /* saturates instead of infinity; NaN becomes -65504 */
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) { return __float2bfloat16_rn(x); }

/* Element i of a tensor whose type is known at run time only. */
__device__ __forceinline__ float load_any(const zn_tensor &t, size_t i)
{
    switch (t.type) {
    case ZN_F16: return to_float(((const f16 *)t.data)[i]);
    case ZN_BF16: return to_float(((const bf16 *)t.data)[i]);
    default: return t.data[i];
    }
}

__device__ __forceinline__ void store_any(const zn_tensor &t, size_t i, float x)
{
    switch (t.type) {
    case ZN_F16: ((f16 *)t.data)[i] = from_float<f16>(x); break;
    case ZN_BF16: ((bf16 *)t.data)[i] = from_float<bf16>(x); break;
    default: t.data[i] = x;
    }
}

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

__device__ __forceinline__ float activate(zn_act a, float x)
{
    switch (a) {
    case ZN_RELU: return x > 0 ? x : 0; /* NaN becomes 0, as on the CPU */
    case ZN_LRELU: return x < 0 ? x / 5 : x;
    case ZN_SILU: return x * sigmoid(x);
    case ZN_GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case ZN_GELU_TANH: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case ZN_SIGMOID: return sigmoid(x);
    case ZN_TANH: return tanhf(x);
    case ZN_SOFTCLAMP: return 3 * tanhf(x * (1.f / 3));
    case ZN_CLAMP: return fminf(fmaxf(x, -1.f), 1.f);
    default: return x;
    }
}

/* The tail for channel c of pixel p. */
__device__ __forceinline__ float apply_tail(const zn_cuda_tail &t, float x, size_t p, int c)
{
    x = t.gain * activate(t.pre, x);
    if (t.residual.data)
        x += load_any(t.residual, p * t.residual.ld + c);
    return activate(t.post, x);
}

/* ---- vectors ----------------------------------------------------------------------------------------------
 *
 * V elements of any type as they are stored, V being 8 or 1.  Eight of them are 16 bytes (32 of float), 16-byte aligned.
 * Loading first and converting later keeps several loads in flight. */
template <int V> struct raw;
template <> struct raw<8> {
    uint4 lo, hi;
};
template <> struct raw<1> {
    float x;
};

__device__ __forceinline__ void fetch(raw<8> &r, const zn_tensor &t, size_t i)
{
    const char *p = (const char *)t.data + i * (t.type == ZN_F32 ? 4 : 2);

    r.lo = *(const uint4 *)p;
    if (t.type == ZN_F32)
        r.hi = *(const uint4 *)(p + 16);
}

__device__ __forceinline__ void fetch(raw<1> &r, const zn_tensor &t, size_t i) { r.x = load_any(t, i); }

__device__ __forceinline__ void widen(float (&v)[1], const raw<1> &r, zn_type) { v[0] = r.x; }

__device__ __forceinline__ void widen(float (&v)[8], const raw<8> &r, zn_type type)
{
    const unsigned w[4] = { r.lo.x, r.lo.y, r.lo.z, r.lo.w };
    const unsigned h[4] = { r.hi.x, r.hi.y, r.hi.z, r.hi.w };

    if (type == ZN_F16) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            __half2 pair = *(const __half2 *)&w[i];

            v[2 * i] = __low2float(pair);
            v[2 * i + 1] = __high2float(pair);
        }
    } else if (type == ZN_BF16) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[2 * i] = __uint_as_float(w[i] << 16);
            v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = __uint_as_float(w[i]);
            v[4 + i] = __uint_as_float(h[i]);
        }
    }
}

__device__ __forceinline__ void read8(float (&v)[8], const float *p)
{
    float4 a = *(const float4 *)p, b = *(const float4 *)(p + 4);

    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

/* 2^x and 1/x to 22 bits; denormals are flushed to zero. */
__device__ __forceinline__ float exp2_short(float x)
{
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

__device__ __forceinline__ float reciprocal_short(float x)
{
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

/* Two elements in one word, the first one in the low half. */
template <class T> __device__ __forceinline__ unsigned pack2(float a, float b);
template <> __device__ __forceinline__ unsigned pack2<f16>(float a, float b)
{
    __half2 pair = __floats2half2_rn(fminf(fmaxf(a, -65504.f), 65504.f), fminf(fmaxf(b, -65504.f), 65504.f));

    return *(const unsigned *)&pair;
}
template <> __device__ __forceinline__ unsigned pack2<bf16>(float a, float b)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);

    return *(const unsigned *)&pair;
}

/* The inverse of pack2. */
template <class T> __device__ __forceinline__ float2 unpack2(unsigned x);
template <> __device__ __forceinline__ float2 unpack2<f16>(unsigned x) { return __half22float2(*(const __half2 *)&x); }
template <> __device__ __forceinline__ float2 unpack2<bf16>(unsigned x)
{
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
}

/* pack2 in one instruction, from compute capability 8.0 on; but NaN stays NaN. */
template <class T> __device__ __forceinline__ unsigned pack_pair(float a, float b) { return pack2<T>(a, b); }
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ unsigned pack_pair<f16>(float a, float b)
{
    unsigned pair;

    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
    return pair;
}
#endif

__device__ __forceinline__ void put(const zn_tensor &t, size_t i, const float (&v)[1]) { store_any(t, i, v[0]); }

__device__ __forceinline__ void put(const zn_tensor &t, size_t i, const float (&v)[8])
{
    char *p = (char *)t.data + i * (t.type == ZN_F32 ? 4 : 2);

    if (t.type == ZN_F16)
        *(uint4 *)p =
            make_uint4(pack2<f16>(v[0], v[1]), pack2<f16>(v[2], v[3]), pack2<f16>(v[4], v[5]), pack2<f16>(v[6], v[7]));
    else if (t.type == ZN_BF16)
        *(uint4 *)p = make_uint4(pack2<bf16>(v[0], v[1]), pack2<bf16>(v[2], v[3]), pack2<bf16>(v[4], v[5]),
                                 pack2<bf16>(v[6], v[7]));
    else {
        *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
        *(float4 *)(p + 16) = make_float4(v[4], v[5], v[6], v[7]);
    }
}

template <int V> __device__ __forceinline__ void activate_all(zn_act a, float (&v)[V])
{
#define ZN_EACH(act)                                                                                                   \
    case act: _Pragma("unroll") for (int i = 0; i < V; i++) v[i] = activate(act, v[i]); break;
    switch (a) {
        ZN_EACH(ZN_RELU)
        ZN_EACH(ZN_LRELU)
        ZN_EACH(ZN_SILU)
        ZN_EACH(ZN_GELU)
        ZN_EACH(ZN_GELU_TANH)
        ZN_EACH(ZN_SIGMOID)
        ZN_EACH(ZN_TANH)
        ZN_EACH(ZN_SOFTCLAMP)
        ZN_EACH(ZN_CLAMP)
    default: break;
    }
#undef ZN_EACH
}

/* How put_tail computes activations; typed.cuh has faster ones. */
struct exact {
    template <int V> static __device__ __forceinline__ void activate(zn_act a, float (&v)[V]) { activate_all(a, v); }
};

/* The tail, with its residual already loaded (if there is one); the result goes to y, from element i on. */
template <class How = exact, int V>
__device__ __forceinline__ void put_tail(const zn_tensor &y, size_t i, const zn_cuda_tail &t, float (&v)[V],
                                         const raw<V> &residual)
{
    How::activate(t.pre, v);
#pragma unroll
    for (int k = 0; k < V; k++)
        v[k] *= t.gain;
    if (t.residual.data) {
        float r[V];

        widen(r, residual, t.residual.type);
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] += r[k];
    }
    How::activate(t.post, v);
    put(y, i, v);
}

/* n / d: in 32 bits when that is enough, which is much faster. */
__device__ __forceinline__ size_t quotient(size_t n, unsigned d) { return n >> 32 ? n / d : (unsigned)n / d; }

/* Sum or maximum over `lanes` (a power of two) neighbouring threads of a warp; all of them get it. */
__device__ __forceinline__ float sum_lanes(float x, int lanes)
{
    for (int o = lanes / 2; o; o /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

__device__ __forceinline__ float max_lanes(float x, int lanes)
{
    for (int o = lanes / 2; o; o /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

/* ---- tensor cores: mma.sync (compute capability 8.0) -------------------------------------------------------
 *
 * Fragments as PTX defines them; g = lane / 4, t = lane % 4, each register has two neighbouring elements:
 *     A, 16 x 16   row g, g + 8, g, g + 8;  columns 2t, 2t, 2t + 8, 2t + 8
 *     B, 16 x 8    k = 2t, 2t + 8;          column g
 *     D, 16 x 8    row g: d[0], d[1]; row g + 8: d[2], d[3];  columns 2t, 2t + 1 */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/* Four 8 x 8 matrices from shared memory; lane l gives the address of row l % 8 of matrix l / 8, 16 bytes. */
__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* d = c + a * b; c is a row (c0, c1, c0, c1), or d itself */
template <class T>
__device__ __forceinline__ void mma16(float (&d)[4], float c0, float c1, unsigned a0, unsigned a1, unsigned a2,
                                      unsigned a3, unsigned b0, unsigned b1)
{
    if (type_of<T>::value == ZN_F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %11, %10, %11};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %11, %10, %11};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1));
}

template <class T>
__device__ __forceinline__ void mma16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                      unsigned b1)
{
    if (type_of<T>::value == ZN_F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* The same with k = 8: the first two registers of A, the first of B. */
template <class T> __device__ __forceinline__ void mma8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0)
{
    if (type_of<T>::value == ZN_F16)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(b0));
    else
        asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(b0));
}

/* x rounded to tf32 (10 bits of mantissa), for mma8_tf32. */
__device__ __forceinline__ unsigned to_tf32(float x)
{
    unsigned y;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

/* x = big + small, both tf32 */
__device__ __forceinline__ void split_tf32(unsigned x, unsigned &big, unsigned &small)
{
    big = to_tf32(__uint_as_float(x));
    small = to_tf32(__uint_as_float(x) - __uint_as_float(big));
}

/* d += a * b with k = 8; a register is one element:  A: row g, g + 8, g, g + 8, columns t, t, t + 4, t + 4;  B: k = t,
 * t + 4, column g */
__device__ __forceinline__ void mma8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma8_tf32(float (&d)[4], float c0, float c1, const unsigned (&a)[4],
                                          const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %10, %11};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c0), "f"(c1));
}

/* An asynchronous copy of 16 bytes from global to shared memory; this thread sees it after copy_async_wait. */
__device__ __forceinline__ void copy_async16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

/* Writes zeros unless `there`; `from` must be a valid address all the same. */
__device__ __forceinline__ void copy_async16(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* The same, and the surrounding 128 bytes are prefetched to L2: other threads are about to load the rest of them. */
__device__ __forceinline__ void copy_async16_of_128(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Waits until at most `left` groups are in flight. */
template <int left> __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* A load whose result is not used: a prefetch to L1.  (prefetch.global.L1 is much slower.) */
__device__ __forceinline__ void touch(const float *p)
{
    asm volatile("{\n.reg .f32 unused;\nld.global.nc.f32 unused, [%0];\n}" ::"l"(p));
}

/* A named barrier for `threads` threads of the block (a multiple of 32); id 1 .. 15. */
__device__ __forceinline__ void barrier_some(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif

/* ---- attention ------------------------------------------------------------------------------------------------- */

/* How many keys the first so many queries read. */
__device__ __forceinline__ int end_of_keys(const zn_args_attention &g, int queries)
{
    return g.causal ? min(g.n_k, queries + g.n_k - g.n_q) : g.n_k;
}

/* pack2 for weights, which never overflow */
template <class T> __device__ __forceinline__ unsigned pack_weights(float a, float b)
{
    if constexpr (type_of<T>::value == ZN_F16) {
        __half2 pair = __floats2half2_rn(a, b);

        return *(const unsigned *)&pair;
    } else {
        return pack2<T>(a, b);
    }
}

#endif
