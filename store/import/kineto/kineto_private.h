/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: the state of the Kineto importer's parser thread, shared by
 * kineto_event.c (an event becomes rows), kineto_place.c (processes, tracks, their names),
 * kineto_detail.c (its arguments become a detail) and kineto_meta.c (what is not an
 * event).
 */
#ifndef STORE_IMPORT_KINETO_KINETO_PRIVATE_H
#define STORE_IMPORT_KINETO_KINETO_PRIVATE_H

#include "store/import/kineto/kineto_rows.h"
#include "store/intern.h"

/* What an event is, by its category (kineto_category_find). */
enum kineto_class {
    KINETO_OP,
    KINETO_ANNOTATION,
    KINETO_PYTHON,
    KINETO_RUNTIME,
    KINETO_DRIVER,
    KINETO_OVERHEAD,
    KINETO_INSTANT,
    KINETO_OTHER, /* a category of its own on a host thread */
    KINETO_KERNEL,
    KINETO_MEMCPY,
    KINETO_MEMSET,
    KINETO_SYNC,
    KINETO_GPU_ANNOTATION,
};

/* Losses: key, reason as in the table `loss` */
#define KINETO_LOSS_MAP(X) \
    X(EVENT, "event is not valid JSON") \
    X(TIME, "event has no usable time stamp") \
    X(DUR, "event has no usable duration (kept, its end is open)") \
    X(PHASE, "event of a phase that tacho does not read") \
    X(NO_BEGIN, "end event (ph E) without its begin") \
    X(NO_END, "begin event (ph B) without its end (kept, its end is open)") \
    X(COUNTER, "counter value is not a number") \
    X(TOO_LARGE, "event larger than 16 MiB") \
    X(PARTIAL, "file ends in the middle of an event") \
    X(ENDS, "file ends in the middle") \
    X(BEHIND, "text after the end of the trace: not read") \
    X(DAMAGED, "gzip data damaged: what follows was not read") \
    X(ARGS, "arguments beyond the 128th of an event") \
    X(ARGS_BAD, "argument is not valid JSON") \
    X(META, "run metadata is not valid JSON")

enum kineto_loss {
#define KINETO_LOSS_ENUM(name, reason) KINETO_LOSS_##name,
    KINETO_LOSS_MAP(KINETO_LOSS_ENUM)
#undef KINETO_LOSS_ENUM
        KINETO_LOSS_COUNT
};

/* A process of the file: number 0 is the main one, which device rows belong to. */
struct kineto_process {
    int64_t pid;  /* STORE_ABSENT: not seen yet */
    int64_t rank; /* that its name says, of kineto_find_ranks; STORE_ABSENT: none */
};

struct kineto_track {
    bool device, counter;
    uint32_t process;
    int64_t pid, tid;
    uint32_t text_tid;         /* string number of a tid that is text, KINETO_NONE */
    struct kineto_slice *open; /* ph B events that wait for their end */
    size_t open_count, open_cap;
    int64_t
        last_start;  /* the last operator on it, for the flow arrow that may follow: its start, */
    size_t last_row; /* its row, */
    uint64_t last_batch; /* in this batch */
};

/* thread_name and process_name events, by the pid and tid of the trace */
struct kineto_name {
    int64_t pid, tid;
    bool thread;
    char *text;
};

struct kineto_key {
    uint64_t first, second;
};
struct kineto_table { /* key -> number, 0: not there; open addressing */
    struct kineto_slot {
        struct kineto_key key;
        uint32_t number;
    } * slot;
    size_t count, cap;
};
uint32_t kineto_table_get(const struct kineto_table *table, struct kineto_key key);
int kineto_table_set(struct kineto_table *table, struct kineto_key key,
                     uint32_t number); /* a new key. TACHO_ENOMEM */

struct kineto_run_key {
    char *key, *value;
};

struct kineto {
    const char *path;
    struct kineto_batch *batch;    /* being filled */
    int (*full)(struct kineto *k); /* hands it to the inserter and sets a new one; non-zero stops */
    void *ctx;
    int code; /* TACHO_ENOMEM ... : stops */

