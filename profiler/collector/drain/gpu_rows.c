/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of CUPTI to rows, as docs/schema.md says device work stands in a file. The program of the
 * names are Kineto's where CUPTI has none ("Memcpy HtoD", "Stream Wait Event"), so that rows of
 * both sources meet.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/decode.h"
#include "profiler/collector/drain/gpu.h"

/* name, text */
#define CATEGORY_MAP(X) \
    X(KERNEL, "kernel") \
    X(MEMCPY, "memcpy") \
    X(MEMSET, "memset") \
    X(GRAPH, "graph") \
    X(SYNC, "sync") X(RUNTIME, "runtime") X(DRIVER, "driver") X(OVERHEAD, "overhead")
enum category {
#define CATEGORY_ENUM(name, text) CATEGORY_##name,
    CATEGORY_MAP(CATEGORY_ENUM)
#undef CATEGORY_ENUM
        CATEGORIES
};
static const char *const category_text[] = {
#define CATEGORY_TEXT(name, text) text,
    CATEGORY_MAP(CATEGORY_TEXT)
#undef CATEGORY_TEXT
};

/* Indexed by CUPTI's numbers. */
static const char *const copy_text[] = {"unknown", "HtoD", "DtoH", "HtoD", "DtoH", "DtoD",
                                        "DtoD",    "DtoD", "DtoD", "HtoH", "PtoP"};
static const char *const memory_text[] = {"unknown", "pageable", "pinned", "device",
                                          "array",   "managed",  "device", "managed"};
static const char *const sync_text[] = {"Synchronization", "Event Sync", "Stream Wait Event",
                                        "Stream Sync", "Context Sync"};
enum { SYNC_EVENT = 1, SYNC_STREAM_WAIT = 2 };

#define TEXT_OF(table, i) ((i) < sizeof(table) / sizeof *(table) ? (table)[i] : (table)[0])

/* ---- growing lists ---- */

static void *one_more(void *list, uint32_t count, size_t size)
{
    if (count & (count - 1)) /* room for the next power of two is there */
        return list;
    return realloc(list, (size_t)(count ? count * 2 : 1) * size);
}
#define PUT(list, count, ...) \
    __extension__({ \
        void *more_ = one_more((list), (count), sizeof *(list)); \
        if (more_) \
            (list) = more_, (list)[(count)++] = __VA_ARGS__; \
        more_ ? 0 : TACHO_ENOMEM; \
    })

/* ---- names ---- */

static int64_t category(struct col_drain *drain, struct col_gpu *gpu, enum category c, int *rc)
{
    if (!gpu->category[c] && *rc == 0)
        *rc =
            store_string(drain->db, category_text[c], strlen(category_text[c]), &gpu->category[c]);
    return gpu->category[c];
}

static int64_t string(struct col_drain *drain, const char *text, int *rc)
{
    int64_t id = 0;
    if (*rc == 0)
        *rc = store_string(drain->db, text, strlen(text), &id);
    return id;
}

/* The arena id behind a name as the agent left it; of a buffer that it never saw, by the table of
 * pointers. */
static uint32_t arena_of(const struct col_gpu *gpu, uint64_t name)
{
    if ((name & ~(uint64_t)UINT32_MAX) == WIRE_GPU_NAME_TAG)
        return (uint32_t)name;
    uint32_t mask = gpu->name_cap - 1, i = (uint32_t)((name * 0x9e3779b97f4a7c15u) >> 40) & mask;
    for (uint32_t probes = 0; name && probes < 64; probes++, i = (i + 1) & mask)
        if (atomic_load_explicit(&gpu->names[i].pointer, memory_order_acquire) == name)
            return gpu->names[i].id;
    return 0;
}

static int64_t readable(struct col_drain *drain, struct col_pool *pool, uint32_t arena, int *rc)
{
    uint32_t bytes = 0;
    const char *text = arena ? col_map_text(&pool->map, arena, WIRE_TEXT_NAME, &bytes) : NULL;
    if (!text || !bytes)
        return string(drain, "(kernel of unknown name)", rc);
    char *mangled = strndup(text, bytes);
    if (!mangled) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    char *plain = col_demangle(mangled);
    int64_t id = string(drain, plain ? plain : mangled, rc);
    free(plain);
    free(mangled);
    return id;
}

