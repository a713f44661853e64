/* SPDX-License-Identifier: MIT */
/* zenith_train.h - training on the CPU: the Zenith autoencoders on the wavelet tasks of their document, and a
 * denoiser on the user's own pictures.
 *
 *     zn_train_options o = { .model = "zenith-prune", .task = "restore", .steps = 20000 };
 *     zn_trainer *t = NULL;
 *     zn_train_report r;
 *
 *     zn_trainer_open(&t, engine, &o, &err);
 *     while (!zn_trainer_step(t, &r, &err) && r.step < r.steps)
 *         printf("%g\n", r.loss);
 *     zn_trainer_save(t, "mine.safetensors", &err);
 *     zn_trainer_close(&t);
 *
 * Everything is drawn from the seed and the number of the step: the same options give the same bits, on any
 * number of threads, and a run that is continued from a checkpoint gives those of an unbroken one.  The rules
 * of zenith.h hold here too. */
#ifndef ZENITH_TRAIN_H
#define ZENITH_TRAIN_H

#include "zenith.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_trainer zn_trainer;

typedef struct zn_train_options { /* 0 or NULL is the default, in brackets */
    const char *model;   /* zenith-ae, zenith-prune, conv-baseline-ae; zenith-taesd, zenith-lite-doc, zenith-spectral,
                 * vanilla-taesd: encoder and decoder in one file; denoise-fast, denoise-balanced, denoise-best;
                 * zenith, zenith-lite, from weights; wan2d-vae; template */
    const char *task;    /* restore, or one damage alone: restore-gaussian, restore-shot, restore-blur; reconstruct
                * (of wavelets, or of pictures); denoise (pictures) [restore; of a denoiser: denoise] */
    const char *weights; /* where to start from [the seed]; a denoiser and zenith need it */
    const char *resume;  /* a checkpoint of a run with the same options */
    int base;            /* width of an autoencoder [16] */
    int size, batch;     /* side of the pictures in a batch [64]; how many [4] */
    int64_t steps;       /* of the whole run, for which the schedules are computed [2000] */
    double rate;         /* learning rate [1e-3; of a denoiser and of wan2d-vae 1e-4] */
    double decay;        /* AdamW's weight decay [0: Adam; of wan2d-vae 0.01] */
    bool cosine;         /* the rate falls to 0 along a cosine, after 50 steps of rising [stays] */
    bool absolute;       /* mean absolute error instead of squared */
    double relative;     /* a picture's error counts as (its damage)^-relative: 0 as it is, 1 as a ratio */
    uint64_t seed;
    double temperature;     /* of the gates' noise, until a quarter of the steps; then it falls to 0 at three
                           quarters */
    double dropout;         /* share of spectral coefficients that are set to 0 in a step */
    double penalty;         /* on each open gate */
    double divergence;      /* weight of the posterior's divergence (KL) in the loss of wan2d-vae [0.001] */
    bool hard_gates;        /* as in inference, from the start */
    bool residual;          /* the named extension: blocks and network add to their input */
    const char *activation; /* the named extension of the first document's networks: relu, silu or gelu [none] */
    bool windows;           /* likewise: the gates, as long as these pictures, become windows of any picture */
    double wave[2];         /* the wavelets' frequencies, radians per pixel [0.05, 0.3] */
    double spread[2];       /* the deviation of their envelopes, pixels [20, 80] */
    double sigma[2];        /* the noise of the task denoise, of 255 [0, 55]; of restore, of 1 [0.2, 0.2] */
} zn_train_options;

typedef struct zn_train_report {
    int64_t step, steps;
    double loss;       /* of this step's batch, before its update */
    double open_gates; /* the sum of the gates' masks; 0 without gates */
    double all_gates;
    double divergence; /* of the posterior, its mean over the latent's pixels; not in `loss` */
    double forward_ms, backward_ms, update_ms, data_ms;
} zn_train_report;

