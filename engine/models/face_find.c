/* SPDX-License-Identifier: MIT */
/* face_find.c - two small networks that find faces; pipeline/faces.c runs them over a pyramid.  A third one finds the lips of a large face:
 * pipeline/face_marks.c.
 *
 *   face-detect   x [H][W][3] in -1..1 ── 3 convolutions of stride 2 ── n residual blocks ── 1x1 ── y [H/8][W/8][7]
 *                 a cell: the logit of a face around it; eyes and mouth from its middle, x and y, in units of 32 pixels
 *   face-points   x [64][64][3], a crop around a candidate ── 6 convolutions ── 4x4 ── 1x1 ── y [1][1][7]
 *                 the logit of a face; the errors of eyes and mouth, in units of 16 pixels of the crop
 *   face-mouth    likewise, a crop around a mouth ── y [40], 20 points of the inner edges of the lips, from the middle, in these units
 *   block:  x = ReLU(x + conv2(ReLU(conv1(x))))
 *
 * Batch norms are folded into the convolutions.  Widths and the number of blocks are read from the file.
 * training/faces/find.py trains the first two, lips.py the third; one file holds them. */
#include "face_find.h"

#include "../core/ints.h"
#include "../zenith_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOWNS = 3, MAX_CONVS = DOWNS + 2 * 16, POINTS_CONVS = 7, MAX_C = 512, OUT_C = 7, USUAL_BLOCKS = 3 };

static const int detect_width[DOWNS] = { 16, 24, 48 }; /* without a file */
static const struct {
    int width, stride; /* width: without a file */
} points_layer[POINTS_CONVS] = { { 24, 2 }, { 48, 2 }, { 48, 1 }, { 80, 2 }, { 80, 1 }, { 48, 2 }, { 64, 1 } };

typedef struct detector {
    int n_convs;
    float threshold;
    zn_conv conv[MAX_CONVS], head;
} detector;

typedef struct corrector {
    zn_conv conv[POINTS_CONVS], head;
} corrector;

/* ---- bind ---------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const char *model = zn_weights_meta(w, "model");

    if (!model || strcmp(model, "zenith-find") || !zn_weights_get(w, "detect.conv0.weight"))
        return false;
    snprintf(what, size, "networks that find faces");
    return true;
}

/* conv[i] of the network `prefix`; returns its width, 0 after a failure. */
static int bind_conv(zn_binder *b, zn_conv *out, const char *prefix, int i, int cin, int usual, int stride, int k)
{
    const int width = b->w ? zn_bind_dim(b, 0, "%s.conv%d.weight", prefix, i) : usual;
    zn_conv spec = zn_conv_same(k, cin, width);

    if (b->status)
        return 0;
    if (width < 1 || width > MAX_C) {
        zn_bind_fail(b, "%s.conv%d is missing, or its width is not from 1 to %d", prefix, i, MAX_C);
        return 0;
    }
    spec.stride = stride;
    if (k == 4)
        spec.pad_t = spec.pad_l = 0;
    zn_bind_conv(b, out, spec, "%s.conv%d", prefix, i);
    return b->status ? 0 : width;
}

static bool ours(zn_binder *b)
{
    if (b->w && !recognise(b->w, b->variant, sizeof b->variant))
        zn_bind_fail(b, "these are not weights that find faces (zenith-find)");
    return !b->status;
}

static void bind_detect(zn_binder *b, void *net)
{
    detector *m = net;
    const char *text = zn_bind_meta(b, "threshold");
    double threshold = 0.5;
    int width = 3;

    if (!ours(b))
        return;
    if ((text && !zn_number_parse(&threshold, text, NULL)) || !(threshold > 0 && threshold < 1)) {
        zn_bind_fail(b, "the threshold of zenith-find is not between 0 and 1");
        return;
    }
    m->threshold = (float)threshold;
    m->n_convs = b->w ? 0 : DOWNS + 2 * USUAL_BLOCKS;
    while (b->w && m->n_convs <= MAX_CONVS && zn_bind_has(b, "detect.conv%d.weight", m->n_convs))
        m->n_convs++;
    if (m->n_convs < DOWNS || m->n_convs > MAX_CONVS || (m->n_convs - DOWNS) % 2) {
        zn_bind_fail(b, "the convolutions of the detector do not form blocks");
        return;
    }
    for (int i = 0; !b->status && i < m->n_convs; i++) {
        const int before = width;

        width =
            bind_conv(b, &m->conv[i], "detect", i, width, detect_width[zn_imin(i, DOWNS - 1)], i < DOWNS ? 2 : 1, 3);
        if (!b->status && i >= DOWNS && width != before)
            zn_bind_fail(b, "the blocks of the detector change their width");
    }
    zn_bind_conv(b, &m->head, zn_conv_same(1, width, OUT_C), "detect.head");
    b->geometry.in_c = 3;
    b->geometry.out_c = OUT_C;
}

