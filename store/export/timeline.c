/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a timeline: which process and thread shows which track, which slices lie on which lane,
 * which calls and device work belong together. A format (perfetto.c, perfetto_proto.c) writes what
 * this finds.
 */
#include "store/export/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/intern.h"

#define MADE_UP_ID (1 << 29) /* process and thread numbers that no kernel hands out */

/* category of a slice in a .tacho file, on which tracks, and what Kineto calls it */
static const struct category {
    const char *ours, *theirs;
    bool device;
} categories[] = {
    {"kernel", "kernel", true},
    {"memcpy", "gpu_memcpy", true},
    {"memset", "gpu_memset", true},
    {"graph", "gpu_graph", true},
    {"sync", "cuda_sync", true},
    {"annotation", "gpu_user_annotation", true},
    {"op", "cpu_op", false},
    {"annotation", "user_annotation", false},
    {"python", "python_function", false},
    {"runtime", "cuda_runtime", false},
    {"driver", "cuda_driver", false},
    {"overhead", "overhead", false},
    {"instant", "cpu_instant_event", false},
};

static const char *text_of(const char *text)
{
    return text ? text : "";
}

/* ---- slices ------------------------------------------------------------------------------------------------------------ */

const char *exp_timeline_category(const struct exp_timeline *timeline,
                                  const struct exp_slice *slice)
{
    const char *ours = exp_text(timeline->run, slice->category);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (categories[i].device == timeline->place[slice->track].device &&
            !strcmp(categories[i].ours, ours))
            return categories[i].theirs;
    return ours;
}

void exp_timeline_args(const struct exp_timeline *timeline, const struct exp_slice *slice,
                       struct exp_args *args)
{
    const struct exp_run *run = timeline->run;
    const struct exp_place *place = &timeline->place[slice->track];
    const char *category = exp_timeline_category(timeline, slice);
    int64_t stream = run->track[slice->track].tid;
    args->any = false;
    if (place->device) {
        exp_arg_int(args, "device", place->ordinal);
        exp_arg_int(args, "stream", stream == STORE_ABSENT ? -1 : stream); /* -1: all of them */
    }
    exp_arg_int(args, !strcmp(category, "cpu_op") ? "Sequence number" : "correlation",
                slice->correlation);
    if (slice->detail != EXP_NONE && run->detail[slice->detail].id)
        exp_args_detail(args, &run->detail[slice->detail], !strcmp(category, "cpu_instant_event"));
}

static int64_t lane_tid(struct exp_timeline *timeline, const struct exp_track *track, size_t lane);

/* Writes all slices, track after track, each on the lane where it fits. */
static int slices(struct exp_timeline *timeline)
{
    const struct exp_run *run = timeline->run;
    for (size_t j = 0; j < run->track_count; j++) {
        const struct exp_track *track = &run->track[j];
        struct exp_lanes lanes = {0};
        timeline->lanes = 0;
        for (size_t i = track->first; i < track->first + track->count && !ferror(timeline->out);
             i++) {
            size_t parent;
            int64_t lane = exp_lane_put(&lanes, run, i, &parent);
            if (lane < 0) {
                exp_lanes_free(&lanes);
                return (int)lane;
            }
            timeline->tid_of[i] = lane_tid(timeline, track, (size_t)lane);
            int code = timeline->format->slice(timeline, i, (size_t)lane);
            if (code) {
                exp_lanes_free(&lanes);
                return code;
            }
        }
        exp_lanes_free(&lanes);
        if (timeline->format->track_end)
            timeline->format->track_end(timeline);
    }
    return 0;
}

/* ---- arrows ------------------------------------------------------------------------------------------------------------ */

struct end { /* of an arrow */
    uint32_t process;
    int64_t correlation;
    size_t slice;
};

static int by_correlation(const void *left_row, const void *right_row)
{
    const struct end *left = left_row, *right = right_row;
    if (left->process != right->process)
        return left->process < right->process ? -1 : 1;
    if (left->correlation != right->correlation)
        return left->correlation < right->correlation ? -1 : 1;
    return left->slice < right->slice ? -1 : left->slice > right->slice;
}

bool exp_timeline_is_call(const struct exp_timeline *timeline, const struct exp_slice *slice)
{
    const char *category = exp_text(timeline->run, slice->category);
    return !timeline->place[slice->track].device &&
           (!strcmp(category, "runtime") || !strcmp(category, "driver"));
}

bool exp_timeline_is_work(const struct exp_timeline *timeline, const struct exp_slice *slice)
{
    const char *category = exp_text(timeline->run, slice->category);
    return timeline->place[slice->track].device && strcmp(category, "sync") != 0 &&
           strcmp(category, "annotation") != 0;
}

