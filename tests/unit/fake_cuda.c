/* SPDX-License-Identifier: MIT */
/* fake_cuda.c - a libcuda.so.1 for machines without one: device memory is host memory, kernels do nothing.
 *
 * It cannot compute; it tests what the host code does, also when things fail.  FAKE_CUDA says how:
 *     none        there is no GPU
 *     old         compute capability 6.1
 *     broken      it has no context
 *     turing      7.5
 *     hopper      9.0, with the resources of an H100; hopper=N: and driver version N
 *     memory=N    an allocation of more than N MiB is refused
 *     total=N     allocations of more than N MiB in all are refused
 *     lost=N      launch N (from 0) and all after it fail, as if the GPU had been removed
 * Otherwise it is a GPU of 8.1.  FAKE_CUDA_LOG names a file that gets one line per launch, image and graph, and for each
 * call that a driver would refuse.  FAKE_CUDA_SLOW=N: a context takes N milliseconds, and the log gets one line with the size and a hash of all
 * device memory that is freed. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../engine/cuda/driver.h"

#define API __attribute__((visibility("default"))) CUresult

enum { NOT_FOUND = 500, LOST = 719 };
enum { HEAD = 256 }; /* bytes before device memory: its size */

static int launches, captured;
static bool capturing;

static void say(const char *fmt, ...)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    va_list ap;

    if (!f)
        return;
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    fclose(f);
}

static long mode(const char *name, long otherwise)
{
    const char *m = getenv("FAKE_CUDA");
    size_t n = strlen(name);

    if (!m || strncmp(m, name, n))
        return otherwise;
    return m[n] == '=' ? atol(m + n + 1) : 1;
}

static bool hopper(void)
{
    return mode("hopper", 0);
}

static unsigned multiprocessors(void)
{
    return hopper() ? 132 : 10;
}

static int shared_most(void)
{
    return (hopper() ? 227 : 99) << 10;
}

/* Is there a kernel of that name in a fat binary?  Its code is in an ELF section ".text.NAME".  A toolkit may compress
 * images; then every name is accepted. */
static bool has_kernel(const char *image, const char *name)
{
    char section[128];
    uint16_t head;
    uint64_t size;

    memcpy(&head, image + 6, sizeof head);
    memcpy(&size, image + 8, sizeof size);
    snprintf(section, sizeof section, ".text.%s", name);
    return !memmem(image, head + size, ".text.", 6) || memmem(image, head + size, section, strlen(section) + 1);
}

/* clang-format off */
API cuInit(unsigned flags);
API cuInit(unsigned flags) { (void)flags; return CUDA_SUCCESS; }
API cuDriverGetVersion(int *version);
API cuDriverGetVersion(int *version)
{
    *version = mode("hopper", 1) > 1 ? (int)mode("hopper", 1) : 12030;
    return CUDA_SUCCESS;
}
API cuDeviceGetCount(int *count);
API cuDeviceGetCount(int *count) { *count = mode("none", 0) ? 0 : 1; return CUDA_SUCCESS; }
API cuDeviceGet(CUdevice *device, int ordinal);
API cuDeviceGet(CUdevice *device, int ordinal) { *device = ordinal; return CUDA_SUCCESS; }
API cuDeviceGetName(char *name, int size, CUdevice device);
API cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "Fake GPU / 1");
    return CUDA_SUCCESS;
}
API cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
API cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR           ? mode("old", 0) ? 6 : mode("turing", 0) ? 7 : hopper() ? 9 : 8
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR         ? mode("turing", 0) ? 5 : !hopper()
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT             ? (int)multiprocessors()
             : attribute == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH               ? 1
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? shared_most()
                                                                                 : 0;
    return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    const long ms = getenv("FAKE_CUDA_SLOW") ? atol(getenv("FAKE_CUDA_SLOW")) : 0;
    const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };

    (void)device;
    if (ms > 0)
        nanosleep(&pause, NULL);
    *context = (CUcontext)(void *)&launches;
    return mode("broken", 0) ? 999 : CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice device);
