/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores that other programs took while steps ran, and how long the thread that runs the steps was
 * ready to run but had none (run-queue wait). The ranges of that thread stay open during the wait,
 * so the budget counts it as whatever the ranges say, mostly as compute: the head of every report
 * warns of it.
 *
 * Both values come from samples, so they are means over the time from the first counted step to
 * the last one, not of single steps. others = busy share of the machine x its CPUs - CPU time of
 * the run's processes / that time. wait = growth of the kernel's account of the thread's time on a
 * run queue (/proc/PID/schedstat) / that time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/sampled.h"
#include "analyzers/counters/system.h"

/* ns: the kernel counts busy CPUs in ticks, so a shorter time says nothing. */
#define BUSY_LEAST 300000000
#define WAIT_LEAST 90000000 /* ns: this one it counts exactly */
/* CPUs, and this share of the machine's: what a recorder and a quiet system need is below it. */
#define OTHERS_LEAST 0.25
#define OTHERS_SHARE 0.2
#define WAIT_PCT     5.0

struct window {
    int64_t start, end;
};

/* From the first counted step to the end of the last one; of one lane, or of all (AN_NONE). */
static struct window counted_window(const struct an_context *context, uint32_t lane)
{
    struct window window = {INT64_MAX, INT64_MIN};
    size_t first = lane == AN_NONE ? 0 : context->lane[lane].first,
           end = lane == AN_NONE ? context->step_count : an_lane_end(&context->lane[lane]);
    for (size_t i = first; i < end; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_counted(step))
            continue;
        window.start = step->host_start < window.start ? step->host_start : window.start;
        window.end = step->host_end > window.end ? step->host_end : window.end;
    }
    return window;
}

/* Clips the window to the time in which the track has samples; false if less than `least` ns
 * remain. */
static bool clip(const struct an_trace *trace, const struct an_track *track, int64_t least,
                 struct window *window)
{
    int64_t first = trace->counter.time[track->counter_first],
            last = trace->counter.time[an_counter_end(track) - 1];
    window->start = first > window->start ? first : window->start;
    window->end = last < window->end ? last : window->end;
    return window->end > window->start && an_time_sub(window->end, window->start) >= least;
}

/* Returns how much a total of a process grew in the window. A process that started in it started
 * with 0. */
static double growth(const struct an_trace *trace, const struct an_track *track,
                     struct window window)
{
    size_t first = track->counter_first, last = first + track->counter_count - 1;
    int64_t start = track->process == AN_NONE ? STORE_ABSENT : trace->process[track->process].start;
    double from = start != STORE_ABSENT && start >= window.start ? 0 : trace->counter.value[first],
           to = trace->counter.value[last], value;
    if (an_sampled_at(trace, track, window.start, &value))
        from = value;
    if (an_sampled_at(trace, track, window.end, &value))
        to = value;
    return trace->counter.time[first] < window.end && trace->counter.time[last] > window.start
               ? fmax(0, to - from)
               : 0;
}

/* Computes the mean number of cores that other programs used: the busy cores of the machine minus
 * those of the run. */
static struct an_value cores_of_others(struct an_context *context, double *cpus)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *busy = NULL;
    const char *online = an_trace_key(trace, "cpu.online");
    struct window window = counted_window(context, AN_NONE);
    double own = 0;
    *cpus = online ? strtod(online, NULL) : 0;
    if (!(*cpus > 0))
        return an_num_none("the file does not say how many CPUs the machine has");
    for (size_t k = 0; k < trace->track_count; k++)
        if (an_system_track(&trace->track[k], "cpu_busy", true)) {
            if (busy)
                return an_num_none(
                    "the run is on several machines: see `tacho report` of each machine's file");
            busy = &trace->track[k];
        }
    if (!busy)
        return an_num_none("the machine was not sampled");
    if (!clip(trace, busy, BUSY_LEAST, &window))
        return an_num_none(
            "less than 0.3 s of the counted steps were sampled: let the run go on for longer");
    for (size_t k = 0; k < trace->track_count; k++)
        if (an_system_track(&trace->track[k], "cpu_time", false) ||
            an_system_track(&trace->track[k], "other_cpu_time", true))
            own += growth(trace, &trace->track[k], window);
    double all = an_sampled_over(trace, busy, window.start, window.end).mean / 100 * *cpus;
    double cores = all - own / (double)an_time_sub(window.end, window.start);
    return isfinite(cores) ? an_num(fmax(0, cores)) : an_num_none("a sample is not finite");
}

