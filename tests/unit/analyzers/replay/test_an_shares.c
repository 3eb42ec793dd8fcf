/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores and links that the replay shares, on small runs whose times are known by hand.
 */
#include "analyzers/replay/replay_shares.h"
#include "tests/unit/an_graph.h"

#define MS    1000000
#define STEPS 40

/* Steps of 20 ms whose thread computes, beside a loader thread that decodes without a pause, two
 * batches ahead. /proc says how many cores the process used, and for which part of its time its
 * first thread waited for one; below 0: nobody asked it. */
static void two_threads(struct fixture *f, int64_t cores, double used, double waited)
{
    fx_open(f);
    int64_t wait = fx_kind(f, "input_wait"), decode = fx_kind(f, "decode"),
            collate = fx_kind(f, "collate");
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1),
            loader = fx_track(f, f->process, "thread", "loader-0", NULL);
    for (int64_t i = 0; i < STEPS + 2; i++) {
        int64_t made = i * 20 * MS, at = made + 40 * MS;
        fx_slice(f, loader, made, made + 19 * MS, "decode", decode);
        fx_slice(f, loader, made + 19 * MS, made + 20 * MS, "collate", collate);
        if (i >= STEPS)
            continue;
        fx_step(f, f->process, f->thread, i, at, at + 20 * MS, 4, false);
        fx_slice(f, f->thread, at, at + 1000, "input", wait);
        fx_slice(f, f->thread, at + 1000, at + 20 * MS, "matmul", work);
    }
    if (cores)
        FX(store_run_set_int(f->s, "cpu.usable", cores));
    for (int what = 0; what < 2 && used >= 0; what++) {
        int64_t track = fx_track(f, f->process, "counter", what ? "cpu_wait" : "cpu_time", "ns");
        for (int64_t i = 0; i <= STEPS + 2; i++)
            fx_counter(f, track, i * 20 * MS, (what ? waited : used) * (double)(i * 20 * MS));
    }
}

static const struct an_result *edited(struct fixture *f, const char *text)
{
    struct an_options o = {.file = "run.tacho", .what_if = text};
    const struct an_result *r = fx_analyze_with(f, &o);
    if (r->advice.reason)
        fail_msg("nothing was replayed: %s", r->advice.reason);
    return r;
}

static void expects(const struct an_result *r, size_t i, double ms, double low, double high)
{
    const struct an_what_if *w = &r->advice.edits[i];
    if (w->reason)
        fail_msg("%s: %s", w->edit, w->reason);
    if (fabs(w->step_ms.value - ms) > 0.03 * ms || fabs(w->step_low_ms.value - low) > 0.03 * low ||
        fabs(w->step_high_ms.value - high) > 0.03 * high)
        fail_msg("%s: %.3f [%.3f, %.3f] ms, not %.3f [%.3f, %.3f]", w->edit, w->step_ms.value,
                 w->step_low_ms.value, w->step_high_ms.value, ms, low, high);
}

/* Two threads on one core: each has been half as fast as alone. As recorded the replay is the run.
 * With a core each the step takes its 10 ms; without the loader's work, too, if the core is shared
 * fairly, and 20 as recorded if it is not. Half the products leave 5 ms beside the loader's 10,
 * which the core does one after the other. */
static void test_one_core(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_threads(f, 1, -1, -1);
    const struct an_result *r = edited(f, "cores=2,loader=0,op:matmul=0.5x");
    assert_near(r->advice.base_error_pct.value, 0, 1e-6);
    assert_near(r->advice.cores.wanted.value, 2,
                0.05); /* a batch begins in the last step and ends behind it */
    assert_near(r->advice.cores.slowdown_pct.value, 100, 3);
    assert_near(r->advice.cores.short_pct.value, 100, 1);
    assert_false(r->advice.cores.used.valid);
    assert_true(
        strstr(r->trust.replay_error_because, "more threads were ready than there are cores"));
    assert_int_equal(r->advice.edit_count, 3);
    expects(r, 0, 10, 10, 10);
    expects(r, 1, 10, 10, 20);
    expects(r, 2, 15, 14.2, 20); /* the first and the last step are not like the others */
    assert_true(strstr(r->advice.edits[1].condition, "1 cores"));
    fx_close(f);
}

