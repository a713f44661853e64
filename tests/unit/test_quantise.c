/* SPDX-License-Identifier: MIT */
/* test_quantise.c - the storage types of weights, element by element against their definition in quantise.h. */
#include <math.h>

#include "core/quantise.h"
#include "core/tensor.h"
#include "core/weightfile.h"
#include "test.h"

enum { N = ZN_W_GROUP };

static uint32_t seed = 1;

static float random_float(void) /* -1 .. 1 */
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.f - 1;
}

static void test_sizes(void)
{
    static const size_t want[ZN_N_WTYPES] = { 4 * 33, 2 * 33, 2 * 33, 33, 17 };

    for (int t = 0; t < ZN_N_WTYPES; t++)
        CHECK(zn_wtype_size((zn_wtype)t, 33) == want[t], "33 elements of type %d take %zu bytes, not %zu", t,
              zn_wtype_size((zn_wtype)t, 33), want[t]);
}

/* Bytes that any reader of the format must find. */
static void test_layout(void)
{
    static const float w[5] = { 7, -7, 0, 1, -3 };
    uint8_t i8[5], i4[3], f16[2], bf16[2], f32[4];
    uint16_t scale = zn_quantise(ZN_W_I4, i4, w, 5);

    CHECK(scale == 0x3c00, "the scale of i4 is %04x, not 1", scale);
    CHECK(i4[0] == 0x1f && i4[1] == 0x98 && i4[2] == 0x85, "i4 is %02x %02x %02x", i4[0], i4[1], i4[2]);
    scale = zn_quantise(ZN_W_I8, i8, (const float[]){ 127, -127, 0, 1, -3 }, 5);
    CHECK(scale == 0x3c00, "the scale of i8 is %04x, not 1", scale);
    CHECK(i8[0] == 127 && i8[1] == 0x81 && i8[2] == 0 && i8[3] == 1 && i8[4] == 0xfd, "i8 is %02x %02x %02x %02x %02x",
          i8[0], i8[1], i8[2], i8[3], i8[4]);
    zn_quantise(ZN_W_F16, f16, (const float[]){ 1.5f }, 1);
    zn_quantise(ZN_W_BF16, bf16, (const float[]){ 1.5f }, 1);
    zn_quantise(ZN_W_F32, f32, (const float[]){ 1.5f }, 1);
    CHECK(f16[0] == 0 && f16[1] == 0x3e && bf16[0] == 0xc0 && bf16[1] == 0x3f, "f16 %02x%02x, bf16 %02x%02x", f16[1],
          f16[0], bf16[1], bf16[0]);
    CHECK(f32[0] == 0 && f32[1] == 0 && f32[2] == 0xc0 && f32[3] == 0x3f, "f32 is not itself");
}

/* All values of fp16, and back. */
static void test_halves(void)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        const int e = h >> 10 & 31, m = h & 1023;
        const double mag = e == 31 ? (m ? NAN : INFINITY) : ldexp(e ? 1024 + m : m, (e ? e : 1) - 25);
        const float got = zn_from_f16((uint16_t)h);

        CHECK(isnan(mag) ? isnan(got) : fabs((double)got) == mag, "%04x is %g, not %g", h, (double)got, mag);
        CHECK(isnan(mag) || !signbit(got) == (h < 0x8000), "the sign of %04x", h);
        CHECK(e == 31 || zn_to_f16(got) == h, "%04x becomes %04x", h, zn_to_f16(got));
    }
}

/* Every nibble and every byte means what the header says, those that quantising never makes included. */
static void test_values(void)
{
    const uint16_t scale = zn_to_f16(0.5f);

    for (int v = 0; v < 256; v++) {
        uint8_t byte = (uint8_t)v;
        float w[2];

        zn_dequantise(ZN_W_I4, w, &byte, scale, 2);
        CHECK(w[0] == 0.5f * (float)(v % 16 - 8) && w[1] == 0.5f * (float)(v / 16 - 8), "i4 %02x: %g %g", v,
              (double)w[0], (double)w[1]);
        zn_dequantise(ZN_W_I8, w, &byte, scale, 1);
        CHECK(w[0] == 0.5f * (float)(int8_t)byte, "i8 %02x: %g", v, (double)w[0]);
    }
}

/* Off by half a step at most, and the same bytes when quantised again unless the scale is tiny; for every length of a
 * group. */
