/* SPDX-License-Identifier: MIT */
/* z_image.c - `zenith info` on a folder of Z-Image: which files exist, which are missing, the memory of a run. */
#include "cli.h"
#include "digest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const struct {
    zn_zimage_part part;
    const char *id, *made_up, *what; /* made_up: the published sizes */
} steps[] = {
    { ZN_ZIMAGE_TEXT, "z-image-text", "random:2560", "text encoder" },
    { ZN_ZIMAGE_TRANSFORMER, "z-image-sample", "random:3840", "transformer" },
    { ZN_ZIMAGE_AUTOENCODER, "flux-ae-decode", "random:", "decoder" },
};

bool is_zimage(const options *o)
{
    static const char *const inside[] = { "transformer", "text_encoder", "vae", "tokenizer" };
    struct stat st;

    if (!strcmp(o->word[0], "z-image") && stat(o->word[0], &st))
        return true;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/%s", o->word[0], inside[i]);

        if (n > 0 && (size_t)n < sizeof path && !stat(path, &st) && S_ISDIR(st.st_mode))
            return true;
    }
    return false;
}

/* ---- the manifest --------------------------------------------------------------------------------------- */

/* Compares the files of a folder with lines "DIGEST  NAME", of SHA-256 or MD5; returns how many differ, or -1. */
static int verify(const char *manifest, const char *folder)
{
    zn_error why = { "" };
    FILE *f = zn_input_open(manifest, &why);
    char line[4096];
    int bad = 0, n = 0;

    if (!f)
        return fail("%s", why.text), -1;
    while (fgets(line, sizeof line, f)) {
        char *want = line + strspn(line, " \t"), *name = want + strcspn(want, " \t\r\n"), path[8300], got[DIGEST_HEX];
        zn_error err;

        if (!*name)
            continue;
        *name++ = 0;
        name += strspn(name, " \t");
        name += *name == '*'; /* of md5sum -b */
        name[strcspn(name, "\r\n")] = 0;
        if (!*name)
            continue;
        if ((strlen(want) != 64 && strlen(want) != 32) || strspn(want, "0123456789abcdefABCDEF") != strlen(want))
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (!digest_file(got, path, strlen(want) == 64, &err)) {
            printf("missing   %s\n", name);
            bad++;
        } else if (strcasecmp(want, got)) {
            printf("differs   %s\n", name);
            bad++;
        } else {
            printf("verified  %s\n", name);
        }
    }
    fclose(f);
    return n ? bad : (fail("%s: there are no lines of a digest and a name in it", manifest), -1);
}

/* ---- memory --------------------------------------------------------------------------------------------- */

/* The memory of step i for these inputs in addition to so many bytes, and the sizes of its result; nothing is loaded.
 * The model's precision is in *precision. */
static zn_status plan_step(const options *o, zn_engine *engine, const zn_zimage_file *list, size_t i,
                           const zn_array *in, int n_in, size_t beside, zn_plan *plan, zn_array *out,
                           const char **precision, zn_error *err)
{
    const char *file = list ? list[steps[i].part].path : steps[i].made_up;
    const bool quantised = steps[i].part != ZN_ZIMAGE_AUTOENCODER; /* convolutions stay floats */
    const zn_open open = {
        .files = &file, .n_files = 1, .precision = quantised ? precision_of(o) : NULL, .plan_only = true
    };
    const zn_job job = { .beside = beside };
    zn_model *model = NULL;
    zn_status s = zn_model_open(&model, engine, steps[i].id, &open, err);

    if (!s)
        s = zn_model_plan(model, in, n_in, &job, plan, err);
    if (!s)
        s = zn_model_shape(model, in, n_in, out, err);
    if (!s)
        *precision = zn_model_precision(model); /* a name that stays */
    zn_model_close(&model);
    return s;
}

static size_t total_of(const zn_plan *plan)
{
    return plan->peak_bytes + plan->weight_bytes;
}

