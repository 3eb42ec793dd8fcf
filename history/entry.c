/* SPDX-License-Identifier: Apache-2.0
 *
 * What the history keeps of an analyzed run.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/diff/diff.h"
#include "analyzers/steps/change.h"
#include "history/made.h"

#define NAMES_MOST 64 /* operators, and device work, the largest; the classes have the rest */

static void add_value(struct history_made *made, const char *kind, const char *name,
                      const char *unit, struct an_value value)
{
    if (value.valid)
        history_made_add(made, kind, name, unit, value.value);
}

static void add_count(struct history_made *made, const char *kind, const char *name,
                      const char *unit, struct an_count count)
{
    if (count.valid)
        history_made_add(made, kind, name, unit, (double)count.value);
}

/* ---- what was run, and where ------------------------------------------------------------------ */

/* The words of the recorded command, the program without its folder. NULL: not known. */
static json_t *command_words(const struct an_run *run)
{
    const char *command = an_run_key(run, "command");
    json_t *words = command ? json_loads(command, 0, NULL) : NULL;
    const char *program = json_string_value(json_array_get(words, 0));
    const char *slash = program ? strrchr(program, '/') : NULL;
    if (slash && slash[1])
        json_array_set_new(words, 0, json_string(slash + 1));
    if (json_array_size(words))
        return words;
    json_decref(words);
    return NULL;
}

static const char *string_or_empty(const json_t *text)
{
    return json_is_string(text) ? json_string_value(text) : "";
}

/* Appends words of a list, or the names and texts of an object, with a separator before each. */
static void print_words(FILE *out, const json_t *json)
{
    const char *name;
    json_t *text;
    size_t i;
    if (json_is_object(json)) {
        json_object_foreach((json_t *)json, name, text)
            fprintf(out, "%s=%s ", name, string_or_empty(text));
    } else {
        json_array_foreach(json, i, text) fprintf(out, i ? " %s" : "%s", string_or_empty(text));
    }
}

/* Ends a text that was printed into memory; NULL: no memory. */
static char *printed(FILE *out, char **text)
{
    if (fclose(out) == 0)
        return *text;
    free(*text);
    return NULL;
}

/* "OMP_NUM_THREADS=2 train gpt2-tiny --steps 60 (2 ranks)". The caller's; NULL: no memory. */
static char *recipe_text(const struct an_run *run)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    const char *recorded = an_run_key(run, "environment");
    json_t *environment = recorded ? json_loads(recorded, JSON_DECODE_ANY, NULL) : NULL;
    json_t *variables = an_change_variables(environment, NULL), *words = command_words(run);
    print_words(out, variables);
    if (words)
        print_words(out, words);
    else
        fputs(*run->program ? run->program : "unknown command", out);
    if (run->ranks > 1)
        fprintf(out, " (%" PRId64 " ranks)", run->ranks);
    json_decref(words);
    json_decref(variables);
    json_decref(environment);
    return printed(out, &text);
}

/* "Intel Xeon, 2 cores, 24 GiB, 8 x NVIDIA H100". The caller's; NULL: no memory. */
static char *host_text(const struct an_result *result)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    const struct an_run *run = &result->run;
    const char *model = an_run_key(run, "cpu.model"), *memory = an_run_key(run, "memory.bytes");
    fputs(model ? model : "unknown processor", out);
    if (run->cores.valid)
        fprintf(out, ", %" PRId64 " core%s", run->cores.value, tacho_plural(run->cores.value));
    if (memory)
        fprintf(out, ", %.0f GiB", strtod(memory, NULL) / (1 << 30));
    for (size_t i = 0, same; i < result->gpu_count; i += same) {
        for (same = 1; i + same < result->gpu_count; same++)
            if (strcmp(result->gpus[i].name, result->gpus[i + same].name) != 0)
                break;
        fprintf(out, ", %zu x %s", same, *result->gpus[i].name ? result->gpus[i].name : "device");
    }
    return printed(out, &text);
}

