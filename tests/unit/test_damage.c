/* SPDX-License-Identifier: MIT */
/* test_damage.c - what is found in pictures that were blurred, stored as JPEG files, or have noise. */
#include "test.h"

#include "pipeline/damage.h"
#include "pipeline/sample.h"

#include <stdint.h>
#include <stdlib.h>

enum { W = 320, H = 248 };

typedef struct picture {
    float grey[H][W]; /* of 255 */
    int reads;        /* that succeed; -1: all */
} picture;

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    picture *p = cookie;

    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++, dst += 3)
            dst[0] = dst[1] = dst[2] = p->grey[y % H][x % W] / 255;
    return p->reads < 0 || p->reads-- > 0;
}

static uint32_t state;

static float draw(void) /* 0 .. 1 */
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216;
}

/* Discs of many sizes, one over the other: most are as small as fine detail. */
static void paint(picture *p)
{
    state = 3;
    p->reads = -1;
    for (int i = 0; i < 4000; i++) {
        const float cx = draw() * W, cy = draw() * H, r = 1.2f / (0.03f + draw()), v = 20 + 215 * draw();

        for (int y = (int)fmaxf(cy - r, 0); y < H && (float)y < cy + r; y++)
            for (int x = (int)fmaxf(cx - r, 0); x < W && (float)x < cx + r; x++)
                if (((float)x - cx) * ((float)x - cx) + ((float)y - cy) * ((float)y - cy) < r * r)
                    p->grey[y][x] = roundf(v);
    }
}

/* Each pixel is the mean of those from -along to along in x and -down to down in y, weighted by a Gaussian of deviation sigma. */
static void blur(picture *p, int along, int down, float sigma, int x1)
{
    picture *from = malloc(sizeof *from);

    *from = *p;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < x1; x++) {
            float sum = 0, weight = 0;

            for (int j = -down; j <= down; j++)
                for (int i = -along; i <= along; i++) {
                    const float w = expf(-0.5f * (float)(i * i + j * j) / (sigma * sigma));

                    sum += w * from->grey[(y + j + H) % H][(x + i + W) % W];
                    weight += w;
                }
            p->grey[y][x] = roundf(sum / weight);
        }
    free(from);
}

static const uint8_t table[64] = { 16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
                                   14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
                                   18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
                                   49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99 };

static double basis(int k, int i)
{
    return cos((2 * i + 1) * k * 3.14159265358979 / 16) * (k ? 0.5 : sqrt(0.125));
}

/* A block as a file of this quality leaves it; back: from coefficients to pixels. */
static void turn(double out[64], const double in[64], bool back)
{
    for (int u = 0; u < 64; u++) {
        out[u] = 0;
        for (int v = 0; v < 64; v++)
            out[u] +=
                in[v] * (back ? basis(v / 8, u / 8) * basis(v % 8, u % 8) : basis(u / 8, v / 8) * basis(u % 8, v % 8));
    }
}

static void store(picture *p, int quality)
{
    const int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;

    for (int y = 0; y < H; y += 8)
        for (int x = 0; x < W; x += 8) {
            double pixel[64], c[64];

            for (int i = 0; i < 64; i++)
                pixel[i] = (double)p->grey[y + i / 8][x + i % 8] - 128;
            turn(c, pixel, false);
            for (int i = 0; i < 64; i++) {
                const double q = fmin(fmax((table[i] * scale + 50) / 100, 1), 255); /* as libjpeg rounds it */

                c[i] = rint(c[i] / q) * q;
            }
            turn(pixel, c, true);
            for (int i = 0; i < 64; i++)
                p->grey[y + i / 8][x + i % 8] = (float)fmin(fmax(rint(pixel[i] + 128), 0), 255);
        }
}

static picture *scene;

static zn_status found(zn_faults *d)
{
    const zn_source in = { W, H, 3, read_picture, scene };
    zn_error err;

    return zn_damage_measure(d, &in, &err);
}

static void test_files(void)
{
    static const int quality[] = { 8, 20, 45, 60, 75, 90 };
    zn_faults d;

    paint(scene);
    CHECK(!found(&d) && d.artefacts == 0, "artefacts %g without a file", (double)d.artefacts);
    for (size_t i = 0; i < sizeof quality / sizeof *quality; i++) {
        paint(scene);
        store(scene, quality[i]);
        CHECK(!found(&d) && fabs((double)d.artefacts - 100 + quality[i]) <= 2, "quality %d: artefacts %g", quality[i],
              (double)d.artefacts);
    }
    paint(scene);
    store(scene, 30);
    store(scene, 85);
    CHECK(!found(&d) && fabs((double)d.artefacts - 70) <= 3, "twice: artefacts %g", (double)d.artefacts);
}

