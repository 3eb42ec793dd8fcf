/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of programs of PyTorch on the CPU. Host time by range: steps of 100 ms with 50 ms of
 * work, collections and a range of the program. Reductions of DistributedDataParallel.
 */
#include "tests/unit/an_fixture.h"

#define MS    1000000ll
#define STEPS 24

struct shape {
    const char *category;   /* of the ranges; NULL: "torch" */
    const char *collection; /* its name; NULL: there is none */
    int collection_ms, augment_ms;
    const char *training; /* a longer range without a role, for which the host drives a device */
    const char *role;     /* of that range; NULL: none */
    const char *pass;     /* of the range with the work; NULL: it does not say */
    int wait_ms;          /* for its batch, which the thread makes itself */
    bool inside;          /* the collection is inside of the range of the program */
    bool checkpoint;      /* and both are inside of a checkpoint */
};

static void add(struct fixture *f, const struct shape *shape, int64_t track, int64_t start,
                int64_t length, const char *name, int64_t detail)
{
    struct store_slice slice = {.track = track,
                                .start = FX_BASE + start,
                                .dur = length,
                                .name = fx_string(f, name),
                                .category =
                                    fx_string(f, shape->category ? shape->category : "torch"),
                                .detail = detail,
                                .correlation = FX_NONE};
    FX(store_slice_add(f->s, &slice));
}

/* The range of the program lasts augment_ms, and longer by a collection inside of it. */
static const struct an_result *run(struct fixture *f, struct shape shape)
{
    fx_open(f);
    int64_t track = fx_track(f, f->process, "thread", "steps", NULL), work;
    struct store_detail detail = fx_empty();
    detail.schema = "tacho.work";
    detail.kind = "matrix";
    detail.flops = 1000;
    detail.pass = shape.pass ? shape.pass : "";
    work = fx_intern(f, &detail);
    for (int i = 0; i < STEPS; i++) {
        int64_t at = i * 100 * MS, augment = shape.augment_ms * MS,
                collected = shape.collection ? shape.collection_ms * MS : 0;
        fx_step(f, f->process, track, i, at, at + 100 * MS, 64, false);
        if (shape.checkpoint)
            add(f, &shape, track, at + MS / 2, 45 * MS, "torch.save", fx_kind(f, "checkpoint"));
        if (shape.wait_ms) {
            add(f, &shape, track, at + MS, shape.wait_ms * MS, "DataLoader.__next__",
                fx_kind(f, "input_wait"));
            add(f, &shape, track, at + MS, shape.wait_ms * MS - 1000, "read", fx_kind(f, "read"));
        }
        if (augment)
            add(f, &shape, track, at + MS, augment + (shape.inside ? collected : 0), "augment",
                FX_NONE);
        if (collected)
            add(f, &shape, track, at + MS + (shape.inside ? MS : augment), collected,
                shape.collection, fx_kind(f, "host"));
        if (shape.training)
            add(f, &shape, track, at + 25 * MS, 24 * MS, shape.training,
                shape.role ? fx_kind(f, shape.role) : FX_NONE);
        add(f, &shape, track, at + 50 * MS, 50 * MS, "Linear", work);
    }
    return fx_analyze(f);
}

static const struct an_finding *finding(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

/* Beside a device that is not recorded the training itself is host time: it stays in the step. */
static void test_training_stays_in_the_step(void **state)
{
    static const char *const names[] = {"backward",          "zero_grad",      "AdamW.step",
                                        "h.0 (Block)",       "## backward ##", "## optimizer ##",
                                        "forward:over_arch", "Forward pass"};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct an_result *result =
            run(f, (struct shape){.augment_ms = 20, .training = names[i]});
        assert_non_null(finding(result, "PYTHON_HOST"));
        says(finding(result, "PYTHON_HOST")->claim, "augment");
        fx_close(f);
    }
}

/* Where passes say that they are some, a range with nothing but a name is the program's own,
 * whatever form the name has; a scheduler of PyTorch has a role, what a pass is called is
 * one, and PyTorch marks some ranges as a program would. */
