/* SPDX-License-Identifier: MIT */
/* pictures.c - generated pictures: PNG by chunks with right checksums, JPEG by segments, TIFF by tags, WebP by chunks. */
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <zlib.h>

static void put_chunk(bytes *b, rnd *r, const char *type, const bytes *data, int wrong)
{
    bytes body = { 0 };

    put(&body, type, 4);
    put(&body, data->at, data->len);
    if (chance(r, wrong))
        mutate(&body, r, 2);
    put_big(b, 4, (uint64_t)maybe_odd(r, (int64_t)body.len - 4, wrong / 3));
    put(b, body.at, body.len);
    put_big(b, 4, chance(r, wrong / 3) ? 0 : crc32(0, body.at, (uInt)body.len));
    bytes_free(&body);
}

static void put_deflated(bytes *b, const bytes *data)
{
    uLongf n = compressBound(data->len);
    uint8_t *out = malloc(n);

    if (!out || compress2(out, &n, data->at, data->len, 1) != Z_OK)
        abort();
    put(b, out, n);
    free(out);
}

void make_png(bytes *b, rnd *r)
{
    static const int channels[] = { 1, 0, 3, 1, 2, 0, 4 };
    static const char *const extra[] = {
        "gAMA", "cHRM", "sRGB", "tEXt", "iCCP", "bKGD", "pHYs", "zTXt", "eXIf", "fdAT"
    };
    const int wrong = chance(r, 70) ? 10 : 0;
    const int kind = chance(r, wrong) ? (int)below(r, 7) : (int)below(r, 4) * 2 - (chance(r, 20) ? 1 : 0);
    const int color = kind < 0 ? 3 : kind, depth = color == 3 ? 1 << below(r, 4) : chance(r, 30) ? 16 : 8;
    const size_t w = 1 + below(r, 20), h = 1 + below(r, 20);
    bytes head = { 0 }, rows = { 0 }, packed = { 0 }, odd = { 0 };

    put(b, "\x89PNG\r\n\x1a\n", 8);
    put_big(&head, 4, (uint64_t)maybe_odd(r, (int64_t)w, wrong / 2));
    put_big(&head, 4, (uint64_t)maybe_odd(r, (int64_t)h, wrong / 2));
    put_number(&head, 1, (uint64_t)maybe_odd(r, depth, wrong / 3));
    put_number(&head, 1, (uint64_t)color);
    put_number(&head, 2, 0);
    put_number(&head, 1, chance(r, 20)); /* interlaced */
    put_chunk(b, r, "IHDR", &head, wrong / 3);
    if (color == 3 && !chance(r, wrong)) {
        put_fill(&odd, 9, 3 * (1 + below(r, 256)) + chance(r, wrong));
        put_chunk(b, r, "PLTE", &odd, wrong);
    }
    for (size_t i = below(r, 3); i; i--) {
        odd.len = 0;
        put_fill(&odd, (uint8_t)rnd_next(r), below(r, 40));
        put_chunk(b, r, chance(r, 30) ? "tRNS" : ONE_OF(r, extra), &odd, wrong);
    }
    for (size_t y = 0; y < h * 2; y++) {
        put_number(&rows, 1, below(r, chance(r, wrong) ? 9 : 5));
        for (size_t x = (w * (size_t)(channels[color] + !channels[color]) * (size_t)depth + 7) / 8; x; x--)
            put_number(&rows, 1, rnd_next(r));
    }
    put_deflated(&packed, &rows);
    if (chance(r, wrong))
        mutate(&packed, r, 3);
    for (size_t at = 0; at < packed.len;) {
        bytes part = { packed.at + at, chance(r, 50) ? packed.len - at : below(r, packed.len - at + 1), 0 };

        put_chunk(b, r, "IDAT", &part, wrong);
        at += part.len + !part.len;
    }
    odd.len = 0;
    if (!chance(r, wrong))
        put_chunk(b, r, "IEND", &odd, wrong);
    bytes_free(&head);
    bytes_free(&rows);
    bytes_free(&packed);
    bytes_free(&odd);
}

