/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "libtrain/loader/loader.h"
#include "libtrain/train/checkpoint.h"

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
    struct lt_memory memory; /* as last told */
    int memory_told;
    uint64_t seed;
    int64_t step;
    struct lt_parallel *parallel;
    struct lt_parallel_news news; /* of this rank, then of all */
};

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void tell(const struct run *r, const struct lt_progress *p)
{
    if (r->hooks->progress)
        r->hooks->progress(r->hooks->arg, p);
}

static int signalled(const struct run *r)
{
    return r->hooks->stop ? *r->hooks->stop : 0;
}

/* Several ranks stop for what they told each other in the last step, not for what one of them knows
 * now. */
static int stopping(const struct run *r)
{
    return lt_parallel_ranks(r->parallel) > 1 ? r->news.stop : signalled(r);
}

/* ---- one step ------------------------------------------------------------------------------------------------------------ */

static void say(struct run *r, double loss, int code)
{
    r->news = (struct lt_parallel_news){.loss = loss, .code = code, .stop = signalled(r)};
    lt_parallel_tell(r->parallel, &r->news);
}

static int micro_step(struct run *r, int index, double *loss, struct tacho_error *err)
{
    struct lt_context context = r->context;
    struct lt_batch batch;
    int ranks = lt_parallel_ranks(r->parallel), last = index + 1 == r->config->micro_steps;
    if (!index && lt_parallel_slows(r->parallel, LT_SLOW_INPUT)) {
        lt_trace_begin(r->trace, LT_RANGE_INPUT_WAIT, 0, 0);
        lt_parallel_nap(r->parallel, LT_SLOW_INPUT);
        lt_trace_end(r->trace);
    }
    int rc = lt_loader_next(r->loader, &batch, err);
    if (rc)
        return rc;
    lt_trace_begin(r->trace, LT_RANGE_MICRO_STEP, 0, (uint64_t)r->model->b);
    lt_trace_begin(r->trace, LT_RANGE_FORWARD, 0, 0);
    if (!index)
        lt_parallel_nap(r->parallel, LT_SLOW_FORWARD);
    *loss += r->model->ops->forward(r->model, &r->context, &batch, r->config->micro_steps * ranks);
    lt_trace_end(r->trace);
    if (last)
        say(r, *loss / (double)r->config->micro_steps, 0);
    if (last && ranks > 1) {
        context.ready = lt_parallel_ready;
        context.ready_arg = r->parallel;
    }
    lt_trace_begin(r->trace, LT_RANGE_BACKWARD, 0, 0);
    if (!index)
        lt_parallel_nap(r->parallel, LT_SLOW_BACKWARD);
    r->model->ops->backward(r->model, &context, &batch, index == 0);
    lt_trace_end(r->trace);
    lt_trace_end(r->trace);
    return 0;
}

/* Returns the norm of the gradient before clipping. */
static double update(struct run *r, double rate)
{
    const struct lt_train_config *k = r->config;
    const struct lt_parameters *p = &r->model->parameters;
    double sum = 0, norm;
    lt_trace_begin(r->trace, LT_RANGE_OPTIMIZER, 0, 0);
    lt_parallel_nap(r->parallel, LT_SLOW_OPTIMIZER);
    lt_op(&r->context, LT_OP_NORM,
          &(union lt_args){
              .norm = {
                  .x = p->grad, .sum = &sum, .partial = r->partial, .count = (int64_t)p->count}});
    norm = sqrt(sum);
    lt_optimizer_update(&r->optimizer, &r->context, p, r->step, rate,
                        k->clip > 0 && norm > k->clip ? k->clip / norm : 1);
    lt_trace_end(r->trace);
    return norm;
}

static const enum lt_counter memory_counters[LT_MEMORY_COUNT] = {
#define ROW(id, name) [LT_MEMORY_##id] = LT_COUNTER_MEMORY_##id,
    LT_MEMORY_MAP(ROW)
#undef ROW
};

