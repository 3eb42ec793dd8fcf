/* SPDX-License-Identifier: Apache-2.0
 *
 * Fully sharded data parallelism of PyTorch (FSDP, FSDP2) on the CPU, where a gather of parameters
 * blocks the thread of the steps: parameters that are gathered once more in backward, because they
 * are given back after forward (FSDP_RESHARD), and gathers in forward that nothing hides
 * (FSDP_PREFETCH). What is advised needs memory: where it is known to be missing nothing is
 * advised; where it is unknown, the advice says how to check.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

/* How FSDP2 itself names a gather and what it copies for it. */
#define GATHER "FSDP::all_gather"

enum where { FORWARD, BACKWARD, WHERE_COUNT };

/* The gathers of a step, or of all detailed steps, of one rank. */
struct gathers {
    int64_t ns[WHERE_COUNT];
    double bytes[WHERE_COUNT], largest; /* largest: bytes of one gather */
    size_t count[WHERE_COUNT];
};

static bool is_gather(const struct an_trace *trace, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    return trace->slice.dur[i] != AN_OPEN && detail && detail->role == AN_ROLE_COMM &&
           !strcmp(detail->collective, "all_gather");
}

static bool is_named(const struct an_trace *trace, size_t i)
{
    return trace->slice.dur[i] != AN_OPEN &&
           !strncmp(an_trace_name(trace, trace->slice.name[i]), GATHER, strlen(GATHER));
}

static bool in_backward(const struct an_trace *trace, size_t i)
{
    uint32_t around = trace->slice.parent[i];
    for (int depth = 0; around != AN_NONE && depth < AN_DEPTH_MAX; depth++) {
        if (!strcmp(an_trace_name(trace, trace->slice.name[around]), "backward") &&
            an_slice_open_at(trace, around, i))
            return true;
        around = trace->slice.parent[around];
    }
    return false;
}

/* Adds up the gathers of a step: the collectives, and the ranges around them in which FSDP2 also
 * packs and unpacks what they carry. */
static struct gathers of_step(const struct an_context *context, const struct an_step *step)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    struct gathers sum = {.count = {0}};
    int64_t until = INT64_MIN;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        bool gathers = is_gather(trace, i), names = is_named(trace, i);
        if ((!gathers && !names) || an_slice_in_phase(trace, i))
            continue;
        enum where where = in_backward(trace, i) ? BACKWARD : FORWARD;
        if (trace->slice.start[i] >= until) {
            sum.ns[where] = an_time_add(sum.ns[where], trace->slice.dur[i]);
            until = an_slice_end(trace, i);
        }
        if (!gathers)
            continue;
        int64_t bytes = trace->detail[trace->slice.detail[i]].bytes;
        sum.bytes[where] += bytes > 0 ? (double)bytes : 0;
        sum.largest = (double)bytes > sum.largest ? (double)bytes : sum.largest;
        sum.count[where]++;
    }
    return sum;
}

/* Adds up the gathers of all steps, with the share of each step in `values`, first those of
 * forward. Returns the number of steps. */
static size_t sum_up(const struct an_context *context, struct gathers *all, double *values)
{
    size_t count = 0;
    *all = (struct gathers){.count = {0}};
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        const struct an_lane *lane = &context->lane[step->lane];
        int64_t ns = an_step_detailed(step) ? an_step_ns(step) : 0;
        if (ns <= 0 || lane->device != AN_NONE || lane->track == AN_NONE)
            continue;
        struct gathers of = of_step(context, step);
        for (int where = 0; where < WHERE_COUNT; where++) {
            values[(size_t)where * context->step_count + count] =
                an_percent((double)of.ns[where], (double)ns);
            all->bytes[where] += of.bytes[where];
            all->count[where] += of.count[where];
        }
        all->largest = of.largest > all->largest ? of.largest : all->largest;
        count++;
    }
    return count;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Do so many bytes more on each rank exceed what is left on the machine, as far as that is known?
 */
static bool lacks_room(struct an_context *context, double bytes)
{
    const struct an_count *room = &context->result->memory.room_bytes;
    size_t ranks = 1;
    an_lane_hosts(context, &ranks);
    return room->valid && bytes * (double)(ranks ? ranks : 1) >= (double)room->value;
}

