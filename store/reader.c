/* SPDX-License-Identifier: Apache-2.0
 *
 * The reading handle. All reads of a handle see one state of the file (one read transaction, from
 * the first read until store_reader_refresh or close), so ids found in one table are in the others
 * even while a collector writes.
 *
 * Damage that SQLite notices is reported with its code; a cell of the wrong type, which only damage
 * can make, is reported as damage here. Nothing read from a file is trusted further than its type:
 * users check ids against what they loaded.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/reader.h"
#include "store/writer.h"

const struct tacho_error *store_reader_error(const store_reader *reader)
{
    return &reader->error;
}

void store_reader_close(store_reader *reader)
{
    if (!reader)
        return;
    sqlite3_close(reader->db);
    store_place_close(&reader->place);
    free(reader->path);
    free(reader);
}

/* Every table of the schema, each with its columns in order: what store_open checks. */
static const char *const tables[] = {"run",     "string",         "process", "track", "slice",
                                     "detail",  "edge",           "counter", "stack", "sample",
                                     "step",    "step_aggregate", "ceiling", "loss",  "metric",
                                     "finding", "clock_anchor"};

static int table_known(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i], name))
            return 1;
    return 0;
}

/* Fails if a table of the schema is missing. */
static int tables_check(store_reader *reader, struct tacho_error *err)
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

int store_open(const char *path, store_reader **out, struct tacho_error *err)
{
    struct store_header header;
    *out = NULL;
    store_reader *reader = calloc(1, sizeof *reader);
    if (!reader || !(reader->path = strdup(path))) {
        free(reader);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    store_place_find(path, true, &reader->place);
    int code = store_db_open(path, &reader->place, STORE_DB_READ, &reader->db, &header, err);
    if (!code)
        code = tables_check(reader, err);
    if (!code) {
        /* Scans read each page once and look-ups by id are few, so a large cache would only keep
         * pages that are not needed again. */
        int status = sqlite3_exec(reader->db, "PRAGMA cache_size=-1024; BEGIN", NULL, NULL, NULL);
        code = status == SQLITE_OK ? 0
                                   : store_db_fail(err, reader->db, status, path, "cannot be read");
    }
    if (code) {
        store_reader_close(reader);
        return code;
    }
    *out = reader;
    return 0;
}

void store_reader_rest(store_reader *reader)
{
    if (!sqlite3_get_autocommit(reader->db))
        sqlite3_exec(reader->db, "COMMIT", NULL, NULL, NULL);
}

int store_reader_refresh(store_reader *reader)
{
    store_reader_rest(reader);
    int status = sqlite3_exec(reader->db, "BEGIN", NULL, NULL, NULL);
    return status == SQLITE_OK
               ? 0
               : store_db_fail(&reader->error, reader->db, status, reader->path, "cannot be read");
}

/* ---- one scan ---------------------------------------------------------------------------------------------------------- */

struct scan {
    sqlite3 *db;
    sqlite3_stmt *st;
    int rc;      /* SQLite code, SQLITE_OK while rows come */
    int stopped; /* what the caller's function returned */
};

/* Prepares the query; `from` is its first parameter, if it has one. */
static void scan_start(struct scan *scan, sqlite3 *db, const char *sql, int64_t from)
{
    *scan = (struct scan){.db = db};
    scan->rc = sqlite3_prepare_v2(db, sql, -1, &scan->st, NULL);
    if (scan->rc == SQLITE_OK && sqlite3_bind_parameter_count(scan->st))
        sqlite3_bind_int64(scan->st, 1, from);
}

/* Steps to the next row; 0 at the end, after a failure, or when the caller stopped. */
static int scan_next(struct scan *scan)
{
    if (scan->rc != SQLITE_OK || scan->stopped)
        return 0;
    int status = sqlite3_step(scan->st);
    if (status == SQLITE_ROW)
        return 1;
    scan->rc = status == SQLITE_DONE ? SQLITE_OK : sqlite3_extended_errcode(scan->db);
    return 0;
}

/* The row has been read: hand it out only if all its cells had the right type. */
#define scan_row(s, call) ((s)->rc == SQLITE_OK ? (void)((s)->stopped = (call)) : (void)0)

/* An integer or NULL; any other type is damage. The cell is looked up once for its type and its
 * value, which takes half the time; a handle has no mutex that this would need. */
static int64_t scan_int(struct scan *scan, int column)
{
    sqlite3_value *cell = sqlite3_column_value(scan->st, column);
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
    sqlite3_value *cell = sqlite3_column_value(scan->st, column);
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
    sqlite3_value *cell = sqlite3_column_value(scan->st, column);
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

/* ---- tables ------------------------------------------------------------------------------------------------------------ */

int store_run_each(store_reader *reader, int (*row)(void *ctx, const char *key, const char *value),
                   void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, "SELECT key, value FROM run ORDER BY key", 0);
    while (scan_next(&scan)) {
        const char *key = scan_text_present(&scan, 0), *value = scan_text(&scan, 1);
        scan_row(&scan, row(ctx, key, value));
    }
    return scan_end(&scan, reader);
}

int store_string_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, int64_t id, const char *text), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, "SELECT id, text FROM string WHERE id>=? ORDER BY id", from_id);
    while (scan_next(&scan)) {
        int64_t id = scan_int_present(&scan, 0);
        const char *text = scan_text_present(&scan, 1);
        scan_row(&scan, row(ctx, id, text));
    }
    return scan_end(&scan, reader);
}

