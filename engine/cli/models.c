/* SPDX-License-Identifier: MIT */
/* models.c - `zenith models`: what can be run here, and with which weights. */
#include "cli.h"

#include <string.h>

enum { COLUMNS = 100, INDENT = 38 };

/* The next word of a line that has `at` columns; on a line of its own if it does not fit, long ones (paths) further to the
 * left.  Returns the columns. */
static int print_word(const char *word, int len, int at)
{
    if (at > INDENT && at + 1 + len > COLUMNS) {
        at = len > COLUMNS - 2 ? 2 : len > COLUMNS - INDENT ? COLUMNS - len : INDENT;
        printf("\n%*s", at, "");
    } else if (at > INDENT) {
        putchar(' ');
        at++;
    }
    printf("%.*s", len, word);
    return at + len;
}

/* The words of a text, then the path whole, if there is one. */
static void print_line(const char *id, const char *parameters, const char *text, const char *path)
{
    int at = printf("%-23s %12s  ", id, parameters);

    while (*text) {
        const int len = (int)strcspn(text, " ");

        at = print_word(text, len, at);
        text += len;
        text += strspn(text, " ");
    }
    if (path)
        print_word(path, (int)strlen(path), at);
    putchar('\n');
}

/* Weights are counted, not loaded. */
static void print_found(zn_engine *engine, const zn_model_info *m, const char *path)
{
    const zn_open how = { .files = &path, .n_files = 1, .plan_only = true };
    zn_model *model = NULL;
    zn_error err;
    char number[32];

    if (zn_model_open(&model, engine, m->id, &how, &err)) {
        print_line(m->id, "-", err.text, NULL);
        return;
    }
    snprintf(number, sizeof number, "%lld", (long long)zn_model_parameters(model));
    print_line(m->id, number, "found at", path);
    zn_model_close(&model);
}

static void print_folders(void)
{
    char dir[2048];

    puts("\nput such a file (.safetensors, .gguf, .pth, .pt or .ckpt) into one of");
    for (int i = 0; zn_weights_folder(dir, sizeof dir, i); i++)
        if (*dir)
            printf("  %s\n", dir);
    puts("or into a folder that $ZENITH_MODELS names");
}

int cmd_models(const options *o)
{
    zn_engine *engine = NULL;
    zn_error err;
    char path[4096];
    int missing = 0;

    (void)o;
    if (zn_engine_open(&engine, "scalar", 1, &err))
        return fail("%s", err.text);
    print_line("model", "parameters", "weights", NULL);
    for (int i = 0; zn_model_at(i); i++) {
        const zn_model_info *m = zn_model_at(i);

        if (!m->weights)
            print_line(m->id, "-", "needs none", NULL);
        else if (zn_weights_find(path, sizeof path, m->weights, &err))
            missing++;
        else
            print_found(engine, m, path);
    }
    zn_engine_close(&engine);

    if (missing)
        puts("\nwithout weights:");
    for (int i = 0; missing && zn_model_at(i); i++) {
        const zn_model_info *m = zn_model_at(i);

        if (m->weights && zn_weights_find(path, sizeof path, m->weights, &err))
            print_line(m->id, "-", m->weights, NULL);
    }
    if (missing)
        print_folders();
    return EXIT_DONE;
}
