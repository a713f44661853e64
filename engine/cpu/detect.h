/* SPDX-License-Identifier: MIT */
/* detect.h - what this CPU can do, and what this build can use of it. */
#ifndef ZN_DETECT_H
#define ZN_DETECT_H

#include <stdbool.h>

#if defined(__x86_64__)
#define ZN_ARCH_X86 1
#define ZN_ARCH_NAME "x86-64"
#else
#define ZN_ARCH_X86 0
#endif

#if defined(__aarch64__) && defined(__LITTLE_ENDIAN__) ||                                                              \
    defined(__aarch64__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ZN_ARCH_ARM 1
#define ZN_ARCH_NAME "aarch64"
#else
#define ZN_ARCH_ARM 0
#endif

#ifndef ZN_ARCH_NAME
#define ZN_ARCH_NAME "of another kind"
#endif

typedef enum zn_isa { ZN_ISA_SCALAR, ZN_ISA_NEON, ZN_ISA_AVX2, ZN_ISA_AVX512 } zn_isa;

/* True if the CPU and the operating system support it (ZN_ISA_SCALAR: always). */
bool zn_cpu_has(zn_isa isa);

/* What a CPU with `isa` also has for int8: dot products (FEAT_DotProd for NEON, AVX-VNNI for AVX2, AVX-512 VNNI), and products
 * of small matrices (FEAT_I8MM for NEON). */
typedef enum zn_int8 { ZN_INT8_NONE, ZN_INT8_DOTS, ZN_INT8_MATRICES } zn_int8;
enum { ZN_N_INT8 = ZN_INT8_MATRICES + 1 };

zn_int8 zn_cpu_int8(zn_isa isa);

/* What it also has for 16 bits, a sum of these: arithmetic in fp16 (FEAT_FP16, AVX-512 FP16), and products of bf16 (FEAT_BF16, AVX-512 BF16),
 * by tiles (AMX). */
enum { ZN_HALF_FP16 = 1, ZN_HALF_BF16 = 2, ZN_HALF_AMX = 4 };

unsigned zn_cpu_half(zn_isa isa);

#endif
