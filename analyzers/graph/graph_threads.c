/* SPDX-License-Identifier: Apache-2.0
 *
 * Where threads are cut into nodes: at calls of the accelerator's API, at ranges that have a role,
 * and, on threads that have any of these, at their outermost ranges, so that only time outside of
 * every range is UNTRACED. A range that marks a step does not explain what a thread did: its own
 * time is UNTRACED, too. On CPU runs the operators of a framework are cut as well, the outermost
 * ones where their role comes from the name.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

static enum an_node_kind kind_of_role(enum an_role role)
{
    if (role == AN_ROLE_STEP)
        return AN_NODE_UNTRACED;
    if (role == AN_ROLE_COMM_WAIT || role == AN_ROLE_QUEUE_WAIT || role == AN_ROLE_INPUT_WAIT)
        return AN_NODE_WAIT;
    return role == AN_ROLE_COMM ? AN_NODE_COLLECTIVE : AN_NODE_HOST;
}

/* Can others depend on range `i`, or can it depend on others? Then it is cut, and *kind is what it
 * becomes. */
static bool is_dependent(const struct an_context *context, const struct an_causes *causes, size_t i,
                         enum an_node_kind *kind)
{
    const struct an_trace *trace = context->trace;
    enum an_role role = an_trace_role(trace, trace->slice.detail[i]);
    *kind = kind_of_role(role);
    if (role != AN_ROLE_NONE)
        return true;
    if (an_slice_category_kind(context, causes, i) == AN_TEXT_API) {
        struct an_api_call call = an_slice_api(trace, i);
        enum an_text_kind name = an_slice_name_kind(context, causes, i);
        *kind = call.kind == AN_API_SYNC ? AN_NODE_WAIT : AN_NODE_HOST;
        return call.kind == AN_API_SYNC || an_api_launches(call) || name == AN_TEXT_EVENT ||
               name == AN_TEXT_ALLOCATION;
    }
    role = an_slice_role(trace, i);
    *kind = kind_of_role(role);
    if (role == AN_ROLE_NONE || (context->gpu && (role == AN_ROLE_COMM || role == AN_ROLE_WORK)))
        return false;
    uint32_t parent = trace->slice.parent[i];
    return role != AN_ROLE_WORK || parent == AN_NONE ||
           an_slice_role(trace, parent) != AN_ROLE_WORK;
}

/* What cutting all threads has in common. */
struct cutter {
    struct an_graph_build *build;
    const struct an_context *context;
    const struct an_causes *causes;
    uint8_t *is_step; /* of every slice: it is the range of a step */
};

/* Does range `i` only mark a step? */
static bool marks_step(const struct cutter *cutter, size_t i)
{
    const struct an_trace *trace = cutter->context->trace;
    return cutter->is_step[i] || an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_STEP ||
           an_slice_name_kind(cutter->context, cutter->causes, i) == AN_TEXT_STEP;
}

/* Is nothing but step markers around range `i`? */
static bool is_outermost(const struct cutter *cutter, size_t i)
{
    const uint32_t *parents = cutter->context->trace->slice.parent;
    uint32_t parent = parents[i];
    while (parent != AN_NONE && marks_step(cutter, parent))
        parent = parents[parent];
    return parent == AN_NONE;
}

/* Cuts the ranges of one thread that take part in dependencies; if there are any, also its step
 * markers and outermost ranges. */
static void cut_thread(const struct cutter *cutter, const struct an_track *track)
{
    const struct an_context *context = cutter->context;
    size_t end = track->slice_first + track->slice_count;
    enum an_node_kind kind;
    bool any = false;
    for (size_t i = track->slice_first; i < end; i++)
        if (is_dependent(context, cutter->causes, i, &kind)) {
            any = true;
            an_graph_cut(cutter->build, i, kind, an_slice_cause(context, cutter->causes, i));
        }
    for (size_t i = track->slice_first; any && i < end; i++) {
        if (is_dependent(context, cutter->causes, i, &kind) || context->trace->slice.dur[i] == 0)
            continue;
        if (marks_step(cutter, i))
            an_graph_cut(cutter->build, i, AN_NODE_UNTRACED, AN_CAUSE_UNTRACED);
        else if (is_outermost(cutter, i))
            an_graph_cut(cutter->build, i, AN_NODE_HOST,
                         an_slice_cause(context, cutter->causes, i));
    }
}

static int cut_threads(struct an_graph_build *build)
{
    const struct an_context *context = build->context;
    const struct an_trace *trace = context->trace;
    struct cutter cutter = {.build = build,
                            .context = context,
                            .causes = build->graph->causes,
                            .is_step = calloc(trace->slice.count + 1, 1)};
    if (!cutter.is_step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        if (context->step[i].slice != AN_NONE)
            cutter.is_step[context->step[i].slice] = 1;
    for (size_t i = 0; i < trace->track_count; i++)
        if (!strcmp(trace->track[i].kind, "thread"))
            cut_thread(&cutter, &trace->track[i]);
    free(cutter.is_step);
    return 0;
}

const struct an_graph_builder an_graph_threads = {cut_threads, NULL};