/* All of it after the first step, then what has changed. */
static void count_memory(struct run *r)
{
    struct lt_memory now;
    const struct lt_memory *last = &r->memory;
    int first = !r->memory_told;
    lt_memory_read(&now);
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        if (first || now.tag[i] != last->tag[i])
            lt_trace_count(r->trace, memory_counters[i], (double)now.tag[i]);
    if (first || now.total != last->total)
        lt_trace_count(r->trace, LT_COUNTER_MEMORY_TOTAL, (double)now.total);
    if (first || now.total_peak != last->total_peak)
        lt_trace_count(r->trace, LT_COUNTER_MEMORY_PEAK, (double)now.total_peak);
    r->memory = now;
    r->memory_told = 1;
}

static void log_step(struct run *r, struct lt_progress *p, double start)
{
    lt_trace_begin(r->trace, LT_RANGE_LOG, 0, 0);
    p->seconds = seconds() - start;
    lt_trace_count(r->trace, LT_COUNTER_LOSS, p->loss);
    lt_trace_count(r->trace, LT_COUNTER_LEARNING_RATE, p->rate);
    lt_trace_count(r->trace, LT_COUNTER_GRAD_NORM, p->grad_norm);
    if (p->tokens)
        lt_trace_count(r->trace, LT_COUNTER_TOKENS_PER_SECOND, (double)p->tokens / p->seconds);
    else
        lt_trace_count(r->trace, LT_COUNTER_SAMPLES_PER_SECOND, (double)p->samples / p->seconds);
    count_memory(r);
    if (r->config->log_every > 0 &&
        (p->step % r->config->log_every == 0 || p->step + 1 == r->config->schedule.steps))
        tell(r, p);
    lt_trace_end(r->trace);
}

static int train_step(struct run *r, struct tacho_error *err)
{
    uint64_t samples = (uint64_t)(r->model->b * r->config->micro_steps);
    struct tacho_step step = {
        .index = (uint64_t)r->step, .tokens = samples * (uint64_t)r->model->t, .samples = samples};
    int64_t each = (int64_t)lt_parallel_ranks(r->parallel) * r->config->micro_steps,
            micro = r->config->micro_steps_all;
    uint64_t all = (uint64_t)(r->model->b * (micro ? micro : each));
    struct lt_progress p = {.event = LT_EVENT_STEP,
                            .step = r->step,
                            .tokens = all * (uint64_t)r->model->t,
                            .samples = all};
    double start = seconds();
    int rc = 0;
    lt_trace_step_begin(r->trace, &step);
    for (int i = 0; i < r->config->micro_steps && rc == 0; i++)
        rc = micro_step(r, i, &p.loss, err);
    if (rc)
        say(r, 0, rc);
    rc = lt_parallel_finish(r->parallel, rc, &r->news, err);
    p.loss = r->news.loss;
    if (rc == 0 && !isfinite(p.loss)) {
        rc = tacho_fail(err, TACHO_EUSAGE, "choose a smaller --lr, or a longer --warmup",
                        "step %lld: the loss is not finite", (long long)r->step);
        lt_parallel_hush(r->parallel, err);
    }
    if (rc == 0) {
        p.rate = lt_schedule_rate(&r->config->schedule, r->step);
        p.grad_norm = update(r, p.rate);
        log_step(r, &p, start);
    }
    lt_trace_step_end(r->trace);
    return rc;
}

/* ---- between steps ------------------------------------------------------------------------------------------------------- */

/* What one evaluated batch came to. Doubles throughout: they travel between ranks. */
struct seen {
    double loss, correct;
};

/* This rank's share of the batches: with R ranks every R-th, from its own number on. */
static int evaluate_share(struct run *r, struct seen *seen, int64_t *made, struct tacho_error *err)
{
    const struct lt_model_ops *ops = r->model->ops;
    int rank = lt_parallel_rank(r->parallel), ranks = lt_parallel_ranks(r->parallel);
    struct lt_loader_config config = {
        .options = {.in_order = 1}, .b = r->model->b, .rank = rank, .ranks = ranks};
    struct lt_loader *loader = NULL;
    struct lt_batch batch;
    int rc = lt_loader_create(&loader, r->held_out, &config, r->trace, err);
    for (int64_t i = rank; rc == 0 && i < r->config->eval_batches && !stopping(r); i += ranks) {
        rc = lt_loader_next(loader, &batch, err);
        if (rc)
            break;
        struct seen *s = &seen[(*made)++];
        s->loss = ops->forward(r->model, &r->evaluation, &batch, 1);
        s->correct = ops->correct ? (double)ops->correct(r->model, &batch) : 0;
    }
    lt_loader_destroy(loader);
    return rc;
}

