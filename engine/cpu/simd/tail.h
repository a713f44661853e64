/* SPDX-License-Identifier: MIT */
/* tail.h - rows that end inside a vector, and tails without a branch.
 *
 * FOR_ROW(n) loops over n elements in vectors: i is the first element, m the number of elements, VL at most.
 * LOAD and STORE access these m elements only. */

#define FOR_ROW(n) for (size_t i = 0, m; m = row_step(i, (size_t)(n)), i < (size_t)(n); i += VL)
#define LOAD(p) (m == VL ? vf_load((p) + i) : vf_load_n((p) + i, m))
#define STORE(p, v) (m == VL ? vf_store((p) + i, v) : vf_store_n((p) + i, v, m))

static inline size_t row_step(size_t i, size_t n)
{
    return i + VL <= n ? VL : n - i;
}

/* post(res + gain * pre(x)) for many vectors: without an activation other than ReLU there is nothing to branch on, a
 * missing ReLU being a maximum with -infinity. */
typedef struct quick_tail {
    vf pre, post, gain;
    bool quick;
} quick_tail;

static inline quick_tail quick_tail_of(const zn_tail *t)
{
    return (quick_tail){ vf_set(t->pre == ZN_RELU ? 0 : -INFINITY), vf_set(t->post == ZN_RELU ? 0 : -INFINITY),
                         vf_set(t->gain), t->pre <= ZN_RELU && t->post <= ZN_RELU };
}

static inline vf v_quick_tail(vf x, const vf *res, const quick_tail *q)
{
    x = vf_max(q->pre, x);
    return vf_max(q->post, res ? vf_fma(x, q->gain, *res) : vf_mul(x, q->gain));
}
