/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the size of the work: micro-batches that are too small for the machine, and
 * recomputation that memory would make needless.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_engine_private.h"

#define LITTLE 0.5 /* of the roof of products */
#define MOSTLY 0.5 /* of the time of products, in calls that are small */
#define SHORT_CALL \
    1e5 /* ns at its roof: starting threads and filling caches weighs in a call that short */
#define LONG_CALL   5e5 /* ns at its roof of a call that a larger batch aims at */
#define FACTOR_MOST 32  /* times the micro-batch */
#define ROOM_USED   0.9 /* of the memory that is left */

/* ---- SMALL_BATCH ------------------------------------------------------------------------------------------------------------ */

struct batch {
    const struct an_engine *engine;
    double flops, ns, at_roof_ns, small_ns,
        calls;           /* of products in forward, backward and recomputation */
    double left, ridge;  /* ns left of the ridge; largest ridge of their types */
    double width;        /* bytes of an element of that type */
    int64_t micro_steps; /* a step */
    double factor;       /* of the micro-batch */
    bool unknown;        /* a type without a roof */
};

static bool scales(const struct an_engine_call *call)
{
    return !an_engine_is_pass(call, "optimizer");
}

static double ridge_of(const struct an_engine *engine, const char *dtype)
{
    const struct an_ceiling_row *peak = an_ceiling_find(engine->context, "cpu", "flops", dtype);
    return peak && engine->dram > 0 ? peak->value / engine->share / engine->dram : 0;
}

static void add_product(void *ctx, const struct an_engine_call *call)
{
    struct batch *batch = ctx;
    double roof = an_engine_roof(batch->engine, call->d->dtype),
           ridge = ridge_of(batch->engine, call->d->dtype);
    if (!call->d->hardware || !scales(call) || !(call->d->flops > 0))
        return;
    batch->unknown = batch->unknown || !(roof > 0);
    batch->flops += (double)call->d->flops;
    batch->ns += call->ns;
    batch->calls++;
    batch->at_roof_ns += roof > 0 ? (double)call->d->flops / roof * 1e9 : 0;
    bool left = call->bytes > 0 && (double)call->d->flops / call->bytes < ridge;
    batch->left += left ? call->ns : 0;
    batch->small_ns += left || (double)call->d->flops < roof * SHORT_CALL / 1e9 ? call->ns : 0;
    if (ridge > batch->ridge) {
        batch->ridge = ridge;
        batch->width = !strcmp(call->d->dtype, "bf16") || !strcmp(call->d->dtype, "fp16") ? 2 : 4;
    }
}

/* Micro-steps of a step, by their ranges; 1 where the program marks none. */
static int64_t micro_steps_of(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    int64_t n = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_track *track =
            context->lane[k].track == AN_NONE ? NULL : &trace->track[context->lane[k].track];
        for (size_t i = track ? track->slice_first : 0;
             track && i < track->slice_first + track->slice_count; i++) {
            if (an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_MICRO_STEP)
                continue;
            const struct an_step *step =
                an_step_at(context, &context->lane[k], trace->slice.start[i]);
            n += step && an_step_detailed(step);
        }
    }
    n = context->result->steps.detailed
            ? (n + context->result->steps.detailed / 2) / context->result->steps.detailed
            : 0;
    return n > 1 ? n : 1;
}

/* What a call with a larger micro-batch takes at least for the same samples: products at their
 * roof, the rest at the fastest memory that was measured or at its arithmetic. */
static double at_its_roof(const struct an_engine *engine, const struct an_engine_call *call)
{
    double arithmetic = engine->peak > 0 ? (double)call->d->flops / engine->peak * 1e9 : 0;
    double traffic = engine->fastest > 0 ? call->bytes / engine->fastest * 1e9 : 0;
    if (!scales(call))
        return NAN;
    if (call->d->hardware)
        return (double)call->d->flops / an_engine_roof(engine, call->d->dtype) * 1e9;
    return arithmetic > traffic ? arithmetic : traffic;
}

