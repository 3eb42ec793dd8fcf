/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU, memory, storage, faults, context switches of the target, as the collector sampled them from
 * /proc into counter tracks (names in profiler/collector/samplers/system.h), and hardware counters.
 * Totals count since a process started, so the last value of a track is the whole process; they are
 * added over processes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/counters/system.h"

#define CPU_WINDOW_LEAST 50000000   /* ns: below it a share of cores means nothing */
#define WINDOW_LEAST     50000000   /* ns between two looks at a counter */
#define COUNTER_KEY      "counter." /* run keys: status of a hardware counter */

static const struct {
    const char *name, *unit;
} sampled[] = {{"cpu_time", "ns"},
               {"cpu_wait", "ns"},
               {"rss", "bytes"},
               {"minor_faults", "count"},
               {"major_faults", "count"},
               {"threads", "count"},
               {"disk_read", "bytes"},
               {"disk_written", "bytes"},
               {"voluntary_switches", "count"},
               {"involuntary_switches", "count"}};

bool an_system_owns(const struct an_track *k)
{
    if (k->process == AN_NONE)
        return true; /* counters of programs belong to a process */
    for (size_t i = 0; i < sizeof sampled / sizeof *sampled; i++)
        if (!strcmp(k->name, sampled[i].name) && !strcmp(k->unit, sampled[i].unit))
            return true;
    return false;
}

bool an_system_track(const struct an_track *k, const char *name, bool machine)
{
    return !strcmp(k->kind, "counter") && k->counter_count && (k->process == AN_NONE) == machine &&
           !strcmp(k->name, name) && an_system_owns(k);
}

static double last_value(const struct an_trace *t, const struct an_track *k)
{
    return t->counter.value[k->counter_first + k->counter_count - 1];
}

/* Sum of the last values over processes. */
static struct an_value total(const struct an_trace *t, const char *name, const char *reason)
{
    double sum = 0;
    bool any = false;
    for (size_t k = 0; k < t->track_count; k++)
        if (an_system_track(&t->track[k], name, false) && isfinite(last_value(t, &t->track[k]))) {
            sum += last_value(t, &t->track[k]);
            any = true;
        }
    return any ? an_num(sum) : an_num_none(reason);
}

/* Samples miss what came after the last of them; the kernel's account of the ended target misses
 * descendants that nobody waited for. Neither can be too large. */
static struct an_value at_least(struct an_value seen, double ended)
{
    return isfinite(ended) && ended >= 0 && (!seen.valid || ended > seen.value) ? an_num(ended)
                                                                                : seen;
}

static struct an_value machine_last(const struct an_trace *t, const char *name, const char *reason)
{
    for (size_t k = 0; k < t->track_count; k++)
        if (an_system_track(&t->track[k], name, true) && isfinite(last_value(t, &t->track[k])))
            return an_num(last_value(t, &t->track[k]));
    return an_num_none(reason);
}

static struct an_value machine_mean(const struct an_trace *t, const char *name, const char *reason)
{
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        double sum = 0;
        if (!an_system_track(track, name, true))
            continue;
        for (size_t i = 0; i < track->counter_count; i++)
            sum += t->counter.value[track->counter_first + i];
        return isfinite(sum) ? an_num(sum / (double)track->counter_count)
                             : an_num_none("a sample is not finite");
    }
    return an_num_none(reason);
}

/* ---- rates between two times ------------------------------------------------------------------------------------------------ */

/* Value of a counter at a time: on the line between its samples, before the first one from 0 at the
 * start of its process. */
static double value_at(const struct an_trace *t, const struct an_track *k, int64_t time)
{
    size_t first = k->counter_first, last = first + k->counter_count - 1;
    int64_t start = k->process != AN_NONE ? t->process[k->process].start : STORE_ABSENT;
    size_t i = an_times_seek(t->counter.time, first, last + 1, time);
    if (i > last)
        return t->counter.value[last];
    int64_t t0 = i > first ? t->counter.time[i - 1] : start;
    double v0 = i > first ? t->counter.value[i - 1] : 0, v1 = t->counter.value[i];
    if (t0 == STORE_ABSENT || t0 >= t->counter.time[i])
        return v1;
    if (time <= t0)
        return v0;
    return v0 +
           (v1 - v0) * (double)an_time_sub(time, t0) / (double)an_time_sub(t->counter.time[i], t0);
}

