/* SPDX-License-Identifier: Apache-2.0
 *
 * INPUT_STALL: the step waits for its batch. What to change follows from what limits the loader:
 * loading on the step's own thread, too few workers, a serial stage, the cores, or single batches
 * that come late. The gain is a ceiling (the step without its wait) until the change is replayed.
 * Where workers would take from the step what they bring, a cheaper batch is left to be tried.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

/* Of the wait: the batch time and the workers are its cause when they explain this much. */
#define EXPLAINED 0.5
/* Of the bytes that loaders asked for: so much from storage is more than what caches miss. */
#define UNCACHED 0.1
/* Workers for each core: more of them than that have something else to wait for than a core. */
#define MANY_PER_CORE 4
/* Of the data wait: workers that take so much away keep up with the step. */
#define KEEPS_UP 0.8

/* ---- what binds ------------------------------------------------------------------------------ */

enum cause {
    CAUSE_IN_LINE,
    CAUSE_WORKERS,
    CAUSE_STORAGE,
    CAUSE_COLD,
    CAUSE_PIN,
    CAUSE_INTERPRETER,
    CAUSE_CORES,
    CAUSE_QUEUE,
    CAUSE_UNEVEN,
    CAUSE_UNKNOWN
};

/* Batches that the reference engine makes at a time at most, however many workers it has. */
static int64_t engine_batches(const struct an_context *context)
{
    return an_command_prefetch(context) + 1;
}

/* Do batches wait for reads that storage has to serve one by one, far below its sequential rate? */
static bool reads_are_cold(const struct an_loader *loader)
{
    double stages = 0, read = 0;
    for (size_t i = 0; i < loader->stage_count; i++) {
        double ms = an_value_or_0(loader->stages[i].ms_per_batch);
        if (!strcmp(loader->stages[i].name, "read"))
            read = ms;
        if (strcmp(loader->stages[i].name, "queue_wait"))
            stages += ms;
    }
    return read > 0 && read >= stages / 2 && loader->read_bytes_per_s.valid &&
           an_value_or_0(loader->device_bytes_per_s) >= UNCACHED * loader->read_bytes_per_s.value;
}

/* Decides why batches are late, by the model of the loader (loader_model.c): a serial stage first,
 * then the queue, the number of workers and the cores. */
static enum cause cause_of(const struct an_context *context)
{
    const struct an_loader *loader = &context->result->loader;
    const struct an_count *workers = &loader->workers, *needed = &loader->workers_needed;
    if (loader->serial && !strcmp(loader->serial, "storage"))
        return CAUSE_STORAGE;
    if (loader->serial)
        return strcmp(loader->serial, "pin") ? CAUSE_INTERPRETER : CAUSE_PIN;

