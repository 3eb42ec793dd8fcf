/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps of the host and of a device have in common: their begin, the optimizer's update, the
 * counters and lines of a step.
 */
#include "libtrain/train/run.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "libtrain/ops/random.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/line_search.h"
#include "libtrain/train/range_test.h"
#include "tacho_nvtx.h"

#define ROUNDING_KEY 0x726f756e64ull /* other random numbers than those of order and values */

double lt_run_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void lt_run_report(const struct run *run, const struct lt_progress *progress)
{
    if (run->hooks->progress)
        run->hooks->progress(run->hooks->arg, progress);
}

int lt_run_signalled(const struct run *run)
{
    return run->hooks->stop ? *run->hooks->stop : 0;
}

void lt_run_send_status(struct run *run, double loss, int code)
{
    run->news =
        (struct lt_parallel_status){.loss = loss, .code = code, .stop = lt_run_signalled(run)};
    lt_parallel_send(run->parallel, &run->news);
}

/* Is the whole model divided among several ranks? Then there are fewer replicas of it than ranks.
 */
const struct lt_layout *lt_run_layout(const struct run *run)
{
    const struct lt_layout *layout = &run->config->division.layout;
    return lt_layout_divides(layout) ? layout : NULL;
}

/* Copies of the whole model, each of which has its own samples; which one this rank belongs to. */
int lt_run_replicas(const struct run *run)
{
    const struct lt_layout *layout = lt_run_layout(run);
    return layout ? lt_layout_streams(layout) : lt_parallel_ranks(run->parallel);
}

int lt_run_contexts(const struct run *run)
{
    return lt_run_layout(run) ? lt_run_layout(run)->cp : 1;
}

/* Whether the norm may be summed during backward: on the CPU, with one rank, and if nothing changes
 * the gradient between backward and its norm, as --centralise does. */
static int sums_early(const struct run *run)
{
    const struct lt_train_config *config = run->config;
    return run->context.backend == LT_BACKEND_CPU && !run->context.device &&
           lt_parallel_ranks(run->parallel) == 1 && !lt_run_layout(run) &&
           !config->division.ordered && !config->centralise && !config->local.every;
}

int lt_run_open_norm(struct run *run)
{
    const struct lt_parameters *parameters = &run->model->parameters;
    int64_t count = (int64_t)parameters->count;
    run->partial = calloc(lt_norm_partials(count), sizeof *run->partial);
    if (!run->partial)
        return TACHO_ENOMEM;
    return sums_early(run) ? lt_early_norm_open(&run->norm, &run->context, parameters->grad, count,
                                                run->partial)
                           : 0;
}

void lt_run_close_norm(struct run *run)
{
    lt_early_norm_close(&run->norm);
    free(run->partial);
}

static double gradient_norm(struct run *run)
{
    const struct lt_parameters *parameters = &run->model->parameters;
    if (run->division.shard || run->config->division.ordered)
        return lt_division_norm(&run->division, &run->context);
    if (run->norm.context)
        return lt_early_norm_end(&run->norm);
    return lt_clip_norm(&run->context, parameters->grad, (int64_t)parameters->count, run->partial);
}

/* Bounds each element. */
static void clip_values(struct run *run, double bound)
{
    const struct lt_parameters *parameters = &run->model->parameters;
    if (run->division.shard)
        lt_division_clip(&run->division, &run->context, bound);
    else
        lt_clip(&run->context, parameters->grad, (int64_t)parameters->count, 1, bound);
}

/* The weights become values of bf16. What is drawn depends on seed and step, so that all ranks
 * round alike, and a resumed run as one that was never stopped. */
static void round_weights(struct run *run)
{
    const struct lt_parameters *parameters = &run->model->parameters;
    lt_op(&run->context, LT_OP_ROUNDING,
          &(union lt_args){
              .rounding = {.x = parameters->value,
                           .shadow = parameters->shadow,
                           .count = (int64_t)parameters->count,
                           .key = lt_random_bits(run->seed ^ ROUNDING_KEY, (uint64_t)run->step),
                           .stochastic = run->config->weights == LT_WEIGHTS_STOCHASTIC}});
}

/* Clipping and the optimizer's update. The gradient, and with it each bound, is scaled. */
static void apply(struct run *run, double rate, double norm)
{
    const struct lt_train_config *config = run->config;
    double loss_scale = run->scaling.scale, scale = 1 / loss_scale;
    int64_t made = run->step - (int64_t)run->scaling.skipped;
    if (config->clip > 0 && config->clip_kind == LT_CLIP_NORM && norm > config->clip)
        scale = config->clip / norm / loss_scale;
    if (config->clip > 0 && config->clip_kind == LT_CLIP_LAYER)
        lt_clip_layers(&run->context, &run->model->parameters, config->clip * loss_scale,
                       run->partial);
    if (config->clip > 0 && config->clip_kind == LT_CLIP_VALUE)
        clip_values(run, config->clip * loss_scale);
    if (run->division.shard)
        lt_division_update(&run->division, &run->optimizer, &run->context, made, rate, scale);
    else
        lt_optimizer_update(&run->optimizer, &run->context, &run->model->parameters, made, rate,
                            scale);
    if (config->line_search)
        lt_line_search(run);
    if (config->weights != LT_WEIGHTS_FP32)
        round_weights(run);
}

