/* SPDX-License-Identifier: MIT */
/* main.c - the `zenith` program: options, and the commands that are a few lines each. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "zenith - the engine of the Zenith filters\n"
    "\n"
    "  zenith engines                 what can compute here; '*' marks what auto picks\n"
    "  zenith models                  the models and where their weights are\n"
    "  zenith info FILE...            tensors of weight files, and the model they belong to\n"
    "  zenith info z-image [FOLDER] [--size WxH] [--set precision=int4]   the files of Z-Image: what is missing, what "
    "a run "
    "takes\n"
    "  zenith run MODEL [--weights FILE]... [--set KEY=VALUE]... --in NAME=FILE.npy... --out NAME=FILE.npy...\n"
    "  zenith run z-image-tokens --weights tokenizer.json --in prompt=FILE.txt --out tokens=FILE.npy [--set chat=0]\n"
    "  zenith help COMMAND            what it takes, and its settings; also zenith COMMAND --help\n"
    "  zenith denoise IN OUT [KEY=VALUE]...   removes noise from a picture\n"
    "  zenith restore IN OUT [KEY=VALUE]...   undoes blur, JPEG artifacts and noise\n"
    "  zenith upscale IN OUT [scale=4]...     enlarges a picture 2, 3 or 4 times\n"
    "  zenith generate [IN] OUT prompt=TEXT [KEY=VALUE]... [--in mask=PICTURE]   a picture from a prompt, "
    "with\n"
    "                                 Z-Image; from IN, inside of a mask.  OUT is .png, .ppm or .npy\n"
    "  zenith face [IN] OUT [KEY=VALUE]... [--in second=PICTURE]   a face is changed (attribute=smile amount=0.8), "
    "drawn "
    "again,\n"
    "                                 blended with a second one, or made up: mode=reconstruct, interpolate, sample\n"
    "  zenith video encode|decode|roundtrip IN OUT   frames to Wan's latents and back; IN, OUT: folders of pictures, "
    ".npy\n"
    "  zenith bench [MODEL...] [--size WxH] [--layers] [--json]\n"
    "  zenith bench face-edit [PICTURE]   an edit of a face, loading included and not\n"
    "  zenith bench generate --weights FOLDER   a picture from a prompt, loading included and not\n"
    "  zenith convert FILE... OUT [--type fp16|bf16|fp32|fp8|int8|int4]   weight files, published checkpoints too, to "
    "one "
    ".safetensors\n"
    "  zenith find PICTURE...         the frames of the faces in pictures (.npy, PNG, JPEG), the largest first\n"
    "  zenith teach NAME --with DIR --without DIR   an attribute for zenith:diffae-manipulate from two folders of "
    "pictures;\n"
    "                                 --whole: they are faces already; --out FILE: not into your own folder\n"
    "  zenith train MODEL --out FILE  training on the CPU; `zenith train --help` has its options\n"
    "  zenith selftest [--only NAME]  every kernel and a tiny model of each kind against the reference; or the cases\n"
    "                                 whose names begin so: conv, \"fp16 fwht\", \"model zenith\"; \"conv 2/5\": a "
    "fifth of them\n"
    "\n"
    "  Pictures: .png, .jpg and .npy are read, .png, .ppm and .npy written, with 16 bits and the ICC profile, without "
    "EXIF;\n"
    "  zenith-batch keeps all metadata and transparency, and reads TIFF and WebP.\n"
    "  everywhere: --engine NAME (or ZENITH_ENGINE), --threads N (or ZENITH_THREADS)\n"
    "  run, generate, face: --progress (and what it takes).  A video is a .npy file of four axes, or a folder of PNG "
    "and "
    "JPEG files.\n"
    "  Weights: .safetensors, .gguf, .pth, .pt, .ckpt, or a folder; \"random:\" "
    "makes "
    "them up.\n"
    "  Exit status: 0 done, 1 failed (one line on stderr says why), 2 wrong usage.\n";

static int cmd_engines(const options *o)
{
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16);

    (void)o;
    for (int i = 0; i < n && i < 16; i++)
        printf("%c %-8s %s%s\n", list[i].automatic ? '*' : ' ', list[i].name,
               list[i].usable ? "usable: " : "no: ", list[i].note);
    return EXIT_DONE;
}

static int cmd_info(const options *o)
{
    zn_weights *w = NULL;
    zn_error err;
    char what[256] = "";
    const char *id;
    double numbers = 0;

    if (!o->n_words)
        return usage("info takes weight files: zenith info FILE...");
    if (is_zimage(o))
        return info_zimage(o);
    if (zn_weights_open(&w, o->word, o->n_words, &err))
        return fail("%s", err.text);
    for (int i = 0; i < zn_weights_count(w); i++) {
        zn_weight_info t = zn_weights_info(w, i);
        double n = 1;

        printf("%-8s [", t.dtype);
        for (int d = 0; d < t.n_dims; d++) {
            n *= (double)t.shape[d];
            printf("%s%lld", d ? ", " : "", (long long)t.shape[d]);
        }
        fputs("] ", stdout);
        for (const char *p = t.name; *p; p++) /* a name out of a file may hold anything */
            putchar((unsigned char)*p < ' ' || *p == 127 ? '?' : *p);
        putchar('\n');
        numbers += n;
    }
    id = zn_weights_recognise(w, what, sizeof what);
    printf("%d tensors, %.0f numbers: %s%s%s%s\n", zn_weights_count(w), numbers, id ? what : "no model of Zenith",
           id ? " (" : "", id ? id : "", id ? ")" : "");
    zn_weights_close(&w);
    return EXIT_DONE;
}

typedef struct tally {
    int passed, failed;
} tally;

