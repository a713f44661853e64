/* SPDX-License-Identifier: MIT */
/* test_zenith.c - what must be true of the Zenith networks whatever their weights are, on every engine. */
#include "../unit/test.h"

#include "core/savefile.h"
#include "handle.h"
#include "special.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static zn_engine *engine; /* of the tests that run */

static float noise(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1;
}

static zn_tensor tensor(int h, int w, int c, unsigned seed)
{
    zn_tensor t = {
        engine->be->alloc(engine->dev, (size_t)h * (size_t)w * (size_t)c * sizeof(float)), 1, h, w, c, c, ZN_F32
    };
    float *x = malloc(zn_pixels(t) * (size_t)c * sizeof *x);

    for (size_t i = 0; i < zn_pixels(t) * (size_t)c; i++)
        x[i] = seed ? noise(&seed) : 0;
    engine->be->upload(engine->dev, t.data, x, zn_pixels(t) * (size_t)c * sizeof *x);
    free(x);
    return t;
}

static float *row(const float *x, size_t n)
{
    float *p = engine->be->alloc(engine->dev, n * sizeof *p);

    engine->be->upload(engine->dev, p, x, n * sizeof *p);
    return p;
}

/* The largest |a - scale * b|. */
static double distance(zn_tensor a, zn_tensor b, double scale)
{
    size_t n = zn_pixels(a) * (size_t)a.c;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    double worst = 0;

    engine->be->download(engine->dev, x, a.data, n * sizeof *x);
    engine->be->download(engine->dev, y, b.data, n * sizeof *y);
    engine->be->sync(engine->dev, NULL);
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - scale * (double)y[i]);

        worst = test_larger(worst, d);
    }
    free(x);
    free(y);
    return worst;
}

static void drop(zn_tensor a, zn_tensor b)
{
    engine->be->free(engine->dev, a.data);
    engine->be->free(engine->dev, b.data);
}

static void test_twice_is_n(void)
{
    static const struct {
        zn_axis axis;
        int n, h, w, c;
    } cases[] = { { ZN_ALONG_C, 2048, 3, 3, 2048 }, { ZN_ALONG_W, 256, 3, 256, 20 }, { ZN_ALONG_H, 128, 128, 7, 16 } };

    for (int i = 0; i < 3; i++) {
        zn_tensor x = tensor(cases[i].h, cases[i].w, cases[i].c, 3), y = tensor(cases[i].h, cases[i].w, cases[i].c, 0);
        zn_fwht f = { .axis = cases[i].axis, .n = cases[i].n };
        double d;

        engine->be->special->fwht(engine->dev, y, x, &f);
        engine->be->special->fwht(engine->dev, y, y, &f);
        d = distance(y, x, cases[i].n);
        drop(x, y);
        CHECK(d <= 2e-6 * cases[i].n, "axis %d: off by %g", i, d);
    }
}

static void test_open_gates_change_nothing(void)
{
    zn_tensor x = tensor(37, 50, 12, 4), y = tensor(37, 50, 12, 0);
    float ones[16];
    double d;

    for (int i = 0; i < 16; i++)
        ones[i] = 1.0f / 16;
    zn_fwht w = { .axis = ZN_ALONG_W, .n = 16, .shift = 8, .gate = row(ones, 16) };
    zn_fwht h = { .axis = ZN_ALONG_H, .n = 16, .gate = w.gate };

    engine->be->special->fwht(engine->dev, y, x, &w);
    engine->be->special->fwht(engine->dev, y, y, &h);
    d = distance(y, x, 1);
    engine->be->free(engine->dev, (void *)w.gate);
    drop(x, y);
    CHECK(d <= 1e-5, "off by %g", d);
}

static void test_shuffle_undoes_unshuffle(void)
{
    zn_tensor x = tensor(8, 12, 5, 5), mid = tensor(2, 3, 80, 0), y = tensor(8, 12, 5, 0);
    double d;

    engine->be->unshuffle(engine->dev, mid, x, 4);
    engine->be->shuffle(engine->dev, y, mid, 4, (zn_tail){ 0 });
    d = distance(x, y, 1);
    drop(x, y);
    engine->be->free(engine->dev, mid.data);
    CHECK(d == 0, "off by %g", d);
}

