/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows of device work refer to, each added once and remembered: names of kernels and API
 * calls, tracks of streams and threads, the device of a context, the priority of a stream. The
 * lists are short (a process has some ten streams), so they are searched from one end to the other;
 * the newest entries are tried first where an id may have been reused.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/decode_private.h"
#include "profiler/collector/drain/gpu_private.h"
#include "profiler/collector/os/demangle.h"

/* Room for one more in a list whose size is a power of two. */
static void *grow(void *list, uint32_t count, size_t size)
{
    if (count & (count - 1)) /* room for the next power of two is there */
        return list;
    return realloc(list, (size_t)(count ? count * 2 : 1) * size);
}
/* Appends to a list; 0 or TACHO_ENOMEM. */
#define PUT(list, count, ...) \
    __extension__({ \
        void *more_ = grow((list), (count), sizeof *(list)); \
        if (more_) { \
            (list) = more_; \
            (list)[(count)++] = __VA_ARGS__; \
        } \
        more_ ? 0 : TACHO_ENOMEM; \
    })

/* Copies the table of pointers; false where that fails. */
static bool read_names(struct col_gpu *gpu)
{
    if (!gpu->names && !(gpu->names = calloc(gpu->name_cap, sizeof *gpu->names)))
        return false;
    return col_shared_read(&gpu->file, gpu->names_offset, gpu->names,
                           gpu->name_cap * sizeof *gpu->names);
}

uint32_t col_gpu_arena_id(struct col_gpu *gpu, uint64_t name)
{
    if ((name & ~(uint64_t)UINT32_MAX) == WIRE_GPU_NAME_TAG)
        return (uint32_t)name;
    if (!name || (!gpu->names && !read_names(gpu)))
        return 0;
    uint32_t mask = gpu->name_cap - 1, i = (uint32_t)((name * 0x9e3779b97f4a7c15u) >> 40) & mask;
    for (uint32_t probes = 0; probes < 64; probes++, i = (i + 1) & mask)
        if (gpu->names[i].pointer == name)
            return gpu->names[i].id;
    return 0;
}

/* Stores the demangled name of the kernel at `arena` of the pool (0: unknown), and returns its id.
 */
static int64_t store_kernel_name(struct col_drain *drain, struct col_pool *pool, uint32_t arena,
                                 int *rc)
{
    uint32_t bytes = 0;
    const char *text = arena ? col_map_text(&pool->map, arena, WIRE_TEXT_NAME, &bytes) : NULL;
    static const char unknown[] = "(kernel of unknown name)";
    if (!text || !bytes)
        return col_string(drain, unknown, sizeof unknown - 1, rc);
    char *mangled = strndup(text, bytes);
    if (!mangled) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    char *plain = col_demangle(mangled);
    const char *name = plain ? plain : mangled;
    int64_t id = col_string(drain, name, strlen(name), rc);
    free(plain);
    free(mangled);
    return id;
}

int64_t col_gpu_kernel_name(struct col_drain *drain, struct col_pool *pool, uint64_t name, int *rc)
{
    struct col_gpu *gpu = pool->gpu;
    uint32_t arena = col_gpu_arena_id(gpu, name);
    if (arena >= pool->map.arena_used / 8)
        arena = 0;
    if (col_ids_room(&gpu->kernel, &gpu->kernel_cap, arena)) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    if (!gpu->kernel[arena])
        gpu->kernel[arena] = store_kernel_name(drain, pool, arena, rc);
    return gpu->kernel[arena];
}

int64_t col_gpu_api_name(struct col_drain *drain, struct col_pool *pool,
                         const struct col_cupti_record *record, int *rc)
{
    struct col_gpu *gpu = pool->gpu;
    unsigned domain = record->kind == COL_CUPTI_RUNTIME;
    char text[64];
    if (record->cbid >= 0 && record->cbid < (int64_t)WIRE_GPU_APIS) {
        if (gpu->api[domain][record->cbid])
            return gpu->api[domain][record->cbid];
        uint32_t arena = gpu->head.api_name[domain][record->cbid];
        if (arena)
            return gpu->api[domain][record->cbid] = col_pool_string(drain, pool, arena, rc);
    }
    snprintf(text, sizeof text, "%s call %" PRId64, domain ? "CUDA runtime" : "CUDA driver",
             record->cbid);
    return col_string(drain, text, strlen(text), rc);
}

