/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop: micro-steps, the optimizer's update, evaluations and checkpoints, and the
 * ranges and counters of all of them. A run can be stopped by a signal after any step and continued
 * from its checkpoint bit by bit, because everything random is a function of the seed and of
 * counters.
 */
#include "libtrain/train/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/speak/simulated.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/background.h"
#include "libtrain/train/checkpoint.h"
#include "libtrain/train/device_step.h"
#include "libtrain/train/range_test.h"
#include "tacho_nvtx.h"

/* Several ranks stop by the signals they exchanged in the last step, so that all stop after the
 * same one. */
static int stopping(const struct run *run)
{
    return lt_parallel_ranks(run->parallel) > 1 ? run->news.stop : lt_run_signalled(run);
}

static int replica(const struct run *run)
{
    const struct lt_layout *layout = lt_run_layout(run);
    return layout ? lt_layout_stream(layout) : lt_parallel_rank(run->parallel);
}

/* ---- one step ------------------------------------------------------------------------------------------------------------ */

/* The next batch. Where the model is divided, messages travel from its first use on, so all ranks
 * go on or none does. */
static int next_batch(struct run *run, struct lt_batch *batch, struct tacho_error *err)
{
    int rc = lt_loader_next(run->loader, batch, err);
    if (rc == 0)
        lt_division_batch(&run->division, batch);
    return run->division.shard ? lt_parallel_agree(run->parallel, rc, err) : rc;
}

/* Gradients of the last micro-step are announced as they become final: to the ranks, or to the sum
 * of their norm. */
static void backward(struct run *run, struct lt_context *context, const struct lt_batch *batch,
                     int index)
{
    struct lt_shard *shard = run->division.shard;
    int last = index + 1 == run->config->micro_steps, apart = shard && lt_shard_apart(shard);
    if (last && lt_parallel_ranks(run->parallel) > 1 && !shard && !run->config->local.every) {
        context->ready = lt_parallel_ready;
        context->ready_arg = run->parallel;
    } else if (last && !shard && run->norm.context) {
        context->ready = lt_early_norm_ready;
        context->ready_arg = &run->norm;
    }
    lt_optimizer_watch(&run->optimizer, &run->model->parameters, context, run->model->b, !index);
    if (shard)
        lt_shard_turn(shard);
    lt_trace_begin(run->trace, LT_RANGE_BACKWARD, 0, 0);
    if (!index)
        lt_parallel_sleep(run->parallel, LT_SLOW_BACKWARD);
    if (context->simulated)
        lt_simulate(run->trace, 1, context->simulated[LT_PASS_BACKWARD]);
    run->model->ops->backward(run->model, context, batch, index == 0 || apart);
    lt_trace_end(run->trace);
    if (shard)
        lt_shard_end(shard);
}

/* Ranks whose gradients make one mean. */
static int sharers(const struct run *run)
{
    return run->config->local.every ? 1 : lt_run_replicas(run) * lt_run_contexts(run);
}

/* What the routers of this micro-batch have chosen, where somebody wants to know. */
static void report_routed(void *arg, int micro)
{
    const struct run *run = arg;
    const struct lt_model_ops *ops = run->model->ops;
    struct lt_routed routed;
    if (!run->hooks->routed || !ops->routed)
        return;
    for (int i = 0; ops->routed(run->model, i, &routed); i++) {
        routed.step = run->step;
        routed.micro = micro;
        run->hooks->routed(run->hooks->routed_arg, &routed);
    }
}

