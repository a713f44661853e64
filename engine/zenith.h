/* SPDX-License-Identifier: MIT */
/* zenith.h - the public interface of the Zenith engine.
 *
 *     zn_error   err;
 *     zn_engine *engine = NULL;
 *     zn_model  *model  = NULL;
 *
 *     if (zn_engine_open(&engine, "auto", 0, &err) ||
 *         zn_model_open(&model, engine, "taesd-encode", NULL, &err))
 *         die(err.text);
 *
 *     zn_array x = { pixels, h, w, 3 }, z;
 *     zn_model_shape(model, &x, 1, &z, &err);
 *     z.data = malloc(zn_array_len(&z) * sizeof(float));
 *     if (zn_model_run(model, &x, 1, &z, NULL, &err))
 *         die(err.text);
 *     zn_model_close(&model);
 *     zn_engine_close(&engine);
 *
 * Rules that hold everywhere:
 *  - Calls that can fail return a zn_status; `err`, which may be NULL, then holds one sentence for users: what
 *    is wrong and what to do about it.
 *  - Output first, then inputs, then options.
 *  - zn_x_close() accepts NULL and a pointer to NULL, and sets the pointer to NULL.
 *  - The library never prints and never exits.  Any thread may call; runs on one engine are
 *    executed one after the other.
 *  - Every file is hostile: a bad one gives ZN_E_FILE and a message, never a crash. */
#ifndef ZENITH_H
#define ZENITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ZN_API __attribute__((visibility("default")))
#else
#define ZN_API
#endif

typedef enum zn_status {
    ZN_OK = 0,
    ZN_E_USAGE = -1,     /* the caller requested something that does not exist or is not possible */
    ZN_E_FILE = -2,      /* a file is missing, unreadable, damaged, or of another model */
    ZN_E_MEMORY = -3,    /* not enough memory, or more than the limit allows */
    ZN_E_DEVICE = -4,    /* the engine cannot be used or was lost */
    ZN_E_CANCELLED = -5, /* progress() returned false */
} zn_status;

typedef struct zn_error {
    char text[512]; /* one sentence, no newline; empty after success */
} zn_error;

ZN_API const char *zn_version(void);

/* Messages in another language: translate() gets the English text, printf's format where there is one, and returns the
 * text in its place, which takes the same arguments (msgfmt --check-format checks that), or the same.  The returned text
 * must stay valid.  Set it once, before anything else is called: worker threads call translate() too.  NULL: English. */
ZN_API void zn_set_translator(const char *(*translate)(const char *english));

/* ---- engines -------------------------------------------------------------------------------- */

typedef struct zn_engine zn_engine;

typedef struct zn_engine_info {
    const char *name; /* "scalar", "avx2", "avx512", "neon", "cuda" */
    bool usable;      /* here and now */
    bool automatic;   /* the one that "auto" picks */
    char note[400];   /* what it is, or why it cannot be used */
} zn_engine_info;

/* Fills at most max entries and returns how many engines this build knows. */
ZN_API int zn_engine_list(zn_engine_info *list, int max);

/* name: one of the above; NULL or "auto" takes $ZENITH_ENGINE, or else the fastest that works.
 * n_threads: 0 takes $ZENITH_THREADS, or else one per core. */
ZN_API zn_status zn_engine_open(zn_engine **out, const char *name, int n_threads, zn_error *err);
/* The same for training, which GPUs do not do: the fastest of the CPU's in place of the fastest. */
ZN_API zn_status zn_engine_open_to_train(zn_engine **out, const char *name, int n_threads, zn_error *err);
ZN_API void zn_engine_close(zn_engine **engine); /* after the models opened on it */
ZN_API const char *zn_engine_name(const zn_engine *engine);
ZN_API int zn_engine_threads(const zn_engine *engine);
/* True if pictures are transferred to the engine's own memory and back, as with a GPU. */
ZN_API bool zn_engine_is_remote(const zn_engine *engine);

/* ---- weight files ----------------------------------------------------------------------------- */

typedef struct zn_weights zn_weights;

