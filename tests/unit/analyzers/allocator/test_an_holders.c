/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of a recorded history: what blocks are for, who holds most, what is a leak and what
 * only rises, and which blocks could have taken over memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/allocator/allocator_private.h"

#define MIB         (1ll << 20)
#define ROOM        4096
#define STRINGS     256
#define TORCH       "/usr/lib/python3/dist-packages/torch/"
#define FORWARD     TORCH "nn/modules/module.py(1747): _call_impl"
#define BACKWARD    TORCH "autograd/graph.py(823): _engine_run_backward"
#define STEP        TORCH "optim/adamw.py(220): step"
#define FRAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A history under construction. */
static struct recording {
    struct an_trace trace;
    struct an_context context;
    struct history history;
    struct an_allocator_device out;
    const char *string[STRINGS];
    uint32_t frame[STRINGS], parent[STRINGS];
    struct history_life life[ROOM];
    struct history_event event[ROOM];
    int64_t time;
} own;

static void begin(void)
{
    memset(&own, 0, sizeof own);
    own.trace.string = own.string;
    own.trace.stack.frame = own.frame;
    own.trace.stack.parent = own.parent;
    own.history.life = own.life;
    own.history.event = own.event;
    own.context.trace = &own.trace;
    own.context.arena = an_arena_new();
    assert_non_null(own.context.arena);
}

static uint32_t string_of(const char *text)
{
    for (uint32_t i = 0; i < own.trace.string_count; i++)
        if (!strcmp(own.string[i], text))
            return i;
    assert_true(own.trace.string_count < STRINGS);
    own.string[own.trace.string_count] = text;
    return (uint32_t)own.trace.string_count++;
}

/* A stack of frames, the innermost first; NULL: none was recorded. */
static uint32_t stack_of(const char *const *frames)
{
    size_t count = 0;
    uint32_t stack = AN_NONE;
    while (frames && frames[count])
        count++;
    while (count-- > 0) {
        assert_true(own.trace.stack.count < STRINGS);
        own.frame[own.trace.stack.count] = string_of(frames[count]);
        own.parent[own.trace.stack.count] = stack;
        stack = (uint32_t)own.trace.stack.count++;
    }
    return stack;
}

static void add_event(enum history_kind kind, int64_t time, size_t life)
{
    assert_true(own.history.event_count < ROOM);
    own.event[own.history.event_count++] =
        (struct history_event){.time = time, .kind = kind, .life = (uint32_t)life};
}

/* A block that the place `name` asks for. */
static size_t block(int64_t bytes, const char *name, uint32_t stack)
{
    size_t life = own.history.life_count++;
    assert_true(life < ROOM);
    own.life[life] = (struct history_life){.start = ++own.time,
                                           .end = INT64_MAX,
                                           .bytes = bytes,
                                           .name = string_of(name),
                                           .stack = stack};
    add_event(HISTORY_BLOCK, own.time, life);
    return life;
}

/* The same of one that was there when the history began. */
static void given(int64_t bytes, const char *name, uint32_t stack)
{
    size_t life = block(bytes, name, stack);
    own.life[life].given = true;
    own.event[own.history.event_count - 1].time = INT64_MIN;
}

static void give_back(size_t life)
{
    own.life[life].end = ++own.time;
    add_event(HISTORY_END, own.time, life);
}

static const struct an_allocator_device *judge(void)
{
    history_peak(&own.history, &own.out);
    assert_int_equal(history_holders(&own.context, &own.history, &own.out), 0);
    assert_int_equal(history_leaks(&own.context, &own.history, &own.out), 0);
    assert_int_equal(history_in_place(&own.context, &own.history, &own.out), 0);
    return &own.out;
}

static void end(void)
{
    an_arena_free(own.context.arena);
}

/* ---- categories ------------------------------------------------------------------------------ */

