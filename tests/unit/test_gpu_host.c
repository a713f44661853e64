/* SPDX-License-Identifier: MIT */
/* test_gpu_host.c LOG - what the CUDA engine's host side records of a forward, and models that are opened and closed
 * meanwhile; with FAKE_CUDA=hopper, which kernels are chosen for large layers.
 *
 * For tests/cli/test_cuda.sh: the driver is fake_cuda.c, which writes LOG (FAKE_CUDA_LOG). */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "backend.h"
#include "zenith.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const file = ZN_SOURCE_ROOT "/tests/data/golden/denoise.safetensors";
static const char *log_path;
static zn_engine *engine;

/* Lines of the log that hold this text. */
static int lines(const char *text)
{
    FILE *f = fopen(log_path, "r");
    char line[256];
    int n = 0;

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

static bool stop_half_way(void *cookie, double done)
{
    (void)cookie;
    return done < 0.5;
}

static zn_status run(zn_model *m, int side, bool stop)
{
    const zn_value set = { "sigma", 20 };
    zn_error note;
    zn_job job = { .set = &set, .n_set = 1, .progress = stop ? stop_half_way : NULL, .note = &note };
    zn_array x = { calloc((size_t)side * (size_t)side * 3, sizeof(float)), side, side, 3 };
    zn_array y = { calloc((size_t)side * (size_t)side * 3, sizeof(float)), side, side, 3 };
    zn_error err = { "" };
    zn_status s = x.data && y.data ? zn_model_run(m, &x, 1, &y, &job, &err) : ZN_E_MEMORY;

    if (!s && note.text[0])
        s = ZN_E_DEVICE; /* the CPU stepped in */
    free(x.data);
    free(y.data);
    return s;
}

static void a_part_is_no_forward(void)
{
    zn_model *m;
    int before = lines("graph");

    CHECK(!zn_model_open(&m, engine, "denoise-fast", &(zn_open){ .files = &file, .n_files = 1 }, NULL), "not opened");
    CHECK(run(m, 64, false) == ZN_OK && run(m, 64, true) == ZN_E_CANCELLED, "the second run was to be cancelled");
    CHECK(lines("graph") == before, "half a forward was kept");
    CHECK(run(m, 64, false) == ZN_OK && lines("graph") == before + 1, "the third is kept");
    CHECK(run(m, 72, true) == ZN_E_CANCELLED && run(m, 72, false) == ZN_OK && lines("graph") == before + 1,
          "kernels are chosen in a whole forward, not in a recorded one");
    CHECK(run(m, 72, false) == ZN_OK && lines("graph") == before + 2, "then it is kept");
    zn_model_close(&m);
}

static atomic_bool over;

static void *come_and_go(void *failed)
{
    for (long i = 0; !atomic_load(&over); i++) {
        zn_model *m;

        if (zn_model_open(&m, engine, "denoise-fast", &(zn_open){ .files = &file, .n_files = 1 }, NULL))
            *(bool *)failed = true;
        nanosleep(&(struct timespec){ .tv_nsec = i * 37 % 64 * 30000 }, NULL); /* the other may be recording then */
        zn_model_close(&m);
    }
    return NULL;
}

static void *ask(void *model)
{
    const zn_array x = { NULL, 64, 64, 3 };
    zn_plan plan;

    while (!atomic_load(&over))
        zn_model_plan(model, &x, 1, NULL, &plan, NULL);
    return NULL;
}

static void beside_others(void)
{
    pthread_t other[2];
    bool failed = false;
    zn_model *m;
    int exact = lines("tf32");

    CHECK(!zn_model_open(&m, engine, "denoise-fast", &(zn_open){ .files = &file, .n_files = 1 }, NULL), "not opened");
    CHECK(!pthread_create(&other[0], NULL, come_and_go, &failed) && !pthread_create(&other[1], NULL, ask, m),
          "no threads");
    for (int i = 0; i < 600; i++)
        failed = run(m, 64 + 8 * (i / 3 % 2), false) != ZN_OK || failed;
    atomic_store(&over, true);
    pthread_join(other[0], NULL);
    pthread_join(other[1], NULL);
    zn_model_close(&m);
    CHECK(!failed && !lines("synchronised"), "a model that closes disturbed a forward");
    CHECK(lines("tf32") == exact, "a precision that was only asked for was used");
}

/* ---- FAKE_CUDA=lost=N -------------------------------------------------------------------------------------------- */

typedef struct user {
    zn_model *model;
    int failed, noted;
} user;

static void *use(void *cookie)
{
    user *u = cookie;

    for (int i = 0; i < 4; i++) {
        const zn_value set = { "sigma", 20 };
        zn_error note = { "?" };
        const zn_job job = { .set = &set, .n_set = 1, .note = &note };
        static const float black[64 * 64 * 3];
        float out[64 * 64 * 3];
        const zn_array x = { (float *)(uintptr_t)black, 64, 64, 3 };
        zn_array y = { out, 64, 64, 3 };

        u->failed += zn_model_run(u->model, &x, 1, &y, &job, NULL) != ZN_OK;
        u->noted += strstr(note.text, "engine instead") != NULL;
    }
    return NULL;
}

/* Several threads on one model whose GPU goes: one stand-in is opened, and every request has its own note. */
static void lost_in_threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    user u[THREADS] = { { 0 } };
    zn_model *m;
    int failed = 0, noted = 0;

    CHECK(!zn_model_open(&m, engine, "denoise-fast", &(zn_open){ .files = &file, .n_files = 1 }, NULL), "not opened");
    for (int i = 0; i < THREADS; i++) {
        u[i].model = m;
        CHECK(!pthread_create(&thread[i], NULL, use, &u[i]), "no threads");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        failed += u[i].failed;
        noted += u[i].noted;
    }
    zn_model_close(&m);
    CHECK(!failed && noted >= 4 * THREADS - 1, "%d failed, %d noted", failed, noted);
}

