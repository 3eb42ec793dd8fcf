/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program reports to hold: counters memory.TAG in bytes (parameters, gradients,
 * optimizer, activations, workspace, loader ...), memory.total and memory.peak of each process; in
 * traces of PyTorch the totals of its allocator. The resident set and the memory of the machine
 * are beside them, so that untracked memory and remaining room can be computed.
 *
 * Growth is reported as a fact: the mean change of a process's total from one counted step to the
 * next, with the interval of that mean. One jump J in n steps has a mean of J / n and an interval
 * of about 2 J / n around it, so it takes at least four changes to be called growth.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/system.h"
#include "analyzers/steps/command.h"

#define PREFIX      "memory."
#define STEPS_LEAST 10      /* for a growth to be reported */
#define GROWN_LEAST 1048576 /* bytes that the steps must add for a growth to be reported */
#define GROWN_SHARE 0.01    /* and of what was there */
#define BYTES_MOST  9e18    /* larger values of a counter are damage */
#define WHAT_TO_EMIT \
    "the program does not track its memory; emit the counters memory.total, memory.peak and " \
    "memory.TAG (parameters, gradients, optimizer, activations, workspace, loader) in bytes: "

static void memory_absent(struct an_context *context, const char *reason)
{
    struct an_memory *memory = &context->result->memory;
    struct an_value none = an_num_none(reason);
    *memory = (struct an_memory){.reason = reason};
    memory->total_bytes = memory->peak_bytes = memory->rank_peak_bytes = memory->rank =
        memory->batch_bytes = an_int_none(reason);
    memory->resident_peak_bytes = memory->uncounted_bytes = memory->capacity_bytes =
        memory->room_bytes = an_int_none(reason);
    memory->growth = memory->resident_growth =
        (struct an_growth){.bytes_per_step = none, .low = none, .high = none};
}

/* ---- counters --------------------------------------------------------------------------------------------------------------- */

/* Name of what a track counts ("activations"), NULL if it is no counter of memory. */
static const char *tag_of(const struct an_track *track)
{
    bool mine = !strcmp(track->kind, "counter") && track->counter_count &&
                track->process != AN_NONE && !strncmp(track->name, PREFIX, strlen(PREFIX)) &&
                track->name[strlen(PREFIX)];
    return mine ? track->name + strlen(PREFIX) : NULL;
}

static bool is_bytes(double value)
{
    return isfinite(value) && value >= 0 && value <= BYTES_MOST;
}

/* Last and largest usable value of a track; false: it has none. */
static bool values_of(const struct an_trace *trace, const struct an_track *track, int64_t *last,
                      int64_t *most)
{
    bool any = false;
    for (size_t i = track->counter_first; i < an_counter_end(track); i++) {
        if (!is_bytes(trace->counter.value[i]))
            continue;
        *last = (int64_t)trace->counter.value[i];
        *most = any && *most > *last ? *most : *last;
        any = true;
    }
    return any;
}

static const struct an_track *track_of(const struct an_trace *trace, uint32_t process,
                                       const char *name)
{
    AN_EACH_TRACK(trace, process, k)
    if (!strcmp(trace->track[k].kind, "counter") && trace->track[k].counter_count &&
        !strcmp(trace->track[k].name, name))
        return &trace->track[k];
    return NULL;
}

static struct an_count rank_of(const struct an_trace *trace, uint32_t process)
{
    return trace->process[process].rank != STORE_ABSENT ? an_int(trace->process[process].rank)
                                                        : an_int_none("the process has no rank");
}

/* ---- tags ------------------------------------------------------------------------------------------------------------------- */

static int tag_order(const void *first, const void *second)
{
    const struct an_memory_tag *left = first, *right = second;
    int order = AN_COMPARE(right->peak, left->peak);
    order = order ? order : strcmp(left->name, right->name);
    return order ? order : strcmp(left->device, right->device);
}

/* Is it a total of others and no part? */
static bool is_total(const char *tag)
{
    return !strcmp(tag, "total") || !strcmp(tag, "peak");
}

static bool is_allocator(const char *tag)
{
    return !strcmp(tag, "allocated") || !strcmp(tag, "reserved");
}

