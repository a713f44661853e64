/* SPDX-License-Identifier: MIT */
/* kernels.h - the inner loops of the CPU backend: one table per instruction set.
 *
 * One macro per kernel declares the slot and every variant.  The scalar versions (scalar.c) are the
 * specification; the vector ones are written once, in simd/, over a small layer of vector operations.
 * Rows are n consecutive floats; y may be x or res, never overlap them otherwise.  Kernels use the gain
 * of a tail as it is: the operations have replaced 0 by 1.
 *
 * Limits of error, against exact arithmetic on the same float input: exp and sigmoid 4e-7 relative,
 * silu, gelu and gelu_tanh 1e-6 of max(|x|, tiny), tanh and softclamp 4e-7 absolute.  The self-test
 * holds all of them to 2e-6. */
#ifndef ZN_KERNELS_H
#define ZN_KERNELS_H

#include "../backend.h"
#include "../core/quantise.h"
#include "detect.h"

enum { ZN_MAX_MR = 8, ZN_MAX_NR = 64, ZN_MAX_VL = 16, ZN_NARROW = 4 };

/* Some pixels of a convolution, n output channels, all taps.
 *
 *     y[r][o] = tail(bias[o] + sum x[tap][r][off + c] * w[tap][c][o])      over taps, channels c < k
 *
 * x holds pointers to pixels, [rows / MR][taps][MR], whose last tile repeats pixels to be full; one equal
 * to `zeros` is padding, and gets no offset.  w is packed for n rounded up to whole vectors.  A long sum
 * can be cut in k: `acc` holds partial sums, [rows][n rounded up], with room for whole tiles of MR rows;
 * it is read unless `first`, and written instead of y unless `last`. */
typedef struct zn_product {
    const float *const *x;
    const float *zeros;
    const float *w, *bias;
    float *const *y;         /* [rows] pixels, at channel y_off */
    const float *const *res; /* [rows] likewise; NULL: no residual */
    float *acc;
    const zn_tail *t;
    ptrdiff_t off, y_off;
    size_t w_tap; /* floats from one tap's weights to the next */
    int taps, k, rows, n;
    bool first, last;
} zn_product;

#define ZN_DECL_GEMM(name) void name(const zn_product *g)
typedef ZN_DECL_GEMM(zn_gemm_fn);

/* The same with one weight per tap and channel: y[r][c] = tail(bias[c] + sum x[tap][r][off + c] * w[tap][c])
 * for c < n; k, acc, first and last are not used. */
#define ZN_DECL_DEPTHWISE(name) void name(const zn_product *g)
typedef ZN_DECL_DEPTHWISE(zn_depthwise_fn);

/* Some pixels of a row, 3x3, rows at constant strides (0: a row of zeros), one pixel further left than y:
 *     y[p][c] = tail(w[0][c] + sum x[dy][p + dx][c] * w[1 + 3 dy + dx][c])      over dy, dx < 3, for c < n */
typedef struct zn_depthwise3 {
    float *y;
    const float *x[3], *w, *res; /* res may be NULL */
    size_t y_ld, x_ld[3], w_ld, res_ld;
    const zn_tail *t;
    int pixels, n;
} zn_depthwise3;

#define ZN_DECL_DEPTHWISE3(name) void name(const zn_depthwise3 *g)
typedef ZN_DECL_DEPTHWISE3(zn_depthwise3_fn);

/* gemm for n <= ZN_NARROW outputs: w is [tap][o][k padded with zeros to whole vectors], w_tap apart; zeros
 * are k long; off, y_off, acc, first and last are not used. */
#define ZN_DECL_NARROW(name) void name(const zn_product *g)
typedef ZN_DECL_NARROW(zn_narrow_fn);

/* A panel of weights in a storage type (quantise.h), k running over [channel][tap]: scale is [k / 32][ld] f16, q is
 * [k][ld] elements, i4 [k / 2][ld] bytes.  ld is a multiple of 16. */
