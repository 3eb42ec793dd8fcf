/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the pools of all processes of a run into the store, in rounds. The public header of
 * drain/.
 *
 * A round, in transactions of about 6 MiB of records: look for new pools; note how far every
 * segment is written; take a clock anchor; decode up to there; COMMIT; only then give fully read
 * segments back. What the next reader needs if this one dies (positions, open ranges, chains, steps
 * that are not written yet) goes into the same transaction as the rows, so nothing is read twice
 * and nothing is skipped.
 *
 * drain.c rounds and commits · chains.c threads and their segments · decode.c, ranges.c, names.c
 * records to rows (decode_private.h) · gpu*.c device work (gpu_private.h) · restore.c saving and
 * loading the live state · volume.c the size of the file · processes.c processes and their pools ·
 * rows.c rows of the store, used by all of these and by samplers/ and stacks/
 *
 * A store that fails (a full disk) leaves this object inconsistent with the file: discard it
 * (col_drain_close), roll back by closing the store, and load what was committed last
 * (col_drain_load).
 */
#ifndef COL_DRAIN_H
#define COL_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/pool/payload.h"
#include "profiler/collector/pool/pool.h"
#include "profiler/collector/pool/state.h"
#include "profiler/collector/pool/steps.h"
#include "store/files.h"
#include "store/store.h"

#define COL_POOL_NAME    48
#define COL_COMMIT_BYTES (6u << 20) /* of records in one transaction */

/* Which detail is kept. Steps, totals and losses are always kept. */
struct col_volume {
    int64_t from, to, every; /* from < 0: all steps */
    int64_t max_bytes;       /* 0: no limit */
    bool full;               /* between two windows of full detail: the file is limited */
    int64_t held_since; /* ns: the WAL cannot be folded in and has outgrown its share; 0: it can */
    bool tight;         /* no counter samples either, until older rows have made room */
    bool no_space;      /* the disk is full */
    bool no_detail;     /* no new payloads either: totals go on by name alone */
};

#define COL_WINDOWS    64 /* of full detail, at most */
#define COL_LEVEL_MOST 32 /* a run that lasts as long as its first window times 2^32 */
#define COL_AGES       24
#define COL_OPEN_MOST  4096u      /* open ranges of a thread; with more, most have lost their POP */
#define COL_THREADS    (1u << 22) /* that a process ever had: the most that Linux has at once */

/* A part of the run whose detail is kept. Rows of the three tables with these ids belong to it. */
struct col_window {
    int64_t from, to; /* ns; to: INT64_MAX while it is recorded */
    int64_t first[STORE_GROWING_COUNTER], last[STORE_GROWING_COUNTER];
    int64_t worst; /* ns that its slowest step took */
};

/* The rows of a table by how often they were thinned. Those of age i begin at id first[i] and end
 * where those of age i - 1 begin. */
struct col_ages {
    int64_t first[COL_AGES], rows[COL_AGES];
};

/* How a file is kept below --max-size (volume.c). */
struct col_room {
    struct col_window window[COL_WINDOWS];
    struct col_ages ages[STORE_GROWING_COUNT]; /* of slices: not used */
    uint32_t windows;
    uint32_t level;       /* one of 2^level windows is kept */
    int64_t least;        /* ns that a window lasts at least */
    int64_t opens;        /* when the next one begins */
    int64_t removed;      /* slices */
    int64_t clean, until; /* slices between windows are removed from `clean` to `until`; 0: none */
    col_flag thinning, dirty;
};

/* A process of the run: one row of the table `process`. */
struct col_process {
    int64_t id; /* row */
    int64_t rank, parent_pid, start, end, exit_status;
    int64_t lost;         /* events, by the counts of its agent */
    uint64_t start_ticks; /* 0: not known */
    int32_t pid;
    col_flag dirty, gone; /* gone: it has ended */
    col_flag has_pool;
    col_flag awaited; /* another tacho waits for it and will report how it ended */
    col_flag resumed; /* the saved state of its pool has been loaded */
    char program[128];
    char ended[96];
};

/* An open push/pop range, or a start/end range of which one end has been read. */
struct col_range {
    int64_t start; /* absent: only its END has been read */
    int64_t end;   /* of a range of which only the END has been read; else absent */
    int64_t child; /* time covered by ranges nested in it */
    int64_t slice; /* row, 0 = not written yet */
    int64_t name, category, detail, correlation;
    int64_t step;   /* its index if it is a step, else absent */
    uint64_t id;    /* NVTX id of a start/end range */
    uint64_t round; /* in which its END was read */
    uint8_t domain, depth;
    col_flag dirty; /* start/end: changed since it was saved */
    col_flag saved; /* start/end: it has a row of live state */
    col_flag comm;  /* start/end: a collective, on the track of these */
};

