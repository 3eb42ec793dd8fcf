/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay of the dependency graph: on small runs whose times are known by hand, and its
 * properties on any run.
 *
 *     test_an_replay              the tests
 *     test_an_replay RUN.tacho    the properties of 1,000 random nodes of that run, after `tacho
 * import` or `tacho run`
 */
#include "analyzers/base/stats.h"
#include "analyzers/replay/replay.h"
#include "analyzers/replay/replay_error.h"
#include "analyzers/replay/what_if.h"
#include "analyzers/replay/what_if_run.h"
#include "analyzers/table.h"
#include "tests/unit/an_graph.h"

#define NODES 1000

/* ---- properties --------------------------------------------------------------------------------------------------------------- */

struct property {
    const struct an_replay *r;
    struct an_times base, t;
    struct an_slack *slack;
    int64_t *own;
    size_t on, off, tied, longer;
};

/* How much the sink moves when node n's own work changes by `by` ns. */
static int64_t moved(struct property *p, uint32_t n, int64_t by, const struct an_replay_step *sink)
{
    p->own[n] = p->r->own[n] + by;
    an_replay_run(p->r, &(struct an_change){.own = p->own, .latency = 1}, &p->t);
    p->own[n] = p->r->own[n];
    return an_replay_step_end(p->r, sink, &p->t) - an_replay_step_end(p->r, sink, &p->base);
}

/* One random node: 1 ns less of it is one less of the frame if all longest paths lead through it,
 * else none; more of it than its slack makes the frame longer by what is beyond. */
static void check_node(struct property *p, uint32_t n, bool every,
                       const struct an_replay_step *sink, uint64_t *random)
{
    int64_t slack = an_slack_ns(p->slack, &p->base, n), own = p->r->own[n];
    if (slack < 0)
        fail_msg("node %u has a slack of %lld ns", n, (long long)slack);
    if (every && slack != 0)
        fail_msg("node %u is on every longest path and has a slack of %lld ns", n,
                 (long long)slack);
    if (own > 0) {
        int64_t less = every ? 1 : 1 + (int64_t)(an_random(random) % (uint64_t)own),
                d = moved(p, n, -less, sink);
        if (d != (every ? -1 : 0))
            fail_msg("node %u (slack %lld, on every path: %d): %lld ns less move the end by %lld",
                     n, (long long)slack, every, (long long)less, (long long)d);
        *(every ? &p->on : slack ? &p->off : &p->tied) += 1;
    }
    int64_t room = slack == INT64_MAX ? 1000000 : slack;
    int64_t d = moved(p, n, room, sink),
            beyond = slack == INT64_MAX ? 0 : moved(p, n, room + 7, sink);
    if (d != 0 || beyond != (slack == INT64_MAX ? 0 : 7))
        fail_msg("node %u has a slack of %lld ns; as much more moves the end by %lld, 7 ns beyond "
                 "by %lld",
                 n, (long long)slack, (long long)d, (long long)beyond);
    p->longer++;
}

static void check_frame(struct property *p, size_t frame, size_t nodes)
{
    const struct an_replay_frame *f = &p->r->frame[frame];
    bool *every = calloc(f->count + 1, sizeof *every);
    uint64_t random = 20261122;
    assert_non_null(every);
    const struct an_replay_step *sink = an_replay_sink(p->r, frame, &p->base);
    assert_non_null(sink);
    an_replay_back(p->r, frame, sink, &p->base, p->slack);
    assert_int_equal(an_replay_on_every_path(p->r, frame, &p->base, sink, every), 0);
    for (size_t i = 0; i < nodes; i++) {
        size_t k = (size_t)(an_random(&random) % f->count);
        check_node(p, p->r->node[f->first + k], every[k], sink, &random);
    }
    for (size_t i = 0, more = 0; i < f->count && more < nodes / 2;
         i++) { /* enough of those that matter */
        size_t k = (size_t)(an_random(&random) % f->count);
        if (every[k]) {
            check_node(p, p->r->node[f->first + k], true, sink, &random);
            more++;
        }
    }
    free(every);
}

