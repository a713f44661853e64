/* SPDX-License-Identifier: MIT */
/* record.c - see record.h */
#include "record.h"

#include "../special.h"
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which node is where ------------------------------------------------------------------------------- */

static zn_place place_of(zn_tensor x, int node)
{
    return (zn_place){ (uintptr_t)x.data, zn_pixels(x), x.ld, x.c, node };
}

static uintptr_t end_of(const zn_place *p)
{
    return p->at + ((p->pixels - 1) * (size_t)p->ld + (size_t)p->c) * sizeof(float);
}

/* Of its first pixel. */
static uintptr_t channels_end(const zn_place *p)
{
    return p->at + (size_t)p->c * sizeof(float);
}

/* Are they channels of the same pixels? */
static bool beside(const zn_place *a, const zn_place *b)
{
    const uintptr_t apart = a->at > b->at ? a->at - b->at : b->at - a->at;

    return a->ld == b->ld && a->pixels == b->pixels && apart < (size_t)a->ld * sizeof(float);
}

static bool overlap(const zn_place *a, const zn_place *b)
{
    if (a->at >= end_of(b) || b->at >= end_of(a))
        return false;
    return !beside(a, b) || (a->at < channels_end(b) && b->at < channels_end(a));
}

void zn_record_set(zn_recorder *r, zn_tensor x, int node)
{
    const zn_place p = place_of(x, node);
    zn_place *list;
    int n = 0;

    for (int i = 0; i < r->n; i++)
        if (!overlap(&r->place[i], &p))
            r->place[n++] = r->place[i];
    r->n = n;
    list = realloc(r->place, (size_t)(n + 1) * sizeof *list);
    if (!list) {
        zn_net_fail(r->net, ZN_E_MEMORY, "out of memory for training");
        return;
    }
    r->place = list;
    r->place[r->n++] = p;
}

/* The place that has all channels of x; NULL: none. */
static const zn_place *holder(const zn_recorder *r, zn_tensor x)
{
    const zn_place p = place_of(x, ZN_NO_NODE);

    for (int i = 0; i < r->n; i++) {
        const zn_place *q = &r->place[i];

        if (beside(q, &p) && p.at >= q->at && channels_end(&p) <= channels_end(q))
            return q;
    }
    return NULL;
}

/* The place that begins at x and has some of its channels; NULL: none. */
static const zn_place *part_of(const zn_recorder *r, zn_tensor x)
{
    const zn_place p = place_of(x, ZN_NO_NODE);

    for (int i = 0; i < r->n; i++)
        if (beside(&r->place[i], &p) && r->place[i].at == p.at && r->place[i].c <= p.c)
            return &r->place[i];
    return NULL;
}

int zn_record_get(zn_recorder *r, zn_tensor x)
{
    int node = ZN_NO_NODE;
    const zn_place *p = r->net->status ? NULL : holder(r, x);

    if (p && p->c == x.c)
        return p->node;
    while (!r->net->status && x.c > 0 && (p = part_of(r, x))) {
        node = node == ZN_NO_NODE ? p->node : zn_net_concat(r->net, node, p->node);
        x.c -= p->c;
        x.data += p->c;
    }
    if (x.c > 0)
        zn_net_fail(r->net, ZN_E_USAGE, "a part of this network's data flow has no gradient here");
    return x.c > 0 ? ZN_NO_NODE : node;
}

void zn_record_end(zn_recorder *r)
{
    free(r->place);
    *r = (zn_recorder){ .net = r->net };
}

/* ---- names and tails ----------------------------------------------------------------------------------- */

static void refuse(zn_recorder *r)
{
    zn_net_fail(r->net, ZN_E_USAGE, "this network has layers that are not trained here");
}

/* The layer of the tensor that an address stands for: its name without the last part, or with `whole` all of it. */
static const char *name_of(zn_recorder *r, char name[ZN_NAME_SIZE], const void *address, bool whole)
{
    const zn_stated *t = r->net->outline ? zn_outline_at(r->net->outline, address) : NULL;
    char *dot;

    snprintf(name, ZN_NAME_SIZE, "%s", t ? t->name : "");
    if (!t)
        refuse(r);
    if (!whole && (dot = strrchr(name, '.')))
        *dot = 0;
    return name;
}

/* y = tail(node) */
static void finish(zn_recorder *r, zn_tensor y, int node, zn_tail t)
{
    if (t.gain != 0 && t.gain != 1)
        refuse(r);
    node = zn_net_act(r->net, node, t.pre);
    if (t.residual)
        node = zn_net_add(r->net, zn_record_get(r, *t.residual), node);
    zn_record_set(r, y, zn_net_act(r->net, node, t.post));
}

/* ---- the operations ------------------------------------------------------------------------------------ */

static void record_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_recorder *r = dev;
    char name[ZN_NAME_SIZE];

    finish(r, y, zn_net_conv(r->net, zn_record_get(r, x), "%s", name_of(r, name, w->packed, false)), t);
}

static void record_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    zn_recorder *r = dev;
    char name[ZN_NAME_SIZE];
    int node = zn_record_get(r, x);

    if (w->kind == ZN_LAYER_NORM && !w->gamma && !m && w->eps == (float)ZN_LAYER_EPS)
        node = zn_net_layer_norm(r->net, node);
    else if (w->kind == ZN_GROUP_NORM && w->gamma && w->beta && !m && w->eps == (float)ZN_GROUP_EPS)
        node = zn_net_group_norm(r->net, node, w->groups, "%s", name_of(r, name, w->gamma, false));
    else if (w->kind == ZN_LAYER_NORM && w->gamma && w->beta && !m && w->eps == (float)ZN_GROUP_EPS &&
             zn_pixels(x) == 1) /* of one pixel, a group norm of one group is the same */
        node = zn_net_group_norm(r->net, node, 1, "%s", name_of(r, name, w->gamma, false));
    else
        refuse(r);
    finish(r, y, node, t);
}

