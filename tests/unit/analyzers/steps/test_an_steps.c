/* SPDX-License-Identifier: Apache-2.0
 *
 * Where steps come from, which of them count, and the rates.
 */
#include "tests/unit/an_gpu.h"

static void plain(struct fixture *f, const char *name, int64_t start, int64_t end)
{
    fx_slice(f, f->thread, start, end, name, FX_NONE);
}

static void test_marked_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 10;
         i++) { /* 1000, 1010, ... 1090 ns; names that other sources would take do not matter */
        fx_step(f, f->process, f->thread, i + 5, i * 2000, i * 2000 + 1000 + i * 10, 100, false);
        plain(f, "iteration", i * 2000 + 10, i * 2000 + 900);
    }
    const struct an_steps *s = &fx_analyze(f)->steps;
    assert_string_equal(s->source, "tacho.step");
    assert_int_equal(s->count, 10);
    assert_int_equal(s->counted, 8);
    assert_int_equal(s->first_index, 6);
    assert_int_equal(s->last_index, 13);
    assert_near(s->median_ms.value, 1045e-6, 1e-12);
    assert_near(s->mean_ms.value, 1045e-6, 1e-12);
    assert_near(s->p95_ms.value, (1070 + 0.65 * 10) * 1e-6, 1e-12);
    assert_near(s->tokens_per_s.value, 800 / (8 * 1045e-9), 1);
    assert_near(s->samples_per_s.value, 200 / (8 * 1045e-9), 1);
    assert_near(s->tokens_per_step.value, 100, 0);
    assert_int_equal(s->excluded_count, 2);
    assert_int_equal(s->excluded[0].index, 5);
    assert_string_equal(s->excluded[0].reason, "first");
    assert_int_equal(s->excluded[1].index, 14);
    assert_string_equal(s->excluded[1].reason, "last");
    assert_int_equal(s->group_count, 0);
    fx_close(f);
}

/* Rates are ratios of sums: a long step with few tokens weighs by its time. */
static void test_varying_sizes(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    const int64_t length[] = {500, 1000, 3000, 1000, 3000, 1000, 500},
                  tokens[] = {1, 100, 900, 100, 900, 100, 1};
    int64_t at = 0;
    for (int i = 0; i < 7; i++) {
        fx_step(f, f->process, f->thread, i, at, at + length[i], tokens[i], false);
        at += length[i];
    }
    const struct an_steps *s = &fx_analyze(f)->steps;
    assert_near(s->tokens_per_s.value, 2100 / 9000e-9, 1);
    assert_int_equal(s->group_count, 2);
    assert_int_equal(s->groups[0].tokens.value, 100);
    assert_int_equal(s->groups[0].count, 3);
    assert_near(s->groups[0].median_ms, 1000e-6, 1e-12);
    assert_int_equal(s->groups[1].tokens.value, 900);
    assert_near(s->groups[1].median_ms, 3000e-6, 1e-12);
    assert_near(s->between_ms.value, 0, 0);
    fx_close(f);
}

/* The hook of PyTorch writes what a step is given where it changes: before the end of the first
 * step, and of the sixth one. A step that says it itself keeps it. */
static void test_counters_of_the_hook(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t samples = fx_track(f, f->process, "counter", "step.samples", ""),
            micro_steps = fx_track(f, f->process, "counter", "micro_steps", "");
    for (int i = 0; i < 10; i++)
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 1000, FX_NONE, false);
    fx_counter(f, micro_steps, 980, 4);
    fx_counter(f, samples, 990, 32);
    fx_counter(f, samples, 5990, 64);
    const struct an_steps *s = &fx_analyze(f)->steps;
    assert_int_equal(s->counted, 8);
    assert_int_equal(s->micro_steps, 4);
    assert_near(s->samples_per_step.value, (4 * 32 + 4 * 64) / 8.0, 0);
    assert_near(s->samples_per_s.value, (4 * 32 + 4 * 64) / 8000e-9, 1);
    assert_false(s->tokens_per_step.valid);
    fx_close(f);
    fx_open(f);
    for (int i = 0; i < 10; i++)
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 1000, 40, false);
    fx_counter(f, fx_track(f, f->process, "counter", "step.samples", ""), 990, 32);
    assert_near(fx_analyze(f)->steps.samples_per_step.value, 10, 0);
    fx_close(f);
}

