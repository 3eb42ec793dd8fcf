/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host did while devices had nothing to run: the launch-starved time of all devices by
 * the name of the range or call. Waiting for the loader is a class of its own and not part of it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/sets.h"
#include "analyzers/device/value_wait.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/graph/graph.h"

#define CANDIDATES_MOST 8
#define HOST_OP_NS      200000 /* mean: to dispatch an operator takes less */

struct named {
    const char *name;
    int64_t ns;
};

/* Waiting for the loader is a finding of its own. */
static bool is_input(const struct an_absent_cause *cause)
{
    return !strcmp(cause->cause, an_cause_key(AN_CAUSE_INPUT));
}

/* Time of a name on all devices. */
static int64_t time_of(const struct an_result *result, const char *name)
{
    int64_t ns = 0;
    for (size_t device = 0; device < result->absent_count; device++)
        for (size_t i = 0; i < result->absent[device].cause_count; i++) {
            const struct an_absent_cause *cause = &result->absent[device].causes[i];
            if (!is_input(cause) && !strcmp(cause->name, name))
                ns = an_time_add(ns, cause->ns);
        }
    return ns;
}

/* The device that was launch-starved longest, NULL: no cause is known. *all_ns: of all devices. */
static const struct an_absent *most_starved(const struct an_result *result, int64_t *all_ns)
{
    const struct an_absent *most = NULL;
    *all_ns = 0;
    for (size_t device = 0; device < result->absent_count; device++) {
        const struct an_absent *absent = &result->absent[device];
        for (size_t i = 0; i < absent->cause_count; i++)
            if (!is_input(&absent->causes[i]))
                *all_ns = an_time_add(*all_ns, absent->causes[i].ns);
        if (absent->cause_count && (!most || absent->part_ns[AN_ABSENT_LAUNCH_STARVED].value >
                                                 most->part_ns[AN_ABSENT_LAUNCH_STARVED].value))
            most = absent;
    }
    return most;
}

/* The two names with most time on all devices, among the first names of the device that was
 * starved longest. */
static void largest_two(const struct an_result *result, const struct an_absent *most,
                        struct named *first, struct named *second)
{
    for (size_t i = 0; i < most->cause_count && i < CANDIDATES_MOST; i++) {
        const char *name = most->causes[i].name;
        bool known = (first->name && !strcmp(first->name, name)) ||
                     (second->name && !strcmp(second->name, name));
        if (known || !*name || is_input(&most->causes[i]))
            continue;
        struct named named = {name, time_of(result, name)};
        if (named.ns > first->ns) {
            *second = *first;
            *first = named;
        } else if (named.ns > second->ns) {
            *second = named;
        }
    }
}

const char *an_idle_host(struct an_context *context)
{
    struct named first = {NULL, 0}, second = {NULL, 0};
    int64_t all_ns;
    const struct an_absent *most = most_starved(context->result, &all_ns);
    if (most)
        largest_two(context->result, most, &first, &second);
    if (!first.name || all_ns <= 0)
        return NULL;
    double second_pct = 100 * (double)second.ns / (double)all_ns;
    return an_finding_text(
        context,
        "while the device waits for the next launch the host spends %.0f %% in %.70s itself%s",
        100 * (double)first.ns / (double)all_ns, first.name,
        second_pct >= 5 ? an_finding_text(context, ", %.0f %% in %.70s", second_pct, second.name)
                        : "");
}

const char *an_idle_cause(const struct an_context *context, const char **name)
{
    const struct an_result *result = context->result;
    int64_t of_cause[AN_CAUSE_COUNT] = {0}, largest[AN_CAUSE_COUNT] = {0};
    const char *named[AN_CAUSE_COUNT] = {NULL};
    size_t most = AN_CAUSE_FRAMEWORK;
    for (size_t device = 0; device < result->absent_count; device++)
        for (size_t i = 0; i < result->absent[device].cause_count; i++) {
            const struct an_absent_cause *row = &result->absent[device].causes[i];
            size_t cause = 0;
            while (cause < AN_CAUSE_COUNT && strcmp(row->cause, an_cause_key((enum an_cause)cause)))
                cause++;
            if (is_input(row) || cause == AN_CAUSE_COUNT)
                continue;
            of_cause[cause] = an_time_add(of_cause[cause], row->ns);
            if (row->ns > largest[cause] && *row->name) {
                largest[cause] = row->ns;
                named[cause] = row->name;
            }
            most = of_cause[cause] > of_cause[most] ? cause : most;
        }
    *name = named[most] ? named[most] : "";
    return of_cause[most] ? an_cause_key((enum an_cause)most) : "";
}

/* ---- data made on the host ------------------------------------------------------------------- */

/* Does an operator of that name launch something on a device? */
static bool launches_work(const struct an_result *result, const char *name)
{
    const struct an_attribution *attribution = &result->attribution[0];
    for (size_t i = 0; i < attribution->row_count; i++)
        if (!strcmp(attribution->rows[i].name, name))
            return attribution->rows[i].kernels > 0;
    return false;
}

/* The mean time of the ranges with that name, ns. */
static int64_t mean_ns(const struct an_trace *trace, const char *name)
{
    int64_t sum = 0, count = 0;
    uint32_t id = 0;
    while (id < trace->string_count && strcmp(trace->string[id], name) != 0)
        id++;
    for (size_t i = 0; i < trace->slice.count && id < trace->string_count; i++)
        if (trace->slice.name[i] == id && trace->slice.dur[i] != AN_OPEN) {
            sum = an_time_add(sum, trace->slice.dur[i]);
            count++;
        }
    return count ? sum / count : 0;
}

