/* SPDX-License-Identifier: Apache-2.0
 *
 * Why devices do not compute, and why the thread that runs the steps of a CPU does not: absent.h's
 * sets over the whole capture and over the counted steps, and what the host did meanwhile.
 *
 * On a thread every instant of the counted steps that is in no range of work is absent, and the
 * causes are those of the same sweep that explains launch-starved time of a device.
 */
#include "analyzers/budget/absent.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzers/findings/findings.h"

/* A row under construction. */
struct row {
    struct an_context *c;
    struct an_absent *out;
    const struct an_lane *lane; /* NULL: a device without steps */
    struct an_set window;
};

static int64_t within(struct an_set s, struct an_set window)
{
    int64_t ns = 0;
    for (size_t i = 0; i < window.count; i++)
        ns = an_time_add(
            ns, an_spans_within(s.span, s.count, window.span[i].start, window.span[i].end));
    return ns;
}

static int make(struct an_context *c, struct an_set a, struct an_set b, bool subtract,
                struct an_set *out)
{
    struct an_span *s = an_arena_zero(c->work, a.count + b.count, sizeof *s);
    if (!s)
        return TACHO_ENOMEM;
    *out = (struct an_set){s, subtract ? an_spans_subtract(a.span, a.count, b.span, b.count, s)
                                       : an_spans_intersect(a.span, a.count, b.span, b.count, s)};
    return 0;
}

/* The counted, detailed steps of a lane without its phases. */
static int steps_of(struct row *r)
{
    struct an_context *c = r->c;
    const struct an_lane *l = r->lane;
    struct an_span *s = an_arena_zero(c->work, l->count, sizeof *s);
    size_t n = 0;
    if (!s)
        return TACHO_ENOMEM;
    for (size_t i = l->first; i < l->first + l->count; i++)
        if (an_step_detailed(&c->step[i])) {
            s[n++] = (struct an_span){c->step[i].start, c->step[i].end};
            r->out->steps++;
        }
    struct an_set steps = {s, an_spans_normalize(s, n)};
    r->out->window = an_findings_window(c);
    return make(c, steps, (struct an_set){l->cut, l->cut_count}, true, &r->window);
}

/* ---- causes ------------------------------------------------------------------------------------------------------------------- */

