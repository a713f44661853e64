/* SPDX-License-Identifier: MIT
 *
 * zenith-access.h - dialogs for the keyboard, for screen readers, and on small screens.
 */
#ifndef __ZENITH_ACCESS_H__
#define __ZENITH_ACCESS_H__

#include <gtk/gtk.h>

/* The label's text is the name of every control in `widget` that says nothing itself, and its key
 * leads to the first one. */
void zn_access_label (GtkWidget *label, GtkWidget *widget);
void zn_access_name (GtkWidget *widget, const gchar *name);

/* Gives each label of zn_access_label() that has no key a letter of its own: of its text or, in
 * parentheses, of the widget's name. */
void zn_access_give_keys (GtkWidget *window);

/* Puts the labels of tables of two columns above what they name: narrower, but higher. */
void zn_access_stack (GtkWidget *widget);

/* What a widget would like to have. */
GtkRequisition zn_access_wanted (GtkWidget *widget);

/* What the window may take of the screen. */
GtkRequisition zn_access_room (GtkWidget *window);

/* For tests: if the variable ZENITH_LAYOUT names a folder, its file TITLE.layout says, twice a
 * second, "ok" or what is cut off, lies beyond the screen, has no name or shares its key, and
 * TITLE.keys has a line for each row: "*" if it has the focus, its key, its name, its value. */
void zn_access_watch (GtkWidget *window);

#endif /* __ZENITH_ACCESS_H__ */