    struct store_intern strings; /* text as it stands in the JSON -> number + 1; the store makes one
                                    of differing escapes */
    struct store_intern details; /* key (kineto_detail.c) -> number + 1 */
    struct kineto_text key, scratch, payload;
    struct kineto_table table; /* tracks, processes, names; the top bits of a key say which */
    struct kineto_track *track;
    size_t tracks, track_cap;
    struct kineto_process *process;
    size_t processes, process_cap;
    struct kineto_name *name;
    size_t names, name_cap;
    struct kineto_category_memo {
        char text[32];
        size_t bytes;
        enum kineto_class class;
        uint32_t name;
    } category[64];
    uint64_t batch_serial;
    size_t open_total, launches_elsewhere;

    int unit;                 /* ns of one unit of ts: 1000, or 1; 0: no event seen yet */
    int64_t base, base_final; /* added to times while they are read; what the file says */
    int64_t ts_min, ts_max;   /* of the times in the file */
    bool base_known, base_guessed;
    int decimals;
    int64_t rounded, events, slices, counters, loss[KINETO_LOSS_COUNT];
    int64_t marks; /* slices that say when the profiler ran, and nothing of the program */
    struct kineto_run_key *run;
    size_t runs, run_cap;
    int64_t rank, world; /* STORE_ABSENT */
    char *host;
    struct store_intern unknown_args; /* names of arguments that no rule knows */
};

/* Class of a category, whatever its case; KINETO_OTHER for one that tacho does not know. */
enum kineto_class kineto_category_find(struct kj_span cat);
/* The category in the store; NULL for KINETO_OTHER, which keep their own. */
const char *kineto_class_name(enum kineto_class class);
/* Is it the name of a category that means something in the store? */
bool kineto_category_reserved(struct kj_span cat);
static inline bool kineto_class_is_device(enum kineto_class class)
{
    return class >= KINETO_KERNEL;
}

int kineto_init(struct kineto *kineto, const char *path);
/* Guesses the base of the times, which may come after the last event although times are stored with
 * it. The beginning and the end of a plain file can be read first; the whole file confirms or
 * corrects what they say. */
void kineto_guess_base(struct kineto *kineto, const char *path);
void kineto_clear(struct kineto *kineto);

/* One event becomes rows of the batch. Non-zero: stop (k->code). */
int kineto_event(struct kineto *kineto, const struct kj_event *event);
/* After the last event: begin events without an end, names that came late. */
int kineto_events_done(struct kineto *kineto);
/* A pair of the outer object. */
int kineto_meta(struct kineto *kineto, struct kj_span key, struct kj_span value);
int kineto_run_put(struct kineto *kineto, const char *key, const char *value);

/* Number of a string by its JSON text: a span with quotes, or what is between them. 0 when out of
 * memory (k->code is set). */
uint32_t kineto_string_json(struct kineto *kineto, struct kj_span span);
uint32_t kineto_string_number(struct kineto *kineto, const char *text, size_t bytes);
/* Number of the detail of an event, KINETO_NONE when it has none. */
uint32_t kineto_detail(struct kineto *kineto, const struct kj_event *event, enum kineto_class class,
                       uint32_t name, bool backward);
/* The same detail with pass = backward. */
uint32_t kineto_detail_backward(struct kineto *kineto, uint32_t number, enum kineto_class class);
const struct kj_arg *kineto_arg_of(const struct kj_event *event, enum kineto_arg wanted);
char *kineto_dup(struct kineto *kineto, struct kj_span span); /* decoded, malloc */
int kineto_no_memory(struct kineto *kineto);
/* The number in an argument, STORE_ABSENT when there is none. */
int64_t kineto_int_arg(const struct kj_event *event, enum kineto_arg wanted);
/* Number of the track of an event: of its device and stream, of its host thread; of a counter by
 * name and device. May move k->track. 0 when out of memory (k->code is set). */
uint32_t kineto_track_device(struct kineto *kineto, const struct kj_event *event);
uint32_t kineto_track_host(struct kineto *kineto, const struct kj_event *event);
uint32_t kineto_track_counter(struct kineto *kineto, struct kj_span pid, struct kj_span name,
                              const char *device, const char *unit);
/* Remembers which process a launch came from. */
void kineto_launch_note(struct kineto *kineto, const struct kineto_slice *slice);
/* ph M: names of processes and threads. */
int kineto_metadata(struct kineto *kineto, const struct kj_event *event);
/* The name that a metadata event gave to track i, or NULL. */
const char *kineto_track_name(const struct kineto *kineto, size_t i);
const char *kineto_process_name(const struct kineto *kineto, size_t i);
/* Finds the rank that the name of each process says, or of the pids of its tracks. */
void kineto_find_ranks(struct kineto *kineto);

#endif
