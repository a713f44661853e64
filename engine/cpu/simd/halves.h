/* SPDX-License-Identifier: MIT */
/* halves.h - the table of products of halves (zn_panel_form), over a vector layer of halves; included by its file alone.  Such
 * a layer has, beside what panel.h, gate3.h and winograd.h use, vf_from_floats and vf_to_floats: VL of them. */
#include <math.h>

#include "step.h"

#include "panel.h"
#include "gate3.h"
#include "tail.h"

/* winograd.c applies other tails to floats. */
static inline vf wino_slow_tail(vf x, const vf *res, const zn_tail *t, const quick_tail *q)
{
    (void)t;
    return v_quick_tail(x, res, q);
}

#include "winograd.h"

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
static ZN_DECL_ROUND(ZN_FN(round))
{
    elem *to = y;
    size_t i = 0;

    for (; i + VL <= n; i += VL)
        vf_store(to + i, vf_from_floats(x + i));
    for (; i < n; i++)
        to[i] = (elem)(x[i] > 65504 ? 65504 : x[i] < -65504 ? -65504 : x[i]);
}

static ZN_DECL_WIDEN(ZN_FN(widen))
{
    const elem *from = x;
    size_t i = 0;

    for (; i + VL <= n; i += VL)
        vf_to_floats(y + i, vf_load(from + i));
    for (; i < n; i++)
        y[i] = (float)from[i];
}

const zn_panel_form ZN_FN(zn_panels) = { .type = ZN_F16,
                                         .vl = VL,
                                         .nr = PANEL_NV * VL,
                                         .step = PANEL_STEP,
                                         .mr = PANEL_MR(WIDE_NV),
                                         .wide = WIDE_NV * VL,
                                         .panel = ZN_FN(panel),
                                         .gate3 = ZN_FN(gate3),
                                         .round = ZN_FN(round),
                                         .widen = ZN_FN(widen),
                                         .wino_in5 = ZN_FN(wino_in5),
                                         .wino_out54 = ZN_FN(wino_out54),
                                         WINO_FORM };
