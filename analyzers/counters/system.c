/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU, memory, storage, faults, context switches of the target, as the collector sampled them from
 * /proc into counter tracks (names in profiler/collector/samplers/system.h), and hardware counters.
 * Totals count since a process started, so the last value of a track is the whole process; they are
 * added over processes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/counters/system.h"

#define CPU_WINDOW_LEAST 50000000   /* ns: below it a share of cores means nothing */
#define WINDOW_LEAST     50000000   /* ns between two looks at a counter */
#define STOPPED_LEAST    0.02       /* cores that a quota refused: less is no limit */
#define COUNTER_KEY      "counter." /* run keys: status of a hardware counter */

static const struct {
    const char *name, *unit;
} sampled[] = {{"cpu_time", "ns"},
               {"cpu_wait", "ns"},
               {"thread_time", "ns"},
               {"rss", "bytes"},
               {"rss_anon", "bytes"},
               {"minor_faults", "count"},
               {"major_faults", "count"},
               {"threads", "count"},
               {"disk_read", "bytes"},
               {"disk_written", "bytes"},
               {"cpu_throttled", "ns"},
               {"memory_stall_some", "ns"},
               {"memory_stall_full", "ns"},
               {"memory_limit_hits", "count"},
               {"oom_kills", "count"},
               {"swap_in", "bytes"},
               {"swap_out", "bytes"},
               {"voluntary_switches", "count"},
               {"involuntary_switches", "count"}};

bool an_system_owns(const struct an_track *track)
{
    /* Counters of programs belong to a process. */
    if (track->process == AN_NONE)
        return true;
    for (size_t i = 0; i < sizeof sampled / sizeof *sampled; i++)
        if (!strcmp(track->name, sampled[i].name) && !strcmp(track->unit, sampled[i].unit))
            return true;
    return false;
}

bool an_system_track(const struct an_track *track, const char *name, bool machine)
{
    return !strcmp(track->kind, "counter") && track->counter_count &&
           (track->process == AN_NONE) == machine && !strcmp(track->name, name) &&
           an_system_owns(track);
}

static double last_value(const struct an_trace *trace, const struct an_track *track)
{
    return trace->counter.value[an_counter_end(track) - 1];
}

/* Sum of the last values over processes. */
static struct an_value total_of_processes(const struct an_trace *trace, const char *name,
                                          const char *reason)
{
    double sum = 0;
    bool any = false;
    for (size_t k = 0; k < trace->track_count; k++)
        if (an_system_track(&trace->track[k], name, false) &&
            isfinite(last_value(trace, &trace->track[k]))) {
            sum += last_value(trace, &trace->track[k]);
            any = true;
        }
    return any ? an_num(sum) : an_num_none(reason);
}

/* Returns the larger one of two lower bounds. Samples miss what came after the last of them; the
 * kernel's account of the ended target misses descendants that were not waited for. Neither can be
 * too large. */
static struct an_value at_least(struct an_value seen, double ended)
{
    return isfinite(ended) && ended >= 0 && (!seen.valid || ended > seen.value) ? an_num(ended)
                                                                                : seen;
}

static struct an_value machine_last(const struct an_trace *trace, const char *name,
                                    const char *reason)
{
    for (size_t k = 0; k < trace->track_count; k++)
        if (an_system_track(&trace->track[k], name, true) &&
            isfinite(last_value(trace, &trace->track[k])))
            return an_num(last_value(trace, &trace->track[k]));
    return an_num_none(reason);
}

static struct an_value machine_mean(const struct an_trace *trace, const char *name,
                                    const char *reason)
{
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        double sum = 0;
        if (!an_system_track(track, name, true))
            continue;
        for (size_t i = 0; i < track->counter_count; i++)
            sum += trace->counter.value[track->counter_first + i];
        return isfinite(sum) ? an_num(sum / (double)track->counter_count)
                             : an_num_none("a sample is not finite");
    }
    return an_num_none(reason);
}

