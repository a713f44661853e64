/* SPDX-License-Identifier: MIT */
/* tokenizer.c - a byte-level BPE tokenizer out of a tokenizer.json (the format of Hugging Face's tokenizers).
 *
 *   "added_tokens"    texts that are one token wherever they stand
 *   "normalizer"      must be NFC
 *   "pre_tokenizer"   must be the split rules of Qwen2, then bytes
 *   "model"           "vocab": text to id; "merges": pairs in the order of their rank
 *
 * Texts of the vocabulary spell each byte as one printable character (byte_char).  Whatever another kind of tokenizer
 * would do differently is refused. */
#include "text.h"

#include "unicode.h"
#include "../core/json.h"
#include "../zenith_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At each byte of a text, all added tokens may have to be compared to their ends. */
enum { MAX_FILE = 64 << 20, MAX_TOKENS = 1 << 20, MAX_ADDED = 1024, MAX_ADDED_LEN = 256 };

typedef struct word {
    const char *text;
    int32_t id;
} word;

typedef struct added {
    const char *text;
    size_t len;
    int32_t id;
} added;

struct zn_tokenizer {
    char *pool;  /* the strings of the file */
    word *vocab; /* sorted by text */
    size_t n_vocab, room;
    zn_merge *merge;
    size_t n_merges;
    int32_t byte_id[256];
    added added[MAX_ADDED];
    int n_added;
};

/* ---- reading ------------------------------------------------------------------------------------------- */

typedef struct rule { /* what a member of an object must be */
    const char *key;
    const char *value; /* "true", "false", "null", "" (null, false or an empty string) or '=' and a string */
    bool required;
} rule;

/* The value that comes next against a rule. */
static bool keeps(zn_json *j, const rule *r)
{
    if (r->value[0] == '=')
        return zn_json_begins(j, '"') && !strcmp(zn_json_string(j), r->value + 1);
    if (r->value[0])
        return zn_json_word(j, r->value);
    return zn_json_word(j, "null") || zn_json_word(j, "false") || (zn_json_begins(j, '"') && !zn_json_string(j)[0]);
}

/* An object whose members keep the rules; others are passed over, or given to `other` if that takes them. */
static void read_object(zn_json *j, const rule *rules, int n_rules, const char *wrong,
                        bool (*other)(zn_json *j, const char *key, void *cookie), void *cookie)
{
    unsigned seen = 0;

    if (!zn_json_begins(j, '{')) {
        zn_json_fail(j, wrong);
        return;
    }
    zn_json_enter(j, '{');
    for (size_t n = 0; zn_json_more(j, '}', n); n++) {
        const char *key = zn_json_key(j);
        int i = 0;

        while (i < n_rules && strcmp(rules[i].key, key) != 0)
            i++;
        if (i < n_rules) {
            if (!keeps(j, &rules[i]))
                zn_json_fail(j, wrong);
            seen |= 1u << i;
        } else if (!other || !other(j, key, cookie)) {
            zn_json_skip(j);
        }
    }
    for (int i = 0; i < n_rules; i++)
        if (rules[i].required && !(seen >> i & 1))
            zn_json_fail(j, wrong);
}

#define RULES(list) list, (int)(sizeof(list) / sizeof *(list))

static bool read_pattern(zn_json *j, const char *key, void *cookie)
{
    if (strcmp(key, "pattern") != 0)
        return false;
    *(bool *)cookie = true;
    zn_json_enter(j, '{');
    if (strcmp(zn_json_key(j), "Regex") != 0 || strcmp(zn_json_string(j), zn_split_rules) != 0 ||
        zn_json_more(j, '}', 1))
        zn_json_fail(j, "its split rules are not those of Qwen2 and Qwen3");
    return true;
}

