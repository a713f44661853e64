/* SPDX-License-Identifier: MIT */
/* test_real.c - published weights on real photographs: the taef2 pair on Kodak pictures goes round with the
 * quality that the reference framework gives, to 0.02 dB; skips where the data is absent.  The shipped upscalers on the samples,
 * in the precision that `auto` chooses: one level and 0.02 dB from fp32. */
#include "../unit/test.h"

#include "zenith.h"

#include <gegl.h>
#include <math.h>
#include <stdlib.h>

enum { SIDE = 496 };

static const struct {
    int number;
    double db; /* PyTorch, float32, output clamped to 0..1 */
} kodak[] = { { 1, 26.70 }, { 5, 27.51 }, { 9, 33.31 }, { 13, 23.56 }, { 17, 31.66 }, { 21, 28.72 } };

static const char *data_dir(void)
{
    const char *env = getenv("ZENITH_SHARED_DATA");

    return env && *env ? env : ZN_SOURCE_ROOT "/../shared/data";
}

static bool load_picture(float *rgb, const char *path, int side)
{
    GeglBuffer *buffer = NULL;
    GeglNode *graph = gegl_node_new();
    GeglNode *load = gegl_node_new_child(graph, "operation", "gegl:load", "path", path, NULL);
    GeglNode *sink = gegl_node_new_child(graph, "operation", "gegl:buffer-sink", "buffer", &buffer, NULL);

    gegl_node_link(load, sink);
    gegl_node_process(sink);
    g_object_unref(graph);
    if (!buffer)
        return false;
    gegl_buffer_get(buffer, GEGL_RECTANGLE(0, 0, side, side), 1.0, babl_format("R'G'B' float"), rgb,
                    GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
    g_object_unref(buffer);
    return true;
}

static zn_model *enc, *dec;
static int current;

static void kodak_round_trip(void)
{
    zn_array x = { malloc(SIDE * SIDE * 3 * sizeof(float)), SIDE, SIDE, 3 }, z = { 0 }, y = { 0 };
    char path[1024];
    double sum = 0, db;
    zn_error err = { "" };

    snprintf(path, sizeof path, "%s/testsets/Kodak24/kodim%02d.png", data_dir(), kodak[current].number);
    CHECK(load_picture(x.data, path, SIDE), "%s cannot be read", path);
    CHECK(!zn_model_shape(enc, &x, 1, &z, &err), "%s", err.text);
    z.data = malloc(zn_array_len(&z) * sizeof(float));
    CHECK(!zn_model_run(enc, &x, 1, &z, NULL, &err), "%s", err.text);
    CHECK(!zn_model_shape(dec, &z, 1, &y, &err), "%s", err.text);
    y.data = malloc(zn_array_len(&y) * sizeof(float));
    CHECK(!zn_model_run(dec, &z, 1, &y, NULL, &err), "%s", err.text);
    for (size_t i = 0; i < zn_array_len(&y); i++) {
        double v = y.data[i] < 0 ? 0 : y.data[i] > 1 ? 1 : y.data[i];

        sum += (v - x.data[i]) * (v - x.data[i]);
    }
    db = -10 * log10(sum / (double)zn_array_len(&y));
    free(x.data), free(y.data), free(z.data);
    CHECK(fabs(db - kodak[current].db) <= 0.02, "%.3f dB, the reference has %.2f", db, kodak[current].db);
    printf("# kodim%02d: %.3f dB, reference %.2f\n", kodak[current].number, db, kodak[current].db);
}

/* ---- upscalers -------------------------------------------------------------------------------------------------- */

/* The picture `rgb` with `scale` times as many pixels a side, made smaller by means. */
static zn_array smaller(const float *rgb, int side, int scale)
{
    zn_array x = { calloc((size_t)side * (size_t)side * 3, sizeof(float)), side, side, 3 };
    const int large = side * scale;

    for (int i = 0; i < large * large * 3; i++) {
        const int at = i / 3 % large / scale + i / 3 / large / scale * side;

        x.data[3 * at + i % 3] += rgb[i] / (float)(scale * scale);
    }
    return x;
}

static zn_status enlarge(zn_array *y, const char *id, const char *precision, zn_engine *engine, const zn_array *x)
{
    zn_model *m = NULL;
    zn_status s = zn_model_open(&m, engine, id, &(zn_open){ .precision = precision }, NULL);

    if (!s && !(s = zn_model_shape(m, x, 1, y, NULL))) {
        y->data = malloc(zn_array_len(y) * sizeof(float));
        s = zn_model_run(m, x, 1, y, NULL, NULL);
    }
    zn_model_close(&m);
    return s;
}

static double psnr(const float *y, const float *rgb, size_t len)
{
    double sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += pow((double)y[i] - (double)rgb[i], 2);
    return -10 * log10(sum / (double)len);
}

/* A corner of a sample, through an upscaler, in both precisions. */
static void compare_halves(zn_engine *engine, const char *id, const char *sample, int side)
{
    const int scale = id[strlen(id) - 1] - '0';
    const size_t len = (size_t)(side * scale) * (size_t)(side * scale) * 3;
    float *rgb = malloc(len * sizeof *rgb);
    zn_array x = { 0 }, full = { 0 }, half = { 0 };
    bool ok = load_picture(rgb, sample, side * scale);
    size_t beyond = 0;
    double most = 0, a = 0, b = 0;

    if (ok) {
        x = smaller(rgb, side, scale);
        ok = !enlarge(&full, id, "fp32", engine, &x) && !enlarge(&half, id, "auto", engine, &x) &&
            zn_array_len(&full) == len;
    }
    for (size_t i = 0; ok && i < len; i++) {
        const double d = 255 * fabs((double)full.data[i] - (double)half.data[i]);

        beyond += !(d <= 1);
        most = test_larger(most, d);
    }
    if (ok) {
        a = psnr(full.data, rgb, len);
        b = psnr(half.data, rgb, len);
    }
    free(rgb), free(x.data), free(full.data), free(half.data);
    CHECK(ok, "%s does not run on %s", id, sample);
    printf("# %s: %.2f levels, %zu of %zu values beyond one; %.3f dB, fp32 %.3f\n", id, most, beyond, len, b, a);
    CHECK(beyond * 2000 <= len && most <= 4, "%s: %.2f levels, %zu of %zu beyond one", id, most, beyond, len);
    CHECK(a > 20 && fabs(a - b) <= 0.02, "%s: %.3f dB, %.3f in fp32", id, b, a);
}

/* All of them in CI, else one of each size. */
static void upscalers_in_half_precision(void)
{
    static const char *const samples[] = { "astronaut", "chelsea", "coffee" };
    static const char *const ids[] = { "upscale-x2",       "upscale-small-x4", "upscale-x3",
                                       "upscale-small-x2", "upscale-x4",       "upscale-small-x3" };
    const bool all = getenv("CI");
    zn_engine *engine = NULL;
    zn_error err = { "" };

    if (INSTRUMENTED)
        SKIP("takes a minute; test_precision runs the same code");
    CHECK(!zn_engine_open(&engine, NULL, 2, &err), "%s", err.text);
    for (int i = 0; i < (all ? 6 : 2); i++)
        for (int k = 0; k < (all ? 3 : 1); k++) {
            char path[1024];

            snprintf(path, sizeof path, "%s/docs/samples/%s.png", ZN_SOURCE_ROOT, samples[(i + k) % 3]);
            compare_halves(engine, ids[i], path, all ? 72 : 48);
        }
    zn_engine_close(&engine);
}

static void absent(void)
{
    SKIP("%s is not there", data_dir());
}

int main(int argc, char **argv)
{
    char enc_path[1024], dec_path[1024];
    const char *enc_file = enc_path, *dec_file = dec_path;
    zn_engine *engine = NULL;
    zn_error err;

    gegl_init(&argc, &argv);
    setenv("ZENITH_MODELS", ZN_SOURCE_ROOT "/models", 1);
    unsetenv("ZENITH_PRECISION");
    RUN(upscalers_in_half_precision);
    snprintf(enc_path, sizeof enc_path, "%s/weights/taef2_encoder.pth", data_dir());
    snprintf(dec_path, sizeof dec_path, "%s/weights/taef2_decoder.pth", data_dir());
    if (!g_file_test(enc_path, G_FILE_TEST_EXISTS)) {
        test_run("taef2 on Kodak pictures", absent);
        return test_end();
    }
    if (zn_engine_open(&engine, "auto", 0, &err) ||
        zn_model_open(&enc, engine, "taesd-encode", &(zn_open){ .files = &enc_file, .n_files = 1 }, &err) ||
        zn_model_open(&dec, engine, "taesd-decode", &(zn_open){ .files = &dec_file, .n_files = 1 }, &err)) {
        printf("not ok open taef2: %s\n0 passed, 1 failed, 0 skipped\n", err.text);
        return 1;
    }
    for (current = 0; current < (int)(sizeof kodak / sizeof *kodak); current++) {
        char name[64];

        snprintf(name, sizeof name, "taef2 round trip of kodim%02d", kodak[current].number);
        test_run(name, kodak_round_trip);
    }
    zn_model_close(&enc);
    zn_model_close(&dec);
    zn_engine_close(&engine);
    gegl_exit();
    return test_end();
}
