/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a rank's communication: a run that does the same is let through, with the answers of
 * the file in place of its own; the first operation that is another one is named with the rank, the
 * call of the step and the number; steps that repeat are one line; files of every damage are
 * refused.
 */
#include "lt_support.h"

#include "libtrain/collectives/order.h"

enum { RANK = 2, RANKS = 3 };

static char path[512];

static int with_file(void **state)
{
    const char *folder = getenv("TMPDIR");
    (void)state;
    snprintf(path, sizeof path, "%s/order.%ld", folder ? folder : "/tmp", (long)getpid());
    return 0;
}

static int without_file(void **state)
{
    (void)state;
    return unlink(path) && access(path, F_OK) == 0;
}

/* Every kind of operation, the first byte count of which depends on the step. */
static void operations(int64_t step, struct lt_order_op op[LT_ORDER_COUNT])
{
    uint64_t bytes = step % 2 ? 1u << 20 : 64;
    const struct lt_order_op all[LT_ORDER_COUNT] = {
        {.kind = LT_ORDER_SUM, .to = -1, .from = -1, .out = bytes},
        {.kind = LT_ORDER_GATHER, .to = -1, .from = -1, .out = 16},
        {.kind = LT_ORDER_EXCHANGE, .to = 0, .from = 1, .out = 7, .in = 9000000000},
        {.kind = LT_ORDER_EXCHANGE, .to = -1, .from = 1, .in = 12},
        {.kind = LT_ORDER_SEND, .to = 1, .tag = 3, .from = -1, .out = 12},
        {.kind = LT_ORDER_PROBE, .to = -1, .tag = 2, .from = 0, .in = 1},
        {.kind = LT_ORDER_SENT, .to = -1, .from = -1, .out = 4}};
    memcpy(op, all, sizeof all);
}

/* A run of so many steps with that order. Returns the first code that is not 0, and its words. */
static int run(struct lt_order *order, int64_t steps, char *text, size_t size)
{
    struct lt_order_op op[LT_ORDER_COUNT];
    int rc = 0;
    for (int64_t step = 0; rc == 0 && step < steps; step++) {
        lt_order_step(order, step);
        operations(step, op);
        for (int i = 0; rc == 0 && i < LT_ORDER_COUNT; i++)
            rc = lt_order_note(order, &op[i], text, size);
    }
    return rc;
}

/* A file of a run of six steps. */
static void record(int finishes)
{
    struct lt_order *order;
    struct tacho_error err;
    char text[512];
    struct lt_order_op before = {.kind = LT_ORDER_GATHER, .to = -1, .from = -1, .out = 4};
    assert_int_equal(lt_order_record(&order, path, RANK, RANKS, &err), 0);
    assert_int_equal(lt_order_note(order, &before, text, sizeof text), 0);
    assert_int_equal(run(order, 6, text, sizeof text), 0);
    if (finishes)
        assert_int_equal(lt_order_finish(order, &err), 0);
    lt_order_destroy(order);
}

static struct lt_order *replay(void)
{
    struct lt_order *order;
    struct tacho_error err;
    char text[512];
    struct lt_order_op before = {.kind = LT_ORDER_GATHER, .to = -1, .from = -1, .out = 4};
    assert_int_equal(lt_order_replay(&order, path, RANK, RANKS, &err), 0);
    assert_int_equal(lt_order_note(order, &before, text, sizeof text), 0);
    return order;
}

