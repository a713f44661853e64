/* SPDX-License-Identifier: MIT */
/* directory.c - the directories of a TIFF file, or of an EXIF block; see the header. */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "zenith-settings.h"

#define ENTRIES_MAX 4096
#define GUESSED_MAX 256 /* entries of a directory in a camera's note: exiv2 reads no more */
#define GUESSED_AT 32   /* bytes into the note: how far from its start cameras begin theirs */

enum
{
  TAG_WIDTH      = 256,
  TAG_HEIGHT     = 257,
  TAG_SUB_IFDS   = 330,
  TAG_IPTC       = 33723,
  TAG_PHOTOSHOP  = 34377, /* IPTC is in there, too */
  TAG_EXIF       = 34665,
  TAG_GPS        = 34853,
  TAG_MAKER_NOTE = 37500,
  TAG_PIXELS_X   = 40962,
  TAG_PIXELS_Y   = 40963,
  TAG_INTEROP    = 40965
};

/* Where a directory begins, and how it is read. */
typedef struct
{
  guint64  at;
  guint64  base; /* its values' places count from here */
  gboolean swap;
  gboolean strict;  /* its values must be there */
  gboolean guessed; /* in a camera's note, where there may be none */
} Place;

typedef struct
{
  ZnPicture    *picture;
  gint          fd;
  const guchar *block; /* instead of fd */
  guint64       size;
  gboolean      big;  /* BigTIFF */
  GArray       *todo; /* of Place */
  GHashTable   *seen; /* what was in todo */
} Walk;

typedef struct
{
  guint64 tag, type, count, value;
  guint64 bytes, from; /* of its values, where they are */
} Entry;

static guint64
number (const guchar *bytes, gint width, gboolean swap)
{
  guint64 v = 0;

  for (gint i = 0; i < width; i++)
    v = v << 8 | bytes[swap ? i : width - 1 - i];

  return v;
}

static gboolean
read_at (const Walk *walk, guint64 at, gpointer to, gsize size)
{
  if (at > walk->size || size > walk->size - at)
    return FALSE;
  if (! walk->block)
    return pread (walk->fd, to, size, (off_t) at) == (gssize) size;
  memcpy (to, walk->block + at, size);

  return TRUE;
}

/* Each place once, so that circles end. */
static void
add (Walk *walk, Place place)
{
  if (place.at && place.at < walk->size &&
      g_hash_table_add (walk->seen,
                        g_strdup_printf ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %d", place.at,
                                         place.base, place.swap)))
    g_array_append_val (walk->todo, place);
}

/* A list of directories, or one. */
static gboolean
add_list (Walk *walk, const Place *place, const Entry *entry, gint word, GError **error)
{
  Place         next = { .base = place->base, .swap = place->swap };
  const guint64 n    = MIN (entry->count, ENTRIES_MAX);
  guchar        b[8];

  if (entry->bytes <= (guint64) word)
    {
      next.at = place->base + entry->value;
      add (walk, next);
      return TRUE;
    }
  for (guint64 i = 0; i < n; i++)
    {
      if (! zn_share_work (&walk->picture->share, ZN_ITEM, error))
        return FALSE;
      if (! read_at (walk, entry->from + i * (guint) word, b, (gsize) word))
        break;
      next.at = place->base + number (b, word, place->swap);
      add (walk, next);
    }

  return TRUE;
}

/* A camera's note is a directory, too.  Where it begins and what its values count from is each
 * camera's own: all that exiv2 could take for one is tried. */
static void
add_note (Walk *walk, const Entry *note)
{
  const guint64 bases[] = { 0, note->from, note->from + 10 };

  for (guint64 at = 0; at <= GUESSED_AT && at < note->bytes; at++)
    for (guint i = 0; i < G_N_ELEMENTS (bases); i++)
      for (gint swap = 0; swap < 2; swap++)
        add (walk,
             (Place){ .at = note->from + at, .base = bases[i], .swap = swap, .guessed = TRUE });
}

