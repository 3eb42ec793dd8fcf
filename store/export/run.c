/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a run into memory: the rows of the window, in the order that timelines and stacks need.
 */
#include <stdlib.h>
#include <string.h>

#include "store/export/export_private.h"
#include "tacho_utf8.h"

/* Makes room for one more element. NULL: out of memory. */
static void *room(void *array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    size_t bigger = *cap ? 2 * *cap : 64;
    void *larger = bigger > SIZE_MAX / size ? NULL : realloc(array, bigger * size);
    if (larger)
        *cap = bigger;
    return larger;
}

#define ROOM(array, count, cap) \
    do { \
        void *room_p = room(array, count, &(cap), sizeof *(array)); \
        if (!room_p) \
            return TACHO_ENOMEM; \
        (array) = room_p; \
    } while (0)

/* Bytes of a text: what a slice refers to is written with each slice, so that one long text of a
 * damaged file would make an endless export. */
#define TEXT_MOST 65536

/* A copy of a text, cut between characters; NULL stays NULL. Without memory *code is
 * TACHO_ENOMEM. */
static char *copy(const char *text, int *code)
{
    size_t length = text ? tacho_utf8_cut(text, strnlen(text, TEXT_MOST)) : 0;
    char *copied = text ? strndup(text, length) : NULL;
    if (text && !copied)
        *code = TACHO_ENOMEM;
    return copied;
}

/* Keeps a run key. */
static int on_run(void *ctx, const char *key, const char *value)
{
    struct exp_run *run = ctx;
    int code = 0;
    size_t cap = run->key_cap;
    ROOM(run->key, run->key_count, cap);
    cap = run->key_cap;
    ROOM(run->value, run->key_count, cap);
    run->key_cap = cap;
    run->key[run->key_count] = copy(key, &code);
    run->value[run->key_count++] = copy(value, &code);
    return code;
}

/* Keeps a string under its id. */
static int on_string(void *ctx, int64_t id, const char *text)
{
    struct exp_run *run = ctx;
    int code = 0;
    if (id < 0 || id >= (int64_t)run->text_count)
        return 0;
    free(run->text[id]);
    run->text[id] = copy(text, &code);
    return code;
}

static int on_detail(void *ctx, const struct store_detail *detail)
{
    struct exp_run *run = ctx;
    int code = 0;
    if (detail->id < 0 || detail->id >= (int64_t)run->detail_cap || run->detail[detail->id].id)
        return 0;
    struct store_detail *copied = &run->detail[detail->id];
    *copied = *detail;
    copied->dtype = copy(detail->dtype, &code);
    copied->pass = copy(detail->pass, &code);
    copied->kind = copy(detail->kind, &code);
    copied->schema = copy(detail->schema, &code);
    copied->collective = copy(detail->collective, &code);
    copied->copy_kind = copy(detail->copy_kind, &code);
    copied->grid = copy(detail->grid, &code);
    copied->block = copy(detail->block, &code);
    copied->payload = copy(detail->payload, &code);
    return code;
}

static int on_process(void *ctx, const struct store_process *process)
{
    struct exp_run *run = ctx;
    int code = 0;
    ROOM(run->process, run->process_count, run->process_cap);
    run->process[run->process_count++] =
        (struct exp_process){.id = process->id,
                             .rank = process->rank,
                             .pid = process->pid,
                             .host = copy(process->host, &code),
                             .program = copy(process->program, &code)};
    return code;
}

static int on_track(void *ctx, const struct store_track *track)
{
    struct exp_run *run = ctx;
    int code = 0;
    ROOM(run->track, run->track_count, run->track_cap);
    struct exp_track *copied = &run->track[run->track_count++];
    *copied = (struct exp_track){
        .id = track->id, .process = track->process, .tid = track->tid, .process_at = EXP_NONE};
    copied->kind = copy(track->kind ? track->kind : "", &code);
    copied->name = copy(track->name, &code);
    copied->device = copy(track->device, &code);
    copied->unit = copy(track->unit, &code);
    const struct exp_process *process =
        run->process_count ? bsearch(&track->process, run->process, run->process_count,
                                     sizeof *process, store_id_order)
                           : NULL;
    if (process)
        copied->process_at = (uint32_t)(process - run->process);
    return code;
}

