/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads rows of accelerators: kernels, copies, memsets, whole graphs, synchronisations, GPU
 * metrics.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

#define ID_NONE 4294967295 /* CUPTI's "does not apply" of 32-bit ids */

/* What the queries of all device rows begin with. */
#define DEVICE_COLUMNS \
    "start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId"
enum { COL_START, COL_END, COL_PID, COL_DEVICE, COL_CONTEXT, COL_STREAM, COL_CORRELATION, COL_OWN };

/* Times, track and correlation of a row. *ok false: it was counted as lost. */
static int begin(struct nsight *nsight, sqlite3_stmt *st, bool waits, struct store_slice *slice,
                 size_t *process, bool *ok)
{
    int64_t pid = nsight_int(st, COL_PID), device = nsight_int(st, COL_DEVICE),
            stream = nsight_int(st, COL_STREAM), context = nsight_int(st, COL_CONTEXT),
            start = nsight_int(st, COL_START), end = nsight_int(st, COL_END);
    nsight->run->events++;
    *slice = (struct store_slice){.detail = STORE_ABSENT,
                                  .correlation = nsight_int(st, COL_CORRELATION)};
    if (slice->correlation == 0)
        slice->correlation = STORE_ABSENT;
    if (start == 0 || end == 0 ||
        end == STORE_ABSENT) { /* the profiler does not know when it ran */
        nsight->lost[NSIGHT_LOSS_TIME]++;
        *ok = false;
        return 0;
    }
    nsight_time(nsight, start, end, slice, ok);
    if (*ok && pid == STORE_ABSENT) {
        nsight->lost[NSIGHT_LOSS_PROCESS]++;
        *ok = false;
    }
    if (!*ok)
        return 0;
    int code = nsight_process(nsight, pid, process);
    /* Rows of waits name device 0 whatever the device: that of the context is right. */
    const int64_t *known = imp_map_find(&nsight->contexts, pid >> 24, context);
    if (waits && known)
        device = *known;
    else if (!code && !waits && !known)
        code = imp_map_put(&nsight->contexts, pid >> 24, context, device);
    if (device < 0 || device > 1 << 20) {
        nsight->lost[NSIGHT_LOSS_DEVICE]++;
        *ok = false;
        return code;
    }
    if (stream < 0 || stream == ID_NONE)
        stream = STORE_ABSENT;
    return code ? code : nsight_stream(nsight, *process, device, stream, &slice->track);
}

/* Writes the slice of a row, with its category and detail. */
static int end(struct nsight *nsight, struct store_slice *slice, const char *category,
               const struct store_detail *detail)
{
    int code = nsight_intern(nsight, category, &slice->category);
    if (!code && detail)
        code = store_detail_intern(nsight->out, detail, &slice->detail);
    return code ? code : nsight_slice(nsight, slice);
}

/* ,"key":value unless it is absent */
static size_t member(char *to, size_t size, size_t used, const char *key, int64_t value)
{
    if (value == STORE_ABSENT || used >= size)
        return used;
    return used + (size_t)snprintf(to + used, size - used, "%s\"%s\":%" PRId64, used > 1 ? "," : "",
                                   key, value);
}

/* Ends what `member` wrote. The text has one byte more than `member` was told, and room for all the
 * members. */
static void end_members(char *to, size_t used)
{
    memcpy(to + used, "}", sizeof "}");
}

static const char *triple(char text[72], sqlite3_stmt *st, int column)
{
    int64_t size[3];
    for (int i = 0; i < 3; i++)
        if ((size[i] = nsight_int(st, column + i)) == STORE_ABSENT)
            return NULL;
    snprintf(text, 72, "%" PRId64 ",%" PRId64 ",%" PRId64, size[0], size[1], size[2]);
    return text;
}

/* The sum of two values, either of which may be absent. */
static int64_t sum(int64_t left, int64_t right)
{
    int64_t total;
    if (left == STORE_ABSENT || right == STORE_ABSENT)
        return left == STORE_ABSENT ? right : left;
    return __builtin_add_overflow(left, right, &total) ? STORE_ABSENT : total;
}

/* ---- kernels, graphs --------------------------------------------------------------------------------------------------------- */

enum {
    KERNEL_DEMANGLED = COL_OWN,
    KERNEL_SHORT,
    KERNEL_MANGLED,
    KERNEL_REGISTERS,
    KERNEL_STATIC,
    KERNEL_DYNAMIC,
    KERNEL_GRAPH,
    KERNEL_NODE,
    KERNEL_PRIORITY,
    KERNEL_GRID,
    KERNEL_BLOCK = KERNEL_GRID + 3
};

