/* SPDX-License-Identifier: Apache-2.0
 *
 * From the options to the configuration of the training loop and the context of its operations.
 */
#include "workloads/configure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/gemm/gemm.h"
#include "workloads/injection.h"

/* The optimizer by name, with its own numbers where the options give none. */
static int configure_optimizer(struct lt_optimizer_config *out, const struct options *options,
                               struct tacho_error *err)
{
    int kind = lt_optimizer_find(options->optimizer);
    if (kind < 0)
        return tacho_fail(err, TACHO_EUSAGE, "train --help all lists the optimizers",
                          "--optimizer %s: unknown", options->optimizer);
    *out = lt_optimizer_defaults((enum lt_optimizer_kind)kind);
    out->weight_decay = options->weight_decay;
    out->lookahead_every = options->lookahead;
    const struct {
        double *number, given;
    } numbers[] = {{&out->beta1, options->beta1},
                   {&out->beta2, options->beta2},
                   {&out->eps, options->eps},
                   {&out->momentum, options->momentum},
                   {&out->kfac.damping, options->damping},
                   {&out->kfac.decay, options->factor_decay},
                   {&out->kfac.kl_clip, options->kl_clip}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isnan(numbers[i].given))
            *numbers[i].number = numbers[i].given;
    if (options->inverse_every)
        out->kfac.every = options->inverse_every;
    return 0;
}

/* Loss scaling from the options: for fp16, and there dynamic unless a number is given. */
static int configure_scaling(struct lt_scaling_config *out, const struct options *options,
                             struct tacho_error *err)
{
    const char *text = options->loss_scale;
    char *end = NULL;
    *out = (struct lt_scaling_config){.kind = LT_SCALING_NONE};
    if (strcmp(options->dtype, lt_dtype_name(LT_DTYPE_FP16)) != 0)
        return text ? tacho_fail(err, TACHO_EUSAGE, "leave it out, or give --dtype fp16",
                                 "--loss-scale %s: %s needs none", text, options->dtype)
                    : 0;
    *out = (struct lt_scaling_config){
        .kind = LT_SCALING_DYNAMIC, .scale = 65536, .window = options->loss_scale_window};
    if (!text || strcmp(text, "dynamic") == 0)
        return 0;
    out->kind = LT_SCALING_STATIC;
    out->scale = strtod(text, &end);
    if (end == text || *end || !isfinite(out->scale) || out->scale <= 0)
        return tacho_fail(err, TACHO_EUSAGE, "dynamic, or a number above 0",
                          "--loss-scale %s: not a scale", text);
    return 0;
}

/* --bf16-weights: how they are rounded, where there is no fp32 behind them. */
static int configure_weights(struct lt_train_config *out, const struct options *options,
                             struct tacho_error *err)
{
    const char *name = options->bf16_weights;
    if (strcmp(name, "master") == 0)
        return 0;
    int stochastic = strcmp(name, "stochastic") == 0;
    if (!stochastic && strcmp(name, "nearest") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "master, nearest or stochastic",
                          "--bf16-weights %s: unknown", name);
    if (strcmp(options->dtype, lt_dtype_name(LT_DTYPE_BF16)) != 0 ||
        strcmp(options->device, "cpu") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "leave it out, or give --dtype bf16 on the CPU",
                          "--bf16-weights %s: weights of %s are fp32", name, options->dtype);
    out->weights = stochastic ? LT_WEIGHTS_STOCHASTIC : LT_WEIGHTS_NEAREST;
    return 0;
}

/* --line-search looks again at the one batch of the update, without clipping. */
static int check_line_search(const struct options *options, struct tacho_error *err)
{
    if (!options->line_search)
        return 0;
    if (strcmp(options->optimizer, "lbfgs") != 0 || options->accumulate > 1 || options->clip > 0)
        return tacho_fail(err, TACHO_EUSAGE,
                          "--optimizer lbfgs --clip 0, and --batch in the place of --accumulate",
                          "--line-search: not with these options");
    return 0;
}