    if (workers->valid && !workers->value)
        return CAUSE_IN_LINE;
    if (!workers->valid || !needed->valid)
        return CAUSE_UNKNOWN;
    if (an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN &&
        workers->value > engine_batches(context))
        return CAUSE_QUEUE;
    if (needed->value > workers->value)
        return reads_are_cold(loader) ? CAUSE_COLD : CAUSE_WORKERS;
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

/* ---- the action ------------------------------------------------------------------------------ */

struct advice {
    const char *action, *option, *effort, *wrong_when, *what_if;
};

static const char *workers_option(struct an_context *context, enum an_framework framework,
                                  int64_t workers)
{
    if (framework == AN_FRAMEWORK_LIBTRAIN && workers > engine_batches(context))
        return an_finding_text(context, "--workers %" PRId64 " --prefetch %" PRId64, workers,
                               workers);
    if (framework == AN_FRAMEWORK_LIBTRAIN)
        return an_finding_text(context, "--workers %" PRId64, workers);
    if (framework == AN_FRAMEWORK_TORCH)
        return an_finding_text(context, "DataLoader(num_workers=%" PRId64 ")", workers);
    return an_finding_text(context, "%" PRId64 " loader workers", workers);
}

/* Why so many workers: what keeps up with the step is known, or only how many cores there are. More
 * than the cores could run work only as far as what they wait for serves all of them. `gone`: the
 * part of the data wait that the replay expects to go, NAN: not replayed. */
static const char *workers_reason(struct an_context *context, int64_t workers, double gone)
{
    const struct an_count *cores = &context->result->run.cores;
    const struct an_loader *loader = &context->result->loader;
    if (gone < KEEPS_UP)
        return an_finding_text(context,
                               "%.0f %% of the data wait is expected to go; workers and step share "
                               "the cores",
                               100 * fmax(0, gone));
    if (loader->workers_wanted.valid && loader->workers_wanted.value > workers)
        return an_finding_text(
            context, "as many as the cores allow; %" PRId64 " would keep up with the step",
            loader->workers_wanted.value);
    if (loader->workers_needed.valid && cores->valid && cores->value > 0 &&
        workers > MANY_PER_CORE * cores->value)
        return an_finding_text(context,
                               "begin with %" PRId64
                               " and add more while the wait shrinks; %" PRId64
                               " keep up with the step if storage serves as many requests at once",
                               MANY_PER_CORE * cores->value, workers);
    if (loader->workers_needed.valid)
        return an_finding_text(context, "%" PRId64 " keep%s up with the step", workers,
                               workers == 1 ? "s" : "");
    if (cores->valid)
        return an_finding_text(context, "at most the %" PRId64 " usable cores", cores->value);
    return "as many as there are free cores";
}

/* Advice where the loader needs workers, or more of them; `gone` as above. */
static struct advice more_workers(struct an_context *context, enum an_framework framework,
                                  bool in_line, double gone)
{
    const struct an_loader *loader = &context->result->loader;
    bool torch = framework == AN_FRAMEWORK_TORCH;
    struct advice advice = {.effort = "a setting of the loader",
                            .wrong_when =
                                "the workers would take cores or memory bandwidth from the step, "
                                "or storage cannot read faster than it does"};
    int64_t today = loader->workers.valid ? loader->workers.value : 0;
    int64_t wanted = torch ? 4 : today + 1;
    if (loader->workers_needed.valid)
        wanted = loader->workers_needed.value > today ? loader->workers_needed.value : today + 1;
    advice.option = workers_option(context, framework, wanted);
    advice.what_if = an_finding_text(context, "loader.workers=%" PRId64, wanted);
    if (framework == AN_FRAMEWORK_LIBTRAIN && wanted > engine_batches(context))
        advice.what_if =
            an_finding_text(context, "%s,loader.prefetch=%" PRId64, advice.what_if, wanted);
    const char *reason = workers_reason(context, wanted, gone);
    if (in_line && torch)
        advice.action = an_finding_text(
            context, "load batches in workers: DataLoader(num_workers=%" PRId64 "%s); %s", wanted,
            context->gpu ? ", pin_memory=True" : "", reason);
    else if (in_line)
        advice.action =
            an_finding_text(context, "load batches in workers: %s (%s)", advice.option, reason);
    else if (loader->workers_needed.valid)
        advice.action =
            an_finding_text(context, "more loader workers: %s instead of %" PRId64 " (%s)",
                            advice.option, today, reason);
    else if (torch)
        advice.action = "more loader workers or a cheaper batch: DataLoader(num_workers=..., "
                        "prefetch_factor=..., persistent_workers=True)";
    else
        advice.action = an_finding_text(
            context, "more loader workers or a cheaper batch: %s instead of %" PRId64,
            advice.option, today);
    return advice;
}

static struct advice cheaper_stage(struct an_context *context, const struct an_stage *stage)
{
    const char *name = stage ? stage->name : "loader";
    return (struct advice){.action = an_finding_text(
                               context,
                               "make the stage %s cheaper, or do it once before the run: all cores "
                               "are in use, and more workers would take them from the step",
                               name),
                           .option = "the cheaper stage",
                           .effort = "some lines of code, or prepared data",
                           .wrong_when = "the step is as fast on fewer cores"};
}

static struct advice storage_advice(struct an_context *context)
{
    return (struct advice){
        .action = an_finding_text(
            context,
            "read less or read it once: pack small files into one, keep the data in memory or on "
            "faster storage (it reads at %.0f %% of its measured rate)",
            100 * context->result->loader.access_ratio.value),
        .option = "the data packed or cached",
        .effort = "prepared data, or other storage",
        .wrong_when = "another program uses the same storage"};
}

/* Reads that wait for storage: how many it serves at a time is not known, so workers may gain
 * nothing. */
static struct advice cold_advice(struct an_context *context, enum an_framework framework)
{
    return (struct advice){
        .action = an_finding_text(
            context,
            "reads wait for storage: keep the data in memory (read it once before the run), or "
            "pack small files into a few large ones; %s helps only if storage serves as many reads "
            "at once",
            workers_option(context, framework, context->result->loader.workers_needed.value)),
        .option = "the data in memory or packed",
        .effort = "prepared data, or more memory",
        .wrong_when = "these were the first reads of data that the page cache holds from now on: "
                      "record more than one epoch",
        .what_if = "loader.read=0"};
}

static struct advice pin_advice(enum an_framework framework)
{
    struct advice advice = {
        .action = "smaller batches for the pin thread, or pin inside the workers' own buffers",
        .option = "another way to pin",
        .effort = "a setting of the loader",
        .wrong_when = "the copy to the device would then take longer than what is saved"};
    if (framework == AN_FRAMEWORK_LIBTRAIN) {
        advice.action = "skip the copy into the staging buffer: run without --pin";
        advice.option = "without --pin";
    }
    return advice;
}

static struct advice processes_advice(enum an_framework framework)
{
    struct advice advice = {.action = "use worker processes",
                            .option = "worker processes",
                            .effort = "a setting of the loader",
                            .wrong_when =
                                "the stages release the interpreter lock (NumPy, decoders in C)"};
    if (framework == AN_FRAMEWORK_TORCH) {
        advice.action =
            "use worker processes: DataLoader(num_workers=...), not threads of one interpreter";
    } else if (framework == AN_FRAMEWORK_LIBTRAIN) {
        advice.action = "use worker processes: --worker-kind processes";
        advice.option = "--worker-kind processes";
    }
    return advice;
}

/* A deeper queue; `few`: workers have no place to put a batch. At least two batches ahead for each
 * worker. */
static struct advice prefetch_advice(struct an_context *context, enum an_framework framework,
                                     bool few)
{
    const struct an_count *known = &context->result->loader.workers;
    int64_t workers = known->valid ? known->value : 0, ahead = 4 * workers;
    const char *queue = "a deeper queue", *setting = "";
    if (framework == AN_FRAMEWORK_LIBTRAIN) {
        int64_t twice = 2 * an_command_prefetch(context);
        ahead = twice > 2 * workers ? twice : 2 * workers;
        queue = an_finding_text(context, "--prefetch %" PRId64, ahead);
        setting = an_finding_text(context, ", %s", queue);
    } else if (framework == AN_FRAMEWORK_TORCH) {
        setting = ", DataLoader(prefetch_factor=4)";
    }
    const char *why =
        few ? an_finding_text(context,
                              "only %" PRId64 " of %" PRId64 " workers make a batch at a time, "
                              "because the queue has no place for more",
                              engine_batches(context), workers)
            : "single batches arrive late although the workers keep up on average";
    return (struct advice){
        .action = an_finding_text(context, "%s: use a deeper queue%s", why, setting),
        .option = queue,
        .effort = "a setting of the loader",
        .wrong_when =
            "the workers lose their cores to the step: then a deeper queue fills no faster",
        .what_if =
            workers > 0 ? an_finding_text(context, "loader.prefetch=%" PRId64, ahead) : NULL};
}

/* Chooses the advice for the cause; more workers where nothing else is known. `gone` as above. */
static struct advice advise(struct an_context *context, enum cause cause,
                            const struct an_stage *stage, double gone)
{
    enum an_framework framework = an_command_framework(context);
    switch (cause) {
    case CAUSE_STORAGE:
        return storage_advice(context);
    case CAUSE_COLD:
        return cold_advice(context, framework);
    case CAUSE_PIN:
        return pin_advice(framework);
    case CAUSE_INTERPRETER:
        return processes_advice(framework);
    case CAUSE_CORES:
        return cheaper_stage(context, stage);
    case CAUSE_QUEUE:
    case CAUSE_UNEVEN:
        return prefetch_advice(context, framework, cause == CAUSE_QUEUE);
    default:
        return more_workers(context, framework, cause == CAUSE_IN_LINE, gone);
    }
}

/* ---- the finding ----------------------------------------------------------------------------- */

static const char *wait_words(struct an_context *context, const struct an_class_share *share,
                              double step_ms, double wait_ms)
{
    if (!isfinite(share->half))
        return an_finding_text(context, "data wait %s (%s)",
                               an_time_words(context->arena, wait_ms, 3), an_window_text(context));
    return an_finding_text(context, "data wait %s a step, in %zu of %zu steps (%s)",
                           an_time_spread(context->arena, wait_ms, step_ms * share->half / 100),
                           share->touched, share->steps, an_window_text(context));
}

/* Evidence: what a batch costs, compared with the rest of the step, which workers can hide it
 * behind. */
static const char *batch_words(struct an_context *context, double rest)
{
    const struct an_loader *loader = &context->result->loader;
    if (!loader->batch_ms.valid || !loader->batches_per_step.valid)
        return NULL;
    const char *many = "";
    if (loader->batches_per_step.value > 1.005)
        many = an_finding_text(context, ", %s batches a step",
                               an_number_words(context->arena, loader->batches_per_step.value, 3));

    if (loader->workers.valid && !loader->workers.value)
        return an_finding_text(context,
                               "a batch takes %s on the step's thread%s, the rest of the step %s",
                               an_time_words(context->arena, loader->batch_ms.value, 3), many,
                               an_time_words(context->arena, rest, 3));
    return an_finding_text(context, "a batch takes a worker %s%s, the rest of the step takes %s",
                           an_time_words(context->arena, loader->batch_ms.value, 3), many,
                           an_time_words(context->arena, rest, 3));
}

/* Evidence: number and kind of the workers, how busy they are and how full the queue is. */
static const char *worker_words(struct an_context *context)
{
    const struct an_loader *loader = &context->result->loader;
    if (!loader->workers.valid)
        return NULL;
    const char *text = an_finding_text(context, "loader workers: %" PRId64, loader->workers.value);
    if (loader->workers.value && loader->worker_kind)
        text = an_finding_text(context, "%s (%s)", text, loader->worker_kind);
    if (loader->worker_busy_pct.valid)
        text = an_finding_text(context, "%s, busy %.0f %%", text, loader->worker_busy_pct.value);
    if (loader->queue_depth_mean.valid)
        text = an_finding_text(context, "%s, mean queue depth %.2f", text,
                               loader->queue_depth_mean.value);
    return text;
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
        if (!most || rank->wait_ms_per_step.value > most->wait_ms_per_step.value)
            most = rank;
        if (!least || rank->wait_ms_per_step.value < least->wait_ms_per_step.value)
            least = rank;
    }
    if (!most || most == least)
        return NULL;
    return an_finding_text(
        context, "rank %" PRId64 " waits most: %s a step, rank %" PRId64 " %s", most->rank,
        an_time_words(context->arena, most->wait_ms_per_step.value, 3), least->rank,
        an_time_words(context->arena, least->wait_ms_per_step.value, 3));
}

