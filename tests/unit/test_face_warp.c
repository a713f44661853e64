/* SPDX-License-Identifier: MIT */
/* test_face_warp.c - a large face's change as a motion of the picture. */
#include "test.h"

#include "core/random.h"
#include "pipeline/face.h"

#include <stdlib.h>

enum { MOST = 128, W = 331, H = 307 };

static zn_session *session;

/* A pattern of 0..1 with structure of some pixels of side. */
static double pattern(double u, double v, int c)
{
    return 0.5 + 0.2 * sin(u * 61 + c) * cos(v * 47) + 0.15 * sin(u * 23 - v * 31) + 0.1 * cos(v * 83 + 2 * c);
}

/* Where a face goes: a bump in the middle, of so many parts of the frame. */
static double bump(double u, double v, double size)
{
    const double a = u - 0.5, b = v - 0.5;

    return size * exp(-(a * a + b * b) / 0.03);
}

/* from, and to(x) = from(x + bump) along both axes. */
static void make_faces(float *from, float *to, int side, double size)
{
    for (int i = 0; i < side * side; i++) {
        const double u = (i % side + 0.5) / side, v = (i / side + 0.5) / side, d = bump(u, v, size);

        for (int c = 0; c < 3; c++) {
            from[i * 3 + c] = (float)pattern(u, v, c);
            to[i * 3 + c] = (float)pattern(u + d, v + d / 2, c);
        }
    }
}

static void test_flow(void)
{
    static const int sides[] = { 16, 33, 65, 96, MOST };
    static float from[MOST * MOST * 3], to[MOST * MOST * 3], flow[MOST * MOST * 2];

    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
        const int side = sides[k];
        const double size = 2.0 / MOST;
        double wrong = 0, all = 0;
        int n = 0;

        make_faces(from, to, side, size);
        CHECK(zn_face_flow(flow, from, to, side), "out of memory");
        for (int i = 0; i < side * side; i++) {
            const double d = side * bump((i % side + 0.5) / side, (i / side + 0.5) / side, size);

            wrong += fabs((double)flow[i * 2] - d) + fabs((double)flow[i * 2 + 1] - d / 2);
            all += d + d / 2;
        }
        CHECK(side < 64 || wrong < 0.35 * all, "side %d: wrong by %g of %g", side, wrong, all);
        CHECK(zn_face_flow(flow, from, from, side), "out of memory");
        for (int i = 0; i < side * side * 2; i++)
            n += flow[i] != 0;
        CHECK(!n, "side %d: %d values of a flow between equal faces", side, n);
        from[side * 3] = NAN;
        to[side * 6] = INFINITY;
        CHECK(zn_face_flow(flow, from, to, side), "out of memory");
        for (int i = 0; i < side * side * 2; i++)
            n += !isfinite(flow[i]);
        CHECK(!n, "side %d: %d values of a flow are no numbers", side, n);
    }
}

/* The field of a face that is drawn as `to`, and whose mouth opens; NULL: out of memory. */
static zn_face_field *moved(const float *to, const float *from, int side, double opens)
{
    zn_face_field *field = zn_field_new(side, to, from, from, 0);

    if (field && !zn_field_move(field, side, &(zn_face_mask){ 0 }, opens)) {
        free(field);
        return NULL;
    }
    return field;
}

/* A block that is drawn over the face is neither added nor does it tear the picture. */
static void test_shapes(void)
{
    static float from[MOST * MOST * 3], to[MOST * MOST * 3];
    const int side = MOST;
    zn_face_field *field;
    float most = 0, steepest = 0;

    make_faces(from, to, side, 0);
    for (int i = 0; i < side * side; i++)
        for (int c = 0; c < 3; c++)
            if (i % side >= 40 && i % side < 80 && i / side >= 60 && i / side < 84)
                to[i * 3 + c] = i / 4 % 2 ? 0.95f : 0.05f;
    field = moved(to, from, side, 0);
    CHECK(field != NULL, "out of memory");
    for (int y = 66; field && y < 78; y++)
        for (int x = 46; x < 74; x++)
            most = fmaxf(most, fabsf(field[y * side + x][0]));
    for (int i = 0; field && i < side * (side - 1); i++)
        for (int k = 3; k < 5 && i % side < side - 1; k++) {
            steepest = fmaxf(steepest, fabsf(field[i + 1][k] - field[i][k]) * (float)side);
            steepest = fmaxf(steepest, fabsf(field[i + side][k] - field[i][k]) * (float)side);
        }
    CHECK(most < 0.1f, "%g is added", (double)most);
    CHECK(steepest < 0.8f, "steepness %g", (double)steepest);
    free(field);
}

enum { SKIN, LIPS, TEETH };
static const float tones[][3] = { { 0.8f, 0.6f, 0.5f }, { 0.7f, 0.35f, 0.35f }, { 0.85f, 0.83f, 0.78f } };

