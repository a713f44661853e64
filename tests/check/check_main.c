/* SPDX-License-Identifier: MIT */
/* check_main.c - tests, proves and benchmarks the backends of this machine.
 *
 *     check [engine...]            the self-test of every usable engine, or of those named; then the
 *                                  proof that the self-test fails when an operation is broken
 *     check --bench [engine...]    GFLOP/s of typical shapes against the measured peak
 *     --only TEXT                  with --bench: shapes whose names have it
 *     -v                           every case, not only failures
 *     -p fp16                      with --bench: another precision (fp32, tf32, fp16, bf16, fp8); after fp16 come the
 *                                  convolutions that fp8 is for, the conversion of x included
 *     -e N                         every N-th case of the groups that take long: for emulators
 *     -t N                         threads (default: one per core, at least 2) */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../engine/cpu/device.h"
#include "../../engine/selftest/selftest.h"
#include "../unit/leaks.h"

static const zn_backend *const backends[] = { &zn_backend_scalar, &zn_backend_neon, &zn_backend_avx2,
                                              &zn_backend_avx512, &zn_backend_cuda };
enum { N_BACKENDS = sizeof backends / sizeof backends[0] };

static int passed, failed, skipped;

typedef struct options {
    bool verbose, bench;
    int threads, every;
    zn_precision precision;
    const char *only;
    char *const *names;
    int n_names;
} options;

static bool wanted(const options *o, const zn_backend *b)
{
    for (int i = 0; i < o->n_names; i++)
        if (!strcmp(o->names[i], b->name))
            return true;
    return o->n_names == 0;
}

/* ---- the self-test ----------------------------------------------------------------------------------- */

typedef struct printer {
    const char *engine;
    bool verbose;
} printer;

static void print_case(void *cookie, const char *name, bool ok, const char *detail)
{
    const printer *p = cookie;

    passed += ok;
    failed += !ok;
    if (!ok || p->verbose)
        printf("%s %s: %s%s%s\n", ok ? "ok" : "not ok", p->engine, name, ok ? "" : ": ", detail);
}

static void test_backend(const options *o, const zn_backend *b)
{
    printer p = { b->name, o->verbose };
    int before = passed;
    zn_error err;
    void *dev;

    if (b->open(&dev, 1, &err)) {
        printf("skip %s: %s\n", b->name, err.text);
        skipped++;
        return;
    }
    b->close(dev);
    if ((o->every ? zn_selftest_sample(b, o->threads, o->every, print_case, &p)
                  : zn_selftest_backend(b, o->threads, NULL, print_case, &p)) == 0)
        printf("ok %s: %d cases\n", b->name, passed - before);
}

/* The products of integers that a CPU with less for int8 would use. */
static const zn_backend *newest;
static zn_int8 form_of_dot8;

static zn_status open_plain(void **dev, int n_threads, zn_error *err)
{
    const zn_status s = newest->open(dev, n_threads, err);
    zn_cpu *d = *dev;

    if (d)
        d->dot8 = d->k->dot8[form_of_dot8];
    return s;
}

