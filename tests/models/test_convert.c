/* SPDX-License-Identifier: MIT */
/* test_convert.c - `zenith convert`: what it writes has the tensors of the originals, and runs as they do. */
#define _XOPEN_SOURCE 700

#include "../unit/weights.h"

#include "../../engine/core/quantise.h"
#include "../../engine/core/savefile.h"
#include "../../engine/zenith_bench.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
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
static float *run(const char *id, const char *file, int w, int h, zn_value set, size_t *len)
{
    zn_array in[ZN_MAX_PORTS] = { { 0 } }, out = { 0 };
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    const zn_job job = { .set = &set, .n_set = set.key != NULL };
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
static double apart(const char *id, const char *a, const char *b, int w, int h, zn_value set)
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
    const char *id;
    zn_value set;
} diffae[] = { { "diffae-encode", { 0 } },
               { "diffae-unet", { 0 } },
               { "diffae-latent-net", { 0 } },
               { "diffae-sample", { "steps", 4 } },
               { "diffae-latent-sample", { "steps", 4 } } };

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
    d = apart("diffae-latent-sample", GOLDEN "diffae.ckpt", path, 16, 16, (zn_value){ "steps", 4 });
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
    d = apart("taesd-encode", GOLDEN "taesd_encoder.pth", path, 24, 16, (zn_value){ 0 });
    CHECK(d < 2e-3, "taesd is off by %g", d);
    path = CONVERT("d.safetensors", "bf16", &err, GOLDEN "denoise.safetensors");
    CHECK(path, "%s", err.text);
    d = apart("denoise-fast", GOLDEN "denoise.safetensors", path, 24, 16, (zn_value){ "sigma", 9 });
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

/* ---- quantised files --------------------------------------------------------------------------------------- */

enum { MOST = 8192 }; /* numbers of a tensor here */

/* What a matrix or convolution of these numbers becomes; others are rounded to bf16 or, as vectors or of 16 bits, left. */
static void expect(float *x, const zn_entry *e, zn_wtype type)
{
    const size_t n = zn_entry_len(e);

    for (size_t i = 0; i < n && e->n_dims > 1; i += ZN_W_GROUP) {
        unsigned char q[ZN_W_GROUP];
        const int group = (int)(n - i < ZN_W_GROUP ? n - i : ZN_W_GROUP);
        const int64_t row = (int64_t)n / e->shape[0];
        const bool conv = e->n_dims >= 4 && e->shape[0] >= 16 && e->shape[1] % 8 == 0;
        const bool matrix = row % 32 == 0 && (conv || (e->n_dims == 2 && e->shape[0] >= 32));
        const uint16_t scale = matrix ? zn_quantise(type, q, x + i, group) : 0;

        if (matrix)
            zn_dequantise(type, x + i, q, scale, group);
        for (int k = 0; !matrix && zn_dtype_size(e->dtype) != 2 && k < group; k++)
            x[i + (size_t)k] = zn_from_bf16(zn_to_bf16(x[i + (size_t)k]));
    }
}

static void quantised_files(void)
{
    static const struct {
        const char *name, *stored;
        zn_wtype type;
    } types[] = { { "int4", "MLX4", ZN_W_I4 }, { "int8", "MLX8", ZN_W_I8 } };

    for (size_t t = 0; t < 2; t++) {
        zn_error err = { "" };
        const char *path = CONVERT("q.safetensors", types[t].name, &err, GOLDEN "zimage_dit.safetensors");
        zn_weights *old = open_one(GOLDEN "zimage_dit.safetensors", &err), *made = path ? open_one(path, &err) : NULL;
        int matrices = 0;

        CHECK(made && old, "%s", err.text);
        for (int i = 0; i < zn_weights_count(old); i++) {
            const zn_entry *e = zn_weights_at(old, i), *m = zn_weights_get(made, e->name);
            float want[MOST], got[MOST];

            CHECK(m && m->n_dims == e->n_dims && zn_entry_len(m) == zn_entry_len(e) && zn_entry_len(e) <= MOST,
                  "%s: '%s' has another shape", types[t].name, e->name);
            CHECK(!zn_entry_read(e, want, &err) && !zn_entry_read(m, got, &err), "%s", err.text);
            expect(want, e, types[t].type);
            matrices += !strcmp(zn_dtype_name(m->dtype), types[t].stored);
            CHECK(!memcmp(want, got, zn_entry_len(e) * sizeof *got), "%s: '%s' has other values", types[t].name,
                  e->name);
        }
        CHECK(matrices > 20, "%s: %d matrices", types[t].name, matrices);
        zn_weights_close(&old);
        zn_weights_close(&made);
        CHECK(apart("z-image-dit", GOLDEN "zimage_dit.safetensors", path, 80, 48, (zn_value){ 0 }) < (t ? 0.05 : 0.5),
              "%s: another network", types[t].name);
    }
}

