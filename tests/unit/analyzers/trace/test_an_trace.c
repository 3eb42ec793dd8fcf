/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading, nesting, the table of ops, the loader, the system layer, and files that hold nonsense.
 */
#include <sqlite3.h>

#include "analyzers/base/stats.h"
#include "analyzers/trace/trace.h"
#include "reports/report.h"
#include "tests/unit/an_fixture.h"

static struct an_trace *load(struct fixture *f)
{
    struct tacho_error err = {0};
    struct an_trace *t = NULL;
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    if (store_open(f->path, &f->reader, &err) || an_trace_load(f->reader, &t, &err))
        fail_msg("%s", err.what);
    return t;
}

static const struct an_op *op(const struct an_result *r, const char *name)
{
    for (size_t i = 0; i < r->op_count; i++)
        if (!strcmp(r->ops[i].name, name))
            return &r->ops[i];
    fail_msg("no op %s", name);
    return NULL;
}

/* Ranges are written when they end, the inner before the outer; they come out by start, the outer
 * first. */
static void test_order_and_parents(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t other = fx_track(f, f->process, "thread", "other", NULL);
    fx_slice(f, f->thread, 20, 30, "c", FX_NONE);
    fx_slice(f, other, 0, 5, "x", FX_NONE);
    fx_slice(f, f->thread, 10, 40, "b", FX_NONE);
    fx_slice(f, f->thread, 40, 50, "d", FX_NONE); /* begins where b ends: not inside it */
    fx_slice(f, f->thread, 0, 100, "a", FX_NONE);
    fx_slice(f, f->thread, 0, FX_NONE, "open", FX_NONE); /* goes before what starts with it */
    struct an_trace *t = load(f);
    static const char *const names[] = {"open", "a", "b", "c", "d", "x"};
    static const uint32_t parents[] = {AN_NONE, 0, 1, 2, 1, AN_NONE};
    assert_int_equal(t->slice.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(an_trace_name(t, t->slice.name[i]), names[i]);
        assert_int_equal(t->slice.parent[i], parents[i]);
    }
    assert_int_equal(t->open, 1);
    assert_int_equal(an_slice_end(t, 0), FX_BASE + 100);
    assert_int_equal(t->track[0].slice_count, 5);
    assert_int_equal(an_slice_seek(t, &t->track[0], FX_BASE + 20), 3);
    assert_int_equal(an_slice_seek(t, &t->track[0], FX_BASE + 1000), 5);
    an_trace_free(t);
    fx_close(f);
}

/* The calls of a thread that XLA lists apart go to the thread whose ranges they lie in, and stay
 * where they are if no thread's ranges hold them. A second thread has ranges too, whose ends they
 * cross.
 */
static void test_calls_apart(void **state)
{
    (void)state;
    for (int shift = 0; shift < 2; shift++) { /* 1: the calls lie in no thread's ranges */
        struct fixture fx, *f = &fx;
        fx_open(f);
        int64_t apart = fx_track(f, f->process, "thread", "Host Threads/7", NULL),
                second = fx_track(f, f->process, "thread", "second", NULL);
        fx_slice(f, f->thread, 0, 1000000, "execute", FX_NONE);
        for (int i = 0; i < 50; i++) {
            int64_t at = i * 20000, call = at + 10000 + shift * 8000;
            fx_slice(f, f->thread, at, at + 16000, "fusion", FX_NONE);
            fx_slice(f, f->thread, call + 500, call + 500, "mark", FX_NONE); /* within rounding */
            fx_slice(f, f->thread, at, at + 10001, "ends as the call begins", FX_NONE);
            fx_slice(f, second, at + 4000, at + 12000, "copy", FX_NONE);
            fx_slice(f, apart, call, call + 5000, "hipLaunchKernel", FX_NONE);
        }
        struct an_trace *t = load(f);
        assert_int_equal(t->track[0].slice_count, shift ? 151 : 201);
        assert_int_equal(t->track[1].slice_count, shift ? 50 : 0);
        assert_int_equal(t->track[2].slice_count, 50);
        an_trace_free(t);
        fx_close(f);
    }
}