/* A product of more groups than are prepared at a time, odd in every direction, with one form of b; y has room for it. */
enum { PRODUCT_IN = 4001, PRODUCT_OUT = 301, PRODUCT_ROWS = 211 };
static bool product_of(const zn_backend *b, zn_precision precision, float *y)
{
    zn_conv w = { .kh = 1,
                  .kw = 1,
                  .stride = 1,
                  .groups = 1,
                  .cin = PRODUCT_IN,
                  .cout = PRODUCT_OUT,
                  .quantised_x = true,
                  .precision = precision };
    const size_t n = (size_t)PRODUCT_IN * (PRODUCT_OUT > PRODUCT_ROWS ? PRODUCT_OUT : PRODUCT_ROWS);
    float *values = malloc(n * sizeof *values);
    unsigned seed = 1;
    void *dev = NULL;

    newest = b;
    if (values && !open_plain(&dev, 2, NULL))
        w.packed = b->alloc(dev, b->conv_size(dev, &w));
    for (size_t i = 0; values && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    if (w.packed) {
        b->conv_pack(dev, &w, values, NULL);
        b->conv2d(dev, (zn_tensor){ y, 1, 1, PRODUCT_ROWS, PRODUCT_OUT, PRODUCT_OUT, ZN_F32 },
                  (zn_tensor){ values, 1, 1, PRODUCT_ROWS, PRODUCT_IN, PRODUCT_IN, ZN_F32 }, &w, (zn_tail){ 0 });
        b->free(dev, w.packed);
    }
    if (dev)
        b->close(dev);
    free(values);
    return w.packed;
}

/* Whether products of small matrices give what dot products give, in every bit. */
static void test_same_bits(const zn_backend *b)
{
    static const zn_precision precisions[] = { ZN_INT4_MATH, ZN_INT8_MATH };
    const size_t n = (size_t)PRODUCT_OUT * PRODUCT_ROWS;
    float *y[2] = { malloc(n * sizeof(float)), malloc(n * sizeof(float)) };

    for (int i = 0; i < 2; i++) {
        bool ok = y[0] && y[1];

        for (int form = 0; form < 2 && ok; form++) {
            form_of_dot8 = form ? ZN_INT8_MATRICES : ZN_INT8_DOTS;
            ok = product_of(b, precisions[i], y[form]);
        }
        ok = ok && !memcmp(y[0], y[1], n * sizeof(float));
        passed += ok;
        failed += !ok;
        printf("%s %s: matrices of int%d are dot products in every bit\n", ok ? "ok" : "not ok", b->name, i ? 8 : 4);
    }
    free(y[0]);
    free(y[1]);
}

static void test_plain_dot8(const options *o, const zn_backend *b)
{
    static const char *const with[ZN_N_INT8] = { "without int8", "with dot products of int8", "with matrices of int8" };
    void *dev = NULL;
    const zn_cpu *d = b->conv_of_integers && !b->open(&dev, 1, NULL) ? dev : NULL;
    const zn_kernels *k = d ? d->k : NULL;
    zn_dot8_fn *used = d ? d->dot8.run : NULL;
    zn_backend plain = *b;
    bool have = true;

    if (!d)
        return;
    b->close(dev);
    for (int i = 0; i < ZN_N_INT8 && k->dot8[i].run; i++) {
        char name[64];
        printer p = { name, o->verbose };
        const int before = passed;

        snprintf(name, sizeof name, "%s %s", b->name, with[i]);
        if (!have) {
            printf("skip %s: this CPU has none\n", name);
            skipped++;
        } else if (k->dot8[i].run == used) {
            have = false; /* the self-test has been there */
        } else {
            newest = b;
            form_of_dot8 = (zn_int8)i;
            plain.open = open_plain;
            if (zn_selftest_backend(&plain, o->threads, "conv 1x1", print_case, &p) == 0)
                printf("ok %s: %d cases\n", name, passed - before);
        }
    }
    if (used == k->dot8[ZN_INT8_MATRICES].run)
        test_same_bits(b);
}

/* ---- wide heads ---------------------------------------------------------------------------------------- */

/* Attention of one head of so many channels, of as many queries as make the largest blocks; y has room for it. */
enum { WIDE_QUERIES = 1601, WIDE_KEYS = 3 };
static bool attend_wide(const zn_backend *b, const float *x, int width, float *y)
{
    const zn_tensor keys = { (float *)x, 1, 1, WIDE_KEYS, width, width, ZN_F32 };
    zn_tensor queries = keys, to = keys;
    void *dev = NULL;

    if (b->open(&dev, 1, NULL))
        return false;
    queries.w = to.w = WIDE_QUERIES;
    to.data = y;
    b->attention(dev, to, queries, keys, keys, &(zn_attention){ 1, 1, 1 / sqrtf((float)width), false });
    b->close(dev);
    return true;
}

/* A weight file chooses the width of a head: scratch memory must do for the widest that a model binds. */
static void test_wide_heads(const zn_backend *b)
{
    static const int widths[] = { 2048, 4096, 8192 };
    void *dev = NULL;

    if (b->remote || b == &zn_backend_scalar || b->open(&dev, 1, NULL))
        return;
    b->close(dev);
    for (int i = 0; i < 3; i++) {
        const size_t n = (size_t)WIDE_QUERIES * (size_t)widths[i];
        float *x = malloc(n * sizeof *x), *y[2] = { malloc(n * sizeof *x), malloc(n * sizeof *x) };
        bool ok = x && y[0] && y[1];
        unsigned seed = 1;
        double worst = 0;

        for (size_t j = 0; ok && j < n; j++) {
            seed = seed * 1664525u + 1013904223u;
            x[j] = (float)(seed >> 8) / 8388608.0f - 1;
        }
        ok = ok && attend_wide(&zn_backend_scalar, x, widths[i], y[0]) && attend_wide(b, x, widths[i], y[1]);
        for (size_t j = 0; ok && j < n; j++)
            worst = fmax(worst, fabs((double)y[0][j] - y[1][j]));
        ok = ok && worst < 1e-5;
        passed += ok;
        failed += !ok;
        printf("%s %s: attention of a head of %d channels, %g off\n", ok ? "ok" : "not ok", b->name, widths[i], worst);
        free(x);
        free(y[0]);
        free(y[1]);
    }
}

/* ---- the pool ------------------------------------------------------------------------------------------ */

enum { POOL_ITEMS = 100 };

typedef struct pool_job {
    zn_pool *pool;
    int done[POOL_ITEMS];
    int nested; /* items of a loop inside each item */
    bool wrong_worker;
} pool_job;

static void count_item(void *cookie, int item, int worker)
{
    (void)worker;
    ((int *)cookie)[item]++;
}

static void pool_item(void *cookie, int item, int worker)
{
    pool_job *job = cookie;
    int inner[8] = { 0 };

    job->done[item]++;
    if (worker < 0 || worker >= zn_pool_size(job->pool))
        job->wrong_worker = true;
    zn_pool_run(job->pool, count_item, inner, job->nested); /* runs inline */
    for (int i = 0; i < job->nested; i++)
        job->done[item] += inner[i] - 1;
}

/* Every item once, whatever the number of threads and items, with loops inside items. */
static void test_pool(void)
{
    bool ok = true;

    for (int n = 1; n <= 5; n++) {
        pool_job job = { .pool = zn_pool_open(n) };

        for (int round = 0; job.pool && round < 200; round++) {
            int n_items = round % POOL_ITEMS;

            memset(job.done, 0, sizeof job.done);
            job.nested = round % 9 < 8 ? round % 9 : 0;
            zn_pool_run(job.pool, pool_item, &job, n_items);
            for (int i = 0; i < POOL_ITEMS; i++)
                ok = ok && job.done[i] == (i < n_items);
        }
        ok = ok && job.pool && !job.wrong_worker;
        zn_pool_close(&job.pool);
    }
    passed += ok;
    failed += !ok;
    printf("%s pool\n", ok ? "ok" : "not ok");
}

typedef struct watched_job {
    atomic_int done, polls;
    int most; /* the poll that says no */
    int wait; /* all but the caller, who polls, wait for so many polls, however busy the machine is */
} watched_job;

static void slow_item(void *cookie, int item, int worker)
{
    watched_job *job = cookie;

    (void)item;
    do
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    while (worker && atomic_load(&job->polls) < job->wait);
    atomic_fetch_add(&job->done, 1);
}

static bool count_poll(void *cookie)
{
    watched_job *job = cookie;

    return atomic_fetch_add(&job->polls, 1) + 1 < job->most;
}

/* A loop of half a second is looked at several times; a poll that says no ends it, and the next one is whole again. */
static void test_pool_watch(void)
{
    bool ok = true;

    for (int n = 1; n <= 3; n++) {
        zn_pool *pool = zn_pool_open(n);
        watched_job all = { .most = 1000, .wait = 2 }, some = { .most = 2, .wait = 2 }, none = { .most = 1000 };

        if (!pool) {
            ok = false;
            break;
        }
        zn_pool_watch(count_poll, &all);
        zn_pool_run(pool, slow_item, &all, 100);
        zn_pool_watch(count_poll, &some);
        zn_pool_run(pool, slow_item, &some, 100);
        zn_pool_watch(NULL, NULL);
        zn_pool_run(pool, slow_item, &none, 20);
        ok = ok && all.done == 100 && all.polls > 1 && all.polls < 100;
        ok = ok && some.polls == 2 && some.done > 0 && some.done < 100;
        ok = ok && none.done == 20 && !none.polls;
        zn_pool_close(&pool);
    }
    passed += ok;
    failed += !ok;
    printf("%s pool, watched\n", ok ? "ok" : "not ok");
}

/* ---- tests of the self-test itself --------------------------------------------------------------------- */

/* Wrappers that call the right operation and then change one element: the last channel of the last pixel, where a wrong
 * remainder of a loop would show. */
static const zn_backend *whole;

static void spoil(zn_tensor y)
{
    float *last = y.data + (zn_pixels(y) - 1) * (size_t)y.ld + y.c - 1;

    *last += 0.01f * (1 + fabsf(*last));
}

static void bad_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    whole->conv2d(dev, y, x, w, t);
    spoil(y);
}

