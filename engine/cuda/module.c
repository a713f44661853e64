/* SPDX-License-Identifier: MIT */
/* module.c - the CUDA device behind backend.h: opening, memory, transfers, graphs, and kernel launches.
 *
 * There is one stream, so operations run in order.  Errors are sticky: the first one stays with the device, and sync
 * reports it.
 *
 * A device that is opened early has what the driver tells of it, and a thread makes its context and all that needs one.  Until
 * wait_started() returns, what start() writes is the thread's. */
#include "cuda.h"
#include "../zenith_number.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 4 << 20, /* bytes of a staging buffer */
    N_CHUNKS = 4,
    MAX_KERNELS = 256,
    MAX_GRAPHS = 64,
    MAX_PINNED = 1024,
};

typedef struct found {
    char name[64];
    CUfunction function;
    unsigned shared; /* its limit of dynamic shared memory, in bytes */
} found;

typedef struct graph {
    uint64_t key;
    int seen; /* forwards run without a graph */
    CUgraphExec exec;
} graph;

typedef struct pinned {
    char *ptr;
    size_t size;
} pinned;

typedef struct zn_cuda_private {
    CUmodule modules[ZN_CUDA_MAX_IMAGES];
    int n_modules;
    found kernels[MAX_KERNELS];
    int n_kernels;
    char *staging;          /* pinned host memory, [N_CHUNKS][CHUNK] */
    CUevent busy[N_CHUNKS]; /* recorded after the last copy from or to a chunk */
    struct parcel {         /* weights on their way to the device, in turn: zn_cuda_pinned */
        void *data;
        size_t size;
        CUevent sent;
    } parcel[2];
    int turn;
    pinned pinned[MAX_PINNED];
    int n_pinned;
    graph graphs[MAX_GRAPHS];
    int n_graphs, next_graph;
    graph *now;      /* of the current forward */
    bool recording;  /* the current forward is being captured */
    bool dependent;  /* the driver's graphs support programmatic dependent launch */
    size_t memory;   /* that a run may use */
    size_t at_first; /* free memory when the device was opened */
    char *expanded;  /* device memory: see zn_cuda_expanded */
    size_t expanded_size;
    pthread_t starter;
    pthread_mutex_t joining; /* who waits for it */
    atomic_bool joinable;    /* nobody has */
    atomic_bool starting;    /* it has not ended */
    int n_threads;           /* of the host, that were asked for */
    zn_pool *packers;        /* see zn_cuda_packers */
} zn_cuda_private;

/* ---- errors ----------------------------------------------------------------------------------------------- */

static bool ok(zn_cuda *d, CUresult r, const char *what)
{
    const char *text = NULL;

    if (r == CUDA_SUCCESS)
        return true;
    if (d->status)
        return false;
    d->api->cuGetErrorString(r, &text);
    d->status = r == CUDA_ERROR_OUT_OF_MEMORY ? ZN_E_MEMORY : ZN_E_DEVICE;
    snprintf(d->text, sizeof d->text, zn_tr("the GPU failed in %.60s: %.100s"), what, text ? text : "unknown error");
    return false;
}

static void wait_started(zn_cuda *d)
{
    zn_cuda_private *p = d->p;

    if (!atomic_load(&p->joinable))
        return;
    pthread_mutex_lock(&p->joining);
    if (atomic_load(&p->joinable))
        pthread_join(p->starter, NULL);
    atomic_store(&p->joinable, false);
    pthread_mutex_unlock(&p->joining);
}

/* The calls below may come from any thread, and a context is current per thread. */
static bool enter(zn_cuda *d)
{
    wait_started(d);
    return !d->status && ok(d, d->api->cuCtxSetCurrent(d->context), "cuCtxSetCurrent");
}

void zn_cuda_fail(zn_cuda *d, zn_status status, const char *text)
{
    if (d->status)
        return;
    d->status = status;
    snprintf(d->text, sizeof d->text, "%.199s", zn_tr(text));
}

/* ---- kernels ----------------------------------------------------------------------------------------------- */

