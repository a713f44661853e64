/* SPDX-License-Identifier: MIT */
/* stuck.c - a library to preload: a decoder that never comes back, for tests of what a signal does.  It creates the file
 * $ZN_STUCK when it is called. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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
