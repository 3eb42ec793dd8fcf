/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/workers/: the operations of a timeline between reading and writing.
 */
#ifndef STORE_IMPORT_WORKERS_WORKERS_PRIVATE_H
#define STORE_IMPORT_WORKERS_WORKERS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/import/input/importer.h"

/* A file of so many operations or threads is not read: 48 bytes each. */
#define WORKERS_OPS_MOST     (16u << 20)
#define WORKERS_THREADS_MOST (1u << 20)
/* Numbers of places, micro-batches and steps above these are no numbers of a job. */
#define WORKERS_PLACE_MOST    (1 << 18)
#define WORKERS_SEQUENCE_MOST (1 << 20)
#define WORKERS_STEP_MOST     (1ll << 36)

/* With whom an operation communicates. */
enum workers_with {
    WITH_NOBODY,
    WITH_NEXT,     /* stage of the pipeline */
    WITH_PREVIOUS, /* stage of the pipeline */
    WITH_ENDS,     /* the first and the last stage of the same data-parallel rank */
    WITH_TENSOR,   /* the tensor-parallel ranks of the same stage and data-parallel rank */
    WITH_PEERS,    /* the workers of the same stage */
    WITH_ALL,
};

/* One kind of operation. */
struct workers_kind {
    const char *name;
    enum workers_with with;
    const char *collective; /* NULL: no communication */
    const char *pass;       /* of work; NULL: none */
    int channel;            /* calls of one channel and place belong together; 0: none */
};
extern const struct workers_kind workers_kinds[];
extern const size_t workers_kind_count;

/* A thread of the timeline: a stream of a worker. */
struct workers_thread {
    int64_t pid, tid; /* pid: the data-parallel rank */
    int32_t stage, tensor;
};

struct workers_op {
    int64_t start, dur; /* ns */
    int64_t pid, tid;   /* worker: an index, once it is known */
    int64_t step;
    int32_t sequence; /* among the operations of its kind in the step */
    int32_t kind;     /* index into workers_kinds */
};

struct workers_timeline {
    struct workers_op *op;
    size_t op_count, op_room;
    struct workers_thread *thread;
    size_t thread_count, thread_room;
    int64_t malformed, unknown, negative; /* events that are left out; durations below 0 */
};

/* Writes the workers, their steps and operations. 0 or a TACHO_E* code. */
int workers_write(struct imp_run *run, struct workers_timeline *timeline);

#endif
