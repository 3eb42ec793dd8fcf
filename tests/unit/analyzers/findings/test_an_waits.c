/* SPDX-License-Identifier: Apache-2.0
 *
 * SYNC_ITEM: steps of 10 ms in which the host reads a value of the device. The times are made so
 * that what the device idles for it follows by hand.
 */
#include "tests/unit/an_gpu.h"

#define STEPS   20
#define STEP_US 10000

/* us from the begin of a step. Two kernels; the host is in the wait between `wait` and `done`. */
struct shape {
    int first_end, wait, done, second; /* second: begin of the second kernel */
    const char *name;                  /* of the wait, from the hook; NULL: as torch.profiler */
    bool twice;                        /* a second value is read before there is work again */
    const char *copy;                  /* "HtoD", "DtoH": what it waits for; NULL: no copy */
    int64_t stream;
};

static void torch_range(struct fixture *f, int64_t start, int64_t end, const char *name)
{
    gpu_row(f, f->thread, start, end, name, "torch", FX_NONE);
}

/* The wait, with the synchronise call in it. */
static void add_wait(struct fixture *f, const struct shape *shape, int64_t start, int64_t end,
                     int64_t id)
{
    if (shape->name) {
        torch_range(f, start, end, shape->name);
    } else {
        gpu_row(f, f->thread, start - 40, end + 40, "train.py(31): step", "python_function",
                FX_NONE);
        gpu_row(f, f->thread, start - 30, end + 30, "torch/_tensor.py(9): item", "python_function",
                FX_NONE);
        gpu_row(f, f->thread, start, end, shape->copy ? "aten::to" : "aten::item", "op", FX_NONE);
        gpu_row(f, f->thread, start + 1, end - 1, "aten::_local_scalar_dense", "op", FX_NONE);
    }
    if (shape->copy) {
        gpu_row(f, f->thread, start + 2, start + 4, "cudaMemcpyAsync", "runtime", 5000 + id);
        gpu_copy_ns(f, shape->stream, (end - 12) * 1000, (end - 11) * 1000, "Memcpy", shape->copy,
                    5000 + id);
    }
    gpu_row(f, f->thread, start + 5, end - 2, "cudaStreamSynchronize", "runtime", id);
}

static const struct an_result *make(struct fixture *f, struct shape *shape)
{
    fx_open(f);
    int64_t stream = shape->stream = gpu_stream(f, f->process, "gpu:0", 7);
    if (!shape->name)
        FX(store_run_set(f->s, "source", "kineto"));
    for (int i = 0; i < STEPS; i++) {
        int64_t at = 1000 + (int64_t)i * STEP_US, id = 10 * (i + 1);
        char name[40];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        if (shape->name)
            fx_step(f, f->process, f->thread, i, (at - 10) * 1000, (at + STEP_US - 10) * 1000, 64,
                    false);
        else
            gpu_row(f, f->thread, at - 10, at + STEP_US - 10, name, "annotation", FX_NONE);
        gpu_launch(f, stream, at - 5, at - 1, at, at + shape->first_end, "gemm", id);
        add_wait(f, shape, at + shape->wait, at + shape->done, id + 1);
        if (shape->twice)
            add_wait(f, shape, at + shape->done + 100, at + shape->done + 110, id + 2);
        gpu_launch(f, stream, at + shape->second - 5, at + shape->second - 1, at + shape->second,
                   at + STEP_US, "gemm", id + 3);
    }
    return fx_analyze(f);
}

static const struct an_finding *finding(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

/* The device ends its work at 6 ms, the host learns it then and needs 2 ms until it launches again:
 * 2 of 10 ms. What is read while the device already idles adds nothing. */
static void test_device_idles_after_a_value(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct shape shape = {6000, 1000, 6010, 8000, "item train.py:31", false, NULL, 0};
    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        shape.twice = twice;
        const struct an_finding *found = finding(make(f, &shape), "SYNC_ITEM");
        assert_non_null(found);
        says(found->claim, "most in .item() at train.py:31: in 20.0 % of the step");
        assert_near(found->gain.high.value, 25, 0.1);
        assert_true(found->gain.ceiling);
        says(found->action, ".item() at train.py:31");
        fx_close(f);
    }
}

