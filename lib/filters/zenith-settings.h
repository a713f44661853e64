/* SPDX-License-Identifier: MIT
 *
 * zenith-settings.h - the values of one filter's properties.
 *
 * A ZnSettings starts with the operation's defaults and only ever holds values
 * that the operation allows: every setter checks, and refuses with a message
 * that names the allowed values.
 */
#ifndef __ZENITH_SETTINGS_H__
#define __ZENITH_SETTINGS_H__

#include <glib-object.h>

#include "zenith-filters.h"

#define ZN_ERROR (zn_error_quark ())
GQuark zn_error_quark (void);

typedef enum
{
  ZN_ERROR_FAILED,    /* the work could not be done                     */
  ZN_ERROR_USAGE,     /* a value that is not allowed, an unknown name   */
  ZN_ERROR_CANCELLED, /* the user cancelled                             */
  ZN_ERROR_DAMAGED    /* a picture file is truncated or invalid         */
} ZnError;

typedef enum
{
  ZN_KIND_ENUM,
  ZN_KIND_DOUBLE,
  ZN_KIND_INT,
  ZN_KIND_BOOLEAN,
  ZN_KIND_STRING,
  ZN_KIND_FILE,
} ZnKind;

typedef struct
{
  ZnKind      kind;
  GParamSpec *spec; /* owned by the operation's class             */
  GValue      value;
  gdouble     min, max;       /* allowed, for numbers                       */
  gdouble     ui_min, ui_max; /* what a slider spans                        */
  gint        digits;         /* after the decimal point, in the dialog     */
} ZnProperty;

typedef struct
{
  const ZnFilter *filter;
  guint           n;
  ZnProperty      property[ZN_PROPERTIES_MAX];
} ZnSettings;

/* Defaults of the filter's operation.  NULL and an error if the operation is
 * not installed or lacks a property.  Free with zn_settings_free(), which
 * accepts NULL.
 */
ZnSettings *zn_settings_new (const ZnFilter *filter, GError **error);
void        zn_settings_free (ZnSettings *settings);

void zn_settings_reset (ZnSettings *settings);
void zn_settings_copy (ZnSettings *dest, const ZnSettings *src);

/* Set one property from text ("fast", "0.5", "yes") or from a number.  On
 * failure the value stays what it was.
 */
gboolean zn_settings_set_text (ZnSettings  *settings,
                               const gchar *name,
                               const gchar *text,
                               GError     **error);
gboolean zn_settings_set_number (ZnSettings *settings, guint index, gdouble number, GError **error);
gboolean zn_settings_set_named (ZnSettings  *settings,
                                const gchar *name,
                                gdouble      number,
                                GError     **error);

/* The text that set_text() would take; free it. */
gchar  *zn_settings_get_text (const ZnSettings *settings, guint index);
gdouble zn_settings_get_number (const ZnSettings *settings, guint index);

/* "fast, balanced, best" or "0 to 1.5"; NULL where everything goes. */
gchar *zn_property_allowed (const ZnProperty *property);

/* The number of that name, or `missing` if the filter has none. */
gdouble zn_settings_find_number (const ZnSettings *settings, const gchar *name, gdouble missing);

/* How many times as wide and high the result is. */
gint zn_settings_scale (const ZnSettings *settings);

/* Whether a filter that makes a layer begins with one: where that may change altogether, only to extend it. */
gboolean zn_settings_begins_with_layer (const ZnSettings *settings);

/* What a layer that these settings make is called: the prompt, shortened, or what the sliders do
 * ("Smile +50, Age -20").  Free it. */
gchar *zn_settings_layer_name (const ZnSettings *settings);

/* How many layers are wanted from position 0 to 1; 0: the filter's usual result. */
gint zn_settings_strip (const ZnSettings *settings);

/* Whether they lead back to 0, too. */
gboolean zn_settings_loop (const ZnSettings *settings);

/* Whether a property is a slider (ZnFilter.n_sliders). */
gboolean zn_settings_is_slider (const ZnSettings *settings, guint index);

/* Whether 0 of a property means that the filter finds it, and -1 that there is none; FALSE after the last one. */
gboolean zn_settings_is_found (const ZnSettings *settings, guint index);

/* Whether a result of these settings is marked (ZnFilter.mark): an amount, a position or a
 * change of 0 leaves the picture as it is.
 */
gboolean zn_settings_mark (const ZnSettings *settings);

/* "zenith:diffae-manipulate attribute=smile amount=0.5 ...", without file names: for a
 * picture's history.
 */
gchar *zn_settings_words (const ZnSettings *settings);

/* All of them, one "name=value" a line, for GIMP to remember.  Lines that do
 * not fit (an older version wrote them) are ignored when read.
 */
gchar *zn_settings_to_lines (const ZnSettings *settings);
void   zn_settings_from_lines (ZnSettings *settings, const gchar *lines);

#endif /* __ZENITH_SETTINGS_H__ */
