/* SPDX-License-Identifier: MIT
 *
 * zenith-filters.c - the table of filters; see the header for how to add one.
 */
#include <string.h>

#include <gegl.h>
#include <glib/gi18n-lib.h>

#include "zenith-filters.h"
#include "zenith-settings.h"

const ZnFilter zn_filters[] = {
  {
      .procedure  = "plug-in-zenith-denoise",
      .operation  = "zenith:denoise",
      .title      = N_ ("Denoise"),
      .label      = N_ ("_Denoise..."),
      .page       = "denoise",
      .blurb      = N_ ("Remove noise with a neural network"),
      .help       = "Removes camera, film and compression noise.  'strength' says how "
                    "much of it goes (0 leaves the picture as it is), 'luma' and "
                    "'chroma' weigh brightness and colour noise, 'detail' gives fine "
                    "texture back.  'sigma' is the noise level in steps of 255; 0 "
                    "measures it, times 'sigma-scale'.  'sharpen' sharpens what is denoised.  'weights' "
                    "is a file of zenith train.",
      .properties = { "model", "strength", "luma", "chroma", "detail", "sigma", "engine", "sharpen",
                      "precision", "sigma-scale", "weights" },
      .n_arguments = 7,
  },
  {
      .procedure = "plug-in-zenith-restore",
      .operation = "zenith:restore",
      .title     = N_ ("Restore"),
      .label     = N_ ("Re_store..."),
      .page      = "restore",
      .blurb     = N_ ("Undo blur, JPEG artifacts and noise with a neural network"),
      .help = "'deblur' is the blur, its standard deviation in pixels, 'artefacts' is 100 minus "
              "the quality of the JPEG file, and 'noise' the noise level in steps of 255; each is "
              "found in the picture if it is 0, and -1 says that there is none.  'strength' says "
              "how much of the network's change is used.  'dust' removes dust, hairs, scratches "
              "and stains, 'fading' stretches the channels of a faded picture.",
      .properties  = { "deblur", "artefacts", "noise", "strength", "engine", "precision", "dust",
                       "fading" },
      .n_arguments = 5,
  },
  {
      .procedure = "plug-in-zenith-upscale",
      .operation = "zenith:upscale",
      .title     = N_ ("Enlarge"),
      .label     = N_ ("_Enlarge Layer..."),
      .page      = "enlarge",
      .blurb = N_ ("Enlarge a layer with a neural network: a new layer, or this one; the canvas "
                   "keeps its size"),
      .help =
          "Makes a new layer that is 'scale' times as wide and high: 2, 3 or 4.  'noise' is the "
          "noise level in steps of 255 and 'artefacts' 100 minus the quality of the JPEG file: "
          "what the network removes meanwhile.  GIMP 3 can keep zenith:upscale as a filter of the "
          "layer, too.",
      .enlarges    = TRUE,
      .quick_model = "small",
      .properties  = { "scale", "model", "noise", "artefacts", "engine", "precision" },
      .n_arguments = 5,
  },
  {
      .procedure = "plug-in-zenith-enlarge-image",
      .operation = "zenith:upscale",
      .title     = N_ ("Enlarge the Image"),
      .label     = N_ ("_Enlarge with Zenith..."),
      .page      = "enlarge",
      .blurb     = N_ ("Enlarge all layers of the image with a neural network"),
      .help = "Makes the image 'scale' times as wide and high: 2, 3 or 4.  The network enlarges "
              "the pixels of all layers; GIMP scales masks, channels, paths, guides and the "
              "selection.  The resolution stays.  'noise' and 'artefacts' are those of "
              "plug-in-zenith-upscale.",
      .enlarges    = TRUE,
      .quick_model = "small",
      .whole_image = TRUE,
      .properties  = { "scale", "model", "noise", "artefacts", "engine", "precision" },
      .n_arguments = 5,
  },
  {
      .procedure      = "plug-in-zenith-latent-preview",
      .operation      = "zenith:latent-preview",
      .title          = N_ ("Latent Preview"),
      .label          = N_ ("_Latent Preview..."),
      .page           = "latent-preview",
      .blurb          = N_ ("Show what an image generator's autoencoder keeps of the picture: "
                                     "whether faces and small print would survive there"),
      .help           = "Sends the picture through a small autoencoder and shows what comes "
                        "back ('reconstruct'), the latent itself ('latent') or what was lost "
                        "('difference').  'weights' is a weight file; an empty string looks "
                        "for one by the model's name.  Weights of the TAESD family are published "
                        "at https://github.com/madebyollin/taesd.",
      .preview_margin = 128,
      .expert         = TRUE,
      .properties     = { "model", "mode", "weights", "engine", "precision", "scale" },
      .n_arguments    = 4,
  },
  {
      .procedure = "plug-in-zenith-latent-encode",
      .operation = "zenith:latent-encode",
      .title     = N_ ("Latent Encode"),
      .label     = N_ ("Latent _Encode..."),
      .page      = "latent-encode",
      .blurb = N_ ("Makes the latent of a picture: a float buffer of an 8th of the size (a 32nd "
                   "for taesana)"),
      .help =
          "Makes a new layer with the latent's channels, grey, one below the other, each with 8 "
          "more rows above and below, which decoding ignores.  The image must be of floats.",
      .enlarges   = TRUE,
      .planes     = TRUE,
      .expert     = TRUE,
      .properties = { "model", "weights", "engine", "precision" },
  },
  {
      .procedure = "plug-in-zenith-latent-decode",
      .operation = "zenith:latent-decode",
      .title     = N_ ("Latent Decode"),
      .label     = N_ ("Latent Dec_ode..."),
      .page      = "latent-decode",
      .blurb     = N_ ("Makes a picture of a latent: 8 times the size (32 for taesana)"),
      .help =
          "Makes a new layer with the picture of a layer that plug-in-zenith-latent-encode made.",
      .enlarges   = TRUE,
      .planes     = TRUE,
      .expert     = TRUE,
      .properties = { "model", "weights", "engine", "precision" },
  },
  {
      .procedure = "plug-in-zenith-wan-video",
      .operation = "zenith:wan-video",
      .title     = N_ ("Wan Video"),
      .label     = N_ ("_Wan Video..."),
      .page      = "video",
      .blurb     = N_ ("Show what Wan's autoencoder keeps of a video: the layers are its frames"),
      .help      = "Sends the layers of the image, as frames from the lowest up, through the "
                   "autoencoder of the video generator Wan and back.  'frames' is how many; 0: all of "
                   "them.  'weights' is a weight file; an empty string looks for wan-vae among the "
                   "models.",
      .preview_margin = 128,
      .frames         = TRUE,
      .expert         = TRUE,
      .properties     = { ZN_FRAMES, "weights", "engine", "precision" },
  },
  {
      .procedure       = "plug-in-zenith-diffae-reconstruct",
      .operation       = "zenith:diffae-reconstruct",
      .title           = N_ ("Reconstruct a Face"),
      .label           = N_ ("_Reconstruct a Face..."),
      .page            = "reconstruct-face",
      .blurb           = N_ ("Show what the face model keeps of a face"),
      .help            = "Brings the face in the frame to the model's size, encodes it and makes a "
                         "picture of the codes.  The frame is that of the largest face in the "
                         "selection, or the one that 'frame-x', 'frame-y' (its centre), "
                         "'frame-size' and 'frame-angle' say, from the selection's corner.  Where "
                         "no face is found in a selection, or 'find' is FALSE, it is the largest "
                         "square in the middle.",
      .takes_selection = TRUE,
      .expert          = TRUE,
      .mark            = "face edited",
      .properties      = { "model", "steps", "stochastic-steps", "frame-x", "frame-y", "frame-size",
                           "frame-angle", "engine", "find", "precision" },
      .n_arguments     = 9,
  },
  {
      .procedure = "plug-in-zenith-diffae-manipulate",
      .operation = "zenith:diffae-manipulate",
      .title     = N_ ("Change a Face"),
      .label     = N_ ("_Change a Face..."),
      .page      = "face",
      .blurb     = N_ ("More or less of a smile, of age and other attributes"),
      .help      = "Changes the largest face; of several, the one that you select.  If it is not "
                   "found, select it from the middle of the forehead to just below the chin and "
                   "about as wide, or give its frame.  "
                   "'amount' 0 leaves the picture as it is, 1 is a strong change; 'smile', 'age' "
                   "and the others are amounts, too, and all work at once.  'detail' "
                   "says how much fine structure stays where the face changes; faces of 640 pixels "
                   "and more are drawn with less than 0.5 only, else their pixels move.  The model "
                   "learned from 14,200 photographs of adults (FairFace): faces turned by more than 30 "
                   "degrees, covered faces and children are beyond it, and attributes that come "
                   "together there move together.  Not for deception: say that a picture was edited.",
      .takes_selection = TRUE,
      .mark            = "face edited",
      .properties      = { "attribute", "amount", "steps", "stochastic-steps", "detail", "model",
                           "frame-x", "frame-y", "frame-size", "frame-angle", "engine", "find", "smile",
                           "mouth-open", "eyes-open", "age", "gender", "face", "precision" },
      .n_arguments     = 12,
      .first_slider    = 12,
      .n_sliders       = 5,
  },
  {
      .procedure = "plug-in-zenith-diffae-interpolate",
      .operation = "zenith:diffae-interpolate",
      .title     = N_ ("Blend Two Faces"),
      .label     = N_ ("_Blend Two Faces..."),
      .page      = "blend-faces",
      .blurb     = N_ ("Make a face between that of the picture and that of another layer or file"),
      .help = "'path' is a layer of the image, by its name, or a file with another face.  Where "
              "faces are not looked for, it has "
              "the selection's size and the face at the same place.  'position' goes from the "
              "picture's face (0) to the file's (1).  With "
              "'strip' 2 or more there are so many layers instead, from one face to the "
              "other, and with 'loop' back again: export them as an animation.  Not for deception: "
              "say that a picture was "
              "edited.",
      .takes_selection = TRUE,
      .mark            = "face edited",
      .properties      = { "position", "path", "steps", "stochastic-steps", "model", "frame-x",
                           "frame-y", "frame-size", "frame-angle", "engine", ZN_STRIP, "find", ZN_LOOP,
                           "precision" },
      .n_arguments     = 12,
  },
  {
      .procedure    = "plug-in-zenith-diffae-sample",
      .operation    = "zenith:diffae-sample",
      .title        = N_ ("New Face"),
      .label        = N_ ("_New Face..."),
      .page         = "new-face",
      .blurb        = N_ ("Make up the face of a person who does not exist"),
      .help         = "Makes a new layer with a face that 'seed' decides: equal seeds give equal "
                      "faces.  It is as large as the model's pictures are, or as the largest square "
                      "in the selection.",
      .makes_layer  = TRUE,
      .from_nothing = TRUE,
      .mark         = "made-up face",
      .properties   = { "seed", "steps", "latent-steps", "model", "engine", "precision" },
      .n_arguments  = 5,
  },
  {
      .procedure   = "plug-in-zenith-z-image",
      .operation   = "zenith:z-image",
      .title       = N_ ("Generate"),
      .label       = N_ ("_Generate..."),
      .page        = "generate",
      .blurb       = N_ ("Make a picture from a prompt, change one, or paint in the selection"),
      .help        = "Makes a new layer with the picture that 'prompt' describes, 'width' x "
                     "'height'.  With 'change' below 1 it begins with the layer; with a selection "
                     "it paints only there, and 'feather' is the width of the soft edge inside.  "
                     "'left', 'top', 'right' and 'bottom' are pixels around the layer that are "
                     "painted, too: the layer and the canvas grow.  With 'scale' above 1 the "
                     "picture is enlarged and then refined, by 'refine'.  'n' pictures have 'seed' "
                     "and those after it.  "
                     "Equal seeds give equal pictures.  'weights' is a folder with the files of "
                     "Z-Image-Turbo, an empty string looks for them among the models.  They are "
                     "published under the Apache license 2.0 at "
                     "https://huggingface.co/Tongyi-MAI/Z-Image-Turbo.",
      .makes_layer = TRUE,
      .weights_url = "https://huggingface.co/Tongyi-MAI/Z-Image-Turbo",
      .mark        = "generated",
      .properties  = { "prompt", "seed", "steps", "width", "height", "change", "feather", "weights",
                       "engine", "precision", "n", "left", "top", "right", "bottom", "scale",
                       "refine" },
      .n_arguments = 9,
  },
};

