/* SPDX-License-Identifier: MIT */
/* net.h - a network that can be trained: nodes in the order of computation, each with an exact backward.
 *
 *     forward:   for each node            y  = f(inputs, parameters)
 *     backward:  for each node, reversed  dx += (df/dx)^T dy,   g = (df/dw)^T dy
 *
 * Values are `real`: float in the library, double where the tests compare gradients with differences
 * (ZN_TRAIN_DOUBLE).  Each parameter belongs to one node.  The order of every sum depends on sizes only, never on
 * threads: results are the same bits for every thread count.  Parameters have the layout of the weight file. */
#ifndef ZN_NET_H
#define ZN_NET_H

#include "../core/random.h"
#include "../cpu/matmul.h"
#include "graph.h"

#ifdef ZN_TRAIN_DOUBLE
typedef double real;
#else
typedef float real;
#endif

enum { ZN_NO_PARAM = -1 };

typedef struct zn_param {
    char name[ZN_NAME_SIZE];
    int dims[ZN_RANK]; /* 0 ends the list */
    size_t at, len;    /* first element in w and g; elements */
    zn_init init;      /* not ZN_INIT_USUAL or ZN_INIT_GAIN: those are resolved */
    real value;
} zn_param;

typedef struct zn_node zn_node;

typedef struct zn_op {
    const char *name;
    void (*forward)(zn_node *o);
    void (*backward)(zn_node *o); /* o->dy is complete; inputs that want a gradient get theirs */
} zn_op;

struct zn_node {
    zn_net *net;
    const zn_op *op;        /* NULL: an input */
    int index, in[2], gate; /* gate: the node whose mask prunes this one */
    int n, h, w, c;
    real *y, *dy;       /* [n][h][w][c] */
    bool wants;         /* it depends on parameters, so it needs dy */
    bool ready;         /* dy has been written: add to it */
    int param[4];       /* numbers of the node's parameters */
    int k, stride, pad; /* of a convolution; other layers say what they keep here */
    real *save;         /* what backward needs of forward */
    size_t chunk;       /* of the loop that runs */
};

struct zn_net {
    zn_cpu *dev;
    const zn_outline *outline; /* of the network whose graph is being built */
    zn_status status;          /* sticky */
    zn_error error;
    zn_node none; /* stands for a node that could not be made: its sizes are 1 */
    zn_node **node;
    int n_nodes;
    zn_param *param;
    int n_params;
    size_t len;  /* of all parameters */
    real *w, *g; /* [len], from zn_net_finish */
    real *temp;  /* the largest that a node asked for */
    size_t temp_len;
    double *sums; /* of the loss's items */
    /* how a step runs */
    bool training;       /* soft gates and dropout, or hard gates */
    real temperature;    /* of the gates' noise */
    real dropout;        /* share of spectral coefficients that are set to 0 */
    real penalty;        /* added to the loss for each open gate */
    real divergence;     /* added to the loss for zn_net_divergence */
    uint64_t seed, step; /* of the noise */
};

zn_net *zn_net_new(zn_cpu *dev); /* NULL: no memory */
void zn_net_free(zn_net **net);

int zn_net_input(zn_net *net, int n, int h, int w, int c);

/* After the last node: allocates the parameters and draws their initial values from the seed.  False: the graph
 * failed, or there is no memory; net->error says which. */
bool zn_net_finish(zn_net *net, uint64_t seed);
void zn_net_forward(zn_net *net);
void zn_net_backward(zn_net *net); /* from the dy of the last node */

/* The node's fields; of ZN_NO_NODE those of `none`. */
static inline zn_node *zn_net_at(zn_net *net, int i)
{
    return i < 0 ? &net->none : net->node[i];
}

static inline zn_node *zn_net_last(const zn_net *net)
{
    return net->node[net->n_nodes - 1];
}

/* Mean squared (or absolute) error of the last node against `target`, and its gradient in dy.  weight: of
 * each picture's error in the gradient (not in what is returned), or NULL. */
double zn_net_loss(zn_net *net, const real *target, const real *weight, bool absolute);

/* The sum of the masks of all gates: how much is let through, and out of how many. */
double zn_net_open_gates(const zn_net *net, double *all);

/* How far the posteriors are from the normal distribution; 0 where there are none. */
double zn_net_divergence(const zn_net *net);

/* What the norms add to a variance. */
#define ZN_GROUP_EPS 1e-5
#define ZN_LAYER_EPS 1e-6

/* ---- for the layers ------------------------------------------------------------------------------------ */

int zn_net_up2(zn_net *net, int x); /* nearest neighbour; a part of zn_net_conv */

/* A node with the inputs' batch size; save_len: elements of save.  ZN_NO_NODE: the graph failed. */
int zn_net_add_node(zn_net *net, const zn_op *op, int x, int h, int w, int c, size_t save_len);
/* The tensor NAME, or NAME.PART where part is not "", of the outline; NULL: it is not stated. */
const zn_stated *zn_net_stated(const zn_net *net, const char *name, const char *part);
/* That tensor as the node's parameter i.  It must be of these dimensions (0 ends the list). */
void zn_net_add_param(zn_node *o, int i, const char *name, const char *part, const int dims[ZN_RANK]);
void zn_net_want_temp(zn_net *net, size_t len);

static inline size_t zn_node_pixels(const zn_node *o)
{
    return (size_t)o->n * (size_t)o->h * (size_t)o->w;
}

static inline size_t zn_node_len(const zn_node *o)
{
    return zn_node_pixels(o) * (size_t)o->c;
}

static inline zn_node *zn_node_in(const zn_node *o, int i)
{
    return o->net->node[o->in[i]];
}

static inline real *zn_node_w(const zn_node *o, int i)
{
    return o->net->w + o->net->param[o->param[i]].at;
}

static inline real *zn_node_g(const zn_node *o, int i)
{
    return o->net->g + o->net->param[o->param[i]].at;
}

/* Runs task(o, item, worker) on items of `chunk` out of n units. */
static inline void zn_node_run(zn_node *o, zn_task *task, size_t n, size_t chunk)
{
    o->chunk = chunk;
    zn_pool_run(o->net->dev->pool, task, o, zn_items(n, chunk));
}

/* The units of an item: from *first, returns the end. */
static inline size_t zn_node_range(const zn_node *o, int item, size_t n, size_t *first)
{
    *first = (size_t)item * o->chunk;
    return *first + o->chunk < n ? *first + o->chunk : n;
}

static inline real *zn_node_scratch(const zn_node *o, int worker)
{
    return zn_cpu_scratch(o->net->dev, worker);
}

#endif
