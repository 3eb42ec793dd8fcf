/* SPDX-License-Identifier: Apache-2.0
 *
 * recompute=0: the activations are kept. What was recomputed was in the caches for the operators
 * that read it; what is kept moves through memory twice more at worst, written once and read once.
 * Both ends are replayed.
 */
#include <math.h>
#include <string.h>

#include "analyzers/replay/what_if_private.h"
#include "analyzers/work/ceilings.h"

#define PASSES 2 /* of the kept bytes through memory at worst */

bool an_edits_recomputation(const struct an_edit *edit)
{
    return !strcmp(edit->key, "recompute");
}

/* The operator that computes activations again; NULL: the node is none. */
static const struct an_detail *recomputation(const struct an_replay *replay, uint32_t node)
{
    const struct an_trace *trace = replay->context->trace;
    uint32_t slice = replay->graph->slice[node];
    const struct an_detail *detail =
        slice != AN_NONE ? an_trace_detail(trace, trace->slice.detail[slice]) : NULL;
    return detail && !strcmp(detail->pass, "recompute") ? detail : NULL;
}

bool an_is_recomputation(const struct an_replay *replay, uint32_t node)
{
    return recomputation(replay, node) != NULL;
}

/* Bytes per ns of the memory that the step computes from, of one rank; 0: not measured. */
static double memory_speed(const struct an_context *context)
{
    const struct an_ceiling_row *row =
        an_ceiling_find(context, context->gpu ? "gpu" : "cpu", "bandwidth", "");
    double ranks = context->result->run.ranks > 1 ? (double)context->result->run.ranks : 1;
    return row ? row->value / (context->gpu ? 1 : ranks) / 1e9 : 0;
}

void an_plan_keep_cold(struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    double speed = memory_speed(replay->context);
    if (!(speed > 0)) {
        plan->ceiling = "the kept activations are read from memory, whose bandwidth was not "
                        "measured: tacho calibrate";
        return;
    }
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        const struct an_detail *detail = recomputation(replay, node);
        if (!detail || detail->bytes_written <= 0)
            continue;
        double cold =
            fmin(PASSES * (double)detail->bytes_written / speed, (double)replay->own[node]);
        plan->state->own[node] = (int64_t)fmax(cold, (double)plan->state->own[node]);
    }
}
