/* SPDX-License-Identifier: MIT */
/* lost.c - a libvulkan.so.1 that passes everything on to the real one, whose path is in REAL_VULKAN, until the device is lost:
 * submission LOST_AT and those after it fail. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

static PFN_vkGetInstanceProcAddr real;
static PFN_vkQueueSubmit real_submit;
static int submitted;

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    const char *at = getenv("LOST_AT");

    return at && submitted++ >= atoi(at) ? VK_ERROR_DEVICE_LOST : real_submit(queue, n, info, fence);
}

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name);

PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    if (!real) {
        const char *path = getenv("REAL_VULKAN");
        void *lib = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL),
             *f = lib ? dlsym(lib, "vkGetInstanceProcAddr") : NULL;

        if (!f)
            return NULL;
        memcpy(&real, &f, sizeof real);
    }
    if (strcmp(name, "vkQueueSubmit"))
        return real(instance, name);
    real_submit = (PFN_vkQueueSubmit)real(instance, name);
    return (PFN_vkVoidFunction)submit;
}
