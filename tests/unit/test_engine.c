/* SPDX-License-Identifier: MIT */
/* test_engine.c - properties of handles other than pixels: channels, messages, notes. */
#include "test.h"

#include "pipeline/request.h"
#include "zenith_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static zn_engine *engine;

/* ---- channels ------------------------------------------------------------------------------------------------------ */

static void seven_bind(zn_binder *b, void *net)
{
    (void)net;
    b->geometry = (zn_geometry){ .in_c = 4, .out_c = 7, .shrink = 1, .grow = 8, .multiple = 1 };
}

static void seven_forward(zn_ctx *c, const void *net, const zn_call *call)
{
    (void)c, (void)net, (void)call;
}

/* An architecture that gives pictures refuses weights that give something else. */
static void channels_are_stated(void)
{
    const zn_arch three = { .info = { .id = "three", .in = { "z" }, .out = { "x" } },
                            .size = 1,
                            .bind = seven_bind,
                            .forward = seven_forward,
                            .out_c = 3 };
    zn_arch any = three;
    zn_error err = { "" };
    zn_model *m = NULL;

    any.out_c = 0;
    CHECK(zn_model_load(&m, engine, &three, &(zn_open){ 0 }, &err) == ZN_E_FILE && !m &&
              strstr(err.text, "pictures of 7 channels, not 3"),
          "opened, or: %s", err.text);
    CHECK(!zn_model_load(&m, engine, &any, &(zn_open){ 0 }, &err), "%s", err.text);
    zn_model_free(&m);
}

static void shared_bind(zn_binder *b, void *net)
{
    zn_conv spec = zn_conv_same(1, 8, 33);

    spec.groups = 4;
    b->geometry = (zn_geometry){ .in_c = 8, .out_c = 33, .shrink = 1, .grow = 1, .multiple = 1 };
    zn_bind_conv(b, net, spec, "shared");
}

/* Widths out of a file decide how many channels a group has: what is left over would be written past the weights. */
static void groups_share_evenly(void)
{
    const zn_arch odd = { .info = { .id = "odd", .in = { "x" }, .out = { "y" } },
                          .size = sizeof(zn_conv),
                          .bind = shared_bind,
                          .forward = seven_forward };
    zn_error err = { "" };
    zn_model *m = NULL;

    CHECK(zn_model_load(&m, engine, &odd, &(zn_open){ 0 }, &err) && !m && strstr(err.text, "groups"), "opened, or: %s",
          err.text);
}

/* Of networks between pictures and latents: pictures are named x and y, and have 3 channels. */
static void pictures_have_three_channels(void)
{
    for (int i = 0; zn_archs[i]; i++) {
        const zn_arch *a = zn_archs[i];

        if (!a->info.weights || a->shape)
            continue;
        CHECK(strcmp(a->info.in[0], "x") || a->in_c == 3, "%s does not state its input", a->info.id);
        CHECK((strcmp(a->info.out[0], "x") && strcmp(a->info.out[0], "y")) || a->out_c == 3,
              "%s does not state its output", a->info.id);
    }
}

/* ---- messages ------------------------------------------------------------------------------------------------------- */

static void cut_between_characters(void)
{
    char text[] = "a\xc3\xa4\xe2\x82\xac"; /* one, two and three bytes */
    static const size_t want[] = { 0, 1, 1, 3, 3, 3, 6, 6 };
    zn_error err;
    char path[1024];

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char copy[sizeof text];

        memcpy(copy, text, sizeof text);
        zn_cut(copy, i);
        CHECK(strlen(copy) == want[i], "%zu bytes for at most %zu", strlen(copy), i);
    }
    for (size_t i = 0; i + 3 < sizeof path; i += 3)
        memcpy(path + i, "\xe2\x82\xac", 4);
    for (int before = 0; before < 3; before++) {
        zn_fail(&err, ZN_E_FILE, "%.*s%s", before, "xyz", path);
        CHECK((strlen(err.text) - (size_t)before) % 3 == 0 && strlen(err.text) > 508,
              "cut inside a character: %zu bytes", strlen(err.text));
    }
}

/* The result of translate() for the message "%s has %d of %zu". */
static const char *translation;

static const char *translate(const char *english)
{
    return strcmp(english, "%s has %d of %zu") ? english : translation;
}

static void translated(void)
{
    static const struct {
        const char *text, *want; /* NULL: English */
    } cases[] = {
        { "%s hat %d von %zu", "a hat 1 von 2" },
        { "%2$d von %3$zu: %1$s, 100 %%", "1 von 2: a, 100 %" },
        { "", NULL },
        { NULL, NULL },
    };
    zn_error err;

    zn_set_translator(translate);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *want = cases[i].want ? cases[i].want : "a has 1 of 2";

        translation = cases[i].text;
        zn_fail(&err, ZN_E_FILE, "%s has %d of %zu", "a", 1, (size_t)2);
        CHECK(!strcmp(err.text, want), "'%s' made '%s'", translation ? translation : "NULL", err.text);
    }
    zn_set_translator(NULL);
    zn_fail(&err, ZN_E_FILE, "%s has %d of %zu", "a", 1, (size_t)2);
    CHECK(!strcmp(err.text, "a has 1 of 2"), "without a translator: '%s'", err.text);
}

