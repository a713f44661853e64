/* SPDX-License-Identifier: MIT */
/* zenith_taesd.c - the autoencoders of the first Zenith document: zenith-taesd, its "lite" form zenith-lite-doc (zenith-lite
 * is a network of ours), zenith-spectral, and vanilla-taesd, the baseline that it compares them with.  docs/zenith.md explains them.
 *
 *   picture ── step 1 ── block 1 ── step 2 ── block 2 ── step 3 ── block 3 ── step 4 ── latent (1/8)
 *
 * and the same the other way round in the decoder.  What a step and a block are:
 *
 *              encoder's steps                             decoder's steps                            block
 *   zenith     conv 3x3, conv 3x3 stride 2 (thrice)        conv 1x1, nearest x2 + conv 3x3 (thrice)   mix
 *   vanilla    the same                                    the same                          two conv 3x3
 *   lite       conv 1x1, unshuffle 2 + conv 1x1 (thrice)   conv 1x1 + shuffle 2 (thrice), conv 1x1    mix
 *   spectral   lite with spectral layers for conv 1x1                                                 mix
 *
 *   mix:  y = x + expand(columns(rows(compress(x))))   compress, expand: 1x1 in 4 groups, c > c/4 > c
 *         rows: along each row, in every channel,  H diag(gate_h) H / W;   columns: the same with gate_v, H
 *   spectral layer (P elements):  four times { permute, scale, H }, then the first outputs + bias
 * H is the Walsh-Hadamard transform.  There is no activation and no normalisation: these are affine maps.
 *
 * What is computed: an unshuffle and the 1x1 convolution behind it are one 2x2 convolution of stride 2; a
 * spectral layer with few inputs or outputs is computed as its matrix; lite and spectral, where they are
 * affine, are folded (zenith_fold.c) unless fold=0.
 *
 * Extensions, by what the file holds: metadata "activation" (relu, silu, gelu) after every step but the last
 * and inside the blocks; blockN.norm.* (layer norm before a block); a gate [n][c] per channel; metadata
 * "window" (plain or shifted): the transforms run in windows of the gates' lengths, so that any picture fits,
 * and in every other block of "shifted" they begin half a window earlier. */
#include "mixing.h"
#include "zenith_fold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = ZN_FOLD, GROUPS = ZN_MIX_GROUPS, DEPTH = 4, MAX_C = 4096 };

/* What opening a file may cost beside reading it, in multiply-adds or additions: matrices that are multiplied (fold), and one that
 * is made of a spectral layer.  The networks of the document take less at 4 times their width, which is the most that MAX_C
 * allows; what takes more runs layer by layer. */
static const double MOST_FOLDING = 4e9, MOST_MATRIX = 1e9;

typedef enum family { ZENITH, LITE, SPECTRAL, VANILLA } family;

typedef struct step {
    zn_conv conv;     /* includes the unshuffle before it, but for an outline */
    zn_fwht spectral; /* n 0: there is only the convolution */
    int cin, cout;    /* with the shuffles' factor of 4 where they belong to the convolution */
    int p;            /* of a spectral layer: what it transforms, a power of two */
} step;

typedef struct block {
    zn_conv in, out; /* compress and expand, or the two convolutions */
    zn_fwht rows, cols;
    bool normed;
    zn_norm norm;
} block;

typedef struct zenith {
    family kind;
    bool decoder, windows, folds;
    zn_act act;
    zn_fold fold;
    step step[STEPS];
    block block[STEPS - 1];
} zenith;

static const char *const step_name[2][STEPS] = { { "enc.stem", "enc.down1", "enc.down2", "enc.out" },
                                                 { "dec.in", "dec.up1", "dec.up2", "dec.out" } };

/* ---- what the shuffles and strides of a step do ------------------------------------------------------- */

static bool shuffles(family kind)
{
    return kind == LITE || kind == SPECTRAL;
}

/* Channels of the step's linear map for an input of `width` channels; channels of the step for outputs of `width`. */
static int gathered(family kind, bool decoder, int i, int width)
{
    return shuffles(kind) && !decoder && i > 0 ? 4 * width : width;
}

