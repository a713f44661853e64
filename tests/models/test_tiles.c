/* SPDX-License-Identifier: MIT */
/* test_tiles.c - the tiler's promise: a pixel does not depend on the region asked for, the tile it was computed
 * in, or the number of threads; memory stays under its bound; a run can be cancelled. */
#include "../unit/test.h"

#include "pipeline/model.h"
#include "zenith.h"

#include <math.h>
#include <stdlib.h>

enum {
    TRIALS = INSTRUMENTED ? 1 : 12,
    FEW_TRIALS = INSTRUMENTED ? 1 : 3,
    MOST_THREADS = INSTRUMENTED ? 2 : 5,
    ENC_W = INSTRUMENTED ? 317 : 517,
    ENC_H = INSTRUMENTED ? 211 : 411
};

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"
#define MODELS ZN_SOURCE_ROOT "/models/"

static const struct {
    const char *model, *weights;
    zn_value set;
    int w, h; /* larger than twice the halo, and no multiples of anything */
} cases[] = {
    { "denoise-fast", GOLDEN "denoise.safetensors", { "sigma", 20 }, 331, 203 },
    { "denoise-fast", GOLDEN "denoise.safetensors", { "sigma", 0 }, 531, 403 }, /* denoise-level measures the noise */
    { "denoise-level", MODELS "denoise-level.safetensors", { 0 }, 531, 403 },
    { "denoise-balanced", MODELS "denoise-balanced.safetensors", { "sigma", 20 }, 421, 293 }, /* many blocks a level */
    { "restore", GOLDEN "restore.safetensors", { 0 }, 331, 203 },
    { "upscale-x2", GOLDEN "upscale-x2.safetensors", { 0 }, 231, 103 },
    { "upscale-x3", GOLDEN "upscale-x3.safetensors", { 0 }, 131, 103 },
    { "upscale-x4", GOLDEN "upscale-x4.safetensors", { "noise", 5 }, 131, 93 },
    { "taesd-encode", GOLDEN "taesd_encoder.pth", { 0 }, ENC_W, ENC_H },
    { "taesd-decode", GOLDEN "taesd_decoder.pth", { 0 }, 61, 47 },
    { "zenith-encode", GOLDEN "latent-gated.safetensors", { 0 }, 331, 203 },
    { "zenith-decode", GOLDEN "latent-gated.safetensors", { 0 }, 61, 47 },
    { "zenith-encode", GOLDEN "latent-plain.safetensors", { 0 }, 331, 203 },
    { "zenith-decode", GOLDEN "latent-plain.safetensors", { 0 }, 61, 47 },
    { "conv-baseline-ae",
      GOLDEN "zenith-conv-baseline.safetensors",
      { 0 },
      394,
      389 }, /* few pixels of a tile's last patch */
    { "template", ZN_RANDOM_WEIGHTS, { 0 }, 131, 83 },
    { "identity", NULL, { 0 }, 37, 1 },
};
static int current;
static zn_engine *engine;

typedef struct picture {
    zn_array a;
} picture;

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    const picture *p = cookie;

    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)(y * r.w * p->a.c), p->a.data + (size_t)(((r.y + y) * p->a.w + r.x) * p->a.c),
               (size_t)(r.w * p->a.c) * sizeof(float));
    return true;
}

static bool write_picture(void *cookie, zn_rect r, const float *src)
{
    picture *p = cookie;

    for (int y = 0; y < r.h; y++)
        memcpy(p->a.data + (size_t)(((r.y + y) * p->a.w + r.x) * p->a.c), src + (size_t)(y * r.w * p->a.c),
               (size_t)(r.w * p->a.c) * sizeof(float));
    return true;
}

static bool on_gpu(void)
{
    return zn_engine_is_remote(engine);
}

static unsigned seed;

static int draw(int n) /* 0 .. n-1 */
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (unsigned)n);
}