struct an_value an_system_rate(const struct an_context *c, const char *name, const char *other,
                               int64_t from, int64_t to)
{
    const struct an_trace *t = c->t;
    double sum = 0;
    bool any = false;
    if (to <= from || an_time_sub(to, from) < WINDOW_LEAST)
        return an_num_none("the counted steps are too short to sample /proc in them");
    for (size_t i = 0; i < t->track_count; i++) {
        const struct an_track *k = &t->track[i];
        if (strcmp(k->kind, "counter") || !k->counter_count || !an_system_owns(k) ||
            (k->process != AN_NONE ? strcmp(k->name, name) : !other || strcmp(k->name, other)))
            continue;
        any = any || (k->counter_count > 1 &&
                      t->counter.time[k->counter_first + k->counter_count - 1] > from);
        sum += value_at(t, k, to) - value_at(t, k, from);
    }
    if (!any || !isfinite(sum))
        return an_num_none("/proc was not sampled during the counted steps");
    return an_num(sum / (double)an_time_sub(to, from) * 1e9);
}

struct an_value an_system_busy(const struct an_context *c, int64_t from, int64_t to)
{
    const struct an_trace *t = c->t;
    double sum = 0, time = 0;
    for (size_t k = 0; k < t->track_count; k++)
        for (size_t i = t->track[k].counter_first;
             an_system_track(&t->track[k], "cpu_busy", true) &&
             i < t->track[k].counter_first + t->track[k].counter_count;
             i++) /* a sample is the mean since the one before */
            if (t->counter.time[i] >= from && (t->counter.time[i] <= to || time <= 0)) {
                sum += t->counter.value[i];
                time += 1;
            }
    return time > 0 && isfinite(sum)
               ? an_num(sum / time)
               : an_num_none("the machine was not sampled during the counted steps");
}

/* ---- the whole run ---------------------------------------------------------------------------------------------------------- */

/* From the start of the first process to the last sample of CPU time. A start that does not fit the
 * first sample (more CPU time than the cores can give since then) is that of the recording, not of
 * the process: then the first sample is the start. */
static struct an_value cpu_cores(struct an_context *c)
{
    const struct an_trace *t = c->t;
    double ns = 0, most = c->r->run.cores.valid && c->r->run.cores.value > 0
                              ? (double)c->r->run.cores.value
                              : 1024;
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        if (!an_system_track(track, "cpu_time", false))
            continue;
        int64_t first = t->counter.time[track->counter_first];
        int64_t last = t->counter.time[track->counter_first + track->counter_count - 1];
        int64_t start = t->process[track->process].start;
        double before = t->counter.value[track->counter_first];
        ns += last_value(t, track);
        if (start == STORE_ABSENT || start > first ||
            before > most * (double)an_time_sub(first, start)) {
            ns -= before;
            start = first;
        }
        from = start < from ? start : from;
        to = last > to ? last : to;
    }
    struct an_value other = machine_last(t, "other_cpu_time", "");
    int64_t window = to > from ? an_time_sub(to, from) : 0;
    if (window < CPU_WINDOW_LEAST)
        return an_num_none(window ? an_arena_format(c->a, "CPU time was sampled over %s only",
                                                    an_time_words(c->a, (double)window / 1e6, 3))
                                  : "CPU time was sampled once at most");
    double cores = (ns + (other.valid ? other.value : 0)) / (double)window;
    return isfinite(cores) ? an_num(cores) : an_num_none("a sample is not finite");
}

/* ---- resident set: the largest sum over processes ------------------------------------------------------------------------ */

struct change {
    int64_t time;
    double delta;
};

static int change_order(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (a->delta > b->delta) -
           (a->delta < b->delta); /* what shrinks first: no peak that never was */
}

