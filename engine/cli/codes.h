/* SPDX-License-Identifier: MIT */
/* codes.h - the codes of the faces in folders of pictures. */
#ifndef ZN_CLI_CODES_H
#define ZN_CLI_CODES_H

#include "composites.h"

#include "../zenith_face.h"

typedef struct codes {
    float *data; /* [n][d] */
    int n;
} codes;

typedef struct face_encoder { /* makes codes of pictures */
    zn_session *session;
    zn_choice choice;
    zn_face_how how;
    zn_face_plan plan; /* of the last picture */
    int most;          /* codes of a folder */
    codes *into;
    bool said;    /* that no faces are looked for */
    zn_error err; /* not empty: a failure that ends the reading */
} face_encoder;

/* Opens the session, and plans for some picture: the length of a code is plan.out.c.  weights: a file, or NULL; path: room for its
 * name.  whole: pictures are faces already.  False: err says why.  zn_session_close() ends it. */
bool encoder_open(face_encoder *s, char path[4096], const char *weights, bool whole);

/* EXIT_DONE, or a line on stderr. */
int encoder_read(face_encoder *s, codes *into, const char *folder);

#endif
