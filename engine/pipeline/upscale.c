/* SPDX-License-Identifier: MIT */
/* upscale.c - enlarges a picture: which network, and what it is told; enhance.c does the rest. */
#include "../core/status.h"
#include "fields.h"

#include <string.h>

#define AT(field) offsetof(zn_upscale, field)

enum { LEAST = 2, MOST = 4 }; /* scale */

/* crisp makes coloured noise and a weave on skin out of noise: it sees the picture without the noise's colours and with some of its grain,
 * which becomes texture; and it is told that there is some noise, and artefacts at least, but less of both where there is little noise. */
static const double GRAIN = 0.25, NOISE_LEFT = 10, ARTEFACTS_LEFT = 25;

const zn_field zn_upscale_fields[] = {
    { "scale", ZN_WHOLE, AT(scale), LEAST, MOST, "how many times as wide and high" },
    { "model", ZN_TEXT, AT(model), 0, 0,
      "faithful; small: a smaller network, faster; crisp: sharp, with detail that may not be true" },
    { "noise", ZN_REAL, AT(noise), -1, 100,
      "standard deviation of the noise in the picture, of 255; 0: measured, -1: none" },
    { "artefacts", ZN_REAL, AT(artefacts), -1, 100, "of JPEG: 100 - the file's quality; 0: measured, -1: none" },
    { 0 },
};

zn_upscale zn_upscale_defaults(void)
{
    return (zn_upscale){ .scale = LEAST, .model = "faithful" };
}

zn_status zn_upscale_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                              const zn_upscale *how, int32_t w, int32_t h, int32_t side, zn_error *err)
{
    static const struct {
        const char *name, *id[MOST - LEAST + 1];
    } model[] = { { "faithful", { "upscale-x2", "upscale-x3", "upscale-x4" } },
                  { "small", { "upscale-small-x2", "upscale-small-x3", "upscale-small-x4" } },
                  { "crisp", { "upscale-crisp-x2", "upscale-crisp-x3", "upscale-crisp-x4" } } };
    zn_enhance task = { .set = { { "noise", how->noise }, { "artefacts", how->artefacts } },
                        .n_set = 2,
                        .found = { true, true },
                        .strength = 1,
                        .luma = 1,
                        .chroma = 1 };
    zn_status s = zn_field_check(how, zn_upscale_fields, err);

    *plan = (zn_enhance_plan){ .grid = { .w = w, .h = h, .scale = 1 }, .w = w, .h = h };
    if (s)
        return s;
    for (size_t i = 0; i < sizeof model / sizeof *model; i++)
        if (how->model && !strcmp(how->model, model[i].name))
            task.model = model[i].id[how->scale - LEAST];
    if (how->model && !strcmp(how->model, "crisp")) {
        task.least[1] = ARTEFACTS_LEFT;
        if (how->noise >= 0) {
            task.first = "denoise-balanced";
            task.sigma = how->noise;
            task.grain = GRAIN;
            task.set[0].value = NOISE_LEFT;
        }
    }
    if (!task.model)
        return zn_fail(err, ZN_E_USAGE, "model must be one of %s, not '%s'", "faithful, small, crisp",
                       how->model ? how->model : "");
    return zn_enhance_describe(plan, session, choice, &task, w, h, side, err);
}
