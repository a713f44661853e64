/* SPDX-License-Identifier: MIT */
/* posix.h - what the engine uses of POSIX and mingw-w64 has not: the one place that knows Windows.
 *
 * A build for Windows includes it first into every file (meson.build); the engine is written for POSIX and has no #ifdef. */
#ifndef ZN_POSIX_H
#define ZN_POSIX_H

#include <direct.h>
#include <dirent.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Files are bytes, not lines, and can be replaced while they are open (__wrap_open() in posix.c).  No file has the other
 * properties: pipes have names of their own, links are followed. */
#define O_CLOEXEC (O_BINARY | O_NOINHERIT)
#define O_NONBLOCK 0
#define O_NOCTTY 0
#define O_NOFOLLOW 0
#define O_TMPFILE 0 /* of a folder, which cannot be opened */
#define linkat(a, from, b, to, flags) ((void)(from), (void)(to), -1)
#define SIGXFSZ 25 /* there are no limits */
#define mkdir(path, mode) _mkdir(path)
#define fchmod(fd, mode) ((void)(fd), (void)(mode), 0)
#define realpath(path, to) _fullpath(to, path, 0)
#define readlink(path, to, size) ((void)(path), (void)(to), (ssize_t)-1)
#define fsync _commit
#define lstat stat
#define rename zn_rename   /* replaces a file that is there, also if it is open */
#define pread zn_pread     /* from many threads */
#define scandir zn_scandir /* and its order */
#define alphasort zn_alphasort
#define mkdtemp zn_mkdtemp
int zn_rename(const char *from, const char *to);
ssize_t zn_pread(int fd, void *to, size_t size, off_t at);
int zn_scandir(const char *path, struct dirent ***list, int (*keep)(const struct dirent *),
               int (*order)(const struct dirent **, const struct dirent **));
int zn_alphasort(const struct dirent **a, const struct dirent **b);
char *zn_mkdtemp(char *path);
#define ZN_WRITTEN(st) ((struct timespec){ .tv_sec = (st).st_mtime })

/* The machine.  HOME is USERPROFILE; lists of folders cannot have a colon, which follows a drive; the models are in
 * ..\share beside the folder of the program. */
enum { _SC_NPROCESSORS_ONLN, _SC_PHYS_PAGES, _SC_PAGESIZE };
#define sysconf zn_sysconf
#define getenv zn_getenv
long zn_sysconf(int name);
char *zn_getenv(const char *name);
const char *zn_models_dir(void);
#define ZN_MODELS_DIR zn_models_dir()
#define ZN_PATH_LIST ";"

/* C11's aligned_alloc(), whose memory free() could not free here. */
#define aligned_alloc(align, size) _aligned_malloc(size, align)
#define zn_aligned_free _aligned_free

/* Until a time of CLOCK_MONOTONIC, which attributes of a condition cannot say here. */
#define pthread_cond_timedwait zn_cond_timedwait
int zn_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);

#endif
