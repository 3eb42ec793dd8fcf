/* SPDX-License-Identifier: Apache-2.0
 *
 * Critical paths worked out by hand, and what holds of every path: it covers its window once, and
 * neighbours share an edge of the graph or program order, or are marked.
 */
#include "analyzers/graph/critical_path.h"
#include "analyzers/table.h"
#include "tests/unit/an_graph.h"

/* Is there an edge of this kind from node a to node b? */
static bool has_edge(const struct an_graph *g, uint32_t a, uint32_t b, unsigned link)
{
    for (uint32_t e = g->in_first[b]; e < g->in_first[b + 1]; e++) {
        uint32_t from =
            g->in_kind[e] & AN_EDGE_AT_START ? an_graph_before(g, g->in_from[e]) : g->in_from[e];
        if (from == a && (g->in_kind[e] & AN_EDGE_KIND_MASK) == link)
            return true;
    }
    return false;
}

static void check_walk(const struct an_graph *g, const struct an_path_walk *p)
{
    assert_true(p->count > 0);
    assert_int_equal(p->segment[0].start, p->window.start);
    assert_int_equal(p->segment[p->count - 1].end, p->window.end);
    for (size_t i = 0; i < p->count; i++) {
        const struct an_path_segment *a = &p->segment[i], *b = a + 1;
        assert_true(a->start <= a->end);
        assert_int_equal(a->node == AN_NONE, a->how == AN_PATH_GAP);
        if (a->node != AN_NONE && a->cause != AN_CAUSE_DISPATCH && a->cause != AN_CAUSE_OPAQUE)
            assert_true(g->start[a->node] <= a->start && a->end <= g->end[a->node]);
        if (i + 1 == p->count)
            break;
        assert_int_equal(a->end, b->start);
        if (a->how == AN_PATH_GAP || b->how == AN_PATH_GAP)
            assert_int_equal(a->link, AN_PATH_NONE);
        else if (a->link == AN_PATH_ORDER)
            assert_int_equal(a->node, an_graph_before(g, b->node));
        else if (a->link == AN_PATH_SAME)
            assert_int_equal(a->node, b->node);
        else if (a->link == AN_PATH_NEAREST)
            assert_int_equal(a->how, AN_PATH_INFERRED);
        else
            assert_true(has_edge(g, a->node, b->node, a->link));
    }
}

/* Walks the windows of all lanes, and every step alone; ns[] gets the causes of the first window of
 * the first lane. */
static void walk_all(struct graph_run *run, int64_t ns[AN_CAUSE_COUNT], struct an_path_walk *first)
{
    const struct an_graph *g;
    const char *why;
    struct an_path_walk p = {0};
    assert_int_equal(an_graph_of(&run->context, &g, &why), 0);
    assert_non_null(g);
    graph_check(run, g);
    memset(ns, 0, AN_CAUSE_COUNT * sizeof *ns);
    for (uint32_t l = 0; l < run->context.lane_count; l++) {
        struct an_window *w;
        size_t n;
        assert_int_equal(an_windows_of(&run->context, l, &w, &n), 0);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(an_path_walk(&run->context, g, &w[i], &p), 0);
            check_walk(g, &p);
            if (!l && !i) {
                assert_int_equal(an_path_walk(&run->context, g, &w[i], first), 0);
                assert_int_equal(an_path_label(&run->context, g, first), 0);
                for (size_t k = 0; k < first->count; k++)
                    ns[first->segment[k].cause] += first->segment[k].end - first->segment[k].start;
            }
            for (size_t s = w[i].first; s < w[i].first + w[i].count; s++) {
                struct an_window one = {l, s, 1, run->context.step[s].start,
                                        run->context.step[s].end};
                assert_int_equal(an_path_walk(&run->context, g, &one, &p), 0);
                check_walk(g, &p);
            }
        }
    }
    free(p.segment);
}

/* A run that is made by hand, and the walk through the first window of its first lane. */
struct path_case {
    struct fixture fx;
    struct graph_run run;
    struct an_path_walk p;
    int64_t ns[AN_CAUSE_COUNT], steps; /* by cause; steps of the window */
};

