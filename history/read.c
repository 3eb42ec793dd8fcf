/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads entries: lists of them, one by a word, one whole.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "history/made.h"
#include "history/private.h"

static const char failed[] = "the history cannot be read";

#define ROW_COLUMNS \
    "run.id, run.key, run.begun_ns, recipe.hash, recipe.text, host.hash, host.text," \
    " run.git_commit, run.file, run.verdict, run.steps, environment.text"
#define ROW_TABLES \
    " FROM run JOIN recipe ON recipe.id = run.recipe JOIN host ON host.id = run.host" \
    " LEFT JOIN environment ON environment.id = run.environment"

static void read_row(sqlite3_stmt *statement, struct history_entry *entry)
{
    *entry = (struct history_entry){.id = sqlite3_column_int64(statement, 0),
                                    .begun_ns = sqlite3_column_int64(statement, 2),
                                    .recipe_text = history_text(statement, 4),
                                    .host_text = history_text(statement, 6),
                                    .commit = history_text(statement, 7),
                                    .file = history_text(statement, 8),
                                    .verdict = history_text(statement, 9),
                                    .steps = sqlite3_column_int64(statement, 10),
                                    .environment = history_text(statement, 11)};
    snprintf(entry->key, sizeof entry->key, "%s", history_text(statement, 1));
    snprintf(entry->recipe, sizeof entry->recipe, "%s", history_text(statement, 3));
    snprintf(entry->host, sizeof entry->host, "%s", history_text(statement, 5));
}

/* ---- many ------------------------------------------------------------------------------------- */

/* A hash's beginning as a range of texts: index lookups, where LIKE would read all rows. */
static void bind_prefix(sqlite3_stmt *statement, int index, const char *prefix)
{
    char high[HISTORY_HASH + 2];
    history_bind(statement, index, prefix);
    if (!prefix)
        return;
    snprintf(high, sizeof high, "%.*sg", HISTORY_HASH - 1, prefix); /* 'g' is above 'f' */
    sqlite3_bind_text(statement, index + 1, high, -1, SQLITE_TRANSIENT);
}

int history_each(struct history *history, const struct history_filter *filter,
                 int (*on)(void *ctx, const struct history_row *row), void *ctx,
                 struct tacho_error *err)
{
    /* Without a name the value is the mean step. */
    char sql[2000];
    snprintf(
        sql, sizeof sql,
        "SELECT " ROW_COLUMNS ", value.value" ROW_TABLES
        " %s JOIN value ON value.run = run.id AND value.name ="
        " (SELECT id FROM name WHERE kind = ?1 AND name = ?2 ORDER BY id LIMIT 1)"
        " WHERE%s%s%s run.begun_ns >= ?7 AND run.begun_ns < ?8"
        " ORDER BY run.begun_ns DESC, run.id DESC LIMIT ?9",
        filter->name ? "" : "LEFT",
        filter->recipe ? " run.recipe IN (SELECT id FROM recipe WHERE hash BETWEEN ?3 AND ?4) AND"
                       : "",
        filter->host ? " run.host IN (SELECT id FROM host WHERE hash BETWEEN ?5 AND ?6) AND" : "",
        filter->only ? " run.id = ?10 AND" : "");
    sqlite3_stmt *statement = history_prepare(history, sql, err);
    if (!statement)
        return TACHO_ECORRUPT;
    history_bind(statement, 1, filter->name ? filter->kind : "step");
    history_bind(statement, 2, filter->name ? filter->name : "mean");
    bind_prefix(statement, 3, filter->recipe);
    bind_prefix(statement, 5, filter->host);
    sqlite3_bind_int64(statement, 7, filter->since_ns);
    sqlite3_bind_int64(statement, 8, filter->before_ns ? filter->before_ns : INT64_MAX);
    sqlite3_bind_int64(statement, 9, filter->limit ? filter->limit : -1);
    if (filter->only)
        sqlite3_bind_int64(statement, 10, filter->only);
    int rc = 0, status;
    while (!rc && (status = sqlite3_step(statement)) == SQLITE_ROW) {
        struct history_row row = {.value = NAN};
        read_row(statement, &row.entry);
        if (sqlite3_column_type(statement, 12) != SQLITE_NULL)
            row.value = sqlite3_column_double(statement, 12);
        rc = on(ctx, &row);
    }
    if (!rc && status != SQLITE_DONE)
        rc = history_fail(history, status, failed, err);
    sqlite3_finalize(statement);
    return rc;
}

/* ---- one -------------------------------------------------------------------------------------- */

/* The entries that a query with one text finds: their number, up to 2, and the first id. -1: an
 * error. */
