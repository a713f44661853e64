/* SPDX-License-Identifier: MIT */
/* test_weight_files.c - weight files as they lie on a disk: paths, folders, sets of shards; damaged ones;
 * real ones.
 *
 * The real checkpoints are looked for in $ZENITH_SHARED_DATA or beside the sources, and skipped where they
 * are not. */
#define _POSIX_C_SOURCE 200809L

#include "weights.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char data[] = ZN_TEST_DATA;

static const char *shared_file(const char *name)
{
    const char *folder = getenv("ZENITH_SHARED_DATA");
    static char path[1024];

    snprintf(path, sizeof path, "%s/weights/%s", folder && *folder ? folder : ZN_SOURCE_ROOT "/../shared/data", name);
    return path;
}

/* ---- paths ------------------------------------------------------------------------------------ */

static char tmp[] = "/tmp/zenith-test-XXXXXX";

static bool put(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(join(tmp, name), "wb");
    bool ok = f && fwrite(bytes, 1, size, f) == size;

    return f && !fclose(f) && ok;
}

/* A file with one tensor of one float. */
static bool put_tensor(const char *file, const char *tensor)
{
    unsigned char b[200] = { 0 };
    int n = snprintf((char *)b + 8, sizeof b - 8, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                     tensor);

    b[0] = (unsigned char)n;
    return put(file, b, (size_t)n + 12);
}

static void check_says(const char *name, zn_status status, const char *says)
{
    const char *path = join(tmp, name);
    zn_error err;
    zn_weights *w;
    zn_status s = zn_weights_open(&w, &path, 1, &err);

    zn_weights_close(&w);
    CHECK(s == status && strstr(err.text, says), "%s gives %d: %s", name, s, err.text);
}

static void test_paths(void)
{
    CHECK(!mkdir(join(tmp, "none"), 0700) && !mkdir(join(tmp, "odd"), 0700) &&
              !mkdir(join(tmp, "odd/x.safetensors"), 0700) && !mkfifo(join(tmp, "pipe"), 0600),
          "cannot write to %s", tmp);
    CHECK(put("empty", "", 0) && put("none/readme.txt", "hi", 2) && put("text", "hello\n", 6) &&
              put("none/.hidden.safetensors", "hi", 2),
          "cannot write to %s", tmp);
    TRY(check_says("absent", ZN_E_FILE, "cannot be opened: No such file"));
    TRY(check_says("empty", ZN_E_FILE, "is empty"));
    TRY(check_says("text", ZN_E_FILE, "is a text file, not weights"));
    TRY(check_says("pipe", ZN_E_FILE, "is not a file"));
    TRY(check_says("none", ZN_E_FILE, "holds no .safetensors files"));
    TRY(check_says("odd", ZN_E_FILE, "is a folder, not a file"));
    zn_error err;
    zn_weights *w;
    const char *device = "/dev/zero", *nothing = "", *null = NULL;

    CHECK(zn_weights_open(&w, &device, 1, &err) == ZN_E_FILE && strstr(err.text, "is not a file"), "/dev/zero: %s",
          err.text);
    CHECK(zn_weights_open(&w, &nothing, 1, &err) == ZN_E_USAGE && !w, "an empty path: %s", err.text);
    CHECK(zn_weights_open(&w, &null, 1, NULL) == ZN_E_USAGE && !w, "no path is opened");
    CHECK(zn_weights_open(&w, NULL, 0, &err) == ZN_E_USAGE && !w, "no paths: %s", err.text);
    zn_weights_close(&w);
    zn_weights_close(NULL);
}

static void test_long_path(void)
{
    char path[3000];
    const char *p = path;
    zn_error err;
    zn_weights *w;

    memset(path, 'x', sizeof path);
    memcpy(path + sizeof path - 9, "/abc.pth", 9);
    CHECK(zn_weights_open(&w, &p, 1, &err) == ZN_E_FILE && !strncmp(err.text, "...x", 4) &&
              strstr(err.text, "/abc.pth cannot be opened"),
          "it says: %s", err.text);
}

