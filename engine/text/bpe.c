/* SPDX-License-Identifier: MIT */
/* bpe.c - byte-pair encoding (Sennrich et al. 2016): of all neighbours that can be merged, those of the lowest rank are, the
 * leftmost first, until none can.
 *
 * Tokens are a linked list; candidates wait in a binary heap.  One that is out of date when it leaves the heap is dropped. */
#include "text.h"

#include <stdlib.h>

typedef struct symbol {
    int32_t id;    /* -1: merged into the one before */
    uint32_t prev; /* NONE: the first */
    uint32_t next; /* NONE: the last */
} symbol;

typedef struct candidate {
    int32_t rank, id;
    uint32_t at;
} candidate;

#define NONE UINT32_MAX

static int compare(const void *a, const void *b)
{
    const zn_merge *x = a, *y = b;

    return x->left != y->left ? (x->left > y->left) - (x->left < y->left)
                              : (x->right > y->right) - (x->right < y->right);
}

bool zn_merge_sort(zn_merge *merge, size_t n)
{
    if (n) /* merge may be NULL */
        qsort(merge, n, sizeof *merge, compare);
    for (size_t i = 1; i < n; i++)
        if (!compare(&merge[i - 1], &merge[i]))
            return false;
    return true;
}

/* ---- the heap ------------------------------------------------------------------------------------------ */

static bool before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(candidate *heap, size_t *n, candidate c)
{
    size_t i = (*n)++;

    for (; i && before(&c, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

static candidate pop(candidate *heap, size_t *n)
{
    const candidate first = heap[0], last = heap[--*n];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

/* ---- merging ------------------------------------------------------------------------------------------- */

/* A word of n tokens has at most n - 1 candidates at first, and each of at most n - 1 merges adds two. */
size_t zn_bpe_size(size_t n)
{
    return n * (sizeof(symbol) + 3 * sizeof(candidate));
}

/* The merge of the token at `at` with the next one, or NULL. */
static const zn_merge *merge_at(const symbol *s, uint32_t at, const zn_merge *merge, size_t n_merges)
{
    if (s[at].next == NONE)
        return NULL;
    return bsearch((&(zn_merge){ .left = s[at].id, .right = s[s[at].next].id }), merge, n_merges, sizeof *merge,
                   compare);
}

size_t zn_bpe(int32_t *ids, size_t n, const zn_merge *merge, size_t n_merges, void *work)
{
    symbol *s = work;
    candidate *heap = (candidate *)(s + n);
    size_t n_heap = 0, len = 0;
    const zn_merge *m;

    if (n < 2 || !n_merges)
        return n;
    for (uint32_t i = 0; i < n; i++)
        s[i] = (symbol){ ids[i], i ? i - 1 : NONE, i + 1 < n ? i + 1 : NONE };
    for (uint32_t i = 0; i < n; i++)
        if ((m = merge_at(s, i, merge, n_merges)))
            push(heap, &n_heap, (candidate){ m->rank, m->id, i });
    while (n_heap) {
        const candidate c = pop(heap, &n_heap);
        const uint32_t right = s[c.at].next;

        m = s[c.at].id < 0 ? NULL : merge_at(s, c.at, merge, n_merges);
        if (!m || m->id != c.id)
            continue;
        s[c.at].id = c.id;
        s[c.at].next = s[right].next;
        s[right].id = -1;
        if (s[right].next != NONE)
            s[s[right].next].prev = c.at;
        if ((m = merge_at(s, c.at, merge, n_merges)))
            push(heap, &n_heap, (candidate){ m->rank, m->id, c.at });
        if (s[c.at].prev != NONE && (m = merge_at(s, s[c.at].prev, merge, n_merges)))
            push(heap, &n_heap, (candidate){ m->rank, m->id, s[c.at].prev });
    }
    for (uint32_t i = 0; i != NONE; i = s[i].next)
        ids[len++] = s[i].id;
    return len;
}
