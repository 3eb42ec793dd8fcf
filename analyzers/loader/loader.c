/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader, by the ranges that a program marks (tacho.range input_wait, read, decode,
 * collate, pin, queue_wait): sums of each rank over the detailed steps of the budget. The time of a
 * stage is its own time: decode inside read counts as decode. A batch is one collate range or,
 * without those, one wait. Stages inside evaluations and checkpoints are excluded.
 *
 * A worker is a thread with stages that runs no steps, of the rank's own process or of one that it
 * started (a worker process).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/loader/loader_private.h"

static const struct {
    enum an_role role;
    const char *name;
} stages[] = {{AN_ROLE_READ, "read"},
              {AN_ROLE_DECODE, "decode"},
              {AN_ROLE_COLLATE, "collate"},
              {AN_ROLE_PIN, "pin"},
              {AN_ROLE_QUEUE_WAIT, "queue_wait"}};
#define STAGES (sizeof stages / sizeof *stages)

static bool is_stage(enum an_role role)
{
    return role == AN_ROLE_READ || role == AN_ROLE_DECODE || role == AN_ROLE_COLLATE ||
           role == AN_ROLE_PIN || role == AN_ROLE_QUEUE_WAIT;
}

/* Stages that make a batch: a thread that runs them is a worker. */
static bool makes_batches(enum an_role role)
{
    return role == AN_ROLE_READ || role == AN_ROLE_DECODE || role == AN_ROLE_COLLATE;
}

/* Group of a process, group_count: it has none. The groups are the lanes; without steps all
 * processes are one group. */
