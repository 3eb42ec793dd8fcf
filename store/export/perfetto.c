/* SPDX-License-Identifier: Apache-2.0
 *
 * Chrome's JSON trace format as ui.perfetto.dev and chrome://tracing read it, in the words of
 * Kineto's traces, so that what reads those reads this too (our own importer does). Times are us
 * since the first event with three decimals, that is exact ns; baseTimeNanoseconds is the first
 * event.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/export/export_private.h"
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

/* The process and thread of the timeline that show the slices of a track. */
struct place {
    int64_t pid, tid;
    bool device;     /* of an accelerator */
    int64_t ordinal; /* of it */
};

struct writer {
    const struct exp_run *run;
    FILE *out;
    struct exp_args args;  /* of the present event */
    struct place *place;   /* by track */
    int64_t *process_pid;  /* by process */
    int64_t *device_pid;   /* by device of a process, in the order of their first tracks */
    int64_t made_up;       /* the next number */
    int64_t *tid_of;       /* by slice: its lane's */
    int64_t lane_tid[513]; /* of the present track */
    size_t lanes;
    bool any; /* there is one already: a comma comes before the next */
};

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static void event(struct writer *writer)
{
    fputs(writer->any ? ",\n" : "\n", writer->out);
    writer->any = true;
}

/* Writes ns as us with three decimals. */
static void time_us(struct writer *writer, int64_t ns)
{
    fprintf(writer->out, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
}

/* ---- slices ------------------------------------------------------------------------------------------------------------ */

/* The category of a slice in the words of Kineto. */
static const char *category_of(const struct writer *writer, const struct exp_slice *slice)
{
    const char *ours = exp_text(writer->run, slice->category);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (categories[i].device == writer->place[slice->track].device &&
            !strcmp(categories[i].ours, ours))
            return categories[i].theirs;
    return ours;
}

/* Writes one slice: complete (X), open at the end (B) or instant (i). */
static void slice(struct writer *writer, const struct exp_slice *slice, int64_t tid)
{
    const struct exp_run *run = writer->run;
    const struct place *place = &writer->place[slice->track];
    const char *category = category_of(writer, slice);
    bool instant = !strcmp(category, "cpu_instant_event"), open = slice->end == INT64_MAX;
    event(writer);
    const char *phase = instant ? "i" : "X";
    fprintf(writer->out, "{\"ph\":\"%s\",\"cat\":", open ? "B" : phase);
    exp_json_string(writer->out, category);
    fputs(",\"name\":", writer->out);
    exp_json_string(writer->out, exp_text(run, slice->name));
    fprintf(writer->out, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":", place->pid, tid);
    time_us(writer, slice->start - run->origin);
    if (instant && !open) {
        fputs(",\"s\":\"t\"", writer->out);
    } else if (!open) {
        fputs(",\"dur\":", writer->out);
        time_us(writer, slice->end - slice->start);
    }
    fputs(",\"args\":{", writer->out);
    writer->args.any = false;
    if (place->device) {
        exp_arg_int(&writer->args, "device", place->ordinal);
        exp_arg_int(&writer->args, "stream",
                    run->track[slice->track].tid == STORE_ABSENT
                        ? -1
                        : run->track[slice->track].tid); /* -1: all of them */
    }
    exp_arg_int(&writer->args, !strcmp(category, "cpu_op") ? "Sequence number" : "correlation",
                slice->correlation);
    if (slice->detail != EXP_NONE && run->detail[slice->detail].id)
        exp_args_detail(&writer->args, &run->detail[slice->detail], instant);
    fputs("}}", writer->out);
}

static int64_t lane_tid(struct writer *writer, const struct exp_track *track, size_t lane);

/* Writes all slices, track after track, each on the lane where it fits. */
static int slices(struct writer *writer)
{
    const struct exp_run *run = writer->run;
    for (size_t j = 0; j < run->track_count; j++) {
        const struct exp_track *track = &run->track[j];
        struct exp_lanes lanes = {0};
        writer->lanes = 0;
        for (size_t i = track->first; i < track->first + track->count && !ferror(writer->out);
             i++) {
            size_t parent;
            int64_t lane = exp_lane_put(&lanes, run, i, &parent);
            if (lane < 0) {
                exp_lanes_free(&lanes);
                return (int)lane;
            }
            writer->tid_of[i] = lane_tid(writer, track, (size_t)lane);
            slice(writer, &run->slice[i], writer->tid_of[i]);
        }
        exp_lanes_free(&lanes);
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

/* Writes the start or the end of an arrow from a launch to its kernel. */
static void arrow_end(struct writer *writer, size_t i, int64_t id, bool start)
{
    const struct exp_slice *slice = &writer->run->slice[i];
    event(writer);
    fprintf(writer->out,
            "{\"ph\":%s,\"id\":%" PRId64 ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":%" PRId64
            ",\"tid\":%" PRId64 ",\"ts\":",
            start ? "\"s\"" : "\"f\",\"bp\":\"e\"", id, writer->place[slice->track].pid,
            writer->tid_of[i]);
    time_us(writer, slice->start - writer->run->origin);
    putc('}', writer->out);
}

/* Is it a call on the host that launches device work? */
static bool is_call(const struct writer *writer, const struct exp_slice *slice)
{
    const char *category = exp_text(writer->run, slice->category);
    return !writer->place[slice->track].device &&
           (!strcmp(category, "runtime") || !strcmp(category, "driver"));
}

/* Is it device work that a call launched? */
static bool is_work(const struct writer *writer, const struct exp_slice *slice)
{
    const char *category = exp_text(writer->run, slice->category);
    return writer->place[slice->track].device && strcmp(category, "sync") != 0 &&
           strcmp(category, "annotation") != 0;
}

/* From the call to each piece of work it launched. */
static int arrows(struct writer *writer)
{
    const struct exp_run *run = writer->run;
    size_t count = 0;
    int64_t id = 0;
    struct end *call = calloc(run->slice_count ? run->slice_count : 1, sizeof *call);
    if (!call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < run->slice_count; i++)
        if (run->slice[i].correlation != STORE_ABSENT && is_call(writer, &run->slice[i]))
            call[count++] = (struct end){run->track[run->slice[i].track].process_at,
                                         run->slice[i].correlation, i};
    qsort(call, count, sizeof *call, by_correlation);
    for (size_t i = 0; i < run->slice_count && !ferror(writer->out); i++) {
        const struct exp_slice *slice = &run->slice[i];
        if (slice->correlation == STORE_ABSENT || !is_work(writer, slice))
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
        arrow_end(writer, call[low].slice, ++id, true);
        arrow_end(writer, i, id, false);
    }
    free(call);
    return 0;
}

/* ---- names of processes and threads -------------------------------------------------------------------------------------- */

static void meta(struct writer *writer, const char *what, int64_t pid, int64_t tid)
{
    event(writer);
    fprintf(writer->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRId64, what, pid);
    if (tid != STORE_ABSENT)
        fprintf(writer->out, ",\"tid\":%" PRId64, tid);
    fputs(",\"args\":{", writer->out);
    writer->args.any = false;
}

/* Writes where a process or thread is shown. */
static void meta_sort(struct writer *writer, const char *what, int64_t pid, int64_t tid,
                      int64_t index)
{
    meta(writer, what, pid, tid);
    exp_arg_int(&writer->args, "sort_index", index);
    fputs("}}", writer->out);
}

/* Writes the name of a process: rank, program, pid, and device if it shows one. */
static void process_name(struct writer *writer, int64_t pid, const struct exp_process *process,
                         const char *device, int64_t index)
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
    meta(writer, "process_name", pid, STORE_ABSENT);
    exp_arg_text(&writer->args, "name", text);
    fputs("}}", writer->out);
    meta_sort(writer, "process_sort_index", pid, STORE_ABSENT, index);
}

/* The number itself, if it is a real one (`least` or more) that nothing else in `owner` has, else a
 * made-up one. */
static int take_number(struct writer *writer, struct store_intern *taken, int64_t owner,
                       int64_t number, int64_t least, int64_t *out)
{
    const int64_t key[2] = {owner, number};
    int64_t id;
    bool added = false;
    int code = 0;
    if (number >= least && number < MADE_UP_ID)
        code = store_intern_put(taken, key, sizeof key, &id, &added);
    *out = added ? number : writer->made_up++;
    return code;
}

/* Writes the name of a track, with its number and the number of its lane. */
static void thread_name(struct writer *writer, const struct exp_track *track, int64_t tid,
                        size_t lane)
{
    const struct place *place = &writer->place[track - writer->run->track];
    char text[400], number[40] = "", more[40] = "";
    if (track->tid != STORE_ABSENT)
        snprintf(number, sizeof number, " %" PRId64, track->tid);
    if (lane)
        snprintf(more, sizeof more, " (%zu)", lane + 1);
    if (track->name && *number && strstr(track->name, number + 1))
        *number = 0; /* the name has it already */
    snprintf(text, sizeof text, "%.300s%s%s",
             track->name && *track->name ? track->name : track->kind, number, more);
    meta(writer, "thread_name", place->pid, tid);
    exp_arg_text(&writer->args, "name", text);
    fputs("}}", writer->out);
    meta_sort(writer, "thread_sort_index", place->pid, tid,
              (track - writer->run->track) * 1024 + (int64_t)lane);
}

/* Number of the thread that shows this lane of the track; the first lane is the track's own. */
static int64_t lane_tid(struct writer *writer, const struct exp_track *track, size_t lane)
{
    while (writer->lanes <= lane) {
        writer->lane_tid[writer->lanes] =
            writer->lanes ? writer->made_up++ : writer->place[track - writer->run->track].tid;
        thread_name(writer, track, writer->lane_tid[writer->lanes], writer->lanes);
        writer->lanes++;
    }
    return writer->lane_tid[lane];
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

static int place_processes(struct writer *writer)
{
    const struct exp_run *run = writer->run;
    struct store_intern taken = {0};
    int code = 0;
    for (size_t i = 0; !code && i < run->process_count; i++) {
        code = take_number(writer, &taken, 0, run->process[i].pid, 1, &writer->process_pid[i]);
        process_name(writer, writer->process_pid[i], &run->process[i], NULL, 1000 * (int64_t)i);
    }
    store_intern_clear(&taken);
    return code;
}

/* The process of the timeline that shows a device of a process; *pid is 0 if there is none yet. A
 * device has the number of its name in `devices`. */
static int device_process(struct writer *writer, struct store_intern *devices,
                          const struct exp_track *track, int64_t **pid)
{
    char key[4096];
    int length = snprintf(key, sizeof key, "%u %s", track->process_at, text_of(track->device));
    size_t bytes = length < (int)sizeof key ? (size_t)length : sizeof key - 1;
    int64_t id = 1;
    bool added;
    int code = store_intern_put(devices, key, bytes, &id, &added);
    *pid = &writer->device_pid[id - 1];
    return code;
}

/* Gives every track a process and a thread of the timeline. A device of a process becomes a process
 * of its own. Numbers are the real ones where those are not taken. */
static int places(struct writer *writer)
{
    const struct exp_run *run = writer->run;
    struct store_intern devices = {0}, threads = {0};
    int64_t machine = STORE_ABSENT, index = 0, *device;
    int code = place_processes(writer);
    for (size_t i = 0; !code && i < run->track_count; i++) {
        const struct exp_track *track = &run->track[i];
        const struct exp_process *process =
            track->process_at != EXP_NONE ? &run->process[track->process_at] : NULL;
        struct place *place = &writer->place[i];
        *place = (struct place){.pid = process ? writer->process_pid[track->process_at] : machine,
                                .device = !strcmp(track->kind, "stream"),
                                .ordinal = device_ordinal(track->device)};
        if (place->device) {
            code = device_process(writer, &devices, track, &device);
            if (!*device) {
                *device = writer->made_up++;
                process_name(writer, *device, process, track->device ? track->device : "device",
                             1000 * (int64_t)track->process_at + ++index);
            }
            place->pid = *device;
        } else if (!process && machine == STORE_ABSENT) {
            place->pid = machine = writer->made_up++;
            process_name(writer, machine, NULL, NULL, 1 << 28);
        }
        bool is_thread = strcmp(track->kind, "counter") != 0;
        int taken =
            take_number(writer, &threads, place->pid, is_thread ? track->tid : -1, 0, &place->tid);
        code = code ? code : taken;
    }
    store_intern_clear(&devices);
    store_intern_clear(&threads);
    return code;
}

/* ---- counters, head ------------------------------------------------------------------------------------------------------ */

/* Writes one value of a counter. */
static int counter(void *ctx, const struct store_counter *counter)
{
    struct writer *writer = ctx;
    const struct exp_run *run = writer->run;
    uint32_t index = exp_track_at(run, counter->track);
    if (index == EXP_NONE || counter->value != counter->value ||
        counter->value - counter->value != 0 || counter->time < run->t0 || counter->time >= run->t1)
        return ferror(writer->out);
    const struct exp_track *track = &run->track[index];
    char name[400];
    int used = snprintf(name, sizeof name, "%.200s", track->name ? track->name : "counter");
    if (track->device)
        used += snprintf(name + used, sizeof name - (size_t)used, " %.60s", track->device);
    if (track->unit)
        snprintf(name + used, sizeof name - (size_t)used, " (%.60s)", track->unit);
    event(writer);
    fprintf(writer->out, "{\"ph\":\"C\",\"name\":");
    exp_json_string(writer->out, name);
    fprintf(writer->out, ",\"pid\":%" PRId64 ",\"ts\":", writer->place[index].pid);
    time_us(writer, exp_clamp(counter->time) - run->origin);
    fprintf(writer->out, ",\"args\":{\"value\":%.17g}}", counter->value);
    return ferror(writer->out);
}

/* "distributedInfo" of a run with one rank, "deviceProperties" of its devices: readers of
 * Kineto traces look for them. */
static void head(struct writer *writer)
{
    const struct exp_run *run = writer->run;
    const struct exp_process *ranked = NULL;
    size_t ranks = 0;
    bool any = false;
    for (size_t i = 0; i < run->process_count; i++)
        if (run->process[i].rank != STORE_ABSENT) {
            ranked = ranks && ranked->rank == run->process[i].rank ? ranked : &run->process[i];
            ranks += ranked == &run->process[i];
        }
    fprintf(writer->out,
            "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":%" PRId64
            ",\"otherData\":{\"exported_by\":\"tacho " TACHO_VERSION "\"}",
            run->origin);
    if (ranks == 1) {
        fputs(",\n\"distributedInfo\":{", writer->out);
        writer->args.any = false;
        exp_arg_text(&writer->args, "backend", exp_run_value(run, "backend"));
        exp_arg_int(&writer->args, "rank", ranked->rank);
        const char *world = exp_run_value(run, "world_size");
        if (world)
            exp_arg_int(&writer->args, "world_size", strtoll(world, NULL, 10));
        putc('}', writer->out);
    }
    for (size_t i = 0; i < run->key_count; i++) {
        long long process, count;
        int end = 0;
        char key[200];
        if (sscanf(run->key[i], "device.%lld.gpu:%lld.name%n", &process, &count, &end) != 2 ||
            !end || run->key[i][end])
            continue;
        fputs(any ? "," : ",\n\"deviceProperties\":[", writer->out);
        any = true;
        putc('{', writer->out);
        writer->args.any = false;
        exp_arg_int(&writer->args, "id", count);
        exp_arg_text(&writer->args, "name", run->value[i]);
        static const char *const numbers[][2] = {
            {"sms", "numSms"},
            {"memory_bytes", "totalGlobalMem"},
            {"warp_size", "warpSize"},
            {"max_threads_per_sm", "maxThreadsPerMultiprocessor"}};
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            snprintf(key, sizeof key, "device.%lld.gpu:%lld.%s", process, count, numbers[j][0]);
            const char *value = exp_run_value(run, key);
            if (value)
                exp_arg_int(&writer->args, numbers[j][1], strtoll(value, NULL, 10));
        }
        int major, minor;
        snprintf(key, sizeof key, "device.%lld.gpu:%lld.compute_capability", process, count);
        const char *cc = exp_run_value(run, key);
        if (cc && sscanf(cc, "%d.%d", &major, &minor) == 2) {
            exp_arg_int(&writer->args, "computeMajor", major);
            exp_arg_int(&writer->args, "computeMinor", minor);
        }
        putc('}', writer->out);
    }
    fputs(any ? "],\n\"traceEvents\":[" : ",\n\"traceEvents\":[", writer->out);
}

static int path(struct writer *writer, const struct store_export_options *options)
{
    size_t count = writer->run->track_count;
    int64_t *pid = calloc(2 * count + 1, sizeof *pid);
    if (!pid)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        pid[i] = writer->place[i].pid;
        pid[count + i] = writer->place[i].tid;
    }
    exp_path_json(writer->run, options, writer->out, pid, pid + count, writer->made_up++);
    free(pid);
    return 0;
}

int exp_perfetto_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                       struct tacho_error *err)
{
    struct exp_run run;
    int code = exp_run_load(reader, options, &run, err);
    if (code)
        return code;
    struct writer writer = {.run = &run, .out = out, .args = {.out = out}, .made_up = MADE_UP_ID};
    writer.place = calloc(run.track_count + 1, sizeof *writer.place);
    writer.process_pid = calloc(run.process_count + 1, sizeof *writer.process_pid);
    writer.tid_of = calloc(run.slice_count + 1, sizeof *writer.tid_of);
    writer.device_pid = calloc(run.track_count + 1, sizeof *writer.device_pid);
    bool have_room = writer.place && writer.process_pid && writer.device_pid && writer.tid_of;
    code = have_room ? 0 : TACHO_ENOMEM;
    if (!code) {
        head(&writer);
        code = places(&writer);
    }
    if (!code)
        code = slices(&writer);
    if (!code)
        code = arrows(&writer);
    if (!code && options->with_path && writer.any)
        code = path(&writer, options);
    if (!code && store_counter_each(reader, 0, counter, &writer) < 0)
        code = store_reader_error(reader)->code;
    fputs("\n]}\n", out);
    if (code)
        tacho_fail(err, code, NULL, "%s", tacho_error_text(code));
    free(writer.place);
    free(writer.process_pid);
    free(writer.device_pid);
    free(writer.tid_of);
    exp_run_free(&run);
    return exp_end(out, code, err);
}
