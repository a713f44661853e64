/* SPDX-License-Identifier: MIT */
/* large.c - pictures of 100 megapixels through every operation, from file to file as `gegl` does it.
 *
 *     attack_large PICTURE [OPERATION...] [KEY=VALUE...]    the picture's file, made large enough by its maker
 *
 * Settings go to each of the operations, after its own; one that has the same setting with another value is left out
 * (`mode=latent` runs one of the three modes).  $ZENITH_MODELS can name other networks than the shipped ones.
 *
 * Each operation runs in a process of its own, twice: to the end, and cancelled when a fifth is done.  Printed are the peak
 * of its resident memory (GEGL's own cache of 512 MiB counts; the output is PNG, for GEGL's JPEG writer holds half a
 * gigabyte of its own), the time, and the longest time without progress.  Failures: more than 1.2 GiB, a picture that
 * passed through unchanged, a bar that goes back, a cancel without effect. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gegl.h>

#include "../gegl/ops.h"

#define MOST_MIB 1228.8

/* Faces are edited in a frame of the picture; the rest of it passes. */
#define FRAME " frame-x=3000 frame-y=2000 frame-size=400"

static const Filter large[] = {
    { "gegl:nop", "" },
    { "zenith:denoise", "model=fast" },
    { "zenith:latent-preview", "mode=reconstruct" },
    { "zenith:latent-preview", "mode=latent" },
    { "zenith:latent-preview", "mode=difference" },
    { "zenith:latent-encode", "" },
    { "zenith:latent-decode", "model=zenith-lite" },
    { "zenith:diffae-reconstruct", "steps=4 stochastic-steps=4" FRAME },
    { "zenith:diffae-manipulate", "attribute=smile amount=1 steps=4 stochastic-steps=4" FRAME },
};

typedef struct {
    gint64 began, last, silence, cancelled;
    gdouble value, cancel_at;
    gboolean back;
    gint calls;
    GeglNode *node;
} Bar;

static void on_progress(GeglNode *node, gdouble value, gpointer data)
{
    Bar *bar = data;
    const gint64 t = g_get_monotonic_time();

    (void)node;
    bar->silence = MAX(bar->silence, t - bar->last);
    bar->last = t;
    bar->back |= bar->calls++ && value < bar->value && bar->value < 1;
    bar->value = value;
    if (value >= bar->cancel_at && !bar->cancelled) {
        bar->cancelled = t;
        g_object_set_data(G_OBJECT(bar->node), "zenith-cancel", GINT_TO_POINTER(TRUE));
    }
}

/* Made-up values, as many as zenith-lite makes of the picture: latents are not what is measured. */
static GeglBuffer *make_latent(const char *path)
{
    enum { FACTOR = 8, CHANNELS = 16 };
    const Babl *format = babl_format_n(babl_type("float"), CHANNELS);
    GeglNode *load = gegl_node_new_child(NULL, "operation", "gegl:load", "path", path, NULL);
    const GeglRectangle box = gegl_node_get_bounding_box(load);
    const gint w = (box.width - 1) / FACTOR + 1, h = (box.height - 1) / FACTOR + 1;
    GeglBuffer *latent = gegl_buffer_new(GEGL_RECTANGLE(0, 0, w, h), format);
    gfloat *row = g_new(gfloat, (gsize)w * CHANNELS);

    for (gint y = 0; y < h; y++) {
        for (gint i = 0; i < w * CHANNELS; i++)
            row[i] = sinf((gfloat)(i + 7 * y) * 0.05f);
        gegl_buffer_set(latent, GEGL_RECTANGLE(0, y, w, 1), 0, format, row, GEGL_AUTO_ROWSTRIDE);
    }
    g_free(row);
    g_object_unref(load);
    return latent;
}

