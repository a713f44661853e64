/* SPDX-License-Identifier: MIT */
/* find.c - `zenith find`: the frames of the faces in pictures. */
#include "cli.h"
#include "faces.h"
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FACES = 64 };

zn_status faces_in(zn_face *list, int max, int *n, zn_finder *finder, const zn_array *picture, zn_error *err)
{
    zn_array copy = *picture;
    const zn_source source = array_source(&copy);

    return zn_find_faces(list, max, n, finder, &source, err);
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

        if (!picture_load(&picture, o->word[i], &err) || faces_in(face, MAX_FACES, &n, finder, &picture, &err))
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