zn_cuda_name zn_cuda_kernel(const char *fmt, ...)
{
    zn_cuda_name name;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(name.text, sizeof name.text, fmt, ap);
    va_end(ap);
    assert(n > 0 && (size_t)n < sizeof name.text);
    (void)n;
    return name;
}

static found *find_kernel(zn_cuda *d, const char *name)
{
    zn_cuda_private *p = d->p;
    found *f;

    for (int i = 0; i < p->n_kernels; i++)
        if (!strcmp(p->kernels[i].name, name))
            return &p->kernels[i];
    if (p->n_kernels == MAX_KERNELS) {
        zn_cuda_fail(d, ZN_E_DEVICE, "too many CUDA kernels");
        return NULL;
    }
    f = &p->kernels[p->n_kernels];
    for (int i = 0; i < p->n_modules; i++) {
        CUresult r = d->api->cuModuleGetFunction(&f->function, p->modules[i], name);

        if (r == CUDA_SUCCESS) {
            snprintf(f->name, sizeof f->name, "%.63s", name);
            f->shared = 48 << 10;
            p->n_kernels++;
            return f;
        }
        if (r != CUDA_ERROR_NOT_FOUND && !ok(d, r, name))
            return NULL;
    }
    d->status = ZN_E_DEVICE;
    snprintf(d->text, sizeof d->text, zn_tr("there is no CUDA kernel '%.80s' for this GPU"), name);
    return NULL;
}

static void launch(zn_cuda *d, const char *kernel, CUlaunchConfig how, const void *args)
{
    void *params[] = { (void *)(uintptr_t)args };
    found *f;

    if (!enter(d) || !(f = find_kernel(d, kernel)))
        return;
    if (how.shared_bytes > f->shared) {
        if (!ok(d,
                d->api->cuFuncSetAttribute(f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           (int)how.shared_bytes),
                kernel))
            return;
        f->shared = how.shared_bytes;
    }
    how.block_y = how.block_z = 1;
    how.stream = d->stream;
    ok(d, d->api->cuLaunchKernelEx(&how, f->function, params, NULL), kernel);
}

void zn_cuda_launch(zn_cuda *d, const char *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned threads,
                    unsigned shared_bytes, const void *args)
{
    launch(d, kernel, (CUlaunchConfig){ grid_x, grid_y, grid_z, threads, .shared_bytes = shared_bytes }, args);
}

void zn_cuda_launch_dependent(zn_cuda *d, const char *kernel, unsigned grid_x, unsigned threads, unsigned shared_bytes,
                              const void *args)
{
    CUlaunchAttribute dependent = { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 0, { .on = 1 } };

    launch(d, kernel,
           (CUlaunchConfig){ grid_x, 1, 1, threads, .shared_bytes = shared_bytes, .attributes = &dependent,
                             .n_attributes = d->p->dependent },
           args);
}

void zn_cuda_launch_cooperative(zn_cuda *d, const char *kernel, unsigned grid_x, unsigned grid_y, unsigned threads,
                                unsigned shared_bytes, const void *args)
{
    CUlaunchAttribute cooperative = { CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0, { .on = 1 } };

    launch(d, kernel,
           (CUlaunchConfig){ grid_x, grid_y, 1, threads, .shared_bytes = shared_bytes, .attributes = &cooperative,
                             .n_attributes = 1 },
           args);
}

unsigned zn_cuda_tiles_at_once(const zn_cuda *d, double macs)
{
    const double n = macs > 0 ? d->at_once / macs : INT32_MAX;

    return n < 1 ? 1 : n < INT32_MAX ? (unsigned)n : INT32_MAX;
}

/* ---- graphs ------------------------------------------------------------------------------------------------- */

/* Graphs hold addresses, so they are dropped whenever device memory is freed. */
static void drop_graphs(zn_cuda *d)
{
    for (int i = 0; i < d->p->n_graphs; i++)
        if (d->p->graphs[i].exec)
            d->api->cuGraphExecDestroy(d->p->graphs[i].exec);
    d->p->n_graphs = d->p->next_graph = 0;
}

