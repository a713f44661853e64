/* SPDX-License-Identifier: MIT
 *
 * zenith-teach.h - an attribute of faces from two sets of pictures.
 *
 * A set is a layer group of the image, by its name, or a folder.  The program `zenith teach`
 * does the work, in a process of its own: $ZENITH_PROGRAM, the installed one or that of $PATH.
 */
#ifndef __ZENITH_TEACH_H__
#define __ZENITH_TEACH_H__

#include <gegl.h>
#include <glib/gi18n-lib.h>

#define ZN_TEACH_PROCEDURE "plug-in-zenith-diffae-teach"
#define ZN_TEACH_LABEL N_ ("_Teach an Attribute...")
#define ZN_TEACH_BLURB N_ ("Learn an attribute of faces from two sets of pictures")
#define ZN_TEACH_HELP                                                                              \
  "'with' and 'without' are layer groups of the image, by their names, or folders of PNG "         \
  "and JPEG pictures: faces that have the attribute and faces that do not, five or more "          \
  "each.  What is learned becomes the attribute 'name' of plug-in-zenith-diffae-manipulate, "      \
  "and a file in zenith/models of the user's data folder.  Returns how well it tells apart "       \
  "faces that were left out."
#define ZN_TEACH_NAME_HELP "What the attribute is called: letters, digits, - and _"
#define ZN_TEACH_WITH_HELP "Layer group or folder: faces that have it"
#define ZN_TEACH_WITHOUT_HELP "Layer group or folder: faces that do not"
#define ZN_TEACH_REPORT_HELP "Number of faces, AUROC with its standard error, and the file"

enum
{
  ZN_TEACH_NAME,
  ZN_TEACH_WITH,
  ZN_TEACH_WITHOUT,
  ZN_TEACH_TEXTS
};

typedef struct
{
  /* The pixels of the index-th layer of the image's group of that name, or NULL. */
  GeglBuffer *(*layer) (gpointer data, const gchar *group, guint index);
  gpointer data;
  GList   *groups; /* the names that there are */
} ZnTeachHost;

/* *report: a text for the user; free it. */
gboolean zn_teach (const gchar *const text[ZN_TEACH_TEXTS],
                   const ZnTeachHost *host,
                   gchar            **report,
                   GError           **error);

/* Asks for the texts, each to be freed, and teaches; FALSE without an error: cancelled. */
gboolean zn_teach_dialog (const ZnTeachHost *host, gchar **report, GError **error);

#endif /* __ZENITH_TEACH_H__ */