static void test_names_of_the_program(void **state)
{
    static const struct {
        const char *name, *role;
        bool found;
    } ranges[] = {{"env.step", NULL, true},
                  {"sample (replay)", NULL, true},
                  {"StepLR.step", "host", false},
                  {"feedforward_table", NULL, true},
                  {"FSDP::pre_forward (layers.0)", NULL, false},
                  {"c10d::allreduce_", NULL, false},
                  {"gloo:all_reduce", NULL, false},
                  {"DistributedDataParallel.forward", NULL, false},
                  {"autograd::engine::evaluate_function: MulBackward0", NULL, false},
                  {"Optimizer.step#AdamW.step", NULL, false},
                  {"backward", NULL, false}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct shape shape = {.augment_ms = 20,
                              .training = ranges[i].name,
                              .role = ranges[i].role,
                              .pass = "forward"};
        const struct an_finding *found = finding(run(f, shape), "PYTHON_HOST");
        assert_non_null(found);
        says(found->claim, ranges[i].found ? ranges[i].name : "augment");
        fx_close(f);
    }
}

/* 20 of 100 ms in full collections, one a step: a tenth of them leaves 82 ms. */
static void test_full_collections(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result =
        run(f, (struct shape){.collection = "gc.collect 2", .collection_ms = 20, .augment_ms = 28});
    const struct an_finding *garbage = finding(result, "GARBAGE");
    assert_non_null(garbage);
    says(garbage->claim, "garbage collection takes 20.0 % of the step");
    says(garbage->action, "every 10 steps");
    says(garbage->what_if, "collection=0.1x");
    assert_near(garbage->gain.expected.value, 100 * (100 / 82.0 - 1), 0.2);
    assert_true(garbage->gain.low.valid && garbage->gain.low.value > 0);
    fx_close(f);
}

/* torch.profiler names a collection, but not its generation. */
static void test_collections_of_the_profiler(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result =
        run(f, (struct shape){.collection = "Python GC", .collection_ms = 20});
    const struct an_finding *garbage = finding(result, "GARBAGE");
    assert_non_null(garbage);
    says(garbage->claim, "garbage collection takes 20.0 % of the step");
    assert_string_equal(garbage->evidence[2], "1 collections a step");
    assert_null(finding(result, "PYTHON_HOST"));
    fx_close(f);
}

/* The others depend on what the program allocates: an upper bound is all that is known. */
static void test_young_collections(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result =
        run(f, (struct shape){.collection = "gc.collect 0", .collection_ms = 20});
    const struct an_finding *garbage = finding(result, "GARBAGE");
    assert_non_null(garbage);
    says(garbage->action, "gc.freeze()");
    assert_true(garbage->gain.ceiling && !garbage->gain.low.valid);
    assert_near(garbage->gain.high.value, 25, 0.2);
    fx_close(f);
    result = run(f, (struct shape){.collection = "gc.collect 2", .collection_ms = 1});
    assert_null(finding(result, "GARBAGE"));
    fx_close(f);
}

/* The range of the program has 10 of 100 ms itself, wherever the collection is. */
static void test_range_of_the_program(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape shape = {.collection = "gc.collect 2", .collection_ms = 20, .augment_ms = 10};
    for (int inside = 0; inside < 2; inside++) {
        shape.inside = inside;
        const struct an_result *result = run(f, shape);
        const struct an_finding *host = finding(result, "PYTHON_HOST");
        assert_non_null(host);
        says(host->claim, "the range augment takes 10.0 % of the step");
        assert_near(host->gain.high.value, 100 * (100 / 90.0 - 1), 0.2);
        assert_string_equal(result->findings[0].id, "GARBAGE");
        fx_close(f);
    }
    shape.checkpoint = true; /* is cut out of the step */
    const struct an_result *result = run(f, shape);
    assert_null(finding(result, "PYTHON_HOST"));
    assert_null(finding(result, "GARBAGE"));
    fx_close(f);
}

