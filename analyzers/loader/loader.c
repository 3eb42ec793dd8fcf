/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader, by the ranges that a program marks (tacho.range input_wait, read, decode,
 * collate, pin, queue_wait): sums of each rank over the steps the budget stands on. A stage's time
 * is its own: decode inside read counts as decode. A batch is one collate range, or, without those,
 * one wait. Stages inside evaluations and checkpoints are not looked at.
 *
 * A worker is a thread with stages that runs no steps, of the rank's own process or of one that it
 * started (a worker process).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/loader/loader.h"

static const struct {
    enum an_role role;
    const char *name;
} stages[] = {{AN_ROLE_READ, "read"},
              {AN_ROLE_DECODE, "decode"},
              {AN_ROLE_COLLATE, "collate"},
              {AN_ROLE_PIN, "pin"},
              {AN_ROLE_QUEUE_WAIT, "queue_wait"}};
#define STAGES (sizeof stages / sizeof *stages)

static bool is_stage(enum an_role r)
{
    return r == AN_ROLE_READ || r == AN_ROLE_DECODE || r == AN_ROLE_COLLATE || r == AN_ROLE_PIN ||
           r == AN_ROLE_QUEUE_WAIT;
}

/* Stages that make a batch: who runs them is a worker, whatever else waits or copies. */
static bool makes_batches(enum an_role r)
{
    return r == AN_ROLE_READ || r == AN_ROLE_DECODE || r == AN_ROLE_COLLATE;
}

/* Group of a process; the groups are the lanes. Without steps all are one. */
static size_t group_of(const struct an_context *c, size_t n, uint32_t process)
{
    uint32_t k = c->lane_count ? an_lane_of_process(c, process) : 0;
    return k == AN_NONE ? n : k;
}

/* ---- sums --------------------------------------------------------------------------------------------------------------- */

static int set_time(struct an_context *c, struct an_loader_sums *s)
{
    const struct an_lane *l = s->lane;
    s->time.span = an_arena_zero(c->work, l->count + 1, sizeof *s->time.span);
    if (!s->time.span)
        return TACHO_ENOMEM;
    for (size_t i = l->first; i < l->first + l->count; i++)
        if (an_step_detailed(&c->step[i]) && c->step[i].host_end != STORE_ABSENT)
            s->time.span[s->time.count++] =
                (struct an_span){c->step[i].host_start, c->step[i].host_end};
    s->time.count = an_spans_normalize(s->time.span, s->time.count);
    s->time_ns = an_spans_measure(s->time.span, s->time.count);
    return 0;
}

static int make_groups(struct an_context *c, struct an_loader_sums **out, size_t *n)
{
    *n = c->lane_count ? c->lane_count : 1;
    if (!(*out = an_arena_zero(c->work, *n, sizeof **out)))
        return TACHO_ENOMEM;
    for (size_t k = 0; k < c->lane_count; k++) {
        (*out)[k].lane = &c->lane[k];
        (*out)[k].budget = k < c->r->device_count ? &c->r->devices[k].budget : NULL;
        if (set_time(c, &(*out)[k]))
            return TACHO_ENOMEM;
    }
    return 0;
}

static bool is_inside(const struct an_set *s, int64_t time)
{
    size_t i = an_spans_seek(s->span, s->count, time);
    return !s->count || (i < s->count && s->span[i].start <= time);
}

/* What one thread did for the loader of its group. */
struct share {
    bool makes;
    int64_t batches;
    double busy_ns;
    /* the batch that is being made: it counts, or does not, as a whole, by where its collate begins
     */
    bool collates;
    int64_t count[AN_ROLE_COUNT], read_bytes;
    double ns[AN_ROLE_COUNT];
};

static void close_batch(struct an_loader_sums *s, struct share *w, bool counts)
{
    for (int r = 0; r < AN_ROLE_COUNT; r++) {
        s->count[r] += counts ? w->count[r] : 0;
        s->ns[r] += counts ? w->ns[r] : 0;
        w->count[r] = 0;
        w->ns[r] = 0;
    }
    s->read_bytes = counts ? an_time_add(s->read_bytes, w->read_bytes) : s->read_bytes;
    w->read_bytes = 0;
}