/* ---- FAKE_CUDA=hopper ------------------------------------------------------------------------------------------ */

static const zn_backend *const gpu = &zn_backend_cuda;
static void *dev;

static zn_tensor halves(int n, int h, int w, int c)
{
    const size_t size = (size_t)n * (size_t)h * (size_t)w * (size_t)c * 2;

    return (zn_tensor){ .data = gpu->alloc(dev, size), .n = n, .h = h, .w = w, .c = c, .ld = c, .type = ZN_F16 };
}

/* y of h x w pixels; stride 1 keeps the size, others have no padding.  also: of a second result; ZN_NONE: there is none. */
static void convolve_also(zn_precision precision, int k, int stride, int cin, int cout, int h, int w, zn_act also)
{
    const size_t n = (size_t)cin * (size_t)cout * (size_t)(k * k);
    const int pad = stride == 1 ? k / 2 : 0;
    zn_conv c = { .kh = k,
                  .kw = k,
                  .stride = stride,
                  .groups = 1,
                  .cin = cin,
                  .cout = cout,
                  .pad_t = pad,
                  .pad_l = pad,
                  .precision = precision };
    zn_tensor x = halves(1, h * stride, w * stride, cin), y = halves(1, h, w, cout), second = halves(1, h, w, cout);
    float *weight = calloc(n, sizeof *weight);

    c.packed = gpu->alloc(dev, gpu->conv_size(dev, &c));
    CHECK(x.data && y.data && second.data && c.packed && weight, "no memory");
    gpu->conv_pack(dev, &c, weight, NULL);
    gpu->conv2d(dev, y, x, &c, (zn_tail){ .also = also ? &second : NULL, .also_act = also });
    gpu->free(dev, x.data);
    gpu->free(dev, y.data);
    gpu->free(dev, second.data);
    gpu->free(dev, c.packed);
    free(weight);
}

static void convolve(zn_precision precision, int k, int stride, int cin, int cout, int h, int w)
{
    convolve_also(precision, k, stride, cin, cout, h, w, ZN_NONE);
}