/* Two cores, and other programs that leave each thread half of one: they want two more. Without the
 * loader's work the step's thread shares two cores with them: 2 / 3 of one. Cores enough for all:
 * 10 ms. */
static void test_others(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_threads(f, 2, 1, 0.5);
    const struct an_result *r = edited(f, "loader=0,cores=4,others=0");
    assert_near(r->advice.cores.wanted.value, 2, 0.02);
    assert_near(r->advice.cores.used.value, 1, 0.02);
    assert_near(r->advice.cores.others.value, 2, 0.05);
    expects(r, 0, 15, 15, 20);
    expects(r, 1, 10, 10, 10);
    expects(r, 2, 10, 10, 10); /* a core for each of the two */
    fx_close(f);
}

/* Threads that use one core and wait for none, on two: the loader sleeps in its ranges, so nobody
 * is slowed down by it. */
static void test_sleeps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_threads(f, 2, 1, 0);
    const struct an_result *r = edited(f, "loader=0,cores=1");
    assert_near(r->advice.cores.wanted.value, 1, 0.02);
    assert_near(r->advice.cores.slowdown_pct.value, 0, 0.5);
    assert_null(r->trust.replay_error_because);
    expects(r, 0, 20, 20, 20);
    expects(r, 1, 20, 20, 20);
    fx_close(f);
}

/* A loader in line sleeps for 10 ms of each step, and two threads compute for 9 to 11; in two steps
 * the machine pauses for 60 ms more. With a worker the usual step computes: 10 ms, although the
 * mean is half as long again, and although the mean CPU time on two cores is 10 ms, which the
 * shorter half of the steps does not reach. */
static void test_pauses(void **state)
{
    struct fixture fx, *f = &fx;
    int64_t at = 0;
    (void)state;
    fx_open(f);
    int64_t decode = fx_kind(f, "decode"), work = fx_work(f, "matrix", "fp32", 1, 1, 1),
            time = fx_track(f, f->process, "counter", "cpu_time", "ns"),
            wait = fx_track(f, f->process, "counter", "cpu_wait", "ns"),
            thread = fx_track(f, f->process, "counter", "thread_time", "ns");
    double computed = 0;
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t compute = (9 + i % 3) * MS + (i % 20 == 7 ? 60 * MS : 0);
        fx_counter(f, time, at, 2 * computed);
        fx_counter(f, thread, at, computed);
        fx_counter(f, wait, at, 0);
        fx_step(f, f->process, f->thread, i, at, at + 10 * MS + compute, 4, false);
        fx_slice(f, f->thread, at, at + 10 * MS, "input", fx_kind(f, "input_wait"));
        fx_slice(f, f->thread, at + 1000, at + 10 * MS - 1000, "decode", decode);
        fx_slice(f, f->thread, at + 10 * MS, at + 10 * MS + compute, "matmul", work);
        at += 10 * MS + compute;
        computed += (double)compute;
    }
    fx_counter(f, time, at, 2 * computed);
    fx_counter(f, thread, at, computed);
    fx_counter(f, wait, at, 0);
    FX(store_run_set_int(f->s, "cpu.usable", 2));
    const struct an_what_if *what_if = &edited(f, "loader.workers=1")->advice.edits[0];
    if (what_if->reason)
        fail_msg("%s", what_if->reason);
    assert_near(100 / (1 + what_if->gain.expected.value / 100), 50, 1);
    fx_close(f);
}

