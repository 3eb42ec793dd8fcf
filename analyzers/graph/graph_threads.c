/* SPDX-License-Identifier: Apache-2.0
 *
 * Where threads are cut: at calls of the accelerator's API, at ranges that say what they are, and,
 * on threads that have any of these, at their outermost ranges, so that only what no range covers
 * is THINK. A range that marks a step is no explanation of what a thread did: its own time is
 * THINK, too. Operators of a framework are cut on CPU runs, the outermost ones where names tell the
 * role.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph.h"

/* What a text says, found once for each. */
enum {
    TEXT_UNKNOWN,
    TEXT_PLAIN,
    TEXT_API,
    TEXT_EVENT,
    TEXT_OVERHEAD,
    TEXT_STEP,
    TEXT_ALLOCATION,
    TEXT_COLLECTION
};

struct an_causes {
    uint8_t *category, *name; /* of strings */
};

static bool has_any(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (strstr(s, *words))
            return true;
    return false;
}

static uint8_t category_kind(const char *s)
{
    return an_category_is_call(s) ? TEXT_API : !strcmp(s, "overhead") ? TEXT_OVERHEAD : TEXT_PLAIN;
}

static uint8_t name_kind(const char *s)
{
    static const char *const allocation[] = {"Malloc",  "MemAlloc",  "MemPool",      "MemCreate",
                                             "MemMap",  "HostAlloc", "HostRegister", "MemAddress",
                                             "hipFree", "cudaFree",  "cuMemFree",    NULL};
    static const char *const event[] = {"EventRecord", "StreamWait", NULL};
    if (!strncmp(s, "ProfilerStep#", 13))
        return TEXT_STEP;
    if (has_any(s, event))
        return TEXT_EVENT;
    if (has_any(s, allocation))
        return TEXT_ALLOCATION;
    return !strcmp(s, "gc") || !strncmp(s, "gc.", 3) || !strncmp(s, "garbage", 7) ? TEXT_COLLECTION
                                                                                  : TEXT_PLAIN;
}

static uint8_t category_of(const struct an_context *context, const struct an_causes *causes,
                           size_t i)
{
    uint32_t id = context->trace->slice.category[i];
    if (id == AN_NONE)
        return TEXT_PLAIN;
    if (causes->category[id] == TEXT_UNKNOWN)
        causes->category[id] = category_kind(an_trace_name(context->trace, id));
    return causes->category[id];
}

static uint8_t name_of(const struct an_context *context, const struct an_causes *causes, size_t i)
{
    uint32_t id = context->trace->slice.name[i];
    if (id == AN_NONE)
        return TEXT_PLAIN;
    if (causes->name[id] == TEXT_UNKNOWN)
        causes->name[id] = name_kind(an_trace_name(context->trace, id));
    return causes->name[id];
}

int an_causes_make(struct an_context *context, struct an_causes **out)
{
    struct an_causes *causes = *out = an_arena_zero(context->scratch, 1, sizeof *causes);
    if (!causes)
        return TACHO_ENOMEM;
    causes->category = an_arena_zero(context->scratch, context->trace->string_count + 1, 1);
    causes->name = an_arena_zero(context->scratch, context->trace->string_count + 1, 1);
    return causes->category && causes->name ? 0 : TACHO_ENOMEM;
}

/* ---- causes -------------------------------------------------------------------------------------------------------------- */

static enum an_cause cause_of_role(enum an_role role)
{
    if (an_role_is_input(role))
        return AN_CAUSE_INPUT;
    switch (role) {
    case AN_ROLE_WORK:
        return AN_CAUSE_COMPUTE;
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_CAUSE_TRANSFER;
    case AN_ROLE_CHECKPOINT:
    case AN_ROLE_EVALUATION:
        return AN_CAUSE_PHASE;
    case AN_ROLE_COMPILE:
        return AN_CAUSE_COMPILE;
    case AN_ROLE_STEP:
        return AN_CAUSE_THINK;
    default:
        return AN_CAUSE_FRAMEWORK;
    }
}

static enum an_cause cause_of_call(const struct an_context *context, const struct an_causes *causes,
                                   size_t i)
{
    struct an_api_call call = an_slice_api(context->trace, i);
    if (call.kind == AN_API_SYNC)
        return AN_CAUSE_SYNC;
    if (an_api_launches(call))
        return AN_CAUSE_LAUNCH;
    return name_of(context, causes, i) == TEXT_ALLOCATION ? AN_CAUSE_ALLOCATION
                                                          : AN_CAUSE_FRAMEWORK;
}

enum an_cause an_slice_cause(const struct an_context *context, const struct an_causes *causes,
                             size_t i)
{
    uint8_t category = category_of(context, causes, i), name;
    if (category == TEXT_API)
        return cause_of_call(context, causes, i);
    if (category == TEXT_OVERHEAD)
        return AN_CAUSE_PROFILER;
    enum an_role role = an_slice_role(context->trace, i);
    if (context->gpu && (role == AN_ROLE_COMM || role == AN_ROLE_WORK) &&
        an_trace_role(context->trace, context->trace->slice.detail[i]) == AN_ROLE_NONE)
        return AN_CAUSE_FRAMEWORK; /* the host only asks for it */
    if (role != AN_ROLE_NONE)
        return cause_of_role(role);
    name = name_of(context, causes, i);
    return name == TEXT_STEP         ? AN_CAUSE_THINK
           : name == TEXT_COLLECTION ? AN_CAUSE_COLLECTION
                                     : AN_CAUSE_FRAMEWORK;
}

