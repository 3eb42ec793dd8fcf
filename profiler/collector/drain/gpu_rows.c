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
    X(GRAPH, "graph") X(SYNC, "sync") X(RUNTIME, "runtime") X(DRIVER, "driver") \
        X(OVERHEAD, "overhead")
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

static int64_t category(struct col_drain *d, struct col_gpu *g, enum category c, int *rc)
{
    if (!g->category[c] && *rc == 0)
        *rc = store_string(d->db, category_text[c], strlen(category_text[c]), &g->category[c]);
    return g->category[c];
}

static int64_t string(struct col_drain *d, const char *text, int *rc)
{
    int64_t id = 0;
    if (*rc == 0)
        *rc = store_string(d->db, text, strlen(text), &id);
    return id;
}

/* The arena id behind a name as the agent left it; of a buffer that it never saw, by the table of
 * pointers. */
static uint32_t arena_of(const struct col_gpu *g, uint64_t name)
{
    if ((name & ~(uint64_t)UINT32_MAX) == WIRE_GPU_NAME_TAG)
        return (uint32_t)name;
    uint32_t mask = g->name_cap - 1, i = (uint32_t)((name * 0x9e3779b97f4a7c15u) >> 40) & mask;
    for (uint32_t probes = 0; name && probes < 64; probes++, i = (i + 1) & mask)
        if (atomic_load_explicit(&g->names[i].pointer, memory_order_acquire) == name)
            return g->names[i].id;
    return 0;
}

static int64_t readable(struct col_drain *d, struct col_pool *p, uint32_t arena, int *rc)
{
    uint32_t bytes = 0;
    const char *text = arena ? col_map_text(&p->map, arena, WIRE_TEXT_NAME, &bytes) : NULL;
    if (!text || !bytes)
        return string(d, "(kernel of unknown name)", rc);
    char *mangled = strndup(text, bytes);
    if (!mangled) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    char *plain = col_demangle(mangled);
    int64_t id = string(d, plain ? plain : mangled, rc);
    free(plain);
    free(mangled);
    return id;
}

static int64_t kernel_name(struct col_drain *d, struct col_pool *p, uint64_t name, int *rc)
{
    struct col_gpu *g = p->gpu;
    uint32_t arena = arena_of(g, name);
    if (arena >= p->map.arena_cap / 8)
        arena = 0;
    if (col_ids_room(&g->kernel, &g->kernel_cap, arena)) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    if (!g->kernel[arena])
        g->kernel[arena] = readable(d, p, arena, rc);
    return g->kernel[arena];
}

static int64_t api_name(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                        int *rc)
{
    struct col_gpu *g = p->gpu;
    unsigned domain = r->kind == COL_CUPTI_RUNTIME;
    char text[64];
    if (r->cbid >= 0 && r->cbid < (int64_t)WIRE_GPU_APIS) {
        if (g->api[domain][r->cbid])
            return g->api[domain][r->cbid];
        uint32_t arena =
            atomic_load_explicit(&g->head->api_name[domain][r->cbid], memory_order_acquire);
        if (arena)
            return g->api[domain][r->cbid] = col_pool_string(d, p, arena, rc);
    }
    snprintf(text, sizeof text, "%s call %" PRId64, domain ? "CUDA runtime" : "CUDA driver",
             r->cbid);
    return string(d, text, rc);
}

/* ---- tracks ---- */

static int64_t stream_track(struct col_drain *d, struct col_pool *p, int64_t device, int64_t stream,
                            int *rc)
{
    struct col_gpu *g = p->gpu;
    if (device == STORE_ABSENT)
        device = 0;
    for (uint32_t i = 0; i < g->stream_count; i++)
        if (g->stream[i].device == device && g->stream[i].stream == stream)
            return g->stream[i].track;
    char name[48], where[32];
    snprintf(where, sizeof where, "gpu:%" PRId64, device);
    if (stream == STORE_ABSENT)
        snprintf(name, sizeof name, "device");
    else
        snprintf(name, sizeof name, "stream %" PRId64, stream);
    struct store_track t = {
        .process = p->process->id, .tid = stream, .kind = "stream", .name = name, .device = where};
    *rc = store_track_add(d->db, &t);
    if (*rc == 0)
        *rc = PUT(g->stream, g->stream_count, (struct col_gpu_stream){device, stream, t.id});
    g->dirty = true;
    return t.id;
}

