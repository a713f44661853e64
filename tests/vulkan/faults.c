/* SPDX-License-Identifier: MIT */
/* faults.c - a libvulkan.so.1 that passes everything on to the real one, whose path is in REAL_VULKAN, but for what these
 * variables say.  Counts begin with 0; what fails once fails from then on.
 *     LOST_AT=N, LOST_WAIT_AT=N   the device is lost: submissions, or waiting for them
 *     NO_MEMORY_AT=N              allocations of memory fail
 *     BUDGET=BYTES BUDGET_AT=N    what VK_EXT_memory_budget says is free, from question N on; the device seems to have it
 *     TWICE=1                     the first device is there twice
 *     SUBMITTED=FILE              gets the number of submissions and the most ticks of one that was timed */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

static PFN_vkGetInstanceProcAddr real;
static PFN_vkQueueSubmit real_submit;
static PFN_vkWaitForFences real_wait;
static PFN_vkAllocateMemory real_allocate;
static PFN_vkGetPhysicalDeviceMemoryProperties2 real_memory;
static PFN_vkGetQueryPoolResults real_results;
static PFN_vkEnumeratePhysicalDevices real_devices;
static PFN_vkEnumerateDeviceExtensionProperties real_extensions;
static PFN_vkCreateDevice real_create;
static int submitted, waited, allocated, asked;
static unsigned long long longest;

/* Whether call number `n` is to fail. */
static int fails(const char *variable, int n)
{
    const char *at = getenv(variable);

    return at && n >= atoi(at);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    return fails("LOST_AT", submitted++) ? VK_ERROR_DEVICE_LOST : real_submit(queue, n, info, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, uint32_t n, const VkFence *fence, VkBool32 all,
                                           uint64_t limit)
{
    const VkResult r = real_wait(device, n, fence, all, limit); /* the real device must not be busy any more */

    return fails("LOST_WAIT_AT", waited++) ? VK_ERROR_DEVICE_LOST : r;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *own, VkDeviceMemory *memory)
{
    return fails("NO_MEMORY_AT", allocated++) ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                                              : real_allocate(device, info, own, memory);
}

static VKAPI_ATTR void VKAPI_CALL memory(VkPhysicalDevice gpu, VkPhysicalDeviceMemoryProperties2 *m)
{
    real_memory(gpu, m);
    for (VkBaseOutStructure *s = m->pNext; s && getenv("BUDGET"); s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) {
            VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)s;
            const int small = fails("BUDGET_AT", asked++);

            for (uint32_t i = 0; i < m->memoryProperties.memoryHeapCount; i++) {
                budget->heapBudget[i] =
                    small ? strtoull(getenv("BUDGET"), NULL, 10) : m->memoryProperties.memoryHeaps[i].size;
                budget->heapUsage[i] = 0;
            }
        }
}

static VKAPI_ATTR VkResult VKAPI_CALL devices(VkInstance instance, uint32_t *n, VkPhysicalDevice *list)
{
    const uint32_t room = *n;
    const VkResult r = real_devices(instance, n, list);

    if (getenv("TWICE") && list && *n && *n < room) {
        list[*n] = list[0];
        ++*n;
    }
    return r;
}

static const char extension[] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;

/* One more than there are. */
static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice gpu, const char *layer, uint32_t *n,
                                                 VkExtensionProperties *list)
{
    VkResult r;

    if (!getenv("BUDGET"))
        return real_extensions(gpu, layer, n, list);
    if (list)
        --*n;
    r = real_extensions(gpu, layer, n, list);
    if (list)
        memcpy(list[*n].extensionName, extension, sizeof extension);
    ++*n;
    return r;
}

static VKAPI_ATTR VkResult VKAPI_CALL create(VkPhysicalDevice gpu, const VkDeviceCreateInfo *info,
                                             const VkAllocationCallbacks *own, VkDevice *device)
{
    VkDeviceCreateInfo without = *info;
    const char *list[64];

    without.enabledExtensionCount = 0;
    without.ppEnabledExtensionNames = list;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (!getenv("BUDGET") || strcmp(info->ppEnabledExtensionNames[i], extension))
            list[without.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    return real_create(gpu, &without, own, device);
}

static VKAPI_ATTR VkResult VKAPI_CALL results(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t n,
                                              size_t size, void *data, VkDeviceSize stride, VkQueryResultFlags flags)
{
    const VkResult r = real_results(device, pool, first, n, size, data, stride, flags);
    const uint64_t *t = data;

    if (r == VK_SUCCESS && n > 1 && t[n - 1] - t[0] > longest)
        longest = t[n - 1] - t[0];
    return r;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SUBMITTED");
    FILE *f = path && submitted ? fopen(path, "w") : NULL;

    if (f) {
        fprintf(f, "%d %llu\n", submitted, longest);
        fclose(f);
    }
}

static const struct {
    const char *name;
    PFN_vkVoidFunction ours, *theirs;
} calls[] = {
    { "vkQueueSubmit", (PFN_vkVoidFunction)submit, (PFN_vkVoidFunction *)&real_submit },
    { "vkWaitForFences", (PFN_vkVoidFunction)wait, (PFN_vkVoidFunction *)&real_wait },
    { "vkAllocateMemory", (PFN_vkVoidFunction)allocate, (PFN_vkVoidFunction *)&real_allocate },
    { "vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)memory, (PFN_vkVoidFunction *)&real_memory },
    { "vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)devices, (PFN_vkVoidFunction *)&real_devices },
    { "vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)extensions, (PFN_vkVoidFunction *)&real_extensions },
    { "vkCreateDevice", (PFN_vkVoidFunction)create, (PFN_vkVoidFunction *)&real_create },
    { "vkGetQueryPoolResults", (PFN_vkVoidFunction)results, (PFN_vkVoidFunction *)&real_results },
};

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
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(name, calls[i].name)) {
            *calls[i].theirs = real(instance, name);
            return calls[i].ours;
        }
    return real(instance, name);
}
