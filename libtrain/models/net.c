/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of operations as a model: forward, backward and recomputation go through the list, and
 * know no model.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/models/net_private.h"

/* Sets the members that stand for `what` in all arguments. */
static void set(struct lt_net *net, enum net_what what, const void *value, size_t size)
{
    for (int i = 0; i < net->nodes; i++) {
        struct net_node *node = &net->node[i];
        for (int j = node->first_use; j < node->first_use + node->uses; j++)
            if (net->use[j].what == what)
                memcpy((char *)&node->args + net->use[j].member, value, size);
    }
}

static void set_batch(struct lt_net *net, const struct lt_batch *batch)
{
    set(net, NET_TOKENS, &batch->tokens, sizeof batch->tokens);
    set(net, NET_TARGETS, &batch->targets, sizeof batch->targets);
    set(net, NET_FEATURES, &batch->features, sizeof batch->features);
}

/* The caller's context with the type that the memory was placed for. */
static struct lt_context own_context(const struct lt_net *net, const struct lt_context *context)
{
    struct lt_context own = *context;
    own.dtype = net->mode.dtype;
    return own;
}

/* The unit of parameters that an operation reads: backward of an embedding reads none. */
static int64_t unit_read(const struct net_node *node, int op)
{
    if (op == NET_NONE || op == LT_OP_EMBEDDING_BACKWARD || op == LT_OP_EMBEDDING_PART_BACKWARD)
        return NET_NONE;
    return node->unit;
}

/* A message of ranks that divide the layers: of values in forward, of gradients in backward. */
static void meet(const struct lt_context *context, int op, const struct net_node *node)
{
    const struct lt_tensor_group *group = context->tensor;
    const struct lt_message *message = &node->args.message;
    int backward = op == node->backward;
    void *all = backward ? message->dall : message->all,
         *own = backward ? message->down : message->own;
    size_t count = (size_t)message->count,
           bytes = count / (size_t)group->ranks * lt_dtype_bytes(context->dtype);
    char *share = (char *)all + (size_t)group->rank * bytes;
    switch (op) {
    case NET_SUM:
        group->sum(group->arg, context->dtype, all, count);
        break;
    case NET_SCATTER:
        group->scatter(group->arg, context->dtype, all, count);
        memcpy(own, share, bytes);
        break;
    case NET_JOIN:
        memcpy(share, own, bytes);
        group->join(group->arg, context->dtype, all, count);
        break;
    default:
        group->gather(group->arg, own, all, count);
    }
}

static void run(const struct lt_context *context, int op, const struct net_node *node)
{
    struct lt_context own = *context;
    own.layer = node->layer + 1;
    if (unit_read(node, op) != NET_NONE)
        lt_model_use(&own, node->unit);
    if (op == NET_SPREAD || op == NET_SPREAD_BACK)
        own.experts->spread(own.experts->arg, own.dtype, &node->args.spread, op == NET_SPREAD_BACK);
    else if (op < NET_NONE)
        meet(&own, op, node);
    else if (op != NET_NONE)
        lt_op(&own, (enum lt_op_id)op, &node->args);
}

/* Does the list end with the loss? Else another stage has it. */
static int has_loss(const struct lt_net *net)
{
    return net->losses != NET_NONE;
}

/* What the classifier, of all words or of this rank's, is told before a pass. */
static void set_loss(struct lt_net *net, float scale, int backward)
{
    struct net_node *last = &net->node[net->nodes - 1];
    if (last->forward == LT_OP_CLASSIFIER) {
        last->args.classifier.scale = scale;
        last->args.classifier.backward = backward;
    } else {
        last->args.classifier_join.scale = scale;
        last->args.classifier_join.backward = backward;
    }
}

/* All operations in order. The last one is the classifier, which leaves the gradient of the logits
 * in their place unless this is an evaluation. Returns the mean loss, or 0 without a classifier. */
static double net_forward(struct lt_model *model, const struct lt_context *context,
                          const struct lt_batch *batch, int parts)
{
    struct lt_net *net = (struct lt_net *)model;
    struct lt_context own = own_context(net, context);
    int64_t rows = has_loss(net) ? net->value[net->losses].rows : model->b * model->t;
    float scale = lt_loss_share(&own, rows * parts), balance = net->balance * scale * (float)rows;
    int update = !own.evaluation;
    set_batch(net, batch);
    if (has_loss(net))
        set_loss(net, scale, !own.evaluation);
    if (net->ranks.rank > 0) /* the gradients of a router are added up over the ranks */
        balance = 0;
    set(net, NET_BALANCE, &balance, sizeof balance);
    set(net, NET_EVALUATION, &own.evaluation, sizeof own.evaluation);
    set(net, NET_UPDATE, &update, sizeof update);
    for (int i = 0; i < net->nodes; i++)
        run(&own, net->node[i].forward, &net->node[i]);
    return has_loss(net) ? lt_mean_loss(lt_net_value_at(net, net->losses), rows) : 0;
}

