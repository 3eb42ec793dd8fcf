/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the steps of a device go: every instant to the first class that matches. While the device
 * works: compute, exposed communication, exposed copy. While it is idle: input, if the step's
 * thread waits for the loader; io, if it does what a phase left to it; host, if a row covers the
 * instant on a thread that drives the device; else unattributed. Opaque time is unattributed too:
 * the device worked, nobody knows at what. So is time in which the next op has been issued and the
 * host waits for the device: the host does not hold it up, and what does is not in the trace (work
 * from before the recording began, nodes of graphs). The ranges that mark the steps themselves tell
 * nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/budget/budget.h"
#include "analyzers/device/device_edges.h"

#define HELD_LEAST \
    100000 /* ns: an op that is issued starts within this time (critical_path_walk.c) */

struct span_list {
    struct an_span *span;
    size_t count, room;
};

/* Adds a span; they come by start, so that what is inside the last one is nothing new. */
static int cover(struct span_list *l, int64_t start, int64_t end)
{
    if (end <= start ||
        (l->count && end <= l->span[l->count - 1].end && start >= l->span[l->count - 1].start))
        return 0;
    if (l->count && start >= l->span[l->count - 1].start && start <= l->span[l->count - 1].end) {
        l->span[l->count - 1].end = end;
        return 0;
    }
    int rc = an_grow(&l->span, &l->room, l->count + 1, sizeof *l->span);
    if (!rc)
        l->span[l->count++] = (struct an_span){start, end};
    return rc;
}

static bool is_input(enum an_role r)
{
    return r == AN_ROLE_INPUT_WAIT || r == AN_ROLE_READ || r == AN_ROLE_DECODE ||
           r == AN_ROLE_COLLATE || r == AN_ROLE_QUEUE_WAIT;
}

/* Names of ranges that mark steps, by string. */
static uint8_t *step_names(const struct an_context *c, const struct an_lane *l)
{
    const struct an_trace *t = c->t;
    uint8_t *is = calloc(t->string_count + 1, 1);
    for (size_t i = 0; is && i < t->string_count; i++)
        is[i] = !strncmp(t->string[i], "ProfilerStep#", 13);
    for (size_t i = l->first; is && i < l->first + l->count; i++)
        if (c->step[i].slice != AN_NONE && t->slice.name[c->step[i].slice] != AN_NONE)
            is[t->slice.name[c->step[i].slice]] = 1;
    return is;
}

/* Time in rows of a thread (input: in its ranges of a loader). */
static int cover_thread(const struct an_trace *t, const struct an_track *k, const uint8_t *is_step,
                        bool input, struct span_list *l)
{
    int rc = 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !rc; i++) {
        uint32_t name = t->slice.name[i];
        enum an_role r = an_slice_role(t, i);
        if (input ? !is_input(r)
                  : r == AN_ROLE_STEP || r == AN_ROLE_MICRO_STEP ||
                        (name != AN_NONE && is_step[name]))
            continue;
        if (t->slice.dur[i] != AN_OPEN) /* where a range ended that was cut is not known */
            rc = cover(l, t->slice.start[i], an_slice_end(t, i));
    }
    return rc;
}

/* Did the thread launch something on device d? */
static bool drives(const struct an_devices *g, const struct an_device *d, const struct an_track *k)
{
    for (size_t i = an_launch_seek(g, k->slice_first);
         i < g->launch_count && g->launch_slice[i] - k->slice_first < k->slice_count; i++) {
        uint32_t op = g->launch_op[g->launch_first[i]];
        if (op >= d->first && op - d->first < d->count)
            return true;
    }
    return false;
}

/* Rows of the threads that drive the lane's device, and the loader's ranges of the step's thread,
 * as normalised sets. */
static int host_sets(struct an_context *c, const struct an_lane *l, struct span_list *host,
                     struct span_list *input)
{
    const struct an_trace *t = c->t;
    const struct an_device *d = &c->gpu->device[l->device];
    uint8_t *is_step = step_names(c, l);
    int rc = is_step ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *track = &t->track[k];
        if (track->process != l->process || strcmp(track->kind, "thread") != 0)
            continue;
        if (k == l->track || drives(c->gpu, d, track))
            rc = cover_thread(t, track, is_step, false, host);
        if (k == l->track && !rc)
            rc = cover_thread(t, track, is_step, true, input);
    }
    host->count = an_spans_normalize(host->span, host->count);
    input->count = an_spans_normalize(input->span, input->count);
    free(is_step);
    return rc;
}

typedef size_t set_operation(const struct an_span *, size_t, const struct an_span *, size_t,
                             struct an_span *);

static int make(set_operation *operation, struct an_set a, struct an_set b, struct an_set *out)
{
    size_t room = a.count + b.count;
    out->span = malloc((room ? room : 1) * sizeof *out->span);
    out->count = out->span ? operation(a.span, a.count, b.span, b.count, out->span) : 0;
    return out->span ? 0 : TACHO_ENOMEM;
}