static gboolean
note_iptc (Walk *walk, const Entry *entry, GError **error)
{
  guchar  *data = zn_picture_alloc (entry->bytes, error);
  gboolean ok   = data && read_at (walk, entry->from, data, entry->bytes) &&
                zn_picture_note_iptc (walk->picture, data, entry->bytes, error);

  g_free (data);

  return ok;
}

static Entry
parse (const guchar *at, const Place *place, gint word)
{
  static const guchar sizes[] = { 0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8 };
  Entry               e       = { .tag   = number (at, 2, place->swap),
                                  .type  = number (at + 2, 2, place->swap),
                                  .count = number (at + 4, word, place->swap),
                                  .value = number (at + 4 + word, word, place->swap) };
  const guint64       each    = e.type < G_N_ELEMENTS (sizes) ? sizes[e.type] : 0;

  e.count = MIN (e.count, G_MAXUINT64 / 16);
  e.bytes = each * e.count;
  e.from  = place->base + MIN (e.value, G_MAXINT64);

  return e;
}

static gboolean
walk_entry (Walk *walk, const Place *place, const Entry *entry, gint word, GError **error)
{
  const gboolean inside = entry->bytes <= (guint64) word;

  if (! inside && (entry->from > walk->size || entry->bytes > walk->size - entry->from))
    {
      if (place->strict)
        zn_picture_damaged (error, "a value lies beyond its end");
      return ! place->strict;
    }
  if (! zn_picture_note (walk->picture, entry->bytes, error))
    return FALSE;

  if (entry->tag == TAG_EXIF || entry->tag == TAG_GPS)
    add (walk, (Place){ .at     = place->base + entry->value,
                        .base   = place->base,
                        .swap   = place->swap,
                        .strict = place->strict });
  else if (entry->tag == TAG_SUB_IFDS || entry->tag == TAG_INTEROP)
    return add_list (walk, place, entry, word, error);
  else if (! inside && (entry->tag == TAG_IPTC || entry->tag == TAG_PHOTOSHOP))
    return note_iptc (walk, entry, error);
  else if (entry->tag == TAG_MAKER_NOTE && ! inside)
    add_note (walk, entry);
  else if (place->guessed && ! inside) /* a directory below that of a camera's note */
    add (walk,
         (Place){ .at = entry->from, .base = place->base, .swap = place->swap, .guessed = TRUE });
  else if (place->guessed)
    add (walk, (Place){ .at      = place->base + entry->value,
                        .base    = place->base,
                        .swap    = place->swap,
                        .guessed = TRUE });

  return TRUE;
}

static gboolean
walk_directory (Walk *walk, const Place *place, GError **error)
{
  const gboolean big   = walk->big && ! place->guessed;
  const gint     head  = big ? 8 : 2;
  const gint     entry = big ? 20 : 12;
  const gint     word  = big ? 8 : 4;
  guchar         b[8];
  guchar        *entries;
  guint64        n  = 0;
  gboolean       ok = read_at (walk, place->at, b, (gsize) head);

  if (! zn_share_work (&walk->picture->share, ZN_ITEM, error))
    return FALSE;
  if (ok)
    n = number (b, head, place->swap);
  if (! ok || n > (place->guessed ? GUESSED_MAX : ENTRIES_MAX) ||
      n * (guint) entry > walk->size - place->at - (guint) head)
    {
      if (place->strict)
        zn_picture_damaged (error, "a value lies beyond its end");
      return ! place->strict;
    }

  entries = zn_picture_alloc (n * (gsize) entry, error);
  ok      = entries != NULL && zn_share_work (&walk->picture->share, n * ZN_ITEM, error);
  if (ok && read_at (walk, place->at + (guint) head, entries, n * (gsize) entry))
    for (guint64 i = 0; ok && i < n; i++)
      {
        const Entry e = parse (entries + i * (guint) entry, place, word);

        ok = walk_entry (walk, place, &e, word, error);
      }
  g_free (entries);
  if (ok && ! place->guessed &&
      read_at (walk, place->at + (guint) head + n * (guint) entry, b, (gsize) word))
    add (walk, (Place){ .at   = place->base + number (b, word, place->swap),
                        .base = place->base,
                        .swap = place->swap });

  return ok;
}

