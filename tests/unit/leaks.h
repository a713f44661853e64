/* SPDX-License-Identifier: MIT */
/* leaks.h - when LeakSanitizer looks for leaks.
 *
 * At the end of a process LeakSanitizer asks whether to look.  On aarch64 it walks all of the address space then: 4 s of CPU
 * for each program.  Where no more is allocated than at the start, there is nothing to find. */
#ifndef ZN_LEAKS_H
#define ZN_LEAKS_H

#ifdef __SANITIZE_ADDRESS__
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

size_t __sanitizer_get_current_allocated_bytes(void);
int __lsan_is_turned_off(void);
void __libc_freeres(void) __attribute__((weak)); /* glibc's, for tools like this one; works once */

static size_t allocated_at_start; /* 0: unknown, so LeakSanitizer always looks */

/* Without what the C library keeps for itself: threads' stacks, copies of the environment. */
static size_t allocated_by_others(void)
{
    if (__libc_freeres)
        __libc_freeres();
    return __sanitizer_get_current_allocated_bytes();
}

__attribute__((constructor)) static void count_allocated(void)
{
    static char out[BUFSIZ];
    size_t n;
    int ends[2];
    pid_t child;

    setvbuf(stdout, out, _IOFBF, sizeof out); /* or else the C library allocates it */
    if (pipe(ends))
        return;
    child = fork(); /* this process needs its C library */
    if (child == 0) {
        n = allocated_by_others();
        _exit(write(ends[1], &n, sizeof n) != (ssize_t)sizeof n);
    }
    close(ends[1]);
    if (read(ends[0], &n, sizeof n) == (ssize_t)sizeof n)
        allocated_at_start = n;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
}

__attribute__((weak, visibility("default"))) int __lsan_is_turned_off(void)
{
    return allocated_by_others() <= allocated_at_start;
}
#endif

#endif