static const char *formula_words(struct an_context *context)
{
    const struct an_value *expected = &context->result->loader.expected_wait_ms_per_step;
    if (!expected->valid)
        return NULL;
    return an_finding_text(context, "the cost of a batch and the workers explain a wait of %s",
                           an_time_words(context->arena, expected->value, 3));
}

/* How much of what was read came from storage. */
static const char *cold_words(struct an_context *context)
{
    const struct an_loader *loader = &context->result->loader;
    return an_finding_text(context, "the loader asked for %s/s; storage delivered %s/s",
                           an_bytes_text(context, loader->read_bytes_per_s.value),
                           an_bytes_text(context, loader->device_bytes_per_s.value));
}

/* The wait, the batch, the workers, the slowest stage and the ranks. */
static void input_evidence(struct an_context *context, enum cause cause,
                           const struct an_class_share *share, double step_ms, double wait_ms,
                           struct an_finding *finding)
{
    const struct an_stage *stage = binding_stage(&context->result->loader);
    an_finding_evidence(finding, wait_words(context, share, step_ms, wait_ms));
    an_finding_evidence(finding, batch_words(context, step_ms - wait_ms));
    an_finding_evidence(finding, worker_words(context));
    if (stage)
        an_finding_note(context, finding, "largest loader stage: %s, %s a batch", stage->name,
                        an_time_words(context->arena, stage->ms_per_batch.value, 3));
    an_finding_fetch_lines(context, finding);
    an_finding_evidence(finding, rank_words(context));
    an_finding_evidence(finding,
                        cause == CAUSE_COLD ? cold_words(context) : formula_words(context));
}

