/* SPDX-License-Identifier: Apache-2.0
 *
 * Who asked for the device time: by hand, and against a naive search over random traces. Sums are
 * exact.
 */
#include "tests/unit/an_gpu.h"

static int64_t op_detail(struct fixture *f, const char *pass, const char *payload)
{
    struct store_detail d = fx_empty();
    d.schema = "torch.op";
    d.pass = pass;
    d.payload = payload;
    return fx_intern(f, &d);
}

/* An operator with a sequence number. */
static void op(struct fixture *f, int64_t thread, int64_t start, int64_t end, const char *name,
               const char *pass, int64_t number)
{
    gpu_row_ns(f, thread, start, end, name, "op", pass ? op_detail(f, pass, NULL) : FX_NONE,
               number);
}

/* A call at `time` and its kernel of `ns` later, on a stream of its own place so that kernels do
 * not matter to each other. */
static void launch(struct fixture *f, int64_t thread, int64_t stream, int64_t time, int64_t ns,
                   int64_t id)
{
    gpu_host_ns(f, thread, time, time + 2, "cudaLaunchKernel", "runtime", id);
    gpu_kernel_ns(f, stream, 1000000 + id * 1000, 1000000 + id * 1000 + ns, "some_kernel", id);
}

static const struct an_attribution_row *row(const struct an_result *r, int by, const char *name)
{
    for (size_t i = 0; i < r->attribution[by].row_count; i++)
        if (!strcmp(r->attribution[by].rows[i].name, name))
            return &r->attribution[by].rows[i];
    return NULL;
}

static int64_t ns(const struct an_result *r, int by, const char *name)
{
    const struct an_attribution_row *x = row(r, by, name);
    return x ? x->device_ns : -1;
}

enum { OP, MODULE, LINE, ANNOTATION };

static void check_sums(const struct an_result *r, int64_t all)
{
    for (int by = 0; by < 4; by++) {
        int64_t sum = r->attribution[by].unattributed_ns;
        for (size_t i = 0; i < r->attribution[by].row_count; i++) {
            const struct an_attribution_row *x = &r->attribution[by].rows[i];
            sum += x->device_ns;
            assert_true(x->kernels > 0 && x->host_ns >= 0);
            assert_true(!i || x->device_ns <= x[-1].device_ns);
        }
        assert_int_equal(sum, all);
    }
}

static void test_innermost(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_host_ns(f, f->thread, 0, 1000, "train.py(10): main", "python", FX_NONE);
    gpu_host_ns(f, f->thread, 10, 900, "ProfilerStep#3", "annotation", FX_NONE);
    gpu_host_ns(f, f->thread, 20, 800, "nn.Module: Net_0", "python", FX_NONE);
    gpu_host_ns(f, f->thread, 30, 700, "torch/nn/modules/linear.py(1): forward", "python", FX_NONE);
    gpu_host_ns(f, f->thread, 40, 600, "nn.Module: Linear_1", "python", FX_NONE);
    op(f, f->thread, 50, 500, "aten::linear", NULL, FX_NONE);
    op(f, f->thread, 60, 100, "aten::t", NULL, FX_NONE);
    launch(f, f->thread, s, 70, 5, 1); /* in aten::t */
    op(f, f->thread, 100, 400, "aten::addmm", NULL, FX_NONE);
    launch(f, f->thread, s, 100, 7, 2);  /* begins with aten::addmm, ends aten::t */
    launch(f, f->thread, s, 399, 11, 3); /* outlives aten::addmm */
    launch(f, f->thread, s, 400, 13, 4); /* aten::linear itself */
    launch(f, f->thread, s, 650, 17, 5); /* no operator, module Net_0 */
    launch(f, f->thread, s, 850, 19, 6); /* no module */
    launch(f, f->thread, s, 950, 23, 7); /* no annotation */
    launch(f, f->thread, s, 1500, 29, 8);
    gpu_kernel_ns(f, s, 3000000, 3000031, "some_kernel", 99); /* no launch */
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 5 + 7 + 11 + 13 + 17 + 19 + 23 + 29 + 31);
    assert_int_equal(ns(r, OP, "aten::t"), 5);
    assert_int_equal(ns(r, OP, "aten::addmm"), 18);
    assert_int_equal(ns(r, OP, "aten::linear"), 13);
    assert_int_equal(r->attribution[OP].unattributed_ns, 17 + 19 + 23 + 29 + 31);
    assert_int_equal(row(r, OP, "aten::linear")->host_ns, 450 - 40 - 300);
    assert_int_equal(row(r, OP, "aten::addmm")->count, 1);
    assert_int_equal(row(r, OP, "aten::addmm")->kernels, 2);
    assert_near(row(r, OP, "aten::addmm")->share_pct.value, 100 * 18 / 155.0, 1e-9);
    assert_false(row(r, OP, "aten::addmm")->flops.valid);
    assert_non_null(strstr(row(r, OP, "aten::addmm")->flops.reason, "record_shapes"));
    assert_int_equal(ns(r, MODULE, "Linear_1"), 36);
    assert_int_equal(ns(r, MODULE, "Net_0"), 17);
    assert_int_equal(row(r, MODULE, "Net_0")->host_ns, 780 - 560);
    assert_int_equal(ns(r, LINE, "train.py(10): main"), 155 - 29 - 31);
    assert_int_equal(ns(r, ANNOTATION, "ProfilerStep"), 36 + 17 + 19);
    fx_close(f);
}

