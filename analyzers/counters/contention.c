/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores that other programs took while steps ran, and how long the thread that runs the steps was
 * ready to run but had none (run-queue wait). The ranges of that thread stay open during the wait,
 * so the budget counts it as whatever the ranges say, mostly as compute: the head of every report
 * warns of it.
 *
 * All values come from samples, over the time from the first counted step to the last one. others =
 * busy share of the machine x its CPUs - CPU time of the run's processes / that time. wait = growth
 * of the kernel's account of the thread's time on a run queue (/proc/PID/schedstat) / that time.
 *
 * Whose fault a wait is follows from intervals of that time, because a neighbour may come in
 * bursts. With C usable cores, of which the run used U while its thread waited for the part W of
 * the interval, its threads were ready for U / (1 - W) cores. On free cores they would have waited
 * for 1 - C (1 - W) / U, if that is positive: that part is the run's own. The rest was lost to
 * other programs, but never more than the CPU time that those used, or to a CPU quota.
 *
 * A group whose quota is spent is stopped on every CPU where it has work. The kernel counts that
 * time T as a sum over CPUs (cpu.stat), so the thread was stopped for at least T / C and at most T.
 * With R threads ready at a time, expected is T / R. What remains of the wait may be other
 * programs'.
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/sampled.h"
#include "analyzers/counters/system.h"

/* ns: the kernel counts busy CPUs in ticks, so a shorter time says nothing. */
#define BUSY_LEAST 300000000
#define WAIT_LEAST 90000000 /* ns: this one it counts exactly */
/* CPUs, and this share of the machine's: what a recorder and a quiet system need is below it. */
#define OTHERS_LEAST 0.25
#define OTHERS_SHARE 0.2
#define WAIT_PCT     5.0
/* An interval of the attribution: in less, ticks of 10 ms say too little. */
#define INTERVAL       100000000 /* ns */
#define INTERVALS_MOST 600
#define BLOCKS_MOST    20   /* of intervals in a row, whose means are taken as independent */
#define SPEED_LEAST    0.01 /* of a thread that is ready */

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

/* What was sampled of the machine while counted steps ran. */
struct machine {
    const struct an_track *busy;
    struct window window;
    double cpus; /* 0: not known */
};

/* Finds the samples of the machine. Returns why there are none, NULL: there are. */
static const char *find_machine(const struct an_context *context, struct machine *machine)
{
    const struct an_trace *trace = context->trace;
    const char *online = an_trace_key(trace, "cpu.online");
    *machine = (struct machine){.window = counted_window(context, AN_NONE),
                                .cpus = online ? strtod(online, NULL) : 0};
    if (!(machine->cpus > 0))
        return "the file does not say how many CPUs the machine has";
    for (size_t k = 0; k < trace->track_count; k++)
        if (an_system_track(&trace->track[k], "cpu_busy", true)) {
            if (machine->busy)
                return "the run is on several machines: see `tacho report` of each machine's file";
            machine->busy = &trace->track[k];
        }
    if (!machine->busy)
        return "the machine was not sampled";
    return clip(trace, machine->busy, BUSY_LEAST, &machine->window)
               ? NULL
               : "less than 0.3 s of the counted steps were sampled: let the run go on for longer";
}

/* The mean number of cores that the run used. */
static double own_cores(const struct an_trace *trace, struct window window)
{
    double own = 0;
    for (size_t k = 0; k < trace->track_count; k++)
        if (an_system_track(&trace->track[k], "cpu_time", false) ||
            an_system_track(&trace->track[k], "other_cpu_time", true))
            own += growth(trace, &trace->track[k], window);
    return own / (double)an_time_sub(window.end, window.start);
}

/* The mean number of cores that other programs used: the busy cores of the machine minus those of
 * the run. Below 0 by the coarseness of the kernel's ticks. */
