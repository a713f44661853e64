/* SPDX-License-Identifier: MIT */
/* op-cache.c - results kept for the whole process: a hash, and an LRU list. */

#include "config.h"

#include <string.h>

#include "op-cache.h"

#define DEFAULT_MIB 256 /* without $ZENITH_CACHE, which is in MiB */
#define STRIP_ROWS 64   /* rows of a buffer that are hashed at a time */
#define LANES_FROM 256  /* bytes that are worth hashing side by side */

typedef struct
{
  ZnOpKey key;
  GBytes *bytes;
  GList   link; /* in used, its data is the entry */
} Entry;

static GMutex      lock;
static GHashTable *entries;             /* Entry, by its key */
static GQueue      used = G_QUEUE_INIT; /* last used first */
static gsize       total;

/* ---- keys ----------------------------------------------------------------- */

/* Two independent chains of xor, multiply, shift.  Each step is a bijection of
 * the state, so two inputs that differ in one word never meet; 128 bits make
 * a meeting of others a matter for astronomers. */
static inline void
mix (ZnOpKey *key, guint64 word)
{
  key->a = (key->a ^ word) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  key->a ^= key->a >> 32;
  key->b = (key->b + word) * G_GUINT64_CONSTANT (0xd6e8feb86659fd93);
  key->b ^= key->b >> 29;
}

/* Most of p, in four pairs of chains that do not wait for each other; how much that
 * was.  Not arrays and loops: these would stay in memory. */
static gsize
mix_lanes (ZnOpKey *key, const guchar *p, gsize size)
{
  ZnOpKey lane0 = *key, lane1 = *key, lane2 = *key, lane3 = *key;
  guint64 word[4];
  gsize   i;

  for (i = 0; i + sizeof (word) <= size; i += sizeof (word))
    {
      memcpy (word, p + i, sizeof (word));
      mix (&lane0, word[0]);
      mix (&lane1, word[1]);
      mix (&lane2, word[2]);
      mix (&lane3, word[3]);
    }
  mix (key, lane0.a), mix (key, lane0.b);
  mix (key, lane1.a), mix (key, lane1.b);
  mix (key, lane2.a), mix (key, lane2.b);
  mix (key, lane3.a), mix (key, lane3.b);

  return i;
}

void
zn_op_key_add (ZnOpKey *key, gconstpointer data, gsize size)
{
  const guchar *p    = data;
  guint64       word = 0;
  gsize         i    = 0;

  mix (key, size);
  if (size >= LANES_FROM)
    i = mix_lanes (key, p, size);
  for (; i + 8 <= size; i += 8)
    {
      memcpy (&word, p + i, 8);
      mix (key, word);
    }
  if (i < size)
    {
      word = 0;
      memcpy (&word, p + i, size - i);
      mix (key, word);
    }
}

void
zn_op_key_add_string (ZnOpKey *key, const gchar *string)
{
  zn_op_key_add (key, string, strlen (string));
}

typedef struct
{
  GeglBuffer   *buffer;
  GeglRectangle rect;
  const Babl   *format;
  ZnOpKey      *keys; /* one for each strip */
} Strips;

/* Strips from `start` on, `count` of them. */
static void
add_strips (gsize start, gsize count, gpointer data)
{
  const Strips *strips = data;
  const gsize   stride = (gsize) strips->rect.width *
                       babl_format_get_bytes_per_pixel (strips->format);
  guchar *pixels = gegl_malloc (stride * MIN (strips->rect.height, STRIP_ROWS));

  for (gsize i = start; i < start + count; i++)
    {
      const gint    y    = (gint) i * STRIP_ROWS;
      GeglRectangle part = { strips->rect.x, strips->rect.y + y, strips->rect.width,
                             MIN (strips->rect.height - y, STRIP_ROWS) };

      gegl_buffer_get (strips->buffer, &part, 1.0, strips->format, pixels, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_NONE);
      zn_op_key_add (&strips->keys[i], pixels, stride * part.height);
    }

  gegl_free (pixels);
}

void
zn_op_key_add_buffer (ZnOpKey             *key,
                      GeglBuffer          *buffer,
                      const GeglRectangle *rect,
                      const GeglRectangle *origin)
{
  const Babl *format   = gegl_buffer_get_format (buffer);
  const gint  place[4] = { rect->x - origin->x, rect->y - origin->y, rect->width, rect->height };
  const gsize n        = (rect->height + STRIP_ROWS - 1) / STRIP_ROWS;
  Strips      strips   = { buffer, *rect, format, g_new0 (ZnOpKey, n) };

  zn_op_key_add (key, place, sizeof (place));
  zn_op_key_add_string (key, babl_get_name (format));

  /* An index says nothing: the colours of a palette can change. */
  if (babl_format_is_palette (format))
    strips.format = babl_format ("R'G'B'A u8");

  gegl_parallel_distribute_range (n, 1.0, add_strips, &strips);
  zn_op_key_add (key, strips.keys, n * sizeof (ZnOpKey));

  g_free (strips.keys);
}

/* ---- the list ------------------------------------------------------------- */

static guint
key_hash (gconstpointer key)
{
  return (guint) ((const ZnOpKey *) key)->a;
}

static gboolean
key_equal (gconstpointer left, gconstpointer right)
{
  const ZnOpKey *l = left;
  const ZnOpKey *r = right;

  return l->a == r->a && l->b == r->b;
}

static void
entry_free (gpointer data)
{
  Entry *entry = data;

  g_queue_unlink (&used, &entry->link);
  total -= g_bytes_get_size (entry->bytes);
  g_bytes_unref (entry->bytes);
  g_free (entry);
}

static gsize
cache_limit (void)
{
  static gsize limit;

  if (g_once_init_enter (&limit))
    {
      const gchar *text = g_getenv ("ZENITH_CACHE");
      guint64      mib  = DEFAULT_MIB;

      if (text)
        g_ascii_string_to_unsigned (text, 10, 0, G_MAXSIZE >> 21, &mib, NULL);

      g_once_init_leave (&limit, ((gsize) mib << 20) + 1); /* 0 is "not yet" */
    }

  return limit - 1;
}

gboolean
zn_op_cache_takes (gsize size)
{
  return size <= cache_limit () / 4 * 3;
}

GBytes *
zn_op_cache_get (const ZnOpKey *key)
{
  GBytes *bytes = NULL;
  Entry  *entry;

  g_mutex_lock (&lock);

  entry = entries ? g_hash_table_lookup (entries, key) : NULL;
  if (entry)
    {
      g_queue_unlink (&used, &entry->link);
      g_queue_push_head_link (&used, &entry->link);
      bytes = g_bytes_ref (entry->bytes);
    }

  g_mutex_unlock (&lock);

  return bytes;
}

void
zn_op_cache_put (const ZnOpKey *key, GBytes *bytes)
{
  gsize  size = g_bytes_get_size (bytes);
  Entry *entry;

  if (! zn_op_cache_takes (size))
    return;

  g_mutex_lock (&lock);

  if (! entries)
    entries = g_hash_table_new_full (key_hash, key_equal, NULL, entry_free);

  g_hash_table_remove (entries, key);
  while (total + size > cache_limit ())
    g_hash_table_remove (entries, &((Entry *) g_queue_peek_tail (&used))->key);

  entry            = g_new0 (Entry, 1);
  entry->key       = *key;
  entry->bytes     = g_bytes_ref (bytes);
  entry->link.data = entry;
  g_queue_push_head_link (&used, &entry->link);
  g_hash_table_insert (entries, &entry->key, entry);
  total += size;

  g_mutex_unlock (&lock);
}
