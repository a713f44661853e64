/* SPDX-License-Identifier: MIT */
/* zenith_composite.h - tasks that take several networks, and the engines and models that they share.
 *
 *     zn_session *session = NULL;
 *     zn_generate how = zn_generate_defaults();
 *     zn_generate_plan plan;
 *     zn_generate_result result;
 *
 *     how.prompt = "a red fox in the snow";
 *     if (zn_session_open(&session, &err) ||
 *         zn_generate_describe(&plan, session, NULL, &how, 0, 0, NULL, &err))
 *         die(err.text);
 *     picture = (zn_array){ malloc(...), plan.change.h, plan.change.w, 3 };
 *     if (zn_generate_run(&result, &plan, NULL, NULL, &picture, NULL, &err))
 *         die(err.text);
 *
 * Every task has the same shape.  Its settings are a struct with defaults, and a table of its fields.  describe() fills a plan:
 * sizes, files, what the result depends on, or why it is refused; it reads no pixel, loads nothing and changes nothing.  run()
 * takes the plan, pictures and a zn_watcher, and makes an array and a result with numbers and a note.  Pictures are R'G'B'
 * in 0..1; alpha and colour spaces are the front end's.  zenith.h has the rules about errors, ownership and files. */
#ifndef ZENITH_COMPOSITE_H
#define ZENITH_COMPOSITE_H

#include "zenith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions ----------------------------------------------------------------------------------------------- */

/* Engines and models, opened once and kept.  Any thread may call.  Tasks on one session are done one after the other.  What
 * a task calls (progress, estimate, read) may ask the session for a model that is open; whatever would have to wait for the
 * task itself is refused: the engine is busy. */
typedef struct zn_session zn_session;

ZN_API zn_status zn_session_open(zn_session **out, zn_error *err);
ZN_API void zn_session_close(zn_session **session); /* when nothing of it is in use */
ZN_API void zn_session_trim(zn_session *session);   /* closes the models that nobody uses */

/* What computes; NULL or a zeroed one: automatic.  The precision is that of all networks of a task; a CPU that lacks it takes
 * fp32, and the task's note says so. */
typedef struct zn_choice {
    const char *engine;    /* as zn_engine_open takes it */
    int n_threads;         /* likewise */
    const char *precision; /* as zn_open takes it */
} zn_choice;

/* Whether the engine of that choice has a memory of its own; false also if it cannot be opened. */
ZN_API bool zn_session_is_remote(zn_session *session, const zn_choice *choice);

/* Opens that engine in a thread of its own, so that a front end can go on meanwhile; who needs it waits.  A failure is that of the first
 * who needs it.  started() waits for such threads: a process must not end while a GPU's driver starts. */
ZN_API void zn_session_start(zn_session *session, const zn_choice *choice);
ZN_API void zn_session_started(zn_session *session);

/* How many models are in memory, being opened or closed; how many networks have run; of how many pixels regions were asked for. */
ZN_API int zn_session_models(zn_session *session);
ZN_API uint64_t zn_session_runs(const zn_session *session);
ZN_API uint64_t zn_session_pixels(const zn_session *session);

/* Tasks are done between these two.  So a front end that waited can look whether the task before has made what it wants.
 * Refused where this thread is between them already: the engine is busy. */
ZN_API zn_status zn_session_enter(zn_session *session, zn_error *err);
ZN_API void zn_session_leave(zn_session *session);

typedef struct zn_footprint { /* bytes */
    size_t weights, beside;
    bool streamed; /* not all weights are in memory: layers are read from disk, which is slower */
} zn_footprint;

typedef struct zn_note {
    char text[1024]; /* sentences: how the result differs from what was asked for, or "" */
} zn_note;

/* Adds a sentence, unless it is there. */
ZN_API void zn_note_add(zn_note *note, const char *sentence);

/* ---- models of a session --------------------------------------------------------------------------------------- */

typedef struct zn_use zn_use; /* a model that somebody uses */

