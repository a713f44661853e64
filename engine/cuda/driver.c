/* SPDX-License-Identifier: MIT */
/* driver.c - loads libcuda and looks up its functions. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static zn_driver driver;
static bool usable;
static zn_error why; /* if it is not */

static bool find_calls(void *lib)
{
#define FIND(name, params)                                                                                             \
    {                                                                                                                  \
        void *f = dlsym(lib, #name);                                                                                   \
        if (!f) {                                                                                                      \
            zn_fail(&why, ZN_E_DEVICE, "the NVIDIA driver is too old: it has no %s", #name);                           \
            return false;                                                                                              \
        }                                                                                                              \
        memcpy(&driver.name, &f, sizeof f); /* ISO C has no cast from void * to a function */                          \
    }
    ZN_DRIVER_CALLS(FIND)
#undef FIND
    return true;
}

static void load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *text = NULL;
    CUresult r;

    if (!lib) {
        zn_fail(&why, ZN_E_DEVICE, "no NVIDIA driver (libcuda.so.1) on this machine");
        return;
    }
    if (!find_calls(lib)) {
        dlclose(lib);
        return;
    }
    r = driver.cuInit(0);
    if (r != CUDA_SUCCESS) {
        driver.cuGetErrorString(r, &text);
        zn_fail(&why, ZN_E_DEVICE, "the NVIDIA driver does not start: %s", text ? text : "unknown error");
        return; /* no dlclose: the library may have started threads */
    }
    usable = true;
}

const zn_driver *zn_driver_load(zn_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (usable)
        return &driver;
    zn_fail(err, ZN_E_DEVICE, "%s", why.text);
    return NULL;
}
