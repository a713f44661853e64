/* SPDX-License-Identifier: MIT */
/* face.h - what the files of the composite `face` share: face.c does the tasks, face_between.c that on two faces, face_all.c several faces, face_plan.c describes and finds, face_codes.c runs
 * the networks, face_frame.c, face_blend.c, face_texture.c, face_flow.c, face_warp.c, face_relief.c, face_eyes.c, face_eyeball.c,
 * face_marks.c, face_lips.c, face_gap.c and face_mean.c are between the picture and the model's size, face_contrast.c corrects a face between
 * two, face_attributes.c reads attribute files, face_move.c does what they say. */
#ifndef ZN_PIPELINE_FACE_H
#define ZN_PIPELINE_FACE_H

#include "../zenith_face.h"
#include "fields.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>

/* ---- the frame (face_frame.c) ---------------------------------------------------------------------------------- */

typedef struct zn_square {
    double x, y, size, cos, sin;
} zn_square;

typedef struct zn_patch { /* part of a picture */
    zn_rect rect;
    float *pixels; /* [rect.h][rect.w][3] */
} zn_patch;

/* The frame in a picture of this size, or why it makes no sense. */
zn_status zn_square_get(zn_square *square, const zn_frame *frame, int32_t w, int32_t h, zn_error *err);
/* The pixels of the picture that the frame touches. */
zn_rect zn_square_bounds(const zn_square *square, int32_t w, int32_t h);

/* Of zn_session_loop(). */
typedef struct zn_workers {
    zn_session *session;
    const zn_choice *choice;
} zn_workers;

/* NULL: this thread does all items (face_frame.c). */
void zn_workers_loop(const zn_workers *workers, zn_task *task, void *cookie, int n_items);

/* The pixels are the caller's, to be freed also after a failure. */
zn_status zn_patch_read(zn_patch *patch, const zn_source *in, zn_rect rect, zn_error *err);
/* The pixels of rect if the patch's frame `from` were at `to`; NULL: out of memory. */
zn_patch zn_patch_warp(const zn_patch *patch, const zn_square *from, const zn_square *to, zn_rect rect,
                       const zn_workers *workers);
/* low [side][side][3], 0..1: the patch in the frame. */
void zn_square_shrink(float *low, int side, const zn_square *square, const zn_patch *patch, const zn_workers *workers);
/* ---- the networks (face_codes.c) ----------------------------------------------------------------------------------- */

typedef struct zn_face_work zn_face_work;

struct zn_face_work { /* a pass of a run */
    const zn_face_plan *plan;
    const zn_watcher *watch;
    zn_face_result *result;
    zn_error *err;
    zn_array *out;
    zn_use *encoder, *sampler, *latent; /* diffae-encode, diffae-sample in both directions, diffae-latent-sample */
    zn_use *enlarger;                   /* NULL, or of the change of a large face */
    int side, code, scale;              /* scale: of the enlarger */
    bool moves;                         /* a change of this face moves the picture's own pixels */
    size_t len;                         /* side * side * 3 */
    zn_workers workers;
    zn_square square;                   /* of the frame */
    int steps, up_steps;                /* of this pass */
    int all_steps;                      /* up, of the pass that is not quick */
    bool path;                          /* with the corrections of the way up */
    bool quick;                         /* a first estimate */
    bool quick_shown;                   /* there was one */
    double bar, bar_span;               /* its part of the progress bar */
    double done, total;                 /* evaluations of the U-Net */
    double start, span;                 /* of what is now done, of the whole */
    double began;                       /* when the networks were open, in ms */
    double shown_at;                    /* when an estimate was */
    const zn_face_picture *in, *second; /* of the task; NULL: it takes none */
    /* Puts what a drawn face, [side][side][3], changes into out, which is 0: of the result and, if they are watched, of
     * estimates.  NULL: these are not shown. */
    bool (*paste)(zn_array *out, const zn_face_work *k, const float *drawn);
    void *pasted;
};

