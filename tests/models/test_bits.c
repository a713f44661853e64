/* SPDX-License-Identifier: MIT */
/* test_bits.c - pixels on a CPU are the same to the bit for every bound of memory, tile and region: a denoiser's, also where it
 * measures the noise, and those of an autoencoder with attention, which runs in two stages. */
#include "../unit/test.h"

#include "zenith.h"

#include <stdlib.h>

#define MODELS ZN_SOURCE_ROOT "/models"
#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

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

/* ---- two stages ----------------------------------------------------------------------------------------- */

typedef struct vae {
    const char *id, *file, *precision;
    zn_array in; /* long, so that there are tiles with both halos */
} vae;

static const vae *current;

static bool read_array(void *cookie, zn_rect r, float *dst)
{
    const zn_array *a = cookie;

    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)(y * r.w * a->c), a->data + (size_t)(((r.y + y) * a->w + r.x) * a->c),
               (size_t)(r.w * a->c) * sizeof(float));
    return true;
}

static bool write_array(void *cookie, zn_rect r, const float *src)
{
    const zn_array *a = cookie;

    for (int y = 0; y < r.h; y++)
        memcpy(a->data + (size_t)(((r.y + y) * a->w + r.x) * a->c), src + (size_t)(y * r.w * a->c),
               (size_t)(r.w * a->c) * sizeof(float));
    return true;
}

/* A part of the result, which is -5 elsewhere. */
static void run_part(zn_array *out, zn_array *in, zn_rect r, const zn_job *job)
{
    const zn_source src = { in->w, in->h, in->c, read_array, in };
    const zn_sink sink = { write_array, out };
    zn_error err = { "" };

    for (size_t i = 0; i < zn_array_len(out); i++)
        out->data[i] = -5;
    CHECK(!zn_model_run_region(model, &sink, &src, 1, r, job, &err), "%s", err.text);
}

static int tiles_of(zn_array *in, const zn_job *job)
{
    zn_plan plan = { 0 };

    return zn_model_plan(model, in, 1, job, &plan, NULL) ? 0 : plan.n_tiles;
}

static void same_part(const zn_array *got, const zn_array *want, zn_rect r, int tiles)
{
    for (int y = r.y; y < r.y + r.h; y++) {
        const size_t at = (size_t)((y * want->w + r.x) * want->c), len = (size_t)(r.w * want->c);

        CHECK(!memcmp(got->data + at, want->data + at, len * sizeof(float)), "row %d has other bits in %d tiles", y,
              tiles);
    }
}

/* All of it and a part, in each number of tiles that some bound of memory gives, or that is asked for. */
static void compare_vae(zn_array *in, zn_array *want, zn_array *got)
{
    const zn_rect all = { 0, 0, want->w, want->h }, part = { want->w / 2, want->h / 3, want->w / 3 + 1, want->h / 2 };
    const zn_job least = { .tile = 1, .max_memory = (size_t)1 << 30 };
    int tiles = 1, kinds = 0;

    CHECK(tiles_of(in, NULL) == 1 && tiles_of(in, &least) > 2, "%d and %d tiles", tiles_of(in, NULL),
          tiles_of(in, &least));
    TRY(run_part(want, in, all, NULL));
    TRY(run_part(got, in, all, &least));
    TRY(same_part(got, want, all, tiles_of(in, &least)));
    TRY(run_part(got, in, part, &least));
    TRY(same_part(got, want, part, tiles_of(in, &least)));
    for (int mib = 200; mib > 0; mib -= mib / 16 + 1) {
        char text[16];
        int n;

        snprintf(text, sizeof text, "%d", mib);
        setenv("ZENITH_MEMORY", text, 1);
        n = tiles_of(in, NULL);
        if (n > tiles)
            run_part(got, in, all, NULL);
        unsetenv("ZENITH_MEMORY");
        if (n > tiles)
            TRY(same_part(got, want, all, n));
        kinds += n > tiles;
        tiles = n > tiles ? n : tiles;
    }
    CHECK(kinds, "no bound of memory gives tiles");
}

static void test_stages(void)
{
    const zn_open open = { .files = &current->file, .n_files = 1, .precision = current->precision };
    zn_array in = current->in, want = { 0 }, got;
    zn_error err = { "" };

    CHECK(!zn_model_open(&model, engine, current->id, &open, &err) && !zn_model_shape(model, &in, 1, &want, &err), "%s",
          err.text);
    got = want;
    in.data = malloc(zn_array_len(&in) * sizeof(float));
    want.data = malloc(zn_array_len(&want) * sizeof(float));
    got.data = malloc(zn_array_len(&got) * sizeof(float));
    zn_noise_fill(in.data, zn_array_len(&in), 1, 0);
    compare_vae(&in, &want, &got);
    free(in.data), free(want.data), free(got.data);
    zn_model_close(&model);
}

/* Networks whose layers are computed in blocks of 5 and 6; those of halves have some that are not. */
static void all_stages(const char *name)
{
    static const vae all[] = {
        { "wan-vae-decode", GOLDEN "wan21.pth", "fp32", { NULL, 17, 330, 16 } },
        { "wan-vae-encode", GOLDEN "wan21.pth", "fp32", { NULL, 2600, 101, 3 } },
        { "wan-vae-decode", GOLDEN "wan22.pth", "fp32", { NULL, 330, 9, 48 } },
        { "wan-vae-encode", GOLDEN "wan22.pth", "fp32", { NULL, 251, 2600, 3 } },
        { "wan-vae-decode", ZN_RANDOM_WEIGHTS "16", "bf16", { NULL, 3, 250, 16 } },
        { "wan-vae-encode", ZN_RANDOM_WEIGHTS "16", "bf16", { NULL, 2000, 23, 3 } },
        { "wan-vae-decode", ZN_RANDOM_WEIGHTS "16", "fp16", { NULL, 250, 3, 16 } },
        { "wan-vae-encode", ZN_RANDOM_WEIGHTS "16", "fp16", { NULL, 23, 2000, 3 } },
        { "template", ZN_RANDOM_WEIGHTS, "fp32", { NULL, 331, 500, 3 } },
    };

    for (int i = 0; i < (INSTRUMENTED ? 1 : (int)(sizeof all / sizeof *all)); i++) {
        char text[128];

        current = &all[i];
        snprintf(text, sizeof text, "%s, %s, %s", all[i].id, all[i].precision, name);
        test_run(text, test_stages);
    }
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
            const bool plain = !strcmp(list[e].name, "scalar") && usable > 1;
            char name[2][64];

            slow = INSTRUMENTED || plain;
            if (zn_model_open(&model, engine, "denoise-fast", NULL, &err))
                return fprintf(stderr, "%s\n", err.text), 1;
            snprintf(name[0], sizeof name[0], "noise given, %s", list[e].name);
            snprintf(name[1], sizeof name[1], "noise measured, %s", list[e].name);
            test_run(name[0], test_given);
            test_run(name[1], test_measured);
            zn_model_close(&model);
            if (!plain)
                all_stages(list[e].name);
        }
        zn_engine_close(&engine);
    }
    free(rgb);
    return test_end();
}