/* Convolutions keep their shape; what has no whole groups, or too few inputs for whole words, stays bf16. */
static void quantised_convolutions(void)
{
    static const struct {
        const char *name;
        int n_dims;
        int64_t shape[5];
        bool small;
    } layers[] = { { "a.weight", 4, { 16, 32, 3, 3 }, false },    { "b.weight", 4, { 32, 8, 2, 2 }, false },
                   { "c.weight", 5, { 16, 16, 1, 3, 2 }, false }, { "d.weight", 4, { 64, 1, 3, 3 }, true },
                   { "e.weight", 4, { 16, 12, 4, 2 }, true },     { "f.weight", 4, { 8, 32, 1, 1 }, true } };
    enum { N = 6 };
    static float x[MOST], want[MOST], got[MOST];
    zn_save_tensor list[N];
    char from[128];
    zn_error err = { "" };

    for (int i = 0; i < MOST; i++)
        x[i] = (float)sin(0.7 * i) * (i % 37 ? 0.3f : 1);
    for (int i = 0; i < N; i++) {
        list[i] = (zn_save_tensor){ .name = layers[i].name, .n_dims = layers[i].n_dims, .data = x };
        memcpy(list[i].shape, layers[i].shape, sizeof layers[i].shape);
    }
    snprintf(from, sizeof from, "%s", join(tmp, "convs.safetensors"));
    CHECK(!zn_save_tensors(from, list, N, NULL, &err), "%s", err.text);
    for (int t = 0; t < 2; t++) {
        const char *path = CONVERT("convs-q.safetensors", t ? "int8" : "int4", &err, from);
        zn_weights *made = path ? open_one(path, &err) : NULL;

        CHECK(made, "%s", err.text);
        for (int i = 0; i < N; i++) {
            const zn_entry *m = zn_weights_get(made, layers[i].name);
            bool same = m && m->n_dims == layers[i].n_dims;

            for (int d = 0; same && d < m->n_dims; d++)
                same = m->shape[d] == layers[i].shape[d];
            CHECK(same && (m->dtype == ZN_BF16) == layers[i].small, "'%s' has another shape or type", layers[i].name);
            memcpy(want, x, sizeof want);
            zn_entry was = *m;

            was.dtype = ZN_F32;
            expect(want, &was, t ? ZN_W_I8 : ZN_W_I4);
            CHECK(!zn_entry_read(m, got, &err) && !memcmp(want, got, zn_entry_len(m) * sizeof *got),
                  "'%s' has other values %s", layers[i].name, err.text);
        }
        zn_weights_close(&made);
    }
    CHECK(!zn_save_tensors(from, list + 3, 3, NULL, &err), "%s", err.text);
    CHECK(!CONVERT("convs-q.safetensors", "int8", &err, from) && strstr(err.text, "groups of 32 weights"), "'%s'",
          err.text);
}

/* A network of convolutions runs from a file of 8 bits. */
static void quantised_network(void)
{
    zn_error err = { "" };
    const char *from = ZN_SOURCE_ROOT "/models/zenith-lite.safetensors";
    const char *path = CONVERT("lite.safetensors", "int8", &err, from);

    CHECK(path, "%s", err.text);
    CHECK(apart("zenith-lite-decode", from, path, 8, 8, (zn_value){ 0 }) < 0.05, "another network");
}

/* ---- fp8 ------------------------------------------------------------------------------------------------------ */

/* Rows of all sizes, one of zeros, as e4m3 with a power of two each; rows that are short or few, and vectors, stay. */
static const char *make_fp8(char from[128], zn_error *err)
{
    static float x[16 * 48 * 3];
    const zn_save_tensor list[] = {
        { .name = "a.weight", .n_dims = 4, .shape = { 16, 48, 1, 3 }, .data = x },
        { .name = "b.weight", .n_dims = 2, .shape = { 32, 64 }, .data = x },
        { .name = "c.weight", .n_dims = 2, .shape = { 15, 64 }, .data = x },
        { .name = "d.weight", .n_dims = 4, .shape = { 64, 3, 3, 3 }, .data = x },
        { .name = "a.bias", .n_dims = 1, .shape = { 16 }, .data = x },
    };

    for (int i = 0; i < 16 * 48 * 3; i++)
        x[i] = i / 144 == 3 ? 0 : (float)(sin(0.7 * i) * pow(2, i / 144 * 3 - 24));
    snprintf(from, 128, "%s", join(tmp, "fp8-from.safetensors"));
    return zn_save_tensors(from, list, sizeof list / sizeof *list, NULL, err)
        ? NULL
        : CONVERT("fp8.safetensors", "fp8", err, from);
}

