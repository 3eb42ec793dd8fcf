/* SPDX-License-Identifier: Apache-2.0
 *
 * What the thread of the steps does itself: collections of garbage (GARBAGE), in every step or in
 * few that are long because of them, and on runs without a device the range with most host time of
 * a program of PyTorch (PYTHON_HOST), and calls of operators that take their time however small
 * the batch is (SMALL_BATCH_HOST). Switches for debugging that are still on (DEBUG_MODE).
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/budget/budget.h"
#include "analyzers/device/value_wait.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/graph/causes.h"

#define DEEPEST   64
#define CALLS_PCT 25.0 /* of the step in calling operators: from there on the batch is small */
#define RARER     10   /* so many times fewer full collections are proposed */

/* ---- host time of a step, by range ----------------------------------------------------------- */

struct open_range {
    int64_t end, own;
    size_t slice;
    int class;
};

/* Takes the own time of a host range in a step. */
typedef void take_range(void *ctx, size_t slice, int64_t own);

static void close_range(const struct open_range *range, take_range *take, void *ctx)
{
    if (range->class == AN_CLASS_HOST && range->own > 0)
        take(ctx, range->slice, range->own);
}

/* Calls `take` for each host range on the thread of a step with the time in it that no range inside
 * it has. What is inside a phase, which is cut out of the step, is left out. */
static void host_ranges(const struct an_context *context, const struct an_step *step,
                        take_range *take, void *ctx)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    struct open_range open[DEEPEST];
    size_t depth = 0;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        int64_t start = trace->slice.start[i];
        if (i == step->slice || trace->slice.dur[i] == AN_OPEN || start < step->start)
            continue;
        while (depth && open[depth - 1].end <= start)
            close_range(&open[--depth], take, ctx);
        if (depth == DEEPEST)
            continue;
        int around = depth ? open[depth - 1].class : AN_CLASS_UNATTRIBUTED;
        int64_t end = an_slice_end(trace, i) < step->end ? an_slice_end(trace, i) : step->end;
        open[depth] = (struct open_range){
            end, end - start, i,
            around == AN_CLASS_IO ? around : an_class_of_role(an_slice_role(trace, i), around)};
        if (depth)
            open[depth - 1].own -= end - start;
        depth++;
    }
    while (depth)
        close_range(&open[--depth], take, ctx);
}

/* ---- sums over the run ----------------------------------------------------------------------- */

struct sums {
    struct an_context *context;
    struct an_causes *causes;
    int64_t *by_name;         /* of ranges that are no collection */
    int64_t collected, full;  /* full: in collections of the oldest generation */
    size_t count, full_count; /* collections */
    bool generations;         /* names of collections say of which generation they are */
    bool passes;              /* the step that is looked at has ranges of passes */
    uint32_t name;            /* the name that is looked for in each step */
    int64_t in_step;          /* its time, or that of collections where name is AN_NONE */
};

static bool is_collection(const struct sums *sums, size_t slice)
{
    return an_slice_cause(sums->context, sums->causes, slice) == AN_CAUSE_COLLECTION;
}

/* Do ranges on the thread of a step say which pass they are of? The hook says so while the CPU does
 * the work. */
static bool has_passes(const struct an_context *context, const struct an_step *step)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
        if (detail && *detail->pass)
            return true;
    }
    return false;
}

/* Does the hook name what it records so: an update, a module with its class? */
static bool has_form(const char *name)
{
    size_t length = strlen(name);
    return (length > 5 && !strcmp(name + length - 5, ".step")) ||
           (length && name[length - 1] == ')' && strstr(name, " ("));
}

/* Does a word of the name, which punctuation ends, say that it is a part of training itself
 * ("## backward ##", "forward:over_arch")? */