static void bad_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    whole->gated(dev, y, x, w);
    spoil(y);
}

static void bad_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    whole->norm(dev, y, x, w, m, t);
    spoil(y);
}

static void bad_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w)
{
    whole->group_scales(dev, y, x, w);
    spoil(y);
}

/* A gate forgotten, causality forgotten. */
static void bad_gate(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    zn_modulation less = m ? *m : (zn_modulation){ 0 };

    less.gate.data = NULL;
    whole->norm(dev, y, x, w, &less, t);
}

static void bad_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    whole->attention(dev, y, q, k, v, a);
    spoil(y);
}

static void bad_causal(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    zn_attention all = *a;

    all.causal = false;
    whole->attention(dev, y, q, k, v, &all);
}

static void bad_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r)
{
    whole->rope(dev, y, x, r);
    spoil(y);
}

static void bad_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index)
{
    whole->lookup(dev, y, table, index);
    spoil(y);
}

static void bad_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip)
{
    whole->step(dev, y, x, p, coefs, clip);
    spoil(y);
}

static void bad_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    whole->resize(dev, y, x, f);
    spoil(y);
}

static void bad_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r)
{
    whole->unshuffle(dev, y, x, r);
    spoil(y);
}

static void bad_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t)
{
    whole->shuffle(dev, y, x, r, t);
    spoil(y);
}