static void fp8_files(void)
{
    zn_error err = { "" };
    char from[128], first[128];
    const char *made = make_fp8(from, &err);
    zn_weights *old = open_one(from, &err), *w = made ? open_one(made, &err) : NULL, *plain;
    size_t n[2];
    unsigned char *bytes[2];

    CHECK(old && w, "%s", err.text);
    snprintf(first, sizeof first, "%s", made);
    for (int i = 0; i < zn_weights_count(old); i++) {
        const zn_entry *e = zn_weights_at(old, i), *m = zn_weights_get(w, e->name);
        const size_t len = zn_entry_len(e), row = len / (size_t)e->shape[0];
        const bool quantised = !strcmp(e->name, "a.weight") || !strcmp(e->name, "b.weight");
        float want[MOST], got[MOST], part[7];

        CHECK(m && (m->dtype == ZN_F8_E4M3) == quantised && !!m->scales == quantised && m->n_dims == e->n_dims,
              "'%s' has another type", e->name);
        CHECK(!zn_entry_read(e, want, &err) && !zn_entry_read(m, got, &err), "%s", err.text);
        CHECK(!quantised ||
                  (!zn_entry_read_part(m, part, row - 3, 7, &err) && !memcmp(part, got + row - 3, sizeof part)),
              "a part of '%s' differs", e->name);
        for (size_t j = 0; j < len && quantised; j++) {
            float top = 0;

            for (size_t k = j / row * row; k < j / row * row + row; k++)
                top = fmaxf(top, fabsf(want[k]));
            CHECK(fabsf(got[j] - want[j]) <= fmaxf(fabsf(want[j]) / 16, top * 0x1p-17f) &&
                      got[j] == zn_from_bf16(zn_to_bf16(got[j])),
                  "'%s' has %g in place of %g at %zu", e->name, (double)got[j], (double)want[j], j);
        }
    }
    /* the same bytes again, and floats that hold what they stood for */
    made = CONVERT("fp8-again.safetensors", "fp8", &err, first);
    CHECK(made, "%s", err.text);
    bytes[0] = slurp(first, &n[0]);
    bytes[1] = slurp(made, &n[1]);
    CHECK(n[0] && n[0] == n[1] && !memcmp(bytes[0], bytes[1], n[0]), "converted again it differs");
    free(bytes[0]);
    free(bytes[1]);
    made = CONVERT("fp8-plain.safetensors", "fp32", &err, first);
    plain = made ? open_one(made, &err) : NULL;
    CHECK(plain && zn_weights_count(plain) == zn_weights_count(old) && !zn_weights_meta(plain, "fp8"), "%s", err.text);
    for (int i = 0; i < zn_weights_count(old); i++) {
        const char *name = zn_weights_at(old, i)->name;
        float want[MOST], got[MOST];

        CHECK(!zn_entry_read(zn_weights_get(w, name), want, &err) &&
                  !zn_entry_read(zn_weights_get(plain, name), got, &err) &&
                  !memcmp(want, got, zn_entry_len(zn_weights_at(old, i)) * sizeof *got),
              "'%s' has other values %s", name, err.text);
    }
    zn_weights_close(&old);
    zn_weights_close(&w);
    zn_weights_close(&plain);
    CHECK(!CONVERT("x.safetensors", "fp8", &err, GOLDEN "taesd_encoder.pth") && says(&err, "as fp8 needs"), "%s",
          err.text);
}

/* Z-Image and Wan run from such files; what they lose is what e4m3 rounds. */
static void fp8_networks(void)
{
    static const struct {
        const char *id, *file;
        int w, h;
    } nets[] = { { "z-image-dit", GOLDEN "zimage_dit.safetensors", 80, 48 },
                 { "wan-vae-decode", GOLDEN "wan21.pth", 8, 8 },
                 { "wan2d-vae-encode", GOLDEN "wan2d.pth", 32, 32 } };

    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        zn_error err = { "" };
        const char *path = CONVERT("net.safetensors", "fp8", &err, nets[i].file);
        double d;

        CHECK(path, "%s", err.text);
        d = apart(nets[i].id, nets[i].file, path, nets[i].w, nets[i].h, (zn_value){ 0 });
        CHECK(d > 0 && d < 0.2, "%s is off by %g", nets[i].id, d);
    }
}

