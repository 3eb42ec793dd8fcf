/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute for CUDA's runtime, stricter than the real one where that lets an error pass.
 *
 * Queues. Nothing is done when it is asked for: it is done when the host waits, and then only as
 * far as the host waits for. So what the host reads or overwrites too early is wrong each time.
 * Another queue is worked on where this one waits for it, or now and then before that, at random: a
 * queue that should wait for another one and does not gives other results. A copy from pinned
 * memory reads it when it is done, one from other memory at once; the target of a copy to the host
 * is filled with 0xff until then.
 *
 * Memory. Each allocation ends at a page that cannot be touched, begins filled with 0xff, and can
 * be touched only while the queue is worked on: the host that reads or writes it dies.
 *
 * Capture. Allocating, giving back and waiting are refused while a step is captured and spoil it,
 * as CUDA has it.
 *
 * What was done. $SHIM_LAUNCHES names a file that gets, when the program ends, a line for each
 * kernel (products are "matmul", cudaMemsetAsync "memset"): name, how often. $SHIM_DRIVER=1: the
 * substitute driver of tests/targets is told of each, so that a recorder sees them.
 */
#include <cuda_runtime.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

extern "C" {
#include "tests/targets/fake_gpu.h"
}

typedef std::function<void()> work;

/* What was asked for, in that order: an operation, an event that is set (with `waits`: waited for).
 */
struct node {
    cudaStream_t stream;
    work what;
    cudaEvent_t event;
    bool waits;
};

struct shim_graph {
    std::vector<node> nodes;
};

struct shim_stream {
    std::deque<work> queue;
    uint64_t asked, done; /* operations */
    uint64_t ns;          /* its own clock: what operations say that they take */
    cudaStream_t origin;  /* the stream whose capture it is part of, itself or another one */
    bool spoilt, joined;  /* joined: the origin waits for all that was captured of this one */
    shim_graph captured;
};

struct shim_event {
    cudaStream_t stream;
    uint64_t position;
    uint64_t ns;
    bool captured; /* it was set last while a step was captured */
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
        if (stream->origin) {
            stream->origin->spoilt = true;
            return true;
        }
    return false;
}

static void protect(int rights)
{
    for (auto &entry : device_memory)
        mprotect(entry.second.mapped, entry.second.mapped_bytes, rights);
}

static int working; /* queues, one of which may wait for the next one */
static uint64_t draws = 88172645463325252u;

static bool one_in_eight(void)
{
    draws ^= draws << 13;
    draws ^= draws >> 7;
    draws ^= draws << 17;
    return (draws >> 33) % 8 == 0;
}

/* Works on the queue until `position` operations of it are done. */
static void run_until(cudaStream_t stream, uint64_t position)
{
    if (stream->done >= position)
        return;
    if (working++ == 0)
        protect(PROT_READ | PROT_WRITE);
    while (stream->done < position) {
        work next = std::move(stream->queue.front());
        stream->queue.pop_front();
        next();
        stream->done++;
        for (cudaStream_t other : streams)
            if (other != stream && working == 1 && other->done < other->asked && one_in_eight())
                run_until(other, other->done + 1);
    }
    if (--working == 0)
        protect(PROT_NONE);
}

/* ---- what was done ---- */

/* Never destroyed: it is written when the program ends. */
static auto &done = *new std::map<std::string, uint64_t>(),
            &noted = *new std::map<std::string, uint64_t>();

uint64_t shim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Its function for calls; nullptr: nobody is to be told. */
static void (*driver(void))(struct fake_call *)
{
    static void *cuda;
    static bool looked;
    if (!looked && getenv("SHIM_DRIVER")) {
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
        auto init = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : nullptr;
        if (!init || init(0))
            cuda = nullptr;
    }
    looked = true;
    return cuda ? (void (*)(struct fake_call *))dlsym(cuda, "fake_cuda_call") : nullptr;
}

/* "(adamw<N>)", as a launch has it, is adamw. */
void shim_done(const char *name, uint64_t begin)
{
    std::string plain(name + (name[0] == '('));
    plain = plain.substr(0, plain.find_first_of("<)"));
    done[plain]++;
    if (auto tell = driver()) {
        struct fake_call call = {};
        call.what = plain == "memset" ? FAKE_SET : FAKE_LAUNCH;
        call.stream = 7;
        call.kernel = done.find(plain)->first.c_str();
        call.start = begin;
        call.end = shim_now();
        tell(&call);
    }
}

