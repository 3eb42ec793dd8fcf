/* SPDX-License-Identifier: Apache-2.0
 *
 * A step from its layers: pipeline, communication with overlap, optimizer.
 */
#include "planner/time/step.h"

#include <math.h>

#include "planner/time/gemm.h"
#include "planner/time/layer.h"
#include "planner/time/link.h"

#define QUANTILE_90 1.6449 /* of the normal distribution, both sides */

static const struct plan_part_words words[] = {
#define PLAN_PART_WORDS(name, key, text, formula) {#key, text, formula},
    PLAN_PART_MAP(PLAN_PART_WORDS)
#undef PLAN_PART_WORDS
};

struct plan_part_words plan_part_words(enum plan_part part)
{
    return words[part];
}

/* What is computed while a step's parts are put together. */
struct builder {
    const struct plan_case *of;
    struct plan_layer layer;
    double layers;                /* of the busiest stage */
    double batches;               /* micro-batches */
    double per_micro[PLAN_PARTS]; /* seconds of a micro-batch on the busiest stage */
    struct plan_kinds micro;      /* the same by kind, without the rest */
    double calls;                 /* of micro.products, what calling them takes */
    double flops;                 /* executed by a rank of the busiest stage for one micro-batch */
    double others;                /* work of the other stages, in units of the busiest one's */
    double compute;               /* of all micro-batches */
};

/* The layer of a model with experts whose first layers are dense: the weighted mean of both. */
static void mean_layer(const struct plan_case *of, struct plan_layer *out)
{
    struct plan_layer dense;
    plan_layer_of(of, false, out);
    if (!of->model.experts || !of->model.dense_layers)
        return;
    plan_layer_of(of, true, &dense);
    double share = (double)of->model.dense_layers / (double)of->model.layers;
    double *to = (double *)out;
    const double *from = (const double *)&dense;
    for (size_t i = 0; i < sizeof dense / sizeof *from; i++)
        to[i] += share * (from[i] - to[i]);
}

/* Recomputation: the forward pass again, of attention only, of half of the layers, or of all. */
static void add_recompute(struct builder *builder)
{
    const struct plan_layer *layer = &builder->layer;
    double share = 0, attention = 0; /* of the whole forward pass, of attention alone */
    switch (builder->of->layout.recompute) {
    case PLAN_RECOMPUTE_FULL:
        share = attention = 1;
        break;
    case PLAN_RECOMPUTE_BLOCK:
        share = attention = 0.5;
        break;
    case PLAN_RECOMPUTE_SELECTIVE: /* fused attention computes its scores again by itself */
        attention = builder->of->machine.software.flash ? 0 : 1;
        break;
    default:
        break;
    }
    struct plan_kinds again = {.products = builder->layers * share * layer->products_forward,
                               .attention = builder->layers * attention * layer->attention_forward,
                               .elements = builder->layers * share * layer->elements_forward};
    builder->per_micro[PLAN_PART_RECOMPUTE] = again.products + again.attention + again.elements;
    builder->flops += builder->layers * share * layer->flops_forward;
    builder->calls += builder->layers * share * layer->calls_forward;
    builder->micro.products += again.products;
    builder->micro.attention += again.attention;
    builder->micro.elements += again.elements;
}

/* Programs that let gradients travel beside the computation split the products of a layer for the
 * same end; older ones wait for each all-reduce. */
static double exposed_tensor(const struct plan_case *of)
{
    return of->machine.software.overlap ? of->constants->tensor_exposed : 1;
}

/* Two all-reduces of the hidden state a layer and direction; as many again where the forward pass
 * is repeated. With context parallelism keys and values travel round the ring, or queries, keys and
 * values turn from tokens to heads, and the result back. */
