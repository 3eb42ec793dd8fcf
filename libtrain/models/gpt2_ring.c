/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring attention (Liu et al. 2023): rank r of N has part r of each sequence. Its queries stay; the
 * keys and values of all parts go around the ring, one part a turn, and what attention makes of
 * each part is taken in (ops.h). A query sees the parts before its own one, so in turn k a rank has
 * something to compute only where r >= k; all of them pass on. Folded parts (share.h) are the
 * remedy: of the part of an earlier rank all queries see the first half, and a later rank's part is
 * seen whole by the second half of the queries, which is half of the pairs in every turn.
 */
#include <string.h>

#include "libtrain/models/gpt2_block.h"

/* Two arrays that change places after each message. */
struct ring {
    const struct lt_tensor_group *group;
    char *held, *next;
    size_t bytes;
};

/* What is held goes to the next rank, what comes from the one before is held. */
static void pass(struct ring *ring)
{
    char *came = ring->next;
    ring->group->pass(ring->group->arg, ring->held, came, ring->bytes);
    ring->next = ring->held;
    ring->held = came;
}

/* Rows of the two thirds of query, key and value that are keys and values. */
static size_t row_bytes(const struct gpt2 *model, const struct lt_attention *attention)
{
    return 2 * (size_t)attention->c * lt_dtype_bytes(model->mode.dtype);
}

/* The keys and values of a rank's own tokens, in the first place of the ring. */
static struct ring begin(const struct gpt2 *model, const struct lt_context *context,
                         const struct lt_attention *attention)
{
    size_t row = row_bytes(model, attention), rows = (size_t)(attention->b * attention->t);
    const char *from = (const char *)attention->qkv + row / 2;
    struct ring ring = {.group = context->sequences,
                        .held = (char *)model->act.ring_kv,
                        .next = (char *)model->act.ring_kv + rows * row,
                        .bytes = rows * row};
    for (size_t i = 0; i < rows; i++)
        memcpy(ring.held + i * row, from + i * (row / 2 * 3), row);
    return ring;
}

/* Turns in which a rank's queries see something. */
static int turns(const struct lt_gpt2_stage *stage)
{
    return stage->folded ? stage->contexts : stage->context + 1;
}

/* Turn `turn` of a rank: which part of attention it is. In the first turns come the parts of the
 * ranks before. */
static struct lt_attention part_of(const struct gpt2 *model, const struct lt_attention *attention,
                                   const void *held, int turn)
{
    struct lt_attention part = *attention;
    part.kv = held;
    part.sum = model->act.ring_sum;
    part.own = turn == 0;
    part.last = turn == turns(&model->stage) - 1;
    if (model->stage.folded && turn > model->stage.context)
        part.skip = part.t / 2;
    else if (model->stage.folded && turn > 0)
        part.hidden = part.t / 2;
    return part;
}

void lt_gpt2_ring(const struct gpt2 *model, const struct lt_context *context,
                  const struct lt_attention *attention)
{
    struct ring keys = begin(model, context, attention);
    for (int turn = 0; turn < model->stage.contexts; turn++) {
        if (turn)
            pass(&keys);
        if (turn >= turns(&model->stage))
            continue;
        lt_op(context, LT_OP_ATTENTION_FORWARD,
              &(union lt_args){.attention_forward = part_of(model, attention, keys.held, turn)});
    }
}

/* The gradients of the own keys and values, of the model's type, beside that of the queries. */
static void put_gradients(const struct gpt2 *model, const struct lt_attention *attention,
                          const float *from)
{
    int64_t wide = 2 * attention->c, rows = attention->b * attention->t;
    size_t element = lt_dtype_bytes(model->mode.dtype);
    for (int64_t i = 0; i < rows; i++) {
        char *to = (char *)attention->dqkv + (size_t)(i * 3 + 1) * (size_t)attention->c * element;
        const float *row = from + i * wide;
        if (model->mode.dtype == LT_DTYPE_FP32)
            memcpy(to, row, (size_t)wide * sizeof *row);
        else
            lt_shadow_refresh((uint16_t *)(void *)to, model->mode.dtype, row, wide);
    }
}

/* The gradients of a part go around with it, one message more, and so come home. */
void lt_gpt2_ring_backward(const struct gpt2 *model, const struct lt_context *context,
                           const struct lt_attention *attention)
{
    struct ring keys = begin(model, context, attention), slopes = keys;
    int64_t floats = attention->b * attention->t * 2 * attention->c;
    slopes.bytes = (size_t)floats * sizeof(float);
    slopes.held = (char *)model->act.ring_dkv;
    slopes.next = slopes.held + slopes.bytes;
    lt_op(context, LT_OP_ZERO,
          &(union lt_args){.zero = {.x = model->act.ring_dkv, .count = floats}});
    for (int turn = 0; turn < model->stage.contexts; turn++) {
        if (turn)
            pass(&keys);
        if (turn < turns(&model->stage)) {
            struct lt_attention part = part_of(model, attention, keys.held, turn);
            part.dkv = (float *)(void *)slopes.held;
            lt_op(context, LT_OP_ATTENTION_BACKWARD, &(union lt_args){.attention_backward = part});
        }
        pass(&slopes);
    }
    put_gradients(model, attention, (const float *)(const void *)slopes.held);
}
