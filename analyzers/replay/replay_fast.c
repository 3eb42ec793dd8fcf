/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast each piece of work was at best (replay.h). Where an edit removes most of a step, this
 * bounds from below what the rest of the step takes.
 */
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/base/stats.h"
#include "analyzers/replay/replay.h"

#define REPEATS_LEAST 8
#define PIECES_MOST   1023 /* of one range that are distinguished */

/* Equal for pieces that do the same: of one track, kind and cause, in ranges that share name and
 * detail, and in the same place of these ranges. */
static uint64_t key_of(const struct an_replay *replay, uint32_t node, uint32_t piece)
{
    const struct an_graph *graph = replay->graph;
    const struct an_slices *slices = &replay->context->trace->slice;
    uint32_t slice = graph->slice[node],
             name = slice != AN_NONE && graph->kind[node] != AN_NODE_UNTRACED ? slices->name[slice]
                                                                              : AN_NONE;
    uint32_t detail =
        slice != AN_NONE && graph->kind[node] != AN_NODE_UNTRACED ? slices->detail[slice] : AN_NONE;
    uint64_t key = ((uint64_t)graph->track[node] << 32 | name) * 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
    key = (key ^ ((uint64_t)detail << 16 | (uint64_t)graph->kind[node] << 8 | graph->cause[node])) *
          0xbf58476d1ce4e5b9u;
    key ^= key >> 32;
    return (key ^ piece) * 0x94d049bb133111ebu;
}

/* `pieces`: of every slice how many pieces of it have been seen. */
static size_t collect_pieces(const struct an_replay *replay, uint16_t *pieces, struct an_pair *pair)
{
    const struct an_graph *graph = replay->graph;
    size_t count = 0;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        uint32_t piece = graph->slice[node] != AN_NONE ? pieces[graph->slice[node]] : 0;
        if (graph->slice[node] != AN_NONE && piece < PIECES_MOST)
            pieces[graph->slice[node]]++;
        if (replay->inside[node] && replay->own[node] > 0)
            pair[count++] = (struct an_pair){.key = key_of(replay, node, piece), .value = node};
    }
    return count;
}

static double fastest_of(double *values, size_t count)
{
    double fastest = values[0];
    for (size_t i = 1; i < count; i++)
        fastest = values[i] < fastest ? values[i] : fastest;
    return fastest;
}

/* The time that a quarter of the repeats kept: they began with warmer caches than the others. */
static double lower_quartile(double *values, size_t count)
{
    return an_quantile_of(values, count, 0.25);
}

static double median(double *values, size_t count)
{
    return an_quantile_of(values, count, 0.5);
}

/* Sets own[] of all pieces with enough repeats to what `typical` makes of the times of the repeats;
 * of those in `among` (of every node; NULL: all). */
static int set_pieces(const struct an_replay *replay, const uint8_t *among,
                      double (*typical)(double *, size_t), int64_t *own)
{
    struct an_pair *pair = malloc((replay->node_count + 1) * sizeof *pair),
                   *sort_room = malloc((replay->node_count + 1) * sizeof *sort_room);
    double *values = (void *)sort_room; /* the room to sort in is free when it is sorted */
    uint16_t *pieces = calloc(replay->context->trace->slice.count + 1, sizeof *pieces);
    int rc = pair && sort_room && pieces ? 0 : TACHO_ENOMEM;
    size_t count = rc ? 0 : collect_pieces(replay, pieces, pair);
    if (!rc)
        an_pairs_sort(pair, sort_room, count);
    for (size_t i = 0, last; i < count; i = last) {
        size_t repeats = 0;
        for (last = i; last < count && pair[last].key == pair[i].key; last++)
            if (!among || among[pair[last].value])
                values[repeats++] = (double)replay->own[pair[last].value];
        if (repeats < REPEATS_LEAST)
            continue;
        int64_t own_ns = (int64_t)typical(values, repeats);
        for (size_t j = i; j < last; j++)
            own[pair[j].value] = own_ns;
    }
    free(pair);
    free(sort_room);
    free(pieces);
    return rc;
}

int an_replay_quick(const struct an_replay *replay, int64_t *own)
{
    int rc = set_pieces(replay, NULL, lower_quartile, own);
    for (size_t i = 0; i < replay->node_count && !rc; i++)
        if (replay->graph->kind[replay->node[i]] == AN_NODE_COLLECTIVE)
            own[replay->node[i]] =
                0; /* on threads it holds waking up after the last arrival: an upper bound */
    return rc;
}

int an_replay_fastest(const struct an_replay *replay, int64_t *own)
{
    return set_pieces(replay, NULL, fastest_of, own);
}

int an_replay_usual(const struct an_replay *replay, int64_t *own)
{
    return set_pieces(replay, NULL, median, own);
}

int an_replay_usual_among(const struct an_replay *replay, const uint8_t *among, int64_t *own)
{
    return set_pieces(replay, among, median, own);
}
