/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/train: a run of lt_train while it is under way, and what its steps have in
 * common on the host and on a device.
 */
#ifndef LT_RUN_H
#define LT_RUN_H

#include "libtrain/train/train.h"

struct lt_device_steps;

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

/* Begins the range of the step; what is known of it before it is made. */
struct lt_progress lt_run_begin_step(struct run *run);
/* Clipping and the optimizer's update. Returns the norm of the gradient before clipping; on a
 * device it is not known yet, and 0 here. */
double lt_run_update(struct run *run, double rate);
/* TACHO_EUSAGE with words in *err when the loss is not finite. */
int lt_run_check_loss(const struct lt_progress *progress, struct tacho_error *err);
/* Counters of a step that began at `start`, and a progress line where one is due. */
void lt_run_log(struct run *run, struct lt_progress *progress, double start);

/* One update on the device. The step before it is reported when this one is on the queue, so that
 * the device is never without work. */
int lt_run_device_step(struct run *run, struct tacho_error *err);
/* Waits for the step that was launched last, and reports it. Nothing where there is none. */
int lt_run_report_launched(struct run *run, struct tacho_error *err);

#endif