/* Keys of `run` that say with what a program ran: compared when two runs differ. */
static bool is_environment(const char *key)
{
    static const char *const exact[] = {"host", "kernel", "environment", "tacho.version"};
    static const char *const begin[] = {"cpu.", "cuda.",  "torch",   "python.version",
                                        "jax",  "nccl.",  "driver.", "gpu.",
                                        "job.", "limit.", "mpi.",    "hook.version"};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (!strcmp(key, exact[i]))
            return true;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(key, begin[i], strlen(begin[i])))
            return true;
    return false;
}

/* A JSON object of texts. The caller's; NULL: no memory. */
static char *environment_text(const struct an_run *run)
{
    json_t *object = json_object();
    for (size_t i = 0; i < run->key_count; i++)
        if (is_environment(run->keys[i].key))
            json_object_set_new(object, run->keys[i].key, json_string(run->keys[i].value));
    char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(object);
    return text;
}

/* Tells runs apart: host, boot and the time at which recording began. */
static void make_key(const struct an_run *run, struct history_entry *entry)
{
    char text[512];
    const char *boot = an_run_key(run, "boot_id");
    snprintf(text, sizeof text, "%s|%s|%" PRId64, run->host, boot ? boot : "", entry->begun_ns);
    history_hash(text, entry->key);
}

/* ---- its numbers ------------------------------------------------------------------------------- */

static void add_steps(struct history_made *made, const struct an_result *result)
{
    const struct an_steps *steps = &result->steps;
    add_value(made, "step", "mean", "ms", steps->mean_ms);
    add_value(made, "step", "median", "ms", steps->median_ms);
    add_value(made, "step", "p95", "ms", steps->p95_ms);
    add_value(made, "step", "between steps", "ms", steps->between_ms);
    add_value(made, "rate", "tokens", "1/s", steps->tokens_per_s);
    add_value(made, "rate", "samples", "1/s", steps->samples_per_s);
    add_value(made, "work", "tokens", "", steps->tokens_per_step);
    add_value(made, "work", "samples", "", steps->samples_per_step);
    const struct an_utilization *use = &result->utilization;
    add_count(made, "work", "model FLOPs", "FLOP", use->model_flops_per_step);
    add_count(made, "work", "executed FLOPs", "FLOP", use->hardware_flops_per_step);
    add_value(made, "utilization", "mfu", "%", use->mfu);
    add_value(made, "utilization", "hfu", "%", use->hfu);
    add_count(made, "memory", "peak", "B", result->memory.peak_bytes);
    add_count(made, "memory", "resident peak", "B", result->memory.resident_peak_bytes);
}

static void add_budget(struct history_made *made, const struct an_budget *budget)
{
    if (budget->reason || budget->steps <= 0)
        return;
    AN_EACH_CLASS(class)
        if (budget->ns[class].valid)
            history_made_add(made, "class", an_class_key((enum an_class) class), "ms",
                             (double)budget->ns[class].value / 1e6 / (double)budget->steps);
}

/* Operators, device work and loader stages, from the values of each step. */
static void add_samples(struct history_made *made, const struct an_samples *samples)
{
    static const char *const kinds[AN_DIFF_KIND_COUNT] = {
        [AN_DIFF_LOADER] = "loader", [AN_DIFF_OP] = "operator", [AN_DIFF_KERNEL] = "kernel"};
    int64_t kept[AN_DIFF_KIND_COUNT] = {0};
    for (size_t i = 0; samples && samples->detailed && i < samples->row_count; i++) {
        const struct an_sample *row = &samples->rows[i];
        if (kinds[row->kind] && kept[row->kind]++ < NAMES_MOST)
            history_made_add(made, kinds[row->kind], row->name, "ms",
                             row->step_ns / 1e6 / (double)samples->detailed);
    }
}

