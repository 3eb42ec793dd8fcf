/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of a pipeline, and their simulation.
 */
#include "libtrain/parallel/stages.h"

#include <stdlib.h>
#include <string.h>

int lt_stages_find(const char *name)
{
#define ROW(id, text) text,
    static const char *const names[] = {LT_SCHEDULE_OF_STAGES_MAP(ROW)};
#undef ROW
    for (int i = 0; i < LT_STAGES_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

void lt_stages_passes(enum lt_stages kind, int stages, int stage, int micro, struct lt_pass *out)
{
    int ahead = micro, forward = 0, backward = 0;
    if (kind == LT_STAGES_ONE_F_ONE_B && stages - stage < micro)
        ahead = stages - stage;
    for (int i = 0; i < 2 * micro; i++) {
        int forward_now = forward < micro && forward - backward < ahead;
        out[i] = (struct lt_pass){.backward = !forward_now,
                                  .micro = forward_now ? forward++ : backward++};
    }
}

int lt_stages_in_flight(const struct lt_pass *pass, size_t passes)
{
    int now = 0, most = 0;
    for (size_t i = 0; i < passes; i++) {
        now += pass[i].backward ? -1 : 1;
        most = now > most ? now : most;
    }
    return most;
}

/* A step while it is simulated: [stage][micro] when a pass ended, below 0: it did not; [stage] the
 * next pass in its order, and when the stage is free. */
struct simulation {
    int stages, micro;
    struct lt_pass *pass;
    double *ended[2], *free_at;
    int *next;
};

/* When the input of a stage's pass is there; below 0: not yet known. */
static double input_of(const struct simulation *of, int stage, struct lt_pass pass)
{
    int last = of->stages - 1, from = pass.backward ? stage + 1 : stage - 1;
    if (!pass.backward && stage == 0)
        return 0;
    if (pass.backward && stage == last)
        return of->ended[0][stage * of->micro + pass.micro];
    return of->ended[pass.backward][from * of->micro + pass.micro];
}

/* Makes every pass that can be made; false: none could. */
static int advance(struct simulation *of, const double *forward, const double *backward)
{
    int moved = 0;
    for (int stage = 0; stage < of->stages; stage++)
        while (of->next[stage] < 2 * of->micro) {
            struct lt_pass pass = of->pass[stage * 2 * of->micro + of->next[stage]];
            double start = input_of(of, stage, pass);
            if (start < 0)
                break;
            if (start < of->free_at[stage])
                start = of->free_at[stage];
            of->free_at[stage] = start + (pass.backward ? backward[stage] : forward[stage]);
            of->ended[pass.backward][stage * of->micro + pass.micro] = of->free_at[stage];
            of->next[stage]++;
            moved = 1;
        }
    return moved;
}

double lt_stages_makespan(enum lt_stages kind, int stages, int micro, const double *forward,
                          const double *backward)
{
    size_t cells = (size_t)stages * (size_t)micro;
    struct simulation of = {.stages = stages, .micro = micro};
    double end = -1;
    of.pass = calloc(2 * cells, sizeof *of.pass);
    of.ended[0] = calloc(2 * cells, sizeof *of.ended[0]);
    of.free_at = calloc((size_t)stages, sizeof *of.free_at);
    of.next = calloc((size_t)stages, sizeof *of.next);
    if (!of.pass || !of.ended[0] || !of.free_at || !of.next)
        goto out;
    of.ended[1] = of.ended[0] + cells;
    for (size_t i = 0; i < 2 * cells; i++)
        of.ended[0][i] = -1;
    for (int stage = 0; stage < stages; stage++)
        lt_stages_passes(kind, stages, stage, micro, of.pass + 2 * stage * micro);
    while (advance(&of, forward, backward)) {
    }
    for (int stage = 0; stage < stages; stage++)
        end = of.free_at[stage] > end ? of.free_at[stage] : end;
out:
    free(of.pass);
    free(of.ended[0]);
    free(of.free_at);
    free(of.next);
    return end;
}
