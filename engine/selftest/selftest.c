/* SPDX-License-Identifier: MIT */
/* selftest.c - the groups of the self-test of a backend, and its entry points. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 200 };

/* "fp16 conv 2/5" is part 2 of 5 of "fp16 conv".  Without such an end: 1 of 1. */
static void split(char begin[NAME_SIZE], const char *only, int *part, int *parts)
{
    char *last, *slash, *end;

    snprintf(begin, NAME_SIZE, "%s", only);
    last = strrchr(begin, ' ');
    slash = last ? strchr(last, '/') : NULL;
    *part = last ? (int)strtol(last, &end, 10) : 0;
    *parts = slash && end == slash ? (int)strtol(slash + 1, &end, 10) : 0;
    if (*parts > 0 && !*end)
        *last = '\0';
    else
        *part = *parts = 1;
}

static unsigned hash_of(const char *name)
{
    unsigned hash = 0;

    for (; *name; name++)
        hash = hash * 31 + (unsigned char)*name;
    return hash >> 4;
}

/* One of the texts of `only`. */
static bool wants_one(const char *text, const char *name, const char *whole)
{
    char begin[NAME_SIZE];
    int part, parts;

    split(begin, text, &part, &parts);
    return (!strncmp(name, begin, strlen(begin)) || !strncmp(whole, begin, strlen(begin))) &&
        hash_of(whole) % (unsigned)parts + 1 == (unsigned)part;
}

bool zn_selftest_wants(const char *only, zn_precision precision, const char *name)
{
    char whole[NAME_SIZE], text[NAME_SIZE];
    size_t len;

    if (!only)
        return true;
    snprintf(whole, sizeof whole, "%s %s", zn_precision_names[precision], name);
    for (;; only += len + 2) {
        len = strcspn(only, ";");
        snprintf(text, sizeof text, "%.*s", (int)len, only);
        if (wants_one(text, name, whole))
            return true;
        if (!only[len] || only[len + 1] != ' ')
            return false;
    }
}

/* Of the tensors of convolutions, that is. */
static zn_type type_of(const zn_backend *b, void *dev, zn_precision p)
{
    return b->plain_type ? b->plain_type(dev, p) : b->tensor_type[p];
}

/* Only convolutions and maps have tensors of this type, or only convolutions differ from another precision. */
static bool convs_alone(const zn_backend *b, const zn_test *t)
{
    return t->precision == ZN_FP8_MATH || t->type != b->tensor_type[t->precision];
}

bool zn_selftest_has(const zn_backend *b, void *dev, zn_precision p)
{
    return b->has_precision(dev, p) && (type_of(b, dev, p) != ZN_F32 || zn_precision_weights(p) == ZN_W_F32);
}

/* t: backend, report, and which cases. */
static int run(zn_test t, int n_threads, const char *group)
{
    static const struct {
        const char *name;
        void (*check)(zn_test *t);
    } groups[] = {
        { "conv", zn_check_conv },
        { "gated", zn_check_gated },
        { "norm", zn_check_norm },
        { "attention", zn_check_attention },
        { "rope", zn_check_rope },
        { "lookup", zn_check_lookup },
        { "move", zn_check_move },
        { "elementwise", zn_check_elementwise },
        { "fwht", zn_check_fwht },
        { "pruned", zn_check_pruned },
        { "transformer", zn_check_transformer },
    };
    const zn_backend *backend = t.b;
    zn_error err = { "" };

    t.seed = 20240601u;
    if (backend->open(&t.one, 1, &err) || backend->open(&t.many, n_threads, &err)) {
        t.report(t.cookie, "open", false, err.text);
        t.failures = -1;
    }
    for (int p = 0; t.many && p < ZN_N_PRECISIONS; p++) {
        t.precision = (zn_precision)p;
        t.type = type_of(backend, t.one, t.precision);
        if (!zn_selftest_has(backend, t.one, t.precision))
            continue;
        for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
            if ((!group || !strcmp(group, groups[i].name)) &&
                (!convs_alone(backend, &t) || groups[i].check == zn_check_conv ||
                 (t.precision == ZN_FP8_MATH && groups[i].check == zn_check_transformer)))
                groups[i].check(&t);
    }
    if (t.many)
        backend->close(t.many);
    if (t.one)
        backend->close(t.one);
    return t.failures;
}

int zn_selftest_fails(const zn_backend *backend, int n_threads, const char *group, zn_report *report, void *cookie)
{
    return run((zn_test){ .b = backend, .report = report, .cookie = cookie, .stop = true }, n_threads, group);
}

int zn_selftest_sample(const zn_backend *backend, int n_threads, int every, zn_report *report, void *cookie)
{
    return run((zn_test){ .b = backend, .report = report, .cookie = cookie, .every = every }, n_threads, NULL);
}

int zn_selftest_backend(const zn_backend *backend, int n_threads, const char *only, zn_report *report, void *cookie)
{
    return run((zn_test){ .b = backend, .report = report, .cookie = cookie, .only = only }, n_threads, NULL);
}
