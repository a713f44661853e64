/* SPDX-License-Identifier: MIT */
/* test_face_eyes.c - the eyes of a large face: where they are, and that eyeballs keep their shape under lids that move. */
#include "test.h"

#include "core/random.h"
#include "pipeline/face.h"

#include <stdlib.h>

enum { W = 620, H = 570, SIDE = 128 };

static const zn_square square = { 305, 290, 500, 0.99500416527802571, 0.099833416646828155 };
static const zn_rect whole = { 0, 0, W, H };
static const double true_eye[2][2] = { { 0.305, 0.29 }, { 0.7, 0.305 } }, radius = 0.034;
static const double upper = -0.7,
                    lower =
                        0.9; /* of lids above and below the centre of the iris, in radii; corners are 2.3 beside it */

static const double flash[2] = { -0.3, -0.3 }, flash_radius = 0.13; /* a highlight */
static const double tear = 0.65;                                    /* below it an iris reflects the lower lid */
static const double fold = -1.6;                                    /* of the upper lid */

typedef enum looks {
    PLAIN,
    FLASH,
    PUPIL,
    DIM,
    NARROW,
    SHUT
} looks; /* with a highlight; a large, dark pupil; a grey white; narrow or shut eyes */

static zn_session *session;
static float face[W * H * 3];

/* u, v of the frame at a pixel. */
static void place(double *u, double *v, int i)
{
    const double a = i % W + 0.5 - square.x, b = i / W + 0.5 - square.y;

    *u = (square.cos * a + square.sin * b) / square.size + 0.5;
    *v = (square.cos * b - square.sin * a) / square.size + 0.5;
}

/* Skin, lashes, white, iris, pupil, highlight, reflection or a light iris, at x, y of an eye. */
static void paint(float rgb[3], double x, double y, looks look)
{
    static const float tones[][3] = { { 0.8f, 0.6f, 0.5f },   { 0.2f, 0.15f, 0.12f },  { 0.85f, 0.82f, 0.8f },
                                      { 0.35f, 0.3f, 0.25f }, { 0.08f, 0.08f, 0.08f }, { 0.98f, 0.98f, 0.98f },
                                      { 0.75f, 0.72f, 0.7f }, { 0.6f, 0.6f, 0.62f },   { 0.48f, 0.42f, 0.38f } };
    const double corner = 0.2, share = 1 - x * x / (2.3 * 2.3), distance = hypot(x, y);
    const double top = corner + ((look == NARROW ? -0.2 : upper) - corner) * share;
    const double bottom = corner + ((look == NARROW ? 0.5 : lower) - corner) * share;
    const bool lit = look == FLASH && hypot(x - flash[0], y - flash[1]) < flash_radius;
    const int iris = look == PUPIL ? 7 : look == FLASH && y > tear ? 6 : 3, white = look == DIM ? 8 : 2;
    const int inside = lit ? 5 : distance < (look == PUPIL ? 0.72 : 0.4) ? 4 : distance < 1 ? iris : white;
    const int open = share <= 0 || y > bottom || y < top - 0.25 ? 0 : y < top ? 1 : inside;
    const int what = look == SHUT ? share > 0 && fabs(y - bottom) < 0.12 : open;

    for (int c = 0; c < 3; c++)
        rgb[c] = tones[what][c] - (look == FLASH && fabs(y - fold) < 0.05 ? 0.15f : 0) +
            (what == 3 ? 0.05f * (float)sin(9 * atan2(y, x)) : 0);
}

static void make_face(float *pixels, looks look)
{
    for (int i = 0; i < W * H; i++) {
        double u, v;
        int e;

        place(&u, &v, i);
        e = u > 0.5;
        paint(pixels + i * 3, (u - true_eye[e][0]) / radius, (v - true_eye[e][1]) / radius, look);
        for (int c = 0; c < 3; c++)
            pixels[i * 3 + c] += (float)(0.01 * zn_normal(5, (uint64_t)(i * 3 + c), 0));
    }
}

