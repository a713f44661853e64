/* SPDX-License-Identifier: MIT */
/* typed.cuh - kernels for tensors of one known type, made from those for any mixture of types.
 *
 * A kernel for any types branches on them at each element.  typed<T>(args) is a copy of its arguments in which the
 * types are constants: the compiler removes the branches.  16-bit results also get faster activations. */
#ifndef ZN_TYPED_CUH
#define ZN_TYPED_CUH

#include "common.cuh"

/* Relative error at most |x| 2^-23 + 2^-21, far less than rounding to 16 bits; 0 where exp(-x) is infinite. */
__device__ __forceinline__ float sigmoid_short(float x) { return reciprocal_short(1.f + exp2_short(x * -1.44269504f)); }

/* For 16-bit results. */
template <int V> __device__ __forceinline__ void activate_short(zn_act a, float (&v)[V])
{
    if (a == ZN_NONE)
        return;
    if (a == ZN_SILU) {
#pragma unroll
        for (int i = 0; i < V; i++)
            v[i] *= sigmoid_short(v[i]);
    } else if (a == ZN_SIGMOID) {
#pragma unroll
        for (int i = 0; i < V; i++)
            v[i] = sigmoid_short(v[i]);
    } else if (a == ZN_GELU_TANH) { /* (1 + tanh u) / 2 is sigmoid(2u) */
#pragma unroll
        for (int i = 0; i < V; i++)
            v[i] *= sigmoid_short(v[i] * (1.59576912f + 0.07135482f * v[i] * v[i]));
    } else {
        activate_all(a, v);
    }
}

enum { ANY_TYPE = -1 }; /* T below: a zn_type, or this */

struct quick {
    template <int V> static __device__ __forceinline__ void activate(zn_act a, float (&v)[V]) { activate_short(a, v); }
};

/* put_tail for y and residual of type T */
template <int T, int V>
__device__ __forceinline__ void put_tail_of(const zn_tensor &y, size_t i, const zn_cuda_tail &t, float (&v)[V],
                                            const raw<V> &residual)
{
    if constexpr (T == ANY_TYPE || T == ZN_F32) {
        put_tail(y, i, t, v, residual);
    } else {
        zn_cuda_tail of = t;

        of.residual.type = (zn_type)T;
        put_tail<quick>(y, i, of, v, residual);
    }
}

template <int T> __device__ __forceinline__ void set_type(zn_tensor &t)
{
    if constexpr (T != ANY_TYPE)
        t.type = (zn_type)T;
}

/* Arguments of x, y and a tail. */
template <int T, class G> __device__ __forceinline__ G typed(G g)
{
    set_type<T>(g.x);
    set_type<T>(g.y);
    set_type<T>(g.tail.residual);
    return g;
}

/* sum[i] = its sum over `lanes` (a power of two) neighbouring threads of a warp; the P sums are interleaved. */
template <int P> __device__ __forceinline__ void sum_lanes_all(float (&sum)[P], int lanes)
{
#pragma unroll
    for (int o = 16; o; o /= 2)
        if (o < lanes)
#pragma unroll
            for (int p = 0; p < P; p++)
                sum[p] += __shfl_xor_sync(0xffffffffu, sum[p], o);
}

#endif
