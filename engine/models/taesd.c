/* SPDX-License-Identifier: MIT */
/* taesd.c - the tiny autoencoders: taesd, taesdxl, taesd3, taef1, taef2, taesana, and our zenith-tae.
 *
 *   picture 0..1 ── encoder ── latent, 1/8 of the size (taesana: 1/32) ── decoder ── picture
 *
 * Each half is a list of layers; a layer's place in the list is its number in the weight file:
 *   c  conv 3x3            n  conv 3x3 without bias     s  the same with stride 2     S  's' with bias
 *   b  block: ReLU(conv(ReLU(conv(ReLU(conv(x))))) + x)
 *   u  nearest-neighbour x2 (fused into the convolution after it)
 *   r  ReLU (fused into the convolution before it)      k  3 tanh(x / 3)
 * Widths are read from the file.  In taef2 the blocks at the lowest resolution begin with
 * x += conv1(ReLU(groupnorm(conv1(x)))), whose statistics run over the whole picture: no tiles there.
 *
 * Reference: madebyollin/taesd; diffusers' AutoencoderTiny has the same layers, without 'k'. */
#include "../core/ints.h"
#include "pool.h"
#include "rows.h"

#include <stdio.h>
#include <string.h>

static const char encoder8[] = "cbsbbbsbbbsbbbc";
static const char decoder8[] = "kcrbbbunbbbunbbbunbc";
static const char encoder32[] = "SrSrbsbbbsbbbsbbbc";
static const char decoder32[] = "kcrbbbunbbbunbbbunbbbunbbbunbc";

enum {
    MAX_LAYERS = 32,
    POOL = 4,          /* a pool is POOL times as wide as its block */
    TILE = 1024,       /* of the picture, a side, or somewhat more */
    IN_ROWS = 19 << 20 /* floats of a tensor of which a CPU keeps only some rows; of halves four times as many */
};

typedef struct block {
    zn_conv conv[3];
    zn_pool_branch pool;
} block;

typedef struct taesd {
    const char *plan; /* one of the lists above */
    bool pooled;
    block layer[MAX_LAYERS]; /* convolutions use conv[0] */
} taesd;

/* ---- names ------------------------------------------------------------------------------------------ */

typedef struct naming {
    const char *prefix;
    int shift; /* file's number of a layer = place in the list - shift */
} naming;

static const naming enc_names[] = { { "encoder.layers.", 0 }, { "encoder.", 0 }, { "", 0 } };
static const naming dec_names[] = { { "decoder.layers.", 1 }, { "decoder.", 0 }, { "", 0 } };

static bool has(const zn_weights *w, naming n, int place, const char *what)
{
    char name[96];

    snprintf(name, sizeof name, "%s%d.%s", n.prefix, place - n.shift, what);
    return zn_weights_get(w, name) != NULL;
}

/* The list whose convolutions and blocks are all in the file, and no layer after them; *name: how the file names them.
 * NULL: none. */
static const char *find_plan(const zn_weights *w, bool decoder, naming *name)
{
    const naming *names = decoder ? dec_names : enc_names;
    const char *plans[2] = { decoder ? decoder8 : encoder8, decoder ? decoder32 : encoder32 };

    for (int i = 0; i < 3; i++)
        for (int p = 0; p < 2; p++) {
            int last = (int)strlen(plans[p]) - 1;
            bool fits = has(w, names[i], last, "weight") && !has(w, names[i], last + 1, "weight");

            for (int j = 0; fits && j <= last; j++) {
                if (strchr("cnsS", plans[p][j]))
                    fits = has(w, names[i], j, "weight");
                if (plans[p][j] == 'b')
                    fits = has(w, names[i], j, "conv.0.weight");
            }
            if (fits) {
                *name = names[i];
                return plans[p];
            }
        }
    return NULL;
}

static const char *variant_name(bool f32, bool pooled, int z)
{
    if (f32)
        return "taesana";
    if (pooled)
        return "taef2";
    return z == 4 ? "taesd or taesdxl" : z == 16 ? "taesd3, taef1 or zenith-tae" : "taesd family";
}

