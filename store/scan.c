/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the tables of a file row by row.
 *
 * A cell of the wrong type, which only damage can make, is reported as damage here. Nothing read
 * from a file is trusted further than its type: users check ids against what they loaded.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/reader.h"
#include "store/writer.h"

/* Every table of the schema, each with its columns in order: what store_open checks. */
static const char *const tables[] = {"run",     "string",         "process", "track", "slice",
                                     "detail",  "edge",           "counter", "stack", "sample",
                                     "step",    "step_aggregate", "ceiling", "loss",  "metric",
                                     "finding", "clock_anchor"};

static bool table_known(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i], name))
            return true;
    return false;
}

int store_tables_check(store_reader *reader, struct tacho_error *err)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[64];
        sqlite3_stmt *st = NULL;
        snprintf(sql, sizeof sql, "SELECT * FROM %s", tables[i]);
        int status = sqlite3_prepare_v2(reader->db, sql, -1, &st, NULL);
        sqlite3_finalize(st);
        if (status == SQLITE_ERROR)
            return tacho_fail(err, TACHO_ECORRUPT, "copy it again, or record the run again",
                              "%s: damaged: table %s is missing", reader->path, tables[i]);
        if (status != SQLITE_OK)
            return store_db_fail(err, reader->db, status, reader->path, "cannot be read");
    }
    return 0;
}

/* ---- one scan ---------------------------------------------------------------------------------------------------------- */

/* A scan hands each row of a query to the caller's function. The rows of large tables are read by
 * an SQL function that stands in the WHERE clause and accepts no row: one sqlite3_step goes over
 * the whole table, which takes two thirds of the time of one for each row. This needs queries
 * whose rows come in the order of the table, so that nothing is sorted after the function has seen
 * it (SCAN_ROWS). */
struct scan {
    sqlite3 *db;
    sqlite3_stmt *st;
    sqlite3_value **cell;            /* of the row at hand; NULL: they are the statement's */
    void (*read)(struct scan *scan); /* makes a record of the cells and calls `row` with it */
    void (*row)(void);               /* the caller's function, whose type `read` knows */
    void *ctx;                       /* its first argument */
    int rc;                          /* SQLite code, SQLITE_OK while rows come */
    int stopped;                     /* what the caller's function returned */
};

#define SCAN_POINTER "tacho scan"

/* No index: rows come by id, whatever indexes a foreign file has. */
#define SCAN_ROWS(columns, table, id) \
    "SELECT 1 FROM " table " NOT INDEXED WHERE " id ">=?1 AND tacho_scan_row(?2, " columns ") " \
    "ORDER BY " id

/* tacho_scan_row(scan, cells...): hands the cells to the scan; false, so that the query goes on.
 * The scan is a pointer that only this file can bind. */
static void on_row(sqlite3_context *context, int count, sqlite3_value **cells)
{
    struct scan *scan = count ? sqlite3_value_pointer(cells[0], SCAN_POINTER) : NULL;
    if (!scan) {
        sqlite3_result_error(context, "tacho_scan_row is tacho's own", -1);
        return;
    }
    scan->cell = cells + 1;
    scan->read(scan);
    if (scan->rc != SQLITE_OK || scan->stopped)
        sqlite3_result_error_code(context, SQLITE_ABORT);
    else
        sqlite3_result_int(context, 0);
}

int store_scan_allow(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, "tacho_scan_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                      NULL, on_row, NULL, NULL, NULL);
}

/* Prepares the query; `from` is its first parameter and the scan its second one, if it has them. */
static void scan_start(struct scan *scan, const char *sql, int64_t from)
{
    scan->rc = sqlite3_prepare_v2(scan->db, sql, -1, &scan->st, NULL);
    int parameters = scan->rc == SQLITE_OK ? sqlite3_bind_parameter_count(scan->st) : 0;
    if (parameters >= 1)
        sqlite3_bind_int64(scan->st, 1, from);
    if (parameters >= 2)
        sqlite3_bind_pointer(scan->st, 2, scan, SCAN_POINTER, NULL);
}

/* Steps to the next row; 0 at the end, after a failure, or when the caller stopped. */
static int scan_next(struct scan *scan)
{
    if (scan->rc != SQLITE_OK || scan->stopped)
        return 0;
    int status = sqlite3_step(scan->st);
    if (status == SQLITE_ROW)
        return 1;
    if (scan->rc == SQLITE_OK && !scan->stopped && status != SQLITE_DONE)
        scan->rc = sqlite3_extended_errcode(scan->db);
    return 0;
}

