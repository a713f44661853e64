/* SPDX-License-Identifier: MIT */
/* test_real.c - published weights on real photographs: the taef2 pair on Kodak pictures goes round with the
 * quality that the reference framework gives, to 0.02 dB; skips where the data is absent.  The shipped upscalers on the samples,
 * in the precision that `auto` chooses: one level and 0.02 dB from fp32; so the smaller denoisers, on 54 photographs. */
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

/* A square of the picture: its corner, or its middle. */
static bool load_square(float *rgb, const char *path, int side, bool middle)
{
    GeglBuffer *buffer = NULL;
    GeglNode *graph = gegl_node_new();
    GeglNode *load = gegl_node_new_child(graph, "operation", "gegl:load", "path", path, NULL);
    GeglNode *sink = gegl_node_new_child(graph, "operation", "gegl:buffer-sink", "buffer", &buffer, NULL);
    int x = 0, y = 0;

    gegl_node_link(load, sink);
    gegl_node_process(sink);
    g_object_unref(graph);
    if (!buffer)
        return false;
    if (middle) {
        x = (gegl_buffer_get_width(buffer) - side) / 2;
        y = (gegl_buffer_get_height(buffer) - side) / 2;
    }
    gegl_buffer_get(buffer, GEGL_RECTANGLE(x, y, side, side), 1.0, babl_format("R'G'B' float"), rgb,
                    GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
    g_object_unref(buffer);
    return x >= 0 && y >= 0;
}

static bool load_picture(float *rgb, const char *path, int side)
{
    return load_square(rgb, path, side, false);
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

/* ---- denoisers -------------------------------------------------------------------------------------------------- */

enum { PART = 256, PART_LEN = PART * PART * 3 };

static float part[PART_LEN], clean_part[PART_LEN], in_half[PART_LEN], in_full[PART_LEN];

static int by_path(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, so that the noise of each is the same everywhere. */
static GPtrArray *pictures(void)
{
    static const char *const sets[] = { "Kodak24", "CC", "RNI15" };
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);

    for (int i = 0; i < 3; i++) {
        char *folder = g_build_filename(data_dir(), "testsets", sets[i], NULL);
        GDir *dir = g_dir_open(folder, 0, NULL);
        const char *name;

        while (dir && (name = g_dir_read_name(dir)))
            if (!strstr(name, "_mean"))
                g_ptr_array_add(all, g_build_filename(folder, name, NULL));
        if (dir)
            g_dir_close(dir);
        g_free(folder);
    }
    g_ptr_array_sort(all, by_path);
    return all;
}

/* Reads the middle of picture i into `part`.  Those of Kodak24 get noise; what is without it is in clean_part, if there is such a
 * thing.  Returns the level of the noise, 0: not known. */
static int read_part(const char *path, int i, bool *has_clean, bool *ok)
{
    static const int levels[] = { 10, 25, 50 };
    const bool clean = strstr(path, "Kodak24"), cc = strstr(path, "_real");

    *has_clean = clean || cc;
    *ok = load_square(part, path, PART, true);
    memcpy(clean_part, part, sizeof part);
    if (cc && *ok) {
        char **halves = g_strsplit(path, "_real", 2);
        char *mean = g_strconcat(halves[0], "_mean", halves[1], NULL);

        *ok = load_square(clean_part, mean, PART, true);
        g_free(mean);
        g_strfreev(halves);
    }
    if (!clean)
        return 0;
    zn_noise_fill(part, PART_LEN, (uint64_t)i, 0);
    for (int k = 0; k < PART_LEN; k++) {
        const float v = clean_part[k] + part[k] * (float)levels[i % 3] / 255;

        part[k] = v < 0 ? 0 : v > 1 ? 1 : v;
    }
    return levels[i % 3];
}

static zn_status denoise(float *to, zn_model *m, double sigma)
{
    const zn_value set = { "sigma", sigma };
    const zn_job job = { .set = &set, .n_set = 1 };
    const zn_array x = { part, PART, PART, 3 };
    zn_array y = { to, PART, PART, 3 };

    return zn_model_run(m, &x, 1, &y, &job, NULL);
}

/* All pictures with a model in both precisions: a level that is given, which may be far too small, or measured.  FEW of the ten
 * million values may differ by up to half a level more: the float32 of another CPU moves the worst ones by some hundredths. */
static void compare_denoiser(zn_engine *engine, const char *id, const GPtrArray *all)
{
    enum { FEW = 4 };
    const bool ci = getenv("CI");
    zn_model *full = NULL, *half = NULL;
    double most = 0, loss = 0;
    const char *worst = "";
    int differ = 0, beyond = 0;
    bool ok = !zn_model_open(&full, engine, id, &(zn_open){ .precision = "fp32" }, NULL) &&
        !zn_model_open(&half, engine, id, &(zn_open){ .precision = "auto" }, NULL);

    for (int i = 0; ok && i < (int)all->len; i++) {
        const char *path = g_ptr_array_index(all, i);
        bool has_clean;
        const int level = read_part(path, i, &has_clean, &ok);
        const double told[] = { level ? level : 8, 0, 15, 4, 2, 1 };

        for (int k = 0; ok && k < (ci ? 6 : 1); k++) {
            double here = 0;

            ok = !denoise(in_full, full, told[k]) && !denoise(in_half, half, told[k]);
            for (int j = 0; j < PART_LEN; j++) {
                const double off = 255 * fabs((double)in_full[j] - (double)in_half[j]);

                here = test_larger(here, off);
                beyond += off > 1;
            }
            if (here > most)
                worst = path;
            most = test_larger(most, here);
            differ += here > 0;
            if (has_clean)
                loss =
                    test_larger(loss, fabs(psnr(in_full, clean_part, PART_LEN) - psnr(in_half, clean_part, PART_LEN)));
        }
        if (!differ && i == 2)
            break; /* `auto` is float32 here */
    }
    zn_model_close(&full);
    zn_model_close(&half);
    CHECK(ok, "%s does not run, or a picture cannot be read", id);
    printf("# %s, %s: %.2f levels (%s), %d values beyond one, %.4f dB%s\n", zn_engine_name(engine), id, most, worst,
           beyond, loss, differ ? "" : ": auto is float32");
    CHECK(most <= 1.5 && beyond <= FEW && loss <= 0.02, "%s: %.2f levels (%s), %d values beyond one, %.4f dB", id, most,
          worst, beyond, loss);
}

/* On a CPU: test_half has the GPUs. */
static void denoisers_in_half_precision(void)
{
    zn_engine_info list[16];
    const int n = zn_engine_list(list, 16);
    GPtrArray *all = pictures();

    if (INSTRUMENTED || all->len < 44) {
        g_ptr_array_unref(all);
        SKIP("%s", INSTRUMENTED ? "takes minutes" : "there are no 44 pictures");
    }
    for (int e = 0; e < n; e++) {
        zn_engine *engine = NULL;

        if (!list[e].usable || !strcmp(list[e].name, "scalar") || zn_engine_open(&engine, list[e].name, 2, NULL))
            continue;
        if (!zn_engine_is_remote(engine)) {
            TRY(compare_denoiser(engine, "denoise-fast", all));
            TRY(compare_denoiser(engine, "denoise-balanced", all));
        }
        zn_engine_close(&engine);
    }
    g_ptr_array_unref(all);
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
        test_run("taef2 on Kodak pictures, denoisers in half precision", absent);
        return test_end();
    }
    RUN(denoisers_in_half_precision);
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