static void bad_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    whole->map(dev, y, x, t);
    spoil(y);
}

static void bad_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    whole->binary(dev, y, a, b, op, t);
    spoil(y);
}

/* The vector of the first image for all of them. */
static void bad_broadcast(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    if (b.n == y.n && b.h * b.w == 1 && b.c == y.c)
        b.ld = 0;
    whole->binary(dev, y, a, b, op, t);
}

static void bad_fill(void *dev, zn_tensor y, const float *value)
{
    whole->fill(dev, y, value);
    spoil(y);
}

/* A tail forgotten, a float written too many, a result that depends on the threads. */
static void bad_tail(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    t.post = ZN_NONE;
    whole->conv2d(dev, y, x, w, t);
}

static void bad_end(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    whole->conv2d(dev, y, x, w, t);
    y.data[(zn_pixels(y) - 1) * (size_t)y.ld + (size_t)y.c] = 0;
}

static void bad_threads(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    whole->conv2d(dev, y, x, w, t);
    if (whole->threads(dev) > 1)
        y.data[0] = nextafterf(y.data[0], 1e9f);
}

static void ignore(void *cookie, const char *name, bool ok, const char *detail)
{
    (void)cookie, (void)name, (void)ok, (void)detail;
}

static void prove(const options *o, const zn_backend *b)
{
    zn_backend broken[20];
    static const struct {
        const char *what, *group;
    } list[] = {
        { "conv2d", "conv" },           { "norm", "norm" },
        { "attention", "attention" },   { "rope", "rope" },
        { "lookup", "lookup" },         { "resize", "move" },
        { "unshuffle", "move" },        { "shuffle", "move" },
        { "map", "elementwise" },       { "binary", "elementwise" },
        { "step", "elementwise" },      { "fill", "elementwise" },
        { "gated block", "gated" },     { "tail", "conv" },
        { "end of a tensor", "conv" },  { "number of threads", "conv" },
        { "gate of a norm", "norm" },   { "causal attention", "attention" },
        { "broadcast", "elementwise" }, { "group norm in parts", "norm" },
    };
    int n = (int)(sizeof broken / sizeof broken[0]);

    for (int i = 0; i < n; i++)
        broken[i] = *b;
    broken[0].conv2d = bad_conv2d;
    broken[1].norm = bad_norm;
    broken[2].attention = bad_attention;
    broken[3].rope = bad_rope;
    broken[4].lookup = bad_lookup;
    broken[5].resize = bad_resize;
    broken[6].unshuffle = bad_unshuffle;
    broken[7].shuffle = bad_shuffle;
    broken[8].map = bad_map;
    broken[9].binary = bad_binary;
    broken[10].step = bad_step;
    broken[11].fill = bad_fill;
    broken[12].gated = bad_gated;
    broken[13].conv2d = bad_tail;
    broken[14].conv2d = bad_end;
    broken[15].conv2d = bad_threads;
    broken[16].norm = bad_gate;
    broken[17].attention = bad_causal;
    broken[18].binary = bad_broadcast;
    broken[19].group_scales = bad_group_scales;
    whole = b;
    for (int i = 0; i < n; i++) {
        bool ok = zn_selftest_fails(&broken[i], o->threads, list[i].group, ignore, NULL) > 0;

        passed += ok;
        failed += !ok;
        printf("%s proof: a broken %s is found\n", ok ? "ok" : "not ok", list[i].what);
    }
}

/* ---- benchmark -------------------------------------------------------------------------------------------- */

static double now(void) /* seconds */
{
    return zn_now_ms() / 1e3;
}

