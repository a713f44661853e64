/* SPDX-License-Identifier: MIT */
/* request.c - a request on one engine: its arguments are checked, then tiles or whole arrays are run. */
#include "request.h"

#include "memory.h"
#include "settings.h"
#include "stages.h"

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

zn_status zn_request_shape(const zn_model *m, const zn_array *in, int n_in, zn_array *out, zn_error *err)
{
    const zn_model_info *info = &m->arch->info;
    const zn_geometry *g = &m->geometry;
    const void *net = *m->failed.text ? m->stand_in->net : m->net;
    zn_tensor ti[ZN_MAX_PORTS], to[ZN_MAX_PORTS];
    zn_status s;

    if (n_in < count_ports(info->in, true) || n_in > count_ports(info->in, false))
        return zn_fail(err, ZN_E_USAGE, "%s takes %d inputs, not %d", info->id, count_ports(info->in, false), n_in);
    for (int i = 0; i < n_in; i++) {
        if (in[i].h < 1 || in[i].w < 1 || in[i].c < 1 || (double)in[i].h * in[i].w * in[i].c > (double)(SIZE_MAX / 64))
            return zn_fail(err, ZN_E_USAGE, "input %s of %dx%dx%d is empty or too large", info->in[i], in[i].h, in[i].w,
                           in[i].c);
        ti[i] = as_tensor(&in[i]);
    }
    if (m->arch->shape) {
        if (!m->arch->shape(net, ti, n_in, to))
            return zn_fail(err, ZN_E_USAGE, "%s cannot work on inputs of these sizes", info->id);
        for (int i = 0; info->out[i]; i++)
            out[i] = (zn_array){ out[i].data, to[i].h, to[i].w, to[i].c };
        return ZN_OK;
    }
    for (int i = 0; i < n_in; i++)
        if ((s = zn_tile_check_port(m, i, in[i].w, in[i].h, in[i].c, in[0].w, in[0].h, err)))
            return s;
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

static void as_sources(zn_source *src, zn_memory *mem, const zn_array *in, int n_in)
{
    for (int i = 0; i < n_in; i++) {
        mem[i] = (zn_memory){ in[i].data, in[i].w, in[i].c };
        src[i] = (zn_source){ in[i].w, in[i].h, in[i].c, zn_memory_read, &mem[i] };
    }
}

/* The memory of one forward that cannot be cut into tiles, and whether all weights are in memory or, where only that
 * fits, streamed.  The weights of the network that shows estimates count as scratch memory.  Refused if that is too
 * much. */
static zn_status measure_whole(zn_run *r, const zn_call *call, const zn_measure **out, zn_need *need, zn_error *err)
{
    const zn_model *m = r->model;
    const size_t shows = r->ctx.preview_with ? r->ctx.preview_with->need.weights : 0;
    zn_status s = zn_run_measure(r, call, out, err);
    size_t most = r->most;

    *need = m->need;
    need->scratch += shows;
    if (s || (!m->streams && (*out)->peak + need->scratch <= most))
        return s;
    if (m->streams || !r->bounded) {
        *need = m->least;
        need->scratch += shows;
    }
    if (!r->bounded)
        most = r->total > need->weights ? r->total - need->weights : 0;
    if ((*out)->peak + need->scratch > most)
        return zn_fail(
            err, ZN_E_MEMORY,
            "%s needs %zu MiB for inputs of these sizes, beside %zu MiB of weights, where %zu are allowed; set %s "
            "to more",
            m->arch->info.id, ((*out)->peak + need->scratch + (1 << 20) - 1) >> 20, need->weights >> 20, most >> 20,
            m->engine->be->memory_variable);
    return s;
}

static zn_status plan_request(zn_model *m, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan,
                              zn_error *err)
{
    zn_array out[ZN_MAX_PORTS] = { { 0 } };
    zn_source src[ZN_MAX_PORTS];
    zn_memory mem[ZN_MAX_PORTS];
    const zn_measure *measured;
    bool may_change;
    zn_need need;
    zn_run r;
    zn_call call;
    zn_status s;

    *plan = (zn_plan){ 0 };
    m = *m->failed.text ? m->stand_in : m;
    may_change = m->least.weights < m->need.weights && !m->plan_only; /* a run may stream it */
    if ((s = zn_run_begin(&r, m, job, err)) || (s = zn_request_shape(m, in, n_in, out, err)))
        return s;
    call = whole_call(&r, in, n_in, out);
    need = m->need;
    if (m->arch->shape) {
        if (may_change && (s = zn_turn_take(&m->engine->turn, err)))
            return s;
        s = measure_whole(&r, &call, &measured, &need, err);
        if (may_change)
            zn_turn_give(&m->engine->turn);
        if (s)
            return s;
        *plan = (zn_plan){ measured->peak + need.scratch, measured->macs, .tile_w = in[0].w, .tile_h = in[0].h,
                           .n_tiles = 1 };
    } else {
        as_sources(src, mem, in, n_in);
        if ((s = zn_stages_plan(&r, plan, src, n_in, err)))
            return s;
    }
    plan->weight_bytes = need.weights;
    plan->streamed = need.weights < m->need.weights;
    return ZN_OK;
}

zn_status zn_request_plan(zn_model *m, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan, zn_error *err)
{
    return zn_say_beside(err, plan_request(m, in, n_in, job, plan, err), job ? job->beside : 0);
}

static zn_status run_arrays(zn_run *r, const zn_array *in, int n_in, zn_array *out, zn_error *err)
{
    zn_source src[ZN_MAX_PORTS];
    zn_memory mem[ZN_MAX_PORTS], to = { out[0].data, out[0].w, out[0].c };
    zn_sink sink = { zn_memory_write, &to };

    if (r->model->arch->shape) {
        const float *from[ZN_MAX_PORTS];
        float *into[ZN_MAX_PORTS];
        zn_call call = whole_call(r, in, n_in, out);
        const zn_measure *measured;
        zn_need need;
        zn_status s = measure_whole(r, &call, &measured, &need, err);

        if (!s && need.weights < r->model->need.weights && !r->model->streams) {
            r->n_measures = 0; /* reading is work */
            if (!(s = zn_model_stream(r->model, err)))
                s = zn_run_measure(r, &call, &measured, err);
        }
        if (s)
            return s;
        r->ctx.total = measured->work;
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
    return zn_stages_run(r, &sink, src, n_in, (zn_rect){ 0, 0, out[0].w, out[0].h }, err);
}

/* Measures the noise for a network that is not told it, in the part of the picture that the request needs. */
static zn_status measure_levels(zn_levels *levels, zn_run *r, const zn_request *q, zn_error *err)
{
    zn_source src = q->arrays ? (zn_source){ 0 } : q->sources[0];
    zn_rect roi = q->roi;
    zn_memory mem;
    zn_status s;

    if (q->arrays) {
        as_sources(&src, &mem, q->arrays, 1);
        roi = (zn_rect){ 0, 0, src.w, src.h };
    }
    if ((s = zn_tile_check(r, &src, 1, roi, err)))
        return s;
    r->levels = levels;
    return zn_levels_measure(levels, r->model, &src, zn_tile_reach(r, &src, roi), r->set[r->model->arch->noise->scale],
                             q->job, err);
}

zn_status zn_request_run_on(zn_model *m, const zn_request *q, zn_error *err)
{
    zn_levels levels = { .cell = NULL };
    zn_run r;
    zn_status s = m->plan_only
        ? zn_fail(err, ZN_E_USAGE, "%s was opened to be planned, not to be run", m->arch->info.id)
        : zn_run_begin(&r, m, q->job, err);

    if (s || (q->arrays && (s = zn_request_shape(m, q->arrays, q->n_in, q->results, err))))
        return s;
    r.ctx.trace = q->trace;
    r.ctx.trace_cookie = q->trace_cookie;
    r.time = q->time;
    if (zn_tile_wants_levels(&r, q->n_in) && (s = measure_levels(&levels, &r, q, err)))
        return s;
    if ((s = zn_turn_take(&m->engine->turn, err))) {
        zn_levels_free(&levels);
        return s;
    }
    s = q->arrays ? run_arrays(&r, q->arrays, q->n_in, q->results, err)
                  : zn_stages_run(&r, q->sink, q->sources, q->n_in, q->roi, err);
    zn_turn_give(&m->engine->turn);
    zn_levels_free(&levels);
    zn_say_beside(err, s, r.beside);
    if (!s && r.ctx.progress)
        r.ctx.progress(r.ctx.cookie, 1);
    if (!s && m->streams && q->job && q->job->note)
        zn_fail(q->job->note, ZN_OK,
                "%s takes more than the %zu MiB that are allowed: its layers are read from disk as they are needed, "
                "which is "
                "slower; %s sets the bound",
                m->arch->info.id, (r.total + r.beside) >> 20, m->engine->be->memory_variable);
    return s;
}
