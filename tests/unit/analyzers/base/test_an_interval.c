/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/base/interval.h"
#include "analyzers/base/sets.h"
#include "analyzers/base/stats.h"

#define SPACE  64 /* times of the random tests: each ns is one cell of a table */
#define ROUNDS 20000

static void check_set(const struct an_span *a, size_t n, const char *cells)
{
    char seen[SPACE + 1] = {0};
    int64_t measure = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(a[i].start < a[i].end);
        assert_true(!i || a[i - 1].end < a[i].start); /* sorted, disjoint, not touching */
        for (int64_t t = a[i].start; t < a[i].end; t++)
            seen[t] = 1;
        measure += a[i].end - a[i].start;
    }
    assert_memory_equal(seen, cells, SPACE);
    assert_int_equal(an_spans_measure(a, n), measure);
}

static size_t random_set(struct an_span *a, char *cells, uint64_t *seed)
{
    size_t n = an_random(seed) % 12;
    memset(cells, 0, SPACE);
    for (size_t i = 0; i < n; i++) {
        int64_t start = (int64_t)(an_random(seed) % SPACE),
                end = (int64_t)(an_random(seed) % (SPACE + 1));
        a[i] = (struct an_span){start, end}; /* empty and reversed ones too */
        for (int64_t t = start; t < end; t++)
            cells[t] = 1;
    }
    return an_spans_normalize(a, n);
}

static void test_random_sets(void **state)
{
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct an_span a[12], b[12], out[24];
        char ca[SPACE], cb[SPACE], want[SPACE];
        size_t na = random_set(a, ca, &seed), nb = random_set(b, cb, &seed);
        check_set(a, na, ca);
        for (int i = 0; i < SPACE; i++)
            want[i] = ca[i] || cb[i];
        check_set(out, an_spans_union(a, na, b, nb, out), want);
        for (int i = 0; i < SPACE; i++)
            want[i] = ca[i] && cb[i];
        check_set(out, an_spans_intersect(a, na, b, nb, out), want);
        for (int i = 0; i < SPACE; i++)
            want[i] = ca[i] && !cb[i];
        check_set(out, an_spans_subtract(a, na, b, nb, out), want);
        int64_t from = (int64_t)(an_random(&seed) % SPACE),
                to = (int64_t)(an_random(&seed) % SPACE), within = 0;
        for (int64_t t = from; t < to; t++)
            within += ca[t];
        assert_int_equal(an_spans_within(a, na, from, to), within);
    }
}

static void test_touching_merge(void **state)
{
    struct an_span a[] = {{10, 20}, {0, 10}, {20, 20}, {30, 25}, {21, 22}};
    (void)state;
    assert_int_equal(an_spans_normalize(a, 5), 2);
    assert_int_equal(a[0].start, 0);
    assert_int_equal(a[0].end, 20);
    assert_int_equal(an_spans_measure(a, 2), 21);
    assert_int_equal(an_spans_normalize(a, 0), 0);
}

static void test_extremes_saturate(void **state)
{
    struct an_span all = {INT64_MIN, INT64_MAX};
    (void)state;
    assert_int_equal(an_spans_measure(&all, 1), INT64_MAX);
    assert_int_equal(an_spans_within(&all, 1, INT64_MIN, INT64_MAX), INT64_MAX);
    assert_int_equal(an_spans_within(&all, 1, -5, 5), 10);
    assert_int_equal(an_time_add(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(an_time_add(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(an_time_sub(INT64_MIN, 1), INT64_MIN);
    assert_int_equal(an_time_sub(0, INT64_MIN), INT64_MAX);
}

/* The first one that is late enough, among equal ones too; nothing outside of [first, last) counts.
 */
static void test_times_seek(void **state)
{
    static const int64_t time[] = {INT64_MIN, 3, 3, 3, 8, INT64_MAX};
    (void)state;
    assert_int_equal(an_times_seek(time, 0, 6, 3), 1);
    assert_int_equal(an_times_seek(time, 0, 6, 4), 4);
    assert_int_equal(an_times_seek(time, 0, 6, INT64_MIN), 0);
    assert_int_equal(an_times_seek(time, 0, 6, INT64_MAX), 5);
    assert_int_equal(an_times_seek(time, 2, 4, 3), 2);
    assert_int_equal(an_times_seek(time, 2, 4, 8), 4);
    assert_int_equal(an_times_seek(time, 2, 2, 0), 2);
}

/* Lists drop empty spans and merge when they become sets; sets combine in an arena. */
static void test_sets(void **state)
{
    struct an_arena *arena = an_arena_new();
    struct an_span_list list = {0};
    struct an_set first, second, out;
    (void)state;
    assert_int_equal(an_span_list_add(&list, 30, 40), 0);
    assert_int_equal(an_span_list_add(&list, 5, 5), 0);
    assert_int_equal(an_span_list_add(&list, 0, 10), 0);
    assert_int_equal(an_span_list_add(&list, 8, 20), 0);
    assert_int_equal(list.count, 3);
    assert_int_equal(an_span_list_keep(&list, arena, &first), 0);
    assert_int_equal(first.count, 2);
    assert_int_equal(an_set_measure(first), 30);
    assert_int_equal(an_set_within(first, 15, 35), 10);
    list.count = 0;
    assert_int_equal(an_span_list_add(&list, 15, 32), 0);
    second = an_span_list_set(&list);
    assert_int_equal(an_set_combine(arena, an_spans_subtract, first, second, &out), 0);
    assert_int_equal(an_set_measure(out), 23); /* [0, 15) and [32, 40) */
    assert_int_equal(an_set_combine(arena, an_spans_union, first, second, &first), 0);
    assert_int_equal(first.count, 1);
    assert_int_equal(an_set_measure(first), 40);
    free(list.span);
    an_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),           cmocka_unit_test(test_random_sets),
        cmocka_unit_test(test_touching_merge), cmocka_unit_test(test_extremes_saturate),
        cmocka_unit_test(test_times_seek),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
