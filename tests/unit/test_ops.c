/* SPDX-License-Identifier: MIT */
/* test_ops.c - operations as models and samplers combine them, and how their weights are bound.
 *
 * The operations themselves are tested in the self-test; here the scalar backend is enough. */
#include "../../engine/core/weightfile.h"
#include "../../engine/models/arch.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { ROOM = 1 << 20 };

static const zn_backend *const be = &zn_backend_scalar;
static void *dev;
static zn_arena arena;
static zn_ctx ctx;

static void start(void)
{
    zn_reset(&arena, 0);
    ctx = (zn_ctx){ .be = be, .dev = dev, .arena = &arena };
}

static zn_tensor with_values(zn_tensor t, const float *values)
{
    zn_upload(&ctx, t, values);
    return t;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * (1 + fabs(b));
}

/* ---- binding ---------------------------------------------------------------------------------------------- */

/* A safetensors file of float32 tensors whose elements are 0, 1, 2, ... */
static zn_weights *file_of(void **memory, const char *header, size_t elements)
{
    const size_t n = strlen(header), size = 8 + n + 4 * elements;
    unsigned char *p = calloc(1, size);
    zn_weights *w = NULL;
    zn_error err;

    if (!p)
        return NULL;
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < elements; i++)
        memcpy(p + 8 + n + 4 * i, &(float){ (float)i }, 4);
    *memory = p;
    return zn_weights_open_memory(&w, p, size, "test", &err) ? NULL : w;
}

static void close_file(zn_binder *b, zn_weights *w, void *memory)
{
    for (int i = 0; i < b->n_owned; i++)
        be->free(dev, b->owned[i]);
    free(b->owned);
    zn_weights_close(&w);
    free(memory);
}

static void test_five_dimensions(void)
{
    void *memory = NULL;
    zn_weights *w =
        file_of(&memory, "{\"time_conv\":{\"dtype\":\"F32\",\"shape\":[2,1,3,1,2],\"data_offsets\":[0,48]}}", 12);
    zn_error err;
    zn_binder b = { .w = w, .be = be, .dev = dev, .err = &err };
    float *x = w ? zn_bind_read5(&b, (int[5]){ 2, 1, 3, 1, 2 }, "time_%s", "conv") : NULL;
    const bool read = x && x[11] == 11;
    float *other = w ? zn_bind_read5(&b, (int[5]){ 2, 1, 3, 2, 1 }, "time_conv") : NULL;
    const bool refused = !other && b.status == ZN_E_FILE && strstr(err.text, "2x1x3x1x2");

    free(x);
    free(other);
    if (w)
        close_file(&b, w, memory);
    CHECK(w && read, "it was not read");
    CHECK(refused, "another shape was taken: %s", err.text);
}

static void test_norms_without_a_bias(void)
{
    static const char header[] = "{\"rms.weight\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                                 "\"gamma\":{\"dtype\":\"F32\",\"shape\":[3,1,1],\"data_offsets\":[12,24]}}";
    const zn_norm spec = { .kind = ZN_RMS_NORM, .c = 3, .eps = 1e-6f, .no_bias = true };
    void *memory = NULL;
    zn_weights *w = file_of(&memory, header, 6);
    zn_error err = { "" };
    zn_binder b = { .w = w, .be = be, .dev = dev, .err = &err };
    zn_norm rms = { 0 }, with_bias = spec;
    float *gamma = NULL;
    bool bound = false, refused = false;

    with_bias.no_bias = false;
    if (w) {
        zn_bind_norm(&b, &rms, spec, "rms");
        gamma = zn_bind_vector(&b, 3, "gamma");
        bound = !b.status && rms.gamma && rms.gamma[2] == 2 && !rms.beta && gamma && gamma[0] == 3;
        zn_bind_norm(&b, &with_bias, with_bias, "rms");
        refused = b.status == ZN_E_FILE && strstr(err.text, "rms.bias");
        close_file(&b, w, memory);
    }
    CHECK(bound, "not bound: %s", err.text);
    CHECK(refused, "a bias that is missing was not asked for");
}

