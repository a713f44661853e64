/* SPDX-License-Identifier: MIT */
/* find.c - `zenith find`: the frames of the faces in pictures. */
#include "composites.h"
#include "pictures.h"

#include <stdlib.h>

enum { MAX_FACES = 64 };

int cmd_find(const options *o)
{
    const zn_choice choice = choice_of(o);
    zn_session *session = NULL;
    zn_error err = { "" };
    int status = EXIT_DONE;

    if (!o->n_words || o->n_weights > 1)
        return usage("find takes pictures: zenith find PICTURE... [--weights FILE]");
    if (zn_session_open(&session, &err))
        return fail("%s", err.text);
    for (int i = 0; i < o->n_words; i++) {
        zn_array picture = { 0 };
        zn_face face[MAX_FACES];
        int n = 0;
        const bool ok = load_picture(&picture, NULL, o->word[i], &err);
        const zn_source source = array_source(&picture);

        if (!ok ||
            zn_session_find_faces(face, MAX_FACES, &n, session, &choice, o->n_weights ? o->weights[0] : NULL, &source,
                                  &err))
            status = fail("%s", err.text);
        else if (!n)
            status = fail("%s: no face was found", o->word[i]);
        for (int k = 0; k < n; k++)
            printf("%s%sx=%.2f y=%.2f size=%.2f angle=%.2f score=%.3f\n", o->n_words > 1 ? o->word[i] : "",
                   o->n_words > 1 ? ": " : "", (double)face[k].x, (double)face[k].y, (double)face[k].size,
                   (double)face[k].angle, (double)face[k].score);
        free(picture.data);
    }
    zn_session_close(&session);
    return status;
}