typedef struct zn_weight_info {
    const char *name;
    const char *dtype; /* "F32", "F16", ... as safetensors spells it */
    int n_dims;
    int64_t shape[8];
} zn_weight_info;

/* Opens .safetensors, .gguf, .pth/.pt/.ckpt (PyTorch zip) files, or folders of shards, as one set. */
ZN_API zn_status zn_weights_open(zn_weights **out, const char *const *paths, int n_paths, zn_error *err);
ZN_API void zn_weights_close(zn_weights **weights);
ZN_API int zn_weights_count(const zn_weights *weights);
ZN_API zn_weight_info zn_weights_info(const zn_weights *weights, int i);        /* strings live as long */
ZN_API const char *zn_weights_meta(const zn_weights *weights, const char *key); /* of __metadata__; NULL: absent */

/* Reads the tensor of this name as floats in C order; it must have n elements. */
ZN_API zn_status zn_weights_read(float *dst, size_t n, const zn_weights *weights, const char *name, zn_error *err);

/* The id of the model these weights belong to and, in `what`, a description; NULL if unknown. */
ZN_API const char *zn_weights_recognise(const zn_weights *weights, char *what, size_t size);

/* Looks for stem.safetensors, .gguf, .pth, .pt, .ckpt in each folder of $ZENITH_MODELS, in the user's data
 * folder (zenith/models) and in the folder it was installed with. */
ZN_API zn_status zn_weights_find(char *path, size_t size, const char *stem, zn_error *err);

/* The i-th of these folders in the order in which they are looked at; "": there is none, or it came before.  False past the
 * last. */
ZN_API bool zn_weights_folder(char *path, size_t size, int i);

/* The user's own of these folders, or "" if nothing says where that is; the length of its name. */
ZN_API int zn_user_folder(char *path, size_t size);

/* Writes one safetensors file from weight files.  type: "fp32", "fp16" or "bf16", for matrices and kernels; vectors stay
 * float32, integers what they are.  "int8" or "int4": matrices of linear layers in groups of 32, as MLX stores them; the rest
 * is bf16.  "fp8": matrices and dense convolutions as e4m3 with a scale per row (core/quantise.h), the rest bf16.  Memory does not
 * depend on the size of the files.
 *
 * The published files of the diffusion autoencoder (autoencoder, latent network, classifier, latent.pkl; any of them, in any
 * order) become what its models need: the averaged weights and the statistics of codes, each once.  A classifier becomes
 * attributes: alone, `out`, which ends in .attributes.safetensors; with networks, a second file of that ending beside it.
 * Everything else is converted tensor by tensor.  what: NULL, or gets one line on what was written. */
ZN_API zn_status zn_weights_convert(const char *out, const char *const *files, int n_files, const char *type,
                                    zn_error *what, zn_error *err);

/* ---- models ----------------------------------------------------------------------------------- */

typedef struct zn_model zn_model;

enum { ZN_MAX_PORTS = 4, ZN_MAX_SETTINGS = 10, ZN_MAX_SEED = (1 << 24) - 1 /* of a setting */ };

typedef struct zn_setting {
    const char *key; /* NULL ends a list */
    float initial, min, max;
    const char *help;
} zn_setting;

typedef struct zn_model_info {
    const char *id;                   /* "taesd-encode" */
    const char *summary;              /* one line */
    const char *in[ZN_MAX_PORTS + 1]; /* names of the inputs, NULL ends; "[x]" is optional */
    const char *out[ZN_MAX_PORTS + 1];
    const char *weights;        /* the file stem that is looked for when none is given */
    const zn_setting *settings; /* NULL: none */
    const char *video;          /* the id of the model that takes videos with the same weights; NULL: none */
    int narrow; /* of a large network: the width with which the self-test makes it up; 0: the usual one */
} zn_model_info;

/* The i-th registered model, or NULL past the end; the model with that id, or NULL. */
ZN_API const zn_model_info *zn_model_at(int i);
ZN_API const zn_model_info *zn_model_named(const char *id);

