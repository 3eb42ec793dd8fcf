/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of the caching allocator: rounding, which block a request gets, what is split and
 * merged, and the settings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "analyzers/allocator/caching_sizes.h"

#define MIB (1ll << 20)

static const struct caching_place common = {0}, graph = {.pool = 1};

static struct caching_model *model_of(struct caching_settings settings)
{
    if (!settings.max_split)
        settings.max_split = CACHING_UNLIMITED;
    struct caching_model *model = caching_new(&settings);
    assert_non_null(model);
    return model;
}

static void rounding(void **state)
{
    const struct caching_settings plain = {.max_split = CACHING_UNLIMITED},
                                  power = {.divisions = {4, 4, 8, [15] = 2}};
    (void)state;
    assert_int_equal(caching_round(&plain, 0), 512);
    assert_int_equal(caching_round(&plain, 512), 512);
    assert_int_equal(caching_round(&plain, 513), 1024);
    assert_int_equal(caching_round(&power, 1200 * 1024), 1280 * 1024);
    assert_int_equal(caching_round(&power, 1024 * 1024), 1024 * 1024);
    assert_int_equal(caching_round(&power, 700), 1024); /* too small to be divided */
    /* Divisions by size, also beyond the last interval; none where there are 0. */
    assert_int_equal(caching_round(&power, 2 * MIB + 1), 2 * MIB + MIB / 2);
    assert_int_equal(caching_round(&power, 4 * MIB + 1), 4 * MIB + MIB / 2);
    assert_int_equal(caching_round(&power, 8 * MIB + 1), 8 * MIB + 512);
    assert_int_equal(caching_round(&power, (MIB << 17) + 1), (MIB << 17) + (MIB << 16));
}

/* Settings of middling segments and of blocks that are not split. */
static void sizes(void **state)
{
    const struct caching_settings plain = {.max_split = 64 * MIB},
                                  own = {.max_split = 64 * MIB,
                                         .large_segment = 12 * MIB,
                                         .non_split_rounding = 40 * MIB};
    int64_t first, at;
    (void)state;
    assert_int_equal(caching_segment_bytes(&plain, 2 * MIB), 20 * MIB);
    assert_int_equal(caching_segment_bytes(&own, 2 * MIB), 12 * MIB);
    assert_int_equal(caching_segment_bytes(&own, 30 * MIB), 30 * MIB);
    for (int rounds = 0; rounds < 2; rounds++) {
        struct caching_model *model = caching_new(rounds ? &own : &plain);
        caching_free(model, caching_alloc(model, 130 * MIB, common, &first));
        assert_true(caching_alloc(model, 100 * MIB, common, &at) >= 0);
        assert_int_equal(at == first, rounds);
        caching_free_all(model);
    }
}

/* Small requests share a segment of 2 MiB, middling ones one of 20 MiB, large ones get their own.
 */
static void segments(void **state)
{
    struct caching_model *model = model_of((struct caching_settings){0});
    int64_t at;
    (void)state;
    assert_true(caching_alloc(model, 1000, common, &at) >= 0);
    assert_true(caching_alloc(model, MIB, common, &at) >= 0);
    assert_int_equal(caching_totals(model).reserved, 2 * MIB);
    assert_true(caching_alloc(model, 2 * MIB, common, &at) >= 0);
    assert_true(caching_alloc(model, 9 * MIB, common, &at) >= 0);
    assert_int_equal(caching_totals(model).reserved, 22 * MIB);
    assert_true(caching_alloc(model, 11 * MIB, common, &at) >= 0);
    assert_int_equal(caching_totals(model).reserved, 34 * MIB);
    assert_true(caching_alloc(model, MIB, (struct caching_place){.stream = 7}, &at) >=
                0); /* another stream */
    assert_int_equal(caching_totals(model).requests, 4);
    caching_free_all(model);
}

