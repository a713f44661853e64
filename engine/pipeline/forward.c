/* SPDX-License-Identifier: MIT */
/* forward.c - see forward.h. */
#include "forward.h"

#include <stdlib.h>
#include <string.h>

/* ---- the network, computed or replayed ------------------------------------------------------------------------ */

/* The key of a recorded forward: network, tensors, settings, and the addresses of its own tensors.  The values of the
 * inputs do not count: what changes from call to call is an input in device memory. */
static uint64_t key_of(const zn_ctx *c, const zn_model *m, const zn_call *call)
{
    uint64_t key = 1469598103934665603u;
    const char *free_memory = c->arena->base + zn_mark(c->arena);
    int n_set = 0;

    while (call->set && m->arch->info.settings && m->arch->info.settings[n_set].key)
        n_set++;
    const struct {
        const void *data;
        size_t size;
    } part[] = {
        { &m, sizeof m },
        { &free_memory, sizeof free_memory },
        { call->set, (size_t)n_set * sizeof *call->set },
        { call->in, (size_t)call->n_in * sizeof *call->in },
        { call->out, (size_t)call->n_out * sizeof *call->out },
        { &call->left, sizeof call->left },
        { &call->top, sizeof call->top },
        { &call->stage, sizeof call->stage },
        { &call->state, sizeof call->state },
        { &call->first, sizeof call->first },
    };

    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (size_t j = 0; j < part[i].size; j++)
            key = (key ^ ((const unsigned char *)part[i].data)[j]) * 1099511628211u; /* FNV-1a */
    return key;
}

static const zn_kept *find_kept(const zn_model *m, uint64_t key)
{
    for (int i = 0; i < m->n_kept; i++)
        if (m->kept[i].key == key)
            return &m->kept[i];
    return NULL;
}

static void keep(zn_model *m, uint64_t key, double work, bool slow)
{
    int i = 0;

    while (i < m->n_kept && m->kept[i].key != key)
        i++;
    if (i == ZN_MAX_KEPT) {
        i = m->next_kept;
        m->next_kept = (i + 1) % ZN_MAX_KEPT;
    } else if (i == m->n_kept) {
        m->n_kept++;
    }
    m->kept[i] = (zn_kept){ key, work, slow };
}

void zn_call_net(zn_ctx *c, zn_model *m, const zn_call *call)
{
    const zn_layers *l = &m->binder.layers;
    const zn_streamed streamed = { zn_bind_fetch, &m->binder, l->n ? (double)l->parameters / l->n : 0 };
    const bool streams = m->streams && l->n;
    const bool known = !c->dry && !c->trace && !streams; /* a recorded forward cannot read a file */
    const size_t mark = zn_mark(c->arena);
    const double before = c->work;
    const zn_type outside = c->type;
    const uint64_t key = known && !c->status ? key_of(c, m, call) : 0;
    const zn_kept *kept = known ? find_kept(m, key) : NULL;
    const bool slow =
        !c->dry && !c->trace && (c->step_ms > 0 ? zn_step_is_long(c) : kept && kept->slow && zn_can_pace(c));
    const bool keeps = known && !slow;
    const bool paces =
        slow || (known && !kept && zn_can_pace(c)); /* of a first one it is not known how long it takes */
    const double start = zn_now_ms();

    if (c->status)
        return;
    if (m->arch->parts) { /* its networks are recorded, each by itself */
        m->arch->forward(c, m->net, call);
        zn_reset(c->arena, mark);
        return;
    }
    if (keeps && c->be->replay(c->dev, key)) {
        c->work += kept ? kept->work : 0;
        return;
    }
    if (keeps)
        c->be->record(c->dev, key);
    c->type = m->binder.tensors;
    c->streamed = streams ? &streamed : NULL;
    zn_pace(c, paces);
    m->arch->forward(c, m->net, call);
    zn_pace(c, false);
    c->streamed = NULL;
    c->type = outside;
    if (keeps)
        c->be->recorded(c->dev, !c->status);
    if (known && !c->status)
        keep(m, key, c->work - before, paces && zn_is_long(zn_now_ms() - start));
    zn_reset(c->arena, mark);
}

/* ---- a forward from host to host -------------------------------------------------------------------------------- */

