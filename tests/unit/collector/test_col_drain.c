/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain against pools made by hand: healing of lost ends, positions, taking over from a
 * collector that died at any commit, giving segments back only after a commit, damaged records,
 * clocks, steps, processes that follow each other.
 */
#include <sys/wait.h>

#include "tests/unit/col_fixture.h"

static void test_nesting(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    event(p, 0, WIRE_PUSH, 1, 0, 0);
    event(p, 0, WIRE_PUSH, 2, 0, 1); /* another domain has depths of its own */
    event(p, 0, WIRE_PUSH, 1, 1, 2);
    event(p, 0, WIRE_POP, 2, 0, 0); /* and need not be nested in the first */
    event(p, 0, WIRE_POP, 1, 1, 0);
    event(p, 0, WIRE_MARK, 1, 0, 3);
    event(p, 0, WIRE_POP, 1, 0, 0);
    turn(&d);
    assert_int_equal(d.stats.ranges_without_end, 0);
    assert_int_equal(d.process[0]->rank, 3);
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.text, "1020+20 1030+20 1060+0 1010+60 ");
}

static void test_healing(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    event(p, 0, WIRE_PUSH, 1, 0, 0); /* 1010 */
    event(p, 0, WIRE_PUSH, 1, 1, 1); /* 1020: its pop is lost */
    event(p, 0, WIRE_PUSH, 1, 1, 2); /* 1030 */
    event(p, 0, WIRE_PUSH, 1, 2, 3); /* 1040: its pop is lost too */
    event(p, 0, WIRE_POP, 1, 1, 0);  /* 1050 closes 1030 */
    event(p, 0, WIRE_POP, 1, 5, 0);  /* its push was lost */
    event(p, 0, WIRE_POP, 1, 0, 0);  /* 1070 closes 1010 */
    event(p, 0, WIRE_POP, 1, 0, 0);  /* its push was lost */
    turn(&d);
    assert_int_equal(d.stats.ranges_without_end, 2);
    assert_int_equal(d.stats.ends_without_start, 2);
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.text, "1020+? 1040+? 1030+20 1010+60 ");
}

static void test_deeper_than_255(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    for (unsigned i = 0; i < 300; i++) {
        event(p, 0, WIRE_PUSH, 1, i < 255 ? i : 255, 0);
        if (i % 50 == 49)
            turn(&d);
    }
    for (unsigned i = 300; i-- > 0;) {
        event(p, 0, WIRE_POP, 1, i < 255 ? i : 255, 0);
        if (i % 50 == 49)
            turn(&d);
    }
    turn(&d);
    assert_int_equal(d.stats.ranges_without_end + d.stats.ends_without_start, 0);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 300);
    assert_int_equal(s.open, 0);
    assert_int_equal(s.total, 10 * (300 * 300)); /* 1 + 3 + ... + 599 */
}

