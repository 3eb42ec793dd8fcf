/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: device work of a process: the file gpu.PID.N beside its pool (profiler/wire.h), read in
 * the same rounds and committed in the same transactions.
 *
 * gpu.c the file, its buffers, states and losses · gpu_rows.c records to rows (docs/schema.md) ·
 * gpu_clock.c CUPTI's time · cupti.c records taken apart
 */
#ifndef COL_GPU_H
#define COL_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/pool/cupti.h"
#include "profiler/wire.h"

/* ---- clock ---- */

/* CUPTI's clock to CLOCK_MONOTONIC, piecewise linear between anchors. Somebody may change CUPTI's
 * clock in the middle (Kineto makes it the raw TSC): where rate or direction break, a new era
 * begins, and a time belongs to the era in whose range it is.
 */
#define COL_GPU_ERAS 16u
struct col_gpu_clock {
    int64_t cupti[WIRE_GPU_ANCHORS], monotonic[WIRE_GPU_ANCHORS];
    uint32_t count;                   /* kept, oldest first */
    uint32_t seen;                    /* anchors taken over from the file so far */
    uint32_t era[COL_GPU_ERAS], eras; /* indexes where eras begin */
};
void col_gpu_clock_read(struct col_gpu_clock *clock, const struct wire_gpu *gpu);
/* One anchor; they come in order. */
void col_gpu_clock_add(struct col_gpu_clock *clock, int64_t cupti, int64_t monotonic);
/* STORE_ABSENT without an anchor. */
int64_t col_gpu_clock_ns(const struct col_gpu_clock *clock, uint64_t time);

/* ---- a process's device work ---- */

struct col_gpu_stream {
    int64_t device, stream; /* stream absent: rows of the device as a whole */
    int64_t track;
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

/* The last records of each event, to say which one a wait waits for. */
#define COL_GPU_EVENTS 4096u /* hashed; the older one gives way */
struct col_gpu_event {
    int64_t context, event, record, stream, correlation;
};

struct col_gpu {
    char name[COL_POOL_NAME];
    struct wire_gpu *head; /* the mapped file */
    struct wire_buffer *directory;
    const struct wire_gpu_name *names;
    uint8_t *buffers;
    uint64_t file_bytes;
    uint32_t buffer_bytes, buffer_cap, name_cap;
    uint32_t bytes[COL_CUPTI_KINDS];
    struct col_gpu_clock clock;
    uint64_t *read; /* by buffer: the generation that is in the file already */
    struct {
        uint32_t buffer;
        uint64_t sequence;
    } * todo; /* of this round, by sequence */
    uint32_t todo_count, todo_at;
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
    uint32_t gaps_told; /* gaps whose end is in the file */
    bool told_state, dirty, salvaged;
};

/* Notes which buffers are to be read, and opens the file once it is there. */
int col_gpu_note(struct col_drain *drain, struct col_pool *pool);
/* Reads them, until COL_COMMIT_BYTES are read (d->unfinished). */
int col_gpu_read(struct col_drain *drain, struct col_pool *pool);
/* The process is gone and everything noted is read: what CUPTI still held, and how recording ended.
 */
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
/* Track of a thread that device calls were recorded on, 0 = none. */
int64_t col_gpu_thread_track(const struct col_pool *pool, uint32_t tid);
/* A thread with ranges has ended; records of its device calls may still come, and belong on its
 * track. 0 or TACHO_ENOMEM. */
int col_gpu_thread_ended(struct col_pool *pool, int64_t tid, int64_t track);

/* ---- gpu_rows.c ---- */

/* One record. `salvaged`: from a buffer that CUPTI had not given back. 0 or a store error. */
int col_gpu_row(struct col_drain *drain, struct col_pool *pool,
                const struct col_cupti_record *record, bool salvaged);

/* demangle.c: a C++ name as people know it; NULL: not one, or no demangler on this machine. To be
 * freed. */
char *col_demangle(const char *name);

#endif
