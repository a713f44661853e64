/* SPDX-License-Identifier: MIT */
#include "outline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zn_stated *zn_outline_add(zn_outline *o, const char *name, const int *dims, int n_dims)
{
    zn_stated *list = n_dims > ZN_RANK ? NULL : realloc(o->tensor, (size_t)(o->n + 1) * sizeof *list), *t;

    if (!list)
        return NULL;
    o->tensor = list;
    t = &list[o->n++];
    *t = (zn_stated){ .init = ZN_INIT_USUAL };
    snprintf(t->name, sizeof t->name, "%s", name);
    memcpy(t->dims, dims, (size_t)n_dims * sizeof *dims);
    return t;
}

void zn_outline_free(zn_outline *o)
{
    free(o->tensor);
    *o = (zn_outline){ 0 };
}

void *zn_outline_address(const zn_outline *o, const char *name)
{
    for (int i = 0; i < o->n; i++)
        if (!strcmp(o->tensor[i].name, name))
            return (void *)((uintptr_t)i + 1); /* a number, never followed */
    return NULL;
}

const zn_stated *zn_outline_at(const zn_outline *o, const void *address)
{
    const uintptr_t number = (uintptr_t)address;

    return number && number <= (uintptr_t)o->n ? &o->tensor[number - 1] : NULL;
}
