/* SPDX-License-Identifier: MIT */
/* restore.c - undoes blur, JPEG compression, noise, dirt and fading: what the network is told; enhance.c does the rest. */
#include "fields.h"

#define AT(field) offsetof(zn_restore, field)

const zn_field zn_restore_fields[] = {
    { "deblur", ZN_REAL, AT(deblur), -1, 10,
      "the blur that is undone, its standard deviation in pixels; 0: found, -1: none" },
    { "artefacts", ZN_REAL, AT(artefacts), -1, 100, "of JPEG: 100 - the file's quality; 0: found, -1: none" },
    { "noise", ZN_REAL, AT(noise), -1, 100, "its standard deviation, of 255; 0: found, -1: none" },
    { "dust", ZN_REAL, AT(dust), 0, 1, "how much of dust, hairs, scratches and stains is removed" },
    { "fading", ZN_REAL, AT(fading), 0, 1, "how much of lost contrast and of a color cast is undone" },
    { "strength", ZN_REAL, AT(strength), 0, 1, "how much of the network's change is used" },
    { 0 },
};

zn_restore zn_restore_defaults(void)
{
    return (zn_restore){ .strength = 1 };
}

zn_status zn_restore_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                              const zn_restore *how, int32_t w, int32_t h, int32_t side, zn_error *err)
{
    const zn_enhance task = { .model = "restore",
                              .set = { { "noise", how->noise },
                                       { "artefacts", how->artefacts },
                                       { "blur", how->deblur },
                                       { "dust", how->dust } },
                              .n_set = 4,
                              .found = { false, true, true }, /* noise is found by the network, place by place */
                              .fading = how->fading,
                              .strength = how->strength,
                              .luma = 1,
                              .chroma = 1 };
    const zn_status s = zn_field_check(how, zn_restore_fields, err);

    *plan = (zn_enhance_plan){ .grid = { .w = w, .h = h, .scale = 1 }, .w = w, .h = h };
    return s ? s : zn_enhance_describe(plan, session, choice, &task, w, h, side, err);
}
