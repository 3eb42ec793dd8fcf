/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders of torch traces: marked waits, stages from Python frames, what gaps tell where nothing is
 * marked.
 */
#include "tests/unit/an_gpu.h"

#define SINGLE "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
#define MULTI  "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

/* Six steps of 100 us; in each the thread waits 30 us (wait NULL: does nothing), then launches a
 * kernel of 40 us. */
static void steps(struct fixture *f, const char *wait, const char *category)
{
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, i * 100, (i + 1) * 100, name, "annotation", FX_NONE);
        if (wait)
            gpu_row(f, f->thread, i * 100 + 5, i * 100 + 35, wait, category, FX_NONE);
        gpu_row(f, f->thread, i * 100 + 35, i * 100 + 90, "aten::mm", "op", FX_NONE);
        gpu_launch(f, s, i * 100 + 40, i * 100 + 42, i * 100 + 45, i * 100 + 85,
                   "volta_sgemm_128x64_nn", i + 1);
    }
}

static void test_marked(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, MULTI, "annotation");
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_null(l->reason);
    assert_string_equal(l->source, "enumerate(DataLoader)");
    assert_int_equal(l->batches, 6);
    assert_near(l->wait_ms_per_step.value, 0.030, 1e-12);
    assert_false(l->inferred_wait_ms_per_step.valid);
    assert_false(l->workers.valid);
    assert_non_null(strstr(l->workers.reason, "one process"));
    assert_false(l->workers_needed.valid);
    assert_int_equal(l->stage_count, 0);
    fx_close(f);
}

/* Without workers the wait is the cost of a batch: 30 us beside 70 us of other work need one
 * worker. */
static void test_single(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, SINGLE, "op");
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_near(l->wait_ms_per_step.value, 0.030, 1e-12);
    assert_int_equal(l->workers.value, 0);
    assert_true(l->workers.valid);
    assert_int_equal(l->workers_needed.value, 1);
    assert_int_equal(l->stage_count, 1);
    assert_string_equal(l->stages[0].name, "fetch");
    assert_near(l->stages[0].ms_per_batch.value, 0.030, 1e-12);
    fx_close(f);
}

/* Batches of 270 us beside 100 us of work need three workers; without a count of cores that is not
 * claimed. */
static void test_needed(void **state)
{
    (void)state;
    for (int cores = 0; cores <= 4; cores += 2) {
        struct fixture fixture, *f = &fixture;
        fx_open(f);
        int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
        for (int i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", i);
            gpu_row(f, f->thread, i * 370, (i + 1) * 370, name, "annotation", FX_NONE);
            gpu_row(f, f->thread, i * 370, i * 370 + 270, SINGLE, "op", FX_NONE);
            gpu_launch(f, s, i * 370 + 280, i * 370 + 282, i * 370 + 285, i * 370 + 360, "k",
                       i + 1);
        }
        if (cores)
            FX(store_run_set_int(f->s, "cpu.usable", cores));
        const struct an_loader *l = &fx_analyze(f)->loader;
        assert_int_equal(l->workers_needed.valid, cores > 0);
        if (cores)
            assert_int_equal(l->workers_needed.value, cores == 2 ? 2 : 3);
        else
            assert_non_null(strstr(l->workers_needed.reason, "3 if that many cores"));
        fx_close(f);
    }
}

