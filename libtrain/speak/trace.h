/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: what the engine says about itself. Every range goes to NVTX (domain
 * "libtrain", registered names, the payloads of tacho_nvtx.h) for whatever tool is attached, and,
 * if asked for, to timers of the engine's own. The timers read CLOCK_MONOTONIC themselves and share
 * no code with any tool: tests compare the two.
 *
 * Ranges nest per thread; every begin has one end on the same thread. Thread-safe. Without a tool
 * and without timers a range costs two indirect branches.
 */
#ifndef LT_TRACE_H
#define LT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

struct tacho_work;
struct tacho_step;
struct tacho_comm;

/* Ranges other than ops. id, name, role */
#define LT_RANGE_MAP(X) \
    X(STEP, "step", NONE) \
    X(INPUT_WAIT, "input_wait", INPUT_WAIT) \
    X(MICRO_STEP, "micro_step", MICRO_STEP) \
    X(FORWARD, "forward", HOST) \
    X(BACKWARD, "backward", HOST) \
    X(OPTIMIZER, "optimizer", HOST) \
    X(LOG, "log", HOST) \
    X(EVALUATION, "evaluation", EVALUATION) \
    X(CHECKPOINT, "checkpoint", CHECKPOINT) \
    X(READ, "read", READ) \
    X(DECODE, "decode", DECODE) \
    X(AUGMENT, "augment", DECODE) \
    X(COLLATE, "collate", COLLATE) \
    X(QUEUE_WAIT, "queue_wait", QUEUE_WAIT) \
    X(COMM_WAIT, "comm_wait", COMM_WAIT) \
    X(ALL_REDUCE, "all_reduce", NONE) \
    X(ALL_GATHER, "all_gather", NONE) \
    X(REDUCE_SCATTER, "reduce_scatter", NONE) \
    X(SEND, "send", NONE) \
    X(RECV, "recv", NONE) \
    X(ALL_TO_ALL, "all_to_all", NONE) \
    X(REDUCE, "reduce", NONE) \
    X(BROADCAST, "broadcast", NONE) \
    X(PACK, "pack", HOST) \
    X(UNPACK, "unpack", HOST) \
    X(SLEEP, "sleep", HOST) \
    X(SIMULATED_FORWARD, "simulated.forward", NONE) \
    X(SIMULATED_BACKWARD, "simulated.backward", NONE) \
    X(PIN, "pin", PIN) \
    X(COMM_POST, "comm_post", COMM_POST)

#define LT_COUNTER_MAP(X) \
    X(LOSS, "loss") \
    X(EVAL_LOSS, "eval_loss") \
    X(LEARNING_RATE, "learning_rate") \
    X(GRAD_NORM, "grad_norm") \
    X(TOKENS_PER_SECOND, "tokens_per_second") \
    X(QUEUE_DEPTH, "queue_depth") \
    X(SAMPLES_PER_SECOND, "samples_per_second") \
    X(EVAL_ACCURACY, "eval_accuracy") \
    X(MEMORY_PARAMETERS, "memory.parameters") \
    X(MEMORY_GRADIENTS, "memory.gradients") \
    X(MEMORY_OPTIMIZER, "memory.optimizer") \
    X(MEMORY_ACTIVATIONS, "memory.activations") \
    X(MEMORY_WORKSPACE, "memory.workspace") \
    X(MEMORY_LOADER, "memory.loader") \
    X(MEMORY_TOTAL, "memory.total") \
    X(MEMORY_PEAK, "memory.peak") \
    X(STEPS_PLANNED, "steps_planned") \
    X(LOSS_SCALE, "loss_scale") \
    X(OVERFLOWS, "overflows") \
    X(EXPERT_IMBALANCE, "expert_imbalance") \
    X(CHOICES_DROPPED, "choices_dropped") \
    X(BUCKET, "bucket")

#define LT_ENUM_RANGE(id, name, kind) LT_RANGE_##id,
enum lt_range { LT_RANGE_MAP(LT_ENUM_RANGE) LT_RANGE_COUNT };
#undef LT_ENUM_RANGE
#define LT_ENUM_COUNTER(id, name) LT_COUNTER_##id,
enum lt_counter { LT_COUNTER_MAP(LT_ENUM_COUNTER) LT_COUNTER_COUNT };
#undef LT_ENUM_COUNTER

/* Where an instant of a step on the step's thread belongs: the innermost open range decides. */
#define LT_CLASS_MAP(X) \
    X(COMPUTE, "compute") \
    X(INPUT, "input") X(HOST, "host") X(UNATTRIBUTED, "unattributed") X(COMM, "comm")
