/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: a run in memory. Large tables are columns (one array a field), small ones
 * are rows.
 *
 * Ids of the file become indexes (string, detail, track, process); what a row refers to and the
 * file does not hold is AN_NONE. Slices are sorted by track (track.slice_first, track.slice_count),
 * then by start, of equal starts the longer first, so that a range comes before the ranges nested
 * in it. `parent` is the innermost range of the same track that was open at the start. Kinds of
 * tracks where ranges may overlap freely ("range", loaders of imported files) have parents all the
 * same: they are only used on threads. Cost: 40 bytes a slice when loaded (start 8, dur 8,
 * correlation 8, name 4, category 4, detail 4, parent 4), 56 at the peak of loading. Times: ns as
 * in the file. Damaged times are kept inside int64; what was odd is counted in `odd`.
 */
#ifndef ANALYZERS_TRACE_H
#define ANALYZERS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/result/options.h"
#include "store/store.h"
#include "tacho_error.h"

#define AN_NONE UINT32_MAX
#define AN_OPEN ((int64_t)-1) /* dur of a slice whose end is not in the file */
/* Walks over parents stop here: deeper nesting is damage, and must not cost n * n. */
#define AN_DEPTH_MAX 256

/* What a range is, by the schema and kind of its payload. */
enum an_role {
    AN_ROLE_NONE, /* no payload, or one that says nothing */
    AN_ROLE_WORK,
    AN_ROLE_COMM,
    AN_ROLE_STEP,
    AN_ROLE_MICRO_STEP,
    AN_ROLE_INPUT_WAIT,
    AN_ROLE_READ,
    AN_ROLE_DECODE,
    AN_ROLE_COLLATE,
    AN_ROLE_QUEUE_WAIT,
    AN_ROLE_PIN,
    AN_ROLE_COMM_WAIT,
    AN_ROLE_COMM_POST,
    AN_ROLE_CHECKPOINT,
    AN_ROLE_EVALUATION,
    AN_ROLE_COMPILE,
    AN_ROLE_HOST,
    AN_ROLE_COUNT
};

/* Is it a stage of a loader, or the wait for one? */
static inline bool an_role_is_input(enum an_role role)
{
    return role >= AN_ROLE_INPUT_WAIT && role <= AN_ROLE_PIN;
}

struct an_detail {
    /* STORE_ABSENT = not known. */
    int64_t flops, bytes_read, bytes_written, model_flops, palm_flops, bytes, samples;
    int64_t communicator, ranks;
    const char *dtype, *pass, *kind, *schema;                    /* never NULL, "" = none */
    const char *collective, *copy_kind, *grid, *block, *payload; /* the same */
    enum an_role role;
    /* Matrix, attention or convolution work, or of a kind that was not said: counts as hardware
     * FLOPs. */
    bool hardware;
    bool paused; /* a step whose parts were not recorded */
};

struct an_process {
    int64_t id, rank, pid, parent, start, end,
        exit_status;                             /* parent: pid of the process that started it */
    int64_t lost;                                /* events that are missing; 0: none known */
    const char *host, *device, *program, *ended; /* never NULL */
    uint32_t first_track;                        /* AN_NONE: none */
};

struct an_track {
    int64_t id;
    uint32_t process;
    uint32_t next;                           /* track of this process; AN_NONE: the last one */
    int64_t tid;                             /* STORE_ABSENT: none */
    const char *kind, *name, *unit, *device; /* never NULL */
    size_t slice_first, slice_count, counter_first, counter_count;
};

struct an_slices {
    size_t count;
    int64_t *start, *dur;
    uint32_t *name, *category, *detail, *parent;
    int64_t *correlation; /* STORE_ABSENT: none */
};

struct an_counters {
    size_t count;
    int64_t *time;
    double *value;
};

struct an_aggregates {
    size_t count;
    uint32_t *process, *track, *name, *category, *detail;
    int64_t *step, *calls, *total, *self; /* step: the step's index */
    int64_t *steps;                       /* how many steps the row covers, from that one on */
};

/* Call stacks, and how many samples of the CPU time ended in each, over all threads: index = id in
 * the file - 1, a parent comes before its children. */