/* Ranges of other programs are not those of Python; what is not marked is advised in its terms. */
static void test_framework(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result = run(f, (struct shape){.category = "mine", .augment_ms = 10});
    assert_null(finding(result, "PYTHON_HOST"));
    says(finding(result, "UNATTRIBUTED")->action, "tacho_nvtx.h");
    fx_close(f);
    result = run(f, (struct shape){.augment_ms = 10});
    assert_non_null(finding(result, "PYTHON_HOST"));
    says(finding(result, "UNATTRIBUTED")->action, "record_function");
    fx_close(f);
}

/* Pinned memory is for copies to a device. */
static void test_advice_fits_the_machine(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_finding *stall = finding(run(f, (struct shape){.wait_ms = 40}), "INPUT_STALL");
    assert_non_null(stall);
    says(stall->action, "num_workers=");
    assert_null(strstr(stall->action, "pin_memory"));
    fx_close(f);
}

/* Every eighth step starts workers in 20 ms and waits 40 ms for the first batch, all steps wait 1
 * ms. Three restarts of 20 + 40 - 1 ms in the 22 steps that count; one alone is none. */
static void test_workers_are_started_again(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int every = 8; every <= STEPS; every *= 3) {
        struct shape shape = {0};
        fx_open(f);
        int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
        int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
        for (int i = 0; i < STEPS; i++) {
            int64_t at = i * 100 * MS, starts = i % every == 4 ? 20 * MS : 0;
            fx_step(f, f->process, track, i, at, at + 100 * MS, 64, false);
            if (starts)
                add(f, &shape, track, at + MS, starts, "loader workers started",
                    fx_kind(f, "host"));
            add(f, &shape, track, at + 2 * MS + starts, starts ? 40 * MS : MS,
                "DataLoader.__next__", fx_kind(f, "input_wait"));
            add(f, &shape, track, at + 70 * MS, 29 * MS, "Linear", work);
        }
        const struct an_result *result = fx_analyze(f);
        const struct an_finding *found = finding(result, "WORKERS_RESTARTED");
        assert_int_equal(found != NULL, every == 8);
        if (found) {
            says(found->claim, "started again in 3 steps: 59 ms each, 8.0 % of the steps' time");
            says(found->action, "persistent_workers=True");
            assert_near(found->gain.high.value, 100 * (2200 / (2200 - 177.0) - 1), 0.01);
            assert_null(finding(result, "INPUT_STALL"));
        }
        fx_close(f);
    }
}

/* 24 steps of 100 ms; so many ms of each go into calls of operators, by the counters, and 10 ms
 * into nodes of the graph, unless the hook is one that counted none. */
static const struct an_result *call(struct fixture *f, double ms, bool nodes)
{
    static const struct {
        const char *name;
        double value;
    } counters[] = {{"host.operators_forward", 1000}, {"host.operators_backward", 2000},
                    {"host.operator_forward_us", 10}, {"host.operator_backward_us", 10},
                    {"host.nodes_backward", 500},     {"host.node_us", 20}};
    struct shape shape = {0};
    fx_open(f);
    int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        if (!nodes && strstr(counters[i].name, "node"))
            continue;
        int64_t counter = fx_track(f, f->process, "counter", counters[i].name, "");
        bool is_time = strstr(counters[i].name, "operator_") != NULL;
        fx_counter(f, counter, 10 * MS, counters[i].value * (is_time ? ms / 30 : 1));
    }
    for (int i = 0; i < STEPS; i++) {
        fx_step(f, f->process, track, i, i * 100 * MS, (i + 1) * 100 * MS, 64, false);
        add(f, &shape, track, i * 100 * MS + MS, 98 * MS, "Linear", work);
    }
    return fx_analyze(f);
}

