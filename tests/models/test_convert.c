/* SPDX-License-Identifier: MIT */
/* test_convert.c - `zenith convert`: what it writes has the tensors of the originals, and runs as they do. */
#define _XOPEN_SOURCE 700

#include "../unit/weights.h"

#include "../../engine/zenith_bench.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"
#define WEIGHTS ZN_TEST_DATA "/"

static char tmp[] = "/tmp/zenith-convert-XXXXXX";
static zn_engine *engine;

/* The new file's path after converting; NULL: refused, as err says. */
static const char *convert(const char *name, const char *type, zn_error *err, int n, const char *const *files)
{
    const char *path = join(tmp, name);

    return zn_weights_convert(path, files, n, type, NULL, err) ? NULL : path;
}
#define CONVERT(name, type, err, ...)                                                                                  \
    convert(name, type, err, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *), (const char *[]){ __VA_ARGS__ })

static bool says(const zn_error *err, const char *text)
{
    return strstr(err->text, text) != NULL;
}

/* ---- runs ------------------------------------------------------------------------------------------------- */

/* The result of a model with this weight file on inputs that follow from their sizes; the caller frees it. */
static float *run(const char *id, const char *file, int w, int h, const char *set, size_t *len)
{
    zn_array in[ZN_MAX_PORTS] = { { 0 } }, out = { 0 };
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    const zn_job job = { .set = &set, .n_set = set != NULL };
    zn_error err = { "" };
    zn_model *m = NULL;
    int n = 0;

    *len = 0;
    if (zn_model_open(&m, engine, id, &open, &err)) {
        test_note(false, "%s", err.text);
        return NULL;
    }
    n = zn_model_example(m, w, h, in);
    for (int i = 0; i < n; i++) {
        in[i].data = malloc(zn_array_len(&in[i]) * sizeof(float));
        zn_noise_fill(in[i].data, zn_array_len(&in[i]), 7, (uint64_t)i);
        if (in[i].c == 1 && zn_array_len(&in[i]) == 1)
            in[i].data[0] = 430; /* a time step */
    }
    if (!zn_model_shape(m, in, n, &out, &err)) {
        out.data = malloc(zn_array_len(&out) * sizeof(float));
        *len = zn_model_run(m, in, n, &out, &job, &err) ? 0 : zn_array_len(&out);
    }
    for (int i = 0; i < n; i++)
        free(in[i].data);
    zn_model_close(&m);
    if (!*len)
        test_note(false, "%s: %s", id, err.text);
    return out.data;
}

/* How far the two files' results are apart, relatively; 1: one of them has none. */
static double apart(const char *id, const char *a, const char *b, int w, int h, const char *set)
{
    size_t n, m;
    float *x = run(id, a, w, h, set, &n), *y = run(id, b, w, h, set, &m);
    double errors = 0, all = 0;

    for (size_t i = 0; n && n == m && i < n; i++) {
        errors += pow((double)x[i] - (double)y[i], 2);
        all += pow((double)x[i], 2);
    }
    free(x);
    free(y);
    return n && n == m && all > 0 && errors >= 0 ? sqrt(errors / all) : 1;
}

static const struct {
    const char *id, *set;
} diffae[] = { { "diffae-encode", NULL },
               { "diffae-unet", NULL },
               { "diffae-latent-net", NULL },
               { "diffae-sample", "steps=4" },
               { "diffae-latent-sample", "steps=4" } };

/* The weights of the fixture are fp16 numbers: as fp16 nothing is lost, as bf16 8 bits are left. */
static void autoencoder(void)
{
    zn_error err = { "" };
    char f16[1024], bf16[1024];

    for (int i = 0; i < 2; i++) {
        const char *path =
            CONVERT(i ? "b.safetensors" : "a.safetensors", i ? "bf16" : "fp16", &err, GOLDEN "diffae.ckpt");

        CHECK(path, "%s", err.text);
        snprintf(i ? bf16 : f16, sizeof f16, "%s", path);
    }
    for (size_t i = 0; i < sizeof diffae / sizeof *diffae; i++) {
        double d = apart(diffae[i].id, GOLDEN "diffae.ckpt", f16, 16, 16, diffae[i].set);

        CHECK(d == 0, "%s is off by %g in fp16", diffae[i].id, d);
        d = apart(diffae[i].id, GOLDEN "diffae.ckpt", bf16, 16, 16, diffae[i].set);
        CHECK(d > 0 && d < 2e-2, "%s is off by %g in bf16", diffae[i].id, d);
    }
}

