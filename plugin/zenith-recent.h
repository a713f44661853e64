/* SPDX-License-Identifier: MIT
 *
 * zenith-recent.h - what dialogs remember beside a filter's values: the last prompts, whether the
 * seed is locked, where results go.  In zenith/generate.ini of the user's data folder; a file that
 * is damaged or cannot be written is as good as none.
 */
#ifndef __ZENITH_RECENT_H__
#define __ZENITH_RECENT_H__

#include <glib.h>

#include "zenith-filters.h"

#define ZN_RECENT_MAX 20

/* The last one first; free with g_strfreev(). */
gchar **zn_recent_prompts (void);
void    zn_recent_add_prompt (const gchar *prompt);

/* Where the result of a procedure goes. */
typedef enum
{
  ZN_WHERE_USUAL, /* as the filter does it */
  ZN_WHERE_LAYER, /* into the layer */
  ZN_WHERE_NEW,   /* into a new layer above it */
  ZN_WHERE_MASK,  /* the same, of all of it, with the selection as its mask */
  ZN_N_WHERES
} ZnWhere;

/* What the usual is for this filter (NULL: not known yet), and what it does instead of a mask. */
ZnWhere zn_where (ZnWhere asked, const ZnFilter *filter);

ZnWhere zn_recent_where (const gchar *procedure);
void    zn_recent_set_where (const gchar *procedure, ZnWhere where);

gboolean zn_recent_seed_locked (void);
void     zn_recent_set_seed_locked (gboolean locked);

/* Whether the user was asked to let GIMP find the operations (zenith-setup.h). */
gboolean zn_recent_asked_link (void);
void     zn_recent_set_asked_link (void);

/* Whether an enlarged image is printed as large as before. */
gboolean zn_recent_print_size (void);
void     zn_recent_set_print_size (gboolean kept);

#endif /* __ZENITH_RECENT_H__ */
