/* SPDX-License-Identifier: MIT
 *
 * zenith-view.c - before and after, zoomed and moved; see the header.
 *
 * Pixels of the screen are kept twice, before and after, and composed whenever the line or
 * the button moves: no filter runs for that.
 */
#include <math.h>
#include <string.h>

#include <glib/gi18n-lib.h>
#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "zenith-view.h"

#define BAND 512   /* rows of the source that are one part, where all of it is fitted in */
#define GRIP 8     /* pixels around the line where it is taken hold of                   */
#define EMPTY 0x70 /* grey around a small picture                                        */

typedef enum
{
  ZOOM_FIT,
  ZOOM_1,
  ZOOM_2,
  N_ZOOMS
} Zoom;

struct _ZnView
{
  const ZnViewPicture *picture;
  void (*changed) (gpointer data);
  gpointer data;

  GtkWidget *widget;
  GtkWidget *area;
  GtkWidget *tools;
  GtkWidget *zoom_button[N_ZOOMS];

  Zoom          zoom;
  gdouble       scale; /* pixels of the screen per pixel of the source           */
  gdouble       x, y;  /* of the source, in the middle of the view               */
  gint          width; /* of the view                                            */
  gint          height;
  GeglRectangle place;  /* of the picture in the view                             */
  GeglRectangle roi;    /* of the source in the view                              */
  guchar       *before; /* [place.height][place.width][4]                         */
  guchar       *after;  /* the same; the source where nothing was computed yet    */
  guchar       *mask;   /* [place.height][place.width], NULL: no selection        */

  ZnFrame frame[ZN_FACES_MAX]; /* of faces, in the source */
  guint   n_frames;
  gint    chosen;  /* of them, -1: all */
  ZnFrame gone_to; /* the last that was chosen */
  void (*clicked) (gpointer data, guint frame);

  gboolean split;
  gdouble  split_at; /* of the view's width */
  gboolean held;     /* "Before" is pressed */

  gboolean dragging;
  gboolean dragging_line;
  gboolean dragged; /* it moved: that is no click */
  gdouble  drag_x, drag_y;
};

/*  pixels  */

/* What lies at the view's place, from the source or the selection, enlarged if need be. */
static guchar *
read_pixels (ZnView *v, GeglBuffer *buffer, gint dx, gint dy, const gchar *format, gint bytes)
{
  const gint    w   = v->place.width;
  const gint    h   = v->place.height;
  guchar       *out = g_malloc ((gsize) w * h * bytes);
  GeglRectangle r   = { v->roi.x + dx, v->roi.y + dy, v->roi.width, v->roi.height };

  if (v->scale > 1.0)
    {
      guchar *small = g_malloc ((gsize) r.width * r.height * bytes);

      gegl_buffer_get (buffer, &r, 1.0, babl_format (format), small, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_NONE);
      for (gint y = 0; y < h; y++)
        for (gint x = 0; x < w; x++)
          memcpy (out + ((gsize) y * w + x) * bytes,
                  small + ((gsize) MIN ((gint) (y / v->scale), r.height - 1) * r.width +
                           MIN ((gint) (x / v->scale), r.width - 1)) *
                              bytes,
                  bytes);
      g_free (small);
    }
  else
    {
      const GeglRectangle scaled = { (gint) (r.x * v->scale), (gint) (r.y * v->scale), w, h };

      gegl_buffer_get (buffer, &scaled, v->scale, babl_format (format), out, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_CLAMP);
    }

  return out;
}

/* The sides of a frame, a dotted line of black and white as the one between before and after;
 * of those that are not chosen a part only. */
static void
draw_frame (const ZnView *v, const ZnFrame *f, gint gap, guchar *out, gint stride)
{
  static const gint corner[5][2] = { { -1, -1 }, { 1, -1 }, { 1, 1 }, { -1, 1 }, { -1, -1 } };
  const gdouble     c            = cos (f->angle * G_PI / 180.0) * f->size / 2.0;
  const gdouble     s            = sin (f->angle * G_PI / 180.0) * f->size / 2.0;
  gdouble           x[5], y[5];

  for (gint k = 0; k < 5; k++)
    {
      const gint *at = corner[k];

      x[k] = (f->x + c * at[0] - s * at[1] - v->roi.x) * v->scale + v->place.x;
      y[k] = (f->y + s * at[0] + c * at[1] - v->roi.y) * v->scale + v->place.y;
    }
  for (gint k = 0; k < 4; k++)
    {
      const gint n = (gint) MIN (hypot (x[k + 1] - x[k], y[k + 1] - y[k]), 1e5);

      for (gint i = 0; i < n; i++)
        {
          const gint px = (gint) floor (x[k] + (x[k + 1] - x[k]) * i / n);
          const gint py = (gint) floor (y[k] + (y[k + 1] - y[k]) * i / n);

          if (i % gap < 8 && px >= 0 && px < v->width && py >= 0 && py < v->height)
            memset (out + (gsize) py * stride + px * 4, i & 4 ? 0xff : 0x00, 3);
        }
    }
}