static bool has_training_word(const char *name)
{
    static const char *const words[] = {"forward",      "backward",      "optimizer",
                                        "forward_pass", "backward_pass", "optimizer_step"};
    size_t length;
    for (; *name; name += length ? length : 1) {
        for (length = 0; isalnum((unsigned char)name[length]) || name[length] == '_';)
            length++;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (length == strlen(words[i]) && !strncasecmp(name, words[i], length))
                return true;
    }
    return false;
}

/* Is it a range of the training itself (a pass, an update, a module with its class)? Where the work
 * of a device is not recorded, it is host time, and yet nothing that could leave the step. A range
 * of the program carries nothing but its name: beside passes that say so that tells it from those
 * of the hook, of which only schedulers are host time then. */
static bool is_training(const struct sums *sums, size_t slice, const char *name)
{
    static const char *const begins[] = {
        "autograd.", "zero_grad", "clip_grad_norm_", "clip_grad_value_", "loader workers ",
        /* what PyTorch marks itself */
        "FSDP::", "FullyShardedDataParallel.", "DistributedDataParallel.",
        "c10d::", "gloo:", "nccl:", "autograd:", "torch::autograd:"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i])))
            return true;
    if (has_training_word(name))
        return true;
    bool own = an_slice_role(sums->context->trace, slice) == AN_ROLE_NONE;
    return has_form(name) && !(own && sums->passes);
}

static void add_range(void *ctx, size_t slice, int64_t own)
{
    struct sums *sums = ctx;
    const struct an_trace *trace = sums->context->trace;
    uint32_t name = trace->slice.name[slice];
    if (!is_collection(sums, slice)) {
        if (name != AN_NONE && !is_training(sums, slice, an_trace_name(trace, name)) &&
            !an_slice_value_wait(trace, slice, NULL)) /* has a finding itself */
            sums->by_name[name] += own;
        return;
    }
    bool full = strchr(an_trace_name(trace, name), '2') != NULL;
    sums->generations |= strpbrk(an_trace_name(trace, name), "012") != NULL;
    sums->collected += own;
    sums->count++;
    sums->full += full ? own : 0;
    sums->full_count += full;
}

static void add_in_step(void *ctx, size_t slice, int64_t own)
{
    struct sums *sums = ctx;
    bool wanted = sums->name == AN_NONE ? is_collection(sums, slice)
                                        : sums->context->trace->slice.name[slice] == sums->name &&
                                              !is_collection(sums, slice);
    sums->in_step += wanted ? own : 0;
}

static bool is_looked_at(const struct an_context *context, const struct an_step *step)
{
    const struct an_lane *lane = &context->lane[step->lane];
    return an_step_detailed(step) && lane->device == AN_NONE && lane->track != AN_NONE &&
           an_step_ns(step) > 0;
}

static size_t sum_ranges(struct sums *sums)
{
    size_t steps = 0;
    for (size_t i = 0; i < sums->context->step_count; i++)
        if (is_looked_at(sums->context, &sums->context->step[i])) {
            sums->passes = has_passes(sums->context, &sums->context->step[i]);
            host_ranges(sums->context, &sums->context->step[i], add_range, sums);
            steps++;
        }
    return steps;
}

/* The share of sums->name in each step, AN_NONE: of collections. 0 or TACHO_ENOMEM. */
static int share_of_name(struct sums *sums, struct an_class_share *share)
{
    const struct an_context *context = sums->context;
    double *values = malloc((context->step_count + 1) * sizeof *values);
    size_t count = 0;
    if (!values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!is_looked_at(context, step))
            continue;
        sums->in_step = 0;
        host_ranges(context, step, add_in_step, sums);
        values[count++] = an_percent((double)sums->in_step, (double)an_step_ns(step));
    }
    *share = an_share_of_values(values, count);
    free(values);
    return 0;
}

/* ---- findings -------------------------------------------------------------------------------- */

