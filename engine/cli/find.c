/* SPDX-License-Identifier: MIT */
/* find.c - `zenith find`: the frames of the faces in pictures. */
#include "cli.h"
#include "faces.h"
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FACES = 64 };

static bool read_array(void *cookie, zn_rect r, float *dst)
{
    const zn_array *a = cookie;

    for (int32_t i = 0; i < r.h; i++)
        memcpy(dst + (size_t)i * (size_t)r.w * 3, a->data + ((size_t)(r.y + i) * (size_t)a->w + (size_t)r.x) * 3,
               (size_t)r.w * 3 * sizeof *dst);
    return true;
}

zn_status faces_in(zn_face *list, int max, int *n, zn_finder *finder, const zn_array *picture, zn_error *err)
{
    zn_array copy = *picture;
    const zn_source source = { copy.w, copy.h, copy.c, read_array, &copy };

    return zn_find_faces(list, max, n, finder, &source, err);
}

bool faces_read(zn_array *out, const char *path, zn_error *err)
{
    const char *dot = strrchr(path, '.');
    char why[WHY_SIZE];
    int rank;

    if (dot && !strcmp(dot, ".npy"))
        return npy_read(out, &rank, path, err);
    switch (picture_read(out, path, why)) {
    case ZN_OK:
        return true;
    case ZN_E_USAGE:
        snprintf(err->text, sizeof err->text, "%.300s is no .npy file%s", path,
                 pictures_supported() ? " and no PNG or JPEG picture by its name"
                                      : ", and this build lacks libpng or libjpeg");
        return false;
    default:
        snprintf(err->text, sizeof err->text, "%.300s: %s", path, why);
        return false;
    }
}

int cmd_find(const options *o)
{
    const zn_open open = { .files = o->weights, .n_files = o->n_weights, .precision = precision_of(o) };
    zn_engine *engine = NULL;
    zn_finder *finder = NULL;
    zn_error err = { "" };
    int status = EXIT_DONE;

    if (!o->n_words)
        return usage("find takes pictures: zenith find PICTURE...");
    if (zn_engine_open(&engine, o->engine, o->threads, &err) || zn_finder_open(&finder, engine, &open, &err))
        status = fail("%s", err.text);
    for (int i = 0; finder && i < o->n_words; i++) {
        zn_array picture = { 0 };
        zn_face face[MAX_FACES];
        int n = 0;

        if (!faces_read(&picture, o->word[i], &err) || faces_in(face, MAX_FACES, &n, finder, &picture, &err))
            status = fail("%s", err.text);
        else if (!n)
            status = fail("%s: no face was found", o->word[i]);
        for (int k = 0; k < n; k++)
            printf("%s%sx=%.2f y=%.2f size=%.2f angle=%.2f score=%.3f\n", o->n_words > 1 ? o->word[i] : "",
                   o->n_words > 1 ? ": " : "", (double)face[k].x, (double)face[k].y, (double)face[k].size,
                   (double)face[k].angle, (double)face[k].score);
        free(picture.data);
    }
    zn_finder_close(&finder);
    zn_engine_close(&engine);
    return status;
}
