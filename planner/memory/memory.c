/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of each stage: parameters, gradients, optimizer, activations, logits, and what lies
 * around them.
 */
#include "planner/memory/memory.h"

#include <math.h>

#include "planner/memory/engine.h"

#define GIB         1073741824.0
#define QUANTILE_90 1.6449
#define MODERN      (1.0 / 3) /* of the buffers of older programs, which reduced in large buckets */
#define MARGIN      0.05      /* of the capacity: closer plans "may not fit" */

static const struct plan_held_words words[] = {
#define PLAN_HELD_WORDS(name, key, text, assumed) {#key, text, assumed},
    PLAN_HELD_MAP(PLAN_HELD_WORDS)
#undef PLAN_HELD_WORDS
};

struct plan_held_words plan_held_words(enum plan_held held)
{
    return words[held];
}

const char *plan_fit_text(enum plan_fit fit)
{
    static const char *const texts[] = {"fits", "may not fit", "does not fit"};
    return texts[fit];
}

double plan_in_flight(const struct plan_layout *layout, int64_t stage)
{
    double batches = (double)plan_micro_batches(layout), stages = (double)layout->pipeline;
    if (layout->schedule == PLAN_SCHEDULE_GPIPE)
        return batches;
    double held = fmin(batches, stages - (double)stage);
    if (layout->chunks > 1 && layout->pipeline > 1)
        held = fmin(batches, stages) * (1 + (stages - 1) / (stages * (double)layout->chunks)) -
               (double)stage / (double)layout->chunks;
    return fmax(held, 1);
}

static double rows_of(const struct plan_layout *layout)
{
    return (double)(layout->micro_batch * layout->sequence) / (double)layout->context;
}

double plan_layer_activations(const struct plan_case *of)
{
    const struct plan_layout *layout = &of->layout;
    const struct plan_model *model = &of->model;
    double rows = rows_of(layout), tensor = (double)layout->tensor;
    bool flash = of->machine.software.flash;
    double visited = model->experts ? (double)model->experts_active : 1;
    double forward = (double)model->feed_forward * visited;
    if (model->experts)
        forward = (forward + (double)model->shared_forward) * tensor;
    /* inputs of both norms, of the two products behind them, masks of dropout in older programs */
    double hidden =
        (flash ? 8 : 10) * (double)model->width / (layout->sequence_parallel ? tensor : 1);
    double query = (double)(model->heads * model->head_dim);
    double heads = 2 * (2 * query + 2 * (double)(model->kv_heads * model->head_dim)) / tensor;
    double inner = 2 * (model->gated ? 3 : 2) * forward / tensor;
    double scores = flash ? 4 * (double)model->heads / tensor
                          : 5 * (double)model->heads / tensor * (double)layout->sequence;
    return rows * (hidden + heads + inner + scores);
}

/* Activations kept for the backward pass by the layers of a stage. */
static double kept(const struct plan_case *of, int64_t stage)
{
    const struct plan_layout *layout = &of->layout;
    double layers = (double)plan_stage_layers(of, stage), whole = plan_layer_activations(of);
    double input = 2 * rows_of(layout) * (double)of->model.width /
                   (layout->sequence_parallel ? (double)layout->tensor : 1);
    double layer = whole;
    if (layout->recompute == PLAN_RECOMPUTE_FULL)
        layer = input;
    else if (layout->recompute == PLAN_RECOMPUTE_BLOCK)
        layer = (input + whole) / 2;
    else if (layout->recompute == PLAN_RECOMPUTE_SELECTIVE && !of->machine.software.flash)
        layer = whole - 5 * rows_of(layout) * (double)layout->sequence * (double)of->model.heads /
                            (double)layout->tensor;
    return plan_in_flight(layout, stage) * layers * layer;
}

static void add_states(const struct plan_case *of, int64_t stage, double *bytes)
{
    const struct plan_layout *layout = &of->layout;
    double parameters = plan_stage_parameters(of, stage), share = plan_stage_share(of, stage);
    double layer = parameters / fmax((double)plan_stage_layers(of, stage), 1);
    double gradient = (double)of->machine.software.gradient_bytes;
    bytes[PLAN_HELD_WEIGHTS] = 2 * parameters;
    if (layout->zero == 3)
        bytes[PLAN_HELD_WEIGHTS] = 2 * fmin(parameters, share + 2 * layer);
    bytes[PLAN_HELD_GRADIENTS] = gradient * (layout->zero >= 2 ? share : parameters);
    bytes[PLAN_HELD_STATES] = 12 * (layout->zero >= 1 ? share : parameters);
}

