/* SPDX-License-Identifier: MIT */
/* budget.h - limits the memory of all pictures in flight.
 *
 * A picture reserves its share before its pixels are allocated, and waits while others use too
 * much.  A picture that is larger than the limit is processed alone. */

#ifndef __ZENITH_BUDGET_H__
#define __ZENITH_BUDGET_H__

#include <glib.h>

typedef struct
{
  GMutex lock;
  GCond  freed;
  gsize  limit; /* bytes */
  gsize  used;
} ZnBudget;

/* The limit is $ZENITH_MEMORY, or 1 GiB if that is not set. */
void zn_budget_init (ZnBudget *budget);

/* Waits; cannot fail. */
void zn_budget_take (ZnBudget *budget, gsize size);
void zn_budget_give (ZnBudget *budget, gsize size);

#endif
