/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader: how long steps wait for their batch, what its stages cost, who runs them, how full the queue is.
 * A stage's time is its own: decode inside read counts as decode. A batch is one collate range, or, without those, one wait.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/analyzer.h"

static const struct {
    enum an_role role;
    const char *name;
} stages[] = {
    {AN_ROLE_READ, "read"}, {AN_ROLE_DECODE, "decode"}, {AN_ROLE_COLLATE, "collate"}, {AN_ROLE_QUEUE_WAIT, "queue_wait"}};
#define STAGES (sizeof stages / sizeof *stages)

struct sums {
    int64_t count[AN_ROLE_COUNT];
    double ns[AN_ROLE_COUNT]; /* own time: without the loader stages nested in them */
    int64_t workers;          /* threads with stages that run no steps */
};

static bool is_stage(enum an_role r)
{
    return r == AN_ROLE_READ || r == AN_ROLE_DECODE || r == AN_ROLE_COLLATE || r == AN_ROLE_QUEUE_WAIT;
}

static bool runs_steps(const struct an_context *c, uint32_t track)
{
    for (size_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].track == track)
            return true;
    return false;
}

static void sum_slices(const struct an_context *c, struct sums *s)
{
    const struct an_trace *t = c->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        bool works = false;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            enum an_role role = an_trace_role(t, t->slice.detail[i]);
            if (!is_stage(role) && role != AN_ROLE_INPUT_WAIT)
                continue;
            s->count[role]++;
            works = works || is_stage(role);
            if (t->slice.dur[i] == AN_OPEN)
                continue;
            s->ns[role] += (double)t->slice.dur[i];
            uint32_t p = t->slice.parent[i];
            if (p != AN_NONE && is_stage(role) && is_stage(an_trace_role(t, t->slice.detail[p])))
                s->ns[an_trace_role(t, t->slice.detail[p])] -= (double)t->slice.dur[i];
        }
        s->workers += works && !runs_steps(c, k);
    }
}

/* The aggregates know the stages of steps whose slices a limit left out. They replace the slices where they know more calls. */
static void sum_aggregates(const struct an_context *c, struct sums *s)
{
    const struct an_trace *t = c->t;
    struct sums all = {.workers = 0};
    for (size_t i = 0; i < t->aggregate.count; i++) {
        enum an_role role = an_trace_role(t, t->aggregate.detail[i]);
        if (!is_stage(role) && role != AN_ROLE_INPUT_WAIT)
            continue;
        all.count[role] = an_time_add(all.count[role], t->aggregate.calls[i]);
        all.ns[role] += (double)(role == AN_ROLE_INPUT_WAIT ? t->aggregate.total[i] : t->aggregate.self[i]);
    }
    for (int r = 0; r < AN_ROLE_COUNT; r++)
        if (all.count[r] > s->count[r]) {
            s->count[r] = all.count[r];
            s->ns[r] = all.ns[r];
        }
}

/* Mean over time of a counter named queue_depth: each value holds until the next one of its track. */
static struct an_value queue_depth(const struct an_context *c)
{
    const struct an_trace *t = c->t;
    double area = 0, time = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        if (!strstr(track->name, "queue_depth") || track->counter_count < 2)
            continue;
        for (size_t i = track->counter_first; i + 1 < track->counter_first + track->counter_count; i++) {
            double ns = (double)an_time_sub(t->counter.time[i + 1], t->counter.time[i]);
            if (t->counter.value[i] != t->counter.value[i]) /* NAN: absent */
                continue;
            area += t->counter.value[i] * ns;
            time += ns;
        }
    }
    return time > 0 ? an_num(area / time) : an_num_none("the program counts no queue_depth");
}

static struct an_value wait_per_step(const struct an_context *c)
{
    const struct an_budget *b = &c->r->budget;
    if (!b->ns[AN_CLASS_INPUT].valid)
        return an_num_none(b->ns[AN_CLASS_INPUT].reason);
    return an_num((double)b->ns[AN_CLASS_INPUT].value / (double)b->steps / 1e6);
}

static void loader_absent(struct an_context *c, const char *reason)
{
    struct an_loader *r = &c->r->loader;
    r->reason = reason;
    r->wait_ms_per_step = r->queue_depth_mean = an_num_none(reason);
    r->workers = r->workers_needed = an_int_none(reason);
}

static int loader_run(struct an_context *c)
{
    struct an_loader *r = &c->r->loader;
    struct sums s = {.workers = 0};
    sum_slices(c, &s);
    sum_aggregates(c, &s);
    bool any = s.count[AN_ROLE_INPUT_WAIT] > 0;
    for (size_t i = 0; i < STAGES; i++)
        any = any || s.count[stages[i].role];
    if (!any) {
        loader_absent(c, "the program marks no loader ranges (tacho.range input_wait, read, decode, collate)");
        return 0;
    }
    struct an_stage *rows = an_arena_zero(c->a, STAGES, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    r->batches = s.count[AN_ROLE_COLLATE] ? s.count[AN_ROLE_COLLATE] : s.count[AN_ROLE_INPUT_WAIT];
    for (size_t i = 0; i < STAGES; i++) {
        double ns = s.ns[stages[i].role];
        if (!s.count[stages[i].role])
            continue;
        rows[r->stage_count++] =
            (struct an_stage){.name = stages[i].name,
                              .count = s.count[stages[i].role],
                              .ms_per_batch = r->batches ? an_num((ns > 0 ? ns : 0) / (double)r->batches / 1e6)
                                                         : an_num_none("no batch was completed")};
    }
    r->stages = rows;
    r->wait_ms_per_step = wait_per_step(c);
    r->queue_depth_mean = queue_depth(c);
    r->workers = r->stage_count ? an_int(s.workers) : an_int_none("the program marks no loader stages (read, decode, collate)");
    r->workers_needed = an_int_none("needs the loader analysis, which is not in this version");
    return 0;
}

const struct an_analyzer an_loader = {"loader", "waits for batches, cost of the stages, workers, queue depth", AN_INPUT_SLICES,
                                      loader_run, loader_absent};
