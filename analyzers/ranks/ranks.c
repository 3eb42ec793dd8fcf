/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks side by side (docs/ranks.md): which steps all of them have, how long each rank works
 * itself in them, which rank is slower than its peers, and whether it only gets more data.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define SEED      0x72616e6b73u
#define UNEVEN    1.02 /* max / mean of what ranks get */
#define ROUNDS    1000
#define OWN_SPLIT "step - exposed waiting for other ranks"
#define OWN_REST  "step - all exposed communication: its waiting part is unknown"

/* ---- the steps side by side ------------------------------------------------------------------------------------------------- */

struct place {
    int64_t index;
    uint32_t row;
    size_t step;
};

static int place_order(const void *left, const void *right)
{
    const struct place *first = left, *second = right;
    if (first->index != second->index)
        return first->index < second->index ? -1 : 1;
    if (first->row != second->row)
        return first->row < second->row ? -1 : 1;
    return (first->step > second->step) - (first->step < second->step);
}

/* The detailed steps of a lane. Lanes with few of them would leave nothing to compare. */
static size_t usable(const struct an_context *context, size_t lane)
{
    size_t count = 0;
    for (size_t i = context->lane[lane].first;
         i < context->lane[lane].first + context->lane[lane].count; i++)
        count += an_step_detailed(&context->step[i]);
    return count;
}

/* Chooses the lanes with at least half as many usable steps as the median lane, in order of rank.
 * */
static int choose_lanes(struct an_context *context, struct an_rank_matrix *matrix)
{
    double *count = an_arena_zero(context->scratch, 2 * context->lane_count + 1, sizeof *count);
    matrix->lane = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *matrix->lane);
    if (!count || !matrix->lane)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < context->lane_count; k++)
        count[k] = count[context->lane_count + k] = (double)usable(context, k);
    double middle = an_quantile_of(count + context->lane_count, context->lane_count, 0.5);
    for (uint32_t k = 0; k < context->lane_count; k++)
        if (count[k] > 0 && 2 * count[k] >= middle)
            matrix->lane[matrix->ranks++] = k;
    for (size_t i = 1; i < matrix->ranks; i++) /* few are out of order: lanes come by process */
        for (size_t k = i;
             k && context->lane[matrix->lane[k]].rank < context->lane[matrix->lane[k - 1]].rank;
             k--) {
            uint32_t lane = matrix->lane[k];
            matrix->lane[k] = matrix->lane[k - 1];
            matrix->lane[k - 1] = lane;
        }
    return 0;
}

/* Is the waiting of the step known in all rows of a column? */
static bool is_split(const struct an_context *context, const struct place *place, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (context->step[place[i].step].waiting_ns == STORE_ABSENT)
            return false;
    return true;
}

/* Fills the columns: the steps that every row has once, from the sorted places. `split`: only those
 * whose waiting is known; `every`: only every n-th of them. Returns how many there are. */
static size_t fill_columns(const struct an_context *context, struct an_rank_matrix *matrix,
                           const struct place *place, size_t place_count, bool split, size_t every)
{
    size_t found = 0, kept = 0;
    for (size_t i = 0, next; i < place_count; i = next) {
        bool once = true;
        for (next = i + 1; next < place_count && place[next].index == place[i].index; next++)
            once = once && place[next].row != place[next - 1].row;
        if (!once || next - i != matrix->ranks ||
            (split && !is_split(context, &place[i], next - i)) || found++ % every)
            continue;
        for (size_t row = 0; matrix->step && row < matrix->ranks; row++)
            matrix->step[row * matrix->steps + kept] = place[i + row].step;
        kept++;
    }
    return kept;
}

/* What a rank does itself in a step: the step without its exposed waiting; where waiting is not
 * known, without all exposed communication. */
static double own_ns(const struct an_rank_matrix *matrix, const struct an_step *step)
{
    int64_t others = matrix->split ? step->waiting_ns : step->class_ns[AN_CLASS_COMM];
    int64_t own = an_time_sub(an_step_ns(step), others);
    return own > 0 ? (double)own : 0;
}

/* Lays the steps of all ranks side by side: one row a rank, one column for each step that all of
 * them have. Where there are too many cells, only every n-th step is looked at. */
