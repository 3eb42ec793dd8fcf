/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on accelerators: where they begin and end, in traces with markers of several kinds and with
 * none; their budget by hand and against one cell a nanosecond; phases that the names of other
 * tools' traces tell.
 */
#include "tests/unit/an_gpu.h"

#define GEMM "ampere_sgemm_128x64_nn"
#define ADAM "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>()"
#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

struct run {
    struct fixture f[1];
    int64_t stream, correlation;
};

static void begin(struct run *r)
{
    memset(r, 0, sizeof *r);
    struct fixture *f = r->f;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    r->stream = gpu_stream(r->f, r->f->process, "gpu:0", 7);
}

/* A kernel [start, end) that the main thread launches at `launch` in 1 ns. */
static void kernel(struct run *r, int64_t launch, int64_t start, int64_t end, const char *name)
{
    gpu_host_ns(r->f, r->f->thread, launch, launch + 1, "cudaLaunchKernel", "runtime",
                ++r->correlation);
    gpu_kernel_ns(r->f, r->stream, start, end, name, r->correlation);
}

static void marker(struct run *r, int number, int64_t start, int64_t end)
{
    char name[40];
    snprintf(name, sizeof name, "ProfilerStep#%d", number);
    gpu_host_ns(r->f, r->f->thread, start, end, name, "annotation", FX_NONE);
}

/* Is that check listed as not made, with what would bring it? */
static bool leaves_open(const struct an_result *x, const char *check, const char *to_check)
{
    for (size_t i = 0; i < x->not_checked_count; i++)
        if (!strcmp(x->not_checked[i].check, check))
            return strstr(x->not_checked[i].to_check, to_check) != NULL;
    return false;
}

/* The host is done with a step of 100 ns before the device, which needs 150, has begun it. */
static void test_host_runs_ahead(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 6; i++) {
        marker(r, 10 + i, i * 100, i * 100 + 100);
        gpu_copy_ns(r->f, r->stream, 400 + i * 150, 410 + i * 150, "Memcpy HtoD", "HtoD",
                    1000 + i); /* not what a step begins with */
        gpu_host_ns(r->f, r->f->thread, i * 100 + 5, i * 100 + 6, "cudaMemcpyAsync", "runtime",
                    1000 + i);
        kernel(r, i * 100 + 10, 420 + i * 150, 500 + i * 150, GEMM);
        kernel(r, i * 100 + 50, 500 + i * 150, 550 + i * 150 - i, GEMM);
        gpu_row_ns(r->f, r->stream, 0, 2000, "ProfilerStep#10", "annotation", FX_NONE,
                   FX_NONE); /* of the device: no step */
    }
    const struct an_result *x = fx_analyze(r->f);
    const struct an_steps *s = &x->steps;
    assert_string_equal(s->source, "ProfilerStep");
    assert_int_equal(s->count, 6);
    assert_int_equal(s->counted, 4);
    assert_near(s->median_ms.value, 150e-6, 1e-15);
    assert_near(s->host_median_ms.value, 100e-6, 1e-15);
    assert_int_equal(s->excluded_count, 2);
    assert_int_equal(s->excluded[0].index, 10);
    assert_near(s->excluded[1].ms, 125e-6, 1e-15); /* 1170 to the end of its last op, 1295 */
    assert_null(s->note);
    assert_int_equal(x->budget.ns[AN_CLASS_COMPUTE].value, 4 * 130 - (1 + 2 + 3 + 4));
    assert_int_equal(x->budget.ns[AN_CLASS_COPY].value, 4 * 10);
    assert_string_equal(x->devices[0].device, "gpu:0");
    fx_close(r->f);
}

/* One thread drives two devices: each is a lane of its own, of the same host steps. */
static void test_two_devices(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    int64_t other = gpu_stream(r->f, r->f->process, "gpu:1", 7), first = r->stream;
    for (int i = 0; i < 5; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        r->stream = first;
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 110, GEMM);
        r->stream = other;
        kernel(r, i * 100 + 12, i * 100 + 30, i * 100 + 60, GEMM);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.count, 10);
    assert_int_equal(x->steps.counted, 6);
    assert_int_equal(x->device_count, 2);
    assert_near(x->devices[0].budget.pct[AN_CLASS_COMPUTE].value, 90, 1e-9);
    assert_near(x->devices[1].budget.pct[AN_CLASS_COMPUTE].value, 30, 1e-9);
    assert_true(x->devices[1].worst);
    assert_near(x->budget.pct[AN_CLASS_COMPUTE].value, 60, 1e-9);
    fx_close(r->f);
}

