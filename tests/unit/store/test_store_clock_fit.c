/* SPDX-License-Identifier: Apache-2.0
 *
 * Offset, drift and error of one clock to another one: the stated error must hold for every run,
 * however unevenly ranks leave, and must be no larger than what the collectives leave open.
 */
#include "store/clock_fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS 1000000

static uint64_t state;

static double uniform(double from, double to) /* xorshift64* (Vigna 2016) */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return from + (to - from) * (double)(state * 0x2545F4914F6CDD1Du >> 11) * 0x1p-53;
}

struct job {
    size_t collectives;
    double step, spread; /* ns between collectives; ranks come up to `spread` apart */
    double transfer;     /* ns that the last to come still needs */
    double late, always; /* ns by which ranks leave unevenly: up to, and the other clock's always */
    double offset, drift, bend; /* of the other clock to the reference: r = a + offset + drift * a +
                                   bend * (a / run)^2 */
};

struct ranks {
    struct store_clock_point p[2000];
    double first, last; /* by the other clock */
};

static double truth(const struct job *j, double at)
{
    double part = at / (j->step * (double)j->collectives);
    return at + j->offset + j->drift * at + j->bend * part * part;
}

/* What the reference reads as x, as the other clock reads it. */
static double other(const struct job *j, double x)
{
    double a = x - j->offset;
    for (int i = 0; i < 20; i++)
        a -= truth(j, a) - x;
    return a;
}

static struct ranks *run(const struct job *j)
{
    struct ranks *r = malloc(sizeof *r);
    assert_non_null(r);
    for (size_t i = 0; i < j->collectives; i++) {
        double at = truth(j, 0) + j->step * (double)i,
               start[2] = {at + uniform(0, j->spread), at + uniform(0, j->spread)};
        double last = fmax(start[0], start[1]) + j->transfer;
        double end[2] = {last + uniform(0, j->late), last + uniform(0, j->late) + j->always};
        int64_t sr = llround(start[0]), er = llround(end[0]), sa = llround(other(j, start[1])),
                ea = llround(other(j, end[1]));
        r->p[i] = (struct store_clock_point){.at = ea,
                                             .offset = er - ea,
                                             .low = sr - ea,
                                             .high = er - sa,
                                             .least = er - sr < ea - sa ? er - sr : ea - sa};
        r->first = i ? r->first : (double)sa;
        r->last = (double)ea;
    }
    return r;
}

/* The most that a time between the first start and the last end is off. */
static double worst(const struct job *j, const struct ranks *r, const struct store_clock_fit *fit)
{
    double most = 0;
    for (int i = 0; i <= 100; i++) {
        int64_t t = llround(r->first + (r->last - r->first) * i / 100);
        most = fmax(most, fabs((double)store_clock_time(fit->offset, fit->drift, fit->pivot, t) -
                               truth(j, (double)t)));
    }
    return most;
}

/* The stated error holds in every one of many runs, and `bound`, which needs no luck, is finite and
 * not below it. */
static void holds(struct job j, double error_most)
{
    double largest = 0;
    for (int seed = 1; seed <= 200; seed++) {
        struct store_clock_fit fit;
        state = (uint64_t)seed * 0x9e3779b97f4a7c15u;
        j.offset = uniform(-4e18, 4e18) / 1e6;
        struct ranks *r = run(&j);
        assert_int_equal(store_clock_fit(r->p, j.collectives, &fit), 0);
        double off = worst(&j, r, &fit);
        if (off > fit.error + 1 || !(fit.bound >= fit.error - 1))
            fail_msg("seed %d: off by %g, stated %g, bound %g", seed, off, fit.error, fit.bound);
        if (fabs(fit.drift - j.drift) > fit.drift_error * 1.001)
            fail_msg("seed %d: drift %g instead of %g, stated %g", seed, fit.drift, j.drift,
                     fit.drift_error);
        largest = fmax(largest, fit.error);
        free(r);
    }
    if (largest > error_most)
        fail_msg("an error of %g says nothing", largest);
}

