/* SPDX-License-Identifier: MIT */
/* net.c - nodes, parameters, the two passes, the loss. */
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 /* numbers */ };

/* ---- numbers out of counters --------------------------------------------------------------------------- */

static uint64_t mix64(uint64_t x) /* the finaliser of splitmix64 */
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double zn_uniform(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t x = mix64(seed + 0x9e3779b97f4a7c15u) ^ mix64(stream * 0xd1342543de82ef95u + 1);

    return (double)(mix64(x + (i + 1) * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
}

double zn_normal(uint64_t seed, uint64_t stream, uint64_t i)
{
    double u = 1 - zn_uniform(seed, stream, 2 * i), v = zn_uniform(seed, stream, 2 * i + 1);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- building ------------------------------------------------------------------------------------------ */

zn_net *zn_net_new(zn_cpu *dev)
{
    zn_net *net = calloc(1, sizeof *net);

    if (net)
        net->dev = dev;
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
    free(n);
    *net = NULL;
}

static void *take(zn_net *net, size_t len, size_t size)
{
    void *p = net->failed ? NULL : calloc(len ? len : 1, size);

    if (!p)
        net->failed = true;
    return p;
}

int zn_net_add_node(zn_net *net, const zn_op *op, int x, int h, int w, int c, size_t save_len)
{
    zn_node **list = realloc(net->node, (size_t)(net->n_nodes + 1) * sizeof *list);
    zn_node *o = take(net, 1, sizeof *o);
    size_t len;

    if (!list || !o)
        abort(); /* a few hundred bytes */
    net->node = list;
    *o = (zn_node){ .net = net,
                    .op = op,
                    .index = net->n_nodes,
                    .in = { x, ZN_NO_NODE },
                    .gate = ZN_NO_NODE,
                    .h = h,
                    .w = w,
                    .c = c,
                    .param = { ZN_NO_PARAM, ZN_NO_PARAM, ZN_NO_PARAM, ZN_NO_PARAM } };
    if (x != ZN_NO_NODE) {
        o->n = list[x]->n;
        o->wants = list[x]->wants;
        len = zn_node_len(o);
        o->y = take(net, len, sizeof *o->y);
        o->dy = take(net, len, sizeof *o->dy);
        o->save = save_len ? take(net, save_len, sizeof *o->save) : NULL;
    }
    net->node[net->n_nodes] = o;
    return net->n_nodes++;
}

int zn_net_input(zn_net *net, int n, int h, int w, int c)
{
    int i = zn_net_add_node(net, NULL, ZN_NO_NODE, h, w, c, 0);
    zn_node *o = net->node[i];

    o->n = n;
    o->y = take(net, zn_node_len(o), sizeof *o->y);
    return i;
}

int zn_net_add_param(zn_net *net, const char *name, const char *part, const int dims[4], zn_init init, real value)
{
    zn_param *list = realloc(net->param, (size_t)(net->n_params + 1) * sizeof *list), *p;

    if (!list)
        abort();
    net->param = list;
    p = &list[net->n_params];
    *p = (zn_param){ .at = net->len, .len = 1, .init = init, .value = value };
    snprintf(p->name, sizeof p->name, "%s%s%s", name, *part ? "." : "", part);
    for (int i = 0; i < 4 && dims[i]; i++) {
        p->dims[i] = dims[i];
        p->len *= (size_t)dims[i];
    }
    net->len += p->len;
    return net->n_params++;
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
    net->w = take(net, net->len, sizeof *net->w);
    net->g = take(net, net->len, sizeof *net->g);
    net->temp = take(net, net->temp_len, sizeof *net->temp);
    for (int i = 0; i < net->n_params && !net->failed; i++) {
        const zn_param *p = &net->param[i];
        init_job job = { net, p, seed, (uint64_t)i };

        if (p->init == ZN_INIT_NORMAL)
            zn_pool_run(net->dev->pool, init_item, &job, zn_items(p->len, CHUNK));
        for (size_t j = 0; j < p->len && p->init == ZN_INIT_ONE; j++)
            net->w[p->at + j] = p->value;
        for (size_t j = p->len / 3; j < p->len / 3 * 2 && p->init == ZN_INIT_MIDDLE; j++)
            net->w[p->at + j] = 1;
    }
    return !net->failed;
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
    loss_job job = { zn_net_last(net), target, weight, absolute, NULL };
    int items = zn_items(zn_node_len(job.o), CHUNK);
    double sum = 0;

    job.sum = calloc((size_t)items, sizeof *job.sum);
    if (!job.sum)
        return NAN;
    zn_pool_run(net->dev->pool, loss_item, &job, items);
    for (int i = 0; i < items; i++)
        sum += job.sum[i];
    free(job.sum);
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
