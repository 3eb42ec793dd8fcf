/* SPDX-License-Identifier: Apache-2.0
 *
 * The search: spaces, what the process predicts, that the best is found early in spaces with a
 * known optimum (smooth, with switches, with failures), that a search can be taken up again.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tuner/process.h"
#include "tuner/replay.h"
#include "tuner/search.h"

static void make_space(struct tuner_space *space, const char *const *texts)
{
    *space = (struct tuner_space){0};
    for (; *texts; texts++) {
        char copy[200], *rest = copy, *word;
        snprintf(copy, sizeof copy, "%s", *texts);
        int at = tuner_space_dimension(space, strsep(&rest, ":"));
        while ((word = strsep(&rest, ",")) != NULL)
            assert_true(tuner_space_level(space, (size_t)at, word) >= 0);
    }
    assert_int_equal(tuner_space_product(space), 0);
    assert_int_equal(tuner_space_end(space), 0);
}

static const char *const kernel[] = {"x:1,2,4,8,16,32,64", "y:1,2,3,4,5,6,7,8", "flag:0,1",
                                     "mode:slow,fast,broken", NULL};

/* Best at x = 16, y = 3, flag = 1, fast; "broken" fails, and so does much of both. */
static double kernel_ms(const struct tuner_space *space, size_t at)
{
    double x = log2(atof(tuner_level(space, at, 0))), y = atof(tuner_level(space, at, 1));
    bool flag = atoi(tuner_level(space, at, 2)), fast = *tuner_level(space, at, 3) == 'f';
    if (*tuner_level(space, at, 3) == 'b' || x + y > 12)
        return NAN;
    return 10 + 2 * (x - 4) * (x - 4) + (y - 3) * (y - 3) * (flag ? 1 : 0.3) + (flag ? 0 : 6) +
           (fast ? 0 : 8);
}

static void test_space(void **state)
{
    (void)state;
    struct tuner_space space;
    static const char *const texts[] = {"a:8,1,2", "b:on,off", "c:10,0,5", "d:16,,64,32", NULL};
    make_space(&space, texts);
    assert_int_equal(space.count, 72);
    assert_string_equal(space.dimension[0].level[0], "1");            /* numbers in their order */
    assert_true(fabs(space.dimension[0].place[1] - 1.0 / 3) < 1e-12); /* by logarithm: 2 of 1..8 */
    assert_string_equal(space.dimension[1].level[0], "on");           /* words as they came */
    assert_true(space.dimension[2].place[1] == 0.5);                  /* with a 0 by value */
    assert_string_equal(space.dimension[3].level[0], ""); /* absent, aside from the numbers */
    assert_true(space.dimension[3].place[0] == -1);
    assert_true(fabs(space.dimension[3].place[2] - 0.5) < 1e-12);
    tuner_space_clear(&space);
}

static void test_process(void **state)
{
    (void)state;
    struct tuner_space space;
    struct tuner_process process;
    static const size_t watched[] = {3, 8};
    static const char *const texts[] = {"x:0,1,2,3,4,5,6,7,8,9,10", NULL};
    make_space(&space, texts);
    assert_int_equal(tuner_process_begin(&process, &space, watched, 2, 8), 0);
    const size_t point[] = {0, 3, 6, 10};
    const double value[] = {1, -0.5, -1, 1.5};
    assert_true(tuner_process_set(&process, point, value, 4, true));
    double mean, sd, far, ignored;
    for (int i = 0; i < 4; i++) { /* near what was measured, and sure of it */
        tuner_process_predict(&process, point[i], &mean, &sd);
        assert_true(fabs(mean - value[i]) < 0.3);
    }
    tuner_process_predict(&process, 8, &ignored, &far);
    assert_true(far > sd);
    /* a sweep says the same of what is watched, also after one point more */
    for (size_t count = 3; count <= 4; count++) {
        assert_true(tuner_process_set(&process, point, value, count, false));
        assert_true(tuner_process_sweep(&process));
        for (size_t i = 0; i < 2; i++) {
            tuner_process_predict(&process, watched[i], &mean, &sd);
            assert_true(fabs(process.mean[i] - mean) < 1e-9 && fabs(process.sd[i] - sd) < 1e-9);
        }
    }
    tuner_process_clear(&process);
    tuner_space_clear(&space);
}

