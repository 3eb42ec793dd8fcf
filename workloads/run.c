/* SPDX-License-Identifier: Apache-2.0
 *
 * What every recipe that trains a model has in common: from the options to configuration, context,
 * data and model, the memory that the run will need, the lines that rank 0 prints, and the loop.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/output.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/models/init.h"
#include "libtrain/ops/device.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/background.h"
#include "libtrain/train/train.h"
#include "workloads/configure.h"
#include "workloads/input.h"
#include "workloads/offload.h"
#include "workloads/parallel.h"
#include "workloads/recipe.h"
#include "workloads/routing.h"
#include "workloads/simulated.h"

static void print_begin(const struct lt_progress *progress, const struct lt_train_config *config)
{
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
}

static void print_step(const struct lt_progress *progress, const struct lt_train_config *config)
{
    uint64_t units = progress->tokens ? progress->tokens : progress->samples;
    printf("step %5lld/%lld  loss %.4f  norm %.3f  lr %.2e  %9.2f ms  %8.0f %s",
           (long long)progress->step, (long long)config->schedule.steps, progress->loss,
           progress->grad_norm, progress->rate, 1e3 * progress->seconds,
           (double)units / progress->seconds, progress->tokens ? "tok/s" : "samples/s");
    if (progress->routing.imbalance > 0)
        printf("  imbalance %.2f, %.1f %% dropped", progress->routing.imbalance,
               100 * progress->routing.dropped);
    printf("\n");
}

/* The hook of the training loop on rank 0: one line for each event, at once, so that a reader of
 * the pipe sees the run's progress. */
static void print_progress(void *arg, const struct lt_progress *progress)
{
    const struct lt_train_config *config = arg;
    switch (progress->event) {
    case LT_EVENT_START:
        print_begin(progress, config);
        break;
    case LT_EVENT_STEP:
        print_step(progress, config);
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
        printf("checkpoint after step %lld  %s  %.2f ms", (long long)progress->step,
               config->checkpoint, 1e3 * progress->seconds);
        if (progress->beside > 0)
            printf(" of the steps' thread, %.2f ms until it was there", 1e3 * progress->beside);
        printf("\n");
        break;
    case LT_EVENT_PATIENCE:
        printf("stopped after step %lld: %lld evaluations in a row without a loss below %.4f\n",
               (long long)progress->step, (long long)progress->evaluated, progress->loss);
        break;
    case LT_EVENT_RANGE:
        if (isnan(progress->rate))
            printf("range test: %lld steps, too few or without a fall; give more --steps, or "
                   "another --min-lr\n",
                   (long long)progress->step);
        else
            printf("range test: %lld steps; the loss falls fastest at --lr %.2g\n",
                   (long long)progress->step, progress->rate);
        break;
    }
    fflush(stdout);
}

int recipe_mode(enum lt_dtype *dtype, enum lt_recompute *recompute, const struct options *options,
                struct tacho_error *err)
{
    static const char *const names[LT_RECOMPUTE_COUNT] = {
#define ROW(id, name) [LT_RECOMPUTE_##id] = (name),
        LT_RECOMPUTE_MAP(ROW)
#undef ROW
    };
    int found = lt_dtype_find(options->dtype);
    *dtype = found < 0 ? LT_DTYPE_FP32 : (enum lt_dtype)found; /* what is none is refused later */
    for (int i = 0; i < LT_RECOMPUTE_COUNT; i++)
        if (strcmp(options->recompute, names[i]) == 0) {
            *recompute = (enum lt_recompute)i;
            return 0;
        }
    return tacho_fail(err, TACHO_EUSAGE, "none or block", "--recompute %s: unknown",
                      options->recompute);
}

int recipe_no_experts(const char *name, const struct options *options, struct tacho_error *err)
{
    if (!options->experts && !options->choices && isnan(options->capacity) &&
        isnan(options->balance))
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, "choose a moe or llama model",
                      "%s: --experts, --choices, --capacity and --balance are for moe", name);
}

