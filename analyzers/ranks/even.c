/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline whose ranks and micro-batches were even: what a step would take if every operation
 * took the mean of its name over all ranks and steps (transfers: the median), and if only the
 * stages were even. The operations of a step are replayed: each rank keeps its order, and a
 * transfer starts once all of its ranks are there; where sends do not wait for their receivers, a
 * recv once its send is over. The method of "Understanding Stragglers in Large Model Training Using
 * What-if Analysis" (Lin et al. 2025). Time between operations does not count, nor does waiting
 * inside of them. Transfers of one rank inside each other were posted together and are one call.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/even.h"

#define STEPS_LEAST 5
#define ALPHA       0.05
/* Operations times ranks, up to which each rank is replayed alone. */
#define WORK_MOST 1e9
/* Names times operations of one name in a step, up to which micro-batches are compared. */
#define CELLS_MOST (1u << 20)

/* ONE_REPLICA: only a replica of the pipeline as recorded, the others as usual; ONE_STAGE: only a
 * stage as usual. */
enum variant { AS_RECORDED, ALL_EVEN, STAGES_EVEN, ONE_REPLICA, ONE_STAGE };

/* ---- what is usual ------------------------------------------------------------------------------------------------------ */

static uint32_t stage_of(const struct evening *evening, uint32_t lane)
{
    return evening->context->exchanges->peers[lane];
}

/* The mean of each name in each stage. */
static void sum_stages(struct evening *evening)
{
    for (size_t i = 0; i < evening->slot_count; i++) {
        const struct slot *slot = &evening->slot[i];
        for (size_t k = slot->first_op; k < slot->first_op + slot->ops; k++) {
            size_t cell = stage_of(evening, slot->lane) * evening->names + evening->op[k].name;
            evening->stage_sum[cell] += evening->op[k].ns;
            evening->stage_count[cell]++;
        }
    }
    for (size_t i = 0; i < evening->lanes * evening->names; i++)
        evening->stage_usual[i] =
            evening->stage_count[i] > 0 ? evening->stage_sum[i] / evening->stage_count[i] : 0;
}

/* The usual time of each name: the mean of work, the median of transfers. */
static int find_usual(struct evening *evening)
{
    double *values = malloc((evening->op_count + 1) * sizeof *values);
    if (!values)
        return TACHO_ENOMEM;
    for (size_t name = 0; name < evening->names; name++) {
        size_t count = 0;
        bool transfer = false;
        for (size_t i = 0; i < evening->op_count; i++)
            if (evening->op[i].name == name) {
                values[count++] = evening->op[i].ns;
                transfer = evening->op[i].transfer;
            }
        evening->usual[name] =
            transfer ? an_quantile_of(values, count, 0.5) : an_mean(values, count);
    }
    free(values);
    sum_stages(evening);
    return 0;
}

/* ---- the replay --------------------------------------------------------------------------------------------------------- */

static double op_ns(const struct evening *evening, const struct op *op, uint32_t lane,
                    enum variant variant, uint32_t only)
{
    size_t cell = stage_of(evening, lane) * evening->names + op->name;
    bool chosen = variant == ONE_STAGE ? stage_of(evening, lane) != only
                                       : evening->context->exchanges->replica[lane] == only;
    if (variant == AS_RECORDED || (variant >= ONE_REPLICA && chosen))
        return op->ns;
    if (variant != STAGES_EVEN)
        return evening->usual[op->name];
    return !op->transfer && evening->stage_usual[cell] > 0
               ? op->ns * evening->usual[op->name] / evening->stage_usual[cell]
               : op->ns;
}

static double slot_ns(const struct evening *evening, const struct slot *slot, enum variant variant,
                      uint32_t only)
{
    double ns = 0;
    for (size_t i = slot->first_op; i < slot->first_op + slot->ops; i++)
        ns = fmax(ns, op_ns(evening, &evening->op[i], slot->lane, variant, only));
    return ns;
}

/* What is replayed: which operations take as long as recorded, and of whom. */
struct replayed {
    enum variant variant;
    uint32_t only;
};

/* A slot or a message is where the slot's meeting is. When all are there it passes, and its lanes
 * go on: they are put on the stack. Returns the stack's new height. */
static size_t arrive(struct evening *evening, uint32_t at, double when, struct replayed replayed,
                     size_t height)
{
    uint32_t first = an_even_meeting(evening, at);
    struct slot *meeting = &evening->slot[first];
    meeting->start = fmax(meeting->arrived ? meeting->start : 0, when);
    if (++meeting->arrived < meeting->members)
        return height;
    for (uint32_t i = first; i != AN_NONE; i = evening->slot[i].next) {
        const struct slot *slot = &evening->slot[i];
        evening->ready[slot->lane] =
            meeting->start + slot_ns(evening, slot, replayed.variant, replayed.only);
        evening->head[slot->lane]++;
        evening->stack[height++] = slot->lane;
    }
    return height;
}

