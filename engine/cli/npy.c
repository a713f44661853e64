/* SPDX-License-Identifier: MIT */
/* npy.c - NumPy's array files.
 *
 *   \x93NUMPY, version, header length (u16 or u32), a Python dict as text, then the elements. */
#include "cli.h"

#include "../zenith_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 65536 };

static bool bad(zn_error *err, const char *path, const char *why)
{
    snprintf(err->text, sizeof err->text, "%s %s", path, why);
    return false;
}

/* The text after 'key': in the header, or NULL. */
static const char *find_key(const char *head, const char *key)
{
    const char *p = strstr(head, key);

    if (!p)
        return NULL;
    p += strlen(key);
    while (*p == ' ' || *p == ':')
        p++;
    return p;
}

static bool parse_shape(const char *p, int64_t shape[4], int *rank)
{
    if (!p || *p++ != '(')
        return false;
    for (*rank = 0; *rank < 4;) {
        char *end;
        long long v;

        while (*p == ' ' || *p == ',')
            p++;
        if (*p == ')')
            break;
        v = strtoll(p, &end, 10);
        if (end == p || v < 1 || v > INT32_MAX)
            return false;
        shape[(*rank)++] = v;
        p = *end == 'L' ? end + 1 : end;
    }
    while (*p == ' ' || *p == ',')
        p++;
    return *p == ')' && *rank > 0;
}

static bool read_header(FILE *f, char *head, size_t *len)
{
    unsigned char fix[12];
    size_t n;

    if (fread(fix, 1, 10, f) != 10 || memcmp(fix, "\x93NUMPY", 6))
        return false;
    n = fix[8] | (size_t)fix[9] << 8;
    if (fix[6] > 1) {
        if (fread(fix + 10, 1, 2, f) != 2)
            return false;
        n |= (size_t)fix[10] << 16 | (size_t)fix[11] << 24;
    }
    if (n >= MAX_HEADER || fread(head, 1, n, f) != n)
        return false;
    head[n] = 0;
    *len = n;
    return strlen(head) == n;
}

/* Opens the file at its first element.  NULL: failed. */
static FILE *open_array(const char *path, int64_t shape[4], int *rank, bool *wide, zn_error *err)
{
    static const char *const kinds =
        "holds other numbers than float32 ('<f4') and int64 ('<i8'): numpy's astype converts them";
    char *head = malloc(MAX_HEADER);
    FILE *f = zn_input_open(path, err);
    const char *descr, *order;
    double n = 1;
    bool ok = false;
    size_t len, size;
    long begin, end;

    if (!f)
        goto end;
    if (!head) {
        bad(err, path, "does not fit in memory");
        goto end;
    }
    if (!read_header(f, head, &len)) {
        bad(err, path, "is not a .npy file");
        goto end;
    }
    descr = find_key(head, "'descr'");
    order = find_key(head, "'fortran_order'");
    if (!descr || (strncmp(descr, "'<f4'", 5) && strncmp(descr, "'<i8'", 5))) {
        bad(err, path, kinds);
        goto end;
    }
    *wide = descr[2] == 'i';
    if (!order || strncmp(order, "False", 5)) {
        bad(err, path, "is in Fortran order; save it with numpy.ascontiguousarray");
        goto end;
    }
    if (!parse_shape(find_key(head, "'shape'"), shape, rank)) {
        bad(err, path, "must have one to four axes of at least 1");
        goto end;
    }
    for (int i = 0; i < *rank; i++)
        n *= (double)shape[i];
    if (n > 1e11) {
        bad(err, path, "is too large");
        goto end;
    }
    size = (size_t)n * (*wide ? 8 : 4);
    /* Never allocates more than the file holds. */
    begin = ftell(f);
    if (begin < 0 || fseek(f, 0, SEEK_END) || (end = ftell(f)) < begin || (size_t)(end - begin) < size) {
        bad(err, path, "ends before its numbers do");
        goto end;
    }
    if ((size_t)(end - begin) > size) {
        bad(err, path, "goes on after its numbers");
        goto end;
    }
    ok = !fseek(f, begin, SEEK_SET);
end:
    free(head);
    if (f && !ok)
        fclose(f);
    return ok ? f : NULL;
}

/* The next n elements as floats; data must hold them as they are in the file. */
static bool read_numbers(FILE *f, float *data, size_t n, bool wide)
{
    if (fread(data, wide ? 8 : 4, n, f) != n)
        return false;
    for (size_t i = 0; wide && i < n; i++) { /* in place: the writer never overtakes the reader */
        int64_t v;

        memcpy(&v, (char *)data + 8 * i, 8);
        data[i] = (float)v;
    }
    return true;
}