/* ---- composition ------------------------------------------------------------------------------------------ */

/* Each head of each token by itself, on a reshaped view. */
static void test_norm_of_heads(void)
{
    enum { TOKENS = 3, HEADS = 2, DIM = 4 };
    float x[TOKENS * HEADS * DIM], y[TOKENS * HEADS * DIM];
    const zn_norm w = { .kind = ZN_RMS_NORM, .c = DIM, .eps = 1e-6f };
    zn_tensor t, heads;

    start();
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        x[i] = (float)(i * i % 13 + 1);
    t = with_values(zn_new(&ctx, 1, 1, TOKENS, HEADS * DIM), x);
    heads = zn_reshape(t, 1, 1, TOKENS * HEADS, DIM);
    zn_normalise(&ctx, heads, heads, &w, (zn_tail){ 0 });
    zn_download(&ctx, y, t);
    for (int h = 0; h < TOKENS * HEADS; h++) {
        double square = 0;

        for (int i = 0; i < DIM; i++)
            square += (double)x[h * DIM + i] * x[h * DIM + i] / DIM;
        for (int i = 0; i < DIM; i++)
            CHECK(near(y[h * DIM + i], x[h * DIM + i] / sqrt(square + 1e-6)), "head %d", h);
    }
}

/* heads alone: as many key and value heads, scale 1/sqrt(dim). */
static void test_defaults_of_attention(void)
{
    const float q[4] = { 1, 2, -1, 0.5f }, k[4] = { 0.5f, 1, 2, -1 }, v[4] = { 1, 10, 100, 1000 };
    float y[4];
    zn_tensor result;

    start();
    result = zn_new(&ctx, 1, 1, 2, 2);
    zn_attend(&ctx, result, with_values(zn_new(&ctx, 1, 1, 2, 2), q), with_values(zn_new(&ctx, 1, 1, 2, 2), k),
              with_values(zn_new(&ctx, 1, 1, 2, 2), v), &(zn_attention){ .heads = 1 });
    zn_download(&ctx, y, result);
    for (int i = 0; i < 2; i++) {
        double a = exp((q[2 * i] * k[0] + q[2 * i + 1] * k[1]) / sqrt(2)),
               b = exp((q[2 * i] * k[2] + q[2 * i + 1] * k[3]) / sqrt(2));

        for (int c = 0; c < 2; c++)
            CHECK(near(y[2 * i + c], (a * v[c] + b * v[2 + c]) / (a + b)), "query %d: %g", i, (double)y[2 * i + c]);
    }
}

/* A DDIM step from A to B, the prediction being the noise or v: both lead to the same x. */
static void coefficients(float c[ZN_STEP_COEFS], double a, double b, bool v)
{
    c[0] = (float)(v ? sqrt(a) : 1 / sqrt(a));
    c[1] = (float)(v ? -sqrt(1 - a) : -sqrt(1 / a - 1));
    c[2] = (float)(1 / sqrt(1 - a));
    c[3] = (float)-sqrt(a / (1 - a));
    c[4] = (float)sqrt(b);
    c[5] = (float)sqrt(1 - b);
}