static double all_that_scales(const struct an_engine *engine, const struct an_engine_call *call)
{
    (void)engine;
    return scales(call) ? 0 : NAN;
}

static double all_of_the_optimizer(const struct an_engine *engine,
                                   const struct an_engine_call *call)
{
    (void)engine;
    return scales(call) ? NAN : 0;
}

static double power_of_two_below(double v)
{
    return v >= 2 ? pow(2, floor(log2(v))) : 1;
}

/* How many times the micro-batch would be large enough, and fits: 1 where it does not. */
static double factor_of(const struct an_engine *engine, const struct batch *batch, double rows)
{
    const struct an_memory *memory = &engine->context->result->memory;
    double wanted = LONG_CALL / (batch->at_roof_ns / batch->calls);
    if (batch->left >= MOSTLY * batch->ns && rows > 0 &&
        batch->ridge * batch->width / 2 / rows > wanted)
        wanted = batch->ridge * batch->width / 2 /
                 rows; /* fewer rows are left of the ridge whatever the other sizes are */
    wanted = wanted < 2 ? 2 : wanted > FACTOR_MOST ? FACTOR_MOST : pow(2, ceil(log2(wanted)));
    if (batch->micro_steps > 1 && wanted > (double)batch->micro_steps)
        wanted = (double)batch->micro_steps;
    double grows = memory->batch_bytes.valid           ? (double)memory->batch_bytes.value
                   : memory->resident_peak_bytes.valid ? (double)memory->resident_peak_bytes.value
                                                       : 0;
    if (!memory->room_bytes.valid || !(grows > 0))
        return 1;
    double fits = power_of_two_below(1 + ROOM_USED * (double)memory->room_bytes.value / grows);
    return wanted < fits ? wanted : fits;
}

static const char *room_words(const struct an_engine *engine, double factor)
{
    const struct an_memory *memory = &engine->context->result->memory;
    bool counted = memory->batch_bytes.valid;
    double grows =
        (double)(counted ? memory->batch_bytes.value : memory->resident_peak_bytes.value);
    return an_arena_format(engine->context->arena,
                           "memory: %s take %s, %s times as much is %s more; %s are left (%s)",
                           counted ? "activations and workspace" : "all that is resident",
                           an_findings_bytes(engine->context, grows),
                           an_number_words(engine->context->arena, factor, 3),
                           an_findings_bytes(engine->context, (factor - 1) * grows),
                           an_findings_bytes(engine->context, (double)memory->room_bytes.value),
                           counted ? "counted" : "system layer");
}

/* Share of the step that goes at most: what scales with samples at its roofs, what is once a step
 * or a micro-step divided by the factor. With accumulation the optimizer and the exchange of
 * gradients stay: the global batch does. */
static double batch_gain_pct(const struct an_engine *engine, const struct batch *batch,
                             struct an_class_share *share)
{
    const struct an_budget *all = &engine->context->result->budget;
    double ms, step_ms = an_engine_step_ms(engine), scaled, optimizer;
    an_engine_gain(engine, all_that_scales, &scaled);
    an_engine_gain(engine, all_of_the_optimizer, &optimizer);
    *share = an_engine_gain(engine, at_its_roof, &ms);
    double input = all->ns[AN_CLASS_INPUT].valid
                       ? (double)all->ns[AN_CLASS_INPUT].value / (double)all->steps / 1e6
                       : 0;
    double comm = all->ns[AN_CLASS_COMM].valid
                      ? (double)all->ns[AN_CLASS_COMM].value / (double)all->steps / 1e6
                      : 0;
    double once = step_ms - scaled - input;
    if (batch->micro_steps > 1)
        once -= optimizer + comm;
    once = once > 0 ? once : 0;
    return 100 * (ms + once * (1 - 1 / batch->factor)) / step_ms;
}

/* Settings of the engine. */
static const char *batch_option(const struct batch *batch, double micro)
{
    struct an_context *context = batch->engine->context;
    if (batch->micro_steps > 1)
        return an_arena_format(context->arena, "--batch %.0f --accumulate %.0f",
                               micro * batch->factor,
                               ceil((double)batch->micro_steps / batch->factor));
    return an_arena_format(context->arena, "--batch %.0f", micro * batch->factor);
}