static int spread(family kind, bool decoder, int i, int width)
{
    return shuffles(kind) && decoder && i < STEPS - 1 ? width / 4 : width;
}

/* ---- bind ---------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, family kind, bool decoder, char *what, size_t size)
{
    static const char *const name[] = { "zenith-taesd", "zenith-lite-doc", "zenith-spectral", "vanilla-taesd" };
    char key[64];
    const zn_entry *e;
    bool mixes, found;

    snprintf(key, sizeof key, "%s.block1.compress.weight", decoder ? "dec" : "enc");
    mixes = zn_weights_get(w, key) != NULL;
    snprintf(key, sizeof key, "%s.block1.conv1.weight", decoder ? "dec" : "enc");
    found = mixes || zn_weights_get(w, key);
    if (!found || (kind == VANILLA) == mixes)
        return false;
    snprintf(key, sizeof key, "%s.weight", step_name[decoder][decoder ? STEPS - 1 : 0]);
    e = zn_weights_get(w, key);
    if (kind != (!mixes ? VANILLA : !e ? SPECTRAL : e->n_dims == 4 && e->shape[2] == 3 ? ZENITH : LITE))
        return false;
    snprintf(what, size, "%s %s", name[kind], decoder ? "decoder" : "encoder");
    return true;
}

/* A linear map of cin channels, or of the cin/4 channels of 2x2 pixels: weight[o][c * 4 + u * 2 + v], as an
 * unshuffle orders them, is the weight[o][c][u][v] of a convolution. */
static zn_conv linear(const step *s, bool gathers)
{
    zn_conv conv = zn_conv_same(1, s->cin, s->cout);

    if (gathers) {
        conv.kh = conv.kw = conv.stride = 2;
        conv.cin = s->cin / 4;
    }
    return conv;
}

/* The permutations of a file without any: j -> an odd multiple of j, plus one for each round. */
static void read_perm(zn_binder *b, int32_t *perm, int p, const char *name)
{
    float *file = NULL;

    if (zn_bind_has(b, "%s.perm", name)) {
        file = zn_bind_read(b, (int[4]){ DEPTH, p }, "%s.perm", name);
        b->parameters -= file ? DEPTH * p : 0; /* not learnt */
    }
    for (int i = 0; i < DEPTH * p && !b->status; i++) {
        int round = i / p, j = i % p;

        if (file && !(file[i] >= 0 && file[i] < (float)p))
            zn_bind_fail(b, "tensor '%s.perm' holds a value that is not from 0 to %d", name, p - 1);
        else
            perm[i] = file ? (int32_t)file[i] : (int32_t)((j * (2 * (round * p / 3 / 2) + 1) + round) % p);
    }
    free(file);
}

/* The matrix [cout][cin] of a spectral layer of p elements: its columns are the images of the unit vectors.  Zeros for a bind
 * that counts. */
static float *matrix_of(const zn_binder *b, int p, int cin, int cout, const float *scale, const int32_t *perm)
{
    float *matrix = calloc((size_t)cin * (size_t)cout, sizeof *matrix);
    double *v = malloc(2 * (size_t)p * sizeof *v), *u = v + p;

    for (int in = 0; in < cin && matrix && v && !b->counting; in++) {
        for (int j = 0; j < p; j++)
            v[j] = j == in;
        for (int round = 0; round < DEPTH; round++) {
            for (int j = 0; j < p; j++)
                u[j] = (double)scale[round * p + j] * v[perm[round * p + j]];
            for (int len = 1; len < p; len *= 2)
                for (int j = 0; j < p; j++)
                    if (!(j & len)) {
                        double first = u[j], second = u[j | len];

                        u[j] = first + second;
                        u[j | len] = first - second;
                    }
            memcpy(v, u, (size_t)p * sizeof *v);
        }
        for (int out = 0; out < cout; out++)
            matrix[(size_t)out * (size_t)cin + (size_t)in] = (float)v[out];
    }
    if (!v) {
        free(matrix);
        matrix = NULL;
    }
    free(v);
    return matrix;
}

/* Of the transforms of a pixel. */
static int additions(int p)
{
    int n = 0;

    for (int len = 1; len < p; len *= 2)
        n += DEPTH * p;
    return n;
}

