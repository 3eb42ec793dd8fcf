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

#include "store/export/exporter.h"

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

/* Where the slices of a track stand in the timeline. */
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
    int64_t made_up;       /* the next number */
    int64_t *tid_of;       /* by slice: its lane's */
    int64_t lane_tid[513]; /* of the present track */
    size_t lanes;
    bool any; /* an event stands before the next one */
};

static void event(struct writer *w)
{
    fputs(w->any ? ",\n" : "\n", w->out);
    w->any = true;
}

static void time_us(struct writer *w, int64_t ns)
{
    fprintf(w->out, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
}

/* ---- slices ------------------------------------------------------------------------------------------------------------ */

static const char *category_of(const struct writer *w, const struct exp_slice *s)
{
    const char *ours = exp_text(w->run, s->category);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (categories[i].device == w->place[s->track].device && !strcmp(categories[i].ours, ours))
            return categories[i].theirs;
    return ours;
}

static void slice(struct writer *w, const struct exp_slice *s, int64_t tid)
{
    const struct exp_run *run = w->run;
    const struct place *p = &w->place[s->track];
    const char *category = category_of(w, s);
    bool instant = !strcmp(category, "cpu_instant_event"), open = s->end == INT64_MAX;
    event(w);
    fprintf(w->out, "{\"ph\":\"%s\",\"cat\":", open ? "B" : instant ? "i" : "X");
    exp_json_string(w->out, category);
    fputs(",\"name\":", w->out);
    exp_json_string(w->out, exp_text(run, s->name));
    fprintf(w->out, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":", p->pid, tid);
    time_us(w, s->start - run->origin);
    if (instant && !open) {
        fputs(",\"s\":\"t\"", w->out);
    } else if (!open) {
        fputs(",\"dur\":", w->out);
        time_us(w, s->end - s->start);
    }
    fputs(",\"args\":{", w->out);
    w->args.any = false;
    if (p->device) {
        exp_arg_int(&w->args, "device", p->ordinal);
        exp_arg_int(&w->args, "stream",
                    run->track[s->track].tid == STORE_ABSENT
                        ? -1
                        : run->track[s->track].tid); /* -1: all of them */
    }
    exp_arg_int(&w->args, !strcmp(category, "cpu_op") ? "Sequence number" : "correlation",
                s->correlation);
    if (s->detail != EXP_NONE && run->detail[s->detail].id)
        exp_args_detail(&w->args, &run->detail[s->detail], instant);
    fputs("}}", w->out);
}

static int64_t lane_tid(struct writer *w, const struct exp_track *t, size_t lane);

static int slices(struct writer *w)
{
    const struct exp_run *run = w->run;
    for (size_t k = 0; k < run->track_count; k++) {
        const struct exp_track *t = &run->track[k];
        struct exp_lanes lanes = {0};
        w->lanes = 0;
        for (size_t i = t->first; i < t->first + t->count && !ferror(w->out); i++) {
            size_t parent;
            int64_t lane = exp_lane_put(&lanes, run, i, &parent);
            if (lane < 0) {
                exp_lanes_free(&lanes);
                return (int)lane;
            }
            w->tid_of[i] = lane_tid(w, t, (size_t)lane);
            slice(w, &run->slice[i], w->tid_of[i]);
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

static int by_correlation(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->correlation != y->correlation)
        return x->correlation < y->correlation ? -1 : 1;
    return x->slice < y->slice ? -1 : x->slice > y->slice;
}

static void arrow_end(struct writer *w, size_t i, int64_t id, bool start)
{
    const struct exp_slice *s = &w->run->slice[i];
    event(w);
    fprintf(w->out,
            "{\"ph\":\"%s\"%s,\"id\":%" PRId64
            ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":",
            start ? "s" : "f", start ? "" : ",\"bp\":\"e\"", id, w->place[s->track].pid,
            w->tid_of[i]);
    time_us(w, s->start - w->run->origin);
    putc('}', w->out);
}

static bool is_call(const struct writer *w, const struct exp_slice *s)
{
    const char *c = exp_text(w->run, s->category);
    return !w->place[s->track].device && (!strcmp(c, "runtime") || !strcmp(c, "driver"));
}

static bool is_work(const struct writer *w, const struct exp_slice *s)
{
    const char *c = exp_text(w->run, s->category);
    return w->place[s->track].device && strcmp(c, "sync") != 0 && strcmp(c, "annotation") != 0;
}

/* From the call to each piece of work it launched. */
static int arrows(struct writer *w)
{
    const struct exp_run *run = w->run;
    size_t n = 0;
    int64_t id = 0;
    struct end *call = calloc(run->slice_count ? run->slice_count : 1, sizeof *call);
    if (!call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < run->slice_count; i++)
        if (run->slice[i].correlation != STORE_ABSENT && is_call(w, &run->slice[i]))
            call[n++] = (struct end){run->track[run->slice[i].track].process_at,
                                     run->slice[i].correlation, i};
    qsort(call, n, sizeof *call, by_correlation);
    for (size_t i = 0; i < run->slice_count && !ferror(w->out); i++) {
        const struct exp_slice *s = &run->slice[i];
        if (s->correlation == STORE_ABSENT || !is_work(w, s))
            continue;
        struct end key = {run->track[s->track].process_at, s->correlation, 0};
        size_t low = 0, high = n;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (by_correlation(&call[middle], &key) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == n || call[low].process != key.process ||
            call[low].correlation != key.correlation)
            continue;
        arrow_end(w, call[low].slice, ++id, true);
        arrow_end(w, i, id, false);
    }
    free(call);
    return 0;
}

/* ---- names of processes and threads -------------------------------------------------------------------------------------- */

static void meta(struct writer *w, const char *what, int64_t pid, int64_t tid)
{
    event(w);
    fprintf(w->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRId64, what, pid);
    if (tid != STORE_ABSENT)
        fprintf(w->out, ",\"tid\":%" PRId64, tid);
    fputs(",\"args\":{", w->out);
    w->args.any = false;
}

static void meta_sort(struct writer *w, const char *what, int64_t pid, int64_t tid, int64_t index)
{
    meta(w, what, pid, tid);
    exp_arg_int(&w->args, "sort_index", index);
    fputs("}}", w->out);
}

static void process_name(struct writer *w, int64_t pid, const struct exp_process *p,
                         const char *device, int64_t index)
{
    char text[512], rank[40] = "", number[40] = "";
    if (p && p->rank != STORE_ABSENT)
        snprintf(rank, sizeof rank, "rank %" PRId64 " ", p->rank);
    if (p && p->pid != STORE_ABSENT)
        snprintf(number, sizeof number, " (%" PRId64 ")", p->pid);
    snprintf(text, sizeof text, "%s%.200s%s%s%.100s", rank,
             p ? (p->program ? p->program : "process") : "machine", number, device ? " " : "",
             device ? device : "");
    meta(w, "process_name", pid, STORE_ABSENT);
    exp_arg_text(&w->args, "name", text);
    fputs("}}", w->out);
    meta_sort(w, "process_sort_index", pid, STORE_ABSENT, index);
}

static bool tid_is_free(const struct writer *w, size_t before, int64_t pid, int64_t tid)
{
    for (size_t k = 0; k < before; k++)
        if (w->place[k].pid == pid && w->place[k].tid == tid)
            return false;
    return true;
}

static void thread_name(struct writer *w, const struct exp_track *t, int64_t tid, size_t lane)
{
    const struct place *p = &w->place[t - w->run->track];
    char text[400], number[40] = "", more[40] = "";
    if (t->tid != STORE_ABSENT)
        snprintf(number, sizeof number, " %" PRId64, t->tid);
    if (lane)
        snprintf(more, sizeof more, " (%zu)", lane + 1);
    bool said = t->name && *number && strstr(t->name, number + 1);
    snprintf(text, sizeof text, "%.300s%s%s", t->name && *t->name ? t->name : t->kind,
             said ? "" : number, more);
    meta(w, "thread_name", p->pid, tid);
    exp_arg_text(&w->args, "name", text);
    fputs("}}", w->out);
    meta_sort(w, "thread_sort_index", p->pid, tid, (t - w->run->track) * 1024 + (int64_t)lane);
}

/* Number of the thread that shows this lane of the track; the first lane is the track's own. */
static int64_t lane_tid(struct writer *w, const struct exp_track *t, size_t lane)
{
    while (w->lanes <= lane) {
        w->lane_tid[w->lanes] = w->lanes ? w->made_up++ : w->place[t - w->run->track].tid;
        thread_name(w, t, w->lane_tid[w->lanes], w->lanes);
        w->lanes++;
    }
    return w->lane_tid[lane];
}

static int64_t device_ordinal(const char *device)
{
    const char *colon = device ? strrchr(device, ':') : NULL;
    char *end;
    long n = colon ? strtol(colon + 1, &end, 10) : -1;
    return colon && end != colon + 1 && !*end && n >= 0 && n < 1 << 20 ? n : STORE_ABSENT;
}

/* Processes, and each device of a process as one of its own. Numbers are the real ones where those
 * are not taken. */
static void places(struct writer *w)
{
    const struct exp_run *run = w->run;
    int64_t machine = STORE_ABSENT, index = 0;
    for (size_t i = 0; i < run->process_count; i++) {
        bool taken = run->process[i].pid <= 0 || run->process[i].pid >= MADE_UP_ID;
        for (size_t k = 0; k < i && !taken; k++)
            taken = w->process_pid[k] == run->process[i].pid;
        w->process_pid[i] = taken ? w->made_up++ : run->process[i].pid;
        process_name(w, w->process_pid[i], &run->process[i], NULL, 1000 * (int64_t)i);
    }
    for (size_t k = 0; k < run->track_count; k++) {
        const struct exp_track *t = &run->track[k];
        const struct exp_process *p =
            t->process_at != EXP_NONE ? &run->process[t->process_at] : NULL;
        struct place *x = &w->place[k];
        *x = (struct place){.pid = p ? w->process_pid[t->process_at] : machine,
                            .device = !strcmp(t->kind, "stream"),
                            .ordinal = device_ordinal(t->device)};
        if (x->device) {
            size_t same = 0;
            while (same < k &&
                   !(w->place[same].device && run->track[same].process_at == t->process_at &&
                     !strcmp(run->track[same].device ? run->track[same].device : "",
                             t->device ? t->device : "")))
                same++;
            x->pid = same < k ? w->place[same].pid : w->made_up++;
            if (same == k)
                process_name(w, x->pid, p, t->device ? t->device : "device",
                             1000 * (int64_t)t->process_at + ++index);
        } else if (!p && machine == STORE_ABSENT) {
            x->pid = machine = w->made_up++;
            process_name(w, machine, NULL, NULL, 1 << 28);
        }
        bool real = t->tid >= 0 && t->tid < MADE_UP_ID && tid_is_free(w, k, x->pid, t->tid);
        x->tid = real && strcmp(t->kind, "counter") != 0 ? t->tid : w->made_up++;
    }
}

/* ---- counters, head ------------------------------------------------------------------------------------------------------ */

static int counter(void *ctx, const struct store_counter *c)
{
    struct writer *w = ctx;
    const struct exp_run *run = w->run;
    uint32_t at = exp_track_at(run, c->track);
    if (at == EXP_NONE || c->value != c->value || c->value - c->value != 0 || c->time < run->t0 ||
        c->time >= run->t1)
        return ferror(w->out);
    const struct exp_track *t = &run->track[at];
    char name[400];
    snprintf(name, sizeof name, "%.200s%s%.60s%s%.60s%s", t->name ? t->name : "counter",
             t->device ? " " : "", t->device ? t->device : "", t->unit ? " (" : "",
             t->unit ? t->unit : "", t->unit ? ")" : "");
    event(w);
    fprintf(w->out, "{\"ph\":\"C\",\"name\":");
    exp_json_string(w->out, name);
    fprintf(w->out, ",\"pid\":%" PRId64 ",\"ts\":", w->place[at].pid);
    time_us(w, exp_clamp(c->time) - run->origin);
    fprintf(w->out, ",\"args\":{\"value\":%.17g}}", c->value);
    return ferror(w->out);
}

/* "distributedInfo" of a run with one rank, "deviceProperties" of its devices: what readers of
 * Kineto's traces look for. */
static void head(struct writer *w)
{
    const struct exp_run *run = w->run;
    const struct exp_process *ranked = NULL;
    size_t ranks = 0;
    bool any = false;
    for (size_t i = 0; i < run->process_count; i++)
        if (run->process[i].rank != STORE_ABSENT) {
            ranked = ranks && ranked->rank == run->process[i].rank ? ranked : &run->process[i];
            ranks += ranked == &run->process[i];
        }
    fprintf(w->out,
            "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":%" PRId64
            ",\"otherData\":{\"exported_by\":\"tacho " TACHO_VERSION "\"}",
            run->origin);
    if (ranks == 1) {
        fputs(",\n\"distributedInfo\":{", w->out);
        w->args.any = false;
        exp_arg_text(&w->args, "backend", exp_run_value(run, "backend"));
        exp_arg_int(&w->args, "rank", ranked->rank);
        const char *world = exp_run_value(run, "world_size");
        if (world)
            exp_arg_int(&w->args, "world_size", strtoll(world, NULL, 10));
        putc('}', w->out);
    }
    for (size_t i = 0; i < run->key_count; i++) {
        long long process, n;
        int end = 0;
        char key[200];
        if (sscanf(run->key[i], "device.%lld.gpu:%lld.name%n", &process, &n, &end) != 2 || !end ||
            run->key[i][end])
            continue;
        fputs(any ? "," : ",\n\"deviceProperties\":[", w->out);
        any = true;
        putc('{', w->out);
        w->args.any = false;
        exp_arg_int(&w->args, "id", n);
        exp_arg_text(&w->args, "name", run->value[i]);
        static const char *const numbers[][2] = {
            {"sms", "numSms"},
            {"memory_bytes", "totalGlobalMem"},
            {"warp_size", "warpSize"},
            {"max_threads_per_sm", "maxThreadsPerMultiprocessor"}};
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            snprintf(key, sizeof key, "device.%lld.gpu:%lld.%s", process, n, numbers[k][0]);
            const char *value = exp_run_value(run, key);
            if (value)
                exp_arg_int(&w->args, numbers[k][1], strtoll(value, NULL, 10));
        }
        int major, minor;
        snprintf(key, sizeof key, "device.%lld.gpu:%lld.compute_capability", process, n);
        const char *cc = exp_run_value(run, key);
        if (cc && sscanf(cc, "%d.%d", &major, &minor) == 2) {
            exp_arg_int(&w->args, "computeMajor", major);
            exp_arg_int(&w->args, "computeMinor", minor);
        }
        putc('}', w->out);
    }
    fputs(any ? "],\n\"traceEvents\":[" : ",\n\"traceEvents\":[", w->out);
}

static int path(struct writer *w, const struct store_export_options *o)
{
    size_t n = w->run->track_count;
    int64_t *pid = calloc(2 * n + 1, sizeof *pid);
    if (!pid)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < n; k++) {
        pid[k] = w->place[k].pid;
        pid[n + k] = w->place[k].tid;
    }
    exp_path_json(w->run, o, w->out, pid, pid + n, w->made_up++);
    free(pid);
    return 0;
}

int exp_perfetto_write(store_reader *r, const struct store_export_options *o, FILE *out,
                       struct tacho_error *err)
{
    struct exp_run run;
    int code = exp_run_load(r, o, &run, err);
    if (code)
        return code;
    struct writer w = {.run = &run, .out = out, .args = {.out = out}, .made_up = MADE_UP_ID};
    w.place = calloc(run.track_count + 1, sizeof *w.place);
    w.process_pid = calloc(run.process_count + 1, sizeof *w.process_pid);
    w.tid_of = calloc(run.slice_count + 1, sizeof *w.tid_of);
    code = w.place && w.process_pid && w.tid_of ? 0 : TACHO_ENOMEM;
    if (!code) {
        head(&w);
        places(&w);
        code = slices(&w);
    }
    if (!code)
        code = arrows(&w);
    if (!code && o->with_path && w.any)
        code = path(&w, o);
    if (!code && store_counter_each(r, 0, counter, &w) < 0)
        code = store_reader_error(r)->code;
    fputs("\n]}\n", out);
    if (code)
        tacho_fail(err, code, NULL, "%s", tacho_error_text(code));
    free(w.place);
    free(w.process_pid);
    free(w.tid_of);
    exp_run_free(&run);
    return exp_end(out, code, err);
}