/* The gradients of parameters that a node leaves are final: each matrix is used once. Of those that
 * several ranks have found parts of, their sum is. */
static void announce(const struct lt_net *net, const struct lt_context *context,
                     const struct net_node *node)
{
    const struct lt_tensor_group *group = context->tensor;
    EACH_USE(net, node, use)
    {
        if (use->what != NET_SLOPE)
            continue;
        float *slope = net->model.parameters.grad + net->tensor[use->id].first + use->element;
        if (net->tensor[use->id].shape.partial && context->ready)
            group->sum(group->arg, LT_DTYPE_FP32, slope, (size_t)use->count);
        lt_model_ready(&net->model, context, slope, (size_t)use->count);
    }
}

/* A linear layer, before its backward. */
static void show_linear(const struct lt_context *context, const struct net_node *node)
{
    struct lt_context own = *context;
    own.layer = node->layer + 1;
    if (context->linear && node->backward == LT_OP_MATMUL_BACKWARD)
        context->linear(context->linear_arg, &own, &node->args.matmul_backward);
}

/* The first node of the block whose last one is node i; behind i: that is the last of none. */
static int block_begin(const struct lt_net *net, int i)
{
    int block = net->node[i].block, first = i;
    if (block == NET_NONE || (i + 1 < net->nodes && net->node[i + 1].block == block))
        return i + 1;
    while (first > 0 && net->node[first - 1].block == block)
        first--;
    return first;
}

/* Before the backward of the last node of a block: its inner values once more. */
static void block_again(const struct lt_net *net, const struct lt_context *context, int i)
{
    struct lt_context again = *context;
    again.recompute = 1;
    for (int j = block_begin(net, i); j <= i; j++)
        if (net->node[j].again)
            run(&again, net->node[j].forward, &net->node[j]);
}

static void zero(const struct lt_context *context, float *from, size_t count)
{
    if (count)
        lt_op(context, LT_OP_ZERO, &(union lt_args){.zero = {.x = from, .count = (int64_t)count}});
}

/* The first micro-step overwrites the gradients of matrices, so only those that are always added to
 * are zeroed: look-up tables, and vectors, which lie together at the end of the array. */
static void zero_gradients(const struct lt_net *net, const struct lt_context *context)
{
    const struct lt_parameters *parameters = &net->model.parameters;
    for (int i = 0; i < net->tensors; i++) {
        const struct lt_net_tensor *shape = &net->tensor[i].shape;
        if (net->tensor[i].adds)
            zero(context, parameters->grad + net->tensor[i].first,
                 (size_t)(shape->repeat * shape->rows * shape->columns));
    }
    zero(context, parameters->grad + parameters->decayed, parameters->count - parameters->decayed);
}

/* The first node that learns: after the last one of the frozen blocks. */
static int first_learning(const struct lt_net *net)
{
    int first = 0;
    for (int i = 0; i < net->nodes; i++)
        if (net->node[i].layer != NET_NONE && net->node[i].layer < net->model.frozen)
            first = i + 1;
    return first;
}

static void net_backward(struct lt_model *model, const struct lt_context *context,
                         const struct lt_batch *batch, int first)
{
    struct lt_net *net = (struct lt_net *)model;
    struct lt_context own = own_context(net, context);
    int accumulate = !first, update = 0;
    set(net, NET_UPDATE, &update, sizeof update);
    set(net, NET_TOKENS, &batch->tokens, sizeof batch->tokens);
    set(net, NET_ACCUMULATE, &accumulate, sizeof accumulate);
    if (first)
        zero_gradients(net, &own);
    int last = first_learning(net);
    for (int i = last - 1; i >= 0; i--)
        announce(net, &own, &net->node[i]); /* they stay 0 */
    for (int i = net->nodes - 1; i >= last; i--) {
        block_again(net, &own, i);
        if (net->node[i].backward == NET_NONE)
            continue;
        show_linear(&own, &net->node[i]);
        run(&own, net->node[i].backward, &net->node[i]);
        announce(net, &own, &net->node[i]);
    }
}

/* ---- units of parameters ----------------------------------------------------------------------- */

/* Matrices of a tensor in a block. */
static int64_t matrices_of(const struct lt_net_tensor *shape)
{
    return shape->each > 1 ? shape->each : 1;
}

