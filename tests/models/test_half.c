/* SPDX-License-Identifier: MIT */
/* test_half.c - models that run in half precision unless asked otherwise: at most one 8-bit level and 0.02 dB from fp32.  On a
 * GPU that is fp16 (zn_arch.half_ok), on a CPU what it has units for (half_sums_ok); tools/half_pictures.py measures the same
 * on real pictures. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "../unit/test.h"

#include "core/random.h"
#include "pipeline/model.h"
#include "zenith.h"

#include <math.h>
#include <stdlib.h>

enum { SIDE = 96, LEN = SIDE * SIDE * 3 };

static zn_engine *engine;
static float clean[LEN], noisy[LEN];

/* Edges, gradients and texture. */
static void draw_picture(void)
{
    for (int i = 0; i < LEN; i++) {
        const int c = i % 3, x = i / 3 % SIDE, y = i / 3 / SIDE;
        const double disc = hypot(x - 40 - 9 * c, y - 50) < 27 ? 0.45 : 0;
        const double v = 0.15 + 0.3 * y / SIDE + disc + 0.08 * sin(0.9 * x + 0.35 * y + c) * (x > 60);

        clean[i] = (float)v;
        noisy[i] = (float)(v + 25 / 255.0 * zn_normal(11, 0, (uint64_t)i));
    }
}

static zn_array of(float *data)
{
    return (zn_array){ data, SIDE, SIDE, 3 };
}

/* One model; out.data is malloced if it is NULL. */
static zn_status run(const char *id, const char *precision, const zn_array *in, zn_array *out, zn_error *err)
{
    const zn_open open = { .precision = precision };
    const zn_value set = { "sigma", 25 };
    zn_job job = { .set = &set, .n_set = zn_arch_named(id)->noise != NULL };
    zn_model *m = NULL;
    zn_status s = zn_model_open(&m, engine, id, &open, err);

    if (!s && !(s = zn_model_shape(m, in, 1, out, err))) {
        out->data = out->data ? out->data : malloc(zn_array_len(out) * sizeof(float));
        s = zn_model_run(m, in, 1, out, &job, err);
    }
    zn_model_close(&m);
    return s;
}

static double psnr(const float *x)
{
    double squares = 0;

    for (int i = 0; i < LEN; i++)
        squares += pow((double)x[i] - (double)clean[i], 2);
    return -10 * log10(squares / LEN);
}

static void compare(const char *id, const float *full, const float *half)
{
    double worst = 0;

    for (int i = 0; i < LEN; i++)
        worst = test_larger(worst, 255 * fabs((double)full[i] - (double)half[i]));
    printf("# %s, %s: %.3f levels, %.3f dB and %.3f\n", zn_engine_name(engine), id, worst, psnr(full), psnr(half));
    CHECK(worst <= 1, "%s: %.3f levels", id, worst);
    CHECK(fabs(psnr(full) - psnr(half)) <= 0.02, "%s: %.3f dB, %.3f in fp32", id, psnr(half), psnr(full));
}

static void denoisers(void)
{
    static float full[LEN], half[LEN];
    zn_array in = of(noisy), a = of(full), b = of(half);
    zn_error err = { "" };
    const zn_arch *arch;

    if (INSTRUMENTED)
        SKIP("takes a minute; test_precision runs the same code");
    for (int i = 0; (arch = zn_arch_at(i)); i++) {
        if (!arch->half_ok || (!arch->noise && strcmp(arch->info.id, "restore")))
            continue;
        CHECK(!run(arch->info.id, "fp32", &in, &a, &err) && !run(arch->info.id, "auto", &in, &b, &err), "%s", err.text);
        CHECK(psnr(full) > psnr(noisy) + 3, "%s removed nothing", arch->info.id);
        TRY(compare(arch->info.id, full, half));
    }
}

