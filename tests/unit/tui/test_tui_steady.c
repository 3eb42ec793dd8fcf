/* SPDX-License-Identifier: Apache-2.0
 *
 * The headline of the dashboard by simulation: findings whose gains are equal do not take turns,
 * however often noise puts another one in front; one that really becomes larger is shown within a
 * few analyses of new steps.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/base/stats.h"
#include "tui/data/steady.h"

#define WINDOW   100 /* steps of each analysis */
#define ANALYSES 500
#define SD       5.0 /* of a gain, in points */

static double normal(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)(an_random(state) >> 11) / 9007199254740992.0;
    return sum - 6;
}

struct analysis {
    struct an_result result;
    struct an_finding finding[2];
};

/* The k-th analysis: two findings by gain, each with its 90 % interval. */
static void analyse(struct analysis *analysis, int number, double first, double second, int fresh)
{
    static const char *const id[] = {"EXPOSED_COMM", "STRAGGLER"};
    static const char *const class[] = {"COMMUNICATION-BOUND", "STRAGGLER-BOUND"};
    const double gain[] = {first, second};
    int front = second > first;
    *analysis = (struct analysis){.result = {.finding_count = 2}};
    for (int i = 0; i < 2; i++) {
        int which = i ? !front : front;
        analysis->finding[i].id = id[which];
        analysis->finding[i].gain = (struct an_gain){.low = an_num(gain[which] - 1.645 * SD),
                                                     .expected = an_num(gain[which]),
                                                     .high = an_num(gain[which] + 1.645 * SD)};
    }
    analysis->result.findings = analysis->finding;
    analysis->result.verdict_class = class[front];
    analysis->result.ranks.reason = "one rank";
    analysis->result.steps.detailed = WINDOW;
    analysis->result.steps.last_index = WINDOW + (int64_t)number * fresh;
    analysis->result.steps.first_index = analysis->result.steps.last_index - WINDOW + 1;
}

struct outcome {
    int shown, raw; /* changes of the headline: of the dashboard, and without it */
    int first_at;   /* analysis in which the second finding was shown first; -1: never */
};

/* Gains of 30 points, the second of `second` from the middle on; noise with the correlation that
 * windows which overlap have. */
static struct outcome simulate(uint64_t seed, double second, int fresh)
{
    struct tui_steady steady = {0};
    struct analysis shown, added;
    struct outcome outcome = {0, 0, -1};
    double noise[2] = {0, 0}, keep = 1 - (double)fresh / WINDOW;
    const char *before = NULL;
    for (int number = 0; number < ANALYSES; number++) {
        for (int i = 0; i < 2; i++)
            noise[i] = keep * noise[i] + sqrt(1 - keep * keep) * SD * normal(&seed);
        double gain = number < ANALYSES / 2 ? 30 : second;
        analyse(&added, number, 30 + noise[0], gain + noise[1], fresh);
        outcome.raw += before && strcmp(before, added.finding[0].id) != 0;
        before = added.finding[0].id;
        if (!tui_steady_accepts(&steady, number ? &shown.result : NULL, &added.result))
            continue;
        outcome.shown += number && strcmp(shown.finding[0].id, added.finding[0].id) != 0;
        shown = added;
        shown.result.findings = shown.finding;
        if (number >= ANALYSES / 2 && outcome.first_at < 0 &&
            !strcmp(shown.finding[0].id, "STRAGGLER"))
            outcome.first_at = number;
    }
    return outcome;
}

/* The same gain: without the rule the headline changes all the time. */
static void test_noise(void **state)
{
    (void)state;
    int changes = 0, raw = 0;
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (int fresh = 20; fresh <= WINDOW; fresh += 40) {
            struct outcome outcome = simulate(seed, 30, fresh);
            changes += outcome.shown;
            raw += outcome.raw;
        }
    print_message("%d changes in 60 runs of 500 analyses, %d without the rule\n", changes, raw);
    assert_true(raw > 60 * 50);
    assert_true(changes <= 60);
}

/* 20 points more are four standard deviations: seen within eight windows of new steps. */
static void test_change(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (int fresh = 20; fresh <= WINDOW; fresh += 40) {
            struct outcome outcome = simulate(seed, 50, fresh);
            assert_true(outcome.first_at >= 0);
            assert_true((outcome.first_at - ANALYSES / 2) * fresh <= 8 * WINDOW);
        }
}

/* What was shown of too few steps, or nothing at all, gives way at once. */
static void test_first(void **state)
{
    struct tui_steady steady = {0};
    struct analysis shown, added;
    (void)state;
    analyse(&shown, 0, 40, 30, 20);
    analyse(&added, 1, 30, 40, 20);
    assert_true(tui_steady_accepts(&steady, NULL, &shown.result));
    assert_false(tui_steady_accepts(&steady, &shown.result, &added.result));
    shown.result.steps.detailed = 5;
    assert_true(tui_steady_accepts(&steady, &shown.result, &added.result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_noise), cmocka_unit_test(test_change),
                                       cmocka_unit_test(test_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