/* Four rounds of permutation, scale and transform are a matrix: its columns are what unit vectors become. */
static void test_spectral_layer_is_its_matrix(void)
{
    enum { P = 32, ROUNDS = 4 };
    float scale[ROUNDS * P], unit[P * P] = { 0 }, got[P * P];
    int32_t perm[ROUNDS * P];
    double want[P][P], next[P][P];
    unsigned seed = 9;
    zn_tensor x = tensor(P, 1, P, 0), y = tensor(P, 1, P, 0);
    zn_fwht f = { .axis = ZN_ALONG_C, .n = P, .rounds = ROUNDS };

    for (int i = 0; i < ROUNDS * P; i++) {
        scale[i] = noise(&seed);
        perm[i] = (i * 5 + i / P) % P;
    }
    for (int i = 0; i < P; i++)
        unit[i * P + i] = 1;
    engine->be->upload(engine->dev, x.data, unit, sizeof unit);
    f.pre = row(scale, ROUNDS * P);
    f.perm = (const void *)row((const float *)(const void *)perm, ROUNDS * P);
    engine->be->special->fwht(engine->dev, y, x, &f);
    engine->be->sync(engine->dev, NULL);
    engine->be->download(engine->dev, got, y.data, sizeof got);
    for (int i = 0; i < P; i++)
        for (int j = 0; j < P; j++)
            want[i][j] = i == j;
    for (int r = 0; r < ROUNDS; r++) { /* a sign of H is the parity of the bits that i and j share */
        for (int u = 0; u < P; u++)
            for (int i = 0; i < P; i++) {
                next[u][i] = 0;
                for (int j = 0; j < P; j++)
                    next[u][i] += (__builtin_popcount((unsigned)(i & j)) % 2 ? -1 : 1) * (double)scale[r * P + j] *
                        want[u][perm[r * P + j]];
            }
        memcpy(want, next, sizeof want);
    }
    engine->be->free(engine->dev, (void *)f.pre);
    engine->be->free(engine->dev, (void *)f.perm);
    drop(x, y);
    for (int i = 0; i < P * P; i++)
        CHECK(fabs((double)got[i] - want[i / P][i % P]) <= 1e-4 * 32, "element %d: %g, not %g", i, (double)got[i],
              want[i / P][i % P]);
}

/* Scale 1/c and an identity mixer: the transforms cancel, and the ReLU is left. */
static void test_fresh_block_is_relu(void)
{
    enum { C = 512 };
    zn_tensor x = tensor(4, 4, C, 6), y = tensor(4, 4, C, 0), z = tensor(4, 4, C, 0);
    float mix[3 * C] = { 0 };
    double d;

    for (int i = 0; i < C; i++)
        mix[C + i] = 1.0f / C;
    zn_fwht f = { .axis = ZN_ALONG_C, .n = C, .mix = row(mix, 3 * C), .act = ZN_RELU };

    engine->be->special->fwht(engine->dev, y, x, &f);
    engine->be->map(engine->dev, z, x, (zn_tail){ .pre = ZN_RELU });
    d = distance(y, z, 1);
    engine->be->free(engine->dev, (void *)f.mix);
    engine->be->free(engine->dev, z.data);
    drop(x, y);
    CHECK(d <= 1e-5, "off by %g", d);
}

/* All gates shut: the block's output is its beta. */
static void test_shut_gates_leave_beta(void)
{
    enum { C = 64 };
    zn_tensor x = tensor(4, 4, C, 7), y = tensor(4, 4, C, 8), mask = tensor(4, 4, C / 8, 1), b = tensor(4, 4, C, 0);
    float gate[C / 4], weight[9 * C], beta[C], ones[C];
    double d;

    for (int i = 0; i < C; i++)
        beta[i] = (float)i / C, ones[i] = 1;
    for (int i = 0; i < 9 * C; i++)
        weight[i] = 1;
    for (int i = 0; i < C / 4; i++)
        gate[i] = i < C / 8 ? 1 : -1e6f;
    float *g = row(gate, C / 4);
    zn_pruned p = { .c = C, .scale = g, .bias = g + C / 8, .weight = row(weight, 9 * C) };
    zn_norm n = {
        .kind = ZN_GROUP_NORM, .c = C, .groups = 32, .eps = 1e-5f, .gamma = row(ones, C), .beta = row(beta, C)
    };

    engine->be->special->pruned(engine->dev, y, mask, x, &p);
    engine->be->norm(engine->dev, y, y, &n, NULL, (zn_tail){ 0 });
    engine->be->fill(engine->dev, b, beta);
    d = distance(y, b, 1);
    engine->be->free(engine->dev, g);
    engine->be->free(engine->dev, (void *)p.weight);
    engine->be->free(engine->dev, n.gamma);
    engine->be->free(engine->dev, n.beta);
    drop(x, y);
    drop(mask, b);
    CHECK(d == 0, "off by %g", d);
}

