/* SPDX-License-Identifier: Apache-2.0
 *
 * micro=Fx and precision=TYPE: each operator's time at another size or in another type. A GEMM
 * follows the efficiency curve (work/gemm_curve.h). Other work of forward and backward grows with
 * the samples but for what a call costs that has nothing to do, and moves half the bytes in a type
 * of half the width. What is done once a step or micro-step keeps its time.
 *
 * All times are per recorded samples: F times as large micro-batches are F times fewer. Where the
 * run does not accumulate, its step then has F times the samples, and a share 1 / F of it counts.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/replay/what_if_private.h"
#include "analyzers/work/gemm_curve.h"

#define UNCOVERED_MOST 5.0 /* % of the time of GEMMs that the curve may not cover */

/* What a reading takes for granted. */
#define READS_OFFSET 1 /* calls are slower than the curve by as many ns; else as many times */
#define READS_HIGH   2 /* the ratio of two times of the curve is at the high end */

struct an_rescale {
    struct an_gemm_curve curve;
    int64_t micro_steps;
    double rows; /* of a micro-batch: tokens, else samples */
    /* Of each detail. */
    double *call_ns; /* mean own work of a call; 0: none is replayed */
    int64_t *calls;
    struct an_gemm_layer *layer; /* rows 0: its shape is not known */
    double *share;               /* in the reading at hand; NAN: not computed yet */
};

/* ---- the run as it is ------------------------------------------------------------------------ */

bool an_is_precision(const struct an_context *context, const char *dtype)
{
    bool any = false;
    for (size_t i = 0; i < context->trace->detail_count; i++) {
        const struct an_detail *detail = &context->trace->detail[i];
        if (detail->role != AN_ROLE_WORK || strcmp(detail->kind, "matrix") != 0)
            continue;
        if (strcmp(detail->dtype, dtype) != 0)
            return false;
        any = true;
    }
    return any;
}

/* The operator that a node is a piece of; NULL: none. *index: of its detail. */
static const struct an_detail *work_of(const struct an_replay *replay, uint32_t node,
                                       uint32_t *index)
{
    const struct an_trace *trace = replay->context->trace;
    uint32_t slice = replay->graph->slice[node];
    if (slice == AN_NONE || an_graph_on_device(replay->graph, node))
        return NULL;
    *index = trace->slice.detail[slice];
    const struct an_detail *detail = an_trace_detail(trace, *index);
    return detail && detail->role == AN_ROLE_WORK && detail->flops >= 0 ? detail : NULL;
}

/* The mean own work of the calls of each detail. A call may be several nodes in a row. */
static void measure_calls(const struct an_replay *replay, struct an_rescale *rescale)
{
    uint32_t last = AN_NONE, index;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->phase[node] || !work_of(replay, node, &index))
            continue;
        rescale->call_ns[index] += (double)replay->own[node];
        rescale->calls[index] += replay->graph->slice[node] != last;
        last = replay->graph->slice[node];
    }
    for (size_t i = 0; i < replay->context->trace->detail_count; i++)
        if (rescale->calls[i])
            rescale->call_ns[i] /= (double)rescale->calls[i];
}

/* Finds the shapes. Rows of the GEMMs of a micro-batch: a language model has its tokens, others
 * their samples. */
static void find_shapes(const struct an_context *context, struct an_rescale *rescale)
{
    const struct an_steps *steps = &context->result->steps;
    double micro_steps = (double)rescale->micro_steps,
           tokens = an_value_or_0(steps->tokens_per_step) / micro_steps,
           samples = an_value_or_0(steps->samples_per_step) / micro_steps;
    rescale->rows = tokens > 0 ? tokens : samples;
    for (size_t i = 0; i < context->trace->detail_count; i++) {
        const struct an_detail *detail = &context->trace->detail[i];
        struct an_gemm_layer *layer = &rescale->layer[i];
        if (!rescale->calls[i] ||
            (!an_gemm_layer_of(detail, tokens, layer) && !an_gemm_layer_of(detail, samples, layer)))
            layer->rows = 0;
    }
}

static bool is_gemm(const struct an_detail *detail)
{
    return !strcmp(detail->kind, "matrix") || !strcmp(detail->kind, "convolution");
}

static enum an_gemm_type type_after(const struct an_plan *plan, const struct an_detail *detail)
{
    return an_gemm_type_of(plan->precision ? plan->precision : detail->dtype);
}

/* ---- times by the curve ---------------------------------------------------------------------- */

