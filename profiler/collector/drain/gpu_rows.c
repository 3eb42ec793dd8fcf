/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns records of CUPTI into rows, in the form that docs/schema.md gives device work. Names are
 * Kineto's where CUPTI has none ("Memcpy HtoD", "Stream Wait Event"), so that rows of both sources
 * match.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/decode_private.h"
#include "profiler/collector/drain/gpu_private.h"

/* name, text */
#define CATEGORY_MAP(X) \
    X(KERNEL, "kernel") \
    X(MEMCPY, "memcpy") \
    X(MEMSET, "memset") \
    X(GRAPH, "graph") \
    X(HOST, "host") \
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

/* ---- names ---- */

static int64_t string(struct col_drain *drain, const char *text, int *rc)
{
    return col_string(drain, text, strlen(text), rc);
}

static int64_t category(struct col_drain *drain, struct col_gpu *gpu, enum category which, int *rc)
{
    if (!gpu->category[which])
        gpu->category[which] = string(drain, category_text[which], rc);
    return gpu->category[which];
}

/* ---- tracks ---- */

/* ---- payloads: JSON of numbers and plain words ---- */

struct json {
    char text[512];
    size_t used;
};

/* Adds a member, if there is room for the longest one. The key is a few letters. */
__attribute__((format(printf, 3, 4))) static void json_put(struct json *json, const char *key,
                                                           const char *format, ...)
{
    char value[64];
    va_list arguments;
    if (json->used > sizeof json->text - 2 * sizeof value)
        return;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    json->used += (size_t)snprintf(json->text + json->used, sizeof json->text - json->used,
                                   "%c\"%.40s\":%s", json->used ? ',' : '{', key, value);
}

static void json_int(struct json *json, const char *key, int64_t value)
{
    if (value != STORE_ABSENT)
        json_put(json, key, "%" PRId64, value);
}

static void json_text(struct json *json, const char *key, const char *value)
{
    json_put(json, key, "\"%s\"", value);
}

static const char *json_end(struct json *json)
{
    if (!json->used)
        return NULL;
    snprintf(json->text + json->used, sizeof json->text - json->used, "}");
    return json->text;
}

/* Stores a detail, or counts it as cut where new ones are no longer kept. */
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

/* Adds the slice of a row. */
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

/* Counts a record that cannot become a row. */
static int lose(struct col_drain *drain, const char *reason, int64_t time)
{
    drain->stats.lost++;
    return col_drain_loss(drain, "cupti", reason, 1, time, time);
}

/* Converts the times of a record to CLOCK_MONOTONIC; false: it has none, which is counted as a
 * loss.
 */
static bool times(struct col_drain *drain, struct col_pool *pool,
                  const struct col_cupti_record *record, enum col_gpu_origin origin,
                  struct row *row, int *rc)
{
    static const char *const reason[] = {
        [COL_GPU_COMPLETE] = "record without times: CUPTI ran out of its own device buffers (raise "
                             "TACHO_GPU_DEVICE_MIB)",
        [COL_GPU_FORCED] = "record without an end: still running when recording ended, or when "
                           "another profiler began",
        [COL_GPU_SALVAGED] = "record without an end: the process ended before the device did"};
    row->start = col_gpu_clock_ns(&pool->gpu->clock, record->start);
    row->end = col_gpu_clock_ns(&pool->gpu->clock, record->end);
    if (record->start && record->end && row->start != STORE_ABSENT)
        return true;
    bool other = record->start && row->start == STORE_ABSENT;
    int64_t when = record->start ? row->start : STORE_ABSENT;
    *rc = lose(
        drain,
        other ? "record with an unknown clock: another profiler changed CUPTI's, and the process "
                "ended before the new one was read twice"
              : reason[origin],
        when);
    return false;
}

/* A kernel, on its stream. Its grid and block are columns; registers, shared memory, priority and
 * graph are in the payload. */
