/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of steps that compute on the processor: what measured roofs say about the ops of the
 * step. Each needs ceilings of the machine; where it was never calibrated it is not looked for.
 */
#include "analyzers/findings/findings_engine_private.h"
#include "analyzers/base/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT_THE_ROOF \
    0.5             /* of the DRAM roof: below it something else than the memory holds an op \
                     */
#define FASTER 1.05 /* a roof that is worth a change of the element type */

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

static bool part_of_another(const struct an_trace *trace, size_t i)
{
    const struct an_detail *around =
        trace->slice.parent[i] == AN_NONE
            ? NULL
            : an_trace_detail(trace, trace->slice.detail[trace->slice.parent[i]]);
    return around && around->role == AN_ROLE_WORK && around->flops > 0;
}

/* Finds the calls once; what is looked for goes over them many times. */
static int find_calls(struct an_engine *engine)
{
    const struct an_context *context = engine->context;
    const struct an_trace *trace = context->trace;
    size_t room = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        const struct an_track *track = lane->track == AN_NONE ? NULL : &trace->track[lane->track];
        for (size_t i = track ? track->slice_first : 0;
             track && i < track->slice_first + track->slice_count; i++) {
            const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
            if (!detail || detail->role != AN_ROLE_WORK || !(detail->flops >= 0) ||
                trace->slice.dur[i] == AN_OPEN)
                continue;
            const struct an_step *step = an_step_at(context, lane, trace->slice.start[i]);
            if (!step || !an_step_detailed(step) || part_of_another(trace, i) ||
                an_slice_in_phase(trace, i))
                continue;
            if (an_grow(&engine->found, &room, engine->calls + 1, sizeof *engine->found))
                return TACHO_ENOMEM;
            engine->found[engine->calls++] = (struct an_engine_found){
                trace->slice.detail[i], (uint32_t)(step - context->step), trace->slice.dur[i]};
        }
    }
    return 0;
}

static void add_cost(void *ctx, const struct an_engine_call *call)
{
    struct an_engine_cost *cost = &((struct an_engine *)ctx)->cost[call->detail];
    cost->calls++;
    cost->ns = an_time_add(cost->ns, (int64_t)call->ns);
}

/* ---- LOW_INTENSITY ---------------------------------------------------------------------------------------------------------- */

/* Element-wise work of forward and backward that the DRAM holds: left of the ridge, at half of its
 * roof or more and not above it, as all its calls of this cost go on average. */
static bool at_the_memory(const struct an_engine *engine, const struct an_engine_call *call)
{
    const struct an_engine_cost *cost = &engine->cost[call->detail];
    if (call->d->hardware || an_engine_is_pass(call, "optimizer") || !(call->bytes > 0) ||
        !cost->ns || !call->d->flops)
        return false;
    double rate = call->bytes * (double)cost->calls / (double)cost->ns * 1e9;
    return (double)call->d->flops / call->bytes < engine->peak / engine->dram &&
           rate >= AT_THE_ROOF * engine->dram && rate <= engine->dram;
}

static double whole_time(const struct an_engine *engine, const struct an_engine_call *call)
{
    return at_the_memory(engine, call) ? 0 : NAN;
}

static double wide_time(const struct an_engine *engine, const struct an_engine_call *call)
{
    return !strcmp(call->d->dtype, "fp32") ? whole_time(engine, call) : NAN;
}

/* Without its traffic an op still has its arithmetic. */
static double arithmetic_alone(const struct an_engine *engine, const struct an_engine_call *call)
{
    return at_the_memory(engine, call) ? (double)call->d->flops / engine->peak * 1e9 : NAN;
}

/* The op that takes most of it. */
static const char *largest_words(const struct an_engine *engine)
{
    const struct an_result *result = engine->context->result;
    for (size_t i = 0; i < result->point_count; i++) { /* longest first */
        const struct an_roofline_point *point = &result->points[i];
        if (point->bound && !strcmp(point->bound, "memory") && !point->product &&
            strcmp(point->pass, "optimizer") != 0 &&
            point->achieved_flops >= AT_THE_ROOF * point->attainable_flops)
            return an_arena_format(
                engine->context->arena,
                "most: %.60s, %s GB/s, %.0f %% of the DRAM roof, %s FLOP/byte (%s)", point->name,
                an_number_words(engine->context->arena,
                                point->achieved_flops / point->intensity / 1e9, 3),
                100 * point->achieved_flops / point->attainable_flops,
                an_number_words(engine->context->arena, point->intensity, 3),
                an_window_text(engine->context));
    }
    return NULL;
}

