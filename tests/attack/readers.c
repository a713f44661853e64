/* SPDX-License-Identifier: MIT */
/* readers.c - generated files for every reader of the engine and its command line: safetensors, PyTorch archives and
 * their pickles, indexes of shards, .npy, and pictures to train with.
 *
 * A generator writes a good file in which a few things are wrong: so the reader gets far enough to meet them. */
#include "attack.h"
#include "generate.h"

#include "../../engine/cli/cli.h"
#include "../../engine/cli/pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* fuzz_weights.c */

static bool run_weights(const bytes *b, rnd *r, const char **why)
{
    (void)r, (void)why;
    LLVMFuzzerTestOneInput(b->at, b->len); /* it aborts on what is wrong */
    return true;
}

/* ---- mutations of real files ------------------------------------------------------------------------------------------ */

static attack_seeds corpus;

static void make_mutated(bytes *b, rnd *r)
{
    const bytes *one = &corpus.list[below(r, (size_t)corpus.n)], *two = &corpus.list[below(r, (size_t)corpus.n)];

    put(b, one->at, one->len);
    if (chance(r, 20) && two->len && b->len) { /* the end of another */
        const size_t from = below(r, two->len);

        b->len = below(r, b->len);
        put(b, two->at + from, two->len - from);
    }
    mutate(b, r, 6);
}

/* ---- indexes of shards -------------------------------------------------------------------------------------------------- */

#define SHARDS ZN_SOURCE_ROOT "/tests/data/weights/shards/"

static void make_index(bytes *b, rnd *r)
{
    static const char *const names[] = { "s-00001-of-00002.safetensors",
                                         "s-00002-of-00002.safetensors",
                                         "none.safetensors",
                                         "../s.safetensors",
                                         "/dev/zero",
                                         ".",
                                         "",
                                         "s.safetensors.index.json",
                                         "a/b" };
    static attack_seeds real;
    const int wrong = chance(r, 50) ? 10 : 0;

    if (!real.list)
        attack_load(&real, SHARDS, "s.safetensors.index");
    if (chance(r, 40)) {
        put(b, real.list[0].at, real.list[0].len);
        mutate(b, r, 4);
        return;
    }
    put(b, "{", 1);
    if (chance(r, 50)) {
        put(b, "\"metadata\":", 11);
        put_value(b, r, 0);
        put(b, ",", 1);
    }
    put(b, "\"weight_map\":{", 14);
    for (size_t i = 0, n = below(r, 8); i < n; i++) {
        char name[32];

        snprintf(name, sizeof name, "t%zu", chance(r, 10) ? 0 : i);
        put_space(b, r);
        put_string(b, r, name);
        put(b, ":", 1);
        if (chance(r, wrong / 3))
            put_value(b, r, 0);
        else
            put_string(b, r, names[below(r, chance(r, wrong) ? 9 : 2)]);
        put(b, ",", i + 1 < n);
    }
    put(b, "}}", 2);
    if (chance(r, 10))
        mutate(b, r, 2);
}

static bool run_index(const bytes *b, rnd *r, const char **why)
{
    static bool linked;
    const char *index, *path;
    zn_weights *w = NULL;
    zn_error err = { "" };

    (void)r;
    if (!linked) {
        bytes shard = { 0 };

        mkdir(attack_path("shards"), 0700);
        for (int i = 1; i <= 2; i++) {
            char from[512], to[64];

            snprintf(to, sizeof to, "shards/s-0000%d-of-00002.safetensors", i);
            snprintf(from, sizeof from, SHARDS "s-0000%d-of-00002.safetensors", i);
            shard.len = 0;
            bytes_load(&shard, from);
            bytes_save(&shard, attack_path(to));
        }
        bytes_free(&shard);
        linked = true;
    }
    index = attack_path("shards/s.safetensors.index.json");
    bytes_save(b, index);
    path = chance(r, 50) ? index : attack_path("shards");
    if (zn_weights_open(&w, &path, 1, &err)) {
        *why = "no sentence";
        return !w && *err.text;
    }
    for (int i = 0; i < zn_weights_count(w); i++) {
        const zn_weight_info info = zn_weights_info(w, i);
        float room[4096];
        size_t n = 1;

        for (int d = 0; d < info.n_dims; d++)
            n *= (size_t)info.shape[d];
        if (n <= 4096 && zn_weights_read(room, n, w, info.name, &err)) {
            *why = "a tensor of a set that was opened cannot be read";
            return false;
        }
    }
    zn_weights_close(&w);
    return true;
}

