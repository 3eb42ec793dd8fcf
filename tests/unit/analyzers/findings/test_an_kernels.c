/* SPDX-License-Identifier: Apache-2.0
 *
 * The second level of the verdict: kernels whose FLOPs, bytes and times put them at a known place
 * under the roofs of an A100 (312 TFLOP/s bf16, 19.5 TFLOP/s fp32, 2039 GB/s, 108 SMs), and the
 * findings that follow from their place. Also what only looks like work of the host, and the start
 * of a program.
 */
#include "tests/unit/an_gpu.h"

#define STEPS     12
#define STEP_US   10000
#define A100      "NVIDIA A100-SXM4-80GB"
#define BANDWIDTH 2.039e12
#define PEAK      312e12

/* One kernel of a step and the operator that launches it. */
struct work {
    const char *op, *kernel; /* op NULL: launched by no operator */
    int us;
    double memory, compute; /* shares of the roofs that it reaches; both 0: no cost is recorded */
    const char *kind;       /* of tacho.work: "matrix", "elementwise" */
    const char *grid;
    const char *shapes; /* of torch.op in place of tacho.work */
};

struct made {
    struct fixture *f;
    int64_t stream, correlation, at; /* at: us, where the next kernel starts */
};

static int64_t cost_detail(struct fixture *f, const struct work *work)
{
    struct store_detail detail = fx_empty();
    if (work->shapes) {
        detail.schema = "torch.op";
        detail.payload = work->shapes;
        return fx_intern(f, &detail);
    }
    if (!(work->memory > 0) && !(work->compute > 0))
        return FX_NONE;
    detail.schema = "tacho.work";
    detail.kind = work->kind;
    detail.dtype = !strcmp(work->kind, "matrix") ? "bf16" : "fp32";
    detail.pass = "forward";
    detail.flops = detail.model_flops = (int64_t)(work->compute * PEAK * work->us * 1e-6);
    detail.bytes_read = (int64_t)(work->memory * BANDWIDTH * work->us * 1e-6);
    detail.bytes_written = 0;
    return fx_intern(f, &detail);
}

static int64_t grid_detail(struct fixture *f, const char *grid)
{
    struct store_detail detail = fx_empty();
    detail.schema = "gpu.kernel";
    detail.grid = grid;
    detail.block = "128,1,1";
    return grid ? fx_intern(f, &detail) : FX_NONE;
}

/* The launch comes 1 ms before the kernel, so that the device never waits for the host. */
static void kernel(struct made *m, const struct work *work)
{
    int64_t id = ++m->correlation, call = m->at - 1000;
    if (work->op)
        gpu_row_ns(m->f, m->f->thread, call * 1000, call * 1000 + 900, work->op, "op",
                   cost_detail(m->f, work), FX_NONE);
    gpu_row_ns(m->f, m->f->thread, call * 1000 + 100, call * 1000 + 800, "cudaLaunchKernel",
               "runtime", FX_NONE, id);
    gpu_row_ns(m->f, m->stream, m->at * 1000, (m->at + work->us) * 1000, work->kernel, "kernel",
               grid_detail(m->f, work->grid), id);
    m->at += work->us;
}

static const char *source = "kineto"; /* of the trace */

static void open_device(struct fixture *f, struct made *m)
{
    char key[64];
    fx_open(f);
    FX(store_run_set(f->s, "source", source));
    *m = (struct made){.f = f, .stream = gpu_stream(f, f->process, "gpu:0", 7), .at = 5000};
    snprintf(key, sizeof key, "device.%lld.gpu:0.name", (long long)f->process);
    FX(store_run_set(f->s, key, A100));
    snprintf(key, sizeof key, "device.%lld.gpu:0.sms", (long long)f->process);
    FX(store_run_set(f->s, key, "108"));
}

static void mark_step(struct made *m, int index, int64_t start, int64_t end)
{
    char name[40];
    snprintf(name, sizeof name, "ProfilerStep#%d", index);
    gpu_row(m->f, m->f->thread, start, end, name, "annotation", FX_NONE);
}