static int cause_order(const void *x, const void *y)
{
    const struct an_host_row *a = x, *b = y;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    if (a->cause != b->cause)
        return a->cause < b->cause ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

/* Rows of the tally; those of computation are left out where `computes` says that they are no
 * absence. */
static int keep_causes(struct row *r, struct an_host_tally *y, bool computes)
{
    struct an_context *c = r->c;
    struct an_absent_cause *all = an_arena_zero(c->a, y->count, sizeof *all);
    int64_t sum = 0;
    if (!all)
        return TACHO_ENOMEM;
    if (y->count)
        qsort(y->row, y->count, sizeof *y->row, cause_order);
    for (size_t i = 0; i < y->count; i++) {
        if (computes && y->row[i].cause == AN_CAUSE_COMPUTE)
            continue;
        sum = an_time_add(sum, y->row[i].ns);
        all[r->out->cause_count++] = (struct an_absent_cause){
            .cause = an_cause_key(y->row[i].cause),
            .name = an_arena_text(c->a, an_trace_name(c->t, y->row[i].name)),
            .ns = y->row[i].ns};
    }
    for (size_t i = 0; i < r->out->cause_count && sum > 0; i++)
        all[i].pct = 100 * (double)all[i].ns / (double)sum;
    r->out->causes = all;
    if (computes)
        r->out->absent_ns = sum;
    return 0;
}

static int starved_order(const void *x, const void *y)
{
    const struct an_starved *a = x, *b = y;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return (a->span.start > b->span.start) - (a->span.start < b->span.start);
}

/* What the threads that launched the late kernels did; where such a thread is in no range, what the
 * step's thread did. */
static int starved_causes(struct row *r, const struct an_absence *x)
{
    struct an_context *c = r->c;
    struct an_host_tally y = {.row = NULL};
    struct an_span_list when = {.span = NULL}, rest = {.span = NULL};
    struct an_starved *s = an_arena_copy(c->work, x->starved, x->starved_count * sizeof *s);
    uint32_t main_thread = r->lane ? r->lane->track : AN_NONE;
    int rc = s ? 0 : TACHO_ENOMEM;
    if (s && x->starved_count)
        qsort(s, x->starved_count, sizeof *s, starved_order);
    for (size_t i = 0; i < x->starved_count && !rc;) {
        uint32_t thread = s[i].thread;
        struct an_set mine;
        for (when.count = 0; i < x->starved_count && s[i].thread == thread && !rc; i++)
            rc = an_span_list_add(&when, s[i].span.start, s[i].span.end);
        when.count = an_spans_normalize(when.span, when.count);
        rc = rc ? rc : make(c, (struct an_set){when.span, when.count}, r->window, false, &mine);
        bool other = main_thread != AN_NONE && main_thread != thread;
        rest.count = 0;
        rc = rc ? rc : an_host_sweep(c, &c->t->track[thread], mine, &y, other ? &rest : NULL);
        rest.count = an_spans_normalize(rest.span, rest.count);
        if (!rc && rest.count)
            rc = an_host_sweep(c, &c->t->track[main_thread], (struct an_set){rest.span, rest.count},
                               &y, NULL);
    }
    rc = rc ? rc : keep_causes(r, &y, false);
    free(when.span);
    free(rest.span);
    an_host_tally_free(&y);
    return rc;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------- */

static int occupants(struct row *r, const struct an_device_split *x, enum an_absent_part k,
                     struct an_set part)
{
    const struct an_set by[AN_OCCUPANTS] = {x->exposed_comm, x->exposed_copy, x->exposed_opaque};
    int64_t rest = r->out->part_ns[k].value;
    for (int i = 0; i < AN_OCCUPIED_NOTHING; i++) {
        struct an_set both;
        int rc = make(r->c, part, by[i], false, &both);
        if (rc)
            return rc;
        r->out->occupied_ns[k][i] = an_int(within(both, r->window));
        rest = an_time_sub(rest, r->out->occupied_ns[k][i].value);
    }
    r->out->occupied_ns[k][AN_OCCUPIED_NOTHING] = an_int(rest);
    return 0;
}

static void parts_absent(struct an_absent *out, const char *reason)
{
    for (int k = 0; k < AN_ABSENT_PARTS; k++) {
        out->part_ns[k] = an_int_none(reason);
        for (int i = 0; i < AN_OCCUPANTS; i++)
            out->occupied_ns[k][i] = an_int_none(reason);
    }
    out->unlinked_ns = out->after_wait_ns = an_int_none(reason);
    out->causes_reason = reason;
}

static int device_row(struct row *r, size_t d, const struct an_absence *x)
{
    struct an_context *c = r->c;
    const struct an_device_split *split = &c->gpu->split[d];
    struct an_span span = {split->start, split->end};
    int rc = 0;
    if (r->lane && (rc = steps_of(r)))
        return rc;
    if (!r->out->steps) {
        r->window =
            (struct an_set){an_arena_copy(c->work, &span, sizeof span), split->end > split->start};
        r->out->window = "whole capture";
        if (!r->window.span)
            return TACHO_ENOMEM;
    }
    r->out->window_ns = an_spans_measure(r->window.span, r->window.count);
    r->out->absent_ns = an_time_sub(r->out->window_ns, within(split->compute, r->window));
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        r->out->blocking_ns[k] = x->blocking_reason ? an_int_none(x->blocking_reason)
                                                    : an_int(within(x->blocking[k], r->window));
    if (x->reason) {
        parts_absent(r->out, x->reason);
        return 0;
    }
    for (int k = 0; k < AN_ABSENT_PARTS && !rc; k++) {
        r->out->part_ns[k] = an_int(within(x->part[k], r->window));
        rc = occupants(r, split, (enum an_absent_part)k, x->part[k]);
    }
    r->out->unlinked_ns = an_int(within(x->unlinked, r->window));
    r->out->after_wait_ns = an_int(within(x->drained, r->window));
    return rc ? rc : starved_causes(r, x);
}

/* The numbers of the whole capture, beside the device's others. */
static void fill_device(struct an_gpu_device *out, const struct an_absence *x)
{
    struct an_count *part[AN_ABSENT_PARTS] = {&out->absent_launch_starved_ns,
                                              &out->absent_blocked_ns, &out->absent_dispatch_ns,
                                              &out->absent_dependency_ns};
    struct an_count *blocking[AN_BLOCKING_COUNT] = {
        &out->blocking_proven_ns, &out->blocking_inferred_ns, &out->blocking_unknown_ns};
    if (!out->span_ns.valid)
        return; /* none of its rows has a time: gpu.c says so */
    for (int k = 0; k < AN_ABSENT_PARTS; k++)
        *part[k] = x->reason ? an_int_none(x->reason)
                             : an_int(an_spans_measure(x->part[k].span, x->part[k].count));
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        *blocking[k] = x->blocking_reason
                           ? an_int_none(x->blocking_reason)
                           : an_int(an_spans_measure(x->blocking[k].span, x->blocking[k].count));
}

/* One device after another, each with a work arena of its own: their sets are only needed for their
 * row. */
static int run_devices(struct an_context *c)
{
    const struct an_devices *g = c->gpu;
    const struct an_device_edges *e;
    struct an_arena *work = c->work;
    struct an_absent *rows = an_arena_zero(c->a, g->device_count, sizeof *rows);
    int rc = rows ? an_device_edges_of(c, &e) : TACHO_ENOMEM;
    rc = rc || c->graph || c->causes ? rc : an_causes_make(c, &c->causes);
    for (size_t d = 0; d < g->device_count && !rc; d++) {
        struct an_absence x;
        struct row r = {.c = c, .out = rows ? &rows[c->r->absent_count] : NULL};
        if (!g->device[d].count)
            continue;
        rc = (c->work = an_arena_new()) ? an_absence_of(c, d, &x) : TACHO_ENOMEM;
        for (size_t k = 0; k < c->lane_count; k++)
            r.lane = c->lane[k].device == d ? &c->lane[k] : r.lane;
        r.out->rank = g->device[d].rank;
        r.out->device = an_int(g->device[d].ordinal);
        if (!rc)
            fill_device((struct an_gpu_device *)(uintptr_t)&c->r->gpus[d], &x);
        rc = rc ? rc : device_row(&r, d, &x);
        c->r->absent_count++;
        an_arena_free(c->work);
        c->work = work;
    }
    c->r->absent = rows;
    return rc;
}

/* ---- threads --------------------------------------------------------------------------------------------------------------------- */

static int thread_row(struct row *r)
{
    static const char no_device[] = "steps ran on the CPU: nothing is launched";
    struct an_host_tally y = {.row = NULL};
    int rc = steps_of(r);
    r->out->rank = r->lane->rank;
    r->out->device = an_int_none(no_device);
    parts_absent(r->out, no_device);
    r->out->causes_reason = NULL;
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        r->out->blocking_ns[k] = an_int_none("communication/blocking_ms has it");
    r->out->window_ns = an_spans_measure(r->window.span, r->window.count);
    rc = rc ? rc : an_host_sweep(r->c, &r->c->t->track[r->lane->track], r->window, &y, NULL);
    rc = rc ? rc : keep_causes(r, &y, true);
    an_host_tally_free(&y);
    return rc;
}

static int run_threads(struct an_context *c)
{
    struct an_absent *rows = an_arena_zero(c->a, c->lane_count, sizeof *rows);
    int rc = rows ? 0 : TACHO_ENOMEM;
    for (size_t k = 0; k < c->lane_count && !rc; k++) {
        struct row r = {.c = c, .out = &rows[c->r->absent_count], .lane = &c->lane[k]};
        if (c->lane[k].track == AN_NONE || c->lane[k].device != AN_NONE)
            continue;
        *r.out = (struct an_absent){.steps = 0};
        rc = thread_row(&r);
        c->r->absent_count += r.out->steps > 0;
    }
    c->r->absent = rows;
    return rc;
}

static int absent_run(struct an_context *c)
{
    if (c->gpu)
        return run_devices(c);
    if (c->r->budget.roles_known)
        return run_threads(c);
    c->r->absence.reason = "no range in a step says what it is (payloads of include/tacho_nvtx.h)";
    return 0;
}

static void absent_absent(struct an_context *c, const char *reason)
{
    c->r->absence.reason = reason;
}

const struct an_analyzer an_compute_absent = {
    "absent", "why devices, and threads that run steps, do not compute", AN_INPUT_SLICES,
    absent_run, absent_absent};
