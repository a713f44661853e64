/* SPDX-License-Identifier: MIT */
/* test_find.c - finding faces, with a detector made by hand (tools/golden_find.py): a white spot of 15 pixels on black is a
 * face whose frame has a side of 64 and is turned by 20 degrees; the second network moves each frame by a known amount. */
#include "../unit/test.h"

#include "core/weights.h"

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

/* Is it the frame that belongs to the spot k: the cell that sees all of it ends at the spot's middle.  tolerance: of pixels
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
    return test_end();
}