int64_t col_gpu_thread_track(const struct col_pool *p, uint32_t tid)
{
    for (uint32_t i = p->gpu ? p->gpu->thread_count : 0; i-- > 0;)
        if (p->gpu->thread[i].tid == (int64_t)tid)
            return p->gpu->thread[i].track;
    return 0;
}

int col_gpu_thread_ended(struct col_pool *p, int64_t tid, int64_t track)
{
    int rc = 0;
    if (p->gpu && track && col_gpu_thread_track(p, (uint32_t)tid) != track) {
        rc = PUT(p->gpu->thread, p->gpu->thread_count, (struct col_gpu_thread){tid, track});
        p->gpu->dirty = true;
    }
    return rc;
}

/* The thread's own track, which NVTX may have made already. */
static int64_t thread_track(struct col_drain *d, struct col_pool *p, int64_t tid, int *rc)
{
    struct col_gpu *g = p->gpu;
    int64_t track = 0;
    for (uint32_t i = g->thread_count; i-- > 0;)
        if (g->thread[i].tid == tid)
            return g->thread[i].track;
    for (uint32_t i = p->thread_cap; tid != STORE_ABSENT && i-- > 0 && !track;)
        if (p->thread[i] && p->thread[i]->tid == tid)
            track = p->thread[i]->track;
    if (!track) {
        struct store_track t = {.process = p->process->id,
                                .tid = tid,
                                .kind = "thread",
                                .name = tid == STORE_ABSENT                ? "CUPTI"
                                        : tid == (int64_t)p->map.head->pid ? "main"
                                                                           : NULL};
        *rc = store_track_add(d->db, &t);
        track = t.id;
    }
    if (*rc == 0)
        *rc = PUT(g->thread, g->thread_count, (struct col_gpu_thread){tid, track});
    g->dirty = true;
    return track;
}

static int64_t device_of(const struct col_gpu *g, int64_t context)
{
    for (uint32_t i = g->context_count; i-- > 0;)
        if (g->context[i].context == context)
            return g->context[i].device;
    return g->context_count == 1 ? g->context[0].device : STORE_ABSENT;
}

static int note_context(struct col_gpu *g, int64_t context, int64_t device)
{
    for (uint32_t i = 0; i < g->context_count; i++)
        if (g->context[i].context == context) {
            g->dirty |= g->context[i].device != device;
            g->context[i].device = device;
            return 0;
        }
    g->dirty = true;
    return PUT(g->context, g->context_count, (struct col_gpu_context){context, device});
}

