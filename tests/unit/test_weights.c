/* SPDX-License-Identifier: MIT */
/* test_weights.c - the contents of weight files, and the error messages for bad ones; test_weight_files.c: paths, and
 * damage.
 *
 * Needs ZN_SOURCE_ROOT, the folder of the sources, for tests/fuzz/corpus (hand-made, every error) and
 * tests/data/weights (written by PyTorch and safetensors). */
#define _POSIX_C_SOURCE 200809L

#include "weights.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <unistd.h>

#ifdef ZN_PATH_LIST
#define LIST ZN_PATH_LIST
#else
#define LIST ":"
#endif

static const char corpus[] = ZN_SOURCE_ROOT "/tests/fuzz/corpus";
static const char data[] = ZN_TEST_DATA;

/* ---- helpers ---------------------------------------------------------------------------------- */

#define HOLDS(w, name, ...)                                                                                            \
    CHECK(holds(w, name, sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float), (const float[]){ __VA_ARGS__ }),      \
          "%s is wrong", name)

/* In the fixtures the i-th element is i % 7, minus 3 where the type has a sign. */
static bool is_filled(const zn_entry *e)
{
    size_t n = zn_entry_len(e);
    float *x = malloc(n * sizeof *x + 1);
    bool ok = x, is_unsigned = zn_dtype_name(e->dtype)[0] == 'U', is_bool = e->dtype == ZN_BOOL;

    if (ok)
        zn_entry_read(e, x, NULL);
    for (size_t i = 0; i < n && ok; i++) {
        float want = is_bool ? i % 7 != 0 : (float)(i % 7) - (is_unsigned ? 0 : 3);

        ok = x[i] == want;
    }
    free(x);
    return ok;
}

static void check_filled(const char *name, int n, const char *const *names)
{
    zn_error err;
    zn_weights *w = open_one(join(data, name), &err);
    const char *wrong = "";
    int count = w ? zn_weights_count(w) : 0;

    for (int i = 0; i < count; i++)
        if (!is_filled(zn_weights_at(w, i)))
            wrong = zn_weights_at(w, i)->name; /* lives as long as w */
    for (int i = 0; w && names && names[i]; i++)
        if (!zn_weights_get(w, names[i]))
            wrong = names[i];
    char text[200];

    snprintf(text, sizeof text, "%s", wrong);
    zn_weights_close(&w);
    CHECK(!err.text[0], "%s", err.text);
    CHECK(count == n, "%s holds %d tensors, not %d", name, count, n);
    CHECK(!*text, "%s: the tensor %s is wrong or missing", name, text);
}

/* ---- the corpus ------------------------------------------------------------------------------- */

