/* SPDX-License-Identifier: MIT */
/* face_marks.c - where the lips of a large face are, roughly: a network that sees 64x64 pixels.
 *
 *   picture ── around the mouth ── face-mouth ── 20 points of the inner edges of the lips
 *
 * face_lips.c looks for the edges near them. */
#include "face.h"

#include "../core/status.h"

#include <math.h>

enum { SIDE = 64, NUMBERS = 2 * ZN_MARKS_LIPS }; /* what face-mouth takes and gives */

static const float sane = 4; /* quarters of the side from the middle: further away is nothing */

zn_status zn_marks_find(zn_marks *m, const zn_patch *patch, zn_face_work *k)
{
    const zn_terms terms = { .choice = k->plan->choice };
    float crop[SIDE * SIDE * 3], out[NUMBERS];
    const zn_array in = { crop, SIDE, SIDE, 3 };
    zn_array result = { out, 1, 1, NUMBERS };
    zn_use *use = NULL;
    zn_square square;
    zn_error why, text;
    zn_status s;

    *m = (zn_marks){ .found = false };
    s = zn_use_begin(&use, k->plan->session, "face-mouth", NULL, &terms, &why);
    if (s) {
        zn_fail(&text, ZN_OK, "The lips were not found and move with the face: %s", why.text);
        zn_note_add(&k->result->note, text.text);
        return ZN_OK;
    }
    zn_lips_square(&square, &k->square);
    zn_square_shrink(crop, SIDE, &square, patch, &k->workers);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        crop[i] = 2 * fminf(fmaxf(crop[i], 0), 1) - 1;
    s = zn_use_run(use, &in, 1, &result, &(zn_job){ 0 }, &k->result->note, k->err);
    m->found = !s;
    for (int i = 0; !s && i < NUMBERS; i++) { /* NaN is nothing, too */
        m->lips[i / 2][i % 2] = (i % 2 ? ZN_LIPS_Y : ZN_LIPS_X) + ZN_LIPS_PART / 4 * out[i];
        m->found = m->found && out[i] > -sane && out[i] < sane;
    }
    zn_use_end(&use);
    return s;
}
