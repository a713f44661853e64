/* SPDX-License-Identifier: MIT */
/* npy.c - NumPy's array files.
 *
 *   \x93NUMPY, version, header length (u16 or u32), a Python dict as text, then the numbers. */
#include "cli.h"

#include "../zenith_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 65536 };

static bool bad(zn_error *err, const char *path, const char *why)
{
    snprintf(err->text, sizeof err->text, "%s: %s", path, why);
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

static bool parse_shape(const char *p, int64_t shape[3], int *rank)
{
    if (!p || *p++ != '(')
        return false;
    for (*rank = 0; *rank < 3;) {
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

bool npy_read(zn_array *out, int *rank, const char *path, zn_error *err)
{
    static const char *const kinds = "float32 ('<f4') or int64 ('<i8') numbers are read";
    char *head = malloc(MAX_HEADER);
    FILE *f = fopen(path, "rb");
    int64_t shape[3] = { 1, 1, 1 };
    const char *descr, *order;
    bool ok = false, wide;
    size_t n, len, size;
    long begin, end;

    out->data = NULL;
    if (!f || !head) {
        bad(err, path, f ? "out of memory" : "cannot be opened");
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
    wide = descr[2] == 'i';
    if (!order || strncmp(order, "False", 5)) {
        bad(err, path, "is in Fortran order; save it with numpy.ascontiguousarray");
        goto end;
    }
    if (!parse_shape(find_key(head, "'shape'"), shape, rank)) {
        bad(err, path, "must have one to three axes of at least 1");
        goto end;
    }
    if (*rank == 1) /* a vector: 1 x 1 x D */
        shape[2] = shape[0], shape[0] = 1;
    if ((double)shape[0] * (double)shape[1] * (double)shape[2] > 1e11) {
        bad(err, path, "is too large");
        goto end;
    }
    *out = (zn_array){ NULL, (int32_t)shape[0], (int32_t)shape[1], (int32_t)shape[2] };
    n = zn_array_len(out);
    size = n * (wide ? 8 : 4);
    /* The file says how much to allocate only as far as it holds that much. */
    begin = ftell(f);
    if (begin < 0 || fseek(f, 0, SEEK_END) || (end = ftell(f)) < begin || (size_t)(end - begin) < size) {
        bad(err, path, "ends before its numbers do");
        goto end;
    }
    if ((size_t)(end - begin) > size) {
        bad(err, path, "goes on after its numbers");
        goto end;
    }
    fseek(f, begin, SEEK_SET);
    out->data = malloc(n * (wide ? 8 : 4));
    if (!out->data || fread(out->data, wide ? 8 : 4, n, f) != n) {
        bad(err, path, out->data ? "ends before its numbers do" : "does not fit in memory");
        goto end;
    }
    for (size_t i = 0; wide && i < n; i++) { /* in place: the writer never overtakes the reader */
        int64_t v;

        memcpy(&v, (char *)out->data + 8 * i, 8);
        out->data[i] = (float)v;
    }
    ok = true;
end:
    if (!ok)
        free(out->data), out->data = NULL;
    if (f)
        fclose(f);
    free(head);
    return ok;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

typedef struct job {
    const zn_array *a;
    int rank;
} job;

static zn_status put_array(void *cookie, FILE *f, zn_error *err)
{
    const job *j = cookie;
    const zn_array *a = j->a;
    char head[128];
    int n;

    (void)err;
    if (j->rank == 1)
        n = snprintf(head + 10, sizeof head - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }", a->c);
    else
        n = snprintf(head + 10, sizeof head - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d), }",
                     a->h, a->w, a->c);
    memset(head + 10 + n, ' ', sizeof head - 10 - (size_t)n);
    memcpy(head, "\x93NUMPY\x01", 8); /* with the second version byte, 0 */
    head[8] = sizeof head - 10;
    head[9] = 0;
    head[sizeof head - 1] = '\n';
    fwrite(head, 1, sizeof head, f);
    fwrite(a->data, sizeof(float), zn_array_len(a), f);
    return ZN_OK;
}

bool npy_write(const char *path, const zn_array *a, int rank, zn_error *err)
{
    return !zn_write_file(path, put_array, &(job){ a, rank }, err);
}