static void
draw (ZnView *v)
{
  const gint stride = v->width * 4;
  const gint line   = v->split ? (gint) (v->split_at * v->width) : -1;
  guchar    *out;

  if (! v->before || v->width <= 0 || v->height <= 0)
    return;

  out = g_malloc ((gsize) stride * v->height);
  memset (out, EMPTY, (gsize) stride * v->height);
  for (gint y = 0; y < v->height; y++)
    for (gint x = 0; x < v->width; x++)
      out[(gsize) y * stride + x * 4 + 3] = 255;

  for (gint y = 0; y < v->place.height; y++)
    for (gint x = 0; x < v->place.width; x++)
      {
        const gsize   i      = (gsize) y * v->place.width + x;
        const gint    sx     = x + v->place.x;
        guchar       *to     = out + (gsize) (y + v->place.y) * stride + sx * 4;
        const guchar *before = v->before + i * 4;
        const guchar *after  = v->after + i * 4;
        const gint    weight = v->held || sx < line ? 0 : v->mask ? v->mask[i] : 255;

        for (gint c = 0; c < 4; c++)
          to[c] = (before[c] * (255 - weight) + after[c] * weight + 127) / 255;
      }

  for (gint y = 0; line >= 0 && line < v->width && y < v->height; y++)
    memset (out + (gsize) y * stride + line * 4, y & 4 ? 0xff : 0x00, 3);

  for (guint i = 0; ! v->held && i < v->n_frames; i++)
    draw_frame (v, &v->frame[i], v->chosen < 0 || v->chosen == (gint) i ? 8 : 24, out, stride);

  gimp_preview_area_draw (GIMP_PREVIEW_AREA (v->area), 0, 0, v->width, v->height, GIMP_RGBA_IMAGE,
                          out, stride);
  g_free (out);
}

/* Where the picture is, after its place, its zoom or the view's size changed. */
static void
locate (ZnView *v)
{
  const GeglRectangle *all = gegl_buffer_get_extent (v->picture->source);
  gdouble              left, top;

  v->scale = v->zoom == ZOOM_2 ? 2.0 : 1.0;
  if (v->zoom == ZOOM_FIT)
    v->scale = MIN (1.0, MIN ((gdouble) v->width / all->width, (gdouble) v->height / all->height));

  v->place.width  = CLAMP ((gint) (all->width * v->scale), 1, v->width);
  v->place.height = CLAMP ((gint) (all->height * v->scale), 1, v->height);
  v->place.x      = (v->width - v->place.width) / 2;
  v->place.y      = (v->height - v->place.height) / 2;

  v->roi.width  = MIN (all->width, (gint) (v->place.width / v->scale + 0.999));
  v->roi.height = MIN (all->height, (gint) (v->place.height / v->scale + 0.999));
  left          = CLAMP (v->x - v->roi.width / 2.0, 0, all->width - v->roi.width);
  top           = CLAMP (v->y - v->roi.height / 2.0, 0, all->height - v->roi.height);
  v->roi.x      = all->x + (gint) left;
  v->roi.y      = all->y + (gint) top;
  v->x          = left + v->roi.width / 2.0;
  v->y          = top + v->roi.height / 2.0;
  if (v->zoom == ZOOM_FIT)
    v->roi = *all;
}

static void
reload (ZnView *v)
{
  GtkAllocation a;

  gtk_widget_get_allocation (v->area, &a);
  if (a.width <= 1 || a.height <= 1) /* not yet */
    return;

  v->width  = a.width;
  v->height = a.height;
  locate (v);

  g_free (v->before);
  g_free (v->mask);
  v->before = read_pixels (v, v->picture->source, 0, 0, "R'G'B'A u8", 4);
  v->mask   = v->picture->selection ? read_pixels (v, v->picture->selection, v->picture->offset_x,
                                                   v->picture->offset_y, "Y u8", 1)
                                    : NULL;
  zn_view_clear (v);
}

