/* SPDX-License-Identifier: Apache-2.0
 *
 * What pictures are drawn from: points of steps, the timeline of a typical and of the worst step,
 * the flame graph of ranges.
 */
#include "tests/unit/an_gpu.h"
#include "tests/unit/rep_fixture.h"

/* ---- points of steps ---------------------------------------------------------------------------------------------------- */

static void test_points_are_the_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->step_point_count, 60);
    for (size_t i = 0; i < 60; i++) {
        const struct an_step_point *p = &r->step_points[i];
        assert_int_equal(p->index, i);
        assert_int_equal(p->steps, 1);
        assert_true(fabs(p->start_s - 0.012 * (double)i) < 1e-9);
        assert_true(fabs(p->ms - p->worst_ms) < 1e-12);
        assert_true(fabs(p->tokens_per_s - 4096 / (p->ms / 1e3)) < 1e-3);
        assert_int_equal(!p->excluded, i > 0 && i < 59);
        assert_int_equal(p->detailed, !(i > 2 && i % 5 == 0));
        double sum = 0;
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            sum += p->class_ms[k];
        if (p->detailed && !p->excluded)
            assert_true(fabs(sum - p->ms) < 1e-9);
        if (!p->detailed)
            assert_true(sum < 1e-12);
    }
    assert_true(fabs(r->step_points[40].ms - 11.9) < 1e-9);
    fx_close(f);
}

/* More steps than points: the sums hold, the slowest step is still seen, what is left out does not
 * count. */
static void test_points_are_bounded(void **state)
{
    enum { STEPS = 10001 };
    struct fixture fx, *f = &fx;
    int64_t steps = 0;
    double worst = 0, ms = 0;
    (void)state;
    fx_open(f);
    for (int i = 0; i < STEPS; i++)
        fx_step(f, f->process, f->thread, i, i * 2000ll,
                i * 2000ll + (i == 7000 ? 1999
                              : i       ? 1000
                                        : 1500),
                FX_NONE, false);
    const struct an_result *r = fx_analyze(f);
    assert_true(r->step_point_count <= AN_STEP_POINTS_MOST &&
                r->step_point_count > AN_STEP_POINTS_MOST / 4);
    for (size_t i = 0; i < r->step_point_count; i++) {
        const struct an_step_point *p = &r->step_points[i];
        steps += p->steps;
        worst = p->worst_ms > worst ? p->worst_ms : worst;
        ms += p->ms * (double)p->steps;
        assert_true(isnan(p->tokens_per_s));
    }
    assert_int_equal(steps, STEPS);
    assert_true(fabs(worst - 1999e-6) < 1e-12);
    assert_true(fabs(r->step_points[0].ms - 1000e-6) <
                1e-12); /* the first step is left out, its neighbours are not */
    assert_true(fabs(ms - (STEPS * 1000e-6 + 999e-6)) < 1e-9);
    fx_close(f);
}

/* ---- timeline ----------------------------------------------------------------------------------------------------------- */

static const struct an_timeline_track *track_of(const struct an_timeline_step *s, const char *name,
                                                int depth)
{
    for (size_t i = 0; i < s->track_count; i++)
        if (!strcmp(s->track[i].name, name) && s->track[i].depth == depth)
            return &s->track[i];
    fail_msg("no track %s at depth %d", name, depth);
    return NULL;
}

static void check_span(const struct an_timeline_span *x, const char *name, int64_t start,
                       int64_t end, int what)
{
    assert_string_equal(x->name, name);
    assert_int_equal(x->start_ns, start);
    assert_int_equal(x->dur_ns, end - start);
    assert_int_equal(x->what, what);
    assert_int_equal(x->merged, 1);
    assert_true(fabsf(x->busy - 1) < 1e-6f);
}

/* Spans of a track are inside the step, in order, disjoint; what they fill is what the track was
 * busy. */
static void check_track(const struct an_timeline_step *s, const struct an_timeline_track *k)
{
    int64_t at = 0;
    double filled = 0;
    for (size_t i = 0; i < k->span_count; i++) {
        const struct an_timeline_span *x = &k->span[i];
        assert_true(x->start_ns >= at && x->dur_ns > 0 && x->merged > 0 && x->busy > 0 &&
                    x->busy <= 1);
        at = x->start_ns + x->dur_ns;
        filled += (double)x->dur_ns * (double)x->busy;
    }
    assert_true((double)at <= s->ms * 1e6 + 1);
    assert_true(fabs(filled - (double)k->busy_ns) < 1e-6 * (double)k->busy_ns + 1);
    assert_true(k->span_count <= 3100);
}

