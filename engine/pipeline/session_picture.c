/* SPDX-License-Identifier: MIT */
/* session_picture.c - pictures of any size in 0..1, for an autoencoder that takes others.
 *
 *   picture ── mirrored to whole pixels of the latent, or to the one size that it takes ── 2 x - 1 ── encoder
 *   decoder ── (x + 1) / 2 ── picture
 *
 * 2 x - 1, and back, for those that are centred.  All other networks get and make what is there.  Frames of a video go through one
 * picture, in which they lie one below the other. */
#include "session.h"

#include "../core/ints.h"
#include "../core/status.h"
#include "model.h"

#include <stdlib.h>

enum { BAND = 64 }; /* rows that are converted at a time */

typedef struct seen { /* the picture as the encoder sees it */
    const zn_source *picture;
    bool centred;
} seen;

/* The part of a line of n pixels that len pixels from `at` on come from. */
static void source_of(int32_t *first, int32_t *count, int at, int len, int n)
{
    int end = 0;

    *first = n;
    for (int j = at; j < at + len; j++) {
        *first = zn_imin(*first, zn_mirrored(j, 0, n));
        end = zn_imax(end, zn_mirrored(j, 0, n) + 1);
    }
    *count = end - *first;
}

static bool read_mirrored(const zn_source *p, zn_rect r, float *dst)
{
    const size_t c = (size_t)p->c;
    float *part;
    zn_rect from;
    bool ok;

    if (r.x + r.w <= p->w && r.y + r.h <= p->h)
        return p->read(p->cookie, r, dst);
    source_of(&from.x, &from.w, r.x, r.w, p->w);
    source_of(&from.y, &from.h, r.y, r.h, p->h);
    part = malloc((size_t)from.w * (size_t)from.h * c * sizeof *part);
    ok = part && p->read(p->cookie, from, part);
    for (int y = r.y; ok && y < r.y + r.h; y++) {
        const float *row = part + (size_t)(zn_mirrored(y, 0, p->h) - from.y) * (size_t)from.w * c;

        for (int x = r.x; x < r.x + r.w; x++)
            for (size_t k = 0; k < c; k++)
                *dst++ = row[(size_t)(zn_mirrored(x, 0, p->w) - from.x) * c + k];
    }
    free(part);
    return ok;
}

static bool read_seen(void *cookie, zn_rect r, float *dst)
{
    const seen *s = cookie;

    if (!read_mirrored(s->picture, r, dst))
        return false;
    for (size_t i = 0; s->centred && i < (size_t)r.w * (size_t)r.h * 3; i++)
        dst[i] = 2 * dst[i] - 1;
    return true;
}

static bool write_centred(void *cookie, zn_rect r, const float *src)
{
    const zn_sink *out = cookie;
    const size_t row = (size_t)r.w * 3;
    float *band = malloc(row * (size_t)zn_imin(r.h, BAND) * sizeof *band);
    bool ok = band != NULL;

    for (int y = 0; ok && y < r.h; y += BAND) {
        const int rows = zn_imin(BAND, r.h - y);

        for (size_t i = 0; i < row * (size_t)rows; i++)
            band[i] = 0.5f * src[row * (size_t)y + i] + 0.5f;
        ok = out->write(out->cookie, (zn_rect){ r.x, r.y + y, r.w, rows }, band);
    }
    free(band);
    return ok;
}

zn_status zn_picture_run(zn_model *model, const zn_sink *out, const zn_source *in, zn_rect roi, const zn_job *job,
                         zn_error *err)
{
    const zn_geometry *g = &model->geometry;
    const bool centred = model->arch->centred, decodes = model->arch->info.in[0][0] == 'z';
    seen from = { in, centred };
    zn_source source = { zn_round_up(in->w, g->shrink), zn_round_up(in->h, g->shrink), in->c, read_seen, &from };
    const zn_sink sink = { write_centred, (void *)out };

    if (decodes)
        return zn_model_run_region(model, centred ? &sink : out, in, 1, roi, job, err);
    if (g->only_w)
        source.w = g->only_w, source.h = g->only_h;
    return zn_model_run_region(model, out, centred || source.w > in->w || source.h > in->h ? &source : in, 1, roi, job,
                               err);
}

/* ---- a video ------------------------------------------------------------------------------------------------------ */

typedef struct strip { /* frames, one below the other */
    const zn_source *in;
    const zn_sink *out;
    zn_rect first;
} strip;

static zn_rect frame_at(const strip *s, int32_t i)
{
    return (zn_rect){ 0, i * s->first.h, s->first.w, s->first.h };
}

static size_t frame_len(const strip *s)
{
    return (size_t)s->first.w * (size_t)s->first.h * 3;
}

static bool read_frame(void *cookie, int32_t i, float *frame)
{
    const strip *s = cookie;

    if (!s->in->read(s->in->cookie, frame_at(s, i), frame))
        return false;
    for (size_t j = 0; j < frame_len(s); j++)
        frame[j] = 2 * frame[j] - 1;
    return true;
}

static bool write_frame(void *cookie, int32_t i, float *frame)
{
    const strip *s = cookie;

    for (size_t j = 0; j < frame_len(s); j++)
        frame[j] = 0.5f * frame[j] + 0.5f;
    return s->out->write(s->out->cookie, frame_at(s, i), frame);
}

zn_status zn_picture_video(zn_model *encoder, zn_model *decoder, const zn_sink *out, const zn_source *in, int32_t n,
                           const zn_job *job, zn_error *err)
{
    strip s = { in, out, { 0, 0, in->w, n > 0 ? in->h / n : 0 } };
    const zn_frames from = { n, s.first.h, s.first.w, 3, read_frame, &s },
                    to = { n, s.first.h, s.first.w, 3, write_frame, &s };

    if (in->c != 3 || n < 1 || in->h % n)
        return zn_fail(err, ZN_E_USAGE, "A picture of %d rows is not %d frames of equal height.", in->h, n);
    return zn_model_pass_video(encoder, decoder, &to, &from, job, err);
}
