/* SPDX-License-Identifier: MIT */
/* journal.c - which settings made which result. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "journal.h"
#include "zenith-settings.h"

#define NAME ZN_OWN_PREFIX "batch"
#define FIELDS 9
#define CHECK_LEN 8
#define COMPUTED_BY " computed-by="
#define FILE_MAX ((gint64) 1 << 30)

typedef struct
{
  gint64 size, time;
} Stamp;

typedef struct _Line Line;
struct _Line
{
  Stamp  input, result;
  gchar  digest[ZN_DIGEST_SIZE];
  gchar *settings;
  gchar *computed_by; /* in settings, after them; "": unknown */
  Line  *older;
};

struct _ZnJournal
{
  ZnFolder   *folder;
  gchar      *file; /* the one that is written */
  gint        fd;
  gboolean    torn; /* the last line may have no end */
  GMutex      lock;
  GHashTable *lines; /* name -> Line, the last read first */
};

static Stamp
stamp_of (const struct stat *info)
{
  return (Stamp){ (gint64) info->st_size,
                  (gint64) info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec };
}

static gboolean
stamp_equal (Stamp a, Stamp b)
{
  return a.size == b.size && a.time == b.time;
}

static void
check_of (gchar check[CHECK_LEN + 1], const gchar *text)
{
  gchar *sum = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);

  g_strlcpy (check, sum, CHECK_LEN + 1);
  g_free (sum);
}

static gchar *
escape (const gchar *text)
{
  GString *escaped = g_string_new (NULL);

  for (const guchar *p = (const guchar *) text; *p; p++)
    if (*p >= ' ' && *p < 127 && *p != '%')
      g_string_append_c (escaped, *p);
    else
      g_string_append_printf (escaped, "%%%02X", *p);

  return g_string_free (escaped, FALSE);
}

/* In place; FALSE if it is not what escape() makes. */
static gboolean
unescape (gchar *text)
{
  gchar *to = text;

  for (const gchar *p = text; *p; p++)
    if (*p != '%')
      {
        *to++ = *p;
      }
    else
      {
        gint high = g_ascii_xdigit_value (p[1]);
        gint low  = high < 0 ? -1 : g_ascii_xdigit_value (p[2]);

        if (low < 0 || ! (high * 16 + low))
          return FALSE;
        *to++ = (gchar) (high * 16 + low);
        p += 2;
      }
  *to = '\0';

  return TRUE;
}

/* ---- reading -------------------------------------------------------------- */

static void
line_free (gpointer data)
{
  Line *line = data;

  while (line)
    {
      Line *older = line->older;

      g_free (line->settings);
      g_free (line);
      line = older;
    }
}

gchar *
zn_journal_words (const gchar *settings, const gchar *computed_by)
{
  return *computed_by ? g_strconcat (settings, COMPUTED_BY, computed_by, NULL)
                      : g_strdup (settings);
}

static void
split_settings (Line *line)
{
  gchar *at = g_strrstr (line->settings, COMPUTED_BY);

  line->computed_by = at ? at + strlen (COMPUTED_BY) : line->settings + strlen (line->settings);
  if (at)
    *at = '\0';
}

/* "avx2 fp32" is by avx2; what no network changed is by any. */
static gboolean
is_by (const gchar *computed_by, const gchar *engine)
{
  const gsize len = strlen (engine);

  return ! *computed_by || (! strncmp (computed_by, engine, len) && computed_by[len] == ' ');
}

/* Two numbers with a blank between them. */
static gboolean
parse_stamp (const gchar *text, Stamp *stamp)
{
  gchar *end;

  stamp->size = g_ascii_strtoll (text, &end, 10);
  if (end == text || *end != ' ')
    return FALSE;
  text        = end + 1;
  stamp->time = g_ascii_strtoll (text, &end, 10);

  return end != text && ! *end;
}

static void
parse_line (ZnJournal *journal, gchar *text)
{
  gchar  *tab = strrchr (text, '\t');
  gchar   check[CHECK_LEN + 1];
  gchar **field;

  if (! tab)
    return;
  *tab = '\0';
  check_of (check, text);
  if (strcmp (check, tab + 1))
    return;

  field = g_strsplit (text, "\t", FIELDS);
  if (g_strv_length (field) == 6 && unescape (field[0]) && unescape (field[5]) &&
      strlen (field[3]) == ZN_DIGEST_SIZE - 1)
    {
      Line *line = g_new0 (Line, 1);

      if (parse_stamp (field[1], &line->input) && parse_stamp (field[2], &line->result))
        {
          gpointer key   = NULL;
          gpointer older = NULL;

          g_strlcpy (line->digest, field[3], sizeof (line->digest));
          line->settings = g_strdup (field[5]);
          split_settings (line);
          if (g_hash_table_steal_extended (journal->lines, field[0], &key, &older))
            line->older = older;
          g_hash_table_insert (journal->lines, key ? key : g_strdup (field[0]), line);
        }
      else
        {
          g_free (line);
        }
    }
  g_strfreev (field);
}

