/* SPDX-License-Identifier: MIT */
/* latents.c - a latent that PyTorch or safetensors saved as the only tensor of a file, as an input of `zenith run`. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

bool latent_is_file(const char *path)
{
    static const char *const ends[] = { ".pth", ".pt", ".safetensors" };
    const size_t len = strlen(path);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (len > strlen(ends[i]) && !strcmp(path + len - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

/* [c][n][h][w] to n frames [h][w][c], one below the other. */
static void transpose(float *to, const float *from, int c, size_t pixels)
{
    for (size_t p = 0; p < pixels; p++)
        for (int i = 0; i < c; i++)
            to[p * (size_t)c + (size_t)i] = from[(size_t)i * pixels + p];
}

bool latent_read(zn_array *out, int *n, const char *path, zn_error *err)
{
    zn_weights *w = NULL;
    zn_weight_info t = { 0 };
    int64_t shape[4] = { 1, 1, 1, 1 }; /* c, n, h, w */
    int at = 0;
    float *data = NULL;
    size_t len = 1;

    out->data = NULL;
    if (zn_weights_open(&w, &path, 1, err))
        return false;
    if (zn_weights_count(w) == 1)
        t = zn_weights_info(w, 0);
    at = t.n_dims == 5 || (t.n_dims == 4 && t.shape[0] == 1); /* a batch of one */
    if (t.n_dims - at == 4)
        memcpy(shape, t.shape + at, sizeof shape);
    else if (t.n_dims - at == 3)
        shape[0] = t.shape[at], shape[2] = t.shape[at + 1], shape[3] = t.shape[at + 2];
    for (int i = 0; i < 4; i++) {
        if (t.n_dims - at < 3 || t.n_dims - at > 4 || (at && t.shape[0] != 1) || shape[i] < 1 || shape[i] > (1 << 20) ||
            len > ((size_t)1 << 34) / (size_t)shape[i] || shape[1] * shape[2] > INT32_MAX) {
            snprintf(err->text, sizeof err->text,
                     "%s is no latent: one tensor [1, channels, (frames,) height, width] is read", path);
            goto end;
        }
        len *= (size_t)shape[i];
    }
    data = malloc(len * sizeof *data);
    out->data = malloc(len * sizeof *data);
    if (!data || !out->data)
        snprintf(err->text, sizeof err->text, "%s does not fit in memory", path);
    if (!data || !out->data || zn_weights_read(data, len, w, t.name, err)) {
        free(out->data);
        out->data = NULL;
        goto end;
    }
    *n = (int)shape[1];
    *out = (zn_array){ out->data, (int32_t)(shape[1] * shape[2]), (int32_t)shape[3], (int32_t)shape[0] };
    transpose(out->data, data, (int)shape[0], len / (size_t)shape[0]);
end:
    free(data);
    zn_weights_close(&w);
    return out->data != NULL;
}
