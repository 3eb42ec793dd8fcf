/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of the importers of rocpd databases: damage ends the table in which it is, not the
 * import.
 */
#include <stdio.h>
#include <string.h>

#include "store/import/rocm/rocpd_private.h"

int64_t rocpd_integer(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_INTEGER ? sqlite3_column_int64(st, column)
                                                             : STORE_ABSENT;
}

const char *rocpd_text(sqlite3_stmt *st, int column)
{
    const char *value = sqlite3_column_type(st, column) == SQLITE_TEXT
                            ? (const char *)sqlite3_column_text(st, column)
                            : NULL;
    return value ? value : "";
}

sqlite3_stmt *rocpd_query(const struct rocpd *reading, const char *sql)
{
    sqlite3_stmt *st = NULL;
    sqlite3_str *full = sqlite3_str_new(reading->database->db);
    for (const char *at = sql; *at; at++) {
        if (*at == '$')
            sqlite3_str_appendf(full, "%w", reading->suffix);
        else
            sqlite3_str_appendchar(full, 1, *at);
    }
    char *whole = sqlite3_str_finish(full);
    if (whole)
        sqlite3_prepare_v2(reading->database->db, whole, -1, &st, NULL);
    sqlite3_free(whole);
    return st;
}

/* What a query ended with: 0 at its end and at damage, which sets *damaged; else an error. */
static int end_of(const struct rocpd *reading, int status, int rc, bool *damaged)
{
    if (reading->database->stopped)
        return TACHO_EINTERRUPTED;
    if (!rc && status == SQLITE_NOMEM)
        return TACHO_ENOMEM;
    *damaged = !rc && status != SQLITE_DONE;
    return rc;
}

static int lose(struct rocpd *reading, const char *reason, int64_t count)
{
    reading->run->truncated = true;
    return imp_loss(reading->run, reason, count);
}

int rocpd_each(struct rocpd *reading, const char *sql, rocpd_row row)
{
    sqlite3_stmt *st = rocpd_query(reading, sql);
    int status = SQLITE_DONE, rc = 0;
    bool damaged;
    while (st && !rc && (status = sqlite3_step(st)) == SQLITE_ROW)
        rc = row(reading, st);
    sqlite3_finalize(st);
    rc = end_of(reading, status, rc, &damaged);
    return rc || !damaged ? rc : lose(reading, "table is damaged: the rest of it was not read", 1);
}

/* Runs a query of records for the one with this id. *status: what it ended with, if that is no
 * error. *scans: an id was not looked up but searched for in a whole table, which would take a time
 * that grows with the square of the file. */
static int one_record(struct rocpd *reading, sqlite3_stmt *st, int64_t id, rocpd_row row,
                      int *status, bool *scans)
{
    int rc = 0;
    bool damaged;
    sqlite3_reset(st);
    sqlite3_bind_int64(st, 1, id);
    while (!rc && (*status = sqlite3_step(st)) == SQLITE_ROW)
        rc = row(reading, st);
    *scans = sqlite3_stmt_status(st, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1) > 0 ||
             sqlite3_stmt_status(st, SQLITE_STMTSTATUS_AUTOINDEX, 1) > 0;
    return end_of(reading, *status, rc, &damaged);
}

/* Goes on behind a record that cannot be read, one after the other, from the one after `last` on:
 * as far as their table itself can be read. Those of which a part (its name, its time) is missing
 * are counted, and those whose text is beyond the limit. */
static int each_left(struct rocpd *reading, const char *sql, const char *table, int64_t last,
                     rocpd_row row)
{
    char text[1600];
    int64_t lost = 0, too_long = 0;
    int status = SQLITE_DONE, ended, rc = 0;
    bool scans = false, damaged = true;
    snprintf(text, sizeof text, "%s WHERE R.rowid = ?", sql);
    sqlite3_stmt *one = rocpd_query(reading, text);
    snprintf(text, sizeof text, "SELECT rowid FROM \"%s\" WHERE rowid > ? ORDER BY rowid", table);
    sqlite3_stmt *ids = rocpd_query(reading, text);
    if (ids)
        sqlite3_bind_int64(ids, 1, last);
    while (one && ids && !rc && !scans && (status = sqlite3_step(ids)) == SQLITE_ROW) {
        rc = one_record(reading, one, sqlite3_column_int64(ids, 0), row, &ended, &scans);
        too_long += !rc && ended == SQLITE_TOOBIG;
        lost += !rc && ended != SQLITE_TOOBIG && ended != SQLITE_DONE;
    }
    sqlite3_finalize(one);
    sqlite3_finalize(ids);
    if (!rc && !scans && one && ids)
        rc = end_of(reading, status, rc, &damaged);
    if (!rc)
        rc = lost ? lose(reading, "record of which a part is damaged or missing", lost) : 0;
    if (!rc && too_long)
        rc = imp_loss(reading->run, "record with a text beyond 256 KiB: not read", too_long);
    if (!rc && damaged)
        rc = lose(reading, "table is damaged: the rest of it was not read", 1);
    return rc;
}

int rocpd_each_record(struct rocpd *reading, const char *sql, const char *table, rocpd_row row)
{
    char text[1600];
    int64_t last = INT64_MIN;
    int status = SQLITE_DONE, rc = 0;
    bool damaged;
    snprintf(text, sizeof text, "%s ORDER BY R.rowid", sql);
    sqlite3_stmt *st = rocpd_query(reading, text);
    while (st && !rc && (status = sqlite3_step(st)) == SQLITE_ROW) {
        last = sqlite3_column_int64(st, sqlite3_column_count(st) - 1);
        rc = row(reading, st);
    }
    sqlite3_finalize(st);
    rc = end_of(reading, status, rc, &damaged);
    return rc || !damaged ? rc : each_left(reading, sql, table, last, row);
}
