/* SPDX-License-Identifier: MIT */
#include "save.h"

#include "../zenith_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text { /* grows; NULL data once memory ran out */
    char *data;
    size_t len, room;
} text;

static void put(text *t, const char *fmt, ...) ZN_PRINTF(2, 3);

static void put(text *t, const char *fmt, ...)
{
    char piece[1024];
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    vsnprintf(piece, sizeof piece, fmt, ap);
    va_end(ap);
    n = strlen(piece);
    if (!t->data)
        return;
    if (t->len + n + 1 > t->room) {
        char *more = realloc(t->data, 2 * (t->len + n + 1));

        if (!more) {
            free(t->data);
            t->data = NULL;
            return;
        }
        t->data = more;
        t->room = 2 * (t->len + n + 1);
    }
    memcpy(t->data + t->len, piece, n + 1);
    t->len += n;
}

static text make_header(const zn_net *net, const zn_save_part *parts, int n_parts, const char *const *meta)
{
    text t = { malloc(4096), 0, 4096 };
    size_t at = 0;

    put(&t, "{\"__metadata__\":{\"format\":\"pt\"");
    for (; meta && meta[0]; meta += 2)
        put(&t, ",\"%s\":\"%s\"", meta[0], meta[1]);
    put(&t, "}");
    for (int i = 0; i < n_parts; i++)
        for (int j = 0; j < net->n_params; j++) {
            const zn_param *p = &net->param[j];

            put(&t, ",\"%s%s\":{\"dtype\":\"F32\",\"shape\":[", parts[i].prefix, p->name);
            for (int d = 0; d < ZN_RANK && p->dims[d]; d++)
                put(&t, "%s%d", d ? "," : "", p->dims[d]);
            put(&t, "],\"data_offsets\":[%zu,%zu]}", at * 4, (at + p->len) * 4);
            at += p->len;
        }
    put(&t, "}");
    while (t.data && t.len % 8)
        put(&t, " ");
    return t;
}

typedef struct saved {
    const text *head;
    const zn_net *net;
    const zn_save_part *parts;
    int n_parts;
} saved;

static bool put_parts(void *cookie, FILE *f)
{
    const saved *s = cookie;
    unsigned char size[8];
    bool ok;

    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)s->head->len >> (8 * i));
    ok = fwrite(size, 8, 1, f) == 1 && fwrite(s->head->data, s->head->len, 1, f) == 1;
    for (int i = 0; i < s->n_parts && ok; i++) /* parameters lie in their order, without gaps */
        ok = fwrite(s->parts[i].data, sizeof(float), s->net->len, f) == s->net->len;
    return ok;
}

zn_status zn_save_safetensors(const char *path, const zn_net *net, const zn_save_part *parts, int n_parts,
                              const char *const *meta, zn_error *err)
{
    text head = make_header(net, parts, n_parts, meta);
    saved s = { &head, net, parts, n_parts };
    zn_status status;

    if (!head.data)
        return zn_fail(err, ZN_E_MEMORY, "out of memory while writing %s", path);
    status = zn_write_file(path, put_parts, &s, err);
    free(head.data);
    return status;
}