/* The epilogue writes a second result that is a ReLU; any other, and where another kernel computes, takes a map. */
static void second_results(void)
{
    const int maps = lines("map_");

    convolve_also(ZN_FP16_MATH, 3, 1, 64, 64, 16, 16, ZN_RELU);
    convolve_also(ZN_FP16_MATH, 3, 1, 96, 96, 9, 7, ZN_RELU);
    convolve_also(ZN_FP16_MATH, 1, 1, 48, 40, 9, 7, ZN_RELU);
    CHECK(lines("map_") == maps, "%d maps", lines("map_") - maps);
    convolve_also(ZN_FP16_MATH, 3, 1, 64, 64, 16, 16, ZN_SILU);
    convolve_also(ZN_FP16_MATH, 3, 1, 64, 20, 16, 16, ZN_RELU); /* pixels of y are no multiples of 16 bytes */
    convolve_also(ZN_FP8_MATH, 3, 1, 128, 128, 16, 16, ZN_RELU);
    CHECK(lines("map_") == maps + 3, "%d maps, not 3", lines("map_") - maps);
}

/* Layers of many pixels: 96 channels have a kernel that also normalises; with up2, taps are merged. */
static void many_pixels(void)
{
    const zn_norm norm = { .kind = ZN_RMS_NORM, .c = 96, .eps = 1e-6f };
    const int norms = lines("norm_plain"), pixels = lines("hopper_pixels_f16"), merged = lines("hopper_merge_f16");
    zn_conv c = { .kh = 3, .kw = 3, .stride = 1, .groups = 1, .cin = 96, .cout = 96, .pad_t = 1, .pad_l = 1 };
    zn_tensor x = halves(1, 20, 30, 96), y = halves(1, 20, 30, 96), large = halves(1, 40, 60, 96);
    float *weight = calloc(96 * 96 * 9, sizeof *weight);

    c.precision = ZN_FP16_MATH;
    for (int i = 0; i < 4; i++) {
        c.many_pixels = i % 2;
        c.up2 = i / 2;
        c.packed = gpu->alloc(dev, gpu->conv_size(dev, &c));
        CHECK(x.data && y.data && large.data && c.packed && weight, "no memory");
        CHECK(gpu->conv_scratch(dev, &c) == (i == 3 ? 16 * 128 * 96 * 2 : 0), "%zu bytes beside it",
              gpu->conv_scratch(dev, &c));
        gpu->conv_pack(dev, &c, weight, NULL);
        gpu->conv2d(dev, c.up2 ? large : y, x, &c, (zn_tail){ .also = c.up2 ? NULL : &y, .also_norm = &norm });
        gpu->free(dev, c.packed);
    }
    CHECK(lines("hopper_pixels_f16") == pixels + 1 && lines("norm_plain") == norms + 1, "%d convolutions, %d norms",
          lines("hopper_pixels_f16") - pixels, lines("norm_plain") - norms);
    CHECK(lines("hopper_merge_f16") == merged + 1, "%d merged", lines("hopper_merge_f16") - merged);
    gpu->free(dev, x.data);
    gpu->free(dev, y.data);
    gpu->free(dev, large.data);
    free(weight);
}

/* Several threads pack what one packs. */
static void threads_pack_alike(void)
{
    enum { OUT = 100, IN = 72, N = OUT * IN * 9 };
    static float w[N];
    zn_error err = { "" };
    void *other = NULL;

    CHECK(!gpu->open(&other, 5, &err), "%s", err.text);
    for (int i = 0; i < N; i++)
        w[i] = (float)(i * 37 % 1009 - 500) / 77.f;
    for (int p = 0; p < ZN_N_PRECISIONS; p++) {
        zn_conv a = { .kh = 3, .kw = 3, .stride = 1, .groups = 1, .cin = IN, .cout = OUT, .pad_t = 1, .pad_l = 1 }, b;
        const size_t size = gpu->conv_size(dev, (a.precision = (zn_precision)p, &a));

        b = a;
        a.packed = gpu->alloc(dev, size);
        b.packed = gpu->alloc(other, size);
        CHECK(a.packed && b.packed, "no memory");
        gpu->conv_pack(dev, &a, w, w);
        gpu->conv_pack(other, &b, w, w);
        CHECK(!memcmp(a.packed, b.packed, size), "%s: threads pack something else", zn_precision_names[p]);
        gpu->free(dev, a.packed);
        gpu->free(other, b.packed);
    }
    gpu->close(other);
}

