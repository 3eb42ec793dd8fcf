/* SPDX-License-Identifier: Apache-2.0
 *
 * One function for each table of the file that appends a row to the trace in memory. Durations and
 * sizes that cannot be are replaced and counted here, so that no analyzer has to expect them.
 */
#include "analyzers/trace/trace_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/trace/trace_part.h"

uint32_t an_id_find(const struct an_id_map *id_map, int64_t id)
{
    if (!id_map->count || id < id_map->id[0])
        return AN_NONE;
    uint64_t guess = (uint64_t)id - (uint64_t)id_map->id[0];
    if (guess < id_map->count && id_map->id[guess] == id)
        return (uint32_t)guess;
    size_t low = 0, high = id_map->count;
    AN_BISECT(low, high, id_map->id[middle] < id);
    return low < id_map->count && id_map->id[low] == id ? (uint32_t)low : AN_NONE;
}

int an_id_add(struct an_id_map *id_map, int64_t id)
{
    int rc = an_grow(&id_map->id, &id_map->capacity, id_map->count + 1, sizeof *id_map->id);
    if (!rc)
        id_map->id[id_map->count++] = id;
    return rc;
}

/* Ids wait as 32 bits in their column until the table they point to is read. */
static uint32_t id_raw(int64_t id)
{
    return id >= 0 && id < (int64_t)AN_NONE ? (uint32_t)id : AN_NONE;
}

static const char *text_of(struct an_trace_loader *loader, const char *text)
{
    return text && *text ? an_arena_text(loader->trace->arena, text) : "";
}

static const char *text_short(struct an_trace_loader *loader, const char *text)
{
    if (!text || !*text)
        return "";
    for (size_t i = 0; i < loader->texts; i++)
        if (!strcmp(loader->text[i], text))
            return loader->text[i];
    const char *copy = an_arena_text(loader->trace->arena, text);
    if (loader->texts < AN_SHORT_TEXTS)
        loader->text[loader->texts++] = copy;
    return copy;
}

void an_trace_row_times(struct an_trace *trace, int64_t from, int64_t to)
{
    if (trace->t1 < trace->t0) {
        trace->t0 = from;
        trace->t1 = to;
    }
    trace->t0 = from < trace->t0 ? from : trace->t0;
    trace->t1 = to > trace->t1 ? to : trace->t1;
}

/* ---- big tables --------------------------------------------------------------------------------------------------------- */

/* One of several parallel columns that grow together; their list ends with size 0. */
struct column {
    void *column; /* address of the pointer to the rows */
    size_t size;
};

/* Makes room for `need` rows in all columns. */
static int grow_columns(struct an_trace_loader *loader, size_t need, const struct column *column)
{
    size_t room = loader->room;
    if (need <= loader->room)
        return 0;
    for (; column->size; column++) {
        room = loader->room;
        if (an_grow(column->column, &room, need, column->size))
            return TACHO_ENOMEM;
    }
    loader->room = room;
    return 0;
}

int an_trace_row_slice_room(struct an_trace_loader *loader, size_t need)
{
    struct an_slices *slices = &loader->trace->slice;
    const struct column columns[] = {{&slices->start, sizeof *slices->start},
                                     {&slices->dur, sizeof *slices->dur},
                                     {&slices->name, sizeof *slices->name},
                                     {&slices->category, sizeof *slices->category},
                                     {&slices->detail, sizeof *slices->detail},
                                     {&slices->correlation, sizeof *slices->correlation},
                                     {&loader->track, sizeof *loader->track},
                                     {NULL, 0}};
    return grow_columns(loader, need, columns);
}

/* A duration below 0 becomes 0, one that does not fit int64 is cut off; both are counted in
 * `odd`. */
