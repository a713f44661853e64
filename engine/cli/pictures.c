/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "pictures.h"

#include "../zenith_file.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#ifdef ZN_HAVE_PNG
#include <png.h>
#endif
#ifdef ZN_HAVE_JPEG
#include <jpeglib.h>
#include <jerror.h>
#endif

/* A few kilobytes of PNG can hold a picture of gigabytes.  So a file of n bytes may have FREE_PIXELS + n *
 * PIXELS_PER_BYTE pixels: photographs have 2 to 10 for each byte, large ones that were made small for the web up to 48, and
 * decoding takes 15 bytes for each. */
enum { MAX_SIDE = 16384, FREE_PIXELS = 4 << 20, PIXELS_PER_BYTE = 64 };

/* Each pass of a progressive JPEG goes over all pixels, and takes 16 bytes.  Encoders make about ten. */
enum { MAX_PASSES = 100 };

/* libjpeg goes past all markers that it keeps to add another. */
enum { MAX_MARKERS = 4096 };

bool pictures_supported(void)
{
#if defined(ZN_HAVE_PNG) && defined(ZN_HAVE_JPEG)
    return true;
#else
    return false;
#endif
}

#if defined(ZN_HAVE_PNG) || defined(ZN_HAVE_JPEG)
static bool too_large(FILE *f, long long w, long long h, char why[WHY_SIZE])
{
    struct stat st;
    long long bytes = fstat(fileno(f), &st) ? 0 : (long long)st.st_size;

    if (w <= MAX_SIDE && h <= MAX_SIDE && w * h <= FREE_PIXELS + bytes * PIXELS_PER_BYTE)
        return false;
    snprintf(why, WHY_SIZE, "%lldx%lld pixels are too many for a file of %lld bytes", w, h, bytes);
    return true;
}

static void say_why(char why[WHY_SIZE], const char *text)
{
    snprintf(why, WHY_SIZE, "it cannot be read as a picture: %.100s", text);
}

/* Samples of 8 bits, or of 16, the high byte first. */
static float *as_floats(const unsigned char *x, int bits, size_t len)
{
    float *y = malloc(len * sizeof *y);

    for (size_t i = 0; y && i < len; i++)
        y[i] = bits == 8 ? (float)x[i] / 255 : (float)(x[2 * i] << 8 | x[2 * i + 1]) / 65535;
    return y;
}

/* One for other colours, as of a grey picture, says nothing about the three channels that are read. */
static void keep_profile(picture_info *info, const unsigned char *profile, size_t size)
{
    info->other_profile = size >= 20 && memcmp(profile + 16, "RGB ", 4) != 0;
    if (size < 20 || info->other_profile || !(info->profile = malloc(size)))
        return;
    memcpy(info->profile, profile, size);
    info->profile_size = size;
}
#endif

#ifdef ZN_HAVE_PNG
/* The file without its texts, of which libpng would inflate and keep each; the caller frees it. */
static unsigned char *load_png(FILE *f, size_t *size)
{
    enum { SIGNATURE = 8, AROUND = 12 }; /* length, type and checksum of a chunk */
    struct stat st;
    size_t from = SIGNATURE, to = SIGNATURE, n;
    unsigned char *data;

    if (fstat(fileno(f), &st) || st.st_size < SIGNATURE || !(data = malloc((size_t)st.st_size)))
        return NULL;
    *size = fread(data, 1, (size_t)st.st_size, f);
    for (; from + AROUND <= *size; from += n) {
        const unsigned char *c = data + from;

        n = ((size_t)c[0] << 24 | (size_t)c[1] << 16 | (size_t)c[2] << 8 | c[3]) + AROUND;
        if (n > *size - from)
            break;
        if (memcmp(c + 5, "TXt", 3) && memcmp(c + 5, "EXt", 3)) {
            memmove(data + to, c, n);
            to += n;
        }
    }
    memmove(data + to, data + from, *size - from); /* what is cut stays cut */
    *size -= from - to;
    return data;
}

typedef struct png_trouble {
    const unsigned char *data; /* of the file, what is left */
    size_t left;
    char *why;
} png_trouble;

static void png_leave(png_structp png, const char *text)
{
    const png_trouble *t = png_get_error_ptr(png);

    say_why(t->why, text);
    png_longjmp(png, 1);
}

static void png_silent(png_structp png, const char *text)
{
    (void)png, (void)text;
}

