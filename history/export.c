/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes entries: as a table (CSV, RFC 4180), as JSON, an entry a line and whole, or as a log of
 * MLPerf (:::MLLOG lines, mlperf_logging 4).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/base/words.h"
#include "history/private.h"
#include "store/csv.h"

/* Columns of the table: all but the long lists of names. */
static const char *const kinds[] = {"step",        "rate",   "class", "work",
                                    "utilization", "memory", "phase", "metric"};

struct ids {
    int64_t *id;
    size_t count, room;
};

static int keep_id(void *ctx, const struct history_row *row)
{
    struct ids *ids = ctx;
    if (ids->count == ids->room) {
        ids->room = ids->room ? 2 * ids->room : 256;
        int64_t *grown = realloc(ids->id, ids->room * sizeof *grown);
        if (!grown)
            return TACHO_ENOMEM;
        ids->id = grown;
    }
    ids->id[ids->count++] = row->entry.id;
    return 0;
}

/* ---- CSV -------------------------------------------------------------------------------------- */

/* Names that become columns, in the order of `kinds`. */
struct columns {
    struct history_value *column;
    size_t count, room;
};

static int64_t column_at(const struct columns *columns, const struct history_value *value)
{
    for (size_t i = 0; i < columns->count; i++)
        if (!strcmp(columns->column[i].kind, value->kind) &&
            !strcmp(columns->column[i].name, value->name) &&
            !strcmp(columns->column[i].unit, value->unit))
            return (int64_t)i;
    return -1;
}

static int add_columns(struct history *history, struct columns *columns, struct tacho_error *err)
{
    sqlite3_stmt *statement =
        history_prepare(history, "SELECT name, unit FROM name WHERE kind = ?1 ORDER BY id", err);
    if (!statement)
        return TACHO_ECORRUPT;
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof kinds / sizeof *kinds; i++) {
        history_bind(statement, 1, kinds[i]);
        while (!rc && sqlite3_step(statement) == SQLITE_ROW) {
            if (columns->count == columns->room) {
                columns->room = columns->room ? 2 * columns->room : 64;
                struct history_value *grown =
                    realloc(columns->column, columns->room * sizeof *grown);
                rc = grown ? 0 : TACHO_ENOMEM;
                if (rc)
                    break;
                columns->column = grown;
            }
            columns->column[columns->count++] =
                (struct history_value){kinds[i], strdup(history_text(statement, 0)),
                                       strdup(history_text(statement, 1)), NAN};
        }
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return rc;
}

static void csv_row(FILE *out, const struct history_entry *entry, const struct columns *columns,
                    double *cell)
{
    char begun[AN_WORDS];
    an_utc_print(begun, entry->begun_ns);
    const char *const texts[] = {entry->key,       begun,         entry->recipe_text,
                                 entry->host_text, entry->commit, entry->verdict};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        store_csv_text(out, texts[i], false);
        fputc(',', out);
    }
    for (size_t i = 0; i < columns->count; i++)
        cell[i] = NAN;
    for (size_t i = 0; i < entry->value_count; i++) {
        int64_t at = column_at(columns, &entry->values[i]);
        if (at >= 0)
            cell[at] = entry->values[i].value;
    }
    fprintf(out, "%" PRId64, entry->steps);
    for (size_t i = 0; i < columns->count; i++) {
        fputc(',', out);
        if (!isnan(cell[i]))
            fprintf(out, "%.17g", cell[i]);
    }
    fputs("\r\n", out);
}

static void csv_head(FILE *out, const struct columns *columns)
{
    fputs("key,begun,recipe,host,commit,verdict,steps", out);
    for (size_t i = 0; i < columns->count; i++) {
        char name[256];
        const struct history_value *column = &columns->column[i];
        snprintf(name, sizeof name, *column->unit ? "%s.%s (%s)" : "%s.%s", column->kind,
                 column->name, column->unit);
        fputc(',', out);
        store_csv_text(out, name, false);
    }
    fputs("\r\n", out);
}

/* ---- JSON and MLLOG --------------------------------------------------------------------------- */

static void set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, text ? json_string(text) : json_null());
}

