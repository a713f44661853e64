/* SPDX-License-Identifier: MIT */
/* video.c - a video of any length, chunk by chunk, through a network that is causal in time (zn_stream).
 *
 *   frame 0 ── chunk ── frame 0        the network's state, two frames of every layer's input, stays on the device
 *   frames 1..4 ── chunk ── frame 1    (an encoder of Wan; its decoder takes one frame and gives four)
 *
 * In memory are one chunk and the state, however long the video is.  Encoder and decoder one after the other have a state each.
 *
 * Any number of frames of any size: an encoder sees the last frame, row and column repeated, up to a whole chunk of whole latent pixels;
 * there and back, what that adds is cut off again. */
#include "video.h"

#include "../core/ints.h"

#include <stdlib.h>
#include <string.h>

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
    out->n = 1 + zn_ceil_div(in->n - 1, s->frames_in) * s->frames_out;
    out->h = zn_ceil_div(in->h, g->shrink) * g->grow;
    out->w = zn_ceil_div(in->w, g->shrink) * g->grow;
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

typedef struct pass { /* of one network over a video */
    zn_run r;
    zn_frames in, out; /* sizes, those of `in` whole chunks and latent pixels; move and cookie are not used */
    float *from, *to;  /* frames of one chunk */
    void *state;
    size_t state_size, peak; /* bytes, of the device */
    double macs;
} pass;

static size_t frame_len(const zn_frames *f)
{
    return (size_t)f->h * (size_t)f->w * (size_t)f->c;
}

static int count_chunks(const pass *p)
{
    return 1 + (p->in.n - 1) / p->r.model->arch->stream->frames_in;
}

/* The memory of a chunk and the state; refused if that, and `beside`, is too much. */
static zn_status measure(pass *p, size_t beside, zn_error *err)
{
    static char nowhere;
    zn_run *r = &p->r;
    const zn_model *m = r->model;
    const zn_call call = chunk_call(r, &p->out, &p->in, false, &nowhere),
                  first = chunk_call(r, &p->out, &p->in, true, &nowhere);
    const int more = count_chunks(p) - 1;
    const zn_measure *one;
    zn_status s = zn_run_measure(r, &first, &one, err);

    if (s)
        return s;
    r->ctx.total = one->work;
    p->macs = one->macs;
    p->peak = one->peak;
    if ((s = zn_run_measure(r, &call, &one, err)))
        return s;
    r->ctx.total += one->work * more;
    p->macs += one->macs * more;
    p->peak = one->peak > p->peak ? one->peak : p->peak;
    p->state_size = m->arch->stream->state(m->net, &call, r->ctx.be->tensor_type[m->precision]);
    if (p->peak + p->state_size + beside > r->most)
        return zn_fail(err, ZN_E_MEMORY,
                       "%s needs %zu MiB for frames of %d x %d, beside %zu MiB of weights, where %zu are allowed; use "
                       "smaller frames or set %s to more",
                       m->arch->info.id, (p->peak + p->state_size + beside) >> 20, p->in.w, p->in.h,
                       m->need.weights >> 20, r->most >> 20, m->engine->be->memory_variable);
    return ZN_OK;
}

/* The pass of a model over frames of this size; nothing is allocated. */
static zn_status plan_pass(pass *p, zn_model *m, const zn_frames *in, const zn_job *job, size_t beside, zn_error *err)
{
    zn_status s = zn_run_begin(&p->r, m, job, err);

    if (s || (s = zn_video_shape(m, in, &p->out, err)))
        return s;
    p->in = (zn_frames){ .n = 1 + zn_round_up(in->n - 1, m->arch->stream->frames_in),
                         .h = zn_round_up(in->h, m->geometry.shrink),
                         .w = zn_round_up(in->w, m->geometry.shrink),
                         .c = in->c };
    return measure(p, beside, err);
}

static zn_status open_pass(pass *p, zn_error *err)
{
    const zn_model *m = p->r.model;
    const zn_backend *be = m->engine->be;
    const zn_stream *s = m->arch->stream;

    p->from = be->host_alloc(m->engine->dev, (size_t)s->frames_in * frame_len(&p->in) * sizeof(float));
    p->to = be->host_alloc(m->engine->dev, (size_t)s->frames_out * frame_len(&p->out) * sizeof(float));
    p->state = be->alloc(m->engine->dev, p->state_size);
    return p->from && p->to && p->state ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory for a chunk of the video");
}

