/* SPDX-License-Identifier: MIT */
/* bench.c - the speed of an engine's operations, for typical shapes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static double now(void) /* seconds */
{
    return zn_now_ms() / 1e3;
}

static zn_tensor device_tensor(const zn_backend *b, void *dev, zn_type type, int h, int w, int c)
{
    zn_tensor t = { .n = 1, .h = h, .w = w, .c = c, .ld = c, .type = type };
    size_t len = zn_pixels(t) * (size_t)c;
    float *host = malloc(len * sizeof *host);
    uint16_t *half = (uint16_t *)(void *)host;

    t.data = b->alloc(dev, len * zn_type_size(type));
    if (!host || !t.data)
        abort();
    for (size_t i = 0; i < len; i++) {
        float v = (float)((i * 2654435761u) % 2048) / 1024.f - 1;

        if (type == ZN_F32)
            host[i] = v;
        else
            half[i] = type == ZN_F16 ? zn_to_f16(v) : zn_to_bf16(v);
    }
    b->upload(dev, t.data, host, len * zn_type_size(type));
    b->sync(dev, NULL);
    free(host);
    return t;
}

/* CONV_*: with weights in that storage type */
typedef enum kind {
    CONV,
    CONV_F16,
    CONV_I8,
    CONV_I4,
    LAYER_NORM,
    GROUP_NORM,
    RMS_NORM,
    ADAPTIVE,
    ATTENTION,
    CAUSAL,
    SILU,
    FWHT_C,
    FWHT_W,
    FWHT_H,
    COPY
} kind;

typedef struct bench {
    const char *name;
    int h, w, cin, cout, k, stride, groups;
    bool up2;
    kind kind;
} bench;

static zn_precision weights_of(kind k)
{
    return k == CONV_F16 ? ZN_FP16_MATH : k == CONV_I8 ? ZN_INT8_MATH : k == CONV_I4 ? ZN_INT4_MATH : ZN_FP32;
}

typedef struct bench_run {
    const zn_backend *b;
    void *dev;
    kind kind;
    zn_attention attention;
    zn_modulation modulation;
    zn_tensor x, y;
    zn_conv conv;
    zn_norm norm;
    zn_fwht fwht;
} bench_run;

static void once(const bench_run *r)
{
    zn_tail t = { .pre = r->kind == SILU || r->kind == ADAPTIVE ? ZN_SILU : r->kind == COPY ? ZN_NONE : ZN_RELU };
    zn_tensor shared = zn_slice(r->x, 0, r->x.c / r->attention.heads * r->attention.kv_heads);

    switch (r->kind) {
    case CONV:
    case CONV_F16:
    case CONV_I8:
    case CONV_I4:
        r->b->conv2d(r->dev, r->y, r->x, &r->conv, t);
        break;
    case ATTENTION:
    case CAUSAL:
        r->b->attention(r->dev, r->y, r->x, shared, shared, &r->attention);
        break;
    case SILU:
    case COPY:
        r->b->map(r->dev, r->y, r->x, t);
        break;
    case FWHT_C:
    case FWHT_W:
    case FWHT_H:
        r->b->special->fwht(r->dev, r->y, r->x, &r->fwht);
        break;
    default:
        r->b->norm(r->dev, r->y, r->x, &r->norm, r->kind == ADAPTIVE ? &r->modulation : NULL, t);
    }
}

/* Seconds of one, where n are asked for before the first is waited for. */
static double seconds(const bench_run *r, int n)
{
    double s = now();

    for (int i = 0; i < n; i++)
        once(r);
    r->b->sync(r->dev, NULL);
    return (now() - s) / n;
}

