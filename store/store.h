/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room store/: the `.tacho` file, an SQLite 3 database. The collector writes
 * through it, analyzers and the live reader read through it. docs/schema.md documents the tables
 * for people who use sqlite3, DuckDB or pandas.
 *
 * Units: times are CLOCK_MONOTONIC ns of the recording host, sizes are bytes. STORE_ABSENT means
 * "not measured" in every integer field (SQL NULL), NAN in every double field; 0 is always a
 * measured 0. Text fields are borrowed: writers copy them; readers hand them out valid until the
 * callback returns. NULL text = absent. Errors: 0 or a negative TACHO_E* code; store_error()
 * describes the last failure of a handle. Threads: a handle belongs to one thread at a time.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#define STORE_APPLICATION_ID 0x5443484f /* "TCHO" */
#define STORE_SCHEMA_VERSION 2
/* In place of a secret in a stored command or environment. */
#define STORE_REDACTED "<redacted>"
#define STORE_ABSENT   INT64_MIN

/* ---- rows -------------------------------------------------------------------------------------------------------------- */

struct store_process {
    int64_t id; /* out of add; set for update */
    int64_t rank, pid, parent_pid, start, end;
    int64_t exit_status; /* code, or 128 + signal; absent while it runs, or unknown */
    const char *host, *device, *program;
    /* How it ended: "exit", "signal 9 (KILL)", "exec", "unknown: ..."; NULL while it runs. */
    const char *ended;
};

/* kind: thread, stream, comm, loader, counter, range (start/end ranges of a process: they may
 * overlap on it) */
struct store_track {
    int64_t id;
    int64_t process; /* absent: belongs to the machine */
    int64_t tid;
    const char *kind, *name, *device, *unit;
};

/* One interval. dur absent: it was still open when the recording of its thread ended, or its end
 * was lost. */
struct store_slice {
    int64_t id;
    int64_t track, start, dur;
    int64_t name, category; /* string ids */
    int64_t detail;         /* detail id or absent */
    /* Sequence number (tacho.comm), number of operands (tacho.work), correlation id (CUDA), NVTX
     * range id (start/end); else absent.
     */
    int64_t correlation;
};

/* Interned: equal details share one row. Fields that do not apply are absent/NULL. */
struct store_detail {
    int64_t id;
    int64_t flops, bytes_read, bytes_written, model_flops,
        palm_flops;         /* see include/tacho_nvtx.h */
    int64_t bytes, samples; /* tacho.range, tacho.comm, copies */
    int64_t communicator, ranks;
    int64_t flags; /* STORE_DETAIL_* bits, 0 = none */
    const char *dtype, *pass,
        *kind;          /* kind: work kind (matrix ...) or range kind (input_wait ...) */
    const char *schema; /* "tacho.work", "tacho.step", or the name of a foreign payload schema */
    const char *collective, *copy_kind, *grid, *block;
    const char *payload; /* foreign payloads as JSON text */
};
/* Initialiser of a detail of which nothing is known yet; id 0. */
#define STORE_DETAIL_NONE \
    { \
        .flops = STORE_ABSENT, .bytes_read = STORE_ABSENT, .bytes_written = STORE_ABSENT, \
        .model_flops = STORE_ABSENT, .palm_flops = STORE_ABSENT, .bytes = STORE_ABSENT, \
        .samples = STORE_ABSENT, .communicator = STORE_ABSENT, .ranks = STORE_ABSENT \
    }
#define STORE_DETAIL_PAUSED 1 /* recording was paused inside this step (overhead measurement) */

struct store_step {
    int64_t process, index, start, end, tokens, samples;
    bool paused; /* recording was paused inside: its duration counts, its parts were not recorded */
    int64_t id;  /* of the row: readers set it */
};

/* Totals of one name within one step and track, kept for the whole run even where slices were not
 * (windows, --max-size). self = time not covered by ranges nested in it. */
