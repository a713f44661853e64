/* SPDX-License-Identifier: MIT */
/* autoencoder.c - which file and network is a half of an autoencoder.
 *
 * Some are published as two files, NAME_encoder and NAME_decoder, others as one; a person may name a file, one of two, or a
 * folder.  Any file is taken whose networks are the two halves of a family (NAME-encode, NAME-decode), or one network from
 * picture to picture.  wan-video takes the files of wan-vae. */
#include "grid.h"
#include "session.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096 };

static const char *const half_word[] = { [ZN_ENCODER] = "encode", [ZN_DECODER] = "decode" };

/* What is known of some. */
static const struct kind {
    const char *name, *network; /* the networks' family where it has another name; NULL: it does not */
    const char *colours;        /* a projection of its latents to colours; NULL: none is known */
    bool halves;                /* published as two files */
    bool whole;                 /* one network, from picture to picture */
} kinds[] = {
    { "taesd", NULL, "sd-latent-rgb", true, false },       { "taesdxl", "taesd", "sdxl-latent-rgb", true, false },
    { "taesd3", "taesd", "sd3-latent-rgb", true, false },  { "taef1", "taesd", "flux-latent-rgb", true, false },
    { "taef2", "taesd", "flux2-latent-rgb", true, false }, { "taesana", "taesd", NULL, true, false },
    { "zenith-tae", "taesd", NULL, false, false },         { "zenith-f2", "zenith", NULL, false, false },
    { "wan-vae", NULL, "wan-latent-rgb", false, false },   { "zenith-ae", NULL, NULL, false, true },
    { "zenith-prune", NULL, NULL, false, true },           { "conv-baseline-ae", NULL, NULL, false, true },
};

#define VIDEO "wan-video"
#define STILL "wan-vae"

static struct kind kind_of(const char *name)
{
    struct kind k = { .name = name };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name))
            k = kinds[i];
    k.network = k.network ? k.network : name;
    return k;
}

static bool exists(const char *path, bool folder)
{
    struct stat st;

    return !stat(path, &st) && (!folder || S_ISDIR(st.st_mode));
}

