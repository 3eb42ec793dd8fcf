/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken from CUPTI's records in the process that they are of: names, which are pointers,
 * sizes, and how many streams are in use. Called with the lock of walks, inside of CUPTI's
 * callbacks: nothing of CUPTI is called here but the lookup of a name.
 */
#include <stdlib.h>
#include <string.h>

#include "profiler/agent/gpu/cuda.h"

/* So many kernels, copies and memsets after one another on one stream show a process that uses no
 * other. A program that launches fast makes them within milliseconds; where it launches so slowly
 * that a buffer takes long to come back, what is recorded until then costs it nothing that is
 * seen. */
#define ONE_STREAM_OPS 64u

struct agent_cuda agent_cuda;

static uint64_t read64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static uint32_t read32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static uint32_t name_intern(const char *text)
{
    return agent_name_intern(WIRE_TEXT_NAME, text, strnlen(text, WIRE_GPU_NAME_MAX), true);
}

/* The arena id of a name, by its address. The text at an address changes only where a module was
 * unloaded and another one loaded, so each buffer looks at it once. */
static uint32_t name_of(uint64_t pointer)
{
    uint32_t epoch = agent_cuda.epoch, mask = WIRE_GPU_NAMES - 1;
    uint32_t i = (uint32_t)((pointer * 0x9e3779b97f4a7c15u) >> 40) & mask;
    if (!pointer)
        return 0;
    for (uint32_t probes = 0; probes < 64; probes++, i = (i + 1) & mask) {
        struct wire_gpu_name *known = &agent_cuda.names[i];
        /* pairs with the release below: whoever sees the pointer sees id and epoch */
        uint64_t have = atomic_load_explicit(&known->pointer, memory_order_acquire);
        if (have == pointer && known->epoch == epoch)
            return known->id;
        if (have && have != pointer)
            continue;
        uint32_t id = name_intern((const char *)(uintptr_t)pointer);
        known->id = id;
        known->epoch = epoch;
        atomic_store_explicit(&known->pointer, pointer, memory_order_release);
        return id;
    }
    return name_intern((const char *)(uintptr_t)pointer);
}

static void replace_name(uint8_t *record, size_t bytes, size_t offset)
{
    if (bytes < offset + 8)
        return;
    uint64_t tagged = WIRE_GPU_NAME_TAG | name_of(read64(record + offset));
    memcpy(record + offset, &tagged, sizeof tagged);
}

/* "cudaLaunchKernel_v7000" is cudaLaunchKernel. */
static void note_api(unsigned domain, uint32_t cbid)
{
    const char *name = NULL;
    if (cbid >= WIRE_GPU_APIS || relaxed_load(&agent_cuda.gpu->api_name[domain][cbid]) ||
        !agent_cuda.cupti.GetCallbackName ||
        agent_cuda.cupti.GetCallbackName(domain ? CUPTI_DOMAIN_RUNTIME : CUPTI_DOMAIN_DRIVER, cbid,
                                         &name) ||
        !name)
        return;
    size_t length = strnlen(name, 256), digits = length;
    while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (domain && digits < length && digits > 2 && name[digits - 1] == 'v' &&
        name[digits - 2] == '_')
        length = digits - 2;
    atomic_store_explicit(&agent_cuda.gpu->api_name[domain][cbid],
                          agent_name_intern(WIRE_TEXT_NAME, name, length, true),
                          memory_order_release);
}

void agent_record_size(const uint8_t *record, size_t bytes)
{
    uint32_t kind = read32(record);
    if (kind < WIRE_GPU_KINDS && bytes && !relaxed_load(&agent_cuda.gpu->record_bytes[kind]))
        atomic_store_explicit(&agent_cuda.gpu->record_bytes[kind], (uint32_t)bytes,
                              memory_order_release);
}

/* Another stream was used at a time of CUPTI's, which is 0 where the record has none. From the last
 * one that a library's start may have on, more than one stream is in use, and the flush thread
 * begins to record what streams wait for (agent_capture_waits): that cannot be done here, inside of
 * CUPTI's callback. It sets both counts back at any time; then one use more or less is counted. */
static void note_stray(uint64_t time)
{
    if (relaxed_load(&agent_cuda.streams) > 1)
        return;
    uint32_t strays = relaxed_add(&agent_cuda.strays, 1) + 1;
    if (!relaxed_load(&agent_cuda.strays_from))
        relaxed_store(&agent_cuda.strays_from, time);
    if (strays < WIRE_GPU_SECOND_STREAM)
        return;
    relaxed_store(&agent_cuda.gpu->streams_from, relaxed_load(&agent_cuda.strays_from));
    relaxed_store(&agent_cuda.streams, 2);
}