/* Own times of random nested ranges against a table with one cell a ns. */
static void test_own_time(void **state)
{
    enum { LENGTH = 300, NAMES = 5 };
    uint64_t seed = 3;
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct fixture fx, *f = &fx;
        int owner[LENGTH];
        int64_t own[NAMES] = {0}, total[NAMES] = {0}, count[NAMES] = {0};
        fx_open(f);
        memset(owner, -1, sizeof owner);
        for (int a = 0; a < LENGTH; a += 100)
            for (int level = 0, from = a, to = a + 99; level < 4 && from < to; level++) {
                int k = (int)(an_random(&seed) % NAMES);
                char name[2] = {(char)('a' + k), 0};
                fx_slice(f, f->thread, from, to, name, FX_NONE);
                for (int t = from; t < to; t++)
                    owner[t] = k;
                count[k]++;
                total[k] += to - from;
                from += 1 + (int)(an_random(&seed) % 20);
                to -= 1 + (int)(an_random(&seed) % 20);
            }
        for (int t = 0; t < LENGTH; t++)
            if (owner[t] >= 0)
                own[owner[t]]++;
        const struct an_result *r = fx_analyze(f);
        for (int k = 0; k < NAMES; k++) {
            char name[2] = {(char)('a' + k), 0};
            if (!count[k])
                continue;
            assert_int_equal(op(r, name)->count, count[k]);
            assert_int_equal(op(r, name)->total_ns, total[k]);
            assert_int_equal(op(r, name)->self_ns, own[k]);
        }
        fx_close(f);
    }
}

static void test_op_statistics(void **state)
{
    static const int64_t length[] = {200, 400, 400, 400, 500, 500, 700, 900};
    struct fixture fx, *f = &fx;
    int64_t at = 0;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 0, 0);
    for (int i = 0; i < 8; i++, at += 1000)
        fx_slice(f, f->thread, at, at + length[i], "matmul", work);
    fx_slice(f, f->thread, at, FX_NONE, "matmul", work);
    const struct an_op *o = op(fx_analyze(f), "matmul");
    assert_int_equal(o->count, 9);
    assert_int_equal(o->total_ns, 4000);
    assert_int_equal(o->min_ns.value, 200);
    assert_int_equal(o->max_ns.value, 900);
    assert_near(o->sd_us.value, sqrt(32.0 / 7) / 10, 1e-12);
    assert_near(o->flops_per_s.value, 9000 / 4000e-9, 1);
    assert_near(o->bytes_per_s.value, 9 * 1500 / 4000e-9, 1);
    assert_string_equal(o->kind, "matrix");
    fx_close(f);
}

static void test_loader(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t worker[2], depth = fx_track(f, f->process, "counter", "queue_depth", NULL);
    for (int k = 0; k < 2; k++)
        worker[k] = fx_track(f, f->process, "thread", "loader", NULL);
    for (int i = 0; i < 10; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 1000, 64, false);
        fx_slice(f, f->thread, b, b + 250, "input_wait", fx_kind(f, "input_wait"));
        fx_slice(f, f->thread, b + 250, b + 1000, "matmul", fx_work(f, "matrix", "fp32", 1, 1, 1));
        fx_slice(f, worker[i % 2], b, b + 600, "read", fx_kind(f, "read"));
        fx_slice(f, worker[i % 2], b + 100, b + 300, "decode",
                 fx_kind(f, "decode")); /* inside read: its own time */
        fx_slice(f, worker[i % 2], b + 600, b + 700, "collate", fx_kind(f, "collate"));
        fx_counter(f, depth, b, i % 2 ? 3 : 1);
    }
    const struct an_result *r = fx_analyze(f);
    const struct an_loader *l = &r->loader;
    assert_int_equal(l->batches, 8); /* of the counted steps: without the first and the last */
    assert_int_equal(l->stage_count, 3);
    assert_string_equal(l->stages[0].name, "read");
    assert_near(l->stages[0].ms_per_batch.value, 400e-6, 1e-12);
    assert_near(l->stages[1].ms_per_batch.value, 200e-6, 1e-12);
    assert_near(l->stages[2].ms_per_batch.value, 100e-6, 1e-12);
    assert_near(l->wait_ms_per_step.value, 250e-6, 1e-12);
    assert_int_equal(l->workers.value, 2);
    assert_near(l->queue_depth_mean.value, (5 * 1 + 4 * 3) / 9.0, 1e-12);
    assert_string_equal(r->verdict_class, "INPUT-BOUND");
    assert_int_equal(r->finding_count, 1);
    const struct an_finding *x = &r->findings[0];
    assert_string_equal(x->id, "INPUT_STALL");
    assert_true(x->gain.ceiling && !x->gain.expected.valid && !x->gain.low.valid);
    assert_near(x->gain.high.value, 100 * (1000.0 / 750 - 1), 1e-9);
    assert_true(x->claim && x->action && x->effort && x->method && x->verify && x->wrong_when);
    assert_true(x->evidence[0] && x->evidence[1] && x->evidence[2]);
    fx_close(f);
}