/* The smallest free block that fits, of equal ones the lowest address; freed neighbours are one. */
static void best_fit(void **state)
{
    struct caching_model *model = model_of((struct caching_settings){0});
    int64_t at[4], again, handle[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        handle[i] = caching_alloc(model, (i == 2 ? 12 : 16) * MIB, common, &at[i]);
    caching_free(model, handle[3]);
    caching_free(model, handle[0]);
    caching_free(model, handle[2]);
    handle[2] = caching_alloc(model, 11 * MIB + 1, common, &again);
    assert_int_equal(again, at[2]); /* 12 MiB, not 16: the rest is below 1 MiB and stays */
    handle[0] = caching_alloc(model, 14 * MIB, common, &again);
    assert_int_equal(again, at[0] < at[3] ? at[0] : at[3]);
    assert_int_equal(caching_totals(model).requests, 4);
    caching_free_all(model);

    model = model_of((struct caching_settings){0});
    handle[0] = caching_alloc(model, 4 * MIB, common, &at[0]);
    handle[1] = caching_alloc(model, 5 * MIB, common, &at[1]);
    assert_int_equal(at[1] - at[0], 4 * MIB);
    caching_free(model, handle[0]);
    assert_int_equal(caching_totals(model).largest_free, 11 * MIB);
    assert_int_equal(caching_totals(model).inactive_split, 15 * MIB);
    caching_free(model, handle[1]);
    assert_int_equal(caching_totals(model).largest_free, 20 * MIB);
    assert_int_equal(caching_totals(model).inactive_split, 0);
    assert_int_equal(caching_totals(model).allocated, 0);
    caching_release(model, 1, 0); /* nothing there: all that is free goes, as by empty_cache() */
    assert_int_equal(caching_totals(model).reserved, 0);
    assert_int_equal(caching_totals(model).reserved_peak, 20 * MIB);
    caching_free_all(model);
}

/* Growing requests: each needs a new segment, unless one segment grows at its end. */
static void settings(void **state)
{
    const struct caching_settings tried[] = {{0}, {.expandable = true}, {.max_split = 16 * MIB}};
    const int64_t peak[] = {0, 60 * MIB, 0};
    int64_t reserved[3], at;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct caching_model *model = model_of(tried[i]);
        for (int64_t size = 20; size <= 60; size += 4) {
            int64_t handle = caching_alloc(model, size * MIB, common, &at);
            assert_true(handle >= 0);
            caching_free(model, handle);
        }
        reserved[i] = caching_totals(model).reserved;
        caching_free_all(model);
    }
    assert_int_equal(reserved[0], 440 * MIB);
    assert_int_equal(reserved[1], peak[1]);
    assert_int_equal(reserved[2], 440 * MIB);
    /* A limit keeps large blocks for large requests. */
    struct caching_model *model = model_of((struct caching_settings){.max_split = 16 * MIB});
    int64_t large = caching_alloc(model, 40 * MIB, common, &at), small;
    caching_free(model, large);
    assert_true(caching_alloc(model, 12 * MIB, common, &small) >= 0);
    assert_int_not_equal(small, at);
    caching_free_all(model);
}

/* What is there at the beginning lies where it lay, and what is free between can be used. */
static void given(void **state)
{
    struct caching_model *model = model_of((struct caching_settings){0});
    int64_t at, first, second;
    (void)state;
    assert_int_equal(caching_segment_given(model, 1ll << 40, 20 * MIB, common, true, false), 0);
    first = caching_block_given(model, 1ll << 40, 4 * MIB - 100, 4 * MIB);
    second = caching_block_given(model, (1ll << 40) + 8 * MIB, 2 * MIB, 0);
    assert_true(first >= 0 && second >= 0);
    assert_int_equal(caching_block_given(model, 5, 100, 0), -1);
    assert_true(caching_alloc(model, 4 * MIB, common, &at) >= 0);
    assert_int_equal(at, (1ll << 40) + 4 * MIB);
    assert_int_equal(caching_segment_expected(model, 1ll << 41, 32 * MIB, false), 0);
    assert_true(caching_alloc(model, 32 * MIB, common, &at) >= 0);
    assert_int_equal(at, 1ll << 41);
    caching_free_all(model);
}

/* A private pool has blocks and segments of its own: none of it serves another pool, also where it
 * would fit better; what is free goes back to the driver pool by pool. */
static void private_pools(void **state)
{
    struct caching_model *model = model_of((struct caching_settings){0});
    int64_t first, at, handle;
    (void)state;
    handle = caching_alloc(model, 4 * MIB, common, &first);
    caching_free(model, handle);
    handle = caching_alloc(model, 4 * MIB, graph, &at);
    assert_int_not_equal(at, first);
    assert_int_equal(caching_totals(model).reserved, 40 * MIB);
    assert_true(caching_alloc(model, 4 * MIB, common, &at) >= 0);
    assert_int_equal(at, first);
    caching_free(model, handle);
    caching_release(model, 1, 0); /* of the common pool nothing is free as a whole */
    assert_int_equal(caching_totals(model).reserved, 40 * MIB);
    caching_release(model, 1, 1);
    assert_int_equal(caching_totals(model).reserved, 20 * MIB);
    caching_free_all(model);

    for (int grows = 0; grows < 2; grows++) { /* of a private pool only in newer versions */
        model = model_of(
            (struct caching_settings){.expandable = true, .private_expandable = grows != 0});
        assert_true(caching_alloc(model, 30 * MIB, graph, &first) >= 0);
        assert_int_equal(caching_totals(model).reserved, (grows ? 40 : 30) * MIB);
        assert_true(caching_alloc(model, 30 * MIB, common, &at) >= 0);
        assert_int_equal(caching_totals(model).reserved, (grows ? 80 : 70) * MIB);
        assert_true(caching_alloc(model, 30 * MIB, graph, &at) >= 0);
        assert_int_equal(caching_totals(model).reserved, 100 * MIB);
        if (grows)
            assert_int_equal(at - first, 30 * MIB);
        caching_free_all(model);
    }
}