static void test_outlier_is_listed_and_counted(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t at = 0;
    for (int i = 0; i < 20; i++) {
        int64_t length = i == 9 ? 5000 : 1000 + i % 3;
        fx_step(f, f->process, f->thread, i, at, at + length, 100, false);
        at += length;
    }
    const struct an_steps *s = &fx_analyze(f)->steps;
    assert_int_equal(s->counted, 18);
    assert_int_equal(s->outlier_count, 1);
    assert_int_equal(s->outliers[0].index, 9);
    assert_near(s->outliers[0].ms, 5000e-6, 1e-12);
    assert_near(s->max_ms.value, 5000e-6, 1e-12);
    fx_close(f);
}

/* A thread that the program has left in its first step, to train on another one: the process works
 * for the thread with most steps, here as LEAK sees it. */
static void test_thread_that_was_left(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t other = fx_track(f, f->process, "thread", "trains", NULL),
            held = fx_track(f, f->process, "counter", "memory.total", "bytes");
    fx_step(f, f->process, f->thread, 0, 0, FX_NONE, FX_NONE, false);
    for (int i = 1; i < 100; i++) {
        fx_step(f, f->process, other, i, i * 1000, i * 1000 + 900, FX_NONE, false);
        fx_counter(f, held, i * 1000 + 850, i * 1048576.0 * 4);
    }
    const struct an_result *result = fx_analyze(f);
    assert_int_equal(result->steps.counted, 97);
    assert_null(result->leak.reason);
    assert_true(result->leak.found);
    assert_near(result->leak.bytes_per_step.value, 4 * 1048576, 1);
    fx_close(f);
}

static void test_few_steps(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        for (int i = 0; i < n; i++)
            fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, FX_NONE, false);
        const struct an_steps *s = &fx_analyze(f)->steps;
        assert_int_equal(s->count, n);
        assert_int_equal(s->counted, n == 1 ? 1 : n == 4 ? 2 : n - 1);
        assert_true(s->median_ms.valid);
        assert_false(s->tokens_per_s.valid);
        assert_non_null(s->tokens_per_s.reason);
        assert_int_equal(s->sd_ms.valid, s->counted > 1);
        fx_close(f);
    }
}

static void test_compiling_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 8; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 10, false);
        if (i == 3)
            fx_slice(f, f->thread, i * 1000 + 100, i * 1000 + 200, "compile",
                     fx_kind(f, "compile"));
    }
    const struct an_steps *s = &fx_analyze(f)->steps;
    assert_int_equal(s->counted, 5);
    assert_int_equal(s->excluded_count, 3);
    assert_string_equal(s->excluded[1].reason, "compile");
    assert_int_equal(s->excluded[1].index, 3);
    fx_close(f);
}

static void test_overlapping_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 6; i++)
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + (i == 2 ? 1500 : 900), 10, false);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->steps.excluded_count, 3);
    assert_string_equal(r->steps.excluded[1].reason, "overlap");
    assert_int_equal(r->trust.problem_count, 1);
    fx_close(f);
}

/* ---- other sources ------------------------------------------------------------------------------------------------------ */

static void test_profiler_step(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i + 10);
        plain(f, name, i * 1000, i * 1000 + 950);
        plain(f, "Optimizer.step#AdamW.step", i * 1000 + 800, i * 1000 + 900);
        plain(f, "train_step", i * 1000 + 100, i * 1000 + 900);
    }
    const struct an_steps *s = &fx_analyze(f)->steps;
    assert_string_equal(s->source, "ProfilerStep");
    assert_int_equal(s->count, 6);
    assert_int_equal(s->first_index, 11);
    assert_int_equal(s->last_index, 14);
    assert_near(s->median_ms.value, 950e-6, 1e-12);
    assert_false(s->tokens_per_s.valid);
    fx_close(f);
}

/* One step of 10 ms on the host, and one kernel of it. Nothing says where the step ends on the
 * device: with the kernel, unless that is next to nothing of the step. */
