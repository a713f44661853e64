/* SPDX-License-Identifier: MIT */
/* output.c - how the engine writes files; see zenith_file.h. */
#include "status.h"

#include "../zenith_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file in the folder of `path`, with an unpredictable name; the name, malloced, is put into *temp. */
static FILE *open_beside(char **temp, const char *path)
{
    const mode_t mask = umask(0);
    FILE *f = NULL;
    int fd = -1;

    umask(mask);
    *temp = malloc(strlen(path) + 16);
    if (*temp) {
        sprintf(*temp, "%s.part-XXXXXX", path);
        fd = mkstemp(*temp);
    }
    if (fd >= 0 && !fchmod(fd, 0666 & ~mask))
        f = fdopen(fd, "wb");
    if (fd >= 0 && !f) {
        close(fd);
        remove(*temp);
    }
    return f;
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
    o->to = o->to ? o->to : strdup(path);
    if (o->to)
        o->f = direct ? fopen(path, "wb") : open_beside(&o->temp, o->to);
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
    bool ok = !status;
    int why;

    ok = ok && !fflush(o->f) && !ferror(o->f) && (!o->temp || !fsync(fileno(o->f)));
    why = errno;
    if (fclose(o->f) && ok) {
        ok = false;
        why = errno;
    }
    if (o->temp && ok && rename(o->temp, o->to)) {
        ok = false;
        why = errno;
    }
    if (o->temp && !ok)
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
