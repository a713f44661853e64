/* SPDX-License-Identifier: MIT */
/* cache.h - the pipelines that the driver has compiled, kept in the user's cache folder. */
#ifndef ZN_VULKAN_CACHE_H
#define ZN_VULKAN_CACHE_H

#include "vulkan.h"

/* With what the file holds, if it is whole and of this device and driver; else empty. */
VkPipelineCache zn_vk_cache_open(zn_vk *d);
/* Writes the file if something was compiled that it lacks. */
void zn_vk_cache_close(zn_vk *d, VkPipelineCache cache, bool used);

#endif