static bool recognise(const zn_weights *w, bool decoder, char *what, size_t size)
{
    naming name;
    const char *plan = find_plan(w, decoder, &name);
    char key[96];
    const zn_entry *e;
    bool pooled = false;
    int z;

    if (!plan)
        return false;
    for (int j = 0; plan[j]; j++)
        pooled = pooled || has(w, name, j, "pool.0.weight");
    snprintf(key, sizeof key, "%s%d.weight", name.prefix, (decoder ? 1 : (int)strlen(plan) - 1) - name.shift);
    e = zn_weights_get(w, key);
    if (!e || e->n_dims != 4)
        return false;
    z = (int)e->shape[decoder ? 1 : 0];
    snprintf(what, size, "%s %s, %d latent channels", variant_name(plan == decoder32 || plan == encoder32, pooled, z),
             decoder ? "decoder" : "encoder", z);
    return true;
}

static bool recognise_encoder(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, false, what, size);
}

static bool recognise_decoder(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, true, what, size);
}

/* ---- bind ---------------------------------------------------------------------------------------------- */

static zn_conv conv3(int cin, int cout, int stride, bool bias)
{
    zn_conv conv = zn_conv_same(3, cin, cout);

    conv.stride = stride;
    conv.has_bias = bias;
    return conv;
}

static void bind_block(zn_binder *b, block *l, int width, const char *name)
{
    for (int i = 0; i < 3; i++)
        zn_bind_conv(b, &l->conv[i], conv3(width, width, 1, true), "%s.conv.%d", name, 2 * i);
    zn_bind_pool(b, &l->pool, width, POOL * width, name);
}

static void bind(zn_binder *b, taesd *m, bool decoder)
{
    naming n;
    char name[64];
    int width = 0, first = 0, scale = 1, reach = 0; /* reach: of the receptive field, at full size */

    m->plan = decoder ? decoder8 : encoder8; /* without a file: taesd with 4 latent channels */
    n = (naming){ "", 0 };
    if (b->w && !(m->plan = find_plan(b->w, decoder, &n))) {
        zn_bind_fail(b, "these are not the weights of a TAESD %s", decoder ? "decoder" : "encoder");
        return;
    }
    for (int j = 0; b->w && m->plan[j]; j++)
        m->pooled = m->pooled || has(b->w, n, j, "pool.0.weight");
    if (!m->pooled)
        zn_bind_plain(b);
    for (int j = 0; m->plan[j]; j++) {
        char kind = m->plan[j];
        block *l = &m->layer[j];

        snprintf(name, sizeof name, "%s%d", n.prefix, j - n.shift);
        if (strchr("cnsS", kind)) {
            int cin = zn_bind_dim(b, 1, "%s.weight", name), cout = zn_bind_dim(b, 0, "%s.weight", name);
            zn_conv spec;

            if (!b->w) {
                cin = width ? width : decoder ? 4 : 3;
                cout = m->plan[j + 1] ? 64 : decoder ? 3 : 4;
            }

            if (cin <= 0 || cout <= 0 || cin > 4096 || cout > 4096 || (width && cin != width)) {
                zn_bind_fail(b, "tensor '%s.weight' has the wrong shape", name);
                return;
            }
            first = first ? first : cin;
            spec = conv3(cin, cout, strchr("sS", kind) ? 2 : 1, strchr("cS", kind));
            spec.up2 = j && m->plan[j - 1] == 'u';
            zn_bind_conv(b, &l->conv[0], spec, "%s", name);
            width = cout;
        } else if (kind == 'b') {
            bind_block(b, l, width, name);
        }
        if (b->status)
            return;
    }
    /* The receptive field: each 3x3 adds one pixel of its own resolution on either side.
     *  An up-sampling convolution counts at the size it writes. */
    for (int j = 0; m->plan[j]; j++)
        scale *= strchr("usS", m->plan[j]) ? 2 : 1;
    for (int j = 0, step = decoder ? scale : 1; m->plan[j]; j++) {
        if (m->plan[j] == 'u')
            step /= 2;
        reach += step * (m->plan[j] == 'b' ? 3 : strchr("cnsS", m->plan[j]) ? 1 : 0);
        if (strchr("sS", m->plan[j]))
            step *= 2;
    }
    b->geometry = (zn_geometry){
        .in_c = first,
        .out_c = width,
        .shrink = decoder ? 1 : scale,
        .grow = decoder ? scale : 1,
        .multiple = decoder ? 1 : scale,
        .halo = m->pooled ? -1
            : decoder     ? (reach + scale - 1) / scale
                          : reach,
        /* A block of Winograd's rounds a pixel by its neighbours, and layer after layer that reaches far beyond the halo. */
        .tile = zn_round_up(TILE, 12 * scale) / (decoder ? scale : 1),
    };
    if (b->w)
        recognise(b->w, decoder, b->variant, sizeof b->variant);
}

