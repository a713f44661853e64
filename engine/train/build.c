/* SPDX-License-Identifier: MIT */
#include "build.h"

#include "../autograd/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const zn_arch *zn_trained_at(const char *model, int i)
{
    for (int j = 0; zn_archs[j]; j++)
        if (zn_archs[j]->train && !strcmp(zn_archs[j]->info.weights, model) && i-- == 0)
            return zn_archs[j];
    return NULL;
}

static zn_status net_failed(const zn_net *net, zn_error *err)
{
    if (err)
        *err = net->error;
    return net->status;
}

/* One picture of a batch. */
static zn_tensor picture_of(zn_ctx *c, zn_recorder *r, int node)
{
    const zn_node *o = zn_net_at(r->net, node);
    const zn_tensor x = zn_new(c, 1, o->h, o->w, o->c);

    zn_record_set(r, x, node);
    return x;
}

/* The forward of a network that bind has described becomes nodes; in[0] becomes that of its output. */
static zn_status record(zn_net *net, const zn_arch *a, const void *described, const zn_geometry *g, int in[2],
                        zn_error *err)
{
    zn_recorder r = { .net = net };
    zn_arena arena = { .size = SIZE_MAX };
    zn_ctx c = { .be = &zn_backend_record, .dev = &r, .arena = &arena, .err = err };
    float set[ZN_MAX_SETTINGS] = { 0 };
    zn_call call = { .n_in = in[1] == ZN_NO_NODE ? 1 : 2, .n_out = 1, .set = set };

    for (int i = 0; a->info.settings && a->info.settings[i].key; i++)
        set[i] = a->info.settings[i].initial;
    for (int i = 0; i < call.n_in; i++)
        call.in[i] = picture_of(&c, &r, in[i]);
    call.out[0] = zn_new(&c, 1, call.in[0].h * g->grow / g->shrink, call.in[0].w * g->grow / g->shrink, g->out_c);
    a->forward(&c, described, &call);
    in[0] = zn_record_get(&r, call.out[0]);
    zn_record_end(&r);
    return net->status ? net_failed(net, err) : c.status;
}

/* Adds the graph of one architecture, bound by b; in[0] becomes its output.  side: of the picture; 0: a code. */
static zn_status add_bound(zn_net *net, const zn_arch *a, zn_binder *b, int side, int in[2], zn_error *err)
{
    const zn_geometry code = { .out_c = zn_net_channels(net, in[0]), .shrink = 1, .grow = 1 };
    zn_outline outline = { 0 };
    void *described = calloc(1, a->size);
    int multiple;
    zn_status s;

    if (!described)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    b->outline = &outline;
    b->err = err;
    s = zn_arch_describe(a, described, b);
    multiple = b->geometry.padded ? b->geometry.multiple : b->geometry.shrink;
    if (!s && side && side % multiple)
        s = zn_fail(err, ZN_E_USAGE, "%d pixels are not a multiple of %d", side, multiple);
    if (!s) {
        net->outline = &outline;
        s = record(net, a, described, side ? &b->geometry : &code, in, err);
        net->outline = NULL;
    }
    zn_outline_free(&outline);
    free(described);
    return s;
}

static zn_status add_graph(zn_net *net, const zn_arch *a, const zn_build *b, int in[2], zn_error *err)
{
    const int side = zn_net_height(net, in[0]);
    zn_binder binder = { .w = a->train->from_weights ? b->w : NULL, .base = b->base, .size = side, .meta = b->meta };

    return add_bound(net, a, &binder, side, in, err);
}

zn_status zn_net_build(zn_net *net, const zn_build *b, zn_error *err)
{
    const zn_arch *a = zn_trained_at(b->model, 0);
    int in[2] = { zn_net_input(net, b->batch, b->size, b->size, 3), ZN_NO_NODE };
    zn_status s = ZN_OK;

    if (a && a->train->tasks & ZN_TASK_DENOISE)
        in[1] = zn_net_input(net, b->batch, b->size, b->size, 3);
    if (net->status)
        return net_failed(net, err);
    for (int i = 0; !s && (a = zn_trained_at(b->model, i)); i++) {
        s = add_graph(net, a, b, in, err);
        if (!s && !i && a->train->posterior)
            in[0] = zn_net_posterior(net, in[0]);
    }
    return s;
}

zn_status zn_net_build_codes(zn_net *net, const zn_arch *a, const zn_weights *w, int batch, int code, int dim,
                             zn_error *err)
{
    int in[2] = { zn_net_input(net, batch, 1, 1, code), zn_net_input(net, batch, 1, 1, dim) };
    zn_binder binder = { .w = w, .size = code };

    return net->status ? net_failed(net, err) : add_bound(net, a, &binder, 0, in, err);
}

/* ---- parameters from a file ---------------------------------------------------------------------------- */

zn_status zn_net_load(zn_net *net, real *to, const zn_weights *w, const char *prefix, zn_error *err)
{
    for (int i = 0; i < net->n_params; i++) {
        const zn_param *p = &net->param[i];
        char name[96];
        const zn_entry *e;
        float *x;

        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        e = zn_weights_get(w, name);
        if (!e || zn_entry_len(e) != p->len || (e->n_dims && e->shape[0] != p->dims[0]))
            return zn_fail(err, ZN_E_FILE,
                           "%s: tensor '%s' is missing or of another shape: not the weights of this "
                           "network",
                           zn_weights_path(w), name);
        x = malloc(p->len * sizeof *x);
        if (!x)
            return zn_fail(err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
        zn_status s = zn_entry_read(e, x, err);

        for (size_t j = 0; !s && j < p->len; j++)
            to[p->at + j] = (real)x[j];
        free(x);
        if (s)
            return s;
    }
    return ZN_OK;
}