/* Few steps are all there is: they are counted, and the reader is told. A step that launched
 * nothing is listed, and so is a last one after which the device idles: it ends with its last
 * operation, and the figures of a step would be too good. */
static void test_few_steps(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 3; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 60, GEMM);
    }
    marker(r, 3, 300, 400);
    const struct an_steps *s = &fx_analyze(r->f)->steps;
    assert_int_equal(s->count, 3);
    assert_int_equal(s->counted, 2);
    assert_near(s->mean_ms.value, 100e-6, 1e-15);
    assert_int_equal(s->excluded_count, 2);
    assert_int_equal(s->excluded[0].index, 2);
    assert_string_equal(s->excluded[0].reason, "last");
    assert_int_equal(s->excluded[1].index, 3);
    assert_string_equal(s->excluded[1].reason, "no kernel");
    assert_non_null(strstr(s->note, "only 3 complete steps"));
    fx_close(r->f);
    begin(r);
    for (int i = 0; i < 3; i++) { /* the device is busy to the end: the last one is whole */
        marker(r, i, i * 100, i * 100 + 100);
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 118, GEMM);
    }
    s = &fx_analyze(r->f)->steps;
    assert_int_equal(s->counted, 3);
    assert_int_equal(s->excluded_count, 0);
    fx_close(r->f);
}

/* Three ProfilerSteps make one update: they are micro-steps. The first two of the capture belong to
 * an update before it. */
static void test_accumulation(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 19; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 60, GEMM);
        if (i % 3 == 1)
            gpu_host_ns(r->f, r->f->thread, i * 100 + 50, i * 100 + 60, "Optimizer.step#AdamW.step",
                        "annotation", FX_NONE);
    }
    const struct an_steps *s = &fx_analyze(r->f)->steps;
    assert_int_equal(s->count, 5); /* of 2 to 4, 5 to 7 ... 14 to 16; 17 and 18 are not whole */
    assert_int_equal(s->micro_steps, 3);
    assert_near(s->median_ms.value, 300e-6, 1e-15);
    assert_near(s->host_median_ms.value, 300e-6, 1e-15);
    fx_close(r->f);
}

/* An update in every step, and now and then one without: no accumulation. */
static void test_no_accumulation(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 8; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 60, GEMM);
        if (i != 3)
            gpu_host_ns(r->f, r->f->thread, i * 100 + 50, i * 100 + 60, "Optimizer.step#AdamW.step",
                        "annotation", FX_NONE);
    }
    const struct an_steps *s = &fx_analyze(r->f)->steps;
    assert_int_equal(s->count, 8);
    assert_int_equal(s->micro_steps, 0);
    fx_close(r->f);
}

/* Two optimizers, one update each a step: one step a pair. */
static void test_two_optimizers(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 7; i++) {
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 60, GEMM);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 70, i * 100 + 80, "Optimizer.step#Adagrad.step",
                    "annotation", FX_NONE);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 80, i * 100 + 90, "Optimizer.step#AdamW.step",
                    "annotation", FX_NONE);
    }
    const struct an_steps *s = &fx_analyze(r->f)->steps;
    assert_string_equal(s->source, "Optimizer.step");
    assert_int_equal(s->count, 6);
    assert_near(s->median_ms.value, 100e-6, 1e-15);
    fx_close(r->f);
}

