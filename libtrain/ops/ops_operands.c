/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operation reads and writes: the memory of its operands, as the comments in ops.h have
 * them. Of a table that is looked up all of it is named, though few rows are read. Scratch, which
 * holds nothing between operations, and numbers that the host reads are not.
 */
#include "libtrain/ops/operands.h"

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/operands_list.h"

static void embedding_forward(struct list *list, const union lt_args *args)
{
    const struct lt_embedding *table = &args->embedding_forward;
    words(list, READS, table->tokens, table->b * table->t);
    typed(list, READS, table->word, table->v * table->c);
    typed(list, READS, table->position, (table->t + table->jump) * table->c);
    typed(list, WRITES, table->out, table->b * table->t * table->c);
}

static void embedding_backward(struct list *list, const union lt_args *args)
{
    const struct lt_embedding *table = &args->embedding_backward;
    int64_t tokens = table->b * table->t;
    words(list, READS, table->tokens, tokens);
    words(list, READS, table->order, tokens);
    words(list, READS, table->starts, tokens + 1);
    typed(list, READS, table->dout, tokens * table->c);
    words(list, UPDATES, table->dword, table->v * table->c);
    words(list, UPDATES, table->dposition, (table->t + table->jump) * table->c);
}

static void embedding_part_forward(struct list *list, const union lt_args *args)
{
    const struct lt_embedding_part *part = &args->embedding_part_forward;
    words(list, READS, part->tokens, part->b * part->t);
    typed(list, READS, part->word, part->v * part->c);
    typed(list, READS, part->position, (part->t + part->jump) * part->c);
    typed(list, WRITES, part->out, part->b * part->t * part->c);
}

static void embedding_part_backward(struct list *list, const union lt_args *args)
{
    const struct lt_embedding_part *part = &args->embedding_part_backward;
    words(list, READS, part->tokens, part->b * part->t);
    typed(list, READS, part->dout, part->b * part->t * part->c);
    words(list, UPDATES, part->dword, part->v * part->c);
    words(list, UPDATES, part->dposition, (part->t + part->jump) * part->c);
}

static void layernorm_forward(struct list *list, const union lt_args *args)
{
    const struct lt_layernorm *norm = &args->layernorm_forward;
    typed(list, READS, norm->in, norm->rows * norm->c);
    words(list, READS, norm->weight, norm->c);
    words(list, READS, norm->bias, norm->c);
    typed(list, WRITES, norm->out, norm->rows * norm->c);
    words(list, WRITES, norm->mean, norm->rows);
    words(list, WRITES, norm->rstd, norm->rows);
}

static void layernorm_backward(struct list *list, const union lt_args *args)
{
    const struct lt_layernorm *norm = &args->layernorm_backward;
    typed(list, READS, norm->in, norm->rows * norm->c);
    typed(list, READS, norm->dout, norm->rows * norm->c);
    words(list, READS, norm->weight, norm->c);
    words(list, READS, norm->mean, norm->rows);
    words(list, READS, norm->rstd, norm->rows);
    typed(list, UPDATES, norm->din, norm->rows * norm->c);
    words(list, UPDATES, norm->dweight, norm->c);
    words(list, UPDATES, norm->dbias, norm->c);
}

static void matmul_forward(struct list *list, const union lt_args *args)
{
    const struct lt_matmul *matmul = &args->matmul_forward;
    typed(list, READS, matmul->in, matmul->rows * matmul->k);
    typed(list, READS, matmul->weight, matmul->n * matmul->k);
    words(list, READS, matmul->bias, matmul->n);
    typed(list, WRITES, matmul->out, matmul->rows * matmul->n);
}

static void matmul_backward(struct list *list, const union lt_args *args)
{
    const struct lt_matmul *matmul = &args->matmul_backward;
    unsigned gradient = matmul->accumulate ? UPDATES : WRITES;
    typed(list, READS, matmul->dout, matmul->rows * matmul->n);
    if (matmul->dweight)
        typed(list, READS, matmul->in, matmul->rows * matmul->k);
    if (matmul->din)
        typed(list, READS, matmul->weight, matmul->n * matmul->k);
    typed(list, matmul->add ? UPDATES : WRITES, matmul->din, matmul->rows * matmul->k);
    words(list, gradient, matmul->dweight, matmul->n * matmul->k);
    words(list, gradient, matmul->dbias, matmul->n);
}

