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
#include "analyzers/findings/findings.h"

#define PREFETCH     4   /* batches made ahead by train where the command does not say */
#define COMMAND_MOST 600 /* characters: a longer one is no line to read */
#define FILE_MOST    160 /* characters of a name that is quoted */
#define EXPLAINED \
    0.5 /* of the wait: what the batch time and the workers must explain to be its cause */

enum an_framework an_findings_framework(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    for (size_t k = 0; k < context->lane_count; k++) {
        if (context->lane[k].track == AN_NONE)
            continue;
        const struct an_track *track = &trace->track[context->lane[k].track];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            const char *domain = an_trace_name(trace, trace->slice.category[i]);
            if (!strcmp(domain, "libtrain"))
                return AN_FRAMEWORK_LIBTRAIN;
            if (!strcmp(domain, "torch") ||
                !strncmp(an_trace_name(trace, trace->slice.name[i]), "aten::", 6))
                return AN_FRAMEWORK_TORCH;
        }
    }
    return context->result->loader.source && strcmp(context->result->loader.source, "tacho.range")
               ? AN_FRAMEWORK_TORCH
               : AN_FRAMEWORK_OTHER;
}

/* One word of a command for a shell. */
static const char *shell_word(struct an_context *context, const char *word)
{
    size_t n = strlen(word);
    bool plain =
        n &&
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") ==
            n;
    if (plain)
        return an_arena_text(context->arena, word);
    char *out = an_arena_zero(context->arena, 4 * n + 3, 1), *at = out;
    if (!out)
        return "";
    *at++ = '\'';
    for (; *word; word++) {
        if (*word == '\'') {
            memcpy(at, "'\\''", 4);
            at += 4;
        } else {
            *at++ = *word;
        }
    }
    *at = '\'';
    return out;
}

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

bool an_findings_option_given(const struct an_context *context, const char *option)
{
    const char *text = an_trace_key(context->trace, "command");
    json_t *words = text ? json_loads(text, 0, NULL) : NULL;
    bool given = false;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *w = json_string_value(json_array_get(words, i));
        given = given || (w && !strcmp(w, option));
    }
    json_decref(words);
    return given;
}

const char *an_findings_command(struct an_context *context, const char *option)
{
    const char *text = an_trace_key(context->trace, "command"), *line = "";
    size_t n = strcspn(option, " "), i;
    bool valued = option[n] == ' ';
    json_t *words = text ? json_loads(text, 0, NULL) : NULL, *word;
    if (!json_is_array(words)) {
        json_decref(words);
        return text && *text != '[' ? an_arena_text(context->arena, text) : NULL;
    }
    for (i = 0; i < json_array_size(words); i++) {
        word = json_array_get(words, i);
        const char *w = json_is_string(word) ? json_string_value(word) : "";
        if (*option == '-' && strlen(w) == n && !strncmp(w, option, n)) {
            i += valued;
            continue;
        }
        line = an_arena_format(context->arena, "%s%s%s", line, *line ? " " : "",
                               shell_word(context, w));
    }
    json_decref(words);
    return line;
}

/* What starts tacho on every rank, where the command is that of one rank of a job; else "". */
static const char *launcher_words(struct an_context *context)
{
    const char *name = an_trace_key(context->trace, "job.launcher"),
               *ranks = an_trace_key(context->trace, "job.ranks");
    if (!name || !ranks || !*ranks || strspn(ranks, "0123456789") != strlen(ranks))
        return "";
    const char *how = !strcmp(name, "torchrun") ? "torchrun --no-python --nproc-per-node"
                      : !strcmp(name, "slurm")  ? "srun -n"
                                                : "mpirun -np";
    return an_arena_format(context->arena, "%s %s ", how, ranks);
}

const char *an_findings_rerun(struct an_context *context, const char *option)
{
    bool without = !strncmp(option, "without --", 10); /* a flag that goes */
    const char *file =
        context->result->run.file && *context->result->run.file ? context->result->run.file : "RUN";
    const char *command = an_findings_command(context, without ? option + 8 : option),
               *on_ranks = launcher_words(context);
    const char *q =
        command && strchr(command, '`') ? "" : "`"; /* marks the command in the sentence */
    file = strlen(file) <= FILE_MOST ? shell_word(context, file) : file;
    if (!command || !*command || strlen(command) > COMMAND_MOST)
        return an_arena_format(context->arena,
                               "record it again %s%s as AFTER; `tacho diff %.200s AFTER`",
                               without ? "" : "with ", option, file);
    if (without)
        return an_arena_format(
            context->arena, "%s%stacho run -o after.tacho -- %s; tacho diff %.200s after.tacho%s",
            q, on_ranks, command, file, q);
    if (*option ==
        '-') { /* a name of its own for each option: several are tried one after the other */
        int n = (int)strcspn(option + 2, " ");
        return an_arena_format(
            context->arena,
            "%s%stacho run -o after-%.*s.tacho -- %s %s; tacho diff %.200s after-%.*s.tacho%s", q,
            on_ranks, n, option + 2, command, option, file, n, option + 2, q);
    }
    return an_arena_format(
        context->arena,
        "with %s: %s%stacho run -o after.tacho -- %s; tacho diff %.200s after.tacho%s", option, q,
        on_ranks, command, file, q);
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
    enum an_framework framework = an_findings_framework(context);
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
                               an_time_words(context->arena, wait_ms, 3),
                               an_findings_window(context));
    return an_arena_format(context->arena, "input %s a step, in %zu of %zu steps (%s)",
                           an_time_spread(context->arena, wait_ms, step_ms * share->half / 100),
                           share->touched, share->steps, an_findings_window(context));
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
                                      an_findings_rerun(context, advice.option));
    an_finding_ceiling(finding, step_ms, wait_ms,
                       "a ceiling has no expected value: the loader was not replayed");
    return 0;
}