static bool read_splits(zn_json *j, const char *key, void *cookie)
{
    static const char wrong[] = ZN_TR("its words are not built as those of Qwen2 and Qwen3");
    static const rule split[] = { { "type", "=Split", true },
                                  { "behavior", "=Isolated", true },
                                  { "invert", "false", true } };
    static const rule bytes[] = { { "type", "=ByteLevel", true },
                                  { "add_prefix_space", "false", true },
                                  { "use_regex", "false", true } };
    bool pattern = false;

    if (strcmp(key, "pretokenizers") != 0)
        return false;
    *(bool *)cookie = true;
    zn_json_enter(j, '[');
    if (zn_json_more(j, ']', 0))
        read_object(j, RULES(split), wrong, read_pattern, &pattern);
    if (zn_json_more(j, ']', 1))
        read_object(j, RULES(bytes), wrong, NULL, NULL);
    if (zn_json_more(j, ']', 2) || !pattern)
        zn_json_fail(j, wrong);
    return true;
}

static void read_vocab(zn_json *j, zn_tokenizer *t)
{
    zn_json_enter(j, '{');
    for (size_t n = 0; zn_json_more(j, '}', n); n++) {
        const char *text = zn_json_key(j);
        const int64_t id = zn_json_int(j);

        if (id < 0 || id >= MAX_TOKENS || !text[0]) {
            zn_json_fail(j, "a token is empty, or its number is negative or too large");
            return;
        }
        if (t->n_vocab == t->room) {
            const size_t room = t->room ? 2 * t->room : 4096;
            word *more = t->n_vocab < MAX_TOKENS ? realloc(t->vocab, room * sizeof *more) : NULL;

            if (!more) {
                zn_json_fail(j, "there are too many tokens");
                return;
            }
            t->vocab = more;
            t->room = room;
        }
        t->vocab[t->n_vocab++] = (word){ text, (int32_t)id };
    }
}

typedef struct model {
    zn_tokenizer *t;
    zn_json merges; /* where they begin */
    bool has_merges;
} model;

static bool read_model(zn_json *j, const char *key, void *cookie)
{
    model *m = cookie;

    if (!strcmp(key, "vocab") && !m->t->n_vocab) {
        read_vocab(j, m->t);
        return true;
    }
    if (!strcmp(key, "merges")) { /* they need the vocabulary, which may come later */
        m->merges = *j;
        m->has_merges = true;
    }
    return false;
}

static void read_added(zn_json *j, zn_tokenizer *t)
{
    zn_json_enter(j, '[');
    for (size_t n = 0; zn_json_more(j, ']', n); n++) {
        const char *text = "";
        int64_t id = -1;

        zn_json_enter(j, '{');
        for (size_t k = 0; zn_json_more(j, '}', k); k++) {
            const char *key = zn_json_key(j);

            if (!strcmp(key, "id"))
                id = zn_json_int(j);
            else if (!strcmp(key, "content"))
                text = zn_json_string(j);
            else if (strcmp(key, "single_word") && strcmp(key, "lstrip") && strcmp(key, "rstrip") &&
                     strcmp(key, "normalized"))
                zn_json_skip(j);
            else if (!zn_json_word(j, "false"))
                zn_json_fail(j, "an added token is not taken as it stands");
        }
        if (!text[0] || id < 0 || id >= MAX_TOKENS || t->n_added == MAX_ADDED) {
            zn_json_fail(j, "an added token is empty or one too many, or its number is negative or too large");
            return;
        }
        if (strlen(text) > MAX_ADDED_LEN) {
            zn_json_fail(j, "an added token is too long");
            return;
        }
        t->added[t->n_added++] = (added){ text, strlen(text), (int32_t)id };
    }
}

