/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks beside each other: made-up ranks of which the slow one, its stage, the clocks, the data and
 * the pipeline are known.
 */
#include "tests/unit/an_gpu.h"
#include "tests/unit/rep_fixture.h"

#define US    1000
#define RANKS 4
#define STEPS 30 /* 28 are compared: the first and the last do not count */

enum { INPUT, FORWARD, BACKWARD, OPTIMIZER, STAGES };

/* Each step: four stages, an all-reduce between backward and the optimizer that ends `transfer`
 * after the last rank has come. Times in us. */
struct job {
    int ranks, steps;
    int slow, stage, more; /* of rank `slow`, in a stage; slow -1: none */
    int wander, where;     /* us that another rank takes longer in each step, and the stage */
    bool by_tokens, by_gc; /* ... with more tokens then; in a range of the collector */
    int tokens[RANKS];     /* 0: 64 */
    int input;             /* us that every rank loads on its own thread */
    bool hosts;            /* every rank on its own */
    bool inside;           /* backward waits for its gradients itself, as that of PyTorch does */
    int broadcast, more_transfer; /* us: of buffers, before forward; of the all-reduce */
    double offset[RANKS], drift[RANKS];
    const char *command;
};

static const int lasts[STAGES] = {500, 3000, 6000, 800};
static const int transfer = 400;

static int64_t by_clock(const struct job *j, int rank, int64_t us)
{
    return us * US + (int64_t)j->offset[rank] + (int64_t)(j->drift[rank] * (double)(us * US));
}

static void range(struct fixture *f, const struct job *j, int rank, int64_t track, int64_t from,
                  int64_t to, const char *name, int64_t detail, int64_t sequence)
{
    struct store_slice x = {.track = track,
                            .start = FX_BASE + by_clock(j, rank, from),
                            .dur = by_clock(j, rank, to) - by_clock(j, rank, from),
                            .name = fx_string(f, name),
                            .category = fx_string(f, "libtrain"),
                            .detail = detail,
                            .correlation = sequence};
    FX(store_slice_add(f->s, &x));
}

static int64_t comm(struct fixture *f, const char *name, int64_t bytes, int64_t communicator,
                    int64_t ranks)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.comm";
    d.collective = name;
    d.bytes = bytes;
    d.communicator = communicator;
    d.ranks = ranks;
    return fx_intern(f, &d);
}

/* Whose turn it is to be late. */
static bool is_late(const struct job *j, int rank, int step)
{
    return j->wander && rank == (step * 7 + step / 3) % j->ranks;
}

static int last_of(const struct job *j, int rank, int stage, int step)
{
    return lasts[stage] + (stage == INPUT ? j->input : 0) +
           (rank == j->slow && stage == j->stage ? j->more : 0) +
           (is_late(j, rank, step) && stage == j->where ? j->wander : 0);
}