/* ---- cuts ---------------------------------------------------------------------------------------------------------------- */

static enum an_node_kind kind_of_role(enum an_role role)
{
    if (role == AN_ROLE_STEP)
        return AN_NODE_THINK;
    if (role == AN_ROLE_COMM_WAIT || role == AN_ROLE_QUEUE_WAIT || role == AN_ROLE_INPUT_WAIT)
        return AN_NODE_WAIT;
    return role == AN_ROLE_COMM ? AN_NODE_COLLECTIVE : AN_NODE_HOST;
}

/* Is it a range that others can depend on, or that depends on others? Then *kind is what it
 * becomes. */
static bool is_cut(const struct an_context *context, const struct an_causes *causes, size_t i,
                   enum an_node_kind *kind)
{
    const struct an_trace *trace = context->trace;
    enum an_role role = an_trace_role(trace, trace->slice.detail[i]);
    *kind = kind_of_role(role);
    if (role != AN_ROLE_NONE)
        return true;
    if (category_of(context, causes, i) == TEXT_API) {
        struct an_api_call call = an_slice_api(trace, i);
        uint8_t name = name_of(context, causes, i);
        *kind = call.kind == AN_API_SYNC ? AN_NODE_WAIT : AN_NODE_HOST;
        return call.kind == AN_API_SYNC || an_api_launches(call) || name == TEXT_EVENT ||
               name == TEXT_ALLOCATION;
    }
    role = an_slice_role(trace, i);
    *kind = kind_of_role(role);
    if (role == AN_ROLE_NONE || (context->gpu && (role == AN_ROLE_COMM || role == AN_ROLE_WORK)))
        return false;
    uint32_t p = trace->slice.parent[i];
    return role != AN_ROLE_WORK || p == AN_NONE || an_slice_role(trace, p) != AN_ROLE_WORK;
}

/* A range that only marks a step. */
static bool marks_step(const struct an_context *context, const struct an_causes *causes,
                       const uint8_t *step, size_t i)
{
    return step[i] ||
           an_trace_role(context->trace, context->trace->slice.detail[i]) == AN_ROLE_STEP ||
           name_of(context, causes, i) == TEXT_STEP;
}

static bool is_outermost(const struct an_context *context, const struct an_causes *causes,
                         const uint8_t *step, size_t i)
{
    uint32_t p = context->trace->slice.parent[i];
    while (p != AN_NONE && marks_step(context, causes, step, p))
        p = context->trace->slice.parent[p];
    return p == AN_NONE;
}

static int cut_thread(struct an_context *context, struct an_graph_build *build,
                      const struct an_causes *causes, const uint8_t *step,
                      const struct an_track *track)
{
    const struct an_trace *trace = context->trace;
    size_t stop = track->slice_first + track->slice_count;
    enum an_node_kind kind;
    bool any = false;
    for (size_t i = track->slice_first; i < stop; i++) {
        if (!is_cut(context, causes, i, &kind))
            continue;
        any = true;
        if (an_graph_cut(build, i, kind, an_slice_cause(context, causes, i)))
            return TACHO_ENOMEM;
    }
    for (size_t i = track->slice_first; any && i < stop; i++) {
        bool marker = marks_step(context, causes, step, i);
        if (is_cut(context, causes, i, &kind) || trace->slice.dur[i] == 0 ||
            !(marker || is_outermost(context, causes, step, i)))
            continue;
        if (an_graph_cut(build, i, marker ? AN_NODE_THINK : AN_NODE_HOST,
                         marker ? AN_CAUSE_THINK : an_slice_cause(context, causes, i)))
            return TACHO_ENOMEM;
    }
    return 0;
}

static int cut_threads(struct an_context *context, struct an_graph_build *build)
{
    const struct an_trace *trace = context->trace;
    const struct an_causes *causes = an_graph_built(build)->causes;
    uint8_t *step = calloc(trace->slice.count + 1, 1);
    int rc = step ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count && !rc; i++)
        if (context->step[i].slice != AN_NONE)
            step[context->step[i].slice] = 1;
    for (size_t k = 0; k < trace->track_count && !rc; k++)
        if (!strcmp(trace->track[k].kind, "thread"))
            rc = cut_thread(context, build, causes, step, &trace->track[k]);
    free(step);
    return rc;
}

int an_graph_cut_pauses(const struct an_context *context, struct an_graph_build *build,
                        uint32_t track, enum an_cause cause, struct an_graph_pause **pause,
                        size_t *count)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *k = &trace->track[track];
    struct an_graph_pause *list = NULL;
    size_t n = 0, room = 0;
    int64_t end = INT64_MIN;
    int rc = 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !rc; i++) {
        if (end != INT64_MIN && trace->slice.start[i] > end) {
            struct an_graph_pause graph_pause = {end, trace->slice.start[i], track, 0};
            rc = an_graph_cut_span(build, track, graph_pause.start, graph_pause.end, AN_NONE,
                                   AN_NODE_WAIT, cause, &graph_pause.span);
            rc = rc ? rc : an_grow(&list, &room, n + 1, sizeof *list);
            if (!rc)
                list[n++] = graph_pause;
        }
        end = an_slice_end(trace, i) > end ? an_slice_end(trace, i) : end;
    }
    if (!pause || rc) {
        free(list);
        return rc;
    }
    *pause = list;
    *count = n;
    return 0;
}

const struct an_graph_builder an_graph_threads = {"threads", cut_threads, NULL};
