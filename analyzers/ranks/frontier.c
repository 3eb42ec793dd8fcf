/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a step and their frontier (docs/definitions.md). On a thread a stage is the
 * outermost range that says what it is; time between two ranges of one stage belongs to it, time
 * between two stages to the host. On a device a compute op belongs to the optimizer if a range of
 * the optimizer launched it, to backward if a thread other than that of the step launched it
 * (autograd runs backward there), else to forward. Time of a stage that comes again (micro-steps)
 * adds up.
 *
 * The frontier of stage s is the longest cumulative time of any rank at the end of s. Its
 * increments sum to the slowest rank's step exactly, because they are integers.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define SEED 0x66726f6e74696572u

const char *an_stage_key(enum an_step_stage stage)
{
    static const char *const keys[] = {
#define STAGE_KEY(name, key) key,
        AN_STAGE_MAP(STAGE_KEY)
#undef STAGE_KEY
    };
    return stage < AN_STAGE_COUNT ? keys[stage] : "";
}

bool an_stage_named(const char *key, enum an_step_stage *out)
{
    for (*out = 0; *out < AN_STAGE_COUNT; (*out)++)
        if (!strcmp(key, an_stage_key(*out)))
            return true;
    return false;
}

/* ---- which stage ---------------------------------------------------------------------------------------------------------- */

/* The stage that the first word of a name says; AN_STAGE_COUNT: none. */
static enum an_step_stage stage_of_name(const char *name)
{
    static const struct {
        const char *word;
        enum an_step_stage stage;
    } words[] = {{"forward", AN_STAGE_FORWARD},          {"fwd", AN_STAGE_FORWARD},
                 {"backward", AN_STAGE_BACKWARD},        {"bwd", AN_STAGE_BACKWARD},
                 {"optimizer", AN_STAGE_OPTIMIZER},      {"optim", AN_STAGE_OPTIMIZER},
                 {"optimizer_step", AN_STAGE_OPTIMIZER}, {"forward_step", AN_STAGE_FORWARD},
                 {"backward_step", AN_STAGE_BACKWARD}};
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && !strncasecmp(name, words[i].word, length))
            return words[i].stage;
    return AN_STAGE_COUNT;
}

static enum an_step_stage stage_of_pass(const char *pass)
{
    if (!strcmp(pass, "forward"))
        return AN_STAGE_FORWARD;
    if (!strcmp(pass, "backward") || !strcmp(pass, "recompute"))
        return AN_STAGE_BACKWARD;
    return strcmp(pass, "optimizer") ? AN_STAGE_COUNT : AN_STAGE_OPTIMIZER;
}

/* The stage that the name of a range says; every name was looked at once. */
static enum an_step_stage stage_by_name(const struct an_stage_map *map, size_t slice)
{
    uint32_t name = map->context->trace->slice.name[slice];
    return name < map->context->trace->string_count ? (enum an_step_stage)map->name[name]
                                                    : AN_STAGE_COUNT;
}

/* The stage that a range says by its role, its pass or its name; AN_STAGE_COUNT: none. */
static enum an_step_stage stage_of(const struct an_stage_map *map, size_t slice)
{
    const struct an_trace *trace = map->context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    if (an_role_is_input(an_slice_role(trace, slice)))
        return AN_STAGE_INPUT;
    switch (an_slice_role(trace, slice)) {
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_STAGE_COMM;
    case AN_ROLE_WORK:
        return detail ? stage_of_pass(detail->pass) : AN_STAGE_COUNT;
    default:
        return stage_by_name(map, slice);
    }
}

/* ---- a step on a thread ------------------------------------------------------------------------------------------------------ */

/* Length of [start, end) without the phases (evaluation, checkpoints) in it. */
static int64_t without_phases(const struct an_lane *lane, int64_t start, int64_t end)
{
    return an_time_sub(an_time_sub(end, start),
                       an_spans_within(lane->cut, lane->cut_count, start, end));
}

static int add_span(struct an_stage_span **spans, size_t *count, size_t *room, int64_t start,
                    int64_t end, enum an_step_stage stage)
{
    if (an_grow(spans, room, *count + 1, sizeof **spans))
        return TACHO_ENOMEM;
    (*spans)[(*count)++] = (struct an_stage_span){start, end, stage};
    return 0;
}