/* Is the matrix less work than the transforms, and little enough to make?  An addition is half a multiply-add. */
static bool better_as_matrix(int p, int cin, int cout)
{
    return cin * cout < additions(p) / 2 && (double)cin * additions(p) <= MOST_MATRIX;
}

static void bind_spectral(zn_binder *b, step *s, bool gathers, const char *name)
{
    int p = zn_bind_dim(b, 1, "%s.scale", name);
    float *scale, *bias, *matrix = NULL;
    int32_t *perm;

    if (!b->w)
        for (p = 2; p < s->cin || p < s->cout;)
            p *= 2;
    if (p < 2 || p > ZN_FWHT_MAX || p & (p - 1) || p < s->cin || p < s->cout) {
        zn_bind_fail(b, "tensor '%s.scale' is not of 4 x a power of two from %d", name,
                     s->cin > s->cout ? s->cin : s->cout);
        return;
    }
    s->p = p;
    zn_bind_init(b, ZN_INIT_NORMAL, 1 / sqrt((double)p));
    scale = zn_bind_read(b, (int[4]){ DEPTH, p }, "%s.scale", name);
    bias = zn_bind_read(b, (int[4]){ s->cout }, "%s.bias", name);
    perm = malloc((size_t)(DEPTH * p) * sizeof *perm);
    if (!perm)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    if (!b->status)
        read_perm(b, perm, p, name);
    if (!b->status && !b->outline && better_as_matrix(p, s->cin, s->cout)) {
        matrix = matrix_of(b, p, s->cin, s->cout, scale, perm);
        if (!matrix)
            b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
        zn_bind_pack(b, &s->conv, linear(s, gathers), matrix, bias);
    } else {
        s->spectral = (zn_fwht){ .axis = ZN_ALONG_C, .n = p, .rounds = DEPTH };
        s->spectral.perm = zn_bind_device(b, perm, (size_t)(DEPTH * p) * sizeof *perm);
        s->spectral.pre = zn_bind_made(b, scale, (size_t)(DEPTH * p) * sizeof *scale, "%s.scale", name);
        s->spectral.bias = zn_bind_made(b, bias, (size_t)s->cout * sizeof *bias, "%s.bias", name);
    }
    free(scale);
    free(bias);
    free(perm);
    free(matrix);
}

/* The 1x1 convolution of a step of lite. */
static void bind_linear(zn_binder *b, step *s, bool gathers, const char *name)
{
    float *weight, *bias;

    if (!gathers || b->outline) {
        zn_bind_conv(b, &s->conv, linear(s, false), "%s", name);
        return;
    }
    weight = zn_bind_read(b, (int[4]){ s->cout, s->cin, 1, 1 }, "%s.weight", name);
    bias = zn_bind_read(b, (int[4]){ s->cout }, "%s.bias", name);
    zn_bind_pack(b, &s->conv, linear(s, true), weight, bias);
    free(weight);
    free(bias);
}

/* Channels behind step i without a file; base 0: that of the document. */
static int usual_width(bool decoder, int i, int base)
{
    static const int times[2][STEPS] = { { 1, 2, 4, 0 }, { 4, 2, 1, 0 } };

    return times[decoder][i] ? times[decoder][i] * (base ? base : 64) : decoder ? 3 : 4;
}

static void bind_step(zn_binder *b, zenith *m, int i, int width)
{
    step *s = &m->step[i];
    const char *name = step_name[m->decoder][i];
    zn_conv conv;

    s->cin = gathered(m->kind, m->decoder, i, width);
    s->cout = zn_bind_dim(b, 0, m->kind == SPECTRAL ? "%s.bias" : "%s.weight", name);
    if (!b->w)
        s->cout = usual_width(m->decoder, i, b->base) * (spread(m->kind, m->decoder, i, 4) == 1 ? 4 : 1);
    if (s->cin < 1 || s->cout < 1 || s->cin > MAX_C || s->cout > MAX_C ||
        (spread(m->kind, m->decoder, i, 4) == 1 && s->cout % 4)) {
        zn_bind_fail(b, "tensors '%s.*' are missing or of a shape that makes no sense", name);
        return;
    }
    if (m->kind == SPECTRAL) {
        bind_spectral(b, s, s->cin != width, name);
        return;
    }
    if (m->kind == LITE) {
        bind_linear(b, s, s->cin != width, name);
        return;
    }
    conv = zn_conv_same(m->decoder && !i ? 1 : 3, s->cin, s->cout);
    if (i > 0) {
        conv.stride = m->decoder ? 1 : 2;
        conv.up2 = m->decoder;
    }
    zn_bind_conv(b, &s->conv, conv, "%s", name);
}