static const struct {
    const char *file, *says; /* NULL: it opens */
} cases[] = {
    { "bad-empty", "is empty" },
    { "bad-gguf-alignment", "alignment makes no sense" },
    { "bad-gguf-array-long", "it ends too early" },
    { "bad-gguf-array-strings", "it ends too early" },
    { "bad-gguf-array-type", "values of an unknown type" },
    { "bad-gguf-array-wraps", "it ends too early" },
    { "bad-gguf-big-endian", "big-endian" },
    { "bad-gguf-cut", "'w' lies outside the file" },
    { "bad-gguf-cut-header", "it ends too early" },
    { "bad-gguf-dims", "no dimensions, or more than 4" },
    { "bad-gguf-dims-many", "no dimensions, or more than 4" },
    { "bad-gguf-dims-none", "no dimensions, or more than 4" },
    { "bad-gguf-key-cut", "it ends too early" },
    { "bad-gguf-key-long", "it ends too early" },
    { "bad-gguf-many", "too many tensors or values" },
    { "bad-gguf-many-pairs", "too many tensors or values" },
    { "bad-gguf-more", "is damaged: " },
    { "bad-gguf-name-empty", "too long or not text" },
    { "bad-gguf-name-long", "too long or not text" },
    { "bad-gguf-name-utf8", "too long or not text" },
    { "bad-gguf-name-zero", "too long or not text" },
    { "bad-gguf-nothing", "holds no tensors" },
    { "bad-gguf-offset", "'w' lies outside the file" },
    { "bad-gguf-offset-huge", "'w' lies outside the file" },
    { "bad-gguf-offset-odd", "'w' lies outside the file" },
    { "bad-gguf-repeats", "'v', which repeats its data too many times" },
    { "bad-gguf-shape-block", "shape of a tensor is impossible" },
    { "bad-gguf-shape-huge", "shape of a tensor is impossible" },
    { "bad-gguf-shape-overflow", "shape of a tensor is impossible" },
    { "bad-gguf-shape-zero", "shape of a tensor is impossible" },
    { "bad-gguf-twice", "names the tensor 'w' twice" },
    { "bad-gguf-type", "'w' of GGUF's type 10" },
    { "bad-gguf-type-far", "'w' of GGUF's type 2147483648" },
    { "bad-gguf-value-type", "a value has an unknown type" },
    { "bad-gguf-version", "is of version 1 of GGUF" },
    { "bad-hdf5", "is an HDF5 file" },
    { "bad-index-header", "there is no weight_map" },
    { "bad-index-json", "is not an index of weight files: a string is missing" },
    { "bad-index-map", "there is no weight_map" },
    { "bad-index-path", "not a plain name" },
    { "bad-index-slash", "not a plain name" },
    { "bad-legacy", "PyTorch before 1.6" },
    { "bad-lfs", "Git LFS" },
    { "bad-noise", "is not a weight file" },
    { "bad-pickle", "is a bare Python pickle" },
    { "bad-pickle-opcodes", "is a bare Python pickle" },
    { "bad-pickle-plain", "is a bare Python pickle" },
    { "bad-pickle-state", "is a bare Python pickle" },
    { "bad-short", "is not a weight file" },
    { "bad-text", "is a text file, not weights; Zenith reads .safetensors, .gguf and PyTorch" },
    { "bad-pt-big-endian", "big-endian" },
    { "bad-pt-bomb", "dictionaries hold each other" },
    { "bad-pt-call", "a call has no arguments" },
    { "bad-pt-cycle", "dictionaries hold each other" },
    { "bad-pt-deep-root", "not one written by PyTorch" },
    { "bad-pt-deflated", "compressed or encrypted" },
    { "bad-pt-dict-odd", "a key of a dictionary has no value" },
    { "bad-pt-dict-odd2", "a key of a dictionary has no value" },
    { "bad-pt-dims", "more than 8 dimensions" },
    { "bad-pt-dtype", "'w' of type ComplexFloatStorage" },
    { "bad-pt-dtype-v3", "'w' of type float4_e2m1fn_x2" },
    { "bad-pt-encrypted", "compressed or encrypted" },
    { "bad-pt-global", "a class is not named by strings" },
    { "bad-pt-hollow", "dictionaries hold each other" },
    { "bad-pt-line-cut", "it ends too early" },
    { "bad-pt-list", "holds a Python object" },
    { "bad-pt-mark", "a mark is missing" },
    { "bad-pt-mark-first", "holds a Python object" },
    { "bad-pt-memo-far", "it remembers too much" },
    { "bad-pt-memo-never", "it recalls what it never stored" },
    { "bad-pt-memo-word", "a key of its memo is not a number" },
    { "bad-pt-name-long", "name of a tensor is too long or not text" },
    { "bad-pt-name-twice", "names the tensor 'a.b' twice" },
    { "bad-pt-name-utf8", "name of a tensor is too long or not text" },
    { "bad-pt-name-zero", "name of a tensor is too long or not text" },
    { "bad-pt-names", "dictionaries hold each other" },
    { "bad-pt-no-stop", "it ends too early" },
    { "bad-pt-not-dict", "it adds members to what has none" },
    { "bad-pt-not-torch", "not one written by PyTorch" },
    { "bad-pt-nothing", "holds no tensors" },
    { "bad-pt-object", "save model.state_dict()" },
    { "bad-pt-offset", "'w' lies outside its data" },
    { "bad-pt-offset-negative", "'w' lies outside its data" },
    { "bad-pt-offset-overflow", "'w' lies outside its data" },
    { "bad-pt-opcode", "what PyTorch does not write (opcode 0xff" },
    { "bad-pt-pickle-empty", "it ends too early" },
    { "bad-pt-repeats", "repeats its data too many times" },
    { "bad-pt-shared", "repeats its data too many times" },
    { "bad-pt-shape-negative", "the shape of the tensor 'w' is impossible" },
    { "bad-pt-shape-overflow", "the shape of the tensor 'w' is impossible" },
    { "bad-pt-stack", "its stack runs empty" },
    { "bad-pt-stack-mark", "its stack runs empty" },
    { "bad-pt-storage-key", "the data of the tensor 'w' is missing" },
    { "bad-pt-storage-missing", "the data of the tensor 'w' is missing" },
    { "bad-pt-storage-negative", "the data of the tensor 'w' is too short" },
    { "bad-pt-storage-overflow", "the data of the tensor 'w' is too short" },
    { "bad-pt-storage-short", "the data of the tensor 'w' is too short" },
    { "bad-pt-stride-count", "unknown kind of shape" },
    { "bad-pt-stride-far", "'w' lies outside its data" },
    { "bad-pt-stride-negative", "'w' lies outside its data" },
    { "bad-pt-stride-overflow", "'w' lies outside its data" },
    { "bad-pt-tensor-args", "put together in an unknown way" },
    { "bad-pt-text-cut", "it ends too early" },
    { "bad-pt-v3-far", "'w' lies outside its data" },
    { "bad-pt-zip-comment", "the directory at its end is missing" },
    { "bad-pt-zip-count", "its directory is too short" },
    { "bad-pt-zip-cut", "the directory at its end is missing" },
    { "bad-pt-zip-empty", "not one written by PyTorch" },
    { "bad-pt-zip-local", "a member is not where its directory says" },
    { "bad-pt-zip-past", "a member goes past its end" },
    { "bad-pt-zip-record", "its directory cannot be read" },
    { "bad-pt-zip-size", "the directory at its end is missing" },
    { "bad-pt-zip-twice", "its directory names a member twice" },
    { "bad-pt-zip64-count", "its directory is too short" },
    { "bad-pt-zip64-extra", "its directory cannot be read" },
    { "bad-pt-zip64-extra-cut", "its directory cannot be read" },
    { "bad-pt-zip64-locator", "the directory at its end is missing" },
    { "bad-st-bytes", "'a' does not have the number of bytes that its shape needs" },
    { "bad-st-control", "a control character" },
    { "bad-st-dims", "more than 8 dimensions" },
    { "bad-st-dtype", "'a' of type F4, which Zenith does not read" },
    { "bad-st-escape", "an escape is unknown" },
    { "bad-st-escape-hex", "not four hexadecimal digits" },
    { "bad-st-header-cut", "its header does not fit" },
    { "bad-st-header-long", "its header does not fit" },
    { "bad-st-hole", "'b' follows a hole" },
    { "bad-st-hole-first", "'a' follows a hole" },
    { "bad-st-json-array", "'{' is missing" },
    { "bad-st-json-colon", "':' is missing" },
    { "bad-st-json-comma", "a string is missing" },
    { "bad-st-json-cut", "',' is missing" },
    { "bad-st-json-deep", "values are nested too deep" },
    { "bad-st-json-no-comma", "',' is missing" },
    { "bad-st-json-tail", "something follows the end" },
    { "bad-st-json-value", "a value is missing" },
    { "bad-st-json-word", "a value is missing" },
    { "bad-st-member-missing", "lacks its dtype, shape or data_offsets" },
    { "bad-st-member-twice", "a member of a tensor is given twice" },
    { "bad-st-meta-number", "a string is missing" },
    { "bad-st-meta-twice", "__metadata__ is given twice" },
    { "bad-st-nothing", "holds no tensors" },
    { "bad-st-offsets", "data_offsets are not two numbers" },
    { "bad-st-overlap", "'b' overlaps another" },
    { "bad-st-range", "'a' lies outside the file" },
    { "bad-st-range-back", "'a' lies outside the file" },
    { "bad-st-range-negative", "'a' lies outside the file" },
    { "bad-st-same-place", "overlaps another" },
    { "bad-st-shape-float", "a number is not whole" },
    { "bad-st-shape-huge", "a number is too large" },
    { "bad-st-shape-negative", "the shape of the tensor 'a' is impossible" },
    { "bad-st-shape-overflow", "the shape of the tensor 'a' is impossible" },
    { "bad-st-shape-overflow-empty", "the shape of the tensor 'a' is impossible" },
    { "bad-st-shape-zero", "a whole number is missing" },
    { "bad-st-surrogate", "half of a surrogate pair" },
    { "bad-st-surrogate-pair", "half of a surrogate pair" },
    { "bad-st-trailing", "1 bytes after the last tensor belong to none" },
    { "bad-st-twice", "names the tensor 'a' twice" },
    { "bad-st-utf8", "a string is not UTF-8" },
    { "bad-st-utf8-cut", "a string is not UTF-8" },
    { "bad-st-utf8-surrogate", "a string is not UTF-8" },
    { "bad-st-zero", "a string holds a zero byte" },
    { "gguf", NULL },
    { "gguf-v2", NULL },
    { "index", "holds no tensors" }, /* its files are not in memory */
    { "pt-again", NULL },
    { "pt-bare", NULL },
    { "pt-dtypes", NULL },
    { "pt-ema-first", NULL },
    { "pt-expanded", NULL },
    { "pt-model-state-dict", NULL },
    { "pt-nested", NULL },
    { "pt-old", NULL },
    { "pt-opcodes", NULL },
    { "pt-parameter", NULL },
    { "pt-params", NULL },
    { "pt-params-ema", NULL },
    { "pt-params-tensor", NULL },
    { "pt-plain", NULL },
    { "pt-protocol4", NULL },
    { "pt-state-dict", NULL },
    { "pt-v3-float8_e4m3fn", NULL },
    { "pt-v3-float8_e5m2", NULL },
    { "pt-v3-uint16", NULL },
    { "pt-v3-uint32", NULL },
    { "pt-v3-uint64", NULL },
    { "pt-zip64", NULL },
    { "st-dtypes", NULL },
    { "st-names", NULL },
    { "st-order", NULL },
    { "st-unknown-member", NULL },
    { "st-utf8", NULL },
};