/* source: the tool that recorded it, NULL: tacho. The case's fixture, to add rows to. */
static struct fixture *path_open(struct path_case *x, const char *source)
{
    struct fixture *f = &x->fx;
    memset(x, 0, sizeof *x);
    fx_open(f);
    if (source)
        FX(store_run_set(f->s, "source", source));
    return f;
}

static void path_walk(struct path_case *x)
{
    graph_open(&x->fx, &x->run);
    walk_all(&x->run, x->ns, &x->p);
    x->steps = (int64_t)x->p.window.count;
}

static void path_close(struct path_case *x)
{
    free(x->p.segment);
    graph_close(&x->fx, &x->run);
}

#define STEPS 6

static void host_step(struct fixture *f, int i, int64_t b, int64_t us)
{
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i);
    gpu_row(f, f->thread, b, b + us, name, "annotation", FX_NONE);
}

/* The host needs 100 us for the two launches of a step, the device 20 us: the host is the path, but
 * for the last launch of the window's steps nothing of the device is on it. A copy on a stream of
 * its own ends last, and gates nothing. */
static void test_host_bound(void **state)
{
    struct path_case x;
    struct fixture *f = path_open(&x, "kineto");
    (void)state;
    int64_t s7 = gpu_stream(f, f->process, "gpu:0", 7), s9 = gpu_stream(f, f->process, "gpu:0", 9);
    for (int i = 0; i < STEPS; i++) {
        int64_t b = i * 100, c = 10 * i;
        host_step(f, i, b, 100);
        gpu_row(f, f->thread, b, b + 90, "aten::mm", "op", FX_NONE);
        gpu_launch(f, s7, b + 20, b + 30, b + 32, b + 42, "gemm", c + 1);
        gpu_launch(f, s7, b + 60, b + 70, b + 72, b + 82, "gemm", c + 2);
        gpu_row(f, f->thread, b + 80, b + 85, "cudaMemcpyAsync", "runtime", c + 3);
        gpu_row(f, s9, b + 90, b + 150, "Memcpy HtoD", "memcpy", c + 3);
    }
    path_walk(&x);
    int64_t sum = 0;
    for (int k = 0; k < AN_CAUSE_COUNT; k++)
        sum += x.ns[k];
    assert_int_equal(sum, x.p.window.end - x.p.window.start);
    assert_int_equal(sum, x.steps * 100000);
    assert_int_equal(x.ns[AN_CAUSE_COMPUTE], 0);
    assert_int_equal(x.ns[AN_CAUSE_COPY], 0);
    assert_int_equal(x.ns[AN_CAUSE_GAP], 0);
    assert_int_equal(x.ns[AN_CAUSE_UNTRACED], x.steps * 10000); /* 90 - 100 of each step */
    assert_int_equal(x.ns[AN_CAUSE_LAUNCH],
                     x.steps * 25000); /* the first kernel starts 2 us behind its launch */
    path_close(&x);
}

/* The device needs 100 us a step, the host 20 us, and it waits at the end of each step until the
 * device is done: the device is the path, but for the launch of the next step's first kernel. */
static void test_device_bound(void **state)
{
    struct path_case x;
    struct fixture *f = path_open(&x, "kineto");
    (void)state;
    int64_t s7 = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < STEPS; i++) {
        int64_t b = i * 120, c = 10 * i;
        host_step(f, i, b, 120);
        gpu_launch(f, s7, b, b + 8, b + 10, b + 60, "gemm", c + 1);
        gpu_launch(f, s7, b + 8, b + 16, b + 60, b + 110, "relu", c + 2);
        gpu_row(f, f->thread, b + 16, b + 115, "cudaDeviceSynchronize", "runtime", c + 3);
    }
    path_walk(&x);
    assert_int_equal(x.ns[AN_CAUSE_COMPUTE], x.steps * 100000);
    assert_int_equal(x.ns[AN_CAUSE_SYNC], x.steps * 5000); /* what the call needs to come back */
    assert_int_equal(x.ns[AN_CAUSE_LAUNCH], x.steps * 8000);
    assert_int_equal(x.ns[AN_CAUSE_DISPATCH], x.steps * 2000);
    assert_int_equal(x.ns[AN_CAUSE_UNTRACED], x.steps * 5000);
    path_close(&x);
}

