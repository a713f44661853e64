/* SPDX-License-Identifier: MIT */
/* threads.c - the pool: n - 1 threads that sleep between loops, and the caller.
 *
 * Invariants:
 *  1. `left` counts the items not yet handed out.  Taking one is a single fetch_sub: a thread that
 *     gets a positive value v owns item n_items - v.  A thread that comes too late only makes `left`
 *     more negative, and the next run overwrites it.
 *  2. `undone` counts the items not yet finished; a run ends at 0.  So task, cookie and n_items do not
 *     change while any thread owns an item, and only owners read them.
 *  3. Sleeping and waking happen under `lock`, so no wake-up is lost. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT */
#endif
#include "threads.h"

#include "quota.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct zn_pool {
    int n;               /* workers, the caller included */
    pthread_mutex_t run; /* one loop at a time */
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    int sleepers; /* under lock */
    bool quit;    /* under lock */
    zn_task *task;
    void *cookie;
    int n_items;
    atomic_int left, undone;
    struct member {
        zn_pool *pool;
        int worker;
        pthread_t thread;
    } member[];
};

/* The pool and the worker whose task this thread is executing: a loop inside a task runs inline. */
static _Thread_local const struct member *here;

static _Thread_local struct watch {
    zn_poll *poll;
    void *cookie;
    double next_ms;
} watch;

enum { SPINS = 2000 }; /* some 20 us: longer than the gap between two operations */

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

void zn_pool_watch(zn_poll *poll, void *cookie)
{
    watch = (struct watch){ poll, cookie, poll ? zn_now_ms() + ZN_POLL_MS : 0 };
}

/* Items that were never handed out are done, as far as `undone` goes (invariant 2). */
static void drop_items(zn_pool *p)
{
    int left = atomic_exchange(&p->left, 0);

    if (left > 0)
        atomic_fetch_sub(&p->undone, left);
}

/* poll() may itself run a loop, which is inline, or a network with a watch of its own. */
static void look(zn_pool *p)
{
    struct watch saved = watch;

    if (zn_now_ms() < saved.next_ms)
        return;
    watch.poll = NULL;
    if (!saved.poll(saved.cookie))
        drop_items(p);
    watch = saved;
    watch.next_ms = zn_now_ms() + ZN_POLL_MS;
}

static void work(const struct member *self)
{
    zn_pool *p = self->pool;
    const struct member *outer = here;
    int left;

    here = self;
    while ((left = atomic_fetch_sub(&p->left, 1)) > 0) {
        p->task(p->cookie, p->n_items - left, self->worker);
        if (atomic_fetch_sub(&p->undone, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
        if (watch.poll) /* the caller's thread alone can have one */
            look(p);
    }
    here = outer;
}

static void *thread_main(void *cookie)
{
    const struct member *self = cookie;
    zn_pool *p = self->pool;
    bool quit = false;

    while (!quit) {
        for (int i = 0; i < SPINS && atomic_load(&p->left) <= 0; i++)
            relax();
        if (atomic_load(&p->left) <= 0) {
            pthread_mutex_lock(&p->lock);
            p->sleepers++;
            while (atomic_load(&p->left) <= 0 && !p->quit)
                pthread_cond_wait(&p->start, &p->lock);
            p->sleepers--;
            quit = p->quit;
            pthread_mutex_unlock(&p->lock);
        }
        work(self);
    }
    return NULL;
}

void zn_pool_run(zn_pool *p, zn_task *task, void *cookie, int n_items)
{
    if (n_items <= 0)
        return;
    if (here && here->pool == p) {
        for (int i = 0; i < n_items; i++)
            task(cookie, i, here->worker);
        return;
    }
    pthread_mutex_lock(&p->run);
    p->task = task;
    p->cookie = cookie;
    p->n_items = n_items;
    atomic_store(&p->undone, n_items);
    atomic_store(&p->left, n_items);
    if (p->n > 1 && n_items > 1) {
        pthread_mutex_lock(&p->lock);
        if (p->sleepers)
            pthread_cond_broadcast(&p->start);
        pthread_mutex_unlock(&p->lock);
    }
    work(&p->member[0]);
    for (int i = 0; i < SPINS && atomic_load(&p->undone) > 0; i++)
        relax();
    if (atomic_load(&p->undone) > 0) {
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->undone) > 0)
            pthread_cond_wait(&p->done, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&p->run);
}

zn_pool *zn_pool_open(int n_threads)
{
    int n = n_threads < 1 ? 1 : n_threads;
    zn_pool *p = calloc(1, sizeof *p + (size_t)n * sizeof p->member[0]);

    if (!p)
        return NULL;
    pthread_mutex_init(&p->run, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    p->member[0] = (struct member){ .pool = p };
    for (p->n = 1; p->n < n; p->n++) {
        struct member *m = &p->member[p->n];

        m->pool = p;
        m->worker = p->n;
        if (pthread_create(&m->thread, NULL, thread_main, m))
            break; /* fewer threads than asked for still give the same result */
    }
    return p;
}

void zn_pool_close(zn_pool **pool)
{
    zn_pool *p = pool ? *pool : NULL;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i < p->n; i++)
        pthread_join(p->member[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->run);
    free(p);
    *pool = NULL;
}

int zn_pool_size(const zn_pool *p)
{
    return p->n;
}

/* Those that this process may run on. */
static int allowed_cpus(void)
{
#if defined(__linux__)
    cpu_set_t set;

    if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (int)n : 1;
}

int zn_cpu_count(void)
{
    return zn_quota_threads(allowed_cpus(), zn_cpu_quota("/sys/fs/cgroup", "/proc/self/cgroup"));
}

double zn_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return 1e3 * (double)ts.tv_sec + 1e-6 * (double)ts.tv_nsec;
}