static void check_round_trip(zn_wtype t, int n, float range)
{
    const double steps = t == ZN_W_I8 ? 127 : 7;
    float w[N] = { 0 }, back[N];
    uint8_t q[4 * N], again[4 * N];
    uint16_t scale, scale_again;
    double max = 0, tol;

    for (int i = 0; i < n; i++) {
        w[i] = range * random_float();
        max = fmax(max, fabs((double)w[i]));
    }
    scale = zn_quantise(t, q, w, n);
    zn_dequantise(t, back, q, scale, n);
    for (int i = 0; i < n; i++) {
        tol = t == ZN_W_F32  ? 0
            : t == ZN_W_F16  ? fabs((double)w[i]) * 0x1p-11 + 0x1p-25
            : t == ZN_W_BF16 ? fabs((double)w[i]) * 0x1p-8
                             : (double)zn_from_f16(scale) / 2 + max * 0x1p-11 +
                steps * 0x1p-25; /* half a step; the rounding of the scale */
        CHECK(fabs((double)back[i] - (double)w[i]) <= tol, "type %d: %g became %g", t, (double)w[i], (double)back[i]);
    }
    if (zn_wtype_scaled(t))
        CHECK(fabs((double)zn_from_f16(scale) - max / steps) <= max / steps * 0x1p-11 + 0x1p-25,
              "type %d: scale %g of %g", t, (double)zn_from_f16(scale), max);
    if (zn_wtype_scaled(t) && zn_from_f16(scale) < 0x1p-17f)
        return;
    memset(again, 0, sizeof again);
    scale_again = zn_quantise(t, again, back, n);
    CHECK(scale_again == scale && !memcmp(q, again, zn_wtype_size(t, (size_t)n)),
          "type %d, %d elements: not the same again", t, n);
}

static void test_round_trip(void)
{
    for (int t = 0; t < ZN_N_WTYPES; t++)
        for (int n = 1; n <= N; n++)
            for (int i = 0; i < 20; i++)
                TRY(check_round_trip((zn_wtype)t, n, ldexpf(1, i - 12)));
}

/* Zeros, NaN, and what is too large or too small for a scale: finite results, and no undefined conversion. */
static void test_extremes(void)
{
    static const float rows[][4] = {
        { 0, 0, 0, 0 },           { NAN, 1, -1, 0.5f },    { INFINITY, -INFINITY, 1, 0 },
        { 3e38f, -3e38f, 1, -1 }, { 1e-8f, -1e-8f, 0, 0 }, { -0.0f, 1e-38f, 1e-45f, 0 },
    };

    for (int t = ZN_W_I8; t < ZN_N_WTYPES; t++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            uint8_t q[4];
            float back[4];
            uint16_t scale = zn_quantise((zn_wtype)t, q, rows[i], 4);

            zn_dequantise((zn_wtype)t, back, q, scale, 4);
            for (int j = 0; j < 4; j++) {
                float w = rows[i][j];

                CHECK(isfinite(back[j]), "type %d: %g became %g", t, (double)w, (double)back[j]);
                CHECK(w == w || back[j] == 0, "type %d: NaN became %g", t, (double)back[j]);
                CHECK(!(w > 1 && back[j] <= 0) && !(w < -1 && back[j] >= 0), "type %d: %g became %g", t, (double)w,
                      (double)back[j]);
            }
        }
}

/* Inputs of a product: within half a step, ties to even; a value that is not finite is not hidden. */
static void test_inputs(void)
{
    float x[N] = { 0 }, scale;
    int8_t q[N];

    for (int round = 0; round < 100; round++) {
        const float size = powf(10, 3 * random_float());

        for (int i = 0; i < N; i++)
            x[i] = size * random_float();
        scale = zn_quantise_input(q, x, N);
        for (int i = 0; i < N; i++)
            CHECK(fabsf(x[i] - scale * q[i]) <= 0.5001f * scale, "%g became %g in steps of %g", (double)x[i],
                  (double)(scale * q[i]), (double)scale);
    }
    scale = zn_quantise_input(q, (const float[]){ 127, -127, 0.5f, 1.5f, -2.5f }, 5);
    CHECK(scale == 1 && q[0] == 127 && q[1] == -127 && q[2] == 0 && q[3] == 2 && q[4] == -2,
          "%d %d %d %d %d in steps of %g", q[0], q[1], q[2], q[3], q[4], (double)scale);
    scale = zn_quantise_input(q, (const float[]){ 0, -0.f }, 2);
    CHECK(scale == 0 && !q[0] && !q[1], "zeros became %d, %d times %g", q[0], q[1], (double)scale);
    CHECK(!isfinite(zn_quantise_input(q, (const float[]){ 1, NAN, 2 }, 3)), "NaN has a finite scale");
    CHECK(!isfinite(zn_quantise_input(q, (const float[]){ 1, -INFINITY, 2 }, 3)), "infinity has a finite scale");
}

/* ---- from files ------------------------------------------------------------------------------------------ */

enum { GROUPS = 70 }; /* of a tensor: more than one piece of Q4_0 */

static unsigned char file_bytes[3][GROUPS * 64];