/* The innermost frame that says what it is for decides, and folders of the program say nothing. */
static void test_categories(void **state)
{
    static const struct {
        const char *frames[6], *category;
    } rows[] = {
        /* Lightning runs forward and backward in a closure that the optimizer's step calls. */
        {{"/srv/model.py(10): forward", FORWARD, "/srv/lit.py(20): training_step", STEP},
         "activations"},
        {{BACKWARD, TORCH "_tensor.py(626): backward", "/srv/lit.py(21): training_step", STEP},
         "gradients"},
        {{STEP, TORCH "optim/optimizer.py(493): wrapper", "/srv/train.py(80): main"}, "optimizer"},
        {{"/srv/fused_adamw.py(7): update", "/srv/train.py(80): main"}, "optimizer"},
        /* backward that recomputes a forward pass */
        {{"/srv/model.py(10): forward", FORWARD, BACKWARD}, "activations"},
        {{"/work/optimizer_study/model.py(10): forward", FORWARD,
          "/work/optimizer_study/train.py(3): main"},
         "activations"},
        {{"/work/dataloader/adamw/train.py(3): main"}, "other"},
        {{TORCH "nn/modules/module.py(915): _apply", "/srv/train.py(5): main"}, "parameters"},
        {{TORCH "utils/data/_utils/pin_memory.py(60): copy"}, "input"},
        {{"torch::autograd::Engine::evaluate_function", "main"}, "gradients"},
        {{"at::native::relu_kernel"}, "other"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        block(MIB, rows[i].frames[0], stack_of(rows[i].frames));
        const struct an_allocator_device *out = judge();
        assert_int_equal(out->category_count, 1);
        if (strcmp(out->category[0].name, rows[i].category) != 0)
            fail_msg("%s: %s", rows[i].frames[0], out->category[0].name);
        end();
    }
}

/* Blocks without a stack were there before the history, or nothing recorded their stacks. */
static void test_no_stack(void **state)
{
    (void)state;
    begin();
    given(MIB, "(no stack)", AN_NONE);
    block(2 * MIB, "(no stack)", AN_NONE);
    const struct an_allocator_device *out = judge();
    assert_int_equal(out->category_count, 2);
    assert_string_equal(out->category[0].name, "no stack recorded");
    assert_int_equal(out->category[0].bytes, 2 * MIB);
    assert_string_equal(out->category[1].name, "allocated before the history");
    end();
}

/* A place that holds blocks for two purposes is named by that with most bytes, in either order. */
static void test_mixed_holder(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        begin();
        uint32_t stacks[] = {stack_of(FRAMES(BACKWARD, "/srv/t.py(5): main")),
                             stack_of(FRAMES(FORWARD, "/srv/t.py(5): main"))};
        for (int i = 0; i < 2; i++)
            block((i == order ? 900 : 10) * MIB, "/srv/t.py(5): main", stacks[i == order ? 0 : 1]);
        const struct an_allocator_device *out = judge();
        assert_int_equal(out->holder_count, 1);
        assert_int_equal(out->holder[0].bytes, 910 * MIB);
        assert_int_equal(out->holder[0].blocks, 2);
        assert_string_equal(out->holder[0].category, "gradients");
        end();
    }
}

/* ---- leaks ----------------------------------------------------------------------------------- */

/* Steps that keep blocks at some places and give the rest back; the largest leak is listed first,
 * although five others come before it in the order of the names. */
static void test_leaks(void **state)
{
    static const char *const names[] = {"/srv/a.py(0): f", "/srv/a.py(1): f", "/srv/a.py(2): f",
                                        "/srv/a.py(3): f", "/srv/a.py(4): f", "/srv/a.py(5): f"};
    (void)state;
    begin();
    uint32_t stack = stack_of(FRAMES("/srv/a.py(0): f"));
    for (int i = 0; i < 100; i++) /* numbers of events do not begin with them */
        given(MIB, "(no stack)", AN_NONE);
    for (size_t i = 0; i < 6; i++)
        (void)string_of(names[i]);
    for (int step = 0; step < 40; step++) {
        size_t held = block(500 * MIB, "/srv/m.py(1): forward", stack);
        for (size_t i = 0; i < 6; i++)
            block((i == 5 ? 50 : 2) * MIB, names[i], stack);
        give_back(held);
    }
    const struct an_allocator_device *out = judge();
    assert_int_equal(out->leak_count, 5);
    assert_string_equal(out->leak[0].name, names[5]);
    assert_int_equal(out->leak[0].blocks, 40);
    assert_int_equal(out->leak[0].bytes, 2000 * MIB);
    end();
}

