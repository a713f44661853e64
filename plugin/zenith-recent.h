/* SPDX-License-Identifier: MIT
 *
 * zenith-recent.h - what the dialog that generates pictures remembers: the last prompts, and
 * whether the seed is locked.  In zenith/generate.ini of the user's data folder; a file that
 * is damaged or cannot be written is as good as none.
 */
#ifndef __ZENITH_RECENT_H__
#define __ZENITH_RECENT_H__

#include <glib.h>

#define ZN_RECENT_MAX 20

/* The last one first; free with g_strfreev(). */
gchar **zn_recent_prompts (void);
void    zn_recent_add_prompt (const gchar *prompt);

gboolean zn_recent_seed_locked (void);
void     zn_recent_set_seed_locked (gboolean locked);

#endif /* __ZENITH_RECENT_H__ */
