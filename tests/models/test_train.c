/* SPDX-License-Identifier: MIT */
/* test_train.c - training: the networks compute what the models compute, products are products, a run gives
 * the same bits on any number of threads and after a break, and it learns. */
#include "../unit/test.h"

#include "cpu/matmul.h"
#include "handle.h"
#include "train/build.h"
#include "zenith_train.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

static zn_engine *engine; /* the fastest of the CPU */

/* NaN stays. */
static void larger(double *worst, float d)
{
    double a = fabs((double)d);

    *worst = a <= *worst ? *worst : a;
}

/* ---- products ------------------------------------------------------------------------------------------ */

static void check_product(int m, int n, int k, bool turn_a, bool turn_b, bool add)
{
    size_t la = (size_t)m * (size_t)k, lb = (size_t)k * (size_t)n, ly = (size_t)m * (size_t)n;
    float *a = malloc(la * sizeof *a), *b = malloc(lb * sizeof *b), *y = malloc(ly * sizeof *y);
    float *bias = malloc((size_t)n * sizeof *bias);
    zn_matrix ma = { a, turn_a ? 1 : (size_t)k, turn_a ? (size_t)m : 1 };
    zn_matrix mb = { b, turn_b ? 1 : (size_t)n, turn_b ? (size_t)k : 1 };
    double worst = 0;

    for (size_t i = 0; i < la; i++)
        a[i] = (float)zn_normal(1, 1, i);
    for (size_t i = 0; i < lb; i++)
        b[i] = (float)zn_normal(1, 2, i);
    for (size_t i = 0; i < ly; i++)
        y[i] = (float)(i % 7);
    for (int i = 0; i < n; i++)
        bias[i] = (float)i;
    zn_cpu_matmul(engine->dev, y, (size_t)n, ma, mb, m, n, k, bias, add);
    for (size_t i = 0; i < (size_t)m; i++)
        for (size_t j = 0; j < (size_t)n; j++) {
            double want = (double)j + (add ? (double)((i * (size_t)n + j) % 7) : 0), mag = fabs(want) + 1, d;

            for (size_t c = 0; c < (size_t)k; c++) {
                double p = (double)a[i * ma.row + c * ma.col] * (double)b[c * mb.row + j * mb.col];

                want += p;
                mag += fabs(p);
            }
            d = fabs(y[i * (size_t)n + j] - want) / mag;
            worst = test_larger(worst, d);
        }
    free(a);
    free(b);
    free(y);
    free(bias);
    CHECK(worst <= (k + 4) * 1.2e-7, "%dx%dx%d: off by %g", m, n, k, worst);
}

static void test_products(void)
{
    static const int sizes[][3] = { { 1, 1, 1 }, { 5, 17, 3 }, { 16, 40, 700 }, { 500, 33, 20 }, { 977, 7, 260 } };

    for (int i = 0; i < 5; i++)
        for (int way = 0; way < 8; way++)
            TRY(check_product(sizes[i][0], sizes[i][1], sizes[i][2], way & 1, way & 2, way & 4));
}

/* ---- the same networks --------------------------------------------------------------------------------- */

static bool load(float *to, size_t len, const zn_weights *w, const char *name)
{
    const zn_entry *e = zn_weights_get(w, name);

    if (!e || zn_entry_len(e) != len)
        return false;
    zn_entry_read(e, to, NULL);
    return true;
}

/* Patches of 32x32 are independent: the golden picture of 64x32 is a batch of two. */
static void test_baseline_is_the_model(void)
{
    enum { H = 32, W = 64, LEN = H * W * 3 };
    const char *file = GOLDEN "zenith-conv-baseline.safetensors";
    const char *golden = GOLDEN "zenith-conv-baseline.golden.safetensors";
    const zn_build b = { .model = "conv-baseline-ae", .batch = W / H, .size = H, .base = 1 };
    zn_weights *w = NULL, *ref = NULL;
    zn_net *net = zn_net_new(engine->dev);
    zn_error err = { "" };
    static float in[LEN], want[LEN];
    double worst = -1;

    if (!zn_weights_open(&w, &file, 1, &err) && !zn_weights_open(&ref, &golden, 1, &err) &&
        !zn_net_build(net, &b, &err) && zn_net_finish(net, 0) && !zn_net_load(net, net->w, w, "", &err) &&
        load(in, LEN, ref, "in") && load(want, LEN, ref, "out")) {
        float *x = net->node[0]->y, *y = zn_net_last(net)->y;

        worst = 0;
        for (int i = 0; i < LEN; i++)
            x[i / (W * 3) * (H * 3) + i % (W * 3) / (H * 3) * (H * H * 3) + i % (H * 3)] = in[i];
        zn_net_forward(net);
        for (int i = 0; i < LEN; i++)
            larger(&worst, y[i / (W * 3) * (H * 3) + i % (W * 3) / (H * 3) * (H * H * 3) + i % (H * 3)] - want[i]);
    }
    zn_weights_close(&w);
    zn_weights_close(&ref);
    zn_net_free(&net);
    CHECK(worst >= 0, "%s", err.text);
    CHECK(worst <= 1e-4, "off by %g", worst);
}

