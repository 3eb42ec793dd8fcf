/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a step's time goes: on the device that runs it (budget_device.c), else on the thread. On a
 * thread: at each instant the innermost range of that thread decides; a range that does not say
 * what it is takes after the range around it. Loader, communication and helper threads never make
 * an instant "compute". Every ns of a step is given to exactly one class, so that the classes sum
 * to the step in integers.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzers/budget/budget.h"

#define CLASS_CUT AN_CLASS_COUNT /* time of a phase: cut out, no class of the step */

/* A range that is open while the sweep passes: until when, and what its own time is. */
struct open_range {
    int64_t end;
    int class;
};

struct sweep {
    struct open_range *open;
    size_t depth, room;
    int64_t at;
    int64_t *ns;                  /* AN_CLASS_COUNT + 1 sums */
    struct an_class_spans *spans; /* NULL: only the sums are wanted */
    int rc;
};

static void keep_span(struct sweep *w, int class, int64_t until)
{
    struct an_class_spans *x = w->spans;
    if (w->rc || class == CLASS_CUT)
        return;
    if (x->count && x->at[x->count - 1].class == (enum an_class) class &&
        x->at[x->count - 1].span.end == w->at) {
        x->at[x->count - 1].span.end = until;
        return;
    }
    if ((w->rc = an_grow(&x->at, &x->room, x->count + 1, sizeof *x->at)))
        return;
    x->at[x->count++] = (struct an_class_span){{w->at, until}, (enum an_class) class};
}

/* Gives the time from sweep.at to `time` to the ranges that were innermost meanwhile. The outermost
 * entry stays. */
static void sweep_to(struct sweep *w, int64_t time)
{
    for (;;) {
        struct open_range *top = &w->open[w->depth - 1];
        int64_t until = top->end < time ? top->end : time;
        if (until > w->at) {
            w->ns[top->class] = an_time_add(w->ns[top->class], an_time_sub(until, w->at));
            if (w->spans)
                keep_span(w, top->class, until);
            w->at = until;
        }
        if (top->end > time || w->depth == 1)
            return;
        w->depth--;
    }
}

static bool is_inherited(int class)
{
    return class == AN_CLASS_COMPUTE || class == AN_CLASS_COMM || class == AN_CLASS_INPUT;
}

int an_class_of_role(enum an_role role, int around)
{
    if (an_role_is_input(role))
        return AN_CLASS_INPUT;
    switch (role) {
    case AN_ROLE_WORK:
        return AN_CLASS_COMPUTE;
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_CLASS_COMM;
    case AN_ROLE_CHECKPOINT:
    case AN_ROLE_EVALUATION:
    case AN_ROLE_COMPILE:
        return AN_CLASS_IO; /* not cut: it has handed over to another thread */
    case AN_ROLE_HOST:
    case AN_ROLE_COMM_POST:
    case AN_ROLE_MICRO_STEP:
        return AN_CLASS_HOST;
    default:
        return is_inherited(around) ? around : AN_CLASS_HOST;
    }
}

/* Class of a range by its role and the class of the range around it. */
static int class_of(const struct an_trace *t, const struct an_lane *l, size_t i, int around)
{
    if (around == CLASS_CUT)
        return around;
    if (t->slice.dur[i] != AN_OPEN && an_role_is_phase(an_slice_role(t, i)) &&
        t->slice.dur[i] > 0 &&
        an_spans_within(l->cut, l->cut_count, t->slice.start[i], an_slice_end(t, i)) ==
            t->slice.dur[i])
        return CLASS_CUT;
    if (around == AN_CLASS_IO)
        return around;
    if (t->slice.dur[i] == AN_OPEN)
        return AN_CLASS_UNATTRIBUTED; /* its end was lost: what its time was is not known */
    return an_class_of_role(an_slice_role(t, i), around);
}

/* End of the phase that goes on at `time`, or `time`. */
static int64_t phase_until(const struct an_lane *l, int64_t time)
{
    size_t i = an_spans_seek(l->cut, l->cut_count, time);
    return i < l->cut_count && l->cut[i].start < time ? l->cut[i].end : time;
}

