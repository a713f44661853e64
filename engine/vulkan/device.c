/* SPDX-License-Identifier: MIT */
/* device.c - which Vulkan device is taken, and what it offers. */
#include "vulkan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 16, MAX_FAMILIES = 16, THREADS = 256 };

/* ---- which device --------------------------------------------------------------------------------------------------- */

static bool has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i].extensionName, name))
            return true;
    return false;
}

/* Whether `part` is in `name`, without regard to case. */
static bool names(const char *name, const char *part)
{
    for (; *name; name++) {
        size_t i = 0;

        while (part[i] && tolower((unsigned char)name[i]) == tolower((unsigned char)part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return false;
}

int zn_vk_rank(VkPhysicalDeviceType t)
{
    switch (t) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return 0;
    default:
        return 1;
    }
}

/* Storage buffers, invocations and push constants: desktop GPUs have more. */
static bool suffices(const VkPhysicalDeviceProperties *p)
{
    return p->apiVersion >= VK_API_VERSION_1_1 && p->limits.maxPerStageDescriptorStorageBuffers >= ZN_VK_BINDINGS &&
        p->limits.maxPerStageResources >= ZN_VK_BINDINGS && p->limits.maxComputeWorkGroupInvocations >= THREADS &&
        p->limits.maxComputeWorkGroupSize[0] >= THREADS && p->limits.maxComputeSharedMemorySize >= 16384 &&
        p->limits.maxPushConstantsSize >= ZN_VK_BINDINGS * 4 + ZN_VK_ARGS &&
        p->limits.minStorageBufferOffsetAlignment <= 256;
}

/* Adds a device to d->list, by its name without what is in brackets: those of describe() are the only ones then. */
static void list_device(zn_vk *d, uint32_t i, const char *name)
{
    const size_t len = strlen(d->list);
    char plain[48] = "";
    int depth = 0;

    for (size_t n = 0; *name && n + 1 < sizeof plain; name++) {
        depth += *name == '(';
        if (!depth && (*name != ' ' || (name[1] && name[1] != '(')))
            plain[n++] = *name;
        depth -= *name == ')' && depth > 0;
    }
    snprintf(d->list + len, sizeof d->list - len, "%s%u %s", i ? ", " : "", (unsigned)i, plain);
}

/* ZENITH_VULKAN_DEVICE is a number of the list or a part of a name; without it the best device is taken, but none that is
 * software: a CPU engine is faster. */
static bool choose(zn_vk *d, zn_error *err)
{
    const char *asked = getenv("ZENITH_VULKAN_DEVICE");
    VkPhysicalDevice list[MAX_DEVICES];
    uint32_t n = MAX_DEVICES;
    int best = 0;
    bool software = false;
    char *end;
    const long number = asked && *asked ? strtol(asked, &end, 10) : -1;
    const bool by_number = asked && *asked && !*end;
    VkResult r = d->api->vkEnumeratePhysicalDevices(d->api->instance, &n, list);

    if ((r != VK_SUCCESS && r != VK_INCOMPLETE) || !n) {
        zn_fail(err, ZN_E_DEVICE, "Vulkan finds no GPU");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };

        d->api->vkGetPhysicalDeviceProperties2(list[i], &p);
        list_device(d, i, p.properties.deviceName);
        if (asked && *asked && (by_number ? (long)i != number : !names(p.properties.deviceName, asked)))
            continue;
        const int score = zn_vk_rank(p.properties.deviceType) + (asked && *asked ? 1 : 0);

        software = software || zn_vk_rank(p.properties.deviceType) == 0;
        if (suffices(&p.properties) && score > best) {
            best = score;
            d->gpu = list[i];
        }
    }
    if (best) {
        if (n < 2)
            d->list[0] = 0;
        return true;
    }
    if (asked && *asked)
        zn_fail(err, ZN_E_DEVICE, "no Vulkan device that can be used is called '%.60s'; there are: %.160s", asked,
                d->list);
    else if (software)
        zn_fail(err, ZN_E_DEVICE, "Vulkan finds no GPU, only a device in software");
    else
        zn_fail(err, ZN_E_DEVICE, "no GPU here has what is needed of Vulkan 1.1");
    return false;
}

/* ---- what it offers --------------------------------------------------------------------------------------------------- */

/* The extensions that are used if they are there, with their features; `chain` is for vkCreateDevice. */
typedef struct offers {
    VkExtensionProperties *list;
    uint32_t n;
    const char *enable[8];
    uint32_t n_enable;
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDevice16BitStorageFeatures half;
    VkPhysicalDeviceShaderFloat16Int8FeaturesKHR math;
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT subgroups;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices;
    VkPhysicalDeviceVulkanMemoryModelFeaturesKHR model;
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR integers;
} offers;

/* Adds a structure to the chain if the device has its extension. */
static bool offer(offers *o, const char *extension, void *features)
{
    VkBaseOutStructure *s = features;

    if (!has_extension(o->list, o->n, extension))
        return false;
    o->enable[o->n_enable++] = extension;
    if (s) {
        s->pNext = o->features.pNext;
        o->features.pNext = s;
    }
    return true;
}

/* Whether whole subgroups of 32 can be asked for: of a device whose own choice may be 64, too. */
static bool has_subgroups(const zn_vk *d, const offers *o)
{
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT
    };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes };

    if (!o->subgroups.subgroupSizeControl || !o->subgroups.computeFullSubgroups)
        return false;
    d->api->vkGetPhysicalDeviceProperties2(d->gpu, &p);
    return sizes.minSubgroupSize <= 32 && sizes.maxSubgroupSize >= 32 &&
        sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
}

