/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling between two runs with different numbers of ranks (docs/diff.md). A rank-second is what is
 * paid for: x = ranks x step time / samples of the step is what a sample costs of it, and
 * efficiency = x(GOOD) / x(BAD), which equals (rate(BAD) / rate(GOOD)) / (ranks(BAD) /
 * ranks(GOOD)). x is a sum over the classes of the budget, so 1 - efficiency is a sum of what each
 * class costs more.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/arena.h"
#include "analyzers/diff/diff_private.h"
#include "store/store.h"
#include "tacho_error.h"

#define SAME_BATCH 0.01 /* relative difference of global batches up to which they count as equal \
                         */
#define SEED_GOOD 0x7363616c65676f6fu
#define SEED_BAD  0x7363616c65626164u

/* What a run brings: logarithms of its x, so that medians and differences of them are those of
 * ratios. */
struct series {
    const struct an_result *r;
    double *x; /* ln of ms of a rank for a sample, of each counted step */
    size_t n;
    double batch;   /* median of the samples of a step over all ranks; NAN: not known */
    const char *of; /* "samples", "tokens" */
    int64_t ranks;
};

static int64_t ranks_of(const struct an_result *r)
{
    int64_t n = r->run.ranks;
    return n > 0 ? n : 1;
}

/* Samples of a step, else its tokens; NULL: some step says neither. */
static const int64_t *sizes(const struct an_samples *s, const char **of)
{
    const int64_t *both[] = {s->samples, s->tokens};
    static const char *const names[] = {"samples", "tokens"};
    for (int k = 0; k < 2; k++) {
        size_t i = 0;
        while (i < s->steps && both[k][i] != STORE_ABSENT && both[k][i] > 0)
            i++;
        if (i == s->steps && s->steps) {
            *of = names[k];
            return both[k];
        }
    }
    return NULL;
}

static int take(struct an_diff *d, const struct an_result *r, struct series *out)
{
    const struct an_samples *s = r->samples;
    double *work = an_arena_zero(d->arena, 3 * s->steps + 1, sizeof *work);
    const int64_t *size = sizes(s, &out->of);
    if (!work)
        return TACHO_ENOMEM;
    out->r = r;
    out->x = work;
    out->ranks = ranks_of(r);
    out->batch = NAN;
    for (size_t i = 0; size && i < s->steps; i++)
        if (s->step_ms[i] > 0) {
            work[out->n] = log((double)out->ranks * s->step_ms[i] / (double)size[i]);
            work[s->steps + out->n++] = (double)size[i];
        }
    if (out->n)
        out->batch = an_diff_median(work + s->steps, out->n, work + 2 * s->steps);
    return 0;
}

/* A file that lacks ranks of the communicator cannot tell what the whole job did. */
static const char *missing(const struct an_result *r)
{
    return r->communication.reason ? NULL : r->communication.missing;
}

static const char *why_none(struct an_diff *d, const struct series *g, const struct series *b)
{
    struct an_arena *a = d->arena;
    const char *gone = missing(g->r) ? missing(g->r) : missing(b->r);
    if (gone)
        return an_arena_format(a, "%s lacks ranks: %s", missing(g->r) ? "GOOD" : "BAD", gone);
    if (g->ranks == b->ranks)
        return an_arena_format(
            a, "both runs have %lld rank%s: scaling compares runs of different numbers of ranks",
            (long long)g->ranks, g->ranks == 1 ? "" : "s");
    if (!g->r->samples->steps || !b->r->samples->steps)
        return "one of the runs has no counted steps";
    if (!g->n || !b->n || g->of != b->of)
        return "the steps of one of the runs do not say how many samples or tokens they hold";
    return NULL;
}

static void absent(struct an_scaling *s, const char *reason)
{
    s->reason = reason;
    s->speed_up = s->efficiency = s->low = s->high = an_num_none(reason);
    s->good_rate = s->bad_rate = s->good_batch = s->bad_batch = an_num_none(reason);
}

/* Efficiency and its 95 % interval: the difference of the medians of logarithms. */
static int interval(struct an_diff *d, const struct series *g, const struct series *b,
                    struct an_scaling *s)
{
    struct an_diff_draws *dg = an_diff_draws_new(g->n, SEED_GOOD),
                         *db = an_diff_draws_new(b->n, SEED_BAD);
    struct an_diff_test t;
    int rc = dg && db ? an_diff_test(g->x, g->n, dg, b->x, b->n, db, &t) : TACHO_ENOMEM;
    an_diff_draws_free(dg);
    an_diff_draws_free(db);
    if (rc)
        return rc;
    s->efficiency = an_num(exp(t.good - t.bad));
    s->speed_up = an_num(s->efficiency.value * (double)b->ranks / (double)g->ranks);
    s->good_rate = an_num((double)g->ranks / exp(t.good) * 1e3);
    s->bad_rate = an_num((double)b->ranks / exp(t.bad) * 1e3);
    s->low = an_num(exp(-t.high));
    s->high = an_num(exp(-t.low));
    if (g->n < AN_DIFF_STEPS_LEAST || b->n < AN_DIFF_STEPS_LEAST)
        s->low = s->high = an_num_none(an_arena_format(
            d->arena, "%zu and %zu counted steps: not enough for an interval (%d each)", g->n, b->n,
            AN_DIFF_STEPS_LEAST));
    return 0;
}

/* ms of a rank for a sample in a class: mean over the steps the budget stands on. NAN: not known.
 */
static double cost(const struct series *x, int class)
{
    const struct an_budget *b = &x->r->budget;
    if (b->reason || !b->steps || isnan(x->batch))
        return NAN;
    int64_t ns = class < 0 ? b->step_ns : b->ns[class].valid ? b->ns[class].value : 0;
    return (double)ns / (double)b->steps / 1e6 * (double)x->ranks / x->batch;
}

static void losses(const struct series *g, const struct series *b, struct an_scaling *s)
{
    double whole = cost(b, -1);
    const char *none = "no counted step of one of the runs has all its ranges in the file";
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        const struct an_budget *bg = &g->r->budget, *bb = &b->r->budget;
        double lost = (cost(b, k) - cost(g, k)) / whole;
        if (!isfinite(lost))
            s->lost_pct[k] = an_num_none(none);
        else if (!bg->ns[k].valid && !bb->ns[k].valid)
            s->lost_pct[k] = an_num_none(bb->ns[k].reason);
        else
            s->lost_pct[k] = an_num(100 * lost);
    }
}

int an_diff_scaling(struct an_diff *d, const struct an_result *good, const struct an_result *bad)
{
    struct an_scaling *s = &d->scaling;
    struct series g = {0}, b = {0};
    int rc = take(d, good, &g);
    rc = rc ? rc : take(d, bad, &b);
    if (rc)
        return rc;
    s->good_ranks = g.ranks;
    s->bad_ranks = b.ranks;
    const char *none = why_none(d, &g, &b);
    for (int k = 0; none && k < AN_CLASS_COUNT; k++)
        s->lost_pct[k] = an_num_none(none);
    if (none) {
        absent(s, none);
        return 0;
    }
    s->of = g.of;
    s->good_batch = an_num(g.batch);
    s->bad_batch = an_num(b.batch);
    double per_rank = (b.batch / (double)b.ranks) / (g.batch / (double)g.ranks);
    s->kind = fabs(b.batch / g.batch - 1) <= SAME_BATCH ? "strong"
              : fabs(per_rank - 1) <= SAME_BATCH        ? "weak"
                                                        : "mixed";
    losses(&g, &b, s);
    return interval(d, &g, &b, s);
}
