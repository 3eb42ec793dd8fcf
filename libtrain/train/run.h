/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/train: a run of lt_train while it is under way, what its steps have in common
 * on the host and on a device, and what the loop asks about its numbers.
 */
#ifndef LT_RUN_H
#define LT_RUN_H

#include "libtrain/parallel/early.h"
#include "libtrain/train/clipping.h"
#include "libtrain/train/train.h"
#include "libtrain/train/watch.h"

#include "libtrain/speak/trace.h"

struct lt_device_steps;

struct run {
    struct lt_model *model;
    const struct lt_part *train, *held_out; /* held_out: NULL when there are no evaluations */
    const struct lt_train_config *config;
    const struct lt_train_hooks *hooks;
    struct lt_context context, evaluation;
    double simulated[LT_PASS_KINDS]; /* of this step */
    struct lt_trace *trace;
    struct lt_loader *loader;
    struct lt_optimizer optimizer;
    double *partial;
    struct lt_early_norm norm; /* not used: after backward in one pass */
    struct lt_memory memory;   /* as last counted */
    int memory_counted;
    uint64_t seed;
    int64_t step;
    struct lt_parallel *parallel;
    struct lt_division division;
    struct lt_local local;
    struct lt_background *background; /* NULL: checkpoints are written at once */
    struct lt_early *early;           /* NULL: a step ends with its update */
    struct {
        int pending, failed; /* a step has ended before its update; what it came to is bad */
        struct lt_progress progress; /* of that step */
        double began, seconds;
        struct lt_update_terms terms;
    } late;
    struct lt_parallel_status news; /* of this rank, then of all */
    struct lt_scaling scaling;
    struct lt_watch *watch; /* NULL: nothing is counted by layer */
    struct lt_batch batch;  /* of the last micro-step */
    enum lt_counter bad;    /* the counter of `bad_value`, where that is not finite */
    double bad_value;
    struct lt_range_test *range; /* NULL: no range test */
    double best;                 /* loss of an evaluation of this run */
    int64_t waited;              /* evaluations since then */
    int enough;                  /* the run ends after this step */
    char origin[96];             /* where the first value that is not finite was written; "" */

    struct lt_device_steps *device; /* NULL: on the host */
    struct lt_progress launched;    /* the last step there, while `waiting` for its result */
    int waiting;
    double since;     /* when the step before it was reported, or it began */
    int64_t launches; /* steps launched */
};

/* CLOCK_MONOTONIC. */
double lt_run_seconds(void);
void lt_run_report(const struct run *run, const struct lt_progress *progress);

/* How the ranks are divided (NULL: they are not), and how many copies of the model they make. */
const struct lt_layout *lt_run_layout(const struct run *run);
int lt_run_replicas(const struct run *run);
/* Ranks that divide each sequence. */
int lt_run_contexts(const struct run *run);

/* Do all ranks that should have the same weights? Errors of lt_parallel_check. */
int lt_run_check_weights(struct run *run, struct tacho_error *err);
/* Writes the state after the step that was just made, or begins to; all ranks call it. */
int lt_run_checkpoint(struct run *run, struct tacho_error *err);
/* Has a checkpoint that is written beside training come to its end (wait: until it has)? Then it is
 * reported. Nothing where none is under way. */
int lt_run_saved(struct run *run, int wait, struct tacho_error *err);

/* The signal that asks this rank to stop, or 0. */
int lt_run_signalled(const struct run *run);
/* Tells the other ranks of this one's step. */
void lt_run_send_status(struct run *run, double loss, int code);

/* What the norm of the gradient needs. TACHO_ENOMEM. */
int lt_run_open_norm(struct run *run);
void lt_run_close_norm(struct run *run);
/* Begins the step: its context, its range; what is known of it before it is made. */
struct lt_progress lt_run_begin_step(struct run *run);
/* Clipping and the optimizer's update, unless the gradient is not finite. Returns its norm before
 * clipping; on a device it is not known yet, and 0 here. */
double lt_run_update(struct run *run, double rate);
/* The state of a run that has not been opened; NULL: no memory. It is no local variable: samplers
 * of call stacks copy a few KiB of each stack, and every stack of a step would be cut off in the
 * frame that holds it. */
struct run *lt_run_new(const struct lt_context *context, const struct lt_train_config *config,
                       const struct lt_train_hooks *hooks);

/* Makes run->early where steps are to end before their buckets are reduced. TACHO_ENOTSUP for what
 * needs all gradients at once; TACHO_ENOMEM. */
int lt_run_open_early(struct run *run, struct tacho_error *err);
/* The passes of this step are made: does it end now? Not where the news of the ranks end the run,
 * or fail it. */
int lt_run_ends_early(struct run *run, const struct lt_progress *progress, double start);
/* The first forward pass of a step updates the parameters of the step before, unit by unit; behind
 * it the rest of that step is waited for, its norm is computed, and it is reported. Nothing where
 * none is pending. Errors of lt_run_judge and lt_parallel_finish, which all ranks have. */
void lt_run_use_late(struct run *run, struct lt_context *context);
int lt_run_settle(struct run *run, struct tacho_error *err);
/* Counters of a step that began at `start`, and a progress line where one is due. */
void lt_run_log(struct run *run, struct lt_progress *progress, double start);

/* Makes the devices of all ranks one group; all ranks call it, with what each has come to. */
int lt_run_join_devices(struct run *run, int rc, struct tacho_error *err);
/* One update on the device. The step before it is reported when this one is on the queue, so that
 * the device is never without work. */
int lt_run_device_step(struct run *run, struct tacho_error *err);
/* Waits for the step that was launched last, and reports it. Nothing where there is none. */
int lt_run_report_launched(struct run *run, struct tacho_error *err);

/* The context of this step's operations: its loss scale, and the fault that is asked for. */
void lt_run_context(struct run *run);
/* The learning rate of this step. */
double lt_run_rate(const struct run *run);
/* Where the first value that is not finite came from. Loss or gradient of the last batch have shown
 * that there is one; the weights are still those it was computed with. A model that is divided
 * among ranks cannot be run again by one of them, one that is updated early has other weights, and
 * one on a device is not looked at: there it stays unknown. */
void lt_run_origin(struct run *run);
/* Ends the run before the update is applied (on a device: after that), and says where it began:
 * TACHO_EUSAGE where the loss of that step is not finite. */
int lt_run_check_loss(struct run *run, const struct lt_progress *progress, struct tacho_error *err);
/* What follows from the norm of the gradient: with a loss scale, another scale; else the end in the
 * same way, if it is not finite. */
int lt_run_judge(struct run *run, const struct lt_progress *progress, struct tacho_error *err);
/* Tells a tool of it, after the step has ended: tools may not record what is inside of some steps.
 */
void lt_run_mark(struct run *run);
/* TACHO_ENOTSUP for what a model that is divided among ranks cannot do, for K-FAC on several ranks,
 * and for a line search where a forward pass of the update's batch does not say what the step has
 * come to. */
int lt_run_check(const struct run *run, struct tacho_error *err);

#endif
