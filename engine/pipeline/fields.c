/* SPDX-License-Identifier: MIT */
/* fields.c - settings of composites as text, and the ranges of their numbers. */
#include "fields.h"

#include "../core/status.h"
#include "../zenith_number.h"

#include <stdio.h>
#include <string.h>

static double number_of(const void *how, const zn_field *f)
{
    const void *at = (const char *)how + f->at;

    switch (f->kind) {
    case ZN_REAL:
        return *(const double *)at;
    case ZN_WHOLE:
    case ZN_NAMED:
        return *(const int32_t *)at;
    default:
        return *(const uint32_t *)at;
    }
}

static zn_status out_of_range(const zn_field *f, const char *text, zn_error *err)
{
    return zn_fail(err, ZN_E_USAGE, "%s must be a number from %g to %g, not '%s'", f->key, f->min, f->max, text);
}

zn_status zn_field_check(const void *how, const zn_field *fields, zn_error *err)
{
    char text[ZN_NUMBER_SIZE];

    if (err)
        err->text[0] = 0;
    for (const zn_field *f = fields; f->key; f++)
        if (f->kind != ZN_TEXT && !(number_of(how, f) >= f->min && number_of(how, f) <= f->max)) /* refuses NaN */
            return out_of_range(f, zn_number_print(text, number_of(how, f)), err);
    return ZN_OK;
}

/* The place of a name among the field's. */
static zn_status set_named(int32_t *at, const zn_field *f, const char *value, zn_error *err)
{
    const size_t n = strlen(value);
    int32_t i = 0;

    for (const char *p = f->help;; i++) {
        const size_t len = strcspn(p, "|");

        if (len == n && !strncmp(p, value, n)) {
            *at = i;
            return ZN_OK;
        }
        if (!p[len])
            return zn_fail(err, ZN_E_USAGE, "%s must be %s, not '%.60s'", f->key, f->help, value);
        p += len + 1;
    }
}

zn_status zn_field_set(void *how, const zn_field *fields, const char *what, const char *text, zn_error *err)
{
    const size_t len = strcspn(text, "=");
    const char *value = text[len] ? text + len + 1 : "";
    const zn_field *f = fields;
    char key[64];
    double v = 0;
    void *at;

    while (f->key && (strlen(f->key) != len || strncmp(f->key, text, len)))
        f++;
    snprintf(key, sizeof key, "%.*s", len < sizeof key ? (int)len : (int)sizeof key - 1, text);
    if (!f->key)
        return zn_fail(err, ZN_E_USAGE, "%s has no setting '%s'", what, key);
    at = (char *)how + f->at;
    if (f->kind == ZN_TEXT) {
        *(const char **)at = value;
        return ZN_OK;
    }
    if (f->kind == ZN_NAMED)
        return set_named(at, f, value, err);
    if (!zn_number_parse(&v, value, NULL) || !(v >= f->min && v <= f->max))
        return out_of_range(f, value, err);
    if (f->kind == ZN_REAL)
        *(double *)at = v;
    else if (f->kind == ZN_WHOLE && v == (int32_t)v)
        *(int32_t *)at = (int32_t)v;
    else if (f->kind == ZN_COUNT && v == (uint32_t)v)
        *(uint32_t *)at = (uint32_t)v;
    else
        return zn_fail(err, ZN_E_USAGE, "%s must be a whole number, not '%s'", f->key, value);
    return ZN_OK;
}

void zn_change_add(float *pixels, int components, const float *change, size_t n)
{
    for (; n; n--, pixels += components, change += 3)
        for (int c = 0; c < 3; c++) {
            const float low = pixels[c] < 0 ? pixels[c] : 0, high = pixels[c] > 1 ? pixels[c] : 1;
            const float sum = pixels[c] + change[c];

            pixels[c] = sum > high ? high : sum < low ? low : sum;
        }
}
