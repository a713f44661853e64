/* SPDX-License-Identifier: MIT */
/* hopper.cuh - the instructions of compute capability 9.0 that hopper*.cu use: mbarriers, TMA, wgmma; rings of buffers in shared
 * memory.  Fields and rules: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix
 * Instructions". */
#ifndef ZN_HOPPER_CUH
#define ZN_HOPPER_CUH

#include "common.cuh"

#include "../hopper.h"

/* Shared memory, mbarriers, TMA. */

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void barrier_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* Programmatic dependent launch (zn_cuda_launch_dependent): lets the next kernel start, then waits for the one before, whose
 * results may be read from here on. */
__device__ __forceinline__ void after_previous()
{
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
}

__device__ __forceinline__ void load_4d(uint32_t to, const zn_hopper_map *map, uint32_t bar, int c, int x, int y, int n)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(c), "r"(x), "r"(y), "r"(n)
                 : "memory");
}

__device__ __forceinline__ void load_2d(uint32_t to, const zn_hopper_map *map, uint32_t bar, int c, int x)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(c), "r"(x)
                 : "memory");
}

__device__ __forceinline__ void store_4d(const zn_hopper_map *map, uint32_t from, int c, int x, int y, int n)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(c), "r"(x), "r"(y), "r"(n)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* The same, by multicast to both blocks of the cluster: each loads its half. */
__device__ __forceinline__ void load_4d_both(uint32_t to, const zn_hopper_map *map, uint32_t bar, int c, int x, int y,
                                             int n)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(c), "r"(x), "r"(y), "r"(n), "h"((uint16_t)3)
                 : "memory");
}

/* Arrives at the barrier of block `rank` at the same address. */
__device__ __forceinline__ void barrier_arrive_at(uint32_t bar, int rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

__device__ __forceinline__ void pair_sync()
{
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ int pair_rank()
{
    uint32_t r;

    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return (int)r;
}

/* Waits until at most `left` stores of this thread still read shared memory. */
template <int left> __device__ __forceinline__ void stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}

__device__ __forceinline__ void stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* Makes ordinary stores visible to TMA and wgmma. */
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void warpgroup_sync(int wg) { asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory"); }

/* 256 pixels a warpgroup are 128 accumulators a thread: the producers release registers to the consumers, and keep more if they
 * `work`. */
template <int N, bool work = false> __device__ __forceinline__ void give_registers()
{
    if (N == 256)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(work ? 56 : 40));
}

template <int N, bool work = false> __device__ __forceinline__ void take_registers()
{
    if (N == 256)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(work ? 224 : 232));
}

/* A ring of buffers, with a thread's position and phase in it. */
struct ring {
    uint32_t data, full, empty;
    int stages, size, stage, phase;
};

__device__ __forceinline__ uint32_t ring_data(const ring &r) { return r.data + r.stage * r.size; }
__device__ __forceinline__ uint32_t ring_full(const ring &r) { return r.full + r.stage * 8; }
__device__ __forceinline__ uint32_t ring_empty(const ring &r) { return r.empty + r.stage * 8; }
__device__ __forceinline__ void ring_next(ring &r, int by = 1)
{
    r.stage += by;
    if (r.stage >= r.stages)
        r.stage -= r.stages, r.phase ^= 1;
}

/* wgmma. */

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/* Waits until at most `left` groups are in flight; d may be read only after this. */
__device__ __forceinline__ void was_written(float &x) { asm volatile("" : "+f"(x)::"memory"); }
__device__ __forceinline__ void was_written(int &x) { asm volatile("" : "+r"(x)::"memory"); }

template <int left, class D, int N> __device__ __forceinline__ void products_wait(D (&d)[N])
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
    if (left == 0) {
#pragma unroll
        for (int i = 0; i < N; i++)
            was_written(d[i]);
    }
}

/* The descriptor of rows of 128 bytes in shared memory; groups of 8 rows are `pitch` bytes apart. */
__device__ __forceinline__ uint64_t describe(uint32_t address, int pitch)
{
    return (uint64_t)1 << 62 | (uint64_t)(pitch >> 4) << 32 | (uint64_t)1 << 16 | address >> 4;
}

/* The offset of pixel (u, v) of an input tile with its halo, to be added to the tile's descriptor. */
__device__ __forceinline__ uint64_t tap_at(int u, int v, int pitch) { return (uint64_t)((u * pitch + v) * 8); }

struct e4m3 { /* 4 bits of exponent, 3 of mantissa */
    uint8_t bits;
};

struct s8 { /* integers, and their sums */
    int8_t bits;
};

