/* SPDX-License-Identifier: MIT */
/* fail_io.c - preloaded (LD_PRELOAD), ends a program or fills the disk at one call that writes a file.
 *
 *     ZN_IO_AT=N         the N-th such call
 *     ZN_IO_DOES=kill    ends the process there with SIGKILL; odd N before the call, even N after it
 *     ZN_IO_DOES=full    it and all calls after it fail with ENOSPC
 *     ZN_COUNT_IO=FILE   at the end, the number of calls is written there
 *
 * Counted are calls on files, not on terminals and pipes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))next(#name))

static atomic_long calls;

static void *next(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);

    if (!p)
        _exit(125);
    return p;
}

static bool is_file(int fd)
{
    const int saved = errno;
    struct stat st;
    const bool file = fd > 2 && !fstat(fd, &st) && S_ISREG(st.st_mode);

    errno = saved;
    return file;
}

/* Before a call: true, it fails.  *end: the process ends after it. */
static bool fails(bool counts, bool *end)
{
    const char *at = getenv("ZN_IO_AT"), *does = getenv("ZN_IO_DOES");
    const long n = counts ? atomic_fetch_add(&calls, 1) + 1 : 0, when = at ? strtol(at, NULL, 10) : 0;

    *end = false;
    if (!n || !when || !does)
        return false;
    if (!strcmp(does, "kill") && n == (when + 1) / 2) {
        if (when % 2)
            raise(SIGKILL);
        *end = true;
    }
    if (strcmp(does, "full") || n < when)
        return false;
    errno = ENOSPC;
    return true;
}

#define AROUND(type, bad, counts, call)                                                                                \
    do {                                                                                                               \
        bool end;                                                                                                      \
        type result;                                                                                                   \
                                                                                                                       \
        if (fails(counts, &end))                                                                                       \
            return bad;                                                                                                \
        result = call;                                                                                                 \
        if (end)                                                                                                       \
            raise(SIGKILL);                                                                                            \
        return result;                                                                                                 \
    } while (0)

VISIBLE ssize_t write(int fd, const void *data, size_t size)
{
    AROUND(ssize_t, -1, is_file(fd), NEXT(write)(fd, data, size));
}

VISIBLE ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    AROUND(ssize_t, -1, is_file(fd), NEXT(pwrite)(fd, data, size, at));
}

VISIBLE size_t fwrite(const void *data, size_t size, size_t n, FILE *f)
{
    AROUND(size_t, 0, is_file(fileno(f)), NEXT(fwrite)(data, size, n, f));
}

VISIBLE int fflush(FILE *f)
{
    AROUND(int, EOF, f &&is_file(fileno(f)), NEXT(fflush)(f));
}

VISIBLE int fsync(int fd)
{
    AROUND(int, -1, is_file(fd), NEXT(fsync)(fd));
}

VISIBLE int fclose(FILE *f)
{
    const bool writes = is_file(fileno(f)) && (fcntl(fileno(f), F_GETFL) & O_ACCMODE) != O_RDONLY;
    bool end;
    int result;

    if (fails(writes, &end)) {
        NEXT(fclose)(f); /* it is closed whatever happens */
        errno = ENOSPC;
        return EOF;
    }
    result = NEXT(fclose)(f);
    if (end)
        raise(SIGKILL);
    return result;
}

VISIBLE int rename(const char *from, const char *to)
{
    AROUND(int, -1, true, NEXT(rename)(from, to));
}

VISIBLE int renameat(int a, const char *from, int b, const char *to)
{
    AROUND(int, -1, true, NEXT(renameat)(a, from, b, to));
}

VISIBLE int linkat(int a, const char *from, int b, const char *to, int flags)
{
    AROUND(int, -1, true, NEXT(linkat)(a, from, b, to, flags));
}

VISIBLE int mkstemp(char *path)
{
    AROUND(int, -1, true, NEXT(mkstemp)(path));
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("ZN_COUNT_IO");
    char text[32];
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1, n;

    if (fd < 0)
        return;
    n = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
    if (NEXT(write)(fd, text, (size_t)n) != n)
        _exit(125);
    close(fd);
}