void
zn_translate (void)
{
  const gchar *locale = zn_locale_folder ();

  bindtextdomain (GETTEXT_PACKAGE, locale);
  bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
}

gchar *
zn_help_uri (const gchar *page)
{
  const gchar        *env   = g_getenv ("ZENITH_HELP");
  const gchar        *help  = env && *env ? env : ZENITH_HELP_DIR;
  const gchar *const *names = g_get_language_names (); /* the last one is "C" */
  gchar              *base  = g_strconcat (page, ".html", NULL);
  gchar              *uri   = NULL;

  for (guint i = 0; ! uri && names[i]; i++)
    {
      gchar *file = g_build_filename (help, "manual", names[i + 1] ? names[i] : base,
                                      names[i + 1] ? base : NULL, NULL);

      if (g_file_test (file, G_FILE_TEST_EXISTS))
        uri = g_filename_to_uri (file, NULL, NULL);
      g_free (file);
    }
  g_free (base);

  return uri;
}

const gchar *
zn_locale_folder (void)
{
  const gchar *locale = g_getenv ("ZENITH_LOCALE");

  return locale && *locale ? locale : ZENITH_LOCALEDIR;
}

const guint zn_n_filters = G_N_ELEMENTS (zn_filters);

const ZnFilter *
zn_filter_by_procedure (const gchar *procedure)
{
  for (guint i = 0; i < zn_n_filters; i++)
    if (! g_strcmp0 (zn_filters[i].procedure, procedure) ||
        (zn_filters[i].n_arguments && g_str_has_prefix (procedure, zn_filters[i].procedure) &&
         ! strcmp (procedure + strlen (zn_filters[i].procedure), ZN_MORE)))
      return &zn_filters[i];

  return NULL;
}

const ZnFilter *
zn_filter_by_operation (const gchar *operation)
{
  for (guint i = 0; i < zn_n_filters; i++)
    if (! g_strcmp0 (zn_filters[i].operation, operation))
      return &zn_filters[i];

  return NULL;
}

const gchar *
zn_filter_menu (const ZnFilter *filter)
{
  return filter->whole_image ? ZN_IMAGE_PATH : filter->expert ? ZN_EXPERT_PATH : ZN_MENU_PATH;
}

gchar *
zn_filter_mark_name (const ZnFilter *filter, const gchar *name)
{
  gchar *end    = filter->mark ? g_strdup_printf (" (%s)", filter->mark) : NULL;
  gchar *marked = end && ! g_str_has_suffix (name, end) ? g_strconcat (name, end, NULL) : NULL;

  g_free (end);

  return marked;
}

gboolean
zn_filter_is_installed (const ZnFilter *filter)
{
  ZnSettings *settings = zn_settings_new (filter, NULL);

  zn_settings_free (settings);

  return settings != NULL;
}
