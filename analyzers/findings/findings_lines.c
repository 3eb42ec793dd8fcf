/* SPDX-License-Identifier: Apache-2.0
 *
 * PYTHON_HOST by the lines that Python executed in host and unattributed time: the function of the
 * program with most of it. The lines with which a loader makes batches, for INPUT_STALL.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/pictures/python.h"

#define LOOKS_LEAST     8 /* at one function, before anything is said about it */
#define LINES_NAMED     3
#define LOOP_PART       0.9 /* of the looks */
#define TRAINS_PART     0.02
#define BESIDE          2     /* lines: they belong to the same statement or loop */
#define FETCH_LEAST_PCT 5.0   /* of the looks: less is no line to begin with */
#define CLAIMED_LEAST   0.2   /* of the step: less is a bound, which is worth measuring */
#define UNKNOWN_PART    0.015 /* of the step: clocks, caches and what follows the function */

/* The lines of one function of the program, added up; of code that holds the loop of the steps only
 * those next to its largest line. */
struct function {
    const char *name, *file;
    const struct an_python_line *line[LINES_NAMED]; /* with most of it */
    size_t lines;
    int64_t plain, asleep;
    bool in_loop;
    int64_t from, to; /* lines, where it holds the loop */
};

static bool is_of(const struct an_python_line *line, const struct an_python_line *other)
{
    return !strcmp(line->function, other->function) && !strcmp(line->file, other->file);
}

/* Is the loop of the steps written in the function: is the thread inside of it at nearly every
 * look, and at nearly every look while it trains? Its name would say nothing, and no program can do
 * without it. One that takes nearly all of the step is seen while the thread trains only where a
 * look falls between the two. The code of a file outside of its functions is named after lines in
 * any case. */
static bool holds_loop(const struct an_python *python, const struct an_python_line *first)
{
    int64_t total = 0, busy = 0;
    if (first->function[0] == '<')
        return true;
    for (size_t i = 0; i < python->line_count; i++)
        if (is_of(&python->line[i], first)) {
            total += python->line[i].total;
            busy += python->line[i].busy;
        }
    return (double)total >= LOOP_PART * (double)python->looks.value &&
           (double)busy >= TRAINS_PART * (double)total &&
           (double)busy >= LOOP_PART * (double)python->busy;
}

/* Adds up the lines of the function that `first` is in; lines come largest first. */
static struct function sum_function(const struct an_python *python,
                                    const struct an_python_line *first)
{
    struct function sum = {.name = first->function,
                           .file = first->file,
                           .in_loop = holds_loop(python, first),
                           .from = first->line,
                           .to = first->line};
    for (size_t i = 0; i < python->line_count; i++) {
        const struct an_python_line *line = &python->line[i];
        if (!line->program || !line->plain || !is_of(line, first) ||
            (sum.in_loop && llabs((long long)(line->line - first->line)) > BESIDE))
            continue;
        sum.plain += line->plain;
        sum.asleep += line->asleep;
        sum.from = line->line < sum.from ? line->line : sum.from;
        sum.to = line->line > sum.to ? line->line : sum.to;
        if (sum.lines < LINES_NAMED)
            sum.line[sum.lines++] = line;
    }
    return sum;
}

static struct function largest_function(const struct an_python *python)
{
    struct function largest = {0};
    for (size_t i = 0; i < python->line_count; i++) {
        if (!python->line[i].program || !python->line[i].plain)
            continue;
        struct function sum = sum_function(python, &python->line[i]);
        if (sum.plain > largest.plain)
            largest = sum;
    }
    return largest;
}

/* The part of the step, 0..1, that is host or unattributed time without waits for a core; NAN: not
 * known. The ranges around it bound it exactly. */
struct host_time {
    double part, half; /* half the width of its 90 % interval by steps, 0 where it has none */
    int64_t looks;     /* in it */
    bool of_one_step;  /* its spread over the steps is not known */
};

