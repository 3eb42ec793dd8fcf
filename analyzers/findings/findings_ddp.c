/* SPDX-License-Identifier: Apache-2.0
 *
 * DistributedDataParallel of PyTorch on the CPU: gradients of a model that are reduced several
 * times before its update, where once is enough (DDP_SYNC_EACH_MICROSTEP); parameters that are
 * looked for because they might be unused (DDP_UNUSED_PARAMETERS); buffers that are broadcast
 * before each forward pass (DDP_BUFFERS); buckets of gradients of which the last one can only be
 * reduced when backward is over, or that are so small that each costs a latency (DDP_BUCKETS). The
 * hook names what reduces the gradients of one model once more in a step, and the others.
 * Collectives of a few bytes that lines of the program call themselves in each step
 * (SMALL_COLLECTIVE).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/budget/budget.h"
#include "analyzers/findings/findings_messages.h"

#define REDUCED "gradients reduced"
#define AGAIN   "gradients reduced again"

#define MIB         (1 << 20)
#define BUCKETS     8   /* of a pass: so many that most are reduced beside backward */
#define LARGE_SHARE 0.5 /* of the gradients, in one bucket */
#define FEW_BESIDE  0.5 /* of the reductions' time, beside backward */
#define MANY        16  /* buckets */
#define SMALL_BYTES (256 << 10)
#define FEW_BYTES   (64 << 10) /* of a collective: it takes as long as a message without any */
#define CALLS_MANY  8          /* of one line in a step: tensors that it reduces one by one */
#define NAMED       3
#define PLACES_MOST 16

/* How much time the fix saves, as a multiple of the recorded time: at least, expected, at most.
 * What is more than once comes out of the rest of the step, in proportion: a reduction also copies
 * gradients into its buckets and back, and takes cores from backward passes. It is less where ranks
 * that are late are waited for elsewhere instead. No recording says how much: the expected values
 * of reductions and broadcasts were measured (docs/pytorch.md), the others are margins. */
static const struct saved {
    double least, expected, most;
    const char *basis;
} of_reductions = {0.95, 1.55, 2.1, "what three programs gained, with a margin around it"},
  of_broadcasts = {0.5, 0.9, 1.25, "what three programs gained, with a margin around it"},
  of_searches = {0.7, 1, 1.3, "that time, with a margin that was not measured"};

/* `lost_pct` of the step times a multiple. */
static double times(double lost_pct, double multiple)
{
    return multiple > 1 ? lost_pct * (1 + (multiple - 1) * (1 - fmin(lost_pct, 100) / 100))
                        : lost_pct * multiple;
}

/* Promises what the fix saves of a share of the step. Where most exposed communication is waiting
 * for a slow rank, the wait moves elsewhere instead of going away: then the gain is a ceiling. */
static void promise(struct an_context *context, struct an_finding *finding,
                    const struct an_class_share *share, const struct saved *saved)
{
    double half = an_share_half_90(share);
    double low = an_finding_gain_of_lost(times(fmax(share->mean - half, 0), saved->least));
    if (low < FINDINGS_NOISE_PCT || share->steps <= 1 || an_comm_mostly_waits(context)) {
        finding->bound = true;
        an_finding_ceiling(finding, 100, fmin(times(share->mean, saved->most), 99),
                           FINDINGS_NOT_REPLAYED);
        finding->method = an_finding_text(
            context, "ceiling: step / (step - %.2f x that time) - 1; nothing was replayed",
            saved->most);
        return;
    }
    finding->gain.low = an_num(low);
    finding->gain.expected = an_num(an_finding_gain_of_lost(times(share->mean, saved->expected)));
    finding->gain.high = an_num(an_finding_gain_of_lost(times(share->mean + half, saved->most)));
    finding->method =
        an_finding_text(context, "step / (step - %.2f x that time) - 1; %.2f to %.2f times: %s",
                        saved->expected, saved->least, saved->most, saved->basis);
}

/* What the thread of a step spends in reductions of gradients. Of a model that reduces k times
 * before its update k - 1 can go. The ranges do not name the model, so the time of the repeats
 * (also k - 1) is taken. */
struct reductions {
    int64_t repeated, all; /* ns */
    size_t count, again;
};

/* Is a range the update of an optimizer? */
static bool is_update(const struct an_trace *trace, size_t i, const char *name)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    const char *dot = detail && !strcmp(detail->pass, "optimizer") ? strrchr(name, '.') : NULL;
    return dot && !strcmp(dot, ".step");
}

/* A reduction that repeats counts unless an optimizer has updated since the reduction before it.
 * Which model that was is not known. Where A reduces, B is updated and A reduces again, the repeat
 * is missing: that errs on the low side. Only where B reduces between the update of A and A's next
 * reduction of the same step, and is updated later, is one counted that cannot be avoided. */
