/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules rolled up: 12 steps with two blocks of three modules each.
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
    assert_int_equal(modules->pattern_count, 4);
    const struct an_module_row *row =
        row_of(modules->pattern, modules->pattern_count, "blocks.*.mlp.2 (Linear)");
    assert_int_equal(row->modules, 2);
    assert_near(row->calls, 2, 1e-9);
    assert_near(row->own_ms, 0.3, 1e-9);
    row = row_of(modules->pattern, modules->pattern_count, "blocks.* (Block)");
    assert_near(row->own_ms, 0.1, 1e-9);
    assert_near(row->total_ms, 0.6, 1e-9);
    row = row_of(modules->class, modules->class_count, "Linear");
    assert_int_equal(row->modules, 4);
    assert_near(row->own_ms, 0.5, 1e-9);
    assert_near(row_of(modules->depth, modules->depth_count, "depth 2")->own_ms, 0.1, 1e-9);
    assert_near(row_of(modules->depth, modules->depth_count, "depth 4")->own_ms, 0.5, 1e-9);
    assert_near(row_of(modules->class, modules->class_count, "GPT")->own_ms, 0.2, 1e-9);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rolled_up),
                                       cmocka_unit_test(test_without_modules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
