/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the rows of one input into the merged file, table after table, with new ids and with times
 * of the reference's clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/merge/merge_private.h"

/* Ids are given one after the other. A larger one than a table with some of its rows removed can
 * have is of a damaged file, and would need memory for all those before it. */
#define IDS_SPARE 65536
#define IDS_EACH  16 /* per row that is there */

/* ---- ids ------------------------------------------------------------------------------------------------------------------- */

/* Remembers the new id of an old one. */
static int put(struct merge_ids *ids, int64_t old, int64_t new)
{
    if (old < 0 || old > ids->most)
        return TACHO_ECORRUPT;
    if ((size_t)old >= ids->cap) {
        size_t cap = ids->cap ? ids->cap : 1024;
        while (cap <= (size_t)old)
            cap *= 2;
        int64_t *larger = realloc(ids->id, cap * sizeof *larger);
        if (!larger)
            return TACHO_ENOMEM;
        memset(larger + ids->cap, 0, (cap - ids->cap) * sizeof *larger);
        ids->id = larger;
        ids->cap = cap;
    }
    ids->id[old] = new;
    return 0;
}

int64_t merge_id(const struct merge_ids *ids, int64_t old, int *status)
{
    if (old == STORE_ABSENT)
        return STORE_ABSENT;
    if (old >= 0 && (size_t)old < ids->cap && ids->id[old])
        return ids->id[old];
    *status = TACHO_ECORRUPT;
    return STORE_ABSENT;
}

int64_t merge_time(const struct merge_source *source, int64_t time)
{
    return time == STORE_ABSENT ? time : store_merge_time(&source->clock, time);
}

/* ---- one table after the other --------------------------------------------------------------------------------------------- */

struct copy {
    struct merge *merge;
    struct merge_source *source;
    int64_t rows;
};

static int copy_string(void *ctx, int64_t id, const char *text)
{
    struct copy *copy = ctx;
    int64_t new;
    int status = store_string(copy->merge->out, text, strlen(text), &new);
    return status ? status : put(&copy->source->strings, id, new);
}

static int copy_detail(void *ctx, const struct store_detail *detail)
{
    struct copy *copy = ctx;
    int64_t new;
    int status = store_detail_intern(copy->merge->out, detail, &new);
    return status ? status : put(&copy->source->details, detail->id, new);
}

static int copy_process(void *ctx, const struct store_process *process)
{
    struct copy *copy = ctx;
    struct store_process new = *process;
    new.start = merge_time(copy->source, process->start);
    new.end = merge_time(copy->source, process->end);
    if (!new.host && copy->source->host[0])
        new.host = copy->source->host;
    int status = store_process_add(copy->merge->out, &new);
    return status ? status : put(&copy->source->processes, process->id, new.id);
}

/* Gives tracks of a machine its name, and GPUs of NVML numbers that go on over machines. */
static int copy_track(void *ctx, const struct store_track *track)
{
    struct copy *copy = ctx;
    struct store_track new = *track;
    char device[64];
    long long gpu;
    int status = 0, end = 0;
    new.process = merge_id(&copy->source->processes, track->process, &status);
    if (status)
        return status;
    if (track->process == STORE_ABSENT && track->device &&
        sscanf(track->device, "gpu:%lld%n", &gpu, &end) == 1 && !track->device[end] && gpu >= 0 &&
        gpu < MERGE_GPUS_MOST) {
        snprintf(device, sizeof device, "gpu:%lld", gpu + (long long)copy->source->nvml);
        new.device = device;
    } else if (track->process == STORE_ABSENT && !track->device && copy->merge->machines > 1 &&
               copy->source->host[0]) {
        new.device = copy->source->host;
    }
    status = store_track_add(copy->merge->out, &new);
    return status ? status : put(&copy->source->tracks, track->id, new.id);
}

/* Copies a slice with new ids and times, and reports progress now and then. */
static int copy_slice(void *ctx, const struct store_slice *slice)
{
    struct copy *copy = ctx;
    struct merge *merge = copy->merge;
    int status = 0;
    struct store_slice new = {.track = merge_id(&copy->source->tracks, slice->track, &status),
                              .start = merge_time(copy->source, slice->start),
                              .dur = slice->dur,
                              .name = merge_id(&copy->source->strings, slice->name, &status),
                              .category =
                                  merge_id(&copy->source->strings, slice->category, &status),
                              .detail = merge_id(&copy->source->details, slice->detail, &status),
                              .correlation = slice->correlation};
    /* Both ends are converted, so that nested slices stay nested. */
    if (slice->dur != STORE_ABSENT && copy->source->clock.drift != 0)
        new.dur =
            merge_time(copy->source, (int64_t)((uint64_t)slice->start + (uint64_t)slice->dur)) -
            new.start;
    if (status)
        return status;
    if ((++merge->done & 0xffff) == 0 && merge->merge_options->progress &&
        merge->merge_options->progress(merge->merge_options->ctx, merge->done, merge->total))
        return TACHO_EINTERRUPTED;
    merge->merge_result->slices++;
    return store_slice_add(merge->out, &new);
}