static void read_file(zn_json *j, model *m)
{
    static const rule normal[] = { { "type", "=NFC", true } };
    static const rule sequence[] = { { "type", "=Sequence", true } };
    static const rule post[] = { { "type", "=ByteLevel", true } };
    static const rule bpe[] = { { "type", "=BPE", true },
                                { "dropout", "", false },
                                { "unk_token", "", false },
                                { "continuing_subword_prefix", "", false },
                                { "end_of_word_suffix", "", false },
                                { "byte_fallback", "", false },
                                { "ignore_merges", "", false } };
    bool splits = false, normalised = false;

    zn_json_enter(j, '{');
    for (size_t n = 0; zn_json_more(j, '}', n); n++) {
        const char *key = zn_json_key(j);

        if (!strcmp(key, "added_tokens")) {
            read_added(j, m->t);
        } else if (!strcmp(key, "normalizer")) {
            read_object(j, RULES(normal), "texts are not normalised to form C", NULL, NULL);
            normalised = true;
        } else if (!strcmp(key, "pre_tokenizer")) {
            read_object(j, RULES(sequence), "its words are not built as those of Qwen2 and Qwen3", read_splits,
                        &splits);
        } else if (!strcmp(key, "post_processor") && !zn_json_word(j, "null")) {
            read_object(j, RULES(post), "tokens are added to every text", NULL, NULL);
        } else if (!strcmp(key, "model")) {
            read_object(j, RULES(bpe), "it is not a byte-level BPE as Qwen2's and Qwen3's", read_model, m);
        } else if (strcmp(key, "post_processor") != 0) {
            zn_json_skip(j);
        }
    }
    if (!j->wrong && (!splits || !normalised || !m->t->n_vocab || !m->has_merges))
        zn_json_fail(j, "a normalizer, pre_tokenizer, vocabulary or list of merges is missing");
    zn_json_end(j);
}

/* ---- the vocabulary ------------------------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

/* The id of a text; -1: it is not in the vocabulary. */
static int32_t find_id(const zn_tokenizer *t, const char *text)
{
    const word *w = bsearch(&(word){ .text = text }, t->vocab, t->n_vocab, sizeof *w, by_text);

    return w ? w->id : -1;
}

static void sort_vocab(zn_json *j, zn_tokenizer *t)
{
    unsigned char *seen = calloc(MAX_TOKENS, 1);

    if (!seen) {
        zn_json_fail(j, "there is not enough memory for the vocabulary");
        return;
    }
    qsort(t->vocab, t->n_vocab, sizeof *t->vocab, by_text);
    for (size_t i = 0; i < t->n_vocab; i++) {
        if ((i && !by_text(&t->vocab[i - 1], &t->vocab[i])) || seen[t->vocab[i].id])
            zn_json_fail(j, "two tokens have the same text or number");
        seen[t->vocab[i].id] = 1;
    }
    free(seen);
}

/* The character that spells a byte: the printable ones of Latin-1 stand for themselves, the others, in their order, are the
 * characters from U+0100 on. */
static void byte_char(char out[3], int byte)
{
    static const int hole[][2] = { { 0, 32 }, { 127, 160 }, { 173, 173 } };
    int c = byte, before = 0;

    for (int i = 0; i < 3; i++) {
        if (byte >= hole[i][0] && byte <= hole[i][1])
            c = 0x100 + before + byte - hole[i][0];
        before += hole[i][1] - hole[i][0] + 1;
    }
    if (c < 0x80) {
        out[0] = (char)c;
        out[1] = 0;
    } else {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        out[2] = 0;
    }
}

static void find_bytes(zn_json *j, zn_tokenizer *t)
{
    for (int i = 0; i < 256; i++) {
        char text[3];

        byte_char(text, i);
        t->byte_id[i] = find_id(t, text);
        if (t->byte_id[i] < 0)
            zn_json_fail(j, "the vocabulary lacks a byte");
    }
}

/* One merge, "left right" or ["left", "right"]; whole has room for both texts. */
static bool read_merge(zn_json *j, const zn_tokenizer *t, zn_merge *m, char *whole)
{
    if (zn_json_begins(j, '[')) {
        zn_json_enter(j, '[');
        const char *left = zn_json_more(j, ']', 0) ? zn_json_string(j) : "";
        const char *right = zn_json_more(j, ']', 1) ? zn_json_string(j) : "";

        if (zn_json_more(j, ']', 2))
            return false;
        m->left = find_id(t, left);
        m->right = find_id(t, right);
        strcpy(whole, left);
        strcat(whole, right);
    } else {
        char *pair = j->pool, *space;

        zn_json_string(j);
        if (j->wrong || !(space = strchr(pair, ' ')))
            return false;
        *space = 0;
        m->left = find_id(t, pair);
        m->right = find_id(t, space + 1);
        strcpy(whole, pair);
        strcat(whole, space + 1);
    }
    m->id = find_id(t, whole);
    return !j->wrong && m->left >= 0 && m->right >= 0 && m->id >= 0;
}

