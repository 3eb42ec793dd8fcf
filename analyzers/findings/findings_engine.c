/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of steps that compute on the processor: what measured roofs say about the ops of the
 * step. Each needs ceilings of the machine: on a machine that was never calibrated they are not
 * looked for.
 */
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_engine_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the DRAM roof: an op below it is limited by something else than the memory. */
#define AT_THE_ROOF 0.5
/* Times as fast: a roof that is worth a change of the element type. */
#define FASTER 1.05

/* ---- calls ----------------------------------------------------------------------------------- */

/* Is the range around slice i an op with FLOPs of its own? */
static bool part_of_another(const struct an_trace *trace, size_t i)
{
    uint32_t parent = trace->slice.parent[i];
    if (parent == AN_NONE)
        return false;
    const struct an_detail *around = an_trace_detail(trace, trace->slice.detail[parent]);
    return around && around->role == AN_ROLE_WORK && around->flops > 0;
}

/* Collects the calls once, because the checks go over them many times. */
static int find_calls(struct an_engine *engine)
{
    const struct an_context *context = engine->context;
    const struct an_trace *trace = context->trace;
    size_t room = 0;
    for (size_t lane_index = 0; lane_index < context->lane_count; lane_index++) {
        const struct an_lane *lane = &context->lane[lane_index];
        if (lane->track == AN_NONE)
            continue;
        const struct an_track *track = &trace->track[lane->track];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
            if (!detail || detail->role != AN_ROLE_WORK || !(detail->flops >= 0) ||
                trace->slice.dur[i] == AN_OPEN)
                continue;
            const struct an_step *step = an_step_at(context, lane, trace->slice.start[i]);
            if (!step || !an_step_detailed(step) || part_of_another(trace, i) ||
                an_slice_in_phase(trace, i))
                continue;
            if (an_grow(&engine->found, &room, engine->found_count + 1, sizeof *engine->found))
                return TACHO_ENOMEM;
            engine->found[engine->found_count++] = (struct an_engine_found){
                trace->slice.detail[i], (uint32_t)(step - context->step), trace->slice.dur[i]};
        }
    }
    return 0;
}

static void add_cost(void *ctx, const struct an_engine_call *call)
{
    struct an_engine_cost *cost = &((struct an_engine *)ctx)->cost[call->index];
    cost->calls++;
    cost->ns = an_time_add(cost->ns, (int64_t)call->ns);
}

/* ---- LOW_INTENSITY --------------------------------------------------------------------------- */

/* Is a call element-wise work of forward or backward that the DRAM limits? It is left of the ridge,
 * and all calls of its cost reach on average half of the DRAM roof or more, but not more than the
 * roof. */
static bool memory_bound(const struct an_engine *engine, const struct an_engine_call *call)
{
    const struct an_engine_cost *cost = &engine->cost[call->index];
    if (call->detail->hardware || an_engine_is_pass(call, "optimizer") || !(call->bytes > 0) ||
        !cost->ns || !call->detail->flops)
        return false;
    double rate = call->bytes * (double)cost->calls / (double)cost->ns * 1e9;
    return (double)call->detail->flops / call->bytes < engine->peak / engine->dram &&
           rate >= AT_THE_ROOF * engine->dram && rate <= engine->dram;
}

static double whole_time(const struct an_engine *engine, const struct an_engine_call *call)
{
    return memory_bound(engine, call) ? 0 : NAN;
}

static double wide_time(const struct an_engine *engine, const struct an_engine_call *call)
{
    return !strcmp(call->detail->dtype, "fp32") ? whole_time(engine, call) : NAN;
}

/* Without its traffic an op still has its arithmetic. */
static double arithmetic_alone(const struct an_engine *engine, const struct an_engine_call *call)
{
    return memory_bound(engine, call) ? (double)call->detail->flops / engine->peak * 1e9 : NAN;
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
            return an_finding_text(
                engine->context,
                "most: %.60s, %s GB/s, %.0f %% of the DRAM roof, %s FLOP/byte (%s)", point->name,
                an_number_words(engine->context->arena,
                                point->achieved_flops / point->intensity / 1e9, 3),
                100 * point->achieved_flops / point->attainable_flops,
                an_number_words(engine->context->arena, point->intensity, 3),
                an_window_text(engine->context));
    }
    return NULL;
}

