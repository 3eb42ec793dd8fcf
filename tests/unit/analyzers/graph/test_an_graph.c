/* SPDX-License-Identifier: Apache-2.0
 *
 * The dependency graph's container on small runs: pieces of threads, edges in columns, circles and
 * contradictions.
 */
#include "analyzers/graph/graph_private.h"
#include "tests/unit/an_graph.h"

static void check_node(const struct an_graph *g, uint32_t n, int64_t start, int64_t end,
                       enum an_node_kind kind)
{
    if (g->start[n] != FX_BASE + start || g->end[n] != FX_BASE + end || g->kind[n] != kind)
        fail_msg("node %u is %lld .. %lld of kind %d, not %lld .. %lld of kind %d", n,
                 (long long)(g->start[n] - FX_BASE), (long long)(g->end[n] - FX_BASE), g->kind[n],
                 (long long)start, (long long)end, kind);
}

/* ---- threads in pieces --------------------------------------------------------------------------------------------------- */

/* Ranges nest; what none covers is THINK; a range without a role inside one is no piece of its own.
 */
static void test_pieces(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    const struct an_graph *g;
    const char *why;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    fx_slice(f, f->thread, 0, 1000, "host", fx_kind(f, "host"));
    fx_slice(f, f->thread, 100, 400, "a", work);
    fx_slice(f, f->thread, 200, 300, "inside", FX_NONE);
    fx_slice(f, f->thread, 400, 1000, "b", work);
    fx_slice(f, f->thread, 500, 500, "mark", work);
    fx_slice(f, f->thread, 1200, 1300, "unmarked", FX_NONE);
    int64_t idle = fx_track(f, f->process, "thread", "idle", NULL);
    fx_slice(f, idle, 0, 100, "nothing", FX_NONE); /* nobody can depend on it */
    assert_int_equal(an_graph_of(graph_open(f, &run), &g, &why), 0);
    assert_non_null(g);
    graph_check(&run, g);
    assert_int_equal(g->node_count, 7);
    check_node(g, 0, 0, 100, AN_NODE_HOST);
    check_node(g, 1, 100, 400, AN_NODE_HOST);
    check_node(g, 2, 400, 500, AN_NODE_HOST);
    check_node(g, 3, 500, 500, AN_NODE_HOST);
    check_node(g, 4, 500, 1000, AN_NODE_HOST);
    check_node(g, 5, 1000, 1200, AN_NODE_UNTRACED);
    check_node(g, 6, 1200, 1300, AN_NODE_HOST);
    assert_int_equal(g->slice[2], graph_slice(&run, "main", "b", 0));
    assert_int_equal(g->slice[2], g->slice[4]);
    assert_int_equal(g->slice[5], AN_NONE);
    assert_int_equal(g->cause[1], AN_CAUSE_COMPUTE);
    assert_int_equal(an_graph_node_at(g, g->track[0], FX_BASE + 499), 2);
    assert_int_equal(an_graph_node_at(g, g->track[0], FX_BASE + 500), 4);
    assert_int_equal(an_graph_node_at(g, g->track[0], FX_BASE + 1300), AN_NONE);
    graph_close(f, &run);
}

static void test_nothing(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    const struct an_graph *g;
    const char *why;
    (void)state;
    fx_open(f);
    fx_slice(f, f->thread, 0, 100, "nothing", FX_NONE);
    assert_int_equal(an_graph_of(graph_open(f, &run), &g, &why), 0);
    assert_null(g);
    assert_non_null(why);
    graph_close(f, &run);
}

/* ---- edges --------------------------------------------------------------------------------------------------------------- */

/* Two threads a and b; a: A0 0-100 A1 100-200 A2 200-300; b: B0 0-50 B1 50-250 (a wait) B2 250-400.
 */
static uint32_t a[10], b[10]; /* by the digit of the name */
static int (*wanted)(struct an_graph_build *);

static int cut_two(struct an_graph_build *build)
{
    const struct an_trace *trace = build->context->trace;
    for (size_t i = 0; i < trace->slice.count; i++)
        an_graph_cut(build, i,
                     !strcmp(an_trace_name(trace, trace->slice.name[i]), "B1") ? AN_NODE_WAIT
                                                                               : AN_NODE_HOST,
                     AN_CAUSE_FRAMEWORK);
    return 0;
}

static int edges_two(struct an_graph_build *build)
{
    const struct an_trace *trace = build->context->trace;
    for (size_t i = 0; i < trace->slice.count; i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        size_t digit = (size_t)(name[1] - '0');
        assert_in_range(digit, 0, 9);
        uint32_t *of = *name == 'A' ? a : b;
        of[digit] = build->first_node[i];
    }
    return wanted(build);
}

static void build_two(struct fixture *f, struct graph_run *run, struct an_graph *g,
                      int (*edges)(struct an_graph_build *))
{
    static const struct an_graph_builder two = {cut_two, edges_two};
    static const struct an_graph_builder *const table[] = {&two};
    fx_open(f);
    int64_t other = fx_track(f, f->process, "thread", "other", NULL);
    fx_slice(f, f->thread, 0, 100, "A0", FX_NONE);
    fx_slice(f, f->thread, 100, 200, "A1", FX_NONE);
    fx_slice(f, f->thread, 200, 300, "A2", FX_NONE);
    fx_slice(f, other, 0, 50, "B0", FX_NONE);
    fx_slice(f, other, 50, 250, "B1", FX_NONE);
    fx_slice(f, other, 250, 400, "B2", FX_NONE);
    wanted = edges;
    memset(g, 0, sizeof *g);
    assert_int_equal(an_graph_build_of(graph_open(f, run), table, 1, g), 0);
    graph_check(run, g);
}

