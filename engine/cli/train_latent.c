/* SPDX-License-Identifier: MIT */
/* train_latent.c - `zenith train diffae-latent`: the network that draws new faces, from a folder of pictures. */
#include "codes.h"
#include "pictures.h"
#include "train.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct show {
    double start, shown;
    const volatile sig_atomic_t *interrupted;
} show;

static bool on_step(void *cookie, const zn_latent_report *r)
{
    show *s = cookie;
    const double time = now_ms() / 1e3;

    if (time - s->shown > (isatty(STDERR_FILENO) ? 0.2 : 10) || r->step == r->steps) {
        fprintf(stderr, "%sstep %lld of %lld  loss %.5f  %.1f steps/s%s", isatty(STDERR_FILENO) ? "\r" : "",
                (long long)r->step, (long long)r->steps, r->loss, (double)r->step / (time - s->start),
                isatty(STDERR_FILENO) && r->step < r->steps ? "   " : "\n");
        s->shown = time;
    }
    return !*s->interrupted;
}

static int train(face_encoder *s, zn_engine *engine, const latent_options *o)
{
    const double now = now_ms() / 1e3;
    show shown = { now, now, o->interrupted };
    zn_latent_report report;
    codes all = { 0 };
    int status = encoder_read(s, &all, o->pictures);

    if (!status) {
        const zn_latent_lesson lesson = { .weights = s->plan.weights,
                                          .codes = all.data,
                                          .n = all.n,
                                          .d = s->plan.out.c,
                                          .steps = o->steps,
                                          .batch = o->batch,
                                          .rate = o->rate,
                                          .seed = o->seed };

        fprintf(stderr, "%d codes of %d numbers from %s\n", all.n, s->plan.out.c, o->pictures);
        shown.start = now_ms() / 1e3;
        if (zn_latent_train(o->out, &report, engine, &lesson, on_step, &shown, &s->err))
            status = fail("%s", s->err.text);
        else
            printf("error (MSE of v) of codes that were held out: %.4f before, %.4f now\n%s\n", report.before,
                   report.after, o->out);
    }
    free(all.data);
    return status;
}

int train_latent(const latent_options *o)
{
    face_encoder s = { .choice = { .engine = o->engine, .n_threads = o->threads }, .most = ZN_LATENT_MAX };
    zn_engine *engine = NULL;
    char path[4096];
    int status;

    if (!o->pictures)
        return usage("train diffae-latent takes a folder: --pictures DIR");
    if (!pictures_supported())
        return fail("this build reads no pictures: install libpng and libjpeg (Debian: libpng-dev, libjpeg-dev) and "
                    "build again");
    if (!encoder_open(&s, path, o->weights, o->whole) ||
        zn_engine_open_to_train(&engine, o->engine, o->threads, &s.err))
        status = fail("%s", s.err.text);
    else
        status = train(&s, engine, o);
    zn_engine_close(&engine);
    zn_session_close(&s.session);
    return status;
}
