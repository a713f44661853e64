/* SPDX-License-Identifier: MIT */
/* test_text.c - the tokenizer against Hugging Face's tokenizers (tools/golden_text.py), Unicode, and files that are no
 * tokenizer.
 *
 *     test_text [TOKENIZER.json TEXTS.json]      these files instead of the small ones of tests/data/text */
#include "test.h"

#include "core/json.h"
#include "text/text.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATA ZN_SOURCE_ROOT "/tests/data/text/"

static const char *tokenizer_path = DATA "tokenizer.json", *texts_path = DATA "texts.json";
static zn_tokenizer *tokenizer;

static char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : 0;
    char *text = malloc((size_t)n + 1);

    rewind(f);
    *size = fread(text, 1, (size_t)n, f);
    text[*size] = 0;
    fclose(f);
    return text;
}

/* Every text has the tokens that the reference gives it. */
static void parity(void)
{
    static int32_t ids[ZN_MAX_TEXT];
    size_t size, n_texts = 0;
    char *text = read_whole(texts_path, &size), *pool = malloc(size + 1), wrong[600] = "";
    zn_json j = zn_json_begin(text, size, pool);

    zn_json_enter(&j, '[');
    for (; !wrong[0] && zn_json_more(&j, ']', n_texts); n_texts++) {
        const char *s;
        zn_error err = { "" };
        int n = 0, at = 0;

        j.pool = pool;
        zn_json_enter(&j, '[');
        zn_json_more(&j, ']', 0);
        s = zn_json_string(&j);
        zn_json_more(&j, ']', 1);
        if (zn_tokenizer_encode(ids, ZN_MAX_TEXT, &n, tokenizer, s, &err))
            snprintf(wrong, sizeof wrong, "text %zu: %s", n_texts, err.text);
        zn_json_enter(&j, '[');
        for (; zn_json_more(&j, ']', (size_t)at); at++) {
            const int64_t want = zn_json_int(&j);

            if (!wrong[0] && (at >= n || ids[at] != want))
                snprintf(wrong, sizeof wrong, "text %zu, token %d is %d, not %d: %.200s", n_texts, at,
                         at < n ? ids[at] : -1, (int)want, s);
        }
        if (!wrong[0] && at != n)
            snprintf(wrong, sizeof wrong, "text %zu has %d tokens, not %d: %.200s", n_texts, n, at, s);
        zn_json_more(&j, ']', 2);
    }
    free(pool);
    free(text);
    CHECK(!wrong[0], "%s", wrong);
    CHECK(!j.wrong && n_texts >= 300, "%zu texts, %s", n_texts, j.wrong ? j.wrong : "");
}

static void chat(void)
{
    static const char with[] = "<|im_start|>user\nfog, 3 men<|im_end|>\n<|im_start|>assistant\n";
    int32_t a[64], b[64], few[4] = { 0, 0, 0, -7 };
    int n = 0, m = 0;

    CHECK(!zn_tokenizer_chat(a, 64, &n, tokenizer, "fog, 3 men", NULL) &&
              !zn_tokenizer_encode(b, 64, &m, tokenizer, with, NULL),
          "not encoded");
    CHECK(n == m && n > 10 && !memcmp(a, b, (size_t)n * sizeof *a), "%d tokens, not %d", n, m);
    CHECK(!zn_tokenizer_chat(few, 3, &n, tokenizer, "fog, 3 men", NULL) && n == m && few[3] == -7 &&
              !memcmp(few, b, 3 * sizeof *few),
          "not cut after 3 tokens");
    CHECK(!zn_tokenizer_encode(a, 64, &n, tokenizer, "", NULL) && n == 0, "%d tokens of nothing", n);
}

static bool nfc_is(const char *text, const char *want)
{
    uint32_t x[64], y[64], scratch[64];
    const size_t n = zn_nfc(x, zn_utf8_decode(x, text, strlen(text)), scratch),
                 m = zn_utf8_decode(y, want, strlen(want));

    return n == m && !memcmp(x, y, n * sizeof *x);
}