/* A lane goes on: what its last slot sends is there, and it comes to its next slot. */
static size_t go_on(struct evening *evening, uint32_t lane, const size_t *first,
                    struct replayed replayed, size_t height)
{
    size_t head = evening->head[lane];
    uint32_t message = head > first[lane] ? evening->slot[head - 1].message : AN_NONE;
    for (; message != AN_NONE; message = evening->message[message].next)
        height =
            arrive(evening, evening->message[message].to, evening->ready[lane], replayed, height);
    if (head < first[lane + 1])
        height = arrive(evening, (uint32_t)head, evening->ready[lane], replayed, height);
    return height;
}

/* Replays a column. NAN: its meetings contradict the order of the ranks. */
static double replay_step(struct evening *evening, size_t column, struct replayed replayed)
{
    const size_t *first = &evening->first[column * evening->lanes];
    size_t height = 0;
    double end = 0;
    for (uint32_t lane = 0; lane < evening->lanes; lane++) {
        evening->head[lane] = first[lane];
        evening->ready[lane] = 0;
        evening->stack[height++] = lane;
    }
    for (size_t i = first[0]; i < first[evening->lanes]; i++)
        evening->slot[i].arrived = 0;
    while (height) {
        uint32_t lane = evening->stack[--height];
        height = go_on(evening, lane, first, replayed, height);
    }
    for (size_t lane = 0; lane < evening->lanes; lane++) {
        if (evening->head[lane] < first[lane + 1])
            return NAN;
        end = fmax(end, evening->ready[lane]);
    }
    return end;
}

/* Mean over the steps, ms; steps: of every column, may be NULL. */
static double replay(struct evening *evening, enum variant variant, uint32_t only, double *steps)
{
    double sum = 0;
    for (size_t column = 0; column < evening->columns; column++) {
        double ns = replay_step(evening, column, (struct replayed){variant, only});
        sum += ns;
        if (steps)
            steps[column] = ns;
    }
    return sum / (double)evening->columns / 1e6;
}

/* ---- the result --------------------------------------------------------------------------------------------------------- */

/* The number of the slow stage, from 0: stages are in the order of their lowest ranks, which lanes
 * need not be. */
static int number_stage(const struct evening *evening, struct an_even *out)
{
    int64_t *least = malloc(evening->lanes * sizeof *least);
    if (!least)
        return TACHO_ENOMEM;
    for (size_t lane = 0; lane < evening->lanes; lane++)
        least[lane] = INT64_MAX;
    for (uint32_t lane = 0; lane < evening->lanes; lane++) {
        int64_t *of = &least[stage_of(evening, lane)], rank = evening->context->lane[lane].rank;
        *of = rank < *of ? rank : *of;
    }
    for (size_t lane = 0; lane < evening->lanes; lane++)
        out->stage += least[lane] < least[out->stage_lane];
    free(least);
    return 0;
}

/* The stage whose work in a step is longest, against the mean of all stages. */
static void find_slow_stage(const struct evening *evening, struct an_even *out)
{
    double sum = 0, most = 0;
    int64_t stages = 0;
    for (uint32_t lane = 0; lane < evening->lanes; lane++) {
        double work = 0, members = 0;
        if (stage_of(evening, lane) != lane)
            continue;
        for (uint32_t other = 0; other < evening->lanes; other++)
            members += stage_of(evening, other) == lane;
        for (size_t i = 0; i < evening->slot_count; i++) {
            const struct slot *slot = &evening->slot[i];
            if (stage_of(evening, slot->lane) == lane && !evening->op[slot->first_op].transfer)
                work += evening->op[slot->first_op].ns / members;
        }
        if (work > most) {
            most = work;
            out->stage_lane = lane;
        }
        sum += work;
        stages++;
    }
    out->stage_count = stages;
    out->stage_excess_pct =
        an_num_if(sum > 0, 100 * (most * (double)stages / sum - 1), "the stages do no work");
}

/* What the slowest replica alone adds, all others as usual, and its rank of the slow stage. */
static void find_slow_replica(struct evening *evening, struct an_even *out)
{
    const uint32_t *replica = evening->context->exchanges->replica;
    double most = -1;
    uint32_t slowest = AN_NONE;
    if ((double)evening->op_count * (double)evening->lanes > WORK_MOST) {
        out->rank_pct = an_num_none("too many ranks and steps to replay each alone");
        return;
    }
    for (uint32_t lane = 0; lane < evening->lanes; lane++) {
        double ms = replica[lane] == lane ? replay(evening, ONE_REPLICA, lane, NULL) : 0;
        if (ms > most) {
            most = ms;
            slowest = lane;
        }
    }
    for (uint32_t lane = 0; lane < evening->lanes; lane++)
        if (replica[lane] == slowest && stage_of(evening, lane) == out->stage_lane)
            out->rank = evening->context->lane[lane].rank;
    out->rank_pct = an_num(100 * (most / out->ideal_ms.value - 1));
}