/* Puts the advice into the finding, with a ceiling: `removed` of `whole` goes. */
static void take_advice(struct an_context *context, const struct advice *advice, double whole,
                        double removed, const char *why_ceiling, struct an_finding *finding)
{
    finding->action = advice->action;
    finding->effort = advice->effort;
    finding->wrong_when = advice->wrong_when;
    finding->what_if = advice->what_if;
    finding->setting = advice->option;
    finding->verify = an_finding_text(context, "%s, and read the row data wait",
                                      an_command_rerun(context, advice->option));
    an_finding_ceiling(finding, whole, removed, why_ceiling);
}

/* ---- the check ------------------------------------------------------------------------------- */

int an_findings_input(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    struct an_class_share share;
    if (an_findings_restarted(findings))
        return 0;
    if (budget->reason || !budget->pct[AN_CLASS_INPUT].valid)
        return 0;
    if (an_class_share(context, AN_CLASS_INPUT, &share))
        return TACHO_ENOMEM;
    if (!an_class_share_matters(&share))
        return 0;
    double step_ms = an_budget_step_ms(budget),
           wait_ms = step_ms * budget->pct[AN_CLASS_INPUT].value / 100;
    enum cause cause = cause_of(context);
    const struct an_stage *stage = binding_stage(&context->result->loader);
    const struct advice advice = advise(context, cause, stage, NAN);
    struct an_finding *finding = an_findings_add(
        findings, "INPUT_STALL",
        an_finding_text(context, "the step waits %s for its batch, %.1f %% of its time",
                        an_time_words(context->arena, wait_ms, 3),
                        budget->pct[AN_CLASS_INPUT].value));
    input_evidence(context, cause, &share, step_ms, wait_ms, finding);
    if (cause == CAUSE_UNEVEN) /* concluded from the absence of the other causes */
        an_finding_at_most_medium(finding);
    take_advice(context, &advice, step_ms, wait_ms,
                "a ceiling has no expected value: the loader was not replayed", finding);
    finding->method = "ceiling \"no data wait\": step / (step - wait) - 1; nothing was replayed";
    return 0;
}

