/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/train.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "libtrain/checkpoint.h"
#include "libtrain/loader.h"

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
    uint64_t seed;
    int64_t step;
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

static int stopping(const struct run *r)
{
    return r->hooks->stop && *r->hooks->stop;
}

/* ---- one step ------------------------------------------------------------------------------------------------------------ */

static int micro_step(struct run *r, int index, double *loss, struct tacho_error *err)
{
    struct lt_batch batch;
    int rc = lt_loader_next(r->loader, &batch, err);
    if (rc)
        return rc;
    lt_trace_begin(r->trace, LT_RANGE_MICRO_STEP, 0, (uint64_t)r->model->b);
    lt_trace_begin(r->trace, LT_RANGE_FORWARD, 0, 0);
    *loss += r->model->ops->forward(r->model, &r->context, &batch, r->config->micro_steps);
    lt_trace_end(r->trace);
    lt_trace_begin(r->trace, LT_RANGE_BACKWARD, 0, 0);
    r->model->ops->backward(r->model, &r->context, &batch, index == 0);
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
    lt_op(&r->context, LT_OP_NORM,
          &(union lt_args){.norm = {.x = p->grad, .sum = &sum, .partial = r->partial, .count = (int64_t)p->count}});
    norm = sqrt(sum);
    lt_optimizer_update(&r->optimizer, &r->context, p, r->step, rate, k->clip > 0 && norm > k->clip ? k->clip / norm : 1);
    lt_trace_end(r->trace);
    return norm;
}

static void log_step(struct run *r, struct lt_progress *p, double start)
{
    lt_trace_begin(r->trace, LT_RANGE_LOG, 0, 0);
    p->seconds = seconds() - start;
    lt_trace_count(r->trace, LT_COUNTER_LOSS, p->loss);
    lt_trace_count(r->trace, LT_COUNTER_LEARNING_RATE, p->rate);
    lt_trace_count(r->trace, LT_COUNTER_GRAD_NORM, p->grad_norm);
    lt_trace_count(r->trace, LT_COUNTER_TOKENS_PER_SECOND, (double)p->tokens / p->seconds);
    if (r->config->log_every > 0 && (p->step % r->config->log_every == 0 || p->step + 1 == r->config->schedule.steps))
        tell(r, p);
    lt_trace_end(r->trace);
}

static int train_step(struct run *r, struct tacho_error *err)
{
    uint64_t samples = (uint64_t)(r->model->b * r->config->micro_steps);
    struct tacho_step step = {.index = (uint64_t)r->step, .tokens = samples * (uint64_t)r->model->t, .samples = samples};
    struct lt_progress p = {.event = LT_EVENT_STEP, .step = r->step, .tokens = step.tokens};
    double start = seconds();
    int rc = 0;
    lt_trace_step_begin(r->trace, &step);
    for (int i = 0; i < r->config->micro_steps && rc == 0; i++)
        rc = micro_step(r, i, &p.loss, err);
    p.loss /= (double)r->config->micro_steps;
    if (rc == 0 && !isfinite(p.loss))
        rc = tacho_fail(err, TACHO_EUSAGE, "choose a smaller --lr, or a longer --warmup", "step %lld: the loss is not finite",
                        (long long)r->step);
    if (rc == 0) {
        p.rate = lt_schedule_rate(&r->config->schedule, r->step);
        p.grad_norm = update(r, p.rate);
        log_step(r, &p, start);
    }
    lt_trace_step_end(r->trace);
    return rc;
}

/* ---- between steps ------------------------------------------------------------------------------------------------------- */