static void same_run(void **state)
{
    struct tacho_error err;
    char text[512], line[256];
    int lines = 0, alike = 0;
    (void)state;
    record(1);
    struct lt_order *order = replay();
    assert_int_equal(run(order, 6, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(lt_order_finish(order, &err), 0);
    lt_order_destroy(order);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        lines++;
        alike += strstr(line, " as ") != NULL;
    }
    fclose(file);
    assert_int_equal(alike, 4); /* steps 2 to 5 are as step 0 or 1 */
    assert_int_equal(lines, 2 + 1 + 2 * (1 + LT_ORDER_COUNT) + 4 + 1);
}

/* What is there now does not count, but what was there. */
static void answers(void **state)
{
    struct lt_order_op probe = {.kind = LT_ORDER_PROBE, .to = -1, .tag = 1, .from = 0};
    struct lt_order *order;
    struct tacho_error err;
    char text[512];
    (void)state;
    assert_int_equal(lt_order_record(&order, path, RANK, RANKS, &err), 0);
    for (int i = 0; i < 4; i++) {
        probe.in = (uint64_t)i % 2;
        assert_int_equal(lt_order_note(order, &probe, text, sizeof text), 0);
        assert_int_equal(probe.in, i % 2);
    }
    assert_int_equal(lt_order_finish(order, &err), 0);
    lt_order_destroy(order);
    assert_int_equal(lt_order_replay(&order, path, RANK, RANKS, &err), 0);
    for (int i = 0; i < 4; i++) {
        probe.in = (uint64_t)(i < 2);
        assert_int_equal(lt_order_note(order, &probe, text, sizeof text), 0);
        assert_int_equal(probe.in, i % 2);
    }
    assert_int_equal(lt_order_finish(order, &err), 0);
    lt_order_destroy(order);
}

/* Each member of an operation, at each place: it is named there, and nowhere else. */
static void departures(void **state)
{
    struct lt_order_op op[LT_ORDER_COUNT];
    struct tacho_error err;
    char text[1024], want[700];
    (void)state;
    record(1);
    for (int i = 0; i < LT_ORDER_COUNT; i++)
        for (int what = 0; what < 5; what++) {
            struct lt_order *order = replay();
            assert_int_equal(run(order, 3, text, sizeof text), 0);
            lt_order_step(order, 3);
            operations(3, op);
            op[i].out += what == 0;
            op[i].to += what == 1;
            op[i].tag += what == 2;
            op[i].from += what == 3;
            if (what == 4)
                op[i].kind = (enum lt_order_kind)((op[i].kind + 1) % LT_ORDER_COUNT);
            for (int j = 0; j < i; j++)
                assert_int_equal(lt_order_note(order, &op[j], text, sizeof text), 0);
            assert_int_equal(lt_order_note(order, &op[i], text, sizeof text), TACHO_EINTERNAL);
            snprintf(want, sizeof want, "rank 2 departs from %s: call %d of step 3, number %d of ",
                     path, i, 1 + 3 * LT_ORDER_COUNT + i);
            assert_memory_equal(text, want, strlen(want));
            snprintf(want, sizeof want, "(call %d of step 3)", i);
            assert_non_null(strstr(text, want));
            lt_order_destroy(order);
        }
    struct lt_order *order = replay(); /* a run that ends, and one that goes on */
    assert_int_equal(run(order, 5, text, sizeof text), 0);
    assert_int_equal(lt_order_finish(order, &err), TACHO_EINTERNAL);
    assert_non_null(strstr(err.what, "it ends; recorded: sum of 1048576 bytes (call 0 of step 5)"));
    lt_order_destroy(order);
    order = replay();
    assert_int_equal(run(order, 7, text, sizeof text), TACHO_EINTERNAL);
    assert_non_null(strstr(text, "recorded: the end of the run"));
    lt_order_destroy(order);
}

/* What was recorded until a run failed is enforced; then the order is free, and that is said. */
static void half_a_run(void **state)
{
    struct tacho_error err;
    char text[512];
    (void)state;
    record(0);
    struct lt_order *order = replay();
    struct lt_order_op more = {.kind = LT_ORDER_SUM, .to = -1, .from = -1, .out = 1};
    assert_int_equal(run(order, 6, text, sizeof text), 0);
    assert_int_equal(lt_order_note(order, &more, text, sizeof text), 0);
    assert_non_null(strstr(text, "From here on the order is free"));
    assert_int_equal(lt_order_note(order, &more, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(lt_order_finish(order, &err), 0);
    lt_order_destroy(order);
}

static void damaged(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *words;
    } files[] = {
        {"", TACHO_EFORMAT, "no order of communication"},
        {"begin\n", TACHO_EFORMAT, "no order"},
        {"tacho-order 2 rank 2 of 3\n", TACHO_EVERSION, "version 2"},
        {"tacho-order 1 rank 2\n", TACHO_ECORRUPT, "line 1"},
        {"tacho-order 1 rank 1 of 3\n", TACHO_EUSAGE, "of rank 1 of 3, this is rank 2 of 3"},
        {"tacho-order 1 rank 2 of 4\n", TACHO_EUSAGE, "of rank 2 of 4"},
        {"tacho-order 1 rank 2 of 3\nsum - 0 4 - 0\n", TACHO_ECORRUPT, "line 2"},
        {"tacho-order 1 rank 2 of 3\nbegin\nsum - 0 4 - 0 1\n", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nbegin\nsum - 0 4 -\n", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nbegin\nsum x 0 4 - 0\n", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nbegin\nsam - 0 4 - 0\n", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nbegin\nsum - 0 4 - 0", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nbegin\nbegin\n", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nstep 1\nstep 1\n", TACHO_ECORRUPT, "line 3"},
        {"tacho-order 1 rank 2 of 3\nstep 1 as 0\n", TACHO_ECORRUPT, "line 2"},
        {"tacho-order 1 rank 2 of 3\nstep -1\n", TACHO_ECORRUPT, "line 2"},
        {"tacho-order 1 rank 2 of 3\nstep 1 or so\n", TACHO_ECORRUPT, "line 2"},
        {"tacho-order 1 rank 2 of 3\nstep 0\nsum - 0 4 - 0\nstep 1 as 0\nsum - 0 4 - 0\n",
         TACHO_ECORRUPT, "line 5"},
        {"tacho-order 1 rank 2 of 3\nend\nstep 0\n", TACHO_ECORRUPT, "line 3"}};
    struct lt_order *order;
    struct tacho_error err;
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(files[i].text, file);
        fclose(file);
        assert_int_equal(lt_order_replay(&order, path, RANK, RANKS, &err), files[i].code);
        assert_non_null(strstr(err.what, files[i].words));
        assert_true(err.hint[0] != '\0');
        lt_order_destroy(order);
    }
    unlink(path);
    assert_int_equal(lt_order_replay(&order, path, RANK, RANKS, &err), TACHO_EIO);
    lt_order_destroy(order);
}

/* A disk that is full. */
static void no_room(void **state)
{
    struct lt_order *order;
    struct tacho_error err;
    char text[512];
    (void)state;
    if (access("/dev/full", W_OK))
        skip();
    assert_int_equal(lt_order_record(&order, "/dev/full", RANK, RANKS, &err), 0);
    assert_int_equal(run(order, 2, text, sizeof text), 0);
    assert_int_equal(lt_order_finish(order, &err), TACHO_ENOSPACE);
    lt_order_destroy(order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_run, with_file, without_file),
        cmocka_unit_test_setup_teardown(answers, with_file, without_file),
        cmocka_unit_test_setup_teardown(departures, with_file, without_file),
        cmocka_unit_test_setup_teardown(half_a_run, with_file, without_file),
        cmocka_unit_test_setup_teardown(damaged, with_file, without_file),
        cmocka_unit_test(no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
