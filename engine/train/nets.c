/* SPDX-License-Identifier: MIT */
/* nets.c - the networks as nodes.  models/zenith/zenith_ae.c, conv_baseline.c and denoise.c have their pictures. */
#include "nets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- zenith-ae and zenith-prune ------------------------------------------------------------------------ */

/* Eyes begin as in the reference, N(0, 2 / 9c); in the residual form, where the blocks begin with a gain of 0
 * instead of being all there is, large enough to carry a signal. */
static int zenith_block(zn_net *net, int x, int i, int gate, bool slm, bool residual)
{
    int c = net->node[x]->c, y;
    char name[48];

    snprintf(name, sizeof name, "block%d.eyes", i);
    y = zn_net_depthwise(net, x, name, false, gate, (real)sqrt(2.0 / (residual ? 9.0 : 9.0 * c)));
    y = zn_net_fwht(net, y);
    if (slm) {
        snprintf(name, sizeof name, "block%d.slm", i);
        y = zn_net_slm(net, y, name);
    }
    snprintf(name, sizeof name, "block%d.spectral_scale", i);
    y = zn_net_scale(net, y, name);
    snprintf(name, sizeof name, "block%d.mixer", i);
    y = zn_net_mixer(net, y, name);
    y = zn_net_relu(net, zn_net_fwht(net, y));
    snprintf(name, sizeof name, "block%d.norm", i);
    return zn_net_group_norm(net, y, name, c % 32 ? 1 : 32, residual ? 0 : 1);
}

bool zn_build_zenith_ae(zn_net *net, int batch, int size, int base, bool slm, bool residual)
{
    int in = zn_net_input(net, batch, size, size, 3), x, y;

    if (size % 32 || base < 4 || base & (base - 1) || 256 * base > ZN_FWHT_MAX)
        return false;
    x = zn_net_unshuffle(net, zn_net_conv(net, in, "stem", 2, 2, 0, base, true, 2), 4);
    y = zenith_block(net, x, 1, ZN_NO_NODE, false, residual);
    x = zn_net_unshuffle(net, residual ? zn_net_add(net, x, y) : y, 4);
    for (int i = 1; i <= 2; i++) {
        char name[16];

        snprintf(name, sizeof name, "gate%d", i);
        y = zn_net_gate(net, x, name);
        y = zenith_block(net, y, i + 1, y, slm, residual);
        x = residual ? zn_net_add(net, x, y) : y;
    }
    x = zn_net_shuffle(net, zn_net_shuffle(net, zn_net_shuffle(net, x, 4), 4), 2);
    x = zn_net_conv(net, x, "out", 3, 1, 1, 3, true, residual ? 0 : 2);
    if (residual)
        zn_net_add(net, in, x);
    return true;
}

/* ---- conv-baseline-ae ---------------------------------------------------------------------------------- */

bool zn_build_conv_baseline(zn_net *net, int batch, int size, int base)
{
    static const int stride[6] = { 2, 4, 4, 4, 4, 2 };
    static const char *const name[6] = { "down1", "down2", "down3", "up1", "up2", "up3" };
    const int width[6] = { base, 16 * base, 256 * base, 16 * base, base, 3 };
    int x = zn_net_input(net, batch, size, size, 3);

    if (size % 32 || base < 1 || base > 64)
        return false;
    for (int i = 0; i < 6; i++) {
        int s = stride[i];

        if (i < 3)
            x = zn_net_conv(net, x, name[i], s, s, 0, width[i], true, 2);
        else
            x = zn_net_conv(net, x, name[i], 1, 1, 0, width[i] * s * s, true, 2);
        if (i < 5)
            x = zn_net_relu(net, x);
        if (i >= 3)
            x = zn_net_shuffle(net, x, s);
    }
    return true;
}

/* ---- the autoencoders of the first document: models/zenith/zenith_taesd.c ------------------------------------- */

typedef struct half {
    zn_net *net;
    const char *name; /* enc or dec */
    bool vanilla, shuffles, spectral;
    zn_act act;
} half;