static int64_t parameters(const char *id)
{
    const char *made_up = ZN_RANDOM_WEIGHTS;
    zn_model *m = NULL;
    int64_t n = -1;

    if (!zn_model_open(&m, engine, id, &(zn_open){ .files = &made_up, .n_files = 1 }, NULL))
        n = zn_model_parameters(m);
    zn_model_close(&m);
    return n;
}

static void test_parameters_as_documented(void)
{
    static const struct {
        const char *encode, *decode;
        int64_t n;
    } cases[] = {
        { "zenith-taesd-encode", "zenith-taesd-decode", 777191 },
        { "zenith-lite-doc-encode", "zenith-lite-doc-decode", 364711 },
        { "vanilla-taesd-encode", "vanilla-taesd-decode", 3850247 },
        { "zenith-ae", NULL, 258171 },
        { "zenith-prune", NULL, 356475 },
    };

    for (int i = 0; i < 5; i++) {
        int64_t n = parameters(cases[i].encode) + (cases[i].decode ? parameters(cases[i].decode) : 0);

        CHECK(n == cases[i].n, "%s: %lld, not %lld", cases[i].encode, (long long)n, (long long)cases[i].n);
    }
}

/* Without windows the picture must be as long and wide as the gates. */
static void test_exact_form_says_its_size(void)
{
    const char *file = ZN_SOURCE_ROOT "/tests/data/golden/zenith-lite-encode.safetensors";
    zn_array x = { calloc(64 * 64 * 3, sizeof(float)), 64, 64, 3 }, y = { calloc(8 * 8 * 4, sizeof(float)), 8, 8, 4 };
    zn_error err = { "" };
    zn_model *m = NULL;
    zn_status s = zn_model_open(&m, engine, "zenith-lite-doc-encode", &(zn_open){ .files = &file, .n_files = 1 }, &err);

    if (!s)
        s = zn_model_run(m, &x, 1, &y, NULL, &err);
    zn_model_close(&m);
    free(x.data);
    free(y.data);
    CHECK(s == ZN_E_USAGE && strstr(err.text, "32x16") && strstr(err.text, "64x64"), "%d: %s", s, err.text);
}

/* Linear maps multiplied together at load time give what the layers give one by one. */
static void test_folded_is_layered(void)
{
    static const char *const half[] = { "zenith-lite-doc-encode", "zenith-lite-doc-decode", "zenith-spectral-encode",
                                        "zenith-spectral-decode" };
    static const char *const golden[] = { "zenith-lite-encode", "zenith-lite-decode", "zenith-spectral-encode",
                                          "zenith-spectral-decode" };
    const zn_value layered = { "fold", 0 };

    for (int i = 0; i < 4; i++) {
        char path[256];
        const char *file = path;
        zn_array x = { NULL, 16, 32, 3 }, y = { 0 }, z;
        zn_job job = { .set = &layered, .n_set = 1 };
        zn_error err = { "" };
        zn_model *m = NULL;
        unsigned seed = 11;
        double worst = 0, top = 0;
        zn_status s;

        snprintf(path, sizeof path, ZN_SOURCE_ROOT "/tests/data/golden/%s.safetensors", golden[i]);
        s = zn_model_open(&m, engine, half[i], &(zn_open){ .files = &file, .n_files = 1 }, &err);
        if (i % 2)
            x = (zn_array){ NULL, 2, 4, 4 };
        x.data = calloc(zn_array_len(&x), sizeof(float));
        for (size_t j = 0; j < zn_array_len(&x); j++)
            x.data[j] = noise(&seed);
        if (!s)
            s = zn_model_shape(m, &x, 1, &y, &err);
        z = y;
        y.data = calloc(zn_array_len(&y) + 1, sizeof(float));
        z.data = calloc(zn_array_len(&z) + 1, sizeof(float));
        if (!s)
            s = zn_model_run(m, &x, 1, &y, NULL, &err);
        if (!s)
            s = zn_model_run(m, &x, 1, &z, &job, &err);
        for (size_t j = 0; j < zn_array_len(&y) && !s; j++) {
            worst = test_larger(worst, fabs((double)y.data[j] - (double)z.data[j]));
            top = fmax(top, fabs((double)z.data[j]));
        }
        zn_model_close(&m);
        free(x.data);
        free(y.data);
        free(z.data);
        CHECK(!s, "%s: %s", half[i], err.text);
        CHECK(top > 0 && worst <= 1e-5 * top, "%s: off by %g of %g", half[i], worst, top);
    }
}