static void sum_slice(const struct an_context *c, struct an_loader_sums *s, size_t i,
                      enum an_role role, struct share *w)
{
    const struct an_trace *t = c->t;
    uint32_t p = t->slice.parent[i];
    enum an_role around = p == AN_NONE ? AN_ROLE_NONE : an_trace_role(t, t->slice.detail[p]);
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
    bool inside = is_inside(&s->time, t->slice.start[i]),
         waits = role == AN_ROLE_QUEUE_WAIT || role == AN_ROLE_INPUT_WAIT;
    double ns = t->slice.dur[i] == AN_OPEN ? 0 : (double)t->slice.dur[i];
    if ((role == AN_ROLE_INPUT_WAIT && around == AN_ROLE_INPUT_WAIT) || an_slice_in_phase(t, i))
        return;
    w->makes = w->makes || (inside && makes_batches(role));
    w->count[role]++;
    w->ns[role] += ns;
    if (is_stage(role) && is_stage(around))
        w->ns[around] -= ns;
    if (role == AN_ROLE_READ && d && d->bytes != STORE_ABSENT)
        w->read_bytes = an_time_add(w->read_bytes, d->bytes);
    if (!waits && !is_stage(around) && t->slice.dur[i] != AN_OPEN)
        w->busy_ns += s->time.count ? (double)an_spans_within(s->time.span, s->time.count,
                                                              t->slice.start[i], an_slice_end(t, i))
                                    : ns;
    w->batches += inside && role == AN_ROLE_COLLATE;
    if (role == AN_ROLE_COLLATE || waits || !w->collates)
        close_batch(s, w, inside);
}

static bool is_python(const struct an_trace *t, uint32_t process)
{
    return process != AN_NONE && !strncmp(t->process[process].program, "python", 6);
}

static bool runs_steps(const struct an_context *c, uint32_t track)
{
    for (size_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].track == track)
            return true;
    return false;
}

static void add_worker(struct an_context *c, struct an_loader_sums *s, uint32_t track,
                       const struct share *w)
{
    struct an_loader *r = &c->r->loader;
    const struct an_track *k = &c->t->track[track];
    const struct an_process *p = k->process != AN_NONE ? &c->t->process[k->process] : NULL;
    struct an_loader_worker *rows = (struct an_loader_worker *)(uintptr_t)r->worker;
    bool own = s->lane && s->lane->process != k->process;
    s->workers++;
    s->processes += own;
    s->python = s->python || (!own && is_python(c->t, k->process));
    s->busy_ns += w->busy_ns;
    rows[r->worker_count++] = (struct an_loader_worker){
        .name = an_arena_text(c->a, k->name),
        .rank = s->lane ? s->lane->rank : STORE_ABSENT,
        .process = p ? p->pid : STORE_ABSENT,
        .batches = w->batches,
        .busy_pct = s->time_ns > 0 ? an_num(100 * w->busy_ns / (double)s->time_ns)
                                   : an_num_none("no counted step has all its ranges in the file")};
}

static void sum_track(struct an_context *c, struct an_loader_sums *groups, size_t n, uint32_t track)
{
    const struct an_trace *t = c->t;
    const struct an_track *k = &t->track[track];
    size_t g = n;
    struct share w = {0};
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !w.collates; i++)
        w.collates = an_trace_role(t, t->slice.detail[i]) == AN_ROLE_COLLATE;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count; i++) {
        enum an_role role = an_trace_role(t, t->slice.detail[i]);
        if (!is_stage(role) && role != AN_ROLE_INPUT_WAIT)
            continue;
        if (g == n && (g = group_of(c, n, k->process)) == n)
            return; /* of nobody's rank */
        sum_slice(c, &groups[g], i, role, &w);
    }
    if (w.makes && runs_steps(c, track))
        groups[g].in_line = true;
    else if (w.makes)
        add_worker(c, &groups[g], track, &w);
}

/* The aggregates know the stages of steps whose slices a limit left out. They stand in where there
 * are no slices at all. */
static void sum_aggregates(const struct an_context *c, struct an_loader_sums *s, size_t n)
{
    const struct an_trace *t = c->t;
    struct an_loader_sums all = {.lane = NULL};
    for (size_t i = 0; i < t->aggregate.count; i++) {
        enum an_role role = an_trace_role(t, t->aggregate.detail[i]);
        if (!is_stage(role) && role != AN_ROLE_INPUT_WAIT)
            continue;
        all.count[role] = an_time_add(all.count[role], t->aggregate.calls[i]);
        all.ns[role] +=
            (double)(role == AN_ROLE_INPUT_WAIT ? t->aggregate.total[i] : t->aggregate.self[i]);
    }
    for (int r = 0; r < AN_ROLE_COUNT && n == 1; r++)
        if (!s->count[r]) {
            s->count[r] = all.count[r];
            s->ns[r] = all.ns[r];
        }
}

/* ---- the part ----------------------------------------------------------------------------------------------------------- */

/* Mean over time of a counter named queue_depth: each value holds until the next one of its track.
 */
