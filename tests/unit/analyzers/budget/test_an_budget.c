/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets worked out by hand. Every test has four steps at least, so that the first and the last
 * one are left out.
 */
#include "tests/unit/an_fixture.h"

/* Classes of the result in ns; -1 stands for absent. The valid ones sum to the steps exactly, and
 * their shares to 100. */
static void check_budget(const struct an_budget *b, int64_t compute, int64_t comm, int64_t input,
                         int64_t io, int64_t host, int64_t rest)
{
    const int64_t want[AN_CLASS_COUNT] = {
        [AN_CLASS_COMPUTE] = compute, [AN_CLASS_COMM] = comm,        [AN_CLASS_BUBBLE] = -1,
        [AN_CLASS_COPY] = -1,         [AN_CLASS_INPUT] = input,      [AN_CLASS_IO] = io,
        [AN_CLASS_HOST] = host,       [AN_CLASS_UNATTRIBUTED] = rest};
    int64_t sum = 0;
    double pct = 0;
    assert_null(b->reason);
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        assert_int_equal(b->ns[k].valid, want[k] >= 0);
        assert_int_equal(b->pct[k].valid, want[k] >= 0);
        if (want[k] < 0) {
            assert_non_null(b->ns[k].reason);
            assert_non_null(b->pct[k].reason);
            continue;
        }
        if (b->ns[k].value != want[k])
            fail_msg("%s: %lld ns, not %lld", an_class_key((enum an_class)k),
                     (long long)b->ns[k].value, (long long)want[k]);
        sum += b->ns[k].value;
        pct += b->pct[k].value;
    }
    assert_int_equal(sum, b->step_ns);
    assert_near(pct, 100, 1e-9);
}

/* 0..1000: 100 unattributed | input 100-200 with read inside | micro_step 200-900: host 200-250,
 * work 250-600 with an unmarked range inside, comm 600-700, work 700-850, host 850-900 | 100
 * unattributed. A helper thread works all the time: it does not count. */
static void nested_step(struct fixture *f, int64_t helper, int64_t b)
{
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), none = FX_NONE;
    fx_slice(f, f->thread, b + 100, b + 200, "wait", fx_kind(f, "input_wait"));
    fx_slice(f, f->thread, b + 120, b + 180, "read", fx_kind(f, "read"));
    fx_slice(f, f->thread, b + 130, b + 140, "parse", none);
    fx_slice(f, f->thread, b + 200, b + 900, "micro", fx_kind(f, "micro_step"));
    fx_slice(f, f->thread, b + 250, b + 600, "matmul", work);
    fx_slice(f, f->thread, b + 300, b + 400, "inside", none);
    fx_slice(f, f->thread, b + 600, b + 700, "all_reduce", fx_schema(f, "tacho.comm"));
    fx_slice(f, f->thread, b + 700, b + 850, "matmul", work);
    fx_slice(f, f->thread, b + 750, b + 750, "mark", none);
    fx_slice(f, f->thread, b + 850, b + 900, "framework", none);
    fx_slice(f, helper, b + 0, b + 1000, "helper", work);
}

static void test_nested_ranges(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t helper = fx_track(f, f->process, "thread", "helper", NULL);
    for (int i = 0; i < 5; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 1000, 8, false);
        nested_step(f, helper, i * 1000);
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->steps.counted, 3);
    check_budget(&r->budget, 3 * 500, 3 * 100, 3 * 100, 0, 3 * 100, 3 * 200);
    assert_int_equal(r->device_count, 1);
    assert_int_equal(r->devices[0].rank, 0); /* the launcher gave none: its ordinal */
    assert_false(r->devices[0].worst);
    assert_true(r->budget.roles_known);
    fx_close(f);
}

