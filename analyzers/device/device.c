/* SPDX-License-Identifier: Apache-2.0
 *
 * Device rows -> columns of ops, linked to the host calls that launched them by (process,
 * correlation). Everything is linear in the number of rows but for the sort of equal keys.
 */
#include "analyzers/device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_private.h"

#define ZERO_APART 500000000 /* ns: what is at 0 this long before all else has no time */

/* ---- categories ---------------------------------------------------------------------------------------------------------- */

static enum row row_of(const char *category)
{
    static const struct {
        const char *category;
        enum row row;
    } rows[] = {{"kernel", ROW_KERNEL}, {"memcpy", ROW_MEMCPY}, {"memset", ROW_MEMSET},
                {"graph", ROW_GRAPH},   {"runtime", ROW_CALL},  {"driver", ROW_CALL},
                {"NCCL", ROW_COMM},     {"RCCL", ROW_COMM}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(category, rows[i].category))
            return rows[i].row;
    return ROW_NONE;
}

/* Is a host range of this name a call of a communicator? */
static bool is_comm_name(const char *name)
{
    return !strcmp(name, "record_param_comms") || !strncmp(name, "nccl:", 5) ||
           !strncmp(name, "rccl:", 5) || !strncmp(name, "c10d::", 6);
}

bool an_slice_launches(const struct an_trace *trace, size_t slice)
{
    return an_api_launches(an_slice_api(trace, slice)) &&
           row_of(an_slice_category(trace, slice)) == ROW_CALL;
}

bool an_is_launch_call(const struct an_trace *trace, size_t slice)
{
    uint32_t parent = trace->slice.parent[slice];
    return an_slice_launches(trace, slice) &&
           (parent == AN_NONE || !an_slice_launches(trace, parent));
}

int64_t an_launch_calls(const struct an_trace *trace)
{
    int64_t calls = 0;
    for (size_t i = 0; i < trace->slice.count; i++)
        calls += an_is_launch_call(trace, i);
    return calls;
}

static bool is_device_row(const struct builder *builder, size_t slice)
{
    enum row row = an_row_of(builder, slice);
    return row == ROW_KERNEL || row == ROW_MEMCPY || row == ROW_MEMSET || row == ROW_GRAPH;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------- */

static int64_t ordinal_of(const char *device)
{
    const char *colon = strrchr(device, ':');
    char *end = NULL;
    long long ordinal = colon ? strtoll(colon + 1, &end, 10) : 0;
    return colon && end != colon + 1 && !*end ? ordinal : 0;
}

static int stream_order(const void *first, const void *second, void *ctx)
{
    const struct an_trace *trace = ctx;
    const struct an_track *left = &trace->track[*(const uint32_t *)first];
    const struct an_track *right = &trace->track[*(const uint32_t *)second];
    int order = 2 * AN_COMPARE(left->process, right->process) +
                AN_COMPARE(ordinal_of(left->device), ordinal_of(right->device));
    order = order ? order : strcmp(left->device, right->device);
    return order ? order : AN_COMPARE(left, right);
}

/* Lists the streams that have device rows, in order of process and device. */
static int find_streams(struct builder *builder)
{
    const struct an_trace *trace = builder->trace;
    if (!(builder->stream =
              an_arena_zero(builder->scratch, trace->track_count, sizeof *builder->stream)))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        size_t rows = 0;
        if (strcmp(track->kind, "stream") != 0)
            continue;
        for (size_t i = track->slice_first; i < an_track_end(track); i++)
            rows += is_device_row(builder, i);
        if (rows)
            builder->stream[builder->stream_count++] = k;
        builder->rows += rows;
    }
    if (builder->stream_count)
        qsort_r(builder->stream, builder->stream_count, sizeof *builder->stream, stream_order,
                (void *)(uintptr_t)trace);
    return 0;
}

