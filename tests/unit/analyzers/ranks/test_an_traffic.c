/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sends to whom: made-up ranks whose calls are known, so that each cell of the matrix follows
 * by hand; more ranks than rows, whose neighbours are added up; calls whose peers are not known.
 */
#include "tests/unit/an_gpu.h"

#define US    1000
#define STEPS 6

/* What each rank calls in each step; all by all ranks, a send to the next one, and its receive from
 * the one before, along a line. Bytes; 0: no such call. */
struct calls {
    int ranks;
    int64_t all_reduce, all_gather, all_to_all, send, broadcast;
    int lost;       /* this rank's receive was not recorded; 0: it was */
    bool backwards; /* the processes of the last ranks were recorded first */
};

static void call(struct fixture *f, int64_t track, int64_t start, const char *name, int64_t bytes,
                 int64_t communicator, int64_t ranks, int64_t sequence)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.comm";
    d.collective = name;
    d.bytes = bytes;
    d.communicator = communicator;
    d.ranks = ranks;
    struct store_slice x = {.track = track,
                            .start = FX_BASE + start * US,
                            .dur = 10 * US,
                            .name = fx_string(f, name),
                            .category = fx_string(f, "libtrain"),
                            .detail = fx_intern(f, &d),
                            .correlation = sequence};
    if (bytes)
        FX(store_slice_add(f->s, &x));
}

static const struct an_traffic *make(struct fixture *f, struct calls calls)
{
    fx_open(f);
    for (int k = 0; k < calls.ranks; k++) {
        int rank = calls.backwards ? calls.ranks - 1 - k : k;
        int64_t process = fx_process(f, rank, "train"),
                thread = fx_track(f, process, "thread", "main", NULL);
        for (int i = 0; i < STEPS; i++) {
            int64_t at = i * 1000;
            fx_step(f, process, thread, i, at * US, (at + 1000) * US, 64, false);
            fx_slice(f, thread, at * US, (at + 500) * US, "matmul",
                     fx_work(f, "matrix", "fp32", 1, 1, 1));
            call(f, thread, at + 500, "all_reduce", calls.all_reduce, 1, calls.ranks, i);
            call(f, thread, at + 520, "all_gather", calls.all_gather, 1, calls.ranks, i);
            call(f, thread, at + 540, "all_to_all", calls.all_to_all, 1, calls.ranks, i);
            call(f, thread, at + 560, "broadcast", calls.broadcast, 1, calls.ranks, i);
            if (rank + 1 < calls.ranks)
                call(f, thread, at + 580, "send", calls.send, 100 + rank, 2, i);
            if (rank && rank != calls.lost)
                call(f, thread, at + 600, "recv", calls.send, 99 + rank, 2, i);
        }
    }
    return &fx_analyze(f)->communication.traffic;
}

/* Bytes and messages from a row to a row. */
static const struct an_link *link_of(const struct an_traffic *traffic, size_t from, size_t to)
{
    for (size_t i = 0; i < traffic->link_count; i++)
        if (traffic->link[i].from == from && traffic->link[i].to == to)
            return &traffic->link[i];
    return NULL;
}

/* A ring goes from each rank to the next one, in whatever order their processes were recorded. */
static void test_rings(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct fixture f;
        const struct an_traffic *traffic = make(
            &f, (struct calls){
                    .ranks = 4, .all_reduce = 4000, .all_gather = 800, .backwards = backwards});
        assert_null(traffic->reason);
        assert_int_equal(traffic->rows, 4);
        assert_int_equal(traffic->link_count, 4);
        for (size_t i = 0; i < 4; i++) {
            const struct an_link *link = link_of(traffic, i, (i + 1) % 4);
            assert_non_null(link);
            assert_near(link->bytes, 2 * 0.75 * 4000 + 0.75 * 800, 1e-6);
            assert_near(link->messages, 6 + 3, 1e-6);
            assert_near(link->recorded, 0, 1e-6);
        }
        assert_near(traffic->bytes, 4 * 6600, 1e-6);
        assert_near(traffic->unplaced, 0, 1e-6);
        fx_close(&f);
    }
}

static void test_sends(void **state)
{
    (void)state;
    struct fixture f;
    const struct an_traffic *traffic =
        make(&f, (struct calls){.ranks = 4, .all_to_all = 1000, .send = 700, .broadcast = 50});
    assert_int_equal(traffic->link_count, 12); /* each to each */
    for (size_t from = 0; from < 4; from++)
        for (size_t to = 0; to < 4; to++) {
            const struct an_link *link = link_of(traffic, from, to);
            bool sends = to == from + 1;
            assert_true((link == NULL) == (from == to));
            if (!link)
                continue;
            assert_near(link->bytes, 250 + (sends ? 700 : 0), 1e-6);
            assert_near(link->messages, sends ? 2 : 1, 1e-6);
            assert_near(link->recorded, sends ? 700 : 0, 1e-6);
        }
    assert_near(traffic->recorded, 3 * 700, 1e-6);
    assert_near(traffic->unplaced, 4 * 50, 1e-6); /* which rank has what is sent is not said */
    fx_close(&f);
}

/* A send whose receive is not there says nothing of a link. */
static void test_lost_receive(void **state)
{
    (void)state;
    struct fixture f;
    const struct an_traffic *traffic = make(&f, (struct calls){.ranks = 3, .send = 700, .lost = 2});
    assert_int_equal(traffic->link_count, 1);
    assert_near(link_of(traffic, 0, 1)->bytes, 700, 1e-6);
    assert_near(traffic->unplaced, 700, 1e-6);
    fx_close(&f);
}

/* 130 ranks: three to a row; within a row two links of the line, and one to the next row. */
static void test_many_ranks(void **state)
{
    (void)state;
    struct fixture f;
    const struct an_traffic *traffic = make(&f, (struct calls){.ranks = 130, .send = 100});
    assert_int_equal(traffic->ranks_a_row, 3);
    assert_int_equal(traffic->rows, 44);
    assert_int_equal(traffic->rank[1], 3);
    assert_int_equal(traffic->last_rank, 129);
    assert_near(link_of(traffic, 5, 5)->bytes, 200, 1e-6);
    assert_near(link_of(traffic, 5, 6)->bytes, 100, 1e-6);
    assert_null(link_of(traffic, 6, 5));
    assert_int_equal(traffic->link_count, 43 + 43); /* the last row is one rank */
    assert_near(traffic->bytes, 129 * 100, 1e-6);
    fx_close(&f);
}

static void test_absent(void **state)
{
    (void)state;
    struct fixture f;
    assert_non_null(make(&f, (struct calls){.ranks = 1, .all_reduce = 100})->reason);
    fx_close(&f);
    assert_non_null(make(&f, (struct calls){.ranks = 2})->reason);
    fx_close(&f);
    const struct an_traffic *traffic = make(&f, (struct calls){.ranks = 3, .broadcast = 10});
    assert_non_null(traffic->reason);
    assert_int_equal(traffic->link_count, 0);
    fx_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rings), cmocka_unit_test(test_sends),
                                       cmocka_unit_test(test_lost_receive),
                                       cmocka_unit_test(test_many_ranks),
                                       cmocka_unit_test(test_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