typedef struct zn_stored {
    zn_wtype type; /* not f32 */
    int ld;
    const void *q;
    const uint16_t *scale;
} zn_stored;

/* The weight of row k and output o. */
float zn_stored_weight(const zn_stored *w, int k, int o);

/* Expands rows k from .. end-1 of a panel, that is whole channels, from being a multiple of 32:
 *     to[k % taps * tap + (k - from) / taps * width + o] = weight[k][o]      for o < width, whole vectors */
typedef struct zn_expand {
    int from, end, taps, width;
    size_t tap; /* floats */
} zn_expand;

#define ZN_DECL_EXPAND(name) void name(float *to, const zn_stored *w, const zn_expand *part)
typedef ZN_DECL_EXPAND(zn_expand_fn);

/* gemm with stored weights, for few rows and one tap: g->w, zeros, off, acc, first and last are not used. */
#define ZN_DECL_FEW(name) void name(const zn_product *g, const zn_stored *w)
typedef ZN_DECL_FEW(zn_few_fn);

/* Products of integers (integers.c): groups of ZN_W_GROUP inputs, of which four are a quad.  Rows of x are quantised in tiles
 * of `of` rows, ZN_DOT8_TILE or 1: bytes [group][quad][row][4], or [group][pair of quads][row][8] (DOT8_DEPTH), then scales, floats [group][row], then int32 [group][row], which
 * are the sums of a group times -zn_dot8_excess, if the kernels store weights so.  A row takes zn_dot8_row bytes.
 * to_i8 writes row `row` of such a tile from k floats, for weights of a type; the rest of the last group is 0.
 *
 * A panel of weights is `vl` outputs, group after group: scales, f16 [output], then i8 [quad][output][4], or i4
 * [pair of quads][output][4] with the first quad of a pair in the low nibbles; nibbles are two's complement.
 * dot8_excess: weights and nibbles are unsigned, larger by zn_dot8_excess, since x86 multiplies u8 with i8.
 * dot8, `rows` rows of x from a whole tile on and `panels` panels:
 *     y[r][o] = sum over groups i of scale_x[r][i] * scale_w[i][o] * (sum over the group of x[r][k] * w[k][o], exact) */
enum {
    ZN_DOT8_TILE = 4,
    ZN_DOT8_ROWS = 12 /* of a strip */,
    ZN_DOT8_PANELS = 3 /* at a time with one row */,
    ZN_QUADS = ZN_W_GROUP / 4,
    ZN_DOT8_PART = 60, /* groups that are prepared at a time, where a form does that ... */
    ZN_DOT8_ROOM = 192 /* ... and bytes of such a group of a panel */
};

static inline size_t zn_dot8_row(int groups)
{
    return (size_t)groups * (ZN_W_GROUP + sizeof(float) + sizeof(int32_t));
}

static inline size_t zn_dot8_panel(zn_wtype type, int groups, int vl)
{
    return (size_t)groups * (size_t)vl * (sizeof(uint16_t) + zn_wtype_size(type, ZN_W_GROUP));
}

static inline int zn_dot8_excess(zn_wtype type)
{
    return type == ZN_W_I4 ? 8 : 128;
}

/* The tile that row `row` of `rows` is in: its rows. */
static inline int zn_dot8_tile(int row, int rows)
{
    return row / ZN_DOT8_TILE * ZN_DOT8_TILE + ZN_DOT8_TILE <= rows ? ZN_DOT8_TILE : 1;
}

/* Rows of the next call, if so many are left, `most` at most: no tile of 4 remains where two of 8 do. */
static inline int zn_dot8_strip(int left, int most)
{
    return left == most + ZN_DOT8_TILE ? most - ZN_DOT8_TILE : left < most ? left : most;
}

#define ZN_DECL_TO_I8(name) void name(void *tile, int row, int of, const float *x, int k, zn_wtype type)
typedef ZN_DECL_TO_I8(zn_to_i8_fn);