/* Sums the tags over processes, by name and device. Peaks of processes need not be at the same
 * time, so their sum is an upper bound; the largest single one is kept with its rank. */
static int gather_tags(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_memory *memory = &context->result->memory;
    struct an_memory_tag *tag = an_arena_zero(context->arena, trace->track_count + 1, sizeof *tag);
    size_t count = 0;
    if (!tag)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        const char *name = tag_of(track), *device = *track->device ? track->device : "cpu";
        int64_t last = 0, most = 0;
        if (!name || is_total(name) || !values_of(trace, track, &last, &most))
            continue;
        size_t i = 0;
        while (i < count && (strcmp(tag[i].name, name) || strcmp(tag[i].device, device)))
            i++;
        if (i == count)
            tag[count++] = (struct an_memory_tag){.name = an_arena_text(context->arena, name),
                                                  .device = an_arena_text(context->arena, device),
                                                  .rank_peak = -1};
        tag[i].current = an_time_add(tag[i].current, last);
        tag[i].peak = an_time_add(tag[i].peak, most);
        if (most > tag[i].rank_peak) {
            tag[i].rank_peak = most;
            tag[i].rank = rank_of(trace, track->process);
        }
    }
    qsort(tag, count, sizeof *tag, tag_order);
    memory->tags = tag;
    memory->tag_count = count;
    return 0;
}

static void share_tags(struct an_context *context)
{
    struct an_memory *memory = &context->result->memory;
    struct an_memory_tag *tag = (struct an_memory_tag *)(uintptr_t)memory->tags;
    double total = memory->total_bytes.valid ? (double)memory->total_bytes.value : 0;
    for (size_t i = 0; i < memory->tag_count; i++)
        if (is_allocator(tag[i].name))
            tag[i].share_pct = an_num_none("a total of the allocator, not a part of it");
        else
            tag[i].share_pct = total > 0 ? an_num(100 * (double)tag[i].current / total)
                                         : an_num_none("no memory is tracked");
}

/* ---- totals of the processes ------------------------------------------------------------------------------------------------ */

/* How near a track comes to all that its process holds: memory.total, else the allocators of its
 * devices, else that of the host. */
enum total_kind { TOTAL_OWN, TOTAL_DEVICE, TOTAL_HOST, TOTAL_NONE };

static bool on_device(const struct an_track *track)
{
    return !strncmp(track->device, "gpu:", 4);
}

static enum total_kind total_kind_of(const struct an_track *track)
{
    const char *tag = tag_of(track);
    if (!tag || (strcmp(tag, "total") && strcmp(tag, "allocated")))
        return TOTAL_NONE;
    if (!strcmp(tag, "total"))
        return TOTAL_OWN;
    return on_device(track) ? TOTAL_DEVICE : TOTAL_HOST;
}

/* The kind of the tracks that together are all that a process holds. */
static enum total_kind totals_of(const struct an_trace *trace, uint32_t process)
{
    enum total_kind best = TOTAL_NONE;
    int64_t last, most;
    AN_EACH_TRACK(trace, process, k)
    {
        enum total_kind kind = total_kind_of(&trace->track[k]);
        if (kind < best && values_of(trace, &trace->track[k], &last, &most))
            best = kind;
    }
    return best;
}

static int64_t last_of(const struct an_trace *trace, uint32_t process, const char *name)
{
    const struct an_track *track = track_of(trace, process, name);
    int64_t last = 0, most;
    return track && values_of(trace, track, &last, &most) ? last : 0;
}

/* Adds up what a process holds, last and at most: its totals, or its tags if it has none. Devices
 * need not have been at their peaks together. */
static void sum_of_process(const struct an_trace *trace, uint32_t process, int64_t *last,
                           int64_t *most)
{
    const struct an_track *peak = track_of(trace, process, PREFIX "peak");
    enum total_kind kind = totals_of(trace, process);
    int64_t now, highest;
    *last = *most = 0;
    AN_EACH_TRACK(trace, process, k)
    {
        const struct an_track *track = &trace->track[k];
        const char *tag = tag_of(track);
        bool part = kind != TOTAL_NONE ? total_kind_of(track) == kind : tag && !is_total(tag);
        if (!part || !values_of(trace, track, &now, &highest))
            continue;
        *last = an_time_add(*last, now);
        *most = an_time_add(*most, highest);
    }
    /* What was held inside a step too. */
    if (peak && values_of(trace, peak, &now, &highest))
        *most = an_time_max(*most, highest);
}