/* How an image model maps sizes: known once weights are bound. */
typedef struct zn_geometry {
    int in_c, out_c;          /* channels of the first input and of the first output */
    int more_c[ZN_MAX_PORTS]; /* of the inputs after the first, from [1] on; 0: as the first */
    int shrink, grow;         /* output size = ceil(input size * grow / shrink) */
    int multiple;             /* tiles begin at multiples of this */
    bool padded;              /* sizes must be multiples too: the picture is mirrored up to there */
    int halo;                 /* input pixels around a tile that can change it; -1: the whole image */
    int tile; /* on a CPU: a tile's side, whatever memory there is, if that is enough; 0: the largest that fits */
    int side; /* of the square pictures that it was trained for; 0: any */
    int only_w, only_h; /* the one size of the input; 0: any */
    int lattice;        /* tiles begin at multiples of this; 0: of 12 times `multiple` */
} zn_geometry;

#define ZN_RANDOM_WEIGHTS "random:"

typedef struct zn_open { /* a zeroed one, or NULL, is the default */
    /* Weight files.  None: the model's own file is looked for (zn_weights_find).  ZN_RANDOM_WEIGHTS as the only one makes
     * weights up, for benchmarks; a number after it is the width of the network where that can be chosen. */
    const char *const *files;
    int n_files;
    /* The precision of the model, as long as it is open: fp32, tf32, fp16, bf16, fp8, int8 or int4, where the engine
     * has it.  A CPU stores the weights of dense layers in fp16, bf16, int8 or int4 and computes in fp32; with int8 or int4
     * it may quantise the inputs of Z-Image's layers, too.  NULL or "auto": $ZENITH_PRECISION, or else fp16 on a GPU for
     * models whose result then stays within one 8-bit level and 0.02 dB of fp32, and fp32 for all others. */
    const char *precision;
    /* Weights are counted, not loaded: the model tells its sizes, parameters and plans, and cannot run. */
    bool plan_only;
    /* Bytes of the memory limit (see below) that are already in use, for example by other open models. */
    size_t beside;
    /* NULL, or called with 0 by the thread that opens, between the weights that are read; false cancels. */
    bool (*progress)(void *cookie, double done);
    void *cookie;
} zn_open;

/* The engine must outlive the model.
 *
 * Memory: $ZENITH_MEMORY (on a GPU $ZENITH_CUDA_MEMORY; mebibytes, or 4G) limits the sum of the packed weights of the
 * model, the memory of a run, and the memory that the caller declares as already in use (zn_open, zn_job: beside).  If
 * it is not set, the sum may be three quarters of the machine's memory (on a GPU what was free when the engine was
 * opened), and a tile of a picture 448 MiB (half of what was free, at most 6 GiB).  Where that is too little for
 * Z-Image's networks, their layers are streamed: read from the files, which stay open, as they are needed, in every
 * step again; slower, and reported in the run's note and plan.  The result is the same.  Weights that do not fit are
 * refused before they are loaded. */
ZN_API zn_status zn_model_open(zn_model **out, zn_engine *engine, const char *id, const zn_open *open, zn_error *err);
ZN_API void zn_model_close(zn_model **model);
ZN_API const zn_geometry *zn_model_geometry(const zn_model *model);
ZN_API int64_t zn_model_parameters(const zn_model *model);
ZN_API const char *zn_model_precision(const zn_model *model); /* "fp32" */

/* What computed the model's last run: the engine, or the CPU's that replaced it.  Engines and precisions round
 * differently: results of two of them need not be equal to the bit. */
typedef struct zn_maker {
    const char *engine, *precision; /* "avx2", "fp32" */
} zn_maker;
ZN_API zn_maker zn_model_maker(const zn_model *model);

/* ---- running ---------------------------------------------------------------------------------- */

typedef struct zn_array {
    float *data; /* h * w * c, the channel varies fastest; a vector is 1 x 1 x D */
    int32_t h, w, c;
} zn_array;

static inline size_t zn_array_len(const zn_array *a)
{
    return (size_t)a->h * (size_t)a->w * (size_t)a->c;
}

enum { ZN_NOISE_BINS = 16 };