/* Hands out the rows of the detail table. */
static void detail_rows(struct scan *scan, int (*row)(void *ctx, const struct store_detail *detail),
                        void *ctx)
{
    while (scan_next(scan)) {
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
        scan_row(scan, row(ctx, &detail));
    }
}

static const char detail_sql[] =
    "SELECT id, flops, bytes_read, bytes_written, dtype, pass, kind, model_flops, palm_flops, "
    "bytes, "
    "samples, communicator, ranks, collective, copy_kind, grid, block, schema, payload, flags "
    "FROM detail WHERE id>=? ORDER BY id";

int store_detail_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, const struct store_detail *d), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, detail_sql, from_id);
    detail_rows(&scan, row, ctx);
    return scan_end(&scan, reader);
}

int store_scan_details(sqlite3 *db, int64_t from_id,
                       int (*row)(void *ctx, const struct store_detail *d), void *ctx, int *stopped)
{
    struct scan scan;
    scan_start(&scan, db, detail_sql, from_id);
    detail_rows(&scan, row, ctx);
    sqlite3_finalize(scan.st);
    *stopped = scan.stopped;
    return scan.rc;
}

int store_process_each(store_reader *reader,
                       int (*row)(void *ctx, const struct store_process *process), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db,
               "SELECT id, rank, host, pid, parent_pid, program, device, start, \"end\", "
               "exit_status, ended FROM process ORDER BY id",
               0);
    while (scan_next(&scan)) {
        struct store_process process = {.id = scan_int_present(&scan, 0),
                                        .rank = scan_int(&scan, 1),
                                        .host = scan_text(&scan, 2),
                                        .pid = scan_int(&scan, 3),
                                        .parent_pid = scan_int(&scan, 4),
                                        .program = scan_text(&scan, 5),
                                        .device = scan_text(&scan, 6),
                                        .start = scan_int(&scan, 7),
                                        .end = scan_int(&scan, 8),
                                        .exit_status = scan_int(&scan, 9),
                                        .ended = scan_text(&scan, 10)};
        scan_row(&scan, row(ctx, &process));
    }
    return scan_end(&scan, reader);
}

int store_track_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_track *track), void *ctx)
{
    struct scan scan;
    scan_start(
        &scan, reader->db,
        "SELECT id, process, kind, name, device, tid, unit FROM track WHERE id>=? ORDER BY id",
        from_id);
    while (scan_next(&scan)) {
        struct store_track track = {.id = scan_int_present(&scan, 0),
                                    .process = scan_int(&scan, 1),
                                    .kind = scan_text_present(&scan, 2),
                                    .name = scan_text(&scan, 3),
                                    .device = scan_text(&scan, 4),
                                    .tid = scan_int(&scan, 5),
                                    .unit = scan_text(&scan, 6)};
        scan_row(&scan, row(ctx, &track));
    }
    return scan_end(&scan, reader);
}

