/* SPDX-License-Identifier: MIT */
/* fail_alloc.c - preloaded (LD_PRELOAD), makes one allocation of a program fail.
 *
 *     ZN_FAIL_ALLOC=N      the N-th call of malloc, calloc, realloc or aligned_alloc returns NULL; 0: none
 *     ZN_COUNT_ALLOC=FILE  at the end, the number of calls is written there
 *     ZN_FAIL_IN=TEXT      only calls from programs and libraries whose path holds TEXT count: other libraries may end
 *                          the process, as GLib does.  g_try_malloc, which may fail, counts for its caller.
 *
 * glibc's own allocator does the rest, by its internal names. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

#define VISIBLE __attribute__((visibility("default")))

static atomic_long calls;

static bool fails(const void *caller)
{
    const char *at = getenv("ZN_FAIL_ALLOC"), *in = getenv("ZN_FAIL_IN");
    Dl_info from;

    if (in && (!dladdr(caller, &from) || !from.dli_fname || !strstr(from.dli_fname, in)))
        return false;
    if (atomic_fetch_add(&calls, 1) + 1 != (at ? strtol(at, NULL, 10) : 0))
        return false;
    errno = ENOMEM;
    return true;
}

VISIBLE void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

VISIBLE void *calloc(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

VISIBLE void *realloc(void *p, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

VISIBLE void *g_try_malloc(size_t size);
VISIBLE void *g_try_malloc(size_t size)
{
    return !size || fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("ZN_COUNT_ALLOC");
    char text[32];
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1, n;

    if (fd < 0)
        return;
    n = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
    if (write(fd, text, (size_t)n) != n)
        _exit(125);
    close(fd);
}