struct col_thread {
    uint32_t ordinal, tid;
    int64_t track;
    uint64_t chain;    /* chain_seq of the segment being read */
    int32_t segment;   /* its index, -1 = not seen yet */
    uint32_t position; /* bytes of it decoded */
    struct col_range *stack;
    uint32_t depth, cap;
    bool dirty, has_step, saved;
    bool waits; /* its next segment was missing in the last round */
};

struct col_segment {
    uint64_t generation; /* of the use that the fields below are about */
    uint32_t position;   /* bytes of it that are decoded */
    uint32_t saved;      /* bytes of it that the file knows about */
    bool done;           /* read to its end, on its way to FREE */
    /* The agent has it, and since then the line says what it said at the first look: a line that
     * the target overwrites later changes nothing. */
    bool held;
    bool reported; /* a loss row says that its line was overwritten */
    /* `position` was reached by the recorder before this one, which may have ended the thread */
    bool restored;
    bool suspect; /* in the last round its line said that it was used and is free, unread */
    uint32_t thread, tid;
    uint64_t chain;
    /* noted at the start of a round */
    uint32_t state, committed;
    bool last;
};

struct col_counter {
    uint32_t arena;
    int64_t track;
};

struct col_pool {
    char name[COL_POOL_NAME];
    uint64_t number; /* no other pool of this drain has had it */
    struct col_map map;
    struct col_process *process;
    struct col_segment *segment; /* map.segment_cap */
    uint32_t *touched;           /* segments read since the last commit */
    uint32_t touched_count;
    struct col_thread **thread; /* by ordinal */
    uint32_t thread_cap;
    int64_t *string; /* arena id -> string id, 0 = not yet */
    uint64_t string_cap;
    int8_t is_nccl[WIRE_DOMAINS]; /* 1 or -1; 0 = not known yet */
    int64_t domain[WIRE_DOMAINS]; /* category of events without NVTX category, 0 = not yet */
    struct {
        uint64_t key; /* domain << 32 | arena id of the category's name */
        int64_t category;
    } category[16];
    struct col_schema **schema; /* parsed, by order of use */
    uint32_t *schema_arena;
    uint32_t schema_count;
    struct col_counter *counter;
    uint32_t counter_count;
    int64_t range_track;     /* 0 = none yet */
    int64_t comm_track;      /* of collectives; 0 = none yet */
    struct col_range *range; /* open start/end ranges, hashed by id */
    uint32_t range_count, range_slots;
    bool range_dirty;
    struct col_steps steps;
    struct col_gpu *gpu;            /* device work (gpu.h); NULL: none so far */
    uint64_t loss[WIRE_LOSS_COUNT]; /* counts that the file has */
    int64_t losses_read;            /* when the look at them began, 0 = not yet */
    int64_t last_event;             /* time of the newest record read, 0 = none */
    int64_t look_began, look_ended; /* the last one at header and directory */
    /* Between these lies the time of every record. earliest 0: the time of creation is damaged. */
    int64_t earliest, latest;
    bool dirty, gone, drained;
    bool losses_damaged; /* the counts of losses are less than their sum: the file says so */
    bool postponed;      /* its device work cannot be opened for the moment */
    bool saved_drained;  /* the file has its state as read to its end */
};

struct col_stats {
    int64_t records, slices, counters, steps, lost, cut, threads;
    int64_t uncounted; /* times that events were lost whose number is not known */
    int64_t ranges_without_end, ends_without_start;
    int64_t last_event; /* time of the newest record */
};

struct col_payload_cache;

/* Slices that are not stored on purpose. name, text of the loss row */
#define COL_CUT_MAP(X) \
    X(WINDOW, "slice not stored: outside of --steps or --every") \
    X(SIZE, "slice or counter sample not stored: file at --max-size") \
    X(SPACE, "slice or counter sample not stored: no space left on the disk of the file") \
    X(DETAIL, "payload of a range not stored: file beyond --max-size, or no space left on its " \
              "disk") \
    X(STEP, "step not stored: file at --max-size")
enum col_cut {
#define COL_CUT_ENUM(name, text) COL_CUT_##name,
    COL_CUT_MAP(COL_CUT_ENUM)
#undef COL_CUT_ENUM
        COL_CUT_COUNT
};

