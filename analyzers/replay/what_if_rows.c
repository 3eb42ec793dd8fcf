/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that edits and sensitivities name: what part of the work each replayed node is.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/sensitivity.h"

#define ROW_UNKNOWN 0xff

static size_t row_named(struct an_context *context, struct an_rows *rows, const char *key,
                        enum an_cause cause)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].key, key))
            return i;
    if (rows->count == AN_ROWS_MOST - 1) /* the last one is for the rest */
        key = "op:others";
    if (rows->count == AN_ROWS_MOST)
        return AN_ROWS_MOST - 1;
    rows->row[rows->count] =
        (struct an_row){.key = an_arena_text(context->arena, key), .cause = (uint8_t)cause};
    return rows->count++;
}

static const char *stage_key(const struct an_context *context, uint32_t slice)
{
    switch (slice == AN_NONE ? AN_ROLE_NONE : an_slice_role(context->trace, slice)) {
    case AN_ROLE_READ:
        return "loader.read";
    case AN_ROLE_DECODE:
        return "loader.decode";
    case AN_ROLE_COLLATE:
        return "loader.collate";
    case AN_ROLE_PIN:
        return "loader.pin";
    default:
        return "loader.fetch"; /* making or receiving a batch, as a whole */
    }
}

static const char *collective_key(const struct an_context *context, uint32_t slice)
{
    const struct an_detail *detail =
        slice != AN_NONE ? an_trace_detail(context->trace, context->trace->slice.detail[slice])
                         : NULL;
    const char *name = "";
    if (detail && *detail->collective)
        name = detail->collective;
    else if (slice != AN_NONE)
        name = an_trace_name(context->trace, context->trace->slice.name[slice]);
    return an_arena_format(context->scratch, "collective:%.100s", name);
}

static const char *thread_key(const struct an_context *context, uint32_t slice, enum an_cause cause)
{
    if (cause == AN_CAUSE_INPUT)
        return stage_key(context, slice);
    if (cause == AN_CAUSE_TRANSFER && slice != AN_NONE)
        return collective_key(context, slice);
    if (cause == AN_CAUSE_COMPUTE && slice != AN_NONE)
        return an_arena_format(context->scratch, "op:%.100s",
                               an_trace_name(context->trace, context->trace->slice.name[slice]));
    return an_cause_key(cause);
}

static const char *device_key(const struct an_context *context, size_t op)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[ops->slice[op]]);
    if (ops->class[op] == AN_DEVICE_COMM)
        return collective_key(context, ops->slice[op]);
    if (ops->class[op] == AN_DEVICE_COPY)
        return detail && *detail->copy_kind
                   ? an_arena_format(context->scratch, "copy:%.40s", detail->copy_kind)
                   : "copy";
    return an_arena_format(context->scratch, "op:%s",
                           ops->class[op] == AN_DEVICE_OTHER ? "other"
                                                             : an_device_class_key(ops->class[op]));
}

/* Names the rows of device ops by their class; collectives and copies by their detail, else their
 * name. The memos hold the row of each of these once it is known. */