enum { N_CASES = sizeof cases / sizeof *cases };

static void test_corpus(void)
{
    for (int i = 0; i < N_CASES; i++) {
        size_t size;
        zn_error err;
        zn_weights *w;
        unsigned char *p = slurp(join(corpus, cases[i].file), &size);

        CHECK(p, "%s is missing", cases[i].file);
        zn_status s = zn_weights_open_memory(&w, p, size, cases[i].file, &err);
        bool opened = w;

        zn_weights_close(&w);
        free(p);
        CHECK(opened == !s && opened == !err.text[0], "%s: status %d", cases[i].file, s);
        CHECK(opened == !cases[i].says, "%s: %s", cases[i].file, opened ? "it opened" : err.text);
        CHECK(opened || s == ZN_E_FILE, "%s: status %d", cases[i].file, s);
        CHECK(opened || (!strncmp(err.text, cases[i].file, strlen(cases[i].file)) && strstr(err.text, cases[i].says)),
              "%s: it says: %s", cases[i].file, err.text);
    }
}

static void test_corpus_is_listed(void)
{
    DIR *d = opendir(corpus);
    int n = 0;

    CHECK(d, "no folder %s", corpus);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    CHECK(n == N_CASES, "%d files in the corpus, %d in the table", n, N_CASES);
}