/* Opens the device, if one is asked for that can do what the options say. */
static int open_device(struct lt_context *context, const struct options *options,
                       const struct lt_train_config *config, const struct lt_parallel *parallel,
                       struct tacho_error *err)
{
    if (strcmp(options->device, "cpu") == 0)
        return 0;
    if (strcmp(options->device, "cuda") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "cpu or cuda", "--device %s: unknown",
                          options->device);
    if (lt_parallel_ranks(parallel) > 1 &&
        (options->zero || options->layout || strcmp(options->compress, "none") != 0 ||
         strcmp(options->all_reduce, "library") != 0))
        return tacho_fail(err, TACHO_ENOTSUP, "leave these options out",
                          "--device cuda: ranks only sum their gradients, by NCCL: no --zero, "
                          "--layout, --compress or --all-reduce");
    if (config->optimizer.kind != LT_OPTIMIZER_ADAMW || config->optimizer.lookahead_every > 0 ||
        config->clip_kind != LT_CLIP_NORM || config->centralise)
        return tacho_fail(err, TACHO_ENOTSUP,
                          "--optimizer adamw without --lookahead or --centralise, --clip-by norm",
                          "--device cuda: no such optimizer or clipping");
    if (context->dtype == LT_DTYPE_FP16)
        return tacho_fail(err, TACHO_ENOTSUP, "--dtype bf16 or fp32", "--device cuda: no fp16");
    if (config->watch_every > 0 || config->injection.kind == LT_INJECT_VALUE)
        return tacho_fail(err, TACHO_ENOTSUP, "leave it out, or --device cuda",
                          "--device cuda: %s looks at values in the host's memory",
                          config->watch_every > 0 ? "--watch" : "--inject nan or inf");
    int number = parallel ? lt_parallel_place(parallel)->local_rank : 0;
    return lt_device_open(&context->device, number, err);
}

/* Of each array, what this rank keeps of a checkpoint. */
static size_t own_floats(const struct lt_train_config *config,
                         const struct lt_parameters *parameters, int sharded)
{
    size_t ranks = (size_t)lt_parallel_ranks(config->parallel);
    return sharded ? parameters->count : (size_t)parameters->trainable / ranks;
}

/* What the run will hold: the model's part by its closed form, the optimizer's from the layout of
 * the parameters, the buffers' of several ranks from the gradients, which are 4 bytes a parameter,
 * the loader's from the batches; evaluations have a loader of their own. */
static void plan_memory(struct lt_memory_plan *out, const struct recipe_plan *plan,
                        const struct lt_train_config *config, const struct lt_context *context,
                        const struct input *input)
{
    struct lt_loader_config learn = {.options = config->loader, .b = plan->batch},
                            look = {.options = {.in_order = 1}, .b = plan->batch};
    const struct lt_division_config *division = &config->division;
    struct lt_parameters parameters;
    size_t floats[LT_OPTIMIZER_STATES], scratch;
    *out = (struct lt_memory_plan){0};
    plan->memory(plan->arg, input->source, out, &parameters);
    uint64_t gradients = out->tag[LT_MEMORY_GRADIENTS];
    if (division->shard.stage) {
        size_t own =
            lt_shard_memory(&division->shard, &parameters, lt_layout_copy(&division->layout),
                            lt_layout_copies(&division->layout), context->dtype, out);
        parameters = (struct lt_parameters){.count = own};
    }
    if (config->checkpoint && config->checkpoint_async)
        out->tag[LT_MEMORY_WORKSPACE] += lt_background_bytes(
            &config->optimizer, own_floats(config, &parameters, division->shard.stage > 0));
    lt_local_memory(&config->local, lt_parallel_rank(config->parallel),
                    lt_parallel_ranks(config->parallel), parameters.count, out);
    lt_optimizer_sizes(&config->optimizer, &parameters, floats, &scratch);
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        out->tag[LT_MEMORY_OPTIMIZER] += floats[i] * sizeof(float);
    out->tag[LT_MEMORY_WORKSPACE] += scratch * sizeof(float);
    out->tag[LT_MEMORY_LOADER] = lt_loader_memory(&input->train, &learn);
    if (input->has_held_out)
        out->tag[LT_MEMORY_LOADER] += lt_loader_memory(&input->held_out, &look);
    out->tag[LT_MEMORY_WORKSPACE] +=
        lt_parallel_buffer_bytes(config->parallel, gradients / 4, lt_dtype_on_wire(context->dtype));
}

