/* SPDX-License-Identifier: MIT */
/* train.c - `zenith train`: options, a line of progress, files. */
#include "cli.h"

#include "../zenith_file.h"
#include "../zenith_number.h"
#include "pictures.h"
#include "train.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "zenith train MODEL --out FILE.safetensors [options]\n"
    "\n"
    "  MODEL            zenith-ae, zenith-prune, conv-baseline-ae; zenith-taesd, zenith-lite-doc, "
    "zenith-spectral,\n"
    "                   vanilla-taesd, wan2d-vae (encoder and decoder); template.  On --pictures: denoise-fast, "
    "-balanced, "
    "-best,\n"
    "                   zenith, zenith-lite, zenith-tae, from the weights of that name or --weights\n"
    "                   diffae-latent: what draws new faces, from --pictures, cut to the face (--whole: as they are)\n"
    "  --task T         restore wavelets (or restore-gaussian, restore-shot, restore-blur: one damage), "
    "reconstruct\n"
    "                   them, or --pictures; denoise (a denoiser on --pictures)\n"
    "  --pictures DIR   PNG and JPEG files to learn from\n"
    "  --weights FILE   start from these; --resume CKPT goes on where a run with the same options stopped\n"
    "  --checkpoint F   written every --every N steps [500] and when interrupted\n"
    "  --steps N [2000] --batch N [4] --size N [64] --base N [16] --seed N [0]\n"
    "  --rate R [1e-3; denoisers 1e-4] --decay D [0] --loss mse|l1 --cosine\n"
    "  --relative P     a picture's error counts as (its damage)^-P [0]\n"
    "  --kl W           weight of the divergence in the loss of wan2d-vae [0.001], which has AdamW, rate 1e-4, decay "
    "0.01\n"
    "  --temperature T  of the gates' noise [0]; --penalty P on open gates; --dropout P of coefficients\n"
    "  --residual       the extension: blocks and network add to their input\n"
    "  --activation A   of zenith-taesd and its kin: relu, silu or gelu; --windows: weights for any "
    "picture's size\n"
    "  --wave A,B --spread A,B   the wavelets' frequencies and sizes [0.05,0.3 and 20,80]\n"
    "  --sigma A,B      the noise [restore: 0.2,0.2; denoise, of 255: 0,55]\n"
    "  --engine E --threads N\n";

typedef struct settings {
    zn_train_options o;
    const char *pictures, *out, *checkpoint, *engine, *loss;
    int threads, every;
    bool whole;
} settings;

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* ---- options ------------------------------------------------------------------------------------------- */

typedef enum kind { TEXT, WHOLE, LONG, SEED, NUMBER, PAIR, FLAG } kind;

static const struct {
    const char *name;
    kind kind;
    size_t at;
} known[] = {
    { "--task", TEXT, offsetof(settings, o.task) },
    { "--pictures", TEXT, offsetof(settings, pictures) },
    { "--weights", TEXT, offsetof(settings, o.weights) },
    { "--resume", TEXT, offsetof(settings, o.resume) },
    { "--checkpoint", TEXT, offsetof(settings, checkpoint) },
    { "--out", TEXT, offsetof(settings, out) },
    { "--engine", TEXT, offsetof(settings, engine) },
    { "--loss", TEXT, offsetof(settings, loss) },
    { "--every", WHOLE, offsetof(settings, every) },
    { "--threads", WHOLE, offsetof(settings, threads) },
    { "--base", WHOLE, offsetof(settings, o.base) },
    { "--size", WHOLE, offsetof(settings, o.size) },
    { "--batch", WHOLE, offsetof(settings, o.batch) },
    { "--steps", LONG, offsetof(settings, o.steps) },
    { "--seed", SEED, offsetof(settings, o.seed) },
    { "--rate", NUMBER, offsetof(settings, o.rate) },
    { "--decay", NUMBER, offsetof(settings, o.decay) },
    { "--temperature", NUMBER, offsetof(settings, o.temperature) },
    { "--dropout", NUMBER, offsetof(settings, o.dropout) },
    { "--penalty", NUMBER, offsetof(settings, o.penalty) },
    { "--kl", NUMBER, offsetof(settings, o.divergence) },
    { "--wave", PAIR, offsetof(settings, o.wave) },
    { "--spread", PAIR, offsetof(settings, o.spread) },
    { "--sigma", PAIR, offsetof(settings, o.sigma) },
    { "--cosine", FLAG, offsetof(settings, o.cosine) },
    { "--relative", NUMBER, offsetof(settings, o.relative) },
    { "--residual", FLAG, offsetof(settings, o.residual) },
    { "--activation", TEXT, offsetof(settings, o.activation) },
    { "--windows", FLAG, offsetof(settings, o.windows) },
    { "--whole", FLAG, offsetof(settings, whole) },
};

