/* SPDX-License-Identifier: Apache-2.0
 *
 * OTHER_PROGRAMS: named by the time that the steps' thread waited for a core that others had, and
 * as worth measuring where others run beside work that memory limits; its gain, its verdict, and
 * the gains of other findings beside it.
 */
#include "tests/unit/an_graph.h"

#define MS    1000000
#define STEPS 60

/* Steps of 20 ms: the thread waits `input` ms for its batch, which a loader's thread needs 20 ms
 * for, and computes. The samples are of a machine of two cores: cores that the process used, what
 * its first thread waited, and the machine's busy cores. */
static void sampled_run(struct fixture *f, int64_t input, double used, double waited, double busy)
{
    fx_open(f);
    struct store_track thread = {
        .process = f->process, .tid = 100, .kind = "thread", .name = "steps"};
    FX(store_track_add(f->s, &thread));
    f->thread = thread.id;
    int64_t wait = fx_kind(f, "input_wait"), decode = fx_kind(f, "decode"),
            work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    int64_t loader = fx_track(f, f->process, "thread", "loader-0", NULL);
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = (i + 1) * 20 * MS, ready = at + input * MS;
        if (input)
            fx_slice(f, loader, ready - 20 * MS, ready, "decode", decode);
        fx_step(f, f->process, f->thread, i, at, at + 20 * MS, 4, false);
        fx_slice(f, f->thread, at, ready + 1000, "input", wait);
        fx_slice(f, f->thread, ready + 1000, at + 20 * MS, "matmul", work);
    }
    FX(store_run_set(f->s, "cpu.online", "2"));
    FX(store_run_set_int(f->s, "cpu.usable", 2));
    int64_t time = fx_track(f, f->process, "counter", "cpu_time", "ns"),
            queue = fx_track(f, f->process, "counter", "cpu_wait", "ns"),
            machine = fx_track(f, FX_NONE, "counter", "cpu_busy", "%");
    for (int64_t i = 0; i <= STEPS + 2; i++) {
        fx_counter(f, time, i * 20 * MS, used * (double)(i * 20 * MS));
        fx_counter(f, queue, i * 20 * MS, waited * (double)(i * 20 * MS));
        fx_counter(f, machine, i * 20 * MS, 100 * busy / 2);
    }
}

static const struct an_finding *finding(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

/* The thread gets 0.6 of a core and waits for the rest: a step is 12 ms alone. */
static void test_named(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    sampled_run(f, 0, 0.6, 0.4, 2);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *others = finding(r, "OTHER_PROGRAMS");
    assert_non_null(others);
    assert_ptr_equal(others, &r->findings[0]);
    assert_near(r->system.others_lost_pct.value, 40, 0.1);
    assert_near(others->gain.expected.value, 67, 4);
    assert_true(others->gain.low.value > 0 &&
                others->gain.low.value <= others->gain.expected.value);
    assert_string_equal(others->what_if, "others=0");
    assert_non_null(strstr(others->action, "free cores"));
    assert_null(strstr(others->action, "stop"));
    assert_string_equal(r->verdict_class, "OTHER PROGRAMS");
    assert_null(strstr(r->verdict, "next:")); /* nothing else may make it faster */
    assert_false(r->healthy);
    fx_close(f);
}

/* Nobody is named by a replay that only sees a team which lacks cores, by others that run on the
 * free core, or by 8 % of the steps' time. */
static void test_not_named(void **state)
{
    static const struct {
        double used, waited, busy;
    } quiet[] = {{1.96, 0.5, 2}, {1, 0, 2}, {0.92, 0.08, 2}, {1, 0, 1.05}, {0.6, 0.4, 0.65}};
    (void)state;
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        struct fixture fx, *f = &fx;
        sampled_run(f, 0, quiet[i].used, quiet[i].waited, quiet[i].busy);
        const struct an_result *r = fx_analyze(f);
        if (finding(r, "OTHER_PROGRAMS"))
            fail_msg("case %zu: named, lost %.1f %%", i, r->system.others_lost_pct.value);
        fx_close(f);
    }
}

/* Others on the free core beside work that memory limits: a ceiling, which is not ranked and leaves
 * the verdict as it is. None where nobody else runs, or where arithmetic limits the work. */
static void test_beside(void **state)
{
    static const struct {
        double busy, bandwidth;
        bool named;
    } runs[] = {{2, 1e5, true}, {1.05, 1e5, false}, {2, 1e9, false}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        sampled_run(f, 0, 1, 0, runs[i].busy);
        const struct store_ceiling bandwidth = {.device = "cpu",
                                                .resource = "bandwidth",
                                                .source = "measured",
                                                .value = runs[i].bandwidth};
        FX(store_ceiling_add(f->s, &bandwidth));
        fx_peak(f, "fp32", 100, "measured");
        const struct an_result *r = fx_analyze(f);
        const struct an_finding *others = finding(r, "OTHER_PROGRAMS");
        assert_int_equal(others != NULL, runs[i].named);
        if (others) {
            assert_true(others->gain.ceiling);
            assert_int_equal(an_finding_listed(others), AN_LISTED_MEASURE);
            assert_string_not_equal(r->verdict_class, "OTHER PROGRAMS");
        }
        fx_close(f);
    }
}

/* Beside it the gain of another finding spans both replays, and says so. */
static void test_while_others(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    sampled_run(f, 8, 1.0, 0.3, 2);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *others = finding(r, "OTHER_PROGRAMS"),
                            *stall = finding(r, "INPUT_STALL");
    assert_non_null(others);
    assert_non_null(stall);
    assert_false(others->while_others);
    assert_true(stall->while_others);
    assert_non_null(strstr(stall->method, "while others run"));
    enum an_listed listing = an_finding_listed(&r->findings[1]);
    bool worth = listing == AN_LISTED_RANKED || listing == AN_LISTED_MEASURE;
    assert_true(!strstr(r->verdict, "; next: ") == !worth);
    bool withheld = !stall->gain.high.valid && !stall->gain.low.valid;
    bool one_side = stall->gain.ceiling || stall->gain.low.value > 0;
    assert_true(withheld || one_side);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named), cmocka_unit_test(test_not_named),
        cmocka_unit_test(test_beside), cmocka_unit_test(test_while_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
