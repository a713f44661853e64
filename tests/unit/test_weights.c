/* SPDX-License-Identifier: MIT */
/* test_weights.c - the readers of weight files: what good ones hold and what bad ones are told.
 *
 * Needs ZN_SOURCE_ROOT, the folder of the sources, for tests/fuzz/corpus (hand-made, every error) and
 * tests/data/weights (written by PyTorch and safetensors).  The real checkpoints are looked for in
 * $ZENITH_SHARED_DATA or beside the sources, and skipped where they are not. */
#define _POSIX_C_SOURCE 200809L

#include "../../engine/core/weightfile.h"
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef ZN_SOURCE_ROOT
#define ZN_SOURCE_ROOT "."
#endif

static const char corpus[] = ZN_SOURCE_ROOT "/tests/fuzz/corpus";
static const char data[] = ZN_SOURCE_ROOT "/tests/data/weights";

/* ---- helpers ---------------------------------------------------------------------------------- */

static const char *join(const char *folder, const char *name)
{
    static char path[2][1024];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static const char *shared_file(const char *name)
{
    const char *folder = getenv("ZENITH_SHARED_DATA");
    static char path[1024];

    snprintf(path, sizeof path, "%s/weights/%s",
             folder && *folder ? folder : ZN_SOURCE_ROOT "/../shared/data", name);
    return path;
}

/* The bytes of a file in a block of exactly its size, so that the sanitizer sees its end. */
static unsigned char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    unsigned char *p = n < 0 ? NULL : malloc((size_t)n + !n);

    if (p && (fseek(f, 0, SEEK_SET) || fread(p, 1, (size_t)n, f) != (size_t)n)) {
        free(p);
        p = NULL;
    }
    if (f)
        fclose(f);
    *size = p ? (size_t)n : 0;
    return p;
}

static zn_weights *open_one(const char *path, zn_error *err)
{
    zn_weights *w;

    zn_weights_open(&w, &path, 1, err);
    return w;
}

/* Do the n elements of a tensor have these values?  NAN is equal to itself here. */
static bool holds(const zn_weights *w, const char *name, size_t n, const float *want)
{
    const zn_entry *e = zn_weights_get(w, name);
    float got[64];

    if (!e || zn_entry_len(e) != n || n > 64)
        return false;
    zn_entry_read(e, got);
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i])))
            return false;
    return true;
}

#define HOLDS(w, name, ...)                                                                                  \
    CHECK(holds(w, name, sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float),                             \
                (const float[]){ __VA_ARGS__ }),                                                             \
          "%s is wrong", name)

/* In the fixtures the i-th element is i % 7, minus 3 where the type has a sign. */
static bool is_filled(const zn_entry *e)
{
    size_t n = zn_entry_len(e);
    float *x = malloc(n * sizeof *x + 1);
    bool ok = x, is_unsigned = zn_dtype_name(e->dtype)[0] == 'U', is_bool = e->dtype == ZN_BOOL;

    if (ok)
        zn_entry_read(e, x);
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
    { "bad-gguf", "is a GGUF file" },
    { "bad-hdf5", "is an HDF5 file" },
    { "bad-index-header", "there is no weight_map" },
    { "bad-index-json", "is no index of weight files: a string is missing" },
    { "bad-index-map", "there is no weight_map" },
    { "bad-index-path", "not a plain name" },
    { "bad-index-slash", "not a plain name" },
    { "bad-legacy", "PyTorch before 1.6" },
    { "bad-lfs", "Git LFS" },
    { "bad-noise", "is no weight file" },
    { "bad-pickle", "is a bare Python pickle" },
    { "bad-pickle-opcodes", "is a bare Python pickle" },
    { "bad-pickle-plain", "is a bare Python pickle" },
    { "bad-pickle-state", "is a bare Python pickle" },
    { "bad-short", "is no weight file" },
    { "bad-text", "is a text file, not weights; Zenith reads .safetensors and PyTorch" },
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
    { "bad-pt-name-long", "name of a tensor is too long or no text" },
    { "bad-pt-name-twice", "names the tensor 'a.b' twice" },
    { "bad-pt-name-utf8", "name of a tensor is too long or no text" },
    { "bad-pt-name-zero", "name of a tensor is too long or no text" },
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
    { "bad-pt-repeats", "repeats its data beyond measure" },
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
    { "bad-st-bytes", "'a' has not the number of bytes its shape needs" },
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
        CHECK(opened || (!strncmp(err.text, cases[i].file, strlen(cases[i].file)) &&
                         strstr(err.text, cases[i].says)),
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

/* ---- values ----------------------------------------------------------------------------------- */

static void check_dtypes(const zn_weights *w)
{
    char name[40];

    for (int i = 0; i < ZN_N_DTYPES; i++) {
        const char *type = zn_dtype_name((zn_dtype)i);

        snprintf(name, sizeof name, "plain.%s", type);
        if (i == ZN_BOOL)
            HOLDS(w, name, 0, 1, 1, 1);
        else
            HOLDS(w, name, 0, 1, 2, 3);
        CHECK(zn_weights_get(w, name)->dtype == (zn_dtype)i, "%s has another type", name);
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
    zn_entry_read(zn_weights_get(w, "empty"), NULL);
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
    CHECK(zn_weights_get(w, "w")->data == zn_weights_get(w, "w.t")->data, "the storage is not shared");
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
    int n = snprintf((char *)b + 8, sizeof b - 8,
                     "{\"%s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", tensor);

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

    CHECK(zn_weights_open(&w, &device, 1, &err) == ZN_E_FILE && strstr(err.text, "is not a file"),
          "/dev/zero: %s", err.text);
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
              put("set/absent.json", absent, sizeof absent - 1) &&
              put("set/other.json", other, sizeof other - 1) && put("set/loop.json", loop, sizeof loop - 1),
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
        p += sprintf(p, "%s\"t.%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "{",
                     i, N - 1 - i, N - i);
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
    zn_entry c = { .dtype = e->dtype, .data = e->data };

    for (int i = 0; i < e->n_dims; i++)
        c.data += (e->shape[i] - 1) * e->stride[i] * (int64_t)zn_dtype_size(e->dtype);
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
            zn_entry_read(&c, room);
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
    RUN(test_corpus);
    RUN(test_corpus_is_listed);
    RUN(test_values);
    RUN(test_fixtures);
    RUN(test_legacy_fixture);
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
    remove_tmp();
    return test_end();
}