API cuDevicePrimaryCtxRelease_v2(CUdevice device) { (void)device; return CUDA_SUCCESS; }
API cuCtxSetCurrent(CUcontext context);
API cuCtxSetCurrent(CUcontext context) { (void)context; return CUDA_SUCCESS; }
API cuMemGetInfo_v2(size_t *available, size_t *total);
API cuMemGetInfo_v2(size_t *available, size_t *total)
{
    *available = *total = (size_t)2 << 30;
    return CUDA_SUCCESS;
}
API cuMemAlloc_v2(CUdeviceptr *ptr, size_t size);
API cuMemAlloc_v2(CUdeviceptr *ptr, size_t size)
{
    static size_t all; /* what is freed is not taken off: tests that use `total` only add */
    long limit = mode("memory", -1), total = mode("total", -1);
    void *p = (limit >= 0 && size > (size_t)limit << 20) || (total >= 0 && all + size > (size_t)total << 20) ? NULL
                                                                                                            : calloc(1, HEAD + size);

    all += p ? size : 0;
    if (p)
        memcpy(p, &size, sizeof size);
    *ptr = (CUdeviceptr)(uintptr_t)(p ? (char *)p + HEAD : NULL);
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API cuMemFree_v2(CUdeviceptr ptr);
API cuMemFree_v2(CUdeviceptr ptr)
{
    char *p = (char *)(uintptr_t)ptr;
    uint64_t hash = 0;
    size_t size;

    if (!p)
        return CUDA_SUCCESS;
    memcpy(&size, p - HEAD, sizeof size);
    for (size_t i = 0; getenv("FAKE_CUDA_SLOW") && i < size; i++)
        hash = hash * 31 + (unsigned char)p[i];
    if (getenv("FAKE_CUDA_SLOW"))
        say("freed %zu %016llx\n", size, (unsigned long long)hash);
    free(p - HEAD);
    return CUDA_SUCCESS;
}
API cuMemHostAlloc(void **ptr, size_t size, unsigned flags);
API cuMemHostAlloc(void **ptr, size_t size, unsigned flags)
{
    (void)flags;
    *ptr = malloc(size);
    return *ptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API cuMemFreeHost(void *ptr);
API cuMemFreeHost(void *ptr) { free(ptr); return CUDA_SUCCESS; }
API cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream);
API cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)dst, src, size);
    return CUDA_SUCCESS;
}
API cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream);
API cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
    (void)stream;
    memcpy(dst, (void *)(uintptr_t)src, size);
    return CUDA_SUCCESS;
}
API cuStreamCreate(CUstream *stream, unsigned flags);
API cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = (CUstream)(void *)&captured;
    return CUDA_SUCCESS;
}
API cuStreamDestroy_v2(CUstream stream);
API cuStreamDestroy_v2(CUstream stream) { (void)stream; return CUDA_SUCCESS; }
API cuStreamSynchronize(CUstream stream);
API cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    if (capturing)
        say("synchronised with a stream that is being captured\n");
    return capturing ? 900 : CUDA_SUCCESS;
}
API cuStreamBeginCapture_v2(CUstream stream, int how);
API cuStreamBeginCapture_v2(CUstream stream, int how)
{
    (void)stream, (void)how;
    capturing = true;
    return CUDA_SUCCESS;
}
API cuStreamEndCapture(CUstream stream, CUgraph *graph);
API cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    capturing = false;
    *graph = (CUgraph)(void *)&captured;
    return CUDA_SUCCESS;
}
API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    *exec = (CUgraphExec)(void *)&captured;
    say("graph\n");
    return CUDA_SUCCESS;
}
API cuGraphLaunch(CUgraphExec exec, CUstream stream);
API cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    say("replay\n");
    return CUDA_SUCCESS;
}
API cuGraphExecDestroy(CUgraphExec exec);
API cuGraphExecDestroy(CUgraphExec exec) { (void)exec; return CUDA_SUCCESS; }
API cuGraphDestroy(CUgraph graph);
API cuGraphDestroy(CUgraph graph) { (void)graph; return CUDA_SUCCESS; }
API cuEventCreate(CUevent *event, unsigned flags);
API cuEventCreate(CUevent *event, unsigned flags) { (void)flags; *event = (CUevent)(void *)&launches; return CUDA_SUCCESS; }
API cuEventRecord(CUevent event, CUstream stream);
API cuEventRecord(CUevent event, CUstream stream) { (void)event, (void)stream; return CUDA_SUCCESS; }
API cuEventSynchronize(CUevent event);
API cuEventSynchronize(CUevent event) { (void)event; return CUDA_SUCCESS; }
API cuEventElapsedTime(float *ms, CUevent start, CUevent end);
API cuEventElapsedTime(float *ms, CUevent start, CUevent end) { (void)start, (void)end; *ms = 1; return CUDA_SUCCESS; }
API cuEventDestroy_v2(CUevent event);
API cuEventDestroy_v2(CUevent event) { (void)event; return CUDA_SUCCESS; }

/* An image must be a fat binary: it begins with this number. */
API cuModuleLoadData(CUmodule *module, const void *image);
API cuModuleLoadData(CUmodule *module, const void *image)
{
    uint32_t magic;

    memcpy(&magic, image, sizeof magic);
    say("image %08x\n", magic);
    *module = (CUmodule)(uintptr_t)image;
    return magic == 0xba55ed50 ? CUDA_SUCCESS : 200;
}
API cuModuleUnload(CUmodule module);
API cuModuleUnload(CUmodule module) { (void)module; return CUDA_SUCCESS; }
API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    *function = has_kernel((const char *)(void *)module, name) ? (CUfunction)(void *)strdup(name) : NULL; /* never freed */
    return *function ? CUDA_SUCCESS : NOT_FOUND;
}
API cuFuncSetAttribute(CUfunction function, int attribute, int value);
API cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    (void)function;
    return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value > shared_most() ? 1 : CUDA_SUCCESS;
}
API cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **params, void **extra);
API cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **params, void **extra)
{
    long lost = mode("lost", -1);
    const bool cooperative = how->n_attributes && how->attributes[0].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE;

    (void)params, (void)extra;
    say("%s %u %u %u, %u, %u%s\n", (const char *)(void *)function, how->grid_x, how->grid_y, how->grid_z, how->block_x,
        how->shared_bytes, cooperative ? ", cooperative" : how->n_attributes ? ", dependent" : "");
    if (cooperative && how->grid_x * how->grid_y * how->grid_z > multiprocessors()) /* what is sure to be resident: one block on each */
        return 1;
    if (!how->grid_x || !how->grid_y || !how->grid_z || !how->block_x || how->block_x * how->block_y * how->block_z > 1024 ||
        how->grid_y > 65535 || how->grid_z > 65535)
        return 1;
    return lost >= 0 && launches++ >= lost ? LOST : CUDA_SUCCESS;
}
API cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *size, const uint64_t *stride,
                           const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int promotion, int fill);
API cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *size, const uint64_t *stride,
                           const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int promotion, int fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)size, (void)stride, (void)box, (void)step;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    return CUDA_SUCCESS;
}
API cuGetErrorString(CUresult error, const char **text);
API cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : error == LOST ? "unspecified launch failure" : "error";
    return CUDA_SUCCESS;
}
/* clang-format on */