typedef struct zn_terms {
    zn_choice choice;
    bool alone;    /* models that nobody uses are closed first */
    size_t beside; /* bytes of the memory limit that are already in use (zn_open, zn_job) */
    bool (*progress)(void *cookie, double done); /* while it is opened, see zn_open */
    void *cookie;
} zn_terms;

/* The model with this id; weights: a file or folder, NULL or "": its own.  Opened by the first call; later ones are cheap.  It
 * stays open after the last release until others need its place.  A file that cannot be used is not read again until its
 * time or size changes. */
ZN_API zn_status zn_use_begin(zn_use **out, zn_session *session, const char *id, const char *weights,
                              const zn_terms *terms, zn_error *err);
ZN_API void zn_use_end(zn_use **use); /* accepts what zn_x_close() does */
/* The same, and its memory is given back now, unless others use it. */
ZN_API void zn_use_retire(zn_use **use);

ZN_API zn_model *zn_use_model(const zn_use *use);
ZN_API const char *zn_use_name(const zn_use *use); /* model, engine, precision, weights: what a result depends on */

/* zn_model_run() and zn_model_run_region() of one input; counted.  job->beside is that of the terms if it is 0; the note of the
 * run is added to `note`, which may be NULL.  With a region, pictures are always in 0..1, an encoder's is mirrored up to what
 * it can take, and a result that is not finite is an error. */
ZN_API zn_status zn_use_run(zn_use *use, const zn_array *in, int n_in, zn_array *out, const zn_job *job, zn_note *note,
                            zn_error *err);
ZN_API zn_status zn_use_run_region(zn_use *use, const zn_sink *out, const zn_source *in, zn_rect roi, const zn_job *job,
                                   zn_note *note, zn_error *err);

typedef struct zn_makers { /* of a result: engines and precisions, which round differently */
    char text[128];        /* "neon fp32", or "neon fp32, neon fp16"; "": none */
} zn_makers;

/* Adds what computed the last run of the model, unless it is there. */
ZN_API void zn_makers_add(zn_makers *makers, const zn_use *use);

/* The memory of a run. */
ZN_API zn_status zn_use_plan(zn_use *use, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan,
                             zn_error *err);

typedef struct zn_planned {
    zn_plan plan;
    zn_array out;          /* sizes of the first result */
    const char *precision; /* "fp32"; a name that stays */
} zn_planned;

/* The same for a model that is not open: nothing is loaded. */
ZN_API zn_status zn_session_plan(zn_planned *out, zn_session *session, const char *id, const char *weights,
                                 const zn_terms *terms, const zn_array *in, int n_in, const zn_job *job, zn_error *err);

/* How the model maps sizes; one that is not open is not loaded. */
ZN_API zn_status zn_session_geometry(zn_geometry *out, zn_session *session, const char *id, const char *weights,
                                     const zn_terms *terms, zn_error *err);

typedef enum zn_half { ZN_ENCODER, ZN_DECODER } zn_half;

/*   picture ── encoder ── latent, 1/factor of the size ── decoder ── picture
 *
 * A network from picture to picture has a latent of 3 channels at factor 1: what it makes; its decoder copies that. */
typedef struct zn_latents { /* of an autoencoder */
    int32_t channels;
    int32_t factor;         /* a pixel of them stands for factor x factor of the picture */
    int32_t only_w, only_h; /* of the pictures that it was made for: smaller ones are mirrored up to that; 0: any */
} zn_latents;

typedef struct zn_autoencoder_choice {
    const char *name; /* "taesd", "flux-ae", "zenith", ...; "wan-video": for zn_autoencoder_video() alone */
    const char
        *weights; /* a folder, a file of both halves, or that of one, of any autoencoder; NULL or "": found by the
                          * name; ZN_RANDOM_WEIGHTS */
} zn_autoencoder_choice;

typedef struct zn_autoencoder {
    zn_use *encoder, *decoder; /* NULL: not asked for, or there are no colours */
    zn_latents latents;
} zn_autoencoder;

