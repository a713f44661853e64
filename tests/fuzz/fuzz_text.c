/* SPDX-License-Identifier: MIT */
/* fuzz_text.c - any bytes at all as a tokenizer.json: it opens or it does not, and one that opens encodes; and as a text for a
 * good tokenizer: it is encoded or refused.
 *
 * A libFuzzer target; ZN_SOURCE_ROOT is where the good one lies. */
#include "../../engine/text/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static zn_tokenizer *good;

static void encode(const zn_tokenizer *t, const char *text)
{
    int32_t ids[8];
    int n = 0;

    zn_tokenizer_encode(ids, 8, &n, t, text, NULL);
    zn_tokenizer_chat(ids, 8, &n, t, text, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    if (zn_tokenizer_open(&good, ZN_SOURCE_ROOT "/tests/data/text/tokenizer.json", NULL))
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_tokenizer *t = NULL;
    zn_error err;
    char *text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = 0;
    encode(good, text);
    text = realloc(text, size ? size : 1); /* exactly, so that reading past the end is seen */
    if (!zn_tokenizer_read(&t, text, size, "fuzz", &err))
        encode(t, "a cat's 12 <|im_end|>\n  q\u0307\u0323\u1112\u1161\u11ab\u732b!!");
    zn_tokenizer_close(&t);
    free(text);
    return 0;
}