/* A picture by libjpeg, then segments of it lost, repeated, changed. */
void make_jpeg(bytes *b, rnd *r)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr trouble;
    unsigned char *out = NULL, row[64 * 4];
    unsigned long size = 0;
    size_t at = 2;

    c.err = jpeg_std_error(&trouble);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &size);
    c.image_width = 1 + (JDIMENSION)below(r, 40);
    c.image_height = 1 + (JDIMENSION)below(r, 40);
    c.input_components = chance(r, 80) ? 3 : chance(r, 50) ? 1 : 4;
    c.in_color_space = c.input_components == 3 ? JCS_RGB : c.input_components == 1 ? JCS_GRAYSCALE : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, (int)below(r, 100), TRUE);
    c.comp_info[0].h_samp_factor = 1 + (int)below(r, 2);
    c.comp_info[0].v_samp_factor = 1 + (int)below(r, 2);
    c.restart_interval = chance(r, 30) ? 1 + (unsigned)below(r, 3) : 0;
    c.arith_code = chance(r, 5);
    if (chance(r, 40))
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW rows = row;

        for (size_t i = 0; i < sizeof row; i++)
            row[i] = (uint8_t)rnd_next(r);
        jpeg_write_scanlines(&c, &rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    put(b, out, size);
    free(out);
    if (chance(r, 10))
        return;
    while (at + 4 < b->len && b->at[at] == 0xff) { /* a marker and its segment */
        const size_t len = 2 + ((size_t)b->at[at + 2] << 8 | b->at[at + 3]);

        if (b->at[at + 1] == 0xda || at + len > b->len)
            break;
        switch (below(r, 14)) {
        case 0:
            bytes_replace(b, at, len, NULL, 0);
            continue;
        case 1:
            bytes_replace(b, at, 0, b->at + at, len);
            break;
        case 2:
            b->at[at + 4 + below(r, len - 4)] = (uint8_t)odd_number(r);
            break;
        case 3:
            b->at[at + 1] = (uint8_t)(0xc0 + below(r, 64));
            break;
        default:
            break;
        }
        at += len;
    }
    if (chance(r, 60))
        mutate(b, r, 4);
}

