/* SPDX-License-Identifier: MIT */
/* teach.c - `zenith teach`: an attribute of faces from two folders of pictures. */
#include "codes.h"
#include "pictures.h"

#include "../zenith_train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096 };

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
    } else if (!encoder_read(s, &with, o->with) && !encoder_read(s, &without, o->without)) {
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
    face_encoder s = { .choice = choice_of(o), .most = ZN_TEACH_MAX };
    char weights[PATH_SIZE], folder[PATH_SIZE / 2], path[PATH_SIZE];
    int status;

    if (o->n_words != 1 || !o->with || !o->without || o->n_out > 1 || o->n_weights > 1)
        return usage("teach takes a name and two folders: zenith teach NAME --with DIR --without DIR");
    if (!pictures_supported())
        return fail("this build reads no pictures: install libpng and libjpeg (Debian: libpng-dev, libjpeg-dev) and "
                    "build again");
    if (!encoder_open(&s, weights, o->n_weights ? o->weights[0] : NULL, o->whole))
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