/* No markers: a step is the time between two groups of optimizer kernels. */
static void test_optimizer_kernels(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 6; i++) {
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 50, GEMM);
        kernel(r, i * 100 + 20, i * 100 + 50, i * 100 + 60,
               "void split_embedding_backward_adagrad<AdamFunctor>()");
        kernel(r, i * 100 + 30, i * 100 + 60, i * 100 + 70, ADAM);
        kernel(r, i * 100 + 40, i * 100 + 70, i * 100 + 80,
               "void at::native::vectorized_elementwise_kernel<4>()");
        kernel(r, i * 100 + 50, i * 100 + 80, i * 100 + 90, ADAM);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_string_equal(x->steps.source, "optimizer kernels");
    assert_int_equal(x->steps.confidence, AN_MEDIUM);
    assert_false(leaves_open(x, "what a step is", ""));
    assert_int_equal(x->steps.count, 5);
    assert_int_equal(x->steps.counted, 3);
    assert_near(x->steps.median_ms.value, 100e-6, 1e-15);
    assert_near(x->steps.host_median_ms.value, 100e-6, 1e-15);
    assert_near(x->budget.pct[AN_CLASS_COMPUTE].value, 70, 1e-9);
    fx_close(r->f);
}

/* The same without a single launch in the file: the device alone decides. */
static void test_optimizer_kernels_alone(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 6; i++) {
        gpu_kernel_ns(r->f, r->stream, i * 100 + 20, i * 100 + 60, GEMM, FX_NONE);
        gpu_kernel_ns(r->f, r->stream, i * 100 + 60, i * 100 + 70, ADAM, FX_NONE);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.confidence, AN_LOW); /* nothing shows backward work */
    assert_true(leaves_open(x, "what a step is", "mark each update"));
    assert_int_equal(x->steps.counted, 3);
    assert_near(x->steps.median_ms.value, 100e-6, 1e-15);
    assert_near(x->budget.pct[AN_CLASS_COMPUTE].value, 50, 1e-9);
    assert_false(x->budget.pct[AN_CLASS_HOST].valid);
    assert_non_null(x->budget.pct[AN_CLASS_HOST].reason);
    assert_near(x->budget.pct[AN_CLASS_UNATTRIBUTED].value, 50, 1e-9);
    assert_non_null(strstr(x->verdict, "no ranges of the threads that drive it"));
    fx_close(r->f);
}

static void test_one_group(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    kernel(r, 10, 20, 60, GEMM);
    kernel(r, 20, 70, 90, GEMM);
    kernel(r, 30, 100, 110, ADAM);
    const struct an_steps *s = &fx_analyze(r->f)->steps;
    assert_string_equal(s->source, "the whole capture: it holds one group of optimizer kernels");
    assert_int_equal(s->counted, 1);
    assert_near(s->median_ms.value, 90e-6, 1e-15);
    assert_non_null(strstr(s->note, "only 1 complete step"));
    fx_close(r->f);
}

/* Neither markers nor an optimizer: no steps, and what to do about it; the device's times are there
 * all the same. */
static void test_no_markers(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    kernel(r, 10, 20, 60, GEMM);
    const struct an_result *x = fx_analyze(r->f);
    assert_null(x->steps.source);
    assert_non_null(strstr(x->steps.reason, "torch.profiler"));
    assert_non_null(x->budget.reason);
    assert_int_equal(x->gpus[0].compute_ns.value, 40);
    fx_close(r->f);
}

/* NVTX ranges of the program mark the steps; those of other threads do not disturb. */
static void test_nvtx_ranges(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 6; i++) {
        gpu_host_ns(r->f, r->f->thread, i * 100, i * 100 + 95, "train_step", "my domain", FX_NONE);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 5, i * 100 + 50, "step", "my domain",
                    FX_NONE); /* inside it */
        kernel(r, i * 100 + 10, i * 100 + 120, i * 100 + 160, GEMM);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_string_equal(x->steps.source, "nvtx:train_step");
    assert_int_equal(x->steps.counted, 4);
    assert_near(x->steps.median_ms.value, 100e-6, 1e-15);
    assert_near(x->steps.host_median_ms.value, 95e-6, 1e-15);
    fx_close(r->f);
}

/* A trace without an accelerator: the names of PyTorch's own operators tell what the step's thread
 * did. */