typedef struct zn_dot8 {
    float *y;
    void *room; /* panels * ZN_DOT8_PART * ZN_DOT8_ROOM bytes, for a form that prepares weights */
    const void *x, *w;
    size_t y_ld;
    zn_wtype type; /* i8 or i4 */
    int rows, groups, panels;
} zn_dot8;

#define ZN_DECL_DOT8(name) void name(const zn_dot8 *g)
typedef ZN_DECL_DOT8(zn_dot8_fn);
typedef struct zn_dot8_form {
    zn_dot8_fn *run;
    int rows; /* of the largest call, whole strips: more than one if weights are prepared for them */
} zn_dot8_form;

/* The three kernels of a gated block (gated_strip.c); their rows are pixels at constant strides.  Elements are of the type
 * of their zn_panel_form; strides count elements.
 *
 * panel, some outputs of a 1x1 convolution: with dot[r][o] = w[0][o] + sum x[r][c] * w[1 + c][o], c < k
 *     y[r][o] = dot[r][o], for o < n
 *     res: y[r][o] = res[r][o] + dot[r][o], where y and res are float in every form
 *     gate: y[r][o] = dot[r][o] * dot[r][o + n/2], for o < n/2
 * w has rows of n rounded up to whole vectors, nr at most; k is a multiple of 4, and n/2 of a gate is whole vectors.
 * gate also prefetches the pixels `ahead` (floats), a cache line of each.
 * gate3, a row of a depthwise 3x3: with dot[p][c] = w[0][c] + sum x[dy][p + dx][c] * w[1 + 3 dy + dx][c], dy, dx < 3
 *     y[p][c] = dot[p][c] * dot[p][c + width/2], for c < width/2
 * whose pixels p of x and rows of w are `width` elements, nr or 2 vectors.
 * norm_rows, a layer norm of n channels: y[p] = (x[p] - mean) / sqrt(var + eps), filled up with zeros to whole vectors. */
typedef struct zn_panel {
    void *y;
    const void *x, *w;
    const float *res, *ahead;
    size_t y_ld, x_ld, res_ld, ahead_ld;
    int rows, k, n;
    bool gate;
} zn_panel;

#define ZN_DECL_PANEL(name) void name(const zn_panel *g)
typedef ZN_DECL_PANEL(zn_panel_fn);
#define ZN_DECL_GATE3(name)                                                                                            \
    void name(void *y, size_t y_ld, const void *const x[3], const void *w, int pixels, int width)
typedef ZN_DECL_GATE3(zn_gate3_fn);
#define ZN_DECL_NORM_ROWS(name)                                                                                        \
    void name(float *y, size_t y_ld, const float *x, size_t x_ld, int pixels, int n, float eps)
typedef ZN_DECL_NORM_ROWS(zn_norm_rows_fn);

/* y = x, rounded to the type of a form; the way back. */
#define ZN_DECL_ROUND(name) void name(void *y, const float *x, size_t n)
typedef ZN_DECL_ROUND(zn_round_fn);
#define ZN_DECL_WIDEN(name) void name(float *y, const void *x, size_t n)
typedef ZN_DECL_WIDEN(zn_widen_fn);

/* Winograd's transforms (winograd.c) of one tile; x, y, res point to the pixels of the tile, row by row.
 * in:  v[i * v_pos + c] = (B^T x B)[i] for the P * P positions i and n channels c, filled up with zeros to whole vectors
 * out: y[j][c] = tail((A^T m A)[j]), m[i * m_pos + c], for the pixels j with y[j] != NULL; elements that are no floats have no
 *      activation but ReLU */
#define ZN_DECL_WINO_IN(name) void name(void *v, size_t v_pos, const void *const *x, int n)
typedef ZN_DECL_WINO_IN(zn_wino_in_fn);
#define ZN_DECL_WINO_OUT(name)                                                                                         \
    void name(void *const *y, const void *const *res, ptrdiff_t y_off, const void *m, size_t m_pos, int n,             \
              const zn_tail *t)
