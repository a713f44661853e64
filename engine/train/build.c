/* SPDX-License-Identifier: MIT */
#include "build.h"

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

/* Adds the graph of one architecture; in[0] becomes its output. */
static zn_status add_graph(zn_net *net, const zn_arch *a, const zn_build *b, int in[2], zn_error *err)
{
    zn_outline outline = { 0 };
    zn_binder binder = { .w = a->train->from_weights ? b->w : NULL,
                         .base = b->base,
                         .size = zn_net_height(net, in[0]),
                         .meta = b->meta,
                         .outline = &outline,
                         .err = err };
    void *described = calloc(1, a->size);
    zn_status s;

    if (!described)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    s = zn_arch_describe(a, described, &binder);
    if (!s) {
        net->outline = &outline;
        in[0] = a->train->graph(net, described, in);
        net->outline = NULL;
        s = net->status;
        if (s && err)
            *err = net->error;
    }
    zn_outline_free(&outline);
    free(described);
    return s;
}

zn_status zn_net_build(zn_net *net, const zn_build *b, zn_error *err)
{
    const zn_arch *a = zn_trained_at(b->model, 0);
    int in[2] = { zn_net_input(net, b->batch, b->size, b->size, 3), ZN_NO_NODE };
    zn_status s = ZN_OK;

    if (a && a->train->tasks & ZN_TASK_DENOISE)
        in[1] = zn_net_input(net, b->batch, b->size, b->size, 3);
    for (int i = 0; !s && (a = zn_trained_at(b->model, i)); i++)
        s = add_graph(net, a, b, in, err);
    return s;
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
