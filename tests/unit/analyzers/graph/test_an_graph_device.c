/* SPDX-License-Identifier: Apache-2.0
 *
 * The device side of the dependency graph: launches, waits of streams told by rows, by calls and by
 * times, calls that wait for streams, events, devices and copies, the run-ahead limit.
 */
#include "analyzers/device/device_edges.h"
#include "tests/unit/an_graph.h"

#define GEMM "ampere_sgemm_128x64_nn"
#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

struct run {
    struct fixture f[1];
    struct graph_run g[1];
    const struct an_graph *graph;
    int64_t compute, comm;
    int64_t correlation;
};

static void begin(struct run *r)
{
    memset(r, 0, sizeof *r);
    struct fixture *f = r->f;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    r->compute = gpu_stream(f, f->process, "gpu:0", 7);
    r->comm = gpu_stream(f, f->process, "gpu:0", 20);
}

static void build(struct run *r)
{
    const char *why = NULL;
    struct an_context *c = graph_open(r->f, r->g);
    assert_int_equal(an_graph_of(c, &r->graph, &why), 0);
    assert_non_null(r->graph);
    graph_check(r->g, r->graph);
    assert_int_equal(r->graph->dropped, 0);
}

/* A call of the main thread, us. Returns its correlation. */
static int64_t call(struct run *r, int64_t start, int64_t end, const char *name)
{
    gpu_row(r->f, r->f->thread, start, end, name, "runtime", ++r->correlation);
    return r->correlation;
}

static void launch(struct run *r, int64_t stream, int64_t at, int64_t start, int64_t end,
                   const char *name)
{
    gpu_row(r->f, stream, start, end, name, "kernel", call(r, at, at + 4, "cudaLaunchKernel"));
}

/* A row of synchronisation on a stream that belongs to a call. */
static void row(struct run *r, int64_t track, int64_t start, int64_t end, const char *kind,
                int64_t correlation, int64_t stream, int64_t record)
{
    char payload[160], of[80] = "";
    if (stream >= 0)
        snprintf(of, sizeof of, ",\"stream\":%lld,\"event\":5", (long long)stream);
    struct store_detail d = fx_empty();
    snprintf(payload, sizeof payload, "{\"kind\":\"%s\"%s,\"record_correlation\":%lld}", kind, of,
             (long long)record);
    d.schema = "gpu.sync";
    d.payload = payload;
    gpu_row_ns(r->f, track, start * 1000, end * 1000, kind, "sync", fx_intern(r->f, &d),
               correlation);
}

/* Node of the nth slice of a name on a track. */
static uint32_t node(const struct run *r, const char *track, const char *name, int nth)
{
    size_t slice = graph_slice(r->g, track, name, nth);
    uint32_t found = AN_NONE;
    for (uint32_t n = 0; n < r->graph->node_count; n++)
        if (r->graph->slice[n] == slice)
            found = n; /* of several, the last */
    assert_int_not_equal(found, AN_NONE);
    return found;
}

/* Kind and flags of the edge between two nodes, 0x100: none. */
static unsigned edge(const struct run *r, uint32_t from, uint32_t to)
{
    for (uint32_t e = r->graph->in_first[to]; e < r->graph->in_first[to + 1]; e++)
        if (r->graph->in_from[e] == from)
            return r->graph->in_kind[e];
    return 0x100;
}

static void end(struct run *r)
{
    graph_close(r->f, r->g);
}

static void test_launches(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 10, 100, GEMM);
    launch(r, r->compute, 10, 100, 200, GEMM);
    int64_t graph = call(r, 20, 30, "cudaGraphLaunch");
    gpu_row(r->f, r->compute, 210, 220, "node_a", "kernel", graph);
    gpu_row(r->f, r->compute, 220, 240, "node_b", "kernel", graph);
    build(r);
    uint32_t first = node(r, "main", "cudaLaunchKernel", 0),
             second = node(r, "main", "cudaLaunchKernel", 1);
    assert_int_equal(edge(r, first, node(r, "stream 7", GEMM, 0)), AN_EDGE_LAUNCH);
    assert_int_equal(edge(r, second, node(r, "stream 7", GEMM, 1)), AN_EDGE_LAUNCH);
    uint32_t g = node(r, "main", "cudaGraphLaunch", 0);
    assert_int_equal(edge(r, g, node(r, "stream 7", "node_a", 0)), AN_EDGE_LAUNCH);
    assert_int_equal(edge(r, g, node(r, "stream 7", "node_b", 0)), AN_EDGE_LAUNCH);
    assert_int_equal(r->graph->by_kind[AN_EDGE_LAUNCH], 4);
    assert_true(r->graph->has_launches);
    end(r);
}