/* The bound and what both findings share. */
static void describe(struct an_context *context, struct an_finding *finding,
                     const struct an_class_share *share, const char *what)
{
    finding->effort = "some lines of code";
    an_finding_evidence(finding, an_class_share_text(context, share, what));
    an_finding_note(context, finding, "%zu of %zu steps have such time", share->touched,
                    share->steps);
    an_finding_ceiling(finding, 100, share->mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - that time) - 1";
    finding->bound = true;
}

/* Collections. Of full ones, which look at every object that lives, a number that is so many times
 * smaller takes so many times less; the others depend on what the program allocates. */
static int garbage(struct an_findings_list *findings, struct sums *sums, size_t steps)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    sums->name = AN_NONE;
    if (share_of_name(sums, &share))
        return TACHO_ENOMEM;
    if (!an_class_share_matters(&share))
        return 0;
    struct an_finding *finding = an_findings_add(
        findings, "GARBAGE",
        an_finding_text(context, "garbage collection takes %.1f %% of the step", share.mean));
    describe(context, finding, &share, "garbage collection");
    const char *full = an_number_words(context->arena, (double)sums->full_count / (double)steps, 2);
    an_finding_note(context, finding, "%s collections a step%s",
                    an_number_words(context->arena, (double)sums->count / (double)steps, 2),
                    sums->generations ? an_finding_text(context, ", %s of them full", full) : "");
    finding->what_if = "collection=0";
    finding->action = "gc.freeze() once model and data are set up, so that collections skip "
                      "what stays; fewer objects that refer to each other in a step";
    if (2 * sums->full > sums->collected) {
        double every = RARER * (double)steps / (double)sums->full_count;
        finding->action = an_finding_text(
            context,
            "collect every %.0f steps: gc.disable() before the loop and gc.collect() once in that "
            "many, and gc.freeze() once model and data are set up",
            every);
        finding->what_if = an_finding_text(context, "collection=%.1fx", 1.0 / RARER);
        finding->bound = false;
    }
    finding->verify = an_command_rerun(context, "fewer collections");
    finding->wrong_when = "cycles of objects hold much memory: it grows until the next collection";
    return 0;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/* Steps that a collection made longer than the others. */
struct pauses {
    size_t count;
    double ns, run_ns;           /* of the pauses; of all steps that are looked at */
    int64_t first, last, period; /* indexes of steps; period 0: they have none */
};

static double host_ns(const struct an_step *step)
{
    return (double)an_time_sub(step->host_end, step->host_start);
}

static bool has_host(const struct an_context *context, const struct an_step *step)
{
    return an_step_detailed(step) && context->lane[step->lane].track != AN_NONE &&
           step->host_end > step->host_start;
}

/* The median duration of the steps on the host. NAN: there are none, or no memory. */
static double median_host_ns(const struct an_context *context)
{
    double *values = malloc((context->step_count + 1) * sizeof *values), median = NAN;
    size_t count = 0;
    for (size_t i = 0; i < context->step_count && values; i++)
        if (has_host(context, &context->step[i]))
            values[count++] = host_ns(&context->step[i]);
    if (count)
        median = an_quantile_of(values, count, 0.5);
    free(values);
    return median;
}

/* ns of collections on the thread of a step. */
static double collected_in(const struct sums *sums, const struct an_step *step)
{
    const struct an_trace *trace = sums->context->trace;
    const struct an_track *track = &trace->track[sums->context->lane[step->lane].track];
    double sum = 0;
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++)
        if (trace->slice.dur[i] != AN_OPEN && trace->slice.start[i] >= step->host_start &&
            is_collection(sums, i))
            sum += (double)trace->slice.dur[i];
    return sum;
}

/* Adds a step; the pause is what it is longer than the median by, and no more than it collects. */
static void add_step(const struct sums *sums, const struct an_step *step, double median,
                     struct pauses *pauses)
{
    double collected = collected_in(sums, step), more = host_ns(step) - median;
    pauses->run_ns += host_ns(step);
    if (collected <= 0 || more < collected / 2)
        return;
    pauses->ns += collected < more ? collected : more;
    if (pauses->count == 1)
        pauses->period = step->index - pauses->last;
    else if (pauses->count && step->index - pauses->last != pauses->period)
        pauses->period = 0;
    pauses->first = pauses->count ? pauses->first : step->index;
    pauses->last = step->index;
    pauses->count++;
}

