/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of analyzers and the frame in which they run. It loads the run, builds what all of
 * them share (clocks, devices), runs them in the order of the table and adds what belongs to the
 * run as a whole.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/analyzers.h"
#include "analyzers/collectives/clocks.h"
#include "analyzers/device/api.h"
#include "analyzers/device/device.h"
#include "analyzers/steps/command.h"
#include "analyzers/table.h"
#include "analyzers/trace/trace_part.h"
#include "analyzers/work/ceilings.h"
#include "analyzers/work/gemm_curve.h"

static const struct an_analyzer *const analyzers[] = {
#define ANALYZER_ROW(name) &name,
    AN_ANALYZER_MAP(ANALYZER_ROW)
#undef ANALYZER_ROW
};
#define CPUS_MOST 4096 /* that a list of CPUs may name */
#define ANALYZERS (sizeof analyzers / sizeof *analyzers)

const struct an_listing *an_list(void)
{
    static struct an_listing list[ANALYZERS + 1];
    for (size_t i = 0; i < ANALYZERS; i++)
        list[i] = (struct an_listing){analyzers[i]->name, analyzers[i]->help};
    return list;
}

/* Index of the analyzer whose name is these `length` characters; `count` if there is none. */
static size_t index_of(const struct an_analyzer *const *table, size_t count, const char *name,
                       size_t length)
{
    size_t i = 0;
    while (i < count && (strlen(table[i]->name) != length || memcmp(table[i]->name, name, length)))
        i++;
    return i;
}

int an_order_check(const struct an_analyzer *const *table, size_t count, struct tacho_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = table[i]->after ? table[i]->after : "";
        for (size_t length; *name; name += length + strspn(name + length, ", ")) {
            length = strcspn(name, ",");
            size_t before = index_of(table, count, name, length);
            if (before >= i)
                return tacho_fail(
                    err, TACHO_EINTERNAL, NULL,
                    "the analyzer \"%s\" must run after \"%.*s\", which %s in the table",
                    table[i]->name, (int)length, name,
                    before == count ? "is not" : "does not come before it");
        }
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------ */

/* Counts the processes that run steps. *first: the first of them, or the first of all; NULL: there
 * are no processes. */
static int find_ranks(const struct an_context *context, int64_t *ranks,
                      const struct an_process **first)
{
    const struct an_trace *trace = context->trace;
    bool *runs_steps = an_arena_zero(context->arena, trace->process_count + 1, sizeof *runs_steps);
    if (!runs_steps)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].process != AN_NONE)
            runs_steps[context->lane[i].process] = true;
    *first = NULL;
    for (size_t process = 0; process < trace->process_count; process++) {
        if (runs_steps[process] && !(*ranks)++)
            *first = &trace->process[process];
    }
    if (!*first && trace->process_count)
        *first = trace->process;
    return 0;
}

static struct an_count key_number(const struct an_trace *trace, const char *key, const char *reason)
{
    int64_t number;
    return an_trace_key_integer(trace, key, &number) ? an_int(number) : an_int_none(reason);
}

/* Marks the CPUs of a list of ranges, "0-3,8", and returns how many are new; -1: not such a list.
 */
static int64_t mark_cpus(uint8_t *cpus, const char *text)
{
    int64_t added = 0;
    for (const char *at = text; at && *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (first < 0 || last < first || last >= CPUS_MOST || (*end && *end != ','))
            return -1;
        for (long cpu = first; cpu <= last; cpu++) {
            added += !cpus[cpu];
            cpus[cpu] = 1;
        }
        at = *end ? end + 1 : end;
    }
    return text && *text ? added : -1;
}

/* The CPUs that the processes which run steps may use, of one host. Absent where a process does not
 * say, or where they are on several hosts. */
static struct an_count cores_of_steps(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    uint8_t cpus[CPUS_MOST] = {0};
    const char *host = NULL;
    int64_t sum = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        if (context->lane[i].process == AN_NONE)
            continue;
        const struct an_process *process = &trace->process[context->lane[i].process];
        char key[48];
        snprintf(key, sizeof key, "process.%" PRId64 ".affinity", process->id);
        int64_t added = mark_cpus(cpus, an_trace_key(trace, key));
        if (added < 0 || (host && strcmp(host, process->host) != 0))
            return an_int_none("the affinity of the processes that run steps is not known");
        host = process->host;
        sum += added;
    }
    return sum > 0 ? an_int(sum) : an_int_none("no process runs steps");
}

/* Fills the description of the run: its processes and threads, the command, how it ended. The main
 * process is the first that runs steps, else the first. */