/* y = x + mixing(x), or two convolutions */
static int autoencoder_block(const half *f, int x, int i)
{
    int c = f->net->node[x]->c, y;
    char name[48];

    snprintf(name, sizeof name, "%s.block%d.%s", f->name, i, f->vanilla ? "conv1" : "compress");
    if (f->vanilla) {
        y = zn_net_act(f->net, zn_net_conv(f->net, x, name, 3, 1, 1, c, true, 1), f->act);
        snprintf(name, sizeof name, "%s.block%d.conv2", f->name, i);
        return zn_net_add(f->net, x, zn_net_conv(f->net, y, name, 3, 1, 1, c, true, 1));
    }
    y = zn_net_grouped(f->net, x, name, 4, c / 4, (real)0.05);
    snprintf(name, sizeof name, "%s.block%d.gate_h", f->name, i);
    y = zn_net_lines(f->net, y, name, true, f->net->node[y]->w, 0);
    snprintf(name, sizeof name, "%s.block%d.gate_v", f->name, i);
    y = zn_net_act(f->net, zn_net_lines(f->net, y, name, false, f->net->node[y]->h, 0), f->act);
    snprintf(name, sizeof name, "%s.block%d.expand", f->name, i);
    return zn_net_add(f->net, x, zn_net_grouped(f->net, y, name, 4, c, (real)0.05));
}

static int linear(const half *f, int x, const char *name, int cout)
{
    return f->spectral ? zn_net_spectral(f->net, x, name, cout) : zn_net_conv(f->net, x, name, 1, 1, 0, cout, true, 1);
}

/* Steps and blocks; width: of the outputs of the four steps. */
static int autoencoder_half(const half *f, int x, bool decoder, const int width[4])
{
    static const char *const step[2][4] = { { "stem", "down1", "down2", "out" }, { "in", "up1", "up2", "out" } };

    for (int i = 0; i < 4; i++) {
        char name[48];

        snprintf(name, sizeof name, "%s.%s", f->name, step[decoder][i]);
        if (f->shuffles) {
            bool four = decoder && i < 3;

            x = linear(f, !decoder && i ? zn_net_unshuffle(f->net, x, 2) : x, name, four ? 4 * width[i] : width[i]);
            if (i < 3)
                x = zn_net_act(f->net, x, f->act);
            x = four ? zn_net_shuffle(f->net, x, 2) : x;
        } else {
            bool one = decoder && !i;

            x = zn_net_conv(f->net, decoder && i ? zn_net_up2(f->net, x) : x, name, one ? 1 : 3, !decoder && i ? 2 : 1,
                            one ? 0 : 1, width[i], true, 1);
            if (i < 3)
                x = zn_net_act(f->net, x, f->act);
        }
        if (i < 3)
            x = autoencoder_block(f, x, i + 1);
    }
    return x;
}

bool zn_build_autoencoder(zn_net *net, int batch, int size, int base, const char *model, zn_act act)
{
    half f = { .net = net, .name = "enc", .act = act };
    const int down[4] = { base, 2 * base, 4 * base, 4 }, up[4] = { 4 * base, 2 * base, base, 3 };
    int x;

    f.vanilla = !strcmp(model, "vanilla-taesd");
    f.spectral = !strcmp(model, "zenith-spectral");
    f.shuffles = f.spectral || !strcmp(model, "zenith-lite");
    if (size < 16 || size & (size - 1) || base < 4 || (!f.vanilla && base % 16))
        return false;
    x = autoencoder_half(&f, zn_net_input(net, batch, size, size, 3), false, down);
    f.name = "dec";
    autoencoder_half(&f, x, true, up);
    return true;
}

/* ---- denoisers ----------------------------------------------------------------------------------------- */

static int dim(const zn_weights *w, int d, const char *name)
{
    const zn_entry *e = zn_weights_get(w, name);

    return e && d < e->n_dims && e->shape[d] > 0 && e->shape[d] <= 4096 ? (int)e->shape[d] : 0;
}

