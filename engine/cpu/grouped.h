/* SPDX-License-Identifier: MIT */
/* grouped.h - 1x1 convolutions in groups. */
#ifndef ZN_GROUPED_H
#define ZN_GROUPED_H

#include "device.h"

bool zn_grouped_suits(const zn_kernels *k, const zn_conv *w);
size_t zn_grouped_size(const zn_kernels *k, const zn_conv *w);
void zn_grouped_pack(const zn_kernels *k, const zn_conv *w, const float *weight, const float *bias);
void zn_grouped(zn_cpu *d, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);

#endif