/* How many trials until the best is within `ratio` of the optimum. */
static int trials_until(double ratio, uint64_t seed, size_t known)
{
    struct tuner_space space;
    make_space(&space, kernel);
    double best = INFINITY, optimum = 10;
    struct tuner_search *search = tuner_search_new(&space, seed);
    assert_non_null(search);
    int count = 0;
    for (size_t i = 0; i < known; i++) /* as from the journal of an earlier call */
        tuner_search_tell(search, i * 7, kernel_ms(&space, i * 7));
    while (best > ratio * optimum && count < 336) {
        size_t next = tuner_search_ask(search);
        assert_true(next < space.count && (!known || next % 7 || next >= 7 * known));
        double value = kernel_ms(&space, next);
        tuner_search_tell(search, next, value);
        best = fmin(best, isnan(value) ? INFINITY : value);
        count++;
    }
    tuner_search_free(search);
    tuner_space_clear(&space);
    return count;
}

/* By chance one needs 336 / 2 trials for the best; a fifth is the bar of the project. */
static void test_finds_the_best(void **state)
{
    (void)state;
    int found = 0;
    for (uint64_t seed = 1; seed <= 10; seed++)
        found += trials_until(1.0 + 1e-9, seed, 0) <= 336 / 5;
    assert_in_range(found, 9, 10);
    assert_in_range(trials_until(1.0 + 1e-9, 3, 10), 1, 336 / 5);
}

static const char *const valleys[] = {"x:1,2,3,4,5,6,7,8,9,10,11,12", "y:1,2,3,4,5,6,7,8,9,10",
                                      "flag:0,1", "z:1,2,3,4,5,6", NULL};

/* Two valleys: with the flag a setting is worse almost everywhere, and at one place the best. */
static double valley_ms(const struct tuner_space *space, size_t at)
{
    double x = atof(tuner_level(space, at, 0)), y = atof(tuner_level(space, at, 1)),
           z = atof(tuner_level(space, at, 3));
    if (atoi(tuner_level(space, at, 2)))
        return 8 + 6 * fmin(fabs(x - 10) + fabs(y - 2) + fabs(z - 5), 7);
    return 10 + 0.2 * ((x - 3) * (x - 3) + (y - 7) * (y - 7) + (z - 2) * (z - 2));
}

static void test_finds_the_other_valley(void **state)
{
    (void)state;
    struct tuner_space space;
    make_space(&space, valleys);
    int found = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct tuner_search *search = tuner_search_new(&space, seed);
        double best = INFINITY;
        for (int i = 0; i < 120; i++) {
            size_t next = tuner_search_ask(search);
            double value = valley_ms(&space, next);
            tuner_search_tell(search, next, value);
            best = fmin(best, value);
        }
        found += best < 10;
        tuner_search_free(search);
    }
    print_message("%d of 10 searches found the other valley\n", found);
    assert_in_range(found, 8, 10);
    tuner_space_clear(&space);
}

static size_t differing(const struct tuner_space *space, size_t first, size_t second)
{
    size_t count = 0;
    for (size_t at = 0; at < space->dimensions; at++)
        count += tuner_place(space, first, at) != tuner_place(space, second, at);
    return count;
}

/* After 30 trials every second one is next to the best, as long as the search does not look aside,
 * which it does first when 20 trials brought nothing better. */
static void test_stays_near_the_best(void **state)
{
    (void)state;
    struct tuner_space space;
    make_space(&space, valleys);
    int checked = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct tuner_search *search = tuner_search_new(&space, seed);
        double best = INFINITY;
        size_t best_at = 0;
        for (int i = 0, idle = 0; i < 60 && idle < 20; i++, idle++) {
            size_t next = tuner_search_ask(search);
            if (i > 30 && i % 2 == 0) {
                assert_int_equal(differing(&space, next, best_at), 1);
                checked++;
            }
            double value = valley_ms(&space, next);
            tuner_search_tell(search, next, value);
            idle = value < best ? -1 : idle;
            best_at = value < best ? next : best_at;
            best = fmin(best, value);
        }
        tuner_search_free(search);
    }
    assert_true(checked > 10);
    tuner_space_clear(&space);
}