/* The median time of several forwards; short ones are repeated until a measurement takes 20 ms. */
static void measure_time(zn_ctx *c, zn_model *m, const zn_call *call, double *median)
{
    enum { WARM = 4, ROUNDS = 9 };
    double ms[ROUNDS], start;
    int each = 1;

    for (int i = 0; i < WARM; i++)
        zn_call_net(c, m, call);
    c->be->sync(c->dev, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        start = zn_now_ms();
        for (int j = 0; j < each; j++)
            zn_call_net(c, m, call);
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
    *median = ms[ROUNDS / 2];
}

void zn_noise(zn_ctx *c, zn_tensor y, uint32_t seed, uint64_t stream)
{
    const size_t len = zn_pixels(y) * (size_t)y.c, each = len / (size_t)y.n;
    float *host = c->dry || c->status ? NULL : malloc(len * sizeof *host);

    if (!c->dry && !host)
        zn_ctx_fail(c, ZN_E_MEMORY, "out of memory for noise");
    for (int i = 0; host && i < y.n; i++)
        zn_noise_fill(host + (size_t)i * each, each, (seed + (uint32_t)i) & ZN_MAX_SEED, stream);
    zn_upload(c, y, host);
    free(host);
}

/* The noise of a draw from a posterior. */
static void add_noise(zn_ctx *c, const zn_run *r, zn_call *call)
{
    const zn_posterior *p = r->model->arch->posterior;
    const zn_tensor z = call->out[0];

    if (!p || r->set[p->sample] == 0 || call->stage == 1)
        return;
    call->in[call->n_in] = zn_new_of(c, ZN_F32, z.n, z.h, z.w, z.c);
    zn_noise(c, call->in[call->n_in++], (uint32_t)r->set[p->seed], 0);
}

/* The same for counting and for computing. */
static void forward(zn_ctx *c, const zn_run *r, zn_call call, const float *const *in, float *const *out)
{
    for (int i = 0; i < call.n_in; i++)
        if (call.in[i].c) {
            zn_tensor t = call.in[i];

            call.in[i] = zn_new_of(c, ZN_F32, t.n, t.h, t.w, t.c);
            zn_upload(c, call.in[i], in ? in[i] : NULL);
        }
    add_noise(c, r, &call);
    for (int i = 0; i < call.n_out; i++) {
        zn_tensor t = call.out[i];

        call.out[i] = zn_new_of(c, ZN_F32, t.n, t.h, t.w, t.c);
    }
    if (r->time && !c->dry)
        measure_time(c, r->model, &call, r->time);
    else
        zn_call_net(c, r->model, &call);
    for (int i = 0; i < call.n_out; i++)
        zn_download(c, out ? out[i] : NULL, call.out[i]);
}

static bool same_sizes(const zn_tensor *a, const zn_tensor *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].n != b[i].n || a[i].h != b[i].h || a[i].w != b[i].w || a[i].c != b[i].c)
            return false;
    return true;
}

static bool same_shape(const zn_call *a, const zn_call *b)
{
    return a->n_in == b->n_in && a->n_out == b->n_out && a->left == b->left && a->top == b->top &&
        a->stage == b->stage && a->first == b->first && !a->state == !b->state && same_sizes(a->in, b->in, a->n_in) &&
        same_sizes(a->out, b->out, a->n_out);
}

zn_status zn_run_measure(zn_run *r, const zn_call *call, const zn_measure **out, zn_error *err)
{
    zn_arena arena = { .size = SIZE_MAX / 2 };
    zn_ctx dry = { .be = r->ctx.be,
                   .dev = r->ctx.dev,
                   .arena = &arena,
                   .dry = true,
                   .err = err,
                   .preview = r->ctx.preview,
                   .preview_every = r->ctx.preview_every,
                   .preview_with = r->ctx.preview_with };
    int i = 0;

    while (i < r->n_measures && !same_shape(&r->measure[i].shape, call))
        i++;
    *out = &r->measure[i < ZN_MAX_MEASURES ? i : r->next_measure];
    if (i < r->n_measures)
        return ZN_OK;
    forward(&dry, r, *call, NULL, NULL);
    if (dry.status)
        return dry.status;
    if (i < ZN_MAX_MEASURES)
        r->n_measures++;
    else
        r->next_measure = (r->next_measure + 1) % ZN_MAX_MEASURES;
    *(zn_measure *)*out = (zn_measure){ *call, arena.peak, dry.macs, dry.work };
    return ZN_OK;
}

/* Memory for the arena: the existing block, or a larger one. */
static bool get_block(zn_run *r, size_t size)
{
    zn_model *m = r->model;

    if (size <= m->block_size)
        return true;
    r->ctx.be->free(r->ctx.dev, m->block);
    m->block = r->ctx.be->alloc(r->ctx.dev, size);
    m->block_size = m->block ? size : 0;
    if (!m->block) { /* a lost device has its own message */
        r->ctx.status = r->ctx.be->sync(r->ctx.dev, r->ctx.err);
        zn_ctx_fail(&r->ctx, ZN_E_MEMORY, "%s needs %zu MiB, more than this machine can provide", m->arch->info.id,
                    size >> 20);
    }
    return m->block;
}

void zn_run_start(zn_run *r, const zn_call *call, const float *const *in, float *const *out)
{
    const zn_measure *measured;
    zn_arena arena = { 0 };

    if (r->ctx.status || (r->ctx.status = zn_run_measure(r, call, &measured, r->ctx.err)) ||
        !get_block(r, measured->peak))
        return;
    arena.base = r->model->block;
    arena.size = r->model->block_size;
    r->ctx.arena = &arena;
    forward(&r->ctx, r, *call, in, out);
}

void zn_run_finish(zn_run *r)
{
    if (!r->ctx.status)
        r->ctx.status = r->ctx.be->sync(r->ctx.dev, r->ctx.err);
}
