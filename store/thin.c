/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes room in a live file of limited size. Rows that go leave free pages, which new rows use, so
 * the file does not grow. docs/durability.md has the policy; the collector decides what goes when.
 */
#include "store/writer.h"

#include <errno.h>
#include <stdio.h>

#define THINNING "cannot be written"

/* The names of the tables, the statements that find their newest rows, and those that thin a block
 * of rows ?1..?2; ?3 is the span. */
static const struct {
    const char *table;
    enum store_statement newest;
    const char *sql[4];
} growing[STORE_GROWING_COUNT] = {
    [STORE_GROWING_SLICE] = {"slice",
                             STORE_SQL_NEWEST_SLICE,
                             {"DELETE FROM slice WHERE rowid BETWEEN ?1 AND ?2"}},
    [STORE_GROWING_AGGREGATE] =
        {"step_aggregate",
         STORE_SQL_NEWEST_AGGREGATE,
         {"CREATE TEMP TABLE IF NOT EXISTS merged (process, step, track, name, category, detail, "
          "count, total, self, steps)",
          "INSERT INTO temp.merged SELECT process, min(step), track, name, category, detail, "
          "sum(count), sum(total), sum(self), "
          "CASE WHEN max(step) < 0 THEN 1 ELSE max(step + steps) - min(step) END "
          "FROM step_aggregate WHERE rowid BETWEEN ?1 AND ?2 GROUP BY process, track, name, "
          "category, detail, CASE WHEN step < 0 THEN -1 ELSE step / ?3 END ORDER BY min(step)",
          "DELETE FROM step_aggregate WHERE rowid BETWEEN ?1 AND ?2",
          "INSERT INTO step_aggregate(rowid, process, step, track, name, category, detail, count, "
          "total, self, steps) SELECT ?1 + rowid - 1, * FROM temp.merged ORDER BY rowid"}},
    [STORE_GROWING_STEP] =
        {"step",
         STORE_SQL_NEWEST_STEP,
         {"DELETE FROM step WHERE rowid IN (SELECT id FROM (SELECT rowid AS id, row_number() OVER "
          "(PARTITION BY process ORDER BY rowid) AS n FROM step WHERE rowid BETWEEN ?1 AND ?2) "
          "WHERE n % 2 = 0)"}},
    [STORE_GROWING_COUNTER] =
        {"counter",
         STORE_SQL_NEWEST_COUNTER,
         {"DELETE FROM counter WHERE rowid IN (SELECT id FROM (SELECT rowid AS id, row_number() "
          "OVER (PARTITION BY track ORDER BY rowid) AS n FROM counter WHERE rowid BETWEEN ?1 AND "
          "?2) WHERE n % 2 = 0)"}},
};

/* Steps a statement once, if it was made (`status`); *first and *second get the columns of its row,
 * where they are wanted. */
static int step(store *writer, sqlite3_stmt *st, int status, int64_t *first, int64_t *second)
{
    if (status == SQLITE_OK)
        status = sqlite3_step(st);
    if (status == SQLITE_ROW && first)
        *first = sqlite3_column_int64(st, 0);
    if (status == SQLITE_ROW && second)
        *second = sqlite3_column_int64(st, 1);
    return status == SQLITE_ROW || status == SQLITE_DONE
               ? 0
               : store_note(writer, sqlite3_extended_errcode(writer->db), THINNING);
}

/* Runs a statement with up to three numbers (NULL: it has none); *first and *second get the columns
 * of its row. */
static int run(store *writer, const char *sql, const int64_t number[3], int64_t *first,
               int64_t *second)
{
    sqlite3_stmt *st = NULL;
    errno = 0; /* see store_db_code */
    int status = sqlite3_prepare_v2(writer->db, sql, -1, &st, NULL);
    for (int i = 0; number && status == SQLITE_OK && i < sqlite3_bind_parameter_count(st); i++)
        status = sqlite3_bind_int64(st, i + 1, number[i]);
    int code = step(writer, st, status, first, second);
    sqlite3_finalize(st);
    return code;
}

