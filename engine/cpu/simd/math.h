/* SPDX-License-Identifier: MIT */
/* math.h - exp and the activations on vectors of floats, and the tail.  Errors: see kernels.h. */

typedef float elem;       /* what a vector consists of in panel.h and gate3.h */
enum { PANEL_CHAIN = 0 }; /* panel.h */

/* y = res + x, the first m of them */
static inline void vf_add_to(float *y, const float *res, vf x, const size_t m)
{
    if (m == VL)
        vf_store(y, vf_add(x, vf_load(res)));
    else
        vf_store_n(y, vf_add(x, vf_load_n(res, m)), m);
}

/* e^x: x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor series of e^r up to r^7, whose rest is 6e-9.
 * Below -87.3 it stays at the smallest normal number, above 88.3 at 2.3e38. */
static inline vf v_exp(vf x)
{
    vf n, r, p;

    x = vf_min(vf_set(88.3f), vf_max(vf_set(-87.3f), x));
    n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    r = vf_fnma(n, vf_set(0.693359375f), x); /* exact: 9 bits times an integer */
    r = vf_fnma(n, vf_set(-2.12194440e-4f), r);
    p = vf_fma(r, vf_set(1.f / 5040), vf_set(1.f / 720));
    p = vf_fma(r, p, vf_set(1.f / 120));
    p = vf_fma(r, p, vf_set(1.f / 24));
    p = vf_fma(r, p, vf_set(1.f / 6));
    p = vf_fma(r, p, vf_set(0.5f));
    p = vf_fma(r, p, vf_set(1));
    p = vf_fma(r, p, vf_set(1));
    return vf_mul(p, vf_exp2(n));
}

static inline vf v_neg(vf x)
{
    return vf_sub(vf_set(0), x);
}

/* x / (1 + e^-u): sigmoid for x = 1, silu for u = x. */
static inline vf v_gate(vf x, vf u)
{
    return vf_div(x, vf_add(vf_set(1), v_exp(v_neg(u))));
}

static inline vf v_tanh(vf x)
{
    vf t = v_exp(vf_mul(vf_set(-2), vf_abs(x)));
    vf y = vf_div(vf_sub(vf_set(1), t), vf_add(vf_set(1), t));

    return vf_select(vf_less(x, vf_set(0)), v_neg(y), y);
}

/* x * erfc(-x / sqrt 2) / 2, from erfc(z) = (a1 t + ... + a5 t^5) e^(-z^2), t = 1 / (1 + p z), z >= 0
 * (Abramowitz and Stegun 7.1.26: 1.5e-7 absolute).  The a are halved here. */
static inline vf v_gelu(vf x)
{
    vf z = vf_mul(vf_abs(x), vf_set(0.70710678f));
    vf t = vf_div(vf_set(1), vf_fma(z, vf_set(0.3275911f), vf_set(1)));
    vf p = vf_fma(t, vf_set(0.5f * 1.061405429f), vf_set(0.5f * -1.453152027f));

    p = vf_fma(t, p, vf_set(0.5f * 1.421413741f));
    p = vf_fma(t, p, vf_set(0.5f * -0.284496736f));
    p = vf_fma(t, p, vf_set(0.5f * 0.254829592f));
    p = vf_mul(vf_mul(t, p), v_exp(v_neg(vf_mul(z, z))));
    return vf_mul(x, vf_select(vf_less(x, vf_set(0)), p, vf_sub(vf_set(1), p)));
}

/* The activations that need exp: out of line, so that they cost the others no registers. */
static __attribute__((noinline)) vf v_act_slow(vf x, zn_act a)
{
    switch (a) {
    case ZN_SILU:
        return v_gate(x, x);
    case ZN_GELU:
        return v_gelu(x);
    case ZN_GELU_TANH: { /* (1 + tanh u) / 2 = 1 / (1 + e^-2u) */
        vf u = vf_mul(x, vf_fma(vf_mul(x, x), vf_set(0.044715f), vf_set(1)));

        return v_gate(x, vf_mul(u, vf_set(2 * 0.79788456f)));
    }
    case ZN_SIGMOID:
        return v_gate(vf_set(1), x);
    case ZN_TANH:
        return v_tanh(x);
    case ZN_SOFTCLAMP:
        return vf_mul(vf_set(3), v_tanh(vf_mul(x, vf_set(1.f / 3))));
    case ZN_CLAMP:
        return vf_min(vf_set(1), vf_max(vf_set(-1), x));
    default:
        return x;
    }
}

static inline bool act_is_fast(zn_act a)
{
    return a <= ZN_LRELU;
}

static inline vf v_act_fast(vf x, zn_act a)
{
    if (a == ZN_RELU)
        return vf_max(vf_set(0), x);
    if (a == ZN_LRELU)
        return vf_select(vf_less(x, vf_set(0)), vf_mul(x, vf_set(0.2f)), x);
    return x;
}

static inline vf v_act(vf x, zn_act a)
{
    return act_is_fast(a) ? v_act_fast(x, a) : v_act_slow(x, a);
}

/* post(res + gain * pre(x)) */
static inline vf v_tail(vf x, const vf *res, const zn_tail *t)
{
    x = v_act(x, t->pre);
    x = res ? vf_fma(x, vf_set(t->gain), *res) : vf_mul(x, vf_set(t->gain));
    return v_act(x, t->post);
}

#include "tail.h"

/* Of winograd.h, where a tail is not a quick one. */
static inline vf wino_slow_tail(vf x, const vf *res, const zn_tail *t, const quick_tail *q)
{
    (void)q;
    return v_tail(x, res, t);
}
