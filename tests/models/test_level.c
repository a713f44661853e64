/* SPDX-License-Identifier: MIT */
/* test_level.c - the noise that denoisers measure for themselves, with denoise-level and the shipped denoise-fast: what it is worth on
 * made-up pictures, that it is local, and what happens without it.  Where denoise-level is not shipped, one of few steps stands in. */
#include "../unit/test.h"

#include "zenith.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODELS ZN_SOURCE_ROOT "/models"
#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden"

enum { W = 640, H = 480, LEN = W * H * 3 };

static zn_engine *engine;
static zn_model *model; /* denoise-fast, which has denoise-level */

/* ---- pictures ---------------------------------------------------------------------------------------- */

typedef struct picture {
    float *rgb;
    bool fails;
} picture;

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    const picture *p = cookie;

    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)(y * r.w * 3), p->rgb + (size_t)(((r.y + y) * W + r.x) * 3),
               (size_t)(r.w * 3) * sizeof(float));
    return !p->fails;
}

static zn_source source_of(picture *p)
{
    return (zn_source){ W, H, 3, read_picture, p };
}

/* Waves, an edge and stripes, with white noise of this deviation of 255, as a file of 8 bits holds them. */
static picture scene(float sigma)
{
    picture p = { malloc(LEN * sizeof(float)), false };
    float *noise = malloc(LEN * sizeof(float));

    zn_noise_fill(noise, LEN, 1, 0);
    for (int i = 0; i < LEN; i++) {
        const int c = i % 3, x = i / 3 % W, y = i / 3 / W;
        float v = 0.5f + 0.2f * sinf((float)x * 0.011f + (float)c) * cosf((float)y * 0.017f);

        if ((x / 90 + y / 70) % 2)
            v += 0.1f * sinf((float)x * 0.45f + (float)y * 0.35f);
        if (x * 2 + y > W)
            v -= 0.15f;
        v += sigma / 255 * noise[i];
        p.rgb[i] = rintf(fminf(fmaxf(v, 0), 1) * 255) / 255;
    }
    free(noise);
    return p;
}

static float at(const picture *p, int x, int y, int c)
{
    return p->rgb[(y * W + x) * 3 + c];
}

/* What a user does to a part of a picture: returns the rectangle outside of which nothing changed. */
static zn_rect blur(picture *p)
{
    const zn_rect r = { 300, 200, 50, 50 };
    float *old = malloc(LEN * sizeof(float));

    memcpy(old, p->rgb, LEN * sizeof(float));
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            for (int c = 0; c < 3; c++) {
                float sum = 0;

                for (int k = 0; k < 81; k++)
                    sum += old[((y + k / 9 - 4) * W + x + k % 9 - 4) * 3 + c];
                p->rgb[(y * W + x) * 3 + c] = sum / 81;
            }
    free(old);
    return r;
}

static zn_rect denoise(picture *p)
{
    const zn_rect r = { 96, 120, 150, 130 };
    picture clean = scene(0);

    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            for (int c = 0; c < 3; c++)
                p->rgb[(y * W + x) * 3 + c] = at(&clean, x, y, c) + 0.1f * (at(p, x, y, c) - at(&clean, x, y, c));
    free(clean.rgb);
    return r;
}

/* A border of 20 pixels on all sides: what is inside it did not change. */
static zn_rect border(picture *p)
{
    for (int i = 0; i < LEN; i++) {
        const int x = i / 3 % W, y = i / 3 / W;

        if (x < 20 || y < 20 || x >= W - 20 || y >= H - 20)
            p->rgb[i] = 0.85f;
    }
    return (zn_rect){ 20, 20, W - 40, H - 40 };
}

static zn_status run(const picture *p, const char *set, float *out, zn_error *err)
{
    zn_array x = { p->rgb, H, W, 3 }, y = { out, H, W, 3 };
    zn_job job = { .set = &set, .n_set = set != NULL };

    return zn_model_run(model, &x, 1, &y, &job, err);
}

static double psnr(const float *a, const float *b)
{
    double sum = 0;

    for (int i = 0; i < LEN; i++)
        sum += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
    return -10 * log10(sum / LEN);
}

/* ---- tests -------------------------------------------------------------------------------------------- */