uint32_t exp_track_at(const struct exp_run *run, int64_t id)
{
    const struct exp_track *track =
        run->track_count ? bsearch(&id, run->track, run->track_count, sizeof *track, store_id_order)
                         : NULL;
    return track ? (uint32_t)(track - run->track) : EXP_NONE;
}

static uint32_t index_of(int64_t id, size_t count)
{
    return id > 0 && id < (int64_t)count ? (uint32_t)id : EXP_NONE;
}

/* 73 years: only damaged files have times beyond, and differences of smaller ones do not overflow.
 */
#define TIME_MAX (INT64_MAX / 4)

int64_t exp_clamp(int64_t time)
{
    if (time > TIME_MAX)
        return TIME_MAX;
    return time < -TIME_MAX ? -TIME_MAX : time;
}

/* Keeps a slice that overlaps the window. */
static int on_slice(void *ctx, const struct store_slice *slice)
{
    struct exp_run *run = ctx;
    uint32_t track = exp_track_at(run, slice->track);
    int64_t start = exp_clamp(slice->start);
    int64_t end = slice->dur < 0 ? start : exp_clamp(start + exp_clamp(slice->dur));
    if (slice->dur == STORE_ABSENT)
        end = INT64_MAX;
    bool instant = end == start && start == run->t0; /* a mark on the edge is inside */
    if (track == EXP_NONE || start >= run->t1 || (end <= run->t0 && !instant))
        return 0;
    ROOM(run->slice, run->slice_count, run->slice_cap);
    run->slice[run->slice_count++] =
        (struct exp_slice){.start = start,
                           .end = end,
                           .correlation = slice->correlation,
                           .track = track,
                           .name = index_of(slice->name, run->text_count),
                           .category = index_of(slice->category, run->text_count),
                           .detail = index_of(slice->detail, run->detail_cap)};
    if (start < run->origin)
        run->origin = start;
    return 0;
}

static int on_counter(void *ctx, const struct store_counter *counter)
{
    struct exp_run *run = ctx;
    if (counter->time >= run->t0 && counter->time < run->t1 && counter->time < run->origin)
        run->origin = exp_clamp(counter->time);
    return 0;
}

static int order(const void *left_row, const void *right_row)
{
    const struct exp_slice *left = left_row, *right = right_row;
    if (left->track != right->track)
        return left->track < right->track ? -1 : 1;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    if (left->end != right->end)
        return left->end > right->end ? -1 : 1;
    return left->name < right->name ? -1 : left->name > right->name;
}

static int last_id(void *ctx, int columns, const struct store_cell *cells)
{
    size_t *out = ctx;
    *out = columns == 1 && cells[0].integer > 0 ? (size_t)cells[0].integer : 0;
    return 0;
}

/* Ids are dense in a sound file; a damaged one may say anything. */
static int id_room(store_reader *reader, const char *table, const char *sql, size_t *out)
{
    int64_t rows = 0;
    size_t most = 0;
    int code = store_count(reader, table, &rows);
    if (!code)
        code = store_query(reader, sql, NULL, last_id, &most);
    if (code)
        return code;
    if (rows < 0 || most > 2 * (size_t)rows + 1000000)
        return TACHO_ECORRUPT;
    *out = most + 1;
    return 0;
}

/* Reads all tables that formats need. */
static int load(store_reader *reader, struct exp_run *run)
{
    int code = id_room(reader, "string", "SELECT max(id) FROM string", &run->text_count);
    if (!code)
        code = id_room(reader, "detail", "SELECT max(id) FROM detail", &run->detail_cap);
    if (code)
        return code;
    run->text = calloc(run->text_count, sizeof *run->text);
    run->detail = calloc(run->detail_cap, sizeof *run->detail);
    if (!run->text || !run->detail)
        return TACHO_ENOMEM;
    code = store_run_each(reader, on_run, run);
    if (!code)
        code = store_string_each(reader, 0, on_string, run);
    if (!code)
        code = store_detail_each(reader, 0, on_detail, run);
    if (!code)
        code = store_process_each(reader, on_process, run);
    if (!code)
        code = store_track_each(reader, 0, on_track, run);
    if (!code)
        code = store_slice_each(reader, 0, on_slice, run);
    if (!code)
        code = store_counter_each(reader, 0, on_counter, run);
    return code;
}

