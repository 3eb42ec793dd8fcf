/* SPDX-License-Identifier: Apache-2.0
 *
 * OTHER_PROGRAMS: what other programs on the machine cost the steps. It is named by what was
 * measured (counters/contention.c): the time that the steps' thread waited for a core that others
 * had. Its gain is the replay without others. Beside it, every other gain is replayed twice: with
 * what others took, and without.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/replay/what_if_run.h"

#define NAMED_PCT 10.0 /* of the steps' time */
#define ALONE     "others=0"

const struct an_finding *an_findings_others_of(const struct an_finding *finding, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(finding[i].id, "OTHER_PROGRAMS"))
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

static void add_evidence(struct an_context *context, struct an_finding *finding)
{
    const struct an_system *system = &context->result->system;
    const char *cpus = an_trace_key(context->trace, "cpu.online");
    an_finding_note(
        context, finding,
        "other programs used %.2f of %s CPUs, and more than a quarter of one in %.0f %% "
        "of the time (%s)",
        system->other_cores.value, cpus, system->others_present_pct.value, an_window_text(context));
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

int an_findings_others(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_what_if alone;
    if (!context->result->system.others_lost_pct.valid ||
        context->result->system.others_lost_pct.value < FINDINGS_NOISE_PCT)
        return 0;
    if (an_what_if_of(context, ALONE, &alone))
        return TACHO_ENOMEM;
    if (is_named(&context->result->system, &alone))
        add_finding(findings, &alone);
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
