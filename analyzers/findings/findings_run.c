/* SPDX-License-Identifier: Apache-2.0
 *
 * What takes the time of the run beside its steps, which the step budget leaves out: evaluations
 * (EVALUATION), checkpoints (CHECKPOINT) and the start of the program (SLOW_START).
 * Their gains are those of the run's throughput.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/replay/what_if_run.h"

#define RARE          0.02 /* of the steps' time: a phase that takes less needs no change */
#define SLOW_START_MS 10000.0
#define START_PCT     10.0
#define CALM_LEAST \
    8 /* pairs of a step that follows a phase and the one before it, which does not */

/* A kind of phase that happens every some steps. */
static const struct kind {
    const char *phase, *id, *every, *option, *changes;
} kinds[] = {{"evaluation", "EVALUATION", "evaluate", "--eval-every", "how often it is evaluated"},
             {"checkpoint", "CHECKPOINT", "write a checkpoint", "--checkpoint-every", NULL}};

/* 1, 2 or 5 times a power of ten, at least the value. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value)));
    static const double rounds[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++)
        if (rounds[i] * power >= value * (1 - 1e-9))
            return rounds[i] * power;
    return 10 * power;
}

/* Gain of a phase that is `ratio` times the rest of the run and becomes `times` rarer, while the
 * rest takes `stays` of its time. What is left is at least `least` times the rest of the run. */
static double rarer_gain(double ratio, double times, double stays, double least)
{
    double rest = 1 - (1 - stays) * (1 - 1 / times); /* 1 / times of the steps still follow one */
    return 100 * fmax(0, (1 + ratio) / fmax(rest + ratio / times, least) - 1);
}

/* What steps take without the phase that comes before them, as a share of what they took. */
struct stays {
    double expected, least, most;
};

/* Does a phase lie between the starts of the step before it on its lane and of this one? */
static bool follows_phase(const struct an_context *context, size_t step)
{
    const struct an_step *own = &context->step[step];
    const struct an_lane *lane = &context->lane[own->lane];
    return step > lane->first &&
           an_spans_within(lane->cut, lane->cut_count, own[-1].start, own->start);
}

/* Do phases of other kinds cut the steps often enough to matter beside those of this kind? */
static bool has_other_phases(const struct an_result *result, const struct an_phase *phase)
{
    for (size_t i = 0; i < result->phase_count; i++)
        if (strcmp(result->phases[i].name, phase->name) != 0 &&
            10 * result->phases[i].lane_count > phase->lane_count)
            return true;
    return false;
}

/* A thread that slept in a phase finds cold caches and a sleeping team after it, so the next step
 * is slower. By how much is the mean difference to the step before, if that one follows no phase.
 * Where nearly every step follows a phase, the middle between the mean and the lower quartile is
 * expected. The share is of the run without its phases, which is more than the counted steps. */
static struct stays stays_after_sleep(struct an_context *context, const struct an_phase *phase)
{
    const struct stays unchanged = {1, 1, 1};
    double *all = an_arena_zero(context->scratch, context->step_count + 1, 2 * sizeof *all),
           *longer = all + context->step_count + 1; /* than the step before */
    size_t count = 0, slow = 0, pairs = 0;
    for (size_t i = 0; all && i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_counted(step))
            continue;
        all[count++] = (double)an_step_ns(step);
        if (!follows_phase(context, i))
            continue;
        slow++;
        if (an_step_counted(step - 1) && !follows_phase(context, i - 1))
            longer[pairs++] = (double)an_step_ns(step) - (double)an_step_ns(step - 1);
    }
    double mean = count ? an_mean(all, count) : 0, lanes = fmax(1, (double)context->lane_count),
           rest_ns = 1e6 * (phase->lane_run_ms - phase->lane_ms);
    if (!slow || !(mean > 0) || has_other_phases(context->result, phase))
        return unchanged;
    double steps = fmin(1, mean * (double)count / lanes / rest_ns); /* of the rest */
    if (pairs >= CALM_LEAST) {
        double more = an_mean(longer, pairs),
               chance = AN_Z95 * an_sd(longer, pairs) / sqrt((double)pairs),
               each = steps * (double)pairs / (mean * (double)count);
        if (more <= chance)
            return unchanged;
        return (struct stays){.expected = fmax(0, 1 - more * each),
                              .least = fmax(0, 1 - (more + chance) * each),
                              .most = fmin(1, 1 - (more - chance) * each)};
    }
    if (count - slow >= CALM_LEAST) /* too few pairs to show a difference */
        return unchanged;
    double quick = fmax(0, 1 - an_quantile_of(all, count, 0.25) / mean) * steps;
    return (struct stays){.expected = 1 - quick / 2, .least = 1 - quick, .most = 1};
}

