/* SPDX-License-Identifier: MIT */
/* winograd.h - 3x3 convolutions of stride 1 through Winograd's transforms; see winograd.c. */
#ifndef ZN_WINOGRAD_H
#define ZN_WINOGRAD_H

#include "device.h"

#ifndef ZN_WINO_F63
#define ZN_WINO_F63 64 /* F(6,3) up to this many input channels, F(4,3) beyond */
#endif

bool zn_winograd_suits(const zn_kernels *k, const zn_conv *w);
size_t zn_winograd_size(const zn_kernels *k, const zn_conv *w);
void zn_winograd_pack(const zn_kernels *k, const zn_conv *w, const float *weight, const float *bias);
void zn_winograd(zn_cpu *d, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);

#endif
