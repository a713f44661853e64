/* SPDX-License-Identifier: MIT */
/* z_image_files.c - where the files of Z-Image are: see zn_zimage_find. */
#define _POSIX_C_SOURCE 200809L

#include "find.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct part {
    const char *name, *size, *place;
    const char *folder;   /* of the published folder, with weight files in it; NULL: it has none */
    const char *file[2];  /* of the published folder; NULL: none */
    const char *stems[3]; /* of weight files; NULL ends */
    bool optional;
} part;

static const part parts[ZN_ZIMAGE_PARTS] = {
    [ZN_ZIMAGE_TOKENIZER] = { "tokenizer",
                              ZN_TR("11 MB"),
                              "tokenizer/tokenizer.json",
                              NULL,
                              { "tokenizer/tokenizer.json", "tokenizer.json" },
                              { NULL },
                              false },
    [ZN_ZIMAGE_TEXT] = { "text encoder",
                         ZN_TR("8 GB in 3 files"),
                         "text_encoder/",
                         "text_encoder",
                         { NULL },
                         { "z-image-text" },
                         false },
    [ZN_ZIMAGE_TRANSFORMER] = { "transformer",
                                ZN_TR("12.3 GB in 3 files"),
                                "transformer/",
                                "transformer",
                                { NULL },
                                { "z-image" },
                                false },
    [ZN_ZIMAGE_AUTOENCODER] = { "autoencoder", ZN_TR("0.2 GB"), "vae/", "vae", { NULL }, { "flux-ae" }, false },
    [ZN_ZIMAGE_PREVIEW] = { "preview decoder",
                            "5 MB",
                            "taef1_decoder.safetensors",
                            NULL,
                            { NULL },
                            { "taef1_decoder", "taef1" },
                            true },
};

static bool is_file(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Whether there is a .safetensors file in the folder. */
static bool has_weights(const char *path)
{
    static const char ending[] = ".safetensors";
    DIR *dir = opendir(path);
    const struct dirent *e;
    bool found = false;

    while (dir && !found && (e = readdir(dir))) {
        const size_t len = strlen(e->d_name);

        found = len >= sizeof ending && !strcmp(e->d_name + len - (sizeof ending - 1), ending);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* The part in this folder: as published, or under a name of its own. */
static bool look(zn_zimage_file *f, const part *p, const char *dir)
{
    const size_t size = sizeof f->path;
    int n;

    for (int i = 0; i < 2 && p->file[i]; i++) {
        n = snprintf(f->path, size, "%s/%s", dir, p->file[i]);
        if (n > 0 && (size_t)n < size && is_file(f->path))
            return true;
    }
    if (p->folder) {
        n = snprintf(f->path, size, "%s/%s", dir, p->folder);
        if (n > 0 && (size_t)n < size && has_weights(f->path))
            return true;
    }
    for (int i = 0; p->stems[i]; i++)
        if (zn_find_in(f->path, size, dir, p->stems[i]))
            return true;
    f->path[0] = 0;
    return false;
}

/* In the folder that was given, or in all where models are: below z-image, and beside it. */
static void find(zn_zimage_file *f, const part *p, const char *folder)
{
    char dir[2048], below[2064];

    if (folder && *folder && look(f, p, folder))
        return;
    if (folder && *folder && !p->optional)
        return;
    for (int i = 0; zn_weights_folder(dir, sizeof dir, i); i++) {
        snprintf(below, sizeof below, "%s/z-image", dir);
        if (*dir && (look(f, p, below) || (p->stems[0] && look(f, p, dir))))
            return;
    }
}

zn_status zn_zimage_find(zn_zimage_file list[ZN_ZIMAGE_PARTS], const char *folder, zn_error *err)
{
    char missing[256] = "", dir[2048];

    if (err)
        err->text[0] = 0;
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++) {
        const part *p = &parts[i];
        zn_zimage_file *f = &list[i];
        const size_t len = strlen(missing);

        f->name = p->name;
        f->size = p->size;
        f->place = p->place;
        f->path[0] = 0;
        find(f, p, folder);
        if (!*f->path && !p->optional)
            snprintf(missing + len, sizeof missing - len, "%s%s (%s)", len ? ", " : "", p->place, zn_tr(p->size));
    }
    if (!*missing)
        return ZN_OK;
    zn_user_folder(dir, sizeof dir);
    return zn_fail(
        err, ZN_E_FILE,
        "Z-Image lacks %s: get them from huggingface.co/Tongyi-MAI/Z-Image-Turbo (Apache license 2.0) and put "
        "them into %s%s",
        missing,
        folder && *folder ? folder
            : *dir        ? dir
                          : zn_tr("zenith/models of the user's data folder"),
        folder && *folder ? "" : "/z-image");
}