static void test_findings_and_health(void **state)
{
    (void)state;
    for (int unmarked = 0; unmarked <= 1; unmarked++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        for (int i = 0; i < 10; i++) {
            fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 1000, 64, false);
            fx_slice(f, f->thread, i * 1000, i * 1000 + (unmarked ? 900 : 990), "matmul",
                     fx_work(f, "matrix", "fp32", 1, 1, 1));
        }
        const struct an_result *r = fx_analyze(f);
        assert_false(r->healthy); /* the peaks of the machine are not known */
        assert_int_equal(r->finding_count, unmarked);
        assert_true(r->checked_count >= 1);
        assert_string_equal(r->verdict_class, "COMPUTE-BOUND");
        if (unmarked) {
            assert_string_equal(r->findings[0].id, "UNATTRIBUTED");
            assert_false(r->findings[0].gain.high.valid);
        } else {
            assert_non_null(strstr(r->verdict, "NO PROBLEM FOUND"));
        }
        fx_close(f);
    }
}

static void test_system(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "counter.cycles", "not supported: No such file or directory"));
    FX(store_run_set(f->s, "counter.instructions", "ok"));
    int64_t second = fx_process(f, FX_NONE, "child");
    const struct {
        int64_t process;
        const char *name, *unit;
        double first, last;
    } rows[] = {{f->process, "cpu_time", "ns", 1e8, 9e8},
                {second, "cpu_time", "ns", 0, 1e8},
                {f->process, "rss", "bytes", 1000, 3000},
                {second, "rss", "bytes", 4000, 500},
                {f->process, "disk_read", "bytes", 10, 70},
                {second, "disk_read", "bytes", 0, 30},
                {FX_NONE, "disk_read", "bytes", 1e6, 2e6},
                {FX_NONE, "cpu_busy", "%", 40, 60},
                {f->process, "loss", NULL, 5, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t t = fx_track(f, rows[i].process, "counter", rows[i].name, rows[i].unit);
        fx_counter(f, t, 100000000, rows[i].first);
        fx_counter(f, t, 1000000000, rows[i].last);
    }
    struct store_metric faults = {.name = "target.minor_faults", .unit = "count", .value = 77},
                        rss = {.name = "target.max_rss"};
    FX(store_metric_set(f->s, &faults)); /* never sampled */
    rss.value = 4999;                    /* less than the sampled sum over processes */
    FX(store_metric_set(f->s, &rss));
    const struct an_result *r = fx_analyze(f);
    assert_near(r->system.cpu_cores.value, 1.0,
                1e-12); /* 1.0 s of CPU in 1 s since the start of the processes */
    assert_near(r->system.rss_peak_bytes.value, 5000, 0);
    assert_near(r->system.minor_faults.value, 77, 0);
    assert_near(r->system.read_bytes.value, 100, 0); /* of the target, not of the machine */
    assert_near(r->system.machine_busy_pct.value, 50, 0);
    assert_false(r->system.major_faults.valid);
    assert_int_equal(r->series_count, 1);
    assert_string_equal(r->series[0].name, "loss");
    assert_near(r->series[0].first, 5, 0);
    assert_near(r->series[0].last, 2, 0);
    assert_int_equal(r->trust.gap_count, 1);
    assert_string_equal(r->trust.gaps[0].name, "cycles");
    fx_close(f);
}

/* ---- nonsense ----------------------------------------------------------------------------------------------------------- */

