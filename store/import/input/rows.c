/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the rows of one foreign file: its process, its tracks, its slices.
 */
#include "store/import/input/rows.h"

#include <string.h>

#define COMMIT_ROWS 200000

/* What a key of rows->tracks is of. */
enum {
    OF_THREAD = -1,
    OF_COUNTER = -2,
    OF_RANGE = -3,
    OF_COMM = -4
}; /* a device is its own number, from 0 on */

int imp_rows_begin(struct imp_rows *rows, struct imp_run *run, int64_t rank, int64_t pid,
                   const char *host, const char *program)
{
    *rows = (struct imp_rows){.run = run, .first = INT64_MAX, .last = INT64_MIN};
    struct store_process process = {.rank = imp_rank(run, rank),
                                    .pid = pid,
                                    .parent_pid = STORE_ABSENT,
                                    .start = STORE_ABSENT,
                                    .end = STORE_ABSENT,
                                    .exit_status = STORE_ABSENT,
                                    .host = host,
                                    .program = program};
    int rc = store_process_add(run->db, &process);
    rows->process = process.id;
    return rc;
}

int imp_rows_end(struct imp_rows *rows, int rc)
{
    if (!rc && rows->bad_time)
        rc = imp_loss(rows->run, "event has no usable time stamp", rows->bad_time);
    if (!rc && rows->bad_end)
        rc = imp_loss(rows->run, "event that ends before it starts", rows->bad_end);
    imp_map_free(&rows->tracks);
    return rc;
}

/* The track of a key, made like `row` at the first call. */
static int track_of(struct imp_rows *rows, int64_t first, int64_t second, struct store_track *row,
                    int64_t *track)
{
    const int64_t *known = imp_map_find(&rows->tracks, first, second);
    if (known) {
        *track = *known;
        return 0;
    }
    row->process = rows->process;
    int rc = store_track_add(rows->run->db, row);
    *track = row->id;
    return rc ? rc : imp_map_put(&rows->tracks, first, second, row->id);
}

int imp_rows_thread(struct imp_rows *rows, int64_t tid, const char *name, int64_t *track)
{
    struct store_track row = {.tid = tid, .kind = "thread", .name = name};
    return track_of(rows, OF_THREAD, tid, &row, track);
}

int imp_rows_stream(struct imp_rows *rows, int64_t key, const char *device, int64_t stream,
                    const char *name, int64_t *track)
{
    struct store_track row = {.tid = stream, .kind = "stream", .name = name, .device = device};
    return track_of(rows, key, stream, &row, track);
}

int imp_rows_range(struct imp_rows *rows, int64_t key, const char *device, const char *name,
                   int64_t *track)
{
    struct store_track row = {.tid = STORE_ABSENT, .kind = "range", .name = name, .device = device};
    return track_of(rows, OF_RANGE, key, &row, track);
}

int imp_rows_comm(struct imp_rows *rows, int64_t key, const char *name, int64_t *track)
{
    struct store_track row = {.tid = STORE_ABSENT, .kind = "comm", .name = name};
    return track_of(rows, OF_COMM, key, &row, track);
}

int imp_rows_counter_track(struct imp_rows *rows, int64_t key, const char *device, const char *name,
                           const char *unit, int64_t *track)
{
    struct store_track row = {
        .tid = STORE_ABSENT, .kind = "counter", .name = name, .device = device, .unit = unit};
    return track_of(rows, OF_COUNTER, key, &row, track);
}

int imp_rows_string(struct imp_rows *rows, const char *text, size_t bytes, int64_t *id)
{
    return store_string(rows->run->db, text ? text : "", text ? bytes : 0, id);
}

/* Counts a row; what was written is committed now and then. */
static int wrote_row(struct imp_rows *rows)
{
    if (++rows->rows < COMMIT_ROWS)
        return 0;
    rows->rows = 0;
    int rc = store_commit(rows->run->db);
    return rc ? rc : store_begin(rows->run->db);
}

/* Are start and duration those of a real event? If not, the event is counted as lost. */
static bool time_is_usable(struct imp_rows *rows, int64_t start, int64_t dur)
{
    if (start < 0 || start > IMP_TIME_MAX || dur > IMP_TIME_MAX) {
        rows->bad_time++;
        return false;
    }
    if (dur != STORE_ABSENT && dur < 0) {
        rows->bad_end++;
        return false;
    }
    return true;
}

int imp_rows_slice(struct imp_rows *rows, const struct imp_slice *slice)
{
    struct store_slice row = {.track = slice->track,
                              .start = slice->start,
                              .dur = slice->dur,
                              .name = slice->name,
                              .detail = slice->known_detail ? slice->known_detail : STORE_ABSENT,
                              .correlation = slice->correlation};
    int rc = 0;
    if (!time_is_usable(rows, slice->start, slice->dur))
        return 0;
    int64_t end = slice->start + (slice->dur == STORE_ABSENT ? 0 : slice->dur);
    rows->first = slice->start < rows->first ? slice->start : rows->first;
    rows->last = end > rows->last ? end : rows->last;
    rows->run->slices++;
    if (rows->run->salvage_only)
        return 0;
    rc = imp_rows_string(rows, slice->category, slice->category ? strlen(slice->category) : 0,
                         &row.category);
    if (!rc && slice->detail)
        rc = store_detail_intern(rows->run->db, slice->detail, &row.detail);
    if (!rc)
        rc = store_slice_add(rows->run->db, &row);
    return rc ? rc : wrote_row(rows);
}

int imp_rows_counter(struct imp_rows *rows, int64_t track, int64_t time, double value)
{
    struct store_counter row = {.track = track, .time = time, .value = value};
    if (!time_is_usable(rows, time, 0))
        return 0;
    int rc = rows->run->salvage_only ? 0 : store_counter_add(rows->run->db, &row);
    return rc ? rc : wrote_row(rows);
}
