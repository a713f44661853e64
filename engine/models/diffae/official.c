/* SPDX-License-Identifier: MIT */
/* official.c - the contents of the files of a diffusion autoencoder, especially the published ones.
 *
 *   last.ckpt of the autoencoder      ema_model.* (averaged; used), model.* (training's own), x_T
 *   last.ckpt of the latent network   the same with ema_model.latent_net.*, conds_mean, conds_std
 *   last.ckpt of the classifier       classifier.weight [40][code], classifier.bias, ema_classifier.*, conds_mean, conds_std
 *   latent.pkl                        conds [n][code], conds_mean, conds_std
 *   our own files                     the networks without a prefix, conds_mean, conds_std
 *   attribute files                   directions [n][code], mean, std, step, guide */
#include "diffae.h"

#include <stdio.h>
#include <string.h>

/* CelebA's attributes in the order of the published classifier. */
static const char celeba[] =
    "5_o_Clock_Shadow,Arched_Eyebrows,Attractive,Bags_Under_Eyes,Bald,Bangs,Big_Lips,Big_Nose,Black_Hair,Blond_Hair,"
    "Blurry,"
    "Brown_Hair,Bushy_Eyebrows,Chubby,Double_Chin,Eyeglasses,Goatee,Gray_Hair,Heavy_Makeup,High_Cheekbones,Male,"
    "Mouth_Slightly_Open,Mustache,Narrow_Eyes,No_Beard,Oval_Face,Pale_Skin,Pointy_Nose,Receding_Hairline,Rosy_Cheeks,"
    "Sideburns,Smiling,Straight_Hair,Wavy_Hair,Wearing_Earrings,Wearing_Hat,Wearing_Lipstick,Wearing_Necklace,"
    "Wearing_Necktie,Young";
enum { N_CELEBA = 40 };

/* Entry prefix + name, or NULL. */
static const zn_entry *get(const zn_weights *w, const char *prefix, const char *name)
{
    char full[160];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    return zn_weights_get(w, full);
}

/* The size of a matrix along a dimension; 0: it is none, or larger than any network here. */
static int side(const zn_entry *e, int dim)
{
    return e && e->n_dims >= 2 && e->shape[dim] > 0 && e->shape[dim] <= ZN_DIFFAE_MAX_C ? (int)e->shape[dim] : 0;
}

static int count_layers(const zn_weights *w, const char *prefix)
{
    char name[64];
    int n = 0;

    do
        snprintf(name, sizeof name, "latent_net.layers.%d.linear.weight", n);
    while (get(w, prefix, name) && ++n < 1000);
    return n;
}

bool zn_diffae_look(zn_diffae_file *f, const zn_weights *w)
{
    const zn_entry *mean = zn_weights_get(w, "conds_mean"), *std = zn_weights_get(w, "conds_std");
    const zn_entry *classes = zn_weights_get(w, "classifier.weight"), *directions = zn_weights_get(w, "directions");
    const char *prefix = zn_diffae_prefix(w);
    size_t n_mean = mean ? zn_entry_len(mean) : 0;

    *f = (zn_diffae_file){ .prefix = prefix, .averaged = !strcmp(prefix, "ema_model.") };
    if (get(w, prefix, "time_embed.time_embed.0.weight"))
        f->unet = side(get(w, prefix, "input_blocks.1.0.cond_emb_layers.1.weight"), 1);
    if (get(w, prefix, "encoder.input_blocks.0.0.weight"))
        f->encoder = side(get(w, prefix, "encoder.out.3.weight"), 0);
    f->latent = side(get(w, prefix, "latent_net.layers.0.linear.weight"), 1);
    f->layers = f->latent ? count_layers(w, prefix) : 0;
    if (std && n_mean == zn_entry_len(std) && n_mean > 0 && n_mean <= ZN_DIFFAE_MAX_C)
        f->statistics = (int)n_mean;
    if (side(classes, 1) && classes->n_dims == 2) {
        f->classifier = side(classes, 1);
        f->classes = side(classes, 0);
    } else if (side(directions, 1) && zn_weights_meta(w, "names")) {
        f->attributes = side(directions, 1);
        f->classes = side(directions, 0);
    }
    f->code = f->unet   ? f->unet
        : f->encoder    ? f->encoder
        : f->latent     ? f->latent
        : f->classifier ? f->classifier
        : f->attributes ? f->attributes
                        : f->statistics;
    return f->code > 0;
}

static void say(const zn_diffae_file *f, char *what, size_t size)
{
    char latent[64] = "";

    if (f->latent)
        snprintf(latent, sizeof latent, ", latent network of %d layers", f->layers);
    if (f->unet)
        snprintf(what, size, "diffusion autoencoder%s%s%s, code of %d numbers%s",
                 f->encoder ? "" : " without its encoder", latent, f->statistics ? ", statistics of codes" : "",
                 f->code, f->averaged ? "; averaged weights" : "");
    else if (f->latent)
        snprintf(what, size, "part of a diffusion autoencoder%s, code of %d numbers", latent, f->code);
    else if (f->classifier)
        snprintf(what, size, "classifier of a diffusion autoencoder's codes: %d attributes, code of %d numbers%s",
                 f->classes, f->code, f->statistics ? "" : ", without statistics of codes");
    else if (f->attributes)
        snprintf(what, size, "attributes of a diffusion autoencoder's codes: %d, code of %d numbers", f->classes,
                 f->code);
    else
        snprintf(what, size, "%s of a diffusion autoencoder, code of %d numbers",
                 f->encoder ? "encoder" : "statistics of the codes", f->code);
}

bool zn_diffae_tells(zn_diffae_role role, const zn_weights *w, char *what, size_t size)
{
    zn_diffae_file f;
    zn_diffae_role is;

    if (!zn_diffae_look(&f, w))
        return false;
    is = f.unet                                                      ? ZN_DIFFAE_IS_UNET
        : f.latent || (!f.encoder && !f.classifier && !f.attributes) ? ZN_DIFFAE_IS_LATENT
                                                                     : ZN_DIFFAE_IS_CODES;
    if (is != role)
        return false;
    say(&f, what, size);
    return true;
}

/* "latent_net.layers.3.cond_layers.1.weight" is layers.3.linear_emb.weight once more. */
static bool is_alias(const char *name)
{
    return !strncmp(name, "latent_net.layers.", 18) && strstr(name, ".cond_layers.");
}

const char *zn_diffae_kept_name(const zn_diffae_file *f, const char *name)
{
    const size_t len = strlen(f->prefix);

    if (!strncmp(name, "conds", 5) || !strncmp(name, "classifier.", 11) || !strncmp(name, "ema_classifier.", 15))
        return NULL; /* what is needed of these is copied by name */
    if (!f->unet && !f->encoder && !f->latent)
        return NULL;
    if (strncmp(name, f->prefix, len) || is_alias(name + len) || (!len && !strcmp(name, "x_T")))
        return NULL;
    return name + len;
}

void zn_diffae_class_names(char *names, size_t size, int n)
{
    size_t len = 0;

    if (n == N_CELEBA) {
        snprintf(names, size, "%s", celeba);
        return;
    }
    for (int i = 0; i < n && len < size; i++)
        len += (size_t)snprintf(names + len, size - len, "%sclass-%d", i ? "," : "", i);
}