/* An expandable segment: holes are used before its end, their pages can go back to the driver, and
 * a request that does not fit between blocks gets memory in the first hole that is large enough. */
static void expandable_segments(void **state)
{
    struct caching_model *model = model_of((struct caching_settings){.expandable = true});
    int64_t hole, at[4], again;
    (void)state;
    int64_t handle = caching_alloc(model, 60 * MIB, common, &hole);
    assert_true(caching_alloc(model, 2 * MIB, common, &at[0]) >= 0);
    assert_true(caching_alloc(model, 30 * MIB, common, &at[1]) >= 0);
    assert_int_equal(caching_totals(model).reserved, 100 * MIB);
    caching_free(model, handle);
    handle = caching_alloc(model, 7 * MIB, common, &again);
    assert_int_equal(again, hole); /* the 8 MiB at the end can grow, so they come last */
    caching_release(model, 1, 0);
    assert_int_equal(caching_totals(model).reserved, 60 * MIB);
    assert_int_equal(caching_totals(model).free, 13 * MIB + 8 * MIB);
    assert_int_equal(caching_totals(model).inactive_split, 0);
    assert_true(caching_alloc(model, 40 * MIB, common, &again) >= 0);
    assert_int_equal(again, hole + 7 * MIB);
    assert_int_equal(caching_totals(model).reserved, 100 * MIB);
    caching_free(model, handle);
    caching_free_all(model);

    /* Parts that exist, with a hole between them; the history takes the last one away. */
    model = model_of((struct caching_settings){.expandable = true});
    assert_int_equal(caching_segment_given(model, 1ll << 40, 20 * MIB, common, true, true), 0);
    assert_int_equal(
        caching_segment_given(model, (1ll << 40) + 60 * MIB, 20 * MIB, common, true, true), 0);
    assert_true(caching_block_given(model, 1ll << 40, 20 * MIB, 20 * MIB) >= 0);
    assert_true(caching_alloc(model, 50 * MIB, common, &again) >= 0);
    assert_int_equal(again, (1ll << 40) + 20 * MIB);
    assert_int_equal(caching_totals(model).reserved, 80 * MIB);
    assert_true(caching_alloc(model, 30 * MIB, common, &again) >= 0);
    assert_int_equal(again, (1ll << 40) + 70 * MIB);
    assert_int_equal(caching_totals(model).reserved, 100 * MIB);
    caching_free_all(model);

    /* A new segment is where the history maps it; without any memory it is gone. */
    model = model_of((struct caching_settings){.expandable = true});
    for (int64_t base = 1ll << 41; base < 1ll << 43; base *= 2) {
        assert_int_equal(caching_segment_expected(model, base, 40 * MIB, true), 0);
        handle = caching_alloc(model, 30 * MIB, common, &again);
        assert_int_equal(again, base);
        caching_free(model, handle);
        caching_unmap(model, base, 40 * MIB, 0);
        assert_int_equal(caching_totals(model).reserved, 0);
    }
    caching_free_all(model);
}

/* Where the device is full, what is free is given back before a request fails. */
static void capacity(void **state)
{
    const struct caching_settings tried[] = {{0}, {.expandable = true}, {.max_split = 30 * MIB}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct caching_model *model = model_of(tried[i]);
        int64_t at, first, second;
        caching_set_capacity(model, 120 * MIB);
        first = caching_alloc(model, 40 * MIB, common, &at);
        second = caching_alloc(model, 60 * MIB, common, &at);
        assert_true(first >= 0 && second >= 0);
        assert_int_equal(caching_alloc(model, 40 * MIB, common, &at), CACHING_FULL);
        caching_free(model, first);
        /* Of another stream: what is free there does not serve it, but its memory does. */
        first = caching_alloc(model, 50 * MIB, (struct caching_place){.stream = 7}, &at);
        assert_true(first >= 0);
        assert_in_range(caching_totals(model).reserved, 110 * MIB, 120 * MIB);
        caching_free(model, second);
        second = caching_alloc(model, (i == 1 ? 60 : 64) * MIB, common, &at); /* in pages of 20 */
        assert_true(second >= 0);
        assert_int_equal(caching_alloc(model, 20 * MIB, common, &at), CACHING_FULL);
        caching_set_capacity(model, CACHING_UNLIMITED);
        assert_true(caching_alloc(model, 20 * MIB, common, &at) >= 0);
        caching_free_all(model);
    }
    /* Of blocks that may not be split only as many go as the request needs. */
    struct caching_model *model = model_of((struct caching_settings){.max_split = 30 * MIB});
    int64_t at, handle[3];
    caching_set_capacity(model, 150 * MIB);
    for (int i = 0; i < 3; i++)
        handle[i] = caching_alloc(model, (30 + 20 * i) * MIB, common, &at);
    for (int i = 0; i < 3; i++)
        caching_free(model, handle[i]);
    assert_true(caching_alloc(model, 76 * MIB, common, &at) >= 0);
    assert_int_equal(caching_totals(model).reserved, (30 + 76) * MIB);
    caching_free_all(model);
}

