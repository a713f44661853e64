/* SPDX-License-Identifier: MIT */
/* costly.c - small pictures that make a reader work; see the header. */
#include "costly.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

/* ---- bits ------------------------------------------------------------------------------------------------------------ */

typedef struct bits {
    bytes *to;
    unsigned held, n;
    bool jpeg; /* the first bit is the highest, and 0xff is followed by 0 */
} bits;

static void put_bits(bits *w, unsigned value, int n)
{
    for (int i = 0; i < n; i++) {
        const unsigned bit = value >> (w->jpeg ? n - 1 - i : i) & 1;

        w->held |= bit << (w->jpeg ? 7 - w->n : w->n);
        if (++w->n < 8)
            continue;
        put_number(w->to, 1, w->held);
        if (w->jpeg && w->held == 0xff)
            put_number(w->to, 1, 0);
        w->held = w->n = 0;
    }
}

static void end_bits(bits *w)
{
    while (w->n)
        put_bits(w, w->jpeg, 1); /* JPEG fills with ones */
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------------ */

static void put_segment(bytes *b, int marker, const bytes *data)
{
    put_big(b, 2, 0xff00u | (unsigned)marker);
    put_big(b, 2, data->len + 2);
    put(b, data->at, data->len);
}

/* One symbol, whose code is a single 0. */
static void put_huffman(bytes *b, int table, int symbol)
{
    bytes d = { 0 };

    put_number(&d, 1, (uint64_t)table);
    put_number(&d, 1, 1);
    put_fill(&d, 0, 15);
    put_number(&d, 1, (uint64_t)symbol);
    put_segment(b, 0xc4, &d);
    bytes_free(&d);
}

static void put_scan(bytes *b, int from, int to, int high, int low)
{
    bytes d = { 0 };

    put_number(&d, 1, 1);
    put_number(&d, 1, 1);
    put_number(&d, 1, 0);
    put_number(&d, 1, (uint64_t)from);
    put_number(&d, 1, (uint64_t)to);
    put_number(&d, 1, (uint64_t)(high << 4 | low));
    put_segment(b, 0xda, &d);
    bytes_free(&d);
}

/* Pass k over all blocks in one colour: of one coefficient, first its high bits, then one bit more each time. */
static void put_pass(bytes *b, int k, size_t blocks)
{
    enum { LOWEST = 13 };
    const int at = 1 + k / (LOWEST + 1), low = LOWEST - k % (LOWEST + 1);
    bits w = { .to = b, .jpeg = true };

    put_scan(b, at, at, low == LOWEST ? 0 : low + 1, low);
    for (size_t i = 0; i < blocks; i += 32767) {
        put_bits(&w, 0, 1);
        put_bits(&w, 16383, 14); /* the end of 2^14 + this many blocks */
    }
    end_bits(&w);
}

void costly_jpeg(bytes *b, size_t w, size_t h, int zeros, int comments, int passes)
{
    const size_t blocks = ((w + 7) / 8) * ((h + 7) / 8);
    bytes d = { 0 };

    put_big(b, 2, 0xffd8);
    for (int i = 0; i < comments; i++)
        put_big(b, 4, 0xfffe0002);
    put_number(&d, 1, 0);
    put_fill(&d, 0, (size_t)zeros);
    put_fill(&d, 1, 64 - (size_t)zeros);
    put_segment(b, 0xdb, &d);
    d.len = 0;
    put_number(&d, 1, 8);
    put_big(&d, 2, h);
    put_big(&d, 2, w);
    put_number(&d, 1, 1);
    put_number(&d, 1, 1);
    put_number(&d, 1, 0x11);
    put_number(&d, 1, 0);
    put_segment(b, passes ? 0xc2 : 0xc0, &d);
    bytes_free(&d);
    put_huffman(b, 0, 0);
    put_huffman(b, 0x10, passes ? 0xe0 : 0);
    put_scan(b, 0, passes ? 0 : 63, 0, 0);
    bits bit = { .to = b, .jpeg = true };
    for (size_t i = 0; i < blocks * (passes ? 1 : 2); i++) /* no change of the mean; the rest is 0 */
        put_bits(&bit, 0, 1);
    end_bits(&bit);
    for (int i = 0; i < passes - 1; i++)
        put_pass(b, i, blocks);
    put_big(b, 2, 0xffd9);
}

void costly_iptc(bytes *b, int n)
{
    bytes all = { 0 }, d = { 0 };

    costly_jpeg(b, 8, 8, 0, 0, 0);
    while (n) {
        const int m = n < 10000 ? n : 10000;

        d.len = 0;
        put(&d,
            "Photoshop 3.0\0"
            "8BIM\x04\x04\0\0",
            22);
        put_big(&d, 4, (uint64_t)m * 6);
        for (int i = 0; i < m; i++) { /* keywords, which may repeat, then one that may not */
            put(&d, i < m / 2 ? "\x1c\x02\x19\0\1" : "\x1c\x02\x05\0\1", 5);
            put(&d, "k", 1);
        }
        put_segment(&all, 0xed, &d);
        n -= m;
    }
    bytes_replace(b, 2, 0, all.at, all.len);
    bytes_free(&all);
    bytes_free(&d);
}

/* ---- PNG ------------------------------------------------------------------------------------------------------------- */

static void put_chunk(bytes *b, const char *type, const bytes *data)
{
    const size_t at = b->len + 4;

    put_big(b, 4, data->len);
    put(b, type, 4);
    put(b, data->at, data->len);
    put_big(b, 4, crc32(0, b->at + at, (uInt)(b->len - at)));
}

/* `size` bytes of one value, and after each `row` of them a 0 if there are rows. */
static void put_deflated(bytes *b, uint8_t value, size_t size, size_t row)
{
    bytes piece = { 0 };
    z_stream z = { 0 };
    uint8_t out[4096];

    if (deflateInit(&z, 9) != Z_OK)
        abort();
    put_fill(&piece, 0, row > 0);
    put_fill(&piece, value, row ? row : size < 65536 ? size : 65536);
    for (size_t left = row ? size * (row + 1) : size, n; left; left -= n) { /* size: of rows, where there are rows */
        n = left < piece.len ? left : piece.len;
        z.next_in = piece.at;
        z.avail_in = (uInt)n;
        do {
            z.next_out = out;
            z.avail_out = sizeof out;
            deflate(&z, left == n ? Z_FINISH : Z_NO_FLUSH);
            put(b, out, sizeof out - z.avail_out);
        } while (!z.avail_out);
    }
    deflateEnd(&z);
    bytes_free(&piece);
}

static void begin_png(bytes *b, size_t w, size_t h)
{
    bytes d = { 0 };

    put(b, "\x89PNG\r\n\x1a\n", 8);
    put_big(&d, 4, w);
    put_big(&d, 4, h);
    put(&d, "\x08\0\0\0\0", 5); /* 8 bits, grey */
    put_chunk(b, "IHDR", &d);
    bytes_free(&d);
}

static void end_png(bytes *b, size_t w, size_t h)
{
    bytes d = { 0 };

    put_deflated(&d, 128, h, w);
    put_chunk(b, "IDAT", &d);
    d.len = 0;
    put_chunk(b, "IEND", &d);
    bytes_free(&d);
}

void costly_png(bytes *b, size_t w, size_t h, int n, size_t each)
{
    static const char *const types[] = { "zTXt", "iTXt", "zTXt" };
    bytes d = { 0 }, packed = { 0 };

    begin_png(b, w, h);
    if (n)
        put_deflated(&packed, 'a', each, 0);
    for (int i = 0; i < n; i++) {
        d.len = 0;
        put_text(&d, "k%d", i);
        put(&d, i % 3 == 1 ? "\0\1\0\0\0" : "\0\0", i % 3 == 1 ? 5 : 2);
        put(&d, packed.at, packed.len);
        put_chunk(b, types[i % 3], &d);
    }
    end_png(b, w, h);
    bytes_free(&d);
    bytes_free(&packed);
}

void costly_space(bytes *b, unsigned gamma)
{
    bytes d = { 0 };

    begin_png(b, 1, 1);
    put_big(&d, 4, gamma);
    put_chunk(b, "gAMA", &d);
    end_png(b, 1, 1);
    bytes_free(&d);
}

/* ---- WebP ------------------------------------------------------------------------------------------------------------ */

static void put_riff(bytes *b, const char *type, const bytes *data)
{
    put(b, type, 4);
    put_number(b, 4, data->len);
    put(b, data->at, data->len);
    put_fill(b, 0, data->len & 1);
}

static void put_vp8l(bytes *b, size_t w, size_t h)
{
    bytes d = { 0 };
    bits bit = { .to = &d };

    put_bits(&bit, 0x2f, 8);
    put_bits(&bit, (unsigned)w - 1, 14);
    put_bits(&bit, (unsigned)h - 1, 14);
    put_bits(&bit, 0, 4 + 3); /* no alpha, version, no transform, no cache, one group of codes */
    for (int i = 0; i < 5; i++)
        put_bits(&bit, 1, 4); /* a code of one symbol, 0 */
    end_bits(&bit);
    put_fill(&d, 0, 8);
    put_riff(b, "VP8L", &d);
    bytes_free(&d);
}

static void end_webp(bytes *b, const bytes *body)
{
    put(b, "RIFF", 4);
    put_number(b, 4, body->len);
    put(b, body->at, body->len);
}

void costly_webp(bytes *b, size_t w, size_t h)
{
    bytes body = { 0 };

    put(&body, "WEBP", 4);
    put_vp8l(&body, w, h);
    end_webp(b, &body);
    bytes_free(&body);
}

/* ---- TIFF ------------------------------------------------------------------------------------------------------------ */

enum { BYTE = 1, SHORT = 3, LONG = 4 };

static void put_entry(bytes *b, int tag, int type, size_t count, size_t value)
{
    put_number(b, 2, (uint64_t)tag);
    put_number(b, 2, (uint64_t)type);
    put_number(b, 4, count);
    put_number(b, 4, value);
}

/* The entries of one grey pixel, whose strip is the file's first byte. */
enum { PIXEL_ENTRIES = 9 };
static void put_pixel(bytes *b)
{
    static const int tags[PIXEL_ENTRIES][2] = { { 256, 1 }, { 257, 1 }, { 258, 8 }, { 259, 1 }, { 262, 1 },
                                                { 273, 0 }, { 277, 1 }, { 278, 1 }, { 279, 1 } };

    for (int i = 0; i < PIXEL_ENTRIES; i++)
        put_entry(b, tags[i][0], LONG, 1, (size_t)tags[i][1]);
}

static void begin_tiff(bytes *b, size_t entries)
{
    put(b, "II*\0\x08\0\0\0", 8);
    put_number(b, 2, entries);
}

void costly_pointers(bytes *b, rnd *r, int n, int m)
{
    static const int tags[] = { 34665, 34853, 330, 40965, 37500 };
    const size_t first = 8 + 2 + 12 * (PIXEL_ENTRIES + (size_t)m) + 4, each = 2 + 12 * (size_t)m + 4;

    for (int i = 0; i < n; i++) {
        if (!i) {
            begin_tiff(b, PIXEL_ENTRIES + (size_t)m);
            put_pixel(b);
        } else {
            put_number(b, 2, (uint64_t)m);
        }
        for (int k = 0; k <= m; k++) { /* the last is what follows */
            const size_t to = below(r, (size_t)n), at = to ? first + (to - 1) * each : 8;
            const int type = chance(r, 80) ? LONG : BYTE;

            if (k < m)
                put_entry(b, ONE_OF(r, tags), type, chance(r, 80) ? 1 : each / (type == LONG ? 4 : 1), at);
            else
                put_number(b, 4, chance(r, 20) ? at : 0);
        }
    }
}

void costly_values(bytes *b, int n, size_t size)
{
    begin_tiff(b, PIXEL_ENTRIES + (size_t)n);
    put_pixel(b);
    for (int i = 0; i < n; i++)
        put_entry(b, 40000 + i, BYTE, size, 8 + 2 + 12 * (PIXEL_ENTRIES + (size_t)n) + 4);
    put_number(b, 4, 0);
    put_fill(b, 7, size);
}

void costly_tile(bytes *b, size_t w, size_t h)
{
    begin_tiff(b, 12);
    put_entry(b, 256, LONG, 1, 1);
    put_entry(b, 257, LONG, 1, 1);
    put_entry(b, 258, SHORT, 1, 32);
    put_entry(b, 259, SHORT, 1, 1);
    put_entry(b, 262, SHORT, 1, 2);
    put_entry(b, 277, SHORT, 1, 4);
    put_entry(b, 322, LONG, 1, w);
    put_entry(b, 323, LONG, 1, h);
    put_entry(b, 324, LONG, 1, 8);
    put_entry(b, 325, LONG, 1, 16);
    put_entry(b, 338, SHORT, 1, 2);
    put_entry(b, 339, SHORT, 1, 3);
    put_number(b, 4, 0);
}

/* ---- XMP ------------------------------------------------------------------------------------------------------------- */

void costly_packet(bytes *b, char format, int n, bool spaces)
{
    bytes x = { 0 }, body = { 0 };

    put_text(&x,
             "<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>"
             "<rdf:Description rdf:about='' xmlns:dc='http://purl.org/dc/elements/1.1/'>");
    for (int i = 0; i < n; i++)
        if (spaces)
            put_text(&x, "<n%d:a xmlns:n%d='u%d'>1</n%d:a>", i, i, i, i);
        else
            put_text(&x, "<dc:p%d>1</dc:p%d>", i, i);
    put_text(&x, "</rdf:Description></rdf:RDF></x:xmpmeta>");

    if (format == 'p') {
        begin_png(b, 1, 1);
        put(&body, "XML:com.adobe.xmp\0\0\0\0\0", 22);
        put(&body, x.at, x.len);
        put_chunk(b, "iTXt", &body);
        end_png(b, 1, 1);
    } else if (format == 'w') {
        bytes flags = { 0 };

        put(&body, "WEBP", 4);
        put_number(&flags, 4, 4); /* there is XMP */
        put_fill(&flags, 0, 6);   /* 1 x 1 pixels */
        put_riff(&body, "VP8X", &flags);
        put_vp8l(&body, 1, 1);
        put_riff(&body, "XMP ", &x);
        end_webp(b, &body);
        bytes_free(&flags);
    } else {
        begin_tiff(b, PIXEL_ENTRIES + 1);
        put_pixel(b);
        put_entry(b, 700, BYTE, x.len, 8 + 2 + 12 * (PIXEL_ENTRIES + 1) + 4);
        put_number(b, 4, 0);
        put(b, x.at, x.len);
    }
    bytes_free(&x);
    bytes_free(&body);
}

/* ---- any ------------------------------------------------------------------------------------------------------------- */

/* Small numbers as often as large ones. */
static size_t any_size(rnd *r, size_t most)
{
    size_t n = 1;

    while (n < most && !chance(r, 15))
        n = n * 2 + below(r, 2);
    return n < most ? n : most;
}

void make_costly(bytes *b, rnd *r)
{
    const bool large = chance(r, 3); /* pixels by the million take seconds to read: now and then */
    const size_t side = large ? 8000 : 400, w = any_size(r, side), h = any_size(r, side);

    switch (below(r, 11)) {
    case 0:
        costly_jpeg(b, w, h, (int)below(r, 65), 0, 0);
        break;
    case 1:
        costly_jpeg(b, w, h, chance(r, 50), 0, 2 + (int)any_size(r, 850));
        break;
    case 2:
        costly_jpeg(b, w, h, 0, (int)any_size(r, 20000), chance(r, 50));
        break;
    case 3:
        costly_png(b, w, h, (int)any_size(r, 900), any_size(r, large ? 7900000 : 100000));
        break;
    case 4:
        costly_webp(b, any_size(r, 16383), chance(r, 50) ? any_size(r, 16383) : 16383);
        break;
    case 5:
        costly_pointers(b, r, 1 + (int)below(r, 40), (int)any_size(r, 200));
        break;
    case 6:
        costly_values(b, (int)any_size(r, 4000), any_size(r, large ? 1 << 20 : 60000));
        break;
    case 7:
        costly_tile(b, 16 * any_size(r, 4096), 16 * any_size(r, 4096));
        break;
    case 8:
        costly_packet(b, "pwt"[below(r, 3)], (int)any_size(r, large ? 20000 : 1500), chance(r, 40));
        break;
    case 9:
        costly_space(b, 20000 + (unsigned)below(r, 50000));
        break;
    case 10:
        costly_iptc(b, (int)any_size(r, large ? 100000 : 3000));
        break;
    }
    if (chance(r, 10))
        mutate(b, r, 2);
}
