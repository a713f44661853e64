/* SPDX-License-Identifier: MIT */
/* test_golden.c - whole networks against outputs of the reference framework, on every engine this machine has:
 * small ones of each kind with random weights (tools/golden.py), and the shipped ones (training/golden.py).  The tolerance is the project's: 1e-4, of outputs near 1. */
#include "../unit/test.h"

#include "core/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"
#define MODELS ZN_SOURCE_ROOT "/models/"

static const struct {
    const char *model, *weights, *golden;
    zn_value set;
} cases[] = {
    { "taesd-encode", GOLDEN "taesd_encoder.pth", "taesd_encoder", { 0 } },
    { "taesd-decode", GOLDEN "taesd_decoder.pth", "taesd_decoder", { 0 } },
    { "taesd-encode", GOLDEN "taef1_encoder.safetensors", "taef1_encoder", { 0 } },
    { "taesd-decode", GOLDEN "taef1_decoder.safetensors", "taef1_decoder", { 0 } },
    { "taesd-encode", GOLDEN "taef2_encoder.pth", "taef2_encoder", { 0 } },
    { "taesd-decode", GOLDEN "taef2_decoder.pth", "taef2_decoder", { 0 } },
    { "taesd-encode", GOLDEN "taesana_encoder.pth", "taesana_encoder", { 0 } },
    { "taesd-decode", GOLDEN "taesana_decoder.pth", "taesana_decoder", { 0 } },
    { "denoise-fast", GOLDEN "denoise.safetensors", "denoise", { "sigma", 25 } },
    { "restore", GOLDEN "restore.safetensors", "restore", { "blur", 1.5 } },
    { "restore", GOLDEN "restore-dust.safetensors", "restore-dust", { "dust", 0.75 } },
    { "upscale-x2", GOLDEN "upscale-x2.safetensors", "upscale-x2", { "artefacts", 60 } },
    { "upscale-x3", GOLDEN "upscale-x3.safetensors", "upscale-x3", { "noise", 9 } },
    { "upscale-small-x4", GOLDEN "upscale-x4.safetensors", "upscale-x4", { 0 } },
    { "zenith-taesd-encode", GOLDEN "zenith-taesd-encode.safetensors", "zenith-taesd-encode", { 0 } },
    { "zenith-taesd-decode", GOLDEN "zenith-taesd-decode.safetensors", "zenith-taesd-decode", { 0 } },
    { "zenith-lite-doc-encode", GOLDEN "zenith-lite-encode.safetensors", "zenith-lite-encode", { 0 } },
    { "zenith-lite-doc-decode", GOLDEN "zenith-lite-decode.safetensors", "zenith-lite-decode", { 0 } },
    { "zenith-spectral-encode", GOLDEN "zenith-spectral-encode.safetensors", "zenith-spectral-encode", { 0 } },
    { "zenith-spectral-decode", GOLDEN "zenith-spectral-decode.safetensors", "zenith-spectral-decode", { 0 } },
    { "vanilla-taesd-encode", GOLDEN "zenith-vanilla-encode.safetensors", "zenith-vanilla-encode", { 0 } },
    { "vanilla-taesd-decode", GOLDEN "zenith-vanilla-decode.safetensors", "zenith-vanilla-decode", { 0 } },
    { "zenith-lite-doc-encode",
      GOLDEN "zenith-lite-extended-encode.safetensors",
      "zenith-lite-extended-encode",
      { 0 } },
    { "zenith-lite-doc-decode",
      GOLDEN "zenith-lite-extended-decode.safetensors",
      "zenith-lite-extended-decode",
      { 0 } },
    { "zenith-ae", GOLDEN "zenith-ae.safetensors", "zenith-ae", { 0 } },
    { "zenith-prune", GOLDEN "zenith-prune.safetensors", "zenith-prune", { 0 } },
    { "zenith-prune", GOLDEN "zenith-prune-residual.safetensors", "zenith-prune-residual", { 0 } },
    { "conv-baseline-ae", GOLDEN "zenith-conv-baseline.safetensors", "zenith-conv-baseline", { 0 } },
    { "zenith-encode", GOLDEN "latent-gated.safetensors", "latent-gated-encoder", { 0 } },
    { "zenith-decode", GOLDEN "latent-gated.safetensors", "latent-gated-decoder", { 0 } },
    { "zenith-encode", GOLDEN "latent-mix.safetensors", "latent-mix-encoder", { 0 } },
    { "zenith-decode", GOLDEN "latent-mix.safetensors", "latent-mix-decoder", { 0 } },
    { "zenith-encode", GOLDEN "latent-plain.safetensors", "latent-plain-encoder", { 0 } },
    { "zenith-decode", GOLDEN "latent-plain.safetensors", "latent-plain-decoder", { 0 } },
    { "zenith-encode", GOLDEN "latent-pool.safetensors", "latent-pool-encoder", { 0 } },
    { "zenith-decode", GOLDEN "latent-pool.safetensors", "latent-pool-decoder", { 0 } },
    /* zenith-lite is the same network as zenith; files of the document's, which had this name, still run */
    { "zenith-lite-encode", GOLDEN "zenith-lite-encode.safetensors", "zenith-lite-encode", { 0 } },
    { "zenith-lite-decode", GOLDEN "zenith-lite-decode.safetensors", "zenith-lite-decode", { 0 } },
    { "zenith-lite-encode", GOLDEN "latent-plain.safetensors", "latent-plain-encoder", { 0 } },
    { "zenith-lite-decode", GOLDEN "latent-plain.safetensors", "latent-plain-decoder", { 0 } },
    { "latent-rgb", GOLDEN "latent-plain.safetensors", "latent-plain-view", { 0 } },
    { "face-detect", GOLDEN "find.safetensors", "face-detect", { 0 } },
    { "face-points", GOLDEN "find.safetensors", "face-points", { 0 } },
    { "face-mouth", GOLDEN "find.safetensors", "face-mouth", { 0 } },
    { "denoise-fast", MODELS "denoise-fast.safetensors", "shipped-denoise-fast", { "sigma", 25 } },
    { "denoise-balanced", MODELS "denoise-balanced.safetensors", "shipped-denoise-balanced", { "sigma", 25 } },
    { "denoise-best", MODELS "denoise-best.safetensors", "shipped-denoise-best", { "sigma", 25 } },
    { "denoise-level", MODELS "denoise-level.safetensors", "shipped-denoise-level", { 0 } },
    { "restore", MODELS "restore.safetensors", "shipped-restore", { 0 } },
    { "upscale-x2", MODELS "upscale.safetensors", "shipped-upscale", { 0 } },
    { "upscale-crisp-x4", MODELS "upscale-crisp.safetensors", "shipped-upscale-crisp", { 0 } },
    { "upscale-small-x4", MODELS "upscale-small.safetensors", "shipped-upscale-small", { 0 } },
    { "taesd-encode", MODELS "zenith-tae.safetensors", "shipped-zenith-tae-encoder", { 0 } },
    { "taesd-decode", MODELS "zenith-tae.safetensors", "shipped-zenith-tae-decoder", { 0 } },
    { "zenith-encode", MODELS "zenith.safetensors", "shipped-zenith-encoder", { 0 } },
    { "zenith-decode", MODELS "zenith.safetensors", "shipped-zenith-decoder", { 0 } },
    { "zenith-encode", MODELS "zenith-f2.safetensors", "shipped-zenith-f2-encoder", { 0 } },
    { "zenith-decode", MODELS "zenith-f2.safetensors", "shipped-zenith-f2-decoder", { 0 } },
    { "zenith-lite-encode", MODELS "zenith-lite.safetensors", "shipped-zenith-lite-encoder", { 0 } },
    { "zenith-lite-decode", MODELS "zenith-lite.safetensors", "shipped-zenith-lite-decoder", { 0 } },
};