static void slice_rows(struct scan *scan, int (*row)(void *ctx, const struct store_slice *slice),
                       void *ctx)
{
    while (scan_next(scan)) {
        struct store_slice slice = {.id = scan_int_present(scan, 0),
                                    .track = scan_int_present(scan, 1),
                                    .start = scan_int_present(scan, 2),
                                    .dur = scan_int(scan, 3),
                                    .name = scan_int(scan, 4),
                                    .category = scan_int(scan, 5),
                                    .detail = scan_int(scan, 6),
                                    .correlation = scan_int(scan, 7)};
        scan_row(scan, row(ctx, &slice));
    }
}

#define SLICE_COLUMNS \
    "SELECT id, track, start, dur, name, category, detail, correlation FROM slice WHERE id>=?1 "

int store_slice_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_slice *x), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, SLICE_COLUMNS "ORDER BY id", from_id);
    slice_rows(&scan, row, ctx);
    return scan_end(&scan, reader);
}

int store_slice_between(store_reader *reader, int64_t from_id, int64_t t0, int64_t t1,
                        int (*row)(void *ctx, const struct store_slice *x), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db,
               SLICE_COLUMNS "AND start<=?2 AND start+coalesce(dur,0)>=?3 ORDER BY id", from_id);
    if (scan.rc == SQLITE_OK) {
        sqlite3_bind_int64(scan.st, 2, t1);
        sqlite3_bind_int64(scan.st, 3, t0);
    }
    slice_rows(&scan, row, ctx);
    return scan_end(&scan, reader);
}

int store_counter_each(store_reader *reader, int64_t from_id,
                       int (*row)(void *ctx, const struct store_counter *counter), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db,
               "SELECT id, track, time, value FROM counter WHERE id>=? ORDER BY id", from_id);
    while (scan_next(&scan)) {
        struct store_counter counter = {.track = scan_int_present(&scan, 1),
                                        .time = scan_int_present(&scan, 2),
                                        .value = scan_double(&scan, 3),
                                        .id = scan_int_present(&scan, 0)};
        scan_row(&scan, row(ctx, &counter));
    }
    return scan_end(&scan, reader);
}

int store_stack_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_stack *stack), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, "SELECT id, parent, frame FROM stack WHERE id>=? ORDER BY id",
               from_id);
    while (scan_next(&scan)) {
        struct store_stack stack = {.id = scan_int_present(&scan, 0),
                                    .parent = scan_int(&scan, 1),
                                    .frame = scan_int_present(&scan, 2)};
        scan_row(&scan, row(ctx, &stack));
    }
    return scan_end(&scan, reader);
}

int store_sample_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, const struct store_sample *sample), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, "SELECT track, time, value FROM sample WHERE id>=? ORDER BY id",
               from_id);
    while (scan_next(&scan)) {
        struct store_sample sample = {.track = scan_int_present(&scan, 0),
                                      .time = scan_int_present(&scan, 1),
                                      .stack = scan_int(&scan, 2)};
        scan_row(&scan, row(ctx, &sample));
    }
    return scan_end(&scan, reader);
}

int store_step_from(store_reader *reader, int64_t from_id,
                    int (*row)(void *ctx, const struct store_step *step), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db,
               "SELECT process, \"index\", start, \"end\", tokens, samples, paused, rowid FROM "
               "step WHERE rowid>=? ORDER BY rowid",
               from_id);
    while (scan_next(&scan)) {
        struct store_step step = {.process = scan_int_present(&scan, 0),
                                  .index = scan_int_present(&scan, 1),
                                  .start = scan_int_present(&scan, 2),
                                  .end = scan_int(&scan, 3),
                                  .tokens = scan_int(&scan, 4),
                                  .samples = scan_int(&scan, 5),
                                  .paused = scan_int_present(&scan, 6) != 0,
                                  .id = scan_int_present(&scan, 7)};
        scan_row(&scan, row(ctx, &step));
    }
    return scan_end(&scan, reader);
}

int store_step_each(store_reader *reader, int (*row)(void *ctx, const struct store_step *x),
                    void *ctx)
{
    return store_step_from(reader, INT64_MIN, row, ctx);
}