/* A place that keeps one of three blocks, after a model with more blocks than the steps have. */
static void test_leak_in_part(void **state)
{
    (void)state;
    begin();
    uint32_t stack = stack_of(FRAMES("/srv/a.py(0): f"));
    for (int i = 0; i < 300; i++)
        block(MIB, "/srv/model.py(3): build", stack);
    for (int step = 0; step < 40; step++) {
        size_t held[3];
        for (int i = 0; i < 3; i++)
            held[i] = block(10 * MIB, "/srv/a.py(0): f", stack);
        give_back(held[1]);
        give_back(held[2]);
    }
    const struct an_allocator_device *out = judge();
    assert_int_equal(out->leak_count, 1);
    assert_int_equal(out->leak[0].blocks, 40);
    end();
}

/* A forward pass that runs out of memory, or a model that is loaded: memory only rises. */
static void test_rises_once(void **state)
{
    (void)state;
    for (int temporary = 0; temporary < 2; temporary++) {
        begin();
        uint32_t stack = stack_of(FRAMES("/srv/model.py(42): forward"));
        for (int i = 0; i < 40; i++) {
            block(100 * MIB, "/srv/model.py(42): forward", stack);
            if (temporary)
                give_back(block(50 * MIB, "/srv/model.py(43): forward", stack));
        }
        assert_int_equal(judge()->leak_count, 0);
        end();
    }
}

/* A queue is full when it holds 300 blocks; beside it, in some runs, steps give back more. */
static void test_full_queue(void **state)
{
    (void)state;
    for (int steps = 0; steps < 2; steps++) {
        size_t queue[400];
        begin();
        uint32_t stack = stack_of(FRAMES("/srv/rl.py(7): push"));
        for (int i = 0; i < 400; i++) {
            if (steps)
                give_back(block(100 * MIB, "/srv/model.py(1): forward", stack));
            queue[i] = block(10 * MIB, "/srv/rl.py(7): push", stack);
            if (i >= 300)
                give_back(queue[i - 300]);
        }
        assert_int_equal(judge()->leak_count, 0);
        end();
    }
}

/* ---- in place -------------------------------------------------------------------------------- */

/* `pairs` times a block of 64 MiB that could have had the memory of the one before it. */
static void chain(int pairs, const char *name, uint32_t stack)
{
    size_t before = block(64 * MIB, name, stack);
    for (int i = 0; i < pairs; i++) {
        size_t next = block(64 * MIB, name, stack);
        give_back(before);
        before = next;
    }
    give_back(before);
}

/* What autograd asks for in backward the program cannot change; what happens once is no habit, and
 * does not count in the sum either. */
static void test_in_place(void **state)
{
    (void)state;
    begin();
    chain(30, "/srv/train.py(30): main", stack_of(FRAMES(BACKWARD, "/srv/train.py(30): main")));
    const struct an_allocator_device *out = judge();
    assert_int_equal(out->in_place_count, 0);
    assert_int_equal(out->in_place_saved, 0);
    end();
    begin();
    chain(3, "/srv/train.py(31): main", stack_of(FRAMES("/srv/train.py(31): main")));
    out = judge();
    assert_int_equal(out->in_place_count, 0);
    assert_int_equal(out->in_place_saved, 0);
    end();
    begin();
    chain(4, "/srv/train.py(31): main", stack_of(FRAMES("/srv/train.py(31): main")));
    out = judge();
    assert_int_equal(out->in_place_count, 1);
    assert_int_equal(out->in_place[0].blocks, 4);
    assert_int_equal(out->in_place_saved, 64 * MIB);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_categories),   cmocka_unit_test(test_no_stack),
        cmocka_unit_test(test_mixed_holder), cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_leak_in_part), cmocka_unit_test(test_rises_once),
        cmocka_unit_test(test_full_queue),   cmocka_unit_test(test_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