static void report(void *cookie, const char *name, bool ok, const char *detail)
{
    tally *t = cookie;

    if (ok)
        t->passed++;
    else
        t->failed++;
    printf("%s %s%s%s\n", ok ? "ok" : "not ok", name, detail && *detail ? ": " : "", detail ? detail : "");
}

static int cmd_selftest(const options *o)
{
    tally t = { 0, 0 };
    zn_engine *engine = NULL;
    zn_error err;
    char name[32];

    if (zn_engine_open(&engine, o->engine, 1, &err))
        return fail("%s", err.text);
    snprintf(name, sizeof name, "%s", zn_engine_name(engine));
    zn_engine_close(&engine);
    zn_selftest(name, o->threads, o->only, report, &t);
    if (o->only && !t.passed && !t.failed)
        return fail("no case begins with '%s'", o->only);
    printf("%s: %d passed, %d failed\n", name, t.passed, t.failed);
    return t.failed || !t.passed ? EXIT_FAILED : EXIT_DONE;
}

/* ---- options ------------------------------------------------------------------------------------------- */

static bool push(const char **list, int *n, const char *value)
{
    if (*n == MAX_LIST)
        return false;
    list[(*n)++] = value;
    return true;
}

static bool whole_number(int *out, const char *text, int min, int max)
{
    char *end;
    long v = strtol(text, &end, 10);

    *out = (int)v;
    return end != text && !*end && v >= min && v <= max;
}

/* "640x480" */
static bool two_sizes(options *o, const char *text)
{
    char width[8];
    const size_t len = strcspn(text, "x");

    snprintf(width, sizeof width, "%.*s", len < sizeof width ? (int)len : 0, text);
    return whole_number(&o->width, width, 1, 65536) && text[len] && whole_number(&o->height, text + len + 1, 1, 65536);
}

/* What `help` says of a command: its lines, and those below that go on. */
static int help_of(const char *command)
{
    bool its = false;

    for (const char *line = help; *line;) {
        const size_t len = strcspn(line, "\n") + 1, n = strlen(command);

        if (strncmp(line, "   ", 3))
            its = !strncmp(line, "  zenith ", 9) && !strncmp(line + 9, command, n) && strchr(" \n", line[9 + n]);
        if (its)
            fwrite(line, 1, len, stdout);
        line += len;
    }
    return EXIT_DONE;
}

static int parse(options *o, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool ok = true;

        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            o->help = true;
            return EXIT_DONE;
        }
        if (strncmp(a, "--", 2)) {
            o->word[o->n_words++] = a;
            continue;
        }
        if (!strcmp(a, "--json") || !strcmp(a, "--layers") || !strcmp(a, "--progress") || !strcmp(a, "--whole")) {
            o->json = o->json || a[2] == 'j';
            o->layers = o->layers || a[2] == 'l';
            o->progress = o->progress || a[2] == 'p';
            o->whole = o->whole || a[2] == 'w';
            continue;
        }
        if (!value)
            return usage("%s needs a value; see `zenith help`", a);
        i++;
        if (!strcmp(a, "--engine"))
            o->engine = value;
        else if (!strcmp(a, "--threads"))
            ok = whole_number(&o->threads, value, 1, 256);
        else if (!strcmp(a, "--size"))
            ok = two_sizes(o, value);
        else if (!strcmp(a, "--weights"))
            ok = push(o->weights, &o->n_weights, value);
        else if (!strcmp(a, "--set"))
            ok = push(o->set, &o->n_set, value);
        else if (!strcmp(a, "--in"))
            ok = push(o->in, &o->n_in, value);
        else if (!strcmp(a, "--out"))
            ok = push(o->out, &o->n_out, value);
        else if (!strcmp(a, "--only"))
            o->only = value;
        else if (!strcmp(a, "--type"))
            o->type = value;
        else if (!strcmp(a, "--with"))
            o->with = value;
        else if (!strcmp(a, "--without"))
            o->without = value;
        else
            return usage("unknown option %s; see `zenith help`", a);
        if (!ok)
            return usage("%s: '%s' makes no sense", a, value);
    }
    return EXIT_DONE;
}

static int command(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const options *o);
    } commands[] = {
        { "denoise", cmd_denoise },   { "restore", cmd_restore },   { "upscale", cmd_upscale }, { "face", cmd_face },
        { "generate", cmd_generate }, /* --help lists the settings of these */
        { "engines", cmd_engines },   { "models", cmd_models },     { "info", cmd_info },       { "run", cmd_run },
        { "bench", cmd_bench },       { "selftest", cmd_selftest }, { "convert", cmd_convert }, { "find", cmd_find },
        { "teach", cmd_teach },       { "video", cmd_video },
    };
    enum { WITH_SETTINGS = 5 };
    char *of[] = { argv[0], NULL, "--help", NULL };
    options o = { 0 };
    int status;

    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "help") && argc == 3) { /* `zenith help denoise` is `zenith denoise --help` */
        of[1] = argv[2];
        argv = of;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        printf("zenith %s\n", zn_version());
        return EXIT_DONE;
    }
    if (!strcmp(argv[1], "train"))
        return cmd_train(argc - 2, argv + 2);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name)) {
            if (!(o.word = calloc((size_t)argc, sizeof *o.word)))
                return fail("there is not enough memory");
            status = parse(&o, argc - 2, argv + 2);
            if (!status)
                status = o.help && i >= WITH_SETTINGS ? help_of(argv[1]) : commands[i].run(&o);
            free(o.word);
            return status;
        }
    return usage("unknown command '%s'; see `zenith help`", argv[1]);
}

/* Whoever closed one of the three gets no file in its place: a message would be written into it. */
static void keep_standard_files(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    int status;

    keep_standard_files();
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write() */
    errno = 0;
    status = command(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && !status)
        status = fail("what it prints could not be written%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
    return status;
}