static bool find(zn_eyes *eyes, float *pixels, int n_threads)
{
    const zn_choice choice = { .n_threads = n_threads };

    return zn_eyes_find(eyes, &square, &(zn_patch){ whole, pixels }, &(zn_workers){ session, &choice });
}

static void test_found(void)
{
    zn_eyes eyes, other;

    CHECK(find(&eyes, face, 1) && find(&other, face, 3), "out of memory");
    CHECK(eyes.found, "no eyes are found");
    CHECK(!memcmp(eyes.eye, other.eye, sizeof eyes.eye), "the number of threads changes eyes");
    for (int e = 0; e < 2; e++) {
        const zn_eye *eye = eyes.eye + e;
        const double x = (eye->x - true_eye[e][0]) / radius, y = (eye->y - true_eye[e][1]) / radius;

        CHECK(fabs(x) < 0.12 && fabs(y) < 0.15, "eye %d is off by %g, %g radii", e, x, y);
        CHECK(fabs(eye->radius / radius - 1) < 0.1, "eye %d: radius %g", e, eye->radius);
        CHECK(fabs((double)eye->upper[1] - upper) < 0.25 && fabs((double)eye->lower[1] - lower) < 0.25,
              "eye %d: lids at %g, %g", e, (double)eye->upper[1], (double)eye->lower[1]);
    }
}

/* Irises are found whose pupils have a sharper edge, or whose white is grey; none is in eyes that are shut. */
static void test_looks(void)
{
    static const looks kind[] = { FLASH, PUPIL, DIM, NARROW, SHUT };
    static const char *names[] = { "a highlight", "a large pupil", "a grey white", "narrow eyes", "shut eyes" };
    static float pixels[W * H * 3];

    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        zn_eyes eyes;

        make_face(pixels, kind[k]);
        CHECK(find(&eyes, pixels, 2), "out of memory");
        CHECK(eyes.found == (kind[k] != SHUT), "%s: found is %d", names[k], eyes.found);
        for (int e = 0; e < 2 && kind[k] != SHUT; e++) {
            const zn_eye *eye = eyes.eye + e;

            CHECK(fabs(eye->radius / radius - 1) < 0.1, "%s: eye %d has a radius of %g", names[k], e, eye->radius);
            CHECK(fabs(eye->x - true_eye[e][0]) < 0.15 * radius && fabs(eye->y - true_eye[e][1]) < 0.25 * radius,
                  "%s: eye %d is off by %g radii", names[k], e, (eye->y - true_eye[e][1]) / radius);
            CHECK(kind[k] != NARROW || eye->y > true_eye[e][1] - 0.09 * radius, "%s: eye %d is too high by %g radii",
                  names[k], e, (true_eye[e][1] - eye->y) / radius);
        }
    }
}

/* Where there are no eyes, none is found; whatever the picture, eyes are finite. */
static void test_none(void)
{
    static const char *names[] = { "flat", "noise", "no numbers", "infinite", "huge" };
    static float pixels[W * H * 3];

    for (int k = 0; k < 5; k++) {
        zn_eyes eyes;

        for (int i = 0; i < W * H * 3; i++)
            pixels[i] = k == 0 ? 0.5f
                : k == 1       ? (float)(0.5 + 0.2 * zn_normal(6, (uint64_t)i, 0))
                : k == 2       ? NAN
                : k == 3       ? (i % 7 ? INFINITY : -INFINITY)
                               : (i % 5 ? 3e38f : -3e38f);
        CHECK(find(&eyes, pixels, 2), "out of memory");
        CHECK(!eyes.found, "%s: eyes are found", names[k]);
        for (int e = 0; e < 2; e++) {
            const zn_eye *eye = eyes.eye + e;

            CHECK(isfinite(eye->x + eye->y + eye->radius) && eye->radius > 0, "%s: no place", names[k]);
            for (int j = 0; j < 3; j++)
                CHECK(isfinite(eye->upper[j] + eye->lower[j]), "%s: no lids", names[k]);
        }
    }
}