static bool counts_memory(const struct an_trace *trace, uint32_t process)
{
    AN_EACH_TRACK(trace, process, k)
    if (tag_of(&trace->track[k]))
        return true;
    return false;
}

/* Sums what the processes hold, last and at most, and finds the rank with the largest peak. */
static void gather_totals(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_memory *memory = &context->result->memory;
    int64_t total = 0, peak = 0, largest = -1, batch = 0;
    for (uint32_t process = 0; process < trace->process_count; process++) {
        if (!counts_memory(trace, process))
            continue;
        int64_t last, most;
        sum_of_process(trace, process, &last, &most);
        memory->processes++;
        total = an_time_add(total, last);
        peak = an_time_add(peak, most);
        batch = an_time_add(batch, an_time_add(last_of(trace, process, PREFIX "activations"),
                                               last_of(trace, process, PREFIX "workspace")));
        if (most > largest) {
            largest = most;
            memory->rank = rank_of(trace, process);
        }
    }
    memory->total_bytes = an_int(total);
    memory->peak_bytes = an_int(peak);
    memory->rank_peak_bytes = an_int(largest);
    memory->batch_bytes =
        batch > 0 ? an_int(batch) : an_int_none("the program does not emit memory.activations");
}

/* ---- beside the machine ----------------------------------------------------------------------------------------------------- */

static struct an_count bytes_of_key(const struct an_trace *trace, const char *key)
{
    int64_t bytes;
    return an_trace_key_integer(trace, key, &bytes) && bytes > 0 ? an_int(bytes)
                                                                 : an_int_none("not recorded");
}

static bool one_machine(const struct an_trace *trace)
{
    for (size_t p = 1; p < trace->process_count; p++)
        if (strcmp(trace->process[p].host, trace->process[0].host))
            return false;
    return true;
}

/* Memory of the devices of a process (AN_NONE: of all processes). */
static struct an_count bytes_of_devices(const struct an_context *context, uint32_t process)
{
    int64_t sum = 0;
    for (size_t i = 0; i < context->gpu->device_count; i++) {
        const struct an_device *device = &context->gpu->device[i];
        if (device->process >= context->trace->process_count ||
            (process != AN_NONE && device->process != process))
            continue;
        char name[32];
        snprintf(name, sizeof name, "gpu:%" PRId64, device->ordinal);
        struct an_count bytes = an_system_device_bytes(context->trace, device->process, name);
        if (!bytes.valid)
            return bytes;
        sum = an_time_add(sum, bytes.value);
    }
    return an_int(sum);
}

/* Memory of the machine, or its limit (cgroup) if that is lower. */
static struct an_count bytes_of_machine(const struct an_trace *trace)
{
    if (!one_machine(trace))
        return an_int_none("the processes ran on several machines");
    struct an_count machine = bytes_of_key(trace, "memory.bytes"),
                    limit = bytes_of_key(trace, "memory.limit_bytes");
    if (!machine.valid)
        return an_int_none("the file does not say how much memory the machine has");
    return limit.valid && limit.value < machine.value ? limit : machine;
}

/* Resident bytes that the program does not track. */
static struct an_count untracked_bytes(const struct an_context *context)
{
    const struct an_memory *memory = &context->result->memory;
    if (context->gpu)
        return an_int_none("the counters are those of devices, the resident set is the host's");
    if (!memory->resident_peak_bytes.valid)
        return an_int_none(memory->resident_peak_bytes.reason);
    if (!memory->peak_bytes.valid)
        return an_int_none(memory->peak_bytes.reason);
    if (memory->resident_peak_bytes.value < memory->peak_bytes.value)
        return an_int_none("less was resident than is tracked: some of it was never touched, or "
                           "not sampled at its peak");
    return an_int(memory->resident_peak_bytes.value - memory->peak_bytes.value);
}

/* Keeps the device with the least room of those looked at so far; none if that of one is not known.
 */