void zn_bind_lines(zn_binder *b, zn_fwht *lines, zn_axis axis, int width, int side, bool half, const char *name)
{
    int n = b->w ? zn_bind_dim(b, 0, "%s", name) : side, per = zn_bind_dim(b, 1, "%s", name);
    size_t len = (size_t)n * (size_t)(per ? per : 1);
    float *gate;

    if (n < 2 || n > ZN_FWHT_MAX || n & (n - 1) || (per && per != width)) {
        zn_bind_fail(b, "gate '%s' is missing or not of a length that is a power of two up to %d", name, ZN_FWHT_MAX);
        return;
    }
    *lines = (zn_fwht){ .axis = axis, .n = n, .shift = half ? n / 2 : 0, .per_channel = per > 0 };
    zn_bind_init(b, ZN_INIT_CONSTANT, 1);
    gate = zn_bind_read(b, (int[4]){ n, per }, "%s", name);
    for (size_t i = 0; gate && i < len; i++)
        gate[i] /= (float)n;
    lines->gate = zn_bind_made(b, gate, len * sizeof *gate, "%s", name);
    free(gate);
}

/* c, side: channels of the block's input; its height and width without a file. */
static void bind_block(zn_binder *b, zenith *m, int i, int width, int side)
{
    block *k = &m->block[i];
    const char *window = zn_bind_meta(b, "window");
    bool half = window && !strcmp(window, "shifted") && i % 2;
    char name[32], gate[64];
    zn_conv in = zn_conv_same(1, width, width / GROUPS), out = zn_conv_same(1, width / GROUPS, width);

    snprintf(name, sizeof name, "%s.block%d", m->decoder ? "dec" : "enc", i + 1);
    k->normed = zn_bind_has(b, "%s.norm.weight", name);
    if (k->normed)
        zn_bind_norm(b, &k->norm, (zn_norm){ .kind = ZN_LAYER_NORM, .c = width, .eps = 1e-6f }, "%s.norm", name);
    if (m->kind == VANILLA) {
        zn_bind_conv(b, &k->in, zn_conv_same(3, width, width), "%s.conv1", name);
        zn_bind_conv(b, &k->out, zn_conv_same(3, width, width), "%s.conv2", name);
        return;
    }
    if (width % (GROUPS * GROUPS)) {
        zn_bind_fail(b, "the width %d of '%s' is not a multiple of %d", width, name, GROUPS * GROUPS);
        return;
    }
    in.groups = out.groups = GROUPS;
    zn_bind_init(b, ZN_INIT_NORMAL, 0.05);
    zn_bind_conv(b, &k->in, in, "%s.compress", name);
    zn_bind_init(b, ZN_INIT_NORMAL, 0.05);
    zn_bind_conv(b, &k->out, out, "%s.expand", name);
    snprintf(gate, sizeof gate, "%s.gate_h", name);
    zn_bind_lines(b, &k->rows, ZN_ALONG_W, width / GROUPS, side, half, gate);
    snprintf(gate, sizeof gate, "%s.gate_v", name);
    zn_bind_lines(b, &k->cols, ZN_ALONG_H, width / GROUPS, side, half, gate);
}

/* The matrix [cout][cin] of a step of lite or spectral. */
static float *read_matrix(zn_binder *b, const zenith *m, int i)
{
    const step *s = &m->step[i];
    const char *name = step_name[m->decoder][i];
    const int p = s->p;
    float *scale, *matrix = NULL;
    int32_t *perm;

    if (m->kind == LITE)
        return zn_bind_read(b, (int[4]){ s->cout, s->cin, 1, 1 }, "%s.weight", name);
    scale = zn_bind_read(b, (int[4]){ DEPTH, p }, "%s.scale", name);
    perm = malloc((size_t)(DEPTH * p) * sizeof *perm);
    if (perm && !b->status)
        read_perm(b, perm, p, name);
    if (perm && !b->status)
        matrix = matrix_of(b, p, s->cin, s->cout, scale, perm);
    if (!matrix && !b->status)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    free(scale);
    free(perm);
    return matrix;
}