/* An event is recorded on the stream of the collective; compute waits for it, not for what is
 * launched there later. */
static void test_recorded_wait(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->comm, 0, 10, 100, NCCL);
    int64_t record = call(r, 6, 7, "cudaEventRecord");
    launch(r, r->comm, 8, 100, 400, NCCL);
    int64_t wait = call(r, 14, 15, "cudaStreamWaitEvent");
    row(r, r->compute, 14, 15, "Stream Wait Event", wait, 20, record);
    launch(r, r->compute, 20, 110, 200, GEMM);
    build(r);
    assert_int_equal(edge(r, node(r, "stream 20", NCCL, 0), node(r, "stream 7", GEMM, 0)),
                     AN_EDGE_STREAM);
    assert_int_equal(r->graph->by_kind[AN_EDGE_STREAM], 1);
    assert_int_equal(r->graph->inferred[AN_EDGE_STREAM], 0);
    end(r);
}

/* The same with the call alone: inferred. HIP's names, too. */
static void test_inferred_wait(void **state)
{
    (void)state;
    for (int hip = 0; hip < 2; hip++) {
        struct run r[1];
        begin(r);
        launch(r, r->comm, 0, 10, 100, NCCL);
        call(r, 6, 7, hip ? "hipEventRecord" : "cudaEventRecord");
        launch(r, r->comm, 8, 100, 400, NCCL);
        call(r, 14, 15, hip ? "hipStreamWaitEvent" : "cudaStreamWaitEvent");
        launch(r, r->compute, 20, 110, 200, GEMM);
        build(r);
        assert_int_equal(edge(r, node(r, "stream 20", NCCL, 0), node(r, "stream 7", GEMM, 0)),
                         AN_EDGE_STREAM | AN_EDGE_INFERRED);
        assert_int_equal(r->graph->by_kind[AN_EDGE_STREAM], 1);
        end(r);
    }
}

/* Two waits before a launch: the stream of the collective waits for compute, then compute for the
 * collective. */
static void test_two_waits(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 10, 100, GEMM);
    call(r, 6, 7, "cudaEventRecord");
    call(r, 8, 9, "cudaStreamWaitEvent");
    launch(r, r->comm, 12, 103, 300, NCCL);
    call(r, 18, 19, "cudaEventRecord");
    call(r, 20, 21, "cudaStreamWaitEvent"); /* compute for the collective */
    launch(r, r->compute, 26, 305, 400, GEMM);
    build(r);
    uint32_t nccl = node(r, "stream 20", NCCL, 0);
    assert_int_equal(edge(r, node(r, "stream 7", GEMM, 0), nccl),
                     AN_EDGE_STREAM | AN_EDGE_INFERRED);
    assert_int_equal(edge(r, nccl, node(r, "stream 7", GEMM, 1)),
                     AN_EDGE_STREAM | AN_EDGE_INFERRED);
    assert_int_equal(r->graph->by_kind[AN_EDGE_STREAM], 2);
    end(r);
}

/* Without any wait in the file an op that begins when another stream's op ends waited for it; not
 * one that was launched only then, and not one that begins long after. */
static void test_wait_by_time(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->comm, 0, 10, 100, NCCL);
    launch(r, r->compute, 6, 105, 200, GEMM);
    launch(r, r->comm, 300, 310, 400, NCCL);
    launch(r, r->compute, 402, 408, 500, GEMM); /* launched behind the end */
    launch(r, r->comm, 506, 510, 600, NCCL);
    launch(r, r->compute, 512, 650, 700, GEMM); /* 50 us behind */
    build(r);
    assert_int_equal(edge(r, node(r, "stream 20", NCCL, 0), node(r, "stream 7", GEMM, 0)),
                     AN_EDGE_STREAM | AN_EDGE_INFERRED);
    assert_int_equal(r->graph->by_kind[AN_EDGE_STREAM], 1);
    end(r);
}

static void test_syncs(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 10, 100, GEMM);
    launch(r, r->comm, 5, 20, 150, NCCL);
    int64_t stream = call(r, 10, 104, "cudaStreamSynchronize"); /* its row says which */
    row(r, r->compute, 11, 103, "Stream Sync", stream, -1, -1);
    call(r, 110, 155, "cudaEventSynchronize"); /* no row: what ended inside */
    launch(r, r->compute, 160, 165, 200, GEMM);
    launch(r, r->comm, 165, 170, 220, NCCL);
    call(r, 170, 225, "cudaDeviceSynchronize");
    build(r);
    uint32_t all = node(r, "main", "cudaDeviceSynchronize", 0);
    assert_int_equal(
        edge(r, node(r, "stream 7", GEMM, 0), node(r, "main", "cudaStreamSynchronize", 0)),
        AN_EDGE_SYNC);
    assert_int_equal(
        edge(r, node(r, "stream 20", NCCL, 0), node(r, "main", "cudaEventSynchronize", 0)),
        AN_EDGE_SYNC | AN_EDGE_INFERRED);
    assert_int_equal(edge(r, node(r, "stream 7", GEMM, 1), all), AN_EDGE_SYNC);
    assert_int_equal(edge(r, node(r, "stream 20", NCCL, 1), all), AN_EDGE_SYNC);
    assert_int_equal(r->graph->by_kind[AN_EDGE_SYNC], 4);
    assert_int_equal(r->graph->kind[all], AN_NODE_WAIT);
    end(r);
}

