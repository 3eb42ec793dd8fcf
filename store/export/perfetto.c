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

#include "store/export/timeline.h"

/* Begins an event: all but the first have a comma before. */
static void event(struct exp_timeline *timeline)
{
    bool *any = timeline->own;
    fputs(*any ? ",\n" : "\n", timeline->out);
    *any = true;
}

/* Writes ns as us with three decimals. */
static void time_us(struct exp_timeline *timeline, int64_t ns)
{
    fprintf(timeline->out, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
}

/* ---- names ------------------------------------------------------------------------------------- */

static void meta(struct exp_timeline *timeline, const char *what, int64_t pid, int64_t tid)
{
    event(timeline);
    fprintf(timeline->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRId64, what, pid);
    if (tid != STORE_ABSENT)
        fprintf(timeline->out, ",\"tid\":%" PRId64, tid);
    fputs(",\"args\":{", timeline->out);
}

static void meta_name(struct exp_timeline *timeline, const char *what, int64_t pid, int64_t tid,
                      const char *name)
{
    meta(timeline, what, pid, tid);
    fputs("\"name\":", timeline->out);
    exp_json_string(timeline->out, name);
    fputs("}}", timeline->out);
}

/* Writes where a process or thread is shown. */
static void meta_sort(struct exp_timeline *timeline, const char *what, int64_t pid, int64_t tid,
                      int64_t index)
{
    meta(timeline, what, pid, tid);
    fprintf(timeline->out, "\"sort_index\":%" PRId64 "}}", index);
}

static void process(struct exp_timeline *timeline, int64_t pid, const struct exp_process *process,
                    const char *name, int64_t index)
{
    (void)process;
    meta_name(timeline, "process_name", pid, STORE_ABSENT, name);
    meta_sort(timeline, "process_sort_index", pid, STORE_ABSENT, index);
}

static void thread(struct exp_timeline *timeline, int64_t pid, int64_t tid, const char *name,
                   int64_t index)
{
    meta_name(timeline, "thread_name", pid, tid, name);
    meta_sort(timeline, "thread_sort_index", pid, tid, index);
}

/* ---- events ------------------------------------------------------------------------------------ */

/* Writes one slice: complete (X), open at the end (B) or instant (i). */
static int slice(struct exp_timeline *timeline, size_t index, size_t lane)
{
    const struct exp_run *run = timeline->run;
    const struct exp_slice *slice = &run->slice[index];
    const char *category = exp_timeline_category(timeline, slice);
    struct exp_args args = {.out = timeline->out};
    bool instant = !strcmp(category, "cpu_instant_event"), open = slice->end == INT64_MAX;
    (void)lane;
    event(timeline);
    const char *phase = instant ? "i" : "X";
    fprintf(timeline->out, "{\"ph\":\"%s\",\"cat\":", open ? "B" : phase);
    exp_json_string(timeline->out, category);
    fputs(",\"name\":", timeline->out);
    exp_json_string(timeline->out, exp_text(run, slice->name));
    fprintf(timeline->out,
            ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":", timeline->place[slice->track].pid,
            timeline->tid_of[index]);
    time_us(timeline, slice->start - run->origin);
    if (instant && !open) {
        fputs(",\"s\":\"t\"", timeline->out);
    } else if (!open) {
        fputs(",\"dur\":", timeline->out);
        time_us(timeline, slice->end - slice->start);
    }
    fputs(",\"args\":{", timeline->out);
    exp_timeline_args(timeline, slice, &args);
    fputs("}}", timeline->out);
    return 0;
}

/* Writes the start or the end of an arrow from a launch to its kernel. */
static void arrow_end(struct exp_timeline *timeline, size_t i, int64_t id, bool start)
{
    const struct exp_slice *slice = &timeline->run->slice[i];
    event(timeline);
    fprintf(timeline->out,
            "{\"ph\":%s,\"id\":%" PRId64 ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":%" PRId64
            ",\"tid\":%" PRId64 ",\"ts\":",
            start ? "\"s\"" : "\"f\",\"bp\":\"e\"", id, timeline->place[slice->track].pid,
            timeline->tid_of[i]);
    time_us(timeline, slice->start - timeline->run->origin);
    putc('}', timeline->out);
}

static void arrow(struct exp_timeline *timeline, size_t from, size_t to, int64_t id)
{
    arrow_end(timeline, from, id, true);
    arrow_end(timeline, to, id, false);
}

static void counter(struct exp_timeline *timeline, uint32_t track, const char *name, int64_t time,
                    double value)
{
    event(timeline);
    fputs("{\"ph\":\"C\",\"name\":", timeline->out);
    exp_json_string(timeline->out, name);
    fprintf(timeline->out, ",\"pid\":%" PRId64 ",\"ts\":", timeline->place[track].pid);
    time_us(timeline, time - timeline->run->origin);
    fprintf(timeline->out, ",\"args\":{\"value\":%.17g}}", value);
}

static int path(struct exp_timeline *timeline, const struct store_export_options *options)
{
    size_t count = timeline->run->track_count;
    int64_t *pid = calloc(2 * count + 1, sizeof *pid);
    if (!pid)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        pid[i] = timeline->place[i].pid;
        pid[count + i] = timeline->place[i].tid;
    }
    exp_path_json(timeline->run, options, timeline->out, pid, pid + count, timeline->made_up++);
    free(pid);
    return 0;
}

