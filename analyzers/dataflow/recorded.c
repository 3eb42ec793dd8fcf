/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators whose payload names the tensors that they read and write, or the operators that they
 * need (schema graph.op, docs/schema.md): {"node": 7, "needs": [3], "reads": [[ID, BYTES, OFFSET],
 * ...], "writes": [...]}. An id is that of a storage, so that a view and what it looks at are one.
 *
 * The file may be anyone's: ids may repeat, needs may lead nowhere or forward; such edges are left
 * out, and so an edge always leads from an earlier operator to a later one.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/dataflow/flow.h"

#define USES_MOST 1024         /* of one operator; what it has beyond is left out */
#define NODE      "{\"node\":" /* how such a payload begins, of whatever schema */

/* An id, or a time, and where it is. */
struct place {
    int64_t id;
    uint32_t at;
};

static int place_order(const void *left, const void *right)
{
    const struct place *first = left, *second = right;
    return 2 * AN_COMPARE(first->id, second->id) + AN_COMPARE(first->at, second->at);
}

static const char *payload_of(const struct an_trace *trace, size_t slice)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    return detail && !strncmp(detail->payload, NODE, sizeof NODE - 1) ? detail->payload : NULL;
}

/* ---- one payload ------------------------------------------------------------------------------- */

/* The list behind a key; NULL: there is none. */
static const char *list_of(const char *payload, const char *key)
{
    const char *at = strstr(payload, key);
    at = at ? at + strlen(key) : NULL;
    return at && *at == '[' ? at + 1 : NULL;
}

/* The next number of a list that ends at ']'; false: there is none. */
static bool next_number(const char **at, int64_t *number)
{
    char *end;
    *at += strspn(*at, ", ");
    if (!strchr("-0123456789", **at) || !**at)
        return false;
    *number = strtoll(*at, &end, 10);
    bool any = end != *at;
    *at = end;
    return any;
}

/* Adds the uses of a list of [id, bytes, offset]; ids become indexes later. */
static int add_uses(struct flow *flow, const char *at, bool writes, int64_t *ids)
{
    struct flow_op *op = &flow->op[flow->count - 1];
    int rc = 0;
    while (at && *at == '[' && op->uses < USES_MOST && !rc) {
        int64_t id, bytes = 0, offset = 0;
        at++;
        if (!next_number(&at, &id))
            break;
        next_number(&at, &bytes);
        next_number(&at, &offset);
        rc = an_grow(&flow->use, &flow->use_room, flow->use_count + 1, sizeof *flow->use);
        if (rc)
            break;
        bytes = bytes > 0 && bytes < INT64_MAX / 65536 ? bytes : 0;
        ids[op->uses] = id;
        flow->use[flow->use_count++] = (struct flow_use){
            .op = (uint32_t)flow->count - 1, .offset = offset, .bytes = bytes, .writes = writes};
        op->uses++;
        *(writes ? &op->written : &op->read) += bytes;
        at += strspn(at, "] ,");
    }
    return rc;
}

/* ---- all of them ------------------------------------------------------------------------------- */

struct reading {
    struct flow *flow;
    struct place *use, *node; /* ids of tensors by use; of nodes by operator */
    size_t use_room, node_count, node_room;
};

/* Is a slice around others of its kind? They come next. */
static bool holds_operators(const struct an_trace *trace, const struct an_track *track,
                            size_t slice)
{
    for (size_t i = slice + 1; i < an_track_end(track) && trace->slice.parent[i] == slice; i++)
        if (payload_of(trace, i))
            return true;
    return false;
}

/* Makes a view of an operator that only gives its operand another shape. */
static void mark_view(struct flow *flow, const int64_t *ids)
{
    struct flow_op *op = &flow->op[flow->count - 1];
    size_t own = 0;
    bool writes = false;
    if (flow_is_in_place(op->name))
        return;
    for (size_t i = 0; i < op->uses; i++) {
        if (!flow->use[op->first_use + i].writes)
            continue;
        bool read = false;
        for (size_t j = 0; j < op->uses && !read; j++)
            read = !flow->use[op->first_use + j].writes && ids[j] == ids[i];
        writes = true;
        own += !read;
    }
    if (!writes || own)
        return;
    op->kind = FLOW_VIEW;
    op->read = op->written = 0;
    for (size_t i = 0; i < op->uses; i++)
        flow->use[op->first_use + i].writes = false;
}

static int add_operator(struct reading *reading, size_t slice, const char *payload)
{
    struct flow *flow = reading->flow;
    const struct an_trace *trace = flow->context->trace;
    const char *name = an_trace_name(trace, trace->slice.name[slice]);
    struct flow_op op = {.name = name,
                         .pass = "",
                         .kind = flow_kind_of(name, false),
                         .slice = (uint32_t)slice,
                         .track = an_slice_track(trace, slice),
                         .start = trace->slice.start[slice],
                         .end = an_slice_end(trace, slice),
                         .ns = an_time_sub(an_slice_end(trace, slice), trace->slice.start[slice]),
                         .launches = 1};
    int64_t ids[USES_MOST];
    size_t first = flow->use_count;
    int rc = flow_op_add(flow, &op) ? 0 : TACHO_ENOMEM;
    rc = rc ? rc : add_uses(flow, list_of(payload, "\"reads\":"), false, ids);
    rc = rc ? rc : add_uses(flow, list_of(payload, "\"writes\":"), true, ids);
    if (!rc)
        rc = an_grow(&reading->use, &reading->use_room, flow->use_count + 1, sizeof *reading->use);
    if (!rc)
        rc = an_grow(&reading->node, &reading->node_room, reading->node_count + 1,
                     sizeof *reading->node);
    if (rc)
        return rc;
    mark_view(flow, ids);
    for (size_t i = first; i < flow->use_count; i++)
        reading->use[i] = (struct place){ids[i - first], (uint32_t)i};
    reading->node[reading->node_count++] =
        (struct place){strtoll(payload + sizeof NODE - 1, NULL, 10), (uint32_t)flow->count - 1};
    return 0;
}