bool zn_cuda_replay(void *dev, uint64_t key)
{
    zn_cuda *d = dev;
    zn_cuda_private *p = d->p;

    for (int i = 0; i < p->n_graphs; i++)
        if (p->graphs[i].key == key)
            return p->graphs[i].exec && enter(d) &&
                ok(d, d->api->cuGraphLaunch(p->graphs[i].exec, d->stream), "cuGraphLaunch");
    return false;
}

/* The first forward of a key runs without a graph: kernels are looked up and tuned then.  The second is captured. */
void zn_cuda_record(void *dev, uint64_t key)
{
    zn_cuda *d = dev;
    zn_cuda_private *p = d->p;
    graph *g = NULL;

    for (int i = 0; i < p->n_graphs; i++)
        if (p->graphs[i].key == key)
            g = &p->graphs[i];
    if (!g) {
        if (p->n_graphs < MAX_GRAPHS) {
            g = &p->graphs[p->n_graphs++];
        } else {
            g = &p->graphs[p->next_graph];
            p->next_graph = (p->next_graph + 1) % MAX_GRAPHS;
            if (g->exec)
                d->api->cuGraphExecDestroy(g->exec);
        }
        *g = (graph){ .key = key };
    }
    p->now = g;
    p->recording = g->seen++ == 1 && enter(d) &&
        ok(d, d->api->cuStreamBeginCapture_v2(d->stream, CU_STREAM_CAPTURE_MODE_RELAXED), "capture");
}

void zn_cuda_recorded(void *dev, bool whole)
{
    zn_cuda *d = dev;
    graph *g = d->p->now;
    CUgraph made = NULL;
    bool recording = d->p->recording;

    d->p->recording = false;
    if (!whole)
        g->seen--; /* a cancelled forward does not count */
    if (!recording)
        return;
    /* End the capture even after a failure; the stream could not be used again otherwise. */
    if (ok(d, d->api->cuStreamEndCapture(d->stream, &made), "capture") && !d->status && whole &&
        ok(d, d->api->cuGraphInstantiateWithFlags(&g->exec, made, 0), "cuGraphInstantiate"))
        ok(d, d->api->cuGraphLaunch(g->exec, d->stream), "cuGraphLaunch");
    if (made)
        d->api->cuGraphDestroy(made);
}