static int64_t priority_of(const struct col_gpu *g, int64_t context, int64_t stream)
{
    for (uint32_t i = 0; i < g->priority_count; i++)
        if (g->priority[i].context == context && g->priority[i].stream == stream)
            return g->priority[i].priority;
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

static int64_t intern(struct col_drain *d, const struct store_detail *x, int64_t time, int *rc)
{
    int64_t id = STORE_ABSENT;
    if (d->volume.no_detail)
        col_count_cut(d, COL_CUT_DETAIL, time);
    else if (*rc == 0)
        *rc = store_detail_intern(d->db, x, &id);
    return id;
}

/* ---- rows ---- */

struct row {
    int64_t track, start, end, name, detail, correlation;
    enum category category;
};

static int put_row(struct col_drain *d, struct col_pool *p, const struct row *x)
{
    int rc = 0;
    struct col_range range = {.start = x->start,
                              .name = x->name,
                              .category = category(d, p->gpu, x->category, &rc),
                              .detail = x->detail,
                              .correlation = x->correlation};
    if (rc)
        return rc;
    if (x->end > p->last_event)
        p->last_event = x->end;
    return col_add_slice(d, x->track, &range, x->end > x->start ? x->end - x->start : 0, NULL);
}

/* Windows are the agent's business: what it recorded is wanted. Only room can be short. */
static bool room(struct col_drain *d, int64_t time)
{
    enum col_cut why;
    if (col_decode_keeps(d, STORE_ABSENT, &why))
        return true;
    col_count_cut(d, why, time);
    return false;
}

static int lose(struct col_drain *d, const char *reason, int64_t time)
{
    d->stats.lost++;
    return col_drain_loss(d, "cupti", reason, 1, time, time);
}

/* Times of the record on our clock; false: it has none, which is counted. */
static bool times(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                  bool salvaged, struct row *x, int *rc)
{
    x->start = col_gpu_clock_ns(&p->gpu->clock, r->start);
    x->end = col_gpu_clock_ns(&p->gpu->clock, r->end);
    if (r->start && r->end && x->start != STORE_ABSENT)
        return true;
    int64_t when = r->start && x->start != STORE_ABSENT ? x->start : STORE_ABSENT;
    if (salvaged)
        *rc = lose(d, "record without an end: the process ended before the device did", when);
    else
        *rc = lose(d, "record without times: CUPTI ran out of its own device buffers", when);
    return false;
}

static int on_kernel(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                     struct row *x)
{
    struct col_gpu *g = p->gpu;
    struct json j = {0};
    char grid[48], block[48];
    int rc = 0;
    snprintf(grid, sizeof grid, "%u,%u,%u", r->grid[0], r->grid[1], r->grid[2]);
    snprintf(block, sizeof block, "%u,%u,%u", r->block[0], r->block[1], r->block[2]);
    json_int(&j, "registers", r->registers);
    json_int(&j, "shared_memory", r->static_shared + r->dynamic_shared);
    json_int(&j, "priority", priority_of(g, r->context, r->stream));
    json_int(&j, "graph", r->graph);
    json_int(&j, "graph_node", r->graph_node);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.grid = grid;
    detail.block = block;
    detail.schema = "gpu.kernel";
    detail.payload = json_end(&j);
    x->track = stream_track(d, p, r->device, r->stream, &rc);
    x->name = rc ? 0 : kernel_name(d, p, r->name, &rc);
    x->detail = intern(d, &detail, x->start, &rc);
    return rc ? rc : put_row(d, p, x);
}

static int on_copy(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                   struct row *x)
{
    struct json j = {0};
    char name[64];
    int rc = 0;
    const char *from = TEXT_OF(memory_text, r->source_kind),
               *to = TEXT_OF(memory_text, r->target_kind);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.copy_kind = r->kind == COL_CUPTI_MEMCPY2 ? "PtoP" : TEXT_OF(copy_text, r->copy_kind);
    /* the host's side; of a copy on the device there is none */
    bool to_host = !strcmp(detail.copy_kind, "DtoH");
    const char *host = to_host ? to : from;
    if (!strcmp(host, "array"))
        host = "device";
    detail.kind = strcmp(host, "unknown") ? host : NULL;
    detail.bytes = r->size;
    json_text(&j, "src", from);
    json_text(&j, "dst", to);
    json_int(&j, "graph", r->graph);
    json_int(&j, "graph_node", r->graph_node);
    detail.schema = "gpu.memcpy";
    detail.payload = json_end(&j);
    snprintf(name, sizeof name, "Memcpy %s (%c%s -> %c%s)", detail.copy_kind, from[0] - 'a' + 'A',
             from + 1, to[0] - 'a' + 'A', to + 1);
    x->track = stream_track(d, p, r->device, r->stream, &rc);
    x->name = string(d, name, &rc);
    x->detail = intern(d, &detail, x->start, &rc);
    return rc ? rc : put_row(d, p, x);
}

static int on_set(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                  struct row *x)
{
    struct json j = {0};
    char name[48];
    int rc = 0;
    const char *to = TEXT_OF(memory_text, r->target_kind);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.bytes = r->size;
    json_text(&j, "dst", to);
    json_int(&j, "graph", r->graph);
    json_int(&j, "graph_node", r->graph_node);
    detail.schema = "gpu.memset";
    detail.payload = json_end(&j);
    snprintf(name, sizeof name, "Memset (%c%s)", to[0] - 'a' + 'A', to + 1);
    x->track = stream_track(d, p, r->device, r->stream, &rc);
    x->name = string(d, name, &rc);
    x->detail = intern(d, &detail, x->start, &rc);
    return rc ? rc : put_row(d, p, x);
}

static int on_graph(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                    struct row *x)
{
    char name[48];
    int rc = 0;
    snprintf(name, sizeof name, "CUDA graph %" PRId64, r->graph);
    x->track = stream_track(d, p, r->device, r->stream, &rc);
    x->name = string(d, name, &rc);
    x->detail = STORE_ABSENT;
    return rc ? rc : put_row(d, p, x);
}

static int on_api(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                  struct row *x)
{
    int rc = 0;
    x->track = thread_track(d, p, r->thread, &rc);
    x->name = rc ? 0 : api_name(d, p, r, &rc);
    x->detail = STORE_ABSENT;
    return rc ? rc : put_row(d, p, x);
}

static int on_overhead(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                       struct row *x)
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
    uint32_t which = (uint32_t)(r->cbid >> 16);
    if (r->cbid == 1)
        snprintf(name, sizeof name, "Driver Compiler");
    else if (which > 0 && which < sizeof text / sizeof *text)
        snprintf(name, sizeof name, "%s", text[which]);
    else
        snprintf(name, sizeof name, "Overhead %" PRId64, r->cbid);
    const int64_t of_thread = 2;
    x->track =
        thread_track(d, p, r->object_kind == of_thread ? r->object_thread : STORE_ABSENT, &rc);
    x->name = string(d, name, &rc);
    x->detail = STORE_ABSENT;
    return rc ? rc : put_row(d, p, x);
}