/* ZN_COLOURS: what shows the encoder's latents by their colours, in place of a decoder. */
enum { ZN_ENCODES = 1, ZN_DECODES = 2, ZN_COLOURS = 4 };

/* Opens these parts of it.  Where there is no decoder, it is the latent's colours, if they are known, and the note, which may be
 * NULL, says so. */
ZN_API zn_status zn_autoencoder_open(zn_autoencoder *out, zn_session *session, unsigned parts,
                                     const zn_autoencoder_choice *choice, const zn_terms *terms, zn_note *note,
                                     zn_error *err);
ZN_API void zn_autoencoder_close(zn_autoencoder *autoencoder); /* may be called twice */

/* zn_model_pass_video() for a picture in 0..1 that is n frames of equal height, one below the other: there and back.  A chunk of
 * them is in memory.  Otherwise as zn_use_run(). */
ZN_API zn_status zn_autoencoder_video(const zn_autoencoder *autoencoder, const zn_sink *out, const zn_source *in,
                                      int32_t n, const zn_job *job, zn_note *note, zn_error *err);

/* The size of the latent of a picture, or why there is none. */
ZN_API zn_status zn_latents_size(int32_t *w, int32_t *h, const zn_latents *latents, int32_t picture_w,
                                 int32_t picture_h, zn_error *err);

/* The contract of tiles for a picture of w x h that passes through it; its encoder is open. */
ZN_API void zn_autoencoder_grid(zn_grid *grid, const zn_autoencoder *autoencoder, int32_t w, int32_t h);

/* zn_find_faces() with the networks of zenith-find, or of another file; counted. */
ZN_API zn_status zn_session_find_faces(zn_face *list, int max, int *n, zn_session *session, const zn_choice *choice,
                                       const char *weights, const zn_source *in, zn_error *err);

/* ---- what all tasks have ------------------------------------------------------------------------------------------ */

/* A hash of all that something depends on; begins as zeros, and the order of the calls counts. */
typedef struct zn_key {
    uint64_t a, b;
} zn_key;

ZN_API void zn_key_add(zn_key *key, const void *data, size_t size);
ZN_API void zn_key_add_text(zn_key *key, const char *text);
ZN_API void zn_key_add_file(zn_key *key, const char *path); /* its name, time and size */

typedef struct zn_keep {                                           /* a cache of the front end */
    bool (*get)(void *cookie, zn_key key, void *dst, size_t size); /* false: it is not there */
    void (*put)(void *cookie, zn_key key, const void *src, size_t size);
    void *cookie;
} zn_keep;

typedef struct zn_watcher {                                  /* a zeroed one, or NULL: nobody watches */
    bool (*progress)(void *cookie, double done);             /* 0..1, never falling; false cancels */
    void (*planned)(void *cookie, const zn_footprint *need); /* what the task takes, before a network runs */
    /* What the result would be by now; of its size, valid during the call. */
    void (*estimate)(void *cookie, const zn_array *so_far);
    void *cookie;
    const zn_keep *keep; /* NULL: nothing is kept */
} zn_watcher;

/* The fields of a struct of settings, for front ends that get them as text. */
typedef enum zn_kind {
    ZN_REAL,  /* double */
    ZN_WHOLE, /* int32_t */
    ZN_COUNT, /* uint32_t */
    ZN_TEXT,  /* const char *: the text itself, which must stay valid */
    ZN_NAMED, /* int32_t: an enum; help has the names of its values, with '|' between them */
} zn_kind;

typedef struct zn_field {
    const char *key; /* NULL ends a list */
    zn_kind kind;
    size_t at; /* offset in the struct */
    double min, max;
    const char *help;
} zn_field;

/* Sets what "key=value" says.  what: the name of the task, for messages. */
ZN_API zn_status zn_field_set(void *how, const zn_field *fields, const char *what, const char *text, zn_error *err);

