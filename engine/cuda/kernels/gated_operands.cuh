/* SPDX-License-Identifier: MIT */
/* gated_operands.cuh - how a warp multiplies the elements of a type; for gated_tile.cuh. */
#ifndef ZN_GATED_OPERANDS_CUH
#define ZN_GATED_OPERANDS_CUH

#include "common.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

struct tf32 {
}; /* float32; products use 10 bits of mantissa */

/* How a warp multiplies elements of type T in shared memory.  A is 16 rows x K; B is 8 rows of outputs x K; D is 8 sums of
 * 16 pixels each, as in common.cuh.  a_at, b_at: a lane's offset from the address of a matrix of A, or of two of B that are
 * `second` apart.
 *   eight   8 channels of 16 pixels: D as an operand
 *   SWAP    in `columns` two eights are swapped in rows with this bit, against bank conflicts */
template <class T> struct operands { /* f16, bf16 */
    typedef T type;
    enum { K = 16, V = 8, SWAP = 4 };
    struct a_matrix {
        unsigned r[4];
    };
    struct b_matrix {
        unsigned r[2];
    };
    struct eight {
        unsigned r[2];
    };

    static __device__ __forceinline__ int a_at(int lane, int ld) { return lane % 16 * ld + lane / 16 * 8; }

    static __device__ __forceinline__ int b_at(int lane, int ld, int second)
    {
        return lane / 16 * second + lane % 8 * ld + lane / 8 % 2 * 8;
    }

    static __device__ __forceinline__ void load(a_matrix &m, const T *at, int) { ldmatrix4(m.r, at); }

    static __device__ __forceinline__ void load(b_matrix &m, b_matrix &n, const T *at, int)
    {
        unsigned r[4];

        ldmatrix4(r, at);
        m.r[0] = r[0], m.r[1] = r[1], n.r[0] = r[2], n.r[1] = r[3];
    }

    static __device__ __forceinline__ void add(float (&d)[4], const a_matrix &a, const b_matrix &b)
    {
        mma16<T>(d, a.r[0], a.r[1], a.r[2], a.r[3], b.r[0], b.r[1]);
    }

    /* The first product: d = bias + a * b */
    static __device__ __forceinline__ void start(float (&d)[4], float2 bias, const a_matrix &a, const b_matrix &b)
    {
        mma16<T>(d, bias.x, bias.y, a.r[0], a.r[1], a.r[2], a.r[3], b.r[0], b.r[1]);
    }

    static __device__ __forceinline__ void pack(eight &e, float x0, float y0, float x1, float y1)
    {
        e.r[0] = pack_pair<T>(x0, y0);
        e.r[1] = pack_pair<T>(x1, y1);
    }

    /* K channels from two eights (float: from one). */
    static __device__ __forceinline__ void operand(a_matrix &m, const eight *e)
    {
        m.r[0] = e[0].r[0], m.r[1] = e[0].r[1], m.r[2] = e[1].r[0], m.r[3] = e[1].r[1];
    }

    static __device__ __forceinline__ void store(const eight &e, T *at, int ld)
    {
        *(unsigned *)at = e.r[0];
        *(unsigned *)(at + 8 * ld) = e.r[1];
    }

    static __device__ __forceinline__ float2 pair(const T *at) { return unpack2<T>(*(const unsigned *)at); }

    /* x and y, or zeros. */
    static __device__ __forceinline__ void put_pair(T *at, float x, float y, bool there = true)
    {
        const unsigned p = pack_pair<T>(x, y);

        *(unsigned *)at = there ? p : 0;
    }

    static __device__ __forceinline__ void widen(float (&v)[V], const uint4 &x)
    {
        const unsigned w[4] = { x.x, x.y, x.z, x.w };

#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 p = unpack2<T>(w[i]);

            v[2 * i] = p.x, v[2 * i + 1] = p.y;
        }
    }

    static __device__ __forceinline__ uint4 to_memory(const float (&v)[V])
    {
        return make_uint4(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]), pack_pair<T>(v[4], v[5]),
                          pack_pair<T>(v[6], v[7]));
    }
};

