/* SPDX-License-Identifier: MIT */
/* test_diffae.c - the diffusion autoencoder against its reference implementation (tools/golden_diffae.py): every block of
 * one U-Net call, the encoder, the latent network, ten steps of sampling and of reverse; paths; on every engine of this machine.
 * The weight file is a Lightning checkpoint as published, with random weights. */
#include "compare.h"

#include "core/savefile.h"
#include "pipeline/forward.h"

#include <math.h>
#include <unistd.h>

static const char checkpoint[] = GOLDEN "diffae.ckpt";

static void networks(void)
{
    compare(checkpoint, "diffae-encode", (const char *const[]){ "picture", NULL }, NULL, "cond", 1e-4);
    compare(checkpoint, "diffae-unet", (const char *const[]){ "x", "t", "cond", NULL }, NULL, "eps", 1e-4);
    compare(checkpoint, "diffae-latent-net", (const char *const[]){ "z", "t", NULL }, NULL, "latent_eps", 1e-4);
}

static void loops(void)
{
    compare(checkpoint, "diffae-sample", (const char *const[]){ "x", "cond", NULL },
            (const zn_value[]){ { "steps", 10 }, { 0 } }, "sample10", 1e-3);
    compare(checkpoint, "diffae-reverse", (const char *const[]){ "picture", "cond", NULL },
            (const zn_value[]){ { "steps", 10 }, { 0 } }, "reverse10", 1e-3);
    /* one model does both */
    compare(checkpoint, "diffae-sample", (const char *const[]){ "picture", "cond", NULL },
            (const zn_value[]){ { "steps", 10 }, { "reverse", 1 }, { 0 } }, "reverse10", 1e-3);
}