static void one_step(struct fixture *f, const struct job *j, int rank, int64_t process,
                     int64_t thread, int64_t *at, int i)
{
    static const char *const names[] = {"input_wait", "forward", "backward", "optimizer"};
    int64_t begin = *at, t = begin, comes = 0;
    int64_t mine = (int64_t)last_of(j, rank, INPUT, i) + last_of(j, rank, FORWARD, i) +
                   last_of(j, rank, BACKWARD, i);
    for (int r = 0; r < j->ranks; r++) {
        int64_t own = (int64_t)last_of(j, r, INPUT, i) + last_of(j, r, FORWARD, i) +
                      last_of(j, r, BACKWARD, i);
        comes = own > comes ? own : comes;
    }
    /* the optimizer's delay makes the rank begin its next step later: it comes later there */
    int64_t late = j->slow >= 0 && j->stage == OPTIMIZER && rank != j->slow && i ? j->more : 0;
    int64_t end = begin + comes + transfer + late + lasts[OPTIMIZER];
    late += j->broadcast + j->more_transfer;
    (void)mine;
    int64_t work = j->input ? fx_work(f, "matrix", "fp32", 1, 1, 1) : fx_kind(f, "host");
    int64_t done = begin + comes + transfer + late;
    for (int k = 0; k < OPTIMIZER; k++) {
        if (k == FORWARD && j->broadcast) {
            range(f, j, rank, thread, t, t + j->broadcast, "buffers broadcast",
                  fx_kind(f, "comm_wait"), FX_NONE);
            t += j->broadcast;
        }
        int64_t until = k == BACKWARD && j->inside ? done : t + last_of(j, rank, k, i);
        range(f, j, rank, thread, t, until, names[k], k == INPUT ? fx_kind(f, "input_wait") : work,
              FX_NONE);
        if (j->input && k == INPUT)
            range(f, j, rank, thread, t, t + j->input, "collate", fx_kind(f, "collate"), FX_NONE);
        if (j->by_gc && k == j->where && is_late(j, rank, i))
            range(f, j, rank, thread, t, t + j->wander, "gc", FX_NONE, FX_NONE);
        t += last_of(j, rank, k, i);
    }
    range(f, j, rank, thread, t, done, "all_reduce", comm(f, "all_reduce", 1000, 1, j->ranks), i);
    end = done + last_of(j, rank, OPTIMIZER, i);
    range(f, j, rank, thread, done, end, names[OPTIMIZER], fx_kind(f, "host"), FX_NONE);
    struct store_detail d = fx_empty();
    d.schema = "tacho.step";
    range(f, j, rank, thread, begin, end, "step", fx_intern(f, &d), FX_NONE);
    int64_t tokens = j->tokens[rank] ? j->tokens[rank] : 64;
    tokens += j->by_tokens && is_late(j, rank, i) ? 16 : 0;
    struct store_step x = {.process = process,
                           .index = i,
                           .start = FX_BASE + by_clock(j, rank, begin),
                           .end = FX_BASE + by_clock(j, rank, end),
                           .tokens = tokens,
                           .samples = 8};
    FX(store_step_add(f->s, &x));
    *at = end;
}

static int64_t rank_process(struct fixture *f, int64_t rank, const char *host)
{
    struct store_process p = {.rank = rank,
                              .pid = 100 + rank,
                              .parent_pid = 1,
                              .start = FX_BASE,
                              .end = FX_NONE,
                              .exit_status = 0,
                              .host = host,
                              .program = "train",
                              .ended = "exit"};
    FX(store_process_add(f->s, &p));
    return p.id;
}

static const struct an_result *make(struct fixture *f, struct job j)
{
    j.ranks = j.ranks ? j.ranks : RANKS;
    j.steps = j.steps ? j.steps : STEPS;
    fx_open(f);
    for (int rank = 0; rank < j.ranks; rank++) {
        char host[16];
        snprintf(host, sizeof host, "node%d", j.hosts ? rank : 0);
        int64_t process = rank_process(f, rank, host),
                thread = fx_track(f, process, "thread", "main", NULL), at = 0;
        for (int i = 0; i < j.steps; i++)
            one_step(f, &j, rank, process, thread, &at, i);
    }
    if (j.command)
        FX(store_run_set(f->s, "command", j.command));
    return fx_analyze(f);
}

