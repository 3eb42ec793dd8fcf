/* SPDX-License-Identifier: Apache-2.0
 *
 * The flame graph of ranges: the ranges of the threads that run steps, inside the detailed steps,
 * merged by the path of names that leads to them. The root is the steps themselves. A graph has a
 * bounded number of rows; the smallest paths are dropped first.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/pictures/flame_private.h"

#define DEPTH_MOST 64
#define NODES_MOST 65536 /* while building */
#define ROWS_MOST  1500

struct open_range {
    int64_t end;
    uint32_t node;
};

struct flame {
    const struct an_context *context;
    struct an_flame_node *node;
    size_t count, room;
    uint32_t *bucket; /* NODES_MOST of them: first node, AN_NONE: none */
    struct open_range open[DEPTH_MOST];
    size_t depth;
};

static uint32_t hash_of(uint32_t parent, uint32_t name)
{
    uint64_t hash = ((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 48);
}
_Static_assert(NODES_MOST == 1 << 16, "hash_of gives 16 bits");

/* The child of that name; AN_NONE: there is no room for a new one. */
static int child(struct flame *flame, uint32_t parent, uint32_t name, uint32_t *out)
{
    uint32_t *head = &flame->bucket[hash_of(parent, name)];
    for (uint32_t i = *head; i != AN_NONE; i = flame->node[i].next)
        if (flame->node[i].parent == parent && flame->node[i].name == name) {
            *out = i;
            return 0;
        }
    *out = AN_NONE;
    if (flame->count == NODES_MOST)
        return 0;
    int rc = an_grow(&flame->node, &flame->room, flame->count + 1, sizeof *flame->node);
    if (rc)
        return rc;
    *out = (uint32_t)flame->count;
    flame->node[flame->count++] =
        (struct an_flame_node){.name = name, .parent = parent, .next = *head};
    *head = *out;
    return 0;
}

/* Adds the ranges of one step to the tree. Ranges of foreign traces may outlast the range around
 * them; they are cut at its end. */
static int add_step(struct flame *flame, const struct an_lane *lane, const struct an_step *step)
{
    const struct an_trace *trace = flame->context->trace;
    const struct an_track *track = &trace->track[lane->track];
    int rc = 0;
    flame->depth = 0;
    flame->node[0].total =
        an_time_add(flame->node[0].total, an_time_sub(step->host_end, step->host_start));
    flame->node[0].count++;
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < track->slice_first + track->slice_count && trace->slice.start[i] < step->host_end &&
         !rc;
         i++) {
        int64_t start = trace->slice.start[i], end = an_slice_end(trace, i);
        while (flame->depth && flame->open[flame->depth - 1].end <= start)
            flame->depth--;
        int64_t limit = flame->depth ? flame->open[flame->depth - 1].end : step->host_end;
        if (i == step->slice || flame->depth == DEPTH_MOST || trace->slice.dur[i] == AN_OPEN)
            continue;
        uint32_t parent = flame->depth ? flame->open[flame->depth - 1].node : 0, node;
        if (end > limit)
            end = limit;

        rc = child(flame, parent, trace->slice.name[i], &node);
        if (rc || node == AN_NONE)
            continue;
        flame->node[node].total = an_time_add(flame->node[node].total, end - start);
        flame->node[node].count++;
        flame->open[flame->depth++] = (struct open_range){end, node};
    }
    return rc;
}

/* Is a lane the first one of its thread? Two devices may share a thread, whose ranges count once.
 */
static bool is_first_of_track(const struct an_context *context, size_t lane)
{
    for (size_t i = 0; i < lane; i++)
        if (context->lane[i].track == context->lane[lane].track)
            return false;
    return context->lane[lane].track != AN_NONE;
}

static int descending(const void *left, const void *right)
{
    const int64_t *first = left, *second = right;
    return (*first < *second) - (*first > *second);
}

/* The time from which on a node is kept. A child never has more than its parent, so the nodes that
 * are kept form a tree. */
static int threshold(const struct an_flame_node *node, size_t count, int64_t *out)
{
    *out = 0;
    if (count <= ROWS_MOST)
        return 0;
    int64_t *total = malloc(count * sizeof *total);
    if (!total)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++)
        total[i] = node[i].total;
    qsort(total, count, sizeof *total, descending);
    *out = total[ROWS_MOST] + 1; /* of equal nodes all are dropped */
    free(total);
    return 0;
}

int an_flame_rows(struct an_context *context, const struct an_flame_node *node, size_t count,
                  const char *root, const char *source, struct an_flame *out)
{
    int64_t least;
    uint32_t *row_of = malloc(count * sizeof *row_of);
    struct an_flame_row *row =
        an_arena_zero(context->arena, count < ROWS_MOST ? count : ROWS_MOST, sizeof *row);
    int rc = row_of && row ? threshold(node, count, &least) : TACHO_ENOMEM;
    size_t row_count = 0;
    for (uint32_t i = 0; i < count && !rc; i++) {
        const struct an_flame_node *flame_node = &node[i];
        row_of[i] = AN_NONE;
        if (i && (flame_node->total < least || row_of[flame_node->parent] == AN_NONE))
            continue;
        row_of[i] = (uint32_t)row_count;
        row[row_count++] = (struct an_flame_row){
            .name =
                i ? an_arena_text(context->arena, an_trace_name(context->trace, flame_node->name))
                  : root,
            .parent = row_of[flame_node->parent],
            .total_ns = flame_node->total,
            .count = flame_node->count};
    }
    *out = (struct an_flame){.source = source, .row = row, .row_count = row_count};
    free(row_of);
    return rc;
}

/* Builds the tree from every thread that runs steps. The first node is the root. */
static int flame_run(struct an_context *context)
{
    struct flame flame = {.context = context, .bucket = malloc(NODES_MOST * sizeof *flame.bucket)};
    int rc = flame.bucket ? an_grow(&flame.node, &flame.room, 1, sizeof *flame.node) : TACHO_ENOMEM;
    if (!rc) {
        memset(flame.bucket, 0xff, NODES_MOST * sizeof *flame.bucket);
        flame.node[flame.count++] = (struct an_flame_node){.name = AN_NONE, .next = AN_NONE};
    }
    for (size_t lane_index = 0; lane_index < context->lane_count && !rc; lane_index++) {
        const struct an_lane *lane = &context->lane[lane_index];
        for (size_t i = lane->first;
             i < lane->first + lane->count && is_first_of_track(context, lane_index) && !rc; i++)
            if (an_step_detailed(&context->step[i]) && context->step[i].host_end != STORE_ABSENT)
                rc = add_step(&flame, lane, &context->step[i]);
    }
    if (!rc && flame.count > 1)
        rc = an_flame_rows(context, flame.node, flame.count, "steps",
                           "ranges of the threads that run steps", &context->result->flame);
    else if (!rc)
        context->result->flame.reason =
            "no range lies inside a counted step on a thread that runs steps";
    free(flame.node);
    free(flame.bucket);
    return rc;
}

static void flame_absent(struct an_context *context, const char *reason)
{
    context->result->flame.reason = reason;
}

const struct an_analyzer an_flame = {
    .name = "flame",
    .help = "ranges of the threads that run steps, as a tree",
    .after = "steps",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = flame_run,
    .absent = flame_absent,
};