static bool same_device(const struct an_trace *trace, uint32_t first, uint32_t second)
{
    return trace->track[first].process == trace->track[second].process &&
           !strcmp(trace->track[first].device, trace->track[second].device);
}

/* The value that a property (".name") has on all devices of a process; NULL: they differ or have
 * none. ROCm numbers the processors of a machine before its GPUs, so that events of GPUs 2 to 9
 * belong to the properties 0 to 7. */
static const char *shared_property(const struct builder *builder, int64_t process,
                                   const char *property)
{
    const struct an_trace *trace = builder->trace;
    const char *shared = NULL,
               *prefix = an_arena_format(builder->scratch, "device.%lld.gpu:", (long long)process);
    for (size_t i = 0; prefix && i < trace->key_count; i++) {
        const char *key = trace->key[i].key, *value = trace->key[i].value;
        size_t length = strlen(key), end = strlen(property);
        if (strncmp(key, prefix, strlen(prefix)) != 0 || length < end ||
            strcmp(key + length - end, property) != 0)
            continue;
        if (shared && strcmp(shared, value) != 0)
            return NULL;
        shared = value;
    }
    return shared;
}

/* A property of a device as the trace has it, NULL: it is not known. */
static const char *property_of(const struct builder *builder, const struct an_device *device,
                               const char *name, const char *property)
{
    const struct an_process *process = an_trace_process(builder->trace, device->process);
    if (!process)
        return NULL;
    const char *key = an_arena_format(builder->scratch, "device.%lld.%s%s", (long long)process->id,
                                      name, property);
    const char *value = key ? an_trace_key(builder->trace, key) : NULL;
    return value ? value : shared_property(builder, process->id, property);
}

static void name_device(const struct builder *builder, struct an_device *out, const char *device,
                        int64_t ordinal)
{
    const struct an_process *process = an_trace_process(builder->trace, out->process);
    const char *name = property_of(builder, out, device, ".name"),
               *sms = property_of(builder, out, device, ".sms");
    out->label = strchr(device, ':')
                     ? an_arena_text(builder->arena, device)
                     : an_arena_format(builder->arena, "gpu:%" PRId64, out->ordinal);
    out->name = an_arena_text(builder->arena, name ? name : "");
    out->sms = sms ? strtoll(sms, NULL, 10) : 0;
    out->rank = process && process->rank != STORE_ABSENT ? process->rank : ordinal;
}

static bool is_zero(const struct builder *builder, int64_t time)
{
    for (size_t i = 0; i < builder->base_count; i++)
        if (time == builder->base[i])
            return true;
    return false;
}

/* Finds the times that stand for "no time": CUPTI writes 0 where it has none, and an importer adds
 * the base of its file to it. `begin` gets the first time that is not one of these: a trace that
 * really begins at 0 has others soon after it. */
static int find_bases(struct builder *builder)
{
    const struct an_trace *trace = builder->trace;
    if (!(builder->base =
              an_arena_zero(builder->scratch, trace->key_count + 1, sizeof *builder->base)))
        return TACHO_ENOMEM;
    builder->base_count = 1;
    for (size_t i = 0; i < trace->key_count; i++)
        if (!strncmp(trace->key[i].key, "source.base_ns", 14))
            builder->base[builder->base_count++] = strtoll(trace->key[i].value, NULL, 10);
    builder->begin = INT64_MAX;
    for (size_t i = 0; i < trace->slice.count; i++)
        if (trace->slice.start[i] < builder->begin && !is_zero(builder, trace->slice.start[i]))
            builder->begin = trace->slice.start[i];
    return 0;
}

static bool is_timed(const struct builder *builder, size_t slice)
{
    const struct an_slices *slices = &builder->trace->slice;
    if (slices->dur[slice] == AN_OPEN)
        return false;
    return !is_zero(builder, slices->start[slice]) ||
           an_time_sub(builder->begin, slices->start[slice]) < ZERO_APART;
}

struct tie {
    int64_t end;
    uint32_t slice, track;
};