/* Collections in few steps, which an interval of the mean does not show: each is a pause that was
 * measured. */
static void rare_collections(struct an_findings_list *findings, const struct sums *sums)
{
    struct an_context *context = findings->context;
    struct pauses pauses = {0};
    double median = median_host_ns(context);
    for (size_t i = 0; i < context->step_count && isfinite(median); i++)
        if (has_host(context, &context->step[i]))
            add_step(sums, &context->step[i], median, &pauses);
    double share = an_percent(pauses.ns, pauses.run_ns);
    if (pauses.count < 2 || share < FINDINGS_NOISE_PCT)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "GARBAGE",
        an_finding_text(context, "garbage collections of %s in %zu steps take %.1f %% of the time",
                        an_time_words(context->arena, pauses.ns / (double)pauses.count / 1e6, 3),
                        pauses.count, share));
    if (pauses.period > 0)
        an_finding_evidence(finding, an_finding_text(context,
                                                     "one in every %" PRId64
                                                     " steps, from step %" PRId64 " to %" PRId64,
                                                     pauses.period, pauses.first, pauses.last));
    an_finding_note(context, finding, "the other steps take %s",
                    an_time_words(context->arena, median / 1e6, 3));
    finding->effort = "some lines of code";
    an_finding_ceiling(finding, 100, share, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: time / (time - that time) - 1";
    finding->bound = true;
    finding->action = "gc.freeze() once model and data are set up, so that collections skip "
                      "what stays; of many ranks, gc.disable() and gc.collect() in the same steps "
                      "on all: one that pauses holds up the others";
    finding->verify = an_command_rerun(context, "fewer collections");
    finding->wrong_when = "cycles of objects hold much memory: it grows until the next collection";
}

/* The name with most host time of its own. */
static uint32_t largest_name(const struct sums *sums)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < sums->context->trace->string_count; i++)
        most = sums->by_name[i] > sums->by_name[most] ? i : most;
    return most;
}

static int python_host(struct an_findings_list *findings, struct sums *sums)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    sums->name = largest_name(sums);
    if (share_of_name(sums, &share))
        return TACHO_ENOMEM;
    if (!an_class_share_matters(&share))
        return 0;
    const char *name = an_trace_name(context->trace, sums->name);
    struct an_finding *finding = an_findings_add(
        findings, "PYTHON_HOST",
        an_finding_text(context,
                        "the range %.80s takes %.1f %% of the step on the host, where no operator "
                        "of PyTorch is recorded",
                        name, share.mean));
    describe(context, finding, &share, an_finding_text(context, "host time of %.80s", name));
    finding->action = an_finding_text(
        context,
        "move %.80s out of the step: into the workers of the loader, before the loop, or into "
        "every N-th step; where it computes, use operators on whole tensors",
        name);
    finding->verify = an_command_rerun(context, an_finding_text(context, "%.80s shorter", name));
    finding->wrong_when = "the range holds tensor operations that nothing else marks";
    return 0;
}

/* ---- SMALL_BATCH_HOST ------------------------------------------------------------------------ */

/* Calls of operators in a forward and in a backward pass, and of nodes of autograd's graph, each of
 * which calls some operators; and what PyTorch takes for each at least: CPU time of one on a single
 * number, and of a node beside its operator, as the hook measured it. Files of earlier hooks have
 * no nodes: there the time of an operator in backward holds that of a node. */
struct calls {
    double forward, backward, forward_us, backward_us, nodes, node_us;
};

