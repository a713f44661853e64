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
 * PIXELS_PER_BYTE pixels: photographs have 2 to 10 for each byte, and decoding takes 15 bytes for each. */
enum { MAX_SIDE = 16384, FREE_PIXELS = 4 << 20, PIXELS_PER_BYTE = 32 };

/* Each pass of a progressive JPEG goes over all pixels, and takes 16 bytes.  Encoders make about ten. */
enum { MAX_PASSES = 100 };

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

static float *as_floats(const unsigned char *x, size_t len)
{
    float *y = malloc(len * sizeof *y);

    for (size_t i = 0; y && i < len; i++)
        y[i] = (float)x[i] / 255;
    return y;
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

static bool read_png(zn_array *out, FILE *f, char why[WHY_SIZE])
{
    const png_color white = { 255, 255, 255 }; /* without it libpng composes onto what the memory holds */
    png_image image = { .version = PNG_IMAGE_VERSION };
    unsigned char *bytes = NULL, *file;
    size_t size = 0;
    bool alpha;

    if (!(file = load_png(f, &size)) || !png_image_begin_read_from_memory(&image, file, size)) {
        free(file);
        return false;
    }
    alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
    image.format = PNG_FORMAT_RGB;
    if (!too_large(f, image.width, image.height, why))
        bytes = malloc(PNG_IMAGE_SIZE(image));
    if (!bytes || !png_image_finish_read(&image, &white, bytes, 0, NULL)) {
        png_image_free(&image);
        free(bytes);
        free(file);
        return false;
    }
    free(file);
    *out = (zn_array){ NULL, (int32_t)image.height, (int32_t)image.width, 3 };
    out->data = as_floats(bytes, zn_array_len(out));
    free(bytes);
    snprintf(why, WHY_SIZE, "%s", alpha ? "transparent parts are laid on white" : "");
    return out->data != NULL;
}
#endif

#ifdef ZN_HAVE_JPEG
typedef struct jpeg_trouble {
    struct jpeg_error_mgr base;
    jmp_buf back;
} jpeg_trouble;

static void jpeg_leave(j_common_ptr c)
{
    longjmp(((jpeg_trouble *)c->err)->back, 1);
}

/* Where data is missing, libjpeg warns and continues with grey.  Extra bytes between two markers are harmless. */
static void jpeg_warned(j_common_ptr c, int level)
{
    if (level < 0 && c->err->msg_code != JWRN_EXTRANEOUS_DATA && c->err->msg_code != JWRN_ADOBE_XFORM)
        jpeg_leave(c);
}

static void count_passes(j_common_ptr c)
{
    if (((j_decompress_ptr)c)->input_scan_number > MAX_PASSES)
        jpeg_leave(c);
}

static bool read_jpeg(zn_array *out, FILE *f, char why[WHY_SIZE])
{
    struct jpeg_decompress_struct c = { 0 };
    struct jpeg_progress_mgr passes = { .progress_monitor = count_passes };
    jpeg_trouble trouble;
    unsigned char *volatile bytes = NULL;
    volatile bool ok = false;

    c.err = jpeg_std_error(&trouble.base);
    trouble.base.error_exit = jpeg_leave;
    trouble.base.emit_message = jpeg_warned;
    if (!setjmp(trouble.back)) {
        jpeg_create_decompress(&c); /* it allocates: it may leave */
        c.progress = &passes;
        jpeg_stdio_src(&c, f);
        jpeg_read_header(&c, TRUE);
        if (too_large(f, c.image_width, c.image_height, why))
            jpeg_leave((j_common_ptr)&c);
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
            out->data = as_floats(bytes, zn_array_len(out));
            ok = out->data != NULL;
            why[0] = 0;
        }
    }
    jpeg_destroy_decompress(&c);
    free(bytes);
    return ok;
}
#endif

zn_status picture_read(zn_array *out, const char *path, char why[WHY_SIZE])
{
    const char *dot = strrchr(path, '.');
    bool is_png = dot && !strcasecmp(dot, ".png");
    bool is_jpeg = dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")), ok = false;
    zn_error err = { "" };
    FILE *f = NULL;

#ifndef ZN_HAVE_PNG
    is_png = false;
#endif
#ifndef ZN_HAVE_JPEG
    is_jpeg = false;
#endif
    (void)out;
    if (!is_png && !is_jpeg)
        return ZN_E_USAGE;
    if (!(f = zn_input_open(path, &err))) {
        snprintf(why, WHY_SIZE, "%.*s", WHY_SIZE - 1, err.text);
        return ZN_E_FILE;
    }
    snprintf(why, WHY_SIZE, "it cannot be read as a picture");
    errno = 0; /* neither library says why it failed, but malloc does */
#ifdef ZN_HAVE_PNG
    if (is_png)
        ok = read_png(out, f, why);
#endif
#ifdef ZN_HAVE_JPEG
    if (is_jpeg)
        ok = read_jpeg(out, f, why);
#endif
    fclose(f);
    return ok ? ZN_OK : errno == ENOMEM ? ZN_E_MEMORY : ZN_E_FILE;
}

bool picture_load(zn_array *out, const char *path, zn_error *err)
{
    const char *dot = strrchr(path, '.');
    char why[WHY_SIZE];
    int rank;

    if (dot && !strcmp(dot, ".npy"))
        return npy_read(out, &rank, path, err);
    switch (picture_read(out, path, why)) {
    case ZN_OK:
        if (*why)
            fprintf(stderr, "zenith: %s: %s\n", path, why);
        return true;
    case ZN_E_USAGE:
        snprintf(err->text, sizeof err->text, "%.300s is no .npy file%s", path,
                 pictures_supported() ? " and no PNG or JPEG picture by its name"
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
            s = picture_read(&a, path, why);
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
    unsigned char *data;
    bool png;
} bytes;

static zn_status write_bytes(void *cookie, FILE *f, zn_error *err)
{
    const bytes *b = cookie;
    const zn_array *p = b->picture;

#ifdef ZN_HAVE_PNG
    if (b->png) {
        png_image image = { .version = PNG_IMAGE_VERSION,
                            .width = (png_uint_32)p->w,
                            .height = (png_uint_32)p->h,
                            .format = PNG_FORMAT_RGB };

        if (png_image_write_to_stdio(&image, f, 0, b->data, 0, NULL))
            return ZN_OK;
        snprintf(err->text, sizeof err->text, "the picture cannot be written as PNG: %s", image.message);
        return ZN_E_FILE;
    }
#endif
    (void)err;
    fprintf(f, "P6\n%d %d\n255\n", p->w, p->h);
    fwrite(b->data, 1, zn_array_len(p), f); /* the end looks for errors */
    return ZN_OK;
}

bool picture_write(const char *path, const zn_array *picture, bool png, zn_error *err)
{
    bytes b = { picture, malloc(zn_array_len(picture)), png };
    zn_status s = ZN_OK;

    if (!b.data) {
        snprintf(err->text, sizeof err->text, "out of memory for the result");
        return false;
    }
    for (size_t i = 0; i < zn_array_len(picture); i++) {
        const float v = picture->data[i] * 255 + 0.5f;

        b.data[i] = v > 0 ? (unsigned char)(v < 255 ? v : 255) : 0; /* NaN gives 0 */
    }
    s = zn_write_file(path, write_bytes, &b, err);
    free(b.data);
    return !s;
}