static int tie_order(const void *first, const void *second)
{
    const struct tie *left = first, *right = second;
    return 2 * AN_COMPARE(left->end, right->end) + AN_COMPARE(left->slice, right->slice);
}

/* Orders ops [first, last), which begin at the same time, by their ends. */
static int sort_ties(struct builder *builder, size_t first, size_t last)
{
    struct an_device_ops *ops = &builder->devices->op;
    bool sorted = true;
    for (size_t i = first + 1; i < last; i++)
        sorted = sorted && (ops->end[i - 1] < ops->end[i] ||
                            (ops->end[i - 1] == ops->end[i] && ops->slice[i - 1] < ops->slice[i]));
    if (sorted)
        return 0;
    struct tie *tie = malloc((last - first) * sizeof *tie);
    if (!tie)
        return TACHO_ENOMEM;
    for (size_t i = first; i < last; i++)
        tie[i - first] = (struct tie){ops->end[i], ops->slice[i], ops->track[i]};
    qsort(tie, last - first, sizeof *tie, tie_order);
    for (size_t i = first; i < last; i++) {
        ops->end[i] = tie[i - first].end;
        ops->slice[i] = tie[i - first].slice;
        ops->track[i] = tie[i - first].track;
    }
    free(tie);
    return 0;
}

/* Lists the device ops of some streams of a device in builder->pair; returns their number. */
static size_t list_ops(struct builder *builder, struct an_device *device, const uint32_t *stream,
                       size_t streams)
{
    const struct an_trace *trace = builder->trace;
    size_t count = 0;
    for (size_t k = 0; k < streams; k++) {
        const struct an_track *track = &trace->track[stream[k]];
        size_t before = count;
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            if (!is_device_row(builder, i))
                continue;
            if (is_timed(builder, i))
                builder->pair[count++] =
                    (struct an_pair){an_pair_key(trace->slice.start[i]), (uint32_t)i, stream[k]};
            else
                builder->devices->untimed++;
        }
        device->streams += count > before;
    }
    return count;
}

/* Appends the device ops of the streams of one device to the columns, in order of start and then
 * of end. The streams are sorted already, but they overlap, so all ops of the device are sorted
 * together: by radix on the start, then the few that start at the same time by their end. */
static int add_ops(struct builder *builder, struct an_device *device, const uint32_t *stream,
                   size_t streams)
{
    const struct an_trace *trace = builder->trace;
    struct an_device_ops *ops = &builder->devices->op;
    size_t count = list_ops(builder, device, stream, streams);
    an_pairs_sort(builder->pair, builder->work, count);
    device->first = ops->count;
    device->count = count;
    for (size_t i = 0; i < count; i++) {
        size_t to = ops->count + i;
        ops->start[to] = trace->slice.start[builder->pair[i].value];
        ops->end[to] = an_slice_end(trace, builder->pair[i].value);
        ops->slice[to] = builder->pair[i].value;
        ops->track[to] = builder->pair[i].extra;
    }
    ops->count += count;
    int rc = 0;
    for (size_t i = device->first, next; i < ops->count && !rc; i = next) {
        for (next = i + 1; next < ops->count && ops->start[next] == ops->start[i];)
            next++;
        rc = next > i + 1 ? sort_ties(builder, i, next) : 0;
    }
    return rc;
}

/* Allocates the columns of device ops and the list of devices. */
static int allocate_ops(struct builder *builder)
{
    struct an_arena *arena = builder->scratch;
    struct an_device_ops *ops = &builder->devices->op;
    ops->start = an_arena_zero(arena, builder->rows, sizeof *ops->start);
    ops->end = an_arena_zero(arena, builder->rows, sizeof *ops->end);
    ops->slice = an_arena_zero(arena, builder->rows, sizeof *ops->slice);
    ops->track = an_arena_zero(arena, builder->rows, sizeof *ops->track);
    ops->launch = an_arena_zero(arena, builder->rows, sizeof *ops->launch);
    ops->class = an_arena_zero(arena, builder->rows, sizeof *ops->class);
    ops->known = an_arena_zero(arena, builder->rows, sizeof *ops->known);
    builder->devices->device =
        an_arena_zero(arena, builder->stream_count, sizeof *builder->devices->device);
    if (!ops->start || !ops->end || !ops->slice || !ops->track || !ops->launch || !ops->class ||
        !ops->known || !builder->devices->device)
        return TACHO_ENOMEM;
    return 0;
}

