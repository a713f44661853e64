/* SPDX-License-Identifier: MIT */
#include "save.h"

#include <stdio.h>
#include <stdlib.h>

zn_status zn_save_safetensors(const char *path, const zn_net *net, const zn_save_part *parts, int n_parts,
                              const zn_save_tensor *more, int n_more, const char *const *meta, zn_error *err)
{
    enum { NAME = 256 };
    const size_t n = (size_t)n_parts * (size_t)net->n_params + (size_t)n_more;
    zn_save_tensor *list = calloc(n + 1, sizeof *list), *t = list;
    char *names = malloc((n + 1) * NAME), *name = names;
    zn_status s = list && names ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory while writing %s", path);

    for (int i = 0; !s && i < n_parts; i++)
        for (int j = 0; j < net->n_params; j++, t++, name += NAME) {
            const zn_param *p = &net->param[j];

            snprintf(name, NAME, "%s%s", parts[i].prefix, p->name);
            t->name = name;
            t->type = ZN_F32;
            t->data = parts[i].data + p->at;
            for (; t->n_dims < ZN_RANK && p->dims[t->n_dims]; t->n_dims++)
                t->shape[t->n_dims] = p->dims[t->n_dims];
        }
    for (int i = 0; !s && i < n_more; i++)
        *t++ = more[i];
    if (!s)
        s = zn_save_tensors(path, list, n, meta, err);
    free(list);
    free(names);
    return s;
}