static const struct an_finding *found(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

static void books(const struct an_result *r)
{
    const struct an_ranks *x = &r->ranks;
    int64_t sum = 0;
    for (int k = 0; k < AN_STAGE_COUNT; k++)
        sum += x->frontier.increment_ns[k];
    assert_int_equal(sum, x->frontier.slowest_ns);
    for (size_t i = 0; i < x->row_count; i++) {
        double stages = 0;
        for (int k = 0; k < AN_STAGE_COUNT; k++)
            stages += x->row[i].stage_ms[k].value;
        assert_near(stages, x->row[i].step_ms.value, 1e-9);
        assert_near(x->row[i].own_ms.value + x->row[i].waiting_ms.value, x->row[i].step_ms.value,
                    1e-9);
    }
}

/* A delay in any stage of any rank: who, where, and what it would gain. */
static void test_slow_stage(void **state)
{
    static const int stages[] = {AN_STAGE_INPUT, AN_STAGE_FORWARD, AN_STAGE_BACKWARD,
                                 AN_STAGE_OPTIMIZER};
    (void)state;
    for (int i = 0; i < 2 * STAGES; i++) {
        struct fixture fixture, *f = &fixture;
        int k = i % STAGES;
        const struct an_result *r =
            make(f, (struct job){.slow = k, .stage = k, .more = 2000, .inside = i >= STAGES});
        const struct an_ranks *x = &r->ranks;
        assert_null(x->reason);
        assert_int_equal(x->steps, STEPS - 2);
        books(r);
        assert_int_equal(x->straggler.count, 1);
        assert_int_equal(x->straggler.rank, k);
        assert_int_equal(x->frontier.stage, stages[k]);
        assert_int_equal(x->frontier.rank, k);
        assert_near(x->frontier.delay_ms.value, 2, 0.3);
        assert_near(x->straggler.excess_pct.value, 100 * 2000 / 10700.,
                    1e-6); /* 10.3 ms of stages, 0.4 of transfer */
        assert_near(x->straggler.gain_pct.value, 100 * (12700 / 10700. - 1), 1e-6);
        assert_string_equal(x->row[k].verdict, "straggler");
        assert_string_equal(x->row[(k + 1) % RANKS].verdict, "none");
        assert_non_null(found(r, "STRAGGLER"));
        assert_null(found(r, "UNEVEN_DATA"));
        assert_null(found(r, "EXPOSED_COMM")); /* the waiting is the rank's */
        const struct an_finding *stage = found(r, "SLOW_STAGE");
        assert_non_null(stage);
        assert_true(stage > found(r, "STRAGGLER")); /* which names the stage: it repeats that one */
        assert_string_equal(stage->repeats ? stage->repeats : "", "STRAGGLER");
        assert_null(found(r, "STRAGGLER")->repeats);
        assert_non_null(strstr(stage->claim, an_stage_key((enum an_step_stage)stages[k])));
        assert_near(stage->gain.expected.value, 100 * (12700 / 10700. - 1), 0.1);
        assert_near(found(r, "STRAGGLER")->gain.expected.value, 100 * (12700 / 10700. - 1), 0.1);
        fx_close(f);
    }
}

/* A rank that takes 14 ms more, and 12 ms of loading in line on both: most of what is not compute
 * is input, and all the same more goes with the rank. */
static void test_straggler_beside_a_loader(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = make(
        f, (struct job){.ranks = 2, .slow = 1, .stage = FORWARD, .more = 14000, .input = 12000});
    const struct an_finding *rank = found(r, "STRAGGLER"), *input = found(r, "INPUT_STALL");
    assert_non_null(rank);
    assert_non_null(input);
    assert_string_equal(r->verdict_class, "INPUT-BOUND");
    assert_true(rank->gain.expected.value > input->gain.expected.value);
    assert_true(rank < input);
    fx_close(f);
}

/* Ranks that take turns: none is a straggler, and all the same each step waits for one. */
static void test_jitter(void **state)
{
    static const char *const causes[] = {NULL, "batch tokens", "collector"};
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct fixture fixture, *f = &fixture;
        const struct an_result *r = make(f, (struct job){.slow = -1,
                                                         .wander = 1500,
                                                         .where = BACKWARD,
                                                         .by_tokens = k == 1,
                                                         .by_gc = k == 2});
        const struct an_jitter *jitter = &r->ranks.jitter;
        assert_int_equal(r->ranks.straggler.count, 0);
        assert_null(jitter->reason);
        assert_near(jitter->ms.value, 1.5, 1e-9);
        assert_near(jitter->pct.value, 100 * 1500 / 12200., 0.01);
        assert_int_equal(jitter->stage, AN_STAGE_BACKWARD);
        assert_int_equal(jitter->ranks, RANKS);
        if (causes[k])
            assert_string_equal(jitter->cause, causes[k]);
        else
            assert_null(jitter->cause);
        const struct an_finding *finding = found(r, "RANK_JITTER");
        assert_non_null(finding);
        assert_null(found(r, "STRAGGLER"));
        assert_true(finding->gain.low.value <= finding->gain.high.value);
        assert_true(finding->gain.high.value <= 100 * (12200 / 10700. - 1) + 0.1);
        fx_close(f);
    }
}

