/* SPDX-License-Identifier: MIT */
/* enhance.h - what the tests of denoise, restore and upscale share: pictures in memory, a session, and a task of each kind. */
#ifndef ZN_TEST_ENHANCE_H
#define ZN_TEST_ENHANCE_H

#include "../unit/test.h"

#include "pipeline/enhance.h"

#include <stdlib.h>

static zn_session *session;

static inline bool open_session(void)
{
    zn_error err;

    setenv("ZENITH_MODELS", ZN_SOURCE_ROOT "/models", 1);
    if (!zn_session_open(&session, &err))
        return true;
    fprintf(stderr, "%s\n", err.text);
    return false;
}

/* ---- pictures ------------------------------------------------------------------------------------------------- */

typedef struct picture {
    zn_array rgb;
    int reads; /* that succeed; -1: all */
} picture;

static inline bool read_picture(void *cookie, zn_rect r, float *dst)
{
    picture *p = cookie;

    if (!p->reads)
        return false;
    if (p->reads > 0)
        p->reads--;
    for (int y = r.y; y < r.y + r.h; y++, dst += (size_t)r.w * 3)
        memcpy(dst, p->rgb.data + ((size_t)y * (size_t)p->rgb.w + (size_t)r.x) * 3, (size_t)r.w * 3 * sizeof *dst);
    return true;
}

static inline bool write_picture(void *cookie, zn_rect r, const float *src)
{
    const picture *p = cookie;

    for (int y = r.y; y < r.y + r.h; y++, src += (size_t)r.w * 3)
        memcpy(p->rgb.data + ((size_t)y * (size_t)p->rgb.w + (size_t)r.x) * 3, src, (size_t)r.w * 3 * sizeof *src);
    return true;
}

static inline picture new_picture(int w, int h)
{
    picture p = { { NULL, h, w, 3 }, -1 };

    p.rgb.data = calloc(zn_array_len(&p.rgb), sizeof(float));
    return p;
}

/* Waves and edges with some noise, in 8 bits. */
static inline picture scene(int w, int h)
{
    picture p = new_picture(w, h);
    float *noise = malloc(zn_array_len(&p.rgb) * sizeof *noise);

    zn_noise_fill(noise, zn_array_len(&p.rgb), 7, 0);
    for (size_t i = 0; i < zn_array_len(&p.rgb); i++) {
        const int x = (int)(i / 3) % w, y = (int)(i / 3) / w, c = (int)(i % 3);
        const float v = 0.5f + 0.25f * sinf((float)(x * (c + 1)) * 0.06f) * cosf((float)y * 0.09f) +
            0.15f * (float)((x / 17 + y / 13) % 2) + 0.04f * noise[i];

        p.rgb.data[i] = roundf(255 * zn_clean(v)) / 255;
    }
    free(noise);
    return p;
}

/* Smooth, with an edge. */
static inline picture clean_scene(int w, int h)
{
    picture p = new_picture(w, h);

    for (size_t i = 0; i < zn_array_len(&p.rgb); i++) {
        const int x = (int)(i / 3) % w, y = (int)(i / 3) / w, c = (int)(i % 3);
        const float v =
            0.5f + 0.25f * sinf((float)(x * (c + 1)) * 0.01f) * cosf((float)y * 0.02f) + (x > 2 * y ? 0.2f : 0);

        p.rgb.data[i] = roundf(255 * zn_clean(v)) / 255;
    }
    return p;
}

static inline zn_source source_of(picture *p)
{
    return (zn_source){ p->rgb.w, p->rgb.h, 3, read_picture, p };
}

/* ---- tasks ---------------------------------------------------------------------------------------------------- */

static inline zn_status denoise(zn_enhance_plan *plan, double strength, double sigma, int w, int h)
{
    zn_denoise how = zn_denoise_defaults();

    how.model = "fast";
    how.strength = strength;
    how.sigma = sigma;
    return zn_denoise_describe(plan, session, NULL, &how, w, h, 0, NULL);
}

#endif