typedef ZN_DECL_WINO_OUT(zn_wino_out_fn);

/* Products at constant strides in one type of element.  Sums have that type, too: those of fp16 are rounded at each step, so
 * that gated_strip.c and winograd.c bound their length. */
typedef struct zn_panel_form {
    zn_type type;
    int vl, nr;   /* elements of a vector; outputs of a panel in a gated block: 2 vectors or more */
    int step;     /* the preferred multiple of the pixels in a row */
    int mr, wide; /* pixels of a tile of the widest panel; its outputs */
    zn_panel_fn *panel;
    zn_gate3_fn *gate3;
    zn_round_fn *round;                                /* NULL: the type is float ... */
    zn_widen_fn *widen;                                /* ... likewise */
    zn_wino_in_fn *wino_in6, *wino_in8;                /* tiles of 6x6 and 8x8 */
    zn_wino_out_fn *wino_out4, *wino_out5, *wino_out6; /* from 6x6 to 4x4 and 5x5, from 8x8 to 6x6 */
    zn_wino_in_fn *wino_in5;                           /* tiles of 5x5, not of floats ... */
    zn_wino_out_fn *wino_out54;                        /* ... and from them to 4x4 */
} zn_panel_form;

/* Products of tiles of bf16 (tiles.c), ZN_TILE pixels x ZN_TILE outputs, or 16 if no more are wanted:
 *     y[r][o] = bias[o] + sum over taps t and channels c of x[r][t][c] * w[t][c][o]
 * x[r][t] begins r * x_ld + tap[t] bytes behind x: chunks * ZN_TILE bf16.  With `low`, elements are sums of two, the second is
 * `low` bytes further, and the product of both second terms is left out.  w: see tiles.c.
 * split writes n floats so, filled up with zeros to whole chunks.
 * tail, with floor(v) = max(v, least):
 *     y[r][o] = floor_post(res[r][o] + gain * floor_pre(x[r][o])), o < n <= ZN_TILE
 * y may be x.
 * gate: y[r][o] = x[r][o] * x[r][16 + o], o < 16; rows of x are ZN_TILE floats. */
enum { ZN_TILE = 32 };
typedef struct zn_tiles {
    float *y;
    const char *x, *w;
    const float *bias;
    const ptrdiff_t *tap;
    size_t y_ld, x_ld, low;
    int taps, chunks, pixels, outputs;
} zn_tiles;

#define ZN_DECL_TILES(name) void name(const zn_tiles *g)
typedef ZN_DECL_TILES(zn_tiles_fn);
#define ZN_DECL_SPLIT(name) void name(void *to, size_t low, const float *x, int n)
typedef ZN_DECL_SPLIT(zn_split_fn);

typedef struct zn_tile_tail {
    void *y;
    const void *res;          /* NULL: 0 */
    const float *x;           /* rows of ZN_TILE */
    size_t y_ld, res_ld;      /* bytes */
    zn_type y_type, res_type; /* float or bf16 */
    float gain, least_pre, least_post;
    int pixels, n;
} zn_tile_tail;

#define ZN_DECL_TILE_TAIL(name) void name(const zn_tile_tail *g)
typedef ZN_DECL_TILE_TAIL(zn_tile_tail_fn);

#define ZN_DECL_TILE_GATE(name) void name(float *y, size_t y_ld, const float *x, int pixels)
typedef ZN_DECL_TILE_GATE(zn_tile_gate_fn);

typedef struct zn_tile_form {
    bool (*ready)(void);               /* whether the system lets this process use them; asked once */
    void (*begin)(void), (*end)(void); /* of a thread's use */
    zn_split_fn *split;
    zn_tiles_fn *product;
    zn_tile_tail_fn *tail;
    zn_tile_gate_fn *gate;
    bool everywhere; /* for tests: also where it does not pay */
} zn_tile_form;

/* Winograd's transform of weights: u[i * u_pos + j] = sum over dy, dx < 3 of
 *     down[i / side][dy] w[(3 dy + dx) * w_tap + j] across[i % side][dx]
 * for the side * side positions i and j < n, whole vectors. */