/* What a picture of the path through a step may be drawn from: it covers the step, every number is
 * in its table. */
static void check_step(const struct an_path_step *x, int64_t ns)
{
    int64_t at = 0, lanes = 0, reasons = 0;
    assert_true(x->stretch_count && x->stretch_count <= AN_PATH_STRETCHES_MOST);
    assert_true(x->lane_count && x->lane_count <= AN_PATH_LANES_MOST);
    assert_near(x->ms, (double)ns / 1e6, 1e-9);
    for (size_t i = 0; i < x->stretch_count; i++) {
        const struct an_path_stretch *s = &x->stretch[i];
        assert_int_equal(s->start_ns, at);
        assert_true(s->dur_ns > 0 && s->merged && s->lane >= -1 && s->lane < (int)x->lane_count);
        assert_true(s->reason >= 0 && s->reason < (int)x->reason_count);
        assert_true(i + 1 < x->stretch_count ? *s->link != 0 : !*s->link);
        at += s->dur_ns;
    }
    assert_int_equal(at, ns);
    for (size_t i = 0; i < x->lane_count; i++)
        lanes += x->lane[i].ns;
    for (size_t i = 0; i < x->reason_count; i++) {
        reasons += x->reason[i].ns;
        lanes += !strcmp(x->reason[i].key, "gap") ? x->reason[i].ns : 0;
        assert_true(!i || x->reason[i].ns <= x->reason[i - 1].ns);
    }
    assert_int_equal(lanes, ns);
    assert_int_equal(reasons, ns);
}

static size_t hand_overs(const struct an_path_step *x, const char *from, const char *to,
                         const char *link)
{
    size_t n = 0;
    for (size_t i = 0; i < x->stretch_count; i++)
        n += an_path_hands_over(x, i) && !strcmp(x->lane[x->stretch[i].lane].name, from) &&
             !strcmp(x->lane[x->stretch[i + 1].lane].name, to) && !strcmp(x->stretch[i].link, link);
    return n;
}

/* Each kernel is waited for before the next one is launched: the path goes to and fro. Steps 0 - 4
 * have four kernels, the last one, which takes most of the time, has 400 times as many: it is the
 * one that is drawn, with merged stretches. */
static void to_and_fro(int kernels, struct fixture *f, struct graph_run *run)
{
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    int64_t s7 = gpu_stream(f, f->process, "gpu:0", 7), at = 0;
    for (int i = 0; i < STEPS; i++) {
        int64_t b = at;
        for (int k = 0; k < (i == STEPS - 2 ? kernels : 4); k++, at += 40) {
            gpu_launch(f, s7, at, at + 8, at + 10, at + 30, "gemm", at + 1);
            gpu_row(f, f->thread, at + 9, at + 35, "cudaDeviceSynchronize", "runtime", at + 2);
        }
        host_step(f, i, b, at - b);
    }
    graph_open(f, run);
    assert_int_equal(an_critical_path.run(&run->context), 0);
}

