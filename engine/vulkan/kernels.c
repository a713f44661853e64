/* SPDX-License-Identifier: MIT */
/* kernels.c - the shaders as SPIR-V, and the pipelines made of them: on demand, kept on disk (cache.c). */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"

/* The shaders, as meson.build lists them: NAME reads and writes float32 alone, NAME_h fp16 also, NAME_s the
 * same without the driver's conversions.  A launch may ask for another variant: see vulkan.h. */
#include "shaders.h"

typedef struct pipeline {
    const zn_vk_shader *shader;
    int32_t spec[ZN_VK_FIRST_SPEC + ZN_VK_SPECS];
    zn_vk_made made;
} pipeline;

struct zn_vk_kernels {
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    pipeline **at;
    int n, room;
};

VkPipelineLayout zn_vk_layout(const zn_vk *d)
{
    return d->kernels->layout;
}

VkDescriptorSetLayout zn_vk_set_layout(const zn_vk *d)
{
    return d->kernels->set_layout;
}

static const zn_vk_shader *find_shader(zn_vk *d, const char *name, char variant)
{
    const char own[] = { '_', variant, 0 };
    char whole[64];

    snprintf(whole, sizeof whole, "%.60s%s", name, variant ? own : !d->has.half ? "" : d->has.soft_half ? "_s" : "_h");
    for (size_t i = 0; i < sizeof shaders / sizeof *shaders; i++)
        if (!strcmp(shaders[i].name, whole))
            return &shaders[i];
    d->status = ZN_E_DEVICE;
    snprintf(d->text, sizeof d->text, "there is no Vulkan kernel '%.80s'", name);
    return NULL;
}

/* Compiles the shader with its constants. */
static VkPipeline make(zn_vk *d, const zn_vk_shader *s, const int32_t *spec, bool whole_subgroups)
{
    enum { N = ZN_VK_FIRST_SPEC + ZN_VK_SPECS };
    const VkShaderModuleCreateInfo code = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                            .codeSize = s->size,
                                            .pCode = s->code };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT whole = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
        .requiredSubgroupSize = 32
    };
    VkSpecializationMapEntry entry[N];
    VkSpecializationInfo constants = { N, entry, N * sizeof *spec, spec };
    VkComputePipelineCreateInfo info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                         .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT,
                                         .layout = d->kernels->layout };
    VkPipeline made = VK_NULL_HANDLE;

    for (uint32_t i = 0; i < N; i++)
        entry[i] = (VkSpecializationMapEntry){ i, i * (uint32_t)sizeof *spec, sizeof *spec };
    info.stage = (VkPipelineShaderStageCreateInfo){ .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                    .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                    .pName = "main",
                                                    .pSpecializationInfo = &constants };
    if (whole_subgroups && d->has.full_subgroups) {
        info.stage.pNext = &whole;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    }
    if (!zn_vk_ok(d, d->api->vkCreateShaderModule(d->device, &code, NULL, &info.stage.module), s->name))
        return VK_NULL_HANDLE;
    zn_vk_ok(d, d->api->vkCreateComputePipelines(d->device, d->kernels->cache, 1, &info, NULL, &made), s->name);
    d->api->vkDestroyShaderModule(d->device, info.stage.module, NULL);
    return made;
}

zn_vk_made *zn_vk_pipeline(zn_vk *d, const zn_vk_launch *k)
{
    struct zn_vk_kernels *all = d->kernels;
    const zn_vk_shader *s = find_shader(d, k->kernel, k->variant);
    pipeline p = { .shader = s }, *kept;

    if (!s)
        return NULL;
    for (int i = 0; i < ZN_VK_BINDINGS; i++)
        p.spec[i] = k->t[i].data ? (int32_t)k->t[i].type : ZN_VK_ABSENT;
    memcpy(p.spec + ZN_VK_FIRST_SPEC, k->spec, sizeof k->spec);
    for (int i = 0; i < all->n; i++)
        if (all->at[i]->shader == s && !memcmp(all->at[i]->spec, p.spec, sizeof p.spec))
            return &all->at[i]->made;
    if (all->n == all->room) {
        pipeline **more = realloc(all->at, (size_t)(2 * all->room + 32) * sizeof *more);

        if (!more) {
            zn_vk_fail(d, ZN_E_MEMORY, "out of memory");
            return NULL;
        }
        all->at = more;
        all->room = 2 * all->room + 32;
    }
    kept = malloc(sizeof *kept);
    if (!kept) {
        zn_vk_fail(d, ZN_E_MEMORY, "out of memory");
        return NULL;
    }
    *kept = p;
    kept->made.pipeline = make(d, s, p.spec, k->variant == ZN_VK_MATRICES);
    if (!kept->made.pipeline) {
        free(kept);
        return NULL;
    }
    all->at[all->n++] = kept;
    return &kept->made;
}

static bool make_layouts(zn_vk *d)
{
    VkDescriptorSetLayoutBinding binding[ZN_VK_BINDINGS];
    const VkDescriptorSetLayoutCreateInfo set = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                  .bindingCount = ZN_VK_BINDINGS,
                                                  .pBindings = binding };
    const VkPushConstantRange push = { VK_SHADER_STAGE_COMPUTE_BIT, 0, ZN_VK_BINDINGS * sizeof(uint32_t) + ZN_VK_ARGS };
    VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                          .setLayoutCount = 1,
                                          .pSetLayouts = &d->kernels->set_layout,
                                          .pushConstantRangeCount = 1,
                                          .pPushConstantRanges = &push };

    for (uint32_t i = 0; i < ZN_VK_BINDINGS; i++)
        binding[i] = (VkDescriptorSetLayoutBinding){ i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                     VK_SHADER_STAGE_COMPUTE_BIT, NULL };
    return zn_vk_ok(d, d->api->vkCreateDescriptorSetLayout(d->device, &set, NULL, &d->kernels->set_layout),
                    "a layout") &&
        zn_vk_ok(d, d->api->vkCreatePipelineLayout(d->device, &layout, NULL, &d->kernels->layout), "a layout");
}

bool zn_vk_kernels_open(zn_vk *d)
{
    d->kernels = calloc(1, sizeof *d->kernels);
    if (!d->kernels || !make_layouts(d))
        return false;
    d->kernels->cache = zn_vk_cache_open(d);
    return !d->status;
}

void zn_vk_kernels_close(zn_vk *d)
{
    struct zn_vk_kernels *k = d->kernels;

    if (!k)
        return;
    zn_vk_cache_close(d, k->cache, k->n > 0);
    for (int i = 0; i < k->n; i++) {
        d->api->vkDestroyPipeline(d->device, k->at[i]->made.pipeline, NULL);
        free(k->at[i]);
    }
    if (k->layout)
        d->api->vkDestroyPipelineLayout(d->device, k->layout, NULL);
    if (k->set_layout)
        d->api->vkDestroyDescriptorSetLayout(d->device, k->set_layout, NULL);
    free(k->at);
    free(k);
    d->kernels = NULL;
}