static int write_json(FILE *out, const struct history_entry *entry)
{
    json_t *object = json_object(), *values = json_array(), *steps = json_array();
    set_text(object, "schema", "tacho-history-run/1");
    json_object_set_new(object, "id", json_integer(entry->id));
    set_text(object, "key", entry->key);
    json_object_set_new(object, "begun_ns", json_integer(entry->begun_ns));
    set_text(object, "recipe", entry->recipe_text);
    set_text(object, "host", entry->host_text);
    set_text(object, "commit", entry->commit);
    set_text(object, "file", entry->file);
    set_text(object, "verdict", entry->verdict);
    json_object_set_new(object, "environment",
                        entry->environment ? json_loads(entry->environment, 0, NULL) : json_null());
    json_object_set_new(object, "steps", json_integer(entry->steps));
    for (size_t i = 0; i < entry->value_count; i++) {
        const struct history_value *value = &entry->values[i];
        json_array_append_new(values,
                              json_pack("{s:s, s:s, s:s, s:f}", "kind", value->kind, "name",
                                        value->name, "unit", value->unit, "value", value->value));
    }
    for (size_t i = 0; i < entry->sample_count; i++)
        json_array_append_new(steps, json_real((double)entry->step_ms[i]));
    json_object_set_new(object, "values", values);
    json_object_set_new(object, "step_ms", steps);
    int rc = json_dumpf(object, out, JSON_COMPACT) ? TACHO_EIO : 0;
    json_decref(object);
    fputc('\n', out);
    return rc;
}

static void mllog_line(FILE *out, int64_t time_ms, const char *type, const char *key, json_t *value)
{
    json_t *line =
        json_pack("{s:s, s:I, s:s, s:s, s:o, s:{}}", "namespace", "", "time_ms",
                  (json_int_t)time_ms, "event_type", type, "key", key, "value", value, "metadata");
    fputs(":::MLLOG ", out);
    json_dumpf(line, out, 0);
    fputc('\n', out);
    json_decref(line);
}

static double value_of(const struct history_entry *entry, const char *kind, const char *name)
{
    for (size_t i = 0; i < entry->value_count; i++)
        if (!strcmp(entry->values[i].kind, kind) && !strcmp(entry->values[i].name, name))
            return entry->values[i].value;
    return NAN;
}

static int write_mllog(FILE *out, const struct history_entry *entry)
{
    int64_t begun = entry->begun_ns / 1000000;
    double step = value_of(entry, "step", "mean"), rate = value_of(entry, "rate", "samples");
    json_t *stats = json_object();
    if (!isnan(rate))
        json_object_set_new(stats, "throughput", json_real(rate));
    if (!isnan(step))
        json_object_set_new(stats, "step_time", json_real(step / 1e3));
    mllog_line(out, begun, "POINT_IN_TIME", "submission_benchmark",
               json_string(entry->recipe_text ? entry->recipe_text : ""));
    mllog_line(out, begun, "POINT_IN_TIME", "submission_platform",
               json_string(entry->host_text ? entry->host_text : ""));
    mllog_line(out, begun, "INTERVAL_START", "run_start", json_null());
    int64_t end = begun + (isnan(step) ? 0 : llround(step * (double)entry->steps));
    mllog_line(out, end, "POINT_IN_TIME", "tracked_stats", stats);
    mllog_line(out, end, "INTERVAL_END", "run_stop", json_null());
    return 0;
}

/* ---- all of them ------------------------------------------------------------------------------ */

int history_export(struct history *history, const struct history_filter *filter,
                   enum history_format format, FILE *out, struct tacho_error *err)
{
    struct ids ids = {0};
    struct columns columns = {0};
    int rc = history_each(history, filter, keep_id, &ids, err);
    if (!rc && format == HISTORY_CSV)
        rc = add_columns(history, &columns, err);
    double *cell = calloc(columns.count + 1, sizeof *cell);
    if (!rc && !cell)
        rc = TACHO_ENOMEM;
    if (!rc && format == HISTORY_CSV)
        csv_head(out, &columns);
    for (size_t i = ids.count; !rc && i > 0; i--) {
        struct history_entry *entry = NULL;
        rc = history_get(history, ids.id[i - 1], &entry, err);
        if (!rc && format == HISTORY_CSV)
            csv_row(out, entry, &columns, cell);
        else if (!rc)
            rc = format == HISTORY_JSON ? write_json(out, entry) : write_mllog(out, entry);
        history_entry_free(entry);
    }
    for (size_t i = 0; i < columns.count; i++) {
        free((char *)columns.column[i].name);
        free((char *)columns.column[i].unit);
    }
    free(columns.column);
    free(cell);
    free(ids.id);
    if (!rc && ferror(out))
        rc = TACHO_EIO;
    return rc;
}