static struct property check_replay(const struct an_replay *r, size_t nodes)
{
    struct property p = {.r = r};
    assert_int_equal(an_times_new(r, &p.base), 0);
    assert_int_equal(an_times_new(r, &p.t), 0);
    assert_int_equal(an_slack_new(r, &p.slack), 0);
    assert_non_null(
        p.own = an_arena_copy(r->context->scratch, r->own, r->graph->node_count * sizeof *p.own));
    an_replay_run(r, NULL, &p.base);
    for (size_t f = 0; f < r->frame_count; f++)
        check_frame(&p, f, nodes / r->frame_count + 1);
    return p;
}

/* Less work of any kind, latencies and waiting for others too, never lets anything end later. (A
 * single step may get longer, because it begins earlier by more than it ends.) */
static void check_less(const struct an_replay *r)
{
    static const double factors[] = {0, 0.3, 0.9};
    struct an_rows rows;
    struct an_times base, t;
    assert_int_equal(an_rows_of(r, &rows), 0);
    assert_int_equal(an_times_new(r, &base), 0);
    assert_int_equal(an_times_new(r, &t), 0);
    int64_t *own = an_arena_copy(r->context->scratch, r->own, r->graph->node_count * sizeof *own);
    assert_non_null(own);
    an_replay_run(r, NULL, &base);
    for (size_t i = 0; i < 3 * (rows.count + AN_CAUSE_COUNT); i++) {
        size_t what = i / 3, cause = what - rows.count;
        struct an_change x = {
            .own = own, .latency = what == rows.dispatch ? factors[i % 3] : 1, .scale_leads = true};
        x.without_peers = what == rows.count + AN_CAUSE_PEERS;
        x.without_syncs = what == rows.count + AN_CAUSE_SYNC;
        for (size_t n = 0; n < r->graph->node_count; n++) {
            bool hit = what < rows.count ? rows.row_of[n] == what : r->graph->cause[n] == cause;
            own[n] =
                hit && r->inside[n] ? (int64_t)((double)r->own[n] * factors[i % 3]) : r->own[n];
        }
        an_replay_run(r, &x, &t);
        const char *name =
            what < rows.count ? rows.row[what].key : an_cause_key((enum an_cause)cause);
        for (size_t k = 0; k < r->node_count; k++)
            if (t.end[r->node[k]] > base.end[r->node[k]])
                fail_msg("%s=%gx: node %u ends %lld ns later", name, factors[i % 3], r->node[k],
                         (long long)(t.end[r->node[k]] - base.end[r->node[k]]));
        for (size_t k = 0; k < r->step_count; k++)
            if (an_replay_step_end(r, &r->step[k], &t) > an_replay_step_end(r, &r->step[k], &base))
                fail_msg("%s=%gx: step %zu ends later", name, factors[i % 3], k);
    }
}

/* ---- small runs --------------------------------------------------------------------------------------------------------------- */

static const struct an_replay *open_replay(struct fixture *f, struct graph_run *run)
{
    const struct an_replay *r = NULL;
    const char *why = NULL;
    assert_int_equal(an_replay_of(graph_open(f, run), &r, &why), 0);
    if (!r)
        fail_msg("nothing was replayed: %s", why);
    return r;
}

/* Steps of `count` times the same launches: a call of 10 us, its kernel of `kernel` us 3 us behind
 * the call's end or behind the kernel before. `from`: us of the first step. */
static void device_run(struct fixture *f, int64_t from, int count, int64_t period, int64_t kernel)
{
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7), busy = 0, name = 0;
    for (int i = 0; i < count; i++) {
        int64_t base = from + (int64_t)i * period;
        char step[32];
        snprintf(step, sizeof step, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, base, base + period, step, "user_annotation", FX_NONE);
        for (int k = 0; k < 4; k++) {
            int64_t call = base + 20 * k, start = call + 13 > busy + 2 ? call + 13 : busy + 2;
            gpu_launch(f, stream, call, call + 10, start, start + kernel, "gemm", ++name);
            busy = start + kernel;
        }
    }
}

static int64_t steps_ns(const struct an_replay *r, const struct an_times *t)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->step_count; i++)
        sum += an_replay_step_ns(r, &r->step[i], t);
    return sum;
}

/* A host that launches every 200 us kernels of 5 us: what is replayed is what was recorded. Twice
 * as long kernels change nothing but the last one, because the device idles; a host that is twice
 * as fast halves the step. */
