/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program says it holds: counters memory.TAG in bytes (parameters, gradients, optimizer,
 * activations, workspace, loader ...), memory.total and memory.peak of each process; in traces of
 * PyTorch the totals of its allocator. Beside them stand the resident set and the machine's memory,
 * so that what is not counted and what is left can be told.
 *
 * Growth is told as a fact: the mean change of a process's total from one counted step to the next,
 * with the interval of that mean. One jump in n steps has mean J / n and an interval of about 2 J /
 * n around it: it takes four changes at least to be growth.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/system.h"

#define PREFIX      "memory."
#define STEPS_LEAST 10      /* for a growth to be told */
#define GROWN_LEAST 1048576 /* bytes that were added over the steps, to be worth a word */
#define GROWN_SHARE 0.01    /* and of what was there */
#define BYTES_MOST  9e18    /* larger values of a counter are damage */
#define WHAT_TO_EMIT \
    "the program counts no memory; emit the counters memory.total, memory.peak and memory.TAG " \
    "(parameters, gradients, " \
    "optimizer, activations, workspace, loader) in bytes: tacho_nvtx_counter in " \
    "include/tacho_nvtx.h"

static void memory_absent(struct an_context *c, const char *reason)
{
    struct an_memory *m = &c->r->memory;
    struct an_value none = an_num_none(reason);
    *m = (struct an_memory){.reason = reason};
    m->total_bytes = m->peak_bytes = m->rank_peak_bytes = m->rank = m->batch_bytes =
        an_int_none(reason);
    m->resident_peak_bytes = m->uncounted_bytes = m->capacity_bytes = m->room_bytes =
        an_int_none(reason);
    m->growth = m->resident_growth =
        (struct an_growth){.bytes_per_step = none, .low = none, .high = none};
}

/* ---- counters --------------------------------------------------------------------------------------------------------------- */

/* Name of what a track counts ("activations"), NULL: it is no counter of memory. */
static const char *tag_of(const struct an_track *k)
{
    bool mine = !strcmp(k->kind, "counter") && k->counter_count && k->process != AN_NONE &&
                !strncmp(k->name, PREFIX, strlen(PREFIX)) && k->name[strlen(PREFIX)];
    return mine ? k->name + strlen(PREFIX) : NULL;
}

static bool is_bytes(double v)
{
    return isfinite(v) && v >= 0 && v <= BYTES_MOST;
}

/* Last and largest usable value of a track; false: it has none. */
static bool values_of(const struct an_trace *t, const struct an_track *k, int64_t *last,
                      int64_t *most)
{
    bool any = false;
    for (size_t i = k->counter_first; i < k->counter_first + k->counter_count; i++) {
        if (!is_bytes(t->counter.value[i]))
            continue;
        *last = (int64_t)t->counter.value[i];
        *most = any && *most > *last ? *most : *last;
        any = true;
    }
    return any;
}

static const struct an_track *track_of(const struct an_trace *t, uint32_t process, const char *name,
                                       const char *device)
{
    for (size_t k = 0; k < t->track_count; k++)
        if (t->track[k].process == process && !strcmp(t->track[k].kind, "counter") &&
            t->track[k].counter_count && !strcmp(t->track[k].name, name) &&
            (!device || !strcmp(t->track[k].device, device)))
            return &t->track[k];
    return NULL;
}

static struct an_count rank_of(const struct an_trace *t, uint32_t process)
{
    return t->process[process].rank != STORE_ABSENT ? an_int(t->process[process].rank)
                                                    : an_int_none("the process has no rank");
}

/* ---- tags ------------------------------------------------------------------------------------------------------------------- */

