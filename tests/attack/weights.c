/* SPDX-License-Identifier: MIT */
/* weights.c - generated weight files: safetensors, GGUF, and PyTorch archives with their pickles. */
#include "generate.h"

#include <stdio.h>
#include <string.h>

/* ---- safetensors ------------------------------------------------------------------------------------------------------- */

static const char *const dtypes[] = { "F32", "F16", "BF16", "F64", "I64",  "I32",     "I16",    "I8",
                                      "U8",  "U16", "U32",  "U64", "BOOL", "F8_E4M3", "F8_E5M2" };
static const int dtype_size[] = { 4, 2, 2, 8, 8, 4, 2, 1, 1, 2, 4, 8, 1, 1, 1 };

void put_space(bytes *b, rnd *r)
{
    while (chance(r, 6))
        put(b, &" \t\r\n\v"[below(r, chance(r, 95) ? 4 : 5)], 1);
}

void put_string(bytes *b, rnd *r, const char *text)
{
    static const char *const odd[] = { "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\ud83dx",     "\\u0000", "\\x",
                                       "\\",      "\xc3\xa9",       "\xff",    "\xed\xa0\x80", "\1",      "\\\"",
                                       "\\/",     "\xe2\x82" };

    put(b, "\"", 1);
    put_text(b, "%s", text);
    if (chance(r, 4))
        put_text(b, "%s", ONE_OF(r, odd));
    if (chance(r, 1))
        put_fill(b, 'n', below(r, 2000));
    if (!chance(r, 1))
        put(b, "\"", 1);
}

void put_value(bytes *b, rnd *r, int depth)
{
    static const char *const plain[] = { "null",  "true", "false", "-1.5e+3", "0",  "01",
                                         "1e999", "-",    "nul",   "\"s\"",   "1.", "[]" };

    if (depth > 80 || chance(r, 50)) {
        put_text(b, "%s", ONE_OF(r, plain));
        return;
    }
    if (chance(r, 70)) {
        put(b, "[", 1);
        for (size_t i = below(r, chance(r, 2) ? 100 : 3); i; i--) {
            put_value(b, r, depth + 1);
            if (i > 1)
                put(b, ",", 1);
        }
        put(b, "]", 1);
    } else {
        put(b, "{\"k\":", 5);
        put_value(b, r, depth + 1);
        put(b, "}", 1);
    }
}

int64_t maybe_odd(rnd *r, int64_t n, int percent)
{
    return chance(r, percent) ? odd_number(r) : n;
}

/* A header whose tensors lie one after the other, unless something is wrong; *size: bytes of all of them. */
static void put_header(bytes *b, rnd *r, size_t *size)
{
    const int wrong = chance(r, 60) ? 6 : 0;
    size_t at = 0, n = below(r, chance(r, 2) ? 60 : 7);

    put(b, "{", 1);
    if (chance(r, 30)) {
        put(b, "\"__metadata__\":{", 16);
        for (size_t i = below(r, 4); i; i--) {
            put_string(b, r, "key");
            put(b, ":", 1);
            put_string(b, r, "value");
            put(b, i > 1 ? "," : "", i > 1);
        }
        put(b, "}", 1);
        put(b, ",", n > 0);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t type = below(r, sizeof dtypes / sizeof *dtypes);
        const int dims = (int)(chance(r, 3) ? below(r, 12) : below(r, 5));
        size_t len = (size_t)dtype_size[type];
        char name[32];

        snprintf(name, sizeof name, "t%zu", chance(r, 2) ? 0 : i);
        put_space(b, r);
        put_string(b, r, name);
        put_text(b, ":{\"dtype\":\"%s\",\"shape\":[", chance(r, wrong) ? "F4" : dtypes[type]);
        for (int d = 0; d < dims; d++) {
            const size_t side = chance(r, 5) ? 0 : 1 + below(r, 4);

            put_text(b, "%s%lld", d ? "," : "", (long long)maybe_odd(r, (int64_t)side, wrong / 2));
            len *= side;
        }
        put_text(b, "],\"data_offsets\":[%lld,%lld]", (long long)maybe_odd(r, (int64_t)at, wrong / 2),
                 (long long)maybe_odd(r, (int64_t)(at + len), wrong / 2));
        if (chance(r, 4)) {
            put(b, ",\"new\":", 7);
            put_value(b, r, 0);
        }
        put(b, "}", 1);
        put_space(b, r);
        if (i + 1 < n && !chance(r, wrong / 6))
            put(b, ",", 1);
        at += chance(r, wrong / 3) ? 0 : len;
    }
    put(b, "}", 1);
    put_space(b, r);
    *size = at;
}