/* Adds a change to n pixels of 3 or 4 components; a value may leave 0..1 only where it was outside before. */
ZN_API void zn_change_add(float *pixels, int components, const float *change, size_t n);

/* ---- denoise, restore, upscale: a better picture, region by region -------------------------------------------------- */

/*   picture ── measured, once ──┐
 *   part of it ────────────── network ── change, in cells ── blended with the picture ── result
 *
 * Each of these tasks has settings and a describe() of its own, which fill the same plan; the rest is the same for all.  The parts are
 * those of the plan's grid, so that every region comes out as the whole picture would.  run() does all of it.  A front end that
 * keeps what the network made calls its steps: zn_original_measure(), zn_original_change(), and blend() or enlarge() for its pieces.
 *
 *   change = what the network made - what it saw, where the result is larger: of the nearest pixel
 *   result = picture + luma * (l - detail * t * fine(l)) + chroma * (change - l)
 *
 * l is the lightness of the change, fine(l) is l minus its 5 x 5 binomial mean.  t = a / (a + b / 4) says how much texture there is: a
 * and b are the mean squares around a pixel of what is fine in the lightness of the network's output, and of fine(l).  luma and chroma
 * are the settings times the strength, which counts as 1 above 1: there fine differences in the network's output shrink.  Values that the
 * network could not see (below 0, above 1) keep what is beyond; NaN becomes the network's output. */
typedef struct zn_enhance { /* what a task asks for */
    const char *model;      /* id of a network of one picture that gives another; a text that stays */
    const char *weights;    /* its file, a text that must live as long as the plan; NULL or "": its own */
    zn_value set[ZN_MAX_SETTINGS];
    int32_t n_set;
    bool found[ZN_MAX_SETTINGS];   /* of set: where it is 0, the network is told what is found in the picture, */
    double least[ZN_MAX_SETTINGS]; /* ... but at least this */
    const char *
        first; /* id of a denoiser whose result the network sees, if its weights are there; NULL: none.  Where it finds little
                        * noise, `noise` and `least` are told in part only; where none, what is found is told. */
    double sigma;     /* ... of 255: what it is told; 0: the noise of the picture, which is measured */
    double grain;     /* ... 0..1: how much of the lightness that it removes is left */
    bool seeks_noise; /* the network is told the noise of the picture, which is measured */
    double fading;    /* the network sees the picture with its channels stretched, by so much of what zn_faults say */
    double strength, luma, chroma, detail; /* of a result of the picture's size */
    double sharpen; /* likewise: adds so much of what is fine in the lightness of the network's output */
} zn_enhance;

typedef struct zn_enhance_plan {
    zn_enhance how;
    zn_choice choice; /* its texts must live as long */
    zn_session *session;
    zn_grid grid, first;   /* of how.first, if there is one */
    int32_t w, h;          /* of the result */
    int32_t reach;         /* pixels around one that blend() looks at */
    bool nothing;          /* the result is the picture itself: there is nothing to run */
    bool measured;         /* the whole picture is measured: see zn_original_measure() */
    bool mapped;           /* the network measures the noise of each place, against that of the picture */
    zn_makers computed_by; /* what computes it, as far as it is known beforehand */
    zn_key network;        /* what a measurement depends on, but for the pixels: network, engine, precision, weights */
    zn_key key;            /* the same for a change: settings, too, but not what was measured */
} zn_enhance_plan;

typedef struct zn_enhance_result {
    zn_noise_table noise; /* of the picture; median[0] 0: it was not measured */
    zn_faults damage;     /* likewise; all 0 */
    bool ran;             /* something was computed, not kept */
    zn_makers computed_by;
    zn_note note;
    struct zn_levels *cells; /* of zn_original_measure(): NULL, or what it has seen, for zn_original_change() */
} zn_enhance_result;

/* Frees the cells; may be called twice. */
ZN_API void zn_enhance_forget(zn_enhance_result *result);