static void bind_encoder(zn_binder *b, void *net)
{
    bind(b, net, false);
}

static void bind_decoder(zn_binder *b, void *net)
{
    bind(b, net, true);
}

/* ---- forward --------------------------------------------------------------------------------------------- */

/* The tensor of this shape in one of the three slots. */
static zn_tensor in_slot(zn_tensor slot, int h, int w, int c)
{
    assert((size_t)h * (size_t)w * (size_t)c <= zn_pixels(slot));
    return (zn_tensor){ slot.data, 1, h, w, c, c, slot.type };
}

/* x = block(x), with the other two slots as temporaries. */
static void run_block(zn_ctx *c, const block *l, zn_tensor x, zn_tensor slot1, zn_tensor slot2)
{
    zn_tensor first = in_slot(slot1, x.h, x.w, x.c), second = in_slot(slot2, x.h, x.w, x.c);

    if (l->pool.wide) /* the skip below uses the new x */
        zn_run_pool(c, &l->pool, x, in_slot(slot1, x.h, x.w, l->pool.wide));
    zn_conv2d(c, first, x, &l->conv[0], (zn_tail){ .pre = ZN_RELU });
    zn_conv2d(c, second, first, &l->conv[1], (zn_tail){ .pre = ZN_RELU });
    zn_conv2d(c, x, second, &l->conv[2], (zn_tail){ .residual = &x, .post = ZN_RELU });
}

/* The size of what a convolution of x makes. */
static zn_tensor made_by(const zn_conv *w, zn_tensor x)
{
    const int up = w->up2 ? 2 : 1;

    x.h = zn_ceil_div(x.h * up, w->stride);
    x.w = zn_ceil_div(x.w * up, w->stride);
    x.c = w->cout;
    return x;
}

static bool is_conv(char kind)
{
    return strchr("cnsS", kind);
}

/* Which layers of the list run in rows: those with a large tensor before or after them. */
typedef struct part {
    int from, end;
} part;

static part in_rows(const zn_ctx *c, const taesd *m, zn_tensor x)
{
    const size_t usual = c->type == ZN_F32 ? IN_ROWS : 4 * (size_t)IN_ROWS;
    const size_t least = c->be && c->be->strips_from ? c->be->strips_from : usual;
    part p = { 0, 0 };

    if (!c->be || c->be->remote || m->pooled || x.n != 1)
        return p;
    for (int j = 0; m->plan[j]; j++) {
        const zn_tensor y = is_conv(m->plan[j]) ? made_by(&m->layer[j].conv[0], x) : x;
        const size_t most = zn_pixels(x) > zn_pixels(y) ? zn_pixels(x) : zn_pixels(y);
        const bool large = most * (size_t)zn_imax(x.c, y.c) >= least;

        if (large && (is_conv(m->plan[j]) || m->plan[j] == 'b'))
            p = (part){ p.end ? p.from : j, j + 1 };
        x = y;
    }
    return p;
}

/* The largest tensor of the other layers, in elements: what a slot must hold. */
static size_t slot_len(const taesd *m, zn_tensor x, part rows)
{
    size_t most = *m->plan == 'k' ? zn_pixels(x) * (size_t)x.c : 0;

    for (int j = 0; m->plan[j + 1]; j++) { /* the last one writes the output itself */
        const block *l = &m->layer[j];
        size_t len;

        if (is_conv(m->plan[j]))
            x = made_by(&l->conv[0], x);
        len = zn_pixels(x) * (size_t)(l->pool.wide ? l->pool.wide : x.c);
        if ((j < rows.from || j + 1 >= rows.end) && len > most)
            most = len;
    }
    return most;
}