static int describe_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_run *run = &context->result->run;
    const struct an_process *main = NULL;
    int rc = find_ranks(context, &run->ranks, &main);
    if (rc)
        return rc;
    struct an_key *keys = an_arena_zero(context->arena, trace->key_count, sizeof *keys);
    if (!keys)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->key_count; i++)
        keys[i] = (struct an_key){an_arena_text(context->arena, trace->key[i].key),
                                  an_arena_text(context->arena, trace->key[i].value)};
    for (size_t i = 0; i < trace->track_count; i++)
        run->threads += !strcmp(trace->track[i].kind, "thread");
    run->processes = (int64_t)trace->process_count;
    run->file = an_arena_text(context->arena, context->options->file ? context->options->file : "");
    run->live = context->options->live;
    run->program = an_arena_text(context->arena, main ? main->program : "");
    run->around = an_command_around(trace);
    run->around = run->around ? an_arena_text(context->arena, run->around) : NULL;
    run->host = an_arena_text(context->arena, main ? main->host : "");
    run->command = an_command_line(context);
    run->ended = an_arena_text(context->arena, main ? main->ended : "");
    run->exit_status =
        key_number(trace, "exit_status", run->live ? "still running" : "not recorded");
    if (main && main->exit_status != STORE_ABSENT)
        run->exit_status = an_int(main->exit_status);
    run->cores = key_number(trace, "cpu.usable",
                            "the file does not record how many cores the target could use");
    struct an_count of_steps = cores_of_steps(context);
    if (of_steps.valid) /* the command may set the affinity itself */
        run->cores = of_steps;
    run->duration_s = trace->t1 >= trace->t0
                          ? an_num((double)an_time_sub(trace->t1, trace->t0) / 1e9)
                          : an_num_none("nothing was recorded");
    run->keys = keys;
    run->key_count = trace->key_count;
    return 0;
}