static gboolean
walk_all (Walk *walk, gboolean strict, GError **error)
{
  guchar   head[16];
  Place    first = { .strict = strict };
  gboolean ok    = TRUE;

  memset (head, 0, sizeof (head));
  if (! read_at (walk, 0, head, MIN (walk->size, sizeof (head))))
    return ! strict;
  first.swap = *head == 'M';
  walk->big  = head[first.swap ? 3 : 2] == '+';
  first.at   = number (head + (walk->big ? 8 : 4), walk->big ? 8 : 4, first.swap);
  if (strict && (! first.at || first.at >= walk->size))
    {
      zn_picture_damaged (error, "a value lies beyond its end");
      return FALSE;
    }

  walk->todo = g_array_new (FALSE, FALSE, sizeof (Place));
  walk->seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  add (walk, first);
  while (ok && walk->todo->len)
    {
      const Place place = g_array_index (walk->todo, Place, walk->todo->len - 1);

      g_array_set_size (walk->todo, walk->todo->len - 1);
      ok = walk_directory (walk, &place, error);
    }
  g_array_unref (walk->todo);
  g_hash_table_unref (walk->seen);

  return ok;
}

gboolean
zn_directories_of_file (ZnPicture *picture, gint fd, GError **error)
{
  Walk        walk = { .picture = picture, .fd = fd };
  struct stat info;

  if (fstat (fd, &info))
    {
      zn_picture_damaged (error, "it cannot be read");
      return FALSE;
    }
  walk.size = (guint64) info.st_size;

  return walk_all (&walk, TRUE, error);
}

gboolean
zn_directories_of_block (ZnPicture *picture, GBytes *block, GError **error)
{
  gsize size = 0;
  Walk  walk = { .picture = picture, .fd = -1, .block = g_bytes_get_data (block, &size) };

  walk.size = size;

  return ! walk.block || walk_all (&walk, FALSE, error);
}

/* ---- another size ---------------------------------------------------------- */

static void
put_number (guchar *bytes, gint width, gboolean swap, guint32 v)
{
  for (gint i = 0; i < width; i++, v >>= 8)
    bytes[swap ? width - 1 - i : i] = (guchar) v;
}

/* Writes it into the directory at a place; where its EXIF directory is, or 0. */
static guint64
put_size (guchar *data, gsize size, const Place *place, guint32 width, guint32 height)
{
  guint64 exif = 0;
  guint64 n;

  if (! place->at || place->at > size || size - place->at < 2)
    return 0;
  n = MIN (number (data + place->at, 2, place->swap), (size - place->at - 2) / 12);
  for (guint64 i = 0; i < n; i++)
    {
      guchar     *at   = data + place->at + 2 + 12 * i;
      const Entry e    = parse (at, place, 4);
      const gint  side = e.tag == TAG_WIDTH || e.tag == TAG_PIXELS_X    ? 1
                         : e.tag == TAG_HEIGHT || e.tag == TAG_PIXELS_Y ? 2
                                                                        : 0;

      if (e.tag == TAG_EXIF)
        exif = e.value;
      if (side && e.count == 1 && (e.type == 3 || e.type == 4)) /* of 16 or 32 bits */
        {
          put_number (at + 2, 2, place->swap, 4);
          put_number (at + 8, 4, place->swap, side == 1 ? width : height);
        }
    }

  return exif;
}

GBytes *
zn_block_of_size (GBytes *block, guint32 width, guint32 height)
{
  gsize   size;
  guchar *data  = g_bytes_unref_to_data (block, &size);
  Place   place = { 0 };

  if (data && size >= 8)
    {
      place.swap = *data == 'M';
      place.at   = number (data + 4, 4, place.swap);
      place.at   = put_size (data, size, &place, width, height);
      put_size (data, size, &place, width, height);
    }

  return g_bytes_new_take (data, size);
}
