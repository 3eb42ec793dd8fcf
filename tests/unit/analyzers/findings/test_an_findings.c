/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings and verdict of accelerator runs: made-up steps of 10 ms in which one thing takes a known
 * share, so that the finding, its ceiling and the name of the run follow by hand.
 */
#include "tests/unit/an_gpu.h"

#define STEPS   12
#define STEP_US 10000

/* us of each step; what is left after them is compute. */
struct shape {
    int wait, comm, copy, sync, host, graph;
    const char *kernel, *device; /* of the compute; name of the device or NULL */
    const char *op;              /* of the host's time; NULL: aten::nonzero */
    bool attention;              /* the compute is 60 % aten::bmm and 40 % aten::_softmax */
    bool launches; /* the compute is kernels of 12 us, each with a launch call of 18 us, every 20 us
                    */
};

struct made {
    struct fixture *f;
    int64_t stream, correlation, at; /* at: us */
};

static void device_work(struct made *m, int us, const char *name, const char *category,
                        int64_t detail)
{
    int64_t id = ++m->correlation;
    const char *call = !strcmp(category, "memcpy")  ? "cudaMemcpyAsync"
                       : !strcmp(category, "graph") ? "cudaGraphLaunch"
                                                    : "cudaLaunchKernel";
    gpu_row(m->f, m->f->thread, m->at - 5, m->at - 1, call, "runtime", id);
    gpu_row_ns(m->f, m->stream, m->at * 1000, (m->at + us) * 1000, name, category, detail, id);
    m->at += us;
}

static void compute(struct made *m, const struct shape *s, int us)
{
    const char *name = s->kernel ? s->kernel : "ampere_bf16_s16816gemm_bf16_128x128_tn";
    if (s->attention) {
        gpu_row(m->f, m->f->thread, m->at - 8, m->at, "aten::bmm", "op", FX_NONE);
        device_work(m, us * 6 / 10, name, "kernel", FX_NONE);
        gpu_row(m->f, m->f->thread, m->at - 8, m->at, "aten::_softmax", "op", FX_NONE);
        device_work(m, us * 4 / 10, "softmax_warp_forward", "kernel", FX_NONE);
        return;
    }
    if (!s->launches)
        device_work(m, us, name, "kernel", FX_NONE);
    for (int i = 0; s->launches && i < us / 20; i++, m->at += 20)
        gpu_launch(m->f, m->stream, m->at, m->at + 18, m->at + 19, m->at + 31, name,
                   ++m->correlation);
}

static void step(struct made *m, const struct shape *s, int index)
{
    char name[40];
    int64_t begin = m->at, end = begin + STEP_US, thread = m->f->thread;
    snprintf(name, sizeof name, "ProfilerStep#%d", index);
    gpu_row(m->f, thread, begin - 10, end - 10, name, "annotation", FX_NONE);
    compute(m, s, STEP_US - s->wait - s->comm - s->copy - s->sync - s->host - s->graph);
    if (s->graph)
        device_work(m, s->graph, "graph 1", "graph", FX_NONE);
    if (s->comm)
        device_work(m, s->comm, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "kernel",
                    FX_NONE);
    if (s->copy)
        device_work(m, s->copy, "Memcpy HtoD (Pageable -> Device)", "memcpy",
                    gpu_copy(m->f, "HtoD", "pageable", 1 << 20));
    if (s->sync)
        gpu_row(m->f, thread, m->at, m->at + s->sync, "cudaStreamSynchronize", "runtime",
                ++m->correlation);
    m->at += s->sync;
    if (s->host)
        gpu_row(m->f, thread, m->at, m->at + s->host - 20, s->op ? s->op : "aten::nonzero", "op",
                FX_NONE);
    m->at += s->host;
    if (s->wait)
        gpu_row(m->f, thread, m->at, m->at + s->wait - 20,
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation",
                FX_NONE);
    m->at = end;
}

static const struct an_result *make(struct fixture *f, const struct shape *s)
{
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    struct made m = {.f = f, .stream = gpu_stream(f, f->process, "gpu:0", 7), .at = 1000};
    if (s->device) {
        char key[64];
        snprintf(key, sizeof key, "device.%lld.gpu:0.name", (long long)f->process);
        FX(store_run_set(f->s, key, s->device));
    }
    for (int i = 0; i < STEPS; i++)
        step(&m, s, i);
    return fx_analyze(f);
}