static void test_calls_of_operators(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_finding *found = finding(call(f, 60, false), "SMALL_BATCH_HOST");
    assert_non_null(found);
    says(found->claim, "calling 3000 operators takes 60 % of the step");
    says(found->evidence[1], "1000 operators forward and 2000 backward");
    assert_near(found->gain.high.value, 150, 0.1);
    assert_string_equal(found->changes, "the global batch");
    fx_close(f);
    assert_null(finding(call(f, 20, false), "SMALL_BATCH_HOST"));
    fx_close(f);
    found = finding(call(f, 20, true), "SMALL_BATCH_HOST");
    assert_non_null(found);
    says(found->claim, "calling 3000 operators takes 30 % of the step");
    says(found->evidence[2], "500 nodes of autograd's graph: 20 µs for each");
    fx_close(f);
}

/* 24 steps of 100 ms with backward passes of 13 ms, each followed by a reduction of 10 ms of what
 * `models` says: a letter for each, 'u' for an update of 1 ms. */
static const struct an_result *reduce(struct fixture *f, const char *models)
{
    fx_open(f);
    int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
    struct store_detail comm = fx_empty(), work = fx_empty(), update = fx_empty();
    struct shape shape = {0};
    comm.schema = "tacho.comm";
    comm.collective = "all_reduce";
    comm.ranks = 2;
    work.schema = update.schema = "tacho.work";
    work.kind = update.kind = "matrix";
    work.flops = 1000;
    update.pass = "optimizer";
    for (int i = 0; i < STEPS; i++) {
        int64_t at = i * 100 * MS;
        fx_step(f, f->process, track, i, at, at + 100 * MS, 64, false);
        for (const char *model = models; *model; model++) {
            bool again = memchr(models, *model, (size_t)(model - models)) != NULL;
            if (*model == 'u') {
                add(f, &shape, track, at, MS, "Adam.step", fx_intern(f, &update));
                at += MS;
                continue;
            }
            add(f, &shape, track, at, 13 * MS, "backward", fx_intern(f, &work));
            add(f, &shape, track, at + 13 * MS, 10 * MS,
                again ? "gradients reduced again" : "gradients reduced", fx_intern(f, &comm));
            at += 23 * MS;
        }
    }
    return fx_analyze(f);
}

/* Of one model one reduction before its update is enough; those of other models, and of a model
 * that was updated in between, are needed. */
static void test_reductions(void **state)
{
    static const struct {
        const char *models, *claim;
        double share;
    } steps[] = {{"aaaa", "reduced 4 times a step; 3 of these repeat", 30},
                 {"ddgu", "reduced 3 times a step; 1 of these repeat", 10},
                 {"aaab", "reduced 4 times a step; 2 of these repeat", 20},
                 {"abab", "reduced 4 times a step; 2 of these repeat", 20},
                 {"dduud", "reduced 3 times a step; 1 of these repeat", 10},
                 {"abcd", NULL, 0},
                 {"dudud", NULL, 0}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        const struct an_finding *each =
            finding(reduce(f, steps[k].models), "DDP_SYNC_EACH_MICROSTEP");
        assert_int_equal(each != NULL, steps[k].claim != NULL);
        if (each) {
            says(each->claim, steps[k].claim);
            says(each->action, "no_sync()");
            assert_false(each->gain.ceiling || each->bound);
            double share = steps[k].share, rest = 1 - share / 100;
            assert_near(each->gain.low.value, 100 * (100 / (100 - 0.95 * share) - 1), 0.01);
            assert_near(each->gain.expected.value,
                        100 * (100 / (100 - share * (1 + 0.55 * rest)) - 1), 0.01);
            assert_near(each->gain.high.value, 100 * (100 / (100 - share * (1 + 1.1 * rest)) - 1),
                        0.01);
        }
        fx_close(f);
    }
}

/* 24 steps of 100 ms, of which 12 are two calls of the program itself: small ones, large ones, ones
 * that PyTorch calls for a purpose of its own, or small ones of an evaluation. */