/* fp16 products of 16x16x16 with sums in fp32, in subgroups of 32. */
static bool has_matrices(const zn_vk *d)
{
    enum { MOST = 128 };
    VkCooperativeMatrixPropertiesKHR p[MOST];
    uint32_t n = MOST;
    VkResult r;

    if (!d->api->matrices || (d->has.subgroup != 32 && !d->has.full_subgroups))
        return false;
    for (int i = 0; i < MOST; i++)
        p[i] = (VkCooperativeMatrixPropertiesKHR){ .sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR };
    r = d->api->matrices(d->gpu, &n, p);
    for (uint32_t i = 0; i < n && (r == VK_SUCCESS || r == VK_INCOMPLETE); i++)
        if (p[i].MSize == 16 && p[i].NSize == 16 && p[i].KSize == 16 && p[i].AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
            p[i].BType == VK_COMPONENT_TYPE_FLOAT16_KHR && p[i].CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
            p[i].ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && p[i].scope == VK_SCOPE_SUBGROUP_KHR)
            return true;
    return false;
}

/* Whether four products of int8 are one instruction, and nothing faster is there.  $ZENITH_VULKAN_INTEGERS=0: no; 1: wherever the
 * driver has them. */
static bool use_integers(const zn_vk *d)
{
    const char *wanted = getenv("ZENITH_VULKAN_INTEGERS");
    VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR how = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR
    };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &how };

    if (!d->has.half || !d->has.dots || (wanted && !strcmp(wanted, "0")))
        return false;
    if (wanted && !strcmp(wanted, "1"))
        return true;
    d->api->vkGetPhysicalDeviceProperties2(d->gpu, &p);
    return !d->has.matrices && d->has.type != VK_PHYSICAL_DEVICE_TYPE_CPU &&
        how.integerDotProduct4x8BitPackedSignedAccelerated;
}

static void find_features(zn_vk *d, offers *o)
{
    const char *wanted = getenv("ZENITH_VULKAN_MATRICES"); /* 0, plain: as if there were none; see vulkan.h */

    o->features =
        (VkPhysicalDeviceFeatures2){ .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &o->half };
    o->half.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    o->math.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES_KHR;
    o->subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT;
    o->matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    o->model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES_KHR;
    o->integers.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR;
    offer(o, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, &o->integers);
    offer(o, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, &o->math);
    offer(o, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, &o->subgroups);
    d->has.budget = offer(o, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, NULL);
    if (offer(o, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, &o->matrices))
        offer(o, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, &o->model);
    d->api->vkGetPhysicalDeviceFeatures2(d->gpu, &o->features);
    o->features.features = (VkPhysicalDeviceFeatures){ .shaderInt16 = VK_FALSE }; /* none of the first ones is used */
    d->has.half = o->half.storageBuffer16BitAccess;
    d->has.half_math = o->math.shaderFloat16;
    d->has.soft_half = d->has.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    d->has.full_subgroups = has_subgroups(d, o);
    d->has.emulated =
        d->has.half && d->has.type == VK_PHYSICAL_DEVICE_TYPE_CPU && wanted && !strcmp(wanted, "emulated");
    d->has.matrices = d->has.emulated ||
        (d->has.half && d->has.half_math && o->matrices.cooperativeMatrix &&
         (!wanted || (strcmp(wanted, "0") && strcmp(wanted, "plain"))) && has_matrices(d));
    d->has.packed = d->has.half &&
        (d->has.soft_half ? wanted && !strcmp(wanted, "packed")
                          : d->has.half_math && (!wanted || strcmp(wanted, "plain")));
    d->has.dots = o->integers.shaderIntegerDotProduct;
    d->has.integers = use_integers(d);
}