/* The file of a header and data, sometimes damaged. */
static void end_safetensors(bytes *b, rnd *r, bytes *header, bytes *data)
{
    put_safetensors(b, header, data);
    if (chance(r, 10))
        mutate(b, r, 2);
    bytes_free(header);
    bytes_free(data);
}

void make_safetensors(bytes *b, rnd *r)
{
    bytes header = { 0 }, data = { 0 };
    size_t size;

    put_header(&header, r, &size);
    if (chance(r, 15))
        mutate(&header, r, 3);
    for (size_t i = 0; i < size; i++)
        put_number(&data, 1, rnd_next(r));
    if (chance(r, 5))
        put_fill(&data, 7, below(r, 9));
    end_safetensors(b, r, &header, &data);
}

/* ---- GGUF -------------------------------------------------------------------------------------------------------------- */

static void put_gguf_string(bytes *b, rnd *r, const char *text, int wrong)
{
    put_number(b, 8, (uint64_t)maybe_odd(r, (int64_t)strlen(text), wrong / 3));
    put_text(b, "%s", text);
}

static void put_pair(bytes *b, rnd *r, int wrong)
{
    static const int size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 }; /* of a value, by its type */
    static const char *const keys[] = { "general.architecture", "general.alignment", "tokenizer.ggml.tokens", "",
                                        "a\xff" };
    const size_t type = chance(r, wrong) ? below(r, 40) : below(r, 13);
    const bool alignment = chance(r, 20);

    put_gguf_string(b, r, alignment ? keys[1] : ONE_OF(r, keys), wrong);
    put_number(b, 4, alignment ? 4 : type);
    if (alignment) {
        put_number(b, 4, chance(r, wrong) ? (uint64_t)odd_number(r) : 8u << below(r, 4));
    } else if (type == 8) {
        put_gguf_string(b, r, "llama", wrong);
    } else if (type == 9) {
        const size_t of = chance(r, wrong) ? below(r, 40) : below(r, 13), n = below(r, 5);

        put_number(b, 4, of);
        put_number(b, 8, (uint64_t)maybe_odd(r, (int64_t)n, wrong));
        for (size_t i = 0; i < n; i++) {
            if (of == 8)
                put_gguf_string(b, r, "tok", wrong);
            else
                put_number(b, of < 13 ? size[of] : 4, rnd_next(r));
        }
    } else {
        put_number(b, type < 13 ? size[type] : 4, rnd_next(r));
    }
}

void make_gguf(bytes *b, rnd *r)
{
    static const struct {
        unsigned number, len, size; /* of the type; elements and bytes of a block */
    } types[] = { { 0, 1, 4 },      { 1, 1, 2 },      { 30, 1, 2 },  { 2, 32, 18 },
                  { 3, 32, 20 },    { 6, 32, 22 },    { 8, 32, 34 }, { 12, 256, 144 },
                  { 13, 256, 176 }, { 14, 256, 210 }, { 24, 1, 1 },  { 10, 256, 84 } /* not read */ };
    const int wrong = chance(r, 60) ? 6 : 0;
    const size_t n = below(r, 6), pairs = below(r, 5);
    uint64_t at = 0;

    put(b, "GGUF", 4);
    put_number(b, 4, chance(r, wrong) ? below(r, 9) : 2 + below(r, 2));
    put_number(b, 8, (uint64_t)maybe_odd(r, (int64_t)n, wrong / 2));
    put_number(b, 8, (uint64_t)maybe_odd(r, (int64_t)pairs, wrong / 2));
    for (size_t i = 0; i < pairs; i++)
        put_pair(b, r, wrong);
    for (size_t i = 0; i < n; i++) {
        const size_t type = below(r, sizeof types / sizeof *types);
        const int dims = chance(r, wrong) ? (int)below(r, 7) : 1 + (int)below(r, 4);
        uint64_t len = 1;
        char name[32];

        snprintf(name, sizeof name, "blk.%zu.weight", chance(r, wrong) ? 0 : i);
        put_gguf_string(b, r, name, wrong);
        put_number(b, 4, (uint64_t)dims);
        for (int d = 0; d < dims; d++) {
            const uint64_t side = (1 + below(r, 3)) * (d || chance(r, wrong) ? 1 : types[type].len);

            put_number(b, 8, (uint64_t)maybe_odd(r, (int64_t)side, wrong / 2));
            len *= side;
        }
        put_number(b, 4, chance(r, wrong) ? below(r, 50) : types[type].number);
        put_number(b, 8, (uint64_t)maybe_odd(r, (int64_t)at, wrong / 2));
        at += (len / types[type].len * types[type].size + 63) / 64 * 64;
    }
    put_fill(b, 0, (64 - b->len % 64) % 64);
    for (uint64_t i = maybe_odd(r, (int64_t)at, wrong) & 0xffff; i; i--)
        put_number(b, 1, rnd_next(r));
    if (chance(r, 10))
        mutate(b, r, 3);
}