static struct host_time host_time_of(const struct an_context *context)
{
    const struct an_python *python = &context->result->python;
    const struct an_value *pct = context->result->budget.pct;
    struct an_class_share host, rest;
    if (python->plain <= 0 || an_class_share(context, AN_CLASS_HOST, &host) ||
        an_class_share(context, AN_CLASS_UNATTRIBUTED, &rest))
        return (struct host_time){.part = NAN};
    double ran = 1 - an_value_or_0(python->unattributed.runnable_pct) / 100;
    return (struct host_time){.part = (an_value_or_0(pct[AN_CLASS_HOST]) +
                                       an_value_or_0(pct[AN_CLASS_UNATTRIBUTED]) * ran) /
                                      100,
                              .half = hypot(an_share_half_90(&host), an_share_half_90(&rest)) / 100,
                              .looks = python->plain,
                              .of_one_step = host.steps <= 1};
}

/* What lines with so many looks in that time take of the step, 0..1. */
static double share_of(const struct host_time *time, int64_t plain)
{
    return (double)plain / (double)time->looks * time->part;
}

/* Half the width of its 90 % interval, by the number of looks (Agresti and Coull's variance) and
 * the spread of that time over the steps. */
static double half_of(const struct host_time *time, int64_t plain)
{
    double looks = (double)time->looks, part = (double)plain / looks;
    return hypot(AN_Z90 * sqrt((part * (1 - part) + 1 / (4 * looks)) / looks) * time->part,
                 part * time->half);
}

/* Says where the time is: lines of the function, and whether it ran or slept. */
static void say_where(struct an_context *context, struct an_finding *finding,
                      const struct function *function, const struct host_time *time)
{
    for (size_t i = 0; i < function->lines; i++)
        an_finding_note(context, finding, "%.80s:%" PRId64 ": %.1f %% of the step",
                        an_finding_file_name(function->line[i]->file), function->line[i]->line,
                        100 * share_of(time, function->line[i]->plain));
    an_finding_note(context, finding, "the thread slept in %.0f %% of that time",
                    an_percent((double)function->asleep, (double)function->plain));
}

/* The gain of a function that takes much of the step, without its time. 90 %, by its own interval
 * and what else a step is shorter or longer by when it does less. False: other ranks share the
 * step, or it is too little to claim more than a bound. */
static bool line_gain(const struct an_context *context, const struct host_time *time, int64_t plain,
                      struct an_finding *finding)
{
    double share = share_of(time, plain), half = hypot(half_of(time, plain), UNKNOWN_PART);
    if (context->lane_count != 1 || time->looks < LOOKS_LEAST || time->of_one_step ||
        share < CLAIMED_LEAST || share - half <= 0 || share >= 0.99)
        return false;
    finding->gain =
        (struct an_gain){.low = an_num(an_finding_gain_of_lost(100 * (share - half))),
                         .expected = an_num(an_finding_gain_of_lost(100 * share)),
                         .high = an_num(an_finding_gain_of_lost(fmin(100 * (share + half), 99)))};
    finding->method =
        "step / (step - that time) - 1; that time: host and unattributed time of the "
        "budget x the function's share of the samples in it; 90 % by samples and steps";
    finding->bound = false;
    return true;
}

/* How the function is called in a sentence: "augment", or the lines of a loop: "train.py:57-59". */
static const char *name_of(struct an_context *context, const struct function *function)
{
    if (!function->in_loop)
        return function->name;
    const char *place = an_finding_text(context, "%.80s:%" PRId64,
                                        an_finding_file_name(function->file), function->from);
    return function->to > function->from
               ? an_finding_text(context, "%s-%" PRId64, place, function->to)
               : place;
}

/* "augment (train.py:57)", "train.py:57-59 (in main)". */
static const char *title_of(struct an_context *context, const struct function *function)
{
    const char *name = name_of(context, function);
    if (function->in_loop)
        return function->name[0] == '<'
                   ? name
                   : an_finding_text(context, "%s (in %.80s)", name, function->name);
    return an_finding_text(context, "%.80s (%.80s:%" PRId64 ")", name,
                           an_finding_file_name(function->file), function->line[0]->line);
}

