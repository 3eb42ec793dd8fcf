/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a step is cut to count its ranges: pieces and their paths, steps with more or less than the
 * plan, ranges of two domains that overlap, too many of them, too deep ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/agent/gpu/gpu_plan.c"

static struct gpu_plan plan;

/* "a" pushes range a, "-" pops; upper case is another domain, "=" pops there. `see`: makes the
 * plan; else writes the piece that begins at each event into piece[] (-1: none). */
static void play(const char *events, bool see, int *piece)
{
    if (see)
        gpu_plan_clear(&plan);
    else
        gpu_plan_begin(&plan);
    for (size_t i = 0; events[i]; i++) {
        char c = events[i];
        bool push = c != '-' && c != '=';
        uint16_t domain = c == '=' || (c >= 'A' && c <= 'Z');
        uint32_t name = push ? (uint32_t)c : 0;
        if (see)
            gpu_plan_see(&plan, push, domain, name);
        else
            piece[i] = gpu_plan_cut(&plan, push, domain, name);
    }
}

static void expect_pass(const char *events, const int *want, bool kept)
{
    int piece[1024];
    play(events, false, piece);
    for (size_t i = 0; events[i]; i++)
        assert_int_equal(piece[i], want[i]);
    assert_int_equal(gpu_plan_kept(&plan), kept);
}

static void expect_path(size_t piece, const char *want)
{
    uint32_t name[GPU_PLAN_DEPTH];
    size_t n = gpu_plan_path(&plan, piece, name);
    assert_int_equal(n, strlen(want));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(name[i], want[i]);
}

static void test_nested(void **state)
{
    (void)state;
    play("ab-c--d-", true, NULL);
    assert_int_equal(gpu_plan_pieces(&plan), 9);
    static const char *const paths[] = {"", "a", "ab", "a", "ac", "a", "", "d", ""};
    for (size_t i = 0; i < 9; i++)
        expect_path(i, paths[i]);
    expect_pass("ab-c--d-", (const int[]){1, 2, 3, 4, 5, 6, 7, 8}, true);
}

/* What a step has beyond its plan is part of the piece around it, with all inside it. */
static void test_more(void **state)
{
    (void)state;
    play("ab--", true, NULL);
    expect_pass("xy--ax-b-z-e--b-",
                (const int[]){-1, -1, -1, -1, 1, -1, -1, 2, 3, -1, -1, -1, -1, 4, -1, -1}, true);
    expect_pass("axb---", (const int[]){1, -1, -1, -1, -1, -1},
                false); /* b is in x, and is missed in a */
}

static void test_less(void **state)
{
    (void)state;
    play("ab-c--", true, NULL);
    expect_pass("ab--", (const int[]){1, 2, 3, -1}, false);
    expect_pass("ac--", (const int[]){1, -1, -1, -1}, false);
    expect_pass("", NULL, false);
    expect_pass("ab-c--", (const int[]){1, 2, 3, 4, 5, 6}, true); /* spoilt no more */
}

/* A range may begin before the step and end in it, or begin in it and end after it. */
static void test_across(void **state)
{
    (void)state;
    play("-ab-", true, NULL);
    assert_int_equal(gpu_plan_pieces(&plan), 4);
    expect_path(3, "a");
    expect_pass("-ab-", (const int[]){-1, 1, 2, 3}, true);
}

static void test_domains(void **state)
{
    (void)state;
    play("aB-=", true, NULL);
    assert_int_equal(gpu_plan_pieces(&plan), 5);
    expect_path(2, "aB");
    expect_path(3, "B");
    expect_path(4, "");
    expect_pass("aB-=", (const int[]){1, 2, 3, 4}, true);
    expect_pass("aB=-", (const int[]){1, 2, -1, 3}, false);
}

/* Where levels go because there are too many events, both ends of a range go. */
static void test_many_domains(void **state)
{
    char text[4 * 80 + 1] = "";
    int want[4 * 80];
    (void)state;
    for (int i = 0; i < 80; i++) {
        strcat(text, "aB-=");
        memcpy(&want[4 * i], (const int[]){2 * i + 1, -1, 2 * i + 2, -1}, 4 * sizeof *want);
    }
    play(text, true, NULL);
    assert_int_equal(plan.levels, 1);
    assert_int_equal(gpu_plan_pieces(&plan), 161);
    expect_path(1, "a");
    expect_path(2, "");
    expect_pass(text, want, true);
}

/* The deepest levels go until all fits. */
static void test_many(void **state)
{
    char text[1024] = "";
    (void)state;
    for (int i = 0; i < 60; i++) /* 60 at the first level, 120 at the second */
        strcat(text, "ab-c--");
    play(text, true, NULL);
    assert_int_equal(plan.levels, 1);
    assert_int_equal(gpu_plan_pieces(&plan), 121);
    text[0] = 0;
    for (int i = 0; i < 60; i++)
        strcat(text, i < 3 ? "ab-c--" : "a-");
    play(text, true, NULL);
    assert_true(plan.levels >= 2);
    assert_int_equal(gpu_plan_pieces(&plan), 1 + 2 * 66);
    text[0] = 0;
    for (int i = 0; i < 128; i++)
        strcat(text, "a-");
    play(text, true, NULL);
    assert_int_equal(plan.levels, 0);
    text[254] = 0; /* 127 of them */
    play(text, true, NULL);
    assert_int_equal(gpu_plan_pieces(&plan), 255);
}

static void test_deep(void **state)
{
    char text[200] = "";
    int want[200];
    (void)state;
    memset(text, 'a', 40);
    memset(text + 40, '-', 40);
    play(text, true, NULL);
    assert_int_equal(gpu_plan_pieces(&plan), 2 * GPU_PLAN_DEPTH + 1);
    for (int i = 0; i < 80; i++)
        want[i] = i < 32 ? i + 1 : i < 48 ? -1 : i - 15;
    expect_pass(text, want, true);
}

/* Random steps: as many pieces as pushes and pops, and a path is what is open there. */
static void test_random(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 300; round++) {
        char text[256] = "", open[16] = "";
        size_t n = 0, at = 0, length = (size_t)(rand() % 200);
        int want[256];
        char path[256][16];
        memset(path, 0, sizeof path);
        while (at < length) {
            bool push = !n || (n < 12 && rand() % 2);
            if (push)
                open[n++] = text[at] = (char)('a' + rand() % 5);
            else
                text[at] = '-', n--;
            open[n] = 0;
            want[at] = (int)at + 1;
            strcpy(path[++at], open);
        }
        play(text, true, NULL);
        assert_int_equal(gpu_plan_pieces(&plan), length + 1);
        expect_pass(text, want, true);
        for (size_t i = 0; i <= length; i++)
            expect_path(i, path[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested),       cmocka_unit_test(test_more),
        cmocka_unit_test(test_less),         cmocka_unit_test(test_across),
        cmocka_unit_test(test_domains),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_deep),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_many_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