/* Steps of 20 ms that one range fills, beside three threads that no range shows, on four cores. */
static void one_range(struct fixture *f)
{
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    for (int64_t i = 0; i < STEPS; i++) {
        fx_step(f, f->process, f->thread, i, i * 20 * MS, (i + 1) * 20 * MS, 4, false);
        fx_slice(f, f->thread, i * 20 * MS, (i + 1) * 20 * MS, "matmul", work);
    }
    FX(store_run_set_int(f->s, "cpu.usable", 4));
    for (int what = 0; what < 2; what++) {
        int64_t track = fx_track(f, f->process, "counter", what ? "cpu_wait" : "cpu_time", "ns");
        for (int64_t i = 0; i <= STEPS; i++)
            fx_counter(f, track, i * 20 * MS, what ? 0 : 4.0 * (double)(i * 20 * MS));
    }
}

/* Four cores kept busy by one range. If all of that is work, two cores take twice as long, whether
 * its threads wait for each other or not; if the other three only spin, and give way, no longer. */
static void test_team(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    one_range(f);
    const struct an_result *r = edited(f, "cores=2");
    assert_near(r->advice.cores.wanted.value, 4, 0.15);
    expects(r, 0, (40 + 40 + 20) / 3.0, 20, 40);
    assert_true(strstr(r->advice.edits[0].condition, "spin"));
    fx_close(f);
}

/* A team of three and a loader, which with another program want five cores of four. One of the five
 * lacks a core at any time, so all three of the team have one for 2 / 5 of it: 8 ms alone. Its
 * ranges are longer than a thread keeps its core: if its threads take turns in what they lose, each
 * loses a fifth, and the team no more: 16 ms. */
static void test_team_beside_others(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_threads(f, 4, 3.2, 0.2);
    const struct an_result *r = edited(f, "loader=0,others=0");
    assert_near(r->advice.cores.others.value, 1, 0.05);
    const struct an_what_if *w = &r->advice.together;
    assert_near(w->step_low_ms.value, 8, 0.2);
    assert_near(w->step_ms.value, 12, 0.2);
    assert_near(w->step_high_ms.value, 16, 0.2);
    fx_close(f);
}

/* Two ranks that compute until arrive[rank] and then reduce until `end`, step by step. Each has
 * used that part of a core and waited for one for that part of the time. With `sampled` the machine
 * was seen to have no free core. */
static void two_ranks(struct fixture *f, int64_t cores, const int64_t *arrive, int64_t end,
                      const double *used, const double *waited, bool sampled)
{
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1), other = fx_process(f, 1, "train");
    int64_t threads[] = {f->thread, fx_track(f, other, "thread", "main", NULL)},
            processes[] = {f->process, other};
    struct store_detail d = fx_empty();
    d.schema = "tacho.comm";
    d.collective = "all_reduce";
    d.bytes = 1000;
    d.communicator = 1;
    d.ranks = 2;
    int64_t sum = fx_intern(f, &d);
    for (int64_t i = 0; i < STEPS; i++)
        for (int k = 0; k < 2; k++) {
            int64_t at = i * end;
            fx_step(f, processes[k], threads[k], i, at, at + end, 4, false);
            fx_slice(f, threads[k], at, at + arrive[k], "matmul", work);
            struct store_slice x = {.track = threads[k],
                                    .start = FX_BASE + at + arrive[k],
                                    .dur = end - arrive[k],
                                    .name = fx_string(f, "all_reduce"),
                                    .category = fx_string(f, "libtrain"),
                                    .detail = sum,
                                    .correlation = i};
            FX(store_slice_add(f->s, &x));
        }
    FX(store_run_set_int(f->s, "cpu.usable", cores));
    FX(store_run_set_int(f->s, "cpu.online", cores));
    for (int k = 0; k < 4; k++) {
        int64_t track =
            fx_track(f, processes[k / 2], "counter", k % 2 ? "cpu_wait" : "cpu_time", "ns");
        for (int64_t i = 0; i <= STEPS; i++)
            fx_counter(f, track, i * end, (k % 2 ? waited : used)[k / 2] * (double)(i * end));
    }
    int64_t busy = sampled ? fx_track(f, FX_NONE, "counter", "cpu_busy", "%") : 0;
    for (int64_t i = 1; i <= STEPS && sampled; i++)
        fx_counter(f, busy, i * end, 100);
}

