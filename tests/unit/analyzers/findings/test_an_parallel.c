/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of PyTorch's parallel layers on the CPU: buckets of DistributedDataParallel with its own
 * timers, gathers of FSDP by pass and by the memory that is left, if that is known. Two ranks,
 * steps of 100 ms.
 */
#include "tests/unit/an_fixture.h"

#define MS    1000000ll
#define STEPS 24
#define MIB   (1 << 20)

struct job {
    struct fixture *f;
    int64_t process[2], track[2];
};

static void open_job(struct job *job, struct fixture *f)
{
    job->f = f;
    fx_open(f);
    for (int64_t rank = 0; rank < 2; rank++) {
        job->process[rank] = fx_process(f, rank, "train");
        job->track[rank] = fx_track(f, job->process[rank], "thread", "steps", NULL);
    }
}

static void add_call(struct job *job, int64_t rank, int64_t start_ms, int64_t ms, const char *name,
                     int64_t detail, int64_t sequence)
{
    struct fixture *f = job->f;
    struct store_slice slice = {.track = job->track[rank],
                                .start = FX_BASE + start_ms * MS,
                                .dur = ms * MS,
                                .name = fx_string(f, name),
                                .category = fx_string(f, "torch"),
                                .detail = detail,
                                .correlation = sequence};
    FX(store_slice_add(f->s, &slice));
}

static void add(struct job *job, int64_t rank, int64_t start_ms, int64_t ms, const char *name,
                int64_t detail)
{
    add_call(job, rank, start_ms, ms, name, detail, FX_NONE);
}

static int64_t comm(struct job *job, const char *collective, int64_t bytes)
{
    struct store_detail detail = fx_empty();
    detail.schema = "tacho.comm";
    detail.collective = collective;
    detail.ranks = 2;
    detail.communicator = 1;
    detail.bytes = bytes;
    return fx_intern(job->f, &detail);
}

