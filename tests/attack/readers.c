/* SPDX-License-Identifier: MIT */
/* readers.c - generated files for every reader of the engine and its command line: safetensors, GGUF, PyTorch archives and
 * their pickles, indexes of shards, tokenizer.json, .npy, and pictures to train with.
 *
 * A generator writes a valid file with a few errors, so that the reader gets far enough to reach them. */
#include "attack.h"
#include "generate.h"

#include "../../engine/cli/cli.h"
#include "../../engine/cli/pictures.h"
#include "../../engine/text/text.h"

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

/* ---- tokenizer.json ------------------------------------------------------------------------------------------------------- */

/* What lies between `key` and the next `end` in a file; the place of its first byte. */
static size_t inside(const bytes *file, const char *key, const char *end, size_t *len)
{
    const char *text = (const char *)file->at, *from = strstr(text, key) + strlen(key);

    *len = (size_t)(strstr(from, end) - from);
    return (size_t)(from - text);
}

static void put_merges(bytes *b, rnd *r, int wrong)
{
    static const char *const odd[] = { "a",         "a b c", " ",
                                       "",          "ab cd", "\\u0120 a",
                                       "a \\u0120", "q zz9", "\xc4\xa0 \xc4\xa0" };

    for (size_t i = 0, n = below(r, chance(r, 2) ? 500 : 12); i < n; i++) {
        char pair[8];

        snprintf(pair, sizeof pair, "%c %c", (int)('a' + below(r, 26)), (int)('a' + below(r, 26)));
        if (chance(r, wrong / 3))
            put_value(b, r, 0);
        else if (chance(r, 30))
            put_text(b, "[\"%c\",\"%c\"]", pair[0], pair[2]);
        else
            put_string(b, r, chance(r, wrong) ? ONE_OF(r, odd) : pair);
        put(b, ",", i + 1 < n);
    }
}

/* The good file with another vocabulary, or other merges. */
static void make_tokenizer(bytes *b, rnd *r)
{
    static attack_seeds real;
    const int wrong = chance(r, 60) ? 8 : 0;
    size_t len, at;

    if (!real.list) {
        attack_load(&real, ZN_SOURCE_ROOT "/tests/data/text", "tokenizer.json");
        put_number(&real.list[0], 1, 0); /* ends it, for inside() */
    }
    put(b, real.list[0].at, real.list[0].len);
    at = inside(b, "\"merges\":[", "]}}", &len);
    if (chance(r, 50)) {
        bytes merges = { 0 };

        put_merges(&merges, r, wrong);
        bytes_replace(b, at, len, merges.at, merges.len);
        bytes_free(&merges);
    }
    at = inside(b, "\"vocab\":{\"!\":", ",", &len);
    if (chance(r, 30)) { /* another id, and more tokens */
        bytes more = { 0 };

        put_text(&more, "%lld", (long long)maybe_odd(r, (int64_t)below(r, 600), 30));
        for (size_t i = below(r, 4); i; i--) {
            put(&more, ",", 1);
            put_string(&more, r, chance(r, 50) ? "zz" : "ab");
            put_text(&more, ":%lld", (long long)maybe_odd(r, (int64_t)(561 + below(r, 9)), 20));
        }
        bytes_replace(b, at, len, more.at, more.len);
        bytes_free(&more);
    }
    at = inside(b, "\"added_tokens\":[{\"id\":", ",", &len);
    if (chance(r, 30)) {
        char id[24];

        bytes_replace(b, at, len, id, (size_t)snprintf(id, sizeof id, "%lld", (long long)maybe_odd(r, 3, 60)));
    }
    b->len--;
    if (chance(r, 30))
        mutate(b, r, 3);
}

static bool run_tokenizer(const bytes *b, rnd *r, const char **why)
{
    static const char *const texts[] = { "a cat's 12 <|im_end|>\n", "  q\u0307\u0323\u1112\u1161\u11ab\u732b!!", "",
                                         "zzabab" };
    zn_tokenizer *t = NULL;
    zn_error err = { "" };
    char *exact = malloc(b->len ? b->len : 1); /* so that reading past the end is seen */
    int32_t ids[64];
    int n = 0;

    memcpy(exact, b->at, b->len);
    if (zn_tokenizer_read(&t, exact, b->len, "attack", &err)) {
        *why = "no sentence";
        free(exact);
        return !t && *err.text;
    }
    *why = "more tokens than there is room for";
    zn_tokenizer_encode(ids, 64, &n, t, ONE_OF(r, texts), NULL);
    zn_tokenizer_chat(ids, 64, &n, t, ONE_OF(r, texts), NULL);
    zn_tokenizer_close(&t);
    free(exact);
    return n >= 0;
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
        { "gguf", make_gguf, run_weights, 0, 0, false },
        { "mlx", make_mlx, run_weights, 0, 0, false },
        { "fp8", make_fp8, run_weights, 0, 0, false },
        { "mutated", make_mutated, run_weights, 0, 0, false },
        { "index", make_index, run_index, 0, 0, false },
        { "tokenizer", make_tokenizer, run_tokenizer, 0, 0, false },
        { "npy", make_npy, run_npy, 0, 0, false },
#if defined(ZN_HAVE_PNG) && defined(ZN_HAVE_JPEG)
        { "png", make_png, run_png, 0, 0, false },
        { "jpeg", make_jpeg, run_jpeg, 0, 0, false },
#endif
    };

    return attack_main(argc, argv, list, sizeof list / sizeof *list, begin);
}