/* A run while it is prepared: what recipe_train must close again. */
struct training {
    struct lt_train_config config;
    struct lt_context context;
    struct input input;
    struct lt_parallel *parallel;
    struct lt_model *model;
    struct lt_memory_plan memory;
    uint64_t offloaded;        /* bytes in files, which are not in `memory` */
    struct lt_resident before; /* of the process, without the model */
    struct lt_sent_table sent;
};

/* What arrays take beyond their closed forms: cache lines and pages. */
#define ROUNDING 65536.0

/* --memory: what the activations may take is what the rest leaves. */
static int budget_activations(struct training *run, const struct recipe_plan *plan,
                              struct tacho_error *err)
{
    double mib = 1 << 20, most = plan->options->memory;
    if (!(most > 0))
        return 0;
    plan_memory(&run->memory, plan, &run->config, &run->context, &run->input);
    int rc = offload_plan(plan->options, &run->memory, &run->offloaded, err);
    if (rc)
        return rc;
    double rest =
        (double)(lt_memory_plan_total(&run->memory) - run->memory.tag[LT_MEMORY_ACTIVATIONS]);
    if (!(most * mib > rest))
        return tacho_fail(err, TACHO_EUSAGE, "give more, or a smaller model",
                          "--memory %g: all but activations takes %.1f MiB", most, rest / mib);
    return plan->budget(plan->arg, run->input.source, (uint64_t)(most * mib - rest), err);
}

/* Better words now than the kernel's killer later. All ranks of a machine share its memory. */
static int check_memory(const struct lt_memory_plan *plan, struct lt_device *device,
                        const struct lt_parallel *parallel, struct tacho_error *err)
{
    int64_t there = device ? device->available(device) : lt_memory_available();
    int ranks = lt_parallel_place(parallel)->local_ranks;
    double gib = 1 << 30, needed = (double)lt_memory_plan_total(plan) * ranks;
    if (there < 0 || needed <= (double)there)
        return 0;
    return tacho_fail(
        err, TACHO_ENOMEM,
        "choose a smaller model, --batch or --seq, --recompute block or --optimizer sgd",
        "not enough memory: %d rank%s here need%s %.1f GiB, this machine has %.1f GiB left", ranks,
        tacho_plural(ranks), ranks == 1 ? "s" : "", needed / gib, (double)there / gib);
}

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

static void print_memory(const struct lt_memory_plan *plan, uint64_t offloaded)
{
    printf("memory: %.1f MiB predicted:", mib((double)lt_memory_plan_total(plan)));
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        printf("%s %s %.1f", i ? "," : "", lt_memory_name((enum lt_memory_tag)i),
               mib((double)plan->tag[i]));
    if (offloaded)
        printf("; %.1f MiB in files", mib((double)offloaded));
    printf("\n");
}

/* `before`: when there was neither model nor optimizer; peak 0 where that is not known. What the
 * matrix library makes and keeps, code and mapped data are part of the growth: of a small model's
 * they are the larger one, so no percentage is said there. */