/* Classes of the instants of a step: sums into w->ns, pieces into w->spans. */
static int sweep_step(struct an_context *c, const struct an_lane *l, const struct an_step *s,
                      struct sweep *w)
{
    const struct an_trace *t = c->t;
    const struct an_track *k = &t->track[l->track];
    w->at = s->start;
    w->depth = 1;
    w->open[0] = (struct open_range){s->end, AN_CLASS_UNATTRIBUTED};
    int64_t until = phase_until(l, s->start);
    if (until > s->start)
        w->open[w->depth++] = (struct open_range){until < s->end ? until : s->end, CLASS_CUT};
    for (size_t i = an_slice_seek(t, k, s->start);
         i < k->slice_first + k->slice_count && t->slice.start[i] < s->end; i++) {
        if (i == s->slice)
            continue;
        sweep_to(w, t->slice.start[i]);
        int64_t end = an_slice_end(t, i);
        if (an_grow(&w->open, &w->room, w->depth + 1, sizeof *w->open))
            return TACHO_ENOMEM;
        const struct open_range *around = &w->open[w->depth - 1];
        int class = class_of(t, l, i, around->class);
        if ((class == CLASS_CUT || class == AN_CLASS_IO) && class == around->class &&
            end > around->end)
            end = around->end; /* what begins in a phase of another domain does not make the phase
                                  longer */
        if (class != AN_CLASS_HOST && class != AN_CLASS_UNATTRIBUTED)
            c->roles_known = true;
        w->open[w->depth++] = (struct open_range){end < s->end ? end : s->end, class};
    }
    sweep_to(w, s->end);
    return w->rc;
}

static int budget_step(struct an_context *c, const struct an_lane *l, struct an_step *s,
                       struct sweep *w)
{
    int64_t ns[AN_CLASS_COUNT + 1] = {0};
    w->ns = ns;
    int rc = sweep_step(c, l, s, w);
    for (int i = 0; i < AN_CLASS_COUNT; i++)
        s->class_ns[i] = ns[i];
    s->cut_ns = ns[CLASS_CUT];
    return rc;
}

int an_budget_spans(struct an_context *c, const struct an_step *s, struct an_class_spans *out)
{
    int64_t ns[AN_CLASS_COUNT + 1] = {0};
    struct sweep w = {.ns = ns, .spans = out};
    int rc = an_grow(&w.open, &w.room, 2, sizeof *w.open);
    out->count = 0;
    if (!rc)
        rc = sweep_step(c, &c->lane[s->lane], s, &w);
    free(w.open);
    return rc;
}

/* Sums the steps of one lane (or of all, lane = NULL). */
static void sum_steps(const struct an_context *c, const struct an_lane *l, struct an_budget *b)
{
    int64_t ns[AN_CLASS_COUNT] = {0};
    size_t first = l ? l->first : 0, last = l ? l->first + l->count : c->step_count;
    for (size_t i = first; i < last; i++) {
        const struct an_step *s = &c->step[i];
        if (!an_step_detailed(s))
            continue;
        b->steps++;
        b->step_ns = an_time_add(b->step_ns, an_step_ns(s));
        b->phase_ns = an_time_add(b->phase_ns, s->cut_ns);
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            ns[k] = an_time_add(ns[k], s->class_ns[k]);
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        b->ns[k] = an_int(ns[k]);
}

static void class_absent(struct an_budget *b, enum an_class k, const char *reason)
{
    b->ns[k] = an_int_none(reason);
    b->pct[k] = an_num_none(reason);
}

static void budget_absent_all(struct an_budget *b, const char *reason)
{
    b->reason = reason;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        class_absent(b, (enum an_class)k, reason);
}

static void shares(struct an_budget *b)
{
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        b->pct[k] = an_num(100.0 * (double)b->ns[k].value / (double)b->step_ns);
    class_absent(b, AN_CLASS_BUBBLE, "no pipeline stages were recorded");
}

/* Shares on a thread, and what a run like this one cannot tell. */
static void finish_thread(const struct an_context *c, struct an_budget *b)
{
    b->roles_known = c->roles_known;
    shares(b);
    class_absent(b, AN_CLASS_COPY, "steps ran on the CPU: no device copies were recorded");
    if (b->roles_known)
        return;
    const char *reason = "no range in a step says what it is (payloads of include/tacho_nvtx.h)";
    class_absent(b, AN_CLASS_COMPUTE, reason);
    class_absent(b, AN_CLASS_COMM, reason);
    class_absent(b, AN_CLASS_INPUT, reason);
    class_absent(b, AN_CLASS_IO, reason);
}

static void finish_device(struct an_budget *b, const struct an_budget_host *host)
{
    static const char no_rows[] = "no rows of the threads that drive the device";
    b->roles_known = true;
    shares(b);
    if (!host->rows)
        class_absent(b, AN_CLASS_HOST, no_rows);
    if (!host->loader)
        class_absent(b, AN_CLASS_INPUT,
                     host->rows ? "no range of a loader on the step's thread (torch.profiler "
                                  "records enumerate(DataLoader))"
                                : no_rows);
    if (!host->rows)
        class_absent(b, AN_CLASS_IO, no_rows);
}

static void finish(const struct an_context *c, const struct an_lane *l,
                   const struct an_budget_host *host, struct an_budget *b)
{
    if (!b->step_ns)
        budget_absent_all(b, b->steps ? "the steps last 0 ns"
                                      : "no counted step has all its ranges in the file");
    else if (l->device != AN_NONE)
        finish_device(b, host);
    else
        finish_thread(c, b);
}

/* Mean over devices: every device weighs the same, whatever the number of its steps. ns are sums
 * all the same. A class that some devices cannot tell is the mean of all: there it holds no time.
 */
static void mean_devices(const struct an_context *c, struct an_budget *b,
                         const struct an_device_budget *d, size_t n)
{
    const struct an_budget *first = NULL;
    size_t with = 0;
    sum_steps(c, NULL, b);
    for (size_t i = 0; i < n; i++)
        if (!d[i].budget.reason) {
            first = first ? first : &d[i].budget;
            with++;
            b->roles_known = b->roles_known || d[i].budget.roles_known;
        }
    if (!with) {
        budget_absent_all(b, b->steps ? "the steps last 0 ns"
                                      : "no counted step has all its ranges in the file");
        return;
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        double sum = 0;
        bool valid = false;
        for (size_t i = 0; i < n; i++) {
            const struct an_value *v = &d[i].budget.pct[k];
            if (d[i].budget.reason || !v->valid)
                continue;
            sum += v->value;
            valid = true;
        }
        if (valid)
            b->pct[k] = an_num(sum / (double)with);
        else
            class_absent(b, (enum an_class)k, first->pct[k].reason);
    }
}

static void name_worst(struct an_device_budget *d, size_t n)
{
    struct an_device_budget *worst = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct an_value *v = &d[i].budget.pct[AN_CLASS_COMPUTE];
        if (v->valid && (!worst || v->value < worst->budget.pct[AN_CLASS_COMPUTE].value))
            worst = &d[i];
    }
    if (worst && n > 1)
        worst->worst = true;
}

