/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain against pools made by hand: healing of lost ends, positions, taking over from a
 * collector that died at any commit, giving segments back only after a commit, damaged records,
 * clocks, steps.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/drain/drain.h"
#include "tests/unit/made_pool.h"

#define SEGMENTS      8u
#define SEGMENT_BYTES 4096u

struct pool {
    char folder[128], db[160];
    struct wire_pool *head;
    uint8_t *map;
    size_t bytes;
    uint64_t time;
    struct {
        uint32_t segment, used;
        uint64_t chain;
    } thread[4];
    uint32_t name[4];
};

/* A pool of this very process, so that it is alive; as a file that the drain maps for itself. */
static int setup(void **state)
{
    struct pool *p = calloc(1, sizeof *p);
    char path[160];
    const struct made_pool_shape shape = {32768, 32768, SEGMENTS, SEGMENT_BYTES};
    snprintf(p->folder, sizeof p->folder, "%s/col-drain-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(p->folder))
        return -1;
    snprintf(p->db, sizeof p->db, "%s/run.db", p->folder);
    snprintf(path, sizeof path, "%s/pool.%d.0", p->folder, (int)getpid());
    p->bytes = made_pool_bytes(&shape);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)p->bytes) != 0)
        return -1;
    p->map = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    p->head = (struct wire_pool *)p->map;
    if (made_pool_begin(p->head, &shape))
        return -1;
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        p->name[i] = made_pool_text(p->head, WIRE_TEXT_NAME, names[i]);
        p->thread[i].segment = UINT32_MAX;
    }
    atomic_store(&p->head->domain_name[1], made_pool_text(p->head, WIRE_TEXT_NAME, "one"));
    atomic_store(&p->head->domain_name[2], made_pool_text(p->head, WIRE_TEXT_NAME, "two"));
    p->head->magic = WIRE_MAGIC;
    p->time = 1000;
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pool *p = *state;
    char command[200];
    munmap(p->map, p->bytes);
    snprintf(command, sizeof command, "rm -r '%s'", p->folder);
    int rc = system(command);
    free(p);
    return rc;
}

static struct wire_segment *line_of(struct pool *p, uint32_t i)
{
    return (struct wire_segment *)(p->map + p->head->directory_offset) + i;
}

static void segment_full(struct pool *p, unsigned thread, bool last)
{
    struct wire_segment *line = line_of(p, p->thread[thread].segment);
    atomic_store(&line->last, last);
    atomic_store(&line->state, WIRE_FULL);
    p->thread[thread].segment = UINT32_MAX;
}

static void segment_take(struct pool *p, unsigned thread)
{
    uint32_t i = 0;
    while (atomic_load(&line_of(p, i)->state) != WIRE_FREE)
        assert_true(++i < SEGMENTS);
    struct wire_segment *line = line_of(p, i);
    atomic_store(&line->committed, 0);
    atomic_store(&line->last, 0);
    line->thread = thread;
    line->tid = (uint32_t)getpid() + thread;
    line->chain_seq = p->thread[thread].chain++;
    line->generation++;
    if (atomic_load(&p->head->segments_peak) <= i)
        atomic_store(&p->head->segments_peak, i + 1);
    atomic_store(&line->state, WIRE_ACTIVE);
    p->thread[thread].segment = i;
    p->thread[thread].used = 0;
}

static void put(struct pool *p, unsigned thread, const void *record, size_t bytes)
{
    if (p->thread[thread].segment != UINT32_MAX && p->thread[thread].used + bytes > SEGMENT_BYTES)
        segment_full(p, thread, false);
    if (p->thread[thread].segment == UINT32_MAX)
        segment_take(p, thread);
    uint32_t i = p->thread[thread].segment;
    memcpy(p->map + p->head->segments_offset + i * SEGMENT_BYTES + p->thread[thread].used, record,
           bytes);
    p->thread[thread].used += (uint32_t)bytes;
    atomic_store(&line_of(p, i)->committed, p->thread[thread].used);
}

/* The next event, 10 ns after the one before. */
static void event(struct pool *p, unsigned thread, enum wire_kind kind, unsigned domain,
                  unsigned depth, unsigned name)
{
    struct wire_record r = {.time = p->time += 10,
                            .kind = (uint8_t)kind,
                            .words = 2,
                            .domain = (uint8_t)domain,
                            .depth = (uint8_t)depth,
                            .name = kind == WIRE_POP ? 0 : p->name[name]};
    put(p, thread, &r, sizeof r);
}

