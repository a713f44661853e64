/* SPDX-License-Identifier: MIT */
/* model.c - opens models: weights from files to the device, and back. */
#include "model.h"

#include "early.h"
#include "engines.h"
#include "settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { MANY_BYTES = 16 << 20 }; /* of weights that were freed: the rest of the program may want them */

const zn_arch *zn_arch_at(int i)
{
    int n = 0;

    while (zn_archs[n])
        n++;
    if (i < n)
        return i < 0 ? NULL : zn_archs[i];
    for (int j = 0; zn_composites[j]; j++)
        if (n + j == i)
            return zn_composites[j];
    return NULL;
}

const zn_arch *zn_arch_named(const char *id)
{
    const zn_arch *a;
    int i = 0;

    while ((a = zn_arch_at(i)) && strcmp(a->info.id, id))
        i++;
    return a;
}

static bool made_up(const char *file)
{
    return !strncmp(file, ZN_RANDOM_WEIGHTS, strlen(ZN_RANDOM_WEIGHTS));
}

static zn_status open_weights(zn_weights **w, const zn_arch *a, const char *const *files, int n_files, zn_error *err)
{
    char path[4096];
    const char *found = path;
    zn_status s;

    if (n_files > 0) {
        if (n_files == 1 && made_up(files[0]))
            return ZN_OK; /* bind makes them up */
        return zn_weights_open(w, files, n_files, err);
    }
    s = zn_weights_find(path, sizeof path, a->info.weights, err);
    return s ? s : zn_weights_open(w, &found, 1, err);
}

static bool keep_files(zn_model *m, const zn_open *open)
{
    m->files = calloc((size_t)open->n_files + 1, sizeof *m->files);
    for (int i = 0; m->files && i < open->n_files; i++, m->n_files++)
        if (!(m->files[i] = strdup(open->files[i])))
            return false;
    return m->files != NULL;
}

zn_model *zn_model_new(zn_engine *engine, const zn_arch *a, const zn_open *open, zn_error *err)
{
    zn_model *m = calloc(1, sizeof *m);

    if (m) {
        m->arch = a;
        m->engine = engine;
        m->net = calloc(1, a->size);
        m->asked = zn_precision_asked(open->precision);
        zn_turn_init(&m->opening, ZN_TURN_STAND_IN);
    }
    if (!m || !m->net || !keep_files(m, open)) {
        zn_fail(err, ZN_E_MEMORY, "out of memory while opening %s", a->info.id);
        zn_model_free(&m);
    }
    return m;
}

static zn_binder binder_of(zn_model *m, const zn_weights *w, zn_error *err)
{
    const long base =
        !w && m->n_files && made_up(m->files[0]) ? strtol(m->files[0] + strlen(ZN_RANDOM_WEIGHTS), NULL, 10) : 0;

    return (zn_binder){ .w = w,
                        .base = base > 0 && base <= 8192 ? (int)base : 0,
                        .be = m->engine->be,
                        .dev = m->engine->dev,
                        .precision = m->precision,
                        .tensors = m->engine->be->tensor_type[m->precision],
                        .err = err,
                        .part = m->part };
}

static zn_need both(zn_need x, zn_need y)
{
    return (zn_need){ x.weights + y.weights, x.scratch > y.scratch ? x.scratch : y.scratch };
}

/* The memory of the network that b has bound. */
static zn_need need_of(const zn_binder *b, bool streamed)
{
    const zn_layers *l = &b->layers;
    const size_t others = b->bytes - (b->streams ? l->most : l->bytes);
    const bool counts = streamed && !b->be->remote; /* what is in host memory */
    const size_t ahead = counts ? l->ahead : 0, reading = counts ? l->reading : 0;

    return (zn_need){ others + (streamed ? l->most + ahead : l->bytes), b->scratch + reading };
}

static void add_part(zn_model *m, const zn_model *part)
{
    m->need = both(m->need, part->need);
    m->least = both(m->least, part->least);
    m->streams = m->streams || part->streams;
    m->parameters += part->parameters;
}

