/* SPDX-License-Identifier: MIT */
/* driver.h - the part of NVIDIA's driver interface that is used, found in libcuda at run time.
 *
 * It is declared here, so that host code needs no header and no library of the CUDA toolkit. */
#ifndef ZN_CUDA_DRIVER_H
#define ZN_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "../core/status.h"

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_FOUND = 500,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, /* kHz */
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

typedef struct CUlaunchAttribute {
    int id, unused;
    union {
        int on;
        char bytes[64];
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned n_attributes;
} CUlaunchConfig;

_Static_assert(sizeof(CUlaunchAttribute) == 72 && sizeof(CUlaunchConfig) == 56, "as in NVIDIA's headers");

/* name, parameters.  NVIDIA's headers map the short names to the _v2 ones. */
/* clang-format off */
#define ZN_DRIVER_CALLS(X)                                                                                   \
    X(cuInit, (unsigned flags))                                                                              \
    X(cuDriverGetVersion, (int *version))                                                                    \
    X(cuDeviceGetCount, (int *count))                                                                        \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                                         \
    X(cuDeviceGetName, (char *name, int size, CUdevice device))                                              \
    X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                    \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                      \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                       \
    X(cuCtxSetCurrent, (CUcontext context))                                                                  \
    X(cuMemGetInfo_v2, (size_t *available, size_t *total))                                                   \
    X(cuMemAlloc_v2, (CUdeviceptr * ptr, size_t size))                                                       \
    X(cuMemFree_v2, (CUdeviceptr ptr))                                                                       \
    X(cuMemHostAlloc, (void **ptr, size_t size, unsigned flags))                                             \
    X(cuMemFreeHost, (void *ptr))                                                                            \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t size, CUstream stream))                \
    X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t size, CUstream stream))                      \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                   \
    X(cuStreamDestroy_v2, (CUstream stream))                                                                 \
    X(cuStreamSynchronize, (CUstream stream))                                                                \
    X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                  \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))            \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                    \
    X(cuGraphExecDestroy, (CUgraphExec exec))                                                                \
    X(cuGraphDestroy, (CUgraph graph))                                                                       \
    X(cuEventCreate, (CUevent * event, unsigned flags))                                                      \
    X(cuEventRecord, (CUevent event, CUstream stream))                                                       \
    X(cuEventSynchronize, (CUevent event))                                                                   \
    X(cuEventElapsedTime, (float *ms, CUevent start, CUevent end))                                           \
    X(cuEventDestroy_v2, (CUevent event))                                                                    \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                              \
    X(cuModuleUnload, (CUmodule module))                                                                     \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                       \
    X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                   \
    X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))    \
    X(cuTensorMapEncodeTiled, (void *map, int type, unsigned rank, void *address, const uint64_t *size,      \
                               const uint64_t *stride, const uint32_t *box, const uint32_t *step,            \
                               int interleave, int swizzle, int promotion, int fill))                        \
    X(cuGetErrorString, (CUresult error, const char **text))
/* clang-format on */

typedef struct zn_driver {
#define ZN_DRIVER_POINTER(name, params) CUresult(*name) params;
    ZN_DRIVER_CALLS(ZN_DRIVER_POINTER)
#undef ZN_DRIVER_POINTER
} zn_driver;

/* This machine's driver, loaded once; NULL and an error message if there is none or it cannot be used. */
const zn_driver *zn_driver_load(zn_error *err);

#endif