typedef struct zn_face_data { /* a picture of the work, in memory of its own */
    zn_patch patch;
    float *low;   /* [side][side][3], 0..1: what the model sees */
    float *codes; /* NULL: not made yet; cond [code], then xT [side][side][3] */
    bool path;    /* ... and below xT the correction of each step */
    int steps;    /* from the picture to xT */
    float *made;  /* NULL, or the reconstruction, [side][side][3] */
} zn_face_data;

/* 0 up to t = 0, 1 from t = 1 on, smooth between. */
static inline float zn_rise(float t)
{
    const float d = fminf(fmaxf(t, 0), 1);

    return d * d * (3 - 2 * d);
}

static inline float zn_lightness(const float *rgb)
{
    return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
}

static inline float *zn_face_floats(size_t n)
{
    return malloc(n * sizeof(float));
}

/* The models, the sizes and the frame. */
zn_status zn_face_begin(zn_face_work *k);
void zn_face_end(zn_face_work *k);
/* Tells the watcher what a run takes that draws n faces at once. */
void zn_face_tell_memory(zn_face_work *k, int n);
zn_status zn_face_no_memory(const zn_face_work *k);

/* The picture in the frame, as the model sees it, and its codes if they are kept; to be cleared also after a failure.  own: NULL, or
 * the picture's own frame; its patch then lies where it is in the work's. */
zn_status zn_face_read(zn_face_data *f, const zn_face_work *k, const zn_source *in, const zn_square *own);
void zn_face_clear(zn_face_data *f);

/* cond and xT; the evaluations that this takes. */
zn_status zn_face_encode(zn_face_data *f, zn_face_work *k);
int zn_face_encode_cost(const zn_face_data *f);
const float *zn_face_noise(const zn_face_data *f, const zn_face_work *k);
/* cond alone, [code]. */
zn_status zn_face_code(float *cond, const zn_face_data *f, zn_face_work *k);

typedef struct zn_face_drawing { /* n faces from noise [n][side][side][3] and cond [n][code] */
    int n;
    const float *noise, *cond;
    const float *cond0; /* NULL, or what the edit is guided away from, [n][code] */
    double guide;
    bool path;     /* noise is that of codes with a path; n is 1 */
    int from;      /* not 0: noise is pictures, -1..1, seen once with the noise of this time */
    bool shows;    /* estimates of the first are shown */
    double eta;    /* of new faces */
    uint32_t seed; /* likewise, of the first one */
} zn_face_drawing;

/* dst [n][side][side][3], 0..1 but not cut. */
zn_status zn_face_draw(float *dst, zn_face_work *k, const zn_face_drawing *drawing);
/* f->made, kept or drawn now from the unchanged codes; look: whether it is kept.  Its evaluations. */
void zn_face_look_made(zn_face_data *f, const zn_face_work *k);
zn_status zn_face_make(zn_face_data *f, zn_face_work *k, bool shows);
int zn_face_make_cost(const zn_face_data *f, const zn_face_work *k);
/* A code from noise [code]. */
zn_status zn_face_new_codes(float *cond, const float *noise, int n, uint32_t seed, zn_face_work *k);

#define ZN_FACE_ENLARGER "upscale-crisp" /* its weights, and with -x2 to -x4 its networks */

typedef struct zn_face_large { /* a drawn face and what it is compared with, enlarged */
    int side;                  /* 0: they are not */
    float *to, *from;          /* [side][side][3] */
    zn_rect part;              /* of it; elsewhere both are 0 */
} zn_face_large;

/* src [side][side][3], enlarged inside of a part of it, 0 elsewhere, to be freed; kept: it is wanted again.  *dst is NULL, and stays
 * that without an enlarger. */
zn_status zn_face_enlarge(float **dst, const float *src, zn_rect part, bool kept, zn_face_work *k);
zn_rect zn_face_whole(const zn_face_work *k);
/* Evaluations that n of them take. */
int zn_face_enlarge_cost(const zn_face_work *k, int n);
void zn_face_large_clear(zn_face_large *large);

/* ---- back to the picture (face_blend.c, face_texture.c, face_contrast.c) --------------------------------------------------------------- */

enum { ZN_FACE_FIELDS = 8 };