static size_t mib(size_t bytes)
{
    return (bytes + (1 << 20) - 1) >> 20;
}

/* Freed weights go back to the system: glibc keeps blocks of less than 32 MiB for the next malloc, so that the memory
 * of a closed model would be added to that of the next one. */
static void trim(const zn_engine *e, size_t freed)
{
#ifdef __GLIBC__
    if (e && !e->be->remote && freed >= MANY_BYTES)
        malloc_trim(0);
#else
    (void)e, (void)freed;
#endif
}

/* Reading a layer needs a struct to write to. */
static zn_status copy_net(zn_model *m, zn_error *err)
{
    m->read_net = malloc(m->arch->size);
    if (!m->read_net)
        return zn_fail(err, ZN_E_MEMORY, "out of memory while opening %s", m->arch->info.id);
    memcpy(m->read_net, m->net, m->arch->size);
    m->binder.layers.net = m->read_net;
    return ZN_OK;
}

zn_status zn_model_stream(zn_model *m, zn_error *err)
{
    zn_binder *b = &m->binder;
    zn_status s = ZN_OK;

    for (int i = 0; i < m->n_parts && !s; i++)
        s = zn_model_stream(m->part[i], err);
    if (!s && b->layers.n && !m->streams)
        s = open_weights(&m->weights, m->arch, (const char *const *)m->files, m->n_files, err);
    if (s || m->streams)
        return s;
    m->streams = true;
    if (!b->layers.n)
        return ZN_OK;
    b->w = m->weights;
    b->err = err;
    zn_bind_stream(b);
    b->err = NULL;
    trim(m->engine, b->layers.bytes);
    return b->status ? b->status : copy_net(m, err);
}

static zn_status stream_locked(zn_model *m, zn_error *err)
{
    zn_status s = zn_turn_take(&m->engine->turn, err);

    if (s)
        return s;
    s = zn_model_stream(m, err);
    zn_turn_give(&m->engine->turn);
    return s;
}

/* Chooses whether layers are streamed, and refuses weights that do not fit even then, before anything is read; in
 * addition to so many bytes, and to the weights that the composite `whole` already has, whose layers are streamed, too,
 * if these are.  A bind that loads nothing counts the packed weights and the device's scratch memory. */
static zn_status check_memory(zn_model *m, const zn_weights *w, zn_model *whole, size_t beside, zn_error *err)
{
    const zn_need none = { 0, 0 };
    zn_need all = whole ? whole->need : none, least = whole ? whole->least : none;
    zn_binder b = binder_of(m, w, NULL);
    zn_limits limits;
    zn_status s = zn_limits_of(&limits, m->engine, beside, err);

    m->streams = whole && whole->streams;
    if (s)
        return s;
    b.counting = true;
    m->arch->bind(&b, m->net);
    memset(m->net, 0, m->arch->size);
    all = both(all, need_of(&b, false));
    least = both(least, need_of(&b, true));
    if (b.status ||
        (!m->streams && all.weights + all.scratch <= limits.total)) /* the bind that loads reports the error */
        return ZN_OK;
    if (least.weights < all.weights && least.weights + least.scratch <= limits.total) {
        m->streams = true;
        return whole ? stream_locked(whole, err) : ZN_OK;
    }
    if (least.weights < all.weights)
        return zn_fail(
            err, ZN_E_MEMORY,
            "the weights of %s take %zu MiB on the %s engine, or %zu if layers are read from disk as they are "
            "needed, where %zu are allowed; set %s to more",
            m->arch->info.id, mib(all.weights + all.scratch), m->engine->be->name, mib(least.weights + least.scratch),
            limits.total >> 20, m->engine->be->memory_variable);
    return zn_fail(err, ZN_E_MEMORY,
                   "the weights of %s take %zu MiB on the %s engine where %zu are allowed; set %s to more",
                   m->arch->info.id, mib(all.weights + all.scratch), m->engine->be->name, limits.total >> 20,
                   m->engine->be->memory_variable);
}