static void test_cpu_trace(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 6; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 5, i * 100 + 25,
                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation",
                    FX_NONE);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 30, i * 100 + 80, "aten::linear", "op", FX_NONE);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 40, i * 100 + 70, "aten::addmm", "op", FX_NONE);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 80, i * 100 + 90, "gloo:all_reduce", "annotation",
                    FX_NONE);
        gpu_host_ns(r->f, r->f->thread, i * 100 + 90, i * 100 + 95,
                    "Optimizer.zero_grad#SGD.zero_grad", "annotation", FX_NONE);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_string_equal(x->steps.source, "ProfilerStep");
    assert_int_equal(x->steps.counted, 4);
    assert_int_equal(x->gpu_count, 0);
    assert_int_equal(x->budget.ns[AN_CLASS_INPUT].value, 4 * 20);
    assert_int_equal(x->budget.ns[AN_CLASS_COMPUTE].value, 4 * 50);
    assert_int_equal(x->budget.ns[AN_CLASS_COMM].value, 4 * 10);
    assert_int_equal(x->budget.ns[AN_CLASS_HOST].value, 4 * 5);
    assert_int_equal(x->budget.ns[AN_CLASS_UNATTRIBUTED].value, 4 * 15);
    fx_close(r->f);
}

/* ---- budget --------------------------------------------------------------------------------------------------------------- */

/* A device that idles after its next kernel was issued, while the host waits for it. */
static void test_held(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 8; i++) {
        int64_t at = i * 1000000;
        marker(r, i, at, at + 1000000);
        kernel(r, at + 10000, at + 600000, at + 900000, GEMM);
        gpu_host_ns(r->f, r->f->thread, at + 50000, at + 950000, "cudaDeviceSynchronize", "runtime",
                    900 + i);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_true(x->budget.pct[AN_CLASS_UNATTRIBUTED].value > 50);
    assert_non_null(strstr(x->verdict, "is recorded as idle time of the device although its next "
                                       "work was issued"));
    fx_close(r->f);
}

/* Steps of 1000 ns on the device; the third by hand: every class once. */
static void test_budget(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    int64_t aside = gpu_stream(r->f, r->f->process, "gpu:0", 20);
    int64_t helper = fx_track(r->f, r->f->process, "thread", "pin memory", NULL);
    gpu_host_ns(r->f, helper, 0, 9000, "torch/utils/data/_utils/pin_memory.py(50): loop", "python",
                FX_NONE); /* drives no device */
    for (int i = 0; i < 5; i++) {
        int64_t at = i * 1000;
        marker(r, i, at, at + 1000);
        kernel(r, at + 1, at + 10, at + 210, GEMM);
        if (i != 2)
            continue;
        gpu_kernel_ns(r->f, aside, at + 110, at + 310, NCCL, 500);
        gpu_copy_ns(r->f, r->stream, at + 300, at + 360, "Memcpy DtoH", "DtoH", 501);
        gpu_row_ns(r->f, r->stream, at + 400, at + 450, "graph", "graph", FX_NONE, 502);
        gpu_host_ns(r->f, r->f->thread, at + 340, at + 560,
                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation",
                    FX_NONE);
        gpu_host_ns(r->f, r->f->thread, at + 400, at + 500, "aten::stack", "op", FX_NONE);
        gpu_host_ns(r->f, r->f->thread, at + 560, at + 700, "aten::add", "op", FX_NONE);
    }
    const struct an_result *x = fx_analyze(r->f);
    const struct an_budget *b = &x->budget;
    assert_int_equal(b->steps, 3);
    assert_int_equal(b->step_ns, 3000);
    assert_int_equal(b->ns[AN_CLASS_COMPUTE].value, 3 * 200);
    assert_int_equal(b->ns[AN_CLASS_COMM].value, 100);
    assert_int_equal(b->ns[AN_CLASS_COPY].value, 50);
    assert_int_equal(b->ns[AN_CLASS_INPUT].value, 40 + 110);
    assert_int_equal(b->ns[AN_CLASS_HOST].value,
                     140 + 3); /* 560 to 700, and the calls that launch */
    assert_int_equal(b->ns[AN_CLASS_UNATTRIBUTED].value, 3000 - 600 - 100 - 50 - 150 - 143);
    assert_false(b->pct[AN_CLASS_BUBBLE].valid);
    fx_close(r->f);
}

/* What the host spends in a phase is cut out of the device's steps: the idle device, and the
 * kernels that the phase launched.
 */
