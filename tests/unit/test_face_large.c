/* SPDX-License-Identifier: MIT */
/* test_face_large.c - the change of a large face: texture of the picture where its own is gone. */
#include "test.h"

#include "core/random.h"
#include "pipeline/face.h"

#include <stdlib.h>

enum { SIDE = 32, SCALE = 4, LARGE = SIDE * SCALE, W = 256, LEFT = 96, RIGHT = 160, STRIPE = 16 };

static const double grain = 0.02;

static zn_session *session;
static float picture[W * W * 3], low[SIDE * SIDE * 3], from[LARGE * LARGE * 3], plain[LARGE * LARGE * 3];

/* Stripes in the middle of the picture, that the model can see. */
static double base(int x, int y)
{
    return x >= LEFT && x < RIGHT && y >= LEFT && y < RIGHT ? (y / STRIPE % 2 ? 0.65 : 0.35) : 0.5;
}

static double noise(int x, int y)
{
    return grain * zn_normal(1, (uint64_t)y, (uint64_t)x);
}

static void make_pictures(void)
{
    for (int y = 0; y < W; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++) {
                picture[(y * W + x) * 3 + c] = (float)(base(x, y) + noise(x, y));
                low[(y / 8 * SIDE + x / 8) * 3 + c] += (float)base(x, y) / 64;
                from[(y / 2 * LARGE + x / 2) * 3 + c] += (float)base(x, y) / 4;
                plain[(y / 2 * LARGE + x / 2) * 3 + c] = 0.5f;
            }
}

/* The change if the face is drawn as `to`, [LARGE][LARGE][3]; [W][W][3], freed by the caller; NULL: out of memory. */
static float *change(const float *to, double detail, int n_threads)
{
    const zn_choice choice = { .n_threads = n_threads };
    zn_face_plan *plan = calloc(1, sizeof *plan);
    zn_face_work k = { .plan = plan,
                       .side = SIDE,
                       .scale = SCALE,
                       .workers = { session, &choice },
                       .square = { W / 2., W / 2., W, 1, 0 } };
    const zn_face_large large = { LARGE, (float *)to, from, { 0, 0, SIDE, SIDE } };
    const zn_patch patch = { { 0, 0, W, W }, picture };
    zn_array out = { calloc(W * W * 3, sizeof *out.data), W, W, 3 };
    float drawn[SIDE * SIDE * 3];

    for (int i = 0; i < SIDE * SIDE * 3; i++)
        drawn[i] = to == from ? low[i] : 0.5f;
    plan->how.detail = detail;
    if (!zn_large_paste(&out, zn_field_new(SIDE, drawn, low, low, 0), &k, &patch, &large, &(zn_face_mask){ 0 })) {
        free(out.data);
        out.data = NULL;
    }
    free(plan);
    return out.data;
}

static void test_nothing_drawn(void)
{
    float *out = change(from, 0.7, 2);
    int n = 0;

    for (int i = 0; out && i < W * W * 3; i++)
        n += out[i] != 0;
    CHECK(out && !n, "%d values changed", n);
    free(out);
}

typedef struct place { /* mean squares of result less 0.5, of the grain that was there, and of their product */
    double made, was, both;
} place;

static place look(const float *out, int x0, int x1)
{
    place p = { 0, 0, 0 };
    const double n = (double)(x1 - x0) * (RIGHT - LEFT - 2 * STRIPE);

    for (int y = LEFT + STRIPE; y < RIGHT - STRIPE; y++)
        for (int x = x0; x < x1; x++) {
            const double v = (double)picture[(y * W + x) * 3] + (double)out[(y * W + x) * 3] - 0.5;

            p.made += v * v / n;
            p.was += noise(x, y) * noise(x, y) / n;
            p.both += v * noise(x, y) / n;
        }
    return p;
}

/* Where the stripes go, the grain that was on them goes, too, and other grain comes; elsewhere nothing changes. */
static void test_what_is_gone(void)
{
    float *out = change(plain, 0.7, 1), *kept = change(plain, 1, 1);
    place gone, there, stays;

    CHECK(out && kept, "out of memory");
    gone = look(out, LEFT + STRIPE, RIGHT - STRIPE);
    there = look(out, 8, 24);
    stays = look(kept, LEFT + STRIPE, RIGHT - STRIPE);
    CHECK(fabs(gone.both) < 0.3 * gone.was, "the old grain stays: %g of %g", gone.both, gone.was);
    CHECK(gone.made > 0.6 * gone.was && gone.made < 1.6 * gone.was, "the new grain is %g, the old one %g", gone.made,
          gone.was);
    CHECK(fabs(there.made - there.was) < 1e-9, "beside it: %g, %g", there.made, there.was);
    CHECK(stays.both > 0.8 * stays.was, "with detail 1 the grain stays: %g of %g", stays.both, stays.was);
    free(out);
    free(kept);
}