/* ---- time ------------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *p, const void *bytes, size_t n)
{
    return (unsigned char *)memcpy(p, bytes, n) + n;
}

static unsigned char *put_number(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        *p++ = (unsigned char)(i < 8 ? v >> (8 * i) : 0);
    return p;
}

/* One string of 300,000 bytes as the key of 100,000 members: sorting them must not compare all of it each time. */
static unsigned char *make_long_key(size_t *size)
{
    enum { LEN = 300000, MEMBERS = 100000 };
    static const char name[] = "a/data.pkl";
    unsigned char *begin = malloc(LEN + 4 * MEMBERS + 1000), *p = begin, *pickle, *directory;
    uint32_t stored;

    if (!begin)
        return NULL;
    p = put_number(put(p, "PK\3\4", 4), 0, 22);
    p = put(put_number(p, sizeof name - 1, 4), name, sizeof name - 1);
    pickle = p;
    p = put_number(put(p, "\x80\2X", 3), LEN, 4);
    memset(p, 'k', LEN);
    p = put(p + LEN, "q\0000}(", 5); /* remembered as 0 and popped */
    for (int i = 0; i < MEMBERS; i++)
        p = put(p, "h\0K\1", 4);
    p = put(p, "u.", 2);
    stored = (uint32_t)(p - pickle);
    directory = p;
    p = put_number(put_number(put_number(put(p, "PK\1\2", 4), 0, 16), stored, 4), stored, 4);
    p = put(put_number(put_number(p, sizeof name - 1, 2), 0, 16), name, sizeof name - 1);
    stored = (uint32_t)(p - directory);
    p = put_number(put_number(put_number(put(p, "PK\5\6", 4), 0, 4), 1, 2), 1, 2);
    p = put_number(put_number(put_number(p, stored, 4), (uint64_t)(directory - begin), 4), 0, 2);
    *size = (size_t)(p - begin);
    return begin;
}

