/* SPDX-License-Identifier: MIT */
/* test_logistic.c - the fit behind `zenith teach` against values that are known. */
#include "test.h"

#include "train/logistic.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static double noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state / 2147483648.0 - 1;
}

/* Two points at -1 and 1: the slope is w / penalty = 1 / (1 + exp(w)), so a penalty of 1 / (1 + e) gives w = 1. */
static void closed_form(void)
{
    const double x[2] = { -1, 1 };
    const bool yes[2] = { false, true };
    double w = 0, bias = 1;

    CHECK(!zn_logistic_fit(&w, &bias, x, yes, NULL, 2, 1, 1 / (1 + exp(1.0)), NULL), "the fit failed");
    CHECK(fabs(w - 1) < 1e-9 && fabs(bias) < 1e-9, "w %.12f, bias %.12f", w, bias);
}

/* NumPy: Newton's method on the same objective until the gradient was below 1e-16. */
static void reference(void)
{
    const double want[4] = { 0.6444603981488691, -0.28093829278078924, 1.237265566455953, 0.02525576966876893 };
    const bool yes[7] = { true, true, false, true, false, false, true };
    const bool use[7] = { true, true, true, true, true, true, false };
    double x[7 * 3], w[3], bias;

    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++)
            x[3 * i + k] = (i * 7 + k * 5 + i * k) % 11 / 5.0 - 1;
    x[18] = x[19] = x[20] = 100; /* not used */
    CHECK(!zn_logistic_fit(w, &bias, x, yes, use, 7, 3, 0.1, NULL), "the fit failed");
    for (int k = 0; k < 3; k++)
        CHECK(fabs(w[k] - want[k]) < 1e-9, "w[%d] is %.12f, not %.12f", k, w[k], want[k]);
    CHECK(fabs(bias - want[3]) < 1e-9, "bias %.12f", bias);
}

static void one_side_is_refused(void)
{
    const double x[2] = { -1, 1 };
    const bool yes[2] = { true, true };
    double w, bias;
    zn_error err = { "" };

    CHECK(zn_logistic_fit(&w, &bias, x, yes, NULL, 2, 1, 1, &err) == ZN_E_USAGE && *err.text, "one side was taken");
}

/* Fewer rows than dimensions, one of them twice: the fit of embedded rows is the fit of the rows. */
static void embedding(void)
{
    enum { N = 9, D = 20 };
    double x[N * D], points[N * N], w[D], short_w[N], back[D], bias, other;
    bool yes[N];
    uint32_t state = 7;

    for (int i = 0; i < N * D; i++)
        x[i] = noise(&state);
    memcpy(x + 5 * D, x + 2 * D, D * sizeof *x);
    for (int i = 0; i < N; i++)
        yes[i] = i % 3 == 0;
    zn_logistic_embed(points, x, N, D);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double want = 0, got = 0;

            for (int k = 0; k < D; k++)
                want += x[i * D + k] * x[j * D + k];
            for (int k = 0; k < N; k++)
                got += points[i * N + k] * points[j * N + k];
            CHECK(fabs(want - got) < 1e-9, "product of %d and %d: %g, not %g", i, j, got, want);
        }
    CHECK(!zn_logistic_fit(w, &bias, x, yes, NULL, N, D, 0.05, NULL), "the fit failed");
    CHECK(!zn_logistic_fit(short_w, &other, points, yes, NULL, N, N, 0.05, NULL), "the short fit failed");
    CHECK(zn_logistic_expand(back, short_w, points, x, N, D), "no memory");
    CHECK(fabs(bias - other) < 1e-7, "bias %g, not %g", other, bias);
    for (int k = 0; k < D; k++)
        CHECK(fabs(w[k] - back[k]) < 1e-7, "w[%d] is %g, not %g", k, back[k], w[k]);
}

/* Codes that are far apart must not overflow. */
static void far_apart(void)
{
    const double x[4] = { -1e6, -1e5, 1e5, 1e6 };
    const bool yes[4] = { false, false, true, true };
    double w, bias;

    CHECK(!zn_logistic_fit(&w, &bias, x, yes, NULL, 4, 1, 1e-3, NULL), "the fit failed");
    CHECK(w > 0 && isfinite(w) && isfinite(bias), "w %g, bias %g", w, bias);
}

static void auroc(void)
{
    const double score[6] = { 1, 2, 2, 3, 4, 5 };
    const bool yes[6] = { false, false, true, false, true, true };

    /* pairs: 2 beats 1, ties with 2, loses to 3; 4 and 5 beat all: 7.5 of 9 */
    CHECK(fabs(zn_auroc(score, yes, 6) - 7.5 / 9) < 1e-12, "%g", zn_auroc(score, yes, 6));
    /* the example of Hanley and McNeil 1982: 51 abnormal, 58 normal, area 0.893, standard error 0.032 */
    CHECK(fabs(zn_auroc_error(0.893, 51, 58) - 0.0325) < 5e-4, "%g", zn_auroc_error(0.893, 51, 58));
    CHECK(zn_auroc_error(1, 20, 20) > 0 && zn_auroc_error(1, 20, 20) < 0.02, "%g", zn_auroc_error(1, 20, 20));
}

/* In many dimensions noise can be separated without a fault, but not where it was left out. */
static void noise_is_not_learned(void)
{
    enum { N = 40, D = 200 };
    static double x[N * D];
    double w[D], score[N], bias, seen;
    bool yes[N];
    uint32_t state = 1;

    for (int i = 0; i < N * D; i++)
        x[i] = noise(&state);
    for (int i = 0; i < N; i++)
        yes[i] = i < N / 2;
    CHECK(!zn_logistic_fit(w, &bias, x, yes, NULL, N, D, 0.01, NULL), "the fit failed");
    for (int i = 0; i < N; i++) {
        score[i] = 0;
        for (int k = 0; k < D; k++)
            score[i] += x[i * D + k] * w[k];
    }
    seen = zn_auroc(score, yes, N);
    CHECK(seen > 0.999, "the fit separates only %g", seen);
    CHECK(!zn_logistic_cross(score, x, yes, N, D, 0.01, 10, NULL), "the cross-validation failed");
    CHECK(fabs(zn_auroc(score, yes, N) - 0.5) < 0.25, "noise is separated by %g", zn_auroc(score, yes, N));
    for (int i = 0; i < N; i++) /* and now there is something */
        x[i * D] += yes[i] ? 4 : -4;
    CHECK(!zn_logistic_cross(score, x, yes, N, D, 0.01, 10, NULL), "the cross-validation failed");
    CHECK(zn_auroc(score, yes, N) > 0.95, "a difference is separated by %g only", zn_auroc(score, yes, N));
}

int main(void)
{
    RUN(closed_form);
    RUN(reference);
    RUN(one_side_is_refused);
    RUN(embedding);
    RUN(far_apart);
    RUN(auroc);
    RUN(noise_is_not_learned);
    return test_end();
}
