/* SPDX-License-Identifier: Apache-2.0
 *
 * DistributedDataParallel of PyTorch on the CPU: gradients that are reduced in each micro-step of a
 * step, where the last one is enough (DDP_SYNC_EACH_MICROSTEP); parameters that are looked for
 * because they might be unused (DDP_UNUSED_PARAMETERS); buffers that are broadcast before each
 * forward pass (DDP_BUFFERS); buckets of gradients of which the last one can only be reduced when
 * backward is over, or that are so small that each costs a latency (DDP_BUCKETS). The hook names
 * what reduces the gradients of one model once more before its update, and the others.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_messages.h"

#define REDUCED "gradients reduced"
#define AGAIN   "gradients reduced again"

#define MIB         (1 << 20)
#define BUCKETS     8   /* of a pass: so many that most are reduced beside backward */
#define LARGE_SHARE 0.5 /* of the gradients, in one bucket */
#define FEW_BESIDE  0.5 /* of the reductions' time, beside backward */
#define MANY        16  /* buckets */
#define SMALL_BYTES (256 << 10)

/* What the thread of a step spends in reductions of gradients. */
struct reductions {
    int64_t needless, all; /* ns; needless: of all but the last one */
    size_t count, again;
};

static struct reductions of_step(const struct an_context *context, const struct an_step *step)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    struct reductions reductions = {0};
    int64_t last = 0;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        if (trace->slice.dur[i] == AN_OPEN || an_slice_role(trace, i) != AN_ROLE_COMM ||
            strncmp(name, REDUCED, strlen(REDUCED)) != 0)
            continue;
        reductions.needless = an_time_add(reductions.needless, last);
        last = trace->slice.dur[i];
        reductions.all = an_time_add(reductions.all, last);
        reductions.count++;
        reductions.again += !strcmp(name, AGAIN);
    }
    return reductions;
}

/* Adds the finding: every step has the reductions, which the last micro-step alone would make. */
static void each_microstep(struct an_findings_list *findings, const struct an_class_share *share,
                           double reductions)
{
    struct an_context *context = findings->context;
    struct an_finding *finding = an_findings_add(
        findings, "DDP_SYNC_EACH_MICROSTEP",
        an_finding_text(context,
                        "gradients are reduced %.2g times a step: all but the last one take %.1f "
                        "%% of the step",
                        reductions, share->mean));
    an_finding_evidence(finding,
                        an_class_share_text(context, share, "reductions before the last one"));
    an_finding_note(context, finding, "%zu of %zu steps have such time", share->touched,
                    share->steps);
    finding->action = "reduce gradients in the last micro-step only: run the others, forward and "
                      "backward, inside of model.no_sync()";
    finding->effort = "some lines of code";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share->mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - reductions before the last one) - 1; nothing was "
                      "replayed";
    finding->verify = an_command_rerun(context, "model.no_sync() in all but the last micro-step");
    finding->wrong_when = "the ranks wait for a slow rank there: then they wait in the last one "
                          "as long";
}

/* What DistributedDataParallel does in each step and need not. */
static const struct habit {
    const char *range, *id, *claim, *action, *option, *wrong_when;
} habits[] = {
    {"unused parameters looked for", "DDP_UNUSED_PARAMETERS",
     "DistributedDataParallel looks for unused parameters after each forward pass",
     "find_unused_parameters=False, where every parameter has a gradient in every step; "
     "static_graph=True, where the same ones are always unused",
     "find_unused_parameters=False",
     "some parameters have no gradient in some steps: then the ranks would wait for ever"},
    {"buffers broadcast", "DDP_BUFFERS",
     "DistributedDataParallel broadcasts the buffers of the model before each forward pass",
     "broadcast_buffers=False, where the buffers need not be the same on all ranks (running "
     "statistics of BatchNorm: those of rank 0 are saved), or SyncBatchNorm",
     "broadcast_buffers=False",
     "the ranks wait for a slow rank there: then they wait in the reduction of gradients as long"}};

/* ns of a step in ranges of that name on its thread. */
static int64_t named_ns(const struct an_context *context, const struct an_step *step,
                        const char *name)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    int64_t sum = 0;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++)
        if (trace->slice.dur[i] != AN_OPEN &&
            !strcmp(an_trace_name(trace, trace->slice.name[i]), name))
            sum = an_time_add(sum, trace->slice.dur[i]);
    return sum;
}