/* Networks, statistics and attributes from a file each. */
static void several_files(void)
{
    zn_error err = { "" }, what = { "" };
    const char *const files[] = { WEIGHTS "diffae-latent.ckpt", WEIGHTS "diffae-latent.pkl",
                                  WEIGHTS "diffae-cls.ckpt" };
    const char *path = join(tmp, "parts.safetensors");
    zn_weights *w;
    double d;

    CHECK(!zn_weights_convert(path, files, 1, "fp32", &what, &err), "%s", err.text);
    CHECK(says(&what, "without the statistics"), "%s", what.text);
    CHECK(!zn_weights_convert(path, files, 3, "fp32", &what, &err), "%s", err.text);
    CHECK(says(&what, "26 tensors") && says(&what, "parts.attributes.safetensors: 40 attributes"), "%s", what.text);
    d = apart("diffae-latent-sample", GOLDEN "diffae.ckpt", path, 16, 16, "steps=4");
    CHECK(d == 0, "the parts are off by %g from the whole", d);

    w = open_one(path, &err);
    CHECK(w, "%s", err.text);
    CHECK(!zn_weights_get(w, "latent_net.layers.0.cond_layers.1.weight") && !zn_weights_get(w, "conds") &&
              !zn_weights_get(w, "classifier.weight"),
          "what is not needed was kept");
    zn_weights_close(&w);
    /* a tensor that two files have is taken from the first */
    path = CONVERT("twice.safetensors", "fp16", &err, GOLDEN "diffae.ckpt", WEIGHTS "diffae-latent.ckpt");
    CHECK(path, "%s", err.text);
}

static void attributes(void)
{
    zn_error err = { "" };
    const char *path = CONVERT("mine.attributes.safetensors", "fp16", &err, WEIGHTS "diffae-cls.ckpt"), *names;
    zn_weights *w = path ? open_one(path, &err) : NULL, *from = open_one(WEIGHTS "diffae-cls.ckpt", &err);
    float rows[40 * 24], weight[40 * 24], mean[24], want[24], step[40], guide[40];
    int commas = 0;

    CHECK(w && from, "%s", err.text);
    names = zn_weights_meta(w, "names");
    CHECK(names && !strcmp(zn_weights_meta(w, "model"), "mine"), "%s, for %s", names, zn_weights_meta(w, "model"));
    for (const char *p = names; *p; p++)
        commas += *p == ',';
    CHECK(commas == 39 && !strncmp(names, "5_o_Clock_Shadow,Arched", 23) &&
              strstr(names, "Sideburns,Smiling,Straight_Hair"),
          "%d: %s", commas + 1, names);
    CHECK(!zn_weights_read(rows, 40 * 24, w, "directions", &err) &&
              !zn_weights_read(weight, 40 * 24, from, "classifier.weight", &err) &&
              !zn_weights_read(mean, 24, w, "mean", &err) && !zn_weights_read(want, 24, from, "conds_mean", &err) &&
              !zn_weights_read(step, 40, w, "step", &err) && !zn_weights_read(guide, 40, w, "guide", &err),
          "%s", err.text);
    for (int i = 0; i < 40; i++) {
        double along = 0, length = 0, original = 0;

        for (int j = 0; j < 24; j++) {
            const double r = (double)rows[i * 24 + j], o = (double)weight[i * 24 + j];

            along += r * o;
            length += r * r;
            original += o * o;
        }
        CHECK(fabs(length - 1) < 1e-5 && fabs(along - sqrt(original)) < 1e-4, "row %d: length %g", i, sqrt(length));
        CHECK(fabsf(step[i] - 0.3f * sqrtf(24)) < 1e-6f && guide[i] == 1, "row %d: step %g", i, (double)step[i]);
    }
    CHECK(!memcmp(mean, want, sizeof mean), "the means differ");
    zn_weights_close(&w);
    zn_weights_close(&from);
}

/* ---- any file --------------------------------------------------------------------------------------------- */

static void other_models(void)
{
    zn_error err = { "" };
    const char *path = CONVERT("t.safetensors", NULL, &err, GOLDEN "taesd_encoder.pth");
    double d;

    CHECK(path, "%s", err.text);
    d = apart("taesd-encode", GOLDEN "taesd_encoder.pth", path, 24, 16, NULL);
    CHECK(d < 2e-3, "taesd is off by %g", d);
    path = CONVERT("d.safetensors", "bf16", &err, GOLDEN "denoise.safetensors");
    CHECK(path, "%s", err.text);
    d = apart("denoise-fast", GOLDEN "denoise.safetensors", path, 24, 16, "sigma=9");
    CHECK(d > 0 && d < 2e-2, "denoise is off by %g", d);
}

