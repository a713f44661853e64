/* SPDX-License-Identifier: MIT */
/* ops.h - what the tests of the operations share: pictures, graphs, and the tiny
 * networks of tests/data/golden under the names that the operations look for.
 *
 *   int main (int argc, char **argv)
 *   {
 *     if (! ops_begin (&argc, &argv))
 *       return 1;
 *     RUN (test_something);
 *     return ops_end ();
 *   }
 *
 * Nothing here looks at how good a result is: the engine's tests do.
 *
 * meson gives OPS_DIR (the module), GEGL_DIR (GEGL's own) and DATA_DIR. */
#ifndef __ZENITH_TEST_OPS_H__
#define __ZENITH_TEST_OPS_H__

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include <gegl.h>

#include "../unit/test.h"

/* A part of the tests that needs an environment of its own is run by the program
 * itself, with --PART. */
extern const gchar *ops_self;
extern gchar       *ops_folder;          /* weights by the names that users see */
extern guint (*ops_network_runs) (void); /* NULL: the module does not count */
extern guint64 (*ops_network_pixels) (void);
extern guint64 (*ops_cache_size) (gboolean filed);

/* FALSE, and a line that says so, if GEGL does not find the operations. */
gboolean ops_begin (int *argc, char ***argv);
void     ops_clear (void);

/* The tiny Z-Image of tools/make_tiny_zimage.py in a folder of that name; zenith:z-image finds
 * "z-image" by itself.  sizes: what the script takes after the folder. */
gboolean ops_make_zimage (const gchar *name, const gchar *sizes);

/* For benchmarks: what a clock shows, in milliseconds. */
static inline gdouble
ops_ms (clockid_t clock)
{
  struct timespec t;

  clock_gettime (clock, &t);

  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static inline int
ops_end (void)
{
  ops_clear ();

  return test_end ();
}

/* Runs this program again with one more variable and takes over what it says. */
#define CHECK_SELF(part, variable, value)                                                          \
  do                                                                                               \
    {                                                                                              \
      gchar *said = ops_run_self (part, variable, value);                                          \
                                                                                                   \
      CHECK (! said, "%s", said);                                                                  \
    }                                                                                              \
  while (0)
gchar *ops_run_self (const gchar *part, const gchar *variable, const gchar *value);

gchar *in_folder (const gchar *name);

/* ---- pictures ------------------------------------------------------------- */

/* A smooth picture with noise; equal for equal seeds.  alpha: a ramp with holes. */
GeglBuffer *picture (const gchar *format, gint x, gint y, gint w, gint h, guint seed);
gfloat     *pixels_of (GeglBuffer *buffer, const GeglRectangle *rect, const gchar *format);

/* Whole numbers that babl made floats in two ways. */
#define BABL_OFF 1e-6f

/* The largest difference of two pictures of one size; NaN where one is NaN. */
gdouble  difference (const gfloat *a, const gfloat *b, gsize n);
gboolean all_finite (const gfloat *a, gsize n);

/* ---- graphs --------------------------------------------------------------- */

typedef struct
{
  GeglNode     *graph, *source, *op;
  GeglRectangle box; /* of the operation's output */
} Run;

/* settings: "model=taef1 mode=latent"; values are numbers or nicks or texts.  input: NULL
 * for an operation that has none. */
void    set_properties (GeglNode *op, const gchar *settings);
Run     run_new (const gchar *name, const gchar *settings, GeglBuffer *input);
gfloat *run_pixels (Run *run, const GeglRectangle *rect); /* R'G'B'A float */
gchar  *run_text (Run *run, const gchar *property);
gchar  *run_status (Run *run);
void    run_free (Run *run);
void    run_add (Run *run, GeglBuffer *second); /* the picture at its other input */

/* The whole result; *status and *box may be NULL. */
gfloat *apply (const gchar   *name,
               const gchar   *settings,
               GeglBuffer    *input,
               gchar        **status,
               GeglRectangle *box);

/* The largest difference of a part of a result to the whole of it, at r and box. */
gdouble part_difference (const gfloat        *part,
                         const GeglRectangle *r,
                         const gfloat        *whole,
                         const GeglRectangle *box);

/* The same for a region of the operation's result, computed for itself: *r, at most `side` wide and high. */
gdouble region_difference (GeglRectangle       *r,
                           GRand               *rand,
                           gint                 side,
                           const gchar         *name,
                           const gchar         *settings,
                           GeglBuffer          *input,
                           const gfloat        *whole,
                           const GeglRectangle *box);

/* What a host leaves as "zenith-estimate" at an operation: it is shown estimates. */
typedef struct
{
  void (*show) (gpointer data, GeglBuffer *estimate);
  gpointer data;
} Hook;

typedef struct
{
  const gchar *name, *settings;
} Filter;

/* Those that give back a picture of the same size. */
enum
{
  N_FILTERS = 7
};
extern const Filter filters[N_FILTERS];

#endif