#define ZN_DECL_WINO_WEIGHTS(name)                                                                                     \
    void name(float *u, size_t u_pos, const float *w, size_t w_tap, const float *down, const float *across, int side,  \
              size_t n)
typedef ZN_DECL_WINO_WEIGHTS(zn_wino_weights_fn);

/* y = tail(x * scale + shift); scale and shift: n each, or both NULL; res may be NULL. */
#define ZN_DECL_MAP(name)                                                                                              \
    void name(float *y, const float *x, const float *scale, const float *shift, const float *res, size_t n,            \
              const zn_tail *t)
typedef ZN_DECL_MAP(zn_map_fn);

/* y = tail(a + b) or tail(a * b); res may be NULL. */
#define ZN_DECL_BINARY(name)                                                                                           \
    void name(float *y, const float *a, const float *b, const float *res, size_t n, zn_binary op, const zn_tail *t)
typedef ZN_DECL_BINARY(zn_binary_fn);

/* sum[c] = sum over pixels of x[c], or of (x[c] - mean[c])^2 if mean is not NULL, c < n; at most 256 pixels. */
#define ZN_DECL_MOMENT(name) void name(float *sum, const float *x, size_t ld, int pixels, int n, const float *mean)
typedef ZN_DECL_MOMENT(zn_moment_fn);

/* Layer or RMS norm of one pixel of n channels; gamma, beta, res may be NULL. */
#define ZN_DECL_NORM_ROW(name)                                                                                         \
    void name(float *y, const float *x, const float *gamma, const float *beta, const float *res, int n, float eps,     \
              bool rms, const zn_tail *t)
typedef ZN_DECL_NORM_ROW(zn_norm_row_fn);

/* The maximum of n >= 1 elements. */
#define ZN_DECL_MAXIMUM(name) float name(const float *x, size_t n)
typedef ZN_DECL_MAXIMUM(zn_maximum_fn);

/* y = exp(x - max), for x <= max; returns the sum. */
#define ZN_DECL_EXP_SUM(name) float name(float *y, const float *x, float max, size_t n)
typedef ZN_DECL_EXP_SUM(zn_exp_sum_fn);

/* y = the mean over rows and columns of x, for each of n channels; `row` floats from one row to the next.  The sum of a row
 * comes first, so that rounding errors grow with rows + columns. */
#define ZN_DECL_AVERAGE(name) void name(float *y, const float *x, size_t ld, size_t row, int rows, int columns, int n)
typedef ZN_DECL_AVERAGE(zn_average_fn);

/* Rotary position embedding of one head (zn_rope): `half` pairs. */
#define ZN_DECL_ROPE(name)                                                                                             \
    void name(float *y, const float *x, const float *cos, const float *sin, int half, bool interleaved)
typedef ZN_DECL_ROPE(zn_rope_fn);

/* A step of a sampler (ZN_STEP_COEFS); clip is infinite where nothing is clamped. */
#define ZN_DECL_STEP(name)                                                                                             \
    void name(float *y, const float *x, const float *predicted, const float coef[ZN_STEP_COEFS], float clip, size_t n)
typedef ZN_DECL_STEP(zn_step_fn);

/* Walsh-Hadamard transforms H (special.h) of lines: y = H diag(gate) x in each of `width` columns, whole vectors; with
 * perm, line perm[i] of x is taken for line i.  Line i of x, sums, y is `step` floats after line i-1.  sums has room for n
 * lines of intermediate sums: it may be y, and so may x if there is no perm. */
typedef struct zn_lines {
    float *y, *sums;
    const float *x;
    size_t y_step, sums_step, x_step;
    int n, width;
    const float *gate; /* [i], or [i * gate_step + column] if gate_step is not 0; may be NULL */
    size_t gate_step;
    const int32_t *perm; /* may be NULL */
} zn_lines;

