/* SPDX-License-Identifier: MIT */
#include "pictures.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef ZN_HAVE_PNG
#include <png.h>
#endif
#ifdef ZN_HAVE_JPEG
#include <jpeglib.h>
#endif

enum { MAX_SIDE = 16384 };

bool pictures_supported(void)
{
#if defined(ZN_HAVE_PNG) && defined(ZN_HAVE_JPEG)
    return true;
#else
    return false;
#endif
}

#if defined(ZN_HAVE_PNG) || defined(ZN_HAVE_JPEG)
static float *as_floats(const unsigned char *x, size_t len)
{
    float *y = malloc(len * sizeof *y);

    for (size_t i = 0; y && i < len; i++)
        y[i] = (float)x[i] / 255;
    return y;
}
#endif

#ifdef ZN_HAVE_PNG
static bool read_png(zn_array *out, const char *path)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    unsigned char *bytes = NULL;

    if (!png_image_begin_read_from_file(&image, path))
        return false;
    image.format = PNG_FORMAT_RGB;
    if (image.width <= MAX_SIDE && image.height <= MAX_SIDE)
        bytes = malloc(PNG_IMAGE_SIZE(image));
    if (!bytes || !png_image_finish_read(&image, NULL, bytes, 0, NULL)) {
        png_image_free(&image);
        free(bytes);
        return false;
    }
    *out = (zn_array){ NULL, (int32_t)image.height, (int32_t)image.width, 3 };
    out->data = as_floats(bytes, zn_array_len(out));
    free(bytes);
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

static void jpeg_silent(j_common_ptr c, int level)
{
    (void)c, (void)level;
}

static bool read_jpeg(zn_array *out, const char *path)
{
    FILE *f = fopen(path, "rb");
    struct jpeg_decompress_struct c;
    jpeg_trouble trouble;
    unsigned char *volatile bytes = NULL;
    volatile bool ok = false;

    if (!f)
        return false;
    c.err = jpeg_std_error(&trouble.base);
    trouble.base.error_exit = jpeg_leave;
    trouble.base.emit_message = jpeg_silent;
    jpeg_create_decompress(&c);
    if (!setjmp(trouble.back)) {
        jpeg_stdio_src(&c, f);
        jpeg_read_header(&c, TRUE);
        c.out_color_space = JCS_RGB;
        jpeg_start_decompress(&c);
        *out = (zn_array){ NULL, (int32_t)c.output_height, (int32_t)c.output_width, 3 };
        if (out->w <= MAX_SIDE && out->h <= MAX_SIDE)
            bytes = malloc(zn_array_len(out));
        while (bytes && c.output_scanline < c.output_height) {
            unsigned char *row = bytes + (size_t)c.output_scanline * (size_t)out->w * 3;

            jpeg_read_scanlines(&c, &row, 1);
        }
        if (bytes) {
            jpeg_finish_decompress(&c);
            out->data = as_floats(bytes, zn_array_len(out));
            ok = out->data != NULL;
        }
    }
    jpeg_destroy_decompress(&c);
    free(bytes);
    fclose(f);
    return ok;
}
#endif

typedef enum found { NO_PICTURE, UNREADABLE, READ } found;

/* What a file is, by its name, and what it holds. */
static found read_picture(zn_array *out, const char *path)
{
    const char *dot = strrchr(path, '.');

#ifdef ZN_HAVE_PNG
    if (dot && !strcasecmp(dot, ".png"))
        return read_png(out, path) ? READ : UNREADABLE;
#endif
#ifdef ZN_HAVE_JPEG
    if (dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")))
        return read_jpeg(out, path) ? READ : UNREADABLE;
#endif
    (void)out, (void)dot;
    return NO_PICTURE;
}

int pictures_read(const char *folder, bool (*each)(void *cookie, const char *name, const zn_array *picture),
                  void *cookie)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, NULL, alphasort), count = 0;
    bool more = true;

    for (int i = 0; i < n; i++) {
        char path[4096];
        zn_array a = { 0 };

        found f;

        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        f = more ? read_picture(&a, path) : NO_PICTURE;

        if (f != NO_PICTURE)
            more = each(cookie, list[i]->d_name, f == READ ? &a : NULL);
        count += f == READ;
        free(a.data);
        free(list[i]);
    }
    free(list);
    return n < 0 ? -1 : count;
}