static zn_array make_input(const zn_model *m)
{
    zn_array x = { NULL, cases[current].h, cases[current].w, zn_model_geometry(m)->in_c };

    x.data = malloc(zn_array_len(&x) * sizeof(float));
    for (size_t i = 0; i < zn_array_len(&x); i++)
        x.data[i] = (float)draw(1000) / 1000;
    return x;
}

static zn_model *open_case(zn_engine *on, const char *precision)
{
    zn_model *m = NULL;
    zn_error err;
    const zn_open open = { .files = &cases[current].weights,
                           .n_files = cases[current].weights != NULL,
                           .precision = precision };

    if (zn_model_open(&m, on, cases[current].model, &open, &err))
        test_note(strstr(err.text, "has no precision"), "%s", err.text);
    return m;
}

static bool slow_progress(void *cookie, double done)
{
    double *last = cookie;
    bool rises = done >= *last;

    *last = rises ? done : -1;
    return rises;
}

/* The whole picture at once, then random regions with random tile sizes: the same to 1e-6 of the range, on a GPU to the
 * last bit. */
static void regions_in(const char *precision)
{
    zn_model *m = open_case(engine, precision);
    /* denoise-level's halo is no multiple of 12 of its smallest pixels */
    const double most = !strcmp(cases[current].model, "denoise-level") ? 3e-6 : on_gpu() ? 0 : 1e-6;
    zn_array x, whole = { 0 };
    picture in, out = { { 0 } };
    zn_error err = { "" };
    /* a wide halo: each pixel is computed again in many tiles */
    const int trials = !strcmp(cases[current].model, "denoise-balanced") ? FEW_TRIALS : TRIALS;
    float top = 0;

    if (!m)
        return;
    seed = 7;
    x = make_input(m);
    CHECK(!zn_model_shape(m, &x, 1, &whole, &err), "%s", err.text);
    whole.data = malloc(zn_array_len(&whole) * sizeof(float));
    zn_job job = { .set = &cases[current].set, .n_set = cases[current].set.key != NULL, .max_memory = (size_t)4 << 30 };
    zn_status s = zn_model_run(m, &x, 1, &whole, &job, &err);
    CHECK(!s, "%s", err.text);
    for (size_t i = 0; !s && i < zn_array_len(&whole); i++)
        top = fmaxf(top, fabsf(whole.data[i]));
    in.a = x;
    out.a = whole;
    out.a.data = malloc(zn_array_len(&whole) * sizeof(float));

    for (int trial = 0; !s && trial < trials; trial++) {
        zn_rect r = { draw(whole.w), draw(whole.h), 1, 1 };
        zn_source src = { x.w, x.h, x.c, read_picture, &in };
        zn_sink sink = { write_picture, &out };
        double last = 0, worst = 0;

        r.w = 1 + draw(whole.w - r.x);
        r.h = 1 + draw(whole.h - r.y);
        if (trial == 0)
            r = (zn_rect){ 0, 0, whole.w, whole.h };
        for (size_t i = 0; i < zn_array_len(&whole); i++)
            out.a.data[i] = NAN;
        job.tile = 1 + draw(trial <= trials / 2 ? 40 : 300);
        job.progress = slow_progress;
        job.cookie = &last;
        CHECK(!zn_model_run_region(m, &sink, &src, 1, r, &job, &err), "%s", err.text);
        CHECK(last == 1, "progress ended at %g", last);
        for (int y = 0; y < whole.h; y++)
            for (int i = 0; i < whole.w * whole.c; i++) {
                size_t at = (size_t)(y * whole.w * whole.c + i);
                bool inside = y >= r.y && y < r.y + r.h && i / whole.c >= r.x && i / whole.c < r.x + r.w;
                double d = fabs((double)out.a.data[at] - (double)whole.data[at]);

                CHECK(inside == !isnan(out.a.data[at]), "pixel %d,%d %s", i / whole.c, y,
                      inside ? "was not written" : "is outside the region");
                worst = inside && !(d <= worst) ? d : worst;
            }
        CHECK(worst <= most * fmaxf(1, top), "%s, region %d,%d %dx%d, tile %d: off by %g of %g", precision, r.x, r.y,
              r.w, r.h, job.tile, worst, (double)top);
    }
    free(x.data), free(whole.data), free(out.a.data);
    zn_model_close(&m);
}

