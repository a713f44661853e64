/* SPDX-License-Identifier: MIT */
/* denoise.c - removes noise: which network, and what it is told; enhance.c does the rest. */
#include "../core/status.h"
#include "fields.h"

#include <string.h>

#define AT(field) offsetof(zn_denoise, field)

const zn_field zn_denoise_fields[] = {
    { "model", ZN_TEXT, AT(model), 0, 0, "fast, balanced or best: a larger network keeps more detail" },
    { "strength", ZN_REAL, AT(strength), 0, 1.5, "how much of the noise is removed; above 1 also weak texture" },
    { "luma", ZN_REAL, AT(luma), 0, 1, "how much of the noise in lightness" },
    { "chroma", ZN_REAL, AT(chroma), 0, 1, "how much of the noise in colour" },
    { "detail", ZN_REAL, AT(detail), 0, 1, "how much of the finest texture is given back" },
    { "sharpen", ZN_REAL, AT(sharpen), 0, 2, "how much the denoised picture is sharpened, without halos" },
    { "sigma", ZN_REAL, AT(sigma), 0, 100, "standard deviation of the noise, of 255; 0: measured" },
    { "sigma-scale", ZN_REAL, AT(sigma_scale), 0.1, 10, "factor of what was measured" },
    { "weights", ZN_TEXT, AT(weights), 0, 0, "file of a network that zenith train made; none: the model's own" },
    { 0 },
};

zn_denoise zn_denoise_defaults(void)
{
    return (zn_denoise){ .model = "balanced", .strength = 1, .luma = 1, .chroma = 1, .sigma_scale = 1 };
}

zn_status zn_denoise_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                              const zn_denoise *how, int32_t w, int32_t h, int32_t side, zn_error *err)
{
    static const char *const model[][2] = { { "fast", "denoise-fast" },
                                            { "balanced", "denoise-balanced" },
                                            { "best", "denoise-best" } };
    const bool measured = how->sigma == 0;
    zn_enhance task = { .model = NULL,
                        .weights = how->weights,
                        .set = { { "sigma", how->sigma }, { "sigma-scale", how->sigma_scale } },
                        .n_set = measured ? 2 : 1, /* of a given level nothing is a factor */
                        .seeks_noise = measured,
                        .strength = how->strength,
                        .luma = how->luma,
                        .chroma = how->chroma,
                        .detail = how->detail,
                        .sharpen = how->sharpen };
    zn_status s = zn_field_check(how, zn_denoise_fields, err);

    *plan = (zn_enhance_plan){ .grid = { .w = w, .h = h, .scale = 1 }, .w = w, .h = h };
    for (size_t i = 0; i < sizeof model / sizeof *model; i++)
        if (how->model && !strcmp(how->model, model[i][0]))
            task.model = model[i][1];
    if (!s && !task.model)
        s = zn_fail(err, ZN_E_USAGE, "model must be one of %s, not '%s'", "fast, balanced, best",
                    how->model ? how->model : "");
    return s ? s : zn_enhance_describe(plan, session, choice, &task, w, h, side, err);
}
