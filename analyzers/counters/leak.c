/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a process keeps from step to step, for ever: a leak. Judged is what the process made
 * itself (anonymous and shared memory; files that it maps are excluded), and what the program or
 * its allocator counts. The counted steps whose memory is known are divided into three windows of
 * eight blocks each. It is a leak only if in each window the mean growth of its blocks is above 0
 * (one-sided 95 % limit of Student's t), and the last window grows at least half as fast as the
 * first one: a cache that fills, or buffers that adapt to the largest batch so far, grow slower and
 * slower.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/system.h"

#define WINDOWS       3
#define BLOCKS        8 /* of a window */
#define BOUNDS        (WINDOWS * BLOCKS + 1)
#define STEPS_LEAST   50
#define ALPHA         0.05
#define SLOWING_LEAST 0.5     /* growth of the last window / of the first one */
#define GROWN_LEAST   1048576 /* bytes in all: less is not worth a word */
#define GROWN_SHARE   0.01    /* of what was there */

static void leak_absent(struct an_context *context, const char *reason)
{
    struct an_value none = an_num_none(reason);
    context->result->leak = (struct an_leak){
        .reason = reason, .bytes_per_step = none, .low = none, .high = none, .steps_left = none};
}

/* ---- the trend ------------------------------------------------------------------------------- */

/* What a process held at the end of some counted steps, spread evenly over those that are known. */
struct held {
    double bytes[BOUNDS];
    double at[BOUNDS]; /* counted steps until then */
    int64_t first_step, last_step;
};

/* Mean of `count` values and its distance to the one-sided limits. */
static double mean_and_limit(const double *values, size_t count, double *distance)
{
    double freedom = (double)count - 1;
    *distance = an_quantile_of_tail(an_student_tail, ALPHA, freedom) * an_sd(values, count) /
                sqrt((double)count);
    return an_mean(values, count);
}

/* Bytes a step between two bounds. */
static double rate(const struct held *held, size_t from, size_t to)
{
    return (held->bytes[to] - held->bytes[from]) / (held->at[to] - held->at[from]);
}

/* Fills the growth and its interval; returns whether it is a leak. */
static bool is_leak(const struct held *held, struct an_leak *leak)
{
    const size_t last = BOUNDS - 1;
    double grown[BOUNDS - 1], distance;
    bool steady = true;
    for (size_t i = 0; i < last; i++)
        grown[i] = rate(held, i, i + 1);
    for (size_t window = 0; window < WINDOWS; window++)
        steady = mean_and_limit(grown + window * BLOCKS, BLOCKS, &distance) > distance && steady;
    double all = rate(held, 0, last), sum = held->bytes[last] - held->bytes[0];
    (void)mean_and_limit(grown, last, &distance);
    leak->bytes_per_step = an_num(all);
    leak->low = an_num(all - distance);
    leak->high = an_num(all + distance);
    leak->first_step = held->first_step;
    leak->last_step = held->last_step;
    /* blocks are of different lengths where samples are missing: totals of windows are compared */
    return steady && all > distance &&
           rate(held, last - BLOCKS, last) >= SLOWING_LEAST * rate(held, 0, BLOCKS) &&
           sum >= GROWN_LEAST && sum >= GROWN_SHARE * held->bytes[0];
}

/* ---- what a process holds -------------------------------------------------------------------- */

/* The end of a counted step, and what the process was last seen to hold by then. */
struct end {
    int64_t step, start, time;
    double at; /* counted steps until the bytes were seen */
    double bytes;
};

/* Counted steps with an end, in `ends`. */
static size_t ends_of(const struct an_context *context, const struct an_lane *lane,
                      struct end *ends)
{
    size_t count = 0;
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        const struct an_step *step = &context->step[i];
        if (an_step_counted(step) && step->end != STORE_ABSENT) {
            ends[count] = (struct end){.step = step->index,
                                       .start = count ? ends[count - 1].time : step->start,
                                       .time = step->end,
                                       .at = (double)count};
            count++;
        }
    }
    return count;
}

/* Keeps the ends at which the bytes are known. A counter of the program is written when it changes:
 * it is known from its first value on. /proc is sampled by time: a step counts as known if a sample
 * was taken between the end before and its own, and the bytes belong to the part of the step that
 * was over by then. So a sampler that starts late or pauses for a while hides a few steps and no
 * more. */
static size_t known_ends(const struct an_trace *trace, const struct an_track *track,
                         struct end *ends, size_t count)
{
    size_t low = track->counter_first, high = an_counter_end(track), last = low, kept = 0;
    bool sampled = an_system_owns(track);
    if (count) /* a sample from before the first step says nothing of its end */
        last = an_times_seek(trace->counter.time, low, high, an_time_add(ends[0].start, 1));
    for (size_t i = 0; i < count; i++) {
        struct end end = ends[i];
        size_t next = an_times_seek(trace->counter.time, low, high, an_time_add(end.time, 1));
        if (next == low || (sampled && next <= last))
            continue;
        last = next;
        if (sampled) {
            double after = (double)an_time_sub(end.time, trace->counter.time[next - 1]);
            end.at -= fmin(1, after / fmax(1, (double)an_time_sub(end.time, end.start)));
        }
        end.bytes = trace->counter.value[next - 1];
        if (end.bytes >= 0 && isfinite(end.bytes))
            ends[kept++] = end;
    }
    return kept;
}

