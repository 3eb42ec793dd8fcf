/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches, numbers and results of steps on a device. Two slots of pinned memory take turns: a slot
 * is written for a step only after the result of the step before the last, which used it, was
 * waited for.
 */
#include "libtrain/train/device_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"

struct slot {
    struct lt_late sent, got; /* pinned */
};

struct lt_device_steps {
    struct lt_device *device;
    int64_t n, vocab; /* tokens of a batch */
    int micro;
    struct lt_batch *batches; /* on the device */
    struct lt_arena arena;    /* there: 4 n + 1 words for each batch */
    struct slot *slot[LT_DEVICE_MARKS];
    int32_t *words[LT_DEVICE_MARKS]; /* pinned: of all batches of a step */
    int32_t *counts;                 /* a word's places, while they are sorted */
    uint64_t begun, ended, asked;    /* steps */
};

/* Tokens, targets, places in the order of their words, where each word's begin. */
static int64_t words_of(const struct lt_device_steps *steps)
{
    return 4 * steps->n + 1;
}

int lt_device_steps_open(struct lt_device_steps **out, struct lt_device *device,
                         const struct lt_model *model, int micro, struct tacho_error *err)
{
    struct lt_device_steps *steps = *out = calloc(1, sizeof *steps);
    float *base = NULL;
    if (!steps)
        return lt_no_memory(err);
    *steps = (struct lt_device_steps){
        .device = device, .n = model->b * model->t, .vocab = model->vocab, .micro = micro};
    size_t words = (size_t)(words_of(steps) * micro);
    struct lt_tensor whole = {.name = "batches", .count = words, .slot = &base};
    steps->counts = calloc((size_t)model->vocab + 1, sizeof *steps->counts);
    steps->batches = calloc((size_t)micro, sizeof *steps->batches);
    int missing = !steps->counts || !steps->batches;
    for (int i = 0; i < LT_DEVICE_MARKS; i++) {
        steps->slot[i] = device->pin(device, sizeof *steps->slot[i]);
        steps->words[i] = device->pin(device, words * sizeof *steps->words[i]);
        missing |= !steps->slot[i] || !steps->words[i];
    }
    if (missing || lt_arena_create_in(&steps->arena, &device->space, LT_MEMORY_LOADER, &whole, 1))
        return lt_no_memory(err);
    for (int i = 0; i < micro; i++) {
        const int32_t *at = (const int32_t *)(const void *)base + i * words_of(steps);
        steps->batches[i] = (struct lt_batch){.tokens = at,
                                              .targets = at + steps->n,
                                              .order = at + 2 * steps->n,
                                              .starts = at + 3 * steps->n};
    }
    return 0;
}

void lt_device_steps_close(struct lt_device_steps *steps)
{
    if (!steps)
        return;
    while (steps->asked < steps->ended)
        steps->device->await(steps->device, (int)(steps->asked++ % LT_DEVICE_MARKS));
    lt_arena_destroy(&steps->arena);
    for (int i = 0; i < LT_DEVICE_MARKS; i++) {
        if (steps->slot[i])
            steps->device->unpin(steps->device, steps->slot[i]);
        if (steps->words[i])
            steps->device->unpin(steps->device, steps->words[i]);
    }
    free(steps->counts);
    free(steps->batches);
    free(steps);
}

/* The places of tokens[n] in the order of their words, equal ones in their own; where each word
 * that occurs begins; the rest of starts[n + 1] is n. counts: vocab + 1 zeros, zero again
 * afterwards. */
static void sort_places(const struct lt_device_steps *steps, const int32_t *tokens, int32_t *order,
                        int32_t *starts)
{
    int32_t *next = steps->counts, at = 0, used = 0, n = (int32_t)steps->n;
    for (int32_t i = 0; i < n; i++)
        next[tokens[i]]++;
    for (int64_t word = 0; word < steps->vocab; word++)
        if (next[word]) {
            int32_t count = next[word];
            starts[used++] = at;
            next[word] = at;
            at += count;
        }
    for (int32_t i = 0; i < n; i++)
        order[next[tokens[i]]++] = i;
    for (; used <= n; used++)
        starts[used] = n;
    for (int32_t i = 0; i < n; i++)
        next[tokens[i]] = 0;
}

void lt_device_steps_send(struct lt_device_steps *steps, int index, const struct lt_batch *batch)
{
    int32_t *words = steps->words[steps->begun % LT_DEVICE_MARKS] + index * words_of(steps);
    size_t bytes = (size_t)steps->n * sizeof *words;
    memcpy(words, batch->tokens, bytes);
    memcpy(words + steps->n, batch->targets, bytes);
    sort_places(steps, words, words + 2 * steps->n, words + 3 * steps->n);
    steps->device->send(steps->device, (void *)(uintptr_t)steps->batches[index].tokens, words,
                        (size_t)words_of(steps) * sizeof *words);
}

const struct lt_batch *lt_device_steps_batches(const struct lt_device_steps *steps)
{
    return steps->batches;
}

void lt_device_steps_begin(struct lt_device_steps *steps, const struct lt_update_terms *terms,
                           double clip)
{
    struct lt_late *sent = &steps->slot[steps->begun++ % LT_DEVICE_MARKS]->sent;
    *sent = (struct lt_late){.terms = *terms, .clip = clip};
    steps->device->send(steps->device, steps->device->late, sent, sizeof *sent);
}

void lt_device_steps_end(struct lt_device_steps *steps)
{
    int which = (int)(steps->ended++ % LT_DEVICE_MARKS);
    struct lt_late *got = &steps->slot[which]->got;
    steps->device->fetch(steps->device, got, steps->device->late, sizeof *got);
    steps->device->mark(steps->device, which);
}

int lt_device_steps_result(struct lt_device_steps *steps, double *loss, double *norm,
                           struct tacho_error *err)
{
    int which = (int)(steps->asked++ % LT_DEVICE_MARKS);
    steps->device->await(steps->device, which);
    const struct lt_late *got = &steps->slot[which]->got;
    const char *failure = steps->device->failure(steps->device);
    *loss = got->loss;
    *norm = sqrt(got->squares);
    if (failure)
        return tacho_fail(err, TACHO_EIO, "a smaller --batch, where memory is the matter", "%s: %s",
                          steps->device->name, failure);
    return 0;
}

int lt_device_steps_evaluate(struct lt_device_steps *steps, struct lt_model *model,
                             const struct lt_context *context, const struct lt_batch *batch,
                             double *loss, struct tacho_error *err)
{
    static const struct lt_update_terms none;
    double norm;
    lt_device_steps_send(steps, 0, batch);
    lt_device_steps_begin(steps, &none, 0);
    model->ops->forward(model, context, &steps->batches[0], 1);
    lt_device_steps_end(steps);
    return lt_device_steps_result(steps, loss, &norm, err);
}
