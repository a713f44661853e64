/* SPDX-License-Identifier: MIT */
/* lib.c - the calls of zenith.h about models: argument checks, then inward. */
#include "handle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ZN_VERSION
#define ZN_VERSION "0"
#endif

const char *zn_version(void)
{
    return ZN_VERSION;
}

/* ---- the registry ----------------------------------------------------------------------------------- */

static const zn_arch *find_arch(const char *id)
{
    for (int i = 0; zn_archs[i]; i++)
        if (!strcmp(zn_archs[i]->info.id, id))
            return zn_archs[i];
    return NULL;
}

const zn_model_info *zn_model_at(int i)
{
    for (int j = 0; zn_archs[j]; j++)
        if (j == i)
            return &zn_archs[j]->info;
    return NULL;
}

const zn_model_info *zn_model_named(const char *id)
{
    const zn_arch *a = find_arch(id);

    return a ? &a->info : NULL;
}

const char *zn_weights_recognise(const zn_weights *weights, char *what, size_t size)
{
    for (int i = 0; zn_archs[i]; i++)
        if (zn_archs[i]->recognise && zn_archs[i]->recognise(weights, what, size))
            return zn_archs[i]->info.id;
    return NULL;
}

/* ---- open and close --------------------------------------------------------------------------------- */

static zn_status open_weights(zn_weights **w, const zn_arch *a, const char *const *files, int n_files, zn_error *err)
{
    char path[4096];
    const char *found = path;
    zn_status s;

    if (n_files > 0) {
        if (n_files == 1 && !strcmp(files[0], ZN_RANDOM_WEIGHTS))
            return ZN_OK; /* bind makes them up */
        return zn_weights_open(w, files, n_files, err);
    }
    s = zn_weights_find(path, sizeof path, a->info.weights, err);
    return s ? s : zn_weights_open(w, &found, 1, err);
}

static bool keep_files(zn_model *m, const char *const *files, int n_files)
{
    m->files = calloc((size_t)n_files + 1, sizeof *m->files);
    for (int i = 0; m->files && i < n_files; i++, m->n_files++)
        if (!(m->files[i] = strdup(files[i])))
            return false;
    return m->files != NULL;
}

zn_status zn_model_open(zn_model **out, zn_engine *engine, const char *id, const char *const *files, int n_files,
                        zn_error *err)
{
    const zn_arch *a = find_arch(id);
    zn_model *m = NULL;
    zn_weights *w = NULL;
    zn_binder b = { .err = err };
    zn_error late;
    zn_status s = ZN_OK;

    *out = NULL;
    if (err)
        err->text[0] = 0;
    if (!a)
        return zn_fail(err, ZN_E_USAGE, "there is no model '%s'; `zenith models` lists them", id);
    if (a->info.weights && (s = open_weights(&w, a, files, n_files, err)))
        goto end;
    m = calloc(1, sizeof *m);
    if (m)
        m->net = calloc(1, a->size);
    if (!m || !m->net || !keep_files(m, files, n_files)) {
        s = zn_fail(err, ZN_E_MEMORY, "out of memory while opening %s", id);
        goto end;
    }
    m->arch = a;
    m->engine = engine;
    b.w = w;
    b.be = engine->be;
    b.dev = engine->dev;
    pthread_mutex_lock(&engine->lock);
    a->bind(&b, m->net);
    if (!b.status) /* the weights may have failed to get there */
        b.status = b.be->sync(b.dev, err ? err : &late);
    pthread_mutex_unlock(&engine->lock);
    m->owned = b.owned;
    m->n_owned = b.n_owned;
    m->parameters = b.parameters;
    m->geometry = b.geometry;
    memcpy(m->variant, b.variant, sizeof m->variant);
    s = b.status;
end:
    zn_weights_close(&w);
    if (s)
        zn_model_close(&m);
    *out = m;
    return s;
}

