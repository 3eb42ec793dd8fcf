/* SPDX-License-Identifier: Apache-2.0
 *
 * The second level of the verdict: whether memory, arithmetic or latency binds the kernels of the
 * device, from the roofline of each (work/bounds.c). The first level says whether it is the device
 * that holds the step.
 */
#include <string.h>

#include "analyzers/findings/findings_private.h"
#include "analyzers/graph/causes.h"

#define NAMED_PCT    1.0 /* of the kernels' time: less is not named */
#define FAMILIES     5
#define PACE_PCT     50.0 /* of the critical path: with less on the device the host sets the pace */
#define UNTRACED_PCT 50.0 /* of it: too much of the host is unknown to say why */

static double bound_pct(const struct an_kernel_bounds *bounds, enum an_bound bound)
{
    return an_percent((double)bounds->ns[bound], (double)bounds->total_ns);
}

/* "without a known limit; by name they are GEMMs 41 %, attention 10 %": the kinds of work of
 * kernels whose bound is not known, in % of the time of all kernels. */
static const char *family_words(struct an_context *context)
{
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    const int64_t *ns = bounds->unknown_family_ns;
    bool named[AN_FAMILY_COUNT] = {false};
    const char *text = "without a known limit; by name they are";
    if (2 * ns[AN_FAMILY_OTHER] > bounds->ns[AN_BOUND_UNKNOWN])
        return "without a known place under the roofline";
    for (int count = 0; count < FAMILIES; count++) {
        int most = -1;
        for (int family = 0; family < AN_FAMILY_COUNT; family++)
            if (!named[family] && (most < 0 || ns[family] > ns[most]))
                most = family;
        double pct = an_percent((double)ns[most], (double)bounds->total_ns);
        if (pct < NAMED_PCT)
            break;
        named[most] = true;
        text = an_finding_text(context, "%s%s %s %.0f %%", text, count ? "," : "",
                               an_family_text((enum an_family)most), pct);
    }
    return text;
}

/* What the class says in words. */
static const char *class_words(struct an_context *context)
{
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    static const char *const words[][2] = {
        {"MEMORY-BOUND", "that reach 60 % of the memory's bandwidth or more"},
        {"COMPUTE-BOUND", "that reach 60 % of the arithmetic peak of their type or more"},
        {"LATENCY-BOUND",
         "that are shorter than 10 us or have fewer blocks than the device has SMs"}};
    if (!strcmp(bounds->class, "UNKNOWN"))
        return family_words(context);
    bool memory = bounds->ns[AN_BOUND_BELOW_MEMORY] >= bounds->ns[AN_BOUND_BELOW_COMPUTE];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], bounds->class))
            return words[i][1];
    return memory ? "that reach neither roof, mostly where memory is the nearer one"
                  : "that reach neither roof, mostly where arithmetic is the nearer one";
}

/* "memory-bound 31 %, latency-bound 4 %": the bounds with time, the largest first. What the class
 * itself says is not said again where its bound is unknown. */
static const char *share_words(struct an_context *context)
{
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    bool named[AN_BOUND_COUNT] = {[AN_BOUND_UNKNOWN] = !strcmp(bounds->class, "UNKNOWN")};
    const char *text = "";
    for (;;) {
        int most = -1;
        for (int bound = 0; bound < AN_BOUND_COUNT; bound++)
            if (!named[bound] && bound_pct(bounds, (enum an_bound)bound) >= NAMED_PCT &&
                (most < 0 || bounds->ns[bound] > bounds->ns[most]))
                most = bound;
        if (most < 0)
            return text;
        named[most] = true;
        text = an_finding_text(context, "%s%s%s %.1f %%", text, *text ? ", " : "",
                               an_bound_text((enum an_bound)most),
                               bound_pct(bounds, (enum an_bound)most));
    }
}