static void print_peak(const struct lt_memory_plan *plan, const struct lt_resident *before,
                       const struct lt_device *device)
{
    struct lt_memory memory;
    struct lt_resident now;
    double predicted = (double)lt_memory_plan_total(plan);
    lt_memory_read(&memory);
    printf("memory: %.1f MiB at its peak", mib((double)memory.total_peak));
    if (predicted >= 1 << 20)
        printf(" (%+.2f %% of what was predicted)",
               100 * ((double)memory.total_peak / predicted - 1));
    if (!device && before->peak > 0 && lt_memory_resident(&now) == 0) {
        double grown = (double)(now.peak - before->now), file = (double)(now.file - before->file);
        printf("; the process grew by %.1f MiB", mib(grown));
        if (mib(predicted) >= 1024)
            printf(" (%+.2f %%)", 100 * (grown / predicted - 1));
        else if (file > 0)
            printf(", %.1f of them code and mapped files", mib(file));
    }
    printf("\n");
}

static void print_start(const struct options *options, const struct lt_device *device)
{
    if (device) {
        printf("%s, cuda (%s)\n", options->dtype, device->name);
        return;
    }
    printf("%s, backend %s (%s), %d thread%s, %lld loader worker%s (%s)%s\n", options->dtype,
           options->backend, lt_gemm_library(), lt_threads(), tacho_plural(lt_threads()),
           (long long)options->workers, tacho_plural(options->workers), options->worker_kind,
           options->pin ? " and a pin thread" : "");
    if (strcmp(options->backend, "cpu") == 0 &&
        !lt_gemm_fast((enum lt_dtype)lt_dtype_find(options->dtype)))
        printf(
            "note: %s has no %s GEMMs on this CPU: they are computed in fp32 from rounded values, "
            "which is slower than --dtype fp32\n",
            lt_gemm_library(), options->dtype);
    if (strcmp(options->dtype, lt_dtype_name(LT_DTYPE_FP16)) == 0)
        printf("note: fp16 is emulated: values are rounded to fp16, GEMMs multiply them in fp32\n");
}

/* Before a long run, what its end needs: rank 0 writes checkpoints, each rank its timers. */
static int check_outputs(const struct options *options, const struct lt_parallel *parallel,
                         struct tacho_error *err)
{
    if (options->checkpoint_async && (!options->checkpoint || options->local_steps))
        return tacho_fail(err, TACHO_EUSAGE,
                          "name a file: --checkpoint FILE; leave out --local-steps",
                          "--checkpoint-async: %s",
                          options->checkpoint ? "not with --local-steps" : "no --checkpoint");
    if (options->checkpoint_every && !options->checkpoint)
        return tacho_fail(err, TACHO_EUSAGE, "name the file too: --checkpoint FILE",
                          "--checkpoint-every: no --checkpoint");
    int rc = options->checkpoint && lt_parallel_rank(parallel) == 0
                 ? lt_output_check(options->checkpoint, "--checkpoint", err)
                 : 0;
    if (rc == 0 && options->routing)
        rc = lt_output_check(options->routing, "--routing", err);
    return rc || !options->timers ? rc : lt_output_check(options->timers, "--timers", err);
}

/* Tells the recipe which stage it is to make. */
static int divide(const struct recipe_plan *plan, const struct lt_train_config *config,
                  struct tacho_error *err)
{
    const struct lt_division_config *division = &config->division;
    struct lt_staging staging = division->staging;
    staging.stages = division->layout.pp;
    staging.micro = config->micro_steps;
    struct lt_pass *pass = calloc(lt_stages_count(&staging), sizeof *pass);
    int in_flight = pass ? lt_stages_passes(&staging, division->layout.stage, pass) : TACHO_ENOMEM;
    free(pass);
    if (in_flight < 0)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    if (!plan->divide)
        return tacho_fail(err, TACHO_EUSAGE, "use --layout dpN, or a gpt2, llama or moe model",
                          "--layout: this recipe cannot be divided");
    return plan->divide(plan->arg, &division->layout, &staging, in_flight, err);
}

/* Is the optimizer one for this model? An impossible shape, which has no parameters, is refused
 * when the model is made. */