void zn_model_close(zn_model **model)
{
    zn_model *m = model ? *model : NULL;

    if (!m)
        return;
    if (m->engine) {
        const zn_backend *be = m->engine->be;

        pthread_mutex_lock(&m->engine->lock); /* another model may be running */
        for (int i = 0; i < m->n_owned; i++)
            be->free(m->engine->dev, m->owned[i]);
        be->free(m->engine->dev, m->block);
        for (int i = 0; i < 2 * (ZN_MAX_PORTS + 1); i++)
            be->host_free(m->engine->dev, m->tile[i]);
        pthread_mutex_unlock(&m->engine->lock);
    }
    zn_model_close(&m->stand_in);
    zn_engine_close(&m->cpu);
    for (int i = 0; i < m->n_files; i++)
        free(m->files[i]);
    free(m->files);
    free(m->owned);
    free(m->net);
    free(m);
    *model = NULL;
}

const zn_geometry *zn_model_geometry(const zn_model *m)
{
    return &m->geometry;
}

const char *zn_model_variant(const zn_model *m)
{
    return m->variant;
}

const char *zn_model_note(const zn_model *m)
{
    return m->note;
}

int64_t zn_model_parameters(const zn_model *m)
{
    return m->parameters;
}

/* ---- one forward ------------------------------------------------------------------------------------- */

static zn_status read_precision(zn_run *r, const char *name, zn_error *err)
{
    const zn_engine *e = r->model->engine;

    for (int i = 0; i < ZN_N_PRECISIONS; i++)
        if (!strcmp(name, zn_precision_names[i])) {
            if (!e->be->has_precision(e->dev, (zn_precision)i))
                return zn_fail(err, ZN_E_USAGE, "the %s engine has no precision %s%s", e->be->name, name,
                               i == ZN_FP8_MATH ? ": that takes an NVIDIA GPU of compute capability 9.0" : "");
            r->precision = (zn_precision)i;
            r->ctx.type = zn_precision_type(r->precision);
            return ZN_OK;
        }
    return zn_fail(err, ZN_E_USAGE, "precision wants fp32, tf32, fp16, bf16 or fp8, not '%s'", name);
}

/* "sigma=25" into its place of set[]. */
static zn_status read_setting(float *set, const zn_arch *a, const char *text, zn_error *err)
{
    const char *eq = strchr(text, '=');
    size_t len = eq ? (size_t)(eq - text) : strlen(text);
    char *end = NULL;
    double v;

    for (int i = 0; a->info.settings && a->info.settings[i].key; i++) {
        const zn_setting *k = &a->info.settings[i];

        if (strlen(k->key) != len || strncmp(k->key, text, len))
            continue;
        v = eq ? strtod(eq + 1, &end) : NAN;
        if (!eq || end == eq + 1 || *end || !(v >= k->min && v <= k->max))
            return zn_fail(err, ZN_E_USAGE, "%s wants a number from %g to %g, not '%s'", k->key, (double)k->min,
                           (double)k->max, eq ? eq + 1 : "");
        set[i] = (float)v;
        return ZN_OK;
    }
    return zn_fail(err, ZN_E_USAGE, "%s has no setting '%.*s'", a->info.id, (int)len, text);
}

/* What a forward may take if the job does not say: the user's bound, the device's, or a modest one. */
static zn_status default_memory(size_t *bytes, const zn_engine *e, zn_error *err)
{
    const char *name = zn_engine_memory_name(e), *text = getenv(name);
    char *end = NULL;
    double mib = text ? strtod(text, &end) : 0;

    if (!text || !*text) {
        *bytes = e->be->memory(e->dev);
        *bytes = *bytes ? *bytes : (size_t)448 << 20;
        return ZN_OK;
    }
    if (end != text && (*end == 'G' || *end == 'g'))
        mib *= 1024, end++;
    else if (end != text && (*end == 'M' || *end == 'm'))
        end++;
    if (end == text || *end || !(mib >= 1 && mib <= 1e9))
        return zn_fail(err, ZN_E_USAGE, "%s wants mebibytes, such as 512, or 4G, not '%s'", name, text);
    *bytes = (size_t)(mib * 1048576);
    return ZN_OK;
}