static void add_tensor(struct builder *builder, struct plan_time *out)
{
    const struct plan_case *of = builder->of;
    const struct plan_layout *layout = &of->layout;
    double bytes = 2 * plan_rows(layout) * (double)of->model.width;
    double passes = layout->recompute == PLAN_RECOMPUTE_FULL ? 6 : 4;
    if (layout->recompute == PLAN_RECOMPUTE_BLOCK)
        passes = 5;
    double tensor = (double)layout->tensor, context = (double)layout->context;
    struct plan_group inner = plan_group_of(&of->machine, tensor, 1);
    double seconds = passes * plan_all_reduce(of, inner, bytes);
    double sent = passes * 2 * (tensor - 1) / tensor * bytes;
    struct plan_group ring = plan_group_of(&of->machine, context, tensor);
    if (plan_turners(of) > 1) {
        double part = bytes / tensor;
        seconds += 2 * (plan_all_to_all(of, ring, 3 * part) + plan_all_to_all(of, ring, part));
        sent += 8 * part * (context - 1) / context;
    } else if (context > 1) {
        double keys =
            2 * 2 * plan_rows(layout) * (double)(of->model.kv_heads * of->model.head_dim) / tensor;
        seconds += 3 * (context - 1) * keys / plan_ring_bytes_per_s(of, ring);
        sent += 3 * (context - 1) * keys;
    }
    builder->per_micro[PLAN_PART_TENSOR] = builder->layers * exposed_tensor(of) * seconds;
    out->tensor_bytes = builder->batches * builder->layers * sent;
}

/* Tokens travel to their experts and back, forward and backward: of ranks that divide the layers
 * each sends its part of them, or all, if it has a part of each expert. */
static void add_expert(struct builder *builder)
{
    const struct plan_case *of = builder->of;
    double ranks = (double)of->layout.expert;
    if (!of->model.experts || ranks <= 1)
        return;
    struct plan_group group = plan_group_of(&of->machine, ranks, (double)of->layout.tensor);
    double bytes = 2 * plan_rows(&of->layout) * (double)of->model.experts_active *
                   (double)of->model.width / (double)of->layout.tensor * plan_expert_ranks(of);
    builder->per_micro[PLAN_PART_EXPERT] =
        builder->layers * exposed_tensor(of) * 4 * plan_all_to_all(of, group, bytes);
}

/* Everything that one micro-batch does on the stage that takes longest. */
static void build_micro(struct builder *builder, struct plan_time *out)
{
    const struct plan_case *of = builder->of;
    const struct plan_layer *layer = &builder->layer;
    struct plan_head last_work, none = {0};
    double *part = builder->per_micro;
    int64_t stages = of->layout.pipeline, busiest = 0;
    plan_head_of(of, &last_work);
    double head = last_work.products + last_work.elements;
    double one = layer->products_forward + layer->products_backward + layer->attention_forward +
                 layer->attention_backward + layer->elements_forward + layer->elements_backward;
    double longest = 0, all = 0;
    for (int64_t stage = 0; stage < stages; stage++) {
        double work = (double)plan_stage_layers(of, stage) * one + (stage == stages - 1) * head;
        all += work;
        if (work > longest) {
            longest = work;
            busiest = stage;
        }
    }
    struct plan_head own = busiest == stages - 1 ? last_work : none;
    builder->others = all / longest - 1;
    builder->layers = (double)plan_stage_layers(of, busiest);
    builder->flops = builder->layers * (layer->flops_forward + layer->flops_backward) + own.flops;
    part[PLAN_PART_PRODUCTS] =
        builder->layers * (layer->products_forward + layer->products_backward);
    part[PLAN_PART_ATTENTION] =
        builder->layers * (layer->attention_forward + layer->attention_backward);
    part[PLAN_PART_ELEMENTS] =
        builder->layers * (layer->elements_forward + layer->elements_backward);
    part[PLAN_PART_HEAD] = own.products + own.elements;
    builder->calls = builder->layers * (layer->calls_forward + layer->calls_backward) + own.calls;
    builder->micro = (struct plan_kinds){
        .products = part[PLAN_PART_PRODUCTS] + own.products,
        .attention = part[PLAN_PART_ATTENTION],
        .elements = part[PLAN_PART_ELEMENTS] + own.elements,
    };
    if (!of->machine.software.engine)
        part[PLAN_PART_LAUNCH] = builder->layers * of->constants->launch;
    add_recompute(builder);
    add_tensor(builder, out);
    add_expert(builder);
}

