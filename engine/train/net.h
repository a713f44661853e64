/* SPDX-License-Identifier: MIT */
/* net.h - a network that can be trained: nodes in the order of computation, each with an exact backward.
 *
 *     forward:   for each node           y  = f(inputs, parameters)
 *     backward:  for each node, reversed  dx += (df/dx)^T dy,   g = (df/dw)^T dy
 *
 * Numbers are `real`: float in the library, double where the tests compare gradients with differences
 * (ZN_TRAIN_DOUBLE).  Each parameter belongs to one node.  Every sum is cut by sizes alone, never by threads:
 * results are the same bits for every thread count.  Parameters lie in the layout of the weight file. */
#ifndef ZN_NET_H
#define ZN_NET_H

#include "../cpu/matmul.h"

#ifdef ZN_TRAIN_DOUBLE
typedef double real;
#else
typedef float real;
#endif

enum { ZN_NO_NODE = -1, ZN_NO_PARAM = -1 };

typedef enum zn_init {
    ZN_INIT_ZERO,
    ZN_INIT_ONE,    /* `value` */
    ZN_INIT_NORMAL, /* deviation `value` */
    ZN_INIT_MIDDLE, /* of three rows the second 1, the others 0 */
} zn_init;

typedef struct zn_param {
    char name[64];
    int dims[4]; /* 0 ends */
    size_t at, len;
    zn_init init;
    real value;
} zn_param;

typedef struct zn_net zn_net;
typedef struct zn_node zn_node;

typedef struct zn_op {
    const char *name;
    void (*forward)(zn_node *o);
    void (*backward)(zn_node *o); /* o->dy is whole; inputs that want a gradient get theirs */
} zn_op;

struct zn_node {
    zn_net *net;
    const zn_op *op;
    int index, in[2], gate; /* gate: the node whose mask prunes this one */
    int n, h, w, c;
    real *y, *dy;
    bool wants;         /* there are parameters at or above it */
    bool ready;         /* dy has been written: add to it */
    int param[4];       /* numbers of the node's parameters */
    int k, stride, pad; /* of a convolution; stride: of a shuffle */
    real *save;         /* what backward needs of forward */
    size_t chunk;       /* of the loop that runs */
};

struct zn_net {
    zn_cpu *dev;
    zn_node **node;
    int n_nodes;
    zn_param *param;
    int n_params;
    size_t len;  /* of all parameters */
    real *w, *g; /* [len], from zn_net_finish */
    real *temp;  /* the largest that a node asked for */
    size_t temp_len;
    bool failed; /* out of memory */
    /* how a step runs */
    bool training;       /* soft gates and dropout, or hard gates */
    real temperature;    /* of the gates' noise */
    real dropout;        /* share of spectral numbers left out */
    real penalty;        /* added to the loss for each open gate */
    uint64_t seed, step; /* of the noise */
};

zn_net *zn_net_new(zn_cpu *dev); /* NULL: no memory */
void zn_net_free(zn_net **net);

/* Builders return the node's number.  A name of NULL means the layer has no such parameter. */
int zn_net_input(zn_net *net, int n, int h, int w, int c);
int zn_net_conv(zn_net *net, int x, const char *name, int k, int stride, int pad, int cout, bool bias, real gain);
int zn_net_depthwise(zn_net *net, int x, const char *name, bool bias, int gate, real deviation);
int zn_net_gate(zn_net *net, int x, const char *name);
int zn_net_fwht(zn_net *net, int x);
int zn_net_slm(zn_net *net, int x, const char *name);
int zn_net_scale(zn_net *net, int x, const char *name); /* with spectral dropout */
int zn_net_mixer(zn_net *net, int x, const char *name);
int zn_net_relu(zn_net *net, int x);
int zn_net_group_norm(zn_net *net, int x, const char *name, int groups, real gamma);
int zn_net_layer_norm(zn_net *net, int x); /* without parameters */
int zn_net_halves(zn_net *net, int x);     /* the product of the two halves of the channels */
int zn_net_add(zn_net *net, int a, int b);
int zn_net_shuffle(zn_net *net, int x, int r);
int zn_net_unshuffle(zn_net *net, int x, int r);
int zn_net_grouped(zn_net *net, int x, const char *name, int groups, int cout, real deviation); /* 1x1 */
/* H diag(gate) H / n along w or h, in windows of n that begin at -shift; the parameter is the gate. */
int zn_net_lines(zn_net *net, int x, const char *name, bool along_w, int n, int shift);
int zn_net_spectral(zn_net *net, int x, const char *name, int cout); /* .scale and .bias */
int zn_net_up2(zn_net *net, int x);                                  /* nearest neighbour */
int zn_net_act(zn_net *net, int x, zn_act act);                      /* none, ReLU, SiLU or GELU */

/* Allocates the parameters and gives them their initial values from the seed.  False: no memory. */
bool zn_net_finish(zn_net *net, uint64_t seed);
void zn_net_forward(zn_net *net);
void zn_net_backward(zn_net *net); /* from the dy of the last node */

static inline zn_node *zn_net_last(const zn_net *net)
{
    return net->node[net->n_nodes - 1];
}

/* Mean squared (or absolute) error of the last node against `target`, and its gradient in dy.  weight: of
 * each picture's error in the gradient (not in what is returned), or NULL. */
double zn_net_loss(zn_net *net, const real *target, const real *weight, bool absolute);

/* The sum of the masks of all gates: how much is let through, and out of how many. */
double zn_net_open_gates(const zn_net *net, double *all);

/* ---- for the layers ------------------------------------------------------------------------------------ */

int zn_net_add_node(zn_net *net, const zn_op *op, int x, int h, int w, int c, size_t save_len);
int zn_net_add_param(zn_net *net, const char *name, const char *part, const int dims[4], zn_init init, real value);
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

/* A number from 0 to 1, and one of a normal distribution, for a place in a stream: no state, any order. */
double zn_uniform(uint64_t seed, uint64_t stream, uint64_t i);
double zn_normal(uint64_t seed, uint64_t stream, uint64_t i);

#endif
