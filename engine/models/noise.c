/* SPDX-License-Identifier: MIT */
/* noise.c - how noisy a picture is, from the picture alone.
 *
 *   patches of 8 x 8 ──> texture (energy of gradients) ──> bin ─┐
 *          └──> DCT ──> squares of 64 coefficients ─────────────┴──> sums per bin
 *
 * White noise of deviation s puts s^2 into every coefficient; what the picture shows only adds, and adds
 * least to smooth patches and to some one coefficient.  So, starting with all patches: s^2 is the smallest
 * mean of a coefficient; then only patches count whose gradients noise of that level would explain, and s^2
 * is found anew, until nothing changes (the choice of patches is that of Liu, Tanaka, Okutomi 2013; the DCT
 * takes the place of their principal components, which need far more patches).
 *
 * Noise that is not white, because the picture was compressed, scaled or made from a sensor's mosaic, has
 * little of the highest frequencies.  The same is therefore done at half the size, where white noise is half
 * as strong: COARSE times that is less than s for white noise, and more for coarse noise.
 *
 * Clipped patches show less noise than there is, those without any variation show none: both are left out,
 * unless there is little else.  One thread, sums in one order: the same picture gives the same numbers. */
#include "../core/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 8,     /* side of a patch */
    STEP = 4,  /* between rows of patches */
    BAND = 24, /* rows that are read at a time; patches start in the first BAND_STEP */
    BAND_STEP = BAND - N,
    SIDE_MIN = 2 * N,
    SAMPLE = 1250000, /* pixels that are read, about */
    BANDS_MIN = 16,   /* ... unless these are more */
    PATCHES = 32768,  /* at each scale, about */
    BINS = 192,       /* of texture, OCTAVE to each factor of two, from 2^-24 */
    OCTAVE = 6,
    PATCHES_MIN = 32, /* fewer tell nothing */
    ROUNDS = 12
};

static const float END = 0.5f / 255; /* closer to 0 or 1 a value is clipped */
static const float HIDDEN = 0.5f;    /* what readers put where a picture is transparent; no 8-bit value */
static const double COARSE = 1.5;    /* see above */
static const double APART = 1.25;    /* coarse noise of the channels differs by less */
static const double FLAT_SHARE = 1 / 3.0; /* more patches without variation: drawn, not taken */

/* White noise of deviation 1 has a texture of 48 in the mean, and of more than 1.9 times that in one patch of
 * four thousand (a sum of 96 squares of half differences two apart, nearly a gamma variable of shape 23). */
static const double TEXTURE_BOUND = 48 * 1.9;

typedef struct spectrum { /* of one channel at one scale */
    double sum[BINS][N * N];
    int count[BINS];
    int flat, clipped; /* patches that are not in the bins */
    double clipped_sum[N * N];
} spectrum;

/* ---- one patch ------------------------------------------------------------------------------------------
 */

typedef struct basis {
    float row[N][N]; /* row[k][i] = c_k cos(pi (i + 1/2) k / N) */
} basis;

static void basis_init(basis *b)
{
    const double pi = 3.14159265358979323846;

    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            b->row[k][i] = (float)(cos(pi * (i + 0.5) * k / N) * sqrt((k ? 2.0 : 1.0) / N));
}

/* y = B x B', squared. */
static void dct_squares(float y[N][N], float x[N][N], const basis *b)
{
    float half[N][N] = { { 0 } };

    for (int k = 0; k < N; k++) /* columns */
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                half[k][j] += b->row[k][i] * x[i][j];
    memset(x, 0, sizeof(float) * N * N);
    for (int i = 0; i < N; i++) /* its transpose, so that the inner loop runs along a row */
        for (int j = 0; j < N; j++)
            x[j][i] = half[i][j];
    memset(half, 0, sizeof half);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                half[k][j] += b->row[k][i] * x[i][j];
    for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++)
            y[k][j] = half[k][j] * half[k][j];
}

static float texture_of(float x[N][N])
{
    float along[N] = { 0 }, across = 0;

    for (int i = 0; i < N - 2; i++)
        for (int j = 0; j < N; j++)
            along[j] += (x[i + 2][j] - x[i][j]) * (x[i + 2][j] - x[i][j]);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N - 2; j++)
            across += (x[i][j + 2] - x[i][j]) * (x[i][j + 2] - x[i][j]);
    for (int j = 0; j < N; j++)
        across += along[j];
    return across / 4;
}

static int bin_of(double texture)
{
    double at = (log2(texture) + 24) * OCTAVE;

    return at > 0 ? at < BINS - 1 ? (int)at : BINS - 1 : 0;
}

/* p points to the channel's value at the patch's corner; `row` values lie between rows. */
static void add_patch(spectrum *s, const float *p, size_t row, const basis *b)
{
    float x[N][N], y[N][N], texture;
    int ends = 0, bin;
    bool hidden = true;

    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            float v = p[(size_t)i * row + (size_t)j * 3];

            x[i][j] = v;
            ends += fabsf(v) < END || fabsf(v - 1) < END;
            hidden = hidden && v == HIDDEN;
        }
    texture = texture_of(x);
    if (hidden || !isfinite(texture))
        return;
    if (ends > N * N / 20) {
        dct_squares(y, x, b);
        s->clipped++;
        for (int k = 0; k < N * N; k++)
            s->clipped_sum[k] += (double)y[k / N][k % N];
    } else if (texture <= 0) {
        s->flat++;
    } else {
        dct_squares(y, x, b);
        bin = bin_of((double)texture);
        s->count[bin]++;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                s->sum[bin][k * N + j] += (double)y[k][j];
    }
}