/* Fills the columns of device ops device by device. Streams of one device follow each other in the
 * list of streams. */
static int make_ops(struct builder *builder)
{
    const struct an_trace *trace = builder->trace;
    int64_t ordinal = -1;
    int rc = allocate_ops(builder);
    for (size_t i = 0, next; i < builder->stream_count && !rc; i = next) {
        for (next = i + 1; next < builder->stream_count &&
                           same_device(trace, builder->stream[i], builder->stream[next]);)
            next++;
        const struct an_track *track = &trace->track[builder->stream[i]];
        struct an_device *device = &builder->devices->device[builder->devices->device_count++];
        ordinal += !i || track->process != trace->track[builder->stream[i - 1]].process;
        *device =
            (struct an_device){.process = track->process, .ordinal = ordinal_of(track->device)};
        name_device(builder, device, track->device, ordinal);
        rc = add_ops(builder, device, builder->stream + i, next - i);
    }
    return rc;
}

/* ---- classes ------------------------------------------------------------------------------------------------------------- */

static const struct an_name_class *class_of_name(struct builder *builder, uint32_t name)
{
    static const struct an_name_class none = {AN_DEVICE_OTHER, false, -1, NULL};
    if (name == AN_NONE)
        return &none;
    if (!builder->matched[name]) {
        struct an_name_class name_class =
            an_class_of(builder->classes, an_trace_name(builder->trace, name));
        name_class.dtype = an_arena_text(builder->arena, name_class.dtype); /* outlives the table */
        builder->name_class[name] = name_class;
        builder->matched[name] = 1;
    }
    return &builder->name_class[name];
}

/* Does the trace say that a kernel is a collective, whatever its name? */
static bool is_collective(const struct an_trace *trace, size_t slice)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    return detail && (*detail->collective || !strcmp(detail->schema, "torch.comm"));
}

/* Does the trace say that it multiplies matrices, whatever its name (fusions of XLA)? */
static bool is_matrix(const struct an_trace *trace, size_t slice)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    return detail && !strcmp(detail->kind, "matrix");
}

/* Gives each device op its class: by its name, else by what the trace says it is. */
static void classify(struct builder *builder)
{
    static const uint8_t class_of_row[] = {[ROW_MEMCPY] = AN_DEVICE_COPY,
                                           [ROW_MEMSET] = AN_DEVICE_MEMSET,
                                           [ROW_GRAPH] = AN_DEVICE_OPAQUE};
    const struct an_trace *trace = builder->trace;
    struct an_device_ops *ops = &builder->devices->op;
    for (size_t i = 0; i < ops->count; i++) {
        uint32_t slice = ops->slice[i];
        enum row row = an_row_of(builder, slice);
        ops->known[i] = 1;
        if (row == ROW_KERNEL) {
            const struct an_name_class *name_class =
                class_of_name(builder, trace->slice.name[slice]);
            bool comm = !name_class->known && is_collective(trace, slice);
            bool matrix = !name_class->known && !comm && is_matrix(trace, slice);
            ops->class[i] = (uint8_t)name_class->class;
            if (comm || matrix)
                ops->class[i] = comm ? AN_DEVICE_COMM : AN_DEVICE_MATRIX;
            ops->known[i] = name_class->known || comm || matrix;
        } else {
            ops->class[i] = class_of_row[row];
        }
    }
}

