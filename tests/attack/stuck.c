/* SPDX-License-Identifier: MIT */
/* stuck.c - a library to preload, for tests of what a signal does: a decoder that never comes back, which creates the file
 * $ZN_STUCK when it is called; and with $ZN_STOPPED a signal that comes when a picture is filtered, but not encoded yet. */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

uint8_t *WebPDecodeRGBInto(const uint8_t *data, size_t size, uint8_t *to, size_t room, int stride);

__attribute__((visibility("default"))) uint8_t *WebPDecodeRGBInto(const uint8_t *data, size_t size, uint8_t *to,
                                                                  size_t room, int stride)
{
    const char *sign = getenv("ZN_STUCK");

    (void)data, (void)size, (void)to, (void)room, (void)stride;
    if (sign)
        close(open(sign, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (;;)
        pause();
}

int memfd_create(const char *name, unsigned flags);

__attribute__((visibility("default"))) int memfd_create(const char *name, unsigned flags)
{
    if (getenv("ZN_STOPPED")) {
        kill(getpid(), SIGTERM);
        usleep(300000); /* until it is noticed */
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}
