/* SPDX-License-Identifier: MIT */
/* noise.c - estimates the noise level of a picture from the picture alone.
 *
 *   patches of 8 x 8 ──> texture (energy of gradients) ──> bin ─┐
 *          └──> DCT ──> squares of 64 coefficients ─────────────┴──> sums per bin
 *
 * White noise of deviation s adds s^2 to the mean square of every coefficient.  The picture's content adds to them
 * too, least in smooth patches and in one coefficient or another.  So s^2 is the smallest mean square of a
 * coefficient, first over all patches.  Then only patches count whose gradients noise of that level explains, and
 * s^2 is computed again, until it no longer changes.  (Patches are chosen as by Liu, Tanaka, Okutomi 2013; the DCT
 * replaces their principal components, which need far more patches.)
 *
 * Noise that is not white, because the picture was compressed, scaled or made from a sensor's mosaic, has
 * little energy in the highest frequencies, so the smallest coefficient says nothing about it.  It is estimated from
 * the middle frequencies of the smoothest patches, where these are stronger than the high ones.  Texture has that
 * property too.  But noise makes many patches equally rough, while in a picture without noise the smoothest patches
 * are far smoother than most: then the middle frequencies are ignored.
 *
 * Clipped patches show less noise than there is, and patches without variation show none: both are left out, unless
 * there are too few others.
 *
 * Patches of one row overlap, and the channels are interleaved.  What can be computed per column (half of the DCT,
 * gradients, clipping) is computed for a whole row at once, in loops that compilers vectorise.  Each thread adds up
 * bands of its own, and the bands' sums are added in order: the same picture gives the same result. */
#include "noise.h"

#include "memory.h"

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
    PATCHES = 32768,  /* about */
    BINS = 192,       /* of texture, OCTAVE to each factor of two, from 2^-24 */
    OCTAVE = 6,
    CLIPPED = BINS,   /* one more bin, for patches that are clipped */
    PATCHES_MIN = 32, /* fewer: no estimate */
    ROUNDS = 12,
    CHUNK = 3 * N, /* columns that are worked on at a time: those of one patch */
    SLOTS = 8      /* bands that are in memory at a time */
};

static const float END = 0.5f / 255;      /* closer to 0 or 1 a value is clipped */
static const float HIDDEN = 0.5f;         /* what readers put where a picture is transparent; no 8-bit value */
static const double FLAT_SHARE = 1 / 3.0; /* more patches without variation: not a photograph */

/* White noise of deviation 1 has a texture of 48 in the mean, and of more than 1.9 times that in one patch of
 * four thousand (a sum of 96 squares of half differences two apart, nearly a gamma variable of shape 23). */
static const double TEXTURE_BOUND = 48 * 1.9;

/* Coarse noise is looked for in the SMOOTH share of patches.  From the SMOOTHEST to MANY patches texture
 * grows by up to ALIKE octaves if all of it is noise, by more than UNLIKE if there is none. */
static const double SMOOTH = 0.03, SMOOTHEST = 0.005, MANY = 0.2;
static const double ALIKE = 2, UNLIKE = 3;

/* The level that our networks want, as a multiple of the middle frequencies' deviation there: it grows with
 * how much that exceeds the high frequencies', up to COARSE.  (Of the noise of a camera's whole picture that
 * is 1.1 to 1.6 times the deviation: smooth places have less than others.)  Texture under white noise makes
 * the middle 1.2 times the high ones: there the multiple is still below 1, and the smallest coefficient
 * counts. */
static const double COARSE = 2, STEEP = 2.5, BELOW = 2.2;

typedef struct part {           /* of one channel in one band */
    float sum[BINS + 1][N * N]; /* of squares, in the order of add_squares; the mean comes first */
    int count[BINS + 1];
    int flat; /* patches without variation */
} part;

typedef struct spectrum { /* of all bands */
    double sum[BINS + 1][N * N];
    int count[BINS + 1];
    int flat;
} spectrum;

/* ---- rows of patches ---------------------------------------------------------------------------------------- */