int an_stage_spans(const struct an_stage_map *map, const struct an_step *step,
                   struct an_stage_span **out, size_t *count, size_t *room)
{
    const struct an_trace *trace = map->context->trace;
    const struct an_lane *lane = &map->context->lane[step->lane];
    const struct an_track *track = &trace->track[lane->track];
    int64_t covered = step->start;
    enum an_step_stage before = AN_STAGE_COUNT;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < track->slice_first + track->slice_count && trace->slice.start[i] < step->end; i++) {
        if (i == step->slice || trace->slice.start[i] < covered || trace->slice.dur[i] == AN_OPEN)
            continue;
        enum an_step_stage stage = stage_of(map, i);
        if (stage == AN_STAGE_COUNT)
            continue;
        int64_t end = an_slice_end(trace, i) < step->end ? an_slice_end(trace, i) : step->end;
        int64_t start = stage == before ? covered : trace->slice.start[i];
        if ((start > covered && add_span(out, count, room, covered, start, AN_STAGE_HOST)) ||
            add_span(out, count, room, start, end, stage))
            return TACHO_ENOMEM;
        covered = end;
        before = stage;
    }
    return add_span(out, count, room, covered, step->end, AN_STAGE_OTHER);
}

/* Adds the stages of a step on a thread. */
static void add_thread_stages(const struct an_lane *lane, const struct an_stage_span *span,
                              size_t span_count, int64_t ns[AN_STAGE_COUNT])
{
    for (size_t i = 0; i < span_count; i++)
        ns[span[i].stage] += without_phases(lane, span[i].start, span[i].end);
}

/* ---- a step on a device ------------------------------------------------------------------------------------------------------ */

/* Is a range on this thread? */
static bool on_track(const struct an_trace *trace, uint32_t track, size_t slice)
{
    const struct an_track *thread = &trace->track[track];
    return slice >= thread->slice_first && slice - thread->slice_first < thread->slice_count;
}

enum an_step_stage an_stage_of_op(const struct an_stage_map *map, const struct an_lane *lane,
                                  size_t op)
{
    const struct an_trace *trace = map->context->trace;
    uint32_t launch = map->context->gpu->op.launch[op];
    int levels = AN_DEPTH_MAX;
    if (launch == AN_NONE)
        return AN_STAGE_COMPUTE;
    for (uint32_t range = launch; range != AN_NONE && levels--; range = trace->slice.parent[range])
        if (stage_by_name(map, range) != AN_STAGE_COUNT && an_slice_open_at(trace, range, launch))
            return stage_by_name(map, range);
    if (lane->track == AN_NONE)
        return AN_STAGE_COMPUTE;
    return on_track(trace, lane->track, launch) ? AN_STAGE_FORWARD : AN_STAGE_BACKWARD;
}

/* Adds the stages of a step on a device: compute by what launched it, input and communication
 * from the budget, the rest as other. */
static void add_device_stages(const struct an_stage_map *map, const struct an_step *step,
                              int64_t ns[AN_STAGE_COUNT])
{
    const struct an_devices *devices = map->context->gpu;
    const struct an_lane *lane = &map->context->lane[step->lane];
    const struct an_device *device = &devices->device[lane->device];
    int64_t covered = step->start, rest = an_step_ns(step);
    for (size_t i = an_device_op_seek(devices, device, step->start);
         i < device->first + device->count && devices->op.start[i] < step->end; i++) {
        int64_t from = devices->op.start[i] > covered ? devices->op.start[i] : covered;
        int64_t end = devices->op.end[i] < step->end ? devices->op.end[i] : step->end;
        if (!(1u << devices->op.class[i] & AN_DEVICE_COMPUTE_MASK) || end <= from)
            continue;
        ns[an_stage_of_op(map, lane, i)] += without_phases(lane, from, end);
        covered = end;
    }
    ns[AN_STAGE_INPUT] += step->class_ns[AN_CLASS_INPUT];
    ns[AN_STAGE_COMM] += step->class_ns[AN_CLASS_COMM];
    if (!ns[AN_STAGE_BACKWARD]) { /* one thread launches everything */
        ns[AN_STAGE_COMPUTE] += ns[AN_STAGE_FORWARD];
        ns[AN_STAGE_FORWARD] = 0;
    }
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        rest -= ns[stage];
    ns[AN_STAGE_OTHER] = rest;
}

