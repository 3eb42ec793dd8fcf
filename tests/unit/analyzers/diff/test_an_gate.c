/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of tacho diff --fail-above, by simulated runs: how often equal runs break a limit, how
 * often a slower candidate does, and when it must stay undecided.
 */
#include <math.h>

#include "analyzers/base/stats.h"
#include "analyzers/diff/gate.h"
#include "tests/unit/an_fixture.h"

#define PAIRS 200

/* Roughly normal, by the sum of twelve. */
static double draw(uint64_t *state, double sd)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(an_random(state) >> 11) / 9007199254740992.0;
    return sd * sum;
}

/* Medians of runs on a shared machine: sd 2.4 %, and one run in twenty is 8 % slower. */
static void record(uint64_t *state, double ms, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = ms * exp(draw(state, 0.024)) * (an_random(state) % 20 ? 1 : 1.08);
}

/* Of the simulated pairs, how many end in `wanted`. */
static int count_of(enum an_gate_state wanted, double factor, size_t runs, double limit_pct)
{
    uint64_t state = 12345;
    int found = 0;
    for (int i = 0; i < PAIRS; i++) {
        double good[12], bad[12];
        record(&state, 50, runs, good);
        record(&state, 50 * factor, runs, bad);
        const struct an_gate_input input = {good, bad, runs, runs, limit_pct, NAN, 0.5};
        found += an_gate_decide(&input).state == wanted;
    }
    return found;
}

static void test_equal_runs_rarely_fail(void **state)
{
    (void)state;
    assert_true(count_of(AN_GATE_FAILED, 1, 6, 0) <= PAIRS / 50 + 4); /* 2 %, and chance */
    assert_true(count_of(AN_GATE_FAILED, 1, 6, 3) <= PAIRS / 50);
    assert_true(count_of(AN_GATE_FAILED, 1, 12, 3) <= PAIRS / 50);
    assert_true(count_of(AN_GATE_PASSED, 1, 12, 5) >= PAIRS * 9 / 10);
}

static void test_slower_runs_are_caught(void **state)
{
    (void)state;
    assert_true(count_of(AN_GATE_FAILED, 1.1, 6, 3) >= PAIRS * 95 / 100);
    assert_true(count_of(AN_GATE_FAILED, 1.1, 12, 3) >= PAIRS * 95 / 100);
    assert_int_equal(count_of(AN_GATE_PASSED, 1.1, 6, 3), 0);
}

/* One run a side is undecided, whatever its steps say, unless the spread is given; so are three,
 * because no order of six runs is rare enough. */
static void test_too_few_runs(void **state)
{
    const double good[] = {50, 50.5, 49.6, 50.2}, bad[] = {69, 69.4, 68.6, 69.1};
    struct an_gate_input input = {good, bad, 1, 1, 3, NAN, 0.1};
    (void)state;
    struct an_gate gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_UNDECIDED);
    assert_non_null(strstr(gate.reason, "--assume-run-sd"));
    input.run_sd_pct = 2;
    gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_FAILED);
    assert_true(gate.detectable_pct > 6 && gate.detectable_pct < 12);
    input.within_pct = NAN; /* too few steps */
    assert_int_equal(an_gate_decide(&input).state, AN_GATE_UNDECIDED);
    input = (struct an_gate_input){good, bad, 3, 3, 3, NAN, 0.1};
    gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_UNDECIDED);
    assert_true(fabs(gate.least_p - 0.05) < 1e-9 && fabs(gate.p - 0.05) < 1e-9);
    assert_true(isnan(gate.detectable_pct));
    input.good_count = input.bad_count = 4;
    gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_FAILED);
    assert_true(fabs(gate.p - 1 / 70.0) < 1e-9);
    input.limit_pct = NAN;
    assert_int_equal(an_gate_decide(&input).state, AN_GATE_NONE);
}

/* Three runs a side cannot show that a candidate is slower, but that it is not: of all orders of
 * six runs one in twenty has all of the candidate's first. */
static void test_three_runs_far_faster(void **state)
{
    const double good[] = {50, 51, 49.5};
    double bad[] = {20, 20.3, 19.8};
    char text[AN_GATE_WORDS];
    struct an_gate_input input = {good, bad, 3, 3, 3, NAN, 0.1};
    (void)state;
    struct an_gate gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_PASSED);
    assert_null(gate.reason);
    assert_string_equal(an_gate_outlook(&gate, text), "");
    bad[2] = 51.2; /* one run above a run of the baseline: another order is as likely */
    gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_UNDECIDED);
    assert_true(gate.runs_needed > 3);
    assert_non_null(strstr(an_gate_outlook(&gate, text), "it looks faster"));
    assert_non_null(strstr(text, "runs a side would show it"));
    assert_true(count_of(AN_GATE_PASSED, 0.4, 3, 3) >= PAIRS * 95 / 100);
    assert_int_equal(count_of(AN_GATE_PASSED, 1.1, 3, 3), 0);
    assert_true(count_of(AN_GATE_PASSED, 1.03, 3, 3) <= PAIRS * 5 / 100 + 4); /* 5 %, and chance */
    assert_true(count_of(AN_GATE_PASSED, 1.03, 6, 3) <= PAIRS * 5 / 100 + 4);
}

