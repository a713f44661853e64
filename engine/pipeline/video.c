/* SPDX-License-Identifier: MIT */
/* video.c - a video of any length, chunk by chunk, through a network that is causal in time (zn_stream).
 *
 *   frame 0 ── chunk ── frame 0        the network's state, two frames of every layer's input, stays on the device
 *   frames 1..4 ── chunk ── frame 1    (an encoder of Wan; its decoder takes one frame and gives four)
 *
 * In memory are one chunk and the state, however long the video is. */
#include "video.h"

#include <stdlib.h>

zn_status zn_video_shape(const zn_model *m, const zn_frames *in, zn_frames *out, zn_error *err)
{
    const zn_stream *s = m->arch->stream;
    const zn_geometry *g = &m->geometry;
    const char *id = m->arch->info.id;

    if (!s)
        return zn_fail(err, ZN_E_USAGE, "%s takes no video", id);
    if (*m->failed.text)
        return zn_fail(err, ZN_E_DEVICE, "%s; a video needs another engine: choose it by name", m->failed.text);
    if (in->n < 1 || in->h < 1 || in->w < 1 || in->n > (1 << 24) || in->h > (1 << 20) || in->w > (1 << 20))
        return zn_fail(err, ZN_E_USAGE, "a video of %d frames of %d x %d cannot be processed", in->n, in->w, in->h);
    if (in->c != g->in_c)
        return zn_fail(err, ZN_E_USAGE, "%s (%s) takes %d channels, not %d", id, m->variant, g->in_c, in->c);
    if (in->h % g->shrink || in->w % g->shrink)
        return zn_fail(err, ZN_E_USAGE, "the sides of frames of %d x %d are not multiples of %d: crop or pad them",
                       in->w, in->h, g->shrink);
    if ((in->n - 1) % s->frames_in)
        return zn_fail(err, ZN_E_USAGE, "%d frames are not 1 plus a multiple of %d: leave out %d, or repeat the last",
                       in->n, s->frames_in, (in->n - 1) % s->frames_in);
    out->n = 1 + (in->n - 1) / s->frames_in * s->frames_out;
    out->h = in->h / g->shrink * g->grow;
    out->w = in->w / g->shrink * g->grow;
    out->c = g->out_c;
    return ZN_OK;
}

static zn_call chunk_call(const zn_run *r, const zn_frames *out, const zn_frames *in, bool first, void *state)
{
    const zn_stream *s = r->model->arch->stream;

    return (zn_call){
        .in = { { NULL, first ? 1 : s->frames_in, in->h, in->w, in->c, in->c, ZN_F32 } },
        .out = { { NULL, first ? 1 : s->frames_out, out->h, out->w, out->c, out->c, ZN_F32 } },
        .n_in = 1,
        .n_out = 1,
        .set = r->set,
        .state = state,
        .first = first,
    };
}

typedef struct chunks { /* memory of a run */
    float *in, *out;    /* frames of one chunk */
    size_t in_len, out_len;
    void *state;
} chunks;

static zn_status run_chunk(zn_run *r, chunks *k, const zn_frames *out, const zn_frames *in, int i, zn_error *err)
{
    const zn_stream *s = r->model->arch->stream;
    const zn_call call = chunk_call(r, out, in, !i, k->state);
    const int from = i ? 1 + (i - 1) * s->frames_in : 0, to = i ? 1 + (i - 1) * s->frames_out : 0;

    for (int j = 0; j < call.in[0].n; j++)
        if (!in->move(in->cookie, from + j, k->in + (size_t)j * k->in_len))
            return zn_fail(err, ZN_E_FILE, "frame %d could not be read", from + j);
    zn_run_start(r, &call, (const float *const[]){ k->in }, (float *const[]){ k->out });
    zn_run_finish(r);
    if (r->ctx.status)
        return r->ctx.status;
    for (int j = 0; j < call.out[0].n; j++)
        if (!out->move(out->cookie, to + j, k->out + (size_t)j * k->out_len))
            return zn_fail(err, ZN_E_FILE, "frame %d of the result could not be written", to + j);
    return ZN_OK;
}

/* The memory of a chunk and the state; refused if that is too much. */
static zn_status measure(zn_run *r, const zn_frames *out, const zn_frames *in, size_t *state, zn_error *err)
{
    static char nowhere;
    const zn_model *m = r->model;
    const zn_call call = chunk_call(r, out, in, false, &nowhere), first = chunk_call(r, out, in, true, &nowhere);
    const zn_measure *one;
    double work;
    zn_status s = zn_run_measure(r, &first, &one, err);

    if (s)
        return s;
    work = one->work;
    if ((s = zn_run_measure(r, &call, &one, err)))
        return s;
    *state = m->arch->stream->state(m->net, &call, r->ctx.be->tensor_type[m->precision]);
    r->ctx.total = work + one->work * ((in->n - 1) / m->arch->stream->frames_in);
    if (one->peak + *state > r->most)
        return zn_fail(err, ZN_E_MEMORY,
                       "%s needs %zu MiB for frames of %d x %d, beside %zu MiB of weights, where %zu are allowed; use "
                       "smaller frames or set %s to more",
                       m->arch->info.id, (one->peak + *state) >> 20, in->w, in->h, m->need.weights >> 20, r->most >> 20,
                       m->engine->be->memory_variable);
    return ZN_OK;
}

zn_status zn_video_run(zn_model *m, const zn_frames *out, const zn_frames *in, const zn_job *job, zn_error *err)
{
    const zn_backend *be = m->engine->be;
    zn_frames want = { 0 };
    chunks k = { 0 };
    size_t state;
    zn_run r;
    zn_status s = zn_run_begin(&r, m, job, err);

    if (s || (s = zn_video_shape(m, in, &want, err)))
        return s;
    if (out->n != want.n || out->h != want.h || out->w != want.w || out->c != want.c)
        return zn_fail(err, ZN_E_USAGE, "the result is a video of %d frames of %d x %d", want.n, want.w, want.h);
    if ((s = measure(&r, out, in, &state, err)))
        return s;
    if ((s = zn_turn_take(&m->engine->turn, err)))
        return s;
    k.in_len = (size_t)in->h * (size_t)in->w * (size_t)in->c;
    k.out_len = (size_t)out->h * (size_t)out->w * (size_t)out->c;
    k.in = be->host_alloc(m->engine->dev, (size_t)m->arch->stream->frames_in * k.in_len * sizeof(float));
    k.out = be->host_alloc(m->engine->dev, (size_t)m->arch->stream->frames_out * k.out_len * sizeof(float));
    k.state = be->alloc(m->engine->dev, state);
    if (!k.in || !k.out || !k.state)
        s = zn_fail(err, ZN_E_MEMORY, "out of memory for a chunk of the video");
    for (int i = 0; !s && i <= (in->n - 1) / m->arch->stream->frames_in; i++)
        s = run_chunk(&r, &k, out, in, i, err);
    be->sync(m->engine->dev, NULL); /* nothing may use the memory any more */
    be->host_free(m->engine->dev, k.in);
    be->host_free(m->engine->dev, k.out);
    be->free(m->engine->dev, k.state);
    zn_turn_give(&m->engine->turn);
    if (!s && r.ctx.progress)
        r.ctx.progress(r.ctx.cookie, 1);
    return s;
}