/* Backward runs on its own thread: module and line of the forward operator of the same number,
 * annotation of its thread. */
static void test_backward(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            engine = fx_track(f, f->process, "thread", "engine", NULL);
    int64_t other = fx_process(f, 1, "train"), far = fx_track(f, other, "thread", "main", NULL);
    gpu_host_ns(f, f->thread, 0, 1000, "train.py(10): main", "python", FX_NONE);
    gpu_host_ns(f, f->thread, 10, 200, "forward", "annotation", FX_NONE);
    gpu_host_ns(f, f->thread, 20, 100, "nn.Module: Linear_0", "python", FX_NONE);
    op(f, f->thread, 30, 90, "aten::addmm", NULL, 5);
    gpu_host_ns(f, f->thread, 110, 190, "nn.Module: Linear_1", "python", FX_NONE);
    gpu_host_ns(f, f->thread, 115, 185, "model.py(3): forward", "python", FX_NONE);
    op(f, f->thread, 120, 180, "aten::addmm", NULL, 6);
    gpu_host_ns(f, f->thread, 300, 900, "backward", "annotation", FX_NONE);
    gpu_host_ns(f, far, 20, 100, "nn.Module: Elsewhere_0", "python", FX_NONE);
    op(f, far, 30, 90, "aten::addmm", NULL, 6);
    op(f, f->thread, 950, 960, "aten::addmm", NULL,
       6); /* later than the backward operator: not its forward */
    op(f, engine, 310, 400, "autograd::engine::evaluate_function: AddmmBackward0", "backward", 6);
    op(f, engine, 320, 390, "AddmmBackward0", "backward", 6);
    op(f, engine, 330, 380, "aten::mm", NULL, FX_NONE);
    launch(f, engine, s, 340, 3, 1);
    gpu_host_ns(f, engine, 382, 386, "hook.py(1): clip", "python", FX_NONE);
    launch(f, engine, s, 383, 19, 6); /* user code called from backward */
    op(f, engine, 410, 500, "AddmmBackward0", "backward", 5);
    launch(f, engine, s, 450, 5, 2);
    op(f, engine, 510, 600, "MulBackward0", "backward", 77); /* its forward is not in the trace */
    launch(f, engine, s, 550, 7, 3);
    op(f, engine, 610, 700, "torch::autograd::AccumulateGrad", NULL, FX_NONE);
    launch(f, engine, s, 650, 11, 4);
    launch(f, engine, s, 920, 13, 5); /* the annotation of the caller is over */
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 58);
    assert_int_equal(ns(r, OP, "aten::mm"), 3);
    assert_int_equal(ns(r, OP, "AddmmBackward0"), 24);
    assert_int_equal(ns(r, MODULE, "Linear_1"), 3 + 19);
    assert_int_equal(ns(r, MODULE, "Linear_0"), 5);
    assert_null(row(r, MODULE, "Elsewhere_0"));
    assert_int_equal(r->attribution[MODULE].unattributed_ns, 7 + 11 + 13);
    assert_int_equal(ns(r, LINE, "model.py(3): forward"), 3);
    assert_int_equal(ns(r, LINE, "hook.py(1): clip"), 19);
    assert_int_equal(ns(r, LINE, "train.py(10): main"), 5);
    assert_int_equal(ns(r, ANNOTATION, "backward"), 45);
    assert_int_equal(r->attribution[ANNOTATION].unattributed_ns, 13);
    fx_close(f);
}