static void test_timeline(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    const struct an_timeline *x = &r->timeline;
    assert_null(x->reason);
    assert_int_equal(x->step_count, 1 + (r->steps.detailed > 1));
    assert_string_equal(x->step[0].which, "typical");
    assert_string_equal(x->step[1].which, "worst");
    assert_true(fabs(x->step[0].ms - r->steps.median_ms.value) < 0.02);
    double worst = 0;
    for (size_t i = 0; i < r->step_point_count; i++)
        if (r->step_points[i].detailed && !r->step_points[i].excluded &&
            r->step_points[i].ms > worst)
            worst = r->step_points[i].ms;
    assert_true(fabs(x->step[1].ms - worst) < 1e-9);
    for (size_t i = 0; i < x->step_count; i++)
        for (size_t k = 0; k < x->step[i].track_count; k++)
            check_track(&x->step[i], &x->step[i].track[k]);
    const struct an_timeline_track *main = track_of(&x->step[0], "main", 0),
                                   *ops = track_of(&x->step[0], "main", 1);
    assert_ptr_equal(
        main, &x->step[0].track[0]); /* the thread of the step stands first, its ops below it */
    assert_ptr_equal(ops, &x->step[0].track[1]);
    assert_int_equal(main->span_count, 2);
    check_span(&main->span[0], "input_wait", 1000, 801000, AN_CLASS_INPUT);
    check_span(&main->span[1], "micro_step", 802000, 9950000,
               AN_CLASS_COMPUTE); /* most of it computes */
    assert_int_equal(ops->span_count, 3);
    check_span(&ops->span[0], "matmul.forward", 900000, 6900000, AN_CLASS_COMPUTE);
    check_span(&ops->span[2], "gelu", 9100000, 9600000, AN_CLASS_COMPUTE);
    const struct an_timeline_track *loader = track_of(&x->step[0], "loader-0", 0);
    const struct an_timeline_step *slow =
        &x->step[1]; /* of which the path runs over the step's thread alone */
    assert_true(track_of(slow, "main", 1)->span[0].critical &&
                track_of(slow, "main", 0)->span[1].critical);
    assert_false(track_of(slow, "loader-0", 0)->span[0].critical);
    check_span(&loader->span[0], "read", 0, 700000, AN_CLASS_INPUT);
    assert_int_equal(loader->span_count, 2); /* waiting for room in the queue is idle */
    fx_close(f);
}

/* A hundred thousand ranges in a step: merged into what can be seen, and no ns of them is lost. A
 * range that began before the step, and one that goes on behind it, are cut. */
static void test_timeline_merges(void **state)
{
    enum { RANGES = 100000 };
    struct fixture fx, *f = &fx;
    int64_t busy = 0;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 10, 10, 10),
            helper = fx_track(f, f->process, "thread", "helper", NULL);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 200000000ll;
        fx_step(f, f->process, f->thread, i, b, b + 100000000, 1, false);
        if (i == 2)
            for (int k = 0; k < RANGES; k++) {
                fx_slice(f, f->thread, b + k * 1000ll, b + k * 1000ll + 300 + k % 7,
                         k % 3 ? "tiny" : "small", work);
                busy += 300 + k % 7;
            }
        else
            fx_slice(f, f->thread, b, b + 99000000, "long", work);
    }
    fx_slice(f, helper, 2 * 200000000ll - 5000, 2 * 200000000ll + 40000000, "before", FX_NONE);
    fx_slice(f, helper, 2 * 200000000ll + 50000000, 3 * 200000000ll, "behind", FX_NONE);
    struct an_options o = {.file = "run.tacho", .some_steps = true, .step_from = 2, .step_to = 2};
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_int_equal(r->timeline.step_count, 1); /* the typical step is the worst one */
    const struct an_timeline_step *s = &r->timeline.step[0];
    assert_int_equal(s->index, 2);
    const struct an_timeline_track *k = track_of(s, "main", 0);
    check_track(s, k);
    assert_true(k->span_count >= 300);
    assert_int_equal(k->busy_ns, busy);
    uint64_t merged = 0;
    for (size_t i = 0; i < k->span_count; i++)
        merged += k->span[i].merged;
    assert_int_equal(merged, RANGES);
    k = track_of(s, "helper", 0);
    assert_int_equal(k->span_count, 2);
    check_span(&k->span[0], "before", 0, 40000000, AN_CLASS_HOST);
    check_span(&k->span[1], "behind", 50000000, 100000000, AN_CLASS_HOST);
    fx_close(f);
}

