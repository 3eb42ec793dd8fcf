/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a run: the large tables into columns, then the small ones, then resolves ids to indexes,
 * sorts and links the rows. Of a part of a run (trace_part.h) only those names and payloads are
 * loaded that its rows refer to.
 */
#include "analyzers/trace/trace.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/trace/trace_part.h"
#include "analyzers/trace/trace_rows.h"

/* The ids in a column become indexes. */
static void id_resolve(uint32_t *column, size_t count, const struct an_id_map *id_map)
{
    for (size_t i = 0; i < count; i++)
        if (column[i] != AN_NONE)
            column[i] = an_id_find(id_map, column[i]);
}

static struct an_trace *new_trace(void)
{
    struct an_trace *trace = calloc(1, sizeof *trace);
    if (!trace || !(trace->arena = an_arena_new())) {
        free(trace);
        return NULL;
    }
    trace->t1 = -1; /* before t0: no time yet */
    return trace;
}

static void loader_free(struct an_trace_loader *loader)
{
    free(loader->track);
    free(loader->strings.id);
    free(loader->details.id);
    free(loader->processes.id);
    free(loader->tracks.id);
    free(loader->python_tracks.id);
    free(loader->wanted.id);
}

/* ---- loading ------------------------------------------------------------------------------------------------------------ */

#define PART_ROOM    (1u << 20) /* slices that room is made for before they are seen */
#define BESIDE_LEAST 100000     /* aggregates that are worth a thread: about 50 ms */

/* Rows of a table for sizing; a table that cannot be counted grows as it is read. */
static size_t rows_of(store_reader *reader, const char *table)
{
    int64_t count = 0;
    return store_count(reader, table, &count) == 0 && count > 0 && count < (int64_t)AN_NONE
               ? (size_t)count
               : 0;
}

/* The number of rows is known before they are read, so the columns are allocated once. Of a part
 * only ids are known, which may be anything in a damaged file: its columns start small and grow. */
static int load_slices(store_reader *reader, struct an_trace_loader *loader)
{
    const struct an_trace_part *part = loader->part;
    if (!part) {
        int rc = an_trace_row_slice_room(loader, rows_of(reader, "slice"));
        return rc ? rc : store_slice_each(reader, 0, an_trace_row_slice, loader);
    }
    int rc = an_trace_row_slice_room(loader, (size_t)an_time_min(part->slices, PART_ROOM));
    return rc ? rc
              : store_slice_between(reader, part->slice, part->t0, part->t1, an_trace_row_slice,
                                    loader);
}

/* Values from the head of the table, and those of the part. */
static int on_head(void *ctx, const struct store_counter *counter)
{
    struct an_trace_loader *loader = ctx;
    return counter->id > AN_PART_COUNTER_HEAD || counter->id >= loader->part->counter
               ? 1
               : an_trace_row_counter(ctx, counter);
}

static int load_counters(store_reader *reader, struct an_trace_loader *loader)
{
    if (!loader->part) {
        int rc = an_trace_row_counter_room(loader, rows_of(reader, "counter"));
        return rc ? rc : store_counter_each(reader, 0, an_trace_row_counter, loader);
    }
    int rc = store_counter_each(reader, 0, on_head, loader);
    return loader->rc || rc < 0
               ? rc
               : store_counter_each(reader, loader->part->counter, an_trace_row_counter, loader);
}

static int load_stacks(store_reader *reader, struct an_trace_loader *loader)
{
    if (loader->part)
        return 0;
    int rc = store_stack_each(reader, 1, an_trace_row_stack, loader);
    loader->room = 0;
    rc = rc ? rc : store_track_each(reader, 0, an_trace_row_python_track, loader);
    rc = rc ? rc : store_sample_each(reader, 0, an_trace_row_sample, loader);
    loader->room = 0;
    return rc;
}

static int load_big(store_reader *reader, struct an_trace_loader *loader, uint32_t **slice_track,
                    uint32_t **counter_track)
{
    int rc = load_slices(reader, loader);
    *slice_track = loader->track;
    loader->track = NULL;
    loader->room = 0;
    rc = rc ? rc : load_counters(reader, loader);
    *counter_track = loader->track;
    loader->track = NULL;
    loader->room = 0;
    return rc ? rc : load_stacks(reader, loader);
}

/* ---- of a part, only the names and payloads that it refers to ------------------------------------------------------------- */

static int wanted_order(const void *first, const void *second)
{
    const int64_t *left = first, *right = second;
    return AN_COMPARE(*left, *right);
}