static int64_t odd_number(uint64_t *seed)
{
    static const int64_t odd[] = {
        STORE_ABSENT, INT64_MIN + 1, INT64_MAX,    INT64_MAX - 1, -1, 0, 1,
        4294967295ll, 4294967296ll,  -4294967296ll};
    uint64_t pick = an_random(seed);
    if (pick % 3 == 0)
        return odd[an_random(seed) % (sizeof odd / sizeof *odd)];
    if (pick % 3 == 1)
        return (int64_t)an_random(seed) >> (an_random(seed) % 64);
    return (int64_t)(an_random(seed) % 2000);
}

/* For columns that are NOT NULL. */
static int64_t some_number(uint64_t *seed)
{
    int64_t v = odd_number(seed);
    return v == STORE_ABSENT ? -7 : v;
}

static const char *odd_text(uint64_t *seed)
{
    static const char *const odd[] = {NULL,
                                      "",
                                      "step",
                                      "tacho.step",
                                      "tacho.work",
                                      "tacho.range",
                                      "tacho.comm",
                                      "input_wait",
                                      "matrix",
                                      "checkpoint",
                                      "evaluation",
                                      "compile",
                                      "fp32",
                                      "\x1b[31m",
                                      "\xff\xfe",
                                      "thread",
                                      "range",
                                      "counter",
                                      "queue_depth",
                                      "rss",
                                      "cpu_time",
                                      "ns",
                                      "bytes",
                                      "ProfilerStep#99999999999999999999",
                                      "Optimizer.step",
                                      "a/b~c"};
    return odd[an_random(seed) % (sizeof odd / sizeof *odd)];
}

static int64_t odd_id(uint64_t *seed)
{
    return an_random(seed) % 8 ? (int64_t)(an_random(seed) % 12) : odd_number(seed);
}

static int64_t some_id(uint64_t *seed)
{
    int64_t v = odd_id(seed);
    return v == STORE_ABSENT ? -7 : v;
}

static double odd_value(uint64_t *seed)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e308, -1e308, 0, 1e-308, 5};
    return odd[an_random(seed) % (sizeof odd / sizeof *odd)];
}

/* Any row that the schema allows. */
static void odd_row(struct fixture *f, uint64_t *seed)
{
    uint64_t *s = seed;
    int64_t id = 0;
    const char *text = odd_text(s);
    switch (an_random(s) % 12) {
    case 0:
        store_string(f->s, text ? text : "x", text ? strlen(text) : 1, &id);
        break;
    case 1: {
        struct store_detail d = {.flops = odd_number(s),
                                 .bytes_read = odd_number(s),
                                 .bytes_written = odd_number(s),
                                 .model_flops = odd_number(s),
                                 .palm_flops = odd_number(s),
                                 .bytes = odd_number(s),
                                 .samples = odd_number(s),
                                 .communicator = odd_number(s),
                                 .ranks = odd_number(s),
                                 .flags = odd_number(s),
                                 .dtype = odd_text(s),
                                 .pass = odd_text(s),
                                 .kind = odd_text(s),
                                 .schema = odd_text(s)};
        store_detail_intern(f->s, &d, &id);
        break;
    }
    case 2: {
        struct store_process p = {.rank = odd_number(s),
                                  .pid = odd_number(s),
                                  .parent_pid = odd_number(s),
                                  .start = odd_number(s),
                                  .end = odd_number(s),
                                  .exit_status = odd_number(s),
                                  .host = odd_text(s),
                                  .device = odd_text(s),
                                  .program = odd_text(s),
                                  .ended = odd_text(s)};
        store_process_add(f->s, &p);
        break;
    }
    case 3: {
        struct store_track t = {.process = odd_id(s),
                                .tid = odd_number(s),
                                .kind = text ? text : "thread",
                                .name = odd_text(s),
                                .device = odd_text(s),
                                .unit = odd_text(s)};
        store_track_add(f->s, &t);
        break;
    }
    case 4: {
        struct store_step x = {.process = some_id(s),
                               .index = some_number(s),
                               .start = some_number(s),
                               .end = odd_number(s),
                               .tokens = odd_number(s),
                               .samples = odd_number(s),
                               .paused = an_random(s) & 1};
        store_step_add(f->s, &x);
        break;
    }
    case 5: {
        struct store_step_aggregate g = {.process = some_id(s),
                                         .step = some_number(s),
                                         .track = some_id(s),
                                         .name = odd_id(s),
                                         .category = odd_id(s),
                                         .detail = odd_id(s),
                                         .count = some_number(s),
                                         .total = some_number(s),
                                         .self = some_number(s)};
        store_step_aggregate_add(f->s, &g);
        break;
    }
    case 6: {
        struct store_counter c = {
            .track = some_id(s), .time = some_number(s), .value = odd_value(s)};
        store_counter_add(f->s, &c);
        break;
    }
    case 7: {
        double v = odd_value(s);
        struct store_ceiling c = {.device = odd_text(s),
                                  .resource = an_random(s) & 1 ? "flops" : "x",
                                  .dtype = odd_text(s),
                                  .source = text ? text : "x",
                                  .value = isnan(v) ? 5 : v};
        store_ceiling_add(f->s, &c);
        break;
    }
    case 8: {
        struct store_loss l = {.source = text ? text : "x",
                               .reason = "y",
                               .count = odd_number(s),
                               .t0 = odd_number(s),
                               .t1 = odd_number(s)};
        store_loss_set(f->s, &l);
        break;
    }
    default: {
        struct store_slice x = {.track = some_id(s),
                                .start = some_number(s),
                                .dur = odd_number(s),
                                .name = odd_id(s),
                                .category = odd_id(s),
                                .detail = odd_id(s),
                                .correlation = odd_number(s)};
        store_slice_add(f->s, &x);
    }
    }
}