static void counter(struct job *job, const char *name, double value)
{
    for (int rank = 0; rank < 2; rank++) {
        int64_t track = fx_track(job->f, job->process[rank], "counter", name, "");
        for (int i = 0; i < 10; i++)
            fx_counter(job->f, track, (i * 100 + 50) * MS, value);
    }
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

/* Steps whose last 20 of 100 ms are so many calls of a collective, all ranks at once. */
static void add_steps(struct job *job, struct fixture *f, int calls, const char *collective,
                      const char *name, int64_t bytes)
{
    open_job(job, f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000),
            call = comm(job, collective, bytes);
    for (int i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++) {
            fx_step(f, job->process[rank], job->track[rank], i, i * 100 * MS, (i + 1) * 100 * MS,
                    64, false);
            add(job, rank, i * 100, 80, "backward", work);
            for (int k = 0; k < calls; k++)
                add_call(job, rank, i * 100 + 80 + k * 20 / calls, 20 / calls, name, call,
                         i * calls + k);
        }
}

/* What DistributedDataParallel says itself: a pass takes 30 ms of communication. */
static void add_timers(struct job *job, double buckets, double largest_mib, double all_mib,
                       double overlapped_ms)
{
    counter(job, "ddp.buckets", buckets);
    counter(job, "ddp.largest_bytes", largest_mib * MIB);
    counter(job, "ddp.gradient_bytes", all_mib * MIB);
    counter(job, "ddp.communication_ms", 30);
    counter(job, "ddp.overlapped_ms", overlapped_ms);
}

/* 20 of 100 ms wait for reductions after backward. */
static const struct an_result *replicate(struct job *job, struct fixture *f, double buckets,
                                         double largest_mib, double all_mib, double overlapped_ms)
{
    add_steps(job, f, 1, "all_reduce", "gradients reduced", FX_NONE);
    add_timers(job, buckets, largest_mib, all_mib, overlapped_ms);
    return fx_analyze(f);
}

static void test_one_large_bucket(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_finding *found = finding(replicate(&job, f, 2, 30, 32, 10), "DDP_BUCKETS");
    assert_non_null(found);
    says(found->claim, "one bucket");
    says(found->claim, "waits 20.0 % of its time");
    says(found->action, "bucket_cap_mb=4");
    says(found->evidence[1], "30 ms from the first to the last reduction of a pass, 10 ms");
    assert_near(found->gain.high.value, 25, 0.01);
    fx_close(f);
    /* what is beside backward already, or less than the smallest bucket, is no fault of buckets */
    assert_null(finding(replicate(&job, f, 2, 30, 32, 20), "DDP_BUCKETS"));
    fx_close(f);
    assert_null(finding(replicate(&job, f, 1, 0.5, 0.5, 0), "DDP_BUCKETS"));
    fx_close(f);
    assert_null(finding(replicate(&job, f, 8, 4, 32, 10), "DDP_BUCKETS"));
    fx_close(f);
}

static void test_many_small_buckets(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_finding *found = finding(replicate(&job, f, 64, 0.1, 4, 25), "DDP_BUCKETS");
    assert_non_null(found);
    says(found->claim, "64 buckets");
    fx_close(f);
}

/* Two reductions a step of 10 ms each, of one model. What they take beside backward, by PyTorch's
 * timers, is shown; the promise is a multiple of the wait.
 */
static void test_repeated_reductions_beside_backward(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    open_job(&job, f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000),
            reduce = comm(&job, "all_reduce", FX_NONE);
    for (int i = 0; i < 2 * STEPS; i++)
        for (int rank = 0; rank < 2; rank++) {
            if (i % 2 == 0)
                fx_step(f, job.process[rank], job.track[rank], i / 2, i * 50 * MS,
                        (i + 2) * 50 * MS, 64, false);
            add(&job, rank, i * 50, 40, "backward", work);
            add_call(&job, rank, i * 50 + 40, 10,
                     i % 2 ? "gradients reduced again" : "gradients reduced", reduce, i);
        }
    add_timers(&job, 8, 4, 32, 5);
    const struct an_finding *found = finding(fx_analyze(f), "DDP_SYNC_EACH_MICROSTEP");
    assert_non_null(found);
    says(found->claim, "repeat a reduction of the same model before its update and take 10.0 % of");
    says(found->evidence[2], "5 ms of it overlapped with backward");
    assert_near(found->gain.high.value, 100 * (100 / (100 - 10 * (1 + 1.1 * 0.9)) - 1), 0.01);
    fx_close(f);
}

static void silent(const struct an_result *result, const char *part)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (strstr(result->findings[i].action, part))
            fail_msg("%s says \"%s\"", result->findings[i].id, result->findings[i].action);
}

/* What is reduced beside backward is not visible: neither overlap nor buckets are advised, but by
 * DDP_BUCKETS. With or without timers of DistributedDataParallel. */
static void test_no_advice_on_what_is_not_visible(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    for (int timers = 0; timers < 2; timers++) {
        add_steps(&job, f, 1, "all_reduce", "gradients reduced", FX_NONE);
        if (timers)
            add_timers(&job, 8, 4, 32, 10);
        add(&job, 0, 0, 0, "framework DeepSpeed 0.16", FX_NONE);
        const struct an_result *result = fx_analyze(f);
        assert_false(result->communication.overlap_pct.valid);
        assert_null(finding(result, "DDP_BUCKETS"));
        says(finding(result, "EXPOSED_COMM")->action, "fewer bytes");
        says(finding(result, "EXPOSED_COMM")->claim, "20 ms of transfer");
        silent(result, "bucket");
        silent(result, "overlap");
        fx_close(f);
    }
}

/* A program that reduces its tensors one by one has no buckets to set. Beside
 * DistributedDataParallel nothing is said of larger ones while the overlapped part is not visible;
 * where it is, its buckets are those messages. */