/* ---- events and waits ---- */

static struct col_gpu_event *event_slot(const struct col_gpu *g, int64_t context, int64_t event,
                                        int64_t key)
{
    uint64_t h =
        ((uint64_t)context << 32 ^ (uint64_t)event * 31 ^ (uint64_t)key) * 0x9e3779b97f4a7c15u;
    return &g->event[(h >> 40) % COL_GPU_EVENTS];
}

static int on_event(struct col_gpu *g, const struct col_cupti_record *r)
{
    if (!g->event && !(g->event = calloc(COL_GPU_EVENTS, sizeof *g->event)))
        return TACHO_ENOMEM;
    struct col_gpu_event e = {r->context, r->event, r->event_record, r->stream, r->correlation};
    if (r->event_record != STORE_ABSENT)
        *event_slot(g, r->context, -1, r->event_record) = e;
    /* the last record of the event: what a wait that names no record waits for */
    struct col_gpu_event *last = event_slot(g, r->context, r->event, 0);
    if (last->context != r->context || last->event != r->event ||
        last->correlation < r->correlation)
        *last = e;
    return 0;
}

static const struct col_gpu_event *event_of(const struct col_gpu *g,
                                            const struct col_cupti_record *r)
{
    const struct col_gpu_event *e;
    if (!g->event || r->event == STORE_ABSENT)
        return NULL;
    if (r->event_record != STORE_ABSENT) {
        e = event_slot(g, r->context, -1, r->event_record);
        if (e->record == r->event_record && e->event == r->event)
            return e;
    }
    e = event_slot(g, r->context, r->event, 0);
    return e->context == r->context && e->event == r->event && e->correlation &&
                   e->correlation < r->correlation
               ? e
               : NULL;
}

static int on_sync(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                   struct row *x)
{
    struct col_gpu *g = p->gpu;
    struct json j = {0};
    int rc = 0;
    const struct col_gpu_event *e = event_of(g, r);
    const char *name =
        r->sync_kind >= 0 ? TEXT_OF(sync_text, (uint64_t)r->sync_kind) : sync_text[0];
    struct store_detail detail = STORE_DETAIL_NONE;
    json_text(&j, "kind", name);
    json_int(&j, "stream",
             e                                  ? e->stream
             : r->sync_kind == SYNC_STREAM_WAIT ? STORE_ABSENT
                                                : r->stream);
    json_int(&j, "event",
             r->event && (r->sync_kind == SYNC_EVENT || r->sync_kind == SYNC_STREAM_WAIT)
                 ? r->event
                 : STORE_ABSENT);
    json_int(&j, "record_correlation", e ? e->correlation : STORE_ABSENT);
    detail.schema = "gpu.sync";
    detail.payload = json_end(&j);
    x->track = stream_track(d, p, device_of(g, r->context),
                            r->sync_kind == SYNC_EVENT ? STORE_ABSENT : r->stream, &rc);
    x->name = string(d, name, &rc);
    x->detail = intern(d, &detail, x->start, &rc);
    return rc ? rc : put_row(d, p, x);
}

/* ---- what is noted once ---- */