static void device_from(int64_t from)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    struct an_times t;
    fx_open(f);
    device_run(f, from, 12, 200, 5);
    const struct an_replay *r = open_replay(f, &run);
    assert_int_equal(r->frame_count, 1);
    assert_true(r->step_count >= 9);
    assert_int_equal(an_times_new(r, &t), 0);
    an_replay_run(r, NULL, &t);
    assert_int_equal(steps_ns(r, &t), (int64_t)r->step_count * 200000);
    struct property p = check_replay(r, 300);
    assert_true(p.on > 20 && p.off > 20);
    int64_t *own = p.own;
    for (size_t n = 0; n < r->graph->node_count; n++)
        own[n] = r->graph->kind[n] == AN_NODE_DEVICE ? 2 * r->own[n] : r->own[n];
    an_replay_run(r, &(struct an_change){.own = own, .latency = 1}, &t);
    assert_int_equal(steps_ns(r, &t), (int64_t)r->step_count * 200000);
    for (size_t n = 0; n < r->graph->node_count; n++)
        own[n] = r->graph->kind[n] == AN_NODE_DEVICE ? r->own[n] : r->own[n] / 2;
    an_replay_run(r, &(struct an_change){.own = own, .latency = 1}, &t);
    assert_near((double)steps_ns(r, &t), (double)r->step_count * 100000, 20000.0 * 2);
    graph_close(f, &run);
}

/* A call that had let its kernel go longer before its end than its own work takes, as one that
 * waits behind its launch does: with less of that work the kernel begins no later. */
static void test_lead(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    (void)state;
    fx_open(f);
    device_run(f, 0, 12, 200, 5);
    const struct an_replay *r = open_replay(f, &run);
    size_t longer = 0;
    for (size_t n = 0; n < r->graph->node_count; n++)
        for (size_t e = r->graph->in_first[n]; e < r->graph->in_first[n + 1]; e++)
            if ((r->graph->in_kind[e] & AN_EDGE_KIND_MASK) == AN_EDGE_LAUNCH) {
                r->graph->in_lead[e] = (int32_t)r->own[r->graph->in_from[e]] + 5000;
                longer++;
            }
    assert_true(longer > 30);
    check_less(r);
    graph_close(f, &run);
}

/* More workers than steps: a period is longer than the run. */
static void test_long_period(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    struct an_times times;
    struct an_replay_error replay_error;
    (void)state;
    fx_open(f);
    device_run(f, 0, 12, 200, 5);
    struct an_replay longer = *open_replay(f, &run);
    longer.period = (uint32_t)longer.step_count + 20;
    assert_int_equal(an_times_new(&longer, &times), 0);
    alarm(60); /* instead of going on for ever */
    assert_int_equal(an_replay_odd_even(&longer, &times, &replay_error), 0);
    alarm(0);
    assert_near(replay_error.pct, 0, 1);
    graph_close(f, &run);
}

static void test_device(void **state)
{
    (void)state;
    device_from(0);
    device_from(1795330690000000); /* profilers write ns since 1970: November 2026 */
}

/* Kernels of 60 us behind calls of 10 us every 20: the device binds, a step is 4 kernels and the
 * time between two. A gap that nothing explains (one kernel that starts 500 us late) is not
 * replayed. */
