/* SPDX-License-Identifier: MIT */
/* test_level.c - the noise that denoisers measure, with denoise-level and the shipped denoise-fast: its accuracy on
 * synthetic pictures, that it is local, and what happens without it. */
#include "../unit/test.h"

#include "pipeline/level.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODELS ZN_SOURCE_ROOT "/models"

enum {
    W = 640,
    H = 480,
    LEN = W * H * 3,
    ROWS = INSTRUMENTED ? H / 4 : H, /* that a denoiser runs on */
};

static zn_engine *engine;
static zn_model *model; /* denoise-fast, which has denoise-level */

/* ---- pictures ---------------------------------------------------------------------------------------- */

typedef struct picture {
    float *rgb;
    bool fails;
    long pixels; /* that were read */
} picture;

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    picture *p = cookie;

    p->pixels += (long)r.w * r.h;
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
    picture p = { malloc(LEN * sizeof(float)), false, 0 };
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

/* noise: that of the picture, or NULL: measured. */
static zn_status run_with(const picture *p, zn_value set, const zn_noise_table *noise, float *out, zn_error *err)
{
    zn_array x = { p->rgb, ROWS, W, 3 }, y = { out, ROWS, W, 3 };
    zn_job job = { .set = &set, .n_set = set.key != NULL, .noise = noise };

    return zn_model_run(model, &x, 1, &y, &job, err);
}

static zn_status run(const picture *p, zn_value set, float *out, zn_error *err)
{
    return run_with(p, set, NULL, out, err);
}

static double psnr(const float *a, const float *b)
{
    const int len = ROWS * W * 3;
    double sum = 0;

    for (int i = 0; i < len; i++)
        sum += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
    return -10 * log10(sum / len);
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
        zn_noise_table t;
        const float *s = t.median;

        CHECK(!zn_noise_levels(&t, model, &src, &err), "%s", err.text);
        free(p.rgb);
        for (int c = 0; c < 3; c++)
            CHECK(fabsf(s[c] / levels[i] - 1) < 0.25f, "%g: %g %g %g", (double)levels[i], (double)s[0], (double)s[1],
                  (double)s[2]);
        CHECK(t.clean == 0, "%g: taken for clean", (double)levels[i]);
        CHECK(s[1] > last, "%g is not more than the one before", (double)s[1]);
        last = s[1];
    }
}

static void clean_pictures_stay_clean(void)
{
    picture p = scene(0);
    zn_source src = source_of(&p);
    float *out = malloc(LEN * sizeof(float));
    zn_error err = { "" };
    zn_noise_table t;

    CHECK(!zn_noise_levels(&t, model, &src, &err), "%s", err.text);
    for (int c = 0; c < 3; c++) {
        CHECK(t.median[c] < 2, "%g in channel %d", (double)t.median[c], c);
        for (int i = 0; i < ZN_NOISE_BINS; i++)
            CHECK(t.least[c][i] < 3, "%g in channel %d, bin %d", (double)t.least[c][i], c, i);
    }
    CHECK(!run(&p, (zn_value){ 0 }, out, &err), "%s", err.text);
    CHECK(t.clean == 1, "noise in a clean picture: %g", (double)t.clean);
    CHECK(psnr(p.rgb, out) > 60, "changed to %.1f dB", psnr(p.rgb, out));
    free(p.rgb), free(out);
}

/* The root of the mean square of the difference of two levels as a share, over all bins that both have. */
static double difference(const zn_noise_table *a, const zn_noise_table *b)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < 3 * ZN_NOISE_BINS; i++) {
        const double was = (double)a->least[i / ZN_NOISE_BINS][i % ZN_NOISE_BINS];
        const double now = (double)b->least[i / ZN_NOISE_BINS][i % ZN_NOISE_BINS];

        if (was > 0 && now > 0)
            sum += (now / was - 1) * (now / was - 1), n++;
    }
    return n > 10 ? sqrt(sum / n) : INFINITY;
}

/* A part that has less noise leaves the level of the rest nearly as it is; and, told the same of the picture, the rest itself as it
 * is, further away than the networks see.  (Blocks inside the kernels hand rounding errors on a little further.) */