static size_t group_of(const struct an_context *context, size_t group_count, uint32_t process)
{
    uint32_t group = context->lane_count ? an_lane_of_process(context, process) : 0;
    return group == AN_NONE ? group_count : group;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static int set_time(struct an_context *context, struct an_loader_sums *sums)
{
    const struct an_lane *lane = sums->lane;
    sums->time.span = an_arena_zero(context->scratch, lane->count + 1, sizeof *sums->time.span);
    if (!sums->time.span)
        return TACHO_ENOMEM;
    for (size_t i = lane->first; i < lane->first + lane->count; i++)
        if (an_step_detailed(&context->step[i]) && context->step[i].host_end != STORE_ABSENT)
            sums->time.span[sums->time.count++] =
                (struct an_span){context->step[i].host_start, context->step[i].host_end};
    sums->time.count = an_spans_normalize(sums->time.span, sums->time.count);
    sums->time_ns = an_spans_measure(sums->time.span, sums->time.count);
    return 0;
}

static int make_groups(struct an_context *context, struct an_loader_sums **out, size_t *group_count)
{
    *group_count = context->lane_count ? context->lane_count : 1;
    if (!(*out = an_arena_zero(context->scratch, *group_count, sizeof **out)))
        return TACHO_ENOMEM;
    for (size_t group = 0; group < context->lane_count; group++) {
        (*out)[group].lane = &context->lane[group];
        (*out)[group].budget =
            group < context->result->device_count ? &context->result->devices[group].budget : NULL;
        if (set_time(context, &(*out)[group]))
            return TACHO_ENOMEM;
    }
    return 0;
}

static bool is_inside(const struct an_set *set, int64_t time)
{
    size_t i = an_spans_seek(set->span, set->count, time);
    return !set->count || (i < set->count && set->span[i].start <= time);
}

/* What one thread did for the loader of its group. */
struct share {
    bool makes;
    int64_t batches;
    double busy_ns;
    bool collates;  /* the thread runs collate */
    double made_ns; /* own time of the stages that make a batch, since the last collate */
    /* The batch that is being made. It counts as a whole if its collate begins in counted time. */
    int64_t count[AN_ROLE_COUNT], read_bytes;
    double ns[AN_ROLE_COUNT];
};

/* Keeps the time of a batch by itself, when it is collated. 0 or TACHO_ENOMEM. */
static int keep_batch(struct an_loader_sums *sums, struct share *share, bool counts)
{
    double ns = share->made_ns;
    share->made_ns = 0;
    if (!counts || !(ns > 0))
        return 0;
    if (an_grow(&sums->batch_ns, &sums->batch_room, sums->batch_count + 1, sizeof ns))
        return TACHO_ENOMEM;
    sums->batch_ns[sums->batch_count++] = ns;
    return 0;
}

static void close_batch(struct an_loader_sums *sums, struct share *share, bool counts)
{
    if (counts) {
        for (int role = 0; role < AN_ROLE_COUNT; role++) {
            sums->count[role] += share->count[role];
            sums->ns[role] += share->ns[role];
        }
        sums->read_bytes = an_time_add(sums->read_bytes, share->read_bytes);
    }
    memset(share->count, 0, sizeof share->count);
    memset(share->ns, 0, sizeof share->ns);
    share->read_bytes = 0;
}

/* Adds a stage or a wait to the batch of its thread. Time of a stage nested in another one is
 * subtracted from the outer one. 0 or TACHO_ENOMEM. */
static int sum_slice(const struct an_context *context, struct an_loader_sums *sums, size_t i,
                     enum an_role role, struct share *share)
{
    const struct an_trace *trace = context->trace;
    uint32_t parent = trace->slice.parent[i];
    enum an_role around =
        parent == AN_NONE ? AN_ROLE_NONE : an_trace_role(trace, trace->slice.detail[parent]);
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    bool inside = is_inside(&sums->time, trace->slice.start[i]),
         waits = role == AN_ROLE_QUEUE_WAIT || role == AN_ROLE_INPUT_WAIT;
    double ns = trace->slice.dur[i] == AN_OPEN ? 0 : (double)trace->slice.dur[i];
    if ((role == AN_ROLE_INPUT_WAIT && around == AN_ROLE_INPUT_WAIT) || an_slice_in_phase(trace, i))
        return 0;
    share->makes = share->makes || (inside && makes_batches(role));
    share->count[role]++;
    share->ns[role] += ns;
    if (is_stage(role) && is_stage(around))
        share->ns[around] -= ns;
    share->made_ns += ns * (makes_batches(role) - makes_batches(around));
    if (role == AN_ROLE_READ && detail && detail->bytes != STORE_ABSENT)
        share->read_bytes = an_time_add(share->read_bytes, detail->bytes);
    if (!waits && !is_stage(around) && trace->slice.dur[i] != AN_OPEN)
        share->busy_ns +=
            !sums->time.count
                ? ns
                : (double)an_spans_within(sums->time.span, sums->time.count, trace->slice.start[i],
                                          an_slice_end(trace, i));
    share->batches += inside && role == AN_ROLE_COLLATE;
    if (role == AN_ROLE_COLLATE || waits || !share->collates)
        close_batch(sums, share, inside);
    return role == AN_ROLE_COLLATE ? keep_batch(sums, share, inside) : 0;
}

static bool is_python(const struct an_trace *trace, uint32_t process)
{
    return process != AN_NONE && !strncmp(trace->process[process].program, "python", 6);
}

static void add_worker(struct an_context *context, struct an_loader_sums *sums, uint32_t track,
                       const struct share *share)
{
    struct an_loader *loader = &context->result->loader;
    const struct an_track *track_row = &context->trace->track[track];
    const struct an_process *process =
        track_row->process != AN_NONE ? &context->trace->process[track_row->process] : NULL;
    struct an_loader_worker *rows = (struct an_loader_worker *)(uintptr_t)loader->worker;
    bool own_process = sums->lane && sums->lane->process != track_row->process;
    sums->workers++;
    sums->processes += own_process;
    sums->python = sums->python || (!own_process && is_python(context->trace, track_row->process));
    sums->busy_ns += share->busy_ns;
    rows[loader->worker_count++] = (struct an_loader_worker){
        .name = an_arena_text(context->arena, track_row->name),
        .rank = an_loader_rank_of(sums),
        .process = process ? process->pid : STORE_ABSENT,
        .batches = share->batches,
        .busy_pct = an_num_if(sums->time_ns > 0, 100 * share->busy_ns / (double)sums->time_ns,
                              AN_LOADER_NO_STEPS)};
}

/* Adds what a thread did to the sums of its group. A thread that makes batches and runs no steps is
 * a worker. 0 or TACHO_ENOMEM. */
static int sum_track(struct an_context *context, struct an_loader_sums *groups, size_t group_count,
                     uint32_t track)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track_row = &trace->track[track];
    size_t group = group_count;
    struct share share = {0};
    for (size_t i = track_row->slice_first;
         i < track_row->slice_first + track_row->slice_count && !share.collates; i++)
        share.collates = an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_COLLATE;
    for (size_t i = track_row->slice_first; i < track_row->slice_first + track_row->slice_count;
         i++) {
        enum an_role role = an_trace_role(trace, trace->slice.detail[i]);
        if (!is_stage(role) && role != AN_ROLE_INPUT_WAIT)
            continue;
        if (group == group_count &&
            (group = group_of(context, group_count, track_row->process)) == group_count)
            return 0; /* of no rank */
        if (sum_slice(context, &groups[group], i, role, &share))
            return TACHO_ENOMEM;
    }
    if (share.makes && an_lane_of_track(context, track) != AN_NONE)
        groups[group].in_line = true;
    else if (share.makes)
        add_worker(context, &groups[group], track, &share);
    return 0;
}

