/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a file as observations: the ranks of devices by the keys of the run, collectives and
 * which of them are over, many of them in little memory. Files whose ids are anything, and many
 * phases.
 */
#include "tests/unit/an_fixture.h"

#include <sqlite3.h>

#include "monitor/feed/feed_private.h"
#include "monitor/ranks.h"

#define MS     1000000ll
#define STEPS  200
#define PHASES 200000

static struct mon_config config;

struct told {
    bool seen;
    struct mon_symptom symptom;
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct told *told = ctx;
    if (notice->event == MON_RESOLVED || told->seen)
        return;
    told->seen = true;
    told->symptom = notice->alert->symptom;
}

static void collective(struct fixture *f, int64_t track, int64_t number, int64_t start, int64_t end)
{
    struct store_detail detail = fx_empty();
    detail.schema = "tacho.comm";
    detail.collective = "all_reduce";
    detail.communicator = 42;
    struct store_slice slice = {.track = track,
                                .start = FX_BASE + start,
                                .dur = end == FX_NONE ? FX_NONE : end - start,
                                .name = fx_string(f, "all_reduce"),
                                .category = fx_string(f, "test"),
                                .detail = fx_intern(f, &detail),
                                .correlation = number};
    FX(store_slice_add(f->s, &slice));
}

/* Two ranks with a GPU each; rank 1 never ends its collective number 200, rank 0 has begun no
 * other. */
static void make_run(struct fixture *f)
{
    int64_t process[2], thread[2], width, memory;
    fx_open(f);
    for (int64_t rank = 0; rank < 2; rank++) {
        process[rank] = fx_process(f, rank, "train");
        thread[rank] = fx_track(f, process[rank], "thread", "main", NULL);
    }
    struct store_track track = {.process = FX_NONE,
                                .tid = FX_NONE,
                                .kind = "counter",
                                .name = "pcie_width",
                                .device = "pci:0000:3b:00.0",
                                .unit = "lanes"};
    FX(store_track_add(f->s, &track));
    width = track.id;
    track.name = "gpu_memory_used";
    track.device = "gpu:1";
    FX(store_track_add(f->s, &track));
    memory = track.id;
    fx_counter(f, width, 0, 16);
    for (int64_t step = 0; step < STEPS; step++)
        for (int rank = 0; rank < 2; rank++) {
            int64_t start = step * 100 * MS;
            fx_step(f, process[rank], thread[rank], step, start, start + 100 * MS, 1000, false);
            collective(f, thread[rank], step, start + 90 * MS, start + 95 * MS);
            fx_counter(f, memory, start, 1e9);
        }
    collective(f, thread[1], STEPS, STEPS * 100 * MS + 50 * MS, FX_NONE);
    char key[64];
    snprintf(key, sizeof key, "device.%lld.gpu:0.uuid", (long long)process[1]);
    FX(store_run_set(f->s, key, "GPU-b"));
    snprintf(key, sizeof key, "device.%lld.gpu:0.uuid", (long long)process[0]);
    FX(store_run_set(f->s, key, "GPU-a"));
    FX(store_run_set(f->s, "nvml.0.uuid", "GPU-a"));
    FX(store_run_set(f->s, "nvml.0.pci", "0000:3b:00.0"));
    FX(store_run_set(f->s, "nvml.1.uuid", "GPU-b"));
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    struct tacho_error err = {0};
    assert_int_equal(store_open(f->path, &f->reader, &err), 0);
}