static struct reductions of_step(const struct an_context *context, const struct an_step *step)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    struct reductions reductions = {0};
    bool updated = false; /* some model, since the reduction before */
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        updated = updated || is_update(trace, i, name);
        if (trace->slice.dur[i] == AN_OPEN || an_slice_role(trace, i) != AN_ROLE_COMM ||
            strncmp(name, REDUCED, strlen(REDUCED)) != 0)
            continue;
        bool again = !strcmp(name, AGAIN) && !updated;
        updated = false;
        reductions.all = an_time_add(reductions.all, trace->slice.dur[i]);
        reductions.count++;
        reductions.again += again;
        if (again)
            reductions.repeated = an_time_add(reductions.repeated, trace->slice.dur[i]);
    }
    return reductions;
}

/* Adds the finding: `again` of `reductions` a step are of a model that has reduced before. */
static void each_microstep(struct an_findings_list *findings, const struct an_class_share *share,
                           double reductions, double again)
{
    struct an_context *context = findings->context;
    struct an_finding *finding = an_findings_add(
        findings, "DDP_SYNC_EACH_MICROSTEP",
        an_finding_text(context,
                        "gradients are reduced %s times a step; %s of these repeat a reduction of "
                        "the same model before its update and take %.1f %% of the step",
                        an_number_words(context->arena, reductions, 2),
                        an_number_words(context->arena, again, 2), share->mean));
    an_finding_evidence(finding, an_class_share_text(context, share, "repeated reductions"));
    an_finding_note(context, finding, "%zu of %zu steps have such time", share->touched,
                    share->steps);
    an_finding_evidence(finding, an_comm_ddp_words(context));
    finding->action = "reduce gradients of a model in its last backward pass before the update "
                      "only: run the others, with their forward pass, inside of model.no_sync()";
    finding->effort = "some lines of code";
    promise(context, finding, share, &of_reductions);
    finding->verify = an_command_rerun(context, "model.no_sync() in all but the last micro-step");
    finding->wrong_when = "the ranks wait for a slow rank there: then they wait in the last one "
                          "as long";
}

/* What DistributedDataParallel does in each step and need not. */
static const struct habit {
    const char *range, *id, *claim, *action, *option, *wrong_when;
    const struct saved *saved;
} habits[] = {
    {"unused parameters looked for", "DDP_UNUSED_PARAMETERS",
     "DistributedDataParallel looks for unused parameters after each forward pass",
     "find_unused_parameters=False, where every parameter has a gradient in every step; "
     "static_graph=True, where the same ones are always unused",
     "find_unused_parameters=False",
     "some parameters have no gradient in some steps: then the ranks would wait for ever",
     &of_searches},
    {"buffers broadcast", "DDP_BUFFERS",
     "DistributedDataParallel broadcasts the buffers of the model before each forward pass",
     "broadcast_buffers=False, where the buffers need not be the same on all ranks (running "
     "statistics of BatchNorm: those of rank 0 are saved), or SyncBatchNorm",
     "broadcast_buffers=False",
     "the ranks wait for a slow rank there: then they wait in the reduction of gradients as long",
     &of_broadcasts}};

/* Fills `values`, which has room for each step, with the part of the steps on the processor that
 * `ns_of` finds, in %; returns how many there are. */
static size_t step_values(const struct an_context *context,
                          int64_t (*ns_of)(const struct an_context *, const struct an_step *,
                                           void *),
                          void *ctx, double *values)
{
    size_t count = 0;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        const struct an_lane *lane = &context->lane[step->lane];
        int64_t ns = an_step_detailed(step) ? an_step_ns(step) : 0;
        if (ns > 0 && lane->device == AN_NONE && lane->track != AN_NONE)
            values[count++] = an_percent((double)ns_of(context, step, ctx), (double)ns);
    }
    return count;
}

/* ns of a step in ranges of that name on its thread. */
static int64_t named_ns(const struct an_context *context, const struct an_step *step, void *ctx)
{
    const char *name = ctx;
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    int64_t sum = 0;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++)
        if (trace->slice.dur[i] != AN_OPEN &&
            !strcmp(an_trace_name(trace, trace->slice.name[i]), name) &&
            !an_slice_in_phase(trace, i))
            sum = an_time_add(sum, trace->slice.dur[i]);
    return sum;
}