/* From the call to each piece of work it launched. */
static int arrows(struct exp_timeline *timeline)
{
    const struct exp_run *run = timeline->run;
    size_t count = 0;
    int64_t id = 0;
    if (!timeline->format->arrow)
        return 0;
    struct end *call = calloc(run->slice_count ? run->slice_count : 1, sizeof *call);
    if (!call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < run->slice_count; i++)
        if (run->slice[i].correlation != STORE_ABSENT &&
            exp_timeline_is_call(timeline, &run->slice[i]))
            call[count++] = (struct end){run->track[run->slice[i].track].process_at,
                                         run->slice[i].correlation, i};
    qsort(call, count, sizeof *call, by_correlation);
    for (size_t i = 0; i < run->slice_count && !ferror(timeline->out); i++) {
        const struct exp_slice *slice = &run->slice[i];
        if (slice->correlation == STORE_ABSENT || !exp_timeline_is_work(timeline, slice))
            continue;
        struct end key = {run->track[slice->track].process_at, slice->correlation, 0};
        size_t low = 0, high = count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (by_correlation(&call[middle], &key) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == count || call[low].process != key.process ||
            call[low].correlation != key.correlation)
            continue;
        timeline->format->arrow(timeline, call[low].slice, i, ++id);
    }
    free(call);
    return 0;
}

/* ---- names of processes and threads -------------------------------------------------------------------------------------- */

/* Writes the name of a process: rank, program, pid, and device if it shows one. */
static void process_name(struct exp_timeline *timeline, int64_t pid,
                         const struct exp_process *process, const char *device, int64_t index)
{
    char text[512], rank[40] = "", number[40] = "";
    if (process && process->rank != STORE_ABSENT)
        snprintf(rank, sizeof rank, "rank %" PRId64 " ", process->rank);
    if (process && process->pid != STORE_ABSENT)
        snprintf(number, sizeof number, " (%" PRId64 ")", process->pid);
    const char *program = process ? process->program : "machine";
    const char *gap = device ? " " : "";
    snprintf(text, sizeof text, "%s%.200s%s%s%.100s", rank, program ? program : "process", number,
             gap, text_of(device));
    timeline->format->process(timeline, pid, process, text, index);
}

/* The number itself, if it is a real one (`least` or more) that nothing else in `owner` has, else a
 * made-up one. */
static int take_number(struct exp_timeline *timeline, struct store_intern *taken, int64_t owner,
                       int64_t number, int64_t least, int64_t *out)
{
    const int64_t key[2] = {owner, number};
    int64_t id;
    bool added = false;
    int code = 0;
    if (number >= least && number < MADE_UP_ID)
        code = store_intern_put(taken, key, sizeof key, &id, &added);
    *out = added ? number : timeline->made_up++;
    return code;
}

/* Writes the name of a track, with its number and the number of its lane. */
static void thread_name(struct exp_timeline *timeline, const struct exp_track *track, int64_t tid,
                        size_t lane)
{
    const struct exp_place *place = &timeline->place[track - timeline->run->track];
    char text[400], number[40] = "", more[40] = "";
    if (track->tid != STORE_ABSENT)
        snprintf(number, sizeof number, " %" PRId64, track->tid);
    if (lane)
        snprintf(more, sizeof more, " (%zu)", lane + 1);
    if (track->name && *number && strstr(track->name, number + 1))
        *number = 0; /* the name has it already */
    snprintf(text, sizeof text, "%.300s%s%s",
             track->name && *track->name ? track->name : track->kind, number, more);
    timeline->format->thread(timeline, place->pid, tid, text,
                             (track - timeline->run->track) * 1024 + (int64_t)lane);
}

/* Number of the thread that shows this lane of the track; the first lane is the track's own. */
static int64_t lane_tid(struct exp_timeline *timeline, const struct exp_track *track, size_t lane)
{
    while (timeline->lanes <= lane) {
        timeline->lane_tid[timeline->lanes] =
            timeline->lanes ? timeline->made_up++
                            : timeline->place[track - timeline->run->track].tid;
        thread_name(timeline, track, timeline->lane_tid[timeline->lanes], timeline->lanes);
        timeline->lanes++;
    }
    return timeline->lane_tid[lane];
}

/* The number of "gpu:N"; STORE_ABSENT: it has none. */
static int64_t device_ordinal(const char *device)
{
    const char *colon = device ? strrchr(device, ':') : NULL;
    char *end;
    long number = colon ? strtol(colon + 1, &end, 10) : -1;
    return colon && end != colon + 1 && !*end && number >= 0 && number < 1 << 20 ? number
                                                                                 : STORE_ABSENT;
}

static int place_processes(struct exp_timeline *timeline)
{
    const struct exp_run *run = timeline->run;
    struct store_intern taken = {0};
    int code = 0;
    for (size_t i = 0; !code && i < run->process_count; i++) {
        code = take_number(timeline, &taken, 0, run->process[i].pid, 1, &timeline->process_pid[i]);
        process_name(timeline, timeline->process_pid[i], &run->process[i], NULL, 1000 * (int64_t)i);
    }
    store_intern_clear(&taken);
    return code;
}

/* The process of the timeline that shows a device of a process; *pid is 0 if there is none yet. A
 * device has the number of its name in `devices`. */