static int want(struct an_trace_loader *loader, const uint32_t *column, size_t count)
{
    int64_t last = -1; /* neighbours often refer to the same */
    for (size_t i = 0; i < count; i++) {
        if (column[i] == AN_NONE || column[i] == last)
            continue;
        last = column[i];
        if (an_id_add(&loader->wanted, last))
            return TACHO_ENOMEM;
    }
    return 0;
}

/* Sorts the ids that were asked for and removes duplicates, so that they can be searched. */
static void want_sort(struct an_id_map *id_map)
{
    size_t n = 0;
    if (id_map->count)
        qsort(id_map->id, id_map->count, sizeof *id_map->id, wanted_order);
    for (size_t i = 0; i < id_map->count; i++)
        if (!n || id_map->id[i] != id_map->id[n - 1])
            id_map->id[n++] = id_map->id[i];
    id_map->count = n;
}

static int on_one_string(void *ctx, int64_t id, const char *text)
{
    int rc = an_trace_row_string(ctx, id, text);
    return rc ? rc : 1;
}

static int on_one_detail(void *ctx, const struct store_detail *detail)
{
    int rc = an_trace_row_detail(ctx, detail);
    return rc ? rc : 1;
}

/* A look for each id costs about as much as a hundred rows of a scan. */
static int load_wanted(store_reader *reader, struct an_trace_loader *loader, bool strings)
{
    int64_t last;
    int rc = store_last_id(reader, strings ? "string" : "detail", &last);
    want_sort(&loader->wanted);
    if (rc)
        return rc;
    if ((int64_t)loader->wanted.count > last / 100)
        return strings ? store_string_each(reader, 0, an_trace_row_string, loader)
                       : store_detail_each(reader, 0, an_trace_row_detail, loader);
    for (size_t i = 0; i < loader->wanted.count && rc >= 0 && !loader->rc; i++)
        rc = strings ? store_string_each(reader, loader->wanted.id[i], on_one_string, loader)
                     : store_detail_each(reader, loader->wanted.id[i], on_one_detail, loader);
    return rc > 0 ? 0 : rc;
}

static int load_names(store_reader *reader, struct an_trace_loader *loader)
{
    const struct an_slices *slices = &loader->trace->slice;
    const struct an_aggregates *aggregates = &loader->trace->aggregate;
    int rc;
    if (!loader->part)
        return store_string_each(reader, 0, an_trace_row_string, loader);
    if ((rc = want(loader, slices->detail, slices->count)) ||
        (rc = want(loader, aggregates->detail, aggregates->count)) ||
        (rc = load_wanted(reader, loader, false)))
        return rc;
    loader->wanted.count = 0;
    if ((rc = want(loader, slices->name, slices->count)) ||
        (rc = want(loader, slices->category, slices->count)) ||
        (rc = want(loader, aggregates->name, aggregates->count)) ||
        (rc = want(loader, aggregates->category, aggregates->count)))
        return rc;
    return load_wanted(reader, loader, true);
}

static int load_small(store_reader *reader, struct an_trace_loader *loader)
{
    int rc = store_track_each(reader, 0, an_trace_row_track, loader);
    rc = rc ? rc : store_process_each(reader, an_trace_row_process, loader);
    rc = rc ? rc : load_names(reader, loader);
    rc = rc ? rc : store_loss_each(reader, an_trace_row_loss, loader);
    rc = rc ? rc : store_ceiling_each(reader, an_trace_row_ceiling, loader);
    loader->trace->ended = (struct an_ended){NAN, NAN, NAN, NAN, NAN};
    rc = rc ? rc : store_metric_each(reader, an_trace_row_metric, loader);
    return rc ? rc : store_run_each(reader, an_trace_row_key, loader);
}

/* ---- tables that another thread can read ----------------------------------------------------------------------------------- */

/* Steps, their aggregates and the details: these refer to the other tables, but are resolved
 * later. Of a part, details are read with the names. */
static int load_steps(store_reader *reader, struct an_trace_loader *loader)
{
    const struct an_trace_part *part = loader->part;
    int64_t aggregate = part ? part->aggregate : 0;
    int64_t step = part ? part->step : INT64_MIN;
    int rc = 0;
    loader->room = 0;
    if (!part)
        rc = an_trace_row_aggregate_room(loader, rows_of(reader, "step_aggregate"));
    rc = rc ? rc : store_step_aggregate_from(reader, aggregate, an_trace_row_aggregate, loader);
    rc = rc ? rc : store_step_from(reader, step, an_trace_row_step, loader);
    return rc || part ? rc : store_detail_each(reader, 0, an_trace_row_detail, loader);
}