static bool find_calls(const struct an_context *context, struct calls *calls)
{
    *calls = (struct calls){an_trace_last_value(context->trace, "host.operators_forward"),
                            an_trace_last_value(context->trace, "host.operators_backward"),
                            an_trace_last_value(context->trace, "host.operator_forward_us"),
                            an_trace_last_value(context->trace, "host.operator_backward_us"),
                            an_trace_last_value(context->trace, "host.nodes_backward"),
                            an_trace_last_value(context->trace, "host.node_us")};
    return calls->forward > 0 && calls->backward > 0 && calls->forward_us > 0 &&
           calls->backward_us > 0;
}

/* ms of one forward and one backward pass. */
static double calls_ms(const struct calls *calls)
{
    double us = calls->forward * calls->forward_us + calls->backward * calls->backward_us;
    return (calls->nodes > 0 && calls->node_us > 0 ? us + calls->nodes * calls->node_us : us) / 1e3;
}

/* The share of each step; a step of several micro-steps makes the calls as often. 0 or
 * TACHO_ENOMEM. */
static int share_of_calls(const struct an_context *context, double ms, struct an_class_share *share)
{
    double *values = malloc((context->step_count + 1) * sizeof *values);
    size_t count = 0;
    if (!values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        if (is_looked_at(context, &context->step[i])) {
            double pct = an_percent(1e6 * ms, (double)an_step_ns(&context->step[i]));
            values[count++] = pct < 99 ? pct : 99;
        }
    *share = an_share_of_values(values, count);
    free(values);
    return 0;
}

static int small_batch(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    struct calls calls;
    if (!find_calls(context, &calls))
        return 0;
    int64_t micro_steps = context->result->steps.micro_steps;
    double ms = calls_ms(&calls) * (double)(micro_steps > 1 ? micro_steps : 1);
    if (share_of_calls(context, ms, &share))
        return TACHO_ENOMEM;
    if (share.mean - share.half < CALLS_PCT)
        return 0;
    struct an_finding *finding = an_findings_add(
        findings, "SMALL_BATCH_HOST",
        an_finding_text(context,
                        "calling %.0f operators takes %.0f %% of the step, however small the batch "
                        "is: a larger one spreads that time over more samples",
                        calls.forward + calls.backward, share.mean));
    an_finding_evidence(finding, an_class_share_text(context, &share, "calls of operators"));
    an_finding_note(context, finding,
                    "%.0f operators forward and %.0f backward; one on a single number takes %.3g "
                    "and %.3g µs here",
                    calls.forward, calls.backward, calls.forward_us, calls.backward_us);
    if (calls.nodes > 0 && calls.node_us > 0)
        an_finding_note(context, finding,
                        "backward goes through %.0f nodes of autograd's graph: %.3g µs for each",
                        calls.nodes, calls.node_us);
    finding->action = "a larger batch, with the learning rate that belongs to it; or fewer calls: "
                      "torch.compile, fused layers, an optimizer with fused=True";
    finding->changes = "the global batch";
    finding->effort = "a setting, and the learning rate";
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->bound = true;
    finding->method = "ceiling: step / (step - those calls) - 1, for a batch so large that they "
                      "do not count; the gain of larger GEMMs is not included";
    finding->verify = an_command_rerun(context, "the larger batch");
    finding->wrong_when = "training needs that batch size";
    return 0;
}

/* ---- DEBUG_MODE ------------------------------------------------------------------------------ */

/* Switches that the hook looks at between steps, in counters "debugging NAME". */
static const struct debugging {
    const char *name, *claim, *action;
} debugging[] = {
    {"anomaly detection",
     "autograd's anomaly detection is on: it keeps a traceback of every operator and looks for NaN "
     "in every gradient",
     "torch.autograd.set_detect_anomaly(False): it is for finding the operator that makes a NaN"},
    {"torch.profiler", "torch.profiler is on while the program trains: it records every operator",
     "end the profiler after the steps that are looked at: torch.profiler.schedule(wait, warmup, "
     "active)"},
    {"CUDA_LAUNCH_BLOCKING",
     "CUDA_LAUNCH_BLOCKING is set: each launch waits until its kernel has ended",
     "unset CUDA_LAUNCH_BLOCKING"},
    {"TORCH_DISTRIBUTED_DEBUG",
     "TORCH_DISTRIBUTED_DEBUG is DETAIL: before each collective the ranks compare what they call",
     "unset TORCH_DISTRIBUTED_DEBUG, or set it to OFF"}};

/* The share of looks at which a switch was on; of the first process that has the counter. */
static double part_on(const struct an_trace *trace, const char *name)
{
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (strcmp(track->kind, "counter") != 0 || !track->counter_count ||
            strncmp(track->name, "debugging ", 10) != 0 || strcmp(track->name + 10, name) != 0)
            continue;
        double sum = 0;
        for (size_t i = track->counter_first; i < an_counter_end(track); i++)
            sum += trace->counter.value[i];
        return sum / (double)track->counter_count;
    }
    return 0;
}