/* A few steps of training, saved; the model of that file gives what the network gives. */
static void check_saved(const char *id, bool residual)
{
    enum { S = 64 };
    zn_train_options o = { .model = id,
                           .task = "restore",
                           .base = 4,
                           .batch = 1,
                           .size = S,
                           .steps = 40,
                           .residual = residual,
                           .rate = 3e-3 };
    const char *const meta[] = { residual ? "residual" : NULL, "1", NULL };
    const zn_build b = { .model = id, .batch = 1, .size = S, .base = 4, .meta = meta };
    char path[] = "/tmp/zenith-train-XXXXXX";
    const char *file = path;
    const bool made = !close(mkstemp(path));
    zn_trainer *t = NULL;
    zn_train_report r;
    zn_model *m = NULL;
    zn_weights *w = NULL;
    zn_net *net = zn_net_new(engine->dev);
    zn_error err = { "" };
    zn_array x = { malloc(S * S * 3 * sizeof(float)), S, S, 3 }, y = { malloc(S * S * 3 * sizeof(float)), S, S, 3 };
    double worst = -1;
    bool ok = made && !zn_trainer_open(&t, engine, &o, &err);

    for (int i = 0; i < 40 && ok; i++)
        ok = !zn_trainer_step(t, &r, &err);
    ok = ok && !zn_trainer_save(t, path, &err) && !zn_weights_open(&w, &file, 1, &err) &&
        !zn_model_open(&m, engine, id, &(zn_open){ .files = &file, .n_files = 1 }, &err);
    if (ok && !zn_net_build(net, &b, &err) && zn_net_finish(net, 0) && !zn_net_load(net, net->w, w, "", &err)) {
        for (int i = 0; i < S * S * 3; i++)
            x.data[i] = net->node[0]->y[i] = (float)zn_normal(8, 0, (uint64_t)i) * 0.3f;
        zn_net_forward(net);
        if (!zn_model_run(m, &x, 1, &y, NULL, &err)) {
            worst = 0;
            for (int i = 0; i < S * S * 3; i++)
                larger(&worst, y.data[i] - zn_net_last(net)->y[i]);
        }
    }
    zn_model_close(&m);
    zn_weights_close(&w);
    zn_trainer_close(&t);
    zn_net_free(&net);
    free(x.data);
    free(y.data);
    if (made)
        unlink(path);
    CHECK(worst >= 0, "%s: %s", id, err.text);
    CHECK(worst <= 1e-4, "%s: off by %g", id, worst);
}

static void test_saved_weights_run(void)
{
    TRY(check_saved("zenith-ae", false));
    TRY(check_saved("zenith-prune", false));
    TRY(check_saved("zenith-prune", true));
}