/* The held-out tail in file order, from its start, so that losses of different steps compare. */
static int evaluate(struct run *r, struct tacho_error *err)
{
    struct lt_loader_config config = {.options = {.in_order = 1}, .b = r->model->b};
    struct lt_progress p = {.event = LT_EVENT_EVALUATION, .step = r->step - 1};
    struct lt_loader *loader = NULL;
    struct lt_batch batch;
    double start = seconds();
    lt_trace_begin(r->trace, LT_RANGE_EVALUATION, 0, (uint64_t)(r->config->eval_batches * r->model->b));
    int rc = lt_loader_create(&loader, r->held_out, &config, r->trace, err);
    for (int64_t i = 0; rc == 0 && i < r->config->eval_batches && !stopping(r); i++) {
        rc = lt_loader_next(loader, &batch, err);
        if (rc)
            break;
        p.loss += r->model->ops->forward(r->model, &r->evaluation, &batch, 1);
        p.evaluated++;
    }
    lt_loader_destroy(loader);
    if (rc == 0 && p.evaluated > 0) {
        p.loss /= (double)p.evaluated;
        p.seconds = seconds() - start;
        lt_trace_count(r->trace, LT_COUNTER_EVAL_LOSS, p.loss);
        tell(r, &p);
    }
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
    int rc = lt_checkpoint_write(r->config->checkpoint, r->model, &r->optimizer, &state, err);
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
    int rc = 0;
    while (rc == 0 && r->step < r->config->schedule.steps && !stopping(r)) {
        rc = train_step(r, err);
        if (rc)
            return rc;
        r->step++;
        int last = r->step == r->config->schedule.steps || stopping(r);
        if (r->held_out && due(r->config->eval_every, r))
            rc = evaluate(r, err);
        if (rc == 0 && r->config->checkpoint && (last || due(r->config->checkpoint_every, r)))
            rc = checkpoint(r, err);
    }
    return rc;
}

static int resume(struct run *r, uint64_t *position, struct tacho_error *err)
{
    struct lt_checkpoint state;
    int rc = lt_checkpoint_read(r->config->resume, r->model, &r->optimizer, &state, err);
    if (rc)
        return rc;
    lt_parameters_refresh(&r->model->parameters);
    if (state.dtype != (uint64_t)r->context.dtype)
        return tacho_fail(err, TACHO_EFORMAT, "give the --dtype of the run that wrote it", "%s: written by a run in %s, not %s",
                          r->config->resume, state.dtype < LT_DTYPE_COUNT ? lt_dtype_name((enum lt_dtype)state.dtype) : "?",
                          lt_dtype_name(r->context.dtype));
    if (state.data != lt_part_identity(r->train))
        return tacho_fail(err, TACHO_EFORMAT, "give the same --data, --tokenizer and --eval options as the run that wrote it",
                          "%s: written while learning from other data", r->config->resume);
    r->seed = state.seed;
    r->step = (int64_t)state.step;
    *position = state.position;
    return 0;
}

static int open_input(struct run *r, uint64_t position, struct tacho_error *err)
{
    struct lt_loader_config config = {.options = r->config->loader, .b = r->model->b, .seed = r->seed, .position = position};
    return lt_loader_create(&r->loader, r->train, &config, r->trace, err);
}

int lt_train(struct lt_model *model, const struct lt_part *train, const struct lt_part *held_out,
             const struct lt_context *context, const struct lt_train_config *config, const struct lt_train_hooks *hooks,
             struct tacho_error *err)
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
                    .seed = config->seed};
    r.evaluation.evaluation = 1;
    r.partial = calloc(lt_norm_partials((int64_t)model->parameters.count), sizeof *r.partial);
    if (!r.partial)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    rc = lt_optimizer_create(&r.optimizer, &config->optimizer, &model->parameters, err);
    if (rc == 0 && config->resume)
        rc = resume(&r, &position, err);
    if (rc == 0)
        rc = open_input(&r, position, err);
    if (rc == 0) {
        struct lt_progress p = {.event = LT_EVENT_START,
                                .step = r.step,
                                .train_samples = train->samples,
                                .eval_samples = held_out ? held_out->samples : 0};
        tell(&r, &p);
        rc = loop(&r, err);
    }
    lt_loader_destroy(r.loader);
    lt_optimizer_destroy(&r.optimizer);
    free(r.partial);
    return rc;
}
