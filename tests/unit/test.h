/* SPDX-License-Identifier: MIT */
/* test.h - the harness of the unit tests: one line per test, a count, an exit status.
 *
 *     static void test_add(void) { CHECK(add(1, 2) == 3, "1 + 2 = %d", add(1, 2)); }
 *     int main(void) { RUN(test_add); return test_end(); }
 *
 * A failed CHECK leaves the test; SKIP leaves it too, saying why.  Include it in one file only. */
#ifndef ZN_TEST_H
#define ZN_TEST_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "leaks.h"

/* Code with a sanitizer's instruments is 10 to 30 times slower: long tests do less then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { INSTRUMENTED = 1 };
#else
enum { INSTRUMENTED = 0 };
#endif

static struct {
    int passed, failed, skipped;
    bool skip;
    char why[1024]; /* empty: the test passes so far */
} test_state;

__attribute__((format(printf, 2, 3))) static inline void test_note(bool skip, const char *fmt, ...)
{
    va_list ap;

    test_state.skip = skip;
    va_start(ap, fmt);
    vsnprintf(test_state.why, sizeof test_state.why, fmt, ap);
    va_end(ap);
}

/* CHECK and SKIP are for functions that return nothing; after a helper with CHECKs, TRY(helper()). */
#define CHECK(ok, ...)                                                                                                 \
    do {                                                                                                               \
        if (!(ok)) {                                                                                                   \
            test_note(false, __VA_ARGS__);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)
#define SKIP(...)                                                                                                      \
    do {                                                                                                               \
        test_note(true, __VA_ARGS__);                                                                                  \
        return;                                                                                                        \
    } while (0)
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        call;                                                                                                          \
        if (test_state.why[0])                                                                                         \
            return;                                                                                                    \
    } while (0)

#define RUN(test) test_run(#test, test)

static inline void test_run(const char *name, void (*test)(void))
{
    const clock_t start = clock();

    test_state.why[0] = 0;
    test();
    const double cpu = (double)(clock() - start) / CLOCKS_PER_SEC; /* of all threads */

    if (!strncmp(name, "test_", 5))
        name += 5;
    bool noted = test_state.why[0], skip = noted && test_state.skip;

    test_state.passed += !noted;
    test_state.skipped += skip;
    test_state.failed += noted && !skip;
    printf("%s %s%s%s", skip ? "skip" : noted ? "not ok" : "ok", name, noted ? ": " : "", test_state.why);
    if (cpu >= 2) /* to be examined when the tests take too long */
        printf("  # CPU %.1f s", cpu);
    printf("\n");
    fflush(stdout);
}

/* The CPU seconds that one of a Neoverse V1 is here: what must not take long is allowed more on a slower machine. */
static inline double test_second(void)
{
    const clock_t start = clock();

    for (volatile unsigned i = 0; i < 25000000; i++)
        ;
    return 20 * (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* For a running maximum of differences: once one of them is not a number, neither is the result.  (fmax would drop it.) */
static inline double test_larger(double worst, double d)
{
    return isnan(worst) || d <= worst ? worst : d;
}

/* The peak memory of the process, in KiB; 0: unknown. */
static inline long test_most_resident(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long kib = 0;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static inline int test_end(void)
{
    printf("%d passed, %d failed, %d skipped\n", test_state.passed, test_state.failed, test_state.skipped);
    return test_state.failed ? 1 : 0;
}

#endif
