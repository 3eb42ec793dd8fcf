/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of a run: what an analysis of it says is what an analysis of the whole run says of the
 * same steps, in recorded runs (ids grow with time) and in merged ones (they do not), and what lies
 * outside of it is not loaded.
 */
#include <inttypes.h>

#include <sqlite3.h>

#include "analyzers/trace/trace.h"
#include "analyzers/trace/trace_part.h"
#include "tests/unit/an_fixture.h"

#define STEPS 1200
#define OPS   20
#define MS    1000000ll

/* Steps of 10 ms: OPS ranges of 300 us, then a wait for the loader that is longer in the later
 * steps; a loader's thread beside it that is written in batches, later than what it made. Two
 * counters: one tells once. */
static void record(struct fixture *f, int64_t process, int64_t thread, int64_t loader, int64_t from)
{
    int64_t loss = fx_track(f, process, "counter", "loss", ""),
            memory = fx_track(f, process, "counter", "memory.total", "bytes");
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000), wait = fx_kind(f, "input_wait"),
            read = fx_kind(f, "read");
    int64_t name = fx_string(f, "op"), category = fx_string(f, "test");
    fx_counter(f, memory, from, 4096);
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t start = from + i * 11 * MS, stall = i < STEPS / 2 ? 1 * MS : 3 * MS;
        char unique[32];
        snprintf(unique, sizeof unique, "batch %" PRId64, i);
        for (int64_t k = 0; k < OPS; k++)
            fx_slice(f, thread, start + k * 300000, start + (k + 1) * 300000, "op", work);
        fx_slice(f, thread, start + 10 * MS - stall, start + 10 * MS, "wait", wait);
        fx_slice(f, thread, start + 1, start + 2, unique, work);
        fx_step(f, process, thread, i, start, start + 10 * MS, 64, false);
        FX(store_step_aggregate_add(f->s, &(struct store_step_aggregate){.process = process,
                                                                         .step = i,
                                                                         .track = thread,
                                                                         .name = name,
                                                                         .category = category,
                                                                         .detail = work,
                                                                         .count = OPS,
                                                                         .total = OPS * 300000,
                                                                         .self = OPS * 300000}));
        fx_counter(f, loss, start + 10 * MS, 10 - (double)i / STEPS);
        if (i % 8 == 7)
            for (int64_t k = i - 7; k <= i; k++)
                fx_slice(f, loader, from + k * 11 * MS, from + k * 11 * MS + 2 * MS, "read", read);
    }
}

static void same_as_of_these_steps(struct fixture *f, const struct an_options *part)
{
    struct tacho_error err = {0};
    struct an_result *whole = NULL;
    const struct an_result *r = fx_analyze_with(f, part);
    assert_non_null(r->run.window);
    assert_true(r->steps.counted >= 3 && r->steps.counted < STEPS / 4);
    assert_int_equal(r->steps.detailed, r->steps.counted);
    struct an_options these = {
        .some_steps = true, .step_from = r->steps.first_index, .step_to = r->steps.last_index};
    if (an_analyze(f->reader, &these, &whole, &err))
        fail_msg("%s", err.what);
    assert_int_equal(whole->steps.counted, r->steps.counted);
    assert_near(r->steps.median_ms.value, whole->steps.median_ms.value, 0);
    assert_near(r->steps.tokens_per_s.value, whole->steps.tokens_per_s.value, 1e-9);
    for (int c = 0; c < AN_CLASS_COUNT; c++) {
        assert_int_equal(r->budget.ns[c].valid, whole->budget.ns[c].valid);
        if (r->budget.ns[c].valid)
            assert_int_equal(r->budget.ns[c].value, whole->budget.ns[c].value);
    }
    assert_string_equal(r->verdict_class, whole->verdict_class);
    assert_int_equal(r->memory.total_bytes.value,
                     4096 * r->run.ranks); /* told once, at the beginning */
    an_result_free(whole);
}

