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

static uint8_t category_of(const struct an_context *c, const struct an_causes *x, size_t i)
{
    uint32_t id = c->t->slice.category[i];
    if (id == AN_NONE)
        return TEXT_PLAIN;
    if (x->category[id] == TEXT_UNKNOWN)
        x->category[id] = category_kind(an_trace_name(c->t, id));
    return x->category[id];
}

static uint8_t name_of(const struct an_context *c, const struct an_causes *x, size_t i)
{
    uint32_t id = c->t->slice.name[i];
    if (id == AN_NONE)
        return TEXT_PLAIN;
    if (x->name[id] == TEXT_UNKNOWN)
        x->name[id] = name_kind(an_trace_name(c->t, id));
    return x->name[id];
}

int an_causes_make(struct an_context *c, struct an_causes **out)
{
    struct an_causes *x = *out = an_arena_zero(c->work, 1, sizeof *x);
    if (!x)
        return TACHO_ENOMEM;
    x->category = an_arena_zero(c->work, c->t->string_count + 1, 1);
    x->name = an_arena_zero(c->work, c->t->string_count + 1, 1);
    return x->category && x->name ? 0 : TACHO_ENOMEM;
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

static enum an_cause cause_of_call(const struct an_context *c, const struct an_causes *x, size_t i)
{
    struct an_api_call a = an_slice_api(c->t, i);
    if (a.kind == AN_API_SYNC)
        return AN_CAUSE_SYNC;
    if (an_api_launches(a))
        return AN_CAUSE_LAUNCH;
    return name_of(c, x, i) == TEXT_ALLOCATION ? AN_CAUSE_ALLOCATION : AN_CAUSE_FRAMEWORK;
}

enum an_cause an_slice_cause(const struct an_context *c, const struct an_causes *x, size_t i)
{
    uint8_t category = category_of(c, x, i), name;
    if (category == TEXT_API)
        return cause_of_call(c, x, i);
    if (category == TEXT_OVERHEAD)
        return AN_CAUSE_PROFILER;
    enum an_role role = an_slice_role(c->t, i);
    if (c->gpu && (role == AN_ROLE_COMM || role == AN_ROLE_WORK) &&
        an_trace_role(c->t, c->t->slice.detail[i]) == AN_ROLE_NONE)
        return AN_CAUSE_FRAMEWORK; /* the host only asks for it */
    if (role != AN_ROLE_NONE)
        return cause_of_role(role);
    name = name_of(c, x, i);
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
static bool is_cut(const struct an_context *c, const struct an_causes *x, size_t i,
                   enum an_node_kind *kind)
{
    const struct an_trace *t = c->t;
    enum an_role role = an_trace_role(t, t->slice.detail[i]);
    *kind = kind_of_role(role);
    if (role != AN_ROLE_NONE)
        return true;
    if (category_of(c, x, i) == TEXT_API) {
        struct an_api_call a = an_slice_api(t, i);
        uint8_t name = name_of(c, x, i);
        *kind = a.kind == AN_API_SYNC ? AN_NODE_WAIT : AN_NODE_HOST;
        return a.kind == AN_API_SYNC || an_api_launches(a) || name == TEXT_EVENT ||
               name == TEXT_ALLOCATION;
    }
    role = an_slice_role(t, i);
    *kind = kind_of_role(role);
    if (role == AN_ROLE_NONE || (c->gpu && (role == AN_ROLE_COMM || role == AN_ROLE_WORK)))
        return false;
    uint32_t p = t->slice.parent[i];
    return role != AN_ROLE_WORK || p == AN_NONE || an_slice_role(t, p) != AN_ROLE_WORK;
}

/* A range that only marks a step. */
static bool marks_step(const struct an_context *c, const struct an_causes *x, const uint8_t *step,
                       size_t i)
{
    return step[i] || an_trace_role(c->t, c->t->slice.detail[i]) == AN_ROLE_STEP ||
           name_of(c, x, i) == TEXT_STEP;
}

static bool is_outermost(const struct an_context *c, const struct an_causes *x, const uint8_t *step,
                         size_t i)
{
    uint32_t p = c->t->slice.parent[i];
    while (p != AN_NONE && marks_step(c, x, step, p))
        p = c->t->slice.parent[p];
    return p == AN_NONE;
}

static int cut_thread(struct an_context *c, struct an_graph_build *b, const struct an_causes *x,
                      const uint8_t *step, const struct an_track *k)
{
    const struct an_trace *t = c->t;
    size_t stop = k->slice_first + k->slice_count;
    enum an_node_kind kind;
    bool any = false;
    for (size_t i = k->slice_first; i < stop; i++) {
        if (!is_cut(c, x, i, &kind))
            continue;
        any = true;
        if (an_graph_cut(b, i, kind, an_slice_cause(c, x, i)))
            return TACHO_ENOMEM;
    }
    for (size_t i = k->slice_first; any && i < stop; i++) {
        bool marker = marks_step(c, x, step, i);
        if (is_cut(c, x, i, &kind) || t->slice.dur[i] == 0 ||
            !(marker || is_outermost(c, x, step, i)))
            continue;
        if (an_graph_cut(b, i, marker ? AN_NODE_THINK : AN_NODE_HOST,
                         marker ? AN_CAUSE_THINK : an_slice_cause(c, x, i)))
            return TACHO_ENOMEM;
    }
    return 0;
}

static int cut_threads(struct an_context *c, struct an_graph_build *b)
{
    const struct an_trace *t = c->t;
    const struct an_causes *x = an_graph_built(b)->causes;
    uint8_t *step = calloc(t->slice.count + 1, 1);
    int rc = step ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count && !rc; i++)
        if (c->step[i].slice != AN_NONE)
            step[c->step[i].slice] = 1;
    for (size_t k = 0; k < t->track_count && !rc; k++)
        if (!strcmp(t->track[k].kind, "thread"))
            rc = cut_thread(c, b, x, step, &t->track[k]);
    free(step);
    return rc;
}

int an_graph_cut_pauses(const struct an_context *c, struct an_graph_build *b, uint32_t track,
                        enum an_cause cause, struct an_graph_pause **pause, size_t *count)
{
    const struct an_trace *t = c->t;
    const struct an_track *k = &t->track[track];
    struct an_graph_pause *list = NULL;
    size_t n = 0, room = 0;
    int64_t end = INT64_MIN;
    int rc = 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !rc; i++) {
        if (end != INT64_MIN && t->slice.start[i] > end) {
            struct an_graph_pause p = {end, t->slice.start[i], track, 0};
            rc = an_graph_cut_span(b, track, p.start, p.end, AN_NONE, AN_NODE_WAIT, cause, &p.span);
            rc = rc ? rc : an_grow(&list, &room, n + 1, sizeof *list);
            if (!rc)
                list[n++] = p;
        }
        end = an_slice_end(t, i) > end ? an_slice_end(t, i) : end;
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
