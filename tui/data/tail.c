/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a run by the ids of its rows: reads what is new, keeps steps by process and counters by
 * track, and merges neighbours when there are too many. The callbacks on_*() are called by the
 * store's reader, one row at a time.
 */
#include "tui/data/tail_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"

#define VALUES_MOST  262144 /* points of all series together */
#define SERIES_LEAST 32     /* points of one, where there are many */

struct tui_tail *tui_tail_new(void)
{
    struct tui_tail *tail = calloc(1, sizeof *tail);
    if (tail) {
        tail->start = tail->newest = tail->seen = STORE_ABSENT;
        tail->last_index = -1;
    }
    return tail;
}

static void key_free(struct key *key)
{
    free(key->key);
    free(key->value);
}

/* Forgets the keys of the run, before they are read again. */
static void keys_free(struct tui_tail *tail)
{
    for (size_t i = 0; i < tail->key_count; i++)
        key_free(&tail->key[i]);
    tail->key_count = 0;
}

static void track_free(struct track *track)
{
    free(track->name);
    free(track->unit);
    free(track->device);
    free(track->time);
    free(track->value);
}

void tui_tail_free(struct tui_tail *tail)
{
    if (!tail)
        return;
    for (size_t i = 0; i < tail->process_count; i++) {
        free(tail->process[i].host);
        free(tail->process[i].step);
    }
    for (size_t i = 0; i < tail->track_count; i++)
        track_free(&tail->track[i]);
    keys_free(tail);
    free(tail->process);
    free(tail->track);
    free(tail->key);
    free(tail);
}

/* Room for one more element: 0 or TACHO_ENOMEM. */
static int room_for(void *array, size_t *room, size_t count, size_t size)
{
    void *old, *grown;
    if (count < *room)
        return 0;
    memcpy(&old, array, sizeof old);
    size_t more = *room ? *room * 2 : 16;
    if (!(grown = realloc(old, more * size)))
        return TACHO_ENOMEM;
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return 0;
}

static char *copy_text(const char *text)
{
    return strdup(text ? text : "");
}

struct process *tui_tail_process(const struct tui_tail *tail, int64_t id)
{
    if (!tail->process_count)
        return NULL;
    return bsearch(&id, tail->process, tail->process_count, sizeof *tail->process, store_id_order);
}