struct col_drain {
    store *db;
    int folder; /* segments, -1 = gone */
    struct col_clock clock;
    struct col_anchor stored[2]; /* the last two that are in the file */
    struct col_volume volume;
    struct col_room room;
    struct col_stats stats;
    struct col_pool **pool;
    uint32_t pool_count;
    uint64_t pools_opened;
    struct col_process **process;
    uint32_t process_count;
    int32_t companion; /* runs beside the target and is no part of the run; 0: none */
    struct col_payload_cache *cache;
    struct col_buffer scratch;
    struct col_buffer piece; /* of a segment, while it is decoded */
    uint64_t round;
    uint64_t bytes_since_commit;
    uint32_t waiting; /* pools that could not be opened in the last round, and may be later */
    bool unfinished;  /* the last round stopped at COL_COMMIT_BYTES and the next one continues it */
    int64_t last_commit, last_anchor; /* monotonic */
    struct {
        int64_t count, first, last; /* since the last commit */
    } cut[COL_CUT_COUNT];
    char host[128];
    bool in_transaction;
    /* Taken over from a collector that died: a process ended at about its last record. */
    bool taken_over;
    bool other_boot; /* recorded before the last boot: no clock anchors can be taken */
    struct {
        struct col_pool *pool;
        uint32_t segment;
    } * release; /* FULL segments read to their end since the last commit */
    uint32_t release_count, release_cap;
};

/* ---- drain.c ----------------------------------------------------------------------------------------------------------- */

/* Starts on an open store. `folder` is a descriptor of the folder of the pools, which stays the
 * caller's, or -1 if it no longer exists. */
int col_drain_open(struct col_drain *drain, store *db, int folder, struct tacho_error *err);
void col_drain_close(struct col_drain *drain);

/* One round, or the next part of one that is too long for one transaction. *more: another one
 * should follow at once, after a commit. */
int col_drain_round(struct col_drain *drain, bool *more);
/* Stores live state, commits, gives segments back. */
int col_drain_commit(struct col_drain *drain);
/* Everything that is left: closes chains, writes all steps. The run has ended. */
int col_drain_end(struct col_drain *drain);
/* Forgets pools whose process has ended and that are read to their end, and removes their files.
 * Call after a commit. */
int col_drain_reap(struct col_drain *drain);
/* Is any process with a pool alive? */
int col_drain_alive(const struct col_drain *drain);

/* ---- processes.c: processes and their pools ------------------------------------------------------------------------------- */

/* Opens a pool by name; `known` as for col_map_open. Adds a thread to a pool. */
int col_drain_pool(struct col_drain *drain, const char *name, const struct col_layout *known,
                   struct col_pool **out);
int col_add_thread(struct col_pool *pool, uint32_t ordinal, struct col_thread **out);
void col_pool_free(struct col_pool *pool);
void col_thread_free(struct col_thread *thread);

/* Appends a process to the list of those that the drain knows. */
int col_process_append(struct col_drain *drain, const struct col_process *from,
                       struct col_process **out);
/* Adds a process that has no pool yet to the store. start: no later than its first instruction.
 * program may be NULL. */
int col_drain_process(struct col_drain *drain, int32_t pid, int64_t start, const char *program,
                      struct col_process **out);
/* The latest row of a process, NULL: none. */
struct col_process *col_process_of(const struct col_drain *drain, int32_t pid);
/* Notes how a process ended; status as of waitid, or STORE_ABSENT. */
void col_process_ended(struct col_process *process, int64_t end, int64_t exit_status,
                       const char *ended);
void col_process_row(const struct col_drain *drain, const struct col_process *process,
                     struct store_process *row);
/* Opens the pools that have appeared, lower numbers of a pid first (a later one means exec). */
int col_pools_scan(struct col_drain *drain);
/* Has the process of this pool ended? Asked before its segments are looked at, so that nothing can
 * be recorded after the answer. */
void col_pool_check_gone(struct col_drain *drain, struct col_pool *pool);

/* ---- chains.c: threads and their segments --------------------------------------------------------------------------------- */

/* Notes how far each segment of a pool is written, and which thread continues in it. */
int col_chains_note(struct col_drain *drain, struct col_pool *pool);
/* Reads the threads that have (or have not) steps up to what was noted, or until COL_COMMIT_BYTES
 * are read. */
int col_chains_read(struct col_drain *drain, struct col_pool *pool, bool with_steps);
/* The process is gone and everything noted is read, or the pool was cut short: nothing more can
 * come. */
