/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict of a memory snapshot: which device it is about, and when memory is fragmented.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/findings/findings_private.h"

#define MIB (1ll << 20)

/* Does the verdict of these devices begin so, and name that device? */
static void says(const struct an_allocator_device *device, size_t count, const char *class,
                 const char *name)
{
    static struct an_result result;
    struct an_context context = {.result = &result, .arena = an_arena_new()};
    assert_non_null(context.arena);
    result.flight.reason = "none";
    result.allocator = (struct an_allocator){.device = device, .device_count = count};
    const char *words = an_verdict_memory(&context);
    assert_string_equal(result.verdict_class, class);
    if (!strstr(words, name))
        fail_msg("\"%s\" does not say \"%s\"", words, name);
    an_arena_free(context.arena);
}

/* Of devices that ran out of memory the one with most memory counts, however often each did, and
 * in whatever order they come. */
static void test_worst_device(void **state)
{
    const struct an_allocator_device full = {
        .device = 0, .failed = 2, .reserved_peak = 28672 * MIB, .best = SIZE_MAX};
    const struct an_allocator_device small = {
        .device = 1, .failed = 1, .reserved_peak = 2 * MIB, .best = SIZE_MAX};
    const struct an_allocator_device large = {
        .device = 2, .reserved_peak = 40960 * MIB, .best = SIZE_MAX};
    (void)state;
    says((const struct an_allocator_device[]){full, small, large}, 3, "OUT OF MEMORY", "gpu:0");
    says((const struct an_allocator_device[]){small, full, large}, 3, "OUT OF MEMORY", "gpu:0");
    says((const struct an_allocator_device[]){large, small, full}, 3, "OUT OF MEMORY", "gpu:0");
    says((const struct an_allocator_device[]){large, small}, 2, "OUT OF MEMORY", "gpu:1");
}

/* One small tensor in the smallest segment is not fragmentation. */
static void test_fragmented(void **state)
{
    struct an_allocator_device device = {
        .reserved_peak = 20 * MIB, .allocated_peak = MIB, .best = SIZE_MAX};
    (void)state;
    says(&device, 1, "MEMORY", "gpu:0");
    device.reserved_peak = 1000 * MIB;
    device.allocated_peak = 800 * MIB;
    says(&device, 1, "FRAGMENTED MEMORY", "gpu:0");
    device.allocated_peak = 920 * MIB;
    says(&device, 1, "MEMORY", "gpu:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_worst_device),
                                       cmocka_unit_test(test_fragmented)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