static void test_small_collectives(void **state)
{
    static const struct {
        const char *name;
        int64_t bytes;
        bool evaluates, found;
    } call[] = {{"all_reduce train.py:42", 4, false, true},
                {"barrier train.py:43 in mesh_dp", 0, false, true},
                {"all_reduce train.py:42", 1 << 20, false, false},
                {"all_reduce (norm of the gradient)", 4, false, false},
                {"all_reduce train.py:42", 4, true, false}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t k = 0; k < sizeof call / sizeof *call; k++) {
        struct shape shape = {0};
        struct store_detail comm = fx_empty();
        fx_open(f);
        int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
        int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
        comm.schema = "tacho.comm";
        comm.collective = "all_reduce";
        comm.ranks = 2;
        comm.bytes = call[k].bytes;
        for (int i = 0; i < STEPS; i++) {
            int64_t at = i * 100 * MS;
            fx_step(f, f->process, track, i, at, at + 100 * MS, 64, false);
            if (call[k].evaluates)
                add(f, &shape, track, at + MS, 18 * MS, "evaluate", fx_kind(f, "evaluation"));
            add(f, &shape, track, at + MS, 5 * MS, call[k].name, fx_intern(f, &comm));
            add(f, &shape, track, at + 10 * MS, 7 * MS, call[k].name, fx_intern(f, &comm));
            add(f, &shape, track, at + 20 * MS, 79 * MS, "Linear", work);
        }
        const struct an_finding *found = finding(fx_analyze(f), "SMALL_COLLECTIVE");
        assert_int_equal(found != NULL, call[k].found);
        if (found) {
            says(found->claim, call[k].name);
            says(found->claim, "12.0 % of them");
            says(found->evidence[1], "2 a step, 6 ms each");
        }
        fx_close(f);
    }
}

/* Anomaly detection at all looks, or at one of four: a profiler of some steps is no fault. */
static void test_switches_for_debugging(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int k = 0; k < 3; k++) {
        bool off = k == 1, nodes = k == 2; /* an earlier hook counts no nodes */
        struct shape shape = {0};
        fx_open(f);
        int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
        int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
        int64_t counter = fx_track(f, f->process, "counter", "debugging anomaly detection", "");
        static const struct {
            const char *name;
            double value;
        } counters[] = {{"host.operators_forward", 100},
                        {"host.operators_backward", 200},
                        {"host.anomaly_forward_us", 50},
                        {"host.anomaly_backward_us", 25},
                        {"host.nodes_backward", 120}};
        for (size_t i = 0; i < sizeof counters / sizeof *counters - !nodes; i++)
            fx_counter(f, fx_track(f, f->process, "counter", counters[i].name, ""), 10 * MS,
                       counters[i].value);
        for (int i = 0; i < STEPS; i++) {
            fx_step(f, f->process, track, i, i * 100 * MS, (i + 1) * 100 * MS, 64, false);
            add(f, &shape, track, i * 100 * MS + MS, 98 * MS, "Linear", work);
            fx_counter(f, counter, i * 100 * MS + 99 * MS, off && i % 4 ? 0 : 1);
        }
        const struct an_result *result = fx_analyze(f);
        const struct an_finding *found = finding(result, "DEBUG_MODE");
        assert_int_equal(found != NULL, !off);
        if (found) {
            assert_ptr_equal(found, result->findings); /* before what has a gain */
            says(found->action, "set_detect_anomaly(False)");
            says(found->evidence[0], "on in 100 % of the checks");
            says(found->evidence[1], nodes ? "220 of them make 8.0 % of the step at least"
                                           : "300 of them make 10.0 % of the step at least");
        }
        fx_close(f);
    }
}

/* 24 steps of 100 ms; the other ranges of DistributedDataParallel take what is said of each. Those
 * of an evaluation between two updates are no part of the step. */