#define ZN_DECL_FWHT(name) void name(const zn_lines *g)
typedef ZN_DECL_FWHT(zn_fwht_fn);

/* y = H diag(gate) y for n consecutive elements; gate may be NULL. */
#define ZN_DECL_FWHT_ROW(name) void name(float *y, int n, const float *gate)
typedef ZN_DECL_FWHT_ROW(zn_fwht_row_fn);

/* y[j * y_ld + i] = x[i * x_ld + j], i < rows, j < n */
#define ZN_DECL_TRANSPOSE(name) void name(float *y, size_t y_ld, const float *x, size_t x_ld, int rows, int n)
typedef ZN_DECL_TRANSPOSE(zn_transpose_fn);

/* A row of pixels of 4 n channels, and the two rows of twice as many pixels of n channels that it is shuffled into:
 *     fine[dy][(2 p + dx) * fine_ld + c] = coarse[p * coarse_ld + 4 c + 2 dy + dx],  p < pixels, c < n;  dy, dx < 2
 * back: the other way round. */
#define ZN_DECL_SHUFFLE2(name)                                                                                         \
    void name(float *const fine[2], size_t fine_ld, float *coarse, size_t coarse_ld, int pixels, int n, bool back)
typedef ZN_DECL_SHUFFLE2(zn_shuffle2_fn);

/* y[c] = w[0][c] x[c-1] + w[1][c] x[c] + w[2][c] x[c+1], c < n; x[-1] and x[n] are readable zeros. */
#define ZN_DECL_MIX_ROW(name) void name(float *y, const float *x, const float *w, int n)
typedef ZN_DECL_MIX_ROW(zn_mix_row_fn);

/* One round of the SLM gate: over the window e[c-2 .. c+2] (readable zeros outside 0 .. n-1)
 *     mag = sqrt(sum e^2 / 5 + 1e-10);   cos = (sum slm[j][c] e[c-2+j]) / (mag * slm[5][c] + 1e-6)
 *     y[c] = x[c] * sigmoid(max(0, cos * sqrt(mag + 1e-10) + slm[6][c]))
 * The gate of some values is three rounds, the first with e = |values|: twice x = |values| and y the next e, then
 * x = y = values. */
#define ZN_DECL_SLM_ROW(name) void name(float *y, const float *x, const float *e, const float *slm, int n)
typedef ZN_DECL_SLM_ROW(zn_slm_row_fn);

/* mask[i] = scale[i] * sum |x[8i .. 8i+7]| + bias[i] > 0, i < n */
#define ZN_DECL_MASK_ROW(name) void name(float *mask, const float *x, const float *scale, const float *bias, int n)
typedef ZN_DECL_MASK_ROW(zn_mask_row_fn);

/* Some pixels of the pruned depthwise convolution, in a tile of SIDE x SIDE with its border: those inside the image,
 * at their places in the tile; those of the set `inner`, none of them on the border, are written.  n blocks of 8
 * channels; taps of w are w_tap apart. */
enum { ZN_PRUNE_SIDE = 8 };
typedef struct zn_prune_tile {
    float *y[ZN_PRUNE_SIDE * ZN_PRUNE_SIDE];
    const float *x[ZN_PRUNE_SIDE * ZN_PRUNE_SIDE], *mask[ZN_PRUNE_SIDE * ZN_PRUNE_SIDE];
    uint8_t place[ZN_PRUNE_SIDE * ZN_PRUNE_SIDE];
    uint64_t inner; /* bit i: pixel i */
    int pixels, n;
    const float *w;
    size_t w_tap;
} zn_prune_tile;

#define ZN_DECL_PRUNED(name) void name(const zn_prune_tile *g)
typedef ZN_DECL_PRUNED(zn_pruned_fn);

