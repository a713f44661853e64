/* SPDX-License-Identifier: MIT */
/* test_precision.c - models opened on CPUs with weights in every storage type: what they compute, and their memory. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"
#include "zenith.h"
#include "zenith_bench.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_STORED = 4, N_MODELS = 4, LARGEST = 2 };

/* The weights' rounding in the output: RMS of the difference from fp32, relative to the RMS of fp32. */
static const struct {
    const char *precision;
    double most_error;
    double bits; /* of a stored weight, scales included */
} stored[N_STORED] = {
    { "fp16", 2e-3, 16 }, /* shipped weights are fp16; CPUs with fp16 round inputs and short sums */
    { "bf16", 1e-2, 16 },
    { "int8", 2e-2, 8.5 },
    { "int4", 3e-1, 4.5 },
};

/* A network of each kind: 3x3 convolutions, gated blocks, a U-Net with attention, the template. */
static const struct {
    const char *id;
    bool own;      /* weights: template_file, not the shipped ones */
    double dense;  /* the least share of the parameters in layers that are stored */
    double halves; /* the most error in fp16 where a CPU transforms and multiplies halves; 0: it does not */
} models[N_MODELS] = {
    { "taesd-encode", false, 0.95, 4e-2 },
    { "denoise-fast", false, 0.4, 0 },
    { "diffae-unet", false, 0.95, 0 },
    { "template", true, 0.95, 0 },
};

static char folder[] = "/tmp/zenith-precision-XXXXXX", template_file[sizeof folder + 32],
            large_file[sizeof folder + 32];
static const char *program;

static const char *engine_name;
static zn_engine *engine;

/* ---- a template of 64 channels ---------------------------------------------------------------------------------- */

static void put_tensor(char *head, size_t room, size_t *at, const char *name, const char *shape, size_t len)
{
    size_t n = strlen(head);

    snprintf(head + n, room - n, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", name, shape,
             *at, *at + 4 * len);
    *at += 4 * len;
}

/* A template of c channels and one block.  With `unused` floats in a tensor beside its own: all weights are 0. */
static bool write_template(const char *path, size_t c, size_t unused)
{
    char head[1024] = "{\"__metadata__\":{\"model\":\"template\"}", name[32], shape[64];
    size_t at = 0, n;
    uint64_t size;
    FILE *f = fopen(path, "wb");
    bool ok = f;

    snprintf(shape, sizeof shape, "%zu", unused);
    if (unused)
        put_tensor(head, sizeof head, &at, "optimizer", shape, unused);
    snprintf(shape, sizeof shape, "%zu,3,3,3", c);
    put_tensor(head, sizeof head, &at, "first.weight", shape, c * 27);
    snprintf(shape, sizeof shape, "%zu", c);
    put_tensor(head, sizeof head, &at, "first.bias", shape, c);
    for (int i = 1; i <= 2; i++) {
        snprintf(name, sizeof name, "block0.conv%d.weight", i);
        snprintf(shape, sizeof shape, "%zu,%zu,3,3", c, c);
        put_tensor(head, sizeof head, &at, name, shape, c * c * 9);
        snprintf(name, sizeof name, "block0.conv%d.bias", i);
        snprintf(shape, sizeof shape, "%zu", c);
        put_tensor(head, sizeof head, &at, name, shape, c);
    }
    snprintf(shape, sizeof shape, "3,%zu,3,3", c);
    put_tensor(head, sizeof head, &at, "last.weight", shape, 3 * c * 9);
    put_tensor(head, sizeof head, &at, "last.bias", "3", 3);
    n = strlen(head);
    head[n] = '}';
    size = n + 1;
    ok = ok && fwrite(&size, 8, 1, f) == 1 && fwrite(head, n + 1, 1, f) == 1;
    if (unused)
        ok = ok && !fflush(f) && !ftruncate(fileno(f), (off_t)(8 + size + at));
    for (size_t i = 0; ok && !unused && i < at / 4; i++) {
        float x = (float)((i * 2654435761u >> 8) % 2001) / 2e4f - 0.05f;

        ok = fwrite(&x, sizeof x, 1, f) == 1;
    }
    return f && !fclose(f) && ok;
}