const char *an_host_operator_action(struct an_context *context, const char *name)
{
    static const char *const random[] = {"normal", "rand",        "uniform",   "bernoulli",
                                         "cauchy", "exponential", "geometric", "multinomial"};
    if (strncmp(name, "aten::", 6) != 0 || launches_work(context->result, name) ||
        mean_ns(context->trace, name) < HOST_OP_NS)
        return NULL;
    for (size_t i = 0; i < sizeof random / sizeof *random; i++)
        if (strstr(name, random[i]))
            return an_finding_text(context,
                                   "%.60s makes random numbers on the processor: make them on the "
                                   "device (device=\"cuda\" of torch.randn and the like), or "
                                   "ahead, in the workers of a DataLoader",
                                   name);
    return NULL;
}

/* ---- waits of the host ----------------------------------------------------------------------- */

/* The lane with a device whose steps have most unattributed time; NULL: no lane has any. */
static const struct an_lane *most_unattributed(const struct an_context *context)
{
    const struct an_lane *most = NULL;
    int64_t most_ns = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_lane *lane = &context->lane[i];
        int64_t ns = 0;
        for (size_t k = lane->first; k < an_lane_end(lane); k++)
            if (an_step_detailed(&context->step[k]))
                ns = an_time_add(ns, context->step[k].class_ns[AN_CLASS_UNATTRIBUTED]);
        if (lane->device == AN_NONE || lane->process == AN_NONE || ns <= most_ns)
            continue;
        most = lane;
        most_ns = ns;
    }
    return most;
}

/* The times of a lane's counted steps at which its device runs nothing. */
static int idle_of(struct an_context *context, const struct an_lane *lane, struct an_set *idle)
{
    struct an_span_list steps = {NULL, 0, 0};
    struct an_set busy = {NULL, 0};
    int rc = an_device_spans(context->gpu, &context->gpu->device[lane->device], ~0u, INT64_MIN,
                             INT64_MAX, &busy.span, &busy.count);
    for (size_t i = lane->first; i < an_lane_end(lane) && !rc; i++)
        if (an_step_detailed(&context->step[i]))
            rc = an_span_list_add(&steps, context->step[i].start, context->step[i].end);
    rc = rc ? rc
            : an_set_combine(context->scratch, an_spans_subtract, an_span_list_set(&steps), busy,
                             idle);
    free(steps.span);
    return rc;
}

/* Adds the ranges of one thread: waits to a list, the runtime's by name. */
static int add_thread(const struct an_context *context, const struct an_track *track,
                      struct an_set idle, struct an_span_list *waits, int64_t *by_name,
                      struct an_idle_wait *out)
{
    const struct an_trace *trace = context->trace;
    int64_t longest = 0;
    int rc = 0;
    for (size_t i = track->slice_first; i < an_track_end(track) && !rc; i++) {
        const char *category = an_slice_category(trace, i);
        int64_t start = trace->slice.start[i], end = an_slice_end(trace, i),
                ns = an_set_within(idle, start, end);
        bool python = !strcmp(category, "python");
        out->stacks = out->stacks || python;
        if (!strcmp(category, "xla") && trace->slice.name[i] < trace->string_count)
            by_name[trace->slice.name[i]] = an_time_add(by_name[trace->slice.name[i]], ns);
        if (!python || !ns || !an_slice_says_wait(trace, i))
            continue;
        rc = an_span_list_add(waits, start, end);
        out->wait = ns > longest ? an_trace_name(trace, trace->slice.name[i]) : out->wait;
        longest = ns > longest ? ns : longest;
    }
    return rc;
}

int an_idle_wait(struct an_context *context, struct an_idle_wait *out)
{
    const struct an_trace *trace = context->trace;
    const struct an_lane *lane = context->gpu ? most_unattributed(context) : NULL;
    struct an_span_list waits = {NULL, 0, 0};
    struct an_set idle = {NULL, 0}, waited = {NULL, 0};
    *out = (struct an_idle_wait){.wait = NULL};
    int64_t *by_name =
        lane ? an_arena_zero(context->scratch, trace->string_count + 1, sizeof *by_name) : NULL;
    if (!by_name)
        return lane ? TACHO_ENOMEM : 0;
    int rc = idle_of(context, lane, &idle);
    for (size_t i = 0; i < trace->track_count && !rc; i++)
        if (trace->track[i].process == lane->process && !strcmp(trace->track[i].kind, "thread"))
            rc = add_thread(context, &trace->track[i], idle, &waits, by_name, out);
    rc = rc ? rc
            : an_set_combine(context->scratch, an_spans_intersect, idle, an_span_list_set(&waits),
                             &waited);
    free(waits.span);
    int64_t idle_ns = an_set_measure(idle), most = idle_ns / 2;
    for (uint32_t name = 0; name < trace->string_count && !rc; name++)
        if (by_name[name] > most) {
            most = by_name[name];
            out->runtime = an_trace_name(trace, name);
        }
    out->pct = idle_ns ? an_percent((double)an_set_measure(waited), (double)idle_ns) : 0;
    return rc;
}