static const char *action_of(struct an_context *context, const struct function *function)
{
    const char *name = name_of(context, function);
    if (2 * function->asleep > function->plain)
        return an_finding_text(
            context,
            "%.80s waits for something outside of the program (a file, a network, a lock, a "
            "sleep): "
            "let another thread or the workers of the loader wait for it, or ask for it earlier",
            name);
    if (2 * an_python_before_backward(context, function->line[0], function->from, function->to) >
        function->plain)
        return an_finding_text(
            context,
            "%.80s comes right before the backward pass: where it computes the loss, use fewer "
            "operators on whole tensors, or torch.compile; move what is no part of the loss "
            "(data, metrics, logs) out of the step",
            name);
    return an_finding_text(
        context,
        "move %.80s out of the step: into the workers of the loader, before the loop, or into "
        "every N-th step; where it computes, use operators on whole tensors",
        name);
}

/* Is a function with `share_pct` of the step in at least half of the unattributed time, even if all
 * host time is its own? */
static bool holds_unattributed(const struct an_budget *budget, double share_pct)
{
    double host = an_value_or_0(budget->pct[AN_CLASS_HOST]),
           unattributed = an_value_or_0(budget->pct[AN_CLASS_UNATTRIBUTED]);
    return unattributed > 0 && 2 * (share_pct - host) >= unattributed;
}

bool an_finding_of_line(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_python *python = &context->result->python;
    if (python->reason || !context->lane_count || context->gpu)
        return false;
    struct function function = largest_function(python);
    struct host_time time = host_time_of(context);
    double share = 100 * share_of(&time, function.plain),
           half = 100 * half_of(&time, function.plain);
    if (function.plain < LOOKS_LEAST || !(share - half >= FINDINGS_NOISE_PCT))
        return false;
    struct an_finding *finding = an_findings_add(
        findings, "PYTHON_HOST",
        an_finding_text(context,
                        "%s takes %.1f %% of the step on the host, where no operator is recorded",
                        title_of(context, &function), share));
    if (holds_unattributed(&context->result->budget, share))
        context->result->python.holder = title_of(context, &function);
    finding->effort = "some lines of code";
    an_finding_note(
        context, finding,
        "%" PRId64 " of %" PRId64 " samples of Python's frames in host and "
        "unattributed time of %s, without waits for a core: %.1f %% of the step (90 %%: "
        "± %.1f)",
        function.plain, python->plain, python->window, share, half);
    say_where(context, finding, &function, &time);
    an_finding_ceiling(finding, 100, fmin(share + half, 99), FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - that time) - 1";
    finding->bound = true;
    line_gain(context, &time, function.plain, finding);
    finding->action = action_of(context, &function);
    finding->verify = an_command_rerun(
        context, an_finding_text(context, "%.80s shorter", name_of(context, &function)));
    finding->wrong_when = "it cannot leave the step, takes a core from it elsewhere, or another "
                          "thread needs that time as well";
    return true;
}

/* ---- the loader ------------------------------------------------------------------------------ */

/* Lines while a loader made batches: of its workers, else of the thread of the steps. */
struct fetch {
    const struct an_python_line *line;
    size_t count;
    int64_t looks;
};

static struct fetch fetch_of(const struct an_python_line *line, size_t count)
{
    struct fetch fetch = {line, count, 0};
    for (size_t i = 0; i < count; i++)
        fetch.looks += line[i].program ? line[i].fetch : 0;
    return fetch;
}