int an_trace_row_slice(void *ctx, const struct store_slice *slice)
{
    struct an_trace_loader *loader = ctx;
    struct an_slices *slices = &loader->trace->slice;
    if (slices->count >= AN_NONE - 1 ||
        (loader->rc = an_trace_row_slice_room(loader, slices->count + 1)))
        return loader->rc ? loader->rc : (loader->rc = TACHO_ENOMEM);
    size_t i = slices->count;
    int64_t start = slice->start == STORE_ABSENT ? 0 : slice->start, dur = slice->dur;
    if (dur == STORE_ABSENT) {
        dur = AN_OPEN;
        loader->trace->open++;
    } else if (dur < 0) {
        dur = 0;
        loader->trace->odd++;
    } else if (an_time_add(start, dur) - dur != start) {
        dur = INT64_MAX - start;
        loader->trace->odd++;
    }
    slices->start[i] = start;
    slices->dur[i] = dur;
    slices->name[i] = id_raw(slice->name);
    slices->category[i] = id_raw(slice->category);
    slices->detail[i] = id_raw(slice->detail);
    slices->correlation[i] = slice->correlation;
    loader->track[i] = id_raw(slice->track);
    slices->count++;
    an_trace_row_times(loader->trace, start, dur == AN_OPEN ? start : start + dur);
    return 0;
}

int an_trace_row_counter_room(struct an_trace_loader *loader, size_t need)
{
    struct an_counters *counters = &loader->trace->counter;
    const struct column columns[] = {{&counters->time, sizeof *counters->time},
                                     {&counters->value, sizeof *counters->value},
                                     {&loader->track, sizeof *loader->track},
                                     {NULL, 0}};
    return grow_columns(loader, need, columns);
}

int an_trace_row_counter(void *ctx, const struct store_counter *counter)
{
    struct an_trace_loader *loader = ctx;
    struct an_counters *counters = &loader->trace->counter;
    if (loader->part && (counter->time < loader->part->t0 || counter->time > loader->part->t1) &&
        counter->id > AN_PART_COUNTER_HEAD)
        return 0;
    if ((loader->rc = an_trace_row_counter_room(loader, counters->count + 1)))
        return loader->rc;
    counters->time[counters->count] = counter->time;
    counters->value[counters->count] = counter->value;
    loader->track[counters->count++] = id_raw(counter->track);
    an_trace_row_times(loader->trace, counter->time, counter->time);
    return 0;
}

int an_trace_row_aggregate_room(struct an_trace_loader *loader, size_t need)
{
    struct an_aggregates *rows = &loader->trace->aggregate;
    const struct column columns[] = {{&rows->process, sizeof *rows->process},
                                     {&rows->track, sizeof *rows->track},
                                     {&rows->name, sizeof *rows->name},
                                     {&rows->category, sizeof *rows->category},
                                     {&rows->detail, sizeof *rows->detail},
                                     {&rows->step, sizeof *rows->step},
                                     {&rows->calls, sizeof *rows->calls},
                                     {&rows->total, sizeof *rows->total},
                                     {&rows->self, sizeof *rows->self},
                                     {&rows->steps, sizeof *rows->steps},
                                     {NULL, 0}};
    return grow_columns(loader, need, columns);
}

int an_trace_row_aggregate(void *ctx, const struct store_step_aggregate *step_aggregate)
{
    struct an_trace_loader *loader = ctx;
    struct an_aggregates *aggregates = &loader->trace->aggregate;
    int64_t steps = step_aggregate->steps > 1 ? step_aggregate->steps : 1;
    if (loader->part && (an_time_add(step_aggregate->step, steps - 1) < loader->part->first_index ||
                         step_aggregate->step > loader->part->last_index))
        return 0;
    if ((loader->rc = an_trace_row_aggregate_room(loader, aggregates->count + 1)))
        return loader->rc;
    size_t i = aggregates->count++;
    aggregates->process[i] = id_raw(step_aggregate->process);
    aggregates->track[i] = id_raw(step_aggregate->track);
    aggregates->name[i] = id_raw(step_aggregate->name);
    aggregates->category[i] = id_raw(step_aggregate->category);
    aggregates->detail[i] = id_raw(step_aggregate->detail);
    aggregates->step[i] = step_aggregate->step;
    aggregates->steps[i] = steps;
    aggregates->calls[i] = step_aggregate->count > 0 ? step_aggregate->count : 0;
    aggregates->total[i] = step_aggregate->total > 0 ? step_aggregate->total : 0;
    aggregates->self[i] = step_aggregate->self > 0 ? step_aggregate->self : 0;
    return 0;
}

/* ---- small tables ------------------------------------------------------------------------------------------------------- */