static void test_phases(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    int64_t at = 0;
    for (int i = 0; i < 6; i++) {
        int64_t start = at;
        kernel(r, at + 10, at + 50, at + 150, GEMM); /* runs on into the phase */
        at += 100;
        if (i == 2) {
            gpu_host_ns(r->f, r->f->thread, at, at + 500, "run_evaluation", "annotation", FX_NONE);
            kernel(r, at + 100, at + 120, at + 550, GEMM); /* runs on behind it */
            at += 500;
        }
        if (i == 3) {
            gpu_host_ns(r->f, r->f->thread, at, at + 200, "train.py(7): save_checkpoint",
                        "annotation", FX_NONE);
            gpu_host_ns(r->f, r->f->thread, at + 10, at + 150, "torch/serialization.py(944): save",
                        "python", FX_NONE);
            at += 200;
        }
        marker(r, i, start, at);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.counted, 4);
    assert_int_equal(x->phase_count, 2);
    assert_string_equal(x->phases[0].name, "evaluation");
    assert_near(x->phases[0].wall_ms, 500e-6, 1e-15);
    assert_string_equal(x->phases[1].name, "checkpoint");
    assert_near(x->phases[1].wall_ms, 140e-6, 1e-15);
    /* Steps begin at 50, 150, 250, 850, 1150, 1250. The evaluation, 300 to 800, is cut from 350,
     * where what was launched before it ends, to 850, where what it launched ends; the saving, 910
     * to 1050, from 950, the end of step 3's kernel. */
    assert_int_equal(x->budget.phase_ns, 500 + 100);
    assert_int_equal(x->budget.step_ns, 100 + 600 + 300 + 100 - 600);
    assert_int_equal(x->budget.ns[AN_CLASS_COMPUTE].value, 400);
    fx_close(r->f);
}

static void test_compilation(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 6; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 60, GEMM);
    }
    gpu_host_ns(r->f, r->f->thread, 230, 280, "_compile.compile_inner (dynamo_timed)", "op",
                FX_NONE);
    gpu_host_ns(r->f, r->f->thread, 240, 270, "compile_fx_inner (dynamo_timed)", "op", FX_NONE);
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.counted, 3);
    assert_int_equal(x->steps.excluded_count, 3);
    assert_string_equal(x->steps.excluded[1].reason, "compile");
    assert_int_equal(x->phase_count, 1);
    assert_int_equal(x->phases[0].count, 1);
    assert_near(x->phases[0].wall_ms, 50e-6, 1e-15);
    fx_close(r->f);
}

#define CELLS 2000
#define STEPS 6

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    return *seed ^= *seed << 5;
}

static void paint(uint8_t *cell, int64_t start, int64_t end, uint8_t bit)
{
    for (int64_t i = start; i < end && i < CELLS; i++)
        cell[i] |= bit;
}

/* Random ops and host rows; of each cell of a counted step the first class that matches. */
static void test_random_budgets(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 50; seed++) {
        struct run r[1];
        static uint8_t cell[CELLS];
        uint32_t s = seed * 2654435761u;
        int64_t length = CELLS / (STEPS + 1), want[AN_CLASS_COUNT] = {0}, first[STEPS];
        begin(r);
        memset(cell, 0, sizeof cell);
        int64_t comm = gpu_stream(r->f, r->f->process, "gpu:0", 20),
                copy = gpu_stream(r->f, r->f->process, "gpu:0", 21);
        gpu_kernel_ns(r->f, copy, 1, 1, GEMM, 9999); /* so that stream 21 is no communicator's */
        for (int i = 0; i < STEPS; i++) {
            marker(r, i, i * length, i * length + length);
            first[i] = i * length + 20 + next(&s) % 40;
            kernel(r, i * length + 3, first[i], first[i] + 15, GEMM);
            paint(cell, i * length + 3, i * length + 4, 16);
            paint(cell, first[i], first[i] + 15, 1);
        }
        for (int n = 40; n--;) {
            int64_t start = next(&s) % (CELLS - 100), end = start + next(&s) % 60;
            switch (next(&s) % 5) {
            case 0:
                gpu_kernel_ns(r->f, r->stream, start, end,
                              "void at::native::elementwise_kernel<1>()", FX_NONE);
                paint(cell, start, end, 1);
                break;
            case 1:
                gpu_kernel_ns(r->f, comm, start, end, NCCL, FX_NONE);
                paint(cell, start, end, 2);
                break;
            case 2:
                gpu_copy_ns(r->f, copy, start, end, "Memcpy HtoD", "HtoD", FX_NONE);
                paint(cell, start, end, 4);
                break;
            case 3:
                gpu_host_ns(r->f, r->f->thread, start, end,
                            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                            "annotation", FX_NONE);
                paint(cell, start, end, 8);
                break;
            default:
                gpu_host_ns(r->f, r->f->thread, start, end, "aten::mm", "op", FX_NONE);
                paint(cell, start, end, 16);
            }
        }
        for (int64_t i = first[1]; i < first[STEPS - 1]; i++)
            want[cell[i] & 1    ? AN_CLASS_COMPUTE
                 : cell[i] & 2  ? AN_CLASS_COMM
                 : cell[i] & 4  ? AN_CLASS_COPY
                 : cell[i] & 8  ? AN_CLASS_INPUT
                 : cell[i] & 16 ? AN_CLASS_HOST
                                : AN_CLASS_UNATTRIBUTED]++;
        const struct an_budget *b = &fx_analyze(r->f)->budget;
        assert_int_equal(b->step_ns, first[STEPS - 1] - first[1]);
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            if (b->ns[k].valid)
                assert_int_equal(b->ns[k].value, want[k]);
            else
                assert_int_equal(want[k], 0);
        fx_close(r->f);
    }
}