/* Share of the critical path that is work of the device, or of what it waits for there. */
static double path_on_device(const struct an_critical_path *path)
{
    static const enum an_cause causes[] = {AN_CAUSE_COMPUTE, AN_CAUSE_TRANSFER, AN_CAUSE_PEERS,
                                           AN_CAUSE_COPY, AN_CAUSE_OPAQUE};
    double sum = 0;
    for (size_t i = 0; i < path->cause_count; i++)
        for (size_t k = 0; k < sizeof causes / sizeof *causes; k++)
            if (!strcmp(path->causes[i].key, an_cause_key(causes[k])))
                sum += an_value_or_0(path->causes[i].pct);
    return sum;
}

const char *an_verdict_pace(struct an_context *context)
{
    const struct an_critical_path *path = &context->result->critical_path;
    if (path->reason || path->doubt || !path->cause_count)
        return "";
    double on_device = path_on_device(path), untraced = an_value_or_0(path->think_pct);
    if (on_device >= PACE_PCT)
        return "";
    if (untraced >= UNTRACED_PCT)
        return an_finding_text(context,
                               " Only %.1f %% of the critical path is on the device: %.1f %% is "
                               "time of the host that no range explains, so it is not known what "
                               "the kernels wait for.",
                               on_device, untraced);
    return an_finding_text(context,
                           " Only %.1f %% of the critical path is on the device all the same: its "
                           "kernels wait for their launches, so faster kernels alone gain little.",
                           on_device);
}

bool an_idle_is_held(const struct an_context *context)
{
    const struct an_count *unexplained = &context->result->budget.ns[AN_CLASS_UNATTRIBUTED];
    return context->gpu && unexplained->valid && 2 * context->held_ns > unexplained->value;
}

const char *an_verdict_idle(struct an_context *context)
{
    struct an_idle_wait wait;
    if (an_idle_is_held(context))
        return "is recorded as idle time of the device although its next work was issued";
    if (!context->result->budget.pct[AN_CLASS_HOST].valid)
        return "leaves the device idle, and the trace has no ranges of the threads that drive it";
    if (!an_idle_wait(context, &wait) && wait.wait && wait.pct >= AN_IDLE_WAIT_LEAST)
        return an_finding_text(
            context, "leaves the device idle, most of it while the program waits in %.80s",
            wait.wait);
    return "leaves the device idle for no known reason";
}

/* Does an operation run at the speed of memory, or of a cache: near the roof of its bytes? */
static bool at_memory_speed(const struct an_roofline_point *point)
{
    bool bytes =
        point->bound && (!strcmp(point->bound, "memory") || !strcmp(point->bound, "cached"));
    return bytes && point->achieved_flops >= AN_BOUND_NEAR * point->attainable_flops;
}

double an_memory_speed_pct(const struct an_result *result)
{
    int64_t memory_ns = 0, all_ns = 0;
    for (size_t i = 0; i < result->point_count; i++) {
        const struct an_roofline_point *point = &result->points[i];
        all_ns += point->time_ns;
        if (at_memory_speed(point))
            memory_ns += point->time_ns;
    }
    return an_percent((double)memory_ns, (double)all_ns);
}

void an_verdict_device(struct an_context *context)
{
    struct an_kernel_bounds *bounds = &context->result->bounds;
    if (bounds->reason || !bounds->class)
        return;
    const char *why = "", *shares = share_words(context), *claim;
    if (bounds->unknown && bound_pct(bounds, AN_BOUND_UNKNOWN) >= NAMED_PCT)
        why = an_finding_text(context, "unknown because %s", bounds->unknown);
    if (*shares && *why)
        shares = an_finding_text(context, "%s; %s", shares, why);
    else if (*why)
        shares = why;
    if (!strcmp(bounds->class, "MIXED"))
        claim = an_finding_text(context, "%.1f %% of their time is under the most frequent limit",
                                bounds->class_pct.value);
    else
        claim = an_finding_text(context, "%.1f %% of their time is in kernels %s",
                                bounds->class_pct.value, class_words(context));
    bounds->sentence =
        *shares ? an_finding_text(context, "Kernels %s: %s (%s).", bounds->class, claim, shares)
                : an_finding_text(context, "Kernels %s: %s.", bounds->class, claim);
}
