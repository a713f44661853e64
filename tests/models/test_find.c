/* SPDX-License-Identifier: MIT */
/* test_find.c - finding faces, with a detector made by hand (tools/golden_find.py): a white spot of 15 pixels on black is a
 * face whose frame has a side of 64 and is turned by 20 degrees; the second network moves each frame by a known amount. */
#include "../unit/test.h"

#include "core/weights.h"
#include "pipeline/shrink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

enum { SPOT = 15, SIDE = 64, ANGLE = 20 };

/* Two passes of 0.05 units along the frame's x axis; a unit is a quarter of the crop, which is 1.35 frames wide. */
static const double MOVE = 2 * 0.05 * SIDE * 1.35 / 4, PI = 3.14159265358979323846;

typedef struct spots {
    int w, h, scale; /* a spot is scale times as large */
    int n;           /* of spots */
    int at[3][2];    /* their first pixels, before scaling */
    int reads, widest;
    bool broken; /* cannot be read after the first strip */
} spots;

static bool read_spots(void *cookie, zn_rect r, float *dst)
{
    spots *p = cookie;

    p->reads++;
    p->widest = r.w * r.h > p->widest ? r.w * r.h : p->widest;
    if (p->broken && p->reads > 1)
        return false;
    for (int i = 0; i < r.h; i++)
        for (int j = 0; j < r.w; j++) {
            float v = 0;

            for (int k = 0; k < p->n; k++) {
                const int y = (r.y + i) / p->scale - p->at[k][1], x = (r.x + j) / p->scale - p->at[k][0];

                if (y >= 0 && y < SPOT && x >= 0 && x < SPOT)
                    v = 1;
            }
            for (int c = 0; c < 3; c++)
                dst[3 * ((size_t)i * (size_t)r.w + (size_t)j) + (size_t)c] = v;
        }
    return true;
}

static zn_finder *open_finder(zn_engine **engine, const char *name, int threads, zn_error *err)
{
    static const char *const file = GOLDEN "find-spot.safetensors";
    zn_finder *f = NULL;

    if (!zn_engine_open(engine, name, threads, err))
        zn_finder_open(&f, *engine, &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" }, err);
    return f;
}

static const char *engine_name;

/* Finds the spots of p with so many threads. */
static int look(zn_face *face, int max, spots *p, int threads, zn_error *err)
{
    const zn_source source = { p->w, p->h, 3, read_spots, p };
    zn_engine *engine = NULL;
    zn_finder *f = open_finder(&engine, engine_name, threads, err);
    int n = -1;

    if (f && zn_find_faces(face, max, &n, f, &source, err))
        n = -1;
    zn_finder_close(&f);
    zn_engine_close(&engine);
    return n;
}

/* Whether it is the frame of spot k: the cell that sees all of it ends at the spot's middle.  tolerance: of pixels
 * before scaling. */
static bool fits(const zn_face *f, const spots *p, int k, double tolerance)
{
    const double x = p->at[k][0] + 7 + 4 + MOVE * cos(ANGLE * PI / 180),
                 y = p->at[k][1] + 7 + 4 + MOVE * sin(ANGLE * PI / 180);

    return fabs((double)f->x / p->scale - x) <= tolerance && fabs((double)f->y / p->scale - y) <= tolerance &&
        fabs((double)f->size / p->scale - SIDE) <= 0.02 * SIDE && fabs((double)f->angle - ANGLE) < 0.1;
}

static void spots_are_found(void)
{
    spots p = { .w = 400, .h = 300, .scale = 1, .n = 2, .at = { { 81, 57 }, { 297, 161 } } };
    zn_face face[8];
    zn_error err = { "" };
    int n = look(face, 8, &p, 0, &err);

    CHECK(n == 2, "%d found, not 2: %s", n, err.text);
    for (int k = 0; k < 2; k++)
        CHECK(fits(&face[0], &p, k, 0.01) || fits(&face[1], &p, k, 0.01),
              "spot %d: frames at %g, %g and %g, %g, size %g, %g", k, (double)face[0].x, (double)face[0].y,
              (double)face[1].x, (double)face[1].y, (double)face[0].size, (double)face[0].angle);
    CHECK(face[0].score > 0.99f && face[0].score <= 1, "score %g", (double)face[0].score);
    n = look(face, 1, &p, 0, &err);
    CHECK(n == 1, "%d frames in a list of one", n);
}

/* A picture of 4.8 megapixels is read in strips and looked at in a smaller size; the frame is in its own pixels. */
static void large_pictures(void)
{
    spots p = { .w = 2400, .h = 2000, .scale = 4, .n = 1, .at = { { 241, 257 } } };
    zn_face face[8];
    zn_error err = { "" };
    int n = look(face, 8, &p, 0, &err);

    CHECK(n == 1, "%d found, not 1: %s", n, err.text);
    /* levels are not multiples of the spot: it lies between cells, which are 8 pixels of a level */
    CHECK(fabs((double)face[0].x / 4 - 252) < 20 && fabs((double)face[0].y / 4 - 268) < 20, "a frame at %g, %g",
          (double)face[0].x, (double)face[0].y);
    CHECK(p.widest <= 1 << 20, "%d pixels were read at once", p.widest);
}

static void nothing_there(void)
{
    const int sizes[][2] = { { 1, 1 }, { 300, 200 }, { 7, 900 }, { 3000000, 1 }, { 1, 3000000 } };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        spots p = { .w = sizes[i][0], .h = sizes[i][1], .scale = 1 };
        zn_face face[2];
        zn_error err = { "" };
        int n = look(face, 2, &p, 0, &err);

        CHECK(n == 0 && !*err.text, "%dx%d: %d found: %s", p.w, p.h, n, err.text);
    }
}