/* Reads all rows of the query that was started. */
static void scan_run(struct scan *scan)
{
    while (scan_next(scan))
        scan->read(scan);
}

/* The row has been read: hand it out only if all its cells had the right type. `type` is that of
 * the caller's function. */
#define scan_hand_out(s, type, ...) \
    ((s)->rc == SQLITE_OK ? (void)((s)->stopped = ((type)(s)->row)((s)->ctx, __VA_ARGS__)) \
                          : (void)0)

/* The same with the record of a table, a variable of its name. */
#define scan_record(s, table) \
    scan_hand_out(s, int (*)(void *, const struct store_##table *), &(table))

/* The cells of a handle have no mutex that reading them without a copy would need. */
static sqlite3_value *scan_cell(const struct scan *scan, int column)
{
    return scan->cell ? scan->cell[column] : sqlite3_column_value(scan->st, column);
}

/* An integer or NULL; any other type is damage. The cell is looked up once for its type and its
 * value, which takes half the time. */
static int64_t scan_int(struct scan *scan, int column)
{
    sqlite3_value *cell = scan_cell(scan, column);
    int type = sqlite3_value_type(cell);
    if (type == SQLITE_INTEGER)
        return sqlite3_value_int64(cell);
    if (type != SQLITE_NULL)
        scan->rc = SQLITE_CORRUPT;
    return STORE_ABSENT;
}

/* An integer; NULL is damage too. */
static int64_t scan_int_present(struct scan *scan, int column)
{
    int64_t value = scan_int(scan, column);
    if (value == STORE_ABSENT)
        scan->rc = SQLITE_CORRUPT;
    return value;
}

/* A number or NULL. */
static double scan_double(struct scan *scan, int column)
{
    sqlite3_value *cell = scan_cell(scan, column);
    int type = sqlite3_value_type(cell);
    if (type == SQLITE_FLOAT || type == SQLITE_INTEGER)
        return sqlite3_value_double(cell);
    if (type != SQLITE_NULL)
        scan->rc = SQLITE_CORRUPT;
    return NAN;
}

/* A text or NULL; any other type is damage. */
static const char *scan_text(struct scan *scan, int column)
{
    sqlite3_value *cell = scan_cell(scan, column);
    int type = sqlite3_value_type(cell);
    if (type == SQLITE_NULL)
        return NULL;
    if (type != SQLITE_TEXT)
        scan->rc = SQLITE_CORRUPT;
    const char *text = (const char *)sqlite3_value_text(cell);
    if (!text && scan->rc == SQLITE_OK)
        scan->rc = SQLITE_NOMEM;
    return text;
}

static const char *scan_text_present(struct scan *scan, int column)
{
    const char *text = scan_text(scan, column);
    if (!text && scan->rc == SQLITE_OK)
        scan->rc = SQLITE_CORRUPT;
    return text;
}

/* SQL that is refused is the reader's own: then the tables are not those that tacho makes. */
static int scan_fail(store_reader *reader, int status)
{
    if ((status & 0xff) == SQLITE_ERROR)
        return tacho_fail(&reader->error, TACHO_ECORRUPT,
                          "to save what is readable: sqlite3 FILE .recover", "%s: damaged: %s",
                          reader->path, sqlite3_errmsg(reader->db));
    return store_db_fail(&reader->error, reader->db, status, reader->path, "cannot be read");
}

/* Ends the scan: what the caller's function returned, or a code. */
static int scan_end(struct scan *scan, store_reader *reader)
{
    if (scan->rc != SQLITE_OK) /* before the statement goes, and its message with it */
        scan->stopped = scan_fail(reader, scan->rc);
    sqlite3_finalize(scan->st);
    return scan->stopped;
}

/* Hands all rows of a query to the caller's function, from an id on if the query has one. */
#define scan_all(reader, sql, from, read, row, ctx) \
    scan_table(reader, sql, from, read, (void (*)(void))(row), ctx)

static int scan_table(store_reader *reader, const char *sql, int64_t from,
                      void (*read)(struct scan *scan), void (*row)(void), void *ctx)
{
    struct scan scan = {.db = reader->db, .read = read, .row = row, .ctx = ctx};
    scan_start(&scan, sql, from);
    scan_run(&scan);
    return scan_end(&scan, reader);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------ */

static void key_row(struct scan *scan)
{
    const char *key = scan_text_present(scan, 0), *value = scan_text(scan, 1);
    scan_hand_out(scan, int (*)(void *, const char *, const char *), key, value);
}

int store_run_each(store_reader *reader, int (*row)(void *ctx, const char *key, const char *value),
                   void *ctx)
{
    return scan_all(reader, "SELECT key, value FROM run ORDER BY key", 0, key_row, row, ctx);
}

static void string_row(struct scan *scan)
{
    int64_t id = scan_int_present(scan, 0);
    const char *text = scan_text_present(scan, 1);
    scan_hand_out(scan, int (*)(void *, int64_t, const char *), id, text);
}

int store_string_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, int64_t id, const char *text), void *ctx)
{
    return scan_all(reader, SCAN_ROWS("id, text", "string", "id"), from_id, string_row, row, ctx);
}

static void detail_row(struct scan *scan)
{
    struct store_detail detail = {.id = scan_int_present(scan, 0),
                                  .flops = scan_int(scan, 1),
                                  .bytes_read = scan_int(scan, 2),
                                  .bytes_written = scan_int(scan, 3),
                                  .dtype = scan_text(scan, 4),
                                  .pass = scan_text(scan, 5),
                                  .kind = scan_text(scan, 6),
                                  .model_flops = scan_int(scan, 7),
                                  .palm_flops = scan_int(scan, 8),
                                  .bytes = scan_int(scan, 9),
                                  .samples = scan_int(scan, 10),
                                  .communicator = scan_int(scan, 11),
                                  .ranks = scan_int(scan, 12),
                                  .collective = scan_text(scan, 13),
                                  .copy_kind = scan_text(scan, 14),
                                  .grid = scan_text(scan, 15),
                                  .block = scan_text(scan, 16),
                                  .schema = scan_text(scan, 17),
                                  .payload = scan_text(scan, 18),
                                  .flags = scan_int(scan, 19)};
    scan_record(scan, detail);
}

static const char detail_sql[] =
    SCAN_ROWS("id, flops, bytes_read, bytes_written, dtype, pass, kind, model_flops, palm_flops, "
              "bytes, samples, communicator, ranks, collective, copy_kind, grid, block, schema, "
              "payload, flags",
              "detail", "id");

int store_detail_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, const struct store_detail *d), void *ctx)
{
    return scan_all(reader, detail_sql, from_id, detail_row, row, ctx);
}