struct an_stacks {
    size_t count;
    uint32_t *frame, *parent; /* string; AN_NONE: the outermost */
    int64_t *samples;         /* that ended in it */
    int64_t all;              /* samples, those without a stack too */
};

/* Looks at the Python frames of a thread, in the order in which they were written: by time for each
 * thread. The unit of the track is the state of the thread: "running", "runnable", "asleep". */
struct an_python_looks {
    size_t count;
    uint32_t *track, *stack; /* stack: index of an_stacks */
    int64_t *time;
};

struct an_step_row {
    uint32_t process;
    bool paused;
    int64_t index, start, end, tokens, samples; /* end absent: STORE_ABSENT */
};

struct an_loss_row {
    const char *source, *reason;
    int64_t count, t0, t1;
};

/* Each operator is compared with all of them. A calibration writes some hundreds. */
#define AN_CEILINGS_MOST 4096

struct an_ceiling_row {
    const char *device, *resource, *dtype, *source;
    double value;
};

struct an_run_key {
    const char *key, *value;
};

/* What the kernel said of the target when it ended (metric "target.NAME" of the file); NAN = it did
 * not. Of the command itself and of those of its descendants that were waited for. */
struct an_ended {
    double max_rss, minor_faults, major_faults, voluntary_switches, involuntary_switches;
};

struct an_trace {
    const char **string; /* string[AN_NONE] is not one: use an_trace_name */
    size_t string_count;
    struct an_detail *detail;
    size_t detail_count;
    struct an_process *process;
    size_t process_count;
    struct an_track *track;
    size_t track_count;
    uint32_t first_unowned; /* track without a process; AN_NONE: none */
    struct an_slices slice;
    struct an_counters counter;
    struct an_aggregates aggregate;
    struct an_stacks stack;
    struct an_python_looks python;
    struct an_step_row *step;
    size_t step_count;
    struct an_loss_row *loss;
    size_t loss_count;
    struct an_ceiling_row *ceiling;
    size_t ceiling_count, ceilings_beyond; /* not read: more than AN_CEILINGS_MOST */
    struct an_run_key *key;                /* sorted by key */
    size_t key_count;
    struct an_ended ended;
    int64_t t0, t1; /* first and last time of slices, steps, counters, processes; t1 < t0 = none */
    size_t open;    /* slices without an end */
    /* Rows of slice that are inferred from times (trace_waits.c), not in the file. */
    size_t inferred;
    size_t odd;     /* rows with times that cannot be: negative durations, ends before starts */
    size_t orphans; /* rows that name a track the file does not hold; they are excluded */
    /* Enum an_role by index of string, for ranges without a payload; NULL: tacho's own
     * recording. */
    uint8_t *name_role;
    /* What a call of the API by this name does, kept for an_slice_api (device.c). */
    uint8_t *name_api;
    struct an_arena *arena;  /* texts */
    struct an_arena *beside; /* texts of what another thread has read; NULL: nothing */
};

/* Loads a run. The tables that others refer to are read last, so that the references of a growing
 * file resolve. */
int an_trace_load(store_reader *reader, struct an_trace **out, struct tacho_error *err);
/* The same for the part of it that trace_part.h chose; NULL: all. */
struct an_trace_part;
int an_trace_load_part(store_reader *reader, const struct an_trace_part *part,
                       struct an_trace **out, struct tacho_error *err);
void an_trace_free(struct an_trace *trace); /* NULL is fine */

/* The tracks of a process (AN_NONE: those without one) in their order; `index` is that of the
 * track.
 */
#define AN_EACH_TRACK(trace, owner, index) \
    for (uint32_t index = (owner) == AN_NONE ? (trace)->first_unowned \
                                             : (trace)->process[owner].first_track; \
         (index) != AN_NONE; (index) = (trace)->track[index].next)

/* Text of a string index, "" for AN_NONE. */
const char *an_trace_name(const struct an_trace *trace, uint32_t name);
/* Does any name or other string of the file begin with `prefix`? A run has few strings and millions
 * of slices: ask before looking for slices of such names. */
