/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules rolled up: 12 steps with two blocks of three modules each, of which the hook may leave
 * the deepest levels out from some step on.
 */
#include "tests/unit/an_fixture.h"

#define US 1000ll

static const struct an_module_row *row_of(const struct an_module_row *row, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(row[i].name, name))
            return &row[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void test_rolled_up(void **state)
{
    struct fixture fixture, *f = &fixture;
    char name[64];
    (void)state;
    fx_open(f);
    for (int i = 0; i < 12; i++) {
        int64_t at = i * 1000 * US;
        fx_step(f, f->process, f->thread, i, at, at + 1000 * US, 8, false);
        fx_slice(f, f->thread, at, at + 800 * US, "Model (GPT)", FX_NONE);
        for (int block = 0; block < 2; block++) {
            int64_t start = at + block * 400 * US;
            snprintf(name, sizeof name, "blocks.%d (Block)", block);
            fx_slice(f, f->thread, start, start + 300 * US, name, FX_NONE);
            snprintf(name, sizeof name, "blocks.%d.mlp.0 (Linear)", block);
            fx_slice(f, f->thread, start, start + 100 * US, name, FX_NONE);
            snprintf(name, sizeof name, "blocks.%d.mlp.2 (Linear)", block);
            fx_slice(f, f->thread, start + 100 * US, start + 250 * US, name, FX_NONE);
        }
        fx_slice(f, f->thread, at + 900 * US, at + 950 * US, "load (1 of 2)", FX_NONE);
    }
    const struct an_modules *modules = &fx_analyze(f)->modules;
    assert_null(modules->reason);
    assert_null(modules->left_out);
    assert_false(modules->levels.valid);
    assert_int_equal(modules->pattern_count, 4);
    const struct an_module_row *row =
        row_of(modules->pattern, modules->pattern_count, "blocks.*.mlp.2 (Linear)");
    assert_int_equal(row->modules, 2);
    assert_near(row->calls, 2, 1e-9);
    assert_near(row->own_ms.value, 0.3, 1e-9);
    row = row_of(modules->pattern, modules->pattern_count, "blocks.* (Block)");
    assert_near(row->own_ms.value, 0.1, 1e-9);
    assert_near(row->total_ms, 0.6, 1e-9);
    row = row_of(modules->class, modules->class_count, "Linear");
    assert_int_equal(row->modules, 4);
    assert_near(row->own_ms.value, 0.5, 1e-9);
    assert_near(row_of(modules->depth, modules->depth_count, "depth 2")->own_ms.value, 0.1, 1e-9);
    assert_near(row_of(modules->depth, modules->depth_count, "depth 4")->own_ms.value, 0.5, 1e-9);
    assert_near(row_of(modules->class, modules->class_count, "GPT")->own_ms.value, 0.2, 1e-9);
    fx_close(f);
}

/* 12 steps with a model of three levels, of which `levels` are recorded from step 4 on; the counter
 * of the hook says so after step 3. Of the steps 1 to 10 count. The outermost module is named by
 * its class alone, as the hook does. */
static const struct an_modules *left_out(struct fixture *f, int levels)
{
    fx_open(f);
    int64_t depth = fx_track(f, f->process, "counter", "hook.module_depth", "");
    fx_counter(f, depth, 950 * US, 64);
    for (int i = 0; i < 12; i++) {
        int64_t at = i * 1000 * US;
        int all = i < 4 ? 3 : levels;
        fx_step(f, f->process, f->thread, i, at, at + 900 * US, 8, false);
        if (all > 0)
            fx_slice(f, f->thread, at, at + 800 * US, "GPT", FX_NONE);
        if (all > 1) {
            fx_slice(f, f->thread, at, at + 500 * US, "block (Block)", FX_NONE);
            fx_slice(f, f->thread, at + 500 * US, at + 700 * US, "head (Linear)", FX_NONE);
        }
        if (all > 2)
            fx_slice(f, f->thread, at, at + 400 * US, "block.mlp (Linear)", FX_NONE);
        if (i == 3)
            fx_counter(f, depth, at + 950 * US, levels);
    }
    return &fx_analyze(f)->modules;
}

/* What is said of a module is of the steps that record it: one that is left out in most of them
 * does not take a third of its time. A block whose parts are left out has no own time; a module
 * that never had parts has. */
static void test_a_level_left_out(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_modules *modules = left_out(f, 2);
    assert_null(modules->reason);
    assert_int_equal(modules->steps, 10);
    assert_int_equal(modules->levels.value, 2);
    assert_non_null(strstr(modules->left_out, "below level 2"));
    assert_non_null(strstr(modules->left_out, "in 3 of 10 counted steps"));
    const struct an_module_row *row =
        row_of(modules->pattern, modules->pattern_count, "block.mlp (Linear)");
    assert_int_equal(row->steps, 3);
    assert_near(row->calls, 1, 1e-9);
    assert_near(row->total_ms, 0.4, 1e-9);
    assert_near(row->own_ms.value, 0.4, 1e-9);
    row = row_of(modules->pattern, modules->pattern_count, "block (Block)");
    assert_int_equal(row->steps, 10);
    assert_near(row->total_ms, 0.5, 1e-9);
    assert_false(row->own_ms.valid);
    row = row_of(modules->pattern, modules->pattern_count, "head (Linear)");
    assert_int_equal(row->steps, 10);
    assert_near(row->own_ms.value, 0.2, 1e-9);
    row = row_of(modules->class, modules->class_count, "Linear");
    assert_int_equal(row->steps, 3);
    assert_near(row->own_ms.value, 0.6, 1e-9);
    fx_close(f);
}

/* Only the module that is called first is left, or none: then the rows are of few steps, and a run
 * whose counted steps have no module says why. */
static void test_only_the_outermost_is_left(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int levels = 0; levels < 2; levels++) {
        const struct an_modules *modules = left_out(f, levels);
        assert_int_equal(modules->levels.value, levels);
        assert_int_equal(modules->pattern_count, 3);
        for (size_t i = 0; i < modules->pattern_count; i++)
            assert_int_equal(modules->pattern[i].steps, 3);
        fx_close(f);
    }
    fx_open(f);
    int64_t depth = fx_track(f, f->process, "counter", "hook.module_depth", "");
    fx_counter(f, depth, 0, 1);
    for (int i = 0; i < 12; i++) {
        fx_step(f, f->process, f->thread, i, i * 100 + 10, i * 100 + 100, 8, false);
        fx_slice(f, f->thread, i * 100 + 10, i * 100 + 50, "GPT", FX_NONE);
    }
    const struct an_modules *modules = &fx_analyze(f)->modules;
    assert_non_null(
        strstr(modules->reason, "recorded in no counted step: their ranges would cost"));
    fx_close(f);
}

static void test_without_modules(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 12; i++) {
        fx_step(f, f->process, f->thread, i, i * 100, i * 100 + 100, 8, false);
        fx_slice(f, f->thread, i * 100, i * 100 + 50, "forward", FX_NONE);
    }
    assert_non_null(fx_analyze(f)->modules.reason);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rolled_up), cmocka_unit_test(test_a_level_left_out),
        cmocka_unit_test(test_only_the_outermost_is_left), cmocka_unit_test(test_without_modules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