/* What is done to the picture, at the model's size: value 0..2 is added, value 3..5 is what the model saw, value 6 is the gain of the
 * structure that it did not see, value 7 is not 0 where it is not known what the model saw. */
typedef float zn_face_field[ZN_FACE_FIELDS];

/* A pixel of the picture at x, y, where a pixel's centre is at 0.5: bicubic; beyond the patch it goes on (face_frame.c). */
void zn_sample_patch(float dst[3], const zn_patch *patch, double x, double y);
/* The field at a place of the frame, 0..1: bicubic; beyond its edges it goes on (face_frame.c). */
void zn_sample_field(zn_face_field dst, const zn_face_field *field, int side, double u, double v);

/* As drawn, but where much of it is new without what is a pixel wide: the network draws noise there, which an enlarger would take for
 * shapes; and, below the eyes, with less green and blue, which it draws into teeth.  dst, drawn, from: [side][side][3]; change: of a mask, or NULL. */
void zn_face_calm(float *dst, const float *drawn, const float *from, const float *change, int side);

/* to - from is added; the fine structure is multiplied by 1 + gain.  [side][side], freed with free(); NULL: out of memory. */
zn_face_field *zn_field_new(int side, const float *to, const float *from, const float *low, float gain);
typedef struct zn_face_mask {
    int side;
    float *face;   /* [side][side], 0..1: where the face is; NULL: there is no mask */
    float *change; /* [side][side], 0..1: how much of a change is wanted there */
} zn_face_mask;

/* map [cells][cells] at a pixel of side x side: linear between the centres of cells, beyond them as at the edge. */
float zn_map_between(const float *map, int cells, int side, int px, int py);

/* What is added loses its cast, the median of each channel where the mask's face is more than 0.5, and colours that the picture has
 * not: its difference from grey is multiplied by min(1, range / 0.06), range being the mean of the largest minus the smallest channel
 * of what the model saw there.  Then it is multiplied by the mask's change, and so is the gain.  The field may be a multiple as large
 * as the mask.  A mask without values does nothing.  False: out of memory. */
bool zn_field_mask(zn_face_field *field, int side, const zn_face_mask *mask);
/* Gives what is drawn, seen + added, the tone of what was seen: the square u of its lightness becomes g u / (1 + (g - 1) u), which
 * leaves black and white, and g brings the median in the mask's face to that of what was seen.  As above, before it is masked. */
bool zn_field_tone(zn_face_field *field, int side, const zn_face_mask *mask);
/* The gain is 0 where nothing is added and -cut where much is: the mean, over 5 x 5 values, of the largest channel. */
void zn_field_cut_fine(zn_face_field *field, int side, float cut);
/* out, which lies where the patch does, gets the change.  field [side][side] is freed; NULL: false. */
bool zn_field_paste(zn_array *out, zn_face_field *field, int side, const zn_face_work *k, const zn_patch *patch);

/* 0 at an edge of the frame, t 0 or 1, and 1 far from it: how much of a change is made. */
double zn_frame_edge(double t);

/* dst [side][side][n]: the mean over a square, taken twice; scratch is as large, and dst may be src (face_mean.c). */
void zn_mean_twice(float *dst, float *scratch, const float *src, int side, size_t n, int radius,
                   const zn_workers *workers);
/* flow [side][side][2], in pixels: to(x) = from(x + flow(x)), as well as a smooth flow can; [side][side][3].  It is finite whatever they
 * are, and 0 where they are equal.  False: out of memory (face_flow.c). */
bool zn_face_flow(float *flow, const float *from, const float *to, int side);
/* ---- lips of a picture that moves (face_marks.c, face_lips.c find them, face_gap.c moves them) ------------------------------------------ */

enum {
    ZN_LIPS = 256,
    ZN_MARKS_LIPS = 20
};                        /* columns and rows of the part of the frame where a mouth is; points of lips */
#define ZN_LIPS_PART 0.6f /* of the frame's side; its middle: */
#define ZN_LIPS_X 0.5f
#define ZN_LIPS_Y 0.72f