/* A directory of tags, then pixels; in either order of bytes. */
void make_tiff(bytes *b, rnd *r)
{
    static const int compressions[] = { 1, 1, 1, 5, 8, 32773, 32946, 7, 34712, 2 };
    const int wrong = chance(r, 70) ? 5 : 0;
    const bool big = chance(r, 30);
    const size_t w = 1 + below(r, 24), h = 1 + below(r, 24), samples = 1 + below(r, 4);
    const int bits = chance(r, 60) ? 8 : chance(r, 60) ? 16 : 32, how = ONE_OF(r, compressions);
    const bool tiled = chance(r, 20);
    bytes rows = { 0 }, packed = { 0 };
    const struct {
        int tag, type, count;
        int64_t value;
    } tags[] = { { 256, 4, 1, (int64_t)w },
                 { 257, 4, 1, (int64_t)h },
                 { 258, 3, 1, bits },
                 { 259, 3, 1, how },
                 { 262, 3, 1, samples >= 3 ? 2 : (int)below(r, 2) },
                 { tiled ? 322 : 273, 4, 1, tiled ? 16 : -1 },
                 { 277, 3, 1, (int64_t)samples },
                 { tiled ? 323 : 278, 4, 1, tiled ? 16 : (int64_t)h },
                 { tiled ? 324 : 279, 4, 1, tiled ? -1 : -2 },
                 { tiled ? 325 : 284, tiled ? 4 : 3, 1, tiled ? -2 : 1 },
                 { 317, 3, 1, 1 + (int)below(r, 3) },
                 { 338, 3, 1, (int)below(r, 3) },
                 { 339, 3, 1, bits == 32 ? 3 : 1 } };
    enum { N = sizeof tags / sizeof *tags };

    put(b, big ? "MM\0*\0\0\0\10" : "II*\0\10\0\0\0", 8);
    for (size_t i = w * (h + 16) * samples * (size_t)bits / 8 + 4096 * tiled; i; i--)
        put_number(&rows, 1, rnd_next(r));
    if (how == 8 || how == 32946)
        put_deflated(&packed, &rows);
    else
        put(&packed, rows.at, rows.len);
    const size_t at = 8 + 2 + N * 12 + 4;

    (big ? put_big : put_number)(b, 2, (uint64_t)(chance(r, wrong) ? odd_number(r) : N));
    for (int i = 0; i < N; i++) {
        const int64_t value = tags[i].value == -1 ? (int64_t)at
            : tags[i].value == -2                 ? (int64_t)packed.len
                                                  : tags[i].value;
        const int type = chance(r, wrong) ? (int)below(r, 19) : tags[i].type;

        (big ? put_big : put_number)(b, 2, (uint64_t)(chance(r, wrong) ? (int64_t)below(r, 65536) : tags[i].tag));
        (big ? put_big : put_number)(b, 2, (uint64_t)type);
        (big ? put_big : put_number)(b, 4, (uint64_t)maybe_odd(r, tags[i].count, wrong));
        if (big && type == 3) {
            put_big(b, 2, (uint64_t)maybe_odd(r, value, wrong));
            put_big(b, 2, 0);
        } else {
            (big ? put_big : put_number)(b, 4, (uint64_t)maybe_odd(r, value, wrong));
        }
    }
    (big ? put_big : put_number)(b, 4, chance(r, wrong) ? 8 : 0); /* the next directory: none, or this one again */
    put(b, packed.at, packed.len);
    if (chance(r, 10))
        mutate(b, r, 3);
    bytes_free(&rows);
    bytes_free(&packed);
}

/* A RIFF file of chunks; the picture itself is noise in a stream without loss. */
void make_webp(bytes *b, rnd *r)
{
    const int wrong = chance(r, 70) ? 6 : 0;
    bytes body = { 0 }, part = { 0 };
    const size_t w = 1 + below(r, 30), h = 1 + below(r, 30);
    static const char *const kinds[] = { "ICCP", "EXIF", "XMP ", "ANIM", "ALPH", "ANMF", "abcd" };

    put(&body, "WEBP", 4);
    if (chance(r, 50)) {
        put(&body, "VP8X", 4);
        put_number(&body, 4, (uint64_t)maybe_odd(r, 10, wrong));
        put_number(&body, 4, rnd_next(r) & 0x3e);
        put_number(&body, 3, (uint64_t)maybe_odd(r, (int64_t)w - 1, wrong));
        put_number(&body, 3, (uint64_t)maybe_odd(r, (int64_t)h - 1, wrong));
    }
    for (size_t i = below(r, 3); i; i--) {
        const size_t n = 2 * below(r, 20);

        put(&body, ONE_OF(r, kinds), 4);
        put_number(&body, 4, (uint64_t)maybe_odd(r, (int64_t)n, wrong));
        put_fill(&body, (uint8_t)rnd_next(r), n);
    }
    put_number(&part, 1, 0x2f);
    put_number(&part, 4, (uint64_t)(w - 1) | (uint64_t)(h - 1) << 14 | (rnd_next(r) & 1) << 28);
    for (size_t i = 1 + below(r, 200); i; i--)
        put_number(&part, 1, chance(r, 50) ? 0 : rnd_next(r));
    put(&body, chance(r, 80) ? "VP8L" : "VP8 ", 4);
    put_number(&body, 4, (uint64_t)maybe_odd(r, (int64_t)part.len, wrong));
    put(&body, part.at, part.len);
    put_fill(&body, 0, part.len & 1);
    put(b, "RIFF", 4);
    put_number(b, 4, (uint64_t)maybe_odd(r, (int64_t)body.len, wrong));
    put(b, body.at, body.len);
    bytes_free(&body);
    bytes_free(&part);
}