static void test_none(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = make(f, (struct job){.slow = -1});
    assert_null(found(r, "RANK_JITTER"));
    assert_near(r->ranks.jitter.pct.value, 0, 1e-9);
    books(r);
    assert_null(r->ranks.straggler.reason);
    assert_string_equal(r->ranks.straggler.says, "none");
    assert_int_equal(r->ranks.frontier.stage, AN_STAGE_COUNT);
    assert_null(found(r, "STRAGGLER"));
    assert_null(found(r, "SLOW_STAGE"));
    fx_close(f);
    r = make(f,
             (struct job){.slow = 1, .stage = FORWARD, .more = 150}); /* 1.4 %: below the margin */
    assert_int_equal(r->ranks.straggler.count, 0);
    fx_close(f);
    r = make(f, (struct job){.slow = 1, .stage = FORWARD, .more = 3000, .steps = 15});
    assert_non_null(strstr(r->ranks.straggler.reason, "13 compared steps: at least 20 are needed"));
    assert_string_equal(r->ranks.row[1].verdict, "not tested");
    fx_close(f);
    r = make(f, (struct job){.slow = 1, .stage = FORWARD, .more = 3000, .ranks = 2});
    assert_string_equal(r->ranks.straggler.says, "rank 1 (the slower of two)");
    fx_close(f);
}

static void test_uneven_data(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r =
        make(f, (struct job){.slow = 2, .stage = FORWARD, .more = 3000, .tokens = {0, 0, 96, 0}});
    assert_true(r->ranks.uneven.found && r->ranks.straggler.by_data);
    assert_int_equal(r->ranks.uneven.rank, 2);
    assert_near(r->ranks.uneven.max_over_mean.value, 96 / 72., 1e-9);
    assert_non_null(found(r, "UNEVEN_DATA"));
    assert_null(found(r, "STRAGGLER"));
    assert_null(found(r, "SLOW_STAGE"));
    assert_null(found(r, "EXPOSED_COMM"));
    assert_null(strstr(found(r, "UNEVEN_DATA")->action, "--uneven"));
    fx_close(f);
    r = make(f, (struct job){.slow = 2,
                             .stage = FORWARD,
                             .more = 3000,
                             .tokens = {0, 0, 96, 0},
                             .command = "[\"train\",\"--uneven\",\"2=1\"]"});
    assert_non_null(strstr(found(r, "UNEVEN_DATA")->action, "--uneven imitates it: run without"));
    fx_close(f);
    r = make(f, (struct job){.slow = 2,
                             .stage = FORWARD,
                             .more = 3000,
                             .tokens = {96, 0, 0, 0}, /* another rank gets more */
                             .command = "[\"train\",\"--slow-rank\",\"2=0.003\"]"});
    assert_true(r->ranks.uneven.found);
    assert_false(r->ranks.straggler.by_data);
    assert_non_null(found(r, "STRAGGLER"));
    assert_non_null(strstr(found(r, "STRAGGLER")->action, "--slow-rank imitates it: run without"));
    assert_string_equal(found(r, "STRAGGLER")->setting, "without --slow-rank");
    fx_close(f);
}

/* Offsets and drifts that were put in are what the fit finds, within its error, and the verdict
 * does not change. */