/* The update, unless the gradient is not finite. Returns its norm before clipping; a device's is 0
 * here, whatever it will be. */
double lt_run_update(struct run *run, double rate)
{
    int due = lt_watch_due(run->watch, run->step);
    lt_trace_begin(run->trace, LT_RANGE_OPTIMIZER, 0, 0);
    lt_parallel_sleep(run->parallel, LT_SLOW_OPTIMIZER);
    if (run->config->centralise)
        lt_centre_matrices(&run->context, &run->model->parameters);
    double norm = gradient_norm(run) / run->scaling.scale;
    if (due)
        lt_watch_before(run->watch, &run->context, run->partial);
    if (isfinite(norm))
        apply(run, rate, norm);
    if (due)
        lt_watch_after(run->watch);
    lt_trace_end(run->trace);
    return norm;
}

/* ---- updates in the next forward pass ---------------------------------------------------------- */

int lt_run_open_early(struct run *run, struct tacho_error *err)
{
    const struct lt_train_config *config = run->config;
    if (!lt_parallel_early(run->parallel))
        return 0;
    if (!run->model->ops->uses)
        return tacho_fail(err, TACHO_ENOTSUP, "choose a gpt2, llama or moe model, or leave it out",
                          "--bucket-priority: %s does not say when it uses its parameters",
                          run->model->ops->name);
    if (config->clip > 0 || config->centralise || !lt_optimizer_parts(&config->optimizer) ||
        config->schedule.kind == LT_SCHEDULE_RANGE || config->watch_every > 0)
        return tacho_fail(err, TACHO_ENOTSUP,
                          "use --clip 0 and an optimizer that updates each element alone, for "
                          "instance adamw, without --lookahead, --centralise, --watch and "
                          "--schedule range",
                          "--bucket-priority: an update that begins before all gradients are there "
                          "cannot look at all of them");
    if (run->model->parameters.has_frozen || config->weights != LT_WEIGHTS_FP32 ||
        config->scaling.kind != LT_SCALING_NONE)
        return tacho_fail(err, TACHO_ENOTSUP, "leave out --freeze, --bf16-weights and --dtype fp16",
                          "--bucket-priority: not with what this run does to its weights");
    if (config->simulated.forward > 0 || config->simulated.backward > 0)
        return tacho_fail(err, TACHO_ENOTSUP, "use link= of --simulate-compute alone",
                          "--bucket-priority: a simulated pass sleeps before its first layer, not "
                          "layer by layer");
    return lt_early_create(&run->early, &run->model->parameters, err);
}

int lt_run_ends_early(struct run *run, const struct lt_progress *progress, double start)
{
    const struct lt_buckets *buckets = lt_parallel_buckets(run->parallel);
    if (lt_parallel_news(run->parallel, &run->news) || run->news.stop ||
        !isfinite(run->news.loss) || buckets->closed < buckets->buckets)
        return 0;
    run->late.progress = *progress;
    run->late.progress.loss = run->news.loss;
    run->late.progress.rate = lt_run_rate(run);
    run->late.began = start;
    lt_optimizer_remember(&run->optimizer, run->late.progress.rate);
    run->late.terms = lt_optimizer_terms(&run->optimizer, run->step, run->late.progress.rate, 1);
    run->late.pending = 1;
    lt_early_begin(run->early, buckets);
    lt_parallel_sleep(run->parallel, LT_SLOW_OPTIMIZER);
    return 1;
}

/* For lt_context.use: the unit's update, when its gradients are there. */
static void update_unit(void *arg, int unit)
{
    struct run *run = arg;
    size_t pieces = 0, turns = 0;
    const struct lt_piece *piece = lt_early_take(run->early, unit, &pieces, &turns);
    if (!piece)
        return;
    lt_parallel_wait(run->parallel, turns);
    lt_trace_begin(run->trace, LT_RANGE_OPTIMIZER, 0, 0);
    lt_optimizer_update_some(&run->optimizer, &run->context, &run->model->parameters, piece, pieces,
                             &run->late.terms);
    lt_trace_end(run->trace);
}

void lt_run_use_late(struct run *run, struct lt_context *context)
{
    if (!run->late.pending)
        return;
    context->use = update_unit;
    context->use_arg = run;
}