/* Steps that repeat these kernels until 10 ms are full. */
static const struct an_result *make(struct fixture *f, const struct work *work, size_t count)
{
    struct made m;
    open_device(f, &m);
    for (int i = 0; i < STEPS; i++) {
        int64_t begin = m.at, end = begin + STEP_US;
        mark_step(&m, i, begin - 1000, end - 1000);
        for (size_t k = 0; m.at + work[k % count].us <= end; k++)
            kernel(&m, &work[k % count]);
        m.at = end;
    }
    return fx_analyze(f);
}

#define MAKE(f, ...) \
    make(f, (const struct work[]){__VA_ARGS__}, \
         sizeof((const struct work[]){__VA_ARGS__}) / sizeof(struct work))

static const struct an_finding *finding(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

static void has_words(const char *text, const char *words)
{
    if (!text || !strstr(text, words))
        fail_msg("\"%s\" is not in: %s", words, text ? text : "(nothing)");
}

/* The bounds sum to the whole, the class is the one with most time, and the sentence says its
 * share. */
static void check_bounds(const struct an_result *r, const char *class, double pct)
{
    const struct an_kernel_bounds *b = &r->bounds;
    char share[64];
    int64_t sum = 0;
    assert_null(b->reason);
    for (int bound = 0; bound < AN_BOUND_COUNT; bound++)
        sum += b->ns[bound];
    assert_int_equal(sum, b->total_ns);
    assert_string_equal(b->class, class);
    assert_near(b->class_pct.value, pct, 0.2);
    snprintf(share, sizeof share, "Kernels %s: %.1f %% of their time is %s", class,
             b->class_pct.value, strcmp(class, "MIXED") ? "in kernels" : "under the most frequent");
    has_words(b->sentence, share);
}

static void test_bound_by_memory(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {"scale", "scale_kernel", 100, 0.8, 0.001, "elementwise", NULL, NULL},
             {"mm", "gemm_kernel", 25, 0.2, 0.7, "matrix", NULL, NULL});
    check_bounds(r, "MEMORY-BOUND", 80);
    assert_string_equal(r->verdict_class, "DEVICE-BUSY");
    has_words(r->verdict, "DEVICE-BUSY: 100.0 % of every step computes");
    has_words(r->verdict, "Kernels MEMORY-BOUND: 80.0 % of their time is in kernels that");
    has_words(r->verdict, "compute-bound 20.0 %");
    assert_near(r->bounds.rows[0].memory_pct.value, 80, 0.1);
    fx_close(f);
}

static void test_bound_by_arithmetic(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {"mm", "gemm_kernel", 100, 0.2, 0.61, "matrix", NULL, NULL});
    check_bounds(r, "COMPUTE-BOUND", 100);
    assert_null(finding(r, "LOW_EFFICIENCY_GEMM"));
    fx_close(f);
    r = MAKE(f, {"mm", "gemm_kernel", 100, 0.2, 0.59, "matrix", NULL, NULL});
    check_bounds(r, "INEFFICIENT", 100); /* just below the limit */
    has_words(r->bounds.sentence, "where arithmetic is the nearer one");
    assert_int_equal(r->bounds.ns[AN_BOUND_BELOW_COMPUTE], r->bounds.total_ns);
    fx_close(f);
}

/* Short, or with fewer blocks than SMs; a kernel that reaches a roof all the same is bound by it.
 */
static void test_latency(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {"add", "add_kernel", 5, 0.1, 0.001, "elementwise", "500,1,1", NULL});
    check_bounds(r, "LATENCY-BOUND", 100);
    fx_close(f);
    r = MAKE(f, {"mm", "gemm_kernel", 100, 0.1, 0.2, "matrix", "12,3,1", NULL});
    check_bounds(r, "LATENCY-BOUND", 100); /* 36 blocks of 108 */
    fx_close(f);
    r = MAKE(f, {"mm", "gemm_kernel", 100, 0.1, 0.2, "matrix", "108,1,1", NULL});
    check_bounds(r, "INEFFICIENT", 100);
    fx_close(f);
    r = MAKE(f, {"add", "add_kernel", 5, 0.9, 0.001, "elementwise", "36,1,1", NULL});
    check_bounds(r, "MEMORY-BOUND", 100);
    fx_close(f);
}