/* There and back, in both precisions. */
static void autoencoder(const char *name)
{
    static const char *const precisions[] = { "fp32", "auto" };
    static float there[2][LEN];
    zn_array in = of(clean);
    zn_error err = { "" };
    char encode[32], decode[32];

    snprintf(encode, sizeof encode, "%s-encode", name);
    snprintf(decode, sizeof decode, "%s-decode", name);
    for (int i = 0; i < 2; i++) {
        zn_array z = { NULL, 0, 0, 0 }, y = of(there[i]);
        const bool ok = !run(encode, precisions[i], &in, &z, &err) && !run(decode, precisions[i], &z, &y, &err);

        free(z.data);
        CHECK(ok, "%s", err.text);
    }
    CHECK(psnr(there[0]) > 25, "%s: %.3f dB", name, psnr(there[0]));
    compare(name, there[0], there[1]);
}

static void autoencoders(void)
{
    if (INSTRUMENTED)
        SKIP("takes a minute; test_precision runs the same code");
    TRY(autoencoder("taesd"));
    TRY(autoencoder("zenith"));
    TRY(autoencoder("zenith-lite"));
}

/* A face from noise, and the code of a picture. */
static void face(void)
{
    enum { FACE = 128, FACE_LEN = FACE * FACE * 3, STEPS = 3 };
    static const char *const precisions[] = { "fp32", "auto" };
    static const zn_value set[] = { { "steps", 3 } };
    static float x[FACE_LEN], noise[FACE_LEN], drawn[2][FACE_LEN];
    const zn_job job = { .set = set, .n_set = 1 };
    zn_error err = { "" };
    double worst = 0;

    if (INSTRUMENTED)
        SKIP("takes a minute; test_precision runs the same code");
    for (int i = 0; i < FACE_LEN; i++) {
        x[i] = 2 * clean[i % LEN] - 1;
        noise[i] = (float)zn_normal(12, 0, (uint64_t)i);
    }
    for (int i = 0; i < 2; i++) {
        const zn_array picture = { x, FACE, FACE, 3 };
        zn_array in[2] = { { noise, FACE, FACE, 3 }, { 0 } }, y = { drawn[i], FACE, FACE, 3 };
        zn_model *m = NULL;
        const bool ok = !run("diffae-encode", precisions[i], &picture, &in[1], &err) &&
            !zn_model_open(&m, engine, "diffae-sample", &(zn_open){ .precision = precisions[i] }, &err) &&
            !zn_model_run(m, in, 2, &y, &job, &err);

        zn_model_close(&m);
        free(in[1].data);
        CHECK(ok, "%s", err.text);
    }
    for (int i = 0; i < FACE_LEN; i++)
        worst = test_larger(worst, 127.5 * fabs((double)drawn[0][i] - (double)drawn[1][i]));
    printf("# %s, a face: %.3f levels\n", zn_engine_name(engine), worst);
    CHECK(worst <= 1, "a face: %.3f levels", worst);
}

static void all_of_them(void)
{
    const zn_arch *a;

    for (int i = 0; (a = zn_arch_at(i)); i++)
        CHECK(!a->half_ok || a->noise || !strncmp(a->info.id, "taesd-", 6) || !strcmp(a->info.id, "zenith-encode") ||
                  !strcmp(a->info.id, "zenith-decode") || !strcmp(a->info.id, "zenith-lite-encode") ||
                  !strcmp(a->info.id, "zenith-lite-decode") || !strcmp(a->info.id, "restore") ||
                  !strcmp(a->info.id, "diffae-encode") || !strcmp(a->info.id, "diffae-sample"),
              "%s is not compared", a->info.id);
}

int main(void)
{
    zn_error err = { "" };

    setenv("ZENITH_MODELS", ZN_SOURCE_ROOT "/models", 1);
    unsetenv("ZENITH_PRECISION");
    if (zn_engine_open(&engine, NULL, 2, &err)) {
        printf("not ok open: %s\n0 passed, 1 failed, 0 skipped\n", err.text);
        return 1;
    }
    draw_picture();
    RUN(all_of_them);
    RUN(denoisers);
    RUN(autoencoders);
    RUN(face);
    zn_engine_close(&engine);
    return test_end();
}