static int on_kernel(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record, struct row *row)
{
    struct col_gpu *gpu = pool->gpu;
    struct json json = {0};
    char grid[48], block[48];
    int rc = 0;
    snprintf(grid, sizeof grid, "%u,%u,%u", record->grid[0], record->grid[1], record->grid[2]);
    snprintf(block, sizeof block, "%u,%u,%u", record->block[0], record->block[1], record->block[2]);
    json_int(&json, "registers", record->registers);
    json_int(&json, "shared_memory", record->static_shared + record->dynamic_shared);
    json_int(&json, "priority", col_gpu_priority_of(gpu, record->context, record->stream));
    json_int(&json, "graph", record->graph);
    json_int(&json, "graph_node", record->graph_node);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.grid = grid;
    detail.block = block;
    detail.schema = "gpu.kernel";
    detail.payload = json_end(&json);
    row->track = col_gpu_stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = rc ? 0 : col_gpu_kernel_name(drain, pool, record->name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

/* A copy, with the kinds of memory on both sides. The column `kind` has the host's side. */
static int on_copy(struct col_drain *drain, struct col_pool *pool,
                   const struct col_cupti_record *record, struct row *row)
{
    struct json json = {0};
    char name[64];
    int rc = 0;
    const char *source = TEXT_OF(memory_text, record->source_kind),
               *target = TEXT_OF(memory_text, record->target_kind);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.copy_kind =
        record->kind == COL_CUPTI_MEMCPY2 ? "PtoP" : TEXT_OF(copy_text, record->copy_kind);
    bool to_host = !strcmp(detail.copy_kind, "DtoH");
    const char *host = to_host ? target : source;
    if (!strcmp(host, "array"))
        host = "device";
    detail.kind = strcmp(host, "unknown") ? host : NULL;
    detail.bytes = record->size;
    json_text(&json, "src", source);
    json_text(&json, "dst", target);
    json_int(&json, "graph", record->graph);
    json_int(&json, "graph_node", record->graph_node);
    detail.schema = "gpu.memcpy";
    detail.payload = json_end(&json);
    snprintf(name, sizeof name, "Memcpy %s (%c%s -> %c%s)", detail.copy_kind, source[0] - 'a' + 'A',
             source + 1, target[0] - 'a' + 'A', target + 1);
    row->track = col_gpu_stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

/* Memory set to a value on the device. */
static int on_set(struct col_drain *drain, struct col_pool *pool,
                  const struct col_cupti_record *record, struct row *row)
{
    struct json json = {0};
    char name[48];
    int rc = 0;
    const char *target = TEXT_OF(memory_text, record->target_kind);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.bytes = record->size;
    json_text(&json, "dst", target);
    json_int(&json, "graph", record->graph);
    json_int(&json, "graph_node", record->graph_node);
    detail.schema = "gpu.memset";
    detail.payload = json_end(&json);
    snprintf(name, sizeof name, "Memset (%c%s)", target[0] - 'a' + 'A', target + 1);
    row->track = col_gpu_stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

/* A CUDA graph as a whole, where its nodes are not recorded. */
static int on_graph(struct col_drain *drain, struct col_pool *pool,
                    const struct col_cupti_record *record, struct row *row)
{
    char name[48];
    int rc = 0;
    snprintf(name, sizeof name, "CUDA graph %" PRId64, record->graph);
    row->track = col_gpu_stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = STORE_ABSENT;
    return rc ? rc : put_row(drain, pool, row);
}

/* A function of the host, on the stream that waits for it. */
static int on_host(struct col_drain *drain, struct col_pool *pool,
                   const struct col_cupti_record *record, struct row *row)
{
    struct json json = {0};
    int rc = 0;
    struct store_detail detail = STORE_DETAIL_NONE;
    json_int(&json, "thread", record->thread);
    json_int(&json, "graph", record->graph);
    json_int(&json, "graph_node", record->graph_node);
    detail.schema = "gpu.host";
    detail.payload = json_end(&json);
    row->track = col_gpu_stream_track(drain, pool, record->device, record->stream, &rc);
    row->name = string(drain, "Host Function", &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

/* A call of the CUDA runtime or driver, on the thread that made it. */
static int on_api(struct col_drain *drain, struct col_pool *pool,
                  const struct col_cupti_record *record, struct row *row)
{
    int rc = 0;
    row->track = col_gpu_call_track(drain, pool, record->thread, &rc);
    row->name = rc ? 0 : col_gpu_api_name(drain, pool, record, &rc);
    row->detail = STORE_ABSENT;
    return rc ? rc : put_row(drain, pool, row);
}

/* Time that CUPTI or the driver spent on profiling and compiling, on the thread it held up. */
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
    row->track = col_gpu_call_track(
        drain, pool, record->object_kind == of_thread ? record->object_thread : STORE_ABSENT, &rc);
    row->name = string(drain, name, &rc);
    row->detail = STORE_ABSENT;
    return rc ? rc : put_row(drain, pool, row);
}

/* ---- events and waits ---- */

/* The slot of an event; a newer event with the same hash replaces an older one. */
static struct col_gpu_event *event_slot(const struct col_gpu *gpu, int64_t context, int64_t event,
                                        int64_t key)
{
    uint64_t hash =
        ((uint64_t)context << 32 ^ (uint64_t)event * 31 ^ (uint64_t)key) * 0x9e3779b97f4a7c15u;
    return &gpu->event[(hash >> 40) % COL_GPU_EVENTS];
}

/* Remembers where an event was recorded, for the waits that follow. */
static int on_event(struct col_gpu *gpu, const struct col_cupti_record *record)
{
    if (!gpu->event && !(gpu->event = calloc(COL_GPU_EVENTS, sizeof *gpu->event)))
        return TACHO_ENOMEM;
    struct col_gpu_event now = {record->context, record->event, record->event_record,
                                record->stream, record->correlation};
    if (record->event_record != STORE_ABSENT)
        *event_slot(gpu, record->context, -1, record->event_record) = now;
    /* The last record of an event is what a wait waits for that names no record. */
    struct col_gpu_event *last = event_slot(gpu, record->context, record->event, 0);
    if (last->context != record->context || last->event != record->event ||
        last->correlation < record->correlation)
        *last = now;
    return 0;
}

/* Finds the record of an event that a wait waits for: the one it names, else the last one before
 * it. NULL: not known. */
static const struct col_gpu_event *event_of(const struct col_gpu *gpu,
                                            const struct col_cupti_record *record)
{
    const struct col_gpu_event *found;
    if (!gpu->event || record->event == STORE_ABSENT)
        return NULL;
    if (record->event_record != STORE_ABSENT) {
        found = event_slot(gpu, record->context, -1, record->event_record);
        if (found->record == record->event_record && found->event == record->event)
            return found;
    }
    found = event_slot(gpu, record->context, record->event, 0);
    return found->context == record->context && found->event == record->event &&
                   found->correlation && found->correlation < record->correlation
               ? found
               : NULL;
}

/* A synchronisation, on the stream that waits. Of a wait for an event the payload names the stream
 * and the call that recorded the event, so that an analysis can draw the dependency. */
static int on_sync(struct col_drain *drain, struct col_pool *pool,
                   const struct col_cupti_record *record, struct row *row)
{
    struct col_gpu *gpu = pool->gpu;
    struct json json = {0};
    int rc = 0;
    const struct col_gpu_event *waited = event_of(gpu, record);
    const char *name =
        record->sync_kind >= 0 ? TEXT_OF(sync_text, (uint64_t)record->sync_kind) : sync_text[0];
    struct store_detail detail = STORE_DETAIL_NONE;
    json_text(&json, "kind", name);
    bool stream_waits = record->sync_kind == SYNC_STREAM_WAIT;
    if (waited)
        json_int(&json, "stream", waited->stream);
    else if (!stream_waits)
        json_int(&json, "stream", record->stream);
    if (record->event && (record->sync_kind == SYNC_EVENT || stream_waits))
        json_int(&json, "event", record->event);
    if (waited)
        json_int(&json, "record_correlation", waited->correlation);
    detail.schema = "gpu.sync";
    detail.payload = json_end(&json);
    row->track =
        col_gpu_stream_track(drain, pool, col_gpu_device_of(gpu, record->context),
                             record->sync_kind == SYNC_EVENT ? STORE_ABSENT : record->stream, &rc);
    row->name = string(drain, name, &rc);
    row->detail = intern(drain, &detail, row->start, &rc);
    return rc ? rc : put_row(drain, pool, row);
}

/* ---- what is noted once ---- */

/* Writes one property of a device: device.PROCESS.gpu:N.KEY. */
static int set_device(struct col_drain *drain, struct col_pool *pool, int64_t device,
                      const char *key, const char *value)
{
    char name[96];
    snprintf(name, sizeof name, "device.%" PRId64 ".gpu:%" PRId64 ".%s", pool->process->id, device,
             key);
    return store_run_set(drain->db, name, value);
}

static void write_uuid(const uint8_t bytes[16], const char *prefix, char text[48])
{
    size_t length = (size_t)snprintf(text, 48, "%s", prefix);
    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[length++] = '-';
        length += (size_t)snprintf(text + length, 48 - length, "%02x", bytes[i]);
    }
}

/* Which slice of a device the process has (MIG). */
static int set_slice(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record)
{
    char text[64];
    write_uuid(record->gpu.mig_uuid, "MIG-", text);
    int rc = set_device(drain, pool, record->gpu.id, "mig_uuid", text);
    snprintf(text, sizeof text, "instance %" PRId64 ", compute instance %" PRId64,
             record->gpu.instance, record->gpu.compute_instance);
    return rc ? rc : set_device(drain, pool, record->gpu.id, "mig", text);
}

/* The properties of a device, as run keys. */
static int on_device(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record)
{
    char text[64];
    uint32_t bytes = 0;
    const char *name =
        col_map_text(&pool->map, col_gpu_arena_id(pool->gpu, record->name), WIRE_TEXT_NAME, &bytes);
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
    write_uuid(record->gpu.uuid, "GPU-", text);
    if (rc == 0)
        rc = set_device(drain, pool, record->gpu.id, "uuid", text);
    return rc || !record->gpu.mig ? rc : set_slice(drain, pool, record);
}

/* An allocation or release of device memory, as a point of the counter gpu_memory_allocated. */
static int on_memory(struct col_drain *drain, struct col_pool *pool,
                     const struct col_cupti_record *record)
{
    struct col_gpu *gpu = pool->gpu;
    int64_t time = col_gpu_clock_ns(&gpu->clock, record->start);
    int rc = 0;
    if (record->operation != 1 && record->operation != 2)
        return 0;
    gpu->memory += record->operation == 1 ? record->size : -record->size;
    gpu->dirty |= !gpu->memory_track;
    rc = col_counter_track(drain, pool->process->id, "gpu_memory_allocated", "bytes", NULL,
                           &gpu->memory_track);
    if (rc || time == STORE_ABSENT || !col_has_room_for_sample(drain, time))
        return rc;
    return col_add_counter(drain, gpu->memory_track, time, (double)gpu->memory);
}

/* Is it a launch of a CUDA graph, or what such a launch ran? */
static bool is_of_graph(const struct col_cupti_record *record)
{
    static const uint32_t runtime[] = {311, 312}, driver[] = {514, 515};
    if (record->kind != COL_CUPTI_RUNTIME && record->kind != COL_CUPTI_DRIVER)
        return record->graph != STORE_ABSENT || record->graph_node != STORE_ABSENT;
    const uint32_t *launch = record->kind == COL_CUPTI_RUNTIME ? runtime : driver;
    return record->cbid == launch[0] || record->cbid == launch[1];
}

/* Takes the id from a row of a graph where CUPTI is known to give wrong ones. */
static int check_id(struct col_drain *drain, struct col_gpu *gpu,
                    const struct col_cupti_record *record, struct row *row)
{
    int64_t until = atomic_load_explicit(&gpu->head.graph_ids_until, memory_order_relaxed);
    if (!until || row->start < until || !is_of_graph(record))
        return 0;
    row->correlation = STORE_ABSENT;
    if (gpu->ids_reported)
        return 0;
    gpu->ids_reported = gpu->dirty = true;
    return col_drain_loss(
        drain, "cupti",
        "correlation ids of CUDA graph launches not kept: CUPTI before 13.1 update 1 "
        "gives wrong ones after a pause or a window (record all steps with "
        "--overhead 0, or use a newer CUPTI)",
        STORE_ABSENT, row->start, STORE_ABSENT);
}

/* Records that say nothing of the program: a query that found work still under way, which a loop
 * makes by the million, and the agent's own call. */
static bool is_noise(const struct col_cupti_record *record)
{
    return (record->kind == COL_CUPTI_SYNC && record->result) ||
           (record->kind == COL_CUPTI_DRIVER && record->cbid == WIRE_GPU_OWN_CALL);
}

/* Windows of device work are the agent's task: whatever it recorded is stored while there is room.
 */
int col_gpu_row(struct col_drain *drain, struct col_pool *pool,
                const struct col_cupti_record *record, enum col_gpu_origin origin)
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
                                [COL_CUPTI_OVERHEAD] = {on_overhead, CATEGORY_OVERHEAD},
                                [COL_CUPTI_HOST_NODE] = {on_host, CATEGORY_HOST},
                                [COL_CUPTI_HOST_LAUNCH] = {on_host, CATEGORY_HOST}};
    int rc = 0;
    drain->stats.records++;
    if (is_noise(record))
        return 0;
    if (timed[record->kind].put) {
        struct row row = {.category = timed[record->kind].category,
                          .correlation = record->correlation};
        if (record->device != STORE_ABSENT && record->context != STORE_ABSENT)
            rc = col_gpu_note_context(pool->gpu, record->context, record->device);
        if (rc || !times(drain, pool, record, origin, &row, &rc) || !col_has_room(drain, row.start))
            return rc;
        if ((rc = check_id(drain, pool->gpu, record, &row)))
            return rc;
        rc = timed[record->kind].put(drain, pool, record, &row);
        if (row.category == CATEGORY_KERNEL || row.category == CATEGORY_MEMCPY ||
            row.category == CATEGORY_MEMSET || row.category == CATEGORY_GRAPH)
            col_gpu_count_op(pool->gpu, row.track, row.start);
        return rc;
    }
    switch (record->kind) {
    case COL_CUPTI_EVENT:
        return on_event(pool->gpu, record);
    case COL_CUPTI_CONTEXT:
        return col_gpu_note_context(pool->gpu, record->context, record->device);
    case COL_CUPTI_STREAM:
        return col_gpu_note_priority(pool->gpu, record);
    case COL_CUPTI_DEVICE:
        return on_device(drain, pool, record);
    case COL_CUPTI_MEMORY2:
        return on_memory(drain, pool, record);
    default:
        return 0; /* a kind that another tool of the process has enabled */
    }
}
