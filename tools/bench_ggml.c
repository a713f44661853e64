/* SPDX-License-Identifier: MIT */
/* bench_ggml.c - products of 4-bit and 8-bit weights with floats: ours, or ggml's, for tools/bench_ggml.sh.
 *
 *     bench_ggml ggml|zenith|ENGINE|ENGINE-dots|ENGINE-plain THREADS 4|8 IN OUT ROWS...
 *
 * A line for each ROWS: the rows, milliseconds and milliseconds of CPU time, each the best of several runs.  ggml's weights
 * are Q4_0 or Q8_0 in its own layout for this CPU, where it has one for them: that is how its programs run. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../engine/cpu/device.h"

enum { LEAST_RUNS = 3, MOST_MS = 1500 };

typedef struct product {
    int threads, bits, in, out;
    const float *weight;
    /* ours */
    const zn_backend *be;
    void *dev;
    zn_conv conv;
    zn_tensor x, y;
    /* ggml's */
    ggml_backend_t cpu;
    struct ggml_context *weights;
    struct ggml_tensor *w;
    struct ggml_cgraph *graph;
} product;

static double ms(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static float *values(size_t n, unsigned seed)
{
    float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);

    for (size_t i = 0; v && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    return v;
}

static void measure(product *p, void (*once)(product *), int rows)
{
    double best = 1e30, best_cpu = 1e30;
    const double start = ms(CLOCK_MONOTONIC);

    once(p);
    for (int i = 0; i < LEAST_RUNS || ms(CLOCK_MONOTONIC) - start < MOST_MS; i++) {
        const double from = ms(CLOCK_MONOTONIC), cpu = ms(CLOCK_PROCESS_CPUTIME_ID);

        once(p);
        const double t = ms(CLOCK_MONOTONIC) - from, c = ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;

        best = t < best ? t : best;
        best_cpu = c < best_cpu ? c : best_cpu;
    }
    printf("%d %.4f %.4f\n", rows, best, best_cpu);
}

/* ---- ours ------------------------------------------------------------------------------------------------------ */

static void zenith_once(product *p)
{
    p->be->conv2d(p->dev, p->y, p->x, &p->conv, (zn_tail){ 0 });
}

/* zenith: the best engine of this CPU; NAME-plain: that one without the CPU's products of int8; NAME-dots: with
 * those of vectors only. */
static bool zenith_open(product *p, const char *name)
{
    static const zn_backend *const list[] = { &zn_backend_avx512, &zn_backend_avx2, &zn_backend_neon };
    const char *dash = strchr(name, '-');
    const size_t len = dash ? (size_t)(dash - name) : strlen(name);
    zn_error err = { .text = "no such engine" };

    for (size_t i = 0; i < sizeof list / sizeof *list && !p->dev; i++) {
        p->be = list[i];
        if (!strcmp(name, "zenith") || (strlen(p->be->name) == len && !strncmp(name, p->be->name, len)))
            p->be->open(&p->dev, p->threads, &err);
    }
    if (!p->dev)
        return fprintf(stderr, "%s\n", err.text), false;
    if (dash)
        ((zn_cpu *)p->dev)->dot8 = ((zn_cpu *)p->dev)->k->dot8[strcmp(dash, "-dots") ? ZN_INT8_NONE : ZN_INT8_DOTS];
    p->conv = (zn_conv){ .kh = 1,
                         .kw = 1,
                         .stride = 1,
                         .groups = 1,
                         .cin = p->in,
                         .cout = p->out,
                         .quantised_x = true,
                         .precision = p->bits == 4 ? ZN_INT4_MATH : ZN_INT8_MATH };
    p->conv.packed = p->be->alloc(p->dev, p->be->conv_size(p->dev, &p->conv));
    if (p->conv.packed)
        p->be->conv_pack(p->dev, &p->conv, p->weight, NULL);
    return p->conv.packed;
}

static bool zenith_run(product *p, int rows)
{
    p->x = (zn_tensor){ values((size_t)rows * (size_t)p->in, 2), 1, 1, rows, p->in, p->in, ZN_F32 };
    p->y = (zn_tensor){ values((size_t)rows * (size_t)p->out, 3), 1, 1, rows, p->out, p->out, ZN_F32 };
    if (!p->x.data || !p->y.data)
        return false;
    measure(p, zenith_once, rows);
    free(p->x.data);
    free(p->y.data);
    return true;
}

/* ---- ggml's ---------------------------------------------------------------------------------------------------- */

static ggml_backend_buffer_type_t weight_buffers(ggml_backend_t cpu)
{
    ggml_backend_dev_t dev = ggml_backend_get_device(cpu);
    ggml_backend_dev_get_extra_bufts_t extra = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *list = extra ? extra(dev) : NULL;

    return list && list[0] ? list[0] : ggml_backend_get_default_buffer_type(cpu);
}

static void ggml_once(product *p)
{
    ggml_backend_graph_compute(p->cpu, p->graph);
}

static bool ggml_start(product *p)
{
    const enum ggml_type type = p->bits == 4 ? GGML_TYPE_Q4_0 : GGML_TYPE_Q8_0;
    ggml_backend_buffer_t buffer;
    void *q;

    p->cpu = ggml_backend_cpu_init();
    p->weights = ggml_init((struct ggml_init_params){ .mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true });
    if (!p->cpu || !p->weights)
        return false;
    ggml_backend_cpu_set_n_threads(p->cpu, p->threads);
    p->w = ggml_new_tensor_2d(p->weights, type, p->in, p->out);
    q = malloc(ggml_nbytes(p->w));
    buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->weights, weight_buffers(p->cpu));
    if (!q || !buffer)
        return false;
    ggml_quantize_chunk(type, p->weight, q, 0, p->out, p->in, NULL);
    ggml_backend_tensor_set(p->w, q, 0, ggml_nbytes(p->w));
    fprintf(stderr, "ggml %s, weights in %s\n", ggml_version(), ggml_backend_buffer_name(buffer));
    free(q);
    return true;
}