/* ---- head, end --------------------------------------------------------------------------------- */

/* "distributedInfo" of a run with one rank, "deviceProperties" of its devices: readers of
 * Kineto traces look for them. */
static int head(struct exp_timeline *timeline)
{
    const struct exp_run *run = timeline->run;
    const struct exp_process *ranked = NULL;
    size_t ranks = 0;
    struct exp_args args = {.out = timeline->out};
    bool any = false;
    for (size_t i = 0; i < run->process_count; i++)
        if (run->process[i].rank != STORE_ABSENT) {
            ranked = ranks && ranked->rank == run->process[i].rank ? ranked : &run->process[i];
            ranks += ranked == &run->process[i];
        }
    fprintf(timeline->out,
            "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":%" PRId64
            ",\"otherData\":{\"exported_by\":\"tacho " TACHO_VERSION "\"}",
            run->origin);
    if (ranks == 1) {
        fputs(",\n\"distributedInfo\":{", timeline->out);
        args.any = false;
        exp_arg_text(&args, "backend", exp_run_value(run, "backend"));
        exp_arg_int(&args, "rank", ranked->rank);
        const char *world = exp_run_value(run, "world_size");
        if (world)
            exp_arg_int(&args, "world_size", strtoll(world, NULL, 10));
        putc('}', timeline->out);
    }
    for (size_t i = 0; i < run->key_count; i++) {
        long long process, count;
        int end = 0;
        char key[200];
        if (sscanf(run->key[i], "device.%lld.gpu:%lld.name%n", &process, &count, &end) != 2 ||
            !end || run->key[i][end])
            continue;
        fputs(any ? "," : ",\n\"deviceProperties\":[", timeline->out);
        any = true;
        putc('{', timeline->out);
        args.any = false;
        exp_arg_int(&args, "id", count);
        exp_arg_text(&args, "name", run->value[i]);
        static const char *const numbers[][2] = {
            {"sms", "numSms"},
            {"memory_bytes", "totalGlobalMem"},
            {"warp_size", "warpSize"},
            {"max_threads_per_sm", "maxThreadsPerMultiprocessor"}};
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            snprintf(key, sizeof key, "device.%lld.gpu:%lld.%s", process, count, numbers[j][0]);
            const char *value = exp_run_value(run, key);
            if (value)
                exp_arg_int(&args, numbers[j][1], strtoll(value, NULL, 10));
        }
        int major, minor;
        snprintf(key, sizeof key, "device.%lld.gpu:%lld.compute_capability", process, count);
        const char *cc = exp_run_value(run, key);
        if (cc && sscanf(cc, "%d.%d", &major, &minor) == 2) {
            exp_arg_int(&args, "computeMajor", major);
            exp_arg_int(&args, "computeMinor", minor);
        }
        putc('}', timeline->out);
    }
    fputs(any ? "],\n\"traceEvents\":[" : ",\n\"traceEvents\":[", timeline->out);
    return 0;
}

static int begin(struct exp_timeline *timeline)
{
    timeline->own = calloc(1, sizeof(bool));
    return timeline->own ? head(timeline) : TACHO_ENOMEM;
}

static void end(struct exp_timeline *timeline)
{
    fputs("\n]}\n", timeline->out);
    free(timeline->own);
}

int exp_perfetto_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                       struct tacho_error *err)
{
    static const struct exp_timeline_format json = {.begin = begin,
                                                    .end = end,
                                                    .process = process,
                                                    .thread = thread,
                                                    .slice = slice,
                                                    .arrow = arrow,
                                                    .counter = counter,
                                                    .path = path};
    return exp_timeline_write(reader, options, out, &json, err);
}