/* Another part is to be seen. */
static void
move (ZnView *v)
{
  reload (v);
  v->changed (v->data);
}

void
zn_view_clear (ZnView *v)
{
  if (! v->before)
    return;

  g_free (v->after);
  v->after = g_memdup2 (v->before, (gsize) v->place.width * v->place.height * 4);
  draw (v);
}

/* Goes to a frame that was not chosen before, if it is not seen whole. */
static void
go_to (ZnView *v, const ZnFrame *f)
{
  const GeglRectangle *all  = gegl_buffer_get_extent (v->picture->source);
  const gint           side = (gint) ceil (f->size);
  const GeglRectangle  at   = { (gint) (f->x - f->size / 2.0), (gint) (f->y - f->size / 2.0), side,
                                side };
  GeglRectangle        seen;

  if (f->x == v->gone_to.x && f->y == v->gone_to.y)
    return;
  v->gone_to = *f;
  gegl_rectangle_intersect (&seen, &at, all);
  if (gegl_rectangle_contains (&v->roi, &seen))
    return;

  v->x = f->x - all->x;
  v->y = f->y - all->y;
  if (MAX (seen.width, seen.height) > MIN (v->roi.width, v->roi.height) && v->zoom != ZOOM_FIT)
    zn_view_fit (v);
  else
    move (v);
}

void
zn_view_set_frames (ZnView *v, const ZnFrame *frame, guint n, gint chosen)
{
  v->n_frames = MIN (n, ZN_FACES_MAX);
  v->chosen   = chosen;
  for (guint i = 0; i < v->n_frames; i++)
    v->frame[i] = frame[i];
  draw (v);
  if (chosen >= 0 && (guint) chosen < v->n_frames)
    go_to (v, &v->frame[chosen]);
}

void
zn_view_set_clicked (ZnView *v, void (*clicked) (gpointer data, guint frame))
{
  v->clicked = clicked;
}

/* The smallest frame around a place of the view, or -1. */
static gint
frame_at (const ZnView *v, gdouble x, gdouble y)
{
  gint best = -1;

  for (guint i = 0; i < v->n_frames; i++)
    {
      const ZnFrame *f     = &v->frame[i];
      const gdouble  angle = f->angle * G_PI / 180.0;
      const gdouble  dx    = (x - v->place.x) / v->scale + v->roi.x - f->x;
      const gdouble  dy    = (y - v->place.y) / v->scale + v->roi.y - f->y;

      if (fabs (cos (angle) * dx + sin (angle) * dy) < f->size / 2.0 &&
          fabs (cos (angle) * dy - sin (angle) * dx) < f->size / 2.0 &&
          (best < 0 || f->size < v->frame[best].size))
        best = (gint) i;
    }

  return best;
}

/* Rows of the screen in one part. */
static gint
band_rows (ZnView *v)
{
  return v->zoom == ZOOM_FIT ? MAX (1, (gint) (BAND * v->scale)) : v->place.height;
}

gboolean
zn_view_part (ZnView *v, guint index, GeglRectangle *part)
{
  const gint rows  = band_rows (v);
  const gint first = (gint) index * rows;
  gint       last  = first + rows;

  if (! v->before || first >= v->place.height)
    return FALSE;

  *part = v->roi;
  if (v->zoom == ZOOM_FIT)
    {
      part->y      = v->roi.y + (gint) (first / v->scale);
      part->height = last >= v->place.height ? v->roi.y + v->roi.height - part->y
                                             : v->roi.y + (gint) (last / v->scale) - part->y;
    }

  return TRUE;
}

/* The mean of the pixels that one pixel of the screen stands for. */
static void
average (const guchar *rgba, gint width, gint x0, gint x1, gint y0, gint y1, guchar *to)
{
  guint sum[4] = { 0, 0, 0, 0 };
  guint n      = (guint) (x1 - x0) * (y1 - y0);

  for (gint y = y0; y < y1; y++)
    for (gint x = x0; x < x1; x++)
      for (gint c = 0; c < 4; c++)
        sum[c] += rgba[((gsize) y * width + x) * 4 + c];
  for (gint c = 0; c < 4; c++)
    to[c] = (sum[c] + n / 2) / n;
}

