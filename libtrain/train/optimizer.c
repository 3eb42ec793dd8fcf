/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers: which arrays of state a kind keeps, the numbers of an update, and the operations
 * that make it: one over all parameters, or one for each tensor.
 */
#include "libtrain/train/optimizer.h"

#include <math.h>
#include <string.h>

#include "tacho_error.h"

#define LOOKAHEAD_STATE (LT_OPTIMIZER_STATES - 1)

/* FLAT: one operation over the arrays. TENSOR: one for each tensor. LAYERS: a direction from the
 * linear layers, then the operation over the arrays. */
enum form { FLAT, TENSOR, LAYERS };

struct kind {
    const char *name;
    enum lt_op_id op;
    enum form form;
};

static const struct kind kinds[LT_OPTIMIZER_COUNT] = {
#define ROW(X, id, function, text, ...) [LT_OPTIMIZER_##id] = {text, LT_OP_##id, FLAT},
    LT_UPDATE_MAP(ROW, )
#undef ROW
#define ROW(X, id, function, text, kind) [LT_OPTIMIZER_##id] = {text, LT_OP_##id, TENSOR},
        LT_UPDATE_TENSOR_MAP(ROW, )
#undef ROW
            [LT_OPTIMIZER_KFAC] = {"kfac", LT_OP_MOMENTUM, LAYERS},
};

struct lt_optimizer_config lt_optimizer_defaults(enum lt_optimizer_kind kind)
{
    struct lt_optimizer_config config = {
        .kind = kind,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .momentum = 0.9,
        .trust = 1e-3,
        .kfac = {.damping = 0.03, .decay = 0.95, .kl_clip = 1e-3, .every = 20},
        .lookahead_share = 0.5};
    if (kind == LT_OPTIMIZER_ADAMW || kind == LT_OPTIMIZER_ADAMW8)
        config.beta2 = 0.95; /* as for GPT-3 */
    if (kind == LT_OPTIMIZER_RMSPROP || kind == LT_OPTIMIZER_LION)
        config.beta2 = 0.99;
    if (kind == LT_OPTIMIZER_ADAGRAD)
        config.eps = 1e-10;
    if (kind == LT_OPTIMIZER_LAMB)
        config.eps = 1e-6;
    if (kind == LT_OPTIMIZER_MUON)
        config.momentum = 0.95;
    return config;
}

/* The layout of the parameters; without tensors, one vector. adamw8 has blocks that know no
 * tensors, and the products of L-BFGS are those of all parameters. */
static int weights_of(const struct lt_optimizer_config *config,
                      const struct lt_parameters *parameters, struct lt_weight *weight)
{
    int is_whole = config->kind == LT_OPTIMIZER_ADAMW8 || config->kind == LT_OPTIMIZER_LBFGS;
    if (parameters->weights && kinds[config->kind].form == TENSOR && !is_whole) {
        memcpy(weight, parameters->weight, (size_t)parameters->weights * sizeof *weight);
        return parameters->weights;
    }
    weight[0] = (struct lt_weight){
        .repeat = 1, .rows = 1, .columns = (int64_t)parameters->count, .role = LT_WEIGHT_VECTOR};
    return 1;
}

int lt_optimizer_suits(const struct lt_optimizer_config *config,
                       const struct lt_parameters *parameters)
{
    return kinds[config->kind].form != LAYERS || lt_kfac_suits(parameters);
}

int lt_optimizer_check(const struct lt_optimizer_config *config,
                       const struct lt_parameters *parameters, struct tacho_error *err)
{
    if (lt_optimizer_suits(config, parameters))
        return 0;
    return tacho_fail(err, TACHO_ENOTSUP,
                      "train mlp with it, or choose another optimizer, for instance adamw",
                      "--optimizer %s: only for models whose layers are all linear with a bias",
                      kinds[config->kind].name);
}

void lt_optimizer_sizes(const struct lt_optimizer_config *config,
                        const struct lt_parameters *parameters, size_t floats[LT_OPTIMIZER_STATES],
                        size_t *scratch)
{
    struct lt_weight weight[LT_WEIGHT_CAP];
    int weights = weights_of(config, parameters, weight);
    enum lt_op_id op = kinds[config->kind].op;
    *scratch = 0;
    floats[LOOKAHEAD_STATE] = config->lookahead_every > 0 ? parameters->count : 0;
    if (kinds[config->kind].form == LAYERS) {
        lt_kfac_sizes(parameters, floats, scratch);
        return;
    }
    for (int i = 0; i < LT_UPDATE_STATES; i++) {
        floats[i] = 0;
        for (int j = 0; j < weights; j++)
            floats[i] += lt_arena_padded(lt_update_state(op, i, &weight[j]));
    }
    for (int j = 0; j < weights; j++) {
        size_t needed = weight[j].role == LT_WEIGHT_HIDDEN
                            ? lt_update_scratch(op, weight[j].rows, weight[j].columns)
                            : 0;
        *scratch = needed > *scratch ? needed : *scratch;
    }
}