static zn_status wrong_channels(const zn_model *m, const zn_weights *w, int has, int wants, zn_error *err)
{
    return zn_fail(err, ZN_E_FILE, "%s: with these weights %s works on pictures of %d channels, not %d",
                   w ? zn_weights_path(w) : "", m->arch->info.id, has, wants);
}

/* The weights of w, for a device that is not there yet.  *out stays NULL where that cannot be, or is in vain: then bind() does it,
 * and says what is wrong. */
static zn_status pack_early(zn_early **out, zn_model *m, const zn_weights *w, const zn_open *open, zn_error *err)
{
    zn_error unseen;
    zn_binder b = binder_of(m, w, &unseen);

    if (!w || m->plan_only || m->arch->parts || !zn_engine_starting(m->engine) || !(*out = calloc(1, sizeof **out)))
        return ZN_OK;
    (*out)->precision = m->precision;
    b.packs = &(*out)->packed;
    b.progress = open->progress;
    b.cookie = open->cookie;
    if (!(b.status = zn_turn_take(&m->engine->turn, NULL))) {
        m->arch->bind(&b, m->net);
        zn_turn_give(&m->engine->turn);
    }
    memset(m->net, 0, m->arch->size);
    if (b.status)
        zn_early_free(out);
    return b.status == ZN_E_CANCELLED ? zn_fail(err, ZN_E_CANCELLED, "cancelled") : ZN_OK;
}

/* Until the device is there; what needs it would wait, too, but not ask.  It may have failed to start. */
static zn_status await_device(zn_engine *e, const zn_open *open, zn_error *err)
{
    const struct timespec pause = { 0, 1000000 };
    zn_error late;
    zn_status s;

    if (!e->be->open_early)
        return ZN_OK;
    while (open->progress && zn_engine_starting(e)) {
        if (!open->progress(open->cookie, 0))
            return zn_fail(err, ZN_E_CANCELLED, "cancelled");
        nanosleep(&pause, NULL);
    }
    if ((s = zn_turn_take(&e->turn, err)))
        return s;
    s = e->be->sync(e->dev, err ? err : &late);
    zn_turn_give(&e->turn);
    return s;
}

/* The weights of w onto the device; packed: NULL, or they are packed there already. */
static zn_status bind(zn_model *m, const zn_weights *w, zn_packed *packed, const zn_open *open, zn_error *err)
{
    zn_engine *e = m->engine;
    zn_binder b = binder_of(m, w, err);
    zn_error late;

    b.counting = m->plan_only;
    b.streams = m->streams;
    b.packed = packed;
    b.progress = open->progress;
    b.cookie = open->cookie;
    if (zn_turn_take(&e->turn, err))
        return ZN_E_USAGE;
    m->arch->bind(&b, m->net);
    if (!b.status) /* the weights may have failed to get there */
        b.status = e->be->sync(e->dev, err ? err : &late);
    zn_turn_give(&e->turn);
    m->need = both(m->need, need_of(&b, false));
    m->least = both(m->least, need_of(&b, true));
    m->parameters += b.parameters;
    m->binder = b;
    m->binder.err = NULL;
    m->binder.packed = NULL;
    m->binder.progress = NULL;
    m->geometry = b.geometry;
    m->split = b.split;
    memcpy(m->variant, b.variant, sizeof m->variant);
    if (!b.status && m->arch->in_c && m->geometry.in_c != m->arch->in_c)
        return wrong_channels(m, w, m->geometry.in_c, m->arch->in_c, err);
    if (!b.status && m->arch->out_c && m->geometry.out_c != m->arch->out_c)
        return wrong_channels(m, w, m->geometry.out_c, m->arch->out_c, err);
    return b.status;
}

static zn_status load(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open, zn_model *whole,
                      zn_error *err);

typedef struct part_file {
    char path[4096];
    const char *file;
} part_file;

/* How a network of a composite is opened: in its precision, with its files, unless it was opened with a folder that has one for
 * each. */