/* What is not known is unknown, with its share and the reason; it is never below a roof. */
static void test_unknown(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {NULL, "some_kernel", 75, 0, 0, NULL, NULL, NULL},
             {"scale", "scale_kernel", 25, 0.8, 0.001, "elementwise", NULL, NULL});
    check_bounds(r, "UNKNOWN", 75);
    has_words(r->bounds.sentence, "unknown because no recorded operator launched them");
    assert_int_equal(r->bounds.ns[AN_BOUND_BELOW_MEMORY] + r->bounds.ns[AN_BOUND_BELOW_COMPUTE], 0);
    fx_close(f);
    r = MAKE(f, {"mystery", "some_kernel", 100, 0, 0, NULL, NULL, NULL});
    check_bounds(r, "UNKNOWN", 100);
    has_words(r->bounds.sentence, "has no shapes (record_shapes=True");
    fx_close(f);
    source = "xplane"; /* which has no such option */
    r = MAKE(f, {"mystery", "some_kernel", 100, 0, 0, NULL, NULL, NULL});
    source = "kineto";
    has_words(r->bounds.sentence, "the XLA profile has no shapes");
    assert_null(strstr(r->bounds.sentence, "record_shapes"));
    fx_close(f);
}

static void test_mixed(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {"scale", "scale_kernel", 40, 0.8, 0.001, "elementwise", NULL, NULL},
             {"mm", "gemm_kernel", 35, 0.2, 0.7, "matrix", NULL, NULL},
             {"mm", "gemm_kernel", 25, 0.2, 0.3, "matrix", NULL, NULL});
    check_bounds(r, "MIXED", 40);
    fx_close(f);
}

/* Three operators of one size in a row, 200 us of 250: at 80 % of the bandwidth they move 2.4
 * tensors' worth, fused they move a third of it. */
static void test_fusion(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct work mul = {"mul", "k_mul", 50, 0.8, 0.001, "elementwise", NULL, NULL},
                      mm = {"mm", "gemm_kernel", 100, 0.2, 0.7, "matrix", NULL, NULL};
    const struct an_result *r = MAKE(f, mul, mul, mul, mm);
    const struct an_finding *x = finding(r, "FUSION");
    assert_non_null(x);
    has_words(x->claim, "60.0 % of the kernels' time");
    has_words(x->action, "torch.compile");
    has_words(x->evidence[2], "mul, mul, mul");
    /* of 150 us the bytes of one operator stay: 40 us at the peak of the bandwidth */
    assert_near(x->gain.high.value, 100 * (250. / (250 - 110) - 1), 1);
    assert_true(x->gain.ceiling);
    fx_close(f);
    r = MAKE(f, mul, mm);
    assert_null(finding(r, "FUSION")); /* nothing follows anything */
    fx_close(f);
}

/* What follows the end of a step in the next one is no part of a chain: each has its own. */
static void test_chains_end_with_the_step(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct work mul = {"mul", "k_mul", 1000, 0.8, 0.001, "elementwise", NULL, NULL};
    const struct an_result *r = MAKE(f, mul);
    const struct an_kernel_bounds *b = &r->bounds;
    assert_int_equal(b->chain_count, 1);
    assert_int_equal(b->chains[0].operators, STEP_US / 1000);
    assert_true(b->chains[0].count >= STEPS - 2);
    has_words(finding(r, "FUSION")->evidence[2], "mul, mul");
    fx_close(f);
}

/* A compiler made the kernels already. */
static void test_compiled_already(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct work mul = {"mul", "triton_poi_fused_mul_0", 50, 0.8, 0.001, "elementwise", NULL,
                             NULL};
    const struct an_result *r = MAKE(f, mul, mul);
    const struct an_finding *x = finding(r, "FUSION");
    assert_non_null(x);
    assert_null(strstr(x->action, "torch.compile"));
    has_words(x->action, "graph_breaks");
    fx_close(f);
}

