/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks beside each other (docs/ranks.md): the steps that all of them have, what each does itself
 * in them, who is slower than its peers, and whether that is only more data.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_build.h"

#define SEED      0x72616e6b73u
#define UNEVEN    1.02 /* max / mean of what ranks get */
#define ROUNDS    1000
#define OWN_SPLIT "step - exposed waiting for other ranks"
#define OWN_REST  "step - all exposed communication: what of it is waiting is not known"

/* ---- the steps side by side ------------------------------------------------------------------------------------------------- */

struct place {
    int64_t index;
    uint32_t row;
    size_t step;
};

static int place_order(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Lanes with few steps of their own would leave nothing to compare. */
static size_t usable(const struct an_context *c, size_t lane)
{
    size_t n = 0;
    for (size_t i = c->lane[lane].first; i < c->lane[lane].first + c->lane[lane].count; i++)
        n += an_step_detailed(&c->step[i]);
    return n;
}

static int choose_lanes(struct an_context *c, struct an_rank_matrix *m)
{
    double *count = an_arena_zero(c->work, 2 * c->lane_count + 1, sizeof *count);
    m->lane = an_arena_zero(c->work, c->lane_count + 1, sizeof *m->lane);
    if (!count || !m->lane)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < c->lane_count; k++)
        count[k] = count[c->lane_count + k] = (double)usable(c, k);
    double middle = an_quantile_of(count + c->lane_count, c->lane_count, 0.5);
    for (uint32_t k = 0; k < c->lane_count; k++)
        if (count[k] > 0 && 2 * count[k] >= middle)
            m->lane[m->ranks++] = k;
    for (size_t i = 1; i < m->ranks; i++) /* few are out of order: lanes come by process */
        for (size_t k = i; k && c->lane[m->lane[k]].rank < c->lane[m->lane[k - 1]].rank; k--) {
            uint32_t lane = m->lane[k];
            m->lane[k] = m->lane[k - 1];
            m->lane[k - 1] = lane;
        }
    return 0;
}

/* Is the waiting of the step known in all rows of a column? */
static bool is_split(const struct an_context *c, const struct place *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c->step[p[i].step].waiting_ns == STORE_ABSENT)
            return false;
    return true;
}

/* Columns: steps that every row has once. p is sorted. `split`: only those whose waiting is known;
 * `every`: each so manieth. */
static size_t columns(const struct an_context *c, struct an_rank_matrix *m, const struct place *p,
                      size_t n, bool split, size_t every)
{
    size_t found = 0, kept = 0;
    for (size_t i = 0, next; i < n; i = next) {
        bool once = true;
        for (next = i + 1; next < n && p[next].index == p[i].index; next++)
            once = once && p[next].row != p[next - 1].row;
        if (!once || next - i != m->ranks || (split && !is_split(c, &p[i], next - i)) ||
            found++ % every)
            continue;
        for (size_t r = 0; m->step && r < m->ranks; r++)
            m->step[r * m->steps + kept] = p[i + r].step;
        kept++;
    }
    return kept;
}

static double own_ns(const struct an_rank_matrix *m, const struct an_step *s)
{
    int64_t others = m->split ? s->waiting_ns : s->class_ns[AN_CLASS_COMM];
    int64_t own = an_time_sub(an_step_ns(s), others);
    return own > 0 ? (double)own : 0;
}