static void test_what_replicas_do(void **state)
{
    static const struct {
        const char *name, *id, *says;
        int64_t ms, evaluation_ms;
    } habit[] = {{"unused parameters looked for", "DDP_UNUSED_PARAMETERS", "10.0 %", 10, 0},
                 {"buffers broadcast", "DDP_BUFFERS", "25.0 %", 25, 0},
                 {"buffers broadcast", "DDP_BUFFERS", NULL, 1, 0},
                 {"buffers broadcast", "DDP_BUFFERS", NULL, 25, 40}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t k = 0; k < sizeof habit / sizeof *habit; k++) {
        fx_open(f);
        int64_t track = fx_track(f, f->process, "thread", "steps", NULL);
        for (int i = 0; i < STEPS; i++) {
            fx_step(f, f->process, track, i, i * 100 * MS, (i + 1) * 100 * MS, 64, false);
            if (habit[k].evaluation_ms)
                fx_slice(f, track, i * 100 * MS, i * 100 * MS + habit[k].evaluation_ms * MS, "Net",
                         fx_kind(f, "evaluation"));
            fx_slice(f, track, i * 100 * MS, i * 100 * MS + habit[k].ms * MS, habit[k].name,
                     fx_kind(f, "comm_wait"));
        }
        const struct an_finding *found = finding(fx_analyze(f), habit[k].id);
        assert_int_equal(found != NULL, habit[k].says != NULL);
        if (found)
            says(found->claim, habit[k].says);
        fx_close(f);
    }
}

/* A recompilation of JAX has its time itself, one of PyTorch in the phase that follows it; those
 * before the first step count nothing. A graph break has a place and no gain. */
static void test_compilations(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    int64_t track = fx_track(f, f->process, "thread", "steps", NULL),
            compile = fx_kind(f, "compile");
    fx_slice(f, track, 0, 50 * MS, "recompile early: x", compile);
    fx_slice(f, track, 60 * MS, 60 * MS + 1000, "graph break train.py:7: print", compile);
    for (int i = 0; i < STEPS; i++) {
        int64_t at = (i + 1) * 100 * MS;
        fx_step(f, f->process, track, i, at, at + 100 * MS, 64, false);
        if (i % 8 == 3) {
            fx_slice(f, track, at + MS, at + MS + 500, "recompile f (train.py:3): size", compile);
            fx_slice(f, track, at + 2 * MS, at + 42 * MS, "torch.compile", compile);
        }
        if (i % 8 == 5)
            fx_slice(f, track, at + 2 * MS, at + 32 * MS, "recompile g: args[0] f[3]", compile);
    }
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *again = finding(result, "RECOMPILE");
    assert_non_null(again);
    says(again->claim, "6 recompilations");
    says(again->evidence[0], "210 ms of 2.3 s");
    says(again->evidence[1], "3 x recompile f (train.py:3): size");
    const struct an_finding *broken = finding(result, "GRAPH_BREAK");
    assert_non_null(broken);
    says(broken->evidence[0], "1 x graph break train.py:7: print");
    assert_false(broken->gain.high.valid);
    fx_close(f);
}

/* A trace of torch.profiler without a hook: one frame is compiled again in every `every`-th step,
 * 30 of its 100 ms, for the regions that follow. The first one was compiled before the steps. */
static const struct an_result *compile_again(struct fixture *f, int every)
{
    char name[64];
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    int64_t track = fx_track(f, f->process, "thread", "steps", NULL),
            compile = fx_kind(f, "compile");
    for (int i = 0; i < STEPS; i++) {
        int64_t at = i * 100 * MS;
        fx_step(f, f->process, track, i, at, at + 100 * MS, 64, false);
        if (i % every == 0) {
            fx_slice(f, track, at + MS, at + 31 * MS, "entire_frame_compile", FX_NONE);
            fx_slice(f, track, at + MS, at + 31 * MS, "_compile.compile_inner", compile);
            fx_slice(f, track, at + 2 * MS, at + 9 * MS, "backend_compile", compile);
        }
        snprintf(name, sizeof name, "Torch-Compiled Region: 0/%d", i / every + (every == 1));
        for (int call = 0; call < 3; call++)
            fx_slice(f, track, at + (40 + call) * MS, at + (41 + call) * MS, name, FX_NONE);
    }
    return fx_analyze(f);
}