/* The same events, with a collector that dies after each commit or after none: the same file. */
static void test_taking_over(void **state)
{
    struct pool *p = *state;
    struct slices plain = {0};
    for (int mode = 0; mode < 3; mode++) { /* 0: one collector; 1: a new one after each turn; 2: a
                                              segment is not given back */
        struct col_drain d;
        store *db = created(p, &d);
        uint64_t begin = p->time;
        for (unsigned i = 0; i < 40; i++) {
            event(p, 0, WIRE_PUSH, 1, 0, 0);
            range_event(p, 1, WIRE_START, i);
            for (unsigned k = 0; k < 20; k++) {
                event(p, 0, WIRE_PUSH, 1, 1, 1);
                event(p, 1, WIRE_PUSH, 2, 0, 2);
                event(p, 0, WIRE_POP, 1, 1, 0);
                if (k % 7 == 3) {
                    turn(&d);
                    if (mode)
                        db = taken_over(p, &d, db);
                }
                event(p, 1, WIRE_POP, 2, 0, 0);
            }
            range_event(p, 0, WIRE_END, i); /* by another thread */
            event(p, 0, WIRE_POP, 1, 0, 0);
            if (mode == 2 && i == 20) {
                /* committed, and dead before the segment was given back: it looks FULL again to the
                 * next one */
                segment_full(p, 0, false);
                uint32_t was = 0;
                while (atomic_load(&line_of(p, was)->state) != WIRE_FULL)
                    was++;
                turn(&d);
                assert_int_equal(atomic_load(&line_of(p, was)->state), WIRE_FREE);
                atomic_store(&line_of(p, was)->state, WIRE_FULL);
                db = taken_over(p, &d, db);
                turn(&d);
                assert_int_equal(atomic_load(&line_of(p, was)->state), WIRE_FREE);
            }
        }
        turn(&d);
        assert_int_equal(d.stats.ranges_without_end + d.stats.ends_without_start, 0);
        for (unsigned t = 0; t < 2; t++) {
            segment_full(p, t, true);
            p->thread[t].chain = 0;
        }
        turn(&d);
        struct slices s = finished(p, &d, db);
        assert_int_equal(s.count, 40 + 40 * 40 + 40);
        assert_int_equal(s.open, 0);
        if (mode == 0)
            plain = s;
        assert_int_equal(s.total, plain.total);
        assert_true(p->time > begin);
        for (uint32_t i = 0; i < SEGMENTS; i++)
            assert_int_equal(atomic_load(&line_of(p, i)->state), WIRE_FREE);
    }
}

static void test_release_after_commit(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    bool more;
    store *db = created(p, &d);
    event(p, 0, WIRE_MARK, 0, 0, 0);
    segment_full(p, 0, false);
    assert_int_equal(col_drain_round(&d, &more), 0);
    assert_int_equal(atomic_load(&line_of(p, 0)->state),
                     WIRE_FULL); /* read, and not committed yet */
    assert_int_equal(col_drain_commit(&d), 0);
    assert_int_equal(atomic_load(&line_of(p, 0)->state), WIRE_FREE);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 1);
}

static void test_damaged_record(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    event(p, 0, WIRE_MARK, 0, 0, 0);
    struct wire_record bad = {.kind = WIRE_PUSH | WIRE_PAYLOAD, .words = 200};
    put(p, 0, &bad, sizeof bad);
    event(p, 0, WIRE_MARK, 0, 0, 1); /* what follows is read */
    event(p, 1, WIRE_MARK, 0, 0, 1); /* another thread is not touched by it */
    turn(&d);
    assert_int_equal(d.stats.uncounted, 1);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 3);
}

static int count_step(void *ctx, const struct store_step *x)
{
    int64_t *sum = ctx;
    sum[0]++;
    sum[1] += x->end - x->start;
    assert_int_equal(x->tokens, 64);
    return 0;
}

static int count_total(void *ctx, const struct store_step_aggregate *x)
{
    int64_t *sum = ctx;
    sum[x->step < 0] += x->count;
    sum[2] += x->self;
    return 0;
}