/* An evaluation inside a step and one between steps are cut out; nothing in them counts. */
static void test_phases_are_cut_out(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), evaluation = fx_kind(f, "evaluation");
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 2000;
        fx_step(f, f->process, f->thread, i, b, b + 1000, 8, false);
        fx_slice(f, f->thread, b + 100, b + 500, "matmul", work);
        if (i == 2) {
            fx_slice(f, f->thread, b + 500, b + 900, "evaluation", evaluation);
            fx_slice(f, f->thread, b + 510, b + 890, "matmul", work);
            fx_slice(f, f->thread, b + 1100, b + 1300, "evaluation", evaluation);
        }
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->budget.phase_ns, 400);
    assert_int_equal(r->budget.step_ns, 3 * 1000 - 400);
    check_budget(&r->budget, 3 * 400, 0, 0, 0, 0, 3 * 600 - 400);
    assert_near(r->steps.min_ms.value, 600 / 1e6, 1e-12);
    assert_near(r->steps.max_ms.value, 1000 / 1e6, 1e-12);
    assert_int_equal(r->phase_count, 1);
    assert_string_equal(r->phases[0].name, "evaluation");
    assert_int_equal(r->phases[0].count, 2);
    assert_near(r->phases[0].wall_ms, 600 / 1e6, 1e-12);
    assert_near(r->phases[0].exposed_ms, 600 / 1e6, 1e-12);
    /* gaps of 1000, one of them with a phase of 200 in it */
    assert_near(r->steps.between_ms.value, (4 * 1000 - 200) / 4.0 / 1e6, 1e-12);
    assert_int_equal(r->utilization.model_flops_per_step.value,
                     10); /* work of the evaluation is not the step's */
    fx_close(f);
}

/* The batches of an evaluation, and the files of a checkpoint, are one of them where no step begins
 * or ends between them; compilations are counted one by one. In the step in which recording paused
 * one more is to be expected. */
static void test_ranges_of_one_phase(void **state)
{
    static const char *const kinds[] = {"evaluation", "checkpoint", "compile"};
    struct fixture fx, *f = &fx;
    (void)state;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        fx_open(f);
        int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), phase = fx_kind(f, kinds[kind]);
        for (int i = 0; i < 15; i++) {
            int64_t b = i * 1000;
            bool paused = i == 8;
            fx_step(f, f->process, f->thread, i, b, b + 1000, 8, paused);
            for (int k = 0; k < 3 && i % 3 == 2 && !paused; k++)
                fx_slice(f, f->thread, b + 100 * k, b + 100 * k + 50, "a part", phase);
            if (!paused)
                fx_slice(f, f->thread, b + 500, b + 900, "matmul", work);
        }
        const struct an_phase *row = &fx_analyze(f)->phases[0];
        assert_string_equal(row->name, kinds[kind]);
        assert_int_equal(row->count, kind < 2 ? 4 : 12);
        assert_int_equal(row->lane_count, kind < 2 ? 5 : 12);
        assert_near(row->lane_ms, (kind < 2 ? 15 : 12) * 50 / 1e6, 1e-12);
        assert_near(row->lane_sd_ms, 0, 1e-12);
        fx_close(f);
    }
}

/* A checkpoint that hands over to another thread leaves its part in the step: class io. */
static void test_asynchronous_checkpoint(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), checkpoint = fx_kind(f, "checkpoint");
    int64_t writer = fx_track(f, f->process, "thread", "writer", NULL);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 1000, 8, false);
        fx_slice(f, f->thread, b + 100, b + 500, "matmul", work);
    }
    fx_slice(f, f->thread, 1600, 1700, "checkpoint", checkpoint);
    fx_slice(f, f->thread, 1620, 1660, "copy", work);
    fx_slice(f, writer, 1690, 2900, "checkpoint", checkpoint);
    fx_slice(f, f->thread, 3600, 3800, "checkpoint", checkpoint); /* and one that does not */
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->budget.phase_ns, 200);
    check_budget(&r->budget, 3 * 400, 0, 0, 100, 0, 3 * 600 - 100 - 200);
    assert_near(r->phases[0].wall_ms, (2900 - 1600 + 200) / 1e6, 1e-12);
    assert_near(r->phases[0].exposed_ms, 300 / 1e6, 1e-12);
    fx_close(f);
}

