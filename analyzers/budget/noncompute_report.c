/* SPDX-License-Identifier: Apache-2.0
 *
 * Why devices do not compute, and why the thread that runs the steps of a CPU does not: the sets
 * of noncompute.h over the whole capture and over the counted steps, and what the host did during
 * them.
 *
 * On a thread every instant of the counted steps that is in no range of work is compute-absent,
 * and the causes are those of the same sweep that explains launch-starved time of a device.
 */
#include "analyzers/budget/noncompute.h"
#include "analyzers/steps/command.h"

#include <stdlib.h>

/* A row under construction. */
struct row {
    struct an_context *context;
    struct an_absent *out;
    const struct an_lane *lane; /* NULL: a device without steps */
    struct an_set window;
};

static int64_t within(struct an_set set, struct an_set window)
{
    int64_t ns = 0;
    for (size_t i = 0; i < window.count; i++)
        ns = an_time_add(ns, an_set_within(set, window.span[i].start, window.span[i].end));
    return ns;
}

/* The counted, detailed steps of a lane without its phases. */
static int steps_of(struct row *row)
{
    struct an_context *context = row->context;
    const struct an_lane *lane = row->lane;
    struct an_span *span = an_arena_zero(context->scratch, lane->count, sizeof *span);
    size_t count = 0;
    if (!span)
        return TACHO_ENOMEM;
    for (size_t i = lane->first; i < an_lane_end(lane); i++)
        if (an_step_detailed(&context->step[i])) {
            span[count++] = (struct an_span){context->step[i].start, context->step[i].end};
            row->out->steps++;
        }
    struct an_set steps = {span, an_spans_normalize(span, count)};
    row->out->window = an_window_text(context);
    return an_set_combine(context->scratch, an_spans_subtract, steps, an_lane_cut(lane),
                          &row->window);
}

/* ---- causes ------------------------------------------------------------------------------------------------------------------- */

static int cause_order(const void *first, const void *second)
{
    const struct an_host_row *left = first, *right = second;
    return 4 * AN_COMPARE(right->ns, left->ns) + 2 * AN_COMPARE(left->cause, right->cause) +
           AN_COMPARE(left->name, right->name);
}

/* Makes rows of the tally. With `computes`, causes of computation are excluded, because that time
 * is not compute-absent. */
static int keep_causes(struct row *row, struct an_host_tally *tally, bool computes)
{
    struct an_context *context = row->context;
    struct an_absent_cause *all = an_arena_zero(context->arena, tally->count, sizeof *all);
    int64_t sum = 0;
    if (!all)
        return TACHO_ENOMEM;
    if (tally->count)
        qsort(tally->row, tally->count, sizeof *tally->row, cause_order);
    for (size_t i = 0; i < tally->count; i++) {
        if (computes && tally->row[i].cause == AN_CAUSE_COMPUTE)
            continue;
        sum = an_time_add(sum, tally->row[i].ns);
        all[row->out->cause_count++] = (struct an_absent_cause){
            .cause = an_cause_key(tally->row[i].cause),
            .name =
                an_arena_text(context->arena, an_trace_name(context->trace, tally->row[i].name)),
            .ns = tally->row[i].ns};
    }
    for (size_t i = 0; i < row->out->cause_count && sum > 0; i++)
        all[i].pct = 100 * (double)all[i].ns / (double)sum;
    row->out->causes = all;
    if (computes)
        row->out->absent_ns = sum;
    return 0;
}

static int starved_order(const void *first, const void *second)
{
    const struct an_starved *left = first, *right = second;
    return 2 * AN_COMPARE(left->thread, right->thread) +
           AN_COMPARE(left->span.start, right->span.start);
}

/* Tallies what the threads did that launched the late kernels. Where such a thread is in no range,
 * the thread of the step explains the time. */