/* Looks at one habit; `values` has room for a value of each step. */
static void look_at_habit(struct an_findings_list *findings, const struct habit *habit,
                          double *values)
{
    struct an_context *context = findings->context;
    size_t count = step_values(context, named_ns, (void *)habit->range, values);
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
    promise(context, finding, &share, habit->saved);
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

/* ---- SMALL_COLLECTIVE ------------------------------------------------------------------------ */

/* Calls of lines of the program, by name. */
struct places {
    struct place {
        uint32_t name;
        int64_t ns, count;
    } at[PLACES_MOST];
    size_t count;
};

/* Does the name end in the line that calls: "all_reduce train.py:42"? The hook gives calls of
 * PyTorch itself a purpose in place of it. */
static bool names_line(const char *name)
{
    const char *space = strchr(name, ' '), *colon = space ? strchr(space, ':') : NULL;
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    return digits && (!colon[1 + digits] || colon[1 + digits] == ' ');
}

static bool is_small_call(const struct an_trace *trace, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    return trace->slice.dur[i] != AN_OPEN && detail && detail->role == AN_ROLE_COMM &&
           detail->bytes != STORE_ABSENT && detail->bytes <= FEW_BYTES &&
           names_line(an_trace_name(trace, trace->slice.name[i]));
}

static void add_place(struct places *places, uint32_t name, int64_t ns)
{
    size_t at = 0;
    while (at < places->count && places->at[at].name != name)
        at++;
    if (at == PLACES_MOST)
        return;
    if (at == places->count)
        places->at[places->count++] = (struct place){.name = name};
    places->at[at].ns = an_time_add(places->at[at].ns, ns);
    places->at[at].count++;
}

/* Adds the calls of a step to the places in `ctx`; returns their time in ns. */
static int64_t small_calls(const struct an_context *context, const struct an_step *step, void *ctx)
{
    struct places *places = ctx;
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    int64_t sum = 0;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        if (trace->slice.start[i] < step->start || an_slice_in_phase(trace, i) ||
            !is_small_call(trace, i))
            continue;
        add_place(places, trace->slice.name[i], trace->slice.dur[i]);
        sum = an_time_add(sum, trace->slice.dur[i]);
    }
    return sum;
}

static int by_time(const void *first, const void *second)
{
    const struct place *left = first, *right = second;
    return 2 * AN_COMPARE(right->ns, left->ns) + AN_COMPARE(left->name, right->name);
}

/* What to do about the calls of `count` steps. */
static const char *small_action(const struct an_context *context, const struct places *places,
                                size_t count)
{
    for (size_t i = 0; i < places->count && i < NAMED; i++)
        if (!strncmp(an_trace_name(context->trace, places->at[i].name), "barrier", 7))
            return "take barriers out of the step, a collective waits for all ranks itself; reduce "
                   "what is only logged every N steps";
    if (places->at[0].count >= CALLS_MANY * (int64_t)count)
        return "join the tensors of these calls into one, or let DistributedDataParallel reduce "
               "gradients in its buckets; reduce what is only logged every N steps";
    return "reduce what is only logged every N steps, several values in one tensor, or with "
           "async_op=True and a wait in the next step";
}

/* `values` has room for a value of each step. */
static void small_collectives(struct an_findings_list *findings, double *values)
{
    struct an_context *context = findings->context;
    struct places places = {.count = 0};
    size_t count = step_values(context, small_calls, &places, values);
    struct an_class_share share = an_share_of_values(values, count);
    if (!places.count || !an_class_share_matters(&share) || an_comm_mostly_waits(context))
        return;
    qsort(places.at, places.count, sizeof *places.at, by_time);
    struct an_finding *finding = an_findings_add(
        findings, "SMALL_COLLECTIVE",
        an_finding_text(context,
                        "%.120s: collectives of a few bytes that the program calls in its steps "
                        "take %.1f %% of them",
                        an_trace_name(context->trace, places.at[0].name), share.mean));
    an_finding_evidence(finding, an_class_share_text(context, &share, "such collectives"));
    for (size_t i = 0; i < places.count && i < NAMED; i++)
        an_finding_note(
            context, finding, "%.120s: %s a step, %s each",
            an_trace_name(context->trace, places.at[i].name),
            an_number_words(context->arena, (double)places.at[i].count / (double)count, 3),
            an_time_words(context->arena,
                          (double)places.at[i].ns / (double)places.at[i].count / 1e6, 3));
    finding->action = small_action(context, &places, count);
    finding->effort = "some lines of code";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - those calls) - 1; nothing was replayed";
    finding->verify = an_command_rerun(context, "those calls every N steps");
    finding->wrong_when = "the ranks wait for a slow rank there: then they wait in the reduction "
                          "of gradients as long";
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
        values[count++] = an_percent((double)of.repeated, (double)ns);
        reductions += (double)of.count;
        again += of.again;
    }
    struct an_class_share share = an_share_of_values(values, count),
                          all = an_share_of_values(waited, count);
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        look_at_habit(findings, &habits[i], values);
    small_collectives(findings, values);
    free(values);
    if (again && an_class_share_matters(&share))
        each_microstep(findings, &share, reductions / (double)count, (double)again / (double)count);
    else
        buckets(findings, &all);
    return 0;
}