/* Experts that ranks divide have units behind those of the blocks (units.h). */
static int64_t unit_of(const struct net_use *use, const struct lt_net_tensor *shape, int64_t blocks)
{
    int64_t block = use->element / (shape->rows * shape->columns) / matrices_of(shape);
    if (shape->parts > 1)
        return 1 + blocks + block;
    return shape->repeat == 1 ? 0 : 1 + block;
}

static void set_units(struct lt_net *net)
{
    int64_t blocks = 0;
    for (int i = 0; i < net->tensors; i++) {
        const struct lt_net_tensor *shape = &net->tensor[i].shape;
        int64_t own = shape->repeat / matrices_of(shape);
        if (shape->parts <= 1 && shape->repeat > 1 && own > blocks)
            blocks = own;
    }
    for (int i = 0; i < net->nodes; i++)
        EACH_USE(net, &net->node[i], use)
    if (use->what == NET_WEIGHT || use->what == NET_PARAMETER)
        net->node[i].unit = unit_of(use, &net->tensor[use->id].shape, blocks);
}

/* How often the list has turned to one unit, and the one that it read last. */
struct turning {
    int64_t unit, last;
    int turns;
};

static void turn_to(struct turning *turning, int64_t unit)
{
    if (unit == NET_NONE || unit == turning->last)
        return;
    turning->last = unit;
    turning->turns += unit == turning->unit;
}

/* As net_forward and net_backward go through the list; other passes of a stage come in between. */
static int net_uses(const struct lt_model *model, int64_t unit)
{
    const struct lt_net *net = (const struct lt_net *)model;
    struct turning turning = {.unit = unit, .last = NET_NONE};
    for (int i = 0; i < net->nodes; i++)
        turn_to(&turning, unit_read(&net->node[i], net->node[i].forward));
    if (net->staged)
        turning.last = NET_NONE;
    for (int i = net->nodes - 1; i >= 0; i--) {
        for (int j = block_begin(net, i); j <= i; j++)
            if (net->node[j].again)
                turn_to(&turning, unit_read(&net->node[j], net->node[j].forward));
        turn_to(&turning, unit_read(&net->node[i], net->node[i].backward));
    }
    return turning.turns;
}

/* Marks the matrices of which the nodes before the first learning one leave the gradient. */
static int net_freeze(struct lt_model *model, int64_t blocks)
{
    struct lt_net *net = (struct lt_net *)model;
    struct lt_parameters *parameters = &net->model.parameters;
    if (blocks > net->layers)
        return TACHO_EUSAGE;
    net->model.frozen = blocks;
    parameters->has_frozen = blocks > 0;
    for (int i = 0; i < first_learning(net); i++)
        EACH_USE(net, &net->node[i], use)
    for (int j = 0; use->what == NET_SLOPE && j < parameters->weights; j++) {
        const struct lt_weight *weight = &parameters->weight[j];
        int64_t matrices = (use->element + use->count) / (weight->rows * weight->columns);
        if (weight->first == net->tensor[use->id].first && matrices > parameters->frozen[j])
            parameters->frozen[j] = matrices;
    }
    return 0;
}

/* Images whose largest logit is that of their label. */
static int64_t net_correct(const struct lt_model *model, const struct lt_batch *batch)
{
    const struct lt_net *net = (const struct lt_net *)model;
    const struct lt_classifier *last = &net->node[net->nodes - 1].args.classifier;
    int64_t correct = 0;
    for (int64_t i = 0; i < last->rows; i++) {
        int64_t best = 0;
        for (int64_t j = 1; j < last->v; j++)
            if (lt_element_get(last->logits, i * last->v + j, net->mode.dtype) >
                lt_element_get(last->logits, i * last->v + best, net->mode.dtype))
                best = j;
        correct += best == batch->targets[i];
    }
    return correct;
}

/* The mean over the routers of the list. */
static void net_routing(const struct lt_model *model, struct lt_routing *out)
{
    const struct lt_net *net = (const struct lt_net *)model;
    int routers = 0;
    *out = (struct lt_routing){0};
    for (int i = 0; i < net->nodes; i++) {
        const struct lt_route *route = &net->node[i].args.route_forward;
        double choices = (double)(route->rows * route->k), most = 0, dropped = 0;
        if (net->node[i].forward != LT_OP_ROUTE_FORWARD)
            continue;
        for (int64_t e = 0; e < route->experts; e++) {
            double load = (double)route->load[e];
            most = load > most ? load : most;
            dropped += load > (double)route->capacity ? load - (double)route->capacity : 0;
        }
        routers++;
        out->imbalance += most * (double)route->experts / choices;
        out->dropped += dropped / choices;
    }
    out->imbalance /= routers;
    out->dropped /= routers;
}