typedef struct zn_marks { /* in parts of the frame */
    bool found;
    float lips[ZN_MARKS_LIPS]
              [2]; /* of the inner edges: from the left corner over the top to the right one, 10, and back below */
} zn_marks;

/* What a network sees; without its weights nothing is found, and a note says so (face_marks.c). */
zn_status zn_marks_find(zn_marks *marks, const zn_patch *patch, zn_face_work *k);

typedef struct zn_lips {                 /* in parts of the frame */
    float sure;                          /* 0: not found; 1 */
    bool open;                           /* teeth or dark are seen between the lips */
    float x[2];                          /* the corners */
    float top[ZN_LIPS], bottom[ZN_LIPS]; /* y of the lips in each column; equal if it is shut */
    float jaw;                           /* what is below this part of an opening is the lower jaw's; 1: nothing */
    bool moves, closes;                  /* all that follows is known, from zn_lips_move() */
    float to_top[ZN_LIPS], to_bottom[ZN_LIPS]; /* where they go */
    float slides;                              /* how far teeth go up with the upper lip */
    float skin[3];                             /* the usual colour around */
    float grain, soft; /* the picture's around: its deviation, and how much of a pixel's its neighbours have */
    double pixels;     /* of the frame's side */
} zn_lips;

/* How much more red than green a colour has, of its largest channel. */
float zn_redness(const float *rgb);
/* The part of the picture where a mouth is looked for. */
void zn_lips_square(zn_square *square, const zn_square *frame);
/* mouth [ZN_LIPS][ZN_LIPS][3]: that part, shrunk.  False: out of memory. */
bool zn_lips_find(zn_lips *lips, const float *mouth, const zn_marks *marks);
/* The picture's grain, which what is invented gets. */
void zn_lips_look(zn_lips *lips, const zn_square *frame, const zn_patch *patch);
/* opens: how much they part, or close if negative; relaxes: how much they close where the edit, a masked field, changes what is between. */
void zn_lips_move(zn_lips *lips, const zn_face_field *field, int side, double opens, double relaxes);
/* After the flow is known: teeth go up with a lip that goes up. */
void zn_lips_slide(zn_lips *lips, const zn_face_field *field, int side);

typedef struct zn_moved_view {                                            /* a place of the result in the frame, 0..1 */
    double x, y;                                                          /* moved by the flow */
    double own[2];                                                        /* as it is */
    void (*sample)(float rgb[3], const void *cookie, double x, double y); /* the picture there */
    const void *cookie;
} zn_moved_view;

/* What is seen there, and how much of it is between the lips. */
float zn_lips_show(float rgb[3], const zn_lips *lips, const zn_moved_view *view);

/* A masked field becomes one of a moved picture: 0..2 is added, 3..4 is where the pixel comes from, relative to its place, in parts of the
 * frame, 6 is the gain of its relief; the flow is made this many times as long as it is found.  lips: those that part or close, or NULL.
 * False: out of memory (face_warp.c). */
bool zn_field_move(zn_face_field *field, int side, const zn_face_mask *mask, zn_lips *lips, double longer);

/* ---- eyes of a picture that moves (face_eyes.c finds and moves them, face_eyeball.c shows them) ---------------------------- */

enum { ZN_RINGS = 21 };
#define ZN_RING_STEP 0.0625f /* between rings of an iris, in radii: from its centre to 1.25 */
#define ZN_LID_X 1.5f        /* where the ends of a lid's curve are */

typedef struct zn_eye {
    double x, y, radius;      /* of the iris, in parts of the frame */
    float upper[3], lower[3]; /* edges of the lids at -1.5, 0 and 1.5 radii beside its centre, in radii below it */
    float shut[2];            /* by how much lids that move by themselves close, in radii: the upper, the lower one */
    double way[2];            /* where the eyeball comes from, relative to its place, in parts of the frame */
    double scale;             /* of distances from its centre there, relative to those here: less than 1 enlarges */
    float lash; /* how far above the edge of the upper lid, which is that of its lashes, skin begins, in radii */
    float ring[ZN_RINGS][3]; /* colours of the iris by distance from its centre */
} zn_eye;
typedef struct zn_eyes {
    zn_eye eye[2];
    bool found;
    float opens; /* not 0: nothing but lids moves, and this is the amount, -1..1 */
} zn_eyes;
/* y of a lid at x: a parabola through its heights at -ZN_LID_X, 0 and ZN_LID_X. */
static inline float zn_lid_at(const float h[3], float x)
{
    const float t = x / ZN_LID_X;

    return h[1] + (h[2] - h[0]) / 2 * t + ((h[0] + h[2]) / 2 - h[1]) * t * t;
}