/* Two ranks share a core. The first has 2 ms of work and waits for the other, which has 10: both
 * work at half speed for 4 ms, and go on doing so, because who waits spins, until 20. On a core
 * each the second needs 10 ms, and half of what passing on took. */
static void test_spins(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_ranks(f, 1, (int64_t[]){4 * MS, 20 * MS}, 21 * MS, (double[]){0.5, 0.5},
              (double[]){0.5, 0.5}, false);
    const struct an_result *r = edited(f, "cores=2");
    const struct an_what_if *w = &r->advice.edits[0];
    assert_null(w->reason);
    if (fabs(w->step_low_ms.value - 10.5) > 0.2 || w->step_high_ms.value < 12)
        fail_msg("%.3f [%.3f, %.3f] ms", w->step_ms.value, w->step_low_ms.value,
                 w->step_high_ms.value);
    fx_close(f);
}

/* Two ranks compute for 8 ms and then reduce for 2. On two cores a thread for the transfer takes
 * from compute what it gains: expected is the same step, and 8 ms at best. On four cores it is 8
 * ms. */
static void test_overlap_needs_cores(void **state)
{
    (void)state;
    for (int64_t cores = 2; cores <= 4; cores += 2) {
        struct fixture fx, *f = &fx;
        two_ranks(f, cores, (int64_t[]){8 * MS, 8 * MS}, 10 * MS, (double[]){1, 1},
                  (double[]){0, 0}, false);
        const struct an_what_if *w = &edited(f, "comm=overlap")->advice.edits[0];
        assert_null(w->reason);
        assert_null(w->ceiling);
        assert_near(w->step_ms.value, cores == 2 ? 10 : 8, 0.1);
        assert_near(w->step_low_ms.value, 8, 0.1);
        assert_near(w->gain.low.value, cores == 2 ? 0 : 25, 1.5);
        fx_close(f);
    }
}

/* The same with compute that hardly needs a core, beside many programs that do: the ranks have a
 * fair share of the two cores, which is more than they need, so transfers can be hidden. */
static void test_overlap_beside_others(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_ranks(f, 2, (int64_t[]){8 * MS, 8 * MS}, 10 * MS, (double[]){0.05, 0.05},
              (double[]){0.3, 0.3}, false);
    const struct an_result *r = edited(f, "comm=overlap");
    assert_true(r->advice.cores.others.value > 2);
    assert_near(r->advice.edits[0].step_ms.value, 8, 0.2);
    fx_close(f);
}

/* Two ranks on a core each, with the same work of 4 ms. A program on the core of the second one
 * takes 7 ms of every step; the first spins for as long. Without it the step takes 5 ms. */
static void test_other_on_one_rank(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_ranks(f, 2, (int64_t[]){4 * MS, 11 * MS}, 12 * MS, (double[]){1, 5.0 / 12},
              (double[]){0, 7.0 / 12}, true);
    const struct an_result *r = edited(f, "others=0");
    const struct an_what_if *w = &r->advice.edits[0];
    assert_null(w->reason);
    if (fabs(w->step_ms.value - 5) > 0.25 || w->step_low_ms.value > 5.2 ||
        w->step_high_ms.value < 4.9)
        fail_msg("%.3f [%.3f, %.3f] ms", w->step_ms.value, w->step_low_ms.value,
                 w->step_high_ms.value);
    fx_close(f);
}

/* Ten of 40 steps in a row take 30 ms instead of 20: what made them slow may last for all of
 * another run. With half the products the usual step takes 10 ms, that of another run up to 15. */
static void test_stretches(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1), at = 0;
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t ms = i >= 10 && i < 20 ? 30 : 20;
        fx_step(f, f->process, f->thread, i, at, at + ms * MS, 4, false);
        fx_slice(f, f->thread, at, at + ms * MS, "matmul", work);
        at += ms * MS;
    }
    const struct an_result *r = edited(f, "op:matmul=0.5x");
    assert_int_equal(r->advice.stretch_steps, 7);
    assert_near(r->advice.stretch_low_pct.value, 0, 0.1);
    assert_near(r->advice.stretch_high_pct.value, 50, 0.1);
    const struct an_what_if *w = &r->advice.edits[0];
    assert_near(w->step_ms.value, 10, 0.1);
    assert_near(w->step_high_ms.value, 15, 0.1);
    assert_near(w->gain.low.value, 80, 5); /* parts differ with an sd of 13 %, pairs miss by 11 % */
    assert_near(w->gain.expected.value, 100, 1);
    fx_close(f);
}

