/* SPDX-License-Identifier: MIT */
/* video.c - Wan's autoencoders over the frames of a video, chunk by chunk: see zn_stream.
 *
 * A 3-D convolution is causal: frame t of its result sees frames t-2, t-1 and t.  Each tap in time is a 2-D convolution.
 * The frames of a chunk are images of one tensor; before them lie the last two of the chunk before, which the state keeps,
 * so that each tap reads the same tensor one frame later:
 *
 *     two kept frames | frames of the chunk          y = now(x[t]) + past[1](x[t-1]) + past[0](x[t-2])
 *
 * Before the first frame there are zeros; there the taps of the past are left out.
 * Where the number of frames changes (not for the first frame), three taps 1x1 in time: of the encoder with stride 2, after
 * the last frame of the chunk before; of the decoder to twice the channels, which are two frames. */
#include "vae.h"

/* Frames from .. from+n-1. */
static zn_tensor frames(zn_tensor x, int from, int n)
{
    assert(x.ld == x.c && from >= 0 && from + n <= x.n);
    x.data = (float *)((char *)x.data + (size_t)from * (size_t)x.h * (size_t)x.w * (size_t)x.c * zn_type_size(x.type));
    x.n = n;
    return x;
}

/* The next n frames of the state, of x's size; zeros before the first chunk. */
static zn_tensor next_state(zn_vae_run *r, zn_tensor x, int n, bool first)
{
    static const float zeros[ZN_VAE_MAX_C];
    zn_tensor s = { (float *)(void *)(r->state ? r->state + r->kept : NULL), n, x.h, x.w, x.c, x.c, r->c->type };

    r->kept += zn_pixels(s) * (size_t)s.c * zn_type_size(s.type);
    r->kept = (r->kept + ZN_ALIGN - 1) / ZN_ALIGN * ZN_ALIGN;
    if (first)
        zn_fill(r->c, s, zeros);
    return s;
}

/* `in` has n_past kept frames in front of those of the chunk: fills these in, and keeps the chunk's last ones. */
static void pass_state(zn_vae_run *r, zn_tensor in, int n_past, bool first)
{
    zn_tensor s = next_state(r, in, n_past, first);

    zn_map(r->c, frames(in, 0, n_past), s, (zn_tail){ 0 });
    zn_map(r->c, s, frames(in, in.n - n_past, n_past), (zn_tail){ 0 });
}

/* y = the causal convolution of `in`, which has y.n + 2 frames, plus the residual. */
static void causal(zn_vae_run *r, zn_tensor y, zn_tensor in, const zn_conv *now, const zn_conv past[2], zn_tail t,
                   bool first)
{
    const zn_tail last = { .residual = &y, .pre = ZN_NONE, .post = t.pre };

    if (first) {
        zn_conv2d(r->c, y, frames(in, 2, y.n), now, t);
        return;
    }
    zn_conv2d(r->c, y, frames(in, 2, y.n), now, (zn_tail){ .residual = t.residual });
    zn_conv2d(r->c, y, frames(in, 1, y.n), &past[1], (zn_tail){ .residual = &y });
    zn_conv2d(r->c, y, frames(in, 0, y.n), &past[0], last);
}

/* x with room for two frames before it, normalised if there is a norm; in slot i. */
static zn_tensor with_past(zn_vae_run *r, zn_tensor x, const zn_norm *norm, int i, bool first)
{
    zn_tensor in = zn_vae_slot(r, i, x.n + 2, x.h, x.w, x.c);

    if (norm)
        zn_normalise(r->c, frames(in, 2, x.n), x, norm, (zn_tail){ .pre = ZN_SILU });
    else
        zn_map(r->c, frames(in, 2, x.n), x, (zn_tail){ 0 });
    pass_state(r, in, 2, first);
    return in;
}

/* x = conv(x) or conv(SiLU(norm(x))) */
static void run_conv(zn_vae_run *r, const zn_norm *norm, const zn_conv *now, const zn_conv past[2], zn_tail t,
                     bool first)
{
    const zn_tensor x = r->x, in = with_past(r, x, norm, 1, first);
    zn_tensor y = zn_vae_slot(r, 2, x.n, x.h, x.w, now->cout);

    causal(r, y, in, now, past, t, first);
    zn_vae_take(r, y, 2);
}

static void run_res(zn_vae_run *r, const zn_vae_res *k, bool first)
{
    zn_tensor x = r->x, in = with_past(r, x, &k->norm1, 1, first), h = zn_vae_slot(r, 2, x.n, x.h, x.w, k->cout), y;

    causal(r, h, in, &k->conv1, k->past1, (zn_tail){ 0 }, first);
    in = with_past(r, h, &k->norm2, 1, first);
    if (k->cin == k->cout) {
        causal(r, x, in, &k->conv2, k->past2, (zn_tail){ .residual = &x }, first);
        return;
    }
    y = zn_vae_slot(r, 2, x.n, x.h, x.w, k->cout);
    zn_conv2d(r->c, y, x, &k->skip, (zn_tail){ 0 });
    causal(r, y, in, &k->conv2, k->past2, (zn_tail){ .residual = &y }, first);
    zn_vae_take(r, y, 2);
}

