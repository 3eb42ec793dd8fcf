/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of the control groups of the run. CPU_QUOTA: the quota of CPU time is spent, and the
 * threads are stopped until its next period. MEMORY_PRESSURE: tasks wait for memory. LEAK: a
 * process keeps more from step to step.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/replay/what_if_run.h"
#include "analyzers/steps/team.h"

#define STALLED_LEAST 2.0 /* % of the steps' time, for all tasks at once */
#define SOME_LEAST    5.0 /* the same for some task */
#define HORIZON_MS    (7 * 24 * 3600e3)
#define GROWING       "growing " /* how the hook begins the name of what grows */

/* ---- CPU_QUOTA ------------------------------------------------------------------------------- */

static void quota_evidence(struct an_context *context, struct an_finding *finding)
{
    const struct an_system *system = &context->result->system;
    double step_ms = an_budget_step_ms(&context->result->budget);
    an_finding_note(context, finding,
                    "the control group may use %.3g cores; the run may use %.0f"
                    " CPUs and used %.2f cores (%s)",
                    system->cpu_quota.value, an_count_or_0(context->result->run.cores),
                    an_value_or_0(system->cpu_cores), an_window_text(context));
    an_finding_note(context, finding, "throttled (cpu.stat): %s of core time a step",
                    an_time_words(context->arena, step_ms * system->throttled_cores.value, 3));
    if (system->throttled_pct.valid)
        an_finding_note(
            context, finding,
            "of that the steps' thread could not run for %s of each step: %.0f %% "
            "[%.0f, %.0f]",
            an_time_words(context->arena, step_ms * system->throttled_pct.value / 100, 3),
            system->throttled_pct.value, system->throttled_low_pct.value,
            system->throttled_high_pct.value);
}

/* The step if nothing stopped its threads, ms. */
struct unstopped {
    double least, expected, most; /* all 0: not known */
};

/* The step in which the workers make its batches, ms; 0: there are none. */
struct loader_bound {
    double least, most;
};

/* A worker that is stopped in a batch takes longer for it, which its ranges do not tell from work.
 * The quick batches of a run were not stopped, unless all were; the others may have held more. */
static struct loader_bound loader_bound(const struct an_loader *loader)
{
    if (!loader->workers.valid || loader->workers.value <= 0 || !loader->batch_ms.valid)
        return (struct loader_bound){0};
    double batches = an_value_or_0(loader->batches_per_step) / (double)loader->workers.value,
           most = loader->batch_ms.value * batches;
    double least = loader->quick_batch_ms.valid ? loader->quick_batch_ms.value * batches : most;
    return (struct loader_bound){fmin(least, most), most};
}

/* ms that a step would wait for data if the quota stopped nothing: as long as the median step does,
 * at most the mean. Only for a loader in line, whose batches all take about as long. */
static double input_ms(struct an_context *context, double mean_ms)
{
    if (an_count_or_0(context->result->loader.workers) > 0)
        return mean_ms;
    double *ms = an_arena_zero(context->scratch, context->step_count + 1, sizeof *ms);
    size_t count = 0;
    for (size_t i = 0; ms && i < context->step_count; i++)
        if (an_step_detailed(&context->step[i]))
            ms[count++] = (double)context->step[i].class_ns[AN_CLASS_INPUT] / 1e6;
    return count ? fmin(mean_ms, an_quantile_of(ms, count, 0.5)) : mean_ms;
}

/* Compute waits for nothing but cores, so on cores of its own it takes its CPU time, divided by the
 * threads of the team that compute at once. Everything else stays as it was, what other programs
 * take included, but for the time in which the thread was stopped while it read data. A part of a
 * team's CPU time is no work (team.h). The CPU time is that of all processes of the run: that of
 * loader workers makes the step longer here than it would be. */
