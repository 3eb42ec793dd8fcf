/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a track as reports and pictures print it.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/trace/trace.h"

/* Does a thread of another process of the same rank (a worker of its loader, for instance) have
 * the same name? */
static bool name_is_shared(const struct an_trace *trace, const struct an_track *track)
{
    for (size_t i = 0; track->process != AN_NONE && i < trace->track_count; i++) {
        const struct an_track *other = &trace->track[i];
        if (other->process == AN_NONE || other->process == track->process ||
            strcmp(other->kind, track->kind) || strcmp(other->name, track->name))
            continue;
        int64_t own = trace->process[track->process].rank,
                others = trace->process[other->process].rank;
        if (own == others || own == STORE_ABSENT || others == STORE_ABSENT)
            return true;
    }
    return false;
}

const char *an_track_name(const struct an_trace *trace, struct an_arena *arena,
                          const struct an_track *track)
{
    if (*track->name && !strcmp(track->kind, "thread") && name_is_shared(trace, track))
        return an_arena_format(arena, "%s, process %" PRId64, track->name,
                               trace->process[track->process].pid);
    if (*track->name)
        return an_arena_text(arena, track->name);
    return track->tid == STORE_ABSENT
               ? an_arena_text(arena, track->kind)
               : an_arena_format(arena, "%.40s %" PRId64, track->kind, track->tid);
}