static int build_matrix(struct an_context *context, struct an_rank_matrix *matrix)
{
    size_t place_count = 0, every = 1;
    int rc = choose_lanes(context, matrix);
    struct place *place = rc ? NULL : malloc((context->step_count + 1) * sizeof *place);
    if (!place)
        return TACHO_ENOMEM;
    for (uint32_t row = 0; row < matrix->ranks; row++)
        for (size_t i = context->lane[matrix->lane[row]].first;
             i < context->lane[matrix->lane[row]].first + context->lane[matrix->lane[row]].count;
             i++)
            if (an_step_detailed(&context->step[i]))
                place[place_count++] = (struct place){context->step[i].index, row, i};
    if (place_count)
        qsort(place, place_count, sizeof *place, place_order);
    size_t all = fill_columns(context, matrix, place, place_count, false, 1),
           split = fill_columns(context, matrix, place, place_count, true, 1);
    matrix->split = split && 2 * split >= all;
    matrix->steps = matrix->split ? split : all;
    while (matrix->ranks * (matrix->steps / every) > AN_RANKS_CELLS_MOST)
        every++;
    matrix->steps = fill_columns(context, matrix, place, place_count, matrix->split, every);
    matrix->step =
        an_arena_zero(context->scratch, matrix->ranks * matrix->steps + 1, sizeof *matrix->step);
    matrix->own =
        an_arena_zero(context->scratch, matrix->ranks * matrix->steps + 1, sizeof *matrix->own);
    if (matrix->step && matrix->own)
        fill_columns(context, matrix, place, place_count, matrix->split, every);
    for (size_t i = 0; matrix->step && matrix->own && i < matrix->ranks * matrix->steps; i++)
        matrix->own[i] = own_ns(matrix, &context->step[matrix->step[i]]) / 1e6;
    free(place);
    return matrix->step && matrix->own ? 0 : TACHO_ENOMEM;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

/* Mean of nanoseconds over steps, in ms. */
static struct an_value mean_ms(double ns, size_t steps)
{
    return an_num(ns / (double)steps / 1e6);
}

static struct an_value per_step(int64_t sum, bool known, size_t steps, const char *what,
                                struct an_context *context)
{
    return known ? an_num((double)sum / (double)steps)
                 : an_num_none(an_arena_format(context->arena,
                                               "the steps do not say how many %s they hold", what));
}

/* Does a rank drive more devices than that of a row? Rows of one rank are neighbours. */
static bool shares_rank(const struct an_context *context, const struct an_rank_matrix *matrix,
                        size_t row)
{
    const struct an_lane *lane = &context->lane[matrix->lane[row]];
    bool before = row && context->lane[matrix->lane[row - 1]].rank == lane->rank,
         after = row + 1 < matrix->ranks && context->lane[matrix->lane[row + 1]].rank == lane->rank;
    return lane->device != AN_NONE && (before || after);
}

/* Fills the row of one rank: the means of its compared steps. */
static void fill_row(struct an_context *context, const struct an_rank_matrix *matrix, size_t row,
                     struct an_rank_row *out)
{
    const struct an_lane *lane = &context->lane[matrix->lane[row]];
    double step = 0, own = 0, waiting = 0, transfer = 0, input = 0, compute = 0,
           stage[AN_STAGE_COUNT] = {0};
    int64_t tokens = 0, samples = 0;
    bool has_tokens = true, has_samples = true;
    for (size_t i = row * matrix->steps; i < (row + 1) * matrix->steps; i++) {
        const struct an_step *in = &context->step[matrix->step[i]];
        step += (double)an_step_ns(in);
        own += matrix->own[i] * 1e6;
        waiting += matrix->split ? (double)in->waiting_ns : 0;
        transfer += matrix->split ? (double)in->transfer_ns : 0;
        input += (double)in->class_ns[AN_CLASS_INPUT];
        compute += (double)in->class_ns[AN_CLASS_COMPUTE];
        has_tokens = has_tokens && in->tokens != STORE_ABSENT;
        has_samples = has_samples && in->samples != STORE_ABSENT;
        tokens = an_time_add(tokens, in->tokens != STORE_ABSENT ? in->tokens : 0);
        samples = an_time_add(samples, in->samples != STORE_ABSENT ? in->samples : 0);
        for (int k = 0; k < AN_STAGE_COUNT; k++)
            stage[k] += matrix->stage[k][i];
    }
    const char *no_split = context->result->communication.waiting_ms.reason
                               ? context->result->communication.waiting_ms.reason
                               : "its steps are not all matched";
    double bytes = context->exchanges ? context->exchanges->all_to_all[matrix->lane[row]] : NAN,
           steps = (double)matrix->steps;
    const char *host = lane->process != AN_NONE ? context->trace->process[lane->process].host : "";
    *out = (struct an_rank_row){
        .rank = lane->rank,
        .device =
            shares_rank(context, matrix, row) ? context->gpu->device[lane->device].label : NULL,
        .host = an_arena_text(context->arena, host),
        .steps = (int64_t)matrix->steps,
        .step_ms = mean_ms(step, matrix->steps),
        .own_ms = mean_ms(own, matrix->steps),
        .waiting_ms = an_num_if(matrix->split, waiting / steps / 1e6, no_split),
        .transfer_ms = an_num_if(matrix->split, transfer / steps / 1e6, no_split),
        .input_ms = mean_ms(input, matrix->steps),
        .compute_ms = mean_ms(compute, matrix->steps),
        .tokens_per_step = per_step(tokens, has_tokens, matrix->steps, "tokens", context),
        .samples_per_step = per_step(samples, has_samples, matrix->steps, "samples", context),
        .all_to_all_bytes = an_num_if(!isnan(bytes), bytes, "no all-to-all of known size")};
    for (int k = 0; k < AN_STAGE_COUNT; k++)
        out->stage_ms[k] = mean_ms(stage[k], matrix->steps);
}

/* Fills how uneven the ranks are in tokens, or else in samples, a step. */
static void fill_uneven(struct an_context *context, const struct an_rank_row *rows,
                        size_t row_count)
{
    struct an_uneven *u = &context->result->ranks.uneven;
    bool tokens = true, samples = true;
    for (size_t i = 0; i < row_count; i++) {
        tokens = tokens && rows[i].tokens_per_step.valid;
        samples = samples && rows[i].samples_per_step.valid;
    }
    if (!tokens && !samples) {
        u->reason = "the steps do not say how many tokens or samples they hold";
        u->max_over_mean = u->mean = u->max = u->min = an_num_none(u->reason);
        return;
    }
    double sum = 0, most = -INFINITY, least = INFINITY;
    u->what = tokens ? "tokens" : "samples";
    for (size_t i = 0; i < row_count; i++) {
        double value = tokens ? rows[i].tokens_per_step.value : rows[i].samples_per_step.value;
        sum += value;
        u->rank = value > most ? rows[i].rank : u->rank;
        most = fmax(most, value);
        least = fmin(least, value);
    }
    u->mean = an_num(sum / (double)row_count);
    u->max = an_num(most);
    u->min = an_num(least);
    u->max_over_mean =
        sum > 0 ? an_num(most * (double)row_count / sum) : an_num_none("the steps hold none");
    u->found = u->max_over_mean.valid && u->max_over_mean.value > UNEVEN;
}

/* ---- the straggler ------------------------------------------------------------------------------------------------------------- */

/* Does the rank get so much more data than the median of the others that it explains half of the
 * excess? */
static int is_by_data(struct an_context *context, const struct an_rank_row *row, size_t row_count,
                      size_t which, bool *out)
{
    const char *what = context->result->ranks.uneven.what;
    double *values = malloc(row_count * sizeof *values), own = 0;
    size_t peer_count = 0;
    if (!values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < row_count && what; i++) {
        double value =
            !strcmp(what, "tokens") ? row[i].tokens_per_step.value : row[i].samples_per_step.value;
        if (i == which)
            own = value;
        else
            values[peer_count++] = value;
    }
    double peers = peer_count ? an_quantile_of(values, peer_count, 0.5) : 0;
    *out = peers > 0 && 100 * (own / peers - 1) >= row[which].excess_pct.value / 2;
    free(values);
    return 0;
}

static int int64_order(const void *left, const void *right)
{
    int64_t first = *(const int64_t *)left, second = *(const int64_t *)right;
    return (first > second) - (first < second);
}

static int gain_order(const void *left, const void *right)
{
    double first = *(const double *)left, second = *(const double *)right;
    return (first > second) - (first < second);
}

/* Of each step: what is left of it if the stragglers' own time were no longer than that of the
 * slowest other rank. */
static int estimate_gain(struct an_context *context, const struct an_rank_matrix *matrix,
                         const struct an_excess *excess, struct an_straggler *out)
{
    double *whole = an_arena_zero(context->scratch, 2 * matrix->steps + ROUNDS, sizeof *whole),
           *removed = whole + matrix->steps, *round = removed + matrix->steps;
    double sum[2] = {0};
    uint64_t seed = SEED;
    if (!whole)
        return TACHO_ENOMEM;
    for (size_t s = 0; s < matrix->steps; s++) {
        double all = 0, others = 0, step = 0;
        for (size_t rank = 0; rank < matrix->ranks; rank++) {
            size_t i = rank * matrix->steps + s;
            all = fmax(all, matrix->own[i]);
            others = excess[rank].significant ? others : fmax(others, matrix->own[i]);
            step = fmax(step, (double)an_step_ns(&context->step[matrix->step[i]]) / 1e6);
        }
        whole[s] = step;
        removed[s] = all - others;
        sum[0] += whole[s];
        sum[1] += removed[s];
    }
    size_t block = (size_t)ceil(cbrt((double)matrix->steps));
    for (size_t k = 0; k < ROUNDS; k++) {
        double whole_sum = 0, rank = 0;
        for (size_t drawn = 0; drawn < matrix->steps;) {
            size_t start = (size_t)(((an_random(&seed) >> 32) * (uint64_t)matrix->steps) >> 32);
            for (size_t b = 0; b < block && drawn < matrix->steps; b++, drawn++) {
                whole_sum += whole[(start + b) % matrix->steps];
                rank += removed[(start + b) % matrix->steps];
            }
        }
        round[k] = 100 * (whole_sum / (whole_sum - rank) - 1);
    }
    qsort(round, ROUNDS, sizeof *round, gain_order);
    out->gain_pct = an_num(100 * (sum[0] / (sum[0] - sum[1]) - 1));
    out->gain_low_pct = an_num(an_quantile(round, ROUNDS, 0.025));
    out->gain_high_pct = an_num(an_quantile(round, ROUNDS, 0.975));
    return 0;
}

static void no_straggler(struct an_straggler *straggler, const char *why)
{
    straggler->says = "none";
    straggler->excess_pct = straggler->excess_low_pct = straggler->excess_high_pct =
        straggler->gain_pct = straggler->gain_low_pct = straggler->gain_high_pct = an_num_none(why);
}

/* Do two rows do the same work? In a pipeline only the ranks of one stage do. */
static bool are_peers(const struct an_context *context, const struct an_rank_matrix *matrix,
                      size_t row, size_t other)
{
    const uint32_t *peers = context->exchanges ? context->exchanges->peers : NULL;
    return !peers || peers[matrix->lane[row]] == peers[matrix->lane[other]];
}

/* Excess over the peers; 0 for a rank that has none, whose verdict says so. */
static int excess_of_peers(struct an_context *context, const struct an_rank_matrix *matrix,
                           double *excess, struct an_rank_row *rows)
{
    double *own = malloc(matrix->ranks * matrix->steps * sizeof *own),
           *out = malloc(matrix->ranks * matrix->steps * sizeof *out);
    size_t *member = malloc(matrix->ranks * sizeof *member);
    int rc = own && out && member ? 0 : TACHO_ENOMEM;
    memset(excess, 0, matrix->ranks * matrix->steps * sizeof *excess);
    for (size_t first = 0; first < matrix->ranks && !rc; first++) {
        size_t peer_count = 0;
        bool is_first = true;
        for (size_t row = 0; row < first; row++)
            is_first = is_first && !are_peers(context, matrix, first, row);
        for (size_t row = first; row < matrix->ranks && is_first; row++)
            if (are_peers(context, matrix, first, row)) {
                memcpy(own + peer_count * matrix->steps, matrix->own + row * matrix->steps,
                       matrix->steps * sizeof *own);
                member[peer_count++] = row;
            }
        if (peer_count == 1)
            rows[first].verdict = "no peers: the only rank of its stage";
        if (peer_count < 2)
            continue;
        rc = an_excess_of_peers(own, peer_count, matrix->steps, NULL, out);
        for (size_t i = 0; i < peer_count && !rc; i++)
            memcpy(excess + member[i] * matrix->steps, out + i * matrix->steps,
                   matrix->steps * sizeof *excess);
    }
    free(own);
    free(out);
    free(member);
    return rc;
}

/* Fills the excess of each rank over its peers with its interval, and the verdict. */
static void row_verdicts(struct an_rank_row *rows, size_t row_count, const struct an_excess *excess,
                         const char *few)
{
    for (size_t i = 0; i < row_count; i++) {
        rows[i].excess_pct = an_num(excess[i].estimate);
        const char *why = few ? few : "not above the margin: not examined further";
        rows[i].excess_low_pct =
            few || isnan(excess[i].low) ? an_num_none(why) : an_num(excess[i].low);
        rows[i].excess_high_pct =
            few || isnan(excess[i].high) ? an_num_none(why) : an_num(excess[i].high);
        if (rows[i].verdict) {
            rows[i].excess_pct = rows[i].excess_low_pct = rows[i].excess_high_pct =
                an_num_none(rows[i].verdict);
            continue;
        }
        if (few)
            rows[i].verdict = "not tested";
        else if (!excess[i].significant)
            rows[i].verdict = "none";
        else
            rows[i].verdict = row_count == 2 ? "the slower of two" : "straggler";
    }
}

/* An excess that comes and goes, and is no larger than the drift of the peers' own time, does not
 * count. */
static int drop_unsteady(const struct an_rank_matrix *matrix, const double *excess_pct,
                         struct an_excess *excess)
{
    double *work = malloc(2 * matrix->steps * sizeof *work);
    if (!work)
        return TACHO_ENOMEM;
    for (size_t rank = 0; rank < matrix->ranks; rank++)
        if (excess[rank].significant)
            excess[rank].significant = an_excess_is_steady(
                matrix->own + rank * matrix->steps, excess_pct + rank * matrix->steps,
                matrix->steps, AN_RANKS_MARGIN_PCT, excess[rank].estimate, work);
    free(work);
    return 0;
}

/* Says which rank is the straggler, and how many there are beside it. */
static void name_straggler(struct an_arena *arena, const struct an_rank_row *row, size_t ranks,
                           struct an_straggler *out)
{
    out->rank = row->rank;
    out->excess_pct = row->excess_pct;
    out->excess_low_pct = row->excess_low_pct;
    out->excess_high_pct = row->excess_high_pct;
    if (ranks == 2)
        out->says = an_arena_format(arena, "rank %" PRId64 " (the slower of two)", out->rank);
    else if (out->count == 1)
        out->says = an_arena_format(arena, "rank %" PRId64, out->rank);
    else
        out->says =
            an_arena_format(arena, "rank %" PRId64 " and %zu more", out->rank, out->count - 1);
}

/* Tests which ranks are slower than their peers, and names the slowest of them with the gain of
 * its repair. */
static int find_straggler(struct an_context *context, const struct an_rank_matrix *matrix,
                          struct an_rank_row *rows)
{
    struct an_straggler *out = &context->result->ranks.straggler;
    struct an_excess *excess = malloc(matrix->ranks * sizeof *excess);
    double *excess_pct = malloc(matrix->ranks * matrix->steps * sizeof *excess_pct);
    const struct an_excess_limits limits = {AN_RANKS_MARGIN_PCT, AN_RANKS_MARGIN_PCT};
    const char *few =
        matrix->steps < AN_RANKS_STEPS_LEAST
            ? an_arena_format(context->arena, "only %zu compared steps: at least %d are needed",
                              matrix->steps, AN_RANKS_STEPS_LEAST)
            : NULL;
    int rc =
        excess && excess_pct ? excess_of_peers(context, matrix, excess_pct, rows) : TACHO_ENOMEM;
    rc = rc ? rc : an_excess_test(excess_pct, matrix->ranks, matrix->steps, &limits, SEED, excess);
    rc = rc ? rc : drop_unsteady(matrix, excess_pct, excess);
    if (rc)
        goto out;
    row_verdicts(rows, matrix->ranks, excess, few);
    out->reason = few;
    no_straggler(
        out,
        few ? few
            : "no rank's own time exceeds its peers' by 2 %, steadily or by more than their drift");
    size_t worst = matrix->ranks;
    for (size_t rank = 0; rank < matrix->ranks && !few; rank++)
        if (excess[rank].significant &&
            (!out->count++ || excess[rank].estimate > excess[worst].estimate))
            worst = rank;
    if (out->count) {
        name_straggler(context->arena, &rows[worst], matrix->ranks, out);
        rc = estimate_gain(context, matrix, excess, out);
        rc = rc ? rc : is_by_data(context, rows, matrix->ranks, worst, &out->by_data);
    }
out:
    free(excess);
    free(excess_pct);
    return rc;
}

/* ---- the part --------------------------------------------------------------------------------------------------------------------- */

/* Sets the reason why ranks are not compared in all parts of the result. */
static void not_compared(struct an_context *context, const char *reason)
{
    struct an_ranks *ranks = &context->result->ranks;
    ranks->reason = ranks->straggler.reason = ranks->frontier.reason = ranks->uneven.reason =
        reason;
    no_straggler(&ranks->straggler, reason);
    an_ranks_no_jitter(&ranks->jitter, reason);
    ranks->frontier.stage = AN_STAGE_COUNT;
    ranks->frontier.delay_ms = ranks->frontier.delay_pct = ranks->frontier.delay_low_pct =
        an_num_none(reason);
    ranks->uneven.max_over_mean = ranks->uneven.mean = ranks->uneven.max = ranks->uneven.min =
        an_num_none(reason);
}

/* Notes ranks that are there twice: in copies of one file, or in files of several jobs, which rank
 * waits for which would be nonsense. */
static int report_duplicate_ranks(struct an_context *context)
{
    int64_t *rank = malloc((context->lane_count + 1) * sizeof *rank);
    size_t rank_count = 0;
    if (!rank)
        return TACHO_ENOMEM;
    for (size_t lane = 0; lane < context->lane_count; lane++)
        if (!lane || context->lane[lane].process != context->lane[lane - 1].process)
            rank[rank_count++] = context->lane[lane].rank;
    qsort(rank, rank_count, sizeof *rank, int64_order);
    for (size_t i = 1; i < rank_count; i++)
        if (rank[i] == rank[i - 1] && (i < 2 || rank[i] != rank[i - 2]))
            an_problem(context,
                       "rank %" PRId64 " occurs more than once: copies of one file, or files of "
                       "several jobs in one folder",
                       rank[i]);
    free(rank);
    return 0;
}

/* Are the ranks devices of one process that exchange nothing in its steps? Then none of them waits
 * for another one, whichever is slower. */
static bool are_independent(const struct an_context *context, const struct an_rank_matrix *matrix)
{
    const struct an_communication *communication = &context->result->communication;
    uint32_t process = context->lane[matrix->lane[0]].process;
    bool exchanges = !communication->reason && an_value_or_0(communication->total_ms) > 0;
    for (size_t row = 0; row < matrix->ranks && !exchanges; row++)
        if (process == AN_NONE || context->lane[matrix->lane[row]].process != process ||
            context->lane[matrix->lane[row]].device == AN_NONE)
            return false;
    return !exchanges;
}

/* The analyzer: compares the ranks in the steps that all of them have. */
static int ranks_run(struct an_context *context)
{
    struct an_ranks *ranks = &context->result->ranks;
    struct an_rank_matrix matrix = {0};
    int rc = 0;
    ranks->missing = context->result->communication.missing;
    if (context->lane_count < 2) {
        not_compared(context, "one rank: nothing to compare");
        return 0;
    }
    if ((rc = report_duplicate_ranks(context)) || (rc = build_matrix(context, &matrix)))
        return rc;
    if (matrix.ranks < 2 || !matrix.steps) {
        not_compared(context, "no counted step has all its ranges in the file on every rank");
        return 0;
    }
    if (are_independent(context, &matrix)) {
        not_compared(context, "the devices of the process exchange nothing in its steps: none of "
                              "them waits for another one");
        return 0;
    }
    struct an_rank_row *row = an_arena_zero(context->arena, matrix.ranks, sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    if ((rc = an_ranks_frontier(context, &matrix)))
        return rc;
    for (size_t i = 0; i < matrix.ranks; i++)
        fill_row(context, &matrix, i, &row[i]);
    ranks->steps = (int64_t)matrix.steps;
    ranks->own_is = matrix.split ? OWN_SPLIT : OWN_REST;
    ranks->row = row;
    ranks->row_count = matrix.ranks;
    fill_uneven(context, row, matrix.ranks);
    if ((rc = an_ranks_jitter(context, &matrix)))
        return rc;
    return find_straggler(context, &matrix, row);
}

static void ranks_absent(struct an_context *context, const char *reason)
{
    not_compared(context, reason);
    if (!context->result->ranks.pipeline.bubble_ms.reason &&
        !context->result->ranks.pipeline.bubble_ms.valid) /* communication was not looked at */
        an_ranks_no_exchanges(context, reason);
}

const struct an_analyzer an_ranks_compare = {
    .name = "ranks",
    .help = "ranks compared: straggler, stage frontier, uneven data, pipeline, experts",
    .after = "steps, budget, communication",
    .needs = AN_INPUT_STEPS,
    .run = ranks_run,
    .absent = ranks_absent,
};