static struct unstopped unstopped_step(struct an_context *context)
{
    const struct an_result *result = context->result;
    const struct an_system *system = &result->system;
    const struct an_value *compute = &result->budget.pct[AN_CLASS_COMPUTE];
    const struct an_team team = an_team_of(context);
    double ranks = team.ranks > 0 ? (double)team.ranks : 1,
           cores = an_count_or_0(result->run.cores) / ranks,
           threads = fmax(1, fmin((double)team.threads, cores)),
           step_ms = an_budget_step_ms(&result->budget);
    if (!system->cpu_cores.valid || !compute->valid || !(step_ms > 0) || !team.threads)
        return (struct unstopped){0};
    double compute_ms = step_ms * compute->value / 100, rest_ms = step_ms - compute_ms,
           mean_input_ms = step_ms * an_value_or_0(result->budget.pct[AN_CLASS_INPUT]) / 100,
           unstopped_ms = rest_ms - mean_input_ms + input_ms(context, mean_input_ms),
           alone_ms = step_ms * system->cpu_cores.value / ranks / threads,
           for_others = 1 - an_value_or_0(system->others_lost_pct) / 100;
    const double of_cpu_time[] = {threads > 1 ? AN_TEAM_WORK_LEAST : 1,
                                  threads > 1 ? AN_TEAM_WORK_EXPECTED : 1, 1};
    const double rest[] = {unstopped_ms, unstopped_ms, rest_ms};
    double step[3];
    for (int i = 0; i < 3; i++)
        step[i] = rest[i] + fmin(compute_ms, alone_ms * of_cpu_time[i] / fmax(0.01, for_others));
    return (struct unstopped){step[0], step[1], step[2]};
}

/* Of the mean step: half of its 90 % interval, as a share of it. Steps that a quota stops differ
 * much from those that it does not. */
static double mean_step_error(const struct an_steps *steps)
{
    if (!steps->sd_ms.valid || !(steps->mean_ms.value > 0) || steps->counted < 2)
        return 0;
    return AN_Z90 * steps->sd_ms.value / steps->mean_ms.value / sqrt((double)steps->counted);
}

/* A gain, if the loader's workers need so long for a step; 0: nothing. */
static double gain_beside(double gain, double step_ms, double loader_ms)
{
    return loader_ms > 0 ? fmin(gain, fmax(0, 100 * (step_ms / loader_ms - 1))) : gain;
}

/* The gain where the wait of the steps' thread was sampled: from its CPU time, where that says more
 * than the wait does; else the replay on all usable CPUs, within what was measured; else that of
 * the measured time. Without it a ceiling: all core time that was refused. */
static void quota_gain(struct an_context *context, const struct an_what_if *wider,
                       struct an_finding *finding)
{
    const struct an_system *system = &context->result->system;
    if (!system->throttled_pct.valid) {
        an_finding_ceiling(finding, 1, fmin(system->throttled_cores.value, 0.99),
                           "how much of the refused core time the steps' thread waited for was not "
                           "sampled");
        finding->method = "ceiling: the core time that the quota refused, as if each step waited "
                          "for all of it";
        return;
    }
    double low = an_finding_gain_of_lost(system->throttled_low_pct.value),
           high = an_finding_gain_of_lost(system->throttled_high_pct.value),
           expected = an_finding_gain_of_lost(system->throttled_pct.value);
    finding->method = "100 lost / (100 - lost): the part of the steps in which their thread could "
                      "not run because the quota was spent";
    const struct an_value *replayed = &wider->gain.expected;
    const struct unstopped alone = unstopped_step(context);
    double step_ms = an_budget_step_ms(&context->result->budget),
           most = an_finding_gain_of_lost(100 * system->throttled_cores.value),
           error = mean_step_error(&context->result->steps);
    if (alone.most > 0 && 100 * (step_ms / alone.expected - 1) > expected) {
        low = fmax(low, 100 * (step_ms * (1 - error) / alone.most - 1));
        expected = 100 * (step_ms / alone.expected - 1);
        high = 100 * (step_ms * (1 + error) / alone.least - 1);
        finding->method =
            "compute takes its CPU time divided by the threads of its team, of which up to a "
            "third is spinning for threads that were stopped; the rest of the step stays "
            "as it was, except that it waits for data only as long as the median step";
    } else if (!wider->reason && !wider->ceiling && replayed->valid && replayed->value >= low &&
               replayed->value <= most) {
        expected = replayed->value;
        high = fmax(high, fmin(most, an_value_or_0(wider->gain.high)));
        finding->method = an_finding_text(context,
                                          "replay of the dependency graph with %s, within what "
                                          "the throttled time of one CPU and of all explains",
                                          wider->edit);
    }
    const struct loader_bound loader = loader_bound(&context->result->loader);
    expected = gain_beside(expected, step_ms, (loader.least + loader.most) / 2);
    finding->gain = (struct an_gain){
        .low = an_num(gain_beside(low, step_ms * (1 - error), loader.most)),
        .expected = an_num(expected),
        .high = an_num(fmax(gain_beside(high, step_ms * (1 + error), loader.least), expected))};
}