static int tag_order(const void *x, const void *y)
{
    const struct an_memory_tag *a = x, *b = y;
    if (a->peak != b->peak)
        return a->peak > b->peak ? -1 : 1;
    int by_name = strcmp(a->name, b->name);
    return by_name ? by_name : strcmp(a->device, b->device);
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

static int gather_tags(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_memory *m = &c->r->memory;
    struct an_memory_tag *tag = an_arena_zero(c->a, t->track_count + 1, sizeof *tag);
    size_t n = 0;
    if (!tag)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        const char *name = tag_of(track), *device = *track->device ? track->device : "cpu";
        int64_t last = 0, most = 0;
        if (!name || is_total(name) || !values_of(t, track, &last, &most))
            continue;
        size_t i = 0;
        while (i < n && (strcmp(tag[i].name, name) || strcmp(tag[i].device, device)))
            i++;
        if (i == n)
            tag[n++] = (struct an_memory_tag){.name = an_arena_text(c->a, name),
                                              .device = an_arena_text(c->a, device),
                                              .rank_peak = -1};
        tag[i].current = an_time_add(tag[i].current, last);
        tag[i].peak = an_time_add(tag[i].peak, most);
        if (most > tag[i].rank_peak) {
            tag[i].rank_peak = most;
            tag[i].rank = rank_of(t, track->process);
        }
    }
    qsort(tag, n, sizeof *tag, tag_order);
    m->tags = tag;
    m->tag_count = n;
    return 0;
}

static void share_tags(struct an_context *c)
{
    struct an_memory *m = &c->r->memory;
    struct an_memory_tag *tag = (struct an_memory_tag *)(uintptr_t)m->tags;
    for (size_t i = 0; i < m->tag_count; i++)
        tag[i].share_pct = is_allocator(tag[i].name)
                               ? an_num_none("a total of the allocator, no part of one")
                           : m->total_bytes.valid && m->total_bytes.value > 0
                               ? an_num(100 * (double)tag[i].current / (double)m->total_bytes.value)
                               : an_num_none("nothing is held");
}

/* ---- totals of the processes ------------------------------------------------------------------------------------------------ */

/* The counter that follows all that a process holds; of an allocator on devices theirs before the
 * host's. */
static const struct an_track *total_track(const struct an_trace *t, uint32_t process)
{
    const struct an_track *own = track_of(t, process, PREFIX "total", NULL), *host = NULL;
    if (own)
        return own;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *x = &t->track[k];
        const char *tag = x->process == process ? tag_of(x) : NULL;
        if (!tag || strcmp(tag, "allocated"))
            continue;
        if (!strncmp(x->device, "gpu:", 4))
            return x;
        host = host ? host : x;
    }
    return host;
}

static int64_t last_of(const struct an_trace *t, uint32_t process, const char *name)
{
    const struct an_track *k = track_of(t, process, name, NULL);
    int64_t last = 0, most;
    return k && values_of(t, k, &last, &most) ? last : 0;
}

/* Sum of the tags of a process that has no total of its own. */
static int64_t sum_of_tags(const struct an_trace *t, uint32_t process, bool peak)
{
    int64_t sum = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        const char *tag = t->track[k].process == process ? tag_of(&t->track[k]) : NULL;
        int64_t last = 0, most = 0;
        if (tag && !is_total(tag) && values_of(t, &t->track[k], &last, &most))
            sum = an_time_add(sum, peak ? most : last);
    }
    return sum;
}

static bool counts_memory(const struct an_trace *t, uint32_t process)
{
    for (size_t k = 0; k < t->track_count; k++)
        if (t->track[k].process == process && tag_of(&t->track[k]))
            return true;
    return false;
}

static void gather_totals(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_memory *m = &c->r->memory;
    int64_t total = 0, peak = 0, largest = -1, batch = 0;
    for (uint32_t p = 0; p < t->process_count; p++) {
        if (!counts_memory(t, p))
            continue;
        const struct an_track *k = total_track(t, p), *own = track_of(t, p, PREFIX "peak", NULL);
        int64_t last = 0, most = 0, told = 0, told_most = 0;
        if (!k || !values_of(t, k, &last, &most)) {
            last = sum_of_tags(t, p, false);
            most = sum_of_tags(t, p, true);
        }
        if (own && values_of(t, own, &told, &told_most) && told_most > most)
            most = told_most; /* what was held inside a step too */
        m->processes++;
        total = an_time_add(total, last);
        peak = an_time_add(peak, most);
        batch = an_time_add(batch, an_time_add(last_of(t, p, PREFIX "activations"),
                                               last_of(t, p, PREFIX "workspace")));
        if (most > largest) {
            largest = most;
            m->rank = rank_of(t, p);
        }
    }
    m->total_bytes = an_int(total);
    m->peak_bytes = an_int(peak);
    m->rank_peak_bytes = an_int(largest);
    m->batch_bytes =
        batch > 0 ? an_int(batch) : an_int_none("the program does not count memory.activations");
}

