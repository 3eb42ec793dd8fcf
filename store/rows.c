/* SPDX-License-Identifier: Apache-2.0
 *
 * One function a table. Statements bind their columns in the order of schema.sql.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/writer.h"
#include "tacho_utf8.h"

#define WRITING "cannot be written"

void store_bind_int(sqlite3_stmt *st, int column, int64_t value)
{
    if (value == STORE_ABSENT)
        sqlite3_bind_null(st, column);
    else
        sqlite3_bind_int64(st, column, value);
}

/* Bytes at the start of text that are UTF-8 without NUL. */
static size_t utf8_valid(const unsigned char *p, size_t bytes)
{
    size_t i = 0;
    while (i < bytes) {
        size_t n = p[i] ? tacho_utf8_sequence(p + i, bytes - i) : 0;
        if (!n)
            break;
        i += n;
    }
    return i;
}

/* Copy of text with U+FFFD in place of each byte that is not UTF-8. Text columns promise UTF-8:
 * Python and DuckDB refuse to read a row that breaks the promise. Names come from programs that
 * promise nothing. */
static char *utf8_repair(const char *text, size_t bytes, size_t *out_bytes)
{
    char *out = malloc(3 * bytes + 1), *o = out;
    if (!out)
        return NULL;
    for (size_t i = 0; i < bytes;) {
        size_t n = utf8_valid((const unsigned char *)text + i, bytes - i);
        memcpy(o, text + i, n);
        o += n;
        i += n;
        if (i < bytes) {
            memcpy(o, "\xef\xbf\xbd", 3);
            o += 3;
            i++;
        }
    }
    *o = 0;
    *out_bytes = (size_t)(o - out);
    return out;
}

