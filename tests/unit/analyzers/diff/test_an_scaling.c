/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling between runs of different numbers of ranks: made-up steps, so that efficiency and what it
 * was lost to follow by hand.
 */
#include "tests/unit/an_fixture.h"

#include "analyzers/base/stats.h"
#include "analyzers/diff/diff.h"
#include "reports/report.h"

#define MS    1000000
#define STEPS 20

/* Steps of each rank: compute, then a collective, in ms; samples of a rank. */
struct shape {
    int ranks, compute, comm, samples, size; /* size: of the communicator, 0: the ranks */
    double noise;                            /* relative, of each step */
};

static struct an_result *make(struct fixture *f, struct shape s)
{
    uint64_t seed = 7;
    fx_open(f);
    for (int rank = 0; rank < s.ranks; rank++) {
        int64_t process = fx_process(f, s.ranks > 1 ? rank : FX_NONE, "train"), at = 0;
        int64_t thread = fx_track(f, process, "thread", "main", NULL);
        for (int i = 0; i < STEPS; i++) {
            double longer =
                1 + s.noise * ((double)(an_random(&seed) >> 11) / 9007199254740992.0 - 0.5);
            int64_t compute = (int64_t)(s.compute * longer * MS), comm = (int64_t)s.comm * MS;
            fx_step(f, process, thread, i, at, at + compute + comm,
                    s.samples ? 4 * s.samples : FX_NONE, false);
            fx_slice(f, thread, at, at + compute, "matmul", fx_work(f, "matrix", "fp32", 1, 1, 1));
            struct store_detail d = fx_empty();
            d.schema = "tacho.comm";
            d.collective = "all_reduce";
            d.ranks = s.size ? s.size : s.ranks;
            if (comm)
                fx_slice(f, thread, at + compute, at + compute + comm, "all_reduce",
                         fx_intern(f, &d));
            at += compute + comm;
        }
    }
    return fx_analyze_with(f, &(struct an_options){.file = "run.tacho", .samples = true});
}

static struct an_diff *compare(struct fixture *f, struct fixture *g, struct shape good,
                               struct shape bad)
{
    struct an_diff *d;
    const struct an_result *a = make(f, good), *b = make(g, bad);
    assert_int_equal(an_diff_results(a, b, 0, &d), 0);
    fx_close(f);
    fx_close(g);
    return d;
}

/* Half the work on each of two ranks, and 10 ms of communication: 50 + 10 instead of 100 ms for the
 * same batch. */
static void test_strong(void **state)
{
    struct fixture f, g;
    (void)state;
    struct an_diff *d =
        compare(&f, &g, (struct shape){1, 100, 0, 8, 0, 0}, (struct shape){2, 50, 10, 4, 0, 0});
    const struct an_scaling *s = &d->scaling;
    assert_null(s->reason);
    assert_string_equal(s->kind, "strong");
    assert_string_equal(s->of, "samples");
    assert_int_equal(s->good_ranks, 1);
    assert_int_equal(s->bad_ranks, 2);
    assert_near(s->good_batch.value, 8, 0);
    assert_near(s->bad_batch.value, 8, 0);
    assert_near(s->good_rate.value, 80, 1e-9);
    assert_near(s->bad_rate.value, 8 / 0.06, 1e-9);
    assert_near(s->speed_up.value, 100.0 / 60, 1e-9);
    assert_near(s->efficiency.value, 100.0 / 120, 1e-9);
    assert_near(s->low.value, 100.0 / 120, 1e-9); /* steps without noise */
    assert_near(s->high.value, 100.0 / 120, 1e-9);
    assert_near(s->lost_pct[AN_CLASS_COMM].value, 100.0 / 6, 1e-9);
    assert_near(s->lost_pct[AN_CLASS_COMPUTE].value, 0, 1e-9);
    an_diff_free(d);
}

/* The same work on each rank, and from four to two ranks the other way round. */
static void test_weak_and_down(void **state)
{
    struct fixture f, g;
    (void)state;
    struct an_diff *d =
        compare(&f, &g, (struct shape){1, 100, 0, 8, 0, 0}, (struct shape){4, 100, 25, 8, 0, 0});
    assert_string_equal(d->scaling.kind, "weak");
    assert_near(d->scaling.efficiency.value, 0.8, 1e-9);
    assert_near(d->scaling.speed_up.value, 3.2, 1e-9);
    assert_near(d->scaling.lost_pct[AN_CLASS_COMM].value, 20, 1e-9);
    an_diff_free(d);
    d = compare(&f, &g, (struct shape){4, 100, 25, 8, 0, 0}, (struct shape){2, 100, 0, 8, 0, 0});
    assert_near(d->scaling.efficiency.value, 1.25, 1e-9);
    assert_near(d->scaling.lost_pct[AN_CLASS_COMM].value, -25, 1e-9);
    an_diff_free(d);
    d = compare(&f, &g, (struct shape){1, 100, 0, 8, 0, 0}, (struct shape){2, 100, 0, 6, 0, 0});
    assert_string_equal(d->scaling.kind, "mixed");
    an_diff_free(d);
}

/* What every class costs more sums to what is lost, and the interval holds the efficiency. */
static void test_sums_and_interval(void **state)
{
    struct fixture f, g;
    (void)state;
    struct an_diff *d = compare(&f, &g, (struct shape){1, 100, 0, 8, 0, 0.04},
                                (struct shape){2, 60, 10, 4, 0, 0.04});
    const struct an_scaling *s = &d->scaling;
    double sum = 0;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        sum += s->lost_pct[k].valid ? s->lost_pct[k].value : 0;
    assert_near(sum, 100 * (1 - s->efficiency.value),
                1.0); /* of means, the efficiency is of medians */
    assert_true(s->low.value < s->efficiency.value && s->efficiency.value < s->high.value);
    assert_near(s->efficiency.value, 100.0 / 140, 0.02);
    assert_true(s->high.value - s->low.value < 0.05);
    an_diff_free(d);
}

static void test_absent(void **state)
{
    struct fixture f, g;
    (void)state;
    static const struct {
        struct shape good, bad;
        const char *reason;
    } cases[] = {{{2, 100, 0, 8, 0, 0}, {2, 100, 10, 8, 0, 0}, "both runs have 2 ranks"},
                 {{1, 100, 0, 8, 0, 0}, {1, 100, 0, 8, 0, 0}, "both runs have 1 rank:"},
                 {{1, 100, 0, 8, 0, 0}, {1, 50, 10, 4, 2, 0}, "the candidate lacks ranks"},
                 {{1, 100, 0, 0, 0, 0}, {2, 50, 10, 0, 0, 0}, "do not declare their samples"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct an_diff *d = compare(&f, &g, cases[i].good, cases[i].bad);
        if (!d->scaling.reason || !strstr(d->scaling.reason, cases[i].reason))
            fail_msg("\"%s\" does not say \"%s\"", d->scaling.reason ? d->scaling.reason : "(null)",
                     cases[i].reason);
        assert_false(d->scaling.efficiency.valid || d->scaling.speed_up.valid ||
                     d->scaling.lost_pct[0].valid);
        an_diff_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strong), cmocka_unit_test(test_weak_and_down),
        cmocka_unit_test(test_sums_and_interval), cmocka_unit_test(test_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