static void close_pass(pass *p)
{
    const zn_engine *e = p->r.model->engine;

    e->be->sync(e->dev, NULL); /* nothing may use the memory any more */
    e->be->host_free(e->dev, p->from);
    e->be->host_free(e->dev, p->to);
    e->be->free(e->dev, p->state);
}

static zn_status run_chunk(pass *p, int i)
{
    const zn_call call = chunk_call(&p->r, &p->out, &p->in, !i, p->state);

    zn_run_start(&p->r, &call, (const float *const[]){ p->from }, (float *const[]){ p->to });
    zn_run_finish(&p->r);
    return p->r.ctx.status;
}

/* A frame of `small` to one of `large`, in place: the last column and row are repeated. */
static void extend(float *frame, const zn_frames *small, const zn_frames *large)
{
    const size_t c = (size_t)small->c, from = (size_t)small->w * c, to = (size_t)large->w * c;

    if (small->h == large->h && from == to)
        return;
    for (int y = large->h - 1; y >= 0; y--) {
        float *row = frame + (size_t)y * to;

        memmove(row, y < small->h ? frame + (size_t)y * from : frame + (size_t)(small->h - 1) * from,
                from * sizeof *row);
        for (size_t x = from; x < to; x++)
            row[x] = row[x - c];
    }
}

/* The inverse. */
static void crop(float *frame, const zn_frames *large, const zn_frames *small)
{
    const size_t from = (size_t)large->w * (size_t)large->c, to = (size_t)small->w * (size_t)small->c;

    for (int y = 1; from != to && y < small->h; y++)
        memmove(frame + (size_t)y * to, frame + (size_t)y * from, to * sizeof *frame);
}

static zn_status read_chunk(pass *p, const zn_frames *in, int i, zn_error *err)
{
    const int each = p->r.model->arch->stream->frames_in, from = i ? 1 + (i - 1) * each : 0, n = i ? each : 1;
    const size_t len = frame_len(&p->in);

    for (int j = 0; j < n; j++) {
        float *frame = p->from + (size_t)j * len;

        if (from + j >= in->n) { /* the first one of a chunk is there */
            memcpy(frame, frame - len, len * sizeof *frame);
            continue;
        }
        if (!in->move(in->cookie, from + j, frame))
            return zn_fail(err, ZN_E_FILE, "frame %d could not be read", from + j);
        extend(frame, in, &p->in);
    }
    return ZN_OK;
}

static zn_status write_chunk(const pass *p, const zn_frames *out, int i, zn_error *err)
{
    const int each = p->r.model->arch->stream->frames_out, to = i ? 1 + (i - 1) * each : 0, n = i ? each : 1;

    for (int j = 0; j < n && to + j < out->n; j++) {
        float *frame = p->to + (size_t)j * frame_len(&p->out);

        crop(frame, &p->out, out);
        if (!out->move(out->cookie, to + j, frame))
            return zn_fail(err, ZN_E_FILE, "frame %d of the result could not be written", to + j);
    }
    return ZN_OK;
}

/* Chunk i of the video through all passes, one or two: what the first gives is a frame of the second. */
static zn_status run_passes(pass *p, int n, const zn_frames *out, const zn_frames *in, int i, zn_error *err)
{
    zn_status s = read_chunk(&p[0], in, i, err);

    if (!s)
        s = run_chunk(&p[0], i);
    if (!s && n > 1) {
        memcpy(p[1].from, p[0].to, frame_len(&p[1].in) * sizeof(float));
        s = run_chunk(&p[1], i);
    }
    return s ? s : write_chunk(&p[n - 1], out, i, err);
}

