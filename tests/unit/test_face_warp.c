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

/* The field of a face that is drawn as `to`; lips: NULL, or what moves; NULL: out of memory. */
static zn_face_field *moved(const float *to, const float *from, int side, zn_lips *lips)
{
    zn_face_field *field = zn_field_new(side, to, from, from, 0);

    if (field && !zn_field_move(field, side, &(zn_face_mask){ 0 }, lips, 2)) {
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
    field = moved(to, from, side, NULL);
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

/* Light that is drawn on the right of a face is added, but hardly if that is in the shade. */
static void test_shade(void)
{
    static const double lightness[] = { 0.06, 0.5 };
    static float from[MOST * MOST * 3], to[MOST * MOST * 3];
    float added[2] = { 0, 0 };

    for (int k = 0; k < 2; k++) {
        zn_face_field *field;

        for (int i = 0; i < MOST * MOST * 3; i++) {
            const double u = (i / 3 % MOST + 0.5) / MOST, v = (i / 3 / MOST + 0.5) / MOST;

            from[i] = (float)(u < 0.58 ? 0.5 : lightness[k]);
            to[i] = from[i] + (float)bump(u - 0.24, v, 0.09);
        }
        if (!(field = moved(to, from, MOST, NULL))) {
            CHECK(false, "out of memory");
            return;
        }
        for (int i = 0; i < MOST * MOST; i++)
            if (i % MOST > 0.66 * MOST)
                added[k] = fmaxf(added[k], field[i][1]);
        free(field);
    }
    CHECK(added[0] > 0.001f && added[0] < 0.02f, "%g is added in the shade", (double)added[0]);
    CHECK(added[1] > 0.04f, "%g is added in the light", (double)added[1]);
}

/* Stripes, 16 periods in the frame, around u, v = 0.5, 0.35. */
static double stripes(double u, double v, double size)
{
    return size * sin(2 * 3.14159265 * 16 * u) * exp(-(pow(u - 0.5, 2) + pow(v - 0.35, 2)) / 0.02);
}

/* Creases that are drawn with less contrast get less in the picture, with what is as coarse, and those with more get some more; the mouth
 * and equal faces stay. */
static void test_relief(void)
{
    static float from[MOST * MOST * 3], to[MOST * MOST * 3], picture[256 * 256 * 3];
    static const double sizes[] = { 0.1, 0.03, 0.2 };
    const zn_square square = { 128, 128, 256, 1, 0 };
    const zn_patch patch = { { 0, 0, 256, 256 }, picture };
    zn_relief relief;
    double was = 0, is = 0;

    for (int k = 0; k < 3; k++) {
        const float *at, *mouth;
        zn_face_field *field;

        for (int i = 0; i < MOST * MOST * 3; i++) {
            const double u = (i / 3 % MOST + 0.5) / MOST, v = (i / 3 / MOST + 0.5) / MOST;

            from[i] = (float)(0.5 + stripes(u, v, 0.1) + stripes(u, v - 0.35, 0.1));
            to[i] = (float)(0.5 + stripes(u, v, sizes[k]) + stripes(u, v - 0.35, sizes[k]));
        }
        if (!(field = moved(to, from, MOST, NULL))) {
            CHECK(false, "out of memory");
            return;
        }
        at = field[(int)(0.35 * MOST) * MOST + MOST / 2];
        mouth = field[(int)(0.7 * MOST) * MOST + MOST / 2];
        CHECK(k ? (k == 1 ? at[6] < -0.4f && at[6] > -0.9f : at[6] > 0.2f && at[6] < 0.6f) : at[6] == 0,
              "gain %g for %g", (double)at[6], sizes[k]);
        CHECK(mouth[6] == 0, "the mouth gets a gain of %g", (double)mouth[6]);
        free(field);
    }
    for (int i = 0; i < 256 * 256 * 3; i++)
        picture[i] = (float)(0.5 + stripes((i / 3 % 256 + 0.5) / 256, (i / 768 + 0.5) / 256, 0.1));
    CHECK(zn_relief_make(&relief, &square, &patch, NULL), "out of memory");
    for (int x = 96; relief.band && x < 160; x++) {
        float p[3] = { picture[(90 * 256 + x) * 3] };

        was += fabs((double)p[0] - 0.5);
        zn_relief_add(p, &relief, (x + 0.5) / 256, 90.5 / 256, -0.5f);
        is += fabs((double)p[0] - 0.5);
    }
    CHECK(is > 0.4 * was && is < 0.7 * was, "half of the stripes gone, %g of %g are left", is, was);
    zn_relief_clear(&relief);
}

enum { SKIN, LIPS, TEETH, N = ZN_LIPS };
static const float tones[][3] = { { 0.8f, 0.6f, 0.5f }, { 0.7f, 0.35f, 0.35f }, { 0.85f, 0.83f, 0.78f } };

/* A mouth in the part of the frame where it is looked for, its corners at columns 64 and 192: a dark line between lips that bends down by
 * `bend` rows, or, in the middle, this many rows of teeth, which are darker from column to column. */
static void make_mouth(float *face, int height, int bend)
{
    for (int i = 0; i < N * N; i++) {
        const float t = ((float)(i % N) + 0.5f - N / 2) / 64, arch = fmaxf(1 - t * t, 0);
        const float y = (float)(i / N) + 0.5f - 122 - (float)bend * arch, open = fmaxf((float)height * arch / 2, 1.5f);
        const int what = fabsf(t) >= 1 || fabsf(y) > open + 14 * sqrtf(arch) ? SKIN : fabsf(y) > open ? LIPS : TEETH;

        for (int c = 0; c < 3; c++)
            face[i * 3 + c] =
                what == TEETH && !height ? 0.2f : tones[what][c] - (what == TEETH ? 0.02f * (float)(i % 4) : 0);
    }
}

/* The marks of such a mouth, which a network sees; each is wrong by up to 2 pixels. */
static zn_marks marks_of(int height, int bend)
{
    zn_marks m = { .found = true };

    for (int i = 0; i < ZN_MARKS_LIPS; i++) {
        const int at = i <= 10 ? i : 20 - i;
        const double t = 0.2 * at - 1, arch = 1 - t * t, half = i <= 10 ? -height / 2. : height / 2.;
        const double wrong = i % 3 - 1;

        m.lips[i][0] = (float)(0.5 + (64 * t + wrong) * (double)ZN_LIPS_PART / N);
        m.lips[i][1] = (float)(0.72 + (122 + (bend + half) * arch - 2 * wrong - N / 2) * (double)ZN_LIPS_PART / N);
    }
    return m;
}

static void sample_mouth(float rgb[3], const void *cookie, double x, double y)
{
    const double u = fmin(fmax(((x - 0.5) / (double)ZN_LIPS_PART + 0.5) * N, 0), N - 1);
    const double v = fmin(fmax(((y - 0.72) / (double)ZN_LIPS_PART + 0.5) * N, 0), N - 1);

    memcpy(rgb, (const float *)cookie + ((int)v * N + (int)u) * 3, 3 * sizeof *rgb);
}

/* Of a column, in the frame; and of a row, which lips are given in. */
static double place(int i, double middle)
{
    return middle + ((i + 0.5) / N - 0.5) * (double)ZN_LIPS_PART;
}

/* What is seen where lips have moved by `opens`, [N][N][3]; false: out of memory. */
static bool show(float *seen, zn_lips *lips, const float *face, const zn_marks *marks, double opens)
{
    if (!zn_lips_find(lips, face, marks))
        return false;
    zn_lips_move(lips, NULL, 0, opens, 0);
    memcpy(seen, face, sizeof(float) * N * N * 3);
    for (int i = 0; lips->moves && i < N * N; i++) {
        const double x = place(i % N, 0.5), y = place(i / N, 0.72);

        zn_lips_show(seen + i * 3, lips, &(zn_moved_view){ x, y, { x, y }, sample_mouth, face });
    }
    return true;
}

/* Rows of a column that are no lips or skin. */
static int rows_inside(const float *seen, int x)
{
    int n = 0;

    for (int y = 0; y < N; y++) {
        const float *p = seen + (y * N + x) * 3;

        n += p[0] < 0.3f || p[0] - p[1] < 0.12f;
    }
    return n;
}

/* Columns where the lips are in each other. */
static int crossed(const zn_lips *lips)
{
    int n = 0;

    for (int i = 0; i < N; i++)
        n += !(lips->to_bottom[i] >= lips->to_top[i] && lips->bottom[i] >= lips->top[i]);
    return n;
}

/* The gap of a shut mouth lies at the line between its lips, which bends, is highest in its middle, the more the larger the amount, and not
 * there at its corners; the lips around keep their size. */
static void test_shut_mouth(void)
{
    static float face[N * N * 3], seen[N * N * 3];
    static const double amounts[] = { 0.3, 0.6, 1 };
    zn_lips lips;

    for (int bend = -10; bend <= 10; bend += 10) {
        const zn_marks marks = marks_of(0, bend);
        float before = 0;

        make_mouth(face, 0, bend);
        for (size_t k = 0; k < sizeof amounts / sizeof *amounts; k++) {
            const float line = (float)place(122 + bend, 0.72);
            float high, corners = 0;

            CHECK(show(seen, &lips, face, &marks, amounts[k]), "out of memory");
            CHECK(lips.sure > 0.9f && !lips.open, "bend %d: sure %g, open %d", bend, (double)lips.sure, lips.open);
            CHECK(!crossed(&lips), "bend %d: lips are in each other", bend);
            high = lips.to_bottom[N / 2] - lips.to_top[N / 2];
            for (int x = 0; x < N; x++)
                if (x < 68 || x > 188)
                    corners = fmaxf(corners, lips.to_bottom[x] - lips.to_top[x]);
            CHECK(high > before && high < 0.11f, "bend %d: %g high, %g before", bend, (double)high, (double)before);
            CHECK(corners < 0.15f * high, "bend %d: %g high at the corners, %g in the middle", bend, (double)corners,
                  (double)high);
            CHECK(lips.to_top[N / 2] < line && lips.to_bottom[N / 2] > line, "bend %d: the gap is not at the line",
                  bend);
            CHECK(line - lips.to_top[N / 2] < lips.to_bottom[N / 2] - line, "bend %d: the upper lip moves more", bend);
            before = high;
        }
        CHECK(rows_inside(seen, N / 2) > 7 && rows_inside(seen, 50) == 0, "bend %d: %d rows are open, %d beside", bend,
              rows_inside(seen, N / 2), rows_inside(seen, 50));
        CHECK(show(seen, &lips, face, &marks, -1) && !lips.moves, "a shut mouth is shut");
    }
}

/* Pixels of teeth that are not those of the same place, of all; n [2]. */
static void count_teeth(int n[2], const float *seen, const float *face)
{
    n[0] = n[1] = 0;
    for (int i = 0; i < N * N; i++)
        if (seen[i * 3] - seen[i * 3 + 1] < 0.05f && seen[i * 3] > 0.6f) {
            n[1]++;
            n[0] += fabsf(seen[i * 3] - face[i * 3]) > 2e-3f;
        }
}

/* Teeth are covered, or stay where they are as they are: none are seen when a mouth is shut, fewer when it is half shut, and as many as
 * before, above dark, when it opens. */
static void test_teeth(void)
{
    static float face[N * N * 3], seen[N * N * 3];
    static const double amounts[] = { 0, -0.5, -1, 1 };
    const zn_marks marks = marks_of(24, 6);
    int n[4][2], darkest = 0;
    zn_lips lips;

    make_mouth(face, 24, 6);
    for (int k = 0; k < 4; k++) {
        CHECK(show(seen, &lips, face, &marks, amounts[k]), "out of memory");
        CHECK(lips.sure > 0.9f && lips.open, "sure %g, open %d", (double)lips.sure, lips.open);
        CHECK(k == 0 || !crossed(&lips), "amount %g: lips are in each other", amounts[k]);
        count_teeth(n[k], seen, face);
    }
    for (int i = 0; i < N * N; i++)
        darkest += seen[i * 3] < 0.3f;
    CHECK(n[0][1] > 1000 && n[0][0] == 0, "%d of %d teeth differ where nothing moves", n[0][0], n[0][1]);
    CHECK(n[1][1] < 0.7 * n[0][1] && n[1][1] > 0.2 * n[0][1], "half shut, %d of %d teeth are seen", n[1][1], n[0][1]);
    CHECK(n[1][0] < 0.6 * n[1][1], "half shut, %d of %d teeth are not at their place", n[1][0], n[1][1]);
    CHECK(n[2][1] < 0.01 * n[0][1], "shut, %d of %d teeth are seen", n[2][1], n[0][1]);
    CHECK(n[3][1] > 0.8 * n[0][1] && n[3][0] < 0.1 * n[3][1], "opened, %d teeth, %d elsewhere", n[3][1], n[3][0]);
    CHECK(darkest > 300, "opened, %d pixels are dark", darkest);
}

/* Painted lips, which are darker than skin, part between them and not at their upper edge. */
static void test_painted_lips(void)
{
    static float face[N * N * 3];
    zn_marks marks = marks_of(0, 0);
    zn_lips lips;

    for (int i = 0; i < N * N; i++) {
        const float t = ((float)(i % N) + 0.5f - N / 2) / 64, arch = fmaxf(1 - t * t, 0);
        const float y = (float)(i / N) + 0.5f - 122, high = 16 * sqrtf(arch);
        const float shade = fabsf(y) < 2.5f ? 0.4f : y > 0 ? 1.1f + 0.1f * cosf(y / 4) : 1;

        for (int c = 0; c < 3; c++)
            face[i * 3 + c] = fabsf(t) >= 1 || fabsf(y) > high ? tones[SKIN][c] : (c ? 0.12f : 0.6f) * shade;
    }
    for (int i = 0; i < ZN_MARKS_LIPS; i++) /* too high, nearer to the upper edge */
        marks.lips[i][1] -= 4 * ZN_LIPS_PART / N;
    CHECK(zn_lips_find(&lips, face, &marks), "out of memory");
    CHECK(lips.sure > 0.9f && !lips.open, "sure %g, open %d", (double)lips.sure, lips.open);
    for (int x = N / 2 - 30; x <= N / 2 + 30; x += 15)
        CHECK(fabs((double)lips.top[x] - place(122, 0.72)) < 0.005, "column %d: line at %g instead of %g", x,
              (double)lips.top[x], place(122, 0.72));
}

/* Gums above the teeth of a laugh, as red as lips, are inside of the mouth: its opening begins at the shadow of the upper lip. */
static void test_gums(void)
{
    static float face[N * N * 3];
    static const float pink[3] = { 0.72f, 0.42f, 0.42f };
    const zn_marks marks = marks_of(40, 6);
    zn_lips lips;

    make_mouth(face, 40, 6);
    for (int i = 0; i < N * N; i++) {
        const float t = ((float)(i % N) + 0.5f - N / 2) / 64, arch = fmaxf(1 - t * t, 0);
        const float below = (float)(i / N) + 0.5f - (122 - 14 * arch);

        for (int c = 0; c < 3 && arch > 0 && below >= 0 && below < 10 * sqrtf(arch); c++)
            face[i * 3 + c] = below < 2.5f ? 0.4f * pink[c] : pink[c];
    }
    CHECK(zn_lips_find(&lips, face, &marks), "out of memory");
    CHECK(lips.sure > 0.9f && lips.open, "sure %g, open %d", (double)lips.sure, lips.open);
    for (int x = N / 2 - 40; x <= N / 2 + 40; x += 20) {
        const double t = (x + 0.5 - N / 2) / 64,
                     y = place(0, 0.72) + (122 - 14 * (1 - t * t)) * (double)ZN_LIPS_PART / N;

        CHECK(fabs((double)lips.top[x] - y) < 0.01, "column %d: top at %g instead of %g", x, (double)lips.top[x], y);
    }
}

/* Lower teeth and the dark above them: when the mouth opens, the teeth go down with their lip, and what is dark becomes higher. */
static void test_lower_teeth(void)
{
    static float face[N * N * 3], seen[N * N * 3];
    const zn_marks marks = marks_of(20, 6);
    int dark[2] = { 0, 0 }, teeth[2] = { 0, 0 };
    zn_lips lips;

    make_mouth(face, 20, 6);
    for (int i = 0; i < N * N; i++) {
        const float t = ((float)(i % N) + 0.5f - N / 2) / 64, arch = fmaxf(1 - t * t, 0);
        const float y = (float)(i / N) + 0.5f - 122 - 6 * arch;

        for (int c = 0; c < 3 && arch > 0 && y > -3 * arch && y < 3 * arch; c++)
            face[i * 3 + c] = 0.1f;
    }
    CHECK(show(seen, &lips, face, &marks, 1), "out of memory");
    CHECK(lips.open && lips.jaw > 0.3f && lips.jaw < 0.7f, "open %d, jaw from %g on", lips.open, (double)lips.jaw);
    for (int y = 0; y < N; y++)
        for (int k = 0; k < 2; k++) {
            const float *p = (k ? seen : face) + (y * N + N / 2) * 3;

            dark[k] += p[0] < 0.3f;
            teeth[k] += p[0] - p[1] < 0.12f && p[0] > 0.6f;
        }
    CHECK(dark[1] > dark[0] + 4, "%d rows are dark, %d before", dark[1], dark[0]);
    CHECK(abs(teeth[1] - teeth[0]) < 3, "%d rows of teeth, %d before", teeth[1], teeth[0]);
}

/* What is dark beside a mouth, and higher, such as a beard or a shadow, is not taken for it. */
static void test_dark_beside(void)
{
    static float face[N * N * 3];
    const zn_marks marks = marks_of(24, 6);
    zn_lips lips;

    make_mouth(face, 24, 6);
    for (int i = 0; i < N * N; i++)
        for (int c = 0; c < 3 && i % N > 204 && i % N < 245 && i / N > 60 && i / N < 190; c++)
            face[i * 3 + c] = 0.1f;
    CHECK(zn_lips_find(&lips, face, &marks), "out of memory");
    CHECK(lips.sure > 0.9f && lips.open, "sure %g, open %d", (double)lips.sure, lips.open);
    CHECK(fabs((double)lips.x[0] - place(64, 0.5)) < 0.04 && fabs((double)lips.x[1] - place(192, 0.5)) < 0.04,
          "corners at %g and %g", (double)lips.x[0], (double)lips.x[1]);
}

/* The grain of a picture is found beside a gradient, white or soft, and what is invented between lips gets as much. */
static void test_grain(void)
{
    static float face[N * N * 3], seen[N * N * 3], picture[300 * 300 * 3];
    const zn_square frame = { 150, 150, 280, 1, 0 };
    const zn_patch patch = { { 0, 0, 300, 300 }, picture };
    const zn_marks marks = marks_of(0, 0);
    zn_lips lips;

    make_mouth(face, 0, 0);
    for (int kind = 0; kind < 3; kind++) {
        double mean = 0, square = 0;
        int n = 0;

        for (int i = 0; i < 300 * 300; i++) {
            const double v = zn_normal(3, 0, (uint64_t)i), right = zn_normal(3, 0, (uint64_t)i + 1);
            const double grain = kind == 0 ? 0 : kind == 1 ? v : (v + right) / sqrt(2);

            for (int c = 0; c < 3; c++)
                picture[i * 3 + c] = (float)(0.2 + 0.6 * (i % 300) / 300 + 0.03 * grain);
        }
        CHECK(show(seen, &lips, face, &marks, 1), "out of memory");
        zn_lips_look(&lips, &frame, &patch);
        CHECK(kind ? lips.grain > 0.018f && lips.grain < 0.036f : lips.grain < 1e-4f, "kind %d: grain %g", kind,
              (double)lips.grain);
        CHECK(kind < 2 ? lips.soft < 0.05f : lips.soft > 0.08f, "kind %d: softness %g", kind, (double)lips.soft);
        for (int i = 0; i < 64; i++) { /* where it is dark, in one row */
            const double x = place(96 + i, 0.5), y = (double)lips.to_bottom[N / 2] - 0.02;
            float with[3], without[3];
            zn_lips plain = lips;

            plain.grain = 0;
            zn_lips_show(with, &lips, &(zn_moved_view){ x, y, { x, y }, sample_mouth, face });
            zn_lips_show(without, &plain, &(zn_moved_view){ x, y, { x, y }, sample_mouth, face });
            mean += (double)(with[0] - without[0]);
            square += pow((double)(with[0] - without[0]), 2);
            n++;
        }
        square = sqrt(square / n);
        CHECK(kind ? square > 0.015 && square < 0.045 && fabs(mean / n) < 0.02 : square < 1e-4,
              "kind %d: %g is added, %g on average", kind, square, mean / n);
    }
}

/* What is no mouth stays: one colour, noise, and pixels that are no numbers give finite results. */
static void test_no_mouth(void)
{
    static float face[N * N * 3];
    zn_marks marks;
    zn_lips lips;

    for (int kind = 0; kind < 9; kind++)
        for (int k = -1; k <= 1; k += 2) {
            int n = 0;

            make_mouth(face, 24, 0);
            marks = marks_of(kind < 2 ? 0 : 24, 0);
            marks.found = kind != 6;
            for (int i = 0; i < ZN_MARKS_LIPS * 2 && kind > 6; i++)
                marks.lips[i / 2][i % 2] = kind == 7 ? NAN : 3 * zn_normal(6, (uint64_t)i, 0);
            for (int i = 0; i < N * N * 3; i++) {
                if (kind < 2)
                    face[i] = 0.5f * (float)kind;
                if (kind == 2)
                    face[i] = zn_normal(5, (uint64_t)i, 0);
                if (kind > 2 && kind < 6 && i % 7 == 0)
                    face[i] = kind == 3 ? NAN : kind == 4 ? INFINITY : -3e38f;
            }
            CHECK(zn_lips_find(&lips, face, &marks), "out of memory");
            CHECK((kind > 1 && kind < 6) || kind == 8 || lips.sure <= 0, "kind %d: sure %g", kind, (double)lips.sure);
            zn_lips_move(&lips, NULL, 0, k, 0);
            for (int i = 0; i < N; i++)
                n += !(isfinite(lips.top[i]) && isfinite(lips.bottom[i]) && isfinite(lips.skin[i % 3]) &&
                       (!lips.moves || (isfinite(lips.to_top[i]) && isfinite(lips.to_bottom[i]))));
            CHECK(!n, "kind %d: %d places are no numbers", kind, n);
        }
}

/* The change of a picture of W x H with a turned frame; [H][W][3], freed by the caller; NULL: out of memory. */
static float *change(const float *picture, const float *to, const float *from, int side, zn_lips *lips, zn_rect rect,
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
    ok = ok && zn_moved_paste(&out, moved(to, from, side, lips), side, &k, &patch, NULL, lips, NULL);
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
    none = change(picture, from, from, side, NULL, whole, 2);
    one = change(picture, to, from, side, NULL, whole, 1);
    three = change(picture, to, from, side, NULL, whole, 3);
    smaller = change(picture, to, from, side, NULL, part, 2);
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

/* A mouth that parts or closes changes the picture in the same way with any threads and part of it that was read; a picture with values
 * that are no numbers or huge gets no other such values. */
static void test_mouth_of_picture(void)
{
    static float mouth[N * N * 3], face[MOST * MOST * 3], picture[W * H * 3];

    make_faces(face, face, MOST, 0);
    for (int shuts = 0; shuts < 2; shuts++) {
        float *stays, *one, *smaller;
        zn_marks marks;
        zn_lips lips;
        int n = 0;

        for (int i = 0; i < W * H * 3; i++)
            picture[i] = (float)(0.5 + 0.1 * zn_normal(4, (uint64_t)i, 0));
        make_mouth(mouth, shuts ? 24 : 0, 0);
        marks = marks_of(shuts ? 24 : 0, 0);
        CHECK(zn_lips_find(&lips, mouth, &marks), "out of memory");
        zn_lips_move(&lips, NULL, 0, shuts ? -1 : 1, 0);
        stays = change(picture, face, face, MOST, NULL, whole, 2);
        one = change(picture, face, face, MOST, &lips, whole, 1);
        smaller = change(picture, face, face, MOST, &lips, part, 3);
        CHECK(stays && one && smaller, "out of memory");
        for (int i = 0; i < W * H; i++)
            n += fabsf(stays[i * 3] - one[i * 3]) > 0.1f;
        CHECK(n > 100, "a mouth that %s changes %d pixels", shuts ? "shuts" : "opens", n);
        n = rows_differ(smaller, one);
        CHECK(!n, "%s: %d rows of a smaller part differ", shuts ? "shut" : "open", n);
        free(stays);
        free(one);
        free(smaller);
        for (int i = 0; i < W * H * 3; i++)
            picture[i] = i / 3 % 5 ? 0.5f : 1e30f;
        one = change(picture, face, face, MOST, &lips, whole, 2);
        n = 0;
        for (int i = 0; one && i < W * H * 3; i++)
            n += !isfinite(one[i]);
        CHECK(one && !n, "%d values are no numbers", n);
        free(one);
    }
}

int main(void)
{
    zn_error err;

    if (zn_session_open(&session, &err))
        return 1;
    RUN(test_flow);
    RUN(test_shapes);
    RUN(test_shade);
    RUN(test_relief);
    RUN(test_picture);
    RUN(test_shut_mouth);
    RUN(test_teeth);
    RUN(test_painted_lips);
    RUN(test_gums);
    RUN(test_lower_teeth);
    RUN(test_dark_beside);
    RUN(test_grain);
    RUN(test_no_mouth);
    RUN(test_mouth_of_picture);
    zn_session_close(&session);
    return test_end();
}
