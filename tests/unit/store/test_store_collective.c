/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that libraries give collectives, and the one that tacho writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"

static const char *begin_of(const char *name)
{
    const char *found = store_collective(name, strlen(name), NULL);
    return found ? found : "none";
}

static const char *word_of(const char *text)
{
    const char *found = store_collective_in(text, strlen(text));
    return found ? found : "none";
}

static void names_begin(void **state)
{
    (void)state;
    assert_string_equal(begin_of("AllReduce"), "all_reduce");
    assert_string_equal(begin_of("allreduce_coalesced"), "all_reduce");
    assert_string_equal(begin_of("_allgather_base"), "all_gather");
    assert_string_equal(begin_of("all-to-all"), "all_to_all");
    assert_string_equal(begin_of("AlltoAll"), "all_to_all");
    assert_string_equal(begin_of("_reduce_scatter_base"), "reduce_scatter");
    assert_string_equal(begin_of("reduce"), "reduce");
    assert_string_equal(begin_of("Bcast"), "broadcast");
    assert_string_equal(begin_of("recvAnySource"), "recv");
    assert_string_equal(begin_of("SendRecv"), "none");
    assert_string_equal(begin_of("CommInitRank"), "none");
    assert_string_equal(begin_of("all_reduc"), "none");
    assert_string_equal(begin_of("___"), "none");
    assert_string_equal(begin_of(""), "none");
}

static void what_says_it(void **state)
{
    size_t used = 0;
    (void)state;
    assert_string_equal(store_collective("_all_reduce_x", 13, &used), "all_reduce");
    assert_int_equal(used, 11);
    assert_null(store_collective("all_reduce", 9, &used)); /* no byte behind the end is read */
    assert_int_equal(used, 11);
}

static void words(void **state)
{
    (void)state;
    assert_string_equal(word_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"), "all_reduce");
    assert_string_equal(word_of("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(work)"), "none");
    assert_string_equal(word_of("ncclDevKernel_Reduce_Sum_f32_RING_LL"), "reduce");
    assert_string_equal(word_of("ncclAllReduce"), "all_reduce");
    assert_string_equal(word_of("hcom_allReduce__123_0_1"), "all_reduce");
    assert_string_equal(word_of("Default/ReduceScatter-op5_0"), "reduce_scatter");
    assert_string_equal(word_of("c10d::_allgather_base_"), "all_gather");
    assert_string_equal(word_of("void vllm::cross_device_reduce_1stage<float, 8>()"), "all_reduce");
    assert_string_equal(word_of("ncclDevKernel_Generic"), "none");
    assert_string_equal(word_of("deallreduce"), "none"); /* in the middle of a word */
    assert_string_equal(word_of(""), "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_begin),
        cmocka_unit_test(what_says_it),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests_name("store: collectives", tests, NULL, NULL);
}