/* In a process of its own: a line on stdout; the exit status is 0 where all is well. */
static int run_large(const char *path, const Filter *f, const char *more, gboolean cancel)
{
    const gboolean zenith = g_str_has_prefix(f->name, "zenith:"), shrinks = !strcmp(f->name, "zenith:latent-encode"),
                   grows = !strcmp(f->name, "zenith:latent-decode");
    GeglBuffer *latent = NULL;
    gchar *out = g_strdup_printf("%s/%s", ops_folder, shrinks ? "out.gegl" : "out.png"), *status = NULL;
    GeglNode *graph = gegl_node_new(), *load, *op, *save;
    Bar bar = { .cancel_at = cancel ? 0.2 : 2, .began = g_get_monotonic_time() };
    struct rusage usage;
    gdouble mib, seconds;
    const char *wrong = "";

    if (grows)
        load =
            gegl_node_new_child(graph, "operation", "gegl:buffer-source", "buffer", latent = make_latent(path), NULL);
    else
        load = gegl_node_new_child(graph, "operation", "gegl:load", "path", path, NULL);
    op = gegl_node_new_child(graph, "operation", f->name, NULL);
    save =
        gegl_node_new_child(graph, "operation", shrinks ? "gegl:gegl-buffer-save" : "gegl:png-save", "path", out, NULL);
    if (!shrinks)
        gegl_node_set(save, "compression", 1, NULL);
    set_properties(op, f->settings);
    if (*more)
        set_properties(op, more);
    gegl_node_link_many(load, op, save, NULL);
    bar.node = op;
    bar.last = bar.began;
    g_signal_connect(op, "progress", G_CALLBACK(on_progress), &bar);
    gegl_node_process(save);
    seconds = (gdouble)(g_get_monotonic_time() - bar.began) / 1e6;
    if (zenith)
        gegl_node_get(op, "status", &status, NULL);
    getrusage(RUSAGE_SELF, &usage);
    mib = (gdouble)usage.ru_maxrss / 1024;
    if (mib > MOST_MIB)
        wrong = "more memory than 1.2 GiB";
    else if (bar.back)
        wrong = "the bar goes back";
    else if (!cancel && status && *status)
        wrong = status;
    else if (cancel && zenith && (!status || !strstr(status, "ancel")))
        wrong = "the cancel was not heard";
    else if (!cancel && zenith && bar.calls < 3)
        wrong = "there is no bar";
    printf("%s %s %s %s%s: %.0f MiB, %.0f s, the bar was silent for at most %.1f s%s%s\n", *wrong ? "not ok" : "ok",
           f->name, f->settings, more, cancel ? ", cancelled" : "", mib, seconds, (gdouble)bar.silence / 1e6,
           *wrong ? ": " : "", wrong);
    fflush(stdout);
    unlink(out);
    g_free(out);
    g_free(status);
    g_object_unref(graph);
    g_clear_object(&latent);
    return *wrong != 0;
}

static int in_child(int argc, char **argv, const Filter *f, const char *more, gboolean cancel)
{
    const char *models = getenv("ZENITH_MODELS");
    pid_t pid;
    int status = 1;

    fflush(stdout);
    pid = fork();
    if (!pid) {
        char *saved = g_strdup(models ? models : SOURCE_DIR "/models");

        if (!ops_begin(&argc, &argv))
            _exit(1);
        g_setenv("ZENITH_MODELS", saved, TRUE); /* the real networks */
        status = run_large(argv[1], f, more, cancel);
        ops_clear();
        fflush(stdout);
        _exit(status);
    }
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status))
        printf("not ok %s %s: killed by signal %d\n", f->name, f->settings, WTERMSIG(status));
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

/* Whether a setting has another value than that of the list: the operation is then left out. */
static gboolean contradicts(const char *list, const char *setting)
{
    const size_t key = strcspn(setting, "=") + 1;
    const char *at = strchr(setting, '=') ? list : NULL;

    while (at && strncmp(at, setting, key))
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    return at && (strncmp(at, setting, strlen(setting)) || !strchr(" ", at[strlen(setting)]));
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, named = 0;
    GString *more = g_string_new(NULL);

    if (argc < 2) {
        fprintf(stderr, "usage: %s PICTURE [OPERATION...] [KEY=VALUE...]\n", argv[0]);
        return 2;
    }
    for (int k = 2; k < argc; k++)
        if (strchr(argv[k], '='))
            g_string_append_printf(more, "%s%s", more->len ? " " : "", argv[k]);
        else
            named++;
    for (gsize i = 0; i < G_N_ELEMENTS(large); i++) {
        gboolean wanted = !named;

        for (int k = 2; k < argc; k++)
            wanted |= !strcmp(argv[k], large[i].name);
        for (int k = 2; k < argc; k++)
            wanted &= !contradicts(large[i].settings, argv[k]);
        for (int cancel = 0; wanted && cancel < (g_str_has_prefix(large[i].name, "zenith:") ? 2 : 1); cancel++) {
            const int bad = in_child(argc, argv, &large[i], more->str, cancel);

            failed += bad;
            passed += !bad;
        }
    }
    g_string_free(more, TRUE);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