struct store_step_aggregate {
    int64_t process, step, track, name, category, detail, count, total, self;
    int64_t steps; /* the row covers `step` and the steps after it, this many; 0 is taken as 1 */
    int64_t id;    /* of the row: readers set it */
};

struct store_counter {
    int64_t track, time;
    double value;
    int64_t id; /* readers set it */
};
struct store_stack {           /* a call stack: its innermost frame and the stack of the caller */
    int64_t id, parent, frame; /* parent absent: the outermost; frame: string.id */
};
struct store_sample {
    int64_t track, time, stack; /* stack absent: the sample had none */
};
struct store_ceiling {
    const char *device, *resource, *dtype, *source;
    double value;
};
struct store_loss {
    const char *source, *reason;
    int64_t count, t0, t1; /* count absent: unknown how many */
};
/* Does a row of `loss` say that events are missing? Of STORE_LOSS_PLACES it counts cuts, damaged
 * places or whole files, and how many events these had is not known. */
enum store_loss_kind { STORE_LOSS_NONE, STORE_LOSS_EVENTS, STORE_LOSS_PLACES };
enum store_loss_kind store_loss_kind(const char *source, const char *reason);
/* A collective as tacho writes it ("all_reduce"), of a name that begins with it however it is
 * written (AllReduce, allreduce_coalesced, _reduce_scatter_base); NULL: it begins with none. *used
 * (may be NULL): bytes of the name that say it. */
const char *store_collective(const char *name, size_t bytes, size_t *used);
/* The same of the first word of a text that begins with one: "ncclDevKernel_AllReduce_Sum_f32",
 * "Default/AllGather-op5". For texts that are known to name communication. */
const char *store_collective_in(const char *text, size_t bytes);
/* Followed by the id of a process: events that it lost. */
#define STORE_METRIC_LOST "lost.process."
struct store_metric {
    const char *name, *unit, *reason;
    double value; /* NAN: absent, reason says why */
};
struct store_anchor {
    int64_t tsc, monotonic, realtime; /* taken back to back */
};

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

typedef struct store store; /* a file open for writing */

/* Creates PATH (must not exist) as a live store: WAL, schema, application_id. */
int store_create(const char *path, store **out, struct tacho_error *err);
/* The same for the last part of PATH in a folder that is open: no other part of it is used but in
 * messages. */
int store_create_at(int folder, const char *path, store **out, struct tacho_error *err);
/* The same for a file that no other process opens before it is finished and that its maker removes
 * when anything fails (imports): no journal, so a transaction cannot be taken back; after a failure
 * only store_close is allowed. */
int store_create_private(const char *path, store **out, struct tacho_error *err);
/* Opens a live store again after its writer died (tacho recover); interned strings and details are
 * loaded. */
int store_resume(const char *path, store **out, struct tacho_error *err);
int store_resume_at(int folder, const char *path, store **out, struct tacho_error *err);
/* Closes without finishing; an open transaction is rolled back. NULL is fine. */
void store_close(store *writer);
const struct tacho_error *store_error(const store *writer);

/* Rows are kept together from begin to commit. The first failure in between is returned by every
 * later write and by commit, which then takes the whole transaction back: the file and the interned
 * ids are as they were at begin, and the next begin starts afresh. Writes outside a transaction are
 * each their own. */
int store_begin(store *writer);
int store_commit(store *writer);

/* A NULL value removes the key. */
int store_run_set(store *writer, const char *key, const char *value);
int store_run_set_int(store *writer, const char *key, int64_t value);
/* Interns a text, which need not be terminated. */
int store_string(store *writer, const char *text, size_t bytes, int64_t *id);
int store_detail_intern(store *writer, const struct store_detail *detail, int64_t *id);
int store_process_add(store *writer, struct store_process *process);
/* Sets all columns of the row process->id. */
int store_process_update(store *writer, const struct store_process *process);
int store_track_add(store *writer, struct store_track *track);
int store_track_rename(store *writer, int64_t track, const char *name);
/* Sets slice->id. */
int store_slice_add(store *writer, struct store_slice *slice);
/* Ends a slice that was added open. */
int store_slice_end(store *writer, int64_t id, int64_t dur);
int store_counter_add(store *writer, const struct store_counter *counter);
/* Adds delta to the start of all slices and the time of all counter values on tracks from
 * `from_track` on, for an importer that finds the base of its times late. The caller makes sure
 * that sums fit 64 bits. */