static void test_gap(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    struct an_times t;
    (void)state;
    fx_open(f);
    device_run(f, 0, 12, 248, 60);
    const struct an_replay *r = open_replay(f, &run);
    assert_int_equal(an_times_new(r, &t), 0);
    an_replay_run(r, NULL, &t);
    assert_int_equal(steps_ns(r, &t), (int64_t)r->step_count * 248000);
    check_replay(r, 300);
    graph_close(f, &run);

    fx_open(f);
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 12; i++) {
        int64_t base = 1000 * i, late = i == 6 ? 500 : 0;
        char step[32];
        snprintf(step, sizeof step, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, base, base + 1000, step, "user_annotation", FX_NONE);
        gpu_launch(f, stream, base, base + 10, base + 13, base + 413, "gemm", 2 * i + 1);
        gpu_launch(f, stream, base + 20, base + 30, base + 415 + late, base + 455 + late, "gemm",
                   2 * i + 2);
        gpu_row(f, f->thread, base + 40, base + 460 + late, "cudaDeviceSynchronize", "runtime",
                FX_NONE);
    }
    r = open_replay(f, &run);
    assert_int_equal(an_times_new(r, &t), 0);
    an_replay_run(r, NULL, &t);
    size_t with = 0;
    for (size_t i = 0; i < r->step_count; i++) {
        const struct an_replay_step *s = &r->step[i];
        for (size_t n = 0; n < r->graph->node_count; n++)
            if (r->graph->kind[n] == AN_NODE_DEVICE && r->graph->start[n] == FX_BASE + 6915000) {
                with++;
                assert_near((double)(t.start[n] - t.end[n - 1]), 2000,
                            10); /* the stream's usual 2 us, not 502 */
            }
        assert_true(an_replay_step_ns(r, s, &t) <= 1000000);
    }
    assert_int_equal(with, r->step_count);
    graph_close(f, &run);
}

static int64_t better_ns; /* by which the work of each third step of loader_run() is shorter */

/* Steps on the CPU whose loader is in line: steps of 30 us of work behind a batch of 50 us. */
static void loader_run(struct fixture *f, int steps, int64_t batch)
{
    int64_t wait = fx_kind(f, "input_wait"), read = fx_kind(f, "read"),
            collate = fx_kind(f, "collate"), work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    for (int i = 0; i < steps; i++) {
        int64_t base = (int64_t)i * (batch + 30000),
                jitter = (i % 2 ? 100 : 0) + (i % 3 ? 0 : better_ns);
        fx_step(f, f->process, f->thread, i, base, base + batch + 30000, 4, false);
        fx_slice(f, f->thread, base, base + batch, "input", wait);
        fx_slice(f, f->thread, base, base + batch - 1000, "read", read);
        fx_slice(f, f->thread, base + batch - 1000, base + batch, "collate", collate);
        fx_slice(f, f->thread, base + batch, base + batch + 30000 - jitter, "matmul", work);
    }
}

static const struct an_what_if *edited(struct fixture *f, const char *text)
{
    struct an_options o = {.file = "run.tacho", .what_if = text};
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_null(r->advice.reason);
    assert_int_equal(r->advice.edit_count, 1);
    return r->advice.edits;
}

/* The loader on workers: one makes a batch in 50 us, so a step takes 50; two make it in 25, so it
 * takes its 30 of work. */
static void test_workers(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    loader_run(f, 40, 50000);
    const struct an_what_if *w = edited(f, "loader.workers=1");
    assert_true(w->step_ms.valid && !w->gain.ceiling);
    assert_near(w->step_low_ms.value, 0.050, 0.0005);
    assert_near(w->step_ms.value, 0.050, 0.0005);
    w = edited(f, "loader.workers=2");
    assert_near(w->step_low_ms.value, 0.030,
                0.0005); /* handed over for nothing, or for its collate of 1 us twice */
    assert_near(w->step_high_ms.value, 0.032, 0.0005);
    assert_near(w->gain.expected.value, 100 * (80.0 / 31 - 1), 2);
    assert_true(w->condition && strstr(w->condition, "free core"));
    w = edited(f, "loader.read=0.5x");
    assert_near(w->step_ms.value, 0.080 - 0.0245, 0.0002);
    fx_close(f);
}

/* Work of 27 us in each third step and of 30 in the others, behind a batch: without the pause the
 * work may take as long as in its better repeats. Where most of the step goes they are replayed,
 * with the 2 us in which a batch is received, and the low end gets shorter by as much once more, as
 * it does where more of the step stays. */
static void test_better_repeats(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    better_ns = 3000;
    fx_open(f);
    loader_run(f, 40, 50000);
    assert_near(edited(f, "loader.workers=2")->step_low_ms.value, 0.029 * 27 / 30, 0.0003);
    fx_close(f);
    fx_open(f);
    loader_run(f, 40, 20000);
    const struct an_what_if *shorter = edited(f, "loader.workers=1");
    assert_true(shorter->step_low_ms.value < 0.0275 && shorter->step_low_ms.value > 0.024);
    assert_true(shorter->step_ms.value > 0.029);
    fx_close(f);
    better_ns = 0;
}