/* A row of CUPTI_ACTIVITY_KIND_KERNEL. */
static int kernel(struct nsight *nsight, sqlite3_stmt *st)
{
    struct store_slice slice;
    struct store_detail detail = STORE_DETAIL_NONE;
    char grid[72], block[72], payload[400] = "{";
    size_t process, used = 1;
    bool ok = true;
    int code = begin(nsight, st, false, &slice, &process, &ok);
    if (code || !ok)
        return code;
    int64_t name = nsight_int(st, KERNEL_DEMANGLED);
    for (int column = KERNEL_SHORT; name == STORE_ABSENT && column <= KERNEL_MANGLED; column++)
        name = nsight_int(st, column);
    code = nsight_name(nsight, name, &slice.name);
    if (code)
        return code;
    detail.grid = triple(grid, st, KERNEL_GRID);
    detail.block = triple(block, st, KERNEL_BLOCK);
    used = member(payload, sizeof payload - 1, used, "registers", nsight_int(st, KERNEL_REGISTERS));
    used = member(payload, sizeof payload - 1, used, "shared_memory",
                  sum(nsight_int(st, KERNEL_STATIC), nsight_int(st, KERNEL_DYNAMIC)));
    used = member(payload, sizeof payload - 1, used, "priority", nsight_int(st, KERNEL_PRIORITY));
    if (nsight_int(st, KERNEL_GRAPH) > 0)
        used = member(payload, sizeof payload - 1, used, "graph", nsight_int(st, KERNEL_GRAPH));
    if (nsight_int(st, KERNEL_NODE) > 0)
        used = member(payload, sizeof payload - 1, used, "graph_node", nsight_int(st, KERNEL_NODE));
    end_members(payload, used);
    detail.schema = "gpu.kernel";
    detail.payload = used > 1 ? payload : NULL;
    return end(nsight, &slice, "kernel", &detail);
}

/* A row of CUPTI_ACTIVITY_KIND_GRAPH_TRACE: a whole CUDA graph as one slice. */
static int graph(struct nsight *nsight, sqlite3_stmt *st)
{
    struct store_slice slice;
    struct store_detail detail = STORE_DETAIL_NONE;
    char payload[64];
    size_t process;
    bool ok = true;
    int64_t id = nsight_int(st, COL_OWN);
    int code = begin(nsight, st, false, &slice, &process, &ok);
    if (code || !ok)
        return code;
    code = nsight_intern(nsight, "CUDA graph", &slice.name);
    detail.schema = "gpu.kernel";
    snprintf(payload, sizeof payload, "{\"graph\":%" PRId64 "}", id);
    detail.payload = payload;
    if (!code)
        code = end(nsight, &slice, "graph", id == STORE_ABSENT ? NULL : &detail);
    return code;
}

/* ---- copies, memsets --------------------------------------------------------------------------------------------------------- */

/* memory: as in names of copies, and as tacho calls it (NULL: not known); host: is it the host's?
 */
static const struct memory {
    const char *text, *kind;
    bool host;
} memories[] = {
    {"Pageable", "pageable", true}, {"Pinned", "pinned", true},
    {"Device", "device", false},    {"Array", "device", false},
    {"Managed", "managed", false},  {"Device Static", "device", false},
    {"Managed", "managed", false},
};

/* The kind of memory by CUPTI's number. */
static const struct memory *memory_of(int64_t kind)
{
    static const struct memory unknown = {"Unknown", NULL, false};
    return kind >= 0 && kind < (int64_t)(sizeof memories / sizeof *memories) ? &memories[kind]
                                                                             : &unknown;
}

/* by copyKind: direction, and whose kind of memory is kept */
static const struct direction {
    const char *name;
    enum { SIDE_NONE, SIDE_SRC, SIDE_DST } side;
    const char *kind; /* of transfers of managed memory */
} directions[] = {
    {"unknown", SIDE_NONE, NULL},   {"HtoD", SIDE_SRC, NULL},       {"DtoH", SIDE_DST, NULL},
    {"HtoD", SIDE_SRC, NULL},       {"DtoH", SIDE_DST, NULL},       {"DtoD", SIDE_SRC, NULL},
    {"DtoD", SIDE_SRC, NULL},       {"DtoD", SIDE_SRC, NULL},       {"DtoD", SIDE_SRC, NULL},
    {"HtoH", SIDE_SRC, NULL},       {"PtoP", SIDE_SRC, NULL},       {"HtoD", SIDE_NONE, "managed"},
    {"DtoH", SIDE_NONE, "managed"}, {"DtoD", SIDE_NONE, "managed"},
};