/* The bytes of a layer's weights, without its bias. */
static double bytes_per_weight(zn_precision precision, int k, int cin, int cout, int groups)
{
    const zn_conv c = { .kh = k,
                        .kw = k,
                        .stride = 1,
                        .groups = groups,
                        .cin = cin,
                        .cout = cout,
                        .pad_t = k / 2,
                        .pad_l = k / 2,
                        .precision = precision };
    const size_t bias = ((size_t)cout * sizeof(float) + 255) / 256 * 256;

    return (double)(gpu->conv_size(dev, &c) - bias) / ((double)cin / groups * cout * k * k);
}

/* One copy of the weights, of the type that the precision multiplies. */
static void one_copy_of_weights(void)
{
    static const double dense[ZN_N_PRECISIONS] = { 4, 4, 2, 2, 1 + 4 / 2304., 1 + 2 / 32., 0.5 + 2 / 32. };

    for (int p = 0; p < ZN_N_PRECISIONS; p++) {
        const double got = bytes_per_weight((zn_precision)p, 3, 256, 256, 1);

        CHECK(got >= dense[p] && got < dense[p] + 0.001, "%s: %g bytes", zn_precision_names[p], got);
        CHECK(bytes_per_weight((zn_precision)p, 3, 64, 64, 64) == 4, "%s: depthwise", zn_precision_names[p]);
    }
    CHECK(bytes_per_weight(ZN_FP8_MATH, 3, 64, 64, 1) == 2, "fp8 does not pay there");
    CHECK(bytes_per_weight(ZN_INT8_MATH, 3, 16, 64, 1) >= 2, "too few inputs for integers with a scale");
}

/* Layers of a model multiply what is stored; a tensor of another type has the weights expanded. */
static void weights_as_stored(void)
{
    const int before = lines("expand_");

    convolve(ZN_FP16_MATH, 3, 1, 64, 64, 16, 16);
    convolve(ZN_FP16_MATH, 1, 1, 12, 20, 16, 16);
    convolve(ZN_FP8_MATH, 3, 1, 128, 128, 16, 16);
    CHECK(lines("expand_") == before, "expanded");
    convolve(ZN_FP32, 3, 1, 64, 64, 16, 16); /* x is fp16 */
    convolve(ZN_INT4_MATH, 3, 1, 64, 64, 16, 16);
    CHECK(lines("expand_f32_f16") == 1 && lines("expand_i4_f16") == 1 && lines("expand_") == before + 2,
          "not expanded");
}

/* What conv_pack writes as int8 and int4, against the definition in core/quantise.h: k in the order of the file, rows padded
 * to whole groups.  The fake GPU's memory is ours. */