/* ---- rates between two times ------------------------------------------------------------------------------------------------ */

/* Value of a counter at a time, on the line between its samples. Before the first sample it is on
 * the line from 0 at the start of its process. */
static double value_at(const struct an_trace *trace, const struct an_track *track, int64_t time)
{
    size_t first = track->counter_first, last = first + track->counter_count - 1;
    int64_t start = track->process != AN_NONE ? trace->process[track->process].start : STORE_ABSENT;
    size_t i = an_times_seek(trace->counter.time, first, last + 1, time);
    if (i > last)
        return trace->counter.value[last];
    int64_t before_time = i > first ? trace->counter.time[i - 1] : start;
    double before = i > first ? trace->counter.value[i - 1] : 0, after = trace->counter.value[i];
    if (before_time == STORE_ABSENT || before_time >= trace->counter.time[i])
        return after;
    if (time <= before_time)
        return before;
    return before + (after - before) * (double)an_time_sub(time, before_time) /
                        (double)an_time_sub(trace->counter.time[i], before_time);
}

struct an_value an_system_rate_of(const struct an_context *context, const char *name,
                                  const char *other, uint32_t process, int64_t from, int64_t to)
{
    const struct an_trace *trace = context->trace;
    double sum = 0;
    bool any = false;
    if (to <= from || an_time_sub(to, from) < WINDOW_LEAST)
        return an_num_none("the counted steps are too short to sample /proc in them");
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct an_track *track = &trace->track[i];
        if (strcmp(track->kind, "counter") || !track->counter_count || !an_system_owns(track) ||
            (process != AN_NONE && track->process != process) ||
            (track->process != AN_NONE ? strcmp(track->name, name)
                                       : !other || strcmp(track->name, other)))
            continue;
        any = any ||
              (track->counter_count > 1 && trace->counter.time[an_counter_end(track) - 1] > from);
        sum += value_at(trace, track, to) - value_at(trace, track, from);
    }
    if (!any || !isfinite(sum))
        return an_num_none("/proc was not sampled during the counted steps");
    return an_num(sum / (double)an_time_sub(to, from) * 1e9);
}

struct an_value an_system_rate(const struct an_context *context, const char *name,
                               const char *other, int64_t from, int64_t to)
{
    return an_system_rate_of(context, name, other, AN_NONE, from, to);
}

struct an_value an_system_busy(const struct an_context *context, int64_t from, int64_t to)
{
    const struct an_trace *trace = context->trace;
    double sum = 0, time = 0;
    for (size_t k = 0; k < trace->track_count; k++)
        for (size_t i = trace->track[k].counter_first;
             an_system_track(&trace->track[k], "cpu_busy", true) &&
             i < an_counter_end(&trace->track[k]);
             i++) /* a sample is the mean since the one before */
            if (trace->counter.time[i] >= from && (trace->counter.time[i] <= to || time <= 0)) {
                sum += trace->counter.value[i];
                time += 1;
            }
    return time > 0 && isfinite(sum)
               ? an_num(sum / time)
               : an_num_none("the machine was not sampled during the counted steps");
}

struct an_count an_system_device_bytes(const struct an_trace *trace, uint32_t process,
                                       const char *device)
{
    char key[128];
    int64_t bytes;
    snprintf(key, sizeof key, "device.%" PRId64 ".%.40s.memory_bytes", trace->process[process].id,
             device);
    return an_trace_key_integer(trace, key, &bytes) && bytes > 0
               ? an_int(bytes)
               : an_int_none("the trace does not say how much memory its devices have");
}

double an_system_capacity(const struct an_context *context)
{
    const struct an_count *cores = &context->result->run.cores;
    const struct an_system *system = &context->result->system;
    double usable = cores->valid && cores->value > 0 ? (double)cores->value : 0;
    bool stopped =
        system->cpu_quota.valid && an_value_or_0(system->throttled_cores) > STOPPED_LEAST;
    return stopped ? fmin(usable, system->cpu_quota.value) : usable;
}