/* Encoder and decoder of a file give, one after the other, what the network gives that was trained. */
static void check_autoencoder(const char *stem, const char *activation)
{
    enum { S = 32 };
    zn_train_options o = { .model = stem,
                           .task = "reconstruct",
                           .base = 16,
                           .batch = 1,
                           .size = S,
                           .steps = 3,
                           .activation = activation,
                           .rate = 3e-3 };
    const char *const meta[] = { activation ? "activation" : NULL, activation, NULL };
    const zn_build build = { .model = stem, .batch = 1, .size = S, .base = 16, .meta = meta };
    char path[] = "/tmp/zenith-train-XXXXXX", enc[48], dec[48];
    const char *file = path;
    const bool made = !close(mkstemp(path));
    zn_trainer *t = NULL;
    zn_train_report r;
    zn_model *a = NULL, *b = NULL;
    zn_weights *w = NULL;
    zn_net *net = zn_net_new(engine->dev);
    zn_error err = { "" };
    zn_array x = { malloc(S * S * 3 * sizeof(float)), S, S, 3 }, y = { malloc(S * S * 3 * sizeof(float)), S, S, 3 };
    zn_array z = { 0 };
    double worst = -1;
    bool ok = made && !zn_trainer_open(&t, engine, &o, &err);

    snprintf(enc, sizeof enc, "%s-encode", stem);
    snprintf(dec, sizeof dec, "%s-decode", stem);
    for (int i = 0; i < 3 && ok; i++)
        ok = !zn_trainer_step(t, &r, &err);
    ok = ok && !zn_trainer_save(t, path, &err) && !zn_weights_open(&w, &file, 1, &err) &&
        !zn_model_open(&a, engine, enc, &(zn_open){ .files = &file, .n_files = 1 }, &err) &&
        !zn_model_open(&b, engine, dec, &(zn_open){ .files = &file, .n_files = 1 }, &err);
    if (ok && !zn_net_build(net, &build, &err) && zn_net_finish(net, 0) && !zn_net_load(net, net->w, w, "", &err)) {
        for (int i = 0; i < S * S * 3; i++)
            x.data[i] = net->node[0]->y[i] = (float)zn_normal(8, 0, (uint64_t)i) * 0.3f;
        zn_net_forward(net);
        ok = !zn_model_shape(a, &x, 1, &z, &err);
        z.data = ok ? malloc(zn_array_len(&z) * sizeof(float)) : NULL;
        if (ok && !zn_model_run(a, &x, 1, &z, NULL, &err) && !zn_model_run(b, &z, 1, &y, NULL, &err)) {
            worst = 0;
            for (int i = 0; i < S * S * 3; i++)
                larger(&worst, y.data[i] - zn_net_last(net)->y[i]);
        }
    }
    zn_model_close(&a);
    zn_model_close(&b);
    zn_weights_close(&w);
    zn_trainer_close(&t);
    zn_net_free(&net);
    free(x.data);
    free(y.data);
    free(z.data);
    if (made)
        unlink(path);
    CHECK(worst >= 0, "%s: %s", stem, err.text);
    CHECK(worst <= 1e-4, "%s: off by %g", stem, worst);
}

static void test_autoencoders_run(void)
{
    TRY(check_autoencoder("zenith-taesd", NULL));
    TRY(check_autoencoder("zenith-lite-doc", NULL));
    TRY(check_autoencoder("zenith-lite-doc", "gelu"));
    TRY(check_autoencoder("zenith-spectral", NULL));
    TRY(check_autoencoder("zenith-spectral", "gelu"));
    TRY(check_autoencoder("vanilla-taesd", "gelu"));
    TRY(check_autoencoder("wan2d-vae", NULL));
}

/* The template: what was trained runs as it was trained, and its setting is linear: y(s) = x + s (y(1) - x). */
static void test_template(void)
{
    enum { S = 24, LEN = S * S * 3 };
    const zn_value strengths[] = { { "strength", 0 }, { "strength", 0.5 }, { "strength", 1 } };
    const zn_build b = { .model = "template", .batch = 1, .size = S, .base = 6 };
    zn_train_options o = { .model = "template", .base = 6, .batch = 1, .size = S, .steps = 5, .rate = 1e-2 };
    char path[] = "/tmp/zenith-train-XXXXXX";
    const char *file = path;
    const bool made = !close(mkstemp(path));
    zn_trainer *t = NULL;
    zn_train_report r;
    zn_model *m = NULL;
    zn_weights *w = NULL;
    zn_net *net = zn_net_new(engine->dev);
    zn_error err = { "" };
    static float in[LEN], out[3][LEN];
    double worst = 0, change = 0, off = 0;
    bool ok = made && !zn_trainer_open(&t, engine, &o, &err);

    for (int i = 0; i < 5 && ok; i++)
        ok = !zn_trainer_step(t, &r, &err);
    ok = ok && !zn_trainer_save(t, path, &err) && !zn_weights_open(&w, &file, 1, &err) &&
        !zn_model_open(&m, engine, "template", &(zn_open){ .files = &file, .n_files = 1 }, &err) &&
        !zn_net_build(net, &b, &err) && zn_net_finish(net, 0) && !zn_net_load(net, net->w, w, "", &err);
    for (int i = 0; i < LEN && ok; i++)
        in[i] = net->node[0]->y[i] = (float)zn_normal(8, 0, (uint64_t)i) * 0.3f;
    for (int i = 0; i < 3 && ok; i++) {
        zn_array x = { in, S, S, 3 }, y = { out[i], S, S, 3 };
        zn_job job = { .set = &strengths[i], .n_set = 1 };

        ok = !zn_model_run(m, &x, 1, &y, &job, &err);
    }
    if (ok)
        zn_net_forward(net);
    for (int i = 0; i < LEN && ok; i++) {
        larger(&worst, out[2][i] - zn_net_last(net)->y[i]);
        larger(&change, out[2][i] - in[i]);
        larger(&off, out[0][i] - in[i]);
        larger(&off, out[1][i] - (in[i] + out[2][i]) / 2);
    }
    zn_model_close(&m);
    zn_weights_close(&w);
    zn_trainer_close(&t);
    zn_net_free(&net);
    if (made)
        unlink(path);
    CHECK(ok, "%s", err.text);
    CHECK(worst <= 1e-5, "off by %g", worst);
    CHECK(change > 1e-3 && off <= 1e-6, "strength is off by %g of a change of %g", off, change);
}