/* ---- running ---------------------------------------------------------------------------------------------------------- */

static zn_status open_model(zn_model **m, int i, const char *precision, zn_error *err)
{
    const char *file = template_file;
    const zn_open open = { .files = &file, .n_files = models[i].own, .precision = precision };

    return zn_model_open(m, engine, models[i].id, &open, err);
}

/* The inputs of a small picture, whose data is malloced if `filled`. */
static int make_inputs(const zn_model *m, zn_array x[ZN_MAX_PORTS], bool filled)
{
    int n = zn_model_example(m, 20, 16, x);
    unsigned seed = 3;

    for (int i = 0; i < n && filled; i++) {
        x[i].data = malloc(zn_array_len(&x[i]) * sizeof(float));
        for (size_t j = 0; x[i].data && j < zn_array_len(&x[i]); j++) {
            seed = seed * 1664525u + 1013904223u;
            x[i].data[j] = (float)(seed >> 8) / 16777216.0f;
        }
    }
    return n;
}

static zn_status plan_of(int i, const char *precision, zn_plan *plan, int64_t *parameters, zn_error *err)
{
    zn_array x[ZN_MAX_PORTS] = { { 0 } };
    zn_model *m = NULL;
    zn_status s = open_model(&m, i, precision, err);

    if (!s) {
        s = zn_model_plan(m, x, make_inputs(m, x, false), NULL, plan, err);
        *parameters = zn_model_parameters(m);
    }
    zn_model_close(&m);
    return s;
}

/* The output, malloced; NULL and the error message. */
static float *compute(int i, const char *precision, size_t *len, zn_error *err)
{
    zn_array x[ZN_MAX_PORTS] = { { 0 } }, y[ZN_MAX_PORTS] = { { 0 } };
    zn_model *m = NULL;
    bool ok = false;
    int n = 0;

    if (!open_model(&m, i, precision, err)) {
        n = make_inputs(m, x, true);
        if (!zn_model_shape(m, x, n, y, err)) {
            *len = zn_array_len(&y[0]);
            y[0].data = malloc(*len * sizeof(float));
            ok = y[0].data && !zn_model_run(m, x, n, y, NULL, err);
        }
    }
    for (int j = 0; j < n; j++)
        free(x[j].data);
    zn_model_close(&m);
    if (!ok)
        free(y[0].data);
    return ok ? y[0].data : NULL;
}

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

static void check_close(int i, int p, const float *want)
{
    zn_error err = { "" };
    size_t n = 0;
    float *got = compute(i, stored[p].precision, &n, &err);
    const bool vector = !strcmp(engine_name, "neon") || !strcmp(engine_name, "avx512");
    const bool halves = p == 0 && vector && models[i].halves > 0;
    const double most = halves ? models[i].halves : stored[p].most_error;
    double errors = 0, all = 0, off;

    for (size_t j = 0; got && j < n; j++) {
        errors += (double)(got[j] - want[j]) * (double)(got[j] - want[j]);
        all += (double)want[j] * (double)want[j];
    }
    off = sqrt(errors / all);
    free(got);
    CHECK(got, "%s in %s: %s", models[i].id, stored[p].precision, err.text);
    CHECK(off <= most, "%s in %s is off by %g, not by at most %g", models[i].id, stored[p].precision, off, most);
    CHECK(p == 0 || off > 1e-5, "%s in %s is off by %g alone: were weights stored?", models[i].id, stored[p].precision,
          off);
}

static void test_results_are_near_fp32(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        zn_error err = { "" };
        size_t n = 0;
        float *want;

        if (INSTRUMENTED && i == LARGEST && !strcmp(engine_name, "scalar"))
            continue; /* the small networks read stored weights with the same loops */
        want = compute(i, "fp32", &n, &err);
        CHECK(want, "%s: %s", models[i].id, err.text);
        for (int p = 0; p < N_STORED && !test_state.why[0]; p++)
            check_close(i, p, want);
        free(want);
    }
}

