/* SPDX-License-Identifier: MIT */
/* composites.c - every composite, one line each: models that own no weights and run others (see zn_arch.parts).  They
 * follow the networks of models/registry.c in `zenith models`. */
#include "model.h"

extern const zn_arch zn_arch_diffae_reverse, zn_arch_diffae_sample, zn_arch_diffae_latent_sample;
extern const zn_arch zn_arch_z_image_dit, zn_arch_z_image_sample;

const zn_arch *const zn_composites[] = { &zn_arch_diffae_reverse,       &zn_arch_diffae_sample,
                                         &zn_arch_diffae_latent_sample, &zn_arch_z_image_dit,
                                         &zn_arch_z_image_sample,       NULL };