static void keep_tightest(struct an_memory *memory, struct an_count capacity, int64_t need,
                          const char *device)
{
    int64_t room = an_time_max(capacity.value - need, 0);
    bool first = !memory->room_bytes.valid && !memory->room_bytes.reason;
    if (!capacity.valid)
        memory->capacity_bytes = memory->room_bytes = capacity;
    else if (first || (memory->room_bytes.valid && room < memory->room_bytes.value)) {
        memory->capacity_bytes = capacity;
        memory->room_bytes = an_int(room);
        memory->room_device = device;
    }
}

/* Finds the device with the least room. A process whose allocators are not counted by device is
 * compared with all its devices. */
static void compare_with_devices(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_memory *memory = &context->result->memory;
    int64_t last, most;
    memory->room_bytes = (struct an_count){0};
    for (uint32_t process = 0; process < trace->process_count; process++) {
        enum total_kind kind = totals_of(trace, process);
        AN_EACH_TRACK(trace, process, k)
        {
            const struct an_track *track = &trace->track[k];
            if (kind == TOTAL_DEVICE && total_kind_of(track) == kind &&
                values_of(trace, track, &last, &most))
                keep_tightest(memory, an_system_device_bytes(trace, process, track->device), most,
                              an_arena_text(context->arena, track->device));
        }
        if (kind == TOTAL_DEVICE || kind == TOTAL_HOST || !counts_memory(trace, process))
            continue;
        sum_of_process(trace, process, &last, &most);
        struct an_count bytes = bytes_of_devices(context, process);
        if (!bytes.valid || bytes.value) /* else it uses no device */
            keep_tightest(memory, bytes, most, "a rank's devices");
    }
    if (memory->room_bytes.valid || memory->room_bytes.reason)
        return;
    memory->capacity_bytes = bytes_of_devices(context, AN_NONE);
    memory->room_bytes = an_int_none(memory->peak_bytes.valid
                                         ? "the program does not count the memory of its devices"
                                         : memory->peak_bytes.reason);
}

/* Compares what the program tracks with the resident set, and with what the machine or its devices
 * have. */
static void compare_with_machine(struct an_context *context)
{
    struct an_memory *memory = &context->result->memory;
    const struct an_value *rss = &context->result->system.rss_peak_bytes;
    struct an_count *resident = &memory->resident_peak_bytes;
    *resident = an_int_none(rss->valid ? "a sample is not finite" : rss->reason);
    if (rss->valid && is_bytes(rss->value))
        *resident = an_int((int64_t)rss->value);
    memory->uncounted_bytes = untracked_bytes(context);
    if (context->gpu) {
        compare_with_devices(context);
        return;
    }
    int64_t need = an_time_max(memory->peak_bytes.value, resident->value);
    memory->capacity_bytes = bytes_of_machine(context->trace);
    memory->room_bytes = an_int(an_time_max(memory->capacity_bytes.value - need, 0));
    if (!memory->capacity_bytes.valid)
        memory->room_bytes = an_int_none(memory->capacity_bytes.reason);
    else if (!memory->peak_bytes.valid && !resident->valid)
        memory->room_bytes = an_int_none(resident->reason);
}

/* ---- growth ----------------------------------------------------------------------------------------------------------------- */

/* Returns the value of a track at `time`: that of its last sample before it, NAN before the first
 * one. */
static double value_at(const struct an_trace *trace, const struct an_track *track, int64_t time)
{
    size_t first = track->counter_first,
           i = an_times_seek(trace->counter.time, first, first + track->counter_count,
                             an_time_add(time, 1));
    return i > first && is_bytes(trace->counter.value[i - 1]) ? trace->counter.value[i - 1] : NAN;
}

static struct an_growth no_growth(const char *reason)
{
    struct an_value none = an_num_none(reason);
    return (struct an_growth){.bytes_per_step = none, .low = none, .high = none};
}

/* Computes the growth of a track from the end of one counted step of a lane to the next. `changes`
 * has room for the steps. */