static void test_long_key(void)
{
    size_t size;
    unsigned char *p = make_long_key(&size);
    zn_weights *w = NULL;
    zn_error err;
    clock_t before = clock();

    CHECK(p, "no memory");
    zn_status s = zn_weights_open_memory(&w, p, size, "keys", &err);
    double took = (double)(clock() - before) / CLOCKS_PER_SEC;

    zn_weights_close(&w);
    free(p);
    CHECK(s == ZN_E_FILE && strstr(err.text, "holds no tensors"), "status %d, %s", s, err.text);
    CHECK(took < 2 * test_second(), "a file of %zu bytes took %.1f s", size, took);
}

/* ---- values ----------------------------------------------------------------------------------- */

static void check_dtypes(const zn_weights *w)
{
    char name[40];

    for (int i = 0; i < ZN_N_TYPES; i++) {
        const char *type = zn_dtype_name((zn_type)i);

        snprintf(name, sizeof name, "plain.%s", type);
        if (i == ZN_BOOL)
            HOLDS(w, name, 0, 1, 1, 1);
        else
            HOLDS(w, name, 0, 1, 2, 3);
        CHECK(zn_weights_get(w, name)->dtype == (zn_type)i, "%s has another type", name);
    }
    HOLDS(w, "special.F16", 65504, 0x1p-24f, -0x1p-14f, INFINITY, NAN);
    HOLDS(w, "special.BF16", 0x1.fep127f, 0x1p-133f, -0x1p-126f, INFINITY, NAN);
    HOLDS(w, "special.F8_E4M3", 448, 0x1p-9f, -0x1p-6f, -448, NAN);
    HOLDS(w, "special.F8_E5M2", 57344, 0x1p-16f, -0x1p-14f, INFINITY, NAN);
    HOLDS(w, "special.I8", 127, -1, -2, -128, 5);
    HOLDS(w, "special.I16", 32767, -1, -2, -32768, 5);
    HOLDS(w, "special.I64", 0x1p40f, -1, -2, -0x1p40f, 5);
    HOLDS(w, "special.U64", 0x1p63f, 1, 2, 3, 5);
}

static void check_order(const zn_weights *w)
{
    zn_weight_info info = zn_weights_info(w, 3);

    HOLDS(w, "first", 1.5f);
    HOLDS(w, "second", -2, 4);
    HOLDS(w, "tail", 1, 2, -1);
    CHECK(zn_weights_get(w, "first")->n_dims == 0, "a scalar has dimensions");
    CHECK(zn_entry_len(zn_weights_get(w, "empty")) == 0, "an empty tensor has elements");
    zn_entry_read(zn_weights_get(w, "empty"), NULL, NULL);
    CHECK(!strcmp(zn_weights_at(w, 0)->name, "second"), "the order of the file is lost");
    CHECK(!strcmp(info.name, "tail") && !strcmp(info.dtype, "I8") && info.n_dims == 8 && info.shape[7] == 3 &&
              info.shape[0] == 1,
          "zn_weights_info is wrong");
    CHECK(!zn_weights_info(w, 4).name && !zn_weights_info(w, -1).name, "there is a fifth tensor");
    CHECK(!zn_weights_get(w, "third") && !zn_weights_get(w, ""), "a name that is not there is found");
    CHECK(!strcmp(zn_weights_meta(w, "format"), "pt") && !strcmp(zn_weights_meta(w, "a\"\n"), "\u00e9"),
          "the metadata is wrong");
    CHECK(!zn_weights_meta(w, "none"), "metadata out of nothing");
    CHECK(strstr(zn_weights_path(w), "corpus/st-order"), "the path is %s", zn_weights_path(w));
}