bool zn_cuda_recording(const zn_cuda *d)
{
    return d->p->recording;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Lack of memory is reported by the caller; any other failure sticks to the device. */
static bool given(zn_cuda *d, CUresult r)
{
    return r != CUDA_ERROR_OUT_OF_MEMORY && ok(d, r, "an allocation");
}

void *zn_cuda_alloc(void *dev, size_t size)
{
    zn_cuda *d = dev;
    CUdeviceptr ptr = 0;

    return enter(d) && given(d, d->api->cuMemAlloc_v2(&ptr, size ? size : 1)) ? (void *)(uintptr_t)ptr : NULL;
}

void zn_cuda_free(void *dev, void *ptr)
{
    zn_cuda *d = dev;

    if (!ptr)
        return;
    d->api->cuCtxSetCurrent(d->context); /* even after a failure */
    d->api->cuStreamSynchronize(d->stream);
    drop_graphs(d);
    d->api->cuMemFree_v2((CUdeviceptr)(uintptr_t)ptr);
}

char *zn_cuda_expanded(zn_cuda *d, size_t size)
{
    zn_cuda_private *p = d->p;

    if (size <= p->expanded_size)
        return p->expanded;
    if (p->recording) { /* the forward before this one made it large enough, unless that one was another */
        zn_cuda_fail(d, ZN_E_DEVICE, "the buffer for expanded weights is too small to record a forward");
        return NULL;
    }
    zn_cuda_free(d, p->expanded);
    p->expanded = zn_cuda_alloc(d, size);
    p->expanded_size = p->expanded ? size : 0;
    if (!p->expanded)
        zn_cuda_fail(d, ZN_E_MEMORY, "out of GPU memory for expanded weights");
    return p->expanded;
}

zn_pool *zn_cuda_packers(zn_cuda *d)
{
    enum { MOST = 8 };

    if (!d->p->packers && d->p->n_threads > 1)
        d->p->packers = zn_pool_open(zn_imin(d->p->n_threads, MOST));
    return d->p->packers;
}

/* Half of the memory that was free when the device was opened, at most 6 GiB.  It must not change later, when models
 * hold some of it: the size of tiles depends on it. */
size_t zn_cuda_memory(void *dev)
{
    zn_cuda *d = dev;

    wait_started(d);
    return d->p->memory;
}

size_t zn_cuda_capacity(void *dev)
{
    zn_cuda *d = dev;

    wait_started(d);
    return d->p->at_first;
}

/* Pinned memory: DMA reads and writes it while the CPU does something else. */
void *zn_cuda_host_alloc(void *dev, size_t size)
{
    zn_cuda *d = dev;
    zn_cuda_private *p = d->p;
    void *ptr = NULL;

    if (!enter(d) || p->n_pinned == MAX_PINNED ||
        !given(d, d->api->cuMemHostAlloc(&ptr, size ? size : 1, CU_MEMHOSTALLOC_PORTABLE)))
        return NULL;
    p->pinned[p->n_pinned++] = (pinned){ ptr, size };
    return ptr;
}

void zn_cuda_host_free(void *dev, void *ptr)
{
    zn_cuda *d = dev;
    zn_cuda_private *p = d->p;

    for (int i = 0; ptr && i < p->n_pinned; i++)
        if (p->pinned[i].ptr == ptr) {
            p->pinned[i] = p->pinned[--p->n_pinned];
            d->api->cuCtxSetCurrent(d->context);
            d->api->cuStreamSynchronize(d->stream);
            d->api->cuMemFreeHost(ptr);
            return;
        }
}

static bool is_pinned(const zn_cuda_private *p, const void *ptr, size_t size)
{
    for (int i = 0; i < p->n_pinned; i++) {
        size_t from = (size_t)((const char *)ptr - p->pinned[i].ptr);

        if ((const char *)ptr >= p->pinned[i].ptr && from <= p->pinned[i].size && size <= p->pinned[i].size - from)
            return true;
    }
    return false;
}

void zn_cuda_upload(void *dev, void *dst, const void *src, size_t size)
{
    zn_cuda *d = dev;

    if (enter(d) && ok(d, d->api->cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)dst, src, size, d->stream), "upload"))
        ok(d, d->api->cuStreamSynchronize(d->stream), "upload"); /* the caller may free src now */
}

char *zn_cuda_pinned(zn_cuda *d, size_t size)
{
    struct parcel *b = &d->p->parcel[d->p->turn];

    if (!enter(d) || (!b->sent && !ok(d, d->api->cuEventCreate(&b->sent, CU_EVENT_DISABLE_TIMING), "upload")) ||
        !ok(d, d->api->cuEventSynchronize(b->sent), "upload"))
        return NULL;
    if (b->size < size) {
        if (b->data)
            d->api->cuMemFreeHost(b->data);
        b->data = NULL;
        b->size = ok(d, d->api->cuMemHostAlloc(&b->data, size, 0), "memory for weights") ? size : 0;
    }
    return b->data;
}

void zn_cuda_send_pinned(zn_cuda *d, void *dst, size_t size)
{
    struct parcel *b = &d->p->parcel[d->p->turn];

    if (enter(d) &&
        ok(d, d->api->cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)dst, b->data, size, d->stream), "upload"))
        ok(d, d->api->cuEventRecord(b->sent, d->stream), "upload");
    d->p->turn ^= 1;
}

void zn_cuda_download(void *dev, void *dst, const void *src, size_t size)
{
    zn_cuda *d = dev;

    if (enter(d) && ok(d, d->api->cuMemcpyDtoHAsync_v2(dst, (CUdeviceptr)(uintptr_t)src, size, d->stream), "download"))
        ok(d, d->api->cuStreamSynchronize(d->stream), "download");
}

/* Arrays in pageable memory go through the pinned chunks: while one chunk is being transferred, the next is copied.
 * A network's input and output tensors are dense and of type float32. */
