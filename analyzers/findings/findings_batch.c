/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the size of the work on the processor: micro-batches that are too small for the
 * machine (SMALL_BATCH), and recomputation that free memory would make needless (RECOMPUTE).
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_engine_private.h"

#define LITTLE 0.5 /* of the roof of GEMMs */
#define NEAR   0.8 /* of it: there is little to gain */
#define MOSTLY 0.5 /* of the time of GEMMs, in calls that are small */
/* ns at its roof: in a call this short, starting threads and filling caches takes its part. */
#define SHORT_CALL  1e5
#define LONG_CALL   5e5 /* ns at its roof of a call that a larger batch aims at */
#define FACTOR_MOST 32  /* times the micro-batch */
#define ROOM_USED   0.9 /* of the memory that is left */

/* ---- SMALL_BATCH ----------------------------------------------------------------------------- */

struct batch {
    const struct an_engine *engine;
    /* Of GEMMs in forward, backward and recomputation. */
    double flops, ns, at_roof_ns, small_ns, calls;
    double left, ridge;  /* ns left of the ridge; largest ridge of their types */
    double width;        /* bytes of an element of that type */
    int64_t micro_steps; /* of a step */
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
    return peak && engine->dram > 0 ? peak->value / engine->ranks / engine->dram : 0;
}

/* Adds a product of forward, backward or recomputation to the sums of `batch`. It is small when it
 * is left of the ridge or short at its roof. */
static void add_product(void *ctx, const struct an_engine_call *call)
{
    struct batch *batch = ctx;
    double roof = an_engine_roof(batch->engine, call->detail->dtype),
           ridge = ridge_of(batch->engine, call->detail->dtype);
    if (!call->detail->hardware || !scales(call) || !(call->detail->flops > 0))
        return;
    batch->unknown = batch->unknown || !(roof > 0);
    batch->flops += (double)call->detail->flops;
    batch->ns += call->ns;
    batch->calls++;
    batch->at_roof_ns += roof > 0 ? (double)call->detail->flops / roof * 1e9 : 0;
    bool left = call->bytes > 0 && (double)call->detail->flops / call->bytes < ridge;
    batch->left += left ? call->ns : 0;
    batch->small_ns += left || (double)call->detail->flops < roof * SHORT_CALL / 1e9 ? call->ns : 0;
    if (ridge > batch->ridge) {
        batch->ridge = ridge;
        batch->width =
            !strcmp(call->detail->dtype, "bf16") || !strcmp(call->detail->dtype, "fp16") ? 2 : 4;
    }
}

/* What a call with a larger micro-batch takes at least for the same samples: GEMMs at their
 * roof, the rest at the fastest memory that was measured or at its arithmetic. */