/* A tensor of that type whose bytes are file_bytes[which]. */
static zn_entry entry_of(zn_file *file, zn_type type, int which, int cols)
{
    *file = (zn_file){ .label = "a file", .size = sizeof file_bytes[which], .fd = -1, .data = file_bytes[which] };
    return (zn_entry){ .dtype = type, .n_dims = 2, .shape = { GROUPS, cols }, .stride = { cols, 1 }, .file = file };
}

static void random_bytes(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        random_float();
        p[i] = (unsigned char)(seed >> 16);
    }
}

/* What is read quantised, dequantised: the very floats that are read otherwise.  In two parts. */
static void same_as_floats(const zn_entry *e, zn_wtype t, const char *what)
{
    static float want[GROUPS * N], got[GROUPS * N];
    static uint8_t q[GROUPS * N];
    uint16_t scale[GROUPS];
    const int cut = 17;
    zn_error err = { "" };

    CHECK(!zn_entry_read(e, want, &err), "%s", err.text);
    CHECK(!zn_entry_read_quantised(e, t, q, scale, 0, cut * N, &err) &&
              !zn_entry_read_quantised(e, t, q + zn_wtype_size(t, cut * N), scale + cut, cut * N, (GROUPS - cut) * N,
                                       &err),
          "%s: %s", what, err.text);
    for (size_t g = 0; g < GROUPS; g++)
        zn_dequantise(t, got + g * N, q + zn_wtype_size(t, g * N), scale[g], N);
    for (int i = 0; i < GROUPS * N; i++)
        CHECK(want[i] == got[i], "%s: element %d is %g, not %g", what, i, (double)got[i], (double)want[i]);
}

/* GGUF's blocks, the lowest number and negative scales among them, are copied. */
static void test_blocks(void)
{
    static const struct {
        zn_type type;
        zn_wtype wtype;
        size_t size;
    } types[] = { { ZN_Q8_0, ZN_W_I8, 34 }, { ZN_Q4_0, ZN_W_I4, 18 } };

    for (int t = 0; t < 2; t++) {
        zn_file file;
        const zn_entry e = entry_of(&file, types[t].type, 0, N);

        random_bytes(file_bytes[0], sizeof file_bytes[0]);
        for (int g = 0; g < GROUPS; g++) {
            const uint16_t scale = zn_to_f16(random_float() * (g % 3 ? 0.01f : 0x1p-19f));

            memcpy(file_bytes[0] + (size_t)g * types[t].size, &scale, sizeof scale);
        }
        TRY(same_as_floats(&e, types[t].wtype, zn_dtype_name(e.dtype)));
    }
}

/* MLX's matrices are copied where the offset is minus 8 or 128 scales, as our files have it; else rounded. */
static void test_mlx(void)
{
    for (int t = 0; t < 2; t++) {
        const zn_wtype wtype = t ? ZN_W_I4 : ZN_W_I8;
        zn_file file[3];
        zn_entry e = entry_of(&file[0], t ? ZN_MLX4 : ZN_MLX8, 0, N);
        const zn_entry scales = entry_of(&file[1], ZN_F16, 1, 1), offsets = entry_of(&file[2], ZN_F16, 2, 1);
        static float x[GROUPS * N];
        uint8_t got[N], want[N];
        uint16_t scale[2];
        zn_error err;

        e.scales = &scales;
        e.offsets = &offsets;
        random_bytes(file_bytes[0], sizeof file_bytes[0]);
        for (size_t g = 0; g < GROUPS; g++) {
            const uint16_t s = zn_to_f16(fabsf(random_float()) * (g % 3 ? 0.01f : 0x1p-19f));
            const uint16_t o = zn_to_f16(zn_from_f16(s) * (t ? -8.f : -128.f));

            memcpy(file_bytes[1] + 2 * g, &s, sizeof s);
            memcpy(file_bytes[2] + 2 * g, &o, sizeof o);
        }
        TRY(same_as_floats(&e, wtype, zn_dtype_name(e.dtype)));
        file_bytes[2][9 * 2] ^= 1; /* group 9 is off the middle */
        CHECK(!zn_entry_read(&e, x, &err) && !zn_entry_read_quantised(&e, wtype, got, scale, 9 * N, N, &err), "%s",
              err.text);
        scale[1] = zn_quantise(wtype, want, x + 9 * N, N);
        CHECK(scale[0] == scale[1] && !memcmp(got, want, zn_wtype_size(wtype, N)), "%s: not rounded",
              zn_dtype_name(e.dtype));
    }
}

int main(void)
{
    RUN(test_sizes);
    RUN(test_layout);
    RUN(test_halves);
    RUN(test_values);
    RUN(test_round_trip);
    RUN(test_extremes);
    RUN(test_inputs);
    RUN(test_blocks);
    RUN(test_mlx);
    return test_end();
}