static void bench_one(const zn_backend *b, void *dev, zn_precision p, const bench *r, double peak)
{
    const zn_type type = b->tensor_type[p];
    int up = r->up2 ? 2 : 1, ho = r->h * up / r->stride, wo = r->w * up / r->stride;
    bench_run run = {
        .b = b,
        .dev = dev,
        .kind = r->kind,
        .attention = { .heads = r->groups,
                       .kv_heads = r->kind == CAUSAL ? r->groups / 4 : r->groups,
                       .scale = 0.125f,
                       .causal = r->kind == CAUSAL },
        .x = device_tensor(b, dev, type, r->h, r->w, r->cin),
        .y = device_tensor(b, dev, type, ho, wo, r->cout),
        .conv = { .kh = r->k,
                  .kw = r->k,
                  .stride = r->stride,
                  .groups = r->groups,
                  .cin = r->cin,
                  .cout = r->cout,
                  .pad_t = r->k / 2,
                  .pad_l = r->k / 2,
                  .up2 = r->up2,
                  .quantised_x = b->remote,
                  .precision = r->kind == CONV ? p : weights_of(r->kind) },
        .norm = { .kind = r->kind == LAYER_NORM ? ZN_LAYER_NORM
                      : r->kind == RMS_NORM     ? ZN_RMS_NORM
                                                : ZN_GROUP_NORM,
                  .c = r->cin,
                  .groups = r->kind == ADAPTIVE ? 32 : 4,
                  .eps = 1e-5f },
        .fwht = { .axis = r->kind == FWHT_W ? ZN_ALONG_W
                      : r->kind == FWHT_H   ? ZN_ALONG_H
                                            : ZN_ALONG_C,
                  .n = r->k },
    };
    double flops = 0, best = 1e9, start, s;
    double bytes =
        (double)(zn_pixels(run.x) * (size_t)r->cin + zn_pixels(run.y) * (size_t)r->cout) * (double)zn_type_size(type);
    int n = 1;

    if (r->kind <= CONV_I4) {
        size_t len = (size_t)r->cout * (size_t)(r->cin / r->groups * r->k * r->k);
        float *weight = malloc(len * sizeof *weight);

        if (!weight)
            abort();
        for (size_t i = 0; i < len; i++)
            weight[i] = (float)(i % 17) / 17.f - 0.5f;
        run.conv.packed = b->alloc(dev, b->conv_size(dev, &run.conv));
        b->conv_pack(dev, &run.conv, weight, NULL);
        free(weight);
        flops = 2.0 * ho * wo * (double)len;
    } else if (r->kind == ATTENTION || r->kind == CAUSAL) {
        flops = 4.0 * r->h * r->w * r->h * r->w * r->cin / (r->kind == CAUSAL ? 2 : 1);
    } else if (r->kind == ADAPTIVE) {
        run.modulation.scale = run.modulation.shift = run.modulation.gate = device_tensor(b, dev, type, 1, 1, r->cin);
    }
    seconds(&run, 1); /* a GPU picks its kernels now */
    s = seconds(&run, 1);
    if (b->remote) /* enough in a row for the launches not to count */
        n = (int)fmin(200, fmax(10, 5e-3 / s));
    start = now();
    for (int i = 0; i < 3 || now() - start < 0.2; i++) {
        best = fmin(best, seconds(&run, n));
        if (now() - start > 5)
            break;
    }
    if (flops > 0)
        printf("  %-38s %9.4f ms %9.1f GFLOP/s  %5.1f %% of peak\n", r->name, best * 1e3, flops / best * 1e-9,
               100 * flops / best * 1e-9 / peak);
    else
        printf("  %-38s %9.4f ms %9.1f GB/s\n", r->name, best * 1e3, bytes / best * 1e-9);
    b->free(dev, run.conv.packed);
    b->free(dev, run.modulation.scale.data);
    b->free(dev, run.x.data);
    b->free(dev, run.y.data);
}

