/* SPDX-License-Identifier: MIT */
/* test_costs.c - what reading a picture may cost: hostile files are refused or cheap, compressible ones are read.  Costs
 * are those of the budget's counters, never times. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#include "../attack/costly.h"
#include "metadata.h"
#include "picture.h"
#include "zenith-settings.h"

enum { MIB = 1 << 20 };
static int passed, failed;
static char folder[64];
static ZnBudget budget;

static void check(bool ok, const char *name, const char *why)
{
    printf(ok ? "ok %s\n" : "not ok %s: %s\n", name, why);
    passed += ok;
    failed += !ok;
}

static int store(const bytes *b)
{
    char path[80];

    snprintf(path, sizeof path, "%s/x", folder);
    if (!bytes_save(b, path))
        exit(2);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The picture of the bytes, and a sentence, or nothing. */
static ZnPicture *load(bytes *b, char said[256])
{
    int fd = store(b);
    const ZnFormat *format = zn_format_by_content(fd);
    GError *error = NULL;
    ZnPicture *picture = format ? zn_picture_load(fd, format, &budget, &error) : NULL;

    snprintf(said, 256, "%s", error ? error->message : picture ? "it was read" : "no format");
    g_clear_error(&error);
    close(fd);
    return picture;
}

/* It is refused with a sentence that has these words. */
static void refused(const char *name, bytes *b, const char *words)
{
    char said[256];
    ZnPicture *picture = load(b, said);

    check(!picture && strstr(said, words), name, said);
    zn_picture_free(picture);
    b->len = 0;
}

/* It is read, for less than so much work. */
static void cheap(const char *name, bytes *b, uint64_t most)
{
    char said[256];
    ZnPicture *picture = load(b, said);

    if (picture)
        snprintf(said, sizeof said, "work %llu", (unsigned long long)picture->share.work);
    check(picture && picture->share.work < most, name, said);
    zn_picture_free(picture);
    b->len = 0;
}

/* Written again, no step of a table is 0: on x86-64 dividing by it ends the process, elsewhere it gives nonsense. */
static void zero_steps(void)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr trouble;
    bytes b = { 0 };
    char said[256];
    ZnPicture *picture;
    GError *error = NULL;
    int fd, zeros = 0;
    FILE *f;

    costly_jpeg(&b, 40, 30, 3, 0, 0);
    picture = load(&b, said);
    fd = memfd_create("written", MFD_CLOEXEC);
    check(picture && zn_picture_save(picture, &zn_format_jpeg, fd, &error), "a table with zeros can be written", said);
    g_clear_error(&error);
    f = fdopen(fd, "rb");
    rewind(f);
    c.err = jpeg_std_error(&trouble);
    jpeg_create_decompress(&c);
    jpeg_stdio_src(&c, f);
    jpeg_read_header(&c, TRUE);
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        for (int k = 0; c.quant_tbl_ptrs[i] && k < DCTSIZE2; k++)
            zeros += !c.quant_tbl_ptrs[i]->quantval[k];
    check(!zeros, "and has none then", "there are zeros");
    jpeg_destroy_decompress(&c);
    fclose(f);
    zn_picture_free(picture);
    bytes_free(&b);
}

/* libtiff takes every byte from our function: nothing is mapped, so a file that shrinks is an error. */
static void tiff_is_read(void)
{
    bytes b = { 0 };
    char said[256];
    ZnPicture *picture;
    uint64_t small;

    costly_values(&b, 1, 10);
    picture = load(&b, said);
    small = picture ? picture->share.work : 0;
    zn_picture_free(picture);
    b.len = 0;
    costly_values(&b, 1, 100000); /* charged as an entry, and again when it is read */
    picture = load(&b, said);
    check(picture && picture->share.work >= small + 200000 - 20, "TIFF files are read, not mapped", said);
    zn_picture_free(picture);
    bytes_free(&b);
}