template <class In> struct sums_of {
    typedef float type;
};
template <> struct sums_of<s8> {
    typedef int type;
};

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D64(i) D16(i), D16(i + 16), D16(i + 32), D16(i + 48)
#define LIST_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LIST_32 LIST_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LIST_48 LIST_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define LIST_64                                                                                                        \
    LIST_48                                                                                                            \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LIST_96                                                                                                        \
    LIST_64                                                                                                            \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"                                 \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define LIST_128                                                                                                       \
    LIST_96                                                                                                            \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"                     \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/* d[64][n] (+)= a[64][32 bytes] b[n][32 bytes]^T; a thread has rows r, r + 8 and columns 8j + c, 8j + c + 1 of it in
 * d[4j .. 4j+3], r = 16 * warp + lane / 4, c = lane % 4 * 2. */
#define PRODUCT(type, name, k, n, list, d_all, a_at, b_at, on_at)                                                      \
    __device__ __forceinline__ void product(type, float(&d)[n / 2], uint64_t a, uint64_t b, int on)                    \
    {                                                                                                                  \
        asm volatile("{\n.reg .pred on;\nsetp.ne.b32 on, " on_at ", 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned.m64n" #n #k ".f32." #name "." #name " {" list "}, " a_at ", " b_at  \
                     ", on, 1, 1" MAJOR_##k ";\n}"                                                                     \
                     : d_all                                                                                           \
                     : "l"(a), "l"(b), "r"(on)                                                                         \
                     : "memory");                                                                                      \
    }
#define MAJOR_k16 ", 0, 0" /* both operands are k-major; 8-bit types have no other order */
#define MAJOR_k32
#define PRODUCTS(type, name, k)                                                                                        \
    PRODUCT(type, name, k, 32, LIST_16, D16(0), "%16", "%17", "%18")                                                   \
    PRODUCT(type, name, k, 64, LIST_32, D16(0) COMMA D16(16), "%32", "%33", "%34")                                     \
    PRODUCT(type, name, k, 96, LIST_48, D16(0) COMMA D16(16) COMMA D16(32), "%48", "%49", "%50")                       \
    PRODUCT(type, name, k, 128, LIST_64, D64(0), "%64", "%65", "%66")                                                  \
    PRODUCT(type, name, k, 192, LIST_96, D64(0) COMMA D16(64) COMMA D16(80), "%96", "%97", "%98")                      \
    PRODUCT(type, name, k, 256, LIST_128, D64(0) COMMA D64(64), "%128", "%129", "%130")
#define COMMA ,
PRODUCTS(f16, f16, k16)
PRODUCTS(bf16, bf16, k16)
PRODUCTS(e4m3, e4m3, k32)

#define I4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define I16(i) I4(i), I4(i + 4), I4(i + 8), I4(i + 12)
#define I64(i) I16(i), I16(i + 16), I16(i + 32), I16(i + 48)
#define PRODUCT_S8(n, list, d_all, a_at, b_at, on_at)                                                                  \
    __device__ __forceinline__ void product(s8, int(&d)[n / 2], uint64_t a, uint64_t b, int on)                        \
    {                                                                                                                  \
        asm volatile("{\n.reg .pred on;\nsetp.ne.b32 on, " on_at ", 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32.s8.s8 {" list "}, " a_at ", " b_at ", on;\n}"     \
                     : d_all                                                                                           \
                     : "l"(a), "l"(b), "r"(on)                                                                         \
                     : "memory");                                                                                      \
    }
PRODUCT_S8(192, LIST_96, I64(0) COMMA I16(64) COMMA I16(80), "%96", "%97", "%98")
PRODUCT_S8(256, LIST_128, I64(0) COMMA I64(64), "%128", "%129", "%130")

/* This warp has read the buffer of `empty`.  pair: one that both blocks of a cluster fill. */
template <bool pair> __device__ __forceinline__ void release(uint32_t empty, int lane)
{
    if (pair) {
        if (lane < 2)
            barrier_arrive_at(empty, lane);
    } else if (lane == 0) {
        barrier_arrive(empty);
    }
}

/* A warpgroup's sums d over `steps` buffers of the ring, whose weights and pixels begin so many bytes after a buffer's address.  While
 * one is multiplied, the one before it is given back. */
template <class In, bool pair, int UNROLL, class D, int N>
__device__ __forceinline__ void multiply_ring(D (&d)[N], ring &r, int steps, int weights_at, int pixels_at, int lane)
{
    uint32_t used = 0;

#pragma unroll UNROLL
    for (int step = 0; step < steps; step++) {
        const uint64_t weights = describe(ring_data(r) + weights_at, 1024);
        const uint64_t pixels = describe(ring_data(r) + pixels_at, 1024);

        barrier_wait(ring_full(r), r.phase);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            product(In(), d, weights + k * 2, pixels + k * 2, step + k > 0);
        products_commit();
        products_wait<1>(d);
        if (step > 0)
            release<pair>(used, lane);
        used = ring_empty(r);
        ring_next(r);
    }
    products_wait<0>(d);
    release<pair>(used, lane);
}

#endif
