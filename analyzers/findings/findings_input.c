/* SPDX-License-Identifier: Apache-2.0
 *
 * INPUT_STALL: the step waits for its batch. What to change follows from what binds: a loader in
 * line, too few workers, a serial stage, the cores, or batches that come late one at a time. The
 * gain is a ceiling: the step without its wait.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define PREFETCH 4 /* batches made ahead by train where the command does not say */
#define EXPLAINED \
    0.5 /* of the wait: what the batch time and the workers must explain to be its cause */

/* The word behind the last `option` of the run's command as a number, else `otherwise`. */
static long command_number(const struct an_context *context, const char *option, long otherwise)
{
    const char *text = an_trace_key(context->trace, "command");
    json_t *words = text ? json_loads(text, 0, NULL) : NULL;
    for (size_t i = 0; i + 1 < json_array_size(words); i++) {
        const char *w = json_string_value(json_array_get(words, i)),
                   *value = json_string_value(json_array_get(words, i + 1));
        if (w && value && !strcmp(w, option))
            otherwise = strtol(value, NULL, 10);
    }
    json_decref(words);
    return otherwise;
}

/* ---- what binds --------------------------------------------------------------------------------------------------------- */

enum cause {
    CAUSE_IN_LINE,
    CAUSE_WORKERS,
    CAUSE_STORAGE,
    CAUSE_PIN,
    CAUSE_INTERPRETER,
    CAUSE_CORES,
    CAUSE_UNEVEN,
    CAUSE_UNKNOWN
};

static enum cause cause_of(const struct an_loader *loader)
{
    const struct an_count *workers = &loader->workers, *needed = &loader->workers_needed;
    if (loader->serial)
        return !strcmp(loader->serial, "storage") ? CAUSE_STORAGE
               : !strcmp(loader->serial, "pin")   ? CAUSE_PIN
                                                  : CAUSE_INTERPRETER;
    if (workers->valid && !workers->value)
        return CAUSE_IN_LINE;
    if (!workers->valid || !needed->valid)
        return CAUSE_UNKNOWN;
    if (needed->value > workers->value)
        return CAUSE_WORKERS;
    if (loader->workers_wanted.valid && loader->workers_wanted.value > workers->value)
        return CAUSE_CORES;
    bool explained =
        loader->expected_wait_ms_per_step.valid && loader->wait_ms_per_step.valid &&
        loader->expected_wait_ms_per_step.value >= EXPLAINED * loader->wait_ms_per_step.value;
    return explained ? CAUSE_WORKERS : CAUSE_UNEVEN;
}

/* Largest loader stage by own time, or NULL. */
static const struct an_stage *binding_stage(const struct an_loader *loader)
{
    const struct an_stage *most = NULL;
    for (size_t i = 0; i < loader->stage_count; i++)
        if (strcmp(loader->stages[i].name, "queue_wait") && loader->stages[i].ms_per_batch.valid &&
            (!most || loader->stages[i].ms_per_batch.value > most->ms_per_batch.value))
            most = &loader->stages[i];
    return most;
}

/* ---- the action --------------------------------------------------------------------------------------------------------- */

struct advice {
    const char *action, *option, *effort, *wrong_when, *what_if;
};

static const char *workers_option(struct an_context *context, enum an_framework framework,
                                  int64_t n)
{
    if (framework == AN_FRAMEWORK_LIBTRAIN)
        return an_arena_format(context->arena, "--workers %" PRId64, n);
    return an_arena_format(context->arena,
                           framework == AN_FRAMEWORK_TORCH ? "DataLoader(num_workers=%" PRId64 ")"
                                                           : "%" PRId64 " loader workers",
                           n);
}

static struct advice more_workers(struct an_context *context, enum an_framework framework,
                                  bool in_line)
{
    const struct an_loader *loader = &context->result->loader;
    const struct an_count *cores = &context->result->run.cores;
    bool torch = framework == AN_FRAMEWORK_TORCH;
    struct advice advice = {.effort = "a setting of the loader",
                            .wrong_when =
                                "the workers would take cores or memory bandwidth from the "
                                "step, or storage cannot read "
                                "faster than it does"};
    int64_t have = loader->workers.valid ? loader->workers.value : 0;
    int64_t n = loader->workers_needed.valid ? loader->workers_needed.value : torch ? 4 : have + 1;
    advice.option = workers_option(context, framework, n);
    advice.what_if = an_arena_format(context->arena, "loader.workers=%" PRId64, n);
    const char *known =
        loader->workers_needed.valid
            ? an_arena_format(context->arena, "%" PRId64 " keep%s up with the step", n,
                              n == 1 ? "s" : "")
        : cores->valid
            ? an_arena_format(context->arena, "at most the %" PRId64 " usable cores", cores->value)
            : "as many as there are free cores";
    if (in_line && torch)
        advice.action = an_arena_format(context->arena,
                                        "give the loader workers: DataLoader(num_workers=%" PRId64
                                        ", pin_memory=True): %s",
                                        n, known);
    else if (in_line)
        advice.action = an_arena_format(
            context->arena, "move loading off the step's thread, give the loader workers: %s (%s)",
            advice.option, known);
    else if (loader->workers_needed.valid)
        advice.action =
            an_arena_format(context->arena, "more loader workers: %s instead of %" PRId64 " (%s)",
                            advice.option, have, known);
    else
        advice.action = "more loader workers or a cheaper batch: DataLoader(num_workers=..., "
                        "prefetch_factor=..., "
                        "persistent_workers=True)";
    return advice;
}

