/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/base/output.h"
#include "libtrain/ops/gemm.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/train.h"
#include "workloads/input.h"
#include "workloads/parallel.h"
#include "workloads/recipe.h"

static void print_progress(void *arg, const struct lt_progress *progress)
{
    const struct lt_train_config *config = arg;
    switch (progress->event) {
    case LT_EVENT_START:
        printf("data: %llu samples to learn from", (unsigned long long)progress->train_samples);
        if (progress->eval_samples)
            printf(", %llu held out", (unsigned long long)progress->eval_samples);
        printf("\n");
        if (progress->warning)
            printf("warning: %s\n", progress->warning);
        if (progress->step)
            printf("resumed: %lld steps made before%s\n", (long long)progress->step,
                   progress->step >= config->schedule.steps
                       ? ": nothing is left to do, --steps counts them too"
                       : "");
        break;
    case LT_EVENT_STEP:
        printf("step %5lld/%lld  loss %.4f  norm %.3f  lr %.2e  %9.2f ms  %8.0f %s\n",
               (long long)progress->step, (long long)config->schedule.steps, progress->loss,
               progress->grad_norm, progress->rate, 1e3 * progress->seconds,
               (double)(progress->tokens ? progress->tokens : progress->samples) /
                   progress->seconds,
               progress->tokens ? "tok/s" : "samples/s");
        break;
    case LT_EVENT_EVALUATION:
        printf("evaluation after step %lld  loss %.4f  ", (long long)progress->step,
               progress->loss);
        if (!isnan(progress->accuracy))
            printf("accuracy %.2f %%  ", 100 * progress->accuracy);
        printf("(%lld batches, %.2f ms)\n", (long long)progress->evaluated,
               1e3 * progress->seconds);
        break;
    case LT_EVENT_CHECKPOINT:
        printf("checkpoint after step %lld  %s  %.2f ms\n", (long long)progress->step,
               config->checkpoint, 1e3 * progress->seconds);
        break;
    }
    fflush(stdout);
}

static int training(struct lt_train_config *out, const struct options *options,
                    struct tacho_error *err)
{
    int kind = lt_optimizer_find(options->optimizer);
    if (kind < 0)
        return tacho_fail(err, TACHO_EUSAGE, "adamw, momentum or sgd", "--optimizer %s: unknown",
                          options->optimizer);
    *out = (struct lt_train_config){.schedule = {.peak = options->lr,
                                                 .floor = options->min_lr,
                                                 .warmup = options->warmup,
                                                 .steps = options->steps},
                                    .micro_steps = (int)options->accumulate,
                                    .clip = options->clip,
                                    .optimizer = {.kind = (enum lt_optimizer_kind)kind,
                                                  .weight_decay = options->weight_decay,
                                                  .beta1 = options->beta1,
                                                  .beta2 = options->beta2,
                                                  .eps = 1e-8,
                                                  .momentum = options->momentum},
                                    .eval_every = options->eval_every,
                                    .eval_batches = options->eval_batches,
                                    .checkpoint_every = options->checkpoint_every,
                                    .checkpoint = options->checkpoint,
                                    .resume = options->resume,
                                    .log_every = options->log_every,
                                    .seed = (uint64_t)options->seed};
    return 0;
}

static int make_context(struct lt_context *context, const struct options *options,
                        struct tacho_error *err)
{
    int backend = lt_backend_find(options->backend), dtype = lt_dtype_find(options->dtype);
    if (backend < 0)
        return tacho_fail(err, TACHO_EUSAGE, "cpu or reference", "--backend %s: unknown",
                          options->backend);
    if (dtype < 0)
        return tacho_fail(err, TACHO_EUSAGE, "fp32 or bf16", "--dtype %s: unknown", options->dtype);
    context->backend = (enum lt_backend)backend;
    context->dtype = (enum lt_dtype)dtype;
    return 0;
}

/* What the run will hold: the model's part by its closed form, the optimizer's and the buffers' of
 * several ranks from the gradients, which are 4 bytes a parameter, the loader's from the batches;
 * evaluations have a loader of their own beside it. */
static void plan_memory(struct lt_memory_plan *out, const struct recipe_plan *plan,
                        const struct lt_train_config *config, const struct lt_context *context,
                        const struct input *input)
{
    struct lt_loader_config learn = {.options = config->loader, .b = plan->batch},
                            look = {.options = {.in_order = 1}, .b = plan->batch};
    *out = (struct lt_memory_plan){0};
    plan->memory(plan->arg, input->source, out);
    uint64_t gradients = out->tag[LT_MEMORY_GRADIENTS];
    out->tag[LT_MEMORY_OPTIMIZER] =
        (uint64_t)lt_optimizer_states(config->optimizer.kind) * gradients;
    out->tag[LT_MEMORY_LOADER] = lt_loader_memory(&input->train, &learn);
    if (input->has_held_out)
        out->tag[LT_MEMORY_LOADER] += lt_loader_memory(&input->held_out, &look);
    out->tag[LT_MEMORY_WORKSPACE] +=
        lt_parallel_buffer_bytes(config->parallel, gradients / 4, context->dtype);
}