/* A decoder of zenith-lite-doc that is valid, and whose matrices took 16 s to multiply: it must open in a moment. */
static void test_wide_file_opens_at_once(void)
{
    enum { C = 2048, W = C / 4, Z = 512, N = 26 };
    static const struct {
        const char *name;
        int out, in;
    } layer[] = { { "in", C, Z },
                  { "up1", C, W },
                  { "up2", C, W },
                  { "out", 3, W },
                  { "block1.compress", W / 4, W / 4 },
                  { "block1.expand", W, W / 16 },
                  { "block2.compress", W / 4, W / 4 },
                  { "block2.expand", W, W / 16 },
                  { "block3.compress", W / 4, W / 4 },
                  { "block3.expand", W, W / 16 } };
    zn_save_tensor list[N] = { { 0 } };
    float *zeros = calloc((size_t)C * Z, sizeof *zeros);
    char name[N][40], path[] = "/tmp/zenith-wide-XXXXXX.safetensors";
    const char *file = path;
    zn_engine *e = NULL;
    zn_model *m = NULL;
    zn_error err = { "" };
    clock_t before;
    double took;
    int n = 0, fd;

    fd = mkstemps(path, 12);
    CHECK(zeros && fd >= 0 && !close(fd), "no file");
    for (int i = 0; i < 10; i++) {
        snprintf(name[n], sizeof *name, "dec.%s.weight", layer[i].name);
        list[n] = (zn_save_tensor){ .name = name[n], .n_dims = 4, .shape = { layer[i].out, layer[i].in, 1, 1 } };
        n++;
        snprintf(name[n], sizeof *name, "dec.%s.bias", layer[i].name);
        list[n] = (zn_save_tensor){ .name = name[n], .n_dims = 1, .shape = { layer[i].out } };
        n++;
    }
    for (int i = 0; i < 6; i++, n++) {
        snprintf(name[n], sizeof *name, "dec.block%d.gate_%c", i / 2 + 1, i % 2 ? 'v' : 'h');
        list[n] = (zn_save_tensor){ .name = name[n], .n_dims = 1, .shape = { 8 } };
    }
    for (int i = 0; i < N; i++)
        list[i].data = zeros;
    zn_status s = zn_save_tensors(path, list, N, NULL, &err);
    if (!s)
        s = zn_engine_open(&e, "auto", 1, &err);
    before = clock();
    if (!s)
        s = zn_model_open(&m, e, "zenith-lite-doc-decode", &(zn_open){ .files = &file, .n_files = 1 }, &err);
    took = (double)(clock() - before) / CLOCKS_PER_SEC;
    zn_model_close(&m);
    zn_engine_close(&e);
    remove(path);
    free(zeros);
    CHECK(!s, "%s", err.text);
    CHECK(took < (INSTRUMENTED ? 10 : 3) * test_second(), "it took %.1f s", took);
}

/* A copy of the engine's table without the operations of special.h. */
static zn_backend without_special(void)
{
    zn_backend be = *engine->be;

    be.special = NULL;
    return be;
}

/* The model on a fixed picture, by this table; what a failure or a note says is in err. */
static zn_status run_with(const zn_backend *be, const char *id, zn_array *y, zn_error *err)
{
    const zn_backend *whole = engine->be;
    const char *made_up = ZN_RANDOM_WEIGHTS;
    zn_array x = { calloc(64 * 32 * 3, sizeof(float)), 64, 32, 3 };
    const zn_value sigma = { "sigma", 20 };
    zn_job job = { .set = &sigma, .n_set = !strncmp(id, "denoise", 7) };
    zn_model *m = NULL;
    unsigned seed = 3;
    zn_status s;

    for (size_t j = 0; j < zn_array_len(&x); j++)
        x.data[j] = noise(&seed);
    engine->be = be;
    s = zn_model_open(&m, engine, id, &(zn_open){ .files = &made_up, .n_files = 1, .precision = "fp32" }, err);
    if (!s)
        s = zn_model_shape(m, &x, 1, y, err);
    y->data = calloc(zn_array_len(y) + 1, sizeof(float));
    if (!s)
        s = zn_model_run(m, &x, 1, y, &job, err);
    zn_model_close(&m);
    engine->be = whole;
    free(x.data);
    return s;
}