static void test_sets(void)
{
    char a[200], b[200], c[200];
    const char *two[] = { a, b }, *clash[] = { a, c };
    zn_error err;
    zn_weights *w;

    CHECK(put_tensor("a.safetensors", "one") && put_tensor("b.safetensors", "two") &&
              put_tensor("c.safetensors", "one"),
          "cannot write to %s", tmp);
    snprintf(a, sizeof a, "%s/a.safetensors", tmp);
    snprintf(b, sizeof b, "%s/b.safetensors", tmp);
    snprintf(c, sizeof c, "%s/c.safetensors", tmp);
    zn_status s = zn_weights_open(&w, two, 2, &err);
    bool ok = !s && zn_weights_count(w) == 2 && zn_weights_get(w, "one") && zn_weights_get(w, "two");

    zn_weights_close(&w);
    CHECK(ok, "two files do not make a set: %s", err.text);
    s = zn_weights_open(&w, clash, 2, &err);
    CHECK(s == ZN_E_FILE && strstr(err.text, "'one' is both in") && strstr(err.text, "a.safetensors") &&
              strstr(err.text, "c.safetensors"),
          "it says: %s", err.text);
}

static void test_indexes(void)
{
    static const char good[] = "{\"weight_map\": {\"one\": \"x.safetensors\"}}";
    static const char absent[] = "{\"weight_map\": {\"one\": \"y.safetensors\"}}";
    static const char other[] = "{\"weight_map\": {\"two\": \"x.safetensors\"}}";
    static const char loop[] = "{\"weight_map\": {\"a\": \"loop.json\"}}";

    CHECK(!mkdir(join(tmp, "set"), 0700), "cannot write to %s", tmp);
    CHECK(put_tensor("set/x.safetensors", "one") && put_tensor("set/z.safetensors", "zzz") &&
              put("set/absent.json", absent, sizeof absent - 1) && put("set/other.json", other, sizeof other - 1) &&
              put("set/loop.json", loop, sizeof loop - 1),
          "cannot write to %s", tmp);
    TRY(check_says("set/absent.json", ZN_E_FILE, "set/y.safetensors cannot be opened"));
    TRY(check_says("set/other.json", ZN_E_FILE, "'two' is not in x.safetensors, where the index"));
    TRY(check_says("set/loop.json", ZN_E_FILE, "is a text file"));
    zn_error err;
    zn_weights *w = open_one(join(tmp, "set"), &err);
    int all = w ? zn_weights_count(w) : 0;

    zn_weights_close(&w);
    CHECK(all == 2, "a folder of files gives %d tensors: %s", all, err.text);
    CHECK(put("set/m.safetensors.index.json", good, sizeof good - 1), "cannot write to %s", tmp);
    w = open_one(join(tmp, "set"), &err);
    all = w ? zn_weights_count(w) : 0;
    zn_weights_close(&w);
    CHECK(all == 1, "a folder with an index gives %d tensors: %s", all, err.text);
    CHECK(put("set/n.safetensors.index.json", good, sizeof good - 1), "cannot write to %s", tmp);
    TRY(check_says("set", ZN_E_USAGE, "holds several indexes"));
}

