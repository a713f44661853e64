/* SPDX-License-Identifier: MIT
 *
 * items.h - images, layers, masks and channels of this GIMP; all that differs between versions.
 */
#ifndef __ZENITH_ITEMS_H__
#define __ZENITH_ITEMS_H__

#include <libgimp/gimp.h>

#if GIMP_MAJOR_VERSION < 3
#include "items-gimp2.h"
#else
#include "items-gimp3.h"
#endif

#endif /* __ZENITH_ITEMS_H__ */