static int copy_counter(void *ctx, const struct store_counter *counter)
{
    struct copy *copy = ctx;
    int status = 0;
    struct store_counter new = {.track = merge_id(&copy->source->tracks, counter->track, &status),
                                .time = merge_time(copy->source, counter->time),
                                .value = counter->value};
    return status ? status : store_counter_add(copy->merge->out, &new);
}

static int copy_step(void *ctx, const struct store_step *step)
{
    struct copy *copy = ctx;
    struct store_step new = *step;
    int status = 0;
    new.process = merge_id(&copy->source->processes, step->process, &status);
    new.start = merge_time(copy->source, step->start);
    new.end = merge_time(copy->source, step->end);
    return status ? status : store_step_add(copy->merge->out, &new);
}

/* A total time, scaled by the drift as its slices are. */
static int64_t scaled(const struct merge_source *source, int64_t ns)
{
    double more = (double)ns * source->clock.drift;
    return ns + (int64_t)(more < 0 ? more - 0.5 : more + 0.5);
}

/* Copies the totals of one name in a step. */
static int copy_aggregate(void *ctx, const struct store_step_aggregate *step_aggregate)
{
    struct copy *copy = ctx;
    struct store_step_aggregate new = *step_aggregate;
    int status = 0;
    new.process = merge_id(&copy->source->processes, step_aggregate->process, &status);
    new.track = merge_id(&copy->source->tracks, step_aggregate->track, &status);
    new.name = merge_id(&copy->source->strings, step_aggregate->name, &status);
    new.category = merge_id(&copy->source->strings, step_aggregate->category, &status);
    new.detail = merge_id(&copy->source->details, step_aggregate->detail, &status);
    new.total = scaled(copy->source, step_aggregate->total);
    new.self = scaled(copy->source, step_aggregate->self);
    return status ? status : store_step_aggregate_add(copy->merge->out, &new);
}

static int copy_stack(void *ctx, const struct store_stack *stack)
{
    struct copy *copy = ctx;
    int status = 0;
    int64_t new, parent = merge_id(&copy->source->stacks, stack->parent, &status),
                 frame = merge_id(&copy->source->strings, stack->frame, &status);
    status = status ? status : store_stack(copy->merge->out, parent, frame, &new);
    return status ? status : put(&copy->source->stacks, stack->id, new);
}

static int copy_sample(void *ctx, const struct store_sample *sample)
{
    struct copy *copy = ctx;
    int status = 0;
    struct store_sample new = {.track = merge_id(&copy->source->tracks, sample->track, &status),
                               .time = merge_time(copy->source, sample->time),
                               .stack = merge_id(&copy->source->stacks, sample->stack, &status)};
    return status ? status : store_sample_add(copy->merge->out, &new);
}

/* Counts rows of tables that only a later version fills as losses. */
static int count_others(struct merge *merge, struct merge_source *source)
{
    static const char *const table[] = {"edge"};
    int status = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table && status == 0; i++) {
        int64_t rows = 0;
        char reason[96];
        snprintf(reason, sizeof reason, "rows of the table %s: not merged", table[i]);
        status = store_count(source->reader, table[i], &rows);
        if (status == 0 && rows)
            status = store_loss_add(merge->out, &(struct store_loss){"merge", reason, rows,
                                                                     STORE_ABSENT, STORE_ABSENT});
    }
    return status;
}

/* Finds for each table of a source how large its ids may be. */
static int bound_ids(struct merge_source *source)
{
    const struct {
        const char *table;
        struct merge_ids *ids;
    } tables[] = {{"string", &source->strings},
                  {"detail", &source->details},
                  {"process", &source->processes},
                  {"track", &source->tracks},
                  {"stack", &source->stacks}};
    int status = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && status == 0; i++) {
        int64_t rows = 0;
        status = store_count(source->reader, tables[i].table, &rows);
        tables[i].ids->most = IDS_SPARE + IDS_EACH * rows;
    }
    return status;
}

int merge_rows(struct merge *merge, struct merge_source *source)
{
    struct copy copy = {.merge = merge, .source = source};
    int status = bound_ids(source);
    status = status ? status : store_string_each(source->reader, 1, copy_string, &copy);
    status = status ? status : store_detail_each(source->reader, 1, copy_detail, &copy);
    status = status ? status : store_process_each(source->reader, copy_process, &copy);
    status = status ? status : store_track_each(source->reader, 1, copy_track, &copy);
    status = status ? status : store_slice_each(source->reader, 0, copy_slice, &copy);
    status = status ? status : store_counter_each(source->reader, 0, copy_counter, &copy);
    status = status ? status : store_step_each(source->reader, copy_step, &copy);
    status = status ? status : store_step_aggregate_each(source->reader, copy_aggregate, &copy);
    status = status ? status : store_stack_each(source->reader, 1, copy_stack, &copy);
    status = status ? status : store_sample_each(source->reader, 0, copy_sample, &copy);
    status = status ? status : count_others(merge, source);
    if (status && status == store_reader_error(source->reader)->code)
        merge->why = *store_reader_error(source->reader);
    else if (status == TACHO_ECORRUPT)
        tacho_fail(&merge->why, status, "copy it again, or leave this file out",
                   "%s: damaged: a row refers to a row that does not exist, or has an id far above "
                   "the number of rows",
                   source->path);
    return status;
}