static void test_edits(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    loader_run(f, 40, 50000);
    struct an_options o = {.file = "run.tacho",
                           .what_if = "loader=0,op:matmul=0.5x,op:nothing=2x,peers=0.5x"};
    const struct an_result *r = fx_analyze_with(f, &o);
    const struct an_what_if *w = r->advice.edits;
    assert_int_equal(r->advice.edit_count, 4);
    assert_near(w[0].step_ms.value, 0.030, 0.0002);
    assert_near(w[1].step_ms.value, 0.065, 0.0002);
    assert_string_equal(w[2].unknown, "op:nothing");
    assert_string_equal(w[2].known, "op:matmul");
    assert_non_null(w[3].reason);
    assert_non_null(r->advice.together.reason);
    o.what_if =
        "loader=0,op:matmul=0.5x"; /* gains do not add up: 80 -> 30, 80 -> 65, together 15 */
    r = fx_analyze_with(f, &o);
    assert_near(r->advice.together.step_ms.value, 0.015, 0.0002);
    assert_true(r->trust.replay_error_pct.valid);
    assert_near(r->trust.replay_error_pct.value, 0, 0.2);
    double sum = 0;
    for (size_t i = 0; i < r->advice.row_count; i++)
        sum += r->advice.rows[i].path_pct;
    assert_near(sum, 100, 0.1); /* one thread: every instant is some row's */
    assert_string_equal(r->advice.rows[0].key, "loader.read");
    assert_near(r->advice.rows[0].gain_pct, 100 * (80 / (80 - 0.49) - 1), 0.001);
    fx_close(f);
}

/* Two ranks that leave out different steps: their windows overlap, so they are one frame, in which
 * no rank has a window over all of it. What the longest path holds is still at most all of it. */
static void test_sensitivity_of_ranks(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t forward = fx_work(f, "matrix", "fp32", 1, 1, 1),
            backward = fx_work(f, "attention", "fp32", 1, 1, 1);
    for (int rank = 0; rank < 2; rank++) {
        int64_t process = fx_process(f, rank, "train"),
                thread = fx_track(f, process, "thread", "main", NULL);
        for (int i = 0; i < 40; i++) {
            int64_t base = 30000 * (int64_t)i + 1000 * rank;
            fx_step(f, process, thread, i, base, base + 30000, 4, i == 10 + 10 * rank);
            fx_slice(f, thread, base, base + 10000, "forward", forward);
            fx_slice(f, thread, base + 10000, base + 30000, "backward", backward);
        }
    }
    const struct an_result *r = fx_analyze(f);
    double sum = 0;
    assert_null(r->advice.reason);
    for (size_t i = 0; i < r->advice.row_count; i++)
        sum += r->advice.rows[i].path_pct;
    assert_near(sum, 100, 0.5);
    assert_near(r->advice.rows[0].path_ms, 0.020, 0.0005);
    fx_close(f);
}

/* An evaluation between two steps is not of the steps: neither their sensitivities nor what edits
 * do hold its work. */
static void test_phases_are_not_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1), evaluation = fx_kind(f, "evaluation"),
            at = 0;
    for (int i = 0; i < 40; i++, at += 30000) {
        fx_step(f, f->process, f->thread, i, at, at + 30000, 4, false);
        fx_slice(f, f->thread, at, at + 30000, "forward", work);
        if (i % 2) {
            fx_slice(f, f->thread, at + 30000, at + 50000, "evaluate", evaluation);
            fx_slice(f, f->thread, at + 30000, at + 50000, "forward", work);
            at += 20000;
        }
    }
    const struct an_what_if *w = edited(f, "op:forward=0.5x");
    assert_near(w->step_ms.value, 0.015, 0.0002);
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->advice.rows[0].key, "op:forward");
    assert_near(r->advice.rows[0].path_pct, 100, 0.5);
    assert_near(r->advice.rows[0].work_ms.value, 0.030, 0.001); /* one step more than counted */
    fx_close(f);
}