int lt_run_settle(struct run *run, struct tacho_error *err)
{
    struct lt_progress *progress = &run->late.progress;
    struct lt_parallel_status news;
    if (!run->late.pending)
        return 0;
    for (int i = 0; i < lt_early_units(run->early); i++)
        update_unit(run, i);
    int rc = lt_parallel_finish(run->parallel, 0, &news, err);
    run->late.pending = 0;
    lt_parallel_step(run->parallel, run->step); /* no call of the step before is left */
    progress->grad_norm = gradient_norm(run);
    rc = rc ? rc : lt_run_judge(run, progress, err);
    run->late.failed = rc != 0;
    if (rc == 0)
        lt_run_log(run, progress, lt_run_seconds() - run->late.seconds);
    return rc;
}

/* ---- what a step leaves behind ------------------------------------------------------------------ */

static const enum lt_counter memory_counters[LT_MEMORY_COUNT] = {
#define ROW(id, name) [LT_MEMORY_##id] = LT_COUNTER_MEMORY_##id,
    LT_MEMORY_MAP(ROW)
#undef ROW
};

/* All of it after the first step, then what has changed. */
static void count_memory(struct run *run)
{
    struct lt_memory now;
    const struct lt_memory *last = &run->memory;
    int first = !run->memory_counted;
    lt_memory_read(&now);
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        if (first || now.tag[i] != last->tag[i])
            lt_trace_count(run->trace, memory_counters[i], (double)now.tag[i]);
    if (first || now.total != last->total)
        lt_trace_count(run->trace, LT_COUNTER_MEMORY_TOTAL, (double)now.total);
    if (first || now.total_peak != last->total_peak)
        lt_trace_count(run->trace, LT_COUNTER_MEMORY_PEAK, (double)now.total_peak);
    run->memory = now;
    run->memory_counted = 1;
}

/* Counters of the step, and a progress line where one is due. */
void lt_run_log(struct run *run, struct lt_progress *progress, double start)
{
    lt_trace_begin(run->trace, LT_RANGE_LOG, 0, 0);
    progress->seconds = lt_run_seconds() - start;
    lt_trace_count(run->trace, LT_COUNTER_LOSS, progress->loss);
    lt_trace_count(run->trace, LT_COUNTER_LEARNING_RATE, progress->rate);
    lt_trace_count(run->trace, LT_COUNTER_GRAD_NORM, progress->grad_norm);
    if (progress->tokens)
        lt_trace_count(run->trace, LT_COUNTER_TOKENS_PER_SECOND,
                       (double)progress->tokens / progress->seconds);
    else
        lt_trace_count(run->trace, LT_COUNTER_SAMPLES_PER_SECOND,
                       (double)progress->samples / progress->seconds);
    if (run->model->ops->routing) {
        run->model->ops->routing(run->model, &progress->routing);
        lt_trace_count(run->trace, LT_COUNTER_EXPERT_IMBALANCE, progress->routing.imbalance);
        lt_trace_count(run->trace, LT_COUNTER_CHOICES_DROPPED, progress->routing.dropped);
    }
    if (run->range && lt_range_test_add(run->range, progress->rate, progress->loss))
        run->enough = 1;
    count_memory(run);
    if (run->config->log_every > 0 && (progress->step % run->config->log_every == 0 ||
                                       progress->step + 1 == run->config->schedule.steps))
        lt_run_report(run, progress);
    lt_trace_end(run->trace);
}

/* Begins the step: its context, its range. What is known of it before it is made. */
struct lt_progress lt_run_begin_step(struct run *run)
{
    uint64_t samples = (uint64_t)(run->model->b * run->config->micro_steps);
    struct tacho_step step = {.index = (uint64_t)run->step,
                              .tokens = samples * (uint64_t)run->model->t,
                              .samples = samples};
    int64_t each = (int64_t)lt_run_replicas(run) * run->config->micro_steps,
            micro = run->config->micro_steps_all, contexts = lt_run_contexts(run);
    uint64_t all = (uint64_t)(run->model->b * (micro ? micro : each));
    struct lt_progress progress = {.event = LT_EVENT_STEP,
                                   .step = run->step,
                                   .tokens = all * (uint64_t)(run->model->t * contexts),
                                   .samples = all};
    lt_run_context(run);
    if (run->late.pending)
        run->late.seconds = lt_run_seconds() - run->late.began;
    else
        lt_parallel_step(run->parallel, run->step);
    lt_trace_step_begin(run->trace, &step);
    return progress;
}

struct run *lt_run_new(const struct lt_context *context, const struct lt_train_config *config,
                       const struct lt_train_hooks *hooks)
{
    static const struct lt_train_hooks none;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->config = config;
    run->hooks = hooks ? hooks : &none;
    run->context = run->evaluation = *context;
    run->evaluation.evaluation = 1;
    run->trace = context->trace;
    run->seed = config->seed;
    run->parallel = config->parallel;
    run->best = INFINITY;
    run->scaling = lt_scaling_start(&config->scaling);
    return run;
}
