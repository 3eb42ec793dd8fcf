/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice in the terms of the program: one of Python is told of the module tacho, never of a header
 * of C; one of C is not told of PyTorch's classes; the reference engine of its own options.
 */
#include "tests/unit/an_gpu.h"

#define MS    1000000ll
#define STEPS 24

enum { PLAIN, ENGINE, PYTHON };

static const char *const programs[] = {"solver", "train", "python3.11"};

static void range(struct fixture *f, int64_t track, int64_t start, int64_t length,
                  const char *domain, const char *name, int64_t detail)
{
    struct store_slice slice = {.track = track,
                                .start = FX_BASE + start,
                                .dur = length,
                                .name = fx_string(f, name),
                                .category = fx_string(f, domain),
                                .detail = detail,
                                .correlation = FX_NONE};
    FX(store_slice_add(f->s, &slice));
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

static void silent(const char *text, const char *part)
{
    if (text && strstr(text, part))
        fail_msg("\"%s\" says \"%s\"", text, part);
}

static const struct an_finding *finding(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

/* Nothing that a reader of the report may see says it. */
static void silent_everywhere(const struct an_result *result, const char *part)
{
    const char *const texts[] = {result->verdict,
                                 result->steps.reason,
                                 result->absence.reason,
                                 result->launches.reason,
                                 result->attribution[0].reason,
                                 result->hardware.reason,
                                 result->memory.reason,
                                 result->roofline.reason,
                                 result->utilization.mfu.reason,
                                 result->budget.pct[AN_CLASS_COMPUTE].reason};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        silent(texts[i], part);
    for (size_t i = 0; i < result->not_checked_count; i++) {
        silent(result->not_checked[i].reason, part);
        silent(result->not_checked[i].to_check, part);
    }
    for (size_t i = 0; i < result->finding_count; i++)
        silent(result->findings[i].action, part);
}

/* Steps of 100 ms of which ranges without a role take 90; without steps only the ranges. */
static const struct an_result *of_ranges(struct fixture *f, int program, bool steps)
{
    fx_open(f);
    int64_t process = fx_process(f, FX_NONE, programs[program]),
            track = fx_track(f, process, "thread", "steps", NULL);
    for (int i = 0; i < STEPS; i++) {
        if (steps)
            fx_step(f, process, track, i, i * 100 * MS, (i + 1) * 100 * MS, FX_NONE, false);
        range(f, track, (i * 100 + 1) * MS, 90 * MS, "own", i % 3 ? "update" : "load", FX_NONE);
    }
    return fx_analyze(f);
}

static void test_marks(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result = of_ranges(f, PYTHON, true);
    assert_string_equal(result->verdict_class, "STEPS ONLY");
    says(result->verdict, "range() of the module tacho");
    for (size_t i = 0; i < result->not_checked_count; i++) /* there are 22 */
        silent(result->not_checked[i].to_check, "20 steps");
    silent_everywhere(result, "tacho_nvtx");
    fx_close(f);
    result = of_ranges(f, PYTHON, false);
    assert_string_equal(result->verdict_class, "NO STEPS");
    says(result->verdict, "Call step() of the module tacho after each update.");
    silent_everywhere(result, "tacho_nvtx");
    fx_close(f);
    result = of_ranges(f, PLAIN, true);
    says(result->verdict, "include/tacho_nvtx.h");
    silent_everywhere(result, "module tacho");
    fx_close(f);
    result = of_ranges(f, PLAIN, false);
    says(result->verdict, "tacho.step of include/tacho_nvtx.h.");
    silent_everywhere(result, "module tacho");
    fx_close(f);
}

/* A trace of torch.profiler: its user has no header of C. */
static void test_operators_of_a_trace(void **state)
{
    struct fixture fixture, *f = &fixture;
    size_t told = 0;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
    for (int i = 0; i < STEPS; i++) {
        fx_step(f, f->process, track, i, i * 100 * MS, (i + 1) * 100 * MS, FX_NONE, false);
        range(f, track, (i * 100 + 1) * MS, 90 * MS, "cpu_op", "aten::linear",
              fx_kind(f, "compute"));
    }
    const struct an_result *result = fx_analyze(f);
    for (size_t i = 0; i < result->not_checked_count; i++) {
        silent(result->not_checked[i].to_check, "give the operators their FLOPs");
        told += strstr(result->not_checked[i].to_check, "--flops-per-step") != NULL;
    }
    assert_true(told > 0);
    fx_close(f);
}

/* The thread of the steps waits 40 of 100 ms for batches; `worker`: of one worker that makes them
 * all the time, else nothing is known of who makes them. */
static const struct an_finding *stall(struct fixture *f, int program, bool worker)
{
    const char *domain = program == ENGINE ? "libtrain" : "own";
    fx_open(f);
    int64_t process = fx_process(f, FX_NONE, programs[program]),
            track = fx_track(f, process, "thread", "steps", NULL),
            loader = fx_track(f, process, "thread", "loader-0", NULL),
            work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
    for (int i = 0; i < STEPS; i++) {
        int64_t at = i * 100 * MS;
        fx_step(f, process, track, i, at, at + 100 * MS, 64, false);
        range(f, track, at + MS, 40 * MS, domain, "wait", fx_kind(f, "input_wait"));
        range(f, track, at + 42 * MS, 57 * MS, domain, "compute", work);
        if (worker)
            range(f, loader, at, 99 * MS, domain, "read", fx_kind(f, "read"));
    }
    const struct an_result *result = fx_analyze(f);
    silent_everywhere(result, "DataLoader");
    silent_everywhere(result, "num_workers");
    return finding(result, "INPUT_STALL");
}

static void test_loader(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int worker = 0; worker < 2; worker++) {
        const struct an_finding *found = stall(f, PLAIN, worker);
        assert_non_null(found);
        says(found->action, "loader workers");
        fx_close(f);
        found = stall(f, ENGINE, worker);
        assert_non_null(found);
        says(found->action, "--workers ");
        fx_close(f);
    }
}

/* Of each step of 10 ms the device waits 3 ms for a copy from pageable memory. Recorded by tacho:
 * the file names no tool it comes from. */
static const struct an_finding *copies(struct fixture *f, int program)
{
    fx_open(f);
    int64_t process = fx_process(f, FX_NONE, programs[program]),
            track = fx_track(f, process, "thread", "steps", NULL),
            stream = gpu_stream(f, process, "gpu:0", 7), correlation = 0;
    for (int i = 0; i < STEPS; i++) {
        int64_t at = i * 10 * MS;
        fx_step(f, process, track, i, at, at + 10 * MS, 64, false);
        if (program == ENGINE)
            range(f, track, at + 1, 1000, "libtrain", "forward", FX_NONE);
        gpu_host_ns(f, track, at + 100, at + 200, "cudaMemcpyAsync", "runtime", ++correlation);
        gpu_row_ns(f, stream, at + 1000, at + 3 * MS, "Memcpy HtoD (Pageable -> Device)", "memcpy",
                   gpu_copy(f, "HtoD", "pageable", 1 << 20), correlation);
        gpu_host_ns(f, track, at + 300, at + 400, "cudaLaunchKernel", "runtime", ++correlation);
        gpu_kernel_ns(f, stream, at + 3 * MS + 100, at + 10 * MS - 100, "gemm", correlation);
    }
    const struct an_result *result = fx_analyze(f);
    silent_everywhere(result, "DataLoader");
    silent_everywhere(result, "torch.compile");
    return finding(result, "PAGEABLE_COPY");
}

static void test_copies(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_finding *found = copies(f, PLAIN);
    assert_non_null(found);
    says(found->action, "cudaMemcpyAsync");
    fx_close(f);
    found = copies(f, ENGINE);
    assert_non_null(found);
    says(found->action, "--pin");
    fx_close(f);
}

/* An imported file: steps of 10 ms of which short kernels without launches take 5. `python`: the
 * function of a second thread in the rest of a step, and beside it the runtime works; NULL: there
 * is no such thread. */
static const struct an_result *imported(struct fixture *f, const char *source, const char *device,
                                        const char *name, const char *python)
{
    fx_open(f);
    FX(store_run_set(f->s, "source", source));
    int64_t stream = gpu_stream(f, f->process, device, 7),
            caller = fx_track(f, f->process, "thread", "python", NULL),
            runtime = fx_track(f, f->process, "thread", "tf_pjrt_thread_pool", NULL);
    for (int64_t i = 0; i < STEPS && python; i++) {
        range(f, caller, (i * 10 + 5) * MS, 5 * MS, "python", python, FX_NONE);
        range(f, runtime, (i * 10 + 5) * MS, 4 * MS, "xla", "BufferSequencingEvent::Execute",
              FX_NONE);
    }
    for (int64_t i = 0; i < STEPS; i++) {
        fx_step(f, f->process, f->thread, i, i * 10 * MS, (i + 1) * 10 * MS, FX_NONE, false);
        range(f, f->thread, i * 10 * MS, 1000, "op", name, FX_NONE);
        for (int64_t k = 0; k < 1000; k++)
            gpu_row_ns(f, stream, i * 10 * MS + k * 5000, i * 10 * MS + k * 5000 + 4900,
                       "scale_kernel", "kernel", FX_NONE, FX_NONE);
    }
    return fx_analyze(f);
}

/* Each recorder is advised in its own words, and never in those of another one. */
static void test_recorders(void **state)
{
    static const struct {
        const char *source, *device, *name, *small, *calls, *not_said[6];
    } recorders[] = {{"xplane",
                      "gpu:0",
                      "PjitFunction(f)",
                      "jax.jit",
                      "host_tracer_level 2",
                      {"ProfilerActivity.CPU", "nsys", "NVTX", "torch"}},
                     {"xplane",
                      "tpu:0",
                      "PjitFunction(f)",
                      "jax.jit",
                      "profile of a TPU has none",
                      {"ProfilerActivity.CPU", "nsys", "NVTX", "NVML", "torch"}},
                     {"xplane",
                      "gpu:0",
                      "ExecutorState::Process",
                      "steps_per_execution",
                      "tf.profiler.experimental",
                      {"ProfilerActivity.CPU", "nsys", "NVTX", "jax", "donate_argnums", "torch"}},
                     {"ascend",
                      "gpu:0",
                      "hcom_allReduce_",
                      "torchair",
                      "aclrt",
                      {"ProfilerActivity.CPU", "nsys", "NVTX", "NVML", "CUDA", "torch.profiler"}},
                     {"ascend",
                      "gpu:0",
                      "Default/MatMul-op1",
                      "mindspore.jit",
                      "aclrt",
                      {"ProfilerActivity.CPU", "nsys", "NVTX", "NVML", "CUDA", "torch"}},
                     {"rocprofv3",
                      "gpu:0",
                      "hipMalloc",
                      "HIP graph",
                      "--hip-trace",
                      {"ProfilerActivity.CPU", "nsys", "NVTX", "NVML", "CUDA", "torch"}}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t i = 0; i < sizeof recorders / sizeof *recorders; i++) {
        const struct an_result *result =
            imported(f, recorders[i].source, recorders[i].device, recorders[i].name, NULL);
        const struct an_finding *found = finding(result, "SMALL_KERNELS");
        assert_non_null(found);
        says(found->action, recorders[i].small);
        says(result->launches.reason, recorders[i].calls);
        for (size_t k = 0; k < 6 && recorders[i].not_said[k]; k++)
            silent_everywhere(result, recorders[i].not_said[k]);
        fx_close(f);
    }
}

/* What is recorded is not asked for: a wait in Python is named, and where the functions of Python
 * are there, only marks are missing. */
static void test_idle_wait(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_finding *found =
        finding(imported(f, "xplane", "gpu:0", "PjitFunction(f)", NULL), "UNATTRIBUTED");
    assert_non_null(found);
    says(found->claim, "no range on the host says why");
    says(found->action, "Python tracer");
    fx_close(f);
    found = finding(imported(f, "xplane", "gpu:0", "PjitFunction(f)", "loader.py:3 next_batch"),
                    "UNATTRIBUTED");
    assert_non_null(found);
    says(found->action, "TraceAnnotation");
    silent(found->action, "Python tracer");
    fx_close(f);
    const struct an_result *result =
        imported(f, "xplane", "gpu:0", "PjitFunction(f)", "api.py:3154 block_until_ready");
    says(result->verdict, "most of it while the program waits in api.py:3154 block_until_ready");
    found = finding(result, "UNATTRIBUTED");
    assert_non_null(found);
    says(found->claim, "idle time the program waits in api.py:3154 block_until_ready");
    says(found->action, "BufferSequencingEvent::Execute");
    silent(found->action, "tracer");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),     cmocka_unit_test(test_operators_of_a_trace),
        cmocka_unit_test(test_loader),    cmocka_unit_test(test_copies),
        cmocka_unit_test(test_recorders), cmocka_unit_test(test_idle_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
