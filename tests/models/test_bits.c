/* SPDX-License-Identifier: MIT */
/* test_bits.c - a denoiser's pixels on a CPU are the same to the bit for every bound of memory, tile and region, also where
 * it measures the noise. */
#include "../unit/test.h"

#include "zenith.h"

#include <stdlib.h>

#define MODELS ZN_SOURCE_ROOT "/models"

enum { W = 331, H = 257, LEN = W * H * 3 }; /* multiples of nothing */

static zn_engine *engine;
static zn_model *model;
static bool slow; /* the scalar engine beside another one: a little of it */
static float *rgb;

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    (void)cookie;
    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)(y * r.w * 3), rgb + (size_t)(((r.y + y) * W + r.x) * 3),
               (size_t)(r.w * 3) * sizeof(float));
    return true;
}

static bool write_picture(void *cookie, zn_rect r, const float *src)
{
    for (int y = 0; y < r.h; y++)
        memcpy((float *)cookie + (size_t)(((r.y + y) * W + r.x) * 3), src + (size_t)(y * r.w * 3),
               (size_t)(r.w * 3) * sizeof(float));
    return true;
}

/* In pieces of this side, each in a run of its own. */
static void run_pieces(float *out, int side, const zn_job *job)
{
    const zn_source src = { W, H, 3, read_picture, NULL };
    const zn_sink sink = { write_picture, out };
    zn_error err = { "" };

    for (int y = 0; y < H; y += side)
        for (int x = 0; x < W; x += side) {
            const zn_rect r = { x, y, x + side < W ? side : W - x, y + side < H ? side : H - y };

            CHECK(!zn_model_run_region(model, &sink, &src, 1, r, job, &err), "%s", err.text);
        }
}

static void same_bits(const float *a, const float *b, const char *what, int n)
{
    int differ = 0;

    for (int i = 0; i < LEN; i++)
        differ += a[i] != b[i];
    CHECK(!differ, "%s %d: %d of %d values differ", what, n, differ, LEN);
}

static void compare(const zn_job *job, float *want, float *got)
{
    static const int memory[] = { 16, 20, 24, 64 }, sides[] = { 288, 192, 96, 50 };

    TRY(run_pieces(want, W, job));
    for (int i = slow ? 4 : 0; i < 4; i++) {
        char text[16];

        snprintf(text, sizeof text, "%d", memory[i]);
        setenv("ZENITH_MEMORY", text, 1);
        run_pieces(got, W, job);
        unsetenv("ZENITH_MEMORY");
        TRY((void)0);
        TRY(same_bits(got, want, "ZENITH_MEMORY", memory[i]));
    }
    for (int i = slow ? 1 : 0; i < (slow ? 2 : 4); i++) {
        zn_job one = *job;

        TRY(run_pieces(got, sides[i], job));
        TRY(same_bits(got, want, "pieces of", sides[i]));
        if (slow)
            break;
        one.tile = sides[i];
        TRY(run_pieces(got, W, &one));
        TRY(same_bits(got, want, "tiles of", sides[i]));
    }
}

static void with_both(const zn_job *job)
{
    float *want = malloc(LEN * sizeof *want), *got = malloc(LEN * sizeof *got);

    compare(job, want, got);
    free(want), free(got);
}

static void test_given(void)
{
    const zn_value sigma = { "sigma", 20 };

    with_both(&(zn_job){ .set = &sigma, .n_set = 1 });
}

/* As zenith:denoise does it: the picture's noise is measured once. */
static void test_measured(void)
{
    const zn_source src = { W, H, 3, read_picture, NULL };
    zn_noise_table noise;
    zn_error err = { "" };

    CHECK(!zn_noise_levels(&noise, model, &src, &err) && noise.median[0] > 5, "%g %s", (double)noise.median[0],
          err.text);
    with_both(&(zn_job){ .noise = &noise });
}

int main(void)
{
    zn_engine_info list[16];
    const int n = zn_engine_list(list, 16);
    int usable = 0;
    zn_error err = { "" };

    setenv("ZENITH_MODELS", MODELS, 1);
    rgb = malloc(LEN * sizeof *rgb);
    zn_noise_fill(rgb, LEN, 1, 0);
    for (int i = 0; i < LEN; i++) {
        const float x = (float)(i / 3 % W), y = (float)(i / 3) / W;

        /* where there is more noise than usual, the network's own number counts */
        rgb[i] = 0.5f + 0.2f * sinf(x * 0.05f) * cosf(y * 0.03f) + (0.01f + 0.1f * x * y / (W * H)) * rgb[i];
    }
    for (int e = 0; e < n; e++)
        usable += list[e].usable;
    for (int e = 0; e < n; e++) {
        if (!list[e].usable || zn_engine_open(&engine, list[e].name, 0, NULL))
            continue;
        if (!zn_engine_is_remote(engine)) {
            char name[2][64];

            slow = INSTRUMENTED || (!strcmp(list[e].name, "scalar") && usable > 1);
            if (zn_model_open(&model, engine, "denoise-fast", NULL, &err))
                return fprintf(stderr, "%s\n", err.text), 1;
            snprintf(name[0], sizeof name[0], "noise given, %s", list[e].name);
            snprintf(name[1], sizeof name[1], "noise measured, %s", list[e].name);
            test_run(name[0], test_given);
            test_run(name[1], test_measured);
            zn_model_close(&model);
        }
        zn_engine_close(&engine);
    }
    free(rgb);
    return test_end();
}