/* What was found in the picture for the settings `deblur`, `artefacts` and `noise` of a task that are 0, in their units.  -1: it was not
 * looked for, or how much there is was not clear; 0: there is none, or too little to tell. */
typedef struct zn_found {
    double blur, artefacts, noise;
    char text
        [200]; /* the same for people: "blur of 1.3 pixels, no JPEG artifacts, noise of 4.25"; "": nothing was looked for */
} zn_found;
ZN_API void zn_enhance_found(zn_found *found, const zn_enhance_plan *plan, const zn_enhance_result *result);

/* A plan for a picture of w x h.  side: the least side of a tile, for hosts that run whole pictures; 0: the usual one.  Opens the
 * network, which stays open as zn_use_begin() says.  A refusal leaves a plan of the picture's size. */
ZN_API zn_status zn_enhance_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                                     const zn_enhance *how, int32_t w, int32_t h, int32_t side, zn_error *err);

/* The result in a region, in its pixels; written in rows of whole width. */
ZN_API zn_status zn_enhance_run(zn_enhance_result *result, const zn_enhance_plan *plan, const zn_sink *out,
                                const zn_source *in, zn_rect roi, const zn_watcher *watch, zn_error *err);

/* Three channels of a part of the result. */
typedef struct zn_plane {
    zn_rect at;
    float *rgb;
} zn_plane;

/* A picture of a front end that keeps what the network changed in it (zn_watcher.keep), cell by cell.  A cell is found by the
 * hashes of the pixels that it depends on, so that an edited picture runs the network where it was edited alone. */
typedef struct zn_original {
    zn_source source;
    zn_key format; /* what its pixels mean, beside their values */
    void (*hash)(void *cookie, zn_key *keys, const zn_rect *at, size_t n); /* adds the pixels of at[i] to keys[i] */
    void *cookie;                                                          /* of hash */
    /* Calls part() until all of 0 .. n - 1 are done, in several threads; NULL: in this one. */
    void (*spread)(void (*part)(size_t start, size_t count, void *data), size_t n, void *data);
} zn_original;

/* What is measured once for a picture, result->noise in a part of it, damage in all of it; in steps, so that a small change of the picture does not
 * change it.  Kept: a picture is known by blocks that are spread over the part.  Progress is 0 all the time. */
ZN_API zn_status zn_original_measure(zn_enhance_result *result, const zn_enhance_plan *plan,
                                     const zn_original *original, zn_rect part, const zn_watcher *watch, zn_error *err);

/* The network's change of a region of the result, kept or made now, in pieces.  take() gets each of them: what it may write now, and
 * the change there and plan->reach around it.  result holds what was measured; ran is set, computed_by and note
 * are added to. */
typedef struct zn_taker {
    bool (*take)(void *cookie, zn_rect want, const zn_plane *change); /* false: no memory */
    void *cookie;
} zn_taker;
ZN_API zn_status zn_original_change(zn_enhance_result *result, const zn_enhance_plan *plan, const zn_original *original,
                                    zn_rect roi, const zn_taker *to, const zn_watcher *watch, zn_error *err);

/* Blends the pixels of a strip in place, for a plan of scale 1.  pixels: of `all`, which is the strip and, as far as the picture goes,
 * plan->reach around it, of 3 or 4 components; change has at least `all`.  false: no memory. */
ZN_API bool zn_enhance_blend(const zn_enhance_plan *plan, zn_rect strip, zn_rect all, float *pixels, int components,
                             const zn_plane *change);

/* The same for a result that is larger: dst is the strip, dense.  pixels, of 3 or 4 components, and seen, what the network saw of them,
 * three each: of `all`, pixels of the picture, which is what the strip lies on and, as far as the picture goes, ZN_ENLARGE_REACH
 * around it.  change NULL: a plain enlargement.  What the network does not make, alpha and what is beyond 0..1, is interpolated. */