ZN_API zn_status zn_trainer_open(zn_trainer **out, zn_engine *engine, const zn_train_options *o, zn_error *err);
ZN_API void zn_trainer_close(zn_trainer **t);
/* "", or a sentence about what was opened: it has another name now. */
ZN_API const char *zn_trainer_note(const zn_trainer *t);

/* A picture to learn from instead of wavelets: R'G'B', 0..1, copied as 8 bits.  At least as large as the
 * batch's. */
ZN_API zn_status zn_trainer_add_picture(zn_trainer *t, const zn_array *picture, zn_error *err);

ZN_API zn_status zn_trainer_step(zn_trainer *t, zn_train_report *report, zn_error *err);

/* How many kinds of test there are: of restore 3, else 1. */
ZN_API int zn_trainer_tests(const zn_trainer *t);

/* The error before and after on one fixed batch that is not trained on, with hard gates.
 * kind: of restore 0 Gaussian 0.3, 1 shot noise 5 %, 2 box blur 3x3; of reconstruct and denoise 0. */
ZN_API zn_status zn_trainer_test(zn_trainer *t, int kind, double *before, double *after, zn_error *err);

/* Weights for `zenith run`; a checkpoint to continue from. */
ZN_API zn_status zn_trainer_save(const zn_trainer *t, const char *path, zn_error *err);
ZN_API zn_status zn_trainer_checkpoint(const zn_trainer *t, const char *path, zn_error *err);

/* ---- the latent network ------------------------------------------------------------------------------- */

/* What is needed to train the network that draws new codes: `zenith train diffae-latent`. */
typedef struct zn_latent_lesson {
    /* The model whose codes these are.  A latent network in it gives the sizes of the new one; all else is copied to the result. */
    const char *weights;
    const float *codes; /* [n][d]; one in ten is held out */
    int n, d;           /* at least ZN_LATENT_MIN */
    int64_t steps;
    int batch;
    double rate;
    uint64_t seed;
} zn_latent_lesson;

typedef struct zn_latent_report {
    int64_t step, steps;
    double loss;          /* mean squared error of v, of this step's batch */
    double before, after; /* of codes that were held out: before the first step; of the result */
} zn_latent_report;

enum { ZN_LATENT_MIN = 20, ZN_LATENT_MAX = 1 << 20 };

/* The same bits for every number of threads.  progress: NULL, or called after each step; false cancels.  The file is written
 * completely or not at all. */
ZN_API zn_status zn_latent_train(const char *path, zn_latent_report *report, zn_engine *engine,
                                 const zn_latent_lesson *lesson,
                                 bool (*progress)(void *cookie, const zn_latent_report *report), void *cookie,
                                 zn_error *err);

/* ---- attributes -------------------------------------------------------------------------------------- */

/* What is needed to learn a direction in codes from two sets of them; see docs/diffae.md. */
typedef struct zn_lesson {
    const char *name;            /* of the attribute: small letters, digits and '-', at most 40 */
    const char *model;           /* the stem of the weight file whose codes these are */
    const float *with, *without; /* [n_with][d], [n_without][d] */
    int n_with, n_without;       /* at least ZN_TEACH_MIN each */
    int d;
    const float *mean, *deviation; /* [d]: of the codes of the model's training set */
} zn_lesson;

typedef struct zn_teach_report {
    double auroc; /* of codes that the fit did not see: the share of pairs (with, without) in the right order */
    double error; /* its standard error */
    int parts;    /* of the cross-validation */
} zn_teach_report;

enum { ZN_TEACH_MIN = 5, ZN_TEACH_MAX = 4000 };

/* Fits a logistic regression and writes its direction as an attribute file: amount 1 moves a code as far as with the
 * attributes that the model came with.  The file is written completely or not at all. */
ZN_API zn_status zn_teach(const char *path, zn_teach_report *report, const zn_lesson *lesson, zn_error *err);

#ifdef __cplusplus
}
#endif
#endif