/* The time in which the loader's workers make the batches of the run, which they also do while a
 * phase runs, as a multiple of `rest`: without the phase the steps wait for them. 0: not known. */
static double loader_time(const struct an_context *context, double rest, double steps)
{
    const struct an_loader *loader = &context->result->loader;
    if (!loader->workers.valid || loader->workers.value < 1 || !loader->batch_ms.valid)
        return 0;
    /* Those that are made while a phase runs are counted for no step. */
    double batches = fmax(an_value_or_0(loader->batches_per_step), (double)an_micro_steps(context));
    return steps * batches * loader->batch_ms.value / (double)loader->workers.value / rest;
}

/* The gain with its 95 % interval: phases and steps vary independently, so the relative variances
 * of their sums add up; and the next run differs from this one as parts of this one differ from
 * each other, where neighbouring steps are alike, or neighbouring phases: a disk is slow for longer
 * than one checkpoint takes. Of one phase only the bound is known. `after_sleep`: of phases in
 * which the thread of the steps sleeps; else NULL. */
static void phase_gain(const struct an_context *context, const struct an_phase *phase,
                       const struct stays *after_sleep, double times, double lane_steps,
                       struct an_finding *finding)
{
    const struct stays stays = after_sleep ? *after_sleep : (struct stays){1, 1, 1};
    const struct an_steps *steps = &context->result->steps;
    double rest = phase->lane_run_ms - phase->lane_ms, ratio = phase->lane_ms / rest,
           least = loader_time(context, rest, lane_steps);
    double of_phase = phase->lane_sd_ms * sqrt((double)phase->lane_count) / phase->lane_ms;
    double of_steps = an_value_or_0(steps->sd_ms) * sqrt((double)steps->counted) / rest;
    double of_run = context->what_if ? context->what_if->pairs_error : 0;
    double half = AN_Z95 * sqrt(of_phase * of_phase + of_steps * of_steps) + of_run;
    double low = fmin(1 - half, phase->lane_segment_low - of_run),
           high = fmax(1 + half, phase->lane_segment_high + of_run);
    if (!isfinite(half)) {
        an_finding_ceiling(finding, phase->lane_run_ms, phase->lane_ms,
                           "one phase does not show how much the next one takes");
        finding->method = "ceiling: run / (run - phase) - 1";
        return;
    }
    finding->gain =
        (struct an_gain){.low = an_num(rarer_gain(fmax(0, ratio * low), times, stays.most, least)),
                         .expected = an_num(rarer_gain(ratio, times, stays.expected, least)),
                         .high = an_num(rarer_gain(ratio * high, times, stays.least, 0))};
    finding->method =
        after_sleep
            ? "the run's time again with so many fewer phases, each as long as those of this "
              "run; the other steps take as long as those that follow no checkpoint, or, where "
              "nearly all follow one, half way to their lower quartile (which is the high end); "
              "not faster than the loader's workers make batches; "
              "95 % by the spread of phases, of steps, and of segments of the run"
            : "the run's time again with so many fewer phases, each as long as those of this "
              "run: run / (run - those phases) - 1, but not faster than the loader's workers "
              "make batches; 95 % by the spread of phases, of steps, and of segments of the run";
}

static const char *phase_option(struct an_context *context, const struct kind *kind, double every)
{
    if (an_command_framework(context) != AN_FRAMEWORK_LIBTRAIN)
        return an_finding_text(context, "%ss every %.0f steps", kind->phase, every);
    return an_finding_text(context, "%s %.0f", kind->option, every);
}

/* What to do: the phase every `wanted` steps instead of every `every`, with the option that sets it
 * where the program is known to have one; or what `otherwise` says. */