void zn_cuda_load(void *dev, zn_tensor y, const float *x)
{
    zn_cuda *d = dev;
    size_t size = zn_pixels(y) * (size_t)y.c * sizeof *x, n;
    const char *src = (const char *)x;
    CUdeviceptr dst = (CUdeviceptr)(uintptr_t)y.data;

    assert(y.type == ZN_F32 && y.ld == y.c);
    if (!enter(d))
        return;
    if (is_pinned(d->p, x, size)) {
        ok(d, d->api->cuMemcpyHtoDAsync_v2(dst, x, size, d->stream), "upload");
        return;
    }
    for (int i = 0; size; i = (i + 1) % N_CHUNKS, size -= n, src += n, dst += n) {
        char *piece = d->p->staging + (size_t)i * CHUNK;

        n = size < CHUNK ? size : CHUNK;
        if (!ok(d, d->api->cuEventSynchronize(d->p->busy[i]), "upload"))
            return;
        memcpy(piece, src, n);
        if (!ok(d, d->api->cuMemcpyHtoDAsync_v2(dst, piece, n, d->stream), "upload") ||
            !ok(d, d->api->cuEventRecord(d->p->busy[i], d->stream), "upload"))
            return;
    }
}

void zn_cuda_store(void *dev, float *y, zn_tensor x)
{
    zn_cuda *d = dev;
    size_t size = zn_pixels(x) * (size_t)x.c * sizeof *y, asked = 0, got = 0;
    CUdeviceptr src = (CUdeviceptr)(uintptr_t)x.data;

    assert(x.type == ZN_F32 && x.ld == x.c);
    if (!enter(d))
        return;
    if (is_pinned(d->p, y, size)) {
        ok(d, d->api->cuMemcpyDtoHAsync_v2(y, src, size, d->stream), "download");
        return;
    }
    while (got < size) {
        int i;
        size_t n;

        while (asked < size && asked - got < (size_t)N_CHUNKS * CHUNK) {
            i = (int)(asked / CHUNK % N_CHUNKS);
            n = size - asked < CHUNK ? size - asked : CHUNK;
            if (!ok(d, d->api->cuMemcpyDtoHAsync_v2(d->p->staging + (size_t)i * CHUNK, src + asked, n, d->stream),
                    "download") ||
                !ok(d, d->api->cuEventRecord(d->p->busy[i], d->stream), "download"))
                return;
            asked += n;
        }
        i = (int)(got / CHUNK % N_CHUNKS);
        n = size - got < CHUNK ? size - got : CHUNK;
        if (!ok(d, d->api->cuEventSynchronize(d->p->busy[i]), "download"))
            return;
        memcpy((char *)y + got, d->p->staging + (size_t)i * CHUNK, n);
        got += n;
    }
}

zn_status zn_cuda_sync(void *dev, zn_error *err)
{
    zn_cuda *d = dev;
    zn_status s;

    if (enter(d) && !d->p->recording)
        ok(d, d->api->cuStreamSynchronize(d->stream), "a kernel");
    s = d->status;
    if (!s)
        return ZN_OK;
    zn_fail(err, s, "%s", d->text);
    if (s == ZN_E_MEMORY && err) /* the device can still be used */
        d->status = ZN_OK;
    return s;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

void zn_cuda_close(void *dev)
{
    zn_cuda *d = dev;

    if (!d)
        return;
    wait_started(d);
    if (d->context) {
        d->api->cuCtxSetCurrent(d->context);
        if (d->stream)
            d->api->cuStreamSynchronize(d->stream);
        drop_graphs(d);
        for (int i = 0; i < N_CHUNKS; i++)
            if (d->p->busy[i])
                d->api->cuEventDestroy_v2(d->p->busy[i]);
        for (int i = 0; i < 2; i++) {
            if (d->p->parcel[i].sent)
                d->api->cuEventDestroy_v2(d->p->parcel[i].sent);
            if (d->p->parcel[i].data)
                d->api->cuMemFreeHost(d->p->parcel[i].data);
        }
        if (d->p->staging)
            d->api->cuMemFreeHost(d->p->staging);
        if (d->scratch)
            d->api->cuMemFree_v2((CUdeviceptr)(uintptr_t)d->scratch);
        if (d->p->expanded)
            d->api->cuMemFree_v2((CUdeviceptr)(uintptr_t)d->p->expanded);
        for (int i = 0; i < d->p->n_modules; i++)
            d->api->cuModuleUnload(d->p->modules[i]);
        if (d->stream)
            d->api->cuStreamDestroy_v2(d->stream);
        d->api->cuCtxSetCurrent(NULL);
        d->api->cuDevicePrimaryCtxRelease_v2(d->device);
    }
    zn_pool_close(&d->p->packers);
    pthread_mutex_destroy(&d->p->joining);
    free(d->p);
    free(d);
}

/* Multiply-adds of float32 that the card does in 20 ms at its peak, so in 40 at half of it; tensor cores do twice as many at least.  Cards
 * of 9.0 and 10.0 drive no screen. */
static double work_at_once(const zn_cuda *d)
{
    const double usual = 1.5e6, most = 0.02;
    int khz = 0;

    if (d->cc == 90 || d->cc == 100)
        return HUGE_VAL;
    d->api->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, d->device);
    return most * d->sms * 1e3 * (khz > 0 ? khz : usual) * (d->cc < 80 ? 64 : 128);
}

