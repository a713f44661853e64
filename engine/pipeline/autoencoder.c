/* SPDX-License-Identifier: MIT */
/* autoencoder.c - which file and network is a half of an autoencoder.
 *
 * Some are published as two files, NAME_encoder and NAME_decoder, others as one; a person may name a file, one of two, or a
 * folder. */
#include "session.h"

#include "../core/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096 };

static const char *const half_word[] = { [ZN_ENCODER] = "encoder", [ZN_DECODER] = "decoder" };

/* What is known of some. */
static const struct kind {
    const char *name, *colours; /* a projection of its latents to colours; NULL: none is known */
    bool halves;                /* published as two files */
} kinds[] = {
    { "taesd", "sd-latent-rgb", true },     { "taesdxl", "sdxl-latent-rgb", true },
    { "taesd3", "sd3-latent-rgb", true },   { "taef1", "flux-latent-rgb", true },
    { "taef2", "flux2-latent-rgb", true },  { "taesana", NULL, true },
    { "wan-vae", "wan-latent-rgb", false },
};

static struct kind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name))
            return kinds[i];
    return (struct kind){ name, NULL, false };
}

static bool exists(const char *path, bool folder)
{
    struct stat st;

    return !stat(path, &st) && (!folder || S_ISDIR(st.st_mode));
}

/* The stems that a half may have, best first. */
static void stems_of(char stem[2][64], zn_half half, const char *name)
{
    snprintf(stem[0], sizeof stem[0], "%s_%s", name, half_word[half]);
    snprintf(stem[1], sizeof stem[1], "%s", name);
}

/* What the user gave: a folder with the files that would be found by name, a file of both halves, or one half whose name
 * tells how the other is called. */
static void given(char path[PATH_SIZE], zn_half half, const char *name, const char *weights)
{
    static const char *const ends[] = { "safetensors", "pth", "pt", "ckpt" };
    const char *other = half_word[!half], *slash = strrchr(weights, '/'), *found;
    char stem[2][64];

    if (exists(weights, true)) {
        stems_of(stem, half, name);
        for (int i = 0; i < 2; i++)
            for (size_t j = 0; j < sizeof ends / sizeof *ends; j++)
                if (snprintf(path, PATH_SIZE, "%s/%s.%s", weights, stem[i], ends[j]) < PATH_SIZE && exists(path, false))
                    return;
    } else if ((found = strstr(slash ? slash + 1 : weights, other)) &&
               snprintf(path, PATH_SIZE, "%.*s%s%s", (int)(found - weights), weights, half_word[half],
                        found + strlen(other)) < PATH_SIZE &&
               exists(path, false)) {
        return;
    }
    snprintf(path, PATH_SIZE, "%s", weights);
}

/* Where the file of a half is. */
static zn_status find(char path[PATH_SIZE], zn_half half, const char *name, const char *weights, zn_error *err)
{
    const bool halves = kind_of(name).halves;
    char stem[2][64];
    zn_status s;

    if (weights && *weights) {
        given(path, half, name, weights);
        return ZN_OK;
    }
    /* The message names the file that the user most likely has. */
    stems_of(stem, half, name);
    s = zn_weights_find(path, PATH_SIZE, stem[halves ? 0 : 1], err);
    if (s && halves && !zn_weights_find(path, PATH_SIZE, stem[1], NULL))
        return ZN_OK;
    if (s && halves && err) {
        const size_t len = strlen(err->text);

        snprintf(err->text + len, sizeof err->text - len, ". %s",
                 zn_tr("They are published at https://github.com/madebyollin/taesd."));
    }
    return s;
}

/* The id of a half: that of the networks whose weights the file holds, or else TAESD's. */
static void id_of(char id[64], zn_half half, const char *path)
{
    static const char *const families[] = { "zenith", "flux-ae", "wan-vae", "wan2d-vae" };
    const char *family = "taesd", *found = NULL;
    zn_weights *weights = NULL;
    char what[96];

    if (!zn_weights_open(&weights, &path, 1, NULL))
        found = zn_weights_recognise(weights, what, sizeof what);
    for (size_t i = 0; found && i < sizeof families / sizeof *families; i++) {
        const size_t len = strlen(families[i]);

        if (!strncmp(found, families[i], len) && found[len] == '-' && strlen(found) == len + strlen("-encode"))
            family = families[i];
    }
    snprintf(id, 64, "%s-%s", family, half == ZN_ENCODER ? "encode" : "decode");
    zn_weights_close(&weights);
}

zn_status zn_use_autoencoder(zn_use **out, zn_session *session, zn_half half, const char *name, const char *weights,
                             const zn_terms *terms, zn_error *err)
{
    const char *colours = kind_of(name).colours;
    char path[PATH_SIZE], id[64];
    zn_status s = find(path, half, name, weights, err);

    *out = NULL;
    if (s) /* a latent has colours without a decoder, too */
        return half == ZN_DECODER && colours ? zn_use_begin(out, session, colours, NULL, terms, err) : s;
    id_of(id, half, path);
    return zn_use_begin(out, session, id, path, terms, err);
}

zn_status zn_use_colours(zn_use **out, zn_session *session, const char *name, const char *weights, int channels,
                         int factor, const zn_terms *terms, zn_error *err)
{
    const char *known = kind_of(name).colours, *file;
    char path[PATH_SIZE];
    zn_weights *w = NULL;
    bool own = false;
    zn_status s;

    *out = NULL;
    file = find(path, ZN_ENCODER, name, weights, NULL) ? NULL : path;
    if (file && !zn_weights_open(&w, &file, 1, NULL))
        for (int i = 0; i < zn_weights_count(w); i++)
            own = own || !strcmp(zn_weights_info(w, i).name, "view.weight");
    zn_weights_close(&w);
    if (!own && !known)
        return zn_fail(err, ZN_E_USAGE, "%s makes no picture", name);
    s = zn_use_begin(out, session, own ? "latent-rgb" : known, own ? file : NULL, terms, err);
    if (!s &&
        (zn_model_geometry(zn_use_model(*out))->in_c != channels ||
         zn_model_geometry(zn_use_model(*out))->grow != factor)) {
        zn_use_end(out);
        s = zn_fail(err, ZN_E_USAGE, "%s makes no picture", name);
    }
    return s;
}
