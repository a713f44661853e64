/* SPDX-License-Identifier: MIT */
/* z_image.c - `zenith info` on a folder of Z-Image: which files exist, which are missing, the memory of a run. */
#include "composites.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* ---- memory --------------------------------------------------------------------------------------------- */

/* The plan of a picture of this size, for the longest prompt. */
static int show_plan(const options *o, zn_session *session, const char *folder)
{
    const zn_choice choice = choice_of(o);
    zn_generate how = zn_generate_defaults();
    zn_note note = { "" };
    zn_generate_plan plan;
    zn_error err;

    how.weights = folder;
    how.width = o->width ? o->width : how.width;
    how.height = o->height ? o->height : how.height;
    if (zn_generate_describe(&plan, session, &choice, &how, 0, 0, NULL, &err) || zn_generate_weigh(&plan, &note, &err))
        return fail("%s", err.text);
    for (const zn_network *n = plan.network; n->name; n++)
        printf("%-13s %7.0f MiB, and %.0f MiB of weights (%s%s); %.4g billion multiply-adds\n", n->name,
               (double)n->need.beside / 1048576, (double)n->need.weights / 1048576, n->precision,
               n->need.streamed ? ", streamed" : "", n->macs / 1e9);
    printf("%dx%d takes %.1f GB: one of these after the other%s; a prompt of 512 tokens, %d steps\n", plan.w, plan.h,
           (double)(plan.need.weights + plan.need.beside) / 1e9,
           plan.keeps ? ", the transformer stays in memory for the decoder" : "", how.steps);
    if (*note.text)
        printf("%s\n", note.text);
    if (plan.need.streamed)
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
    zn_session *session = NULL;
    zn_status missing = made_up ? ZN_OK : zn_zimage_find(list, folder, &err);
    int status;

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
    if (missing)
        return fail("%s", err.text);
    if (zn_session_open(&session, &err))
        return fail("%s", err.text);
    status = show_plan(o, session, folder);
    zn_session_close(&session);
    return status;
}