/* Two threads that both run steps, as data parallel ones do: the evaluation of one is not what the
 * other has handed over. */
static void test_phases_of_two_lanes(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t evaluation = fx_kind(f, "evaluation"),
            other = fx_track(f, f->process, "thread", "second", NULL);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 900, 8, false);
        fx_slice(f, f->thread, b + 100, b + 300, "evaluation", evaluation);
        fx_step(f, f->process, other, 100 + i, b + 50, b + 950, 8, false);
        fx_slice(f, other, b + 150, b + 350, "evaluation", evaluation);
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->budget.ns[AN_CLASS_IO].value, 0);
    assert_int_equal(r->budget.phase_ns, 2 * 3 * 200);
    fx_close(f);
}

/* Ranges without an end: what they were is not known; what is nested in them is. A range that lost
 * its end before the steps does not swallow them. */
static void test_missing_ends(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10);
    fx_slice(f, f->thread, -500, FX_NONE, "program", work);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, i == 4 ? FX_NONE : b + 1000, 8, false);
        fx_slice(f, f->thread, b + 100, i == 1 ? FX_NONE : b + 500, "matmul", work);
        fx_slice(f, f->thread, b + 200, b + 300, "matmul", work);
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->steps.count, 4);
    assert_int_equal(r->steps.counted, 2); /* 0 first, 3 last, 4 without an end */
    assert_int_equal(r->trust.open_ranges, 3);
    check_budget(&r->budget, 100 + 400, 0, 0, 0, 0, 900 + 600);
    fx_close(f);
}

/* Paused steps have no parts in the file: their time counts, the budget stands on the others. */
static void test_paused_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10);
    for (int i = 0; i < 10; i++) {
        int64_t b = i * 1000;
        bool paused = i % 3 == 2;
        fx_step(f, f->process, f->thread, i, b, b + (paused ? 800 : 1000), 8, paused);
        if (!paused)
            fx_slice(f, f->thread, b + 100, b + 500, "matmul", work);
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->steps.counted, 8);
    assert_int_equal(r->steps.paused, 3);
    assert_int_equal(r->steps.detailed, 5);
    check_budget(&r->budget, 5 * 400, 0, 0, 0, 0, 5 * 600);
    assert_near(r->steps.mean_ms.value, (3 * 800 + 5 * 1000) / 8.0 / 1e6, 1e-12);
    assert_false(r->trust.overhead_pct.valid);
    assert_non_null(strstr(r->trust.overhead_pct.reason, "10 of each"));
    fx_close(f);
}

/* No payload says what a range is: the time in ranges is host, what they are is absent with a
 * reason. */
static void test_ranges_without_roles(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 5; i++) {
        fx_slice(f, f->thread, i * 1000, i * 1000 + 1000, "iteration", FX_NONE);
        fx_slice(f, f->thread, i * 1000 + 100, i * 1000 + 700, "forward", FX_NONE);
    }
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->steps.source, "nvtx:iteration");
    assert_false(r->budget.roles_known);
    check_budget(&r->budget, -1, -1, -1, -1, 3 * 600, 3 * 400);
    assert_string_equal(r->verdict_class, "STEPS ONLY");
    assert_false(r->healthy);
    assert_false(r->utilization.mfu.valid);
    fx_close(f);
}

/* Ranges of two domains need not nest: the one that began last decides, and no ns is given twice.
 */
static void test_overlap_without_nesting(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 1000, 8, false);
        fx_slice(f, f->thread, b + 100, b + 400, "matmul", fx_work(f, "matrix", "fp32", 1, 1, 1));
        fx_slice(f, f->thread, b + 300, b + 600, "wait", fx_kind(f, "input_wait"));
        fx_slice(f, f->thread, b + 900, b + 1100, "late",
                 fx_kind(f, "host")); /* goes on after the step */
    }
    const struct an_result *r = fx_analyze(f);
    check_budget(&r->budget, 3 * 200, 0, 3 * 300, 0, 3 * 100, 3 * 400);
    fx_close(f);
}

