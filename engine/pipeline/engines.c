/* SPDX-License-Identifier: MIT */
/* engines.c - the engines of this build, and the choice among them. */
#include "engines.h"

#include "../zenith_bench.h"
#include "../zenith_number.h"
#include "contest.h"
#include "early.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the slowest to the fastest: "auto" takes the last one that opens. */
static const zn_backend *const engines[] = {
    &zn_backend_scalar, &zn_backend_neon, &zn_backend_avx2, &zn_backend_avx512, &zn_backend_vulkan, &zn_backend_cuda,
};

enum { N_ENGINES = sizeof engines / sizeof *engines };

static const char *asked_for(const char *name)
{
    if (!name || !*name || !strcmp(name, "auto"))
        name = getenv("ZENITH_ENGINE");
    return name && *name && strcmp(name, "auto") ? name : NULL;
}

/* The fastest engine of the CPU; NULL: none opens. */
static void *open_cpu(const zn_backend **be, zn_error *err)
{
    void *dev = NULL;

    for (int i = N_ENGINES - 1; i >= 0 && !dev; i--)
        if (!engines[i]->remote && engines[i]->abi == ZN_BACKEND_ABI && !engines[i]->open(&dev, zn_cpu_count(), err))
            *be = engines[i];
    return dev;
}

/* Whether "auto" may choose this device.  ratio: how many times as fast as the CPU it is; 0: that does not matter, or is not
 * known. */
static bool may_choose(const zn_backend *b, void *dev, double *ratio)
{
    const zn_auto automatic = b->automatic ? b->automatic(dev) : ZN_AUTO_ALWAYS;
    const zn_backend *cpu = NULL;
    void *cpu_dev;
    zn_error err;

    *ratio = 0;
    if (automatic != ZN_AUTO_IF_FASTER)
        return automatic == ZN_AUTO_ALWAYS;
    *ratio = zn_contest_kept(b, dev);
    if (!(*ratio > 0) && (cpu_dev = open_cpu(&cpu, &err))) {
        *ratio = zn_contest(b, dev, cpu, cpu_dev);
        cpu->close(cpu_dev);
    }
    return *ratio > 1;
}

typedef enum reach { CPU_ONLY, ANY, ANY_EARLY } reach; /* early: one that is still starting will do */

/* Opens the engine of that name, or for NULL the fastest that opens. */
static void *open_named(const zn_backend **be, const char *name, reach which, int n_threads, zn_error *note,
                        zn_error *err)
{
    for (int i = N_ENGINES - 1; i >= 0; i--) {
        zn_status s;
        double ratio;
        void *dev;

        if ((name && strcmp(name, engines[i]->name)) || (which == CPU_ONLY && engines[i]->remote))
            continue;
        if (engines[i]->abi != ZN_BACKEND_ABI) {
            zn_fail(err, ZN_E_DEVICE, "the %s engine is of another version", engines[i]->name);
            continue;
        }
        s = (which == ANY_EARLY && engines[i]->open_early ? engines[i]->open_early : engines[i]->open)(&dev, n_threads,
                                                                                                       err);
        if (!s && !name && !may_choose(engines[i], dev, &ratio)) {
            engines[i]->close(dev);
            continue;
        }
        if (!s || name) {
            *be = engines[i];
            return dev;
        }
        if (s == ZN_E_MEMORY) /* the machine has the engine */
            zn_fail(note, ZN_OK, "%s: %s", engines[i]->name, err->text);
    }
    if (name)
        zn_fail(err, ZN_E_USAGE, "there is no engine '%s'; `zenith engines` lists them", name);
    return NULL;
}

/* "; multiplies fp16, int8": the short types that its layers compute with, by themselves or where a user asks for them. */
static void add_types(char *to, size_t size, const zn_backend *be, void *dev)
{
    static const struct {
        zn_precision precision;
        zn_wtype type;
        const char *name;
    } types[] = { { ZN_FP16_MATH, ZN_W_F16, "fp16" },
                  { ZN_BF16_MATH, ZN_W_BF16, "bf16" },
                  { ZN_INT8_MATH, ZN_W_I8, "int8" } };
    const char *between = "; multiplies ";

    for (size_t i = 0; i < sizeof types / sizeof *types && be->conv_inputs; i++) {
        const zn_conv linear = { .kh = 1,
                                 .kw = 1,
                                 .stride = 1,
                                 .groups = 1,
                                 .cin = 128,
                                 .cout = 128,
                                 .quantised_x = true,
                                 .precision = types[i].precision };
        const size_t len = strlen(to);

        if (be->conv_inputs(dev, &linear) == types[i].type) {
            snprintf(to + len, size - len, "%s%s", between, types[i].name);
            between = ", ";
        }
    }
}