static double other_cores(const struct an_trace *trace, const struct machine *machine,
                          struct window window, double own)
{
    return an_sampled_over(trace, machine->busy, window.start, window.end).mean / 100 *
               machine->cpus -
           own;
}

static struct an_value cores_of_others(const struct an_context *context,
                                       const struct machine *machine)
{
    double own = own_cores(context->trace, machine->window),
           cores = other_cores(context->trace, machine, machine->window, own);
    return isfinite(cores) ? an_num(fmax(0, cores)) : an_num_none("a sample is not finite");
}

/* A track that the collector samples of a lane's process; NULL: it has none. */
static const struct an_track *process_track(const struct an_trace *trace,
                                            const struct an_lane *lane, const char *name)
{
    if (lane->process == AN_NONE)
        return NULL;
    AN_EACH_TRACK(trace, lane->process, k)
    if (an_system_track(&trace->track[k], name, false))
        return &trace->track[k];
    return NULL;
}

/* Returns the track with the run-queue wait of a lane's thread; NULL if it was not sampled, or if
 * the lane's thread is not the first of its process. */
static const struct an_track *wait_track(const struct an_trace *trace, const struct an_lane *lane)
{
    if (lane->track == AN_NONE || lane->process == AN_NONE ||
        trace->track[lane->track].tid != trace->process[lane->process].pid)
        return NULL;
    return process_track(trace, lane, "cpu_wait");
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

/* ---- whose fault a wait is ------------------------------------------------------------------- */

/* Means over an interval, as shares of its time. */
struct blame {
    double lost;    /* waited for a core that other programs had */
    double own;     /* would have waited on free cores, too */
    double present; /* 1: others used more than a quarter of a core */
    double stopped; /* could not run because the quota was spent */
    double lost_least, lost_most, stopped_least, stopped_most; /* bounds of these two */
};

/* The tracks of each lane: the wait of its thread, the throttled time of its process; NULL: not
 * sampled. */
struct wait_tracks {
    const struct an_track **wait, **throttled;
};

/* How much the totals of the lanes grew in the interval, as a part of its time: the mean of the
 * lanes; NAN: not sampled. */
static double interval_wait(const struct an_context *context, const struct an_track *const *track,
                            struct window window)
{
    double sum = 0;
    size_t lanes = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        struct window part = window;
        if (!track[i] || !clip(context->trace, track[i], 1, &part))
            continue;
        sum += growth(context->trace, track[i], part) / (double)an_time_sub(part.end, part.start);
        lanes++;
    }
    return lanes ? sum / (double)lanes : NAN;
}

/* Splits the wait of an interval: see the head of this file. */
static struct blame split_wait(double wait, double own, double others, double refused, double cores)
{
    double ready = own / fmax(1 - wait, SPEED_LEAST);
    double alone = ready > cores ? fmin(wait, 1 - cores / ready) : 0;
    double rest = wait - alone, by_others = fmax(0, fmin(rest, others)),
           by_quota = fmin(rest, refused), least = fmin(rest, refused / cores),
           stopped = fmin(rest, refused / fmin(fmax(1, ready), cores));
    return (struct blame){.lost = fmin(by_others, rest - stopped),
                          .own = alone,
                          .present = others > OTHERS_LEAST,
                          .stopped = stopped,
                          .lost_least = fmin(by_others, rest - by_quota),
                          .lost_most = fmin(by_others, rest - least),
                          .stopped_least = least,
                          .stopped_most = by_quota};
}

