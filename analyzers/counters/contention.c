/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores that other programs took while steps ran, and how long the thread that runs them was ready
 * without one. Its ranges go on meanwhile, so that this time stands in the budget as whatever they
 * say, compute most of all: the head of every report warns.
 *
 * Both come from samples, so they are means over the time from the first counted step to the last
 * one, not of single steps. others = busy share of the machine x its CPUs - CPU time of the run's
 * processes / that time. wait = growth of the kernel's account of the thread's time on a run queue
 * (/proc/PID/schedstat) / that time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/sampled.h"
#include "analyzers/counters/system.h"

#define BUSY_LEAST \
    300000000 /* ns: the kernel counts busy CPUs in ticks, so a shorter time says nothing */
#define WAIT_LEAST 90000000 /* ns: this one it counts exactly */
#define OTHERS_LEAST \
    0.25 /* CPUs, and this share of the machine's: what a recorder and a quiet system need is \
            below it */
#define OTHERS_SHARE 0.2
#define WAIT_PCT     5.0

struct window {
    int64_t start, end;
};

/* From the first counted step to the end of the last one; of one lane, or of all (AN_NONE). */
static struct window counted(const struct an_context *c, uint32_t lane)
{
    struct window w = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        if (!an_step_counted(s) || (lane != AN_NONE && s->lane != lane))
            continue;
        w.start = s->host_start < w.start ? s->host_start : w.start;
        w.end = s->host_end > w.end ? s->host_end : w.end;
    }
    return w;
}

/* The window as far as the track has samples. False: less than `least` ns of it. */
static bool clip(const struct an_trace *t, const struct an_track *k, int64_t least,
                 struct window *w)
{
    int64_t first = t->counter.time[k->counter_first],
            last = t->counter.time[k->counter_first + k->counter_count - 1];
    w->start = first > w->start ? first : w->start;
    w->end = last < w->end ? last : w->end;
    return w->end > w->start && an_time_sub(w->end, w->start) >= least;
}

/* How much a total of a process grew in the window; one that began in it began with 0. */
static double growth(const struct an_trace *t, const struct an_track *k, struct window w)
{
    size_t first = k->counter_first, last = first + k->counter_count - 1;
    int64_t start = k->process == AN_NONE ? STORE_ABSENT : t->process[k->process].start;
    double from = start != STORE_ABSENT && start >= w.start ? 0 : t->counter.value[first],
           to = t->counter.value[last], at;
    if (an_sampled_at(t, k, w.start, &at))
        from = at;
    if (an_sampled_at(t, k, w.end, &at))
        to = at;
    return t->counter.time[first] < w.end && t->counter.time[last] > w.start ? fmax(0, to - from)
                                                                             : 0;
}

static struct an_value others(struct an_context *c, double *cpus)
{
    const struct an_trace *t = c->t;
    const struct an_track *busy = NULL;
    const char *online = an_trace_key(t, "cpu.online");
    struct window w = counted(c, AN_NONE);
    double own = 0;
    *cpus = online ? strtod(online, NULL) : 0;
    if (!(*cpus > 0))
        return an_num_none("the file does not say how many CPUs the machine has");
    for (size_t k = 0; k < t->track_count; k++)
        if (an_system_track(&t->track[k], "cpu_busy", true)) {
            if (busy)
                return an_num_none(
                    "the run is on several machines: `tacho report` of each machine's file has it");
            busy = &t->track[k];
        }
    if (!busy)
        return an_num_none("the machine was not sampled");
    if (!clip(t, busy, BUSY_LEAST, &w))
        return an_num_none(
            "less than 0.3 s of the counted steps were sampled: let the run go on for longer");
    for (size_t k = 0; k < t->track_count; k++)
        if (an_system_track(&t->track[k], "cpu_time", false) ||
            an_system_track(&t->track[k], "other_cpu_time", true))
            own += growth(t, &t->track[k], w);
    double all = an_sampled_over(t, busy, w.start, w.end).mean / 100 * *cpus;
    double cores = all - own / (double)an_time_sub(w.end, w.start);
    return isfinite(cores) ? an_num(fmax(0, cores)) : an_num_none("a sample is not finite");
}

