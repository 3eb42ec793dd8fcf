/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline whose ranks and micro-batches were even: what a step would take if every operation
 * took the mean of its name over all ranks and steps (transfers: the median), and if only the
 * stages were even. The operations of a step are replayed: each rank keeps its order, and a
 * transfer starts once all of its ranks are there. The method of "Understanding Stragglers in
 * Large Model Training Using What-if Analysis" (Lin et al. 2025). Time between operations does not
 * count. Transfers of one rank inside each other were posted together and are one call.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define STEPS_LEAST 5
#define ALPHA       0.05
/* Operations times ranks, up to which each rank is replayed alone. */
#define WORK_MOST 1e9

struct op {
    uint32_t name;
    bool transfer;
    double ns;
};

/* What a rank does at one time: an operation, or transfers that were posted together. Slots that
 * meet start together; `meet` leads to the first of them, which has the count. */
struct slot {
    uint32_t lane, meet, next; /* next: of the same meeting, AN_NONE: the last */
    uint32_t first_op, ops;
    uint32_t members, arrived; /* of the first one */
    double start;
};

/* ONE_REPLICA: only a replica of the pipeline as recorded, the others as usual; ONE_STAGE: only a
 * stage as usual. */
enum variant { AS_RECORDED, ALL_EVEN, STAGES_EVEN, ONE_REPLICA, ONE_STAGE };

struct evening {
    struct an_context *context;
    size_t lanes, columns;
    uint32_t *group;  /* of every slice: the collective it is a call of, + 1 */
    double *transfer; /* of every collective, ns */
    uint32_t *met;    /* of every collective: a slot that meets in it, + 1 */
    size_t group_count;
    struct op *op;
    size_t op_count, op_room;
    struct slot *slot;
    size_t slot_count, slot_room;
    size_t *first;     /* slot: [column * lanes + lane], and the end */
    uint32_t *name_of; /* of every string: index of the name + 1 */
    size_t names;
    double *usual;                                 /* of every name, ns */
    double *stage_sum, *stage_count, *stage_usual; /* [first lane of the stage * names + name] */
    double *ready;                                 /* of every lane, while a step is replayed */
    size_t *head;                                  /* the same: its next slot */
    uint32_t *stack;                               /* lanes that go on */
};

/* ---- reading the steps -------------------------------------------------------------------------------------------------- */

/* Numbers the matched collectives, and keeps what each transfers. */
static void number_groups(struct evening *evening, const struct an_comm_calls *calls)
{
    for (size_t i = 0, next; i < calls->count; i = next) {
        next = an_comm_next(calls, i);
        if (calls->call[i].transfer < 0 || calls->call[i].op != AN_NONE)
            continue;
        evening->transfer[evening->group_count++] = (double)calls->call[i].transfer;
        for (size_t k = i; k < next; k++)
            evening->group[calls->call[k].slice] = (uint32_t)evening->group_count;
    }
}

static uint32_t meeting_of(struct evening *evening, uint32_t slot)
{
    while (evening->slot[slot].meet != slot)
        slot = evening->slot[slot].meet = evening->slot[evening->slot[slot].meet].meet;
    return slot;
}

/* The slot meets those that were seen in the collective before. */
static void join(struct evening *evening, uint32_t slot, uint32_t group)
{
    uint32_t first = meeting_of(evening, slot), second = first;
    if (evening->met[group])
        second = meeting_of(evening, evening->met[group] - 1);
    evening->slot[first > second ? first : second].meet = first < second ? first : second;
    evening->met[group] = slot + 1;
}

/* Adds an operation; `posted`: together with the one before. */
static int add_op(struct evening *evening, uint32_t lane, size_t slice, bool posted)
{
    const struct an_trace *trace = evening->context->trace;
    uint32_t name = trace->slice.name[slice], group = evening->group[slice];
    if (an_grow(&evening->op, &evening->op_room, evening->op_count + 1, sizeof *evening->op) ||
        an_grow(&evening->slot, &evening->slot_room, evening->slot_count + 1,
                sizeof *evening->slot))
        return TACHO_ENOMEM;
    if (name >= trace->string_count)
        return 0;
    if (!evening->name_of[name])
        evening->name_of[name] = (uint32_t)++evening->names;
    if (!posted) {
        evening->slot[evening->slot_count] = (struct slot){.lane = lane,
                                                           .meet = (uint32_t)evening->slot_count,
                                                           .next = AN_NONE,
                                                           .first_op = (uint32_t)evening->op_count};
        evening->slot_count++;
    }
    uint32_t slot = (uint32_t)evening->slot_count - 1;
    evening->slot[slot].ops++;
    evening->op[evening->op_count++] =
        (struct op){.name = evening->name_of[name] - 1,
                    .ns = group ? evening->transfer[group - 1] : (double)trace->slice.dur[slice],
                    .transfer = group != 0};
    if (group)
        join(evening, slot, group - 1);
    return 0;
}

/* The operations of a step on its lane's thread: its ranges, and matched transfers inside of a
 * transfer. */
static int read_step(struct evening *evening, uint32_t lane, const struct an_step *step)
{
    const struct an_trace *trace = evening->context->trace;
    const struct an_track *track = &trace->track[evening->context->lane[lane].track];
    int rc = 0;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end && !rc; i++) {
        uint32_t parent = trace->slice.parent[i];
        bool inside = parent != AN_NONE && evening->group[parent] && evening->group[i];
        if (i != step->slice && trace->slice.dur[i] != AN_OPEN && (parent == step->slice || inside))
            rc = add_op(evening, lane, i, inside);
    }
    return rc;
}

