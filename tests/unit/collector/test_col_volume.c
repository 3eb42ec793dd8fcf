/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of three days in time-lapse, with a step every ten seconds, in a small file: the file stays
 * below its limit, every step is counted, and the windows of full detail hold what was worst.
 */
#include "tests/unit/an_fixture.h"

#include "profiler/collector/drain/drain.h"

#define STEPS     25920 /* of 10 s: 72 hours */
#define ROUND     20    /* steps between two turns */
#define SLICES    12    /* of a step, and as many totals */
#define COUNTERS  10
#define MOST      (24ll << 20)
#define SLOW_STEP 9000 /* one that takes much longer than any other */

struct lapse {
    store *db;
    struct col_drain *drain;
    int64_t process, thread, counter, name, detail, slow_slices;
};

static int begin(struct lapse *lapse, const char *path)
{
    struct tacho_error err = {0};
    struct store_process process = {.rank = 0, .pid = 1, .parent_pid = STORE_ABSENT};
    struct store_track track = {.kind = "thread", .name = "main", .tid = 1};
    int rc = store_create(path, &lapse->db, &err);
    rc = rc ? rc : store_begin(lapse->db);
    rc = rc ? rc : store_process_add(lapse->db, &process);
    track.process = lapse->process = process.id;
    rc = rc ? rc : store_track_add(lapse->db, &track);
    lapse->thread = track.id;
    track.kind = "counter";
    rc = rc ? rc : store_track_add(lapse->db, &track);
    lapse->counter = track.id;
    rc = rc ? rc : store_string(lapse->db, "work", 4, &lapse->name);
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.schema = "tacho.work";
    return rc ? rc : store_detail_intern(lapse->db, &detail, &lapse->detail);
}

/* What the collector writes of a step: its row, totals, samples; slices only in windows. */
static void add_step(struct lapse *lapse, int64_t step)
{
    const int64_t second = 1000000000;
    int64_t start = step * 10 * second, took = step == SLOW_STEP ? 9 * second : second;
    bool detail = col_keeps_detail(lapse->drain, step, NULL);
    int rc = store_step_add(lapse->db, &(struct store_step){.process = lapse->process,
                                                            .index = step,
                                                            .start = start,
                                                            .end = start + took,
                                                            .tokens = 1,
                                                            .samples = 1});
    for (int64_t i = 0; i < SLICES && !rc; i++) {
        struct store_slice slice = {.track = lapse->thread,
                                    .start = start + i * took / SLICES,
                                    .dur = took / SLICES,
                                    .name = lapse->name,
                                    .category = lapse->name,
                                    .detail = lapse->detail,
                                    .correlation = STORE_ABSENT};
        rc = detail ? store_slice_add(lapse->db, &slice) : 0;
        struct store_step_aggregate total = {.process = lapse->process,
                                             .step = step,
                                             .track = lapse->thread,
                                             .name = lapse->name,
                                             .category = i,
                                             .detail = lapse->detail,
                                             .count = 1,
                                             .total = took / SLICES,
                                             .self = took / SLICES};
        rc = rc ? rc : store_step_aggregate_add(lapse->db, &total);
    }
    for (int i = 0; i < COUNTERS && !rc; i++)
        rc = store_counter_add(lapse->db, &(struct store_counter){.track = lapse->counter,
                                                                  .time = start + i * second,
                                                                  .value = (double)i});
    assert_int_equal(rc, 0);
    col_volume_step(lapse->drain, took);
}

static int count_step(void *ctx, const struct store_step *step)
{
    int64_t *sum = ctx;
    (void)step;
    ++*sum;
    return 0;
}

static int count_total(void *ctx, const struct store_step_aggregate *total)
{
    int64_t *sum = ctx;
    *sum += total->count;
    return 0;
}

static int count_slow(void *ctx, const struct store_slice *slice)
{
    int64_t *count = ctx;
    *count += slice->start / 10000000000 == SLOW_STEP;
    return 0;
}

static void test_three_days(void **state)
{
    (void)state;
    static struct col_drain drain;
    char folder[64] = "/tmp/tacho-volume-XXXXXX", path[96];
    struct lapse lapse = {.drain = &drain};
    struct tacho_error err = {0};
    int64_t most = 0, steps = 0, totals = 0, slow = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.db", folder);
    assert_int_equal(begin(&lapse, path), 0);
    drain.db = lapse.db;
    drain.pool_count = 1;
    drain.volume.max_bytes = MOST;
    drain.volume.from = -1;
    assert_int_equal(store_limit_wal(lapse.db, MOST), 0);
    for (int64_t step = 0; step < STEPS; step++) {
        add_step(&lapse, step);
        if (step % ROUND)
            continue;
        assert_int_equal(col_volume_turn(&drain, true), 0);
        assert_int_equal(store_commit(lapse.db), 0);
        int64_t bytes = store_bytes(lapse.db);
        most = bytes > most ? bytes : most;
        assert_int_equal(store_begin(lapse.db), 0);
    }
    assert_int_equal(store_commit(lapse.db), 0);
    print_message("72 hours: at most %.1f MiB of %.1f, %u windows\n", (double)most / (1 << 20),
                  (double)MOST / (1 << 20), (unsigned)drain.room.windows);
    assert_true(most <= MOST);
    assert_true(drain.room.windows > 2);
    store_close(lapse.db);
    store_reader *reader = NULL;
    assert_int_equal(store_open(path, &reader, &err), 0);
    assert_int_equal(store_step_from(reader, 1, count_step, &steps), 0);
    assert_int_equal(store_step_aggregate_from(reader, 1, count_total, &totals), 0);
    assert_int_equal(store_slice_each(reader, 1, count_slow, &slow), 0);
    assert_int_equal(steps, STEPS);
    assert_int_equal(totals, (int64_t)STEPS * SLICES); /* merged, and none is missing */
    assert_true(slow > 0); /* the window around the slowest step is still there */
    store_reader_close(reader);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_days)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
