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
static uint64_t key_of(const struct an_replay *r, uint32_t n, uint32_t piece)
{
    const struct an_graph *g = r->g;
    const struct an_slices *x = &r->c->t->slice;
    uint32_t slice = g->slice[n],
             name = slice != AN_NONE && g->kind[n] != AN_NODE_THINK ? x->name[slice] : AN_NONE;
    uint32_t detail = slice != AN_NONE && g->kind[n] != AN_NODE_THINK ? x->detail[slice] : AN_NONE;
    uint64_t key = ((uint64_t)g->track[n] << 32 | name) * 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
    key = (key ^ ((uint64_t)detail << 16 | (uint64_t)g->kind[n] << 8 | g->cause[n])) *
          0xbf58476d1ce4e5b9u;
    key ^= key >> 32;
    return (key ^ piece) * 0x94d049bb133111ebu;
}

/* `pieces`: of every slice how many pieces of it have been seen. */
static size_t gather(const struct an_replay *r, uint16_t *pieces, struct an_pair *pair)
{
    const struct an_graph *g = r->g;
    size_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t piece = g->slice[n] != AN_NONE ? pieces[g->slice[n]] : 0;
        if (g->slice[n] != AN_NONE && piece < PIECES_MOST)
            pieces[g->slice[n]]++;
        if (r->inside[n] && r->own[n] > 0)
            pair[count++] = (struct an_pair){.key = key_of(r, n, piece), .value = n};
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

int an_replay_fastest(const struct an_replay *r, int64_t *own)
{
    struct an_pair *pair = malloc((r->node_count + 1) * sizeof *pair),
                   *room = malloc((r->node_count + 1) * sizeof *room);
    double *x = (void *)room; /* the room to sort in is free when it is sorted */
    uint16_t *pieces = calloc(r->c->t->slice.count + 1, sizeof *pieces);
    int rc = pair && room && pieces ? 0 : TACHO_ENOMEM;
    size_t count = rc ? 0 : gather(r, pieces, pair);
    if (!rc)
        an_pairs_sort(pair, room, count);
    for (size_t i = 0, last; i < count; i = last) {
        for (last = i; last < count && pair[last].key == pair[i].key; last++)
            x[last - i] = (double)r->own[pair[last].value];
        if (last - i < REPEATS_LEAST)
            continue;
        int64_t fast = (int64_t)below_fastest(x, last - i);
        for (size_t k = i; k < last; k++)
            own[pair[k].value] = fast;
    }
    for (size_t i = 0; i < r->node_count && !rc; i++)
        if (r->g->kind[r->node[i]] == AN_NODE_COLLECTIVE)
            own[r->node[i]] =
                0; /* on threads it holds waking up behind the last arrival: an upper bound */
    free(pair);
    free(room);
    free(pieces);
    return rc;
}
