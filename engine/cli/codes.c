/* SPDX-License-Identifier: MIT */
/* codes.c - see codes.h */
#include "codes.h"

#include "pictures.h"

#include <stdlib.h>

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

    if (to->n >= s->most)
        snprintf(s->err.text, sizeof s->err.text, "there are more than %d pictures in a folder", s->most);
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

int encoder_read(face_encoder *s, codes *into, const char *folder)
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

bool encoder_open(face_encoder *s, char path[4096], const char *weights, bool whole)
{
    enum { ANY = 64 }; /* the side of some picture */

    s->how = zn_face_defaults();
    s->how.task = ZN_FACE_ENCODE;
    s->how.search = whole ? ZN_SEARCH_NONE : ZN_SEARCH_OR_MIDDLE;
    s->how.model = weights ? file_path(path, 4096, weights) : NULL;
    return !zn_session_open(&s->session, &s->err) && !plan_for(s, ANY, ANY);
}