/* The DCT of eight values: sums of pairs give the even coefficients, differences the odd ones. */
typedef struct basis {
    float even[N / 2][N / 2], odd[N / 2][N / 2]; /* [coefficient][pair] */
} basis;

/* Columns of one row of patches, three to a pixel. */
typedef struct columns {
    float (*dct)[N];
    float *down, *along; /* squares of differences two pixels apart, from here down and to the right */
    int *marks;          /* values that are clipped, and HIDDEN_ONE times those that are hidden */
} columns;

enum { HIDDEN_ONE = 256 };

static void basis_init(basis *b)
{
    const double pi = 3.14159265358979323846;

    for (int k = 0; k < N; k++)
        for (int i = 0; i < N / 2; i++)
            (k % 2 ? b->odd : b->even)[k / 2][i] = (float)(cos(pi * (i + 0.5) * k / N) * sqrt((k ? 2.0 : 1.0) / N));
}

/* The DCT of CHUNK columns, its even coefficients first. */
static void transform(float (*dct)[N], const float *src, size_t row, const basis *b)
{
    float sum[N / 2][CHUNK], diff[N / 2][CHUNK], y[N][CHUNK];

    for (int i = 0; i < N / 2; i++) {
        const float *p = src + (size_t)i * row, *q = src + (size_t)(N - 1 - i) * row;

        for (int x = 0; x < CHUNK; x++) {
            sum[i][x] = p[x] + q[x];
            diff[i][x] = p[x] - q[x];
        }
    }
    for (int k = 0; k < N / 2; k++) {
        const float *e = b->even[k], *o = b->odd[k];

        for (int x = 0; x < CHUNK; x++) {
            y[k][x] = e[0] * sum[0][x] + e[1] * sum[1][x] + e[2] * sum[2][x] + e[3] * sum[3][x];
            y[N / 2 + k][x] = o[0] * diff[0][x] + o[1] * diff[1][x] + o[2] * diff[2][x] + o[3] * diff[3][x];
        }
    }
    for (int x = 0; x < CHUNK; x++)
        for (int k = 0; k < N; k++)
            dct[x][k] = y[k][x];
}

/* Gradients and marks of CHUNK columns; reads two pixels more. */
static void look(float *restrict down, float *restrict along, int *restrict marks, const float *restrict src,
                 size_t row)
{
    for (int x = 0; x < CHUNK; x++) {
        float sum_down = 0, sum_along = 0;
        int sum = 0;

        for (int i = 0; i < N; i++) {
            float v = src[(size_t)i * row + (size_t)x], off = fabsf(v - HIDDEN);
            float d = src[(size_t)i * row + (size_t)x + 6] - v;

            sum_along += d * d;
            sum += (fabsf(off - 0.5f) < END ? 1 : 0) + (off == 0 ? HIDDEN_ONE : 0);
            if (i < N - 2) {
                d = src[(size_t)(i + 2) * row + (size_t)x] - v;
                sum_down += d * d;
            }
        }
        down[x] = sum_down;
        along[x] = sum_along;
        marks[x] = sum;
    }
}

/* Adds the squares of a patch's coefficients; its columns lie three apart. */
static void add_squares(float s[N * N], float (*dct)[N], const basis *b)
{
    float sum[N / 2][N], diff[N / 2][N];

    for (int j = 0; j < N / 2; j++)
        for (int k = 0; k < N; k++) {
            sum[j][k] = dct[3 * j][k] + dct[3 * (N - 1 - j)][k];
            diff[j][k] = dct[3 * j][k] - dct[3 * (N - 1 - j)][k];
        }
    for (int m = 0; m < N / 2; m++) {
        const float *e = b->even[m], *o = b->odd[m];

        for (int k = 0; k < N; k++) {
            float y = e[0] * sum[0][k] + e[1] * sum[1][k] + e[2] * sum[2][k] + e[3] * sum[3][k];
            float z = o[0] * diff[0][k] + o[1] * diff[1][k] + o[2] * diff[2][k] + o[3] * diff[3][k];

            s[m * N + k] += y * y;
            s[(N / 2 + m) * N + k] += z * z;
        }
    }
}

