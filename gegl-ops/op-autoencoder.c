/* SPDX-License-Identifier: MIT */
/* op-autoencoder.c - which file and which network is a half of an autoencoder. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <string.h>

#include "op-engine.h"

static const gchar *const half_word[] = { "encoder", "decoder" };

/* The stems that a half may have, best first. */
static void
autoencoder_stems (gchar stem[2][64], ZnOpHalf half, ZenithAutoencoder which)
{
  const gchar *nick = zn_op_nick (zenith_autoencoder_get_type (), which);

  g_snprintf (stem[0], sizeof (stem[0]), "%s_%s", nick, half_word[half]);
  g_snprintf (stem[1], sizeof (stem[1]), "%s", nick);
}

/* What the user gave: a folder with the files that would be found by name, a
 * file of both halves, or one half whose name tells how the other is called. */
static gchar *
autoencoder_given (ZnOpHalf half, ZenithAutoencoder which, const gchar *weights)
{
  static const gchar *const ends[] = { "safetensors", "pth", "pt", "ckpt" };
  const gchar              *other  = half_word[! half];
  gchar                    *base;
  gchar                    *found;

  if (g_file_test (weights, G_FILE_TEST_IS_DIR))
    {
      gchar stem[2][64];

      autoencoder_stems (stem, half, which);
      for (guint i = 0; i < G_N_ELEMENTS (stem); i++)
        for (guint j = 0; j < G_N_ELEMENTS (ends); j++)
          {
            found = g_strdup_printf ("%s/%s.%s", weights, stem[i], ends[j]);
            if (g_file_test (found, G_FILE_TEST_EXISTS))
              return found;
            g_free (found);
          }
      return g_strdup (weights);
    }

  base  = g_path_get_basename (weights);
  found = strstr (base, other);
  if (found)
    {
      gchar *dir  = g_path_get_dirname (weights);
      gchar *path = g_strdup_printf ("%s/%.*s%s%s", dir, (int) (found - base), base,
                                     half_word[half], found + strlen (other));

      g_free (dir);
      if (g_file_test (path, G_FILE_TEST_EXISTS))
        {
          g_free (base);
          return path;
        }
      g_free (path);
    }
  g_free (base);

  return g_strdup (weights);
}

/* The id of a half: that of the networks whose weights the file holds, or else TAESD's. */
static void
autoencoder_id (gchar id[64], ZnOpHalf half, const gchar *path)
{
  static const gchar *const families[] = { "zenith", "flux-ae", "wan-vae", "wan2d-vae" };
  const gchar              *family     = "taesd";
  zn_weights               *weights    = NULL;
  const gchar              *found      = NULL;
  gchar                     what[96];

  if (! zn_weights_open (&weights, &path, 1, NULL))
    found = zn_weights_recognise (weights, what, sizeof (what));
  for (guint i = 0; found && i < G_N_ELEMENTS (families); i++)
    {
      gchar *start = g_strdup_printf ("%s-", families[i]);

      if (g_str_has_prefix (found, start) && strlen (found) == strlen (start) + strlen ("encode"))
        family = families[i];
      g_free (start);
    }
  g_snprintf (id, 64, "%s-%s", family, half == ZN_OP_ENCODER ? "encode" : "decode");
  zn_weights_close (&weights);
}

/* How a latent is shown without a decoder: the id of a known projection to colours, or NULL. */
static const gchar *
autoencoder_colours (ZenithAutoencoder which)
{
  switch (which)
    {
    case ZENITH_AUTOENCODER_TAESD:
      return "sd" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAESDXL:
      return "sdxl" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAESD3:
      return "sd3" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAEF1:
      return "flux" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAEF2:
      return "flux2" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_WAN:
      return "wan" ZN_OP_COLOURS;
    default:
      return NULL;
    }
}

/* Whether the published files of a model are two, one for each half. */
static gboolean
comes_in_halves (ZenithAutoencoder which)
{
  return which >= ZENITH_AUTOENCODER_TAESD && which <= ZENITH_AUTOENCODER_TAESANA;
}

/* Where the file of a half is; NULL and an error message if there is none. */
static gchar *
autoencoder_path (ZnOpHalf half, ZenithAutoencoder which, const gchar *weights, zn_error *err)
{
  gchar    stem[2][64];
  gchar    found[4096];
  zn_error ignored;

  if (weights && *weights)
    return autoencoder_given (half, which, weights);

  /* The message names the file that the user most likely has. */
  autoencoder_stems (stem, half, which);
  if (comes_in_halves (which) ? ! zn_weights_find (found, sizeof (found), stem[0], err) ||
                                    ! zn_weights_find (found, sizeof (found), stem[1], &ignored)
                              : ! zn_weights_find (found, sizeof (found), stem[1], err))
    return g_strdup (found);

  if (comes_in_halves (which))
    {
      g_strlcat (err->text, ". ", sizeof (err->text)); /* the engine ends without a full stop */
      g_strlcat (err->text, _ ("They are published at https://github.com/madebyollin/taesd."),
                 sizeof (err->text));
    }

  return NULL;
}

ZnOpModel *
zn_op_model_acquire_autoencoder (ZnOpHalf          half,
                                 ZenithAutoencoder which,
                                 const gchar      *weights,
                                 const ZnOpBase   *base,
                                 zn_error         *err)
{
  gchar     *path = autoencoder_path (half, which, weights, err);
  ZnOpModel *model;
  gchar      id[64];

  /* a latent has colours without a decoder, too */
  if (! path)
    return half == ZN_OP_DECODER && autoencoder_colours (which)
               ? zn_op_model_acquire (autoencoder_colours (which), NULL, base, err)
               : NULL;

  autoencoder_id (id, half, path);
  model = zn_op_model_acquire (id, path, base, err);
  g_free (path);

  return model;
}

ZnOpModel *
zn_op_model_acquire_colours (ZenithAutoencoder which,
                             const gchar      *weights,
                             gint              channels,
                             gint              factor,
                             const ZnOpBase   *base)
{
  zn_error     ignored;
  gchar       *path  = autoencoder_path (ZN_OP_ENCODER, which, weights, &ignored);
  const gchar *files = path;
  zn_weights  *file  = NULL;
  const gchar *known = autoencoder_colours (which);
  gboolean     own   = FALSE;
  ZnOpModel   *model = NULL;

  if (path && ! zn_weights_open (&file, &files, 1, NULL))
    for (gint i = 0; i < zn_weights_count (file); i++)
      own = own || ! strcmp (zn_weights_info (file, i).name, "view.weight");
  zn_weights_close (&file);

  if (own || known)
    model = zn_op_model_acquire (own ? "latent-rgb" : known, own ? path : NULL, base, &ignored);
  if (model && (zn_op_model_geometry (model)->in_c != channels ||
                zn_op_model_geometry (model)->grow != factor))
    {
      zn_op_model_release (model);
      model = NULL;
    }
  g_free (path);

  return model;
}
