/* SPDX-License-Identifier: MIT */
/* sharpen.h - what sharpening adds to the lightness of a picture without noise.
 *
 *   add = amount * (light - mean), but so that light + add stays near the values around it
 *
 * mean is the 5x5 binomial mean.  light + add leaves the range of the 3x3 values around a pixel by at most half that range and by at
 * most ZN_SHARPEN_BEYOND: edges become steeper and get no halo, weak texture gets more contrast.
 *
 * It is meant for the output of a denoiser, to be added to all three channels of what is blended from it: noise that the blending
 * left is then not sharpened. */
#ifndef ZN_SHARPEN_H
#define ZN_SHARPEN_H

#include <stdbool.h>

enum { ZN_SHARPEN_REACH = 2 }; /* pixels around one that it depends on */

#define ZN_SHARPEN_BEYOND (2.0f / 255)

/* add, light [h][w], apart.  Beyond the ends the last values repeat; a pixel with NaN or an infinity in reach gets 0.  amount >= 0.
 * False: no memory. */
bool zn_sharpen(float *add, const float *light, int w, int h, float amount);

#endif
