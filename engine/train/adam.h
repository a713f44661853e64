/* SPDX-License-Identifier: MIT */
/* adam.h - Adam (Kingma and Ba 2015), and AdamW (Loshchilov and Hutter 2019) where decay is not 0. */
#ifndef ZN_ADAM_H
#define ZN_ADAM_H

#include "../autograd/net.h"

typedef struct zn_adam {
    real *m, *v;  /* [net->len] each, 0 at first */
    int64_t step; /* updates done */
    double rate, decay;
} zn_adam;

/* w -= rate * (m' / (sqrt(v') + 1e-8) + decay * w), m' and v' the running means of g and g^2, corrected. */
void zn_adam_update(zn_adam *a, zn_net *net);

#endif
