/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines whose sends do not wait for their receivers, as the reference engine records them: a
 * made 1F1B schedule of which the makespan, the slow stage and the slow rank are known.
 */
#include "tests/unit/an_fixture.h"

#define US       1000
#define STAGES   4
#define REPLICAS 2
#define RANKS    (STAGES * REPLICAS) /* rank = stage * REPLICAS + replica */
#define MICRO    8
#define STEPS    26 /* 24 are compared: the first and the last do not count */
/* us of a message on either side, of the reduction over replicas, the optimizer and the gather */
#define POST      5
#define REDUCE    100
#define OPTIMIZER 500
#define GATHER    50

enum way { FORWARD, BACKWARD, WAYS };

static const int pass_us[WAYS] = {1000, 2000};

/* A run. Factors of 0 count as 1. */
struct job {
    double stage_factor[STAGES], rank_factor[RANKS];
    int late;    /* us that another rank takes longer in each step, in its first pass */
    bool turned; /* the highest rank comes first in the file */
    int inner;   /* us that each backward pass waits inside for another thread */
    int uneven;  /* per cent that every fifth micro-batch or so takes longer in all stages */
    int shaken;  /* per cent that passes of stage 2 take longer and shorter by turns */
};

/* One replica's step while it is made: when each stage is free, and when what each pass leaves for
 * its neighbour is there, -1: not yet. */
struct replica {
    int number, made[STAGES][WAYS];
    int64_t free_at[STAGES], there[WAYS][STAGES][MICRO];
};

struct run {
    const struct job *job;
    struct fixture *fixture; /* NULL: nothing is recorded */
    int64_t process[RANKS], thread[RANKS];
    int step;
};

static int rank_of(int stage, int replica)
{
    return stage * REPLICAS + replica;
}

/* ---- recording -------------------------------------------------------------------------------------------------------- */

static void range(const struct run *run, int rank, int64_t from, int64_t to, const char *name,
                  const char *kind)
{
    struct fixture *f = run->fixture;
    if (f)
        fx_slice(f, run->thread[rank], from * US, to * US, name,
                 kind ? fx_kind(f, kind) : fx_work(f, "other", "fp32", 0, 0, 0));
}

/* A call inside of a wait. */
static void call(const struct run *run, int rank, int64_t from, int64_t to, const char *name,
                 int64_t communicator, int64_t ranks, int64_t sequence)
{
    struct fixture *f = run->fixture;
    struct store_detail detail = fx_empty();
    if (!f)
        return;
    range(run, rank, from, to, "comm_wait", "comm_wait");
    detail.schema = "tacho.comm";
    detail.collective = name;
    detail.bytes = 1000;
    detail.communicator = communicator;
    detail.ranks = ranks;
    struct store_slice slice = {.track = run->thread[rank],
                                .start = FX_BASE + from * US,
                                .dur = (to - from) * US,
                                .name = fx_string(f, name),
                                .category = fx_string(f, "libtrain"),
                                .detail = fx_intern(f, &detail),
                                .correlation = sequence};
    FX(store_slice_add(f->s, &slice));
}

/* ---- the schedule ----------------------------------------------------------------------------------------------------- */

static enum way next_way(const struct replica *replica, int stage)
{
    const int *made = replica->made[stage];
    return made[FORWARD] < MICRO && made[FORWARD] - made[BACKWARD] < STAGES - stage ? FORWARD
                                                                                    : BACKWARD;
}

static int64_t length_of(const struct run *run, int stage, int rank, enum way way, int micro)
{
    const struct job *job = run->job;
    double by_stage = job->stage_factor[stage] > 0 ? job->stage_factor[stage] : 1,
           by_rank = job->rank_factor[rank] > 0 ? job->rank_factor[rank] : 1;
    bool late = way == FORWARD && micro == 0 && run->step % RANKS == rank,
         is_long = (7 * micro + 3 * run->step + 2 * (rank % REPLICAS)) % 5 == 0;
    double by_batch = 1 + (is_long ? job->uneven : 0) / 100.;
    if (stage == 2)
        by_batch += ((micro + run->step) % 2 ? job->shaken : -job->shaken) / 100.;
    return llround(pass_us[way] * by_stage * by_rank * by_batch) + (late ? job->late : 0) +
           (way == BACKWARD ? job->inner : 0);
}