/* Better words now than the kernel's killer later. All ranks of a machine share its memory. */
static int check_memory(const struct lt_memory_plan *plan, const struct lt_parallel *parallel,
                        struct tacho_error *err)
{
    int64_t there = lt_memory_available();
    int ranks = lt_parallel_place(parallel)->local_ranks;
    double gib = 1 << 30, needed = (double)lt_memory_plan_total(plan) * ranks;
    if (there < 0 || needed <= (double)there)
        return 0;
    return tacho_fail(
        err, TACHO_ENOMEM,
        "choose a smaller model, --batch or --seq, --recompute block or --optimizer sgd",
        "not enough memory: %d rank%s here need%s %.1f GiB, this machine has %.1f GiB left", ranks,
        ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", needed / gib, (double)there / gib);
}

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

static void print_memory(const struct lt_memory_plan *plan)
{
    printf("memory: %.1f MiB predicted:", mib((double)lt_memory_plan_total(plan)));
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        printf("%s %s %.1f", i ? "," : "", lt_memory_name((enum lt_memory_tag)i),
               mib((double)plan->tag[i]));
    printf("\n");
}

/* `before`: when there was neither model nor optimizer; peak 0 where that is not known. What the
 * matrix library makes and keeps, code and mapped data are part of the growth: of a small model's
 * they are the larger one, so no percentage is said there. */
static void print_peak(const struct lt_memory_plan *plan, const struct lt_resident *before)
{
    struct lt_memory memory;
    struct lt_resident now;
    double predicted = (double)lt_memory_plan_total(plan);
    lt_memory_read(&memory);
    printf("memory: %.1f MiB held at most", mib((double)memory.total_peak));
    if (predicted >= 1 << 20)
        printf(" (%+.2f %% of what was predicted)",
               100 * ((double)memory.total_peak / predicted - 1));
    if (before->peak > 0 && lt_memory_resident(&now) == 0) {
        double grown = (double)(now.peak - before->now), file = (double)(now.file - before->file);
        printf("; the process grew by %.1f MiB", mib(grown));
        if (mib(predicted) >= 1024)
            printf(" (%+.2f %%)", 100 * (grown / predicted - 1));
        else if (file > 0)
            printf(", %.1f of them code and mapped files", mib(file));
    }
    printf("\n");
}

static void print_start(const struct options *options)
{
    printf("%s, backend %s (%s), %d thread%s, %lld loader worker%s (%s)%s\n", options->dtype,
           options->backend, lt_gemm_library(), lt_threads(), lt_threads() == 1 ? "" : "s",
           (long long)options->workers, options->workers == 1 ? "" : "s", options->worker_kind,
           options->pin ? " and a pin thread" : "");
    if (strcmp(options->backend, "cpu") == 0 &&
        !lt_gemm_fast((enum lt_dtype)lt_dtype_find(options->dtype)))
        printf("note: %s has no %s products on this CPU: plain loops make them, correct and very "
               "slow (fp32 is fast)\n",
               lt_gemm_library(), options->dtype);
}

/* Before a long run, what its end needs: rank 0 writes checkpoints, each rank its timers. */
static int check_outputs(const struct options *options, const struct lt_parallel *parallel,
                         struct tacho_error *err)
{
    if (options->checkpoint_every && !options->checkpoint)
        return tacho_fail(err, TACHO_EUSAGE, "name the file too: --checkpoint FILE",
                          "--checkpoint-every: no --checkpoint");
    int rc = options->checkpoint && lt_parallel_rank(parallel) == 0
                 ? lt_output_check(options->checkpoint, "--checkpoint", err)
                 : 0;
    return rc || !options->timers ? rc : lt_output_check(options->timers, "--timers", err);
}

int recipe_train(const struct recipe_plan *plan, struct tacho_error *err)
{
    const struct options *options = plan->options;
    struct lt_train_config config;
    struct lt_train_hooks hooks = {.progress = print_progress, .arg = &config, .stop = plan->stop};
    struct lt_context context = {0};
    struct input input = {0};
    struct lt_model *model = NULL;
    struct lt_parallel *parallel = NULL;
    struct lt_memory_plan memory;
    struct lt_resident before = {0};
    int rc = training(&config, options, err);
    if (rc == 0)
        rc = make_context(&context, options, err);
    if (rc == 0)
        rc = parallel_open(&parallel, options, err);
    if (rc) {
        lt_parallel_close(parallel);
        return rc;
    }
    config.parallel = parallel;
    rc = parallel_micro_steps(parallel, options, &config.micro_steps, &config.micro_steps_all, err);
    if (rc == 0)
        rc = check_outputs(options, parallel, err);
    if (rc == 0)
        rc = input_loader(&config.loader, options, err);
    if (rc == 0)
        rc = input_open(&input, options, plan->seq, plan->vocab, err);
    if (rc == 0) {
        plan_memory(&memory, plan, &config, &context, &input);
        rc = check_memory(&memory, parallel, err);
    }
    rc = lt_parallel_agree(parallel, rc, err); /* all have looked before one takes memory */
    if (rc == 0) {
        if (lt_memory_resident(&before))
            before.peak = 0;
        rc = plan->create(plan->arg, input.source, &context, &model, err);
        if (rc == 0 &&
            lt_trace_create(&context.trace, lt_op_names(), LT_OP_COUNT, options->timers != NULL))
            rc = tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
        rc = lt_parallel_agree(parallel, rc, err);
    }
    if (lt_parallel_rank(parallel) > 0)
        hooks.progress = NULL;
    if (rc == 0) {
        if (lt_parallel_rank(parallel) == 0) {
            plan->describe(plan->arg, model);
            print_start(options);
            parallel_print(parallel, options, model, context.dtype);
            print_memory(&memory);
            fflush(stdout);
        }
        rc = lt_train(model, &input.train, input.has_held_out ? &input.held_out : NULL, &context,
                      &config, &hooks, err);
    }
    if (rc == 0 && lt_parallel_rank(parallel) == 0)
        print_peak(&memory, &before);
    if (rc == 0 && options->timers)
        rc = parallel_timers(parallel, context.trace, options->timers, err);
    lt_trace_destroy(context.trace);
    lt_model_destroy(model);
    input_close(&input);
    lt_parallel_close(parallel);
    return rc;
}