/* Half the frames, of a chunk of the encoder: y[t] = sum of time[j] f[2t + j], f[0] being the last frame before. */
static void halve_frames(zn_vae_run *r, const zn_vae_level *l, bool first)
{
    const zn_tensor x = r->x;
    zn_tensor in = zn_vae_slot(r, 1, x.n + 1, x.h, x.w, x.c), y;

    zn_map(r->c, frames(in, 1, x.n), x, (zn_tail){ 0 });
    pass_state(r, in, 1, first);
    if (first)
        return;
    y = zn_vae_slot(r, 2, x.n / 2, x.h, x.w, x.c);
    for (int t = 0; t < y.n; t++) {
        const zn_tensor one = frames(y, t, 1);

        zn_conv2d(r->c, one, frames(in, 2 * t + 2, 1), &l->time[2], (zn_tail){ 0 });
        zn_conv2d(r->c, one, frames(in, 2 * t + 1, 1), &l->time[1], (zn_tail){ .residual = &one });
        zn_conv2d(r->c, one, frames(in, 2 * t, 1), &l->time[0], (zn_tail){ .residual = &one });
    }
    zn_vae_take(r, y, 2);
}

/* Twice the frames, of a chunk of the decoder.  The first frame of a video is not kept for the chunks after it. */
static void double_frames(zn_vae_run *r, const zn_vae_level *l, bool first)
{
    const zn_tensor x = r->x;
    zn_tensor in, u, y;

    if (first) {
        next_state(r, frames(x, 0, 1), 2, true);
        return;
    }
    in = with_past(r, x, NULL, 1, false);
    u = zn_vae_slot(r, 2, x.n, x.h, x.w, 2 * x.c);
    causal(r, u, in, &l->time[2], l->time, (zn_tail){ 0 }, false);
    y = zn_vae_slot(r, 1, 2 * x.n, x.h, x.w, x.c);
    for (int t = 0; t < y.n; t++)
        zn_map(r->c, frames(y, t, 1), zn_slice(frames(u, t / 2, 1), t % 2 * x.c, x.c), (zn_tail){ 0 });
    zn_vae_take(r, y, 1);
}

/* x[t] += the shortcut of the level, from its input `in`, whose frames may be half or twice as many. */
static void add_shortcut(zn_vae_run *r, const zn_vae_level *l, zn_tensor in)
{
    for (int t = 0; t < r->x.n && l->shortcut; t++) {
        const int each = in.n > r->x.n ? in.n / r->x.n : 1, from = in.n < r->x.n ? t / (r->x.n / in.n) : t * each;
        const zn_tensor x = frames(r->x, t, 1), last = frames(in, from + each - 1, 1);
        zn_tensor a;

        switch (l->shortcut) {
        case ZN_VAE_INPUT:
            zn_combine(r->c, x, x, last, ZN_ADD, (zn_tail){ 0 });
            break;
        case ZN_VAE_SPREAD:
            a = zn_vae_slot(r, 1, 1, x.h, x.w, in.c);
            zn_resize(r->c, a, last, ZN_AVERAGE);
            zn_conv2d(r->c, x, a, &l->mix, (zn_tail){ .residual = &x });
            if (each > 1) {
                zn_resize(r->c, a, frames(in, from, 1), ZN_AVERAGE);
                zn_conv2d(r->c, x, a, &l->mix_past, (zn_tail){ .residual = &x });
            }
            break;
        case ZN_VAE_DEAL:
            a = zn_vae_slot(r, 1, 1, in.h, in.w, 4 * x.c);
            zn_conv2d(r->c, a, last, &l->mix, (zn_tail){ 0 });
            zn_shuffle(r->c, x, a, 2, (zn_tail){ .residual = &x });
            break;
        default:
            a = zn_vae_slot(r, 1, 1, x.h, x.w, in.c);
            zn_resize(r->c, a, last, l->shortcut == ZN_VAE_MEAN ? ZN_AVERAGE : ZN_NEAREST);
            zn_combine(r->c, x, x, a, ZN_ADD, (zn_tail){ 0 });
        }
    }
}

static void run_level(zn_vae_run *r, const zn_vae *m, const zn_vae_level *l, bool first)
{
    zn_tensor in = r->x;

    if (l->shortcut) {
        in = zn_vae_slot(r, 3, in.n, in.h, in.w, in.c);
        zn_map(r->c, in, r->x, (zn_tail){ 0 });
    }
    for (int j = 0; j < l->n_res; j++)
        run_res(r, &l->res[j], first);
    if (l->in_time && m->decoder)
        double_frames(r, l, first);
    if (l->resamples)
        zn_vae_conv(r, &l->resample, (zn_tail){ 0 });
    if (l->in_time && !m->decoder)
        halve_frames(r, l, first);
    add_shortcut(r, l, in);
}

static void run_middle(zn_vae_run *r, const zn_vae *m, bool first)
{
    run_res(r, &m->middle[0], first);
    zn_vae_attend(r, &m->attention);
    run_res(r, &m->middle[1], first);
}

void zn_vae_video_walk(zn_vae_run *r, const zn_vae *m, const zn_call *call)
{
    const bool first = call->first;
    const zn_tensor y = call->out[0];

    if (m->decoder)
        zn_vae_conv(r, &m->quant, (zn_tail){ 0 });
    else
        zn_vae_patch(r, m);
    run_conv(r, NULL, &m->first, m->past_first, (zn_tail){ 0 }, first);
    if (m->decoder)
        run_middle(r, m, first);
    for (int i = 0; i < m->n_levels; i++)
        run_level(r, m, &m->level[i], first);
    if (!m->decoder)
        run_middle(r, m, first);
    run_conv(r, &m->last_norm, &m->last, m->past_last, (zn_tail){ .pre = m->end }, first);
    if (!m->decoder)
        zn_conv2d(r->c, y, r->x, &m->quant, (zn_tail){ 0 });
    else if (m->patch > 1)
        zn_shuffle(r->c, y, r->x, m->patch, (zn_tail){ 0 });
    else
        zn_map(r->c, y, r->x, (zn_tail){ 0 });
}