/* Numbers that repeat, as in traces that are joined: the latest forward operator before the
 * backward one counts, however many have its number. */
static void test_numbers_that_repeat(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            engine = fx_track(f, f->process, "thread", "engine", NULL);
    for (int64_t i = 0; i < 5000; i++)
        op(f, f->thread, 10 * i, 10 * i + 5, "aten::addmm", NULL, 5);
    gpu_host_ns(f, f->thread, 50000, 50100, "nn.Module: Last_0", "python", FX_NONE);
    op(f, f->thread, 50010, 50020, "aten::addmm", NULL, 5);
    op(f, engine, 50200, 50300, "AddmmBackward0", "backward", 5);
    launch(f, engine, s, 50210, 7, 1);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(ns(r, MODULE, "Last_0"), 7);
    fx_close(f);
}

/* Checkpointing: the part that runs again on the backward thread counts sequence numbers of its
 * own. */
static void test_checkpoint(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            engine = fx_track(f, f->process, "thread", "engine", NULL);
    static const char *const shapes =
        "{\"shapes\":[[8,4],[4,16]],\"types\":[\"c10::Half\",\"c10::Half\"]}";
    gpu_host_ns(f, f->thread, 10, 60, "nn.Module: First_0", "python", FX_NONE);
    op(f, f->thread, 20, 50, "aten::mm", NULL, 3);
    gpu_host_ns(f, f->thread, 70, 99, "nn.Module: Block_0", "python", FX_NONE);
    op(f, f->thread, 80, 90, "CheckpointFunction", NULL, 4);
    op(f, engine, 110, 400, "CheckpointFunctionBackward", "backward", 4);
    gpu_host_ns(f, engine, 120, 390, "torch/utils/checkpoint.py(300): backward", "python", FX_NONE);
    gpu_host_ns(f, engine, 130, 200, "nn.Module: Inner_0", "python", FX_NONE);
    gpu_row_ns(f, engine, 140, 190, "aten::mm", "op", op_detail(f, NULL, shapes),
               3); /* the same number as First_0's */
    launch(f, engine, s, 150, 2, 1);
    op(f, engine, 210, 300, "autograd::engine::evaluate_function: MmBackward0", "backward", 3);
    op(f, engine, 215, 295, "MmBackward0", "backward", 3);
    gpu_row_ns(f, engine, 220, 290, "aten::mm", "op", op_detail(f, NULL, shapes), FX_NONE);
    launch(f, engine, s, 230, 3, 2);
    op(f, engine, 410, 500, "MmBackward0", "backward",
       3); /* of First_0, outside of the checkpoint */
    launch(f, engine, s, 450, 5, 3);
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 10);
    assert_int_equal(ns(r, MODULE, "Inner_0"), 2 + 3);
    assert_int_equal(ns(r, MODULE, "First_0"), 5);
    const struct an_attribution_row *mm = row(r, OP, "aten::mm");
    assert_int_equal(mm->device_ns, 5);
    assert_int_equal(mm->flops.value, 2 * 2 * 8 * 4 * 16);
    assert_near(mm->flops_per_s.value, 2 * 2 * 8 * 4 * 16 / 5e-9, 1);
    assert_int_equal(mm->bytes.value, 2 * 2 * (32 + 64 + 128));
    fx_close(f);
}