/* CPUs have one precision alone; what a GPU does not have is passed over. */
static void regions(void)
{
    static const char *const precisions[] = { "fp32", "tf32", "fp16", "bf16", "fp8" };

    for (int i = 0; i < (on_gpu() ? 5 : 1); i++)
        regions_in(precisions[i]);
}

/* The tensors of a CPU's network are halves: with the same tiles, a region has the bits of the whole picture. */
static void regions_of_halves(void)
{
    enum { W = 60, H = 14, TILE = 48 };
    const char *random = ZN_RANDOM_WEIGHTS;
    const zn_open open = { .files = &random, .n_files = 1, .precision = "fp16" };
    float *whole = malloc(sizeof(float) * 64 * W * H * 3), *part = malloc(sizeof(float) * 64 * W * H * 3);
    zn_array x = { malloc(sizeof(float) * W * H * 4), H, W, 4 }, y = { whole, 8 * H, 8 * W, 3 };
    const zn_rect all = { 0, 0, 8 * W, 8 * H }, some = { 300, 20, 61, 33 };
    zn_job job = { .tile = TILE };
    picture in = { x }, out = { y };
    zn_source src = { W, H, 4, read_picture, &in };
    zn_sink sink = { write_picture, &out };
    zn_model *m = NULL;
    zn_error err = { "" };

    seed = 5;
    for (int i = 0; i < W * H * 4; i++)
        x.data[i] = (float)draw(1000) / 1000;
    CHECK(!zn_model_open(&m, engine, "taesd-decode", &open, &err), "%s", err.text);
    if (m && !on_gpu() && m->binder.tensors == ZN_F16) {
        int differ = 0;

        CHECK(!zn_model_run_region(m, &sink, &src, 1, all, &job, &err), "%s", err.text);
        out.a.data = part;
        CHECK(!zn_model_run_region(m, &sink, &src, 1, some, &job, &err), "%s", err.text);
        for (int i = some.y; i < some.y + some.h; i++)
            differ += memcmp(whole + (i * 8 * W + some.x) * 3, part + (i * 8 * W + some.x) * 3,
                             sizeof(float) * 3 * (size_t)some.w) != 0;
        CHECK(!differ, "%d of %d rows differ", differ, some.h);
    } else if (m) {
        test_note(true, "tensors are not halves here");
    }
    zn_model_close(&m);
    free(x.data), free(whole), free(part);
}

static void same_bits_for_every_thread_count(void)
{
    zn_array x = { 0 }, first = { 0 };

    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        zn_engine *e = NULL;
        zn_error err = { "" };
        zn_array y = { 0 };
        zn_model *m;

        CHECK(!zn_engine_open(&e, NULL, threads, &err), "%s", err.text);
        m = open_case(e, NULL);
        if (!m)
            return;
        seed = 3;
        if (!x.data)
            x = make_input(m);
        CHECK(!zn_model_shape(m, &x, 1, &y, &err), "%s", err.text);
        y.data = malloc(zn_array_len(&y) * sizeof(float));
        CHECK(!zn_model_run(m, &x, 1, &y, NULL, &err), "%s", err.text);
        if (first.data)
            CHECK(!memcmp(first.data, y.data, zn_array_len(&y) * sizeof(float)), "%d threads differ from 1", threads);
        if (first.data)
            free(y.data);
        else
            first = y;
        zn_model_close(&m);
        zn_engine_close(&e);
    }
    free(x.data), free(first.data);
}