static void a_part_does_not_change_the_rest(void)
{
    zn_rect (*const parts[])(picture *) = { blur, denoise, border };
    const int far = zn_model_geometry(model)->halo + zn_model_level_reach(model);
    picture before = scene(20);
    float *a = malloc(LEN * sizeof(float)), *b = malloc(LEN * sizeof(float)), *own = malloc(LEN * sizeof(float));
    zn_source src = source_of(&before);
    zn_error err = { "" };
    zn_noise_table s, t;

    CHECK(!zn_noise_levels(&s, model, &src, &err) && !run(&before, (zn_value){ 0 }, a, &err), "%s", err.text);
    for (int i = 0; i < 3; i++) {
        picture p = scene(20);
        const zn_rect r = parts[i](&p);
        double sum = 0;
        int n = 0;

        src = source_of(&p);
        CHECK(!zn_noise_levels(&t, model, &src, &err) && !run_with(&p, (zn_value){ 0 }, &s, b, &err) &&
                  !run(&p, (zn_value){ 0 }, own, &err),
              "%s", err.text);
        for (int c = 0; c < 3; c++)
            CHECK(fabsf(t.median[c] / s.median[c] - 1) < 0.1f, "part %d: %g became %g", i, (double)s.median[c],
                  (double)t.median[c]);
        CHECK(difference(&s, &t) < 0.2, "part %d: the least levels changed by %g", i, difference(&s, &t));
        for (int k = 0; k < LEN; k++) {
            const int x = k / 3 % W, y = k / 3 / W;
            const bool rest = parts[i] == border
                ? x >= r.x + far && y >= r.y + far && x < r.x + r.w - far && y < r.y + r.h - far
                : x < r.x - far || y < r.y - far || x >= r.x + r.w + far || y >= r.y + r.h + far;

            n += rest;
            sum += rest ? (double)(a[k] - own[k]) * (double)(a[k] - own[k]) : 0;
            CHECK(!rest || fabsf(a[k] - b[k]) < 1e-5f, "part %d, pixel %d,%d: %g became %g", i, x, y, (double)a[k],
                  (double)b[k]);
        }
        CHECK(n > 1000, "part %d: nothing was compared", i);
        CHECK(sum < n * pow(0.2 / 255, 2), "part %d: the rest changed by %g of 255", i, 255 * sqrt(sum / n));
        free(p.rgb);
    }
    free(before.rgb), free(a), free(b), free(own);
}

/* If the given noise of the picture is more than measured in any place, the network gets it everywhere; if it is less,
 * nothing changes. */
static void the_picture_is_the_least(void)
{
    picture p = scene(15);
    float *a = malloc(LEN * sizeof(float)), *b = malloc(LEN * sizeof(float));
    zn_noise_table low = { 0 }, high = { 0 };
    zn_error err = { "" };

    for (int i = 0; i < 3 * ZN_NOISE_BINS; i++) {
        low.least[i / ZN_NOISE_BINS][i % ZN_NOISE_BINS] = 0.1f;
        high.least[i / ZN_NOISE_BINS][i % ZN_NOISE_BINS] = 40;
    }
    CHECK(!run_with(&p, (zn_value){ 0 }, &high, a, &err) && !run(&p, (zn_value){ "sigma", 40 }, b, &err), "%s",
          err.text);
    CHECK(psnr(a, b) > 80, "at least 40 is not 40: %.1f dB", psnr(a, b));
    CHECK(!run_with(&p, (zn_value){ "sigma-scale", 2 }, &high, a, &err) && !run(&p, (zn_value){ "sigma", 80 }, b, &err),
          "%s", err.text);
    CHECK(psnr(a, b) > 80, "twice at least 40 is not 80: %.1f dB", psnr(a, b));
    for (int i = 0; i < 3 * ZN_NOISE_BINS; i++)
        high.least[i / ZN_NOISE_BINS][i % ZN_NOISE_BINS] = 0;
    CHECK(!run_with(&p, (zn_value){ 0 }, &low, a, &err) && !run_with(&p, (zn_value){ 0 }, &high, b, &err), "%s",
          err.text);
    CHECK(!memcmp(a, b, LEN * sizeof(float)), "0.1 at least is not the same as nothing");
    free(p.rgb), free(a), free(b);
}

/* A picture of 2.3 megapixels, of which 16 squares are looked at: scenes beside each other.  A region of it, the same told what the
 * picture's noise is, and a part cut out of it and told: all the same. */
typedef struct large {
    picture scene[2];
    int x0, y0; /* where the part begins */
} large;

