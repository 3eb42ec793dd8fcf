/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools for buffers with known lifetimes: no two that live at once overlap; the bound; close to the
 * optimum on instances whose optimum is known (tests/golden/minimalloc).
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/allocator/pool.h"
#include "tacho_error.h"

#define OPTIMUM 1048576 /* of all instances */
#define WORK    INT64_C(100000000)

/* Does any pair that lives at once overlap, or does one reach above the pool? */
static bool is_valid(const struct pool_buffer *buffer, size_t count, int64_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (buffer[i].offset < 0 || buffer[i].offset + buffer[i].bytes > bytes)
            return false;
        for (size_t k = 0; k < i; k++)
            if (buffer[i].start < buffer[k].end && buffer[k].start < buffer[i].end &&
                buffer[i].offset < buffer[k].offset + buffer[k].bytes &&
                buffer[k].offset < buffer[i].offset + buffer[i].bytes)
                return false;
    }
    return true;
}

/* What lives at most at once, by looking at every start. */
static int64_t bound_of(const struct pool_buffer *buffer, size_t count)
{
    int64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t now = 0;
        for (size_t k = 0; k < count; k++)
            if (buffer[k].start <= buffer[i].start && buffer[k].end > buffer[i].start)
                now += buffer[k].bytes;
        most = now > most ? now : most;
    }
    return most;
}

static void small(void **state)
{
    /* The example of minimalloc, whose optimum is 12. */
    struct pool_buffer buffer[] = {
        {0, 3, 4, -1}, {3, 9, 4, -1}, {0, 9, 4, -1}, {9, 21, 4, -1}, {0, 21, 4, -1}};
    struct pool_buffer none, bad = {5, 5, 1, 0}, large[2] = {{0, 1, INT64_MAX, 0}, {0, 1, 1, 0}};
    struct pool_plan plan;
    (void)state;
    assert_int_equal(pool_pack(buffer, 5, WORK, &plan), 0);
    assert_int_equal(plan.bytes, 12);
    assert_int_equal(plan.bound, 12);
    assert_true(is_valid(buffer, 5, 12));
    assert_int_equal(plan.moves, 0);
    assert_int_equal(pool_pack(&none, 0, WORK, &plan), 0);
    assert_int_equal(plan.bytes, 0);
    assert_int_equal(pool_pack(&bad, 1, WORK, &plan), TACHO_EUSAGE);
    assert_int_equal(pool_pack(large, 2, WORK, &plan), TACHO_EUSAGE);
}

/* Buffers by chance: valid, not below the bound, the same every time, and more work is never worse.
 */
static void by_chance(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 60; round++) {
        struct pool_buffer buffer[120], again[120];
        struct pool_plan plan, quick;
        size_t count = 1 + (size_t)rand() % 120;
        for (size_t i = 0; i < count; i++) {
            buffer[i].start = rand() % 50;
            buffer[i].end = buffer[i].start + 1 + rand() % 30;
            buffer[i].bytes = rand() % 8 * 512;
        }
        memcpy(again, buffer, sizeof again);
        assert_int_equal(pool_pack(again, count, 0, &quick), 0);
        assert_true(is_valid(again, count, quick.bytes));
        assert_int_equal(pool_pack(buffer, count, 1000000, &plan), 0);
        assert_true(is_valid(buffer, count, plan.bytes));
        assert_int_equal(plan.bound, bound_of(buffer, count));
        assert_true(plan.bytes >= plan.bound && plan.bytes <= quick.bytes);
        assert_int_equal(pool_pack(again, count, 1000000, &quick), 0);
        assert_int_equal(quick.bytes, plan.bytes);
    }
}

static size_t read_instance(char letter, struct pool_buffer *buffer, size_t most)
{
    char path[64], line[128];
    size_t count = 0;
    snprintf(path, sizeof path, "tests/golden/minimalloc/%c.csv", letter);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while (count < most && fgets(line, sizeof line, in))
        if (sscanf(line, "%*d,%" SCNd64 ",%" SCNd64 ",%" SCNd64, &buffer[count].start,
                   &buffer[count].end, &buffer[count].bytes) == 3)
            count++;
    fclose(in);
    return count;
}

static void known_optimum(void **state)
{
    static struct pool_buffer buffer[512];
    struct pool_plan plan;
    double worst = 0;
    (void)state;
    for (char letter = 'A'; letter <= 'K'; letter++) {
        size_t count = read_instance(letter, buffer, 512);
        assert_true(count > 100);
        assert_int_equal(pool_pack(buffer, count, WORK, &plan), 0);
        assert_true(is_valid(buffer, count, plan.bytes));
        assert_int_equal(plan.bound, bound_of(buffer, count));
        double ratio = (double)plan.bytes / OPTIMUM;
        printf("%c: %zu buffers, %.3f of the optimum, %" PRId64 " moves\n", letter, count, ratio,
               plan.moves);
        worst = ratio > worst ? ratio : worst;
    }
    assert_true(worst <= 1.15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(by_chance),
                                       cmocka_unit_test(known_optimum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