/* Streams are few, so they are searched one by one. */
int64_t col_gpu_stream_track(struct col_drain *drain, struct col_pool *pool, int64_t device,
                             int64_t stream, int *rc)
{
    struct col_gpu *gpu = pool->gpu;
    if (device == STORE_ABSENT)
        device = 0;
    for (uint32_t i = 0; i < gpu->stream_count; i++)
        if (gpu->stream[i].device == device && gpu->stream[i].stream == stream)
            return gpu->stream[i].track;
    char name[48], where[32];
    snprintf(where, sizeof where, "gpu:%" PRId64, device);
    if (stream == STORE_ABSENT)
        snprintf(name, sizeof name, "device");
    else
        snprintf(name, sizeof name, "stream %" PRId64, stream);
    struct store_track added = {.process = pool->process->id,
                                .tid = stream,
                                .kind = "stream",
                                .name = name,
                                .device = where};
    *rc = store_track_add(drain->db, &added);
    if (*rc == 0)
        *rc = PUT(gpu->stream, gpu->stream_count,
                  (struct col_gpu_stream){.device = device, .stream = stream, .track = added.id});
    gpu->dirty = true;
    return added.id;
}

void col_gpu_count_op(struct col_gpu *gpu, int64_t track, int64_t start)
{
    int64_t until = atomic_load_explicit(&gpu->head.waits_until, memory_order_relaxed),
            from = atomic_load_explicit(&gpu->head.waits_from, memory_order_relaxed);
    if (!until || start < until || (from && start >= from))
        return;
    for (uint32_t i = 0; i < gpu->stream_count; i++) {
        struct col_gpu_stream *stream = &gpu->stream[i];
        if (stream->track != track)
            continue;
        if (!stream->ops++ || start < stream->first)
            stream->first = start;
        return;
    }
}

/* A thread that recorded ranges has the track that these are on. */
int64_t col_gpu_thread_track(const struct col_pool *pool, uint32_t tid)
{
    for (uint32_t i = pool->gpu ? pool->gpu->thread_count : 0; i-- > 0;)
        if (pool->gpu->thread[i].tid == (int64_t)tid)
            return pool->gpu->thread[i].track;
    return 0;
}

int col_gpu_thread_ended(struct col_pool *pool, int64_t tid, int64_t track)
{
    int rc = 0;
    if (pool->gpu && track && col_gpu_thread_track(pool, (uint32_t)tid) != track) {
        rc = PUT(pool->gpu->thread, pool->gpu->thread_count, (struct col_gpu_thread){tid, track});
        pool->gpu->dirty = true;
    }
    return rc;
}

int64_t col_gpu_call_track(struct col_drain *drain, struct col_pool *pool, int64_t tid, int *rc)
{
    struct col_gpu *gpu = pool->gpu;
    int64_t track = 0;
    for (uint32_t i = gpu->thread_count; i-- > 0;)
        if (gpu->thread[i].tid == tid)
            return gpu->thread[i].track;
    for (uint32_t i = pool->thread_cap; tid != STORE_ABSENT && i-- > 0 && !track;)
        if (pool->thread[i] && pool->thread[i]->tid == tid)
            track = pool->thread[i]->track;
    if (!track) {
        struct store_track added = {.process = pool->process->id, .tid = tid, .kind = "thread"};
        if (tid == STORE_ABSENT)
            added.name = "CUPTI";
        else if (tid == (int64_t)pool->map.layout.pid)
            added.name = "main";
        *rc = store_track_add(drain->db, &added);
        track = added.id;
    }
    if (*rc == 0)
        *rc = PUT(gpu->thread, gpu->thread_count, (struct col_gpu_thread){tid, track});
    gpu->dirty = true;
    return track;
}

int64_t col_gpu_device_of(const struct col_gpu *gpu, int64_t context)
{
    for (uint32_t i = gpu->context_count; i-- > 0;)
        if (gpu->context[i].context == context)
            return gpu->context[i].device;
    return gpu->context_count == 1 ? gpu->context[0].device : STORE_ABSENT;
}

int col_gpu_note_context(struct col_gpu *gpu, int64_t context, int64_t device)
{
    for (uint32_t i = 0; i < gpu->context_count; i++)
        if (gpu->context[i].context == context) {
            gpu->dirty |= gpu->context[i].device != device;
            gpu->context[i].device = device;
            return 0;
        }
    gpu->dirty = true;
    return PUT(gpu->context, gpu->context_count, (struct col_gpu_context){context, device});
}

/* Absent for a stream that was made before recording began. */
int64_t col_gpu_priority_of(const struct col_gpu *gpu, int64_t context, int64_t stream)
{
    for (uint32_t i = 0; i < gpu->priority_count; i++)
        if (gpu->priority[i].context == context && gpu->priority[i].stream == stream)
            return gpu->priority[i].priority;
    return STORE_ABSENT;
}

int col_gpu_note_priority(struct col_gpu *gpu, const struct col_cupti_record *record)
{
    if (col_gpu_priority_of(gpu, record->context, record->stream) != STORE_ABSENT)
        return 0;
    return PUT(gpu->priority, gpu->priority_count,
               (struct col_gpu_priority){record->context, record->stream, record->priority});
}