static void test_step_of_a_short_kernel(void **state)
{
    static const struct {
        int64_t kernel_us;
        double step_ms;
    } kernels[] = {{4, 10}, {2000, 2}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        fx_open(f);
        FX(store_run_set(f->s, "source", "kineto"));
        int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
        gpu_row(f, f->thread, 0, 10000, "ProfilerStep#1", "annotation", FX_NONE);
        gpu_launch(f, stream, 100, 110, 200, 200 + kernels[i].kernel_us, "some_kernel", 1);
        gpu_row(f, f->thread, 10000, 20000, "after the step", "annotation", FX_NONE);
        const struct an_result *result = fx_analyze(f);
        assert_int_equal(result->steps.counted, 1);
        assert_near(result->steps.median_ms.value, kernels[i].step_ms, 1e-9);
        fx_close(f);
    }
}

/* The second step has a short kernel late in it, the third one none: the second ends with its
 * kernel. If it lasted as long as on the host, it would end behind the beginning of the fourth. */
static void test_step_before_one_without_kernels(void **state)
{
    static const int64_t at_us[] = {200, 29000, 0, 30200, 40200, 50200, 60200};
    struct fixture fixture, *f = &fixture;
    char name[32];
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, i * 10000, (i + 1) * 10000, name, "annotation", FX_NONE);
        if (at_us[i])
            gpu_launch(f, stream, i * 10000 + 100, i * 10000 + 110, at_us[i],
                       at_us[i] + (i == 1 ? 4 : 900), "some_kernel", i + 1);
    }
    const struct an_result *result = fx_analyze(f);
    for (size_t i = 0; i < result->steps.excluded_count; i++)
        assert_string_not_equal(result->steps.excluded[i].reason, "overlap");
    fx_close(f);
}

/* From the end of one update to the end of the next. */
static void test_optimizer_step(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 7; i++) {
        plain(f, "forward", i * 1000, i * 1000 + 500);
        plain(f, "Optimizer.step#AdamW.step", i * 1000 + 800, i * 1000 + 900);
        plain(f, "Optimizer.step", i * 1000 + 810, i * 1000 + 850);
    }
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->steps.source, "Optimizer.step");
    assert_int_equal(r->steps.count, 6);
    assert_near(r->steps.median_ms.value, 1000e-6, 1e-12);
    assert_int_equal(r->budget.ns[AN_CLASS_HOST].value, 4 * 600);
    assert_int_equal(r->budget.ns[AN_CLASS_UNATTRIBUTED].value, 4 * 400);
    fx_close(f);
}

static const char *source_of(const char *const *names, const int64_t (*when)[2], size_t n,
                             int rounds)
{
    static char source[200];
    struct fixture fx, *f = &fx;
    fx_open(f);
    for (int i = 0; i < rounds; i++)
        for (size_t k = 0; k < n; k++) {
            char name[64];
            snprintf(name, sizeof name, names[k], i);
            plain(f, name, i * 1000 + when[k][0], i * 1000 + when[k][1]);
        }
    const struct an_result *r = fx_analyze(f);
    snprintf(source, sizeof source, "%s", r->steps.source ? r->steps.source : "");
    assert_int_equal(r->steps.source == NULL, r->steps.reason != NULL);
    fx_close(f);
    return source;
}

static void test_regular_range(void **state)
{
    static const int64_t two[][2] = {{0, 900}, {100, 800}}, small[][2] = {{0, 100}, {200, 900}};
    (void)state;
    assert_string_equal(source_of((const char *const[]){"train_step", "step"}, two, 2, 5),
                        "nvtx:train_step"); /* the outermost */
    assert_string_equal(source_of((const char *const[]){"epoch", "Iteration"}, two, 2, 5),
                        "nvtx:Iteration");
    assert_string_equal(source_of((const char *const[]){"step %d", "forward"}, two, 2, 5),
                        "nvtx:step");
    assert_string_equal(source_of((const char *const[]){"my iteration_%d", "x"}, two, 2, 5),
                        "nvtx:my iteration");
    assert_string_equal(source_of((const char *const[]){"optimizer step", "forward"}, small, 2, 5),
                        ""); /* covers a tenth */
    assert_string_equal(source_of((const char *const[]){"step", "forward"}, two, 2, 2),
                        ""); /* twice is not regular */
    assert_string_equal(source_of((const char *const[]){"steps", "stepper"}, two, 2, 5),
                        ""); /* not a whole word */
    assert_string_equal(source_of((const char *const[]){"lockstep", "substep_a"}, two, 2, 5), "");
    assert_string_equal(source_of((const char *const[]){"optimizer_step", "x"}, two, 2, 5), "");
}

