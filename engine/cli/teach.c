/* SPDX-License-Identifier: MIT */
/* teach.c - `zenith teach`: an attribute of faces from two folders of pictures. */
#include "../zenith_train.h"
#include "cli.h"
#include "faces.h"
#include "pictures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096 };

typedef struct codes {
    float *data; /* [n][d] */
    int n;
} codes;

typedef struct face_encoder { /* makes codes of pictures */
    zn_engine *engine;
    zn_model *encoder;
    zn_finder *finder; /* NULL: the middle of a picture is its face */
    int side, d;
    float *face; /* [side][side][3] */
    codes *into;
    zn_error err; /* not empty: a failure that ends the reading */
} face_encoder;

/* ---- pictures to codes ------------------------------------------------------------------------------------- */

/* The frame of the largest face; without a finder, the largest square in the middle.  0: no face. */
static int frame_of(zn_face *frame, face_encoder *s, const zn_array *picture)
{
    const int32_t shorter = picture->w < picture->h ? picture->w : picture->h;
    int n = 1;

    *frame = (zn_face){ 0.5f * (float)picture->w, 0.5f * (float)picture->h, (float)shorter, 0, 1 };
    if (s->finder)
        faces_in(frame, 1, &n, s->finder, picture, &s->err);
    return n;
}

static bool add_picture(void *cookie, const char *name, const zn_array *picture, const char *why)
{
    face_encoder *s = cookie;
    codes *to = s->into;
    zn_array x = { s->face, s->side, s->side, 3 }, y = { NULL, 1, 1, s->d };
    float *more;
    zn_face frame;

    if (picture && !frame_of(&frame, s, picture)) {
        picture = NULL;
        why = "no face was found";
    }
    if (*s->err.text)
        return false;
    if (!picture) {
        fprintf(stderr, "zenith: %s is left out: %s\n", name, why);
        return true;
    }
    if (to->n >= ZN_TEACH_MAX) {
        snprintf(s->err.text, sizeof s->err.text, "there are more than %d pictures in a folder", ZN_TEACH_MAX);
        return false;
    }
    more = realloc(to->data, ((size_t)to->n + 1) * (size_t)s->d * sizeof *more);
    if (!more) {
        snprintf(s->err.text, sizeof s->err.text, "there is not enough memory for the codes");
        return false;
    }
    to->data = more;
    zn_face_cut(&x, picture, &frame);
    for (size_t i = 0; i < zn_array_len(&x); i++)
        x.data[i] = 2 * x.data[i] - 1;
    y.data = to->data + (size_t)to->n * (size_t)s->d;
    if (zn_model_run(s->encoder, &x, 1, &y, NULL, &s->err))
        return false;
    to->n++;
    return true;
}