/* Fills the blame of each interval and returns how many are known. */
static size_t split_intervals(const struct an_context *context, const struct machine *machine,
                              const struct wait_tracks *track, size_t intervals,
                              struct blame *blame)
{
    const struct an_count *usable = &context->result->run.cores;
    double cores = usable->valid && usable->value > 0 ? (double)usable->value : machine->cpus;
    int64_t whole = an_time_sub(machine->window.end, machine->window.start);
    size_t known = 0;
    for (size_t i = 0; i < intervals; i++) {
        double from = (double)i / (double)intervals, to = (double)(i + 1) / (double)intervals;
        struct window window = {machine->window.start + (int64_t)(from * (double)whole),
                                machine->window.start + (int64_t)(to * (double)whole)};
        double wait = interval_wait(context, track->wait, window),
               refused = interval_wait(context, track->throttled, window),
               own = own_cores(context->trace, window),
               others = other_cores(context->trace, machine, window, own);
        if (isfinite(wait) && isfinite(others))
            blame[known++] = split_wait(wait, own, others, isfinite(refused) ? refused : 0, cores);
    }
    return known;
}

/* Half the width of the 95 % interval of the mean of one part of the blame (an offset in it), from
 * the means of blocks of intervals, since neighbouring intervals are alike; *mean is the mean. */
static double blame_half(const struct blame *blame, size_t count, size_t part, double *mean)
{
    double sum = 0, block[BLOCKS_MOST];
    size_t blocks = count < BLOCKS_MOST ? count : BLOCKS_MOST;
    for (size_t i = 0; i < blocks; i++) {
        size_t first = i * count / blocks, end = (i + 1) * count / blocks;
        block[i] = 0;
        for (size_t k = first; k < end; k++) {
            double value = *(const double *)(const void *)((const char *)&blame[k] + part);
            block[i] += value / (double)(end - first);
            sum += value;
        }
    }
    *mean = sum / (double)count;
    return blocks > 1 ? an_quantile_of_tail(an_student_tail, 0.025, (double)(blocks - 1)) *
                            an_sd(block, blocks) / sqrt((double)blocks)
                      : *mean;
}

/* Fills the means of the blame and their intervals. */
static void fill_blame(struct an_system *system, const struct blame *blame, size_t count)
{
#define HALF_OF(part, mean) blame_half(blame, count, offsetof(struct blame, part), mean)
    double lost, own, present, stopped, least, most, stopped_least, stopped_most;
    double half = HALF_OF(lost, &lost), stopped_half = HALF_OF(stopped, &stopped);
    (void)HALF_OF(own, &own);
    (void)HALF_OF(present, &present);
    (void)HALF_OF(lost_least, &least);
    (void)HALF_OF(lost_most, &most);
    (void)HALF_OF(stopped_least, &stopped_least);
    (void)HALF_OF(stopped_most, &stopped_most);
#undef HALF_OF
    half = count > 1 ? half : fmin(lost, system->other_cores.value);
    lost = fmin(lost, system->other_cores.value);
    system->others_lost_pct = an_num(100 * fmin(1, lost));
    system->others_lost_low_pct = an_num(100 * fmax(0, fmin(lost, least) - half));
    system->others_lost_high_pct = an_num(100 * fmin(1, fmax(lost, most) + half));
    system->own_wait_pct = an_num(100 * fmin(1, own));
    system->others_present_pct = an_num(100 * present);
    if (!system->cpu_quota.valid || !system->throttled_cores.valid)
        return; /* there is no quota, or it is not known what it cost */
    system->throttled_pct = an_num(100 * fmin(1, stopped));
    system->throttled_low_pct = an_num(100 * fmax(0, stopped_least - stopped_half));
    system->throttled_high_pct = an_num(100 * fmin(1, stopped_most + stopped_half));
}

static void blame_absent(struct an_system *system, const char *reason)
{
    system->others_lost_pct = system->others_lost_low_pct = system->others_lost_high_pct =
        system->own_wait_pct = system->others_present_pct = an_num_none(reason);
}