/* A layer of few pixels and many weights: the fast way against plain products. */
static void test_thin_layers(void)
{
    void *plain;
    const zn_status opened = zn_backend_scalar.open(&plain, 1, NULL);
    zn_net *net[2] = { zn_net_new(engine->dev), zn_net_new(plain) };
    zn_outline outline = { 0 };
    double worst = 0, top = 0;

    zn_outline_add(&outline, "a.weight", (int[]){ 528, 24, 1, 1 }, 4);
    zn_outline_add(&outline, "a.bias", (int[]){ 528 }, 1);
    zn_outline_add(&outline, "b.weight", (int[]){ 72, 528, 1, 1 }, 4);
    zn_outline_add(&outline, "b.bias", (int[]){ 72 }, 1);
    zn_outline_add(&outline, "c.weight", (int[]){ 8, 72, 1, 1 }, 4);
    for (int i = 0; i < 2; i++) {
        int x = zn_net_input(net[i], 1, 3, 2, 24);

        net[i]->outline = &outline;
        x = zn_net_conv(net[i], x, "a");
        x = zn_net_conv(net[i], x, "b"); /* thin: 6 pixels, 528 inputs */
        zn_net_conv(net[i], x, "c");
        if (opened || !zn_net_finish(net[i], 3))
            abort();
        for (size_t j = 0; j < zn_node_len(net[i]->node[0]); j++)
            net[i]->node[0]->y[j] = (float)zn_normal(4, 0, j);
        zn_net_forward(net[i]);
        for (size_t j = 0; j < zn_node_len(zn_net_last(net[i])); j++)
            zn_net_last(net[i])->dy[j] = (float)zn_normal(5, 0, j);
        zn_net_backward(net[i]);
    }
    for (size_t j = 0; j < zn_node_len(zn_net_last(net[0])); j++)
        larger(&worst, zn_net_last(net[0])->y[j] - zn_net_last(net[1])->y[j]);
    for (size_t j = 0; j < net[0]->len; j++) {
        larger(&worst, net[0]->g[j] - net[1]->g[j]);
        larger(&top, net[1]->g[j]);
    }
    zn_net_free(&net[0]);
    zn_net_free(&net[1]);
    zn_outline_free(&outline);
    zn_backend_scalar.close(plain);
    CHECK(top > 1 && worst <= 1e-5 * top, "off by %g of %g", worst, top);
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static unsigned char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    unsigned char *p = malloc(1 << 24);

    *size = f ? fread(p, 1, 1 << 24, f) : 0;
    if (f)
        fclose(f);
    return p;
}

