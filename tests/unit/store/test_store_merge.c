/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging files whose truth is known: clocks with offset, drift and jitter; what may not be
 * matched; ids, losses, amounts.
 */
#include "store_test.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "store/merge/merge.h"

#define MS 1000000ll

static struct tacho_error err;

/* A node: its clock shows (t - T0) * (1 + ppm) + T0 + offset when the truth is t. */
#define T0 5000000000000ll
struct node {
    const char *boot;
    int64_t rank, offset;
    double ppm;
};

static int64_t shown(const struct node *n, int64_t t)
{
    return t + n->offset + llround((double)(t - T0) * n->ppm * 1e-6);
}

struct plan {
    int steps;
    int64_t step_ns,
        jitter_ns;      /* a rank is late by up to jitter; ends differ by up to a tenth of it */
    int64_t late_ns;    /* the last rank comes later by that, in each step */
    int64_t latency_ns; /* of a collective, after its last rank has come */
    uint64_t communicator[4]; /* by rank */
    int64_t ranks;            /* as the payload says */
    double counted[4];        /* by rank: a counter of the whole run; NAN: it is not known */
    int repeats;              /* of each sequence number */
    const char *collective;
    bool no_collectives, no_anchor;
    bool communicator_each; /* each step has a communicator of its own, and its first collective */
};
#define PLAN \
    { \
        .steps = 200, .step_ns = 20 * MS, .jitter_ns = MS, .latency_ns = 5000, .ranks = 2, \
        .repeats = 1, .collective = "all_reduce" \
    }

static uint64_t seed;
static int64_t draw(int64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return below ? (int64_t)((seed >> 33) % (uint64_t)below) : 0;
}

/* The truth: when rank r enters and leaves the collective of step k. */
static void truth(const struct plan *p, int k, int64_t enter[4], int64_t leave[4])
{
    int64_t last = 0;
    seed = (uint64_t)k * 7919 + 17;
    for (int r = 0; r < 4; r++) {
        enter[r] =
            T0 + k * p->step_ns + draw(p->jitter_ns + 1) + (r == p->ranks - 1 ? p->late_ns : 0);
        if (r < p->ranks)
            last = enter[r] > last ? enter[r] : last;
    }
    for (int r = 0; r < 4; r++)
        leave[r] = last + p->latency_ns + draw(p->jitter_ns / 10 + 1);
}

static int64_t intern(store *s, const char *text)
{
    int64_t id;
    OK(store_error(s), store_string(s, text, strlen(text), &id));
    return id;
}

static void record(const char *path, const struct node *n, const struct plan *p)
{
    store *s;
    OK(&err, store_create_private(path, &s, &err));
    OK(store_error(s), store_begin(s));
    struct store_process process = {.rank = n->rank,
                                    .pid = 100,
                                    .parent_pid = STORE_ABSENT,
                                    .start = shown(n, T0 - 1000),
                                    .end = shown(n, T0 + p->steps * p->step_ns),
                                    .exit_status = 0,
                                    .host = n->boot};
    OK(store_error(s), store_process_add(s, &process));
    struct store_track track = {.process = process.id, .tid = 1, .kind = "thread", .name = "main"};
    OK(store_error(s), store_track_add(s, &track));
    int64_t name = intern(s, n->boot), category = intern(s, "test"),
            detail; /* other ids in each file */
    struct store_detail d = STORE_DETAIL_NONE;
    d.schema = "tacho.comm";
    d.collective = p->collective;
    d.communicator = (int64_t)p->communicator[n->rank];
    d.ranks = p->ranks;
    d.bytes = 4096;
    d.samples = n->rank; /* details of their own */
    OK(store_error(s), store_detail_intern(s, &d, &detail));
    for (int k = 0; k < p->steps; k++) {
        int64_t enter[4], leave[4];
        truth(p, k, enter, leave);
        int64_t from = shown(n, enter[n->rank]), to = shown(n, leave[n->rank]);
        struct store_step step = {.process = process.id,
                                  .index = k,
                                  .start = from,
                                  .end = to,
                                  .tokens = 64,
                                  .samples = 1};
        OK(store_error(s), store_step_add(s, &step));
        if (p->communicator_each) {
            d.communicator = k + 1;
            OK(store_error(s), store_detail_intern(s, &d, &detail));
        }
        for (int i = 0; i < p->repeats && !p->no_collectives; i++) {
            struct store_slice x = {.track = track.id,
                                    .start = from,
                                    .dur = to - from,
                                    .name = name,
                                    .category = category,
                                    .detail = detail,
                                    .correlation = p->communicator_each ? 0 : k};
            OK(store_error(s), store_slice_add(s, &x));
        }
    }
    struct store_anchor a = {
        .tsc = STORE_ABSENT, .monotonic = shown(n, T0), .realtime = 1700000000000000000};
    if (!p->no_anchor)
        OK(store_error(s), store_anchor_add(s, &a));
    OK(store_error(s), store_run_set(s, "boot_id", n->boot));
    OK(store_error(s), store_run_set(s, "host", n->boot));
    OK(store_error(s), store_run_set(s, "job.id", "1"));
    OK(store_error(s), store_run_set_int(s, "start.monotonic_ns", shown(n, T0)));
    OK(store_error(s), store_run_set_int(s, "start.realtime_ns", 1700000000000000000));
    OK(store_error(s),
       store_run_set_int(s, "end.monotonic_ns", shown(n, T0 + p->steps * p->step_ns)));
    struct store_metric metric = {.name = "perf.total",
                                  .unit = "events",
                                  .value = p->counted[n->rank],
                                  .reason = "not counted"};
    OK(store_error(s), store_metric_set(s, &metric));
    OK(&err, store_finish(s, &err));
}