static void memory_is_bounded(void)
{
    zn_model *m = open_case(engine, NULL);
    zn_array x = { NULL, 12000, 9000, 0 };
    zn_job job = { .max_memory = (size_t)300 << 20 };
    zn_plan plan;
    zn_error err = { "" };

    if (!m)
        return;
    x.c = zn_model_geometry(m)->in_c;
    CHECK(!zn_model_plan(m, &x, 1, &job, &plan, &err), "%s", err.text);
    CHECK(plan.peak_bytes <= job.max_memory, "%zu bytes planned", plan.peak_bytes);
    CHECK(plan.n_tiles > 1, "one tile of %d x %d", plan.tile_w, plan.tile_h);
    CHECK(!cases[current].weights || plan.macs > 1e9, "%g multiply-adds", plan.macs);
    if (zn_model_geometry(m)->halo >= 0) { /* a tile that is asked for: taken if it fits */
        const int fits = plan.tile_w;

        job.tile = fits;
        CHECK(!zn_model_plan(m, &x, 1, &job, &plan, &err) && plan.tile_w == fits, "asked for %d: %d", fits,
              plan.tile_w);
        job.tile = 1;
        CHECK(!zn_model_plan(m, &x, 1, &job, &plan, &err) && plan.tile_w < fits, "asked for few pixels: %d",
              plan.tile_w);
        job.tile = 1 << 20;
        CHECK(!zn_model_plan(m, &x, 1, &job, &plan, &err) && plan.peak_bytes <= job.max_memory,
              "asked for all at once: %zu bytes", plan.peak_bytes);
        job.tile = 0;
    }
    job.max_memory = 1 << 10;
    CHECK(zn_model_plan(m, &x, 1, &job, &plan, &err) == ZN_E_MEMORY &&
              strstr(err.text, on_gpu() ? "ZENITH_CUDA_MEMORY" : "ZENITH_MEMORY"),
          "a bound of a kilobyte gave: %s", err.text);
    zn_model_close(&m);
}

/* The decoder at 512x512: three buffers of 64 channels at full size, beside them the picture, here and at the caller's. */
static void decoder_needs_three_buffers(void)
{
    static const char *const made_up = ZN_RANDOM_WEIGHTS;
    const size_t pixels = 512 * 512, most = (3 * 64 + 2 * 3) * pixels * sizeof(float) + (1 << 20);
    zn_model *m = NULL;
    zn_array z = { NULL, 64, 64, 4 };
    zn_plan plan;
    zn_error err = { "" };

    if (zn_model_open(&m, engine, "taesd-decode", &(zn_open){ .files = &made_up, .n_files = 1 }, &err) ||
        zn_model_plan(m, &z, 1, NULL, &plan, &err))
        CHECK(false, "%s", err.text);
    else
        CHECK(plan.n_tiles == 1 && plan.peak_bytes <= most, "%zu bytes in %d tiles, not %zu", plan.peak_bytes,
              plan.n_tiles, most);
    zn_model_close(&m);
}

static float far_value(int x, int y, int c)
{
    return (float)(x % 251 + y % 241 + c) / 512;
}

static bool read_far(void *cookie, zn_rect r, float *dst)
{
    (void)cookie;
    for (int y = 0; y < r.h; y++)
        for (int x = 0; x < r.w; x++)
            for (int c = 0; c < 3; c++)
                *dst++ = far_value(r.x + x, r.y + y, c);
    return true;
}

static bool check_far(void *cookie, zn_rect r, const float *src)
{
    int *right = cookie;

    for (int y = 0; y < r.h; y++)
        for (int x = 0; x < r.w; x++)
            for (int c = 0; c < 3; c++)
                *right += *src++ == far_value(r.x + x, r.y + y, c);
    return true;
}