static bool read_large(void *cookie, zn_rect r, float *dst)
{
    const large *l = cookie;

    for (int y = r.y + l->y0; y < r.y + l->y0 + r.h; y++)
        for (int x = r.x + l->x0; x < r.x + l->x0 + r.w; x++, dst += 3)
            memcpy(dst, l->scene[(x / W + y / H) % 2].rgb + (size_t)((y % H * W + x % W) * 3), 3 * sizeof *dst);
    return true;
}

static bool write_small(void *cookie, zn_rect r, const float *src)
{
    memcpy(*(float **)cookie, src, (size_t)(r.w * r.h * 3) * sizeof *src);
    *(float **)cookie += r.w * r.h * 3;
    return true;
}

static void a_region_of_a_large_picture(void)
{
    enum { X = 768, Y = 576, SIDE = 96, N = SIDE * SIDE * 3, PART = 576 };
    large l = { { scene(8), scene(20) }, 0, 0 }, cut = l;
    zn_source src = { 3 * W, 5 * H / 2, 3, read_large, &l };
    float out[3][N], *to;
    zn_sink sink = { write_small, &to };
    zn_noise_table t;
    const zn_job told = { .noise = &t, .tile = SIDE }, measured = { .tile = SIDE };
    zn_error err = { "" };

    CHECK(!zn_noise_levels(&t, model, &src, &err), "%s", err.text);
    to = out[0];
    CHECK(!zn_model_run_region(model, &sink, &src, 1, (zn_rect){ X, Y, SIDE, SIDE }, &measured, &err), "%s", err.text);
    to = out[1];
    CHECK(!zn_model_run_region(model, &sink, &src, 1, (zn_rect){ X, Y, SIDE, SIDE }, &told, &err), "%s", err.text);
    CHECK(!memcmp(out[0], out[1], sizeof out[0]), "told, it is another result than measured");
    cut.x0 = X - 288, cut.y0 = Y - 288;
    src = (zn_source){ PART + SIDE, PART + SIDE, 3, read_large, &cut };
    to = out[2];
    CHECK(!zn_model_run_region(model, &sink, &src, 1, (zn_rect){ 288, 288, SIDE, SIDE }, &told, &err), "%s", err.text);
    for (int i = 0; i < N; i++)
        CHECK(fabsf(out[0][i] - out[2][i]) < 1e-5f, "value %d of the part: %g, not %g", i, (double)out[2][i],
              (double)out[0][i]);
    free(l.scene[0].rgb), free(l.scene[1].rgb);
}

/* How bright cells are and whether all their pixels are equal, also where the picture ends within a cell. */
static void cells_of_a_part(void)
{
    enum { X = 3, Y = 5, PW = 85, PH = 43 }; /* ends with cells of 5x3 */
    picture p = scene(3);
    large l = { { p, p }, X, Y };
    zn_source src = { PW, PH, 3, read_large, &l };
    zn_levels levels;
    zn_error err = { "" };

    for (int i = 0; i < 8 * 8 * 3; i++) /* the cell at 16, 16 but for red's last pixel */
        p.rgb[((Y + 16 + i / 24) * W + X + 16) * 3 + i % 24] = i < 8 * 8 * 3 - 3 || i % 3 ? 0.25f : 0.5f;
    p.rgb[((Y + 40) * W + X + 80) * 3] = NAN; /* in the last cell */
    CHECK(!zn_levels_measure(&levels, model, &src, (zn_rect){ 0, 0, PW, PH }, 1, NULL, &err), "%s", err.text);
    CHECK(levels.at.w == 11 && levels.at.h == 6, "%dx%d cells", levels.at.w, levels.at.h);
    for (int i = 0; i < 11 * 6 * 3; i++) {
        const int x0 = i / 3 % 11 * 8, y0 = i / 33 * 8, x1 = x0 + 8 < PW ? x0 + 8 : PW, y1 = y0 + 8 < PH ? y0 + 8 : PH;
        const float first = at(&p, X + x0, Y + y0, i % 3);
        double sum = 0;
        bool plain = true;

        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++) {
                sum += (double)at(&p, X + x, Y + y, i % 3);
                plain = plain && at(&p, X + x, Y + y, i % 3) == first;
            }
        sum /= (x1 - x0) * (y1 - y0);
        CHECK(isnan(sum) ? isnan(levels.cell[i].bright) : fabs((double)levels.cell[i].bright - sum) < 1e-5,
              "cell %d: %g, not %g", i, (double)levels.cell[i].bright, sum);
        CHECK(levels.cell[i].plain == plain, "cell %d is plain: %d", i, levels.cell[i].plain);
    }
    zn_levels_free(&levels);
    free(p.rgb);
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
    CHECK(!run(&p, (zn_value){ "sigma", 40 }, a, &err), "%s", err.text);
    CHECK(!zn_model_run(model, in, 2, &out, NULL, &err), "%s", err.text);
    CHECK(psnr(a, b) > 100, "sigma and a map of it differ: %.1f dB", psnr(a, b));
    CHECK(!run(&p, (zn_value){ 0 }, b, &err), "%s", err.text);
    CHECK(psnr(a, b) < 60, "twice the level changes nothing: %.1f dB", psnr(a, b));
    free(p.rgb), free(a), free(b), free(map);
}