static void test_stacks(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    static const char *const stacks[] = {
        "{\"stack\":[\"/x/lib/python3.9/site-packages/torch/nn/modules/conv.py(4): "
        "f\",\"torch/a.py(1): g\",\"net.py(7): forward\","
        "\"train.py(1): <module>\"]}",
        "{\"stack\":[\"train.py(1): <module>\"]}", "{\"stack\":[\"<built-in method add>\"]}"};
    gpu_row_ns(f, f->thread, 10, 90, "aten::conv2d", "op", op_detail(f, NULL, stacks[1]), FX_NONE);
    gpu_row_ns(f, f->thread, 20, 80, "aten::convolution", "op", op_detail(f, NULL, stacks[0]),
               FX_NONE);
    launch(f, f->thread, s, 30, 3, 1);
    launch(f, f->thread, s, 85, 5, 2);
    gpu_row_ns(f, f->thread, 100, 190, "aten::add", "op", op_detail(f, NULL, stacks[2]), FX_NONE);
    launch(f, f->thread, s, 110, 7, 3);
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 15);
    assert_null(r->attribution[LINE].reason);
    assert_int_equal(ns(r, LINE, "net.py(7): forward"), 3);
    assert_int_equal(ns(r, LINE, "train.py(1): <module>"), 5);
    assert_int_equal(row(r, LINE, "train.py(1): <module>")->host_ns, 20);
    assert_int_equal(ns(r, OP, "aten::convolution"), 3);
    assert_non_null(strstr(r->attribution[MODULE].reason, "with_stack"));
    fx_close(f);
}

/* FLOPs of a row only where every call tells, products only in tables of modules. */
static void test_costs(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    int64_t mm = op_detail(f, NULL, "{\"shapes\":[[8,4],[4,16]],\"types\":[\"float\",\"float\"]}"),
            bad = op_detail(f, NULL, "{\"shapes\":[[8],[4,16]],\"types\":[\"float\",\"float\"]}");
    static const char *const module[] = {"nn.Module: A_0", "nn.Module: B_0", "nn.Module: C_0"};
    for (int k = 0; k < 3; k++) {
        int64_t t = k * 100;
        gpu_host_ns(f, f->thread, t, t + 90, module[k], "python", FX_NONE);
        gpu_row_ns(f, f->thread, t + 10, t + 40, "aten::mm", "op", k == 1 ? bad : mm, FX_NONE);
        launch(f, f->thread, s, t + 20, 3, 2 * k);
        launch(f, f->thread, s, t + 30, 3, 20 + k); /* two kernels, one call */
        if (k != 2)
            gpu_row_ns(f, f->thread, t + 50, t + 80, "my::op", "op", mm, FX_NONE);
        launch(f, f->thread, s, t + 60, 5, 2 * k + 1);
    }
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 33);
    assert_false(row(r, OP, "aten::mm")->flops.valid);
    assert_false(row(r, OP, "my::op")->flops.valid);
    assert_int_equal(row(r, MODULE, "A_0")->flops.value, 2 * 8 * 4 * 16);
    assert_false(row(r, MODULE, "A_0")->bytes.valid);
    assert_false(row(r, MODULE, "B_0")->flops.valid);
    assert_false(row(r, MODULE, "C_0")
                     ->flops.valid); /* a launch of no operator: nobody knows what it computed */
    fx_close(f);
}

static void test_absent(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    launch(f, f->thread, s, 10, 3, 1);
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 3);
    static const char *const words[] = {"torch.profiler", "with_stack", "with_stack",
                                        "record_function"};
    for (int by = 0; by < 4; by++) {
        assert_non_null(strstr(r->attribution[by].reason, words[by]));
        assert_int_equal(r->attribution[by].row_count, 0);
    }
    fx_close(f);
    fx_open(f);
    fx_step(f, f->process, f->thread, 0, 0, 10, 1, false);
    r = fx_analyze(f);
    for (int by = 0; by < 4; by++)
        assert_non_null(strstr(r->attribution[by].reason, "no accelerator"));
    fx_close(f);
}