/* The last pixels of the largest picture, which has more of the smallest tiles than an int counts. */
static void far_corner(void)
{
    const int side = 1 << 24;
    const zn_job job = { .tile = 1 };
    const zn_source src = { side, side, 3, read_far, NULL };
    int right = 0;
    const zn_sink sink = { check_far, &right };
    zn_model *m = NULL;
    zn_error err = { "" };

    CHECK(!zn_model_open(&m, engine, "identity", NULL, &err), "%s", err.text);
    zn_status s = zn_model_run_region(m, &sink, &src, 1, (zn_rect){ side - 37, side - 25, 37, 25 }, &job, &err);
    zn_model_close(&m);
    CHECK(!s && right == 37 * 25 * 3, "%d of %d values, %s", right, 37 * 25 * 3, err.text);
}

static bool cancel_half_way(void *cookie, double done)
{
    (void)cookie;
    return done < 0.5;
}

static void cancel(void)
{
    zn_model *m = open_case(engine, NULL);
    zn_job job = { .progress = cancel_half_way };
    zn_array x, y = { 0 };
    zn_error err = { "" };

    if (!m)
        return;
    x = make_input(m);
    CHECK(!zn_model_shape(m, &x, 1, &y, &err), "%s", err.text);
    y.data = malloc(zn_array_len(&y) * sizeof(float));
    CHECK(zn_model_run(m, &x, 1, &y, &job, &err) == ZN_E_CANCELLED, "it went on");
    CHECK(!zn_model_run(m, &x, 1, &y, NULL, &err), "the next run: %s", err.text);
    free(x.data), free(y.data);
    zn_model_close(&m);
}

static void wrong_arguments(void)
{
    zn_model *m = open_case(engine, NULL);
    zn_array x = { NULL, 8, 8, 17 }, y = { 0 };
    const zn_value set = { "nonsense", 1 };
    zn_job job = { .set = &set, .n_set = 1 };
    picture p = { { 0 } };
    zn_source src = { 8, 8, 0, read_picture, &p };
    zn_sink sink = { write_picture, &p };
    zn_error err = { "" };

    if (!m)
        return;
    src.c = zn_model_geometry(m)->in_c;
    CHECK(zn_model_shape(m, &x, 1, &y, &err) == ZN_E_USAGE && strstr(err.text, "17"), "17 channels: %s", err.text);
    CHECK(zn_model_run_region(m, &sink, &src, 1, (zn_rect){ 0, 0, 8, 8 }, &job, &err) == ZN_E_USAGE &&
              strstr(err.text, "nonsense"),
          "a setting that is none: %s", err.text);
    CHECK(zn_model_run_region(m, &sink, &src, 1, (zn_rect){ -1, 0, 8, 8 }, NULL, &err) == ZN_E_USAGE,
          "a region outside was taken");
    src.w = 0;
    CHECK(zn_model_run_region(m, &sink, &src, 1, (zn_rect){ 0, 0, 8, 8 }, NULL, &err) == ZN_E_USAGE,
          "an empty picture was taken");
    zn_model_close(&m);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        { "regions", regions },
        { "same bits for every thread count", same_bits_for_every_thread_count },
        { "memory is bounded", memory_is_bounded },
        { "cancel", cancel },
        { "wrong arguments", wrong_arguments },
    };

    setenv("ZENITH_MODELS", MODELS, 1); /* denoise-level */
    if (zn_engine_open(&engine, NULL, 0, NULL))
        return 1;
    for (current = 0; current < (int)(sizeof cases / sizeof *cases); current++)
        for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
            char name[128];

            if (tests[t].run == cancel && !cases[current].weights)
                continue; /* over before it is half done */
            if (INSTRUMENTED &&
                (!strcmp(cases[current].model, "denoise-balanced") ||
                 (!strcmp(cases[current].model, "taesd-decode") && !getenv("CI"))))
                continue; /* the slowest; the small denoiser and the encoder take the same paths */
            snprintf(name, sizeof name, "%s: %s", cases[current].model, tests[t].name);
            test_run(name, tests[t].run);
        }
    test_run("taesd-decode needs three buffers", decoder_needs_three_buffers);
    test_run("regions of halves", regions_of_halves);
    test_run("the far corner", far_corner);
    zn_engine_close(&engine);
    return test_end();
}