static int device_rows(const struct an_replay *replay, struct an_rows *rows)
{
    struct an_context *context = replay->context;
    const struct an_device_ops *ops = &context->gpu->op;
    uint8_t of_class[AN_DEVICE_CLASS_COUNT];
    uint8_t *of_name = malloc(context->trace->string_count + 1),
            *of_detail = malloc(context->trace->detail_count + 1);
    int rc = of_name && of_detail ? 0 : TACHO_ENOMEM;
    memset(of_class, ROW_UNKNOWN, sizeof of_class);
    if (!rc) {
        memset(of_name, ROW_UNKNOWN, context->trace->string_count + 1);
        memset(of_detail, ROW_UNKNOWN, context->trace->detail_count + 1);
    }
    for (size_t i = 0; !rc && i < ops->count; i++) {
        uint32_t node = replay->graph->op_node[i],
                 detail = context->trace->slice.detail[ops->slice[i]],
                 name = context->trace->slice.name[ops->slice[i]];
        uint8_t *memo = &of_name[name != AN_NONE ? name : context->trace->string_count];
        if (ops->class[i] != AN_DEVICE_COMM && ops->class[i] != AN_DEVICE_COPY)
            memo = &of_class[ops->class[i]];
        else if (detail != AN_NONE)
            memo = &of_detail[detail];
        if (node == AN_NONE || !replay->inside[node])
            continue;
        if (*memo == ROW_UNKNOWN)
            *memo = (uint8_t)row_named(context, rows, device_key(context, i),
                                       (enum an_cause)replay->graph->cause[node]);
        rows->row_of[node] = *memo;
    }
    free(of_name);
    free(of_detail);
    return rc;
}

/* Names the rows of pieces of threads by cause; those of compute, loaders and collectives by the
 * name of their range, too. */
static int thread_rows(const struct an_replay *replay, struct an_rows *rows)
{
    struct an_context *context = replay->context;
    const struct an_graph *graph = replay->graph;
    size_t names = context->trace->string_count + 1;
    uint8_t *memo = malloc(AN_CAUSE_COUNT * names);
    if (!memo)
        return TACHO_ENOMEM;
    memset(memo, ROW_UNKNOWN, AN_CAUSE_COUNT * names);
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i], slice = graph->slice[node];
        if (an_graph_on_device(graph, node) &&
            graph->kind[node] != AN_NODE_WAIT) /* that is waiting for other ranks, as on a thread */
            continue;
        bool apart = graph->cause[node] == AN_CAUSE_INPUT ||
                     graph->cause[node] == AN_CAUSE_TRANSFER ||
                     graph->cause[node] == AN_CAUSE_COMPUTE;
        uint32_t name = apart && slice != AN_NONE ? context->trace->slice.name[slice] : AN_NONE;
        uint8_t *row = &memo[graph->cause[node] * names + (name == AN_NONE ? names - 1 : name)];
        if (*row == ROW_UNKNOWN)
            *row = (uint8_t)row_named(context, rows, thread_key(context, slice, graph->cause[node]),
                                      (enum an_cause)graph->cause[node]);
        rows->row_of[node] = *row;
    }
    free(memo);
    return 0;
}

int an_rows_of(const struct an_replay *replay, struct an_rows *rows)
{
    *rows = (struct an_rows){0};
    if (!(rows->row_of = an_arena_zero(replay->context->scratch, replay->graph->node_count, 1)))
        return TACHO_ENOMEM;
    memset(rows->row_of, AN_ROWS_MOST, replay->graph->node_count);
    rows->dispatch =
        row_named(replay->context, rows, an_cause_key(AN_CAUSE_DISPATCH), AN_CAUSE_DISPATCH);
    int rc = thread_rows(replay, rows);
    if (!rc && replay->context->gpu)
        rc = device_rows(replay, rows);
    for (size_t i = 0; !rc && i < replay->node_count; i++) {
        if (replay->phase[replay->node[i]])
            rows->row_of[replay->node[i]] = AN_ROWS_MOST;
        uint8_t row = rows->row_of[replay->node[i]];
        if (row < rows->count)
            rows->row[row].own_ns =
                an_time_add(rows->row[row].own_ns, replay->own[replay->node[i]]);
    }
    return rc;
}

const char *an_rows_like(const struct an_rows *rows, const char *key, struct an_arena *arena)
{
    size_t prefix = strcspn(key, ":.");
    const char *list = "";
    for (size_t i = 0; i < rows->count; i++)
        if (!strncmp(rows->row[i].key, key, prefix) && strlen(list) < 200)
            list = an_arena_format(arena, "%s%s%s", list, *list ? ", " : "", rows->row[i].key);
    return *list ? list : NULL;
}