static void threads_change_nothing(void)
{
    spots p = { .w = 517, .h = 411, .scale = 1, .n = 3, .at = { { 60, 50 }, { 211, 97 }, { 350, 300 } } };
    zn_face one[8], three[8];
    zn_error err = { "" };
    int n = look(one, 8, &p, 1, &err), m = look(three, 8, &p, 3, &err);

    CHECK(n == 3 && m == 3, "%d and %d found: %s", n, m, err.text);
    CHECK(!memcmp(one, three, 3 * sizeof *one), "frames differ between 1 and 3 threads");
}

static void failures_are_sentences(void)
{
    static const char *const wrong = GOLDEN "denoise.safetensors";
    spots p = { .w = 2400, .h = 2000, .scale = 1, .broken = true };
    const zn_source grey = { 64, 64, 1, read_spots, &p };
    zn_engine *engine = NULL;
    zn_finder *f = NULL;
    zn_face face[2];
    zn_error err = { "" };
    int n = look(face, 2, &p, 0, &err);

    CHECK(n == -1 && strstr(err.text, "cannot be read"), "a picture that cannot be read: %d, %s", n, err.text);
    f = open_finder(&engine, engine_name, 0, &err);
    CHECK(f && zn_find_faces(face, 2, &n, f, &grey, &err) == ZN_E_USAGE && strstr(err.text, "three channels"), "%s",
          err.text);
    zn_finder_close(&f);
    CHECK(zn_finder_open(&f, engine, &(zn_open){ .files = &wrong, .n_files = 1 }, &err) == ZN_E_FILE && !f &&
              strstr(err.text, "zenith-find"),
          "%s", err.text);
    zn_engine_close(&engine);
}

/* A picture whose value is its x coordinate, cut out with a frame that is turned by 90 degrees, at half and twice its size. */
static void cuts(void)
{
    enum { W = 40, H = 30 };
    static float data[W * H * 3];
    const zn_array picture = { data, H, W, 3 };

    for (int i = 0; i < W * H * 3; i++)
        data[i] = (float)(i / 3 % W) + 0.5f;
    for (int side = 8; side <= 32; side *= 4) {
        float out[32 * 32 * 3];
        zn_array y = { out, side, side, 3 };
        const zn_face face = { 20, 15, 16, 90, 1 };

        zn_face_cut(&y, &picture, &face);
        for (int i = 0; i < side; i++)
            for (int j = 0; j < side; j++) {
                const double want = 20 - 16 * ((i + 0.5) / side - 0.5), got = (double)out[(i * side + j) * 3 + 1];

                CHECK(fabs(got - want) < 1e-4, "side %d, row %d: %g, not %g", side, i, got, want);
            }
    }
}

