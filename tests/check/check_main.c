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

#include "../unit/leaks.h"
#include "check.h"

static const zn_backend *const backends[] = { &zn_backend_scalar, &zn_backend_neon,   &zn_backend_avx2,
                                              &zn_backend_avx512, &zn_backend_vulkan, &zn_backend_cuda };
enum { N_BACKENDS = sizeof backends / sizeof backends[0] };

static int passed, failed, skipped;

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

/* The products of tiles, as if this CPU had AMX. */
static zn_status open_tiles(void **dev, int n_threads, zn_error *err)
{
    const zn_status s = newest->open(dev, n_threads, err);

    if (!s)
        ((zn_cpu *)*dev)->tiles = &check_tiles_plain;
    return s;
}

static void test_plain_tiles(const options *o, const zn_backend *b)
{
    static const char *const only[] = { "tf32 conv 1/4", "tf32 gated 1/8", "conv 1/4", "bf16 conv 1/4",
                                        "gated 1/8" }; /* plain C is slow */
    printer p = { "tiles in plain C", o->verbose };
    zn_backend tiled = *b;
    const int before = passed;
    void *dev = NULL;
    int fails = 0;

    if (o->every > 1 || b->remote || b->open(&dev, 1, NULL))
        return; /* emulated: plain C is the same on every architecture */
    b->close(dev);
    newest = b;
    tiled.open = open_tiles;
    for (size_t i = 0; i < sizeof only / sizeof *only; i++)
        fails += zn_selftest_backend(&tiled, o->threads, only[i], print_case, &p);
    if (!fails)
        printf("ok %s, tiles in plain C: %d cases\n", b->name, passed - before);
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
    const zn_cpu *d = !b->remote && !b->open(&dev, 1, NULL) ? dev : NULL;
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
    whole->special->gated(dev, y, x, w);
    spoil(y);
}

static void bad_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    whole->special->fwht(dev, y, x, w);
    spoil(y);
}

static void bad_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    whole->special->pruned(dev, y, mask, x, w);
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
    static const zn_special gated = { .gated = bad_gated }, fwht = { .fwht = bad_fwht },
                            pruned = { .pruned = bad_pruned };
    zn_backend broken[22];
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
        { "transform", "fwht" },        { "pruned convolution", "pruned" },
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
    broken[12].special = &gated;
    broken[13].conv2d = bad_tail;
    broken[14].conv2d = bad_end;
    broken[15].conv2d = bad_threads;
    broken[16].norm = bad_gate;
    broken[17].attention = bad_causal;
    broken[18].binary = bad_broadcast;
    broken[19].group_scales = bad_group_scales;
    broken[20].special = &fwht;
    broken[21].special = &pruned;
    whole = b;
    for (int i = 0; i < n; i++) {
        bool ok = zn_selftest_fails(&broken[i], o->threads, list[i].group, ignore, NULL) > 0;

        passed += ok;
        failed += !ok;
        printf("%s proof: a broken %s is found\n", ok ? "ok" : "not ok", list[i].what);
    }
}

/* ---- the command line ---------------------------------------------------------------------------------- */

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
                check_bench(&o, backends[b]);
                continue;
            }
            o.threads = o.threads < 2 ? 2 : o.threads;
            test_backend(&o, backends[b]), test_plain_dot8(&o, backends[b]), test_plain_tiles(&o, backends[b]),
                test_wide_heads(backends[b]);
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