/* Adds the operators of the step in the order in which they began, over all tracks. */
static int add_operators(struct reading *reading)
{
    struct flow *flow = reading->flow;
    const struct an_trace *trace = flow->context->trace;
    struct place *found = NULL;
    size_t count = 0, room = 0;
    int rc = 0;
    for (size_t t = 0; t < trace->track_count && !rc; t++) {
        const struct an_track *track = &trace->track[t];
        for (size_t i = an_slice_seek(trace, track, flow->step->host_start);
             i < an_track_end(track) && trace->slice.start[i] < flow->step->host_end && !rc; i++)
            if (payload_of(trace, i) && !holds_operators(trace, track, i) &&
                count < FLOW_OPS_MOST && !(rc = an_grow(&found, &room, count + 1, sizeof *found)))
                found[count++] = (struct place){trace->slice.start[i], (uint32_t)i};
    }
    if (count)
        qsort(found, count, sizeof *found, place_order);
    for (size_t i = 0; i < count && !rc; i++)
        rc = add_operator(reading, found[i].at, payload_of(trace, found[i].at));
    free(found);
    return rc;
}

/* ---- tensors and edges ------------------------------------------------------------------------- */

/* Gives every id an index, and each tensor its first, last and largest use. */
static int make_tensors(struct reading *reading)
{
    struct flow *flow = reading->flow;
    qsort(reading->use, flow->use_count, sizeof *reading->use, place_order);
    for (size_t i = 0; i < flow->use_count; i++) {
        struct flow_use *use = &flow->use[reading->use[i].at];
        if (!i || reading->use[i].id != reading->use[i - 1].id) {
            if (an_grow(&flow->tensor, &flow->tensor_room, flow->tensor_count + 1,
                        sizeof *flow->tensor))
                return TACHO_ENOMEM;
            flow->tensor[flow->tensor_count++] = (struct flow_tensor){
                .id = reading->use[i].id, .writer = use->writes ? use->op : AN_NONE};
        }
        struct flow_tensor *tensor = &flow->tensor[flow->tensor_count - 1];
        use->tensor = (uint32_t)flow->tensor_count - 1;
        tensor->bytes = use->bytes > tensor->bytes ? use->bytes : tensor->bytes;
        tensor->last = use->op;
        tensor->reads += !use->writes;
        tensor->writes += use->writes;
    }
    return 0;
}

/* Edges from the last writer of what an operator reads; of what it needs besides. */
static int add_edges(struct reading *reading, uint32_t index, uint32_t *writer)
{
    struct flow *flow = reading->flow;
    const struct flow_op *op = &flow->op[index];
    const char *needs = list_of(payload_of(flow->context->trace, op->slice), "\"needs\":");
    int64_t id;
    int rc = 0;
    for (size_t i = 0; i < op->uses && !rc; i++) {
        const struct flow_use *use = &flow->use[op->first_use + i];
        if (!use->writes && writer[use->tensor] != AN_NONE)
            rc = flow_edge_once(flow, &(struct flow_edge){.from = writer[use->tensor],
                                                          .to = index,
                                                          .how = FLOW_TENSOR,
                                                          .tensor = use->tensor,
                                                          .bytes = use->bytes});
    }
    for (size_t i = 0; i < op->uses; i++)
        if (flow->use[op->first_use + i].writes)
            writer[flow->use[op->first_use + i].tensor] = index;
    while (needs && reading->node_count && !rc && next_number(&needs, &id)) {
        const struct place *found = /* by the id, its first member */
            bsearch(&id, reading->node, reading->node_count, sizeof *found, an_number_order);
        if (found && found->at < index)
            rc = flow_edge_once(flow, &(struct flow_edge){.from = found->at,
                                                          .to = index,
                                                          .how = FLOW_DEPENDENCY,
                                                          .bytes = STORE_ABSENT});
    }
    return rc;
}

static int read_recorded(struct flow *flow)
{
    struct reading reading = {.flow = flow};
    int rc = add_operators(&reading);
    if (!rc && flow->use_count)
        rc = make_tensors(&reading);
    uint32_t *writer = malloc((flow->tensor_count + 1) * sizeof *writer);
    rc = rc || writer ? rc : TACHO_ENOMEM;
    if (!rc) {
        memset(writer, 0xff, (flow->tensor_count + 1) * sizeof *writer); /* AN_NONE */
        if (reading.node_count)
            qsort(reading.node, reading.node_count, sizeof *reading.node, place_order);
        for (uint32_t i = 0; i < flow->count && !rc; i++)
            rc = add_edges(&reading, i, writer);
    }
    rc = rc ? rc : flow_mark_only(flow);
    free(writer);
    free(reading.use);
    free(reading.node);
    return rc;
}

const struct flow_source flow_recorded = {.words = "tensors and dependencies of the file",
                                          .read = read_recorded};
