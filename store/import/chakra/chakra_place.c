/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts for a graph that has durations and none: each node, in the order of the file among those
 * that are ready, begins when what it needs has ended and its lane is free. The longest chain of
 * dependencies is the time that no number of lanes goes below.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/chakra/chakra_private.h"

/* Nodes that wait for others, and the heap of those that do not. */
struct placing {
    struct chakra *chakra;
    bool data_only; /* dependencies by control do not count */
    size_t *user;   /* nodes that need node i: user[first_user[i]] up to the next one's */
    size_t *first_user;
    size_t *waits; /* needs of node i that have not ended */
    int64_t *ready, *path;
    size_t *heap;
    size_t heap_count;
    int64_t lane_free[CHAKRA_LANE_COUNT];
};

static size_t need_end(const struct chakra *chakra, size_t node)
{
    return node + 1 < chakra->count ? chakra->node[node + 1].first_need : chakra->need_count;
}

/* Adds a node to the heap, whose top is the first one of the file. */
static void heap_push(struct placing *placing, size_t node)
{
    size_t at = placing->heap_count++;
    for (; at && placing->heap[(at - 1) / 2] > node; at = (at - 1) / 2)
        placing->heap[at] = placing->heap[(at - 1) / 2];
    placing->heap[at] = node;
}

static size_t heap_pop(struct placing *placing)
{
    size_t *heap = placing->heap, top = heap[0], last = heap[--placing->heap_count], at = 0;
    for (size_t child = 1; child < placing->heap_count; child = 2 * at + 1) {
        child += child + 1 < placing->heap_count && heap[child + 1] < heap[child];
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static int make_room(struct placing *placing)
{
    size_t count = placing->chakra->count, needs = placing->chakra->need_count;
    placing->user = calloc(needs + 1, sizeof *placing->user);
    placing->first_user = calloc(count + 2, sizeof *placing->first_user);
    placing->waits = calloc(count + 1, sizeof *placing->waits);
    placing->ready = calloc(count + 1, sizeof *placing->ready);
    placing->path = calloc(count + 1, sizeof *placing->path);
    placing->heap = calloc(count + 1, sizeof *placing->heap);
    bool room = placing->user && placing->first_user && placing->waits && placing->ready &&
                placing->path && placing->heap;
    return room ? 0 : TACHO_ENOMEM;
}

/* Turns the ids of needs into places. A node that names itself, or one that is not there, needs
 * nothing of it: -1. */
static int resolve_needs(struct chakra *chakra)
{
    struct imp_map place = {0};
    int rc = 0;
    for (size_t i = 0; i < chakra->count && !rc; i++)
        rc = imp_map_put(&place, chakra->node[i].id, 0, (int64_t)i);
    for (size_t i = 0; i < chakra->count && !rc; i++)
        for (size_t need = chakra->node[i].first_need; need < need_end(chakra, i); need++) {
            const int64_t *found = imp_map_find(&place, chakra->need[need], 0);
            chakra->missing += !found;
            chakra->need[need] = found && *found != (int64_t)i ? *found : -1;
        }
    imp_map_free(&place);
    return rc;
}

/* Does a node wait for one of its needs? */
static bool counts(const struct placing *placing, size_t index, size_t need)
{
    const struct chakra_node *node = &placing->chakra->node[index];
    bool by_data = need >= node->first_data_need && need < node->first_data_need + node->data_needs;
    return placing->chakra->need[need] >= 0 && (by_data || !placing->data_only);
}

/* Turns the needs of each node into the users of each node. */
static void link_nodes(struct placing *placing)
{
    const struct chakra *chakra = placing->chakra;
    for (size_t i = 0; i < chakra->count; i++)
        for (size_t need = chakra->node[i].first_need; need < need_end(chakra, i); need++)
            if (counts(placing, i, need)) {
                placing->waits[i]++;
                placing->first_user[chakra->need[need] + 2]++;
            }
    for (size_t i = 0; i < chakra->count; i++)
        placing->first_user[i + 1] += placing->first_user[i];
    for (size_t i = 0; i < chakra->count; i++)
        for (size_t need = chakra->node[i].first_need; need < need_end(chakra, i); need++)
            if (counts(placing, i, need))
                placing->user[placing->first_user[chakra->need[need] + 1]++] = i;
}

/* Places one node and makes those ready that waited for it alone. A node without a duration passes
 * on when it could have begun. */
static void place_node(struct placing *placing, size_t index)
{
    struct chakra *chakra = placing->chakra;
    struct chakra_node *node = &chakra->node[index];
    int64_t *lane = &placing->lane_free[chakra_lane_of(node)], end = placing->ready[index];
    if (node->dur != STORE_ABSENT) {
        node->start = end > *lane ? end : *lane;
        end = node->start + node->dur;
        *lane = end;
        placing->path[index] += node->dur;
    }
    if (placing->path[index] > chakra->path_ns)
        chakra->path_ns = placing->path[index];
    for (size_t i = placing->first_user[index]; i < placing->first_user[index + 1]; i++) {
        size_t user = placing->user[i];
        if (end > placing->ready[user])
            placing->ready[user] = end;
        if (placing->path[index] > placing->path[user])
            placing->path[user] = placing->path[index];
        if (!--placing->waits[user])
            heap_push(placing, user);
    }
}

/* Would the sum of all durations still be a time? */
static bool fits(const struct chakra *chakra)
{
    int64_t sum = 0;
    for (size_t i = 0; i < chakra->count; i++)
        if (chakra->node[i].dur != STORE_ABSENT &&
            (__builtin_add_overflow(sum, chakra->node[i].dur, &sum) || sum > IMP_TIME_MAX))
            return false;
    return true;
}

/* Places all nodes by their dependencies; those in a circle, or behind one, stay without a start.
 */
static int place_all(struct chakra *chakra, bool data_only)
{
    struct placing placing = {.chakra = chakra, .data_only = data_only};
    size_t placed = 0;
    int rc = make_room(&placing);
    if (!rc)
        link_nodes(&placing);
    for (size_t i = 0; i < chakra->count && !rc; i++)
        if (!placing.waits[i])
            heap_push(&placing, i);
    while (!rc && placing.heap_count) {
        place_node(&placing, heap_pop(&placing));
        placed++;
    }
    chakra->circular = rc ? 0 : (int64_t)(chakra->count - placed);
    free(placing.user);
    free(placing.first_user);
    free(placing.waits);
    free(placing.ready);
    free(placing.path);
    free(placing.heap);
    return rc;
}

int chakra_place(struct chakra *chakra)
{
    chakra->path_ns = STORE_ABSENT;
    if (chakra->timed || !chakra->count || !fits(chakra))
        return 0;
    chakra->path_ns = 0;
    int rc = resolve_needs(chakra);
    if (!rc)
        rc = place_all(chakra, false);
    if (rc || !chakra->circular)
        return rc;
    /* Dependencies by control say who called whom, too, and a graph of PyTorch has circles of them;
     * Chakra's own feeder goes by data alone. */
    chakra->circular_control = chakra->circular;
    chakra->path_ns = 0;
    for (size_t i = 0; i < chakra->count; i++)
        chakra->node[i].start = STORE_ABSENT;
    return place_all(chakra, true);
}