/* Any order of requests: totals agree with what is in use, and nothing overlaps. */
static void any_order(void **state)
{
    enum { LIVE = 200, STEPS = 20000 };
    int64_t handle[LIVE], at[LIVE], bytes[LIVE], sum = 0;
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct caching_model *model = model_of((struct caching_settings){
            .expandable = kind == 1, .max_split = kind == 2 ? 8 * MIB : CACHING_UNLIMITED});
        uint64_t random = 7;
        for (size_t i = 0; i < LIVE; i++)
            handle[i] = -1;
        for (int step = 0; step < STEPS; step++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t slot = (size_t)(random >> 33) % LIVE;
            if (handle[slot] >= 0) {
                caching_free(model, handle[slot]);
                sum -= bytes[slot];
                handle[slot] = -1;
            } else {
                bytes[slot] = 1 + (int64_t)(random >> 20) % (1 << (5 + (random >> 8) % 20));
                handle[slot] = caching_alloc(model, bytes[slot], common, &at[slot]);
                sum += bytes[slot];
                assert_true(handle[slot] >= 0);
            }
            struct caching_totals totals = {0};
            if (step % 1500 == 0)
                caching_release(model, 1, 0);
            if (step % 500 == 0)
                totals = caching_totals(model);
            if (step % 500 == 0) {
                assert_true(totals.allocated >= sum);
                assert_int_equal(totals.reserved, totals.allocated + totals.free);
            }
        }
        for (size_t i = 0; i < LIVE; i++)
            for (size_t k = 0; k < LIVE; k++)
                if (i != k && handle[i] >= 0 && handle[k] >= 0)
                    assert_true(at[i] + bytes[i] <= at[k] || at[k] + bytes[k] <= at[i]);
        for (size_t i = 0; i < LIVE; i++)
            if (handle[i] >= 0)
                sum -= bytes[i];
        caching_free_all(model);
    }
}

/* Segments, and pages of an expandable one, that exist and go in another order; the history names
 * others that no request needs. A search through all blocks for each would take minutes. */
static void many_segments(void **state)
{
    enum { MANY = 200000, STRIDE = 7919 };
    const int64_t bytes = 20 * MIB, base = 1ll << 45;
    int64_t *handle = calloc(MANY, sizeof *handle), at;
    clock_t begun = clock();
    (void)state;
    assert_non_null(handle);
    for (int expandable = 0; expandable < 2; expandable++) {
        struct caching_model *model = model_of((struct caching_settings){.expandable = expandable});
        for (int64_t i = 0; i < MANY; i++)
            assert_int_equal(caching_segment_given(model, base + i * bytes, bytes, common, true,
                                                   expandable != 0),
                             0);
        for (int64_t i = 0; i < MANY; i++) {
            handle[i] = caching_block_given(model, base + i * bytes, bytes, bytes);
            assert_true(handle[i] >= 0);
        }
        for (int64_t i = 0; i < MANY; i++) {
            int64_t gone = i * STRIDE % MANY;
            caching_free(model, handle[gone]);
            if (expandable)
                caching_unmap(model, base + gone * bytes, bytes, 0);
            else
                caching_release(model, base + gone * bytes, 0);
            if (i % 20000 == 0)
                assert_int_equal(caching_totals(model).reserved, (MANY - 1 - i) * bytes);
        }
        for (int64_t i = 0; i < MANY && !expandable; i++) {
            assert_int_equal(caching_segment_expected(model, base + i * bytes, 2 * bytes, false),
                             0);
            assert_true(caching_alloc(model, bytes, common, &at) >= 0);
        }
        caching_free_all(model);
    }
    free(handle);
    assert_true((double)(clock() - begun) / CLOCKS_PER_SEC < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding),      cmocka_unit_test(sizes),
        cmocka_unit_test(segments),      cmocka_unit_test(best_fit),
        cmocka_unit_test(settings),      cmocka_unit_test(given),
        cmocka_unit_test(private_pools), cmocka_unit_test(expandable_segments),
        cmocka_unit_test(capacity),      cmocka_unit_test(any_order),
        cmocka_unit_test(many_segments),
    };
    return cmocka_run_group_tests_name("an_caching_model", tests, NULL, NULL);
}