/* One array of its own, where the kind has it. */
static int allocate(struct lt_arena *arena, struct lt_space *space, enum lt_memory_tag tag,
                    size_t floats, float **slot)
{
    struct lt_tensor whole = {.name = "optimizer", .count = floats, .slot = slot};
    return floats ? lt_arena_create_in(arena, space, tag, &whole, 1) : 0;
}

int lt_optimizer_create(struct lt_optimizer *optimizer, const struct lt_optimizer_config *config,
                        const struct lt_parameters *parameters, struct tacho_error *err)
{
    size_t scratch, bytes = parameters->count * sizeof(float);
    int rc = 0;
    *optimizer = (struct lt_optimizer){.config = *config};
    if ((rc = lt_optimizer_check(config, parameters, err)))
        return rc;
    lt_optimizer_sizes(config, parameters, optimizer->floats, &scratch);
    for (int i = 0; i < LT_OPTIMIZER_STATES && rc == 0; i++)
        rc = allocate(&optimizer->arena[i], parameters->space, LT_MEMORY_OPTIMIZER,
                      optimizer->floats[i], &optimizer->state[i]);
    if (rc == 0)
        rc = allocate(&optimizer->scratch_arena, parameters->space, LT_MEMORY_WORKSPACE, scratch,
                      &optimizer->scratch);
    if (rc) {
        lt_optimizer_destroy(optimizer);
        return tacho_fail(err, TACHO_ENOMEM,
                          "choose a smaller model, or --optimizer sgd, which keeps no state",
                          "not enough memory for the state of %s", kinds[config->kind].name);
    }
    if (config->kind == LT_OPTIMIZER_SCHEDULE_FREE) {
        memcpy(optimizer->state[0], parameters->value, bytes);
        memcpy(optimizer->state[2], parameters->value, bytes);
    }
    if (kinds[config->kind].form == LAYERS) {
        memcpy(optimizer->kfac.state, optimizer->state, sizeof optimizer->kfac.state);
        optimizer->kfac.scratch = optimizer->scratch;
    }
    if (optimizer->state[LOOKAHEAD_STATE])
        memcpy(optimizer->state[LOOKAHEAD_STATE], parameters->value, bytes);
    return 0;
}

void lt_optimizer_destroy(struct lt_optimizer *optimizer)
{
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        lt_arena_destroy(&optimizer->arena[i]);
    lt_arena_destroy(&optimizer->scratch_arena);
    *optimizer = (struct lt_optimizer){0};
}

/* ---- one update ------------------------------------------------------------------------------ */

void lt_optimizer_remember(struct lt_optimizer *optimizer, double rate)
{
    if (rate > optimizer->highest_rate)
        optimizer->highest_rate = rate;
    optimizer->weights += optimizer->highest_rate * optimizer->highest_rate;
}

/* RAdam's factor r of the t-th update (Liu et al. 2020, algorithm 2): with rho_inf = 2 / (1 -
 * beta2)
 * - 1 and rho = rho_inf - 2 t beta2^t / (1 - beta2^t), r = sqrt((rho - 4)(rho - 2) rho_inf /
 * ((rho_inf - 4)(rho_inf - 2) rho)) from rho = 5 on, before that 0. */
static double rectification(double beta2, double t)
{
    double power = pow(beta2, t), most = 2 / (1 - beta2) - 1,
           rho = most - 2 * t * power / (1 - power);
    if (rho < 5)
        return 0;
    return sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho));
}

struct lt_update_terms lt_optimizer_terms(const struct lt_optimizer *optimizer, int64_t made,
                                          double rate, double grad_scale)
{
    const struct lt_optimizer_config *config = &optimizer->config;
    double t = (double)made + 1, highest = optimizer->highest_rate;
    return (struct lt_update_terms){
        .scale = grad_scale,
        .rate = rate,
        .decay = config->weight_decay,
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .root = config->root,
        .momentum = config->momentum,
        .correction1 = 1 - pow(config->beta1, t),
        .correction2 = 1 - pow(config->beta2, t),
        .following1 = 1 - pow(config->beta1, t + 1),
        .momentum_now = 1 - pow(config->momentum, t),
        .momentum_next = 1 - pow(config->momentum, t + 1),
        .rectify = rectification(config->beta2, t),
        .share = optimizer->weights > 0 ? highest * highest / optimizer->weights : 0,
        .trust = config->trust,
        .fade = 1 - pow(t, -0.8),
        .made = (double)made,
    };
}