int store_time_shift(store *writer, int64_t from_track, int64_t delta);
/* Interns a frame below its parent; parent STORE_ABSENT: the outermost. */
int store_stack(store *writer, int64_t parent, int64_t frame, int64_t *id);
int store_sample_add(store *writer, const struct store_sample *sample);
int store_step_add(store *writer, const struct store_step *step);
int store_step_aggregate_add(store *writer, const struct store_step_aggregate *step_aggregate);
int store_ceiling_add(store *writer, const struct store_ceiling *ceiling);
/* Adds count to the row of the same source and reason and widens its t0..t1; creates it if needed.
 */
int store_loss_add(store *writer, const struct store_loss *loss);
/* Sets the row of the same source and reason to exactly these values. */
int store_loss_set(store *writer, const struct store_loss *loss);
int store_anchor_add(store *writer, const struct store_anchor *anchor);
int store_metric_set(store *writer, const struct store_metric *metric);
int store_finding_set(store *writer, const char *id, const char *json);
/* Bytes of the database file and its WAL. */
int64_t store_bytes(const store *writer);
/* Those of the WAL alone. It grows while another process reads an older state of the file. */
int64_t store_wal_bytes(const store *writer);
/* Folds the WAL into the file and empties it, outside of a transaction. False: another process
 * reads an older state. Never waits for it. */
bool store_fold_wal(store *writer);

/* ---- a live file of limited size (thin.c) --------------------------------------------------------- */

/* The tables that grow as long as the run lasts. */
enum store_growing {
    STORE_GROWING_SLICE,
    STORE_GROWING_AGGREGATE,
    STORE_GROWING_STEP,
    STORE_GROWING_COUNTER,
    STORE_GROWING_COUNT
};
/* The rows with ids from..to, both included; ids may have gaps. */
struct store_block {
    int64_t from, to, rows;
};

/* Keeps the WAL small beside a file of at most this many bytes. */
int store_limit_wal(store *writer, int64_t max_bytes);
/* Bytes of the pages that hold something; the file may have free pages too. */
int store_used(store *writer, int64_t *bytes);
/* Payloads that the file has. */
int64_t store_details(const store *writer);
/* Highest row id of a table, 0: it is empty. */
int store_newest(store *writer, enum store_growing table, int64_t *row);
/* From the first start to the last end of the slices or steps whose row ids are above `from`. */
struct store_extent {
    bool known; /* there are some */
    int64_t start, end;
};
int store_extent(store *writer, enum store_growing table, int64_t from,
                 struct store_extent *extent);
/* Has a track of a device been added since the slice `from`, with the slices behind it? */
int store_any_device(store *writer, int64_t from, bool *any);
/* The first rows of from..to, at most `most`. */
int store_block(store *writer, enum store_growing table, int64_t from, int64_t to, int64_t most,
                struct store_block *block);
/* Thins a block. Slices: all go. Aggregates: rows of one key whose steps lie in the same group of
 * `span` steps become one row that covers them; sums stay exact. Steps and counters: every second
 * row of a process or track goes. *left: rows that the block has then. */
int store_thin(store *writer, enum store_growing table, const struct store_block *block,
               int64_t span, int64_t *left);

/* ---- a crash of the machine (docs/durability.md) -------------------------------------------------- */

/* Call after commits, with the time in ns: syncs the WAL once three quarters of `interval` ns have
 * passed since the oldest commit that a crash of the machine would lose. */
int store_sync_due(store *writer, int64_t now, int64_t interval);

/* Live bookkeeping, dropped by store_finish. Positions: how many bytes of a segment are in the
 * file. */
