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
  gchar   *name;
  gchar   *description; /* may be empty                      */
  gchar   *operation;
  gchar   *file;
  guint    n;
  gchar   *key[ZN_PRESET_VALUES_MAX];
  gchar   *value[ZN_PRESET_VALUES_MAX];
  gchar   *broken; /* why it is invalid, or NULL */
  gboolean own;    /* the user's: it can be renamed and deleted */
} ZnPreset;

/* All presets, sorted by name, broken ones too.  The array frees its elements;
 * free it with g_ptr_array_unref().  This function cannot fail.
 */
GPtrArray *zn_presets_load (void);

/* The preset called name, or whose file is NAME.preset (case does not matter).  NULL and an error
 * message with the existing names, or with what is wrong with the file.
 */
const ZnPreset *zn_presets_find (GPtrArray *presets, const gchar *name, GError **error);

/* NULL, and an error message: Repeat was asked for before a preset was applied. */
const ZnPreset *zn_presets_none (GError **error);

/* Settings of the preset's operation, the preset's values in it. */
ZnSettings *zn_preset_settings (const ZnPreset *preset, GError **error);

/* The name as a dialog shows it: that of a shipped preset is translated. */
const gchar *zn_preset_title (const ZnPreset *preset);

/* What it sets, in the words of the dialog; its sentence, or the same if it has none.  Free them. */
gchar *zn_preset_values (const ZnPreset *preset);
gchar *zn_preset_about (const ZnPreset *preset);

/* Puts the preset's values into settings of its operation.  What it does not name gets its
 * default, except how it is computed (model, weights, engine): that stays. */
gboolean zn_preset_apply (const ZnPreset *preset, ZnSettings *settings, GError **error);

/* Whether choosing the preset leaves this property alone. */
gboolean zn_preset_leaves (const ZnPreset *preset, const gchar *property);

/* A preset of the user's own, in zenith/presets of the user's data folder.  with_model: it
 * names the model too.  Refuses a name that a preset has already, unless that is the
 * user's own and replace is TRUE.  The three change files only: load the presets again. */
gboolean zn_preset_save (GPtrArray        *presets,
                         const ZnSettings *settings,
                         const gchar      *name,
                         gboolean          with_model,
                         gboolean          replace,
                         GError          **error);
gboolean zn_preset_rename (GPtrArray      *presets,
                           const ZnPreset *preset,
                           const gchar    *name,
                           GError        **error);
gboolean zn_preset_delete (const ZnPreset *preset, GError **error);

#endif /* __ZENITH_PRESET_H__ */
