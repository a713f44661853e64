/* SPDX-License-Identifier: MIT */
/* absent.c - a build without Vulkan: the engine says so. */
#include "../backend.h"

static zn_status absent_open(void **dev, int n_threads, zn_error *err)
{
    (void)n_threads;
    *dev = NULL;
    return zn_fail(err, ZN_E_DEVICE, "this build has no Vulkan");
}

const zn_backend zn_backend_vulkan = { .abi = ZN_BACKEND_ABI, .name = "vulkan", .remote = true, .open = absent_open };