/* What to set, and the other way out: no more threads than the quota lets run at a time. */
static void quota_action(struct an_context *context, struct an_finding *finding)
{
    const struct an_team team = an_team_of(context);
    double cores = an_count_or_0(context->result->run.cores);
    int64_t fitting = (int64_t)floor(context->result->system.cpu_quota.value /
                                     (double)(team.ranks > 0 ? team.ranks : 1));
    finding->action = an_finding_text(context,
                                      "raise the CPU quota to %.0f"
                                      " cores (cpu.max; docker --cpus, limits.cpu of Kubernetes, "
                                      "CPUQuota= of systemd), or remove it",
                                      cores);
    if (team.threads > fitting && fitting >= 1)
        finding->action = an_finding_text(
            context, "%s; where it must stay, OMP_NUM_THREADS=%" PRId64 " wastes less of it",
            finding->action, fitting);
    finding->effort = "an option of the container or of the scheduler";
    finding->verify = "run the same command with the larger quota: tacho diff of both runs; "
                      "throttled time in cpu.stat of the control group stays 0";
    finding->wrong_when =
        "other processes in the same control group spend the quota: then they can "
        "be moved out of it";
}

int an_findings_quota(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_system *system = &context->result->system;
    struct an_what_if wider;
    bool costs = system->throttled_pct.valid
                     ? system->throttled_low_pct.value >= FINDINGS_NOISE_PCT
                     : 100 * an_value_or_0(system->throttled_cores) >= FINDINGS_NOISE_PCT;
    if (!system->cpu_quota.valid || !costs || !context->result->run.cores.valid)
        return 0;
    const char *edit = an_finding_text(context, "cores=%" PRId64, context->result->run.cores.value);
    if (an_what_if_of(context, edit, &wider))
        return TACHO_ENOMEM;
    struct an_finding *finding = an_findings_add(
        findings, "CPU_QUOTA",
        an_finding_text(context,
                        "a CPU quota of %.3g cores stops the run: when it is spent, no thread runs "
                        "until the next period",
                        system->cpu_quota.value));
    quota_evidence(context, finding);
    quota_action(context, finding);
    quota_gain(context, &wider, finding);
    if (wider.reason || finding->gain.ceiling)
        return 0;
    finding->what_if = edit;
    finding->replay = wider;
    finding->replay.of = finding->id;
    finding->replay.ceiling = NULL;
    an_finding_keep_gain(context, finding);
    return 0;
}

/* ---- MEMORY_PRESSURE ------------------------------------------------------------------------- */

/* "1.2 GB"; NULL: there is no limit. */
static const char *limit_words(struct an_context *context)
{
    const struct an_count *limit = &context->result->pressure.limit_bytes;
    return limit->valid ? an_bytes_text(context, (double)limit->value) : NULL;
}

static void pressure_evidence(struct an_context *context, struct an_finding *finding)
{
    const struct an_pressure *pressure = &context->result->pressure;
    const char *limit = limit_words(context);
    double step_ms = an_budget_step_ms(&context->result->budget);
    an_finding_note(context, finding,
                    "tasks of %s waited for memory for %s of each step, all of them at once for %s "
                    "(PSI, %s)",
                    pressure->scope,
                    an_time_words(context->arena, step_ms * pressure->some_pct.value / 100, 3),
                    an_time_words(context->arena, step_ms * pressure->full_pct.value / 100, 3),
                    an_window_text(context));
    if (pressure->major_faults.valid)
        an_finding_note(context, finding, "%s major faults a step",
                        an_number_words(context->arena, pressure->major_faults.value, 3));
    if (limit)
        an_finding_note(context, finding, "the limit is %s%s", limit,
                        pressure->limit_hits.valid
                            ? an_finding_text(context, "; it was reached %.0f times",
                                              pressure->limit_hits.value)
                            : "");
    if (an_value_or_0(pressure->swap_in_bytes) > 0)
        an_finding_note(context, finding, "%s came back from swap",
                        an_bytes_text(context, pressure->swap_in_bytes.value));
    if (an_value_or_0(pressure->kills) > 0)
        an_finding_note(context, finding, "the kernel killed %.0f processes of the group",
                        pressure->kills.value);
}