static void range_event(struct pool *p, unsigned thread, enum wire_kind kind, uint64_t id)
{
    struct {
        struct wire_record r;
        uint64_t id;
    } x = {.r = {.time = p->time += 10,
                 .kind = (uint8_t)kind,
                 .words = 3,
                 .name = kind == WIRE_END ? 0 : p->name[0]},
           .id = id};
    put(p, thread, &x, sizeof x);
}

static void step_event(struct pool *p, unsigned thread, uint32_t schema, uint64_t index)
{
    struct {
        struct wire_record r;
        uint32_t schema, bytes;
        uint64_t data[3];
    } x = {.r = {.time = p->time += 10,
                 .kind = WIRE_PUSH | WIRE_PAYLOAD,
                 .words = 6,
                 .domain = 1,
                 .name = p->name[0]},
           .schema = schema,
           .bytes = 24,
           .data = {index, 64, 4}};
    put(p, thread, &x, sizeof x);
}

static void open_drain(const struct pool *p, struct col_drain *d, store *db)
{
    struct tacho_error err;
    int folder = open(p->folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(col_drain_open(d, db, folder, &err), 0);
    close(folder);
}

static store *created(struct pool *p, struct col_drain *d)
{
    store *db = NULL;
    struct tacho_error err;
    unlink(p->db);
    assert_int_equal(store_create(p->db, &db, &err), 0);
    open_drain(p, d, db);
    return db;
}

static void turn(struct col_drain *d)
{
    bool more = true;
    while (more) {
        assert_int_equal(col_drain_round(d, &more), 0);
        assert_int_equal(col_drain_commit(d), 0);
    }
}

/* The collector dies after its last commit, and another one takes over. */
static store *taken_over(struct pool *p, struct col_drain *d, store *db)
{
    struct tacho_error err;
    col_drain_close(d);
    store_close(db);
    assert_int_equal(store_resume(p->db, &db, &err), 0);
    open_drain(p, d, db);
    assert_int_equal(col_drain_load(d, &err), 0);
    return db;
}

struct slices {
    int64_t count, open, total;
    char text[512]; /* "start+dur " in order of start, of the first ones */
};

static int add_slice(void *ctx, const struct store_slice *x)
{
    struct slices *s = ctx;
    size_t at = strlen(s->text);
    s->count++;
    if (x->dur == STORE_ABSENT)
        s->open++;
    else
        s->total += x->dur;
    if (at < sizeof s->text - 40 && x->dur == STORE_ABSENT)
        snprintf(s->text + at, sizeof s->text - at, "%d+? ", (int)x->start);
    else if (at < sizeof s->text - 40)
        snprintf(s->text + at, sizeof s->text - at, "%d+%d ", (int)x->start, (int)x->dur);
    return 0;
}

static struct slices finished(struct pool *p, struct col_drain *d, store *db)
{
    struct slices s = {0};
    store_reader *r;
    struct tacho_error err;
    assert_int_equal(col_drain_end(d), 0);
    col_drain_close(d);
    assert_int_equal(store_finish(db, &err), 0);
    assert_int_equal(store_open(p->db, &r, &err), 0);
    assert_int_equal(store_slice_each(r, 1, add_slice, &s), 0);
    store_reader_close(r);
    return s;
}

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
    event(p, 1, WIRE_MARK, 0, 0, 1); /* another thread is not touched by it */
    turn(&d);
    assert_true(d.pool[0]->thread[0]->damaged);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 2);
}

static int find_loss(void *ctx, const struct store_loss *l)
{
    *(bool *)ctx |= strstr(l->reason, "damaged") != NULL;
    return 0;
}

/* The program wrote over the header of its pool, and then the collector died: what was committed
 * stays, the rest is said. */
static void test_damaged_header(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store_reader *r;
    struct tacho_error err;
    bool said = false;
    store *db = created(p, &d);
    event(p, 0, WIRE_MARK, 0, 0, 0);
    turn(&d);
    event(p, 0, WIRE_MARK, 0, 0, 1);
    p->head->segment_cap = 0;
    db = taken_over(p, &d, db);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 1);
    assert_int_equal(store_open(p->db, &r, &err), 0);
    assert_int_equal(store_loss_each(r, find_loss, &said), 0);
    store_reader_close(r);
    assert_true(said);
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

int main(void)
{
#define WITH_POOL(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_POOL(test_nesting),
        WITH_POOL(test_healing),
        WITH_POOL(test_deeper_than_255),
        WITH_POOL(test_taking_over),
        WITH_POOL(test_release_after_commit),
        WITH_POOL(test_damaged_record),
        WITH_POOL(test_damaged_header),
        WITH_POOL(test_steps),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests_name("col_drain", tests, NULL, NULL);
}