static struct an_value queue_depth(const struct an_context *c)
{
    const struct an_trace *t = c->t;
    double area = 0, time = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        if (!strstr(track->name, "queue_depth") || track->counter_count < 2)
            continue;
        for (size_t i = track->counter_first; i + 1 < track->counter_first + track->counter_count;
             i++) {
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

static int list_stages(struct an_context *c, const struct an_loader_sums *s, size_t n)
{
    struct an_loader *r = &c->r->loader;
    struct an_stage *rows = an_arena_zero(c->a, STAGES, sizeof *rows);
    int64_t waits = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < n; k++) {
        r->batches += s[k].count[AN_ROLE_COLLATE];
        waits += s[k].count[AN_ROLE_INPUT_WAIT];
    }
    r->batches = r->batches ? r->batches : waits;
    for (size_t i = 0; i < STAGES; i++) {
        double ns = 0;
        int64_t count = 0;
        for (size_t k = 0; k < n; k++) {
            ns += s[k].ns[stages[i].role];
            count += s[k].count[stages[i].role];
        }
        if (!count)
            continue;
        rows[r->stage_count++] = (struct an_stage){
            .name = stages[i].name,
            .count = count,
            .ms_per_batch = r->batches ? an_num((ns > 0 ? ns : 0) / (double)r->batches / 1e6)
                                       : an_num_none("no batch was completed")};
    }
    r->stages = rows;
    return 0;
}

static bool any_range(const struct an_loader_sums *s, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (s[k].count[AN_ROLE_INPUT_WAIT])
            return true;
        for (size_t i = 0; i < STAGES; i++)
            if (s[k].count[stages[i].role])
                return true;
    }
    return false;
}

static int worker_order(const void *x, const void *y)
{
    const struct an_loader_worker *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    size_t na = strlen(a->name), nb = strlen(b->name); /* loader-2 before loader-10 */
    return na != nb ? (na < nb ? -1 : 1) : strcmp(a->name, b->name);
}

void an_loader_rest_absent(struct an_loader *r, const char *reason)
{
    struct an_value *values[] = {
        &r->wait_ms_per_step, &r->inferred_wait_ms_per_step, &r->expected_wait_ms_per_step,
        &r->worker_busy_pct,  &r->queue_depth_mean,          &r->batches_per_step,
        &r->batch_ms,         &r->pipeline_samples_per_s,    &r->compute_samples_per_s,
        &r->read_bytes_per_s, &r->device_bytes_per_s,        &r->access_ratio};
    struct an_count *counts[] = {&r->workers, &r->workers_needed, &r->workers_wanted};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!values[i]->valid && !values[i]->reason)
            *values[i] = an_num_none(reason);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!counts[i]->valid && !counts[i]->reason)
            *counts[i] = an_int_none(reason);
}

static void loader_absent(struct an_context *c, const char *reason)
{
    c->r->loader.reason = reason;
    an_loader_rest_absent(&c->r->loader, reason);
}

/* A trace without ranges of tacho's own. */
static int foreign(struct an_context *c)
{
    bool any;
    int rc = an_loader_torch(c, &any);
    if (rc)
        return rc;
    if (any) {
        an_loader_rest_absent(
            &c->r->loader,
            "the trace holds the waits, and no stages of the workers (tacho run records both)");
        return 0;
    }
    loader_absent(
        c,
        c->gpu
            ? "the trace marks no loader ranges (enumerate(DataLoader)..., tacho.range input_wait)"
            : "the program marks no loader ranges (tacho.range input_wait, read, decode, collate)");
    return c->gpu ? an_loader_infer(c) : 0;
}

static int loader_run(struct an_context *c)
{
    struct an_loader *r = &c->r->loader;
    struct an_loader_sums *s;
    struct an_loader_worker *rows = an_arena_zero(c->a, c->t->track_count + 1, sizeof *rows);
    size_t n;
    int rc = rows ? make_groups(c, &s, &n) : TACHO_ENOMEM;
    if (rc)
        return rc;
    r->worker = rows;
    for (uint32_t k = 0; k < c->t->track_count; k++)
        sum_track(c, s, n, k);
    sum_aggregates(c, s, n);
    if (!any_range(s, n))
        return foreign(c);
    if (r->worker_count)
        qsort(rows, r->worker_count, sizeof *rows, worker_order);
    if ((rc = list_stages(c, s, n)))
        return rc;
    r->source = "tacho.range";
    r->inferred_wait_ms_per_step = an_num_none("the waits are marked");
    r->wait_ms_per_step = wait_per_step(c);
    r->queue_depth_mean = queue_depth(c);
    return an_loader_model(c, s, n);
}

const struct an_analyzer an_loader = {"loader",
                                      "waits for batches, cost of the stages, workers, queue depth",
                                      AN_INPUT_SLICES, loader_run, loader_absent};