static void test_step(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    (void)state;
    for (int kernels = 4; kernels <= 1600; kernels *= 400) {
        to_and_fro(kernels, f, &run);
        const struct an_path_step *x = &run.result.critical_path.step;
        const struct an_path_lane *lane = x->lane;
        check_step(x, 40000 * (int64_t)kernels);
        assert_int_equal(x->lane_count, 2);
        assert_string_equal(lane[0].kind, strcmp(lane[0].name, "main") != 0 ? "stream" : "thread");
        assert_string_equal(x->reason[0].key, "compute");
        assert_int_equal(x->reason[0].ns, 20000 * (int64_t)kernels);
        const char *stream = lane[!strcmp(lane[0].name, "main")].name;
        if (kernels == 4) { /* the launch of the next step's first kernel included */
            assert_int_equal(hand_overs(x, "main", stream, "launch"), 4);
            assert_int_equal(hand_overs(x, stream, "main", "sync"), 4);
        } else { /* no hand-over of merged stretches is told as if it were one */
            size_t merged = 0;
            for (size_t i = 0; i < x->stretch_count; i++)
                merged += x->stretch[i].merged - 1;
            assert_true(x->stretch_count + merged > 3 * 1600);
        }
        graph_close(f, &run);
    }
}

/* An op without a launch in the file that starts late: 200 us are a gap, and no other time is. */
static void test_gap(void **state)
{
    struct path_case x;
    struct fixture *f = path_open(&x, "kineto");
    (void)state;
    int64_t s7 = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < STEPS; i++) {
        int64_t b = i * 1000, c = 10 * i;
        host_step(f, i, b, 1000);
        gpu_launch(f, s7, b, b + 10, b + 10, b + 500, "gemm", c + 1);
        gpu_row(f, s7, b + 700, b + 990, "lost", "kernel", c + 2);
    }
    path_walk(&x);
    assert_true(x.ns[AN_CAUSE_COMPUTE] + x.ns[AN_CAUSE_GAP] <= x.steps * 1000000);
    struct an_context *c = &x.run.context;
    assert_int_equal(an_critical_path.run(c), 0);
    const struct an_critical_path *r = &x.run.result.critical_path;
    assert_null(r->reason);
    assert_int_equal(r->length_ns.value, r->window_ns.value);
    assert_near(r->gap_pct.value, 100.0 * (double)x.ns[AN_CAUSE_GAP] / (double)r->length_ns.value,
                1e-9);
    assert_true((r->explained_pct.value < 90) == (r->doubt != NULL));
    path_close(&x);
}

/* Two ranks: the second one works 300 of 500, the first one 100 and waits; 100 are transfer.
 * Whoever's window it is, the path is the second rank's work and the transfer. */
static void test_two_ranks(void **state)
{
    struct path_case x;
    struct fixture *f = path_open(&x, NULL);
    int64_t thread[2], process[2];
    (void)state;
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    struct store_detail d = fx_empty();
    d.schema = "tacho.comm";
    d.collective = "all_reduce";
    d.communicator = 1;
    d.ranks = 2;
    int64_t comm = fx_intern(f, &d);
    for (int r = 0; r < 2; r++) {
        process[r] = fx_process(f, r, "train");
        thread[r] = fx_track(f, process[r], "thread", "main", NULL);
    }
    for (int i = 0; i < STEPS; i++)
        for (int r = 0; r < 2; r++) {
            int64_t b = i * 500, busy = r ? 300 : 100;
            fx_step(f, process[r], thread[r], i, b, b + 500, 8, false);
            fx_slice(f, thread[r], b, b + busy, "matmul", work);
            struct store_slice slice = {.track = thread[r],
                                        .start = FX_BASE + b + busy,
                                        .dur = 400 - busy,
                                        .name = fx_string(f, "all_reduce"),
                                        .category = fx_string(f, "test"),
                                        .detail = comm,
                                        .correlation = i};
            FX(store_slice_add(f->s, &slice));
            fx_slice(f, thread[r], b + 400, b + 500, "adamw", work);
        }
    path_walk(&x);
    assert_int_equal(x.ns[AN_CAUSE_PEERS], 0);
    assert_int_equal(x.ns[AN_CAUSE_TRANSFER], x.steps * 100);
    assert_int_equal(x.ns[AN_CAUSE_COMPUTE], x.steps * 400);
    size_t second = 0, other = 0;
    for (size_t i = 0; i < x.p.count; i++)
        if (x.p.segment[i].cause == AN_CAUSE_COMPUTE &&
            x.p.segment[i].end - x.p.segment[i].start >= 300) {
            const struct an_track *k =
                &x.run.trace->track[x.run.context.graph->track[x.p.segment[i].node]];
            second += x.run.trace->process[k->process].rank == 1;
            other += x.run.trace->process[k->process].rank != 1;
        }
    assert_true(second > 0);
    assert_int_equal(other, 0);
    path_close(&x);
}