static int find_by(struct history *history, const char *sql, const char *text, int64_t *id,
                   struct tacho_error *err)
{
    int found = 0;
    sqlite3_stmt *statement = history_prepare(history, sql, err);
    if (!statement)
        return -1;
    history_bind(statement, 1, text);
    while (found < 2 && sqlite3_step(statement) == SQLITE_ROW)
        if (!found++)
            *id = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return found;
}

static bool is_hex(const char *word)
{
    return strlen(word) >= 4 && word[strspn(word, "0123456789abcdef")] == 0;
}

int history_find(struct history *history, const char *word, int64_t *id, struct tacho_error *err)
{
    static const char latest[] = "SELECT id FROM run ORDER BY begun_ns DESC, id DESC LIMIT 1";
    static const char by_id[] = "SELECT id FROM run WHERE id = CAST(?1 AS INTEGER)";
    static const char by_key[] = "SELECT id FROM run WHERE key BETWEEN ?1 AND ?1 || 'g'";
    static const char by_commit[] =
        "SELECT id FROM run WHERE git_commit BETWEEN ?1 AND ?1 || 'g' ORDER BY begun_ns DESC";
    static const char by_file[] =
        "SELECT id FROM run WHERE file = ?1 ORDER BY begun_ns DESC LIMIT 1";
    int found = 0;
    if (!strcmp(word, "latest"))
        found = find_by(history, latest, NULL, id, err);
    else if (*word && word[strspn(word, "0123456789")] == 0)
        found = find_by(history, by_id, word, id, err);
    if (!found && is_hex(word))
        found = find_by(history, by_key, word, id, err);
    if (!found && is_hex(word))
        found = find_by(history, by_commit, word, id, err);
    char *file = found ? NULL : realpath(word, NULL);
    if (file)
        found = find_by(history, by_file, file, id, err);
    free(file);
    if (found < 0)
        return TACHO_ECORRUPT;
    if (found == 1)
        return 0;
    static const char hint[] = "'tacho history list' shows the runs with their numbers";
    if (!found)
        return tacho_fail(err, TACHO_ENOTFOUND, hint, "%s: no such run in the history", word);
    return tacho_fail(err, TACHO_EUSAGE, hint, "%s: several runs of the history", word);
}

static int read_values(struct history *history, struct history_made *made, struct tacho_error *err)
{
    sqlite3_stmt *statement =
        history_prepare(history,
                        "SELECT kind, name.name, unit, value FROM value JOIN name ON name.id ="
                        " value.name WHERE run = ?1 ORDER BY kind, value DESC, name.name",
                        err);
    if (!statement)
        return TACHO_ECORRUPT;
    sqlite3_bind_int64(statement, 1, made->entry.id);
    int status;
    while ((status = sqlite3_step(statement)) == SQLITE_ROW)
        history_made_add(made, history_text(statement, 0), history_text(statement, 1),
                         history_text(statement, 2), sqlite3_column_double(statement, 3));
    int rc = status == SQLITE_DONE ? 0 : history_fail(history, status, failed, err);
    sqlite3_finalize(statement);
    return rc;
}

static void read_samples(sqlite3_stmt *statement, int column, struct history_made *made)
{
    const void *blob = sqlite3_column_blob(statement, column);
    size_t count = (size_t)sqlite3_column_bytes(statement, column) / sizeof(float);
    float *step_ms = blob ? history_made_samples(made, count) : NULL;
    if (step_ms)
        memcpy(step_ms, blob, count * sizeof *step_ms);
}

static void copy_texts(struct history_made *made)
{
    struct history_entry *entry = &made->entry;
    const char **texts[] = {&entry->recipe_text, &entry->host_text, &entry->commit,
                            &entry->file,        &entry->verdict,   &entry->environment};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = history_made_copy(made, *texts[i]);
}

int history_get(struct history *history, int64_t id, struct history_entry **out,
                struct tacho_error *err)
{
    *out = NULL;
    sqlite3_stmt *statement = history_prepare(
        history, "SELECT " ROW_COLUMNS ", run.step_ms" ROW_TABLES " WHERE run.id = ?1", err);
    if (!statement)
        return TACHO_ECORRUPT;
    sqlite3_bind_int64(statement, 1, id);
    int status = sqlite3_step(statement), rc = 0;
    struct history_made *made = status == SQLITE_ROW ? history_made_new() : NULL;
    if (made) {
        read_row(statement, &made->entry);
        copy_texts(made);
        read_samples(statement, 12, made);
    } else if (status == SQLITE_DONE) {
        rc = tacho_fail(err, TACHO_ENOTFOUND, "'tacho history list' shows the runs",
                        "%s: no such run", history->path);
    } else {
        rc = status == SQLITE_ROW ? TACHO_ENOMEM : history_fail(history, status, failed, err);
    }
    sqlite3_finalize(statement);
    if (made)
        rc = read_values(history, made, err);
    if (rc) {
        history_entry_free(made ? &made->entry : NULL);
        return rc;
    }
    return history_made_end(made, out);
}