static int64_t kernel_name(struct col_drain *drain, struct col_pool *pool, uint64_t name, int *rc)
{
    struct col_gpu *gpu = pool->gpu;
    uint32_t arena = arena_of(gpu, name);
    if (arena >= pool->map.arena_cap / 8)
        arena = 0;
    if (col_ids_room(&gpu->kernel, &gpu->kernel_cap, arena)) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    if (!gpu->kernel[arena])
        gpu->kernel[arena] = readable(drain, pool, arena, rc);
    return gpu->kernel[arena];
}

static int64_t api_name(struct col_drain *drain, struct col_pool *pool,
                        const struct col_cupti_record *record, int *rc)
{
    struct col_gpu *gpu = pool->gpu;
    unsigned domain = record->kind == COL_CUPTI_RUNTIME;
    char text[64];
    if (record->cbid >= 0 && record->cbid < (int64_t)WIRE_GPU_APIS) {
        if (gpu->api[domain][record->cbid])
            return gpu->api[domain][record->cbid];
        uint32_t arena =
            atomic_load_explicit(&gpu->head->api_name[domain][record->cbid], memory_order_acquire);
        if (arena)
            return gpu->api[domain][record->cbid] = col_pool_string(drain, pool, arena, rc);
    }
    snprintf(text, sizeof text, "%s call %" PRId64, domain ? "CUDA runtime" : "CUDA driver",
             record->cbid);
    return string(drain, text, rc);
}

/* ---- tracks ---- */

static int64_t stream_track(struct col_drain *drain, struct col_pool *pool, int64_t device,
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
    struct store_track track = {.process = pool->process->id,
                                .tid = stream,
                                .kind = "stream",
                                .name = name,
                                .device = where};
    *rc = store_track_add(drain->db, &track);
    if (*rc == 0)
        *rc =
            PUT(gpu->stream, gpu->stream_count, (struct col_gpu_stream){device, stream, track.id});
    gpu->dirty = true;
    return track.id;
}

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

/* The thread's own track, which NVTX may have made already. */
static int64_t thread_track(struct col_drain *drain, struct col_pool *pool, int64_t tid, int *rc)
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
        struct store_track t = {.process = pool->process->id,
                                .tid = tid,
                                .kind = "thread",
                                .name = tid == STORE_ABSENT                   ? "CUPTI"
                                        : tid == (int64_t)pool->map.head->pid ? "main"
                                                                              : NULL};
        *rc = store_track_add(drain->db, &t);
        track = t.id;
    }
    if (*rc == 0)
        *rc = PUT(gpu->thread, gpu->thread_count, (struct col_gpu_thread){tid, track});
    gpu->dirty = true;
    return track;
}

static int64_t device_of(const struct col_gpu *gpu, int64_t context)
{
    for (uint32_t i = gpu->context_count; i-- > 0;)
        if (gpu->context[i].context == context)
            return gpu->context[i].device;
    return gpu->context_count == 1 ? gpu->context[0].device : STORE_ABSENT;
}

static int note_context(struct col_gpu *gpu, int64_t context, int64_t device)
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

static int64_t priority_of(const struct col_gpu *gpu, int64_t context, int64_t stream)
{
    for (uint32_t i = 0; i < gpu->priority_count; i++)
        if (gpu->priority[i].context == context && gpu->priority[i].stream == stream)
            return gpu->priority[i].priority;
    return STORE_ABSENT;
}

/* ---- payloads: JSON of numbers and plain words ---- */

struct json {
    char text[512];
    size_t used;
};

static void json_key(struct json *j, const char *key)
{
    int n = snprintf(j->text + j->used, sizeof j->text - j->used, "%c\"%s\":", j->used ? ',' : '{',
                     key);
    j->used += n > 0 ? (size_t)n : 0;
}

static void json_int(struct json *j, const char *key, int64_t value)
{
    if (value == STORE_ABSENT || j->used > sizeof j->text - 64)
        return;
    json_key(j, key);
    int n = snprintf(j->text + j->used, sizeof j->text - j->used, "%" PRId64, value);
    j->used += n > 0 ? (size_t)n : 0;
}

