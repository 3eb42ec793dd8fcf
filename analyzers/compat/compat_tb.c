/* SPDX-License-Identifier: Apache-2.0
 *
 * The overview of the PyTorch TensorBoard plugin (torch-tb-profiler 0.4.3 as it stood when it was
 * removed in 2026): each instant of a step gets the first class that matches. Whatever the plugin
 * computes over a trace is over a group here.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/compat/compat.h"

/* In the plugin's order of precedence */
#define ROLE_MAP(X) \
    X(Kernel) X(Memcpy) X(Memset) X(Communication) X(Runtime) X(DataLoader) X(CpuOp) X(Other)

enum role {
#define ROLE_ENUM(name) ROLE_##name,
    ROLE_MAP(ROLE_ENUM)
#undef ROLE_ENUM
        ROLE_COUNT
};
static const char *const role_names[] = {
#define ROLE_TEXT(name) #name,
    ROLE_MAP(ROLE_TEXT)
#undef ROLE_TEXT
};

struct step {
    struct an_span span; /* on the host, then with what it put on devices */
    const char *name;
    int64_t device_start, device_end, launched; /* launched: device events */
};

struct device_event {
    struct an_span span;
    int64_t correlation, device;
    bool kernel, matched;
};

struct runtime_call {
    struct an_span span;
    int64_t correlation;
};

struct plugin {
    struct an_compat_view *v;
    size_t g;
    struct an_compat_spans role[ROLE_COUNT];
    struct step *step;
    size_t step_count, step_room;
    struct device_event *event;
    size_t event_count, event_room;
    struct runtime_call *call;
    size_t call_count, call_room;
    struct an_span host; /* first and last time of operators and steps */
};

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool is_loader(const char *name)
{
    static const char tail[] = ".__next__";
    size_t n = strlen(name);
    return starts(name, "enumerate(DataPipe)#") ||
           (starts(name, "enumerate(DataLoader)#") && n >= sizeof tail - 1 &&
            !strcmp(name + n - (sizeof tail - 1), tail));
}

/* The plugin knows five collectives of two libraries, and no other. */
static bool is_collective(const char *name)
{
    static const char *const ops[] = {"broadcast", "reduce", "all_reduce", "all_gather",
                                      "reduce_scatter"};
    if (!starts(name, "nccl:") && !starts(name, "gloo:"))
        return false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(name + 5, ops[i]))
            return true;
    return false;
}

/* The plugin calls a kernel communication if its external id is that of a collective's operator.
 * External ids are not kept; the id is that of the innermost operator around the launch, so that
 * one is asked. Annotations have other ids than kernels. */
static bool is_comm_kernel(const struct an_context *c, size_t slice)
{
    const struct an_trace *t = c->t;
    const struct an_device_ops *o = &c->gpu->op;
    uint32_t at = AN_NONE;
    for (size_t d = 0; d < c->gpu->device_count && at == AN_NONE; d++) {
        size_t first = c->gpu->device[d].first, end = first + c->gpu->device[d].count;
        size_t low = an_times_seek(o->start, first, end,
                                   t->slice.start[slice]); /* ops of a device are sorted by start */
        for (; low < end && o->start[low] == t->slice.start[slice]; low++)
            if (o->slice[low] == slice)
                at = o->launch[low];
    }
    if (at == AN_NONE)
        return false;
    uint32_t p = t->slice.parent[at];
    for (int depth = 0; p != AN_NONE && depth < AN_DEPTH_MAX; depth++, p = t->slice.parent[p])
        if (!strcmp(an_slice_category(t, p), "op"))
            return is_collective(an_trace_name(t, t->slice.name[p]));
    return false;
}