/* Some steps on so many threads, from a checkpoint if there is one, to a checkpoint. */
static bool steps(const zn_train_options *o, int threads, int n, const char *out, zn_error *err)
{
    zn_engine *e = NULL;
    zn_trainer *t = NULL;
    zn_train_report r;
    float square[48 * 48 * 3];
    zn_array picture = { square, 48, 48, 3 };
    bool ok = !zn_engine_open(&e, zn_engine_name(engine), threads, err) && !zn_trainer_open(&t, e, o, err);

    for (int i = 0; i < 48 * 48 * 3; i++)
        square[i] = (float)(i % 97) / 97;
    if (ok && !strncmp(o->model, "denoise", 7))
        ok = !zn_trainer_add_picture(t, &picture, err);
    for (int i = 0; i < n && ok; i++)
        ok = !zn_trainer_step(t, &r, err);
    ok = ok && !zn_trainer_checkpoint(t, out, err);
    zn_trainer_close(&t);
    zn_engine_close(&e);
    return ok;
}

static void check_run(zn_train_options o)
{
    char dir[] = "/tmp/zenith-train-XXXXXX", one[64], three[64], half[64], whole[64];
    zn_error err = { "" };
    unsigned char *a, *b, *c;
    size_t la, lb, lc;
    bool ok = mkdtemp(dir) != NULL, threads_same, resume_same;

    snprintf(one, sizeof one, "%s/one", dir);
    snprintf(three, sizeof three, "%s/three", dir);
    snprintf(half, sizeof half, "%s/half", dir);
    snprintf(whole, sizeof whole, "%s/whole", dir);
    ok = ok && steps(&o, 1, 6, one, &err) && steps(&o, 3, 6, three, &err) && steps(&o, 2, 2, half, &err);
    o.resume = half;
    ok = ok && steps(&o, 1, 4, whole, &err);
    a = slurp(one, &la);
    b = slurp(three, &lb);
    c = slurp(whole, &lc);
    threads_same = la > 1000 && la == lb && !memcmp(a, b, la);
    resume_same = la == lc && !memcmp(a, c, la);
    free(a);
    free(b);
    free(c);
    unlink(one), unlink(three), unlink(half), unlink(whole);
    rmdir(dir);
    CHECK(ok, "%s: %s", o.model, err.text);
    CHECK(threads_same, "%s: three threads give other bits than one", o.model);
    CHECK(resume_same, "%s: a continued run gives other bits than an unbroken one", o.model);
}

static void test_same_bits(void)
{
    zn_train_options prune = { .model = "zenith-prune",
                               .base = 4,
                               .batch = 3,
                               .size = 64,
                               .steps = 10,
                               .temperature = 0.5,
                               .dropout = 0.1,
                               .decay = 0.01,
                               .cosine = true,
                               .seed = 5 };
    zn_train_options baseline = { .model = "conv-baseline-ae",
                                  .task = "reconstruct",
                                  .base = 1,
                                  .batch = 2,
                                  .size = 32,
                                  .steps = 10,
                                  .absolute = true };
    zn_train_options denoiser = {
        .model = "denoise-fast", .weights = GOLDEN "denoise.safetensors", .batch = 2, .size = 32, .steps = 10
    };

    TRY(check_run(prune));
    TRY(check_run(baseline));
    zn_train_options lite = {
        .model = "zenith-lite-doc", .activation = "silu", .base = 16, .batch = 2, .size = 32, .steps = 10
    };
    zn_train_options wide = { .model = "conv-baseline-ae", .base = 4, .batch = 1, .size = 32, .steps = 10 };

    TRY(check_run(denoiser));
    TRY(check_run(lite));
    TRY(check_run(wide));
    zn_train_options variational = { .model = "wan2d-vae", .base = 4, .batch = 2, .size = 32, .steps = 10 };

    TRY(check_run(variational));
}

