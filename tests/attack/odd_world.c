/* SPDX-License-Identifier: MIT */
/* odd_world.c - a library to preload: no threads to be had, a clock that jumps.
 *
 *     ZN_THREADS=N      N threads can be had at a time beside the first, no others
 *     ZN_CLOCK_JUMPS=1  the time of day goes forth and back by years from call to call
 *
 * The monotonic clock stays what it is: that one cannot jump. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define SEEN __attribute__((visibility("default")))
enum { YEAR = 31556952 };

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static atomic_int running;

typedef struct task {
    void *(*start)(void *);
    void *data;
} task;

static void *counted(void *data)
{
    const task t = *(task *)data;
    void *result;

    free(data);
    result = t.start(t.data);
    atomic_fetch_sub(&running, 1);
    return result;
}

SEEN int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *data)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    const char *most = getenv("ZN_THREADS");
    task *t = malloc(sizeof *t);
    int got = EAGAIN;

    if (!real)
        *(void **)&real = next("pthread_create");
    if (atomic_fetch_add(&running, 1) < (most ? atoi(most) : 1 << 20) && t) {
        *t = (task){ start, data };
        got = real(thread, how, counted, t);
    }
    if (got) {
        atomic_fetch_sub(&running, 1);
        free(t);
    }
    return got;
}

/* Seconds by which the clock is wrong now. */
static time_t jump(void)
{
    static atomic_uint calls;
    static const int years[] = { 0, 30, -50, 1, -1, 10 };

    return getenv("ZN_CLOCK_JUMPS") ? (time_t)years[atomic_fetch_add(&calls, 1) % 6] * YEAR : 0;
}

SEEN int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    int got;

    if (!real)
        *(void **)&real = next("clock_gettime");
    got = real(clock, t);
    if (!got && clock == CLOCK_REALTIME)
        t->tv_sec += jump();
    return got;
}

SEEN int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    int got = clock_gettime(CLOCK_REALTIME, &now);

    (void)zone;
    if (!got)
        *t = (struct timeval){ now.tv_sec, now.tv_nsec / 1000 };
    return got;
}

SEEN time_t time(time_t *to)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