/* Damaged and foreign files. */
static void fp8_damage(void)
{
    static const struct {
        const char *what, *find, *put; /* a text of the header; or */
        const char *tensor;            /* the first bytes of its elements, which become `bytes` */
        unsigned char bytes[4];
        int n;
        const char *says; /* NULL: it opens, and reads */
    } cases[] = {
        { "as it is", NULL, NULL, NULL, { 0 }, 0, NULL },
        { "no scales", "a.weight_scale", "a.weight_scalx", NULL, { 0 }, 0, "its scales are missing" },
        { "no scales at all", "_scale\"", "_scalx\"", NULL, { 0 }, 0, "its scales are missing" },
        { "another tensor's", "a.weight_scale", "b.weight_scalx", NULL, { 0 }, 0, "its scales are missing" },
        { "integers",
          "F32\",\"shape\":[16],",
          "I32\",\"shape\":[16],",
          NULL,
          { 0 },
          0,
          "which scales of fp8 cannot have" },
        { "too many", "b.weight_scale\"", "a.weight_scale\"", NULL, { 0 }, 0, "twice" },
        { "blocks",
          "a.weight_scale\":{\"dtype\":\"F32\",\"shape\":[16]",
          "a.scale_weight\":{\"dtype\":\"F16\",\"shape\":[32]",
          NULL,
          { 0 },
          0,
          "32 scales for the 16 rows" },
        { "a NaN as scale", NULL, NULL, "a.weight_scale", { 0, 0, 0xc0, 0x7f }, 4, "which is no scale" },
        { "infinity", NULL, NULL, "a.weight_scale", { 0, 0, 0x80, 0x7f }, 4, "which is no scale" },
        { "0", NULL, NULL, "a.weight_scale", { 0, 0, 0, 0 }, 4, "which is no scale" },
        { "-1", NULL, NULL, "a.weight_scale", { 0, 0, 0x80, 0xbf }, 4, "which is no scale" },
        { "a scale that overflows", NULL, NULL, "a.weight_scale", { 0xff, 0xff, 0x7f, 0x7f }, 4, "not finite" },
        { "a NaN as weight", NULL, NULL, "a.weight", { 0x7f }, 1, "not finite" },
        { "another name", "a.weight_scale", "a.scale_weight", NULL, { 0 }, 0, NULL },
    };
    zn_error err = { "" };
    char from[128];
    const char *path = make_fp8(from, &err);

    CHECK(path, "%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        unsigned char *b = slurp(path, &size);
        const size_t head = b ? 8 + (size_t)zn_le64(b) : 0;
        zn_weights *w = NULL;
        float x[MOST];
        zn_status s;

        if (cases[i].tensor && !zn_weights_open_memory(&w, b, size, "good", &err))
            memcpy(b + zn_weights_get(w, cases[i].tensor)->at, cases[i].bytes, (size_t)cases[i].n);
        zn_weights_close(&w);
        for (size_t at = 8; cases[i].find && at + strlen(cases[i].find) <= head; at++)
            if (!memcmp(b + at, cases[i].find, strlen(cases[i].find)))
                memcpy(b + at, cases[i].put, strlen(cases[i].put));
        err.text[0] = 0;
        s = zn_weights_open_memory(&w, b, size, "it", &err);
        s = s ? s : zn_entry_read(zn_weights_get(w, "a.weight"), x, &err);
        CHECK(cases[i].says ? s == ZN_E_FILE && says(&err, cases[i].says) : !s, "%s: '%s'", cases[i].what, err.text);
        zn_weights_close(&w);
        free(b);
    }
}