/* A checkpoint's step comes from a file: one that would overflow is refused, not counted on. */
static void test_wrong_steps(void)
{
    static const char *const steps_of[] = { "2", "9223372036854775807", "9223372036854775808", "-1", "2x", "" };
    zn_train_options o = { .model = "template", .base = 2, .batch = 1, .size = 16, .steps = 10 };
    char dir[] = "/tmp/zenith-train-XXXXXX", from[64], to[64];
    const char *found = NULL;
    zn_error err = { "" };
    unsigned char *file = NULL;
    size_t size = 0, old = 0;
    bool ok = mkdtemp(dir) != NULL;
    int accepted = 0;

    snprintf(from, sizeof from, "%s/from", dir);
    snprintf(to, sizeof to, "%s/to", dir);
    ok = ok && steps(&o, 1, 2, from, &err);
    file = slurp(from, &size);
    for (int i = 0; i < 8 && size > 8; i++)
        old |= (size_t)file[i] << (8 * i);
    for (size_t i = 8; i + 10 < old && !found; i++)
        found = memcmp(file + i, "\"step\":\"2\"", 10) ? NULL : (const char *)file + i;
    ok = ok && found;
    o.resume = to;
    for (size_t k = 0; k < sizeof steps_of / sizeof *steps_of && ok; k++) {
        size_t head = old - 1 + strlen(steps_of[k]),
               before = (size_t)(found - (const char *)file); /* "step":" has 8 bytes, as the length has */
        FILE *f = fopen(to, "wb");
        zn_trainer *t = NULL;

        for (int i = 0; f && i < 8; i++)
            fputc((int)(head >> (8 * i) & 255), f);
        ok = f && fwrite(file + 8, 1, before, f) == before && fputs(steps_of[k], f) >= 0 &&
            fwrite(file + 8 + before + 1, 1, size - 8 - before - 1, f) == size - 8 - before - 1;
        if (f)
            fclose(f);
        accepted += ok && !zn_trainer_open(&t, engine, &o, &err) ? 1 << k : 0;
        zn_trainer_close(&t);
    }
    free(file);
    unlink(from), unlink(to);
    rmdir(dir);
    CHECK(ok, "no checkpoint to change: %s", err.text);
    CHECK(accepted == 1, "of the steps, these are accepted: %x (%s)", (unsigned)accepted, err.text);
}

static void test_it_learns(void)
{
    zn_train_options o = { .model = "zenith-prune",
                           .base = 4,
                           .batch = 4,
                           .size = 32,
                           .steps = 300,
                           .residual = true,
                           .rate = 3e-3,
                           .sigma = { 0.3, 0.3 } };
    zn_trainer *t = NULL;
    zn_train_report r;
    zn_error err = { "" };
    double before = 0, after = 1;
    bool ok = !zn_trainer_open(&t, engine, &o, &err);

    for (int i = 0; i < 300 && ok; i++)
        ok = !zn_trainer_step(t, &r, &err);
    ok = ok && !zn_trainer_test(t, 0, &before, &after, &err);
    zn_trainer_close(&t);
    CHECK(ok, "%s", err.text);
    CHECK(after < 0.9 * before, "error %g before, %g after", before, after);
}

/* The 2-D VAE: both parts of its loss fall, and KL weighs what it is told to. */
static void test_variational(void)
{
    double error[2] = { 0 }, divergence[2] = { 0 };
    zn_error err = { "" };

    for (int i = 0; i < 2; i++) {
        zn_train_options o = { .model = "wan2d-vae",
                               .base = 4,
                               .batch = 2,
                               .size = 32,
                               .steps = 150,
                               .rate = 3e-3,
                               .wave = { 0.4, 1.2 },
                               .spread = { 4, 16 },
                               .divergence = i ? 0.1 : 1e-4 };
        zn_trainer *t = NULL;
        zn_train_report r = { 0 };
        double before = 0, was = 0;
        bool ok = !zn_trainer_open(&t, engine, &o, &err) && !zn_trainer_test(t, 0, &before, &was, &err);

        for (int k = 0; k < 150 && ok; k++)
            ok = !zn_trainer_step(t, &r, &err);
        ok = ok && !zn_trainer_test(t, 0, &before, &error[i], &err);
        zn_trainer_close(&t);
        divergence[i] = r.divergence;
        CHECK(ok, "%s", err.text);
        CHECK(i || error[i] < 0.7 * was, "error %g before, %g after", was, error[i]);
    }
    CHECK(divergence[1] < 0.5 * divergence[0], "KL %g with little weight, %g with more", divergence[0], divergence[1]);
}

