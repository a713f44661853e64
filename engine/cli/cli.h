/* SPDX-License-Identifier: MIT */
/* cli.h - the parts of the `zenith` program.  Like any front end it includes only the public headers: zenith.h,
 * zenith_bench.h, zenith_composite.h, zenith_face.h, zenith_file.h, zenith_number.h and zenith_train.h. */
#ifndef ZN_CLI_H
#define ZN_CLI_H

#include "../zenith.h"
#include "../zenith_file.h"

#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, MAX_LIST = 64 };

/* Options that the commands share; a command refuses those that it does not use. */
typedef struct options {
    const char **word; /* arguments that are not options, as many as there are */
    int n_words;
    const char *weights[MAX_LIST], *set[MAX_LIST], *in[MAX_LIST], *out[MAX_LIST];
    int n_weights, n_set, n_in, n_out;
    const char *engine, *only, *type;
    const char *with, *without; /* folders of teach */
    int threads;
    int width, height; /* --size; 0: not given */
    bool json, layers, progress, whole, help;
} options;

/* Each prints one line on stderr and returns the exit status. */
int fail(const char *fmt, ...);  /* EXIT_FAILED */
int usage(const char *fmt, ...); /* EXIT_USAGE */

double now_ms(void); /* a clock that only goes forward */
double cpu_ms(void); /* CPU time of this process, all threads */
bool show_progress(void *cookie, double done);

/* The value of "precision=" among the --set options; NULL: not given.  job_settings reads the others: -1 and a message if one
 * is no number, or their number.  set->value[i].key is in set. */
typedef struct job_set {
    zn_value value[MAX_LIST];
    char key[MAX_LIST][32];
} job_set;

const char *precision_of(const options *o);
int job_settings(job_set *set, const options *o, zn_error *err);

int cmd_run(const options *o);
int run_tokens(const options *o); /* `zenith run z-image-tokens` */
bool is_zimage(const options *o); /* whether `zenith info` is asked about a folder of Z-Image */
int info_zimage(const options *o);
int cmd_convert(const options *o);
int cmd_denoise(const options *o);
int cmd_bench(const options *o);
int cmd_face(const options *o);
int cmd_find(const options *o);
int cmd_generate(const options *o);
int cmd_models(const options *o);
int cmd_restore(const options *o);
int cmd_teach(const options *o);
int cmd_upscale(const options *o);
int cmd_video(const options *o);
bool bench_zenith_has(const options *o); /* whether these are the tables of the Zenith documents */
int bench_zenith(const options *o);
bool bench_faces_has(const options *o); /* whether it is the face edit */
int bench_faces(const options *o);
bool bench_generate_has(const options *o); /* whether it is a picture from a prompt */
int bench_generate(const options *o);
int cmd_train(int argc, char **argv); /* has options of its own */

/* .npy files: float32 and int64, little-endian, C order.  rank: the number of axes, 1 to 3.
 * npy_read allocates data; both return false and the error message in err. */
bool npy_read(zn_array *out, int *rank, const char *path, zn_error *err);
bool npy_write(const char *path, const zn_array *a, int rank, zn_error *err);
/* A latent that is the only tensor of a weight file, [1][c][n][h][w] or without the n: its n frames one below the other. */
bool latent_is_file(const char *path);
bool latent_read(zn_array *out, int *n, const char *path, zn_error *err);
/* The number of axes; 0: it cannot be read. */
int npy_rank(const char *path);

/* Replaces values that are not finite by 0: one would spread to every pixel that a network computes from it.  Returns
 * how many there were. */
size_t clean_numbers(float *x, size_t len);
void say_cleaned(size_t n, const char *what); /* prints a line, but for 0 */
/* Whether a result is one: that of damaged weights, or of huge values, is not.  False, and the message in err. */
bool check_numbers(const float *x, size_t len, zn_error *err);

/* Videos have four axes, and are read and written frame by frame.  To write one: its sizes are in frames; its
 * numbers are checked.  Closing with ok false leaves no file; err stays, unless a frame was refused. */
typedef struct npy_video {
    zn_frames frames;
    FILE *f;
    zn_output out; /* of one that is written */
    zn_error err;  /* of its frames, or empty */
} npy_video;

bool npy_open_video(npy_video *v, const char *path, zn_error *err);
bool npy_create_video(npy_video *v, const char *path, zn_error *err);
bool npy_close_video(npy_video *v, bool ok, zn_error *err);

#endif