static bool ggml_run(product *p, int rows)
{
    struct ggml_context *c = ggml_init(
        (struct ggml_init_params){ .mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    struct ggml_tensor *x = ggml_new_tensor_2d(c, GGML_TYPE_F32, p->in, rows), *y = ggml_mul_mat(c, p->w, x);
    float *data = values((size_t)rows * (size_t)p->in, 2);
    ggml_backend_buffer_t buffer;

    p->graph = ggml_new_graph(c);
    ggml_build_forward_expand(p->graph, y);
    buffer = ggml_backend_alloc_ctx_tensors(c, p->cpu);
    if (!data || !buffer)
        return false;
    ggml_backend_tensor_set(x, data, 0, ggml_nbytes(x));
    measure(p, ggml_once, rows);
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    free(data);
    return true;
}

int main(int argc, char **argv)
{
    const bool theirs = argc > 1 && !strcmp(argv[1], "ggml");
    product p = { 0 };
    bool ok = argc > 6;

    if (ok)
        p = (product){ .threads = atoi(argv[2]), .bits = atoi(argv[3]), .in = atoi(argv[4]), .out = atoi(argv[5]) };
    if (!ok || p.threads < 1 || p.in < 32 || p.in % 32 || p.out < 16)
        return fprintf(stderr, "usage: %s ggml|zenith|ENGINE|ENGINE-dots|ENGINE-plain THREADS 4|8 IN OUT ROWS...\n",
                       argv[0]),
               2;
    p.weight = values((size_t)p.in * (size_t)p.out, 1);
    ok = p.weight && (theirs ? ggml_start(&p) : zenith_open(&p, argv[1]));
    for (int i = 6; i < argc && ok; i++)
        ok = theirs ? ggml_run(&p, atoi(argv[i])) : zenith_run(&p, atoi(argv[i]));
    if (!ok && (theirs || p.dev))
        fprintf(stderr, "no memory\n");
    return ok ? 0 : 1;
}