/* Attributes the wait to other programs and to the run itself. 0 or TACHO_ENOMEM. */
static int attribute_wait(struct an_context *context, const struct machine *machine)
{
    struct an_system *system = &context->result->system;
    int64_t whole = an_time_sub(machine->window.end, machine->window.start);
    size_t intervals = (size_t)(whole / INTERVAL);
    intervals = intervals < INTERVALS_MOST ? intervals : INTERVALS_MOST;
    if (!system->other_cores.valid || !system->cpu_wait_pct.valid || !intervals) {
        blame_absent(system, system->other_cores.valid ? system->cpu_wait_pct.reason
                                                       : system->other_cores.reason);
        return 0;
    }
    struct blame *blame = an_arena_zero(context->scratch, intervals, sizeof *blame);
    const struct wait_tracks track = {
        an_arena_zero(context->scratch, context->lane_count + 1, sizeof *track.wait),
        an_arena_zero(context->scratch, context->lane_count + 1, sizeof *track.throttled)};
    if (!blame || !track.wait || !track.throttled)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->lane_count; i++) {
        track.wait[i] = wait_track(context->trace, &context->lane[i]);
        track.throttled[i] = process_track(context->trace, &context->lane[i], "cpu_throttled");
    }
    size_t known = split_intervals(context, machine, &track, intervals, blame);
    if (known)
        fill_blame(system, blame, known);
    else
        blame_absent(system, "no interval of the counted steps was sampled");
    return 0;
}

/* ---- the quota ------------------------------------------------------------------------------- */

static void throttled_pct_all(struct an_system *system, struct an_value value)
{
    system->throttled_pct = system->throttled_low_pct = system->throttled_high_pct = value;
}

static void throttled_all(struct an_system *system, struct an_value value)
{
    throttled_pct_all(system, value);
    system->throttled_cores = value;
}

/* Core time that was refused in the counted steps / their time: the mean of the lanes. */
static struct an_value refused_cores(const struct an_context *context)
{
    double sum = 0;
    size_t lanes = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_track *track =
            process_track(context->trace, &context->lane[i], "cpu_throttled");
        struct window window = counted_window(context, (uint32_t)i);
        if (!track || !clip(context->trace, track, WAIT_LEAST, &window))
            continue;
        sum +=
            growth(context->trace, track, window) / (double)an_time_sub(window.end, window.start);
        lanes++;
    }
    return lanes && isfinite(sum) ? an_num(sum / (double)lanes)
                                  : an_num_none("the throttled time was not sampled in the steps");
}

/* The quota of a lane's process as it was recorded: cores, "none"; NULL: not recorded. */
static const char *quota_text(const struct an_trace *trace, const struct an_lane *lane)
{
    char key[64];
    if (lane->process == AN_NONE)
        return NULL;
    snprintf(key, sizeof key, "process.%" PRId64 ".cpu_quota", trace->process[lane->process].id);
    return an_trace_key(trace, key);
}

/* Fills the smallest quota of the processes that run steps, and what is known of its cost without
 * the run-queue wait. */
static void find_quota(struct an_context *context)
{
    static const char *const unknown =
        "the control groups of the run were not visible, or an older tacho recorded it";
    struct an_system *system = &context->result->system;
    double least = INFINITY;
    bool known = context->lane_count > 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        const char *text = quota_text(context->trace, &context->lane[i]);
        double cores = text ? strtod(text, NULL) : 0;
        known = known && text;
        least = cores > 0 && cores < least ? cores : least;
    }
    system->cpu_unlimited = known && !isfinite(least);
    const char *why = system->cpu_unlimited ? "no CPU quota limits the run" : unknown;
    system->cpu_quota = isfinite(least) ? an_num(least) : an_num_none(why);
    throttled_all(system, system->cpu_unlimited ? an_num(0) : an_num_none(why));
    if (!isfinite(least))
        return;
    system->throttled_cores = refused_cores(context);
    throttled_pct_all(system, an_num_none(system->throttled_cores.valid
                                              ? "the wait for a core was not sampled"
                                              : system->throttled_cores.reason));
}

/* ---- the warning ----------------------------------------------------------------------------- */