static void test_newest(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    struct an_options o = {.part_slices = 40 * (OPS + 4)};
    same_as_of_these_steps(f, &o);
    assert_int_equal(f->r->steps.last_index, STEPS - 2);
    assert_true(f->r->steps.counted > 30 && f->r->steps.counted < 45);
    assert_near(f->r->budget.pct[AN_CLASS_INPUT].value, 30, 1e-9);
    fx_close(f);
}

static void test_older(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    struct an_options o = {.part_slices = 40 * (OPS + 4),
                           .part_until = FX_BASE + STEPS / 4 * 11 * MS};
    same_as_of_these_steps(f, &o);
    assert_true(f->r->steps.last_index < STEPS / 4 && f->r->steps.last_index > STEPS / 4 - 4);
    assert_near(f->r->budget.pct[AN_CLASS_INPUT].value, 10, 1e-9);
    fx_close(f);
}

/* Two ranks one after the other in the file, as merging leaves them. */
static void test_merged(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    int64_t other = fx_process(f, 1, "train"), thread = fx_track(f, other, "thread", "main", NULL);
    FX(store_run_set(f->s, "merge.files", "2"));
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    record(f, other, thread, fx_track(f, other, "thread", "loader-0", NULL), 1000);
    struct an_options o = {.part_slices = 80 * (OPS + 4)};
    same_as_of_these_steps(f, &o);
    assert_int_equal(f->r->run.ranks, 2);
    assert_int_equal(f->r->steps.last_index, STEPS - 2);
    fx_close(f);
}

/* What was asked for holds fewer steps than are needed: the part stretches. */
static void test_least(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    struct an_options o = {.part_slices = 10};
    same_as_of_these_steps(f, &o);
    assert_int_equal(f->r->steps.counted, AN_PART_STEPS_LEAST - 2);
    fx_close(f);
}

/* Ids of a damaged file: room is made for slices that are there. */
static void test_huge_ids(void **state)
{
    struct fixture fixture, *f = &fixture;
    sqlite3 *db = NULL;
    (void)state;
    fx_open(f);
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "UPDATE slice SET id=9223372036854775807 WHERE id=(SELECT max(id) FROM slice)",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    struct an_options o = {.part_slices = 40 * (OPS + 4)};
    struct tacho_error err = {0};
    assert_int_equal(store_open(f->path, &f->reader, &err), 0);
    assert_int_equal(an_analyze(f->reader, &o, &f->r, &err), 0);
    fx_close(f);
}

static void test_small_run_is_whole(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    const struct an_result *r = fx_analyze_with(f, &(struct an_options){.part_slices = 1000000});
    assert_null(r->run.window);
    assert_int_equal(r->steps.counted, STEPS - 2);
    fx_close(f);
}

/* Only what the part refers to is loaded: the names of the other steps' batches are not. */
static void test_names(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    struct an_trace_part p;
    struct an_trace *t = NULL;
    (void)state;
    fx_open(f);
    record(f, f->process, f->thread, fx_track(f, f->process, "thread", "loader-0", NULL), 0);
    fx_analyze(f);
    assert_int_equal(an_trace_part_find(f->reader, 200, INT64_MAX, &p), 0);
    assert_true(p.ordered && !p.whole && p.slices < 1000);
    if (an_trace_load_part(f->reader, &p, &t, &err))
        fail_msg("%s", err.what);
    assert_true(t->slice.count >= 100 && t->slice.count < 400);
    assert_true(t->string_count < 30); /* 1,200 batches have names of their own */
    assert_true(t->step_count < 20 && t->aggregate.count < 20);
    for (size_t i = 0; i < t->slice.count; i++)
        assert_true(t->slice.name[i] != AN_NONE && *an_trace_name(t, t->slice.name[i]));
    an_trace_free(t);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_newest),
                                       cmocka_unit_test(test_older),
                                       cmocka_unit_test(test_merged),
                                       cmocka_unit_test(test_least),
                                       cmocka_unit_test(test_small_run_is_whole),
                                       cmocka_unit_test(test_huge_ids),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
