/* SPDX-License-Identifier: MIT */
/* test_conv_size.c - how many bytes a layer's weights take on a CPU: in every storage type, and with Winograd's bound. */
#include "backend.h"
#include "test.h"

enum { EXPANDED = 20 << 20 /* bytes, up to which 3x3 weights may be packed in Winograd's form */ };

static const zn_backend *be;
static void *dev;
static bool scratch; /* what size_of counts: not the weights but the additional memory of a run */

static size_t size_of(int kernel, int cin, int cout, int stride, bool up2, zn_precision p)
{
    zn_conv w = { .kh = kernel,
                  .kw = kernel,
                  .stride = stride,
                  .groups = 1,
                  .cin = cin,
                  .cout = cout,
                  .pad_t = kernel / 2,
                  .pad_l = kernel / 2,
                  .up2 = up2,
                  .precision = p };

    return scratch ? be->conv_scratch(dev, &w) : be->conv_size(dev, &w);
}

static void test_storage_types(void)
{
    static const struct {
        zn_precision precision;
        double bits; /* of a weight, scales included */
    } list[] = {
        { ZN_FP32, 32 }, { ZN_FP16_MATH, 16 }, { ZN_BF16_MATH, 16 }, { ZN_INT8_MATH, 8.5 }, { ZN_INT4_MATH, 4.5 },
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        size_t linear = (size_t)(2560 * 2560 * list[i].bits / 8) + 2560 * sizeof(float);
        size_t conv = (size_t)(512 * 512 * 9 * list[i].bits / 8) + 512 * sizeof(float);

        size_t have = size_of(1, 2560, 2560, 1, false, list[i].precision);
        size_t row =
            list[i].precision == ZN_FP16_MATH ? 2560 * sizeof(uint16_t) : 0; /* of zeros, where products are fp16 */

        CHECK(have == linear || have == linear + row, "a linear layer in %s takes %zu bytes, not %zu",
              zn_precision_names[list[i].precision], have, linear);
        CHECK(size_of(3, 512, 512, 1, false, list[i].precision) == conv, "3x3 in %s takes %zu bytes, not %zu",
              zn_precision_names[list[i].precision], size_of(3, 512, 512, 1, false, list[i].precision), conv);
    }
}

/* Small layers are expanded, which is what makes them fast; large ones never are. */
static void test_winograd(void)
{
    static const int channels[] = { 16, 64, 128, 256, 384, 512, 1024 };

    CHECK(size_of(3, 64, 64, 1, false, ZN_FP32) > 7 * 64 * 64 * 9 * sizeof(float), "64 > 64 is not in Winograd's form");
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++)
            for (int form = 0; form < 3; form++) { /* plain, stride 2, up2 */
                size_t plain = (size_t)(channels[i] * 9 + 1) * (size_t)((channels[j] + 63) / 64 * 64) * sizeof(float);
                size_t have = size_of(3, channels[i], channels[j], form == 1 ? 2 : 1, form == 2, ZN_FP32);

                CHECK(have <= EXPANDED || have <= plain, "3x3 %d > %d takes %zu bytes; the weights are %zu",
                      channels[i], channels[j], have, plain);
            }
}

/* Weights that a run transforms for Winograd are counted, as much of them as there are at a time. */
static void test_scratch(void)
{
    size_t packed, stored, large, linear;

    scratch = true;
    packed = size_of(3, 64, 64, 1, false, ZN_FP32);
    stored = size_of(3, 64, 64, 1, false, ZN_INT8_MATH);
    large = size_of(3, 1024, 1024, 1, false, ZN_FP32);
    linear = size_of(1, 1024, 1024, 1, false, ZN_INT8_MATH);
    scratch = false;
    CHECK(packed == 0 && linear == 0, "%zu and %zu bytes where nothing is transformed", packed, linear);
    CHECK(stored == size_of(3, 64, 64, 1, false, ZN_FP32), "%zu bytes for 64 > 64", stored);
    CHECK(large == 40 << 20, "%zu bytes for 1024 > 1024", large);
}

int main(void)
{
    static const zn_backend *const list[] = { &zn_backend_neon, &zn_backend_avx2, &zn_backend_avx512 };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        zn_error err;

        be = list[i];
        if (be->open(&dev, 1, &err))
            continue;
        printf("# %s\n", be->name);
        RUN(test_storage_types);
        RUN(test_winograd);
        RUN(test_scratch);
        be->close(dev);
    }
    return test_end();
}