/* A face with a mouth of this height, rows 88 +- height / 2: a dark line, or teeth. */
static void make_mouth(float *face, int height)
{
    for (int i = 0; i < MOST * MOST; i++) {
        const int x = abs(i % MOST - 64), y = abs(i / MOST - 88);
        const int what = x >= 22 || y > height / 2 + 6 ? SKIN : y > height / 2 ? LIPS : TEETH;

        for (int c = 0; c < 3; c++)
            face[i * 3 + c] = what == TEETH && !height ? 0.15f : tones[what][c];
    }
}

/* What a pixel of a column of the face comes from, and is, when its mouth opens by `amount`; rows 60 to 120. */
static bool column(float rgb[][3], const float *face, float amount)
{
    static float added[MOST * MOST];
    zn_face_field *field = zn_field_new(MOST, face, face, face, 0);

    for (int i = 0; i < MOST * MOST; i++)
        added[i] = 0.2f;
    for (int i = 0; field && i < MOST * MOST; i++) {
        memset(field[i], 0, sizeof *field);
        field[i][5] = -1;
    }
    if (!field || !zn_field_open(field, face, added, MOST, NULL, amount)) {
        free(field);
        return false;
    }
    for (int y = 60; y < 120; y++) {
        const float *f = field[y * MOST + 64];
        const int from = (int)floorf((float)y + 0.5f + zn_lips_way(f) * MOST);

        memcpy(rgb[y - 60], face + (from * MOST + 64) * 3, sizeof *rgb);
        zn_lips_show(rgb[y - 60], f);
    }
    free(field);
    return true;
}

/* Rows of a column that are dark, and those that are teeth. */
static void count(int n[2], const float *face, float amount)
{
    float rgb[60][3];

    n[0] = n[1] = -1;
    if (!column(rgb, face, amount))
        return;
    n[0] = n[1] = 0;
    for (int y = 0; y < 60; y++) {
        n[0] += rgb[y][1] < 0.2f;
        n[1] += rgb[y][2] > 0.7f;
    }
}

/* A shut mouth opens, the more the larger the amount; one with teeth is shut, or half of it; neither does the other's; no numbers are none. */
static void test_mouth(void)
{
    static float face[MOST * MOST * 3];
    int n[2], half[2];

    make_mouth(face, 0);
    count(n, face, 1);
    count(half, face, 0.5f);
    CHECK(n[0] >= 6 && n[0] <= 12 && half[0] >= 3 && half[0] < n[0], "opened by %d rows, by %d", n[0], half[0]);
    count(n, face, -1);
    CHECK(n[0] <= 2 && n[1] == 0, "%d dark rows of a shut mouth that is shut", n[0]);
    make_mouth(face, 12);
    count(n, face, 0);
    CHECK(n[0] == 0 && n[1] == 13, "%d rows of teeth", n[1]);
    count(half, face, -0.5f);
    count(n, face, -1);
    CHECK(n[1] == 0 && half[1] > 4 && half[1] < 10, "shut, %d rows of teeth, half %d", n[1], half[1]);
    count(n, face, 1);
    CHECK(n[0] == 0 && n[1] == 13, "an open mouth, opened: %d dark rows", n[0]);
    face[88 * MOST * 3] = NAN;
    count(n, face, -1);
    CHECK(n[1] == 13, "shut with a pixel that is no number");
}

/* What looks like a mouth in one half, and lower, in a beard, in the other is none to shut. */
static void test_no_mouth(void)
{
    static float face[MOST * MOST * 3];
    int n[2];

    make_mouth(face, 12);
    for (int i = 0; i < MOST * MOST; i++)
        for (int c = 0; c < 3 && i % MOST >= 66 && i % MOST < 86 && i / MOST >= 76 && i / MOST < 108; c++)
            face[i * 3 + c] = i / MOST < 96 ? tones[LIPS][c] : 0.1f;
    count(n, face, -1);
    CHECK(n[1] == 13, "%d rows of teeth are left", n[1]);
}

/* A mouth that shows yellow teeth below its line opens below them: they stay at the upper lip, all of them. */
static void test_mouth_with_teeth(void)
{
    static const float yellow[3] = { 0.85f, 0.75f, 0.5f };
    static float face[MOST * MOST * 3];
    float rgb[60][3];
    int teeth = 0, dark = 0, first = 60, last = 0;

    make_mouth(face, 0);
    for (int i = 0; i < MOST * MOST; i++)
        if (abs(i % MOST - 64) < 22 && i / MOST > 88 && i / MOST <= 92)
            memcpy(face + i * 3, yellow, sizeof yellow);
    CHECK(column(rgb, face, 1), "out of memory");
    for (int y = 0; y < 60; y++) {
        const bool is_tooth = fabsf(rgb[y][1] - yellow[1]) < 0.05f;

        teeth += is_tooth;
        last = is_tooth ? y : last;
        if (rgb[y][1] < 0.12f) {
            dark++;
            first = first < y ? first : y;
        }
    }
    CHECK(teeth >= 3 && teeth <= 5, "%d rows of teeth", teeth);
    CHECK(dark >= 1 && dark < 5 && first > last, "%d dark rows from %d on, teeth to %d", dark, first, last);
}