static void white_noise_is_found(void)
{
    static const float levels[] = { 5, 10, 25, 50 };
    float last = 0;

    for (int i = 0; i < 4; i++) {
        picture p = scene(levels[i]);
        zn_source src = source_of(&p);
        zn_error err = { "" };
        float s[3];

        CHECK(!zn_noise_levels(s, model, &src, &err), "%s", err.text);
        free(p.rgb);
        for (int c = 0; c < 3; c++)
            CHECK(fabsf(s[c] / levels[i] - 1) < 0.25f, "%g: %g %g %g", (double)levels[i], (double)s[0], (double)s[1],
                  (double)s[2]);
        CHECK(s[1] > last, "%g is not more than the one before", (double)s[1]);
        last = s[1];
    }
}

static void clean_pictures_stay_clean(void)
{
    picture p = scene(0);
    zn_source src = source_of(&p);
    float *out = malloc(LEN * sizeof(float)), s[3];
    zn_error err = { "" };

    CHECK(!zn_noise_levels(s, model, &src, &err), "%s", err.text);
    CHECK(s[0] < 2 && s[1] < 2 && s[2] < 2, "%g %g %g", (double)s[0], (double)s[1], (double)s[2]);
    CHECK(!run(&p, NULL, out, &err), "%s", err.text);
    CHECK(psnr(p.rgb, out) > 45, "changed to %.1f dB", psnr(p.rgb, out));
    free(p.rgb), free(out);
}

/* A part that has less noise leaves the rest as it is, further away than the networks see; and the median is nearly the same.  (Blocks
 * inside the kernels hand rounding errors on a little further.) */
static void a_part_does_not_change_the_rest(void)
{
    zn_rect (*const parts[])(picture *) = { blur, denoise, border };
    const int far = zn_model_geometry(model)->halo + zn_model_level_reach(model);
    picture before = scene(20);
    float *a = malloc(LEN * sizeof(float)), *b = malloc(LEN * sizeof(float)), s[3], t[3];
    zn_source src = source_of(&before);
    zn_error err = { "" };

    CHECK(!zn_noise_levels(s, model, &src, &err) && !run(&before, NULL, a, &err), "%s", err.text);
    for (int i = 0; i < 3; i++) {
        picture p = scene(20);
        const zn_rect r = parts[i](&p);
        int n = 0;

        src = source_of(&p);
        CHECK(!zn_noise_levels(t, model, &src, &err) && !run(&p, NULL, b, &err), "%s", err.text);
        for (int c = 0; c < 3; c++)
            CHECK(fabsf(t[c] / s[c] - 1) < 0.1f, "part %d: %g became %g", i, (double)s[c], (double)t[c]);
        for (int k = 0; k < LEN; k++) {
            const int x = k / 3 % W, y = k / 3 / W;
            const bool rest = parts[i] == border
                ? x >= r.x + far && y >= r.y + far && x < r.x + r.w - far && y < r.y + r.h - far
                : x < r.x - far || y < r.y - far || x >= r.x + r.w + far || y >= r.y + r.h + far;

            n += rest;
            CHECK(!rest || fabsf(a[k] - b[k]) < 1e-5f, "part %d, pixel %d,%d: %g became %g", i, x, y, (double)a[k],
                  (double)b[k]);
        }
        CHECK(n > 1000, "part %d: nothing was compared", i);
        free(p.rgb);
    }
    free(before.rgb), free(a), free(b);
}

/* A level that is given is used, and none is measured. */
static void a_given_level_counts(void)
{
    picture p = scene(20);
    float *a = malloc(LEN * sizeof(float)), *b = malloc(LEN * sizeof(float)), *map = malloc(LEN * sizeof(float));
    zn_array in[2] = { { p.rgb, H, W, 3 }, { map, H, W, 3 } }, out = { b, H, W, 3 };
    zn_error err = { "" };

    for (int i = 0; i < LEN; i++)
        map[i] = 40 / 255.0f;
    CHECK(!run(&p, "sigma=40", a, &err), "%s", err.text);
    CHECK(!zn_model_run(model, in, 2, &out, NULL, &err), "%s", err.text);
    CHECK(psnr(a, b) > 100, "sigma and a map of it differ: %.1f dB", psnr(a, b));
    CHECK(!run(&p, NULL, b, &err), "%s", err.text);
    CHECK(psnr(a, b) < 60, "twice the level changes nothing: %.1f dB", psnr(a, b));
    free(p.rgb), free(a), free(b), free(map);
}

/* Twice the measured level is another result, and nothing else than twice the map: of a picture without detail, whose level is nearly
 * the same everywhere, nearly that of twice the median. */