/* Frames: own time of each stage; a __getitem__ outside of the loader is not reading. */
static void test_frames(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        int64_t at = i * 100;
        gpu_row(f, f->thread, at + 5, at + 35, "torch/utils/data/dataloader.py(628): __next__",
                "python", FX_NONE);
        gpu_row(f, f->thread, at + 6, at + 34, "torch/utils/data/dataloader.py(670): __next__",
                "python", FX_NONE);
        gpu_row(f, f->thread, at + 7, at + 27, "torch/utils/data/_utils/fetch.py(47): fetch",
                "python", FX_NONE);
        gpu_row(f, f->thread, at + 8, at + 20, "data.py(7): __getitem__", "python", FX_NONE);
        gpu_row(f, f->thread, at + 9, at + 19, "image.py(9): __getitem__", "python", FX_NONE);
        gpu_row(f, f->thread, at + 20, at + 25,
                "torch/utils/data/_utils/collate.py(2): default_collate", "python", FX_NONE);
        gpu_row(f, f->thread, at + 21, at + 24, "torch/utils/data/_utils/collate.py(1): collate",
                "python", FX_NONE);
        gpu_row(f, f->thread, at + 28, at + 30,
                "torch/utils/data/_utils/pin_memory.py(1): pin_memory", "python", FX_NONE);
        gpu_row(f, f->thread, at + 91, at + 99, "model.py(3): __getitem__", "python", FX_NONE);
    }
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_string_equal(l->source, "Python frames");
    assert_int_equal(l->batches, 6);
    assert_near(l->wait_ms_per_step.value, 0.030, 1e-12);
    static const struct {
        const char *name;
        double ms;
    } stage[] = {{"fetch", 0.003}, {"read", 0.012}, {"collate", 0.005}, {"pin_memory", 0.002}};
    assert_int_equal(l->stage_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(l->stages[i].name, stage[i].name);
        assert_near(l->stages[i].ms_per_batch.value, stage[i].ms, 1e-12);
        assert_int_equal(l->stages[i].count, 6);
    }
    fx_close(f);
}

/* No marker: the longest time of a step in which neither a thread nor a device works, called
 * inferred. */
static void test_gaps(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, NULL, NULL); /* nothing in 0..35 and 90..100 of each step */
    int64_t backward = fx_track(f, f->process, "thread", "backward", NULL);
    gpu_row(f, backward, 210, 212, "aten::mul", "op", FX_NONE); /* step 2: 212..235 is left */
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_null(l->reason);
    assert_string_equal(l->source, "gaps");
    assert_false(l->wait_ms_per_step.valid);
    assert_non_null(strstr(l->wait_ms_per_step.reason, "inferred"));
    assert_near(l->inferred_wait_ms_per_step.value, (3 * 35 + 23) / 4.0 / 1e3, 1e-12);
    fx_close(f);
}

/* tacho's own ranges come first; a CPU run without any says how to mark them. */
static void test_own(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    for (int i = 0; i < 5; i++) {
        fx_step(f, f->process, f->thread, i, i * 100000, (i + 1) * 100000, FX_NONE, false);
        fx_slice(f, f->thread, i * 100000, i * 100000 + 20000, "wait", fx_kind(f, "input_wait"));
    }
    const struct an_loader *l = &fx_analyze(f)->loader;
    assert_string_equal(l->source, "tacho.range");
    assert_near(l->wait_ms_per_step.value, 0.020, 1e-12);
    fx_close(f);
    fx_open(f);
    fx_slice(f, f->thread, 0, 10, "work", FX_NONE);
    l = &fx_analyze(f)->loader;
    assert_non_null(strstr(l->reason, "input_wait"));
    assert_null(l->source);
    assert_false(l->inferred_wait_ms_per_step.valid);
    fx_close(f);
}

/* ---- ranges of tacho's own ------------------------------------------------------------------------------------------------ */

#define OWN_STEPS 12
#define US        1000
#define MS        1000000

/* A run of OWN_STEPS steps of 10 ms of compute and a wait, with `batches` batches a step. Times in
 * us. */
struct shape {
    int ranks, workers, batches;
    int batch;      /* worker time of a batch: half read, a quarter decode, the rest collate */
    int slow_batch; /* of rank 1, 0: the same */
    int pin;        /* by a thread of its own */
    bool processes, in_line, evaluation;
    const char *program;
    double cpu_cores;      /* sampled use of all cores; 0: not sampled */
    double device_bytes_s; /* sampled reads from storage; 0: not sampled */
    double disk;           /* measured rate; 0: not calibrated */
    int cores;
};

