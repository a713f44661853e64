/* SPDX-License-Identifier: MIT */
/* attack.h - runs millions of generated cases, and continues after each failure.
 *
 *     PROGRAM [-j JOBS] FOLDER SECONDS [TARGET...]    each target gets its part of the time
 *     PROGRAM --case TARGET SEED                      one case in this process, for a debugger
 *     PROGRAM --file TARGET FILE                      the same with a file's bytes
 *
 * A case is a number: the generator makes the same bytes from the same number.  FOLDER/TARGET.state holds the next one,
 * so a later call goes on there.  JOBS child processes run the cases: each takes the next number.  When one dies, hangs
 * or finds a wrong result, the bytes are stored as FOLDER/TARGET-SEED with its output next to them, and another child
 * replaces it. */
#ifndef ZN_ATTACK_H
#define ZN_ATTACK_H

#include "bytes.h"

enum { ATTACK_COLUMNS = 3 };

typedef struct attack_target {
    const char *name;
    /* The bytes of a case.  NULL: it has none, run() draws from the seed alone. */
    void (*make)(bytes *b, rnd *r);
    /* False: the result is wrong, and *why says how. */
    bool (*run)(const bytes *b, rnd *r, const char **why);
    int hang_s;   /* a case that takes longer hangs; 0: 20 */
    int in_child; /* cases that one child process does before another takes over; 0: no limit */
    bool keeps;   /* keeps memory from case to case, as caches do: leaks cannot be detected */
} attack_target;

/* The cases of a target are counted by parts, too, whose names part() gives (NULL: no more), each in three columns:
 * FOLDER/TARGET.parts.  A part whose last column stays 0 is a failure.  To be called before attack_main(). */
void attack_parts(const char *target, const char *(*part)(int i));
void attack_count(int part, int column);

/* begin, which may be NULL: called once in each child. */
int attack_main(int argc, char **argv, const attack_target *list, int n, void (*begin)(void));

/* A folder in memory for the case's files; deleted at the end. */
const char *attack_folder(void);
const char *attack_path(const char *name); /* of a file in it; valid until two more calls */

/* The files of a folder whose names begin so; loaded once. */
typedef struct attack_seeds {
    bytes *list;
    int n;
} attack_seeds;
void attack_load(attack_seeds *s, const char *folder, const char *prefix);

#endif