/* The change of a picture of W x H with a turned frame; [H][W][3], freed by the caller; NULL: out of memory. */
static float *change(const float *picture, const float *to, const float *from, int side, double opens, zn_rect rect,
                     int n_threads)
{
    const zn_choice choice = { .n_threads = n_threads };
    const zn_face_work k = { .side = side,
                             .workers = { session, &choice },
                             .square = { W / 2., H / 2., 250, cos(0.2), sin(0.2) } };
    zn_patch patch = { rect, malloc((size_t)rect.w * (size_t)rect.h * 3 * sizeof(float)) };
    zn_array out = { calloc((size_t)rect.w * (size_t)rect.h * 3, sizeof *out.data), rect.h, rect.w, 3 };
    bool ok = patch.pixels && out.data;

    for (int i = 0; ok && i < rect.w * rect.h; i++)
        for (int c = 0; c < 3; c++)
            patch.pixels[i * 3 + c] = picture[((rect.y + i / rect.w) * W + rect.x + i % rect.w) * 3 + c];
    ok = ok && zn_moved_paste(&out, moved(to, from, side, opens), side, &k, &patch, NULL);
    free(patch.pixels);
    if (!ok) {
        free(out.data);
        return NULL;
    }
    return out.data;
}

static const zn_rect whole = { 0, 0, W, H }, part = { 5, 3, W - 9, H - 4 };

/* Rows of the part that differ from the whole's. */
static int rows_differ(const float *smaller, const float *all)
{
    int n = 0;

    for (int y = 0; y < part.h; y++)
        n += memcmp(smaller + y * part.w * 3, all + ((y + part.y) * W + part.x) * 3,
                    (size_t)part.w * 3 * sizeof *all) != 0;
    return n;
}

/* Fine structure moves with the face and stays as strong as it was; nothing drawn changes nothing; threads and the part of the picture
 * that was read do not matter. */
static void test_picture(void)
{
    static float from[MOST * MOST * 3], to[MOST * MOST * 3], picture[W * H * 3];
    const int side = 65;
    float *none, *one, *three, *smaller;
    double before = 0, after = 0;
    int n = 0;

    for (int i = 0; i < W * H * 3; i++)
        picture[i] = (float)(0.5 + 0.1 * zn_normal(3, (uint64_t)i, 0));
    make_faces(from, to, side, 0.02);
    none = change(picture, from, from, side, 0, whole, 2);
    one = change(picture, to, from, side, 0, whole, 1);
    three = change(picture, to, from, side, 0, whole, 3);
    smaller = change(picture, to, from, side, 0, part, 2);
    CHECK(none && one && three && smaller, "out of memory");
    for (int i = 0; i < W * H * 3; i++)
        n += none[i] != 0;
    CHECK(!n, "%d values changed", n);
    CHECK(!memcmp(one, three, W * H * 3 * sizeof *one), "the number of threads changes the result");
    n = rows_differ(smaller, one);
    CHECK(!n, "%d rows of a smaller part differ", n);
    for (int y = H / 2 - 20; y < H / 2 + 20; y++)
        for (int x = W / 2 - 20; x < W / 2 + 20; x++) {
            const int i = (y * W + x) * 3;

            before += pow((double)picture[i] - (double)picture[i + 3], 2);
            after += pow((double)(picture[i] + one[i]) - (double)(picture[i + 3] + one[i + 3]), 2);
        }
    CHECK(after > 0.5 * before && after < 1.3 * before, "structure of %g is now %g", before, after);
    free(none);
    free(one);
    free(three);
    free(smaller);
}

/* A mouth that parts or closes changes the picture in the same way with any threads and part of it that was read. */
static void test_mouth_of_picture(void)
{
    static float face[2][MOST * MOST * 3], picture[W * H * 3];

    for (int i = 0; i < W * H * 3; i++)
        picture[i] = (float)(0.5 + 0.1 * zn_normal(4, (uint64_t)i, 0));
    make_mouth(face[0], 0);
    make_mouth(face[1], 12);
    for (int shuts = 0; shuts < 2; shuts++) {
        const float *from = face[shuts], *to = face[1 - shuts];
        float *stays = change(picture, to, from, MOST, 0, whole, 2);
        float *one = change(picture, to, from, MOST, shuts ? -1 : 1, whole, 1);
        float *smaller = change(picture, to, from, MOST, shuts ? -1 : 1, part, 3);
        int n = 0;

        CHECK(stays && one && smaller, "out of memory");
        for (int i = 0; i < W * H; i++)
            n += fabsf(stays[i * 3] - one[i * 3]) > 0.2f;
        CHECK(n > 300, "a mouth that %s changes %d pixels", shuts ? "shuts" : "opens", n);
        n = rows_differ(smaller, one);
        CHECK(!n, "%s: %d rows of a smaller part differ", shuts ? "shut" : "open", n);
        free(stays);
        free(one);
        free(smaller);
    }
}

int main(void)
{
    zn_error err;

    if (zn_session_open(&session, &err))
        return 1;
    RUN(test_flow);
    RUN(test_shapes);
    RUN(test_picture);
    RUN(test_mouth);
    RUN(test_no_mouth);
    RUN(test_mouth_with_teeth);
    RUN(test_mouth_of_picture);
    zn_session_close(&session);
    return test_end();
}