static int net_routed(const struct lt_model *model, int router, struct lt_routed *out)
{
    const struct lt_net *net = (const struct lt_net *)model;
    for (int i = 0; i < net->nodes; i++) {
        const struct lt_route *route = &net->node[i].args.route_forward;
        if (net->node[i].forward != LT_OP_ROUTE_FORWARD || router-- > 0)
            continue;
        *out = (struct lt_routed){.layer = (int)net->first + net->node[i].layer,
                                  .load = route->load,
                                  .experts = route->experts,
                                  .capacity = route->capacity};
        return 1;
    }
    return 0;
}

void lt_net_destroy(struct lt_net *net)
{
    if (!net)
        return;
    lt_arena_destroy(&net->value_arena);
    lt_arena_destroy(&net->grad_arena);
    lt_arena_destroy(&net->shadow_arena);
    lt_arena_destroy(&net->activation_arena);
    lt_arena_destroy(&net->workspace_arena);
    lt_arena_destroy(&net->state_arena);
    free(net->remade);
    free(net->node);
    free(net->value);
    free(net->use);
    free(net);
}

static void net_destroy(struct lt_model *model)
{
    lt_net_destroy((struct lt_net *)model);
}

/* ---- a part of the model: of its blocks, its layers, its experts ------------------------------ */

static void part_select(struct lt_model *model, int slot, int chunk)
{
    struct lt_net *net = (struct lt_net *)model;
    (void)chunk; /* a stage is one */
    if (slot == net->slot)
        return;
    net->slot = slot;
    lt_net_point(net);
}

/* The stream between the blocks, of all stages alike. */
static size_t part_boundary_bytes(const struct lt_model *model)
{
    const struct lt_net *net = (const struct lt_net *)model;
    return net->stream * lt_dtype_bytes(net->mode.dtype);
}

/* All rows of the stream, or a gradient of parameters. */
static size_t part_summed_bytes(const struct lt_model *model)
{
    const struct lt_net *net = (const struct lt_net *)model;
    size_t most = part_boundary_bytes(model) * (size_t)(net->ranks.sequence ? net->ranks.ranks : 1);
    for (int i = 0; i < net->uses; i++) {
        const struct net_use *use = &net->use[i];
        size_t bytes = (size_t)use->count * sizeof(float);
        if (use->what == NET_SLOPE && net->tensor[use->id].shape.partial && bytes > most)
            most = bytes;
    }
    return most;
}

/* Sums of the residual stream share one gradient from the first block to the last. */
static void *part_boundary(struct lt_model *model, enum lt_boundary which)
{
    const struct lt_net *net = (const struct lt_net *)model;
    if (which == LT_BOUNDARY_GRADIENT)
        return lt_net_gradient_at(net, net->output == NET_NONE ? net->input : net->output);
    return lt_net_value_at(net, which == LT_BOUNDARY_INPUT ? net->input : net->output);
}

static size_t part_handed_bytes(const struct lt_model *model)
{
    const struct lt_net *net = (const struct lt_net *)model;
    return net->handed * lt_dtype_bytes(net->mode.dtype);
}

static float *part_tied(const struct lt_model *model, size_t *count)
{
    (void)model;
    *count = 0;
    return NULL;
}

static void part_tied_changed(struct lt_model *model)
{
    (void)model;
}

static struct lt_slice part_whole(const struct lt_model *model, struct lt_parameters *out)
{
    return lt_net_whole((const struct lt_net *)model, out);
}

static const struct lt_stage_ops part_ops = {.select = part_select,
                                             .boundary_bytes = part_boundary_bytes,
                                             .boundary = part_boundary,
                                             .summed_bytes = part_summed_bytes,
                                             .handed_bytes = part_handed_bytes,
                                             .tied = part_tied,
                                             .tied_gradient = part_tied,
                                             .tied_changed = part_tied_changed,
                                             .whole = part_whole};

void lt_net_all_linear(struct lt_net *net)
{
    net->model.parameters.linear = 1;
}

void lt_net_tells_use(struct lt_net *net)
{
    net->tells_use = 1;
}

struct lt_model *lt_net_model(struct lt_net *net)
{
    net->ops.correct = net->model.t ? NULL : net_correct;
    for (int i = 0; i < net->nodes; i++)
        if (net->node[i].forward == LT_OP_ROUTE_FORWARD) {
            net->ops.routing = net_routing;
            net->ops.routed = net_routed;
        }
    if (net->tells_use) {
        set_units(net);
        net->ops.uses = net_uses;
    }
    if (net->parts > 1 || net->staged || net->ranks.ranks > 1)
        net->ops.stage = &part_ops;
    return &net->model;
}

const struct lt_model_ops lt_net_ops = {
    .forward = net_forward, .backward = net_backward, .destroy = net_destroy, .freeze = net_freeze};
