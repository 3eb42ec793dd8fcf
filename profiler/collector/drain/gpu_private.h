/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to drain/: device work of a process, from the file gpu.PID.N beside its pool
 * (profiler/wire.h), read in the same rounds and committed in the same transactions.
 *
 * gpu.c the file and its buffers · gpu_report.c states and losses · gpu_rows.c records to rows
 * (docs/schema.md) · gpu_tracks.c names and tracks · gpu_clock.c CUPTI's time · pool/cupti.c
 * records taken apart
 */
#ifndef COL_GPU_H
#define COL_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/pool/cupti.h"
#include "profiler/wire.h"

/* ---- clock ---- */

/* CUPTI's clock to CLOCK_MONOTONIC, piecewise linear between anchors. Another profiler may change
 * CUPTI's clock during the run (Kineto makes it the raw TSC): where the rate or direction changes,
 * a new era begins. A time belongs to the era in whose range it lies. */
#define COL_GPU_ERAS 16u
struct col_gpu_clock {
    int64_t cupti[WIRE_GPU_ANCHORS], monotonic[WIRE_GPU_ANCHORS];
    uint32_t count;                   /* kept, oldest first */
    uint32_t seen;                    /* anchors taken over from the file so far */
    uint32_t era[COL_GPU_ERAS], eras; /* indexes where eras begin */
    int64_t tsc, tsc_at;              /* a reading of the time stamp counter, and when; 0 = none */
    bool in_ns;                       /* the first era is CUPTI's own clock */
    bool ticks; /* the newest anchor shows that CUPTI's clock is the time stamp counter */
};
void col_gpu_clock_read(struct col_gpu_clock *clock, const struct wire_gpu *gpu);
/* One anchor; they come in order. tsc 0: not known. */
void col_gpu_clock_add(struct col_gpu_clock *clock, int64_t cupti, int64_t monotonic, int64_t tsc);
/* Can the time be converted? An era needs two anchors. 0 is no time, which is known. */
bool col_gpu_clock_knows(const struct col_gpu_clock *clock, uint64_t time);
/* STORE_ABSENT where it cannot. */
int64_t col_gpu_clock_ns(const struct col_gpu_clock *clock, uint64_t time);

/* ---- a process's device work ---- */

struct col_gpu_stream {
    int64_t device, stream; /* stream absent: rows of the device as a whole */
    int64_t track;
    int64_t ops, first; /* while waits were not recorded: ops, and when the first one began */
};

struct col_gpu_thread {
    int64_t tid, track; /* tid absent: overheads that belong to no thread */
};

/* Contexts and streams as CUPTI numbers them. */
struct col_gpu_context {
    int64_t context, device;
};
struct col_gpu_priority {
    int64_t context, stream, priority;
};

/* The last records of each event, to find out which one a wait waits for. */
#define COL_GPU_EVENTS 4096u /* hashed; a newer one replaces an older one */
struct col_gpu_event {
    int64_t context, event, record, stream, correlation;
};

struct col_gpu {
    char name[COL_POOL_NAME];
    struct col_shared file;
    struct wire_gpu head;          /* copied at each look, as is the directory */
    struct wire_buffer *directory; /* buffer_cap lines */
    struct wire_gpu_name *names;   /* copied when the first one is looked up; NULL: not yet */
    uint64_t directory_offset, names_offset, buffers_offset;
    uint32_t buffer_bytes, buffer_cap, name_cap;
    uint32_t bytes[COL_CUPTI_KINDS];
    struct col_gpu_clock clock;
    uint64_t *read; /* by buffer: the generation that the file has already */
    struct {
        uint32_t buffer;
        uint64_t sequence;
    } * pending; /* of this round, by sequence */
    uint32_t pending_count, pending_at;
    uint32_t *release; /* decoded since the last commit */
    uint32_t release_count;
    struct col_gpu_stream *stream;
    uint32_t stream_count;
    struct col_gpu_thread *thread;
    uint32_t thread_count;
    struct col_gpu_context *context;
    uint32_t context_count;
    struct col_gpu_priority *priority;
    uint32_t priority_count;
    struct col_gpu_event *event; /* COL_GPU_EVENTS */
    int64_t *kernel;             /* arena id -> string id of the readable name */
    uint64_t kernel_cap;
    int64_t api[2][WIRE_GPU_APIS];
    int64_t category[16]; /* enum in gpu_rows.c */
    int64_t memory_track, memory;
    uint32_t gaps_reported;                     /* gaps whose end is in the file */
    uint32_t awaited;                           /* how many anchors a buffer waited for last */
    bool ids_reported;                          /* that ids of graph launches are not kept */
    bool waits_reported;                        /* when waits were not recorded */
    int64_t waits_until, waits_from;            /* as far as the run keys say it; 0 = not */
    bool state_reported, dirty, salvaged, lost; /* lost: the file was cut short */
    bool ending;                                /* nothing more will come */
};