static int own_wait(const struct shape *s, int batch)
{
    if (s->in_line)
        return batch * s->batches;
    int per = batch / s->workers > s->pin ? batch / s->workers : s->pin;
    return per * s->batches > 10000 ? per * s->batches - 10000 : 0;
}

static void own_stages(struct fixture *f, int64_t track, int64_t at, int batch)
{
    struct store_detail read = fx_empty();
    read.schema = "tacho.range";
    read.kind = "read";
    read.bytes = 1000000;
    fx_slice(f, track, at * US, (at + batch / 2) * US, "read", fx_intern(f, &read));
    fx_slice(f, track, (at + batch / 2) * US, (at + batch * 3 / 4) * US, "decode",
             fx_kind(f, "decode"));
    fx_slice(f, track, (at + batch * 3 / 4) * US, (at + batch) * US, "collate",
             fx_kind(f, "collate"));
}

static int64_t own_process(struct fixture *f, int64_t rank, int64_t pid, int64_t parent,
                           const char *program)
{
    struct store_process p = {.rank = rank,
                              .pid = pid,
                              .parent_pid = parent,
                              .start = FX_BASE,
                              .end = FX_NONE,
                              .exit_status = 0,
                              .host = "host",
                              .device = "cpu",
                              .program = program,
                              .ended = "exit"};
    FX(store_process_add(f->s, &p));
    return p.id;
}

/* Steps of a rank with their waits; workers each make one batch after the other and wait for room
 * until their turn. */
static void own_rank(struct fixture *f, const struct shape *s, int rank)
{
    int batch = rank && s->slow_batch ? s->slow_batch : s->batch,
        wait = own_wait(s, batch) / s->batches;
    int64_t pid = 1000 + rank * 100,
            process = own_process(f, s->ranks > 1 ? rank : FX_NONE, pid, 1, s->program);
    int64_t thread = fx_track(f, process, "thread", "main", NULL),
            step = 10000 + (int64_t)wait * s->batches;
    for (int i = 0; i < OWN_STEPS; i++) {
        int64_t at = i * step;
        fx_step(f, process, thread, i, at * US, (at + step) * US, 4 * 8, false); /* 8 samples */
        for (int k = 0; k < s->batches; k++) {
            fx_slice(f, thread, at * US, (at + wait) * US, "input_wait", fx_kind(f, "input_wait"));
            if (s->in_line)
                own_stages(f, thread, at, batch);
            at += wait;
            fx_slice(f, thread, at * US, (at + 10000 / s->batches) * US, "matmul",
                     fx_work(f, "matrix", "fp32", 1, 1, 1));
            at += 10000 / s->batches;
        }
    }
    if (s->evaluation) { /* a loader of its own inside a phase: not part of the steps */
        fx_slice(f, thread, OWN_STEPS * step * US, (OWN_STEPS * step + 5000) * US, "evaluation",
                 fx_kind(f, "evaluation"));
        own_stages(f, thread, OWN_STEPS * step + 100, 4000);
    }
    for (int k = 0; k < s->workers; k++) {
        char name[32];
        snprintf(name, sizeof name, "loader-%d", k);
        int64_t owner =
            s->processes ? own_process(f, FX_NONE, pid + 1 + k, pid, s->program) : process;
        int64_t track = fx_track(f, owner, "thread", s->processes ? "main" : name, NULL);
        int64_t period = step * s->workers / s->batches; /* a batch of this worker each period */
        for (int64_t at = 0; at + period <= OWN_STEPS * step; at += period) {
            own_stages(f, track, at, batch);
            if (batch < period)
                fx_slice(f, track, (at + batch) * US, (at + period) * US, "queue_wait",
                         fx_kind(f, "queue_wait"));
        }
    }
    int64_t pin = s->pin ? fx_track(f, process, "thread", "pin-0", NULL) : 0;
    for (int i = 0; s->pin && i < OWN_STEPS * s->batches; i++) {
        int64_t at = i * step / s->batches;
        fx_slice(f, pin, at * US, (at + s->pin) * US, "pin", fx_kind(f, "pin"));
    }
    for (int what = 0; what < 2; what++) { /* counters of the rank's process, 20 samples */
        double rate = what ? s->device_bytes_s / 1e9 : s->cpu_cores;
        if (rate <= 0)
            continue;
        int64_t track =
            fx_track(f, process, "counter", what ? "disk_read" : "cpu_time", what ? "bytes" : "ns");
        for (int64_t i = 0, last = OWN_STEPS * step * US; i <= 20; i++)
            fx_counter(f, track, last * i / 20, rate * (double)(last * i / 20) / s->ranks);
        if (!what)
            continue;
        track = fx_track(f, FX_NONE, "counter", "disk_read",
                         "bytes"); /* of the machine: other programs read ten times that */
        for (int64_t i = 0, last = OWN_STEPS * step * US; i <= 20; i++)
            fx_counter(f, track, last * i / 20, 1e9 + 10 * rate * (double)(last * i / 20));
    }
}