static void check_names(const zn_weights *w)
{
    CHECK(zn_weights_get(w, "\u00e9\U0001f600/\\\"\b\f\n\r\t"), "escapes are read wrong: %s",
          zn_weights_at(w, 0)->name);
}

static void check_utf8(const zn_weights *w)
{
    CHECK(zn_weights_get(w, "\u00e9\u20ac\U0001f600"), "UTF-8 is read wrong");
}

static void check_plain(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 6, "%d tensors", zn_weights_count(w));
    HOLDS(w, "w", 0, 1, 2, 3);
    HOLDS(w, "w.t", 0, 2, 1, 3);
    HOLDS(w, "slice", 1, 3);
    HOLDS(w, "scalar", 3);
    HOLDS(w, "odd", 2, 3);
    CHECK(zn_entry_len(zn_weights_get(w, "empty")) == 0, "an empty tensor has elements");
    CHECK(zn_weights_get(w, "w")->at == zn_weights_get(w, "w.t")->at, "the storage is not shared");
}

static void check_pt_dtypes(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 10 || zn_weights_count(w) == 1, "%d tensors", zn_weights_count(w));
    for (int i = 0; i < zn_weights_count(w); i++) {
        const zn_entry *e = zn_weights_at(w, i);

        CHECK(!strcmp(e->name, zn_dtype_name(e->dtype)), "%s is %s", e->name, zn_dtype_name(e->dtype));
        if (e->dtype == ZN_BOOL)
            HOLDS(w, e->name, 0, 1, 1, 1);
        else
            HOLDS(w, e->name, 0, 1, 2, 3);
    }
}

static void check_w(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 1, "%d tensors", zn_weights_count(w));
    HOLDS(w, "w", 0, 1, 2, 3);
}

static void check_bare(const zn_weights *w)
{
    HOLDS(w, "tensor", 0, 1, 2, 3);
}

static void check_ema(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 1 && zn_weights_get(w, "e"), "params was taken");
}

static void check_params_tensor(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 2 && zn_weights_get(w, "params") && zn_weights_get(w, "x.y"),
          "a tensor called params is lost");
}

static void check_nested(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 2, "%d tensors", zn_weights_count(w));
    HOLDS(w, "a.b.c", 0, 1, 2, 3);
    HOLDS(w, "d", 0, 1, 2, 3);
}

static void check_expanded(const zn_weights *w)
{
    HOLDS(w, "w", 1, 3, 1, 3, 1, 3);
}

static void check_again(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 2, "%d tensors", zn_weights_count(w));
    HOLDS(w, "w", 1, 2);
    HOLDS(w, "x", 0, 1, 2, 3);
}

static void check_parameter(const zn_weights *w)
{
    CHECK(zn_weights_count(w) == 3, "%d tensors", zn_weights_count(w));
    HOLDS(w, "p", 0, 1, 2, 3);
    HOLDS(w, "s", 0, 1, 2, 3);
    HOLDS(w, "o", 0, 1, 2, 3);
}

static void check_gguf(const zn_weights *w)
{
    const zn_entry *e = zn_weights_get(w, "w");
    const char *name = zn_weights_meta(w, "general.architecture");
    float x[64];

    CHECK(e && e->n_dims == 2 && e->shape[0] == 2 && e->shape[1] == 32 && !zn_entry_read(e, x, NULL),
          "w is not 2 x 32");
    for (int i = 0; i < 64; i++)
        CHECK(x[i] == (i < 32 ? (float)i : 0.0f), "element %d is %g", i, (double)x[i]);
    HOLDS(w, "v", 0, 1, 2, 3);
    CHECK(name && !strcmp(name, "qwen3") && !zn_weights_meta(w, "long"), "the metadata is wrong");
}

