/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of an XPlane as rows: kernels and copies of GPUs, operations of TPUs, calls and ranges
 * of the host.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/xplane/xplane_private.h"

/* Numbers of the fields of the messages (xplane.proto). */
enum { PLANE_LINES = 3 };
enum { LINE_ID = 1, LINE_NAME = 2, LINE_TIME = 3, LINE_EVENTS = 4, LINE_DISPLAY_NAME = 11 };
enum { EVENT_METADATA = 1, EVENT_OFFSET, EVENT_DURATION, EVENT_STATS, EVENT_OCCURRENCES };

#define RELATIVE_MOST INT64_C(100000000000000000) /* ns: times below are no times of day */
#define TEXT_MOST     200                         /* bytes of one text in a payload */

/* One line while its events are read. */
struct line {
    struct xspace *space;
    struct xplane *plane;
    enum xla_line_kind kind;
    int64_t id, time, track;
    bool device;
};

struct event {
    struct pb_span message;
    struct xplane_event_metadata *metadata; /* NULL: unknown id */
    int64_t start, dur;                     /* ns */
    bool has_stats, timed;
};

/* ---- details ---------------------------------------------------------------------------------------------------------------- */

struct payload {
    char text[1600];
    size_t used;
};

static void put_raw(struct payload *payload, const char *text)
{
    size_t length = strlen(text);
    if (payload->used + length + 1 < sizeof payload->text) {
        memcpy(payload->text + payload->used, text, length + 1);
        payload->used += length;
    }
}

static void put_key(struct payload *payload, const char *key)
{
    put_raw(payload, payload->used ? ",\"" : "{\"");
    put_raw(payload, key);
    put_raw(payload, "\":");
}

static void put_number(struct payload *payload, const char *key, int64_t value)
{
    char text[24];
    put_key(payload, key);
    snprintf(text, sizeof text, "%" PRId64, value);
    put_raw(payload, text);
}

/* A text of the trace as a JSON string; bytes that are no plain character become '?'. */
static void put_text(struct payload *payload, const char *key, struct pb_span span)
{
    char text[TEXT_MOST + 3];
    size_t used = 0;
    if (!span.bytes || payload->used + span.bytes + 64 > sizeof payload->text)
        return;
    text[used++] = '"';
    for (size_t i = 0; i < span.bytes && used < TEXT_MOST; i++) {
        unsigned char byte = span.data[i];
        text[used++] = byte < 32 || byte > 126 || byte == '"' || byte == '\\' ? '?' : (char)byte;
    }
    text[used++] = '"';
    text[used] = 0;
    put_key(payload, key);
    put_raw(payload, text);
}

/* The value of "key:value" in a text of details; false: there is none. */
static bool detail_value(struct pb_span details, const char *key, char *out, size_t size)
{
    const unsigned char *found =
        details.bytes ? memmem(details.data, details.bytes, key, strlen(key)) : NULL;
    size_t used = 0;
    if (!found)
        return false;
    for (found += strlen(key);
         found<details.data + details.bytes && * found> ' ' && used + 1 < size; found++)
        out[used++] = (char)*found;
    out[used] = 0;
    return used > 0;
}

static bool detail_number(struct pb_span details, const char *key, int64_t *out)
{
    char text[24], *end;
    if (!detail_value(details, key, text, sizeof text))
        return false;
    *out = strtoll(text, &end, 10);
    return end != text && !*end;
}

/* Bytes, direction and kind of memory of a copy: "kind_src:pageable kind_dst:device size:512", by
 * the name of the event where they say nothing. */