/* ---- beside the machine ----------------------------------------------------------------------------------------------------- */

static struct an_count bytes_of_key(const struct an_trace *t, const char *key)
{
    const char *v = an_trace_key(t, key);
    char *end = NULL;
    long long n = v ? strtoll(v, &end, 10) : 0;
    return v && end != v && !*end && n > 0 ? an_int(n) : an_int_none("not recorded");
}

static bool one_machine(const struct an_trace *t)
{
    for (size_t p = 1; p < t->process_count; p++)
        if (strcmp(t->process[p].host, t->process[0].host))
            return false;
    return true;
}

static struct an_count capacity_of(struct an_context *c)
{
    const struct an_trace *t = c->t;
    if (c->gpu) {
        int64_t sum = 0;
        for (size_t d = 0; d < c->gpu->device_count; d++) {
            char key[96];
            const struct an_device *x = &c->gpu->device[d];
            if (x->process >= t->process_count)
                continue;
            snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".memory_bytes",
                     t->process[x->process].id, x->ordinal);
            struct an_count bytes = bytes_of_key(t, key);
            if (!bytes.valid)
                return an_int_none("the trace does not say how much memory its devices have");
            sum = an_time_add(sum, bytes.value);
        }
        return an_int(sum);
    }
    if (!one_machine(t))
        return an_int_none("the processes ran on several machines");
    struct an_count machine = bytes_of_key(t, "memory.bytes"),
                    limit = bytes_of_key(t, "memory.limit_bytes");
    if (!machine.valid)
        return an_int_none("the file does not say how much memory the machine has");
    return limit.valid && limit.value < machine.value ? limit : machine;
}

static void compare(struct an_context *c)
{
    struct an_memory *m = &c->r->memory;
    const struct an_value *rss = &c->r->system.rss_peak_bytes;
    m->resident_peak_bytes = rss->valid && is_bytes(rss->value) ? an_int((int64_t)rss->value)
                             : rss->valid ? an_int_none("a sample is not finite")
                                          : an_int_none(rss->reason);
    if (c->gpu)
        m->uncounted_bytes =
            an_int_none("the counters are those of devices, the resident set is the host's");
    else if (!m->resident_peak_bytes.valid)
        m->uncounted_bytes = an_int_none(m->resident_peak_bytes.reason);
    else if (!m->peak_bytes.valid)
        m->uncounted_bytes = an_int_none(m->peak_bytes.reason);
    else if (m->resident_peak_bytes.value < m->peak_bytes.value)
        m->uncounted_bytes = an_int_none("less was resident than is counted: some of it was never "
                                         "touched, or not sampled at its "
                                         "peak");
    else
        m->uncounted_bytes = an_int(m->resident_peak_bytes.value - m->peak_bytes.value);
    m->capacity_bytes = capacity_of(c);
    int64_t need = m->peak_bytes.value;
    if (!c->gpu && m->resident_peak_bytes.valid && m->resident_peak_bytes.value > need)
        need = m->resident_peak_bytes.value;
    m->room_bytes =
        m->capacity_bytes.valid
            ? an_int(m->capacity_bytes.value > need ? m->capacity_bytes.value - need : 0)
            : an_int_none(m->capacity_bytes.reason);
}

/* ---- growth ----------------------------------------------------------------------------------------------------------------- */

/* Value of a track at `time`: of its last sample before; NAN before the first. */
static double value_at(const struct an_trace *t, const struct an_track *k, int64_t time)
{
    size_t first = k->counter_first,
           i = an_times_seek(t->counter.time, first, first + k->counter_count,
                             an_time_add(time, 1));
    return i > first && is_bytes(t->counter.value[i - 1]) ? t->counter.value[i - 1] : NAN;
}

static struct an_growth no_growth(const char *reason)
{
    struct an_value none = an_num_none(reason);
    return (struct an_growth){.bytes_per_step = none, .low = none, .high = none};
}

