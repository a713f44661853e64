/* SPDX-License-Identifier: MIT */
/* table.h - the kernels of one instruction set, gathered; included last. */

const zn_kernels ZN_FN(zn_kernels) = {
    .vl = VL,
    .mr = MR,
    .nr = NV * VL,
    .gemm = ZN_FN(gemm),
    .depthwise = ZN_FN(depthwise),
    .wino_in6 = ZN_FN(wino_in6),
    .wino_in8 = ZN_FN(wino_in8),
    .wino_out4 = ZN_FN(wino_out4),
    .wino_out5 = ZN_FN(wino_out5),
    .wino_out6 = ZN_FN(wino_out6),
    .map = ZN_FN(map),
    .binary = ZN_FN(binary),
    .moment = ZN_FN(moment),
    .norm_row = ZN_FN(norm_row),
    .maximum = ZN_FN(maximum),
    .exp_sum = ZN_FN(exp_sum),
    .lerp = ZN_FN(lerp),
    .fwht = ZN_FN(fwht),
    .fwht_row = ZN_FN(fwht_row),
    .mix_row = ZN_FN(mix_row),
    .slm_row = ZN_FN(slm_row),
    .mask_row = ZN_FN(mask_row),
    .pruned = ZN_FN(pruned),
    .peak = ZN_FN(peak),
};