static void a_factor_of_the_level(void)
{
    picture p = scene(20);
    float *once = malloc(LEN * sizeof(float)), *twice = malloc(LEN * sizeof(float)),
          *told = malloc(LEN * sizeof(float));
    zn_source src = source_of(&p);
    zn_error err = { "" };
    char set[32];
    float s[3];

    CHECK(!zn_noise_levels(s, model, &src, &err), "%s", err.text);
    snprintf(set, sizeof set, "sigma=%.3f", 2 * (double)s[1]);
    CHECK(!run(&p, NULL, once, &err) && !run(&p, "sigma-scale=2", twice, &err) && !run(&p, set, told, &err), "%s",
          err.text);
    CHECK(psnr(twice, told) > psnr(once, told) + 3, "%.1f dB from twice the median, %.1f without the factor",
          psnr(twice, told), psnr(once, told));
    CHECK(!run(&p, "sigma-scale=1", twice, &err) && !memcmp(once, twice, LEN * sizeof(float)), "a factor of 1 counts");
    free(p.rgb), free(once), free(twice), free(told);
}

static void a_read_that_fails(void)
{
    picture p = scene(5);
    zn_source src = source_of(&p);
    zn_error err = { "" };
    float s[3];

    p.fails = true;
    CHECK(zn_noise_levels(s, model, &src, &err) == ZN_E_FILE && s[0] == 0, "%g, '%s'", (double)s[0], err.text);
    CHECK(strstr(err.text, "could not be read"), "'%s'", err.text);
    free(p.rgb);
}

/* Opens denoise-fast where these folders are the only ones. */
static zn_status open_with(zn_model **m, const char *folder, zn_error *err)
{
    const char *file = MODELS "/denoise-fast.safetensors";

    setenv("ZENITH_MODELS", folder, 1);
    return zn_model_open(m, engine, "denoise-fast", &(zn_open){ .files = &file, .n_files = 1 }, err);
}

static void without_the_estimator(void)
{
    picture p = scene(20);
    zn_source src = source_of(&p);
    zn_model *m = NULL;
    zn_error err = { "" };
    float s[3], t[3];

    CHECK(!open_with(&m, "/nowhere", &err), "%s", err.text);
    CHECK(zn_model_level_reach(m) == 0, "reach %d", zn_model_level_reach(m));
    CHECK(!zn_noise_levels(s, m, &src, &err) && !zn_noise_estimate(t, &src, &err), "%s", err.text);
    CHECK(!memcmp(s, t, sizeof s), "%g, not %g", (double)s[0], (double)t[0]);
    zn_model_close(&m);
    free(p.rgb);
}

static void a_broken_estimator(void)
{
    char folder[] = "/tmp/zenith-level-XXXXXX", path[64];
    zn_model *m = NULL;
    zn_error err = { "" };
    zn_status s;
    FILE *f;

    CHECK(mkdtemp(folder), "no folder");
    snprintf(path, sizeof path, "%s/denoise-level.safetensors", folder);
    f = fopen(path, "wb");
    CHECK(f && fputs("not weights at all", f) >= 0 && !fclose(f), "no file");
    s = open_with(&m, folder, &err);
    remove(path);
    rmdir(folder);
    CHECK(s == ZN_E_FILE && strstr(err.text, "denoise-level"), "%d, '%s'", (int)s, err.text);
}

int main(void)
{
    zn_error err = { "" };

    setenv("XDG_DATA_HOME", "/nowhere", 1);
    if (zn_engine_open(&engine, NULL, 0, &err) ||
        open_with(&model, access(MODELS "/denoise-level.safetensors", R_OK) ? GOLDEN : MODELS, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (!zn_model_level_reach(model)) {
        fprintf(stderr, "denoise-level was not found\n");
        return 1;
    }
    test_run("white noise is found", white_noise_is_found);
    test_run("clean pictures stay clean", clean_pictures_stay_clean);
    if (!INSTRUMENTED) { /* many runs of a denoiser, which read what the others read */
        test_run("a part does not change the rest", a_part_does_not_change_the_rest);
        test_run("a given level counts", a_given_level_counts);
        test_run("a factor of the level", a_factor_of_the_level);
    }
    test_run("a read that fails", a_read_that_fails);
    test_run("without the estimator", without_the_estimator);
    test_run("a broken estimator", a_broken_estimator);
    zn_model_close(&model);
    zn_engine_close(&engine);
    return test_end();
}