int configure_run(struct lt_train_config *out, const struct options *options,
                  struct tacho_error *err)
{
    int schedule = lt_schedule_find(options->schedule), clip = lt_clip_find(options->clip_by),
        kind = lt_local_find(options->local_kind);
    if (kind < 0)
        return tacho_fail(err, TACHO_EUSAGE, "mean, gossip or server", "--local-kind %s: unknown",
                          options->local_kind);
    if (schedule < 0)
        return tacho_fail(err, TACHO_EUSAGE,
                          "cosine, linear, constant, inverse-sqrt, wsd, one-cycle or range",
                          "--schedule %s: unknown", options->schedule);
    if (schedule == LT_SCHEDULE_RANGE &&
        (!(options->min_lr > 0) || options->min_lr >= options->lr || options->resume ||
         strcmp(options->device, "cpu") != 0))
        return tacho_fail(err, TACHO_EUSAGE,
                          "--min-lr above 0 and below --lr, no --resume, on the CPU",
                          "--schedule range: not with these options");
    if (options->patience && !options->eval_every)
        return tacho_fail(err, TACHO_EUSAGE, "say how often: --eval-every N",
                          "--patience: no evaluations");
    if (clip < 0)
        return tacho_fail(err, TACHO_EUSAGE, "norm, layer or value", "--clip-by %s: unknown",
                          options->clip_by);
    *out = (struct lt_train_config){.schedule = {.kind = (enum lt_schedule_kind)schedule,
                                                 .peak = options->lr,
                                                 .floor = options->min_lr,
                                                 .warmup = options->warmup,
                                                 .steps = options->steps},
                                    .micro_steps = (int)options->accumulate,
                                    .clip = options->clip,
                                    .clip_kind = (enum lt_clip_kind)clip,
                                    .line_search = options->line_search,
                                    .centralise = options->centralise,
                                    .eval_every = options->eval_every,
                                    .eval_batches = options->eval_batches,
                                    .patience = options->patience,
                                    .checkpoint_every = options->checkpoint_every,
                                    .checkpoint = options->checkpoint,
                                    .checkpoint_async = options->checkpoint_async,
                                    .resume = options->resume,
                                    .log_every = options->log_every,
                                    .assert_every = options->assert_equal,
                                    .watch_every = options->watch,
                                    .local = {.every = options->local_steps,
                                              .kind = (enum lt_local_kind)kind,
                                              .delay = options->max_delay,
                                              .rate = options->outer_lr,
                                              .momentum = options->outer_momentum},
                                    .no_graph = options->no_graph,
                                    .seed = (uint64_t)options->seed};
    int rc = check_line_search(options, err);
    rc = rc ? rc : configure_weights(out, options, err);
    rc = rc ? rc : injection_parse(&out->injection, options->inject, err);
    rc = rc ? rc : configure_scaling(&out->scaling, options, err);
    return rc ? rc : configure_optimizer(&out->optimizer, options, err);
}

/* --matmul-precision: holds for all GEMMs of the process. */
static int set_precision(const struct lt_context *context, const struct options *options,
                         struct tacho_error *err)
{
    int tf32 = strcmp(options->matmul_precision, "tf32") == 0;
    if (!tf32 && strcmp(options->matmul_precision, "fp32") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "fp32 or tf32", "--matmul-precision %s: unknown",
                          options->matmul_precision);
    if (tf32 && (context->backend != LT_BACKEND_CPU || context->dtype != LT_DTYPE_FP32 ||
                 strcmp(options->device, "cpu") != 0))
        return tacho_fail(err, TACHO_ENOTSUP, "use it with --dtype fp32 on the CPU, backend cpu",
                          "--matmul-precision tf32: not with these options");
    lt_gemm_round_tf32(tf32);
    return 0;
}

int configure_context(struct lt_context *context, const struct options *options,
                      struct tacho_error *err)
{
    int backend = lt_backend_find(options->backend), dtype = lt_dtype_find(options->dtype);
    if (backend < 0)
        return tacho_fail(err, TACHO_EUSAGE, "cpu or reference", "--backend %s: unknown",
                          options->backend);
    if (dtype < 0)
        return tacho_fail(err, TACHO_EUSAGE, "fp32, bf16 or fp16", "--dtype %s: unknown",
                          options->dtype);
    context->backend = (enum lt_backend)backend;
    context->dtype = (enum lt_dtype)dtype;
    return set_precision(context, options, err);
}

/* Goyal et al. 2017: linear; Krizhevsky 2014: the root. */
int configure_rates(struct lt_train_config *config, const struct options *options, int64_t batch,
                    struct tacho_error *err)
{
    const char *rule = options->scale_lr, *number = rule ? strchr(rule, '=') : NULL;
    char *end = NULL;
    if (!rule)
        return 0;
    int linear = strncmp(rule, "linear=", 7) == 0, root = strncmp(rule, "sqrt=", 5) == 0;
    double for_batch = number ? strtod(number + 1, &end) : 0;
    if ((!linear && !root) || !end || end == number + 1 || *end || !(for_batch >= 1))
        return tacho_fail(err, TACHO_EUSAGE, "linear=BATCH or sqrt=BATCH, of at least 1",
                          "--scale-lr %s: not a rule", rule);
    int64_t micro = config->micro_steps_all ? config->micro_steps_all : config->micro_steps;
    double factor = (double)(batch * micro) / for_batch;
    factor = root ? sqrt(factor) : factor;
    config->schedule.peak *= factor;
    config->schedule.floor *= factor;
    return 0;
}