/* ---- all patches ----------------------------------------------------------------------------------------
 */

/* The smallest mean of a coefficient other than the first, in the bins below `bins`; *n of patches. */
static double smallest(const spectrum *s, int bins, int *n)
{
    double sum[N * N] = { 0 }, least = INFINITY;

    *n = 0;
    for (int i = 0; i < bins; i++) {
        if (!s->count[i])
            continue;
        *n += s->count[i];
        for (int k = 0; k < N * N; k++)
            sum[k] += s->sum[i][k];
    }
    for (int k = 1; k < N * N; k++)
        least = fmin(least, sum[k]);
    return *n ? least / *n : 0;
}

/* The deviation, in the picture's own units; -1: there is too little to tell. */
static double deviation(spectrum *s)
{
    int n, chosen = BINS;
    double v = smallest(s, BINS, &n), found;

    if (s->flat > FLAT_SHARE * (n + s->flat))
        return 0;
    if (n < PATCHES_MIN && s->clipped > n) { /* nearly all is clipped: better than nothing */
        for (int k = 0; k < N * N; k++)
            s->sum[0][k] += s->clipped_sum[k];
        s->count[0] += s->clipped;
        s->clipped = 0;
        v = smallest(s, BINS, &n);
    }
    if (n < PATCHES_MIN)
        return -1;
    for (int round = 0; round < ROUNDS; round++) {
        int bins = bin_of(v * TEXTURE_BOUND), m;

        if (bins >= chosen) /* v never grows, so neither do they */
            break;
        found = smallest(s, bins, &m);
        if (m < PATCHES_MIN)
            break;
        v = found, n = m, chosen = bins;
    }
    /* Of 63 means the smallest is too small, by about 1.8 of their deviations. */
    return sqrt(v / (1 - 1.8 * sqrt(2.0 / n)));
}

/* The mean of each 2 x 2 pixels; w and h are those of dst. */
static void halve(float *dst, const float *src, int w, int h, size_t src_row)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) {
                const float *p = src + (size_t)(2 * y) * src_row + (size_t)(2 * x * 3 + c);

                dst[((size_t)y * (size_t)w + (size_t)x) * 3 + (size_t)c] =
                    (p[0] + p[3] + p[src_row] + p[src_row + 3]) / 4;
            }
}

/* Rows of patches that start at 0, step, ... below `rows`, in a band of w x h pixels. */
static void add_band(spectrum s[3], const float *band, int w, int h, int rows, int step, int step_x,
                     const basis *b)
{
    for (int y = 0; y < rows && y + N <= h; y += step)
        for (int x = 0; x + N <= w; x += step_x)
            for (int c = 0; c < 3; c++)
                add_patch(&s[c], band + ((size_t)y * (size_t)w + (size_t)x) * 3 + (size_t)c, (size_t)w * 3,
                          b);
}

zn_status zn_noise_estimate(float sigma[3], const zn_source *in, zn_error *err)
{
    int64_t bands, patches;
    int step, step_x[2], h;
    spectrum(*s)[3] = NULL; /* at full and at half size */
    float *band = NULL, *small = NULL;
    double fine[3], coarse[3], least = INFINITY;
    basis b;
    zn_status status = ZN_OK;

    sigma[0] = sigma[1] = sigma[2] = 0;
    if (in->c < 3 || in->w < SIDE_MIN || in->h < SIDE_MIN)
        return ZN_OK; /* too small to tell: no noise */
    bands = SAMPLE / ((int64_t)in->w * BAND);
    bands = bands < BANDS_MIN ? BANDS_MIN : bands;
    step = (int)((in->h - N) / bands + 1);
    step = step < BAND_STEP ? BAND_STEP : step / 2 * 2;
    bands = (in->h - N) / step + 1;
    for (int i = 0; i < 2; i++) { /* at half size rows of patches are half as far apart */
        patches = bands * (BAND_STEP / STEP) * (in->w >> i);
        step_x[i] = (int)(patches / PATCHES) + 1;
        step_x[i] = step_x[i] < 3 - i ? 3 - i : step_x[i];
    }
    s = calloc(2, sizeof *s);
    band = malloc((size_t)in->w * BAND * 3 * sizeof *band);
    small = malloc((size_t)(in->w / 2) * (BAND / 2) * 3 * sizeof *small);
    if (!s || !band || !small) {
        status = zn_fail(err, ZN_E_MEMORY, "out of memory while estimating the noise");
        goto end;
    }
    basis_init(&b);
    for (int y = 0; y + N <= in->h; y += step) {
        h = in->h - y < BAND ? in->h - y : BAND;
        if (!in->read(in->cookie, (zn_rect){ 0, y, in->w, h }, band)) {
            status = zn_fail(err, ZN_E_FILE, "the picture could not be read");
            goto end;
        }
        add_band(s[0], band, in->w, h, BAND_STEP, STEP, step_x[0], &b);
        halve(small, band, in->w / 2, h / 2, (size_t)in->w * 3);
        add_band(s[1], small, in->w / 2, h / 2, BAND_STEP / 2, STEP / 2, step_x[1], &b);
    }
    for (int c = 0; c < 3; c++) {
        fine[c] = deviation(&s[0][c]);
        coarse[c] = deviation(&s[1][c]);
        if (coarse[c] >= 0)
            least = fmin(least, coarse[c]);
    }
    for (int c = 0; c < 3; c++) {
        double v = fmax(fine[c], fmin(coarse[c], APART * least) * COARSE);

        sigma[c] = v > 0 ? fminf((float)v * 255, 255) : 0;
    }
end:
    free(s);
    free(band);
    free(small);
    return status;
}
