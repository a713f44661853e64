/* SPDX-License-Identifier: MIT */
/* op-properties.h - properties that several operations have.  The order of an operation's list is in
 * users' files: add to its end only. */

#ifndef __ZENITH_OP_PROPERTIES_H__
#define __ZENITH_OP_PROPERTIES_H__

#define zenith_property_autoencoder                                                                \
  property_enum (model, _ ("Model"), ZenithAutoencoder, zenith_autoencoder,                        \
                 ZENITH_AUTOENCODER_ZENITH)                                                        \
      description (_ ("Autoencoder whose latent space is used"))

#define zenith_property_planes                                                                     \
  property_boolean (planes, _ ("Planes"), FALSE)                                                   \
      description (_ ("The latent is gray pictures, one below the other: any operation and any "   \
                      "file of floats takes them"))

#define zenith_property_weights                                                                    \
  property_file_path (weights, _ ("Weights"), "")                                                  \
      description (_ ("Weight file or folder; empty: found by the model's name. TAESD's are "      \
                      "published at https://github.com/madebyollin/taesd"))

#define zenith_property_engine                                                                     \
  property_enum (engine, _ ("Engine"), ZenithEngine, zenith_engine, ZENITH_ENGINE_AUTO)            \
      description (_ ("What computes: the fastest that works, or a given one"))

#define zenith_property_status                                                                     \
  property_string (status, _ ("Status"), "")                                                       \
      description (_ ("Why the picture is unchanged; empty when all is well"))                     \
          ui_meta ("error", "true") ui_meta ("visible", "failed")

/* Written by the operation, never read: hosts show the status and the note only where there is one. */
#define zenith_property_failed                                                                     \
  property_boolean (failed, _ ("Failed"), FALSE)                                                   \
      description (_ ("Whether the picture is unchanged; the status says why"))                    \
          ui_meta ("visible", "0") property_boolean (noted, _ ("Noted"), FALSE)                    \
              description (_ ("Whether there is a note")) ui_meta ("visible", "0")

/* Written by the operation, never read.  Not greyed, so that it can be read. */
#define zenith_property_measured                                                                   \
  property_string (measured, _ ("Measured noise"), "")                                             \
      description (_ ("The noise that was found, of 255; empty when it was given"))

/* The same as numbers, for programs, so an automatic dialog does not show them. */
#define zenith_property_level(name)                                                                \
  property_double (name, _ ("Measured noise"), -1.0)                                               \
      description (_ ("The noise that was found, of 255, as a number; -1: none was measured"))     \
          value_range (-1.0, 255.0) ui_meta ("visible", "0")
#define zenith_property_levels                                                                     \
  zenith_property_level (measured_red) zenith_property_level (measured_green)                      \
      zenith_property_level (measured_blue)

/* What is wrong with a picture, in words and as numbers. */
#define zenith_property_found                                                                      \
  property_string (measured, _ ("Found"), "")                                                      \
      description (_ ("What was found in the picture for the settings that are 0"))                \
          property_double (measured_blur, _ ("Blur that was found"), -1.0) description (           \
              _ ("Standard deviation of the blur, in pixels; 0: there is none, -1: "               \
                 "unclear, or not measured")) value_range (-1.0, 10.0) ui_meta ("visible", "0")    \
              property_double (measured_artefacts, _ ("JPEG artifacts that were found"), -1.0)     \
                  description (_ ("100 minus the quality of the JPEG file; 0: there are "          \
                                  "none, -1: not measured")) value_range (-1.0, 100.0)             \
                      ui_meta ("visible", "0")                                                     \
                          property_double (measured_noise, _ ("Noise that was found"), -1.0)       \
                              description (_ ("Standard deviation of the noise, of 255; "          \
                                              "0: there is little, -1: not measured"))             \
                                  value_range (-1.0, 100.0) ui_meta ("visible", "0")

#define zenith_property_precision                                                                  \
  zenith_property_precision_as (                                                                   \
      _ ("Number format that a GPU computes in, and a CPU stores weights in; automatic: fp16 on "  \
         "a GPU where the result differs by at most one 8-bit level, else fp32"))

#define zenith_property_precision_as(text)                                                         \
  property_enum (precision, _ ("Precision"), ZenithPrecision, zenith_precision,                    \
                 ZENITH_PRECISION_AUTO) description (text)

/* Written by the operation, never read. */
#define zenith_property_note                                                                       \
  property_string (note, _ ("Note"), "")                                                           \
      description (_ ("What was done differently from what was asked; the result is still good"))  \
          ui_meta ("visible", "noted")

/* Written by the operation, never read; for programs, so an automatic dialog does not show it. */
#define zenith_property_computed_by                                                                \
  property_string (computed_by, _ ("Computed by"), "")                                             \
      description (_ ("The engine and the precision of the result, such as avx2 fp32"))            \
          ui_meta ("visible", "0")

/* The same for what a run takes. */
#define zenith_property_memory                                                                     \
  property_string (memory, _ ("Memory"), "")                                                       \
      description (_ ("What the run takes, known before it starts")) ui_meta ("visible", "0")

/* What computes, and how it ended; _large: of a run whose memory is shown, too. */
#define zenith_properties_of_a_run                                                                 \
  zenith_property_engine zenith_property_status zenith_property_precision zenith_property_note     \
      zenith_property_failed
#define zenith_properties_of_a_large_run                                                           \
  zenith_property_engine zenith_property_status zenith_property_precision zenith_property_note     \
      zenith_property_memory zenith_property_failed

#endif
