// SPDX-License-Identifier: MIT
// half.glsl - vectors of fp16 elements as floats, and back.
uint two_halves(float a, float b)
{
#ifdef SOFT
    return float_to_half(a) | float_to_half(b) << 16;
#else
    return packHalf2x16(vec2(a, b));
#endif
}

vec4 four(uvec2 u)
{
    return vec4(halves(u.x), halves(u.y));
}

uvec2 as_four(vec4 v)
{
    return uvec2(two_halves(v.x, v.y), two_halves(v.z, v.w));
}

// Vectors that are multiplied in fp16; in tests on devices without that, in float32.
#ifdef PACKED
#ifdef SOFT
#define PACKED4 vec4
#define PACKED2(u) halves(u)
#else
#define PACKED4 f16vec4
#define PACKED2(u) unpackFloat2x16(u)
#endif
#endif

float[8] eight(uvec4 u)
{
    float v[8];

    for (int i = 0; i < 4; i++) {
        const vec2 two = halves(u[i]);

        v[2 * i] = two.x;
        v[2 * i + 1] = two.y;
    }
    return v;
}

uvec4 as_eight(float v[8])
{
    return uvec4(two_halves(v[0], v[1]), two_halves(v[2], v[3]), two_halves(v[4], v[5]), two_halves(v[6], v[7]));
}
