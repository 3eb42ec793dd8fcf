/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks of the job are not in the file, in words: without them transfer and waiting cannot be
 * separated.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define MISSING_NAMED 8 /* ranks that are listed by number */

/* The ranks of the lanes that take part, in order, each once; *count of them. */
static int64_t *list_ranks(struct an_context *context, const bool *takes_part, size_t *count)
{
    int64_t *ranks = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *ranks);
    size_t listed = 0;
    for (size_t lane = 0; ranks && lane < context->lane_count; lane++)
        if (takes_part[lane])
            ranks[listed++] = context->lane[lane].rank;
    *count = ranks ? an_distinct(ranks, listed) : 0;
    return ranks;
}

static const char *how_to_complete(const struct an_context *context)
{
    return an_trace_imported(context->trace)
               ? "put the traces of all ranks into one folder and report that"
               : "record all ranks (tacho run -- mpirun ...), or merge their files (tacho merge)";
}

/* The ranks the job says it has, where the calls do not say who takes part; marks the lanes that
 * are among them. */
static int64_t ranks_of_job(const struct an_context *context, bool *takes_part)
{
    const char *world = an_trace_key(context->trace, "world_size");
    int64_t expected = world ? strtoll(world, NULL, 10) : 0;
    for (size_t lane = 0; takes_part && lane < context->lane_count; lane++)
        takes_part[lane] = context->lane[lane].rank >= 0 && context->lane[lane].rank < expected;
    return expected;
}

/* "1, 3 ...": the first of the missing ranks; `ranks` are there. */
static const char *missing_names(struct an_context *context, const int64_t *ranks, size_t count,
                                 int64_t expected, int64_t missing)
{
    int64_t listed = 0;
    const char *names = "";
    size_t at = 0;
    for (int64_t rank = 0; rank < expected && listed < MISSING_NAMED; rank++) {
        while (at < count && ranks[at] < rank)
            at++;
        if (at == count || ranks[at] != rank)
            names = an_arena_format(context->scratch, "%s%s%" PRId64, names, listed++ ? ", " : "",
                                    rank);
    }
    return missing > listed ? an_arena_format(context->scratch, "%s ...", names) : names;
}

/* "rank 1 of 2 is not in the file: ...": of the largest communicator, or of the job where calls do
 * not say who takes part. NULL: all are there, or its size is not known. */
const char *an_comm_missing(struct an_context *context, const struct an_comm_calls *calls)
{
    int64_t expected = 0, present = 0;
    size_t count = 0;
    bool by_job = false;
    bool *takes_part = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *takes_part);
    for (size_t i = 0; i < calls->count; i++)
        expected = calls->call[i].ranks > expected ? calls->call[i].ranks : expected;
    for (size_t i = 0; takes_part && i < calls->count; i++)
        if (calls->call[i].lane < context->lane_count && calls->call[i].ranks == expected)
            takes_part[calls->call[i].lane] = true;
    for (size_t lane = 0; takes_part && lane < context->lane_count; lane++)
        present += takes_part[lane];
    const char *how = how_to_complete(context);
    if (!expected && calls->count) {
        expected = ranks_of_job(context, takes_part);
        by_job = true;
    }
    const int64_t *ranks = takes_part ? list_ranks(context, takes_part, &count) : NULL;
    present = by_job ? (int64_t)count : present;
    if (!ranks || !context->lane_count || present >= expected)
        return NULL;
    const char *names = missing_names(context, ranks, count, expected, expected - present);
    if (expected - present > 1)
        return an_arena_format(context->arena, "ranks %s of %" PRId64 " are not in the file: %s",
                               names, expected, how);
    return an_arena_format(context->arena, "rank %s of %" PRId64 " is not in the file: %s", names,
                           expected, how);
}
