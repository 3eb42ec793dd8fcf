/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing two runs: names, statistics, and runs made so that the answer is known.
 */
#include "tests/unit/an_fixture.h"

#include "analyzers/base/stats.h"
#include "analyzers/diff/diff.h"
#include "analyzers/diff/diff_private.h"
#include "analyzers/diff/gate.h"

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static void test_names(void **state)
{
    static const char *const names[][2] = {
        {"aten::mm", "aten::mm"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
         "at::detail::Array<char*, 3> >(int, "
         "float)",
         "at::native::vectorized_elementwise_kernel"},
        {"void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"},
        {"ampere_sgemm_128x64_nn",
         "ampere_sgemm_128x64_nn"}, /* short numbers say what a kernel is */
        {"triton_poi_fused_add_0", "triton_poi_fused_add_0"},
        {"kernel_16384_abc", "kernel_#_abc"},
        {"fn at 0x7ffdeadbeef", "fn at #"},
        {"foo(int) [clone .isra.0]", "foo"},
        {"Memcpy HtoD (Pageable -> Device)",
         "Memcpy HtoD (Pageable -> Device)"}, /* the memory is the point */
        {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "enumerate(DataLoader)"},
        {"Vec::operator<<(int)", "Vec::operator<<"},
        {"a->b<int>", "a->b"},
        {"f<a, (b->c)>", "f"},
        {"open < bracket", "open < bracket"},
        {"", ""},
    };
    char out[200];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        an_diff_name(out, names[i][0]);
        assert_string_equal(out, names[i][1]);
    }
}

/* ---- statistics ------------------------------------------------------------------------------------------------------------- */

