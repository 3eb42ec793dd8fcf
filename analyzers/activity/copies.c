/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and memsets by kind and by the host's memory, over the whole capture: bytes, time, how
 * much of it nothing hid, bandwidth, and whether the host waited.
 *
 * A copy is synchronous when its call waits for it: a copying call without Async in its name, and
 * any copy from or to pageable memory, which the driver stages. Copies between devices, copies of a
 * graph and memsets never make the host wait.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/sets.h"
#include "analyzers/device/api.h"
#include "analyzers/steps/context.h"

struct row {
    struct an_copy_row row;
    bool memset;
    int64_t sync, call_unknown, memory_unknown;
    int64_t sized; /* ops with a size */
    double sized_ns, best;
    struct an_span_list spans; /* of its ops on the device at hand */
};

struct rows {
    struct row *row;
    size_t count, room;
    /* Row + 1 of a detail: copies at 2 i, memsets at 2 i + 1; the last two: no detail. */
    uint32_t *of_detail;
    uint32_t *of_op; /* row of each op, AN_NONE: no copy */
};

enum waits { WAITS_NO, WAITS_PAGEABLE, WAITS_CALL, WAITS_CALL_UNKNOWN, WAITS_MEMORY_UNKNOWN };

static bool between_devices(const char *kind)
{
    return !strcmp(kind, "DtoD") || !strcmp(kind, "PtoP");
}

static enum waits waits_of(const struct an_context *context, size_t op, const struct row *row)
{
    uint32_t call = context->gpu->op.launch[op];
    if (row->memset || between_devices(row->row.kind))
        return WAITS_NO;
    struct an_api_call api = {AN_API_OTHER, false};
    if (call != AN_NONE) {
        api = an_slice_api(context->trace, call);
        if (api.kind != AN_API_COPY)
            return WAITS_NO;
    }
    if (!strcmp(row->row.memory, "pageable"))
        return WAITS_PAGEABLE;
    if (call == AN_NONE)
        return WAITS_CALL_UNKNOWN;
    if (!api.async)
        return WAITS_CALL;
    return *row->row.memory ? WAITS_NO : WAITS_MEMORY_UNKNOWN;
}

/* ---- rows --------------------------------------------------------------------------------------------------------------- */

static uint32_t row_find(struct an_context *context, struct rows *rows, const char *kind,
                         const char *memory, bool memset)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].memset == memset && !strcmp(rows->row[i].row.kind, kind) &&
            !strcmp(rows->row[i].row.memory, memory))
            return (uint32_t)i;
    if (an_grow(&rows->row, &rows->room, rows->count + 1, sizeof *rows->row))
        return AN_NONE;
    rows->row[rows->count] = (struct row){.row = {.kind = an_arena_text(context->arena, kind),
                                                  .memory = an_arena_text(context->arena, memory)},
                                          .memset = memset};
    return (uint32_t)rows->count++;
}

/* Row of an op that is a copy or a memset; *row stays AN_NONE for others. */
static int row_of(struct an_context *context, struct rows *rows, size_t op, uint32_t *row)
{
    size_t slice = context->gpu->op.slice[op];
    const char *category = an_slice_category(context->trace, slice);
    bool memset = !strcmp(category, "memset");
    if (!memset && strcmp(category, "memcpy") != 0)
        return 0;
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[slice]);
    uint32_t *known = &rows->of_detail[2 * (detail ? context->trace->slice.detail[slice]
                                                   : context->trace->detail_count) +
                                       memset];
    if (!*known) {
        const char *kind = memset ? "memset" : "unknown";
        if (!memset && detail && *detail->copy_kind)
            kind = detail->copy_kind;
        uint32_t found = row_find(context, rows, kind, detail ? detail->kind : "", memset);
        if (found == AN_NONE)
            return TACHO_ENOMEM;
        *known = found + 1;
    }
    *row = *known - 1;
    return 0;
}

/* Returns the size of a copy or memset, STORE_ABSENT if it is not known. Traces of AMD devices
 * record it with the call. */
static int64_t size_of(const struct an_context *context, size_t op)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_trace *trace = context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[ops->slice[op]]);
    if ((!detail || detail->bytes == STORE_ABSENT) && ops->launch[op] != AN_NONE) {
        enum an_api_kind kind = an_slice_api(trace, ops->launch[op]).kind;
        detail = kind == AN_API_COPY || kind == AN_API_MEMSET
                     ? an_trace_detail(trace, trace->slice.detail[ops->launch[op]])
                     : NULL;
    }
    return detail && detail->bytes >= 0 ? detail->bytes : STORE_ABSENT;
}

static void row_add(struct an_context *context, struct row *row, size_t op)
{
    const struct an_device_ops *ops = &context->gpu->op;
    int64_t dur = an_time_sub(ops->end[op], ops->start[op]);
    row->row.count++;
    row->row.total_ns = an_time_add(row->row.total_ns, dur);
    enum waits waits = waits_of(context, op, row);
    row->sync += waits == WAITS_PAGEABLE || waits == WAITS_CALL;
    row->call_unknown += waits == WAITS_CALL_UNKNOWN;
    row->memory_unknown += waits == WAITS_MEMORY_UNKNOWN;
    if (waits == WAITS_PAGEABLE)
        row->row.rule = "pageable memory: the driver stages it while the call waits";
    else if (waits == WAITS_CALL && !row->row.rule)
        row->row.rule = "the call waits for its copy (no Async in its name)";
    int64_t bytes = size_of(context, op);
    if (bytes == STORE_ABSENT)
        return;
    row->sized++;
    row->row.bytes.value = an_time_add(row->row.bytes.value, bytes);
    row->sized_ns += (double)dur;
    if (dur > 0 && (double)bytes / (double)dur > row->best)
        row->best = (double)bytes / (double)dur;
}