/* ns of a GEMM by the curve, as recorded and after the edits; false: it does not cover them. */
static bool curve_times(const struct an_plan *plan, uint32_t index, double *before, double *after)
{
    const struct an_rescale *rescale = plan->rescale;
    const struct an_detail *detail = &plan->state->replay->context->trace->detail[index];
    struct an_gemm_layer layer = rescale->layer[index];
    *before = an_gemm_curve_ns(&rescale->curve, an_gemm_type_of(detail->dtype), &layer);
    layer.rows *= (double)plan->micro;
    *after = an_gemm_curve_ns(&rescale->curve, type_after(plan, detail), &layer);
    return *before > 0 && *after > 0;
}

/* What the call takes after the edits, as a share of what it takes now for the same samples. */
static double gemm_share(const struct an_plan *plan, uint32_t index, int reading)
{
    double before, after, error = AN_Z90 * M_SQRT2 * plan->rescale->curve.error,
                          call_ns = plan->rescale->call_ns[index];
    if (!(call_ns > 0) || !curve_times(plan, index, &before, &after))
        return 1;
    after *= exp(reading & READS_HIGH ? error : -error);
    bool offset = (reading & READS_OFFSET) && call_ns > before;
    double share = offset ? (after + call_ns - before) / call_ns : after / before;
    return share / (double)plan->micro;
}

/* The times of the two types for a layer of the smallest size, as a ratio: of the small GEMMs in
 * attention. 1: the curve does not cover it. */
static double small_gemm_share(const struct an_rescale *rescale, enum an_gemm_type before,
                               enum an_gemm_type after)
{
    double size = rescale->curve.size[0];
    const struct an_gemm_layer layer = {rescale->rows, size, size, .forward = true};
    double share = an_gemm_curve_ns(&rescale->curve, after, &layer) /
                   an_gemm_curve_ns(&rescale->curve, before, &layer);
    return isfinite(share) ? share : 1;
}

/* Another type: a reading in which only the bytes take time, of attention only its GEMMs, and one
 * in which nothing changes. */
static double type_share(const struct an_plan *plan, const struct an_detail *detail, int reading)
{
    enum an_gemm_type before = an_gemm_type_of(detail->dtype), after = type_after(plan, detail);
    if (before == after || before == AN_GEMM_TYPES || !(reading & READS_OFFSET))
        return 1;
    if (!strcmp(detail->kind, "attention"))
        return small_gemm_share(plan->rescale, before, after);
    return after == AN_GEMM_BF16 ? 0.5 : 2;
}

/* The same of work that is no GEMM. */
static double other_share(const struct an_plan *plan, const struct an_detail *detail,
                          double call_ns, int reading)
{
    double fixed = fmin(plan->rescale->curve.overhead_ns, call_ns), micro = (double)plan->micro;
    if (!(call_ns > 0))
        return 1;
    double grows = (call_ns - fixed) * micro * type_share(plan, detail, reading);
    return (fixed + grows) / call_ns / micro;
}

/* Is a node of the host done anew in each micro-step? Where a step is one, all of it is, but for
 * the loader's work, which grows with the samples. */
static bool each_micro_step(const struct an_replay *replay, const struct an_rescale *rescale,
                            uint32_t node)
{
    const struct an_trace *trace = replay->context->trace;
    if (an_graph_on_device(replay->graph, node) || replay->graph->cause[node] == AN_CAUSE_INPUT)
        return false;
    if (rescale->micro_steps == 1)
        return true;
    for (uint32_t slice = replay->graph->slice[node]; slice != AN_NONE;
         slice = trace->slice.parent[slice])
        if (an_slice_role(trace, slice) == AN_ROLE_MICRO_STEP)
            return true;
    return false;
}

static double share_of_work(const struct an_plan *plan, uint32_t index, int reading)
{
    const struct an_detail *detail = &plan->state->replay->context->trace->detail[index];
    return is_gemm(detail) ? gemm_share(plan, index, reading)
                           : other_share(plan, detail, plan->rescale->call_ns[index], reading);
}

static double share_of_node(const struct an_plan *plan, uint32_t node, int reading)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_rescale *rescale = plan->rescale;
    uint32_t index;
    const struct an_detail *detail = work_of(replay, node, &index);
    if (!detail || !strcmp(detail->pass, "optimizer"))
        return each_micro_step(replay, rescale, node) ? 1 / (double)plan->micro : 1;
    if (isnan(rescale->share[index]))
        rescale->share[index] = share_of_work(plan, index, reading);
    return rescale->share[index];
}

void an_plan_rescale(struct an_plan *plan, int reading)
{
    const struct an_replay *replay = plan->state->replay;
    for (size_t i = 0; i < replay->context->trace->detail_count; i++)
        plan->rescale->share[i] = NAN;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (!replay->phase[node])
            plan->state->own[node] =
                (int64_t)((double)plan->state->own[node] * share_of_node(plan, node, reading));
    }
}

/* ---- what it needs --------------------------------------------------------------------------- */