/* Streams carry the classes of their ops; the host thread is there as well, and other ranks. */
static void test_timeline_of_streams(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int rank = 0; rank < 2; rank++) {
        int64_t p = fx_process(f, rank, "python"), host = fx_track(f, p, "thread", "python", NULL);
        int64_t compute = gpu_stream(f, p, "gpu:0", 7), comm = gpu_stream(f, p, "gpu:0", 13);
        for (int i = 0; i < 6; i++) {
            int64_t b = i * 1000, id = rank * 100 + i * 10;
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", i);
            gpu_row(f, host, b, b + 1000, name, "user_annotation", FX_NONE);
            gpu_row_ns(f, host, (b + 5) * 1000, (b + 25) * 1000, "aten::mm", "cpu_op",
                       fx_work(f, "matrix", "fp32", 10, 10, 10), FX_NONE);
            gpu_row(f, host, b + 10, b + 20, "cudaLaunchKernel", "cuda_runtime", id + 1);
            gpu_row(f, host, b + 30, b + 40, "cudaLaunchKernel", "cuda_runtime", id + 2);
            gpu_row(f, host, b + 50, b + 60, "cudaMemcpyAsync", "cuda_runtime", id + 3);
            gpu_row(f, compute, b + 100, b + 600, "sgemm_128x64_nn", "kernel", id + 1);
            gpu_row(f, comm, b + 400, b + 900, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel",
                    id + 2);
            gpu_row_ns(f, compute, (b + 700) * 1000, (b + 800) * 1000,
                       "Memcpy HtoD (Pinned -> Device)", "memcpy",
                       gpu_copy(f, "HtoD", "pinned", 1000), id + 3);
        }
    }
    const struct an_result *r = fx_analyze(f);
    assert_null(r->timeline.reason);
    const struct an_timeline_step *s = &r->timeline.step[0];
    size_t other = 0;
    for (size_t i = 0; i < s->track_count; i++) {
        check_track(s, &s->track[i]);
        other += s->track[i].rank != s->rank;
        if (i)
            assert_true(s->track[i].rank == s->rank || s->track[i - 1].rank != s->rank ||
                        other == 1); /* its own rank first */
    }
    assert_int_equal(other, 4); /* two rows of the thread, two streams */
    const struct an_timeline_track *compute = track_of(s, "stream 7", 0),
                                   *comm = track_of(s, "stream 13", 0);
    assert_int_equal(compute->rank, s->rank);
    assert_string_equal(compute->device, "gpu:0");
    const struct an_timeline_track *host =
        &s->track[0]; /* the op is on the device; the thread only asks for it */
    for (size_t i = 0; i < host->span_count; i++)
        assert_int_equal(host->span[i].what, AN_CLASS_HOST);
    check_span(&compute->span[0], "sgemm_128x64_nn", 0, 500000, AN_CLASS_COMPUTE);
    check_span(&compute->span[1], "Memcpy HtoD (Pinned -> Device)", 600000, 700000, AN_CLASS_COPY);
    check_span(&comm->span[0], "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 300000, 800000,
               AN_CLASS_COMM);
    fx_close(f);
}

/* A loader's process names its thread as the program does: both are told apart by their process, a
 * thread of one name is not.
 */
static void test_tracks_of_one_name(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    int64_t other = fx_process(f, FX_NONE, "loader");
    int64_t track = fx_track(f, other, "thread", "main", NULL);
    for (int i = 0; i < 60; i++)
        fx_slice(f, track, i * 12000000ll, i * 12000000ll + 5000000, "decode", FX_NONE);
    const struct an_result *r = fx_analyze(f);
    const struct an_timeline_step *s = &r->timeline.step[0];
    size_t named = 0;
    assert_null(r->timeline.reason);
    track_of(s, "loader-0", 0);
    for (size_t i = 0; i < s->track_count; i++) {
        assert_string_not_equal(s->track[i].name, "main");
        named += strstr(s->track[i].name, "main, process 1") == s->track[i].name;
    }
    assert_true(named >= 1);
    fx_close(f);
}

/* ---- flame -------------------------------------------------------------------------------------------------------------- */

