/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute for CUDA's runtime, stricter than the real one where that lets an error pass.
 *
 * Queue. Nothing is done when it is asked for: it is done when the host waits, and then only as far
 * as the host waits for. So what the host reads or overwrites too early is wrong each time. A copy
 * from pinned memory reads it when it is done, one from other memory at once; the target of a copy
 * to the host is filled with 0xff until then.
 *
 * Memory. Each allocation ends at a page that cannot be touched, begins filled with 0xff, and can
 * be touched only while the queue is worked on: the host that reads or writes it dies.
 *
 * Capture. Allocating, giving back and waiting are refused while a step is captured and spoil it,
 * as CUDA has it.
 */
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

typedef std::function<void()> work;

struct shim_graph {
    std::vector<work> nodes;
};

struct shim_stream {
    std::deque<work> queue;
    uint64_t asked, done; /* operations */
    bool capturing, spoilt;
    shim_graph captured;
};

struct shim_event {
    cudaStream_t stream;
    uint64_t position;
};

struct block {
    char *mapped;
    size_t mapped_bytes, bytes;
};

static std::map<char *, block> device_memory, pinned_memory;
static std::vector<cudaStream_t> streams;
static cudaError_t last_error;
static const size_t page = 4096, device_bytes = (size_t)2 << 30;
static size_t used;

static cudaError_t refuse(cudaError_t error)
{
    return last_error = error;
}

/* While a step is captured: the call is refused and the step spoilt. */
static bool spoils(void)
{
    for (cudaStream_t stream : streams)
        if (stream->capturing) {
            stream->spoilt = true;
            return true;
        }
    return false;
}

static void protect(int rights)
{
    for (auto &entry : device_memory)
        mprotect(entry.second.mapped, entry.second.mapped_bytes, rights);
}

/* Works on the queue until `position` operations of it are done. */
static void run_until(cudaStream_t stream, uint64_t position)
{
    if (stream->done >= position)
        return;
    protect(PROT_READ | PROT_WRITE);
    while (stream->done < position) {
        work next = std::move(stream->queue.front());
        stream->queue.pop_front();
        next();
        stream->done++;
    }
    protect(PROT_NONE);
}

void shim_enqueue(cudaStream_t stream, work next)
{
    if (stream->capturing) {
        stream->captured.nodes.push_back(std::move(next));
        return;
    }
    stream->queue.push_back(std::move(next));
    stream->asked++;
}

bool shim_launchable(const char *name, dim3 grid, dim3 block, size_t shared)
{
    size_t size = (size_t)block.x * block.y * block.z;
    if (size && size <= 1024 && grid.x && grid.y && grid.z && grid.x < 1u << 31 && grid.y < 65536 &&
        grid.z < 65536 && shared <= 48 << 10)
        return true;
    fprintf(stderr, "%s: %u %u %u blocks of %zu threads with %zu bytes: no such launch\n", name,
            grid.x, grid.y, grid.z, size, shared);
    refuse(cudaErrorInvalidConfiguration);
    return false;
}

/* The allocation that [pointer, pointer + bytes) lies in; nullptr: in none. */
static const block *find(const std::map<char *, block> &in, const void *pointer, size_t bytes)
{
    char *at = (char *)(uintptr_t)pointer;
    auto entry = in.upper_bound(at);
    if (entry == in.begin())
        return nullptr;
    --entry;
    return at + bytes <= entry->first + entry->second.bytes ? &entry->second : nullptr;
}

/* ---- memory ---- */

static cudaError_t allocate(std::map<char *, block> &in, void **pointer, size_t bytes, int rights)
{
    size_t inner = (bytes + 15) / 16 * 16, mapped = (inner + page - 1) / page * page + page;
    if (spoils())
        return refuse(cudaErrorStreamCaptureUnsupported);
    if (!bytes || (&in == &device_memory && used + bytes > device_bytes))
        return refuse(cudaErrorMemoryAllocation);
    char *base = (char *)mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return refuse(cudaErrorMemoryAllocation);
    memset(base, 0xff, mapped - page);
    mprotect(base, mapped - page, rights);
    mprotect(base + mapped - page, page, PROT_NONE);
    char *at = base + mapped - page - inner;
    in[at] = {base, mapped - page, bytes};
    used += &in == &device_memory ? bytes : 0;
    *pointer = at;
    return cudaSuccess;
}

/* Waits for all that may still use it, as the real one does. */
static cudaError_t release(std::map<char *, block> &in, void *pointer)
{
    if (!pointer)
        return cudaSuccess;
    if (spoils())
        return refuse(cudaErrorStreamCaptureUnsupported);
    auto entry = in.find((char *)pointer);
    if (entry == in.end())
        return refuse(cudaErrorInvalidValue);
    for (cudaStream_t stream : streams)
        run_until(stream, stream->asked);
    used -= &in == &device_memory ? entry->second.bytes : 0;
    munmap(entry->second.mapped, entry->second.mapped_bytes + page);
    in.erase(entry);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    return allocate(device_memory, pointer, bytes, PROT_NONE);
}

cudaError_t cudaFree(void *pointer)
{
    return release(device_memory, pointer);
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return allocate(pinned_memory, pointer, bytes, PROT_READ | PROT_WRITE);
}

cudaError_t cudaFreeHost(void *pointer)
{
    return release(pinned_memory, pointer);
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    *total = device_bytes;
    *unused = device_bytes - used;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    if (!find(device_memory, to, bytes))
        return refuse(cudaErrorInvalidValue);
    shim_enqueue(stream, [=] { memset(to, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    bool out = kind == cudaMemcpyDeviceToHost;
    if (!find(device_memory, out ? from : to, bytes) || find(device_memory, out ? to : from, 1))
        return refuse(cudaErrorInvalidValue);
    if (out || find(pinned_memory, from, bytes)) {
        if (out)
            memset(to, 0xff, bytes);
        shim_enqueue(stream, [=] { memcpy(to, from, bytes); });
        return cudaSuccess;
    }
    if (stream->capturing && (stream->spoilt = true))
        return refuse(cudaErrorStreamCaptureUnsupported);
    std::vector<char> copy((const char *)from, (const char *)from + bytes);
    shim_enqueue(stream, [=] { memcpy(to, copy.data(), bytes); });
    return cudaSuccess;
}

/* ---- order ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new shim_stream();
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (!stream)
        return refuse(cudaErrorInvalidValue);
    run_until(stream, stream->asked);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (spoils())
        return refuse(cudaErrorStreamCaptureUnsupported);
    if (stream)
        run_until(stream, stream->asked);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int)
{
    stream->capturing = true;
    stream->spoilt = false;
    stream->captured.nodes.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    stream->capturing = false;
    if (stream->spoilt)
        return refuse(cudaErrorStreamCaptureInvalidated);
    *graph = new shim_graph(stream->captured);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph, unsigned long long)
{
    *ready = new shim_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    for (const work &node : graph->nodes)
        shim_enqueue(stream, node);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    return cudaGraphDestroy(graph);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new shim_event();
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->stream = stream;
    event->position = stream->asked;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (spoils())
        return refuse(cudaErrorStreamCaptureUnsupported);
    if (event->stream)
        run_until(event->stream, event->position);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = getenv("SHIM_NO_DEVICE") ? 0 : 1;
    return *count ? cudaSuccess : refuse(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int)
{
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "Substitute GPU");
    properties->major = 9;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    default:
        return "invalid argument";
    }
}