/* Records the nodes, merges them; `worst` gets how far any step of a rank above 0 is from where it
 * would be without it all. */
static struct store_merge_result merged(struct scratch *x, const struct node *n, int count,
                                        const struct plan *p, double *worst)
{
    char path[4][128];
    const char *in[4];
    struct store_merge_result r;
    for (int i = 0; i < count; i++) {
        snprintf(path[i], sizeof path[i], "%s/node%d.tacho", x->folder, i);
        unlink(path[i]);
        record(path[i], &n[i], p);
        in[count - 1 - i] = path[i]; /* the order in which they are given does not matter */
    }
    unlink(x->other);
    OK(&err,
       store_merge(
           &(struct store_merge_options){.in = in, .in_count = (size_t)count, .out = x->other}, &r,
           &err));
    sqlite3 *db;
    sqlite3_stmt *st;
    *worst = 0;
    assert_true(sql_integrity(x->other));
    assert_int_equal(sqlite3_open_v2(x->other, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(
            db,
            "SELECT p.rank, s.\"index\", s.start, s.\"end\" FROM step s JOIN process p ON p.id = "
            "s.process",
            -1, &st, NULL),
        SQLITE_OK);
    int rows = 0;
    for (; sqlite3_step(st) == SQLITE_ROW; rows++) {
        int64_t enter[4], leave[4];
        int rank = sqlite3_column_int(st, 0);
        truth(p, sqlite3_column_int(st, 1), enter, leave);
        *worst =
            fmax(*worst, fabs((double)(sqlite3_column_int64(st, 2) - shown(&n[0], enter[rank]))));
        *worst =
            fmax(*worst, fabs((double)(sqlite3_column_int64(st, 3) - shown(&n[0], leave[rank]))));
    }
    assert_int_equal(rows, count * p->steps);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return r;
}

static void offsets_and_drifts_are_recovered(void **state)
{
    static const struct {
        int64_t offset;
        double ppm;
        int64_t jitter, latency;
    } c[] = {{0, 0, MS, 5000},
             {1234567, 0, MS, 5000},
             {-86400000000000, 0, MS, 50000},
             {3600000000000, 15, MS, 5000},
             {-77, -40, MS, 20000},
             {999, 200, 5 * MS, 5000},
             {999, -400, 100000, 1000000},
             {123456789012345, 3, 0, 10000},
             {5, 0.02, MS, 5000}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct node n[] = {{"a", 0, 0, 0}, {"b", 1, c[i].offset, c[i].ppm}};
        struct plan p = PLAN;
        double worst;
        p.jitter_ns = c[i].jitter;
        p.latency_ns = c[i].latency;
        p.communicator[0] = p.communicator[1] = 9;
        struct store_merge_result r = merged(*state, n, 2, &p, &worst);
        assert_int_equal(r.how, STORE_MERGE_BY_COLLECTIVES);
        print_message("offset %" PRId64 " drift %g ppm: off by %.0f ns, stated %.0f ns\n",
                      c[i].offset, c[i].ppm, worst, r.error);
        assert_true(worst <= r.error);
        assert_true(r.error <
                    (double)(c[i].latency + c[i].jitter / 2 + 2000)); /* and it says something */
        assert_true(r.matched >= 64);
    }
}

static void a_rank_that_is_always_last(void **state)
{
    /* one side of the interval is loose then: the ends decide */
    struct node n[] = {{"a", 0, 0, 0}, {"b", 1, 50 * MS, 0}};
    struct plan p = PLAN;
    double worst;
    p.jitter_ns = 20000;
    p.late_ns = 10 * MS;
    p.communicator[0] = p.communicator[1] = 9;
    struct store_merge_result r = merged(*state, n, 2, &p, &worst);
    assert_true(worst <= r.error);
    assert_true(r.error < 80000); /* not 10 ms; the 50 us that waking a rank may take are in it */
}

static void three_machines_and_two_ranks_on_one(void **state)
{
    struct node n[] = {
        {"a", 0, 0, 0}, {"b", 1, 7 * MS, 10}, {"c", 2, -9 * MS, -10}, {"c", 3, -9 * MS, -10}};
    struct plan p = PLAN;
    double worst;
    p.ranks = 4;
    for (int i = 0; i < 4; i++)
        p.communicator[i] = 3;
    struct store_merge_result r = merged(*state, n, 4, &p, &worst);
    assert_int_equal(r.hosts, 3);
    assert_int_equal(r.ranks, 4);
    assert_true(worst <= r.error);
}

/* The counter of the merged file; NAN: it is absent. */
static double counted(const struct scratch *x)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open_v2(x->other, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT value FROM metric WHERE name = 'perf.total'", -1, &st, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    double value = sqlite3_column_type(st, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 0);
    assert_int_equal(sqlite3_step(st), SQLITE_DONE);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return value;
}

static void a_counter_that_one_file_lacks_has_no_total(void **state)
{
    struct node n[] = {{"a", 0, 0, 0}, {"a", 1, 0, 0}, {"a", 2, 0, 0}, {"a", 3, 0, 0}};
    double worst;
    for (int lacks = -1; lacks < 4; lacks++) {
        struct plan p = PLAN;
        p.ranks = 4;
        for (int i = 0; i < 4; i++) {
            p.communicator[i] = 3;
            p.counted[i] = i == lacks ? NAN : 1 << i;
        }
        merged(*state, n, 4, &p, &worst);
        if (lacks < 0)
            assert_true(counted(*state) == 15);
        else
            assert_true(isnan(counted(*state)));
    }
}

static void what_does_not_match_is_not_used(void **state)
{
    struct node n[] = {{"a", 0, 0, 0}, {"b", 1, 123 * MS, 0}};
    struct plan cases[5] = {PLAN, PLAN, PLAN, PLAN, PLAN};
    double worst;
    cases[0].communicator[0] =
        1; /* each node's own communicator, of one size and with the same sequence numbers */
    cases[0].communicator[1] = 2;
    cases[1].repeats = 2;           /* nobody knows which belongs to which */
    cases[2].ranks = 3;             /* a rank is missing */
    cases[3].collective = "reduce"; /* others than the root may leave early */
    cases[4].no_collectives = true;
    for (int i = 0; i < 5; i++) {
        struct store_merge_result r = merged(*state, n, 2, &cases[i], &worst);
        assert_int_equal(r.how, STORE_MERGE_WALL);
        assert_true(isnan(r.error));
        assert_true(worst < 2); /* the anchors of these files are true */
    }
    cases[4].no_anchor = true;
    struct store_merge_result r = merged(*state, n, 2, &cases[4], &worst);
    assert_int_equal(r.how, STORE_MERGE_NONE);
    assert_true(isnan(r.error));
}

static void many_collectives_are_thinned(void **state)
{
    struct node n[] = {{"a", 0, 0, 0}, {"b", 1, 42 * MS, 0}};
    struct plan p = PLAN;
    double worst;
    p.steps = 3 * STORE_MERGE_COLLECTIVES;
    p.step_ns = 200000;
    p.jitter_ns = 50000;
    struct store_merge_result r = merged(*state, n, 2, &p, &worst);
    assert_int_equal(r.how, STORE_MERGE_BY_COLLECTIVES);
    assert_true(r.matched > 1000 && r.matched <= STORE_MERGE_COLLECTIVES);
    assert_true(worst <= r.error);
    assert_int_equal(r.slices, 2 * p.steps);
}

/* A job of many nodes has many groups, and each has a collective of the number 0. */
static void many_communicators_are_thinned(void **state)
{
    struct node n[] = {{"a", 0, 0, 0}, {"b", 1, 42 * MS, 0}};
    struct plan p = PLAN;
    double worst;
    p.steps = STORE_MERGE_COLLECTIVES + STORE_MERGE_COLLECTIVES / 8;
    p.step_ns = 200000;
    p.jitter_ns = 50000;
    p.communicator_each = true;
    struct store_merge_result r = merged(*state, n, 2, &p, &worst);
    assert_int_equal(r.how, STORE_MERGE_BY_COLLECTIVES);
    assert_true(r.matched > 1000 && r.matched <= STORE_MERGE_COLLECTIVES);
    assert_true(worst <= r.error);
}

/* Merges two small files, of which the first was changed by SQL. */
static int merge_changed(struct scratch *x, const char *sql)
{
    struct node n[] = {{"a", 0, 0, 0}, {"b", 1, 42 * MS, 0}};
    struct plan p = PLAN;
    char path[2][128];
    const char *in[2] = {path[0], path[1]};
    struct store_merge_result r;
    sqlite3 *db;
    p.steps = 3;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/node%d.tacho", x->folder, i);
        unlink(path[i]);
        record(path[i], &n[i], &p);
    }
    assert_int_equal(sqlite3_open_v2(path[0], &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    unlink(x->other);
    return store_merge(
        &(struct store_merge_options){.in = in, .in_count = 2, .out = x->other, .force = true}, &r,
        &err);
}

/* What a damaged or hostile file says costs neither memory nor time beyond its own size. */
static void hostile_files_are_refused_soon(void **state)
{
    clock_t begun = clock();
    /* Maps of ids would need 16 GiB each. */
    static const char *const far[] = {
        "INSERT INTO string VALUES (2147483000, 'far')",
        "INSERT INTO track (id, kind) VALUES (2147483000, 'thread')",
        "INSERT INTO process (id) VALUES (2147483000)",
        "INSERT INTO stack VALUES (2147483000, NULL, 1)",
    };
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        assert_int_equal(merge_changed(*state, far[i]), TACHO_ECORRUPT);
        assert_non_null(strstr(err.what, "node0.tacho: damaged"));
    }
    /* Each row was compared with all before it. */
    assert_int_equal(merge_changed(*state,
                                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                                   "FROM n WHERE i < 100000) INSERT INTO ceiling "
                                   "SELECT 'cpu', 'r' || i, NULL, i, 'made' FROM n"),
                     TACHO_ECORRUPT);
    assert_non_null(strstr(err.what, "node0.tacho: damaged: more than"));
    /* Numbers at the end of their range. */
    assert_int_equal(merge_changed(*state, "UPDATE run SET value = '9223372036854775807' WHERE key "
                                           "LIKE '%_ns'; INSERT INTO run VALUES "
                                           "('nvml.9223372036854775807.name', 'x'); "
                                           "INSERT INTO run VALUES "
                                           "('cpu.online', '9223372036854775807'); "
                                           "UPDATE slice SET start = 9223372036854775000"),
                     0);
    assert_true((double)(clock() - begun) / CLOCKS_PER_SEC < 5);
}

static void times_are_converted(void **state)
{
    struct store_merge_clock c = {.offset = -5, .pivot = 1000, .drift = 0};
    (void)state;
    assert_int_equal(store_merge_time(&c, 1000), 995);
    c.drift = 1e-3;
    assert_int_equal(store_merge_time(&c, 1000), 995);
    assert_int_equal(store_merge_time(&c, 11000), 10995 + 10);
    assert_int_equal(store_merge_time(&c, -9000), -9005 - 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offsets_and_drifts_are_recovered, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_is_always_last, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(three_machines_and_two_ranks_on_one, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_counter_that_one_file_lacks_has_no_total, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_match_is_not_used, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(many_collectives_are_thinned, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(many_communicators_are_thinned, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(hostile_files_are_refused_soon, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(times_are_converted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