static void write_all(const struct an_result *r)
{
    FILE *sink = fopen("/dev/null", "w");
    struct rep_options o = {
        .width = 40, .utf8 = true, .color = true, .definitions = true, .ops = 100000};
    assert_non_null(sink);
    for (const struct rep_format *format = rep_formats; format->name; format++)
        assert_int_equal(rep_write(format->name, r, &o, sink), 0);
    fclose(sink);
}

static void test_nonsense(void **state)
{
    (void)state;
    const char *rounds = getenv("FUZZ_ROUNDS");
    for (int round = 0; round < (rounds ? atoi(rounds) : 150); round++) {
        struct fixture fx, *f = &fx;
        uint64_t seed = (uint64_t)round;
        fx_open(f);
        for (uint64_t i = 0, n = an_random(&seed) % 400; i < n; i++)
            odd_row(f, &seed);
        struct an_options o = {.file = odd_text(&seed),
                               .peak_flops = round % 3 ? 0 : odd_value(&seed),
                               .flops_per_step = round % 5 ? 0 : odd_value(&seed),
                               .live = round % 7 == 0};
        const struct an_result *r = fx_analyze_with(f, &o);
        if (!r->budget.reason && r->budget.step_ns < INT64_MAX / 2) { /* beyond, sums saturate */
            int64_t sum = 0;
            for (int k = 0; k < AN_CLASS_COUNT; k++)
                sum += r->budget.ns[k].valid ? r->budget.ns[k].value : 0;
            assert_int_equal(sum, r->budget.step_ns);
        }
        assert_non_null(r->verdict);
        write_all(r);
        fx_close(f);
    }
}

/* Steps whose indexes are so large that one more is the same number, and some that take no time:
 * the axes of the pictures end.
 */
static void test_largest_indexes(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int64_t i = 0; i < 6; i++)
        fx_step(f, f->process, f->thread, INT64_MAX - 10 + i, i * 1000000,
                i * 1000000 + i / 2 * 900000, FX_NONE, FX_NONE);
    write_all(fx_analyze(f));
    fx_close(f);
}

/* A file that is still written: the result describes what was committed. */
static void test_growing_file(void **state)
{
    struct fixture fx, *f = &fx;
    struct tacho_error err = {0};
    struct an_result *r = NULL;
    store_reader *reader = NULL;
    (void)state;
    fx_open(f);
    FX(store_commit(f->s));
    for (int64_t i = 0; i < 5; i++) {
        FX(store_begin(f->s));
        fx_slice(f, f->thread, i * 100, i * 100 + 50, "a", fx_work(f, "matrix", "fp32", i, 0, 0));
        FX(store_commit(f->s));
        FX(store_begin(f->s));
        fx_slice(f, f->thread, i * 100 + 50, i * 100 + 60, "not committed", FX_NONE);
        if (store_open(f->path, &reader, &err) || an_analyze(reader, NULL, &r, &err))
            fail_msg("%s", err.what);
        assert_int_equal(r->trust.events, i + i + 1);
        an_result_free(r);
        store_reader_close(reader);
        FX(store_commit(f->s));
    }
    fx_close(f);
}