static struct an_growth growth_of(const struct an_context *context, const struct an_lane *lane,
                                  const struct an_track *track, double *changes)
{
    struct an_growth growth = no_growth("fewer than 10 counted steps with a value");
    double before = NAN, from = NAN, to = NAN;
    size_t count = 0;
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        const struct an_step *step = &context->step[i];
        double value = an_step_counted(step) && step->end != STORE_ABSENT
                           ? value_at(context->trace, track, step->end)
                           : NAN;
        if (!isfinite(value))
            continue;
        if (isfinite(before))
            changes[count++] = value - before;
        else
            growth.first_step = step->index;
        from = isfinite(before) ? from : value;
        growth.last_step = step->index;
        to = before = value;
    }
    if (count + 1 < STEPS_LEAST)
        return no_growth("fewer than 10 counted steps with a value");
    double mean = an_mean(changes, count),
           half = AN_Z95 * an_sd(changes, count) / sqrt((double)count);
    growth.bytes_per_step = an_num(mean);
    growth.low = an_num(mean - half);
    growth.high = an_num(mean + half);
    growth.grows = mean - half > 0 && to - from >= GROWN_LEAST && to - from >= GROWN_SHARE * from;
    return growth;
}

static void keep_faster(struct an_growth *most, struct an_growth growth)
{
    bool faster =
        growth.bytes_per_step.valid &&
        (!most->bytes_per_step.valid || growth.bytes_per_step.value > most->bytes_per_step.value);
    /* The reason of one that has a counter. */
    bool neither = !growth.bytes_per_step.valid && !most->bytes_per_step.valid;
    if (neither || (growth.grows && !most->grows) || (faster && growth.grows == most->grows))
        *most = growth;
}

static int gather_growth(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_memory *memory = &context->result->memory;
    double *changes = malloc((context->step_count + 1) * sizeof *changes);
    if (!changes)
        return TACHO_ENOMEM;
    memory->growth = memory->resident_growth = no_growth(
        context->lane_count ? "no counter of the processes that run steps" : "no steps were found");
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_lane *lane = &context->lane[i];
        if (lane->process == AN_NONE)
            continue;
        enum total_kind kind = totals_of(trace, lane->process);
        AN_EACH_TRACK(trace, lane->process, k)
        if (kind != TOTAL_NONE && total_kind_of(&trace->track[k]) == kind)
            keep_faster(&memory->growth, growth_of(context, lane, &trace->track[k], changes));
        const struct an_track *rss = track_of(trace, lane->process, "rss");
        if (rss && an_system_owns(rss))
            keep_faster(&memory->resident_growth, growth_of(context, lane, rss, changes));
    }
    free(changes);
    return 0;
}

/* ---- the analyzer ----------------------------------------------------------------------------------------------------------- */

/* Fills the tags, totals and growth of the counters, or the reason why none exist, which names
 * what to record. */
static int memory_run(struct an_context *context)
{
    struct an_memory *memory = &context->result->memory;
    bool any = false, allocator = false;
    for (size_t k = 0; k < context->trace->track_count; k++) {
        const char *tag = tag_of(&context->trace->track[k]);
        any = any || tag;
        allocator = allocator || (tag && is_allocator(tag));
    }
    memory_absent(
        context,
        an_trace_from(context->trace, "kineto")
            ? "no memory events in the trace; record with torch.profiler, profile_memory=True"
            : an_command_marks(context, WHAT_TO_EMIT "counter() of the module tacho",
                               WHAT_TO_EMIT "tacho_nvtx_counter in include/tacho_nvtx.h"));
    if (!any) {
        compare_with_machine(context);
        return 0;
    }
    memory->reason = NULL;
    memory->source = allocator ? "torch allocator" : "memory.* counters";
    if (gather_tags(context))
        return TACHO_ENOMEM;
    gather_totals(context);
    share_tags(context);
    compare_with_machine(context);
    return gather_growth(context);
}

/* Without any counter nothing is counted: the reason says what to emit. */
static void memory_missing(struct an_context *context, const char *reason)
{
    (void)reason;
    memory_run(context);
}

const struct an_analyzer an_memory = {
    .name = "memory",
    .help = "what the program holds by tag, its peak, room and growth",
    .after = "steps, system",
    .needs = AN_INPUT_COUNTERS,
    .run = memory_run,
    .absent = memory_missing,
};
