/* SPDX-License-Identifier: MIT */
/* harness.h - the self-test: every operation of a backend at odd sizes, against formulas in double precision.
 *
 *   inputs (random, NaN in the gaps between pixels) ──> backend, 1 thread  ──> y ──┐ same bits?
 *                                │                 └──> backend, n threads ──> y ──┤ canaries alive?
 *                                └──> formula in double ──> want, mag ─────────────┘ |y - want| <= tol?
 *
 * The formulas share no code with any backend, the scalar one included; data goes through upload and download,
 * so that a device is tested the same way.  Tolerances are derived, never tuned: the error of a sum of n products is at
 * most n * eps * sum |products|; the formulas return that sum as `mag` and its length as `terms`.  The tail then
 * multiplies the error by |gain| and by at most 1.13 per activation (the steepest slope of SiLU and GELU), and adds a
 * rounding of its own.
 *
 * To add a case: a line in a table.  To add an operation: a formula, a call, a table, and a line in the list of
 * selftest.c. */
#ifndef ZN_HARNESS_H
#define ZN_HARNESS_H

#include "../special.h"
#include "selftest.h"

#include <math.h>

enum { ZN_CASE_INPUTS = 4 };

typedef struct zn_test {
    const zn_backend *b;
    void *one, *many; /* the backend, open with 1 and with n threads */
    zn_report *report;
    void *cookie;
    int failures;
    uint32_t seed;
    const char *only; /* see zn_selftest */
    bool stop;        /* at the first failure */
    int every, at;    /* of the groups that take long, only every n-th case; 0: all */
    zn_precision
        precision; /* of the runs; a GPU's but fp32 may be off by 1e-2 of the largest result, or element of a sum */
    zn_type type;  /* of tensors on the device */
} zn_test;

typedef struct zn_case zn_case;

/* The innermost loops of formulas take most of the self-test's time.  They are not instrumented by sanitizers, which
 * are for the backends. */
#define ZN_UNCHECKED __attribute__((no_sanitize("address", "undefined")))

/* Runs the operation of a case, on device memory. */
typedef void zn_case_fn(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail t);

struct zn_case {
    char name[160];
    zn_tensor y, in[ZN_CASE_INPUTS]; /* floats in host memory; type: on the device; y's data is not used */
    int n_in;
    int alias; /* y is in[alias] itself; -1: is not */
    zn_tail t; /* residual: &res or NULL */
    zn_tensor res;
    bool res_is_y;
    double *want, *mag; /* before the tail, dense; NaN in want: any value */
    double terms;
    zn_case_fn *call;
    const void *arg; /* of the operation */
    const float *weight, *bias;
};

/* The terms of a case whose inputs are rounded to a type before they are multiplied (backend.h, conv_inputs): the error of a
 * product is added, in units of FLT_EPSILON.  Sums of f16 are bounded as if 48 products long. */
static inline double zn_rounded_terms(double terms, zn_wtype inputs, zn_precision p)
{
    return inputs == ZN_W_F16 ? 0x1p13 * fmin(terms, 48)
        : inputs == ZN_W_BF16 ? terms + (p == ZN_TF32 ? 0x1p9 : 0x1p16)
                              : terms;
}

/* Called at the start of each case of a group that takes long: whether to leave it out. */
static inline bool zn_case_skipped(zn_test *t)
{
    return (t->stop && t->failures) || (t->every > 1 && t->at++ % t->every);
}

/* A case from begin to end; begin's want and mag are zeros, end frees what the harness has allocated. */
zn_case zn_case_begin(zn_case_fn *call, zn_tensor y);
void zn_case_input(zn_test *t, zn_case *k, zn_tensor shape, float scale); /* random, of the run's type */
void zn_case_input_of(zn_test *t, zn_case *k, zn_type type, zn_tensor shape, float scale);
void zn_case_shift(zn_test *t, zn_case *k, float by); /* adds a mean, large against the deviation, to the last input */
void zn_case_tail(zn_test *t, zn_case *k, int i);     /* tail i of a list, modulo its length */
const char *zn_case_tail_name(const zn_case *k);      /* until the next call */
bool zn_case_wanted(const zn_test *t, const zn_case *k); /* by its name; if not, `want` need not be computed */
void zn_case_run(zn_test *t, zn_case *k);
void zn_case_end(zn_case *k);

void *zn_take(size_t n, size_t size);                       /* zeros; never NULL */
float *zn_random_floats(zn_test *t, size_t n, float scale); /* -scale .. scale */
/* Rounds weights [rows][k] to the storage type of a precision, so that storing them again changes nothing. */
void zn_round_weights(float *weight, size_t rows, size_t k, zn_precision p);
float *zn_upload_row(const zn_backend *b, void *dev, const float *row, int c); /* a device copy; NULL of NULL */
double zn_exact_act(double x, zn_act a);

static inline zn_tensor shape(int n, int h, int w, int c, int gap)
{
    return (zn_tensor){ .n = n, .h = h, .w = w, .c = c, .ld = c + gap };
}

static inline size_t span(zn_tensor t) /* floats from the first to the last of a tensor */
{
    return (zn_pixels(t) - 1) * (size_t)t.ld + (size_t)t.c;
}

static inline double at(zn_tensor t, int n, int i, int j, int c)
{
    return t.data[(((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld + (size_t)c];
}

static inline size_t dense_index(zn_tensor t, int n, int i, int j, int c) /* of want and mag */
{
    return (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.c + (size_t)c;
}

/* The groups; their names are in selftest.c. */
void zn_check_conv(zn_test *t);
void zn_check_gated(zn_test *t);
void zn_check_transformer(zn_test *t);
void zn_check_norm(zn_test *t);
void zn_check_attention(zn_test *t);
void zn_check_rope(zn_test *t);
void zn_check_lookup(zn_test *t);
void zn_check_move(zn_test *t);
void zn_check_elementwise(zn_test *t);
void zn_check_fwht(zn_test *t);
void zn_check_pruned(zn_test *t);

#endif