/* ---- many aggregates: a finished file is read by two threads ------------------------------------ */

#define MANY 150000

static void write_aggregates(struct fixture *f)
{
    fx_open(f);
    fx_slice(f, f->thread, 0, 100, "a", FX_NONE);
    int64_t name = fx_string(f, "a");
    for (int64_t i = 0; i < MANY; i++)
        FX(store_step_aggregate_add(f->s, &(struct store_step_aggregate){.process = f->process,
                                                                         .step = i,
                                                                         .track = f->thread,
                                                                         .name = name,
                                                                         .category = FX_NONE,
                                                                         .detail = FX_NONE,
                                                                         .count = 1,
                                                                         .total = 3 * i,
                                                                         .self = i,
                                                                         .steps = 1}));
}

static void assert_aggregates(const struct an_trace *t)
{
    const struct an_aggregates *rows = &t->aggregate;
    assert_int_equal(rows->count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(rows->step[i], i);
        assert_int_equal(rows->total[i], 3 * i);
        assert_string_equal(an_trace_name(t, rows->name[i]), "a");
        assert_int_equal(rows->track[i], 0);
    }
    assert_int_equal(t->slice.count, 1);
}

static void finish(struct fixture *f)
{
    struct tacho_error err = {0};
    FX(store_commit(f->s));
    if (store_finish(f->s, &err))
        fail_msg("%s", err.what);
    f->s = NULL;
}

static void test_many_aggregates(void **state)
{
    struct fixture fx, *f = &fx;
    struct tacho_error err = {0};
    struct an_trace *t = NULL;
    (void)state;
    write_aggregates(f);
    finish(f);
    if (store_open(f->path, &f->reader, &err) || an_trace_load(f->reader, &t, &err))
        fail_msg("%s", err.what);
    store_reader *twin = store_reader_twin(f->reader);
    assert_non_null(twin);
    store_reader_close(twin);
    assert_aggregates(t);
    an_trace_free(t);
    fx_close(f);
}

/* A live file may be another one a moment later: it has no twin. */
static void test_many_aggregates_live(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    write_aggregates(f);
    struct an_trace *t = load(f);
    assert_null(store_reader_twin(f->reader));
    assert_aggregates(t);
    an_trace_free(t);
    fx_close(f);
}

/* A cell that cannot be is damage, whichever thread reads it. */
static void test_many_aggregates_damaged(void **state)
{
    struct fixture fx, *f = &fx;
    struct tacho_error err = {0};
    struct an_trace *t = NULL;
    sqlite3 *db = NULL;
    (void)state;
    write_aggregates(f);
    finish(f);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE step_aggregate SET total='x' WHERE step=149000", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    if (store_open(f->path, &f->reader, &err))
        fail_msg("%s", err.what);
    assert_int_equal(an_trace_load(f->reader, &t, &err), TACHO_ECORRUPT);
    assert_non_null(strstr(err.what, "damaged"));
    fx_close(f);
}

/* Another state of the file is not the reader's. */
static void test_no_twin_of_a_changed_file(void **state)
{
    struct fixture fx, *f = &fx;
    struct tacho_error err = {0};
    sqlite3 *db = NULL;
    (void)state;
    fx_open(f);
    finish(f);
    if (store_open(f->path, &f->reader, &err))
        fail_msg("%s", err.what);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE process SET program='other'", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_null(store_reader_twin(f->reader));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_parents),
        cmocka_unit_test(test_calls_apart),
        cmocka_unit_test(test_own_time),
        cmocka_unit_test(test_op_statistics),
        cmocka_unit_test(test_loader),
        cmocka_unit_test(test_findings_and_health),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_growing_file),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_largest_indexes),
        cmocka_unit_test(test_many_aggregates),
        cmocka_unit_test(test_many_aggregates_live),
        cmocka_unit_test(test_many_aggregates_damaged),
        cmocka_unit_test(test_no_twin_of_a_changed_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
