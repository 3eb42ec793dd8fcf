/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of a pipeline, and their simulation.
 */
#include "libtrain/parallel/stages.h"

#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

static const char *const names[LT_STAGES_COUNT] = {
#define ROW(id, text) [LT_STAGES_##id] = (text),
    LT_SCHEDULE_OF_STAGES_MAP(ROW)
#undef ROW
};

int lt_stages_find(const char *name)
{
    for (int i = 0; i < LT_STAGES_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

const char *lt_stages_name(enum lt_stages kind)
{
    return names[kind];
}

int lt_stages_split(enum lt_stages kind)
{
    return kind == LT_STAGES_ZB_H1;
}

size_t lt_stages_count(const struct lt_staging *staging)
{
    size_t each = lt_stages_split(staging->kind) ? 3 : 2;
    return each * (size_t)staging->micro * (size_t)staging->chunks;
}

/* ---- orders ----------------------------------------------------------------------------------- */

/* A list of passes while it is written; made: of each kind so far. */
struct order {
    const struct lt_staging *staging;
    struct lt_pass *out;
    int made[LT_PASS_KINDS];
};

static int smaller(int left, int right)
{
    return left < right ? left : right;
}

/* The next pass of that kind. Passes over several chunks: those of p micro-batches over one chunk,
 * then those over the next one; backward begins with the last chunk. */
static void append(struct order *order, enum lt_pass_kind kind)
{
    const struct lt_staging *staging = order->staging;
    int number = order->made[kind]++, stages = staging->stages, chunks = staging->chunks;
    struct lt_pass pass = {.kind = kind, .micro = number};
    if (chunks > 1) {
        int round = number / (stages * chunks), within = number % (stages * chunks);
        pass.micro = round * stages + within % stages;
        pass.chunk = within / stages;
        if (kind != LT_PASS_FORWARD)
            pass.chunk = chunks - 1 - pass.chunk;
    }
    *order->out++ = pass;
}

/* Forward passes until `ahead` of them have no backward pass yet, then both in turn. */
static void take_turns(struct order *order, int ahead)
{
    int all = order->staging->micro * order->staging->chunks;
    while (order->made[LT_PASS_BACKWARD] < all) {
        int forward = order->made[LT_PASS_FORWARD], backward = order->made[LT_PASS_BACKWARD];
        append(order,
               forward < all && forward - backward < ahead ? LT_PASS_FORWARD : LT_PASS_BACKWARD);
    }
}

/* 1f1b, with weights passes from the time on when `stage` backward passes wait for theirs. */
static void take_three_turns(struct order *order, int stage)
{
    int micro = order->staging->micro, *made = order->made,
        ahead = smaller(micro, order->staging->stages - stage);
    while (made[LT_PASS_WEIGHTS] < micro) {
        if (made[LT_PASS_FORWARD] < micro &&
            made[LT_PASS_FORWARD] - made[LT_PASS_BACKWARD] < ahead) {
            append(order, LT_PASS_FORWARD);
            continue;
        }
        if (made[LT_PASS_BACKWARD] < micro)
            append(order, LT_PASS_BACKWARD);
        if (made[LT_PASS_BACKWARD] > stage || made[LT_PASS_BACKWARD] == micro)
            append(order, LT_PASS_WEIGHTS);
    }
}

/* Gives each forward pass a free slot, which the last pass over the same micro-batch and chunk
 * frees. Returns how many were needed. */
static int give_slots(const struct lt_staging *staging, struct lt_pass *pass)
{
    size_t passes = lt_stages_count(staging), cells = passes / 2;
    enum lt_pass_kind frees = lt_stages_split(staging->kind) ? LT_PASS_WEIGHTS : LT_PASS_BACKWARD;
    int most = 0, *slot = calloc(2 * cells, sizeof *slot), *taken = slot + cells;
    for (size_t i = 0; slot && i < passes; i++) {
        int *own = &slot[pass[i].micro * staging->chunks + pass[i].chunk];
        if (pass[i].kind == LT_PASS_FORWARD) {
            for (*own = 0; taken[*own]; ++*own)
                ;
            taken[*own] = 1;
            most = *own + 1 > most ? *own + 1 : most;
        }
        pass[i].slot = *own;
        if (pass[i].kind == frees)
            taken[*own] = 0;
    }
    free(slot);
    return slot ? most : TACHO_ENOMEM;
}

int lt_stages_passes(const struct lt_staging *staging, int stage, struct lt_pass *out)
{
    struct order order = {.staging = staging, .out = out};
    int stages = staging->stages, micro = staging->micro, chunks = staging->chunks;
    switch (staging->kind) {
    case LT_STAGES_ONE_F_ONE_B:
        take_turns(&order, smaller(micro, stages - stage));
        break;
    case LT_STAGES_INTERLEAVED: /* as many ahead as keep the last stage busy */
        take_turns(&order, micro == stages
                               ? micro * chunks
                               : smaller(micro * chunks,
                                         2 * (stages - stage - 1) + (chunks - 1) * stages + 1));
        break;
    case LT_STAGES_ZB_H1:
        take_three_turns(&order, stage);
        break;
    case LT_STAGES_GPIPE:
    case LT_STAGES_COUNT:
        take_turns(&order, micro);
        break;
    }
    return give_slots(staging, out);
}

/* ---- simulation ------------------------------------------------------------------------------- */

/* A step while it is simulated: [kind] of each stage, chunk and micro-batch when a pass ended,
 * below 0: it did not; [stage] the next pass in its order, and when the stage is free. */
struct simulation {
    const struct lt_staging *staging;
    struct lt_pass *pass;
    double *ended[LT_PASS_KINDS], *free_at;
    size_t *next;
};

static double *cell(const struct simulation *of, enum lt_pass_kind kind, int stage,
                    struct lt_pass pass)
{
    const struct lt_staging *staging = of->staging;
    return &of->ended[kind][(stage * staging->chunks + pass.chunk) * staging->micro + pass.micro];
}

/* When the input of a stage's pass is there; below 0: not yet known. Forward goes from the last
 * stage to the next chunk of the first one, backward the other way. */
static double input_of(const struct simulation *of, int stage, struct lt_pass pass)
{
    int last = of->staging->stages - 1;
    if (pass.kind == LT_PASS_WEIGHTS)
        return *cell(of, LT_PASS_BACKWARD, stage, pass);
    if (pass.kind == LT_PASS_FORWARD) {
        if (stage > 0)
            return *cell(of, LT_PASS_FORWARD, stage - 1, pass);
        return pass.chunk-- > 0 ? *cell(of, LT_PASS_FORWARD, last, pass) : 0;
    }
    if (stage < last)
        return *cell(of, LT_PASS_BACKWARD, stage + 1, pass);
    if (pass.chunk == of->staging->chunks - 1)
        return *cell(of, LT_PASS_FORWARD, stage, pass);
    pass.chunk++;
    return *cell(of, LT_PASS_BACKWARD, 0, pass);
}

static double duration(const struct lt_staging *staging, const struct lt_stage_times *times,
                       enum lt_pass_kind kind)
{
    double backward = times->backward + (lt_stages_split(staging->kind) ? 0 : times->weights);
    const double all[LT_PASS_KINDS] = {times->forward, backward, times->weights};
    return all[kind] / staging->chunks;
}

/* Makes every pass that can be made; false: none could. */
static int advance(struct simulation *of, const struct lt_stage_times *times)
{
    int moved = 0;
    size_t passes = lt_stages_count(of->staging);
    for (int stage = 0; stage < of->staging->stages; stage++)
        while (of->next[stage] < passes) {
            struct lt_pass pass = of->pass[(size_t)stage * passes + of->next[stage]];
            double start = input_of(of, stage, pass);
            if (start < 0)
                break;
            if (start < of->free_at[stage])
                start = of->free_at[stage];
            of->free_at[stage] = start + duration(of->staging, &times[stage], pass.kind);
            *cell(of, pass.kind, stage, pass) = of->free_at[stage];
            of->next[stage]++;
            moved = 1;
        }
    return moved;
}

double lt_stages_makespan(const struct lt_staging *staging, const struct lt_stage_times *times)
{
    size_t stages = (size_t)staging->stages, passes = lt_stages_count(staging),
           cells = stages * (size_t)staging->micro * (size_t)staging->chunks;
    struct simulation of = {.staging = staging};
    double end = TACHO_ENOMEM;
    of.pass = calloc(stages * passes, sizeof *of.pass);
    of.ended[0] = calloc(LT_PASS_KINDS * cells, sizeof *of.ended[0]);
    of.free_at = calloc(stages, sizeof *of.free_at);
    of.next = calloc(stages, sizeof *of.next);
    if (!of.pass || !of.ended[0] || !of.free_at || !of.next)
        goto out;
    for (size_t i = 0; i < LT_PASS_KINDS * cells; i++)
        of.ended[0][i] = -1;
    for (size_t i = 1; i < LT_PASS_KINDS; i++)
        of.ended[i] = of.ended[0] + i * cells;
    for (int stage = 0; stage < staging->stages; stage++)
        if (lt_stages_passes(staging, stage, of.pass + (size_t)stage * passes) < 0)
            goto out;
    while (advance(&of, times)) {
    }
    for (size_t stage = 0; stage < stages; stage++)
        end = of.free_at[stage] > end ? of.free_at[stage] : end;
out:
    free(of.pass);
    free(of.ended[0]);
    free(of.free_at);
    free(of.next);
    return end;
}
