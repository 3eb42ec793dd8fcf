/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a process keeps from step to step, for ever: a leak. Judged is what the process made
 * itself (anonymous and shared memory; files that it maps are excluded), and what the program or
 * its allocator counts. The counted steps are divided into three windows of eight blocks each. It
 * is a leak only if in each window the mean growth of its blocks is above 0 (one-sided 95 % limit
 * of Student's t), and the last window grows at least half as fast as the first one: a cache that
 * fills, or buffers that adapt to the largest batch so far, grow slower and slower.
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

/* What a process held at the end of some counted steps, spread evenly over all of them. */
struct held {
    double bytes[BOUNDS];
    size_t steps; /* from the first to the last one */
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

/* Fills the growth and its interval; returns whether it is a leak. */
static bool is_leak(const struct held *held, struct an_leak *leak)
{
    double grown[BOUNDS - 1], mean[WINDOWS], distance;
    bool steady = true;
    for (size_t i = 0; i + 1 < BOUNDS; i++)
        grown[i] = held->bytes[i + 1] - held->bytes[i];
    for (size_t window = 0; window < WINDOWS; window++) {
        mean[window] = mean_and_limit(grown + window * BLOCKS, BLOCKS, &distance);
        steady = steady && mean[window] > distance;
    }
    double all = mean_and_limit(grown, BOUNDS - 1, &distance),
           steps = (double)held->steps / (BOUNDS - 1), sum = all * (BOUNDS - 1);
    leak->bytes_per_step = an_num(all / steps);
    leak->low = an_num((all - distance) / steps);
    leak->high = an_num((all + distance) / steps);
    leak->first_step = held->first_step;
    leak->last_step = held->last_step;
    return steady && all > distance && mean[WINDOWS - 1] >= SLOWING_LEAST * mean[0] &&
           sum >= GROWN_LEAST && sum >= GROWN_SHARE * held->bytes[0];
}

/* ---- what a process holds -------------------------------------------------------------------- */

/* Counted steps with an end, in `ends`. */
static size_t ends_of(const struct an_context *context, const struct an_lane *lane,
                      const struct an_step **ends)
{
    size_t count = 0;
    for (size_t i = lane->first; i < an_lane_end(lane); i++)
        if (an_step_counted(&context->step[i]) && context->step[i].end != STORE_ABSENT)
            ends[count++] = &context->step[i];
    return count;
}

/* Reads a track at the ends of steps. Returns why it cannot be judged, or NULL. */
static const char *read_track(const struct an_trace *trace, const struct an_track *track,
                              const struct an_step *const *ends, size_t count, struct held *held)
{
    size_t low = track->counter_first, high = an_counter_end(track), last = 0, samples = 0;
    if (count < STEPS_LEAST)
        return "fewer than 50 counted steps";
    for (size_t i = 0; i < BOUNDS; i++) {
        const struct an_step *step = ends[i * (count - 1) / (BOUNDS - 1)];
        size_t next = an_times_seek(trace->counter.time, low, high, an_time_add(step->end, 1));
        held->bytes[i] = next > low ? trace->counter.value[next - 1] : NAN;
        if (!(held->bytes[i] >= 0) || !isfinite(held->bytes[i]))
            return "what the process holds was not sampled from its first counted step on";
        samples += next > last;
        last = next;
    }
    held->steps = count - 1;
    held->first_step = ends[0]->index;
    held->last_step = ends[count - 1]->index;
    /* A counter of the program is written when it changes; /proc is sampled by time. */
    return samples < BOUNDS && an_system_owns(track) ? "the steps took too few samples of /proc"
                                                     : NULL;
}

/* What counts memory that must not grow; *what names it. */
static bool counts_held(const struct an_track *track, const char **what)
{
    bool gpu = !strncmp(track->device, "gpu:", 4);
    if (strcmp(track->kind, "counter") || !track->counter_count || track->process == AN_NONE)
        return false;
    *what = gpu ? "memory of the device" : "tracked memory";
    if (!strcmp(track->name, "memory.total") || !strcmp(track->name, "memory.allocated"))
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

/* Bytes that are free: of the devices, or of the machine after the last sample. */
static struct an_value free_bytes(const struct an_context *context, const struct an_track *track)
{
    const struct an_trace *trace = context->trace;
    const struct an_count *room = &context->result->memory.room_bytes;
    if (context->gpu)
        return strncmp(track->device, "gpu:", 4) || !room->valid
                   ? an_num_none("how much memory is free is not known")
                   : an_num((double)room->value);
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
                  const struct an_step **ends)
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
    leak.steps_left = steps_left(context, track, &leak);
    *most = leak;
}

static int leak_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    const struct an_step **ends =
        an_arena_zero(context->scratch, context->step_count + 1, sizeof *ends);
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