static const struct an_finding *finding(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

/* All the parts of a finding (docs/definitions.md); a ceiling claims nothing else; at most five;
 * the others by what there is to gain. */
static void check_form(const struct an_result *r)
{
    assert_true(r->finding_count <= 5);
    for (size_t i = 0; i < r->finding_count; i++) {
        const struct an_finding *f = &r->findings[i];
        const char *const parts[] = {f->id,     f->claim,  f->evidence[0], f->action,
                                     f->method, f->effort, f->verify,      f->wrong_when};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (!parts[k] || !*parts[k])
                fail_msg("%s: part %zu is missing", f->id, k);
        assert_true(f->gain.ceiling || !f->gain.high.valid);
        assert_false(f->gain.low.valid || f->gain.expected.valid);
        if (i > 1 && f->gain.high.valid)
            assert_true(r->findings[i - 1].gain.high.value >= f->gain.high.value);
    }
    assert_non_null(r->verdict);
    assert_true(!strncmp(r->verdict, r->verdict_class, strlen(r->verdict_class)) ||
                !r->finding_count);
}

/* Ceiling of taking `us` out of a step. */
static double ceiling(double us)
{
    return 100 * (STEP_US / (STEP_US - us) - 1);
}

static void check_first(const struct shape *s, const char *class, const char *id, double us,
                        const char *action)
{
    struct fixture fx, *f = &fx;
    const struct an_result *r = make(f, s);
    check_form(r);
    assert_string_equal(r->verdict_class, class);
    assert_true(r->finding_count > 0 && !r->healthy);
    assert_string_equal(r->findings[0].id, id);
    assert_near(r->findings[0].gain.high.value, ceiling(us), 1.0);
    if (!strstr(r->findings[0].action, action))
        fail_msg("%s", r->findings[0].action);
    fx_close(f);
}

static void test_input(void **state)
{
    (void)state;
    check_first(&(struct shape){.wait = 3000}, "INPUT-BOUND", "INPUT_STALL", 3000,
                "num_workers=1, pin_memory=True)");
}

static void test_communication(void **state)
{
    (void)state;
    check_first(&(struct shape){.comm = 3000}, "COMMUNICATION-BOUND", "EXPOSED_COMM", 3000,
                "every rank");
}

static void test_pageable_copies(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    check_first(&(struct shape){.copy = 2500}, "COPY-BOUND", "PAGEABLE_COPY", 2500, "pin_memory");
    const struct an_result *r = make(f, &(struct shape){.copy = 2500});
    assert_null(finding(r, "EXPOSED_COPY")); /* it would say the same twice */
    fx_close(f);
}

static void test_host(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    check_first(&(struct shape){.host = 3000}, "HOST-BOUND", "HOST_BOUND", 3000, "torch.compile");
    /* a batch of random numbers, made on the processor: compiling would not make that shorter */
    check_first(&(struct shape){.host = 3000, .op = "aten::normal_"}, "HOST-BOUND", "HOST_BOUND",
                3000, "aten::normal_ makes random numbers on the processor");
    const struct an_result *r = make(f, &(struct shape){.host = 2500, .wait = 2000});
    const struct an_finding *x = finding(r, "HOST_BOUND");
    assert_non_null(x);
    bool named = false; /* what the host was in meanwhile, 2 480 of 2 525 us; the loader is a class
                           of its own */
    for (size_t i = 0; i < 5 && x->evidence[i]; i++) {
        named = named || strstr(x->evidence[i], "98 % in aten::nonzero itself");
        assert_null(strstr(x->evidence[i], "DataLoader"));
    }
    assert_true(named);
    fx_close(f);
}

/* Short kernels, long launch calls: the device idles 8 us of every 20, 7 of them inside the next
 * launch call. */
static void test_launches(void **state)
{
    (void)state;
    check_first(&(struct shape){.launches = true}, "LAUNCH-BOUND", "LAUNCH_BOUND", 3500,
                "CUDA graph");
}

static void test_attention(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = make(f, &(struct shape){.attention = true, .host = 50});
    check_form(r);
    const struct an_finding *x = finding(r, "UNFUSED_ATTENTION");
    assert_non_null(x);
    assert_non_null(strstr(x->claim, "40.0 % of device time is softmax, 60.0 %"));
    assert_non_null(strstr(x->action, "scaled_dot_product_attention"));
    fx_close(f);
}

static void test_synchronise(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = make(f, &(struct shape){.sync = 2500});
    check_form(r);
    const struct an_finding *x = finding(r, "SYNC_STALL");
    assert_non_null(x);
    assert_near(x->gain.high.value, ceiling(2500), 1.0);
    fx_close(f);
    r = make(f, &(struct shape){.sync = 100}); /* 1 % of the step: not worth a change */
    assert_null(finding(r, "SYNC_STALL"));
    fx_close(f);
}

/* The verdict's own finding stands first, even where another ceiling is higher. */
static void test_what_holds_the_run_back_first(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    struct shape s = {
        .wait = 2000, .kernel = "volta_sgemm_128x64_nn", .device = "Tesla V100-SXM2-16GB"};
    const struct an_result *r = make(f, &s);
    check_form(r);
    assert_string_equal(r->findings[0].id, "INPUT_STALL");
    const struct an_finding *x = finding(r, "LOW_PRECISION");
    assert_non_null(x);
    assert_true(x->gain.high.value > r->findings[0].gain.high.value);
    assert_non_null(strstr(x->action, "float16")); /* that device has no bf16 */
    fx_close(f);
    s.device = "NVIDIA A100-SXM4-80GB";
    r = make(f, &s);
    x = finding(r, "LOW_PRECISION");
    assert_non_null(x);
    assert_non_null(strstr(x->action, "bfloat16"));
    fx_close(f);
    s.device = "a device nobody knows";
    r = make(f, &s);
    assert_null(finding(r, "LOW_PRECISION")); /* whether it has matrix units is not known */
    fx_close(f);
    s = (struct shape){.wait = 2000, .device = "NVIDIA A100-SXM4-80GB"};
    r = make(f, &s); /* on matrix units already */
    assert_null(finding(r, "LOW_PRECISION"));
    fx_close(f);
}

static void test_healthy(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = make(f, &(struct shape){.wait = 50, .host = 50});
    check_form(r);
    assert_int_equal(r->finding_count, 0);
    assert_true(r->checked_count >= 5);
    assert_false(r->healthy); /* a trace does not hold the clocks of the device */
    assert_non_null(strstr(r->verdict, "NO PROBLEM FOUND, DEVICE-BUSY"));
    assert_non_null(strstr(r->verdict, "NOT checked: "));
    assert_string_equal(r->not_checked[r->not_checked_count - 1].check, "clocks of the GPUs");
    fx_close(f);
}

/* Time in graphs that were recorded as a whole is busy: never idle, never the host's fault. */
static void test_opaque(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = make(f, &(struct shape){.graph = 9000});
    check_form(r);
    assert_string_equal(r->verdict_class, "OPAQUE");
    assert_non_null(finding(r, "OPAQUE_GRAPHS"));
    assert_null(finding(r, "UNATTRIBUTED"));
    assert_null(finding(r, "HOST_BOUND"));
    assert_null(strstr(r->verdict, "idle"));
    fx_close(f);
}

/* Device work without steps: the capture is described, and what would tell more is said. */
static void test_no_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 20; i++)
        gpu_launch(f, stream, i * 1000, i * 1000 + 10, i * 1000 + 20, i * 1000 + 320, "some_kernel",
                   i + 1);
    const struct an_result *r = fx_analyze(f);
    check_form(r);
    assert_non_null(finding(r, "NO_STEPS"));
    assert_string_equal(r->verdict_class, "DEVICE IDLE");
    assert_non_null(strstr(r->verdict, "low confidence"));
    assert_false(r->healthy);
    fx_close(f);
}

