/* SPDX-License-Identifier: MIT */
/* video.c - `zenith video encode|decode|roundtrip IN OUT`: frames to Wan's latents, and back, in folders of pictures.
 *
 *   encode      a folder of frames, or a .npy video ── latents, .npy
 *   decode      latents ── a folder of frames, 000001.png ..., or a .npy video
 *   roundtrip   frames ── frames; latents are never kept
 *
 * The network takes 1 + 4 k frames whose sides are multiples of 8 or 16: the last frame, row and column are repeated up to there, and
 * what that adds is left out of the frames that are written. */
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

/* ---- frames in, larger --------------------------------------------------------------------------------------------- */

typedef struct padded {
    video_input in;
    zn_frames frames;
    float *last; /* the last frame that was read, as it is */
} padded;

static int up_to(int n, int multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static bool padded_frame(void *cookie, int32_t i, float *frame)
{
    padded *p = cookie;
    const zn_frames *from = &p->in.frames, *to = &p->frames;
    const size_t c = (size_t)from->c, row = (size_t)from->w * c;

    if (i < from->n && !from->move(from->cookie, i, p->last))
        return false;
    for (int y = 0; y < to->h; y++) {
        const float *at = p->last + (size_t)(y < from->h ? y : from->h - 1) * row;
        float *line = frame + (size_t)y * (size_t)to->w * c;

        memcpy(line, at, row * sizeof *line);
        for (int x = from->w; x < to->w; x++)
            memcpy(line + (size_t)x * c, at + row - c, c * sizeof *line);
    }
    return true;
}

/* multiple: of the sides; each: frames come as 1 + a multiple of this. */
static bool pad(padded *p, int multiple, int each, zn_error *err)
{
    const zn_frames *from = &p->in.frames;

    p->frames = (zn_frames){ .n = 1 + up_to(from->n - 1, each),
                             .h = up_to(from->h, multiple),
                             .w = up_to(from->w, multiple),
                             .c = from->c,
                             .move = padded_frame,
                             .cookie = p };
    p->last = malloc(p->in.len * sizeof *p->last);
    if (!p->last)
        snprintf(err->text, sizeof err->text, "out of memory for a frame");
    return p->last;
}

/* ---- frames out ------------------------------------------------------------------------------------------------------ */

typedef struct folder {
    const char *path;
    int n, h, w; /* of what is written; more is left out */
    int written;
    float *part;
    zn_error err;
} folder;

static bool folder_frame(void *cookie, int32_t i, float *frame)
{
    folder *f = cookie;
    char path[4096];

    if (i >= f->n)
        return true;
    for (size_t j = 0; j < (size_t)f->h * (size_t)f->w * 3; j++)
        f->part[j] = 0.5f * frame[j] + 0.5f;
    snprintf(path, sizeof path, "%s/%06d.%s", f->path, i + 1, picture_writes_png() ? "png" : "ppm");
    if (!picture_write(path, &(zn_array){ f->part, f->h, f->w, 3 }, picture_writes_png(), &f->err))
        return false;
    f->written++;
    return true;
}

typedef struct cropped { /* frames of the network, larger than those of the folder */
    folder folder;
    int w; /* of a row */
} cropped;

static bool cropped_frame(void *cookie, int32_t i, float *frame)
{
    cropped *c = cookie;

    for (int y = 1; y < c->folder.h && c->w > c->folder.w; y++)
        memmove(frame + (size_t)y * (size_t)c->folder.w * 3, frame + (size_t)y * (size_t)c->w * 3,
                (size_t)c->folder.w * 3 * sizeof *frame);
    return folder_frame(&c->folder, i, frame);
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
    padded in;
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
    zn_error ignored;
    bool ok = npy_create_video(&out, k->to, err);

    if (!ok)
        return false;
    ok = run(k, &out.frames, err);
    return npy_close_video(&out, ok, ok ? err : &ignored);
}

static bool run_to_folder(work *k, zn_frames sizes, zn_error *err)
{
    const zn_frames *from = &k->in.in.frames;
    cropped c = { { .path = k->to, .n = sizes.n, .h = sizes.h, .w = sizes.w }, sizes.w };
    bool ok;

    if (k->encoder) /* there and back: as many frames, as large as before */
        c.folder.n = from->n, c.folder.h = from->h, c.folder.w = from->w;
    c.folder.part = malloc((size_t)c.folder.h * (size_t)c.folder.w * 3 * sizeof(float));
    sizes.move = cropped_frame;
    sizes.cookie = &c;
    if (!c.folder.part)
        snprintf(err->text, sizeof err->text, "out of memory for a frame");
    ok = c.folder.part && make_folder(k->to, err) && run(k, &sizes, err);
    if (*c.folder.err.text)
        *err = c.folder.err;
    free(c.folder.part);
    if (ok)
        printf("%d frames in %s\n", c.folder.written, k->to);
    return ok;
}

static bool video(work *k, const char *from, zn_error *err)
{
    const zn_geometry *g;
    zn_frames latents = { 0 }, sizes = { 0 };
    bool ok = video_open(&k->in.in, from, err);

    g = zn_model_geometry(k->encoder ? k->encoder : k->decoder);
    ok = ok && pad(&k->in, k->encoder ? g->shrink : 1, k->encoder ? 4 : 1, err);
    if (ok && k->encoder)
        ok = !zn_model_video_shape(k->encoder, &k->in.frames, &latents, err);
    if (ok && k->decoder)
        ok = !zn_model_video_shape(k->decoder, k->encoder ? &latents : &k->in.frames, &sizes, err);
    if (ok && (!k->decoder || (strlen(k->to) > 4 && !strcmp(k->to + strlen(k->to) - 4, ".npy"))))
        ok = run_to_array(k, k->decoder ? sizes : latents, err);
    else
        ok = ok && run_to_folder(k, sizes, err);
    if (*k->in.in.err.text)
        *err = k->in.in.err;
    free(k->in.last);
    video_close(&k->in.in);
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