/* ---- random traces ----------------------------------------------------------------------------------------------------------- */

#define RANGES 120
#define CALLS  80

struct range {
    int thread, kind, name;
    int64_t start, end;
};

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

/* Ranges may overlap in any way. The innermost one at a time: of those that are open the one that
 * began last, of these the shortest, of these the last in the file. */
static void test_random(void **state)
{
    static const char *const prefix[] = {"aten::op", "nn.Module: M_", "file.py(%d): f", "note"};
    static const char *const category[] = {"op", "python", "python", "annotation"};
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct fixture fx, *f = &fx;
        struct range range[RANGES];
        int64_t expected[4][8] = {{0}}, rest[4] = {0}, all = 0, thread[3];
        uint64_t random = seed;
        fx_open(f);
        int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
        thread[0] = f->thread;
        thread[1] = fx_track(f, f->process, "thread", "b", NULL);
        thread[2] = fx_track(f, f->process, "thread", "c", NULL);
        char name[64];
        for (int i = 0; i < RANGES; i++) {
            struct range *x = &range[i];
            *x = (struct range){(int)random_below(&random, 3), (int)random_below(&random, 4),
                                (int)random_below(&random, 8), (int64_t)random_below(&random, 200),
                                0};
            x->end = x->start + (int64_t)random_below(&random, seed % 2 ? 200 : 30);
            if (x->kind == 2)
                snprintf(name, sizeof name, "file.py(%d): f", x->name);
            else
                snprintf(name, sizeof name, "%s%d", prefix[x->kind], x->name);
            gpu_host_ns(f, thread[x->thread], x->start, x->end, name, category[x->kind], FX_NONE);
        }
        for (int i = 0; i < CALLS; i++) {
            int t = (int)random_below(&random, 3);
            int64_t at = (int64_t)random_below(&random, 250),
                    dur = (int64_t)random_below(&random, 500);
            launch(f, thread[t], s, at, dur, i);
            all += dur;
            for (int kind = 0; kind < 4; kind++) {
                const struct range *best = NULL;
                for (int k = 0; k < RANGES; k++) {
                    const struct range *x = &range[k];
                    if (x->thread != t || x->kind != kind || x->start > at || x->end <= at)
                        continue;
                    if (!best || x->start > best->start ||
                        (x->start == best->start && x->end <= best->end))
                        best = x;
                }
                *(best ? &expected[kind][best->name] : &rest[kind]) += dur;
            }
        }
        const struct an_result *r = fx_analyze(f);
        check_sums(r, all);
        for (int kind = 0; kind < 4; kind++) {
            assert_int_equal(r->attribution[kind].unattributed_ns, rest[kind]);
            for (int n = 0; n < 8; n++) {
                if (kind == 2)
                    snprintf(name, sizeof name, "file.py(%d): f", n);
                else
                    snprintf(name, sizeof name, "%s%d", kind == 1 ? "M_" : prefix[kind], n);
                int64_t got = ns(r, kind, name);
                assert_int_equal(got < 0 ? 0 : got, expected[kind][n]);
            }
        }
        fx_close(f);
    }
}

/* Ranges of tacho's own recordings: modules of the hook, work of an engine. */
static void test_own_recordings(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.pass = "forward";
    gpu_row_ns(f, f->thread, 0, 100, "forward", "torch", fx_intern(f, &d),
               FX_NONE); /* says the pass only: an annotation */
    gpu_host_ns(f, f->thread, 10, 90, "h.0.attn (Attention)", "torch", FX_NONE);
    gpu_row_ns(f, f->thread, 20, 80, "matmul", "libtrain",
               fx_work(f, "matrix", "bf16", 100, 90, 95), FX_NONE);
    launch(f, f->thread, s, 30, 3, 1);
    const struct an_result *r = fx_analyze(f);
    check_sums(r, 3);
    assert_int_equal(ns(r, MODULE, "h.0.attn (Attention)"), 3);
    assert_int_equal(ns(r, ANNOTATION, "forward"), 3);
    assert_int_equal(row(r, OP, "matmul")->flops.value, 100);
    assert_int_equal(row(r, OP, "matmul")->bytes.value, 1500);
    assert_int_equal(row(r, MODULE, "h.0.attn (Attention)")->flops.value, 100);
    fx_close(f);
}