enum { COPY_BYTES = COL_OWN, COPY_KIND, COPY_SRC, COPY_DST, COPY_GRAPH, COPY_NODE };

/* A row of CUPTI_ACTIVITY_KIND_MEMCPY. */
static int copy(struct nsight *nsight, sqlite3_stmt *st)
{
    struct store_slice slice;
    struct store_detail detail = STORE_DETAIL_NONE;
    char name[100], payload[200];
    size_t process;
    bool ok = true;
    int code = begin(nsight, st, false, &slice, &process, &ok);
    if (code || !ok)
        return code;
    int64_t kind = nsight_int(st, COPY_KIND), bytes = nsight_int(st, COPY_BYTES);
    const struct direction *way =
        &directions[kind > 0 && kind < (int64_t)(sizeof directions / sizeof *directions) ? kind
                                                                                         : 0];
    const struct memory *src = memory_of(nsight_int(st, COPY_SRC)),
                        *dst = memory_of(nsight_int(st, COPY_DST));
    detail.copy_kind = way->name;
    detail.kind = way->kind;
    if (way->side != SIDE_NONE)
        detail.kind = way->side == SIDE_SRC ? src->kind : dst->kind;
    detail.bytes = bytes < 0 ? STORE_ABSENT : bytes;
    detail.schema = "gpu.memcpy";
    size_t used = 1;
    strcpy(payload, "{");
    if (src->kind && dst->kind)
        used = (size_t)snprintf(payload, sizeof payload, "{\"src\":\"%s\",\"dst\":\"%s\"",
                                src->kind, dst->kind);
    if (nsight_int(st, COPY_GRAPH) > 0)
        used = member(payload, sizeof payload - 1, used, "graph", nsight_int(st, COPY_GRAPH));
    if (nsight_int(st, COPY_NODE) > 0)
        used = member(payload, sizeof payload - 1, used, "graph_node", nsight_int(st, COPY_NODE));
    end_members(payload, used);
    detail.payload = used > 1 ? payload : NULL;
    /* the names that Kineto gives them */
    snprintf(name, sizeof name, "Memcpy %s (%s -> %s)", way->name, src->text, dst->text);
    code = nsight_intern(nsight, name, &slice.name);
    return code ? code : end(nsight, &slice, "memcpy", &detail);
}

/* A row of CUPTI_ACTIVITY_KIND_MEMSET. */
static int fill(struct nsight *nsight, sqlite3_stmt *st)
{
    struct store_slice slice;
    struct store_detail detail = STORE_DETAIL_NONE;
    char name[60];
    size_t process;
    bool ok = true;
    int code = begin(nsight, st, false, &slice, &process, &ok);
    if (code || !ok)
        return code;
    const struct memory *where = memory_of(nsight_int(st, COL_OWN + 1));
    int64_t bytes = nsight_int(st, COL_OWN);
    detail.bytes = bytes < 0 ? STORE_ABSENT : bytes;
    detail.schema = "gpu.memset";
    detail.kind = where->kind;
    snprintf(name, sizeof name, "Memset (%s)", where->text);
    code = nsight_intern(nsight, name, &slice.name);
    return code ? code : end(nsight, &slice, "memset", &detail);
}

/* ---- synchronisation --------------------------------------------------------------------------------------------------------- */

/* Remembers a record of a CUDA event, so that a wait can name the record that it waits for. It
 * becomes no slice: its time is often 0, and the call of the host is among the runtime rows. */
static int event_record(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t pid = nsight_int(st, 0), id = nsight_int(st, 1), correlation = nsight_int(st, 2),
            stream = nsight_int(st, 3);
    nsight->run->events++;
    if (pid == STORE_ABSENT || id == STORE_ABSENT || id == 0)
        return 0;
    int code =
        correlation == STORE_ABSENT ? 0 : imp_map_put(&nsight->records, pid >> 24, id, correlation);
    return code || stream == STORE_ABSENT
               ? code
               : imp_map_put(&nsight->record_streams, pid >> 24, id, stream);
}

/* A row of CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: which event or stream is waited for, and the call
 * that recorded the event. */