static void low_intensity(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    double removed, time;
    if (!(engine->dram > 0) || !(engine->peak > 0))
        return;
    struct an_class_share share = an_engine_gain(engine, arithmetic_alone, &removed);
    if (!an_class_share_matters(&share)) {
        an_findings_checked(engine->findings, "element-wise work at the speed of the memory");
        return;
    }
    struct an_class_share all = an_engine_gain(engine, whole_time, &time);
    struct an_finding *finding = an_findings_add(
        engine->findings, "LOW_INTENSITY",
        an_arena_format(context->arena,
                        "element-wise work at the speed of the memory takes %.1f %% of the step",
                        all.mean));
    an_finding_evidence(finding, an_engine_window(engine, "such work", &all));
    an_finding_evidence(finding, largest_words(engine));
    an_finding_evidence(
        finding,
        an_arena_format(context->arena,
                        "its arithmetic alone would take %s a step at the fp32 peak (%s GFLOP/s)",
                        an_time_words(context->arena, time - removed, 3),
                        an_number_words(context->arena, engine->peak * engine->share / 1e9, 3)));
    an_finding_evidence(
        finding, an_arena_format(
                     context->arena,
                     "the memory moves %s GB/s at most (measured); the ridge lies at %s FLOP/byte",
                     an_number_words(context->arena, engine->dram * engine->share / 1e9, 3),
                     an_number_words(context->arena, engine->peak / engine->dram, 3)));
    double in_fp32;
    an_engine_gain(engine, wide_time, &in_fp32);
    bool wide = in_fp32 > time / 2; /* most of it has tensors that could be narrower */
    finding->action =
        engine->libtrain && wide ? "--dtype bf16: activations of half the bytes"
        : wide ? "a 16-bit type for activations (bf16), or one pass over each tensor: fuse "
                 "element-wise work "
                 "into the product before it (torch.compile)"
               : "one pass over each tensor: fuse bias, activation function, residual and "
                 "norm into their "
                 "neighbours (torch.compile; post-operations of oneDNN)";
    finding->effort =
        engine->libtrain && wide ? "a setting; the loss has to be watched" : "some lines of code";
    an_finding_ceiling(finding, 100, share.mean, ENGINE_CEILING);
    finding->method =
        "ceiling: step / (step - time of such work + its arithmetic at the instruction "
        "peak) - 1; nothing was replayed";
    finding->confidence = finding->confidence > AN_MEDIUM ? AN_MEDIUM : finding->confidence;
    finding->verify =
        an_command_rerun(context, engine->libtrain && wide ? "--dtype bf16" : "the change");
    finding->wrong_when =
        "the tensors do not get smaller, or what is fused is needed in memory anyway "
        "(kept for backward)";
}

/* ---- LOW_PRECISION ---------------------------------------------------------------------------------------------------------- */

static bool is_fp32_product(const struct an_engine_call *call)
{
    return call->d->hardware && !strcmp(call->d->dtype, "fp32") && call->d->flops > 0;
}

static double product_time(const struct an_engine *engine, const struct an_engine_call *call)
{
    (void)engine;
    return is_fp32_product(call) ? 0 : NAN;
}

/* In bf16: products as much faster as the roofs are apart; what else moves activations moves half
 * the bytes. The optimizer keeps its fp32 weights. */
static double in_bf16(const struct an_engine *engine, const struct an_engine_call *call)
{
    if (is_fp32_product(call))
        return call->ns * an_engine_roof(engine, "fp32") / an_engine_roof(engine, "bf16");
    bool halved = !call->d->hardware && !an_engine_is_pass(call, "optimizer") &&
                  !strcmp(call->d->dtype, "fp32");
    return halved ? call->ns / 2 : NAN;
}

static void add_flops(void *ctx, const struct an_engine_call *call)
{
    *(double *)ctx += is_fp32_product(call) ? (double)call->d->flops : 0;
}

/* Part of their roof that the products reach today, in `ms` of a step. Above 1 the roof is too low.
 */
static double reach(const struct an_engine *engine, double ms)
{
    double flops = 0;
    an_engine_each(engine, add_flops, &flops);
    return flops / (double)engine->context->result->steps.detailed / ms * 1e3 /
           an_engine_roof(engine, "fp32");
}

static const char *reach_words(const struct an_engine *engine, double part)
{
    double rate = part * an_engine_roof(engine, "fp32");
    if (part > 1)
        return an_arena_format(
            engine->context->arena,
            "products of this run: %s GFLOP/s, above the fp32 roof: the calibration is too low, "
            "and how far "
            "the two are apart is not sure (tacho calibrate --force, then record again)",
            an_number_words(engine->context->arena, rate * engine->share / 1e9, 4));
    return an_arena_format(
        engine->context->arena, "products of this run: %s GFLOP/s, %.0f %% of the fp32 roof",
        an_number_words(engine->context->arena, rate * engine->share / 1e9, 4), 100 * part);
}

