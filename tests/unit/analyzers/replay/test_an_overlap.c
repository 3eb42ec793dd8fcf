/* SPDX-License-Identifier: Apache-2.0
 *
 * comm=overlap on two ranks of which each has a core: what a transfer can hide behind.
 */
#include "tests/unit/an_fixture.h"

#define MS    1000000ll
#define STEPS 40

/* ms of a step of each rank */
struct pass {
    int forward, backward, transfer;
    const char *collective;
};

static void record(struct fixture *f, const struct pass *pass)
{
    struct store_detail call = fx_empty(), work = fx_empty();
    call.schema = "tacho.comm";
    call.collective = pass->collective;
    call.bytes = 1000;
    call.communicator = 1;
    call.ranks = 2;
    work.schema = "tacho.work";
    work.kind = "matrix";
    work.pass = "backward";
    fx_open(f);
    int64_t forward = fx_work(f, "matrix", "fp32", 1, 1, 1), backward = fx_intern(f, &work),
            collective = fx_intern(f, &call), other = fx_process(f, 1, "train"),
            process[] = {f->process, other},
            thread[] = {f->thread, fx_track(f, other, "thread", "main", NULL)};
    for (int64_t i = 0; i < 2 * STEPS; i++) {
        int rank = (int)(i % 2);
        int64_t step = i / 2, start = step * (pass->forward + pass->backward + pass->transfer) * MS,
                gradients = start + pass->forward * MS, ready = gradients + pass->backward * MS,
                end = ready + pass->transfer * MS;
        fx_step(f, process[rank], thread[rank], step, start, end, 4, false);
        fx_slice(f, thread[rank], start, gradients, "matmul", forward);
        fx_slice(f, thread[rank], gradients, ready, "matmul.backward", backward);
        struct store_slice slice = {.track = thread[rank],
                                    .start = FX_BASE + ready,
                                    .dur = end - ready,
                                    .name = fx_string(f, pass->collective),
                                    .category = fx_string(f, "libtrain"),
                                    .detail = collective,
                                    .correlation = step};
        FX(store_slice_add(f->s, &slice));
    }
    FX(store_run_set(f->s, "cpu.usable", "4"));
}

static double edited_ms(const struct pass *pass, const char *edits)
{
    struct fixture fx, *f = &fx;
    struct an_options options = {.file = "run.tacho", .what_if = edits};
    record(f, pass);
    const struct an_result *result = fx_analyze_with(f, &options);
    assert_null(result->advice.reason);
    const struct an_advice *advice = &result->advice;
    const struct an_what_if *what_if = advice->edit_count > 1 ? &advice->together : advice->edits;
    assert_null(what_if->reason);
    double ms = what_if->step_ms.valid ? what_if->step_ms.value : what_if->step_low_ms.value;
    fx_close(f);
    return ms;
}

static double overlapped_ms(const struct pass *pass)
{
    return edited_ms(pass, "comm=overlap");
}

/* Gradients come with backward: of 10 ms of their reduction 2 find a place beside it. */
static void test_short_backward(void **state)
{
    (void)state;
    assert_near(overlapped_ms(&(struct pass){6, 2, 10, "all_reduce"}), 16, 0.1);
    assert_near(overlapped_ms(&(struct pass){6, 2, 10, "reduce_scatter"}), 16, 0.1);
}

static void test_long_backward(void **state)
{
    (void)state;
    assert_near(overlapped_ms(&(struct pass){2, 12, 4, "all_reduce"}), 14, 0.1);
}

/* Parameters may be gathered beside all of the step. */
static void test_gather(void **state)
{
    (void)state;
    assert_near(overlapped_ms(&(struct pass){6, 2, 10, "all_gather"}), 10, 0.1);
}

/* Where the run does not say what is backward, nothing is known against hiding all of it. */
static void test_no_backward(void **state)
{
    (void)state;
    assert_near(overlapped_ms(&(struct pass){8, 0, 6, "all_reduce"}), 8, 0.1);
}

/* Overlap is of what other edits leave, whatever their order: of 5 ms 2 hide behind backward, of 10
 * ms behind half of the compute 1 does. */
static void test_beside_other_edits(void **state)
{
    (void)state;
    const struct pass pass = {6, 2, 10, "all_reduce"};
    assert_near(edited_ms(&pass, "collective:all_reduce=0.5x,comm=overlap"), 8 + 3, 0.1);
    assert_near(edited_ms(&pass, "comm=overlap,collective:all_reduce=0.5x"), 8 + 3, 0.1);
    assert_near(edited_ms(&pass, "comm=overlap,compute=0.5x"), 4 + 9, 0.1);
    assert_near(edited_ms(&pass, "collective:all_reduce=0,comm=overlap"), 8, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_other_edits), cmocka_unit_test(test_short_backward),
        cmocka_unit_test(test_long_backward), cmocka_unit_test(test_gather),
        cmocka_unit_test(test_no_backward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
