/* SPDX-License-Identifier: MIT */
/* absent.c - replaces the Vulkan backend in a build without it, and reports that. */
#include "../backend.h"

static zn_status absent_open(void **dev, int n_threads, zn_error *err)
{
    (void)n_threads;
    *dev = NULL;
    return zn_fail(err, ZN_E_DEVICE,
                   "this build has no Vulkan engine: glslc or the Vulkan headers were missing when it was built");
}

const zn_backend zn_backend_vulkan = { .abi = ZN_BACKEND_ABI, .name = "vulkan", .remote = true, .open = absent_open };