static void record_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    zn_recorder *r = dev;

    if (f != ZN_NEAREST || y.h != 2 * x.h || y.w != 2 * x.w)
        refuse(r);
    zn_record_set(r, y, zn_net_up2(r->net, zn_record_get(r, x)));
}

static void record_unshuffle(void *dev, zn_tensor y, zn_tensor x, int by)
{
    zn_recorder *r = dev;

    zn_record_set(r, y, zn_net_unshuffle(r->net, zn_record_get(r, x), by));
}

static void record_shuffle(void *dev, zn_tensor y, zn_tensor x, int by, zn_tail t)
{
    zn_recorder *r = dev;

    finish(r, y, zn_net_shuffle(r->net, zn_record_get(r, x), by), t);
}

static void record_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    finish(dev, y, zn_record_get(dev, x), t);
}

/* Are they the first and the second half of one place? */
static const zn_place *halves(const zn_recorder *r, zn_tensor a, zn_tensor b)
{
    const zn_place *p = holder(r, a);

    return p && p == holder(r, b) && p->c == 2 * a.c && (uintptr_t)a.data == p->at && b.data == a.data + a.c ? p : NULL;
}

static void record_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    zn_recorder *r = dev;
    const zn_place *both = op == ZN_MUL ? halves(r, a, b) : NULL;
    int node = ZN_NO_NODE;

    if (both)
        node = zn_net_halves(r->net, both->node);
    else if (zn_pixels(b) == zn_pixels(a) && b.c == a.c)
        node = (op == ZN_ADD ? zn_net_add : zn_net_product)(r->net, zn_record_get(r, a), zn_record_get(r, b));
    else
        refuse(r);
    finish(r, y, node, t);
}

static void record_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    zn_recorder *r = dev;
    char name[ZN_NAME_SIZE];
    int node = zn_record_get(r, x);

    if (w->axis != ZN_ALONG_C && w->gate && !w->per_channel) {
        node = zn_net_lines(r->net, node, w->axis == ZN_ALONG_W, w->shift, "%s", name_of(r, name, w->gate, true));
    } else if (w->axis != ZN_ALONG_C) {
        zn_net_fail(r->net, ZN_E_USAGE, "networks with mixing blocks of gates per channel are not trained here");
    } else if (w->pre) {
        node = zn_net_spectral(r->net, node, "%s", name_of(r, name, w->pre, false));
    } else {
        node = zn_net_fwht(r->net, node);
        if (w->slm)
            node = zn_net_slm(r->net, node, "%s", name_of(r, name, w->slm, false));
        if (w->gate)
            node = zn_net_scale(r->net, node, "%s", name_of(r, name, w->gate, true));
        if (w->mix)
            node = zn_net_mixer(r->net, node, "%s", name_of(r, name, w->mix, true));
        if (w->slm || w->gate || w->mix)
            node = zn_net_fwht(r->net, node);
    }
    zn_record_set(r, y, zn_net_act(r->net, node, w->act));
}

/* The mask's memory stands for what the gate lets through. */
static void record_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    zn_recorder *r = dev;
    char name[ZN_NAME_SIZE];

    if (w->scale)
        zn_record_set(r, mask, zn_net_gate(r->net, zn_record_get(r, x), "%s", name_of(r, name, w->scale, false)));
    if (w->weight) {
        const int gate = zn_record_get(r, mask);

        zn_record_set(r, y, zn_net_pruned(r->net, gate, gate, "%s", name_of(r, name, w->weight, false)));
    }
}

/* Over one place of three thirds. */
static void record_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    zn_recorder *r = dev;
    const zn_place *p = holder(r, q);
    const bool usual = a->kv_heads == a->heads && !a->causal && a->scale == 1 / sqrtf((float)(q.c / a->heads));

    if (!usual || !p || p->c != 3 * q.c || (uintptr_t)q.data != p->at || k.data != q.data + q.c ||
        v.data != k.data + q.c || k.c != q.c || v.c != q.c)
        refuse(r);
    else
        zn_record_set(r, y, zn_net_attention(r->net, p->node, a->heads));
}

/* ---- what is not trained ------------------------------------------------------------------------------- */

static void record_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w)
{
    (void)y, (void)x, (void)w;
    refuse(dev);
}

static void record_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *w)
{
    (void)y, (void)x, (void)w;
    refuse(dev);
}

static void record_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index)
{
    (void)y, (void)table, (void)index;
    refuse(dev);
}

static void record_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip)
{
    (void)y, (void)x, (void)p, (void)coefs, (void)clip;
    refuse(dev);
}

static void record_fill(void *dev, zn_tensor y, const float *value)
{
    (void)y, (void)value;
    refuse(dev);
}

static const zn_special special = { .fwht = record_fwht, .pruned = record_pruned };

const zn_backend zn_backend_record = {
    .abi = ZN_BACKEND_ABI,
    .name = "record",
    .strips_from = SIZE_MAX,
    .conv2d = record_conv2d,
    .norm = record_norm,
    .group_scales = record_group_scales,
    .attention = record_attention,
    .rope = record_rope,
    .lookup = record_lookup,
    .resize = record_resize,
    .unshuffle = record_unshuffle,
    .shuffle = record_shuffle,
    .map = record_map,
    .binary = record_binary,
    .step = record_step,
    .fill = record_fill,
    .special = &special,
};