static void find_limits(zn_vk *d)
{
    VkPhysicalDeviceSubgroupProperties sub = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES };
    VkPhysicalDeviceMaintenance3Properties m3 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                                                  .pNext = &sub };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &m3 };

    d->api->vkGetPhysicalDeviceProperties2(d->gpu, &p);
    snprintf(d->name, sizeof d->name, "%.95s", p.properties.deviceName);
    d->has.type = p.properties.deviceType;
    d->has.subgroup = sub.subgroupSize;
    d->has.shared = p.properties.limits.maxComputeSharedMemorySize;
    d->has.align = (uint32_t)p.properties.limits.minStorageBufferOffsetAlignment;
    if (d->has.align < 16)
        d->has.align = 16;
    d->has.range = p.properties.limits.maxStorageBufferRange;
    d->has.block = (size_t)m3.maxMemoryAllocationSize;
    d->has.tick_ns = (double)p.properties.limits.timestampPeriod;
}

/* A queue for computing alone, if there is one: it does not delay what draws the screen. */
static bool find_queue(zn_vk *d, zn_error *err)
{
    VkQueueFamilyProperties list[MAX_FAMILIES];
    uint32_t n = MAX_FAMILIES;
    int best = -1;

    d->api->vkGetPhysicalDeviceQueueFamilyProperties(d->gpu, &n, list);
    for (uint32_t i = 0; i < n; i++)
        if (list[i].queueCount && list[i].queueFlags & VK_QUEUE_COMPUTE_BIT &&
            (best < 0 ||
             (list[best].queueFlags & VK_QUEUE_GRAPHICS_BIT && !(list[i].queueFlags & VK_QUEUE_GRAPHICS_BIT))))
            best = (int)i;
    if (best < 0) {
        zn_fail(err, ZN_E_DEVICE, "no GPU here has what is needed of Vulkan 1.1");
        return false;
    }
    d->family = (uint32_t)best;
    if (!list[best].timestampValidBits)
        d->has.tick_ns = 0;
    return true;
}

static bool open_device(zn_vk *d, zn_error *err)
{
    const float priority = 0;
    VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                      .queueCount = 1,
                                      .pQueuePriorities = &priority };
    VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                .queueCreateInfoCount = 1,
                                .pQueueCreateInfos = &queue };
    offers o = { 0 };
    VkResult r;

    find_limits(d);
    if (!find_queue(d, err))
        return false;
    d->api->vkEnumerateDeviceExtensionProperties(d->gpu, NULL, &o.n, NULL);
    o.list = calloc(o.n + 1, sizeof *o.list);
    if (o.list)
        d->api->vkEnumerateDeviceExtensionProperties(d->gpu, NULL, &o.n, o.list);
    else
        o.n = 0;
    find_features(d, &o);
    queue.queueFamilyIndex = d->family;
    info.pNext = &o.features;
    info.enabledExtensionCount = o.n_enable;
    info.ppEnabledExtensionNames = o.enable;
    r = d->api->vkCreateDevice(d->gpu, &info, NULL, &d->device);
    free(o.list);
    if (r != VK_SUCCESS) {
        d->device = VK_NULL_HANDLE;
        zn_fail(err, r == VK_ERROR_OUT_OF_DEVICE_MEMORY ? ZN_E_MEMORY : ZN_E_DEVICE, "the GPU failed in %.60s: %.100s",
                "vkCreateDevice", zn_vk_failure(r));
        return false;
    }
    d->api->vkGetDeviceQueue(d->device, d->family, 0, &d->queue);
    return true;
}

/* Three numbers. */
static void read_tile(zn_vk *d)
{
    char *text = getenv("ZENITH_VULKAN_TILE");
    int *to[] = { &d->tile.bm, &d->tile.threads, &d->tile.ahead };

    for (size_t i = 0; text && i < sizeof to / sizeof *to; i++) {
        const long n = strtol(text, &text, 10);

        *to[i] = n >= 0 && n <= 256 ? (int)n : 0;
        text += *text == ',';
    }
}

bool zn_vk_choose(zn_vk *d, zn_error *err)
{
    read_tile(d);
    return choose(d, err) && open_device(d, err);
}