/* Idle time of the device, from the first step to the last, phases left out. */
static int idle_set(const struct an_context *c, const struct an_lane *l, struct an_set busy,
                    struct an_set *out)
{
    struct an_span all = {INT64_MAX, INT64_MIN};
    for (size_t i = l->first; i < l->first + l->count; i++) {
        const struct an_step *s = &c->step[i];
        if (s->end == STORE_ABSENT)
            continue;
        all.start = s->start < all.start ? s->start : all.start;
        all.end = s->end > all.end ? s->end : all.end;
    }
    struct an_set steps = {&all, all.end > all.start}, rest;
    int rc = make(an_spans_subtract, steps, busy, &rest);
    rc = rc ? rc : make(an_spans_subtract, rest, (struct an_set){l->cut, l->cut_count}, out);
    free(rest.span);
    return rc;
}

/* Splits `idle` into what lies in `by` (*in) and the rest, which replaces it. */
static int take(struct an_set *idle, struct an_set by, struct an_set *in)
{
    struct an_set rest;
    int rc = make(an_spans_intersect, *idle, by, in);
    if (rc || (rc = make(an_spans_subtract, *idle, by, &rest)))
        return rc;
    free(idle->span);
    *idle = rest;
    return 0;
}

/* Calls of the process that wait for the device. */
static int waiting_calls(struct an_context *c, const struct an_lane *l, struct span_list *out)
{
    const struct an_device_edges *e;
    const struct an_trace *t = c->t;
    int rc = an_device_edges_of(c, &e);
    for (size_t i = 0; !rc && i < e->sync_count; i++) {
        uint32_t call = e->sync[i].call;
        if (t->track[an_slice_track(t, call)].process == l->process)
            rc = cover(out, t->slice.start[call], an_slice_end(t, call));
    }
    out->count = an_spans_normalize(out->span, out->count);
    return rc;
}

/* Idle time from when the next op was issued, while the host waits for the device. */
static int held_set(struct an_context *c, const struct an_lane *l, const struct an_set *idle,
                    struct an_set *out)
{
    const struct an_device *d = &c->gpu->device[l->device];
    const struct an_device_ops *op = &c->gpu->op;
    struct span_list held = {0}, waits = {0};
    int rc = 0;
    for (size_t i = 0; i < idle->count && !rc; i++) {
        int64_t from = idle->span[i].start, end = idle->span[i].end;
        size_t next = an_device_op_seek(c->gpu, d, end);
        if (an_time_sub(end, from) < HELD_LEAST || next == d->first + d->count ||
            op->launch[next] == AN_NONE)
            continue;
        int64_t issued = an_slice_end(c->t, op->launch[next]);
        from = issued > from ? issued : from;
        rc = an_time_sub(end, from) < HELD_LEAST ? 0 : cover(&held, from, end);
    }
    rc = rc || !held.count ? rc : waiting_calls(c, l, &waits);
    rc = rc ? rc
            : make(an_spans_intersect, (struct an_set){held.span, held.count},
                   (struct an_set){waits.span, waits.count}, out);
    free(held.span);
    free(waits.span);
    return rc;
}

int an_budget_device(struct an_context *c, const struct an_lane *l, struct an_budget_host *known)
{
    const struct an_device_split *x = &c->gpu->split[l->device];
    const struct an_set cut = {l->cut, l->cut_count}, left = {l->left, l->left_count};
    struct an_set part[AN_CLASS_COUNT] = {{NULL, 0}}, idle = {NULL, 0}, held = {NULL, 0},
                  of_held = {NULL, 0};
    struct span_list host = {0}, input = {0};
    int rc = host_sets(c, l, &host, &input);
    known->rows = host.count > 0;
    known->loader = input.count > 0;
    rc = rc ? rc : make(an_spans_subtract, x->compute, cut, &part[AN_CLASS_COMPUTE]);
    rc = rc ? rc : make(an_spans_subtract, x->exposed_comm, cut, &part[AN_CLASS_COMM]);
    rc = rc ? rc : make(an_spans_subtract, x->exposed_copy, cut, &part[AN_CLASS_COPY]);
    rc = rc ? rc : idle_set(c, l, x->busy, &idle);
    rc = rc ? rc : take(&idle, (struct an_set){input.span, input.count}, &part[AN_CLASS_INPUT]);
    rc = rc ? rc : take(&idle, left, &part[AN_CLASS_IO]);
    rc = rc ? rc : held_set(c, l, &idle, &held);
    rc = rc ? rc : take(&idle, held, &of_held);
    rc = rc ? rc : take(&idle, (struct an_set){host.span, host.count}, &part[AN_CLASS_HOST]);
    for (size_t i = l->first; i < l->first + l->count && !rc; i++) {
        struct an_step *s = &c->step[i];
        if (!an_step_detailed(s))
            continue;
        s->cut_ns = an_spans_within(l->cut, l->cut_count, s->start, s->end);
        int64_t rest = an_step_ns(s);
        for (int k = 0; k < AN_CLASS_COUNT; k++) {
            s->class_ns[k] = an_spans_within(part[k].span, part[k].count, s->start, s->end);
            rest = an_time_sub(rest, s->class_ns[k]);
        }
        s->class_ns[AN_CLASS_UNATTRIBUTED] = rest;
        c->held_ns =
            an_time_add(c->held_ns, an_spans_within(of_held.span, of_held.count, s->start, s->end));
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        free(part[k].span);
    free(idle.span);
    free(held.span);
    free(of_held.span);
    free(host.span);
    free(input.span);
    return rc;
}