/* The network `prefix`, which gives n numbers. */
static void bind_crop(zn_binder *b, corrector *m, const char *prefix, int n)
{
    int width = 3;

    if (!ours(b))
        return;
    for (int i = 0; !b->status && i < POINTS_CONVS; i++)
        width = bind_conv(b, &m->conv[i], prefix, i, width, points_layer[i].width, points_layer[i].stride,
                          i == POINTS_CONVS - 1 ? 4 : 3);
    zn_bind_conv(b, &m->head, zn_conv_same(1, width, n), "%s.head", prefix);
    b->geometry.in_c = 3;
    b->geometry.out_c = n;
    b->geometry.side = ZN_FIND_CROP;
}

static void bind_points(zn_binder *b, void *net)
{
    bind_crop(b, net, "points", OUT_C);
}

static void bind_mouth(zn_binder *b, void *net)
{
    bind_crop(b, net, "mouth", 40); /* 20 points */
}

float zn_find_threshold(const void *net)
{
    return ((const detector *)net)->threshold;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static bool shape_detect(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    (void)net;
    if (n_in != 1 || in[0].c != 3 || in[0].h % ZN_FIND_CELL || in[0].w % ZN_FIND_CELL)
        return false;
    out[0] = (zn_tensor){ .n = in[0].n, .h = in[0].h / ZN_FIND_CELL, .w = in[0].w / ZN_FIND_CELL, .c = OUT_C };
    return true;
}

static void detect(zn_ctx *c, const void *net, const zn_call *call)
{
    const detector *m = net;
    zn_tensor x = call->in[0], mid;
    size_t mark;

    for (int i = 0; i < DOWNS; i++) {
        zn_tensor y = zn_new(c, x.n, x.h / 2, x.w / 2, m->conv[i].cout);

        zn_conv2d(c, y, x, &m->conv[i], (zn_tail){ .pre = ZN_RELU });
        x = y;
    }
    mark = zn_mark(c->arena);
    mid = zn_new(c, x.n, x.h, x.w, x.c);
    for (int i = DOWNS; i < m->n_convs; i += 2) {
        zn_conv2d(c, mid, x, &m->conv[i], (zn_tail){ .pre = ZN_RELU });
        zn_conv2d(c, x, mid, &m->conv[i + 1], (zn_tail){ .residual = &x, .post = ZN_RELU });
    }
    zn_reset(c->arena, mark);
    zn_conv2d(c, call->out[0], x, &m->head, (zn_tail){ 0 });
}

static bool shape_points(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    if (n_in != 1 || in[0].c != 3 || in[0].h != ZN_FIND_CROP || in[0].w != ZN_FIND_CROP)
        return false;
    out[0] = (zn_tensor){ .n = in[0].n, .h = 1, .w = 1, .c = ((const corrector *)net)->head.cout };
    return true;
}

static void points(zn_ctx *c, const void *net, const zn_call *call)
{
    const corrector *m = net;
    zn_tensor x = call->in[0];

    for (int i = 0; i < POINTS_CONVS; i++) {
        const int side = i == POINTS_CONVS - 1 ? 1 : x.h / m->conv[i].stride;
        zn_tensor y = zn_new(c, x.n, side, side, m->conv[i].cout);

        zn_conv2d(c, y, x, &m->conv[i], (zn_tail){ .pre = ZN_RELU });
        x = y;
    }
    zn_conv2d(c, call->out[0], x, &m->head, (zn_tail){ 0 });
}

static int example_detect(const void *net, int w, int h, zn_tensor *in)
{
    (void)net;
    in[0] = (zn_tensor){ .n = 1, .h = zn_round_up(h, ZN_FIND_CELL), .w = zn_round_up(w, ZN_FIND_CELL), .c = 3 };
    return 1;
}

static int example_points(const void *net, int w, int h, zn_tensor *in)
{
    (void)net, (void)w, (void)h;
    in[0] = (zn_tensor){ .n = 1, .h = ZN_FIND_CROP, .w = ZN_FIND_CROP, .c = 3 };
    return 1;
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

const zn_arch zn_arch_face_detect = {
    .info = { .id = "face-detect",
              .summary = "where faces are, at 1/8 of the size",
              .in = { "x" },
              .out = { "y" },
              .weights = "zenith-find" },
    .size = sizeof(detector),
    .recognise = recognise,
    .bind = bind_detect,
    .forward = detect,
    .shape = shape_detect,
    .example = example_detect,
};

const zn_arch zn_arch_face_points = {
    .info = { .id = "face-points",
              .summary = "eyes and mouth in a crop around a face",
              .in = { "x" },
              .out = { "y" },
              .weights = "zenith-find" },
    .size = sizeof(corrector),
    .bind = bind_points,
    .forward = points,
    .shape = shape_points,
    .example = example_points,
};

const zn_arch zn_arch_face_mouth = {
    .info = { .id = "face-mouth",
              .summary = "the inner edges of lips",
              .in = { "x" },
              .out = { "y" },
              .weights = "zenith-find" },
    .size = sizeof(corrector),
    .bind = bind_mouth,
    .forward = points,
    .shape = shape_points,
    .example = example_points,
};