/* Codes out of noise: the reference's, times the deviations, plus the means. */
static void codes(void)
{
    static const char *const file = GOLDEN "diffae.ckpt";
    static const zn_value set = { "steps", 10 };
    zn_array z = load("z"), want = load("latent10"), out = { 0 };
    float mean[64], std[64], got[64];
    zn_weights *w = NULL;
    zn_error err = { "" };
    zn_model *m = NULL;
    double d;

    CHECK(z.c <= 64 && want.c == z.c && !zn_weights_open(&w, &file, 1, &err), "%s", err.text);
    CHECK(!zn_weights_read(mean, (size_t)z.c, w, "conds_mean", &err) &&
              !zn_weights_read(std, (size_t)z.c, w, "conds_std", &err) &&
              !zn_model_open(&m, engine, "diffae-latent-sample",
                             &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" }, &err),
          "%s", err.text);
    for (int i = 0; i < z.c; i++)
        want.data[i] = want.data[i] * std[i] + mean[i];
    out = (zn_array){ got, 1, 1, z.c };
    CHECK(!zn_model_run(m, &z, 1, &out, &(zn_job){ .set = &set, .n_set = 1 }, &err), "%s", err.text);
    d = relative(got, (size_t)z.c, &want);
    CHECK(d <= 1e-3, "codes are off by %g", d);
    free(z.data);
    free(want.data);
    zn_weights_close(&w);
    zn_model_close(&m);
}

static int seen;

static void watch(void *cookie, const char *name, zn_tensor x)
{
    char key[128];
    zn_array want;

    (void)cookie;
    snprintf(key, sizeof key, "block.%s", name);
    want = load(key);
    if (want.data) {
        double d = relative(x.data, (size_t)x.ld, &want);

        CHECK(x.h == want.h && x.w == want.w && x.c == want.c && d <= 1e-4, "%s is off by %g", name, d);
        seen++;
    }
    free(want.data);
}

/* The U-Net on a context of the test's own, that sees every block's result. */
static void blocks(void)
{
    static const char *const file = GOLDEN "diffae.ckpt";
    zn_array in[3] = { load("x"), load("t"), load("cond") };
    zn_model *m = NULL;
    zn_error err = { "" };
    zn_arena arena = { .size = (size_t)16 << 20 };
    zn_ctx c = { .be = engine->be, .dev = engine->dev, .arena = &arena, .err = &err, .watch = watch };
    zn_call call = { .n_in = 3, .n_out = 1 };

    CHECK(!zn_model_open(&m, engine, "diffae-unet", &(zn_open){ .files = &file, .n_files = 1 }, &err), "%s", err.text);
    if (!m || engine->be->remote) /* a watcher reads host memory */
        goto end;
    arena.base = engine->be->alloc(engine->dev, arena.size);
    for (int i = 0; i < 3; i++) {
        call.in[i] = zn_new_of(&c, ZN_F32, 1, in[i].h, in[i].w, in[i].c);
        zn_upload(&c, call.in[i], in[i].data);
    }
    call.out[0] = zn_new_of(&c, ZN_F32, 1, in[0].h, in[0].w, 3);
    seen = 0;
    zn_call_net(&c, m, &call);
    CHECK(!c.status && seen == 19, "%d blocks seen, %s", seen, err.text);
    engine->be->free(engine->dev, arena.base);
end:
    for (int i = 0; i < 3; i++)
        free(in[i].data);
    zn_model_close(&m);
}

/* Two pictures one below the other are what they are alone. */
static void batches(void)
{
    static const char *const file = GOLDEN "diffae.ckpt";
    static const zn_value set = { "steps", 10 };
    zn_array x = load("x"), cond = load("cond"), want = load("sample10"), two[2] = { x, cond }, out = { 0 };
    const zn_job job = { .set = &set, .n_set = 1 };
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_error err = { "" };
    zn_model *m = NULL;
    size_t len = zn_array_len(&x), code = zn_array_len(&cond);

    two[0].data = calloc(2 * len, sizeof(float));
    two[1].data = calloc(2 * code, sizeof(float));
    two[0].h *= 2, two[1].h = 2;
    memcpy(two[0].data + len, x.data, len * sizeof(float)); /* the second of the two */
    memcpy(two[1].data + code, cond.data, code * sizeof(float));
    CHECK(!zn_model_open(&m, engine, "diffae-sample", &open, &err), "%s", err.text);
    CHECK(m && !zn_model_shape(m, two, 2, &out, &err), "%s", err.text);
    out.data = calloc(2 * len, sizeof(float));
    CHECK(m && !zn_model_run(m, two, 2, &out, &job, &err), "%s", err.text);
    CHECK(relative(out.data + len, 3, &want) <= 1e-3, "the second picture is off by %g",
          relative(out.data + len, 3, &want));
    free(x.data);
    free(cond.data);
    free(want.data);
    free(two[0].data);
    free(two[1].data);
    free(out.data);
    zn_model_close(&m);
}

enum { STEPS = 10, CODE = 64 };

/* y = what diffae-sample makes of x, as large as it. */
static void draw(zn_model *m, zn_array x, zn_array cond, const zn_array *cond0, const zn_value *set, float *y)
{
    const zn_array in[3] = { x, cond, cond0 ? *cond0 : cond };
    zn_array out = x;
    zn_error err = { "" };
    int n = 0;

    while (set[n].key)
        n++;
    out.data = y;
    CHECK(m && !zn_model_run(m, in, cond0 ? 3 : 2, &out, &(zn_job){ .set = set, .n_set = n }, &err), "%s", err.text);
}

/* The way up with a path ends where the one without does; down again the code leads back to the picture, another one
 * elsewhere, in both orders. */
static void paths(void)
{
    static const char *const file = GOLDEN "diffae.ckpt";
    static const zn_value order[] = { { "order", 1 }, { "order", 2 } };
    zn_array x = load("picture"), cond = load("cond"), want = load("reverse10"), stack = x, other = cond;
    const size_t len = zn_array_len(&x);
    float *up = calloc((1 + STEPS) * len, sizeof *up), *down = calloc((1 + STEPS) * len, sizeof *down), code[CODE];
    zn_error err = { "" };
    zn_model *m = NULL;

    CHECK(!zn_model_open(&m, engine, "diffae-sample", &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" },
                         &err),
          "%s", err.text);
    CHECK(cond.c <= CODE, "the code has %d values", cond.c);
    stack.h *= 1 + STEPS;
    other.data = code;
    for (int i = 0; i < cond.c; i++)
        code[i] = cond.data[i] + 0.5f;
    for (int o = 0; o < 2; o++) {
        memset(up, 0, (1 + STEPS) * len * sizeof *up);
        memcpy(up, x.data, len * sizeof *up);
        stack.data = up;
        draw(m, stack, cond, NULL,
             (const zn_value[]){ { "steps", 10 }, { "reverse", 1 }, { "path", 1 }, order[o], { 0 } }, up);
        CHECK(o || relative(up, 3, &want) <= 1e-3, "xT is off by %g", relative(up, 3, &want));
        draw(m, stack, cond, NULL, (const zn_value[]){ { "steps", 10 }, { "path", 1 }, order[o], { 0 } }, down);
        CHECK(relative(down, 3, &x) <= 5e-4, "order %g leads to a picture that is off by %g", order[o].value,
              relative(down, 3, &x));
        draw(m, stack, other, NULL, (const zn_value[]){ { "steps", 10 }, { "path", 1 }, order[o], { 0 } }, down);
        CHECK(relative(down, 3, &x) > 1e-3, "another code leads back, too");
    }
    stack.h = x.h;
    stack.data = x.data;
    CHECK(m &&
              zn_model_run(m, (const zn_array[]){ stack, cond }, 2, &(zn_array){ down, x.h, x.w, 3 },
                           &(zn_job){ .set = (const zn_value[]){ { "path", 1 } }, .n_set = 1 }, &err) == ZN_E_USAGE &&
              strstr(err.text, "stack"),
          "a picture was taken for a path: %s", err.text);
    free(up);
    free(down);
    free(x.data);
    free(cond.data);
    free(want.data);
    zn_model_close(&m);
}

/* What two codes see in a picture through the noise of time 400: the network's estimate. */
static void glance(void)
{
    static const char *const file = GOLDEN "diffae.ckpt";
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_array x = load("picture"), cond = load("cond"), both = x, codes = cond, looked = x,
             t = { &(float){ 400 }, 1, 1, 1 };
    const size_t len = zn_array_len(&x), code = zn_array_len(&cond);
    float *noise = malloc(len * sizeof *noise), *y = malloc(2 * len * sizeof *y);
    zn_model *m = NULL, *net = NULL;
    zn_error err = { "" };
    double a = 1;

    for (int i = 0; i <= 400; i++)
        a *= 1 - (1e-4 + (0.02 - 1e-4) * i / 999);
    CHECK(!zn_model_open(&m, engine, "diffae-sample", &open, &err) &&
              !zn_model_open(&net, engine, "diffae-unet", &open, &err),
          "%s", err.text);
    both.data = malloc(2 * len * sizeof(float));
    codes.data = malloc(2 * code * sizeof(float));
    looked.data = malloc(len * sizeof(float));
    both.h *= 2;
    codes.h = 2;
    zn_noise_fill(noise, len, 0, 0);
    for (size_t i = 0; i < len; i++) {
        both.data[i] = both.data[len + i] = x.data[i];
        noise[i] = (float)(sqrt(a) * x.data[i] + sqrt(1 - a) * noise[i]);
    }
    for (size_t i = 0; i < code; i++) {
        codes.data[i] = cond.data[i] + 0.5f;
        codes.data[code + i] = cond.data[i];
    }
    draw(m, both, codes, NULL, (const zn_value[]){ { "steps", 1 }, { "from", 400 }, { 0 } }, y);
    CHECK(net && !zn_model_run(net, (const zn_array[]){ { noise, x.h, x.w, 3 }, t, cond }, 3, &looked, NULL, &err),
          "%s", err.text);
    for (size_t i = 0; i < len; i++)
        looked.data[i] = (float)fmin(fmax((noise[i] - sqrt(1 - a) * looked.data[i]) / sqrt(a), -1), 1);
    CHECK(relative(y + len, 3, &looked) <= 1e-4, "the estimate is off by %g", relative(y + len, 3, &looked));
    CHECK(relative(y, 3, &looked) > 1e-3, "the other code sees the same");
    free(noise);
    free(y);
    free(both.data);
    free(codes.data);
    free(looked.data);
    free(x.data);
    free(cond.data);
    zn_model_close(&m);
    zn_model_close(&net);
}

/* A wrong file, a wrong size, an odd number of steps: error messages. */
/* guided=0 is sampling without a guide, guided=1 is the default; a share lies elsewhere. */
static void guides(void)
{
    static const char *const file = GOLDEN "diffae.ckpt";
    static const zn_value share[] = { { "guided", 0 }, { "guided", 0.5 }, { "guided", 1 } };
    zn_array x = load("picture"), cond = load("cond"), other = cond, plain = x, all = x;
    const size_t len = zn_array_len(&x);
    float *y = malloc(3 * len * sizeof *y), code[CODE];
    zn_error err = { "" };
    zn_model *m = NULL;

    plain.data = malloc(len * sizeof(float));
    all.data = malloc(len * sizeof(float));
    CHECK(!zn_model_open(&m, engine, "diffae-sample", &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" },
                         &err),
          "%s", err.text);
    other.data = code;
    for (int i = 0; i < cond.c; i++)
        code[i] = cond.data[i] + 0.5f;
    draw(m, x, other, NULL, (const zn_value[]){ { "steps", 4 }, { 0 } }, plain.data);
    draw(m, x, other, &cond, (const zn_value[]){ { "steps", 4 }, { "guide", 3 }, { 0 } }, all.data);
    for (int i = 0; i < 3; i++)
        draw(m, x, other, &cond, (const zn_value[]){ { "steps", 4 }, { "guide", 3 }, share[i], { 0 } },
             y + (size_t)i * len);
    CHECK(relative(y, 3, &plain) <= 1e-5, "guided=0 is off by %g", relative(y, 3, &plain));
    CHECK(relative(y + 2 * len, 3, &all) <= 1e-5, "guided=1 is off by %g", relative(y + 2 * len, 3, &all));
    CHECK(relative(y + len, 3, &plain) > 1e-3 && relative(y + len, 3, &all) > 1e-3, "guided=0.5: %g and %g",
          relative(y + len, 3, &plain), relative(y + len, 3, &all));
    free(y);
    free(x.data);
    free(cond.data);
    free(plain.data);
    free(all.data);
    zn_model_close(&m);
}

/* The tensors of the checkpoint, and this key of the metadata. */
static bool write_said(const char *to, const char *key, const char *value, zn_error *err)
{
    static const char *const file = checkpoint;
    const char *const meta[] = { key, value, NULL };
    zn_weights *w = NULL;
    const int n = zn_weights_open(&w, &file, 1, err) ? 0 : zn_weights_count(w);
    zn_save_tensor *list = calloc((size_t)n + 1, sizeof *list);
    bool ok;

    for (int i = 0; i < n; i++) {
        const zn_entry *e = zn_weights_get(w, zn_weights_info(w, i).name);

        list[i] = (zn_save_tensor){ .name = zn_weights_info(w, i).name, .n_dims = e->n_dims, .from = e };
        memcpy(list[i].shape, e->shape, sizeof list[i].shape);
    }
    ok = n && !zn_save_tensors(to, list, (size_t)n, meta, err);
    free(list);
    zn_weights_close(&w);
    return ok;
}

/* A file says that its network predicts the picture: one step of sampling is what the network gives, clipped; codes likewise.
 * Another word is refused. */
static void predicts_pictures(void)
{
    char path[] = "/tmp/zenith-x0-XXXXXX";
    const char *file = path;
    zn_array x = load("x"), cond = load("cond"), zero = { &(float){ 0 }, 1, 1, 1 }, got = x, want = x;
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_model *sampler = NULL, *net = NULL;
    zn_error err = { "" };

    close(mkstemp(path));
    got.data = calloc(zn_array_len(&x), sizeof(float));
    want.data = calloc(zn_array_len(&x), sizeof(float));
    CHECK(write_said(path, "prediction", "x0", &err) &&
              !zn_model_open(&sampler, engine, "diffae-sample", &open, &err) &&
              !zn_model_open(&net, engine, "diffae-unet", &open, &err) &&
              !zn_model_run(net, (zn_array[]){ x, zero, cond }, 3, &want, NULL, &err),
          "%s", err.text);
    draw(sampler, x, cond, NULL, (const zn_value[]){ { "steps", 1 }, { "order", 1 }, { 0 } }, got.data);
    for (size_t i = 0; i < zn_array_len(&x); i++)
        want.data[i] = fminf(fmaxf(want.data[i], -1), 1);
    CHECK(relative(got.data, 3, &want) <= 1e-5, "a step is off by %g", relative(got.data, 3, &want));
    zn_model_close(&net);
    zn_model_close(&sampler);
    CHECK(write_said(path, "latent_prediction", "x1", &err) &&
              zn_model_open(&net, engine, "diffae-latent-net", &open, &err) == ZN_E_FILE && strstr(err.text, "x0"),
          "%s", err.text);
    unlink(path);
    free(x.data);
    free(cond.data);
    free(got.data);
    free(want.data);
}

/* eta draws new noise in each step: it differs from DDIM, a seed repeats it, and of two pictures the second has the noise of the
 * next seed. */
static void ancestral(void)
{
    static const char *const file = checkpoint;
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_array x = load("x"), cond = load("cond"), two = x, codes = cond;
    const size_t len = zn_array_len(&x), code = zn_array_len(&cond);
    zn_value set[] = { { "steps", 10 }, { "eta", 1 }, { "seed", 4 }, { 0 } };
    float *y[4];
    zn_error err = { "" };
    zn_model *m = NULL;
    double apart = 0;

    for (int i = 0; i < 4; i++)
        y[i] = calloc(2 * len, sizeof(float));
    two.data = calloc(2 * len, sizeof(float)), two.h *= 2;
    codes.data = calloc(2 * code, sizeof(float)), codes.h = 2;
    for (size_t i = 0; i < 2; i++) {
        memcpy(two.data + i * len, x.data, len * sizeof(float));
        memcpy(codes.data + i * code, cond.data, code * sizeof(float));
    }
    CHECK(!zn_model_open(&m, engine, "diffae-sample", &open, &err), "%s", err.text);
    draw(m, x, cond, NULL, set, y[0]);
    draw(m, x, cond, NULL, set, y[1]);
    draw(m, two, codes, NULL, set, y[2]);
    set[2].value = 5;
    draw(m, x, cond, NULL, set, y[3]);
    CHECK(!memcmp(y[0], y[1], len * sizeof(float)), "a seed does not repeat");
    for (size_t i = 0; i < len; i++) {
        const double a = (double)y[0][i] - (double)y[2][i], b = (double)y[3][i] - (double)y[2][len + i];

        CHECK(fabs(a) < 1e-3 && fabs(b) < 1e-3, "in a batch, %zu is off by %g and %g", i, a, b);
        apart = fmax(apart, fabs((double)y[0][i] - (double)y[3][i]));
    }
    CHECK(apart > 0.01, "two seeds are %g apart", apart);
    zn_model_close(&m);
    for (int i = 0; i < 4; i++)
        free(y[i]);
    free(two.data);
    free(codes.data);
    free(x.data);
    free(cond.data);
}

static void refusals(void)
{
    static const char *const wrong = GOLDEN "denoise.safetensors", *const file = GOLDEN "diffae.ckpt";
    static const zn_value set = { "steps", 300 };
    zn_array in[2] = { load("x"), load("cond") }, out = { 0 };
    const zn_job job = { .set = &set, .n_set = 1 };
    zn_error err = { "" };
    zn_model *m = NULL;

    CHECK(zn_model_open(&m, engine, "diffae-unet", &(zn_open){ .files = &wrong, .n_files = 1 }, &err) == ZN_E_FILE &&
              strstr(err.text, "diffusion autoencoder"),
          "%s", err.text);
    CHECK(!zn_model_open(&m, engine, "diffae-sample", &(zn_open){ .files = &file, .n_files = 1 }, &err), "%s",
          err.text);
    in[0].h = 15;
    CHECK(m && zn_model_shape(m, in, 2, &out, &err) == ZN_E_USAGE, "a picture of 15 rows was taken");
    in[0].h = 16;
    out = in[0];
    CHECK(m && zn_model_run(m, in, 2, &out, &job, &err) == ZN_E_USAGE && strstr(err.text, "300 steps"), "%s", err.text);
    free(in[0].data);
    free(in[1].data);
    zn_model_close(&m);
}

int main(void)
{
    static const char *const file = GOLDEN "diffae.golden.safetensors";
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16);
    zn_error err;

    if (zn_weights_open(&golden, &file, 1, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    for (int e = 0; e < n; e++) {
        if (!list[e].usable || zn_engine_open(&engine, list[e].name, 0, NULL))
            continue;
        RUN(networks);
        RUN(blocks);
        RUN(loops);
        RUN(codes);
        RUN(batches);
        RUN(paths);
        RUN(glance);
        RUN(guides);
        RUN(predicts_pictures);
        RUN(ancestral);
        RUN(refusals);
        zn_engine_close(&engine);
    }
    zn_weights_close(&golden);
    return test_end();
}