static double at_its_roof(const struct an_engine *engine, const struct an_engine_call *call)
{
    double arithmetic = engine->peak > 0 ? (double)call->detail->flops / engine->peak * 1e9 : 0;
    double traffic = engine->fastest > 0 ? call->bytes / engine->fastest * 1e9 : 0;
    if (!scales(call))
        return NAN;
    if (call->detail->hardware)
        return (double)call->detail->flops / an_engine_roof(engine, call->detail->dtype) * 1e9;
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

static double power_of_two_below(double value)
{
    return value >= 2 ? pow(2, floor(log2(value))) : 1;
}

/* The factor by which the micro-batch should grow so that its calls are long enough, rounded up to
 * a power of two, as far as memory has room; with accumulation a divisor of the micro-steps. 1: it
 * cannot grow. Where most of the time is left of
 * the ridge, `rows` must reach half of the ridge: fewer rows are left of it whatever the other
 * sizes are. */
static double factor_of(const struct an_engine *engine, const struct batch *batch, double rows)
{
    const struct an_memory *memory = &engine->context->result->memory;
    double wanted = LONG_CALL / (batch->at_roof_ns / batch->calls);
    if (batch->left >= MOSTLY * batch->ns && rows > 0)
        wanted = fmax(wanted, batch->ridge * batch->width / 2 / rows);
    wanted = fmin(fmax(2, pow(2, ceil(log2(wanted)))), FACTOR_MOST);
    double grows = an_count_or_0(memory->batch_bytes.valid ? memory->batch_bytes
                                                           : memory->resident_peak_bytes);
    if (!memory->room_bytes.valid || !(grows > 0))
        return 1;
    double fits = power_of_two_below(1 + ROOM_USED * (double)memory->room_bytes.value / grows);
    wanted = fmin(wanted, fits);
    while (batch->micro_steps > 1 && fmod((double)batch->micro_steps, wanted) > 0)
        wanted--; /* the global batch stays */
    return wanted;
}

/* Evidence that the larger micro-batch fits: by the memory that the program counts where there is
 * such a count, else by its resident size. */
static const char *room_words(const struct an_engine *engine, double factor)
{
    struct an_context *context = engine->context;
    const struct an_memory *memory = &context->result->memory;
    const char *what = "activations and workspace", *source = "tracked";
    double grows = (double)memory->batch_bytes.value;
    if (!memory->batch_bytes.valid) {
        what = "all resident pages";
        source = "system layer";
        grows = (double)memory->resident_peak_bytes.value;
    }
    return an_finding_text(
        context, "memory: %s take %s, %s times as much is %s more; %s are left (%s)", what,
        an_bytes_text(context, grows), an_number_words(context->arena, factor, 3),
        an_bytes_text(context, (factor - 1) * grows),
        an_bytes_text(context, (double)memory->room_bytes.value), source);
}

/* Share of the step that goes away at most: work that grows with samples runs at its roofs, work
 * that is done once a step or micro-step is divided by the factor. With accumulation the global
 * batch stays, and so do the optimizer and the exchange of gradients. */
static double batch_gain_pct(const struct an_engine *engine, const struct batch *batch,
                             struct an_class_share *share)
{
    const struct an_budget *all = &engine->context->result->budget;
    double ms, step_ms = an_budget_step_ms(&engine->context->result->budget), scaled, optimizer;
    an_engine_gain(engine, all_that_scales, &scaled);
    an_engine_gain(engine, all_of_the_optimizer, &optimizer);
    *share = an_engine_gain(engine, at_its_roof, &ms);
    double input = an_count_or_0(all->ns[AN_CLASS_INPUT]) / (double)all->steps / 1e6;
    double comm = an_count_or_0(all->ns[AN_CLASS_COMM]) / (double)all->steps / 1e6;
    double once = step_ms - scaled - input;
    if (batch->micro_steps > 1)
        once -= optimizer + comm;
    once = once > 0 ? once : 0;
    return 100 * (ms + once * (1 - 1 / batch->factor)) / step_ms;
}

/* The settings of the engine for the larger micro-batch. */
static const char *batch_option(const struct batch *batch, double micro)
{
    struct an_context *context = batch->engine->context;
    if (batch->micro_steps > 1)
        return an_finding_text(context, "--batch %.0f --accumulate %.0f", micro * batch->factor,
                               (double)batch->micro_steps / batch->factor);
    return an_finding_text(context, "--batch %.0f", micro * batch->factor);
}

/* With accumulation the global batch can stay: fewer and larger micro-steps. Without it the global
 * batch grows, and the learning rate has to follow. */
static const char *batch_action(const struct an_engine *engine, const struct batch *batch,
                                double samples)
{
    struct an_context *context = engine->context;
    double micro = samples / (double)batch->micro_steps,
           global =
               samples * (double)(context->result->run.ranks > 1 ? context->result->run.ranks : 1);
    const char *to = engine->libtrain
                         ? batch_option(batch, micro)
                         : an_finding_text(context, "a micro-batch of %.0f", micro * batch->factor);
    if (batch->micro_steps > 1)
        return an_finding_text(
            context,
            "%s in place of %.0f: the same global batch of %.0f samples in fewer micro-steps", to,
            micro, global);
    return an_finding_text(context,
                           "%s in place of %.0f: a global batch of %.0f samples, not %.0f; the "
                           "learning rate has to follow",
                           to, micro, global * batch->factor, global);
}

/* What the GEMMs reach, how long their calls are and how many are left of the ridge. */
static void batch_evidence(const struct batch *batch, struct an_finding *finding)
{
    const struct an_engine *engine = batch->engine;
    struct an_context *context = engine->context;
    double steps = (double)context->result->steps.detailed;
    an_finding_note(
        context, finding, "GEMMs: %s GFLOP/s in %s a step, %s at their roof (%s)",
        an_number_words(context->arena, batch->flops / batch->ns * engine->ranks, 4),
        an_time_words(context->arena, batch->ns / steps / 1e6, 3),
        an_number_words(context->arena, batch->flops / batch->at_roof_ns * engine->ranks, 4),
        an_window_text(context));
    an_finding_note(context, finding,
                    "one call: %s MFLOP on average, %s here, %s at the roof; %.0f %% of the time "
                    "is in calls below 100 µs at the roof or left of the ridge",
                    an_number_words(context->arena, batch->flops / batch->calls / 1e6, 3),
                    an_time_words(context->arena, batch->ns / batch->calls / 1e6, 3),
                    an_time_words(context->arena, batch->at_roof_ns / batch->calls / 1e6, 3),
                    100 * batch->small_ns / batch->ns);
    if (batch->ridge > 0)
        an_finding_note(
            context, finding, "left of the ridge of %s FLOP/byte: %.0f %% of the time of GEMMs",
            an_number_words(context->arena, batch->ridge, 3), 100 * batch->left / batch->ns);
}

void an_engine_small_batch(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    const struct an_steps *steps = &context->result->steps;
    struct batch batch = {.engine = engine, .micro_steps = an_micro_steps(context)};
    struct an_class_share share;
    if (an_command_framework(context) == AN_FRAMEWORK_TORCH)
        return; /* its ranges are whole passes, no products: SMALL_BATCH_HOST */
    an_engine_each(engine, add_product, &batch);
    if (!(batch.ns > 0) || batch.unknown || !steps->samples_per_step.valid)
        return; /* without a roof of GEMMs nothing is checked */
    double samples = steps->samples_per_step.value, micro = samples / (double)batch.micro_steps;
    double rows = an_value_or_0(steps->tokens_per_step) / (double)batch.micro_steps;
    if (!(rows > 0))
        rows = micro;

    batch.factor = factor_of(engine, &batch, rows);
    double gain = batch.factor >= 2 ? batch_gain_pct(engine, &batch, &share) : 0;
    if (batch.at_roof_ns >= LITTLE * batch.ns || batch.small_ns < MOSTLY * batch.ns ||
        batch.factor < 2 || !an_class_share_matters(&share))
        return;
    struct an_finding *finding =
        an_findings_add(engine->findings, "SMALL_BATCH",
                        an_finding_text(context,
                                        "GEMMs reach %.0f %% of their roof: a micro-batch of %s "
                                        "samples (%s rows) is small for this machine",
                                        100 * batch.at_roof_ns / batch.ns,
                                        an_number_words(context->arena, micro, 3),
                                        an_number_words(context->arena, rows, 4)));
    batch_evidence(&batch, finding);
    an_finding_evidence(finding, room_words(engine, batch.factor));
    finding->action = batch_action(engine, &batch, samples);
    finding->changes = batch.micro_steps > 1 ? NULL : "the global batch";
    finding->effort = batch.micro_steps > 1 ? "two settings" : "a setting, and the learning rate";
    an_finding_ceiling(finding, 100, gain, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: GEMMs at their measured roof, other work that grows with samples "
                      "at the bandwidth of the fastest memory level, work done once a step or "
                      "micro-step divided by the factor; nothing was replayed";
    finding->what_if = an_finding_text(context, "micro=%.0fx", batch.factor);
    an_finding_at_most_medium(finding);
    finding->setting = engine->libtrain ? batch_option(&batch, micro) : "the larger batch";
    finding->verify = an_command_rerun(context, finding->setting);
    finding->wrong_when =
        "training needs that batch size, or the larger tensors no longer fit into the caches";
}

/* ---- LOW_EFFICIENCY_GEMM --------------------------------------------------------------------- */

#define MULTIPLE 16.0 /* floats of the widest vector registers */

/* The option of the engine's command that makes the rows of matrices no multiple of the vectors,
 * with the next multiple; NULL: none does. The recipes' own sizes are multiples. */
static const char *odd_option(struct an_context *context, double *odd)
{
    static const char *const options[] = {"--channels", "--vocab", "--hidden"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        *odd = an_command_number(context, options[i], 0);
        if (*odd >= 1 && fmod(*odd, MULTIPLE) > 0)
            return an_finding_text(context, "%s %.0f", options[i],
                                   MULTIPLE * ceil(*odd / MULTIPLE));
    }
    return NULL;
}

void an_engine_dimensions(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    struct batch batch = {.engine = engine};
    double odd, step_ms = an_budget_step_ms(&context->result->budget);
    const char *option = engine->libtrain ? odd_option(context, &odd) : NULL;
    an_engine_each(engine, add_product, &batch);
    double lost_ms = (batch.ns - batch.at_roof_ns) / 1e6 / (double)context->result->steps.detailed;
    if (!option || !(batch.ns > 0) || batch.unknown || batch.at_roof_ns >= NEAR * batch.ns ||
        lost_ms < step_ms * FINDINGS_NOISE_PCT / 100)
        return;
    struct an_finding *finding = an_findings_add(
        engine->findings, "LOW_EFFICIENCY_GEMM",
        an_finding_text(context,
                        "GEMMs reach %.0f %% of their roof, and a size of %.0f is not a multiple "
                        "of %.0f: vectors are not full, and rows do not begin on cache lines",
                        100 * batch.at_roof_ns / batch.ns, odd, MULTIPLE));
    batch_evidence(&batch, finding);
    finding->action = an_finding_text(context, "%s in place of %.0f", option, odd);
    finding->changes = "the size of the model";
    finding->effort = "a setting, before the training begins";
    an_finding_ceiling(finding, step_ms, lost_ms, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: GEMMs at their measured roof; nothing was replayed";
    an_finding_at_most_medium(finding);
    finding->verify = an_command_rerun(context, option);
    finding->wrong_when = "the GEMMs are slow because they are small (see SMALL_BATCH), or other "
                          "programs take the cores";
}

/* ---- RECOMPUTE ------------------------------------------------------------------------------- */

static double all_that_repeats(const struct an_engine *engine, const struct an_engine_call *call)
{
    (void)engine;
    return an_engine_is_pass(call, "recompute") ? 0 : NAN;
}

static void add_kept(void *ctx, const struct an_engine_call *call)
{
    double *bytes = ctx;
    if (an_engine_is_pass(call, "recompute") && call->detail->bytes_written > 0)
        *bytes += (double)call->detail->bytes_written;
}

static void recomputed_flops(struct an_context *context, struct an_finding *finding)
{
    const struct an_count *recomputed = &context->result->utilization.recomputed_flops_per_step;
    double executed = an_count_or_0(context->result->utilization.hardware_flops_per_step);
    if (recomputed->valid && executed > 0)
        an_finding_note(context, finding,
                        "%s GFLOP a step are recomputed, %.1f %% of those executed",
                        an_number_words(context->arena, (double)recomputed->value / 1e9, 3),
                        100 * (double)recomputed->value / executed);
}

/* Time and FLOPs of the recomputation, and the memory that it saves. */
static void recompute_evidence(struct an_context *context, const struct an_class_share *share,
                               double keep, struct an_finding *finding)
{
    const struct an_memory *memory = &context->result->memory;
    an_finding_evidence(finding, an_class_share_text(context, share, "recomputation:"));
    recomputed_flops(context, finding);
    an_finding_note(context, finding,
                    "recomputation writes %s a micro-step: memory use would grow by as much",
                    an_bytes_text(context, keep));
    an_finding_note(context, finding, "%s of %s of memory are left",
                    an_bytes_text(context, (double)memory->room_bytes.value),
                    an_bytes_text(context, (double)memory->capacity_bytes.value));
}

/* Keep the activations in place of recomputing them. */
static void recompute_action(struct an_finding *finding, bool libtrain)
{
    finding->action = libtrain ? "--recompute none: keep the activations"
                               : "turn off checkpointing (torch.utils.checkpoint), or "
                                 "checkpoint fewer blocks: keep the activations";
    finding->effort = "a setting";
}

void an_engine_recompute(struct an_engine *engine)
{
    struct an_context *context = engine->context;
    const struct an_memory *memory = &context->result->memory;
    double ms, bytes = 0;
    struct an_class_share share = an_engine_gain(engine, all_that_repeats, &ms);
    an_engine_each(engine, add_kept, &bytes);
    if (!(ms > 0) || !(bytes > 0))
        return; /* nothing is recomputed, or the program does not say how much that saves */
    double keep = bytes / (double)context->result->steps.detailed /
                  (double)an_micro_steps(context) * engine->ranks; /* of all ranks of a machine */
    bool fits = memory->room_bytes.valid && keep <= ROOM_USED * (double)memory->room_bytes.value;
    if (!fits || !an_class_share_matters(&share))
        return;
    struct an_finding *finding = an_findings_add(
        engine->findings, "RECOMPUTE",
        an_finding_text(context,
                        "%.1f %% of the step computes activations again that memory has room for",
                        share.mean));
    recompute_evidence(context, &share, keep, finding);
    recompute_action(finding, engine->libtrain);
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - recomputation) - 1; nothing was replayed";
    finding->what_if = "recompute=0";
    finding->setting = engine->libtrain ? "--recompute none" : "the activations kept";
    finding->verify = an_command_rerun(context, finding->setting);
    finding->wrong_when = "other programs need that memory, or the activations that are kept have "
                          "to be read from memory again where recomputed ones were in the caches";
}