/* ---- exposed time ------------------------------------------------------------------------------------------------------- */

/* Adds the time of each row's copies that neither compute nor communication of the device
 * overlaps. Copies that belong to a communicator count as communication, so they never overlap
 * themselves. */
static int add_exposed_time(struct an_context *context, const struct an_device *device,
                            struct rows *rows)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const unsigned busy = AN_DEVICE_COMPUTE_MASK | AN_DEVICE_COMM_MASK;
    const unsigned mask[] = {busy, busy & ~(1u << AN_DEVICE_MEMSET)}; /* for copies, for memsets */
    struct an_set hide[2] = {{NULL, 0}, {NULL, 0}};
    struct an_arena *arena = an_arena_new();
    int rc = arena ? 0 : TACHO_ENOMEM;
    for (int i = 0; i < 2 && !rc; i++)
        rc = an_device_spans(context->gpu, device, mask[i], INT64_MIN, INT64_MAX, &hide[i].span,
                             &hide[i].count);
    for (size_t i = device->first; i < an_device_end(device) && !rc; i++)
        if (rows->of_op[i] != AN_NONE)
            rc = an_span_list_add(&rows->row[rows->of_op[i]].spans, ops->start[i], ops->end[i]);
    for (size_t i = 0; i < rows->count && !rc; i++) {
        struct row *row = &rows->row[i];
        struct an_set rest;
        rc = an_set_combine(arena, an_spans_subtract, an_span_list_set(&row->spans),
                            hide[row->memset], &rest);
        if (!rc)
            row->row.exposed_ns = an_time_add(row->row.exposed_ns, an_set_measure(rest));
        row->spans.count = 0;
    }
    an_arena_give_back(context->scratch, hide[0].span);
    an_arena_give_back(context->scratch, hide[1].span);
    an_arena_free(arena);
    return rc;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

static int row_order(const void *first, const void *second)
{
    const struct an_copy_row *left = &((const struct row *)first)->row;
    const struct an_copy_row *right = &((const struct row *)second)->row;
    int order = AN_COMPARE(right->total_ns, left->total_ns);
    order = order ? order : strcmp(left->kind, right->kind);
    return order ? order : strcmp(left->memory, right->memory);
}

static void finish_row(struct an_context *context, struct row *row)
{
    const char *unsized = "the trace does not say how many bytes";
    int64_t bytes = row->row.bytes.value;
    row->row.bytes = row->sized ? an_int(bytes) : an_int_none(unsized);
    row->row.bytes_per_s = row->row.max_bytes_per_s =
        an_num_none(row->sized ? "they took 0 ns" : unsized);
    if (row->sized && row->sized_ns > 0)
        row->row.bytes_per_s = an_num((double)bytes / row->sized_ns * 1e9);
    if (row->best > 0)
        row->row.max_bytes_per_s = an_num(row->best * 1e9);
    if (row->call_unknown)
        row->row.synchronous = an_int_none(an_arena_format(
            context->arena,
            "the call of %" PRId64 " of %" PRId64 " is not in the file; of the others %" PRId64,
            row->call_unknown, row->row.count, row->sync));
    else if (row->memory_unknown)
        row->row.synchronous =
            an_int_none("the trace does not say whether the host's memory is pageable");
    else
        row->row.synchronous = an_int(row->sync);
}

static void copies_absent(struct an_context *context, const char *reason)
{
    context->result->copies.reason = reason;
}

/* Gathers the copies and memsets in one row for each kind and memory, with their exposed time, and
 * sorts the rows by total time. */
static int copies_run(struct an_context *context)
{
    const struct an_devices *devices = context->gpu;
    struct rows rows = {.of_detail =
                            calloc(2 * context->trace->detail_count + 2, sizeof *rows.of_detail),
                        .of_op = malloc((devices->op.count + 1) * sizeof *rows.of_op)};
    int rc = rows.of_detail && rows.of_op ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < devices->op.count && !rc; i++) {
        rows.of_op[i] = AN_NONE;
        if (!(rc = row_of(context, &rows, i, &rows.of_op[i])) && rows.of_op[i] != AN_NONE)
            row_add(context, &rows.row[rows.of_op[i]], i);
    }
    for (size_t device = 0; device < devices->device_count && !rc && rows.count; device++)
        rc = add_exposed_time(context, &devices->device[device], &rows);
    struct an_copy_row *out = rc ? NULL : an_arena_zero(context->arena, rows.count, sizeof *out);
    if (out) {
        if (rows.count)
            qsort(rows.row, rows.count, sizeof *rows.row, row_order);
        for (size_t i = 0; i < rows.count; i++) {
            finish_row(context, &rows.row[i]);
            out[i] = rows.row[i].row;
        }
        context->result->copy = out;
        context->result->copy_count = rows.count;
    } else if (!rc) {
        rc = TACHO_ENOMEM;
    }
    for (size_t i = 0; i < rows.count; i++)
        free(rows.row[i].spans.span);
    free(rows.row);
    free(rows.of_detail);
    free(rows.of_op);
    return rc;
}

const struct an_analyzer an_copies = {
    .name = "copies",
    .help = "copies and memsets by kind and memory: bytes, exposed time, bandwidth, waits",
    .needs = AN_INPUT_DEVICES,
    .run = copies_run,
    .absent = copies_absent,
};