static int check_optimizer(const struct training *run, const struct recipe_plan *plan,
                           struct tacho_error *err)
{
    /* Not on the stack: the function that trains would keep it, and sampled stacks end there. */
    struct {
        struct lt_memory_plan unused;
        struct lt_parameters parameters;
    } *shape = malloc(sizeof *shape);
    if (!shape)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    plan->memory(plan->arg, run->input.source, &shape->unused, &shape->parameters);
    int rc = shape->parameters.count
                 ? lt_optimizer_check(&run->config.optimizer, &shape->parameters, err)
                 : 0;
    free(shape);
    return rc;
}

/* Opens the data and looks whether the run fits, before any rank takes memory for it. */
static int prepare(struct training *run, const struct recipe_plan *plan, struct tacho_error *err)
{
    const struct options *options = plan->options;
    struct lt_train_config *config = &run->config;
    config->parallel = run->parallel;
    config->division.sent = &run->sent;
    int rc = parallel_division(run->parallel, options, &config->division, err);
    if (rc == 0)
        rc = parallel_micro_steps(run->parallel, options,
                                  lt_layout_streams(&config->division.layout), &config->micro_steps,
                                  &config->micro_steps_all, err);
    rc = rc ? rc : configure_rates(config, options, plan->batch, err);
    if (rc == 0)
        rc = simulated_parse(&config->simulated, NULL, options->simulate, &config->division.layout,
                             lt_parallel_rank(run->parallel), err);
    if (rc == 0 && lt_layout_divides(&config->division.layout))
        rc = divide(plan, config, err);
    if (rc == 0)
        rc = check_outputs(options, run->parallel, err);
    if (rc == 0)
        rc = input_loader(&config->loader, options, err);
    if (rc == 0)
        rc = input_open(&run->input, options, plan->seq, plan->vocab, err);
    if (rc == 0)
        rc = check_optimizer(run, plan, err);
    rc = rc ? rc : budget_activations(run, plan, err);
    if (rc == 0) {
        plan_memory(&run->memory, plan, config, &run->context, &run->input);
        rc = offload_plan(options, &run->memory, &run->offloaded, err);
    }
    if (rc == 0)
        rc = check_memory(&run->memory, run->context.device, run->parallel, err);
    return lt_parallel_agree(run->parallel, rc, err);
}

/* --init, in the place of the model's own values; a checkpoint that is read later wins. */
static int initialise(const struct training *run, const struct options *options,
                      struct tacho_error *err)
{
    int kind = lt_init_find(options->init);
    const struct lt_layout *layout = &run->config.division.layout;
    if (kind < 0)
        return tacho_fail(err, TACHO_EUSAGE, "train --help all lists the kinds",
                          "--init %s: unknown", options->init);
    if (kind != LT_INIT_OWN && (run->context.device || layout->pp * layout->tp * layout->ep > 1))
        return tacho_fail(err, TACHO_ENOTSUP, "leave it out",
                          "--init %s: not on a device, nor where ranks have parts of matrices",
                          options->init);
    lt_init_matrices(&run->model->parameters, (enum lt_init)kind, (uint64_t)options->seed);
    return 0;
}

/* --freeze, of a model that is whole. */
static int freeze(const struct training *run, const struct options *options,
                  struct tacho_error *err)
{
    struct lt_model *model = run->model;
    const struct lt_division_config *division = &run->config.division;
    if (!options->freeze)
        return 0;
    if (options->recompute_every != 1)
        return tacho_fail(err, TACHO_ENOTSUP, "leave out one of them",
                          "--freeze: not with --recompute-every");
    if (!model->ops->freeze || run->context.device || division->shard.stage ||
        !lt_optimizer_parts(&run->config.optimizer))
        return tacho_fail(
            err, TACHO_ENOTSUP,
            "choose an optimizer that updates each element alone, for instance adamw, "
            "without --lookahead, and a model that is whole",
            "--freeze: not with this model, optimizer, device or division");
    if (model->ops->freeze(model, options->freeze))
        return tacho_fail(err, TACHO_EUSAGE, "give a smaller number",
                          "--freeze %lld: the model has fewer blocks", (long long)options->freeze);
    return 0;
}