/* A packet that exiv2 would take minutes for stays as it is. */
static void packets(void)
{
    static const char formats[] = "pw";
    bytes b = { 0 };
    char said[256];

    for (int i = 0; formats[i]; i++)
        for (int many = 0; many < 2; many++) {
            ZnPicture *picture;
            gsize before = 0, after = 0;

            b.len = 0;
            costly_packet(&b, formats[i], many ? 20000 : 20, true);
            picture = load(&b, said);
            if (picture && picture->xmp) {
                before = g_bytes_get_size(picture->xmp);
                zn_metadata_mark(picture, "test", NULL);
                after = g_bytes_get_size(picture->xmp);
            }
            check(before && (many ? after == before : after != before),
                  many ? "a packet of 20,000 namespaces stays" : "one of 20 is marked", said);
            zn_picture_free(picture);
        }
    b.len = 0;
    costly_packet(&b, 't', 20000, true);
    ZnPicture *picture = load(&b, said);
    GError *error = NULL;

    check(picture && !zn_metadata_charge(picture, &error) && strstr(error->message, "longer than"),
          "in a TIFF file it is refused", said);
    g_clear_error(&error);
    zn_picture_free(picture);
    bytes_free(&b);
}

/* Nothing is read, and nobody waits, after a stop. */
static void stopped(void)
{
    ZnBudget own;
    ZnShare one, two;
    GError *error = NULL;

    zn_budget_init(&own);
    zn_share_begin(&one, &own, 1);
    zn_share_begin(&two, &own, 1);
    check(zn_share_memory(&one, 300 * (guint64)MIB, NULL) && zn_share_wait(&one, NULL) && own.used == 300 * (gsize)MIB,
          "a share is taken", "it is not");
    check(zn_share_memory(&one, 50 * (guint64)MIB, NULL) && own.used == 350 * (gsize)MIB, "and more of it",
          "it is not");
    zn_share_memory(&two, 500 * (guint64)MIB, NULL);
    own.limit = 400 * (gsize)MIB;
    zn_budget_stop(&own); /* two would wait for one */
    check(!zn_share_wait(&two, &error) && g_error_matches(error, ZN_ERROR, ZN_ERROR_CANCELLED), "who waits is woken",
          "no error");
    g_clear_error(&error);
    check(!zn_share_work(&one, 0, &error) && g_error_matches(error, ZN_ERROR, ZN_ERROR_CANCELLED),
          "no work after a stop", "no error");
    g_clear_error(&error);
    zn_share_end(&one);
    zn_share_end(&two);
    check(!own.used, "all is given back", "it is not");
}

static void limits(void)
{
    ZnShare share;
    GError *error = NULL;

    zn_share_begin(&share, &budget, 1000);
    check(share.memory_max == 512 * (guint64)MIB + 512000 && share.work_max == 2 * share.memory_max,
          "the limits of a file of 1,000 bytes", "others");
    check(!zn_share_memory(&share, share.memory_max + 1, &error) && error->code == ZN_ERROR_FAILED && !share.memory,
          "what is refused is not charged", "it is");
    g_clear_error(&error);
    check(zn_share_memory(&share, share.memory_max, NULL) && !zn_share_memory(&share, 1, NULL), "to the last byte",
          "not so");
    check(!zn_share_work(&share, G_MAXUINT64, NULL), "no number is too large", "it is taken");
    zn_share_begin(&share, &budget, G_MAXUINT64);
    check(zn_share_memory(&share, G_MAXUINT64 / 2, NULL), "ours have no limit", "they have");
}

/* ZENITH_MEMORY says what it says to the engine. */
static void memory_that_is_set(void)
{
    static const struct {
        const char *text;
        guint64 mib; /* 0: the default */
    } cases[] = { { "600", 600 }, { "1.5G", 1536 }, { "1e3", 1000 }, { "2g", 2048 }, { "600M", 600 },
                  { "", 0 },      { "abc", 0 },     { "-5", 0 },     { "0", 0 },     { "1e999", 0 } };
    ZnBudget usual;

    zn_budget_init(&usual);
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        ZnBudget own;

        g_setenv("ZENITH_MEMORY", cases[i].text, TRUE);
        zn_budget_init(&own);
        check(own.limit == (cases[i].mib ? cases[i].mib * MIB : usual.limit), "a limit of memory that is set",
              cases[i].text);
    }
    g_unsetenv("ZENITH_MEMORY");
}

/* So many colour spaces in a process, and no more; those that it has, it reads again. */
static void spaces(void)
{
    bytes b = { 0 };
    char said[256];
    int read = 0;

    for (unsigned i = 0; i < 30; i++) {
        b.len = 0;
        costly_space(&b, 30000 + 100 * i);
        ZnPicture *picture = load(&b, said);

        read += picture != NULL;
        zn_picture_free(picture);
    }
    check(read == 24 && strstr(said, "run it again"), "24 colour spaces in a process", said);
    b.len = 0;
    costly_space(&b, 30000);
    cheap("one that it has", &b, MIB);
    bytes_free(&b);
}