static int bin_of(double texture)
{
    /* 2^(i / OCTAVE - 1) */
    static const double step[OCTAVE - 1] = { 0.5612310241546865, 0.6299605249474366, 0.7071067811865476,
                                             0.7937005259840998, 0.8908987181403393 };
    int e, bin;
    double m;

    if (!(texture > 0x1p-24))
        return 0;
    if (texture >= 0x1p8)
        return BINS - 1;
    m = frexp(texture, &e);
    bin = (e - 1 + 24) * OCTAVE;
    for (int i = 0; i < OCTAVE - 1; i++)
        bin += m >= step[i];
    return bin;
}

/* The patch of one channel whose first column this is. */
static void add_patch(part *s, const columns *c, size_t at, const basis *b)
{
    float texture = 0;
    int marks = 0, bin;

    for (size_t j = 0; j < N; j++) {
        texture += c->down[at + 3 * j] + (j < N - 2 ? c->along[at + 3 * j] : 0);
        marks += c->marks[at + 3 * j];
    }
    texture /= 4;
    if (marks == N * N * HIDDEN_ONE || !isfinite(texture))
        return;
    if (marks % HIDDEN_ONE > N * N / 20) {
        bin = CLIPPED;
    } else if (texture <= 0) {
        s->flat++;
        return;
    } else {
        bin = bin_of((double)texture);
    }
    s->count[bin]++;
    add_squares(s->sum[bin], c->dct + at, b);
}

/* ---- all patches -------------------------------------------------------------------------------------------- */

/* The mean of each coefficient in the bins below `bins`; returns the number of patches. */
static int average(double mean[N * N], const spectrum *s, int bins)
{
    int n = 0;

    memset(mean, 0, sizeof(double[N * N]));
    for (int i = 0; i < bins; i++) {
        if (!s->count[i])
            continue;
        n += s->count[i];
        for (int k = 0; k < N * N; k++)
            mean[k] += s->sum[i][k];
    }
    for (int k = 0; k < N * N && n; k++)
        mean[k] /= n;
    return n;
}

/* The smallest mean of a coefficient other than the first, in the bins below `bins`; *n of patches. */
static double smallest(const spectrum *s, int bins, int *n)
{
    double mean[N * N], least = INFINITY;

    *n = average(mean, s, bins);
    for (int k = 1; k < N * N; k++)
        least = fmin(least, mean[k]);
    return least;
}