/* The part of the data wait that goes if the finding's gain comes true as expected; NAN: nothing is
 * expected. */
static double part_gone(const struct an_context *context, const struct an_gain *gain)
{
    double wait = an_value_or_0(context->result->budget.pct[AN_CLASS_INPUT]) / 100;
    return gain->expected.valid && wait > 0 ? (1 - 1 / (1 + gain->expected.value / 100)) / wait
                                            : NAN;
}

/* The replay expects nothing of workers: the step uses the cores that they need. */
static void without_workers(struct an_context *context, struct an_finding *finding)
{
    const struct an_stage *stage = binding_stage(&context->result->loader);
    const struct advice advice = cheaper_stage(context, stage);
    double wait = context->result->budget.pct[AN_CLASS_INPUT].value;
    finding->method = an_finding_text(
        context,
        "ceiling \"no data wait\": step / (step - wait) - 1; of %s the replay expects %+.1f %%",
        finding->setting, finding->gain.expected.value);
    finding->replay = (struct an_what_if){0};
    take_advice(context, &advice, 100, wait,
                "a ceiling has no expected value: how much cheaper the stage can be is not known",
                finding);
}

void an_findings_input_replayed(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    enum cause cause = cause_of(context);
    for (size_t i = 0; i < findings->count; i++) {
        struct an_finding *finding = &findings->found[i];
        if (strcmp(finding->id, "INPUT_STALL") != 0 || !finding->replay.edit)
            continue;
        const struct an_value *expected = &finding->gain.expected;
        if (cause == CAUSE_IN_LINE && finding->setting && expected->valid && expected->value <= 0)
            without_workers(context, finding);
        else
            finding->action = advise(context, cause, binding_stage(&context->result->loader),
                                     part_gone(context, &finding->gain))
                                  .action;
    }
}