bool an_trace_has_name(const struct an_trace *trace, const char *prefix);
/* Detail of a slice or NULL. */
const struct an_detail *an_trace_detail(const struct an_trace *trace, uint32_t detail);
enum an_role an_trace_role(const struct an_trace *trace, uint32_t detail);
/* Role of a range on a thread: its payload's; in traces of other tools, else by its name
 * (roles.c). */
enum an_role an_slice_role(const struct an_trace *trace, size_t slice);

/* The number that an operator shares with its backward; STORE_ABSENT: none. The correlation of a
 * range with tacho.work is that of its operands. */
int64_t an_slice_sequence(const struct an_trace *trace, size_t slice);
/* Is a slice inferred (trace_waits.c) rather than in the file? Inferred slices have the last string
 * as their name. */
static inline bool an_slice_inferred(const struct an_trace *trace, size_t slice)
{
    return trace->inferred && trace->slice.name[slice] == trace->string_count - 1;
}
/* Value of a run key or NULL. */
const char *an_trace_key(const struct an_trace *trace, const char *key);
/* Reads a run key that is an integer and nothing else; false: it is not there, or no integer. */
bool an_trace_key_integer(const struct an_trace *trace, const char *key, int64_t *value);
/* The last value of a counter of that name, of the first process that has one; 0: there is none. */
double an_trace_last_value(const struct an_trace *trace, const char *counter);
/* Was the file imported from a trace of another tool? Else tacho recorded it. */
bool an_trace_imported(const struct an_trace *trace);
/* Was the file imported from this format ("kineto", "nsight", ...)? */
bool an_trace_from(const struct an_trace *trace, const char *format);
/* Process of an index, NULL for AN_NONE. */
static inline const struct an_process *an_trace_process(const struct an_trace *trace,
                                                        uint32_t process)
{
    return process != AN_NONE ? &trace->process[process] : NULL;
}
/* End of a slice; an open one ends where the run ends. */
int64_t an_slice_end(const struct an_trace *trace, size_t slice);
/* Is an ancestor of a range still open when the range begins? In foreign traces it need not be: a
 * frame of Python may begin in one step and hold the next. */
static inline bool an_slice_open_at(const struct an_trace *trace, size_t ancestor, size_t slice)
{
    return ancestor == slice || an_slice_end(trace, ancestor) > trace->slice.start[slice];
}
/* The index after the last slice, and after the last counter value, of a track. */
static inline size_t an_track_end(const struct an_track *track)
{
    return track->slice_first + track->slice_count;
}
static inline size_t an_counter_end(const struct an_track *track)
{
    return track->counter_first + track->counter_count;
}
/* First slice of a track that starts at or after `time`: an index into the slice columns. */
size_t an_slice_seek(const struct an_trace *trace, const struct an_track *track, int64_t time);

/* Track of a slice: an index. */
uint32_t an_slice_track(const struct an_trace *trace, size_t slice);

/* Private to the loader: fills t->name_role, makes t->name_api (roles.c). */
int an_trace_name_roles(struct an_trace *trace);
/* Private to the loader (trace.c, trace_index.c): sorts the slices by track and start and finds
 * their parents. `track` is the column of track indexes; rows with AN_NONE are dropped. */
int an_trace_order(struct an_trace *trace, uint32_t *track);
int an_trace_order_counters(struct an_trace *trace, uint32_t *track);
int an_trace_waits(struct an_trace *trace); /* adds the waits for gloo that a trace of
                                           torch.profiler shows (trace_waits.c) */
/* Appends the ceilings that the file lacks from a calibration of the same CPU model and number of
 * cores; texts stay the calibration's. *added: how many. 0 or TACHO_ENOMEM. */
int an_trace_add_ceilings(struct an_trace *trace, const struct an_calibration *calibration,
                          size_t *added);
/* Sorts the run keys, so that an_trace_key can search them. */
void an_trace_order_keys(struct an_trace *trace);

/* What people call a track: its own name (with its process, where a thread of another process of
 * the rank has the same), else its kind and number. In `arena`. */
const char *an_track_name(const struct an_trace *trace, struct an_arena *arena,
                          const struct an_track *track);

#endif