/* Aggregates hold the stages of steps whose slices were not stored because of a limit. They are
 * taken for stages that have no slices at all. */
static void sum_aggregates(const struct an_context *context, struct an_loader_sums *sums,
                           size_t group_count)
{
    const struct an_trace *trace = context->trace;
    struct an_loader_sums all = {.lane = NULL};
    for (size_t i = 0; i < trace->aggregate.count; i++) {
        enum an_role role = an_trace_role(trace, trace->aggregate.detail[i]);
        if (!is_stage(role) && role != AN_ROLE_INPUT_WAIT)
            continue;
        all.count[role] = an_time_add(all.count[role], trace->aggregate.calls[i]);
        all.ns[role] += (double)(role == AN_ROLE_INPUT_WAIT ? trace->aggregate.total[i]
                                                            : trace->aggregate.self[i]);
    }
    for (int role_index = 0; role_index < AN_ROLE_COUNT && group_count == 1; role_index++)
        if (!sums->count[role_index]) {
            sums->count[role_index] = all.count[role_index];
            sums->ns[role_index] = all.ns[role_index];
        }
}

/* ---- the part -------------------------------------------------------------------------------- */

/* Mean over time of a counter named queue_depth. A value lasts until the next one of its track. */
static struct an_value queue_depth(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    double area = 0, time = 0;
    for (size_t track_index = 0; track_index < trace->track_count; track_index++) {
        const struct an_track *track = &trace->track[track_index];
        if (!strstr(track->name, "queue_depth") || track->counter_count < 2)
            continue;
        for (size_t i = track->counter_first; i + 1 < track->counter_first + track->counter_count;
             i++) {
            double ns = (double)an_time_sub(trace->counter.time[i + 1], trace->counter.time[i]);
            if (trace->counter.value[i] != trace->counter.value[i]) /* NAN: absent */
                continue;
            area += trace->counter.value[i] * ns;
            time += ns;
        }
    }
    return an_num_if(time > 0, area / time, "the program does not emit the counter queue_depth");
}

static struct an_value wait_per_step(const struct an_context *context)
{
    const struct an_budget *budget = &context->result->budget;
    if (!budget->ns[AN_CLASS_INPUT].valid)
        return an_num_none(budget->ns[AN_CLASS_INPUT].reason);
    return an_num((double)budget->ns[AN_CLASS_INPUT].value / (double)budget->steps / 1e6);
}

/* Counts the batches, and lists the stages that were marked with their time per batch. */
static int list_stages(struct an_context *context, const struct an_loader_sums *sums,
                       size_t group_count)
{
    struct an_loader *loader = &context->result->loader;
    struct an_stage *rows = an_arena_zero(context->arena, STAGES, sizeof *rows);
    int64_t waits = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t group = 0; group < group_count; group++) {
        loader->batches += sums[group].count[AN_ROLE_COLLATE];
        waits += sums[group].count[AN_ROLE_INPUT_WAIT];
    }
    if (!loader->batches)
        loader->batches = waits;

    for (size_t i = 0; i < STAGES; i++) {
        double ns = 0;
        int64_t count = 0;
        for (size_t group = 0; group < group_count; group++) {
            ns += sums[group].ns[stages[i].role];
            count += sums[group].count[stages[i].role];
        }
        if (!count)
            continue;
        rows[loader->stage_count++] = (struct an_stage){
            .name = stages[i].name,
            .count = count,
            .ms_per_batch = an_num_if(loader->batches, fmax(ns, 0) / (double)loader->batches / 1e6,
                                      "no batch was completed")};
    }
    loader->stages = rows;
    return 0;
}