static int read_folder(face_encoder *s, codes *into, const char *folder)
{
    zn_status status;

    s->into = into;
    status = pictures_read(folder, add_picture, s);
    if (status == ZN_E_FILE)
        return fail("the folder %s cannot be read", folder);
    if (status)
        return fail("there is not enough memory for the pictures in %s", folder);
    if (*s->err.text)
        return fail("%s", s->err.text);
    if (!into->n)
        return fail("there is no PNG or JPEG picture of a face in %s", folder);
    return EXIT_DONE;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

/* The name of a file without folder and ending. */
static void stem_of(char *stem, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dot;

    snprintf(stem, size, "%s", slash ? slash + 1 : path);
    dot = strrchr(stem, '.');
    if (dot && dot != stem)
        *dot = 0;
}

/* Mean and deviation of the training set's codes: from the weights, or from the attribute file in the same folder. */
static bool statistics(float *mean, float *deviation, int d, const char *const *files, int n_files, const char *stem,
                       zn_error *err)
{
    static const char *const names[2][2] = { { "conds_mean", "conds_std" }, { "mean", "std" } };
    char beside[PATH_SIZE], attributes[PATH_SIZE];
    const char *other = beside;
    bool ok = false;

    snprintf(attributes, sizeof attributes, "%.255s.attributes", stem);
    for (int i = 0; !ok && i < 2; i++) {
        zn_weights *w = NULL;

        if (i && zn_weights_find(beside, sizeof beside, attributes, err))
            break;
        ok = !zn_weights_open(&w, i ? &other : files, i ? 1 : n_files, err) &&
            !zn_weights_read(mean, (size_t)d, w, names[i][0], err) &&
            !zn_weights_read(deviation, (size_t)d, w, names[i][1], err);
        zn_weights_close(&w);
    }
    if (!ok)
        snprintf(err->text, sizeof err->text,
                 "neither the weights nor a file %.100s.safetensors say the mean and deviation of codes", attributes);
    return ok;
}

/* Whether the attribute file of the model already has an attribute of that name. */
static bool is_taken(const char *name, const char *stem)
{
    char attributes[PATH_SIZE], path[PATH_SIZE];
    const char *file = path, *names;
    zn_weights *w = NULL;
    zn_error err;
    bool taken = false;

    snprintf(attributes, sizeof attributes, "%.255s.attributes", stem);
    if (zn_weights_find(path, sizeof path, attributes, &err) || zn_weights_open(&w, &file, 1, &err))
        return false;
    names = zn_weights_meta(w, "names");
    for (size_t n; names && *names; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        taken = taken || (n == strlen(name) && !strncmp(names, name, n));
    }
    zn_weights_close(&w);
    return taken;
}

/* The user's own model folder; created if it does not exist. */
static bool user_folder(char *path, size_t size, zn_error *err)
{
    struct stat st;
    const int n = zn_user_folder(path, size);

    if (n <= 0 || (size_t)n >= size) {
        snprintf(err->text, sizeof err->text, "nothing says where your data is ($HOME); name a file with --out");
        return false;
    }
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    if (!mkdir(path, 0777) || (!stat(path, &st) && S_ISDIR(st.st_mode)))
        return true;
    snprintf(err->text, sizeof err->text, "the folder %.300s cannot be made: %s", path, strerror(errno));
    return false;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static void leave(face_encoder *s, codes *with, codes *without, float *mean)
{
    free(with->data);
    free(without->data);
    free(mean);
    free(s->face);
    zn_finder_close(&s->finder);
    zn_model_close(&s->encoder);
    zn_engine_close(&s->engine);
}

/* Engine, encoder and, unless the pictures are faces already, the finder. */
static bool enter(face_encoder *s, const options *o, const char *const *files, int n_files)
{
    const zn_open open = { .files = files, .n_files = n_files, .precision = precision_of(o) };

    if (zn_engine_open(&s->engine, o->engine, o->threads, &s->err) ||
        zn_model_open(&s->encoder, s->engine, "diffae-encode", &open, &s->err))
        return false;
    s->side = zn_model_geometry(s->encoder)->side;
    s->d = zn_model_geometry(s->encoder)->out_c;
    s->face = malloc((size_t)s->side * (size_t)s->side * 3 * sizeof *s->face);
    if (!s->face) {
        snprintf(s->err.text, sizeof s->err.text, "out of memory");
        return false;
    }
    if (!o->whole && zn_finder_open(&s->finder, s->engine, NULL, &s->err)) {
        fprintf(stderr, "zenith: faces are not looked for, the middle of each picture is taken: %s\n", s->err.text);
        s->err.text[0] = 0;
    }
    return true;
}

int cmd_teach(const options *o)
{
    face_encoder s = { 0 };
    codes with = { 0 }, without = { 0 };
    zn_lesson lesson = { 0 };
    zn_teach_report report;
    float *statistic = NULL;
    char found[PATH_SIZE], stem[PATH_SIZE], folder[PATH_SIZE / 2], path[PATH_SIZE];
    const char *file = found, *const *files = o->n_weights ? o->weights : &file;
    const int n_files = o->n_weights ? o->n_weights : 1;
    int status = EXIT_FAILED;

    if (o->n_words != 1 || !o->with || !o->without || o->n_out > 1)
        return usage("teach takes a name and two folders: zenith teach NAME --with DIR --without DIR");
    if (!pictures_supported())
        return fail("this build reads no pictures: install libpng and libjpeg (Debian: libpng-dev, libjpeg-dev) and "
                    "build again");
    if (!o->n_weights && zn_weights_find(found, sizeof found, "zenith-face", &s.err))
        return fail("%s", s.err.text);
    stem_of(stem, sizeof stem, files[0]);
    if (is_taken(o->word[0], stem))
        return fail("%s has an attribute '%s' already; take another name", stem, o->word[0]);
    if (!o->n_out && !user_folder(folder, sizeof folder, &s.err))
        return fail("%s", s.err.text);
    if (o->n_out)
        snprintf(path, sizeof path, "%s", o->out[0]);
    else
        snprintf(path, sizeof path, "%s/%.60s.attributes.safetensors", folder, o->word[0]);

    if (!enter(&s, o, files, n_files)) {
        fail("%s", s.err.text);
        goto end;
    }
    statistic = malloc(2 * (size_t)s.d * sizeof *statistic);
    if (!statistic || !statistics(statistic, statistic + s.d, s.d, files, n_files, stem, &s.err)) {
        fail("%s", statistic ? s.err.text : "out of memory");
        goto end;
    }
    s.err.text[0] = 0;
    if (read_folder(&s, &with, o->with) || read_folder(&s, &without, o->without))
        goto end;
    lesson =
        (zn_lesson){ o->word[0], stem, with.data, without.data, with.n, without.n, s.d, statistic, statistic + s.d };
    if (zn_teach(path, &report, &lesson, &s.err)) {
        fail("%s", s.err.text);
        goto end;
    }
    printf("%s: %d faces with, %d without; AUROC %.3f +- %.3f on faces that were left out (in %d parts)%s\n",
           o->word[0], with.n, without.n, report.auroc, report.error, report.parts,
           report.auroc - 2 * report.error < 0.5 ? ": that may be chance, show more pictures" : "");
    printf("%s\n", path);
    status = EXIT_DONE;
end:
    leave(&s, &with, &without, statistic);
    return status;
}
