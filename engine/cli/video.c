/* SPDX-License-Identifier: MIT */
/* video.c - `zenith video encode|decode|roundtrip IN OUT`: frames to Wan's latents, and back, in folders of pictures.
 *
 *   encode      a folder of frames, or a .npy video ── latents, .npy
 *   decode      latents ── a folder of frames, 000001.png ..., or a .npy video
 *   roundtrip   frames ── frames; latents are never kept
 */
#include "frames.h"
#include "pictures.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static bool on_progress(void *cookie, double done)
{
    const bool *shows = cookie;

    if (*shows)
        show_progress(NULL, done);
    return !interrupted;
}

/* ---- frames out ------------------------------------------------------------------------------------------------------ */

typedef struct folder {
    const char *path;
    int h, w;
    int written;
    float *part;
    zn_error err;
} folder;

static bool folder_frame(void *cookie, int32_t i, float *frame)
{
    folder *f = cookie;
    char path[4096];

    if (!check_numbers(frame, (size_t)f->h * (size_t)f->w * 3, &f->err))
        return false;
    for (size_t j = 0; j < (size_t)f->h * (size_t)f->w * 3; j++)
        f->part[j] = 0.5f * frame[j] + 0.5f;
    snprintf(path, sizeof path, "%s/%06d.%s", f->path, i + 1, picture_writes_png() ? "png" : "ppm");
    if (!picture_write(path, &(zn_array){ f->part, f->h, f->w, 3 }, NULL, picture_writes_png(), &f->err))
        return false;
    f->written++;
    return true;
}

static bool has_pictures(const char *path)
{
    DIR *d = opendir(path);
    bool found = false;

    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = strspn(e->d_name, "0123456789") == 6 && e->d_name[6] == '.';
    if (d)
        closedir(d);
    return found;
}

/* A new folder, or one without numbered pictures. */
static bool make_folder(const char *path, zn_error *err)
{
    struct stat st;

    if (mkdir(path, 0777) && (errno != EEXIST || stat(path, &st) || !S_ISDIR(st.st_mode)))
        snprintf(err->text, sizeof err->text, "the folder %.300s cannot be made", path);
    else if (has_pictures(path))
        snprintf(err->text, sizeof err->text, "there are frames in %.300s already: name another folder", path);
    else
        return true;
    return false;
}

/* ---- the command ------------------------------------------------------------------------------------------------------ */

typedef struct work {
    const options *o;
    const char *to;
    zn_engine *engine;
    zn_model *encoder, *decoder; /* NULL: not used */
    video_input in;
    zn_job job;
    bool shows;
} work;

static bool open_models(work *k, bool encodes, bool decodes, zn_error *err)
{
    const options *o = k->o;
    const zn_open open = { .files = o->weights, .n_files = o->n_weights, .precision = precision_of(o) };

    return !zn_engine_open(&k->engine, o->engine, o->threads, err) &&
        (!encodes || !zn_model_open(&k->encoder, k->engine, "wan-video-encode", &open, err)) &&
        (!decodes || !zn_model_open(&k->decoder, k->engine, "wan-video-decode", &open, err));
}

static bool run(work *k, const zn_frames *out, zn_error *err)
{
    const zn_frames *in = &k->in.frames;

    if (k->encoder && k->decoder)
        return !zn_model_pass_video(k->encoder, k->decoder, out, in, &k->job, err);
    return !zn_model_run_video(k->encoder ? k->encoder : k->decoder, out, in, &k->job, err);
}

static bool run_to_array(work *k, zn_frames sizes, zn_error *err)
{
    npy_video out = { .frames = sizes };
    bool ok = npy_create_video(&out, k->to, err);

    if (!ok)
        return false;
    ok = run(k, &out.frames, err);
    return npy_close_video(&out, ok, err);
}

static bool run_to_folder(work *k, zn_frames sizes, zn_error *err)
{
    folder f = { .path = k->to, .h = sizes.h, .w = sizes.w };
    bool ok;

    f.part = malloc((size_t)f.h * (size_t)f.w * 3 * sizeof(float));
    sizes.move = folder_frame;
    sizes.cookie = &f;
    if (!f.part)
        snprintf(err->text, sizeof err->text, "out of memory for a frame");
    ok = f.part && make_folder(k->to, err) && run(k, &sizes, err);
    if (*f.err.text)
        *err = f.err;
    free(f.part);
    if (ok)
        printf("%d frames in %s\n", f.written, k->to);
    return ok;
}

static bool video(work *k, const char *from, zn_error *err)
{
    zn_frames sizes = { 0 };
    bool ok = video_open(&k->in, from, err);

    if (ok && k->encoder && k->decoder)
        sizes = k->in.frames;
    else if (ok)
        ok = !zn_model_video_shape(k->encoder ? k->encoder : k->decoder, &k->in.frames, &sizes, err);
    if (ok && (!k->decoder || (strlen(k->to) > 4 && !strcmp(k->to + strlen(k->to) - 4, ".npy"))))
        ok = run_to_array(k, sizes, err);
    else
        ok = ok && run_to_folder(k, sizes, err);
    say_cleaned(k->in.n_cleaned, from);
    if (*k->in.err.text)
        *err = k->in.err;
    video_close(&k->in);
    return ok;
}

int cmd_video(const options *o)
{
    const bool round = o->n_words == 3 && !strcmp(o->word[0], "roundtrip");
    const bool encodes = round || (o->n_words == 3 && !strcmp(o->word[0], "encode"));
    const bool decodes = round || (o->n_words == 3 && !strcmp(o->word[0], "decode"));
    work k = { .o = o, .shows = o->progress };
    zn_error err = { "" };
    bool ok;

    if (!encodes && !decodes)
        return usage(
            "zenith video encode FRAMES LATENTS.npy | decode LATENTS FRAMES | roundtrip FRAMES FRAMES [--weights "
            "FILE]; FRAMES is a folder");
    k.to = o->word[2];
    k.job = (zn_job){ .progress = on_progress, .cookie = &k.shows };
    signal(SIGINT, interrupt);
    ok = open_models(&k, encodes, decodes, &err) && video(&k, o->word[1], &err);
    zn_model_close(&k.encoder);
    zn_model_close(&k.decoder);
    zn_engine_close(&k.engine);
    return ok ? EXIT_DONE : fail("%s", err.text);
}