/* What follows the convolution before place `next`. */
static zn_act act_at(const taesd *m, int next)
{
    return m->plan[next] == 'r' ? ZN_RELU : ZN_NONE;
}

static void run_rows(zn_ctx *c, const taesd *m, zn_tensor y, zn_tensor x, part rows)
{
    zn_row_layer layer[3 * MAX_LAYERS];
    int n = 0;

    for (int j = rows.from; j < rows.end; j++) {
        const block *l = &m->layer[j];

        if (is_conv(m->plan[j]))
            layer[n++] = (zn_row_layer){ &l->conv[0], .pre = act_at(m, j + 1) };
        for (int i = 0; m->plan[j] == 'b' && i < 3; i++)
            layer[n++] = i < 2 ? (zn_row_layer){ &l->conv[i], .pre = ZN_RELU }
                               : (zn_row_layer){ &l->conv[i], .post = ZN_RELU, .skip = 3 };
    }
    zn_run_rows(c, y, x, layer, n);
}

/* All tensors but those of rows are in three slots of one size: x is in slot[0], the other two are temporaries. */
static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const taesd *m = net;
    zn_tensor x = call->in[0], slot[3] = { { 0 } };
    const part rows = in_rows(c, m, x);
    size_t len = slot_len(m, x, rows);

    if (len > INT32_MAX) {
        zn_ctx_fail(c, ZN_E_MEMORY, "a picture of %d x %d is too large for this model in one piece", x.w, x.h);
        return;
    }
    for (int i = 0; i < 3 && len; i++)
        slot[i] = zn_new(c, 1, 1, (int)len, 1);

    for (int j = 0; m->plan[j] && !c->status; j++) {
        const block *l = &m->layer[j];
        const bool begins = rows.end && j == rows.from;
        const int end = begins ? rows.end : j + 1;

        if (m->plan[j] == 'k') {
            zn_tensor y = in_slot(slot[0], x.h, x.w, x.c);

            zn_map(c, y, x, (zn_tail){ .pre = ZN_SOFTCLAMP });
            x = y;
        } else if (begins || is_conv(m->plan[j])) {
            zn_tensor y = x, old = slot[0];

            for (int i = j; i < end; i++)
                y = is_conv(m->plan[i]) ? made_by(&m->layer[i].conv[0], y) : y;
            y = m->plan[end] ? in_slot(slot[1], y.h, y.w, y.c) : call->out[0];
            if (begins)
                run_rows(c, m, y, x, rows);
            else
                zn_conv2d(c, y, x, &l->conv[0], (zn_tail){ .pre = act_at(m, end) });
            x = y;
            slot[0] = slot[1], slot[1] = old;
            j = end - 1;
        } else if (m->plan[j] == 'b') {
            run_block(c, l, x, slot[1], slot[2]);
        }
    }
}

static const zn_training training = { .tasks = ZN_TASK_RECONSTRUCT, .from_weights = true };

const zn_arch zn_arch_taesd_encode = {
    .info = { .id = "taesd-encode",
              .summary = "picture to latent: taesd, taesdxl, taesd3, taef1, taef2, taesana, zenith-tae",
              .in = { "x" },
              .out = { "z" },
              .weights = "zenith-tae" },
    .size = sizeof(taesd),
    .recognise = recognise_encoder,
    .bind = bind_encoder,
    .forward = forward,
    .train = &training,
    .in_c = 3,
    .half_ok = true,
};

const zn_arch zn_arch_taesd_decode = {
    .info = { .id = "taesd-decode",
              .summary = "latent to picture: the other half",
              .in = { "z" },
              .out = { "x" },
              .weights = "zenith-tae" },
    .size = sizeof(taesd),
    .recognise = recognise_decoder,
    .bind = bind_decoder,
    .forward = forward,
    .train = &training,
    .out_c = 3,
    .half_ok = true,
};