static const char *batch_action(const struct an_engine *engine, const struct batch *batch,
                                double samples)
{
    struct an_context *context = engine->context;
    double micro = samples / (double)batch->micro_steps,
           global =
               samples * (double)(context->result->run.ranks > 1 ? context->result->run.ranks : 1);
    const char *to = engine->libtrain ? batch_option(batch, micro)
                                      : an_arena_format(context->arena, "a micro-batch of %.0f",
                                                        micro * batch->factor);
    if (batch->micro_steps > 1)
        return an_arena_format(
            context->arena,
            "%s in place of %.0f: the same global batch of %.0f samples in fewer micro-steps", to,
            micro, global);
    return an_arena_format(context->arena,
                           "%s in place of %.0f: a global batch of %.0f samples, not %.0f; the "
                           "learning rate has to follow",
                           to, micro, global * batch->factor, global);
}

void an_engine_small_batch(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    const struct an_steps *steps = &context->result->steps;
    struct batch batch = {.engine = engine, .micro_steps = micro_steps_of(context)};
    struct an_class_share share;
    an_engine_each(engine, add_product, &batch);
    if (!(batch.ns > 0) || batch.unknown || !steps->samples_per_step.valid)
        return; /* no roof of products: nothing was looked at */
    double samples = steps->samples_per_step.value, micro = samples / (double)batch.micro_steps;
    double rows = steps->tokens_per_step.valid && steps->tokens_per_step.value > 0
                      ? steps->tokens_per_step.value / (double)batch.micro_steps
                      : micro;
    batch.factor = factor_of(engine, &batch, rows);
    double gain = batch.factor >= 2 ? batch_gain_pct(engine, &batch, &share) : 0;
    if (batch.at_roof_ns >= LITTLE * batch.ns || batch.small_ns < MOSTLY * batch.ns ||
        batch.factor < 2 || !an_class_share_matters(&share)) {
        an_findings_checked(
            engine->findings,
            "micro-batches that are too small for the products' roof and could be larger");
        return;
    }
    struct an_finding *finding =
        an_findings_add(engine->findings, "SMALL_BATCH",
                        an_arena_format(context->arena,
                                        "products reach %.0f %% of their roof: a micro-batch of %s "
                                        "samples (%s rows) is small for this machine",
                                        100 * batch.at_roof_ns / batch.ns,
                                        an_number_words(context->arena, micro, 3),
                                        an_number_words(context->arena, rows, 4)));
    an_finding_evidence(
        finding,
        an_arena_format(
            context->arena, "products: %s GFLOP/s in %s a step, %s at their roof (%s)",
            an_number_words(context->arena, batch.flops / batch.ns * engine->share, 4),
            an_time_words(context->arena, batch.ns / (double)steps->detailed / 1e6, 3),
            an_number_words(context->arena, batch.flops / batch.at_roof_ns * engine->share, 4),
            an_window_text(context)));
    an_finding_evidence(
        finding,
        an_arena_format(
            context->arena,
            "one call: %s MFLOP on average, %s here, %s at the roof; %.0f %% of the time is in "
            "calls below 100 µs at the roof or left of the ridge",
            an_number_words(context->arena, batch.flops / batch.calls / 1e6, 3),
            an_time_words(context->arena, batch.ns / batch.calls / 1e6, 3),
            an_time_words(context->arena, batch.at_roof_ns / batch.calls / 1e6, 3),
            100 * batch.small_ns / batch.ns));
    if (batch.ridge > 0)
        an_finding_evidence(
            finding,
            an_arena_format(context->arena,
                            "left of the ridge of %s FLOP/byte: %.0f %% of the time of products",
                            an_number_words(context->arena, batch.ridge, 3),
                            100 * batch.left / batch.ns));
    an_finding_evidence(finding, room_words(engine, batch.factor));
    finding->action = batch_action(engine, &batch, samples);
    finding->effort = batch.micro_steps > 1 ? "two settings" : "a setting, and the learning rate";
    an_finding_ceiling(finding, 100, gain, ENGINE_CEILING);
    finding->method =
        "ceiling: products at their measured roof, other work that grows with samples at "
        "the fastest memory level, what is "
        "once a step or micro-step divided by the factor; nothing was replayed";
    finding->confidence = finding->confidence > AN_MEDIUM ? AN_MEDIUM : finding->confidence;
    finding->verify = an_command_rerun(context, engine->libtrain ? batch_option(&batch, micro)
                                                                 : "the larger batch");
    finding->wrong_when = "the loss needs that batch, or the larger tensors leave the caches";
}

