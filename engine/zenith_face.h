/* SPDX-License-Identifier: MIT */
/* zenith_face.h - the composite `face`: a face is found, encoded, changed, drawn and put back.
 *
 *     zn_face_how how = zn_face_defaults();
 *
 *     how.change[0] = (zn_face_change){ "smile", 0.8 };       or, by zn_face_sliders, how.slider[0] = 0.8
 *     if (zn_face_describe(&plan, session, NULL, &how, w, h, &err) || zn_face_find(&plan, &picture, NULL, &err))
 *         die(err.text);
 *     out = plan.out, out.data = malloc(...);
 *     if (zn_face_run(&result, &plan, &picture, NULL, &out, NULL, &err))
 *         die(err.text);
 *     zn_change_add(...) to the pixels of plan.change
 *
 * A square of the picture, the frame, is brought to the model's size and changed there, and only the change returns:
 *
 *   picture --frame, averaged--> x [side][side][3] --diffae-encode--> cond [code]
 *                                x, cond --diffae-sample, reverse--> xT, the noise it comes from
 *   xT, cond --diffae-sample--> the reconstruction
 *   xT, cond + shifts --diffae-sample, guided--> the edit
 *   (edit - x) --bicubic, feathered--> added to the picture
 *
 * An edit with as many steps down as up uses the corrections that the way up stored: with cond it leads back to x.  Otherwise the
 * change is edit - reconstruction.  cond, xT and the reconstruction are kept (zn_keep), found by a hash of x: another amount or
 * attribute only draws the edit.  zenith_composite.h has what all composites share. */
#ifndef ZENITH_FACE_H
#define ZENITH_FACE_H

#include "zenith_composite.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zn_face_task {
    ZN_FACE_MANIPULATE,  /* attributes of a face, more or less of them */
    ZN_FACE_RECONSTRUCT, /* the face as the model draws it */
    ZN_FACE_INTERPOLATE, /* a face between that of the picture and that of a second one, or a strip of them */
    ZN_FACE_SAMPLE,      /* a new one; takes no picture */
    ZN_FACE_ENCODE,      /* the code of a face, which is no picture */
} zn_face_task;

typedef enum zn_face_search {                      /* where no frame is given */
                              ZN_SEARCH_NONE,      /* it is the largest square in the middle */
                              ZN_SEARCH_FACE,      /* ... that of the largest face; refused if there is none */
                              ZN_SEARCH_OR_MIDDLE, /* ... of the largest face, or the middle */
} zn_face_search;

typedef struct zn_frame { /* a square in a picture */
    double x, y;          /* its centre, in pixels from the upper left corner */
    double size;          /* its side; 0: none is given */
    double angle;         /* degrees, clockwise */
} zn_frame;

typedef struct zn_face_change {
    const char *attribute; /* as attribute files name it; NULL ends a list */
    double amount;         /* -1..1: 0 */
} zn_face_change;

/* The attributes that have a setting of their own, in this order: those of zenith-face. */
enum { ZN_FACE_SLIDERS = 5 };
ZN_API extern const char *const zn_face_sliders[ZN_FACE_SLIDERS];

enum { ZN_FACES = 16 /* of a picture */, ZN_FACE_GIVEN = 16, ZN_FACE_CHANGES = ZN_FACE_GIVEN + ZN_FACE_SLIDERS };

typedef struct zn_face_how {
    int32_t task;      /* a zn_face_task: ZN_FACE_MANIPULATE */
    const char *model; /* the stem of a weight file, or a path with a '/'; NULL or "": zenith-face */
    zn_frame frame;    /* none */
    int32_t search;    /* a zn_face_search: ZN_SEARCH_FACE */
    int32_t face;      /* 0..16: 1; which of those that are found, the largest first; 0: an edit changes all of them */
    /* From noise to the picture, and from the picture to noise; 0: 10 of an edit, whose errors cancel, else 20. */
    int32_t steps, stochastic_steps; /* 0..1000: 0 */
    /* Of an edit: all of them at once. */
    zn_face_change change[ZN_FACE_CHANGES + 1]; /* none; at most ZN_FACE_GIVEN, a plan adds the sliders */
    double slider[ZN_FACE_SLIDERS];             /* -1..1: 0; amounts of zn_face_sliders */
    /* Fine structure that stays where an edit changes the face; with less than 0.5 a large one is drawn, not moved. */
    double detail;        /* 0..1: 0.7 */
    double position;      /* 0..1: 0.5; 0: the first face, 1: the second */
    int32_t strip;        /* 0..100: 0; 2 or more: so many faces, from the first to the second */
    int32_t loop;         /* 0 or 1: 0; of a strip: then those between them once more, backwards */
    uint32_t seed;        /* 0; of a new face */
    int32_t latent_steps; /* 1..1000: 200; from noise to a new code */
    int32_t n;  /* 0..100: 0; 2 or more: so many new faces, one below the other: those of seed, seed + 1, ... */
    double eta; /* 0..1: 0; of a new face: noise drawn anew in each step; 1: ancestral sampling (DDPM) */
} zn_face_how;