/* Strings of merges are not kept: each overwrites the one before. */
static void read_merges(zn_json *j, zn_tokenizer *t, char *whole)
{
    char *const pool = j->pool;
    size_t room = 0;

    zn_json_enter(j, '[');
    for (size_t n = 0; zn_json_more(j, ']', n); n++) {
        if (n == room) {
            zn_merge *more = n < MAX_TOKENS ? realloc(t->merge, (room = room ? 2 * room : 4096) * sizeof *more) : NULL;

            if (!more) {
                zn_json_fail(j, "there are too many merges");
                return;
            }
            t->merge = more;
        }
        if (!read_merge(j, t, &t->merge[n], whole)) {
            zn_json_fail(j, "a merge is not of two tokens that make a third");
            return;
        }
        t->merge[n].rank = (int32_t)n;
        t->n_merges = n + 1;
        j->pool = pool;
    }
    if (!j->wrong && !zn_merge_sort(t->merge, t->n_merges))
        zn_json_fail(j, "a merge is there twice");
}

/* ---- open and close ------------------------------------------------------------------------------------ */

static int longest_first(const void *a, const void *b)
{
    const added *x = a, *y = b;

    return (x->len < y->len) - (x->len > y->len);
}

/* A whole file; the caller frees it. */
static zn_status load_text(char **out, size_t *size, const char *path, zn_error *err)
{
    FILE *f = zn_input_open(path, err);
    long len = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    zn_status s = ZN_OK;

    *out = NULL;
    if (!f)
        s = ZN_E_FILE;
    else if (len < 0)
        s = zn_fail(err, ZN_E_FILE, "%s: cannot be read", path);
    else if (len > MAX_FILE)
        s = zn_fail(err, ZN_E_FILE, "%s: is larger than any tokenizer.json", path);
    else if (!(*out = malloc((size_t)len + 1)))
        s = zn_fail(err, ZN_E_MEMORY, "out of memory while reading %s", path);
    else if (fseek(f, 0, SEEK_SET) || fread(*out, 1, (size_t)len, f) != (size_t)len)
        s = zn_fail(err, ZN_E_FILE, "%s: cannot be read", path);
    *size = (size_t)len;
    if (f)
        fclose(f);
    return s;
}

zn_status zn_tokenizer_read(zn_tokenizer **out, const char *text, size_t size, const char *label, zn_error *err)
{
    zn_tokenizer *t = calloc(1, sizeof *t);
    model m = { .t = t };
    char *whole = malloc(size + 1); /* of a merge: no longer than its parts in the file */
    zn_status s = ZN_OK;
    zn_json j;

    *out = NULL;
    if (!t || !whole || !(t->pool = malloc(size + 1))) {
        s = zn_fail(err, ZN_E_MEMORY, "out of memory while reading %s", label);
    } else {
        j = zn_json_begin(text, size, t->pool);
        read_file(&j, &m);
        if (!j.wrong)
            sort_vocab(&j, t);
        if (!j.wrong)
            find_bytes(&j, t);
        if (!j.wrong) {
            j = m.merges;
            read_merges(&j, t, whole);
        }
        if (j.wrong)
            s = zn_fail(err, ZN_E_FILE, "%s: not a tokenizer.json that can be used: %s (byte %zu)", label,
                        zn_tr(j.wrong), zn_json_at(&j));
        else
            qsort(t->added, (size_t)t->n_added, sizeof *t->added, longest_first);
    }
    free(whole);
    if (s)
        zn_tokenizer_close(&t);
    *out = t;
    return s;
}

zn_status zn_tokenizer_open(zn_tokenizer **out, const char *path, zn_error *err)
{
    char *text = NULL;
    size_t size = 0;
    zn_status s = load_text(&text, &size, path, err);

    *out = NULL;
    if (!s)
        s = zn_tokenizer_read(out, text, size, path, err);
    free(text);
    return s;
}