zn_status zn_run_begin(zn_run *r, zn_model *m, const zn_job *job, zn_error *err)
{
    static const zn_job none;
    const zn_engine *e = m->engine;
    zn_status s;

    job = job ? job : &none;
    *r = (zn_run){ .model = m, .tile = job->tile };
    r->max_memory = job->max_memory;
    r->ctx = (zn_ctx){ .be = e->be, .dev = e->dev, .err = err, .progress = job->progress, .cookie = job->cookie };
    if (err)
        err->text[0] = 0;
    if (!r->max_memory && (s = default_memory(&r->max_memory, e, err)))
        return s;
    for (int i = 0; m->arch->info.settings && m->arch->info.settings[i].key; i++)
        r->set[i] = m->arch->info.settings[i].initial;
    for (int i = 0; i < job->n_set; i++) {
        s = !strncmp(job->set[i], "precision=", 10) ? read_precision(r, job->set[i] + 10, err)
                                                    : read_setting(r->set, m->arch, job->set[i], err);
        if (s)
            return s;
    }
    return ZN_OK;
}

/* What a repeated forward must agree in: network, sizes, settings, addresses. */
static uint64_t key_of(const zn_run *r, const zn_call *call)
{
    uint64_t key = 1469598103934665603u;
    const struct {
        const void *data;
        size_t size;
    } part[] = {
        { &r->model, sizeof r->model },
        { &r->model->block, sizeof r->model->block },
        { &r->precision, sizeof r->precision },
        { r->set, sizeof r->set },
        { call->in, (size_t)call->n_in * sizeof *call->in },
        { call->out, (size_t)call->n_out * sizeof *call->out },
        { &call->left, sizeof call->left },
        { &call->top, sizeof call->top },
    };

    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (size_t j = 0; j < part[i].size; j++)
            key = (key ^ ((const unsigned char *)part[i].data)[j]) * 1099511628211u; /* FNV-1a */
    return key;
}

/* The network on call's tensors: as it was kept, or computed in a way that can be. */
static void compute(zn_ctx *c, const zn_run *r, const zn_call *call)
{
    const bool keeps = !c->dry && !c->trace;
    size_t mark = zn_mark(c->arena);
    double before = c->work;

    if (c->status)
        return;
    if (keeps && c->be->replay(c->dev, key_of(r, call))) {
        c->work += r->model->replayed;
        return;
    }
    if (keeps)
        c->be->record(c->dev, key_of(r, call));
    r->model->arch->forward(c, r->model->net, call);
    if (keeps)
        c->be->recorded(c->dev, !c->status);
    if (!c->dry)
        r->model->replayed = c->work - before;
    zn_reset(c->arena, mark);
}

/* The median of several forwards, each of them over and over for a while. */
static void measure_time(zn_ctx *c, const zn_run *r, const zn_call *call, double *best)
{
    enum { WARM = 4, ROUNDS = 9 };
    double ms[ROUNDS], start;
    int each = 1;

    for (int i = 0; i < WARM; i++)
        compute(c, r, call);
    c->be->sync(c->dev, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        start = zn_now_ms();
        for (int j = 0; j < each; j++)
            compute(c, r, call);
        c->be->sync(c->dev, NULL);
        ms[i] = (zn_now_ms() - start) / each;
        if (!i)
            each = ms[0] > 0 && ms[0] < 20 ? (int)(20 / ms[0]) + 1 : 1;
        for (int j = i; j > 0 && ms[j] < ms[j - 1]; j--) {
            double t = ms[j];

            ms[j] = ms[j - 1];
            ms[j - 1] = t;
        }
    }
    *best = ms[ROUNDS / 2];
}

/* The forward and the tensors around it, the same for counting and for computing. */
static void forward(zn_ctx *c, const zn_run *r, zn_call call, const float *const *in, float *const *out)
{
    for (int i = 0; i < call.n_in; i++)
        if (call.in[i].c) {
            zn_tensor t = call.in[i];

            call.in[i] = zn_new_of(c, ZN_F32, t.n, t.h, t.w, t.c);
            zn_upload(c, call.in[i], in ? in[i] : NULL);
        }
    for (int i = 0; i < call.n_out; i++) {
        zn_tensor t = call.out[i];

        call.out[i] = zn_new_of(c, ZN_F32, t.n, t.h, t.w, t.c);
    }
    if (r->time && !c->dry)
        measure_time(c, r, &call, r->time);
    else
        compute(c, r, &call);
    for (int i = 0; i < call.n_out; i++)
        zn_download(c, out ? out[i] : NULL, call.out[i]);
}

