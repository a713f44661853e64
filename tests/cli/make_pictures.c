/* SPDX-License-Identifier: MIT */
/* make_pictures FOLDER N LEVEL WIDTH HEIGHT - PNG pictures for tests/cli/test_teach.sh: stripes that differ from picture to
 * picture, with LEVEL in the mean. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int n = argc == 6 ? atoi(argv[2]) : 0, level = argc == 6 ? atoi(argv[3]) : 0;
    const int w = argc == 6 ? atoi(argv[4]) : 0, h = argc == 6 ? atoi(argv[5]) : 0;
    unsigned char *bytes = w > 0 && h > 0 ? malloc((size_t)w * (size_t)h * 3) : NULL;

    if (!bytes || n < 1)
        return 2;
    for (int k = 0; k < n; k++) {
        png_image image = {
            .version = PNG_IMAGE_VERSION, .width = (unsigned)w, .height = (unsigned)h, .format = PNG_FORMAT_RGB
        };
        char path[4096];

        for (int i = 0; i < w * h * 3; i++) {
            const int x = i / 3 % w, y = i / 3 / w, c = i % 3;

            bytes[i] = (unsigned char)(level + (x * (k + 2) + y * (k * k % 7 + 1) + 5 * c + k * 3) % 60 - 30);
        }
        snprintf(path, sizeof path, "%s/%03d.png", argv[1], k);
        if (!png_image_write_to_file(&image, path, 0, bytes, 0, NULL))
            return 1;
    }
    free(bytes);
    return 0;
}
