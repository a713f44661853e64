// SPDX-License-Identifier: MIT
// matrix.glsl - cooperative matrices of 16x16 of a subgroup of 32, from and to the vectors of shared memory, s[].
//
// They are written with GL_NV_cooperative_matrix, which older compilers have; tools/spirv_khr.py makes it the extension of all
// vendors.  It tells matrices apart by their sizes: A is M x K, B is K x N, and sums are M x N.  EMULATE: the same on a device
// without matrices, for tests.
//
//   LOAD(m, at, ld)         rows of m are ld vectors of s apart
//   LOAD_ACROSS(m, at, ld)  columns are
//   MULTIPLY(a, b, c)       a * b + c
//   STORE(m, at, ld)        rows of sums, 4 vectors each
#ifdef EMULATE
struct operand {
    int at, ld;
    bool across;
};
struct sums {
    vec4 low, high; // 8 columns: 8 * (lane % 2) and those that follow, of row lane / 2
};
#define OPERAND_A operand
#define OPERAND_B operand
#define SUMS sums
#define ZERO sums(vec4(0), vec4(0))
#define LOAD(m, from, stride) m = operand(from, stride, false)
#define LOAD_ACROSS(m, from, stride) m = operand(from, stride, true)

float half_at(int vector, int element)
{
    return halves(s[vector][element / 2])[element % 2];
}

sums multiply(operand a, operand b, sums c)
{
    const int lane = int(gl_LocalInvocationID.x) % 32, column = lane % 2 * 8;

    for (int k = 0; k < 16; k++) {
        const float left = half_at(a.at + lane / 2 * a.ld + k / 8, k % 8);

        if (b.across) {
            for (int i = 0; i < 4; i++) {
                c.low[i] += left * half_at(b.at + (column + i) * b.ld + k / 8, k % 8);
                c.high[i] += left * half_at(b.at + (column + 4 + i) * b.ld + k / 8, k % 8);
            }
        } else {
            const uvec4 w = s[b.at + k * b.ld + lane % 2];

            c.low += left * four(w.xy);
            c.high += left * four(w.zw);
        }
    }
    return c;
}

void store(sums m, int at, int ld)
{
    const int lane = int(gl_LocalInvocationID.x) % 32;

    s[at + lane / 2 * ld + lane % 2 * 2] = floatBitsToUint(m.low);
    s[at + lane / 2 * ld + lane % 2 * 2 + 1] = floatBitsToUint(m.high);
}
#define MULTIPLY(a, b, c) multiply(a, b, c)
#define STORE(m, at, ld) store(m, at, ld)
#else
layout(constant_id = 24) const uint M = 16; // these are never set
layout(constant_id = 25) const uint N = 16;
layout(constant_id = 26) const uint K = 16;
#define OPERAND_A fcoopmatNV<16, gl_ScopeSubgroup, M, K>
#define OPERAND_B fcoopmatNV<16, gl_ScopeSubgroup, K, N>
#define SUMS fcoopmatNV<32, gl_ScopeSubgroup, M, N>
#define ZERO SUMS(0.0)
#define LOAD(m, from, stride) coopMatLoadNV(m, s, uint(from), uint(stride), false)
#define LOAD_ACROSS(m, from, stride) coopMatLoadNV(m, s, uint(from), uint(stride), true)
#define MULTIPLY(a, b, c) coopMatMulAddNV(a, b, c)
#define STORE(m, at, ld) coopMatStoreNV(m, s, uint(at), uint(ld), false)
#endif