int an_stage_map_of(struct an_context *context, struct an_stage_map *out)
{
    *out = (struct an_stage_map){
        .context = context,
        .name = an_arena_zero(context->scratch, context->trace->string_count + 1, 1)};
    for (size_t i = 0; out->name && i < context->trace->string_count; i++)
        out->name[i] = (uint8_t)stage_of_name(context->trace->string[i]);
    return out->name ? 0 : TACHO_ENOMEM;
}

/* Fills the time of every stage in every cell of the matrix. */
static int fill_stages(struct an_context *context, struct an_rank_matrix *matrix)
{
    struct an_stage_map map;
    struct an_stage_span *span = NULL;
    size_t room = 0;
    int rc = an_stage_map_of(context, &map);
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        if (!(matrix->stage[stage] = an_arena_zero(
                  context->scratch, matrix->ranks * matrix->steps + 1, sizeof **matrix->stage)))
            return TACHO_ENOMEM;
    for (size_t cell = 0; cell < matrix->ranks * matrix->steps && !rc; cell++) {
        const struct an_step *step = &context->step[matrix->step[cell]];
        const struct an_lane *lane = &context->lane[step->lane];
        int64_t ns[AN_STAGE_COUNT] = {0};
        size_t span_count = 0;
        if (lane->device != AN_NONE)
            add_device_stages(&map, step, ns);
        else if (!(rc = an_stage_spans(&map, step, &span, &span_count, &room)))
            add_thread_stages(lane, span, span_count, ns);
        for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
            matrix->stage[stage][cell] = (double)ns[stage];
    }
    free(span);
    return rc;
}

/* ---- the frontier -------------------------------------------------------------------------------------------------------------- */

struct sums {
    int64_t increment[AN_STAGE_COUNT];
    double frontier[AN_STAGE_COUNT], behind[AN_STAGE_COUNT];
    size_t *lead[AN_STAGE_COUNT]; /* steps in which a row is at the frontier */
    double *scale;                /* ns: median step of each column */
};

/* Adds up the frontier over the steps: at the end of each stage, the longest cumulative time of
 * any rank, its increment, and which rank it is. */
static int sum_frontier(struct an_context *context, const struct an_rank_matrix *matrix,
                        struct sums *sums)
{
    double *total = an_arena_zero(context->scratch, matrix->ranks, sizeof *total),
           *work = an_arena_zero(context->scratch, matrix->ranks, sizeof *work);
    sums->scale = an_arena_zero(context->scratch, matrix->steps, sizeof *sums->scale);
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        if (!(sums->lead[stage] =
                  an_arena_zero(context->scratch, matrix->ranks, sizeof **sums->lead)))
            return TACHO_ENOMEM;
    if (!total || !work || !sums->scale)
        return TACHO_ENOMEM;
    for (size_t step = 0; step < matrix->steps; step++) {
        double before = 0;
        memset(total, 0, matrix->ranks * sizeof *total);
        for (int stage = 0; stage < AN_STAGE_COUNT; stage++) {
            size_t first = 0;
            for (size_t rank = 0; rank < matrix->ranks; rank++) {
                total[rank] += matrix->stage[stage][rank * matrix->steps + step];
                first = total[rank] > total[first] ? rank : first;
            }
            memcpy(work, total, matrix->ranks * sizeof *work);
            double middle = an_quantile_of(work, matrix->ranks, 0.5);
            sums->increment[stage] += (int64_t)(total[first] - before);
            sums->frontier[stage] += total[first];
            sums->behind[stage] += total[first] - middle;
            sums->lead[stage][first]++;
            before = total[first];
            sums->scale[step] = middle;
        }
    }
    return 0;
}

/* Finds the first stage in which some rank takes longer than its peers. Communication is not looked
 * at: that is where the others wait. */
