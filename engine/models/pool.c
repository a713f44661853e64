/* SPDX-License-Identifier: MIT */
/* pool.c - see pool.h */
#include "pool.h"

void zn_bind_pool(zn_binder *b, zn_pool_branch *p, int width, int wide, const char *name)
{
    zn_conv in = zn_conv_same(1, width, wide), out = zn_conv_same(1, wide, width);
    zn_norm norm = { .kind = ZN_GROUP_NORM, .c = wide, .groups = ZN_POOL_GROUPS, .eps = 1e-5f };

    if (!zn_bind_has(b, "%s.pool.0.weight", name))
        return;
    p->wide = wide;
    in.has_bias = out.has_bias = false;
    zn_bind_conv(b, &p->in, in, "%s.pool.0", name);
    zn_bind_norm(b, &p->norm, norm, "%s.pool.1", name);
    zn_bind_conv(b, &p->out, out, "%s.pool.3", name);
}

void zn_run_pool(zn_ctx *c, const zn_pool_branch *p, zn_tensor x, zn_tensor inner)
{
    zn_conv2d(c, inner, x, &p->in, (zn_tail){ 0 });
    zn_normalise(c, inner, inner, &p->norm, (zn_tail){ .pre = ZN_RELU });
    zn_conv2d(c, x, inner, &p->out, (zn_tail){ .residual = &x });
}
