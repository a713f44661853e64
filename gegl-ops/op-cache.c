/* SPDX-License-Identifier: MIT */
/* op-cache.c - results kept for the whole process: a hash, and two LRU lists.
 *
 * All entries are in `used`; those whose bytes are in memory are in `held` too.  An
 * entry that does not fit in memory is written to the file, once: its bytes never
 * change. */

#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <glib/gi18n-lib.h>
#include <glib/gstdio.h>

#include "op-cache.h"
#include "zenith_number.h"

#define DEFAULT_MIB 256 /* without $ZENITH_CACHE, which is in MiB */
#define FILE_MIB 1024   /* ... on disk */
#define STRIP_ROWS 64   /* rows of a buffer that are hashed at a time */

typedef struct
{
  zn_key  key;
  gsize   size;
  GBytes *bytes; /* NULL: in the file only */
  gint64  at;    /* place in the file; < 0: not there */
  GList   used;  /* in used, its data is the entry */
  GList   held;  /* in held, while bytes is not NULL */
} Entry;

static GMutex      lock;
static GHashTable *entries;             /* Entry, by its key */
static GQueue      used = G_QUEUE_INIT; /* last used first */
static GQueue      held = G_QUEUE_INIT; /* the same */
static gsize       held_size;

static gint        file = -1; /* has no name any more */
static gint64      file_end;
static gint64      file_size;  /* of the entries in it */
static GHashTable *free_slots; /* GArray of gint64 places, by their size */

/* ---- keys ----------------------------------------------------------------- */

typedef struct
{
  GeglBuffer          *buffer;
  const GeglRectangle *rects;
  const Babl          *format;
  zn_key              *keys; /* one for each */
} Rects;

/* Rectangles from `start` on, `count` of them. */
static void
add_rects (gsize start, gsize count, gpointer data)
{
  const Rects *r      = data;
  const gsize  bpp    = babl_format_get_bytes_per_pixel (r->format);
  guchar      *pixels = NULL;
  gsize        size   = 0;

  for (gsize i = start; i < start + count; i++)
    {
      const gsize needed = (gsize) r->rects[i].width * r->rects[i].height * bpp;

      if (needed > size)
        {
          gegl_free (pixels);
          pixels = gegl_malloc (needed);
          size   = needed;
        }
      gegl_buffer_get (r->buffer, &r->rects[i], 1.0, r->format, pixels, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_NONE);
      zn_key_add (&r->keys[i], pixels, needed);
    }

  gegl_free (pixels);
}

void
zn_op_keys_add_pixels (zn_key *keys, GeglBuffer *buffer, const GeglRectangle *rects, gsize n)
{
  Rects all = { buffer, rects, gegl_buffer_get_format (buffer), keys };

  /* Palette indices are not enough: the colours of a palette can change. */
  if (babl_format_is_palette (all.format))
    all.format = babl_format ("R'G'B'A u8");

  gegl_parallel_distribute_range (n, 1.0, add_rects, &all);
}

void
zn_op_key_add_buffer (zn_key              *key,
                      GeglBuffer          *buffer,
                      const GeglRectangle *rect,
                      const GeglRectangle *origin)
{
  const gint     place[4] = { rect->x - origin->x, rect->y - origin->y, rect->width, rect->height };
  const gsize    n        = (rect->height + STRIP_ROWS - 1) / STRIP_ROWS;
  zn_key        *keys     = g_new0 (zn_key, n);
  GeglRectangle *strips   = g_new (GeglRectangle, n);

  zn_key_add (key, place, sizeof (place));
  zn_key_add_text (key, babl_get_name (gegl_buffer_get_format (buffer)));

  for (gsize i = 0; i < n; i++)
    {
      const gint y = (gint) i * STRIP_ROWS;

      strips[i] = (GeglRectangle){ rect->x, rect->y + y, rect->width,
                                   MIN (rect->height - y, STRIP_ROWS) };
    }
  zn_op_keys_add_pixels (keys, buffer, strips, n);
  zn_key_add (key, keys, n * sizeof (zn_key));

  g_free (strips);
  g_free (keys);
}

/* ---- limits --------------------------------------------------------------- */

/* $ZENITH_CACHE, or NULL. */
static const gchar *
wanted (void)
{
  const gchar *text = g_getenv ("ZENITH_CACHE");

  return text && *text ? text : NULL;
}