/* Without the operation, a gated block is its parts: the same picture. */
static void test_gated_blocks_without_their_operation(void)
{
    static const char *const id[] = { "denoise-fast", "zenith-encode" };
    const zn_backend plain = without_special();

    for (int i = 0; i < 2; i++) {
        zn_array y = { 0 }, z = { 0 };
        zn_error err = { "" };
        zn_status s = run_with(engine->be, id[i], &y, &err);
        double worst = 0, top = 0;

        if (!s)
            s = run_with(&plain, id[i], &z, &err);
        for (size_t j = 0; j < zn_array_len(&y) && !s; j++) {
            worst = test_larger(worst, fabs((double)y.data[j] - (double)z.data[j]));
            top = fmax(top, fabs((double)y.data[j]));
        }
        free(y.data);
        free(z.data);
        CHECK(!s, "%s: %s", id[i], err.text);
        CHECK(top > 0 && worst <= 1e-5 * top, "%s: off by %g of %g", id[i], worst, top);
    }
}

/* Without theirs, the documents' networks are refused with a sentence. */
static void test_transforms_without_their_operation(void)
{
    static const char *const id[] = { "zenith-taesd-encode", "zenith-prune" };
    const zn_backend plain = without_special();

    for (int i = 0; i < 2; i++) {
        zn_array y = { 0 };
        zn_error err = { "" };
        const zn_status s = run_with(&plain, id[i], &y, &err);

        free(y.data);
        if (engine->be->remote)
            CHECK(!s, "%s: the CPU does not stand in: %s", id[i], err.text);
        else
            CHECK(s == ZN_E_DEVICE && strstr(err.text, "no operation for this kind of network"), "%s: %d: %s", id[i], s,
                  err.text);
    }
}

/* A file of the network that had an id before is run under it, with a note. */
static void test_former_name(void)
{
    static const char *const id[] = { "zenith-lite-encode", "zenith-lite-doc-encode" };
    const char *file = ZN_SOURCE_ROOT "/tests/data/golden/zenith-lite-encode.safetensors";
    zn_array x = { calloc(32 * 16 * 3, sizeof(float)), 16, 32, 3 }, y[2] = { { 0 } };
    zn_error err = { "" }, note[2] = { { "" } };
    zn_status s = ZN_OK;
    bool same;

    for (int i = 0; i < 2 && !s; i++) {
        zn_job job = { .note = &note[i] };
        zn_model *m = NULL;

        s = zn_model_open(&m, engine, id[i], &(zn_open){ .files = &file, .n_files = 1 }, &err);
        if (!s)
            s = zn_model_shape(m, &x, 1, &y[i], &err);
        y[i].data = calloc(zn_array_len(&y[i]) + 1, sizeof(float));
        if (!s)
            s = zn_model_run(m, &x, 1, &y[i], &job, &err);
        zn_model_close(&m);
    }
    same = !s && !memcmp(y[0].data, y[1].data, zn_array_len(&y[0]) * sizeof(float));
    free(x.data);
    free(y[0].data);
    free(y[1].data);
    CHECK(!s && same, "%s", s ? err.text : "other bits");
    CHECK(strstr(note[0].text, "zenith-lite-doc-encode, which was called zenith-lite-encode before"), "'%s'",
          note[0].text);
    CHECK(!*note[1].text, "'%s'", note[1].text);
}

int main(void)
{
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16);

    for (int e = 0; e < n; e++) {
        if (!list[e].usable || zn_engine_open(&engine, list[e].name, 2, NULL))
            continue;
        printf("# %s\n", list[e].name);
        RUN(test_twice_is_n);
        RUN(test_open_gates_change_nothing);
        RUN(test_shuffle_undoes_unshuffle);
        RUN(test_spectral_layer_is_its_matrix);
        RUN(test_fresh_block_is_relu);
        RUN(test_shut_gates_leave_beta);
        RUN(test_parameters_as_documented);
        RUN(test_exact_form_says_its_size);
        RUN(test_folded_is_layered);
        RUN(test_gated_blocks_without_their_operation);
        RUN(test_transforms_without_their_operation);
        RUN(test_former_name);
        zn_engine_close(&engine);
    }
    RUN(test_wide_file_opens_at_once);
    return test_end();
}
