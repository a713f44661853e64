/* SPDX-License-Identifier: MIT */
/* test_face_parts.c - what of the composite `face` runs no network: settings as text, the contrast of a face between two, means over squares. */
#include "test.h"

#include "pipeline/face.h"

#include <stdint.h>

/* ---- settings as text ---------------------------------------------------------------------------------------------- */

static void test_settings_as_text(void)
{
    static const struct {
        const char *text, *why; /* NULL: accepted */
    } each[] = {
        { "amount=1", "amount comes after an attribute" },
        { "attribute=smile", NULL },
        { "amount=0.5", NULL },
        { "attribute=age", NULL },
        { "amount=-1", NULL },
        { "amount=2", "amount must be a number from -1 to 1, not '2'" },
        { "mode=interpolate", NULL },
        { "find=middle", NULL },
        { "frame-size=80", NULL },
        { "mode=", "mode must be manipulate|reconstruct|interpolate|sample, not ''" },
        { "mode=interpol", "not 'interpol'" },
        { "strip=1.5", "whole number" },
        { "smile=2", "smile must be a number from -1 to 1, not '2'" },
        { "grin=1", "face has no setting 'grin'" },
    };
    zn_face_how how = zn_face_defaults();
    zn_error err;

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const zn_status s = zn_face_set(&how, each[i].text, &err);

        CHECK(s == (each[i].why ? ZN_E_USAGE : ZN_OK) && (!s || strstr(err.text, each[i].why)), "%s: %d, %s",
              each[i].text, s, s ? err.text : "");
    }
    CHECK(!strcmp(how.change[0].attribute, "smile") && how.change[0].amount == 0.5 &&
              !strcmp(how.change[1].attribute, "age") && how.change[1].amount == -1 && !how.change[2].attribute,
          "other changes were set");
    CHECK(how.task == ZN_FACE_INTERPOLATE && how.search == ZN_SEARCH_OR_MIDDLE && how.frame.size == 80,
          "other values were set");
    for (int i = 2; i < ZN_FACE_GIVEN; i++)
        CHECK(!zn_face_set(&how, "attribute=x", &err), "%d: %s", i, err.text);
    CHECK(zn_face_set(&how, "attribute=x", &err) == ZN_E_USAGE && strstr(err.text, "at most 16"), "'%s'", err.text);
}

/* Every slider is a setting, and an attribute of the shipped file is a slider. */
static void test_sliders_as_text(void)
{
    const char *file = ZN_SOURCE_ROOT "/models/zenith-face.attributes.safetensors";
    zn_face_how how = zn_face_defaults();
    zn_weights *w = NULL;
    zn_error err = { "" };
    char names[1024];

    for (int i = 0; i < ZN_FACE_SLIDERS; i++) {
        char text[64];

        snprintf(text, sizeof text, "%s=0.5", zn_face_sliders[i]);
        CHECK(!zn_face_set(&how, text, &err) && how.slider[i] == 0.5, "%s: %s", text, err.text);
    }
    if (zn_weights_open(&w, &file, 1, &err)) {
        CHECK(false, "%s", err.text);
        return;
    }
    snprintf(names, sizeof names, "%s", zn_weights_meta(w, "names"));
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        int i = 0;

        while (i < ZN_FACE_SLIDERS && strcmp(name, zn_face_sliders[i]))
            i++;
        CHECK(i < ZN_FACE_SLIDERS, "%s is no slider", name);
    }
    zn_weights_close(&w);
}

/* ---- the contrast of a face between two ----------------------------------------------------------------------------------- */

/* Noise of this deviation around grey, left and right of the middle. */
static void make_noise(float *pixels, int side, double left, double right, uint32_t seed)
{
    zn_noise_fill(pixels, (size_t)side * (size_t)side * 3, seed, 0);
    for (int i = 0; i < side * side * 3; i++)
        pixels[i] = (float)(0.5 + (i / 3 % side < side / 2 ? left : right) * (double)pixels[i]);
}

/* The deviation of columns x0 to x1 from grey. */
static double deviation(const float *pixels, int side, int x0, int x1)
{
    double sum = 0;

    for (int y = 0; y < side; y++)
        for (int i = (y * side + x0) * 3; i < (y * side + x1) * 3; i++)
            sum += ((double)pixels[i] - 0.5) * ((double)pixels[i] - 0.5);
    return sqrt(sum / ((double)side * (x1 - x0) * 3));
}

enum { LARGE = 96 };
static float plain[LARGE * LARGE * 3], rough[LARGE * LARGE * 3], drawn[LARGE * LARGE * 3], got[LARGE * LARGE * 3];

/* The left of the first face is plain, and the network drew texture there: it goes as far as it may.  The right is as it should
 * be, and stays. */