/* The step's number is a tensor; its coefficients are a row of a table.  Only the number changes between steps. */
static void test_steps_of_a_sampler(void)
{
    static const double schedule[] = { 0.3, 0.6, 0.9, 1 };
    const float start_x[2] = { 0.8f, -1.9f }, noise[2] = { 0.25f, -0.5f };
    float rows[2][3][ZN_STEP_COEFS], y[2][2];
    double want[2] = { start_x[0], start_x[1] };

    start();
    for (int v = 0; v < 2; v++) {
        zn_tensor table = zn_new(&ctx, 1, 1, 3, ZN_STEP_COEFS), now = zn_new(&ctx, 1, 1, 1, ZN_STEP_COEFS);
        zn_tensor x = with_values(zn_new(&ctx, 1, 1, 1, 2), start_x), p = zn_new(&ctx, 1, 1, 1, 2);
        zn_tensor number = zn_new(&ctx, 1, 1, 1, 1), one = with_values(zn_new(&ctx, 1, 1, 1, 1), (float[]){ 1 });

        for (int k = 0; k < 3; k++)
            coefficients(rows[v][k], schedule[k], schedule[k + 1], v);
        zn_upload(&ctx, table, rows[v][0]);
        zn_upload(&ctx, number, (float[]){ 0 });
        for (int k = 0; k < 3; k++) {
            float predicted[2], before[2];

            zn_download(&ctx, before, x);
            for (int i = 0; i < 2; i++) { /* v = sqrt(A) noise - sqrt(1-A) x0 */
                double a = schedule[k], x0 = (before[i] - sqrt(1 - a) * noise[i]) / sqrt(a);

                predicted[i] = v ? (float)(sqrt(a) * noise[i] - sqrt(1 - a) * x0) : noise[i];
            }
            zn_upload(&ctx, p, predicted);
            zn_lookup(&ctx, now, table, number);
            zn_step(&ctx, x, x, p, now, 1);
            zn_combine(&ctx, number, number, one, ZN_ADD, (zn_tail){ 0 });
        }
        zn_download(&ctx, y[v], x);
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++) { /* as published: the noise is derived again from the clamped x0 */
            double a = schedule[k], b = schedule[k + 1], x0 = want[i] / sqrt(a) - sqrt(1 / a - 1) * noise[i], again;

            x0 = fmin(fmax(x0, -1), 1);
            again = (want[i] / sqrt(a) - x0) / sqrt(1 / a - 1);
            want[i] = x0 * sqrt(b) + sqrt(1 - b) * again;
        }
    for (int i = 0; i < 4; i++)
        CHECK(near(y[i / 2][i % 2], want[i % 2]), "%s: %g, not %g", i / 2 ? "v" : "noise", (double)y[i / 2][i % 2],
              want[i % 2]);
    CHECK(near(want[1], -1), "nothing was clamped");
}

/* x + d p, and a broadcast vector with a residual: x (1 + s). */
static void test_flow_and_scale(void)
{
    const float x[3] = { 1, -2, 3 }, p[3] = { 0.5f, 0.25f, -1 }, s[3] = { 0.5f, 0, -1 };
    zn_tensor t, scale, coefs;
    float y[3];

    start();
    t = with_values(zn_new(&ctx, 1, 1, 1, 3), x);
    coefs = with_values(zn_new(&ctx, 1, 1, 1, ZN_STEP_COEFS), (float[]){ 0, 1, 1, 0, -0.125f, 1 });
    zn_step(&ctx, t, t, with_values(zn_new(&ctx, 1, 1, 1, 3), p), coefs, 0);
    scale = with_values(zn_new(&ctx, 1, 1, 1, 3), s);
    zn_combine(&ctx, t, t, scale, ZN_MUL, (zn_tail){ .residual = &t });
    zn_download(&ctx, y, t);
    for (int i = 0; i < 3; i++)
        CHECK(y[i] == (x[i] - 0.125f * p[i]) * (1 + s[i]), "%g", (double)y[i]);
}

int main(void)
{
    zn_error err = { "" };

    if (be->open(&dev, 1, &err)) {
        printf("not ok scalar: %s\n", err.text);
        return 1;
    }
    arena = (zn_arena){ .base = be->alloc(dev, ROOM), .size = ROOM };
    RUN(test_five_dimensions);
    RUN(test_norms_without_a_bias);
    RUN(test_norm_of_heads);
    RUN(test_defaults_of_attention);
    RUN(test_steps_of_a_sampler);
    RUN(test_flow_and_scale);
    be->free(dev, arena.base);
    be->close(dev);
    return test_end();
}
