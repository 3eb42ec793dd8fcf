/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/: the writing handle, shared by writer.c (life, transactions), rows.c, live.c,
 * resume.c and finish.c.
 */
#ifndef STORE_WRITER_H
#define STORE_WRITER_H

#include <sqlite3.h>
#include <stdbool.h>

#include "store/batch.h"
#include "store/files.h"
#include "store/intern.h"
#include "store/store.h"

/* Prepared statements: name, text. Prepared at first use, kept until close. */
#define STORE_STATEMENT_MAP(X) \
    X(BEGIN, "BEGIN IMMEDIATE") \
    X(COMMIT, "COMMIT") \
    X(RUN_SET, "INSERT INTO run VALUES(?,?) ON CONFLICT DO UPDATE SET value=excluded.value") \
    X(RUN_DELETE, "DELETE FROM run WHERE key=?") \
    X(STRING_ADD, "INSERT INTO string VALUES(?,?)") \
    X(DETAIL_ADD, "INSERT INTO detail VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)") \
    X(PROCESS_ADD, "INSERT INTO process VALUES(?,?,?,?,?,?,?,?,?,?,?)") \
    X(PROCESS_UPDATE, "UPDATE process SET " \
                      "rank=?2,host=?3,pid=?4,parent_pid=?5,program=?6,device=?7,start=?8," \
                      "\"end\"=?9,exit_status=?10," \
                      "ended=?11 WHERE id=?1") \
    X(TRACK_ADD, "INSERT INTO track VALUES(?,?,?,?,?,?,?)") \
    X(TRACK_RENAME, "UPDATE track SET name=?2 WHERE id=?1") \
    X(SLICE_END, "UPDATE slice SET dur=?2 WHERE id=?1") \
    X(SLICE_SHIFT, "UPDATE slice SET start=start+?2 WHERE track>=?1") \
    X(COUNTER_SHIFT, "UPDATE counter SET time=time+?2 WHERE track>=?1") \
    X(STACK_ADD, "INSERT INTO stack VALUES(?,?,?)") \
    X(STEP_ADD, "INSERT INTO step VALUES(?,?,?,?,?,?,?)") \
    X(CEILING_ADD, "INSERT INTO ceiling VALUES(?,?,?,?,?)") \
    X(LOSS_ADD, \
      "INSERT INTO loss VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET count=count+excluded.count," \
      "t0=min(coalesce(t0,excluded.t0),coalesce(excluded.t0,t0)),t1=max(coalesce(t1,excluded.t1)," \
      "coalesce(excluded.t1,t1))") \
    X(LOSS_SET, "INSERT INTO loss VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET " \
                "count=excluded.count,t0=excluded.t0,t1=excluded.t1") \
    X(ANCHOR_ADD, "INSERT INTO clock_anchor VALUES(?,?,?)") \
    X(METRIC_SET, "INSERT INTO metric VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET " \
                  "value=excluded.value,unit=excluded.unit," \
                  "reason=excluded.reason") \
    X(FINDING_SET, "INSERT INTO finding VALUES(?,?) ON CONFLICT DO UPDATE SET json=excluded.json") \
    X(POSITION_SET, "INSERT INTO live_position VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET " \
                    "generation=excluded.generation,bytes=excluded.bytes") \
    X(POSITION_CLEAR, "DELETE FROM live_position WHERE pool=?1 AND segment=?2") \
    X(POSITION_CLEAR_POOL, "DELETE FROM live_position WHERE pool=?1") \
    X(LIVE_SET, \
      "INSERT INTO live_state VALUES(?,?) ON CONFLICT DO UPDATE SET value=excluded.value") \
    X(LIVE_DELETE, "DELETE FROM live_state WHERE key=?") \
    X(NEWEST_SLICE, "SELECT max(rowid) FROM slice") \
    X(NEWEST_AGGREGATE, "SELECT max(rowid) FROM step_aggregate") \
    X(NEWEST_STEP, "SELECT max(rowid) FROM step") \
    X(NEWEST_COUNTER, "SELECT max(rowid) FROM counter") \
    X(PAGES, "PRAGMA page_count") \
    X(FREE_PAGES, "PRAGMA freelist_count") \
    X(PAGE_BYTES, "PRAGMA page_size")

