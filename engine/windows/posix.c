/* SPDX-License-Identifier: MIT */
/* posix.c - see posix.h. */
#include "posix.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* of Windows 10 1809; mingw-w64 10 hides its name FileRenameInfoEx */
#define RENAME_INFO_EX ((FILE_INFO_BY_HANDLE_CLASS)22)

#undef getenv

static int failed(void)
{
    const DWORD why = GetLastError();

    errno = why == ERROR_FILE_NOT_FOUND || why == ERROR_PATH_NOT_FOUND ? ENOENT : EACCES;
    return -1;
}

/* As POSIX has it: a file that is open is replaced, too, and who has it open keeps it. */
static bool replace(const char *from, const char *to)
{
    const HANDLE f = CreateFileA(from, DELETE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                 NULL, OPEN_EXISTING, 0, NULL);
    const int n = MultiByteToWideChar(CP_ACP, 0, to, -1, NULL, 0);
    const size_t size = sizeof(FILE_RENAME_INFO) + (size_t)n * sizeof(WCHAR);
    FILE_RENAME_INFO *how = calloc(1, size);
    bool done = false;

    if (f != INVALID_HANDLE_VALUE && how && n > 0) {
        how->Flags = FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS;
        how->FileNameLength = (DWORD)(n - 1) * sizeof(WCHAR);
        MultiByteToWideChar(CP_ACP, 0, to, -1, how->FileName, n);
        done = SetFileInformationByHandle(f, RENAME_INFO_EX, how, (DWORD)size);
    }
    free(how);
    if (f != INVALID_HANDLE_VALUE)
        CloseHandle(f);
    return done;
}

/* Not every file system can replace a file that is open. */
int zn_rename(const char *from, const char *to)
{
    return replace(from, to) || MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : failed();
}

/* open() itself: the linker puts it in its place (tools/windows.ini), for members of structs have that name, too. */
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    HANDLE f;
    int fd;

    if (flags & (O_WRONLY | O_RDWR | O_CREAT))
        return _open(path, flags, _S_IREAD | _S_IWRITE);
    f = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_ATTRIBUTE_NORMAL, NULL);
    if (f == INVALID_HANDLE_VALUE)
        return failed();
    fd = _open_osfhandle((intptr_t)f, O_RDONLY | O_BINARY);
    if (fd < 0)
        CloseHandle(f);
    return fd;
}

ssize_t zn_pread(int fd, void *to, size_t size, off_t at)
{
    OVERLAPPED where = { .Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32) };
    const DWORD most = size < 1u << 30 ? (DWORD)size : 1u << 30;
    DWORD n = 0;

    if (ReadFile((HANDLE)_get_osfhandle(fd), to, most, &n, &where) || GetLastError() == ERROR_HANDLE_EOF)
        return (ssize_t)n;
    errno = EIO;
    return -1;
}

char *zn_mkdtemp(char *path)
{
    return _mktemp(path) && !_mkdir(path) ? path : NULL;
}

int zn_alphasort(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int zn_scandir(const char *path, struct dirent ***list, int (*keep)(const struct dirent *),
               int (*order)(const struct dirent **, const struct dirent **))
{
    struct dirent **found = NULL, *e;
    int n = 0, cap = 0;
    DIR *d = opendir(path);

    if (!d)
        return -1;
    while ((e = readdir(d))) {
        if (keep && !keep(e))
            continue;
        if (n == cap) {
            struct dirent **more = realloc(found, (size_t)(cap = 2 * cap + 16) * sizeof *found);

            if (!more)
                goto error;
            found = more;
        }
        if (!(found[n] = malloc(sizeof *e)))
            goto error;
        *found[n++] = *e;
    }
    closedir(d);
    if (n)
        qsort(found, (size_t)n, sizeof *found, (int (*)(const void *, const void *))(void (*)(void))order);
    *list = found;
    return n;

error:
    while (n)
        free(found[--n]);
    free(found);
    closedir(d);
    errno = ENOMEM;
    return -1;
}

/* The processors that this process may run on. */
static long processors(void)
{
    DWORD_PTR ours, all;

    return GetProcessAffinityMask(GetCurrentProcess(), &ours, &all) ? __builtin_popcountll(ours) : 1;
}

long zn_sysconf(int name)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    SYSTEM_INFO info;

    GetSystemInfo(&info);
    switch (name) {
    case _SC_NPROCESSORS_ONLN:
        return processors();
    case _SC_PAGESIZE:
        return (long)info.dwPageSize;
    case _SC_PHYS_PAGES:
        return GlobalMemoryStatusEx(&memory) ? (long)(memory.ullTotalPhys / info.dwPageSize) : -1;
    }
    return -1;
}

char *zn_getenv(const char *name)
{
    char *value = getenv(name);

    return value || strcmp(name, "HOME") ? value : getenv("USERPROFILE");
}

static char models[MAX_PATH + 32];

static void fill_models(void)
{
    char *slash = NULL;

    GetModuleFileNameA(NULL, models, MAX_PATH);
    for (char *p = models; *p; p++)
        if (*p == '\\')
            *(slash = p) = '/';
    strcpy(slash ? slash : models, "/../share/zenith/models");
}

const char *zn_models_dir(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_models);
    return models;
}

int zn_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
    struct timespec now, left;

    clock_gettime(CLOCK_MONOTONIC, &now);
    left.tv_sec = until->tv_sec - now.tv_sec - (until->tv_nsec < now.tv_nsec);
    left.tv_nsec = until->tv_nsec - now.tv_nsec + (until->tv_nsec < now.tv_nsec ? 1000000000 : 0);
    return left.tv_sec < 0 ? ETIMEDOUT : pthread_cond_timedwait_relative_np(c, m, &left);
}