bool npy_read(zn_array *out, int *rank, const char *path, zn_error *err)
{
    int64_t shape[4] = { 1, 1, 1, 1 };
    bool wide = false, ok = false;
    FILE *f = open_array(path, shape, rank, &wide, err);
    size_t n;

    out->data = NULL;
    if (!f)
        return false;
    if (*rank == 4) {
        bad(err, path, "has four axes: this model takes no video");
        goto end;
    }
    if (*rank == 1) /* a vector: 1 x 1 x D */
        shape[2] = shape[0], shape[0] = 1;
    *out = (zn_array){ NULL, (int32_t)shape[0], (int32_t)shape[1], (int32_t)shape[2] };
    n = zn_array_len(out);
    out->data = malloc(n * (wide ? 8 : 4));
    ok = out->data && read_numbers(f, out->data, n, wide);
    if (!ok)
        bad(err, path, out->data ? "ends before its numbers do" : "does not fit in memory");
end:
    if (!ok)
        free(out->data), out->data = NULL;
    fclose(f);
    return ok;
}

int npy_rank(const char *path)
{
    int64_t shape[4];
    zn_error err;
    bool wide;
    int rank = 0;
    FILE *f = open_array(path, shape, &rank, &wide, &err);

    if (f)
        fclose(f);
    return f ? rank : 0;
}

/* ---- video, frame by frame ---------------------------------------------------------------------------------- */

static size_t frame_len(const zn_frames *v)
{
    return (size_t)v->h * (size_t)v->w * (size_t)v->c;
}

static bool read_frame(void *cookie, int32_t i, float *frame)
{
    npy_video *v = cookie;

    (void)i; /* they come in order */
    return read_numbers(v->f, frame, frame_len(&v->frames), false);
}

bool npy_open_video(npy_video *v, const char *path, zn_error *err)
{
    int64_t shape[4];
    bool wide = false;
    int rank = 0;

    *v = (npy_video){ .f = open_array(path, shape, &rank, &wide, err) };
    if (!v->f)
        return false;
    if (rank != 4 || wide) {
        fclose(v->f);
        v->f = NULL;
        return bad(err, path, "is no video of float32 numbers");
    }
    v->frames =
        (zn_frames){ (int32_t)shape[0], (int32_t)shape[1], (int32_t)shape[2], (int32_t)shape[3], read_frame, v };
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static void put_header(FILE *f, const int32_t *shape, int rank)
{
    char head[128];
    int n = snprintf(head + 10, sizeof head - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (");

    for (int i = 0; i < rank; i++)
        n += snprintf(head + 10 + n, sizeof head - 10 - (size_t)n, "%d%s", shape[i],
                      rank == 1          ? ","
                          : i < rank - 1 ? ", "
                                         : "");
    n += snprintf(head + 10 + n, sizeof head - 10 - (size_t)n, "), }");
    memset(head + 10 + n, ' ', sizeof head - 10 - (size_t)n);
    memcpy(head, "\x93NUMPY\x01", 8); /* with the second version byte, 0 */
    head[8] = sizeof head - 10;
    head[9] = 0;
    head[sizeof head - 1] = '\n';
    fwrite(head, 1, sizeof head, f);
}

bool npy_write(const char *path, const zn_array *a, int rank, zn_error *err)
{
    const int32_t shape[3] = { a->h, a->w, a->c };
    zn_output out;

    if (zn_output_begin(&out, path, err))
        return false;
    put_header(out.f, rank == 1 ? shape + 2 : shape, rank);
    fwrite(a->data, sizeof(float), zn_array_len(a), out.f);
    return !zn_output_end(&out, ZN_OK, err);
}

bool check_numbers(const float *x, size_t len, zn_error *err)
{
    for (size_t i = 0; i < len; i++)
        if (!isfinite(x[i])) {
            snprintf(err->text, sizeof err->text, "The network's result is not finite.");
            return false;
        }
    return true;
}

static bool write_frame(void *cookie, int32_t i, float *frame)
{
    npy_video *v = cookie;

    (void)i;
    return check_numbers(frame, frame_len(&v->frames), &v->err) &&
        fwrite(frame, sizeof *frame, frame_len(&v->frames), v->f) == frame_len(&v->frames);
}

bool npy_create_video(npy_video *v, const char *path, zn_error *err)
{
    const int32_t shape[4] = { v->frames.n, v->frames.h, v->frames.w, v->frames.c };

    v->frames.move = write_frame;
    v->frames.cookie = v;
    if (zn_output_begin(&v->out, path, err))
        return false;
    v->f = v->out.f;
    put_header(v->f, shape, 4);
    return true;
}

bool npy_close_video(npy_video *v, bool ok, zn_error *err)
{
    zn_error ignored;

    if (v->out.f)
        ok = !zn_output_end(&v->out, ok ? ZN_OK : ZN_E_FILE, ok ? err : &ignored) && ok;
    else if (v->f)
        fclose(v->f);
    v->f = NULL;
    if (*v->err.text)
        *err = v->err;
    return ok;
}

size_t clean_numbers(float *x, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        if (!isfinite(x[i])) {
            x[i] = 0;
            n++;
        }
    return n;
}

void say_cleaned(size_t n, const char *what)
{
    if (n)
        fprintf(stderr, "zenith: %zu values of %s are infinite or not a number: taken as 0\n", n, what);
}