static void test_values(void)
{
    static const struct {
        const char *file;
        void (*check)(const zn_weights *w);
    } tests[] = {
        { "st-dtypes", check_dtypes },
        { "st-order", check_order },
        { "st-names", check_names },
        { "st-utf8", check_utf8 },
        { "gguf", check_gguf },
        { "pt-plain", check_plain },
        { "pt-zip64", check_plain },
        { "pt-old", check_plain },
        { "pt-dtypes", check_pt_dtypes },
        { "pt-v3-uint16", check_pt_dtypes },
        { "pt-v3-uint32", check_pt_dtypes },
        { "pt-v3-uint64", check_pt_dtypes },
        { "pt-v3-float8_e4m3fn", check_pt_dtypes },
        { "pt-v3-float8_e5m2", check_pt_dtypes },
        { "pt-state-dict", check_w },
        { "pt-model-state-dict", check_w },
        { "pt-params", check_w },
        { "pt-params-ema", check_w },
        { "pt-opcodes", check_w },
        { "pt-protocol4", check_w },
        { "pt-ema-first", check_ema },
        { "pt-params-tensor", check_params_tensor },
        { "pt-nested", check_nested },
        { "pt-bare", check_bare },
        { "pt-expanded", check_expanded },
        { "pt-again", check_again },
        { "pt-parameter", check_parameter },
    };

    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        zn_error err;
        zn_weights *w = open_one(join(corpus, tests[i].file), &err);

        CHECK(w, "%s", err.text);
        tests[i].check(w);
        zn_weights_close(&w);
        if (test_state.why[0]) {
            char why[sizeof test_state.why];

            memcpy(why, test_state.why, sizeof why);
            CHECK(false, "%s: %s", tests[i].file, why);
        }
    }
}

/* ---- what PyTorch and safetensors write ---------------------------------------------------------- */

static void test_fixtures(void)
{
    static const char *const types[] = { "BOOL", "U16", "F8_E4M3", "BF16", "F64", NULL };
    static const char *const layouts[] = { "transposed",  "channels_last", "permuted", "window",
                                           "shared.tail", "scalar",        "empty",    "eight",
                                           "expanded",    "parameter",     "frozen",   NULL };
    static const char *const net[] = { "0.weight", "1.num_batches_tracked", "2.bias", NULL };
    static const char *const shards[] = { "a.weight", "b.n", NULL };
    static const char *const bare[] = { "tensor", NULL };

    TRY(check_filled("dtypes.pt", 15, types));
    TRY(check_filled("dtypes.safetensors", 15, types));
    TRY(check_filled("layouts.pt", 14, layouts));
    TRY(check_filled("layouts_protocol4.pt", 14, layouts));
    TRY(check_filled("lightning.ckpt", 9, net));
    TRY(check_filled("bare.pt", 1, bare));
    TRY(check_filled("shards", 4, shards));
    TRY(check_filled("shards/s.safetensors.index.json", 4, shards));
    TRY(check_filled("shards/s-00001-of-00002.safetensors", 2, NULL));
}

static void test_legacy_fixture(void)
{
    zn_error err;
    zn_weights *w = open_one(join(data, "legacy.pth"), &err);

    CHECK(!w && strstr(err.text, "before 1.6"), "it says: %s", err.text);
}
/* By name and length, and what is said otherwise. */
static void test_read(void)
{
    const char *paths[] = { ZN_SOURCE_ROOT "/models/zenith-face.attributes.safetensors" };
    zn_weights *w = NULL;
    zn_error err = { "" };
    float step[5] = { 0 };
    bool ok, longer, absent;
    char text[2][sizeof err.text];

    CHECK(!zn_weights_open(&w, paths, 1, &err), "%s", err.text);
    ok = !zn_weights_read(step, 5, w, "step", &err);
    longer = zn_weights_read(step, 4, w, "step", &err) == ZN_E_FILE;
    memcpy(text[0], err.text, sizeof err.text);
    absent = zn_weights_read(step, 5, w, "stride", &err) == ZN_E_FILE;
    memcpy(text[1], err.text, sizeof err.text);
    zn_weights_close(&w);
    CHECK(ok && fabsf(step[4] - 5.773107f) < 1e-5f, "it reads %g", (double)step[4]);
    CHECK(longer && strstr(text[0], "5 elements instead of 4"), "%s", text[0]);
    CHECK(absent && strstr(text[1], "'stride'"), "%s", text[1]);
}