/* Says what the advice needs and what is left; where that is not known, what to do before. */
static void say_room(struct an_context *context, double bytes, struct an_finding *finding)
{
    const struct an_count *room = &context->result->memory.room_bytes;
    const char *more = an_bytes_text(context, bytes);
    size_t ranks = 1;
    an_lane_hosts(context, &ranks);
    if (room->valid) {
        an_finding_note(context, finding,
                        "memory: %s more on each of %zu ranks of a machine, of which %s are left",
                        more, ranks, an_bytes_text(context, (double)room->value));
        return;
    }
    an_finding_note(context, finding, "memory was not checked: %s", room->reason);
    finding->action = an_finding_text(
        context,
        "first check that each of %zu ranks of a machine can hold %s more, which is not known "
        "here (MemAvailable in /proc/meminfo, or memory.max of the container, while it trains); "
        "then %s",
        ranks, more, finding->action);
}

/* ---- findings -------------------------------------------------------------------------------- */

/* What differs between the two findings. */
static const struct advice {
    const char *id, *claim, *what, *action, *verify, *wrong_when;
} advices[WHERE_COUNT] = {
    [FORWARD] = {"FSDP_PREFETCH",
                 "the step waits for parameters that are gathered layer by layer before they are "
                 "needed",
                 "gathers in forward",
                 "gather the parameters of the next block while this one computes: in FSDP2 "
                 "unshard(async_op=True) of the next block before this one's forward (on GPUs "
                 "set_modules_to_forward_prefetch()); or shard fewer, larger blocks",
                 "parameters gathered ahead",
                 "cores are short: gathering while the block computes takes cores from it"},
    [BACKWARD] = {
        "FSDP_RESHARD", "parameters that forward had gathered are gathered once more in backward",
        "gathers in backward",
        "keep gathered parameters from forward to backward: "
        "fully_shard(module, reshard_after_forward=False); in FSDP1 "
        "ShardingStrategy.SHARD_GRAD_OP",
        "reshard_after_forward=False", "the activations of larger batches need that memory"}};

/* `more`: bytes that a rank holds more then, of one step. */
static void describe(struct an_findings_list *findings, enum where where,
                     const struct an_class_share *share, const struct gathers *all, double more)
{
    struct an_context *context = findings->context;
    const struct advice *advice = &advices[where];
    if (!an_class_share_matters(share) || lacks_room(context, more))
        return;
    struct an_finding *finding = an_findings_add(
        findings, advice->id,
        an_finding_text(context, "%s: %.1f %% of the step", advice->claim, share->mean));
    an_finding_evidence(finding, an_class_share_text(context, share, advice->what));
    an_finding_note(
        context, finding, "%s gathers a step, %s in them",
        an_number_words(context->arena, (double)all->count[where] / (double)share->steps, 3),
        an_bytes_text(context, all->bytes[where] / (double)share->steps));
    finding->action = advice->action;
    say_room(context, more, finding);
    finding->effort = "an argument, or some lines of code";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share->mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - those gathers) - 1; nothing was replayed";
    finding->verify = an_command_rerun(context, advice->verify);
    finding->wrong_when = advice->wrong_when;
}

int an_findings_fsdp(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct gathers all;
    if (!an_command_sharded(context->trace) || context->gpu)
        return 0;
    double *values = calloc(WHERE_COUNT * (context->step_count + 1), sizeof *values);
    if (!values)
        return TACHO_ENOMEM;
    size_t steps = sum_up(context, &all, values);
    int64_t passes = context->result->steps.micro_steps; /* each of which gathers them */
    passes = passes > 1 ? passes : 1;
    for (int where = 0; where < WHERE_COUNT && steps; where++) {
        struct an_class_share share =
            an_share_of_values(values + (size_t)where * context->step_count, steps);
        /* What is kept are the parameters that backward gathers, or one block ahead. */
        double kept = all.bytes[BACKWARD] / (double)steps / (double)passes,
               more = where == BACKWARD ? kept : all.largest;
        describe(findings, (enum where)where, &share, &all, more);
    }
    free(values);
    return 0;
}