/* One rank of a device-bound job: steps of 500 us that are launched 200 us ahead; the all-reduce
 * begins when its gemm is done, and ends 400 us after the step began. */
static void device_rank(struct fixture *f, int64_t rank, int64_t busy, const char *sequence)
{
    int64_t process = fx_process(f, rank, "train"),
            thread = fx_track(f, process, "thread", "main", NULL), c = 1000 * rank;
    int64_t stream = gpu_stream(f, process, "gpu:0", 7);
    for (int i = 0; i < STEPS; i++, c += 3) {
        int64_t b = i * 500 + 500, call = b - 200;
        char name[32], payload[64];
        struct store_detail d = fx_empty();
        d.schema = "torch.comm";
        d.collective = "all_reduce";
        d.communicator = 5;
        d.ranks = 2;
        d.bytes = 4;
        snprintf(payload, sizeof payload, sequence, i);
        d.payload = payload;
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(f, thread, call, call + 500, name, "annotation", FX_NONE);
        for (int k = 0; k < 3; k++)
            gpu_row(f, thread, call + 2 * k, call + 2 * k + 2, "cudaLaunchKernel", "runtime",
                    c + k);
        gpu_row(f, stream, b, b + busy, "gemm", "kernel", c);
        gpu_row_ns(f, stream, (b + busy) * 1000, (b + 400) * 1000,
                   "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "kernel", fx_intern(f, &d), c + 1);
        gpu_row(f, stream, b + 400, b + 500, "adamw", "kernel", c + 2);
    }
}

/* The same on devices: kernels of the collective spin until the second rank's has begun. Whoever's
 * window it is, the path is the second rank's gemm and the transfer. Without sequence numbers the
 * place in the step tells which are one collective: inferred. */
static void test_two_devices(void **state)
{
    (void)state;
    for (int counted = 0; counted < 2; counted++) {
        struct fixture fx, *f = &fx;
        struct graph_run run;
        struct an_path_walk p = {0};
        int64_t ns[AN_CAUSE_COUNT];
        fx_open(f);
        FX(store_run_set(f->s, "source", "kineto"));
        device_rank(f, 0, 100, counted ? "{}" : "{\"sequence\":%d}");
        device_rank(f, 1, 300, counted ? "{}" : "{\"sequence\":%d}");
        graph_open(f, &run);
        walk_all(&run, ns, &p);
        const struct an_graph *g = run.context.graph;
        int64_t steps = (int64_t)p.window.count, second = 0;
        assert_true(steps >= STEPS - 2);
        assert_int_equal(g->by_kind[AN_EDGE_COLLECTIVE], 2 * STEPS);
        assert_int_equal(g->inferred[AN_EDGE_COLLECTIVE], counted ? 2 * STEPS : 0);
        assert_int_equal(ns[AN_CAUSE_PEERS], 0);
        assert_int_equal(ns[AN_CAUSE_TRANSFER], steps * 100000);
        assert_int_equal(ns[AN_CAUSE_COMPUTE], steps * 400000);
        for (size_t i = 0; i < p.count; i++)
            if (p.segment[i].cause == AN_CAUSE_COMPUTE &&
                p.segment[i].end - p.segment[i].start > 200000) {
                second++;
                assert_int_equal(
                    run.trace->process[run.trace->track[g->track[p.segment[i].node]].process].rank,
                    1);
            }
        assert_int_equal(second, steps);
        size_t waits = 0;
        for (uint32_t n = 0; n < g->node_count; n++)
            if (an_graph_on_device(g, n) && g->kind[n] == AN_NODE_WAIT) {
                waits++;
                assert_int_equal(g->kind[an_graph_head(g, n)], AN_NODE_DEVICE);
                assert_int_equal(an_graph_head(g, n + 1), n - 1);
                assert_int_equal(g->slice[n], g->slice[n - 1]);
            }
        assert_int_equal(waits, 2 * STEPS);
        free(p.segment);
        graph_close(f, &run);
    }
}

/* A worker makes a batch in 900, the step needs 100 of them: the path stays with the worker. A
 * second batch may be made while the first one is used (one slot more than the batch that is held).
 */
static void test_loader(void **state)
{
    struct path_case x;
    struct fixture *f = path_open(&x, NULL);
    (void)state;
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1), wait = fx_kind(f, "input_wait");
    int64_t worker = fx_track(f, f->process, "thread", "loader-0", NULL);
    for (int i = 0; i < STEPS; i++) {
        int64_t made = 900 * (i + 1);
        fx_slice(f, worker, made - 900, made - 300, "read", fx_kind(f, "read"));
        fx_slice(f, worker, made - 300, made, "collate", fx_kind(f, "collate"));
        int64_t b = i ? made - 790 : 0; /* behind the step before */
        fx_step(f, f->process, f->thread, i, b, made + 110, 8, false);
        fx_slice(f, f->thread, b, made + 10, "input_wait", wait);
        fx_slice(f, f->thread, made + 10, made + 110, "matmul", work);
    }
    path_walk(&x);
    assert_int_equal(x.ns[AN_CAUSE_COMPUTE], 100); /* of the last step only */
    assert_int_equal(x.ns[AN_CAUSE_INPUT], x.p.window.end - x.p.window.start - 100);
    assert_int_equal(x.run.context.graph->by_kind[AN_EDGE_HANDOFF], STEPS);
    assert_int_equal(x.run.context.graph->inferred[AN_EDGE_HANDOFF], 0);
    path_close(&x);
}