/* One batch: forward, and backward with the news of the step sent in between. */
static int micro_step(struct run *run, int index, double *loss, struct tacho_error *err)
{
    struct lt_context context = run->context;
    struct lt_batch batch;
    int last = index + 1 == run->config->micro_steps;
    if (!index && lt_parallel_is_slow(run->parallel, LT_SLOW_INPUT)) {
        lt_trace_begin(run->trace, LT_RANGE_INPUT_WAIT, 0, 0);
        lt_parallel_sleep(run->parallel, LT_SLOW_INPUT);
        lt_trace_end(run->trace);
    }
    int rc = next_batch(run, &batch, err);
    if (rc)
        return rc;
    if (run->division.shard)
        lt_shard_begin(run->division.shard, &context, index == 0, last);
    lt_trace_begin(run->trace, LT_RANGE_MICRO_STEP, 0, (uint64_t)run->model->b);
    lt_trace_begin(run->trace, LT_RANGE_FORWARD, 0, 0);
    if (!index)
        lt_parallel_sleep(run->parallel, LT_SLOW_FORWARD);
    if (!index)
        lt_simulate(run->trace, 0, context.late);
    if (context.simulated)
        lt_simulate(run->trace, 0, context.simulated[LT_PASS_FORWARD]);
    if (!index)
        lt_run_use_late(run, &context);
    double own = run->model->ops->forward(run->model, &context, &batch,
                                          run->config->micro_steps * sharers(run));
    *loss += own;
    run->batch = batch;
    report_routed(run, index);
    lt_trace_end(run->trace);
    if (run->late.pending) {
        context.use = NULL;
        rc = lt_run_settle(run, err);
    }
    if (rc) {
        lt_trace_end(run->trace);
        return rc;
    }
    if (!isfinite(own))
        lt_run_origin(run);
    if (last)
        lt_run_send_status(run, *loss / (double)run->config->micro_steps, 0);
    if (last && lt_watch_due(run->watch, run->step))
        context.scan = lt_watch_scan(run->watch);
    backward(run, &context, &batch, index);
    lt_trace_end(run->trace);
    return 0;
}

/* All micro-steps of a step, through the stages of a pipeline. The last stage has the losses; the
 * others' is 0, and the mean is taken over all ranks. */
static int piped_steps(struct run *run, double *loss, struct tacho_error *err)
{
    int count = run->config->micro_steps, rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        struct lt_batch batch;
        rc = lt_loader_next(run->loader, &batch, err);
        if (rc)
            break;
        lt_division_batch(&run->division, &batch);
        lt_pipeline_batch(run->division.pipeline, i, &batch);
    }
    rc = lt_parallel_agree(run->parallel, rc, err);
    if (rc)
        return rc;
    *loss = lt_pipeline_step(run->division.pipeline, &run->context, run->division.shard,
                             count * sharers(run));
    lt_run_send_status(run, *loss * (double)lt_run_layout(run)->pp / (double)count, 0);
    return 0;
}

static int micro_steps(struct run *run, double *loss, struct tacho_error *err)
{
    int rc = 0;
    if (run->division.pipeline)
        return piped_steps(run, loss, err);
    for (int i = 0; i < run->config->micro_steps && rc == 0; i++)
        rc = micro_step(run, i, loss, err);
    return rc;
}