static void test_no_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    plain(f, "load", 0, 1000);
    plain(f, "train", 1000, 9000);
    const struct an_result *r = fx_analyze(f);
    assert_null(r->steps.source);
    assert_non_null(strstr(r->verdict, "no steps were marked, 2 ranges were recorded"));
    assert_string_equal(r->verdict_class, "NO STEPS");
    assert_false(r->healthy);
    assert_non_null(r->budget.reason);
    assert_int_equal(r->op_count, 2); /* the ranges are reported all the same */
    fx_close(f);
}

static void sample_cpu(struct fixture *f, double cores)
{
    int64_t t = fx_track(f, f->process, "counter", "cpu_time", "ns");
    FX(store_run_set(f->s, "cpu.usable", "4"));
    for (int i = 0; i <= 10; i++)
        fx_counter(f, t, i * 100000000ll, cores * i * 100000000.0);
}

static void test_no_nvtx(void **state)
{
    static const struct {
        double cores;
        const char *class;
    } cases[] = {{3.9, "CPU-BOUND"}, {1.0, "ONE CORE"}, {0.1, "IDLE"}, {2.5, "NO STEPS"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        sample_cpu(f, cases[i].cores);
        const struct an_result *r = fx_analyze(f);
        assert_string_equal(r->verdict_class, cases[i].class);
        assert_non_null(strstr(r->verdict, "It recorded no NVTX ranges"));
        assert_near(r->system.cpu_cores.value, cases[i].cores, 1e-9);
        assert_int_equal(r->trust.events, 11);
        fx_close(f);
    }
}

static void test_empty_run(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->trust.events, 0);
    assert_non_null(r->verdict);
    assert_false(r->system.cpu_cores.valid);
    fx_close(f);
}

/* Limits (--steps, --max-size) leave out slices, never aggregates: such steps count, but the budget
 * does not stand on them. */
static void cut_steps(bool merged)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10), name = fx_string(f, "matmul"),
            category = fx_string(f, "test");
    int64_t outer = fx_string(f, "outer");
    for (int i = 0; i < 10; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 10, false);
        fx_slice(f, f->thread, i * 1000, i * 1000 + 800, "outer",
                 0); /* kept, while what ran below it is cut */
        for (int k = 0; k < 4 && i < 5; k++)
            fx_slice(f, f->thread, i * 1000 + k * 200, i * 1000 + k * 200 + 100, "matmul", work);
        if (merged && i > 5)
            continue;
        int64_t steps = merged && i == 5 ? 5 : 1;
        struct store_step_aggregate g = {.process = f->process,
                                         .step = i,
                                         .track = f->thread,
                                         .name = name,
                                         .category = category,
                                         .detail = work,
                                         .count = 4 * steps,
                                         .total = 400 * steps,
                                         .self = 400 * steps,
                                         .steps = steps};
        FX(store_step_aggregate_add(f->s, &g));
        g.name = outer, g.detail = 0, g.count = steps, g.total = 800 * steps;
        FX(store_step_aggregate_add(f->s, &g));
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->steps.counted, 8);
    assert_int_equal(r->steps.detailed, 4);
    assert_int_equal(r->budget.steps, 4);
    assert_int_equal(r->budget.ns[AN_CLASS_COMPUTE].value, 4 * 400);
    assert_int_equal(r->utilization.model_flops_per_step.value, 40);
    for (size_t i = 0; i < r->op_count; i++)
        if (!strcmp(r->ops[i].name, "matmul")) { /* the whole run, from the aggregates */
            assert_int_equal(r->ops[i].count, 40);
            assert_int_equal(r->ops[i].total_ns, 4000);
            assert_int_equal(r->ops[i].flops.value, 400);
        } else if (!strcmp(r->ops[i].name, "outer")) {
            assert_int_equal(r->ops[i].count, 10);
            assert_int_equal(r->ops[i].total_ns, 8000);
            assert_int_equal(r->ops[i].self_ns, 4000);
        }
    fx_close(f);
}