/* ---- .npy ---------------------------------------------------------------------------------------------------------------- */

static void make_npy(bytes *b, rnd *r)
{
    const int wrong = chance(r, 60) ? 6 : 0, rank = (int)below(r, chance(r, wrong) ? 9 : 4);
    const char *const kind = chance(r, wrong) ? "<f8" : chance(r, 20) ? "<i8" : "<f4";
    bytes head = { 0 };
    size_t n = kind[1] == 'i' || kind[2] == '8' ? 8 : 4;

    put_text(&head, "{'descr': '%s', 'fortran_order': %s, 'shape': (", kind, chance(r, wrong) ? "True" : "False");
    for (int i = 0; i < rank; i++) {
        const size_t side = 1 + below(r, 5);

        put_text(&head, "%lld%s", (long long)maybe_odd(r, (int64_t)side, wrong), chance(r, wrong) ? "L,," : ", ");
        n *= side;
    }
    put_text(&head, "), }%*s\n", (int)below(r, 60), "");
    if (chance(r, 20))
        mutate(&head, r, 3);
    put(b, "\x93NUMPY", 6);
    put_number(b, 1, chance(r, 90) ? 1 : below(r, 4));
    put_number(b, 1, 0);
    put_number(b, b->at[6] > 1 ? 4 : 2, (uint64_t)maybe_odd(r, (int64_t)head.len, wrong));
    put(b, head.at, head.len);
    for (size_t i = maybe_odd(r, (int64_t)n, wrong) & 4095; i; i--)
        put_number(b, 1, rnd_next(r));
    bytes_free(&head);
}

static bool run_npy(const bytes *b, rnd *r, const char **why)
{
    const char *path = attack_path("x.npy");
    zn_array a = { 0 };
    zn_error err = { "" };
    int rank = 0;
    volatile float sum = 0;

    (void)r;
    bytes_save(b, path);
    if (!npy_read(&a, &rank, path, &err)) {
        *why = "no sentence, or memory that nobody frees";
        return *err.text && !a.data;
    }
    *why = "the array is larger than its file";
    if (zn_array_len(&a) * 4 > b->len || rank < 1 || rank > 3)
        return false;
    for (size_t i = 0; i < zn_array_len(&a); i++)
        sum += a.data[i];
    (void)sum;
    free(a.data);
    return true;
}

/* ---- pictures to train with ------------------------------------------------------------------------------------------------ */

#if defined(ZN_HAVE_PNG) && defined(ZN_HAVE_JPEG)
static bool take_picture(void *cookie, const char *name, const zn_array *picture, const char *why)
{
    volatile float sum = 0;

    (void)cookie, (void)name, (void)why;
    for (size_t i = 0; picture && i < zn_array_len(picture); i++)
        sum += picture->data[i];
    (void)sum;
    return true;
}

static bool read_folder(const bytes *b, const char *name)
{
    const char *folder = attack_path("album");
    char path[300];

    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bytes_save(b, path);
    bool ok = pictures_read(folder, take_picture, NULL) != ZN_E_FILE;

    remove(path);
    return ok;
}

static bool run_png(const bytes *b, rnd *r, const char **why)
{
    (void)r;
    *why = "the folder cannot be read";
    return read_folder(b, "x.png");
}

static bool run_jpeg(const bytes *b, rnd *r, const char **why)
{
    (void)r;
    *why = "the folder cannot be read";
    return read_folder(b, "x.jpg");
}
#endif

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

static void begin(void)
{
    attack_load(&corpus, ZN_SOURCE_ROOT "/tests/fuzz/corpus", "");
}

int main(int argc, char **argv)
{
    static const attack_target list[] = {
        { "safetensors", make_safetensors, run_weights, 0, 0, false },
        { "torch", make_torch, run_weights, 0, 0, false },
        { "mutated", make_mutated, run_weights, 0, 0, false },
        { "index", make_index, run_index, 0, 0, false },
        { "npy", make_npy, run_npy, 0, 0, false },
#if defined(ZN_HAVE_PNG) && defined(ZN_HAVE_JPEG)
        { "png", make_png, run_png, 0, 0, false },
        { "jpeg", make_jpeg, run_jpeg, 0, 0, false },
#endif
    };

    return attack_main(argc, argv, list, sizeof list / sizeof *list, begin);
}