static int set_device(struct col_drain *d, struct col_pool *p, int64_t device, const char *key,
                      const char *value)
{
    char name[96];
    snprintf(name, sizeof name, "device.%" PRId64 ".gpu:%" PRId64 ".%s", p->process->id, device,
             key);
    return store_run_set(d->db, name, value);
}

static int on_device(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r)
{
    char text[64], uuid[48] = "GPU-";
    uint32_t bytes = 0;
    const char *name = col_map_text(&p->map, arena_of(p->gpu, r->name), WIRE_TEXT_NAME, &bytes);
    int rc = 0;
    if (name && bytes) {
        char copy[256];
        snprintf(copy, sizeof copy, "%.*s", (int)bytes, name);
        rc = set_device(d, p, r->gpu.id, "name", copy);
    }
    const struct {
        const char *key;
        int64_t value;
    } number[] = {{"sms", r->gpu.sms},
                  {"memory_bytes", r->gpu.memory},
                  {"warp_size", r->gpu.warp},
                  {"max_threads_per_sm", r->gpu.warps_per_sm * r->gpu.warp}};
    for (size_t i = 0; i < sizeof number / sizeof *number && rc == 0; i++) {
        snprintf(text, sizeof text, "%" PRId64, number[i].value);
        rc = number[i].value > 0 ? set_device(d, p, r->gpu.id, number[i].key, text) : 0;
    }
    snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, r->gpu.major, r->gpu.minor);
    if (rc == 0)
        rc = set_device(d, p, r->gpu.id, "compute_capability", text);
    for (size_t i = 0, at = 4; i < sizeof r->gpu.uuid; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            uuid[at++] = '-';
        at += (size_t)snprintf(uuid + at, sizeof uuid - at, "%02x", r->gpu.uuid[i]);
    }
    return rc ? rc : set_device(d, p, r->gpu.id, "uuid", uuid);
}

static int on_memory(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r)
{
    struct col_gpu *g = p->gpu;
    int64_t time = col_gpu_clock_ns(&g->clock, r->start);
    int rc = 0;
    if (r->operation != 1 && r->operation != 2)
        return 0;
    g->memory += r->operation == 1 ? r->size : -r->size;
    if (!g->memory_track) {
        struct store_track t = {.process = p->process->id,
                                .tid = STORE_ABSENT,
                                .kind = "counter",
                                .name = "gpu_memory_allocated",
                                .unit = "bytes"};
        rc = store_track_add(d->db, &t);
        g->memory_track = t.id;
        g->dirty = true;
    }
    if (rc || time == STORE_ABSENT || !room(d, time))
        return rc;
    struct store_counter c = {.track = g->memory_track, .time = time, .value = (double)g->memory};
    d->stats.counters++;
    return store_counter_add(d->db, &c);
}

static int note_priority(struct col_gpu *g, const struct col_cupti_record *r)
{
    if (priority_of(g, r->context, r->stream) != STORE_ABSENT)
        return 0;
    return PUT(g->priority, g->priority_count,
               (struct col_gpu_priority){r->context, r->stream, r->priority});
}

int col_gpu_row(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                bool salvaged)
{
    static const struct {
        int (*put)(struct col_drain *d, struct col_pool *p, const struct col_cupti_record *r,
                   struct row *x);
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
    d->stats.records++;
    if (timed[r->kind].put) {
        struct row x = {.category = timed[r->kind].category, .correlation = r->correlation};
        if (r->device != STORE_ABSENT && r->context != STORE_ABSENT)
            rc = note_context(p->gpu, r->context, r->device);
        if (rc || !times(d, p, r, salvaged, &x, &rc) || !room(d, x.start))
            return rc;
        return timed[r->kind].put(d, p, r, &x);
    }
    switch (r->kind) {
    case COL_CUPTI_EVENT:
        return on_event(p->gpu, r);
    case COL_CUPTI_CONTEXT:
        return note_context(p->gpu, r->context, r->device);
    case COL_CUPTI_STREAM:
        return note_priority(p->gpu, r);
    case COL_CUPTI_DEVICE:
        return on_device(d, p, r);
    case COL_CUPTI_MEMORY2:
        return on_memory(d, p, r);
    default:
        return 0; /* a kind nobody asked for: enabled by another tool of the process */
    }
}