/* A run of three steps has no error, so what it predicts is a ceiling that says so. */
static void test_few(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    loader_run(f, 5, 50000);
    const struct an_what_if *w = edited(f, "loader=0");
    assert_false(f->r->trust.replay_error_pct.valid);
    assert_true(w->gain.ceiling && !w->gain.expected.valid && w->gain.high.valid);
    assert_true(strstr(w->ceiling, "too few steps"));
    fx_close(f);
}

/* A thread that communicates is handed a collective 20 us after each step begins. In even steps it
 * wakes 24 us later than in odd ones, which is neither the collective's time nor that of any work
 * before it. */
static double woken_late(const char *post)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    struct an_replay_error e;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1),
            comm = fx_track(f, f->process, "thread", "comm-0", NULL), at = 0;
    struct store_detail d = fx_empty();
    d.schema = "tacho.range";
    d.kind = post;
    d.samples = 1;
    int64_t posts = fx_intern(f, &d);
    for (int s = 0; s < 12; s++) {
        int64_t begin = s % 2 ? 22000 : 46000, done = begin + 40000;
        fx_step(f, f->process, f->thread, s, at, at + done + 10000, 4, false);
        fx_slice(f, f->thread, at, at + 20000, "forward", work);
        fx_slice(f, f->thread, at + 20000, at + 21000, "post", posts);
        for (int64_t b = 21000; b < 60000; b += 3000)
            fx_slice(f, f->thread, at + b, at + b + 3000, "backward", work);
        fx_slice(f, comm, at + begin, at + done, "all_reduce", fx_schema(f, "tacho.comm"));
        fx_slice(f, f->thread, at + 60000, at + done + 1000, "comm_wait", fx_kind(f, "comm_wait"));
        fx_slice(f, f->thread, at + done + 1000, at + done + 10000, "optimizer", work);
        at += done + 10000;
    }
    const struct an_replay *r = open_replay(f, &run);
    check_replay(r, 100);
    struct an_times t;
    assert_int_equal(an_times_new(r, &t), 0);
    assert_int_equal(an_replay_odd_even(r, &t, &e), 0);
    graph_close(f, &run);
    return e.pct;
}

static void test_woken_late(void **state)
{
    (void)state;
    assert_near(woken_late("comm_post"), 0, 0.01);
    assert_true(fabs(woken_late("host")) >
                10); /* not recorded: from times, another piece handed over in even steps */
}

/* One step, and nothing behind it: it has all its ranges, but no end that moves. */
static void test_one(void **state)
{
    struct fixture fx, *f = &fx;
    struct graph_run run;
    const struct an_replay *r = NULL;
    const char *why = NULL;
    (void)state;
    fx_open(f);
    loader_run(f, 1, 50000);
    assert_int_equal(an_replay_of(graph_open(f, &run), &r, &why), 0);
    assert_null(r);
    if (!strstr(why, "nothing is recorded after a counted step"))
        fail_msg("%s", why);
    graph_close(f, &run);
}

/* ---- what people type ----------------------------------------------------------------------------------------------------------- */