static void fill_copy(struct pb_span details, struct pb_span name, struct store_detail *detail)
{
    static const struct {
        const char *word, *kind;
    } kinds[] = {{"H2D", "HtoD"}, {"HtoD", "HtoD"}, {"HostToDevice", "HtoD"},
                 {"D2H", "DtoH"}, {"DtoH", "DtoH"}, {"DeviceToHost", "DtoH"},
                 {"D2D", "DtoD"}, {"DtoD", "DtoD"}, {"DeviceToDevice", "DtoD"},
                 {"P2P", "PtoP"}, {"PtoP", "PtoP"}, {"H2H", "HtoH"}};
    int64_t bytes;
    if (detail_number(details, "size:", &bytes) || detail_number(details, "num_bytes:", &bytes))
        detail->bytes = bytes >= 0 ? bytes : STORE_ABSENT;
    detail->copy_kind = "unknown";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (xla_holds(name, kinds[i].word) || xla_holds(details, kinds[i].word)) {
            detail->copy_kind = kinds[i].kind;
            break;
        }
}

/* Launch dimensions and registers of a kernel. CUPTI and rocprofiler have no figure for some
 * kernels, and XLA prints whatever is in memory then: what no device has is left out. */
static void fill_kernel(struct pb_span details, struct store_detail *detail, char grid[48],
                        char block[48], struct payload *payload)
{
    int64_t registers, fixed = 0, dynamic = 0;
    char occupancy[24];
    if (detail_value(details, "grid:", grid, 48))
        detail->grid = grid;
    if (detail_value(details, "block:", block, 48))
        detail->block = block;
    if (detail_number(details, "regs:", &registers) && registers > 0 && registers <= 512)
        put_number(payload, "registers", registers);
    bool shared = detail_number(details, "static_shared:", &fixed) &&
                  detail_number(details, "dynamic_shared:", &dynamic);
    if (!shared)
        shared = detail_number(details, "group_mem:", &fixed);
    if (shared && fixed >= 0 && dynamic >= 0 && fixed + dynamic <= 1 << 20)
        put_number(payload, "shared_memory", fixed + dynamic);
    if (detail_value(details, "occ_pct:", occupancy, sizeof occupancy) &&
        strspn(occupancy, "0123456789.") == strlen(occupancy) && atof(occupancy) > 0) {
        put_key(payload, "occupancy_pct");
        put_raw(payload, occupancy);
    }
}

/* Fills the row of a copy of a TPU. What the core does for it has no bytes, so that they count
 * once. */
static void fill_core_copy(const struct xla_copy *copy, const struct xla_stats *stats,
                           struct imp_slice *slice, struct store_detail *detail)
{
    slice->category = "memcpy";
    detail->schema = "gpu.memcpy";
    detail->copy_kind = copy->kind;
    detail->kind = copy->part;
    if (!copy->part && stats->has[XLA_STAT_BYTES])
        detail->bytes = stats->number[XLA_STAT_BYTES];
}

