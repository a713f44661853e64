/* SPDX-License-Identifier: MIT */
#include "detect.h"

#if ZN_ARCH_X86
#include <cpuid.h>
#include <stdint.h>

/* The register sets that the operating system saves: a CPU flag alone is not enough. */
static uint32_t saved_registers(void)
{
    uint32_t lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static bool x86_has(zn_isa isa)
{
    enum { YMM = 0x6, ZMM = 0xe6 };
    const uint32_t avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    uint32_t a, b, c, d, b7, c7, d7;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_FMA) || !(c & bit_F16C) ||
        !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !(b7 & bit_AVX2) || (saved_registers() & YMM) != YMM)
        return false;
    return isa == ZN_ISA_AVX2 || ((b7 & avx512) == avx512 && (saved_registers() & ZMM) == ZMM);
}

static bool x86_has_int8(zn_isa isa)
{
    const uint32_t avx_vnni = 1u << 4; /* leaf 7, 1, EAX */
    uint32_t most, a, b, c, d, c7;

    if (!__get_cpuid_count(7, 0, &most, &b, &c7, &d))
        return false;
    if (isa == ZN_ISA_AVX512)
        return (c7 & bit_AVX512VNNI) != 0;
    return isa == ZN_ISA_AVX2 && most >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni) != 0;
}

/* AMX: the operating system saves its registers, too (bits 17 and 18). */
static unsigned x86_half(void)
{
    enum { AMX_STATE = 3 << 17 };
    const uint32_t avx512_bf16 = 1u << 5;     /* leaf 7, 1, EAX */
    const uint32_t amx = 1u << 22 | 1u << 24; /* leaf 7, 0, EDX: AMX-BF16, AMX-TILE ... */
    const uint32_t avx512_fp16 = 1u << 23;    /* ... likewise */
    uint32_t most, a, b, c, d, d7;
    unsigned has = 0;

    if (!__get_cpuid_count(7, 0, &most, &b, &c, &d7))
        return 0;
    if (most >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx512_bf16))
        has |= ZN_HALF_BF16;
    if (d7 & avx512_fp16)
        has |= ZN_HALF_FP16;
    if ((d7 & amx) == amx && (saved_registers() & AMX_STATE) == AMX_STATE)
        has |= ZN_HALF_AMX;
    return has;
}
#endif

#if ZN_ARCH_ARM && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

#ifndef HWCAP2_I8MM /* Linux 5.6 */
#define HWCAP2_I8MM (1 << 13)
#endif
#ifndef HWCAP2_BF16
#define HWCAP2_BF16 (1 << 14)
#endif

static zn_int8 arm_int8(void)
{
    if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0)
        return ZN_INT8_NONE;
    return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0 ? ZN_INT8_MATRICES : ZN_INT8_DOTS;
}

static unsigned arm_half(void)
{
    return ((getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0 ? ZN_HALF_FP16 : 0) |
        ((getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? ZN_HALF_BF16 : 0);
}
#endif

bool zn_cpu_has(zn_isa isa)
{
    switch (isa) {
    case ZN_ISA_SCALAR:
        return true;
    case ZN_ISA_NEON:
#if ZN_ARCH_ARM && defined(__linux__)
        return (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
#else
        return ZN_ARCH_ARM; /* part of every other aarch64 system */
#endif
    case ZN_ISA_AVX2:
    case ZN_ISA_AVX512:
#if ZN_ARCH_X86
        return x86_has(isa);
#else
        return false;
#endif
    }
    return false;
}

zn_int8 zn_cpu_int8(zn_isa isa)
{
    if (!zn_cpu_has(isa))
        return ZN_INT8_NONE;
#if ZN_ARCH_X86
    return x86_has_int8(isa) ? ZN_INT8_DOTS : ZN_INT8_NONE;
#elif ZN_ARCH_ARM && defined(__linux__)
    return isa == ZN_ISA_NEON ? arm_int8() : ZN_INT8_NONE;
#else
    return ZN_INT8_NONE;
#endif
}

unsigned zn_cpu_half(zn_isa isa)
{
    if (!zn_cpu_has(isa))
        return 0;
#if ZN_ARCH_X86
    return isa == ZN_ISA_AVX512 ? x86_half() : 0;
#elif ZN_ARCH_ARM && defined(__linux__)
    return isa == ZN_ISA_NEON ? arm_half() : 0;
#else
    return 0;
#endif
}