static void quantised_weights(void)
{
    enum { OUT = 64, IN = 36, K = IN * 9, ROW = 352, N = OUT * K };
    static float w[N];
    zn_conv c = { .kh = 3, .kw = 3, .stride = 1, .groups = 1, .cin = IN, .cout = OUT, .pad_t = 1, .pad_l = 1 };

    for (int i = 0; i < N; i++)
        w[i] = (float)(i * 37 % 101 - 50) / 50.f * (1 + (float)(i / 32 % 5)); /* groups of several magnitudes */
    for (int bits = 4; bits <= 8; bits += 4) {
        const int top = bits == 8 ? 127 : 7;
        const uint8_t *q;
        const uint16_t *scale;
        double worst = 0;

        c.precision = bits == 8 ? ZN_INT8_MATH : ZN_INT4_MATH;
        c.packed = gpu->alloc(dev, gpu->conv_size(dev, &c));
        CHECK(c.packed != NULL, "no memory");
        gpu->conv_pack(dev, &c, w, NULL);
        q = (const uint8_t *)c.packed + 256; /* after the bias */
        scale = (const uint16_t *)(const void *)(q + OUT * ROW * bits / 8);
        for (int o = 0; o < OUT; o++)
            for (int k = 0; k < K; k++) {
                const int i = o * ROW + k, v = bits == 8 ? (int8_t)q[i] : (q[i / 2] >> i % 2 * 4 & 15) - 8;
                const double s = zn_from_f16(scale[i / 32]);

                worst = test_larger(worst, fabs(v * s - w[o * K + k]) / s);
            }
        CHECK(worst <= 0.5 + top * 0x1p-11, "int%d: off by %g steps", bits, worst); /* the scale is rounded, too */
        gpu->free(dev, c.packed);
    }
}

/* int8 with a scale for each row, and what multiplies it: integers, or where something follows the product, fp16. */
static void row_scales(void)
{
    enum { OUT = 72, IN = 256, PIXELS = 300 };
    static float w[OUT * IN];
    zn_conv c = { .kh = 1,
                  .kw = 1,
                  .stride = 1,
                  .groups = 1,
                  .cin = IN,
                  .cout = OUT,
                  .quantised_x = true,
                  .row_scales = true,
                  .precision = ZN_INT8_MATH };
    const zn_tensor x = halves(1, 1, PIXELS, IN), y = halves(1, 1, PIXELS, OUT);
    const int products = lines("hopper_linear_s8"), expanded = lines("expand_s8_f16");
    const float *scale;
    const int8_t *q;
    double worst = 0;

    for (int i = 0; i < OUT * IN; i++)
        w[i] = (float)(i * 37 % 101 - 50) / 50.f * (1 + (float)(i / IN % 5)) * (i / IN == 3 ? 0 : 1); /* one row is 0 */
    c.packed = gpu->alloc(dev, gpu->conv_size(dev, &c));
    CHECK(c.packed && x.data && y.data, "no memory");
    gpu->conv_pack(dev, &c, w, NULL);
    q = (const int8_t *)c.packed + 512; /* after the bias of 128 outputs */
    scale = (const float *)(const void *)(q + 128 * IN);
    for (int i = 0; i < OUT * IN; i++)
        worst = test_larger(worst, fabs(q[i] * (double)scale[i / IN] - w[i]) / scale[i / IN]);
    CHECK(worst <= 0.501, "off by %g steps", worst);
    gpu->conv2d(dev, y, x, &c, (zn_tail){ 0 });
    CHECK(lines("hopper_linear_s8") == products + 1 && lines("expand_s8_f16") == expanded, "not a product of integers");
    gpu->conv2d(dev, y, x, &c, (zn_tail){ .pre = ZN_SILU });
    CHECK(lines("hopper_linear_s8") == products + 1 && lines("expand_s8_f16") == expanded + 1, "not expanded");
    gpu->free(dev, c.packed);
    gpu->free(dev, x.data);
    gpu->free(dev, y.data);
}