static void test_devices_and_collectives(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    struct told told = {.seen = false};
    struct mon_counter_state counter;
    make_run(f);
    struct mon_feed *feed = mon_feed_new();
    struct mon_monitor *monitor = mon_new(&config, FX_BASE, on_notice, &told);
    assert_non_null(feed);
    while (mon_feed_poll(feed, f->reader, 300) == 1)
        assert_int_equal(mon_feed_play(feed, monitor, mon_feed_horizon(feed)), 0);
    int64_t end = FX_BASE + STEPS * 100 * MS;
    assert_int_equal(mon_feed_play(feed, monitor, end + 1000 * MS), 0);
    assert_int_equal(mon_feed_steps(feed), 2 * STEPS);
    assert_true(mon_counter_at(monitor, "pcie_width", 0, &counter));
    assert_int_equal(counter.rank, 0);
    assert_true(mon_counter_at(monitor, "gpu_memory_used", 0, &counter));
    assert_int_equal(counter.rank, 1);
    mon_tick(monitor, end + 61000 * MS);
    assert_true(told.seen);
    assert_string_equal(told.symptom.code, "STALLED");
    assert_string_equal(told.symptom.changed,
                        "communicator 42: all_reduce 200 started by 1 of 2 ranks, completed by 0; "
                        "rank 0: all_reduce 199 completed");
    assert_int_equal(told.symptom.rank_count, 1);
    assert_int_equal(told.symptom.rank[0], 0);
    mon_feed_free(feed);
    mon_free(monitor);
    fx_close(f);
}

/* What a poll of a file returns after a statement was run on it. */
static int poll_after(const char *sql)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    sqlite3 *db;
    fx_open(f);
    fx_slice(f, f->thread, 0, MS, "a range", fx_kind(f, "checkpoint"));
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
    assert_int_equal(store_open(f->path, &f->reader, &err), 0);
    struct mon_feed *feed = mon_feed_new();
    assert_non_null(feed);
    int rc = mon_feed_poll(feed, f->reader, 1000);
    mon_feed_free(feed);
    fx_close(f);
    return rc;
}

/* Names and payloads are looked up by id: a table of them must not be as large as a file says. */
static void test_ids_far_ahead(void **state)
{
    (void)state;
    assert_int_equal(poll_after("INSERT INTO string VALUES (60000, 'a name')"), 0);
    assert_int_equal(poll_after("INSERT INTO detail (id, kind) VALUES (60000, 'evaluation')"), 0);
    assert_int_equal(poll_after("INSERT INTO string VALUES (1 << 24, 'a name')"), TACHO_ECORRUPT);
    assert_int_equal(poll_after("INSERT INTO detail (id, kind) VALUES (1 << 24, 'evaluation')"),
                     TACHO_ECORRUPT);
}

/* Steps in which a phase lies are special; a rank of many phases and no later step takes no time
 * that grows with their square. */
static void test_many_phases(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    fx_open(f);
    int64_t process[2], thread[2], detail = fx_kind(f, "checkpoint");
    for (int64_t rank = 0; rank < 2; rank++) {
        process[rank] = fx_process(f, rank, "train");
        thread[rank] = fx_track(f, process[rank], "thread", "main", NULL);
        for (int64_t step = 0; step < 4; step++)
            fx_step(f, process[rank], thread[rank], step, step * 100 * MS, (step + 1) * 100 * MS,
                    1000, false);
    }
    /* rank 1: in step 0, and from the middle of step 1 to that of step 2, with a short one in it */
    fx_slice(f, thread[1], 10 * MS, 20 * MS, "save", detail);
    fx_slice(f, thread[1], 150 * MS, 250 * MS, "save", detail);
    fx_slice(f, thread[1], 160 * MS, 170 * MS, "save", detail);
    for (int64_t i = 0; i < PHASES; i++)
        fx_slice(f, thread[0], 1000 * MS + i * 1000, 1000 * MS + i * 1000 + 500, "save", detail);
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    assert_int_equal(store_open(f->path, &f->reader, &err), 0);
    struct mon_feed *feed = mon_feed_new();
    assert_non_null(feed);
    alarm(20);
    assert_int_equal(mon_feed_poll(feed, f->reader, INT64_MAX), 0);
    alarm(0);
    size_t steps = 0;
    for (size_t i = 0; i < feed->count; i++) {
        const struct mon_step *step = feed->queue[i].step;
        if (!step)
            continue;
        steps++;
        if (step->special != (step->rank == 1 && step->index < 3))
            fail_msg("step %lld of rank %lld", (long long)step->index, (long long)step->rank);
    }
    assert_int_equal(steps, 8);
    mon_feed_free(feed);
    fx_close(f);
}

int main(void)
{
    mon_config_init(&config);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices_and_collectives),
                                       cmocka_unit_test(test_ids_far_ahead),
                                       cmocka_unit_test(test_many_phases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