/* One memset in 426 ms is no evidence for any limit. */
static void test_too_little(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    fx_slice(f, f->thread, 0, 426000, "aten::zeros", FX_NONE);
    gpu_launch(f, stream, 1000, 1010, 1020, 1022, "Memset (Device)", 1);
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->verdict_class, "TOO LITTLE DATA");
    assert_non_null(strstr(r->verdict, "1 device operation"));
    assert_non_null(finding(r, "NO_STEPS"));
    assert_int_equal(r->finding_count, 1);
    assert_false(r->healthy);
    fx_close(f);
}

/* --steps: only those count, first and last among them. */
static void test_some_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    make(f, &(struct shape){.wait = 3000});
    struct an_options o = {.some_steps = true, .step_from = 0, .step_to = 4};
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_int_equal(r->steps.counted, 5);
    assert_int_equal(r->steps.first_index, 0);
    assert_int_equal(r->steps.last_index, 4);
    assert_int_equal(r->steps.excluded_count, 0);
    o.step_from = 100;
    o.step_to = 200;
    r = fx_analyze_with(f, &o);
    assert_int_equal(r->steps.counted, 0);
    assert_null(finding(r, "NO_STEPS")); /* they are there */
    assert_non_null(strstr(r->verdict, "requested steps"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_input),
                                       cmocka_unit_test(test_communication),
                                       cmocka_unit_test(test_pageable_copies),
                                       cmocka_unit_test(test_host),
                                       cmocka_unit_test(test_launches),
                                       cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_synchronise),
                                       cmocka_unit_test(test_what_holds_the_run_back_first),
                                       cmocka_unit_test(test_healthy),
                                       cmocka_unit_test(test_opaque),
                                       cmocka_unit_test(test_no_steps),
                                       cmocka_unit_test(test_too_little),
                                       cmocka_unit_test(test_some_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