static struct advice cheaper_stage(struct an_context *context, const struct an_stage *stage)
{
    const char *name = stage ? stage->name : "loader";
    return (struct advice){.action = an_arena_format(
                               context->arena,
                               "make the stage %s cheaper, or do it once before the run: the cores "
                               "are all in use, more workers would take them from the step",
                               name),
                           .option = "the cheaper stage",
                           .effort = "some lines of code, or prepared data",
                           .wrong_when = "the step itself could do with fewer cores"};
}

static struct advice storage_advice(struct an_context *context)
{
    return (struct advice){
        .action = an_arena_format(
            context->arena,
            "read less or read it once: pack small files into one, keep the data in "
            "memory or on faster storage (it reads at %.0f %% of its measured rate)",
            100 * context->result->loader.access_ratio.value),
        .option = "the data packed or cached",
        .effort = "prepared data, or other storage",
        .wrong_when = "another program uses the same storage"};
}

static struct advice pin_advice(enum an_framework framework)
{
    return (struct advice){
        .action =
            framework == AN_FRAMEWORK_LIBTRAIN
                ? "leave out the copy into the staging buffer: run without --pin"
                : "smaller batches for the pin thread, or pin inside the workers' own buffers",
        .option = framework == AN_FRAMEWORK_LIBTRAIN ? "without --pin" : "another way to pin",
        .effort = "a setting of the loader",
        .wrong_when = "the copy to the device would then take longer than what is saved"};
}

static struct advice processes_advice(struct an_context *context, enum an_framework framework)
{
    bool torch = framework == AN_FRAMEWORK_TORCH;
    return (struct advice){
        .action =
            torch ? "workers that are processes: DataLoader(num_workers=...), not threads of one "
                    "interpreter"
                  : an_arena_format(context->arena, "workers that are processes%s",
                                    framework == AN_FRAMEWORK_LIBTRAIN ? ": --worker-kind processes"
                                                                       : ""),
        .option =
            framework == AN_FRAMEWORK_LIBTRAIN ? "--worker-kind processes" : "worker processes",
        .effort = "a setting of the loader",
        .wrong_when = "the stages leave the interpreter lock (NumPy, decoders in C)"};
}

static struct advice prefetch_advice(struct an_context *context, enum an_framework framework)
{
    bool torch = framework == AN_FRAMEWORK_TORCH, lib = framework == AN_FRAMEWORK_LIBTRAIN;
    const char *deeper = an_arena_format(context->arena, "--prefetch %ld",
                                         2 * command_number(context, "--prefetch", PREFETCH));
    return (struct advice){
        .action = torch ? "batches come late one at a time although the workers keep up on "
                          "average: a deeper "
                          "queue, DataLoader(prefetch_factor=4)"
                  : lib ? an_arena_format(
                              context->arena,
                              "batches come late one at a time although the workers keep up on "
                              "average: a deeper queue, %s",
                              deeper)
                        : "batches come late one at a time although the workers keep up on "
                          "average: a deeper "
                          "queue",
        .option = lib ? deeper : "a deeper queue",
        .effort = "a setting of the loader",
        .wrong_when =
            "the workers lose their cores to the step: then a deeper queue fills no faster"};
}

static struct advice advise(struct an_context *context, enum cause cause,
                            const struct an_stage *stage)
{
    enum an_framework framework = an_command_framework(context);
    switch (cause) {
    case CAUSE_STORAGE:
        return storage_advice(context);
    case CAUSE_PIN:
        return pin_advice(framework);
    case CAUSE_INTERPRETER:
        return processes_advice(context, framework);
    case CAUSE_CORES:
        return cheaper_stage(context, stage);
    case CAUSE_UNEVEN:
        return prefetch_advice(context, framework);
    default:
        return more_workers(context, framework, cause == CAUSE_IN_LINE);
    }
}

/* ---- the finding -------------------------------------------------------------------------------------------------------- */

static const char *wait_words(struct an_context *context, const struct an_class_share *share,
                              double step_ms, double wait_ms)
{
    if (!isfinite(share->half))
        return an_arena_format(context->arena, "input %s (%s)",
                               an_time_words(context->arena, wait_ms, 3), an_window_text(context));
    return an_arena_format(context->arena, "input %s a step, in %zu of %zu steps (%s)",
                           an_time_spread(context->arena, wait_ms, step_ms * share->half / 100),
                           share->touched, share->steps, an_window_text(context));
}