int an_trace_row_step(void *ctx, const struct store_step *step)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if (loader->part && (step->start < loader->part->t0 || step->start > loader->part->t1))
        return 0;
    if ((loader->rc =
             an_grow(&trace->step, &loader->step_room, trace->step_count + 1, sizeof *trace->step)))
        return loader->rc;
    struct an_step_row *step_row = &trace->step[trace->step_count++];
    *step_row = (struct an_step_row){id_raw(step->process), step->paused, step->index,
                                     step->start,           step->end,    step->tokens,
                                     step->samples};
    if (step_row->end != STORE_ABSENT && step_row->end < step_row->start) {
        step_row->end = STORE_ABSENT;
        trace->odd++;
    }
    an_trace_row_times(trace, step_row->start,
                       step_row->end == STORE_ABSENT ? step_row->start : step_row->end);
    return 0;
}

int an_trace_row_string(void *ctx, int64_t id, const char *text)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if (loader->part && an_id_find(&loader->wanted, id) == AN_NONE)
        return 0;
    if ((loader->rc = an_grow(&trace->string, &loader->string_room, trace->string_count + 1,
                              sizeof *trace->string)) ||
        (loader->rc = an_id_add(&loader->strings, id)))
        return loader->rc;
    trace->string[trace->string_count++] = text_of(loader, text);
    return 0;
}

/* Kinds of tacho.range by the words of include/tacho_nvtx.h. */
static enum an_role role_of(const char *schema, const char *kind)
{
    static const struct {
        const char *kind;
        enum an_role role;
    } roles[] = {{"micro_step", AN_ROLE_MICRO_STEP},
                 {"input_wait", AN_ROLE_INPUT_WAIT},
                 {"read", AN_ROLE_READ},
                 {"decode", AN_ROLE_DECODE},
                 {"collate", AN_ROLE_COLLATE},
                 {"queue_wait", AN_ROLE_QUEUE_WAIT},
                 {"checkpoint", AN_ROLE_CHECKPOINT},
                 {"evaluation", AN_ROLE_EVALUATION},
                 {"compile", AN_ROLE_COMPILE},
                 {"host", AN_ROLE_HOST},
                 {"pin", AN_ROLE_PIN},
                 {"comm_wait", AN_ROLE_COMM_WAIT},
                 {"comm_post", AN_ROLE_COMM_POST}};
    if (!strcmp(schema, "tacho.work"))
        return AN_ROLE_WORK;
    if (!strcmp(schema, "tacho.comm"))
        return AN_ROLE_COMM;
    if (!strcmp(schema, "tacho.step"))
        return AN_ROLE_STEP;
    if (strcmp(schema, "tacho.range"))
        return AN_ROLE_NONE;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(kind, roles[i].kind))
            return roles[i].role;
    return AN_ROLE_NONE;
}

/* Sizes and counts below 0 cannot be; they are treated as not known. */
static int64_t known(int64_t value)
{
    return value < 0 ? STORE_ABSENT : value;
}

int an_trace_row_detail(void *ctx, const struct store_detail *row)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if (loader->part && an_id_find(&loader->wanted, row->id) == AN_NONE)
        return 0;
    if ((loader->rc = an_grow(&trace->detail, &loader->detail_room, trace->detail_count + 1,
                              sizeof *trace->detail)) ||
        (loader->rc = an_id_add(&loader->details, row->id)))
        return loader->rc;
    struct an_detail *out = &trace->detail[trace->detail_count++];
    *out = (struct an_detail){.flops = known(row->flops),
                              .bytes_read = known(row->bytes_read),
                              .bytes_written = known(row->bytes_written),
                              .model_flops = known(row->model_flops),
                              .palm_flops = known(row->palm_flops),
                              .bytes = known(row->bytes),
                              .samples = known(row->samples),
                              .communicator = row->communicator,
                              .ranks = known(row->ranks),
                              .dtype = text_short(loader, row->dtype),
                              .pass = text_short(loader, row->pass),
                              .kind = text_short(loader, row->kind),
                              .schema = text_short(loader, row->schema),
                              .collective = text_short(loader, row->collective),
                              .copy_kind = text_short(loader, row->copy_kind),
                              .grid = text_of(loader, row->grid),
                              .block = text_of(loader, row->block),
                              .payload = text_of(loader, row->payload)};
    out->role = role_of(out->schema, out->kind);
    out->paused = out->role == AN_ROLE_STEP && row->flags != STORE_ABSENT &&
                  (row->flags & STORE_DETAIL_PAUSED);
    /* A program need not say the kind: then its FLOPs count, but for the optimizer, which
     * multiplies no matrices. */
    bool unsaid = !*out->kind && out->flops > 0 && strcmp(out->pass, "optimizer") != 0;
    out->hardware = out->role == AN_ROLE_WORK &&
                    (unsaid || !strcmp(out->kind, "matrix") || !strcmp(out->kind, "attention") ||
                     !strcmp(out->kind, "convolution"));
    return 0;
}

