/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that put work on a device of which the recorder wrote nothing, and captures that lack rows:
 * neither is healthy, and the advice is in the words of the recorder.
 */
#include "tests/unit/an_gpu.h"

/* Steps of 100 us; in each an operator of the host, and a call of that name inside of it. */
static void steps(struct fixture *f, const char *call)
{
    for (int64_t i = 0; i < 24; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)i);
        gpu_row(f, f->thread, i * 100, i * 100 + 100, name, "annotation", FX_NONE);
        gpu_row(f, f->thread, i * 100 + 1, i * 100 + 99, "aten::mul", "op", FX_NONE);
        gpu_row(f, f->thread, i * 100 + 10, i * 100 + 12, call, "runtime", i + 1);
    }
}

static const struct an_finding *finding(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

static bool is_unchecked(const struct an_result *result, const char *check)
{
    for (size_t i = 0; i < result->not_checked_count; i++)
        if (!strcmp(result->not_checked[i].check, check))
            return true;
    return false;
}

static void work_without_a_device(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    steps(f, "cudaLaunchKernel");
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->verdict_class, "DEVICE NOT RECORDED");
    assert_non_null(strstr(r->verdict, "24 calls put work on a device"));
    assert_null(strstr(r->verdict, "computes"));
    assert_false(r->healthy);
    assert_non_null(r->budget.reason);
    assert_true(is_unchecked(r, "where the time of a step goes"));
    assert_true(is_unchecked(r, "copies"));
    assert_true(is_unchecked(r, "small kernels"));
    assert_false(is_unchecked(r, "time of the host"));
    const struct an_finding *found = finding(r, "DEVICE_NOT_RECORDED");
    assert_non_null(found);
    assert_non_null(strstr(found->action, "ERR_NVGPUCTRPERM"));
    assert_non_null(strstr(found->action, "driver"));
    fx_close(f);
}

/* Calls that put nothing on a device: the steps compute on the host. */
static void calls_that_launch_nothing(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    steps(f, "cudaGetDeviceCount");
    const struct an_result *r = fx_analyze(f);
    assert_null(finding(r, "DEVICE_NOT_RECORDED"));
    assert_null(r->budget.reason);
    fx_close(f);
}

/* Steps with such a call, of a recorder that says that it lost events of CUDA. */
static const struct an_result *lost_events(struct fixture *f, const char *call)
{
    fx_open(f);
    FX(store_run_set(f->s, "source", "nsight"));
    struct store_loss loss = {.source = "a.sqlite",
                              .reason =
                                  "Nsight Systems: Not all CUDA events might have been collected.",
                              .count = FX_NONE,
                              .t0 = FX_NONE,
                              .t1 = FX_NONE};
    FX(store_loss_add(f->s, &loss));
    steps(f, call);
    return fx_analyze(f);
}

static void lost_by_the_recorder(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    const struct an_result *r = lost_events(f, "cudaMalloc");
    const struct an_finding *found = finding(r, "DEVICE_NOT_RECORDED");
    assert_string_equal(r->verdict_class, "DEVICE NOT RECORDED");
    assert_non_null(found);
    assert_non_null(strstr(found->action, "nsys"));
    assert_null(strstr(found->action, "torch"));
    fx_close(f);
}

/* A program of the CPU asks for devices, as PyTorch does; each other call uses one. */
static void lost_of_a_device_in_use(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        bool uses;
    } calls[] = {{"cudaGetDevice_v3020", false},  {"cudaGetDeviceCount_v3020", false},
                 {"cudaEventQuery", false},       {"cudaFree", true},
                 {"cudaDeviceSynchronize", true}, {"cudaEventRecord", true},
                 {"cudaStreamWaitEvent", true},   {"cudaMemcpyAsync", true}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct fixture fixture, *f = &fixture;
        const struct an_result *r = lost_events(f, calls[i].call);
        if (!finding(r, "DEVICE_NOT_RECORDED") == calls[i].uses ||
            !strstr(r->verdict, "its work was not recorded") == calls[i].uses)
            fail_msg("%s: %s", calls[i].call, r->verdict);
        fx_close(f);
    }
}

/* A program that fails before its first step: why it failed is what the user must know. */
static void a_program_that_failed(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    struct store_process process = {.id = f->process,
                                    .rank = FX_NONE,
                                    .pid = 100,
                                    .parent_pid = 1,
                                    .start = FX_BASE,
                                    .end = FX_NONE,
                                    .exit_status = 1,
                                    .program = "train",
                                    .ended = "exit"};
    FX(store_process_update(f->s, &process));
    gpu_row(f, f->thread, 0, 2000000, "cudaLaunchKernel", "runtime", 1);
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->verdict_class, "NO STEPS");
    assert_non_null(strstr(r->verdict, "the program failed with exit status 1 after 2 s"));
    assert_false(r->healthy);
    fx_close(f);
}