static void record_pass(const struct run *run, int rank, enum way way, int64_t from, int64_t to)
{
    int64_t half = (from + to) / 2;
    range(run, rank, from, to, "micro_step", "micro_step");
    range(run, rank, from, half, way == FORWARD ? "simulated.forward" : "simulated.backward", NULL);
    range(run, rank, half, to, way == FORWARD ? "forward" : "backward", "host");
    if (way == BACKWARD && run->job->inner)
        range(run, rank, half + 10, half + 10 + run->job->inner, "comm_wait", "comm_wait");
}

static bool is_stage(int stage)
{
    return stage >= 0 && stage < STAGES;
}

/* The next pass of a stage, if what it needs is known. A communicator is of one way between two
 * stages of a replica. */
static bool advance(const struct run *run, struct replica *replica, int stage)
{
    enum way way = next_way(replica, stage);
    int micro = replica->made[stage][way], rank = rank_of(stage, replica->number),
        before = stage + (way == FORWARD ? -1 : 1), after = stage - (way == FORWARD ? -1 : 1);
    int64_t at = replica->free_at[stage], sequence = run->step * MICRO + micro,
            link = 1000 + 10 * (int)way + 100 * replica->number;
    if (replica->made[stage][BACKWARD] == MICRO ||
        (is_stage(before) && replica->there[way][before][micro] < 0))
        return false;
    if (is_stage(before)) {
        int64_t input = replica->there[way][before][micro];
        int64_t got = (input > at ? input : at) + POST;
        call(run, rank, at, got, "recv", link + (before < stage ? before : stage), 2, sequence);
        at = got;
    }
    int64_t length = length_of(run, stage, rank, way, micro);
    record_pass(run, rank, way, at, at + length);
    at += length;
    if (is_stage(after)) {
        call(run, rank, at, at + POST, "send", link + (after < stage ? after : stage), 2, sequence);
        at += POST;
    }
    replica->there[way][stage][micro] = replica->free_at[stage] = at;
    replica->made[stage][way]++;
    return true;
}

static void make_replica(const struct run *run, struct replica *replica, int64_t start)
{
    bool moved = true;
    memset(replica->there, -1, sizeof replica->there);
    for (int stage = 0; stage < STAGES; stage++)
        replica->free_at[stage] = start;
    while (moved) {
        moved = false;
        for (int stage = 0; stage < STAGES; stage++)
            moved = advance(run, replica, stage) || moved;
    }
}

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* A step: the replicas, the reduction over those of each stage, the optimizer, and the gather of
 * all ranks. Returns its end. */
static int64_t make_step(const struct run *run, int64_t start)
{
    struct replica replica[REPLICAS] = {{.number = 0}, {.number = 1}};
    int64_t done[STAGES], end = 0;
    make_replica(run, &replica[0], start);
    make_replica(run, &replica[1], start);
    for (int stage = 0; stage < STAGES; stage++) {
        done[stage] = larger(replica[0].free_at[stage], replica[1].free_at[stage]) + REDUCE;
        for (int i = 0; i < REPLICAS; i++) {
            int rank = rank_of(stage, i);
            call(run, rank, replica[i].free_at[stage], done[stage], "all_reduce", 100 + stage,
                 REPLICAS, run->step);
            range(run, rank, done[stage], done[stage] + OPTIMIZER, "optimizer", "host");
        }
        end = larger(end, done[stage] + OPTIMIZER + GATHER);
    }
    for (int rank = 0; rank < RANKS && run->fixture; rank++) {
        call(run, rank, done[rank / REPLICAS] + OPTIMIZER, end, "all_gather", 1, RANKS, run->step);
        fx_step(run->fixture, run->process[rank], run->thread[rank], run->step, start * US,
                end * US, 64, false);
    }
    return end;
}

/* The makespan of a step, in ms. */
static double makespan(struct job job)
{
    struct run run = {.job = &job, .step = RANKS};
    return (double)make_step(&run, 0) / 1000;
}

static const struct an_result *record(struct fixture *f, struct job job)
{
    struct run run = {.job = &job, .fixture = f};
    int64_t at = 0;
    fx_open(f);
    for (int i = 0; i < RANKS; i++) {
        int rank = job.turned ? RANKS - 1 - i : i;
        run.process[rank] = fx_process(f, rank, "train");
        run.thread[rank] = fx_track(f, run.process[rank], "thread", "main", NULL);
    }
    for (run.step = 0; run.step < STEPS; run.step++)
        at = make_step(&run, at);
    return fx_analyze(f);
}

