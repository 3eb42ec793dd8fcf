/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: the training loop. One step is one optimizer update: micro_steps times (wait for a batch,
 * forward, backward), then gradient norm, clipping and the optimizer's pass. Evaluation and
 * checkpoints happen between steps. Ranges: docs/engine.md.
 */
#ifndef LT_TRAIN_H
#define LT_TRAIN_H

#include <signal.h>

#include "libtrain/loader/loader.h"
#include "libtrain/models/model.h"
#include "libtrain/ops/scan.h"
#include "libtrain/train/clipping.h"
#include "libtrain/train/division.h"
#include "libtrain/train/local.h"
#include "libtrain/train/optimizer.h"
#include "libtrain/train/parallel.h"
#include "libtrain/train/scaling.h"
#include "libtrain/train/schedule.h"

/* A fault on purpose, for tests of tools: in step `step` an operation writes a value that is not
 * finite (fault.op; scan.h), or from that step on the learning rate is multiplied by `rate`, or a
 * rank leaves out a call or makes it with half of its bytes. */
struct lt_injection {
    enum { LT_INJECT_NONE, LT_INJECT_VALUE, LT_INJECT_RATE, LT_INJECT_CALL } kind;
    int64_t step;
    double rate;
    struct lt_fault fault;
    struct lt_board_plan call; /* given to lt_parallel_open */
};

/* Passes that sleep (lt_context.simulated): seconds over one micro-batch, of which `weights` is the
 * part of backward that a weights pass makes; on this rank all of them times factor. In step k rank
 * k % ranks sleeps `rotate` longer in its first forward pass. */
struct lt_simulated {
    double forward, backward, weights, factor, rotate;
};

struct lt_train_config {
    struct lt_schedule schedule; /* its steps: all updates, those before a resume included */
    int micro_steps;             /* batches added up for one update */
    int64_t micro_steps_all;     /* of all ranks; 0: as many on each */
    double clip;                 /* bound on the gradient, 0: none */
    enum lt_clip_kind clip_kind;
    /* The weights have only values of bf16, rounded so after each update; not where ranks divide
     * the model. */
    enum { LT_WEIGHTS_FP32, LT_WEIGHTS_NEAREST, LT_WEIGHTS_STOCHASTIC } weights;
    /* lbfgs: how often a step is halved at most (line_search.h); one rank, one micro-batch, a model
     * whose evaluations compute what its steps do */
    int64_t line_search;
    int centralise; /* of hidden matrices, before clipping; not where ranks divide the model */
    struct lt_scaling_config scaling; /* for fp16 */
    struct lt_optimizer_config optimizer;
    int64_t eval_every, eval_batches; /* 0: never */
    int64_t patience;         /* evaluations without a better loss that end the run; 0: none do */
    int64_t checkpoint_every; /* 0: at the end only */
    int checkpoint_async;     /* beside training (background.h) */
    const char *checkpoint, *resume; /* NULL: none */
    int64_t log_every;
    int64_t assert_every; /* steps between comparisons of the ranks' weights, 0: none */
    int64_t watch_every;  /* steps between counters by layer (watch.h), 0: none */
    struct lt_injection injection;
    struct lt_simulated simulated;
    struct lt_loader_options loader;
    uint64_t seed; /* order of the samples; a checkpoint's own seed wins */
    int no_graph;  /* on a device: each operation of each step is launched by itself */
    /* NULL: one rank. Rank 0 writes the checkpoints; evaluations are divided among the ranks. */
    struct lt_parallel *parallel;
    struct lt_division_config division;
    struct lt_local_config local; /* several ranks, none of whose model is divided */
};

/* RANGE: the end of a range test, with the rate that it suggests, NAN: none. PATIENCE: evaluations
 * have ended the run. */
enum lt_event {
    LT_EVENT_START,
    LT_EVENT_STEP,
    LT_EVENT_EVALUATION,
    LT_EVENT_CHECKPOINT,
    LT_EVENT_RANGE,
    LT_EVENT_PATIENCE
};

/* What the caller may want to show. Fields that an event does not have are 0. */
struct lt_progress {
    enum lt_event event;
    int64_t step; /* index of the step just made; of the first step for START */
    double loss, grad_norm, rate, seconds;
    double beside; /* CHECKPOINT: seconds that it was written beside training, 0: it was not; then
                      `seconds` is what the steps' thread gave to it */
    uint64_t tokens, samples; /* of the step, of all ranks; of images there are no tokens */
    uint64_t train_samples, eval_samples; /* START: samples an epoch, samples held out */
    int64_t evaluated;                    /* EVALUATION: batches */
    double accuracy;     /* EVALUATION: share of samples put into the right class; NAN: not for this
                            model */
    const char *warning; /* START: what does not work as asked; NULL: nothing */
    struct lt_routing routing; /* STEP: of this rank's last micro-batch; imbalance 0: no mixture */
};

struct lt_train_hooks {
    void (*progress)(void *arg, const struct lt_progress *progress); /* may be NULL */
    void *arg;
    /* After each forward pass of a step, for each router of a mixture; may be NULL. */
    void (*routed)(void *routed_arg, const struct lt_routed *routed);
    void *routed_arg;
    /* non-zero: finish the step, write the checkpoint, return; may be NULL */
    const volatile sig_atomic_t *stop;
};

/* Trains on `train` until schedule.steps updates are made or *hooks->stop; evaluates on `held_out`
 * (NULL: there are no evaluations), in the source's order. `context` says backend, or device, and
 * trace. A device (whose memory the model must be made in) trains with adamw and --clip-by norm on
 * one rank, and a step is reported when the next one has begun. 0, or
 * the errors of loader and checkpoint, or TACHO_EUSAGE when the loss is no longer finite; with
 * words in *err. */
int lt_train(struct lt_model *model, const struct lt_part *train, const struct lt_part *held_out,
             const struct lt_context *context, const struct lt_train_config *config,
             const struct lt_train_hooks *hooks, struct tacho_error *err);

#endif