static void test_clocks(void **state)
{
    static const struct job jobs[] = {
        {.slow = 3,
         .stage = BACKWARD,
         .more = 2000,
         .hosts = true,
         .offset = {0, 2.5e9, -3e6, 7e12},
         .drift = {0, 150e-6, -200e-6, 1e-6}},
        {.slow = 3,
         .stage = BACKWARD,
         .more = 2000,
         .offset = {0, 5e6, 0, -2e7},
         .drift = {0, 0, 0, 30e-6}}, /* one host */
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture fixture, *f = &fixture;
        const struct an_result *r = make(f, jobs[i]);
        const struct an_clocks *x = &r->ranks.clocks;
        assert_null(x->reason);
        assert_int_equal(x->row_count, RANKS);
        assert_int_equal(r->ranks.straggler.rank, 3);
        assert_int_equal(r->ranks.frontier.stage, AN_STAGE_BACKWARD);
        for (int k = 1; k < RANKS; k++) {
            const struct an_clock_row *c = &x->row[k];
            bool off = jobs[i].offset[k] != 0;
            assert_int_equal(c->corrected, off);
            if (!off)
                continue;
            double middle = STEPS * 12700e3 / 2; /* the fit's offset is that of the middle, about */
            double truth = -(jobs[i].offset[k] + jobs[i].drift[k] * middle);
            assert_true(c->error_ns.value > 0 && c->error_ns.value < 5e5);
            assert_near(c->offset_ns.value, truth,
                        c->error_ns.value + fabs(jobs[i].drift[k]) * 2e8);
            assert_true(c->offset_low_ns.value <= c->offset_ns.value &&
                        c->offset_ns.value <= c->offset_high_ns.value);
            assert_near(c->drift_ppm.value, -1e6 * jobs[i].drift[k],
                        c->drift_error_ppm.value + 0.1);
        }
        assert_near(x->row[0].offset_ns.value, 0, 0);
        assert_true(r->communication.skew_ms.valid); /* 2 ms, above the error */
        assert_near(r->communication.skew_ms.value, 2, 0.4);
        fx_close(f);
    }
}

/* Skew below the error of the clocks is not known. */
static void test_small_skew(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = make(
        f,
        (struct job){
            .slow = 1, .stage = FORWARD, .more = 100, .hosts = true, .offset = {0, 1e9, 1e9, 1e9}});
    assert_false(r->communication.skew_ms.valid);
    assert_non_null(strstr(r->communication.skew_ms.reason, "the precision of the ranks"));
    fx_close(f);
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------- */

/* Kernels of a rank in each step of `step` us: compute, then an all-reduce that ends together. */
static void device_rank(struct fixture *f, int64_t rank, int compute, int64_t ranks,
                        const char *sequence, int steps)
{
    int64_t process = rank_process(f, rank, ""),
            thread = fx_track(f, process, "thread", "main", NULL);
    int64_t stream = gpu_stream(f, process, "gpu:0", 7);
    for (int i = 0; i < steps; i++) {
        int64_t at = i * 10000LL * US;
        char name[32], payload[64];
        struct store_detail d = fx_empty();
        d.schema = "torch.comm";
        d.collective = "all_reduce";
        d.bytes = 1000;
        d.communicator = 5;
        d.ranks = ranks;
        snprintf(payload, sizeof payload, sequence, i);
        d.payload = payload;
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_host_ns(f, thread, at, at + 9900 * US, name, "annotation", FX_NONE);
        gpu_host_ns(f, thread, at + 10 * US, at + 20 * US, "cudaLaunchKernel", "runtime",
                    1000 * rank + 2 * i);
        gpu_kernel_ns(f, stream, at + 20 * US, at + compute * US, "gemm", 1000 * rank + 2 * i);
        gpu_host_ns(f, thread, at + 30 * US, at + 40 * US, "cudaLaunchKernel", "runtime",
                    1000 * rank + 2 * i + 1);
        gpu_row_ns(f, stream, at + compute * US, at + 9000 * US,
                   "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "kernel", fx_intern(f, &d),
                   1000 * rank + 2 * i + 1);
    }
}

static void test_devices(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int k = 0; k < 3;
         k++) { /* with sequence numbers; without; without, and one of three ranks is missing */
        fx_open(f);
        FX(store_run_set(f->s, "source", "kineto"));
        device_rank(f, 0, 6000, k == 2 ? 3 : 2, k ? "{}" : "{\"sequence\":%d}", 26);
        device_rank(f, k == 2 ? 2 : 1, 8000, k == 2 ? 3 : 2, k ? "{}" : "{\"sequence\":%d}", 26);
        const struct an_result *r = fx_analyze(f);
        const struct an_communication *x = &r->communication;
        assert_int_equal(x->rank_count, 2);
        assert_near(x->ranks[0].waiting_ms.value, 2, 1e-9);
        assert_near(x->ranks[1].waiting_ms.value, 0, 1e-9);
        assert_near(x->ranks[0].transfer_ms.value, 1, 1e-9);
        assert_near(x->ranks[1].caused_ms.value, 2, 1e-9);
        assert_int_equal(x->matched, 52);
        assert_near(x->collectives[0].waiting_ms.value, 1, 1e-9);
        assert_int_equal(r->ranks.straggler.rank, k == 2 ? 2 : 1);
        assert_non_null(strstr(r->ranks.straggler.says, "the slower of two"));
        assert_int_equal(r->ranks.frontier.stage,
                         AN_STAGE_COMPUTE); /* one thread launches everything */
        if (k == 2)
            assert_non_null(strstr(r->ranks.missing, "rank 1 of 3 is not in the file"));
        else
            assert_null(r->ranks.missing);
        fx_close(f);
    }
}