/* Sets *number to what a statement without parameters answers, 0 where that is NULL. */
static int ask(store *writer, enum store_statement which, int64_t *number)
{
    sqlite3_stmt *st = store_statement(writer, which);
    *number = 0;
    if (!st)
        return writer->failed;
    errno = 0; /* see store_db_code */
    int code = step(writer, st, SQLITE_OK, number, NULL);
    sqlite3_reset(st);
    return code;
}

int store_used(store *writer, int64_t *bytes)
{
    int64_t pages, unused = 0, page_bytes = 0;
    int code = ask(writer, STORE_SQL_PAGES, &pages);
    if (!code)
        code = ask(writer, STORE_SQL_FREE_PAGES, &unused);
    if (!code)
        code = ask(writer, STORE_SQL_PAGE_BYTES, &page_bytes);
    *bytes = (pages - unused) * page_bytes;
    return code;
}

int64_t store_details(const store *writer)
{
    return (int64_t)writer->details.count;
}

int store_newest(store *writer, enum store_growing table, int64_t *row)
{
    int code = store_flush(writer);
    *row = 0;
    return code ? code : ask(writer, growing[table].newest, row);
}

int store_extent(store *writer, enum store_growing table, int64_t from, struct store_extent *extent)
{
    static const char slices[] =
        "SELECT * FROM (SELECT min(start) AS first, max(start + max(dur, 0)) FROM slice "
        "WHERE rowid > ?1) WHERE first IS NOT NULL",
                      steps[] = "SELECT * FROM (SELECT min(start) AS first, max(\"end\") FROM step "
                                "WHERE rowid > ?1) WHERE first IS NOT NULL";
    const int64_t number[3] = {from};
    int code = store_flush(writer);
    *extent = (struct store_extent){.start = INT64_MAX, .end = INT64_MIN};
    if (!code)
        code = run(writer, table == STORE_GROWING_SLICE ? slices : steps, number, &extent->start,
                   &extent->end);
    extent->known = !code && extent->start <= extent->end;
    return code;
}

int store_any_device(store *writer, int64_t from, bool *any)
{
    const int64_t number[3] = {from};
    int64_t found = 0;
    int code = store_flush(writer);
    if (!code)
        code = run(writer,
                   "SELECT EXISTS (SELECT 1 FROM track WHERE device IS NOT NULL AND id >= "
                   "(SELECT min(track) FROM slice WHERE rowid > ?1))",
                   number, &found, NULL);
    *any = !code && found;
    return code;
}

int store_block(store *writer, enum store_growing table, int64_t from, int64_t to, int64_t most,
                struct store_block *block)
{
    const int64_t number[3] = {from, to, most};
    char sql[160];
    *block = (struct store_block){.from = from, .to = to};
    snprintf(sql, sizeof sql,
             "SELECT max(id), count(*) FROM (SELECT rowid AS id FROM %s "
             "WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid LIMIT ?3)",
             growing[table].table);
    int64_t last = 0;
    int code = run(writer, sql, number, &last, &block->rows);
    if (block->rows == most)
        block->to = last;
    return code;
}

/* Rows that stay keep ids within the block, so the order of the table stays that of time. */
int store_thin(store *writer, enum store_growing table, const struct store_block *block,
               int64_t span, int64_t *left)
{
    const int64_t number[3] = {block->from, block->to, span};
    struct store_block after;
    int code = 0;
    for (int i = 0; !code && i < 4 && growing[table].sql[i]; i++)
        code = run(writer, growing[table].sql[i], number, NULL, NULL);
    if (!code && table == STORE_GROWING_AGGREGATE)
        code = run(writer, "DELETE FROM temp.merged", NULL, NULL, NULL);
    if (!code)
        code = store_block(writer, table, block->from, block->to, block->rows + 1, &after);
    *left = code ? block->rows : after.rows;
    return code;
}
