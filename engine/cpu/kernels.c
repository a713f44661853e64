/* SPDX-License-Identifier: MIT */
#include "kernels.h"

const zn_kernels *zn_kernels_for(zn_isa isa, zn_error *err)
{
    static const struct {
        const char *name, *needs;
        const zn_kernels *table; /* NULL: not in this build */
    } list[] = {
        [ZN_ISA_SCALAR] = { "scalar", "", &zn_kernels_scalar },
#if ZN_ARCH_ARM
        [ZN_ISA_NEON] = { "neon", ZN_TR("an aarch64 CPU"), &zn_kernels_neon },
#else
        [ZN_ISA_NEON] = { "neon", ZN_TR("an aarch64 CPU"), NULL },
#endif
#if ZN_ARCH_X86
        [ZN_ISA_AVX2] = { "avx2", ZN_TR("an x86-64 CPU with AVX2, FMA and F16C"), &zn_kernels_avx2 },
        [ZN_ISA_AVX512] = { "avx512", ZN_TR("an x86-64 CPU with AVX-512 F, BW, DQ and VL"), &zn_kernels_avx512 },
#else
        [ZN_ISA_AVX2] = { "avx2", ZN_TR("an x86-64 CPU"), NULL },
        [ZN_ISA_AVX512] = { "avx512", ZN_TR("an x86-64 CPU"), NULL },
#endif
    };

    if (!list[isa].table) {
        zn_fail(err, ZN_E_DEVICE, "%s needs %s; this one is %s", list[isa].name, zn_tr(list[isa].needs), ZN_ARCH_NAME);
        return NULL;
    }
    if (!zn_cpu_has(isa)) {
        zn_fail(err, ZN_E_DEVICE, "%s needs %s; this one lacks it", list[isa].name, zn_tr(list[isa].needs));
        return NULL;
    }
    return list[isa].table;
}