enum { ZN_ENLARGE_REACH = 2 };
ZN_API void zn_enhance_enlarge(float *dst, const zn_grid *grid, zn_rect strip, zn_rect all, const float *pixels,
                               int components, const float *seen, const zn_plane *change);

/* What the network sees of rect, three values a pixel, where the result is larger: a fully transparent pixel has the mean colour of the
 * visible ones up to ZN_ENLARGE_REACH away, weighted by their alpha, if there are any, since pixels of the result between the two
 * show some of it.  pixels: of `all`, which is rect and, as far as the picture goes, that much around it. */
ZN_API void zn_enlarge_see(float *dst, zn_rect rect, const float *pixels, zn_rect all, int components);

/* Whether a pixel is fully transparent: networks see it as mid-grey, and nothing changes it. */
static inline bool zn_is_hidden(const float *pixel, int components)
{
    return components == 4 && !(pixel[3] > 0.0f);
}

/* What a network may see: NaN is 0; below 0 and above 1 are cut. */
static inline float zn_clean(float value)
{
    return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
}

typedef struct zn_denoise {
    const char *model;   /* "fast", "balanced" or "best": "balanced" */
    double strength;     /* 0..1.5: 1; above 1 also texture that is as weak as the noise goes */
    double luma, chroma; /* 0..1: 1; of the noise in lightness, and in colour */
    double detail;       /* 0..1: 0; how much of the finest texture in lightness is given back */
    double sharpen;      /* 0..2: 0; how much the denoised picture is sharpened, without halos */
    double sigma;        /* 0..100: 0; standard deviation of the noise, of 255; 0: measured */
    double sigma_scale;  /* 0.1..10: 1; factor of what was measured */
    const char *weights; /* a file of `zenith train`, which must live as long as the plan: NULL, the model's own */
} zn_denoise;

ZN_API zn_denoise zn_denoise_defaults(void);
ZN_API extern const zn_field zn_denoise_fields[];
ZN_API zn_status zn_denoise_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                                     const zn_denoise *how, int32_t w, int32_t h, int32_t side, zn_error *err);

typedef struct zn_restore {
    double deblur;    /* -1..10: 0; the blur that is undone, its standard deviation in pixels */
    double artefacts; /* -1..100: 0; of JPEG: 100 - the file's quality */
    double noise;     /* -1..100: 0; its standard deviation, of 255 */
    double dust;      /* 0..1: 0; how much of dust, hairs, scratches and stains is removed */
    double fading;    /* 0..1: 0; how much of lost contrast and of a color cast is undone */
    double strength;  /* 0..1: 1 */
} zn_restore;         /* of the first three, 0: found, -1: there is none */

ZN_API zn_restore zn_restore_defaults(void);
ZN_API extern const zn_field zn_restore_fields[];
ZN_API zn_status zn_restore_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                                     const zn_restore *how, int32_t w, int32_t h, int32_t side, zn_error *err);

typedef struct zn_upscale {
    int32_t scale;     /* 2..4: 2 */
    const char *model; /* "faithful", "small" or "crisp": "faithful" */
    double noise;      /* -1..100: 0; standard deviation of the noise in the picture, of 255 */
    double artefacts;  /* -1..100: 0; of JPEG: 100 - the file's quality */
} zn_upscale;          /* of the last two, 0: found in the picture, -1: there is none */

ZN_API zn_upscale zn_upscale_defaults(void);
ZN_API extern const zn_field zn_upscale_fields[];
ZN_API zn_status zn_upscale_describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,
                                     const zn_upscale *how, int32_t w, int32_t h, int32_t side, zn_error *err);

/* ---- generate: a picture from a prompt, with Z-Image ---------------------------------------------------------------- */

/*   prompt --tokens, text encoder--> features, kept              the encoder is closed then
 *   input --part, padded or scaled--> x --encoder--> start
 *   noise of the seed, features, start, mask --sampler--> latent --decoder--> picture
 *   mask, feathered * (picture - input) is the change of the input
 *   picture or input --upscale--> larger --tiles, each as an input--> refined */