static void png_bytes(png_structp png, png_bytep to, size_t n)
{
    png_trouble *t = png_get_io_ptr(png);

    if (n > t->left)
        png_error(png, "the file is cut");
    memcpy(to, t->data, n);
    t->data += n;
    t->left -= n;
}

/* RGBA, or RGB where the file has no transparency: in the depth of the file, and in sRGB if it says no more than its gamma. */
static void ask_rgb(png_structp png, png_infop head, picture_info *info)
{
    png_charp name;
    png_bytep data;
    png_uint_32 n;
    double gamma;
    int how;

    if (png_get_iCCP(png, head, &name, &how, &data, &n))
        keep_profile(info, data, n);
    else if (!png_get_valid(png, head, PNG_INFO_sRGB) && png_get_gAMA(png, head, &gamma))
        png_set_gamma(png, PNG_DEFAULT_sRGB, gamma);
#ifdef PNG_eXIf_SUPPORTED
    if (png_get_eXIf_1(png, head, &n, &data))
        info->orientation = exif_orientation(data, n);
#endif
    png_set_expand(png);
    png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, head);
    info->bits = png_get_bit_depth(png, head);
}

/* RGBA to RGB, on white; whether there was anything transparent. */
static bool lay_on_white(unsigned char *x, int bits, size_t pixels)
{
    const size_t size = (size_t)bits / 8;
    const unsigned top = bits == 8 ? 255 : 65535;
    bool clear = false;

    for (size_t i = 0; i < pixels; i++) {
        const unsigned char *from = x + 4 * i * size;
        const unsigned a = size == 1 ? from[3] : (unsigned)from[6] << 8 | from[7];

        clear = clear || a < top;
        for (size_t k = 0; k < 3; k++) {
            const unsigned c = size == 1 ? from[k] : (unsigned)from[2 * k] << 8 | from[2 * k + 1];
            const unsigned v = (unsigned)(((uint64_t)c * a + (uint64_t)top * (top - a) + top / 2) / top);

            x[(3 * i + k) * size] = (unsigned char)(size == 1 ? v : v >> 8);
            x[(3 * i + k) * size + size - 1] = (unsigned char)v;
        }
    }
    return clear;
}

static bool read_png(zn_array *out, picture_info *info, FILE *f, char why[WHY_SIZE])
{
    size_t size = 0;
    unsigned char *volatile bytes = NULL, *volatile file = load_png(f, &size);
    unsigned char **volatile rows = NULL;
    png_trouble trouble = { file, size, why };
    png_structp png = file ? png_create_read_struct(PNG_LIBPNG_VER_STRING, &trouble, png_leave, png_silent) : NULL;
    png_infop head = png ? png_create_info_struct(png) : NULL;
    volatile bool ok = false;

    if (head && !setjmp(png_jmpbuf(png))) {
        png_set_read_fn(png, &trouble, png_bytes);
        png_read_info(png, head);
        *out = (zn_array){ NULL, (int32_t)png_get_image_height(png, head), (int32_t)png_get_image_width(png, head), 3 };
        if (!too_large(f, out->w, out->h, why)) {
            ask_rgb(png, head, info);
            bytes = malloc(png_get_rowbytes(png, head) * (size_t)out->h);
            rows = malloc((size_t)out->h * sizeof *rows);
            for (int32_t y = 0; bytes && rows && y < out->h; y++)
                rows[y] = bytes + png_get_rowbytes(png, head) * (size_t)y;
        }
        if (bytes && rows) {
            png_read_image(png, rows);
            png_read_end(png, NULL);
            why[0] = 0;
            if (png_get_channels(png, head) == 4 && lay_on_white(bytes, info->bits, (size_t)out->h * (size_t)out->w))
                snprintf(why, WHY_SIZE, "transparent parts are laid on white");
            out->data = as_floats(bytes, info->bits, zn_array_len(out));
            ok = out->data != NULL;
        }
    }
    png_destroy_read_struct(&png, &head, NULL);
    free(rows);
    free(bytes);
    free(file);
    return ok;
}
#endif

#ifdef ZN_HAVE_JPEG
typedef struct jpeg_trouble {
    struct jpeg_error_mgr base;
    jmp_buf back;
    char *why;
    boolean (*fill)(j_decompress_ptr c); /* that of jpeg_stdio_src */
    jpeg_saved_marker_ptr last;          /* of those that were counted */
    int n_markers;
} jpeg_trouble;