/* Reads a track at the ends of steps. Returns why it cannot be judged, or NULL. */
static const char *read_track(const struct an_trace *trace, const struct an_track *track,
                              struct end *ends, size_t count, struct held *held)
{
    if (count < STEPS_LEAST)
        return "fewer than 50 counted steps";
    count = known_ends(trace, track, ends, count);
    if (count < BOUNDS || ends[count - 1].at - ends[0].at < STEPS_LEAST - 2)
        return an_system_owns(track) ? "the steps took too few samples of /proc"
                                     : "the program counted what it holds in too few of its steps";
    for (size_t i = 0; i < BOUNDS; i++) {
        const struct end *end = &ends[i * (count - 1) / (BOUNDS - 1)];
        held->bytes[i] = end->bytes;
        held->at[i] = end->at;
    }
    held->first_step = ends[0].step;
    held->last_step = ends[count - 1].step;
    return NULL;
}

/* Does it count what is allocated on a device: by an allocator, or by the hook between steps? */
static bool of_device(const struct an_track *track)
{
    bool on_device = *track->device && strcmp(track->device, "cpu") != 0;
    return !strcmp(track->name, "device.allocated") ||
           (on_device && !strcmp(track->name, "memory.allocated"));
}

/* What counts memory that must not grow; *what names it. */
static bool counts_held(const struct an_track *track, const char **what)
{
    if (strcmp(track->kind, "counter") || !track->counter_count || track->process == AN_NONE)
        return false;
    *what = of_device(track) ? "memory of the device" : "tracked memory";
    if (of_device(track) || !strcmp(track->name, "memory.allocated") ||
        !strcmp(track->name, "memory.total"))
        return true;
    *what = "anonymous memory";
    return !strcmp(track->name, "rss_anon") && an_system_owns(track);
}

/* The lane that runs steps in that process, else the first one. */
static const struct an_lane *lane_of(const struct an_context *context, uint32_t process)
{
    uint32_t own = an_own_lane(context, process);
    return own == AN_NONE ? context->lane : &context->lane[own];
}

/* ---- until when it lasts --------------------------------------------------------------------- */

/* Bytes that are free after the last sample: of the device whose memory the track counts, or of the
 * machine. What other processes hold on that device is not known. */
static struct an_value free_bytes(const struct an_context *context, const struct an_track *track)
{
    const struct an_trace *trace = context->trace;
    const struct an_count *room = &context->result->memory.room_bytes;
    if (of_device(track)) {
        struct an_count all = an_system_device_bytes(trace, track->process, track->device);
        double held = trace->counter.value[an_counter_end(track) - 1];
        return an_num_if(all.valid && isfinite(held), fmax(0, (double)all.value - held),
                         "how much memory of the device is free is not known");
    }
    if (context->gpu)
        return an_num_none("how much memory is free is not known");
    for (size_t i = 0; i < trace->track_count; i++)
        if (an_system_track(&trace->track[i], "memory_available", true)) {
            double machine = trace->counter.value[an_counter_end(&trace->track[i]) - 1];
            return an_num(room->valid ? fmin(machine, (double)room->value) : machine);
        }
    return room->valid ? an_num((double)room->value) : an_num_none(room->reason);
}

static struct an_value steps_left(const struct an_context *context, const struct an_track *track,
                                  const struct an_leak *leak)
{
    struct an_value bytes = free_bytes(context, track);
    return bytes.valid ? an_num(bytes.value / leak->bytes_per_step.value) : bytes;
}

/* ---- the analyzer ---------------------------------------------------------------------------- */

/* Judges a track; keeps the leak that grows fastest. */
static void judge(struct an_context *context, const struct an_track *track, const char *what,
                  struct end *ends)
{
    struct held held;
    struct an_leak *most = &context->result->leak, leak = {.found = true, .what = what};
    size_t count = ends_of(context, lane_of(context, track->process), ends);
    const char *reason = read_track(context->trace, track, ends, count, &held);
    if (reason && most->reason)
        most->reason = reason;
    if (reason)
        return;
    if (most->reason) {
        leak_absent(context, NULL);
        most->bytes_per_step = most->low = most->high = most->steps_left =
            an_num_none("no process grows from step to step");
    }
    if (!is_leak(&held, &leak) ||
        (most->found && most->bytes_per_step.value >= leak.bytes_per_step.value))
        return;
    const struct an_process *process = &context->trace->process[track->process];
    leak.pid = process->pid;
    leak.rank = process->rank != STORE_ABSENT ? an_int(process->rank)
                                              : an_int_none("the process has no rank");
    if (of_device(track) && *track->device)
        leak.device = an_arena_text(context->arena, track->device);
    leak.no_device = of_device(track) ? "the recording does not say which device"
                                      : "what grows is no memory of a device";
    leak.steps_left = steps_left(context, track, &leak);
    *most = leak;
}

static int leak_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct end *ends = an_arena_zero(context->scratch, context->step_count + 1, sizeof *ends);
    const char *what;
    if (!ends)
        return TACHO_ENOMEM;
    leak_absent(context, context->lane_count ? "no process has its memory sampled; record with "
                                               "tacho run"
                                             : "no steps were found");
    for (size_t i = 0; context->lane_count && i < trace->track_count; i++)
        if (counts_held(&trace->track[i], &what))
            judge(context, &trace->track[i], what, ends);
    return 0;
}

const struct an_analyzer an_leak = {
    .name = "leak",
    .help = "memory that a process keeps from step to step",
    .after = "steps, memory",
    .needs = AN_INPUT_COUNTERS,
    .run = leak_run,
    .absent = leak_absent,
};
