/* SPDX-License-Identifier: MIT */
/* fuzz_weights.c - any bytes at all as a weight file: it opens or it does not, and every tensor of
 * one that opens can be read.  Bytes that look like a pickle or like JSON are tried a second time,
 * inside an archive or as the header of a safetensors file, where they get further.
 *
 * Built with -fsanitize=fuzzer it is a libFuzzer target.  Built with -DZN_FUZZ_MAIN it reads the files
 * it is given, for other fuzzers and to look at a crash. */
#include "../../engine/core/weightfile.h"

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

static uint8_t *put(uint8_t *p, const void *src, size_t size)
{
    return (uint8_t *)memcpy(p, src, size) + size;
}

static uint8_t *number(uint8_t *p, unsigned bytes, size_t n)
{
    for (unsigned i = 0; i < bytes; i++)
        *p++ = i < sizeof n ? (uint8_t)(n >> 8 * i) : 0;
    return p;
}

enum { STORAGE = 64 }; /* bytes of the one storage, or of all tensors */

/* header || data || 64 bytes */
static size_t as_safetensors(uint8_t *out, const uint8_t *data, size_t size)
{
    uint8_t *p = put(number(out, 8, size), data, size);

    memset(p, 1, STORAGE);
    return (size_t)(p - out) + STORAGE;
}

/* An archive of a/data.pkl, the data, and a/data/0, 64 bytes. */
static size_t as_archive(uint8_t *out, const uint8_t *data, size_t size)
{
    static const uint8_t storage[STORAGE] = { 0 };
    const char *const name[] = { "a/data.pkl", "a/data/0" };
    const uint8_t *const bytes[] = { data, storage };
    const size_t sizes[] = { size, STORAGE };
    size_t place[2];
    uint8_t *p = out;

    for (int i = 0; i < 2; i++) {
        place[i] = (size_t)(p - out);
        p = number(number(number(put(p, "PK\3\4", 4), 22, 0), 2, strlen(name[i])), 2, 0);
        p = put(put(p, name[i], strlen(name[i])), bytes[i], sizes[i]);
    }
    size_t directory = (size_t)(p - out);

    for (int i = 0; i < 2; i++) {
        p = number(number(number(put(p, "PK\1\2", 4), 16, 0), 4, sizes[i]), 4, sizes[i]);
        p = number(number(number(p, 2, strlen(name[i])), 12, 0), 4, place[i]);
        p = put(p, name[i], strlen(name[i]));
    }
    size_t end = (size_t)(p - out);

    p = number(number(number(put(p, "PK\5\6", 4), 4, 0), 2, 2), 2, 2);
    return (size_t)(number(number(number(p, 4, end - directory), 4, directory), 2, 0) - out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool pickle = size && data[0] == 0x80, json = size && data[0] == '{';
    uint8_t *out = pickle || json ? malloc(size + 400) : NULL;

    try(data, size);
    if (out) {
        size_t n = pickle ? as_archive(out, data, size) : as_safetensors(out, data, size);
        uint8_t *exact = realloc(out, n);

        try(exact, n);
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