static const char *phase_action(struct an_context *context, const struct kind *kind, double wanted,
                                double every, const char *otherwise)
{
    const char *option = "";
    if (an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN)
        option = an_finding_text(context, " (%s)", phase_option(context, kind, wanted));
    return an_finding_text(context, "%s every %.0f steps instead of %.0f%s; %s", kind->every,
                           wanted, every, option, otherwise);
}

/* How checkpoints are written while steps go on, as an action and as a change of the command. */
static const char *asynchronous_words(const struct an_context *context, const char **change)
{
    bool engine = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN;
    *change = engine ? "--checkpoint-async" : "asynchronous checkpoints";
    return engine ? "write checkpoints while steps go on: --checkpoint-async (with an optimizer "
                    "that updates each element alone)"
                  : "write checkpoints while steps go on: copy the state and let a thread of its "
                    "own, or torch.distributed.checkpoint.async_save(), write it; with several "
                    "ranks let each write its part";
}

static void phase_evidence(struct an_context *context, const struct an_phase *phase, double every,
                           struct an_finding *finding)
{
    const char *segments = "";
    if (phase->lane_segment_high - phase->lane_segment_low >= FINDINGS_NOISE_PCT / 100)
        segments = an_finding_text(context, " (%+.0f to %+.0f %% in segments of the run)",
                                   100 * (phase->lane_segment_low - 1),
                                   100 * (phase->lane_segment_high - 1));
    an_finding_note(context, finding, "%" PRId64 " times, every %.0f steps, %s each on average%s",
                    phase->lane_count, every,
                    an_time_words(context->arena, phase->lane_ms / (double)phase->lane_count, 3),
                    segments);
    an_finding_note(context, finding, "%s of %s from the first step to the end",
                    an_time_words(context->arena, phase->lane_ms, 3),
                    an_time_words(context->arena, phase->lane_run_ms, 3));
    if (phase->wall_ms > 1.1 * phase->exposed_ms)
        an_finding_note(context, finding, "%s more overlap with the steps",
                        an_time_words(context->arena, phase->wall_ms - phase->exposed_ms, 3));
    an_finding_note(context, finding, "a step takes %s (%s); phases are excluded from it",
                    an_time_words(context->arena, an_value_or_0(context->result->steps.mean_ms), 3),
                    an_window_text(context));
}

/* Steps between checkpoints with least time lost, for failures that come every `hours` on average:
 * sqrt(2 C M) - C for a checkpoint of C and a mean time between failures of M (Young 1974, Daly
 * 2006, first order), at least 1. */
static double young_steps(const struct an_phase *phase, double step_ms, double hours)
{
    double cost = phase->lane_ms / (double)phase->lane_count, between = hours * 3600e3;
    return fmax(1, round((sqrt(2 * cost * between) - cost) / step_ms));
}

/* Mean times between failures of jobs, from a large one to one that hardly fails. */
static const struct {
    const char *words;
    double hours;
} failures[] = {{"1 hour", 1}, {"1 day", 24}, {"1 week", 168}, {"1 month", 720}};
#define FAILURES (sizeof failures / sizeof *failures)

/* How far apart checkpoints should be depends on how often the job fails, which a recording does
 * not show: a table instead of advice. */
static void interval_table(struct an_context *context, const double steps[FAILURES],
                           struct an_finding *finding)
{
    an_finding_note(context, finding,
                    "least time is lost with a checkpoint every %.0f steps if the job fails every "
                    "%s, %.0f: %s, %.0f: %s, %.0f: %s (Young, Daly); tacho report --mtbf HOURS "
                    "advises one",
                    steps[0], failures[0].words, steps[1], failures[1].words, steps[2],
                    failures[2].words, steps[3], failures[3].words);
}

/* What checkpoints cost that are further apart than failures ask for is known without their rate:
 * the gain is that of the whole table, from a failure every hour to one a month. */