/* A foreach kernel that updates parameters is an optimizer only after backward work, which the
 * name of a kernel or of the range that launches it shows. Copies (FSDP) and casts never are. */
static void test_foreach_updates_follow_backward_work(void **state)
{
    static const char update[] =
        "void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2>>";
    static const char copy[] =
        "void multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<float, 2, 1, 1>>";
    static const struct {
        const char *foreach, *kernel, *range;
        bool steps;
    } cases[] = {
        {update, GEMM, "aten::mm", false}, /* inference: weights are merged, means are updated */
        {update, GEMM, "autograd::engine::evaluate_function: MmBackward0", true},
        {update, "layer_norm_backward_kernel", "aten::mm", true},
        {copy, "layer_norm_backward_kernel", "MmBackward0", false}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct run r[1];
        begin(r);
        for (int i = 0; i < 6; i++) {
            gpu_host_ns(r->f, r->f->thread, i * 100 + 5, i * 100 + 30, cases[k].range, "op",
                        FX_NONE);
            kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 30, GEMM);
            kernel(r, i * 100 + 20, i * 100 + 30, i * 100 + 60, cases[k].kernel);
            kernel(r, i * 100 + 70, i * 100 + 75, i * 100 + 80, cases[k].foreach);
        }
        const struct an_result *x = fx_analyze(r->f);
        assert_int_equal(x->steps.source != NULL, cases[k].steps);
        assert_int_equal(x->steps.count, cases[k].steps ? 5 : 0);
        if (cases[k].steps)
            assert_int_equal(x->steps.confidence, AN_MEDIUM);
        fx_close(r->f);
    }
}

/* Between backward passes the same kernels update other things (gradients, means): no steps. */
static void test_updates_without_backward_work_between(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 12; i++) {
        kernel(r, i * 100 + 20, i * 100 + 30, i * 100 + 60,
               i % 2 ? GEMM : "layer_norm_backward_kernel");
        kernel(r, i * 100 + 30, i * 100 + 60, i * 100 + 65, GEMM);
        kernel(r, i * 100 + 70, i * 100 + 75, i * 100 + 80,
               "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float>>");
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.count, 5);
    assert_near(x->steps.median_ms.value, 200e-6, 1e-15);
    fx_close(r->f);
}

/* The user names what marks a step: ranges first, else kernels; what the trace itself marks does
 * not count then. */