/* Fills category and detail of an event of a device. */
static void fill_device(const struct line *line, const struct event *event,
                        const struct xla_stats *stats, struct imp_slice *slice,
                        struct store_detail *detail, char grid[48], char block[48],
                        struct payload *payload)
{
    static const struct pb_span none = {NULL, 0};
    struct pb_span name = event->metadata ? xplane_looked(event->metadata->name) : none;
    struct pb_span op = event->metadata && event->metadata->display_name.bytes
                            ? xplane_looked(event->metadata->display_name)
                            : name;
    bool tpu = xla_is_tpu(line->plane->kind);
    struct pb_span path = stats->text[tpu ? XLA_STAT_OP_NAME : XLA_STAT_NAME];
    struct xla_copy copy = {NULL, NULL};
    if (tpu)
        copy = xla_copy_of(stats->text[XLA_STAT_CATEGORY], op, name, line->kind == XLA_LINE_ASYNC);
    slice->category = "kernel";
    detail->schema = "gpu.kernel";
    if (line->kind == XLA_LINE_MODULES || line->kind == XLA_LINE_STEPS ||
        (tpu && xla_is_container(stats->text[XLA_STAT_CATEGORY], op))) {
        slice->category = "annotation";
        detail->schema = "xla.module";
    } else if (copy.kind) {
        fill_core_copy(&copy, stats, slice, detail);
    } else if (stats->has[XLA_STAT_MEMCPY_DETAILS] || (!tpu && xla_begins(name, "Memcpy"))) {
        slice->category = "memcpy";
        detail->schema = "gpu.memcpy";
        fill_copy(stats->text[XLA_STAT_MEMCPY_DETAILS], name, detail);
    } else if (stats->has[XLA_STAT_MEMSET_DETAILS] || (!tpu && xla_begins(name, "Memset"))) {
        int64_t bytes;
        slice->category = "memset";
        detail->schema = "gpu.memset";
        if (detail_number(stats->text[XLA_STAT_MEMSET_DETAILS], "num_bytes:", &bytes))
            detail->bytes = bytes;
    } else {
        fill_kernel(stats->text[XLA_STAT_KERNEL_DETAILS], detail, grid, block, payload);
    }
    if (stats->has[XLA_STAT_FLOPS])
        detail->flops = stats->number[XLA_STAT_FLOPS];
    if (stats->has[XLA_STAT_MODEL_FLOPS])
        detail->model_flops = stats->number[XLA_STAT_MODEL_FLOPS];
    if (stats->has[XLA_STAT_BYTES])
        detail->bytes_read = stats->number[XLA_STAT_BYTES];
    put_text(payload, "hlo_op", stats->text[XLA_STAT_HLO_OP]);
    put_text(payload, "hlo_module", stats->text[XLA_STAT_HLO_MODULE]);
    put_text(payload, "hlo_category", stats->text[XLA_STAT_CATEGORY]);
    put_text(payload, "op_name", path.bytes ? path : stats->text[XLA_STAT_OP_NAME]);
    if (xla_holds(stats->text[XLA_STAT_CATEGORY], "convolution") ||
        xla_holds(stats->text[XLA_STAT_CATEGORY], "dot"))
        detail->kind = "matrix";
    if (copy.kind)
        return;
    detail->collective = xla_collective_of(tpu ? op : stats->text[XLA_STAT_HLO_OP]);
    if (!detail->collective)
        detail->collective = xla_collective_of(stats->text[XLA_STAT_CATEGORY]);
}

/* ---- events ----------------------------------------------------------------------------------------------------------------- */

/* Where and when an event was. */
static struct event event_of(const struct line *line, struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct event event = {.message = message};
    int64_t id = 0, offset = 0, duration = 0;
    while (pb_next(&pb, &field)) {
        if (field.number == EVENT_METADATA)
            id = (int64_t)field.value;
        else if (field.number == EVENT_OFFSET) {
            offset = (int64_t)field.value;
            event.timed = true;
        } else if (field.number == EVENT_DURATION)
            duration = (int64_t)field.value;
        else if (field.number == EVENT_STATS)
            event.has_stats = true;
        else if (field.number == EVENT_OCCURRENCES)
            event.timed |= field.value <= 1;
    }
    const int64_t *index = imp_map_find(&line->plane->events, id, 0);
    event.metadata = index ? &line->plane->event[*index] : NULL;
    int64_t end;
    if (pb.bad || __builtin_add_overflow(offset, duration, &end)) {
        event.start = STORE_ABSENT;
        return event;
    }
    /* Both ends are rounded down to ns, so that events that touch in ps still touch. */
    int64_t from = offset / 1000 - (offset % 1000 < 0), to = end / 1000 - (end % 1000 < 0);
    event.start = line->time + from;
    event.dur = duration < 0 ? -1 : to - from;
    return event;
}