/* A factor below 1 changes the picture less, one of 1 not at all.  (What it multiplies: the_picture_is_the_least.) */
static void a_factor_of_the_level(void)
{
    picture p = scene(20);
    float *once = malloc(LEN * sizeof(float)), *other = malloc(LEN * sizeof(float));
    zn_error err = { "" };

    CHECK(!run(&p, (zn_value){ 0 }, once, &err) && !run(&p, (zn_value){ "sigma-scale", 0.3 }, other, &err), "%s",
          err.text);
    CHECK(psnr(p.rgb, other) > psnr(p.rgb, once) + 0.1, "%.2f dB from the picture, %.2f without the factor",
          psnr(p.rgb, other), psnr(p.rgb, once));
    CHECK(!run(&p, (zn_value){ "sigma-scale", 1 }, other, &err) && !memcmp(once, other, LEN * sizeof(float)),
          "a factor of 1 counts");
    free(p.rgb), free(once), free(other);
}

/* Reading may take longer than measuring. */
static void a_small_picture_is_read_once(void)
{
    picture p = scene(5);
    zn_source src = source_of(&p);
    zn_error err = { "" };
    zn_noise_table t;

    CHECK(!zn_noise_levels(&t, model, &src, &err) && t.median[0] > 0, "%s", err.text);
    CHECK(p.pixels == (long)W * H, "%ld pixels of %ld were read", p.pixels, (long)W * H);
    free(p.rgb);
}

static void a_read_that_fails(void)
{
    picture p = scene(5);
    zn_source src = source_of(&p);
    zn_error err = { "" };
    zn_noise_table t;

    p.fails = true;
    CHECK(zn_noise_levels(&t, model, &src, &err) == ZN_E_FILE && t.median[0] == 0, "%g, '%s'", (double)t.median[0],
          err.text);
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
    zn_noise_table s;
    float t[3];

    CHECK(!open_with(&m, "/nowhere", &err), "%s", err.text);
    CHECK(zn_model_level_reach(m) == 0, "reach %d", zn_model_level_reach(m));
    CHECK(!zn_noise_levels(&s, m, &src, &err) && !zn_noise_estimate(t, &src, &err), "%s", err.text);
    CHECK(!memcmp(s.median, t, sizeof t) && s.least[0][8] == 0, "%g, not %g", (double)s.median[0], (double)t[0]);
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
    if (zn_engine_open(&engine, NULL, 0, &err) || open_with(&model, MODELS, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (!zn_model_level_reach(model)) {
        fprintf(stderr, "denoise-level was not found\n");
        return 1;
    }
    test_run("cells of a part", cells_of_a_part);
    test_run("white noise is found", white_noise_is_found);
    test_run("clean pictures stay clean", clean_pictures_stay_clean);
    if (!INSTRUMENTED) { /* many runs of a denoiser, which read what the others read */
        test_run("a part does not change the rest", a_part_does_not_change_the_rest);
        test_run("the picture is the least", the_picture_is_the_least);
        test_run("a region of a large picture", a_region_of_a_large_picture);
        test_run("a given level counts", a_given_level_counts);
        test_run("a factor of the level", a_factor_of_the_level);
    }
    test_run("a small picture is read once", a_small_picture_is_read_once);
    test_run("a read that fails", a_read_that_fails);
    test_run("without the estimator", without_the_estimator);
    test_run("a broken estimator", a_broken_estimator);
    zn_model_close(&model);
    zn_engine_close(&engine);
    return test_end();
}