static void test_many(void)
{
    enum { N = 20000 };
    size_t size = 8 + (size_t)N * 80 + N;
    char *b = calloc(1, size), *p = b ? b + 8 : NULL;
    zn_weights *w = NULL;
    zn_error err;
    int found = 0;

    CHECK(b, "no memory");
    for (int i = 0; i < N; i++)
        p += sprintf(p, "%s\"t.%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "{", i,
                     N - 1 - i, N - i);
    *p++ = '}';
    uint64_t n = (uint64_t)(p - b - 8);

    memcpy(b, &n, 8);
    for (int i = 0; i < N; i++)
        p[i] = (char)(i % 100);
    zn_weights_open_memory(&w, b, 8 + (size_t)n + N, "many", &err);
    for (int i = 0; w && i < N; i++) {
        char name[20];

        snprintf(name, sizeof name, "t.%d", i);
        found += holds(w, name, 1, (float[]){ (float)((N - 1 - i) % 100) });
    }
    zn_weights_close(&w);
    free(b);
    CHECK(found == N, "%d of %d found: %s", found, N, err.text);
}

/* ---- damage ----------------------------------------------------------------------------------- */

enum { ROOM = 1 << 22 }; /* elements: no tensor of the files below has more, unless damaged */

/* The element of a tensor that is furthest into its data. */
static zn_entry corner(const zn_entry *e)
{
    zn_entry c = { .dtype = e->dtype, .file = e->file, .at = e->at };

    for (int i = 0; i < e->n_dims; i++)
        c.at += (uint64_t)((e->shape[i] - 1) * e->stride[i]) * zn_dtype_size(e->dtype);
    return c;
}

/* Opens the bytes and, if that works, reads every tensor: all of it, or one corner if it is quick. */
static bool survive(const void *bytes, size_t size, float *room, bool quick)
{
    zn_error err;
    zn_weights *w;
    zn_status s = zn_weights_open_memory(&w, bytes, size, "damaged", &err);

    if (s)
        return !w && err.text[0];
    for (int i = 0; i < zn_weights_count(w); i++) {
        const zn_entry *e = zn_weights_at(w, i);
        size_t len = zn_entry_len(e);
        zn_entry c = quick && len ? corner(e) : *e;

        if (len <= ROOM)
            zn_entry_read(&c, room, NULL);
    }
    zn_weights_close(&w);
    return true;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Cuts the file short at every step-th byte, then flips bits one by one, half of them in the first
 * and last 16 kB, where the structure is.  A large file is not copied for each cut (in small ones the
 * sanitizer sees each new end), and read in full only after every eighth flip. */
static void damage(const char *path, size_t step, int n_flips, bool large)
{
    size_t size;
    unsigned char *p = slurp(path, &size);
    float *room = malloc(ROOM * sizeof *room);
    bool ok = p && room;
    uint32_t seed = 20240607;

    for (size_t n = 0; n < size && ok; n += step) {
        unsigned char *copy = large ? NULL : malloc(n + !n);

        if (copy)
            memcpy(copy, p, n);
        ok = survive(copy ? copy : p, n, room, large);
        free(copy);
    }
    for (int i = 0; i < n_flips && ok; i++) {
        size_t edge = size < 16384 ? size : 16384, at = next_random(&seed);

        at = i % 4 == 0 ? at % edge : i % 4 == 1 ? size - 1 - at % edge : at % size;
        unsigned char bit = (unsigned char)(1 << next_random(&seed) % 8);

        p[at] ^= bit;
        ok = survive(p, size, room, large && i % 8);
        p[at] ^= bit;
    }
    free(room);
    free(p);
    CHECK(size, "%s cannot be read", path);
    CHECK(ok, "%s: an error without a sentence", path);
}

static void test_damage_safetensors(void)
{
    damage(join(data, "dtypes.safetensors"), 1, 2000, false);
}

static void test_damage_torch(void)
{
    damage(join(data, "layouts.pt"), 1, 2000, false);
}

static void test_damage_lightning(void)
{
    damage(join(data, "lightning.ckpt"), 7, 2000, false);
}

static void test_damage_real(void)
{
    if (access(shared_file("taef2_encoder.pth"), R_OK))
        SKIP("no taef2_encoder.pth in the shared data");
    damage(shared_file("taef2_encoder.pth"), 97, 2000, true);
}

/* ---- real checkpoints --------------------------------------------------------------------------- */

static void test_real(void)
{
    static const struct {
        const char *file;
        int n;
        const char *name, *dtype;
        int n_dims;
        int64_t shape[8];
    } real[] = {
        { "taef2_encoder.pth", 79, "0.weight", "F16", 4, { 64, 3, 3, 3 } },
        { "taef2_encoder.pth", 79, "14.bias", "F16", 1, { 32 } },
        { "taef2_decoder.pth", 79, "1.weight", "F16", 4, { 64, 32, 3, 3 } },
        { "taef2_decoder.pth", 79, "19.bias", "F16", 1, { 3 } },
        { "taesana_encoder.pth", 69, "0.weight", "F16", 4, { 32, 3, 3, 3 } },
        { "taesana_encoder.pth", 69, "17.bias", "F16", 1, { 32 } },
        { "test_latents_wan.pth", 1, "tensor", "BF16", 5, { 1, 16, 16, 40, 64 } },
    };

    if (access(shared_file(real[0].file), R_OK))
        SKIP("no %s in the shared data", real[0].file);
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        zn_error err;
        zn_weights *w = open_one(shared_file(real[i].file), &err);
        int n = w ? zn_weights_count(w) : 0;
        zn_weight_info info = { 0 };
        bool ok = false;

        for (int k = 0; k < n; k++) {
            info = zn_weights_info(w, k);
            if (!strcmp(info.name, real[i].name)) {
                ok = !strcmp(info.dtype, real[i].dtype) && info.n_dims == real[i].n_dims &&
                    !memcmp(info.shape, real[i].shape, sizeof info.shape);
                break;
            }
        }
        zn_weights_close(&w);
        CHECK(n == real[i].n, "%s holds %d tensors: %s", real[i].file, n, err.text);
        CHECK(ok, "%s: %s is wrong or missing", real[i].file, real[i].name);
    }
}

/* Written before PyTorch 1.6: refused, with advice. */
static void test_real_legacy(void)
{
    static const char *const files[] = { "ffdnet_color.pth", "dncnn_color_blind.pth" };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        zn_error err;

        if (access(shared_file(files[i]), R_OK))
            SKIP("no %s in the shared data", files[i]);
        zn_weights *w = open_one(shared_file(files[i]), &err);
        bool opened = w;

        zn_weights_close(&w);
        CHECK(!opened && strstr(err.text, "before 1.6"), "%s: %s", files[i], err.text);
    }
}