static int edges_plain(struct an_graph_build *x)
{
    int rc = an_graph_edge(x, a[1], b[1], AN_EDGE_HANDOFF | AN_EDGE_INFERRED);
    rc = rc ? rc : an_graph_edge(x, a[1], b[1], AN_EDGE_HANDOFF); /* again, and recorded */
    rc = rc ? rc : an_graph_edge(x, a[1], b[1], AN_EDGE_CREDIT);  /* for another reason */
    rc = rc ? rc : an_graph_edge(x, a[2], b[2], AN_EDGE_LAUNCH);  /* ends 50 ns behind its start */
    rc = rc ? rc : an_graph_edge(x, b[2], a[1], AN_EDGE_SYNC);    /* began behind its start */
    rc = rc ? rc : an_graph_edge(x, a[0], a[2], AN_EDGE_HANDOFF); /* program order */
    rc = rc ? rc
            : an_graph_edge(x, a[2], b[1],
                            AN_EDGE_HANDOFF | AN_EDGE_AT_START); /* 200, inside of the wait */
    return rc ? rc : an_graph_edge(x, AN_NONE, b[1], AN_EDGE_HANDOFF);
}

static void test_edges(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    struct an_graph g;
    (void)state;
    build_two(f, &run, &g, edges_plain);
    assert_int_equal(g.edge_count, 4);
    assert_int_equal(g.dropped, 1);
    assert_int_equal(g.by_kind[AN_EDGE_HANDOFF], 2);
    assert_int_equal(g.inferred[AN_EDGE_HANDOFF], 0);
    assert_int_equal(g.in_first[b[1] + 1] - g.in_first[b[1]], 3);
    uint32_t e = g.in_first[b[2]];
    assert_int_equal(g.in_from[e], a[2]);
    assert_int_equal(g.in_lead[e], 50);
    assert_int_equal(an_edge_release(&g, e), FX_BASE + 250);
    assert_true(g.has_launches);
    assert_false(g.has_syncs);
    for (e = g.in_first[b[1]]; e < g.in_first[b[1] + 1]; e++)
        assert_int_equal(an_edge_release(&g, e), FX_BASE + 200);
    graph_close(f, &run);
}

/* a1 waits inside b1's reach and b1 for a1's end: of the two the inferred one goes. A wait may be
 * let go by what begins later than itself, so times alone do not forbid it. */
static int edges_circle(struct an_graph_build *x)
{
    int rc = an_graph_edge(x, a[1], b[1], AN_EDGE_HANDOFF); /* 200 <= 250 */
    return rc ? rc
              : an_graph_edge(x, b[1], a[1],
                              AN_EDGE_SYNC |
                                  AN_EDGE_INFERRED); /* ends at 250, began before 100: lead 150 */
}

static int edges_recorded_circle(struct an_graph_build *x)
{
    int rc = an_graph_edge(x, a[1], b[1], AN_EDGE_HANDOFF | AN_EDGE_INFERRED);
    return rc ? rc : an_graph_edge(x, b[1], a[1], AN_EDGE_SYNC);
}

static void test_circles(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    struct an_graph g;
    (void)state;
    build_two(f, &run, &g, edges_circle);
    assert_int_equal(g.dropped, 1);
    assert_int_equal(g.edge_count, 1);
    assert_int_equal(g.by_kind[AN_EDGE_HANDOFF], 1);
    graph_close(f, &run);
    build_two(f, &run, &g, edges_recorded_circle);
    assert_int_equal(g.edge_count, 1);
    assert_int_equal(g.by_kind[AN_EDGE_SYNC], 1);
    graph_close(f, &run);
}

/* ---- device ops ---------------------------------------------------------------------------------------------------------- */

static void test_device_nodes(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    const struct an_graph *g;
    const char *why;
    (void)state;
    fx_open(f);
    int64_t s7 = gpu_stream(f, f->process, "gpu:0", 7), s8 = gpu_stream(f, f->process, "gpu:0", 8);
    gpu_launch(f, s7, 0, 10, 20, 30, "kernel_a", 1);
    gpu_launch(f, s8, 10, 20, 25, 40, "kernel_b", 2);
    gpu_launch(f, s7, 20, 35, 30, 50, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 3);
    assert_int_equal(an_graph_of(graph_open(f, &run), &g, &why), 0);
    graph_check(&run, g);
    assert_int_equal(g->node_count, 6);
    for (size_t i = 0; i < run.context.gpu->op.count; i++) {
        assert_int_equal(g->slice[g->op_node[i]], run.context.gpu->op.slice[i]);
        assert_int_equal(g->start[g->op_node[i]], run.context.gpu->op.start[i]);
        assert_int_equal(g->kind[g->op_node[i]], AN_NODE_DEVICE);
    }
    uint32_t comm = g->op_node[2];
    assert_int_equal(g->cause[comm], AN_CAUSE_TRANSFER);
    assert_int_equal(an_graph_before(g, comm), g->op_node[0]);
    assert_int_equal(an_order_release(g, g->op_node[0], comm), FX_BASE + 30000);
    graph_close(f, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_nothing), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_circles), cmocka_unit_test(test_device_nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
