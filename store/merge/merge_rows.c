/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/merge/merge_private.h"

#define IDS_MAX \
    (1ll << 31) /* more rows of names and tracks than any run has: the file is damaged */

/* ---- ids ------------------------------------------------------------------------------------------------------------------- */

static int put(struct merge_ids *ids, int64_t old, int64_t new)
{
    if (old < 0 || old >= IDS_MAX)
        return TACHO_ECORRUPT;
    if ((size_t)old >= ids->cap) {
        size_t cap = ids->cap ? ids->cap : 1024;
        while (cap <= (size_t)old)
            cap *= 2;
        int64_t *p = realloc(ids->id, cap * sizeof *p);
        if (!p)
            return TACHO_ENOMEM;
        memset(p + ids->cap, 0, (cap - ids->cap) * sizeof *p);
        ids->id = p;
        ids->cap = cap;
    }
    ids->id[old] = new;
    return 0;
}

int64_t merge_id(const struct merge_ids *ids, int64_t old, int *rc)
{
    if (old == STORE_ABSENT)
        return STORE_ABSENT;
    if (old >= 0 && (size_t)old < ids->cap && ids->id[old])
        return ids->id[old];
    *rc = TACHO_ECORRUPT;
    return STORE_ABSENT;
}

int64_t merge_time(const struct merge_source *source, int64_t t)
{
    return t == STORE_ABSENT ? t : store_merge_time(&source->clock, t);
}

/* ---- one table after the other --------------------------------------------------------------------------------------------- */

struct copy {
    struct merge *merge;
    struct merge_source *source;
    int64_t rows;
};

static int copy_string(void *ctx, int64_t id, const char *text)
{
    struct copy *c = ctx;
    int64_t new;
    int rc = store_string(c->merge->out, text, strlen(text), &new);
    return rc ? rc : put(&c->source->strings, id, new);
}

static int copy_detail(void *ctx, const struct store_detail *detail)
{
    struct copy *c = ctx;
    int64_t new;
    int rc = store_detail_intern(c->merge->out, detail, &new);
    return rc ? rc : put(&c->source->details, detail->id, new);
}

static int copy_process(void *ctx, const struct store_process *process)
{
    struct copy *c = ctx;
    struct store_process new = *process;
    new.start = merge_time(c->source, process->start);
    new.end = merge_time(c->source, process->end);
    if (!new.host && c->source->host[0])
        new.host = c->source->host;
    int rc = store_process_add(c->merge->out, &new);
    return rc ? rc : put(&c->source->processes, process->id, new.id);
}

/* Tracks of the machine say which one; GPUs as NVML numbers them count on over machines. */
static int copy_track(void *ctx, const struct store_track *track)
{
    struct copy *c = ctx;
    struct store_track new = *track;
    char device[64];
    long long gpu;
    int rc = 0, end = 0;
    new.process = merge_id(&c->source->processes, track->process, &rc);
    if (rc)
        return rc;
    if (track->process == STORE_ABSENT && track->device &&
        sscanf(track->device, "gpu:%lld%n", &gpu, &end) == 1 && !track->device[end]) {
        snprintf(device, sizeof device, "gpu:%lld", gpu + (long long)c->source->nvml);
        new.device = device;
    } else if (track->process == STORE_ABSENT && !track->device && c->merge->machines > 1 &&
               c->source->host[0]) {
        new.device = c->source->host;
    }
    rc = store_track_add(c->merge->out, &new);
    return rc ? rc : put(&c->source->tracks, track->id, new.id);
}

static int copy_slice(void *ctx, const struct store_slice *slice)
{
    struct copy *c = ctx;
    struct merge *merge = c->merge;
    int rc = 0;
    struct store_slice new = {.track = merge_id(&c->source->tracks, slice->track, &rc),
                              .start = merge_time(c->source, slice->start),
                              .dur = slice->dur,
                              .name = merge_id(&c->source->strings, slice->name, &rc),
                              .category = merge_id(&c->source->strings, slice->category, &rc),
                              .detail = merge_id(&c->source->details, slice->detail, &rc),
                              .correlation = slice->correlation};
    if (slice->dur != STORE_ABSENT &&
        c->source->clock.drift != 0) /* both ends, so that what is nested stays nested */
        new.dur = merge_time(c->source, (int64_t)((uint64_t)slice->start + (uint64_t)slice->dur)) -
                  new.start;
    if (rc)
        return rc;
    if ((++merge->done & 0xffff) == 0 && merge->merge_options->progress &&
        merge->merge_options->progress(merge->merge_options->ctx, merge->done, merge->total))
        return TACHO_EINTERRUPTED;
    merge->merge_result->slices++;
    return store_slice_add(merge->out, &new);
}