/* A thread with a reader and a trace of its own, of which the caller's trace takes what was read.
 */
struct beside {
    pthread_t thread;
    store_reader *reader;
    struct an_trace_loader loader;
    int rc;
};

static void *beside_run(void *argument)
{
    struct beside *beside = argument;
    beside->rc = load_steps(beside->reader, &beside->loader);
    return NULL;
}

static void beside_free(struct beside *beside)
{
    store_reader_close(beside->reader);
    loader_free(&beside->loader);
    an_trace_free(beside->loader.trace);
}

/* Of a whole run whose steps take long to read. false: nothing was started. */
static bool beside_start(struct beside *beside, store_reader *reader,
                         const struct an_trace_loader *loader)
{
    if (loader->part || rows_of(reader, "step_aggregate") < BESIDE_LEAST)
        return false;
    beside->reader = store_reader_twin(reader);
    beside->loader.trace = beside->reader ? new_trace() : NULL;
    if (beside->loader.trace && !pthread_create(&beside->thread, NULL, beside_run, beside))
        return true;
    beside_free(beside);
    return false;
}

/* Moves the tables over, with the arena that holds their texts. */
static void beside_take(struct beside *beside, struct an_trace_loader *loader)
{
    struct an_trace *from = beside->loader.trace, *to = loader->trace;
    to->aggregate = from->aggregate;
    to->step = from->step;
    to->step_count = from->step_count;
    to->detail = from->detail;
    to->detail_count = from->detail_count;
    to->beside = from->arena;
    to->odd += from->odd;
    if (from->t1 >= from->t0)
        an_trace_row_times(to, from->t0, from->t1);
    loader->details = beside->loader.details;
    free(from);
    beside->loader = (struct an_trace_loader){.trace = NULL};
}

/* Waits for the thread. If it failed, the tables are read again, which leaves the error in
 * `reader`. */
static int beside_end(struct beside *beside, store_reader *reader, struct an_trace_loader *loader)
{
    pthread_join(beside->thread, NULL);
    int failed = beside->rc;
    if (!failed)
        beside_take(beside, loader);
    beside_free(beside);
    return failed ? load_steps(reader, loader) : 0;
}

/* The ids of tracks in the large columns become indexes, and the rows get their order. */
static int order_rows(struct an_trace_loader *loader, uint32_t *slice_track,
                      uint32_t *counter_track)
{
    struct an_trace *trace = loader->trace;
    id_resolve(slice_track, trace->slice.count, &loader->tracks);
    id_resolve(counter_track, trace->counter.count, &loader->tracks);
    int rc = loader->part ? 0 : an_trace_join_threads(trace, slice_track);
    rc = rc ? rc : an_trace_order(trace, slice_track);
    return rc ? rc : an_trace_order_counters(trace, counter_track);
}

/* The names of a part, which load_small reads, are those that its aggregates refer to, too. */
static int load_tables(store_reader *reader, struct an_trace_loader *loader, uint32_t **slice_track,
                       uint32_t **counter_track)
{
    struct beside beside = {.rc = 0};
    bool started = beside_start(&beside, reader, loader);
    int rc = load_big(reader, loader, slice_track, counter_track);
    if (!rc && !started)
        rc = load_steps(reader, loader);
    rc = rc ? rc : load_small(reader, loader);
    rc = rc ? rc : order_rows(loader, *slice_track, *counter_track);
    int late = started ? beside_end(&beside, reader, loader) : 0;
    return rc ? rc : late;
}

/* Links the tracks of each process, and those of none, in their order. */
static void link_tracks(struct an_trace *trace)
{
    trace->first_unowned = AN_NONE;
    for (size_t i = 0; i < trace->process_count; i++)
        trace->process[i].first_track = AN_NONE;
    for (uint32_t i = (uint32_t)trace->track_count; i-- > 0;) {
        struct an_track *track = &trace->track[i];
        uint32_t *first = track->process == AN_NONE ? &trace->first_unowned
                                                    : &trace->process[track->process].first_track;
        track->next = *first;
        *first = i;
    }
}

/* Replaces the other ids of the file by indexes in all columns and rows that refer to another
 * table. */