static int rss_peak(struct an_context *c, struct an_value *out)
{
    const struct an_trace *t = c->t;
    size_t n = 0, room = 0;
    for (size_t k = 0; k < t->track_count; k++)
        if (an_system_track(&t->track[k], "rss", false) ||
            an_system_track(&t->track[k], "other_rss", true))
            room += t->track[k].counter_count + 1;
    if (!room) {
        *out = an_num_none("memory was not sampled");
        return 0;
    }
    struct change *all = malloc(room * sizeof *all);
    if (!all)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        double now = 0;
        if (!an_system_track(track, "rss", false) && !an_system_track(track, "other_rss", true))
            continue;
        for (size_t i = track->counter_first; i < track->counter_first + track->counter_count;
             i++) {
            all[n++] = (struct change){t->counter.time[i], t->counter.value[i] - now};
            now = t->counter.value[i];
        }
        int64_t end = track->process != AN_NONE ? t->process[track->process].end : STORE_ABSENT;
        if (end != STORE_ABSENT)
            all[n++] = (struct change){end, -now};
    }
    qsort(all, n, sizeof *all, change_order);
    double sum = 0, peak = 0;
    for (size_t i = 0; i < n; i++) {
        sum += all[i].delta;
        peak = sum > peak ? sum : peak;
    }
    free(all);
    *out = isfinite(peak) ? an_num(peak) : an_num_none("a sample is not finite");
    return 0;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

int an_system_gaps(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_gap *rows = an_arena_zero(c->a, t->key_count, sizeof *rows);
    size_t n = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->key_count; i++)
        if (!strncmp(t->key[i].key, COUNTER_KEY, strlen(COUNTER_KEY)) &&
            strcmp(t->key[i].value, "ok"))
            rows[n++] = (struct an_gap){an_arena_text(c->a, t->key[i].key + strlen(COUNTER_KEY)),
                                        an_arena_text(c->a, t->key[i].value)};
    c->r->trust.gaps = rows;
    c->r->trust.gap_count = n;
    return 0;
}

static void system_absent(struct an_context *c, const char *reason)
{
    struct an_system *s = &c->r->system;
    struct an_value *all[] = {&s->cpu_cores,
                              &s->machine_busy_pct,
                              &s->rss_peak_bytes,
                              &s->read_bytes,
                              &s->write_bytes,
                              &s->minor_faults,
                              &s->major_faults,
                              &s->voluntary_switches,
                              &s->involuntary_switches,
                              &s->instructions_per_cycle};
    s->reason = reason;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(reason);
}

static int system_run(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_system *s = &c->r->system;
    bool any = false;
    for (size_t k = 0; k < t->track_count && !any; k++)
        any = !strcmp(t->track[k].kind, "counter") && t->track[k].counter_count &&
              an_system_owns(&t->track[k]);
    if (!any) {
        system_absent(c,
                      "the system layer was not sampled (--sample-ms 0, or the run was too short)");
        return 0;
    }
    s->cpu_cores = cpu_cores(c);
    s->machine_busy_pct = machine_mean(t, "cpu_busy", "the machine was not sampled");
    s->read_bytes = total(t, "disk_read", "reads were not sampled");
    s->write_bytes = total(t, "disk_written", "writes were not sampled");
    s->minor_faults =
        at_least(total(t, "minor_faults", "faults were not sampled"), t->ended.minor_faults);
    s->major_faults =
        at_least(total(t, "major_faults", "faults were not sampled"), t->ended.major_faults);
    s->voluntary_switches = at_least(total(t, "voluntary_switches", "switches were not sampled"),
                                     t->ended.voluntary_switches);
    s->involuntary_switches =
        at_least(total(t, "involuntary_switches", "switches were not sampled"),
                 t->ended.involuntary_switches);
    struct an_value instructions = machine_last(t, "instructions", ""),
                    cycles = machine_last(t, "cycles", "");
    s->instructions_per_cycle =
        instructions.valid && cycles.valid && cycles.value > 0
            ? an_num(instructions.value / cycles.value)
            : an_num_none("instructions and cycles were not counted (see trust)");
    int rc = rss_peak(c, &s->rss_peak_bytes);
    s->rss_peak_bytes = at_least(s->rss_peak_bytes, t->ended.max_rss);
    return rc;
}

const struct an_analyzer an_system = {"system",
                                      "CPU, memory, storage, faults, switches of the target",
                                      AN_INPUT_COUNTERS, system_run, system_absent};