/* Standard normal, from two uniform numbers (Box & Muller 1958). */
static double normal(uint64_t *seed)
{
    double u = ((double)(an_random(seed) >> 11) + 1) / 9007199254740993.0,
           v = (double)(an_random(seed) >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* n steps of `mean` ms whose neighbours resemble each other (first-order, 0.3) with a spread of 2
 * %. */
static void steps(double *x, size_t n, double mean, uint64_t *seed)
{
    double drift = 0;
    for (size_t i = 0; i < n; i++) {
        drift = 0.3 * drift + normal(seed);
        x[i] = mean * (1 + 0.02 * drift);
    }
}

static struct an_diff_test compare(const double *a, size_t na, const double *b, size_t nb)
{
    struct an_diff_test t;
    struct an_diff_draws *da = an_diff_draws_new(na, 1), *db = an_diff_draws_new(nb, 2);
    assert_non_null(da);
    assert_non_null(db);
    assert_int_equal(an_diff_test(a, na, da, b, nb, db, &t), 0);
    an_diff_draws_free(da);
    an_diff_draws_free(db);
    return t;
}

static bool sure(const struct an_diff_test *t)
{
    return t->p < 0.05 && (t->low > 0 || t->high < 0) && fabs(t->bad - t->good) > t->floor;
}

/* 200 pairs of equal runs: not more than 5 % may be told apart. 200 pairs 5 % apart: nine of ten
 * must, from 20 steps on. */
static void test_error_rates(void **state)
{
    static const size_t sizes[][2] = {{5, 5}, {8, 6}, {20, 20}, {60, 30}};
    uint64_t seed = 12345;
    double a[60], b[60];
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int wrong = 0, found = 0;
        for (int i = 0; i < 200; i++) {
            steps(a, sizes[s][0], 100, &seed);
            steps(b, sizes[s][1], 100, &seed);
            struct an_diff_test t = compare(a, sizes[s][0], b, sizes[s][1]);
            wrong += sure(&t);
            steps(b, sizes[s][1], 106, &seed);
            t = compare(a, sizes[s][0], b, sizes[s][1]);
            found += sure(&t);
        }
        print_message(
            "%zu and %zu steps: %d of 200 equal pairs told apart, %d of 200 pairs 6 %% apart\n",
            sizes[s][0], sizes[s][1], wrong, found);
        assert_true(wrong <= 10);
        assert_true(sizes[s][1] < 20 || found >= 180);
    }
}

static void test_medians_and_drift(void **state)
{
    static const double a[] = {10, 12, 11, 30, 14, 11}, b[] = {20, 22, 21, 20, 21};
    (void)state;
    struct an_diff_test t = compare(a, 6, b, 5), again = compare(a, 6, b, 5);
    assert_near(t.good, 11.5, 0);
    assert_near(t.bad, 21, 0);
    assert_near(t.floor, 3, 0); /* a: 11 and 14; b: 21 and 21 */
    assert_true(t.low <= 9.5 && t.high >= 9.5);
    assert_memory_equal(&t, &again, sizeof t); /* the same numbers every time */
    struct an_diff_test same = compare(a, 6, a, 6);
    assert_near(same.p, 1, 1e-9);
}

/* p = 0.01, 0.04, 0.03, 0.005: the example of the method's paper-and-pencil form. */
static void test_holm(void **state)
{
    double p[] = {0.01, 0.04, NAN, 0.03, 0.005};
    double *list[] = {&p[0], &p[1], &p[2], &p[3], &p[4]};
    (void)state;
    an_diff_holm(list, 5, 4);
    assert_near(p[4], 0.02, 1e-12);
    assert_near(p[0], 0.03, 1e-12);
    assert_near(p[3], 0.06, 1e-12);
    assert_near(p[1], 0.06, 1e-12); /* never below a smaller one's */
    assert_true(isnan(p[2]));
    double one = 0.01, *alone[] = {&one};
    an_diff_holm(alone, 1, 200); /* one of 200 names that were compared */
    assert_near(one, 1, 0);
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------- */

struct plan {
    int steps;
    int64_t matmul, softmax, wait, tokens; /* us; 0: the run does not have it */
    const char *other;                     /* an op of 5 us */
    bool noise;
};

/* A CPU run: each step waits for the loader, runs two ops and 10 us of nothing. */
static const struct an_result *run_of(struct fixture *f, const struct plan *p)
{
    static const int64_t us = 1000;
    uint64_t seed = (uint64_t)p->steps;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), wait = fx_kind(f, "input_wait"),
            at = 0;
    for (int i = 0; i < p->steps; i++) {
        int64_t jitter = p->noise ? (int64_t)(an_random(&seed) % 7) * us : 0, t = at;
        struct {
            const char *name;
            int64_t us, detail;
        } parts[] = {{"next_batch", p->wait, wait},
                     {"matmul", p->matmul, work},
                     {"softmax", p->softmax, work},
                     {p->other ? p->other : "", p->other ? 5 : 0, work}};
        int64_t length = 10 * us + jitter;
        for (size_t k = 0; k < 4; k++)
            length += parts[k].us * us;
        fx_step(f, f->process, f->thread, i, at, at + length, p->tokens, false);
        for (size_t k = 0; k < 4; k++)
            if (parts[k].us) {
                int64_t end = t + parts[k].us * us + (k == 1 ? jitter : 0);
                fx_slice(f, f->thread, t, end, parts[k].name, parts[k].detail);
                t = end;
            }
        at += length;
    }
    return fx_analyze_with(f, &(struct an_options){.file = "run.tacho", .samples = true});
}

static struct an_diff *diff_of(const struct plan *good, const struct plan *bad)
{
    struct fixture a, b;
    struct an_diff *d = NULL;
    const struct an_result *ra = run_of(&a, good), *rb = run_of(&b, bad);
    assert_int_equal(an_diff_results(ra, rb, 0, &d), 0);
    fx_close(&a); /* a difference owns all it says */
    fx_close(&b);
    return d;
}

static const struct an_diff_row *row_of(const struct an_diff *d, enum an_diff_kind kind,
                                        const char *name)
{
    for (size_t i = 0; i < d->row_count; i++)
        if (d->rows[i].kind == kind && !strcmp(d->rows[i].name, name))
            return &d->rows[i];
    return NULL;
}

static bool is_above(const struct an_diff *d, double pct)
{
    return d->slower && d->step.delta_pct > pct;
}

static void test_slower_op_is_found(void **state)
{
    const struct plan good = {
        .steps = 22, .matmul = 100, .softmax = 50, .wait = 20, .tokens = 64, .noise = true};
    const struct plan bad = {
        .steps = 15, .matmul = 140, .softmax = 50, .wait = 20, .tokens = 64, .noise = true};
    (void)state;
    struct an_diff *d = diff_of(&good, &bad);
    assert_int_equal(d->unit, AN_DIFF_PER_STEP);
    assert_int_equal(d->good.steps, 20); /* the first and the last one are left out */
    assert_int_equal(d->bad.steps, 13);
    assert_null(d->significance);
    assert_true(d->slower && d->differs);
    assert_near(d->step.delta, 0.040, 0.004);
    const struct an_diff_row *matmul = row_of(d, AN_DIFF_OP, "matmul");
    assert_non_null(matmul);
    assert_true(matmul->significant);
    assert_near(matmul->delta, 0.040, 0.004);
    assert_near(matmul->good_calls, 1, 0);
    assert_int_equal(matmul->class, AN_CLASS_COMPUTE);
    const struct an_diff_row *compute = row_of(d, AN_DIFF_CLASS, "compute"),
                             *input = row_of(d, AN_DIFF_CLASS, "input");
    assert_true(compute->significant && !input->significant);
    assert_null(row_of(d, AN_DIFF_OP, "softmax")); /* did not change: no row */
    assert_non_null(strstr(d->verdict, "slower"));
    assert_non_null(strstr(d->verdict, "compute"));
    assert_non_null(strstr(d->verdict, "matmul"));
    assert_true(is_above(d, 3));
    assert_false(is_above(d, 50));
    an_diff_free(d);
    d = diff_of(&bad, &good); /* faster is no failure */
    assert_false(d->slower);
    assert_true(d->differs);
    assert_false(is_above(d, 3));
    assert_non_null(strstr(d->verdict, "less time"));
    an_diff_free(d);
}

static void test_loader_is_named(void **state)
{
    const struct plan good = {
        .steps = 12, .matmul = 100, .wait = 1, .tokens = FX_NONE, .noise = true};
    const struct plan bad = {
        .steps = 12, .matmul = 100, .wait = 90, .tokens = FX_NONE, .noise = true};
    (void)state;
    struct an_diff *d = diff_of(&good, &bad);
    assert_non_null(strstr(d->verdict, "data wait +89 µs a step (loader: next_batch)"));
    const struct an_diff_row *wait = row_of(d, AN_DIFF_LOADER, "next_batch");
    assert_true(wait->significant);
    assert_near(wait->delta, 0.089, 1e-9);
    an_diff_free(d);
}

static void test_equal_runs_differ_in_nothing(void **state)
{
    const struct plan one = {
        .steps = 22, .matmul = 100, .softmax = 50, .wait = 20, .tokens = 64, .noise = true};
    const struct plan other = {
        .steps = 30, .matmul = 100, .softmax = 50, .wait = 20, .tokens = 64, .noise = true};
    (void)state;
    struct an_diff *d = diff_of(&one, &one);
    assert_non_null(strstr(d->verdict, "no difference"));
    assert_false(d->differs);
    an_diff_free(d);
    d = diff_of(&one, &other); /* other noise */
    assert_non_null(strstr(d->verdict, "no significant difference"));
    assert_false(d->differs);
    assert_false(is_above(d, 0));
    an_diff_free(d);
}

static void test_names_that_one_run_has(void **state)
{
    const struct plan good = {.steps = 12, .matmul = 100, .tokens = 64, .other = "gelu<float, 4>"};
    const struct plan bad = {.steps = 12, .matmul = 100, .tokens = 64, .other = "relu"};
    const struct plan renamed = {
        .steps = 12, .matmul = 100, .tokens = 64, .other = "gelu<float, 8>"};
    (void)state;
    struct an_diff *d = diff_of(&good, &bad);
    assert_int_equal(d->added_total, 1);
    assert_int_equal(d->removed_total, 1);
    assert_string_equal(d->added[0].name, "relu");
    assert_string_equal(d->removed[0].name, "gelu<float, 4>");
    assert_near(d->added[0].bad, 0.005, 1e-9);
    an_diff_free(d);
    d = diff_of(&good, &renamed); /* the same op, built with other template arguments */
    assert_int_equal(d->added_total, 0);
    assert_int_equal(d->removed_total, 0);
    assert_false(d->differs);
    an_diff_free(d);
}

/* Twice the tokens in twice the time is the same speed; in 1.5 times the time it is faster. */
static void test_steps_of_other_sizes(void **state)
{
    const struct plan small = {.steps = 12, .matmul = 90, .tokens = 64, .noise = true};
    const struct plan large = {.steps = 12, .matmul = 190, .tokens = 128, .noise = true};
    (void)state;
    struct an_diff *d = diff_of(&small, &large);
    assert_int_equal(d->unit, AN_DIFF_PER_TOKENS);
    assert_near(d->unit_size, 64, 0);
    assert_non_null(d->note);
    assert_near(d->step.bad, 0.1, 0.004);
    assert_false(d->slower);
    an_diff_free(d);
}

static void test_too_few_steps(void **state)
{
    const struct plan good = {.steps = 6, .matmul = 100, .tokens = 64},
                      bad = {.steps = 20, .matmul = 200, .tokens = 64};
    (void)state;
    struct an_diff *d = diff_of(&good, &bad);
    assert_int_equal(d->good.steps, 4);
    assert_non_null(d->significance);
    assert_false(d->slower || d->differs || d->step.significant);
    assert_true(isnan(d->step.p) && isnan(d->step.low));
    assert_non_null(strstr(
        d->verdict, "slower")); /* the numbers are said all the same, and the doubt with them */
    assert_non_null(strstr(d->verdict, "not enough steps"));
    assert_false(is_above(d, 3));
    an_diff_free(d);
}

static void test_no_steps(void **state)
{
    const struct plan good = {.steps = 12, .matmul = 100, .tokens = 64}, bad = {.steps = 0};
    struct fixture a, b;
    struct an_diff *d = NULL;
    (void)state;
    const struct an_result *ra = run_of(&a, &good);
    fx_open(&b);
    fx_slice(&b, b.thread, 0, 500000, "matmul", FX_NONE);
    const struct an_result *rb = fx_analyze_with(&b, &(struct an_options){.samples = true});
    assert_int_equal(an_diff_results(ra, rb, 0, &d), 0);
    assert_int_equal(d->unit, AN_DIFF_CAPTURE);
    assert_non_null(strstr(d->note, "the candidate has no steps"));
    assert_non_null(d->significance);
    assert_false(d->slower);
    an_diff_free(d);
    fx_close(&a);
    fx_close(&b);
    d = diff_of(&bad, &bad); /* nothing at all */
    assert_non_null(d->verdict);
    assert_false(d->slower);
    an_diff_free(d);
}

/* A window without steps, in which `rounds` times six operators run. */
static const struct an_result *window_of(struct fixture *f, int rounds, int64_t each)
{
    static const char *const names[] = {"embed", "matmul", "softmax", "norm", "loss", "update"};
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10);
    for (int64_t i = 0; i < rounds * 6; i++)
        fx_slice(f, f->thread, i * each, (i + 1) * each, names[i % 6], work);
    return fx_analyze_with(f, &(struct an_options){.samples = true});
}