static void json_text(struct json *j, const char *key, const char *value)
{
    if (j->used > sizeof j->text - 96)
        return;
    json_key(j, key);
    int n = snprintf(j->text + j->used, sizeof j->text - j->used, "\"%s\"", value);
    j->used += n > 0 ? (size_t)n : 0;
}

static const char *json_end(struct json *j)
{
    if (!j->used)
        return NULL;
    snprintf(j->text + j->used, sizeof j->text - j->used, "}");
    return j->text;
}

static int64_t intern(struct col_drain *drain, const struct store_detail *detail, int64_t time,
                      int *rc)
{
    int64_t id = STORE_ABSENT;
    if (drain->volume.no_detail)
        col_count_cut(drain, COL_CUT_DETAIL, time);
    else if (*rc == 0)
        *rc = store_detail_intern(drain->db, detail, &id);
    return id;
}

/* ---- rows ---- */

struct row {
    int64_t track, start, end, name, detail, correlation;
    enum category category;
};

static int put_row(struct col_drain *drain, struct col_pool *pool, const struct row *row)
{
    int rc = 0;
    struct col_range range = {.start = row->start,
                              .name = row->name,
                              .category = category(drain, pool->gpu, row->category, &rc),
                              .detail = row->detail,
                              .correlation = row->correlation};
    if (rc)
        return rc;
    if (row->end > pool->last_event)
        pool->last_event = row->end;
    return col_add_slice(drain, row->track, &range,
                         row->end > row->start ? row->end - row->start : 0, NULL);
}

/* Windows are the agent's business: what it recorded is wanted. Only room can be short. */
static bool room(struct col_drain *drain, int64_t time)
{
    enum col_cut why;
    if (col_decode_keeps(drain, STORE_ABSENT, &why))
        return true;
    col_count_cut(drain, why, time);
    return false;
}

static int lose(struct col_drain *drain, const char *reason, int64_t time)
{
    drain->stats.lost++;
    return col_drain_loss(drain, "cupti", reason, 1, time, time);
}

/* Times of the record on our clock; false: it has none, which is counted. */
static bool times(struct col_drain *drain, struct col_pool *pool,
                  const struct col_cupti_record *record, bool salvaged, struct row *row, int *rc)
{
    row->start = col_gpu_clock_ns(&pool->gpu->clock, record->start);
    row->end = col_gpu_clock_ns(&pool->gpu->clock, record->end);
    if (record->start && record->end && row->start != STORE_ABSENT)
        return true;
    int64_t when = record->start && row->start != STORE_ABSENT ? row->start : STORE_ABSENT;
    if (salvaged)
        *rc = lose(drain, "record without an end: the process ended before the device did", when);
    else
        *rc = lose(drain, "record without times: CUPTI ran out of its own device buffers", when);
    return false;
}