static int side_by_side(struct an_context *c, struct an_rank_matrix *m)
{
    size_t n = 0, every = 1;
    int rc = choose_lanes(c, m);
    struct place *p = rc ? NULL : malloc((c->step_count + 1) * sizeof *p);
    if (!p)
        return TACHO_ENOMEM;
    for (uint32_t r = 0; r < m->ranks; r++)
        for (size_t i = c->lane[m->lane[r]].first;
             i < c->lane[m->lane[r]].first + c->lane[m->lane[r]].count; i++)
            if (an_step_detailed(&c->step[i]))
                p[n++] = (struct place){c->step[i].index, r, i};
    if (n)
        qsort(p, n, sizeof *p, place_order);
    size_t all = columns(c, m, p, n, false, 1), split = columns(c, m, p, n, true, 1);
    m->split = split && 2 * split >= all;
    m->steps = m->split ? split : all;
    while (m->ranks * (m->steps / every) > AN_RANKS_CELLS_MOST)
        every++;
    m->steps = columns(c, m, p, n, m->split, every);
    m->step = an_arena_zero(c->work, m->ranks * m->steps + 1, sizeof *m->step);
    m->own = an_arena_zero(c->work, m->ranks * m->steps + 1, sizeof *m->own);
    if (m->step && m->own)
        columns(c, m, p, n, m->split, every);
    for (size_t i = 0; m->step && m->own && i < m->ranks * m->steps; i++)
        m->own[i] = own_ns(m, &c->step[m->step[i]]) / 1e6;
    free(p);
    return m->step && m->own ? 0 : TACHO_ENOMEM;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static struct an_value mean_ms(double ns, size_t steps)
{
    return an_num(ns / (double)steps / 1e6);
}

static struct an_value per_step(int64_t sum, bool known, size_t steps, const char *what,
                                struct an_context *c)
{
    return known ? an_num((double)sum / (double)steps)
                 : an_num_none(
                       an_arena_format(c->a, "the steps do not say how many %s they hold", what));
}

static void fill_row(struct an_context *c, const struct an_rank_matrix *m, size_t r,
                     struct an_rank_row *out)
{
    const struct an_lane *l = &c->lane[m->lane[r]];
    double step = 0, own = 0, waiting = 0, transfer = 0, input = 0, compute = 0,
           stage[AN_STAGE_COUNT] = {0};
    int64_t tokens = 0, samples = 0;
    bool has_tokens = true, has_samples = true;
    for (size_t i = r * m->steps; i < (r + 1) * m->steps; i++) {
        const struct an_step *s = &c->step[m->step[i]];
        step += (double)an_step_ns(s);
        own += m->own[i] * 1e6;
        waiting += m->split ? (double)s->waiting_ns : 0;
        transfer += m->split ? (double)s->transfer_ns : 0;
        input += (double)s->class_ns[AN_CLASS_INPUT];
        compute += (double)s->class_ns[AN_CLASS_COMPUTE];
        has_tokens = has_tokens && s->tokens != STORE_ABSENT;
        has_samples = has_samples && s->samples != STORE_ABSENT;
        tokens = an_time_add(tokens, s->tokens != STORE_ABSENT ? s->tokens : 0);
        samples = an_time_add(samples, s->samples != STORE_ABSENT ? s->samples : 0);
        for (int k = 0; k < AN_STAGE_COUNT; k++)
            stage[k] += m->stage[k][i];
    }
    const char *no_split = c->r->communication.waiting_ms.reason
                               ? c->r->communication.waiting_ms.reason
                               : "its steps are not all matched";
    double bytes = c->exchanges ? c->exchanges->all_to_all[m->lane[r]] : NAN;
    *out = (struct an_rank_row){
        .rank = l->rank,
        .host = l->process != AN_NONE ? an_arena_text(c->a, c->t->process[l->process].host) : "",
        .steps = (int64_t)m->steps,
        .step_ms = mean_ms(step, m->steps),
        .own_ms = mean_ms(own, m->steps),
        .waiting_ms = m->split ? mean_ms(waiting, m->steps) : an_num_none(no_split),
        .transfer_ms = m->split ? mean_ms(transfer, m->steps) : an_num_none(no_split),
        .input_ms = mean_ms(input, m->steps),
        .compute_ms = mean_ms(compute, m->steps),
        .tokens_per_step = per_step(tokens, has_tokens, m->steps, "tokens", c),
        .samples_per_step = per_step(samples, has_samples, m->steps, "samples", c),
        .all_to_all_bytes =
            isnan(bytes) ? an_num_none("no all-to-all of known size") : an_num(bytes)};
    for (int k = 0; k < AN_STAGE_COUNT; k++)
        out->stage_ms[k] = mean_ms(stage[k], m->steps);
}

static void uneven(struct an_context *c, const struct an_rank_row *row, size_t n)
{
    struct an_uneven *u = &c->r->ranks.uneven;
    bool tokens = true, samples = true;
    for (size_t i = 0; i < n; i++) {
        tokens = tokens && row[i].tokens_per_step.valid;
        samples = samples && row[i].samples_per_step.valid;
    }
    if (!tokens && !samples) {
        u->reason = "the steps do not say how many tokens or samples they hold";
        u->max_over_mean = u->mean = u->max = u->min = an_num_none(u->reason);
        return;
    }
    double sum = 0, most = -INFINITY, least = INFINITY;
    u->what = tokens ? "tokens" : "samples";
    for (size_t i = 0; i < n; i++) {
        double v = tokens ? row[i].tokens_per_step.value : row[i].samples_per_step.value;
        sum += v;
        u->rank = v > most ? row[i].rank : u->rank;
        most = fmax(most, v);
        least = fmin(least, v);
    }
    u->mean = an_num(sum / (double)n);
    u->max = an_num(most);
    u->min = an_num(least);
    u->max_over_mean = sum > 0 ? an_num(most * (double)n / sum) : an_num_none("they hold none");
    u->found = u->max_over_mean.valid && u->max_over_mean.value > UNEVEN;
}

/* ---- the straggler ------------------------------------------------------------------------------------------------------------- */

/* Does the rank get so much more data than the median of the others that it explains half of the
 * excess? */
static int is_by_data(struct an_context *c, const struct an_rank_row *row, size_t n, size_t which,
                      bool *out)
{
    const char *what = c->r->ranks.uneven.what;
    double *x = malloc(n * sizeof *x), own = 0;
    size_t k = 0;
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n && what; i++) {
        double v =
            !strcmp(what, "tokens") ? row[i].tokens_per_step.value : row[i].samples_per_step.value;
        if (i == which)
            own = v;
        else
            x[k++] = v;
    }
    double peers = k ? an_quantile_of(x, k, 0.5) : 0;
    *out = peers > 0 && 100 * (own / peers - 1) >= row[which].excess_pct.value / 2;
    free(x);
    return 0;
}