/* Two windows of equal length, with 12 % less work done in the second: it is slower, although it
 * does not take longer. */
static void test_windows_of_equal_length(void **state)
{
    struct fixture a, b;
    struct an_diff *d = NULL;
    (void)state;
    const struct an_result *good = window_of(&a, 100, 100000), *bad = window_of(&b, 88, 113400);
    assert_int_equal(an_diff_results(good, bad, 0, &d), 0);
    assert_int_equal(d->unit, AN_DIFF_CAPTURE);
    assert_near(d->step.delta_pct, 13.4, 0.1);
    assert_non_null(strstr(d->verdict, "13 % slower"));
    assert_non_null(strstr(d->note, "windows of equal length"));
    assert_non_null(strstr(d->note, "0.88 times the work"));
    assert_near(d->rows[0].bad_calls, d->rows[0].good_calls, 1e-9);
    an_diff_free(d);
    fx_close(&a);
    fx_close(&b);
}

/* Two ranks, of which rank 1 is slower in BAD: the step is the mean of both, the row of the rank
 * says which. */
static const struct an_result *two_ranks(struct fixture *f, int64_t slow)
{
    fx_open(f);
    for (int64_t rank = 0; rank < 2; rank++) {
        int64_t process = fx_process(f, rank, "train"),
                track = fx_track(f, process, "thread", "main", NULL);
        int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), at = 0;
        for (int i = 0; i < 14; i++) {
            int64_t length = 100000 + (i * 7 + rank * 3) % 5 * 100 + (rank ? slow : 0);
            fx_step(f, process, track, i, at, at + length, 64, false);
            fx_slice(f, track, at, at + length - 1000, "matmul", work);
            at += length;
        }
    }
    return fx_analyze_with(f, &(struct an_options){.samples = true});
}