/* Returns the track with the run-queue wait of a lane's thread; NULL if it was not sampled, or if
 * the lane's thread is not the first of its process. */
static const struct an_track *wait_track(const struct an_trace *trace, const struct an_lane *lane)
{
    if (lane->track == AN_NONE || lane->process == AN_NONE ||
        trace->track[lane->track].tid != trace->process[lane->process].pid)
        return NULL;
    AN_EACH_TRACK(trace, lane->process, k)
    if (an_system_track(&trace->track[k], "cpu_wait", false))
        return &trace->track[k];
    return NULL;
}

/* Mean over the lanes, each with its own thread. */
static struct an_value wait_pct(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    double sum = 0;
    size_t lanes = 0;
    bool sampled = false;
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_track *track = wait_track(trace, &context->lane[i]);
        struct window window = counted_window(context, (uint32_t)i);
        sampled |= track != NULL;
        if (!track || !clip(trace, track, WAIT_LEAST, &window))
            continue;
        sum += 100 * growth(trace, track, window) / (double)an_time_sub(window.end, window.start);
        lanes++;
    }
    if (lanes)
        return isfinite(sum) ? an_num(fmin(100, sum / (double)lanes))
                             : an_num_none("a sample is not finite");
    return an_num_none(
        sampled ? "less than 0.09 s of the counted steps were sampled: let the run go on for longer"
                : "the time on a run queue was not sampled: the kernel does not account it, or the "
                  "steps' thread "
                  "is not the first of its process");
}

/* Returns the warning for the head of every report, NULL if there is no reason for one. */
static const char *caution(struct an_context *context, double cpus)
{
    const struct an_system *system = &context->result->system;
    bool company = system->other_cores.valid && system->other_cores.value > OTHERS_LEAST &&
                   system->other_cores.value > OTHERS_SHARE * cpus;
    bool waits = system->cpu_wait_pct.valid && system->cpu_wait_pct.value >= WAIT_PCT;
    const char *wait =
        !waits ? ""
               : an_arena_format(
                     context->arena,
                     "%.0f %% of the steps' time their thread waited for a core (run-queue wait)",
                     system->cpu_wait_pct.value);
    if (company)
        return an_arena_format(
            context->arena,
            "SHARED MACHINE: other programs used %.1f of %.0f CPUs while these steps ran%s%s: the "
            "lost time is shown below as compute or whatever else ran. Stop them, or give the run "
            "cores of its own, and record again.",
            system->other_cores.value, cpus, waits ? ", and " : "", wait);
    if (waits && !system->other_cores.valid)
        return an_arena_format(
            context->arena,
            "SHORT OF CORES: %s: other programs took them, or the run has more threads than there "
            "are cores. The lost time is shown below as compute or whatever else ran.",
            wait);
    if (waits)
        return an_arena_format(context->arena,
                               "TOO FEW CORES: %s, with few other programs running: the run has "
                               "more threads than cores. The lost time is shown below as compute "
                               "or whatever else ran. Use fewer threads, ranks or workers.",
                               wait);
    return NULL;
}

static void contention_absent(struct an_context *context, const char *reason)
{
    context->result->system.other_cores = context->result->system.cpu_wait_pct =
        an_num_none(reason);
}

static int contention_run(struct an_context *context)
{
    double cpus;
    context->result->system.other_cores = cores_of_others(context, &cpus);
    context->result->system.cpu_wait_pct = wait_pct(context);
    context->result->caution = caution(context, cpus);
    return 0;
}

const struct an_analyzer an_contention = {
    .name = "contention",
    .help = "cores that other programs took while steps ran",
    .after = "steps, system",
    .needs = AN_INPUT_COUNTERS | AN_INPUT_STEPS,
    .run = contention_run,
    .absent = contention_absent,
};