/* The stems that a half may have, best first. */
static void stems_of(char stem[2][64], zn_half half, const char *name)
{
    snprintf(stem[0], sizeof stem[0], "%s_%sr", name, half_word[half]);
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

/* The id of a half of that family. */
static void id_of(char id[64], zn_half half, const char *family)
{
    snprintf(id, 64, "%.48s-%s", family, half_word[half]);
}

/* Which autoencoder the file holds: the kind's networks become those whose weights it recognises. */
static zn_status recognise(struct kind *k, char family[64], const char *path, zn_error *err)
{
    const char *found = NULL;
    zn_weights *weights = NULL;
    char what[96], id[64];
    struct kind of;
    zn_half half;

    if (!zn_weights_open(&weights, &path, 1, NULL))
        found = zn_weights_recognise(weights, what, sizeof what);
    zn_weights_close(&weights);
    if (!found) /* opening it will tell why */
        return ZN_OK;
    for (half = ZN_ENCODER; half <= ZN_DECODER; half++) {
        const size_t end = strlen("-encode"), len = strlen(found);

        snprintf(family, 64, "%.*s", len > end ? (int)(len - end) : 0, found);
        id_of(id, half, family);
        if (strcmp(id, found))
            continue;
        id_of(id, !half, family);
        if (!zn_model_named(id))
            break;
        if (strcmp(k->name, VIDEO)) {
            k->network = family;
            k->whole = false;
        } else if (strcmp(family, STILL)) {
            break;
        }
        return ZN_OK;
    }
    of = kind_of(found);
    if (!strcmp(k->name, VIDEO))
        return zn_fail(err, ZN_E_FILE, "%s: these are weights of %s, which takes no video", path, found);
    if (!of.whole)
        return zn_fail(err, ZN_E_FILE, "%s: these are weights of %s, which is no autoencoder", path, found);
    k->network = of.name;
    k->whole = true;
    return ZN_OK;
}

/* Opens a half.  That of a network from picture to picture is the network itself, and its decoder a copy. */
static zn_status use_half(zn_use **out, zn_session *session, zn_half half, const zn_autoencoder_choice *choice,
                          const zn_terms *terms, bool *coloured, zn_error *err)
{
    const char *weights = choice->weights;
    struct kind k = kind_of(choice->name);
    const bool random = weights && !strncmp(weights, ZN_RANDOM_WEIGHTS, strlen(ZN_RANDOM_WEIGHTS));
    char path[PATH_SIZE], id[64], family[64];
    zn_status s = ZN_OK;

    if (random)
        snprintf(path, sizeof path, "%s", weights);
    else
        s = find(path, half, strcmp(k.name, VIDEO) ? k.name : STILL, weights, err);
    *coloured = s && half == ZN_DECODER && k.colours; /* a latent has colours without a decoder, too */
    if (*coloured)
        return zn_use_begin(out, session, k.colours, NULL, terms, err);
    if (!s && !random)
        s = recognise(&k, family, path, err);
    if (k.whole && half == ZN_DECODER)
        return zn_use_begin(out, session, "identity", NULL, terms, err);
    if (s)
        return s;
    if (k.whole)
        return zn_use_begin(out, session, k.network, path, terms, err);
    id_of(id, half, k.network);
    return zn_use_begin(out, session, id, path, terms, err);
}

/* What shows its latents by their colours: a projection that the weight file has, or one that is known for them.  Stays NULL
 * where there is none. */
static void use_colours(zn_use **out, zn_session *session, const zn_autoencoder_choice *choice,
                        const zn_latents *latents, const zn_terms *terms)
{
    const char *known = kind_of(choice->name).colours, *file;
    const zn_geometry *g;
    char path[PATH_SIZE];
    zn_weights *w = NULL;
    bool own = false;

    if (latents->factor == 1)
        known = "identity";
    file = find(path, ZN_ENCODER, choice->name, choice->weights, NULL) ? NULL : path;
    if (file && !zn_weights_open(&w, &file, 1, NULL))
        for (int i = 0; i < zn_weights_count(w); i++)
            own = own || !strcmp(zn_weights_info(w, i).name, "view.weight");
    zn_weights_close(&w);
    if ((!own && !known) || zn_use_begin(out, session, own ? "latent-rgb" : known, own ? file : NULL, terms, NULL))
        return;
    g = zn_model_geometry(zn_use_model(*out));
    if (g->in_c != latents->channels || g->grow != latents->factor)
        zn_use_end(out);
}

/* ---- the latents between the halves -------------------------------------------------------------------------------- */

static zn_latents latents_of(const zn_use *use, zn_half half)
{
    const zn_geometry *g = zn_model_geometry(zn_use_model(use));

    return half == ZN_ENCODER ? (zn_latents){ g->out_c, g->shrink, g->only_w, g->only_h }
                              : (zn_latents){ g->in_c, g->grow, g->only_w * g->grow, g->only_h * g->grow };
}

static zn_status open_halves(zn_autoencoder *a, zn_session *session, unsigned parts,
                             const zn_autoencoder_choice *choice, const zn_terms *terms, zn_note *note, zn_error *err)
{
    zn_latents second;
    bool coloured;
    zn_status s;

    if (parts & ZN_ENCODES) {
        if ((s = use_half(&a->encoder, session, ZN_ENCODER, choice, terms, &coloured, err)))
            return s;
        a->latents = latents_of(a->encoder, ZN_ENCODER);
    }
    if (parts & ZN_COLOURS)
        use_colours(&a->decoder, session, choice, &a->latents, terms);
    if (!(parts & ZN_DECODES))
        return ZN_OK;
    if ((s = use_half(&a->decoder, session, ZN_DECODER, choice, terms, &coloured, err)))
        return s;
    second = latents_of(a->decoder, ZN_DECODER);
    if (!a->encoder)
        a->latents = second;
    if (a->latents.channels != second.channels || a->latents.factor != second.factor)
        return zn_fail(err, ZN_E_FILE,
                       "The encoder makes %d channels at 1/%d, the decoder wants %d at 1/%d: these weights "
                       "do not belong together.",
                       a->latents.channels, a->latents.factor, second.channels, second.factor);
    if (coloured && note) {
        zn_error sentence;

        zn_fail(&sentence, ZN_OK,
                "There is no file of the decoder %s: the latent is shown by its colors, without detail.", choice->name);
        zn_note_add(note, sentence.text);
    }
    return ZN_OK;
}

zn_status zn_autoencoder_open(zn_autoencoder *out, zn_session *session, unsigned parts,
                              const zn_autoencoder_choice *choice, const zn_terms *terms, zn_note *note, zn_error *err)
{
    zn_status s;

    *out = (zn_autoencoder){ .encoder = NULL };
    s = open_halves(out, session, parts, choice, terms, note, err);
    if (s)
        zn_autoencoder_close(out);
    return s;
}

void zn_autoencoder_close(zn_autoencoder *a)
{
    zn_use_end(&a->encoder);
    zn_use_end(&a->decoder);
}

zn_status zn_latents_size(int32_t *w, int32_t *h, const zn_latents *l, int32_t picture_w, int32_t picture_h,
                          zn_error *err)
{
    if (l->only_w && (picture_w > l->only_w || picture_h > l->only_h))
        return zn_fail(
            err, ZN_E_USAGE,
            "these weights take pictures of up to %d x %d, not of %d x %d: those trained with --windows take "
            "any",
            l->only_w, l->only_h, picture_w, picture_h);
    *w = zn_ceil_div(l->only_w ? l->only_w : picture_w, l->factor);
    *h = zn_ceil_div(l->only_h ? l->only_h : picture_h, l->factor);
    return ZN_OK;
}

void zn_autoencoder_grid(zn_grid *out, const zn_autoencoder *a, int32_t w, int32_t h)
{
    zn_grid_of_halves(out, zn_model_geometry(zn_use_model(a->encoder)),
                      a->decoder ? zn_model_geometry(zn_use_model(a->decoder)) : NULL, w, h);
}