/* A process with one stream, with rows of what its calls waited for and without: the edges are the
 * same. Only where an event was reached before the call, which then waited for nothing, and where
 * two events were reached inside of it, the op is inferred. */
static void test_one_stream(void **state)
{
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct run r[1];
        unsigned guess = rows ? 0 : AN_EDGE_INFERRED;
        begin(r);
        launch(r, r->compute, 0, 10, 100, GEMM);
        int64_t record = call(r, 5, 6, "cudaEventRecord");
        launch(r, r->compute, 7, 100, 102, GEMM); /* it ends before the host is awake */
        launch(r, r->compute, 12, 103, 200, GEMM);
        call(r, 17, 18, "cudaEventRecord");
        int64_t event = call(r, 20, 104, "cudaEventSynchronize");
        int64_t stream = call(r, 110, 205, "cudaStreamSynchronize");
        int64_t idle = call(r, 210, 212, "cudaStreamSynchronize");
        launch(r, r->compute, 220, 225, 300, GEMM);
        int64_t last = call(r, 225, 226, "cudaEventRecord");
        int64_t device = call(r, 230, 305, "cudaDeviceSynchronize");
        int64_t reached = call(r, 310, 312, "cudaEventSynchronize");
        launch(r, r->compute, 320, 325, 400, GEMM);
        int64_t first = call(r, 325, 326, "cudaEventRecord");
        launch(r, r->compute, 330, 400, 410, GEMM);
        call(r, 335, 336, "cudaEventRecord");
        int64_t either = call(r, 340, 415, "cudaEventSynchronize");
        if (rows) {
            row(r, r->compute, 21, 103, "Event Sync", event, 7, record);
            row(r, r->compute, 111, 204, "Stream Sync", stream, -1, -1);
            row(r, r->compute, 210, 211, "Stream Sync", idle, -1, -1);
            row(r, r->compute, 231, 304, "Context Sync", device, -1, -1);
            row(r, r->compute, 310, 311, "Event Sync", reached, 7, last);
            row(r, r->compute, 341, 414, "Event Sync", either, 7, first);
        }
        build(r);
        const struct {
            int op;
            const char *call;
            int nth;
            unsigned flags;
        } want[] = {{0, "cudaEventSynchronize", 0, 0},
                    {2, "cudaStreamSynchronize", 0, 0},
                    {2, "cudaStreamSynchronize", 1, 0},
                    {3, "cudaDeviceSynchronize", 0, 0},
                    {3, "cudaEventSynchronize", 1, guess},
                    {rows ? 4 : 5, "cudaEventSynchronize", 2, guess}};
        for (size_t i = 0; i < sizeof want / sizeof *want; i++)
            assert_int_equal(edge(r, node(r, "stream 7", GEMM, want[i].op),
                                  node(r, "main", want[i].call, want[i].nth)),
                             AN_EDGE_SYNC | want[i].flags);
        assert_int_equal(r->graph->by_kind[AN_EDGE_SYNC], 6);
        end(r);
    }
}

/* With a second stream a call may mean either: what ended last inside of it is inferred. */
static void test_two_streams(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 10, 100, GEMM);
    launch(r, r->comm, 5, 20, 90, NCCL);
    call(r, 10, 104, "cudaStreamSynchronize");
    build(r);
    assert_int_equal(
        edge(r, node(r, "stream 7", GEMM, 0), node(r, "main", "cudaStreamSynchronize", 0)),
        AN_EDGE_SYNC | AN_EDGE_INFERRED);
    assert_int_equal(r->graph->by_kind[AN_EDGE_SYNC], 1);
    end(r);
}

/* Where the recorder left waits out, they are inferred from the calls: all that have no row between
 * the times that the run keys say. A call without a row at another time waited for nothing that the
 * recorder saw. */