void store_bind_text(sqlite3_stmt *st, int column, const char *text)
{
    if (!text) {
        sqlite3_bind_null(st, column);
        return;
    }
    size_t bytes = strlen(text);
    if (utf8_valid((const unsigned char *)text, bytes) == bytes) {
        sqlite3_bind_text64(st, column, text, bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
        return;
    }
    char *fixed = utf8_repair(text, bytes, &bytes);
    if (fixed)
        sqlite3_bind_text64(st, column, fixed, bytes, free, SQLITE_UTF8);
}

static int no_memory(store *s)
{
    s->failed = TACHO_ENOMEM;
    return tacho_fail(&s->error, TACHO_ENOMEM, NULL, "%s: " WRITING ": out of memory", s->path);
}

/* ---- run --------------------------------------------------------------------------------------------------------------- */

int store_run_set(store *s, const char *key, const char *value)
{
    sqlite3_stmt *st = store_statement(s, value ? STORE_SQL_RUN_SET : STORE_SQL_RUN_DELETE);
    if (!st)
        return s->failed;
    store_bind_text(st, 1, key);
    if (value)
        store_bind_text(st, 2, value);
    return store_run_statement(s, st, WRITING);
}

int store_run_set_int(store *s, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return store_run_set(s, key, value == STORE_ABSENT ? NULL : text);
}

/* ---- interned: string, detail -------------------------------------------------------------------------------------------- */

int store_string(store *s, const char *text, size_t bytes, int64_t *id)
{
    char *fixed = NULL;
    bool added;
    if (utf8_valid((const unsigned char *)text, bytes) != bytes) {
        fixed = utf8_repair(text, bytes, &bytes);
        if (!fixed)
            return no_memory(s);
        text = fixed;
    }
    int code = store_intern_put(&s->strings, text, bytes, id, &added) ? no_memory(s) : 0;
    if (!code && added) {
        sqlite3_stmt *st = store_statement(s, STORE_SQL_STRING_ADD);
        code = st ? 0 : s->failed;
        if (st) {
            sqlite3_bind_int64(st, 1, *id);
            sqlite3_bind_text64(st, 2, text, bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
            code = store_run_statement(s, st, WRITING);
        }
        if (code) /* not in the file, so the id must not be found again */
            store_intern_truncate(&s->strings, s->strings.count - 1);
    }
    free(fixed);
    return code;
}

static int key_put(store *s, const void *bytes, size_t n)
{
    if (s->key_cap - s->key_used < n) {
        size_t cap = s->key_cap ? 2 * s->key_cap : 512;
        while (cap - s->key_used < n)
            cap *= 2;
        char *key = realloc(s->key, cap);
        if (!key)
            return TACHO_ENOMEM;
        s->key = key;
        s->key_cap = cap;
    }
    memcpy(s->key + s->key_used, bytes, n);
    s->key_used += n;
    return 0;
}

int store_detail_key(store *s, const struct store_detail *detail)
{
    const int64_t numbers[] = {detail->flops,       detail->bytes_read,   detail->bytes_written,
                               detail->model_flops, detail->palm_flops,   detail->bytes,
                               detail->samples,     detail->communicator, detail->ranks,
                               detail->flags};
    const char *texts[] = {detail->dtype,  detail->pass,       detail->kind,
                           detail->schema, detail->collective, detail->copy_kind,
                           detail->grid,   detail->block,      detail->payload};
    s->key_used = 0;
    int code = key_put(s, numbers, sizeof numbers);
    for (size_t i = 0; !code && i < sizeof texts / sizeof *texts; i++)
        code = texts[i] ? key_put(s, texts[i], strlen(texts[i]) + 1)
                        : key_put(s, "\xff", 2); /* \xff: no UTF-8 text, so: absent */
    return code;
}

int store_detail_intern(store *s, const struct store_detail *detail, int64_t *id)
{
    bool added;
    if (store_detail_key(s, detail) ||
        store_intern_put(&s->details, s->key, s->key_used, id, &added))
        return no_memory(s);
    if (!added)
        return 0;
    sqlite3_stmt *st = store_statement(s, STORE_SQL_DETAIL_ADD);
    int code = s->failed;
    if (st) {
        sqlite3_bind_int64(st, 1, *id);
        store_bind_int(st, 2, detail->flops);
        store_bind_int(st, 3, detail->bytes_read);
        store_bind_int(st, 4, detail->bytes_written);
        store_bind_text(st, 5, detail->dtype);
        store_bind_text(st, 6, detail->pass);
        store_bind_text(st, 7, detail->kind);
        store_bind_int(st, 8, detail->model_flops);
        store_bind_int(st, 9, detail->palm_flops);
        store_bind_int(st, 10, detail->bytes);
        store_bind_int(st, 11, detail->samples);
        store_bind_int(st, 12, detail->communicator);
        store_bind_int(st, 13, detail->ranks);
        store_bind_text(st, 14, detail->collective);
        store_bind_text(st, 15, detail->copy_kind);
        store_bind_text(st, 16, detail->grid);
        store_bind_text(st, 17, detail->block);
        store_bind_text(st, 18, detail->schema);
        store_bind_text(st, 19, detail->payload);
        store_bind_int(st, 20, detail->flags);
        code = store_run_statement(s, st, WRITING);
    }
    if (code)
        store_intern_truncate(&s->details, s->details.count - 1);
    return code;
}

/* ---- process, track ------------------------------------------------------------------------------------------------------ */

static int process_write(store *s, sqlite3_stmt *st, const struct store_process *process)
{
    sqlite3_bind_int64(st, 1, process->id);
    store_bind_int(st, 2, process->rank);
    store_bind_text(st, 3, process->host);
    store_bind_int(st, 4, process->pid);
    store_bind_int(st, 5, process->parent_pid);
    store_bind_text(st, 6, process->program);
    store_bind_text(st, 7, process->device);
    store_bind_int(st, 8, process->start);
    store_bind_int(st, 9, process->end);
    store_bind_int(st, 10, process->exit_status);
    store_bind_text(st, 11, process->ended);
    return store_run_statement(s, st, WRITING);
}

int store_process_add(store *s, struct store_process *process)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_PROCESS_ADD);
    if (!st)
        return s->failed;
    process->id = s->next.process;
    int code = process_write(s, st, process);
    if (!code)
        s->next.process++;
    return code;
}

int store_process_update(store *s, const struct store_process *process)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_PROCESS_UPDATE);
    return st ? process_write(s, st, process) : s->failed;
}