#define MM(m, k, n) \
    "{\"shapes\":[[" #m "," #k "],[" #k "," #n "]],\"types\":[\"c10::BFloat16\",\"c10::" \
    "BFloat16\"]}"

/* 4096 x 1023 x 4096 is 34.3 GFLOP: 110 us at the peak, here 1 ms; 1023 is no multiple of 8. */
static void test_inefficient_product(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const char *name = "ampere_bf16_s16816gemm_bf16_128x128_tn";
    const struct an_result *r =
        MAKE(f, {"aten::mm", name, 1000, 0, 0, NULL, "1024,1,1", MM(4096, 1023, 4096)});
    check_bounds(r, "INEFFICIENT", 100);
    const struct an_finding *x = finding(r, "LOW_EFFICIENCY_GEMM");
    assert_non_null(x);
    has_words(x->action, "pad the dimension 1023 to a multiple of 8 (1024)");
    has_words(x->evidence[0], "aten::mm [4096,1023] [1023,4096] (bf16)");
    double roof_us = 2. * 4096 * 1023 * 4096 / PEAK * 1e6;
    assert_near(x->gain.high.value, 100 * (1000 / roof_us - 1), 15);
    fx_close(f);
    /* aligned, in 1.2 waves: 129 blocks on 108 SMs leave 40 % of the second wave's room */
    r = MAKE(f, {"aten::mm", name, 1000, 0, 0, NULL, "129,1,1", MM(4096, 1024, 4096)});
    x = finding(r, "LOW_EFFICIENCY_GEMM");
    assert_non_null(x);
    has_words(x->action, "whole waves");
    assert_near(r->bounds.gemms[0].waves.value, 129 / 108., 1e-6);
    assert_near(r->bounds.gemms[0].wave_pct.value, 100 * 129 / 216., 1e-6);
    fx_close(f);
}

static void test_small_kernels(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = MAKE(f, {NULL, "tiny_kernel", 5, 0, 0, NULL, NULL, NULL},
                                     {NULL, "long_kernel", 45, 0, 0, NULL, NULL, NULL});
    const struct an_finding *x = finding(r, "SMALL_KERNELS");
    assert_non_null(x);
    has_words(x->claim, "shorter than 10 us take 10.0 % of the step");
    assert_near(x->gain.high.value, 100 / .9 - 100, 0.2);
    fx_close(f);
    r = MAKE(f, {NULL, "long_kernel", 50, 0, 0, NULL, NULL, NULL});
    assert_null(finding(r, "SMALL_KERNELS"));
    fx_close(f);
}

/* A finding about the class that limits the run does not go before one that may gain three times as
 * much: 3 % of each step are short kernels, 9 % are copies, 88 % one long kernel. */
static void test_little_of_its_class(void **state)
{
    struct fixture fx, *f = &fx;
    struct made m;
    (void)state;
    open_device(f, &m);
    for (int i = 0; i < STEPS; i++) {
        int64_t begin = m.at;
        mark_step(&m, i, begin - 1000, begin + STEP_US - 1000);
        for (int k = 0; k < 60; k++)
            kernel(&m, &(struct work){.kernel = "tiny_kernel", .us = 5});
        gpu_copy_ns(f, m.stream, m.at * 1000, (m.at + 900) * 1000, "Memcpy DtoD (Device -> Device)",
                    "DtoD", ++m.correlation);
        m.at += 900;
        kernel(&m, &(struct work){.kernel = "long_kernel", .us = 8800});
    }
    const struct an_result *r = fx_analyze(f);
    assert_non_null(finding(r, "SMALL_KERNELS"));
    has_words(r->verdict, "DEVICE-BUSY");
    assert_string_equal(r->findings[0].id, "EXPOSED_COPY");
    fx_close(f);
}

/* ---- work of the host that is none ----------------------------------------------------------- */

/* A step: the host launches 38 kernels of 250 us in a row, then polls inside a range until the last
 * one has ended, as DeepEP's dispatch does. */