static void normal_form(void)
{
    CHECK(nfc_is("cafe\u0301", "caf\u00e9"), "an accent is not composed");
    CHECK(nfc_is("\u212b", "\u00c5"), "the sign of an angstrom stays");
    CHECK(nfc_is("\u0958", "\u0915\u093c"), "an excluded composition is made");
    CHECK(nfc_is("q\u0307\u0323", "q\u0323\u0307"), "marks are not ordered");
    CHECK(nfc_is("a\u0323\u0302", "\u1ead"), "two marks are not composed");
    CHECK(nfc_is("\u1112\u1161\u11ab", "\ud55c") && nfc_is("\ud558\u11ab", "\ud55c"), "Hangul is not composed");
    CHECK(nfc_is("\ud55c\u11ab", "\ud55c\u11ab"), "a syllable took a second end");
    CHECK(nfc_is("\u0301a", "\u0301a"), "a mark without a letter");
    CHECK(nfc_is("\u1f82", "\u1f82") && nfc_is("\u03b1\u0313\u0300\u0345", "\u1f82"), "four code points");
    CHECK(nfc_is("a\u0302\u0301\u0302", "\u1ea5\u0302"), "the second of one class is blocked");
}

/* A long word and a long run of marks take no quadratic time: 64 KiB of either in well under a second. */
static void long_texts(void)
{
    char *text = malloc(ZN_MAX_TEXT + 2);
    int n;
    zn_error err;

    memset(text, 'a', ZN_MAX_TEXT);
    text[ZN_MAX_TEXT] = 0;
    CHECK(!zn_tokenizer_encode(NULL, 0, &n, tokenizer, text, &err) && n > 0 && n <= ZN_MAX_TEXT, "%s", err.text);
    for (int i = 0; i < ZN_MAX_TEXT; i += 2)
        memcpy(text + i, i % 6 ? "\u0323" : "\u0307", 2);
    CHECK(!zn_tokenizer_encode(NULL, 0, &n, tokenizer, text, &err) && n > 0, "%s", err.text);
    memset(text, 'a', ZN_MAX_TEXT + 1);
    text[ZN_MAX_TEXT + 1] = 0;
    CHECK(zn_tokenizer_encode(NULL, 0, &n, tokenizer, text, &err) == ZN_E_USAGE && strstr(err.text, "bytes"),
          "too long");
    CHECK(zn_tokenizer_encode(NULL, 0, &n, tokenizer, "a\xc3", &err) == ZN_E_USAGE && strstr(err.text, "UTF-8"),
          "no UTF-8");
    free(text);
}

/* The file with one text replaced by another. */
static zn_status open_changed(const char *from, const char *to, zn_error *err)
{
    char path[] = "/tmp/zenith-text-XXXXXX", *text, *at;
    int fd = mkstemp(path);
    zn_tokenizer *t = NULL;
    size_t size;
    FILE *f = fdopen(fd, "wb");
    zn_status s;

    text = read_whole(DATA "tokenizer.json", &size);
    at = strstr(text, from);
    if (!at || !f)
        return ZN_OK;
    fwrite(text, 1, (size_t)(at - text), f);
    fputs(to, f);
    fputs(at + strlen(from), f);
    fclose(f);
    s = zn_tokenizer_open(&t, path, err);
    zn_tokenizer_close(&t);
    remove(path);
    free(text);
    return s;
}

