/* SPDX-License-Identifier: MIT */
/* net.c - nodes, parameters, the two passes, the loss. */
#include "net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 /* elements of an item */ };

/* ---- building ------------------------------------------------------------------------------------------ */

zn_net *zn_net_new(zn_cpu *dev)
{
    zn_net *net = calloc(1, sizeof *net);

    if (net) {
        net->dev = dev;
        net->none = (zn_node){ .net = net, .n = 1, .h = 1, .w = 1, .c = 1 };
    }
    return net;
}

void zn_net_free(zn_net **net)
{
    zn_net *n = net ? *net : NULL;

    if (!n)
        return;
    for (int i = 0; i < n->n_nodes; i++) {
        free(n->node[i]->y);
        free(n->node[i]->dy);
        free(n->node[i]->save);
        free(n->node[i]);
    }
    free(n->node);
    free(n->param);
    free(n->w);
    free(n->g);
    free(n->temp);
    free(n->sums);
    free(n);
    *net = NULL;
}

void zn_net_fail(zn_net *g, zn_status status, const char *fmt, ...)
{
    char text[sizeof g->error.text];

    ZN_FORMAT(text, fmt);
    if (!g->status)
        g->status = zn_fail(&g->error, status, "%s", text);
}

/* Zeros; NULL: there was a failure. */
static void *take(zn_net *net, size_t len, size_t size)
{
    void *p = net->status ? NULL : calloc(len ? len : 1, size);

    if (!p)
        zn_net_fail(net, ZN_E_MEMORY, "out of memory for training: a smaller --batch or --size needs less");
    return p;
}

static zn_node *new_node(zn_net *net)
{
    zn_node **list = realloc(net->node, (size_t)(net->n_nodes + 1) * sizeof *list), *o;

    if (list)
        net->node = list;
    else
        zn_net_fail(net, ZN_E_MEMORY, "out of memory for training");
    o = take(net, 1, sizeof *o);
    if (o)
        net->node[net->n_nodes++] = o;
    return o;
}

int zn_net_add_node(zn_net *net, const zn_op *op, int x, int h, int w, int c, size_t save_len)
{
    zn_node *o = net->status ? NULL : new_node(net);
    size_t len;

    if (h < 1 || w < 1 || c < 1)
        zn_net_fail(net, ZN_E_USAGE, "the pictures are too small for this network");
    if (!o)
        return ZN_NO_NODE;
    *o = (zn_node){ .net = net,
                    .op = op,
                    .index = net->n_nodes - 1,
                    .in = { x, ZN_NO_NODE },
                    .gate = ZN_NO_NODE,
                    .h = h,
                    .w = w,
                    .c = c,
                    .param = { ZN_NO_PARAM, ZN_NO_PARAM, ZN_NO_PARAM, ZN_NO_PARAM } };
    if (x != ZN_NO_NODE) {
        o->n = zn_net_at(net, x)->n;
        o->wants = zn_net_at(net, x)->wants;
        len = zn_node_len(o);
        o->y = take(net, len, sizeof *o->y);
        o->dy = take(net, len, sizeof *o->dy);
        o->save = save_len ? take(net, save_len, sizeof *o->save) : NULL;
    }
    return o->index;
}

int zn_net_input(zn_net *net, int n, int h, int w, int c)
{
    int i = zn_net_add_node(net, NULL, ZN_NO_NODE, h, w, c, 0);
    zn_node *o = zn_net_at(net, i);

    o->n = n;
    o->y = take(net, zn_node_len(o), sizeof *o->y);
    return i;
}

int zn_net_height(zn_net *g, int x)
{
    return zn_net_at(g, x)->h;
}

int zn_net_channels(zn_net *g, int x)
{
    return zn_net_at(g, x)->c;
}

const zn_stated *zn_net_stated(const zn_net *net, const char *name, const char *part)
{
    char full[2 * ZN_NAME_SIZE];

    snprintf(full, sizeof full, "%s%s%s", name, *part ? "." : "", part);
    for (int i = 0; net->outline && i < net->outline->n; i++)
        if (!strcmp(net->outline->tensor[i].name, full))
            return &net->outline->tensor[i];
    return NULL;
}

/* The initial values of a stated tensor, with ZN_INIT_USUAL and ZN_INIT_GAIN resolved. */
static void resolve_init(zn_param *p, const zn_stated *t)
{
    const size_t fan_in = p->len / (size_t)p->dims[0];
    const char *part = strrchr(t->name, '.');
    zn_init init = t->init;
    double value = t->value;

    if (init == ZN_INIT_USUAL) {
        bool matrix = t->dims[1] != 0, weight = part && !strcmp(part, ".weight");

        init = matrix ? ZN_INIT_GAIN : ZN_INIT_CONSTANT;
        value = matrix || weight ? 1 : 0;
    }
    if (init == ZN_INIT_GAIN) {
        init = value > 0 ? ZN_INIT_NORMAL : ZN_INIT_CONSTANT;
        value = value > 0 ? sqrt(value / (double)fan_in) : 0;
    }
    p->init = init;
    p->value = (real)value;
}