typedef struct zn_noise_table { /* of a whole picture, as the standard deviation in units of 1/255, per channel */
    float median[3];            /* of the levels of its places, as they are told */
    /* 1: it has no noise, what was measured is texture; 0: it has.  Between: the levels count for the rest to 1. */
    float clean;
    float more; /* levels are higher by this share of themselves: blocks of a JPEG file show */
    /* The minimum level for the denoiser, except where far less is measured.  Entry i is for places whose mean of 8x8
     * pixels is (i + 0.5) / ZN_NOISE_BINS; linear between these. */
    float least[3][ZN_NOISE_BINS];
} zn_noise_table;

typedef struct zn_faults { /* of a whole picture, as settings say it: 0: not found, -1: there is none */
    float noise;           /* standard deviation, of 255 */
    float artefacts;       /* 100 - the quality of the JPEG file that it is from, uncropped and unscaled */
    float blur; /* -1: it is sharp, but for places; standard deviation in pixels, where edges leave no doubt */
    float low[3], high[3]; /* of each channel: all but a few pixels are between; both 0: not measured */
} zn_faults;

typedef struct zn_value { /* of a setting: one of the model's zn_model_info.settings, in its range */
    const char *key;
    double value;
} zn_value;

typedef struct zn_job { /* a zeroed one, or NULL, is the default */
    const zn_value *set;
    int n_set;
    size_t max_memory; /* bytes a forward may take in addition to the weights; 0: see zn_model_open */
    size_t beside;     /* bytes of the limit that are already in use; the engine adds the weights of preview_with */
    /* Tile side in input pixels, made smaller if it takes too much memory; 0: the largest that fits.  Not for a network with a side
     * of its own (zn_geometry). */
    int tile;
    /* 0..1, never falling; false cancels.  Called by the thread that called zn_model_run*, between layers and, on a CPU,
     * inside a layer that takes long (with the same value, so that it can cancel). */
    bool (*progress)(void *cookie, double done);
    void *cookie;
    /* A sampler's estimate of its result after every preview_every-th step, but for the last; NULL, 0: none.  The picture
     * is valid during the call only. */
    void (*preview)(void *cookie, const zn_array *picture, int step, int n_steps);
    int preview_every;
    /* NULL, or a model on the same engine, open until the run is over, that makes the picture to show of an estimate that is
     * a latent: a small decoder.  Where it cannot be used (another engine stands in) the estimate itself is shown. */
    zn_model *preview_with;
    zn_error *note; /* NULL, or gets a sentence about a run that worked, but not as asked ("...; done with the avx2
                     * engine instead"); "" otherwise */
    /* For denoisers that measure the noise: that of the picture (zn_noise_levels), where the input is a part of one, or where many
     * regions of one are run.  NULL: it is measured, in all of the input. */
    const zn_noise_table *noise;
    /* With noise: NULL, or what the engine kept of that picture when it measured it, so that no place is looked at again; and where in
     * the picture the input begins.  Where it is of no use the noise of the places is measured.  The result is the same. */
    const struct zn_levels *cells;
    int32_t cells_x, cells_y;
} zn_job;

typedef struct zn_plan { /* known before anything is allocated */
    size_t peak_bytes; /* activations of one tile, host buffers of it, scratch of the device, weights of preview_with */
    double macs;       /* multiply-adds of the whole run, halos included */
    int32_t tile_w, tile_h; /* input pixels, without halo */
    int32_t n_tiles;
    size_t weight_bytes; /* of the open model, packed */
    bool streamed;       /* they do not fit: layers are read from disk as they are needed, which is slower */
} zn_plan;

/* Fills in the sizes of out[] (not the data) for these inputs (whose data is not read). */
ZN_API zn_status zn_model_shape(const zn_model *model, const zn_array *in, int n_in, zn_array *out, zn_error *err);
ZN_API zn_status zn_model_plan(zn_model *model, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan,
                               zn_error *err);
/* out[].data is the caller's, of the sizes that zn_model_shape gives. */
ZN_API zn_status zn_model_run(zn_model *model, const zn_array *in, int n_in, zn_array *out, const zn_job *job,
                              zn_error *err);

