/* SPDX-License-Identifier: Apache-2.0
 *
 * OTHER_PROGRAMS: what other programs on the machine cost the steps. It is named by what was
 * measured (counters/contention.c): the time that the steps' thread waited for a core that others
 * had. Its gain is the replay without others. Beside it, every other gain is replayed twice: with
 * what others took, and without. Others that leave the run its cores still share the cache and the
 * memory with it: what that costs cannot be measured from here, so the finding has a ceiling only.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/replay/what_if_run.h"

#define NAMED_PCT 10.0 /* of the steps' time */
#define ALONE     "others=0"
/* Others beside the run, on cores that it does not use: how many at least, in which part of the
 * time. */
#define BESIDE_CORES 0.5
#define BESIDE_PCT   50.0
#define NEAR_LEAST   0.1 /* of its roof, for an operation that the roof limits */

const struct an_finding *an_findings_others_of(const struct an_finding *finding, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(finding[i].id, "OTHER_PROGRAMS") && !finding[i].gain.ceiling)
            return &finding[i];
    return NULL;
}

/* The share of the steps' time that a gain stands for. */
static double lost_of_gain(double gain_pct)
{
    return 100 * gain_pct / (100 + gain_pct);
}

/* Nothing takes more time from the steps than it used itself; beside a quota, which the replay does
 * not tell from others, no more than was measured. */
static struct an_value at_most(struct an_value gain, const struct an_system *system)
{
    double most = 100 * system->other_cores.value;
    if (an_value_or_0(system->throttled_cores) > 0)
        most = fmin(most, system->others_lost_high_pct.value);
    return most < 100 && gain.valid ? an_num(fmin(gain.value, an_finding_gain_of_lost(most)))
                                    : gain;
}

/* The gain by the replay where that sees what was measured, else by the measured wait. */
static void fill_gain(struct an_context *context, const struct an_what_if *alone,
                      struct an_finding *finding)
{
    const struct an_system *system = &context->result->system;
    const struct an_value *low = &alone->gain.low;
    if (alone->reason || alone->ceiling || !low->valid || low->value <= 0) {
        finding->gain = (struct an_gain){
            .low = an_num(an_finding_gain_of_lost(system->others_lost_low_pct.value)),
            .expected = an_num(an_finding_gain_of_lost(system->others_lost_pct.value)),
            .high = an_num(an_finding_gain_of_lost(system->others_lost_high_pct.value))};
        finding->method =
            "100 lost / (100 - lost): run-queue wait of the steps' thread while other "
            "programs had the cores, in % of the steps";
        return;
    }
    finding->gain = (struct an_gain){.low = at_most(alone->gain.low, system),
                                     .expected = at_most(alone->gain.expected, system),
                                     .high = at_most(alone->gain.high, system)};
    finding->method = "replay of the dependency graph with " ALONE
                      ", at most the CPU time that other programs used";
}

/* How much of the machine others used, and how often. */
static void note_presence(struct an_context *context, struct an_finding *finding)
{
    const struct an_system *system = &context->result->system;
    const char *cpus = an_trace_key(context->trace, "cpu.online");
    an_finding_note(
        context, finding,
        "other programs used %.2f of %s CPUs, and more than a quarter of one in %.0f %% "
        "of the time (%s)",
        system->other_cores.value, cpus, system->others_present_pct.value, an_window_text(context));
}

static void add_evidence(struct an_context *context, struct an_finding *finding)
{
    const struct an_system *system = &context->result->system;
    note_presence(context, finding);
    an_finding_note(context, finding,
                    "run-queue wait of the steps' thread: %.0f %% of the steps; %.0f %% [%.0f, "
                    "%.0f] while other programs had the cores, %.0f %% because of the run's own "
                    "threads",
                    system->cpu_wait_pct.value, system->others_lost_pct.value,
                    system->others_lost_low_pct.value, system->others_lost_high_pct.value,
                    system->own_wait_pct.value);
    if (context->result->budget.steps)
        an_finding_note(context, finding, "that is %s of each step",
                        an_time_words(context->arena,
                                      an_budget_step_ms(&context->result->budget) *
                                          system->others_lost_pct.value / 100,
                                      3));
}