/* "12 % of the steps' time their thread waited for a core (run-queue wait)"; NULL: too little. */
static const char *wait_words(struct an_context *context)
{
    const struct an_value *wait = &context->result->system.cpu_wait_pct;
    if (!wait->valid || wait->value < WAIT_PCT)
        return NULL;
    return an_arena_format(context->arena,
                           "%.0f %% of the steps' time their thread waited for a core (run-queue "
                           "wait)",
                           wait->value);
}

/* The warning where the quota explains more of the wait than other programs do; NULL. */
static const char *quota_caution(struct an_context *context, const char *wait)
{
    const struct an_system *system = &context->result->system;
    if (!wait || an_value_or_0(system->throttled_pct) < WAIT_PCT ||
        system->throttled_pct.value < an_value_or_0(system->others_lost_pct))
        return NULL;
    return an_arena_format(context->arena,
                           "CPU QUOTA: %s, mostly because the quota of %.3g cores was spent. The "
                           "lost time counts as compute or whatever else ran.",
                           wait, system->cpu_quota.value);
}

/* Returns the warning for the head of every report, NULL if there is no reason for one. */
static const char *caution(struct an_context *context, double cpus)
{
    const struct an_system *system = &context->result->system;
    const char *wait = wait_words(context);
    const char *quota = quota_caution(context, wait);
    if (quota)
        return quota;
    bool company = system->other_cores.valid && system->other_cores.value > OTHERS_LEAST &&
                   system->other_cores.value > OTHERS_SHARE * cpus;
    bool lost = wait && an_value_or_0(system->others_lost_pct) >= WAIT_PCT;
    if (company || lost)
        return an_arena_format(
            context->arena,
            "SHARED MACHINE: other programs used %.1f of %.0f CPUs while these steps ran%s%s: the "
            "lost time counts as compute or whatever else ran. Use free cores or a "
            "reserved node, and record again.",
            system->other_cores.value, cpus, wait ? ", and " : "", wait ? wait : "");
    if (!wait)
        return NULL;
    if (!system->other_cores.valid)
        return an_arena_format(
            context->arena,
            "SHORT OF CORES: %s: other programs took them, or the run has more threads than there "
            "are cores. The lost time counts as compute or whatever else ran.",
            wait);
    if (an_value_or_0(system->own_wait_pct) >= WAIT_PCT)
        return an_arena_format(context->arena,
                               "TOO FEW CORES: %s, with few other programs running: the run has "
                               "more threads than cores. The lost time counts as compute "
                               "or whatever else ran. Use fewer threads, ranks or workers.",
                               wait);
    return an_arena_format(context->arena,
                           "SHORT OF CORES: %s, although the machine had cores free and few other "
                           "programs ran: %s an affinity that the program sets can "
                           "cause it. The lost time counts as compute or whatever else ran.",
                           wait, system->cpu_unlimited ? "" : "a CPU quota or");
}

static void contention_absent(struct an_context *context, const char *reason)
{
    context->result->system.other_cores = context->result->system.cpu_wait_pct =
        context->result->system.cpu_quota = an_num_none(reason);
    throttled_all(&context->result->system, an_num_none(reason));
    blame_absent(&context->result->system, reason);
}

static int contention_run(struct an_context *context)
{
    struct machine machine;
    const char *missing = find_machine(context, &machine);
    find_quota(context);
    context->result->system.other_cores =
        missing ? an_num_none(missing) : cores_of_others(context, &machine);
    context->result->system.cpu_wait_pct = wait_pct(context);
    int rc = attribute_wait(context, &machine);
    context->result->caution = caution(context, machine.cpus);
    return rc;
}

const struct an_analyzer an_contention = {
    .name = "contention",
    .help = "cores that other programs took while steps ran",
    .after = "steps, system",
    .needs = AN_INPUT_COUNTERS | AN_INPUT_STEPS,
    .run = contention_run,
    .absent = contention_absent,
};