static void gain_of_table(struct an_context *context, const struct an_phase *phase, double every,
                          double step_ms, double lane_steps, struct an_finding *finding)
{
    struct an_gain gain[FAILURES];
    double steps[FAILURES];
    const struct stays stays = stays_after_sleep(context, phase);
    for (size_t i = 0; i < FAILURES; i++) {
        steps[i] = young_steps(phase, step_ms, failures[i].hours);
        phase_gain(context, phase, &stays, fmax(1, steps[i] / every), lane_steps, finding);
        gain[i] = finding->gain;
    }
    interval_table(context, steps, finding);
    if (finding->gain.ceiling)
        return;
    finding->gain = (struct an_gain){
        .low = gain[0].low, .expected = gain[1].expected, .high = gain[FAILURES - 1].high};
    finding->bound = false;
    finding->effort = "a setting, or some lines of code";
    finding->action = an_finding_text(context,
                                      "write checkpoints as rarely as failures allow (the evidence "
                                      "has the steps between them), or %s",
                                      finding->action);
    finding->method = an_finding_text(
        context,
        "checkpoints at the interval that loses the least time: low for a failure every %s, high "
        "every %s; %s",
        failures[0].words, failures[FAILURES - 1].words, finding->method);
    finding->wrong_when = "the job fails more often than every hour; or copying the state, or "
                          "writing it during the steps, takes as long";
}

/* Checkpoints: without a known rate of failures no interval between them is advised, only what they
 * cost while no step runs is a reason to change something. */
static void checkpoint_advice(struct an_findings_list *findings, const struct kind *kind,
                              const struct an_phase *phase, double every, double lane_steps,
                              struct an_finding *finding)
{
    struct an_context *context = findings->context;
    double hours = context->options->mtbf_hours,
           step_ms = an_value_or_0(context->result->steps.mean_ms);
    const char *change, *source = context->options->mtbf_source;
    finding->effort = "some lines of code";
    finding->action = asynchronous_words(context, &change);
    finding->wrong_when = "copying the state, or writing it during the steps, takes as long";
    finding->verify = an_command_rerun(context, change);
    an_finding_ceiling(finding, phase->lane_run_ms, phase->lane_ms,
                       "what an asynchronous checkpoint still costs the steps was not measured");
    finding->method = "ceiling: run / (run - checkpoints) - 1";
    finding->bound = true;
    if (!(step_ms > 0))
        return;
    if (!(hours > 0)) {
        gain_of_table(context, phase, every, step_ms, lane_steps, finding);
        return;
    }
    double wanted = young_steps(phase, step_ms, hours);
    an_finding_note(context, finding,
                    "least time is lost with a checkpoint every %.0f steps if the job fails every "
                    "%.4g hours (%s%sYoung, Daly)",
                    wanted, hours, source ? source : "", source ? "; " : "");
    if (wanted <= every)
        return;
    const char *option = phase_option(context, kind, wanted);
    const struct stays stays = stays_after_sleep(context, phase);
    finding->effort = "a setting";
    finding->bound = false;
    finding->action = phase_action(context, kind, wanted, every,
                                   an_finding_text(context, "or %s", finding->action));
    phase_gain(context, phase, &stays, wanted / every, lane_steps, finding);
    finding->setting = option;
    finding->verify = an_finding_text(context, "%s, and compare the duration of the run",
                                      an_command_rerun(context, option));
    finding->wrong_when = "the job fails more often than that";
}

/* Looks at a kind of phase that interrupts the steps. It should be so rare that it takes RARE of
 * their time. */
static void phase_time(struct an_findings_list *findings, const struct kind *kind,
                       const struct an_phase *phase)
{
    struct an_context *context = findings->context;
    double share = an_percent(phase->lane_ms, phase->lane_run_ms);
    double rest = phase->lane_run_ms - phase->lane_ms,
           steps = (double)(context->result->steps.count > 0 ? context->result->steps.count : 1) /
                   (double)(context->lane_count ? context->lane_count : 1);
    if (phase->lane_count < 2 || share < FINDINGS_NOISE_PCT || !(rest > 0))
        return;
    double every =
        an_command_number(context, kind->option, round(steps / (double)phase->lane_count));
    every = every >= 1 ? every : 1;
    double wanted = round_up(every * ceil(phase->lane_ms / rest / RARE));
    bool is_checkpoint = !strcmp(kind->id, "CHECKPOINT");
    if (wanted <= every && !is_checkpoint)
        return;
    const char *option = phase_option(context, kind, wanted);
    struct an_finding *finding = an_findings_add(
        findings, kind->id,
        an_finding_text(context, "%ss take %.1f %% of the run's time while no step runs",
                        kind->phase, share));
    phase_evidence(context, phase, every, finding);
    if (is_checkpoint) {
        checkpoint_advice(findings, kind, phase, every, steps, finding);
        return;
    }
    bool has_option = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN;
    finding->action =
        phase_action(context, kind, wanted, every,
                     has_option ? "or on fewer batches (--eval-batches)" : "or on fewer batches");
    finding->effort = "a setting";
    finding->changes = kind->changes;
    phase_gain(context, phase, NULL, wanted / every, steps, finding);
    finding->setting = option;
    finding->verify = an_finding_text(context, "%s, and compare the duration of the run",
                                      an_command_rerun(context, option));
    finding->wrong_when = "the training is steered by each evaluation";
}