static void test_many_calls_of_the_program(void **state)
{
    enum { BY_HAND, HIDDEN, VISIBLE };
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    for (int how = BY_HAND; how <= VISIBLE; how++) {
        if (how == HIDDEN) { /* the program's calls leave room for the wait at the end of a step */
            add_steps(&job, f, 18, "broadcast", "broadcast train.py:42", 80 << 10);
            int64_t reduce = comm(&job, "all_reduce", FX_NONE);
            for (int i = 0; i < 2 * STEPS; i++)
                add_call(&job, i % 2, i / 2 * 100 + 99, 1, "gradients reduced", reduce,
                         18 * STEPS + i / 2);
        } else {
            add_steps(&job, f, 20, "all_reduce", "all_reduce train.py:42", 80 << 10);
        }
        if (how == VISIBLE)
            add(&job, 0, 0, 0, "DistributedDataParallel.forward", FX_NONE);
        const struct an_result *result = fx_analyze(f);
        const struct an_finding *found = finding(result, "EXPOSED_COMM");
        assert_non_null(found);
        assert_int_equal(result->communication.overlap_pct.valid, how != HIDDEN);
        if (how == BY_HAND)
            says(found->action, "join tensors before the call");
        if (how == HIDDEN)
            silent(result, "larger buckets");
        if (how == VISIBLE)
            says(found->action, "cost latency, not bytes (bucket_cap_mb)");
        else
            silent(result, "bucket_cap_mb");
        fx_close(f);
    }
    add_steps(&job, f, 20, "all_reduce", "all_reduce train.py:42", 16 << 10);
    const struct an_finding *small = finding(fx_analyze(f), "SMALL_COLLECTIVE");
    assert_non_null(small);
    says(small->action, "join the tensors of these calls");
    fx_close(f);
}

/* Rank 1 computes for `compute` ms of 100 and then calls; rank 0 is there at 60 ms, and both leave
 * at the end of the step. */
static const struct an_result *call_after(struct job *job, struct fixture *f, int compute)
{
    open_job(job, f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000),
            reduce = comm(job, "all_reduce", 4);
    for (int i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++) {
            int first = rank ? compute : 60;
            fx_step(f, job->process[rank], job->track[rank], i, i * 100 * MS, (i + 1) * 100 * MS,
                    64, false);
            add(job, rank, i * 100, first, "backward", work);
            add_call(job, rank, i * 100 + first, 100 - first, "all_reduce train.py:42", reduce, i);
        }
    return fx_analyze(f);
}

/* A few bytes that take long are a fault of the program, unless they are waiting for another rank,
 * which would be waited for anywhere. */
static void test_small_calls_that_wait(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_finding *found = finding(call_after(&job, f, 60), "SMALL_COLLECTIVE");
    assert_non_null(found);
    says(found->claim, "all_reduce train.py:42");
    says(found->claim, "40.0 % of them");
    fx_close(f);
    const struct an_result *late = call_after(&job, f, 95);
    assert_null(finding(late, "SMALL_COLLECTIVE"));
    assert_true(finding(late, "STRAGGLER") || finding(late, "SLOW_STAGE"));
    fx_close(f);
}

static int64_t micro_steps; /* of a step; 0: the hook does not say */

/* Forward gathers for 10 ms and backward for 22 ms of 100; 8 MiB each time. `room_mib` of memory
 * are left; 0: it is not known what the machine has, below 0: what the ranks hold. */
