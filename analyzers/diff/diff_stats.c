/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/diff/diff_private.h"
#include "tacho_error.h"

#define ROUNDS_MOST    2000
#define ROUNDS_LEAST   200
#define QUARTERS_LEAST 12      /* steps */
#define DRAWS_MOST     4000000 /* rounds times steps */

struct an_diff_draws {
    size_t n, rounds, block;
    uint16_t drawn[]; /* rounds x n: how often each step was drawn */
};

size_t an_diff_rounds(size_t n)
{
    size_t rounds = n ? DRAWS_MOST / n : ROUNDS_MOST;
    return rounds > ROUNDS_MOST ? ROUNDS_MOST : rounds < ROUNDS_LEAST ? ROUNDS_LEAST : rounds;
}

struct an_diff_draws *an_diff_draws_new(size_t n, uint64_t seed)
{
    size_t rounds = an_diff_rounds(n), block = (size_t)lround(cbrt((double)n));
    struct an_diff_draws *diff_draws;
    if (n > SIZE_MAX / rounds / sizeof(uint16_t) / 2)
        return NULL;
    diff_draws = calloc(1, sizeof *diff_draws + rounds * n * sizeof(uint16_t));
    if (!diff_draws)
        return NULL;
    diff_draws->n = n;
    diff_draws->rounds = rounds;
    diff_draws->block = block ? block : 1;
    for (size_t r = 0; r < rounds; r++) {
        uint16_t *drawn = diff_draws->drawn + r * n;
        for (size_t made = 0; made < n;) {
            size_t at = (size_t)(an_random(&seed) % n);
            for (size_t k = 0; k < block && made < n; k++, made++)
                if (drawn[(at + k) % n] < UINT16_MAX)
                    drawn[(at + k) % n]++;
        }
    }
    return diff_draws;
}

void an_diff_draws_free(struct an_diff_draws *diff_draws)
{
    free(diff_draws);
}

double an_diff_median(const double *x, size_t n, double *work)
{
    for (size_t i = 0; i < n; i++)
        work[i] = x[i];
    an_sort(work, n);
    return an_quantile(work, n, 0.5);
}

struct value {
    double x;
    size_t step;
};

static int value_order(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    if (x->x != y->x)
        return x->x < y->x ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Median of a resample: a walk over the sorted values by how often each was drawn. */
static double drawn_median(const struct value *sorted, size_t n, const uint16_t *drawn)
{
    size_t low = (n - 1) / 2, high = n / 2, seen = 0;
    double first = NAN;
    for (size_t i = 0; i < n; i++) {
        seen += drawn[sorted[i].step];
        if (isnan(first) && seen > low)
            first = sorted[i].x;
        if (seen > high)
            return (first + sorted[i].x) / 2;
    }
    return first;
}

/* Two-sided p of Student's t, by Wallace's normal approximation (1959): within 0.003 from 4 degrees
 * of freedom on. */
static double t_p(double t, double df)
{
    double z = (8 * df + 1) / (8 * df + 3) * sqrt(df * log1p(t * t / df));
    return erfc(z / sqrt(2));
}

/* Steps in a block say the same thing: what counts is how many blocks there are, for the degrees of
 * freedom and for the spread, which resampling makes too small by a factor of (n - 1) / n. */
static double p_of(double delta, double sd, const struct an_diff_draws *a,
                   const struct an_diff_draws *b)
{
    double na = (double)a->n / (double)a->block, nb = (double)b->n / (double)b->block,
           n = na < nb ? na : nb;
    if (!(sd > 0))
        return delta == 0 ? 1 : 0;
    return t_p(delta / (sd * sqrt(n / (n - 1))), na + nb - 2 > 1 ? na + nb - 2 : 1);
}

/* How far the medians of the quarters (of short runs: the halves) of a run lie apart. */
static double drift(const double *x, size_t n, double *work)
{
    size_t parts = n >= QUARTERS_LEAST ? 4 : 2;
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < parts && n >= parts; k++) {
        size_t from = n * k / parts, to = n * (k + 1) / parts;
        double m = an_diff_median(x + from, to - from, work);
        low = m < low ? m : low;
        high = m > high ? m : high;
    }
    return n < parts ? 0 : high - low;
}

static struct value *sorted_values(const double *x, size_t n)
{
    struct value *v = malloc((n + 1) * sizeof *v);
    if (!v)
        return NULL;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct value){x[i], i};
    if (n)
        qsort(v, n, sizeof *v, value_order);
    return v;
}

int an_diff_test(const double *a, size_t na, const struct an_diff_draws *da, const double *b,
                 size_t nb, const struct an_diff_draws *db, struct an_diff_test *out)
{
    size_t rounds = da->rounds < db->rounds ? da->rounds : db->rounds, most = na > nb ? na : nb;
    struct value *va = sorted_values(a, na), *vb = sorted_values(b, nb);
    double *work = malloc((most + 1) * sizeof *work), *delta = malloc(rounds * sizeof *delta);
    int rc = TACHO_ENOMEM;
    if (!va || !vb || !work || !delta)
        goto out;
    *out = (struct an_diff_test){.good = an_diff_median(a, na, work),
                                 .bad = an_diff_median(b, nb, work)};
    for (size_t r = 0; r < rounds; r++)
        delta[r] =
            drawn_median(vb, nb, db->drawn + r * nb) - drawn_median(va, na, da->drawn + r * na);
    double sd = an_sd(delta, rounds), d = out->bad - out->good, fa = drift(a, na, work),
           fb = drift(b, nb, work);
    an_sort(delta, rounds);
    out->low = an_quantile(delta, rounds, 0.025);
    out->high = an_quantile(delta, rounds, 0.975);
    out->p = na > da->block && nb > db->block ? p_of(d, sd, da, db) : NAN;
    out->floor = fa > fb ? fa : fb;
    rc = 0;
out:
    free(va);
    free(vb);
    free(work);
    free(delta);
    return rc;
}

static int p_order(const void *a, const void *b)
{
    const double *const *x = a, *const *y = b;
    return (**x > **y) - (**x < **y);
}

void an_diff_holm(double *const *p, size_t n, size_t family)
{
    double **sorted = malloc((n + 1) * sizeof *sorted), worst = 0;
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(*p[i]) && sorted)
            sorted[m++] = p[i];
    if (m)
        qsort(sorted, m, sizeof *sorted, p_order);
    for (size_t i = 0; i < m; i++) {
        double adjusted = *sorted[i] * (double)(family - i);
        worst = adjusted > worst ? adjusted : worst;
        *sorted[i] = worst > 1 ? 1 : worst;
    }
    for (size_t i = 0; !sorted && i < n;
         i++) /* no memory: the plain bound, which is never smaller */
        *p[i] = *p[i] * (double)family > 1 ? 1 : *p[i] * (double)family;
    free(sorted);
}