/* The picture with its change; a field that moves by dx, dy everywhere; freed by the caller. */
static float *pasted(float *pixels, const zn_eyes *eyes, float dx, float dy, int n_threads)
{
    const zn_choice choice = { .n_threads = n_threads };
    const zn_face_work k = { .side = SIDE, .workers = { session, &choice }, .square = square };
    zn_array out = { calloc(W * H * 3, sizeof *out.data), H, W, 3 };
    zn_face_field *field = calloc(SIDE * SIDE, sizeof *field);

    for (int i = 0; field && i < SIDE * SIDE; i++) {
        field[i][3] = dx;
        field[i][4] = dy;
        field[i][5] = -1;
    }
    if (!out.data || !zn_moved_paste(&out, field, SIDE, &k, &(zn_patch){ whole, pixels }, NULL, NULL, eyes)) {
        free(out.data);
        return NULL;
    }
    for (int i = 0; i < W * H * 3; i++)
        out.data[i] += pixels[i];
    return out.data;
}

/* The largest difference of pixels of an eye, at x within 0.6 radii and these y, from the face. */
static float differ(const float *pixels, double from, double to)
{
    float most = 0;

    for (int i = 0; i < W * H; i++) {
        double u, v, x, y;

        place(&u, &v, i);
        x = (u - true_eye[0][0]) / radius;
        y = (v - true_eye[0][1]) / radius;
        if (fabs(x) < 0.6 && y > from && y < to)
            for (int c = 0; c < 3; c++)
                most = fmaxf(most, fabsf(pixels[i * 3 + c] - face[i * 3 + c]));
    }
    return most;
}

/* Lids close over an iris of which the rest stays as it is; they open, and show skin nowhere in it. */
static void test_lids(void)
{
    zn_eyes eyes;
    float *shut, *open, *again;

    CHECK(find(&eyes, face, 1), "out of memory");
    eyes.opens = 1;
    eyes.eye[0].shut[0] = eyes.eye[1].shut[0] = 0.7f;
    shut = pasted(face, &eyes, 0, 0, 1);
    again = pasted(face, &eyes, 0, 0, 3);
    eyes.eye[0].shut[0] = eyes.eye[1].shut[0] = -0.3f;
    open = pasted(face, &eyes, 0, 0, 1);
    CHECK(shut && open && again, "out of memory");
    CHECK(!memcmp(shut, again, W * H * 3 * sizeof *shut), "the number of threads changes the result");
    CHECK(differ(shut, 0.45, 0.55) < 0.12f, "an iris that is not covered changes by %g",
          (double)differ(shut, 0.45, 0.55));
    CHECK(differ(shut, -0.6, -0.4) > 0.2f, "a lid does not cover an iris");
    CHECK(differ(open, -0.1, 0.3) < 0.08f, "an iris changes by %g", (double)differ(open, -0.1, 0.3));
    for (int i = 0; i < W * H; i++) {
        double u, v;

        place(&u, &v, i);
        if (fabs(u - true_eye[0][0]) > 3.5 * radius && fabs(u - true_eye[1][0]) > 3.5 * radius)
            CHECK(fabsf(shut[i * 3] - face[i * 3]) < 1e-3f, "%g, %g changes", u, v);
        if (hypot(u - true_eye[0][0], v - true_eye[0][1] + 0.75 * radius) < 0.1 * radius)
            CHECK(open[i * 3] < 0.5f, "skin of %g in an iris", (double)open[i * 3]);
    }
    free(shut);
    free(open);
    free(again);
}

/* An iris that a lid uncovers goes on as rings: without the reflection of its lower half and with its highlight where that was, not
 * where the lid is now; lashes are dark there. */
