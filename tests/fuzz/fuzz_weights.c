/* SPDX-License-Identifier: MIT */
/* fuzz_weights.c - any bytes at all as a weight file: it opens or it does not, and every tensor of
 * one that opens can be read.  Bytes that look like a pickle or like JSON are tried a second time,
 * inside an archive or as the header of a safetensors file, where they get further.
 *
 * Built with -fsanitize=fuzzer it is a libFuzzer target.  Built with -DZN_FUZZ_MAIN it reads the files
 * it is given, for other fuzzers and to look at a crash. */
#include "../../engine/core/weightfile.h"
#include "../attack/bytes.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const uint8_t *data, size_t size)
{
    size_t left = 1 << 20; /* elements: tensors may share and repeat their data */
    zn_weights *w;
    zn_error err;

    if (zn_weights_open_memory(&w, data, size, "input", &err)) {
        if (w || !err.text[0] || strlen(err.text) >= sizeof err.text)
            abort();
        return;
    }
    for (int i = 0; i < zn_weights_count(w); i++) {
        const zn_entry *e = zn_weights_at(w, i);
        size_t len = zn_entry_len(e);

        if (zn_weights_get(w, e->name) != e)
            abort();
        if (len > left)
            continue;
        left -= len;
        float *dst = malloc(len * sizeof *dst + !len); /* exact, for the sanitizer */

        if (dst)
            zn_entry_read(e, dst, NULL);
        free(dst);
    }
    zn_weights_close(&w);
}

/* An archive of a pickle and one storage of 64 bytes; or a header and so many bytes of tensors. */
static void wrap(bytes *out, const uint8_t *data, size_t size, bool pickle)
{
    uint8_t storage[64] = { 0 };
    const bytes inside = { (uint8_t *)(uintptr_t)data, size, 0 }, beside = { storage, sizeof storage, 0 };
    const member list[] = { { "a/data.pkl", inside }, { "a/data/0", beside } };

    if (pickle)
        put_zip(out, list, 2, NULL);
    else
        put_safetensors(out, &inside, &beside);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool pickle = size && data[0] == 0x80, json = size && data[0] == '{';

    try(data, size);
    if (pickle || json) {
        bytes out = { 0 };

        wrap(&out, data, size, pickle);
        uint8_t *exact = realloc(out.at, out.len);

        try(exact, out.len);
        free(exact);
    }
    return 0;
}

#ifdef ZN_FUZZ_MAIN
#include <stdio.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
        uint8_t *data = size < 0 ? NULL : malloc((size_t)size + !size);

        if (!data || fseek(f, 0, SEEK_SET) || fread(data, 1, (size_t)size, f) != (size_t)size) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 1;
        }
        fclose(f);
        LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
    }
    printf("%d files\n", argc - 1);
    return 0;
}
#endif
