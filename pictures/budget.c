/* SPDX-License-Identifier: MIT */
/* budget.c - limits the memory of all pictures in flight. */

#include "budget.h"

#define DEFAULT_MIB 1024

/* "500" is in MiB, "4G" in GiB: as the engine reads it, which also says what it does
 * not understand. */
static gsize
parse_memory (const gchar *text)
{
  gchar  *end;
  guint64 mib = text ? g_ascii_strtoull (text, &end, 10) : 0;

  if (mib && (*end == 'G' || *end == 'g'))
    mib *= 1024;
  if (! mib || mib > (G_MAXSIZE >> 21))
    mib = DEFAULT_MIB;

  return (gsize) mib << 20;
}

void
zn_budget_init (ZnBudget *budget)
{
  g_mutex_init (&budget->lock);
  g_cond_init (&budget->freed);
  budget->limit = parse_memory (g_getenv ("ZENITH_MEMORY"));
  budget->used  = 0;
}

void
zn_budget_take (ZnBudget *budget, gsize size)
{
  g_mutex_lock (&budget->lock);
  while (budget->used && (size > budget->limit || budget->used > budget->limit - size))
    g_cond_wait (&budget->freed, &budget->lock);
  budget->used += size;
  g_mutex_unlock (&budget->lock);
}

void
zn_budget_give (ZnBudget *budget, gsize size)
{
  g_mutex_lock (&budget->lock);
  budget->used -= size;
  g_cond_broadcast (&budget->freed);
  g_mutex_unlock (&budget->lock);
}
