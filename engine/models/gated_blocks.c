/* SPDX-License-Identifier: MIT */
#include "gated_blocks.h"

#include <stdio.h>

static void bind_block(zn_binder *b, zn_gated *k, int width, const char *name)
{
    zn_conv dw = zn_conv_same(3, 2 * width, 2 * width);

    dw.groups = 2 * width;
    k->eps = 1e-6f;
    zn_bind_conv(b, &k->pw1, zn_conv_same(1, width, 2 * width), "%s.pw1", name);
    zn_bind_conv(b, &k->dw, dw, "%s.dw", name);
    zn_bind_conv(b, &k->pw2, zn_conv_same(1, width, width), "%s.pw2", name);
    zn_bind_conv(b, &k->pw3, zn_conv_same(1, width, 2 * width), "%s.pw3", name);
    zn_bind_conv(b, &k->pw4, zn_conv_same(1, width, width), "%s.pw4", name);
}

/* Also one that lacks its first tensor, or that others follow: a damaged file has no fewer blocks. */
static bool has_block(const zn_binder *b, const char *prefix, int n)
{
    return zn_bind_has(b, "%s%d.pw1.weight", prefix, n) || zn_bind_has(b, "%s%d.pw2.weight", prefix, n) ||
        zn_bind_has(b, "%s%d.pw1.weight", prefix, n + 1);
}

int zn_bind_gated(zn_binder *b, zn_gated *k, int width, int usual, const char *prefix)
{
    char name[64];
    int n = 0;

    for (; !b->status && (b->w ? has_block(b, prefix, n) : n < usual); n++) {
        if (n == ZN_MAX_GATED) {
            zn_bind_fail(b, "there are more than %d blocks '%s'", ZN_MAX_GATED, prefix);
            return 0;
        }
        snprintf(name, sizeof name, "%s%d", prefix, n);
        bind_block(b, &k[n], width, name);
    }
    return n;
}

void zn_run_gated(zn_ctx *c, const zn_gated *k, int n, zn_tensor *x, zn_tensor *spare)
{
    for (int i = 0; i < n; i++) {
        zn_tensor y = *spare;

        zn_gated_block(c, y, *x, &k[i]);
        *spare = *x;
        *x = y;
    }
}
