/* SPDX-License-Identifier: Apache-2.0
 *
 * The overview of the PyTorch TensorBoard plugin (torch-tb-profiler 0.4.3, the version that was
 * removed in 2026): each instant of a step gets the first class that matches. What the plugin
 * computes over a trace is computed over a group here.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/compat/compat_private.h"

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
    struct an_compat_view *view;
    size_t group;
    struct an_compat_spans role[ROLE_COUNT];
    struct step *step;
    size_t step_count, step_room;
    struct device_event *event;
    size_t event_count, event_room;
    struct runtime_call *call;
    size_t call_count, call_room;
    struct an_span host; /* first and last time of operators and steps */
};

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_loader(const char *name)
{
    static const char tail[] = ".__next__";
    size_t length = strlen(name);
    return starts(name, "enumerate(DataPipe)#") ||
           (starts(name, "enumerate(DataLoader)#") && length >= sizeof tail - 1 &&
            !strcmp(name + length - (sizeof tail - 1), tail));
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
static bool is_comm_kernel(const struct an_context *context, size_t slice)
{
    const struct an_trace *trace = context->trace;
    const struct an_device_ops *ops = &context->gpu->op;
    uint32_t device_slice = AN_NONE;
    for (size_t device_index = 0;
         device_index < context->gpu->device_count && device_slice == AN_NONE; device_index++) {
        size_t first = context->gpu->device[device_index].first,
               end = first + context->gpu->device[device_index].count;
        /* The ops of a device are sorted by start. */
        size_t low = an_times_seek(ops->start, first, end, trace->slice.start[slice]);

        for (; low < end && ops->start[low] == trace->slice.start[slice]; low++)
            if (ops->slice[low] == slice)
                device_slice = ops->launch[low];
    }
    if (device_slice == AN_NONE)
        return false;
    uint32_t parent = trace->slice.parent[device_slice];
    for (int depth = 0; parent != AN_NONE && depth < AN_DEPTH_MAX;
         depth++, parent = trace->slice.parent[parent])
        if (!strcmp(an_slice_category(trace, parent), "op"))
            return is_collective(an_trace_name(trace, trace->slice.name[parent]));
    return false;
}

static int64_t device_number(const struct an_track *track)
{
    const char *colon = strrchr(track->device, ':');
    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

/* Sorts a device event into its role and keeps it for matching with runtime calls. */
static int add_device_event(struct plugin *plugin, const struct an_compat_event *event,
                            struct an_span span)
{
    int64_t correlation = plugin->view->context->trace->slice.correlation[event->slice];
    bool kernel = event->category == AN_COMPAT_KERNEL;
    enum role role = event->category == AN_COMPAT_MEMCPY ? ROLE_Memcpy : ROLE_Memset;
    if (kernel)
        role =
            is_comm_kernel(plugin->view->context, event->slice) ? ROLE_Communication : ROLE_Kernel;

    if (an_grow(&plugin->event, &plugin->event_room, plugin->event_count + 1,
                sizeof *plugin->event))
        return TACHO_ENOMEM;
    plugin->event[plugin->event_count++] =
        (struct device_event){.span = span,
                              .correlation = correlation,
                              .device = device_number(event->track),
                              .kernel = kernel};
    return an_compat_spans_add(&plugin->role[role], span);
}

static int add_step(struct plugin *plugin, struct an_span span, const char *name)
{
    if (an_grow(&plugin->step, &plugin->step_room, plugin->step_count + 1, sizeof *plugin->step))
        return TACHO_ENOMEM;
    plugin->step[plugin->step_count++] = (struct step){.span = span, .name = strchr(name, '#') + 1};
    return 0;
}

static void widen_host(struct plugin *plugin, struct an_span span)
{
    if (span.start < plugin->host.start)
        plugin->host.start = span.start;
    if (span.end > plugin->host.end)
        plugin->host.end = span.end;
}

static enum role role_of_op(const char *name)
{
    if (is_loader(name))
        return ROLE_DataLoader;
    return is_collective(name) ? ROLE_Communication : ROLE_CpuOp;
}

/* Sorts an event into its role; steps, device events and runtime calls are kept one by one, too. */
static int collect(void *ctx, const struct an_compat_event *event)
{
    struct plugin *plugin = ctx;
    const struct an_trace *trace = plugin->view->context->trace;
    const char *name = an_trace_name(trace, trace->slice.name[event->slice]);
    struct an_span span = an_compat_span(plugin->view, plugin->group, event->slice);
    switch (event->category) {
    case AN_COMPAT_KERNEL:
    case AN_COMPAT_MEMCPY:
    case AN_COMPAT_MEMSET:
        return add_device_event(plugin, event, span);
    case AN_COMPAT_RUNTIME:
        if (an_grow(&plugin->call, &plugin->call_room, plugin->call_count + 1,
                    sizeof *plugin->call))
            return TACHO_ENOMEM;
        plugin->call[plugin->call_count++] =
            (struct runtime_call){span, trace->slice.correlation[event->slice]};
        return an_compat_spans_add(&plugin->role[ROLE_Runtime], span);
    case AN_COMPAT_OP:
    case AN_COMPAT_ANNOTATION:
        if (starts(name, "ProfilerStep#")) {
            widen_host(plugin, span);
            return add_step(plugin, span, name);
        }
        if (event->category == AN_COMPAT_OP)
            widen_host(plugin, span);
        return an_compat_spans_add(&plugin->role[role_of_op(name)], span);
    default:
        return 0;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int step_order(const void *left, const void *right)
{
    const struct step *first = left, *second = right;
    return (first->span.start > second->span.start) - (first->span.start < second->span.start);
}
static int call_order(const void *left, const void *right)
{
    const struct runtime_call *first = left, *second = right;
    return (first->span.start > second->span.start) - (first->span.start < second->span.start);
}
static int event_order(const void *left, const void *right)
{
    const struct device_event *first = left, *second = right;
    return (first->correlation > second->correlation) - (first->correlation < second->correlation);
}

/* Adds the device events that a call launched to the step that contains the call. */
static void launched_by(struct plugin *plugin, struct step *step, int64_t correlation)
{
    size_t low = 0, high = plugin->event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plugin->event[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < plugin->event_count && plugin->event[low].correlation == correlation &&
           correlation != STORE_ABSENT;
         low++) {
        struct device_event *device_event = &plugin->event[low];
        if (!step->launched || device_event->span.start < step->device_start)
            step->device_start = device_event->span.start;
        if (!step->launched || device_event->span.end > step->device_end)
            step->device_end = device_event->span.end;
        step->launched++;
        device_event->matched = true;
    }
}

/* Walks over steps and runtime calls together, both in order of start, as the plugin does. */
static void match_launches(struct plugin *plugin)
{
    if (plugin->call_count)
        qsort(plugin->call, plugin->call_count, sizeof *plugin->call, call_order);
    if (plugin->event_count)
        qsort(plugin->event, plugin->event_count, sizeof *plugin->event, event_order);
    for (size_t i = 0, k = 0; i < plugin->step_count && k < plugin->call_count;) {
        struct step *step = &plugin->step[i];
        const struct runtime_call *call = &plugin->call[k];
        if (call->span.start >= step->span.start && call->span.start >= step->span.end &&
            call->span.end > step->span.end) {
            i++;
            continue;
        }
        if (call->span.start >= step->span.start && call->span.end <= step->span.end)
            launched_by(plugin, step, call->correlation);
        k++;
    }
}

/* A step ends with the last thing it put on a device, and the next one begins there. */
static void extend_steps(struct plugin *plugin)
{
    int64_t previous = plugin->step[0].span.start;
    for (size_t i = 0; i < plugin->event_count && plugin->step[0].launched; i++)
        if (!plugin->event[i].matched && plugin->event[i].span.end < plugin->step[0].device_start &&
            plugin->event[i].span.end > previous)
            previous = plugin->event[i].span.end;
    for (size_t i = 0; i < plugin->step_count; i++) {
        struct step *step = &plugin->step[i];
        if (previous > step->span.start)
            step->span.start = previous;
        if (step->launched && step->device_end > step->span.end)
            step->span.end = step->device_end;
        if (step->span.start > step->span.end)
            step->span.end = step->span.start;
        previous = step->span.end;
    }
}

/* Removes steps at the end that launched nothing, or much less than the one before: the plugin
 * takes them for cut off. */
static void drop_tail(struct plugin *plugin)
{
    size_t last = plugin->step_count;
    while (last && !plugin->step[last - 1].launched)
        last--;
    if (plugin->step_count < 2 || !last)
        return;
    if (last > 1 &&
        (double)plugin->step[last - 2].launched * 0.8 > (double)plugin->step[last - 1].launched)
        last--;
    plugin->step_count = last;
}

/* Finds the steps of the group; without marks the host's whole time is one step. */
static int find_steps(struct plugin *plugin)
{
    if (!plugin->step_count && plugin->host.start <= plugin->host.end &&
        add_step(plugin, plugin->host, "#0"))
        return TACHO_ENOMEM;
    if (!plugin->step_count)
        return 0;
    qsort(plugin->step, plugin->step_count, sizeof *plugin->step, step_order);
    match_launches(plugin);
    bool any = false;
    for (size_t i = 0; i < plugin->step_count; i++)
        any = any || plugin->step[i].launched;
    if (any) {
        extend_steps(plugin);
        drop_tail(plugin);
    }
    return 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The time of each role is the part of the steps in it that no role before it took. Once nothing is
 * left, the plugin begins again with all the steps, and so does this function. cost[role] gets new
 * arrays. */
static int take_roles(struct plugin *plugin, struct an_compat_spans *cost)
{
    struct an_compat_spans steps = {0}, left = {0}, next = {0};
    int rc = 0;
    for (size_t i = 0; i < plugin->step_count && !rc; i++)
        rc = an_compat_spans_add(&steps, plugin->step[i].span);
    if (!rc)
        steps.count = an_spans_normalize(steps.span, steps.count);
    for (int role_index = 0; role_index < ROLE_Other && !rc; role_index++) {
        struct an_compat_spans *role = &plugin->role[role_index], *out = &cost[role_index];
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

/* Adds the time of each role in each step, and the mean over the steps. */
static int put_steps(struct plugin *plugin, const struct an_compat_spans *cost)
{
    struct an_compat_view *view = plugin->view;
    int64_t rank = view->group[plugin->group].rank;
    double sum[ROLE_COUNT + 1] = {0};
    char section[64];
    int rc = 0;
    for (size_t i = 0; i < plugin->step_count && !rc; i++) {
        const struct step *step = &plugin->step[i];
        snprintf(section, sizeof section, "step %.40s", step->name);
        for (int role = 0; role < ROLE_COUNT && !rc; role++) {
            double us = an_compat_us(view, an_spans_within(cost[role].span, cost[role].count,
                                                           step->span.start, step->span.end));
            sum[role] += us;
            rc = an_compat_put(view, rank, STORE_ABSENT, section, role_names[role], "us", us);
        }
        double total = an_compat_us(view, step->span.end - step->span.start);
        sum[ROLE_COUNT] += total;
        rc = rc ? rc : an_compat_put(view, rank, STORE_ABSENT, section, "Total", "us", total);
    }
    for (int role = 0; role <= ROLE_COUNT && !rc; role++)
        rc = an_compat_put(view, rank, STORE_ABSENT, "average",
                           role < ROLE_COUNT ? role_names[role] : "Total", "us",
                           sum[role] / (double)plugin->step_count);
    return rc;
}

/* Share of the time from the first to the last step in which a kernel ran, for each device that ran
 * one. */
static int put_utilization(struct plugin *plugin)
{
    struct an_compat_view *view = plugin->view;
    int64_t start = plugin->step[0].span.start, end = plugin->step[plugin->step_count - 1].span.end,
            device = INT64_MIN;
    for (int rc = 0;;) {
        struct an_compat_spans compat_spans = {0};
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < plugin->event_count; i++)
            if (plugin->event[i].kernel && plugin->event[i].device > device &&
                plugin->event[i].device < next)
                next = plugin->event[i].device;
        if (next == INT64_MAX)
            return 0;
        device = next;
        for (size_t i = 0; i < plugin->event_count && !rc; i++)
            if (plugin->event[i].kernel && plugin->event[i].device == device)
                rc = an_compat_spans_add(&compat_spans, plugin->event[i].span);
        if (!rc) {
            compat_spans.count = an_spans_normalize(compat_spans.span, compat_spans.count);
            double busy =
                (double)an_spans_within(compat_spans.span, compat_spans.count, start, end);
            rc = an_compat_put(view, view->group[plugin->group].rank, device, "gpu_utilization",
                               "GPU utilization", "ratio",
                               end > start ? busy / (double)(end - start) : NAN);
        }
        free(compat_spans.span);
        if (rc)
            return rc;
    }
}

int an_compat_tb(struct an_compat_view *view)
{
    int rc = 0;
    for (size_t group = 0; group < view->group_count && !rc; group++) {
        struct plugin plugin = {.view = view, .group = group, .host = {INT64_MAX, INT64_MIN}};
        struct an_compat_spans cost[ROLE_COUNT] = {{0}};
        rc = an_compat_each(view, group, collect, &plugin);
        if (!rc)
            rc = find_steps(&plugin);
        if (!rc && plugin.step_count) {
            rc = take_roles(&plugin, cost);
            if (!rc)
                rc = put_steps(&plugin, cost);
            if (!rc)
                rc = put_utilization(&plugin);
        }
        for (int role = 0; role < ROLE_COUNT; role++) {
            free(plugin.role[role].span);
            free(cost[role].span);
        }
        free(plugin.step);
        free(plugin.event);
        free(plugin.call);
    }
    return rc;
}
