/* SPDX-License-Identifier: Apache-2.0
 *
 * The declared order of analyzers: every row of the table comes after the rows that its `after`
 * names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/table.h"

static const struct an_analyzer first = {.name = "first"};
static const struct an_analyzer second = {.name = "the second", .after = "first"};
static const struct an_analyzer third = {.name = "third", .after = "first, the second"};

/* The check fails, and its text names both analyzers. */
static void assert_refused(const struct an_analyzer *const *table, size_t count, const char *name,
                           const char *before)
{
    struct tacho_error err = {0};
    assert_int_equal(an_order_check(table, count, &err), TACHO_EINTERNAL);
    assert_int_equal(err.code, TACHO_EINTERNAL);
    assert_non_null(strstr(err.what, name));
    assert_non_null(strstr(err.what, before));
}

static void test_order(void **state)
{
    const struct an_analyzer *const right[] = {&first, &second, &third};
    const struct an_analyzer *const wrong[] = {&first, &third, &second};
    struct tacho_error err = {0};
    (void)state;
    assert_int_equal(an_order_check(right, 3, &err), 0);
    assert_int_equal(an_order_check(right, 0, &err), 0);
    assert_int_equal(err.code, 0);
    assert_refused(wrong, 3, "\"third\"", "\"the second\"");
}

static void test_unknown_name(void **state)
{
    const struct an_analyzer prefix = {.name = "prefix", .after = "first, firs"};
    const struct an_analyzer longer = {.name = "longer", .after = "firsts"};
    const struct an_analyzer *const with_prefix[] = {&first, &prefix};
    const struct an_analyzer *const with_longer[] = {&first, &longer};
    (void)state;
    assert_refused(with_prefix, 2, "\"prefix\"", "\"firs\"");
    assert_refused(with_longer, 2, "\"longer\"", "\"firsts\"");
}

static void test_self_reference(void **state)
{
    const struct an_analyzer own = {.name = "own", .after = "first, own"};
    const struct an_analyzer *const table[] = {&first, &own};
    (void)state;
    assert_refused(table, 2, "analyzer \"own\"", "after \"own\"");
}

static void test_real_table(void **state)
{
    static const struct an_analyzer *const table[] = {
#define ANALYZER_ROW(name) &name,
        AN_ANALYZER_MAP(ANALYZER_ROW)
#undef ANALYZER_ROW
    };
    const size_t count = sizeof table / sizeof *table;
    struct tacho_error err = {0};
    (void)state;
    if (an_order_check(table, count, &err))
        fail_msg("%s", err.what);
    for (size_t i = 0; i < count; i++) /* a name with a comma could not be named by another */
        assert_null(strchr(table[i]->name, ','));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_unknown_name),
        cmocka_unit_test(test_self_reference),
        cmocka_unit_test(test_real_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