static bool set_value(void *to, kind k, const char *value)
{
    const char *comma;
    char *end = NULL;
    double *pair = to;

    switch (k) {
    case TEXT:
        *(const char **)to = value;
        return *value != 0;
    case WHOLE:
        *(int *)to = (int)strtol(value, &end, 10);
        return end != value && !*end && *(int *)to > 0;
    case LONG:
        *(int64_t *)to = strtoll(value, &end, 10);
        return end != value && !*end && *(int64_t *)to > 0;
    case SEED:
        *(uint64_t *)to = strtoull(value, &end, 10);
        return end != value && !*end;
    case NUMBER:
        return zn_number_parse(to, value, NULL) && *(double *)to >= 0;
    default:
        return zn_number_parse(&pair[0], value, &comma) && *comma == ',' &&
            zn_number_parse(&pair[1], comma + 1, NULL) && pair[0] >= 0 && pair[1] >= pair[0];
    }
}

static int parse(settings *s, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        size_t k = 0, n = sizeof known / sizeof *known;

        if (strncmp(argv[i], "--", 2)) {
            if (s->o.model)
                return usage("one model at a time: %s, %s", s->o.model, argv[i]);
            s->o.model = argv[i];
            continue;
        }
        while (k < n && strcmp(argv[i], known[k].name))
            k++;
        if (k == n)
            return usage("unknown option %s; see `zenith train --help`", argv[i]);
        if (known[k].kind == FLAG)
            *(bool *)((char *)s + known[k].at) = true;
        else if (++i == argc || !set_value((char *)s + known[k].at, known[k].kind, argv[i]))
            return usage("%s: '%s' makes no sense", known[k].name, i < argc ? argv[i] : "");
    }
    if (!s->o.model || !s->out)
        return usage("train takes a model and --out FILE.safetensors; see `zenith train --help`");
    if (s->loss && strcmp(s->loss, "mse") && strcmp(s->loss, "l1"))
        return usage("--loss is mse or l1, not '%s'", s->loss);
    s->o.absolute = s->loss && !strcmp(s->loss, "l1");
    s->every = s->every ? s->every : 500;
    return EXIT_DONE;
}

/* ---- pictures ------------------------------------------------------------------------------------------ */

typedef struct album {
    zn_trainer *t;
    int n;
    bool no_memory;
} album;

static bool add_picture(void *cookie, const char *name, const zn_array *picture, const char *why)
{
    album *a = cookie;
    zn_error err;
    zn_status s;

    if (!picture) {
        fprintf(stderr, "zenith: %s is left out: %s\n", name, why);
        return true;
    }
    s = zn_trainer_add_picture(a->t, picture, &err);
    a->n += !s;
    a->no_memory = s == ZN_E_MEMORY;
    if (s && !a->no_memory)
        fprintf(stderr, "zenith: %s is left out: %s\n", name, err.text);
    return !a->no_memory;
}

