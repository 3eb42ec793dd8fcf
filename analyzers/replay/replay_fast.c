/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast each piece of work was at best (replay.h): what the rest of a step can come to when most
 * of it goes.
 */
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/base/stats.h"
#include "analyzers/replay/replay.h"

#define REPEATS_LEAST 8
#define PIECES_MOST   1023 /* of one range that are told apart */

/* Pieces that do the same: of one track, kind and cause, of ranges that share name and detail, and
 * the same piece of them. */
static uint64_t key_of(const struct an_replay *replay, uint32_t n, uint32_t piece)
{
    const struct an_graph *graph = replay->graph;
    const struct an_slices *slices = &replay->context->trace->slice;
    uint32_t slice = graph->slice[n], name = slice != AN_NONE && graph->kind[n] != AN_NODE_THINK
                                                 ? slices->name[slice]
                                                 : AN_NONE;
    uint32_t detail =
        slice != AN_NONE && graph->kind[n] != AN_NODE_THINK ? slices->detail[slice] : AN_NONE;
    uint64_t key = ((uint64_t)graph->track[n] << 32 | name) * 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
    key = (key ^ ((uint64_t)detail << 16 | (uint64_t)graph->kind[n] << 8 | graph->cause[n])) *
          0xbf58476d1ce4e5b9u;
    key ^= key >> 32;
    return (key ^ piece) * 0x94d049bb133111ebu;
}

/* `pieces`: of every slice how many pieces of it have been seen. */
static size_t gather(const struct an_replay *replay, uint16_t *pieces, struct an_pair *pair)
{
    const struct an_graph *graph = replay->graph;
    size_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        uint32_t piece = graph->slice[n] != AN_NONE ? pieces[graph->slice[n]] : 0;
        if (graph->slice[n] != AN_NONE && piece < PIECES_MOST)
            pieces[graph->slice[n]]++;
        if (replay->inside[n] && replay->own[n] > 0)
            pair[count++] = (struct an_pair){.key = key_of(replay, n, piece), .value = n};
    }
    return count;
}

/* As much below the fastest repeat as that is below the usual one: every repeat in the run came
 * behind the same pause, so even the fastest may have begun with cold caches. */
static double below_fastest(double *x, size_t n)
{
    double fastest = x[0];
    for (size_t i = 1; i < n; i++)
        fastest = x[i] < fastest ? x[i] : fastest;
    double usual = an_quantile_of(x, n, 0.5);
    return usual > 0 ? fastest * fastest / usual : 0;
}

int an_replay_fastest(const struct an_replay *replay, int64_t *own)
{
    struct an_pair *pair = malloc((replay->node_count + 1) * sizeof *pair),
                   *room = malloc((replay->node_count + 1) * sizeof *room);
    double *x = (void *)room; /* the room to sort in is free when it is sorted */
    uint16_t *pieces = calloc(replay->context->trace->slice.count + 1, sizeof *pieces);
    int rc = pair && room && pieces ? 0 : TACHO_ENOMEM;
    size_t count = rc ? 0 : gather(replay, pieces, pair);
    if (!rc)
        an_pairs_sort(pair, room, count);
    for (size_t i = 0, last; i < count; i = last) {
        for (last = i; last < count && pair[last].key == pair[i].key; last++)
            x[last - i] = (double)replay->own[pair[last].value];
        if (last - i < REPEATS_LEAST)
            continue;
        int64_t fast = (int64_t)below_fastest(x, last - i);
        for (size_t k = i; k < last; k++)
            own[pair[k].value] = fast;
    }
    for (size_t i = 0; i < replay->node_count && !rc; i++)
        if (replay->graph->kind[replay->node[i]] == AN_NODE_COLLECTIVE)
            own[replay->node[i]] =
                0; /* on threads it holds waking up behind the last arrival: an upper bound */
    free(pair);
    free(room);
    free(pieces);
    return rc;
}