static void test_cut_steps(void **state)
{
    (void)state;
    cut_steps(false);
    cut_steps(true); /* the totals of the steps without detail are those of all of them */
}

static void test_overhead(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t at = 0;
    for (int i = 0; i < 102; i++) { /* paused steps are 2 % faster */
        bool paused = i % 4 == 3;
        int64_t length = (paused ? 100000 : 102000) + i * 37 % 100;
        fx_step(f, f->process, f->thread, i, at, at + length, 100, paused);
        at += length;
    }
    const struct an_trust *t = &fx_analyze(f)->trust;
    assert_true(t->overhead_pct.valid);
    assert_near(t->overhead_pct.value, 2, 0.1);
    assert_true(t->overhead_low_pct.value > 1.9 && t->overhead_high_pct.value < 2.1);
    assert_true(t->overhead_low_pct.value <= t->overhead_pct.value &&
                t->overhead_pct.value <= t->overhead_high_pct.value);
    fx_close(f);
}

/* Steps that vary by half of themselves cannot show a cost of per cents: the interval stays, the
 * number is absent. */
static void test_overhead_in_noise(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t at = 0;
    for (int i = 0; i < 60; i++) {
        int64_t length = 100000 + i * 7919 % 50000;
        fx_step(f, f->process, f->thread, i, at, at + length, 100, i % 4 == 3);
        at += length;
    }
    const struct an_trust *t = &fx_analyze(f)->trust;
    assert_false(t->overhead_pct.valid);
    assert_non_null(strstr(t->overhead_pct.reason, "vary too much"));
    assert_true(t->overhead_low_pct.valid &&
                t->overhead_high_pct.value - t->overhead_low_pct.value > 10);
    fx_close(f);
}

static void test_losses(void **state)
{
    static const struct {
        const char *source, *reason;
        int64_t count;
    } rows[] = {
        {"agent", "event dropped: pool at its cap", 7},
        {"agent", "event not recorded: overhead measurement paused recording for the step", 100},
        {"collector", "slice not stored: outside of --steps or --every", 1000},
        {"agent", "name cut at 1024 bytes", 3},
        {"system", "not sampled: /proc/PID/io: Permission denied", FX_NONE},
        {"counter cycles", "not supported", FX_NONE}};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct store_loss l = {.source = rows[i].source,
                               .reason = rows[i].reason,
                               .count = rows[i].count,
                               .t0 = FX_BASE,
                               .t1 = FX_NONE};
        FX(store_loss_add(f->s, &l));
    }
    const struct an_trust *t = &fx_analyze(f)->trust;
    assert_int_equal(t->loss_count, 6);
    assert_true(t->lost_events.valid);
    assert_int_equal(t->lost_events.value, 7);
    assert_int_equal(t->problem_count, 1);
    assert_non_null(strstr(t->problems[0], "LOST_EVENTS: 7 "));
    fx_close(f);
    fx_open(f);
    FX(store_loss_add(f->s, &(struct store_loss){.source = "collector",
                                                 .reason = "segment of a thread missing",
                                                 .count = FX_NONE,
                                                 .t0 = FX_NONE,
                                                 .t1 = FX_NONE}));
    t = &fx_analyze(f)->trust;
    assert_false(t->lost_events.valid); /* it is not known how many: no number */
    assert_non_null(strstr(t->lost_events.reason, "segment of a thread missing"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marked_steps),
        cmocka_unit_test(test_varying_sizes),
        cmocka_unit_test(test_counters_of_the_hook),
        cmocka_unit_test(test_outlier_is_listed_and_counted),
        cmocka_unit_test(test_thread_that_was_left),
        cmocka_unit_test(test_few_steps),
        cmocka_unit_test(test_compiling_steps),
        cmocka_unit_test(test_overlapping_steps),
        cmocka_unit_test(test_profiler_step),
        cmocka_unit_test(test_step_of_a_short_kernel),
        cmocka_unit_test(test_step_before_one_without_kernels),
        cmocka_unit_test(test_optimizer_step),
        cmocka_unit_test(test_regular_range),
        cmocka_unit_test(test_no_steps),
        cmocka_unit_test(test_no_nvtx),
        cmocka_unit_test(test_empty_run),
        cmocka_unit_test(test_cut_steps),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_overhead_in_noise),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