/* Layers that are stored take their bits; all others what they take in fp32, which may be more than 4 bytes a weight. */
static void check_plan(int i, int p, const zn_plan *full)
{
    zn_plan less;
    zn_error err = { "" };
    int64_t n = 0;
    double most;

    CHECK(!plan_of(i, stored[p].precision, &less, &n, &err), "%s", err.text);
    most = (double)full->weight_bytes - models[i].dense * (double)n * (32 - stored[p].bits) / 8;
    CHECK((double)less.weight_bytes <= most, "%s in %s takes %zu bytes of %zu, not at most %.0f", models[i].id,
          stored[p].precision, less.weight_bytes, full->weight_bytes, most);
}

static void test_weights_are_smaller(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        zn_error err = { "" };
        zn_plan full;
        int64_t n;

        CHECK(!plan_of(i, "fp32", &full, &n, &err), "%s: %s", models[i].id, err.text);
        for (int p = 0; p < N_STORED; p++)
            TRY(check_plan(i, p, &full));
    }
}

static void test_auto_is_fp32(void)
{
    zn_error err = { "" };
    size_t n = 0;
    float *a = compute(0, "auto", &n, &err), *b = a ? compute(0, "fp32", &n, &err) : NULL;
    bool same = b && !memcmp(a, b, n * sizeof *a);

    free(a);
    free(b);
    CHECK(same, "auto is not fp32: %s", err.text);
}

static void test_environment(void)
{
    zn_error err = { "" };
    zn_model *m = NULL;

    setenv("ZENITH_PRECISION", "int4", 1);
    open_model(&m, 1, NULL, &err);
    unsetenv("ZENITH_PRECISION");
    CHECK(m && !strcmp(zn_model_precision(m), "int4"), "%s", m ? zn_model_precision(m) : err.text);
    zn_model_close(&m);
}

static void test_what_a_cpu_lacks_is_a_sentence(void)
{
    static const char *const names[] = { "tf32", "fp8" };

    for (int i = 0; i < 2; i++) {
        zn_error err = { "" };
        zn_model *m = NULL;
        char want[128];

        snprintf(want, sizeof want, "the %s engine has no precision %s: that takes a GPU", engine_name, names[i]);
        if (i == 0 && !open_model(&m, 1, names[i], &err)) { /* it has AMX */
            zn_model_close(&m);
            continue;
        }
        CHECK(open_model(&m, 1, names[i], &err) == ZN_E_USAGE && strstr(err.text, want), "%s: %s", names[i], err.text);
    }
}

static void test_int8_fits_where_fp32_does_not(void)
{
    zn_error err = { "" }, small = { "" };
    zn_model *m = NULL, *fits = NULL;
    char mib[32], want[64];
    zn_status s, t;
    zn_plan plan;
    int64_t n;

    CHECK(!plan_of(LARGEST, "fp32", &plan, &n, &err), "%s", err.text);
    snprintf(mib, sizeof mib, "%zu", plan.weight_bytes >> 20);
    snprintf(want, sizeof want, "where %s are allowed", mib);
    setenv("ZENITH_MEMORY", mib, 1);
    s = open_model(&m, LARGEST, "fp32", &err);
    t = open_model(&fits, LARGEST, "int8", &small);
    unsetenv("ZENITH_MEMORY");
    zn_model_close(&m);
    zn_model_close(&fits);
    CHECK(s == ZN_E_MEMORY && strstr(err.text, want), "fp32: %s", s ? err.text : "opened");
    CHECK(!t, "int8: %s", small.text);
}

/* Whether a model of this file does not fit in so many MiB, which the message names. */
static bool refuses(const char *id, const char *file, const char *precision, const char *mib, zn_error *err)
{
    const zn_open open = { .files = &file, .n_files = 1, .precision = precision };
    zn_model *m = NULL;
    char want[64];
    zn_status s;

    snprintf(want, sizeof want, "where %s are allowed", mib);
    setenv("ZENITH_MEMORY", mib, 1);
    s = zn_model_open(&m, engine, id, &open, err);
    unsetenv("ZENITH_MEMORY");
    zn_model_close(&m);
    return s == ZN_E_MEMORY && strstr(err->text, want);
}