static bool load(zn_array *a, const zn_weights *w, const char *name)
{
    const zn_entry *e = zn_weights_get(w, name);

    if (!e || e->n_dims != 3)
        return false;
    *a = (zn_array){ malloc(zn_entry_len(e) * sizeof(float)), (int32_t)e->shape[0], (int32_t)e->shape[1],
                     (int32_t)e->shape[2] };
    zn_entry_read(e, a->data, NULL);
    return true;
}

/* The largest difference to the golden output, or -1 and the error message. */
static double difference(zn_engine *on, int i, zn_error *err)
{
    char golden[512];
    const char *ref = golden;
    zn_weights *w = NULL;
    zn_model *m = NULL;
    zn_array x = { 0 }, want = { 0 }, y = { 0 };
    zn_job job = { .set = &cases[i].set, .n_set = cases[i].set.key != NULL };
    double worst = -1;

    snprintf(golden, sizeof golden, GOLDEN "%s.golden.safetensors", cases[i].golden);
    if (zn_weights_open(&w, &ref, 1, err) ||
        zn_model_open(&m, on, cases[i].model,
                      &(zn_open){ .files = &cases[i].weights, .n_files = 1, .precision = "fp32" }, err))
        goto end;
    if (!load(&x, w, "in") || !load(&want, w, "out") || zn_model_shape(m, &x, 1, &y, err))
        goto end;
    if (y.h != want.h || y.w != want.w || y.c != want.c) {
        snprintf(err->text, sizeof err->text, "output is %dx%dx%d, not %dx%dx%d", y.h, y.w, y.c, want.h, want.w,
                 want.c);
        goto end;
    }
    y.data = malloc(zn_array_len(&y) * sizeof(float));
    if (zn_model_run(m, &x, 1, &y, &job, err))
        goto end;
    worst = 0;
    for (size_t k = 0; k < zn_array_len(&y); k++) {
        double d = fabs((double)y.data[k] - (double)want.data[k]);

        worst = test_larger(worst, d);
    }
end:
    free(x.data);
    free(want.data);
    free(y.data);
    zn_model_close(&m);
    zn_weights_close(&w);
    return worst;
}