static const struct an_result *make_polling(struct fixture *f, const char *what_if)
{
    struct made m;
    open_device(f, &m);
    for (int i = 0; i < STEPS; i++) {
        int64_t host = m.at - 400, begin = m.at;
        mark_step(&m, i, host, host + 9900);
        for (int k = 0; k < 38; k++, m.at += 250)
            gpu_launch(f, m.stream, host + 8 * k, host + 8 * k + 6, m.at, m.at + 250, "expert_gemm",
                       ++m.correlation);
        gpu_row(f, f->thread, host + 310, m.at + 8, "deep_ep::dispatch", "op", FX_NONE);
        m.at = begin + 9900;
    }
    struct an_options options = {.what_if = what_if};
    return fx_analyze_with(f, &options);
}

static double cause_pct(const struct an_result *r, const char *key)
{
    for (size_t i = 0; i < r->critical_path.cause_count; i++)
        if (!strcmp(r->critical_path.causes[i].key, key))
            return r->critical_path.causes[i].pct.value;
    return 0;
}

static void test_polling_is_waiting(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = make_polling(f, NULL);
    assert_null(r->critical_path.reason);
    assert_true(cause_pct(r, "framework") < 5);
    assert_true(cause_pct(r, "compute") > 90);
    assert_true(r->critical_path.suspected_count >= STEPS - 3);
    assert_string_equal(r->critical_path.suspected_name, "deep_ep::dispatch");
    fx_close(f);
    r = make_polling(f, "compute=0.5x"); /* half of 9.5 of 9.9 ms goes */
    assert_int_equal(r->advice.edit_count, 1);
    assert_true(r->advice.edits[0].gain.high.valid);
    assert_true(r->advice.edits[0].gain.high.value > 80);
    fx_close(f);
}

/* ---- the start of a program ------------------------------------------------------------------ */

static void test_first_iteration(void **state)
{
    struct fixture fx, *f = &fx;
    struct made m;
    (void)state;
    open_device(f, &m);
    gpu_row(f, f->thread, 0, 77000, "cudaFree", "runtime", 1); /* initialises the device */
    for (int i = 0; i < 40; i++)
        gpu_launch(f, m.stream, 78000 + 500 * i, 78010 + 500 * i, 78020 + 500 * i, 78400 + 500 * i,
                   "some_kernel", i + 2);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *x = finding(r, "FIRST_ITERATION");
    assert_non_null(x);
    has_words(x->claim, "for 79 % of the capture");
    has_words(x->action, "wait=10, warmup=2");
    assert_false(x->gain.high.valid);
    fx_close(f);
    r = MAKE(f, {NULL, "long_kernel", 50, 0, 0, NULL, NULL, NULL});
    assert_null(finding(r, "FIRST_ITERATION"));
    fx_close(f);
}

/* Half of each step the host waits for memory: that does not stop after the start. Memory of the
 * device is a matter of its allocator; locked memory of the host is not. */
static void test_allocation_in_each_step(void **state)
{
    static const struct {
        const char *call, *action;
    } calls[] = {{"cudaMalloc", "expandable segments"},
                 {"cudaHostAlloc", "pin_memory=True"},
                 {"cudaFreeHost", "pin_memory=True"}};
    struct fixture fx, *f = &fx;
    struct made m;
    (void)state;
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        open_device(f, &m);
        for (int i = 0; i < 30; i++) {
            int at = i * STEP_US;
            mark_step(&m, i, at, at + STEP_US - 10);
            gpu_row(f, f->thread, at + 50, at + 5050, calls[k].call, "runtime", FX_NONE);
            gpu_launch(f, m.stream, at + 5100, at + 5110, at + 5120, at + 9900, "k", i + 1);
        }
        const struct an_result *r = fx_analyze(f);
        assert_null(finding(r, "FIRST_ITERATION"));
        has_words(finding(r, "HOST_BOUND")->action, calls[k].call);
        has_words(finding(r, "HOST_BOUND")->action, calls[k].action);
        fx_close(f);
    }
}

