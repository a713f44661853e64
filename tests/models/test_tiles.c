/* SPDX-License-Identifier: MIT */
/* test_tiles.c - the tiler's promise: a pixel does not depend on the region asked for, the tile it was computed
 * in, or the number of threads; memory stays under its bound; a run can be cancelled. */
#include "../unit/test.h"

#include "handle.h"
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

typedef struct way { /* in which a picture is computed */
    int threads;
    size_t room;        /* of a tile, in elements of the network's tensors */
    size_t strips_from; /* elements of a tensor; 0: the usual number */
    zn_rect part;       /* of the result; empty: all */
} way;

/* What zenith-tae makes of x, and its plan; false: failed, or there is no such precision here. */
static bool run_way(const char *id, const char *precision, zn_array x, way how, zn_array *y, zn_plan *plan)
{
    const char *weights = MODELS "zenith-tae.safetensors";
    const zn_open open = { .files = &weights, .n_files = 1, .precision = precision };
    zn_job job = { 0 };
    picture in = { x }, out = { { 0 } };
    const zn_source src = { x.w, x.h, x.c, read_picture, &in };
    const zn_sink sink = { write_picture, &out };
    zn_engine *e = NULL;
    zn_model *m = NULL;
    zn_backend be;
    zn_error err = { "" };
    bool done = !zn_engine_open(&e, NULL, how.threads, &err);

    if (done) {
        be = *e->be;
        be.strips_from = how.strips_from;
        e->be = &be;
        done = !zn_model_open(&m, e, id, &open, &err);
        job.max_memory = done ? how.room * zn_type_size(m->binder.tensors) : 0;
        done = done && !zn_model_shape(m, &x, 1, y, &err) && !zn_model_plan(m, &x, 1, &job, plan, &err);
    }
    if (done) {
        y->data = calloc(zn_array_len(y), sizeof(float));
        out.a = *y;
        if (!how.part.w)
            how.part = (zn_rect){ 0, 0, y->w, y->h };
        done = !zn_model_run_region(m, &sink, &src, 1, how.part, &job, &err);
    }
    if (!done && !strstr(err.text, "has no precision"))
        test_note(false, "%s in %s: %s", id, precision, err.text);
    zn_model_close(&m);
    zn_engine_close(&e);
    return done;
}

/* Two ways: the same bits.  Of the plans, the second has more tiles or takes less memory, as is asked. */
static void compare_ways(const char *id, const char *precision, zn_array x, way one, way other, zn_plan plan[2])
{
    zn_array y[2] = { { 0 } };
    int differ = 0;

    seed = 5;
    x.data = malloc(zn_array_len(&x) * sizeof(float));
    for (size_t i = 0; i < zn_array_len(&x); i++)
        x.data[i] = (float)draw(1000) / 1000;
    if (run_way(id, precision, x, one, &y[0], &plan[0]) && run_way(id, precision, x, other, &y[1], &plan[1])) {
        const zn_rect r = other.part.w ? other.part : (zn_rect){ 0, 0, y[0].w, y[0].h };

        for (int i = r.y; i < r.y + r.h; i++) {
            const size_t at = (size_t)(i * y[0].w + r.x) * (size_t)y[0].c;

            differ += memcmp(y[0].data + at, y[1].data + at, sizeof(float) * (size_t)(r.w * y[0].c)) != 0;
        }
        if (differ)
            test_note(false, "%s in %s: %d of %d rows differ", id, precision, differ, r.h);
    }
    free(x.data), free(y[0].data), free(y[1].data);
}

static const char *const tae_precisions[] = { "fp32", "fp16", "bf16", "tf32" };

/* Winograd's blocks round a pixel by all that is in them, which many layers carry far beyond the halo: the tiles of zenith-tae do
 * not follow the memory, and threads and regions do not matter. */
static void any_memory(void)
{
    enum { LATENT = 250, HIGH = 1, W = 8 * LATENT - 3, H = 8 * HIGH };
    const size_t three = 3 * 64 * (size_t)W * H; /* tensors: less than the picture takes as a whole */
    const zn_array picture_in = { NULL, H, W, 3 }, latent = { NULL, HIGH, LATENT, 16 };

    for (int i = 0; i < 4; i++) {
        const way usual = { 1, (size_t)1 << 30, 0, { 0 } };
        zn_plan plan[2] = { { 0 } };

        TRY(compare_ways("taesd-encode", tae_precisions[i], picture_in, usual, (way){ 2, three, 0, { 0 } }, plan));
        TRY(compare_ways("taesd-decode", tae_precisions[i], latent, usual, (way){ 2, three, 0, { 1000, 3, 150, 4 } },
                         plan));
    }
}

/* Of large tensors a CPU keeps some rows at a time: less memory, the same bits. */
static void in_rows(void)
{
    enum { LATENT_H = 40, LATENT_W = 5, H = 8 * LATENT_H, W = 43 };

    for (int i = 0; i < 4; i++) {
        /* weights of 16 bits: at full size only, as a CPU multiplies otherwise where pixels are few */
        const way whole = { 2, (size_t)1 << 30, SIZE_MAX, { 0 } },
                  rows = { 2, (size_t)1 << 30, i == 0 ? 1 : 32 * H * W, { 0 } };
        zn_plan plan[2] = { { 0 } };

        TRY(compare_ways("taesd-encode", tae_precisions[i], (zn_array){ NULL, H, W, 3 }, whole, rows, plan));
        CHECK(on_gpu() || i == 0 || 10 * plan[1].peak_bytes <= 9 * plan[0].peak_bytes, "encode: %zu bytes, not %zu",
              plan[1].peak_bytes, plan[0].peak_bytes);
        TRY(compare_ways("taesd-decode", tae_precisions[i], (zn_array){ NULL, LATENT_H, LATENT_W, 16 }, whole, rows,
                         plan));
        CHECK(on_gpu() || i == 0 || 10 * plan[1].peak_bytes <= 9 * plan[0].peak_bytes, "decode: %zu bytes, not %zu",
              plan[1].peak_bytes, plan[0].peak_bytes);
    }
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
    if (zn_model_geometry(m)->halo >= 0 && (on_gpu() || !zn_model_geometry(m)->tile)) {
        /* a tile that is asked for: taken if it fits */
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
    RUN(any_memory);
    RUN(in_rows);
    test_run("the far corner", far_corner);
    zn_engine_close(&engine);
    return test_end();
}