/* Gain of a replay over another: mean over steps, and Student's interval of it. gain: scratch. */
static struct an_gain_pct gain_of(const double *before, const double *after, size_t steps,
                                  double *gain)
{
    for (size_t i = 0; i < steps; i++)
        gain[i] = 100 * (before[i] / after[i] - 1);
    double mean = an_mean(gain, steps),
           half = an_quantile_of_tail(an_student_tail, ALPHA, (double)steps - 1) *
                  an_sd(gain, steps) / sqrt((double)steps);
    return (struct an_gain_pct){an_num(mean - half), an_num(mean), an_num(mean + half)};
}

/* What it brings when the slow stage alone takes the usual times, and which part of what is lost
 * that is. */
static int find_stage_share(struct evening *evening, struct an_even *out)
{
    size_t steps = evening->columns;
    double lost = out->recorded_ms.value - out->ideal_ms.value,
           *usual = malloc(2 * steps * sizeof *usual);
    if (!usual)
        return TACHO_ENOMEM;
    double without = replay(evening, ONE_STAGE, out->stage_lane, usual);
    out->slow_stage = gain_of(evening->recorded, usual, steps, usual + steps);
    out->stage_share_pct = an_num_if(lost > 0, 100 * (out->recorded_ms.value - without) / lost,
                                     "nothing is lost to uneven work");
    free(usual);
    return 0;
}

/* How much one operation of a step is longer than usual in its stage, over the stages of a replica.
 */
struct deviation {
    double sum, squares, count;
};

static void add_deviations(const struct evening *evening, size_t column, uint32_t replica,
                           struct deviation *of)
{
    const size_t *first = &evening->first[column * evening->lanes];
    for (uint32_t lane = 0; lane < evening->lanes; lane++) {
        const double *usual = &evening->stage_usual[stage_of(evening, lane) * evening->names];
        if (evening->context->exchanges->replica[lane] != replica)
            continue;
        for (size_t i = first[lane]; i < first[lane + 1]; i++) {
            const struct op *op = &evening->op[evening->slot[i].first_op];
            struct deviation *own = &of[op->name * evening->turns + op->turn];
            double ns = op->transfer ? 0 : op->ns - usual[op->name];
            own->sum += ns;
            own->squares += ns * ns;
            own->count++;
        }
    }
}

/* How much the times of different stages for the same micro-batch correlate: the mean over all
 * pairs of stages (intraclass correlation), where the n-th operation of a name in a step is of the
 * same micro-batch. Uneven micro-batches are longer in all stages; what slows single ranks is not.
 */
static int find_correlation(const struct evening *evening, struct an_even *out)
{
    size_t cells = evening->names * evening->turns;
    double product = 0, square = 0;
    bool few = (double)evening->op_count * (double)evening->lanes <= WORK_MOST;
    out->batch_correlation = an_num_none("too many operations to compare micro-batches");
    if (cells > CELLS_MOST || !few)
        return 0;
    struct deviation *of = malloc((cells + 1) * sizeof *of);
    if (!of)
        return TACHO_ENOMEM;
    for (size_t column = 0; column < evening->columns; column++)
        for (uint32_t lane = 0; lane < evening->lanes; lane++) {
            if (evening->context->exchanges->replica[lane] != lane)
                continue;
            memset(of, 0, cells * sizeof *of);
            add_deviations(evening, column, lane, of);
            for (size_t k = 0; k < cells; k++) {
                product += of[k].sum * of[k].sum - of[k].squares;
                square += (of[k].count - 1) * of[k].squares;
            }
        }
    free(of);
    out->batch_correlation =
        an_num_if(square > 0, product / square, "every operation takes as long as usual");
    return 0;
}

/* What even stages would bring, and what even micro-batches would bring on top. */
static int find_gains(struct evening *evening, struct an_even *out)
{
    size_t steps = evening->columns;
    double *even = malloc(3 * steps * sizeof *even), *ideal = even + steps, *gain = ideal + steps;
    if (!even)
        return TACHO_ENOMEM;
    out->recorded_ms = an_num(replay(evening, AS_RECORDED, AN_NONE, evening->recorded));
    out->stages_even_ms = an_num(replay(evening, STAGES_EVEN, AN_NONE, even));
    out->ideal_ms = an_num(replay(evening, ALL_EVEN, AN_NONE, ideal));
    out->stages = gain_of(evening->recorded, even, steps, gain);
    out->batches = gain_of(even, ideal, steps, gain);
    free(even);
    return 0;
}