static zn_tensor device_tensor(const zn_backend *b, void *dev, zn_type type, int h, int w, int c)
{
    zn_tensor t = { .n = 1, .h = h, .w = w, .c = c, .ld = c, .type = type };
    size_t len = zn_pixels(t) * (size_t)c;
    float *host = malloc(len * sizeof *host);
    uint16_t *half = (uint16_t *)(void *)host;

    t.data = b->alloc(dev, len * zn_type_size(type));
    if (!host || !t.data)
        abort();
    for (size_t i = 0; i < len; i++) {
        float v = (float)((i * 2654435761u) % 2048) / 1024.f - 1;

        if (type == ZN_F32)
            host[i] = v;
        else
            half[i] = type == ZN_F16 ? zn_to_f16(v) : zn_to_bf16(v);
    }
    b->upload(dev, t.data, host, len * zn_type_size(type));
    b->sync(dev, NULL);
    free(host);
    return t;
}

/* CONV_*: with weights in that storage type */
typedef enum kind {
    CONV,
    CONV_F16,
    CONV_I8,
    CONV_I4,
    LAYER_NORM,
    GROUP_NORM,
    RMS_NORM,
    ADAPTIVE,
    ATTENTION,
    CAUSAL,
    SILU,
    FWHT_C,
    FWHT_W,
    FWHT_H,
    COPY
} kind;

typedef struct bench {
    const char *name;
    int h, w, cin, cout, k, stride, groups;
    bool up2;
    kind kind;
} bench;

static zn_precision weights_of(kind k)
{
    return k == CONV_F16 ? ZN_FP16_MATH : k == CONV_I8 ? ZN_INT8_MATH : k == CONV_I4 ? ZN_INT4_MATH : ZN_FP32;
}

typedef struct bench_run {
    const zn_backend *b;
    void *dev;
    kind kind;
    zn_attention attention;
    zn_modulation modulation;
    zn_tensor x, y;
    zn_conv conv;
    zn_norm norm;
    zn_fwht fwht;
} bench_run;

static void once(const bench_run *r)
{
    zn_tail t = { .pre = r->kind == SILU || r->kind == ADAPTIVE ? ZN_SILU : r->kind == COPY ? ZN_NONE : ZN_RELU };
    zn_tensor shared = zn_slice(r->x, 0, r->x.c / r->attention.heads * r->attention.kv_heads);

    switch (r->kind) {
    case CONV:
    case CONV_F16:
    case CONV_I8:
    case CONV_I4:
        r->b->conv2d(r->dev, r->y, r->x, &r->conv, t);
        break;
    case ATTENTION:
    case CAUSAL:
        r->b->attention(r->dev, r->y, r->x, shared, shared, &r->attention);
        break;
    case SILU:
    case COPY:
        r->b->map(r->dev, r->y, r->x, t);
        break;
    case FWHT_C:
    case FWHT_W:
    case FWHT_H:
        r->b->fwht(r->dev, r->y, r->x, &r->fwht);
        break;
    default:
        r->b->norm(r->dev, r->y, r->x, &r->norm, r->kind == ADAPTIVE ? &r->modulation : NULL, t);
    }
}

/* Seconds of one, where n are asked for before the first is waited for. */
static double seconds(const bench_run *r, int n)
{
    double s = now();

    for (int i = 0; i < n; i++)
        once(r);
    r->b->sync(r->dev, NULL);
    return (now() - s) / n;
}