int store_scan_details(sqlite3 *db, int64_t from_id,
                       int (*row)(void *ctx, const struct store_detail *d), void *ctx, int *stopped)
{
    struct scan scan = {
        .db = db, .read = detail_row, .row = (void (*)(void))row, .ctx = ctx, .rc = SQLITE_OK};
    int status = store_scan_allow(db);
    if (status == SQLITE_OK) {
        scan_start(&scan, detail_sql, from_id);
        scan_run(&scan);
        sqlite3_finalize(scan.st);
        status = scan.rc;
    }
    *stopped = scan.stopped;
    return status;
}

static void process_row(struct scan *scan)
{
    struct store_process process = {.id = scan_int_present(scan, 0),
                                    .rank = scan_int(scan, 1),
                                    .host = scan_text(scan, 2),
                                    .pid = scan_int(scan, 3),
                                    .parent_pid = scan_int(scan, 4),
                                    .program = scan_text(scan, 5),
                                    .device = scan_text(scan, 6),
                                    .start = scan_int(scan, 7),
                                    .end = scan_int(scan, 8),
                                    .exit_status = scan_int(scan, 9),
                                    .ended = scan_text(scan, 10)};
    scan_record(scan, process);
}

int store_process_each(store_reader *reader,
                       int (*row)(void *ctx, const struct store_process *process), void *ctx)
{
    return scan_all(reader,
                    "SELECT id, rank, host, pid, parent_pid, program, device, start, \"end\", "
                    "exit_status, ended FROM process ORDER BY id",
                    0, process_row, row, ctx);
}

static void track_row(struct scan *scan)
{
    struct store_track track = {.id = scan_int_present(scan, 0),
                                .process = scan_int(scan, 1),
                                .kind = scan_text_present(scan, 2),
                                .name = scan_text(scan, 3),
                                .device = scan_text(scan, 4),
                                .tid = scan_int(scan, 5),
                                .unit = scan_text(scan, 6)};
    scan_record(scan, track);
}

int store_track_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_track *track), void *ctx)
{
    return scan_all(reader, SCAN_ROWS("id, process, kind, name, device, tid, unit", "track", "id"),
                    from_id, track_row, row, ctx);
}