/* The eyes of a large face.  False: out of memory (face_eyes.c). */
bool zn_eyes_find(zn_eyes *eyes, const zn_square *square, const zn_patch *patch, const zn_workers *workers);
/* The ways of the eyeballs, from a moved field. */
void zn_eyes_follow(zn_eyes *eyes, const zn_face_field *field, int side);
/* f, the field at u, v, moves with the lids alone, if nothing else moves. */
void zn_eyes_move(float *f, const zn_eyes *eyes, double u, double v);
/* By how much the skin of an upper lid is stretched at a place, in radii from the centre; the y that it would come from if the lid moved as
 * a whole. */
float zn_eye_stretch(float *along, const zn_eye *eye, float x, float y);
/* rgb, of the moved picture, becomes what is seen there if that is an eyeball or a lid (face_eyeball.c). */
void zn_eyes_show(float rgb[3], const zn_eyes *eyes, const zn_moved_view *view);

/* ---- the relief of a picture that moves (face_relief.c) ------------------------------------------------------------------ */

typedef struct zn_relief { /* the structure of a frame that is finer than shading */
    int side;
    float *band; /* [side][side][3] */
} zn_relief;

/* gain [side][side]: how much more contrast, of its own, each place gets.  was, lacks: the structure that was seen, moved, and what has to
 * be added to it, [side][side][3]; room: [side][side][4]. */
void zn_relief_gain(float *gain, float *room, const float *was, const float *lacks, int side, const zn_lips *lips);
/* To be cleared in any case.  False: out of memory. */
bool zn_relief_make(zn_relief *relief, const zn_square *square, const zn_patch *patch, const zn_workers *workers);
/* rgb gets this part of the structure at x, y of the frame. */
void zn_relief_add(float rgb[3], const zn_relief *relief, double x, double y, float part);
void zn_relief_clear(zn_relief *relief);

/* zn_field_paste() of such a field; relief: NULL, or the picture's; lips, eyes: NULL, or what does not move with it. */
bool zn_moved_paste(zn_array *out, zn_face_field *field, int side, const zn_face_work *k, const zn_patch *patch,
                    const zn_relief *relief, const zn_lips *lips, const zn_eyes *eyes);

/* The same for a large face; small: its field at the model's size, not masked yet, which is freed, too.  Where the change takes
 * structure away that the model saw, the finer one of the picture goes with it, as much as how.detail lets it, and texture of the face
 * takes its place. */
bool zn_large_paste(zn_array *out, zn_face_field *small, const zn_face_work *k, const zn_patch *patch,
                    const zn_face_large *large, const zn_face_mask *mask);

/* dst: the drawn face at this position between two, all [side][side][3], 0..1.  A network draws more texture there than either face
 * has, most of all where one is plain and the other is not: in each neighbourhood the contrast of fine structure is moved towards that
 * between the two; at 0 and 1 nothing is changed.  False: out of memory. */
bool zn_face_level_contrast(float *dst, const float *drawn, const float *first, const float *second, int side,
                            double position);

typedef struct zn_texture { /* pieces of a picture's fine structure */
    int n, side;            /* n 0: there are none */
    float *piece;           /* [n][side][side][3], of mean 0 */
    float *light;           /* [n]: the lightness of the picture there */
} zn_texture;

/* The fine structure, picture - up(seen), of pieces of the face that are usual and do not change: field [side][side] has what was
 * seen and the gain.  To be cleared; false: out of memory. */
