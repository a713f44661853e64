/* SPDX-License-Identifier: MIT */
/* find.c - where weight files are looked for. */
#include "find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef ZN_MODELS_DIR
#define ZN_MODELS_DIR "/usr/share/zenith/models"
#endif
#ifndef ZN_PATH_LIST /* separates folders */
#define ZN_PATH_LIST ":"
#endif

bool zn_find_in(char *path, size_t size, const char *dir, const char *stem)
{
    static const char *const ends[] = { ".safetensors", ".gguf", ".pth", ".pt", ".ckpt" };
    struct stat st;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int n = snprintf(path, size, "%s/%s%s", dir, stem, ends[i]);

        if (n > 0 && (size_t)n < size && !stat(path, &st) && S_ISREG(st.st_mode))
            return true;
    }
    return false;
}

int zn_user_folder(char *path, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

    if (data && *data)
        return snprintf(path, size, "%s/zenith/models", data);
    return snprintf(path, size, "%s%s", home ? home : "", home && *home ? "/.local/share/zenith/models" : "");
}

/* The i-th folder as it is said, whether or not it is there twice. */
static bool folder_at(char *path, size_t size, int i)
{
    const char *env = getenv("ZENITH_MODELS");
    int n = -1;

    while (env && *env) {
        const int len = (int)strcspn(env, ZN_PATH_LIST);

        if (!i--) {
            n = snprintf(path, size, "%.*s", len, env);
            break;
        }
        env += len + (env[len] != 0);
    }
    if (n < 0 && i == 0)
        n = zn_user_folder(path, size);
    else if (n < 0 && i == 1)
        n = snprintf(path, size, "%s", ZN_MODELS_DIR);
    if (size && (n < 0 || (size_t)n >= size))
        *path = 0;
    return n >= 0;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;

    return !strcmp(a, b) || (!stat(a, &x) && !stat(b, &y) && x.st_ino && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

bool zn_weights_folder(char *path, size_t size, int i)
{
    char other[2048];

    if (!folder_at(path, size, i))
        return false;
    for (int k = 0; k < i && size && *path; k++)
        if (folder_at(other, sizeof other, k) && *other && same_folder(other, path))
            *path = 0;
    return true;
}

zn_status zn_weights_find(char *path, size_t size, const char *stem, zn_error *err)
{
    char dir[2048];

    for (int i = 0; zn_weights_folder(dir, sizeof dir, i); i++)
        if (*dir && zn_find_in(path, size, dir, stem))
            return ZN_OK;
    if (size)
        *path = 0;
    zn_user_folder(dir, sizeof dir);
    if (*dir && same_folder(dir, ZN_MODELS_DIR)) /* installed for one user */
        return zn_fail(err, ZN_E_FILE,
                       "no weights '%s' (.safetensors, .gguf, .pth, .pt or .ckpt) in $ZENITH_MODELS or %s; put the "
                       "file there or name it",
                       stem, dir);
    return zn_fail(err, ZN_E_FILE,
                   "no weights '%s' (.safetensors, .gguf, .pth, .pt or .ckpt) in $ZENITH_MODELS, %s or %s; put the "
                   "file there or name it",
                   stem, *dir ? dir : zn_tr("zenith/models of the user's data folder"), ZN_MODELS_DIR);
}
