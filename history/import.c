/* SPDX-License-Identifier: Apache-2.0
 *
 * Enters runs that others logged: lines of JSON that `tacho history export` wrote, tables (CSV) of
 * runs, logs of MLPerf.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <jansson.h>

#include "history/import.h"
#include "history/made.h"
#include "history/private.h"

#define FILE_MOST (256 << 20)

/* The whole file, ended with 0. NULL: an error. */
static char *read_file(const char *path, size_t *size, struct tacho_error *err)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (!file) {
        tacho_fail(err, tacho_error_of_errno(errno), NULL, "%s: %s", path, strerror(errno));
        return NULL;
    }
    struct stat stat;
    bool fits =
        fstat(fileno(file), &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size <= FILE_MOST;
    if (!fits)
        tacho_fail(err, TACHO_EFORMAT, "split it", "%s: not a file of at most %d MiB", path,
                   FILE_MOST >> 20);
    else if (!(text = malloc((size_t)stat.st_size + 1)))
        tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    if (text) {
        *size = fread(text, 1, (size_t)stat.st_size, file);
        text[*size] = 0;
    }
    fclose(file);
    return text;
}

/* ---- our own lines of JSON -------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void take_json_values(struct history_made *made, const json_t *object)
{
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(object, "values"), i, row)
    {
        const char *kind = text_of(row, "kind"), *name = text_of(row, "name");
        const char *unit = text_of(row, "unit");
        json_t *value = json_object_get(row, "value");
        if (kind && name && unit && json_is_number(value))
            history_made_add(made, kind, name, unit, json_number_value(value));
    }
    json_t *steps = json_object_get(object, "step_ms");
    size_t count = json_array_size(steps);
    float *step_ms = count && count <= HISTORY_SAMPLES ? history_made_samples(made, count) : NULL;
    for (i = 0; step_ms && i < count; i++)
        step_ms[i] = (float)json_number_value(json_array_get(steps, i));
}

static int take_json(struct history_source *source, const char *line)
{
    json_error_t problem;
    json_t *object = json_loads(line, 0, &problem);
    const char *schema = text_of(object, "schema"), *key = text_of(object, "key");
    if (!schema || strcmp(schema, "tacho-history-run/1") != 0 || !key) {
        json_decref(object);
        return history_at(source, "not a line of 'tacho history export --json'")->code;
    }
    struct history_made *made = history_made_new();
    if (!made) {
        json_decref(object);
        return TACHO_ENOMEM;
    }
    struct history_entry *entry = &made->entry;
    snprintf(entry->key, sizeof entry->key, "%s", key);
    entry->begun_ns = json_integer_value(json_object_get(object, "begun_ns"));
    entry->steps = json_integer_value(json_object_get(object, "steps"));
    entry->recipe_text = history_made_copy(made, text_of(object, "recipe"));
    entry->host_text = history_made_copy(made, text_of(object, "host"));
    entry->commit = history_made_copy(made, text_of(object, "commit"));
    entry->file = history_made_copy(made, text_of(object, "file"));
    entry->verdict = history_made_copy(made, text_of(object, "verdict"));
    const json_t *environment = json_object_get(object, "environment");
    if (json_is_object(environment))
        entry->environment =
            history_made_own(made, json_dumps(environment, JSON_COMPACT | JSON_SORT_KEYS));
    take_json_values(made, object);
    json_decref(object);
    return history_source_end(source, made);
}

/* ---- MLPerf ----------------------------------------------------------------------------------- */

/* What is open while the lines of a run are read. */
struct mllog {
    struct history_made *made; /* NULL: outside of a run */
    char benchmark[256], platform[256];
    double throughput, step_s;
    int64_t stopped_ms;
};

static int end_mllog(struct history_source *source, struct mllog *log)
{
    struct history_made *made = log->made;
    log->made = NULL;
    if (!made)
        return 0;
    history_made_add(made, "step", "mean", "ms", log->step_s * 1e3);
    history_made_add(made, "rate", "samples", "1/s", log->throughput);
    int64_t begun_ms = made->entry.begun_ns / 1000000;
    if (log->stopped_ms >= begun_ms)
        history_made_add(made, "metric", "run duration", "s",
                         (double)(log->stopped_ms - begun_ms) / 1e3);
    return history_source_end(source, made);
}

