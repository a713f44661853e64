/* SPDX-License-Identifier: MIT
 *
 * zenith-preset-gimp.h - presets in the list that GIMP's own dialog of an operation has.
 */
#ifndef __ZENITH_PRESET_GIMP_H__
#define __ZENITH_PRESET_GIMP_H__

#include <glib.h>

/* Adds the presets to GIMP's own lists in the user's profile, where they lack one of that name.
 * To be called when GIMP queries the plug-in: an entry that a user deletes there stays deleted
 * until the plug-in changes. */
void zn_presets_offer (const gchar *profile);

#endif /* __ZENITH_PRESET_GIMP_H__ */