static void test_rings(void)
{
    static float pixels[W * H * 3];
    const double rise = 0.4;
    zn_eyes eyes;
    float *open;

    make_face(pixels, FLASH);
    CHECK(find(&eyes, pixels, 1), "out of memory");
    eyes.opens = 1;
    eyes.eye[0].shut[0] = eyes.eye[1].shut[0] = (float)-rise;
    open = pasted(pixels, &eyes, 0, 0, 1);
    CHECK(open, "out of memory");
    for (int i = 0; open && i < W * H; i++) {
        double u, v, x, y;

        place(&u, &v, i);
        x = (u - true_eye[0][0]) / radius;
        y = (v - true_eye[0][1]) / radius;
        if (hypot(x - flash[0], y - flash[1]) < 0.5 * flash_radius)
            CHECK(open[i * 3] > 0.7f, "a highlight is gone: %g", (double)open[i * 3]);
        else if (hypot(x - flash[0], y - flash[1]) > 2 * flash_radius && y > -0.8 && y < -0.3 && hypot(x, y) < 0.85)
            CHECK(open[i * 3] < 0.5f, "%g at %g, %g of an iris", (double)open[i * 3], x, y);
        if (hypot(x, y) > 0.5 && hypot(x, y) < 0.8 && y > -0.7 && y < -0.4 && hypot(x - flash[0], y - flash[1]) > 0.3)
            CHECK(open[i * 3] > 0.12f, "%g at %g, %g of an iris", (double)open[i * 3], x, y);
    }
    free(open);
}

/* A lid that goes down leaves a highlight where it is, and covers it; its skin is stretched, but not the grain of it. */
static void test_lid(void)
{
    static float pixels[W * H * 3];
    double along = 0, across = 0;
    zn_eyes eyes;
    float *shut;

    make_face(pixels, FLASH);
    CHECK(find(&eyes, pixels, 1), "out of memory");
    eyes.opens = -1;
    eyes.eye[0].shut[0] = eyes.eye[1].shut[0] = 0.7f;
    shut = pasted(pixels, &eyes, 0, 0, 1);
    CHECK(shut, "out of memory");
    for (int i = 0; shut && i < W * H; i++) {
        double u, v, x, y;

        place(&u, &v, i);
        x = (u - true_eye[0][0]) / radius;
        y = (v - true_eye[0][1]) / radius;
        if (y > 0.1 && y < tear - 0.1 && fabs(x) < 0.6)
            CHECK(shut[i * 3] < 0.55f, "a highlight of %g moves with the lid", (double)shut[i * 3]);
        if (fabs(x) < 0.3 && y > fold + 0.6 && y < fold + 0.8)
            CHECK(shut[i * 3] > 0.74f, "a fold is seen twice: %g", (double)shut[i * 3]);
        if (fabs(x) < 0.8 && y > -1 && y < -0.5)
            for (int c = 0; c < 3; c++) {
                const double beside = (double)(shut[(i + 1) * 3 + c] - shut[i * 3 + c]);
                const double below = (double)(shut[(i + W) * 3 + c] - shut[i * 3 + c]);

                across += beside * beside;
                along += below * below;
            }
    }
    CHECK(along > 0.8 * across, "grain is stretched: %g of %g", along, across);
    free(shut);
}

/* An upper lid goes down in proportion to the height of the opening, and not past the lower lid beside a corner. */
static void test_corners(void)
{
    zn_eyes eyes = { .found = true, .opens = -1 };

    for (int e = 0; e < 2; e++)
        eyes.eye[e] = (zn_eye){ .x = true_eye[e][0],
                                .y = true_eye[e][1],
                                .radius = radius,
                                .upper = { -0.05f, -0.8f, -0.05f },
                                .lower = { 0.25f, 0.8f, 0.25f },
                                .shut = { 0.7f, 0.28f },
                                .scale = 1 };
    for (int k = -2; k <= 2; k++) {
        const double x = 0.7 * k, arch = 1 - x * x / 2.25, edge = -0.05 - 0.75 * arch, height = 0.3 + 1.3 * arch;
        double y = edge;

        for (zn_face_field f = { 0 }; y < 1; y += 0.01) { /* until what was the edge of the lid is there */
            zn_eyes_move(f, &eyes, true_eye[0][0] + radius * x, true_eye[0][1] + radius * y);
            if (y + (double)f[4] / radius >= edge)
                break;
        }
        CHECK(y > edge + 0.1, "at %g the lid stays", x);
        CHECK((y - edge) / height < 1.45 * 0.7 / 1.6, "at %g the lid goes down by %g of %g", x, y - edge, height);
    }
}