static void test_parse(void **state)
{
    static const char *const wrong[] = {"",
                                        "comm",
                                        "comm=",
                                        "comm=fast",
                                        "comm=2",
                                        "comm=-1x",
                                        "comm=0x5",
                                        "=0.5x",
                                        "loader.workers=0",
                                        "loader.workers=x",
                                        "lunch=0",
                                        "op:=0.5x",
                                        "comm=0,",
                                        "comm=0,comm=0.5x",
                                        "launch=graphs",
                                        "comm=nan%",
                                        "comm=1e9x",
                                        "rank:=peers",
                                        "rank:x=peers",
                                        "rank:1:nap=peers",
                                        "rank:1:forward=even",
                                        "ranks=0.5x",
                                        "micro=4",
                                        "micro=0x",
                                        "micro=1.5x",
                                        "micro=400%",
                                        "micro=bf16",
                                        "precision=fp8",
                                        "precision=0.5x",
                                        "precision=",
                                        NULL};
    struct an_edit e[AN_EDITS_MOST];
    char key[AN_EDIT_KEY];
    size_t n;
    (void)state;
    assert_int_equal(an_edits_parse("comm=0.5x,loader.workers=8,op:attention=80%,launch=0,comm.x",
                                    e, &n, key, NULL),
                     TACHO_EUSAGE);
    assert_int_equal(
        an_edits_parse("comm=0.5x,loader.workers=8,op:attention=80%,launch=graph,sync=0", e, &n,
                       key, NULL),
        0);
    assert_int_equal(n, 5);
    assert_near(e[0].factor, 0.5, 0);
    assert_int_equal(e[1].kind, AN_EDIT_WORKERS);
    assert_int_equal(e[1].number, 8);
    assert_string_equal(e[2].key, "op:attention");
    assert_near(e[2].factor, 0.8, 1e-12);
    assert_int_equal(e[3].kind, AN_EDIT_GRAPH);
    assert_near(e[4].factor, 0, 0);
    assert_int_equal(
        an_edits_parse("rank:12=peers,rank:3:backward=0.5x,ranks=even", e, &n, key, NULL), 0);
    assert_int_equal(e[0].kind, AN_EDIT_PEERS);
    assert_int_equal(e[1].kind, AN_EDIT_SCALE);
    assert_int_equal(e[2].kind, AN_EDIT_PEERS);
    assert_int_equal(an_edits_parse("micro=4x,precision=bf16", e, &n, key, NULL), 0);
    assert_int_equal(e[0].kind, AN_EDIT_MICRO);
    assert_int_equal(e[0].number, 4);
    assert_int_equal(e[1].kind, AN_EDIT_PRECISION);
    for (size_t i = 0; wrong[i]; i++) {
        struct tacho_error err = {0};
        if (an_edits_parse(wrong[i], e, &n, key, &err) != TACHO_EUSAGE ||
            strncmp(err.what, "--what-if: ", 11) != 0)
            fail_msg("'%s' was taken, or not named: %s", wrong[i], err.what);
    }
    assert_int_equal(an_edits_parse("lunch=0", e, &n, key, NULL), TACHO_EUSAGE);
    assert_string_equal(key, "lunch");
}

/* ---- a run of the user's --------------------------------------------------------------------------------------------------------- */

static const char *run_path;

static void test_run(void **state)
{
    struct graph_run g = {0};
    struct tacho_error err = {0};
    store_reader *reader = NULL;
    const struct an_replay *r = NULL;
    const char *why = NULL;
    (void)state;
    if (store_open(run_path, &reader, &err) || an_trace_load(reader, &g.trace, &err))
        fail_msg("%s", err.what);
    g.result.arena = an_arena_new();
    g.context = (struct an_context){.trace = g.trace,
                                    .options = &g.options,
                                    .result = &g.result,
                                    .arena = g.result.arena,
                                    .scratch = an_arena_new()};
    assert_int_equal(an_devices_build(g.context.trace, g.context.options->classes, g.context.arena,
                                      g.context.scratch, &g.context.gpu, &err),
                     0);
    assert_int_equal(an_steps.run(&g.context), 0);
    assert_int_equal(an_phases.run(&g.context), 0);
    assert_int_equal(an_replay_of(&g.context, &r, &why), 0);
    if (r) {
        struct property p = check_replay(r, NODES);
        printf("%zu frames, %zu nodes: %zu on every path, %zu off, %zu tied, %zu made longer\n",
               r->frame_count, r->node_count, p.on, p.off, p.tied, p.longer);
        assert_true(p.longer >= NODES);
        check_less(r);
    } else {
        printf("nothing to replay: %s\n", why);
    }
    an_trace_free(g.trace);
    an_arena_free(g.result.arena);
    an_arena_free(g.context.scratch);
    store_reader_close(reader);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest run[] = {cmocka_unit_test(test_run)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device),
                                       cmocka_unit_test(test_lead),
                                       cmocka_unit_test(test_long_period),
                                       cmocka_unit_test(test_gap),
                                       cmocka_unit_test(test_workers),
                                       cmocka_unit_test(test_better_repeats),
                                       cmocka_unit_test(test_edits),
                                       cmocka_unit_test(test_sensitivity_of_ranks),
                                       cmocka_unit_test(test_phases_are_not_steps),
                                       cmocka_unit_test(test_few),
                                       cmocka_unit_test(test_one),
                                       cmocka_unit_test(test_woken_late),
                                       cmocka_unit_test(test_parse)};
    if (argc > 1) {
        run_path = argv[1];
        return cmocka_run_group_tests(run, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