/* All tasks waited: so did the steps'. Some task waited: it may have been another one. What else
 * the shortage costs (reclaiming itself, files that are read again) the account does not hold, so
 * that is no upper bound; the step that it held back least is nearest to one. */
static void pressure_gain(struct an_context *context, struct an_finding *finding)
{
    const struct an_pressure *pressure = &context->result->pressure;
    double some = pressure->some_pct.value, full = pressure->full_pct.value;
    if (!context->result->pressure.limit_bytes.valid || !strcmp(pressure->scope, "the machine")) {
        an_finding_ceiling(finding, 100, fmin(some, 99),
                           "the figures are those of the whole machine and include the waiting of "
                           "other programs");
        finding->method = "ceiling: the time in which some task of the machine waited for memory";
        return;
    }
    const struct an_steps *steps = &context->result->steps;
    double expected = an_finding_gain_of_lost(some);
    double fastest = steps->min_ms.valid && steps->mean_ms.valid && steps->min_ms.value > 0
                         ? 100 * (steps->mean_ms.value / steps->min_ms.value - 1)
                         : expected;
    finding->gain = (struct an_gain){.low = an_num(an_finding_gain_of_lost(full)),
                                     .expected = an_num(expected),
                                     .high = an_num(fmax(expected, fastest))};
    finding->method = "100 lost / (100 - lost): at least the time in which all tasks of the group "
                      "waited for memory, expected that in which one did; at most that each step "
                      "takes as long as the fastest one";
}

void an_findings_pressure(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_pressure *pressure = &context->result->pressure;
    const char *limit = limit_words(context);
    if (pressure->reason || !pressure->full_pct.valid || pressure->full_pct.value < STALLED_LEAST ||
        pressure->some_pct.value < SOME_LEAST)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "MEMORY_PRESSURE",
        an_finding_text(context,
                        "memory is short: in %.0f %% of the steps' time tasks wait for pages to be "
                        "reclaimed, read again or swapped in",
                        pressure->some_pct.value));
    pressure_evidence(context, finding);
    finding->action =
        limit
            ? an_finding_text(context,
                              "raise the memory limit above %s (memory.max; docker --memory, "
                              "limits.memory of Kubernetes, MemoryMax= of systemd), or hold less: "
                              "fewer loader workers, a smaller queue or cache",
                              limit)
            : "hold less memory (fewer loader workers, a smaller queue or cache), or use a "
              "machine with more";
    finding->effort = "an option of the container or of the scheduler";
    finding->verify = "run the same command with the larger limit: tacho diff of both runs; "
                      "memory.pressure of the control group stays near 0";
    finding->wrong_when = "the data is larger than any memory: then reading it is the limit, and "
                          "more loader workers read ahead";
    pressure_gain(context, finding);
}

/* ---- memory that grows: LEAK ------------------------------------------------------------------- */

/* It costs no time until none is free, so it has no gain. */

/* "rank 1 (process 4711)" */
static const char *owner_text(struct an_context *context, const struct an_leak *leak)
{
    const char *rank =
        leak->rank.valid ? an_finding_text(context, "rank %" PRId64 " (", leak->rank.value) : "";
    return an_finding_text(context, "%sprocess %" PRId64 "%s", rank, leak->pid,
                           leak->rank.valid ? ")" : "");
}

/* What grows in that process, as the hook names it: "list kept of main (train.py:92): 1 a step,
 * 0.23 MiB each"; NULL: it has found nothing. */
static const char *what_grows(const struct an_context *context, int64_t pid)
{
    const struct an_trace *trace = context->trace;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (track->process == AN_NONE || trace->process[track->process].pid != pid)
            continue;
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            const char *name = an_trace_name(trace, trace->slice.name[i]);
            if (!strncmp(name, GROWING, strlen(GROWING)))
                return name + strlen(GROWING);
        }
    }
    return NULL;
}

