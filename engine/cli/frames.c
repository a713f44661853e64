/* SPDX-License-Identifier: MIT */
/* frames.c - a video as the input of a model, frame by frame: a .npy file of four axes, a folder of PNG and JPEG files in the
 * order of the numbers in their names, or a latent in a weight file, which is read whole. */
#include "frames.h"

#include "pictures.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- frames in memory -------------------------------------------------------------------------------------------- */

static bool memory_frame(video_input *v, int32_t i, float *frame)
{
    memcpy(frame, v->all.data + (size_t)i * v->len, v->len * sizeof *frame);
    return true;
}

static bool open_latent(video_input *v, const char *path, zn_error *err)
{
    int n = 1;

    if (!latent_read(&v->all, &n, path, err))
        return false;
    v->frames = (zn_frames){ .n = n, .h = v->all.h / n, .w = v->all.w, .c = v->all.c };
    v->next = memory_frame;
    return true;
}

/* ---- an array ------------------------------------------------------------------------------------------------------ */

static bool array_frame(video_input *v, int32_t i, float *frame)
{
    return v->array.frames.move(v->array.frames.cookie, i, frame);
}

static bool open_array(video_input *v, const char *path, zn_error *err)
{
    if (!npy_open_video(&v->array, path, err))
        return false;
    v->frames = v->array.frames;
    v->next = array_frame;
    return true;
}

/* ---- a folder -------------------------------------------------------------------------------------------------------- */

static int is_picture(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');

    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

/* Names in the order of the numbers in them: 2.png comes before 10.png. */
static int by_number(const struct dirent **x, const struct dirent **y)
{
    const char *a = (*x)->d_name, *b = (*y)->d_name;

    while (*a && *b) {
        const size_t zeros_a = strspn(a, "0"), zeros_b = strspn(b, "0");
        const size_t n = strspn(a + zeros_a, "0123456789"), m = strspn(b + zeros_b, "0123456789");

        if ((zeros_a || n) && (zeros_b || m)) {
            const int order = n != m ? (n > m) - (n < m) : strncmp(a + zeros_a, b + zeros_b, n);

            if (order)
                return order;
            a += zeros_a + n, b += zeros_b + m;
        } else if (*a != *b) {
            break;
        } else {
            a++, b++;
        }
    }
    return *a != *b ? (unsigned char)*a - (unsigned char)*b : strcmp((*x)->d_name, (*y)->d_name);
}

static bool read_picture(video_input *v, zn_array *a, int32_t i)
{
    char path[4096], why[WHY_SIZE];
    zn_status s;

    snprintf(path, sizeof path, "%s/%s", v->folder, v->list[i]->d_name);
    s = picture_read(a, NULL, path, why);
    if (s)
        snprintf(v->err.text, sizeof v->err.text, "%.300s: %s", path,
                 s == ZN_E_MEMORY      ? "there is not enough memory for it"
                     : s == ZN_E_USAGE ? "this build reads no such pictures"
                                       : why);
    return !s;
}

/* 0..1 becomes -1..1, as the networks have it. */
static bool folder_frame(video_input *v, int32_t i, float *frame)
{
    zn_array a = { 0 };
    bool ok = read_picture(v, &a, i);

    if (ok && (a.h != v->frames.h || a.w != v->frames.w)) {
        snprintf(v->err.text, sizeof v->err.text, "%.200s is %d x %d where the first frame is %d x %d",
                 v->list[i]->d_name, a.w, a.h, v->frames.w, v->frames.h);
        ok = false;
    }
    for (size_t j = 0; ok && j < v->len; j++)
        frame[j] = 2 * a.data[j] - 1;
    free(a.data);
    return ok;
}

static bool open_folder(video_input *v, const char *path, zn_error *err)
{
    zn_array first = { 0 };

    v->folder = path;
    v->n_list = scandir(path, &v->list, is_picture, by_number);
    if (v->n_list < 1) {
        snprintf(err->text, sizeof err->text, "there are no PNG or JPEG files in %.300s", path);
        return false;
    }
    if (!read_picture(v, &first, 0)) {
        *err = v->err;
        return false;
    }
    free(first.data);
    v->frames = (zn_frames){ .n = v->n_list, .h = first.h, .w = first.w, .c = 3 };
    v->next = folder_frame;
    return true;
}

/* ---- any of them ---------------------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool video_is_input(const char *path)
{
    return is_folder(path) || latent_is_file(path) || npy_rank(path) == 4;
}

static bool clean_frame(void *cookie, int32_t i, float *frame)
{
    video_input *v = cookie;

    if (!v->next(v, i, frame))
        return false;
    v->n_cleaned += clean_numbers(frame, v->len);
    return true;
}

bool video_open(video_input *v, const char *path, zn_error *err)
{
    *v = (video_input){ 0 };
    if (!(is_folder(path) ? open_folder : latent_is_file(path) ? open_latent : open_array)(v, path, err))
        return false;
    v->len = (size_t)v->frames.h * (size_t)v->frames.w * (size_t)v->frames.c;
    v->frames.move = clean_frame;
    v->frames.cookie = v;
    return true;
}

void video_close(video_input *v)
{
    zn_error ignored;

    npy_close_video(&v->array, true, &ignored);
    free(v->all.data);
    for (int i = 0; i < v->n_list; i++)
        free(v->list[i]);
    free(v->list);
}