zn_status zn_run_measure(const zn_run *r, const zn_call *call, size_t *peak, double *macs, double *work, zn_error *err)
{
    zn_arena arena = { .size = SIZE_MAX / 2 };
    zn_ctx dry = { .be = r->ctx.be, .dev = r->ctx.dev, .arena = &arena, .type = r->ctx.type, .dry = true, .err = err };

    forward(&dry, r, *call, NULL, NULL);
    *peak = arena.peak;
    *macs = dry.macs;
    *work = dry.work;
    return dry.status;
}

void zn_run_start(zn_run *r, const zn_call *call, const float *const *in, float *const *out)
{
    zn_model *m = r->model;
    zn_arena arena = { 0 };
    size_t peak;
    double macs, work;

    if (r->ctx.status || (r->ctx.status = zn_run_measure(r, call, &peak, &macs, &work, r->ctx.err)))
        return;
    if (peak > m->block_size) {
        r->ctx.be->free(r->ctx.dev, m->block);
        m->block = r->ctx.be->alloc(r->ctx.dev, peak);
        m->block_size = m->block ? peak : 0;
        if (!m->block) { /* a lost device has its own sentence */
            r->ctx.status = r->ctx.be->sync(r->ctx.dev, r->ctx.err);
            zn_ctx_fail(&r->ctx, ZN_E_MEMORY, "%s needs %zu MiB, which this machine does not give", m->arch->info.id,
                        peak >> 20);
            return;
        }
    }
    arena.base = m->block;
    arena.size = m->block_size;
    r->ctx.arena = &arena;
    forward(&r->ctx, r, *call, in, out);
}

void zn_run_finish(zn_run *r)
{
    if (!r->ctx.status)
        r->ctx.status = r->ctx.be->sync(r->ctx.dev, r->ctx.err);
}

/* ---- running on arrays ---------------------------------------------------------------------------------- */

typedef struct memory { /* an array as a source or a sink */
    float *data;
    int32_t w, c;
} memory;

static void copy_rect(float *dst, size_t dst_w, const float *src, size_t src_w, zn_rect r, size_t c)
{
    for (int32_t i = 0; i < r.h; i++)
        memcpy(dst + (size_t)i * dst_w * c, src + (size_t)i * src_w * c, (size_t)r.w * c * sizeof *dst);
}

static bool read_memory(void *cookie, zn_rect r, float *dst)
{
    const memory *m = cookie;
    size_t at = ((size_t)r.y * (size_t)m->w + (size_t)r.x) * (size_t)m->c;

    copy_rect(dst, (size_t)r.w, m->data + at, (size_t)m->w, r, (size_t)m->c);
    return true;
}

static bool write_memory(void *cookie, zn_rect r, const float *src)
{
    const memory *m = cookie;
    size_t at = ((size_t)r.y * (size_t)m->w + (size_t)r.x) * (size_t)m->c;

    copy_rect(m->data + at, (size_t)m->w, src, (size_t)r.w, r, (size_t)m->c);
    return true;
}

static zn_tensor as_tensor(const zn_array *a)
{
    return (zn_tensor){ NULL, 1, a->h, a->w, a->c, a->c, ZN_F32 };
}

static int count_ports(const char *const *names, bool required)
{
    int n = 0;

    while (names[n] && !(required && names[n][0] == '['))
        n++;
    return n;
}