static void refusals(void)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        { "\"NFC\"", "\"NFKC\"", "form C" },
        { "{\"type\":\"NFC\"}", "null", "form C" },
        { "\\\\p{N}|", "\\\\p{N}{1,3}|", "split rules" },
        { "\"Isolated\"", "\"Removed\"", "words" },
        { "\"use_regex\":false", "\"use_regex\":true", "words" },
        { "\"BPE\"", "\"WordPiece\"", "BPE" },
        { "\"ignore_merges\":false", "\"ignore_merges\":true", "BPE" },
        { "\"byte_fallback\":false", "\"byte_fallback\":true", "BPE" },
        { "\"unk_token\":null", "\"unk_token\":\"x\"", "BPE" },
        { "\"lstrip\":false", "\"lstrip\":true", "as it stands" },
        { "\"id\":556", "\"id\":-1", "number" },
        { "\"id\":556", "\"id\":99999999", "number" },
        { "\"!\":0", "\"!\":-3", "number" },
        { "\"!\":0", "\"!\":1e9", "whole" },
        { "\"!\":0", "\"!\":1", "same text or number" },
        { "\"!\":0", "\"!!!!\":0", "byte" },
        { "\"merges\":[", "\"merges\":[[\"!\",\"zzzz\"],", "merge" },
        { "\"merges\":[", "\"merges\":[[\"!\"],", "merge" },
        { "\"merges\":[", "\"merges\":[7,", "string" },
        { "\"merges\":", "\"mergers\":", "missing" },
        { "\"vocab\":{", "\"vocab\":[", "'{' is missing" },
    };
    zn_error err;
    zn_tokenizer *t;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err.text[0] = 0;
        CHECK(open_changed(cases[i].from, cases[i].to, &err) == ZN_E_FILE && strstr(err.text, cases[i].says),
              "%s as %s: %s", cases[i].from, cases[i].to, err.text);
    }
    CHECK(zn_tokenizer_open(&t, DATA "nothing.json", &err) == ZN_E_FILE && !t, "%s", err.text);
}

/* A vocabulary of single bytes needs no merges. */
static void no_merges(void)
{
    zn_error err = { "" };

    CHECK(!open_changed("\"merges\":[", "\"merges\":[],\"others\":[", &err), "%s", err.text);
}

/* An added token is compared with the text at each of its bytes: its length is bounded.  A pipe is no tokenizer. */
static void long_added_token(void)
{
    static const char begin[] = "\"added_tokens\":[{\"id\":559,\"content\":\"";
    char to[700], path[] = "/tmp/zenith-text-XXXXXX";
    zn_tokenizer *t = NULL;
    zn_error err = { "" };

    for (int len = 256; len <= 257; len++) {
        snprintf(to, sizeof to, "%s%0*d\"},{", begin, len, 7);
        CHECK((open_changed("\"added_tokens\":[{", to, &err) == ZN_E_FILE && strstr(err.text, "too long")) ==
                  (len == 257),
              "%d bytes: %s", len, err.text);
    }
    CHECK(mkdtemp(path) && snprintf(to, sizeof to, "%s/pipe", path) > 0 && !mkfifo(to, 0600), "no pipe");
    CHECK(zn_tokenizer_open(&t, to, &err) == ZN_E_FILE && strstr(err.text, "a pipe"), "%s", err.text);
    remove(to);
    remove(path);
}

/* Cut anywhere, the file is refused. */
static void cut_files(void)
{
    char path[] = "/tmp/zenith-text-XXXXXX";
    zn_tokenizer *t = NULL;
    size_t size;
    char *text = read_whole(DATA "tokenizer.json", &size);
    int fd = mkstemp(path), taken = 0;

    for (size_t n = 0; n < size && fd >= 0; n += 1 + n / 16) {
        if (pwrite(fd, text, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n))
            break;
        taken += !zn_tokenizer_open(&t, path, NULL);
        zn_tokenizer_close(&t);
    }
    close(fd);
    remove(path);
    free(text);
    CHECK(fd >= 0 && !taken, "%d cut files were taken", taken);
}

int main(int argc, char **argv)
{
    zn_error err;

    if (argc == 3) {
        tokenizer_path = argv[1];
        texts_path = argv[2];
    }
    if (zn_tokenizer_open(&tokenizer, tokenizer_path, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    RUN(parity);
    RUN(chat);
    RUN(normal_form);
    RUN(long_texts);
    RUN(refusals);
    RUN(no_merges);
    RUN(long_added_token);
    RUN(cut_files);
    zn_tokenizer_close(&tokenizer);
    return test_end();
}