static int fill(struct evening *evening, struct an_even *out)
{
    int rc = find_usual(evening);
    *out = (struct an_even){0};
    if (rc)
        return rc;
    if ((rc = find_gains(evening, out)))
        return rc;
    if (isnan(out->ideal_ms.value)) {
        an_ranks_no_even(out, "the order of transfers contradicts that of the ranks");
        return 0;
    }
    out->steps = (int64_t)evening->columns;
    find_slow_stage(evening, out);
    find_slow_replica(evening, out);
    rc = number_stage(evening, out);
    rc = rc ? rc : find_stage_share(evening, out);
    return rc ? rc : find_correlation(evening, out);
}

void an_ranks_no_even(struct an_even *out, const char *reason)
{
    struct an_value none = an_num_none(reason);
    *out = (struct an_even){.reason = reason,
                            .recorded_ms = none,
                            .ideal_ms = none,
                            .stages_even_ms = none,
                            .stage_excess_pct = none,
                            .stage_share_pct = none,
                            .slow_stage = {none, none, none},
                            .stages = {none, none, none},
                            .batches = {none, none, none},
                            .batch_correlation = none,
                            .rank_pct = none};
}

/* Memory for what is known before the steps are read. */
static int open_evening(struct evening *evening, const struct an_comm_calls *calls)
{
    struct an_context *context = evening->context;
    struct an_arena *scratch = context->scratch;
    evening->group =
        an_arena_zero(scratch, context->trace->slice.count + 1, sizeof *evening->group);
    evening->transfer = an_arena_zero(scratch, calls->count + 1, sizeof *evening->transfer);
    evening->met = an_arena_zero(scratch, calls->count + 1, sizeof *evening->met);
    evening->send = an_arena_zero(scratch, calls->count + 1, sizeof *evening->send);
    evening->name_of =
        an_arena_zero(scratch, context->trace->string_count + 1, sizeof *evening->name_of);
    evening->turn = an_arena_zero(scratch, context->trace->string_count + 1, sizeof *evening->turn);
    evening->first = an_arena_zero(scratch, context->step_count + 1, sizeof *evening->first);
    evening->ready = an_arena_zero(scratch, evening->lanes, sizeof *evening->ready);
    evening->head = an_arena_zero(scratch, evening->lanes, sizeof *evening->head);
    evening->stack = an_arena_zero(scratch, 2 * evening->lanes, sizeof *evening->stack);
    return evening->group && evening->transfer && evening->met && evening->send &&
                   evening->name_of && evening->turn && evening->first && evening->ready &&
                   evening->head && evening->stack
               ? 0
               : TACHO_ENOMEM;
}

/* The sums of names and stages, once their number is known. */
static int open_sums(struct evening *evening)
{
    struct an_arena *scratch = evening->context->scratch;
    size_t cells = evening->lanes * evening->names + 1;
    evening->usual = an_arena_zero(scratch, evening->names + 1, sizeof *evening->usual);
    evening->stage_sum = an_arena_zero(scratch, cells, sizeof *evening->stage_sum);
    evening->stage_count = an_arena_zero(scratch, cells, sizeof *evening->stage_count);
    evening->stage_usual = an_arena_zero(scratch, cells, sizeof *evening->stage_usual);
    evening->recorded = an_arena_zero(scratch, evening->columns, sizeof *evening->recorded);
    return evening->usual && evening->stage_sum && evening->stage_count && evening->stage_usual &&
                   evening->recorded
               ? 0
               : TACHO_ENOMEM;
}

/* Are all lanes threads of the CPU whose ranges are known? */
static bool are_threads(const struct an_context *context)
{
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].device != AN_NONE || context->lane[i].track == AN_NONE)
            return false;
    return true;
}

int an_ranks_even(struct an_context *context, const struct an_comm_calls *calls)
{
    struct an_even *out = &context->result->ranks.even;
    struct evening evening = {.context = context, .lanes = context->lane_count};
    const char *why = context->result->ranks.pipeline.reason;
    int rc = 0;
    if (!why && !are_threads(context))
        why = "operations of devices are not replayed one by one here";
    if (!why && !(rc = open_evening(&evening, calls))) {
        rc = an_even_read(&evening, calls);
        if (!rc && evening.columns < STEPS_LEAST)
            why = "fewer than 5 steps have all their parts on every rank";
        else if (!rc && !(rc = open_sums(&evening)))
            rc = fill(&evening, out);
    }
    if (why)
        an_ranks_no_even(out, why);
    free(evening.op);
    free(evening.slot);
    free(evening.message);
    return rc;
}