/* `wide`: most of the work has tensors that could be narrower. */
static void low_intensity_action(const struct an_engine *engine, struct an_finding *finding,
                                 bool wide)
{
    if (wide && engine->libtrain)
        finding->action = "--dtype bf16: activations of half the bytes";
    else if (wide)
        finding->action = "a 16-bit type for activations (bf16), or one pass over each tensor: "
                          "fuse element-wise work into the GEMM before it (torch.compile)";
    else
        finding->action = "one pass over each tensor: fuse bias, activation function, residual and "
                          "norm into their neighbours (torch.compile; post-operations of oneDNN)";
    bool setting = wide && engine->libtrain;
    finding->changes = setting ? "the precision of activations" : NULL;
    finding->effort = setting ? "a setting; watch the loss" : "some lines of code";
    finding->setting = setting ? "--dtype bf16" : "the change";
    finding->verify = an_command_rerun(engine->context, finding->setting);
}

/* Looks at element-wise work at the speed of the memory. Fusing it would leave its arithmetic, so
 * the ceiling is the time without the traffic. */
static void low_intensity(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    double removed, time;
    if (!(engine->dram > 0) || !(engine->peak > 0))
        return;
    struct an_class_share share = an_engine_gain(engine, arithmetic_alone, &removed);
    if (!an_class_share_matters(&share))
        return;
    struct an_class_share all = an_engine_gain(engine, whole_time, &time);
    struct an_finding *finding = an_findings_add(
        engine->findings, "LOW_INTENSITY",
        an_finding_text(context,
                        "element-wise work at the speed of the memory takes %.1f %% of the step",
                        all.mean));
    an_finding_evidence(finding, an_class_share_text(engine->context, &all, "such work:"));
    an_finding_evidence(finding, largest_words(engine));
    an_finding_note(context, finding,
                    "its arithmetic alone would take %s a step at the fp32 peak (%s GFLOP/s)",
                    an_time_words(context->arena, time - removed, 3),
                    an_number_words(context->arena, engine->peak * engine->ranks / 1e9, 3));
    an_finding_note(context, finding,
                    "the memory moves %s GB/s at most (measured); the ridge is at %s FLOP/byte",
                    an_number_words(context->arena, engine->dram * engine->ranks / 1e9, 3),
                    an_number_words(context->arena, engine->peak / engine->dram, 3));
    an_finding_evidence(finding, an_fusion_words(context));
    double in_fp32;
    an_engine_gain(engine, wide_time, &in_fp32);
    low_intensity_action(engine, finding, in_fp32 > time / 2);
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - time of such work + its arithmetic at the "
                      "instruction peak) - 1; nothing was replayed";
    an_finding_at_most_medium(finding);
    finding->wrong_when = "the tensors do not get smaller, or the fused tensors are needed in "
                          "memory anyway (kept for backward)";
}

/* ---- LOW_PRECISION --------------------------------------------------------------------------- */

static bool is_fp32_product(const struct an_engine_call *call)
{
    return call->detail->hardware && !strcmp(call->detail->dtype, "fp32") &&
           call->detail->flops > 0;
}

static double product_time(const struct an_engine *engine, const struct an_engine_call *call)
{
    (void)engine;
    return is_fp32_product(call) ? 0 : NAN;
}

/* The time of a call in bf16. GEMMs are faster by the ratio of the roofs, other work of forward
 * and backward moves half the bytes, and the optimizer keeps its fp32 weights. */
static double in_bf16(const struct an_engine *engine, const struct an_engine_call *call)
{
    if (is_fp32_product(call))
        return call->ns * an_engine_roof(engine, "fp32") / an_engine_roof(engine, "bf16");
    bool halved = !call->detail->hardware && !an_engine_is_pass(call, "optimizer") &&
                  !strcmp(call->detail->dtype, "fp32");
    return halved ? call->ns / 2 : NAN;
}

static void add_flops(void *ctx, const struct an_engine_call *call)
{
    *(double *)ctx += is_fp32_product(call) ? (double)call->detail->flops : 0;
}

/* Part of their roof that the GEMMs reach in this run, with `ms` of a step. Above 1 the roof was
 * measured too low. */
static double reach(const struct an_engine *engine, double ms)
{
    double flops = 0;
    an_engine_each(engine, add_flops, &flops);
    return flops / (double)engine->context->result->steps.detailed / ms * 1e3 /
           an_engine_roof(engine, "fp32");
}

/* Evidence: what the GEMMs reach of their roof. Above it the calibration is too low, and the
 * ratio of the two roofs is not certain. */
static const char *reach_words(const struct an_engine *engine, double part)
{
    double rate = part * an_engine_roof(engine, "fp32");
    if (part > 1)
        return an_finding_text(
            engine->context,
            "GEMMs of this run: %s GFLOP/s, above the fp32 roof: the calibration is too low, and "
            "the ratio of the two roofs is not certain (tacho calibrate --force, then record "
            "again)",
            an_number_words(engine->context->arena, rate * engine->ranks / 1e9, 4));
    return an_finding_text(
        engine->context, "GEMMs of this run: %s GFLOP/s, %.0f %% of the fp32 roof",
        an_number_words(engine->context->arena, rate * engine->ranks / 1e9, 4), 100 * part);
}