static void jpeg_leave(j_common_ptr c)
{
    longjmp(((jpeg_trouble *)c->err)->back, 1);
}

static void jpeg_fail(j_common_ptr c)
{
    char text[JMSG_LENGTH_MAX];

    c->err->format_message(c, text);
    say_why(((jpeg_trouble *)c->err)->why, text);
    jpeg_leave(c);
}

/* Where data is missing, libjpeg warns and goes on with grey; extra bytes between two markers do no harm. */
static void jpeg_warned(j_common_ptr c, int level)
{
    if (level < 0 && c->err->msg_code != JWRN_EXTRANEOUS_DATA && c->err->msg_code != JWRN_ADOBE_XFORM)
        jpeg_fail(c);
}

static void count_passes(j_common_ptr c)
{
    if (((j_decompress_ptr)c)->input_scan_number > MAX_PASSES)
        jpeg_leave(c);
}

static boolean count_markers(j_decompress_ptr c)
{
    jpeg_trouble *t = (jpeg_trouble *)c->err;

    for (jpeg_saved_marker_ptr m = t->last ? t->last->next : c->marker_list; m; m = m->next, t->n_markers++)
        t->last = m;
    if (t->n_markers > MAX_MARKERS) {
        say_why(t->why, "too many markers");
        jpeg_leave((j_common_ptr)c);
    }
    return t->fill(c);
}

static void read_markers(j_decompress_ptr c, picture_info *info)
{
    enum { EXIF = JPEG_APP0 + 1, NAME = 6 };
#if LIBJPEG_TURBO_VERSION_NUMBER >= 1005090
    JOCTET *profile = NULL;
    unsigned n = 0;

    if (jpeg_read_icc_profile(c, &profile, &n))
        keep_profile(info, profile, n);
    free(profile);
#endif
    for (jpeg_saved_marker_ptr m = c->marker_list; m; m = m->next)
        if (m->marker == EXIF && m->data_length > NAME && !memcmp(m->data, "Exif\0", NAME))
            info->orientation = exif_orientation(m->data + NAME, m->data_length - NAME);
}

static bool read_jpeg(zn_array *out, picture_info *info, FILE *f, char why[WHY_SIZE])
{
    struct jpeg_decompress_struct c = { 0 };
    struct jpeg_progress_mgr passes = { .progress_monitor = count_passes };
    jpeg_trouble trouble = { .why = why };
    unsigned char *volatile bytes = NULL;
    volatile bool ok = false;

    c.err = jpeg_std_error(&trouble.base);
    trouble.base.error_exit = jpeg_fail;
    trouble.base.emit_message = jpeg_warned;
    if (!setjmp(trouble.back)) {
        jpeg_create_decompress(&c); /* it allocates: it may leave */
        c.progress = &passes;
        jpeg_stdio_src(&c, f);
        trouble.fill = c.src->fill_input_buffer;
        c.src->fill_input_buffer = count_markers;
        jpeg_save_markers(&c, JPEG_APP0 + 1, 0xffff);
        jpeg_save_markers(&c, JPEG_APP0 + 2, 0xffff);
        jpeg_read_header(&c, TRUE);
        if (too_large(f, c.image_width, c.image_height, why))
            jpeg_leave((j_common_ptr)&c);
        if (c.jpeg_color_space == JCS_CMYK || c.jpeg_color_space == JCS_YCCK) {
            snprintf(why, WHY_SIZE, "its colours are CMYK: convert it to RGB first");
            jpeg_leave((j_common_ptr)&c);
        }
        read_markers(&c, info);
        c.out_color_space = JCS_RGB;
        jpeg_start_decompress(&c);
        *out = (zn_array){ NULL, (int32_t)c.output_height, (int32_t)c.output_width, 3 };
        bytes = malloc(zn_array_len(out));
        while (bytes && c.output_scanline < c.output_height) {
            unsigned char *row = bytes + (size_t)c.output_scanline * (size_t)out->w * 3;

            jpeg_read_scanlines(&c, &row, 1);
        }
        if (bytes) {
            jpeg_finish_decompress(&c);
            out->data = as_floats(bytes, 8, zn_array_len(out));
            ok = out->data != NULL;
            why[0] = 0;
        }
    }
    jpeg_destroy_decompress(&c);
    free(bytes);
    return ok;
}
#endif

void picture_info_free(picture_info *info)
{
    free(info->profile);
    *info = (picture_info){ 0 };
}