/* ---- large files, and files that change ------------------------------------------------------- */

enum { N_LARGE = 10, LARGE = 5 << 20 }; /* tensors, floats of each: 200 MiB in all */

/* A file of zeros that takes no room on the disk, with another value at the end of every tensor. */
static bool put_large(const char *path)
{
    char head[1024] = "        {";
    size_t n = 9;
    FILE *f = fopen(path, "wb");
    bool ok = f;

    for (int i = 0; i < N_LARGE; i++)
        n += (size_t)snprintf(head + n, sizeof head - n,
                              "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                              i, LARGE, (size_t)i * LARGE * 4, (size_t)(i + 1) * LARGE * 4);
    n += (size_t)snprintf(head + n, sizeof head - n, "}");
    for (int i = 0; i < 8; i++)
        head[i] = (char)((n - 8) >> 8 * i);
    ok = ok && fwrite(head, 1, n, f) == n;
    for (int i = 0; ok && i < N_LARGE; i++) {
        const float last = (float)(i + 1);

        ok = !fseek(f, (long)(n + (size_t)(i + 1) * LARGE * 4 - 4), SEEK_SET) && fwrite(&last, 4, 1, f) == 1;
    }
    return f && !fclose(f) && ok;
}

/* In a process of its own, whose record begins anew: three tensors out of ten are kept; returns the MiB that it took. */
static int read_three(const char *path)
{
    pid_t child = fork();
    int status = 0;

    if (!child) {
        const long before = test_most_resident();
        zn_error err;
        zn_weights *w = open_one(path, &err);
        bool ok = w;

        for (int i = 0; ok && i < 3; i++) {
            float *x = malloc((size_t)LARGE * sizeof *x); /* kept */

            ok = x && !zn_entry_read(zn_weights_at(w, 3 * i), x, &err) && x[LARGE - 1] == (float)(3 * i + 1);
        }
        _exit(ok ? (int)((test_most_resident() - before) >> 10) : 255);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void test_large(void)
{
    const char *path = join(tmp, "large.safetensors");
    int mib;

    if (INSTRUMENTED)
        SKIP("instruments take memory of their own");
    if (!test_most_resident() || !put_large(path))
        SKIP("no room for a file of 200 MiB, or no /proc");
    mib = read_three(path);
    CHECK(mib >= 60 && mib < 66, "%d MiB to read 60 out of 200", mib);
}

static atomic_int n_read; /* tensors of the file that is cut */

static void *cut(void *path)
{
    while (!atomic_load(&n_read))
        sched_yield();
    return truncate(path, 4096) ? path : NULL;
}

/* A file that is cut while it is read, at the latest before its last tensor: an error, not a signal. */
static void test_shrinking(void)
{
    const char *path = join(tmp, "large.safetensors");
    float *x = malloc((size_t)LARGE * sizeof *x);

    if (!x || !put_large(path))
        SKIP("no room for a file of 200 MiB");
    for (int trial = 0; trial < 10; trial++) {
        zn_error err = { "" };
        zn_weights *w = open_one(path, &err);
        pthread_t thread;
        zn_status s = ZN_OK;
        void *uncut = NULL;

        atomic_store(&n_read, 0);
        CHECK(w && !pthread_create(&thread, NULL, cut, (void *)(uintptr_t)path), "%s", err.text);
        for (int i = 0; i < N_LARGE - 1 && !s; i++) {
            s = zn_entry_read(zn_weights_at(w, i), x, &err);
            atomic_store(&n_read, 1);
        }
        CHECK(!pthread_join(thread, &uncut) && !uncut, "it was not cut");
        if (!s)
            s = zn_entry_read(zn_weights_at(w, N_LARGE - 1), x, &err);
        zn_weights_close(&w);
        CHECK(!truncate(path, 0) && put_large(path), "the file cannot be made again");
        CHECK(s == ZN_E_FILE && strstr(err.text, "became shorter"), "status %d: %s", s, err.text);
    }
    free(x);
}

static void remove_tmp(void)
{
    static const char *const names[] = { "none/.hidden.safetensors",
                                         "none/readme.txt",
                                         "none",
                                         "odd/x.safetensors",
                                         "odd",
                                         "pipe",
                                         "empty",
                                         "text",
                                         "a.safetensors",
                                         "large.safetensors",
                                         "b.safetensors",
                                         "c.safetensors",
                                         "set/x.safetensors",
                                         "set/z.safetensors",
                                         "set/absent.json",
                                         "set/other.json",
                                         "set/loop.json",
                                         "set/m.safetensors.index.json",
                                         "set/n.safetensors.index.json",
                                         "set",
                                         NULL };

    for (int i = 0; names[i]; i++)
        remove(join(tmp, names[i]));
    rmdir(tmp);
}
int main(void)
{
    if (!mkdtemp(tmp)) {
        printf("not ok: no folder for temporary files\n");
        return 1;
    }
    RUN(test_paths);
    RUN(test_long_path);
    RUN(test_sets);
    RUN(test_indexes);
    RUN(test_many);
    RUN(test_damage_safetensors);
    RUN(test_damage_torch);
    RUN(test_damage_lightning);
    RUN(test_damage_real);
    RUN(test_real);
    RUN(test_real_legacy);
    RUN(test_large);
    RUN(test_shrinking);
    remove_tmp();
    return test_end();
}
