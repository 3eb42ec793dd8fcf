/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sources and pieces. Of the steps whose ranges are all in the file, fusion looks at
 * several; the graph, lifetimes, width and repeated work are of the one with the median duration.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/dataflow/flow.h"

#define STEPS_MOST 32 /* that fusion looks at */

/* The surest first. */
static const struct flow_source *const sources[] = {&flow_recorded, &flow_launched, &flow_ranges};
static int (*const pieces[])(const struct flow *flow,
                             struct an_dataflow *out) = {flow_lifetimes, flow_width, flow_repeats};

static void dataflow_absent(struct an_context *context, const char *reason)
{
    struct an_dataflow *out = &context->result->dataflow;
    *out = (struct an_dataflow){.reason = reason, .fusion_reason = reason};
    out->fusion_gain_ms = out->fusion_low_ms = out->fusion_high_ms = out->step_ms =
        out->width_mean = an_num_none(reason);
    out->path_ns = out->width_most = out->two_streams_ns = out->tensor_count = out->tensor_bytes =
        out->live_bound_bytes = out->pool_bytes = out->in_place_saved_bytes = an_int_none(reason);
}

/* Fills the flow of a step from the first source that knows its operators. NULL in *source: none
 * does. */
static int read_step(struct flow *flow, const struct an_step *step,
                     const struct flow_source **source)
{
    int rc = 0;
    *source = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !rc && !*source; i++) {
        flow_clear(flow);
        flow->step = step;
        rc = sources[i]->read(flow);
        if (!rc && flow->count)
            *source = sources[i];
    }
    return rc;
}

static int duration_order(const void *left, const void *right)
{
    const struct an_step *const *first = left, *const *second = right;
    int by_time = AN_COMPARE(an_step_ns(*first), an_step_ns(*second));
    return 2 * by_time + AN_COMPARE((*first)->start, (*second)->start);
}

/* The steps of the first lane that has some whose ranges are all in the file, by duration: those of
 * the statistics, else (a graph of one step) any. */
static size_t choose_steps(const struct an_context *context, const struct an_step **chosen)
{
    size_t count = 0;
    for (int counted = 1; counted >= 0 && !count; counted--)
        for (size_t i = 0; i < context->step_count; i++) {
            const struct an_step *step = &context->step[i];
            if (step->end == STORE_ABSENT || (counted && !an_step_detailed(step)) ||
                (count && step->lane != chosen[0]->lane))
                continue;
            chosen[count++] = step;
        }
    if (count)
        qsort(chosen, count, sizeof *chosen, duration_order);
    return count;
}

/* ---- for exports ------------------------------------------------------------------------------- */

/* The innermost range around an operator that is not one itself: a module, a phase of the step. */
static const char *range_around(const struct an_trace *trace, uint32_t slice)
{
    int levels = AN_DEPTH_MAX;
    uint32_t around = trace->slice.parent[slice];
    for (; around != AN_NONE && levels--; around = trace->slice.parent[around]) {
        const char *name = an_trace_name(trace, trace->slice.name[around]);
        if (an_slice_role(trace, around) != AN_ROLE_WORK && strncmp(name, "aten::", 6) != 0)
            return name;
    }
    return "";
}

static int keep_graph(const struct flow *flow, const struct fusion *fusion, struct an_dataflow *out)
{
    struct an_context *context = flow->context;
    struct an_flow_node *node = an_arena_zero(context->arena, flow->count + 1, sizeof *node);
    struct an_flow_edge *edge = an_arena_zero(context->arena, flow->edge_count + 1, sizeof *edge);
    size_t *depth = malloc((flow->count + 1) * sizeof *depth);
    int rc = node && edge && depth ? 0 : TACHO_ENOMEM;
    if (!rc)
        flow_depths(flow, depth);
    for (uint32_t i = 0; i < flow->count && !rc; i++) {
        const struct flow_op *op = &flow->op[i];
        node[i] = (struct an_flow_node){
            .name = an_arena_text(context->arena, op->name),
            .kind = flow_kind_text(op->kind),
            .where = an_arena_text(context->arena, range_around(context->trace, op->slice)),
            .start_ns = op->start,
            .ns = op->ns,
            .bytes_read = op->read,
            .bytes_written = op->written,
            .depth = depth[i],
            .chain = fusion_chain_of(fusion, i)};
    }
    for (size_t i = 0; i < flow->edge_count && !rc; i++)
        edge[i] = (struct an_flow_edge){flow->edge[i].from, flow->edge[i].to, flow->edge[i].bytes,
                                        flow_how_text(flow->edge[i].how)};
    out->nodes = node;
    out->node_count = flow->count;
    out->edge = edge;
    out->edge_count = flow->edge_count;
    free(depth);
    return rc;
}

/* ---- the analyzer ------------------------------------------------------------------------------ */

/* The step that is shown: the last one that is read. */
static int show_step(struct flow *flow, const struct fusion *fusion)
{
    struct an_context *context = flow->context;
    struct an_dataflow *out = &context->result->dataflow;
    int rc = 0;
    out->step = flow->step->index;
    out->operators = (int64_t)flow->count;
    out->edges = (int64_t)flow->edge_count;
    for (size_t i = 0; i < flow->edge_count; i++)
        out->inferred_edges += flow->edge[i].how == FLOW_SIZE;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces && !rc; i++)
        rc = pieces[i](flow, out);
    return rc || !context->options->dataflow ? rc : keep_graph(flow, fusion, out);
}

/* Reads steps evenly spread over the durations, the median one last. */
static int read_steps(struct flow *flow, struct fusion *fusion, const struct an_step **chosen,
                      size_t count)
{
    const struct flow_source *source = NULL;
    size_t looked = count < STEPS_MOST ? count : STEPS_MOST;
    int rc = 0;
    for (size_t i = 0; i <= looked && !rc; i++) {
        size_t at = i == looked ? count / 2 : i * count / looked;
        if (i < looked && at == count / 2)
            continue;
        rc = read_step(flow, chosen[at], &source);
        if (!rc && source)
            rc = fusion_add(fusion, flow);
    }
    if (!rc && !source)
        dataflow_absent(flow->context, "no operator of the steps says what it reads and writes");
    if (rc || !source)
        return rc;
    flow->context->result->dataflow.source =
        flow->named ? "the memory that the program names for each operator" : source->words;
    return show_step(flow, fusion);
}

static int dataflow_run(struct an_context *context)
{
    struct flow flow = {.context = context};
    const struct an_step **chosen = malloc((context->step_count + 1) * sizeof *chosen);
    struct fusion *fusion = fusion_new(context);
    int rc = chosen && fusion ? 0 : TACHO_ENOMEM;
    size_t count = rc ? 0 : choose_steps(context, chosen);
    if (!rc && !count)
        dataflow_absent(context, "no step has all its ranges in the file");
    if (!rc && count)
        rc = read_steps(&flow, fusion, chosen, count);
    int ended = fusion ? fusion_end(fusion) : 0;
    flow_clear(&flow);
    free(chosen);
    return rc ? rc : ended;
}

const struct an_analyzer an_dataflow_graph = {
    .name = "dataflow",
    .help = "operators as a graph: fusion, lifetimes of tensors, parallel branches, repeated work",
    .after = "steps, attribution, roofline",
    .needs = AN_INPUT_STEPS,
    .run = dataflow_run,
    .absent = dataflow_absent,
};