/* What finds the objects that a program of PyTorch keeps, in host memory or on a device. */
static const char *torch_action(struct an_context *context, bool on_device)
{
    return an_finding_text(
        context,
        "find what keeps objects of each step: a list of losses (append loss.item()), outputs kept "
        "without detach(), hooks, a cache without a limit; %s",
        on_device
            ? "torch.cuda.memory._record_memory_history(), some steps later "
              "_dump_snapshot(\"memory.pickle\"), and tacho report memory.pickle name the lines "
              "whose blocks stay"
            : "compare two snapshots of tracemalloc");
}

/* What to do about it. */
static const char *leak_action(struct an_context *context, const char *grows)
{
    bool on_device = !strcmp(context->result->leak.what, "memory of the device");
    if (grows && !strncmp(grows, "graph ", 6))
        return an_finding_text(context,
                               "%.180s: add numbers (loss.item()) or loss.detach() to it, so that "
                               "the graphs of earlier steps are released",
                               grows);
    if (grows && !strncmp(grows, "array ", 6))
        return an_finding_text(context,
                               "%.180s: it is copied as a whole each time; keep what is needed of "
                               "it, or write the parts to a file",
                               grows);
    if (grows)
        return an_finding_text(context,
                               "%.180s: keep numbers in place of tensors (loss.item(), detach()), "
                               "give it a limit, or empty it",
                               grows);
    if (an_command_framework(context) == AN_FRAMEWORK_TORCH)
        return torch_action(context, on_device);
    if (on_device)
        return "find what is allocated on the device in each step and never released: tracemalloc "
               "and heap profilers of the host do not see it (JAX: jax.live_arrays(), "
               "jax.profiler.save_device_memory_profile())";
    return an_command_marks(context,
                            "find what keeps objects of each step: compare two snapshots of "
                            "tracemalloc",
                            "find what is allocated in each step and never released: a heap "
                            "profiler (heaptrack, valgrind --tool=massif) shows the call");
}

/* After how many more steps, and how much time, no memory is free. */
static void time_left(struct an_context *context, const struct an_leak *leak,
                      struct an_finding *finding)
{
    const struct an_steps *steps = &context->result->steps;
    if (!leak->steps_left.valid) {
        an_finding_note(context, finding, "when no memory is left cannot be said: %s",
                        leak->steps_left.reason);
        return;
    }
    const char *words =
        steps->mean_ms.valid
            ? an_time_words(context->arena, leak->steps_left.value * steps->mean_ms.value, 2)
            : "";
    an_finding_note(context, finding, "no memory is free after about %s more steps%s%s",
                    an_number_words(context->arena, leak->steps_left.value, 2),
                    *words ? ", in " : "", words);
}

/* Does the run end for want of memory within HORIZON_MS? Then it is the first thing to mend,
 * although it costs no time until then. */
static bool ends_run(const struct an_context *context, const struct an_leak *leak)
{
    const struct an_value *step = &context->result->steps.mean_ms;
    return leak->steps_left.valid && step->valid &&
           leak->steps_left.value * step->value < HORIZON_MS;
}

void an_findings_leak(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_leak *leak = &context->result->leak;
    if (leak->reason || !leak->found)
        return;
    const char *what =
        leak->device ? an_finding_text(context, "%s %s", leak->what, leak->device) : leak->what;
    struct an_finding *finding = an_findings_add(
        findings, "LEAK",
        an_finding_text(context, "the %s of %s grows by %s a step and does not stop growing", what,
                        owner_text(context, leak),
                        an_bytes_text(context, leak->bytes_per_step.value)));
    const char *grows = what_grows(context, leak->pid);
    if (grows)
        an_finding_note(context, finding, "what grows: %.180s", grows);
    an_finding_note(context, finding,
                    "growth a step: 90 %% interval [%s, %s], steps %" PRId64 "-%" PRId64,
                    an_bytes_text(context, leak->low.value),
                    an_bytes_text(context, leak->high.value), leak->first_step, leak->last_step);
    an_finding_evidence(finding, "it grows in the first, the second and the last third of them");
    time_left(context, leak, finding);
    finding->fault = ends_run(context, leak);
    finding->action = leak_action(context, grows);
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("a leak costs no time until no memory is free");
    finding->method =
        "no gain: the growth is a trend of what the process holds at the end of steps";
    finding->effort = "a change in the code";
    finding->verify = "record again, as long: the finding is gone";
    finding->wrong_when = "a cache fills during the whole recording: record more than one epoch";
}
