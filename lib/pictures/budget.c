/* SPDX-License-Identifier: MIT */
/* budget.c - what pictures may cost. */

#include "budget.h"
#include "zenith_number.h"
#include "zenith-settings.h"

#define DEFAULT_MIB 1024
#define FLOOR ((guint64) 512 << 20)
#define PER_BYTE 512

/* The engine says what it does not understand. */
static gsize
parse_memory (const gchar *text)
{
  gdouble mib;

  if (! text || ! zn_mebibytes_parse (&mib, text) || mib < 1.0)
    mib = DEFAULT_MIB;

  return (gsize) (mib * 1048576.0);
}

void
zn_budget_init (ZnBudget *budget)
{
  *budget = (ZnBudget){ .limit = parse_memory (g_getenv ("ZENITH_MEMORY")) };
  g_mutex_init (&budget->lock);
  g_cond_init (&budget->freed);
}

void
zn_budget_stop (ZnBudget *budget)
{
  g_atomic_int_set (&budget->stop, TRUE);
  g_mutex_lock (&budget->lock);
  g_cond_broadcast (&budget->freed);
  g_mutex_unlock (&budget->lock);
}

gboolean
zn_budget_stopped (ZnBudget *budget)
{
  return g_atomic_int_get (&budget->stop);
}

/* ---- one file ------------------------------------------------------------- */

void
zn_share_begin (ZnShare *share, ZnBudget *budget, guint64 size)
{
  const guint64 base = budget ? MAX (FLOOR, budget->limit / 2) : FLOOR;

  *share = (ZnShare){
    .budget = budget, .size = size, .memory_max = G_MAXUINT64, .work_max = G_MAXUINT64
  };
  if (size < G_MAXINT64 / (2 * PER_BYTE))
    {
      share->memory_max = base + size * PER_BYTE;
      share->work_max   = 2 * share->memory_max;
    }
}

static gboolean
go_on (const ZnShare *share, GError **error)
{
  if (! share->budget || ! zn_budget_stopped (share->budget))
    return TRUE;

  g_set_error (error, ZN_ERROR, ZN_ERROR_CANCELLED, "stopped");

  return FALSE;
}

gboolean
zn_share_memory (ZnShare *share, guint64 bytes, GError **error)
{
  if (! go_on (share, error))
    return FALSE;
  if (bytes > share->memory_max - share->memory)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   "it would take more than the %" G_GUINT64_FORMAT
                   " MiB of memory that a file of %" G_GUINT64_FORMAT " bytes may take",
                   share->memory_max >> 20, share->size);
      return FALSE;
    }
  share->memory += bytes;
  if (share->held)
    {
      g_mutex_lock (&share->budget->lock);
      share->budget->used += bytes;
      share->held += bytes;
      g_mutex_unlock (&share->budget->lock);
    }

  return TRUE;
}

gboolean
zn_share_work (ZnShare *share, guint64 bytes, GError **error)
{
  if (! go_on (share, error))
    return FALSE;
  if (bytes > share->work_max - share->work)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   "reading it would take longer than a file of %" G_GUINT64_FORMAT
                   " bytes may take (%" G_GUINT64_FORMAT " MiB to go over)",
                   share->size, share->work_max >> 20);
      return FALSE;
    }
  share->work += bytes;

  return TRUE;
}

gboolean
zn_share_wait (ZnShare *share, GError **error)
{
  ZnBudget *budget = share->budget;
  gsize     size   = (gsize) share->memory;

  if (! budget || share->held)
    return go_on (share, error);

  g_mutex_lock (&budget->lock);
  while (budget->used && ! zn_budget_stopped (budget) &&
         (size > budget->limit || budget->used > budget->limit - size))
    g_cond_wait (&budget->freed, &budget->lock);
  budget->used += size;
  share->held = size;
  g_mutex_unlock (&budget->lock);

  return go_on (share, error);
}

void
zn_share_end (ZnShare *share)
{
  if (! share->held)
    return;

  g_mutex_lock (&share->budget->lock);
  share->budget->used -= share->held;
  g_cond_broadcast (&share->budget->freed);
  g_mutex_unlock (&share->budget->lock);
  share->held = 0;
}