static int device_process(struct exp_timeline *timeline, struct store_intern *devices,
                          const struct exp_track *track, int64_t **pid)
{
    char key[4096];
    int length = snprintf(key, sizeof key, "%u %s", track->process_at, text_of(track->device));
    size_t bytes = length < (int)sizeof key ? (size_t)length : sizeof key - 1;
    int64_t id = 1;
    bool added;
    int code = store_intern_put(devices, key, bytes, &id, &added);
    *pid = &timeline->device_pid[id - 1];
    return code;
}

/* Gives every track a process and a thread of the timeline. A device of a process becomes a process
 * of its own. Numbers are the real ones where those are not taken. */
static int places(struct exp_timeline *timeline)
{
    const struct exp_run *run = timeline->run;
    struct store_intern devices = {0}, threads = {0};
    int64_t machine = STORE_ABSENT, index = 0, *device;
    int code = place_processes(timeline);
    for (size_t i = 0; !code && i < run->track_count; i++) {
        const struct exp_track *track = &run->track[i];
        const struct exp_process *process =
            track->process_at != EXP_NONE ? &run->process[track->process_at] : NULL;
        struct exp_place *place = &timeline->place[i];
        *place =
            (struct exp_place){.pid = process ? timeline->process_pid[track->process_at] : machine,
                               .device = !strcmp(track->kind, "stream"),
                               .ordinal = device_ordinal(track->device)};
        if (place->device) {
            code = device_process(timeline, &devices, track, &device);
            if (!*device) {
                *device = timeline->made_up++;
                process_name(timeline, *device, process, track->device ? track->device : "device",
                             1000 * (int64_t)track->process_at + ++index);
            }
            place->pid = *device;
        } else if (!process && machine == STORE_ABSENT) {
            place->pid = machine = timeline->made_up++;
            process_name(timeline, machine, NULL, NULL, 1 << 28);
        }
        bool is_thread = strcmp(track->kind, "counter") != 0;
        int taken = take_number(timeline, &threads, place->pid, is_thread ? track->tid : -1, 0,
                                &place->tid);
        code = code ? code : taken;
    }
    store_intern_clear(&devices);
    store_intern_clear(&threads);
    return code;
}

/* ---- counters ------------------------------------------------------------------------------------------------------ */

/* Writes one value of a counter. */
static int counter(void *ctx, const struct store_counter *counter)
{
    struct exp_timeline *timeline = ctx;
    const struct exp_run *run = timeline->run;
    uint32_t index = exp_track_at(run, counter->track);
    if (index == EXP_NONE || counter->value != counter->value ||
        counter->value - counter->value != 0 || counter->time < run->t0 || counter->time >= run->t1)
        return ferror(timeline->out);
    const struct exp_track *track = &run->track[index];
    char name[400];
    int used = snprintf(name, sizeof name, "%.200s", track->name ? track->name : "counter");
    if (track->device)
        used += snprintf(name + used, sizeof name - (size_t)used, " %.60s", track->device);
    if (track->unit)
        snprintf(name + used, sizeof name - (size_t)used, " (%.60s)", track->unit);
    timeline->format->counter(timeline, index, name, exp_clamp(counter->time), counter->value);
    return ferror(timeline->out);
}

static int write_all(struct exp_timeline *timeline, store_reader *reader,
                     const struct store_export_options *options)
{
    int code = timeline->format->begin(timeline);
    if (!code)
        code = places(timeline);
    if (!code)
        code = slices(timeline);
    if (!code)
        code = arrows(timeline);
    if (!code && options->with_path && timeline->format->path && timeline->run->slice_count)
        code = timeline->format->path(timeline, options);
    if (!code && store_counter_each(reader, 0, counter, timeline) < 0)
        code = store_reader_error(reader)->code;
    timeline->format->end(timeline);
    return code;
}

int exp_timeline_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                       const struct exp_timeline_format *format, struct tacho_error *err)
{
    struct exp_run run;
    int code = exp_run_load(reader, options, &run, err);
    if (code)
        return code;
    struct exp_timeline timeline = {
        .run = &run, .format = format, .out = out, .made_up = MADE_UP_ID};
    timeline.place = calloc(run.track_count + 1, sizeof *timeline.place);
    timeline.process_pid = calloc(run.process_count + 1, sizeof *timeline.process_pid);
    timeline.tid_of = calloc(run.slice_count + 1, sizeof *timeline.tid_of);
    timeline.device_pid = calloc(run.track_count + 1, sizeof *timeline.device_pid);
    if (timeline.place && timeline.process_pid && timeline.device_pid && timeline.tid_of)
        code = write_all(&timeline, reader, options);
    else
        code = TACHO_ENOMEM;
    if (code)
        tacho_fail(err, code, NULL, "%s", tacho_error_text(code));
    free(timeline.place);
    free(timeline.process_pid);
    free(timeline.device_pid);
    free(timeline.tid_of);
    exp_run_free(&run);
    return exp_end(out, code, err);
}
