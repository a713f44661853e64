/* SPDX-License-Identifier: MIT */
/* driver.c - loads libvulkan, makes the one instance, and looks up its functions. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static zn_vk_api api;
static bool usable;
static zn_error why; /* if it is not */

static bool find_calls(PFN_vkGetInstanceProcAddr get)
{
    PFN_vkVoidFunction f;

#define FIND(name)                                                                                                     \
    f = get(api.instance, #name);                                                                                      \
    if (!f) {                                                                                                          \
        zn_fail(&why, ZN_E_DEVICE, "the Vulkan loader is too old: it has no %s", #name);                               \
        return false;                                                                                                  \
    }                                                                                                                  \
    api.name = (PFN_##name)f;
    ZN_VK_CALLS(FIND)
#undef FIND
    f = get(api.instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    api.matrices = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)f;
    return true;
}

static bool make_instance(PFN_vkGetInstanceProcAddr get)
{
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .pApplicationName = "zenith",
                                    .apiVersion = VK_API_VERSION_1_1 };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    PFN_vkEnumerateInstanceVersion version = (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    uint32_t has = 0;
    VkResult r;

    if (!create || !version || version(&has) != VK_SUCCESS || has < VK_API_VERSION_1_1) {
        zn_fail(&why, ZN_E_DEVICE, "the Vulkan loader is too old: it has no %s", "Vulkan 1.1");
        return false;
    }
    r = create(&info, NULL, &api.instance);
    if (r != VK_SUCCESS) {
        zn_fail(&why, ZN_E_DEVICE, "Vulkan does not start (error %d)", (int)r);
        return false;
    }
    return true;
}

static void load(void)
{
    void *lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = lib ? dlsym(lib, "vkGetInstanceProcAddr") : NULL;
    PFN_vkGetInstanceProcAddr get;

    if (!found) {
        zn_fail(&why, ZN_E_DEVICE, "no Vulkan loader (libvulkan.so.1) on this machine");
        return;
    }
    memcpy(&get, &found, sizeof get); /* ISO C has no cast from void * to a function */
    usable = make_instance(get) && find_calls(get);
}

const zn_vk_api *zn_vk_load(zn_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (usable)
        return &api;
    zn_fail(err, ZN_E_DEVICE, "%s", why.text);
    return NULL;
}