zn_status zn_model_shape(const zn_model *m, const zn_array *in, int n_in, zn_array *out, zn_error *err)
{
    const zn_model_info *info = &m->arch->info;
    const zn_geometry *g = &m->geometry;
    zn_tensor ti[ZN_MAX_PORTS], to[ZN_MAX_PORTS];

    if (n_in < count_ports(info->in, true) || n_in > count_ports(info->in, false))
        return zn_fail(err, ZN_E_USAGE, "%s takes %d inputs, not %d", info->id, count_ports(info->in, false), n_in);
    for (int i = 0; i < n_in; i++) {
        if (in[i].h < 1 || in[i].w < 1 || in[i].c < 1 || (double)in[i].h * in[i].w * in[i].c > (double)(SIZE_MAX / 64))
            return zn_fail(err, ZN_E_USAGE, "input %s of %dx%dx%d is empty or too large", info->in[i], in[i].h, in[i].w,
                           in[i].c);
        ti[i] = as_tensor(&in[i]);
    }
    if (m->arch->shape) {
        if (!m->arch->shape(m->net, ti, n_in, to))
            return zn_fail(err, ZN_E_USAGE, "%s cannot work on inputs of these sizes", info->id);
        for (int i = 0; info->out[i]; i++)
            out[i] = (zn_array){ out[i].data, to[i].h, to[i].w, to[i].c };
        return ZN_OK;
    }
    if (in[0].c != g->in_c)
        return zn_fail(err, ZN_E_USAGE, "%s (%s) takes %d channels, not %d", info->id, m->variant, g->in_c, in[0].c);
    if ((int64_t)in[0].h * g->grow > INT32_MAX / 2 || (int64_t)in[0].w * g->grow > INT32_MAX / 2)
        return zn_fail(err, ZN_E_USAGE, "the result would be too large");
    out[0].h = (in[0].h + g->shrink - 1) / g->shrink * g->grow;
    out[0].w = (in[0].w + g->shrink - 1) / g->shrink * g->grow;
    out[0].c = g->out_c;
    return ZN_OK;
}

static zn_call whole_call(const zn_run *r, const zn_array *in, int n_in, const zn_array *out)
{
    zn_call call = { .n_in = n_in, .n_out = count_ports(r->model->arch->info.out, false), .set = r->set };

    for (int i = 0; i < n_in; i++)
        call.in[i] = as_tensor(&in[i]);
    for (int i = 0; i < call.n_out; i++)
        call.out[i] = as_tensor(&out[i]);
    return call;
}

static void as_sources(zn_source *src, memory *mem, const zn_array *in, int n_in)
{
    for (int i = 0; i < n_in; i++) {
        mem[i] = (memory){ in[i].data, in[i].w, in[i].c };
        src[i] = (zn_source){ in[i].w, in[i].h, in[i].c, read_memory, &mem[i] };
    }
}

zn_status zn_model_plan(zn_model *m, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan, zn_error *err)
{
    zn_array out[ZN_MAX_PORTS] = { { 0 } };
    zn_source src[ZN_MAX_PORTS];
    memory mem[ZN_MAX_PORTS];
    double work;
    zn_run r;
    zn_call call;
    zn_status s;

    *plan = (zn_plan){ 0 };
    if ((s = zn_run_begin(&r, m, job, err)) || (s = zn_model_shape(m, in, n_in, out, err)))
        return s;
    call = whole_call(&r, in, n_in, out);
    if (m->arch->shape) {
        *plan = (zn_plan){ .tile_w = in[0].w, .tile_h = in[0].h, .n_tiles = 1 };
        return zn_run_measure(&r, &call, &plan->peak_bytes, &plan->macs, &work, err);
    }
    as_sources(src, mem, in, n_in);
    return zn_tile_plan(&r, plan, src, n_in, err);
}

static zn_status run_arrays(zn_run *r, const zn_array *in, int n_in, zn_array *out, zn_error *err)
{
    zn_source src[ZN_MAX_PORTS];
    memory mem[ZN_MAX_PORTS], to = { out[0].data, out[0].w, out[0].c };
    zn_sink sink = { write_memory, &to };

    if (r->model->arch->shape) {
        const float *from[ZN_MAX_PORTS];
        float *into[ZN_MAX_PORTS];
        zn_call call = whole_call(r, in, n_in, out);
        size_t peak;
        double macs;
        zn_status s = zn_run_measure(r, &call, &peak, &macs, &r->ctx.total, err);

        if (s)
            return s;
        for (int i = 0; i < ZN_MAX_PORTS; i++) {
            from[i] = i < n_in ? in[i].data : NULL;
            into[i] = i < call.n_out ? out[i].data : NULL;
        }
        zn_run_start(r, &call, from, into);
        zn_run_finish(r);
        return r->ctx.status;
    }
    as_sources(src, mem, in, n_in);
    r->shared = true; /* arrays, that is */
    return zn_tile_run(r, &sink, src, n_in, (zn_rect){ 0, 0, out[0].w, out[0].h }, err);
}