/* Of a part of the keys. */
static void attention_part(struct list *list, const struct lt_attention *heads, int backward)
{
    int64_t count = heads->b * heads->t * heads->c;
    typed(list, READS, heads->qkv, 3 * count);
    typed(list, READS, heads->kv, 2 * count);
    words(list, heads->own ? WRITES : UPDATES, heads->sum, count);
    if (backward) {
        typed(list, READS, heads->out, count);
        typed(list, READS, heads->dout, count);
        words(list, READS, heads->lse, heads->b * heads->h * heads->t);
        words(list, UPDATES, heads->dkv, 2 * count);
        if (heads->last)
            typed(list, UPDATES, heads->dqkv, 3 * count);
        return;
    }
    words(list, heads->own ? WRITES : UPDATES, heads->lse, heads->b * heads->h * heads->t);
    if (heads->last)
        typed(list, WRITES, heads->out, count);
}

static void attention_forward(struct list *list, const union lt_args *args)
{
    const struct lt_attention *heads = &args->attention_forward;
    int64_t count = heads->b * heads->t * heads->c;
    if (heads->kv) {
        attention_part(list, heads, 0);
        return;
    }
    typed(list, READS, heads->qkv, 3 * count);
    typed(list, WRITES, heads->out, count);
    words(list, WRITES, heads->lse, heads->b * heads->h * heads->t);
}

static void attention_backward(struct list *list, const union lt_args *args)
{
    const struct lt_attention *heads = &args->attention_backward;
    int64_t count = heads->b * heads->t * heads->c;
    if (heads->kv) {
        attention_part(list, heads, 1);
        return;
    }
    typed(list, READS, heads->qkv, 3 * count);
    typed(list, READS, heads->out, count);
    typed(list, READS, heads->dout, count);
    words(list, READS, heads->lse, heads->b * heads->h * heads->t);
    typed(list, WRITES, heads->dqkv, 3 * count);
}

static void gelu_forward(struct list *list, const union lt_args *args)
{
    typed(list, READS, args->gelu_forward.in, args->gelu_forward.count);
    typed(list, WRITES, args->gelu_forward.out, args->gelu_forward.count);
}

static void gelu_backward(struct list *list, const union lt_args *args)
{
    const struct lt_gelu *gelu = &args->gelu_backward;
    typed(list, READS, gelu->in, gelu->count);
    typed(list, READS, gelu->dout, gelu->count);
    typed(list, WRITES, gelu->din, gelu->count);
}

static void residual_forward(struct list *list, const union lt_args *args)
{
    const struct lt_residual *residual = &args->residual_forward;
    typed(list, READS, residual->a, residual->count);
    typed(list, READS, residual->b, residual->count);
    typed(list, WRITES, residual->out, residual->count);
}

static void rmsnorm_forward(struct list *list, const union lt_args *args)
{
    const struct lt_rmsnorm *norm = &args->rmsnorm_forward;
    typed(list, READS, norm->in, norm->rows * norm->c);
    words(list, READS, norm->weight, norm->c);
    typed(list, WRITES, norm->out, norm->rows * norm->c);
    words(list, WRITES, norm->rstd, norm->rows);
}

static void rmsnorm_backward(struct list *list, const union lt_args *args)
{
    const struct lt_rmsnorm *norm = &args->rmsnorm_backward;
    typed(list, READS, norm->in, norm->rows * norm->c);
    typed(list, READS, norm->dout, norm->rows * norm->c);
    words(list, READS, norm->weight, norm->c);
    words(list, READS, norm->rstd, norm->rows);
    typed(list, norm->add ? UPDATES : WRITES, norm->din, norm->rows * norm->c);
    words(list, UPDATES, norm->dweight, norm->c);
}

/* `narrow` has g heads of keys and values, `wide` has h. */
static void rope(struct list *list, const struct lt_rope *rope, const void *from, void *to,
                 int forward)
{
    int64_t rows = rope->b * rope->t, wide = rows * 3 * rope->c,
            narrow = rows * (rope->c + 2 * rope->groups * rope->c / rope->h);
    typed(list, READS, from, forward ? narrow : wide);
    words(list, READS, rope->turn, rope->t * rope->c / rope->h);
    typed(list, WRITES, to, forward ? wide : narrow);
}

static void rope_forward(struct list *list, const union lt_args *args)
{
    rope(list, &args->rope_forward, args->rope_forward.in, args->rope_forward.out, 1);
}