/* A bound holds for made-up weights, too, and for scratch memory that is larger than the weights: products of integers
 * quantise their inputs there. */
static void test_all_of_it_is_refused(void)
{
    zn_error err = { "opened" };

    CHECK(refuses("taesd-encode", ZN_RANDOM_WEIGHTS, "fp32", "2", &err), "made-up weights: %s", err.text);
    CHECK(refuses("z-image-dit", ZN_SOURCE_ROOT "/tests/data/golden/zimage_dit.safetensors", "int8", "4", &err),
          "scratch memory: %s", err.text);
}

/* This program, called as test_precision ENGINE FILE: opens the template in FILE and exits with the MiB that it took. */
static int open_large(const char *name, const char *file)
{
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_model *m = NULL;
    long before;

    if (zn_engine_open(&engine, name, 1, NULL))
        return 255;
    before = test_most_resident();
    if (zn_model_open(&m, engine, "template", &open, NULL))
        return 255;
    return (int)((test_most_resident() - before) / 1024);
}

/* 27 MiB of a file of 227: the two large tensors of 9 are kept, and one of them is there once more while it is packed. */
static void test_open_holds_what_it_uses_and_one_tensor(void)
{
    enum { C = 512, UNUSED = 50 << 20 };
    const pid_t child = INSTRUMENTED || !test_most_resident() ? -1 : fork();
    int status = 0;

    if (child < 0)
        SKIP("needs /proc, and a build without instruments, which take memory of their own");
    if (!child) {
        if (write_template(large_file, C, UNUSED))
            execl(program, program, engine_name, large_file, (char *)NULL);
        _exit(255);
    }
    waitpid(child, &status, 0);
    remove(large_file);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    CHECK(status >= 18 && status <= 31, "%d MiB, not 27", status);
}

/* Transformed weights of a run are in its plan: Winograd's, where they are not packed so. */
static void test_scratch_is_planned(void)
{
    zn_plan packed, stored_plan;
    zn_error err = { "" };
    int64_t n;

    if (!strcmp(engine_name, "scalar"))
        return; /* has none */
    CHECK(!plan_of(0, "fp32", &packed, &n, &err) && !plan_of(0, "int8", &stored_plan, &n, &err), "%s", err.text);
    /* 64 > 64, F(6,3) in float32 */
    CHECK(stored_plan.peak_bytes >= packed.peak_bytes + 64 * 64 * 64 * sizeof(float), "%zu bytes, and %zu in int8",
          packed.peak_bytes, stored_plan.peak_bytes);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = { "scalar", "neon", "avx2", "avx512" };

    setenv("ZENITH_MODELS", ZN_SOURCE_ROOT "/models", 1);
    unsetenv("ZENITH_PRECISION");
    unsetenv("ZENITH_MEMORY");
    program = argv[0];
    if (argc == 3)
        return open_large(argv[1], argv[2]);
    if (mkdtemp(folder)) {
        snprintf(template_file, sizeof template_file, "%s/template.safetensors", folder);
        snprintf(large_file, sizeof large_file, "%s/large.safetensors", folder);
    }
    if (!write_template(template_file, 64, 0)) {
        printf("not ok %s cannot be written\n0 passed, 1 failed, 0 skipped\n", template_file);
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        zn_error err;

        engine_name = engines[i];
        if (zn_engine_open(&engine, engine_name, 2, &err))
            continue;
        printf("# %s\n", engine_name);
        RUN(test_results_are_near_fp32);
        RUN(test_weights_are_smaller);
        RUN(test_auto_is_fp32);
        RUN(test_environment);
        RUN(test_what_a_cpu_lacks_is_a_sentence);
        RUN(test_int8_fits_where_fp32_does_not);
        RUN(test_all_of_it_is_refused);
        RUN(test_open_holds_what_it_uses_and_one_tensor);
        RUN(test_scratch_is_planned);
        zn_engine_close(&engine);
    }
    remove(template_file);
    remove(folder);
    return test_end();
}
