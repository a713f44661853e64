/* SPDX-License-Identifier: MIT */
/* panels_fp16.c - products of halves, for CPUs with FEAT_FP16; backend.c asks whether this one has it. */
#include <math.h>

#include "../kernels.h"
#include "../simd/vec_neon_fp16.h"

#include "../simd/step.h"

#include "../simd/panel.h"
#include "../simd/gate3.h"
#include "../simd/tail.h"

/* winograd.c applies other tails to floats. */
static inline vf wino_slow_tail(vf x, const vf *res, const zn_tail *t, const quick_tail *q)
{
    (void)t;
    return v_quick_tail(x, res, q);
}

#include "../simd/winograd.h"

/* F(4,2), points 0, 1, -1, 2 and infinity. */
INLINE void wino_b5(vf o[5], const vf d[5])
{
    const vf two = vf_set(2), a = vf_sub(d[3], d[1]), b = vf_fnma(two, d[1], vf_sub(d[3], d[2]));

    o[0] = vf_fma(two, vf_sub(d[0], d[2]), a);
    o[1] = b;
    o[2] = vf_fma(two, d[1], vf_fnma(vf_set(3), d[2], d[3]));
    o[3] = a;
    o[4] = vf_fnma(two, a, vf_sub(d[4], d[2]));
}

INLINE void wino_a54(vf o[4], const vf m[5])
{
    const vf s = vf_add(m[1], m[2]), d = vf_sub(m[1], m[2]);

    o[0] = vf_add(vf_add(m[0], m[3]), s);
    o[1] = vf_fma(vf_set(2), m[3], d);
    o[2] = vf_fma(vf_set(4), m[3], s);
    o[3] = vf_add(vf_fma(vf_set(8), m[3], d), m[4]);
}

WINO_IN(wino_in5, 5, wino_b5)
WINO_OUT(wino_out54, 5, 4, wino_a54)

/* What is too large becomes the largest half, as in zn_to_f16. */
static ZN_DECL_ROUND(round_fp16)
{
    const float32x4_t most = vdupq_n_f32(65504), least = vdupq_n_f32(-65504);
    elem *to = y;
    size_t i = 0;

    for (; i + VL <= n; i += VL) {
        float32x4_t a = vmaxq_f32(least, vminq_f32(most, vld1q_f32(x + i)));
        float32x4_t b = vmaxq_f32(least, vminq_f32(most, vld1q_f32(x + i + 4)));

        vf_store(to + i, vcvt_high_f16_f32(vcvt_f16_f32(a), b));
    }
    for (; i < n; i++)
        to[i] = (elem)(x[i] > 65504 ? 65504 : x[i] < -65504 ? -65504 : x[i]);
}

static ZN_DECL_WIDEN(widen_fp16)
{
    const elem *from = x;
    size_t i = 0;

    for (; i + VL <= n; i += VL) {
        const vf v = vf_load(from + i);

        vst1q_f32(y + i, vcvt_f32_f16(vget_low_f16(v)));
        vst1q_f32(y + i + 4, vcvt_high_f32_f16(v));
    }
    for (; i < n; i++)
        y[i] = (float)from[i];
}

const zn_panel_form zn_panels_fp16 = { .type = ZN_F16,
                                       .vl = VL,
                                       .nr = PANEL_NV * VL,
                                       .step = PANEL_STEP,
                                       .mr = PANEL_MR(NV),
                                       .wide = NV * VL,
                                       .panel = panel_fp16,
                                       .gate3 = gate3_fp16,
                                       .round = round_fp16,
                                       .widen = widen_fp16,
                                       .wino_in5 = wino_in5_fp16,
                                       .wino_out54 = wino_out54_fp16,
                                       WINO_FORM };