static int copy_counter(void *ctx, const struct store_counter *counter)
{
    struct copy *c = ctx;
    int rc = 0;
    struct store_counter new = {.track = merge_id(&c->source->tracks, counter->track, &rc),
                                .time = merge_time(c->source, counter->time),
                                .value = counter->value};
    return rc ? rc : store_counter_add(c->merge->out, &new);
}

static int copy_step(void *ctx, const struct store_step *step)
{
    struct copy *c = ctx;
    struct store_step new = *step;
    int rc = 0;
    new.process = merge_id(&c->source->processes, step->process, &rc);
    new.start = merge_time(c->source, step->start);
    new.end = merge_time(c->source, step->end);
    return rc ? rc : store_step_add(c->merge->out, &new);
}

/* A total of ns is as much longer as its slices are. */
static int64_t scaled(const struct merge_source *source, int64_t ns)
{
    double more = (double)ns * source->clock.drift;
    return ns + (int64_t)(more < 0 ? more - 0.5 : more + 0.5);
}

static int copy_aggregate(void *ctx, const struct store_step_aggregate *step_aggregate)
{
    struct copy *c = ctx;
    struct store_step_aggregate new = *step_aggregate;
    int rc = 0;
    new.process = merge_id(&c->source->processes, step_aggregate->process, &rc);
    new.track = merge_id(&c->source->tracks, step_aggregate->track, &rc);
    new.name = merge_id(&c->source->strings, step_aggregate->name, &rc);
    new.category = merge_id(&c->source->strings, step_aggregate->category, &rc);
    new.detail = merge_id(&c->source->details, step_aggregate->detail, &rc);
    new.total = scaled(c->source, step_aggregate->total);
    new.self = scaled(c->source, step_aggregate->self);
    return rc ? rc : store_step_aggregate_add(c->merge->out, &new);
}

static int copy_stack(void *ctx, const struct store_stack *stack)
{
    struct copy *c = ctx;
    int rc = 0;
    int64_t new, parent = merge_id(&c->source->stacks, stack->parent, &rc),
                 frame = merge_id(&c->source->strings, stack->frame, &rc);
    rc = rc ? rc : store_stack(c->merge->out, parent, frame, &new);
    return rc ? rc : put(&c->source->stacks, stack->id, new);
}

static int copy_sample(void *ctx, const struct store_sample *sample)
{
    struct copy *c = ctx;
    int rc = 0;
    struct store_sample new = {.track = merge_id(&c->source->tracks, sample->track, &rc),
                               .time = merge_time(c->source, sample->time),
                               .stack = merge_id(&c->source->stacks, sample->stack, &rc)};
    return rc ? rc : store_sample_add(c->merge->out, &new);
}

/* Tables that nothing fills yet: a later version's rows are counted, not forgotten. */
static int count_others(struct merge *merge, struct merge_source *source)
{
    static const char *const table[] = {"edge"};
    int rc = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table && rc == 0; i++) {
        int64_t n = 0;
        char reason[96];
        snprintf(reason, sizeof reason, "rows of the table %s: not merged", table[i]);
        rc = store_count(source->r, table[i], &n);
        if (rc == 0 && n)
            rc = store_loss_add(
                merge->out, &(struct store_loss){"merge", reason, n, STORE_ABSENT, STORE_ABSENT});
    }
    return rc;
}

int merge_rows(struct merge *merge, struct merge_source *source)
{
    struct copy c = {.merge = merge, .source = source};
    int rc = store_string_each(source->r, 1, copy_string, &c);
    rc = rc ? rc : store_detail_each(source->r, 1, copy_detail, &c);
    rc = rc ? rc : store_process_each(source->r, copy_process, &c);
    rc = rc ? rc : store_track_each(source->r, 1, copy_track, &c);
    rc = rc ? rc : store_slice_each(source->r, 0, copy_slice, &c);
    rc = rc ? rc : store_counter_each(source->r, 0, copy_counter, &c);
    rc = rc ? rc : store_step_each(source->r, copy_step, &c);
    rc = rc ? rc : store_step_aggregate_each(source->r, copy_aggregate, &c);
    rc = rc ? rc : store_stack_each(source->r, 1, copy_stack, &c);
    rc = rc ? rc : store_sample_each(source->r, 0, copy_sample, &c);
    rc = rc ? rc : count_others(merge, source);
    if (rc && rc == store_reader_error(source->r)->code)
        merge->why = *store_reader_error(source->r);
    else if (rc == TACHO_ECORRUPT)
        tacho_fail(&merge->why, rc, NULL, "%s: damaged: a row names another one that is not there",
                   source->path);
    return rc;
}
