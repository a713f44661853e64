/* SPDX-License-Identifier: MIT */
/* tokens.c - `zenith run z-image-tokens`: a text file to the tokens that z-image-text takes. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_LIMIT = 512, MOST = 1 << 20 };

/* The text of a file without the line end at its end; the caller frees it. */
static char *read_text(const char *path, zn_error *err)
{
    FILE *f = zn_input_open(path, err);
    char *text = malloc(ZN_MAX_TEXT + 2);
    size_t n = f && text ? fread(text, 1, ZN_MAX_TEXT + 1, f) : 0;
    const char *wrong = !text ? "out of memory"
        : f && ferror(f)      ? "cannot be read"
        : n > ZN_MAX_TEXT     ? "is too long for a prompt"
                              : NULL;

    if (!f) {
        free(text);
        return NULL;
    }
    fclose(f);
    if (!wrong && memchr(text, 0, n))
        wrong = "is not a text: it holds a zero byte";
    if (wrong) {
        snprintf(err->text, sizeof err->text, "%s: %s", path, wrong);
        free(text);
        return NULL;
    }
    if (n && text[n - 1] == '\n')
        n--;
    text[n] = 0;
    return text;
}

/* The integer of "key=number" among the settings; -1: it is none. */
static int setting(const options *o, const char *key, int usual, int max)
{
    const size_t len = strlen(key);

    for (int i = 0; i < o->n_set; i++)
        if (!strncmp(o->set[i], key, len) && o->set[i][len] == '=') {
            char *end;
            const long v = strtol(o->set[i] + len + 1, &end, 10);

            usual = end == o->set[i] + len + 1 || *end || v < 0 || v > max ? -1 : (int)v;
        }
    return usual;
}

int run_tokens(const options *o)
{
    const int chat = setting(o, "chat", 1, 1), limit = setting(o, "limit", USUAL_LIMIT, MOST);
    zn_tokenizer *t = NULL;
    zn_array out = { NULL, 1, 1, 0 };
    int32_t *ids = NULL;
    zn_error err = { "" };
    char *text = NULL;
    int n = 0, status = EXIT_FAILED;

    if (o->n_weights != 1 || o->n_in != 1 || strncmp(o->in[0], "prompt=", 7) || o->n_out != 1 ||
        strncmp(o->out[0], "tokens=", 7))
        return usage("z-image-tokens takes --weights tokenizer.json --in prompt=FILE.txt --out tokens=FILE.npy");
    for (int i = 0; i < o->n_set; i++)
        if (strncmp(o->set[i], "chat=", 5) && strncmp(o->set[i], "limit=", 6))
            return usage("z-image-tokens has no setting '%s'; it has chat (0, 1) and limit", o->set[i]);
    if (chat < 0 || limit < 1)
        return usage("chat is 0 or 1, limit from 1 to %d", MOST);
    ids = malloc((size_t)limit * sizeof *ids);
    out.data = malloc((size_t)limit * sizeof *out.data);
    if (!ids || !out.data)
        snprintf(err.text, sizeof err.text, "out of memory for %d tokens", limit);
    else if ((text = read_text(o->in[0] + 7, &err)) && !zn_tokenizer_open(&t, o->weights[0], &err) &&
             !(chat ? zn_tokenizer_chat : zn_tokenizer_encode)(ids, limit, &n, t, text, &err)) {
        if (n > limit)
            fprintf(stderr, "zenith: the first %d of %d tokens are taken\n", limit, n);
        out.c = n < limit ? n : limit;
        for (int i = 0; i < out.c; i++)
            out.data[i] = (float)ids[i];
        if (!n)
            snprintf(err.text, sizeof err.text, "%s: there is no text in it", o->in[0] + 7);
        else if (npy_write(o->out[0] + 7, &out, 1, &err))
            status = EXIT_DONE;
    }
    if (status)
        fail("%s", err.text);
    zn_tokenizer_close(&t);
    free(text);
    free(ids);
    free(out.data);
    return status;
}