static int gated_blocks(zn_net *net, int x, const zn_weights *w, const char *prefix)
{
    char name[96];

    for (int i = 0;; i++) {
        int c = net->node[x]->c, y;

        snprintf(name, sizeof name, "%s%d.pw1.weight", prefix, i);
        if (!zn_weights_get(w, name))
            return x;
        snprintf(name, sizeof name, "%s%d.pw1", prefix, i);
        y = zn_net_conv(net, zn_net_layer_norm(net, x), name, 1, 1, 0, 2 * c, true, 1);
        snprintf(name, sizeof name, "%s%d.dw", prefix, i);
        y = zn_net_halves(net, zn_net_depthwise(net, y, name, true, ZN_NO_NODE, (real)0.3));
        snprintf(name, sizeof name, "%s%d.pw2", prefix, i);
        x = zn_net_add(net, x, zn_net_conv(net, y, name, 1, 1, 0, c, true, 1));
        snprintf(name, sizeof name, "%s%d.pw3", prefix, i);
        y = zn_net_halves(net, zn_net_conv(net, zn_net_layer_norm(net, x), name, 1, 1, 0, 2 * c, true, 1));
        snprintf(name, sizeof name, "%s%d.pw4", prefix, i);
        x = zn_net_add(net, x, zn_net_conv(net, y, name, 1, 1, 0, c, true, 1));
    }
}

/* Level l and those below it; 0: makes no sense. */
static int level(zn_net *net, int x, int l, const zn_weights *w)
{
    char name[32];
    int next, low, c = net->node[x]->c;

    snprintf(name, sizeof name, "down.%d.weight", l);
    next = dim(w, 0, name);
    if (!next)
        return gated_blocks(net, x, w, "mid.");
    if (net->node[x]->h % 2 || net->node[x]->w % 2)
        return 0;
    snprintf(name, sizeof name, "enc.%d.", l);
    x = gated_blocks(net, x, w, name);
    snprintf(name, sizeof name, "down.%d", l);
    low = level(net, zn_net_conv(net, x, name, 2, 2, 0, next, true, 1), l + 1, w);
    if (!low)
        return 0;
    snprintf(name, sizeof name, "up.%d", l);
    x = zn_net_add(net, x, zn_net_shuffle(net, zn_net_conv(net, low, name, 1, 1, 0, 4 * c, false, 1), 2));
    snprintf(name, sizeof name, "dec.%d.", l);
    return gated_blocks(net, x, w, name);
}

bool zn_build_denoiser(zn_net *net, int batch, int size, const zn_weights *w)
{
    int c = dim(w, 0, "intro.weight"), both, picture, x;

    if (!c || !zn_weights_get(w, "mid.0.dw.weight") || size % 2)
        return false;
    both = zn_net_input(net, batch, size / 2, size / 2, 24);
    picture = zn_net_input(net, batch, size, size, 3);
    x = level(net, zn_net_conv(net, both, "intro", 3, 1, 1, c, true, 1), 0, w);
    if (!x)
        return false;
    x = zn_net_shuffle(net, zn_net_conv(net, x, "outro", 3, 1, 1, 12, true, 1), 2);
    zn_net_add(net, picture, x);
    return true;
}

/* ---- parameters from a file ---------------------------------------------------------------------------- */

zn_status zn_net_load(zn_net *net, real *to, const zn_weights *w, const char *prefix, zn_error *err)
{
    for (int i = 0; i < net->n_params; i++) {
        const zn_param *p = &net->param[i];
        char name[96];
        const zn_entry *e;
        float *x;

        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        e = zn_weights_get(w, name);
        if (!e || zn_entry_len(e) != p->len || (e->n_dims && e->shape[0] != p->dims[0]))
            return zn_fail(err, ZN_E_FILE,
                           "%s: tensor '%s' is missing or of another shape: not the weights of this "
                           "network",
                           zn_weights_path(w), name);
        x = malloc(p->len * sizeof *x);
        if (!x)
            return zn_fail(err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
        zn_entry_read(e, x);
        for (size_t j = 0; j < p->len; j++)
            to[p->at + j] = (real)x[j];
        free(x);
    }
    return ZN_OK;
}