int store_position_set(store *writer, const char *pool, int64_t segment, int64_t generation,
                       int64_t bytes);
/* segment < 0: the whole pool. */
int store_position_clear(store *writer, const char *pool, int64_t segment);
int store_position_each(store *writer,
                        int (*row)(void *ctx, const char *pool, int64_t segment, int64_t generation,
                                   int64_t bytes),
                        void *ctx);
/* Free-form live state by key (open ranges, chain positions ...), any bytes up to STORE_LIVE_MOST;
 * NULL value removes. */
#define STORE_LIVE_MOST (256 << 20)
int store_live_set(store *writer, const char *key, const void *value, size_t bytes);
/* Calls `row` for each key that begins with `prefix`, in the order of the keys, until it returns
 * non-zero, which is returned. One value is in memory at a time, valid until `row` returns; `row`
 * may remove it. A larger value than STORE_LIVE_MOST ends it with an error, unread. */
int store_live_each(store *writer, const char *prefix,
                    int (*row)(void *ctx, const char *key, const void *value, size_t bytes),
                    void *ctx);

/* Turns the live file into a finished one in place: live tables dropped, WAL folded in, journal
 * mode DELETE, synced, closed. The handle is gone afterwards whatever the result. */
int store_finish(store *writer, struct tacho_error *err);
/* Moves a finished file to its final name: link (never overwrites: TACHO_EEXISTS) or, across
 * filesystems, copy beside, sync, rename. */
int store_publish(const char *from, const char *to, struct tacho_error *err);
/* The same by folders that are open: of the last parts of the paths. A file that is there already,
 * because who published it was killed before `from` was removed, is a success. */
int store_publish_at(int from_folder, const char *from, int to_folder, const char *to,
                     struct tacho_error *err);
/* Makes a whole run at once: `fill` writes it under a hidden name in the folder of PATH, and it
 * gets its name when it is complete (never over another file). A failure leaves nothing. */
struct store_making {
    const char *path;
    const char *tag;      /* of the hidden name: what makes it */
    const char *no_space; /* the hint on a full disk */
    bool discard;         /* removed again at the end: only the errors are of interest */
    int (*fill)(void *ctx, store *writer, struct tacho_error *why);
    void *ctx;
};
int store_make(const struct store_making *making, struct tacho_error *err);
/* Is PATH on a filesystem that WAL and locks can be trusted on (not NFS, Lustre, FUSE, ...)? 1, 0,
 * or negative code. */
int store_is_local(const char *path);

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

typedef struct store_reader store_reader;

/* Opens a finished or live file read-only. Errors: TACHO_ENOTFOUND, _EFORMAT (not SQLite or not
 * tacho's), _ECORRUPT, _EVERSION.
 */
int store_open(const char *path, store_reader **out, struct tacho_error *err);
/* Opens a finished file of ours read-write for saving metrics and findings (report --save, finish).
 */
int store_open_results(const char *path, store **out, struct tacho_error *err);
void store_reader_close(store_reader *reader);
/* A second handle for the file that `reader` has read from already, so that another thread can read
 * another table meanwhile; the caller closes it. NULL where the two might not see the same: the
 * file is live, has changed, or cannot be opened again. */
store_reader *store_reader_twin(const store_reader *reader);
/* All reads of a handle see the file as it was at store_open; this goes on to its present state
 * (live reading). */
int store_reader_refresh(store_reader *reader);
/* Ends that: what is read later is of any later state. Whoever records can fold in what it wrote
 * since; until then the WAL grows. */
void store_reader_rest(store_reader *reader);
const struct tacho_error *store_reader_error(const store_reader *reader);

/* Each calls `row` for every row in id order until it returns non-zero, which is then returned. */
int store_run_each(store_reader *reader, int (*row)(void *ctx, const char *key, const char *value),
                   void *ctx);
int store_string_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, int64_t id, const char *text), void *ctx);
int store_detail_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, const struct store_detail *d), void *ctx);
int store_process_each(store_reader *reader,
                       int (*row)(void *ctx, const struct store_process *process), void *ctx);