int store_track_add(store *s, struct store_track *track)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_TRACK_ADD);
    if (!st)
        return s->failed;
    track->id = s->next.track;
    sqlite3_bind_int64(st, 1, track->id);
    store_bind_int(st, 2, track->process);
    store_bind_text(st, 3, track->kind);
    store_bind_text(st, 4, track->name);
    store_bind_text(st, 5, track->device);
    store_bind_int(st, 6, track->tid);
    store_bind_text(st, 7, track->unit);
    int code = store_run_statement(s, st, WRITING);
    if (!code)
        s->next.track++;
    return code;
}

int store_track_rename(store *s, int64_t track, const char *name)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_TRACK_RENAME);
    if (!st)
        return s->failed;
    sqlite3_bind_int64(st, 1, track);
    store_bind_text(st, 2, name);
    return store_run_statement(s, st, WRITING);
}

/* ---- rows that come by the million: they wait in a batch ----------------------------------------------------------------- */

/* A place for one row, or NULL (s->failed says why). */
static int64_t *batch_place(store *s, struct store_batch *batch)
{
    if (!s->in_transaction)
        s->failed = 0;
    if (s->failed)
        return NULL;
    if (batch->rows == STORE_BATCH_ROWS) {
        int rc = store_batch_flush(batch);
        if (rc != SQLITE_OK) {
            store_note(s, sqlite3_extended_errcode(s->db), WRITING);
            return NULL;
        }
    }
    return batch->row[batch->rows++];
}

/* Outside a transaction nothing may wait: there is no commit to wait for. */
static int batch_done(store *s)
{
    return s->in_transaction ? 0 : store_flush(s);
}

int store_slice_add(store *s, struct store_slice *slice)
{
    int64_t *row = batch_place(s, &s->slices);
    if (!row)
        return s->failed;
    slice->id = s->next.slice++;
    row[0] = slice->id;
    row[1] = slice->track;
    row[2] = slice->start;
    row[3] = slice->dur;
    row[4] = slice->name;
    row[5] = slice->category;
    row[6] = slice->detail;
    row[7] = slice->correlation;
    return batch_done(s);
}

int store_slice_end(store *s, int64_t id, int64_t dur)
{
    int64_t first = s->next.slice - s->slices.rows; /* ids of waiting rows are dense */
    if (id >= first && id < s->next.slice) {
        s->slices.row[id - first][3] = dur;
        return s->failed;
    }
    sqlite3_stmt *st = store_statement(s, STORE_SQL_SLICE_END);
    if (!st)
        return s->failed;
    sqlite3_bind_int64(st, 1, id);
    store_bind_int(st, 2, dur);
    return store_run_statement(s, st, WRITING);
}

int store_time_shift(store *s, int64_t from_track, int64_t delta)
{
    static const enum store_statement shifts[] = {STORE_SQL_SLICE_SHIFT, STORE_SQL_COUNTER_SHIFT};
    int code = store_flush(s);
    for (size_t i = 0; !code && i < sizeof shifts / sizeof *shifts; i++) {
        sqlite3_stmt *st = store_statement(s, shifts[i]);
        if (!st)
            return s->failed;
        sqlite3_bind_int64(st, 1, from_track);
        sqlite3_bind_int64(st, 2, delta);
        code = store_run_statement(s, st, WRITING);
    }
    return code;
}

int store_counter_add(store *s, const struct store_counter *counter)
{
    int64_t *row = batch_place(s, &s->counters);
    if (!row)
        return s->failed;
    row[0] = STORE_ABSENT; /* SQLite gives the next id */
    row[1] = counter->track;
    row[2] = counter->time;
    memcpy(&row[3], &counter->value, sizeof row[3]);
    return batch_done(s);
}

int store_step_aggregate_add(store *s, const struct store_step_aggregate *step_aggregate)
{
    int64_t *row = batch_place(s, &s->aggregates);
    if (!row)
        return s->failed;
    row[0] = step_aggregate->process;
    row[1] = step_aggregate->step;
    row[2] = step_aggregate->track;
    row[3] = step_aggregate->name;
    row[4] = step_aggregate->category;
    row[5] = step_aggregate->detail;
    row[6] = step_aggregate->count;
    row[7] = step_aggregate->total;
    row[8] = step_aggregate->self;
    return batch_done(s);
}