static void slice_row(struct scan *scan)
{
    struct store_slice slice = {.id = scan_int_present(scan, 0),
                                .track = scan_int_present(scan, 1),
                                .start = scan_int_present(scan, 2),
                                .dur = scan_int(scan, 3),
                                .name = scan_int(scan, 4),
                                .category = scan_int(scan, 5),
                                .detail = scan_int(scan, 6),
                                .correlation = scan_int(scan, 7)};
    scan_record(scan, slice);
}

#define SLICE_COLUMNS "id, track, start, dur, name, category, detail, correlation"

int store_slice_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_slice *x), void *ctx)
{
    return scan_all(reader, SCAN_ROWS(SLICE_COLUMNS, "slice", "id"), from_id, slice_row, row, ctx);
}

int store_slice_between(store_reader *reader, int64_t from_id, int64_t t0, int64_t t1,
                        int (*row)(void *ctx, const struct store_slice *x), void *ctx)
{
    struct scan scan = {
        .db = reader->db, .read = slice_row, .row = (void (*)(void))row, .ctx = ctx};
    scan_start(&scan,
               "SELECT 1 FROM slice NOT INDEXED WHERE id>=?1 AND CASE WHEN start<=?3 AND "
               "start+coalesce(dur,0)>=?4 THEN tacho_scan_row(?2, " SLICE_COLUMNS
               ") END ORDER BY id",
               from_id);
    if (scan.rc == SQLITE_OK) {
        sqlite3_bind_int64(scan.st, 3, t1);
        sqlite3_bind_int64(scan.st, 4, t0);
    }
    scan_run(&scan);
    return scan_end(&scan, reader);
}

static void counter_row(struct scan *scan)
{
    struct store_counter counter = {.track = scan_int_present(scan, 1),
                                    .time = scan_int_present(scan, 2),
                                    .value = scan_double(scan, 3),
                                    .id = scan_int_present(scan, 0)};
    scan_record(scan, counter);
}

int store_counter_each(store_reader *reader, int64_t from_id,
                       int (*row)(void *ctx, const struct store_counter *counter), void *ctx)
{
    return scan_all(reader, SCAN_ROWS("id, track, time, value", "counter", "id"), from_id,
                    counter_row, row, ctx);
}

static void stack_row(struct scan *scan)
{
    struct store_stack stack = {.id = scan_int_present(scan, 0),
                                .parent = scan_int(scan, 1),
                                .frame = scan_int_present(scan, 2)};
    scan_record(scan, stack);
}

int store_stack_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_stack *stack), void *ctx)
{
    return scan_all(reader, SCAN_ROWS("id, parent, frame", "stack", "id"), from_id, stack_row, row,
                    ctx);
}

static void sample_row(struct scan *scan)
{
    struct store_sample sample = {.track = scan_int_present(scan, 0),
                                  .time = scan_int_present(scan, 1),
                                  .stack = scan_int(scan, 2)};
    scan_record(scan, sample);
}

int store_sample_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, const struct store_sample *sample), void *ctx)
{
    return scan_all(reader, SCAN_ROWS("track, time, value", "sample", "id"), from_id, sample_row,
                    row, ctx);
}

static void step_row(struct scan *scan)
{
    struct store_step step = {.process = scan_int_present(scan, 0),
                              .index = scan_int_present(scan, 1),
                              .start = scan_int_present(scan, 2),
                              .end = scan_int(scan, 3),
                              .tokens = scan_int(scan, 4),
                              .samples = scan_int(scan, 5),
                              .paused = scan_int_present(scan, 6) != 0,
                              .id = scan_int_present(scan, 7)};
    scan_record(scan, step);
}

int store_step_from(store_reader *reader, int64_t from_id,
                    int (*row)(void *ctx, const struct store_step *step), void *ctx)
{
    return scan_all(reader,
                    SCAN_ROWS("process, \"index\", start, \"end\", tokens, samples, paused, rowid",
                              "step", "rowid"),
                    from_id, step_row, row, ctx);
}

int store_step_each(store_reader *reader, int (*row)(void *ctx, const struct store_step *x),
                    void *ctx)
{
    return store_step_from(reader, INT64_MIN, row, ctx);
}