/* The mean of p->evaluated batches; batch i is number i / ranks of rank i % ranks. */
static void mean_of(const struct run *r, struct lt_progress *p, const struct seen *all,
                    int64_t share, int64_t ranks)
{
    double correct = 0;
    for (int64_t i = 0; i < p->evaluated; i++) {
        p->loss += all[i % ranks * share + i / ranks].loss;
        correct += all[i % ranks * share + i / ranks].correct;
    }
    p->loss /= (double)p->evaluated;
    p->accuracy =
        r->model->ops->correct ? correct / (double)(p->evaluated * r->model->b) : (double)NAN;
}

/* The held-out tail in file order, from its start, so that losses of different steps compare. They
 * are added up in that order on any number of ranks. */
static int evaluate(struct run *r, struct tacho_error *err)
{
    int64_t ranks = lt_parallel_ranks(r->parallel),
            share = (r->config->eval_batches + ranks - 1) / ranks;
    struct lt_progress p = {.event = LT_EVENT_EVALUATION, .step = r->step - 1};
    double start = seconds();
    struct seen *seen = calloc((size_t)(share * (ranks + 1)), sizeof *seen), *all = seen + share;
    lt_trace_begin(r->trace, LT_RANGE_EVALUATION, 0, (uint64_t)(share * r->model->b));
    int rc = seen ? evaluate_share(r, seen, &p.evaluated, err)
                  : tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    rc = lt_parallel_agree(r->parallel, rc, err);
    if (rc == 0) {
        lt_parallel_gather(r->parallel, &seen->loss, 2 * (size_t)share, &all->loss);
        p.evaluated = ranks > 1 ? r->config->eval_batches : p.evaluated;
    }
    if (rc == 0 && p.evaluated > 0) {
        mean_of(r, &p, all, share, ranks);
        p.seconds = seconds() - start;
        lt_trace_count(r->trace, LT_COUNTER_EVAL_LOSS, p.loss);
        if (!isnan(p.accuracy))
            lt_trace_count(r->trace, LT_COUNTER_EVAL_ACCURACY, p.accuracy);
        tell(r, &p);
    }
    free(seen);
    lt_trace_end(r->trace);
    return rc;
}

