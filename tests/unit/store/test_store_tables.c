/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables whose keys come from foreign files: keys that were prepared so that a hash without a
 * secret puts all of them into one place. A table that this works with needs more than ten times
 * the time that is allowed here; the others need a hundredth of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "store/import/input/map.h"
#include "store/import/kineto/kineto_private.h"
#include "store/intern.h"
#include "store/keyed_hash.h"

#define KEYS     200000
#define SECONDS  4.0
#define FACTOR   0x9e3779b97f4a7c15u
#define FACTOR_2 0xc2b2ae3d27d4eb4fu

static clock_t begun;

static int begin(void **state)
{
    (void)state;
    begun = clock();
    return 0;
}

static void assert_quick(void)
{
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    print_message("%d keys in %.3f s\n", KEYS, seconds);
    assert_true(seconds < SECONDS);
}

/* FNV-1a over words: the second word takes back what the first one did. */
static void texts_of_one_hash(void **state)
{
    struct store_intern table = {0};
    (void)state;
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t hash = (0xcbf29ce484222325u ^ 16 ^ i) * 0x100000001b3u;
        const uint64_t text[2] = {i, hash ^ hash >> 29};
        int64_t id;
        bool added;
        assert_int_equal(store_intern_put(&table, text, sizeof text, &id, &added), 0);
        assert_true(added);
        assert_int_equal(id, (int64_t)i + 1);
    }
    assert_quick();
    store_intern_clear(&table);
}

/* x with x * FACTOR = 1 modulo 2^64. */
static uint64_t inverse_of_factor(void)
{
    uint64_t inverse = FACTOR;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - FACTOR * inverse;
    return inverse;
}

static void numbers_of_one_hash(void **state)
{
    struct imp_map map = {0};
    const uint64_t inverse = inverse_of_factor();
    (void)state;
    assert_true(inverse * FACTOR == 1);
    for (uint64_t second = 0; second < KEYS; second++) {
        uint64_t first = (second + 0x7f4a7c15u) * FACTOR_2 * inverse;
        assert_int_equal(imp_map_put(&map, (int64_t)first, (int64_t)second, (int64_t)second), 0);
    }
    for (uint64_t second = 0; second < KEYS; second++) {
        uint64_t first = (second + 0x7f4a7c15u) * FACTOR_2 * inverse;
        const int64_t *value = imp_map_find(&map, (int64_t)first, (int64_t)second);
        assert_non_null(value);
        assert_int_equal(*value, second);
    }
    assert_quick();
    imp_map_free(&map);
}

static void events_of_one_hash(void **state)
{
    struct kineto_table table = {0};
    (void)state;
    for (uint64_t second = 0; second < KEYS; second++)
        assert_int_equal(kineto_table_set(&table, (struct kineto_key){second * FACTOR, second}, 1),
                         0);
    assert_int_equal(table.count, KEYS);
    assert_int_equal(kineto_table_get(&table, (struct kineto_key){7 * FACTOR, 7}), 1);
    assert_int_equal(kineto_table_get(&table, (struct kineto_key){7, 7}), 0);
    assert_quick();
    free(table.slot);
}

/* Keys as files have them, one after the other, and texts that differ in length alone: as many
 * places as by chance, which is 63 % of all. */
static void places_are_used(void **state)
{
    enum { PLACES = 4096, LEAST = PLACES / 2 };
    static const char zeros[PLACES];
    bool by_pair[PLACES] = {false}, by_multiple[PLACES] = {false}, by_text[PLACES] = {false};
    int pairs = 0, multiples = 0, texts = 0;
    (void)state;
    for (uint64_t i = 0; i < PLACES; i++) {
        by_pair[store_hash_pair(i, 0) % PLACES] = true;
        by_multiple[store_hash_pair(5, i << 52) % PLACES] = true;
        by_text[store_hash_bytes(zeros, (size_t)i) % PLACES] = true;
    }
    for (int i = 0; i < PLACES; i++) {
        pairs += by_pair[i];
        multiples += by_multiple[i];
        texts += by_text[i];
    }
    assert_in_range(pairs, LEAST, PLACES);
    assert_in_range(multiples, LEAST, PLACES);
    assert_in_range(texts, LEAST, PLACES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(texts_of_one_hash, begin),
        cmocka_unit_test_setup(numbers_of_one_hash, begin),
        cmocka_unit_test_setup(events_of_one_hash, begin),
        cmocka_unit_test(places_are_used),
    };
    return cmocka_run_group_tests_name("store: tables", tests, NULL, NULL);
}