uint64_t shim_times(const char *name)
{
    for (auto *list : {&done, &noted})
        if (list->count(name))
            return list->at(name);
    return 0;
}

void shim_note(const char *what)
{
    noted[what]++;
}

void shim_takes(cudaStream_t stream, uint64_t ns)
{
    stream->ns += ns;
}

__attribute__((destructor)) static void write_done(void)
{
    const char *path = getenv("SHIM_LAUNCHES");
    FILE *file = path ? fopen(path, "w") : nullptr;
    if (!file)
        return;
    for (const auto &entry : done)
        fprintf(file, "%s %llu\n", entry.first.c_str(), (unsigned long long)entry.second);
    fclose(file);
}

/* ---- the queue ---- */

void shim_enqueue(cudaStream_t stream, work next)
{
    if (stream->origin) {
        stream->joined = false;
        stream->origin->captured.nodes.push_back({stream, std::move(next), nullptr, false});
        return;
    }
    stream->queue.push_back(std::move(next));
    stream->asked++;
}

static std::map<const void *, size_t> most_shared; /* of kernels that asked for more than 48 KiB */

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value)
{
    if (value < 0 || value > 227 << 10) /* Hopper's most */
        return refuse(cudaErrorInvalidValue);
    most_shared[kernel] = (size_t)value;
    return cudaSuccess;
}

bool shim_launchable(const void *kernel, const char *name, dim3 grid, dim3 block, size_t shared)
{
    auto most = most_shared.find(kernel);
    size_t size = (size_t)block.x * block.y * block.z;
    if (size && size <= 1024 && grid.x && grid.y && grid.z && grid.x < 1u << 31 && grid.y < 65536 &&
        grid.z < 65536 && shared <= (most == most_shared.end() ? 48 << 10 : most->second))
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
    shim_enqueue(stream, [=] {
        uint64_t begin = shim_now();
        memset(to, value, bytes);
        shim_done("memset", begin);
    });
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
    if (stream->origin && (stream->origin->spoilt = true))
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
    stream->origin = stream;
    stream->spoilt = false;
    stream->captured.nodes.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    bool joined = true;
    for (cudaStream_t other : streams)
        if (other->origin == stream) {
            joined &= other == stream || other->joined;
            other->origin = nullptr;
        }
    if (stream->spoilt || !joined)
        return refuse(joined ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined);
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
    (void)stream;
    for (const node &next : graph->nodes)
        if (!next.event)
            shim_enqueue(next.stream, next.what);
        else if (next.waits)
            cudaStreamWaitEvent(next.stream, next.event, 0);
        else
            cudaEventRecord(next.event, next.stream);
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
    event->captured = stream->origin != nullptr;
    if (event->captured) {
        stream->origin->captured.nodes.push_back({stream, nullptr, event, false});
        return cudaSuccess;
    }
    shim_enqueue(stream, [=] { event->ns = stream->ns; });
    event->position = stream->asked;
    return cudaSuccess;
}

/* A stream that waits for what is captured becomes part of the capture. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    cudaStream_t other = event->stream;
    uint64_t position = event->position;
    if (!event->captured) {
        if (other)
            shim_enqueue(stream, [=] { run_until(other, position); });
        return cudaSuccess;
    }
    if (!other->origin || (stream->origin && stream->origin != other->origin))
        return refuse(cudaErrorStreamCaptureUnsupported);
    stream->origin = other->origin;
    stream->joined = false;
    if (stream == other->origin)
        other->joined = true;
    stream->origin->captured.nodes.push_back({stream, nullptr, event, true});
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

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    if (begin->stream->done < end->position)
        return refuse(cudaErrorInvalidValue); /* the real one: not ready */
    *ms = (float)((double)(end->ns - begin->ns) / 1e6);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

/* ---- the device ---- */

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : refuse(cudaErrorInvalidValue);
}

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
    case cudaErrorStreamCaptureUnjoined:
        return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    default:
        return "invalid argument";
    }
}