int store_step_aggregate_from(store_reader *reader, int64_t from_id,
                              int (*row)(void *ctx,
                                         const struct store_step_aggregate *step_aggregate),
                              void *ctx)
{
    struct scan scan;
    bool ranges = sqlite3_table_column_metadata(reader->db, "main", "step_aggregate", "steps", NULL,
                                                NULL, NULL, NULL, NULL) == SQLITE_OK;
    scan_start(&scan, reader->db,
               ranges ? "SELECT process, step, track, name, category, detail, count, total, self, "
                        "rowid, steps FROM step_aggregate WHERE rowid>=? ORDER BY rowid"
                      : "SELECT process, step, track, name, category, detail, count, total, self, "
                        "rowid, 1 FROM step_aggregate WHERE rowid>=? ORDER BY rowid",
               from_id);
    while (scan_next(&scan)) {
        struct store_step_aggregate step_aggregate = {.process = scan_int_present(&scan, 0),
                                                      .step = scan_int_present(&scan, 1),
                                                      .track = scan_int_present(&scan, 2),
                                                      .name = scan_int(&scan, 3),
                                                      .category = scan_int(&scan, 4),
                                                      .detail = scan_int(&scan, 5),
                                                      .count = scan_int_present(&scan, 6),
                                                      .total = scan_int_present(&scan, 7),
                                                      .self = scan_int_present(&scan, 8),
                                                      .id = scan_int_present(&scan, 9),
                                                      .steps = scan_int_present(&scan, 10)};
        scan_row(&scan, row(ctx, &step_aggregate));
    }
    return scan_end(&scan, reader);
}

int store_step_aggregate_each(store_reader *reader,
                              int (*row)(void *ctx, const struct store_step_aggregate *x),
                              void *ctx)
{
    return store_step_aggregate_from(reader, INT64_MIN, row, ctx);
}

int store_ceiling_each(store_reader *reader,
                       int (*row)(void *ctx, const struct store_ceiling *ceiling), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db,
               "SELECT device, resource, dtype, value, source FROM ceiling ORDER BY rowid", 0);
    while (scan_next(&scan)) {
        struct store_ceiling ceiling = {.device = scan_text(&scan, 0),
                                        .resource = scan_text_present(&scan, 1),
                                        .dtype = scan_text(&scan, 2),
                                        .value = scan_double(&scan, 3),
                                        .source = scan_text_present(&scan, 4)};
        scan_row(&scan, row(ctx, &ceiling));
    }
    return scan_end(&scan, reader);
}

int store_metric_each(store_reader *reader,
                      int (*row)(void *ctx, const struct store_metric *metric), void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, "SELECT name, value, unit, reason FROM metric ORDER BY name", 0);
    while (scan_next(&scan)) {
        struct store_metric metric = {.name = scan_text_present(&scan, 0),
                                      .value = scan_double(&scan, 1),
                                      .unit = scan_text(&scan, 2),
                                      .reason = scan_text(&scan, 3)};
        scan_row(&scan, row(ctx, &metric));
    }
    return scan_end(&scan, reader);
}

int store_loss_each(store_reader *reader, int (*row)(void *ctx, const struct store_loss *loss),
                    void *ctx)
{
    struct scan scan;
    scan_start(&scan, reader->db, "SELECT source, reason, count, t0, t1 FROM loss ORDER BY rowid",
               0);
    while (scan_next(&scan)) {
        struct store_loss loss = {.source = scan_text_present(&scan, 0),
                                  .reason = scan_text_present(&scan, 1),
                                  .count = scan_int(&scan, 2),
                                  .t0 = scan_int(&scan, 3),
                                  .t1 = scan_int(&scan, 4)};
        scan_row(&scan, row(ctx, &loss));
    }
    return scan_end(&scan, reader);
}

int store_count(store_reader *reader, const char *table, int64_t *count)
{
    char sql[64];
    struct scan scan;
    *count = 0;
    if (!table_known(table))
        return tacho_fail(&reader->error, TACHO_EUSAGE, NULL, "%s: no table named %.64s",
                          reader->path, table);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    scan_start(&scan, reader->db, sql, 0);
    if (scan_next(&scan))
        *count = scan_int_present(&scan, 0);
    return scan_end(&scan, reader);
}

int store_last_id(store_reader *reader, const char *table, int64_t *id)
{
    char sql[64];
    struct scan scan;
    *id = 0;
    if (!table_known(table))
        return tacho_fail(&reader->error, TACHO_EUSAGE, NULL, "%s: no table named %.64s",
                          reader->path, table);
    snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table);
    scan_start(&scan, reader->db, sql, 0);
    if (scan_next(&scan)) {
        int64_t last = scan_int(&scan, 0);
        *id = last == STORE_ABSENT ? 0 : last;
    }
    return scan_end(&scan, reader);
}
