/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a healthy run gets a finding: made-up runs of which nothing is wrong, with noise of
 * several kinds, and the share of them in which any finding has a low end above 0. All findings of
 * a run together may be wrong in 5 of 100. OTHER_PROGRAMS may be named in 1 of 100 where there are
 * none.
 */
#include <math.h>

#include "analyzers/base/stats.h"
#include "tests/unit/an_fixture.h"

#define MS    1000000
#define RUNS  100
#define STEPS 60

/* A noise model: each stage takes its time x exp(sd z), z normal with memory from step to step and
 * a part that all ranks share; stalls: in so many of the steps a rank takes half as long again. */
struct world {
    const char *name;
    int ranks;
    double sd, memory, stalls;
    double samples; /* noise of the samples of the machine, cores; 0: not sampled */
};

static double normal(uint64_t *seed)
{
    double first = (double)((an_random(seed) >> 11) + 1) / 9007199254740993.0,
           second = (double)(an_random(seed) >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(first)) * cos(6.283185307179586 * second);
}

struct job {
    struct fixture fixture;
    int64_t process[8], thread[8], at[8];
    double memory[8];
    uint64_t seed;
};

static void put(struct job *job, int rank, int64_t start, int64_t end, const char *name,
                int64_t detail, int64_t sequence)
{
    struct fixture *f = &job->fixture;
    struct store_slice slice = {.track = job->thread[rank],
                                .start = FX_BASE + start,
                                .dur = end - start,
                                .name = fx_string(f, name),
                                .category = fx_string(f, "test"),
                                .detail = detail,
                                .correlation = sequence};
    FX(store_slice_add(f->s, &slice));
}

static int64_t all_reduce(struct fixture *f, int ranks)
{
    struct store_detail detail = fx_empty();
    detail.schema = "tacho.comm";
    detail.collective = "all_reduce";
    detail.bytes = 1 << 20;
    detail.communicator = 1;
    detail.ranks = ranks;
    return fx_intern(f, &detail);
}

/* Time of the ranks' work in a step, with the noise of the world. */
static void work_of(struct job *job, const struct world *world, double *work)
{
    for (int rank = 0; rank < world->ranks; rank++) {
        double keep = sqrt(1 - world->memory * world->memory);
        job->memory[rank] = world->memory * job->memory[rank] + keep * normal(&job->seed);
        bool stalls = (double)(an_random(&job->seed) >> 11) / 9007199254740992.0 < world->stalls;
        work[rank] = 20 * MS * exp(world->sd * job->memory[rank]) * (stalls ? 1.5 : 1);
    }
}

/* One step of all ranks: forward and backward (work), the all-reduce, the optimizer. */
static void one_step(struct job *job, const struct world *world, int index)
{
    struct fixture *f = &job->fixture;
    double work[8], longest = 0;
    work_of(job, world, work);
    for (int rank = 0; rank < world->ranks; rank++)
        longest = fmax(longest, work[rank]);
    for (int rank = 0; rank < world->ranks; rank++) {
        int64_t start = job->at[rank], forward = start + (int64_t)(work[rank] / 3),
                backward = start + (int64_t)work[rank],
                met = start + (int64_t)longest + (world->ranks > 1 ? MS / 10 : 0), end = met + MS;
        fx_step(f, job->process[rank], job->thread[rank], index, start, end, 512, false);
        put(job, rank, start, forward, "forward", fx_work(f, "matrix", "fp32", 1000, 900, 900),
            FX_NONE);
        put(job, rank, forward, backward, "backward",
            fx_work(f, "matrix", "fp32", 2000, 1800, 1800), FX_NONE);
        if (world->ranks > 1)
            put(job, rank, backward, met, "all_reduce", all_reduce(f, world->ranks), index);
        put(job, rank, met, end, "optimizer", fx_work(f, "elementwise", "fp32", 10, 0, 0), FX_NONE);
        job->at[rank] = end + MS / 50;
    }
}

/* Samples of a machine of 8 cores on which nothing else runs, every 100 ms: CPU time, run-queue
 * wait and the busy share, whose ticks are off by the noise. The group of the ranks has a quota
 * that is hardly ever spent, and hardly any pressure of memory. */