/* ZENITH_CUDA_CAPABILITY=8.6: the kernels that such a GPU takes, within its shared memory, as far as this one can run them.
 * So they can be tested without it. */
static bool pretend(zn_cuda *d, zn_error *err)
{
    static const struct card {
        double capability;
        int cc, kib;
    } cards[] = { { 7.5, 75, 64 }, { 8.0, 80, 163 }, { 8.6, 86, 99 }, { 8.9, 89, 99 }, { 12.0, 120, 99 } };
    const char *text = getenv("ZENITH_CUDA_CAPABILITY");
    double wanted = 0;

    if (!text || !*text)
        return true;
    if (zn_number_parse(&wanted, text, NULL))
        for (size_t i = 0; i < sizeof cards / sizeof *cards; i++)
            if (wanted == cards[i].capability && (cards[i].cc <= d->cc || d->cc >= 80)) {
                const size_t length = strlen(d->name);

                d->cc = cards[i].cc;
                d->smem_max = zn_imin(d->smem_max, cards[i].kib * 1024);
                snprintf(d->name + length, sizeof d->name - length, " as %d.%d", d->cc / 10, d->cc % 10);
                return true;
            }
    zn_fail(err, ZN_E_USAGE,
            "ZENITH_CUDA_CAPABILITY is '%s'; it must be 7.5, 8.0, 8.6, 8.9 or 12.0, and not above that of the GPU if "
            "that is 7.5",
            text);
    return false;
}

static bool open_device(zn_cuda *d, zn_error *err)
{
    const zn_driver *api = d->api;
    int n = 0, major = 0, minor = 0;

    if (api->cuDeviceGetCount(&n) != CUDA_SUCCESS || n < 1) {
        zn_fail(err, ZN_E_DEVICE, "the NVIDIA driver finds no GPU");
        return false;
    }
    ok(d, api->cuDeviceGet(&d->device, 0), "cuDeviceGet");
    ok(d, api->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->device), "attributes");
    ok(d, api->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->device), "attributes");
    ok(d, api->cuDeviceGetAttribute(&d->sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->device), "attributes");
    ok(d, api->cuDeviceGetAttribute(&d->smem_max, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d->device),
       "attributes");
    ok(d, api->cuDeviceGetAttribute(&d->cooperative, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, d->device), "attributes");
    d->cc = 10 * major + minor;
    if (!d->status && d->cc < 75) {
        zn_fail(err, ZN_E_DEVICE, "the GPU is of compute capability %d.%d; 7.5 or later is needed", major, minor);
        return false;
    }
    ok(d, api->cuDeviceGetName(d->name, sizeof d->name, d->device), "cuDeviceGetName");
    if (!pretend(d, err))
        return false;
    d->at_once = work_at_once(d);
    return true;
}