/* The step of a lane with the index; NULL: it has none with all its parts. */
static const struct an_step *step_of(const struct an_context *context, uint32_t lane, int64_t index)
{
    const struct an_lane *on_lane = &context->lane[lane];
    size_t low = on_lane->first, high = on_lane->first + on_lane->count;
    AN_BISECT(low, high, context->step[middle].index < index);
    const struct an_step *step = &context->step[low];
    bool found = low < on_lane->first + on_lane->count && step->index == index;
    return found && an_step_detailed(step) && step->slice != AN_NONE ? step : NULL;
}

/* Reads the steps that all lanes have, lane by lane. */
static int read_steps(struct evening *evening)
{
    struct an_context *context = evening->context;
    const struct an_lane *reference = &context->lane[0];
    int rc = 0;
    for (size_t i = reference->first; i < reference->first + reference->count && !rc; i++) {
        bool everywhere = true;
        for (uint32_t lane = 0; lane < evening->lanes && everywhere; lane++)
            everywhere = step_of(context, lane, context->step[i].index) != NULL;
        for (uint32_t lane = 0; lane < evening->lanes && everywhere && !rc; lane++) {
            evening->first[evening->columns * evening->lanes + lane] = evening->slot_count;
            rc = read_step(evening, lane, step_of(context, lane, context->step[i].index));
        }
        evening->columns += everywhere;
    }
    evening->first[evening->columns * evening->lanes] = evening->slot_count;
    for (uint32_t i = (uint32_t)evening->slot_count; i-- > 0 && !rc;) {
        struct slot *first = &evening->slot[meeting_of(evening, i)];
        first->members++;
        if (first != &evening->slot[i]) {
            evening->slot[i].next = first->next;
            first->next = i;
        }
    }
    return rc;
}

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

/* The next slot of the lane arrives where its meeting is. When all are there they pass, and their
 * lanes go on: *stack gets them. Returns its new height. */
static size_t arrive(struct evening *evening, uint32_t lane, enum variant variant, uint32_t only,
                     uint32_t *stack, size_t height)
{
    uint32_t first = meeting_of(evening, (uint32_t)evening->head[lane]);
    struct slot *meeting = &evening->slot[first];
    meeting->start = fmax(meeting->arrived ? meeting->start : 0, evening->ready[lane]);
    if (++meeting->arrived < meeting->members)
        return height;
    for (uint32_t i = first; i != AN_NONE; i = evening->slot[i].next) {
        const struct slot *slot = &evening->slot[i];
        evening->ready[slot->lane] = meeting->start + slot_ns(evening, slot, variant, only);
        evening->head[slot->lane]++;
        stack[height++] = slot->lane;
    }
    meeting->arrived = 0;
    return height;
}

/* Replays a column. NAN: its meetings contradict the order of the ranks. */
static double replay_step(struct evening *evening, size_t column, enum variant variant,
                          uint32_t only)
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
        if (evening->head[lane] < first[lane + 1])
            height = arrive(evening, lane, variant, only, evening->stack, height);
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
        double ns = replay_step(evening, column, variant, only);
        sum += ns;
        if (steps)
            steps[column] = ns;
    }
    return sum / (double)evening->columns / 1e6;
}

/* ---- the result --------------------------------------------------------------------------------------------------------- */

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
            out->stage = stages;
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

/* Which part of what is lost goes when the slow stage alone takes the usual times. */
static void find_stage_share(struct evening *evening, struct an_even *out)
{
    double lost = out->recorded_ms.value - out->ideal_ms.value,
           without = replay(evening, ONE_STAGE, out->stage_lane, NULL);
    out->stage_share_pct = an_num_if(lost > 0, 100 * (out->recorded_ms.value - without) / lost,
                                     "nothing is lost to uneven work");
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

/* What even stages would bring, and what even micro-batches would bring on top. */
static int find_gains(struct evening *evening, struct an_even *out)
{
    size_t steps = evening->columns;
    double *recorded = malloc(4 * steps * sizeof *recorded), *even = recorded + steps,
           *ideal = even + steps, *gain = ideal + steps;
    if (!recorded)
        return TACHO_ENOMEM;
    out->recorded_ms = an_num(replay(evening, AS_RECORDED, AN_NONE, recorded));
    out->stages_even_ms = an_num(replay(evening, STAGES_EVEN, AN_NONE, even));
    out->ideal_ms = an_num(replay(evening, ALL_EVEN, AN_NONE, ideal));
    out->stages = gain_of(recorded, even, steps, gain);
    out->batches = gain_of(even, ideal, steps, gain);
    free(recorded);
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
    find_stage_share(evening, out);
    find_slow_replica(evening, out);
    return 0;
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
                            .stages = {none, none, none},
                            .batches = {none, none, none},
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
    evening->name_of =
        an_arena_zero(scratch, context->trace->string_count + 1, sizeof *evening->name_of);
    evening->first = an_arena_zero(scratch, context->step_count + 1, sizeof *evening->first);
    evening->ready = an_arena_zero(scratch, evening->lanes, sizeof *evening->ready);
    evening->head = an_arena_zero(scratch, evening->lanes, sizeof *evening->head);
    evening->stack = an_arena_zero(scratch, 2 * evening->lanes, sizeof *evening->stack);
    return evening->group && evening->transfer && evening->met && evening->name_of &&
                   evening->first && evening->ready && evening->head && evening->stack
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
    return evening->usual && evening->stage_sum && evening->stage_count && evening->stage_usual
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
        number_groups(&evening, calls);
        rc = read_steps(&evening);
        if (!rc && evening.columns < STEPS_LEAST)
            why = "fewer than 5 steps have all their parts on every rank";
        else if (!rc && !(rc = open_sums(&evening)))
            rc = fill(&evening, out);
    }
    if (why)
        an_ranks_no_even(out, why);
    free(evening.op);
    free(evening.slot);
    return rc;
}