static int falls_on(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* Are the ranks' weights to be the same after this step? */
static int comes_together(const struct run *run)
{
    const struct lt_train_config *config = run->config;
    int64_t next = run->step + 1;
    return next == config->schedule.steps || falls_on(config->eval_every, next) ||
           falls_on(config->checkpoint_every, next) || falls_on(config->assert_every, next);
}

/* By gossip and with a server ranks need not be in the same step, unless a progress line is due or
 * they come together. */
static int is_quiet(const struct run *run)
{
    const struct lt_local_config *local = &run->config->local;
    return local->every && local->kind != LT_LOCAL_MEAN && !comes_together(run) &&
           !falls_on(run->config->log_every, run->step);
}

/* One update: all micro-steps, then what the ranks say of theirs, then the optimizer. A step that
 * failed on any rank is not applied on any. */
static int train_step(struct run *run, struct tacho_error *err)
{
    double start = lt_run_seconds();
    lt_parallel_quiet(run->parallel, is_quiet(run));
    struct lt_progress progress = lt_run_begin_step(run);
    int rc = micro_steps(run, &progress.loss, err);
    if (rc && run->late.pending)
        lt_run_settle(run, &(struct tacho_error){0});
    if (rc && (run->division.shard || run->late.failed)) { /* all ranks know it already */
        lt_trace_step_end(run->trace);
        return rc;
    }
    if (rc)
        lt_run_send_status(run, 0, rc);
    if (rc == 0 && run->early && !comes_together(run) && lt_run_ends_early(run, &progress, start)) {
        lt_trace_step_end(run->trace);
        return 0;
    }
    rc = lt_parallel_finish(run->parallel, rc, &run->news, err);
    progress.loss = run->news.loss;
    rc = rc ? rc : lt_run_check_loss(run, &progress, err);
    if (is_quiet(run))
        rc = lt_parallel_agree(run->parallel, rc, err);
    if (rc == 0) {
        progress.rate = lt_run_rate(run);
        progress.grad_norm = lt_run_update(run, progress.rate);
        lt_local_step(&run->local, run->step, comes_together(run) || run->news.stop);
        rc = lt_run_judge(run, &progress, err);
        if (run->config->local.every) /* each has judged its own gradient */
            rc = lt_parallel_agree(run->parallel, rc, err);
    }
    if (rc == 0)
        lt_run_log(run, &progress, start);
    lt_parallel_quiet(run->parallel, 0);
    lt_trace_step_end(run->trace);
    lt_run_mark(run);
    return rc;
}

/* ---- between steps ------------------------------------------------------------------------------------------------------- */

/* What one evaluated batch came to. Doubles throughout: they travel between ranks. */
struct evaluated {
    double loss, correct;
};

/* Where ranks divide experts, all of them make as many forward passes, or none does: a rank whose
 * share is done takes another batch, which does not count. */
static int64_t passes_of(const struct run *run, int rank, int ranks)
{
    const struct lt_layout *layout = lt_run_layout(run);
    int64_t batches = run->config->eval_batches, own = (batches - rank + ranks - 1) / ranks;
    if (layout && layout->ep > 1)
        return (batches + ranks - 1) / ranks;
    return own > 0 ? own : 0;
}

/* The next batch of an evaluation. Where ranks divide experts, all go on or none does. */
static int next_evaluated(struct run *run, struct lt_loader *loader, struct lt_batch *batch,
                          struct tacho_error *err)
{
    const struct lt_layout *layout = lt_run_layout(run);
    int rc = lt_loader_next(loader, batch, err);
    if (layout && layout->ep > 1)
        rc = lt_parallel_agree(run->parallel, rc, err);
    return rc;
}

/* This replica's share of the batches: with R replicas every R-th, from its own number on. */
static int evaluate_share(struct run *run, struct evaluated *seen, int64_t *made,
                          struct tacho_error *err)
{
    const struct lt_model_ops *ops = run->model->ops;
    int rank = replica(run), ranks = lt_run_replicas(run);
    struct lt_loader_config config = {
        .options = {.in_order = 1}, .b = run->model->b, .rank = rank, .ranks = ranks, .plain = 1};
    struct lt_loader *loader = NULL;
    struct lt_batch batch;
    int rc = lt_loader_create(&loader, run->held_out, &config, run->trace, err);
    struct evaluated beyond, *result;
    int64_t passes = passes_of(run, rank, ranks);
    for (int64_t i = 0; rc == 0 && i < passes && !stopping(run); i++) {
        rc = next_evaluated(run, loader, &batch, err);
        if (rc)
            break;
        lt_division_batch(&run->division, &batch);
        result = rank + i * ranks < run->config->eval_batches ? &seen[(*made)++] : &beyond;
        if (run->division.pipeline)
            result->loss = lt_pipeline_evaluate(run->division.pipeline, &run->evaluation, &batch);
        else if (run->device)
            rc = lt_device_steps_evaluate(run->device, run->model, &run->evaluation, &batch,
                                          &result->loss, err);
        else
            result->loss = ops->forward(run->model, &run->evaluation, &batch, 1);
        result->correct = ops->correct ? (double)ops->correct(run->model, &batch) : 0;
    }
    lt_loader_destroy(loader);
    return rc;
}

/* The mean of p->evaluated batches; batch i is number i / copies of replica i % copies. The last
 * stage has the losses, and each of those ranks that divide its layers; of those that divide
 * sequences each has its tokens'. */
static void mean_of(const struct run *run, struct lt_progress *progress,
                    const struct evaluated *all, int64_t share)
{
    const struct lt_layout *layout = lt_run_layout(run);
    int64_t copies = lt_run_replicas(run), stride = share, contexts = lt_run_contexts(run);
    double correct = 0;
    if (layout) {
        all += lt_layout_rank(layout, layout->pp - 1, 0, 0) * share;
        stride *= layout->tp;
    }
    for (int64_t i = 0; i < progress->evaluated; i++) {
        const struct evaluated *first = all + i % copies * contexts * stride + i / copies;
        for (int64_t j = 0; j < contexts; j++)
            progress->loss += first[j * stride].loss / (double)contexts;
        correct += first->correct;
    }
    progress->loss /= (double)progress->evaluated;
    progress->accuracy = run->model->ops->correct
                             ? correct / (double)(progress->evaluated * run->model->b)
                             : (double)NAN;
}

static void report_evaluation(struct run *run, const struct lt_progress *progress)
{
    lt_trace_count(run->trace, LT_COUNTER_EVAL_LOSS, progress->loss);
    if (!isnan(progress->accuracy))
        lt_trace_count(run->trace, LT_COUNTER_EVAL_ACCURACY, progress->accuracy);
    lt_run_report(run, progress);
    run->waited = progress->loss < run->best ? 0 : run->waited + 1;
    run->best = fmin(run->best, progress->loss);
    if (run->config->patience > 0 && run->waited >= run->config->patience) {
        run->enough = 1;
        lt_run_report(run, &(struct lt_progress){.event = LT_EVENT_PATIENCE,
                                                 .step = progress->step,
                                                 .loss = run->best,
                                                 .evaluated = run->waited});
    }
}

/* The held-out tail in file order, from its start, so that losses of different steps compare. They
 * are added up in that order on any number of ranks. */
static int evaluate(struct run *run, struct tacho_error *err)
{
    int64_t ranks = lt_parallel_ranks(run->parallel), copies = lt_run_replicas(run),
            share = (run->config->eval_batches + copies - 1) / copies;
    struct lt_progress progress = {.event = LT_EVENT_EVALUATION, .step = run->step - 1};
    double start = lt_run_seconds();
    struct evaluated *seen = calloc((size_t)(share * (ranks + 1)), sizeof *seen);
    lt_trace_begin(run->trace, LT_RANGE_EVALUATION, 0, (uint64_t)(share * run->model->b));
    lt_division_whole(&run->division, 1);
    lt_optimizer_exchange(&run->optimizer, &run->evaluation, &run->model->parameters);
    int rc = seen ? evaluate_share(run, seen, &progress.evaluated, err) : lt_no_memory(err);
    lt_optimizer_exchange(&run->optimizer, &run->evaluation, &run->model->parameters);
    lt_division_whole(&run->division, 0);
    rc = lt_parallel_agree(run->parallel, rc, err);
    if (rc == 0 && seen) {
        lt_parallel_gather(run->parallel, &seen->loss, 2 * (size_t)share, &seen[share].loss);
        progress.evaluated = ranks > 1 ? run->config->eval_batches : progress.evaluated;
    }
    if (rc == 0 && seen && progress.evaluated > 0) {
        mean_of(run, &progress, seen + share, share);
        progress.seconds = lt_run_seconds() - start;
        report_evaluation(run, &progress);
    }
    free(seen);
    lt_trace_end(run->trace);
    return rc;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static int due(int64_t every, const struct run *run)
{
    return every > 0 && (run->step % every == 0 || run->step == run->config->schedule.steps);
}

/* Does something follow the step that was just launched for which its result must be known? */
static int settles(const struct run *run)
{
    return stopping(run) || run->enough || run->step == run->config->schedule.steps ||
           due(run->config->eval_every, run) || due(run->config->checkpoint_every, run);
}

/* Steps until the schedule's end or a signal, with the evaluations and checkpoints that are due. */
static int loop(struct run *run, struct tacho_error *err)
{
    int rc = 0, last = run->step >= run->config->schedule.steps || stopping(run);
    while (rc == 0 && !last) {
        rc = run->device ? lt_run_device_step(run, err) : train_step(run, err);
        if (rc)
            return rc;
        run->step++;
        if ((rc = lt_run_saved(run, 0, err)))
            return rc;
        if (settles(run) && (rc = lt_run_report_launched(run, err)))
            return rc;
        if (run->held_out && due(run->config->eval_every, run))
            rc = evaluate(run, err);
        /* asked once a step: a signal that comes later ends the run after the next step, with its
         * checkpoint */
        last = run->step == run->config->schedule.steps || run->enough ||
               (stopping(run) && (!run->config->local.every || run->local.together));
        if (rc == 0 && due(run->config->assert_every, run))
            rc = lt_run_check_weights(run, err);
        if (rc == 0 && run->config->checkpoint && (last || due(run->config->checkpoint_every, run)))
            rc = lt_run_checkpoint(run, err);
    }
    if (rc == 0)
        rc = lt_run_report_launched(run, err); /* a signal came after it was launched */
    if (rc == 0)
        rc = lt_run_saved(run, 1, err);
    return rc ? rc : lt_run_check_weights(run, err);
}

/* Reads the checkpoint and refuses one of another dtype or of other data, which could not
 * continue bit by bit. */
static int resume(struct run *run, uint64_t *position, struct tacho_error *err)
{
    struct lt_checkpoint state;
    const char *path = run->config->resume;
    int rc = 0;
    if (run->division.shard)
        rc = lt_division_read(&run->division, path, &run->optimizer, &state, err);
    else
        rc = lt_checkpoint_read(path, run->model, &run->optimizer, &state, err);
    if (rc)
        return rc;
    lt_parameters_refresh(&run->model->parameters);
    if (state.dtype != (uint64_t)run->context.dtype)
        return tacho_fail(err, TACHO_EFORMAT, "give the --dtype of the run that wrote it",
                          "%s: written by a run in %s, not %s", run->config->resume,
                          state.dtype < LT_DTYPE_COUNT ? lt_dtype_name((enum lt_dtype)state.dtype)
                                                       : "?",
                          lt_dtype_name(run->context.dtype));
    if (state.data != lt_part_identity(run->train))
        return tacho_fail(
            err, TACHO_EFORMAT,
            "give the same --data, --tokenizer and --eval options as the run that wrote it",
            "%s: written by a run on other data", run->config->resume);
    run->seed = state.seed;
    run->step = (int64_t)state.step;
    run->scaling = state.scaling;
    for (int64_t i = 0; i < run->step; i++)
        lt_optimizer_remember(&run->optimizer, lt_schedule_rate(&run->config->schedule, i));
    *position = state.position;
    lt_parallel_saved(run->parallel, path, run->step);
    lt_local_restart(&run->local);
    return 0;
}

/* The loader of the run, from the position that was reached. */
static int open_input(struct run *run, uint64_t position, struct tacho_error *err)
{
    struct lt_loader_config config = {.options = run->config->loader,
                                      .b = run->model->b,
                                      .seed = run->seed,
                                      .position = position,
                                      .rank = replica(run),
                                      .ranks = lt_run_replicas(run)};
    return lt_loader_create(&run->loader, run->train, &config, run->trace, err);
}

/* What divides the model, where that is wanted, and the optimizer. */
static int open_optimizer(struct run *run, struct tacho_error *err)
{
    const struct lt_train_config *config = run->config;
    int rc = lt_division_open(&run->division, &config->division, run->parallel, run->model,
                              &config->optimizer, config->micro_steps, run->trace, err);
    if (rc == 0 && run->division.shard && config->clip > 0 && config->clip_kind == LT_CLIP_LAYER)
        rc = tacho_fail(err, TACHO_EUSAGE, "use --clip-by norm or value",
                        "--clip-by layer: no rank has the gradient of a whole layer");
    if (rc == 0 && run->division.shard && (config->centralise || config->weights))
        rc = tacho_fail(err, TACHO_EUSAGE, "leave it out",
                        "%s: not where ranks divide the model or its optimizer",
                        config->centralise ? "--centralise" : "--bf16-weights");
    if (run->division.pipeline)
        lt_pipeline_watch(run->division.pipeline, report_routed, run);
    run->context.tensor = run->evaluation.tensor = lt_parts_hooks(&run->division.layer_parts);
    run->context.experts = run->evaluation.experts = lt_parts_hooks(&run->division.expert_parts);
    run->context.sequences = run->evaluation.sequences =
        lt_parts_hooks(&run->division.sequence_parts);
    if (config->division.layout.cp > 1)
        run->context.attention_flops = &run->division.attention_flops;
    if (rc == 0 && run->parallel)
        rc = lt_local_open(&run->local, &config->local, lt_parallel_group(run->parallel),
                           &run->model->parameters, run->trace);
    if (rc)
        return rc;
    rc = lt_division_optimizer(&run->division, &run->optimizer, &config->optimizer, err);
    if (rc == 0 && config->checkpoint && config->checkpoint_async)
        rc = lt_background_open(&run->background, config->checkpoint, &run->division,
                                &run->optimizer, run->trace, err);
    return rc;
}

/* Makes what a run needs: partial sums, optimizer, input, exchange of gradients. */
static int open_run(struct run *run, struct tacho_error *err)
{
    const struct lt_train_config *config = run->config;
    const struct lt_parameters *parameters = &run->model->parameters;
    uint64_t position = 0;
    if (lt_run_open_norm(run))
        return lt_no_memory(err);
    int rc = open_optimizer(run, err);
    if (rc == 0 && config->resume)
        rc = resume(run, &position, err);
    if (rc == 0)
        rc = open_input(run, position, err);
    if (rc == 0)
        rc = lt_parallel_attach(run->parallel, parameters, lt_dtype_on_wire(run->context.dtype),
                                run->trace, err);
    rc = rc ? rc : lt_run_check(run, err);
    rc = rc ? rc : lt_run_open_early(run, err);
    if (rc == 0 && config->schedule.kind == LT_SCHEDULE_RANGE) {
        run->range = lt_range_test_create(config->schedule.steps);
        rc = run->range ? 0 : lt_no_memory(err);
    }
    if (rc == 0 && lt_watch_create(&run->watch, parameters, config->watch_every, run->trace))
        rc = lt_no_memory(err);
    if (rc == 0 && run->context.device)
        rc = lt_device_steps_open(&run->device, run->context.device, run->model,
                                  config->micro_steps, err);
    if (run->context.device && lt_parallel_ranks(run->parallel) > 1)
        rc = lt_run_join_devices(run, rc, err);
    return rc;
}

static void report_start(struct run *run)
{
    struct lt_progress progress = {.event = LT_EVENT_START,
                                   .step = run->step,
                                   .train_samples = run->train->samples,
                                   .eval_samples = run->held_out ? run->held_out->samples : 0,
                                   .warning = lt_loader_warning(run->loader)};
    lt_trace_count(run->trace, LT_COUNTER_STEPS_PLANNED, (double)run->config->schedule.steps);
    lt_run_report(run, &progress);
}

static void destroy_run(struct run *run)
{
    lt_background_close(run->background);
    lt_early_destroy(run->early);
    lt_device_steps_close(run->device);
    lt_parallel_detach(run->parallel);
    lt_loader_destroy(run->loader);
    lt_optimizer_destroy(&run->optimizer);
    lt_local_close(&run->local);
    lt_division_close(&run->division);
    lt_watch_destroy(run->watch);
    lt_range_test_destroy(run->range);
    lt_run_close_norm(run);
    free(run);
}

int lt_train(struct lt_model *model, const struct lt_part *train, const struct lt_part *held_out,
             const struct lt_context *context, const struct lt_train_config *config,
             const struct lt_train_hooks *hooks, struct tacho_error *err)
{
    struct run *run = lt_run_new(context, config, hooks);
    int rc = run ? 0 : lt_no_memory(err);
    if (run) {
        run->model = model;
        run->train = train;
        run->held_out = held_out;
        rc = open_run(run, err);
    }
    rc = lt_parallel_agree(config->parallel, rc, err);
    if (!run)
        return rc;
    if (rc == 0) {
        report_start(run);
        rc = loop(run, err);
    }
    if (rc == 0)
        lt_division_measure(&run->division, run->local.formula, lt_local_delay(&run->local));
    if (rc == 0 && run->range)
        lt_run_report(run, &(struct lt_progress){.event = LT_EVENT_RANGE,
                                                 .step = run->step,
                                                 .rate = lt_range_test_rate(run->range)});
    destroy_run(run);
    return rc;
}
