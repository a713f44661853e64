/* SPDX-License-Identifier: MIT */
#include "cachefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void zn_cache_path(char path[ZN_CACHE_PATH], const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[800];
    size_t n;

    path[0] = 0;
    if (cache && *cache)
        snprintf(folder, sizeof folder, "%.700s", cache);
    else if (home && *home)
        snprintf(folder, sizeof folder, "%.700s/.cache", home);
    else
        return;
    mkdir(folder, 0777);
    n = strlen(folder);
    snprintf(folder + n, sizeof folder - n, "/zenith");
    if (mkdir(folder, 0777) && errno != EEXIST)
        return;
    snprintf(path, ZN_CACHE_PATH, "%.760s/%.200s", folder, name);
    for (char *p = path + strlen(folder) + 1; *p; p++)
        if (*p == ' ' || *p == '/')
            *p = '_';
}

/* O_NONBLOCK: opening a FIFO does not wait for a writer. */
FILE *zn_cache_open(const char *path, long max)
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    FILE *f = NULL;

    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= max)
        f = fdopen(fd, "r");
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

bool zn_cache_taken(const char *path)
{
    struct stat st;

    return !lstat(path, &st) && !S_ISREG(st.st_mode);
}