static const char *device_text(const struct an_context *c, const struct an_lane *l)
{
    if (l->device != AN_NONE)
        return an_arena_format(c->a, "gpu:%" PRId64, c->gpu->device[l->device].ordinal);
    const struct an_process *p = l->process != AN_NONE ? &c->t->process[l->process] : NULL;
    return p && *p->device ? an_arena_text(c->a, p->device) : "cpu";
}

static int budget_run(struct an_context *c)
{
    struct sweep w = {0};
    int rc = an_grow(&w.open, &w.room, 2, sizeof *w.open);
    struct an_device_budget *d = an_arena_zero(c->a, c->lane_count, sizeof *d);
    struct an_budget_host *host = an_arena_zero(c->work, c->lane_count, sizeof *host);
    if (!d || !host)
        rc = TACHO_ENOMEM;
    for (size_t k = 0; k < c->lane_count && !rc; k++) {
        const struct an_lane *l = &c->lane[k];
        if (l->device != AN_NONE)
            rc = an_budget_device(c, l, &host[k]);
        for (size_t i = l->first; l->device == AN_NONE && i < l->first + l->count && !rc; i++)
            if (an_step_detailed(&c->step[i]))
                rc = budget_step(c, l, &c->step[i], &w);
    }
    for (size_t k = 0; k < c->lane_count && !rc; k++) {
        const struct an_lane *l = &c->lane[k];
        const struct an_process *p = l->process != AN_NONE ? &c->t->process[l->process] : NULL;
        d[k] = (struct an_device_budget){.rank = l->rank,
                                         .process = p ? p->pid : STORE_ABSENT,
                                         .device = device_text(c, l),
                                         .host = p ? an_arena_text(c->a, p->host) : ""};
        sum_steps(c, l, &d[k].budget);
        finish(c, l, &host[k], &d[k].budget);
    }
    if (!rc) {
        name_worst(d, c->lane_count);
        mean_devices(c, &c->r->budget, d, c->lane_count);
        c->r->devices = d;
        c->r->device_count = c->lane_count;
    }
    free(w.open);
    return rc;
}

static void budget_absent(struct an_context *c, const char *reason)
{
    budget_absent_all(&c->r->budget, reason);
}

const struct an_analyzer an_budget = {
    "budget", "where a step's time goes: classes that sum to the step",
    AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL, budget_run, budget_absent};