/* Looks at one habit; `values` has room for a value of each step. */
static void look_at_habit(struct an_findings_list *findings, const struct habit *habit,
                          double *values)
{
    struct an_context *context = findings->context;
    size_t count = 0;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        const struct an_lane *lane = &context->lane[step->lane];
        int64_t ns = an_step_detailed(step) ? an_step_ns(step) : 0;
        if (ns > 0 && lane->device == AN_NONE && lane->track != AN_NONE)
            values[count++] = an_percent((double)named_ns(context, step, habit->range), (double)ns);
    }
    struct an_class_share share = an_share_of_values(values, count);
    if (!an_class_share_matters(&share))
        return;
    struct an_finding *finding = an_findings_add(
        findings, habit->id,
        an_finding_text(context, "%s: %.1f %% of the step", habit->claim, share.mean));
    an_finding_evidence(finding, an_class_share_text(context, &share, habit->range));
    an_finding_note(context, finding, "%zu of %zu steps have such time", share.touched,
                    share.steps);
    finding->action = habit->action;
    finding->effort = "an argument";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - that time) - 1; nothing was replayed";
    finding->verify = an_command_rerun(context, habit->option);
    finding->wrong_when = habit->wrong_when;
}

/* ---- DDP_BUCKETS ----------------------------------------------------------------------------- */

/* What is wrong with the buckets, and what to do; NULL: nothing that is known. *mib: their size. */
static const char *bucket_fault(struct an_context *context, const struct an_ddp_timers *timers,
                                double *mib)
{
    bool beside = timers->overlapped_ms >= FEW_BESIDE * timers->communication_ms;
    double bytes = timers->gradient_bytes;
    *mib = bytes / BUCKETS / MIB > 1 ? bytes / BUCKETS / MIB : 1;
    if (!beside && bytes > *mib * MIB && timers->largest_bytes >= LARGE_SHARE * bytes)
        return an_finding_text(context,
                               "%s of %s of gradients are reduced in one bucket, which can only "
                               "begin when backward is nearly over",
                               an_bytes_text(context, timers->largest_bytes),
                               an_bytes_text(context, bytes));
    if (timers->buckets >= MANY && bytes / timers->buckets < SMALL_BYTES)
        return an_finding_text(context,
                               "gradients are reduced in %.0f buckets of %s on average: each "
                               "costs a latency",
                               timers->buckets, an_bytes_text(context, bytes / timers->buckets));
    return NULL;
}

/* `share`: what the step waits for reductions after its backward passes. */
static void buckets(struct an_findings_list *findings, const struct an_class_share *share)
{
    struct an_context *context = findings->context;
    struct an_ddp_timers timers;
    double mib;
    if (!an_class_share_matters(share) || !an_comm_ddp_timers(context, &timers) ||
        an_comm_mostly_waits(context))
        return;
    const char *fault = bucket_fault(context, &timers, &mib);
    if (!fault)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "DDP_BUCKETS",
        an_finding_text(context, "%s: the step waits %.1f %% of its time for reductions", fault,
                        share->mean));
    an_finding_evidence(finding, an_class_share_text(context, share, "reductions after backward"));
    an_finding_evidence(finding, an_comm_ddp_words(context));
    finding->action = an_finding_text(context, "DistributedDataParallel(bucket_cap_mb=%.0f)", mib);
    finding->effort = "an argument";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share->mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - reductions after backward) - 1; nothing was "
                      "replayed";
    finding->verify = an_command_rerun(context, "other buckets");
    finding->wrong_when = "cores are short: reductions during backward take cores from it";
}

int an_findings_ddp(struct an_findings_list *findings)
{
    const struct an_context *context = findings->context;
    double *values = calloc(2 * context->step_count + 2, sizeof *values), reductions = 0,
           *waited = values ? values + context->step_count + 1 : NULL;
    size_t count = 0, again = 0;
    if (!values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        const struct an_lane *lane = &context->lane[step->lane];
        int64_t ns = an_step_detailed(step) ? an_step_ns(step) : 0;
        if (ns <= 0 || lane->device != AN_NONE || lane->track == AN_NONE)
            continue;
        struct reductions of = of_step(context, step);
        waited[count] = an_percent((double)of.all, (double)ns);
        values[count++] = of.again ? an_percent((double)of.needless, (double)ns) : 0;
        reductions += (double)of.count;
        again += of.again;
    }
    struct an_class_share share = an_share_of_values(values, count),
                          all = an_share_of_values(waited, count);
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        look_at_habit(findings, &habits[i], values);
    free(values);
    if (again && an_class_share_matters(&share))
        each_microstep(findings, &share, reductions / (double)count);
    else
        buckets(findings, &all);
    return 0;
}