static void rope_backward(struct list *list, const union lt_args *args)
{
    rope(list, &args->rope_backward, args->rope_backward.dout, args->rope_backward.din, 0);
}

static void swiglu_forward(struct list *list, const union lt_args *args)
{
    const struct lt_swiglu *gate = &args->swiglu_forward;
    typed(list, READS, gate->in, 2 * gate->rows * gate->f);
    typed(list, WRITES, gate->out, gate->rows * gate->f);
}

static void swiglu_backward(struct list *list, const union lt_args *args)
{
    const struct lt_swiglu *gate = &args->swiglu_backward;
    typed(list, READS, gate->in, 2 * gate->rows * gate->f);
    typed(list, READS, gate->dout, gate->rows * gate->f);
    typed(list, WRITES, gate->din, 2 * gate->rows * gate->f);
}

static void classifier(struct list *list, const union lt_args *args)
{
    const struct lt_classifier *loss = &args->classifier;
    typed(list, loss->backward ? UPDATES : READS, loss->logits, loss->rows * loss->v);
    words(list, READS, loss->targets, loss->rows);
    words(list, WRITES, loss->losses, loss->rows);
}

static void classifier_part(struct list *list, const union lt_args *args)
{
    const struct lt_classifier_part *part = &args->classifier_part;
    typed(list, READS, part->logits, part->rows * part->v);
    words(list, READS, part->targets, part->rows);
    words(list, WRITES, part->stats, 3 * part->rows);
}

static void classifier_join(struct list *list, const union lt_args *args)
{
    const struct lt_classifier_part *part = &args->classifier_join;
    words(list, READS, part->stats, 3 * part->ranks * part->rows);
    words(list, READS, part->targets, part->rows);
    if (part->backward)
        typed(list, UPDATES, part->logits, part->rows * part->v);
    words(list, WRITES, part->losses, part->rows);
}

static void norm(struct list *list, const union lt_args *args)
{
    words(list, READS, args->norm.x, args->norm.count);
}

static void clip(struct list *list, const union lt_args *args)
{
    words(list, UPDATES, args->clip.x, args->clip.count);
}

static void centre(struct list *list, const union lt_args *args)
{
    words(list, UPDATES, args->centre.x, args->centre.rows * args->centre.columns);
}

static void rounding(struct list *list, const union lt_args *args)
{
    const struct lt_rounding *round = &args->rounding;
    words(list, UPDATES, round->x, round->count);
    add(list, WRITES, round->shadow, round->count * (int64_t)sizeof *round->shadow);
}

static void zero(struct list *list, const union lt_args *args)
{
    words(list, WRITES, args->zero.x, args->zero.count);
}

static void average(struct list *list, const union lt_args *args)
{
    const struct lt_average *pair = &args->lookahead;
    words(list, UPDATES, pair->param, pair->count);
    words(list, UPDATES, pair->other, pair->count);
    add(list, WRITES, pair->shadow, pair->count * (int64_t)sizeof *pair->shadow);
}

static void kfac_factors(struct list *list, const union lt_args *args)
{
    const struct lt_kfac_factors *factors = &args->kfac_factors;
    unsigned how = factors->add ? UPDATES : WRITES;
    typed(list, READS, factors->in, factors->rows * factors->k);
    typed(list, READS, factors->dout, factors->rows * factors->n);
    words(list, how, factors->inputs, (factors->k + 1) * (factors->k + 1));
    words(list, how, factors->outputs, factors->n * factors->n);
}

static void kfac_average(struct list *list, const union lt_args *args)
{
    words(list, UPDATES, args->kfac_average.mean, args->kfac_average.count);
    words(list, READS, args->kfac_average.sum, args->kfac_average.count);
}

static void kfac_inverse(struct list *list, const union lt_args *args)
{
    const struct lt_kfac_inverse *inverse = &args->kfac_inverse;
    int64_t inputs = (inverse->k + 1) * (inverse->k + 1), outputs = inverse->n * inverse->n;
    words(list, READS, inverse->inputs, inputs);
    words(list, READS, inverse->outputs, outputs);
    words(list, WRITES, inverse->inputs_inverse, inputs);
    words(list, WRITES, inverse->outputs_inverse, outputs);
}