/* ---- PyTorch archives -------------------------------------------------------------------------------------------------- */

static void put_int(bytes *b, rnd *r, int64_t n)
{
    const int way = (int)below(r, 6);

    if (n >= 0 && n < 256 && way < 3)
        put(b, "K", 1), put_number(b, 1, (uint64_t)n);
    else if (n >= 0 && n < 65536 && way < 4)
        put(b, "M", 1), put_number(b, 2, (uint64_t)n);
    else if (n >= INT32_MIN && n <= INT32_MAX && way < 5)
        put(b, "J", 1), put_number(b, 4, (uint64_t)n);
    else if (way == 5)
        put_text(b, "I%lld\n", (long long)n);
    else
        put(b, "\x8a\x08", 2), put_number(b, 8, (uint64_t)n);
}

static void put_unicode(bytes *b, rnd *r, const char *text)
{
    const size_t len = strlen(text);

    if (chance(r, 70)) {
        put(b, "X", 1);
        put_number(b, 4, (uint64_t)maybe_odd(r, (int64_t)len, 1));
    } else {
        put(b, "\x8c", 1);
        put_number(b, 1, len);
    }
    put(b, text, len);
}

static void put_global(bytes *b, rnd *r, const char *module, const char *name)
{
    if (chance(r, 80)) {
        put_text(b, "c%s\n%s\n", module, name);
        return;
    }
    put_unicode(b, r, module);
    put_unicode(b, r, name);
    put(b, "\x93", 1);
}

static void put_storage(bytes *b, rnd *r, int wrong)
{
    static const char *const kinds[] = { "FloatStorage", "HalfStorage", "BFloat16Storage", "DoubleStorage",
                                         "LongStorage",  "IntStorage",  "ShortStorage",    "CharStorage",
                                         "ByteStorage",  "BoolStorage", "QInt8Storage",    "UntypedStorage" };
    char key[32];

    if (chance(r, 10)) { /* one from before */
        put(b, "h\1", 2);
        return;
    }
    snprintf(key, sizeof key, "%zu", below(r, chance(r, wrong) ? 9 : 2));
    put(b, "(", 1);
    put_unicode(b, r, "storage");
    put_global(b, r, chance(r, 95) ? "torch" : "torch.storage", kinds[chance(r, 60) ? 0 : below(r, 12)]);
    put_unicode(b, r, key);
    put_unicode(b, r, chance(r, 90) ? "cpu" : "cuda:0");
    put_int(b, r, maybe_odd(r, 16, wrong));
    put(b, "tQ", 2);
    if (chance(r, 50))
        put(b, "q\1", 2);
}

static void put_tuple(bytes *b, rnd *r, const int64_t *list, int n)
{
    put(b, "(", 1);
    for (int i = 0; i < n; i++)
        put_int(b, r, list[i]);
    put(b, "t", 1);
}

static void put_tensor(bytes *b, rnd *r, int wrong)
{
    int64_t shape[12], stride[12], step = 1;
    const int n = (int)(chance(r, 2) ? below(r, 12) : below(r, 4)), kind = (int)below(r, 10);

    for (int i = n; i-- > 0;) {
        shape[i] = maybe_odd(r, 1 + (int64_t)below(r, 3), wrong);
        stride[i] = maybe_odd(r, chance(r, 5) ? 0 : step, wrong);
        step *= 2;
    }
    put_global(b, r, "torch._utils",
               kind < 8        ? "_rebuild_tensor_v2"
                   : kind == 8 ? "_rebuild_tensor_v3"
                               : "_rebuild_tensor");
    put(b, "(", 1);
    put_storage(b, r, wrong);
    put_int(b, r, maybe_odd(r, 0, wrong));
    put_tuple(b, r, shape, n);
    put_tuple(b, r, stride, chance(r, wrong) ? n / 2 : n);
    if (kind != 9) {
        put(b, "\x89", 1);
        put_global(b, r, "collections", "OrderedDict");
        put(b, ")R", 2);
    }
    if (kind == 8)
        put_global(b, r, "torch", chance(r, 50) ? "float8_e4m3fn" : "uint16");
    put(b, "tR", 2);
}