static const struct an_result *own(struct fixture *f, struct shape s)
{
    s.ranks = s.ranks ? s.ranks : 1;
    s.batches = s.batches ? s.batches : 1;
    s.program = s.program ? s.program : "train";
    fx_open(f);
    for (int rank = 0; rank < s.ranks; rank++)
        own_rank(f, &s, rank);
    if (s.cores)
        FX(store_run_set_int(f->s, "cpu.usable", s.cores));
    if (s.disk > 0) {
        struct store_ceiling c = {.device = "cpu",
                                  .resource = "disk_sequential_read",
                                  .source = "measured: test",
                                  .value = s.disk};
        FX(store_ceiling_add(f->s, &c));
    }
    return fx_analyze(f);
}

static const struct an_finding *stall(const struct an_result *r)
{
    return r->finding_count && !strcmp(r->findings[0].id, "INPUT_STALL") ? &r->findings[0] : NULL;
}

static void has_evidence(const struct an_finding *x, const char *text)
{
    for (size_t i = 0; i < 5 && x->evidence[i]; i++)
        if (strstr(x->evidence[i], text))
            return;
    fail_msg("no evidence of %s says \"%s\"", x->id, text);
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

/* In line the wait is the batch; beside the step it is what the workers do not hide. */
static void test_wait_follows_from_batch_and_workers(void **state)
{
    static const struct {
        struct shape s;
        double wait, batch, needed, busy;
    } cases[] = {{{.in_line = true, .batch = 4000}, 4, 4, 1, NAN},
                 {{.in_line = true, .batch = 24000}, 24, 24, 3, NAN},
                 {{.workers = 1, .batch = 24000}, 14, 24, 3, 100},
                 {{.workers = 2, .batch = 24000}, 2, 24, 3, 100},
                 {{.workers = 3, .batch = 24000}, 0, 24, 3, 80},
                 {{.workers = 3, .batch = 24000, .processes = true}, 0, 24, 3, 80},
                 {{.workers = 2, .batch = 24000, .processes = true}, 2, 24, 3, 100},
                 {{.workers = 1, .batch = 1000}, 0, 1, 1, 10},
                 {{.in_line = true, .batch = 3000, .batches = 2}, 6, 3, 1, NAN},
                 {{.workers = 1, .batch = 12000, .batches = 2}, 14, 12, 3, 100},
                 {{.workers = 2, .batch = 12000, .batches = 2, .evaluation = true}, 2, 12, 3, 100},
                 {{.workers = 4, .batch = 12000, .batches = 4}, 2, 12, 5, 100}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fixture, *f = &fixture;
        const struct an_result *r = own(f, cases[i].s);
        const struct an_loader *l = &r->loader;
        double batches = cases[i].s.batches ? cases[i].s.batches : 1;
        assert_near(l->wait_ms_per_step.value, cases[i].wait, 1e-6);
        assert_near(l->expected_wait_ms_per_step.value, cases[i].wait, 1e-6);
        assert_near(l->batch_ms.value, cases[i].batch, 1e-6);
        assert_near(l->batches_per_step.value, batches, 1e-9);
        assert_int_equal(l->workers.value, cases[i].s.workers);
        assert_int_equal(l->workers_needed.value, (int64_t)cases[i].needed);
        assert_string_equal(l->worker_kind, cases[i].s.in_line     ? "in line"
                                            : cases[i].s.processes ? "processes"
                                                                   : "threads");
        assert_int_equal(l->worker_busy_pct.valid, cases[i].s.workers > 0);
        if (cases[i].s.workers)
            assert_near(l->worker_busy_pct.value, cases[i].busy,
                        3); /* the steps begin inside a batch */
        assert_int_equal(l->worker_count, cases[i].s.workers);
        double pipeline =
            8e3 / (cases[i].batch * batches / (cases[i].s.workers ? cases[i].s.workers : 1));
        assert_near(l->pipeline_samples_per_s.value, pipeline, pipeline * 1e-9);
        assert_near(l->compute_samples_per_s.value, 800, 1e-6);
        assert_near(l->stages[0].ms_per_batch.value, cases[i].batch / 2, 1e-6);
        assert_int_equal(stall(r) != NULL, cases[i].wait > 0);
        fx_close(f);
    }
}

/* What a quick batch takes is asked of batches, from one collate to the next: not of what a wait
 * for room cuts off, nor of single stages where nothing says which make a batch. */
static void test_quick_batch(void **state)
{
    (void)state;
    for (int collates = 0; collates < 2; collates++) {
        struct fixture fixture, *f = &fixture;
        fx_open(f);
        int64_t worker = fx_track(f, f->process, "thread", "loader-0", NULL),
                work = fx_work(f, "matrix", "fp32", 1, 1, 1);
        for (int64_t i = 0; i < 30; i++) {
            int64_t at = i * 10 * MS;
            fx_step(f, f->process, f->thread, i, at, at + 10 * MS, 32, false);
            fx_slice(f, f->thread, at, at + MS, "input_wait", fx_kind(f, "input_wait"));
            fx_slice(f, f->thread, at + MS, at + 10 * MS, "matmul", work);
            fx_slice(f, worker, at, at + MS, "read", fx_kind(f, "read"));
            fx_slice(f, worker, at + MS, at + 5 * MS, "decode", fx_kind(f, "decode"));
            fx_slice(f, worker, at + 5 * MS, at + 6 * MS, "queue_wait", fx_kind(f, "queue_wait"));
            if (collates)
                fx_slice(f, worker, at + 6 * MS, at + 8 * MS, "collate", fx_kind(f, "collate"));
        }
        const struct an_loader *loader = &fx_analyze(f)->loader;
        assert_near(loader->batch_ms.value, collates ? 7 : 5, 1e-6);
        assert_int_equal(loader->quick_batch_ms.valid, collates);
        if (collates)
            assert_near(loader->quick_batch_ms.value, 7, 1e-6);
        fx_close(f);
    }
}

/* What to change names what binds, in the words of the framework; undone, the run is healthy on
 * input. */
static void test_advice(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_finding *x = stall(own(f, (struct shape){.in_line = true, .batch = 24000}));
    assert_non_null(x);
    says(x->action, "3 loader workers");
    has_evidence(x, "a batch takes 24 ms on the step's thread, the rest of the step 10 ms");
    assert_near(x->gain.high.value, 240, 1e-6); /* handed over for nothing */
    assert_true(!x->gain.ceiling && x->gain.expected.valid && x->gain.low.valid);
    assert_true(x->gain.low.value <= x->gain.expected.value &&
                x->gain.expected.value <= x->gain.high.value);
    assert_string_equal(x->what_if, "loader.workers=3");
    says(x->method, "replay of the dependency graph");
    fx_close(f);
    x = stall(
        own(f, (struct shape){.workers = 1, .batch = 24000, .ranks = 2, .slow_batch = 30000}));
    assert_non_null(x);
    says(x->action, "3 loader workers instead of 1");
    has_evidence(x, "rank 1 waits most: 20 ms a step, rank 0 14 ms");
    fx_close(f);
    const struct an_result *r = own(f, (struct shape){.workers = 3, .batch = 24000});
    assert_null(stall(r));
    assert_int_equal(r->finding_count, 0);
    fx_close(f);
}

/* The command that verifies is the one that was run, with the option given anew. */
static void test_verify(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {.ranks = 1, .batches = 1, .workers = 1, .batch = 24000, .program = "train"};
    fx_open(f);
    own_rank(f, &s, 0);
    FX(store_run_set(f->s, "command",
                     "[\"mpirun\",\"train\",\"--workers\",\"1\",\"--data\",\"it's mine\"]"));
    for (int i = 0; i < OWN_STEPS; i++) { /* ranges of libtrain tell whose options there are */
        struct store_slice x = {.track = f->thread + 1,
                                .start = FX_BASE + i * 24000 * US,
                                .dur = 0,
                                .name = fx_string(f, "log"),
                                .category = fx_string(f, "libtrain"),
                                .detail = FX_NONE,
                                .correlation = FX_NONE};
        FX(store_slice_add(f->s, &x));
    }
    const struct an_finding *x = stall(fx_analyze(f));
    assert_non_null(x);
    says(x->action, "--workers 3 instead of 1");
    says(x->verify,
         "tacho run -o after-workers.tacho -- mpirun train --workers 3 --data 'it'\\''s mine'; "
         "tacho diff run.tacho after-workers.tacho");
    fx_close(f);
}

/* Cores that are in use already limit the workers; without samples of CPU time their number does.
 */
static void test_cores(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    /* a step of 24 ms uses 1.9 of 2 cores: without the wait it would need 22.8 ms of both */
    const struct an_result *r =
        own(f, (struct shape){.workers = 1, .batch = 24000, .cpu_cores = 1.9, .cores = 2});
    assert_int_equal(r->loader.workers_wanted.value, 3);
    assert_int_equal(r->loader.workers_needed.value, 2);
    fx_close(f);
    r = own(
        f, (struct shape){
               .workers = 1, .batch = 24000, .cpu_cores = 0.6, .cores = 2}); /* the workers sleep */
    assert_int_equal(r->loader.workers_needed.value, 3);
    fx_close(f);
    r = own(f, (struct shape){.workers = 1, .batch = 24000, .cores = 2});
    assert_int_equal(r->loader.workers_needed.value, 2);
    fx_close(f);
    r = own(f, (struct shape){.workers = 2, .batch = 24000, .cpu_cores = 2, .cores = 2});
    assert_int_equal(r->loader.workers_wanted.value, 3);
    assert_int_equal(r->loader.workers_needed.value, 2);
    says(stall(r)->action, "make the stage read cheaper");
    fx_close(f);
}

/* A serial stage: more workers are no answer, and none is given. */
static void test_serial_stages(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = own(f, (struct shape){.workers = 2, .batch = 5000, .pin = 14000});
    assert_false(r->loader.workers_needed.valid);
    assert_string_equal(r->loader.serial, "pin");
    says(r->loader.workers_needed.reason, "pin thread");
    assert_near(r->loader.expected_wait_ms_per_step.value, 4, 1e-6);
    assert_int_equal(r->loader.workers.value, 2); /* the pin thread is no worker */
    assert_near(r->loader.batch_ms.value, 5, 1e-6);
    says(stall(r)->action, "pin");
    fx_close(f);
    struct shape reads = {
        .workers = 1, .batch = 24000, .device_bytes_s = 90e6, .disk = 100e6, .cores = 2};
    r = own(f, reads);
    assert_near(r->loader.access_ratio.value, 0.9, 1e-3);
    assert_string_equal(r->loader.serial, "storage");
    assert_false(r->loader.workers_needed.valid);
    says(stall(r)->action, "faster storage");
    fx_close(f);
    reads.disk = 1000e6;
    r = own(f, reads);
    assert_near(r->loader.access_ratio.value, 0.09, 1e-4);
    assert_null(r->loader.serial);
    assert_true(r->loader.workers_needed.valid);
    says(stall(r)->action, "reads wait for storage");
    assert_string_equal(stall(r)->what_if, "loader.read=0");
    has_evidence(stall(r), "storage delivered 90 MB/s");
    fx_close(f);
    reads.disk = 0;
    r = own(f, reads);
    says(r->loader.access_ratio.reason, "tacho calibrate");
    fx_close(f);
    reads.device_bytes_s = 1; /* a byte a second */
    r = own(f, reads);
    says(r->loader.access_ratio.reason, "cached");
    says(stall(r)->action, "2 loader workers instead of 1");
    assert_near(r->loader.read_bytes_per_s.value, 1e6 / 0.024, 1e6);
    fx_close(f);
    r = own(f, (struct shape){.workers = 2, .batch = 24000, .program = "python3"});
    assert_string_equal(r->loader.serial, "interpreter");
    assert_false(r->loader.workers_needed.valid);
    says(stall(r)->action, "processes");
    fx_close(f);
    r = own(f,
            (struct shape){.workers = 2, .batch = 24000, .program = "python3", .processes = true});
    assert_null(r->loader.serial);
    assert_int_equal(r->loader.workers_needed.value, 3);
    fx_close(f);
}

/* Each rank has its own loader; its worker processes are found by who started them. */
static void test_ranks(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int processes = 0; processes < 2; processes++) {
        const struct an_loader *l = &own(f, (struct shape){.ranks = 2,
                                                           .workers = 2,
                                                           .batch = 4000,
                                                           .slow_batch = 25000,
                                                           .processes = processes})
                                         ->loader;
        assert_int_equal(l->rank_count, 2);
        assert_int_equal(l->workers.value, 2);
        assert_int_equal(l->worker_count, 4);
        for (int64_t k = 0; k < 2; k++) {
            assert_int_equal(l->ranks[k].rank, k);
            assert_int_equal(l->ranks[k].workers.value, 2);
            assert_near(l->ranks[k].batch_ms.value, k ? 25 : 4, 1e-6);
            assert_near(l->ranks[k].wait_ms_per_step.value, k ? 2.5 : 0, 1e-6);
            assert_int_equal(l->ranks[k].workers_needed.value, k ? 3 : 1);
            assert_int_equal(l->worker[2 * k].rank, k);
            assert_int_equal(l->worker[2 * k + 1].rank, k);
        }
        assert_int_equal(l->workers_needed.value, 3);
        assert_near(l->wait_ms_per_step.value, 1.25, 1e-6);
        assert_near(l->compute_samples_per_s.value, 2 * 800, 1e-6);
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marked),
                                       cmocka_unit_test(test_single),
                                       cmocka_unit_test(test_needed),
                                       cmocka_unit_test(test_frames),
                                       cmocka_unit_test(test_gaps),
                                       cmocka_unit_test(test_own),
                                       cmocka_unit_test(test_wait_follows_from_batch_and_workers),
                                       cmocka_unit_test(test_quick_batch),
                                       cmocka_unit_test(test_advice),
                                       cmocka_unit_test(test_cores),
                                       cmocka_unit_test(test_verify),
                                       cmocka_unit_test(test_serial_stages),
                                       cmocka_unit_test(test_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