static void test_steps(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store_reader *r;
    struct tacho_error err;
    int64_t steps[2] = {0}, totals[3] = {0};
    uint32_t schema =
        made_pool_text(p->head, WIRE_TEXT_SCHEMA,
                       "tacho.step\t24\nindex\t18\t0\ntokens\t18\t8\nsamples\t18\t16\n");
    store *db = created(p, &d);
    d.volume.from = 3; /* detail of steps 3 and 4 only */
    d.volume.to = 4;
    for (uint64_t i = 0; i < 10; i++) {
        step_event(p, 0, schema, i);
        event(p, 0, WIRE_PUSH, 1, 1, 1);
        event(p, 1, WIRE_PUSH, 1, 0, 2); /* another thread, meanwhile */
        event(p, 0, WIRE_POP, 1, 1, 0);
        event(p, 1, WIRE_POP, 1, 0, 0);
        event(p, 0, WIRE_POP, 1, 0, 0);
        event(p, 0, WIRE_MARK, 1, 0, 3); /* between steps */
        if (i % 3 == 0)
            turn(&d);
        if (i == 5)
            db = taken_over(p, &d, db);
        d.volume.from = 3;
        d.volume.to = 4;
    }
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count,
                     10 + 10 + 2 * 2); /* steps and what is outside of them are always kept */
    assert_int_equal(store_open(p->db, &r, &err), 0);
    assert_int_equal(store_step_each(r, count_step, steps), 0);
    assert_int_equal(store_step_aggregate_each(r, count_total, totals), 0);
    assert_int_equal(steps[0], 10);
    assert_int_equal(steps[1], 10 * 50);
    assert_int_equal(totals[0], 30); /* of each step: itself, the range in it, the other thread's */
    assert_int_equal(totals[1], 10);
    assert_int_equal(totals[2], 10 * (30 + 20 + 20));
    store_reader_close(r);
}

static void test_clock(void **state)
{
    (void)state;
    static struct col_clock c;
    col_clock_init(&c);
    /* 2.5 GHz, later slewed by 100 ppm; more anchors than the ring holds */
    uint64_t tsc = 1ull << 60;
    int64_t ns = 5000000000;
    for (int i = 0; i < 3 * COL_CLOCK_RING; i++) {
        struct col_anchor a = {.tsc = tsc, .monotonic = ns};
        assert_true(col_clock_add(&c, &a));
        assert_false(col_clock_add(&c, &a));
        tsc += 25000000;
        ns += i < COL_CLOCK_RING ? 10000000 : 10001000;
    }
    tsc -= 25000000;
    ns -= 10001000;
    assert_in_range(col_clock_ns(&c, tsc), ns - 1, ns);
    assert_in_range(col_clock_ns(&c, tsc - 12500000), ns - 5000501, ns - 5000499);
    assert_in_range(col_clock_ns(&c, tsc + 25000), ns + 10000, ns + 10002);
    int64_t before = INT64_MIN;
    for (uint64_t back = 2000; back-- > 0;) {
        int64_t t = col_clock_ns(&c, tsc - back * 1000000);
        assert_true(t > before);
        before = t;
    }
    struct col_anchor a = col_clock_anchor(), b;
    do
        b = col_clock_anchor();
    while (b.monotonic - a.monotonic < 2000000);
    col_clock_init(&c);
    assert_true(col_clock_add(&c, &a) && col_clock_add(&c, &b));
    struct col_anchor now = col_clock_anchor();
    if (now.tsc)
        assert_in_range(col_clock_ns(&c, now.tsc) - now.monotonic + 100000, 0, 200000);
}

/* A program that never closes its ranges: what is kept of them, and saved at each commit, does not
 * grow with the run, and each of them is in the file. */
static void test_pops_forgotten(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    for (unsigned i = 0; i < 10000; i++) {
        event(p, 0, WIRE_PUSH, 1, i < 255 ? i : 255, 0);
        if (i % 1000 == 999)
            turn(&d);
    }
    assert_in_range(d.pool[0]->thread[0]->depth, 255, COL_OPEN_MOST);
    assert_in_range(d.stats.ranges_without_end, 10000 - COL_OPEN_MOST, 10000 - 255);
    db = taken_over(p, &d, db);
    for (unsigned i = 255; i-- > 0;) /* those that were opened first are open still */
        event(p, 0, WIRE_POP, 1, i, 0);
    turn(&d);
    assert_int_equal(d.stats.ranges_without_end, 10000 - 255);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 10000);
    assert_int_equal(s.open, 10000 - 255);
}

/* ---- processes that follow each other ---------------------------------------------------------- */

/* The pid of a process that has ended. */
static int32_t ended_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (int32_t)pid;
}