/* Opcodes with operands of the right form, in no order. */
static void put_soup(bytes *b, rnd *r)
{
    static const char alone[] = "(()]}}NNt0122eeusab.RRQ\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x94\x98 dlPi";

    for (size_t i = below(r, chance(r, 5) ? 400 : 40); i; i--) {
        switch (below(r, 12)) {
        case 0:
            put_int(b, r, odd_number(r));
            break;
        case 1:
            put_unicode(b, r, "w");
            break;
        case 2:
            put_tensor(b, r, 5);
            break;
        case 3:
            put_global(b, r, chance(r, 50) ? "posix" : "collections", chance(r, 50) ? "system" : "OrderedDict");
            break;
        case 4:
            put(b, chance(r, 50) ? "q" : "h", 1);
            put_number(b, 1, below(r, 4));
            break;
        case 5:
            put(b, chance(r, 50) ? "r" : "j", 1);
            put_number(b, 4, (uint64_t)odd_number(r));
            break;
        case 6:
            put(b, &"CUT"[below(r, 3)], 1);
            put_number(b, 1, below(r, 5));
            put_fill(b, 'x', below(r, 5));
            break;
        case 7:
            put(b, "\x8a", 1);
            put_number(b, 1, below(r, 12));
            put_number(b, 8, rnd_next(r));
            break;
        case 8:
            put(b, &"\x8d\x8e\x96\x95"[below(r, 4)], 1);
            put_number(b, 8, (uint64_t)odd_number(r));
            break;
        case 9:
            put_storage(b, r, 10);
            break;
        default:
            put(b, &alone[below(r, sizeof alone - 1)], 1);
        }
    }
}

static void put_pickle(bytes *b, rnd *r)
{
    static const char *const wraps[] = { "state_dict", "model_state_dict", "params", "params_ema", "other", "epoch" };
    const int wrong = chance(r, 60) ? 3 : 0, deep = (int)below(r, chance(r, 2) ? 80 : 3);

    put(b, "\x80", 1);
    put_number(b, 1, chance(r, 95) ? 2 + below(r, 3) : below(r, 256));
    if (chance(r, 30)) {
        put_soup(b, r);
    } else {
        for (int i = 0; i < deep; i++) {
            put(b, "}", 1);
            put_unicode(b, r, ONE_OF(r, wraps));
        }
        put_text(b, "%s", chance(r, 50) ? "}(" : "ccollections\nOrderedDict\n)R(");
        for (size_t i = 1 + below(r, 5); i; i--) {
            char name[32];

            snprintf(name, sizeof name, "w%zu", chance(r, 5) ? 1 : i);
            put_unicode(b, r, name);
            if (chance(r, 90))
                put_tensor(b, r, wrong);
            else
                put_int(b, r, odd_number(r));
            if (chance(r, wrong))
                put_soup(b, r);
        }
        put(b, "u", 1);
        for (int i = 0; i < deep; i++)
            put(b, "s", 1);
    }
    put(b, ".", 1);
    if (chance(r, 10))
        mutate(b, r, 3);
}

void make_torch(bytes *b, rnd *r)
{
    const int wrong = chance(r, 50) ? 6 : 0;
    const zip_mistakes mistakes = { .zip64 = chance(r, 15),
                                    .size = maybe_odd(r, 0, wrong),
                                    .place = maybe_odd(r, 0, wrong),
                                    .count = maybe_odd(r, 0, wrong / 2),
                                    .directory = maybe_odd(r, 0, wrong / 2),
                                    .method = (uint16_t)(chance(r, wrong) ? 8 : 0),
                                    .flags = (uint16_t)(chance(r, wrong) ? rnd_next(r) : 0x808),
                                    .pad = (int)below(r, 70) };
    member list[] = { { "archive/data.pkl", { 0 } },
                      { "archive/byteorder", { 0 } },
                      { "archive/data/0", { 0 } },
                      { "archive/data/1", { 0 } },
                      { "archive/version", { 0 } } };

    put_pickle(&list[0].data, r);
    put_text(&list[1].data, "%s", chance(r, 98) ? "little" : "big");
    put_fill(&list[2].data, 0x3c, 16 * (chance(r, 90) ? 8 : below(r, 9)));
    put_fill(&list[3].data, 0x40, 16 * 4);
    put_text(&list[4].data, "3\n");
    if (chance(r, wrong))
        list[3].name = "archive/data/0";
    if (chance(r, wrong))
        list[0].name = chance(r, 50) ? "data.pkl" : "x/y/data.pkl";
    put_zip(b, list, chance(r, 90) ? 5 : (int)below(r, 6), &mistakes);
    if (chance(r, 10))
        mutate(b, r, 2);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        bytes_free(&list[i].data);
}

