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

enum an_framework an_findings_framework(const struct an_context *c)
{
    const struct an_trace *t = c->t;
    for (size_t k = 0; k < c->lane_count; k++) {
        if (c->lane[k].track == AN_NONE)
            continue;
        const struct an_track *track = &t->track[c->lane[k].track];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            const char *domain = an_trace_name(t, t->slice.category[i]);
            if (!strcmp(domain, "libtrain"))
                return AN_FRAMEWORK_LIBTRAIN;
            if (!strcmp(domain, "torch") ||
                !strncmp(an_trace_name(t, t->slice.name[i]), "aten::", 6))
                return AN_FRAMEWORK_TORCH;
        }
    }
    return c->r->loader.source && strcmp(c->r->loader.source, "tacho.range") ? AN_FRAMEWORK_TORCH
                                                                             : AN_FRAMEWORK_OTHER;
}

/* One word of a command for a shell. */
static const char *shell_word(struct an_context *c, const char *word)
{
    size_t n = strlen(word);
    bool plain =
        n &&
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") ==
            n;
    if (plain)
        return an_arena_text(c->a, word);
    char *out = an_arena_zero(c->a, 4 * n + 3, 1), *at = out;
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
static long command_number(const struct an_context *c, const char *option, long otherwise)
{
    const char *text = an_trace_key(c->t, "command");
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

bool an_findings_option_given(const struct an_context *c, const char *option)
{
    const char *text = an_trace_key(c->t, "command");
    json_t *words = text ? json_loads(text, 0, NULL) : NULL;
    bool given = false;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *w = json_string_value(json_array_get(words, i));
        given = given || (w && !strcmp(w, option));
    }
    json_decref(words);
    return given;
}

const char *an_findings_command(struct an_context *c, const char *option)
{
    const char *text = an_trace_key(c->t, "command"), *line = "";
    size_t n = strcspn(option, " "), i;
    bool valued = option[n] == ' ';
    json_t *words = text ? json_loads(text, 0, NULL) : NULL, *word;
    if (!json_is_array(words)) {
        json_decref(words);
        return text && *text != '[' ? an_arena_text(c->a, text) : NULL;
    }
    for (i = 0; i < json_array_size(words); i++) {
        word = json_array_get(words, i);
        const char *w = json_is_string(word) ? json_string_value(word) : "";
        if (*option == '-' && strlen(w) == n && !strncmp(w, option, n)) {
            i += valued;
            continue;
        }
        line = an_arena_format(c->a, "%s%s%s", line, *line ? " " : "", shell_word(c, w));
    }
    json_decref(words);
    return line;
}

/* What starts tacho on every rank, where the command is that of one rank of a job; else "". */
static const char *launcher_words(struct an_context *c)
{
    const char *name = an_trace_key(c->t, "job.launcher"), *ranks = an_trace_key(c->t, "job.ranks");
    if (!name || !ranks || !*ranks || strspn(ranks, "0123456789") != strlen(ranks))
        return "";
    const char *how = !strcmp(name, "torchrun") ? "torchrun --no-python --nproc-per-node"
                      : !strcmp(name, "slurm")  ? "srun -n"
                                                : "mpirun -np";
    return an_arena_format(c->a, "%s %s ", how, ranks);
}

const char *an_findings_rerun(struct an_context *c, const char *option)
{
    bool without = !strncmp(option, "without --", 10); /* a flag that goes */
    const char *file = c->r->run.file && *c->r->run.file ? c->r->run.file : "RUN";
    const char *command = an_findings_command(c, without ? option + 8 : option),
               *on_ranks = launcher_words(c);
    const char *q =
        command && strchr(command, '`') ? "" : "`"; /* marks the command in the sentence */
    file = strlen(file) <= FILE_MOST ? shell_word(c, file) : file;
    if (!command || !*command || strlen(command) > COMMAND_MOST)
        return an_arena_format(c->a, "record it again %s%s as AFTER; `tacho diff %.200s AFTER`",
                               without ? "" : "with ", option, file);
    if (without)
        return an_arena_format(
            c->a, "%s%stacho run -o after.tacho -- %s; tacho diff %.200s after.tacho%s", q,
            on_ranks, command, file, q);
    if (*option ==
        '-') { /* a name of its own for each option: several are tried one after the other */
        int n = (int)strcspn(option + 2, " ");
        return an_arena_format(
            c->a,
            "%s%stacho run -o after-%.*s.tacho -- %s %s; tacho diff %.200s after-%.*s.tacho%s", q,
            on_ranks, n, option + 2, command, option, file, n, option + 2, q);
    }
    return an_arena_format(
        c->a, "with %s: %s%stacho run -o after.tacho -- %s; tacho diff %.200s after.tacho%s",
        option, q, on_ranks, command, file, q);
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

static enum cause cause_of(const struct an_loader *l)
{
    const struct an_count *workers = &l->workers, *needed = &l->workers_needed;
    if (l->serial)
        return !strcmp(l->serial, "storage") ? CAUSE_STORAGE
               : !strcmp(l->serial, "pin")   ? CAUSE_PIN
                                             : CAUSE_INTERPRETER;
    if (workers->valid && !workers->value)
        return CAUSE_IN_LINE;
    if (!workers->valid || !needed->valid)
        return CAUSE_UNKNOWN;
    if (needed->value > workers->value)
        return CAUSE_WORKERS;
    if (l->workers_wanted.valid && l->workers_wanted.value > workers->value)
        return CAUSE_CORES;
    bool explained = l->expected_wait_ms_per_step.valid && l->wait_ms_per_step.valid &&
                     l->expected_wait_ms_per_step.value >= EXPLAINED * l->wait_ms_per_step.value;
    return explained ? CAUSE_WORKERS : CAUSE_UNEVEN;
}

/* Largest loader stage by own time, or NULL. */
static const struct an_stage *binding_stage(const struct an_loader *l)
{
    const struct an_stage *most = NULL;
    for (size_t i = 0; i < l->stage_count; i++)
        if (strcmp(l->stages[i].name, "queue_wait") && l->stages[i].ms_per_batch.valid &&
            (!most || l->stages[i].ms_per_batch.value > most->ms_per_batch.value))
            most = &l->stages[i];
    return most;
}

/* ---- the action --------------------------------------------------------------------------------------------------------- */

struct advice {
    const char *action, *option, *effort, *wrong_when, *what_if;
};

static const char *workers_option(struct an_context *c, enum an_framework f, int64_t n)
{
    if (f == AN_FRAMEWORK_LIBTRAIN)
        return an_arena_format(c->a, "--workers %" PRId64, n);
    return an_arena_format(c->a,
                           f == AN_FRAMEWORK_TORCH ? "DataLoader(num_workers=%" PRId64 ")"
                                                   : "%" PRId64 " loader workers",
                           n);
}

static struct advice more_workers(struct an_context *c, enum an_framework f, bool in_line)
{
    const struct an_loader *l = &c->r->loader;
    const struct an_count *cores = &c->r->run.cores;
    bool torch = f == AN_FRAMEWORK_TORCH;
    struct advice x = {.effort = "a setting of the loader",
                       .wrong_when = "the workers would take cores or memory bandwidth from the "
                                     "step, or storage cannot read "
                                     "faster than it does"};
    int64_t have = l->workers.valid ? l->workers.value : 0;
    int64_t n = l->workers_needed.valid ? l->workers_needed.value : torch ? 4 : have + 1;
    x.option = workers_option(c, f, n);
    x.what_if = an_arena_format(c->a, "loader.workers=%" PRId64, n);
    const char *known =
        l->workers_needed.valid
            ? an_arena_format(c->a, "%" PRId64 " keep%s up with the step", n, n == 1 ? "s" : "")
        : cores->valid ? an_arena_format(c->a, "at most the %" PRId64 " usable cores", cores->value)
                       : "as many as there are free cores";
    if (in_line && torch)
        x.action = an_arena_format(c->a,
                                   "give the loader workers: DataLoader(num_workers=%" PRId64
                                   ", pin_memory=True): %s",
                                   n, known);
    else if (in_line)
        x.action = an_arena_format(
            c->a, "move loading off the step's thread, give the loader workers: %s (%s)", x.option,
            known);
    else if (l->workers_needed.valid)
        x.action = an_arena_format(c->a, "more loader workers: %s instead of %" PRId64 " (%s)",
                                   x.option, have, known);
    else
        x.action = "more loader workers or a cheaper batch: DataLoader(num_workers=..., "
                   "prefetch_factor=..., "
                   "persistent_workers=True)";
    return x;
}

static struct advice cheaper_stage(struct an_context *c, const struct an_stage *stage)
{
    const char *name = stage ? stage->name : "loader";
    return (struct advice){.action = an_arena_format(
                               c->a,
                               "make the stage %s cheaper, or do it once before the run: the cores "
                               "are all in use, more workers would take them from the step",
                               name),
                           .option = "the cheaper stage",
                           .effort = "some lines of code, or prepared data",
                           .wrong_when = "the step itself could do with fewer cores"};
}

static struct advice storage_advice(struct an_context *c)
{
    return (struct advice){
        .action = an_arena_format(
            c->a,
            "read less or read it once: pack small files into one, keep the data in "
            "memory or on faster storage (it reads at %.0f %% of its measured rate)",
            100 * c->r->loader.access_ratio.value),
        .option = "the data packed or cached",
        .effort = "prepared data, or other storage",
        .wrong_when = "another program uses the same storage"};
}

static struct advice pin_advice(enum an_framework f)
{
    return (struct advice){
        .action =
            f == AN_FRAMEWORK_LIBTRAIN
                ? "leave out the copy into the staging buffer: run without --pin"
                : "smaller batches for the pin thread, or pin inside the workers' own buffers",
        .option = f == AN_FRAMEWORK_LIBTRAIN ? "without --pin" : "another way to pin",
        .effort = "a setting of the loader",
        .wrong_when = "the copy to the device would then take longer than what is saved"};
}

static struct advice processes_advice(struct an_context *c, enum an_framework f)
{
    bool torch = f == AN_FRAMEWORK_TORCH;
    return (struct advice){
        .action =
            torch ? "workers that are processes: DataLoader(num_workers=...), not threads of one "
                    "interpreter"
                  : an_arena_format(c->a, "workers that are processes%s",
                                    f == AN_FRAMEWORK_LIBTRAIN ? ": --worker-kind processes" : ""),
        .option = f == AN_FRAMEWORK_LIBTRAIN ? "--worker-kind processes" : "worker processes",
        .effort = "a setting of the loader",
        .wrong_when = "the stages leave the interpreter lock (NumPy, decoders in C)"};
}

static struct advice prefetch_advice(struct an_context *c, enum an_framework f)
{
    bool torch = f == AN_FRAMEWORK_TORCH, lib = f == AN_FRAMEWORK_LIBTRAIN;
    const char *deeper =
        an_arena_format(c->a, "--prefetch %ld", 2 * command_number(c, "--prefetch", PREFETCH));
    return (struct advice){
        .action = torch ? "batches come late one at a time although the workers keep up on "
                          "average: a deeper "
                          "queue, DataLoader(prefetch_factor=4)"
                  : lib ? an_arena_format(
                              c->a,
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

static struct advice advise(struct an_context *c, enum cause cause, const struct an_stage *stage)
{
    enum an_framework f = an_findings_framework(c);
    switch (cause) {
    case CAUSE_STORAGE:
        return storage_advice(c);
    case CAUSE_PIN:
        return pin_advice(f);
    case CAUSE_INTERPRETER:
        return processes_advice(c, f);
    case CAUSE_CORES:
        return cheaper_stage(c, stage);
    case CAUSE_UNEVEN:
        return prefetch_advice(c, f);
    default:
        return more_workers(c, f, cause == CAUSE_IN_LINE);
    }
}

/* ---- the finding -------------------------------------------------------------------------------------------------------- */

static const char *wait_words(struct an_context *c, const struct an_class_share *s, double step_ms,
                              double wait_ms)
{
    if (!isfinite(s->half))
        return an_arena_format(c->a, "input %s (%s)", an_time_words(c->a, wait_ms, 3),
                               an_findings_window(c));
    return an_arena_format(c->a, "input %s a step, in %zu of %zu steps (%s)",
                           an_time_spread(c->a, wait_ms, step_ms * s->half / 100), s->touched,
                           s->steps, an_findings_window(c));
}

static const char *batch_words(struct an_context *c, double rest)
{
    const struct an_loader *l = &c->r->loader;
    if (!l->batch_ms.valid || !l->batches_per_step.valid)
        return NULL;
    const char *many = l->batches_per_step.value > 1.005
                           ? an_arena_format(c->a, ", %s batches a step",
                                             an_number_words(c->a, l->batches_per_step.value, 3))
                           : "";
    if (l->workers.valid && !l->workers.value)
        return an_arena_format(
            c->a, "a batch takes %s on the step's thread%s, the rest of the step %s",
            an_time_words(c->a, l->batch_ms.value, 3), many, an_time_words(c->a, rest, 3));
    return an_arena_format(c->a, "a batch takes a worker %s%s, the rest of the step takes %s",
                           an_time_words(c->a, l->batch_ms.value, 3), many,
                           an_time_words(c->a, rest, 3));
}

static const char *worker_words(struct an_context *c)
{
    const struct an_loader *l = &c->r->loader;
    if (!l->workers.valid)
        return NULL;
    const char *busy = l->worker_busy_pct.valid
                           ? an_arena_format(c->a, ", busy %.0f %%", l->worker_busy_pct.value)
                           : "";
    const char *depth = l->queue_depth_mean.valid ? an_arena_format(c->a, ", mean queue depth %.2f",
                                                                    l->queue_depth_mean.value)
                                                  : "";
    return an_arena_format(
        c->a, "loader workers: %" PRId64 "%s%s%s", l->workers.value,
        l->workers.value && l->worker_kind ? an_arena_format(c->a, " (%s)", l->worker_kind) : "",
        busy, depth);
}

/* The rank whose loader is slowest, where they differ. */
static const char *rank_words(struct an_context *c)
{
    const struct an_loader *l = &c->r->loader;
    const struct an_loader_rank *most = NULL, *least = NULL;
    for (size_t i = 0; i < l->rank_count; i++) {
        const struct an_loader_rank *k = &l->ranks[i];
        if (!k->wait_ms_per_step.valid)
            continue;
        most = !most || k->wait_ms_per_step.value > most->wait_ms_per_step.value ? k : most;
        least = !least || k->wait_ms_per_step.value < least->wait_ms_per_step.value ? k : least;
    }
    if (!most || most == least)
        return NULL;
    return an_arena_format(c->a, "rank %" PRId64 " waits most: %s a step, rank %" PRId64 " %s",
                           most->rank, an_time_words(c->a, most->wait_ms_per_step.value, 3),
                           least->rank, an_time_words(c->a, least->wait_ms_per_step.value, 3));
}

static const char *formula_words(struct an_context *c)
{
    const struct an_value *v = &c->r->loader.expected_wait_ms_per_step;
    return v->valid ? an_arena_format(c->a, "its cost and the workers explain a wait of %s",
                                      an_time_words(c->a, v->value, 3))
                    : NULL;
}

int an_findings_input(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    const struct an_budget *b = &c->r->budget;
    const struct an_loader *loader = &c->r->loader;
    struct an_class_share s;
    if (b->reason || !b->pct[AN_CLASS_INPUT].valid)
        return 0;
    if (an_class_share(c, AN_CLASS_INPUT, &s))
        return TACHO_ENOMEM;
    if (!an_class_share_matters(&s)) {
        an_findings_checked(l, "steps waiting for the data loader");
        return 0;
    }
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6,
           wait_ms = step_ms * b->pct[AN_CLASS_INPUT].value / 100;
    const struct an_stage *stage = binding_stage(loader);
    const struct advice x = advise(c, cause_of(loader), stage);
    struct an_finding *f = an_findings_add(
        l, "INPUT_STALL",
        an_arena_format(c->a, "the step waits %s for its batch, %.1f %% of its time",
                        an_time_words(c->a, wait_ms, 3), b->pct[AN_CLASS_INPUT].value));
    an_finding_evidence(f, wait_words(c, &s, step_ms, wait_ms));
    an_finding_evidence(f, batch_words(c, step_ms - wait_ms));
    an_finding_evidence(f, worker_words(c));
    if (stage)
        an_finding_evidence(f, an_arena_format(c->a, "largest loader stage: %s, %s a batch",
                                               stage->name,
                                               an_time_words(c->a, stage->ms_per_batch.value, 3)));
    an_finding_evidence(f, rank_words(c));
    an_finding_evidence(f, formula_words(c));
    if (cause_of(loader) == CAUSE_UNEVEN && f->confidence > AN_MEDIUM)
        f->confidence = AN_MEDIUM; /* the cause is what the others are not */
    f->action = x.action;
    f->effort = x.effort;
    f->wrong_when = x.wrong_when;
    f->what_if = x.what_if;
    f->method = "ceiling \"no wait for input\": step / (step - wait) - 1; nothing was replayed";
    f->verify = an_arena_format(c->a, "%s, and read the row input", an_findings_rerun(c, x.option));
    an_finding_ceiling(f, step_ms, wait_ms,
                       "a ceiling has no expected value: the loader was not replayed");
    return 0;
}