/* float32: each operand is split into a sum of two tf32 values, and only the product of the small parts is left out.  The
 * instruction's column t is channel 2t, column t + 4 is channel 2t + 1: a lane loads neighbours, and its part of D is what
 * it needs of A. */
template <bool exact> struct operands32 {
    typedef float type;
    enum { K = 8, V = 4, SWAP = 2 };
    struct a_matrix {
        unsigned big[4], small[4];
    };
    struct b_matrix {
        unsigned big[2], small[2];
    };
    struct eight {
        float x[4];
    };

    static __device__ __forceinline__ void split(unsigned &big, unsigned &small, float x)
    {
        big = to_tf32(x);
        small = exact ? to_tf32(x - __uint_as_float(big)) : 0;
    }

    static __device__ __forceinline__ int a_at(int lane, int ld) { return lane / 4 * ld + lane % 4 * 2; }
    static __device__ __forceinline__ int b_at(int lane, int ld, int) { return lane / 4 * ld + lane % 4 * 2; }

    static __device__ __forceinline__ void operand(a_matrix &m, const eight *e)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            split(m.big[i], m.small[i], e->x[i % 2 * 2 + i / 2]);
    }

    static __device__ __forceinline__ void load(a_matrix &m, const float *at, int ld)
    {
        const float2 p = *(const float2 *)at, q = *(const float2 *)(at + 8 * ld);
        const eight e = { { p.x, p.y, q.x, q.y } };

        operand(m, &e);
    }

    static __device__ __forceinline__ void load(b_matrix &m, const float *at)
    {
        const float2 p = *(const float2 *)at;

        split(m.big[0], m.small[0], p.x);
        split(m.big[1], m.small[1], p.y);
    }

    static __device__ __forceinline__ void load(b_matrix &m, b_matrix &n, const float *at, int second)
    {
        load(m, at);
        load(n, at + second);
    }

    static __device__ __forceinline__ void add(float (&d)[4], const a_matrix &a, const b_matrix &b)
    {
        if (exact) {
            mma8_tf32(d, a.small, b.big);
            mma8_tf32(d, a.big, b.small);
        }
        mma8_tf32(d, a.big, b.big);
    }

    static __device__ __forceinline__ void start(float (&d)[4], float2 bias, const a_matrix &a, const b_matrix &b)
    {
        if (exact) {
            mma8_tf32(d, bias.x, bias.y, a.small, b.big);
            mma8_tf32(d, a.big, b.small);
            mma8_tf32(d, a.big, b.big);
        } else {
            mma8_tf32(d, bias.x, bias.y, a.big, b.big);
        }
    }

    static __device__ __forceinline__ void pack(eight &e, float x0, float y0, float x1, float y1)
    {
        e.x[0] = x0, e.x[1] = y0, e.x[2] = x1, e.x[3] = y1;
    }

    static __device__ __forceinline__ void store(const eight &e, float *at, int ld)
    {
        put_pair(at, e.x[0], e.x[1]);
        put_pair(at + 8 * ld, e.x[2], e.x[3]);
    }

    static __device__ __forceinline__ float2 pair(const float *at) { return *(const float2 *)at; }

    static __device__ __forceinline__ void put_pair(float *at, float x, float y, bool there = true)
    {
        *(float2 *)at = make_float2(there ? x : 0, there ? y : 0);
    }

    static __device__ __forceinline__ void widen(float (&v)[V], const uint4 &x)
    {
        v[0] = __uint_as_float(x.x), v[1] = __uint_as_float(x.y);
        v[2] = __uint_as_float(x.z), v[3] = __uint_as_float(x.w);
    }

    static __device__ __forceinline__ uint4 to_memory(const float (&v)[V])
    {
        return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
    }
};

template <> struct operands<float> : operands32<true> {
};
template <> struct operands<tf32> : operands32<false> {
};

#endif

#endif