/* A tensor of `len` random bytes: its entry in the header, where its place may be wrong, and its data behind the others'. */
static void put_entry(bytes *header, bytes *data, rnd *r, const char *name, const char *type, const char *shape,
                      size_t len, int wrong)
{
    const size_t from = data->len;

    for (; len; len--)
        put_number(data, 1, rnd_next(r));
    put_text(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
             header->len > 1 ? "," : "", name, type, shape, (long long)maybe_odd(r, (int64_t)from, wrong / 2),
             (long long)maybe_odd(r, (int64_t)data->len, wrong / 2));
}

/* MLX: matrices of 4 or 8 bits, words with scales and biases beside them, each of which may be missing, of another type, or
 * of another shape. */
void make_mlx(bytes *b, rnd *r)
{
    static const char *const parts[] = { "weight", "scales", "biases" };
    static const char *const types[] = { "F16", "BF16", "F32", "U32", "I8" };
    static const int sizes[] = { 2, 2, 4, 4, 1 };
    const int wrong = chance(r, 60) ? 8 : 0;
    bytes header = { 0 }, data = { 0 };

    put_text(&header, "{");
    for (size_t i = 0, n = 1 + below(r, 4); i < n; i++) {
        const size_t rows = 1 + below(r, 5), words = (chance(r, 50) ? 4 : 8) * (1 + below(r, 3));
        const size_t groups = words * (chance(r, 50) ? 8 : 4) / 32;
        const size_t usual = chance(r, 70) ? 0 : 1 + below(r, 2);

        for (int k = 0; k < 3; k++) {
            const size_t type = chance(r, wrong) ? below(r, 5) : k ? usual : 3, cols = k ? groups : words;
            char name[64], shape[64];

            if (chance(r, wrong))
                continue;
            snprintf(name, sizeof name, "%s%zu.%s", chance(r, 20) ? "a.b." : "m", chance(r, wrong) ? 0 : i, parts[k]);
            snprintf(shape, sizeof shape, "%lld,%lld", (long long)maybe_odd(r, (int64_t)rows, wrong),
                     (long long)maybe_odd(r, (int64_t)cols, wrong));
            put_entry(&header, &data, r, name, types[type], shape, (size_t)sizes[type] * rows * cols, wrong);
        }
    }
    put_text(&header, "}");
    end_safetensors(b, r, &header, &data);
}

/* e4m3 with scales beside it, under any of their names; some are missing, of another type, or too many. */
void make_fp8(bytes *b, rnd *r)
{
    static const char *const ends[] = { "weight_scale", "scale_weight", "weight_scale_inv" };
    static const char *const types[] = { "F32", "F16", "BF16", "I32", "F8_E4M3" };
    static const int sizes[] = { 4, 2, 2, 4, 1 };
    const int wrong = chance(r, 60) ? 8 : 0;
    bytes header = { 0 }, data = { 0 };

    put_text(&header, "{");
    if (chance(r, 50))
        put_text(&header, "\"__metadata__\":{\"fp8\":\"row scales\"}");
    for (size_t i = 0, n = 1 + below(r, 4); i < n; i++) {
        const size_t rows = below(r, 5), cols = below(r, 5);

        for (int k = 0; k < 2; k++) {
            const size_t type = !k ? 4 : chance(r, 90) ? below(r, 3) : below(r, 5);
            const size_t len = !k ? rows * cols : chance(r, 80) ? rows : 1;
            char name[64], shape[64];

            if (chance(r, wrong))
                continue;
            snprintf(name, sizeof name, "m%zu.%s", chance(r, wrong) ? 0 : i, k ? ends[below(r, 3)] : "weight");
            if (k)
                snprintf(shape, sizeof shape, "%lld", (long long)maybe_odd(r, (int64_t)len, wrong));
            else
                snprintf(shape, sizeof shape, "%lld,%zu", (long long)maybe_odd(r, (int64_t)rows, wrong), cols);
            put_entry(&header, &data, r, name, types[type], shape, (size_t)sizes[type] * len, wrong);
        }
    }
    put_text(&header, "}");
    end_safetensors(b, r, &header, &data);
}