/* Leaves the pool of a process that has ended, after one mark with a payload of this schema. */
static void leave_pool(struct pool *p, const char *schema)
{
    int32_t pid = ended_pid();
    uint64_t arena = atomic_load(&p->head->arena_used);
    char path[200];
    struct {
        struct wire_record r;
        uint32_t schema, bytes;
        uint64_t data;
    } x = {.r = {.time = p->time += 10,
                 .kind = WIRE_MARK | WIRE_PAYLOAD,
                 .words = 4,
                 .name = p->name[0]},
           .bytes = 8,
           .data = 7};
    x.schema = made_pool_text(p->head, WIRE_TEXT_SCHEMA, schema);
    memset(line_of(p, 0), 0, sizeof *line_of(p, 0));
    p->thread[0].segment = UINT32_MAX;
    p->thread[0].chain = 0;
    put(p, 0, &x, sizeof x);
    p->head->pid = (uint32_t)pid;
    snprintf(path, sizeof path, "%s/pool.%d.0", p->folder, (int)pid);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p->map, p->bytes), (ssize_t)p->bytes);
    close(fd);
    atomic_store(&p->head->arena_used, arena);
}

static int take_number(void *ctx, int columns, const struct store_cell *cells)
{
    assert_int_equal(columns, 1);
    *(int64_t *)ctx = cells->integer;
    return 0;
}

/* Processes of different programs give the same numbers to different schemas. What was remembered
 * of the payloads of one that has ended is not what the next one means, although it may lie at the
 * same place in memory. */
static void test_payloads_of_processes(void **state)
{
    static const char *const schemas[] = {"first\t8\nweight\t18\t0\n", "second\t8\nlength\t18\t0\n",
                                          "third\t8\nwidth\t18\t0\n"};
    struct pool *p = *state;
    struct col_drain d;
    store_reader *r;
    struct tacho_error err;
    char own[200];
    int64_t details = 0;
    store *db = created(p, &d);
    snprintf(own, sizeof own, "%s/pool.%d.0", p->folder, (int)getpid());
    assert_int_equal(unlink(own), 0);
    for (size_t i = 0; i < 3; i++) {
        leave_pool(p, schemas[i]);
        turn(&d);
        assert_int_equal(col_drain_reap(&d), 0);
        assert_int_equal(d.pool_count, 0);
    }
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 3);
    assert_int_equal(store_open(p->db, &r, &err), 0);
    assert_int_equal(
        store_query(r, "SELECT count(DISTINCT detail) FROM slice", NULL, take_number, &details), 0);
    assert_int_equal(details, 3);
    store_reader_close(r);
}

static void leave_mark(const struct pool *p, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* A process without a pool leaves what it lost in the name of a file. What cannot be added up is
 * not known, and names that the agent does not give count nothing. */
static void test_processes_without_pool(void **state)
{
    static const char what[] = "event dropped: no space or memory for the pool of a process";
    struct pool *p = *state;
    struct col_drain d;
    char losses[200];
    store *db = created(p, &d);
    leave_mark(p, "none.7.40");
    leave_mark(p, "none.8.2");
    leave_mark(p, "none.9.-5");
    leave_mark(p, "none.more");
    struct slices s = finished(p, &d, db);
    snprintf(losses, sizeof losses, "%s=42 ", what);
    assert_string_equal(s.losses, losses);
    db = created(p, &d);
    leave_mark(p, "none.10.9223372036854775807");
    s = finished(p, &d, db);
    snprintf(losses, sizeof losses, "%s=NULL ", what);
    assert_string_equal(s.losses, losses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_POOL(test_nesting),
        WITH_POOL(test_healing),
        WITH_POOL(test_deeper_than_255),
        WITH_POOL(test_taking_over),
        WITH_POOL(test_release_after_commit),
        WITH_POOL(test_damaged_record),
        WITH_POOL(test_steps),
        WITH_POOL(test_pops_forgotten),
        WITH_POOL(test_payloads_of_processes),
        WITH_POOL(test_processes_without_pool),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests_name("col_drain", tests, NULL, NULL);
}