/* What each rank spends without waiting for others: a slow rank lengthens the steps of all. */
static void add_ranks(struct history_made *made, const struct an_ranks *ranks)
{
    char name[32];
    for (size_t i = 0; !ranks->reason && i < ranks->row_count; i++) {
        snprintf(name, sizeof name, "%" PRId64, ranks->row[i].rank);
        add_value(made, "rank", name, "ms", ranks->row[i].own_ms);
    }
}

static void add_phases(struct history_made *made, const struct an_result *result)
{
    for (size_t i = 0; i < result->phase_count && result->steps.counted > 0; i++)
        history_made_add(made, "phase", result->phases[i].name, "ms",
                         result->phases[i].exposed_ms / (double)result->steps.counted);
}

/* How long a whole run took, and whether it failed: any end but an exit status of 0 and Ctrl-C. */
static void add_end(struct history_made *made, const struct an_run *run)
{
    if (run->live || run->window || !run->exit_status.valid || !run->duration_s.valid)
        return;
    int64_t status = run->exit_status.value;
    history_made_add(made, "run", "hours", "h", run->duration_s.value / 3600);
    history_made_add(made, "run", "failed", "", status && status != 128 + SIGINT);
}

static void add_step_times(struct history_made *made, const struct an_samples *samples)
{
    if (!samples || !samples->steps)
        return;
    size_t count = samples->steps < HISTORY_SAMPLES ? samples->steps : HISTORY_SAMPLES;
    float *step_ms = history_made_samples(made, count);
    for (size_t i = 0; step_ms && i < count; i++)
        step_ms[i] = (float)samples->step_ms[i * samples->steps / count];
}

static int add_row(void *sum, const struct history_row *row)
{
    double *count = sum; /* [0] rows, [1] their values */
    if (!isnan(row->value)) {
        count[0]++;
        count[1] += row->value;
    }
    return 0;
}

int history_failures_read(struct history *history, const struct an_result *result,
                          struct history_failures *out, struct tacho_error *err)
{
    struct history_entry *entry;
    double hours[2] = {0}, failed[2] = {0};
    int rc = history_entry_of(result, NULL, &entry);
    if (rc)
        return tacho_fail(err, rc, NULL, "%s: %s", result->run.file, tacho_error_text(rc));
    struct history_filter filter = {
        .recipe = entry->recipe, .host = entry->host, .kind = "run", .name = "hours"};
    rc = history_each(history, &filter, add_row, hours, err);
    filter.name = "failed";
    if (!rc)
        rc = history_each(history, &filter, add_row, failed, err);
    history_entry_free(entry);
    *out = (struct history_failures){.runs = failed[0], .failed = failed[1], .hours = hours[1]};
    return rc;
}

int history_entry_of(const struct an_result *result, const char *commit, struct history_entry **out)
{
    *out = NULL;
    const struct an_run *run = &result->run;
    const char *begun = an_run_key(run, "start.realtime_ns");
    if (!begun || result->steps.counted <= 0)
        return TACHO_EFORMAT;
    struct history_made *made = history_made_new();
    if (!made)
        return TACHO_ENOMEM;
    struct history_entry *entry = &made->entry;
    entry->begun_ns = strtoll(begun, NULL, 10);
    entry->steps = result->steps.counted;
    make_key(run, entry);
    entry->recipe_text = history_made_own(made, recipe_text(run));
    entry->host_text = history_made_own(made, host_text(result));
    entry->environment = history_made_own(made, environment_text(run));
    char *file = realpath(run->file, NULL); /* NULL: it was moved meanwhile */
    entry->file = file ? history_made_own(made, file) : NULL;
    entry->verdict = history_made_copy(made, result->verdict);
    entry->commit = history_made_copy(made, commit);
    add_steps(made, result);
    add_budget(made, &result->budget);
    add_samples(made, result->samples);
    add_ranks(made, &result->ranks);
    add_phases(made, result);
    add_end(made, run);
    add_step_times(made, result->samples);
    if (!made->failed) {
        history_hash(entry->recipe_text, entry->recipe);
        history_hash(entry->host_text, entry->host);
    }
    return history_made_end(made, out);
}