static struct track *track_of(const struct tui_tail *tail, int64_t id)
{
    if (!tail->track_count)
        return NULL;
    return bsearch(&id, tail->track, tail->track_count, sizeof *tail->track, store_id_order);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Merges a row into the row before it; means are weighted by their steps. */
static void join_steps(struct an_step_point *row, const struct an_step_point *added)
{
    double row_steps = (double)row->steps, added_steps = (double)added->steps,
           whole = row_steps * row->ms + added_steps * added->ms;
    row->tokens_per_s = whole > 0 ? (row->tokens_per_s * row_steps * row->ms +
                                     added->tokens_per_s * added_steps * added->ms) /
                                        whole
                                  : NAN;
    row->ms = whole / (row_steps + added_steps);
    row->worst_ms = row->worst_ms > added->worst_ms ? row->worst_ms : added->worst_ms;
    if (!row->detailed)
        memcpy(row->class_ms, added->class_ms, sizeof row->class_ms);
    row->detailed = row->detailed || added->detailed;
    row->steps += added->steps;
}

/* A process without a rank is shown as rank 0: most programs have one process. */
static int64_t rank_of(const struct process *process)
{
    return process->rank == STORE_ABSENT ? 0 : process->rank;
}

/* Halves the rows of a process: neighbours are merged, and so are the steps that follow. */
static void halve_steps(struct process *process)
{
    size_t kept = 0;
    for (size_t i = 0; i < process->count; i += 2) {
        process->step[kept] = process->step[i];
        if (i + 1 < process->count)
            join_steps(&process->step[kept], &process->step[i + 1]);
        kept++;
    }
    process->count = kept;
    process->stride *= 2;
}

/* Adds one step: into the last row while that holds fewer steps than the stride, else as a row
 * of its own. When all ranks together have too many rows, every rank halves its rows. */
static int add_step(struct tui_tail *tail, struct process *process, const struct store_step *step)
{
    double ms = (double)(step->end - step->start) / 1e6,
           tokens = step->tokens == STORE_ABSENT ? NAN : (double)step->tokens;
    struct an_step_point row = {.rank = rank_of(process),
                                .index = step->index,
                                .steps = 1,
                                .start_s = (double)(step->start - tail->start) / 1e9,
                                .ms = ms,
                                .worst_ms = ms,
                                .tokens_per_s = ms > 0 ? tokens / ms * 1e3 : NAN};
    struct an_step_point *last = process->count ? &process->step[process->count - 1] : NULL;
    process->ms[process->seen % TUI_RECENT] = ms;
    process->tokens[process->seen % TUI_RECENT] = tokens;
    process->seen++;
    if (last && last->steps < process->stride) {
        join_steps(last, &row);
        return 0;
    }
    int rc = room_for(&process->step, &process->room, process->count, sizeof *process->step);
    if (rc)
        return rc;
    process->step[process->count++] = row;
    /* Each process keeps a row: with very many of them, halving cannot make them few. */
    size_t kept = tail->step_rows_kept,
           most = kept > AN_STEP_POINTS_MOST ? 2 * kept : AN_STEP_POINTS_MOST;
    if (++tail->step_rows <= most)
        return 0;
    tail->step_rows = 0;
    for (size_t i = 0; i < tail->process_count; i++) {
        halve_steps(&tail->process[i]);
        tail->step_rows += tail->process[i].count;
    }
    tail->step_rows_kept = tail->step_rows;
    return 0;
}

/* A step was recorded. One without an end is skipped; it is not read again. */
static int on_step(void *ctx, const struct store_step *step)
{
    struct tui_tail *tail = ctx;
    tail->next_step = step->id + 1;
    struct process *process = tui_tail_process(tail, step->process);
    if (tail->start == STORE_ABSENT)
        tail->start = step->start;
    if (process && step->end != STORE_ABSENT && step->end >= step->start) {
        if ((tail->rc = add_step(tail, process, step)))
            return tail->rc;
        if (tail->newest == STORE_ABSENT || step->end > tail->newest) {
            tail->newest = step->end;
            tail->last_index = step->index;
        }
        tail->seen = step->end > tail->seen ? step->end : tail->seen;
    }
    return --tail->left <= 0;
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Points that a series may have: fewer where there are many series. */
static size_t values_most(const struct tui_tail *tail)
{
    size_t most = VALUES_MOST / (tail->track_count ? tail->track_count : 1);
    most = most > TUI_SERIES_MOST ? TUI_SERIES_MOST : most;
    return most < SERIES_LEAST ? SERIES_LEAST : most;
}

/* Is it memory held for all purposes together? Its mean says little: what ran out is the peak. */
static bool is_total(const char *name)
{
    static const char *const totals[] = {"memory.total", "memory.peak", "memory.allocated",
                                         "memory.reserved"};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        if (!strcmp(name, totals[i]))
            return true;
    return false;
}

/* Keeps the higher one of each pair; the first point stays where the series begins. Returns how
 * many are left. */
static size_t halve_to_peaks(double *time, double *value, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i += 2, kept++) {
        size_t from = i + (i + 1 < count && (isnan(value[i]) || value[i + 1] > value[i]));
        time[kept] = i ? time[from] : time[0];
        value[kept] = value[from];
    }
    return kept;
}

/* Merges neighbouring points of a track pairwise and doubles the stride, so that a track stays
 * bounded while its picture covers the whole run. */
static void halve_values(struct track *track)
{
    size_t kept =
        (track->peaks ? halve_to_peaks : an_halve_points)(track->time, track->value, track->count);
    track->held = track->count % 2 ? track->held : track->stride + track->held;
    track->count = kept;
    track->stride *= 2;
}

/* Adds a value to the last point of a track. */
static void join_value(struct track *track, double time, double value)
{
    double held = (double)track->held++, *last_time = &track->time[track->count - 1],
           *last = &track->value[track->count - 1];
    if (!track->peaks) {
        *last_time = (*last_time * held + time) / (held + 1);
        *last = an_known_mean(*last, held, value, 1);
    } else if (isnan(*last) || value > *last) {
        *last_time = track->count > 1 ? time : *last_time;
        *last = value;
    }
}

/* Adds a point to a track: into the last point while that holds fewer values than the stride. */
static int add_value(struct tui_tail *tail, struct track *track, double time, double value)
{
    track->newest = isnan(value) ? track->newest : value;
    if (track->count && track->held < track->stride) {
        join_value(track, time, value);
        return 0;
    }
    size_t room = track->room;
    if (room_for(&track->time, &room, track->count, sizeof *track->time))
        return TACHO_ENOMEM;
    room = track->room;
    if (room_for(&track->value, &room, track->count, sizeof *track->value))
        return TACHO_ENOMEM;
    track->room = room;
    track->time[track->count] = time;
    track->value[track->count++] = value;
    track->held = 1;
    if (track->count > values_most(tail))
        halve_values(track);
    return 0;
}

/* A counter was read. Tracks of other kinds have no counters. */
static int on_counter(void *ctx, const struct store_counter *counter)
{
    struct tui_tail *tail = ctx;
    tail->next_counter = counter->id + 1;
    struct track *track = track_of(tail, counter->track);
    tail->seen = counter->time > tail->seen ? counter->time : tail->seen;
    if (tail->start == STORE_ABSENT)
        tail->start = counter->time;
    if (track && (tail->rc = add_value(tail, track, (double)(counter->time - tail->start) / 1e9,
                                       counter->value)))
        return tail->rc;
    return --tail->left <= 0;
}

/* ---- small tables ---------------------------------------------------------------------------- */

/* A process was recorded: its rank and its host name the steps and the counters that follow. */
static int on_process(void *ctx, const struct store_process *row)
{
    struct tui_tail *tail = ctx;
    if (tail->process_count && row->id <= tail->process[tail->process_count - 1].id)
        return 0; /* it was read before */
    if ((tail->rc = room_for(&tail->process, &tail->process_room, tail->process_count,
                             sizeof *tail->process)))
        return tail->rc;
    struct process *process = &tail->process[tail->process_count];
    *process = (struct process){.id = row->id,
                                .rank = row->rank,
                                .pid = row->pid,
                                .host = copy_text(row->host),
                                .stride = 1};
    if (!process->host)
        return tail->rc = TACHO_ENOMEM;
    tail->process_count++;
    return 0;
}

/* A track was recorded. Only counters are shown, but all ids are needed to read on. */
static int on_track(void *ctx, const struct store_track *row)
{
    struct tui_tail *tail = ctx;
    if ((tail->rc =
             room_for(&tail->track, &tail->track_room, tail->track_count, sizeof *tail->track)))
        return tail->rc;
    struct track *track = &tail->track[tail->track_count];
    *track = (struct track){.id = row->id,
                            .process = row->process,
                            .counter = !strcmp(row->kind, "counter"),
                            .peaks = row->name && is_total(row->name),
                            .newest = NAN,
                            .name = copy_text(row->name),
                            .unit = copy_text(row->unit),
                            .device = copy_text(row->device),
                            .stride = 1};
    if (!track->name || !track->unit || !track->device) {
        track_free(track); /* the next poll reads it again */
        return tail->rc = TACHO_ENOMEM;
    }
    tail->track_count++;
    tail->next_track = row->id + 1;
    return 0;
}

/* Keys of a run may change while it is recorded, so they are read again at every poll. */
static int on_key(void *ctx, const char *key, const char *value)
{
    struct tui_tail *tail = ctx;
    if ((tail->rc = room_for(&tail->key, &tail->key_room, tail->key_count, sizeof *tail->key)))
        return tail->rc;
    struct key *row = &tail->key[tail->key_count];
    *row = (struct key){copy_text(key), copy_text(value)};
    if (!row->key || !row->value) {
        key_free(row);
        return tail->rc = TACHO_ENOMEM;
    }
    tail->key_count++;
    return 0;
}

const char *tui_tail_key(const struct tui_tail *tail, const char *key)
{
    for (size_t i = 0; i < tail->key_count; i++)
        if (!strcmp(tail->key[i].key, key))
            return tail->key[i].value;
    return NULL;
}

int64_t tui_tail_newest(const struct tui_tail *tail)
{
    return tail->seen;
}

int64_t tui_tail_start(const struct tui_tail *tail)
{
    return tail->start;
}

int64_t tui_tail_slices(const struct tui_tail *tail)
{
    return tail->slices;
}

/* Small tables first: steps and counters refer to their rows. A poll that has read enough stops,
 * and the next one continues at the id after it. */
int tui_tail_poll(struct tui_tail *tail, store_reader *reader, int64_t rows)
{
    int rc;
    tail->rc = 0;
    tail->left = rows;
    keys_free(tail);
    if ((rc = store_run_each(reader, on_key, tail)) ||
        (rc = store_process_each(reader, on_process, tail)) ||
        (rc = store_track_each(reader, tail->next_track, on_track, tail)) ||
        (rc = store_last_id(reader, "slice", &tail->slices)))
        return rc;
    const char *start = tui_tail_key(tail, "start.monotonic_ns");
    if (tail->start == STORE_ABSENT && start)
        tail->start = strtoll(start, NULL, 10);
    rc = store_step_from(reader, tail->next_step, on_step, tail);
    if (rc < 0 || tail->left <= 0)
        return rc < 0 ? rc : 1;
    rc = store_counter_each(reader, tail->next_counter, on_counter, tail);
    return rc < 0 ? rc : tail->left <= 0;
}

/* ---- what an analysis saw -------------------------------------------------------------------- */

/* The rows of a process are sorted by the index of their steps, so a step is found by bisection. */
void tui_tail_update(struct tui_tail *tail, const struct an_result *result)
{
    for (size_t i = 0; i < result->step_point_count; i++) {
        const struct an_step_point *point = &result->step_points[i];
        for (size_t other = 0; point->detailed && other < tail->process_count; other++) {
            struct process *process = &tail->process[other];
            if (!process->count || rank_of(process) != point->rank)
                continue;
            size_t low = 0, high = process->count; /* the last row that starts no later */
            while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (process->step[middle].index <= point->index)
                    low = middle + 1;
                else
                    high = middle;
            }
            struct an_step_point *row = low ? &process->step[low - 1] : NULL;
            if (!row || point->index >= row->index + row->steps)
                continue;
            memcpy(row->class_ms, point->class_ms, sizeof row->class_ms);
            row->detailed = true;
            row->excluded = NULL;
        }
    }
}