/* Why the run has no such micro-batches; NULL: it has. */
static const char *no_such_micro(const struct an_plan *plan)
{
    int64_t micro_steps = plan->rescale->micro_steps;
    if (micro_steps == 1 || micro_steps % plan->micro == 0)
        return NULL;
    return an_arena_format(plan->state->replay->context->arena,
                           "the run accumulates %lld micro-steps, which are no multiple of %lld: "
                           "the global batch would change",
                           (long long)micro_steps, (long long)plan->micro);
}

/* Why the curve does not tell the time of the run's GEMMs; NULL: it does. */
static const char *not_covered(const struct an_plan *plan)
{
    const struct an_context *context = plan->state->replay->context;
    double all = 0, missing = 0, before, after;
    for (uint32_t i = 0; i < context->trace->detail_count; i++) {
        const struct an_detail *detail = &context->trace->detail[i];
        double ns = plan->rescale->call_ns[i] * (double)plan->rescale->calls[i];
        if (!(ns > 0) || !is_gemm(detail) || !strcmp(detail->pass, "optimizer"))
            continue;
        all += ns;
        missing += curve_times(plan, i, &before, &after) ? 0 : ns;
    }
    if (!(all > 0))
        return "no GEMMs with FLOPs and bytes are in the replayed steps";
    if (100 * missing <= UNCOVERED_MOST * all)
        return NULL;
    return an_arena_format(plan->state->replay->context->arena,
                           "the curve of GEMMs does not cover the shapes or types of %.0f %% of "
                           "their time",
                           100 * missing / all);
}

/* What a step is after the edit, and what the times are of. */
static const char *condition_of(const struct an_plan *plan)
{
    struct an_context *context = plan->state->replay->context;
    int64_t micro_steps = plan->rescale->micro_steps;
    const char *precision =
        plan->precision
            ? an_arena_format(context->arena, "GEMMs and activations in %s", plan->precision)
            : "";
    const char *comma = plan->precision && plan->micro > 1 ? ", " : "";
    if (plan->micro == 1)
        return precision;
    if (micro_steps == 1)
        return an_arena_format(context->arena,
                               "%s%sa global batch %lld times as large; step times are those of "
                               "as many samples as now",
                               precision, comma, (long long)plan->micro);
    return an_arena_format(context->arena,
                           "%s%sthe same global batch in %lld micro-steps, not %lld", precision,
                           comma, (long long)(micro_steps / plan->micro), (long long)micro_steps);
}

int an_plan_rescale_open(struct an_plan *plan)
{
    struct an_context *context = plan->state->replay->context;
    size_t details = context->trace->detail_count + 1;
    struct an_rescale *rescale = an_arena_zero(context->scratch, 1, sizeof *rescale);
    if (!rescale)
        return TACHO_ENOMEM;
    rescale->call_ns = an_arena_zero(context->scratch, details, sizeof *rescale->call_ns);
    rescale->calls = an_arena_zero(context->scratch, details, sizeof *rescale->calls);
    rescale->layer = an_arena_zero(context->scratch, details, sizeof *rescale->layer);
    rescale->share = an_arena_zero(context->scratch, details, sizeof *rescale->share);
    if (!rescale->call_ns || !rescale->calls || !rescale->layer || !rescale->share)
        return TACHO_ENOMEM;
    plan->rescale = rescale;
    plan->more = true;
    plan->reason = context->gpu ? "the curve of GEMMs is that of the processor, and the run "
                                  "computes on a device"
                                : an_gemm_curve_of(context, &rescale->curve);
    if (plan->reason)
        return 0;
    rescale->micro_steps = an_micro_steps(context);
    measure_calls(plan->state->replay, rescale);
    find_shapes(context, rescale);
    plan->reason = no_such_micro(plan);
    plan->reason = plan->reason ? plan->reason : not_covered(plan);
    plan->condition = plan->reason ? NULL : condition_of(plan);
    return 0;
}

int an_plan_curve_share(const struct an_plan *plan, double *share)
{
    struct an_plan as_recorded = {.state = plan->state, .micro = 1};
    double by_curve = 0, all = 0, before, after;
    int rc = an_plan_rescale_open(&as_recorded);
    *share = 1;
    if (rc || as_recorded.reason)
        return rc;
    const struct an_rescale *rescale = as_recorded.rescale;
    const struct an_trace *trace = plan->state->replay->context->trace;
    for (uint32_t i = 0; i < trace->detail_count; i++) {
        if (!rescale->calls[i] || !is_gemm(&trace->detail[i]) ||
            !strcmp(trace->detail[i].pass, "optimizer") ||
            !curve_times(&as_recorded, i, &before, &after))
            continue;
        by_curve += before * (double)rescale->calls[i];
        all += rescale->call_ns[i] * (double)rescale->calls[i];
    }
    if (all > 0)
        *share = fmin(1, by_curve / all * exp(-AN_Z90 * rescale->curve.error));
    return 0;
}