/* A convolution that fp8 is for is done in fp8 whatever the picture's size: its pixels do not depend on tiles. */
static void fp8_at_any_size(void)
{
    static const struct {
        int k, cin, cout, h, w, before, inside;
    } cases[] = { { 3, 128, 128, 9, 18, 1, 0 },
                  { 3, 128, 128, 256, 256, 0, 1 },
                  { 3, 128, 128, 1000, 1000, 0, 1 },
                  { 1, 256, 1024, 16, 16, 1, 0 },
                  { 1, 256, 1024, 600, 600, 2, 0 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int before = lines("quantise_f16"), inside = lines("e4m3_256_quantise"), products = lines("_e4m3"),
                  all = lines("conv") + lines("linear");

        convolve(ZN_FP8_MATH, cases[i].k, 1, cases[i].cin, cases[i].cout, cases[i].h, cases[i].w);
        CHECK(lines("quantise_f16") - before == cases[i].before &&
                  lines("e4m3_256_quantise") - inside == cases[i].inside,
              "x was not converted where it was to be");
        CHECK(lines("_e4m3") - products == cases[i].before + cases[i].inside &&
                  lines("conv") + lines("linear") - all == lines("_e4m3") - products,
              "not all products are of 8 bits");
    }
}

/* Kernels that add up a pixel's products in the same order: how often each such kind was started so far. */
enum { N_ORDERS = 9 };

static void count_orders(int count[N_ORDERS])
{
    static const char *const begins[N_ORDERS] = { "hopper_conv3_", "hopper_conv64_",     "hopper_conv_",
                                                  "conv_thin_",    "conv_point_",        "conv_few_",
                                                  "conv_fan_",     "conv_mma_f16_32x16", "conv_mma_" };

    for (int i = 0; i < N_ORDERS; i++)
        count[i] = lines(begins[i]);
    count[2] += lines("hopper_linear_"); /* the products and the order of hopper_conv */
    count[8] -= count[7];
}

/* All kernels that are tried for a layer, in pictures of many sizes, add up in the same order. */
static void one_order_at_any_size(void)
{
    static const struct {
        int k, stride, cin, cout;
    } layers[] = { { 3, 1, 24, 48 }, { 3, 1, 96, 12 }, { 3, 1, 16, 16 },   { 3, 1, 64, 3 },    { 3, 1, 3, 64 },
                   { 1, 1, 64, 4 },  { 1, 1, 4, 64 },  { 1, 1, 3, 32 },    { 1, 1, 96, 192 },  { 1, 1, 256, 16 },
                   { 2, 2, 64, 4 },  { 2, 2, 32, 64 }, { 3, 1, 320, 320 }, { 3, 1, 128, 128 }, { 3, 1, 64, 64 } };
    static const int sizes[][2] = { { 7, 5 }, { 9, 18 }, { 64, 64 }, { 200, 120 }, { 300, 301 } };

    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        int before[N_ORDERS], after[N_ORDERS], orders = 0;

        count_orders(before);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            convolve(ZN_FP16_MATH, layers[i].k, layers[i].stride, layers[i].cin, layers[i].cout, sizes[j][0],
                     sizes[j][1]);
        count_orders(after);
        for (int j = 0; j < N_ORDERS; j++)
            orders += after[j] > before[j];
        CHECK(orders == 1, "%dx%d/%d %d>%d: %d orders", layers[i].k, layers[i].k, layers[i].stride, layers[i].cin,
              layers[i].cout, orders);
    }
}

/* hopper.cu alone uses programmatic dependent launch, and only if the driver's graphs support it. */
static void dependent_launches(void)
{
    const bool old = strchr(getenv("FAKE_CUDA"), '=');

    CHECK(lines("hopper_") > 0 && lines("dependent") == (old ? 0 : lines("hopper_")), "%d of %d", lines("dependent"),
          lines("hopper_"));
}

/* A grid is at most 65535 deep. */
static void attention_of_many_pictures(void)
{
    zn_tensor q = halves(70000, 2, 2, 64), y = halves(70000, 2, 2, 64);
    const int before = lines("attention_");

    CHECK(q.data && y.data, "no memory");
    gpu->attention(dev, y, q, q, q, &(zn_attention){ .heads = 1, .kv_heads = 1, .scale = 0.125f });
    CHECK(gpu->sync(dev, NULL) == ZN_OK && lines("attention_") == before + 2, "not in two parts");
    gpu->free(dev, q.data);
    gpu->free(dev, y.data);
}

