/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a run: the loss scale, faults on purpose, and values that are not finite.
 */
#include <math.h>
#include <stdio.h>

#include "libtrain/train/run.h"

static int is_divided(const struct run *run)
{
    return run->division.shard || run->division.pipeline || run->context.tensor ||
           run->context.sequences;
}

int lt_run_check(const struct run *run, struct tacho_error *err)
{
    const struct lt_train_config *config = run->config;
    if (config->line_search && (lt_parallel_ranks(run->parallel) > 1 || run->model->states > 0))
        return tacho_fail(err, TACHO_ENOTSUP, "leave out --line-search",
                          "--line-search: not for several ranks, nor for batch normalisation, "
                          "whose evaluations compute something else");
    if (config->optimizer.kind == LT_OPTIMIZER_KFAC && lt_parallel_ranks(run->parallel) > 1)
        return tacho_fail(err, TACHO_ENOTSUP, "train with one rank, or choose another optimizer",
                          "--optimizer kfac: not for several ranks, which do not sum its factors");
    if (!is_divided(run) || (config->scaling.kind == LT_SCALING_NONE && config->watch_every == 0))
        return 0;
    return tacho_fail(err, TACHO_ENOTSUP, "leave out --watch and --dtype fp16, or the division",
                      "--watch and fp16 are not for a model that is divided among ranks");
}

void lt_run_origin(struct run *run)
{
    if (!*run->origin && !is_divided(run) && !run->context.device && !run->early)
        lt_watch_origin(run->model, &run->context, &run->batch, run->origin, sizeof run->origin);
}

/* What passes of this step are to sleep. */
static void simulate(struct run *run)
{
    const struct lt_simulated *simulated = &run->config->simulated;
    int split = run->division.pipeline && lt_stages_split(run->config->division.staging.kind),
        chunks = run->division.pipeline ? run->config->division.staging.chunks : 1;
    int turn = run->step % lt_parallel_ranks(run->parallel) == lt_parallel_rank(run->parallel);
    double weights = split ? simulated->weights : 0;
    run->context.late = turn ? simulated->rotate : 0;
    if (simulated->forward <= 0 && simulated->backward <= 0)
        return;
    run->simulated[LT_PASS_FORWARD] = simulated->forward;
    run->simulated[LT_PASS_BACKWARD] = simulated->backward - weights;
    run->simulated[LT_PASS_WEIGHTS] = weights;
    for (int i = 0; i < LT_PASS_KINDS; i++)
        run->simulated[i] *= simulated->factor / chunks;
    run->context.simulated = run->simulated;
}

void lt_run_context(struct run *run)
{
    const struct lt_injection *injection = &run->config->injection;
    int now = injection->kind == LT_INJECT_VALUE && injection->step == run->step;
    run->context.loss_scale = run->scaling.scale;
    run->context.fault = now ? &injection->fault : NULL;
    simulate(run);
}

double lt_run_rate(const struct run *run)
{
    const struct lt_injection *injection = &run->config->injection;
    double rate = lt_schedule_rate(&run->config->schedule, run->step);
    int raised = injection->kind == LT_INJECT_RATE && run->step >= injection->step;
    return raised ? rate * injection->rate : rate;
}

/* The end of the run, after a loss or a gradient that is not finite. */
static int not_finite(struct run *run, const struct lt_progress *progress, enum lt_counter counter,
                      struct tacho_error *err)
{
    int gradient = counter == LT_COUNTER_GRAD_NORM;
    char origin[sizeof run->origin + 16] = "";
    if (gradient)
        lt_run_origin(run);
    if (*run->origin)
        snprintf(origin, sizeof origin, " (first in %s)", run->origin);
    run->bad = counter;
    run->bad_value = gradient ? progress->grad_norm : progress->loss;
    int rc = tacho_fail(err, TACHO_EUSAGE, "choose a smaller --lr, or a longer --warmup",
                        "step %lld: the %s is not finite%s", (long long)progress->step,
                        gradient ? "gradient" : "loss", origin);
    lt_parallel_silence(run->parallel, err);
    return rc;
}

int lt_run_check_loss(struct run *run, const struct lt_progress *progress, struct tacho_error *err)
{
    return isfinite(progress->loss) ? 0 : not_finite(run, progress, LT_COUNTER_LOSS, err);
}

void lt_run_mark(struct run *run)
{
    char mark[128];
    if (isfinite(run->bad_value))
        return;
    snprintf(mark, sizeof mark, "nonfinite: %s", *run->origin ? run->origin : "not found again");
    lt_trace_count(run->trace, run->bad, run->bad_value);
    lt_trace_mark(run->trace, mark);
}

int lt_run_judge(struct run *run, const struct lt_progress *progress, struct tacho_error *err)
{
    const struct lt_scaling_config *scaling = &run->config->scaling;
    int finite = isfinite(progress->grad_norm);
    if (scaling->kind == LT_SCALING_NONE)
        return finite ? 0 : not_finite(run, progress, LT_COUNTER_GRAD_NORM, err);
    lt_trace_count(run->trace, LT_COUNTER_LOSS_SCALE, run->scaling.scale);
    lt_scaling_next(&run->scaling, scaling, finite);
    lt_trace_count(run->trace, LT_COUNTER_OVERFLOWS, (double)run->scaling.skipped);
    return 0;
}
