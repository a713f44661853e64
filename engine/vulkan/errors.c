/* SPDX-License-Identifier: MIT */
/* errors.c - the first failure of a device is kept, as a status and a sentence. */
#include "vulkan.h"

#include <stdio.h>

const char *zn_vk_failure(VkResult r)
{
    switch (r) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return "out of memory";
    case VK_ERROR_DEVICE_LOST:
        return "the device was lost";
    case VK_ERROR_INITIALIZATION_FAILED:
        return "it does not start";
    default:
        return "unknown error";
    }
}

bool zn_vk_ok(zn_vk *d, VkResult r, const char *what)
{
    if (r == VK_SUCCESS)
        return true;
    if (d->status)
        return false;
    d->status = r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY ? ZN_E_MEMORY : ZN_E_DEVICE;
    snprintf(d->text, sizeof d->text, zn_tr("the GPU failed in %.60s: %.100s"), what, zn_vk_failure(r));
    return false;
}

void zn_vk_fail(zn_vk *d, zn_status status, const char *text)
{
    if (d->status)
        return;
    d->status = status;
    snprintf(d->text, sizeof d->text, "%.199s", zn_tr(text));
}
