/* SPDX-License-Identifier: MIT */
/* unroll.h - for loops over vectors: arrays are in registers only if a loop is inlined and unrolled. */
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL_FOR _Pragma("clang loop unroll(full)") for
#else
#define UNROLL_FOR _Pragma("GCC unroll 32") for
#endif