static const struct an_result *shard(struct job *job, struct fixture *f, double room_mib)
{
    open_job(job, f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000),
            gather = comm(job, "all_gather", 4 * MIB);
    add(job, 0, 0, 0, "framework FSDP2 2.15.0", FX_NONE);
    for (int i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++) {
            int64_t at = i * 100;
            fx_step(f, job->process[rank], job->track[rank], i, at * MS, (at + 100) * MS, 64,
                    false);
            add(job, rank, at, 5, "all_gather", gather);
            add(job, rank, at + 5, 10, "Linear", work);
            add(job, rank, at + 15, 5, "all_gather", gather);
            add(job, rank, at + 20, 10, "Linear", work);
            add(job, rank, at + 30, 60, "backward", work);
            add(job, rank, at + 40, 10, "all_gather", gather);
            add(job, rank, at + 58, 12, "FSDP::all_gather (0)", FX_NONE); /* packs for 2 ms */
            add(job, rank, at + 60, 10, "all_gather", gather);
        }
    if (micro_steps)
        counter(job, "micro_steps", (double)micro_steps);
    if (room_mib < 0)
        FX(store_run_set(f->s, "memory.bytes", "8000000000"));
    if (room_mib > 0) { /* besides what both ranks hold: 32 MiB each */
        char text[32];
        snprintf(text, sizeof text, "%.0f", (room_mib + 64) * MIB);
        FX(store_run_set(f->s, "memory.bytes", text));
        for (int rank = 0; rank < 2; rank++) {
            int64_t track = fx_track(f, job->process[rank], "counter", "rss", "bytes");
            for (int i = 0; i < 10 * STEPS; i++)
                fx_counter(f, track, i * 10 * MS, 32.0 * MIB);
        }
    }
    return fx_analyze(f);
}

static void test_gathers_by_pass(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_result *result = shard(&job, f, 0);
    const struct an_finding *again = finding(result, "FSDP_RESHARD"),
                            *ahead = finding(result, "FSDP_PREFETCH");
    assert_non_null(again);
    assert_non_null(ahead);
    says(again->claim, "22.0 % of the step");
    says(again->action, "reshard_after_forward=False");
    says(again->evidence[1], "2 gathers a step, 8.39 MB in them");
    says(ahead->claim, "10.0 % of the step");
    assert_near(again->gain.high.value, 100 * (100 / 78.0 - 1), 0.01);
    says(again->evidence[2], "memory was not checked");
    says(again->action, "first check that each of 2 ranks of a machine can hold 8.39 MB more");
    says(again->action, "/proc/meminfo");
    assert_string_equal(result->run.around, "FSDP2 2.15.0");
    for (size_t i = 0; i < result->finding_count; i++)
        if (strstr(result->findings[i].action, "bucket"))
            fail_msg("%s: %s", result->findings[i].id, result->findings[i].action);
    fx_close(f);
}

/* Kept parameters are 8 MiB more on each of two ranks, one block ahead is 4 MiB. */
static void test_memory_that_is_left(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_result *result = shard(&job, f, 100);
    says(finding(result, "FSDP_RESHARD")->evidence[2], "8.39 MB more on each of 2 ranks");
    says(finding(result, "FSDP_RESHARD")->evidence[2], "of which 105 MB are left");
    assert_null(strstr(finding(result, "FSDP_RESHARD")->action, "first check"));
    fx_close(f);
    result = shard(&job, f, 12);
    assert_null(finding(result, "FSDP_RESHARD"));
    assert_non_null(finding(result, "FSDP_PREFETCH"));
    fx_close(f);
    micro_steps = 2; /* each of which gathers the same parameters */
    result = shard(&job, f, 12);
    micro_steps = 0;
    says(finding(result, "FSDP_RESHARD")->evidence[2], "4.19 MB more on each of 2 ranks");
    fx_close(f);
    result = shard(&job, f, -1);
    says(finding(result, "FSDP_RESHARD")->action, "first check that");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_large_bucket),
                                       cmocka_unit_test(test_many_small_buckets),
                                       cmocka_unit_test(test_no_advice_on_what_is_not_visible),
                                       cmocka_unit_test(test_repeated_reductions_beside_backward),
                                       cmocka_unit_test(test_many_calls_of_the_program),
                                       cmocka_unit_test(test_small_calls_that_wait),
                                       cmocka_unit_test(test_gathers_by_pass),
                                       cmocka_unit_test(test_memory_that_is_left)};
    return cmocka_run_group_tests_name("an_parallel", tests, NULL, NULL);
}
