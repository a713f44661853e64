/* SPDX-License-Identifier: MIT
 *
 * zenith-preset.h - named settings in small text files.
 *
 *   # a comment
 *   name=High ISO photo
 *   description=Strong noise of a camera at ISO 3200 and above
 *   operation=zenith:denoise
 *   strength=1.0
 *   chroma=1.0
 *
 * What a preset does not name keeps the operation's default.  Files end in
 * ".preset" and are looked for in
 *
 *   1. the folders of $ZENITH_PRESETS (separated like $PATH),
 *   2. zenith/presets in the user's data folder (~/.local/share),
 *   3. the folder of the installation;
 *
 * of two with the same name the first counts.  Files may come from strangers:
 * sizes are bounded, only regular files are read, and anything unexpected is
 * an error that names the file and the line.
 */
#ifndef __ZENITH_PRESET_H__
#define __ZENITH_PRESET_H__

#include <glib.h>

#include "zenith-settings.h"

#define ZN_PRESET_VALUES_MAX ZN_PROPERTIES_MAX

typedef struct
{
  gchar *name;
  gchar *description; /* may be empty                      */
  gchar *operation;
  gchar *file;
  guint  n;
  gchar *key[ZN_PRESET_VALUES_MAX];
  gchar *value[ZN_PRESET_VALUES_MAX];
  gchar *broken; /* a sentence; NULL if all is well   */
} ZnPreset;

/* All presets, sorted by name, broken ones too.  The array frees its elements;
 * free it with g_ptr_array_unref().  This function cannot fail.
 */
GPtrArray *zn_presets_load (void);

/* The preset called name, or whose file is NAME.preset (case does not matter).  NULL and a sentence with the
 * names that exist, or with what is wrong with the file.
 */
const ZnPreset *zn_presets_find (GPtrArray *presets, const gchar *name, GError **error);

/* Settings of the preset's operation, the preset's values in it. */
ZnSettings *zn_preset_settings (const ZnPreset *preset, GError **error);

#endif /* __ZENITH_PRESET_H__ */
