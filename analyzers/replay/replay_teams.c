/* SPDX-License-Identifier: Apache-2.0
 *
 * What work loses to other programs where it waits for other threads: those of its team, or other
 * ranks (replay_shares_private.h).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/system.h"
#include "analyzers/replay/replay_shares_private.h"
#include "analyzers/steps/command.h"

#define SLICE     3e6 /* ns that a scheduler gives a thread before the next one: Linux 1.4 to 4 ms */
#define HELD_MOST 0.98 /* of the work of a rank */

/* ns of the own work of a lane's thread in the replayed steps. */
static double lane_work(const struct an_shares *shares, const struct an_lane *lane)
{
    const struct an_graph *graph = shares->replay->graph;
    double sum = 0;
    for (uint32_t node = (uint32_t)graph->track_first[lane->track];
         node < graph->track_first[lane->track + 1]; node++)
        if (shares->replay->inside[node] && shares->share_of[node] != AN_NO_SHARE)
            sum += (double)shares->replay->own[node];
    return sum;
}

/* ns of the frames that the first thread of a process waited for a core. */
static double waited_ns(const struct an_shares *shares, uint32_t process)
{
    const struct an_replay *replay = shares->replay;
    double sum = 0;
    for (size_t i = 0; i < replay->frame_count; i++) {
        const struct an_replay_frame *frame = &replay->frame[i];
        struct an_value rate =
            an_system_rate_of(replay->context, "cpu_wait", NULL, process, frame->start, frame->end);
        sum += rate.valid ? rate.value / 1e9 * (double)an_time_sub(frame->end, frame->start) : 0;
    }
    return sum;
}

float *an_shares_held(const struct an_shares *shares, double of_others, double spread_ns)
{
    const struct an_context *context = shares->replay->context;
    float *held = an_arena_zero(context->scratch, context->trace->track_count + 1, sizeof *held);
    for (size_t i = 0; i < context->lane_count && held; i++) {
        const struct an_lane *lane = &context->lane[i];
        double work = lane->track == AN_NONE ? 0 : lane_work(shares, lane),
               waited = of_others * waited_ns(shares, lane->process);
        work = fmax(work, spread_ns);
        for (size_t track = 0; track < context->trace->track_count && work > 0; track++)
            if (context->trace->track[track].process == lane->process)
                held[track] = (float)fmin(HELD_MOST, waited / work);
    }
    return held;
}

/* The worker that is woken gets a core when a thread of the team sleeps at a barrier, and keeps it
 * until its batch is made. The thread that it took the core from waits there: it was on that core
 * too lately to be moved to another one that is free for a moment. */
double an_shares_stops(const struct an_shares *shares, double batch_ns)
{
    struct an_context *context = shares->replay->context;
    const struct an_reading *work = &shares->reading[0];
    if (!shares->cores || an_command_team(context) == 1)
        return 0;
    double teams = (double)context->lane_count / (double)shares->hosts,
           threads = ceil((double)work->demand[AN_CAUSE_COMPUTE] - AN_CORES_ROUNDED),
           wanted = fmin(1, (double)work->demand[AN_CAUSE_INPUT]);
    bool fills = threads > 1 && threads * teams >= shares->share[0].capacity;
    return fills && wanted * batch_ns < SLICE ? wanted : 0;
}

int an_shares_find_evens(struct an_shares *shares)
{
    const struct an_replay *replay = shares->replay;
    size_t nodes = replay->graph->node_count;
    int64_t *fast = malloc((nodes + 1) * sizeof *fast);
    shares->evens = an_arena_zero(replay->context->scratch, nodes, sizeof *shares->evens);
    int rc = fast && shares->evens ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memcpy(fast, replay->own, nodes * sizeof *fast);
        rc = an_replay_fastest(replay, fast);
    }
    for (size_t node = 0; node < nodes && !rc; node++)
        shares->evens[node] = (float)fmin(1, (double)fast[node] / SLICE);
    free(fast);
    return rc;
}
