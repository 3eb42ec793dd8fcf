/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands for CUDA's runtime where libtrain/cuda is compiled by a C++ compiler, for its tests: the
 * part of the language and of the interface that those files use. runtime.cpp has the queue and the
 * memory, fibers.cpp runs a kernel's threads; both say what they check.
 */
#ifndef SHIM_CUDA_RUNTIME_H
#define SHIM_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define SHIM __attribute__((visibility("default")))

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

/* ---- what a kernel sees ---- */

extern SHIM dim3 threadIdx, blockIdx, blockDim, gridDim;

/* As many bytes as the launch says, filled with 0xff. */
SHIM void *shim_shared(void);
SHIM void shim_barrier(void);
/* Each lane of a warp gives `bytes` (at most 64); returns what all 32 gave, in their order, valid
 * until the lane gives something again but one. */
SHIM const void *shim_gather(const void *mine, size_t bytes);

/* A copy to shared memory (from NULL: zeros) that is made when its batch is waited for: all of this
 * thread's batches but the last `left`. */
SHIM void shim_copy_later(void *to, const void *from, size_t bytes);
SHIM void shim_copies_closed(void);
SHIM void shim_copies_done(int left);

static inline void __syncthreads(void)
{
    shim_barrier();
}

template <class T> static inline T __shfl_sync(unsigned, T value, int lane)
{
    return ((const T *)shim_gather(&value, sizeof value))[lane & 31];
}

template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask)
{
    int lane = (int)((threadIdx.x + threadIdx.y * blockDim.x) % 32);
    return ((const T *)shim_gather(&value, sizeof value))[lane ^ mask];
}

static inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- launches ---- */

typedef struct shim_stream *cudaStream_t;
typedef struct shim_event *cudaEvent_t;
typedef struct shim_graph *cudaGraph_t;
typedef struct shim_graph *cudaGraphExec_t;

/* Puts work on the queue, or into the step that is being captured. */
SHIM void shim_enqueue(cudaStream_t stream, std::function<void()> work);
/* Notes that such an operation is done from `begin` (CLOCK_REALTIME ns) to now: shim/runtime.cpp.
 */
SHIM void shim_done(const char *name, uint64_t begin);
SHIM uint64_t shim_now(void);
extern "C" SHIM uint64_t shim_times(const char *name); /* how often that was done, or noted */
/* What is worked on takes so long by the queue's own clock, which events read. */
SHIM void shim_takes(cudaStream_t stream, uint64_t ns);
SHIM void shim_note(const char *what);
/* A launch that the hardware would refuse is cudaGetLastError's. */
SHIM bool shim_launchable(const void *kernel, const char *name, dim3 grid, dim3 block,
                          size_t shared);
/* Runs all blocks of a kernel, one after the other. */
SHIM void shim_run(const char *name, dim3 grid, dim3 block, size_t shared,
                   const std::function<void()> &thread);

template <class... P, class... A>
static inline void shim_launch(void (*kernel)(P...), const char *name, dim3 grid, dim3 block,
                               size_t shared, cudaStream_t stream, A... args)
{
    if (shim_launchable((const void *)kernel, name, grid, block, shared))
        shim_enqueue(stream, [=] {
            uint64_t begin = shim_now();
            shim_run(name, grid, block, shared, [=] { kernel((P)args...); });
            shim_done(name, begin);
        });
}

#define LAUNCH(kernel, grid, block, bytes, stream, ...) \
    shim_launch(kernel, #kernel, grid, block, bytes, stream, __VA_ARGS__)

/* ---- the runtime ---- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNoDevice = 100,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnjoined = 904
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum {
    cudaStreamNonBlocking = 1,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaEventDefault = 0,
    cudaEventDisableTiming = 2
};

struct cudaDeviceProp {
    char name[256];
    int major, minor;
};

extern "C" {
SHIM cudaError_t cudaGetDeviceCount(int *count);
SHIM cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
SHIM cudaError_t cudaGetLastError(void);
SHIM cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute which, int value);
SHIM const char *cudaGetErrorString(cudaError_t error);
SHIM cudaError_t cudaMalloc(void **pointer, size_t bytes);
SHIM cudaError_t cudaFree(void *pointer);
SHIM cudaError_t cudaMallocHost(void **pointer, size_t bytes);
SHIM cudaError_t cudaFreeHost(void *pointer);
SHIM cudaError_t cudaMemGetInfo(size_t *unused, size_t *total);
SHIM cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
SHIM cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream);
SHIM cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
SHIM cudaError_t cudaStreamDestroy(cudaStream_t stream);
SHIM cudaError_t cudaStreamSynchronize(cudaStream_t stream);
SHIM cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
SHIM cudaError_t cudaSetDevice(int device);
SHIM cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
SHIM cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
SHIM cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph,
                                      unsigned long long flags);
SHIM cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
SHIM cudaError_t cudaGraphDestroy(cudaGraph_t graph);
SHIM cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
SHIM cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
SHIM cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
SHIM cudaError_t cudaEventSynchronize(cudaEvent_t event);
SHIM cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);
SHIM cudaError_t cudaEventDestroy(cudaEvent_t event);
}

#endif