static int name_delay(struct an_context *context, const struct an_rank_matrix *matrix,
                      const struct sums *sums, struct an_frontier *frontier)
{
    size_t rows = 0, cells = matrix->ranks * matrix->steps;
    double *excess_pct = malloc(AN_STAGE_COUNT * cells * sizeof *excess_pct);
    struct an_excess *excess = malloc(AN_STAGE_COUNT * matrix->ranks * sizeof *excess);
    enum an_step_stage stage_of_rows[AN_STAGE_COUNT];
    int rc = excess_pct && excess ? 0 : TACHO_ENOMEM;
    frontier->stage = AN_STAGE_COUNT;
    for (int stage = 0; stage < AN_STAGE_COUNT && !rc; stage++)
        if (stage != AN_STAGE_COMM) {
            rc = an_excess_of_peers(matrix->stage[stage], matrix->ranks, matrix->steps, sums->scale,
                                    excess_pct + rows * matrix->steps);
            stage_of_rows[rows / matrix->ranks] = (enum an_step_stage)stage;
            rows += matrix->ranks;
        }
    rc = rc ? rc
            : an_excess_test(excess_pct, rows, matrix->steps, AN_RANKS_MARGIN_PCT, SEED, excess);
    const struct an_excess *best = NULL;
    for (size_t i = 0; i < rows && !rc; i++) {
        if (best && stage_of_rows[i / matrix->ranks] != frontier->stage)
            break;
        if (!excess[i].significant || (best && excess[i].estimate <= best->estimate))
            continue;
        best = &excess[i];
        frontier->stage = stage_of_rows[i / matrix->ranks];
        frontier->rank = context->lane[matrix->lane[i % matrix->ranks]].rank;
    }
    const char *none = "no rank takes longer than its peers in any stage";
    frontier->delay_ms = frontier->delay_pct = frontier->delay_low_pct = an_num_none(none);
    if (best) {
        double *work = excess_pct; /* no longer needed */
        memcpy(work, sums->scale, matrix->steps * sizeof *work);
        frontier->delay_pct = an_num(best->estimate);
        frontier->delay_low_pct = an_num(best->low);
        frontier->delay_ms =
            an_num(best->estimate / 100 * an_quantile_of(work, matrix->steps, 0.5) / 1e6);
    }
    free(excess_pct);
    free(excess);
    return rc;
}

int an_ranks_frontier(struct an_context *context, struct an_rank_matrix *matrix)
{
    struct an_frontier *frontier = &context->result->ranks.frontier;
    struct sums sums = {.scale = NULL};
    struct an_frontier_row *row = an_arena_zero(context->arena, AN_STAGE_COUNT, sizeof *row);
    int rc = row ? fill_stages(context, matrix) : TACHO_ENOMEM;
    rc = rc ? rc : sum_frontier(context, matrix, &sums);
    if (rc)
        return rc;
    frontier->row = row;
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++) {
        size_t lead = 0;
        double steps = (double)matrix->steps;
        bool is_used = stage == AN_STAGE_OTHER;
        frontier->increment_ns[stage] = sums.increment[stage];
        frontier->slowest_ns += sums.increment[stage];
        for (size_t rank = 0; rank < matrix->ranks; rank++)
            lead = sums.lead[stage][rank] > sums.lead[stage][lead] ? rank : lead;
        for (size_t i = 0; i < matrix->ranks * matrix->steps && !is_used; i++)
            is_used = matrix->stage[stage][i] > 0;
        if (is_used)
            row[frontier->row_count++] = (struct an_frontier_row){
                .stage = (enum an_step_stage)stage,
                .frontier_ms = sums.frontier[stage] / steps / 1e6,
                .increment_ms = (double)sums.increment[stage] / steps / 1e6,
                .behind_ms = sums.behind[stage] / steps / 1e6,
                .rank = context->lane[matrix->lane[lead]].rank,
                .lead_pct = 100 * (double)sums.lead[stage][lead] / steps};
    }
    bool stages = context->exchanges && context->exchanges->peers;
    if (matrix->steps >= AN_RANKS_STEPS_LEAST && !stages)
        return name_delay(context, matrix, &sums, frontier);
    const char *few =
        stages ? "the ranks form a pipeline: its stages differ by design"
               : an_arena_format(context->arena, "only %zu compared steps: at least %d are needed",
                                 matrix->steps, AN_RANKS_STEPS_LEAST);
    frontier->stage = AN_STAGE_COUNT;
    frontier->delay_ms = frontier->delay_pct = frontier->delay_low_pct = an_num_none(few);
    return 0;
}