/* `alone`: the replay without other programs, whose gain the finding claims where there is one. */
static void add_finding(struct an_findings_list *findings, const struct an_what_if *alone)
{
    struct an_context *context = findings->context;
    struct an_finding *finding = an_findings_add(
        findings, "OTHER_PROGRAMS",
        an_finding_text(context,
                        "other programs on this machine hold the run back: for %.0f %% of the "
                        "steps' time the thread that runs them waits for a core that they have",
                        context->result->system.others_lost_pct.value));
    add_evidence(context, finding);
    finding->action = "use free cores: a reserved node, or cores that no other program may use "
                      "(taskset, a cpuset)";
    fill_gain(context, alone, finding);
    finding->effort = "an option of the scheduler, or another machine";
    finding->verify = "run the same command on free cores: tacho diff of both runs";
    finding->wrong_when = "the other programs belong to the training (a data server, a monitor): "
                          "then its own work takes the cores";
    finding->what_if = ALONE;
    if (alone->reason)
        return;
    finding->replay = *alone;
    finding->replay.of = finding->id;
    finding->replay.ceiling = NULL;
    an_finding_keep_gain(context, finding);
}

/* Is so much of the steps' time lost that others are named? The measured time is that of one thread
 * a process: of a team that waits for another thread the replay knows more, if there is a wait at
 * all. */
static bool is_named(const struct an_system *system, const struct an_what_if *alone)
{
    if (!system->others_lost_pct.valid || system->others_lost_low_pct.value < FINDINGS_NOISE_PCT)
        return false;
    if (system->others_lost_pct.value >= NAMED_PCT)
        return true;
    return !alone->reason && !alone->ceiling && alone->gain.low.valid &&
           alone->gain.low.value > 0 &&
           fmin(lost_of_gain(alone->gain.expected.value), 100 * system->other_cores.value) >=
               NAMED_PCT;
}

/* ---- others that share the memory ------------------------------------------------------------ */

/* Does memory limit the operation, or a cache make it faster than memory? Far below its roof the
 * call itself takes the time. */
static bool needs_memory(const struct an_roofline_point *point)
{
    return point->bound && (!strcmp(point->bound, "cached") ||
                            (!strcmp(point->bound, "memory") &&
                             point->achieved_flops >= NEAR_LEAST * point->attainable_flops));
}

/* Of the steps' time, in %: operations that need memory. *longest: the one that takes longest. */
static double memory_pct(const struct an_result *result, const struct an_roofline_point **longest)
{
    const struct an_budget *budget = &result->budget;
    double steps_ns = an_budget_step_ms(budget) * 1e6 * (double)budget->steps;
    int64_t memory_ns = 0;
    *longest = NULL;
    for (size_t i = 0; i < result->point_count; i++) {
        const struct an_roofline_point *point = &result->points[i];
        if (!needs_memory(point))
            continue;
        memory_ns = an_time_add(memory_ns, point->time_ns);
        if (!*longest || point->time_ns > (*longest)->time_ns)
            *longest = point;
    }
    return fmin(an_percent((double)memory_ns, steps_ns),
                an_value_or_0(budget->pct[AN_CLASS_COMPUTE]));
}

/* How much of the steps' time others take as cores: little, or it would be named by that. */
static const char *cores_words(struct an_context *context)
{
    double lost = an_value_or_0(context->result->system.others_lost_pct);
    return lost < FINDINGS_NOISE_PCT
               ? "they take no core from it"
               : an_finding_text(context, "they take %.0f %% of its time on the cores", lost);
}