/* ---- pipelines, experts ------------------------------------------------------------------------------------------------------------- */

/* Three ranks in a chain, four micro-batches: each send of 1 us is awaited for 200 us by the next
 * rank. */
static void test_pipeline(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    for (int rank = 0; rank < 3; rank++) {
        int64_t process = rank_process(f, rank, "node"),
                thread = fx_track(f, process, "thread", "main", NULL);
        for (int i = 0; i < 25; i++) {
            int64_t at = i * 10000LL;
            fx_step(f, process, thread, i, at * US, (at + 9000) * US, 64, false);
            for (int k = 0; k < 4; k++) {
                int64_t t = at + 1000 * k;
                struct job none = {.ranks = 3};
                if (rank)
                    range(f, &none, rank, thread, t + 300 * rank, t + 300 * rank + 201, "recv",
                          comm(f, "recv", 100, 10 + rank, 2), 4 * i + k);
                if (rank < 2)
                    range(f, &none, rank, thread, t + 300 * rank + 500, t + 300 * rank + 501,
                          "send", comm(f, "send", 100, 11 + rank, 2), 4 * i + k);
            }
        }
    }
    const struct an_result *r = fx_analyze(f);
    const struct an_pipeline *p = &r->ranks.pipeline;
    assert_null(p->reason);
    assert_int_equal(p->stages, 3);
    assert_int_equal(p->micro_batches, 4);
    assert_near(p->ideal_pct.value, 100 * 2 / 6., 1e-9);
    assert_near(p->bubble_ms.value, 4 * 0.2 * 2 / 3, 1e-9); /* the first stage waits for nobody */
    assert_int_equal(r->ranks.straggler.count, 0);          /* stages differ by design */
    assert_non_null(strstr(r->ranks.row[0].verdict, "no peers"));
    fx_close(f);
}

static void test_experts(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    for (int rank = 0; rank < 4; rank++) {
        int64_t process = rank_process(f, rank, "node"),
                thread = fx_track(f, process, "thread", "main", NULL);
        struct job none = {.ranks = 4};
        for (int i = 0; i < 25; i++) {
            fx_step(f, process, thread, i, i * 10000LL * US, (i * 10000LL + 9000) * US, 64, false);
            /* the others wait 0.4 of 10 ms for the rank with most bytes: worth a finding */
            range(f, &none, rank, thread, i * 10000LL + (rank == 3 ? 500 : 100), i * 10000LL + 900,
                  "all_to_all", comm(f, "all_to_all", rank == 3 ? 3000 : 1000, 1, 4), i);
        }
    }
    const struct an_result *r = fx_analyze(f);
    assert_null(r->ranks.experts.reason);
    assert_int_equal(r->ranks.experts.rank, 3);
    assert_near(r->ranks.experts.max_over_mean.value, 2, 1e-9);
    assert_near(r->ranks.row[3].all_to_all_bytes.value, 3000, 1e-9);
    assert_non_null(found(r, "EXPERT_IMBALANCE"));
    fx_close(f);
}

/* The part of the step whose end gains so many per cent. */
static double lost(double gain)
{
    return gain / (100 + gain);
}

/* What an argument switches off goes before all of the exposed communication: its gain is promised.
 * One that is so short that it is only a ceiling goes after it. */