/* Notes which buffers are to be read, and opens the file once it is there. */
int col_gpu_note(struct col_drain *drain, struct col_pool *pool);
/* Reads them, until COL_COMMIT_BYTES are read (drain->unfinished). A buffer with a time that cannot
 * be converted yet waits, and so do those after it: for two anchors, or the end of the process. */
int col_gpu_read(struct col_drain *drain, struct col_pool *pool);
/* The process is gone and everything noted is read: reads what CUPTI still held, and reports how
 * recording ended. */
int col_gpu_finish(struct col_drain *drain, struct col_pool *pool);
/* The run ends while the process goes on. */
int col_gpu_stop(struct col_drain *drain, struct col_pool *pool);
/* After a commit: buffers that were read are given back. */
void col_gpu_release(struct col_pool *pool);
/* Live state, for a collector that takes over. */
int col_gpu_save(struct col_drain *drain, struct col_pool *pool);
int col_gpu_load(struct col_drain *drain, struct col_pool *pool, const void *value, size_t bytes);
bool col_gpu_load_position(struct col_drain *drain, const char *name, int64_t buffer,
                           int64_t generation);
int col_gpu_forget(struct col_drain *drain, struct col_pool *pool);
void col_gpu_free(struct col_gpu *gpu);

/* ---- gpu_report.c ---- */

/* How the start of recording went, once that is known. */
int col_gpu_report_state(struct col_drain *drain, struct col_gpu *gpu);
/* What became of the hardware counters that were asked for, once, at the end. */
int col_gpu_report_counters(struct col_drain *drain, const struct wire_gpu *gpu);
/* The times in which another profiler of the process held the device. A gap that lasts is left for
 * later, unless `now` says that nothing more will come. */
int col_gpu_report_gaps(struct col_drain *drain, struct col_gpu *gpu, int64_t now);
/* When waits were not recorded, as run keys, and of that the time, if any, in which more than one
 * stream was in use, as a loss. One that lasts is left for later, unless `now` says that nothing
 * more will come. */
int col_gpu_report_waits(struct col_drain *drain, struct col_pool *pool, int64_t now);

/* ---- gpu_tracks.c: ids are 0 on failure, with *rc set ---- */

/* The arena id of a name as the agent left it; in a buffer that the agent never saw, by the table
 * of pointers. */
uint32_t col_gpu_arena_id(struct col_gpu *gpu, uint64_t name);
int64_t col_gpu_kernel_name(struct col_drain *drain, struct col_pool *pool, uint64_t name, int *rc);
int64_t col_gpu_api_name(struct col_drain *drain, struct col_pool *pool,
                         const struct col_cupti_record *record, int *rc);
/* The track of a stream; stream absent: of the device as a whole. */
int64_t col_gpu_stream_track(struct col_drain *drain, struct col_pool *pool, int64_t device,
                             int64_t stream, int *rc);
/* The track of a thread's device calls: its own, which NVTX may have made already. */
int64_t col_gpu_call_track(struct col_drain *drain, struct col_pool *pool, int64_t tid, int *rc);
int64_t col_gpu_device_of(const struct col_gpu *gpu, int64_t context);
int col_gpu_note_context(struct col_gpu *gpu, int64_t context, int64_t device);
int64_t col_gpu_priority_of(const struct col_gpu *gpu, int64_t context, int64_t stream);
int col_gpu_note_priority(struct col_gpu *gpu, const struct col_cupti_record *record);
/* Track of a thread that device calls were recorded on, 0 = none. */
int64_t col_gpu_thread_track(const struct col_pool *pool, uint32_t tid);
/* A kernel, copy, memset or graph on a stream's track: counted where waits are not recorded. */
void col_gpu_count_op(struct col_gpu *gpu, int64_t track, int64_t start);
/* Remembers the track of a thread that has ended: records of its device calls may still arrive. 0
 * or TACHO_ENOMEM. */
int col_gpu_thread_ended(struct col_pool *pool, int64_t tid, int64_t track);

/* ---- gpu_rows.c ---- */

/* How a record came out of CUPTI: in a buffer with complete records; by a forced flush; in a buffer
 * that CUPTI had not given back when the process ended. It says why an end is missing. */
enum col_gpu_origin { COL_GPU_COMPLETE, COL_GPU_FORCED, COL_GPU_SALVAGED };

/* Writes one record. 0 or a store error. */
int col_gpu_row(struct col_drain *drain, struct col_pool *pool,
                const struct col_cupti_record *record, enum col_gpu_origin origin);

#endif