static int int64_order(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static int gain_order(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Of each step: what is left of it if the stragglers' own time were no longer than that of the
 * slowest other rank. */
static int gain(struct an_context *c, const struct an_rank_matrix *m, const struct an_excess *e,
                struct an_straggler *out)
{
    double *whole = an_arena_zero(c->work, 2 * m->steps + ROUNDS, sizeof *whole),
           *removed = whole + m->steps, *round = removed + m->steps;
    double sum[2] = {0};
    uint64_t seed = SEED;
    if (!whole)
        return TACHO_ENOMEM;
    for (size_t s = 0; s < m->steps; s++) {
        double all = 0, others = 0, step = 0;
        for (size_t r = 0; r < m->ranks; r++) {
            size_t i = r * m->steps + s;
            all = fmax(all, m->own[i]);
            others = e[r].significant ? others : fmax(others, m->own[i]);
            step = fmax(step, (double)an_step_ns(&c->step[m->step[i]]) / 1e6);
        }
        whole[s] = step;
        removed[s] = all - others;
        sum[0] += whole[s];
        sum[1] += removed[s];
    }
    size_t block = (size_t)ceil(cbrt((double)m->steps));
    for (size_t k = 0; k < ROUNDS; k++) {
        double w = 0, r = 0;
        for (size_t n = 0; n < m->steps;) {
            size_t at = (size_t)(((an_random(&seed) >> 32) * (uint64_t)m->steps) >> 32);
            for (size_t b = 0; b < block && n < m->steps; b++, n++) {
                w += whole[(at + b) % m->steps];
                r += removed[(at + b) % m->steps];
            }
        }
        round[k] = 100 * (w / (w - r) - 1);
    }
    qsort(round, ROUNDS, sizeof *round, gain_order);
    out->gain_pct = an_num(100 * (sum[0] / (sum[0] - sum[1]) - 1));
    out->gain_low_pct = an_num(an_quantile(round, ROUNDS, 0.025));
    out->gain_high_pct = an_num(an_quantile(round, ROUNDS, 0.975));
    return 0;
}

static void none(struct an_straggler *s, const char *why)
{
    s->says = "none";
    s->excess_pct = s->excess_low_pct = s->excess_high_pct = s->gain_pct = s->gain_low_pct =
        s->gain_high_pct = an_num_none(why);
}

static bool are_peers(const struct an_context *c, const struct an_rank_matrix *m, size_t a,
                      size_t b)
{
    const uint32_t *peers = c->exchanges ? c->exchanges->peers : NULL;
    return !peers || peers[m->lane[a]] == peers[m->lane[b]];
}

/* Excess over the peers; 0 for a rank that has none, whose verdict says so. */
static int beside_peers(struct an_context *c, const struct an_rank_matrix *m, double *y,
                        struct an_rank_row *row)
{
    double *x = malloc(m->ranks * m->steps * sizeof *x),
           *out = malloc(m->ranks * m->steps * sizeof *out);
    size_t *member = malloc(m->ranks * sizeof *member);
    int rc = x && out && member ? 0 : TACHO_ENOMEM;
    memset(y, 0, m->ranks * m->steps * sizeof *y);
    for (size_t first = 0; first < m->ranks && !rc; first++) {
        size_t n = 0;
        bool is_first = true;
        for (size_t r = 0; r < first; r++)
            is_first = is_first && !are_peers(c, m, first, r);
        for (size_t r = first; r < m->ranks && is_first; r++)
            if (are_peers(c, m, first, r)) {
                memcpy(x + n * m->steps, m->own + r * m->steps, m->steps * sizeof *x);
                member[n++] = r;
            }
        if (n == 1)
            row[first].verdict = "no peers: the only rank of its stage";
        if (n < 2)
            continue;
        rc = an_excess_of_peers(x, n, m->steps, NULL, out);
        for (size_t i = 0; i < n && !rc; i++)
            memcpy(y + member[i] * m->steps, out + i * m->steps, m->steps * sizeof *y);
    }
    free(x);
    free(out);
    free(member);
    return rc;
}

static void row_verdicts(struct an_rank_row *row, size_t n, const struct an_excess *e,
                         const char *few)
{
    for (size_t i = 0; i < n; i++) {
        row[i].excess_pct = an_num(e[i].estimate);
        const char *why = few ? few : "not above the margin: not looked at any further";
        row[i].excess_low_pct = few || isnan(e[i].low) ? an_num_none(why) : an_num(e[i].low);
        row[i].excess_high_pct = few || isnan(e[i].high) ? an_num_none(why) : an_num(e[i].high);
        if (row[i].verdict) {
            row[i].excess_pct = row[i].excess_low_pct = row[i].excess_high_pct =
                an_num_none(row[i].verdict);
            continue;
        }
        row[i].verdict = few                 ? "not tested"
                         : !e[i].significant ? "none"
                         : n == 2            ? "the slower of two"
                                             : "straggler";
    }
}

/* An excess that comes and goes, and is no larger than what the peers' own time drifts by, is none.
 */
static int which_stand(const struct an_rank_matrix *m, const double *y, struct an_excess *e)
{
    double *work = malloc(2 * m->steps * sizeof *work);
    if (!work)
        return TACHO_ENOMEM;
    for (size_t r = 0; r < m->ranks; r++)
        if (e[r].significant)
            e[r].significant = an_excess_stands(m->own + r * m->steps, y + r * m->steps, m->steps,
                                                AN_RANKS_MARGIN_PCT, e[r].estimate, work);
    free(work);
    return 0;
}

static int straggler(struct an_context *c, const struct an_rank_matrix *m, struct an_rank_row *row)
{
    struct an_straggler *out = &c->r->ranks.straggler;
    struct an_excess *e = malloc(m->ranks * sizeof *e);
    double *y = malloc(m->ranks * m->steps * sizeof *y);
    const char *few = m->steps < AN_RANKS_STEPS_LEAST
                          ? an_arena_format(c->a, "%zu compared steps: it takes %d", m->steps,
                                            AN_RANKS_STEPS_LEAST)
                          : NULL;
    int rc = e && y ? beside_peers(c, m, y, row) : TACHO_ENOMEM;
    rc = rc ? rc : an_excess_test(y, m->ranks, m->steps, AN_RANKS_MARGIN_PCT, SEED, e);
    rc = rc ? rc : which_stand(m, y, e);
    if (rc)
        goto out;
    row_verdicts(row, m->ranks, e, few);
    out->reason = few;
    none(out, few ? few
                  : "no rank's own time is above its peers' by 2 %, steadily or by more than "
                    "theirs drifts");
    size_t worst = m->ranks;
    for (size_t r = 0; r < m->ranks && !few; r++)
        if (e[r].significant) {
            out->count++;
            worst = worst == m->ranks || e[r].estimate > e[worst].estimate ? r : worst;
        }
    if (out->count) {
        out->rank = row[worst].rank;
        out->excess_pct = row[worst].excess_pct;
        out->excess_low_pct = row[worst].excess_low_pct;
        out->excess_high_pct = row[worst].excess_high_pct;
        out->says =
            m->ranks == 2 ? an_arena_format(c->a, "rank %" PRId64 " (the slower of two)", out->rank)
            : out->count == 1
                ? an_arena_format(c->a, "rank %" PRId64, out->rank)
                : an_arena_format(c->a, "rank %" PRId64 " and %zu more", out->rank, out->count - 1);
        rc = gain(c, m, e, out);
        rc = rc ? rc : is_by_data(c, row, m->ranks, worst, &out->by_data);
    }
out:
    free(e);
    free(y);
    return rc;
}

/* ---- the part --------------------------------------------------------------------------------------------------------------------- */

static void not_compared(struct an_context *c, const char *reason)
{
    struct an_ranks *r = &c->r->ranks;
    r->reason = r->straggler.reason = r->frontier.reason = r->uneven.reason = reason;
    none(&r->straggler, reason);
    r->frontier.stage = AN_STAGE_COUNT;
    r->frontier.delay_ms = r->frontier.delay_pct = r->frontier.delay_low_pct = an_num_none(reason);
    r->uneven.max_over_mean = r->uneven.mean = r->uneven.max = r->uneven.min = an_num_none(reason);
}

/* Copies of one file, or several jobs: who waits for whom would be nonsense. */
static int look_for_twins(struct an_context *c)
{
    int64_t *rank = malloc((c->lane_count + 1) * sizeof *rank);
    size_t n = 0;
    if (!rank)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < c->lane_count; k++)
        if (!k || c->lane[k].process != c->lane[k - 1].process)
            rank[n++] = c->lane[k].rank;
    qsort(rank, n, sizeof *rank, int64_order);
    for (size_t i = 1; i < n; i++)
        if (rank[i] == rank[i - 1] && (i < 2 || rank[i] != rank[i - 2]))
            an_problem(c,
                       "rank %" PRId64 " is there more than once: copies of one file, or files of "
                                       "several jobs in one folder",
                       rank[i]);
    free(rank);
    return 0;
}

static int ranks_run(struct an_context *c)
{
    struct an_ranks *r = &c->r->ranks;
    struct an_rank_matrix m = {0};
    int rc = 0;
    r->missing = c->r->communication.missing;
    if (c->lane_count < 2) {
        not_compared(c, "one rank: nothing to compare");
        return 0;
    }
    if ((rc = look_for_twins(c)) || (rc = side_by_side(c, &m)))
        return rc;
    if (m.ranks < 2 || !m.steps) {
        not_compared(c, "the ranks have no counted step in common with all its ranges in the file");
        return 0;
    }
    struct an_rank_row *row = an_arena_zero(c->a, m.ranks, sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    if ((rc = an_ranks_frontier(c, &m)))
        return rc;
    for (size_t i = 0; i < m.ranks; i++)
        fill_row(c, &m, i, &row[i]);
    r->steps = (int64_t)m.steps;
    r->own_is = m.split ? OWN_SPLIT : OWN_REST;
    r->row = row;
    r->row_count = m.ranks;
    uneven(c, row, m.ranks);
    return straggler(c, &m, row);
}

static void ranks_absent(struct an_context *c, const char *reason)
{
    not_compared(c, reason);
    if (!c->r->ranks.pipeline.bubble_ms.reason &&
        !c->r->ranks.pipeline.bubble_ms.valid) /* communication was not looked at */
        an_ranks_no_exchanges(c, reason);
}

const struct an_analyzer an_ranks_compare = {
    "ranks", "ranks beside each other: straggler, stage frontier, uneven data, pipeline, experts",
    AN_INPUT_STEPS, ranks_run, ranks_absent};
