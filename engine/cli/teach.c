/* SPDX-License-Identifier: MIT */
/* teach.c - `zenith teach`: an attribute of faces from two folders of pictures. */
#include "composites.h"
#include "pictures.h"

#include "../zenith_face.h"
#include "../zenith_train.h"

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
    zn_session *session;
    zn_choice choice;
    zn_face_how how;
    zn_face_plan plan; /* of the last picture */
    codes *into;
    bool said;    /* that no faces are looked for */
    zn_error err; /* not empty: a failure that ends the reading */
} face_encoder;

/* ---- pictures to codes ------------------------------------------------------------------------------------- */

/* A plan for pictures of this size; the length of a code is plan.out.c. */
static zn_status plan_for(face_encoder *s, int32_t w, int32_t h)
{
    return zn_face_describe(&s->plan, s->session, &s->choice, &s->how, w, h, &s->err);
}

/* Room for one code more, or NULL. */
static float *new_code(face_encoder *s)
{
    const size_t d = (size_t)s->plan.out.c;
    codes *to = s->into;
    float *more = NULL;

    if (to->n >= ZN_TEACH_MAX)
        snprintf(s->err.text, sizeof s->err.text, "there are more than %d pictures in a folder", ZN_TEACH_MAX);
    else if (!(more = realloc(to->data, ((size_t)to->n + 1) * d * sizeof *more)))
        snprintf(s->err.text, sizeof s->err.text, "there is not enough memory for the codes");
    if (!more)
        return NULL;
    to->data = more;
    return more + (size_t)to->n * d;
}

static bool add_picture(void *cookie, const char *name, const zn_array *picture, const char *why)
{
    face_encoder *s = cookie;
    zn_array copy = picture ? *picture : (zn_array){ 0 }, code;
    const zn_face_picture in = { array_source(&copy), { 0, 0 } };
    zn_face_result result;
    zn_status status = ZN_OK;

    if (picture && !(status = plan_for(s, picture->w, picture->h)) &&
        !(status = zn_face_find(&s->plan, &in, NULL, &s->err))) {
        if (*s->plan.note.text && !s->said)
            say_note(&s->plan.note);
        s->said = true;
        if (s->plan.searched && !s->plan.found)
            why = "no face was found";
    }
    if (!picture || status == ZN_E_USAGE || (s->plan.searched && !s->plan.found)) {
        fprintf(stderr, "zenith: %s is left out: %s\n", name, status ? s->err.text : why);
        s->err.text[0] = 0;
        return true;
    }
    if (status)
        return false;
    code = s->plan.out;
    if (!(code.data = new_code(s)) || zn_face_run(&result, &s->plan, &in, NULL, &code, NULL, &s->err))
        return false;
    s->into->n++;
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

/* Fits and writes the direction. */
static int teach(face_encoder *s, const char *path, const options *o)
{
    codes with = { 0 }, without = { 0 };
    const int d = s->plan.out.c;
    float *mean = malloc(2 * (size_t)d * sizeof *mean);
    zn_teach_report report;
    int status = EXIT_FAILED;

    if (!mean || zn_face_statistics(mean, mean + d, d, &s->plan, &s->err)) {
        status = fail("%s", mean ? s->err.text : "out of memory");
    } else if (!read_folder(s, &with, o->with) && !read_folder(s, &without, o->without)) {
        const zn_lesson lesson = { o->word[0], s->plan.model, with.data, without.data, with.n, without.n,
                                   d,          mean,          mean + d };

        status = zn_teach(path, &report, &lesson, &s->err) ? fail("%s", s->err.text) : EXIT_DONE;
    }
    if (!status) {
        printf("%s: %d faces with, %d without; AUROC %.3f +- %.3f on faces that were left out (in %d parts)%s\n",
               o->word[0], with.n, without.n, report.auroc, report.error, report.parts,
               report.auroc - 2 * report.error < 0.5 ? ": that may be chance, show more pictures" : "");
        printf("%s\n", path);
    }
    free(with.data);
    free(without.data);
    free(mean);
    return status;
}

int cmd_teach(const options *o)
{
    enum { ANY = 64 }; /* the side of some picture */
    face_encoder s = { .choice = choice_of(o), .how = zn_face_defaults() };
    char weights[PATH_SIZE], folder[PATH_SIZE / 2], path[PATH_SIZE];
    int status;

    if (o->n_words != 1 || !o->with || !o->without || o->n_out > 1 || o->n_weights > 1)
        return usage("teach takes a name and two folders: zenith teach NAME --with DIR --without DIR");
    if (!pictures_supported())
        return fail("this build reads no pictures: install libpng and libjpeg (Debian: libpng-dev, libjpeg-dev) and "
                    "build again");
    s.how.task = ZN_FACE_ENCODE;
    s.how.search = o->whole ? ZN_SEARCH_NONE : ZN_SEARCH_OR_MIDDLE;
    s.how.model = o->n_weights ? file_path(weights, sizeof weights, o->weights[0]) : NULL;
    if (zn_session_open(&s.session, &s.err) || plan_for(&s, ANY, ANY))
        status = fail("%s", s.err.text);
    else if (zn_face_has_attribute(&s.plan, o->word[0]))
        status = fail("%s has an attribute '%s' already; take another name", s.plan.model, o->word[0]);
    else if (!o->n_out && !user_folder(folder, sizeof folder, &s.err))
        status = fail("%s", s.err.text);
    else {
        if (o->n_out)
            snprintf(path, sizeof path, "%s", o->out[0]);
        else
            snprintf(path, sizeof path, "%s/%.60s.attributes.safetensors", folder, o->word[0]);
        status = teach(&s, path, o);
    }
    zn_session_close(&s.session);
    return status;
}
