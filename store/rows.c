/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes rows: one function for each table. The values of a statement are in the order of the
 * columns in schema.sql. Rows of the tables that grow by millions (slices, counters, samples,
 * aggregates of steps) wait in a batch; all others are written at once.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/writer.h"
#include "tacho_utf8.h"

#define WRITING "cannot be written"

/* Bytes at the start of text that are UTF-8 without NUL. */
static size_t utf8_valid(const unsigned char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes) {
        size_t length = text[i] ? tacho_utf8_sequence(text + i, bytes - i) : 0;
        if (!length)
            break;
        i += length;
    }
    return i;
}

/* Copy of text with U+FFFD in place of each byte that is not UTF-8. Text columns promise UTF-8:
 * Python and DuckDB refuse to read a row that breaks the promise. Names come from programs that
 * promise nothing. */
static char *utf8_repair(const char *text, size_t bytes, size_t *out_bytes)
{
    char *out = malloc(3 * bytes + 1), *end = out;
    if (!out)
        return NULL;
    for (size_t i = 0; i < bytes;) {
        size_t valid = utf8_valid((const unsigned char *)text + i, bytes - i);
        memcpy(end, text + i, valid);
        end += valid;
        i += valid;
        if (i < bytes) {
            memcpy(end, "\xef\xbf\xbd", 3);
            end += 3;
            i++;
        }
    }
    *end = 0;
    *out_bytes = (size_t)(end - out);
    return out;
}

static int no_memory(store *writer)
{
    writer->failed = TACHO_ENOMEM;
    return tacho_fail(&writer->error, TACHO_ENOMEM, NULL, "%s: " WRITING ": out of memory",
                      writer->path);
}