/* ---- the whole run ---------------------------------------------------------------------------------------------------------- */

/* Mean number of cores that the run used, from the start of its first process to the last sample.
 * A start that does not fit the first sample (more CPU time than the cores can give since then) is
 * that of the recording and not of the process: then the first sample is the start. */
static struct an_value cpu_cores(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    double ns = 0, most = context->result->run.cores.valid && context->result->run.cores.value > 0
                              ? (double)context->result->run.cores.value
                              : 1024;
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (!an_system_track(track, "cpu_time", false))
            continue;
        int64_t first = trace->counter.time[track->counter_first];
        int64_t last = trace->counter.time[an_counter_end(track) - 1];
        int64_t start = trace->process[track->process].start;
        double before = trace->counter.value[track->counter_first];
        ns += last_value(trace, track);
        if (start == STORE_ABSENT || start > first ||
            before > most * (double)an_time_sub(first, start)) {
            ns -= before;
            start = first;
        }
        from = start < from ? start : from;
        to = last > to ? last : to;
    }
    struct an_value other = machine_last(trace, "other_cpu_time", "");
    int64_t window = to > from ? an_time_sub(to, from) : 0;
    if (window < CPU_WINDOW_LEAST)
        return an_num_none(
            window ? an_arena_format(context->arena, "CPU time was sampled over %s only",
                                     an_time_words(context->arena, (double)window / 1e6, 3))
                   : "CPU time was sampled once at most");
    double cores = (ns + (other.valid ? other.value : 0)) / (double)window;
    return isfinite(cores) ? an_num(cores) : an_num_none("a sample is not finite");
}

/* ---- resident set: the largest sum over processes ------------------------------------------------------------------------ */

struct change {
    int64_t time;
    double delta;
};

static int change_order(const void *first, const void *second)
{
    const struct change *left = first, *right = second;
    /* What shrinks first: no peak that never was. */
    return 2 * AN_COMPARE(left->time, right->time) + AN_COMPARE(left->delta, right->delta);
}

static bool is_resident_set(const struct an_track *track)
{
    return an_system_track(track, "rss", false) || an_system_track(track, "other_rss", true);
}

/* Appends the changes of one track; the set of a process that ended is empty after that. */
static size_t add_changes(const struct an_trace *trace, const struct an_track *track,
                          struct change *all, size_t count)
{
    double now = 0;
    for (size_t i = track->counter_first; i < an_counter_end(track); i++) {
        all[count++] = (struct change){trace->counter.time[i], trace->counter.value[i] - now};
        now = trace->counter.value[i];
    }
    int64_t end = track->process != AN_NONE ? trace->process[track->process].end : STORE_ABSENT;
    if (end != STORE_ABSENT)
        all[count++] = (struct change){end, -now};
    return count;
}