enum store_statement {
#define STORE_STATEMENT_ENUM(name, sql) STORE_SQL_##name,
    STORE_STATEMENT_MAP(STORE_STATEMENT_ENUM)
#undef STORE_STATEMENT_ENUM
        STORE_SQL_COUNT
};

/* What a transaction may have to take back. */
struct store_mark {
    int64_t slice, process, track;
    size_t strings, details, stacks;
};

struct store {
    sqlite3 *db;
    struct store_place place;
    char *path; /* of messages */
    struct tacho_error error;
    int failed; /* first failure of the open transaction; all later writes of it return this code */
    bool in_transaction;    /* between store_begin and store_commit */
    bool unsynced;          /* a commit has not been synced by store_sync_due */
    int64_t unsynced_since; /* when that was first seen; 0: not yet */
    struct store_mark next, mark;
    struct store_intern strings, details, stacks;
    struct store_batch slices, counters, aggregates, samples;
    sqlite3_stmt *statement[STORE_SQL_COUNT];
    char *key; /* buffer in which keys of details are put together */
    size_t key_used, key_cap;
};

/* A statement ready for binding, or NULL after a failure (s->failed has the code). */
sqlite3_stmt *store_statement(store *writer, enum store_statement which);
/* Runs a bound statement once and resets it. 0 or a code; the failure is noted. */
int store_run_statement(store *writer, sqlite3_stmt *st, const char *doing);
/* Notes a failure of SQLite and returns its code. */
int store_note(store *writer, int status, const char *doing);
/* Writes all waiting rows. 0 or a code. */
int store_flush(store *writer);
/* Runs text of several statements. 0 or a code. */
int store_exec(store *writer, const char *sql, const char *doing);

/* Binds a row and runs the statement. One letter of `types` for each value: 'i' int64_t
 * (STORE_ABSENT becomes NULL), 'd' double (NAN becomes NULL), 't' text (NULL stays NULL, what is no
 * UTF-8 is repaired), 'b' sound UTF-8 text and its size_t of bytes, 'x' a blob and its size_t of
 * bytes. 0 or a code. */
int store_write(store *writer, enum store_statement which, const char *types, ...);

/* What writer.c and resume.c open a handle with: a handle without a database, which closes the
 * place; its batches, when the
 * database is open; and the end of a handle that fails before the user gets it: its error goes to
 * *err. */
store *store_writer_new(const struct store_place *place, const char *path);
int store_writer_open(store *writer);
int store_writer_give_up(store *writer, int code, struct tacho_error *err);
extern const char store_live_pragmas[];
/* Syncs a file of a folder, or "." for the folder itself. 0 or a negative errno; a filesystem that
 * cannot sync folders is no failure. */
int store_file_sync(int folder, const char *name);
/* The copy that takes the place of a live file whose WAL cannot be folded in. The WAL is removed
 * only once the copy is synced, so a copy without a WAL is complete: store_finish_again then lets
 * it take its place. 0 or a code. */
#define STORE_FINISH_SUFFIX ".finish"
int store_finish_again(const struct store_place *place);

/* Puts the bytes that make a detail unique into s->key. 0 or TACHO_ENOMEM. */
int store_detail_key(store *writer, const struct store_detail *detail);
/* Reads the detail table as store_detail_each does. SQLite code; *stopped is what `row` returned.
 */
int store_scan_details(sqlite3 *db, int64_t from_id,
                       int (*row)(void *ctx, const struct store_detail *d), void *ctx,
                       int *stopped);

#endif