/* Rows that no profiler would write: the tables still sum to the device time. */
static void test_hostile(void **state)
{
    static const char *const category[] = {"op",         "op",      "op",    "python",
                                           "annotation", "runtime", "torch", "instant"};
    static const char *const name[] = {"aten::mm",
                                       "aten::convolution",
                                       "aten::cudnn_convolution_backward_weight",
                                       "CheckpointFunctionBackward",
                                       "autograd::engine::evaluate_function: X",
                                       "nn.Module: ",
                                       "a.py(1): f",
                                       "torch/utils/checkpoint.py(1): g",
                                       "ProfilerStep#1",
                                       "cudaLaunchKernel",
                                       ""};
    static const char *const payload[] = {
        NULL,
        "",
        "{",
        "[]",
        "{\"shapes\":[[2,2],[2,2]],\"types\":[\"float\",\"float\"]}",
        "{\"shapes\":[[1,2,4,4],[2,2,3,3],[]],\"types\":[\"float\",\"float\",\"\"]}",
        "{\"shapes\":[[9223372036854775807,9223372036854775807],[9223372036854775807,2]],\"types\":"
        "[\"float\",\"float\"]}",
        "{\"stack\":[\"b.py(2): g\",7]}",
        "{\"stack\":\";;;\"}"};
#define ANY(of) of[random_below(&random, sizeof(of) / sizeof *(of))]
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct fixture fx, *f = &fx;
        uint64_t random = seed * 77;
        int64_t all = 0, thread[3];
        fx_open(f);
        int64_t s = gpu_stream(f, f->process, random_below(&random, 2) ? "gpu:0" : "gpu:x", 7);
        FX(store_run_set(f->s, "device.1.gpu:0.name", "Tesla V100-SXM2-32GB"));
        thread[0] = f->thread;
        thread[1] = fx_track(f, f->process, "thread", "b", NULL);
        thread[2] =
            fx_track(f, fx_process(f, 1, "train"), seed % 3 ? "thread" : "range", "c", NULL);
        for (int i = 0; i < 300; i++) {
            int64_t at = (int64_t)random_below(&random, 400),
                    end = at + (int64_t)random_below(&random, 100);
            gpu_row_ns(
                f, ANY(thread), at, random_below(&random, 20) ? end : FX_NONE, ANY(name),
                ANY(category),
                random_below(&random, 3)
                    ? op_detail(f, random_below(&random, 2) ? "backward" : NULL, ANY(payload))
                    : FX_NONE,
                random_below(&random, 3) ? (int64_t)random_below(&random, 6) - 1 : FX_NONE);
        }
        for (int i = 0; i < 100; i++) {
            int64_t dur = (int64_t)random_below(&random, 500);
            gpu_kernel_ns(f, s, 1000 + i, 1000 + i + dur,
                          random_below(&random, 2) ? "volta_sgemm" : "k",
                          (int64_t)random_below(&random, 8) - 1);
            all += dur;
        }
        const struct an_result *r = fx_analyze(f);
        check_sums(r, all);
        for (size_t i = 0; i < r->point_count; i++)
            assert_true(isfinite(r->points[i].intensity) && r->points[i].time_ns > 0 &&
                        r->points[i].flops > 0);
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_innermost),
                                       cmocka_unit_test(test_backward),
                                       cmocka_unit_test(test_numbers_that_repeat),
                                       cmocka_unit_test(test_checkpoint),
                                       cmocka_unit_test(test_stacks),
                                       cmocka_unit_test(test_costs),
                                       cmocka_unit_test(test_absent),
                                       cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_own_recordings),
                                       cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