static void test_ends(void **state)
{
    (void)state;
    struct tuner_space space;
    static const char *const texts[] = {"a:1,2,3", "b:x,y", NULL};
    make_space(&space, texts);
    struct tuner_search *search = tuner_search_new(&space, 1);
    bool seen[6] = {false};
    for (int i = 0; i < 6; i++) {
        size_t next = tuner_search_ask(search);
        assert_true(next < 6 && !seen[next]);
        seen[next] = true;
        tuner_search_tell(search, next, i % 2 ? NAN : 1); /* equal values tell nothing apart */
    }
    assert_true(tuner_search_ask(search) == SIZE_MAX);
    double share[2];
    tuner_search_shares(search, share);
    tuner_search_free(search);
    tuner_space_clear(&space);
}

/* Of a configuration that is told again and again, as by a journal that somebody has edited, the
 * first value counts: trials never outnumber the configurations. */
static void test_told_again(void **state)
{
    (void)state;
    struct tuner_space space;
    static const char *const texts[] = {"a:1,2,3,4,5", NULL};
    make_space(&space, texts);
    struct tuner_search *search = tuner_search_new(&space, 1);
    double value[5];
    for (int i = 0; i < 300; i++)
        tuner_search_tell(search, 0, 10 + i);
    for (size_t left = 4; left > 0; left--) {
        size_t next = tuner_search_ask(search);
        assert_in_range(next, 1, 4);
        tuner_search_tell(search, next, 10 + (double)next);
    }
    assert_true(tuner_search_ask(search) == SIZE_MAX);
    tuner_search_response(search, 0, 0, value);
    assert_true(value[0] < value[4]); /* not the mean of what it was told */
    tuner_search_free(search);
    tuner_space_clear(&space);
}

static void test_what_matters(void **state)
{
    (void)state;
    struct tuner_space space;
    static const char *const texts[] = {"big:1,2,3,4,5,6", "none:1,2,3,4,5,6", NULL};
    make_space(&space, texts);
    struct tuner_search *search = tuner_search_new(&space, 1);
    for (int i = 0; i < 20; i++) {
        size_t next = tuner_search_ask(search);
        tuner_search_tell(search, next, 10 + atof(tuner_level(&space, next, 0)));
    }
    double share[2];
    tuner_search_shares(search, share);
    assert_true(share[0] > 0.9 && share[1] < 0.05);
    double value[6];
    tuner_search_response(search, 0, 0, value); /* 11 to 16 by the first, the other as it is */
    for (int i = 0; i < 6; i++)
        assert_true(fabs(value[i] - (11 + i)) < 0.5);
    tuner_search_free(search);
    tuner_space_clear(&space);
}

/* What tuner_replay_read says of a cache with these configurations, each of which took 1 ms. */
static int read_cache(const char *const *configurations, struct tuner_replay *replay)
{
    struct tacho_error err = {0};
    char path[] = "/tmp/test_tuner_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs("{\"results\":[", file);
    for (size_t i = 0; configurations[i]; i++)
        fprintf(file,
                "%s{\"configuration\":%s,\"objectives\":[\"time\"],\"invalidity\":\"correct\","
                "\"measurements\":[{\"name\":\"time\",\"value\":1}]}",
                i ? "," : "", configurations[i]);
    fputs("]}", file);
    assert_int_equal(fclose(file), 0);
    int rc = tuner_replay_read(path, replay, &err);
    remove(path);
    return rc;
}

/* Configurations of other parameters than the first one has are refused: their width is another. */
static void test_replay_of_other_parameters(void **state)
{
    (void)state;
    struct tuner_replay replay;
    static const char *const same[] = {"{\"a\":1,\"b\":2}", "{\"b\":3,\"a\":1}",
                                       "{\"a\":1.5,\"b\":true}", NULL};
    assert_int_equal(read_cache(same, &replay), 0);
    assert_int_equal(replay.space.count, 3);
    tuner_replay_clear(&replay);
    static const char *const more[] = {
        "{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":3}", "{\"a\":2,\"b\":2}",
        "{\"a\":1,\"b\":2,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1}", NULL};
    assert_int_equal(read_cache(more, &replay), TACHO_EFORMAT);
    static const char *const other[] = {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":3}", NULL};
    assert_int_equal(read_cache(other, &replay), TACHO_EFORMAT);
    static const char *const fewer[] = {"{\"a\":1,\"b\":2}", "{\"a\":1}", NULL};
    assert_int_equal(read_cache(fewer, &replay), TACHO_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space),
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_finds_the_best),
        cmocka_unit_test(test_finds_the_other_valley),
        cmocka_unit_test(test_stays_near_the_best),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_told_again),
        cmocka_unit_test(test_what_matters),
        cmocka_unit_test(test_replay_of_other_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