static int checkpoint(struct run *r, struct tacho_error *err)
{
    struct lt_checkpoint state = {.seed = r->seed,
                                  .step = (uint64_t)r->step,
                                  .position = lt_loader_position(r->loader),
                                  .data = lt_part_identity(r->train),
                                  .dtype = (uint64_t)r->context.dtype};
    struct lt_progress p = {.event = LT_EVENT_CHECKPOINT, .step = r->step - 1};
    double start = seconds();
    lt_trace_begin(r->trace, LT_RANGE_CHECKPOINT, lt_checkpoint_bytes(r->model, &r->optimizer), 0);
    int rc = lt_parallel_check(r->parallel, r->step - 1, err);
    if (rc == 0 && lt_parallel_rank(r->parallel) == 0)
        rc = lt_checkpoint_write(r->config->checkpoint, r->model, &r->optimizer, &state, err);
    rc = lt_parallel_agree(r->parallel, rc, err);
    p.seconds = seconds() - start;
    if (rc == 0)
        tell(r, &p);
    lt_trace_end(r->trace);
    return rc;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static int due(int64_t every, const struct run *r)
{
    return every > 0 && (r->step % every == 0 || r->step == r->config->schedule.steps);
}

static int loop(struct run *r, struct tacho_error *err)
{
    int rc = 0, last = r->step >= r->config->schedule.steps || stopping(r);
    while (rc == 0 && !last) {
        rc = train_step(r, err);
        if (rc)
            return rc;
        r->step++;
        if (r->held_out && due(r->config->eval_every, r))
            rc = evaluate(r, err);
        /* asked once a step: a signal that comes later ends the run behind the next step, with its
         * checkpoint */
        last = r->step == r->config->schedule.steps || stopping(r);
        if (rc == 0 && r->config->checkpoint && (last || due(r->config->checkpoint_every, r)))
            rc = checkpoint(r, err);
    }
    return rc ? rc : lt_parallel_check(r->parallel, r->step - 1, err);
}

static int resume(struct run *r, uint64_t *position, struct tacho_error *err)
{
    struct lt_checkpoint state;
    int rc = lt_checkpoint_read(r->config->resume, r->model, &r->optimizer, &state, err);
    if (rc)
        return rc;
    lt_parameters_refresh(&r->model->parameters);
    if (state.dtype != (uint64_t)r->context.dtype)
        return tacho_fail(err, TACHO_EFORMAT, "give the --dtype of the run that wrote it",
                          "%s: written by a run in %s, not %s", r->config->resume,
                          state.dtype < LT_DTYPE_COUNT ? lt_dtype_name((enum lt_dtype)state.dtype)
                                                       : "?",
                          lt_dtype_name(r->context.dtype));
    if (state.data != lt_part_identity(r->train))
        return tacho_fail(
            err, TACHO_EFORMAT,
            "give the same --data, --tokenizer and --eval options as the run that wrote it",
            "%s: written while learning from other data", r->config->resume);
    r->seed = state.seed;
    r->step = (int64_t)state.step;
    *position = state.position;
    return 0;
}

static int open_input(struct run *r, uint64_t position, struct tacho_error *err)
{
    struct lt_loader_config config = {.options = r->config->loader,
                                      .b = r->model->b,
                                      .seed = r->seed,
                                      .position = position,
                                      .rank = lt_parallel_rank(r->parallel),
                                      .ranks = lt_parallel_ranks(r->parallel)};
    return lt_loader_create(&r->loader, r->train, &config, r->trace, err);
}

int lt_train(struct lt_model *model, const struct lt_part *train, const struct lt_part *held_out,
             const struct lt_context *context, const struct lt_train_config *config,
             const struct lt_train_hooks *hooks, struct tacho_error *err)
{
    static const struct lt_train_hooks none;
    uint64_t position = 0;
    int rc = 0;
    struct run r = {.model = model,
                    .train = train,
                    .held_out = held_out,
                    .config = config,
                    .hooks = hooks ? hooks : &none,
                    .context = *context,
                    .evaluation = *context,
                    .trace = context->trace,
                    .seed = config->seed,
                    .parallel = config->parallel};
    r.evaluation.evaluation = 1;
    r.partial = calloc(lt_norm_partials((int64_t)model->parameters.count), sizeof *r.partial);
    if (!r.partial)
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    if (rc == 0)
        rc = lt_optimizer_create(&r.optimizer, &config->optimizer, &model->parameters, err);
    if (rc == 0 && config->resume)
        rc = resume(&r, &position, err);
    if (rc == 0)
        rc = open_input(&r, position, err);
    if (rc == 0)
        rc = lt_parallel_attach(r.parallel, &model->parameters, r.context.dtype, r.trace, err);
    rc = lt_parallel_agree(r.parallel, rc, err);
    if (rc == 0) {
        struct lt_progress p = {.event = LT_EVENT_START,
                                .step = r.step,
                                .train_samples = train->samples,
                                .eval_samples = held_out ? held_out->samples : 0,
                                .warning = lt_loader_warning(r.loader)};
        lt_trace_count(r.trace, LT_COUNTER_STEPS_PLANNED, (double)config->schedule.steps);
        tell(&r, &p);
        rc = loop(&r, err);
    }
    lt_parallel_detach(r.parallel);
    lt_loader_destroy(r.loader);
    lt_optimizer_destroy(&r.optimizer);
    free(r.partial);
    return rc;
}