static void fold_block(zn_binder *b, zn_folder *f, const zenith *m, int i)
{
    int width = m->block[i].in.cin, inner = width / GROUPS;
    char name[32];
    float *in, *in_bias, *out, *out_bias;

    snprintf(name, sizeof name, "%s.block%d", m->decoder ? "dec" : "enc", i + 1);
    in = zn_bind_read(b, (int[4]){ inner, width / GROUPS, 1, 1 }, "%s.compress.weight", name);
    in_bias = zn_bind_read(b, (int[4]){ inner }, "%s.compress.bias", name);
    out = zn_bind_read(b, (int[4]){ width, inner / GROUPS, 1, 1 }, "%s.expand.weight", name);
    out_bias = zn_bind_read(b, (int[4]){ width }, "%s.expand.bias", name);
    zn_fold_block(f, in, in_bias, out, out_bias, inner);
    free(in);
    free(in_bias);
    free(out);
    free(out_bias);
}

/* Whether step i gathers 2x2 pixels, or spreads to them. */
static bool by_four(const zenith *m, int i)
{
    return gathered(m->kind, m->decoder, i, 1) == 4 || spread(m->kind, m->decoder, i, 4) == 1;
}

/* The work of bind_fold: a step or a block multiplies its matrix with those of all sources so far. */
static double folding(const zenith *m, int first)
{
    double work = 0, elements = first; /* of a channel: those of its sources at all positions */

    for (int i = 0; i < STEPS; i++) {
        const step *s = &m->step[i];
        const int width = spread(m->kind, m->decoder, i, s->cout), inner = width / GROUPS;

        work += (double)s->cin * s->cout * elements + (m->kind == SPECTRAL ? (double)s->cin * additions(s->p) : 0);
        elements *= by_four(m, i) ? 4 : 1;
        if (i < STEPS - 1) {
            work += (double)inner * width * elements;
            elements += inner;
        }
    }
    return work;
}

/* Reads the weights again, to multiply them. */
static void bind_fold(zn_binder *b, zenith *m, int width)
{
    zn_folder *f = zn_fold_begin(b, &m->fold, m->decoder, width);
    int64_t parameters = b->parameters;

    m->folds = true;
    for (int i = 0; i < STEPS && !b->status; i++) {
        const step *s = &m->step[i];
        float *matrix = read_matrix(b, m, i);
        float *bias = zn_bind_read(b, (int[4]){ s->cout }, "%s.bias", step_name[m->decoder][i]);

        zn_fold_step(f, matrix, bias, s->cout, by_four(m, i));
        if (i < STEPS - 1)
            fold_block(b, f, m, i);
        free(matrix);
        free(bias);
    }
    zn_fold_end(&f);
    b->parameters = parameters;
}

static void bind_activation(zn_binder *b, zenith *m)
{
    const char *name = zn_bind_meta(b, "activation");

    m->act = name ? zn_act_named(name) : ZN_NONE;
    if (name && m->act == ZN_NONE)
        zn_bind_fail(b, "the activation '%.40s' is not one of relu, silu, gelu", name);
}