static zn_status run_video(pass *p, int n, const zn_frames *out, const zn_frames *in, zn_error *err)
{
    zn_engine *engine = p[0].r.model->engine;
    const zn_frames *want = n > 1 ? in : &p[n - 1].out;
    zn_status s;

    if (out->n != want->n || out->h != want->h || out->w != want->w || out->c != p[n - 1].out.c)
        return zn_fail(err, ZN_E_USAGE, "the result is a video of %d frames of %d x %d", want->n, want->w, want->h);
    if ((s = zn_turn_take(&engine->turn, err)))
        return s;
    for (int k = 0; k < n && !s; k++)
        s = open_pass(&p[k], err);
    for (int i = 0; !s && i < count_chunks(&p[0]); i++)
        s = run_passes(p, n, out, in, i, err);
    for (int k = 0; k < n; k++)
        close_pass(&p[k]);
    zn_turn_give(&engine->turn);
    for (int k = 0; k < n && !s && p[k].r.ctx.progress; k++)
        p[k].r.ctx.progress(p[k].r.ctx.cookie, 1);
    return s;
}

zn_status zn_video_run(zn_model *m, const zn_frames *out, const zn_frames *in, const zn_job *job, zn_error *err)
{
    pass p = { .from = NULL };
    const zn_status s = plan_pass(&p, m, in, job, 0, err);

    return s ? s : run_video(&p, 1, out, in, err);
}

zn_status zn_video_plan(zn_model *m, zn_plan *plan, const zn_frames *in, const zn_job *job, zn_error *err)
{
    pass p = { .from = NULL };
    const zn_status s = plan_pass(&p, m, in, job, 0, err);
    const zn_stream *stream = m->arch->stream;

    *plan = (zn_plan){ 0 };
    if (s)
        return s;
    plan->macs = p.macs;
    plan->peak_bytes = p.peak + p.state_size +
        ((size_t)stream->frames_in * frame_len(&p.in) + (size_t)stream->frames_out * frame_len(&p.out)) * sizeof(float);
    plan->tile_w = in->w;
    plan->tile_h = in->h;
    plan->n_tiles = count_chunks(&p);
    plan->weight_bytes = m->need.weights;
    return ZN_OK;
}

/* ---- there and back ------------------------------------------------------------------------------------------- */

typedef struct both { /* the progress of two passes as one */
    const zn_job *job;
    double share[2], done[2];
} both;

static bool on_progress(both *b, int which, double done)
{
    b->done[which] = done;
    return b->job->progress(b->job->cookie, b->share[0] * b->done[0] + b->share[1] * b->done[1]);
}

static bool first_progress(void *cookie, double done)
{
    return on_progress(cookie, 0, done);
}

static bool second_progress(void *cookie, double done)
{
    return on_progress(cookie, 1, done);
}

/* The job of one of two models: the other's weights are beside it. */
static zn_job job_of(both *b, int which, const zn_model *other)
{
    zn_job job = *b->job;

    job.cookie = b;
    job.progress = !b->job->progress ? NULL : which ? second_progress : first_progress;
    job.beside += other->need.weights;
    return job;
}

zn_status zn_video_pass(zn_model *encoder, zn_model *decoder, const zn_frames *out, const zn_frames *in,
                        const zn_job *job, zn_error *err)
{
    static const zn_job none;
    both b = { .job = job ? job : &none };
    const zn_job jobs[2] = { job_of(&b, 0, decoder), job_of(&b, 1, encoder) };
    pass *p = calloc(2, sizeof *p);
    zn_status s = p ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory");

    if (!s && (encoder->engine != decoder->engine || !encoder->arch->stream || !decoder->arch->stream))
        s = zn_fail(err, ZN_E_USAGE, "%s and %s are not the halves of one video network", encoder->arch->info.id,
                    decoder->arch->info.id);
    if (!s)
        s = plan_pass(&p[0], encoder, in, &jobs[0], 0, err);
    if (!s)
        s = plan_pass(&p[1], decoder, &p[0].out, &jobs[1], p[0].peak + p[0].state_size, err);
    if (!s) {
        const double all = p[0].r.ctx.total + p[1].r.ctx.total;

        b.share[0] = p[0].r.ctx.total / all;
        b.share[1] = p[1].r.ctx.total / all;
        s = run_video(p, 2, out, in, err);
    }
    free(p);
    return s;
}