/* ---- notes ---------------------------------------------------------------------------------------------------------- */

static bool fail_next; /* the next large allocation of device memory fails */

/* In place of the C library's. */
void *aligned_alloc(size_t align, size_t size)
{
    void *p;

    if (fail_next && size > 1 << 20) {
        fail_next = false;
        return NULL;
    }
    return posix_memalign(&p, align, size) ? NULL : p;
}

static const char *in_german(const char *english)
{
    return strcmp(english, "not enough memory to start %d threads") ? english
                                                                    : "nicht genug Speicher, um %d Threads zu starten";
}

/* "auto" may select a slower engine for lack of memory, with a note, in any language. */
static void a_slower_engine_is_noted(void)
{
    zn_engine *slow = NULL;
    zn_model *m = NULL;
    zn_error err = { "" }, note = { "" };
    float pixel[3] = { 0 };
    zn_array x = { pixel, 1, 1, 3 }, y = x;
    const zn_job job = { .note = &note };
    zn_status s;

    if (!strcmp(zn_engine_name(engine), "scalar"))
        SKIP("this machine has the scalar engine alone");
    if (zn_engine_threads(engine) && engine->be->remote)
        SKIP("a GPU is first");
    fail_next = true;
    zn_set_translator(in_german);
    s = zn_engine_open(&slow, NULL, 2, &err);
    zn_set_translator(NULL);
    CHECK(!s, "%s", err.text);
    CHECK(!fail_next && strcmp(zn_engine_name(slow), zn_engine_name(engine)), "%s was taken", zn_engine_name(slow));
    CHECK(!zn_model_open(&m, slow, "identity", NULL, &err) && !zn_model_run(m, &x, 1, &y, &job, &err), "%s", err.text);
    CHECK(strstr(note.text, "nicht genug Speicher") && strstr(note.text, "engine instead"), "noted: '%s'", note.text);
    zn_model_close(&m);
    CHECK(!zn_model_open(&m, engine, "identity", NULL, &err) && !zn_model_run(m, &x, 1, &y, &job, &err), "%s",
          err.text);
    CHECK(!*note.text, "noted without reason: '%s'", note.text);
    zn_model_close(&m);
    zn_engine_close(&slow);
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static char file[sizeof "/tmp/zenith-engine-XXXXXX/file"], alias[sizeof file + 8],
    folder[] = "/tmp/zenith-engine-XXXXXX";

static bool write_file(const char *path, const char *text, bool keep)
{
    zn_output out;

    return !zn_output_begin(&out, path, NULL) && fputs(text, out.f) >= 0 &&
        !zn_output_end(&out, keep ? ZN_OK : ZN_E_CANCELLED, NULL) == keep;
}

static bool holds(const char *text)
{
    char have[16] = "";
    FILE *f = fopen(file, "r");
    bool ok = f && fgets(have, sizeof have, f) && !strcmp(have, text);

    if (f)
        fclose(f);
    return ok;
}

static int count_files(void)
{
    DIR *d = opendir(folder);
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* A program that is ended while it writes leaves nothing, where the system has files without a name. */
static void nothing_while_written(void)
{
    const int fd = open(folder, O_TMPFILE | O_RDWR, 0600);
    zn_output out;

    if (fd < 0)
        return;
    close(fd);
    CHECK(!zn_output_begin(&out, file, NULL) && fputs("four", out.f) >= 0 && !fflush(out.f), "not begun");
    CHECK(count_files() == 0, "%d files while it is written", count_files());
    CHECK(!zn_output_end(&out, ZN_OK, NULL) && holds("four") && count_files() == 1, "not written");
}

static void check_files(void)
{
    zn_output out;
    struct stat st;

    nothing_while_written();
    CHECK(write_file(file, "one", true) && holds("one"), "not written");
    CHECK(write_file(file, "two", false) && holds("one"), "dropped, but the old one is gone");
    CHECK(!symlink(file, alias) && write_file(alias, "three", true) && holds("three"), "not written through a link");
    CHECK(!lstat(alias, &st) && S_ISLNK(st.st_mode), "the link was replaced");
    CHECK(!unlink(file) && write_file(alias, "five", true) && holds("five"), "not written through a link to nothing");
    CHECK(!unlink(alias) && !symlink("file", alias) && !unlink(file) && write_file(alias, "six", true) && holds("six"),
          "not written through a link beside it");
    CHECK(!lstat(alias, &st) && S_ISLNK(st.st_mode), "the link to nothing was replaced");
    CHECK(count_files() == 2, "%d files are left", count_files());
    CHECK(zn_output_begin(&out, folder, NULL), "a folder was opened");
    CHECK(!zn_output_begin(&out, "/dev/null", NULL) && !zn_output_end(&out, ZN_OK, NULL),
          "a device was not written to");
}

static void a_file_is_whole_or_unchanged(void)
{
    CHECK(mkdtemp(folder), "no folder");
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(alias, sizeof alias, "%s.link", file);
    check_files();
    unlink(alias);
    unlink(file);
    rmdir(folder);
}

/* ---- cancelling ----------------------------------------------------------------------------------------------------- */

typedef struct inside {
    double last;
    int calls, same;
} inside;

static bool until_inside(void *cookie, double done)
{
    inside *s = cookie;

    s->same += s->calls++ && done == s->last;
    s->last = done;
    return !s->same;
}

/* One thread, scalar code, a large picture: on any machine a layer takes many times the interval between two polls, and
 * the first poll ends the run.  What was dropped leaves no trace. */
static void cancel_inside_a_layer(void)
{
    enum { SIDE = 768 };
    static float in[SIDE * SIDE * 3], out[SIDE * SIDE * 3], before[16 * 16 * 3];
    const char *made_up = ZN_RANDOM_WEIGHTS;
    const zn_open open = { .files = &made_up, .n_files = 1 };
    zn_array x = { in, SIDE, SIDE, 3 }, y = { out, 0, 0, 0 };
    inside s = { 0 };
    const zn_job job = { .progress = until_inside, .cookie = &s };
    zn_error err = { "" };
    zn_engine *slow = NULL;
    zn_model *m = NULL;

    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        in[i] = (float)(i * 37 % 256) / 255;
    CHECK(!zn_engine_open(&slow, "scalar", 1, &err) && !zn_model_open(&m, slow, "denoise-best", &open, &err), "%s",
          err.text);
    x.h = x.w = 16;
    CHECK(!zn_model_run(m, &x, 1, &y, NULL, &err), "%s", err.text);
    memcpy(before, out, sizeof before);
    x.h = x.w = SIDE;
    CHECK(zn_model_run(m, &x, 1, &y, &job, &err) == ZN_E_CANCELLED && s.same == 1, "%d calls, %d inside a layer: %s",
          s.calls, s.same, err.text);
    x.h = x.w = 16;
    CHECK(!zn_model_run(m, &x, 1, &y, NULL, &err) && !memcmp(before, out, sizeof before), "the next result is another");
    zn_model_close(&m);
    zn_engine_close(&slow);
}

/* A number of threads that makes no sense is refused, as other variables are; 0 and nothing: one per core. */
static void a_number_of_threads_makes_sense(void)
{
    static const struct {
        const char *text;
        int threads; /* -1: refused */
    } cases[] = { { "3", 3 },  { "", 0 },    { "0", 0 },    { "100000", 256 }, { "-1", -1 },
                  { "x", -1 }, { "2x", -1 }, { "1.5", -1 }, { "1,5", -1 },     { "99999999999999999999", -1 } };
    char *was = getenv("ZENITH_THREADS") ? strdup(getenv("ZENITH_THREADS")) : NULL;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zn_engine *e = NULL;
        zn_error err;
        zn_status s;

        setenv("ZENITH_THREADS", cases[i].text, 1);
        s = zn_engine_open(&e, "scalar", 0, &err);
        if (cases[i].threads < 0)
            CHECK(s == ZN_E_USAGE && strstr(err.text, "ZENITH_THREADS must be"), "'%s': %d '%s'", cases[i].text, s,
                  err.text);
        else
            CHECK(!s && (!cases[i].threads || zn_engine_threads(e) == cases[i].threads), "'%s': '%s'", cases[i].text,
                  err.text);
        zn_engine_close(&e);
        CHECK(!zn_engine_open(&e, "scalar", 2, &err), "a given number looks at the variable: '%s'", err.text);
        zn_engine_close(&e);
    }
    if (was)
        setenv("ZENITH_THREADS", was, 1);
    else
        unsetenv("ZENITH_THREADS");
    free(was);
}

int main(void)
{
    zn_error err = { "" };

    if (zn_engine_open(&engine, NULL, 2, &err)) {
        printf("not ok open: %s\n0 passed, 1 failed, 0 skipped\n", err.text);
        return 1;
    }
    RUN(channels_are_stated);
    RUN(groups_share_evenly);
    RUN(cancel_inside_a_layer);
    RUN(pictures_have_three_channels);
    RUN(cut_between_characters);
    RUN(translated);
    RUN(a_number_of_threads_makes_sense);
    RUN(a_slower_engine_is_noted);
    RUN(a_file_is_whole_or_unchanged);
    zn_engine_close(&engine);
    return test_end();
}