static void test_ranks(void **state)
{
    struct fixture a, b;
    struct an_diff *d = NULL;
    (void)state;
    assert_int_equal(an_diff_results(two_ranks(&a, 0), two_ranks(&b, 20000), 0, &d), 0);
    assert_int_equal(d->good.steps, 12); /* steps, not steps times ranks */
    assert_near(d->step.delta, 0.010, 0.001);
    const struct an_diff_row *zero = row_of(d, AN_DIFF_RANK, "rank 0"),
                             *one = row_of(d, AN_DIFF_RANK, "rank 1");
    assert_non_null(zero);
    assert_non_null(one);
    assert_false(zero->significant);
    assert_true(one->significant);
    assert_near(one->delta, 0.020, 0.001);
    assert_near(row_of(d, AN_DIFF_OP, "matmul")->good_calls, 2, 0); /* of both ranks */
    an_diff_free(d);
    fx_close(&a);
    fx_close(&b);
}

/* Four workers that finish together: one step in four waits 20 ms, the others 1 ms. The step of the
 * run is the 5.75 ms that each costs, and not the 1 ms that most take. */
static void test_steps_of_several_workers(void **state)
{
    double ms[42];
    int64_t tokens[42];
    (void)state;
    for (size_t i = 0; i < 42; i++) {
        ms[i] = i % 4 ? 1 : 20;
        tokens[i] = 64;
    }
    const struct an_samples samples = {
        .steps = 42, .step_ms = ms, .tokens = tokens, .samples = tokens};
    struct an_result run = {.samples = &samples};
    assert_float_equal(an_diff_run_step(&run, &run, false), 1, 1e-9);
    run.loader.workers = (struct an_count){.valid = true, .value = 4};
    assert_float_equal(an_diff_run_step(&run, &run, false), 5.75, 1e-9);
    assert_float_equal(an_diff_run_step(&run, &run, true), 251 / 42.0f, 1e-6);
    run.loader.workers.value = 30; /* more than half of the steps: no two blocks */
    assert_float_equal(an_diff_run_step(&run, &run, false), 1, 1e-9);
}

/* Without being asked an analysis keeps no samples, and there is nothing to compare. */
static void test_samples_are_asked_for(void **state)
{
    const struct plan p = {.steps = 6, .matmul = 100, .tokens = 64};
    struct fixture f;
    struct an_diff *d;
    (void)state;
    run_of(&f, &p);
    const struct an_result *r = fx_analyze(&f);
    assert_null(r->samples);
    assert_int_equal(an_diff_results(r, r, 0, &d), TACHO_EUSAGE);
    assert_null(d);
    fx_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_error_rates),
        cmocka_unit_test(test_medians_and_drift),
        cmocka_unit_test(test_holm),
        cmocka_unit_test(test_slower_op_is_found),
        cmocka_unit_test(test_loader_is_named),
        cmocka_unit_test(test_equal_runs_differ_in_nothing),
        cmocka_unit_test(test_names_that_one_run_has),
        cmocka_unit_test(test_steps_of_other_sizes),
        cmocka_unit_test(test_too_few_steps),
        cmocka_unit_test(test_no_steps),
        cmocka_unit_test(test_windows_of_equal_length),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_steps_of_several_workers),
        cmocka_unit_test(test_samples_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