static int64_t device_number(const struct an_track *track)
{
    const char *colon = strrchr(track->device, ':');
    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

static int add_device_event(struct plugin *p, const struct an_compat_event *e, struct an_span s)
{
    int64_t correlation = p->v->c->t->slice.correlation[e->slice];
    bool kernel = e->category == AN_COMPAT_KERNEL;
    enum role role = kernel && is_comm_kernel(p->v->c, e->slice) ? ROLE_Communication
                     : kernel                                    ? ROLE_Kernel
                     : e->category == AN_COMPAT_MEMCPY           ? ROLE_Memcpy
                                                                 : ROLE_Memset;
    if (an_grow(&p->event, &p->event_room, p->event_count + 1, sizeof *p->event))
        return TACHO_ENOMEM;
    p->event[p->event_count++] = (struct device_event){
        .span = s, .correlation = correlation, .device = device_number(e->track), .kernel = kernel};
    return an_compat_spans_add(&p->role[role], s);
}

static int add_step(struct plugin *p, struct an_span s, const char *name)
{
    if (an_grow(&p->step, &p->step_room, p->step_count + 1, sizeof *p->step))
        return TACHO_ENOMEM;
    p->step[p->step_count++] = (struct step){.span = s, .name = strchr(name, '#') + 1};
    return 0;
}

static void widen_host(struct plugin *p, struct an_span s)
{
    p->host.start = s.start < p->host.start ? s.start : p->host.start;
    p->host.end = s.end > p->host.end ? s.end : p->host.end;
}

static int collect(void *ctx, const struct an_compat_event *e)
{
    struct plugin *p = ctx;
    const struct an_trace *t = p->v->c->t;
    const char *name = an_trace_name(t, t->slice.name[e->slice]);
    struct an_span s = an_compat_span(p->v, p->g, e->slice);
    switch (e->category) {
    case AN_COMPAT_KERNEL:
    case AN_COMPAT_MEMCPY:
    case AN_COMPAT_MEMSET:
        return add_device_event(p, e, s);
    case AN_COMPAT_RUNTIME:
        if (an_grow(&p->call, &p->call_room, p->call_count + 1, sizeof *p->call))
            return TACHO_ENOMEM;
        p->call[p->call_count++] = (struct runtime_call){s, t->slice.correlation[e->slice]};
        return an_compat_spans_add(&p->role[ROLE_Runtime], s);
    case AN_COMPAT_OP:
    case AN_COMPAT_ANNOTATION:
        if (starts(name, "ProfilerStep#")) {
            widen_host(p, s);
            return add_step(p, s, name);
        }
        if (e->category == AN_COMPAT_OP)
            widen_host(p, s);
        return an_compat_spans_add(&p->role[is_loader(name)       ? ROLE_DataLoader
                                            : is_collective(name) ? ROLE_Communication
                                                                  : ROLE_CpuOp],
                                   s);
    default:
        return 0;
    }
}

/* ---- steps ----------------------------------------------------------------------------------------------------------------- */

static int step_order(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    return (x->span.start > y->span.start) - (x->span.start < y->span.start);
}
static int call_order(const void *a, const void *b)
{
    const struct runtime_call *x = a, *y = b;
    return (x->span.start > y->span.start) - (x->span.start < y->span.start);
}
static int event_order(const void *a, const void *b)
{
    const struct device_event *x = a, *y = b;
    return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

/* Device events that a call launched go to the step the call lies in. */
static void launched_by(struct plugin *p, struct step *s, int64_t correlation)
{
    size_t low = 0, high = p->event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->event[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->event_count && p->event[low].correlation == correlation &&
           correlation != STORE_ABSENT;
         low++) {
        struct device_event *e = &p->event[low];
        s->device_start =
            !s->launched || e->span.start < s->device_start ? e->span.start : s->device_start;
        s->device_end = !s->launched || e->span.end > s->device_end ? e->span.end : s->device_end;
        s->launched++;
        e->matched = true;
    }
}

static void match_launches(struct plugin *p)
{
    if (p->call_count)
        qsort(p->call, p->call_count, sizeof *p->call, call_order);
    if (p->event_count)
        qsort(p->event, p->event_count, sizeof *p->event, event_order);
    for (size_t i = 0, k = 0; i < p->step_count && k < p->call_count;) {
        struct step *s = &p->step[i];
        const struct runtime_call *call = &p->call[k];
        if (call->span.start >= s->span.start && call->span.start >= s->span.end &&
            call->span.end > s->span.end) {
            i++;
            continue;
        }
        if (call->span.start >= s->span.start && call->span.end <= s->span.end)
            launched_by(p, s, call->correlation);
        k++;
    }
}

/* A step ends with the last thing it put on a device, and the next one begins there. */
static void extend_steps(struct plugin *p)
{
    int64_t previous = p->step[0].span.start;
    for (size_t i = 0; i < p->event_count && p->step[0].launched; i++)
        if (!p->event[i].matched && p->event[i].span.end < p->step[0].device_start &&
            p->event[i].span.end > previous)
            previous = p->event[i].span.end;
    for (size_t i = 0; i < p->step_count; i++) {
        struct step *s = &p->step[i];
        int64_t start = previous > s->span.start ? previous : s->span.start, end = s->span.end;
        if (s->launched && s->device_end > end)
            end = s->device_end;
        end = end > start ? end : start;
        s->span = (struct an_span){start, end};
        previous = end;
    }
}

/* Steps at the end that launched nothing, or much less than the one before, are taken for cut off.
 */
static void drop_tail(struct plugin *p)
{
    size_t last = p->step_count;
    while (last && !p->step[last - 1].launched)
        last--;
    if (p->step_count < 2 || !last)
        return;
    if (last > 1 && (double)p->step[last - 2].launched * 0.8 > (double)p->step[last - 1].launched)
        last--;
    p->step_count = last;
}

static int find_steps(struct plugin *p)
{
    if (!p->step_count && p->host.start <= p->host.end && add_step(p, p->host, "#0"))
        return TACHO_ENOMEM;
    if (!p->step_count)
        return 0;
    qsort(p->step, p->step_count, sizeof *p->step, step_order);
    match_launches(p);
    bool any = false;
    for (size_t i = 0; i < p->step_count; i++)
        any = any || p->step[i].launched;
    if (any) {
        extend_steps(p);
        drop_tail(p);
    }
    return 0;
}

/* ---- classes --------------------------------------------------------------------------------------------------------------- */

/* Takes each role out of what the roles before it left of the steps. Once nothing is left, the
 * plugin begins again with all the steps, and so does this. cost[r] gets new arrays. */
static int take_roles(struct plugin *p, struct an_compat_spans *cost)
{
    struct an_compat_spans steps = {0}, left = {0}, next = {0};
    int rc = 0;
    for (size_t i = 0; i < p->step_count && !rc; i++)
        rc = an_compat_spans_add(&steps, p->step[i].span);
    if (!rc)
        steps.count = an_spans_normalize(steps.span, steps.count);
    for (int r = 0; r < ROLE_Other && !rc; r++) {
        struct an_compat_spans *role = &p->role[r], *out = &cost[r];
        size_t room = role->count + left.count + steps.count + 1;
        role->count = an_spans_normalize(role->span, role->count);
        if (an_grow(&out->span, &out->room, room, sizeof *out->span) ||
            an_grow(&left.span, &left.room, room, sizeof *left.span) ||
            an_grow(&next.span, &next.room, 2 * room, sizeof *next.span)) {
            rc = TACHO_ENOMEM;
            break;
        }
        if (left.count) {
            out->count =
                an_spans_intersect(left.span, left.count, role->span, role->count, out->span);
        } else {
            out->count = role->count;
            if (role->count)
                memcpy(out->span, role->span, role->count * sizeof *role->span);
            left.count = steps.count;
            memcpy(left.span, steps.span, steps.count * sizeof *steps.span);
        }
        next.count = an_spans_subtract(left.span, left.count, out->span, out->count, next.span);
        struct an_compat_spans swap = left;
        left = next;
        next = swap;
    }
    cost[ROLE_Other] = left;
    free(steps.span);
    free(next.span);
    return rc;
}

static int put_steps(struct plugin *p, const struct an_compat_spans *cost)
{
    struct an_compat_view *v = p->v;
    int64_t rank = v->group[p->g].rank;
    double sum[ROLE_COUNT + 1] = {0};
    char section[64];
    int rc = 0;
    for (size_t i = 0; i < p->step_count && !rc; i++) {
        const struct step *s = &p->step[i];
        snprintf(section, sizeof section, "step %.40s", s->name);
        for (int r = 0; r < ROLE_COUNT && !rc; r++) {
            double us = an_compat_us(
                v, an_spans_within(cost[r].span, cost[r].count, s->span.start, s->span.end));
            sum[r] += us;
            rc = an_compat_put(v, rank, STORE_ABSENT, section, role_names[r], "us", us);
        }
        double total = an_compat_us(v, s->span.end - s->span.start);
        sum[ROLE_COUNT] += total;
        rc = rc ? rc : an_compat_put(v, rank, STORE_ABSENT, section, "Total", "us", total);
    }
    for (int r = 0; r <= ROLE_COUNT && !rc; r++)
        rc = an_compat_put(v, rank, STORE_ABSENT, "average",
                           r < ROLE_COUNT ? role_names[r] : "Total", "us",
                           sum[r] / (double)p->step_count);
    return rc;
}

/* Share of the time from the first to the last step in which a kernel ran, for each device that ran
 * one. */
static int put_utilization(struct plugin *p)
{
    struct an_compat_view *v = p->v;
    int64_t t0 = p->step[0].span.start, t1 = p->step[p->step_count - 1].span.end,
            device = INT64_MIN;
    for (int rc = 0;;) {
        struct an_compat_spans s = {0};
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < p->event_count; i++)
            if (p->event[i].kernel && p->event[i].device > device && p->event[i].device < next)
                next = p->event[i].device;
        if (next == INT64_MAX)
            return 0;
        device = next;
        for (size_t i = 0; i < p->event_count && !rc; i++)
            if (p->event[i].kernel && p->event[i].device == device)
                rc = an_compat_spans_add(&s, p->event[i].span);
        if (!rc) {
            s.count = an_spans_normalize(s.span, s.count);
            double busy = (double)an_spans_within(s.span, s.count, t0, t1);
            rc = an_compat_put(v, v->group[p->g].rank, device, "gpu_utilization", "GPU utilization",
                               "ratio", t1 > t0 ? busy / (double)(t1 - t0) : NAN);
        }
        free(s.span);
        if (rc)
            return rc;
    }
}

int an_compat_tb(struct an_compat_view *v)
{
    int rc = 0;
    for (size_t g = 0; g < v->group_count && !rc; g++) {
        struct plugin p = {.v = v, .g = g, .host = {INT64_MAX, INT64_MIN}};
        struct an_compat_spans cost[ROLE_COUNT] = {{0}};
        rc = an_compat_each(v, g, collect, &p);
        if (!rc)
            rc = find_steps(&p);
        if (!rc && p.step_count) {
            rc = take_roles(&p, cost);
            if (!rc)
                rc = put_steps(&p, cost);
            if (!rc)
                rc = put_utilization(&p);
        }
        for (int r = 0; r < ROLE_COUNT; r++) {
            free(p.role[r].span);
            free(cost[r].span);
        }
        free(p.step);
        free(p.event);
        free(p.call);
    }
    return rc;
}