/* Backward on a thread of its own, while the step's thread stands still inside of a Python frame.
 */
static void test_backward(void **state)
{
    struct path_case x;
    struct fixture *f = path_open(&x, "kineto");
    (void)state;
    int64_t s7 = gpu_stream(f, f->process, "gpu:0", 7);
    int64_t other = fx_track(f, f->process, "thread", "pt_autograd_0", NULL);
    for (int i = 0; i < STEPS; i++) {
        int64_t b = i * 300, c = 10 * i;
        host_step(f, i, b, 300);
        gpu_launch(f, s7, b + 10, b + 20, b + 21, b + 30, "gemm", c + 1);
        gpu_row(f, f->thread, b + 30, b + 250, "run_backward", "python", FX_NONE);
        gpu_row(f, other, b + 50, b + 230, "autograd::engine::evaluate_function: Mm", "op",
                FX_NONE);
        gpu_row(f, other, b + 100, b + 110, "cudaLaunchKernel", "runtime", c + 2);
        gpu_row(f, s7, b + 112, b + 120, "gemm", "kernel", c + 2);
    }
    path_walk(&x);
    size_t on_other = 0;
    int64_t there = 0;
    for (size_t i = 0; i < x.p.count; i++)
        if (x.p.segment[i].node != AN_NONE &&
            !strcmp(x.run.trace->track[x.run.context.graph->track[x.p.segment[i].node]].name,
                    "pt_autograd_0")) {
            on_other++;
            there += x.p.segment[i].end - x.p.segment[i].start;
        }
    assert_true(on_other > 0);
    assert_int_equal(there,
                     x.steps * 180000); /* 50 - 230 of each step: what the main thread waits for */
    assert_int_equal(x.run.context.graph->inferred[AN_EDGE_HANDOFF], 0);
    assert_true(x.run.context.graph->by_kind[AN_EDGE_HANDOFF] >= 2 * STEPS - 1);
    path_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_bound), cmocka_unit_test(test_device_bound),
        cmocka_unit_test(test_step),       cmocka_unit_test(test_gap),
        cmocka_unit_test(test_two_ranks),  cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_loader),     cmocka_unit_test(test_backward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