#define GEMM  "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
#define CAST  "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda()>()"
#define FUSED "triton_poi_fused_add_1"

/* Kernels that no operator explains are named by their kind; element-wise ones can be fused, as far
 * as names tell, unless a compiler did it. */
static void test_kinds_by_name(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {NULL, GEMM, 60, 0, 0, NULL, NULL, NULL}, {NULL, CAST, 40, 0, 0, NULL, NULL, NULL});
    check_bounds(r, "UNKNOWN", 100);
    has_words(r->bounds.sentence,
              "by name they are GEMMs 60 %, element-wise work 40 % (unknown because");
    assert_null(strstr(r->verdict, "largest op"));
    const struct an_finding *x = finding(r, "FUSION");
    assert_non_null(x);
    assert_true(x->gain.ceiling);
    assert_near(x->gain.high.value, 100 * 0.4 / 0.6, 1); /* none of them is left */
    fx_close(f);
    r = MAKE(f, {NULL, FUSED, 60, 0, 0, NULL, NULL, NULL},
             {NULL, CAST, 40, 0, 0, NULL, NULL, NULL});
    assert_null(finding(r, "FUSION"));
    fx_close(f);
    r = MAKE(f, {NULL, CAST, 100, 0, 0, NULL, NULL, NULL}); /* with it nothing is left to run */
    x = finding(r, "FUSION");
    assert_non_null(x);
    assert_string_equal(x->what_if, "op:other=0");
    assert_null(strstr(x->method, "--what-if"));
    fx_close(f);
}

/* A program of no framework that tacho recorded gets no advice for PyTorch. */
static void test_plain_program(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7), at = 0;
    for (int i = 0; i < STEPS; i++) {
        fx_step(f, f->process, f->thread, i, at * 1000, (at + 1000) * 1000, 64, false);
        for (int k = 0; k < 100; k++, at += 10)
            gpu_launch(f, s, at, at + 1, at + 2, at + 8, "my_kernel", i * 100 + k + 1);
    }
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *x = finding(r, "SMALL_KERNELS");
    assert_non_null(x);
    for (size_t i = 0; i < r->finding_count; i++)
        assert_null(strstr(r->findings[i].action, "torch"));
    bool told = false;
    for (size_t i = 0; i < r->not_checked_count; i++)
        told = told || strstr(r->not_checked[i].to_check, "--gemm-shapes");
    assert_true(told);
    fx_close(f);
}

/* An operator that launched a tenth of the device's time is not the largest one where nobody knows
 * what launched the rest. */
static void test_largest_op(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        MAKE(f, {"scale", "scale_kernel", 10, 0.8, 0.001, "elementwise", NULL, NULL},
             {NULL, GEMM, 90, 0, 0, NULL, NULL, NULL});
    has_words(r->verdict, "DEVICE-BUSY");
    assert_null(strstr(r->verdict, "largest op"));
    fx_close(f);
    r = MAKE(f, {"scale", "scale_kernel", 90, 0.8, 0.001, "elementwise", NULL, NULL},
             {NULL, GEMM, 10, 0, 0, NULL, NULL, NULL});
    has_words(r->verdict, "largest op: scale, 90 %");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound_by_memory),
                                       cmocka_unit_test(test_bound_by_arithmetic),
                                       cmocka_unit_test(test_latency),
                                       cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_mixed),
                                       cmocka_unit_test(test_fusion),
                                       cmocka_unit_test(test_chains_end_with_the_step),
                                       cmocka_unit_test(test_compiled_already),
                                       cmocka_unit_test(test_inefficient_product),
                                       cmocka_unit_test(test_small_kernels),
                                       cmocka_unit_test(test_little_of_its_class),
                                       cmocka_unit_test(test_polling_is_waiting),
                                       cmocka_unit_test(test_first_iteration),
                                       cmocka_unit_test(test_allocation_in_each_step),
                                       cmocka_unit_test(test_kinds_by_name),
                                       cmocka_unit_test(test_plain_program),
                                       cmocka_unit_test(test_largest_op)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
