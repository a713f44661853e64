/* SPDX-License-Identifier: MIT */
/* output.c - the one way in which the engine writes a file. */
#include "status.h"

#include "../zenith_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file beside `path`, of a name that nobody can guess; the name, malloced, is put into *temp. */
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

zn_status zn_write_file(const char *path, zn_status (*write)(void *cookie, FILE *f, zn_error *err), void *cookie,
                        zn_error *err)
{
    struct stat st;
    const bool exists = !stat(path, &st), direct = exists && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    char *real = exists && !direct ? realpath(path, NULL) : NULL, *temp = NULL; /* a link stays one */
    const char *to = real ? real : path;
    zn_status status;
    FILE *f;
    bool ok;

    if (exists && S_ISDIR(st.st_mode)) {
        free(real);
        return zn_fail(err, ZN_E_FILE, "%s cannot be written: it is a folder", path);
    }
    f = direct ? fopen(path, "wb") : open_beside(&temp, to);
    if (!f) {
        const zn_status s = errno == ENOMEM ? ZN_E_MEMORY : ZN_E_FILE;

        zn_fail(err, s, "%s cannot be written: %s", path, strerror(errno));
        free(real);
        free(temp);
        return s;
    }
    errno = 0;
    status = write(cookie, f, err);
    ok = !status && !fflush(f) && !ferror(f) && (direct || !fsync(fileno(f)));
    int why = errno;

    if (fclose(f) && ok) {
        ok = false;
        why = errno;
    }
    if (!direct && ok && rename(temp, to)) {
        ok = false;
        why = errno;
    }
    if (!direct && !ok)
        remove(temp);
    free(real);
    free(temp);
    return status ? status : ok ? ZN_OK : zn_fail(err, ZN_E_FILE, "%s could not be written whole: %s", path, strerror(why));
}