int an_trace_row_process(void *ctx, const struct store_process *row)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if ((loader->rc = an_grow(&trace->process, &loader->process_room, trace->process_count + 1,
                              sizeof *trace->process)) ||
        (loader->rc = an_id_add(&loader->processes, row->id)))
        return loader->rc;
    struct an_process *out = &trace->process[trace->process_count++];
    *out = (struct an_process){.id = row->id,
                               .rank = row->rank,
                               .pid = row->pid,
                               .parent = row->parent_pid,
                               .start = row->start,
                               .end = row->end,
                               .exit_status = row->exit_status,
                               .host = text_of(loader, row->host),
                               .device = text_of(loader, row->device),
                               .program = text_of(loader, row->program),
                               .ended = text_of(loader, row->ended)};
    if (out->start != STORE_ABSENT)
        an_trace_row_times(trace, out->start, out->start);
    if (out->end != STORE_ABSENT)
        an_trace_row_times(trace, out->end, out->end);
    return 0;
}

int an_trace_row_track(void *ctx, const struct store_track *track)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if ((loader->rc = an_grow(&trace->track, &loader->track_room, trace->track_count + 1,
                              sizeof *trace->track)) ||
        (loader->rc = an_id_add(&loader->tracks, track->id)))
        return loader->rc;
    trace->track[trace->track_count++] = (struct an_track){
        .id = track->id,
        .process = track->process == STORE_ABSENT ? AN_NONE : id_raw(track->process),
        .tid = track->tid,
        .device = text_short(loader, track->device),
        .kind = text_short(loader, track->kind),
        .name = text_of(loader, track->name),
        .unit = text_short(loader, track->unit)};
    return 0;
}

int an_trace_row_loss(void *ctx, const struct store_loss *loss)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if ((loader->rc =
             an_grow(&trace->loss, &loader->loss_room, trace->loss_count + 1, sizeof *trace->loss)))
        return loader->rc;
    trace->loss[trace->loss_count++] =
        (struct an_loss_row){text_of(loader, loss->source), text_of(loader, loss->reason),
                             loss->count, loss->t0, loss->t1};
    return 0;
}

int an_trace_row_ceiling(void *ctx, const struct store_ceiling *ceiling)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if (!isfinite(ceiling->value))
        return 0; /* of a damaged file: no roof is that high */
    if (trace->ceiling_count == AN_CEILINGS_MOST) {
        trace->ceilings_beyond++;
        return 0;
    }
    if ((loader->rc = an_grow(&trace->ceiling, &loader->ceiling_room, trace->ceiling_count + 1,
                              sizeof *trace->ceiling)))
        return loader->rc;
    trace->ceiling[trace->ceiling_count++] = (struct an_ceiling_row){
        text_of(loader, ceiling->device), text_of(loader, ceiling->resource),
        text_of(loader, ceiling->dtype), text_of(loader, ceiling->source), ceiling->value};
    return 0;
}

int an_trace_row_key(void *ctx, const char *key, const char *value)
{
    struct an_trace_loader *loader = ctx;
    struct an_trace *trace = loader->trace;
    if ((loader->rc =
             an_grow(&trace->key, &loader->key_room, trace->key_count + 1, sizeof *trace->key)))
        return loader->rc;
    trace->key[trace->key_count++] =
        (struct an_run_key){text_of(loader, key), text_of(loader, value)};
    return 0;
}