/* Keeps what may become a step. */
static int note_steps(const struct line *line, const struct event *event,
                      const struct xla_stats *stats, struct pb_span name)
{
    struct xla_steps *steps = &line->space->steps;
    struct xla_step step = {.place = line->device ? line->plane->device : line->id,
                            .start = event->start,
                            .end = event->start + event->dur};
    char number[24], *end;
    if (line->device && line->kind == XLA_LINE_STEPS) {
        snprintf(number, sizeof number, "%.*s", (int)(name.bytes < 20 ? name.bytes : 20),
                 name.bytes ? (const char *)name.data : "");
        step.source = XLA_STEP_DEVICE;
        step.index = strtoll(number, &end, 10);
        return end == number || *end ? 0 : xla_steps_add(steps, step, (struct pb_span){NULL, 0});
    }
    if (line->device && line->kind == XLA_LINE_MODULES) {
        const unsigned char *bracket = name.bytes ? memchr(name.data, '(', name.bytes) : NULL;
        struct pb_span module = {name.data, bracket ? (size_t)(bracket - name.data) : name.bytes};
        if (line->plane->kind != XLA_PLANE_TPU) /* of a GPU they are made of its kernels */
            return 0;
        int rc = xla_steps_module_time(steps, module, step.start, step.end);
        step.source = XLA_STEP_MODULE;
        return rc ? rc : xla_steps_add(steps, step, name);
    }
    if (line->device)
        return xla_steps_module_time(steps, stats->text[XLA_STAT_HLO_MODULE], step.start, step.end);
    if (stats->has[XLA_STAT_STEP_NUM]) {
        step.source = XLA_STEP_MARKED;
        step.index = stats->number[XLA_STAT_STEP_NUM];
        return xla_steps_add(steps, step, (struct pb_span){NULL, 0});
    }
    step.source = XLA_STEP_CALL;
    if (xla_begins(name, "PjitFunction("))
        return xla_steps_add(steps, step, name);
    int rc = xla_steps_launch(steps, step, name);
    /* On the CPU backend the operations of a module run on threads of the host. */
    return rc || !stats->has[XLA_STAT_HLO_MODULE]
               ? rc
               : xla_steps_module_time(steps, stats->text[XLA_STAT_HLO_MODULE], step.start,
                                       step.end);
}

/* The name of an event in the store: the short one where an operation has one. */
static int name_of(struct xspace *space, struct xplane_event_metadata *metadata, int64_t *id)
{
    struct pb_span name = {(const unsigned char *)"(no name)", 9};
    if (metadata && metadata->string) {
        *id = metadata->string;
        return 0;
    }
    if (metadata && (metadata->display_name.bytes || metadata->name.bytes))
        name = metadata->display_name.bytes ? metadata->display_name : metadata->name;
    if (name.bytes > 1 && *name.data == '$') /* how the Python tracer marks its functions */
        name = (struct pb_span){name.data + 1, name.bytes - 1};
    int rc = imp_rows_string(&space->rows, (const char *)name.data, name.bytes, id);
    if (!rc && metadata)
        metadata->string = *id;
    return rc;
}

