/* SPDX-License-Identifier: MIT */
/* fail_alloc.c - preloaded (LD_PRELOAD), makes one allocation of a program fail.
 *
 *     ZN_FAIL_ALLOC=N      the N-th call of malloc, calloc, realloc or aligned_alloc returns NULL; 0: none
 *     ZN_COUNT_ALLOC=FILE  at the end, the number of calls is written there
 *
 * glibc's own allocator does the rest, by its internal names. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

#define VISIBLE __attribute__((visibility("default")))

static atomic_long calls;

static bool fails(void)
{
    const char *at = getenv("ZN_FAIL_ALLOC");

    if (atomic_fetch_add(&calls, 1) + 1 != (at ? strtol(at, NULL, 10) : 0))
        return false;
    errno = ENOMEM;
    return true;
}

VISIBLE void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

VISIBLE void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

VISIBLE void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
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
