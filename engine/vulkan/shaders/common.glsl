// SPDX-License-Identifier: MIT
// common.glsl - what all kernels share: tensors of either type, tails, the number of a workgroup.
//
// A kernel defines ARGS, the members of its push constants, before it includes this.  at[i] is the element of binding i at
// which its tensor begins.  Constants 0 .. 7 are the types of the tensors: 0 float32, 1 fp16, 2 bf16, 3 none.
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#endif

layout(constant_id = 0) const int T0 = 3;
layout(constant_id = 1) const int T1 = 3;
layout(constant_id = 2) const int T2 = 3;
layout(constant_id = 3) const int T3 = 3;
layout(constant_id = 4) const int T4 = 3;
layout(constant_id = 5) const int T5 = 3;
layout(constant_id = 6) const int T6 = 3;
layout(constant_id = 7) const int T7 = 3;
layout(constant_id = 8) const int PRE = 0;  // activations of the tail
layout(constant_id = 9) const int POST = 0;

layout(push_constant) uniform Args {
    uint at[8];
    ARGS
} g;

const int ABSENT = 3;

#define FLOATS(n, name) layout(std430, binding = n) buffer Floats##n { float name[]; };

// Two halves as floats, and a float as a half.  SOFT: in integers, for Mesa's software device on CPUs without F16C, which
// has 16-bit storage and stops at any conversion from it.
#ifdef SOFT
float half_to_float(uint h)
{
    const uint e = h >> 10 & 31, m = h & 0x3ff;
    const float v = e == 0 ? float(m) / 16777216 : uintBitsToFloat((e == 31 ? 0x7f800000 : (e + 112) << 23) | m << 13);

    return (h & 0x8000) != 0 ? -v : v;
}

uint float_to_half(float v)
{
    const uint bits = floatBitsToUint(v), sign = bits >> 16 & 0x8000, mag = bits & 0x7fffffff, low = mag - (112 << 23);

    if (mag > 0x7f800000)
        return sign | 0x7e00;
    if (mag >= 0x477ff000)
        return sign | 0x7c00;
    if (mag < 0x38800000)
        return sign | uint(roundEven(uintBitsToFloat(mag) * 16777216));
    return sign | low + 0xfff + (low >> 13 & 1) >> 13;
}

vec2 halves(uint u)
{
    return vec2(half_to_float(u & 0xffff), half_to_float(u >> 16));
}
#define STORED uint16_t
#define FROM_HALF(h) half_to_float(uint(h))
#define TO_HALF(v) uint16_t(float_to_half(v))
#else
vec2 halves(uint u)
{
    return unpackHalf2x16(u);
}
#define STORED float16_t
#define FROM_HALF(h) float(h)
#define TO_HALF(v) float16_t(v)
#endif

// get_NAME(i) and put_NAME(i, v): element i of the tensor at binding n
#ifdef HALF
#define TENSOR(n, name)                                                                                                \
    layout(std430, binding = n) buffer Single##n { float name##_f[]; };                                                \
    layout(std430, binding = n) buffer Half##n { STORED name##_h[]; };                                                 \
    float get_##name(uint i) { return T##n == 1 ? FROM_HALF(name##_h[g.at[n] + i]) : name##_f[g.at[n] + i]; }          \
    void put_##name(uint i, float v)                                                                                   \
    {                                                                                                                  \
        if (T##n == 1)                                                                                                 \
            name##_h[g.at[n] + i] = TO_HALF(v);                                                                        \
        else                                                                                                           \
            name##_f[g.at[n] + i] = v;                                                                                 \
    }
#else
#define TENSOR(n, name)                                                                                                \
    layout(std430, binding = n) buffer Single##n { float name##_f[]; };                                                \
    float get_##name(uint i) { return name##_f[g.at[n] + i]; }                                                         \
    void put_##name(uint i, float v) { name##_f[g.at[n] + i] = v; }
#endif

// The grid has rows of 2^15 workgroups (record.c).
uint group_number()
{
    return gl_WorkGroupID.y * 32768u + gl_WorkGroupID.x;
}

vec4 stable_tanh(vec4 x)
{
    const vec4 e = exp(-2 * abs(x)), small = abs(x) * (1 - x * x * (1.0 / 3 - x * x * (2.0 / 15)));
    const vec4 t = mix((1 - e) / (1 + e), small, lessThan(abs(x), vec4(0.05)));

    return mix(t, -t, lessThan(x, vec4(0)));
}

// 1 - erf(x) for x >= 0, to 1.2e-7 of itself (Press et al., Numerical Recipes, 6.2).
vec4 erfc_positive(vec4 x)
{
    const vec4 t = 1 / (1 + 0.5 * x);
    const vec4 p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
        t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));

    return t * exp(-x * x + p);
}

vec4 act(vec4 x, int a)
{
    switch (a) {
    case 1: // ReLU
        return mix(x, vec4(0), lessThan(x, vec4(0)));
    case 2: // leaky
        return mix(x, x * 0.2, lessThan(x, vec4(0)));
    case 3: // SiLU
        return x / (1 + exp(-x));
    case 4: { // GELU
        const vec4 c = erfc_positive(abs(x) * 0.70710678);

        return x * 0.5 * mix(2 - c, c, lessThan(x, vec4(0)));
    }
    case 5: // its tanh form
        return x * 0.5 * (1 + stable_tanh(0.79788456 * (x + 0.044715 * x * x * x)));
    case 6:
        return 1 / (1 + exp(-x));
    case 7:
        return stable_tanh(x);
    case 8:
        return 3 * stable_tanh(x / 3);
    case 9: { // as x is, if it is not a number
        const vec4 above = mix(x, vec4(-1), lessThan(x, vec4(-1)));

        return mix(above, vec4(1), greaterThan(x, vec4(1)));
    }
    default:
        return x;
    }
}

float act(float x, int a)
{
    return act(vec4(x), a).x;
}