/* Micro-batches pass the boundary of a stage twice, in as many parts as the stage has chunks. */
static void add_stages(struct builder *builder, struct plan_time *out)
{
    const struct plan_case *of = builder->of;
    const struct plan_layout *layout = &of->layout;
    double chunks = (double)layout->chunks;
    if (layout->pipeline <= 1)
        return;
    double micro = 0;
    for (int i = 0; i < PLAN_PARTS; i++)
        micro += builder->per_micro[i];
    /* each tensor-parallel rank sends its part, which is gathered again inside the node */
    double bytes = 2 * plan_rows(layout) * (double)of->model.width / (double)layout->tensor;
    double sends = 2 * builder->batches * chunks;
    out->stage_bytes = sends * bytes;
    out->part[PLAN_PART_STAGE] = of->constants->stage_exposed * sends * plan_send(of, bytes);
    /* (p - 1) / v micro-batches where all stages take as long */
    double idle = builder->others / chunks * micro;
    if (layout->schedule == PLAN_SCHEDULE_ZERO) /* F + B - W of a third each */
        idle = builder->others * micro / 3;
    out->part[PLAN_PART_BUBBLE] = idle;
}

/* Seconds for the gradients and sharded weights of so many parameters, which `ranks` share that are
 * `apart` from each other; adds what passes a rank to *bytes. */
static double share_seconds(const struct builder *builder, double parameters, double ranks,
                            double apart, double *bytes)
{
    const struct plan_case *of = builder->of;
    const struct plan_layout *layout = &of->layout;
    double weights = 2 * parameters;
    if (ranks <= 1)
        return 0;
    double gradients = parameters * (of->machine.software.gradient_bytes > 2 ? 4 : 2);
    double batches = builder->batches;
    /* a gather and a scatter cost half of an all-reduce each: ZeRO gathers weights once a step,
     * ZeRO-3 twice a micro-batch */
    double gathered = 0, reduced = gradients;
    if (layout->zero > 0) {
        gathered = 0.5 * weights * (layout->zero == 3 ? 2 * batches : 1);
        reduced = 0.5 * gradients * (layout->zero >= 2 ? batches : 1);
    }
    if (layout->zero == 3) /* frameworks scatter in 16 bits */
        reduced = 0.5 * weights * batches;
    *bytes += 2 * (ranks - 1) / ranks * (gathered + reduced);
    return plan_all_reduce(of, plan_group_of(&of->machine, ranks, apart), gathered + reduced);
}

/* Bytes that pass a rank for gradients and sharded weights, and how much of the time for them the
 * backward pass hides (docs/planner.md). */
static void add_data(struct builder *builder, struct plan_time *out)
{
    const struct plan_case *of = builder->of;
    const struct plan_layout *layout = &of->layout;
    double parameters = plan_stage_parameters(of, 0), tensor = (double)layout->tensor;
    double parts = (double)layout->expert, experts = parts > 1 ? plan_stage_experts(of, 0) : 0;
    double seconds =
        share_seconds(builder, parameters - experts, (double)(layout->data * layout->context),
                      tensor, &out->data_bytes) +
        share_seconds(builder, experts, plan_owners(layout), tensor * parts, &out->data_bytes);
    if (out->data_bytes <= 0)
        return;
    double hidden = 0;
    if (layout->zero == 3)
        hidden = 0.9 * builder->compute;
    else if (of->machine.software.overlap)
        hidden = 0.6 * builder->compute / builder->batches;
    double exposed = fmax(seconds - hidden, 0);
    double covered = seconds - exposed;
    out->part[PLAN_PART_DATA] = exposed + of->constants->data_exposed * covered;
}

/* The optimizer reads gradient, master copy and two moments and writes all but the gradient, in
 * fp32, and the 16-bit weights: 30 bytes a parameter of the shard. */
static void add_update(const struct plan_case *of, struct plan_time *out)
{
    const struct plan_layout *layout = &of->layout;
    double parameters = layout->zero > 0 ? plan_stage_share(of, 0) : plan_stage_parameters(of, 0);
    if (of->machine.device.bytes_per_s > 0)
        out->part[PLAN_PART_UPDATE] =
            30 * parameters / (0.8 * of->machine.device.bytes_per_s) * plan_speed(of->speed.update);
}