bool zn_texture_make(zn_texture *t, const zn_face_field *field, int side, const zn_square *square,
                     const zn_patch *patch, const float *face, int face_side);
void zn_texture_clear(zn_texture *t);
/* The texture at a pixel of the picture, where it has this lightness: four pieces, chosen by the place alone, fade into each other and
 * keep their variance. */
void zn_texture_at(float dst[3], const zn_texture *t, int x, int y, float light);

/* ---- attribute files (face_attributes.c) ---------------------------------------------------------------------------- */

/* What attribute files call a model: the stem of its file. */
void zn_face_stem(char *stem, size_t size, const char *model);

typedef struct zn_attribute {
    double gain;  /* of the move: the amount, or its size if the file has moves for less */
    double guide; /* guidance at amount 1 */
    int hidden;   /* numbers between code and move; 0: the move is the same for all codes */
    int cells;    /* the side of the mask; 0: there is none */
    float *shift; /* [code]: what amount 1 adds to a code.  All that follows is NULL where it is not needed. */
    float *mean, *deviation;                 /* [code], of codes */
    float *inner, *bias, *outer;             /* [hidden][code], [hidden], [code][hidden] */
    float *mask_weight, *mask_bias, *region; /* [cells * cells][code], [cells * cells], [cells * cells] */
} zn_attribute;

/* Looks in all *.attributes.safetensors of the model folders for one whose codes have this length and that is for this model.  A
 * message lists those that there are.  To be cleared also after a failure. */
zn_status zn_attribute_find(zn_attribute *attribute, const zn_face_change *change, const char *model, int code,
                            zn_error *err);
/* One without a move that changes all of the face, with the first mask that such a file has; cells 0: none has. */
zn_status zn_attribute_find_mask(zn_attribute *attribute, const char *model, int code, zn_error *err);
void zn_attribute_clear(zn_attribute *attribute);
/* Adds all that the attribute files are: names, times and sizes. */
void zn_attributes_key(zn_key *key);

/* ---- moves and masks (face_move.c) ----------------------------------------------------------------------------------- */

/* cond [n] += gain (shift + outer tanh(inner z + bias)), z being the normalised code.  False: out of memory. */
bool zn_attribute_move(float *cond, const float *code, const zn_attribute *attribute, int n);

/* The mask of an edit from a code [n] to another: where either has a face, and one of the attributes changes it.  There is none if an
 * attribute has none.  m is one before, or 0.  False: out of memory. */
bool zn_face_mask_make(zn_face_mask *m, int side, const zn_attribute *attribute, int n_attributes, const float *code,
                       const float *cond, int n);
void zn_face_mask_clear(zn_face_mask *m);
/* Where there is a change, with some pixels around it; all of side x side without a mask. */
zn_rect zn_face_mask_bounds(const zn_face_mask *m, int side);

/* ---- describe and find (face_plan.c) ------------------------------------------------------------------------------------ */

typedef struct zn_face_list { /* the largest first */
    zn_face face[ZN_FACES];
    int n;
} zn_face_list;

/* While the engine is starting: reads and packs the weights of the networks that draw. */
void zn_face_ahead(const zn_face_plan *plan, const zn_terms *terms);
/* The faces of a picture, kept or found now.  Inside of a task. */
zn_status zn_face_search_in(zn_face_list *list, const zn_face_plan *plan, const zn_face_picture *in,
                            const zn_watcher *watch, zn_error *err);
zn_frame zn_face_frame(const zn_face *face);

/* ---- two faces (face_between.c) ------------------------------------------------------------------------------------------ */

enum { ZN_FACE_BATCH = 4 /* faces of a strip, or new ones, that are drawn at once */ };

zn_status zn_face_interpolate(zn_face_work *k);

/* ---- run (face.c; face_all.c has zn_face_run) --------------------------------------------------------------------------- */

/* zn_face_run() of a plan that takes one face. */
zn_status zn_face_run_one(zn_face_result *result, const zn_face_plan *plan, const zn_face_picture *in,
                          const zn_face_picture *second, zn_array *out, const zn_watcher *watch, zn_error *err);

#endif
