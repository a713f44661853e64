/* SPDX-License-Identifier: MIT */
/* lib.c - the calls of zenith.h about models: argument checks, then calls into pipeline/. */
#include "pipeline/convert.h"
#include "pipeline/model.h"
#include "pipeline/request.h"
#include "pipeline/video.h"
#include "zenith_bench.h"

#include <stdlib.h>
#include <string.h>

/* ---- the registry ----------------------------------------------------------------------------------- */

const zn_model_info *zn_model_at(int i)
{
    const zn_arch *a = zn_arch_at(i);

    return a ? &a->info : NULL;
}

const zn_model_info *zn_model_named(const char *id)
{
    const zn_arch *a = zn_arch_named(id);

    return a ? &a->info : NULL;
}

const char *zn_weights_recognise(const zn_weights *weights, char *what, size_t size)
{
    const zn_arch *a;

    for (int i = 0; (a = zn_arch_at(i)); i++)
        if (a->recognise && a->recognise(weights, what, size))
            return a->info.id;
    return NULL;
}

zn_status zn_weights_convert(const char *out, const char *const *files, int n_files, const char *type, zn_error *what,
                             zn_error *err)
{
    if (err)
        err->text[0] = 0;
    if (!out || !*out || !files || n_files < 1)
        return zn_fail(err, ZN_E_USAGE, "No weight file is named");
    return zn_convert(out, files, n_files, type, what, err);
}

/* ---- open and close --------------------------------------------------------------------------------- */

zn_status zn_model_open(zn_model **out, zn_engine *engine, const char *id, const zn_open *open, zn_error *err)
{
    static const zn_open none;
    const zn_arch *a = zn_arch_named(id);

    *out = NULL;
    if (err)
        err->text[0] = 0;
    if (!a)
        return zn_fail(err, ZN_E_USAGE, "there is no model '%s'; `zenith models` lists them", id);
    return zn_standin_open(out, engine, a, open ? open : &none, err);
}

void zn_model_close(zn_model **model)
{
    zn_model_free(model);
}

const zn_geometry *zn_model_geometry(const zn_model *m)
{
    return &m->geometry;
}

int zn_model_example(const zn_model *m, int w, int h, zn_array in[ZN_MAX_PORTS])
{
    const zn_geometry *g = &m->geometry;
    zn_tensor t[ZN_MAX_PORTS];
    int n;

    if (!m->arch->example) {
        in[0] = (zn_array){ NULL, (h + g->grow - 1) / g->grow, (w + g->grow - 1) / g->grow, g->in_c };
        return 1;
    }
    n = m->arch->example(m->net, w, h, t);
    for (int i = 0; i < n; i++)
        in[i] = (zn_array){ NULL, t[i].n * t[i].h, t[i].w, t[i].c };
    return n;
}

const char *zn_model_precision(const zn_model *m)
{
    return zn_precision_names[m->precision];
}

zn_maker zn_model_maker(const zn_model *m)
{
    m = m->stood_in ? m->stand_in : m;
    return (zn_maker){ m->engine->be->name, zn_precision_names[m->precision] };
}

bool zn_model_part(zn_part_info *part, const zn_model *m, int i)
{
    const zn_model *p;

    m = *m->failed.text ? m->stand_in : m;
    p = i < m->n_parts ? m->part[i] : i == m->n_parts ? m->level : NULL;
    if (p)
        *part = (zn_part_info){ p->arch->info.id, zn_precision_names[p->precision] };
    return p != NULL;
}

int64_t zn_model_parameters(const zn_model *m)
{
    return m->parameters;
}

/* ---- running ---------------------------------------------------------------------------------------------- */

zn_status zn_model_shape(const zn_model *m, const zn_array *in, int n_in, zn_array *out, zn_error *err)
{
    return zn_request_shape(m, in, n_in, out, err);
}

zn_status zn_model_plan(zn_model *m, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan, zn_error *err)
{
    return zn_request_plan(m, in, n_in, job, plan, err);
}

zn_status zn_model_profile(zn_model *m, const zn_array *in, int n_in, zn_array *out, const zn_job *job,
                           void (*print)(void *cookie, const zn_layer_time *t), void *cookie, zn_error *err)
{
    zn_request q = { .arrays = in, .results = out, .n_in = n_in, .job = job, .trace = print, .trace_cookie = cookie };

    return zn_request_run(m, &q, err);
}

zn_status zn_model_time(zn_model *m, const zn_array *in, int n_in, zn_array *out, const zn_job *job, double *ms,
                        zn_error *err)
{
    zn_request q = { .arrays = in, .results = out, .n_in = n_in, .job = job, .time = ms };

    *ms = 0;
    return zn_request_run(m, &q, err);
}

zn_status zn_model_run(zn_model *m, const zn_array *in, int n_in, zn_array *out, const zn_job *job, zn_error *err)
{
    return zn_model_profile(m, in, n_in, out, job, NULL, NULL, err);
}

zn_status zn_latent_show(zn_model *decoder, const zn_array *z, unsigned char *rgb, zn_error *err)
{
    const float scale = decoder->arch->centred ? 127.5f : 255, offset = (decoder->arch->centred ? 127.5f : 0) + 0.5f;
    zn_array x = { 0 };
    zn_status s = zn_model_shape(decoder, z, 1, &x, err);

    if (!s && x.c != 3)
        s = zn_fail(err, ZN_E_USAGE, "%s makes no picture", decoder->arch->info.id);
    if (!s && !(x.data = malloc(zn_array_len(&x) * sizeof *x.data)))
        s = zn_fail(err, ZN_E_MEMORY, "out of memory for a preview");
    if (!s)
        s = zn_model_run(decoder, z, 1, &x, NULL, err);
    for (size_t i = 0; !s && i < zn_array_len(&x); i++) {
        float v = x.data[i] * scale + offset;

        rgb[i] = v > 0 ? (unsigned char)(v < 255 ? v : 255) : 0; /* NaN gives 0 */
    }
    free(x.data);
    return s;
}

zn_status zn_model_video_shape(const zn_model *m, const zn_frames *in, zn_frames *out, zn_error *err)
{
    return zn_video_shape(m, in, out, err);
}

zn_status zn_model_run_video(zn_model *m, const zn_frames *out, const zn_frames *in, const zn_job *job, zn_error *err)
{
    return zn_video_run(m, out, in, job, err);
}

zn_status zn_model_video_plan(zn_model *m, const zn_frames *in, const zn_job *job, zn_plan *plan, zn_error *err)
{
    return zn_video_plan(m, plan, in, job, err);
}

zn_status zn_model_pass_video(zn_model *encoder, zn_model *decoder, const zn_frames *out, const zn_frames *in,
                              const zn_job *job, zn_error *err)
{
    return zn_video_pass(encoder, decoder, out, in, job, err);
}

zn_status zn_model_run_region(zn_model *m, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi,
                              const zn_job *job, zn_error *err)
{
    zn_request q = { .sources = in, .sink = out, .n_in = n_in, .roi = roi, .job = job };

    return zn_request_run(m, &q, err);
}
