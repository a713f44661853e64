/* SPDX-License-Identifier: MIT */
/* early.c - see early.h. */
#include "early.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4 };

void zn_early_free(zn_early **early)
{
    zn_early *x = early ? *early : NULL;

    if (!x)
        return;
    zn_packed_clear(&x->packed);
    zn_weights_close(&x->w);
    free(x->file);
    free(x);
    *early = NULL;
}

void zn_early_keep(zn_engine *e, zn_early **early, const char *file)
{
    zn_early **at = &e->early;

    if (!((*early)->file = strdup(file))) {
        zn_early_free(early);
        return;
    }
    (*early)->next = e->early;
    e->early = *early;
    *early = NULL;
    for (int i = 0; i < MOST && *at; i++)
        at = &(*at)->next;
    zn_early_free(at);
}

zn_early *zn_early_take(zn_engine *e, const zn_arch *a, const char *file)
{
    zn_early **at = &e->early, *found;

    while (*at && ((*at)->arch != a || strcmp((*at)->file, file)))
        at = &(*at)->next;
    if ((found = *at))
        *at = found->next;
    return found;
}