static void test_habit_of_ranks(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct an_result *r = make(
            f, (struct job){
                   .slow = -1, .broadcast = i ? 350 : 3000, .more_transfer = 4600, .input = 1});
        const struct an_finding *all = found(r, "EXPOSED_COMM"), *habit = found(r, "DDP_BUFFERS");
        assert_non_null(all);
        assert_non_null(habit);
        assert_int_equal(habit->gain.ceiling, i == 1);
        assert_int_equal(habit < all, i == 0);
        if (i == 0) { /* 0.9 times the broadcasts, 0.5 to 1.25 times */
            double share = lost(habit->gain.expected.value) / 0.9;
            assert_near(lost(habit->gain.low.value), 0.5 * share, 1e-6);
            assert_near(lost(habit->gain.high.value), share * (1 + 0.25 * (1 - share)), 1e-6);
            assert_near(share, 3e6 * (double)r->budget.steps / (double)r->budget.step_ns, 0.01);
        }
        fx_close(f);
    }
}

/* The stages of the mean step sum to the step of the budget, without its phases; what no stage has
 * is said to be missing. */
static void test_stage_means(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    double sum = 0, step = (double)r->budget.step_ns / (double)r->budget.steps / 1e6;
    assert_null(r->stages.reason);
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        sum += r->stages.ms[stage].value;
    assert_near(sum, step, 1e-6);
    assert_near(r->stages.ms[AN_STAGE_INPUT].value, 0.8, 1e-9);
    assert_true(r->stages.ms[AN_STAGE_FORWARD].value > 8);
    fx_close(f);

    fx_ranges(f); /* no steps */
    r = fx_analyze(f);
    assert_non_null(r->stages.reason);
    assert_false(r->stages.ms[AN_STAGE_FORWARD].valid);
    fx_close(f);
}

struct part {
    const char *name;
    int from, to;
};

/* Ranges of one step of 10 ms, from the start of each on, in us; the names of PyTorch. */
static void stages_of(struct fixture *f, const struct part *part, size_t count)
{
    fx_open(f);
    int64_t thread = fx_track(f, f->process, "thread", "main", NULL);
    struct job j = {.slow = -1};
    for (int i = 0; i < 24; i++) {
        fx_step(f, f->process, thread, i, i * 10000 * US, (i + 1) * 10000 * US, 64, false);
        for (size_t k = 0; k < count; k++)
            range(f, &j, 0, thread, i * 10000 + part[k].from, i * 10000 + part[k].to, part[k].name,
                  FX_NONE, FX_NONE);
    }
}

/* What lies between zero_grad and the step of an optimizer is not the optimizer's. */
static void test_gaps_of_a_stage(void **state)
{
    static const struct part canonical[] = {{"Optimizer.zero_grad#AdamW.zero_grad", 0, 100},
                                            {"aten::linear", 200, 500},
                                            {"Optimizer.step#AdamW.step", 900, 1900}},
                             bare[] = {{"Optimizer.zero_grad#AdamW.zero_grad", 0, 100},
                                       {"Optimizer.step#AdamW.step", 8000, 9900}},
                             close[] = {{"forward", 0, 100},
                                        {"aten::add", 110, 115},
                                        {"forward", 120, 4000}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    stages_of(f, canonical, 3);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->stages.ms[AN_STAGE_OPTIMIZER].value, 1.1, 1e-9);
    assert_near(r->stages.ms[AN_STAGE_HOST].value, 0.8, 1e-9);
    fx_close(f);
    stages_of(f, bare, 2);
    r = fx_analyze(f);
    assert_near(r->stages.ms[AN_STAGE_OPTIMIZER].value, 2, 1e-9);
    fx_close(f);
    stages_of(f, close, 3);
    r = fx_analyze(f);
    assert_near(r->stages.ms[AN_STAGE_FORWARD].value, 4, 1e-9);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_stage),    cmocka_unit_test(test_straggler_beside_a_loader),
        cmocka_unit_test(test_jitter),        cmocka_unit_test(test_none),
        cmocka_unit_test(test_uneven_data),   cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_small_skew),    cmocka_unit_test(test_devices),
        cmocka_unit_test(test_pipeline),      cmocka_unit_test(test_experts),
        cmocka_unit_test(test_stage_means),   cmocka_unit_test(test_gaps_of_a_stage),
        cmocka_unit_test(test_habit_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