int zn_engine_list(zn_engine_info *list, int max)
{
    int best = -1;

    for (int i = 0; i < N_ENGINES && i < max; i++) {
        zn_error err = { "" };
        double ratio;
        void *dev;

        engines[i]->open(&dev, 1, &err);
        list[i] = (zn_engine_info){ .name = engines[i]->name, .usable = dev != NULL };
        snprintf(list[i].note, sizeof list[i].note, "%.399s", dev ? engines[i]->what : err.text);
        if (dev) {
            if (engines[i]->describe)
                engines[i]->describe(dev, list[i].note, sizeof list[i].note);
            if (may_choose(engines[i], dev, &ratio))
                best = i;
            if (ratio > 0) {
                const size_t len = strlen(list[i].note);

                snprintf(list[i].note + len, sizeof list[i].note - len, "; %.2f times the CPU's speed", ratio);
            }
            add_types(list[i].note, sizeof list[i].note, engines[i], dev);
            engines[i]->close(dev);
        }
    }
    if (best >= 0)
        list[best].automatic = true;
    return N_ENGINES;
}

/* *n = $ZENITH_THREADS; 0: it is not set. */
static zn_status wanted_threads(int *n, zn_error *err)
{
    const char *text = getenv("ZENITH_THREADS");
    double value = 0;

    if (text && *text && !(zn_number_parse(&value, text, NULL) && value >= 0 && value <= 1e9 && value == (int)value))
        return zn_fail(err, ZN_E_USAGE, "%s must be a number of threads, such as 4, not '%s'", "ZENITH_THREADS", text);
    *n = (int)value;
    return ZN_OK;
}

static zn_status open_engine(zn_engine **out, const char *name, reach which, int n_threads, zn_error *err)
{
    zn_error unseen = { "" };
    zn_engine *e;
    zn_status s;

    *out = NULL;
    if (err)
        err->text[0] = 0;
    if (n_threads <= 0 && (s = wanted_threads(&n_threads, err)))
        return s;
    if (n_threads <= 0)
        n_threads = zn_cpu_count();
    if (n_threads > 256)
        n_threads = 256;
    e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    e->dev = open_named(&e->be, name, which, n_threads, &e->note, err ? err : &unseen);
    if (!e->dev) {
        free(e);
        return ZN_E_DEVICE;
    }
    if (err)
        err->text[0] = 0; /* the messages of faster engines that "auto" has skipped */
    zn_turn_init(&e->turn, ZN_TURN_ENGINE);
    e->n_threads = n_threads;
    *out = e;
    return ZN_OK;
}

zn_status zn_engine_open(zn_engine **out, const char *name, int n_threads, zn_error *err)
{
    return open_engine(out, asked_for(name), ANY, n_threads, err);
}

zn_status zn_engine_open_early(zn_engine **out, const char *name, int n_threads, zn_error *err)
{
    return open_engine(out, asked_for(name), ANY_EARLY, n_threads, err);
}

bool zn_engine_starting(const zn_engine *e)
{
    return e->be->starting && e->be->starting(e->dev);
}

zn_status zn_engine_open_to_train(zn_engine **out, const char *name, int n_threads, zn_error *err)
{
    const char *asked = asked_for(name);

    return open_engine(out, asked, asked ? ANY : CPU_ONLY, n_threads, err);
}

zn_status zn_engine_open_cpu(zn_engine **out, zn_error *err)
{
    return open_engine(out, NULL, CPU_ONLY, 0, err);
}

void zn_engine_close(zn_engine **engine)
{
    zn_engine *e = engine ? *engine : NULL;

    if (!e)
        return;
    while (e->early) {
        zn_early *x = e->early;

        e->early = x->next;
        zn_early_free(&x);
    }
    e->be->close(e->dev);
    zn_pool_close(&e->helpers);
    zn_turn_end(&e->turn);
    free(e);
    *engine = NULL;
}

const char *zn_engine_name(const zn_engine *e)
{
    return e->be->name;
}

int zn_engine_threads(const zn_engine *e)
{
    return e->be->threads(e->dev);
}

bool zn_engine_is_remote(const zn_engine *e)
{
    return e->be->remote;
}

/* The number of a precision that the engine has; -1: it is none, or the engine lacks it. */
static int precision_of(const zn_engine *e, const char *name)
{
    for (int i = 0; i < ZN_N_PRECISIONS; i++)
        if (!strcmp(name, zn_precision_names[i]))
            return e->be->has_precision(e->dev, (zn_precision)i) ? i : -1;
    return -1;
}

double zn_engine_peak(zn_engine *e, const char *precision)
{
    const int p = precision ? precision_of(e, precision) : -1;
    double peak;

    if (zn_turn_take(&e->turn, NULL))
        return 0;
    peak = e->be->peak(e->dev, p >= 0 ? (zn_precision)p : ZN_FP32);
    zn_turn_give(&e->turn);
    return peak;
}

zn_pool *zn_engine_helpers(zn_engine *e)
{
    enum { MOST = 8 }; /* more do not copy faster */

    if (!e->be->remote)
        return e->be->pool(e->dev);
    if (!e->helpers && e->be->remote)
        e->helpers = zn_pool_open(e->n_threads < MOST ? e->n_threads : MOST);
    return e->helpers;
}
