/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: data parallelism. Each rank is a process that a launcher (mpirun) started; all have the
 * same weights and their own share of the samples, and add up their gradients in each step.
 * Everything accepts parallel == NULL and then is one rank.
 *
 * Gradients travel in buckets, in the order in which backward finishes them (lt_context.ready):
 * packed into a buffer of fp32 or bf16 elements, without padding, so that a step sends exactly
 * lt_parameters.trainable elements. With overlap a thread `comm-0` packs, reduces and unpacks full
 * buckets while backward goes on; else the step's thread does it afterwards. With a priority it
 * goes on in the next forward pass, and the first layers' buckets need not wait for the others'.
 * The reduced sums are the same bits on all ranks, in each repetition, and with and without
 * overlap.
 *
 * Ahead of the buckets of a step goes one small message a rank: its loss, its error, the signal it
 * has caught. So all ranks know the mean loss, and stop after the same step, whether one of them
 * failed or caught a signal.
 *
 * Ranges: comm_wait on the step's thread; all_reduce (gradients) and all_gather (messages) with
 * tacho.comm on the thread that is inside MPI. docs/engine.md, "Several ranks".
 */
#ifndef LT_PARALLEL_H
#define LT_PARALLEL_H

#include <signal.h>

#include "libtrain/collectives/board.h"
#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"
#include "libtrain/parallel/buckets.h"
#include "libtrain/parallel/shard.h"
#include "libtrain/train/parallel_mpi.h"

/* Where a slowed rank sleeps: key, in the range of that stage; "" is between forward and backward.
 */
#define LT_SLOW_STAGE_MAP(X) \
    X(BETWEEN, "") \
    X(INPUT, "input") X(FORWARD, "forward") X(BACKWARD, "backward") X(OPTIMIZER, "optimizer")
enum lt_slow_stage {
#define LT_SLOW_STAGE_ENUM(id, key) LT_SLOW_##id,
    LT_SLOW_STAGE_MAP(LT_SLOW_STAGE_ENUM)
#undef LT_SLOW_STAGE_ENUM
        LT_SLOW_STAGE_COUNT
};

struct lt_parallel_config {
    double bucket_bytes; /* of the buffer that travels; 0: all gradients at once */
    int own_messages;    /* buckets travel by messages of the engine's own, not by the library's */
    enum lt_all_reduce all_reduce; /* how, if so */
    int near; /* ranks that count as those of one machine, to `hierarchical`; 0: as it is */
    int overlap;
    /* Over 0: steps end before all buckets are reduced (lt_parallel_early), which go in the order
     * of lt_buckets_prefer with this ratio. */
    double priority;
    int sharded;          /* gradients travel by shard.h; here only the messages of a step do */
    int replicas, stride; /* so many ranks have the same weights, every stride-th; 0: all ranks */
    int slow_rank;        /* sleeps slow_seconds once in each step, in slow_stage; -1: none does */
    double slow_seconds;
    enum lt_slow_stage slow_stage;
    int slow_link;             /* each bucket is sent so many times, at least 1 */
    double link_seconds;       /* that each bucket takes longer */
    struct lt_board_plan plan; /* of a call that is made wrong on purpose */
};

struct lt_parallel;

/* Joins the other ranks. Call before OpenMP is used, from the thread of the steps; the caller
 * closes, also after an error. TACHO_ENOTSUP, TACHO_EUSAGE (slow_rank is no rank), TACHO_ENOMEM
 * with words in *err. */
int lt_parallel_open(struct lt_parallel **out, const struct lt_parallel_config *config,
                     struct tacho_error *err);

/* Other settings for the ranks that are joined; between lt_parallel_detach and lt_parallel_attach.
 */
void lt_parallel_configure(struct lt_parallel *parallel, const struct lt_parallel_config *config);

/* Waits for the other ranks. Accepts NULL. */
void lt_parallel_close(struct lt_parallel *parallel);

int lt_parallel_rank(const struct lt_parallel *parallel);
int lt_parallel_ranks(const struct lt_parallel *parallel);
const struct lt_mpi_place *lt_parallel_place(const struct lt_parallel *parallel);

/* What this rank has sent by messages of the engine's own; nothing while the library reduces. */
struct lt_group_sent lt_parallel_sent(const struct lt_parallel *parallel);

/* All ranks, as collectives of the engine's own see them. */
struct lt_group *lt_parallel_group(struct lt_parallel *parallel);

/* Is overlap both wanted and granted by the library? */
int lt_parallel_overlaps(const struct lt_parallel *parallel);

/* Do steps end before their buckets are reduced? */
int lt_parallel_early(const struct lt_parallel *parallel);

/* OpenMP threads that suit this rank: the cores it may run on, divided among the ranks that share
 * them. */
int lt_parallel_threads(const struct lt_parallel *parallel);

/* All ranks call it with what each has come to; returns 0 when all have 0. Else every rank gets an
 * error: its own if it has one, else that of the lowest rank that has. Words that another rank says
 * already are omitted (err->what is empty). */
int lt_parallel_agree(struct lt_parallel *parallel, int rc, struct tacho_error *err);