/* Training a dense layer of few pixels; k and n are whole vectors of every instruction set, multiples of ZN_DENSE_UNIT.
 * dots: y[p][o] += sum over i < k of x[p][i] * w[o][i], p < pixels, o < n, n a multiple of 4
 * dense_back, for ZN_DENSE_ROWS rows o of weights w, j < n columns of them; x, dx are [pixels][n], dy is [pixels][rows]:
 *     dw[o][j] = sum over p of dy[p][o] * x[p][j];   dx[p][j] += sum over o of dy[p][o] * w[o][j] */
enum { ZN_DENSE_UNIT = 16, ZN_DENSE_ROWS = 8 };
#define ZN_DECL_DOTS(name)                                                                                             \
    void name(float *y, size_t y_ld, const float *x, size_t x_ld, const float *w, size_t w_ld, int pixels, int n, int k)
typedef ZN_DECL_DOTS(zn_dots_fn);
#define ZN_DECL_DENSE_BACK(name)                                                                                       \
    void name(float *dw, float *dx, const float *w, size_t w_ld, const float *x, const float *dy, int pixels, int n)
typedef ZN_DECL_DENSE_BACK(zn_dense_back_fn);

/* Runs n rounds of independent multiply-adds on the values in sink; returns the operations done. */
#define ZN_DECL_PEAK(name) double name(float sink[ZN_MAX_NR], size_t n)
typedef ZN_DECL_PEAK(zn_peak_fn);

typedef struct zn_kernels {
    int vl, mr, nr;             /* vector length; the tile of gemm */
    zn_gemm_fn *gemm;           /* NULL: convolution and attention run as their plain formulas (formula.c) */
    zn_depthwise_fn *depthwise; /* NULL likewise, as are all up to wino_weights but expand, to_i8 and dot8 */
    zn_depthwise3_fn *depthwise3;
    zn_narrow_fn *narrow;
    zn_expand_fn *expand;
    zn_few_fn *few;
    zn_to_i8_fn *to_i8;           /* in the scalar table, too */
    zn_dot8_form dot8[ZN_N_INT8]; /* for what the CPU has (zn_cpu_int8); no run after the first: not in this build */
    bool dot8_excess;
    zn_panel_form panels;       /* of floats; its nr is NR at most */
    const zn_panel_form *half;  /* of fp16, for CPUs that have it (zn_cpu_half); NULL: not in this build */
    const zn_tile_form *tiles;  /* likewise, of AMX ... */
    const zn_tile_form *dots16; /* ... and of AVX-512 BF16 */
    zn_norm_rows_fn *norm_rows;
    zn_wino_weights_fn *wino_weights;
    zn_map_fn *map;
    zn_binary_fn *binary;
    zn_moment_fn *moment;
    zn_norm_row_fn *norm_row;
    zn_maximum_fn *maximum;
    zn_exp_sum_fn *exp_sum;
    zn_average_fn *average;
    zn_rope_fn *rope;
    zn_step_fn *step;
    zn_fwht_fn *fwht;
    zn_fwht_row_fn *fwht_row;
    zn_transpose_fn *transpose;
    zn_shuffle2_fn *shuffle2;
    zn_mix_row_fn *mix_row;
    zn_slm_row_fn *slm_row;
    zn_mask_row_fn *mask_row;
    zn_pruned_fn *pruned;
    zn_dots_fn *dots; /* NULL in the scalar table, and so is the next: training then uses zn_cpu_matmul */
    zn_dense_back_fn *dense_back;
    zn_peak_fn *peak;
} zn_kernels;

extern const zn_kernels zn_kernels_scalar;
#if ZN_ARCH_ARM
extern const zn_kernels zn_kernels_neon;
extern const zn_panel_form zn_panels_fp16;
#endif
#if ZN_ARCH_X86
extern const zn_kernels zn_kernels_avx2, zn_kernels_avx512;
extern const zn_panel_form zn_panels_avx512fp16;
extern const zn_tile_form zn_tiles_amx, zn_tiles_bf16;
#endif

/* The table of an instruction set, or NULL and an error message if this CPU or this build lacks it. */
const zn_kernels *zn_kernels_for(zn_isa isa, zn_error *err);

#endif