static int on_kernel(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record, struct row *row)
{
    struct col_gpu *gpu = pool->gpu;
    struct json j = {0};
    char grid[48], block[48];
    int rc = 0;
    snprintf(grid, sizeof grid, "%u,%u,%u", record->grid[0], record->grid[1], record->grid[2]);
    snprintf(block, sizeof block, "%u,%u,%u", record->block[0], record->block[1], record->block[2]);
    json_int(&j, "registers", record->registers);
    json_int(&j, "shared_memory", record->static_shared + record->dynamic_shared);
    json_int(&j, "priority", priority_of(gpu, record->context, record->stream));
    json_int(&j, "graph", record->graph);
    json_int(&j, "graph_node", record->graph_node);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.grid = grid;
    detail.block = block;
    detail.schema = "gpu.kernel";
    detail.payload = json_end(&j);
    row->track = stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = rc ? 0 : kernel_name(drain, pool, record->name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

static int on_copy(struct col_drain *drain, struct col_pool *pool,
                   const struct col_cupti_record *record, struct row *row)
{
    struct json j = {0};
    char name[64];
    int rc = 0;
    const char *from = TEXT_OF(memory_text, record->source_kind),
               *to = TEXT_OF(memory_text, record->target_kind);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.copy_kind =
        record->kind == COL_CUPTI_MEMCPY2 ? "PtoP" : TEXT_OF(copy_text, record->copy_kind);
    /* the host's side; of a copy on the device there is none */
    bool to_host = !strcmp(detail.copy_kind, "DtoH");
    const char *host = to_host ? to : from;
    if (!strcmp(host, "array"))
        host = "device";
    detail.kind = strcmp(host, "unknown") ? host : NULL;
    detail.bytes = record->size;
    json_text(&j, "src", from);
    json_text(&j, "dst", to);
    json_int(&j, "graph", record->graph);
    json_int(&j, "graph_node", record->graph_node);
    detail.schema = "gpu.memcpy";
    detail.payload = json_end(&j);
    snprintf(name, sizeof name, "Memcpy %s (%c%s -> %c%s)", detail.copy_kind, from[0] - 'a' + 'A',
             from + 1, to[0] - 'a' + 'A', to + 1);
    row->track = stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

static int on_set(struct col_drain *drain, struct col_pool *pool,
                  const struct col_cupti_record *record, struct row *row)
{
    struct json j = {0};
    char name[48];
    int rc = 0;
    const char *to = TEXT_OF(memory_text, record->target_kind);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.bytes = record->size;
    json_text(&j, "dst", to);
    json_int(&j, "graph", record->graph);
    json_int(&j, "graph_node", record->graph_node);
    detail.schema = "gpu.memset";
    detail.payload = json_end(&j);
    snprintf(name, sizeof name, "Memset (%c%s)", to[0] - 'a' + 'A', to + 1);
    row->track = stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

static int on_graph(struct col_drain *drain, struct col_pool *pool,
                    const struct col_cupti_record *record, struct row *row)
{
    char name[48];
    int rc = 0;
    snprintf(name, sizeof name, "CUDA graph %" PRId64, record->graph);
    row->track = stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = STORE_ABSENT;
    return rc ? rc : put_row(drain, pool, row);
}

static int on_api(struct col_drain *drain, struct col_pool *pool,
                  const struct col_cupti_record *record, struct row *row)
{
    int rc = 0;
    row->track = thread_track(drain, pool, record->thread, &rc);
    row->name = rc ? 0 : api_name(drain, pool, record, &rc);
    row->detail = STORE_ABSENT;
    return rc ? rc : put_row(drain, pool, row);
}

static int on_overhead(struct col_drain *drain, struct col_pool *pool,
                       const struct col_cupti_record *record, struct row *row)
{
    static const char *const text[] = {"",
                                       "Activity Buffer Flush",
                                       "Instrumentation",
                                       "Resource",
                                       "Runtime Triggered Module Loading",
                                       "Lazy Function Loading",
                                       "Command Buffer Full",
                                       "Activity Buffer Request",
                                       "UVM Activity Init"};
    char name[64];
    int rc = 0;
    uint32_t which = (uint32_t)(record->cbid >> 16);
    if (record->cbid == 1)
        snprintf(name, sizeof name, "Driver Compiler");
    else if (which > 0 && which < sizeof text / sizeof *text)
        snprintf(name, sizeof name, "%s", text[which]);
    else
        snprintf(name, sizeof name, "Overhead %" PRId64, record->cbid);
    const int64_t of_thread = 2;
    row->track = thread_track(
        drain, pool, record->object_kind == of_thread ? record->object_thread : STORE_ABSENT, &rc);
    row->name = string(drain, name, &rc);
    row->detail = STORE_ABSENT;
    return rc ? rc : put_row(drain, pool, row);
}

/* ---- events and waits ---- */

static struct col_gpu_event *event_slot(const struct col_gpu *gpu, int64_t context, int64_t event,
                                        int64_t key)
{
    uint64_t h =
        ((uint64_t)context << 32 ^ (uint64_t)event * 31 ^ (uint64_t)key) * 0x9e3779b97f4a7c15u;
    return &gpu->event[(h >> 40) % COL_GPU_EVENTS];
}

static int on_event(struct col_gpu *gpu, const struct col_cupti_record *record)
{
    if (!gpu->event && !(gpu->event = calloc(COL_GPU_EVENTS, sizeof *gpu->event)))
        return TACHO_ENOMEM;
    struct col_gpu_event gpu_event = {record->context, record->event, record->event_record,
                                      record->stream, record->correlation};
    if (record->event_record != STORE_ABSENT)
        *event_slot(gpu, record->context, -1, record->event_record) = gpu_event;
    /* the last record of the event: what a wait that names no record waits for */
    struct col_gpu_event *last = event_slot(gpu, record->context, record->event, 0);
    if (last->context != record->context || last->event != record->event ||
        last->correlation < record->correlation)
        *last = gpu_event;
    return 0;
}

static const struct col_gpu_event *event_of(const struct col_gpu *gpu,
                                            const struct col_cupti_record *record)
{
    const struct col_gpu_event *gpu_event;
    if (!gpu->event || record->event == STORE_ABSENT)
        return NULL;
    if (record->event_record != STORE_ABSENT) {
        gpu_event = event_slot(gpu, record->context, -1, record->event_record);
        if (gpu_event->record == record->event_record && gpu_event->event == record->event)
            return gpu_event;
    }
    gpu_event = event_slot(gpu, record->context, record->event, 0);
    return gpu_event->context == record->context && gpu_event->event == record->event &&
                   gpu_event->correlation && gpu_event->correlation < record->correlation
               ? gpu_event
               : NULL;
}

static int on_sync(struct col_drain *drain, struct col_pool *pool,
                   const struct col_cupti_record *record, struct row *row)
{
    struct col_gpu *gpu = pool->gpu;
    struct json j = {0};
    int rc = 0;
    const struct col_gpu_event *gpu_event = event_of(gpu, record);
    const char *name =
        record->sync_kind >= 0 ? TEXT_OF(sync_text, (uint64_t)record->sync_kind) : sync_text[0];
    struct store_detail detail = STORE_DETAIL_NONE;
    json_text(&j, "kind", name);
    json_int(&j, "stream",
             gpu_event                               ? gpu_event->stream
             : record->sync_kind == SYNC_STREAM_WAIT ? STORE_ABSENT
                                                     : record->stream);
    json_int(&j, "event",
             record->event &&
                     (record->sync_kind == SYNC_EVENT || record->sync_kind == SYNC_STREAM_WAIT)
                 ? record->event
                 : STORE_ABSENT);
    json_int(&j, "record_correlation", gpu_event ? gpu_event->correlation : STORE_ABSENT);
    detail.schema = "gpu.sync";
    detail.payload = json_end(&j);
    row->track = stream_track(drain, pool, device_of(gpu, record->context),
                              record->sync_kind == SYNC_EVENT ? STORE_ABSENT : record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

/* ---- what is noted once ---- */

static int set_device(struct col_drain *drain, struct col_pool *pool, int64_t device,
                      const char *key, const char *value)
{
    char name[96];
    snprintf(name, sizeof name, "device.%" PRId64 ".gpu:%" PRId64 ".%s", pool->process->id, device,
             key);
    return store_run_set(drain->db, name, value);
}

static int on_device(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record)
{
    char text[64], uuid[48] = "GPU-";
    uint32_t bytes = 0;
    const char *name =
        col_map_text(&pool->map, arena_of(pool->gpu, record->name), WIRE_TEXT_NAME, &bytes);
    int rc = 0;
    if (name && bytes) {
        char copy[256];
        snprintf(copy, sizeof copy, "%.*s", (int)bytes, name);
        rc = set_device(drain, pool, record->gpu.id, "name", copy);
    }
    const struct {
        const char *key;
        int64_t value;
    } number[] = {{"sms", record->gpu.sms},
                  {"memory_bytes", record->gpu.memory},
                  {"warp_size", record->gpu.warp},
                  {"max_threads_per_sm", record->gpu.warps_per_sm * record->gpu.warp}};
    for (size_t i = 0; i < sizeof number / sizeof *number && rc == 0; i++) {
        snprintf(text, sizeof text, "%" PRId64, number[i].value);
        rc = number[i].value > 0 ? set_device(drain, pool, record->gpu.id, number[i].key, text) : 0;
    }
    snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, record->gpu.major, record->gpu.minor);
    if (rc == 0)
        rc = set_device(drain, pool, record->gpu.id, "compute_capability", text);
    for (size_t i = 0, at = 4; i < sizeof record->gpu.uuid; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            uuid[at++] = '-';
        at += (size_t)snprintf(uuid + at, sizeof uuid - at, "%02x", record->gpu.uuid[i]);
    }
    return rc ? rc : set_device(drain, pool, record->gpu.id, "uuid", uuid);
}

static int on_memory(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record)
{
    struct col_gpu *gpu = pool->gpu;
    int64_t time = col_gpu_clock_ns(&gpu->clock, record->start);
    int rc = 0;
    if (record->operation != 1 && record->operation != 2)
        return 0;
    gpu->memory += record->operation == 1 ? record->size : -record->size;
    if (!gpu->memory_track) {
        struct store_track track = {.process = pool->process->id,
                                    .tid = STORE_ABSENT,
                                    .kind = "counter",
                                    .name = "gpu_memory_allocated",
                                    .unit = "bytes"};
        rc = store_track_add(drain->db, &track);
        gpu->memory_track = track.id;
        gpu->dirty = true;
    }
    if (rc || time == STORE_ABSENT || !room(drain, time))
        return rc;
    struct store_counter counter = {
        .track = gpu->memory_track, .time = time, .value = (double)gpu->memory};
    drain->stats.counters++;
    return store_counter_add(drain->db, &counter);
}

static int note_priority(struct col_gpu *gpu, const struct col_cupti_record *record)
{
    if (priority_of(gpu, record->context, record->stream) != STORE_ABSENT)
        return 0;
    return PUT(gpu->priority, gpu->priority_count,
               (struct col_gpu_priority){record->context, record->stream, record->priority});
}

int col_gpu_row(struct col_drain *drain, struct col_pool *pool,
                const struct col_cupti_record *record, bool salvaged)
{
    static const struct {
        int (*put)(struct col_drain *drain, struct col_pool *pool,
                   const struct col_cupti_record *record, struct row *row);
        enum category category;
    } timed[COL_CUPTI_KINDS] = {[COL_CUPTI_KERNEL] = {on_kernel, CATEGORY_KERNEL},
                                [COL_CUPTI_CONCURRENT_KERNEL] = {on_kernel, CATEGORY_KERNEL},
                                [COL_CUPTI_MEMCPY] = {on_copy, CATEGORY_MEMCPY},
                                [COL_CUPTI_MEMCPY2] = {on_copy, CATEGORY_MEMCPY},
                                [COL_CUPTI_MEMSET] = {on_set, CATEGORY_MEMSET},
                                [COL_CUPTI_GRAPH] = {on_graph, CATEGORY_GRAPH},
                                [COL_CUPTI_RUNTIME] = {on_api, CATEGORY_RUNTIME},
                                [COL_CUPTI_DRIVER] = {on_api, CATEGORY_DRIVER},
                                [COL_CUPTI_SYNC] = {on_sync, CATEGORY_SYNC},
                                [COL_CUPTI_OVERHEAD] = {on_overhead, CATEGORY_OVERHEAD}};
    int rc = 0;
    drain->stats.records++;
    if (timed[record->kind].put) {
        struct row row = {.category = timed[record->kind].category,
                          .correlation = record->correlation};
        if (record->device != STORE_ABSENT && record->context != STORE_ABSENT)
            rc = note_context(pool->gpu, record->context, record->device);
        if (rc || !times(drain, pool, record, salvaged, &row, &rc) || !room(drain, row.start))
            return rc;
        return timed[record->kind].put(drain, pool, record, &row);
    }
    switch (record->kind) {
    case COL_CUPTI_EVENT:
        return on_event(pool->gpu, record);
    case COL_CUPTI_CONTEXT:
        return note_context(pool->gpu, record->context, record->device);
    case COL_CUPTI_STREAM:
        return note_priority(pool->gpu, record);
    case COL_CUPTI_DEVICE:
        return on_device(drain, pool, record);
    case COL_CUPTI_MEMORY2:
        return on_memory(drain, pool, record);
    default:
        return 0; /* a kind nobody asked for: enabled by another tool of the process */
    }
}
