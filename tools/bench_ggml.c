/* SPDX-License-Identifier: MIT */
/* bench_ggml.c - ggml's product of 4-bit weights (Q4_0) with floats, for tools/bench_ggml.sh.
 *
 *     bench_ggml THREADS IN OUT ROWS...      a line for each ROWS: milliseconds, the best of several
 *
 * Weights are in ggml's own layout for the CPU, where it has one for them: that is how its programs run. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static ggml_backend_buffer_type_t weight_buffers(ggml_backend_t cpu)
{
    ggml_backend_dev_t dev = ggml_backend_get_device(cpu);
    ggml_backend_dev_get_extra_bufts_t extra = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *list = extra ? extra(dev) : NULL;

    return list && list[0] ? list[0] : ggml_backend_get_default_buffer_type(cpu);
}

static double measure(ggml_backend_t cpu, struct ggml_tensor *w, int in, int rows)
{
    struct ggml_context *c = ggml_init(
        (struct ggml_init_params){ .mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    struct ggml_tensor *x = ggml_new_tensor_2d(c, GGML_TYPE_F32, in, rows), *y = ggml_mul_mat(c, w, x);
    struct ggml_cgraph *graph = ggml_new_graph(c);
    ggml_backend_buffer_t buffer;
    float *data = malloc((size_t)in * (size_t)rows * sizeof *data);
    double best = 1e30, spent = 0;

    ggml_build_forward_expand(graph, y);
    buffer = ggml_backend_alloc_ctx_tensors(c, cpu);
    for (size_t i = 0; i < (size_t)in * (size_t)rows; i++)
        data[i] = (float)(i * 2654435761u % 2048) / 1024 - 1;
    ggml_backend_tensor_set(x, data, 0, ggml_nbytes(x));
    for (int i = 0; i < 5 || (spent < 2000 && i < 1000); i++) {
        const double start = now_ms();

        ggml_backend_graph_compute(cpu, graph);
        spent += now_ms() - start;
        best = now_ms() - start < best ? now_ms() - start : best;
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    free(data);
    return best;
}

int main(int argc, char **argv)
{
    const int threads = argc > 4 ? atoi(argv[1]) : 0, in = argc > 4 ? atoi(argv[2]) : 0,
              out = argc > 4 ? atoi(argv[3]) : 0;
    const size_t len = (size_t)in * (size_t)out;
    ggml_backend_t cpu = ggml_backend_cpu_init();
    struct ggml_context *c =
        ggml_init((struct ggml_init_params){ .mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true });
    struct ggml_tensor *w;
    float *data;
    void *q;

    if (threads < 1 || in < 32 || in % 32 || out < 1 || !cpu || !c)
        return fprintf(stderr, "usage: %s THREADS IN OUT ROWS...\n", argv[0]), 2;
    ggml_backend_cpu_set_n_threads(cpu, threads);
    w = ggml_new_tensor_2d(c, GGML_TYPE_Q4_0, in, out);
    data = malloc(len * sizeof *data);
    q = malloc(ggml_nbytes(w));
    for (size_t i = 0; i < len; i++)
        data[i] = (float)(i * 2246822519u % 2048) / 1024 - 1;
    ggml_quantize_chunk(GGML_TYPE_Q4_0, data, q, 0, out, in, NULL);
    if (!ggml_backend_alloc_ctx_tensors_from_buft(c, weight_buffers(cpu)))
        return fprintf(stderr, "no memory\n"), 1;
    ggml_backend_tensor_set(w, q, 0, ggml_nbytes(w));
    for (int i = 4; i < argc; i++)
        printf("%d %.3f\n", atoi(argv[i]), measure(cpu, w, in, atoi(argv[i])));
    return 0;
}