/* Growth of a track at the ends of the counted steps of a lane. x: room for the steps. */
static struct an_growth growth_of(const struct an_context *c, const struct an_lane *l,
                                  const struct an_track *k, double *x)
{
    struct an_growth g = no_growth("fewer than 10 counted steps with a value");
    double before = NAN, from = NAN, to = NAN;
    size_t n = 0;
    for (size_t i = l->first; i < l->first + l->count; i++) {
        const struct an_step *s = &c->step[i];
        double v = an_step_counted(s) && s->end != STORE_ABSENT ? value_at(c->t, k, s->end) : NAN;
        if (!isfinite(v))
            continue;
        if (isfinite(before))
            x[n++] = v - before;
        else
            g.first_step = s->index;
        from = isfinite(before) ? from : v;
        g.last_step = s->index;
        to = before = v;
    }
    if (n + 1 < STEPS_LEAST)
        return no_growth("fewer than 10 counted steps with a value");
    double mean = an_mean(x, n), half = 1.96 * an_sd(x, n) / sqrt((double)n);
    g.bytes_per_step = an_num(mean);
    g.low = an_num(mean - half);
    g.high = an_num(mean + half);
    g.grows = mean - half > 0 && to - from >= GROWN_LEAST && to - from >= GROWN_SHARE * from;
    return g;
}

static void keep_faster(struct an_growth *most, struct an_growth g)
{
    bool faster = g.bytes_per_step.valid && (!most->bytes_per_step.valid ||
                                             g.bytes_per_step.value > most->bytes_per_step.value);
    bool neither = !g.bytes_per_step.valid &&
                   !most->bytes_per_step.valid; /* the reason of one that has a counter */
    if (neither || (g.grows && !most->grows) || (faster && g.grows == most->grows))
        *most = g;
}

static int gather_growth(struct an_context *c)
{
    struct an_memory *m = &c->r->memory;
    double *x = malloc((c->step_count + 1) * sizeof *x);
    if (!x)
        return TACHO_ENOMEM;
    m->growth = m->resident_growth = no_growth(
        c->lane_count ? "no counter of the processes that run steps" : "no steps were found");
    for (size_t i = 0; i < c->lane_count; i++) {
        const struct an_lane *l = &c->lane[i];
        const struct an_track *total = l->process == AN_NONE ? NULL : total_track(c->t, l->process);
        const struct an_track *rss =
            l->process == AN_NONE ? NULL : track_of(c->t, l->process, "rss", NULL);
        if (total)
            keep_faster(&m->growth, growth_of(c, l, total, x));
        if (rss && an_system_owns(rss))
            keep_faster(&m->resident_growth, growth_of(c, l, rss, x));
    }
    free(x);
    return 0;
}

/* ---- the analyzer ----------------------------------------------------------------------------------------------------------- */

static int memory_run(struct an_context *c)
{
    struct an_memory *m = &c->r->memory;
    const char *source = an_trace_key(c->t, "source");
    bool any = false, allocator = false;
    for (size_t k = 0; k < c->t->track_count; k++) {
        const char *tag = tag_of(&c->t->track[k]);
        any = any || tag;
        allocator = allocator || (tag && is_allocator(tag));
    }
    memory_absent(
        c, source && !strcmp(source, "kineto")
               ? "no memory events in the trace; record with torch.profiler, profile_memory=True"
               : WHAT_TO_EMIT);
    if (!any) {
        compare(c);
        return 0;
    }
    m->reason = NULL;
    m->source = allocator ? "torch allocator" : "memory.* counters";
    if (gather_tags(c))
        return TACHO_ENOMEM;
    gather_totals(c);
    share_tags(c);
    compare(c);
    return gather_growth(c);
}

/* Without any counter nothing is counted: the reason says what to emit. */
static void memory_missing(struct an_context *c, const char *reason)
{
    (void)reason;
    memory_run(c);
}

const struct an_analyzer an_memory = {"memory",
                                      "what the program holds by tag, its peak, room and growth",
                                      AN_INPUT_COUNTERS, memory_run, memory_missing};
