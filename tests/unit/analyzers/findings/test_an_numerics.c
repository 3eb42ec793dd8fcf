/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the numbers of the training: each in 20 of 20 drawn runs, with its step and place,
 * and none in 20 healthy ones.
 */
#include "tests/unit/an_fixture.h"

#include <math.h>

#define STEPS 80
#define DRAWS 20

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

/* A run under construction: STEPS steps with a counter each. */
struct run {
    struct fixture fixture;
    int64_t loss, scale, overflows, underflow;
};

static void open_run(struct run *run)
{
    struct fixture *f = &run->fixture;
    fx_open(f);
    run->loss = fx_track(f, f->process, "counter", "loss", "");
    run->scale = fx_track(f, f->process, "counter", "loss_scale", "");
    run->overflows = fx_track(f, f->process, "counter", "overflows", "");
    run->underflow = fx_track(f, f->process, "counter", "underflow.layer3", "");
    for (int i = 0; i < STEPS; i++)
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
}

static void count(struct run *run, int64_t track, int step, double value)
{
    fx_counter(&run->fixture, track, step * 1000 + 850, value);
}

/* A loss that falls as losses do, with noise, and sometimes a spike. */
static double healthy(int step, uint64_t *seed)
{
    double noise = uniform(seed) + uniform(seed) + uniform(seed) - 1.5;
    double spike = uniform(seed) < 0.02 ? 0.8 : 0;
    return 2.5 + 3.2 * exp(-step / 25.0) + 0.25 * noise + spike;
}

/* The claim of the finding `id`, "" without one; counts all about numbers. */
static const char *claim_of(struct run *run, const char *id, int *all)
{
    static const char *const ids[] = {"NAN", "DIVERGING", "OVERFLOW_LOOP", "DEAD_SCALE"};
    static char claim[300];
    const struct an_result *result = fx_analyze(&run->fixture);
    *claim = '\0';
    *all = 0;
    for (size_t i = 0; i < result->finding_count; i++)
        for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
            if (strcmp(result->findings[i].id, ids[k]) != 0)
                continue;
            *all += 1;
            if (id && !strcmp(ids[k], id))
                snprintf(claim, sizeof claim, "%s", result->findings[i].claim);
            assert_true(i < 4); /* before what only takes time */
        }
    fx_close(&run->fixture);
    return claim;
}

static void expect(struct run *run, const char *id, const char *words)
{
    int all;
    const char *claim = claim_of(run, id, &all);
    if (!strstr(claim, words) || !*claim)
        fail_msg("%s: \"%s\" does not say \"%s\"", id, claim, words);
    assert_int_equal(all, 1);
}

static void none_in_healthy_runs(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        struct run run;
        uint64_t seed = 1000 + draw;
        int all;
        open_run(&run);
        for (int i = 0; i < STEPS; i++) {
            count(&run, run.loss, i, healthy(i, &seed));
            count(&run, run.scale, i, i < 3 ? 65536 >> i : 8192); /* finds its scale at first */
            count(&run, run.overflows, i, i < 3 ? i : 3);
            count(&run, run.underflow, i, 0.3 * uniform(&seed));
        }
        claim_of(&run, NULL, &all);
        assert_int_equal(all, 0);
    }
}

/* From a drawn step on the loss rises: at once or slowly, for ever or to a plateau. */
static void a_loss_that_rises(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        struct run run;
        uint64_t seed = 2000 + draw;
        int from = 10 + (int)(uniform(&seed) * 50), all;
        double height = 2 + 6 * uniform(&seed), slow = 1 + 8 * uniform(&seed);
        open_run(&run);
        for (int i = 0; i < STEPS; i++)
            count(&run, run.loss, i,
                  healthy(i < from ? i : from, &seed) +
                      (i > from ? height * (1 - exp(-(i - from) / slow)) : 0));
        const char *claim = claim_of(&run, "DIVERGING", &all);
        int step = -1;
        assert_int_equal(all, 1);
        assert_int_equal(sscanf(claim, "the loss rises after step %d", &step), 1);
        if (step < from - 6 || step > from + 3)
            fail_msg("draw %d: rises after step %d, not %d", (int)draw, step, from);
    }
}

