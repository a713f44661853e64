/* SPDX-License-Identifier: MIT */
/* op-attribute.c - attribute files: directions in the codes of a model, by name. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <math.h>
#include <string.h>

#include <glib/gstdio.h>

#include "op-face.h"

#define ENDING ".attributes.safetensors"
#define MAX_NAMES 1024
#define MAX_CODE 8192

/* The attribute files of all model folders, in the order in which folders are looked at. */
static GPtrArray *
list_files (void)
{
  GPtrArray *files = g_ptr_array_new_with_free_func (g_free);
  gchar      folder[4096];

  for (gint i = 0; zn_weights_folder (folder, sizeof (folder), i); i++)
    {
      const guint  first = files->len;
      GDir        *dir   = *folder ? g_dir_open (folder, 0, NULL) : NULL;
      const gchar *name;

      while (dir && (name = g_dir_read_name (dir)))
        if (g_str_has_suffix (name, ENDING))
          g_ptr_array_add (files, g_build_filename (folder, name, NULL));
      if (dir)
        g_dir_close (dir);

      /* a folder has no order of its own */
      for (guint j = first + 1; j < files->len; j++)
        for (guint k = j; k > first && strcmp (files->pdata[k - 1], files->pdata[k]) > 0; k--)
          {
            gpointer other = files->pdata[k];

            files->pdata[k]     = files->pdata[k - 1];
            files->pdata[k - 1] = other;
          }
    }

  return files;
}

guint
zn_op_attributes_stamp (void)
{
  GPtrArray *files = list_files ();
  guint      stamp = 0;

  for (guint i = 0; i < files->len; i++)
    {
      GStatBuf info = {
        0,
      };

      g_stat (files->pdata[i], &info);
      stamp = stamp * 31 + g_str_hash (files->pdata[i]);
      stamp = stamp * 31 + (guint) info.st_mtime;
      stamp = stamp * 31 + (guint) info.st_size;
    }
  g_ptr_array_unref (files);

  return stamp;
}

gchar *
zn_op_attributes_list (const gchar *model)
{
  GPtrArray *files = list_files ();
  GString   *known = g_string_new (NULL);

  for (guint i = 0; i < files->len; i++)
    {
      const gchar *path = files->pdata[i];
      zn_weights  *w    = NULL;
      const gchar *names, *of;

      if (zn_weights_open (&w, &path, 1, NULL))
        continue;
      names = zn_weights_meta (w, "names");
      of    = zn_weights_meta (w, "model");
      if (names && *names && (! of || ! strcmp (of, model)))
        g_string_append_printf (known, "%s%s", known->len ? "," : "", names);
      zn_weights_close (&w);
    }
  g_ptr_array_unref (files);

  return g_string_free (known, FALSE);
}

/* The sizes of a tensor; FALSE: there is none with so many axes. */
static gboolean
get_shape (const zn_weights *w, const gchar *name, gint n_dims, gint64 *shape)
{
  for (gint i = 0; i < zn_weights_count (w); i++)
    {
      const zn_weight_info info = zn_weights_info (w, i);

      if (strcmp (info.name, name) || info.n_dims != n_dims)
        continue;
      memcpy (shape, info.shape, n_dims * sizeof (*shape));
      return TRUE;
    }

  return FALSE;
}

/* shift = step * direction * std, of row `row`. */
static gboolean
read_row (ZnOpAttribute *attribute, const zn_weights *w, gint row, gint n, gint code, zn_error *err)
{
  gfloat  *all    = gegl_malloc ((gsize) n * code * sizeof (gfloat));
  gfloat  *shift  = gegl_malloc (code * sizeof (gfloat));
  gfloat  *number = gegl_malloc (n * sizeof (gfloat));
  gboolean ok;

  ok = ! zn_weights_read (all, (gsize) n * code, w, "directions", err) &&
       ! zn_weights_read (shift, code, w, "std", err) &&
       ! zn_weights_read (number, n, w, "step", err);
  for (gint i = 0; ok && i < code; i++)
    shift[i] *= number[row] * all[(gsize) row * code + i];
  ok = ok && ! zn_weights_read (number, n, w, "guide", err);

  for (gint i = 0; ok && i < code; i++)
    if (! isfinite (shift[i]) || ! (number[row] >= 0.0f && number[row] <= 20.0f))
      {
        g_strlcpy (err->text, _ ("The attribute file holds values that are not finite numbers."),
                   sizeof (err->text));
        ok = FALSE;
      }
  if (ok)
    {
      attribute->shift = shift;
      attribute->guide = number[row];
    }
  else
    {
      gegl_free (shift);
    }
  gegl_free (all);
  gegl_free (number);

  return ok;
}

/* 1: found; 0: not in this file, whose names are added to `known`; -1: failed. */
static gint
look_in (ZnOpAttribute *attribute,
         const gchar   *path,
         const gchar   *name,
         const gchar   *model,
         gint           code,
         GString       *known,
         zn_error      *err)
{
  zn_weights  *w = NULL;
  gint64       shape[2];
  const gchar *names, *of;
  gchar      **list;
  gint         result = 0;

  if (zn_weights_open (&w, &path, 1, err))
    return -1;

  names = zn_weights_meta (w, "names");
  of    = zn_weights_meta (w, "model");
  if ((! of || ! strcmp (of, model)) && get_shape (w, "directions", 2, shape) && shape[1] == code)
    {
      list = g_strsplit (names ? names : "", ",", -1);
      if (shape[0] < 1 || shape[0] > MAX_NAMES || code > MAX_CODE ||
          g_strv_length (list) != (guint) shape[0])
        {
          g_snprintf (err->text, sizeof (err->text),
                      _ ("%s has %d directions but names %u attributes."), path, (gint) shape[0],
                      g_strv_length (list));
          result = -1;
        }
      for (gint i = 0; ! result && list[i]; i++)
        {
          if (! strcmp (list[i], name))
            result = read_row (attribute, w, i, (gint) shape[0], code, err) ? 1 : -1;
          else
            g_string_append_printf (known, "%s%s", known->len ? ", " : "", list[i]);
        }
      g_strfreev (list);
    }
  zn_weights_close (&w);

  return result;
}

gboolean
zn_op_attribute_find (ZnOpAttribute *attribute,
                      const gchar   *name,
                      const gchar   *model,
                      gint           code,
                      zn_error      *err)
{
  GPtrArray *files  = list_files ();
  GString   *known  = g_string_new (NULL);
  gint       result = 0;

  for (guint i = 0; ! result && i < files->len; i++)
    result = look_in (attribute, files->pdata[i], name, model, code, known, err);
  if (! result && known->len)
    g_snprintf (err->text, sizeof (err->text), _ ("There is no attribute '%.60s'; there are: %s."),
                name, known->str);
  else if (! result)
    g_snprintf (
        err->text, sizeof (err->text),
        _ ("There is no attribute '%.60s': no file *%s for the model '%s' lies in the folders "
           "of weights ($ZENITH_MODELS and others)."),
        name, ENDING, model);
  g_string_free (known, TRUE);
  g_ptr_array_unref (files);

  return result > 0;
}
