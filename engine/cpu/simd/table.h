/* SPDX-License-Identifier: MIT */
/* table.h - the kernels of one instruction set, gathered; included last. */

const zn_kernels ZN_FN(zn_kernels) = {
    .vl = VL,
    .mr = MR,
    .nr = NV * VL,
    .peak_flops = 2.0 * MR * NV * VL,
    .gemm = ZN_FN(gemm),
    .depthwise = ZN_FN(depthwise),
    .map = ZN_FN(map),
    .binary = ZN_FN(binary),
    .moment = ZN_FN(moment),
    .norm_row = ZN_FN(norm_row),
    .maximum = ZN_FN(maximum),
    .exp_sum = ZN_FN(exp_sum),
    .lerp = ZN_FN(lerp),
    .peak = ZN_FN(peak),
};