/* The folders of $ZENITH_MODELS, the user's, the installed one, and no more. */
static void test_folders(void)
{
    char path[64];

    setenv("ZENITH_MODELS", "/one" LIST "/two", 1);
    setenv("XDG_DATA_HOME", "/data", 1);
    CHECK(zn_weights_folder(path, sizeof path, 0) && !strcmp(path, "/one"), "%s", path);
    CHECK(zn_weights_folder(path, sizeof path, 1) && !strcmp(path, "/two"), "%s", path);
    CHECK(zn_weights_folder(path, sizeof path, 2) && !strcmp(path, "/data/zenith/models"), "%s", path);
    CHECK(zn_weights_folder(path, sizeof path, 3) && strstr(path, "zenith/models"), "%s", path);
    CHECK(!zn_weights_folder(path, sizeof path, 4), "a fifth folder, %s", path);
    CHECK(zn_weights_folder(path, 4, 0) && !*path, "a folder that does not fit is '%s'", path);
}

/* A folder that is there twice, by its name or by a link, is looked at once. */
static void test_folders_once(void)
{
    char dir[] = "/tmp/zenith-folders-XXXXXX", list[256], link[64], path[64];

    CHECK(mkdtemp(dir), "no folder %s", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    if (symlink(dir, link) && errno == ENOSYS)
        SKIP("no links on this system");
    snprintf(list, sizeof list, "/one:%s:/one:%s:/two", dir, link);
    setenv("ZENITH_MODELS", list, 1);
    setenv("XDG_DATA_HOME", "/data", 1);
    for (int i = 0; i < 7; i++) {
        const char *const want[] = { "/one", dir, "", "", "/two", "/data/zenith/models" };

        CHECK(zn_weights_folder(path, sizeof path, i), "no folder %d", i);
        CHECK(i == 6 ? *path : !strcmp(path, want[i]), "folder %d is '%s'", i, path);
    }
    CHECK(!zn_weights_folder(path, sizeof path, 7), "an eighth folder, %s", path);
    setenv("ZENITH_MODELS", "/data/zenith/models", 1); /* the user's own is known by this name too */
    CHECK(zn_weights_folder(path, sizeof path, 1) && !*path, "'%s'", path);
    CHECK(zn_user_folder(path, sizeof path) > 0 && !strcmp(path, "/data/zenith/models"), "'%s'", path);
    unlink(link);
    rmdir(dir);
}

/* Every tensor of a file that GGUF's or MLX's own program has quantised is what that program makes of it again. */
static void check_blocks(const char *file, int n)
{
    zn_error err;
    zn_weights *w = open_one(join(data, file), &err),
               *golden = w ? open_one(join(data, "blocks.safetensors"), &err) : NULL;
    char wrong[200] = "";
    int found = 0;

    for (int i = 0; golden && i < zn_weights_count(golden); i++) {
        const zn_entry *g = zn_weights_at(golden, i), *e = zn_weights_get(w, g->name);
        float got[2048], want[2048];
        double worst = 0;

        if (!e)
            continue;
        found++;
        if (e->n_dims != g->n_dims || zn_entry_len(e) != zn_entry_len(g) || zn_entry_len(e) > 2048 ||
            zn_entry_read(e, got, NULL) || zn_entry_read(g, want, NULL)) {
            snprintf(wrong, sizeof wrong, "%s has another shape", g->name);
            break;
        }
        for (size_t k = 0; k < zn_entry_len(e); k++) {
            const double d = fabs((double)got[k] - (double)want[k]);

            worst = test_larger(worst, d);
        }
        if (!(worst <= 1e-6))
            snprintf(wrong, sizeof wrong, "%s is off by %g", g->name, worst);
    }
    zn_weights_close(&w);
    zn_weights_close(&golden);
    CHECK(!wrong[0], "%s: %s", file, wrong);
    CHECK(found == n, "%s: %d tensors, not %d; %s", file, found, n, err.text);
}

static void test_blocks(void)
{
    TRY(check_blocks("blocks.gguf", 10));
    TRY(check_blocks("mlx.safetensors", 1));
}

int main(void)
{
    RUN(test_corpus);
    RUN(test_corpus_is_listed);
    RUN(test_long_key);
    RUN(test_values);
    RUN(test_fixtures);
    RUN(test_blocks);
    RUN(test_legacy_fixture);
    RUN(test_read);
    RUN(test_folders);
    RUN(test_folders_once);
    return test_end();
}