gboolean
zn_op_cache_check (zn_error *err)
{
  gdouble mib;

  if (! wanted () || zn_mebibytes_parse (&mib, wanted ()))
    return TRUE;

  g_snprintf (err->text, sizeof (err->text),
              _ ("%s must be a size in mebibytes, such as 512, or 4G, not '%s'"), "ZENITH_CACHE",
              wanted ());

  return FALSE;
}

gsize
zn_op_cache_limit (void)
{
  static gsize limit;

  if (g_once_init_enter (&limit))
    {
      gdouble mib = DEFAULT_MIB;

      if (wanted ())
        zn_mebibytes_parse (&mib, wanted ());

      g_once_init_leave (&limit, (gsize) (mib * 1048576.0) + 1); /* 0 is "not yet" */
    }

  return limit - 1;
}

static gint64
file_limit (void)
{
  return wanted () ? 0 : (gint64) FILE_MIB << 20;
}

gboolean
zn_op_cache_takes (gsize size)
{
  return size <= zn_op_cache_limit () / 4 * 3;
}

/* ---- the file ------------------------------------------------------------- */

/* A new file in GEGL's swap folder (GIMP's, in GIMP), without a name, so that nothing
 * is left of it whatever happens.  Tried once. */
static gboolean
file_open (void)
{
  static gboolean tried;
  gchar          *folder = NULL;
  gchar          *path;

  if (tried)
    return file >= 0;
  tried = TRUE;

  g_object_get (gegl_config (), "swap", &folder, NULL);
  if (folder && g_path_is_absolute (folder))
    {
      path = g_build_filename (folder, "zenith-XXXXXX", NULL);
      file = g_mkstemp (path);
      if (file >= 0)
        g_unlink (path);
      g_free (path);
    }
  g_free (folder);

  return file >= 0;
}

static GArray *
slots_of (gsize size)
{
  GArray *slots;

  if (! free_slots)
    free_slots = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_array_unref);
  slots = g_hash_table_lookup (free_slots, GSIZE_TO_POINTER (size));
  if (! slots)
    {
      slots = g_array_new (FALSE, FALSE, sizeof (gint64));
      g_hash_table_insert (free_slots, GSIZE_TO_POINTER (size), slots);
    }

  return slots;
}

/* A place for so many bytes, or < 0: the file is full. */
static gint64
slot_take (gsize size)
{
  GArray *slots = slots_of (size);
  gint64  at    = -1;

  if (slots->len)
    {
      at = g_array_index (slots, gint64, slots->len - 1);
      g_array_set_size (slots, slots->len - 1);
    }
  else if (file_end + (gint64) size <= file_limit ())
    {
      at = file_end;
      file_end += size;
    }

  return at;
}

static void
slot_give (gint64 at, gsize size)
{
  GArray *slots = slots_of (size);

  g_array_append_val (slots, at);
  file_size -= size;
  if (! file_size) /* places of any size can be had again */
    {
      g_hash_table_remove_all (free_slots);
      file_end = 0;
    }
}

static gboolean
file_write (gint64 at, const gchar *data, gsize size)
{
  while (size)
    {
      const gssize n = pwrite (file, data, size, at);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      at += n;
      size -= n;
    }

  return TRUE;
}

static GBytes *
file_read (gint64 at, gsize size)
{
  gchar *data = g_try_malloc (size);
  gsize  done = 0;

  while (data && done < size)
    {
      const gssize n = pread (file, data + done, size - done, at + done);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        g_clear_pointer (&data, g_free);
      else
        done += n;
    }

  return data ? g_bytes_new_take (data, size) : NULL;
}

/* ---- the lists ------------------------------------------------------------ */

static guint
key_hash (gconstpointer key)
{
  return (guint) ((const zn_key *) key)->a;
}

static gboolean
key_equal (gconstpointer left, gconstpointer right)
{
  const zn_key *l = left;
  const zn_key *r = right;

  return l->a == r->a && l->b == r->b;
}

static void
entry_drop_bytes (Entry *entry)
{
  if (! entry->bytes)
    return;

  g_queue_unlink (&held, &entry->held);
  held_size -= entry->size;
  g_clear_pointer (&entry->bytes, g_bytes_unref);
}