static void bind(zn_binder *b, zenith *m, family kind, bool decoder)
{
    int width, first, side = b->size ? b->size : decoder ? 64 : 512;
    bool affine;

    m->kind = kind;
    m->decoder = decoder;
    if (b->w && !recognise(b->w, kind, decoder, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of this autoencoder");
        return;
    }
    bind_activation(b, m);
    m->windows = !b->w || zn_bind_meta(b, "window");
    if (!b->w && !decoder && (side < 16 || side & (side - 1)))
        zn_bind_fail(b, "%d pixels are not a power of two from 16", side);
    /* A picture has 3 channels; how many a latent has, the spectral decoder's file cannot say: 4. */
    width = first = !decoder ? 3 : kind == SPECTRAL || !b->w ? 4 : zn_bind_dim(b, 1, "dec.in.weight");
    for (int i = 0; i < STEPS && !b->status; i++) {
        bind_step(b, m, i, width);
        width = spread(kind, decoder, i, m->step[i].cout);
        if (decoder ? i || shuffles(kind) : i > 0)
            side = decoder ? 2 * side : side / 2;
        if (i < STEPS - 1 && !b->status)
            bind_block(b, m, i, width, side);
    }
    affine = m->act == ZN_NONE && !m->block[0].normed && !m->block[1].normed && !m->block[2].normed;
    if (!b->status && affine && shuffles(kind) && !b->outline && folding(m, first) <= MOST_FOLDING)
        bind_fold(b, m, first); /* it reads the same tensors again */
    b->geometry = (zn_geometry){ .in_c = first,
                                 .out_c = width,
                                 .shrink = decoder ? 1 : 8,
                                 .grow = decoder ? 8 : 1,
                                 .multiple = decoder ? 1 : 8,
                                 .padded = !decoder,
                                 .halo = -1 };
    if (!m->windows && kind != VANILLA) { /* the gates of block 1 say which size */
        b->geometry.only_w = m->block[0].rows.n / (decoder && shuffles(kind) ? 2 : 1);
        b->geometry.only_h = m->block[0].cols.n / (decoder && shuffles(kind) ? 2 : 1);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* y = step(x); where it shuffles, through a temporary of the same size. */
static zn_tensor run_step(zn_ctx *c, const zenith *m, int i, zn_tensor x, const zn_tensor *out)
{
    const step *s = &m->step[i];
    zn_tail tail = { .pre = i < STEPS - 1 ? m->act : ZN_NONE };
    bool spreads = spread(m->kind, m->decoder, i, 4) == 1, gathers = (s->spectral.n ? s->cin : s->conv.cin) != x.c;
    int stride = gathers ? 2 : s->spectral.n ? 1 : s->conv.stride, grow = s->conv.up2 ? 2 : 1;
    int h = (x.h * grow + stride - 1) / stride, w = (x.w * grow + stride - 1) / stride;
    int cout = spread(m->kind, m->decoder, i, s->cout);
    zn_tensor y = out ? *out : zn_new(c, 1, spreads ? 2 * h : h, spreads ? 2 * w : w, cout);
    size_t mark = zn_mark(c->arena);
    zn_tensor to = spreads ? zn_new(c, 1, h, w, s->cout) : y;

    if (gathers) {
        zn_tensor in = zn_new(c, 1, h, w, s->cin);

        zn_unshuffle(c, in, x, 2);
        x = in;
    }
    if (s->spectral.n) {
        zn_fwht transform = s->spectral;

        transform.act = tail.pre;
        zn_transform(c, to, x, &transform);
    } else {
        zn_conv2d(c, to, x, &s->conv, tail);
    }
    if (spreads)
        zn_shuffle(c, y, to, 2, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    return y;
}

/* x = columns(rows(x)) */
static void mix(zn_ctx *c, const zenith *m, const block *k, zn_tensor x)
{
    if (!m->windows && (k->rows.n != x.w || k->cols.n != x.h)) {
        zn_ctx_fail(c, ZN_E_USAGE,
                    "these weights have gates for %dx%d where this picture gives %dx%d: the exact form takes "
                    "pictures of one size, a power of two; weights with windows take any",
                    k->rows.n, k->cols.n, x.w, x.h);
        return;
    }
    zn_transform(c, x, x, &k->rows);
    zn_transform(c, x, x, &k->cols);
}

/* x = block(x) */
static void run_block(zn_ctx *c, const zenith *m, const block *k, zn_tensor x)
{
    size_t mark = zn_mark(c->arena);
    zn_tensor mid = zn_new(c, 1, x.h, x.w, k->in.cout), in = x;

    if (k->normed) {
        in = zn_new(c, 1, x.h, x.w, x.c);
        zn_normalise(c, in, x, &k->norm, (zn_tail){ 0 });
    }
    if (m->kind == VANILLA) {
        zn_conv2d(c, mid, in, &k->in, (zn_tail){ .pre = m->act });
    } else {
        zn_conv2d(c, mid, in, &k->in, (zn_tail){ 0 });
        mix(c, m, k, mid);
        if (m->act)
            zn_map(c, mid, mid, (zn_tail){ .pre = m->act });
    }
    zn_conv2d(c, x, mid, &k->out, (zn_tail){ .residual = &x });
    zn_reset(c->arena, mark);
}

static void run_folded(zn_ctx *c, const zenith *m, zn_tensor y, zn_tensor x)
{
    zn_tensor source[STEPS] = { x };

    for (int i = 0; i < STEPS - 1; i++) {
        int h = m->decoder ? x.h << (i + 1) : x.h >> i, w = m->decoder ? x.w << (i + 1) : x.w >> i;

        source[i + 1] = zn_new(c, 1, h, w, m->block[i].in.cout);
        zn_fold_run(c, &m->fold, i, source[i + 1], source);
        mix(c, m, &m->block[i], source[i + 1]);
    }
    zn_fold_run(c, &m->fold, STEPS - 1, y, source);
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const zenith *m = net;
    zn_tensor x = call->in[0];

    if (m->folds && call->set[0] != 0) {
        run_folded(c, m, call->out[0], x);
        return;
    }
    for (int i = 0; i < STEPS && !c->status; i++) {
        x = run_step(c, m, i, x, i == STEPS - 1 ? &call->out[0] : NULL);
        if (i < STEPS - 1)
            run_block(c, m, &m->block[i], x);
    }
}

static const zn_setting settings[] = {
    { "fold", 1, 0, 1, "multiply consecutive linear maps into one, where nothing lies between them; 0: do not" },
    { 0 },
};

/* ---- training ------------------------------------------------------------------------------------------ */

static const zn_training training = { .tasks = ZN_TASK_RESTORE | ZN_TASK_RECONSTRUCT, .variants = true };

/* ---- the eight models ---------------------------------------------------------------------------------- */

#define HALF(name_, half_, kind_, decoder_, stem_, in_, out_, settings_, summary_)                                     \
    static bool recognise_##name_##_##half_(const zn_weights *w, char *what, size_t size)                              \
    {                                                                                                                  \
        return recognise(w, kind_, decoder_, what, size);                                                              \
    }                                                                                                                  \
    static void bind_##name_##_##half_(zn_binder *b, void *net)                                                        \
    {                                                                                                                  \
        bind(b, net, kind_, decoder_);                                                                                 \
    }                                                                                                                  \
    const zn_arch zn_arch_##name_##_##half_ = {                                                                        \
        .info = { .id = stem_ "-" #half_,                                                                              \
                  .summary = summary_,                                                                                 \
                  .in = { in_ },                                                                                       \
                  .out = { out_ },                                                                                     \
                  .weights = stem_,                                                                                    \
                  .settings = settings_ },                                                                             \
        .size = sizeof(zenith),                                                                                        \
        .recognise = recognise_##name_##_##half_,                                                                      \
        .bind = bind_##name_##_##half_,                                                                                \
        .forward = forward,                                                                                            \
        .in_c = decoder_ ? 0 : 3,                                                                                      \
        .out_c = decoder_ ? 3 : 0,                                                                                     \
        .train = &training,                                                                                            \
    }

#define BOTH(name_, kind_, stem_, settings_, what_)                                                                    \
    HALF(name_, encode, kind_, false, stem_, "x", "z", settings_, "picture to latent: " what_);                        \
    HALF(name_, decode, kind_, true, stem_, "z", "x", settings_, "latent to picture: " what_)

BOTH(zenith_taesd, ZENITH, "zenith-taesd", NULL, "3x3 convolutions and spectral mixing");
BOTH(zenith_lite_doc, LITE, "zenith-lite-doc", settings, "1x1 convolutions, shuffles and spectral mixing");
BOTH(zenith_spectral, SPECTRAL, "zenith-spectral", settings, "transforms for all its matrices");
BOTH(vanilla_taesd, VANILLA, "vanilla-taesd", NULL, "what the Zenith document compares with");