/* `count` doubles of each rank, in the order of ranks. all: ranks * count. */
void lt_parallel_gather(struct lt_parallel *parallel, const double *mine, size_t count,
                        double *all);

/* *all = the sum of what each rank has. */
void lt_parallel_add(struct lt_parallel *parallel, const struct lt_exact *mine,
                     struct lt_exact *all);

/* For what is said when a rank dies: a checkpoint of so many steps is there. path is borrowed.
 * Accepts NULL. */
void lt_parallel_saved(struct lt_parallel *parallel, const char *path, int64_t steps);

/* From now on what ranks send each other is written into this rank's file, or (enforce) is to have
 * the order of the file (collectives/order.h). All ranks call it, with what each has come to, and
 * agree: errors of lt_order_record and lt_order_replay. */
int lt_parallel_order(struct lt_parallel *parallel, const char *path, int enforce, int rc,
                      struct tacho_error *err);
/* What this rank sees of something that takes its time beside the steps (a file is written), where
 * ranks do by it what they do; or, where an order is enforced, what it saw then. */
int lt_parallel_answer(struct lt_parallel *parallel, int seen);
/* The run has ended; all ranks call it, with what each has come to, and agree. Errors of
 * lt_order_finish. Where there is no such file it returns rc. */
int lt_parallel_order_end(struct lt_parallel *parallel, int rc, struct tacho_error *err);

/* ---- in the training loop, from the thread of the steps ---------------------------------------------------------------- */

/* The buckets of so many gradients, and their turns; the caller frees, also after TACHO_ENOMEM. */
int lt_parallel_cut(const struct lt_parallel *parallel, size_t trainable, enum lt_dtype dtype,
                    struct lt_buckets *out);

/* Bytes of the buffers that lt_parallel_attach makes for so many gradients; 0 for one rank. */
size_t lt_parallel_buffer_bytes(const struct lt_parallel *parallel, size_t trainable,
                                enum lt_dtype dtype);

/* Before the first step: buffers and the progress thread. `dtype`: what gradients travel as.
 * parameters and trace are borrowed until lt_parallel_detach. TACHO_ENOMEM, TACHO_EINTERNAL with
 * words in *err. */
int lt_parallel_attach(struct lt_parallel *parallel, const struct lt_parameters *parameters,
                       enum lt_dtype dtype, struct lt_trace *trace, struct tacho_error *err);

/* Stops the progress thread; accepts one that was never attached. */
void lt_parallel_detach(struct lt_parallel *parallel);

/* A step begins: calls count from here. Accepts NULL. */
void lt_parallel_step(struct lt_parallel *parallel, int64_t step);

/* In this step ranks say nothing to each other of it: its news are this rank's own, without a
 * signal, and an error of this rank ends the job. Accepts NULL. */
void lt_parallel_quiet(struct lt_parallel *parallel, int quiet);

/* What one rank says of its step, and what all have said. */
struct lt_parallel_status {
    double loss; /* mean; of all ranks: mean of means */
    int code;    /* 0 or a negative code; of all ranks: the first that is not 0, by rank */
    int stop;    /* signal caught; of all ranks: the highest */
};

/* Once a step: when the loss is known, before the last backward; or as soon as the step has failed.
 * Sends the news (at once with overlap). Afterwards backward may call lt_parallel_ready. */
void lt_parallel_send(struct lt_parallel *parallel, const struct lt_parallel_status *mine);

/* Is this rank the one that sleeps in that stage? Accepts NULL. */
int lt_parallel_is_slow(const struct lt_parallel *parallel, enum lt_slow_stage stage);
/* Sleeps if this rank is the slowed one, in that stage. Accepts NULL. */
void lt_parallel_sleep(const struct lt_parallel *parallel, enum lt_slow_stage stage);

/* For lt_context.ready; `parallel` is the argument. Each element once a step, in the same order on
 * all ranks. */
void lt_parallel_ready(void *parallel, size_t first, size_t count);

/* Waits until the news of all ranks are there and, unless one of them has failed, all gradients are
 * summed. rc: what this rank's step has come to; returns it or, if that is 0, the code of another
 * rank, without words. *news: this rank's, as sent; becomes that of all. */
int lt_parallel_finish(struct lt_parallel *parallel, int rc, struct lt_parallel_status *news,
                       struct tacho_error *err);

/* Waits until the news of all ranks are there; returns their first code that is not 0. Then
 * lt_parallel_finish says whose error it is; else gradients may be waited for later: the buckets of
 * the first `turns` turns, or all of them with lt_parallel_finish. */
int lt_parallel_news(struct lt_parallel *parallel, struct lt_parallel_status *news);
void lt_parallel_wait(struct lt_parallel *parallel, size_t turns);
/* Of this step; NULL with one rank. */
const struct lt_buckets *lt_parallel_buckets(const struct lt_parallel *parallel);

/* For an error that all ranks have: leaves the words to rank 0. */
void lt_parallel_silence(const struct lt_parallel *parallel, struct tacho_error *err);

/* Do all ranks that should have the same weights, bit by bit? 0, or TACHO_EINTERNAL on all of them.
 * All ranks call it. */
int lt_parallel_check(struct lt_parallel *parallel, int64_t step, struct tacho_error *err);

#endif