static zn_engine *engine; /* of the case that runs */
static int current;

static void one_case(void)
{
    zn_error err = { "" };
    double d = difference(engine, current, &err);

    CHECK(d >= 0, "%s", err.text);
    CHECK(d <= 1e-4, "off by %g", d);
}

/* A latent as a picture of 8 bits in one call: of a network for 0..1, and of one for -1..1. */
static void shows_latents(void)
{
    static const char *const file = GOLDEN "latent-plain.safetensors";
    static const struct {
        const char *model, *golden;
    } half[] = { { "zenith-decode", GOLDEN "latent-plain-decoder.golden.safetensors" },
                 { "latent-rgb", GOLDEN "latent-plain-view.golden.safetensors" } };
    zn_error err = { "" };

    for (int i = 0; i < 2; i++) {
        zn_weights *w = NULL;
        zn_model *m = NULL;
        zn_array z = { 0 }, want = { 0 };
        unsigned char *rgb = NULL;
        int worst = 0;
        bool ok = !zn_weights_open(&w, &half[i].golden, 1, &err) && load(&z, w, "in") && load(&want, w, "out") &&
            !zn_model_open(&m, engine, half[i].model, &(zn_open){ .files = &file, .n_files = 1 }, &err) &&
            (rgb = malloc(zn_array_len(&want))) && !zn_latent_show(m, &z, rgb, &err);

        for (size_t k = 0; ok && k < zn_array_len(&want); k++) {
            float v = i ? 0.5f * want.data[k] + 0.5f : want.data[k];
            int is = (int)(255 * (v < 0 ? 0 : v > 1 ? 1 : v) + 0.5f), off = abs(is - rgb[k]);

            worst = off > worst ? off : worst;
        }
        if (!ok || worst > 1)
            test_note(false, "%s: %s, %d levels off", half[i].model, err.text, worst);
        free(z.data);
        free(want.data);
        free(rgb);
        zn_model_close(&m);
        zn_weights_close(&w);
    }
}

/* One value that is not a number is off, wherever it is. */
static void no_number_is_missed(void)
{
    CHECK(test_larger(1, 2) == 2 && test_larger(2, 1) == 2, "not the larger one");
    CHECK(isnan(test_larger(1, NAN)) && isnan(test_larger(test_larger(1, NAN), 2)), "dropped");
}

/* test_golden [ENGINE]: with one, the shipped networks, which are larger, run on it alone. */
int main(int argc, char **argv)
{
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16);

    RUN(no_number_is_missed);
    for (int e = 0; e < n; e++) {
        if (!list[e].usable || zn_engine_open(&engine, list[e].name, 0, NULL))
            continue;
        for (current = 0; current < (int)(sizeof cases / sizeof *cases); current++) {
            char name[128];

            if (INSTRUMENTED && !strcmp(cases[current].golden, "shipped-denoise-best") &&
                !strcmp(list[e].name, "scalar"))
                continue; /* the largest, in plain C */
            if (argc > 1 && !strncmp(cases[current].golden, "shipped-", 8) && strcmp(list[e].name, argv[1]))
                continue;
            snprintf(name, sizeof name, "golden %s on %s", cases[current].golden, list[e].name);
            test_run(name, one_case);
        }
        RUN(shows_latents);
        zn_engine_close(&engine);
    }
    return test_end();
}
