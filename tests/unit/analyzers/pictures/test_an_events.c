/* SPDX-License-Identifier: Apache-2.0
 *
 * What a timeline that can be zoomed is drawn from, and the curves over the run.
 */
#include "tests/unit/rep_fixture.h"

static const struct an_event_track *track_of(const struct an_events *events, const char *name)
{
    for (size_t i = 0; i < events->track_count; i++)
        if (!strcmp(events->track[i].name, name))
            return &events->track[i];
    fail_msg("no track %s", name);
    return NULL;
}

static size_t count_of(const struct an_events *events, const struct an_event_track *track,
                       const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < track->count; i++)
        count += !strcmp(events->kind[track->event[i].kind].name, name);
    return count;
}

/* Events come by start, the outer one first, and none crosses the end of the one around it. */
static void check_order(const struct an_event_track *track, int64_t window_ns)
{
    int64_t end[64];
    size_t depth = 0;
    for (size_t i = 0; i < track->count; i++) {
        const struct an_event *event = &track->event[i];
        assert_true(event->start_ns >= 0 && event->dur_ns > 0);
        assert_true(event->start_ns + event->dur_ns <= window_ns);
        assert_true(!i || event->start_ns >= track->event[i - 1].start_ns);
        while (depth && end[depth - 1] <= event->start_ns)
            depth--;
        assert_true(!depth || event->start_ns + event->dur_ns <= end[depth - 1]);
        assert_true(depth < 64);
        end[depth++] = event->start_ns + event->dur_ns;
    }
}

/* A run of 60 steps, of which 11 were not recorded: every range of the others is there, and the
 * ranges that only mark steps are not. */
static void test_whole_run(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *result = fx_analyze_with(f, &(struct an_options){.events = true});
    const struct an_events *events = &result->events;
    assert_null(events->reason);
    assert_true(events->whole);
    assert_int_equal(events->omitted, 0);
    assert_int_equal(events->rank_count, 1);
    assert_int_equal(events->ranks_omitted, 0);
    const struct an_event_track *thread = track_of(events, "main");
    assert_true(thread->main);
    assert_int_equal(count_of(events, thread, "matmul.forward"), 49);
    assert_int_equal(count_of(events, thread, "input_wait"), 49);
    assert_int_equal(count_of(events, thread, "micro_step"), 49);
    assert_int_equal(count_of(events, thread, "evaluation"), 1);
    assert_int_equal(thread->count, 49 * 5 + 1);
    check_order(thread, events->window_ns);
    for (size_t i = 0; i < thread->count; i++) {
        const struct an_event_kind *kind = &events->kind[thread->event[i].kind];
        if (!strcmp(kind->name, "matmul.forward")) {
            assert_int_equal(thread->event[i].dur_ns, 6000000);
            assert_int_equal(thread->event[i].what, AN_CLASS_COMPUTE);
            assert_int_equal(kind->flops, 1500000000);
            assert_string_equal(kind->dtype, "fp32");
        }
        if (!strcmp(kind->name, "input_wait"))
            assert_int_equal(thread->event[i].what, AN_CLASS_INPUT);
        if (!strcmp(kind->name, "micro_step")) /* most of what is in it */
            assert_int_equal(thread->event[i].what, AN_CLASS_COMPUTE);
    }
    const struct an_event_track *loader = track_of(events, "loader-0");
    assert_int_equal(count_of(events, loader, "read"), 60);
    assert_int_equal(count_of(events, loader, "queue_wait"), 0); /* idle */
    assert_int_equal(events->step_count, 60);
    size_t typical = 0;
    for (size_t i = 0; i < events->step_count; i++)
        typical += events->step[i].typical;
    assert_int_equal(typical, 1);
    assert_true(thread->path_count > 0);
    for (size_t i = 0; i < events->mark_count; i++) {
        const struct an_event_mark *mark = &events->mark[i];
        assert_true(mark->finding < result->finding_count && mark->track < events->track_count);
        assert_true(mark->dur_ns > 0);
    }
    assert_true(events->mark_count > 0); /* INPUT_STALL */
    fx_close(f);
}

