/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of data sheets: devices by the names that drivers give them, and refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/base/arena.h"
#include "analyzers/hardware/peaks.h"

static double peak(const char *device, const char *column)
{
    struct an_arena *a = an_arena_new();
    struct an_peak p = {0, NULL};
    bool found = an_peak_find(a, device, column, &p);
    if (found) {
        assert_int_equal(strncmp(p.source, "datasheet: ", 11), 0);
        assert_true(strlen(p.source) > 20);
    }
    an_arena_free(a);
    return found ? p.value : 0;
}

static void same(double a, double b)
{
    if (a < b * (1 - 1e-12) || a > b * (1 + 1e-12))
        fail_msg("%g is not %g", a, b);
}

static void test_devices(void **state)
{
    (void)state;
    same(peak("NVIDIA H100 80GB HBM3", "bf16"), 989.4e12);
    same(peak("NVIDIA H100 80GB HBM3", "fp8"), 1978.9e12);
    same(peak("NVIDIA H100 80GB HBM3", "bandwidth"), 3350e9);
    same(peak("NVIDIA H100 PCIe", "bf16"), 756e12);
    same(peak("NVIDIA H200", "bf16"), 989.5e12);
    same(peak("NVIDIA H200 NVL", "bf16"), 835.5e12);
    same(peak("NVIDIA B200", "fp4"), 9000e12);
    same(peak("Tesla V100-SXM2-32GB", "fp16"), 125e12);
    same(peak("Tesla V100-DGXS-32GB", "fp32"), 15.7e12);
    same(peak("NVIDIA A100-PG509-200", "tf32"), 156e12);
    same(peak("A100-SXM4-80GB", "bandwidth"), 2039e9);
    same(peak("NVIDIA GeForce RTX 4090", "bf16"), 165.2e12);
    same(peak("AMD Instinct MI300X", "bf16"), 1307.4e12);
    same(peak("AMD Instinct MI250X", "fp16"), 191.5e12);
    same(peak("nvidia l40s", "fp8"), 733e12);
    same(peak("AMD Instinct MI300X VF", "bf16"), 1307.4e12);
    same(peak("AMD Instinct MI308X", "bf16"), 344.1e12);
    same(peak("NVIDIA A800-SXM4-80GB", "bf16"), 312e12);
    same(peak("NVIDIA L20", "bf16"), 119.5e12);
    same(peak("NVIDIA RTX 6000 Ada Generation", "bf16"), 364.2e12);
    same(peak("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "bandwidth"), 1792e9);
    same(peak("NVIDIA GeForce RTX 3080", "fp16"), 59.5e12);
    same(peak("NVIDIA GeForce RTX 2080 Ti", "fp16"), 56.9e12);
    same(peak("NVIDIA GeForce RTX 3060", "fp32"), 12.7e12);
    same(peak("NVIDIA GeForce RTX 3060", "bandwidth"), 360e9);
    same(peak("NVIDIA GeForce RTX 3060 Ti", "bf16"), 32.4e12);
    same(peak("NVIDIA GeForce RTX 4060 Ti", "fp8"), 88.3e12);
    same(peak("NVIDIA GeForce GTX 1060 6GB", "bandwidth"), 192e9);
    same(peak("Tesla P4", "fp32"), 5.5e12);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const unknown[] = {"",
                                          "NVIDIA",
                                          "NVIDIA ",
                                          "H100",
                                          "AMD Radeon Graphics",
                                          "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                                          "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
                                          "NVIDIA L4000",
                                          "NVIDIA GeForce RTX 3080 Ti",
                                          "NVIDIA GeForce RTX 3060 Laptop GPU",
                                          "AMD Instinct MI250X/MI250",
                                          "*",
                                          "#",
                                          "NVIDIA H100 80GB HBM3\tx",
                                          "cpu"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        same(peak(unknown[i], "bf16") + peak(unknown[i], "fp32") + peak(unknown[i], "bandwidth"),
             0);
    same(peak("Tesla V100-SXM2-32GB", "bf16"), 0); /* it has none */
    same(peak("Tesla V100-SXM2-32GB", "tf32"), 0);
    same(peak("NVIDIA H100 80GB HBM3", "int8"), 0);
    same(peak("NVIDIA H100 80GB HBM3", ""), 0);
    char longest[4096];
    memset(longest, 'H', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    same(peak(longest, "bf16"), 0);
}

/* A slice of a device has its share of the peak, if its multiprocessors are known; nothing is known
 * of its memory. */
static void slices(void **state)
{
    (void)state;
    struct an_arena *arena = an_arena_new();
    struct an_peak whole, part;
    const char *name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
    assert_false(an_peak_find(arena, name, "bf16", &part));
    assert_true(an_peak_find(arena, "NVIDIA H100 80GB HBM3", "bf16", &whole));
    assert_true(an_peak_find_slice(arena, name, 16, "bf16", &part));
    assert_true(part.value > whole.value * 0.1212 && part.value < whole.value * 0.1213);
    assert_non_null(strstr(part.source, "16 of 132 multiprocessors"));
    assert_false(an_peak_find_slice(arena, name, 16, "bandwidth", &part));
    assert_false(an_peak_find_slice(arena, name, 133, "bf16", &part));
    assert_false(an_peak_find_slice(arena, "NVIDIA H100 80GB HBM3", 132, "bf16", &part));
    assert_false(an_peak_find_slice(arena, "Other MIG 1g.10gb", 16, "bf16", &part));
    an_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