/* Two runs a side show nothing, one even less: what it looks like is said, and what would do. */
static void test_fewer_than_three(void **state)
{
    const double good[] = {50, 50.5}, bad[] = {20, 20.2};
    char text[AN_GATE_WORDS];
    struct an_gate_input input = {good, bad, 2, 2, 3, NAN, 0.1};
    (void)state;
    struct an_gate gate = an_gate_decide(&input);
    assert_int_equal(gate.state, AN_GATE_UNDECIDED);
    assert_non_null(strstr(gate.reason, "3 against 3"));
    assert_int_equal(gate.runs_needed, 3);
    assert_string_equal(an_gate_outlook(&gate, text),
                        "it looks faster, by 60 % of the time: about 3 runs a side would show it");
    input.good_count = input.bad_count = 1;
    gate = an_gate_decide(&input);
    assert_int_equal(gate.runs_needed, 0); /* how much runs differ is not known */
    assert_string_equal(an_gate_outlook(&gate, text), "it looks faster, by 60 % of the time");
}

/* A history has more runs on one side than a gate of files. */
static void test_long_baseline(void **state)
{
    double good[300], bad[4];
    uint64_t seed = 5;
    (void)state;
    record(&seed, 50, 300, good);
    record(&seed, 60, 4, bad);
    struct an_gate gate = an_gate_decide(&(struct an_gate_input){good, bad, 300, 4, 3, NAN, NAN});
    assert_int_equal(gate.state, AN_GATE_FAILED);
    assert_true(gate.change_pct > 15 && gate.change_pct < 25);
}

/* As many runs as are said to be needed decide in about nine of ten cases. */
static void test_runs_needed(void **state)
{
    uint64_t seed = 3;
    (void)state;
    for (int slower = 0; slower < 2; slower++) {
        int decided = 0;
        size_t needed = 0;
        double factor = slower ? 1.08 : 1;
        for (int i = 0; i < PAIRS; i++) {
            double good[AN_GATE_RUNS_MOST], bad[AN_GATE_RUNS_MOST];
            /* The first one has exactly the change and the spread that the others are drawn by. */
            size_t runs = i ? needed : 2;
            for (size_t k = 0; k < runs; k++) {
                good[k] = i ? exp(draw(&seed, 0.02)) : exp(k ? -0.02 / sqrt(2) : 0.02 / sqrt(2));
                bad[k] = i ? exp(draw(&seed, 0.02)) : good[k];
                bad[k] *= factor;
            }
            struct an_gate gate =
                an_gate_decide(&(struct an_gate_input){good, bad, runs, runs, 3, NAN, NAN});
            if (!i)
                needed = gate.runs_needed;
            decided += i && gate.state == (slower ? AN_GATE_FAILED : AN_GATE_PASSED);
        }
        assert_in_range(needed, 4, 20);
        assert_in_range(decided, PAIRS * 82 / 100, PAIRS * 98 / 100);
    }
}

/* The smallest detectable change is found in about nine of ten pairs. */
static void test_detectable_change(void **state)
{
    uint64_t seed = 99;
    int found = 0;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        double good[16], bad[16];
        for (size_t k = 0; k < 16; k++)
            good[k] = exp(draw(&seed, 0.02)), bad[k] = exp(draw(&seed, 0.02));
        struct an_gate_input input = {good, bad, 16, 16, 1, NAN, 0.5};
        double change = 1 + an_gate_decide(&input).detectable_pct / 100;
        for (size_t k = 0; k < 16; k++)
            good[k] = exp(draw(&seed, 0.02)), bad[k] = change * exp(draw(&seed, 0.02));
        found += an_gate_decide(&input).state == AN_GATE_FAILED;
    }
    assert_true(found > 850 && found < 950);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_runs_rarely_fail),
                                       cmocka_unit_test(test_slower_runs_are_caught),
                                       cmocka_unit_test(test_too_few_runs),
                                       cmocka_unit_test(test_three_runs_far_faster),
                                       cmocka_unit_test(test_fewer_than_three),
                                       cmocka_unit_test(test_long_baseline),
                                       cmocka_unit_test(test_runs_needed),
                                       cmocka_unit_test(test_detectable_change)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
