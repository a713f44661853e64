/* SPDX-License-Identifier: MIT */
/* identity.c - y = x, without weights: the templates of operations, and tests of everything around a network. */
#include "arch.h"

#include <stdio.h>

static void bind(zn_binder *b, void *net)
{
    (void)net;
    b->geometry = (zn_geometry){ .in_c = 3, .out_c = 3, .shrink = 1, .grow = 1, .multiple = 1 };
    snprintf(b->variant, sizeof b->variant, "copies its input");
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    (void)net;
    zn_map(c, call->out[0], call->in[0], (zn_tail){ 0 });
}

const zn_arch zn_arch_identity = {
    .info = { .id = "identity", .summary = "copies a picture; for tests", .in = { "x" }, .out = { "y" } },
    .size = 1,
    .bind = bind,
    .forward = forward,
};