#define LT_ENUM_CLASS(id, name) LT_CLASS_##id,
enum lt_class { LT_CLASS_MAP(LT_ENUM_CLASS) LT_CLASS_COUNT };
#undef LT_ENUM_CLASS

/* One step as the engine's own clock saw it. The classes sum to wall_ns. */
struct lt_timers_step {
    uint64_t index;
    int64_t wall_ns;
    int64_t class_ns[LT_CLASS_COUNT];
    uint64_t ops;
    uint64_t flops, model_flops, palm_flops; /* sums over the work records of the step */
    uint64_t matrix_flops;                   /* `flops` of matrix and attention work alone */
    uint64_t bytes_read, bytes_written;
};

/* A piece of memory that an operation reads, writes over, or both. */
enum lt_operand_use { LT_OPERAND_READ = 1, LT_OPERAND_WRITTEN = 2 };
struct lt_operand {
    const void *at;
    uint64_t bytes;
    unsigned how; /* bits of enum lt_operand_use */
};
#define LT_OPERANDS_MOST 12 /* of one operation */

struct lt_trace;

/* `op_names`: `ops` static strings, indexed by what lt_trace_op_begin is given. `timers`: keep the
 * engine's own times too. The calling thread becomes the thread of the steps, named "main". The
 * caller frees with lt_trace_destroy. */
int lt_trace_create(struct lt_trace **out, const char *const *op_names, int ops, int timers);

/* Accepts NULL. Every other thread that used the trace must have ended. */
void lt_trace_destroy(struct lt_trace *trace);

/* Names the calling thread ("loader-0") in the timers, for the system and for a tool. `name` is
 * copied (15 characters). */
void lt_trace_thread(struct lt_trace *trace, const char *name);

/* For worker processes; all accept NULL. In a forked child: forget the ranges and times of the
 * parent; the child's first thread starts anew. lt_trace_save leaves the calling thread's times in
 * lt_trace_lane_bytes (0 without timers) of shared memory, from which lt_trace_add puts them among
 * the parent's threads. */
void lt_trace_forked(struct lt_trace *trace);
size_t lt_trace_lane_bytes(const struct lt_trace *trace);
void lt_trace_save(struct lt_trace *trace, void *target);
void lt_trace_add(struct lt_trace *trace, const void *from);

/* Is a tool attached that is told the operands of operations? */
bool lt_trace_wants_operands(const struct lt_trace *trace);

/* All of these accept trace == NULL and then do nothing. `operand`: what the operation reads and
 * writes; none: not said. */
void lt_trace_op_begin(struct lt_trace *trace, int op, const struct tacho_work *work,
                       const struct lt_operand *operand, size_t operands);
void lt_trace_op_end(struct lt_trace *trace);
void lt_trace_begin(struct lt_trace *trace, enum lt_range range, uint64_t bytes, uint64_t samples);
void lt_trace_end(struct lt_trace *trace);
void lt_trace_comm_begin(struct lt_trace *trace, enum lt_range range,
                         const struct tacho_comm *comm); /* lt_trace_end ends it */
/* The same of a call in which each rank has bytes of its own; what watches the calls is not told
 * how many, because there they need not be equal. */
void lt_trace_comm_begin_uneven(struct lt_trace *trace, enum lt_range range,
                                const struct tacho_comm *comm);
/* Work that is no operation. */
void lt_trace_work_begin(struct lt_trace *trace, enum lt_range range,
                         const struct tacho_work *work); /* lt_trace_end ends it */
/* `watch` is called before each of these calls, on its thread; NULL: no more. */
void lt_trace_watch(struct lt_trace *trace, void (*watch)(void *arg, const struct tacho_comm *comm),
                    void *arg);
void lt_trace_step_begin(struct lt_trace *trace, const struct tacho_step *step);
void lt_trace_step_end(struct lt_trace *trace);
void lt_trace_count(struct lt_trace *trace, enum lt_counter counter, double value);

/* A counter whose name is made when the program runs; register once, then count. 0 without a trace.
 */
uint64_t lt_trace_series(struct lt_trace *trace, const char *name);
void lt_trace_value(struct lt_trace *trace, uint64_t series, double value);
/* An empty range of that name, for rare events: the name is registered each time. Not in the
 * timers.
 */
void lt_trace_mark(struct lt_trace *trace, const char *name);

/* The recorded steps, oldest first; owned by the trace, valid until its next range. *count is 0
 * without timers. */
const struct lt_timers_step *lt_trace_steps(const struct lt_trace *trace, size_t *count);

/* Writes the timers as JSON (docs/engine.md has the keys). Call when no other thread uses the
 * trace. TACHO_EIO with words in *err when the file cannot be written. */
int lt_trace_write(const struct lt_trace *trace, const char *path, struct tacho_error *err);

#endif