/* A result that is larger than its picture is charged before it is made. */
static void grows(const char *name, bytes *b, int scale, const char *words)
{
    char said[256];
    ZnPicture *picture = load(b, said);
    GError *error = NULL;
    const guint64 before = picture ? picture->share.memory : 0;
    const bool ok = picture && zn_picture_grow(picture, scale, &error);

    if (error)
        snprintf(said, sizeof said, "%s", error->message);
    check(words ? !ok && strstr(said, words) : ok && picture->share.memory > before, name, said);
    g_clear_error(&error);
    zn_picture_free(picture);
    b->len = 0;
}

int main(void)
{
    const struct rlimit limit = { 600, 600 }; /* seconds of a processor: a reader that hangs */
    bytes b = { 0 };
    rnd r = { 1 };

    g_unsetenv("ZENITH_MEMORY");
    snprintf(folder, sizeof folder, "/tmp/zenith-costs-XXXXXX");
    if (!mkdtemp(folder))
        return 2;
    g_setenv("GEGL_PATH", "/nowhere", TRUE); /* babl is needed, no operation */
    zn_metadata_init();
    gegl_init(NULL, NULL);
    zn_budget_init(&budget);
    setrlimit(RLIMIT_CPU, &limit);

    limits();
    memory_that_is_set();
    stopped();
    zero_steps();
    costly_pointers(&b, &r, 1, 30);
    cheap("30 pointers to their own directory", &b, 64 * MIB);
    costly_pointers(&b, &r, 5, 20);
    cheap("directories in circles", &b, 64 * MIB);
    costly_pointers(&b, &r, 1, 4000);
    refused("4,000 pointers to their own directory", &b, "longer than a file of");
    costly_tile(&b, 65536, 65536);
    refused("a tile of 64 GiB", &b, "longer than a file of");
    costly_tile(&b, 2048, 2048);
    refused("a tile of 64 MiB that the file does not hold", &b, "damaged");
    costly_values(&b, 4000, 200000);
    refused("4,000 entries of the same 200 kB", &b, "of memory that a file of");
    tiff_is_read();
    costly_png(&b, 8, 8, 600, 300000);
    refused("600 chunks of text of 300 kB", &b, "of memory that a file of");
    costly_png(&b, 8, 8, 20, 300000);
    cheap("20 of them", &b, 64 * MIB);
    costly_webp(&b, 16383, 16383);
    refused("a WebP of 38 bytes, 16383 x 16383 pixels", &b, "of memory that a file of");
    costly_webp(&b, 4000, 3000);
    cheap("a white WebP of 12 megapixels", &b, 64 * MIB);
    costly_png(&b, 4000, 3000, 0, 0);
    cheap("a white PNG of 12 megapixels", &b, 64 * MIB);
    costly_jpeg(&b, 4000, 3000, 0, 0, 800);
    refused("800 passes over 12 megapixels", &b, "longer than a file of");
    costly_jpeg(&b, 1000, 1000, 0, 0, 12);
    cheap("12 passes over one", &b, 64 * MIB);
    costly_jpeg(&b, 8, 8, 0, 20000, 0);
    refused("20,000 comments", &b, "longer than a file of");
    costly_jpeg(&b, 8, 8, 0, 200, 0);
    cheap("200 comments", &b, 64 * MIB);
    costly_iptc(&b, 60000);
    refused("60,000 entries of IPTC", &b, "longer than a file of");
    costly_png(&b, 1000, 1000, 0, 0);
    grows("a megapixel, 4 times as wide and high", &b, 4, NULL);
    costly_png(&b, 4000, 3000, 0, 0);
    grows("432 megapixels of a white PNG", &b, 6, "a result of 24000 x 18000 pixels: ");
    costly_png(&b, 4000, 3000, 0, 0);
    grows("a result that is too large", &b, 1000, "a picture of 4000000 x 3000000 pixels is too large");
    packets();
    spaces();

    bytes_free(&b);
    char path[80];

    snprintf(path, sizeof path, "%s/x", folder);
    unlink(path);
    rmdir(folder);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