static void check_tree(const struct an_flame *x)
{
    int64_t *below = calloc(x->row_count, sizeof *below);
    assert_non_null(below);
    assert_int_equal(x->row[0].parent, 0);
    for (size_t i = 1; i < x->row_count; i++) {
        assert_true(x->row[i].parent < i);
        below[x->row[i].parent] += x->row[i].total_ns;
    }
    for (size_t i = 0; i < x->row_count; i++)
        assert_true(below[i] <= x->row[i].total_ns);
    free(below);
}

static const struct an_flame_row *row_named(const struct an_flame *x, const char *name,
                                            const char *parent)
{
    for (size_t i = 1; i < x->row_count; i++)
        if (!strcmp(x->row[i].name, name) && !strcmp(x->row[x->row[i].parent].name, parent))
            return &x->row[i];
    fail_msg("no %s in %s", name, parent);
    return NULL;
}

static void test_flame(void **state)
{
    struct fixture fx, *f = &fx;
    int64_t steps = 0;
    double ms = 0;
    (void)state;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    assert_null(r->flame.reason);
    check_tree(&r->flame);
    for (size_t i = 0; i < r->step_point_count; i++)
        if (r->step_points[i].detailed && !r->step_points[i].excluded) {
            steps++;
            ms += r->step_points[i].ms;
        }
    assert_int_equal(steps, r->steps.detailed);
    assert_int_equal(r->flame.row[0].count, steps);
    assert_true(fabs((double)r->flame.row[0].total_ns / 1e6 - ms) <
                2); /* the evaluation is cut out of a step */
    const struct an_flame_row *m = row_named(&r->flame, "matmul.forward", "micro_step");
    assert_int_equal(m->count, steps);
    assert_int_equal(m->total_ns, steps * 6000000);
    assert_int_equal(row_named(&r->flame, "input_wait", "steps")->total_ns, steps * 800000);
    for (size_t i = 0; i < r->flame.row_count; i++)
        assert_string_not_equal(r->flame.row[i].name, "read"); /* of another thread */
    fx_close(f);
}

/* More paths than rows: the largest stay, and it is a tree still. Deep nesting ends somewhere. */
static void test_flame_is_bounded(void **state)
{
    struct fixture fx, *f = &fx;
    char name[32];
    (void)state;
    fx_open(f);
    for (int i = 0; i < 4; i++) {
        int64_t b = i * 100000000ll;
        fx_step(f, f->process, f->thread, i, b, b + 90000000, 1, false);
        for (int k = 0; k < 6000; k++) {
            snprintf(name, sizeof name, "path %d", k);
            fx_slice(f, f->thread, b + k * 10000ll, b + k * 10000ll + 1000 + k, name, FX_NONE);
        }
        for (int k = 0; k < 300; k++)
            fx_slice(f, f->thread, b + 70000000 + k, b + 80000000 - k, "again", FX_NONE);
    }
    const struct an_result *r = fx_analyze(f);
    assert_true(r->flame.row_count <= 1500 && r->flame.row_count > 1000);
    check_tree(&r->flame);
    assert_int_equal(row_named(&r->flame, "path 5999", "steps")->total_ns,
                     r->steps.detailed * 6999);
    fx_close(f);
}

/* Runs without steps, without ranges: a reason, and no row. */
static void test_absent(void **state)
{
    static void (*const runs[])(struct fixture *) = {fx_ranges, fx_open};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        runs[i](f);
        const struct an_result *r = fx_analyze(f);
        assert_true(r->timeline.reason && *r->timeline.reason && !r->timeline.step_count);
        assert_true(r->flame.reason && *r->flame.reason && !r->flame.row_count);
        assert_int_equal(r->step_point_count, 0);
        fx_close(f);
    }
    struct fixture fx, *f = &fx; /* steps of which nothing was recorded */
    fx_open(f);
    for (int i = 0; i < 8; i++)
        fx_step(f, f->process, f->thread, i, i * 1000000, i * 1000000 + 900000, 1, false);
    const struct an_result *r = fx_analyze(f);
    assert_non_null(r->timeline.reason);
    assert_non_null(r->flame.reason);
    assert_int_equal(r->step_point_count, 8);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points_are_the_steps),
                                       cmocka_unit_test(test_points_are_bounded),
                                       cmocka_unit_test(test_timeline),
                                       cmocka_unit_test(test_timeline_merges),
                                       cmocka_unit_test(test_tracks_of_one_name),
                                       cmocka_unit_test(test_timeline_of_streams),
                                       cmocka_unit_test(test_flame),
                                       cmocka_unit_test(test_flame_is_bounded),
                                       cmocka_unit_test(test_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