static const struct an_finding *found(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

/* Any stage that is slow is named, with what even stages would bring; the replay takes what the
 * step took. */
static void test_slow_stage(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGES; stage++) {
        struct fixture fixture, *f = &fixture;
        struct job job = {.stage_factor = {1, 1, 1, 1}, .turned = stage % 2 == 0}, even = job;
        job.stage_factor[stage] = 1.2;
        for (int i = 0; i < STAGES; i++)
            even.stage_factor[i] = 1.05;
        const struct an_result *r = record(f, job);
        const struct an_even *x = &r->ranks.even;
        assert_null(r->ranks.pipeline.reason);
        assert_int_equal(r->ranks.pipeline.stages, STAGES);
        assert_int_equal(r->ranks.pipeline.micro_batches, MICRO);
        assert_null(x->reason);
        assert_int_equal(x->stage, stage);
        assert_near(x->recorded_ms.value, makespan(job), 1e-6);
        assert_near(x->ideal_ms.value, makespan(even), 1e-6);
        assert_near(x->stages_even_ms.value, makespan(even), 1e-6);
        assert_near(x->stages.expected.value, 100 * (makespan(job) / makespan(even) - 1), 1e-6);
        assert_near(x->batches.expected.value, 0, 1e-9);
        char claim[32];
        snprintf(claim, sizeof claim, "stage %d has ", stage);
        const struct an_finding *finding = found(r, "PIPELINE_IMBALANCE");
        assert_non_null(finding);
        assert_non_null(strstr(finding->claim, claim));
        assert_int_equal(r->ranks.straggler.count, 0);
        fx_close(f);
    }
}

/* Nothing is said of a pipeline whose stages are even; what a pass waits for inside is not its
 * work. */
static void test_even_stages(void **state)
{
    (void)state;
    for (int inner = 0; inner <= 300; inner += 300) {
        struct fixture fixture, *f = &fixture;
        const struct an_result *r = record(f, (struct job){.inner = inner});
        assert_near(r->ranks.even.recorded_ms.value, makespan((struct job){0}), 1e-6);
        assert_near(r->ranks.even.ideal_ms.value, makespan((struct job){0}), 1e-6);
        assert_null(found(r, "PIPELINE_IMBALANCE"));
        assert_null(found(r, "STRAGGLER"));
        assert_null(found(r, "RANK_JITTER"));
        fx_close(f);
    }
}

/* Micro-batches that are longer in all stages are named, and no stage. */
static void test_uneven_batches(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = record(f, (struct job){.uneven = 50});
    const struct an_finding *finding = found(r, "PIPELINE_IMBALANCE");
    assert_near(r->ranks.even.batch_correlation.value, 1, 1e-6);
    assert_non_null(finding);
    assert_non_null(strstr(finding->claim, "on different micro-batches"));
    assert_null(found(r, "STRAGGLER"));
    fx_close(f);
}

/* A stage whose passes only vary has no more work than the others: it is not named. */
static void test_shaken_stage(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r =
        record(f, (struct job){.shaken = 40, .stage_factor = {1, 1, 1.003, 1}});
    assert_int_equal(r->ranks.even.stage, 2);
    assert_true(r->ranks.even.slow_stage.low.value > 2);
    assert_true(r->ranks.even.stage_excess_pct.value < 1);
    assert_null(found(r, "PIPELINE_IMBALANCE"));
    fx_close(f);
}

/* Ranks that take turns: the pipeline waits for another one in each step, and none is named, no
 * stage either. */
static void test_turns(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = record(f, (struct job){.late = 3000});
    assert_true(r->ranks.even.batches.expected.value > 2);
    assert_true(r->ranks.even.batch_correlation.value < 0.1);
    assert_null(found(r, "PIPELINE_IMBALANCE"));
    assert_null(found(r, "STRAGGLER"));
    fx_close(f);
}

/* One rank of a stage is slow: the rank is named, and not its stage or its micro-batches. */
static void test_slow_rank(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job = {.rank_factor[5] = 1.3};
    (void)state;
    const struct an_result *r = record(f, job);
    assert_near(r->ranks.even.recorded_ms.value, makespan(job), 1e-6);
    assert_int_equal(r->ranks.even.rank, 5);
    assert_int_equal(r->ranks.straggler.count, 1);
    assert_int_equal(r->ranks.straggler.rank, 5);
    assert_non_null(found(r, "STRAGGLER"));
    assert_null(found(r, "PIPELINE_IMBALANCE"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_stage),     cmocka_unit_test(test_even_stages),
        cmocka_unit_test(test_uneven_batches), cmocka_unit_test(test_turns),
        cmocka_unit_test(test_slow_rank),      cmocka_unit_test(test_shaken_stage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
