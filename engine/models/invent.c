/* SPDX-License-Identifier: MIT */
/* invent.c - made-up weights, as a safetensors file in memory: the same bytes every time. */
#include "arch.h"

#include "../core/weightfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zn_invented {
    char *head; /* the JSON; NULL once memory ran out */
    size_t head_len, head_room;
    float *data;
    size_t len, room;
    uint64_t seed;
};

/* Uniform in -1..1. */
static float draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*seed >> 32) * (1.0f / 2147483648.0f);
}

static bool grow(void **p, size_t *room, size_t need, size_t elem)
{
    void *q;

    if (need <= *room)
        return true;
    q = realloc(*p, 2 * need * elem);
    if (!q)
        return false;
    *p = q;
    *room = 2 * need;
    return true;
}

void zn_invent_meta(zn_invented *v, const char *key, const char *value)
{
    char text[256];

    snprintf(text, sizeof text, "\"__metadata__\":{\"%s\":\"%s\"}", key, value);
    if (!v->head || !grow((void **)&v->head, &v->head_room, v->head_len + strlen(text) + 16, 1)) {
        free(v->head);
        v->head = NULL;
        return;
    }
    memcpy(v->head + v->head_len, text, strlen(text));
    v->head_len += strlen(text);
}

void zn_invent(zn_invented *v, const char *name, const int dims[4])
{
    size_t n = 1, fan_in = 1;
    char text[256], shape[64] = "";
    int rank = 0;

    for (; rank < 4 && dims[rank]; rank++) {
        n *= (size_t)dims[rank];
        fan_in *= rank ? (size_t)dims[rank] : 1;
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", rank ? "," : "", dims[rank]);
    }
    snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
             v->head_len > 9 ? "," : "", name, shape, v->len * 4, (v->len + n) * 4);
    if (!v->head || !grow((void **)&v->head, &v->head_room, v->head_len + strlen(text) + 16, 1) ||
        !grow((void **)&v->data, &v->room, v->len + n, sizeof(float))) {
        free(v->head);
        v->head = NULL;
        return;
    }
    memcpy(v->head + v->head_len, text, strlen(text));
    v->head_len += strlen(text);
    /* Weights keep the variance of ReLU's output; of vectors, biases stay small and gains near 1. */
    for (size_t i = 0; i < n; i++) {
        bool gain = rank == 1 && strlen(name) > 7 && !strcmp(name + strlen(name) - 7, ".weight");
        float u = draw(&v->seed);

        v->data[v->len + i] = rank > 1 ? u * sqrtf(3.0f / (float)fan_in) : (gain ? 1.0f : 0.0f) + 0.1f * u;
    }
    v->len += n;
}

zn_status zn_weights_invent(zn_weights **out, void **memory, void (*list)(zn_invented *v), zn_error *err)
{
    zn_invented v = { .head = malloc(64), .head_len = 9, .head_room = 64, .seed = 20 };
    unsigned char *file = NULL;
    zn_status s = ZN_OK;

    if (v.head)
        v.head[8] = '{';
    list(&v);
    if (v.head)
        file = realloc(v.head, v.head_len + 1 + v.len * sizeof(float));
    if (file) {
        uint64_t n = v.head_len - 8 + 1;

        file[v.head_len] = '}';
        for (int i = 0; i < 8; i++)
            file[i] = (unsigned char)(n >> (8 * i));
        memcpy(file + v.head_len + 1, v.data, v.len * sizeof(float));
        s = zn_weights_open_memory(out, file, v.head_len + 1 + v.len * sizeof(float), "made-up weights", err);
    } else {
        free(v.head);
        s = zn_fail(err, ZN_E_MEMORY, "out of memory for made-up weights");
    }
    free(v.data);
    *memory = file;
    return s;
}
