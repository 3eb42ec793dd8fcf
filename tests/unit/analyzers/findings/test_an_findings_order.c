/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of findings about ranks beside other programs, whose gains are withheld or open at the
 * low end: a rank that is late explains what the others wait for, and is read before all exposed
 * communication.
 */
#include "analyzers/findings/findings_private.h"
#include "tests/unit/an_fixture.h"

#define WITHHELD "the other programs decide whether this is a gain or a loss"

static struct an_result result;
static struct an_context context = {.result = &result};
static struct an_findings_list list;

static struct an_finding *add(const char *id)
{
    struct an_finding *finding = &list.found[list.count++];
    *finding = (struct an_finding){.id = id, .while_others = true};
    finding->gain.low = finding->gain.expected = finding->gain.high = an_num_none(WITHHELD);
    return finding;
}

static void add_ceiling(const char *id, double high)
{
    struct an_finding *finding = add(id);
    finding->gain.high = an_num(high);
    finding->gain.ceiling = true;
}

static void begin(void)
{
    memset(&result, 0, sizeof result);
    memset(&list, 0, sizeof list);
    list.context = &context;
    result.budget.reason = "not known"; /* no class limits the run */
}

static void check_order(const char *const *ids)
{
    an_findings_order(&list);
    for (size_t i = 0; i < list.count; i++)
        assert_string_equal(list.found[i].id, ids[i]);
}

/* Whatever the ceiling of all communication is, and wherever the other programs are. */
static void test_a_late_rank(void **state)
{
    static const char *const late[] = {"STRAGGLER", "UNEVEN_DATA", "SLOW_STAGE"};
    (void)state;
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        begin();
        add_ceiling("EXPOSED_COMM", 60);
        add_ceiling("DDP_BUCKETS", 5);
        add(late[i]);
        struct an_finding *others = add("OTHER_PROGRAMS");
        others->while_others = false;
        others->gain.low = others->gain.expected = others->gain.high = an_num(30);
        check_order((const char *[]){"OTHER_PROGRAMS", late[i], "EXPOSED_COMM", "DDP_BUCKETS"});
    }
}

/* An interval that is open at the low end, although much is expected, says so too. */
static void test_an_open_interval(void **state)
{
    (void)state;
    begin();
    add_ceiling("EXPOSED_COMM", 60);
    struct an_finding *late = add("STRAGGLER");
    late->gain.low = an_num(-5);
    late->gain.expected = an_num(20);
    late->gain.high = an_num(40);
    check_order((const char *[]){"STRAGGLER", "EXPOSED_COMM"});
}

/* A bound of the rank's delay says that it explains a part only; a finding that never had a gain is
 * a gap. */
static void test_not_a_late_rank(void **state)
{
    (void)state;
    begin();
    add_ceiling("EXPOSED_COMM", 60);
    add_ceiling("SLOW_STAGE", 10);
    check_order((const char *[]){"EXPOSED_COMM", "SLOW_STAGE"});
    begin();
    add("STRAGGLER")->while_others = false;
    add_ceiling("EXPOSED_COMM", 60);
    check_order((const char *[]){"EXPOSED_COMM", "STRAGGLER"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_late_rank),
                                       cmocka_unit_test(test_an_open_interval),
                                       cmocka_unit_test(test_not_a_late_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
