/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout in words and as options.
 */
#include <inttypes.h>
#include <stdio.h>

#include "reports/plan/plan_private.h"

const char *plan_layout_words(const struct plan_layout *layout, char buf[PLAN_LAYOUT])
{
    char chunks[32] = "", context[32] = "", expert[32] = "";
    if (layout->chunks > 1)
        snprintf(chunks, sizeof chunks, " in %" PRId64 " chunks", layout->chunks);
    if (layout->context > 1)
        snprintf(context, sizeof context, " x cp %" PRId64, layout->context);
    if (layout->expert > 1)
        snprintf(expert, sizeof expert, ", ep %" PRId64, layout->expert);
    snprintf(buf, PLAN_LAYOUT,
             "dp %" PRId64 " x tp %" PRId64 " x pp %" PRId64 "%s%s%s, micro %" PRId64
             ", ZeRO-%d, recompute %s",
             layout->data, layout->tensor, layout->pipeline, chunks, context, expert,
             layout->micro_batch, layout->zero, plan_recompute_name(layout->recompute));
    return buf;
}

const char *plan_layout_short(const struct plan_layout *layout, char buf[PLAN_LAYOUT])
{
    char context[24] = "", expert[24] = "";
    if (layout->context > 1)
        snprintf(context, sizeof context, " cp%" PRId64, layout->context);
    if (layout->expert > 1)
        snprintf(expert, sizeof expert, " ep%" PRId64, layout->expert);
    snprintf(buf, PLAN_LAYOUT,
             "dp%" PRId64 " tp%" PRId64 " pp%" PRId64 "/%" PRId64 "%s%s mbs%" PRId64 " z%d %s",
             layout->data, layout->tensor, layout->pipeline, layout->chunks, context, expert,
             layout->micro_batch, layout->zero, plan_recompute_name(layout->recompute));
    return buf;
}

const char *plan_layout_options(const struct plan_layout *layout, char buf[PLAN_LAYOUT])
{
    char schedule[32] = "", attention[32] = "";
    const char *rows = ",sp=0";
    if (layout->context > 1 && layout->attention != PLAN_CONTEXT_USUAL)
        snprintf(attention, sizeof attention, ",context=%s", plan_context_name(layout->attention));
    if (layout->schedule != PLAN_SCHEDULE_1F1B)
        snprintf(schedule, sizeof schedule, ",schedule=%s", plan_schedule_name(layout->schedule));
    if (layout->sequence_parallel)
        rows = "";
    snprintf(buf, PLAN_LAYOUT,
             "--layout dp=%" PRId64 ",tp=%" PRId64 ",pp=%" PRId64 ",vpp=%" PRId64 ",cp=%" PRId64
             ",ep=%" PRId64 ",mbs=%" PRId64 ",zero=%d,recompute=%s%s%s%s",
             layout->data, layout->tensor, layout->pipeline, layout->chunks, layout->context,
             layout->expert, layout->micro_batch, layout->zero,
             plan_recompute_name(layout->recompute), rows, schedule, attention);
    return buf;
}