ZN_API zn_face_how zn_face_defaults(void);
ZN_API extern const zn_field zn_face_fields[];

/* zn_field_set(), where "attribute=NAME" adds a change and "amount=V" is that of the last one. */
ZN_API zn_status zn_face_set(zn_face_how *how, const char *text, zn_error *err);

/* The attributes that there are for a model (zn_face_how), with commas between them; returns the length, as snprintf does. */
ZN_API size_t zn_face_attributes(char *names, size_t size, const char *model);

typedef struct zn_face_plan {
    zn_face_how how; /* its texts, and those of the choice, must live as long */
    zn_choice choice;
    zn_session *session;
    char weights[4096]; /* the file */
    char model[256];    /* what attribute files call it */
    int32_t w, h;       /* of the result: the input's size, a strip of it, or that of a new face */
    bool nothing;       /* the result is the input itself: there is nothing to find or run */
    zn_key key;         /* what the result depends on, but for the pixels; find() adds the frame */
    int32_t in_w, in_h; /* the input */
    bool searches;      /* find() will look for a face */
    /* zn_face_find() */
    bool located;             /* it was called, or need not be */
    bool searched, found;     /* a face was looked for, and found */
    int32_t n_faces;          /* how many were */
    zn_frame faces[ZN_FACES]; /* ... the largest first */
    int32_t n_taken;          /* 1, or all of them */
    zn_frame frame;           /* what was taken, the first of them */
    zn_rect change;           /* what is changed of the input, or of each of its copies in a strip */
    zn_array out;             /* the sizes of what run() makes: changes one below the other, a face, or a code */
    zn_note note;             /* why no face was looked for, or why the result may not be good */
} zn_face_plan;

typedef struct zn_face_picture {
    zn_source source; /* three channels */
    zn_key key;       /* of its pixels, if the front end knows one: then the face that is found is kept; or zeros */
} zn_face_picture;

typedef struct zn_face_result {
    zn_footprint need;
    struct {
        double load, estimate, encode, invert, draw;
    } ms; /* what took how long; the first estimate is none of the others */
    zn_makers computed_by;
    zn_note note;
} zn_face_result;

/* w, h: of the input; a new face has none. */
ZN_API zn_status zn_face_describe(zn_face_plan *plan, zn_session *session, const zn_choice *choice,
                                  const zn_face_how *how, int32_t w, int32_t h, zn_error *err);

/* Where the face is, and so which part of the picture changes.  Of watch, keep alone is used. */
ZN_API zn_status zn_face_find(zn_face_plan *plan, const zn_face_picture *in, const zn_watcher *watch, zn_error *err);

/* After find().  second: that of an interpolation, else NULL; of the first one's size, unless faces are found.  out: of the sizes of
 * plan->out.  A watcher that has estimate() gets one of few steps first; a strip has none. */
ZN_API zn_status zn_face_run(zn_face_result *result, const zn_face_plan *plan, const zn_face_picture *in,
                             const zn_face_picture *second, zn_array *out, const zn_watcher *watch, zn_error *err);

/* Of the codes of a model's training set, as its files say: for zn_lesson.  n: of a code. */
ZN_API zn_status zn_face_statistics(float *mean, float *deviation, int n, const zn_face_plan *plan, zn_error *err);
/* Whether the file beside the weights, not one of the user's, has this attribute. */
ZN_API bool zn_face_has_attribute(const zn_face_plan *plan, const char *name);

#ifdef __cplusplus
}
#endif
#endif