static bool any_range(const struct an_loader_sums *sums, size_t group_count)
{
    for (size_t group = 0; group < group_count; group++) {
        if (sums[group].count[AN_ROLE_INPUT_WAIT])
            return true;
        for (size_t i = 0; i < STAGES; i++)
            if (sums[group].count[stages[i].role])
                return true;
    }
    return false;
}

static int worker_order(const void *left, const void *right)
{
    const struct an_loader_worker *first = left, *second = right;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    if (first->process != second->process)
        return first->process < second->process ? -1 : 1;
    /* By length first: loader-2 before loader-10. */
    size_t first_length = strlen(first->name), second_length = strlen(second->name);
    if (first_length != second_length)
        return first_length < second_length ? -1 : 1;
    return strcmp(first->name, second->name);
}

void an_loader_rest_absent(struct an_loader *loader, const char *reason)
{
    struct an_value *values[] = {&loader->wait_ms_per_step,
                                 &loader->inferred_wait_ms_per_step,
                                 &loader->expected_wait_ms_per_step,
                                 &loader->worker_busy_pct,
                                 &loader->queue_depth_mean,
                                 &loader->batches_per_step,
                                 &loader->batch_ms,
                                 &loader->quick_batch_ms,
                                 &loader->pipeline_samples_per_s,
                                 &loader->compute_samples_per_s,
                                 &loader->read_bytes_per_s,
                                 &loader->device_bytes_per_s,
                                 &loader->access_ratio};
    struct an_count *counts[] = {&loader->workers, &loader->workers_needed,
                                 &loader->workers_wanted};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!values[i]->valid && !values[i]->reason)
            *values[i] = an_num_none(reason);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!counts[i]->valid && !counts[i]->reason)
            *counts[i] = an_int_none(reason);
}

static void loader_absent(struct an_context *context, const char *reason)
{
    context->result->loader.reason = reason;
    an_loader_rest_absent(&context->result->loader, reason);
}

/* A trace without ranges of tacho: the loader of PyTorch, else an inference from gaps. */
static int foreign(struct an_context *context)
{
    bool found;
    int rc = an_loader_torch(context, &found);
    if (rc)
        return rc;
    if (found) {
        an_loader_rest_absent(
            &context->result->loader,
            "the trace holds the waits, and no stages of the workers (tacho run records both)");
        return 0;
    }
    loader_absent(
        context,
        context->gpu
            ? "the trace marks no loader ranges (enumerate(DataLoader)..., tacho.range input_wait)"
            : "the program marks no loader ranges (tacho.range input_wait, read, decode, collate)");
    return context->gpu ? an_loader_infer(context) : 0;
}

/* Sums the ranges of all threads into `sums`; a run without them is read as one of another tool. */
static int read_ranges(struct an_context *context, struct an_loader_sums *sums, size_t group_count,
                       struct an_loader_worker *rows)
{
    struct an_loader *loader = &context->result->loader;
    int rc = 0;
    loader->worker = rows;
    for (uint32_t track = 0; track < context->trace->track_count && !rc; track++)
        rc = sum_track(context, sums, group_count, track);
    if (rc)
        return rc;
    sum_aggregates(context, sums, group_count);
    if (!any_range(sums, group_count))
        return foreign(context);
    if (loader->worker_count)
        qsort(rows, loader->worker_count, sizeof *rows, worker_order);
    if ((rc = list_stages(context, sums, group_count)))
        return rc;
    loader->source = "tacho.range";
    loader->inferred_wait_ms_per_step = an_num_none("the waits are marked");
    loader->wait_ms_per_step = wait_per_step(context);
    loader->queue_depth_mean = queue_depth(context);
    return an_loader_model(context, sums, group_count);
}

static int loader_run(struct an_context *context)
{
    struct an_loader_sums *sums;
    struct an_loader_worker *rows =
        an_arena_zero(context->arena, context->trace->track_count + 1, sizeof *rows);
    size_t group_count;
    int rc = rows ? make_groups(context, &sums, &group_count) : TACHO_ENOMEM;
    if (rc)
        return rc;
    rc = read_ranges(context, sums, group_count, rows);
    for (size_t group = 0; group < group_count; group++)
        free(sums[group].batch_ns);
    return rc;
}

const struct an_analyzer an_loader = {
    .name = "loader",
    .help = "waits for batches, cost of the stages, workers, queue depth",
    .after = "steps, budget",
    .needs = AN_INPUT_SLICES,
    .run = loader_run,
    .absent = loader_absent,
};