/* Every layout and type that PyTorch writes; element i is i % 7, minus 3 where the type has a sign. */
static void every_tensor(void)
{
    static const char *const files[] = { WEIGHTS "layouts.pt", WEIGHTS "dtypes.pt" };
    zn_error err = { "" };

    for (int k = 0; k < 4; k++) {
        const char *path = convert("every.safetensors", k / 2 ? "fp32" : "fp16", &err, 1, &files[k % 2]);
        zn_weights *from = open_one(files[k % 2], &err), *w = path ? open_one(path, &err) : NULL;

        CHECK(w && from, "%s", err.text);
        CHECK(zn_weights_count(w) == zn_weights_count(from), "%d tensors", zn_weights_count(w));
        for (int i = 0; i < zn_weights_count(from); i++) {
            const zn_entry *a = zn_weights_at(from, i), *b = zn_weights_get(w, a->name);
            float x[256] = { 0 }, y[256] = { 0 };

            CHECK(b && b->n_dims == a->n_dims && zn_entry_len(a) == zn_entry_len(b) && zn_entry_len(a) <= 256, "'%s'",
                  a->name);
            CHECK(!zn_entry_read(a, x, &err) && !zn_entry_read(b, y, &err), "%s", err.text);
            CHECK(!memcmp(x, y, sizeof x), "'%s' has other values", a->name);
            if (a->dtype == ZN_I64 || a->dtype == ZN_BOOL)
                CHECK(a->dtype == b->dtype, "'%s' has another type", a->name);
        }
        zn_weights_close(&w);
        zn_weights_close(&from);
    }
}

/* ---- failures ----------------------------------------------------------------------------------------------- */

static bool write_one(const char *path, float value)
{
    const float data[2] = { value, 0 };
    const unsigned char head[8] = { 64 };
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(head, 8, 1, f) == 1 &&
        fprintf(f, "%-64s", "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}") == 64 &&
        fwrite(data, sizeof data, 1, f) == 1;

    return f && !fclose(f) && ok;
}

static void refusals(void)
{
    const struct rlimit none = { 4096, RLIM_INFINITY };
    struct rlimit before;
    zn_error err = { "" };
    char large[1024], old[1024];
    zn_weights *w;

    CHECK(!CONVERT("x.bin", "fp16", &err, GOLDEN "diffae.ckpt") && says(&err, "must end in .safetensors"), "%s",
          err.text);
    CHECK(!CONVERT("x.safetensors", "int8", &err, GOLDEN "diffae.ckpt") && says(&err, "fp32, fp16 or bf16"), "%s",
          err.text);
    CHECK(!CONVERT("x.safetensors", "fp16", &err, "/nowhere.ckpt") && says(&err, "nowhere"), "%s", err.text);
    CHECK(!CONVERT("x.safetensors", "fp16", &err, WEIGHTS "diffae-cls.ckpt") && says(&err, ".attributes.safetensors"),
          "%s", err.text);
    CHECK(!CONVERT("x.safetensors", "fp16", &err, WEIGHTS "diffae-latent.pkl") && says(&err, "neither a network"), "%s",
          err.text);
    CHECK(!CONVERT("x.safetensors", "fp16", &err, GOLDEN "diffae.ckpt", GOLDEN "taesd_encoder.pth") &&
              says(&err, "taesd_encoder.pth is no file of a diffusion autoencoder"),
          "%s", err.text);
    CHECK(!CONVERT("x.safetensors", "fp16", &err, ZN_SOURCE_ROOT "/models/zenith-face.safetensors",
                   WEIGHTS "diffae-cls.ckpt") &&
              says(&err, "24 numbers"),
          "%s", err.text);
    CHECK(!CONVERT("no/x.safetensors", "fp16", &err, GOLDEN "diffae.ckpt") && says(&err, "cannot be written"), "%s",
          err.text);
    snprintf(large, sizeof large, "%s", join(tmp, "large.safetensors"));
    CHECK(write_one(large, 1e6f), "cannot write");
    CHECK(!CONVERT("x.safetensors", "fp16", &err, large) && says(&err, "'w' holds 1e+06, which fp16 cannot"), "%s",
          err.text);
    CHECK(CONVERT("x.safetensors", "bf16", &err, large), "%s", err.text);

    /* a full disk: the older file stays, and nothing of the new one */
    snprintf(old, sizeof old, "%s", join(tmp, "x.safetensors"));
    CHECK(!getrlimit(RLIMIT_FSIZE, &before) && !setrlimit(RLIMIT_FSIZE, &none), "no limit");
    const char *path = CONVERT("x.safetensors", "fp16", &err, GOLDEN "diffae.ckpt");

    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(!path && says(&err, "could not be written whole"), "%s", err.text);
    w = open_one(old, &err);
    CHECK(w && zn_weights_get(w, "w"), "%s", err.text);
    zn_weights_close(&w);
    CHECK(!system("test $(ls /tmp/zenith-convert-*/ | grep -c part-) = 0"), "a part is left");
}

int main(void)
{
    zn_error err = { "" };

    if (!mkdtemp(tmp) || zn_engine_open(&engine, NULL, 0, &err)) {
        printf("not ok begin: %s\n", err.text);
        return 1;
    }
    signal(SIGXFSZ, SIG_IGN);
    RUN(autoencoder);
    RUN(several_files);
    RUN(attributes);
    RUN(other_models);
    RUN(every_tensor);
    RUN(refusals);
    zn_engine_close(&engine);
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s", tmp);
    return test_end() | (system(command) != 0);
}
