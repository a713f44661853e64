/* SPDX-License-Identifier: MIT */
/* op-types.h - the lists that a user chooses from.  The names of the types and the nicks of their
 * values are in users' files: only add, at the end of a list. */

#ifndef __ZENITH_OP_TYPES_H__
#define __ZENITH_OP_TYPES_H__

#include <glib-object.h>

/* X (value, what a user sees, nick) */
#define ZENITH_ENGINES(X)                                                                          \
  X (ZENITH_ENGINE_AUTO, N_ ("Automatic"), "auto")                                                 \
  X (ZENITH_ENGINE_SCALAR, N_ ("Plain C"), "scalar")                                               \
  X (ZENITH_ENGINE_AVX2, N_ ("AVX2"), "avx2")                                                      \
  X (ZENITH_ENGINE_AVX512, N_ ("AVX-512"), "avx512")                                               \
  X (ZENITH_ENGINE_NEON, N_ ("NEON"), "neon")                                                      \
  X (ZENITH_ENGINE_CUDA, N_ ("CUDA (GPU)"), "cuda")                                                \
  X (ZENITH_ENGINE_VULKAN, N_ ("Vulkan (GPU)"), "vulkan")

#define ZENITH_PRECISIONS(X)                                                                       \
  X (ZENITH_PRECISION_AUTO, N_ ("Automatic"), "auto")                                              \
  X (ZENITH_PRECISION_FP32, N_ ("32-bit float"), "fp32")                                           \
  X (ZENITH_PRECISION_TF32, N_ ("TensorFloat-32"), "tf32")                                         \
  X (ZENITH_PRECISION_BF16, N_ ("bfloat16"), "bf16")                                               \
  X (ZENITH_PRECISION_FP16, N_ ("16-bit float"), "fp16")                                           \
  X (ZENITH_PRECISION_FP8, N_ ("8-bit float"), "fp8")                                              \
  X (ZENITH_PRECISION_INT8, N_ ("8-bit integer"), "int8")                                          \
  X (ZENITH_PRECISION_INT4, N_ ("4-bit integer"), "int4")

#define ZENITH_AUTOENCODERS(X)                                                                     \
  X (ZENITH_AUTOENCODER_ZENITH, N_ ("Zenith"), "zenith")                                           \
  X (ZENITH_AUTOENCODER_TAESD, N_ ("TAESD (SD 1, SD 2)"), "taesd")                                 \
  X (ZENITH_AUTOENCODER_TAESDXL, N_ ("TAESDXL (SDXL)"), "taesdxl")                                 \
  X (ZENITH_AUTOENCODER_TAESD3, N_ ("TAESD3 (SD 3)"), "taesd3")                                    \
  X (ZENITH_AUTOENCODER_TAEF1, N_ ("TAEF1 (FLUX.1, Z-Image)"), "taef1")                            \
  X (ZENITH_AUTOENCODER_TAEF2, N_ ("TAEF2 (FLUX.2)"), "taef2")                                     \
  X (ZENITH_AUTOENCODER_TAESANA, N_ ("TAESANA (Sana)"), "taesana")                                 \
  X (ZENITH_AUTOENCODER_FLUX, N_ ("AutoencoderKL (FLUX.1, Z-Image, SD, SDXL)"), "flux-ae")         \
  X (ZENITH_AUTOENCODER_WAN, N_ ("Wan VAE (Wan 2.1, Wan 2.2)"), "wan-vae")                         \
  X (ZENITH_AUTOENCODER_WAN2D, N_ ("2-D Wan VAE"), "wan2d-vae")                                    \
  X (ZENITH_AUTOENCODER_LITE, N_ ("Zenith Lite (same latents, faster)"), "zenith-lite")            \
  X (ZENITH_AUTOENCODER_TAE, N_ ("Zenith TAE (TAESD's layout)"), "zenith-tae")                     \
  X (ZENITH_AUTOENCODER_F2, N_ ("Zenith F2 (FLUX.2, as TAEF2)"), "zenith-f2")                      \
  X (ZENITH_AUTOENCODER_DOC_TAESD, N_ ("Zenith-TAESD"), "zenith-taesd")                            \
  X (ZENITH_AUTOENCODER_DOC_LITE, N_ ("Zenith-TAESD Lite"), "zenith-lite-doc")                     \
  X (ZENITH_AUTOENCODER_DOC_SPECTRAL, N_ ("Zenith-TAESD Spectral"), "zenith-spectral")             \
  X (ZENITH_AUTOENCODER_DOC_VANILLA, N_ ("Vanilla TAESD"), "vanilla-taesd")                        \
  X (ZENITH_AUTOENCODER_AE, N_ ("Zenith-AE"), "zenith-ae")                                         \
  X (ZENITH_AUTOENCODER_PRUNE, N_ ("Zenith-Prune"), "zenith-prune")                                \
  X (ZENITH_AUTOENCODER_BASELINE, N_ ("Convolutional Baseline"), "conv-baseline-ae")

#define ZENITH_LATENT_MODES(X)                                                                     \
  X (ZENITH_LATENT_MODE_RECONSTRUCT, N_ ("Reconstruct"), "reconstruct")                            \
  X (ZENITH_LATENT_MODE_LATENT, N_ ("Latent"), "latent")                                           \
  X (ZENITH_LATENT_MODE_DIFFERENCE, N_ ("Difference"), "difference")

#define ZENITH_DENOISE_MODELS(X)                                                                   \
  X (ZENITH_DENOISE_MODEL_FAST, N_ ("Fast"), "fast")                                               \
  X (ZENITH_DENOISE_MODEL_BALANCED, N_ ("Balanced"), "balanced")                                   \
  X (ZENITH_DENOISE_MODEL_BEST, N_ ("Best"), "best")

#define ZENITH_UPSCALE_MODELS(X)                                                                   \
  X (ZENITH_UPSCALE_MODEL_FAITHFUL, N_ ("Faithful"), "faithful")                                   \
  X (ZENITH_UPSCALE_MODEL_SMALL, N_ ("Fast"), "small")                                             \
  X (ZENITH_UPSCALE_MODEL_CRISP, N_ ("Crisp"), "crisp")

#define ZN_OP_VALUE(value, name, nick) value,

/* clang-format off */
typedef enum { ZENITH_ENGINES (ZN_OP_VALUE) } ZenithEngine;
typedef enum { ZENITH_PRECISIONS (ZN_OP_VALUE) } ZenithPrecision;
typedef enum { ZENITH_AUTOENCODERS (ZN_OP_VALUE) } ZenithAutoencoder;
typedef enum { ZENITH_LATENT_MODES (ZN_OP_VALUE) } ZenithLatentMode;
typedef enum { ZENITH_DENOISE_MODELS (ZN_OP_VALUE) } ZenithDenoiseModel;
typedef enum { ZENITH_UPSCALE_MODELS (ZN_OP_VALUE) } ZenithUpscaleModel;
/* clang-format on */

GType zenith_engine_get_type (void);
GType zenith_precision_get_type (void);
GType zenith_autoencoder_get_type (void);
GType zenith_latent_mode_get_type (void);
GType zenith_denoise_model_get_type (void);
GType zenith_upscale_model_get_type (void);

/* The nick of a value of one of these types: "avx2". */
const gchar *zn_op_nick (GType type, gint value);

#endif