/* Looks at the function of a line while batches were made, 0 where a line before it is of it. */
static int64_t fetch_looks(const struct fetch *fetch, size_t at)
{
    int64_t sum = 0;
    for (size_t i = 0; i < fetch->count; i++) {
        if (!fetch->line[i].program || !is_of(&fetch->line[i], &fetch->line[at]))
            continue;
        if (i < at)
            return 0;
        sum += fetch->line[i].fetch;
    }
    return fetch->line[at].program ? sum : 0;
}

/* The line of a function with most looks while batches were made. */
static const struct an_python_line *fetch_line(const struct fetch *fetch, size_t at)
{
    const struct an_python_line *most = &fetch->line[at];
    for (size_t i = at; i < fetch->count; i++)
        if (is_of(&fetch->line[i], most) && fetch->line[i].fetch > most->fetch)
            most = &fetch->line[i];
    return most;
}

void an_finding_fetch_lines(struct an_context *context, struct an_finding *finding)
{
    const struct an_python *python = &context->result->python;
    if (python->reason)
        return;
    struct fetch fetch = fetch_of(python->worker, python->worker_asleep_count);
    if (fetch.looks < LOOKS_LEAST)
        fetch = fetch_of(python->line, python->line_count);
    const char *names = "";
    int64_t above = INT64_MAX;
    size_t at = 0; /* of equal ones the first is named first */
    for (int named = 0; named < LINES_NAMED && fetch.looks >= LOOKS_LEAST; named++) {
        int64_t most = 0;
        size_t last = at;
        for (size_t i = 0; i < fetch.count; i++) {
            int64_t looks = fetch_looks(&fetch, i);
            if (looks > most && (looks < above || (looks == above && i > last))) {
                most = looks;
                at = i;
            }
        }
        double share = an_percent((double)most, (double)fetch.looks);
        if (share < FETCH_LEAST_PCT)
            break;
        const struct an_python_line *line = fetch_line(&fetch, at);
        names = an_finding_text(context, "%s%s%.80s (%.80s:%" PRId64 ") %.0f %%", names,
                                *names ? ", " : "", line->function,
                                an_finding_file_name(line->file), line->line, share);
        above = most;
    }
    if (*names)
        an_finding_note(context, finding, "lines of the program that make a batch: %s of that time",
                        names);
}

/* ---- the host of a device -------------------------------------------------------------------- */

void an_finding_own_lines(struct an_context *context, struct an_finding *finding)
{
    const struct an_python *python = &context->result->python;
    const char *names = "";
    for (size_t i = 0; !python->reason && i < python->line_count && i < LINES_NAMED; i++) {
        const struct an_python_line *line = &python->line[i];
        if (!line->program || !(line->own_pct.value >= FETCH_LEAST_PCT))
            break; /* the largest ones come first */
        names = an_finding_text(context, "%s%s%.80s (%.80s:%" PRId64 ") %.0f %%", names,
                                *names ? ", " : "", line->function,
                                an_finding_file_name(line->file), line->line, line->own_pct.value);
    }
    if (*names)
        an_finding_note(context, finding, "lines of the program that the host is in: %s", names);
}

/* ---- time that no range covers --------------------------------------------------------------- */

void an_finding_lines(struct an_context *context, struct an_finding *finding)
{
    const struct an_python *python = &context->result->python;
    if (python->reason || !python->unattributed.looks)
        return;
    an_finding_note(context, finding,
                    "in it the thread was running %.0f %%, waiting for a core %.0f %%, asleep %.0f "
                    "%%",
                    python->unattributed.running_pct.value, python->unattributed.runnable_pct.value,
                    python->unattributed.asleep_pct.value);
    for (size_t i = 0, named = 0; i < python->line_count && named < LINES_NAMED; i++) {
        const struct an_python_line *line = &python->line[i];
        if (!line->program || line->host_pct.value < FINDINGS_NOISE_PCT)
            continue;
        an_finding_note(
            context, finding, "Python: %.80s:%" PRId64 " (%.80s), %.1f %% of the samples",
            an_finding_file_name(line->file), line->line, line->function, line->host_pct.value);
        named++;
    }
}