/* While a run is recorded, the records of its device may still be in the buffers of CUPTI. */
static void a_run_that_goes_on(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    struct an_options o = {.file = "run.tacho", .live = true};
    fx_open(f);
    steps(f, "cudaLaunchKernel");
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_string_equal(r->verdict_class, "STEPS ONLY");
    assert_non_null(strstr(r->verdict, "has not arrived in the recording yet"));
    assert_non_null(strstr(r->verdict, "A step lasts"));
    assert_null(finding(r, "DEVICE_NOT_RECORDED"));
    assert_false(r->healthy);
    assert_non_null(r->budget.reason); /* no shares of the host are made up */
    o.live = false;
    r = fx_analyze_with(f, &o);
    assert_string_equal(r->verdict_class, "DEVICE NOT RECORDED");
    fx_close(f);
}

/* A capture whose kernels have no launches, and which begins with code that is loaded. */
static const struct an_result *capture(struct fixture *f, const char *format)
{
    fx_open(f);
    FX(store_run_set(f->s, "source", format));
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_row(f, f->thread, 0, 9000, "cuModuleLoadData", "driver", FX_NONE);
    gpu_row(f, f->thread, 9100, 9110, "cudaLaunchKernel", "runtime", 1);
    for (int64_t i = 0; i < 30; i++)
        gpu_row(f, stream, 9200 + 20 * i, 9210 + 20 * i, "solve", "kernel", i + 1);
    return fx_analyze(f);
}

static void words_of_the_recorder(void **state)
{
    (void)state;
    static const char *const formats[][3] = {
        {"nsight", "nsys", "nsys profile --delay"}, {"rocprofv3", "rocprofv3", "rocprofv3"},
        {"unitrace", "unitrace", "unitrace"},       {"ascend", "torch_npu", "torch_npu"},
        {"perfetto", "recorder", "recorder"},       {"kineto", "torch.profiler", "torch.profiler"}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct fixture fixture, *f = &fixture;
        const struct an_result *r = capture(f, formats[i][0]);
        const struct an_finding *lost = finding(r, "INCOMPLETE_CAPTURE"),
                                *first = finding(r, "FIRST_ITERATION");
        assert_non_null(lost);
        assert_non_null(first);
        if (!strstr(lost->action, formats[i][1]) || !strstr(first->action, formats[i][2]))
            fail_msg("%s: %s; %s", formats[i][0], lost->action, first->action);
        if (strcmp(formats[i][0], "kineto") != 0) {
            assert_null(strstr(lost->action, "torch.profiler"));
            assert_null(strstr(first->action, "torch.profiler"));
        }
        fx_close(f);
    }
}

/* Moves of managed memory have no launch and lack none; pinned copies without one do. */
static const struct an_result *moves(struct fixture *f, const char *memory)
{
    fx_open(f);
    FX(store_run_set(f->s, "source", "nsight"));
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7),
            uvm = gpu_stream(f, f->process, "gpu:0", 8);
    for (int64_t i = 0; i < 30; i++) {
        gpu_launch(f, stream, i * 100, i * 100 + 2, i * 100 + 4, i * 100 + 40, "solve", i + 1);
        gpu_row_ns(f, uvm, i * 100000 + 50000, i * 100000 + 90000, "Memcpy DtoH", "memcpy",
                   gpu_copy(f, "DtoH", memory, 4096), FX_NONE);
    }
    return fx_analyze(f);
}

static void managed_memory(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    const struct an_result *r = moves(f, "managed");
    assert_int_equal(r->quality.ops_without_launch.value, 0);
    assert_null(finding(r, "INCOMPLETE_CAPTURE"));
    const struct an_finding *found = finding(r, "EXPOSED_COPY");
    assert_non_null(found);
    assert_non_null(strstr(found->action, "cudaMemPrefetchAsync"));
    assert_null(strstr(found->action, "non_blocking"));
    fx_close(f);
    r = moves(f, "pinned");
    assert_int_equal(r->quality.ops_without_launch.value, 30);
    assert_non_null(finding(r, "INCOMPLETE_CAPTURE"));
    found = finding(r, "EXPOSED_COPY"); /* of a program that has no PyTorch */
    assert_non_null(found);
    assert_null(strstr(found->action, "non_blocking"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_without_a_device), cmocka_unit_test(calls_that_launch_nothing),
        cmocka_unit_test(lost_by_the_recorder),  cmocka_unit_test(lost_of_a_device_in_use),
        cmocka_unit_test(a_program_that_failed), cmocka_unit_test(a_run_that_goes_on),
        cmocka_unit_test(words_of_the_recorder), cmocka_unit_test(managed_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