/* ---- the GPU, or the CPU in its place ------------------------------------------------------------------------ */

typedef struct request { /* one of two calls of zenith.h */
    const zn_array *arrays;
    zn_array *results;
    const zn_source *sources;
    const zn_sink *sink;
    int n_in;
    zn_rect roi;
    const zn_job *job;
    void (*trace)(void *cookie, const zn_layer_time *t);
    void *trace_cookie;
    double *time;
} request;

static zn_status run_on(zn_model *m, const request *q, zn_error *err)
{
    zn_run r;
    zn_status s = zn_run_begin(&r, m, q->job, err);

    if (s || (q->arrays && (s = zn_model_shape(m, q->arrays, q->n_in, q->results, err))))
        return s;
    r.ctx.trace = q->trace;
    r.ctx.trace_cookie = q->trace_cookie;
    r.time = q->time;
    pthread_mutex_lock(&m->engine->lock);
    m->engine->be->set_precision(m->engine->dev, r.precision);
    s = q->arrays ? run_arrays(&r, q->arrays, q->n_in, q->results, err)
                  : zn_tile_run(&r, q->sink, q->sources, q->n_in, q->roi, err);
    pthread_mutex_unlock(&m->engine->lock);
    if (!s && r.ctx.progress)
        r.ctx.progress(r.ctx.cookie, 1);
    return s;
}

/* The request on the best CPU engine, in float32; the GPU said `why`. */
static zn_status run_stand_in(zn_model *m, const request *q, const char *why, zn_error *err)
{
    const char *set[ZN_MAX_SETTINGS + 1];
    zn_job job = q->job ? *q->job : (zn_job){ 0 };
    request again = *q;
    zn_status s;

    if (!m->cpu && (s = zn_engine_open_cpu(&m->cpu, err)))
        return s;
    if (!m->stand_in &&
        (s = zn_model_open(&m->stand_in, m->cpu, m->arch->info.id, (const char *const *)m->files, m->n_files, err)))
        return s;
    again.job = &job;
    job.set = set;
    job.n_set = 0;
    for (int i = 0; q->job && i < q->job->n_set && job.n_set <= ZN_MAX_SETTINGS; i++)
        if (strncmp(q->job->set[i], "precision=", 10))
            set[job.n_set++] = q->job->set[i];
    s = run_on(m->stand_in, &again, err);
    if (!s)
        snprintf(m->note, sizeof m->note, "%.180s; done with the %s engine instead", why, m->cpu->be->name);
    return s;
}

static zn_status run(zn_model *m, const request *q, zn_error *err)
{
    zn_error why = { "" };
    zn_status s;

    m->note[0] = 0;
    s = run_on(m, q, err ? err : &why);
    if ((s != ZN_E_DEVICE && s != ZN_E_MEMORY) || !zn_engine_is_gpu(m->engine))
        return s;
    if (err)
        why = *err;
    return run_stand_in(m, q, why.text, err);
}

zn_status zn_model_profile(zn_model *m, const zn_array *in, int n_in, zn_array *out, const zn_job *job,
                           void (*print)(void *cookie, const zn_layer_time *t), void *cookie, zn_error *err)
{
    request q = { .arrays = in, .results = out, .n_in = n_in, .job = job, .trace = print, .trace_cookie = cookie };

    return run(m, &q, err);
}

zn_status zn_model_time(zn_model *m, const zn_array *in, int n_in, zn_array *out, const zn_job *job, double *ms,
                        zn_error *err)
{
    request q = { .arrays = in, .results = out, .n_in = n_in, .job = job, .time = ms };

    *ms = 0;
    return run(m, &q, err);
}

zn_status zn_model_run(zn_model *m, const zn_array *in, int n_in, zn_array *out, const zn_job *job, zn_error *err)
{
    return zn_model_profile(m, in, n_in, out, job, NULL, NULL, err);
}

zn_status zn_model_run_region(zn_model *m, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi,
                              const zn_job *job, zn_error *err)
{
    request q = { .sources = in, .sink = out, .n_in = n_in, .roi = roi, .job = job };

    return run(m, &q, err);
}