/* Binds a text; one that is not UTF-8 is repaired. A status of SQLite. */
static int bind_text(sqlite3_stmt *st, int column, const char *text)
{
    size_t bytes = text ? strlen(text) : 0;
    if (!text || utf8_valid((const unsigned char *)text, bytes) == bytes)
        return sqlite3_bind_text64(st, column, text, bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
    char *fixed = utf8_repair(text, bytes, &bytes);
    return fixed ? sqlite3_bind_text64(st, column, fixed, bytes, free, SQLITE_UTF8) : SQLITE_NOMEM;
}

/* Binds the arguments, one for each letter of `types` (see store_write), and runs the statement. */
static int write_list(store *writer, enum store_statement which, const char *types,
                      va_list arguments)
{
    sqlite3_stmt *st = store_statement(writer, which);
    if (!st)
        return writer->failed;
    int status = SQLITE_OK;
    for (int column = 1; *types; types++, column++) {
        int64_t number;
        const char *text;
        switch (*types) {
        case 'i':
            number = va_arg(arguments, int64_t);
            if (number == STORE_ABSENT)
                sqlite3_bind_null(st, column);
            else
                sqlite3_bind_int64(st, column, number);
            break;
        case 'd':
            sqlite3_bind_double(st, column, va_arg(arguments, double));
            break;
        case 'x':
            text = va_arg(arguments, const char *);
            status =
                sqlite3_bind_blob64(st, column, text, va_arg(arguments, size_t), SQLITE_TRANSIENT);
            break;
        case 'b':
            text = va_arg(arguments, const char *);
            status = sqlite3_bind_text64(st, column, text, va_arg(arguments, size_t),
                                         SQLITE_TRANSIENT, SQLITE_UTF8);
            break;
        default:
            status = bind_text(st, column, va_arg(arguments, const char *));
        }
        if (status == SQLITE_NOMEM) /* NULL would be written in its place */
            return no_memory(writer);
    }
    return store_run_statement(writer, st, WRITING);
}

int store_write(store *writer, enum store_statement which, const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int code = write_list(writer, which, types, arguments);
    va_end(arguments);
    return code;
}

/* Writes the row of the id that was added to `intern` last. After a failure the id is not in the
 * file, so it is forgotten. */
static int intern_write(store *writer, struct store_intern *intern, enum store_statement which,
                        const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int code = write_list(writer, which, types, arguments);
    va_end(arguments);
    if (code)
        store_intern_truncate(intern, intern->count - 1);
    return code;
}

/* ---- run --------------------------------------------------------------------------------------------------------------- */

int store_run_set(store *writer, const char *key, const char *value)
{
    return value ? store_write(writer, STORE_SQL_RUN_SET, "tt", key, value)
                 : store_write(writer, STORE_SQL_RUN_DELETE, "t", key);
}

int store_run_set_int(store *writer, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return store_run_set(writer, key, value == STORE_ABSENT ? NULL : text);
}

/* ---- interned: string, detail -------------------------------------------------------------------------------------------- */

int store_string(store *writer, const char *text, size_t bytes, int64_t *id)
{
    char *fixed = NULL;
    bool added;
    if (utf8_valid((const unsigned char *)text, bytes) != bytes) {
        fixed = utf8_repair(text, bytes, &bytes);
        if (!fixed)
            return no_memory(writer);
        text = fixed;
    }
    int code = store_intern_put(&writer->strings, text, bytes, id, &added) ? no_memory(writer) : 0;
    if (!code && added)
        code = intern_write(writer, &writer->strings, STORE_SQL_STRING_ADD, "ib", *id, text, bytes);
    free(fixed);
    return code;
}

/* Appends bytes to the key. */
static int key_put(store *writer, const void *bytes, size_t size)
{
    if (writer->key_cap - writer->key_used < size) {
        size_t cap = writer->key_cap ? 2 * writer->key_cap : 512;
        while (cap - writer->key_used < size)
            cap *= 2;
        char *key = realloc(writer->key, cap);
        if (!key)
            return TACHO_ENOMEM;
        writer->key = key;
        writer->key_cap = cap;
    }
    memcpy(writer->key + writer->key_used, bytes, size);
    writer->key_used += size;
    return 0;
}

int store_detail_key(store *writer, const struct store_detail *detail)
{
    const int64_t numbers[] = {detail->flops,       detail->bytes_read,   detail->bytes_written,
                               detail->model_flops, detail->palm_flops,   detail->bytes,
                               detail->samples,     detail->communicator, detail->ranks,
                               detail->flags};
    const char *texts[] = {detail->dtype,  detail->pass,       detail->kind,
                           detail->schema, detail->collective, detail->copy_kind,
                           detail->grid,   detail->block,      detail->payload};
    writer->key_used = 0;
    int code = key_put(writer, numbers, sizeof numbers);
    for (size_t i = 0; !code && i < sizeof texts / sizeof *texts; i++)
        code = texts[i] ? key_put(writer, texts[i], strlen(texts[i]) + 1)
                        : key_put(writer, "\xff", 2); /* \xff: no UTF-8 text, so: absent */
    return code;
}

int store_detail_intern(store *writer, const struct store_detail *detail, int64_t *id)
{
    bool added;
    if (store_detail_key(writer, detail) ||
        store_intern_put(&writer->details, writer->key, writer->key_used, id, &added))
        return no_memory(writer);
    if (!added)
        return 0;
    return intern_write(writer, &writer->details, STORE_SQL_DETAIL_ADD, "iiiitttiiiiiitttttti", *id,
                        detail->flops, detail->bytes_read, detail->bytes_written, detail->dtype,
                        detail->pass, detail->kind, detail->model_flops, detail->palm_flops,
                        detail->bytes, detail->samples, detail->communicator, detail->ranks,
                        detail->collective, detail->copy_kind, detail->grid, detail->block,
                        detail->schema, detail->payload, detail->flags);
}

/* ---- process, track ------------------------------------------------------------------------------------------------------ */

static int process_write(store *writer, enum store_statement which,
                         const struct store_process *process)
{
    return store_write(writer, which, "iitiittiiit", process->id, process->rank, process->host,
                       process->pid, process->parent_pid, process->program, process->device,
                       process->start, process->end, process->exit_status, process->ended);
}

int store_process_add(store *writer, struct store_process *process)
{
    process->id = writer->next.process;
    int code = process_write(writer, STORE_SQL_PROCESS_ADD, process);
    if (!code)
        writer->next.process++;
    return code;
}

int store_process_update(store *writer, const struct store_process *process)
{
    return process_write(writer, STORE_SQL_PROCESS_UPDATE, process);
}

int store_track_add(store *writer, struct store_track *track)
{
    track->id = writer->next.track;
    int code = store_write(writer, STORE_SQL_TRACK_ADD, "iitttit", track->id, track->process,
                           track->kind, track->name, track->device, track->tid, track->unit);
    if (!code)
        writer->next.track++;
    return code;
}

int store_track_rename(store *writer, int64_t track, const char *name)
{
    return store_write(writer, STORE_SQL_TRACK_RENAME, "it", track, name);
}

/* ---- rows that come by the million: they wait in a batch ----------------------------------------------------------------- */

/* A place for one row, or NULL (s->failed says why). */
static int64_t *batch_place(store *writer, struct store_batch *batch)
{
    if (!writer->in_transaction)
        writer->failed = 0;
    if (writer->failed)
        return NULL;
    if (batch->rows == STORE_BATCH_ROWS) {
        int status = store_batch_flush(batch);
        if (status != SQLITE_OK) {
            store_note(writer, sqlite3_extended_errcode(writer->db), WRITING);
            return NULL;
        }
    }
    return batch->row[batch->rows++];
}

/* Outside a transaction nothing may wait: there is no commit to wait for. */
static int batch_done(store *writer)
{
    return writer->in_transaction ? 0 : store_flush(writer);
}

int store_slice_add(store *writer, struct store_slice *slice)
{
    int64_t *row = batch_place(writer, &writer->slices);
    if (!row)
        return writer->failed;
    slice->id = writer->next.slice++;
    row[0] = slice->id;
    row[1] = slice->track;
    row[2] = slice->start;
    row[3] = slice->dur;
    row[4] = slice->name;
    row[5] = slice->category;
    row[6] = slice->detail;
    row[7] = slice->correlation;
    return batch_done(writer);
}

int store_slice_end(store *writer, int64_t id, int64_t dur)
{
    int64_t first = writer->next.slice - writer->slices.rows; /* ids of waiting rows are dense */
    if (id < first || id >= writer->next.slice)
        return store_write(writer, STORE_SQL_SLICE_END, "ii", id, dur);
    writer->slices.row[id - first][3] = dur;
    return writer->failed;
}

int store_time_shift(store *writer, int64_t from_track, int64_t delta)
{
    int code = store_flush(writer);
    if (!code)
        code = store_write(writer, STORE_SQL_SLICE_SHIFT, "ii", from_track, delta);
    return code ? code : store_write(writer, STORE_SQL_COUNTER_SHIFT, "ii", from_track, delta);
}

int store_counter_add(store *writer, const struct store_counter *counter)
{
    int64_t *row = batch_place(writer, &writer->counters);
    if (!row)
        return writer->failed;
    row[0] = STORE_ABSENT; /* SQLite gives the next id */
    row[1] = counter->track;
    row[2] = counter->time;
    memcpy(&row[3], &counter->value, sizeof row[3]);
    return batch_done(writer);
}

int store_step_aggregate_add(store *writer, const struct store_step_aggregate *step_aggregate)
{
    int64_t *row = batch_place(writer, &writer->aggregates);
    if (!row)
        return writer->failed;
    row[0] = step_aggregate->process;
    row[1] = step_aggregate->step;
    row[2] = step_aggregate->track;
    row[3] = step_aggregate->name;
    row[4] = step_aggregate->category;
    row[5] = step_aggregate->detail;
    row[6] = step_aggregate->count;
    row[7] = step_aggregate->total;
    row[8] = step_aggregate->self;
    row[9] = step_aggregate->steps > 1 ? step_aggregate->steps : 1;
    return batch_done(writer);
}

/* ---- call stacks --------------------------------------------------------------------------------------------------------- */

int store_stack(store *writer, int64_t parent, int64_t frame, int64_t *id)
{
    int64_t key[2] = {parent, frame};
    bool added;
    if (store_intern_put(&writer->stacks, key, sizeof key, id, &added))
        return no_memory(writer);
    return added ? intern_write(writer, &writer->stacks, STORE_SQL_STACK_ADD, "iii", *id, parent,
                                frame)
                 : 0;
}

int store_sample_add(store *writer, const struct store_sample *sample)
{
    int64_t *row = batch_place(writer, &writer->samples);
    if (!row)
        return writer->failed;
    row[0] = STORE_ABSENT; /* SQLite gives the next id */
    row[1] = sample->track;
    row[2] = sample->time;
    row[3] = sample->stack;
    return batch_done(writer);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

int store_step_add(store *writer, const struct store_step *step)
{
    return store_write(writer, STORE_SQL_STEP_ADD, "iiiiiii", step->process, step->index,
                       step->start, step->end, step->tokens, step->samples, (int64_t)step->paused);
}

int store_ceiling_add(store *writer, const struct store_ceiling *ceiling)
{
    return store_write(writer, STORE_SQL_CEILING_ADD, "tttdt", ceiling->device, ceiling->resource,
                       ceiling->dtype, ceiling->value, ceiling->source);
}

static int loss_write(store *writer, enum store_statement which, const struct store_loss *loss)
{
    return store_write(writer, which, "ttiii", loss->source, loss->reason, loss->count, loss->t0,
                       loss->t1);
}

int store_loss_add(store *writer, const struct store_loss *loss)
{
    return loss_write(writer, STORE_SQL_LOSS_ADD, loss);
}

int store_loss_set(store *writer, const struct store_loss *loss)
{
    return loss_write(writer, STORE_SQL_LOSS_SET, loss);
}

int store_anchor_add(store *writer, const struct store_anchor *anchor)
{
    return store_write(writer, STORE_SQL_ANCHOR_ADD, "iii", anchor->tsc, anchor->monotonic,
                       anchor->realtime);
}

int store_metric_set(store *writer, const struct store_metric *metric)
{
    return store_write(writer, STORE_SQL_METRIC_SET, "tdtt", metric->name, metric->value,
                       metric->unit, metric->reason);
}

int store_finding_set(store *writer, const char *id, const char *json)
{
    return store_write(writer, STORE_SQL_FINDING_SET, "tt", id, json);
}