/* The memory of each step, and the largest sum at any time. */
static int show_plans(const options *o, zn_engine *engine, const zn_zimage_file *list)
{
    const int w = o->width ? o->width : 1024, h = o->height ? o->height : 1024;
    const zn_array tokens = { NULL, 1, 1, 512 }, z = { NULL, (h + 15) / 16 * 2, (w + 15) / 16 * 2, 16 };
    zn_array in[2] = { tokens }, out = { 0 };
    zn_plan plan[3], beside;
    bool streamed = false, keeps;
    size_t most = 0;
    zn_error err;

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *precision;

        if (plan_step(o, engine, list, i, in, i == 1 ? 2 : 1, 0, &plan[i], &out, &precision, &err))
            return fail("%s", err.text);
        printf("%-13s %7.0f MiB, and %.0f MiB of weights (%s%s); %.4g billion multiply-adds%s\n", steps[i].what,
               (double)plan[i].peak_bytes / 1048576, (double)plan[i].weight_bytes / 1048576, precision,
               plan[i].streamed ? ", streamed" : "", plan[i].macs / 1e9, i == 1 ? " in 8 steps" : "");
        streamed = streamed || plan[i].streamed;
        most = total_of(&plan[i]) > most ? total_of(&plan[i]) : most;
        if (!i) {
            in[0] = z;
            in[1] = out; /* the caption */
        } else if (i == 1) {
            in[0] = out;
        }
    }
    /* gegl-ops keeps the transformer open where that does not make the decoder's tiles smaller */
    keeps = !plan_step(o, engine, list, 2, in, 1, total_of(&plan[1]), &beside, &out, &(const char *){ NULL }, &err) &&
        beside.peak_bytes == plan[2].peak_bytes;
    if (keeps && total_of(&plan[1]) + total_of(&beside) > most)
        most = total_of(&plan[1]) + total_of(&beside);
    printf("%dx%d takes %.1f GB: one of these after the other%s; a prompt of 512 tokens\n", w, h, (double)most / 1e9,
           keeps ? ", the transformer stays in memory for the decoder" : "");
    if (streamed)
        printf(
            "streamed: not all weights fit into memory, so every step reads the layers from disk; that is slower, the "
            "result is the same\n");
    return EXIT_DONE;
}

int info_zimage(const options *o)
{
    const char *folder = !strcmp(o->word[0], "z-image") && o->n_words > 1 ? o->word[1]
        : !strcmp(o->word[0], "z-image")                                  ? ""
                                                                          : o->word[0];
    const bool made_up = !strcmp(folder, ZN_RANDOM_WEIGHTS);
    static zn_zimage_file list[ZN_ZIMAGE_PARTS];
    zn_error err = { "" };
    zn_engine *engine = NULL;
    zn_status missing = made_up ? ZN_OK : zn_zimage_find(list, folder, &err);
    int status, bad = 0;

    for (int i = 0; !made_up && i < ZN_ZIMAGE_PARTS; i++) {
        char dir[2048];

        if (*list[i].path) {
            printf("%-16s found at %s\n", list[i].name, list[i].path);
            continue;
        }
        printf("%-16s missing (%s%s), looked for as %s in", list[i].name, list[i].size,
               i == ZN_ZIMAGE_PREVIEW ? ", not needed" : "", list[i].place);
        if (*folder)
            printf(" %s", folder);
        for (int k = 0; !*folder && zn_weights_folder(dir, sizeof dir, k); k++)
            if (*dir)
                printf("%s %s/z-image", k ? "," : "", dir);
        putchar('\n');
    }
    if (o->manifest && !made_up)
        bad = verify(o->manifest, *folder ? folder : ".");
    if (missing)
        return fail("%s", err.text);
    if (bad)
        return bad < 0 ? EXIT_FAILED : fail("%d files are not what %s says: download them again", bad, o->manifest);
    if (zn_engine_open(&engine, o->engine, o->threads, &err))
        return fail("%s", err.text);
    status = show_plans(o, engine, made_up ? NULL : list);
    zn_engine_close(&engine);
    return status;
}
