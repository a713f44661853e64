/* SPDX-License-Identifier: MIT */
/* dot8_i8mm.c - products of integers for CPUs with FEAT_I8MM; backend.c asks whether this one has it.
 *
 * smmla multiplies 2 rows of 8 inputs with 2 outputs: four sums are rows 0 1 with outputs 0 1, with outputs 2 3, then rows
 * 2 3.  They are scaled and added as those of dot8_dotprod.c are, so that results are the same in every bit. */
#include "dot8_neon.h"

#define DOT8_FOUR

/* clang-format off */
enum { DOT8_PART = ZN_DOT8_PART };
typedef struct four_scale { vf s[2]; const float (*less)[4]; } four_scale;
typedef struct prepared { float s[2][4], less[2][4]; int8_t w[ZN_QUADS][16]; } prepared;

_Static_assert(sizeof(prepared) == ZN_DOT8_ROOM, "");

static inline prepared *prepared_at(const zn_dot8 *g, int panel) { return (prepared *)g->room + (size_t)panel * DOT8_PART; }

/* Pairs of quads become two outputs of eight inputs each. */
static inline void prepare(prepared *to, const char *packed, zn_wtype type)
{
    const float64x2_t s = vreinterpretq_f64_f32(scale_at((const uint16_t *)(const void *)packed));
    const vf twice[2] = { vreinterpretq_f32_f64(vzip1q_f64(s, s)), vreinterpretq_f32_f64(vzip2q_f64(s, s)) };

    UNROLL_FOR (int k = 0; k < 2; k++) {
        vst1q_f32(to->s[k], twice[k]);
        vst1q_f32(to->less[k], vmulq_n_f32(twice[k], -vi_zero[0]));
    }
    packed += sizeof(uint16_t) * VL;
    UNROLL_FOR (int k = 0; k < ZN_QUADS; k += 2, packed += type == ZN_W_I4 ? 16 : 32) {
        int32x4_t quads[2];
        vq w[2];

        vq_pair(w, packed, type);
        quads[0] = vreinterpretq_s32_s8(w[0]), quads[1] = vreinterpretq_s32_s8(w[1]);
        vst1q_s8(to->w[k], vreinterpretq_s8_s32(vzip1q_s32(quads[0], quads[1])));
        vst1q_s8(to->w[k + 1], vreinterpretq_s8_s32(vzip2q_s32(quads[0], quads[1])));
    }
}

static inline void four_prepare(const zn_dot8 *g, int from, int end, zn_wtype type)
{
    for (int p = 0; p < g->panels; p++) {
        const char *packed = (const char *)g->w + zn_dot8_panel(type, p * g->groups + from, VL);
        prepared *to = prepared_at(g, p);

        for (int i = from; i < end; i++, packed += zn_dot8_panel(type, 1, VL))
            prepare(to++, packed, type);
    }
}

static inline const char *four_panel(const zn_dot8 *g, int panel, int from, zn_wtype type)
{
    return (void)from, (void)type, (const char *)prepared_at(g, panel);
}

static inline size_t four_group(zn_wtype type) { return (void)type, sizeof(prepared); }

static inline void four_scale_set(four_scale *c, const char *w)
{
    const prepared *group = (const prepared *)(const void *)w;

    c->s[0] = vld1q_f32(group->s[0]), c->s[1] = vld1q_f32(group->s[1]);
    c->less = group->less;
}

static inline void four_pair(vq w[2], const char *p, int k, zn_wtype type)
{
    const prepared *group = (const prepared *)(const void *)p;

    (void)type;
    w[0] = vld1q_s8(group->w[k]), w[1] = vld1q_s8(group->w[k + 1]);
}

static inline void four_start(vi sum[4], const int32_t *start)
{
    UNROLL_FOR (int i = 0; i < 4; i++)
        sum[i] = vi_start(start);
}

static inline void four_dot(vi sum[4], const vq w[2], const char *x, zn_wtype type)
{
    (void)type;
    UNROLL_FOR (int i = 0; i < 4; i++)
        sum[i] = vmmlaq_s32(sum[i], vx_load(x + i / 2 * 16), w[i % 2]);
}

static inline void four_scaled(vf acc[4], const vi sum[4], const four_scale *c, const float *scale, const int32_t *start, zn_wtype type)
{
    const vf rows[2] = { vld1q_f32(scale), vld1q_f32(scale + 4) };

    (void)start, (void)type;
    UNROLL_FOR (int i = 0; i < 4; i++)
        acc[i] = vfmaq_f32(acc[i], vfmaq_f32(vf_reload(c->less[i % 2]), vreinterpretq_f32_s32(sum[i]), c->s[i % 2]), rows[i / 2]);
}

static inline void four_store(float *y, size_t ld, const vf acc[4], vf times)
{
    UNROLL_FOR (int i = 0; i < 4; i += 2) {
        const float64x2_t a = vreinterpretq_f64_f32(vf_mul(acc[i], times)), b = vreinterpretq_f64_f32(vf_mul(acc[i + 1], times));

        vst1q_f32(y + (size_t)i * ld, vreinterpretq_f32_f64(vzip1q_f64(a, b)));
        vst1q_f32(y + (size_t)(i + 1) * ld, vreinterpretq_f32_f64(vzip2q_f64(a, b)));
    }
}
/* clang-format on */

#include "../simd/dot8.h"

ZN_DECL_DOT8(zn_dot8_i8mm)
{
    dot8_neon(g);
}
