/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands for CUDA where tests/gpu/work.cu is compiled as C++ and run without a GPU: as much of the
 * runtime as it calls, on the substitute driver of tests/targets. A kernel has a length and no
 * arithmetic; a stream has a time at which it is free; who synchronises sleeps until then. So the
 * books of the program and what the substitute CUPTI records can be compared as on a GPU.
 */
#ifndef SUBSTITUTE_CUDA_H
#define SUBSTITUTE_CUDA_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>

#include <dlfcn.h>

extern "C" {
#include "tests/targets/fake_gpu.h"
}

#define __global__
#define LAUNCH(kernel, grid, block, stream, ...) \
    substitute_launch(stream, #kernel, substitute_ns(0, ##__VA_ARGS__))

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamCaptureModeThreadLocal = 1 };
struct cudaFuncAttributes {
    int none;
};
struct cudaDeviceProp {
    char name[256];
};
struct __nv_bfloat16 {
    uint16_t bits;
};
struct substitute_graph {
    uint32_t nodes;
    uint64_t ns;
};
struct substitute_stream {
    uint32_t number;
    uint64_t free_at; /* CLOCK_REALTIME ns */
    bool capturing;
    substitute_graph graph;
};
struct substitute_event {
    uint64_t at;
    uint32_t number;
};
typedef substitute_stream *cudaStream_t;
typedef substitute_event *cudaEvent_t;
typedef substitute_graph *cudaGraph_t;
typedef substitute_graph *cudaGraphExec_t;

static struct {
    unsigned x;
} threadIdx, blockIdx, blockDim;

static inline long long clock64(void)
{
    return 0;
}

static inline __nv_bfloat16 __float2bfloat16(float)
{
    return {};
}

static inline const char *cudaGetErrorString(cudaError_t)
{
    return "an error of the substitute";
}

static inline uint64_t substitute_now(void)
{
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void substitute_wait(uint64_t until)
{
    timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, nullptr))
        continue;
}

static inline void substitute_call(fake_call call)
{
    static void (*function)(fake_call *);
    if (!function) {
        void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
        auto init = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : nullptr;
        if (!init || init(0)) {
            fprintf(stderr, "no substitute libcuda\n");
            exit(3);
        }
        function = (void (*)(fake_call *))dlsym(cuda, "fake_cuda_call");
    }
    function(&call);
}

/* The place of an operation on its stream. */
static inline fake_call substitute_op(cudaStream_t stream, fake_what what, uint64_t ns)
{
    fake_call call = {};
    call.what = what;
    call.stream = stream->number;
    call.start = std::max(substitute_now(), stream->free_at);
    call.end = stream->free_at = call.start + ns;
    return call;
}

/* How long a kernel takes, by its arguments: cycles of a clock of 1.8 GHz, elements, or nothing. */
static inline uint64_t substitute_ns(int)
{
    return 1000;
}
static inline uint64_t substitute_ns(int, long long cycles, float *)
{
    return (uint64_t)((double)cycles / 1.8);
}
static inline uint64_t substitute_ns(int, __nv_bfloat16 *, size_t elements)
{
    return 2000 + elements / 1000;
}

/* Also called by the substitute cuBLAS. A launch costs the host ten microseconds. */
extern "C" __attribute__((visibility("default"), used)) inline void
substitute_launch(cudaStream_t stream, const char *name, uint64_t ns, uint64_t operations = 0)
{
    if (stream->capturing) {
        stream->graph.nodes++;
        stream->graph.ns += ns;
        return;
    }
    fake_call call = substitute_op(stream, FAKE_LAUNCH, ns);
    call.kernel = name;
    call.host_ns = 10000;
    call.operations = operations;
    substitute_call(call);
}

static inline cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    static uint32_t number = 13;
    *stream = new substitute_stream{number++, 0, false, {}};
    return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    substitute_wait(stream->free_at);
    fake_call call = {};
    call.what = FAKE_SYNC;
    call.stream = stream->number;
    substitute_call(call);
    return cudaSuccess;
}

static inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int)
{
    stream->capturing = true;
    stream->graph = {};
    return cudaSuccess;
}

static inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    stream->capturing = false;
    *graph = new substitute_graph(stream->graph);
    return cudaSuccess;
}

static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph, int)
{
    *ready = graph;
    return cudaSuccess;
}

static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    fake_call call = substitute_op(stream, FAKE_GRAPH, graph->ns);
    call.nodes = graph->nodes;
    call.kernel = "node";
    substitute_call(call);
    return cudaSuccess;
}

static inline cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    static uint32_t number = 3;
    *event = new substitute_event{0, number++};
    return cudaSuccess;
}

static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->at = std::max(substitute_now(), stream->free_at);
    fake_call call = {};
    call.what = FAKE_EVENT;
    call.stream = stream->number;
    call.event = event->number;
    substitute_call(call);
    return cudaSuccess;
}

static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    stream->free_at = std::max(stream->free_at, event->at);
    fake_call call = {};
    call.what = FAKE_WAIT;
    call.stream = stream->number;
    call.event = event->number;
    substitute_call(call);
    return cudaSuccess;
}

static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = (float)((double)(end->at - begin->at) / 1e6);
    return cudaSuccess;
}

/* A copy from pageable memory holds its caller up. */
static inline cudaError_t cudaMemcpyAsync(void *, const void *, size_t bytes, int kind,
                                          cudaStream_t stream)
{
    bool host = kind == cudaMemcpyHostToDevice;
    fake_call call =
        substitute_op(stream, FAKE_COPY, (uint64_t)((double)bytes / (host ? 10.0 : 1500.0)));
    call.bytes = bytes;
    substitute_call(call);
    if (host)
        substitute_wait(stream->free_at);
    return cudaSuccess;
}

static size_t substitute_used = (size_t)400 << 20;
static std::map<const void *, size_t> substitute_blocks;

static inline void substitute_allocation(int64_t bytes)
{
    fake_call call = {};
    call.what = FAKE_MEMORY;
    call.bytes = (uint64_t)bytes;
    substitute_used += (size_t)bytes;
    substitute_call(call);
}

template <class T> static inline cudaError_t cudaMalloc(T **pointer, size_t bytes)
{
    *pointer = (T *)malloc(64); /* nobody reads it */
    substitute_blocks[*pointer] = bytes;
    substitute_allocation((int64_t)bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaFree(void *pointer)
{
    substitute_allocation(-(int64_t)substitute_blocks[pointer]);
    substitute_blocks.erase(pointer);
    free(pointer);
    return cudaSuccess;
}

static inline cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = (size_t)80 << 30;
    *free_bytes = *total - substitute_used;
    return cudaSuccess;
}

template <class F> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, F *)
{
    return cudaSuccess;
}

static inline cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int)
{
    snprintf(text, (size_t)size, "0000:00:00.0");
    return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int)
{
    snprintf(properties->name, sizeof properties->name, "Substitute GPU");
    return cudaSuccess;
}

#endif