/* One stream has all of the work, and no other one is known to be in use. */
static void note_one_stream(void)
{
    uint32_t unknown = 0;
    if (relaxed_load(&agent_cuda.strays) < WIRE_GPU_SECOND_STREAM)
        atomic_compare_exchange_strong_explicit(&agent_cuda.streams, &unknown, 1,
                                                memory_order_relaxed, memory_order_relaxed);
}

/* Work of the device: is it on another stream than the work before it? Streams of different
 * contexts are different ones. So are those on which CUPTI shows the branches of a CUDA graph:
 * an analysis sees these streams as well, and a call that waits may mean any of them. A stream that
 * has had no more work than a library's start gives way to the next one: that start may come
 * first. */
static void note_work(const uint8_t *record, size_t bytes, size_t place_at, size_t start_at)
{
    static uint64_t own;       /* context and stream that has the work; with the lock of walks */
    static uint32_t ops, line; /* on it, and those since the last one elsewhere */
    if (bytes < place_at + sizeof own || relaxed_load(&agent_cuda.streams) > 1)
        return;
    uint64_t place = read64(record + place_at);
    if (ops && place != own) {
        line = 0;
        note_stray(read64(record + start_at));
        if (ops >= WIRE_GPU_SECOND_STREAM)
            return;
        ops = 0;
    }
    own = place;
    ops += ops < WIRE_GPU_SECOND_STREAM;
    line += line < ONE_STREAM_OPS;
    if (line == ONE_STREAM_OPS)
        note_one_stream();
}

/* A call of the driver or the runtime. */
static void note_call(const uint8_t *record, size_t bytes)
{
    static const uint32_t wait[][2] = {
#define CBID(name, id) id,
        {CUPTI_DRIVER_WAIT_MAP(CBID)}, {CUPTI_RUNTIME_WAIT_MAP(CBID)}
#undef CBID
    };
    unsigned domain = read32(record) == CUPTI_KIND_RUNTIME;
    uint32_t cbid = read32(record + CUPTI_API_CBID_AT);
    note_api(domain, cbid);
    if ((cbid == wait[domain][0] || cbid == wait[domain][1]) && bytes >= CUPTI_API_START_AT + 8)
        note_stray(read64(record + CUPTI_API_START_AT));
}

void agent_record_note(uint8_t *record, size_t bytes)
{
    uint32_t kind = read32(record);
    agent_record_size(record, bytes);
    switch (kind) {
    case CUPTI_KIND_KERNEL:
    case CUPTI_KIND_CONCURRENT_KERNEL:
        note_work(record, bytes, CUPTI_KERNEL_PLACE_AT, CUPTI_OP_START_AT);
        if (bytes >= CUPTI_KERNEL_GRAPH_BYTES && read32(record + CUPTI_KERNEL_GRAPH_AT))
            relaxed_store(&agent_cuda.graphs, 1);
        replace_name(record, bytes, CUPTI_KERNEL_NAME_AT);
        break;
    case CUPTI_KIND_DEVICE:
        replace_name(record, bytes, CUPTI_DEVICE_NAME_AT);
        break;
    case CUPTI_KIND_MEMCPY:
    case CUPTI_KIND_MEMCPY2:
    case CUPTI_KIND_MEMSET:
        note_work(record, bytes, CUPTI_COPY_PLACE_AT, CUPTI_OP_START_AT);
        break;
    case CUPTI_KIND_GRAPH_TRACE:
        note_work(record, bytes, CUPTI_GRAPH_PLACE_AT, CUPTI_GRAPH_START_AT);
        relaxed_store(&agent_cuda.graphs, 1);
        break;
    case CUPTI_KIND_DRIVER:
    case CUPTI_KIND_RUNTIME:
        note_call(record, bytes);
        break;
    case CUPTI_KIND_OVERHEAD:
        if (bytes >= CUPTI_OVERHEAD_LONG_SIZE) {
            void *data = (void *)(uintptr_t)read64(record + CUPTI_OVERHEAD_DATA_AT);
            memset(record + CUPTI_OVERHEAD_DATA_AT, 0, 8);
            free(data); /* CUPTI's documentation makes it the client's */
        }
        break;
    default:
        break;
    }
}
