/* SPDX-License-Identifier: MIT */
/* teach.c - an attribute out of two sets of codes: a fit, how well it separates, and the attribute file. */
#include "../zenith_train.h"
#include "logistic.h"
#include "save.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 10, MAX_CODE = 8192, MAX_NAME = 40 };

/* Of the mean loss, for normalised codes of 512 elements: with 20 pictures a side of five attributes, held-out faces are
 * separated best by 1 (AUROC 0.945 to 0.990), and 0.1 or 10 lose 0.006 at most. */
static const double PENALTY = 1;
static const double SHIFT = 0.3; /* of sqrt(d), in normalised codes, at amount 1; as training/faces/attributes.py */
static const float GUIDE = 2;    /* guidance at amount 1 */

static bool is_name(const char *name)
{
    const size_t n = strlen(name);

    return n >= 1 && n <= MAX_NAME && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && *name != '-';
}

static zn_status check(const zn_lesson *l, zn_error *err)
{
    if (!is_name(l->name))
        return zn_fail(err, ZN_E_USAGE,
                       "'%.60s' is no name of an attribute: it takes 1 to %d small letters, digits and '-'", l->name,
                       MAX_NAME);
    if (strpbrk(l->model, "\"\\") || strlen(l->model) > 255)
        return zn_fail(err, ZN_E_USAGE, "'%.60s' cannot be the name of a model", l->model);
    if (l->n_with < ZN_TEACH_MIN || l->n_without < ZN_TEACH_MIN)
        return zn_fail(err, ZN_E_USAGE,
                       "there are %d faces with and %d without: it takes at least %d of each, better 20", l->n_with,
                       l->n_without, ZN_TEACH_MIN);
    if (l->n_with > ZN_TEACH_MAX || l->n_without > ZN_TEACH_MAX || l->d < 1 || l->d > MAX_CODE)
        return zn_fail(err, ZN_E_USAGE, "%d and %d codes of %d numbers are too many: at most %d of %d", l->n_with,
                       l->n_without, l->d, ZN_TEACH_MAX, MAX_CODE);
    for (int k = 0; k < l->d; k++)
        if (!(l->deviation[k] > 0) || !isfinite(l->deviation[k]) || !isfinite(l->mean[k]))
            return zn_fail(err, ZN_E_FILE, "the statistics of codes hold values that are not finite numbers");
    return ZN_OK;
}

/* x [n][d]: normalised codes, those with the attribute first. */
static bool normalise(double *x, const zn_lesson *l)
{
    const size_t d = (size_t)l->d;

    for (int i = 0; i < l->n_with + l->n_without; i++) {
        const float *code = i < l->n_with ? l->with + (size_t)i * d : l->without + (size_t)(i - l->n_with) * d;

        for (size_t k = 0; k < d; k++) {
            x[(size_t)i * d + k] = ((double)code[k] - (double)l->mean[k]) / (double)l->deviation[k];
            if (!isfinite(x[(size_t)i * d + k]))
                return false;
        }
    }
    return true;
}

/* direction [d], of length 1. */
static zn_status fit(double *direction, zn_teach_report *report, const double *x, const bool *yes, const zn_lesson *l,
                     zn_error *err)
{
    const int n = l->n_with + l->n_without, d = l->d, m = n < d ? n : d;
    const double penalty = PENALTY * d / 512;
    double *points = malloc((size_t)n * (size_t)m * sizeof *points), *v = malloc((size_t)m * sizeof *v);
    double *score = malloc((size_t)n * sizeof *score), bias, length = 0;
    const bool memory = points && v && score;
    zn_status s = memory ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "there is not enough memory to fit %d pictures", n);

    if (!s && m == n)
        zn_logistic_embed(points, x, n, d);
    else if (!s)
        memcpy(points, x, (size_t)n * (size_t)m * sizeof *points);
    report->parts = l->n_with < l->n_without ? l->n_with : l->n_without;
    report->parts = report->parts > MAX_PARTS ? MAX_PARTS : report->parts;
    if (!s)
        s = zn_logistic_cross(score, points, yes, n, m, penalty, report->parts, err);
    if (!s) {
        report->auroc = zn_auroc(score, yes, n);
        report->error = zn_auroc_error(report->auroc, l->n_with, l->n_without);
        s = zn_logistic_fit(v, &bias, points, yes, NULL, n, m, penalty, err);
    }
    if (!s && m == n && !zn_logistic_expand(direction, v, points, x, n, d))
        s = zn_fail(err, ZN_E_MEMORY, "there is not enough memory to fit %d pictures", n);
    else if (!s && m < n)
        memcpy(direction, v, (size_t)d * sizeof *v);
    for (int k = 0; !s && k < d; k++)
        length += direction[k] * direction[k];
    if (!s && !(length > 1e-24))
        s = zn_fail(err, ZN_E_USAGE, "the pictures with and without do not differ");
    for (int k = 0; !s && k < d; k++)
        direction[k] /= sqrt(length);
    free(points);
    free(v);
    free(score);
    return s;
}

static zn_status save(const char *path, const double *direction, const zn_lesson *l, zn_error *err)
{
    const size_t d = (size_t)l->d;
    zn_param param[5] = {
        { .name = "directions", .dims = { 1, l->d }, .len = d },
        { .name = "guide", .dims = { 1 }, .at = d, .len = 1 },
        { .name = "mean", .dims = { l->d }, .at = d + 1, .len = d },
        { .name = "std", .dims = { l->d }, .at = 2 * d + 1, .len = d },
        { .name = "step", .dims = { 1 }, .at = 3 * d + 1, .len = 1 },
    };
    const zn_net net = { .param = param, .n_params = 5, .len = 3 * d + 2 };
    const char *const meta[] = { "names", l->name, "model", l->model, "project", "Zenith", NULL };
    float *data = malloc(net.len * sizeof *data);
    zn_status s;

    if (!data)
        return zn_fail(err, ZN_E_MEMORY, "out of memory while writing %s", path);
    for (size_t k = 0; k < d; k++)
        data[k] = (float)direction[k];
    data[d] = GUIDE;
    memcpy(data + d + 1, l->mean, d * sizeof *data);
    memcpy(data + 2 * d + 1, l->deviation, d * sizeof *data);
    data[3 * d + 1] = (float)(SHIFT * sqrt(l->d));
    s = zn_save_safetensors(path, &net, &(zn_save_part){ "", data }, 1, NULL, 0, meta, err);
    free(data);
    return s;
}

zn_status zn_teach(const char *path, zn_teach_report *report, const zn_lesson *l, zn_error *err)
{
    zn_status s = check(l, err);
    const size_t n = s ? 1 : (size_t)l->n_with + (size_t)l->n_without, d = s ? 1 : (size_t)l->d;
    double *x = malloc(n * d * sizeof *x), *direction = malloc(d * sizeof *direction);
    bool *yes = malloc(n * sizeof *yes);

    if (!s && (!x || !direction || !yes))
        s = zn_fail(err, ZN_E_MEMORY, "there is not enough memory to fit %zu pictures", n);
    for (size_t i = 0; !s && i < n; i++)
        yes[i] = i < (size_t)l->n_with;
    if (!s && !normalise(x, l))
        s = zn_fail(err, ZN_E_USAGE, "a code holds values that are not finite numbers");
    if (!s)
        s = fit(direction, report, x, yes, l, err);
    if (!s)
        s = save(path, direction, l, err);
    free(x);
    free(direction);
    free(yes);
    return s;
}