static void bench_one(const zn_backend *b, void *dev, zn_precision p, const bench *r, double peak)
{
    const zn_type type = b->tensor_type[p];
    int up = r->up2 ? 2 : 1, ho = r->h * up / r->stride, wo = r->w * up / r->stride;
    bench_run run = {
        .b = b,
        .dev = dev,
        .kind = r->kind,
        .attention = { .heads = r->groups,
                       .kv_heads = r->kind == CAUSAL ? r->groups / 4 : r->groups,
                       .scale = 0.125f,
                       .causal = r->kind == CAUSAL },
        .x = device_tensor(b, dev, type, r->h, r->w, r->cin),
        .y = device_tensor(b, dev, type, ho, wo, r->cout),
        .conv = { .kh = r->k,
                  .kw = r->k,
                  .stride = r->stride,
                  .groups = r->groups,
                  .cin = r->cin,
                  .cout = r->cout,
                  .pad_t = r->k / 2,
                  .pad_l = r->k / 2,
                  .up2 = r->up2,
                  .precision = r->kind == CONV ? p : weights_of(r->kind) },
        .norm = { .kind = r->kind == LAYER_NORM ? ZN_LAYER_NORM
                      : r->kind == RMS_NORM     ? ZN_RMS_NORM
                                                : ZN_GROUP_NORM,
                  .c = r->cin,
                  .groups = r->kind == ADAPTIVE ? 32 : 4,
                  .eps = 1e-5f },
        .fwht = { .axis = r->kind == FWHT_W ? ZN_ALONG_W
                      : r->kind == FWHT_H   ? ZN_ALONG_H
                                            : ZN_ALONG_C,
                  .n = r->k },
    };
    double flops = 0, best = 1e9, start, s;
    double bytes =
        (double)(zn_pixels(run.x) * (size_t)r->cin + zn_pixels(run.y) * (size_t)r->cout) * (double)zn_type_size(type);
    int n = 1;

    if (r->kind <= CONV_I4) {
        size_t len = (size_t)r->cout * (size_t)(r->cin / r->groups * r->k * r->k);
        float *weight = malloc(len * sizeof *weight);

        if (!weight)
            abort();
        for (size_t i = 0; i < len; i++)
            weight[i] = (float)(i % 17) / 17.f - 0.5f;
        run.conv.packed = b->alloc(dev, b->conv_size(dev, &run.conv));
        b->conv_pack(dev, &run.conv, weight, NULL);
        free(weight);
        flops = 2.0 * ho * wo * (double)len;
    } else if (r->kind == ATTENTION || r->kind == CAUSAL) {
        flops = 4.0 * r->h * r->w * r->h * r->w * r->cin / (r->kind == CAUSAL ? 2 : 1);
    } else if (r->kind == ADAPTIVE) {
        run.modulation.scale = run.modulation.shift = run.modulation.gate = device_tensor(b, dev, type, 1, 1, r->cin);
    }
    seconds(&run, 1); /* a GPU picks its kernels now */
    s = seconds(&run, 1);
    if (b == &zn_backend_cuda) /* enough in a row for the launches not to count */
        n = (int)fmin(200, fmax(10, 5e-3 / s));
    start = now();
    for (int i = 0; i < 3 || now() - start < 0.2; i++) {
        best = fmin(best, seconds(&run, n));
        if (now() - start > 5)
            break;
    }
    if (flops > 0)
        printf("  %-38s %9.4f ms %9.1f GFLOP/s  %5.1f %% of peak\n", r->name, best * 1e3, flops / best * 1e-9,
               100 * flops / best * 1e-9 / peak);
    else
        printf("  %-38s %9.4f ms %9.1f GB/s\n", r->name, best * 1e3, bytes / best * 1e-9);
    b->free(dev, run.conv.packed);
    b->free(dev, run.modulation.scale.data);
    b->free(dev, run.x.data);
    b->free(dev, run.y.data);
}

