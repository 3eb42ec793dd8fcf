/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: what is handed out is zero, aligned and never handed out twice; a shared one ends where
 * it was said to end, and has what a child put there at the same address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzers/base/arena.h"

#define ROOM ((size_t)1 << 20)

static void check_parts(struct an_arena *arena)
{
    for (size_t i = 0; i < 1000; i++) {
        const char *text = an_arena_format(arena, "text %zu", i);
        unsigned char *bytes = an_arena_zero(arena, i % 37, 3);
        assert_non_null(bytes);
        assert_int_equal((uintptr_t)bytes % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < i % 37 * 3; k++)
            assert_int_equal(bytes[k], 0);
        memset(bytes, 0xff, i % 37 * 3);
        assert_int_equal(strtoul(text + 5, NULL, 10), i);
    }
    assert_false(an_arena_failed(arena));
}

static void test_parts(void **state)
{
    struct an_arena *own = an_arena_new(), *shared = an_arena_shared(ROOM);
    (void)state;
    assert_true(own && shared);
    assert_false(an_arena_is_shared(own));
    assert_false(an_arena_is_shared(NULL));
    assert_true(an_arena_is_shared(shared));
    check_parts(own);
    check_parts(shared);
    an_arena_free(own);
    an_arena_free(shared);
}

static void test_end(void **state)
{
    struct an_arena *arena = an_arena_shared(ROOM);
    (void)state;
    assert_non_null(arena);
    void *large = an_arena_zero(arena, ROOM / 2, 1);
    assert_non_null(large);
    an_arena_give_back(arena, large); /* no more than that: it stays */
    assert_null(an_arena_zero(arena, ROOM / 2, 1));
    assert_true(an_arena_failed(arena));
    assert_null(an_arena_zero(arena, SIZE_MAX / 4, 1));
    an_arena_free(arena);
}

static void test_child(void **state)
{
    struct an_arena *arena = an_arena_shared(ROOM);
    const char **place = an_arena_zero(arena, 1, sizeof *place);
    int status = 0;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        *place = an_arena_text(arena, "what the child says");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(*place, "what the child says");
    an_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_end),
                                       cmocka_unit_test(test_child)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
