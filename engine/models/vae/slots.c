/* SPDX-License-Identifier: MIT */
/* slots.c - the few places in which all tensors of a forward lie: see vae.h. */
#include "vae.h"

zn_tensor zn_vae_slot(zn_vae_run *r, int i, int n, int h, int w, int ch)
{
    const zn_type type = r->c->type;
    const size_t size = (size_t)n * (size_t)h * (size_t)w * (size_t)ch * zn_type_size(type);

    if (r->sizing && size > r->size[i])
        r->size[i] = size;
    assert(size <= r->size[i]);
    return (zn_tensor){ r->data[i], n, h, w, ch, ch, type };
}

void zn_vae_take(zn_vae_run *r, zn_tensor y, int i)
{
    void *data = r->data[0];
    const size_t size = r->size[0];

    r->x = y;
    r->data[0] = r->data[i], r->size[0] = r->size[i];
    r->data[i] = data, r->size[i] = size;
}

void zn_vae_forward_slots(zn_ctx *c, const void *net, const zn_call *call, zn_vae_walk *walk)
{
    enum { ROW = 1024 };
    zn_arena nowhere = { .size = SIZE_MAX / 2 };
    zn_ctx dry = { .be = c->be, .dev = c->dev, .arena = &nowhere, .type = c->type, .dry = true };
    zn_vae_run r = { .c = &dry, .call = call, .x = call->in[0], .sizing = true, .up = 1 };
    size_t size[ZN_VAE_SLOTS];

    for (int i = 0; i < ZN_VAE_SLOTS; i++) /* says which slot is which after they changed places */
        r.data[i] = &size[i];
    walk(&r, net, call);
    for (int i = 0; i < ZN_VAE_SLOTS; i++)
        *(size_t *)r.data[i] = r.size[i];
    r = (zn_vae_run){ .c = c, .call = call, .x = call->in[0], .up = 1, .state = call->state };
    for (int i = 0; i < ZN_VAE_SLOTS; i++) {
        r.size[i] = size[i];
        if (size[i])
            r.data[i] = zn_new(c, 1, (int)(size[i] / zn_type_size(c->type) / ROW) + 1, ROW, 1).data;
    }
    walk(&r, net, call);
}