/* What is none of the kinds of computing, as a run has shown it, and the sums of all kinds. */
static void add_kinds(const struct builder *builder, struct plan_time *out)
{
    static const enum plan_part rest[] = {PLAN_PART_TENSOR, PLAN_PART_EXPERT, PLAN_PART_STAGE,
                                          PLAN_PART_BUBBLE, PLAN_PART_DATA};
    out->kinds = (struct plan_kinds){
        .products = builder->batches * builder->micro.products,
        .attention = builder->batches * builder->micro.attention,
        .elements = builder->batches * builder->micro.elements,
        .update = out->part[PLAN_PART_UPDATE],
    };
    out->call_seconds = builder->batches * builder->calls;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        out->part[rest[i]] *= plan_speed(builder->of->speed.rest);
        out->kinds.rest += out->part[rest[i]];
    }
}

static double sum(const double *part)
{
    double total = 0;
    for (int i = 0; i < PLAN_PARTS; i++)
        total += part[i];
    return total;
}

/* Use of the peak in each convention; nothing is faster than the peak of what it executes. */
static void finish(const struct plan_case *of, const struct builder *builder, struct plan_time *out)
{
    const struct plan_layout *layout = &of->layout;
    double peak = an_accelerator_peak(&of->machine.device, of->machine.type);
    double devices = (double)layout->devices, sequences = (double)layout->global_batch;
    out->seconds = sum(out->part);
    double least = builder->flops * builder->batches / peak;
    if (out->seconds < least) {
        out->part[PLAN_PART_PRODUCTS] += least - out->seconds;
        out->seconds = least;
    }
    for (int i = 0; i < PLAN_CONVENTIONS; i++) {
        out->flops[i] =
            sequences * plan_flops(&of->model, (double)layout->sequence, (enum plan_convention)i);
        out->mfu[i] = out->flops[i] / (out->seconds * devices * peak);
    }
    out->executed_flops = builder->flops * builder->batches * devices;
    out->tokens_per_s = sequences * (double)layout->sequence / out->seconds;
    double products = builder->layer.products_forward + builder->layer.products_backward;
    out->gemm_efficiency = products > 0 ? builder->layer.product_flops / (products * peak) : 0;
    out->least_seconds = least;
}

void plan_time_of(const struct plan_case *of, double loader, struct plan_time *out)
{
    struct builder builder = {.of = of};
    *out = (struct plan_time){.micro_batches = plan_micro_batches(&of->layout)};
    builder.batches = (double)out->micro_batches;
    mean_layer(of, &builder.layer);
    build_micro(&builder, out);
    out->micro_seconds = sum(builder.per_micro);
    builder.compute = builder.batches * out->micro_seconds;
    for (int i = 0; i < PLAN_PARTS; i++)
        out->part[i] = builder.batches * builder.per_micro[i];
    add_stages(&builder, out);
    add_data(&builder, out);
    add_update(of, out);
    add_kinds(&builder, out);
    double nodes = fmax((double)of->layout.devices / (double)of->machine.node, 1);
    out->part[PLAN_PART_WAITING] = sum(out->part) * of->constants->scale * log2(nodes);
    out->part[PLAN_PART_FIXED] = of->machine.software.engine ? 0 : of->constants->fixed;
    double wanted = loader > 0 ? (double)of->layout.global_batch / loader : 0;
    out->part[PLAN_PART_LOADER] = fmax(wanted - sum(out->part), 0);
    finish(of, &builder, out);
    plan_time_interval(out, hypot(of->constants->spread_between, of->constants->spread_within));
}

void plan_time_interval(struct plan_time *time, double deviation)
{
    double factor = exp(QUANTILE_90 * deviation);
    time->low = fmax(time->seconds / factor, time->least_seconds);
    time->high = time->seconds * factor;
    time->mfu_low = time->mfu[PLAN_CONVENTION_CAUSAL] / factor;
    time->mfu_high = fmin(time->mfu[PLAN_CONVENTION_CAUSAL] * factor, 1);
}