static int starved_causes(struct row *row, const struct an_noncompute_sets *sets)
{
    struct an_context *context = row->context;
    struct an_host_tally tally = {.row = NULL};
    struct an_span_list when = {.span = NULL}, rest = {.span = NULL};
    struct an_starved *starved =
        an_arena_copy(context->scratch, sets->starved, sets->starved_count * sizeof *starved);
    uint32_t main_thread = row->lane ? row->lane->track : AN_NONE;
    int rc = starved ? 0 : TACHO_ENOMEM;
    if (starved && sets->starved_count)
        qsort(starved, sets->starved_count, sizeof *starved, starved_order);
    for (size_t i = 0; i < sets->starved_count && !rc;) {
        uint32_t thread = starved[i].thread;
        struct an_set mine;
        for (when.count = 0; i < sets->starved_count && starved[i].thread == thread && !rc; i++)
            rc = an_span_list_add(&when, starved[i].span.start, starved[i].span.end);
        rc = rc ? rc
                : an_set_combine(context->scratch, an_spans_intersect, an_span_list_set(&when),
                                 row->window, &mine);
        bool other = main_thread != AN_NONE && main_thread != thread;
        rest.count = 0;
        if (!rc)
            rc = an_host_sweep(context, &context->trace->track[thread], mine, &tally,
                               other ? &rest : NULL);
        if (!rc && rest.count)
            rc = an_host_sweep(context, &context->trace->track[main_thread],
                               an_span_list_set(&rest), &tally, NULL);
    }
    rc = rc ? rc : keep_causes(row, &tally, false);
    free(when.span);
    free(rest.span);
    an_host_tally_free(&tally);
    return rc;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------- */

static int occupants(struct row *row, const struct an_device_split *split, enum an_absent_part k,
                     struct an_set part)
{
    const struct an_set by[AN_OCCUPANTS] = {split->exposed_comm, split->exposed_copy,
                                            split->exposed_opaque};
    int64_t rest = row->out->part_ns[k].value;
    for (int i = 0; i < AN_OCCUPIED_NOTHING; i++) {
        struct an_set both;
        int rc = an_set_combine(row->context->scratch, an_spans_intersect, part, by[i], &both);
        if (rc)
            return rc;
        row->out->occupied_ns[k][i] = an_int(within(both, row->window));
        rest = an_time_sub(rest, row->out->occupied_ns[k][i].value);
    }
    row->out->occupied_ns[k][AN_OCCUPIED_NOTHING] = an_int(rest);
    return 0;
}

static void parts_absent(struct an_absent *out, const char *reason)
{
    for (int k = 0; k < AN_ABSENT_PARTS; k++) {
        out->part_ns[k] = an_int_none(reason);
        for (int i = 0; i < AN_OCCUPANTS; i++)
            out->occupied_ns[k][i] = an_int_none(reason);
    }
    out->unlinked_ns = out->after_wait_ns = an_int_none(reason);
    out->causes_reason = reason;
}

/* Fills the row of one device over its counted steps, or over the whole capture if it has
 * none. */
static int device_row(struct row *row, size_t device, const struct an_noncompute_sets *sets)
{
    struct an_context *context = row->context;
    const struct an_device_split *split = &context->gpu->split[device];
    struct an_span span = {split->start, split->end};
    int rc = 0;
    if (row->lane && (rc = steps_of(row)))
        return rc;
    if (!row->out->steps) {
        row->window = (struct an_set){an_arena_copy(context->scratch, &span, sizeof span),
                                      split->end > split->start};
        row->out->window = "whole capture";
        if (!row->window.span)
            return TACHO_ENOMEM;
    }
    row->out->window_ns = an_set_measure(row->window);
    row->out->absent_ns = an_time_sub(row->out->window_ns, within(split->compute, row->window));
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        row->out->blocking_ns[k] = sets->blocking_reason
                                       ? an_int_none(sets->blocking_reason)
                                       : an_int(within(sets->blocking[k], row->window));
    if (sets->reason) {
        parts_absent(row->out, sets->reason);
        return 0;
    }
    for (int k = 0; k < AN_ABSENT_PARTS && !rc; k++) {
        row->out->part_ns[k] = an_int(within(sets->part[k], row->window));
        rc = occupants(row, split, (enum an_absent_part)k, sets->part[k]);
    }
    row->out->unlinked_ns = an_int(within(sets->unlinked, row->window));
    row->out->after_wait_ns = an_int(within(sets->drained, row->window));
    return rc ? rc : starved_causes(row, sets);
}

/* Fills the numbers of the whole capture in the device's row of the table of GPUs. */
static void fill_device(struct an_gpu_device *out, const struct an_noncompute_sets *sets)
{
    struct an_count *part[AN_ABSENT_PARTS] = {&out->absent_launch_starved_ns,
                                              &out->absent_blocked_ns, &out->absent_dispatch_ns,
                                              &out->absent_dependency_ns};
    struct an_count *blocking[AN_BLOCKING_COUNT] = {
        &out->blocking_proven_ns, &out->blocking_inferred_ns, &out->blocking_unknown_ns};
    /* None of its rows has a time: gpu.c says so. */
    if (!out->span_ns.valid)
        return;
    for (int k = 0; k < AN_ABSENT_PARTS; k++)
        *part[k] = sets->reason ? an_int_none(sets->reason) : an_int(an_set_measure(sets->part[k]));
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        *blocking[k] = sets->blocking_reason ? an_int_none(sets->blocking_reason)
                                             : an_int(an_set_measure(sets->blocking[k]));
}

/* Computes one device after another, each with a scratch arena of its own: the sets are needed for
 * its row only. */
static int run_devices(struct an_context *context)
{
    const struct an_devices *devices = context->gpu;
    const struct an_device_edges *edges;
    struct an_arena *work = context->scratch;
    struct an_absent *rows = an_arena_zero(context->arena, devices->device_count, sizeof *rows);
    int rc = rows ? an_device_edges_of(context->gpu, &edges) : TACHO_ENOMEM;
    rc = rc || context->graph || context->causes ? rc : an_causes_make(context, &context->causes);
    for (size_t device = 0; device < devices->device_count && !rc; device++) {
        struct an_noncompute_sets sets;
        struct row row = {.context = context,
                          .out = rows ? &rows[context->result->absent_count] : NULL};
        if (!devices->device[device].count)
            continue;
        rc = (context->scratch = an_arena_new()) ? an_noncompute_sets_of(context, device, &sets)
                                                 : TACHO_ENOMEM;
        for (size_t i = 0; i < context->lane_count; i++)
            row.lane = context->lane[i].device == device ? &context->lane[i] : row.lane;
        row.out->rank = devices->device[device].rank;
        row.out->device = an_int(devices->device[device].ordinal);
        if (!rc)
            fill_device((struct an_gpu_device *)(uintptr_t)&context->result->gpus[device], &sets);
        rc = rc ? rc : device_row(&row, device, &sets);
        context->result->absent_count++;
        an_arena_free(context->scratch);
        context->scratch = work;
    }
    context->result->absent = rows;
    return rc;
}

/* ---- threads --------------------------------------------------------------------------------------------------------------------- */

static int thread_row(struct row *row)
{
    static const char no_device[] = "steps ran on the CPU: nothing is launched";
    struct an_host_tally tally = {.row = NULL};
    int rc = steps_of(row);
    row->out->rank = row->lane->rank;
    row->out->device = an_int_none(no_device);
    parts_absent(row->out, no_device);
    row->out->causes_reason = NULL;
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        row->out->blocking_ns[k] = an_int_none("see communication/blocking_ms");
    row->out->window_ns = an_set_measure(row->window);
    rc = rc ? rc
            : an_host_sweep(row->context, &row->context->trace->track[row->lane->track],
                            row->window, &tally, NULL);
    rc = rc ? rc : keep_causes(row, &tally, true);
    an_host_tally_free(&tally);
    return rc;
}

/* The rows of lanes whose steps ran on a CPU thread, without a device. */
static int run_threads(struct an_context *context)
{
    struct an_absent *rows = an_arena_zero(context->arena, context->lane_count, sizeof *rows);
    int rc = rows ? 0 : TACHO_ENOMEM;
    for (size_t k = 0; k < context->lane_count && !rc; k++) {
        struct row row = {.context = context,
                          .out = &rows[context->result->absent_count],
                          .lane = &context->lane[k]};
        if (context->lane[k].track == AN_NONE || context->lane[k].device != AN_NONE)
            continue;
        *row.out = (struct an_absent){.steps = 0};
        rc = thread_row(&row);
        context->result->absent_count += row.out->steps > 0;
    }
    context->result->absent = rows;
    return rc;
}

static int noncompute_run(struct an_context *context)
{
    if (context->gpu)
        return run_devices(context);
    if (context->result->budget.roles_known)
        return run_threads(context);
    context->result->absence.reason = an_command_no_roles(context);
    return 0;
}

static void noncompute_absent(struct an_context *context, const char *reason)
{
    context->result->absence.reason = reason;
}

const struct an_analyzer an_noncompute = {
    .name = "absent",
    .help = "why devices, and threads that run steps, do not compute",
    .after = "steps, gpu, budget",
    .needs = AN_INPUT_SLICES,
    .run = noncompute_run,
    .absent = noncompute_absent,
};