static const bench cpu_rows[] = {
    { "conv 3x3 64>64 128x128", 128, 128, 64, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 64>64 512x512", 512, 512, 64, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 128>128 128x128", 128, 128, 128, 128, 3, 1, 1, false, CONV },
    { "conv 3x3 256>256 64x64", 64, 64, 256, 256, 3, 1, 1, false, CONV },
    { "conv 3x3 32>32 256x256", 256, 256, 32, 32, 3, 1, 1, false, CONV },
    { "conv 3x3 64>64 up2 from 256x256", 256, 256, 64, 64, 3, 1, 1, true, CONV },
    { "conv 3x3 64>64 stride 2 512x512", 512, 512, 64, 64, 3, 2, 1, false, CONV },
    { "conv 3x3 3>64 512x512", 512, 512, 3, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 64>3 512x512", 512, 512, 64, 3, 3, 1, 1, false, CONV },
    { "conv 1x1 64>128 128x128", 128, 128, 64, 128, 1, 1, 1, false, CONV },
    { "linear 1024>1024 256 tokens", 1, 256, 1024, 1024, 1, 1, 1, false, CONV },
    { "conv 3x3 128>128 256x256", 256, 256, 128, 128, 3, 1, 1, false, CONV },
    { "conv 3x3 256>256 32x32", 32, 32, 256, 256, 3, 1, 1, false, CONV },
    { "conv 3x3 512>256 32x32", 32, 32, 512, 256, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 16x16", 16, 16, 512, 512, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 8x8", 8, 8, 512, 512, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 16x16, weights in int8", 16, 16, 512, 512, 3, 1, 1, false, CONV_I8 },
    { "conv 1x1 256>128 256x256", 256, 256, 256, 128, 1, 1, 1, false, CONV },
    { "conv 1x1 512>1536 16x16", 16, 16, 512, 1536, 1, 1, 1, false, CONV },
    { "linear 2560>2560 1 token", 1, 1, 2560, 2560, 1, 1, 1, false, CONV },
    { "linear 2560>2560 1 token, fp16", 1, 1, 2560, 2560, 1, 1, 1, false, CONV_F16 },
    { "linear 2560>2560 1 token, int8", 1, 1, 2560, 2560, 1, 1, 1, false, CONV_I8 },
    { "linear 2560>2560 1 token, int4", 1, 1, 2560, 2560, 1, 1, 1, false, CONV_I4 },
    { "linear 2560>2560 32 tokens", 1, 32, 2560, 2560, 1, 1, 1, false, CONV },
    { "linear 2560>2560 32 tokens, int4", 1, 32, 2560, 2560, 1, 1, 1, false, CONV_I4 },
    { "linear 2560>2560 256 tokens", 1, 256, 2560, 2560, 1, 1, 1, false, CONV },
    { "linear 2560>2560 256 tokens, int8", 1, 256, 2560, 2560, 1, 1, 1, false, CONV_I8 },
    { "linear 2560>2560 256 tokens, int4", 1, 256, 2560, 2560, 1, 1, 1, false, CONV_I4 },
    { "depthwise 3x3 128 128x128", 128, 128, 128, 128, 3, 1, 128, false, CONV },
    { "depthwise 7x7 128 128x128", 128, 128, 128, 128, 7, 1, 128, false, CONV },
    { "layer norm 256, 128x128", 128, 128, 256, 256, 1, 1, 1, false, LAYER_NORM },
    { "group norm 256, 128x128", 128, 128, 256, 256, 1, 1, 1, false, GROUP_NORM },
    { "silu 256, 64x64", 64, 64, 256, 256, 1, 1, 1, false, SILU },
    { "silu 64, 256x256", 256, 256, 64, 64, 1, 1, 1, false, SILU },
    { "adaptive group norm silu 128, 256x256", 256, 256, 128, 128, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 256, 64x64", 64, 64, 256, 256, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 512, 16x16", 16, 16, 512, 512, 1, 1, 1, false, ADAPTIVE },
    { "attention 1024 tokens, 8 x 64", 32, 32, 512, 512, 1, 1, 8, false, ATTENTION },
    { "attention 256 tokens, 1 x 512", 16, 16, 512, 512, 1, 1, 1, false, ATTENTION },
    { "attention 4096 tokens, 1 x 384", 64, 64, 384, 384, 1, 1, 1, false, ATTENTION },
    { "attention 512 tokens, causal, 32 x 128", 1, 512, 4096, 4096, 1, 1, 32, false, CAUSAL },
};

/* Tensors of the memory-bound ones are larger than a GPU's cache, or else of a size that networks have. */
static const bench gpu_rows[] = {
    { "conv 3x3 64>64 512x512", 512, 512, 64, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 128>128 256x256", 256, 256, 128, 128, 3, 1, 1, false, CONV },
    { "conv 3x3 320>320 64x64", 64, 64, 320, 320, 3, 1, 1, false, CONV },
    { "conv 3x3 64>64 up2 from 256x256", 256, 256, 64, 64, 3, 1, 1, true, CONV },
    { "conv 3x3 64>64 stride 2 512x512", 512, 512, 64, 64, 3, 2, 1, false, CONV },
    { "conv 3x3 3>64 512x512", 512, 512, 3, 64, 3, 1, 1, false, CONV },
    { "conv 3x3 64>3 512x512", 512, 512, 64, 3, 3, 1, 1, false, CONV },
    { "conv 3x3 512>512 128x128", 128, 128, 512, 512, 3, 1, 1, false, CONV },
    { "matrix product 4096^3", 1, 4096, 4096, 4096, 1, 1, 1, false, CONV },
    { "matrix product 8192^3", 1, 8192, 8192, 8192, 1, 1, 1, false, CONV },
    { "depthwise 3x3 128 1024x1024", 1024, 1024, 128, 128, 3, 1, 128, false, CONV },
    { "attention 4096 tokens, 16 x 128", 64, 64, 2048, 2048, 1, 1, 16, false, ATTENTION },
    { "attention 4096 tokens, 8 x 64", 64, 64, 512, 512, 1, 1, 8, false, ATTENTION },
    { "attention 256 tokens, 1 x 512", 16, 16, 512, 512, 1, 1, 1, false, ATTENTION },
    { "attention 4096 tokens, 1 x 384", 64, 64, 384, 384, 1, 1, 1, false, ATTENTION },
    { "attention 4096 tokens, 1 x 512", 64, 64, 512, 512, 1, 1, 1, false, ATTENTION },
    { "attention 512 tokens, causal, 32 x 128", 1, 512, 4096, 4096, 1, 1, 32, false, CAUSAL },
    { "attention 65536 tokens, 2 x 64", 256, 256, 128, 128, 1, 1, 2, false, ATTENTION },
    { "copy 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, COPY },
    { "silu 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, SILU },
    { "layer norm 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, LAYER_NORM },
    { "rms norm 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, RMS_NORM },
    { "group norm 256, 1024x1024", 1024, 1024, 256, 256, 1, 1, 1, false, GROUP_NORM },
    { "copy 128, 512x512", 512, 512, 128, 128, 1, 1, 1, false, COPY },
    { "group norm 128, 512x512", 512, 512, 128, 128, 1, 1, 1, false, GROUP_NORM },
    { "group norm 320, 64x64", 64, 64, 320, 320, 1, 1, 1, false, GROUP_NORM },
    { "group norm 1280, 32x32", 32, 32, 1280, 1280, 1, 1, 1, false, GROUP_NORM },
    { "adaptive group norm silu 128, 512x512", 512, 512, 128, 128, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 128, 256x256", 256, 256, 128, 128, 1, 1, 1, false, ADAPTIVE },
    { "adaptive group norm silu 512, 16x16", 16, 16, 512, 512, 1, 1, 1, false, ADAPTIVE },
    { "fwht of 256 channels, 1024x1024", 1024, 1024, 256, 256, 256, 1, 1, false, FWHT_C },
    { "fwht of 16 columns, 256, 1024x1024", 1024, 1024, 256, 256, 16, 1, 1, false, FWHT_W },
    { "fwht of 16 rows, 256, 1024x1024", 1024, 1024, 256, 256, 16, 1, 1, false, FWHT_H },
    { "fwht of 1024 rows, 256, 1024x1024", 1024, 1024, 256, 256, 1024, 1, 1, false, FWHT_H },
};

static void bench_rows(const options *o, const zn_backend *b, void *dev, zn_precision p, bool convolutions)
{
    bool gpu = b == &zn_backend_cuda;
    const bench *rows = gpu ? gpu_rows : cpu_rows;
    size_t n_rows = gpu ? sizeof gpu_rows / sizeof *gpu_rows : sizeof cpu_rows / sizeof *cpu_rows;
    double peak = b->peak(dev, p);

    printf("%s, %s, %d threads: peak %.1f GFLOP/s\n", b->name, zn_precision_names[p], b->threads(dev), peak);
    for (size_t i = 0; i < n_rows; i++)
        if (strstr(rows[i].name, o->only) &&
            (!convolutions || (rows[i].kind == CONV && rows[i].groups == 1 && rows[i].cin >= 128)))
            bench_one(b, dev, p, &rows[i], peak);
}

static void bench_backend(const options *o, const zn_backend *b)
{
    zn_error err;
    void *dev;

    if (b->open(&dev, o->threads, &err)) {
        printf("skip %s: %s\n", b->name, err.text);
        return;
    }
    if (!b->has_precision(dev, o->precision)) {
        printf("skip %s: it has no %s\n", b->name, zn_precision_names[o->precision]);
        b->close(dev);
        return;
    }
    bench_rows(o, b, dev, o->precision, false);
    if (o->precision == ZN_FP16_MATH && b->has_precision(dev, ZN_FP8_MATH)) {
        bench_rows(o, b, dev, ZN_FP8_MATH, true);
    }
    b->close(dev);
}

static bool find_precision(zn_precision *p, const char *name)
{
    for (int i = 0; i < ZN_N_PRECISIONS; i++)
        if (!strcmp(name, zn_precision_names[i])) {
            *p = (zn_precision)i;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    options o = { .threads = zn_cpu_count(), .only = "" };
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++)
        if (!strcmp(argv[i], "--bench"))
            o.bench = true;
        else if (!strcmp(argv[i], "-v"))
            o.verbose = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            o.only = argv[++i];
        else if (!strcmp(argv[i], "-t") && i + 1 < argc)
            o.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-e") && i + 1 < argc)
            o.every = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-p") && i + 1 < argc && find_precision(&o.precision, argv[i + 1]))
            i++;
        else {
            fprintf(stderr,
                    "usage: check [--bench [-p precision] [--only text]] [-v] [-e every] [-t threads] [engine...]\n");
            return 2;
        }
    o.names = argv + i;
    o.n_names = argc - i;
    for (int b = 0; b < N_BACKENDS; b++)
        if (wanted(&o, backends[b])) {
            if (o.bench) {
                bench_backend(&o, backends[b]);
                continue;
            }
            o.threads = o.threads < 2 ? 2 : o.threads;
            test_backend(&o, backends[b]), test_plain_dot8(&o, backends[b]), test_wide_heads(backends[b]);
        }
    if (o.bench)
        return 0;
    test_pool();
    test_pool_watch();
    if (wanted(&o, &zn_backend_scalar))
        prove(&o, &zn_backend_scalar);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}
