/* SPDX-License-Identifier: MIT */
/* input.c - how every file from outside is opened. */
#include "input.h"

#include "../zenith_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int zn_open_regular(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), why = 0;

    if (fd < 0) {
        why = errno;
        errno = !stat(path, st) && S_ISDIR(st->st_mode) ? 0 : why; /* not every system opens a folder */
        return -1;
    }
    if (fstat(fd, st))
        why = errno;
    else if (S_ISREG(st->st_mode))
        return fd;
    close(fd);
    errno = why;
    return -1;
}

zn_status zn_open_fail(const char *label, zn_error *err)
{
    return errno ? zn_fail(err, ZN_E_FILE, "%s cannot be opened: %s", label, strerror(errno))
                 : zn_fail(err, ZN_E_FILE, "%s is not a file but a folder, a device, a pipe or the like", label);
}

FILE *zn_input_open(const char *path, zn_error *err)
{
    struct stat st;
    int fd = zn_open_regular(path, &st);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");

    if (!f)
        zn_open_fail(path, err);
    if (!f && fd >= 0)
        close(fd);
    return f;
}