int store_track_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_track *track), void *ctx);
int store_slice_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_slice *x), void *ctx);
int store_counter_each(store_reader *reader, int64_t from_id,
                       int (*row)(void *ctx, const struct store_counter *counter), void *ctx);
/* A stack comes after its parent. */
int store_stack_each(store_reader *reader, int64_t from_id,
                     int (*row)(void *ctx, const struct store_stack *stack), void *ctx);
int store_sample_each(store_reader *reader, int64_t from_id,
                      int (*row)(void *ctx, const struct store_sample *sample), void *ctx);
int store_step_each(store_reader *reader, int (*row)(void *ctx, const struct store_step *x),
                    void *ctx);
int store_step_aggregate_each(store_reader *reader,
                              int (*row)(void *ctx, const struct store_step_aggregate *x),
                              void *ctx);
int store_ceiling_each(store_reader *reader,
                       int (*row)(void *ctx, const struct store_ceiling *ceiling), void *ctx);
int store_metric_each(store_reader *reader,
                      int (*row)(void *ctx, const struct store_metric *metric), void *ctx);
int store_loss_each(store_reader *reader, int (*row)(void *ctx, const struct store_loss *loss),
                    void *ctx);
/* Tailing, and looking at a part: from a row on; ids grow as rows are written, which is nearly in
 * order of their ends while a run is recorded, and in any order in merged and imported runs. */
int store_step_from(store_reader *reader, int64_t from_id,
                    int (*row)(void *ctx, const struct store_step *step), void *ctx);
int store_step_aggregate_from(store_reader *reader, int64_t from_id,
                              int (*row)(void *ctx,
                                         const struct store_step_aggregate *step_aggregate),
                              void *ctx);
/* Slices from that id on that lie in t0..t1 at least in part; of one without an end its start
 * decides. */
int store_slice_between(store_reader *reader, int64_t from_id, int64_t t0, int64_t t1,
                        int (*row)(void *ctx, const struct store_slice *x), void *ctx);
/* For bsearch(): an id (int64_t) against a row in memory that begins with its id. Rows are read in
 * the order of their ids, and a file may have any number of them. */
int store_id_order(const void *id, const void *row);
/* Highest id of a table, 0: no rows. Unlike store_count it costs no scan. Tables without a row id
 * (run, loss, metric, finding) have none: TACHO_EUSAGE or a failure of SQLite. */
int store_last_id(store_reader *reader, const char *table, int64_t *id);
/* Rows of a table (for sizing arrays); `table` is one of the public table names. */
int store_count(store_reader *reader, const char *table, int64_t *count);

/* ---- questions of users ------------------------------------------------------------------------------------------------- */

enum store_cell_type {
    STORE_CELL_NULL,
    STORE_CELL_INTEGER,
    STORE_CELL_REAL,
    STORE_CELL_TEXT,
    STORE_CELL_BLOB
};
struct store_cell {
    enum store_cell_type type;
    int64_t integer;
    double real;
    const char
        *text; /* also of numbers; of a blob its bytes; NULL for NULL. Valid until the next row */
    size_t bytes;
};

/* Runs SQL statements on the file; nothing can be written. `head` (may be NULL) gets the column
 * names of each statement that has columns, `row` every row, until one of them returns non-zero,
 * which is then returned. Errors: TACHO_EUSAGE (not SQL). */
int store_query(store_reader *reader, const char *sql,
                int (*head)(void *ctx, int columns, const char *const *names),
                int (*row)(void *ctx, int columns, const struct store_cell *cells), void *ctx);
/* Ends each later query of the handle that takes longer than so many ms, with TACHO_EINTERRUPTED;
 * 0: none. */
void store_query_limit(store_reader *reader, int64_t ms);
/* Adds the indexes that ad-hoc queries want (docs/schema.md lists them); those that are there
 * already are kept. */
int store_index(store *writer);

#endif
