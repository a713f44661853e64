/* SPDX-License-Identifier: MIT */
/* samples.c - whole numbers of pixels to floats and back. */
#include "../zenith_number.h"

#include <stdint.h>
#include <string.h>

/* In double the product and the sum are exact: no compiler's and no CPU's way to multiply and add can change a sample. */
#define SAMPLES(type, most)                                                                                            \
    static void read_##type(float *restrict dst, const type *restrict src, size_t n)                                   \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            dst[i] = (float)src[i] / (float)(most);                                                                    \
    }                                                                                                                  \
    static void write_##type(type *restrict dst, const float *restrict src, size_t n)                                  \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const float low = src[i] > 0 ? src[i] : 0, v = low < 1 ? low : 1;                                          \
                                                                                                                       \
            dst[i] = (type)(int)((double)v * (most) + 0.5);                                                            \
        }                                                                                                              \
    }

SAMPLES(uint8_t, 255)
SAMPLES(uint16_t, 65535)

/* From the last pixel on: none is overwritten before it was read. */
static void spread_grey(float *pixels, int to, int from, size_t n)
{
    while (n-- > 0) {
        const float grey = pixels[n * from], last = pixels[n * from + from - 1];

        pixels[n * to + to - 1] = last;
        for (int c = 0; c < 3; c++)
            pixels[n * to + c] = grey;
    }
}

void zn_samples_read(float *dst, int to, const void *src, int from, size_t n, int bytes)
{
    if (bytes == 1)
        read_uint8_t(dst, src, n * from);
    else
        read_uint16_t(dst, src, n * from);
    if (from < to)
        spread_grey(dst, to, from, n);
}

void zn_samples_write(void *dst, const float *src, size_t n, int bytes)
{
    if (bytes == 1)
        write_uint8_t(dst, src, n);
    else
        write_uint16_t(dst, src, n);
}

const char *zn_samples_full(const char *format)
{
    static const char *const models[][3] = { { "R'G'B'", "Y'", "R'G'B' float" },
                                             { "R'G'B'A", "Y'A", "R'G'B'A float" },
                                             { "RGB", "Y", "RGB float" },
                                             { "RGBA", "YA", "RGBA float" } };
    const char *type = strrchr(format, ' ');
    const size_t len = type ? (size_t)(type - format) : 0;

    for (size_t i = 0; i < 8 && type && (!strcmp(type, " u8") || !strcmp(type, " u16")); i++)
        if (strlen(models[i / 2][i % 2]) == len && !strncmp(models[i / 2][i % 2], format, len))
            return models[i / 2][2];
    return NULL;
}
