/* SPDX-License-Identifier: MIT */
/* nets.h - the networks that can be trained, as nodes; their parameters have the names of the weight files.
 */
#ifndef ZN_NETS_H
#define ZN_NETS_H

#include "../core/weights.h"
#include "net.h"

/* The picture is node 0.  residual: the named extension. */
bool zn_build_zenith_ae(zn_net *net, int batch, int size, int base, bool slm, bool residual);
bool zn_build_conv_baseline(zn_net *net, int batch, int size, int base);

/* Encoder and decoder of an autoencoder of the first document, "zenith-taesd", "zenith-lite",
 * "zenith-spectral" or "vanilla-taesd", whose gates are as long as the picture; act: the named extension, or
 * ZN_NONE. */
bool zn_build_autoencoder(zn_net *net, int batch, int size, int base, const char *model, zn_act act);

/* A denoiser with the levels and widths of the file.  Node 0: picture and noise map, unshuffled by 2, 24
 * channels; node 1: the picture.  False: not a denoiser, or size does not fit. */
bool zn_build_denoiser(zn_net *net, int batch, int size, const zn_weights *w);

/* Parameters from a file; prefix: before each name.  A sentence names what is missing. */
zn_status zn_net_load(zn_net *net, real *to, const zn_weights *w, const char *prefix, zn_error *err);

#endif