/* The copy that an update writes in its pass: bf16 alone. One of fp16 is made after it. */
static uint16_t *fused_shadow(const struct lt_parameters *parameters)
{
    return parameters->shadow_dtype == LT_DTYPE_FP16 ? NULL : parameters->shadow;
}

static void refresh_fp16(const struct lt_parameters *parameters)
{
    if (parameters->shadow_dtype == LT_DTYPE_FP16)
        lt_parameters_refresh(parameters);
}

/* One operation for each tensor, with the parts of the state that are the tensor's. */
static void update_tensors(struct lt_optimizer *optimizer, const struct lt_context *context,
                           const struct lt_parameters *parameters, struct lt_update update)
{
    struct lt_weight weight[LT_WEIGHT_CAP];
    int weights = weights_of(&optimizer->config, parameters, weight);
    enum lt_op_id op = kinds[optimizer->config.kind].op;
    size_t at[LT_UPDATE_STATES] = {0};
    for (int j = 0; j < weights; j++) {
        size_t first = weight[j].first;
        struct lt_update own = update;
        own.param = parameters->value + first;
        own.grad = parameters->grad + first;
        own.shadow = update.shadow ? update.shadow + first : NULL;
        own.repeat = weight[j].repeat;
        own.rows = weight[j].rows;
        own.columns = weight[j].columns;
        own.role = weight[j].role;
        own.count = own.repeat * own.rows * own.columns;
        if (weights > 1)
            own.decayed = first < parameters->decayed ? own.count : 0;
        for (int i = 0; i < LT_UPDATE_STATES; i++) {
            own.state[i] = optimizer->state[i] ? optimizer->state[i] + at[i] : NULL;
            at[i] += lt_arena_padded(lt_update_state(op, i, &weight[j]));
        }
        if (own.count)
            lt_op(context, op, &(union lt_args){.lamb = own});
    }
}

/* Of each tensor, the matrices that learn, with the parts of the state that are theirs; for kinds
 * that update each element alone. */
static void update_learning(const struct lt_optimizer *optimizer, const struct lt_context *context,
                            const struct lt_parameters *parameters, struct lt_update update)
{
    for (int j = 0; j < parameters->weights; j++) {
        const struct lt_weight *weight = &parameters->weight[j];
        int64_t each = weight->rows * weight->columns, skipped = parameters->frozen[j] * each;
        size_t first = weight->first + (size_t)skipped;
        struct lt_update own = update;
        own.param = parameters->value + first;
        own.grad = parameters->grad + first;
        own.shadow = update.shadow ? update.shadow + first : NULL;
        own.count = weight->repeat * each - skipped;
        own.decayed = weight->first < parameters->decayed ? own.count : 0;
        for (int i = 0; i < LT_UPDATE_STATES; i++)
            own.state[i] = optimizer->state[i] ? optimizer->state[i] + first : NULL;
        if (own.count)
            lt_op(context, kinds[optimizer->config.kind].op, &(union lt_args){.adamw = own});
    }
}

void lt_optimizer_watch(struct lt_optimizer *optimizer, const struct lt_parameters *parameters,
                        struct lt_context *context, int64_t samples, int first)
{
    if (kinds[optimizer->config.kind].form == LAYERS)
        lt_kfac_watch(&optimizer->kfac, parameters, context, samples, first);
}

/* Makes the direction of K-FAC, and leaves the update with it in the place of the gradient. */
static void take_direction(struct lt_optimizer *optimizer, const struct lt_context *context,
                           const struct lt_parameters *parameters, int64_t made,
                           struct lt_update *update)
{
    update->grad =
        lt_kfac_direction(&optimizer->kfac, &optimizer->config.kfac, context, parameters, made,
                          update->terms.rate, update->terms.scale, &update->terms.scale);
    update->state[0] = optimizer->state[LT_KFAC_VELOCITY];
}