/* A latent as a picture of 8 bits, to show the progress of a sampler: its job's `preview` gets the estimate z.
 * decoder: of the latent's kind, open (zenith-decode, taesd-decode, flux-latent-rgb, ...).  rgb: z->h * z->w * grow^2 *
 * 3 bytes, the caller's. */
ZN_API zn_status zn_latent_show(zn_model *decoder, const zn_array *z, unsigned char *rgb, zn_error *err);

/* The same for pictures that need not fit in memory: tiles are read and written through functions.
 * Tiles lie on one absolute lattice, so every roi gives the pixels that the whole image would. */
typedef struct zn_rect {
    int32_t x, y, w, h;
} zn_rect;

typedef struct zn_source { /* an image of w x h x c */
    int32_t w, h, c;
    bool (*read)(void *cookie, zn_rect r, float *dst); /* r is inside; dst is dense; false: failed */
    void *cookie;
} zn_source;

typedef struct zn_sink {
    bool (*write)(void *cookie, zn_rect r, const float *src); /* false: failed */
    void *cookie;
} zn_sink;

/* roi is in output pixels.  Only models of one output whose inputs are images of one size. */
ZN_API zn_status zn_model_run_region(zn_model *model, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi,
                                     const zn_job *job, zn_error *err);

/* sRGB's curve, for front ends with pictures that are linear in light: light to what networks see, and back, in place.  3 components, or
 * 4 with alpha, which is left alone.  Off by at most 5e-7 of a value (of 1, for values below 1) for all floats: below 0 it
 * continues as a straight line, above 1 as the curve; infinity and NaN are unchanged. */
ZN_API void zn_curve_encode(float *pixels, size_t n, int components);
ZN_API void zn_curve_decode(float *pixels, size_t n, int components);

/* The contract of tiles: how a picture is cut so that whoever computes, keeps or asks for a part of it agrees with all others.  In
 * pixels of the picture, from its corner; its result is scale times as large.
 *
 *      + - - - - - +      A cell depends on the pixels of the picture up to a halo around it (zn_grid_around), and on
 *      :  +--+--+  :      nothing else: caches keep cells.  The same function gives the cells that a change of the picture
 *      :  |  |##|  :      can change.
 *      :  +--+--+  :      An area is what is computed for a region: whole cells, more of them where that costs little.
 *      :  |##|##|  :      It is computed in one piece, if it fits into a tile, or else tile by tile.
 *      + - - - - - + */
typedef struct zn_grid {
    int32_t w, h;    /* of the picture */
    int32_t scale;   /* 1: the result has its size */
    int32_t lattice; /* tiles begin at multiples of this */
    int32_t halo;    /* whole multiples of the model's */
    int32_t cell;    /* a side; whole lattice steps */
    int32_t tile;    /* a side; whole cells */
    int32_t usual;   /* the tile of a network with a narrow halo and enough memory */
} zn_grid;

/* For a model of one picture that gives another, and a job with these settings.  job->tile: the least side of a tile; 0: the usual
 * one.  Less where memory is short. */
ZN_API zn_status zn_model_grid(zn_grid *grid, zn_model *model, int32_t w, int32_t h, const zn_job *job, zn_error *err);

/* The area of a region, and its piece at a pixel; the first pixel, to the right or below, of the next piece.  A region of less than
 * half a tile a side is widened to that: it would be mostly halo, and hosts ask for many in a row.  A large one is widened to
 * whole tiles, as its neighbours follow. */