/* Names others that run beside the steps, where enough of the steps is limited by memory. */
static void add_beside(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_system *system = &context->result->system;
    const struct an_roofline_point *longest;
    double pct = memory_pct(context->result, &longest);
    if (context->gpu || an_value_or_0(system->other_cores) < BESIDE_CORES ||
        an_value_or_0(system->others_present_pct) < BESIDE_PCT || !(pct >= NAMED_PCT))
        return;
    struct an_finding *finding = an_findings_add(
        findings, "OTHER_PROGRAMS",
        an_finding_text(context,
                        "other programs use %.1f cores beside the run: %s, and share its caches "
                        "and its memory bandwidth",
                        system->other_cores.value, cores_words(context)));
    note_presence(context, finding);
    an_finding_note(context, finding,
                    "operations that memory or its caches limit take %.0f %% of the steps; the "
                    "longest of them is %s",
                    pct, longest->name);
    an_finding_note(context, finding, "run-queue wait of the steps' thread: %.0f %% of the steps",
                    an_value_or_0(system->cpu_wait_pct));
    finding->action = "measure once on a quiet machine: a reserved node, or cores of another "
                      "socket (taskset, a cpuset)";
    an_finding_ceiling(finding, 100, pct, FINDINGS_NOT_REPLAYED);
    finding->method =
        "ceiling: all the time of operations that memory or its caches limit; nothing "
        "was replayed";
    finding->effort = "an option of the scheduler, or another machine";
    finding->verify = "run the same command on a quiet machine: tacho diff of both runs";
    finding->wrong_when = "the other programs compute in their own caches, and take nothing that "
                          "the run needs";
    an_finding_at_most_medium(finding);
}

int an_findings_others(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_system *system = &context->result->system;
    struct an_what_if alone;
    bool takes_cores = false;
    if (an_value_or_0(system->others_lost_pct) >= FINDINGS_NOISE_PCT) {
        if (an_what_if_of(context, ALONE, &alone))
            return TACHO_ENOMEM;
        takes_cores = is_named(system, &alone);
    }
    if (takes_cores)
        add_finding(findings, &alone);
    else if (an_value_or_0(system->others_lost_pct) < NAMED_PCT)
        add_beside(findings);
    return 0;
}

/* ---- other gains while others run ------------------------------------------------------------ */

/* Withdraws a gain that may as well be a loss. */
static void withhold_gain(struct an_finding *finding)
{
    const char *why = "the other programs decide whether this is a gain or a loss: record "
                      "on free cores";
    finding->gain = (struct an_gain){
        .low = an_num_none(why), .expected = an_num_none(why), .high = an_num_none(why)};
    finding->replay.reason = why;
}

/* Widens the gain of a finding by the gain of the same edit on free cores. */
static void widen_gain(struct an_finding *finding, const struct an_what_if *alone,
                       const struct an_what_if *both)
{
    struct an_gain *gain = &finding->gain;
    double base = alone->step_ms.value;
    if (gain->high.valid && both->step_low_ms.valid)
        gain->high = an_num(fmax(gain->high.value, 100 * (base / both->step_low_ms.value - 1)));
    if (gain->low.valid && both->step_high_ms.valid)
        gain->low = an_num(fmin(gain->low.value, 100 * (base / both->step_high_ms.value - 1)));
    if (gain->low.valid && gain->high.valid && gain->low.value <= 0 && gain->high.value >= 0)
        withhold_gain(finding);
}

int an_findings_while_others(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_finding *others = an_findings_others_of(findings->found, findings->count);
    struct an_what_if alone, both;
    if (!others)
        return 0;
    if (an_what_if_of(context, ALONE, &alone))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < findings->count; i++) {
        struct an_finding *finding = &findings->found[i];
        if (finding == others || !finding->replay.edit || alone.reason || !alone.step_ms.valid)
            continue;
        const char *edits = an_finding_text(context, ALONE ",%s", finding->what_if);
        if (an_what_if_of(context, edits, &both))
            return TACHO_ENOMEM;
        if (both.reason)
            continue;
        finding->while_others = true;
        finding->method = an_finding_text(context,
                                          "%s; while others run: the interval covers "
                                          "the step with and without them",
                                          finding->method);
        widen_gain(finding, &alone, &both);
        an_finding_keep_gain(context, finding);
    }
    return 0;
}
