/* SPDX-License-Identifier: MIT */
/* contest.c - a convolution on a device and on the CPU, and the file with the ratio of their times: a number and a newline. */
#include "contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/cachefile.h"
#include "../core/threads.h"
#include "../zenith_file.h"
#include "../zenith_number.h"

enum { MAX_SIZE = 64 };

/* The file is of this device and this version; what describe() says in brackets may change from day to day. */
static void set_path(const zn_backend *b, void *dev, char path[ZN_CACHE_PATH])
{
    char text[200] = "", name[300], *bracket;

    if (b->describe)
        b->describe(dev, text, sizeof text);
    if ((bracket = strrchr(text, '(')))
        *bracket = 0;
    snprintf(name, sizeof name, "auto-%s-%.80s-%s.txt", b->name, text, zn_version());
    zn_cache_path(path, name);
}

double zn_contest_kept(const zn_backend *b, void *dev)
{
    char path[ZN_CACHE_PATH], line[MAX_SIZE] = "";
    double ratio = 0;
    FILE *f;

    set_path(b, dev, path);
    f = path[0] ? zn_cache_open(path, MAX_SIZE) : NULL;
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (!zn_number_parse(&ratio, line, NULL) || !(ratio > 0))
            ratio = 0;
    }
    if (f)
        fclose(f);
    return ratio;
}

static void keep(const zn_backend *b, void *dev, double ratio)
{
    char path[ZN_CACHE_PATH], text[ZN_NUMBER_SIZE];
    zn_output out;

    set_path(b, dev, path);
    if (!path[0] || zn_cache_taken(path) || zn_output_begin(&out, path, NULL))
        return;
    fprintf(out.f, "%s\n", zn_number_print(text, ratio));
    zn_output_end(&out, ZN_OK, NULL);
}

/* The least of a few times, after one that is not counted: a device may compile its kernels in it.  0: it has failed. */
static double least_ms(const zn_backend *b, void *dev)
{
    enum { C = 64, SIDE = 128, TAPS = 9, TIMES = 3, ENOUGH_MS = 100 };
    zn_conv w = {
        .kh = 3, .kw = 3, .stride = 1, .groups = 1, .cin = C, .cout = C, .pad_t = 1, .pad_l = 1, .precision = ZN_FP32
    };
    const size_t size = (size_t)SIDE * SIDE * C * sizeof(float);
    zn_tensor x = { b->alloc(dev, size), 1, SIDE, SIDE, C, C, ZN_F32 }, y = x;
    float *weight = calloc((size_t)C * C * TAPS, sizeof *weight);
    double least = 0;

    y.data = b->alloc(dev, size);
    w.packed = b->alloc(dev, b->conv_size(dev, &w));
    if (x.data && y.data && w.packed && weight) {
        zn_error err;

        b->conv_pack(dev, &w, weight, NULL);
        b->fill(dev, x, weight);
        for (int i = 0; i <= TIMES && least < ENOUGH_MS; i++) {
            const double start = zn_now_ms();

            b->conv2d(dev, y, x, &w, (zn_tail){ 0 });
            if (b->sync(dev, &err)) {
                least = 0;
                break;
            }
            if (i > 0)
                least = least > 0 ? fmin(least, zn_now_ms() - start) : fmax(zn_now_ms() - start, 1e-6);
        }
    }
    free(weight);
    b->free(dev, w.packed);
    b->free(dev, y.data);
    b->free(dev, x.data);
    return least;
}

double zn_contest(const zn_backend *b, void *dev, const zn_backend *cpu, void *cpu_dev)
{
    const double device = least_ms(b, dev), host = device > 0 ? least_ms(cpu, cpu_dev) : 0;

    if (!(host > 0))
        return 0;
    keep(b, dev, host / device);
    return host / device;
}