ZN_API zn_rect zn_grid_area(const zn_grid *grid, zn_rect roi);
ZN_API zn_rect zn_grid_piece(const zn_grid *grid, zn_rect area, int32_t x, int32_t y);
ZN_API int32_t zn_grid_next(const zn_grid *grid, zn_rect area, int32_t at);
/* Whether the engine would compute the part in several tiles. */
ZN_API bool zn_grid_crosses(const zn_grid *grid, zn_rect part);
/* The cell of a pixel; the whole cells that meet a part, which is not empty, or the halo around it. */
ZN_API zn_rect zn_grid_cell(const zn_grid *grid, int32_t x, int32_t y);
ZN_API zn_rect zn_grid_around(const zn_grid *grid, zn_rect part);
/* A part of the picture in the result; the part of the picture that a part of the result lies on. */
ZN_API zn_rect zn_grid_result(const zn_grid *grid, zn_rect part);
ZN_API zn_rect zn_grid_source(const zn_grid *grid, zn_rect part);

ZN_API zn_rect zn_rect_meet(zn_rect a, zn_rect b); /* what both have; w and h are 0 if that is nothing */
ZN_API zn_rect zn_rect_widen(zn_rect r, int32_t by);

/* A video, for models that are causal in time (zn_model_info.video).  move() reads a frame of an input, or writes one of a
 * result; each frame once, in order; false: failed.  Memory does not depend on the number of frames. */
typedef struct zn_frames {
    int32_t n, h, w, c;
    bool (*move)(void *cookie, int32_t i, float *frame);
    void *cookie;
} zn_frames;

/* Fills in the sizes of out.  An encoder takes any number of frames of any size: it repeats the last frame, row and column up to whole
 * latent frames and pixels. */
ZN_API zn_status zn_model_video_shape(const zn_model *model, const zn_frames *in, zn_frames *out, zn_error *err);
ZN_API zn_status zn_model_run_video(zn_model *model, const zn_frames *out, const zn_frames *in, const zn_job *job,
                                    zn_error *err);
/* macs are of all frames, n_tiles the chunks of several frames that are in memory at a time. */
ZN_API zn_status zn_model_video_plan(zn_model *model, const zn_frames *in, const zn_job *job, zn_plan *plan,
                                     zn_error *err);
/* A video to its latents and back, chunk by chunk: the latents are never kept, and out has the sizes of in.  Both are models of one
 * engine. */
ZN_API zn_status zn_model_pass_video(zn_model *encoder, zn_model *decoder, const zn_frames *out, const zn_frames *in,
                                     const zn_job *job, zn_error *err);

/* Denoisers without a given noise level (sigma 0, no map) measure it, for each pixel and channel, with the network
 * denoise-level where its weights are found.  How far around a region it is measured, in pixels: what a region needs in
 * addition to the model's halo.  0: denoise-level is not installed, or the model is no denoiser; then the noise is
 * zn_noise_estimate()'s, the same everywhere. */
ZN_API int32_t zn_model_level_reach(const zn_model *model);
/* Measured once per picture; in a large one, in 16 squares.  Does not depend on any roi.  Where denoise-level is not
 * installed, median is zn_noise_estimate()'s and least is 0. */
ZN_API zn_status zn_noise_levels(zn_noise_table *noise, zn_model *model, const zn_source *in, zn_error *err);

/* The noise of a picture (R'G'B', 0..1), per channel, in the same units, without a network.  Reads a bounded sample of the picture
 * that does not depend on any roi. */
ZN_API zn_status zn_noise_estimate(float sigma[3], const zn_source *in, zn_error *err);

/* Normal noise of mean 0 and variance 1: values 0 .. n-1 of a stream of a seed, the same on every machine and in every version. */
ZN_API void zn_noise_fill(float *dst, size_t n, uint64_t seed, uint64_t stream);

/* ---- text -------------------------------------------------------------------------------------- */

typedef struct zn_tokenizer zn_tokenizer;

enum { ZN_MAX_TEXT = 1 << 16 }; /* bytes */

/* Opens a tokenizer.json of Qwen2 or Qwen3: byte-level BPE, their split rules, normalisation form C. */
ZN_API zn_status zn_tokenizer_open(zn_tokenizer **out, const char *path, zn_error *err);
ZN_API void zn_tokenizer_close(zn_tokenizer **tokenizer);

/* The tokens of a text in UTF-8, of at most ZN_MAX_TEXT bytes.  At most max are written; *n is how many it has. */
ZN_API zn_status zn_tokenizer_encode(int32_t *ids, int max, int *n, const zn_tokenizer *tokenizer, const char *text,
                                     zn_error *err);
