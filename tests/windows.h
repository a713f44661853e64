/* SPDX-License-Identifier: MIT */
/* windows.h - what the tests use of POSIX beside the engine (engine/windows/posix.h); first in every test for Windows. */
#ifndef ZN_TEST_WINDOWS_H
#define ZN_TEST_WINDOWS_H

#include "windows/posix.h"

#include <errno.h>
#include <string.h>

#define setenv(name, value, again) _putenv_s(name, value)
#define unsetenv(name) _putenv_s(name, "")
#define mkfifo(path, mode) _mkdir(path)                                  /* what is no file */
#define symlink(from, to) ((void)(from), (void)(to), errno = ENOSYS, -1) /* only for administrators */

/* "name-XXXXXX.end" */
static inline int mkstemps(char *path, int end)
{
    char *tail = path + strlen(path) - end, first = *tail;

    *tail = 0;
    path = _mktemp(path);
    *tail = first;
    return path ? _open(path, O_CREAT | O_EXCL | O_RDWR | O_BINARY, _S_IREAD | _S_IWRITE) : -1;
}

static inline ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
    return _lseeki64(fd, at, SEEK_SET) < 0 ? -1 : _write(fd, from, (unsigned)size);
}

#endif
