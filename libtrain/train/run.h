/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to train.c and numerics.c: a run while it trains, and what the loop asks about its
 * numbers.
 */
#ifndef LT_RUN_H
#define LT_RUN_H

#include "libtrain/train/train.h"
#include "libtrain/train/watch.h"

#include "libtrain/speak/trace.h"

struct run {
    struct lt_model *model;
    const struct lt_part *train, *held_out; /* held_out: NULL when there are no evaluations */
    const struct lt_train_config *config;
    const struct lt_train_hooks *hooks;
    struct lt_context context, evaluation;
    struct lt_trace *trace;
    struct lt_loader *loader;
    struct lt_optimizer optimizer;
    double *partial;
    struct lt_memory memory; /* as last counted */
    int memory_counted;
    uint64_t seed;
    int64_t step;
    struct lt_parallel *parallel;
    struct lt_division division;
    struct lt_parallel_status news; /* of this rank, then of all */
    struct lt_scaling scaling;
    struct lt_watch *watch; /* NULL: nothing is counted by layer */
    struct lt_batch batch;  /* of the last micro-step */
    enum lt_counter bad;    /* the counter of `bad_value`, where that is not finite */
    double bad_value;
    char origin[96]; /* where the first value that is not finite was written; "" */
};

/* The context of this step's operations: its loss scale, and the fault that is asked for. */
void lt_run_context(struct run *run);
/* The learning rate of this step. */
double lt_run_rate(const struct run *run);
/* Where the first value that is not finite came from. Loss or gradient of the last batch have shown
 * that there is one; the weights are still those it was computed with. A model that is divided
 * among ranks cannot be run again by one of them: there it stays unknown. */
void lt_run_origin(struct run *run);
/* Ends the run before the update is applied, and says where it began: a negative code. */
int lt_run_not_finite(struct run *run, const char *what, enum lt_counter counter, double value,
                      struct tacho_error *err);
/* What follows from the norm of the gradient: with a loss scale, another scale; else the end, if it
 * is not finite. */
int lt_run_judge(struct run *run, double norm, struct tacho_error *err);
/* Tells a tool of it, after the step has ended: tools may not record what is inside of some steps.
 */
void lt_run_mark(struct run *run);
/* TACHO_ENOTSUP for what a model that is divided among ranks cannot do. */
int lt_run_check(const struct run *run, struct tacho_error *err);

#endif
