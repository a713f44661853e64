/* SPDX-License-Identifier: MIT */
/* absent.c - replaces the CUDA backend in a build without it, and reports that. */
#include "../backend.h"

static zn_status absent_open(void **dev, int n_threads, zn_error *err)
{
    (void)n_threads;
    *dev = NULL;
    return zn_fail(err, ZN_E_DEVICE,
                   "this build has no CUDA kernels: nvcc or the NVIDIA driver was missing when it was built");
}

const zn_backend zn_backend_cuda = { .abi = ZN_BACKEND_ABI, .name = "cuda", .remote = true, .open = absent_open };