typedef struct zn_generate {
    const char *prompt; /* what the picture shows; NULL: a plan for any prompt, which cannot be run */
    /* The folder of the model's files, as zn_zimage_find takes it; "random:": made up, of the published sizes, for plans. */
    const char *weights;
    uint32_t seed;         /* 0 */
    int32_t n;             /* 1..16: 1; pictures, of this seed and those after it; they share the rest */
    int32_t steps;         /* 1..100: 8 */
    int32_t width, height; /* 16..4096: 1024; of a new picture; with an input, their product is the largest area that is
                            * computed: more is scaled */
    double change;         /* 0..1: 1; of an input: 0 leaves it as it is, 1 does not look at what was there */
    double feather;        /* 0..1000: 16; pixels: the soft edge inside of a mask, or of an input that is extended */
    /* 0..4096: 0; pixels around an input that are painted, too.  What the mask shows is painted with them, and `change` is 1. */
    int32_t left, top, right, bottom;
    int32_t
        scale; /* 1..4: 1; above 1, the new picture or the input, whatever its `change`, is enlarged by `upscale` and then refined */
    double refine; /* 0..1: 0.3; how far it may change then, in overlapping tiles of width x height */
} zn_generate;

ZN_API zn_generate zn_generate_defaults(void);
ZN_API extern const zn_field zn_generate_fields[];

typedef struct zn_network { /* of a task */
    const char *name;       /* "text encoder" */
    const char *precision;  /* "bf16" */
    zn_footprint need;
    double macs; /* multiply-adds of all its runs */
} zn_network;

typedef struct zn_generate_plan {
    zn_generate how; /* its texts, and those of the choice, must live as long */
    zn_choice choice;
    zn_session *session;
    int32_t w, h; /* of the result */
    bool has_input;
    bool extends;  /* it is a part of the result, */
    zn_rect place; /* ... here */
    bool adds;     /* run() makes the change of the input, not the picture itself */
    bool nothing;  /* the result is the input itself: there is nothing to run */
    bool masked;
    zn_rect change; /* of the result: what run() makes, and may change */
    zn_key key;     /* what it depends on, but for the pixels */
    zn_zimage_file file[ZN_ZIMAGE_PARTS];
    /* zn_generate_weigh() */
    zn_footprint need;     /* of the largest step, with all that is open then */
    bool keeps;            /* the transformer stays open while the autoencoder runs */
    bool stays;            /* on a GPU with room for all networks: they stay open for the next picture */
    zn_network network[5]; /* name NULL ends */
} zn_generate_plan;

typedef struct zn_generate_result {
    zn_footprint need;
    int32_t n_tokens; /* of the prompt */
    zn_makers computed_by;
    zn_note note;
} zn_generate_result;

/* w, h: of the input; 0: there is none.  mask: NULL, or where it lies in the input; it may reach beyond it. */
ZN_API zn_status zn_generate_describe(zn_generate_plan *plan, zn_session *session, const zn_choice *choice,
                                      const zn_generate *how, int32_t w, int32_t h, const zn_rect *mask, zn_error *err);

/* The memory of a run, for all that may change; a run plans again for the pixels that the mask has.  Reads the beginnings of the
 * weight files. */
ZN_API zn_status zn_generate_weigh(zn_generate_plan *plan, zn_note *note, zn_error *err);

/* in: NULL, or the input; mask: NULL, or of the input's size with one channel, 0 where nothing may change.  out: of the size of
 * plan->change, n of them one below the other, three channels: the picture or, where the plan says so, what is to be added to the
 * input's pixels there.  A picture is the same to the bit, however many are made. */
ZN_API zn_status zn_generate_run(zn_generate_result *result, const zn_generate_plan *plan, const zn_source *in,
                                 const zn_source *mask, zn_array *out, const zn_watcher *watch, zn_error *err);

#ifdef __cplusplus
}
#endif
#endif
