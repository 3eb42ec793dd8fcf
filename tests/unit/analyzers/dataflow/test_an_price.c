/* SPDX-License-Identifier: Apache-2.0
 *
 * What a byte costs that fusion does not move (price.h): the share of its operator's time up to
 * twice what its bytes take at the measured rates, less and less of it beyond, and nothing for
 * sure where the operator is slower by far.
 */
#include "analyzers/dataflow/price.h"

#include "tests/unit/an_fixture.h"

#define GB     1e9
#define MB     1000000
#define CLOSE  1e-6
#define PLAIN  (1e9 * MB / (10 * GB)) /* ns of a million bytes that are read */
#define STORED (1e9 * MB / (10 * GB) + 1e9 * MB / (5 * GB)) /* and of as many that are written */

static const struct flow_price memory = {
    .bandwidth = 8 * GB, .roof = 12 * GB, .read = 10 * GB, .write = 5 * GB};

/* Reads and writes a million bytes each, so many times slower than at the measured rates. */
static struct flow_op slower(double times)
{
    return (struct flow_op){.kind = FLOW_POINTWISE,
                            .read = MB,
                            .written = MB,
                            .ns = (int64_t)(times * (PLAIN + STORED) + 0.5)};
}

static void test_processor(void **state)
{
    static const struct {
        double times, expected, high; /* times the plain time */
        bool low;                     /* is something gained for sure? */
    } rows[] = {
        {0.8, 0.8, 0.8, true}, /* faster than its bytes: their share of its time */
        {1, 1, 1, true},       {1.5, 1.5, 1.5, true}, /* still limited by memory */
        {2, 2, 2, true},       {3, 1.5, 3, true},     /* half way down to the measured rates */
        {4, 1, 4, false}, /* at four times the measured rates are left */
        {8, 1, 8, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct flow_op op = slower(rows[i].times);
        for (int writes = 0; writes < 2; writes++) {
            double plain = writes ? STORED : PLAIN, ns[3];
            flow_byte_ns(&memory, &op, MB, writes, ns);
            assert_near(ns[1] / plain, rows[i].expected, CLOSE);
            assert_near(ns[2] / plain, rows[i].high, CLOSE);
            assert_int_equal(ns[0] > 0, rows[i].low);
            assert_true(ns[0] <= ns[1] && ns[1] <= ns[2]);
        }
    }
}

/* A part of the bytes costs its part of the time. */
static void test_part(void **state)
{
    const struct flow_op op = slower(1.5);
    double whole[3], part[3];
    (void)state;
    flow_byte_ns(&memory, &op, MB, false, whole);
    flow_byte_ns(&memory, &op, MB / 4, false, part);
    for (int i = 0; i < 3; i++)
        assert_near(part[i], whole[i] / 4, 1e-3);
}

/* On a device only the bandwidth is known: the share of the operator's time if it reaches half of
 * that, else what the bandwidth says, and nothing for sure. */
static void test_device(void **state)
{
    static const struct flow_price device = {.bandwidth = 10 * GB, .roof = 10 * GB};
    static const struct {
        double times, low, expected; /* of the time at the bandwidth */
    } rows[] = {{1, 1, 1}, {2, 1, 2}, {3, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct flow_op op = {
            .read = MB, .written = MB, .ns = (int64_t)(rows[i].times * 2 * PLAIN + 0.5)};
        double ns[3];
        flow_byte_ns(&device, &op, MB, false, ns);
        assert_near(ns[0] / PLAIN, rows[i].low, CLOSE);
        assert_near(ns[1] / PLAIN, rows[i].expected, CLOSE);
    }
}

/* An operator beside a reduction that is slower for its bytes: what is left of it takes as long as
 * there. A reduction that is faster changes nothing. */
static void test_turns(void **state)
{
    const struct flow_op fast = slower(1), slow = slower(1.5);
    (void)state;
    assert_near(flow_turns_ns(&memory, &slow, &fast, MB, 0) / PLAIN, 0.5, CLOSE);
    assert_near(flow_turns_ns(&memory, &slow, &fast, 0, MB) / STORED, 0.5, CLOSE);
    assert_near(flow_turns_ns(&memory, &slow, &fast, 2 * MB, MB) / (2 * PLAIN + STORED), 0.5,
                CLOSE);
    assert_near(flow_turns_ns(&memory, &slow, &slow, MB, MB), 0, CLOSE);
    assert_near(flow_turns_ns(&memory, &fast, &slow, MB, MB), 0, CLOSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processor),
        cmocka_unit_test(test_part),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