void
zn_view_show (ZnView *v, const GeglRectangle *part, gint density, const guchar *rgba)
{
  const gint    skip_x = (v->roi.x - part->x) * density;
  const gint    skip_y = (v->roi.y - part->y) * density;
  const gint    width  = part->width * density;
  const gint    height = part->height * density;
  const gdouble scale  = v->scale / density; /* pixels of the screen per pixel of rgba */

  if (! v->after)
    return;

  for (gint y = 0; y < v->place.height; y++)
    {
      const gint y0 = (gint) (y / scale) + skip_y;
      const gint y1 = MAX (y0 + 1, MIN ((gint) ((y + 1) / scale) + skip_y, height));

      if (y0 < 0 || y0 >= height)
        continue;
      for (gint x = 0; x < v->place.width; x++)
        {
          const gint x0 = (gint) (x / scale) + skip_x;
          const gint x1 = MAX (x0 + 1, MIN ((gint) ((x + 1) / scale) + skip_x, width));

          if (x0 >= 0 && x0 < width)
            average (rgba, width, x0, x1, y0, y1, v->after + ((gsize) y * v->place.width + x) * 4);
        }
    }
  draw (v);
}

/*  what the user does  */

static void
on_size (GtkWidget *area, GtkAllocation *allocation, ZnView *v)
{
  if (allocation->width == v->width && allocation->height == v->height && v->before)
    return;

  move (v);
}

static void
on_zoom (GtkToggleButton *button, ZnView *v)
{
  if (! gtk_toggle_button_get_active (button))
    return;

  for (gint i = 0; i < N_ZOOMS; i++)
    if (v->zoom_button[i] == GTK_WIDGET (button))
      v->zoom = i;

  move (v);
}

static void
on_split (GtkToggleButton *button, ZnView *v)
{
  v->split = gtk_toggle_button_get_active (button);
  draw (v);
}

static void
on_held (GtkButton *button, ZnView *v)
{
  v->held = TRUE;
  draw (v);
}

static void
on_released (GtkButton *button, ZnView *v)
{
  v->held = FALSE;
  draw (v);
}

static gboolean
on_press (GtkWidget *box, GdkEventButton *event, ZnView *v)
{
  if (event->button != 1 || event->type != GDK_BUTTON_PRESS)
    return FALSE;

  v->dragging      = TRUE;
  v->dragged       = FALSE;
  v->dragging_line = v->split && ABS (event->x - v->split_at * v->width) <= GRIP;
  v->drag_x        = event->x;
  v->drag_y        = event->y;

  return TRUE;
}

static gboolean
on_motion (GtkWidget *box, GdkEventMotion *event, ZnView *v)
{
  if (! v->dragging)
    return FALSE;
  if (! v->dragged && ! v->dragging_line &&
      hypot (event->x - v->drag_x, event->y - v->drag_y) < GRIP / 2)
    return TRUE; /* a hand is not that still */

  v->dragged = TRUE;
  if (v->dragging_line)
    {
      v->split_at = CLAMP (event->x / MAX (v->width, 1), 0.0, 1.0);
      draw (v);
    }
  else
    {
      v->x -= (event->x - v->drag_x) / v->scale;
      v->y -= (event->y - v->drag_y) / v->scale;
      v->drag_x = event->x;
      v->drag_y = event->y;
      move (v);
    }

  return TRUE;
}

static gboolean
on_release (GtkWidget *box, GdkEventButton *event, ZnView *v)
{
  const gint frame = v->dragging && ! v->dragged && ! v->dragging_line
                         ? frame_at (v, event->x, event->y)
                         : -1;

  v->dragging = FALSE;
  if (frame >= 0 && v->clicked)
    v->clicked (v->data, frame);

  return TRUE;
}

/*  the widgets  */