static void start(zn_cuda *d)
{
    const zn_driver *api = d->api;
    zn_cuda_private *p = d->p;
    CUdeviceptr scratch = 0;
    void *staging = NULL;
    const size_t most = (size_t)6 << 30;
    size_t available = 0, total = 0;
    int version = 0;

    if (d->status || !ok(d, api->cuDevicePrimaryCtxRetain(&d->context, d->device), "opening the GPU") ||
        !ok(d, api->cuCtxSetCurrent(d->context), "cuCtxSetCurrent"))
        return;
    for (int i = 0; i < zn_cuda_n_images; i++) {
        const zn_cuda_image *image = &zn_cuda_images[i];

        if (image->only_cc < 0 ? d->cc < -image->only_cc : image->only_cc && image->only_cc != d->cc)
            continue;
        if (!ok(d, api->cuModuleLoadData(&p->modules[p->n_modules], image->data), "loading kernels"))
            return;
        p->n_modules++;
    }
    ok(d, api->cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < N_CHUNKS; i++)
        ok(d, api->cuEventCreate(&p->busy[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (!d->status && ok(d, api->cuMemHostAlloc(&staging, (size_t)N_CHUNKS * CHUNK, 0), "cuMemHostAlloc"))
        p->staging = staging;
    if (!d->status && ok(d, api->cuMemAlloc_v2(&scratch, ZN_CUDA_SCRATCH), "cuMemAlloc"))
        d->scratch = (char *)(uintptr_t)scratch;
    if (!d->status && ok(d, api->cuMemGetInfo_v2(&available, &total), "cuMemGetInfo"))
        p->memory = available / 2 < most ? available / 2 : most;
    p->at_first = available;
    ok(d, api->cuDriverGetVersion(&version), "cuDriverGetVersion");
    p->dependent = version >= 12030;
}

static void *start_alone(void *dev)
{
    zn_cuda *d = dev;

    start(d);
    if (d->status)
        d->status = ZN_E_DEVICE; /* for good: sync forgets a lack of memory */
    atomic_store(&d->p->starting, false);
    return NULL;
}

bool zn_cuda_starting(void *dev)
{
    const zn_cuda *d = dev;

    return atomic_load(&d->p->starting);
}

/* False: there is no thread for it. */
static bool start_early(zn_cuda *d)
{
    atomic_store(&d->p->starting, true);
    if (pthread_create(&d->p->starter, NULL, start_alone, d)) {
        atomic_store(&d->p->starting, false);
        return false;
    }
    atomic_store(&d->p->joinable, true);
    return true;
}

zn_status zn_cuda_open(void **dev, int n_threads, bool early, zn_error *err)
{
    const zn_driver *api = zn_driver_load(err);
    zn_status s;
    zn_cuda *d;

    *dev = NULL;
    if (!api)
        return ZN_E_DEVICE;
    d = calloc(1, sizeof *d);
    if (!d || !(d->p = calloc(1, sizeof *d->p))) {
        free(d);
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    }
    d->api = api;
    d->p->n_threads = n_threads;
    pthread_mutex_init(&d->p->joining, NULL);
    if (!open_device(d, err)) {
        zn_cuda_close(d);
        return ZN_E_DEVICE;
    }
    if (early && !d->status && start_early(d)) {
        *dev = d;
        return ZN_OK;
    }
    start(d);
    if ((s = d->status)) {
        zn_fail(err, s, "%s", d->text);
        zn_cuda_close(d);
        return s;
    }
    *dev = d;
    return ZN_OK;
}

/* ---- time ---------------------------------------------------------------------------------------------------- */

double zn_cuda_time(zn_cuda *d, void (*work)(void *cookie), void *cookie)
{
    CUevent from = NULL, to = NULL;
    float ms = 0;

    if (!enter(d))
        return 0;
    ok(d, d->api->cuEventCreate(&from, CU_EVENT_DEFAULT), "cuEventCreate");
    ok(d, d->api->cuEventCreate(&to, CU_EVENT_DEFAULT), "cuEventCreate");
    if (!d->status) {
        ok(d, d->api->cuEventRecord(from, d->stream), "cuEventRecord");
        work(cookie);
        ok(d, d->api->cuEventRecord(to, d->stream), "cuEventRecord");
        if (ok(d, d->api->cuEventSynchronize(to), "a kernel"))
            ok(d, d->api->cuEventElapsedTime(&ms, from, to), "cuEventElapsedTime");
    }
    if (from)
        d->api->cuEventDestroy_v2(from);
    if (to)
        d->api->cuEventDestroy_v2(to);
    return ms;
}