static int synchronisation(struct nsight *nsight, sqlite3_stmt *st)
{
    static const char *const kinds[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                        "Stream Sync", "Context Sync"};
    struct store_slice slice;
    struct store_detail detail = STORE_DETAIL_NONE;
    char payload[300];
    size_t process;
    bool ok = true;
    int code = begin(nsight, st, true, &slice, &process, &ok);
    if (code || !ok)
        return code;
    int64_t type = nsight_int(st, COL_OWN), event = nsight_int(st, COL_OWN + 1),
            id = nsight_int(st, COL_OWN + 2), pid = nsight_int(st, COL_PID) >> 24;
    const char *kind = kinds[type > 0 && type < 5 ? type : 0];
    size_t used = (size_t)snprintf(payload, sizeof payload, "{\"kind\":\"%s\"", kind);
    if (event != ID_NONE && event >= 0)
        used = member(payload, sizeof payload - 1, used, "event", event);
    /* An eventId is used many times; only eventSyncId says which record it was. */
    if (id != STORE_ABSENT && id) {
        const int64_t *record = imp_map_find(&nsight->records, pid, id);
        const int64_t *stream = imp_map_find(&nsight->record_streams, pid, id);
        used = member(payload, sizeof payload - 1, used, "stream", stream ? *stream : STORE_ABSENT);
        used = member(payload, sizeof payload - 1, used, "record_correlation",
                      record ? *record : STORE_ABSENT);
    }
    end_members(payload, used);
    detail.schema = "gpu.sync";
    detail.payload = payload;
    code = nsight_intern(nsight, kind, &slice.name);
    return code ? code : end(nsight, &slice, "sync", &detail);
}

const struct nsight_table nsight_device_tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     kernel,
     {DEVICE_COLUMNS, "demangledName", "shortName", "mangledName", "registersPerThread",
      "staticSharedMemory", "dynamicSharedMemory", "graphId", "graphNodeId", "priority", "gridX",
      "gridY", "gridZ", "blockX", "blockY", "blockZ"}},
    {"CUPTI_ACTIVITY_KIND_MEMCPY",
     copy,
     {DEVICE_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind", "graphId", "graphNodeId"}},
    {"CUPTI_ACTIVITY_KIND_MEMSET", fill, {DEVICE_COLUMNS, "bytes", "memKind"}},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
     graph,
     {DEVICE_COLUMNS, "graphId|originalGraphId|graphExecId"}},
    {"CUPTI_ACTIVITY_KIND_CUDA_EVENT",
     event_record,
     {"globalPid", "eventSyncId", "correlationId", "streamId"}},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     synchronisation,
     {DEVICE_COLUMNS, "syncType|deprecatedSyncType", "eventId", "eventSyncId"}},
    {0},
};

/* ---- metrics ------------------------------------------------------------------------------------------------------------------- */

/* TARGET_INFO_GPU_METRICS (read before): the names of metrics become tracks of counters. */
static int metric_name(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t type = nsight_int(st, 0), metric = nsight_int(st, 1);
    const char *name = nsight_text(st, 2);
    char device[32];
    if (type == STORE_ABSENT || metric == STORE_ABSENT || !name ||
        imp_map_find(&nsight->tracks[NSIGHT_COUNTERS], type, metric))
        return 0;
    snprintf(device, sizeof device, "gpu:%d",
             (int)(type & 0xff)); /* the low byte of a type is the GPU */
    struct store_track track = {.process = STORE_ABSENT,
                                .tid = STORE_ABSENT,
                                .kind = "counter",
                                .name = name,
                                .device = device};
    track.unit = strstr(name, "[%]") || strstr(name, "Throughput %") ? "%" : NULL;
    int code = store_track_add(nsight->out, &track);
    return code ? code : imp_map_put(&nsight->tracks[NSIGHT_COUNTERS], type, metric, track.id);
}

/* Reads one value of a metric. */
static int metric(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t time = nsight_int(st, 0), *track = imp_map_find(&nsight->tracks[NSIGHT_COUNTERS],
                                                            nsight_int(st, 1), nsight_int(st, 2));
    int type = sqlite3_column_type(st, 3);
    struct store_slice slice;
    bool ok = true;
    nsight->run->events++;
    if (!track || (type != SQLITE_INTEGER && type != SQLITE_FLOAT)) {
        nsight->lost[NSIGHT_LOSS_METRIC]++;
        return 0;
    }
    nsight_time(nsight, time, time, &slice, &ok);
    struct store_counter counter = {
        .track = *track, .time = slice.start, .value = sqlite3_column_double(st, 3)};
    return ok ? store_counter_add(nsight->out, &counter) : 0;
}

const struct nsight_table nsight_metric_tables[] = {
    {"TARGET_INFO_GPU_METRICS", metric_name, {"typeId", "metricId", "metricName"}},
    {"GPU_METRICS", metric, {"timestamp|rawTimestamp", "typeId", "metricId", "value"}},
    {0},
};