static void test_blur(void)
{
    zn_faults d;

    paint(scene);
    CHECK(!found(&d) && d.blur == -1, "a sharp picture: %g", (double)d.blur);
    store(scene, 20);
    CHECK(!found(&d) && d.blur == -1, "a sharp picture in a file: %g", (double)d.blur);
    paint(scene);
    blur(scene, 6, 6, 1.6f, W / 4);
    CHECK(!found(&d) && d.blur == -1, "most of it is sharp: %g", (double)d.blur);
    paint(scene);
    blur(scene, 6, 6, 1.6f, W);
    CHECK(!found(&d) && d.blur >= 0, "a blurred picture is sharp");
    paint(scene);
    blur(scene, 5, 5, 2, W);
    CHECK(!found(&d) && fabsf(d.blur - 1.9f) < 0.4f, "blur of 2: %g", (double)d.blur);
    store(scene, 90);
    CHECK(!found(&d) && d.artefacts > 0 && fabsf(d.blur - 1.9f) < 0.4f, "blur of 2 in a file: %g", (double)d.blur);
    store(scene, 40);
    CHECK(!found(&d) && d.blur == 0, "blur of 2 in a bad file: %g", (double)d.blur);
    for (int i = 0; i < W * H; i++) /* wide edges, but few */
        scene->grey[i / W][i % W] = 128 + 90 * tanhf((float)(i % W - W / 2) / 4);
    CHECK(!found(&d) && d.blur == 0, "few edges: blur of %g", (double)d.blur);
    paint(scene);
    blur(scene, 3, 0, 1e3f, W);
    CHECK(!found(&d) && d.blur == 0, "motion along x is sharp");
    paint(scene);
    blur(scene, 0, 3, 1e3f, W);
    CHECK(!found(&d) && d.blur == 0, "motion along y is sharp");
    memset(scene->grey, 0, sizeof scene->grey);
    CHECK(!found(&d) && d.blur == 0 && d.artefacts == 0 && d.noise == 0, "a black picture");
}

static void test_noise(void)
{
    zn_faults d;

    paint(scene);
    CHECK(!found(&d) && d.noise == 0, "noise %g without any", (double)d.noise);
    for (int i = 0; i < W * H; i++)
        scene->grey[i / W][i % W] +=
            12 * 1.732f * 2 * ((draw() + draw() + draw() + draw()) / 2 - 1); /* of deviation 12 */
    CHECK(!found(&d) && d.noise > 10 && d.noise < 14, "noise of 12: %g", (double)d.noise);
    CHECK(d.noise == roundf(4 * d.noise) / 4, "not in steps: %g", (double)d.noise);
}

static void test_fading(void)
{
    zn_faults d;

    for (int i = 0; i < W * H; i++) /* from 60 to 190, but for a few pixels */
        scene->grey[i / W][i % W] = i % 400 == 0 ? 255 : (float)(60 + i % W * 130 / (W - 1));
    CHECK(!found(&d), "it failed");
    for (int c = 0; c < 3; c++)
        CHECK(fabsf(255 * d.low[c] - 60) < 5 && fabsf(255 * d.high[c] - 190) < 5, "from %g to %g",
              (double)(255 * d.low[c]), (double)(255 * d.high[c]));
    for (int i = 0; i < W * H; i++)
        scene->grey[i / W][i % W] = (float)(100 + i % 20);
    CHECK(!found(&d) && d.low[1] == 0 && d.high[1] == 1, "a picture of nothing is stretched");
}

/* Numbers that are none, pictures of one pixel, and pictures that cannot be read. */
static void test_odd_pictures(void)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY, 1e30f };
    zn_faults d;
    zn_error err;

    for (int k = 0; k < 4; k++) {
        paint(scene);
        for (int i = 0; i < W * H; i += 31)
            scene->grey[i / W][i % W] = bad[k];
        CHECK(!found(&d) && isfinite(d.noise) && isfinite(d.artefacts) && isfinite(d.blur), "value %d", k);
        CHECK(d.high[0] > d.low[0] && d.high[0] <= 1 && d.low[0] >= 0, "value %d: levels", k);
    }
    paint(scene);
    for (int w = 1; w < 20; w += 3)
        for (int h = 1; h < 20; h += 3) {
            const zn_source in = { w, h, 3, read_picture, scene };

            CHECK(!zn_damage_measure(&d, &in, &err), "%dx%d: %s", w, h, err.text);
        }
    for (int i = 0; i < 2; i++) {
        scene->reads = i;
        CHECK(found(&d) == ZN_E_FILE && d.noise == 0 && d.artefacts == 0 && d.blur == 0, "read %d failed", i);
    }
    scene->reads = -1;
}

/* Squares of large pictures lie inside, on the lattice, all of one size. */
static void test_samples(void)
{
    static const int size[][2] = { { 1, 1 }, { 1200, 1250 }, { 1200, 1251 }, { 100, 20000 }, { 6000, 4000 } };

    for (int i = 0; i < 5; i++) {
        const zn_source in = { size[i][0], size[i][1], 3, NULL, NULL };
        const zn_sample s = zn_sample_of(&in);

        CHECK((s.n == 1) == (i < 2), "%dx%d: %d squares", in.w, in.h, s.n);
        for (int k = 0; k < s.n; k++) {
            const zn_rect r = s.square[k];

            CHECK(r.x >= 0 && r.y >= 0 && r.x + r.w <= in.w && r.y + r.h <= in.h && r.x % 192 == 0 && r.y % 192 == 0 &&
                      r.w == s.square[0].w && r.h == s.square[0].h,
                  "%dx%d: square %d", in.w, in.h, k);
        }
    }
}

int main(void)
{
    scene = malloc(sizeof *scene);
    RUN(test_files);
    RUN(test_blur);
    RUN(test_noise);
    RUN(test_fading);
    RUN(test_odd_pictures);
    RUN(test_samples);
    free(scene);
    return test_end();
}