static zn_open part_of(part_file *f, const zn_model *m, const zn_part *p, const zn_open *open)
{
    zn_open one = *open;
    struct stat st;

    one.precision = zn_precision_names[m->precision];
    if (p->folder && open->n_files == 1 && snprintf(f->path, sizeof f->path, "%s/%s", open->files[0], p->folder) > 0 &&
        strlen(f->path) + 1 < sizeof f->path && !stat(f->path, &st)) {
        f->file = f->path;
        one.files = &f->file;
        one.n_files = 1;
    }
    return one;
}

static zn_status open_parts(zn_model *m, const zn_open *open, zn_error *err)
{
    for (const zn_part *p = m->arch->parts; p && p->arch; p++) {
        part_file file;
        const zn_open one = part_of(&file, m, p, open);
        zn_status s;

        assert(m->n_parts < ZN_MAX_PARTS);
        if ((s = load(&m->part[m->n_parts], m->engine, p->arch, &one, m, err)))
            return s;
        add_part(m, m->part[m->n_parts++]);
    }
    return ZN_OK;
}

/* The network that measures the noise for this one, where it is installed.  Made-up weights are for benchmarks and tests of one network: they get none. */
static zn_status open_level(zn_model *m, const zn_open *open, zn_error *err)
{
    char path[4096];
    const char *found = path;
    const zn_open own = { .files = &found, .n_files = 1, .precision = zn_precision_names[ZN_FP32] };
    zn_status s;

    if (!m->arch->noise || (open->n_files == 1 && !strcmp(open->files[0], ZN_RANDOM_WEIGHTS)) ||
        zn_weights_find(path, sizeof path, m->arch->noise->level->info.weights, NULL))
        return ZN_OK;
    s = load(&m->level, m->engine, m->arch->noise->level, &own, m, err);
    if (!s)
        add_part(m, m->level);
    return s;
}

/* What `auto` is on a CPU: fp16 where it multiplies that. */
static zn_precision cpu_precision(const zn_engine *e, const zn_arch *a)
{
    const zn_conv linear = {
        .kh = 1, .kw = 1, .stride = 1, .groups = 1, .cin = 64, .cout = 64, .precision = ZN_FP16_MATH
    };
    const bool fp16 = e->be->conv_inputs && e->be->conv_inputs(e->dev, &linear) == ZN_W_F16;

    return fp16 && a->half_sums_ok ? ZN_FP16_MATH : ZN_FP32;
}

/* A handle without weights whose precision is known, and its files, *w, if they are not open yet. */
static zn_status begin(zn_model **out, zn_weights **w, zn_engine *engine, const zn_arch *a, const zn_open *open,
                       zn_error *err)
{
    zn_model *m = NULL;
    zn_precision precision;
    zn_status s = ZN_OK;
    const zn_arch *called = NULL;
    char what[96];

    if (!*w && a->info.weights && (!a->parts || a->half_unless)) /* a composite's own decide its precision alone */
        s = open_weights(w, a, open->files, open->n_files, err);
    if (!s && *w && a->formerly && a->formerly->recognise(*w, what, sizeof what)) {
        called = a;
        a = a->formerly;
    }
    if (!s)
        s = zn_precision_choose(&precision, engine, a, *w, open->precision, err);
    if (a->parts)
        zn_weights_close(w);
    if (!s && !(m = zn_model_new(engine, a, open, err)))
        s = ZN_E_MEMORY;
    if (!s) {
        m->called = called;
        m->precision = m->asked || engine->be->remote ? precision : cpu_precision(engine, a);
        m->plan_only = open->plan_only;
    }
    *out = m;
    return s;
}