/* What looking for anomalies adds to each operator in forward and to each node of the graph in
 * backward, as the hook measured it on a single number. */
static void say_anomaly_cost(struct an_context *context, struct an_finding *finding)
{
    double forward = an_trace_last_value(context->trace, "host.anomaly_forward_us"),
           backward = an_trace_last_value(context->trace, "host.anomaly_backward_us"),
           operators_forward = an_trace_last_value(context->trace, "host.operators_forward"),
           nodes = an_trace_last_value(context->trace, "host.nodes_backward"),
           step_ms = an_budget_step_ms(&context->result->budget);
    if (!(nodes > 0)) /* an earlier hook */
        nodes = an_trace_last_value(context->trace, "host.operators_backward");
    double ms = (forward * operators_forward + backward * nodes) / 1e3;
    if (ms > 0 && step_ms > ms)
        an_finding_note(context, finding,
                        "it adds %.3g µs to an operator in forward and %.3g to a node in backward, "
                        "measured on a single number: %.0f of them make %.1f %% of the step at "
                        "least",
                        forward, backward, operators_forward + nodes, an_percent(ms, step_ms));
}

static void debug_mode(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    for (size_t i = 0; i < sizeof debugging / sizeof *debugging; i++) {
        double part = part_on(context->trace, debugging[i].name);
        if (part < 0.5)
            continue;
        struct an_finding *finding = an_findings_add(findings, "DEBUG_MODE", debugging[i].claim);
        an_finding_note(context, finding, "on in %.0f %% of the checks between steps (%s)",
                        100 * part, an_window_text(context));
        if (!i)
            say_anomaly_cost(context, finding);
        finding->action = debugging[i].action;
        finding->effort = "a line, or a variable";
        finding->gain.low = finding->gain.expected = finding->gain.high =
            an_num_none("what it costs as a whole was not measured: record once without it");
        finding->method = "no gain: the switch is read between steps";
        finding->fault = true;
        finding->verify = an_command_rerun(context, "the switch off");
        finding->wrong_when = "the run is for debugging";
    }
}

int an_findings_python(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct sums sums = {.context = context};
    debug_mode(findings);
    size_t before = findings->count;
    if (context->result->budget.reason)
        return 0;
    sums.by_name =
        an_arena_zero(context->scratch, context->trace->string_count + 1, sizeof *sums.by_name);
    if (!sums.by_name || an_causes_make(context, &sums.causes))
        return TACHO_ENOMEM;
    size_t steps = sum_ranges(&sums); /* of lanes without a device */
    int rc = sums.count ? garbage(findings, &sums, steps) : 0;
    if (!rc && findings->count == before)
        rare_collections(findings, &sums);
    if (!rc && !context->gpu)
        rc = small_batch(findings);
    if (rc || context->gpu || an_finding_of_line(findings) ||
        an_command_framework(context) != AN_FRAMEWORK_TORCH)
        return rc;
    return python_host(findings, &sums);
}