/* The deviation, in the picture's own units; -1: there is too little to tell. */
static double deviation(spectrum *s)
{
    int n, chosen = BINS;
    double v = smallest(s, BINS, &n), found;

    if (s->flat > FLAT_SHARE * (n + s->flat))
        return 0;
    if (n < PATCHES_MIN && s->count[CLIPPED] > n) { /* nearly all is clipped: better than nothing */
        for (int k = 0; k < N * N; k++)
            s->sum[0][k] += s->sum[CLIPPED][k];
        s->count[0] += s->count[CLIPPED];
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

/* The bins, from the first one, that hold n patches. */
static int bins_with(const spectrum *s, double n)
{
    int bins = 0;

    for (int seen = 0; seen < n && bins < BINS; bins++)
        seen += s->count[bins];
    return bins;
}

typedef struct coarse {  /* of one channel, or sums of these */
    double middle, high; /* mean squares */
    double octaves;
} coarse;

/* Of the k-th coefficient in the order of add_squares, in one direction. */
static int frequency(int k)
{
    return k < N / 2 ? 2 * k : 2 * k - N + 1;
}

static coarse look_for_coarse(const spectrum *s)
{
    double mean[N * N];
    coarse c = { 0 };
    int n = 0, n_middle = 0, n_high = 0;

    for (int i = 0; i < BINS; i++)
        n += s->count[i];
    average(mean, s, bins_with(s, fmax(n * SMOOTH, PATCHES_MIN)));
    for (int k = 0; k < N * N; k++) {
        int f = frequency(k / N) + frequency(k % N);

        if (f >= 3 && f <= 6)
            c.middle += mean[k], n_middle++;
        else if (f >= 8)
            c.high += mean[k], n_high++;
    }
    c.middle /= n_middle;
    c.high /= n_high;
    c.octaves = (double)(bins_with(s, n * MANY) - bins_with(s, n * SMOOTHEST)) / OCTAVE;
    return c;
}

/* All channels; what makes noise coarse is common to them. */
static void conclude(float sigma[3], spectrum s[3])
{
    double fine[3], factor, sure;
    coarse c[3] = { 0 }, sum = { 0 };
    int n = 0;

    for (int i = 0; i < 3; i++) {
        fine[i] = deviation(&s[i]);
        if (!(fine[i] > 0))
            continue;
        c[i] = look_for_coarse(&s[i]);
        sum = (coarse){ sum.middle + c[i].middle, sum.high + c[i].high, sum.octaves + c[i].octaves };
        n++;
    }
    factor = fmin(STEEP * sqrt(sum.middle / sum.high) - BELOW, COARSE);
    sure = n ? fmax(0, fmin((UNLIKE - sum.octaves / n) / (UNLIKE - ALIKE), 1)) : 0;
    for (int i = 0; i < 3; i++) {
        double v = fmax(fine[i], fine[i] + sure * (factor * sqrt(c[i].middle) - fine[i]));

        sigma[i] = v > 0 ? fminf((float)v * 255, 255) : 0;
    }
}

/* ---- bands -------------------------------------------------------------------------------------------------- */

typedef struct slot { /* all that one thread needs for one band */
    float *room;      /* for a band */
    const float *band;
    int h;
    columns columns;
    part of[3];
} slot;

typedef struct work {
    int w, step_x;
    basis basis;
    slot *slot[SLOTS];
} work;

static void slot_free(slot *s)
{
    if (!s)
        return;
    free(s->room);
    free(s->columns.dct);
    free(s->columns.down);
    free(s->columns.along);
    free(s->columns.marks);
    free(s);
}

/* More than there are columns: loops look beyond the last one. */
static slot *slot_new(int w)
{
    size_t n = (size_t)w * 3;
    slot *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->room = calloc(n * BAND + 2 * CHUNK, sizeof *s->room);
    s->columns = (columns){ calloc(n + CHUNK, sizeof *s->columns.dct), calloc(n + CHUNK, sizeof(float)),
                            calloc(n + CHUNK, sizeof(float)), calloc(n + CHUNK, sizeof(int)) };
    if (s->room && s->columns.dct && s->columns.down && s->columns.along && s->columns.marks)
        return s;
    slot_free(s);
    return NULL;
}

static void add_band(void *cookie, int item, int worker)
{
    const work *job = cookie;
    slot *s = job->slot[item];
    const columns *c = &s->columns;
    const size_t n = (size_t)job->w * 3;
    const size_t apart = job->step_x > N ? (size_t)job->step_x * 3 : CHUNK; /* no patch needs what lies between */

    (void)worker;
    for (int y = 0; y < BAND_STEP && y + N <= s->h; y += STEP) {
        const float *row = s->band + (size_t)y * n;

        for (size_t x = 0; x < n; x += apart) {
            transform(c->dct + x, row + x, n, &job->basis);
            look(c->down + x, c->along + x, c->marks + x, row + x, n);
        }
        for (int x = 0; x + N <= job->w; x += job->step_x)
            for (int i = 0; i < 3; i++)
                add_patch(&s->of[i], c, (size_t)(x * 3 + i), &job->basis);
    }
}

/* Moves a band's sums to those of all. */
static void collect(spectrum *all, part *p)
{
    for (int i = 0; i <= BINS; i++) {
        if (!p->count[i])
            continue;
        for (int k = 0; k < N * N; k++)
            all->sum[i][k] += (double)p->sum[i][k];
        all->count[i] += p->count[i];
        memset(p->sum[i], 0, sizeof p->sum[i]);
        p->count[i] = 0;
    }
    all->flat += p->flat;
    p->flat = 0;
}

/* The band of rows from y on.  An array holds it, with another row behind it, or it is copied: see slot_new. */
static bool read_band(slot *s, const zn_source *in, int y)
{
    const float *const all = zn_memory_of(in);

    s->h = in->h - y < BAND ? in->h - y : BAND;
    s->band = s->room;
    if (!all || y + s->h == in->h)
        return in->read(in->cookie, (zn_rect){ 0, y, in->w, s->h }, s->room);
    s->band = all + (size_t)y * (size_t)in->w * 3;
    return true;
}

/* All bands, `step` rows apart. */
static zn_status add_bands(spectrum s[3], work *job, int n_slots, const zn_source *in, int step, zn_pool *pool,
                           zn_error *err)
{
    for (int y = 0; y + N <= in->h;) {
        int n = 0;

        for (; n < n_slots && y + N <= in->h; n++, y += step) {
            if (!read_band(job->slot[n], in, y))
                return zn_fail(err, ZN_E_FILE, "the picture could not be read");
        }
        if (pool)
            zn_pool_run(pool, add_band, job, n);
        else
            add_band(job, 0, 0);
        for (int i = 0; i < n * 3; i++)
            collect(&s[i % 3], &job->slot[i / 3]->of[i % 3]);
    }
    return ZN_OK;
}

/* Where bands and patches lie: rows between bands, columns between patches. */
static int choose_steps(int *step_x, int w, int h)
{
    int64_t bands = SAMPLE / ((int64_t)w * BAND);
    int step;

    bands = bands < BANDS_MIN ? BANDS_MIN : bands;
    step = (int)((h - N) / bands + 1);
    step = step < BAND_STEP ? BAND_STEP : step;
    bands = (h - N) / step + 1;
    *step_x = (int)(bands * (BAND_STEP / STEP) * w / PATCHES) + 1;
    *step_x = *step_x < 3 ? 3 : *step_x;
    return step;
}

zn_status zn_noise_measure(float sigma[3], const zn_source *in, zn_pool *pool, zn_error *err)
{
    int step, n_slots = pool ? zn_pool_size(pool) : 1;
    spectrum *s;
    work job = { .w = in->w };
    zn_status status;
    bool got;

    sigma[0] = sigma[1] = sigma[2] = 0;
    if (in->c < 3 || in->w < SIDE_MIN || in->h < SIDE_MIN)
        return ZN_OK; /* too small to tell: no noise */
    n_slots = n_slots < SLOTS ? n_slots : SLOTS;
    step = choose_steps(&job.step_x, in->w, in->h);
    basis_init(&job.basis);
    s = calloc(3, sizeof *s);
    got = s;
    for (int i = 0; i < n_slots; i++)
        got = (job.slot[i] = slot_new(in->w)) && got;
    status = got ? add_bands(s, &job, n_slots, in, step, pool, err)
                 : zn_fail(err, ZN_E_MEMORY, "out of memory while estimating the noise");
    if (!status)
        conclude(sigma, s);
    for (int i = 0; i < n_slots; i++)
        slot_free(job.slot[i]);
    free(s);
    return status;
}

zn_status zn_noise_estimate(float sigma[3], const zn_source *in, zn_error *err)
{
    return zn_noise_measure(sigma, in, NULL, err);
}

zn_status zn_noise_complete(float sigma[3], float scale, const zn_noise_table *known, const zn_source *in,
                            zn_pool *pool, zn_error *err)
{
    if (sigma[0] <= 0) {
        zn_status s = ZN_OK;

        if (known)
            memcpy(sigma, known->median, 3 * sizeof *sigma);
        else
            s = zn_noise_measure(sigma, in, pool, err);
        for (int i = 0; i < 3; i++)
            sigma[i] *= scale;
        return s;
    }
    for (int i = 1; i < 3; i++)
        if (sigma[i] <= 0)
            sigma[i] = sigma[0];
    return ZN_OK;
}