/* Two ranks: the mean of their shares, not the share of their sums; the one that computes least is
 * named. */
static void test_two_ranks(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10);
    for (int rank = 0; rank < 2; rank++) {
        int64_t p = fx_process(f, rank, "train"), t = fx_track(f, p, "thread", "main", NULL),
                length = rank ? 3000 : 1000;
        for (int i = 0; i < 5; i++) {
            fx_step(f, p, t, i, i * length, i * length + length, 100, false);
            fx_slice(f, t, i * length + 100, i * length + (rank ? 1600 : 900), "matmul", work);
        }
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->run.ranks, 2);
    assert_int_equal(r->device_count, 2);
    assert_int_equal(r->devices[0].rank, 0);
    assert_int_equal(r->devices[1].rank, 1);
    assert_near(r->devices[0].budget.pct[AN_CLASS_COMPUTE].value, 80, 1e-9);
    assert_near(r->devices[1].budget.pct[AN_CLASS_COMPUTE].value, 50, 1e-9);
    assert_near(r->budget.pct[AN_CLASS_COMPUTE].value, 65, 1e-9);
    assert_true(r->devices[1].worst && !r->devices[0].worst);
    assert_near(r->steps.tokens_per_s.value, 100 / 1000e-9 + 100 / 3000e-9, 1);
    fx_close(f);
}

/* Random nesting on one thread against a table with one cell a ns. */
static void test_random_against_cells(void **state)
{
    enum { LENGTH = 400, STEPS = 4 };
    uint64_t seed = 11;
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct fixture fx, *f = &fx;
        int64_t want[3] = {0, 0, 0}; /* compute, host, unattributed of steps 1 and 2 */
        fx_open(f);
        for (int i = 0; i < STEPS; i++) {
            char cell[LENGTH];
            memset(cell, 2, sizeof cell);
            fx_step(f, f->process, f->thread, i, i * LENGTH, i * LENGTH + LENGTH, 8, false);
            for (int k = 0; k < 6; k++) { /* disjoint pieces, each with one nested range */
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                int a = k * 60 + (int)(seed >> 60), b = a + 10 + (int)(seed >> 40 & 31),
                    c = a + (int)(seed >> 20 & 7), d = b - (int)(seed & 7);
                bool outer = seed >> 50 & 1, inner = seed >> 51 & 1;
                fx_slice(f, f->thread, i * LENGTH + a, i * LENGTH + b, "a",
                         outer ? fx_work(f, "other", "fp32", 1, 0, 0) : fx_kind(f, "host"));
                if (c < d)
                    fx_slice(f, f->thread, i * LENGTH + c, i * LENGTH + d, "b",
                             inner ? fx_work(f, "other", "fp32", 1, 0, 0) : fx_kind(f, "host"));
                for (int t = a; t < b; t++)
                    cell[t] = (char)(t >= c && t < d ? !inner : !outer);
            }
            for (int t = 0; t < LENGTH && (i == 1 || i == 2); t++)
                want[(int)cell[t]]++;
        }
        const struct an_result *r = fx_analyze(f);
        if (want[0])
            check_budget(&r->budget, want[0], 0, 0, 0, want[1], want[2]);
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested_ranges),
        cmocka_unit_test(test_phases_are_cut_out),
        cmocka_unit_test(test_ranges_of_one_phase),
        cmocka_unit_test(test_asynchronous_checkpoint),
        cmocka_unit_test(test_phases_of_two_lanes),
        cmocka_unit_test(test_missing_ends),
        cmocka_unit_test(test_paused_steps),
        cmocka_unit_test(test_ranges_without_roles),
        cmocka_unit_test(test_overlap_without_nesting),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_random_against_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