static void test_contrast_levels(void)
{
    double left, right;

    make_noise(plain, LARGE, 0, 0.1, 1);
    make_noise(rough, LARGE, 0.06, 0.1, 2);
    make_noise(drawn, LARGE, 0.1, 0.1, 3);
    CHECK(zn_face_level_contrast(got, drawn, plain, rough, LARGE, 0.5), "out of memory");
    left = deviation(got, LARGE, 0, 24);
    right = deviation(got, LARGE, 72, 96);
    /* sqrt((0 + 0.06^2) / 2); the mean of what is coarser than both bands stays */
    CHECK(fabs(left - 0.0424) < 0.004, "plain and textured: %g", left);
    CHECK(fabs(right - 0.1) < 0.004, "both textured: %g", right);
    CHECK(zn_face_level_contrast(got, drawn, plain, plain, LARGE, 0.5), "out of memory"); /* not beyond the factors */
    left = deviation(got, LARGE, 0, 24);
    CHECK(left > 0.036 && left < 0.046, "both plain: %g", left);
    CHECK(zn_face_level_contrast(got, plain, drawn, rough, LARGE, 0.5), "out of memory");
    CHECK(deviation(got, LARGE, 0, 24) < 1e-6, "texture came from nothing");
}

/* At the ends, and where nothing differs, the face is the drawn one. */
static void test_contrast_ends(void)
{
    static const int sides[] = { 1, 2, 7, 33 };

    for (int i = 0; i < 4; i++) {
        const size_t len = (size_t)sides[i] * (size_t)sides[i] * 3;

        make_noise(plain, sides[i], 0.02, 0.1, 4);
        make_noise(rough, sides[i], 0.1, 0.01, 5);
        make_noise(drawn, sides[i], 0.2, 0.2, 6);
        for (int end = 0; end < 2; end++) {
            CHECK(zn_face_level_contrast(got, drawn, plain, rough, sides[i], end), "out of memory");
            CHECK(!memcmp(got, drawn, len * sizeof *got), "side %d, end %d", sides[i], end);
        }
        CHECK(zn_face_level_contrast(got, drawn, drawn, drawn, sides[i], 0.3), "out of memory");
        for (size_t k = 0; k < len; k++)
            CHECK(fabsf(got[k] - drawn[k]) < 1e-5f, "side %d: %g became %g", sides[i], (double)drawn[k],
                  (double)got[k]);
    }
}

/* ---- means over squares --------------------------------------------------------------------------------------------- */

/* The formula: the mean over a square of 2 radius + 1 places a side; the nearest place of the edge stands for one beyond it. */
static double mean_of(const double *src, int side, int n, int radius, int at)
{
    const int x = at / n % side, y = at / n / side, across = 2 * radius + 1;
    double sum = 0;

    for (int k = 0; k < across * across; k++) {
        const int u = x - radius + k % across, v = y - radius + k / across;
        const int column = u < 0 ? 0 : u < side ? u : side - 1, row = v < 0 ? 0 : v < side ? v : side - 1;

        sum += src[(row * side + column) * n + at % n];
    }
    return sum / (across * across);
}

static void test_means(void)
{
    static const int each[][3] = { { 1, 1, 1 }, { 2, 3, 5 }, { 7, 5, 9 }, { 17, 3, 4 }, { 33, 2, 12 }, { 64, 1, 1 } };
    static double once[64 * 64], src[64 * 64];
    static float room[64 * 64], single[64 * 64], many[64 * 64];
    const zn_choice choice = { .n_threads = 3 };
    zn_session *session;
    zn_error err;

    CHECK(!zn_session_open(&session, &err), "%s", err.text);
    for (int i = 0; i < 6; i++) {
        const int side = each[i][0], n = each[i][1], radius = each[i][2], len = side * side * n;
        double worst = 0;

        zn_noise_fill(single, (size_t)len, 7, 0);
        for (int k = 0; k < len; k++)
            src[k] = (double)(many[k] = single[k]);
        for (int k = 0; k < len; k++)
            once[k] = mean_of(src, side, n, radius, k);
        zn_mean_twice(single, room, single, side, (size_t)n, radius, NULL);
        zn_mean_twice(many, room, many, side, (size_t)n, radius, &(zn_workers){ session, &choice });
        for (int k = 0; k < len; k++)
            worst = fmax(worst, fabs((double)single[k] - mean_of(once, side, n, radius, k)));
        CHECK(worst < 1e-5, "side %d, radius %d: %g", side, radius, worst);
        CHECK(!memcmp(single, many, (size_t)len * sizeof *many), "side %d: threads change it", side);
    }
    zn_session_close(&session);
}

int main(void)
{
    RUN(test_settings_as_text);
    RUN(test_sliders_as_text);
    RUN(test_contrast_levels);
    RUN(test_contrast_ends);
    RUN(test_means);
    return test_end();
}
