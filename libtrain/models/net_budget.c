/* SPDX-License-Identifier: Apache-2.0
 *
 * Which blocks of a list are made again in backward. With a budget: those whose FLOPs are the
 * fewest that fit.
 *
 * While block i is run backward, what waits is what the kept blocks before it hold; the blocks
 * after it are done. So a choice fits if for each i the sum of what the kept blocks before i hold,
 * and of what is needed then in any case, is within the budget. Blocks are gone through in their
 * order, and of all choices so far those are kept on that no other one beats in both bytes and
 * FLOPs: so the best one is among them (as long as there are at most STATES). Places of arrays may
 * take a little more than what is needed at one time: then the search is repeated with that much
 * less.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/models/net_private.h"
#include "tacho_error.h"

#define STATES  4096
#define REPEATS 16

/* A choice for the blocks so far: floats that they hold, FLOPs that are not made again, and the
 * choice it goes on from. */
struct choice {
    size_t floats;
    uint64_t saved;
    int before, keeps;
};

/* All choices of all blocks, one behind the other. */
struct choices {
    struct choice *all;
    int from, end, cap;
};

static int by_floats(const void *left, const void *right)
{
    const struct choice *a = left, *b = right;
    if (a->floats != b->floats)
        return a->floats < b->floats ? -1 : 1;
    if (a->saved != b->saved)
        return a->saved > b->saved ? -1 : 1;
    return a->before - b->before;
}

/* From the choices for the blocks before to those for one block more, at most `room` floats. */
static void extend(struct choices *choices, const struct net_block_cost *block, size_t room)
{
    int from = choices->from, end = choices->end, count = 0;
    struct choice *next = choices->all + end;
    for (int i = from; i < end; i++) {
        const struct choice *before = &choices->all[i];
        next[count++] = (struct choice){before->floats, before->saved, i, 0};
        if (before->floats + block->kept <= room)
            next[count++] =
                (struct choice){before->floats + block->kept, before->saved + block->flops, i, 1};
    }
    qsort(next, (size_t)count, sizeof *next, by_floats);
    int kept = 0;
    for (int i = 0; i < count && kept < STATES; i++)
        if (kept == 0 || next[i].saved > next[kept - 1].saved)
            next[kept++] = next[i];
    choices->from = end;
    choices->end = end + kept;
}

/* Fills net->remade: the best choice within `room` floats, by what the blocks hold. 0 or
 * TACHO_ENOMEM; where nothing fits, all are remade. */
static int search(struct lt_net *net, const struct net_block_cost *block, size_t room)
{
    int blocks = net->blocks - 1; /* the last one is run backward at once */
    struct choices choices = {.cap = (blocks + 2) * 2 * STATES, .end = 1};
    size_t most = 0;
    choices.all = calloc((size_t)choices.cap, sizeof *choices.all);
    size_t *rooms = calloc((size_t)blocks + 2, sizeof *rooms);
    int rc = choices.all && rooms ? 0 : TACHO_ENOMEM;
    for (int i = blocks; rc == 0 && i >= 0; i--) { /* what any block after i leaves */
        most = block[i + 1].live > most ? block[i + 1].live : most;
        rooms[i] = room > most ? room - most : 0;
    }
    for (int i = 0; rc == 0 && i < blocks; i++)
        extend(&choices, &block[i], rooms[i]);
    memset(net->remade, 0, (size_t)net->blocks);
    for (int i = blocks - 1, at = choices.end - 1; rc == 0 && i >= 0; i--) {
        net->remade[i] = !choices.all[at].keeps;
        at = choices.all[at].before;
    }
    free(choices.all);
    free(rooms);
    return rc;
}

static int fits(const struct lt_net *net)
{
    return net->floats <= lt_arena_floats((size_t)net->mode.budget);
}

/* Repeats the search until the places fit, too. */
static int fit(struct lt_net *net, const struct net_block_cost *block)
{
    size_t budget = lt_arena_floats((size_t)net->mode.budget), room = budget;
    for (int i = 0; i < REPEATS; i++) {
        int rc = search(net, block, room);
        rc = rc ? rc : lt_net_place(net);
        if (rc || fits(net))
            return rc;
        room -= net->floats - budget < room ? net->floats - budget : room;
    }
    memset(net->remade, 1, (size_t)net->blocks - 1);
    return lt_net_place(net);
}

/* Fills net->remade for the mode, and places everything. */
static int choose(struct lt_net *net)
{
    size_t blocks = (size_t)net->blocks;
    int all = net->mode.recompute == LT_RECOMPUTE_BLOCK && !net->mode.budget;
    if (blocks > 1)
        memset(net->remade, all, blocks - 1);
    int rc = lt_net_place(net);
    if (rc || !net->mode.budget || fits(net))
        return rc;
    if (blocks > 1) {
        struct net_block_cost *block = calloc(blocks + 1, sizeof *block);
        memset(net->remade, 1, blocks - 1);
        rc = block ? lt_net_block_costs(net, block) : TACHO_ENOMEM;
        rc = rc ? rc : fit(net, block);
        free(block);
    }
    return rc == 0 && !fits(net) ? TACHO_EUSAGE : rc;
}

/* Says why a list could not be placed. Returns rc. */
static int fail(const struct lt_net *net, int rc, const char *name, struct tacho_error *err)
{
    double mib = 1 << 20, least = (double)lt_arena_bytes(net->floats);
    if (rc == TACHO_EUSAGE)
        return tacho_fail(err, rc, "give more --memory, or a smaller model, --batch or --seq",
                          "%s: activations take at least %.1f MiB, the budget leaves %.1f MiB",
                          name, least / mib, (double)net->mode.budget / mib);
    return tacho_fail(err, rc, NULL, "%s: the list of operations cannot be placed", name);
}

int lt_net_finish(struct lt_net *net, const char *name, struct lt_net **out,
                  struct tacho_error *err)
{
    net->remade = calloc(1, (size_t)net->blocks + 1);
    int rc = net->remade ? net->error : TACHO_ENOMEM;
    rc = rc ? rc : lt_net_order_gradients(net);
    rc = rc ? rc : choose(net);
    for (int i = 0; rc == 0 && i < net->uses; i++)
        if (net->use[i].what == NET_SCRATCH && (size_t)net->use[i].count > net->scratch)
            net->scratch = (size_t)net->use[i].count;
    if (rc) {
        rc = fail(net, rc, name, err);
        lt_net_destroy(net);
        return rc;
    }
    *out = net;
    return 0;
}

void lt_net_measure(struct lt_net *net, struct lt_memory_plan *out,
                    struct lt_parameters *parameters)
{
    size_t count = net->model.parameters.count, element = lt_dtype_bytes(net->mode.dtype);
    *out = (struct lt_memory_plan){0};
    out->tag[LT_MEMORY_PARAMETERS] =
        (sizeof(float) + (net->mode.dtype == LT_DTYPE_FP32 ? 0 : element)) * count +
        sizeof(float) * net->states;
    out->tag[LT_MEMORY_GRADIENTS] = sizeof(float) * count;
    out->tag[LT_MEMORY_ACTIVATIONS] = sizeof(float) * net->floats * (size_t)net->in_flight;
    out->tag[LT_MEMORY_WORKSPACE] = sizeof(float) * net->scratch;
    *parameters = net->model.parameters;
    lt_net_destroy(net);
}