static const char *batch_words(struct an_context *context, double rest)
{
    const struct an_loader *loader = &context->result->loader;
    if (!loader->batch_ms.valid || !loader->batches_per_step.valid)
        return NULL;
    const char *many =
        loader->batches_per_step.value > 1.005
            ? an_arena_format(context->arena, ", %s batches a step",
                              an_number_words(context->arena, loader->batches_per_step.value, 3))
            : "";
    if (loader->workers.valid && !loader->workers.value)
        return an_arena_format(context->arena,
                               "a batch takes %s on the step's thread%s, the rest of the step %s",
                               an_time_words(context->arena, loader->batch_ms.value, 3), many,
                               an_time_words(context->arena, rest, 3));
    return an_arena_format(context->arena,
                           "a batch takes a worker %s%s, the rest of the step takes %s",
                           an_time_words(context->arena, loader->batch_ms.value, 3), many,
                           an_time_words(context->arena, rest, 3));
}

static const char *worker_words(struct an_context *context)
{
    const struct an_loader *loader = &context->result->loader;
    if (!loader->workers.valid)
        return NULL;
    const char *busy =
        loader->worker_busy_pct.valid
            ? an_arena_format(context->arena, ", busy %.0f %%", loader->worker_busy_pct.value)
            : "";
    const char *depth = loader->queue_depth_mean.valid
                            ? an_arena_format(context->arena, ", mean queue depth %.2f",
                                              loader->queue_depth_mean.value)
                            : "";
    return an_arena_format(context->arena, "loader workers: %" PRId64 "%s%s%s",
                           loader->workers.value,
                           loader->workers.value && loader->worker_kind
                               ? an_arena_format(context->arena, " (%s)", loader->worker_kind)
                               : "",
                           busy, depth);
}

/* The rank whose loader is slowest, where they differ. */
static const char *rank_words(struct an_context *context)
{
    const struct an_loader *loader = &context->result->loader;
    const struct an_loader_rank *most = NULL, *least = NULL;
    for (size_t i = 0; i < loader->rank_count; i++) {
        const struct an_loader_rank *rank = &loader->ranks[i];
        if (!rank->wait_ms_per_step.valid)
            continue;
        most = !most || rank->wait_ms_per_step.value > most->wait_ms_per_step.value ? rank : most;
        least =
            !least || rank->wait_ms_per_step.value < least->wait_ms_per_step.value ? rank : least;
    }
    if (!most || most == least)
        return NULL;
    return an_arena_format(
        context->arena, "rank %" PRId64 " waits most: %s a step, rank %" PRId64 " %s", most->rank,
        an_time_words(context->arena, most->wait_ms_per_step.value, 3), least->rank,
        an_time_words(context->arena, least->wait_ms_per_step.value, 3));
}

static const char *formula_words(struct an_context *context)
{
    const struct an_value *v = &context->result->loader.expected_wait_ms_per_step;
    return v->valid
               ? an_arena_format(context->arena, "its cost and the workers explain a wait of %s",
                                 an_time_words(context->arena, v->value, 3))
               : NULL;
}

int an_findings_input(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    const struct an_loader *loader = &context->result->loader;
    struct an_class_share share;
    if (budget->reason || !budget->pct[AN_CLASS_INPUT].valid)
        return 0;
    if (an_class_share(context, AN_CLASS_INPUT, &share))
        return TACHO_ENOMEM;
    if (!an_class_share_matters(&share)) {
        an_findings_checked(findings, "steps waiting for the data loader");
        return 0;
    }
    double step_ms = (double)budget->step_ns / (double)budget->steps / 1e6,
           wait_ms = step_ms * budget->pct[AN_CLASS_INPUT].value / 100;
    const struct an_stage *stage = binding_stage(loader);
    const struct advice advice = advise(context, cause_of(loader), stage);
    struct an_finding *finding = an_findings_add(
        findings, "INPUT_STALL",
        an_arena_format(context->arena, "the step waits %s for its batch, %.1f %% of its time",
                        an_time_words(context->arena, wait_ms, 3),
                        budget->pct[AN_CLASS_INPUT].value));
    an_finding_evidence(finding, wait_words(context, &share, step_ms, wait_ms));
    an_finding_evidence(finding, batch_words(context, step_ms - wait_ms));
    an_finding_evidence(finding, worker_words(context));
    if (stage)
        an_finding_evidence(
            finding,
            an_arena_format(context->arena, "largest loader stage: %s, %s a batch", stage->name,
                            an_time_words(context->arena, stage->ms_per_batch.value, 3)));
    an_finding_evidence(finding, rank_words(context));
    an_finding_evidence(finding, formula_words(context));
    if (cause_of(loader) == CAUSE_UNEVEN && finding->confidence > AN_MEDIUM)
        finding->confidence = AN_MEDIUM; /* the cause is what the others are not */
    finding->action = advice.action;
    finding->effort = advice.effort;
    finding->wrong_when = advice.wrong_when;
    finding->what_if = advice.what_if;
    finding->method =
        "ceiling \"no wait for input\": step / (step - wait) - 1; nothing was replayed";
    finding->verify = an_arena_format(context->arena, "%s, and read the row input",
                                      an_command_rerun(context, advice.option));
    an_finding_ceiling(finding, step_ms, wait_ms,
                       "a ceiling has no expected value: the loader was not replayed");
    return 0;
}