void zn_tokenizer_close(zn_tokenizer **tokenizer)
{
    zn_tokenizer *t = tokenizer ? *tokenizer : NULL;

    if (!t)
        return;
    free(t->pool);
    free(t->vocab);
    free(t->merge);
    free(t);
    *tokenizer = NULL;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

typedef struct encoder { /* memory for a text of `size` bytes, and where its tokens go */
    const zn_tokenizer *t;
    uint32_t *x, *scratch; /* code points; normalising needs more than there are bytes */
    int32_t *ids;          /* of a word: a token per byte */
    void *work;
    int32_t *out;
    int max;
    size_t n;
} encoder;

static void emit(encoder *e, int32_t id)
{
    if (e->n < (size_t)e->max)
        e->out[e->n] = id;
    e->n++;
}

/* A token for each byte of code points in UTF-8. */
static size_t bytes_of(int32_t *ids, const uint32_t *x, size_t n, const int32_t byte_id[256])
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        const int more = x[i] < 0x80 ? 0 : x[i] < 0x800 ? 1 : x[i] < 0x10000 ? 2 : 3;
        const uint32_t lead[] = { 0, 0xc0, 0xe0, 0xf0 };

        ids[len++] = byte_id[lead[more] | x[i] >> 6 * more];
        for (int k = more - 1; k >= 0; k--)
            ids[len++] = byte_id[0x80 | (x[i] >> 6 * k & 0x3f)];
    }
    return len;
}

/* A stretch of text without added tokens. */
static void encode_words(encoder *e, const char *text, size_t size)
{
    const size_t n = zn_nfc(e->x, zn_utf8_decode(e->x, text, size), e->scratch);

    for (size_t at = 0, end; at < n; at = end) {
        size_t len;

        end = zn_split(e->x, n, at);
        len = bytes_of(e->ids, e->x + at, end - at, e->t->byte_id);
        len = zn_bpe(e->ids, len, e->t->merge, e->t->n_merges, e->work);
        for (size_t i = 0; i < len; i++)
            emit(e, e->ids[i]);
    }
}

/* The longest added token that begins here, or NULL. */
static const added *added_at(const zn_tokenizer *t, const char *text)
{
    for (int i = 0; i < t->n_added; i++)
        if (!strncmp(text, t->added[i].text, t->added[i].len))
            return &t->added[i];
    return NULL;
}

zn_status zn_tokenizer_encode(int32_t *ids, int max, int *n, const zn_tokenizer *t, const char *text, zn_error *err)
{
    const size_t size = strlen(text);
    const size_t room = ZN_NFC_GROWTH * size + 1; /* of code points, and of bytes, which normalising at most triples */
    encoder e = { .t = t, .out = ids, .max = max };
    zn_status s = ZN_OK;
    size_t begin = 0;

    *n = 0;
    if (size > ZN_MAX_TEXT)
        return zn_fail(err, ZN_E_USAGE, "the text has %zu bytes where %d are allowed", size, ZN_MAX_TEXT);
    if (!zn_utf8_ok(text, size))
        return zn_fail(err, ZN_E_USAGE, "the text is not UTF-8");
    e.x = malloc(room * sizeof *e.x);
    e.scratch = malloc(room * sizeof *e.scratch);
    e.ids = malloc(room * sizeof *e.ids);
    e.work = malloc(zn_bpe_size(room));
    if (!e.x || !e.scratch || !e.ids || !e.work) {
        s = zn_fail(err, ZN_E_MEMORY, "out of memory for a text");
    } else {
        for (size_t at = 0; at < size;) {
            const added *a = added_at(t, text + at);

            if (a) {
                encode_words(&e, text + begin, at - begin);
                emit(&e, a->id);
                begin = at + a->len;
            }
            at += a ? a->len : 1;
        }
        encode_words(&e, text + begin, size - begin);
        *n = (int)e.n;
    }
    free(e.x);
    free(e.scratch);
    free(e.ids);
    free(e.work);
    return s;
}

zn_status zn_tokenizer_chat(int32_t *ids, int max, int *n, const zn_tokenizer *t, const char *prompt, zn_error *err)
{
    static const char format[] = "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n";
    const size_t size = strlen(prompt) + sizeof format;
    char *text = malloc(size);
    zn_status s;

    *n = 0;
    if (!text)
        return zn_fail(err, ZN_E_MEMORY, "out of memory for a prompt");
    snprintf(text, size, format, prompt);
    s = zn_tokenizer_encode(ids, max, n, t, text, err);
    free(text);
    return s;
}