/* Blocks of GGUF and matrices of MLX become the floats that they stand for; scales go. */
static void blocks_to_floats(void)
{
    static const char *const files[] = { WEIGHTS "blocks.gguf", WEIGHTS "mlx.safetensors" };

    for (int f = 0; f < 2; f++) {
        zn_error err = { "" };
        const char *path = CONVERT("b.safetensors", "fp32", &err, files[f]);
        zn_weights *old = open_one(files[f], &err), *made = path ? open_one(path, &err) : NULL;
        int n = 0;

        CHECK(made && old, "%s", err.text);
        for (int i = 0; i < zn_weights_count(made); i++) {
            const zn_entry *m = zn_weights_at(made, i), *e = zn_weights_get(old, m->name);
            float want[MOST], got[MOST];

            CHECK(e && zn_entry_len(m) == zn_entry_len(e) && zn_entry_len(e) <= MOST && m->dtype == ZN_F32,
                  "'%s' has another shape", m->name);
            CHECK(!zn_entry_read(e, want, &err) && !zn_entry_read(m, got, &err) &&
                      !memcmp(want, got, zn_entry_len(e) * sizeof *got),
                  "'%s' has other values %s", m->name, err.text);
            n += !zn_dtype_size(e->dtype);
        }
        CHECK(n == (f ? 1 : 8) && zn_weights_count(made) == (f ? 1 : 10), "%d of %d tensors were in blocks", n,
              zn_weights_count(made));
        zn_weights_close(&old);
        zn_weights_close(&made);
    }
}

/* 64 MiB of bf16 to 4 bits in a process of its own: memory does not grow with the file. */
static void bounded_memory(void)
{
    static const char head[] =
        "{\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[8192,4096],\"data_offsets\":[0,67108864]}}";
    const uint64_t len = sizeof head - 1;
    char file[1024];
    FILE *f;
    int status = 1;
    pid_t pid;

    snprintf(file, sizeof file, "%s", join(tmp, "huge.safetensors"));
    f = fopen(file, "wb");
    CHECK(f && fwrite(&len, 8, 1, f) == 1 && fwrite(head, len, 1, f) == 1 && !fflush(f) &&
              !ftruncate(fileno(f), (off_t)(8 + len + 67108864)) && !fclose(f),
          "cannot write");
    pid = fork();
    if (!pid) {
        struct rusage before, after;
        zn_error err;

        getrusage(RUSAGE_SELF, &before);
        if (!CONVERT("small.safetensors", "int4", &err, file))
            _exit(2);
        getrusage(RUSAGE_SELF, &after);
        _exit(after.ru_maxrss - before.ru_maxrss > 24 << 10 ? 3 : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status), "exit status %d",
          WEXITSTATUS(status));
}

/* A file of 6 MB with 100,000 tensors that are empty: the work grows with the file, not with its square. */
static void many_tensors(void)
{
    enum { N = 100000 };
    char from[128], to[128];
    FILE *f;
    long end;
    zn_error err = { "" };
    clock_t before;
    double took;

    snprintf(from, sizeof from, "%s", join(tmp, "many.safetensors"));
    snprintf(to, sizeof to, "%s", join(tmp, "many-out.safetensors"));
    CHECK((f = fopen(from, "wb")), "no file");
    fwrite((char[8]){ 0 }, 8, 1, f);
    for (int i = 0; i < N; i++)
        fprintf(f, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{", i);
    fputc('}', f);
    end = ftell(f) - 8;
    rewind(f);
    for (int i = 0; i < 8; i++)
        fputc((int)(end >> (8 * i) & 255), f);
    CHECK(!fclose(f), "not written");
    before = clock();
    zn_status s = zn_weights_convert(to, (const char *const[]){ from }, 1, "fp16", NULL, &err);
    took = (double)(clock() - before) / CLOCKS_PER_SEC;
    CHECK(!s, "%s", err.text);
    CHECK(took < (INSTRUMENTED ? 30 : 8) * test_second(), "%d tensors took %.1f s", N, took);
}

static void refusals(void)
{
    const struct rlimit none = { 4096, RLIM_INFINITY };
    struct rlimit before;
    zn_error err = { "" };
    char large[1024], old[1024], look[128];
    zn_weights *w;

    CHECK(!CONVERT("x.bin", "fp16", &err, GOLDEN "diffae.ckpt") && says(&err, "must end in .safetensors"), "%s",
          err.text);
    CHECK(!CONVERT("x.safetensors", "int2", &err, GOLDEN "diffae.ckpt") && says(&err, "not 'int2'"), "%s", err.text);
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
    snprintf(look, sizeof look, "test $(ls %s | grep -c part-) = 0", tmp);
    CHECK(!system(look), "a part is left");
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
    RUN(quantised_files);
    RUN(quantised_convolutions);
    RUN(quantised_network);
    RUN(fp8_files);
    RUN(fp8_networks);
    RUN(fp8_damage);
    RUN(blocks_to_floats);
    RUN(bounded_memory);
    RUN(many_tensors);
    RUN(refusals);
    zn_engine_close(&engine);
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s", tmp);
    return test_end() | (system(command) != 0);
}