static void test_threads(void)
{
    float *one = change(plain, 0.7, 1), *three = change(plain, 0.7, 3);

    CHECK(one && three && !memcmp(one, three, W * W * 3 * sizeof *one), "the number of threads changes the result");
    free(one);
    free(three);
}

/* Of a texture, what stands at a pixel is decided by the pixel alone, and it is not the same everywhere. */
static void test_texture(void)
{
    zn_face_field *field = zn_field_new(LARGE, from, from, from, 0);
    const zn_square square = { W / 2., W / 2., W, 1, 0 };
    const zn_patch patch = { { 0, 0, W, W }, picture };
    zn_texture t;
    double sum = 0, squares = 0, shifted = 0;

    CHECK(zn_texture_make(&t, (const zn_face_field *)field, LARGE, &square, &patch, NULL, 0) && t.n > 3, "%d pieces",
          t.n);
    for (int i = 0; i < W * W; i++) {
        float here[3], there[3], dark[3];

        zn_texture_at(here, &t, i % W, i / W, 0.5f);
        zn_texture_at(there, &t, i % W + t.side, i / W, 0.5f);
        zn_texture_at(dark, &t, i % W, i / W, 0);
        sum += (double)here[0] / (W * W);
        squares += (double)(here[0] * here[0]) / (W * W);
        shifted += (double)(here[0] * there[0]) / (W * W);
        CHECK(dark[0] == 0 && isfinite(here[0] + here[1] + here[2]), "%d: %g, %g", i, (double)dark[0], (double)here[0]);
    }
    CHECK(fabs(sum) < 0.1 * grain && squares > 0.6 * grain * grain && squares < 1.4 * grain * grain &&
              fabs(shifted) < 0.3 * squares,
          "mean %g, square %g, repeated %g", sum, squares, shifted);
    zn_texture_clear(&t);
    free(field);
}

/* A green speck in what is new goes; what is not new stays to the bit, specks too; the part around a change. */
static void test_calm(void)
{
    static float drawn[SIDE * SIDE * 3], was[SIDE * SIDE * 3], calm[SIDE * SIDE * 3], mask[SIDE * SIDE];
    const int speck = (24 * SIDE + 8) * 3, other = (24 * SIDE + 26) * 3;
    zn_rect part;

    for (int i = 0; i < SIDE * SIDE * 3; i++) {
        was[i] = 0.3f;
        drawn[i] = i / 3 % SIDE < SIDE / 2 ? (i % 3 == 1 ? 0.8f : 0.7f) : 0.3f;
        mask[i / 3] = i / 3 % SIDE < SIDE / 2;
    }
    drawn[speck + 1] = 0.1f;
    drawn[other] = 0.35f;
    zn_face_calm(calm, drawn, was, mask, SIDE);
    CHECK(fabsf(calm[speck + 1] - 0.75f) < 0.01f && fabsf(calm[speck] - 0.75f) < 0.01f, "%g, %g, %g",
          (double)calm[speck], (double)calm[speck + 1], (double)calm[speck + 2]);
    CHECK(!memcmp(calm + other, drawn + other, 3 * sizeof *calm), "%g", (double)calm[other]);
    for (int i = 0; i < SIDE * SIDE; i++)
        mask[i] = i == 20 * SIDE + 15;
    part = zn_face_mask_bounds(&(zn_face_mask){ SIDE, mask, mask }, SIDE);
    CHECK(part.x == 5 && part.y == 10 && part.w == 21 && part.h == 21, "%d %d %d %d", part.x, part.y, part.w, part.h);
    part = zn_face_mask_bounds(&(zn_face_mask){ 0 }, SIDE);
    CHECK(part.x == 0 && part.y == 0 && part.w == SIDE && part.h == SIDE, "%d %d", part.w, part.h);
}

int main(void)
{
    zn_error err;

    if (zn_session_open(&session, &err))
        return 1;
    make_pictures();
    RUN(test_nothing_drawn);
    RUN(test_what_is_gone);
    RUN(test_threads);
    RUN(test_texture);
    RUN(test_calm);
    zn_session_close(&session);
    return test_end();
}