/* NULL, and why without the name, which callers say: there is no such file, or nothing in it. */
static FILE *open_it(char why[WHY_SIZE], const char *path)
{
    zn_error err = { "" };
    FILE *f = zn_input_open(path, &err);
    const size_t name = strlen(path);
    int first;

    if (!f) {
        const bool named = !strncmp(err.text, path, name);

        snprintf(why, WHY_SIZE, "%s%.*s", named ? "it" : "", WHY_SIZE - 3, err.text + (named ? name : 0));
        return NULL;
    }
    first = fgetc(f);
    if (first != EOF) {
        ungetc(first, f);
        return f;
    }
    snprintf(why, WHY_SIZE, "it %s", ferror(f) ? strerror(errno) : "is empty");
    fclose(f);
    return NULL;
}

zn_status picture_read(zn_array *out, picture_info *info, const char *path, char why[WHY_SIZE])
{
    picture_info found = { .bits = 8, .orientation = 1 };
    const char *dot = strrchr(path, '.');
    bool is_png = dot && !strcasecmp(dot, ".png");
    bool is_jpeg = dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")), ok = false;
    FILE *f;

#ifndef ZN_HAVE_PNG
    is_png = false;
#endif
#ifndef ZN_HAVE_JPEG
    is_jpeg = false;
#endif
    (void)out;
    if (!is_png && !is_jpeg)
        return ZN_E_USAGE;
    if (!(f = open_it(why, path)))
        return ZN_E_FILE;
    snprintf(why, WHY_SIZE, "it cannot be read as a picture");
    errno = 0; /* neither library says why it failed, but malloc does */
#ifdef ZN_HAVE_PNG
    if (is_png)
        ok = read_png(out, &found, f, why);
#endif
#ifdef ZN_HAVE_JPEG
    if (is_jpeg)
        ok = read_jpeg(out, &found, f, why);
#endif
    fclose(f);
    if (ok && !picture_turn(out, found.orientation)) {
        free(out->data);
        out->data = NULL;
        ok = false;
    }
    if (ok && found.other_profile)
        snprintf(why + strlen(why), WHY_SIZE - strlen(why),
                 "%sits colour profile is not one of RGB and is left out: zenith-batch keeps it", *why ? "; " : "");
    if (ok && info)
        *info = found;
    else
        picture_info_free(&found);
    return ok ? ZN_OK : errno == ENOMEM ? ZN_E_MEMORY : ZN_E_FILE;
}

bool picture_load(zn_array *out, picture_info *info, const char *path, zn_error *err)
{
    const char *dot = strrchr(path, '.');
    char why[WHY_SIZE];
    int rank;

    if (dot && !strcmp(dot, ".npy"))
        return npy_read(out, &rank, path, err);
    switch (picture_read(out, info, path, why)) {
    case ZN_OK:
        if (*why)
            fprintf(stderr, "zenith: %s: %s\n", path, why);
        return true;
    case ZN_E_USAGE:
        snprintf(err->text, sizeof err->text, "%.300s is no .npy file%s", path,
                 pictures_supported() ? " and no PNG or JPEG picture by its name; zenith-batch reads TIFF and WebP"
                                      : ", and this build lacks libpng or libjpeg");
        return false;
    default:
        snprintf(err->text, sizeof err->text, "%.300s: %s", path, why);
        return false;
    }
}

zn_status pictures_read(const char *folder, pictures_each *each, void *cookie)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, NULL, alphasort);
    zn_status s = n >= 0 ? ZN_OK : errno == ENOMEM ? ZN_E_MEMORY : ZN_E_FILE;
    bool more = true;

    for (int i = 0; i < n; i++) {
        char path[4096], why[WHY_SIZE];
        zn_array a = { 0 };

        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        if (more && s != ZN_E_MEMORY)
            s = picture_read(&a, NULL, path, why);
        if (more && (!s || s == ZN_E_FILE))
            more = each(cookie, list[i]->d_name, s ? NULL : &a, why);
        free(a.data);
        free(list[i]);
    }
    free(list);
    return s == ZN_E_MEMORY || n < 0 ? s : ZN_OK;
}

/* ---- arrays, and writing -------------------------------------------------------------------------------------- */

static bool read_array(void *cookie, zn_rect r, float *dst)
{
    const zn_array *a = cookie;
    const size_t c = (size_t)a->c, row = (size_t)r.w * c;

    for (int32_t i = 0; i < r.h; i++)
        memcpy(dst + (size_t)i * row, a->data + ((size_t)(r.y + i) * (size_t)a->w + (size_t)r.x) * c,
               row * sizeof *dst);
    return true;
}