/* "lost.process.ID": events that a process lost. */
static void note_lost(struct an_trace_loader *loader, const struct store_metric *metric)
{
    char *end;
    if (strncmp(metric->name, STORE_METRIC_LOST, strlen(STORE_METRIC_LOST)) != 0 ||
        !(metric->value > 0 && metric->value < 1e18))
        return;
    int64_t id = strtoll(metric->name + strlen(STORE_METRIC_LOST), &end, 10);
    uint32_t process = *end ? AN_NONE : an_id_find(&loader->processes, id);
    if (process != AN_NONE)
        loader->trace->process[process].lost = (int64_t)metric->value;
}

int an_trace_row_metric(void *ctx, const struct store_metric *metric)
{
    struct an_trace_loader *loader = ctx;
    struct an_ended *ended = &loader->trace->ended;
    const struct {
        const char *name;
        double *value;
    } known[] = {{"target.max_rss", &ended->max_rss},
                 {"target.minor_faults", &ended->minor_faults},
                 {"target.major_faults", &ended->major_faults},
                 {"target.voluntary_switches", &ended->voluntary_switches},
                 {"target.involuntary_switches", &ended->involuntary_switches}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(metric->name, known[i].name))
            *known[i].value = metric->value;
    note_lost(loader, metric);
    return 0;
}

/* ---- call stacks ---------------------------------------------------------------------------------------------------------- */

int an_trace_row_stack(void *ctx, const struct store_stack *stack)
{
    struct an_trace_loader *loader = ctx;
    struct an_stacks *stacks = &loader->trace->stack;
    const struct column columns[] = {{&stacks->frame, sizeof *stacks->frame},
                                     {&stacks->parent, sizeof *stacks->parent},
                                     {&stacks->samples, sizeof *stacks->samples},
                                     {NULL, 0}};
    if (stack->id != (int64_t)stacks->count + 1 ||
        stacks->count >= AN_NONE - 1) /* writers count without gaps: other ids are damage */
        return 0;
    if ((loader->rc = grow_columns(loader, stacks->count + 1, columns)))
        return loader->rc;
    stacks->frame[stacks->count] = id_raw(stack->frame);
    stacks->parent[stacks->count] =
        stack->parent >= 1 && stack->parent < stack->id ? (uint32_t)(stack->parent - 1) : AN_NONE;
    stacks->samples[stacks->count++] = 0;
    return 0;
}

int an_trace_row_python_track(void *ctx, const struct store_track *track)
{
    struct an_trace_loader *loader = ctx;
    loader->last_track = track->id > loader->last_track ? track->id : loader->last_track;
    if (!track->kind || strcmp(track->kind, "python") != 0)
        return 0;
    return loader->rc = an_id_add(&loader->python_tracks, track->id);
}

/* Appends a look at Python. One without a stack is left out. */
static int add_python(struct an_trace_loader *loader, const struct store_sample *sample)
{
    struct an_python_looks *looks = &loader->trace->python;
    const struct column columns[] = {{&looks->track, sizeof *looks->track},
                                     {&looks->stack, sizeof *looks->stack},
                                     {&looks->time, sizeof *looks->time},
                                     {NULL, 0}};
    if (sample->stack < 1 || (uint64_t)sample->stack > loader->trace->stack.count)
        return 0;
    if ((loader->rc = grow_columns(loader, looks->count + 1, columns)))
        return loader->rc;
    looks->track[looks->count] = id_raw(sample->track);
    looks->stack[looks->count] = (uint32_t)(sample->stack - 1);
    looks->time[looks->count++] = sample->time;
    return 0;
}

int an_trace_row_sample(void *ctx, const struct store_sample *sample)
{
    struct an_trace_loader *loader = ctx;
    struct an_stacks *stacks = &loader->trace->stack;
    if (sample->track > loader->last_track) /* of a track that was added since the last look */
        return 0;
    if (an_id_find(&loader->python_tracks, sample->track) != AN_NONE)
        return add_python(loader, sample);
    stacks->all++;
    if (sample->stack >= 1 && (uint64_t)sample->stack <= stacks->count)
        stacks->samples[sample->stack - 1]++;
    return 0;
}