/* Appends the ceilings of the file to those that an analyzer took from data sheets or options. */
static int copy_ceilings(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    size_t known = context->result->ceiling_count;
    struct an_ceiling *rows =
        an_arena_zero(context->arena, known + trace->ceiling_count, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    if (trace->ceilings_beyond)
        an_problem(context, "%zu ceilings are not read: the file has more than %d",
                   trace->ceilings_beyond, AN_CEILINGS_MOST);
    if (known)
        memcpy(rows, context->result->ceilings, known * sizeof *rows);
    size_t count = known;
    for (size_t i = 0; i < trace->ceiling_count; i++) {
        if (an_gemm_curve_row(trace->ceiling[i].resource))
            continue; /* points of a curve are no roofs */
        rows[count++] = (struct an_ceiling){
            .device = an_arena_text(context->arena, trace->ceiling[i].device),
            .resource = an_arena_text(context->arena, trace->ceiling[i].resource),
            .dtype = an_arena_text(context->arena, trace->ceiling[i].dtype),
            .source = an_arena_text(context->arena, trace->ceiling[i].source),
            .value = trace->ceiling[i].value,
            .unit = an_ceiling_unit(trace->ceiling[i].resource)};
    }
    context->result->ceilings = rows;
    context->result->ceiling_count = count;
    return 0;
}

/* ---- running the table --------------------------------------------------------------------------------------------------- */

/* Returns why an analyzer with these needs cannot run, NULL if it can. */
static const char *missing_input(const struct an_context *context, unsigned needs)
{
    const char *no_steps = context->result->steps.reason;
    unsigned have = AN_INPUT_SLICES * (context->trace->slice.count > 0) |
                    AN_INPUT_STEPS * (context->step_count > 0) |
                    AN_INPUT_DETAIL * (context->result->steps.detailed > 0) |
                    AN_INPUT_COUNTERS * (context->trace->counter.count > 0) |
                    AN_INPUT_DEVICES * (context->gpu != NULL);
    unsigned missing = needs & ~have;
    if (missing & AN_INPUT_STEPS && !(missing & AN_INPUT_SLICES) && no_steps)
        return no_steps;
#define INPUT_TEXT(name, bit, text) \
    if (missing & (bit)) \
        return text;
    AN_INPUT_MAP(INPUT_TEXT)
#undef INPUT_TEXT
    return NULL;
}

/* Does this call use a device? One that only asks, for example how many there are, does not. */
static bool uses_device(const struct an_trace *trace, size_t slice)
{
    enum an_api_kind kind = an_slice_api(trace, slice).kind;
    return kind != AN_API_OTHER && kind != AN_API_QUERY &&
           an_category_is_call(an_trace_name(trace, trace->slice.category[slice]));
}

/* Does the recorder say that it lost events of a device, and does the file have calls that use
 * one? */
static bool says_device_lost(const struct an_trace *trace)
{
    bool called = false, says = false;
    for (size_t i = 0; i < trace->loss_count && !says; i++) {
        const char *reason = trace->loss[i].reason;
        says = (strstr(reason, "CUDA events") || strstr(reason, "CUPTI events")) &&
               store_loss_kind(trace->loss[i].source, reason) == STORE_LOSS_EVENTS;
    }
    for (size_t i = 0; i < trace->slice.count && says && !called; i++)
        called = uses_device(trace, i);
    return called;
}

/* Why work of a device is missing: calls put some on it, or the recorder says so itself, and none
 * of it is in the file. While a run is recorded, it may still arrive. NULL: none is missing. */
static const char *unrecorded_words(struct an_context *context)
{
    if (context->gpu && (context->gpu->op.count || context->gpu->untimed))
        return NULL;
    int64_t calls = an_launch_calls(context->trace);
    if (context->options->live && (calls || says_device_lost(context->trace)))
        return "the work of the device has not arrived in the recording yet, which goes on";
    if (!calls && says_device_lost(context->trace))
        return "the recorder lost events of the device, and no operation of a device is in the "
               "file: its work was not recorded";
    if (!calls)
        return NULL;
    return an_arena_format(context->arena,
                           "%" PRId64 " %s put work on a device, and no operation of a device is "
                           "in the file: its work was not recorded",
                           calls, calls == 1 ? "call" : "calls");
}

/* Runs the table. describe_run comes right after the steps, because it needs to know which
 * processes run some, and other analyzers read what it fills. */
static int run_all(struct an_context *context)
{
    int rc = 0;
    for (size_t i = 0; i < ANALYZERS && !rc; i++) {
        const char *missing = missing_input(context, analyzers[i]->needs);
        if (missing)
            analyzers[i]->absent(context, missing);
        else
            rc = analyzers[i]->run(context);
        /* It counts the processes that run steps. */
        if (!rc && analyzers[i] == &an_steps)
            rc = describe_run(context);
    }
    if (rc || (rc = copy_ceilings(context)))
        return rc;
    context->result->trust.problems = an_arena_copy(context->arena, context->problem,
                                                    context->problems * sizeof *context->problem);
    context->result->trust.problem_count = context->problems;
    return context->result->trust.problems && !an_arena_failed(context->arena) &&
                   !an_arena_failed(context->scratch)
               ? 0
               : TACHO_ENOMEM;
}

static const char *describe_part(struct an_context *context, const struct an_trace_part *trace_part)
{
    if (trace_part->steps)
        return an_arena_format(context->arena, "steps %" PRId64 " to %" PRId64,
                               trace_part->first_index, trace_part->last_index);
    return an_arena_format(context->arena, "%zu of the ranges", context->trace->slice.count);
}

/* Loads the run, or the part of it that the options ask for; *part says which. */
static int load(store_reader *reader, const struct an_options *options, struct an_trace_part *part,
                struct an_trace **trace, struct tacho_error *err)
{
    int64_t until = options->part_until ? options->part_until : INT64_MAX;
    int rc = 0;
    *part = (struct an_trace_part){.whole = true};
    if (options->part_slices > 0)
        rc = an_trace_part_find(reader, options->part_slices, until, part);
    if (!rc)
        return an_trace_load_part(reader, part, trace, err);
    const struct tacho_error *cause = store_reader_error(reader);
    return tacho_fail(err, rc, NULL, "%s", cause->code ? cause->what : tacho_error_text(rc));
}

/* A result without content, in memory of its own or where the options say. NULL: out of memory. */
static struct an_result *new_result(const struct an_options *options)
{
    struct an_result *result;
    if (options->into) {
        result = an_arena_zero(options->into, 1, sizeof *result);
        if (result)
            result->arena = options->into;
        return result;
    }
    result = calloc(1, sizeof *result);
    if (result && !(result->arena = an_arena_new())) {
        free(result);
        return NULL;
    }
    return result;
}

int an_analyze(store_reader *reader, const struct an_options *options, struct an_result **out,
               struct tacho_error *err)
{
    static const struct an_options defaults = {.file = NULL};
    struct an_context context = {.options = options ? options : &defaults};
    struct an_trace_part part;
    struct an_trace *trace = NULL;
    struct an_result *result = NULL;
    *out = NULL;
    int rc = an_order_check(analyzers, ANALYZERS, err);
    if (rc || (rc = load(reader, context.options, &part, &trace, err)))
        return rc;
    store_reader_rest(reader); /* who records can fold in what it wrote while this goes on */
    rc = TACHO_ENOMEM;
    if (!(result = new_result(context.options)) || !(context.scratch = an_arena_new()))
        goto out;
    context.trace = trace;
    context.result = result;
    context.arena = result->arena;
    if (!part.whole) {
        result->run.window = describe_part(&context, &part);
        result->run.part_start = part.t0;
        result->run.part_end = part.t1;
    }
    size_t later = 0;
    if (!(rc = an_trace_add_ceilings(trace, context.options->calibration, &later)) &&
        !(rc = an_clocks_align(trace, context.arena, &result->ranks.clocks)) &&
        !(rc = an_devices_build(trace, context.options->classes, context.arena, context.scratch,
                                &context.gpu, err))) {
        context.ceilings_later = later > 0;
        context.unrecorded = unrecorded_words(&context);
        rc = run_all(&context);
    }
out:
    an_trace_free(trace);
    an_arena_free(context.scratch);
    if (!rc) {
        *out = result;
        return 0;
    }
    if (!context.options->into)
        an_result_free(result);
    if (rc == TACHO_EFORMAT) /* the user's table of classes: *err has the text */
        return rc;
    return tacho_fail(err, rc, NULL, "analysing the run: %s", tacho_error_text(rc));
}