void zn_net_add_param(zn_node *o, int i, const char *name, const char *part, const int dims[ZN_RANK])
{
    zn_net *net = o->net;
    const zn_stated *t = zn_net_stated(net, name, part);
    zn_param *list, *p;

    if (net->status)
        return;
    if (!t || memcmp(t->dims, dims, sizeof t->dims)) {
        zn_net_fail(net, ZN_E_USAGE, "the tensor '%s%s%s' is not stated, or not of the shape that the graph needs",
                    name, *part ? "." : "", part);
        return;
    }
    list = realloc(net->param, (size_t)(net->n_params + 1) * sizeof *list);
    if (!list) {
        zn_net_fail(net, ZN_E_MEMORY, "out of memory for training");
        return;
    }
    net->param = list;
    p = &list[net->n_params];
    *p = (zn_param){ .at = net->len, .len = 1 };
    memcpy(p->name, t->name, sizeof p->name);
    for (int d = 0; d < ZN_RANK && dims[d]; d++) {
        p->dims[d] = dims[d];
        p->len *= (size_t)dims[d];
    }
    resolve_init(p, t);
    net->len += p->len;
    o->param[i] = net->n_params++;
    o->wants = true;
}

void zn_net_want_temp(zn_net *net, size_t len)
{
    net->temp_len = len > net->temp_len ? len : net->temp_len;
}

typedef struct init_job {
    const zn_net *net;
    const zn_param *p;
    uint64_t seed, stream;
} init_job;

static void init_item(void *cookie, int item, int worker)
{
    const init_job *job = cookie;
    size_t first = (size_t)item * CHUNK, end = first + CHUNK < job->p->len ? first + CHUNK : job->p->len;

    (void)worker;
    for (size_t i = first; i < end; i++)
        job->net->w[job->p->at + i] = (real)((double)job->p->value * zn_normal(job->seed, job->stream, i));
}

bool zn_net_finish(zn_net *net, uint64_t seed)
{
    if (!net->status && !net->n_nodes)
        zn_net_fail(net, ZN_E_USAGE, "the graph is empty");
    net->w = take(net, net->len, sizeof *net->w);
    net->g = take(net, net->len, sizeof *net->g);
    net->temp = take(net, net->temp_len, sizeof *net->temp);
    if (!net->status)
        net->sums = take(net, (size_t)zn_items(zn_node_len(zn_net_last(net)), CHUNK), sizeof *net->sums);
    for (int i = 0; i < net->n_params && !net->status; i++) {
        const zn_param *p = &net->param[i];
        init_job job = { net, p, seed, (uint64_t)i };

        if (p->init == ZN_INIT_NORMAL)
            zn_pool_run(net->dev->pool, init_item, &job, zn_items(p->len, CHUNK));
        for (size_t j = 0; j < p->len && p->init == ZN_INIT_CONSTANT; j++)
            net->w[p->at + j] = p->value;
        for (size_t j = p->len / 3; j < p->len / 3 * 2 && p->init == ZN_INIT_MIDDLE; j++)
            net->w[p->at + j] = 1;
    }
    return !net->status;
}

/* ---- running ------------------------------------------------------------------------------------------- */

void zn_net_forward(zn_net *net)
{
    for (int i = 0; i < net->n_nodes; i++)
        if (net->node[i]->op)
            net->node[i]->op->forward(net->node[i]);
}

void zn_net_backward(zn_net *net)
{
    for (int i = 0; i < net->n_nodes - 1; i++)
        net->node[i]->ready = false;
    for (int i = net->n_nodes - 1; i >= 0; i--) {
        zn_node *o = net->node[i];

        if (!o->op || !o->wants)
            continue;
        o->op->backward(o);
        for (int j = 0; j < 2; j++)
            if (o->in[j] != ZN_NO_NODE)
                net->node[o->in[j]]->ready = true;
    }
}

typedef struct loss_job {
    zn_node *o;
    const real *target, *weight;
    bool absolute;
    double *sum; /* of each item */
} loss_job;

static void loss_item(void *cookie, int item, int worker)
{
    const loss_job *job = cookie;
    size_t len = zn_node_len(job->o), first = (size_t)item * CHUNK, end = first + CHUNK < len ? first + CHUNK : len;
    double sum = 0;
    const double all = (job->absolute ? 1.0 : 2.0) / (double)len;
    size_t image = len / (size_t)job->o->n;

    (void)worker;
    for (size_t i = first; i < end; i++) {
        real d = job->o->y[i] - job->target[i],
             scale = (real)(all * (job->weight ? (double)job->weight[i / image] : 1));

        sum += job->absolute ? fabs((double)d) : (double)d * (double)d;
        job->o->dy[i] = job->absolute ? (d > 0 ? scale : d < 0 ? -scale : 0) : scale * d;
    }
    job->sum[item] = sum;
}

double zn_net_loss(zn_net *net, const real *target, const real *weight, bool absolute)
{
    loss_job job = { zn_net_last(net), target, weight, absolute, net->sums };
    int items = zn_items(zn_node_len(job.o), CHUNK);
    double sum = 0;

    zn_pool_run(net->dev->pool, loss_item, &job, items);
    for (int i = 0; i < items; i++)
        sum += job.sum[i];
    return sum / (double)zn_node_len(job.o);
}

double zn_net_open_gates(const zn_net *net, double *all)
{
    double sum = 0;

    *all = 0;
    for (int i = 0; i < net->n_nodes; i++) {
        const zn_node *o = net->node[i];

        if (!o->op || strcmp(o->op->name, "gate"))
            continue;
        for (size_t j = 0; j < zn_node_len(o) / 8; j++)
            sum += (double)o->save[j];
        *all += (double)(zn_node_len(o) / 8);
    }
    return sum;
}