/* Lids that move by themselves go as far as a field moves them. */
static void test_follow(void)
{
    static zn_face_field field[SIDE * SIDE];
    zn_eyes eyes;

    CHECK(find(&eyes, face, 1), "out of memory");
    for (int i = 0; i < SIDE * SIDE; i++) {
        const double y = ((i / SIDE + 0.5) / SIDE - 0.3) / radius;

        field[i][4] = (float)(-0.4 * radius * exp(-(y + 0.4) * (y + 0.4)));
    }
    eyes.opens = -1;
    zn_eyes_follow(&eyes, (const zn_face_field *)field, SIDE);
    for (int e = 0; e < 2; e++)
        CHECK(eyes.eye[e].shut[0] > 0.25f && eyes.eye[e].shut[0] < 0.8f, "lid %d closes by %g", e,
              (double)eyes.eye[e].shut[0]);
    for (int i = 0; i < SIDE * SIDE; i++)
        field[i][4] = i % 3 ? NAN : INFINITY;
    zn_eyes_follow(&eyes, (const zn_face_field *)field, SIDE);
    for (int e = 0; e < 2; e++)
        CHECK(isfinite(eyes.eye[e].shut[0]) && isfinite(eyes.eye[e].shut[1]), "lid %d moves by no number", e);
}

/* Eyes that a field enlarges are seen as much larger, up to a limit; those that it narrows keep their size. */
static void test_larger_eyes(void)
{
    static zn_face_field field[SIDE * SIDE];
    static const double larger[][3] = {
        { -0.1, -0.1, 0.9 }, { -0.15, -0.05, 0.9 }, { -0.5, -0.5, 0.8 }, { 0, 0.3, 1 }
    };
    zn_eyes eyes;

    CHECK(find(&eyes, face, 1), "out of memory");
    for (size_t k = 0; k < sizeof larger / sizeof *larger; k++) {
        for (int i = 0; i < SIDE * SIDE; i++) {
            const double u = (i % SIDE + 0.5) / SIDE, v = (i / SIDE + 0.5) / SIDE, *eye = true_eye[u > 0.5];

            field[i][3] = (float)(larger[k][0] * (u - eye[0]));
            field[i][4] = (float)(larger[k][1] * (v - eye[1]));
        }
        zn_eyes_follow(&eyes, (const zn_face_field *)field, SIDE);
        for (int e = 0; e < 2; e++)
            CHECK(fabs(eyes.eye[e].scale - larger[k][2]) < 0.02, "field %zu: eye %d of %g instead of %g", k, e,
                  eyes.eye[e].scale, larger[k][2]);
    }
}

/* A face that moves as a whole takes its eyeballs with it: there is no seam. */
static void test_moves(void)
{
    zn_eyes eyes, none = { .found = false };
    float *with, *without;
    zn_face_field *field = calloc(SIDE * SIDE, sizeof *field);
    float most = 0;

    CHECK(find(&eyes, face, 1) && field, "out of memory");
    for (int i = 0; field && i < SIDE * SIDE; i++) {
        field[i][3] = 0.004f;
        field[i][4] = -0.002f;
    }
    zn_eyes_follow(&eyes, (const zn_face_field *)field, SIDE);
    with = pasted(face, &eyes, 0.004f, -0.002f, 2);
    without = pasted(face, &none, 0.004f, -0.002f, 2);
    CHECK(with && without, "out of memory");
    for (int i = 0; i < W * H * 3; i++)
        most = fmaxf(most, fabsf(with[i] - without[i]));
    CHECK(most < 0.05f, "eyeballs differ by %g", (double)most);
    free(with);
    free(without);
    free(field);
}

int main(void)
{
    zn_error err;

    if (zn_session_open(&session, &err))
        return 1;
    make_face(face, PLAIN);
    RUN(test_found);
    RUN(test_looks);
    RUN(test_none);
    RUN(test_lids);
    RUN(test_rings);
    RUN(test_lid);
    RUN(test_corners);
    RUN(test_follow);
    RUN(test_larger_eyes);
    RUN(test_moves);
    zn_session_close(&session);
    return test_end();
}
