/* SPDX-License-Identifier: MIT */
/* find.c - where weight files are looked for. */
#include "../core/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef ZN_MODELS_DIR
#define ZN_MODELS_DIR "/usr/share/zenith/models"
#endif

static bool try_folder(char *path, size_t size, const char *dir, int dir_len, const char *stem)
{
    static const char *const ends[] = { ".safetensors", ".pth", ".pt", ".ckpt" };
    struct stat st;

    for (int i = 0; i < 4; i++) {
        int n = snprintf(path, size, "%.*s/%s%s", dir_len, dir, stem, ends[i]);

        if (n > 0 && (size_t)n < size && !stat(path, &st) && S_ISREG(st.st_mode))
            return true;
    }
    return false;
}

zn_status zn_weights_find(char *path, size_t size, const char *stem, zn_error *err)
{
    const char *env = getenv("ZENITH_MODELS"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char user[2048] = "";

    if (data && *data)
        snprintf(user, sizeof user, "%s/zenith/models", data);
    else if (home && *home)
        snprintf(user, sizeof user, "%s/.local/share/zenith/models", home);

    while (env && *env) {
        const char *colon = strchr(env, ':');
        int len = (int)(colon ? colon - env : (ptrdiff_t)strlen(env));

        if (len > 0 && try_folder(path, size, env, len, stem))
            return ZN_OK;
        env += len + (colon != NULL);
    }
    if (*user && try_folder(path, size, user, (int)strlen(user), stem))
        return ZN_OK;
    if (try_folder(path, size, ZN_MODELS_DIR, (int)strlen(ZN_MODELS_DIR), stem))
        return ZN_OK;
    if (size)
        *path = 0;
    return zn_fail(err, ZN_E_FILE,
                   "no weights '%s' (.safetensors, .pth, .pt or .ckpt) in $ZENITH_MODELS, %s or %s; put the "
                   "file there or name it",
                   stem, *user ? user : "the user's data folder", ZN_MODELS_DIR);
}