/* The command set the affinity itself: of the two CPUs that it was started with, the process that
 * runs steps may use one. So one is what the run has, and two are twice as many. */
static void test_affinity(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_threads(f, 2, -1, -1);
    FX(store_run_set(f->s, "process.1.affinity", "3"));
    const struct an_result *r = edited(f, "cores=1");
    assert_near(r->advice.cores.cores.value, 1, 0);
    expects(r, 0, 20, 20, 20);
    fx_close(f);
    two_threads(f, 2, -1, -1);
    FX(store_run_set(f->s, "process.1.affinity", "3"));
    r = edited(f, "cores=2");
    expects(r, 0, 10, 10, 10);
    fx_close(f);
    two_threads(f, 2, -1, -1);
    FX(store_run_set(f->s, "process.1.affinity", "0-1"));
    r = edited(f, "cores=2");
    expects(r, 0, 20, 20, 20);
    fx_close(f);
}

/* Without a number of cores nothing is shared, and an edit of it is refused with the reason. */
static void test_unknown(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    two_threads(f, 0, 1, 1);
    const struct an_result *r = edited(f, "loader=0,cores=2");
    expects(r, 0, 20, 20, 20);
    assert_true(strstr(r->advice.edits[1].reason, "how many cores"));
    assert_false(r->advice.cores.wanted.valid);
    fx_close(f);
}

/* Copies to the device on two streams at once share its link: 2 ms each, 1 alone. The step's kernel
 * of 1.9 ms follows the batch's copy; without the other copy it begins 1 ms earlier, or as it did,
 * if the copies did not slow each other down. */
static void test_link(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7), b = gpu_stream(f, f->process, "gpu:0", 8),
            name = 0;
    for (int64_t i = 0; i < 14; i++) {
        int64_t at = i * 4000;
        char step[32];
        snprintf(step, sizeof step, "ProfilerStep#%d", (int)i);
        gpu_row(f, f->thread, at, at + 4000, step, "user_annotation", FX_NONE);
        gpu_host_ns(f, f->thread, (at + 10) * 1000, (at + 20) * 1000, "cudaMemcpyAsync", "runtime",
                    ++name);
        gpu_copy_ns(f, a, (at + 30) * 1000, (at + 2030) * 1000, "batch", "HtoD", name);
        gpu_host_ns(f, f->thread, (at + 20) * 1000, (at + 30) * 1000, "cudaMemcpyAsync", "runtime",
                    ++name);
        gpu_copy_ns(f, b, (at + 30) * 1000, (at + 2030) * 1000, "weights", "HtoD", name);
        gpu_launch(f, a, at + 40, at + 50, at + 2040, at + 3940, "gemm", ++name);
        gpu_row(f, f->thread, at + 60, at + 3990, "cudaDeviceSynchronize", "runtime", FX_NONE);
    }
    const struct an_result *r = edited(f, "kernel:weights=0,copy=0.5x");
    expects(r, 0, 3, 3, 4);
    expects(r, 1, 3, 3, 3); /* both are half as long, and share the link as before */
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_core),
                                       cmocka_unit_test(test_others),
                                       cmocka_unit_test(test_sleeps),
                                       cmocka_unit_test(test_pauses),
                                       cmocka_unit_test(test_team),
                                       cmocka_unit_test(test_team_beside_others),
                                       cmocka_unit_test(test_spins),
                                       cmocka_unit_test(test_overlap_needs_cores),
                                       cmocka_unit_test(test_overlap_beside_others),
                                       cmocka_unit_test(test_other_on_one_rank),
                                       cmocka_unit_test(test_stretches),
                                       cmocka_unit_test(test_affinity),
                                       cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_link)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