static void test_unrecorded(void **state)
{
    (void)state;
    enum { NO_KEY, OFF_AND_ON, OFF, KEYS };
    for (int keys = 0; keys < KEYS; keys++) {
        struct run r[1];
        struct fixture *f = r->f;
        char key[64];
        begin(r);
        for (int i = 0; i < 5; i++) {
            int64_t at = 500 * i;
            launch(r, r->comm, at, at + 10, at + 100, NCCL);
            int64_t record = call(r, at + 6, at + 7, "cudaEventRecord");
            int64_t wait = call(r, at + 14, at + 15, "cudaStreamWaitEvent");
            if (i == 0 || i == 3)
                row(r, r->compute, at + 14, at + 15, "Stream Wait Event", wait, 20, record);
            launch(r, r->compute, at + 20, at + 110, at + 200, GEMM);
        }
        for (int which = OFF; keys && which >= keys; which--) {
            snprintf(key, sizeof key, "process.%lld.waits_%s_ns", (long long)f->process,
                     which == OFF ? "off" : "on");
            FX(store_run_set_int(f->s, key, (which == OFF ? 10 : 1510) * 1000));
        }
        build(r);
        /* 0 and 3 have rows, 1 and 2 lie between the times, 4 behind them */
        for (int i = 0; i < 5; i++) {
            bool recorded = i == 0 || i == 3, left_out = i == 4 ? keys == OFF : keys != NO_KEY;
            unsigned want = 0x100;
            if (recorded)
                want = AN_EDGE_STREAM;
            else if (left_out)
                want = AN_EDGE_STREAM | AN_EDGE_INFERRED;
            assert_int_equal(edge(r, node(r, "stream 20", NCCL, i), node(r, "stream 7", GEMM, i)),
                             want);
        }
        assert_int_equal(r->graph->inferred[AN_EDGE_STREAM], keys == OFF ? 3 : keys ? 2 : 0);
        end(r);
    }
}

/* A copy that makes the host wait behind a kernel: the call launches for as long as the copy took
 * to begin once the stream was free, and waits for the rest. An asynchronous one from locked memory
 * holds nobody. */
static void test_copies(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 10, 100, GEMM);
    int64_t copy = call(r, 20, 152, "cudaMemcpyAsync");
    gpu_row_ns(r->f, r->compute, 103000, 150000, "Memcpy DtoH", "memcpy",
               gpu_copy(r->f, "DtoH", "pageable", 4), copy);
    copy = call(r, 160, 190, "cudaMemcpyAsync");
    gpu_row_ns(r->f, r->compute, 165000, 180000, "Memcpy HtoD", "memcpy",
               gpu_copy(r->f, "HtoD", "pinned", 4), copy);
    build(r);
    size_t slice = graph_slice(r->g, "main", "cudaMemcpyAsync", 0);
    uint32_t wait = node(r, "main", "cudaMemcpyAsync", 0),
             op = node(r, "stream 7", "Memcpy DtoH", 0), begun = wait - 1;
    assert_int_equal(r->graph->kind[wait], AN_NODE_WAIT);
    assert_int_equal(r->graph->cause[wait], AN_CAUSE_COPY);
    assert_int_equal(r->graph->slice[begun], slice);
    assert_int_equal(r->graph->end[begun] - r->graph->start[begun], 3000);
    assert_int_equal(edge(r, begun, op), AN_EDGE_LAUNCH);
    assert_int_equal(edge(r, op, wait), AN_EDGE_SYNC);
    assert_int_equal(r->graph->by_kind[AN_EDGE_SYNC], 1);
    end(r);
}

/* 1,024 kernels wait on a stream: the call of the next one is behind the start of the first. */
static void test_run_ahead(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 10, 15, GEMM);
    for (int i = 1; i < 1030; i++)
        launch(r, r->compute, 10 * i, 10 * i + 10, 10 * i + 15, GEMM);
    build(r);
    assert_int_equal(r->graph->by_kind[AN_EDGE_CREDIT], 1030 - 1024 - 1);
    assert_int_equal(r->graph->inferred[AN_EDGE_CREDIT], r->graph->by_kind[AN_EDGE_CREDIT]);
    assert_int_equal(
        edge(r, node(r, "stream 7", GEMM, 0), node(r, "main", "cudaLaunchKernel", 1025)),
        AN_EDGE_CREDIT | AN_EDGE_INFERRED);
    end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches),      cmocka_unit_test(test_recorded_wait),
        cmocka_unit_test(test_inferred_wait), cmocka_unit_test(test_two_waits),
        cmocka_unit_test(test_wait_by_time),  cmocka_unit_test(test_syncs),
        cmocka_unit_test(test_copies),        cmocka_unit_test(test_run_ahead),
        cmocka_unit_test(test_one_stream),    cmocka_unit_test(test_two_streams),
        cmocka_unit_test(test_unrecorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
