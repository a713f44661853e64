/* SPDX-License-Identifier: MIT */
/* registry.c - every model, one line each, in the order in which `zenith models` shows them. */
#include "arch.h"

#define MODELS(X)                                                                                                      \
    X(taesd_encode)                                                                                                    \
    X(taesd_decode)                                                                                                    \
    X(denoise_fast)                                                                                                    \
    X(denoise_balanced)                                                                                                \
    X(denoise_best)                                                                                                    \
    X(denoise_level)                                                                                                   \
    X(restore)                                                                                                         \
    X(upscale_x2)                                                                                                      \
    X(upscale_x3)                                                                                                      \
    X(upscale_x4)                                                                                                      \
    X(upscale_crisp_x2)                                                                                                \
    X(upscale_crisp_x3)                                                                                                \
    X(upscale_crisp_x4)                                                                                                \
    X(upscale_small_x2)                                                                                                \
    X(upscale_small_x3)                                                                                                \
    X(upscale_small_x4)                                                                                                \
    X(zenith_encode)                                                                                                   \
    X(zenith_decode)                                                                                                   \
    X(zenith_lite_encode)                                                                                              \
    X(zenith_lite_decode)                                                                                              \
    X(zenith_taesd_encode)                                                                                             \
    X(zenith_taesd_decode)                                                                                             \
    X(zenith_lite_doc_encode)                                                                                          \
    X(zenith_lite_doc_decode)                                                                                          \
    X(zenith_spectral_encode)                                                                                          \
    X(zenith_spectral_decode)                                                                                          \
    X(vanilla_taesd_encode)                                                                                            \
    X(vanilla_taesd_decode)                                                                                            \
    X(zenith_ae)                                                                                                       \
    X(zenith_prune)                                                                                                    \
    X(conv_baseline)                                                                                                   \
    X(diffae_encode)                                                                                                   \
    X(diffae_unet)                                                                                                     \
    X(diffae_latent_net)                                                                                               \
    X(flux_ae_encode)                                                                                                  \
    X(flux_ae_decode)                                                                                                  \
    X(wan_vae_encode)                                                                                                  \
    X(wan_vae_decode)                                                                                                  \
    X(wan_video_encode)                                                                                                \
    X(wan_video_decode)                                                                                                \
    X(latent_rgb)                                                                                                      \
    X(sd_latent_rgb)                                                                                                   \
    X(sdxl_latent_rgb)                                                                                                 \
    X(sd3_latent_rgb)                                                                                                  \
    X(flux_latent_rgb)                                                                                                 \
    X(flux2_latent_rgb)                                                                                                \
    X(wan_latent_rgb)                                                                                                  \
    X(wan2d_vae_encode)                                                                                                \
    X(wan2d_vae_decode)                                                                                                \
    X(z_image_text)                                                                                                    \
    X(z_image_caption)                                                                                                 \
    X(z_image_step)                                                                                                    \
    X(face_detect)                                                                                                     \
    X(face_points)                                                                                                     \
    X(face_mouth)                                                                                                      \
    X(template)                                                                                                        \
    X(identity)

#define X(name) extern const zn_arch zn_arch_##name;
MODELS(X)
#undef X

const zn_arch *const zn_archs[] = {
#define X(name) &zn_arch_##name,
    MODELS(X)
#undef X
        NULL
};