/* Makes model and trace. The process is measured before, so that its growth can be reported. */
static int make_model(struct training *run, const struct recipe_plan *plan, struct tacho_error *err)
{
    int timers = plan->options->timers != NULL;
    if (lt_memory_resident(&run->before))
        run->before.peak = 0;
    int rc = plan->create(plan->arg, run->input.source, &run->context, &run->model, err);
    rc = rc ? rc : initialise(run, plan->options, err);
    rc = rc ? rc : freeze(run, plan->options, err);
    if (rc == 0 && lt_trace_create(&run->context.trace, lt_op_names(), LT_OP_COUNT, timers))
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    return lt_parallel_agree(run->parallel, rc, err);
}

/* The run itself, with the lines of rank 0 before and after it. */
static int train(struct training *run, const struct recipe_plan *plan, struct tacho_error *err)
{
    struct lt_train_hooks hooks = {.arg = &run->config, .stop = plan->stop};
    FILE *routing = NULL;
    int rc = routing_open(&routing, plan->options->routing, run->model, run->parallel, err);
    rc = lt_parallel_agree(run->parallel, rc, err);
    if (rc) {
        if (routing)
            fclose(routing);
        return rc;
    }
    if (routing)
        hooks.routed = routing_add;
    hooks.routed_arg = routing;
    if (lt_parallel_rank(run->parallel) == 0) {
        hooks.progress = print_progress;
        plan->describe(plan->arg, run->model);
        print_start(plan->options, run->context.device);
        parallel_print(run->parallel, plan->options, &run->config.division, run->model,
                       run->context.dtype);
        print_memory(&run->memory, run->offloaded);
        fflush(stdout);
    }
    rc = lt_train(run->model, &run->input.train,
                  run->input.has_held_out ? &run->input.held_out : NULL, &run->context,
                  &run->config, &hooks, err);
    if (rc == 0)
        rc = routing_close(routing, plan->options->routing, err);
    else if (routing)
        fclose(routing);
    if (rc == 0 && lt_parallel_rank(run->parallel) == 0) {
        parallel_print_sent(run->parallel, plan->options, &run->sent);
        print_peak(&run->memory, &run->before, run->context.device);
    }
    if (rc == 0 && plan->options->timers)
        rc = parallel_timers(run->parallel, run->context.trace, plan->options->timers, err);
    return lt_parallel_order_end(run->parallel, rc, err);
}

void error_say(struct tacho_error *err)
{
    if (!err->what[0])
        return;
    fprintf(stderr, "train: %s\n", err->what);
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", err->hint);
    fflush(stderr);
    err->what[0] = '\0';
}

int recipe_train(const struct recipe_plan *plan, struct tacho_error *err)
{
    struct training run = {0};
    int rc = configure_run(&run.config, plan->options, err);
    rc = rc ? rc : offload_open(plan->options, err);
    if (rc == 0)
        rc = configure_context(&run.context, plan->options, err);
    if (rc == 0)
        rc = parallel_open(&run.parallel, plan->options, &run.config.injection.call, err);
    if (rc == 0)
        rc = open_device(&run.context, plan->options, &run.config, run.parallel, err);
    if (rc == 0)
        rc = prepare(&run, plan, err);
    if (rc == 0)
        rc = make_model(&run, plan, err);
    if (rc == 0)
        rc = train(&run, plan, err);
    lt_trace_destroy(run.context.trace);
    lt_model_destroy(run.model);
    lt_device_close(run.context.device);
    input_close(&run.input);
    if (rc && run.parallel) /* before the ranks part: mpirun kills the others when the first ends */
        error_say(err);
    lt_parallel_close(run.parallel);
    return rc;
}
