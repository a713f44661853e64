/* SPDX-License-Identifier: MIT */
/* turn.c - the orientation that EXIF says, and pictures turned by it: phones store what the sensor sees. */
#include "pictures.h"

#include <stdlib.h>
#include <string.h>

static size_t number(const unsigned char *p, int bytes, bool little)
{
    size_t v = 0;

    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[little ? bytes - 1 - i : i];
    return v;
}

int exif_orientation(const unsigned char *exif, size_t size)
{
    enum { HEADER = 8, ENTRY = 12, ORIENTATION = 0x112, SHORT = 3 };
    size_t at, n;
    bool little;

    if (size < HEADER || (memcmp(exif, "II*", 4) && memcmp(exif, "MM\0*", 4)))
        return 1;
    little = *exif == 'I';
    at = number(exif + 4, 4, little);
    if (at > size - 2)
        return 1;
    n = number(exif + at, 2, little);
    for (at += 2; n && size - at >= ENTRY; n--, at += ENTRY)
        if (number(exif + at, 2, little) == ORIENTATION && number(exif + at + 2, 2, little) == SHORT) {
            const size_t v = number(exif + at + 8, 2, little);

            return v >= 1 && v <= 8 ? (int)v : 1;
        }
    return 1;
}

bool picture_turn(zn_array *p, int orientation)
{
    const bool swapped = orientation >= 5, mirrored = strchr("\2\3\7\10", orientation);
    const bool upside_down = strchr("\3\4\6\7", orientation);
    const int32_t w = p->w, h = p->h, c = p->c;
    zn_array to = { NULL, swapped ? w : h, swapped ? h : w, c };
    float *out;

    if (orientation == 1)
        return true;
    out = to.data = malloc(zn_array_len(&to) * sizeof *to.data);
    if (!to.data)
        return false;
    for (int32_t y = 0; y < to.h; y++)
        for (int32_t x = 0; x < to.w; x++, out += c) {
            const int32_t sx = swapped ? y : x, sy = swapped ? x : y;
            const int32_t fx = mirrored ? w - 1 - sx : sx, fy = upside_down ? h - 1 - sy : sy;

            memcpy(out, p->data + ((size_t)fy * (size_t)w + (size_t)fx) * (size_t)c, (size_t)c * sizeof *out);
        }
    free(p->data);
    *p = to;
    return true;
}