zn_source array_source(zn_array *a)
{
    return (zn_source){ a->w, a->h, a->c, read_array, a };
}

bool picture_writes_png(void)
{
#ifdef ZN_HAVE_PNG
    return true;
#else
    return false;
#endif
}

typedef struct bytes {
    const zn_array *picture;
    const picture_info *info;
    unsigned char *data; /* of info->bits, as as_floats() reads them */
    bool png;
} bytes;

#ifdef ZN_HAVE_PNG
static void png_refuse(png_structp png, const char *text)
{
    zn_error *err = png_get_error_ptr(png);

    snprintf(err->text, sizeof err->text, "the picture cannot be written as PNG: %.100s", text);
    png_longjmp(png, 1);
}

/* A result that took minutes is not lost for a profile, nor for one that libpng knows as sRGB's, which it warns of later. */
static void put_profile(png_structp png, png_infop head, const picture_info *info)
{
    png_set_benign_errors(png, 1);
    png_set_iCCP(png, head, "ICC", PNG_COMPRESSION_TYPE_BASE, info->profile, (png_uint_32)info->profile_size);
    if (!png_get_valid(png, head, PNG_INFO_iCCP))
        fputs("zenith: the picture's colour profile is damaged: it is left out\n", stderr);
}

static zn_status write_png(const bytes *b, FILE *f, zn_error *err)
{
    const zn_array *p = b->picture;
    const picture_info *info = b->info;
    const size_t row = (size_t)p->w * 3 * (size_t)info->bits / 8;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, err, png_refuse, png_silent);
    png_infop head = png ? png_create_info_struct(png) : NULL;
    volatile zn_status s = ZN_E_FILE;

    if (!head)
        snprintf(err->text, sizeof err->text, "out of memory for the result");
    else if (!setjmp(png_jmpbuf(png))) {
        png_init_io(png, f);
        png_set_IHDR(png, head, (png_uint_32)p->w, (png_uint_32)p->h, info->bits, PNG_COLOR_TYPE_RGB,
                     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
        if (info->profile)
            put_profile(png, head, info);
        else
            png_set_sRGB(png, head, PNG_sRGB_INTENT_PERCEPTUAL);
        png_write_info(png, head);
        for (int32_t y = 0; y < p->h; y++)
            png_write_row(png, b->data + row * (size_t)y);
        png_write_end(png, head);
        s = ZN_OK;
    } else if (ferror(f))
        s = ZN_OK; /* libpng says "Write Error"; the end, which looks for errors, has the file and the reason */
    png_destroy_write_struct(&png, &head);
    return s;
}
#endif

static zn_status write_bytes(void *cookie, FILE *f, zn_error *err)
{
    const bytes *b = cookie;
    const zn_array *p = b->picture;

#ifdef ZN_HAVE_PNG
    if (b->png)
        return write_png(b, f, err);
#endif
    (void)err;
    fprintf(f, "P6\n%d %d\n%d\n", p->w, p->h, b->info->bits == 8 ? 255 : 65535);
    fwrite(b->data, (size_t)b->info->bits / 8, zn_array_len(p), f); /* the end looks for errors */
    return ZN_OK;
}

bool picture_write(const char *path, const zn_array *picture, const picture_info *info, bool png, zn_error *err)
{
    static const picture_info plain = { .bits = 8 };
    bytes b = { picture, info && info->bits ? info : &plain, NULL, png };
    const size_t size = (size_t)b.info->bits / 8;
    const float top = b.info->bits == 8 ? 255 : 65535;
    zn_status s = ZN_OK;

    b.data = malloc(zn_array_len(picture) * size);
    if (!b.data) {
        snprintf(err->text, sizeof err->text, "out of memory for the result");
        return false;
    }
    for (size_t i = 0; i < zn_array_len(picture); i++) {
        const float v = picture->data[i] * top + 0.5f;
        const unsigned n = v > 0 ? (unsigned)(v < top ? v : top) : 0; /* NaN gives 0 */

        b.data[i * size] = (unsigned char)(size == 1 ? n : n >> 8);
        b.data[i * size + size - 1] = (unsigned char)n;
    }
    s = zn_write_file(path, write_bytes, &b, err);
    free(b.data);
    return !s;
}