/* Is the host range, or one around it, a call of a communicator? */
static bool in_comm_range(const struct builder *builder, uint32_t slice)
{
    const struct an_trace *trace = builder->trace;
    int levels = AN_DEPTH_MAX;
    for (uint32_t around = slice; around != AN_NONE && levels--;
         around = trace->slice.parent[around]) {
        uint32_t name = trace->slice.name[around];
        bool comm = (name != AN_NONE && builder->comm[name]) ||
                    an_row_of(builder, around) == ROW_COMM ||
                    an_trace_role(trace, trace->slice.detail[around]) == AN_ROLE_COMM;
        if (comm && an_slice_open_at(trace, around, slice))
            return true;
    }
    return false;
}

/* Turns copies of a communicator into communication: those that a call of it launched, and those
 * on a stream that only communication kernels use. */
static int claim_copies(struct builder *builder)
{
    struct an_device_ops *ops = &builder->devices->op;
    /* Bits: 1 comm, 2 compute kernels. */
    uint8_t *stream = an_arena_zero(builder->scratch, builder->trace->track_count, sizeof *stream);
    if (!stream)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < ops->count; i++) {
        unsigned bit = 1u << ops->class[i];
        if (an_row_of(builder, ops->slice[i]) == ROW_KERNEL)
            stream[ops->track[i]] |= bit & AN_DEVICE_COMM_MASK ? 1 : 2;
    }
    for (size_t i = 0; i < ops->count; i++)
        if (ops->class[i] == AN_DEVICE_COPY &&
            (stream[ops->track[i]] == 1 ||
             (ops->launch[i] != AN_NONE && in_comm_range(builder, ops->launch[i]))))
            ops->class[i] = AN_DEVICE_COMM;
    return 0;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------- */

static int read_strings(struct builder *builder)
{
    const struct an_trace *trace = builder->trace;
    builder->category = an_arena_zero(builder->scratch, trace->string_count, 1);
    builder->comm = an_arena_zero(builder->scratch, trace->string_count, 1);
    builder->matched = an_arena_zero(builder->scratch, trace->string_count, 1);
    if (!builder->category || !builder->comm || !builder->matched)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count; i++) {
        builder->category[i] = (uint8_t)row_of(trace->string[i]);
        builder->comm[i] = is_comm_name(trace->string[i]);
    }
    return 0;
}

static int build(struct builder *builder)
{
    int rc = find_bases(builder);
    rc = rc ? rc : an_builder_scratch(builder, builder->rows);
    rc = rc ? rc : make_ops(builder);
    rc = rc ? rc : an_builder_links(builder);
    if (rc)
        return rc;
    builder->name_class =
        an_arena_zero(builder->scratch, builder->trace->string_count, sizeof *builder->name_class);
    if (!builder->name_class)
        return TACHO_ENOMEM;
    builder->devices->name_class = builder->name_class;
    classify(builder);
    rc = claim_copies(builder);
    rc = rc ? rc : an_builder_origins(builder);
    return rc ? rc : an_devices_split(builder->devices);
}

int an_devices_build(const struct an_trace *trace, const char *user_classes, struct an_arena *arena,
                     struct an_arena *scratch, struct an_devices **out, struct tacho_error *err)
{
    struct builder builder = {.trace = trace, .arena = arena, .scratch = scratch};
    *out = NULL;
    int rc = read_strings(&builder);
    rc = rc ? rc : find_streams(&builder);
    if (!rc && (builder.stream_count || user_classes))
        rc = an_classes_new(user_classes, &builder.classes, err);
    if (!rc && builder.stream_count) {
        builder.devices = an_arena_zero(scratch, 1, sizeof *builder.devices);
        if (builder.devices)
            *builder.devices = (struct an_devices){.trace = trace, .scratch = scratch};
        rc = builder.devices ? build(&builder) : TACHO_ENOMEM;
        *out = rc ? NULL : builder.devices;
    }
    an_classes_free(builder.classes);
    free(builder.pair);
    free(builder.work);
    return rc;
}