static double largest_sum(const struct change *all, size_t count)
{
    double sum = 0, peak = 0;
    for (size_t i = 0; i < count; i++) {
        sum += all[i].delta;
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

/* Computes the largest sum of the resident sets over all processes, from the changes of all of
 * them in order of time. */
static int rss_peak(struct an_context *context, struct an_value *out)
{
    const struct an_trace *trace = context->trace;
    size_t count = 0, room = 0;
    for (size_t k = 0; k < trace->track_count; k++)
        if (is_resident_set(&trace->track[k]))
            room += trace->track[k].counter_count + 1;
    if (!room) {
        *out = an_num_none("memory was not sampled");
        return 0;
    }
    struct change *all = malloc(room * sizeof *all);
    if (!all)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < trace->track_count; k++)
        if (is_resident_set(&trace->track[k]))
            count = add_changes(trace, &trace->track[k], all, count);
    qsort(all, count, sizeof *all, change_order);
    double peak = largest_sum(all, count);
    free(all);
    *out = isfinite(peak) ? an_num(peak) : an_num_none("a sample is not finite");
    return 0;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

int an_system_gaps(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_gap *rows = an_arena_zero(context->arena, trace->key_count, sizeof *rows);
    size_t count = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->key_count; i++)
        if (!strncmp(trace->key[i].key, COUNTER_KEY, strlen(COUNTER_KEY)) &&
            strcmp(trace->key[i].value, "ok"))
            rows[count++] = (struct an_gap){
                an_arena_text(context->arena, trace->key[i].key + strlen(COUNTER_KEY)),
                an_arena_text(context->arena, trace->key[i].value)};
    context->result->trust.gaps = rows;
    context->result->trust.gap_count = count;
    return 0;
}

static void system_absent(struct an_context *context, const char *reason)
{
    struct an_system *system = &context->result->system;
    struct an_value *all[] = {&system->cpu_cores,
                              &system->machine_busy_pct,
                              &system->rss_peak_bytes,
                              &system->read_bytes,
                              &system->write_bytes,
                              &system->minor_faults,
                              &system->major_faults,
                              &system->voluntary_switches,
                              &system->involuntary_switches,
                              &system->instructions_per_cycle};
    system->reason = reason;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(reason);
}

/* Page faults and context switches, by samples or by the kernel's account of the ended target. */
static void faults_and_switches(const struct an_trace *trace, struct an_system *system)
{
    system->minor_faults =
        at_least(total_of_processes(trace, "minor_faults", "faults were not sampled"),
                 trace->ended.minor_faults);
    system->major_faults =
        at_least(total_of_processes(trace, "major_faults", "faults were not sampled"),
                 trace->ended.major_faults);
    system->voluntary_switches =
        at_least(total_of_processes(trace, "voluntary_switches", "switches were not sampled"),
                 trace->ended.voluntary_switches);
    system->involuntary_switches =
        at_least(total_of_processes(trace, "involuntary_switches", "switches were not sampled"),
                 trace->ended.involuntary_switches);
}

/* Fills the values of the system layer. Where the kernel's account of the ended target is larger
 * than the samples, it counts. */
static int system_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_system *system = &context->result->system;
    bool any = false;
    for (size_t k = 0; k < trace->track_count && !any; k++)
        any = !strcmp(trace->track[k].kind, "counter") && trace->track[k].counter_count &&
              an_system_owns(&trace->track[k]);
    if (!any) {
        system_absent(context, an_trace_imported(trace)
                                   ? "a trace of another tool has no samples of the machine"
                                   : "the system layer was not sampled (--sample-ms 0, or the run "
                                     "was too short)");
        return 0;
    }
    system->cpu_cores = cpu_cores(context);
    system->machine_busy_pct = machine_mean(trace, "cpu_busy", "the machine was not sampled");
    system->read_bytes = total_of_processes(trace, "disk_read", "reads were not sampled");
    system->write_bytes = total_of_processes(trace, "disk_written", "writes were not sampled");
    faults_and_switches(trace, system);
    struct an_value instructions = machine_last(trace, "instructions", ""),
                    cycles = machine_last(trace, "cycles", "");
    system->instructions_per_cycle =
        instructions.valid && cycles.valid && cycles.value > 0
            ? an_num(instructions.value / cycles.value)
            : an_num_none("instructions and cycles were not measured (see trust)");
    int rc = rss_peak(context, &system->rss_peak_bytes);
    system->rss_peak_bytes = at_least(system->rss_peak_bytes, trace->ended.max_rss);
    return rc;
}

const struct an_analyzer an_system = {
    .name = "system",
    .help = "CPU, memory, storage, faults, switches of the target",
    .after = "steps",
    .needs = AN_INPUT_COUNTERS,
    .run = system_run,
    .absent = system_absent,
};