void lt_optimizer_update(struct lt_optimizer *optimizer, const struct lt_context *context,
                         const struct lt_parameters *parameters, int64_t made, double rate,
                         double grad_scale)
{
    const struct lt_optimizer_config *config = &optimizer->config;
    lt_optimizer_remember(optimizer, rate);
    struct lt_update update = {.param = parameters->value,
                               .shadow = fused_shadow(parameters),
                               .grad = parameters->grad,
                               .count = (int64_t)parameters->count,
                               .decayed = (int64_t)parameters->decayed,
                               .scratch = optimizer->scratch,
                               .terms = lt_optimizer_terms(optimizer, made, rate, grad_scale)};
    for (int i = 0; i < LT_UPDATE_STATES; i++)
        update.state[i] = optimizer->state[i];
    if (kinds[config->kind].form == LAYERS)
        take_direction(optimizer, context, parameters, made, &update);
    if (parameters->has_frozen)
        update_learning(optimizer, context, parameters, update);
    else if (kinds[config->kind].form != TENSOR)
        lt_op(context, kinds[config->kind].op, &(union lt_args){.adamw = update});
    else
        update_tensors(optimizer, context, parameters, update);
    if (config->lookahead_every > 0 && (made + 1) % config->lookahead_every == 0)
        lt_op(context, LT_OP_LOOKAHEAD,
              &(union lt_args){.lookahead = {.param = parameters->value,
                                             .other = optimizer->state[LOOKAHEAD_STATE],
                                             .shadow = fused_shadow(parameters),
                                             .count = (int64_t)parameters->count,
                                             .share = config->lookahead_share}});
    refresh_fp16(parameters);
}

int lt_optimizer_parts(const struct lt_optimizer_config *config)
{
    return kinds[config->kind].form == FLAT && config->kind != LT_OPTIMIZER_SCHEDULE_FREE &&
           config->lookahead_every == 0;
}

/* shadow: where that of all parameters begins; NULL: none is written. */
static void update_pieces(struct lt_optimizer *optimizer, const struct lt_context *context,
                          const struct lt_piece *piece, size_t pieces,
                          const struct lt_update_terms *terms, uint16_t *shadow)
{
    enum lt_op_id op = kinds[optimizer->config.kind].op;
    for (size_t j = 0; j < pieces; j++) {
        struct lt_update update = {.param = piece[j].value,
                                   .grad = piece[j].grad,
                                   .shadow = shadow ? shadow + piece[j].first : NULL,
                                   .count = (int64_t)piece[j].count,
                                   .decayed = piece[j].decays ? (int64_t)piece[j].count : 0,
                                   .terms = *terms};
        for (int i = 0; i < LT_UPDATE_STATES && optimizer->state[i]; i++)
            update.state[i] = optimizer->state[i] + piece[j].at;
        lt_op(context, op, &(union lt_args){.adamw = update});
    }
}

void lt_optimizer_update_pieces(struct lt_optimizer *optimizer, const struct lt_context *context,
                                const struct lt_piece *piece, size_t pieces, int64_t made,
                                double rate, double grad_scale)
{
    lt_optimizer_remember(optimizer, rate);
    struct lt_update_terms terms = lt_optimizer_terms(optimizer, made, rate, grad_scale);
    update_pieces(optimizer, context, piece, pieces, &terms, NULL);
}

void lt_optimizer_update_some(struct lt_optimizer *optimizer, const struct lt_context *context,
                              const struct lt_parameters *parameters, const struct lt_piece *piece,
                              size_t pieces, const struct lt_update_terms *terms)
{
    update_pieces(optimizer, context, piece, pieces, terms, fused_shadow(parameters));
}

void lt_optimizer_exchange(struct lt_optimizer *optimizer, const struct lt_context *context,
                           const struct lt_parameters *parameters)
{
    if (optimizer->config.kind == LT_OPTIMIZER_SCHEDULE_FREE)
        lt_op(context, LT_OP_EXCHANGE,
              &(union lt_args){.exchange = {.param = parameters->value,
                                            .other = optimizer->state[2],
                                            .shadow = fused_shadow(parameters),
                                            .count = (int64_t)parameters->count}});
    refresh_fp16(parameters);
}

/* update_tensor.h: the second array begins with them. */
const float *lt_optimizer_before(const struct lt_optimizer *optimizer)
{
    return optimizer->state[1];
}

int lt_optimizer_find(const char *name)
{
    for (int i = 0; i < LT_OPTIMIZER_COUNT; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return i;
    return -1;
}

const char *lt_optimizer_name(enum lt_optimizer_kind kind)
{
    return kinds[kind].name;
}