static GtkWidget *
tools_new (ZnView *v)
{
  static const gchar *const label[N_ZOOMS] = { N_ ("_Fit"), N_ ("_100 %"), N_ ("_200 %") };
  GtkWidget                *row            = gtk_hbox_new (FALSE, 6);
  GtkWidget                *zooms          = gtk_hbox_new (FALSE, 0);
  GtkWidget                *others         = gtk_hbox_new (FALSE, 6);
  GtkWidget                *button         = NULL;

  for (gint i = 0; i < N_ZOOMS; i++)
    {
      button = gtk_radio_button_new_with_mnemonic_from_widget (
          button ? GTK_RADIO_BUTTON (button) : NULL, _ (label[i]));
      gtk_toggle_button_set_mode (GTK_TOGGLE_BUTTON (button), FALSE);
      gtk_box_pack_start (GTK_BOX (zooms), button, FALSE, FALSE, 0);
      v->zoom_button[i] = button;
    }
  gtk_widget_set_tooltip_text (v->zoom_button[ZOOM_FIT],
                               _ ("The whole picture; computing all of it takes as long as OK"));
  gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (v->zoom_button[ZOOM_1]), TRUE);
  for (gint i = 0; i < N_ZOOMS; i++)
    g_signal_connect (v->zoom_button[i], "toggled", G_CALLBACK (on_zoom), v);
  gtk_box_pack_start (GTK_BOX (row), zooms, FALSE, FALSE, 0);
  gtk_box_pack_start (GTK_BOX (row), others, TRUE, TRUE, 0);
  v->tools = row;

  button = gtk_check_button_new_with_mnemonic (_ ("_Split view"));
  gtk_widget_set_tooltip_text (button, _ ("Left of the line the picture as it was"));
  g_signal_connect (button, "toggled", G_CALLBACK (on_split), v);
  gtk_box_pack_start (GTK_BOX (others), button, FALSE, FALSE, 0);

  button = gtk_button_new_with_label (_ ("Before"));
  gtk_widget_set_tooltip_text (button, _ ("Hold it to see the picture as it was"));
  g_signal_connect (button, "pressed", G_CALLBACK (on_held), v);
  g_signal_connect (button, "released", G_CALLBACK (on_released), v);
  gtk_box_pack_end (GTK_BOX (others), button, FALSE, FALSE, 0);

  return row;
}

ZnView *
zn_view_new (const ZnViewPicture *picture,
             gint                 side,
             void (*changed) (gpointer data),
             gpointer data)
{
  const GeglRectangle *all = gegl_buffer_get_extent (picture->source);
  GeglRectangle        at  = picture->selection ? picture->selected : *all;
  ZnView              *v   = g_new0 (ZnView, 1);
  GtkWidget           *frame;
  GtkWidget           *box;

  v->picture  = picture;
  v->changed  = changed;
  v->data     = data;
  v->zoom     = ZOOM_1;
  v->scale    = 1.0;
  v->split_at = 0.5;
  v->x        = at.x - all->x + at.width / 2.0;
  v->y        = at.y - all->y + at.height / 2.0;

  v->area = gimp_preview_area_new ();
  gimp_preview_area_set_max_size (GIMP_PREVIEW_AREA (v->area), 8192, 8192);
  zn_view_set_side (v, side);
  g_signal_connect_after (v->area, "size-allocate", G_CALLBACK (on_size), v);

  box = gtk_event_box_new ();
  gtk_container_add (GTK_CONTAINER (box), v->area);
  gtk_widget_add_events (box,
                         GDK_BUTTON_PRESS_MASK | GDK_BUTTON_RELEASE_MASK | GDK_BUTTON_MOTION_MASK);
  g_signal_connect (box, "button-press-event", G_CALLBACK (on_press), v);
  g_signal_connect (box, "motion-notify-event", G_CALLBACK (on_motion), v);
  g_signal_connect (box, "button-release-event", G_CALLBACK (on_release), v);

  frame = gtk_frame_new (NULL);
  gtk_frame_set_shadow_type (GTK_FRAME (frame), GTK_SHADOW_IN);
  gtk_container_add (GTK_CONTAINER (frame), box);

  v->widget = gtk_vbox_new (FALSE, 6);
  gtk_box_pack_start (GTK_BOX (v->widget), frame, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (v->widget), tools_new (v), FALSE, FALSE, 0);

  return v;
}

void
zn_view_magnify (ZnView *v)
{
  gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (v->zoom_button[ZOOM_2]), TRUE);
}

void
zn_view_fit (ZnView *v)
{
  gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (v->zoom_button[ZOOM_FIT]), TRUE);
}

void
zn_view_set_side (ZnView *v, gint side)
{
  gtk_widget_set_size_request (v->area, side, side);
}

void
zn_view_narrow (ZnView *v)
{
  gtk_orientable_set_orientation (GTK_ORIENTABLE (v->tools), GTK_ORIENTATION_VERTICAL);
}

gint
zn_view_side (ZnView *v)
{
  gint side;

  gtk_widget_get_size_request (v->area, &side, NULL);

  return side;
}

GtkWidget *
zn_view_widget (ZnView *v)
{
  return v->widget;
}

void
zn_view_free (ZnView *v)
{
  if (! v)
    return;

  g_free (v->before);
  g_free (v->after);
  g_free (v->mask);
  g_free (v);
}