static void kfac_direction(struct list *list, const union lt_args *args)
{
    const struct lt_kfac_direction *direction = &args->kfac_direction;
    int64_t n = direction->n, k = direction->k;
    words(list, READS, direction->dweight, n * k);
    words(list, READS, direction->dbias, n);
    words(list, READS, direction->inputs_inverse, (k + 1) * (k + 1));
    words(list, READS, direction->outputs_inverse, n * n);
    words(list, WRITES, direction->weight, n * k);
    words(list, WRITES, direction->bias, n);
}

/* An update of all parameters has no shape: it is one row. */
static void update(struct list *list, const union lt_args *args)
{
    const struct lt_update *change = &args->adamw;
    struct lt_weight tensor = {
        .repeat = 1, .rows = 1, .columns = change->count, .role = change->role};
    if (change->rows > 0 && change->repeat * change->rows * change->columns == change->count)
        tensor = (struct lt_weight){.repeat = change->repeat,
                                    .rows = change->rows,
                                    .columns = change->columns,
                                    .role = change->role};
    words(list, READS, change->grad, change->count);
    words(list, UPDATES, change->param, change->count);
    for (int i = 0; i < LT_UPDATE_STATES; i++)
        words(list, UPDATES, change->state[i], (int64_t)lt_update_state(list->op, i, &tensor));
    add(list, WRITES, change->shadow, change->count * (int64_t)sizeof *change->shadow);
}

static void (*const rows[LT_OP_COUNT])(struct list *list, const union lt_args *args) = {
    [LT_OP_EMBEDDING_FORWARD] = embedding_forward,
    [LT_OP_EMBEDDING_BACKWARD] = embedding_backward,
    [LT_OP_LAYERNORM_FORWARD] = layernorm_forward,
    [LT_OP_LAYERNORM_BACKWARD] = layernorm_backward,
    [LT_OP_MATMUL_FORWARD] = matmul_forward,
    [LT_OP_MATMUL_BACKWARD] = matmul_backward,
    [LT_OP_ATTENTION_FORWARD] = attention_forward,
    [LT_OP_ATTENTION_BACKWARD] = attention_backward,
    [LT_OP_GELU_FORWARD] = gelu_forward,
    [LT_OP_GELU_BACKWARD] = gelu_backward,
    [LT_OP_RESIDUAL_FORWARD] = residual_forward,
    [LT_OP_RMSNORM_FORWARD] = rmsnorm_forward,
    [LT_OP_RMSNORM_BACKWARD] = rmsnorm_backward,
    [LT_OP_ROPE_FORWARD] = rope_forward,
    [LT_OP_ROPE_BACKWARD] = rope_backward,
    [LT_OP_SWIGLU_FORWARD] = swiglu_forward,
    [LT_OP_SWIGLU_BACKWARD] = swiglu_backward,
    [LT_OP_CLASSIFIER] = classifier,
#define NET_ROW(id, function) [LT_OP_##id] = lt_operands_##function,
    LT_OPERANDS_NET(NET_ROW)
#undef NET_ROW
        [LT_OP_EMBEDDING_PART_FORWARD] = embedding_part_forward,
    [LT_OP_EMBEDDING_PART_BACKWARD] = embedding_part_backward,
    [LT_OP_CLASSIFIER_PART] = classifier_part,
    [LT_OP_CLASSIFIER_JOIN] = classifier_join,
    [LT_OP_NORM] = norm,
    [LT_OP_CLIP] = clip,
    [LT_OP_CENTRE] = centre,
    [LT_OP_ROUNDING] = rounding,
    [LT_OP_ZERO] = zero,
#define ROW(X, id, ...) [LT_OP_##id] = update,
    LT_UPDATE_MAP(ROW, ) LT_UPDATE_TENSOR_MAP(ROW, )
#undef ROW
        [LT_OP_LOOKAHEAD] = average,
    [LT_OP_EXCHANGE] = average,
    [LT_OP_KFAC_FACTORS] = kfac_factors,
    [LT_OP_KFAC_AVERAGE] = kfac_average,
    [LT_OP_KFAC_INVERSE] = kfac_inverse,
    [LT_OP_KFAC_DIRECTION] = kfac_direction,
};

size_t lt_op_operands(enum lt_op_id op, const struct lt_context *context, const union lt_args *args,
                      struct lt_operand operand[LT_OPERANDS_MOST])
{
    struct list list = {.operand = operand, .width = lt_dtype_bytes(context->dtype), .op = op};
    rows[op](&list, args);
    return list.count;
}
