/* SPDX-License-Identifier: MIT */
/* output.c - how the engine writes files; see zenith_file.h. */
#include "status.h"

#include "../zenith_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file in the folder of `path`, without a name, so that a program that is ended leaves nothing.  -1: this system or its
 * disk has none. */
static int open_nameless(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = strdup(slash ? path : ".");
    int fd = -1;

    if (folder && slash)
        folder[slash - path + 1] = 0;
    if (folder && !access("/proc/self/fd", X_OK))
        fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    free(folder);
    return fd;
}

/* The file gets a name that no other has, the template's. */
static bool give_name(int fd, char *name)
{
    static atomic_uint last;
    char *digits = strrchr(name, '-') + 1, from[40];

    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    for (int i = 0; i < 1000; i++) {
        sprintf(digits, "%06x", ((unsigned)getpid() * 1031 + atomic_fetch_add(&last, 1)) & 0xffffff);
        if (!linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/* The same, with an unpredictable name. */
static int open_named(char *temp)
{
    const mode_t mask = umask(0);
    int fd;

    umask(mask);
    fd = mkstemp(temp);
    if (fd >= 0 && fchmod(fd, 0666 & ~mask)) {
        close(fd);
        remove(temp);
        fd = -1;
    }
    return fd;
}

/* Its name, malloced, is put into o->temp. */
static FILE *open_beside(zn_output *o)
{
    FILE *f = NULL;
    int fd = -1;

    o->temp = malloc(strlen(o->to) + 16);
    if (o->temp) {
        sprintf(o->temp, "%s.part-XXXXXX", o->to);
        fd = open_nameless(o->to);
        o->nameless = fd >= 0;
        fd = fd >= 0 ? fd : open_named(o->temp);
    }
    f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (fd >= 0 && !f) {
        close(fd);
        if (!o->nameless)
            remove(o->temp);
    }
    return f;
}

/* The name of a new file, malloced: where a link leads whose file is not there yet. */
static char *follow(const char *path)
{
    char *at = strdup(path), *next, to[4096];

    for (int i = 0; at && i < 40; i++) {
        const ssize_t n = readlink(at, to, sizeof to - 1);
        const char *slash = n > 0 && to[0] != '/' ? strrchr(at, '/') : NULL;

        if (n < 0)
            return at;
        to[n] = 0;
        next = malloc(strlen(at) + (size_t)n + 1);
        if (next)
            sprintf(next, "%.*s%s", slash ? (int)(slash + 1 - at) : 0, at, to);
        free(at);
        at = next;
    }
    if (at) {
        free(at);
        errno = ELOOP;
    }
    return NULL;
}

zn_status zn_output_begin(zn_output *o, const char *path, zn_error *err)
{
    struct stat st;
    const bool exists = !stat(path, &st), direct = exists && !S_ISREG(st.st_mode);
    zn_status s = ZN_OK;

    *o = (zn_output){ 0 };
    if (exists && S_ISDIR(st.st_mode))
        return zn_fail(err, ZN_E_FILE, "%s cannot be written: it is a folder", path);
    o->to = exists && !direct ? realpath(path, NULL) : NULL; /* a link stays one */
    o->to = o->to ? o->to : exists ? strdup(path) : follow(path);
    if (o->to)
        o->f = direct ? fopen(path, "wb") : open_beside(o);
    if (!o->f) {
        s = errno == ENOMEM ? ZN_E_MEMORY : ZN_E_FILE;
        zn_fail(err, s, "%s cannot be written: %s", path, strerror(errno));
        free(o->to);
        free(o->temp);
        *o = (zn_output){ 0 };
    }
    errno = 0; /* zn_output_end says why a write failed */
    return s;
}

zn_status zn_output_end(zn_output *o, zn_status status, zn_error *err)
{
    bool ok = !status, named;
    int why;

    ok = ok && !fflush(o->f) && !ferror(o->f) && (!o->temp || !fsync(fileno(o->f)));
    if (ok && o->nameless)
        ok = give_name(fileno(o->f), o->temp);
    named = o->temp && (!o->nameless || ok);
    why = errno;
    if (fclose(o->f) && ok) {
        ok = false;
        why = errno;
    }
    if (o->temp && ok && rename(o->temp, o->to)) {
        ok = false;
        why = errno;
    }
    if (named && !ok)
        remove(o->temp);
    if (!status && !ok)
        status = zn_fail(err, ZN_E_FILE, "%s could not be written whole: %s", o->to,
                         why ? strerror(why) : "is the disk full?");
    free(o->to);
    free(o->temp);
    *o = (zn_output){ 0 };
    return status;
}

zn_status zn_write_file(const char *path, zn_status (*write)(void *cookie, FILE *f, zn_error *err), void *cookie,
                        zn_error *err)
{
    zn_output o;
    zn_status s = zn_output_begin(&o, path, err);

    return s ? s : zn_output_end(&o, write(cookie, o.f, err), err);
}

zn_status zn_write_check(const char *path, zn_error *err)
{
    struct stat st;
    zn_output o;

    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) /* opening a pipe would wait for its reader */
        return access(path, W_OK) ? zn_fail(err, ZN_E_FILE, "%s cannot be written: %s", path, strerror(errno)) : ZN_OK;
    if (zn_output_begin(&o, path, err))
        return ZN_E_FILE;
    zn_output_end(&o, ZN_E_CANCELLED, NULL); /* drops it */
    return ZN_OK;
}