int exp_run_load(store_reader *reader, const struct store_export_options *options,
                 struct exp_run *run, struct tacho_error *err)
{
    *run = (struct exp_run){.t0 = options->t0, .t1 = options->t1, .origin = INT64_MAX};
    if (run->t1 == STORE_ABSENT) /* an absent t0 is the smallest time */
        run->t1 = INT64_MAX;
    int code = load(reader, run);
    if (code) {
        exp_run_free(run);
        if (err && store_reader_error(reader)->code == code)
            *err = *store_reader_error(reader);
        else
            tacho_fail(err, code, NULL, "%s", tacho_error_text(code));
        return code;
    }
    if (run->origin == INT64_MAX)
        run->origin = 0;
    if (run->slice_count)
        qsort(run->slice, run->slice_count, sizeof *run->slice, order);
    for (size_t i = 0; i < run->slice_count; i++) {
        struct exp_track *track = &run->track[run->slice[i].track];
        if (!track->count++)
            track->first = i;
    }
    return 0;
}

void exp_run_free(struct exp_run *run)
{
    for (size_t i = 0; i < run->key_count; i++) {
        free(run->key[i]);
        free(run->value[i]);
    }
    for (size_t i = 0; run->text && i < run->text_count; i++)
        free(run->text[i]);
    for (size_t i = 0; run->detail && i < run->detail_cap; i++) {
        struct store_detail *detail = &run->detail[i];
        const char *const texts[] = {detail->dtype,  detail->pass,       detail->kind,
                                     detail->schema, detail->collective, detail->copy_kind,
                                     detail->grid,   detail->block,      detail->payload};
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            free((void *)(uintptr_t)texts[j]);
    }
    for (size_t i = 0; i < run->process_count; i++) {
        free(run->process[i].host);
        free(run->process[i].program);
    }
    for (size_t i = 0; i < run->track_count; i++) {
        free(run->track[i].kind);
        free(run->track[i].name);
        free(run->track[i].device);
        free(run->track[i].unit);
    }
    free(run->key);
    free(run->value);
    free(run->text);
    free(run->detail);
    free(run->process);
    free(run->track);
    free(run->slice);
    *run = (struct exp_run){0};
}

const char *exp_text(const struct exp_run *run, uint32_t name)
{
    const char *text = name != EXP_NONE ? run->text[name] : NULL;
    return text ? text : "";
}

const char *exp_run_value(const struct exp_run *run, const char *key)
{
    size_t low = 0, high = run->key_count; /* they are read in their order */
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(run->key[middle], key);
        if (order == 0)
            return run->value[middle];
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* ---- lanes --------------------------------------------------------------------------------------------------------------- */

#define LANES_MAX 512 /* rows of a timeline; what overlaps even then goes to the last one */

int64_t exp_lane_put(struct exp_lanes *lanes, const struct exp_run *run, size_t i, size_t *parent)
{
    const struct exp_slice *slice = &run->slice[i];
    size_t index = 0;
    for (; index < lanes->count; index++) {
        struct exp_lane *lane = &lanes->lane[index];
        while (lane->depth && run->slice[lane->open[lane->depth - 1]].end <= slice->start)
            lane->depth--;
        if (!lane->depth || run->slice[lane->open[lane->depth - 1]].end >= slice->end ||
            index == LANES_MAX - 1)
            break;
    }
    if (index == lanes->count) {
        ROOM(lanes->lane, lanes->count, lanes->cap);
        lanes->lane[lanes->count++] = (struct exp_lane){0};
    }
    struct exp_lane *lane = &lanes->lane[index];
    *parent = lane->depth ? lane->open[lane->depth - 1] : SIZE_MAX;
    ROOM(lane->open, lane->depth, lane->cap);
    lane->open[lane->depth++] = i;
    return (int64_t)index;
}

void exp_lanes_free(struct exp_lanes *lanes)
{
    for (size_t i = 0; i < lanes->count; i++)
        free(lanes->lane[i].open);
    free(lanes->lane);
    *lanes = (struct exp_lanes){0};
}

void exp_lanes_reset(struct exp_lanes *lanes)
{
    exp_lanes_free(lanes);
}