void zn_model_ahead(zn_engine *engine, const zn_arch *a, const zn_open *open)
{
    zn_early *early = NULL;
    zn_weights *w = NULL;
    zn_model *m = NULL;

    if (!zn_engine_starting(engine) || open->n_files != 1)
        return;
    if (!begin(&m, &w, engine, a, open, NULL)) {
        for (const zn_part *p = m->arch->parts; p && p->arch; p++) {
            part_file file;
            const zn_open one = part_of(&file, m, p, open);

            zn_model_ahead(engine, p->arch, &one);
        }
        pack_early(&early, m, w, open, NULL);
    }
    zn_model_free(&m);
    if (early) {
        early->arch = a;
        early->w = w;
        w = NULL;
        if (!zn_turn_take(&engine->turn, NULL)) {
            zn_early_keep(engine, &early, open->files[0]);
            zn_turn_give(&engine->turn);
        }
    }
    zn_early_free(&early);
    zn_weights_close(&w);
}

/* What zn_model_ahead() has left; NULL: nothing. */
static zn_early *take_early(zn_engine *engine, const zn_arch *a, const zn_open *open)
{
    zn_early *early;

    if (!engine->be->open_early || open->n_files != 1 || open->plan_only || zn_turn_take(&engine->turn, NULL))
        return NULL;
    early = zn_early_take(engine, a, open->files[0]);
    zn_turn_give(&engine->turn);
    if (early && zn_weights_unchanged(early->w, NULL))
        zn_early_free(&early);
    return early;
}

/* whole: NULL, or the composite that the network is a part of. */
static zn_status load(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open, zn_model *whole,
                      zn_error *err)
{
    zn_early *early = take_early(engine, a, open);
    zn_model *m = NULL;
    zn_weights *w = NULL;
    zn_status s;

    if (early) {
        w = early->w;
        early->w = NULL;
    }
    s = begin(&m, &w, engine, a, open, err);
    if (!s)
        s = open_parts(m, open, err);
    if (!s && !early)
        s = pack_early(&early, m, w, open, err);
    if (!s && !m->plan_only)
        s = await_device(engine, open, err);
    if (!s && !m->plan_only && !m->arch->parts)
        s = zn_say_beside(err, check_memory(m, w, whole, open->beside, err), open->beside);
    if (!s)
        s = bind(m, w, early && early->precision == m->precision && !m->streams ? &early->packed : NULL, open, err);
    zn_early_free(&early);
    if (!s && m->binder.layers.slot) {
        m->weights = w;
        w = NULL;
        s = copy_net(m, err);
    }
    if (!s)
        s = open_level(m, open, err);
    zn_weights_close(&w);
    if (s)
        zn_model_free(&m);
    *out = m;
    return s;
}

zn_status zn_model_load(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open, zn_error *err)
{
    return load(out, engine, a, open, NULL, err);
}

void zn_model_free(zn_model **model)
{
    zn_model *m = model ? *model : NULL;

    if (!m)
        return;
    zn_bind_end(&m->binder);
    if (m->engine) {
        const zn_backend *be = m->engine->be;

        const bool mine = zn_turn_is_mine(&m->engine->turn); /* closed by what a run calls */

        if (!mine) /* another model may be running */
            zn_turn_take(&m->engine->turn, NULL);
        for (int i = 0; i < m->binder.n_owned; i++)
            be->free(m->engine->dev, m->binder.owned[i]);
        be->free(m->engine->dev, m->block);
        for (int i = 0; i < 2 * (ZN_MAX_PORTS + 1); i++)
            be->host_free(m->engine->dev, m->tile[i]);
        if (!mine)
            zn_turn_give(&m->engine->turn);
    }
    for (int i = 0; i < m->n_parts; i++)
        zn_model_free(&m->part[i]);
    zn_model_free(&m->level);
    zn_model_free(&m->stand_in);
    zn_engine_close(&m->cpu);
    for (int i = 0; i < m->n_files; i++)
        free(m->files[i]);
    zn_turn_end(&m->opening);
    free(m->files);
    zn_weights_close(&m->weights);
    free(m->binder.owned);
    free(m->read_net);
    free(m->net);
    if (!m->plan_only)
        trim(m->engine, m->need.weights);
    free(m);
    *model = NULL;
}