/* ---- call stacks --------------------------------------------------------------------------------------------------------- */

int store_stack(store *s, int64_t parent, int64_t frame, int64_t *id)
{
    int64_t key[2] = {parent, frame};
    bool added;
    if (store_intern_put(&s->stacks, key, sizeof key, id, &added))
        return no_memory(s);
    if (!added)
        return 0;
    sqlite3_stmt *st = store_statement(s, STORE_SQL_STACK_ADD);
    int code = st ? 0 : s->failed;
    if (st) {
        store_bind_int(st, 1, *id);
        store_bind_int(st, 2, parent);
        store_bind_int(st, 3, frame);
        code = store_run_statement(s, st, WRITING);
    }
    if (code) /* not in the file, so the id must not be found again */
        store_intern_truncate(&s->stacks, s->stacks.count - 1);
    return code;
}

int store_sample_add(store *s, const struct store_sample *sample)
{
    int64_t *row = batch_place(s, &s->samples);
    if (!row)
        return s->failed;
    row[0] = STORE_ABSENT; /* SQLite gives the next id */
    row[1] = sample->track;
    row[2] = sample->time;
    row[3] = sample->stack;
    return batch_done(s);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

int store_step_add(store *s, const struct store_step *step)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_STEP_ADD);
    if (!st)
        return s->failed;
    store_bind_int(st, 1, step->process);
    store_bind_int(st, 2, step->index);
    store_bind_int(st, 3, step->start);
    store_bind_int(st, 4, step->end);
    store_bind_int(st, 5, step->tokens);
    store_bind_int(st, 6, step->samples);
    sqlite3_bind_int(st, 7, step->paused);
    return store_run_statement(s, st, WRITING);
}

int store_ceiling_add(store *s, const struct store_ceiling *ceiling)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_CEILING_ADD);
    if (!st)
        return s->failed;
    store_bind_text(st, 1, ceiling->device);
    store_bind_text(st, 2, ceiling->resource);
    store_bind_text(st, 3, ceiling->dtype);
    sqlite3_bind_double(st, 4, ceiling->value);
    store_bind_text(st, 5, ceiling->source);
    return store_run_statement(s, st, WRITING);
}

static int loss_write(store *s, enum store_statement which, const struct store_loss *loss)
{
    sqlite3_stmt *st = store_statement(s, which);
    if (!st)
        return s->failed;
    store_bind_text(st, 1, loss->source);
    store_bind_text(st, 2, loss->reason);
    store_bind_int(st, 3, loss->count);
    store_bind_int(st, 4, loss->t0);
    store_bind_int(st, 5, loss->t1);
    return store_run_statement(s, st, WRITING);
}

int store_loss_add(store *s, const struct store_loss *loss)
{
    return loss_write(s, STORE_SQL_LOSS_ADD, loss);
}

int store_loss_set(store *s, const struct store_loss *loss)
{
    return loss_write(s, STORE_SQL_LOSS_SET, loss);
}

int store_anchor_add(store *s, const struct store_anchor *anchor)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_ANCHOR_ADD);
    if (!st)
        return s->failed;
    store_bind_int(st, 1, anchor->tsc);
    store_bind_int(st, 2, anchor->monotonic);
    store_bind_int(st, 3, anchor->realtime);
    return store_run_statement(s, st, WRITING);
}

int store_metric_set(store *s, const struct store_metric *metric)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_METRIC_SET);
    if (!st)
        return s->failed;
    store_bind_text(st, 1, metric->name);
    sqlite3_bind_double(st, 2, metric->value); /* NAN is stored as NULL */
    store_bind_text(st, 3, metric->unit);
    store_bind_text(st, 4, metric->reason);
    return store_run_statement(s, st, WRITING);
}

int store_finding_set(store *s, const char *id, const char *json)
{
    sqlite3_stmt *st = store_statement(s, STORE_SQL_FINDING_SET);
    if (!st)
        return s->failed;
    store_bind_text(st, 1, id);
    store_bind_text(st, 2, json);
    return store_run_statement(s, st, WRITING);
}