/* Short heads, long ones, and what tensor cores cannot take. */
static void kernels_of_attention(void)
{
    static const struct {
        int heads, kv_heads, dim, dim_v;
        const char *kernel;
    } cases[] = { { 8, 8, 64, 64, "attention_64_f16" },     { 8, 2, 128, 128, "attention_128_f16" },
                  { 2, 1, 40, 40, "attention_48_f16" },     { 1, 1, 512, 512, "attention_wide_f16" },
                  { 1, 1, 384, 384, "attention_wide_f16" }, { 2, 1, 64, 128, "attention_wide_f16" },
                  { 1, 1, 36, 36, "attention_plain" },      { 1, 1, 1024, 1024, "attention_wide_f16" },
                  { 1, 1, 2048, 2048, "attention_plain" } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zn_attention a = { cases[i].heads, cases[i].kv_heads, 1, true };
        zn_tensor q = halves(1, 1, 77, a.heads * cases[i].dim), y = halves(1, 1, 77, a.heads * cases[i].dim_v);
        zn_tensor k = zn_slice(q, 0, a.kv_heads * cases[i].dim), v = zn_slice(y, 0, a.kv_heads * cases[i].dim_v);
        const int before = lines(cases[i].kernel), all = lines("attention_");

        gpu->attention(dev, y, q, k, v, &a);
        CHECK(gpu->sync(dev, NULL) == ZN_OK, "refused");
        CHECK(lines(cases[i].kernel) == before + 1 && lines("attention_") == all + 1, "heads of %d: not %s",
              cases[i].dim, cases[i].kernel);
        gpu->free(dev, q.data);
        gpu->free(dev, y.data);
    }
}

/* A kernel with a grid-wide barrier is launched cooperatively, with at most one block per multiprocessor. */
static void group_norms(void)
{
    static const struct {
        int n, h, w, c, groups, launches;
    } cases[] = { { 1, 64, 64, 320, 32, 1 },  { 1, 1024, 1024, 64, 8, 1 }, { 2, 64, 64, 320, 32, 1 },
                  { 5, 512, 512, 64, 32, 5 }, { 40, 8, 8, 512, 32, 3 },    { 1, 3, 3, 4096, 128, 1 },
                  { 1, 9, 9, 4104, 1, 0 },    { 1, 9, 9, 256, 256, 0 },    { 1, 9, 9, 12, 4, 0 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zn_tensor x = halves(cases[i].n, cases[i].h, cases[i].w, cases[i].c);
        const zn_norm w = { .kind = ZN_GROUP_NORM, .c = x.c, .groups = cases[i].groups };
        const int before = lines("group_norm_f16"), cooperative = lines("cooperative"), apart = lines("group_apply_");

        gpu->norm(dev, x, x, &w, NULL, (zn_tail){ 0 });
        CHECK(gpu->sync(dev, NULL) == ZN_OK, "refused");
        CHECK(lines("group_norm_f16") - before == cases[i].launches &&
                  lines("cooperative") - cooperative == cases[i].launches &&
                  (lines("group_apply_") > apart) == !cases[i].launches,
              "%dx%dx%dx%d", x.n, x.h, x.w, x.c);
        gpu->free(dev, x.data);
    }
}

/* An activation alone is known to the kernel before it begins; any other tail has a kernel of its own. */
static void group_norms_with_tails(void)
{
    static const struct {
        zn_tail t;
        bool residual, known;
    } cases[] = { { { .pre = ZN_SILU }, false, true },
                  { { .post = ZN_RELU, .gain = 2 }, false, true },
                  { { .pre = ZN_RELU, .gain = 2 }, false, false },
                  { { .pre = ZN_RELU, .post = ZN_SILU }, false, false },
                  { { .post = ZN_TANH }, false, false },
                  { { .post = ZN_RELU }, true, false } };
    const zn_norm w = { .kind = ZN_GROUP_NORM, .c = 64, .groups = 32 };
    zn_tensor x = halves(1, 32, 32, 64);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int known = lines("group_norm_f16"), any = lines("group_norm_any_f16");
        zn_tail t = cases[i].t;

        t.residual = cases[i].residual ? &x : NULL;
        gpu->norm(dev, x, x, &w, NULL, t);
        CHECK(gpu->sync(dev, NULL) == ZN_OK, "refused");
        CHECK(lines("group_norm_f16") - known == cases[i].known && lines("group_norm_any_f16") - any == !cases[i].known,
              "tail %zu", i);
    }
    gpu->free(dev, x.data);
}