static void precision_words(const struct an_engine *engine, struct an_finding *finding)
{
    finding->action =
        engine->libtrain
            ? "--dtype bf16: products and activations in bf16, master weights in fp32"
            : "mixed precision: torch.autocast(\"cpu\", torch.bfloat16) around forward and loss";
    finding->effort = "a setting; the loss has to be watched";
    finding->confidence = finding->confidence > AN_MEDIUM ? AN_MEDIUM : finding->confidence;
    finding->verify = an_command_rerun(engine->context, engine->libtrain ? "--dtype bf16" : "bf16");
    finding->wrong_when = "something else than arithmetic holds the products (small shapes, other "
                          "programs on the cores), or training "
                          "does not converge in that type";
}

static void low_precision(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    double removed = 0, time, fp32 = an_engine_roof(engine, "fp32"),
           bf16 = an_engine_roof(engine, "bf16");
    struct an_class_share all = an_engine_gain(engine, product_time, &time), share = all;
    if (!(time > 0) || !(fp32 > 0) || !(bf16 > 0))
        return; /* whether bf16 is faster here is not known without the roofs of products: nothing
                   was looked at */
    if (bf16 / fp32 >= FASTER)
        share = an_engine_gain(engine, in_bf16, &removed);
    if (bf16 / fp32 < FASTER || !an_class_share_matters(&share)) {
        an_findings_checked(engine->findings, "products in fp32 where bf16 is faster");
        return;
    }
    struct an_finding *finding =
        an_findings_add(engine->findings, "LOW_PRECISION",
                        an_arena_format(context->arena,
                                        "products take %.1f %% of the step in fp32; in bf16 this "
                                        "machine multiplies %s times as fast",
                                        all.mean, an_number_words(context->arena, bf16 / fp32, 3)));
    an_finding_evidence(finding, an_engine_window(engine, "products in fp32", &all));
    an_finding_evidence(
        finding, an_arena_format(context->arena,
                                 "fastest product: %s GFLOP/s in bf16, %s in fp32 (measured)",
                                 an_number_words(context->arena, bf16 * engine->share / 1e9, 4),
                                 an_number_words(context->arena, fp32 * engine->share / 1e9, 4)));
    double part = reach(engine, time);
    an_finding_evidence(finding, reach_words(engine, part));
    precision_words(engine, finding);
    finding->confidence = part > 1 ? AN_LOW : finding->confidence;
    an_finding_ceiling(finding, 100, share.mean, ENGINE_CEILING);
    finding->method =
        "ceiling: step / (step - what goes) - 1: products as much faster as the measured "
        "roofs are apart, other work "
        "of forward and backward in half its time; nothing was replayed";
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------ */

/* Ranks on one machine share its ceilings; of several machines the fullest counts. */
static double ranks_a_machine(const struct an_context *context)
{
    size_t most = 1;
    for (size_t i = 0; i < context->lane_count; i++) {
        size_t n = 0;
        for (size_t k = 0; k < context->lane_count; k++)
            n += context->lane[i].process != AN_NONE && context->lane[k].process != AN_NONE &&
                 !strcmp(context->trace->process[context->lane[i].process].host,
                         context->trace->process[context->lane[k].process].host);
        most = n > most ? n : most;
    }
    return (double)most;
}

int an_findings_engine(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_memory_level level[AN_MEMORY_LEVELS];
    size_t levels = an_memory_levels(context, "cpu", level);
    const struct an_ceiling_row *peak = an_ceiling_find(context, "cpu", "flops", "fp32");
    struct an_engine engine = {.findings = findings,
                               .context = context,
                               .share = ranks_a_machine(context),
                               .libtrain = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN};
    if (context->result->budget.reason || !context->result->steps.detailed)
        return 0;
    engine.cost =
        an_arena_zero(context->scratch, context->trace->detail_count + 1, sizeof *engine.cost);
    engine.x = an_arena_zero(context->scratch, context->step_count + 1, sizeof *engine.x);
    if (!engine.cost || !engine.x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < levels; i++) {
        double v = level[i].row->value / engine.share;
        engine.dram = strcmp(level[i].name, "dram") ? engine.dram : v;
        engine.fastest = v > engine.fastest ? v : engine.fastest;
    }
    engine.peak = peak ? peak->value / engine.share : 0;
    int rc = find_calls(&engine);
    if (!rc) {
        an_engine_each(&engine, add_cost, &engine);
        low_precision(&engine);
        low_intensity(&engine);
        an_engine_small_batch(&engine);
        an_engine_recompute(&engine);
    }
    free(engine.found);
    return rc;
}