/* Codes of one line and little else: what is drawn is near it.  The result has all that the model had, and runs. */
static void test_latent_net(void)
{
    enum { N = 400, D = 24, DRAWN = 40 };
    char path[2][64] = { "/tmp/zenith-a-XXXXXX.safetensors", "/tmp/zenith-b-XXXXXX.safetensors" };
    static const char *const checkpoint = GOLDEN "diffae.ckpt";
    const char *file = path[1];
    const zn_value steps = { "steps", 20 };
    float *codes = malloc(N * D * sizeof *codes), *z = malloc(DRAWN * D * sizeof *z), *y = calloc(DRAWN * D, sizeof *y);
    zn_array in = { z, DRAWN, 1, D }, out = { y, DRAWN, 1, D };
    zn_latent_report report = { 0 };
    zn_error err = { "" };
    zn_model *m = NULL;
    zn_weights *w = NULL;
    double along = 0, aside = 0;
    bool ok;

    close(mkstemps(path[0], 12)), close(mkstemps(path[1], 12));
    for (int i = 0; i < N * D; i++)
        codes[i] =
            (float)(3 + (i % D % 2 ? -1 : 1) * zn_normal(1, 0, (uint64_t)(i / D)) + 0.1 * zn_normal(2, 0, (uint64_t)i));
    ok = !zn_weights_convert(path[0], &checkpoint, 1, "fp32", NULL, &err) &&
        !zn_latent_train(
            path[1], &report, engine,
            &(zn_latent_lesson){
                .weights = path[0], .codes = codes, .n = N, .d = D, .steps = 600, .batch = 64, .rate = 3e-3 },
            NULL, NULL, &err) &&
        !zn_weights_open(&w, &file, 1, &err) &&
        !zn_model_open(&m, engine, "diffae-latent-sample", &(zn_open){ .files = &file, .n_files = 1 }, &err);
    zn_noise_fill(z, DRAWN * D, 5, 0);
    ok = ok && !zn_model_run(m, &in, 1, &out, &(zn_job){ .set = &steps, .n_set = 1 }, &err);
    for (int i = 0; ok && i < DRAWN; i++) {
        double mean = 0;

        for (int k = 0; k < D; k++)
            mean += (k % 2 ? -1 : 1) * ((double)y[i * D + k] - 3) / D;
        along += mean * mean / DRAWN;
        for (int k = 0; k < D; k++)
            aside += pow((double)y[i * D + k] - 3 - (k % 2 ? -1 : 1) * mean, 2) / D / DRAWN;
    }
    CHECK(ok, "%s", err.text);
    CHECK(report.after < 0.6 * report.before, "held-out codes: %g before, %g after", report.before, report.after);
    CHECK(along > 0.3 && along < 3 && aside < 0.6, "variance %g along the line, %g beside it", along, aside);
    CHECK(w && zn_weights_get(w, "input_blocks.0.0.weight") && zn_weights_get(w, "conds_mean"), "the model's tensors");
    zn_model_close(&m);
    zn_weights_close(&w);
    CHECK(zn_latent_train(
              path[1], &report, engine,
              &(zn_latent_lesson){
                  .weights = checkpoint, .codes = codes, .n = N, .d = D, .steps = 1, .batch = 1, .rate = 1e-3 },
              NULL, NULL, &err) &&
              strstr(err.text, "convert"),
          "%s", err.text);
    unlink(path[0]), unlink(path[1]);
    free(codes);
    free(z);
    free(y);
}

static void test_refusals(void)
{
    static const zn_train_options bad[] = {
        { .model = "taesd-encode" },
        { .model = "zenith-ae", .task = "denoise" },
        { .model = "zenith-ae", .size = 50 },
        { .model = "denoise-fast" },
        { .model = "denoise-fast", .weights = GOLDEN "zenith-ae.safetensors" },
        { .model = "zenith-ae", .weights = GOLDEN "zenith-ae.safetensors" }, /* base 4, not 16 */
        { .model = "zenith-ae", .steps = INT64_MAX },
        { .model = "zenith-ae", .resume = GOLDEN "zenith-ae.safetensors" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zn_trainer *t = NULL;
        zn_error err = { "" };
        zn_status s = zn_trainer_open(&t, engine, &bad[i], &err);

        zn_trainer_close(&t);
        CHECK(s && err.text[0], "case %zu was taken", i);
    }
}

int main(void)
{
    zn_error err;

    if (zn_engine_open(&engine, NULL, 2, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    if (!strcmp(zn_engine_name(engine), "cuda")) {
        zn_engine_close(&engine);
        zn_engine_open(&engine, "scalar", 2, &err);
    }
    RUN(test_products);
    RUN(test_baseline_is_the_model);
    RUN(test_saved_weights_run);
    RUN(test_autoencoders_run);
    RUN(test_template);
    RUN(test_thin_layers);
    RUN(test_same_bits);
    RUN(test_wrong_steps);
    RUN(test_it_learns);
    RUN(test_variational);
    RUN(test_latent_net);
    RUN(test_refusals);
    zn_engine_close(&engine);
    return test_end();
}