static void test_not_asked_for(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *result = fx_analyze(f);
    assert_string_equal(result->events.reason, "not asked for");
    assert_int_equal(result->events.track_count, 0);
    fx_close(f);
}

/* One step has more ranges than a page can hold: the shortest are left out, and counted. */
static void test_shortest_go(void **state)
{
    enum { RANGES = AN_EVENTS_MOST + 20000, SHORT = 30000 };
    struct fixture fx, *f = &fx;
    const int64_t apart = 1000, step_ns = (int64_t)RANGES * apart;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "other", "fp32", 10, 10, 10);
    for (int i = 0; i < 3; i++)
        fx_step(f, f->process, f->thread, i, i * step_ns, (i + 1) * step_ns - 1, 1, false);
    for (int i = 0; i < RANGES; i++)
        fx_slice(f, f->thread, step_ns + i * apart,
                 step_ns + i * apart + (i % 4 == 1 && i / 4 < SHORT ? 100 : 900), "op", work);
    const struct an_result *result = fx_analyze_with(f, &(struct an_options){.events = true});
    const struct an_events *events = &result->events;
    assert_null(events->reason);
    assert_false(events->whole);
    assert_int_equal(events->window_ns, step_ns - 1);
    assert_int_equal(events->omitted, SHORT);
    assert_true(events->least_ns > 100 && events->least_ns <= 900);
    assert_int_equal(track_of(events, "main")->count, RANGES - SHORT);
    fx_close(f);
}

/* A run whose steps are not marked is shown from its beginning, as far as the events fit. */
static void test_without_steps(void **state)
{
    enum { RANGES = AN_EVENTS_MOST + 5000 };
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < RANGES; i++)
        fx_slice(f, f->thread, i * 100, i * 100 + 60, "range", FX_NONE);
    const struct an_result *result = fx_analyze_with(f, &(struct an_options){.events = true});
    const struct an_events *events = &result->events;
    assert_int_equal(result->steps.count, 0);
    assert_null(events->reason);
    assert_false(events->whole);
    assert_int_equal(events->step_count, 0);
    assert_int_equal(events->rank_count, 1);
    assert_int_equal(events->omitted, 0);
    assert_int_equal(track_of(events, "main")->count, AN_EVENTS_MOST);
    fx_close(f);
}

static const struct an_curve *curve_of(const struct an_result *result, const char *quantity)
{
    for (size_t i = 0; i < result->curve_count; i++)
        if (!strcmp(result->curves[i].quantity, quantity))
            return &result->curves[i];
    fail_msg("no curve of %s", quantity);
    return NULL;
}

/* A loss of 1,000 samples becomes at most AN_CURVE_POINTS_MOST points that keep its mean; the
 * throughput of steps of 100 tokens in 10 ms is 10,000 tokens/s all the time. */
static void test_curves(void **state)
{
    enum { STEPS = 1000 };
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < STEPS; i++)
        fx_step(f, f->process, f->thread, i, i * 10000000ll, (i + 1) * 10000000ll, 100, false);
    fx_series(f, f->process, "train/Loss", "", 5, 1, STEPS, 10000000);
    fx_series(f, f->process, "learning_rate", "", 5, 1, STEPS, 10000000);
    const struct an_result *result = fx_analyze(f);
    const struct an_curve *loss = curve_of(result, "loss"),
                          *throughput = curve_of(result, "throughput");
    double sum = 0;
    assert_string_equal(loss->name, "train/Loss");
    assert_int_equal(loss->samples, STEPS);
    assert_int_equal(loss->count, 250); /* means of four */
    for (size_t i = 0; i < loss->count; i++)
        sum += loss->point[i].value / (double)loss->count;
    assert_true(fabs(sum - 3) < 1e-9);
    assert_true(fabs(loss->point[1].start_s - 0.04) < 1e-9);
    assert_string_equal(throughput->unit, "tokens/s");
    for (size_t i = 0; i < throughput->count; i++)
        assert_true(fabs(throughput->point[i].value - 10000) < 1e-6);
    for (size_t i = 0; i < result->curve_count; i++)
        assert_string_not_equal(result->curves[i].name, "learning_rate");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_run), cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(test_shortest_go), cmocka_unit_test(test_without_steps),
        cmocka_unit_test(test_curves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