static void
entry_hold (Entry *entry, GBytes *bytes)
{
  entry->bytes = g_bytes_ref (bytes);
  held_size += entry->size;
  g_queue_push_head_link (&held, &entry->held);
}

static void
entry_free (gpointer data)
{
  Entry *entry = data;

  entry_drop_bytes (entry);
  g_queue_unlink (&used, &entry->used);
  if (entry->at >= 0)
    slot_give (entry->at, entry->size);
  g_free (entry);
}

/* Writes the entry's bytes to the file, in the place of older ones if it is full. */
static gboolean
entry_save (Entry *entry)
{
  if (entry->at >= 0)
    return TRUE;
  if ((gint64) entry->size > file_limit () || ! file_open ())
    return FALSE;

  while ((entry->at = slot_take (entry->size)) < 0)
    {
      GList *oldest = used.tail;

      while (oldest && ((Entry *) oldest->data)->at < 0)
        oldest = oldest->prev;
      if (! oldest)
        return FALSE;
      g_hash_table_remove (entries, &((Entry *) oldest->data)->key);
    }

  file_size += entry->size;
  if (file_write (entry->at, g_bytes_get_data (entry->bytes, NULL), entry->size))
    return TRUE;

  slot_give (entry->at, entry->size);
  entry->at = -1;

  return FALSE;
}

/* Moves entries to the file until so many bytes more fit in memory. */
static void
evict (gsize size)
{
  while (held_size + size > zn_op_cache_limit () && held.tail)
    {
      Entry *entry = held.tail->data;

      if (entry_save (entry))
        entry_drop_bytes (entry);
      else
        g_hash_table_remove (entries, &entry->key);
    }
}

GBytes *
zn_op_cache_get (const zn_key *key)
{
  GBytes *bytes = NULL;
  Entry  *entry;

  g_mutex_lock (&lock);

  entry = entries ? g_hash_table_lookup (entries, key) : NULL;
  if (entry && entry->bytes)
    {
      bytes = g_bytes_ref (entry->bytes);
      g_queue_unlink (&held, &entry->held);
      g_queue_push_head_link (&held, &entry->held);
    }
  else if (entry)
    {
      bytes = file_read (entry->at, entry->size);
    }

  if (entry)
    {
      g_queue_unlink (&used, &entry->used);
      g_queue_push_head_link (&used, &entry->used);
      if (! bytes) /* the disk failed */
        {
          g_hash_table_remove (entries, key);
        }
      else if (! entry->bytes)
        {
          entry_hold (entry, bytes);
          evict (0); /* the entry may be gone after that */
        }
    }

  g_mutex_unlock (&lock);

  return bytes;
}

void
zn_op_cache_put (const zn_key *key, GBytes *bytes)
{
  const gsize size = g_bytes_get_size (bytes);
  Entry      *entry;

  if (! zn_op_cache_takes (size))
    return;

  g_mutex_lock (&lock);

  if (! entries)
    entries = g_hash_table_new_full (key_hash, key_equal, NULL, entry_free);

  g_hash_table_remove (entries, key);
  evict (size);

  entry            = g_new0 (Entry, 1);
  entry->key       = *key;
  entry->size      = size;
  entry->at        = -1;
  entry->used.data = entry->held.data = entry;
  g_queue_push_head_link (&used, &entry->used);
  g_hash_table_insert (entries, &entry->key, entry);
  entry_hold (entry, bytes);

  g_mutex_unlock (&lock);
}

guint64
zn_op_cache_size (gboolean filed)
{
  guint64 size;

  g_mutex_lock (&lock);
  size = filed ? (guint64) file_size : held_size;
  g_mutex_unlock (&lock);

  return size;
}

/* ---- for composites ------------------------------------------------------- */

static bool
get_kept (void *cookie, zn_key key, void *dst, size_t size)
{
  GBytes        *bytes = zn_op_cache_get (&key);
  const gboolean found = bytes && g_bytes_get_size (bytes) == size;

  if (found)
    memcpy (dst, g_bytes_get_data (bytes, NULL), size);
  g_clear_pointer (&bytes, g_bytes_unref);

  return found;
}

static void
put_kept (void *cookie, zn_key key, const void *src, size_t size)
{
  GBytes *bytes = g_bytes_new (src, size);

  zn_op_cache_put (&key, bytes);
  g_bytes_unref (bytes);
}

const zn_keep zn_op_keep = { get_kept, put_kept, NULL };