static void test_compilations_of_the_profiler(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result = compile_again(f, 4);
    const struct an_finding *again = finding(result, "RECOMPILE");
    assert_non_null(again); /* at the steps 4, 8, 12, 16 and 20 */
    says(again->claim, "5 recompilations take 6.5 %");
    says(again->evidence[0], "150 ms of 2.3 s");
    says(again->evidence[1], "1 x Torch-Compiled Region: 0/");
    assert_null(finding(result, "GRAPH_BREAK")); /* there is one frame */
    fx_close(f);
    result = compile_again(f, 1);
    says(result->verdict, "each of the 22 that could be counted compiles");
    again = finding(result, "RECOMPILE");
    assert_non_null(again);
    says(again->claim, "23 recompilations take 30.0 %");
    fx_close(f);
}

/* Two ranks with marks in their compilations: one of 200 ms before the first step, one of 40 ms in
 * the steps. The third compilation is in the cache, and a range of the program is no mark. */
static void record_uncached(struct fixture *f, const char *why, const char *other)
{
    fx_open(f);
    int64_t compile = fx_kind(f, "compile");
    for (int rank = 0; rank < 2; rank++) {
        int64_t process = rank ? fx_process(f, rank, "train") : f->process,
                track = fx_track(f, process, "thread", "steps", NULL);
        fx_slice(f, track, 0, 200 * MS, "torch.compile", compile);
        fx_slice(f, track, 190 * MS, 190 * MS + 500, why, compile);
        for (int i = 0; i < STEPS; i++) {
            int64_t at = 200 * MS + i * 100 * MS;
            fx_step(f, process, track, i, at, at + 100 * MS, 64, false);
            if (i == 3 || i == 7)
                fx_slice(f, track, at + MS, at + 41 * MS, "torch.compile", compile);
            if (i == 3)
                fx_slice(f, track, at + 40 * MS, at + 40 * MS + 500, other, compile);
            fx_slice(f, track, at + 50 * MS, at + 60 * MS, "compile cache warmup", FX_NONE);
        }
    }
}

static void test_compilations_without_cache(void **state)
{
    static const char refused[] = "compile cache refuses: Unsupported custom pass",
                      off[] = "compile cache is off: fx_graph_cache";
    struct fixture fixture, *f = &fixture;
    (void)state;
    record_uncached(f, refused, refused);
    const struct an_finding *row = finding(fx_analyze(f), "COMPILE_CACHE");
    assert_non_null(row);
    says(row->claim, "refuses the graphs of 4 compilations (480 ms of 5 s)");
    says(row->evidence[0], "4 x compile cache refuses: Unsupported custom pass");
    assert_true(row->gain.ceiling);
    assert_true(fabs(row->gain.high.value - 100 * 480. / (5000 - 480)) < 0.01);
    fx_close(f);
    record_uncached(f, off, refused);
    row = finding(fx_analyze(f), "COMPILE_CACHE");
    assert_non_null(row);
    says(row->claim, "is off for 2 compilations (400 ms of 5 s)");
    says(row->action, "TORCHINDUCTOR_FX_GRAPH_CACHE");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_workers_are_started_again),
                                       cmocka_unit_test(test_small_collectives),
                                       cmocka_unit_test(test_switches_for_debugging),
                                       cmocka_unit_test(test_calls_of_operators),
                                       cmocka_unit_test(test_what_replicas_do),
                                       cmocka_unit_test(test_compilations),
                                       cmocka_unit_test(test_compilations_of_the_profiler),
                                       cmocka_unit_test(test_compilations_without_cache),
                                       cmocka_unit_test(test_training_stays_in_the_step),
                                       cmocka_unit_test(test_names_of_the_program),
                                       cmocka_unit_test(test_full_collections),
                                       cmocka_unit_test(test_collections_of_the_profiler),
                                       cmocka_unit_test(test_young_collections),
                                       cmocka_unit_test(test_range_of_the_program),
                                       cmocka_unit_test(test_framework),
                                       cmocka_unit_test(test_advice_fits_the_machine),
                                       cmocka_unit_test(test_reductions)};
    return cmocka_run_group_tests_name("an_findings_python", tests, NULL, NULL);
}