static const struct an_track *wait_track(const struct an_trace *t, const struct an_lane *l)
{
    if (l->track == AN_NONE || l->process == AN_NONE ||
        t->track[l->track].tid != t->process[l->process].pid)
        return NULL;
    for (size_t k = 0; k < t->track_count; k++)
        if (t->track[k].process == l->process && an_system_track(&t->track[k], "cpu_wait", false))
            return &t->track[k];
    return NULL;
}

/* The mean over the lanes, each with its own thread. */
static struct an_value wait_pct(const struct an_context *c)
{
    const struct an_trace *t = c->t;
    double sum = 0;
    size_t n = 0;
    bool sampled = false;
    for (size_t i = 0; i < c->lane_count; i++) {
        const struct an_track *k = wait_track(t, &c->lane[i]);
        struct window w = counted(c, (uint32_t)i);
        sampled |= k != NULL;
        if (!k || !clip(t, k, WAIT_LEAST, &w))
            continue;
        sum += 100 * growth(t, k, w) / (double)an_time_sub(w.end, w.start);
        n++;
    }
    if (n)
        return isfinite(sum) ? an_num(fmin(100, sum / (double)n))
                             : an_num_none("a sample is not finite");
    return an_num_none(
        sampled ? "less than 0.09 s of the counted steps were sampled: let the run go on for longer"
                : "the time on a run queue was not sampled: the kernel does not account it, or the "
                  "steps' thread "
                  "is not the first of its process");
}

/* What the head of every report says about it. */
static const char *caution(struct an_context *c, double cpus)
{
    const struct an_system *s = &c->r->system;
    bool company = s->other_cores.valid && s->other_cores.value > OTHERS_LEAST &&
                   s->other_cores.value > OTHERS_SHARE * cpus;
    bool waits = s->cpu_wait_pct.valid && s->cpu_wait_pct.value >= WAIT_PCT;
    const char *wait =
        !waits
            ? ""
            : an_arena_format(c->a,
                              "%.0f %% of the steps' time their thread was ready but had no core",
                              s->cpu_wait_pct.value);
    if (company)
        return an_arena_format(c->a,
                               "SHARED MACHINE: other programs used %.1f of %.0f CPUs while these "
                               "steps ran%s%s: what that cost "
                               "stands below as compute or whatever else ran. Stop them, or give "
                               "the run cores of its own, and record again.",
                               s->other_cores.value, cpus, waits ? ", and " : "", wait);
    if (waits && !s->other_cores.valid)
        return an_arena_format(c->a,
                               "SHORT OF CORES: %s: other programs took them, or the run's own "
                               "threads are more than there are. "
                               "What that cost stands below as compute or whatever else ran.",
                               wait);
    if (waits)
        return an_arena_format(c->a,
                               "TOO FEW CORES: %s, with few other programs running: the run's own "
                               "threads are more than its "
                               "cores. What that cost stands below as compute or whatever else "
                               "ran. Use fewer threads, ranks or workers.",
                               wait);
    return NULL;
}

static void contention_absent(struct an_context *c, const char *reason)
{
    c->r->system.other_cores = c->r->system.cpu_wait_pct = an_num_none(reason);
}

static int contention_run(struct an_context *c)
{
    double cpus;
    c->r->system.other_cores = others(c, &cpus);
    c->r->system.cpu_wait_pct = wait_pct(c);
    c->r->caution = caution(c, cpus);
    return 0;
}

const struct an_analyzer an_contention = {
    "contention", "cores that other programs took while steps ran",
    AN_INPUT_COUNTERS | AN_INPUT_STEPS, contention_run, contention_absent};