static void sample(struct job *job, const struct world *world)
{
    struct fixture *f = &job->fixture;
    int64_t busy = fx_track(f, FX_NONE, "counter", "cpu_busy", "%"), wait[8], used[8], stopped[8],
            some[8], full[8];
    double waited = 0, spent = 0, stalled = 0;
    char key[64];
    FX(store_run_set(f->s, "cpu.online", "8"));
    FX(store_run_set_int(f->s, "cpu.usable", 8));
    for (int rank = 0; rank < world->ranks; rank++) {
        wait[rank] = fx_track(f, job->process[rank], "counter", "cpu_wait", "ns");
        used[rank] = fx_track(f, job->process[rank], "counter", "cpu_time", "ns");
        stopped[rank] = fx_track(f, job->process[rank], "counter", "cpu_throttled", "ns");
        some[rank] = fx_track(f, job->process[rank], "counter", "memory_stall_some", "ns");
        full[rank] = fx_track(f, job->process[rank], "counter", "memory_stall_full", "ns");
        snprintf(key, sizeof key, "process.%lld.cpu_quota", (long long)job->process[rank]);
        FX(store_run_set(f->s, key, "6"));
    }
    for (int64_t at = 0; at < job->at[0]; at += 100 * MS) {
        double off = fabs(normal(&job->seed)) * world->samples;
        fx_counter(f, busy, at, 100 * fmin(1, (world->ranks + off) / 8));
        waited += 1e5 * fabs(normal(&job->seed));
        spent += 100.0 * MS;
        stalled += 5e5 * fabs(normal(&job->seed));
        for (int rank = 0; rank < world->ranks; rank++) {
            fx_counter(f, wait[rank], at, waited);
            fx_counter(f, used[rank], at, spent);
            fx_counter(f, stopped[rank], at, stalled);
            fx_counter(f, some[rank], at, stalled);
            fx_counter(f, full[rank], at, stalled / 2);
        }
    }
}

static const struct an_result *make(struct job *job, const struct world *world, uint64_t seed)
{
    struct fixture *f = &job->fixture;
    *job = (struct job){.seed = seed};
    fx_open(f);
    for (int rank = 0; rank < world->ranks; rank++) {
        struct store_process process = {.rank = rank,
                                        .pid = 100 + rank,
                                        .parent_pid = 1,
                                        .start = FX_BASE,
                                        .end = FX_NONE,
                                        .exit_status = 0,
                                        .host = "node",
                                        .program = "train",
                                        .ended = "exit"};
        struct store_track track = {.tid = 100 + rank, .kind = "thread", .name = "main"};
        FX(store_process_add(f->s, &process));
        job->process[rank] = track.process = process.id;
        FX(store_track_add(f->s, &track));
        job->thread[rank] = track.id;
    }
    for (int step = 0; step < STEPS; step++)
        one_step(job, world, step);
    if (world->samples > 0)
        sample(job, world);
    return fx_analyze(f);
}

static void test_healthy(void **state)
{
    static const struct world worlds[] = {
        {"one rank, independent noise", 1, 0.02, 0, 0, 0},
        {"one rank, drift", 1, 0.05, 0.9, 0, 0},
        {"one rank, stalls", 1, 0.02, 0.3, 0.03, 0},
        {"one rank, sampled quiet machine", 1, 0.02, 0.3, 0, 0.1},
        {"4 ranks, little noise", 4, 0.005, 0, 0, 0},
        {"4 ranks, slow drift", 4, 0.008, 0.9, 0, 0},
        {"4 ranks, sampled quiet machine", 4, 0.008, 0.3, 0, 0.1},
        {"8 ranks, little noise", 8, 0.008, 0.3, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        int wrong = 0, others = 0;
        char first[64] = "";
        for (int run = 0; run < RUNS; run++) {
            struct job job;
            const struct an_result *r = make(&job, &worlds[i], 7919 * (uint64_t)(run + 1) + i);
            bool any = false;
            for (size_t k = 0; k < r->finding_count; k++) {
                const struct an_finding *finding = &r->findings[k];
                bool claims = finding->gain.low.valid && finding->gain.low.value > 0;
                any = any || claims;
                others += !strcmp(finding->id, "OTHER_PROGRAMS");
                if (claims && !*first)
                    snprintf(first, sizeof first, "%s", finding->id);
            }
            wrong += any;
            fx_close(&job.fixture);
        }
        printf(
            "%-34s noise %.1f %%, memory %.1f, stalls %.0f %%: any finding in %d of %d runs%s%s, "
            "OTHER_PROGRAMS in %d\n",
            worlds[i].name, 100 * worlds[i].sd, worlds[i].memory, 100 * worlds[i].stalls, wrong,
            RUNS, *first ? ", the first " : "", first, others);
        assert_true(wrong * 100 <= 5 * RUNS);
        assert_true(others * 100 <= RUNS);
    }
}

/* The same runs with much noise between ranks lose time to it: that is found. */
static void test_noise_that_costs(void **state)
{
    static const struct world world = {"4 ranks, much noise", 4, 0.08, 0, 0, 0};
    int found = 0;
    (void)state;
    for (int run = 0; run < 10; run++) {
        struct job job;
        const struct an_result *r = make(&job, &world, 104729 * (uint64_t)(run + 1));
        for (size_t k = 0; k < r->finding_count; k++)
            found += !strcmp(r->findings[k].id, "RANK_JITTER");
        fx_close(&job.fixture);
    }
    printf("%-34s noise %.1f %%: RANK_JITTER in %d of 10 runs\n", world.name, 100 * world.sd,
           found);
    assert_int_equal(found, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_healthy),
                                       cmocka_unit_test(test_noise_that_costs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