/* Writes one event. */
static int put_event(struct line *line, struct pb_span message)
{
    static const struct pb_span no_name = {NULL, 0};
    struct xspace *space = line->space;
    struct event event = event_of(line, message);
    struct imp_slice slice = {
        .track = line->track, .start = event.start, .dur = event.dur, .correlation = STORE_ABSENT};
    struct store_detail detail = STORE_DETAIL_NONE;
    struct payload payload = {.used = 0};
    struct xla_stats stats;
    char grid[48], block[48];
    struct pb_span name = event.metadata ? xplane_looked(event.metadata->name) : no_name;
    space->rows.run->events++;
    if (!event.metadata && line->plane->cut) {
        space->nameless++;
        return 0;
    }
    if (!event.timed && !event.dur) {
        space->aggregated++;
        return 0;
    }
    memset(stats.has, 0, sizeof stats.has);
    memset(stats.text, 0, sizeof stats.text);
    int rc = event.metadata ? xplane_metadata_stats(line->plane, event.metadata, &stats) : 0;
    if (event.has_stats)
        xplane_stats(line->plane, message, EVENT_STATS, &stats);
    if (!rc)
        rc = note_steps(line, &event, &stats, name);
    if (line->device)
        fill_device(line, &event, &stats, &slice, &detail, grid, block, &payload);
    else
        slice.category =
            xla_host_category(name, stats.has[XLA_STAT_CORRELATION], stats.has[XLA_STAT_HLO_OP]);
    if (!line->device && !event.dur)
        slice.category = "instant";
    if (!line->device && stats.has[XLA_STAT_STEP_NUM])
        detail.schema = "tacho.step";
    if (stats.has[XLA_STAT_CORRELATION] && stats.number[XLA_STAT_CORRELATION] > 0)
        slice.correlation = stats.number[XLA_STAT_CORRELATION];
    if (payload.used) {
        put_raw(&payload, "}");
        detail.payload = payload.text;
    }
    slice.detail = detail.schema ? &detail : NULL;
    if (!rc)
        rc = name_of(space, event.metadata, &slice.name);
    return rc ? rc : imp_rows_slice(&space->rows, &slice);
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------ */

/* The track of a line. Names of lines are not terminated. */
static int track_of(struct line *line, struct pb_span name, int64_t stream)
{
    char text[128], device[32];
    snprintf(text, sizeof text, "%.*s", (int)(name.bytes < 120 ? name.bytes : 120),
             name.bytes ? (const char *)name.data : "");
    if (!line->device)
        return imp_rows_thread(&line->space->rows, line->id, text, &line->track);
    const bool tpu = xla_is_tpu(line->plane->kind);
    snprintf(device, sizeof device, "%s:%" PRId64, tpu ? "tpu" : "gpu", line->plane->device);
    int64_t key = line->plane->device * 2 + tpu;
    if (line->plane->kind == XLA_PLANE_SPARSE)
        stream += xla_sparse_core(line->plane->name);
    if (stream == STORE_ABSENT)
        stream = -1 - (int64_t)line->kind; /* of the device as a whole */
    return imp_rows_stream(&line->space->rows, key, device, stream, text, &line->track);
}

/* Reads one line, or what is there of it. Lines of devices that were made of other lines are
 * not read. */
static int read_line(struct xspace *space, struct xplane *plane, struct pb_span message)
{
    struct line line = {.space = space, .plane = plane, .device = xla_is_device(plane->kind)};
    struct pb_span name = {NULL, 0}, display = {NULL, 0};
    struct pb pb = pb_of(message);
    struct pb_field field;
    int64_t stream = STORE_ABSENT;
    int64_t events = 0;
    int rc = 0;
    while (pb_next(&pb, &field)) {
        if (field.number == LINE_ID)
            line.id = (int64_t)(field.value & INT64_MAX);
        else if (field.number == LINE_TIME)
            line.time = (int64_t)field.value;
        else if (field.number == LINE_NAME && field.wire == PB_BYTES)
            name = field.span;
        else if (field.number == LINE_DISPLAY_NAME && field.wire == PB_BYTES)
            display = field.span;
        events += field.number == LINE_EVENTS;
    }
    space->damaged += pb.bad && !plane->cut;
    if (!events)
        return 0;
    if (line.device)
        line.kind = xla_line_kind_of(plane->kind, name, &stream);
    if (line.kind == XLA_LINE_DERIVED)
        return 0;
    if (plane->cut && !plane->event_count) { /* no track for events that are not read */
        space->nameless += events;
        space->rows.run->events += events;
        return 0;
    }
    if (line.time < 0 || line.time > IMP_TIME_MAX)
        line.time = 0;
    if (line.time < RELATIVE_MOST)
        line.time += space->base;
    rc = track_of(&line, display.bytes ? display : name, stream);
    for (pb = pb_of(message); !rc && pb_next(&pb, &field);)
        if (field.number == LINE_EVENTS && field.wire == PB_BYTES)
            rc = put_event(&line, field.span);
    return rc;
}

int xplane_events(struct xspace *space, struct xplane *plane)
{
    struct pb pb = pb_of(plane->message);
    struct pb_field field;
    struct pb_span rest;
    int rc = 0;
    if (plane->kind == XLA_PLANE_OTHER || plane->kind == XLA_PLANE_TASK ||
        (plane->kind != XLA_PLANE_HOST && plane->device == STORE_ABSENT))
        return 0;
    while (!rc && pb_next(&pb, &field)) {
        if (field.number != PLANE_LINES || field.wire != PB_BYTES)
            continue;
        rc = read_line(space, plane, field.span);
        if (!rc)
            rc = imp_progress(space->rows.run, 0);
    }
    if (!rc && plane->cut && pb_cut(plane->message, PLANE_LINES, &rest))
        rc = read_line(space, plane, rest);
    return rc;
}