static void test_error_holds(void **s)
{
    (void)s;
    const struct job quiet = {
        .collectives = 300, .step = 3 * MS, .spread = 20000, .transfer = 2000, .late = 500};
    struct job j = quiet;
    holds(j, 8000);
    const double drifts[] = {1e-8, 1e-6, -35e-6, 2e-4, -9e-4};
    for (size_t i = 0; i < sizeof drifts / sizeof *drifts; i++) {
        j.drift = drifts[i];
        holds(j, 8000);
    }
    /* one rank leaves late in every collective: no end can tell, only causality does */
    j = quiet;
    j.drift = 12e-6;
    j.always = 3000;
    holds(j, 12000);
    j.late = 50;
    holds(j, 12000);
    /* busy: late by more than a step has of work */
    j = quiet;
    j.late = 5 * MS;
    j.spread = 2 * MS;
    j.always = 40000;
    holds(j, 2 * MS);
    /* few collectives: the drift is hardly seen */
    j = quiet;
    for (j.collectives = 3; j.collectives < 40; j.collectives += 4)
        holds(j, 2 * MS);
}

/* Long transfers that end evenly: the ends say more than what is certain, which is as wide as a
 * transfer. */
static void test_long_transfers(void **s)
{
    (void)s;
    struct job j = {.collectives = 400,
                    .step = 50 * MS,
                    .spread = 3 * MS,
                    .transfer = 20 * MS,
                    .late = 2000,
                    .drift = 5e-6};
    struct store_clock_fit fit;
    state = 7;
    struct ranks *r = run(&j);
    assert_int_equal(store_clock_fit(r->p, j.collectives, &fit), 0);
    assert_true(fit.bound > 15 * MS && fit.bound < 30 * MS);
    assert_true(worst(&j, r, &fit) <= fit.bound);
    free(r);
}

/* The bound is no larger than it must be: a brute-force grid over (offset, drift) finds lines as
 * far from the fitted one. */
static void test_bound_is_tight(void **s)
{
    (void)s;
    struct job j = {.collectives = 60,
                    .step = 2 * MS,
                    .spread = 30000,
                    .transfer = 3000,
                    .late = 20000,
                    .drift = 40e-6};
    for (int seed = 1; seed <= 10; seed++) {
        struct store_clock_fit fit;
        state = (uint64_t)seed * 77;
        struct ranks *r = run(&j);
        assert_int_equal(store_clock_fit(r->p, j.collectives, &fit), 0);
        double most = 0, apart = (double)(r->p[59].at - r->p[0].at) / 60;
        for (int d = -1000; d <= 1000; d++) {
            double drift = fit.drift + d * 2e-7, low = -INFINITY, high = INFINITY;
            for (size_t i = 0; i < j.collectives; i++) {
                double x = (double)(r->p[i].at - fit.pivot);
                low = fmax(low, (double)(r->p[i].low - fit.offset) - drift * x);
                high = fmin(high, (double)(r->p[i].high - fit.offset) - drift * x);
            }
            for (int end = 0; low <= high && end < 2; end++) {
                double x = (double)(r->p[end ? 59 : 0].at - fit.pivot) + (end ? apart : -apart),
                       more = (drift - fit.drift) * x;
                most = fmax(most, fmax(fabs(low + more), fabs(high + more)));
            }
        }
        if (most > fit.bound + 1 || most < fit.bound * 0.97 - 50)
            fail_msg("seed %d: lines are off by up to %g, bound %g", seed, most, fit.bound);
        free(r);
    }
}

/* A clock that bends is no line: nothing is certain then, and the error says by how much the
 * collectives contradict. */
static void test_contradiction(void **s)
{
    (void)s;
    struct job j = {.collectives = 200,
                    .step = 3 * MS,
                    .spread = 20000,
                    .transfer = 2000,
                    .late = 500,
                    .bend = 5 * MS};
    struct store_clock_fit fit;
    state = 3;
    struct ranks *r = run(&j);
    assert_int_equal(store_clock_fit(r->p, j.collectives, &fit), 0);
    assert_true(isnan(fit.bound));
    assert_true(fit.low > fit.high);
    assert_true(fit.error > 100000);
    free(r);
}

static void test_one_collective(void **s)
{
    (void)s;
    struct store_clock_point p = {.at = 1000, .offset = 500, .low = 100, .high = 900, .least = 400};
    struct store_clock_fit fit;
    assert_int_equal(store_clock_fit(&p, 1, &fit), 0);
    assert_int_equal(fit.offset, 500);
    assert_true(fit.drift == 0 && fit.error >= 400 && fit.error < 500);
    assert_int_equal(store_clock_time(fit.offset, fit.drift, fit.pivot, 1000), 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_holds),    cmocka_unit_test(test_long_transfers),
        cmocka_unit_test(test_bound_is_tight), cmocka_unit_test(test_contradiction),
        cmocka_unit_test(test_one_collective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