static void step_aggregate_row(struct scan *scan)
{
    struct store_step_aggregate step_aggregate = {.process = scan_int_present(scan, 0),
                                                  .step = scan_int_present(scan, 1),
                                                  .track = scan_int_present(scan, 2),
                                                  .name = scan_int(scan, 3),
                                                  .category = scan_int(scan, 4),
                                                  .detail = scan_int(scan, 5),
                                                  .count = scan_int_present(scan, 6),
                                                  .total = scan_int_present(scan, 7),
                                                  .self = scan_int_present(scan, 8),
                                                  .id = scan_int_present(scan, 9),
                                                  .steps = scan_int_present(scan, 10)};
    scan_record(scan, step_aggregate);
}

#define AGGREGATE_COLUMNS \
    "process, step, track, name, category, detail, count, total, self, rowid, "

int store_step_aggregate_from(store_reader *reader, int64_t from_id,
                              int (*row)(void *ctx,
                                         const struct store_step_aggregate *step_aggregate),
                              void *ctx)
{
    bool ranges = sqlite3_table_column_metadata(reader->db, "main", "step_aggregate", "steps", NULL,
                                                NULL, NULL, NULL, NULL) == SQLITE_OK;
    return scan_all(reader,
                    ranges ? SCAN_ROWS(AGGREGATE_COLUMNS "steps", "step_aggregate", "rowid")
                           : SCAN_ROWS(AGGREGATE_COLUMNS "1", "step_aggregate", "rowid"),
                    from_id, step_aggregate_row, row, ctx);
}

int store_step_aggregate_each(store_reader *reader,
                              int (*row)(void *ctx, const struct store_step_aggregate *x),
                              void *ctx)
{
    return store_step_aggregate_from(reader, INT64_MIN, row, ctx);
}

static void ceiling_row(struct scan *scan)
{
    struct store_ceiling ceiling = {.device = scan_text(scan, 0),
                                    .resource = scan_text_present(scan, 1),
                                    .dtype = scan_text(scan, 2),
                                    .value = scan_double(scan, 3),
                                    .source = scan_text_present(scan, 4)};
    scan_record(scan, ceiling);
}

int store_ceiling_each(store_reader *reader,
                       int (*row)(void *ctx, const struct store_ceiling *ceiling), void *ctx)
{
    return scan_all(reader,
                    "SELECT device, resource, dtype, value, source FROM ceiling ORDER BY rowid", 0,
                    ceiling_row, row, ctx);
}

static void metric_row(struct scan *scan)
{
    struct store_metric metric = {.name = scan_text_present(scan, 0),
                                  .value = scan_double(scan, 1),
                                  .unit = scan_text(scan, 2),
                                  .reason = scan_text(scan, 3)};
    scan_record(scan, metric);
}

int store_metric_each(store_reader *reader,
                      int (*row)(void *ctx, const struct store_metric *metric), void *ctx)
{
    return scan_all(reader, "SELECT name, value, unit, reason FROM metric ORDER BY name", 0,
                    metric_row, row, ctx);
}

static void loss_row(struct scan *scan)
{
    struct store_loss loss = {.source = scan_text_present(scan, 0),
                              .reason = scan_text_present(scan, 1),
                              .count = scan_int(scan, 2),
                              .t0 = scan_int(scan, 3),
                              .t1 = scan_int(scan, 4)};
    scan_record(scan, loss);
}

int store_loss_each(store_reader *reader, int (*row)(void *ctx, const struct store_loss *loss),
                    void *ctx)
{
    return scan_all(reader, "SELECT source, reason, count, t0, t1 FROM loss ORDER BY rowid", 0,
                    loss_row, row, ctx);
}

int store_count(store_reader *reader, const char *table, int64_t *count)
{
    char sql[64];
    struct scan scan = {.db = reader->db};
    *count = 0;
    if (!table_known(table))
        return tacho_fail(&reader->error, TACHO_EUSAGE, NULL, "%s: no table named %.64s",
                          reader->path, table);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    scan_start(&scan, sql, 0);
    if (scan_next(&scan))
        *count = scan_int_present(&scan, 0);
    return scan_end(&scan, reader);
}

int store_last_id(store_reader *reader, const char *table, int64_t *id)
{
    char sql[64];
    struct scan scan = {.db = reader->db};
    *id = 0;
    if (!table_known(table))
        return tacho_fail(&reader->error, TACHO_EUSAGE, NULL, "%s: no table named %.64s",
                          reader->path, table);
    snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table);
    scan_start(&scan, sql, 0);
    if (scan_next(&scan)) {
        int64_t last = scan_int(&scan, 0);
        *id = last == STORE_ABSENT ? 0 : last;
    }
    return scan_end(&scan, reader);
}