/* ---- RECOMPUTE -------------------------------------------------------------------------------------------------------------- */

static double all_that_repeats(const struct an_engine *engine, const struct an_engine_call *call)
{
    (void)engine;
    return an_engine_is_pass(call, "recompute") ? 0 : NAN;
}

static void add_kept(void *ctx, const struct an_engine_call *call)
{
    double *bytes = ctx;
    if (an_engine_is_pass(call, "recompute") && call->d->bytes_written > 0)
        *bytes += (double)call->d->bytes_written;
}

void an_engine_recompute(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    const struct an_memory *memory = &context->result->memory;
    double ms, bytes = 0;
    struct an_class_share share = an_engine_gain(engine, all_that_repeats, &ms);
    if (!(ms > 0))
        return; /* nothing is recomputed: the action does not exist */
    an_engine_each(engine, add_kept, &bytes);
    double keep = bytes / (double)context->result->steps.detailed /
                  (double)micro_steps_of(context) * engine->share; /* of all ranks of a machine */
    bool fits = memory->room_bytes.valid && keep <= ROOM_USED * (double)memory->room_bytes.value;
    if (!fits || !an_class_share_matters(&share)) {
        an_findings_checked(engine->findings,
                            !an_class_share_matters(&share) ? "recomputation that takes time"
                            : memory->room_bytes.valid
                                ? "recomputation that memory could replace: it has no room"
                                : "recomputation that memory could replace: its room is not known");
        return;
    }
    struct an_finding *finding = an_findings_add(
        engine->findings, "RECOMPUTE",
        an_arena_format(context->arena,
                        "%.1f %% of the step computes activations again that memory has room for",
                        share.mean));
    an_finding_evidence(finding, an_engine_window(engine, "recomputation", &share));
    const struct an_utilization *utilization = &context->result->utilization;
    if (utilization->recomputed_flops_per_step.valid &&
        utilization->hardware_flops_per_step.valid &&
        utilization->hardware_flops_per_step.value > 0)
        an_finding_evidence(
            finding,
            an_arena_format(
                context->arena, "%s GFLOP a step are recomputed, %.1f %% of those executed",
                an_number_words(context->arena,
                                (double)utilization->recomputed_flops_per_step.value / 1e9, 3),
                100 * (double)utilization->recomputed_flops_per_step.value /
                    (double)utilization->hardware_flops_per_step.value));
    an_finding_evidence(
        finding,
        an_arena_format(context->arena,
                        "what is computed again writes %s a micro-step: so much more would be kept",
                        an_findings_bytes(context, keep)));
    an_finding_evidence(
        finding, an_arena_format(context->arena, "%s of %s of memory are left",
                                 an_findings_bytes(context, (double)memory->room_bytes.value),
                                 an_findings_bytes(context, (double)memory->capacity_bytes.value)));
    finding->action =
        engine->libtrain
            ? "--recompute none: keep the activations"
            : "no checkpointing (torch.utils.checkpoint), or of fewer blocks: keep the activations";
    finding->effort = "a setting";
    an_finding_ceiling(finding, 100, share.mean, ENGINE_CEILING);
    finding->method = "ceiling: step / (step - recomputation) - 1; nothing was replayed";
    finding->verify =
        an_command_rerun(context, engine->libtrain ? "--recompute none" : "the activations kept");
    finding->wrong_when =
        "other programs need that memory, or the activations that are kept have to be "
        "read from memory again where "
        "recomputed ones were in the caches";
}