int col_chains_finish(struct col_drain *drain, struct col_pool *pool);

/* ---- volume.c ---------------------------------------------------------------------------------------------------------- */

/* Records in one transaction: less than COL_COMMIT_BYTES for a small file. */
uint32_t col_commit_bytes(const struct col_drain *drain);
/* Has the WAL half of its share of --max-size because another process reads an older state of the
 * file? What is recorded then waits in the pools, where it is counted when it does not fit, for at
 * most some seconds. To be asked outside of a transaction. */
bool col_volume_held(struct col_drain *drain);
/* Keeps the file below --max-size: opens and closes windows of full detail and thins older rows, in
 * the open transaction. `whole`: a round has ended, so a window may begin or end. */
int col_volume_turn(struct col_drain *drain, bool whole);
/* A step ended that took so long, ns: of windows of which some have to go, the one with the slowest
 * step stays. */
void col_volume_step(struct col_drain *drain, int64_t duration);

/* ---- decode.c ---------------------------------------------------------------------------------------------------------- */

int col_decode_open(struct col_drain *drain); /* allocates the cache of payloads */
/* Decodes whole records in [from, to). A damaged record is left out, and all up to the next place
 * where records follow each other again. Returns 0 or a store error. */
int col_decode(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
               const uint8_t *from, const uint8_t *to);
/* Writes a row for every open range that has none: push/pop of a thread, start/end of a pool. */
int col_decode_materialise(struct col_drain *drain, struct col_pool *pool,
                           struct col_thread *thread);
int col_decode_materialise_ranges(struct col_drain *drain, struct col_pool *pool);
/* The table of open start/end ranges: adds one; removes the saved state of one. */
int col_range_put(struct col_pool *pool, const struct col_range *range);
int col_range_forget(struct col_drain *drain, struct col_pool *pool, uint64_t id);
/* Drops ENDs that have waited for their START for more than two rounds: it was lost. */
int col_range_expire(struct col_drain *drain, struct col_pool *pool);

/* ---- rows.c -------------------------------------------------------------------------------------------------------------- */

/* Opens a transaction if none is open. */
int col_drain_begin(struct col_drain *drain);
/* Adds a loss row: what was lost, how many of it and between which times. Each number may be
 * STORE_ABSENT; col_drain_loss_uncounted is for losses of which all three are. */
int col_drain_loss(struct col_drain *drain, const char *source, const char *reason, int64_t count,
                   int64_t first, int64_t last);
int col_drain_loss_uncounted(struct col_drain *drain, const char *source, const char *reason);
/* Adds such a row of the collector for events of a pool. The same reason makes one row. */
int col_drain_lose(struct col_drain *drain, const char *reason);
/* Writes run keys; after an error the rest does nothing. A value of NULL removes the key. */
struct col_keys {
    store *db;
    int rc;
};
void col_key_text(struct col_keys *keys, const char *name, const char *value);
void col_key_int(struct col_keys *keys, const char *name, int64_t value);
/* Adds a counter track unless *track has one (0: not yet). process and device may be absent. */
int col_counter_track(struct col_drain *drain, int64_t process, const char *name, const char *unit,
                      const char *device, int64_t *track);
int col_add_counter(struct col_drain *drain, int64_t track, int64_t time, double value);
/* Is detail of this step (absent: outside of steps) kept? *why says by what it is cut; may be NULL.
 */
bool col_keeps_detail(const struct col_drain *drain, int64_t step, enum col_cut *why);
/* May a sample of a counter be stored? Counts it as cut where not. Samples are kept between windows
 * of detail too. */
bool col_has_room_for_sample(struct col_drain *drain, int64_t time);
/* Time of a pool's clock in ns. */
int64_t col_pool_time(const struct col_drain *drain, const struct col_pool *pool, uint64_t time);

/* ---- restore.c --------------------------------------------------------------------------------------------------------- */

int col_save_thread(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                    bool ended);
int col_save_pool(struct col_drain *drain, struct col_pool *pool);
int col_save_ranges(struct col_drain *drain, struct col_pool *pool);
int col_save_process(struct col_drain *drain, struct col_process *process);
int col_save_totals(struct col_drain *drain);
int col_save_anchors(struct col_drain *drain);
int col_forget_pool(struct col_drain *drain, struct col_pool *pool);
/* Loads what the file's last commit says. Call once, after col_drain_open. `run` names the run in
 * messages. */
int col_drain_load(struct col_drain *drain, const char *run, struct tacho_error *err);

#endif
