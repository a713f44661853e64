/* SPDX-License-Identifier: MIT */
/* absent.c - in place of the CUDA backend where it was not built: says so. */
#include "../backend.h"

static void *absent_open(int n_threads, zn_error *err)
{
    (void)n_threads;
    zn_fail(err, ZN_E_DEVICE,
            "this build has no CUDA kernels: no nvcc, or no NVIDIA driver, was there when it was made");
    return NULL;
}

const zn_backend zn_backend_cuda = { .abi = ZN_BACKEND_ABI, .name = "cuda", .remote = true, .open = absent_open };
