/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders of torch traces: marked waits, stages from Python frames, what gaps tell where nothing is marked.
 */
#include "an_gpu.h"

#define SINGLE "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
#define MULTI  "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

/* Six steps of 100 us; in each the thread waits 30 us (wait NULL: does nothing), then launches a kernel of 40 us. */
static void steps(struct fixture *f, const char *wait, const char *category)
{
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, i * 100, (i + 1) * 100, name, "annotation", FX_NONE);
        if (wait)
            gpu_row(f, f->thread, i * 100 + 5, i * 100 + 35, wait, category, FX_NONE);
        gpu_row(f, f->thread, i * 100 + 35, i * 100 + 90, "aten::mm", "op", FX_NONE);
        gpu_launch(f, s, i * 100 + 40, i * 100 + 42, i * 100 + 45, i * 100 + 85, "volta_sgemm_128x64_nn", i + 1);
    }
}

static void test_marked(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, MULTI, "annotation");
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_null(l->reason);
    assert_string_equal(l->source, "enumerate(DataLoader)");
    assert_int_equal(l->batches, 6);
    assert_near(l->wait_ms_per_step.value, 0.030, 1e-12);
    assert_false(l->inferred_wait_ms_per_step.valid);
    assert_false(l->workers.valid);
    assert_non_null(strstr(l->workers.reason, "one process"));
    assert_false(l->workers_needed.valid);
    assert_int_equal(l->stage_count, 0);
    fx_close(f);
}

/* Without workers the wait is the cost of a batch: 30 us beside 70 us of other work need one worker. */
static void test_single(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, SINGLE, "op");
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_near(l->wait_ms_per_step.value, 0.030, 1e-12);
    assert_int_equal(l->workers.value, 0);
    assert_true(l->workers.valid);
    assert_int_equal(l->workers_needed.value, 1);
    assert_int_equal(l->stage_count, 1);
    assert_string_equal(l->stages[0].name, "fetch");
    assert_near(l->stages[0].ms_per_batch.value, 0.030, 1e-12);
    fx_close(f);
}

/* Batches of 270 us beside 100 us of work need three workers; without a count of cores that is not claimed. */
static void test_needed(void **state)
{
    (void)state;
    for (int cores = 0; cores <= 4; cores += 2) {
        struct fixture fixture, *f = &fixture;
        fx_open(f);
        int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
        for (int i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", i);
            gpu_row(f, f->thread, i * 370, (i + 1) * 370, name, "annotation", FX_NONE);
            gpu_row(f, f->thread, i * 370, i * 370 + 270, SINGLE, "op", FX_NONE);
            gpu_launch(f, s, i * 370 + 280, i * 370 + 282, i * 370 + 285, i * 370 + 360, "k", i + 1);
        }
        if (cores)
            FX(store_run_set_int(f->s, "cpu.usable", cores));
        const struct an_loader *l = &fx_analyze(f)->loader;
        assert_int_equal(l->workers_needed.valid, cores > 0);
        if (cores)
            assert_int_equal(l->workers_needed.value, cores == 2 ? 2 : 3);
        else
            assert_non_null(strstr(l->workers_needed.reason, "3 if that many cores"));
        fx_close(f);
    }
}

/* Frames: own time of each stage; a __getitem__ outside of the loader is not reading. */
static void test_frames(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        int64_t at = i * 100;
        gpu_row(f, f->thread, at + 5, at + 35, "torch/utils/data/dataloader.py(628): __next__", "python", FX_NONE);
        gpu_row(f, f->thread, at + 6, at + 34, "torch/utils/data/dataloader.py(670): __next__", "python", FX_NONE);
        gpu_row(f, f->thread, at + 7, at + 27, "torch/utils/data/_utils/fetch.py(47): fetch", "python", FX_NONE);
        gpu_row(f, f->thread, at + 8, at + 20, "data.py(7): __getitem__", "python", FX_NONE);
        gpu_row(f, f->thread, at + 9, at + 19, "image.py(9): __getitem__", "python", FX_NONE);
        gpu_row(f, f->thread, at + 20, at + 25, "torch/utils/data/_utils/collate.py(2): default_collate", "python", FX_NONE);
        gpu_row(f, f->thread, at + 21, at + 24, "torch/utils/data/_utils/collate.py(1): collate", "python", FX_NONE);
        gpu_row(f, f->thread, at + 28, at + 30, "torch/utils/data/_utils/pin_memory.py(1): pin_memory", "python", FX_NONE);
        gpu_row(f, f->thread, at + 91, at + 99, "model.py(3): __getitem__", "python", FX_NONE);
    }
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_string_equal(l->source, "Python frames");
    assert_int_equal(l->batches, 6);
    assert_near(l->wait_ms_per_step.value, 0.030, 1e-12);
    static const struct {
        const char *name;
        double ms;
    } stage[] = {{"fetch", 0.003}, {"read", 0.012}, {"collate", 0.005}, {"pin_memory", 0.002}};
    assert_int_equal(l->stage_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(l->stages[i].name, stage[i].name);
        assert_near(l->stages[i].ms_per_batch.value, stage[i].ms, 1e-12);
        assert_int_equal(l->stages[i].count, 6);
    }
    fx_close(f);
}

/* No marker: the longest time of a step in which neither a thread nor a device works, called inferred. */
static void test_gaps(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, NULL, NULL); /* nothing in 0..35 and 90..100 of each step */
    int64_t backward = fx_track(f, f->process, "thread", "backward", NULL);
    gpu_row(f, backward, 210, 212, "aten::mul", "op", FX_NONE); /* step 2: 212..235 is left */
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_null(l->reason);
    assert_string_equal(l->source, "gaps");
    assert_false(l->wait_ms_per_step.valid);
    assert_non_null(strstr(l->wait_ms_per_step.reason, "inferred"));
    assert_near(l->inferred_wait_ms_per_step.value, (3 * 35 + 23) / 4.0 / 1e3, 1e-12);
    fx_close(f);
}

/* tacho's own ranges come first; a CPU run without any says how to mark them. */
static void test_own(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    for (int i = 0; i < 5; i++) {
        fx_step(f, f->process, f->thread, i, i * 100000, (i + 1) * 100000, FX_NONE, false);
        fx_slice(f, f->thread, i * 100000, i * 100000 + 20000, "wait", fx_kind(f, "input_wait"));
    }
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_string_equal(l->source, "tacho.range");
    assert_near(l->wait_ms_per_step.value, 0.020, 1e-12);
    fx_close(f);
    fx_open(f);
    fx_slice(f, f->thread, 0, 10, "work", FX_NONE);
    l = &fx_analyze(f)->loader;
    assert_non_null(strstr(l->reason, "input_wait"));
    assert_null(l->source);
    assert_false(l->inferred_wait_ms_per_step.valid);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marked), cmocka_unit_test(test_single),
                                       cmocka_unit_test(test_needed), cmocka_unit_test(test_frames),
                                       cmocka_unit_test(test_gaps),   cmocka_unit_test(test_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