/* The same for a prompt as the only message of a chat, followed by the start of the answer, as Z-Image expects it. */
ZN_API zn_status zn_tokenizer_chat(int32_t *ids, int max, int *n, const zn_tokenizer *tokenizer, const char *prompt,
                                   zn_error *err);

/* ---- files of Z-Image --------------------------------------------------------------------------- */

typedef enum zn_zimage_part {
    ZN_ZIMAGE_TOKENIZER,
    ZN_ZIMAGE_TEXT, /* z-image-text */
    ZN_ZIMAGE_TRANSFORMER,
    ZN_ZIMAGE_AUTOENCODER, /* flux-ae-* */
    ZN_ZIMAGE_PREVIEW,     /* taesd-decode; not needed */
    ZN_ZIMAGE_PARTS
} zn_zimage_part;

typedef struct zn_zimage_file {
    const char *name;  /* what it is: "transformer" */
    const char *size;  /* of the published one: "12.3 GB in 3 files" */
    const char *place; /* where it is looked for first: "transformer/" */
    char path[4096];   /* a file or a folder; "": not found */
} zn_zimage_file;

/* Where the parts of Z-Image are.  folder: the published folder, or one with files of these names: tokenizer.json,
 * z-image-text.*, z-image.*, flux-ae.*, taef1_decoder.*.  NULL or "": a folder z-image in one of the model folders, or files
 * of these names there.  ZN_E_FILE, and a message that says what is missing, how large it is, where it is published and
 * where to put it, if a part that is needed was not found; the others are in the list. */
ZN_API zn_status zn_zimage_find(zn_zimage_file list[ZN_ZIMAGE_PARTS], const char *folder, zn_error *err);

/* ---- faces ------------------------------------------------------------------------------------- */

/* The frame of a face: a square in which the eyes lie at (31 %, 30 %) and (69 %, 30 %) of its side and the mouth at
 * (50 %, 69 %), least squared error of the three.  The properties frame-* of the operations on faces are the same. */
typedef struct zn_face {
    float x, y;  /* its centre, in pixels from the corner of the picture */
    float size;  /* its side */
    float angle; /* degrees, clockwise */
    float score; /* 0..1: the confidence that there is a face */
} zn_face;

typedef struct zn_finder zn_finder;

/* The networks of zenith-find; open->files names another weight file.  The engine must outlive the finder. */
ZN_API zn_status zn_finder_open(zn_finder **out, zn_engine *engine, const zn_open *open, zn_error *err);
ZN_API void zn_finder_close(zn_finder **finder);

/* Finds at most max faces in a picture of any size (R'G'B', 0..1), the largest first.  If there is no face, the call
 * succeeds and *n is 0.  The picture is reduced to at most a megapixel, in which a face must have 48 pixels; a larger
 * picture needs a proportionally larger face.  The result does not depend on the number of threads. */
ZN_API zn_status zn_find_faces(zn_face *list, int max, int *n, zn_finder *finder, const zn_source *in, zn_error *err);

/* Fills the square out (its sizes and data are the caller's, 3 channels) with the content of the frame; outside of
 * the picture, with the nearest pixel inside. */
ZN_API void zn_face_cut(zn_array *out, const zn_array *picture, const zn_face *face);

/* ---- self-test --------------------------------------------------------------------------------- */

/* Runs every operation of the engine on odd sizes, and a tiny model of each kind with made-up
 * weights, against the scalar reference; or, if `only` is not NULL, the cases whose names begin
 * so, with or without their precision: "conv", "fp16 conv"; or a part of them: "fp16 conv 2/5"; or
 * several of these: "fp16 conv; rope".  One call of report() per case; returns the number of
 * failures, or -1 if the engine cannot be opened. */
ZN_API int zn_selftest(const char *engine, int n_threads, const char *only,
                       void (*report)(void *cookie, const char *name, bool ok, const char *detail), void *cookie);

#ifdef __cplusplus
}
#endif
#endif