/* With run-time scale, shift and gate it is still one kernel, unless they are at odd addresses. */
static void adaptive_group_norms(void)
{
    const zn_norm w = { .kind = ZN_GROUP_NORM, .c = 64, .groups = 32 };
    zn_tensor x = halves(2, 32, 32, 64), vectors = halves(2, 1, 1, 200);

    for (int odd = 0; odd < 2; odd++) {
        const zn_modulation m = { zn_slice(vectors, 0, 64), zn_slice(vectors, 64 + odd, 64), { 0 } };
        const int fast = lines("group_norm_f16"), slow = lines("group_apply_");

        gpu->norm(dev, x, x, &w, &m, (zn_tail){ .pre = ZN_SILU });
        CHECK(gpu->sync(dev, NULL) == ZN_OK, "refused");
        CHECK(lines("group_norm_f16") - fast == !odd && lines("group_apply_") - slow == odd, "%s",
              odd ? "odd" : "even");
    }
    gpu->free(dev, x.data);
    gpu->free(dev, vectors.data);
}

/* A card that may drive a screen, of 10 multiprocessors: 4e10 multiply-adds a launch. */
static void short_launches(void)
{
    const zn_attention a = { 8, 8, 1, false };
    const int convs = lines("conv_mma_f16"), attentions = lines("attention_64_f16");
    zn_error err = { "" };
    zn_tensor x;

    CHECK(!gpu->open(&dev, 1, &err), "%s", err.text);
    convolve(ZN_FP16_MATH, 3, 1, 128, 128, 1024, 1024); /* 1.5e11 */
    CHECK(lines("conv_mma_f16") - convs == 5, "%d launches of a convolution", lines("conv_mma_f16") - convs);
    x = halves(1, 1, 16384, 512); /* 2.7e11 */
    gpu->attention(dev, x, x, x, x, &a);
    CHECK(lines("attention_64_f16") - attentions == 8, "%d launches of attention",
          lines("attention_64_f16") - attentions);
    CHECK(gpu->sync(dev, NULL) == ZN_OK, "refused");
    gpu->free(dev, x.data);
    gpu->close(dev);
}

static int on_hopper(void)
{
    zn_error err = { "" };

    if (gpu->open(&dev, 0, &err) || !gpu->has_precision(dev, ZN_FP8_MATH)) {
        printf("not ok hopper: %s\n", dev ? "it has no fp8" : err.text);
        return 1;
    }
    RUN(one_copy_of_weights);
    RUN(weights_as_stored);
    RUN(quantised_weights);
    RUN(row_scales);
    RUN(threads_pack_alike);
    RUN(second_results);
    RUN(many_pixels);
    RUN(fp8_at_any_size);
    RUN(one_order_at_any_size);
    RUN(attention_of_many_pictures);
    RUN(kernels_of_attention);
    RUN(group_norms);
    RUN(group_norms_with_tails);
    RUN(adaptive_group_norms);
    RUN(dependent_launches);
    gpu->close(dev);
    return test_end();
}

int main(int argc, char **argv)
{
    zn_error err = { "" };

    log_path = argc > 1 ? argv[1] : "";
    if (getenv("FAKE_CUDA") && !strncmp(getenv("FAKE_CUDA"), "hopper", 6))
        return on_hopper();
    if (zn_engine_open(&engine, "cuda", 0, &err)) {
        printf("not ok cuda: %s\n", err.text);
        return 1;
    }
    if (getenv("FAKE_CUDA") && !strncmp(getenv("FAKE_CUDA"), "lost", 4)) {
        RUN(lost_in_threads);
    } else {
        RUN(a_part_is_no_forward);
        RUN(beside_others);
        RUN(short_launches);
    }
    zn_engine_close(&engine);
    return test_end();
}