/* Probability that a plan runs out: what is needed spreads around the prediction, and a few fail
 * whatever they need. What the allocator holds beyond it is given back before a program fails. */
static void judge(const struct plan_case *of, struct plan_memory *out)
{
    double spread = of->constants->memory_spread, unknown = of->constants->memory_unknown;
    if (of->machine.software.engine) {
        spread = of->constants->memory_spread_engine;
        unknown = 0;
    }
    out->capacity = of->machine.device.bytes;
    out->low = out->total * exp(-QUANTILE_90 * spread);
    out->high = out->total * exp(QUANTILE_90 * spread);
    if (out->capacity <= 0) {
        out->probability = NAN;
        return;
    }
    if (out->total <= out->capacity) /* no device shows more than it has */
        out->high = fmin(out->high, out->capacity);
    double short_of = 0.5 * erfc(-log(out->needed / out->capacity) / spread / sqrt(2));
    out->probability = unknown + (1 - unknown) * short_of;
    out->fit = PLAN_FITS;
    if (out->needed > out->capacity * (1 - MARGIN))
        out->fit = PLAN_MAY_NOT_FIT;
    if (out->needed > out->capacity * (1 + MARGIN))
        out->fit = PLAN_DOES_NOT_FIT;
}

void plan_memory_stage(const struct plan_case *of, int64_t stage, struct plan_memory *out)
{
    const struct plan_layout *layout = &of->layout;
    const struct plan_constants *constants = of->constants;
    double *bytes = out->bytes;
    *out = (struct plan_memory){.stage = stage,
                                .in_flight = (int64_t)ceil(plan_in_flight(layout, stage))};
    if (of->machine.software.engine) {
        out->in_flight = (int64_t)plan_engine_in_flight(layout, stage);
        plan_engine_memory(of, stage, bytes);
        for (int i = 0; i < PLAN_HELDS; i++)
            out->allocated += bytes[i];
        out->needed = out->reserved = out->total = out->allocated;
        judge(of, out);
        return;
    }
    add_states(of, stage, bytes);
    bytes[PLAN_HELD_ACTIVATIONS] = kept(of, stage);
    bytes[PLAN_HELD_LIVE] = constants->memory_live * plan_layer_activations(of);
    if (stage == layout->pipeline - 1)
        bytes[PLAN_HELD_LOGITS] = (of->machine.software.flash ? 4 : 10) * rows_of(layout) *
                                  (double)of->model.vocabulary / (double)layout->tensor;
    for (int i = 0; i < PLAN_HELD_SLACK; i++)
        out->allocated += bytes[i];
    double buffers = constants->memory_buffers * (of->machine.software.overlap ? MODERN : 1);
    bytes[PLAN_HELD_BUFFERS] = layout->devices > 1 ? buffers * GIB : 0;
    bytes[PLAN_HELD_CONTEXT] = constants->memory_context * GIB;
    out->needed = out->allocated + bytes[PLAN_HELD_BUFFERS] + bytes[PLAN_HELD_CONTEXT];
    /* the allocator's reserve takes no more than the device has left */
    double left = of->machine.device.bytes > 0 ? of->machine.device.bytes - out->needed : INFINITY;
    bytes[PLAN_HELD_SLACK] = fmax(fmin((constants->memory_slack - 1) * out->allocated, left), 0);
    out->reserved = out->allocated + bytes[PLAN_HELD_SLACK];
    out->total = out->needed + bytes[PLAN_HELD_SLACK];
    judge(of, out);
}

void plan_memory_of(const struct plan_case *of, struct plan_memory *out)
{
    plan_memory_stage(of, 0, out);
    for (int64_t stage = 1; stage < of->layout.pipeline; stage++) {
        struct plan_memory other;
        plan_memory_stage(of, stage, &other);
        if (other.needed > out->needed)
            *out = other;
    }
}