static void test_marker_by_hand(void **state)
{
    static const struct {
        const char *marker, *source;
        int64_t count;
    } cases[] = {{"^Model[.]generate", "--step-marker ^Model[.]generate (ranges)", 6},
                 {"argmax|topk", "--step-marker argmax|topk (kernels)", 5},
                 {"nothing", NULL, 0},
                 {"(", NULL, 0}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int by_key = 0; by_key < 2; by_key++) {
            struct run r[1];
            begin(r);
            struct fixture *f = r->f;
            if (by_key)
                FX(store_run_set(f->s, "steps.marker", cases[k].marker));
            for (int i = 0; i < 6; i++) {
                marker(r, i / 3, i * 100, i * 100 + 1);
                gpu_host_ns(r->f, r->f->thread, i * 100 + 5, i * 100 + 90, "Model.generate", "op",
                            FX_NONE);
                kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 60, GEMM);
                kernel(r, i * 100 + 70, i * 100 + 75, i * 100 + 80, "reduce_kernel<argmax>");
            }
            struct an_options options = {.file = "run.tacho",
                                         .step_marker = by_key ? NULL : cases[k].marker};
            const struct an_steps *steps = &fx_analyze_with(r->f, &options)->steps;
            assert_int_equal(steps->count, cases[k].count);
            if (cases[k].source) {
                assert_string_equal(steps->source, cases[k].source);
                assert_int_equal(steps->confidence, AN_HIGH);
            } else {
                assert_null(steps->source);
                assert_non_null(strstr(steps->reason, "--step-marker"));
            }
            fx_close(r->f);
        }
}

/* ROCm numbers its processors before its GPUs: the name that all have is theirs. */
static void test_name_that_all_devices_have(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct run r[1];
        begin(r);
        struct fixture *f = r->f;
        FX(store_run_set(f->s, "device.1.gpu:0.name", "AMD Instinct MI300X VF"));
        FX(store_run_set(f->s, "device.1.gpu:1.name", differ ? "A" : "AMD Instinct MI300X VF"));
        int64_t far = gpu_stream(r->f, r->f->process, "gpu:9", 7);
        gpu_kernel_ns(r->f, far, 10, 90, GEMM, 99);
        const struct an_result *x = fx_analyze(r->f);
        assert_string_equal(x->gpus[0].name, differ ? "" : "AMD Instinct MI300X VF");
        fx_close(r->f);
    }
}

/* Of some steps no kernel was recorded (another profiler had them, or counters): the step before
 * them ends with its own last op. */
static void test_steps_without_kernels(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 10; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        if (i < 4 || i > 6)
            kernel(r, i * 100 + 10, i * 100 + 20, i * 100 + 90, GEMM);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.counted, 5); /* without the first, the last and three of no kernel */
    assert_near(x->steps.max_ms.value, 100e-6, 1e-15);
    assert_near(x->steps.min_ms.value, 70e-6, 1e-15); /* that before them */
    assert_int_equal(x->budget.ns[AN_CLASS_COMPUTE].value, 5 * 70);
    fx_close(r->f);
}

/* The launches of nearly no kernel are in the file: a step of the device begins with the first
 * kernel that starts in that of the host. */
static void test_few_launches(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    kernel(r, -200, -190, -180, GEMM);
    for (int i = 0; i < 8; i++) {
        marker(r, i, i * 100, i * 100 + 100);
        for (int k = 0; k < 4; k++)
            gpu_kernel_ns(r->f, r->stream, i * 100 + 10 + k * 20, i * 100 + 25 + k * 20, GEMM,
                          FX_NONE);
    }
    const struct an_result *x = fx_analyze(r->f);
    assert_int_equal(x->steps.count, 8);
    assert_int_equal(x->steps.counted, 6);
    assert_near(x->steps.median_ms.value, 100e-6, 1e-15);
    assert_int_equal(x->steps.confidence, AN_LOW);
    assert_non_null(strstr(x->steps.note, "launches of nearly all kernels"));
    fx_close(r->f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_runs_ahead),
        cmocka_unit_test(test_foreach_updates_follow_backward_work),
        cmocka_unit_test(test_updates_without_backward_work_between),
        cmocka_unit_test(test_marker_by_hand),
        cmocka_unit_test(test_name_that_all_devices_have),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_few_steps),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_no_accumulation),
        cmocka_unit_test(test_two_optimizers),
        cmocka_unit_test(test_optimizer_kernels),
        cmocka_unit_test(test_optimizer_kernels_alone),
        cmocka_unit_test(test_one_group),
        cmocka_unit_test(test_no_markers),
        cmocka_unit_test(test_nvtx_ranges),
        cmocka_unit_test(test_cpu_trace),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_compilation),
        cmocka_unit_test(test_random_budgets),
        cmocka_unit_test(test_steps_without_kernels),
        cmocka_unit_test(test_few_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