/* Is the first step of a lane that of its process? Not where a part of a run is looked at, nor if
 * the user asks for some later steps. Marks of the program are in the file for each step, but steps
 * that kernels show may be those of a window in which device work was recorded. */
static bool begins_with_run(const struct an_context *context, const struct an_lane *lane,
                            int64_t process_start)
{
    const struct an_options *options = context->options;
    int64_t index = context->step[lane->first].index;
    if (context->result->run.window && context->result->run.part_start > process_start)
        return false;
    if (lane->device != AN_NONE && !context->trace->step_count)
        return false;
    return !options->some_steps || (index >= options->step_from && index <= options->step_to);
}

/* Time from the start of a process to its first step, the longest. */
static double start_ms(const struct an_context *context)
{
    double most = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_lane *lane = &context->lane[i];
        int64_t start =
            lane->process != AN_NONE ? context->trace->process[lane->process].start : STORE_ABSENT;
        if (lane->count && start != STORE_ABSENT && begins_with_run(context, lane, start))
            most =
                fmax(most, (double)an_time_sub(context->step[lane->first].host_start, start) / 1e6);
    }
    return most;
}

/* Looks at the start of the program. It is paid once, so its share of a longer run is smaller: the
 * gain is a bound for a run of this length. */
static void slow_start(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    double start = start_ms(context), run = an_value_or_0(context->result->run.duration_s) * 1e3;
    if (start < SLOW_START_MS || an_percent(start, run) < START_PCT || start >= run)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "SLOW_START",
        an_finding_text(context, "%s pass before the first step, %.1f %% of the run",
                        an_time_words(context->arena, start, 3), an_percent(start, run)));
    an_finding_note(context, finding, "the run takes %s; steps begin after %s",
                    an_time_words(context->arena, run, 3), an_time_words(context->arena, start, 3));
    an_finding_note(context, finding, "%s", an_window_text(context));
    finding->action =
        "make the start shorter: cache tokenised data and compiled kernels, index "
        "files once, import less; it matters for runs that are short or restart often";
    finding->effort = "some lines of code";
    an_finding_ceiling(finding, run, start, "the start of a longer run is a smaller part of it");
    finding->method = "ceiling for a run of this length: run / (run - start) - 1";
    finding->verify = an_command_rerun(context, "a shorter start");
    finding->wrong_when = "the run that counts is much longer than this recording";
}

static const struct kind *kind_of(const struct an_phase *phase)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(phase->name, kinds[k].phase))
            return &kinds[k];
    return NULL;
}

bool an_findings_is_phase(const struct an_finding *finding)
{
    bool is_phase = false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        is_phase = is_phase || !strcmp(finding->id, kinds[k].id);
    return is_phase;
}

double an_findings_between_steps(const struct an_context *context)
{
    const struct an_result *result = context->result;
    double share = 0;
    for (size_t i = 0; i < result->phase_count; i++)
        if (kind_of(&result->phases[i]) && result->phases[i].lane_run_ms > 0)
            share += result->phases[i].lane_ms / result->phases[i].lane_run_ms;
    return fmin(share, 1);
}

void an_findings_run(struct an_findings_list *findings)
{
    const struct an_result *result = findings->context->result;
    for (size_t i = 0; i < result->phase_count; i++) {
        const struct kind *kind = kind_of(&result->phases[i]);
        if (kind)
            phase_time(findings, kind, &result->phases[i]);
    }
    slow_start(findings);
}