static const bench cpu_rows[] = {
    { "conv 3x3 64>64 128x128", 128, 128, 64, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 64>64 512x512", 512, 512, 64, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 128>128 128x128", 128, 128, 128, 128, 3, 1, 1, false, CONV },
    { "conv 3x3 256>256 64x64", 64, 64, 256, 256, 3, 1, 1, false, CONV },
    { "conv 3x3 32>32 256x256", 256, 256, 32, 32, 3, 1, 1, false, CONV },
    { "conv 3x3 64>64 up2 from 256x256", 256, 256, 64, 64, 3, 1, 1, true, CONV },
    { "conv 3x3 64>64 stride 2 512x512", 512, 512, 64, 64, 3, 2, 1, false, CONV },
    { "conv 3x3 3>64 512x512", 512, 512, 3, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 64>3 512x512", 512, 512, 64, 3, 3, 1, 1, false, CONV },
    { "conv 1x1 64>128 128x128", 128, 128, 64, 128, 1, 1, 1, false, CONV },
    { "linear 1024>1024 256 tokens", 1, 256, 1024, 1024, 1, 1, 1, false, CONV },
    { "conv 3x3 128>128 256x256", 256, 256, 128, 128, 3, 1, 1, false, CONV },
    { "conv 3x3 256>256 32x32", 32, 32, 256, 256, 3, 1, 1, false, CONV },
    { "conv 3x3 512>256 32x32", 32, 32, 512, 256, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 16x16", 16, 16, 512, 512, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 8x8", 8, 8, 512, 512, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 16x16, weights in int8", 16, 16, 512, 512, 3, 1, 1, false, CONV_I8 },
    { "conv 1x1 256>128 256x256", 256, 256, 256, 128, 1, 1, 1, false, CONV },
    { "conv 1x1 512>1536 16x16", 16, 16, 512, 1536, 1, 1, 1, false, CONV },
    { "linear 2560>2560 1 token", 1, 1, 2560, 2560, 1, 1, 1, false, CONV },
    { "linear 2560>2560 1 token, fp16", 1, 1, 2560, 2560, 1, 1, 1, false, CONV_F16 },
    { "linear 2560>2560 1 token, int8", 1, 1, 2560, 2560, 1, 1, 1, false, CONV_I8 },
    { "linear 2560>2560 1 token, int4", 1, 1, 2560, 2560, 1, 1, 1, false, CONV_I4 },
    { "linear 2560>2560 32 tokens", 1, 32, 2560, 2560, 1, 1, 1, false, CONV },
    { "linear 2560>2560 32 tokens, int4", 1, 32, 2560, 2560, 1, 1, 1, false, CONV_I4 },
    { "linear 2560>2560 256 tokens", 1, 256, 2560, 2560, 1, 1, 1, false, CONV },
    { "linear 2560>2560 256 tokens, int8", 1, 256, 2560, 2560, 1, 1, 1, false, CONV_I8 },
    { "linear 2560>2560 256 tokens, int4", 1, 256, 2560, 2560, 1, 1, 1, false, CONV_I4 },
    { "depthwise 3x3 128 128x128", 128, 128, 128, 128, 3, 1, 128, false, CONV },
    { "depthwise 7x7 128 128x128", 128, 128, 128, 128, 7, 1, 128, false, CONV },
    { "layer norm 256, 128x128", 128, 128, 256, 256, 1, 1, 1, false, LAYER_NORM },
    { "group norm 256, 128x128", 128, 128, 256, 256, 1, 1, 1, false, GROUP_NORM },
    { "silu 256, 64x64", 64, 64, 256, 256, 1, 1, 1, false, SILU },
    { "silu 64, 256x256", 256, 256, 64, 64, 1, 1, 1, false, SILU },
    { "adaptive group norm silu 128, 256x256", 256, 256, 128, 128, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 256, 64x64", 64, 64, 256, 256, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 512, 16x16", 16, 16, 512, 512, 1, 1, 1, false, ADAPTIVE },
    { "attention 1024 tokens, 8 x 64", 32, 32, 512, 512, 1, 1, 8, false, ATTENTION },
    { "attention 256 tokens, 1 x 512", 16, 16, 512, 512, 1, 1, 1, false, ATTENTION },
    { "attention 4096 tokens, 1 x 384", 64, 64, 384, 384, 1, 1, 1, false, ATTENTION },
    { "attention 512 tokens, causal, 32 x 128", 1, 512, 4096, 4096, 1, 1, 32, false, CAUSAL },
};

/* Tensors of the memory-bound ones are larger than a GPU's cache, or else of a size that networks have. */
static const bench gpu_rows[] = {
    { "conv 3x3 64>64 512x512", 512, 512, 64, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 128>128 256x256", 256, 256, 128, 128, 3, 1, 1, false, CONV },
    { "conv 3x3 320>320 64x64", 64, 64, 320, 320, 3, 1, 1, false, CONV },
    { "conv 3x3 64>64 up2 from 256x256", 256, 256, 64, 64, 3, 1, 1, true, CONV },
    { "conv 3x3 64>64 stride 2 512x512", 512, 512, 64, 64, 3, 2, 1, false, CONV },
    { "conv 3x3 3>64 512x512", 512, 512, 3, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 64>3 512x512", 512, 512, 64, 3, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 128x128", 128, 128, 512, 512, 3, 1, 1, false, CONV },
    { "matrix product 4096^3", 1, 4096, 4096, 4096, 1, 1, 1, false, CONV },
    { "matrix product 8192^3", 1, 8192, 8192, 8192, 1, 1, 1, false, CONV },
    { "linear 3840>3840 4096 tokens", 1, 4096, 3840, 3840, 1, 1, 1, false, CONV },
    { "linear 3840>10240 1024 tokens", 1, 1024, 3840, 10240, 1, 1, 1, false, CONV },
    { "linear 2560>9728 32 tokens", 1, 32, 2560, 9728, 1, 1, 1, false, CONV },
    { "depthwise 3x3 128 1024x1024", 1024, 1024, 128, 128, 3, 1, 128, false, CONV },
    { "attention 4096 tokens, 16 x 128", 64, 64, 2048, 2048, 1, 1, 16, false, ATTENTION },
    { "attention 4096 tokens, 8 x 64", 64, 64, 512, 512, 1, 1, 8, false, ATTENTION },
    { "attention 256 tokens, 1 x 512", 16, 16, 512, 512, 1, 1, 1, false, ATTENTION },
    { "attention 4096 tokens, 1 x 384", 64, 64, 384, 384, 1, 1, 1, false, ATTENTION },
    { "attention 4096 tokens, 1 x 512", 64, 64, 512, 512, 1, 1, 1, false, ATTENTION },
    { "attention 512 tokens, causal, 32 x 128", 1, 512, 4096, 4096, 1, 1, 32, false, CAUSAL },
    { "attention 65536 tokens, 2 x 64", 256, 256, 128, 128, 1, 1, 2, false, ATTENTION },
    { "copy 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, COPY },
    { "silu 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, SILU },
    { "layer norm 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, LAYER_NORM },
    { "rms norm 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, RMS_NORM },
    { "group norm 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, GROUP_NORM },
    { "copy 128, 512x512", 512, 512, 128, 128, 1, 1, 1, false, COPY },
    { "group norm 128, 512x512", 512, 512, 128, 128, 1, 1, 1, false, GROUP_NORM },
    { "group norm 320, 64x64", 64, 64, 320, 320, 1, 1, 1, false, GROUP_NORM },
    { "group norm 1280, 32x32", 32, 32, 1280, 1280, 1, 1, 1, false, GROUP_NORM },
    { "adaptive group norm silu 128, 512x512", 512, 512, 128, 128, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 128, 256x256", 256, 256, 128, 128, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 512, 16x16", 16, 16, 512, 512, 1, 1, 1, false, ADAPTIVE },
    { "fwht of 256 channels, 1024x1024", 1024, 1024, 256, 256, 256, 1, 1, false, FWHT_C },
    { "fwht of 16 columns, 256, 1024x1024", 1024, 1024, 256, 256, 16, 1, 1, false, FWHT_W },
    { "fwht of 16 rows, 256, 1024x1024", 1024, 1024, 256, 256, 16, 1, 1, false, FWHT_H },
    { "fwht of 1024 rows, 256, 1024x1024", 1024, 1024, 256, 256, 1024, 1, 1, false, FWHT_H },
};

static void bench_rows(const options *o, const zn_backend *b, void *dev, zn_precision p, bool convolutions)
{
    bool gpu = b->remote;
    const bench *rows = gpu ? gpu_rows : cpu_rows;
    size_t n_rows = gpu ? sizeof gpu_rows / sizeof *gpu_rows : sizeof cpu_rows / sizeof *cpu_rows;
    double peak = b->peak(dev, p);

    printf("%s, %s, %d threads: peak %.1f GFLOP/s\n", b->name, zn_precision_names[p], b->threads(dev), peak);
    for (size_t i = 0; i < n_rows; i++)
        if (strstr(rows[i].name, o->only) &&
            (!convolutions || (rows[i].kind == CONV && rows[i].groups == 1 && rows[i].cin >= 128)))
            bench_one(b, dev, p, &rows[i], peak);
}

void check_bench(const options *o, const zn_backend *b)
{
    zn_error err;
    void *dev;

    if (b->open(&dev, o->threads, &err)) {
        printf("skip %s: %s\n", b->name, err.text);
        return;
    }
    if (!b->has_precision(dev, o->precision)) {
        printf("skip %s: it has no %s\n", b->name, zn_precision_names[o->precision]);
        b->close(dev);
        return;
    }
    bench_rows(o, b, dev, o->precision, false);
    if (o->precision == ZN_FP16_MATH && b->has_precision(dev, ZN_FP8_MATH)) {
        bench_rows(o, b, dev, ZN_FP8_MATH, true);
    }
    b->close(dev);
}