static int begin_mllog(struct history_source *source, struct mllog *log, int64_t time_ms)
{
    int rc = end_mllog(source, log);
    if (!rc && (time_ms <= 0 || time_ms >= INT64_MAX / 1000000))
        rc = history_at(source, "a run_start without a time (time_ms)")->code;
    log->throughput = log->step_s = NAN;
    log->stopped_ms = 0;
    log->made = rc ? NULL : history_made_new();
    if (!log->made)
        return rc ? rc : TACHO_ENOMEM;
    log->made->entry.begun_ns = time_ms * 1000000;
    if (*log->benchmark)
        log->made->entry.recipe_text = history_made_copy(log->made, log->benchmark);
    if (*log->platform)
        log->made->entry.host_text = history_made_copy(log->made, log->platform);
    return 0;
}

static int take_event(struct history_source *source, struct mllog *log, const json_t *line)
{
    const char *key = text_of(line, "key"), *text = text_of(line, "value");
    json_t *value = json_object_get(line, "value");
    int64_t time_ms = json_integer_value(json_object_get(line, "time_ms"));
    if (!key)
        return history_at(source, "an MLLOG line without a key")->code;
    if (!strcmp(key, "submission_benchmark") && text)
        snprintf(log->benchmark, sizeof log->benchmark, "%s", text);
    else if (!strcmp(key, "submission_platform") && text)
        snprintf(log->platform, sizeof log->platform, "%s", text);
    else if (!strcmp(key, "run_start"))
        return begin_mllog(source, log, time_ms);
    if (!log->made)
        return 0;
    if (!strcmp(key, "run_stop"))
        log->stopped_ms = time_ms;
    else if (!strcmp(key, "tracked_stats")) { /* the last of them covers the run best */
        json_t *rate = json_object_get(value, "throughput");
        json_t *step = json_object_get(value, "step_time");
        log->throughput = json_is_number(rate) ? json_number_value(rate) : log->throughput;
        log->step_s = json_is_number(step) ? json_number_value(step) : log->step_s;
    } else if (json_is_number(value)) {
        history_made_add(log->made, "metric", key, "", json_number_value(value));
    }
    return 0;
}

static int take_mllog(struct history_source *source, struct mllog *log, const char *at)
{
    json_error_t problem;
    json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, &problem);
    int rc = line ? take_event(source, log, line)
                  : history_at(source, "an MLLOG line that is not JSON")->code;
    json_decref(line);
    return rc;
}

/* ---- any file --------------------------------------------------------------------------------- */

static int take_lines(struct history_source *source, char *text, bool mllog)
{
    struct mllog log = {.throughput = NAN, .step_s = NAN};
    char *rest = text, *line;
    int rc = 0;
    while (!rc && (line = strsep(&rest, "\n")) != NULL) {
        source->line++;
        char *event = strstr(line, ":::MLLOG");
        if (mllog && event)
            rc = take_mllog(source, &log, event + strlen(":::MLLOG"));
        else if (!mllog && line[strspn(line, " \t\r")])
            rc = take_json(source, line);
    }
    if (!rc && mllog)
        rc = end_mllog(source, &log);
    history_entry_free(log.made ? &log.made->entry : NULL);
    return rc;
}

static int take_file(struct history_source *source, char *text, size_t size)
{
    bool is_mllog = strstr(text, ":::MLLOG") != NULL;
    if (memchr(text, 0, size))
        return tacho_fail(source->err, TACHO_EFORMAT, source->hint, "%s: not a text file",
                          source->path);
    if (is_mllog || text[strspn(text, " \t\r\n")] == '{')
        return take_lines(source, text, is_mllog);
    return history_take_csv(source, text);
}

int history_import(struct history *history, const char *path, const char *recipe, size_t *count,
                   struct tacho_error *err)
{
    struct tacho_error ignored = {0};
    struct history_source source = {
        .history = history,
        .path = path,
        .recipe = recipe,
        .err = err ? err : &ignored,
        .hint = "give lines of 'tacho history export --json', a table of runs (CSV), or a log with "
                ":::MLLOG lines",
    };
    size_t size = 0;
    *count = 0;
    char *text = read_file(path, &size, source.err);
    if (!text)
        return source.err->code;
    int rc = history_begin(history, source.err);
    if (!rc) {
        rc = take_file(&source, text, size);
        if (!rc && !source.count)
            rc = tacho_fail(source.err, TACHO_EFORMAT, source.hint, "%s: no run in it", path);
        if (!rc)
            rc = history_commit(history, source.err);
        else
            sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    }
    free(text);
    *count = rc ? 0 : source.count;
    return rc;
}