/* The area mean of the pixels that fall on a pixel of the smaller picture, from the definition. */
static double mean_at(const float *x, int h, int w, int rows, int columns, int i, int j, int c)
{
    const double dy = (double)h / rows, dx = (double)w / columns;
    double sum = 0;

    for (int y = 0; y < h; y++)
        for (int u = 0; u < w; u++) {
            const double high = fmin((i + 1) * dy, y + 1) - fmax(i * dy, y),
                         wide = fmin((j + 1) * dx, u + 1) - fmax(j * dx, u);
            const float v = x[3 * (y * w + u) + c];

            if (high > 0 && wide > 0)
                sum += high * wide * (v >= 0 ? fmin(2 * (double)v - 1, 1) : -1);
        }
    return sum / (dx * dy);
}

/* Sizes that are no multiples, rows in pieces of any size, several threads; values outside 0..1 are clamped. */
static void means(void)
{
    static const int sizes[][4] = { { 37, 29, 37, 29 }, { 37, 29, 26, 20 }, { 40, 31, 10, 31 },
                                    { 23, 50, 23, 7 },  { 9, 61, 1, 1 },    { 45, 45, 44, 44 } };
    enum { MOST = 64 * 64 * 3 };
    static float x[MOST], y[3][MOST];
    const int threads[3] = { 1, 3, 8 }, piece[3] = { 64, 1, 5 };

    for (int i = 0; i < MOST; i++)
        x[i] = i % 101 == 7 ? NAN : (float)(i * 37 % 256) / 200 - 0.1f;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int h = sizes[k][0], w = sizes[k][1], rows = sizes[k][2], columns = sizes[k][3], ld = 3 * columns + 6;

        for (int t = 0; t < 3; t++) {
            zn_pool *pool = zn_pool_open(threads[t]);
            zn_shrink *s = zn_shrink_new(rows, columns, h, w, pool);

            for (int i = 0; i < MOST; i++)
                y[t][i] = -9;
            for (int at = 0; s && at < h; at += piece[t])
                zn_shrink_rows(s, y[t], (size_t)ld, x + 3 * at * w, h - at < piece[t] ? h - at : piece[t], pool);
            zn_shrink_free(&s);
            zn_pool_close(&pool);
            CHECK(!memcmp(y[t], y[0], sizeof y[0]), "%dx%d to %dx%d: %d threads change bits", w, h, columns, rows,
                  threads[t]);
        }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < ld; j++) {
                const double want = j < 3 * columns ? mean_at(x, h, w, rows, columns, i, j / 3, j % 3) : -9;

                CHECK(fabs((double)y[0][i * ld + j] - want) < 1e-5, "%dx%d to %dx%d, row %d, number %d: %g, not %g", w,
                      h, columns, rows, i, j, (double)y[0][i * ld + j], want);
            }
    }
    for (int i = 0; i < MOST; i++)
        x[i] = (float)(i * i % 97);
    zn_shrink_half(y[0], 36, x, 75, 9, 11);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 33; j++) {
            const float *a = x + 2 * i * 75 + j / 3 * 6 + j % 3;
            const double want = 0.25 * (double)(a[0] + a[3] + a[75] + a[78]);

            CHECK(fabs((double)y[0][i * 36 + j] - want) < 1e-5, "half, row %d, number %d", i, j);
        }
}

int main(void)
{
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16);

    for (int e = 0; e < n; e++) {
        if (!list[e].usable)
            continue;
        engine_name = list[e].name;
        printf("# %s\n", engine_name);
        RUN(spots_are_found);
        RUN(large_pictures);
        RUN(nothing_there);
        RUN(threads_change_nothing);
        RUN(failures_are_sentences);
    }
    RUN(cuts);
    RUN(means);
    return test_end();
}
