/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware metrics by chip, asked of the profiler host interface of the real CUPTI, which needs no
 * GPU: every name in the table is known by some chip, what is sampled fits into one pass, and the
 * main chips have what the analyses need. Prints what each chip gets. Skips where there is no
 * CUPTI.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/agent/gpu/gpu_host.c"

static struct profiler_functions f;
static const char *const *chips;
static size_t chip_count;

static int setup(void **state)
{
    static const char *const places[] = {"libcupti.so.13", "libcupti.so.12",
                                         "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                         "/usr/local/cuda/lib64/libcupti.so"};
    void *library = NULL;
    (void)state;
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* it loads parts of itself in a way that they do not bear */
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++)
        library = dlopen(places[i], RTLD_NOW);
#else
    (void)places;
#endif
    if (library && gpu_host_functions(&f, library) && f.ProfilerHostGetSupportedChips) {
        struct profiler_host_chips p = {.size = PROFILER_SIZE(profiler_host_chips, names)};
        assert_int_equal(f.ProfilerHostGetSupportedChips(&p), 0);
        chips = p.names;
        chip_count = p.count;
    }
    return 0;
}

static bool taken(const struct gpu_host *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (!strcmp(h->metric[i]->name, name))
            return true;
    return false;
}

static bool have(const char *chip)
{
    for (size_t i = 0; i < chip_count; i++)
        if (!strcmp(chips[i], chip))
            return true;
    return false;
}

static void need_cupti(void)
{
    if (!chip_count) {
        print_message("no CUPTI with the profiler host interface (12.6 or later) on this machine, "
                      "or a sanitizer\n");
        skip();
    }
}

/* Everything that is sampled goes into one pass, or the sampler refuses it. */
static void test_sampling(void **state)
{
    (void)state;
    need_cupti();
    for (size_t i = 0; i < chip_count; i++) {
        struct gpu_host h;
        if (gpu_host_open(&h, &f, PROFILER_PM_SAMPLING, chips[i], (struct gpu_image){0},
                          gpu_pm_metrics, GPU_PM_METRICS, 1) == 0 &&
            h.count)
            assert_int_equal(h.passes, 1);
        printf("# %s: %zu of %zu sampled:", chips[i], h.count, GPU_PM_METRICS);
        for (size_t m = 0; m < h.count; m++)
            printf(" %s", h.metric[m]->name);
        printf("\n");
        gpu_host_close(&h);
    }
}

static void test_main_chips(void **state)
{
    /* data centre chips and the last two generations of others */
    static const char *const main_chips[] = {"GA100", "GA102", "AD102", "GH100", "GB100", "GB202"};
    (void)state;
    need_cupti();
    for (size_t i = 0; i < sizeof main_chips / sizeof *main_chips; i++) {
        struct gpu_host h;
        if (!have(main_chips[i]))
            continue;
        assert_int_equal(gpu_host_open(&h, &f, PROFILER_PM_SAMPLING, main_chips[i],
                                       (struct gpu_image){0}, gpu_pm_metrics, GPU_PM_METRICS, 1),
                         0);
        if (!taken(&h, "pm_sm_active") || !taken(&h, "pm_tensor_active") ||
            !taken(&h, "pm_dram_read") || !taken(&h, "pm_dram_write"))
            fail_msg("%s does not sample SMs, matrix units and memory at once", main_chips[i]);
        if (!strcmp(
                main_chips[i],
                "GH100")) /* the machine that tests run on when there is one: all of the table */
            assert_int_equal(h.count, GPU_PM_METRICS);
        gpu_host_close(&h);
        assert_int_equal(gpu_host_open(&h, &f, PROFILER_RANGE, main_chips[i], (struct gpu_image){0},
                                       gpu_range_metrics, GPU_RANGE_METRICS, 0),
                         0);
        printf("# %s: %zu of %zu counted, %zu passes\n", main_chips[i], h.count, GPU_RANGE_METRICS,
               h.passes);
        if (!taken(&h, "range_tensor_bf16") || !taken(&h, "range_fp32_fma") ||
            !taken(&h, "range_l2") || !taken(&h, "range_time") || !taken(&h, "range_occupancy") ||
            !taken(&h, "range_stall_memory"))
            fail_msg("%s does not count what a roofline needs", main_chips[i]);
        assert_true(h.passes >= 1 && h.passes <= 12);
        gpu_host_close(&h);
    }
}

/* A name that no chip knows is a slip of the pen. */
static void each_name_is_known(const struct gpu_metric *table, size_t n, int type)
{
    for (size_t m = 0; m < n; m++)
        for (size_t k = 0; k < GPU_METRIC_CANDIDATES && table[m].candidate[k]; k++) {
            bool found = false;
            for (size_t i = 0; i < chip_count && !found; i++) {
                struct gpu_host h = {.functions = &f};
                if (object_open(&f, type, chips[i], NULL, &h.object) == 0)
                    found = known(&h, table[m].candidate[k]);
                gpu_host_close(&h);
            }
            if (!found)
                fail_msg("no chip knows %s", table[m].candidate[k]);
        }
}

static void test_names(void **state)
{
    (void)state;
    need_cupti();
    each_name_is_known(gpu_pm_metrics, GPU_PM_METRICS, PROFILER_PM_SAMPLING);
    each_name_is_known(gpu_range_metrics, GPU_RANGE_METRICS, PROFILER_RANGE);
}

/* A chip that CUPTI does not know is an error, and nothing is left behind. */
static void test_unknown_chip(void **state)
{
    struct gpu_host h;
    (void)state;
    need_cupti();
    assert_int_not_equal(gpu_host_open(&h, &f, PROFILER_PM_SAMPLING, "XX999", (struct gpu_image){0},
                                       gpu_pm_metrics, GPU_PM_METRICS, 1),
                         0);
    assert_int_equal(h.count, 0);
    gpu_host_close(&h);
    gpu_host_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_main_chips),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_unknown_chip),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