/* The same without the hook: the operator and the innermost frame of the program say it. */
static void test_traces_of_the_profiler(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct shape shape = {6000, 1000, 6010, 8000, NULL, false, NULL, 0};
    (void)state;
    const struct an_finding *found = finding(make(f, &shape), "SYNC_ITEM");
    assert_non_null(found);
    says(found->claim, "aten::item at train.py(31): step");
    assert_near(found->gain.high.value, 25, 1.5); /* the first and last step are cut otherwise */
    fx_close(f);
    shape.copy = "DtoH";
    found = finding(make(f, &shape), "SYNC_ITEM");
    assert_non_null(found);
    says(found->claim, "aten::to at train.py(31): step");
    fx_close(f);
    shape.copy = "HtoD"; /* the batch goes to the device: no value is read */
    assert_null(finding(make(f, &shape), "SYNC_ITEM"));
    fx_close(f);
}

/* Where the host is slower than the device, the value is there already: only the call itself is
 * lost. A call of the program that waits for the device is no value. */
static void test_values_that_are_there(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct shape shape = {1000, 5000, 5050, 8000, "item train.py:31", false, NULL, 0};
    (void)state;
    assert_null(finding(make(f, &shape), "SYNC_ITEM"));
    fx_close(f);
    shape = (struct shape){6000, 1000, 6010, 8000, "augment train.py", false, NULL, 0};
    assert_null(finding(make(f, &shape), "SYNC_ITEM"));
    fx_close(f);
}

/* 30 of 100 ms in one range on the thread of the steps, without a device in the file. */
static const struct an_result *on_host(struct fixture *f, const char *domain, const char *name,
                                       int64_t detail)
{
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * 100000;
        fx_step(f, f->process, f->thread, i, at * 1000, (at + 100000) * 1000, 64, false);
        gpu_row_ns(f, f->thread, (at + 1000) * 1000, (at + 31000) * 1000, name, domain, detail,
                   FX_NONE);
        gpu_row_ns(f, f->thread, (at + 40000) * 1000, (at + 99000) * 1000, "Linear", domain,
                   fx_work(f, "matrix", "fp32", 1000, 1000, 1000), FX_NONE);
    }
    return fx_analyze(f);
}

/* Other accelerators: the wait is all that is known. It is no host time of Python as well. */
static void test_devices_that_are_not_recorded(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    const struct an_result *result = on_host(f, "torch", "print train.py:7", FX_NONE);
    const struct an_finding *found = finding(result, "SYNC_ITEM");
    assert_non_null(found);
    says(found->claim, "print() at train.py:7: 30.0 % of the step");
    assert_near(found->gain.high.value, 100 * (100 / 70.0 - 1), 0.2);
    assert_null(finding(result, "PYTHON_HOST"));
    fx_close(f);
}

/* On the CPU the threads of JAX compute while Python asks for the value; ranges of the program may
 * have any name. */
static void test_no_wait_on_the_cpu(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    assert_null(finding(on_host(f, "jax", "float train.py:7", fx_work(f, "other", "fp32", 0, 0, 0)),
                        "SYNC_ITEM"));
    fx_close(f);
    fx_open(f);
    assert_null(finding(on_host(f, "mine", "item train.py:7", FX_NONE), "SYNC_ITEM"));
    fx_close(f);
    fx_open(f);
    assert_null(finding(on_host(f, "torch", "item of the list", FX_NONE), "SYNC_ITEM"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device_idles_after_a_value),
                                       cmocka_unit_test(test_traces_of_the_profiler),
                                       cmocka_unit_test(test_values_that_are_there),
                                       cmocka_unit_test(test_devices_that_are_not_recorded),
                                       cmocka_unit_test(test_no_wait_on_the_cpu)};
    return cmocka_run_group_tests_name("an_waits", tests, NULL, NULL);
}