static void
read_file (ZnJournal *journal, const gchar *name)
{
  gint fd = openat (journal->folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  gchar      *text = NULL;
  gsize       size = 0;

  if (fd < 0)
    return;

  if (! fstat (fd, &info) && S_ISREG (info.st_mode) && info.st_size < FILE_MAX)
    {
      text = g_malloc (info.st_size + 1);
      while (size < (gsize) info.st_size)
        {
          gssize n = read (fd, text + size, info.st_size - size);

          if (n <= 0)
            break;
          size += n;
        }
      text[size] = '\0';
    }
  close (fd);

  /* A line without an end may still be written. */
  for (gchar *start = text, *end; start && (end = memchr (start, '\n', text + size - start));
       start        = end + 1)
    {
             *end = '\0';
             parse_line (journal, start);
    }
  g_free (text);
}

ZnJournal *
zn_journal_read (ZnFolder *folder, const gchar *shard)
{
  ZnJournal     *journal = g_new0 (ZnJournal, 1);
  gint           copy;
  DIR           *list;
  struct dirent *entry;

  journal->folder = folder;
  journal->fd     = -1;
  journal->file   = shard ? g_strdup_printf ("%s.%s", NAME, shard) : g_strdup (NAME);
  journal->lines  = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, line_free);
  g_mutex_init (&journal->lock);

  copy = folder->fd < 0 ? -1 : openat (folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  list = copy < 0 ? NULL : fdopendir (copy);
  while (list && (entry = readdir (list)))
    if (! strcmp (entry->d_name, NAME) || g_str_has_prefix (entry->d_name, NAME "."))
      read_file (journal, entry->d_name);
  if (list)
    closedir (list);

  return journal;
}

void
zn_journal_free (ZnJournal *journal)
{
  if (! journal)
    return;

  if (journal->fd >= 0)
    close (journal->fd);
  g_hash_table_unref (journal->lines);
  g_free (journal->file);
  g_free (journal);
}

ZnResult
zn_journal_state (ZnJournal         *journal,
                  const gchar       *name,
                  const struct stat *input,
                  const struct stat *result,
                  const gchar       *settings,
                  const gchar       *engine,
                  const gchar      **computed_by)
{
  gchar digest[ZN_DIGEST_SIZE] = "";

  if (! result->st_mode)
    return ZN_RESULT_NONE;

  for (const Line *line = g_hash_table_lookup (journal->lines, name); line; line = line->older)
    {
      /* A copied folder has other times: then the content tells. */
      if (line->result.size != (gint64) result->st_size)
        continue;
      if (! stamp_equal (line->result, stamp_of (result)))
        {
          if (! *digest && ! zn_folder_digest (journal->folder, name, digest))
            return ZN_RESULT_FOREIGN;
          if (strcmp (digest, line->digest))
            continue;
        }
      *computed_by = line->computed_by;
      return stamp_equal (line->input, stamp_of (input)) && ! strcmp (line->settings, settings) &&
                     (! engine || is_by (line->computed_by, engine))
                 ? ZN_RESULT_DONE
                 : ZN_RESULT_OLD;
    }

  return ZN_RESULT_FOREIGN;
}

/* ---- writing -------------------------------------------------------------- */

gboolean
zn_journal_open (ZnJournal *journal, GError **error)
{
  struct stat info;
  gchar       last = '\n';

  journal->fd = openat (journal->folder->fd, journal->file,
                        O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (journal->fd < 0)
    {
      zn_set_errno (error, errno, "nothing can be written to the result folder");
      return FALSE;
    }
  if (fstat (journal->fd, &info) || ! S_ISREG (info.st_mode))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   "in the result folder %s is not a regular file", journal->file);
      return FALSE;
    }

  /* Another line would be glued to one that was cut. */
  if (info.st_size && pread (journal->fd, &last, 1, info.st_size - 1) == 1 && last != '\n' &&
      write (journal->fd, "\n", 1) != 1)
    {
      zn_set_errno (error, errno, "the journal cannot be written");
      return FALSE;
    }
  fsync (journal->folder->fd);

  return TRUE;
}

gboolean
zn_journal_add (ZnJournal         *journal,
                const gchar       *name,
                const struct stat *input,
                const ZnPart      *part,
                const gchar       *settings,
                GError           **error)
{
  const Stamp from  = stamp_of (input);
  const Stamp made  = stamp_of (&part->info);
  gchar      *shown = escape (name);
  gchar      *how   = escape (settings);
  gchar      *text;
  gchar      *line;
  gchar       check[CHECK_LEN + 1];
  gsize       size;
  gboolean    ok;

  text = g_strdup_printf ("%s\t%" G_GINT64_FORMAT " %" G_GINT64_FORMAT "\t%" G_GINT64_FORMAT
                          " %" G_GINT64_FORMAT "\t%s\t%s\t%s",
                          shown, from.size, from.time, made.size, made.time, part->digest,
                          PACKAGE_VERSION, how);
  check_of (check, text);

  /* One call: lines of other processes come before or after it. */
  g_mutex_lock (&journal->lock);
  line  = g_strdup_printf ("%s%s\t%s\n", journal->torn ? "\n" : "", text, check);
  size  = strlen (line);
  errno = ENOSPC; /* of a write that did less */
  ok    = write (journal->fd, line, size) == (gssize) size && ! fdatasync (journal->fd);
  if (! ok)
    zn_set_errno (error, errno, "the journal cannot be written");
  journal->torn = ! ok;
  g_mutex_unlock (&journal->lock);

  g_free (line);
  g_free (text);
  g_free (how);
  g_free (shown);

  return ok;
}