/* The texts of the finding that do not depend on its numbers. */
static void precision_words(const struct an_engine *engine, struct an_finding *finding)
{
    finding->action =
        engine->libtrain
            ? "--dtype bf16: GEMMs and activations in bf16, master weights in fp32"
            : "mixed precision: torch.autocast(\"cpu\", torch.bfloat16) around forward and loss";
    finding->effort = "a setting; watch the loss";
    finding->changes = "the precision of GEMMs and activations";
    an_finding_at_most_medium(finding);
    finding->setting = engine->libtrain ? "--dtype bf16" : "bf16";
    finding->verify = an_command_rerun(engine->context, finding->setting);
    finding->wrong_when = "something other than arithmetic limits the GEMMs (small shapes, other "
                          "programs on the cores), or training does not converge in that type";
}

/* Looks at GEMMs in fp32 on a machine that multiplies bf16 faster. Without roofs of both types
 * nothing is checked, and nothing is said. */
static void low_precision(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    double removed = 0, time, fp32 = an_engine_roof(engine, "fp32"),
           bf16 = an_engine_roof(engine, "bf16");
    struct an_class_share all = an_engine_gain(engine, product_time, &time), share = all;
    if (!(time > 0) || !(fp32 > 0) || !(bf16 > 0))
        return;
    if (bf16 / fp32 >= FASTER)
        share = an_engine_gain(engine, in_bf16, &removed);
    if (bf16 / fp32 < FASTER || !an_class_share_matters(&share))
        return;
    struct an_finding *finding =
        an_findings_add(engine->findings, "LOW_PRECISION",
                        an_finding_text(context,
                                        "GEMMs take %.1f %% of the step in fp32; in bf16 this "
                                        "machine multiplies %s times as fast",
                                        all.mean, an_number_words(context->arena, bf16 / fp32, 3)));
    an_finding_evidence(finding, an_class_share_text(engine->context, &all, "GEMMs in fp32:"));
    an_finding_note(context, finding, "fastest GEMM: %s GFLOP/s in bf16, %s in fp32 (measured)",
                    an_number_words(context->arena, bf16 * engine->ranks / 1e9, 4),
                    an_number_words(context->arena, fp32 * engine->ranks / 1e9, 4));
    double part = reach(engine, time);
    an_finding_evidence(finding, reach_words(engine, part));
    precision_words(engine, finding);
    finding->confidence = part > 1 ? AN_LOW : finding->confidence;
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->method =
        "ceiling: step / (step - time saved) - 1: GEMMs faster by the ratio of the measured roofs, "
        "other work of forward and backward in half its time; nothing was replayed";
    finding->what_if = "precision=bf16";
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Ranks of one machine share its ceilings. Of several machines the one with most ranks counts. */
static double ranks_per_machine(const struct an_context *context)
{
    size_t most;
    an_lane_hosts(context, &most);
    return (double)(most ? most : 1);
}

int an_findings_engine(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_memory_level level[AN_MEMORY_LEVELS];
    size_t levels = an_memory_levels(context, "cpu", level);
    const struct an_ceiling_row *peak = an_ceiling_find(context, "cpu", "flops", "fp32");
    struct an_engine engine = {.findings = findings,
                               .context = context,
                               .ranks = ranks_per_machine(context),
                               .libtrain = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN};
    if (context->result->budget.reason || !context->result->steps.detailed)
        return 0;
    engine.cost =
        an_arena_zero(context->scratch, context->trace->detail_count + 1, sizeof *engine.cost);
    engine.step_values =
        an_arena_zero(context->scratch, context->step_count + 1, sizeof *engine.step_values);
    if (!engine.cost || !engine.step_values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < levels; i++) {
        double rate = level[i].row->value / engine.ranks;
        if (!strcmp(level[i].name, "dram"))
            engine.dram = rate;
        if (rate > engine.fastest)
            engine.fastest = rate;
    }
    engine.peak = peak ? peak->value / engine.ranks : 0;
    int rc = find_calls(&engine);
    if (!rc) {
        an_engine_each(&engine, add_cost, &engine);
        low_precision(&engine);
        low_intensity(&engine);
        an_engine_small_batch(&engine);
        an_engine_dimensions(&engine);
        an_engine_recompute(&engine);
    }
    free(engine.found);
    return rc;
}