static void resolve_ids(struct an_trace_loader *loader)
{
    struct an_trace *trace = loader->trace;
    id_resolve(trace->slice.name, trace->slice.count, &loader->strings);
    id_resolve(trace->slice.category, trace->slice.count, &loader->strings);
    id_resolve(trace->slice.detail, trace->slice.count, &loader->details);
    id_resolve(trace->stack.frame, trace->stack.count, &loader->strings);
    id_resolve(trace->python.track, trace->python.count, &loader->tracks);
    struct an_aggregates *aggregates = &trace->aggregate;
    id_resolve(aggregates->process, aggregates->count, &loader->processes);
    id_resolve(aggregates->track, aggregates->count, &loader->tracks);
    id_resolve(aggregates->name, aggregates->count, &loader->strings);
    id_resolve(aggregates->category, aggregates->count, &loader->strings);
    id_resolve(aggregates->detail, aggregates->count, &loader->details);
    for (size_t i = 0; i < trace->step_count; i++)
        trace->step[i].process = an_id_find(&loader->processes, trace->step[i].process);
    for (size_t i = 0; i < trace->track_count; i++)
        trace->track[i].process = an_id_find(&loader->processes, trace->track[i].process);
    link_tracks(trace);
    an_trace_order_keys(trace);
}

/* Ranks of processes that a program has started itself: no variable of the environment says them,
 * only the hook, in a counter. */
static void ranks_of_counters(struct an_trace *trace)
{
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (!track->counter_count || track->process == AN_NONE ||
            strcmp(track->kind, "counter") != 0 || strcmp(track->name, "distributed.rank") != 0)
            continue;
        struct an_process *process = &trace->process[track->process];
        double rank = trace->counter.value[an_counter_end(track) - 1];
        if (process->rank == STORE_ABSENT && rank >= 0 && rank <= INT32_MAX)
            process->rank = (int64_t)rank;
    }
}

int an_trace_load_part(store_reader *reader, const struct an_trace_part *part,
                       struct an_trace **out, struct tacho_error *err)
{
    struct an_trace_loader loader = {.part = part && !part->whole ? part : NULL};
    uint32_t *slice_track = NULL, *counter_track = NULL;
    int rc = TACHO_ENOMEM;
    *out = NULL;
    if (!(loader.trace = new_trace()))
        goto out;
    if ((rc = load_tables(reader, &loader, &slice_track, &counter_track)))
        goto out;
    resolve_ids(&loader);
    if ((rc = an_trace_name_roles(loader.trace)) || (rc = an_trace_waits(loader.trace)))
        goto out;
    ranks_of_counters(loader.trace);
    if (an_arena_failed(loader.trace->arena) ||
        (loader.trace->beside && an_arena_failed(loader.trace->beside)))
        rc = TACHO_ENOMEM;
out:
    free(slice_track);
    free(counter_track);
    loader_free(&loader);
    if (!rc) {
        *out = loader.trace;
        return 0;
    }
    const struct tacho_error *cause = store_reader_error(reader);
    if (cause && cause->code && !loader.rc)
        tacho_fail(err, rc, cause->hint, "%s", cause->what);
    else
        tacho_fail(err, rc, NULL, "reading the run: %s", tacho_error_text(rc));
    an_trace_free(loader.trace);
    return rc;
}

int an_trace_load(store_reader *reader, struct an_trace **out, struct tacho_error *err)
{
    return an_trace_load_part(reader, NULL, out, err);
}

void an_trace_free(struct an_trace *trace)
{
    if (!trace)
        return;
    void *all[] = {trace->string,
                   trace->detail,
                   trace->process,
                   trace->track,
                   trace->slice.start,
                   trace->slice.dur,
                   trace->slice.name,
                   trace->slice.category,
                   trace->slice.detail,
                   trace->slice.parent,
                   trace->slice.correlation,
                   trace->counter.time,
                   trace->counter.value,
                   trace->step,
                   trace->loss,
                   trace->ceiling,
                   trace->key,
                   trace->aggregate.process,
                   trace->aggregate.track,
                   trace->aggregate.name,
                   trace->aggregate.step,
                   trace->aggregate.steps,
                   trace->aggregate.detail,
                   trace->aggregate.calls,
                   trace->aggregate.total,
                   trace->aggregate.self,
                   trace->aggregate.category,
                   trace->stack.frame,
                   trace->stack.parent,
                   trace->stack.samples,
                   trace->python.track,
                   trace->python.stack,
                   trace->python.time,
                   trace->name_role,
                   trace->name_api};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    an_arena_free(trace->arena);
    an_arena_free(trace->beside);
    free(trace);
}