static int read_album(zn_trainer *t, const char *folder)
{
    album a = { .t = t };
    zn_status s;

    if (!pictures_supported())
        return fail("this build reads no pictures: install libpng and libjpeg (Debian: libpng-dev, libjpeg-dev) and "
                    "build again");
    s = pictures_read(folder, add_picture, &a);
    if (s == ZN_E_FILE)
        return fail("the folder %s cannot be read", folder);
    if (s || a.no_memory)
        return fail("there is not enough memory for the pictures in %s", folder);
    if (!a.n)
        return fail("there is no PNG or JPEG picture of a useful size in %s", folder);
    fprintf(stderr, "%d pictures from %s\n", a.n, folder);
    return EXIT_DONE;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

/* On a terminal a bar that grows, elsewhere one line in ten seconds. */
static void show(const zn_train_report *r, double loss, double speed)
{
    static const char full[] = "####################", empty[] = "--------------------";
    bool tty = isatty(STDERR_FILENO);
    int width = (int)sizeof full - 1, bar = (int)(r->step * width / r->steps);
    int left = speed > 0 ? (int)((double)(r->steps - r->step) / speed) : 0;

    bar = bar < width ? bar : width;
    if (tty)
        fprintf(stderr, "\r[%.*s%.*s] ", bar, full, width - bar, empty);
    fprintf(stderr, "step %lld of %lld  loss %.5f  %.1f steps/s  %d:%02d left", (long long)r->step, (long long)r->steps,
            loss, speed, left / 60, left % 60);
    if (r->all_gates > 0)
        fprintf(stderr, "  gates open %.0f %%", 100 * r->open_gates / r->all_gates);
    if (r->divergence > 0)
        fprintf(stderr, "  KL %.3f", r->divergence);
    fputs(tty ? "   " : "\n", stderr);
}

static int train(zn_trainer *t, const settings *s)
{
    zn_train_report r = { 0 };
    zn_error err;
    double loss = 0, start = now_ms() / 1e3, shown = start;
    int64_t done = 0;

    do {
        double time;

        if (zn_trainer_step(t, &r, &err))
            return fail("%s", err.text);
        loss = done ? 0.98 * loss + 0.02 * r.loss : r.loss;
        time = now_ms() / 1e3;
        done++;
        if (time - shown > (isatty(STDERR_FILENO) ? 0.2 : 10) || r.step >= r.steps) {
            show(&r, loss, (double)done / (time - start));
            shown = time;
        }
        if (s->checkpoint && (r.step % s->every == 0 || interrupted) && zn_trainer_checkpoint(t, s->checkpoint, &err))
            return fail("%s", err.text);
    } while (r.step < r.steps && !interrupted);
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (zn_trainer_save(t, s->out, &err))
        return fail("%s", err.text);
    if (interrupted)
        return s->checkpoint ? fail("interrupted at step %lld; --resume %s goes on", (long long)r.step, s->checkpoint)
                             : fail("interrupted at step %lld", (long long)r.step);
    return EXIT_DONE;
}

/* was: the error before the run, or 0. */
static int show_test(zn_trainer *t, double was)
{
    static const char *const restore[] = { "Gaussian noise 0.3", "shot noise 5 %", "box blur 3x3" };
    const bool one = zn_trainer_tests(t) == 1;
    zn_error err;

    for (int i = 0; i < zn_trainer_tests(t); i++) {
        double before, after;

        if (zn_trainer_test(t, i, &before, &after, &err))
            return fail("%s", err.text);
        if (one && before == 0 && was > 0)
            printf("error (MSE) on squares of these pictures: %.6f before, %.6f now (%+.2f dB)\n", was, after,
                   10 * log10(was / after));
        else if (one && before == 0)
            printf("error (MSE) on pictures not trained on: %.6f\n", after);
        else
            printf("%-20s MSE %.6f, restored %.6f: %.2fx less\n", one ? "noise" : restore[i], before, after,
                   before / after);
    }
    return EXIT_DONE;
}

int cmd_train(int argc, char **argv)
{
    settings s = { .out = NULL };
    zn_engine *engine = NULL;
    zn_trainer *t = NULL;
    zn_error err;
    double damage, was = 0;
    char own[4096];
    int status;

    if (argc && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "help"))) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if ((status = parse(&s, argc, argv)))
        return status;
    /* before hours of training, not after */
    if (zn_write_check(s.out, &err) || (s.checkpoint && zn_write_check(s.checkpoint, &err)))
        return fail("%s", err.text);
    if (!strcmp(s.o.model, "diffae-latent")) {
        signal(SIGINT, interrupt);
        return train_latent(&(latent_options){ .pictures = s.pictures,
                                               .weights = s.o.weights,
                                               .out = s.out,
                                               .engine = s.engine,
                                               .threads = s.threads,
                                               .batch = s.o.batch ? s.o.batch : 256,
                                               .steps = s.o.steps ? s.o.steps : 2000,
                                               .rate = s.o.rate > 0 ? s.o.rate : 1e-3,
                                               .seed = s.o.seed,
                                               .whole = s.whole,
                                               .interrupted = &interrupted });
    }
    if (s.pictures && !s.o.weights && !s.o.resume && !zn_weights_find(own, sizeof own, s.o.model, &err))
        s.o.weights = own;
    if (zn_engine_open_to_train(&engine, s.engine, s.threads, &err) || zn_trainer_open(&t, engine, &s.o, &err)) {
        zn_engine_close(&engine);
        return fail("%s", err.text);
    }
    if (*zn_trainer_note(t))
        fprintf(stderr, "zenith: %s\n", zn_trainer_note(t));
    signal(SIGINT, interrupt);
    if (s.pictures)
        status = read_album(t, s.pictures);
    if (!status && s.pictures && s.o.weights && zn_trainer_test(t, 0, &damage, &was, &err))
        status = fail("%s", err.text);
    if (!status)
        status = train(t, &s);
    if (!status)
        status = show_test(t, was);
    zn_trainer_close(&t);
    zn_engine_close(&engine);
    return status;
}