/* Too large a rate from the first update on: far above the start, then somewhere around it. */
static void a_loss_that_never_gets_better(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        struct run run;
        uint64_t seed = 6000 + draw;
        int from = 1 + (int)(uniform(&seed) * 8), all, step = -1;
        double height = 6 + 10 * uniform(&seed);
        open_run(&run);
        for (int i = 0; i < STEPS; i++) {
            double around = 5.3 + 3 * uniform(&seed);
            double high = i > from ? height * (1 - exp(-(i - from) / 2.0)) * exp(-i / 15.0) : 0;
            count(&run, run.loss, i, i > from ? around + 2 * high : 5.55 - 0.01 * i);
        }
        const char *claim = claim_of(&run, "DIVERGING", &all);
        assert_int_equal(all, 1);
        assert_int_equal(sscanf(claim, "the loss rises after step %d", &step), 1);
        if (step < from - 3 || step > from + 3)
            fail_msg("draw %d: rises after step %d, not %d", (int)draw, step, from);
    }
}

static void a_loss_that_is_not_finite(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        struct run run;
        uint64_t seed = 3000 + draw;
        int at = 1 + (int)(uniform(&seed) * (STEPS - 2));
        char words[100];
        open_run(&run);
        for (int i = 0; i < at; i++)
            count(&run, run.loss, i, healthy(i, &seed));
        count(&run, run.loss, at, (double)NAN);
        snprintf(words, sizeof words, "from step %d on", at);
        if (draw % 2) {
            fx_slice(&run.fixture, run.fixture.thread, at * 1000 + 800, at * 1000 + 801,
                     "nonfinite: gelu.forward, layer 2", FX_NONE);
            snprintf(words, sizeof words, "from step %d on; the first such value came from %s", at,
                     "gelu.forward, layer 2");
        }
        expect(&run, "NAN", words);
    }
}

static void updates_that_are_skipped(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        struct run run;
        uint64_t seed = 4000 + draw;
        int from = (int)(uniform(&seed) * 55), skipped = 0;
        char words[40];
        open_run(&run);
        for (int i = 0; i < STEPS; i++) {
            skipped += i >= from && (i - from) % 3 != 2;
            count(&run, run.loss, i, healthy(i, &seed));
            count(&run, run.scale, i, 1024);
            count(&run, run.overflows, i, skipped);
        }
        snprintf(words, sizeof words, "from step %d on", from);
        expect(&run, "OVERFLOW_LOOP", words);
    }
}

/* After a scale was found, one update in ten is skipped, or one in fifty, which is usual. */
static void updates_that_are_skipped_now_and_then(void **state)
{
    (void)state;
    for (int every = 10; every <= 50; every += 40) {
        struct run run;
        int skipped = 0;
        open_run(&run);
        for (int i = 0; i < STEPS; i++) {
            skipped += i < 5 || (i >= 16 && i % every == 0);
            count(&run, run.scale, i, 1024);
            count(&run, run.overflows, i, skipped);
        }
        const struct an_result *result = fx_analyze(&run.fixture);
        const struct an_finding *found = NULL;
        for (size_t i = 0; i < result->finding_count; i++)
            if (!strcmp(result->findings[i].id, "SKIPPED_UPDATES"))
                found = &result->findings[i];
        assert_int_equal(found != NULL, every == 10);
        if (found)
            assert_non_null(strstr(found->claim, "6 of 64 updates were skipped (9 %)"));
        fx_close(&run.fixture);
    }
}

static void gradients_that_vanish(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        struct run run;
        uint64_t seed = 5000 + draw;
        int from = (int)(uniform(&seed) * 70);
        char words[60];
        open_run(&run);
        for (int i = 0; i < STEPS; i++) {
            count(&run, run.loss, i, healthy(i, &seed));
            count(&run, run.scale, i, 1);
            count(&run, run.underflow, i, i < from ? 0.2 : 0.91 + 0.08 * uniform(&seed));
        }
        snprintf(words, sizeof words, "from step %d on, first in layer3", from);
        expect(&run, "DEAD_SCALE", words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_in_healthy_runs),
        cmocka_unit_test(a_loss_that_rises),
        cmocka_unit_test(a_loss_that_is_not_finite),
        cmocka_unit_test(updates_that_are_skipped),
        cmocka_unit_test(updates_that_are_skipped_now_and_then),
        cmocka_unit_test(gradients_that_vanish),
        cmocka_unit_test(a_loss_that_never_gets_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
